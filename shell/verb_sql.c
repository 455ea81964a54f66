/* verb_sql.c: ask the database. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/sql_clock.h"
#include "shell/sql_file.h"

#define LIMIT_MS 30000 /* for statements that nobody watches */

/* Long ones only: -m is for a reason. */
enum { OPTION_JSONL = 1, OPTION_MODE };

struct asked {
	struct cli *cli;
	struct sql *sql;
	const char *file;
	int64_t limit_ms; /* -1: not given */
};

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
	default:
		asked->cli->role = HOME_HOST;
		return 0;
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
run(struct cli *cli, struct sql *s, const struct asked *asked, const char *word)
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

/*
 * VERB: sql
 *
 * usage: bastion sql [--mode MODE | --box | --csv | --json | --jsonl]
 *                    [--timeout TIME] [-p NAME=VALUE ...] [--host] [SQL | -f FILE]
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
 *   bastion sql "SELECT host, op, used, uses FROM live_grants"
 *   bastion sql --csv "SELECT * FROM audit" > audit.csv
 *   bastion sql -p host=laptop "SELECT * FROM live_grants WHERE host = :host"
 *   bastion sql ".states grant dot" | dot -Tsvg > grant.svg
 */
int
verb_sql(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"host", no_argument, NULL, 'H'},
	    {"file", required_argument, NULL, 'f'}, {"jsonl", no_argument, NULL, OPTION_JSONL},
	    {"mode", required_argument, NULL, OPTION_MODE}, {"param", required_argument, NULL, 'p'},
	    {"timeout", required_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
	struct sql s = {.refusal = &cli->refusal};
	struct asked asked = {.cli = cli, .sql = &s, .limit_ms = -1};
	int first, code;

	if ((first = cli_options(cli, argc, argv, options, option, &asked)) < 0)
		code = first == -2 ? 0 : 2;
	else if (argc - first > 1)
		code =
		    cli_usage(cli, "unexpected word: %s (quote the whole of SQL)", argv[first + 1]);
	else if (first < argc && asked.file != NULL)
		code = cli_usage(cli, "SQL comes as a word or from a file, not both");
	else if (first == argc && asked.file == NULL && isatty(STDIN_FILENO) &&
		 !isatty(STDOUT_FILENO))
		code = cli_usage(cli, "there is no SQL, and no terminal to talk on");
	else
		code = run(cli, &s, &asked, first < argc ? argv[first] : NULL);
	sql_close(&s);
	return code;
}
