/* verb_audit.c: what happened on this machine: to read, and to look for. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/checkpoint.h"
#include "engine/crypto/key.h"
#include "engine/state/audit_search.h"
#include "shell/text.h"
#include "shell/verb.h"
#include "shell/audit_words.h"

/* What a person reads of a body: name=value, without NULLs, long digests by their beginning. */
#define AUDIT_DETAIL                                                                \
	" (SELECT group_concat(key || '=' || CASE"                                  \
	"          WHEN type <> 'text' THEN value"                                  \
	"          WHEN length(value) >= 64 AND value NOT GLOB '*[^0-9a-f]*'"       \
	"          THEN substr(value, 1, 12) || '...'"                              \
	"          WHEN value = '' OR value GLOB '*[ \"=]*' THEN json_quote(value)" \
	"          ELSE value END, ' ')"                                            \
	"    FROM json_each(CASE WHEN json_valid(body) THEN body ELSE '{}' END)"    \
	"   WHERE type <> 'null') AS detail"
#define AUDIT_COLUMNS "seq, at, stream, who, entity, entity_id AS id, action, pairing, body"

static const char AUDIT_TAIL[] =
    "SELECT * FROM (SELECT " AUDIT_COLUMNS " FROM audit ORDER BY seq DESC LIMIT :n) ORDER BY seq";

static const char AUDIT_TAIL_OF[] =
    "SELECT * FROM (SELECT " AUDIT_COLUMNS " FROM audit"
    "                WHERE entity = :entity AND (:id IS NULL OR entity_id = :id)"
    "                ORDER BY seq DESC LIMIT :n) ORDER BY seq";

static const char AUDIT_LINES[] =
    "SELECT *," AUDIT_DETAIL ","
    "       json_object('seq', seq, 'at', strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch'),"
    "                   'stream', stream, 'who', who, 'entity', entity, 'id', id,"
    "                   'action', action, 'pairing', pairing, 'body', json(body))"
    "  FROM (SELECT " AUDIT_COLUMNS " FROM audit"
    "         WHERE seq > :after AND (:entity IS NULL OR entity = :entity)"
    "           AND (:id IS NULL OR entity_id = :id)) ORDER BY seq";

/* After which row the last :n begin. */
static const char AUDIT_AFTER[] =
    "SELECT coalesce(min(seq), 1 << 62) - 1 FROM (SELECT seq FROM audit"
    " WHERE (:entity IS NULL OR entity = :entity) AND (:id IS NULL OR entity_id = :id)"
    " ORDER BY seq DESC LIMIT :n)";

/* What was found, the oldest first. */
#define FOUND " FROM audit WHERE seq IN (SELECT value FROM json_each(:found)) ORDER BY seq"
static const char AUDIT_FOUND[] = "SELECT " AUDIT_COLUMNS FOUND;
static const char AUDIT_FOUND_LINES[] =
    "SELECT *," AUDIT_DETAIL " FROM (SELECT " AUDIT_COLUMNS FOUND ") ORDER BY seq";

/* SQLite would take a number for a day of its own calendar, and words like now. */
static const char AUDIT_TIME[] =
    "SELECT coalesce(CAST(round((julianday(:text) - 2440587.5) * 86400000) AS INTEGER), -1)"
    " WHERE :text GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'";
static const char AUDIT_SINCE[] = "SELECT coalesce((SELECT min(seq) FROM audit WHERE at >= :ms),"
				  "                (SELECT coalesce(max(seq), 0) + 1 FROM audit))";
static const char AUDIT_UNTIL[] = "SELECT coalesce(max(seq), -1) FROM audit WHERE at <= :ms";

static const char AUDIT_HEAD[] = "SELECT coalesce(max(seq), 0) FROM audit";

static const struct option options[] = {
    {"rows", required_argument, NULL, 'n'},
    {"follow", no_argument, NULL, 'f'},
    {"entity", required_argument, NULL, 'e'},
    {"key", required_argument, NULL, 'k'},
    {"since", required_argument, NULL, 's'},
    {"until", required_argument, NULL, 'u'},
    {"format", required_argument, NULL, 'F'},
    {"checkpoint", required_argument, NULL, 'c'},
    {"host", no_argument, NULL, CLI_HOST},
    {"mark", no_argument, NULL, 'm'},
    {NULL, 0, NULL, 0},
};

static int
read_count(const char *text, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && *value >= 0
		   ? 0
		   : cli_wrong("it takes a number of rows");
}

static int
take_option(void *ctx, int val, const char *arg)
{
	struct audit_options *o = ctx;

	switch (val) {
	case 'n':
		return read_count(arg, &o->rows);
	case 's':
		o->since = arg;
		return 0;
	case 'u':
		o->until = arg;
		return 0;
	case 'F':
		o->format = arg;
		return 0;
	case 'c':
		o->checkpoint = arg;
		return 0;
	case 'f':
		o->follow = true;
		return 0;
	case 'm':
		o->mark = true;
		return 0;
	case 'k':
		o->key = arg;
		return 0;
	default:
		o->entity = arg;
		return 0;
	}
}

int
audit_key_load(struct cli *cli, const struct audit_options *o, unsigned char pk[32])
{
	struct key *key;
	char path[PATH_MAX];

	if (o->key != NULL && checkpoint_key_read(o->key, pk) == 0)
		return 0;
	if (o->key != NULL)
		return refusal_set(&cli->refusal, "usage.wrong",
		    "a key is what bastion audit key shows, or 64 hexadecimal digits");
	if (cli->home.fd == -1 && home_open(&cli->home, cli->role, false, &cli->refusal) == -1)
		return -1;
	home_path(&cli->home, "bastion.key", path);
	if ((key = key_load(path, &cli->refusal)) == NULL)
		return -1;
	key_public(key, KEY_IDENTITY, pk);
	key_free(key);
	return 0;
}

/* The time that ${text} tells, ms UTC: "2026-11-29T17:40", or "2h" for two hours ago. */
static int
read_time(struct cli *cli, const char *text, int64_t *ms)
{
	struct stmt *q;
	int64_t ago;

	if (cli_duration(text, &ago) == 0) {
		*ms = store_now(cli->db) - ago;
		return 0;
	}
	if ((q = store_sql(cli->db, AUDIT_TIME)) == NULL)
		return -1;
	stmt_text(q, ":text", text);
	if ((*ms = stmt_value(q, -1)) != -1)
		return 0;
	return refusal_set(store_refusal(cli->db), "usage.wrong",
	    "a row's number, a time (2026-11-29, 2026-11-29T17:40, UTC) or how long ago (90s, 2h, 7d)");
}

/* The row that ${text} names; the first or the last of a time where it names one. */
static int
read_row(struct cli *cli, const char *text, const char *of_time, int64_t *row)
{
	struct stmt *q;
	int64_t ms;

	if (read_count(text, row) == 0)
		return 0;
	if (read_time(cli, text, &ms) == -1 || (q = store_sql(cli->db, of_time)) == NULL)
		return -1;
	stmt_int(q, ":ms", ms);
	return (*row = stmt_value(q, -2)) == -2 ? -1 : 0;
}

int
audit_range(struct cli *cli, const struct audit_options *o, int64_t *since, int64_t *until)
{
	*since = 1;
	*until = 0;
	if ((o->since != NULL && read_row(cli, o->since, AUDIT_SINCE, since) == -1) ||
	    (o->until != NULL && read_row(cli, o->until, AUDIT_UNTIL, until) == -1))
		return -1;
	if (*since < 1)
		*since = 1;
	if (o->until != NULL && *until == 0)
		*until = -1;
	return 0;
}

static void
bind_filter(struct stmt *q, const struct audit_options *o)
{
	stmt_text(q, ":entity", o->entity);
	stmt_text(q, ":id", o->id);
}

/* "2026-11-29 17:40:12  actor:keeper  grant 3 expired  [laptop] op=observe:cert" */
static void
show_line(struct stmt *q)
{
	const char *pairing = stmt_get_text(q, 7);
	char when[TEXT_TIME_MAX];
	int i;

	text_time(stmt_get_int(q, 1), false, when);
	printf("%s  ", when);
	text_show(stdout, stmt_get_text(q, 3), strlen(stmt_get_text(q, 3)));
	putchar(' ');
	for (i = 4; i <= 6; i++) {
		if (*stmt_get_text(q, i) != '\0')
			putchar(' ');
		text_show(stdout, stmt_get_text(q, i), strlen(stmt_get_text(q, i)));
	}
	if (*pairing != '\0') {
		fputs("  [", stdout);
		text_show(stdout, pairing, strlen(pairing));
		putchar(']');
	}
	if (!stmt_is_null(q, 9))
		fputs("  ", stdout);
	text_show(stdout, stmt_get_text(q, 9), strlen(stmt_get_text(q, 9)));
	putchar('\n');
}

static void
show_json(struct stmt *q)
{
	const char *line = stmt_get_text(q, 10);

	if (isatty(STDOUT_FILENO))
		text_show(stdout, line, strlen(line));
	else
		fputs(line, stdout);
	putchar('\n');
}

/* Show the rows behind ${*after}, which moves on. */
static int
show_rows(struct cli *cli, const struct audit_options *o, int64_t *after)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, AUDIT_LINES)) == NULL)
		return -1;
	bind_filter(q, o);
	stmt_int(q, ":after", *after);
	while ((n = stmt_step(q)) == 1) {
		*after = stmt_get_int(q, 0);
		if (cli->mode == CLI_JSON)
			show_json(q);
		else
			show_line(q);
	}
	return n;
}

bool
audit_bell(struct cli *cli, int bell, int tick)
{
	struct pollfd on[2];

	if (fflush(stdout) != 0)
		return false;
	on[0].fd = bell;
	on[0].events = POLLIN;
	on[1].fd = STDOUT_FILENO;
	on[1].events = 0;
	on[1].revents = 0;
	if (poll(on, 2, tick) == -1 && errno != EINTR)
		return false;
	store_bell_quiet(cli->db);
	return (on[1].revents & (POLLERR | POLLHUP)) == 0;
}

static int
follow(struct cli *cli, const struct audit_options *o, int64_t after)
{
	int bell, tick;

	if ((bell = store_bell(cli->db)) == -1)
		return refusal_errno(&cli->refusal, "store.failed", "the bell");
	tick = (int)store_setting(cli->db, "store.tick_ms");
	do {
		if (show_rows(cli, o, &after) == -1)
			return -1;
	} while (audit_bell(cli, bell, tick));
	return 0;
}

/* Tables, JSON and CSV as every list has them. */
static int
tail_as_list(struct cli *cli, const struct audit_options *o)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, o->entity != NULL ? AUDIT_TAIL_OF : AUDIT_TAIL)) == NULL)
		return -1;
	stmt_int(q, ":n", o->rows);
	if (o->entity != NULL)
		bind_filter(q, o);
	return cli_show(cli, q) < 0 ? -1 : 0;
}

/* Whatever comes later: at this moment there is none. */
static void
say_none(const struct cli *cli, const struct audit_options *o)
{
	if (cli->mode == CLI_TABLE && !o->follow && o->entity != NULL)
		fputs(
		    o->id == NULL ? "no row is of this kind\n" : "no row is of this one\n", stderr);
}

static int
tail_as_lines(struct cli *cli, const struct audit_options *o)
{
	struct stmt *q;
	int64_t head, after;

	/* No row at all ends as no row behind the head. */
	head = stmt_value(store_sql(cli->db, AUDIT_HEAD), 0);
	if ((q = store_sql(cli->db, AUDIT_AFTER)) == NULL)
		return -1;
	bind_filter(q, o);
	stmt_int(q, ":n", o->rows);
	if ((after = stmt_value(q, head)) >= head) {
		after = head;
		say_none(cli, o);
	}
	return o->follow ? follow(cli, o, after) : show_rows(cli, o, &after);
}

static int
audit_tail(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	int rc;

	if (argc > 0 && o->entity != NULL) {
		o->id = argv[0];
		argc--;
		argv++;
	}
	if (argc > 0)
		return cli_unexpected(cli, argv[0]);
	if (o->follow && (cli->mode == CLI_BOX || cli->mode == CLI_CSV))
		return cli_usage(cli, "--follow shows lines or JSON");
	if (cli_open(cli, ROLE_READER) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_TABLE || o->follow)
		rc = tail_as_lines(cli, o);
	else
		rc = tail_as_list(cli, o);
	return rc == -1 ? cli_refuse(cli) : 0;
}

/* The words may have come as one argument or as several. */
static int
join_words(struct cli *cli, int argc, char **argv, char words[AUDIT_SEARCH_WORDS + 1])
{
	size_t len = 0;
	int i;

	for (i = 0; i < argc; i++) {
		len += (size_t)snprintf(
		    words + len, AUDIT_SEARCH_WORDS + 1 - len, "%s%s", i == 0 ? "" : " ", argv[i]);
		if (len > AUDIT_SEARCH_WORDS)
			return refusal_set(&cli->refusal, "audit.search",
			    "more than %d bytes to look for", AUDIT_SEARCH_WORDS);
	}
	return 0;
}

static int
show_found(struct cli *cli, const char *found)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, cli->mode == CLI_TABLE ? AUDIT_FOUND_LINES : AUDIT_FOUND)) ==
	    NULL)
		return -1;
	stmt_text(q, ":found", found);
	if (cli->mode != CLI_TABLE)
		return cli_show(cli, q) < 0 ? -1 : 0;
	while ((n = stmt_step(q)) == 1)
		show_line(q);
	return n;
}

/* As grep: exit code 1 where nothing was found. */
static int
audit_search_word(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	struct audit_search search = {.entity = o->entity, .rows = o->rows};
	char words[AUDIT_SEARCH_WORDS + 1] = "", *found;
	int n;

	if (search.rows > AUDIT_SEARCH_ROWS)
		return cli_usage(cli, "-n shows at most %d rows", AUDIT_SEARCH_ROWS);
	search.words = words;
	if (join_words(cli, argc, argv, words) == -1 || cli_open(cli, ROLE_READER) != 0 ||
	    audit_range(cli, o, &search.since, &search.until) == -1 ||
	    (n = audit_search(cli->db, &search, &found)) == -1)
		return cli_refuse(cli);
	if (show_found(cli, found) == -1)
		n = -1;
	free(found);
	if (n == 0 && cli->mode == CLI_TABLE)
		fputs("no row has these words\n", stderr);
	return n == -1 ? cli_refuse(cli) : n == 0;
}

static const struct {
	const char *word;
	int (*run)(struct cli *cli, struct audit_options *o, int argc, char **argv);
} subs[] = {
    {"tail", audit_tail},
    {"search", audit_search_word},
    {"verify", audit_verify_word},
    {"export", audit_export_word},
    {"key", audit_key_word},
    {"checkpoint", audit_checkpoint_word},
    {"prove", audit_prove_word},
    {"consistency", audit_consistency_word},
};

/*
 * VERB: audit
 *
 * usage: bastion audit [tail] [-n ROWS] [-f] [--entity ENTITY [ID]] [--json]
 *        bastion audit search WORDS [-n ROWS] [--entity ENTITY] [--since WHEN] [--until WHEN]
 *        bastion audit export [FILE] [--format jsonl|csv|cef|ecs] [--since WHEN] [--until WHEN]
 *                             [--follow | --mark]
 *        bastion audit verify [FILE] [--checkpoint FILE] [--key KEY] [--json]
 *        bastion audit checkpoint [ROWS]
 *        bastion audit prove ROW
 *        bastion audit consistency OLD [NEW]
 *        bastion audit key
 *
 * Show what happened on this machine, look for it, take it away, or prove that nobody changed it.
 *
 * tail shows the last rows (20 unless -n says otherwise): when, who, what. -f goes on as more is
 * written; with --json it then writes one object a line. --entity keeps to the rows of one kind,
 * or of one thing: --entity grant 3.
 *
 * search shows the newest rows that have all the WORDS in them, in any case. "words in a row" stay
 * together, begin* stands for all that begin so, OR between two takes either, NOT before one
 * leaves rows with it out. The exit code is 1 where there is none. WHEN is the number of a row, a
 * time in UTC (2026-11-29, 2026-11-29T17:40), or how long ago (90s, 2h, 7d).
 *
 * export writes one row a line: jsonl has all it takes to check the chain elsewhere, csv has a
 * header, cef and ecs are what collectors of logs take as they are. With --follow it goes on as
 * more is written; jsonl then waits for the seal that vouches for the rows. With --mark it says
 * that the rows of FILE are kept elsewhere, so that they may go from here once they are as old as
 * the setting retention.audit allows.
 *
 * verify computes every hash anew and checks every seal and checkpoint with the machine's public
 * key, taken from its key file or from --key. FILE is a copy of a database, an export in jsonl, or
 * a proof. With --checkpoint the chain must also be the one that this older checkpoint is of, so
 * keep one in another place: it shows rows that were cut off together with their seals. The exit
 * code is 0 for a whole chain; 1 for one that is not, with the first row that is wrong.
 *
 * checkpoint prints the newest signed checkpoint of the audit's hash tree
 * (c2sp.org/tlog-checkpoint), or the one of so many ROWS. prove prints a proof that a row is under
 * the newest one (c2sp.org/tlog-proof), consistency a proof that the one of NEW rows goes on from
 * OLD rows without a change. key prints the public key that all of this takes, as signed notes have
 * it. With --host, all of them are about the Host on this machine.
 */
int
verb_audit(struct cli *cli, int argc, char **argv)
{
	struct audit_options o = {.rows = 20};
	int first;
	size_t i;

	if ((first = cli_options(cli, argc, argv, options, take_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	for (i = 0; first < argc && i < sizeof(subs) / sizeof(subs[0]); i++) {
		if (strcmp(argv[first], subs[i].word) == 0)
			return subs[i].run(cli, &o, argc - first - 1, argv + first + 1);
	}
	return audit_tail(cli, &o, argc - first, argv + first);
}
