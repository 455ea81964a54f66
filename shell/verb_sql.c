/* verb_sql.c: ask the database. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/sql.h"

#define LIMIT_MS 30000 /* for statements that nobody watches */

struct asked {
	struct cli *cli;
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
	case 't':
		return cli_duration(arg, &asked->limit_ms);
	default:
		asked->cli->role = HOME_HOST;
		return 0;
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
	rc = sql_run(s, word == NULL ? text : word);
	free(text);
	return rc == -1 ? cli_refuse(cli) : 0;
}

/*
 * VERB: sql
 *
 * usage: bastion sql [--json | --csv | --box] [--host] [--timeout TIME] [SQL]
 *        bastion sql [--json | --csv | --box] [--host] [--timeout TIME] -f FILE
 *        bastion sql
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
 *   bastion sql "SELECT host, op, used, uses FROM live_grants"
 *   bastion sql --csv "SELECT * FROM audit" > audit.csv
 */
int
verb_sql(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"host", no_argument, NULL, 'H'},
	    {"file", required_argument, NULL, 'f'}, {"timeout", required_argument, NULL, 't'},
	    {NULL, 0, NULL, 0}};
	struct asked asked = {.cli = cli, .limit_ms = -1};
	struct sql s = {.refusal = &cli->refusal};
	const char *word;
	bool talks;
	int first;

	if ((first = cli_options(cli, argc, argv, options, option, &asked)) < 0)
		return first == -2 ? 0 : 2;
	word = first < argc ? argv[first] : NULL;
	if (argc - first > 1)
		return cli_usage(
		    cli, "unexpected word: %s (quote the whole of SQL)", argv[first + 1]);
	if (word != NULL && asked.file != NULL)
		return cli_usage(cli, "SQL comes as a word or from a file, not both");
	talks = word == NULL && asked.file == NULL && isatty(STDIN_FILENO);
	if (talks && !isatty(STDOUT_FILENO))
		return cli_usage(cli, "there is no SQL, and no terminal to talk on");
	if (cli_open(cli, ROLE_READER) == -1)
		return cli_refuse(cli);
	s.db = cli->db;
	s.mode = cli->mode;
	s.limit_ms = asked.limit_ms != -1 ? asked.limit_ms : talks ? 0 : LIMIT_MS;
	if (talks)
		return sql_converse(cli, &s);
	return answer(cli, &s, asked.file == NULL ? "-" : asked.file, word);
}
