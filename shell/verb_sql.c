/* verb_sql.c: ask the database. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/input.h"
#include "shell/sql.h"
#include "shell/sql_clock.h"
#include "shell/sql_file.h"
#include "shell/sql_write.h"

#define LIMIT_MS 30000 /* for statements that nobody watches */

/* Long ones only: -m is for a reason. */
enum { OPTION_JSONL = 1, OPTION_MODE };

struct asked {
	struct cli *cli;
	struct sql *sql;
	const char *file;
	int64_t limit_ms; /* -1: not given */
	struct sql_write write;
	bool writes; /* an option of -w was given */
	bool queries;
};

/* The options of an amendment. */
static int
write_option(struct sql_write *w, int val, const char *arg)
{
	switch (val) {
	case 'w':
		w->on = true;
		return 0;
	case 'm':
		w->reason = arg;
		return 0;
	case 'y':
		w->yes = true;
		return 0;
	case 'b':
		w->bytes = true;
		return 0;
	case 's':
		w->signature = arg;
		return 0;
	default:
		return input_number(arg, &w->id);
	}
}

static int
option(void *ctx, int val, const char *arg)
{
	struct asked *asked = ctx;

	switch (val) {
	case 'f':
		asked->file = arg;
		return 0;
	case OPTION_JSONL:
		asked->cli->mode = CLI_JSONL;
		return 0;
	case OPTION_MODE:
		return table_mode(arg, &asked->cli->mode);
	case 'p':
		return sql_param(asked->sql, arg);
	case 't':
		return cli_duration(arg, &asked->limit_ms);
	case 'q':
		asked->queries = true;
		return 0;
	default:
		asked->writes = true;
		return write_option(&asked->write, val, arg);
	}
}

static int
answer(struct cli *cli, struct sql *s, const char *file, const char *word)
{
	struct sigaction before;
	char *text = NULL;
	int rc;

	if (word == NULL && (text = sql_file_read(file, &cli->refusal)) == NULL)
		return cli_refuse(cli);
	if (s->pages) /* Ctrl-C must not leave a pager behind */
		sql_catch(s, &before);
	rc = sql_run(s, word == NULL ? text : word);
	if (s->pages)
		sql_release(&before);
	free(text);
	return rc == -1 ? cli_refuse(cli) : 0;
}

static int
ask(struct cli *cli, struct sql *s, const struct asked *asked, const char *word)
{
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);

	if (cli_open(cli, ROLE_READER) == -1)
		return cli_refuse(cli);
	s->db = cli->db;
	s->mode = cli->mode;
	s->talks = word == NULL && asked->file == NULL && terminal;
	s->pages = terminal;
	s->limit_ms = asked->limit_ms != -1 ? asked->limit_ms : s->talks ? 0 : LIMIT_MS;
	sql_open(s);
	if (s->talks)
		return sql_converse(cli, s);
	return answer(cli, s, asked->file == NULL ? "-" : asked->file, word);
}

static int
called(struct cli *cli, struct asked *asked, int words, char **argv)
{
	const char *word = words > 0 ? argv[0] : NULL;

	if (words > 1)
		return cli_usage(cli, "unexpected word: %s (quote the whole of SQL)", argv[1]);
	if (word != NULL && asked->file != NULL)
		return cli_usage(cli, "SQL comes as a word or from a file, not both");
	if (asked->queries)
		word = ".queries";
	if (asked->write.on && cli->role == HOME_HOST)
		return cli_usage(cli, "a Host has no factor that could prove who amends");
	if (asked->write.on && asked->sql->param_count > 0)
		return cli_usage(
		    cli, "with -w, values stand in the SQL: what is shown is what is run");
	if (asked->write.on)
		return sql_write(cli, &asked->write, word, asked->file);
	if (asked->writes)
		return cli_usage(cli, "this option is for an amendment: -w");
	if (word == NULL && asked->file == NULL && isatty(STDIN_FILENO) && !isatty(STDOUT_FILENO))
		return cli_usage(cli, "there is no SQL, and no terminal to talk on");
	return ask(cli, asked->sql, asked, word);
}

/*
 * VERB: sql
 *
 * usage: bastion sql [--mode MODE | --box | --csv | --json | --jsonl]
 *                    [--timeout TIME] [-p NAME=VALUE ...] [--host] [SQL | -f FILE]
 *        bastion sql [--mode MODE ...] @QUERY [-p NAME=VALUE ...]
 *        bastion sql --queries
 *        bastion sql -w -m REASON [--yes | --bytes] SQL
 *        bastion sql -w -m REASON [--yes | --bytes] -f FILE
 *        bastion sql -w --amendment ID --signature FILE [--yes]
 *
 * Ask the database that holds everything. The statements of SQL, of a FILE (- is standard input) or
 * of standard input are run in turn and their rows shown; on a terminal, without any, there is a
 * conversation with history and completion. The connection only reads: what would write is refused
 * with exit code 126, and secrets read as NULL. Functions of bastion such as now_ms() work. A
 * statement that SQLite does not understand, or that takes too much time or memory, ends with 1.
 *
 * A MODE is table, box, line, markdown, csv, json, jsonl or quote; --box, --csv, --json and --jsonl
 * are short for theirs. Columns named at or ending in _at show local time to people; csv, json,
 * jsonl and quote keep the milliseconds since 1970 that are stored. Statements that nobody watches
 * get 30 s, or TIME (2s, 15m; 0 for no end). With --host, ask the database of this user's Host.
 *
 * Each -p gives a parameter that statements name as :NAME. A VALUE that is a plain number is one,
 * any other is text, and so is every one given as NAME:=VALUE; one that is missing is an error.
 *
 * A line that begins with a dot is a command of the shell; .help lists them.
 *
 * With --queries, list the queries that are kept under a name; @QUERY runs one, at the prompt with
 * its parameters behind it: @runs minutes=15.
 *
 * With -w, amend: root, or the owner of the state directory, may UPDATE rows of setting, grant,
 * pairing and lease, for a REASON and as far as the rules of the database allow: limits are set and
 * things taken away; nothing is paired, approved or granted. What it would do is shown. On a
 * terminal you are asked; elsewhere --yes says so before. A code of an enrolled authenticator
 * proves who decides: it is asked for on the terminal, or read from standard input where that is
 * none. Or an SSH signature does: --bytes prints what is to be signed. Statement, reason, who and
 * what changed go into the audit with the change.
 *
 *   bastion sql "SELECT host, op, used, uses FROM live_grants"
 *   bastion sql @runs -p minutes=15
 *   bastion sql -w -m "laptop is gone" "UPDATE grant SET state = 'dropped', ended_at = now_ms()
 *                                        WHERE pairing_id = 2 AND state = 'active'"
 *   bastion sql --csv "SELECT * FROM audit" > audit.csv
 *   bastion sql -p host=laptop "SELECT * FROM live_grants WHERE host = :host"
 *   bastion sql ".states grant dot" | dot -Tsvg > grant.svg
 */
int
verb_sql(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"host", no_argument, NULL, CLI_HOST},
	    {"file", required_argument, NULL, 'f'}, {"jsonl", no_argument, NULL, OPTION_JSONL},
	    {"mode", required_argument, NULL, OPTION_MODE}, {"param", required_argument, NULL, 'p'},
	    {"timeout", required_argument, NULL, 't'}, {"queries", no_argument, NULL, 'q'},
	    {"write", no_argument, NULL, 'w'}, {"reason", required_argument, NULL, 'm'},
	    {"yes", no_argument, NULL, 'y'}, {"bytes", no_argument, NULL, 'b'},
	    {"amendment", required_argument, NULL, 'a'},
	    {"signature", required_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
	struct sql s = {.refusal = &cli->refusal};
	struct asked asked = {.cli = cli, .sql = &s, .limit_ms = -1};
	int first, code;

	if ((first = cli_options(cli, argc, argv, options, option, &asked)) < 0)
		code = first == -2 ? 0 : 2;
	else
		code = called(cli, &asked, argc - first, argv + first);
	sql_close(&s);
	return code;
}
