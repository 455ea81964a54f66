/* verb_worker.c: programs that sessions may run by name. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/launch.h"
#include "net/egress/authority.h"
#include "shell/cli.h"
#include "shell/input.h"
#include "shell/text.h"
#include "shell/words.h"

static const char LIST[] =
    "SELECT name, argv AS args, max_attempts, backend, iif(lane IS NULL, net, 'lane') AS net, paths,"
    "  (SELECT group_concat(value ->> 'suffix' || iif(value ->> 'port' = 0, '', ':' || (value ->> 'port')), ' ')"
    "     FROM json_each(lane)) AS reaches, by_uid, added_at FROM worker ORDER BY name";
static const char ADD[] =
    "INSERT INTO worker (name, argv, max_attempts, by_uid, added_at, backend, net, paths, lane)"
    " VALUES (:name, :argv,"
    "  coalesce(:attempts, (SELECT value FROM setting WHERE name = 'session.attempts')), :uid,"
    "  now_ms(), :backend, :net, (SELECT json_group_array(json_object("
    "    'kind', substr(value, 1, instr(value, '/') - 1), 'path', substr(value, instr(value, '/'))))"
    "   FROM json_each(:paths)),"
    "  iif(:laned, (SELECT json_group_array(json_object('suffix', suffix, 'port', port)) FROM ("
    "    SELECT substr(value, instr(value, ' ') + 1) AS suffix,"
    "           CAST(substr(value, 1, instr(value, ' ') - 1) AS INTEGER) AS port"
    "      FROM json_each(:reach) WHERE value NOT GLOB '@*'"
    "     UNION SELECT p.suffix, p.port FROM json_each(:reach) AS w"
    "      JOIN egress_preset AS p ON '@' || p.name = w.value)), NULL))";
static const char NO_PRESET[] =
    "SELECT value FROM json_each(:reach) WHERE value GLOB '@*'"
    "   AND substr(value, 2) NOT IN (SELECT name FROM egress_preset) LIMIT 1";
static const char DROP[] = "DELETE FROM worker WHERE name = :name";

#define PATHS_MAX 48 /* as the table has it */
#define REACH_MAX 64 /* likewise */

struct options {
	int64_t attempts;
	const char *backend, *net;
	char *paths[PATHS_MAX + 1]; /* "read/srv/data": the kind, and the path */
	size_t path_count;
	bool laned;
	char *reach[REACH_MAX + 1]; /* "443 github.com": the port and the name; "@npm" */
	size_t reach_count;
	struct refusal wrong; /* of a path, or of what is to be reached; no code: none */
};

static int
take_path(struct options *o, const char *kind, const char *arg)
{
	char real[PATH_MAX];

	if (o->path_count == PATHS_MAX)
		return -1;
	if (realpath(arg, real) == NULL) {
		refusal_errno(&o->wrong, "file.missing", arg);
		return 0;
	}
	if (asprintf(&o->paths[o->path_count], "%s%s", kind, real) == -1)
		return -1;
	o->path_count++;
	return 0;
}

static int
take_reach(struct options *o, const char *arg)
{
	struct authority to;
	int n;

	o->laned = true;
	if (o->reach_count == REACH_MAX)
		return -1;
	if (arg[0] == '@')
		n = asprintf(&o->reach[o->reach_count], "%s", arg);
	else if (authority_pattern(arg, &to, &o->wrong) == 0)
		n = asprintf(&o->reach[o->reach_count], "%u %s", to.port, to.host.text);
	else
		return 0;
	if (n == -1)
		return -1;
	o->reach_count++;
	return 0;
}

static int
take_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'A':
		return take_reach(o, arg);
	case 'b':
		o->backend = arg;
		return strcmp(arg, "native") == 0 || strcmp(arg, "none") == 0 ? 0 : -1;
	case 'n':
		o->laned = o->laned || strcmp(arg, "lane") == 0;
		o->net = strcmp(arg, "lane") == 0 ? NULL : arg;
		return o->net == NULL || strcmp(arg, "none") == 0 || strcmp(arg, "host") == 0 ? 0
											      : -1;
	case 'r':
		return take_path(o, "read", arg);
	case 'w':
		return take_path(o, "write", arg);
	default:
		return input_number(arg, &o->attempts);
	}
}

static int
insert(struct cli *cli, const char *name, const char *words, const char *paths, const char *reach,
    const struct options *o)
{
	struct stmt *q;

	if (store_begin(cli->db) != 0 || (q = store_sql(cli->db, ADD)) == NULL)
		return store_rollback(cli->db);
	stmt_text(q, ":name", name);
	stmt_text(q, ":argv", words);
	if (o->attempts > 0)
		stmt_int(q, ":attempts", o->attempts);
	stmt_int(q, ":uid", getuid());
	stmt_text(q, ":backend", o->backend);
	/* What nothing holds has the machine's network, asked or not. */
	stmt_text(q, ":net",
	    o->net != NULL                    ? o->net
	    : strcmp(o->backend, "none") == 0 ? "host"
					      : "none");
	stmt_text(q, ":paths", paths);
	stmt_int(q, ":laned", o->laned);
	stmt_text(q, ":reach", reach);
	return stmt_run_one(q) == 0 ? store_commit(cli->db) : store_rollback(cli->db);
}

/* The words of what is to be reached, for words_free; NULL with the refusal of the store. */
static char *
reach_json(struct store *db, const struct options *o)
{
	char *reach = words_json(db, o->reach);
	struct stmt *q;
	int n;

	if (reach == NULL || (q = store_sql(db, NO_PRESET)) == NULL)
		return NULL;
	stmt_text(q, ":reach", reach);
	if ((n = stmt_step(q)) == 0)
		return reach;
	if (n == 1) {
		refusal_set(store_refusal(db), "run.preset", "there is no preset %.32s",
		    stmt_get_text(q, 0));
		stmt_done(q);
	}
	words_free(reach);
	return NULL;
}

/* It may be installed later, so that is no refusal. */
static void
warn_missing(const char *name, const char *program)
{
	char path[LAUNCH_PATH_MAX];

	/* A relative path is of the folder that a session runs in. */
	if ((strchr(program, '/') != NULL && program[0] != '/') ||
	    launch_find(LAUNCH_PATH, program, path) != NULL)
		return;
	fprintf(stderr, "bastion: worker: %s: ", name);
	text_show(stderr, program, strlen(program));
	if (program[0] == '/')
		fprintf(stderr,
		    " cannot be run now (%s), and no session of it can start before "
		    "that\n",
		    strerror(errno));
	else
		fprintf(stderr, " is in none of the folders where sessions look (" LAUNCH_PATH
				"): install it there, or name it in full\n");
}

static int
add(struct cli *cli, const char *name, char **argv, const struct options *o)
{
	char *words, *paths = NULL, *reach = NULL;
	int rc = -1;

	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	if (o->wrong.code[0] != '\0') {
		cli->refusal = o->wrong;
		return cli_refuse(cli);
	}
	if ((words = words_json(cli->db, argv)) == NULL)
		return cli_refuse(cli);
	if ((paths = words_json(cli->db, o->paths)) != NULL &&
	    (reach = reach_json(cli->db, o)) != NULL)
		rc = insert(cli, name, words, paths, reach, o);
	words_free(words);
	words_free(paths);
	words_free(reach);
	if (rc != 0)
		return cli_refuse(cli);
	warn_missing(name, argv[0]);
	if (cli->mode != CLI_JSON)
		printf("%s is a worker. Start one: bastion session run %s\n", name, name);
	return 0;
}

static int
drop(struct cli *cli, const char *name)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_PERSON) != 0 || store_begin(cli->db) != 0)
		return cli_refuse(cli);
	if ((q = store_sql(cli->db, DROP)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":name", name);
	if (stmt_run_one(q) != 0) {
		store_rollback(cli->db);
		refusal_set(&cli->refusal, "worker.unknown", "there is no worker of this name");
		return cli_refuse(cli);
	}
	return store_commit(cli->db) == 0 ? 0 : cli_refuse(cli);
}

/* What the ${n} words ${argv} say. */
static int
verb(struct cli *cli, int n, char **argv, const struct options *o)
{
	const char *what = n == 0 ? "ls" : argv[0];

	if (strcmp(what, "add") == 0)
		return n >= 3 ? add(cli, argv[1], argv + 2, o)
			      : cli_usage(cli, "add takes a name and, behind --, a command");
	if (strcmp(what, "drop") == 0 && n == 2)
		return drop(cli, argv[1]);
	if (strcmp(what, "ls") != 0 || n > 1)
		return cli_unexpected(cli, what);
	return cli_list_of(
	    cli, LIST, "No worker has a name yet: bastion worker add NAME -- COMMAND");
}

/*
 * VERB: worker
 *
 * usage: bastion worker [ls] [--json]
 *        bastion worker add NAME [--read PATH] [--write PATH] [--net none | lane | host]
 *                                [--allow HOST[:PORT] | --allow @PRESET] [--backend none]
 *                                [--attempts N] -- COMMAND...
 *        bastion worker drop NAME
 *
 * Name a program that sessions run: any agent's command line is a worker. What a session adds comes
 * behind its words. A session of a worker runs in a sandbox (see sandbox try): it may change the
 * folder that it runs in and what --write names, read what --read names and the machine's programs,
 * and nothing of bastion or of keys in a home. It has no network; with --net lane all that leaves
 * it goes through the internet lane, to what rules of bastion egress allow and to what --allow
 * names, as in bastion run; the view session_flows has each connection, with its session. --net
 * host gives it the machine's network. --backend none holds it by nothing. A worker that ends with
 * another code than 0 is tried again, up to --attempts times (setting session.attempts), more and
 * more slowly; 75 asks for later, 76 says that trying again is no use.
 */
int
verb_worker(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"attempts", required_argument, NULL, 'a'},
	    {"allow", required_argument, NULL, 'A'}, {"backend", required_argument, NULL, 'b'},
	    {"net", required_argument, NULL, 'n'}, {"read", required_argument, NULL, 'r'},
	    {"write", required_argument, NULL, 'w'}, {NULL, 0, NULL, 0}};
	struct options o = {.backend = "native"};
	int first, rc;

	if ((first = cli_options(cli, argc, argv, options, take_option, &o)) < 0)
		rc = first == -2 ? 0 : 2;
	else
		rc = verb(cli, argc - first, argv + first, &o);
	while (o.path_count > 0)
		free(o.paths[--o.path_count]);
	while (o.reach_count > 0)
		free(o.reach[--o.reach_count]);
	return rc;
}
