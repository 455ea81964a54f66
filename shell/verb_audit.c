/* verb_audit.c: what happened on this machine: to read, to check, to take away. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/state/audit.h"
#include "engine/state/audit_export.h"
#include "shell/cli.h"
#include "shell/text.h"
#include "shell/verb.h"

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

/* Rows have no gap, so their number says which was the last; nothing before :since may be missing.
 */
static const char AUDIT_EXPORTED[] =
    "UPDATE audit_sink SET sent = max(sent, (SELECT min(seq) + :rows - 1 FROM audit"
    "                                         WHERE seq >= :since))"
    " WHERE name = 'export' AND :since <= sent + 1";

static const char AUDIT_HEAD[] = "SELECT coalesce(max(seq), 0) FROM audit";

/* What was asked for. */
struct audit_options {
	int64_t rows;
	int64_t since;
	bool follow, host, mark;
	const char *entity, *id;
	const char *key; /* in hexadecimal; NULL: this machine's own */
};

static const struct option options[] = {
    {"rows", required_argument, NULL, 'n'},
    {"follow", no_argument, NULL, 'f'},
    {"entity", required_argument, NULL, 'e'},
    {"key", required_argument, NULL, 'k'},
    {"since", required_argument, NULL, 's'},
    {"host", no_argument, NULL, 'H'},
    {"mark", no_argument, NULL, 'm'},
    {NULL, 0, NULL, 0},
};

static int
read_count(const char *text, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && *value >= 0 ? 0 : -1;
}

static int
take_option(void *ctx, int val, const char *arg)
{
	struct audit_options *o = ctx;

	switch (val) {
	case 'n':
		return read_count(arg, &o->rows);
	case 's':
		return read_count(arg, &o->since);
	case 'f':
		o->follow = true;
		return 0;
	case 'H':
		o->host = true;
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

/* The machine's public key: from the option, or from the key file, never from the database. */
static int
load_key(struct cli *cli, const struct audit_options *o, unsigned char pk[32])
{
	struct key *key;
	char path[PATH_MAX];
	size_t len;

	if (o->key != NULL) {
		if (strlen(o->key) != 64 ||
		    sodium_hex2bin(pk, 32, o->key, 64, NULL, &len, NULL) != 0 || len != 32)
			return refusal_set(
			    &cli->refusal, "usage.wrong", "a key is 64 hexadecimal digits");
		return 0;
	}
	if (cli->home.fd == -1 && home_open(&cli->home, cli->role, false, &cli->refusal) == -1)
		return -1;
	home_path(&cli->home, "bastion.key", path);
	if ((key = key_load(path, &cli->refusal)) == NULL)
		return -1;
	key_public(key, KEY_IDENTITY, pk);
	key_free(key);
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

/* Wait for the bell, with the slow tick beneath it.  Return false when nobody reads any more. */
static bool
wait_for_more(struct cli *cli, int bell, int tick)
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
	} while (wait_for_more(cli, bell, tick));
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
	if ((after = stmt_value(q, head)) > head)
		after = head;
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
		return cli_usage(cli, "unexpected word: %s", argv[0]);
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

static void
show_progress(void *ctx, int64_t done, int64_t total)
{
	(void)ctx;
	if (total > 0)
		fprintf(stderr, "\rchecked %" PRId64 " of %" PRId64 " rows", done, total);
	else
		fprintf(stderr, "\rchecked %" PRId64 " rows", done);
}

/* A database begins with its maker's words; anything else is taken for an export. */
static int
verify_file(struct cli *cli, const char *path, const unsigned char *pk,
    const struct audit_progress *progress, struct audit_report *report)
{
	static const char magic[16] = "SQLite format 3";
	char begin[sizeof(magic)];
	size_t len;
	FILE *f;
	int rc;

	if ((f = fopen(path, "re")) == NULL)
		return refusal_errno(&cli->refusal, "store.missing", path);
	len = fread(begin, 1, sizeof(begin), f);
	if (len != sizeof(begin) || memcmp(begin, magic, sizeof(magic)) != 0) {
		rewind(f);
		rc = audit_export_verify(f, pk, progress, report, &cli->refusal);
		fclose(f);
		return rc;
	}
	fclose(f);
	if ((cli->db = store_open_file(path, ROLE_READER, NULL, &cli->refusal)) == NULL)
		return -1;
	return audit_verify(cli->db, pk, progress, report);
}

static void
say_report(const struct audit_report *p)
{
	char from[TEXT_TIME_MAX], to[TEXT_TIME_MAX], sealed[TEXT_TIME_MAX], head[65];

	text_time(p->first_at, false, from);
	text_time(p->last_at, false, to);
	text_time(p->sealed_at, false, sealed);
	sodium_bin2hex(head, sizeof(head), p->head, sizeof(p->head));
	if (p->bad != 0)
		printf("bad: %s\n", p->what);
	printf("%s: %" PRId64 " rows, %" PRId64 " seals", p->bad != 0 ? "good before it" : "good",
	    p->rows, p->seals);
	if (p->rows > 0)
		printf(", from %s to %s", from, to);
	putchar('\n');
	if (p->base != 0) {
		text_time(p->base_at, false, from);
		printf("the audit begins at row %" PRId64
		       ": what came before was exported, and removed from %s on\n",
		    p->base, from);
	} else if (p->first > 1)
		printf("the file begins at row %" PRId64 ": what came before is not in it\n",
		    p->first);
	if (p->sealed == 0)
		printf("no seal vouches for them\n");
	else
		printf("sealed up to row %" PRId64 " at %s, head %s\n", p->sealed, sealed, head);
	if (p->sealed != 0 && p->behind > 0)
		printf(
		    "%" PRId64 " rows behind that seal are chained, not signed yet\n", p->behind);
}

static void
say_time(const char *name, int64_t ms)
{
	char when[TEXT_TIME_MAX];

	text_time(ms, true, when);
	if (ms == 0)
		printf(",\"%s\":null", name);
	else
		printf(",\"%s\":\"%s\"", name, when);
}

static void
say_report_json(const struct audit_report *p)
{
	char head[65];

	sodium_bin2hex(head, sizeof(head), p->head, sizeof(p->head));
	printf("{\"good\":%s,\"rows\":%" PRId64 ",\"seals\":%" PRId64 ",\"first\":%" PRId64
	       ",\"last\":%" PRId64,
	    p->bad == 0 ? "true" : "false", p->rows, p->seals, p->first, p->last);
	say_time("first_at", p->first_at);
	say_time("last_at", p->last_at);
	printf(",\"sealed\":%" PRId64, p->sealed);
	say_time("sealed_at", p->sealed_at);
	printf(",\"base\":%" PRId64, p->base);
	printf(",\"head\":\"%s\",\"behind\":%" PRId64 ",\"bad\":", head, p->behind);
	if (p->bad == 0)
		fputs("null,\"what\":null}\n", stdout);
	else
		printf("%" PRId64 ",\"what\":\"%s\"}\n", p->bad, p->what);
}

static int
audit_check_all(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	static const struct audit_progress shown = {.fn = show_progress};
	const struct audit_progress *progress;
	struct audit_report report;
	unsigned char pk[32];
	int rc;

	if (argc > 1)
		return cli_usage(cli, "unexpected word: %s", argv[1]);
	progress = isatty(STDERR_FILENO) && cli->mode != CLI_JSON ? &shown : NULL;
	if ((argc == 0 && cli_open(cli, ROLE_READER) != 0) || load_key(cli, o, pk) == -1)
		return cli_refuse(cli);
	if (argc == 0)
		rc = audit_verify(cli->db, pk, progress, &report);
	else
		rc = verify_file(cli, argv[0], pk, progress, &report);
	if (progress != NULL)
		fputs("\r\033[K", stderr);
	if (rc == -1)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		say_report_json(&report);
	else
		say_report(&report);
	return rc == AUDIT_BAD ? 1 : 0;
}

/* A file that a program could take for the whole export exists only once it is one. */
static int64_t
export_to(struct cli *cli, const struct audit_options *o, const char *path)
{
	int64_t rows;
	FILE *f;
	int fd;

	if ((fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) == -1)
		return refusal_errno(&cli->refusal, "store.failed", path);
	if ((f = fdopen(fd, "w")) == NULL) {
		refusal_errno(&cli->refusal, "store.failed", path);
		close(fd);
		unlink(path);
		return -1;
	}
	rows = audit_export(cli->db, o->since, f);
	if (rows != -1 && fsync(fd) == -1)
		rows = refusal_errno(&cli->refusal, "store.failed", path);
	if (fclose(f) != 0 && rows != -1)
		rows = refusal_errno(&cli->refusal, "store.failed", path);
	if (rows == -1)
		unlink(path);
	return rows;
}

/* The name of the export is on the disk as well: only then may its rows be removed one day. */
static int
export_mark(struct cli *cli, const struct audit_options *o, int64_t rows, const char *path)
{
	char dir[PATH_MAX];
	struct stmt *q;
	int fd, rc;

	snprintf(dir, sizeof(dir), "%s", path);
	if ((fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return refusal_errno(&cli->refusal, "store.failed", path);
	rc = fsync(fd);
	close(fd);
	if (rc == -1)
		return refusal_errno(&cli->refusal, "store.failed", path);
	if (rows == 0)
		return 0;
	if (store_begin(cli->db) == -1)
		return -1;
	if ((q = store_sql(cli->db, AUDIT_EXPORTED)) == NULL)
		return store_rollback(cli->db);
	stmt_int(q, ":rows", rows);
	stmt_int(q, ":since", o->since);
	if (stmt_run_one(q) == -1) {
		refusal_set(store_refusal(cli->db), "audit.base",
		    "rows before %" PRId64 " were not exported and marked yet", o->since);
		return store_rollback(cli->db);
	}
	return store_commit(cli->db);
}

static int
audit_take_away(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	int64_t rows;

	if (argc > 1)
		return cli_usage(cli, "unexpected word: %s", argv[1]);
	if (o->mark && (argc == 0 || strcmp(argv[0], "-") == 0))
		return cli_usage(cli, "--mark needs a file, which can be made sure of");
	if (cli_open(cli, o->mark ? ROLE_PERSON : ROLE_READER) != 0)
		return cli_refuse(cli);
	if (argc == 0 || strcmp(argv[0], "-") == 0)
		return audit_export(cli->db, o->since, stdout) == -1 ? cli_refuse(cli) : 0;
	if ((rows = export_to(cli, o, argv[0])) == -1 ||
	    (o->mark && export_mark(cli, o, rows, argv[0]) == -1))
		return cli_refuse(cli);
	printf(cli->mode == CLI_JSON ? "{\"rows\":%" PRId64 "}\n" : "%" PRId64 " rows\n", rows);
	return 0;
}

static int
audit_key(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	unsigned char pk[32];
	char hex[65];

	if (argc > 0)
		return cli_usage(cli, "unexpected word: %s", argv[0]);
	o->key = NULL;
	if (load_key(cli, o, pk) == -1)
		return cli_refuse(cli);
	sodium_bin2hex(hex, sizeof(hex), pk, sizeof(pk));
	printf(cli->mode == CLI_JSON ? "{\"key\":\"%s\"}\n" : "%s\n", hex);
	return 0;
}

static const struct {
	const char *word;
	int (*run)(struct cli *cli, struct audit_options *o, int argc, char **argv);
} subs[] = {
    {"tail", audit_tail},
    {"verify", audit_check_all},
    {"export", audit_take_away},
    {"key", audit_key},
};

/*
 * VERB: audit
 *
 * usage: bastion audit [tail] [-n ROWS] [-f] [--entity ENTITY [ID]] [--json]
 *        bastion audit verify [FILE] [--key KEY] [--json]
 *        bastion audit export [--since SEQ] [--mark] [FILE]
 *        bastion audit key
 *
 * Show what happened on this machine, check that nobody changed it, or take it away.
 *
 * tail shows the last rows (20 unless -n says otherwise): when, who, what. -f goes on as more is
 * written; with --json it then writes one object a line. --entity keeps to the rows of one kind,
 * or of one thing: --entity grant 3.
 *
 * verify computes every hash anew and checks every seal with the machine's public key, taken from
 * its key file or from --key. FILE is a copy of a database or an export. The exit code is 0 for a
 * whole chain; 1 for one that is not, with the first row that is wrong. Rows behind the last seal
 * are vouched for by the chain alone, and a file that was cut off together with its seals looks
 * like a younger one: keep the head that verify shows in another place, and compare.
 *
 * export writes one JSON object a line, which sha256sum or a few lines of Python can check; with
 * --mark it says that these rows are kept elsewhere, so that they may go from here once they are as
 * old as the setting retention.audit allows. key shows the public key that checking takes. With
 * --host, all of them are about the Host on this machine.
 */
int
verb_audit(struct cli *cli, int argc, char **argv)
{
	struct audit_options o = {.rows = 20, .since = 1};
	int first;
	size_t i;

	if ((first = cli_options(cli, argc, argv, options, take_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	if (o.host)
		cli->role = HOME_HOST;
	for (i = 0; first < argc && i < sizeof(subs) / sizeof(subs[0]); i++) {
		if (strcmp(argv[first], subs[i].word) == 0)
			return subs[i].run(cli, &o, argc - first - 1, argv + first + 1);
	}
	return audit_tail(cli, &o, argc - first, argv + first);
}
