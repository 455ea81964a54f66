/* verb_schedule.c: work that begins by itself: add it, look when, let it rest, take it away. */
#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/schedule.h"
#include "engine/zone.h"
#include "shell/cli.h"
#include "shell/input.h"
#include "shell/words.h"

#define ZONE_MAX 64

static const char LIST[] =
    "SELECT name, \"when\", zone, state, next_at, last, last_at, session, why, runs, skips"
    "  FROM schedules ORDER BY name";
static const char SHOW[] =
    "SELECT s.name, v.\"when\", v.zone, s.state, s.next_at, s.missed, s.worker, s.argv AS args, s.cwd, s.by_uid,"
    "  s.max_attempts, s.runs_max, s.runs, s.skips, s.added_at, s.last_at, v.last, v.session, v.why"
    "  FROM schedule AS s JOIN schedules AS v ON v.id = s.id WHERE s.id = :id";
static const char NEXT[] =
    "WITH RECURSIVE due (n, at) AS (SELECT 1, next_at FROM schedule WHERE id = :id AND next_at IS NOT NULL"
    "  UNION ALL SELECT n + 1, due_next(cron, zone, every_ms, start_at, at) FROM due, schedule"
    "             WHERE id = :id AND n < 5 AND at IS NOT NULL)"
    " SELECT at AS next_at FROM due WHERE at IS NOT NULL";
static const char LOG[] =
    "SELECT due_at, fired_at, iif(by_hand, 'by hand', '') AS asked, state, session, why, ended_at"
    "  FROM firing WHERE schedule_id = :id ORDER BY id";
static const char FIND[] = "SELECT id FROM schedule WHERE name = :name";
static const char BEGUN[] = "SELECT name FROM session WHERE id = :id";

struct options {
	const char *cron, *zone, *cwd, *missed;
	char daily[32];
	int64_t every, first, runs, attempts;
	int whens;
};

/* HH:MM as the calendar of every day. */
static int
read_daily(const char *text, char cron[32])
{
	char digits[5];
	int hour, minute;

	while (*text == ' ')
		text++;
	if (!isdigit((unsigned char)text[0]) || !isdigit((unsigned char)text[1]) ||
	    text[2] != ':' || !isdigit((unsigned char)text[3]) ||
	    !isdigit((unsigned char)text[4]) || text[5 + strspn(text + 5, " ")] != '\0')
		return -1;
	memcpy(digits, (char[]){text[0], text[1], text[3], text[4], '\0'}, sizeof(digits));
	hour = (digits[0] - '0') * 10 + digits[1] - '0';
	minute = (digits[2] - '0') * 10 + digits[3] - '0';
	if (hour > 23 || minute > 59)
		return -1;
	snprintf(cron, 32, "%d %d * * *", minute, hour);
	return 0;
}

static int
take_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'c':
		o->whens++;
		o->cron = arg;
		return 0;
	case 'd':
		o->whens++;
		o->cron = o->daily;
		return read_daily(arg, o->daily);
	case 'e':
		o->whens++;
		return cli_duration(arg, &o->every);
	case 'f':
		return cli_duration(arg, &o->first);
	case 'z':
		o->zone = arg;
		return 0;
	case 'm':
		o->missed = arg;
		return strcmp(arg, "run") == 0 || strcmp(arg, "skip") == 0 ? 0 : -1;
	case 'r':
		return input_number(arg, &o->runs);
	case 'a':
		return input_number(arg, &o->attempts);
	default:
		o->cwd = arg;
		return 0;
	}
}

/* The zone that this machine's clocks show, where it has a name that we know; else UTC. */
static void
zone_here(char out[ZONE_MAX + 1])
{
	char path[PATH_MAX];
	const char *name = getenv("TZ");
	struct zone zone;
	ssize_t n;

	if (name == NULL && (n = readlink("/etc/localtime", path, sizeof(path) - 1)) > 0) {
		path[n] = '\0';
		if ((name = strstr(path, "zoneinfo/")) != NULL)
			name += strlen("zoneinfo/");
	}
	if (name == NULL || strlen(name) > ZONE_MAX || zone_find(name, &zone) != 0)
		name = "UTC";
	snprintf(out, ZONE_MAX + 1, "%s", name);
}

static int
find(struct cli *cli, const char *name, int64_t *id)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, FIND)) == NULL)
		return -1;
	stmt_text(q, ":name", name);
	*id = stmt_value(q, -1);
	return *id != -1 ? 0
			 : refusal_set(&cli->refusal, "schedule.unknown",
			       "there is no schedule of this name");
}

static int
show_of(struct cli *cli, const char *sql, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, sql)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	return cli_show(cli, q);
}

static int
insert(struct cli *cli, const struct schedule_ask *ask, int64_t *id)
{
	if (store_begin(cli->db) != 0)
		return -1;
	*id = schedule_add(cli->db, ask);
	return *id != -1 ? store_commit(cli->db) : store_rollback(cli->db);
}

/* ${argv}: the name, and the worker or the command with its words. */
static int
add(struct cli *cli, const struct options *o, bool command, char **argv)
{
	char cwd[PATH_MAX], here[ZONE_MAX + 1], *words;
	struct schedule_ask ask = {.name = argv[0],
	    .cron = o->cron,
	    .every_ms = o->every,
	    .first_ms = o->first,
	    .zone = o->zone == NULL ? here : o->zone,
	    .missed = o->missed,
	    .runs_max = o->runs,
	    .worker = command ? "" : argv[1],
	    .cwd = cwd,
	    .uid = getuid(),
	    .attempts = o->attempts};
	int64_t id;
	int rc;

	if (o->whens != 1)
		return cli_usage(cli, "give one of --cron, --every and --daily");
	if (o->cron != NULL && o->first != -1)
		return cli_usage(cli, "--first goes with --every: a calendar has its own times");
	if (realpath(o->cwd == NULL ? "." : o->cwd, cwd) == NULL) {
		refusal_errno(&cli->refusal, "file.missing", o->cwd == NULL ? "." : o->cwd);
		return cli_refuse(cli);
	}
	zone_here(here);
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    (words = words_json(cli->db, command ? argv + 1 : argv + 2)) == NULL)
		return cli_refuse(cli);
	ask.argv = words;
	rc = insert(cli, &ask, &id);
	words_free(words);
	if (rc != 0)
		return cli_refuse(cli);
	return show_of(cli, NEXT, id) == -1 ? cli_refuse(cli) : 0;
}

static int
change(struct cli *cli, const char *name, int (*make)(struct store *db, int64_t id))
{
	int64_t id;

	if (cli_open(cli, ROLE_PERSON) != 0 || find(cli, name, &id) != 0 ||
	    store_begin(cli->db) != 0)
		return cli_refuse(cli);
	if (make(cli->db, id) != 0 ? store_rollback(cli->db) : store_commit(cli->db))
		return cli_refuse(cli);
	return 0;
}

static int
run(struct cli *cli, const char *name)
{
	int64_t id, session;
	struct stmt *q;

	if (cli_open(cli, ROLE_PERSON) != 0 || find(cli, name, &id) != 0 ||
	    store_begin(cli->db) != 0)
		return cli_refuse(cli);
	if ((session = schedule_run(cli->db, id)) == -1 ? store_rollback(cli->db)
							: store_commit(cli->db))
		return cli_refuse(cli);
	if ((q = store_sql(cli->db, BEGUN)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", session);
	if (stmt_step(q) != 1)
		return cli_refuse(cli);
	printf(cli->mode == CLI_JSON ? "{\"session\":\"%s\"}\n" : "%s\n", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

static int
show(struct cli *cli, const char *name)
{
	bool people = cli->mode == CLI_TABLE;
	int64_t id;

	if (cli_open(cli, ROLE_READER) != 0 || find(cli, name, &id) != 0)
		return cli_refuse(cli);
	if (people)
		cli->mode = CLI_LINE; /* one schedule is read downwards */
	if (show_of(cli, SHOW, id) == -1)
		return cli_refuse(cli);
	if (!people)
		return 0;
	cli->mode = CLI_TABLE;
	putchar('\n');
	return show_of(cli, NEXT, id) == -1 ? cli_refuse(cli) : 0;
}

static int
look(struct cli *cli, const char *name)
{
	struct stmt *q;
	int64_t id;

	if (cli_open(cli, ROLE_READER) != 0 || find(cli, name, &id) != 0 ||
	    (q = store_sql(cli->db, LOG)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	return cli_list(cli, q, "None of its times has come.");
}

static int
one(struct cli *cli, const char *what, const char *name)
{
	if (strcmp(what, "show") == 0)
		return show(cli, name);
	if (strcmp(what, "log") == 0)
		return look(cli, name);
	if (strcmp(what, "run") == 0)
		return run(cli, name);
	if (strcmp(what, "pause") == 0)
		return change(cli, name, schedule_pause);
	if (strcmp(what, "resume") == 0)
		return change(cli, name, schedule_resume);
	if (strcmp(what, "rm") == 0)
		return change(cli, name, schedule_remove);
	return cli_unexpected(cli, what);
}

/*
 * VERB: schedule
 *
 * usage: bastion schedule [ls] [--json]
 *        bastion schedule add NAME --cron CALENDAR | --daily HH:MM | --every TIME [--first TIME]
 *                             [--zone ZONE] [--missed run|skip] [--runs N] [--attempts N]
 *                             [--cwd DIR] WORKER [WORD...]
 *        bastion schedule add NAME [same options] -- COMMAND...
 *        bastion schedule show NAME [--json]
 *        bastion schedule log NAME [--json]
 *        bastion schedule run NAME
 *        bastion schedule pause NAME
 *        bastion schedule resume NAME
 *        bastion schedule rm NAME
 *
 * Have sessions begin by themselves, as the user who adds the schedule. A calendar is that of cron:
 * "minute hour day month weekday" in the clocks of ZONE, those of this machine without one; or
 * @hourly, @daily, @weekly, @monthly, @yearly. An interval is 30s, 15m, 2h or 7d. Each time comes
 * exactly once, never while the session before it still runs, and leaves a line in log. What was
 * missed while nobody served runs once, late, or with --missed skip not at all. add shows the next
 * times; run begins one now.
 */
int
verb_schedule(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"cron", required_argument, NULL, 'c'},
	    {"daily", required_argument, NULL, 'd'}, {"every", required_argument, NULL, 'e'},
	    {"first", required_argument, NULL, 'f'}, {"zone", required_argument, NULL, 'z'},
	    {"missed", required_argument, NULL, 'm'}, {"runs", required_argument, NULL, 'r'},
	    {"attempts", required_argument, NULL, 'a'}, {"cwd", required_argument, NULL, 'C'},
	    {NULL, 0, NULL, 0}};
	struct options o = {.missed = "run", .first = -1};
	int first, words, i;
	bool command = false;
	const char *what;

	for (i = 1; i < argc; i++)
		command = command || strcmp(argv[i], "--") == 0;
	if ((first = cli_options(cli, argc, argv, options, take_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	what = words == 0 ? "ls" : argv[first];
	if (strcmp(what, "add") == 0)
		return words >= 3 ? add(cli, &o, command, argv + first + 1)
				  : cli_usage(cli,
					"add takes a name, and a worker or, behind --, a command");
	if (words == 2)
		return one(cli, what, argv[first + 1]);
	if (strcmp(what, "ls") != 0 || words > 1)
		return cli_unexpected(cli, what);
	return cli_list_of(cli, LIST,
	    "Nothing begins by itself: bastion schedule add NAME --daily 02:00 -- COMMAND");
}
