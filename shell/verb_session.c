/* verb_session.c: long work: begin it, look at it from anywhere, send to it, end it. */
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/state/run.h"
#include "engine/state/session.h"
#include "net/egress/authority.h"
#include "shell/attach.h"
#include "shell/cli.h"
#include "shell/export_session.h"
#include "shell/input.h"
#include "shell/remote_session.h"
#include "shell/words.h"

#define NAME_MAX_BYTES 128

static const char LIST[] =
    "SELECT name, worker, state, pid, attempts, lines, exit_code, end_reason, queued_at, again_at"
    "  FROM sessions ORDER BY id";
static const char SHOW[] =
    "SELECT s.name, s.worker, s.argv AS args, s.cwd, s.by_uid, s.state, s.end_reason, s.exit_code,"
    "  s.attempts, s.max_attempts, s.queued_at, s.started_at, s.finished_at, v.again_at, v.pid, s.lines,"
    "  s.bytes, s.first_seq, s.last_seq, s.backend, iif(s.lane IS NULL, s.net, 'lane') AS net, s.paths FROM session AS s JOIN sessions AS v ON v.id = s.id"
    " WHERE s.id = :id";
static const char TRIES[] =
    "SELECT n, state, outcome, exit_code, term_signal AS signal, launched_at, ended_at, why,"
    "  sandbox_run_id AS sandbox FROM attempt WHERE session_id = :id ORDER BY n";
static const char FIND[] = "SELECT id, lines, terminal, input FROM session WHERE name = :name";
static const char KNOWN[] = "SELECT id, lines, terminal, input FROM session WHERE id = :id";
static const char ASKS[] =
    "SELECT session, worker, what, times, last_at FROM session_asks ORDER BY last_at";
static const char RUN[] =
    "SELECT sandbox_run_id FROM attempt AS a JOIN session AS s ON s.id = a.session_id"
    " WHERE s.name = :name AND s.lane IS NOT NULL AND a.ended_at IS NULL";
static const char NAMED[] = "SELECT name FROM session WHERE id = :id";
static const char REMOVE[] = "DELETE FROM session WHERE id = :id";
static const char ENDED[] =
    "SELECT CASE WHEN s.state = 'done' THEN 0 ELSE coalesce(nullif(s.exit_code, 0), 1) END,"
    "  CASE s.end_reason"
    "   WHEN 'permanent' THEN 'said that trying again is no use (exit 76)'"
    "   WHEN 'attempts' THEN printf('failed with %d%s', s.exit_code, iif(s.max_attempts = 1, '',"
    "        printf(', the last of %d attempts', s.attempts)))"
    "   WHEN 'launch' THEN 'could not be started: ' || (SELECT why FROM attempt"
    "        WHERE session_id = s.id ORDER BY n DESC LIMIT 1)"
    "   WHEN 'cancelled' THEN 'was cancelled'"
    "   WHEN 'daemon' THEN 'was lost: the daemon that ran it died'"
    "   WHEN 'drain' THEN 'was ended, as the daemon was told to end' END"
    "  FROM session AS s WHERE s.id = :id";

struct options {
	const char *name, *cwd, *remote, *repo;
	int64_t attempts, from, tail;
	bool terminal, input, sandbox, detach, follow, end;
	enum session_form form;
};

/* The session that a word names. */
struct found {
	int64_t id, lines;
	bool terminal, input;
};

static int
take_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'n':
		return input_number(arg, &o->tail);
	case 'F':
		return input_number(arg, &o->from);
	case 'a':
		return input_number(arg, &o->attempts);
	case 'N':
		o->name = arg;
		return 0;
	case 'C':
		o->cwd = arg;
		return 0;
	case 'R':
		o->remote = arg;
		return 0;
	case 'g':
		o->repo = arg;
		return 0;
	case 't':
		o->terminal = true;
		return 0;
	case 'i':
		o->input = true;
		return 0;
	case 's':
		o->sandbox = true;
		return 0;
	case 'd':
		o->detach = true;
		return 0;
	case 'f':
		o->follow = true;
		return 0;
	case 'e':
		o->end = true;
		return 0;
	case 'J':
		o->form = SESSION_JSONL;
		return 0;
	default:
		o->form = SESSION_CAST;
		return 0;
	}
}

static int
found(struct cli *cli, struct stmt *q, struct found *f)
{
	int n;

	if ((n = stmt_step(q)) != 1)
		return n == -1 ? -1
			       : refusal_set(&cli->refusal, "session.unknown",
				     "there is no session of this name");
	*f = (struct found){stmt_get_int(q, 0), stmt_get_int(q, 1), stmt_get_int(q, 2) == 1,
	    stmt_get_int(q, 3) == 1};
	stmt_done(q);
	return 0;
}

static int
find(struct cli *cli, const char *name, struct found *f)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, FIND)) == NULL)
		return -1;
	stmt_text(q, ":name", name);
	return found(cli, q, f);
}

/* Its name may be another's by now. */
static int
find_known(struct cli *cli, int64_t id, struct found *f)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, KNOWN)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	return found(cli, q, f);
}

static int
session_remove(struct store *db, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(db, REMOVE)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	return stmt_run(q);
}

/* One change in a transaction of its own. */
static int
change(struct cli *cli, int (*make)(struct store *db, int64_t id), int64_t id)
{
	if (store_begin(cli->db) != 0)
		return -1;
	return make(cli->db, id) == 0 ? store_commit(cli->db) : store_rollback(cli->db);
}

/* What a person who looked on is told last, and the code that the program gave. */
static int
ended(struct cli *cli, const char *name, int64_t id)
{
	struct stmt *q;
	int code;

	if ((q = store_sql(cli->db, ENDED)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	if (stmt_step(q) != 1)
		return cli_refuse(cli);
	code = (int)stmt_get_int(q, 0);
	if (!stmt_is_null(q, 1))
		fprintf(stderr, "bastion: session: %s %s\n", name, stmt_get_text(q, 1));
	stmt_done(q);
	return code;
}

static int
look(struct cli *cli, const struct session_view *view, const struct found *f,
    const struct options *o, bool follow)
{
	const char *name = view->name;
	struct attach a = {.cli = cli,
	    .id = f->id,
	    .view = *view,
	    .follow = follow,
	    .typing = follow && (f->terminal || f->input)};

	if (o->tail > 0)
		a.view.from = f->lines - o->tail + 1;
	if (attach_run(&a) != 0)
		return cli_refuse(cli);
	if (a.left) {
		fprintf(stderr, "bastion: session: %s goes on: bastion session attach %s\n", name,
		    name);
		return 0;
	}
	return follow ? ended(cli, name, f->id) : 0;
}

static int
insert(struct cli *cli, const struct options *o, const char *worker, const char *words,
    const char *cwd, const char *base)
{
	struct session_ask ask = {.name = o->name == NULL ? "" : o->name,
	    .base = base,
	    .worker = worker,
	    .argv = words,
	    .cwd = cwd,
	    .uid = getuid(),
	    .terminal = o->terminal,
	    .input = o->input,
	    .sandbox = o->sandbox,
	    .attempts = o->attempts};
	struct winsize size = {.ws_row = 24, .ws_col = 80};

	if (o->terminal && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row == 0)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	ask.rows = size.ws_row;
	ask.cols = size.ws_col;
	if (store_begin(cli->db) != 0)
		return -1;
	return session_new(cli->db, &ask) != -1 ? store_commit(cli->db) : store_rollback(cli->db);
}

/* What a session is called whose person had no name for it. */
static void
base_name(const char *program, char out[NAME_MAX_BYTES - 24])
{
	const char *slash = strrchr(program, '/');
	char *at;

	snprintf(out, NAME_MAX_BYTES - 24, "%s", slash == NULL ? program : slash + 1);
	for (at = out; *at != '\0'; at++)
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_",
			*at) == NULL)
			*at = '-';
	if (out[0] == '\0' || strchr(".-_", out[0]) != NULL)
		snprintf(out, NAME_MAX_BYTES - 24, "session");
}

static int
run(struct cli *cli, const struct options *o, bool command, char **argv)
{
	char cwd[PATH_MAX], base[NAME_MAX_BYTES - 24], name[NAME_MAX_BYTES + 1];
	struct found f = {0};
	struct stmt *q;
	char *words;
	int64_t id;
	int rc;

	if (realpath(o->cwd == NULL ? "." : o->cwd, cwd) == NULL) {
		refusal_errno(&cli->refusal, "file.missing", o->cwd == NULL ? "." : o->cwd);
		return cli_refuse(cli);
	}
	base_name(argv[0], base);
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    (words = words_json(cli->db, command ? argv : argv + 1)) == NULL)
		return cli_refuse(cli);
	rc = insert(cli, o, command ? "" : argv[0], words, cwd, base);
	words_free(words);
	if (rc != 0)
		return cli_refuse(cli);
	id = store_last_id(cli->db);
	if ((q = store_sql(cli->db, NAMED)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	if (stmt_step(q) != 1)
		return cli_refuse(cli);
	snprintf(name, sizeof(name), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	if (o->detach) {
		printf(cli->mode == CLI_JSON ? "{\"name\":\"%s\"}\n" : "%s\n", name);
		return 0;
	}
	f = (struct found){.id = id, .terminal = o->terminal, .input = o->input};
	return look(cli, &(struct session_view){.name = name}, &f, o, true);
}

static int
show(struct cli *cli, const char *name)
{
	struct found f;
	struct stmt *q;
	bool people;

	if (cli_open(cli, ROLE_READER) != 0 || find(cli, name, &f) != 0)
		return cli_refuse(cli);
	if ((q = store_sql(cli->db, SHOW)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", f.id);
	people = cli->mode == CLI_TABLE;
	if (people)
		cli->mode = CLI_LINE; /* one session is read downwards */
	if (cli_show(cli, q) == -1 || (q = store_sql(cli->db, TRIES)) == NULL)
		return cli_refuse(cli);
	if (!people) {
		stmt_done(q);
		return 0;
	}
	cli->mode = CLI_TABLE;
	stmt_int(q, ":id", f.id);
	putchar('\n');
	return cli_show(cli, q) == -1 ? cli_refuse(cli) : 0;
}

/* Where it may be typed to, a person; else one who looks. */
static int
open_and_look(struct cli *cli, const struct options *o, const char *name, bool follow)
{
	struct session_view view = {.name = name, .from = o->from};
	struct found f;
	int64_t id = 0;

	if (o->from <= 1 && o->tail == 0 && attach_first(cli, name, &view, &id) != 0)
		return cli_refuse(cli);
	if (cli_open(cli, follow ? ROLE_PERSON : ROLE_READER) != 0 ||
	    (id != 0 ? find_known(cli, id, &f) : find(cli, name, &f)) != 0)
		return cli_refuse(cli);
	return look(cli, &view, &f, o, follow);
}

static int
cancel(struct cli *cli, const char *name)
{
	struct found f;

	if (cli_open(cli, ROLE_PERSON) != 0 || find(cli, name, &f) != 0 ||
	    change(cli, session_cancel, f.id) != 0)
		return cli_refuse(cli);
	return 0;
}

static int
forget(struct cli *cli, const char *name)
{
	struct found f;

	if (cli_open(cli, ROLE_PERSON) != 0 || find(cli, name, &f) != 0 ||
	    change(cli, session_remove, f.id) != 0)
		return cli_refuse(cli);
	return 0;
}

static int
send_piece(struct cli *cli, int64_t id, const char *kind, const char *data, size_t len)
{
	if (store_begin(cli->db) != 0)
		return -1;
	return session_send(cli->db, id, kind, data, len) == 0 ? store_commit(cli->db)
							       : store_rollback(cli->db);
}

/* A line of words, or what comes on standard input: a secret is nobody's argument. */
static int
send_words(struct cli *cli, const char *name, char **words, int n, bool end)
{
	static char data[65536];
	struct found f;
	size_t len = 0, got;
	int i;

	if (cli_open(cli, ROLE_PERSON) != 0 || find(cli, name, &f) != 0)
		return cli_refuse(cli);
	for (i = 0; i < n; i++)
		len += (size_t)snprintf(
		    data + len, sizeof(data) - len, "%s%s", words[i], i == n - 1 ? "\n" : " ");
	if (len >= sizeof(data))
		return cli_usage(cli, "more than 65536 bytes: send them on standard input");
	if (n > 0 && send_piece(cli, f.id, "data", data, len) != 0)
		return cli_refuse(cli);
	while (n == 0 && !end && (got = fread(data, 1, sizeof(data), stdin)) > 0)
		if (send_piece(cli, f.id, "data", data, got) != 0)
			return cli_refuse(cli);
	explicit_bzero(data, sizeof(data));
	if (end && send_piece(cli, f.id, "end", "", 0) != 0)
		return cli_refuse(cli);
	return 0;
}

/* Let a session that runs on the lane reach ${what}, as long as this try of it runs. */
static int
allow(struct cli *cli, const char *name, const char *what)
{
	struct run_rule rule = {.suffix = NULL};
	struct authority to;
	struct stmt *q;
	int64_t run;

	if (cli_open(cli, ROLE_PERSON) != 0 || authority_pattern(what, &to, &cli->refusal) != 0 ||
	    (q = store_sql(cli->db, RUN)) == NULL)
		return cli_refuse(cli);
	rule.suffix = to.host.text;
	rule.port = to.port;
	stmt_text(q, ":name", name);
	if ((run = stmt_value(q, 0)) == 0) {
		refusal_set(&cli->refusal, "session.unlaned",
		    "no session of this name runs on the internet lane now");
		return cli_refuse(cli);
	}
	return run_rule_add(cli->db, run, &rule) == 0 ? 0 : cli_refuse(cli);
}

static int export(struct cli *cli, const struct options *o, const char *name)
{
	struct found f;

	if (cli_open(cli, ROLE_READER) != 0 || find(cli, name, &f) != 0 ||
	    session_export(cli, f.id, o->form) != 0)
		return cli_refuse(cli);
	return 0;
}

static int
elsewhere(
    struct cli *cli, const struct options *o, bool command, const char *what, int n, char **words)
{
	const struct remote_session s = {.remote = o->remote,
	    .what = what,
	    .n = n,
	    .words = words,
	    .command = command,
	    .name = o->name,
	    .cwd = o->cwd,
	    .repo = o->repo,
	    .attempts = o->attempts,
	    .from = o->from,
	    .tail = o->tail,
	    .terminal = o->terminal,
	    .input = o->input,
	    .detach = o->detach,
	    .follow = o->follow,
	    .end = o->end};

	return remote_session(cli, &s);
}

/*
 * VERB: session
 *
 * usage: bastion session [ls] [--json]
 *        bastion session run [--name NAME] [--terminal | --input] [--attempts N] [--cwd DIR]
 *                            [--detach] WORKER [WORD...]
 *        bastion session run [same options] [--sandbox] -- COMMAND...
 *        bastion session attach NAME [--from LINE | -n LINES]
 *        bastion session logs NAME [--from LINE | -n LINES] [-f]
 *        bastion session show NAME [--json]
 *        bastion session send NAME [WORD...] [--end]
 *        bastion session cancel NAME
 *        bastion session rm NAME
 *        bastion session asks [--json]
 *        bastion session allow NAME HOST[:PORT]
 *        bastion session export NAME [--jsonl | --cast]
 *        bastion session ls | run | attach | logs | show | send | cancel ... --remote MACHINE
 *        bastion session run --remote MACHINE --cwd DIR --repo DIR [same options] WORKER [WORD...]
 *
 * Run work that outlives the terminal it was begun at. A session runs as the user who asked, as
 * soon as there is a place (setting session.slots), and is tried again where it crashes. A worker's
 * is held as that worker says; a command of one's own with --sandbox, where it reaches the folder
 * that it runs in and no network. Everything that it says is kept, and any number of people may
 * follow it, from the first line or any other; none loses a line that is kept (setting
 * session.history). Ctrl-C leaves it, and Ctrl-] where it has a terminal; it goes on. One person at
 * a time types to it; send does from a script, or standard input, --end ends its input. attach ends
 * with the program's own exit code. A cast plays in asciinema. asks lists what sessions on the
 * internet lane (bastion worker) wanted that no rule speaks of; allow lets one reach it from then
 * on, as long as it runs; how long it waits for that word is the setting session.ask_ms.
 *
 * With --remote all of it happens on a machine of bastion remote login, typing too; where the way
 * is cut, it goes on with the next line and the next key once there is one again. --repo copies
 * what is committed in a git work tree of this machine into the folder --cwd there, under the same
 * name, in place of the last copy and all that was changed in it, and runs in that.
 */
int
verb_session(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"name", required_argument, NULL, 'N'},
	    {"cwd", required_argument, NULL, 'C'}, {"remote", required_argument, NULL, 'R'},
	    {"attempts", required_argument, NULL, 'a'}, {"from", required_argument, NULL, 'F'},
	    {"lines", required_argument, NULL, 'n'}, {"repo", required_argument, NULL, 'g'},
	    {"terminal", no_argument, NULL, 't'}, {"input", no_argument, NULL, 'i'},
	    {"sandbox", no_argument, NULL, 's'}, {"detach", no_argument, NULL, 'd'},
	    {"follow", no_argument, NULL, 'f'}, {"end", no_argument, NULL, 'e'},
	    {"jsonl", no_argument, NULL, 'J'}, {"cast", no_argument, NULL, 'c'},
	    {NULL, 0, NULL, 0}};
	struct options o = {.form = SESSION_TEXT};
	int first, words, i;
	bool command = false;
	const char *what;

	for (i = 1; i < argc; i++)
		command = command || strcmp(argv[i], "--") == 0;
	if ((first = cli_options(cli, argc, argv, options, take_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	what = words == 0 ? "ls" : argv[first];
	argv += first + 1;
	if (o.repo != NULL && (o.remote == NULL || strcmp(what, "run") != 0))
		return cli_usage(cli, "--repo is for run --remote MACHINE");
	if (cli->mode != CLI_TABLE && (strcmp(what, "attach") == 0 || strcmp(what, "logs") == 0 ||
					  strcmp(what, "export") == 0))
		return cli_usage(cli, "what a session said is no list: bastion session export "
				      "NAME --jsonl writes it for programs");
	if (o.remote != NULL)
		return elsewhere(cli, &o, command, what, words == 0 ? 0 : words - 1, argv);
	if (strcmp(what, "run") == 0)
		return words >= 2 ? run(cli, &o, command, argv)
				  : cli_usage(cli, "name a worker, or give a command behind --");
	if (strcmp(what, "send") == 0 && words >= 2)
		return send_words(cli, argv[0], argv + 1, words - 2, o.end);
	if (words == 2 && strcmp(what, "attach") == 0)
		return open_and_look(cli, &o, argv[0], true);
	if (words == 2 && strcmp(what, "logs") == 0)
		return open_and_look(cli, &o, argv[0], o.follow);
	if (words == 2 && strcmp(what, "show") == 0)
		return show(cli, argv[0]);
	if (words == 2 && strcmp(what, "cancel") == 0)
		return cancel(cli, argv[0]);
	if (words == 1 && strcmp(what, "asks") == 0)
		return cli_open(cli, ROLE_READER) == 0
			   ? cli_list(cli, store_sql(cli->db, ASKS),
				 "No session that runs wants what no rule speaks of.")
			   : cli_refuse(cli);
	if (words == 3 && strcmp(what, "allow") == 0)
		return allow(cli, argv[0], argv[1]);
	if (words == 2 && strcmp(what, "rm") == 0)
		return forget(cli, argv[0]);
	if (words == 2 && strcmp(what, "export") == 0)
		return export(cli, &o, argv[0]);
	if (strcmp(what, "ls") != 0 || words > 1)
		return cli_unexpected(cli, what);
	return cli_list_of(cli, LIST, "No session was begun yet: bastion session run -- COMMAND");
}
