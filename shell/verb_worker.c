/* verb_worker.c: programs that sessions may run by name. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shell/cli.h"
#include "shell/input.h"
#include "shell/words.h"

static const char LIST[] = "SELECT name, argv AS args, max_attempts, by_uid, added_at"
			   "  FROM worker ORDER BY name";
static const char ADD[] =
    "INSERT INTO worker (name, argv, max_attempts, by_uid, added_at) VALUES (:name, :argv,"
    "  coalesce(:attempts, (SELECT value FROM setting WHERE name = 'session.attempts')), :uid,"
    "  now_ms())";
static const char DROP[] = "DELETE FROM worker WHERE name = :name";

static int
take_option(void *ctx, int val, const char *arg)
{
	(void)val;
	return input_number(arg, ctx);
}

static int
add(struct cli *cli, const char *name, char **argv, int64_t attempts)
{
	struct stmt *q;
	int rc = -1;
	char *words;

	if (cli_open(cli, ROLE_PERSON) != 0 || (words = words_json(cli->db, argv)) == NULL)
		return cli_refuse(cli);
	if (store_begin(cli->db) == 0 && (q = store_sql(cli->db, ADD)) != NULL) {
		stmt_text(q, ":name", name);
		stmt_text(q, ":argv", words);
		if (attempts > 0)
			stmt_int(q, ":attempts", attempts);
		stmt_int(q, ":uid", getuid());
		rc = stmt_run_one(q) == 0 ? store_commit(cli->db) : store_rollback(cli->db);
	}
	words_free(words);
	if (rc != 0)
		return cli_refuse(cli);
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

/*
 * VERB: worker
 *
 * usage: bastion worker [ls] [--json]
 *        bastion worker add NAME [--attempts N] -- COMMAND...
 *        bastion worker drop NAME
 *
 * Name a program that sessions run: any agent's command line is a worker. What a session adds comes
 * behind its words. A worker that ends with another code than 0 is tried again, up to --attempts
 * times (setting session.attempts), more and more slowly; 75 asks for later, 76 says that trying
 * again is no use.
 */
int
verb_worker(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
	    {"attempts", required_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	int64_t attempts = 0;
	int first, words;
	const char *what;

	if ((first = cli_options(cli, argc, argv, options, take_option, &attempts)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	what = words == 0 ? "ls" : argv[first];
	if (strcmp(what, "add") == 0)
		return words >= 3 ? add(cli, argv[first + 1], argv + first + 2, attempts)
				  : cli_usage(cli, "add takes a name and, behind --, a command");
	if (strcmp(what, "drop") == 0 && words == 2)
		return drop(cli, argv[first + 1]);
	if (strcmp(what, "ls") != 0 || words > 1)
		return cli_usage(cli, "unexpected word: %s", what);
	if (cli_open(cli, ROLE_READER) != 0 || cli_show(cli, store_sql(cli->db, LIST)) == -1)
		return cli_refuse(cli);
	return 0;
}
