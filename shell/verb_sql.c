/* verb_sql.c: ask the database. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/input.h"
#include "shell/sql.h"
#include "shell/sql_query.h"
#include "shell/sql_write.h"

#define LIMIT_MS 30000 /* for statements that nobody watches */

struct asked {
	struct cli *cli;
	const char *file;
	int64_t limit_ms; /* -1: not given */
	struct sql *sql;
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
	case 't':
		return cli_duration(arg, &asked->limit_ms);
	case 'p':
		return sql_param(asked->sql, arg);
	case 'q':
		asked->queries = true;
		return 0;
	case 'H':
		asked->cli->role = HOME_HOST;
		return 0;
	default:
		asked->writes = true;
		return write_option(&asked->write, val, arg);
	}
}

/* Everything up to the end of ${fd}, ended by a NUL; NULL with errno, EILSEQ for a NUL in it. */
static char *
read_all(int fd)
{
	char *text = NULL, *larger;
	size_t len = 0, size = 0;
	ssize_t n;

	do {
		if (size - len < 2) {
			size = size == 0 ? 65536 : size * 2;
			if ((larger = realloc(text, size)) == NULL)
				break;
			text = larger;
		}
		if ((n = read(fd, text + len, size - len - 1)) == -1)
			break;
		if (n == 0 && memchr(text, '\0', len) == NULL) {
			text[len] = '\0';
			return text;
		}
		len += (size_t)n;
		errno = EILSEQ;
	} while (n > 0);
	free(text);
	return NULL;
}

static char *
read_file(struct cli *cli, const char *file)
{
	char *text = NULL;
	int fd = STDIN_FILENO;

	if (strcmp(file, "-") != 0)
		fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd != -1)
		text = read_all(fd);
	if (text == NULL && fd != -1 && errno == EILSEQ)
		refusal_set(&cli->refusal, "sql.error", "%s holds a NUL byte", file);
	else if (text == NULL)
		refusal_errno(&cli->refusal, "sql.error", file);
	if (fd > STDIN_FILENO)
		close(fd);
	return text;
}

static int
answer(struct cli *cli, struct sql *s, const char *file, const char *word)
{
	char *text = NULL;
	int rc;

	if (word == NULL && (text = read_file(cli, file)) == NULL)
		return cli_refuse(cli);
	rc = word != NULL && *word == '@' ? sql_query_run(s, word + 1)
					  : sql_run(s, word == NULL ? text : word);
	free(text);
	return rc == -1 ? cli_refuse(cli) : 0;
}

/* Ask the statements of ${word}, or of a file, or of the person on the terminal. */
static int
ask(struct cli *cli, struct asked *asked, const char *word)
{
	struct sql *s = asked->sql;
	bool talks = word == NULL && asked->file == NULL && isatty(STDIN_FILENO);

	if (talks && !isatty(STDOUT_FILENO))
		return cli_usage(cli, "there is no SQL, and no terminal to talk on");
	if (cli_open(cli, ROLE_READER) == -1)
		return cli_refuse(cli);
	s->db = cli->db;
	s->mode = cli->mode;
	s->limit_ms = asked->limit_ms != -1 ? asked->limit_ms : talks ? 0 : LIMIT_MS;
	if (talks)
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
		return sql_query_list(cli);
	if (asked->write.on && cli->role == HOME_HOST)
		return cli_usage(cli, "a Host has no factor that could prove who amends");
	if (asked->write.on && asked->sql->param_count > 0)
		return cli_usage(
		    cli, "with -w, values stand in the SQL: what is shown is what is run");
	if (asked->write.on)
		return sql_write(cli, &asked->write, word, asked->file);
	if (asked->writes)
		return cli_usage(cli, "this option is for an amendment: -w");
	return ask(cli, asked, word);
}

/*
 * VERB: sql
 *
 * usage: bastion sql [--json | --csv | --box] [--host] [--timeout TIME] [-p NAME=VALUE] [SQL]
 *        bastion sql [--json | --csv | --box] [--host] [--timeout TIME] [-p NAME=VALUE] -f FILE
 *        bastion sql
 *        bastion sql --queries
 *        bastion sql @QUERY [-p NAME=VALUE]
 *        bastion sql -w -m REASON [--yes | --bytes] SQL
 *        bastion sql -w -m REASON [--yes | --bytes] -f FILE
 *        bastion sql -w --amendment ID --signature FILE [--yes]
 *
 * Ask the database that holds everything. The statements of SQL, of a FILE (- is standard input) or
 * of standard input are run in turn and their rows shown; on a terminal, without any, there is a
 * conversation. The connection only reads: what would write is refused with exit code 126, and
 * secrets read as NULL. Functions of bastion such as now_ms() work. A statement that SQLite does
 * not understand ends with 1.
 *
 * In tables, columns named at or ending in _at show local time; JSON and CSV keep the milliseconds
 * since 1970 that are stored. Statements that nobody watches get 30 s, or TIME (90s, 15m; 0 for no
 * end). With --host, ask the database of this user's Host. Instead of SQL, .tables lists tables and
 * views, and .schema [NAME] shows what they are made of.
 *
 * With --queries, list the queries that are kept under a name; @QUERY runs one. -p gives a value to
 * :NAME of a statement.
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
 */
int
verb_sql(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"host", no_argument, NULL, 'H'},
	    {"file", required_argument, NULL, 'f'}, {"timeout", required_argument, NULL, 't'},
	    {"param", required_argument, NULL, 'p'}, {"queries", no_argument, NULL, 'q'},
	    {"write", no_argument, NULL, 'w'}, {"reason", required_argument, NULL, 'm'},
	    {"yes", no_argument, NULL, 'y'}, {"bytes", no_argument, NULL, 'b'},
	    {"amendment", required_argument, NULL, 'a'},
	    {"signature", required_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
	struct sql s = {.refusal = &cli->refusal};
	struct asked asked = {.cli = cli, .limit_ms = -1, .sql = &s};
	int first, rc;

	if ((first = cli_options(cli, argc, argv, options, option, &asked)) < 0)
		rc = first == -2 ? 0 : 2;
	else
		rc = called(cli, &asked, argc - first, argv + first);
	free(s.params);
	return rc;
}
