/* verb_settings.c: the limits of this machine, and changing one. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/cli.h"
#include "shell/near.h"

static const char LIST[] = "SELECT name, value, unit, low, high, doc FROM setting ORDER BY name";
/* A terminal has no room for the bounds of all. */
static const char NAMES[] = "SELECT name, value, unit, doc FROM setting ORDER BY name";
static const char ONE[] =
    "SELECT name, value, unit, low, high, doc FROM setting WHERE name = :name";
static const char FIND[] = "SELECT unit, low, high FROM setting WHERE name = :name";
static const char CHANGE[] = "UPDATE setting SET value = :value WHERE name = :name";

struct bounds {
	char unit[16];
	int64_t low, high;
};

/* Say that there is none called ${name}, and which are near. */
static int
unknown(struct cli *cli, const char *name)
{
	char near[NEAR_MAX] = "";
	struct stmt *q;

	if ((q = store_sql(cli->db, NAMES)) == NULL)
		return -1;
	while (stmt_step(q) == 1)
		near_add(near, stmt_get_text(q, 0), name);
	stmt_done(q);
	return refusal_set(
	    &cli->refusal, "setting.unknown", "there is no setting of this name%s", near);
}

static int
find(struct cli *cli, const char *name, struct bounds *b)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, FIND)) == NULL)
		return -1;
	stmt_text(q, ":name", name);
	if ((n = stmt_step(q)) == 0)
		return unknown(cli, name);
	if (n == -1)
		return -1;
	snprintf(b->unit, sizeof(b->unit), "%s", stmt_get_text(q, 0));
	b->low = stmt_get_int(q, 1);
	b->high = stmt_get_int(q, 2);
	stmt_done(q);
	return 0;
}

/* A number in the setting's unit; for times also "90s", "15m", "2h", "7d". */
static int
parse(const char *text, const struct bounds *b, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoimax(text, &end, 10);
	if (errno == 0 && end != text && *end == '\0')
		return 0;
	return strcmp(b->unit, "ms") == 0 ? cli_duration(text, value) : -1;
}

static int
change(struct cli *cli, const char *name, int64_t value)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, CHANGE)) == NULL)
		return -1;
	stmt_text(q, ":name", name);
	stmt_int(q, ":value", value);
	return stmt_run_alone(q);
}

/* One is read downwards, with its bounds. */
static int
show(struct cli *cli, const char *name)
{
	struct stmt *q;
	int64_t rows;

	if (cli_open(cli, ROLE_READER) == -1 || (q = store_sql(cli->db, ONE)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":name", name);
	if (cli->mode == CLI_TABLE)
		cli->mode = CLI_LINE;
	if ((rows = cli_show(cli, q)) == 0)
		unknown(cli, name);
	return rows == 1 ? 0 : cli_refuse(cli);
}

static int
set(struct cli *cli, const char *name, const char *text)
{
	struct bounds b;
	int64_t value;

	if (cli_open(cli, ROLE_PERSON) == -1 || find(cli, name, &b) == -1)
		return cli_refuse(cli);
	if (parse(text, &b, &value) == -1)
		return cli_usage(cli, "%s is no number of %s", text, b.unit);
	if (value < b.low || value > b.high) {
		refusal_set(&cli->refusal, "setting.range",
		    "%s lies between %" PRId64 " and %" PRId64 " %s", name, b.low, b.high, b.unit);
		return cli_refuse(cli);
	}
	return change(cli, name, value) == -1 ? cli_refuse(cli) : 0;
}

/*
 * VERB: settings
 *
 * usage: bastion settings [ls] [--host] [--json | --csv | --box]
 *        bastion settings NAME [--host] [--json]
 *        bastion settings set NAME VALUE [--host]
 *
 * List every limit, show one with its bounds (as --json does for all), or change one. Times may be
 * given as 90s, 15m, 2h or 7d; a plain number is in the unit that the list shows. With --host, the
 * limits of this user's Host.
 */
int
verb_settings(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
	    {"host", no_argument, NULL, CLI_HOST}, {NULL, 0, NULL, 0}};
	int first, words;

	if ((first = cli_options(cli, argc, argv, options, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words > 0 && strcmp(argv[first], "set") == 0)
		return words == 3 ? set(cli, argv[first + 1], argv[first + 2])
				  : cli_usage(cli, "set takes a name and a value");
	if (words > 1)
		return cli_unexpected(cli, argv[first + 1]);
	if (words == 1 && strcmp(argv[first], "ls") != 0)
		return show(cli, argv[first]);
	if (cli_open(cli, ROLE_READER) == -1 ||
	    cli_show(cli, store_sql(cli->db, cli->mode == CLI_TABLE ? NAMES : LIST)) == -1)
		return cli_refuse(cli);
	return 0;
}
