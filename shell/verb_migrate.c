/* verb_migrate.c: which version the database has, what is to come, and bringing it up to date. */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/state/instance.h"
#include "engine/store/embed.h"
#include "engine/store/migrate.h"
#include "engine/store/restore.h"
#include "shell/cli.h"
#include "shell/progress.h"
#include "shell/text.h"

/* :known is what this build has: [[version, name, sha256, summary], ...] */
static const char APPLIED[] =
    "SELECT s.version, s.name, s.applied_at,"
    "       CASE WHEN k.value IS NULL THEN 'unknown'"
    "            WHEN k.value ->> 2 = lower(hex(s.sha256)) THEN 'ok' ELSE 'edited' END AS checksum"
    "  FROM schema_step AS s LEFT JOIN json_each(:known) AS k ON k.value ->> 0 = s.version"
    " ORDER BY s.version";

static const char TO_COME[] = "SELECT value ->> 0 AS version, value ->> 1 AS name,"
			      "       value ->> 3 AS summary"
			      "  FROM json_each(:known) WHERE value ->> 0 > :version ORDER BY 1";

static const char APPLIED_JSON[] =
    "SELECT coalesce(json_group_array(json_object('version', s.version, 'name', s.name,"
    "  'applied_at', strftime('%Y-%m-%dT%H:%M:%fZ', s.applied_at / 1000.0, 'unixepoch'),"
    "  'checksum', CASE WHEN k.value IS NULL THEN 'unknown'"
    "                   WHEN k.value ->> 2 = lower(hex(s.sha256)) THEN 'ok' ELSE 'edited' END)),"
    "  '[]')"
    "  FROM schema_step AS s LEFT JOIN json_each(:known) AS k ON k.value ->> 0 = s.version";

static const char TO_COME_JSON[] =
    "SELECT coalesce(json_group_array(json_object('version', value ->> 0, 'name', value ->> 1,"
    "  'summary', value ->> 3)), '[]') FROM json_each(:known) WHERE value ->> 0 > :version";

static const char EDITED[] =
    "SELECT count(*) FROM schema_step AS s LEFT JOIN json_each(:known) AS k"
    "    ON k.value ->> 0 = s.version"
    " WHERE k.value IS NOT NULL AND k.value ->> 2 IS NOT lower(hex(s.sha256))";

/* The words of a step: its first line, "-- 0002_history.sql: sql -w, a hash tree", behind the
 * colon.
 */
static void
summary(FILE *out, const struct embedded *step)
{
	const char *end = strchr(step->text, '\n'), *at = step->text;
	const char *colon = strchr(at, ':');

	if (end == NULL || strncmp(at, "-- ", 3) != 0) {
		text_json(out, "", 0);
		return;
	}
	at = colon != NULL && colon < end ? colon + 1 : at + 3;
	while (at < end && *at == ' ')
		at++;
	text_json(out, at, (size_t)(end - at));
}

/* What this build knows, as JSON for the queries above; the caller frees it. */
static char *
known(void)
{
	unsigned char sha256[32];
	char *text = NULL, hex[65];
	size_t size;
	FILE *out;
	int i;

	if ((out = open_memstream(&text, &size)) == NULL)
		return NULL;
	putc('[', out);
	for (i = 0; i < embedded_versions; i++) {
		migrate_sha256(i + 1, sha256);
		sodium_bin2hex(hex, sizeof(hex), sha256, sizeof(sha256));
		fprintf(out, "%s[%d,\"%s\",\"%s\",", i == 0 ? "" : ",", i + 1,
		    embedded_migration[i].name, hex);
		summary(out, &embedded_migration[i]);
		putc(']', out);
	}
	putc(']', out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* A statement about ${all} that this build knows, and the version that the database has. */
static struct stmt *
ask(struct cli *cli, const char *sql, const char *all, int version)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, sql)) == NULL)
		return NULL;
	stmt_text(q, ":known", all);
	if (strstr(sql, ":version") != NULL)
		stmt_int(q, ":version", version);
	return q;
}

static int
print_json(struct cli *cli, const char *name, const char *sql, const char *all, int version)
{
	struct stmt *q;

	if ((q = ask(cli, sql, all, version)) == NULL || stmt_step(q) != 1)
		return -1;
	printf(",\"%s\":%s", name, stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

static void
say_versions(const struct cli *cli, int version)
{
	char state[PATH_MAX];

	home_path(&cli->home, "bastion.db", state);
	printf("The database ");
	text_show(stdout, state, strlen(state));
	printf(" has schema version %d, this bastion %s %d.\n", version,
	    version == embedded_versions ? "too:" : "has", embedded_versions);
}

/* Return the exit code, or -1. */
static int
status(struct cli *cli, const char *all, int version)
{
	int64_t edited = stmt_value(ask(cli, EDITED, all, version), -1);

	if (edited == -1)
		return -1;
	if (cli->mode == CLI_JSON) {
		printf("{\"schema\":%d,\"build\":%d", version, embedded_versions);
		if (print_json(cli, "steps", APPLIED_JSON, all, version) == -1)
			return -1;
		puts("}");
	} else {
		if (cli->mode == CLI_TABLE)
			say_versions(cli, version);
		if (cli_show(cli, ask(cli, APPLIED, all, version)) == -1)
			return -1;
		if (edited > 0 && cli->mode == CLI_TABLE)
			puts("A step was applied with another text than this bastion has for it.");
	}
	return edited == 0 && version == embedded_versions ? 0 : 1;
}

static int64_t
free_bytes(const struct cli *cli)
{
	struct statvfs fs;

	return fstatvfs(cli->home.fd, &fs) == -1 ? 0 : (int64_t)(fs.f_bavail * fs.f_frsize);
}

static int
plan(struct cli *cli, const char *all, int version)
{
	int64_t bytes = backup_size(cli->db), room = free_bytes(cli);

	if (bytes == -1)
		return -1;
	if (cli->mode == CLI_JSON) {
		printf("{\"schema\":%d,\"build\":%d,\"copy_bytes\":%" PRId64
		       ",\"free_bytes\":%" PRId64,
		    version, embedded_versions, bytes, room);
		if (print_json(cli, "steps", TO_COME_JSON, all, version) == -1)
			return -1;
		puts("}");
		return 0;
	}
	if (version == embedded_versions) {
		puts("Nothing is to be done: the database is up to date.");
		return 0;
	}
	if (cli_show(cli, ask(cli, TO_COME, all, version)) == -1)
		return -1;
	if (cli->mode == CLI_TABLE)
		printf("Before them, a checked copy: it takes %" PRId64 " kB, and %" PRId64
		       " kB are free.\n",
		    bytes / 1024, room / 1024);
	return 0;
}

/* Look at what is there, whatever its version, as long as it is not a newer one. */
static int
look(struct cli *cli, int (*show)(struct cli *, const char *, int))
{
	char *all;
	int version, rc = -1;

	if (cli_database(cli) != 0)
		return -1;
	if ((cli->db = store_open(&cli->home, ROLE_MIGRATE, NULL, &cli->refusal)) == NULL)
		return -1;
	if ((all = known()) == NULL)
		return refusal_set(&cli->refusal, "store.failed", "out of memory");
	version = migrate_version_of(cli->db);
	if (version > 0 && (version > embedded_versions || migrate_known(cli->db, version) == 0))
		rc = show(cli, all, version);
	else if (version == 0)
		refusal_set(
		    &cli->refusal, "store.missing", "the database in %s is empty", cli->home.state);
	free(all);
	return rc;
}

static void
say_done(const struct cli *cli, int steps, const struct migrate_report *p)
{
	if (cli->mode == CLI_JSON) {
		printf("{\"from\":%d,\"to\":%d,\"steps\":%d,\"copy\":", p->from, p->to, steps);
		if (p->copy[0] != '\0')
			text_json(stdout, p->copy, strlen(p->copy));
		else
			fputs("null", stdout);
		puts("}");
		return;
	}
	if (steps == 0) {
		puts("Nothing was to be done: the database is up to date.");
		return;
	}
	printf("Schema version %d is now %d. The database as it was is kept, checked:\n    ",
	    p->from, p->to);
	text_show(stdout, cli->home.state, strlen(cli->home.state));
	printf("/%s\n", p->copy);
}

static int
up(struct cli *cli)
{
	struct migrate_report report;
	struct backup_watch watch;
	struct progress progress;
	int lock, steps;

	if (cli_database(cli) != 0)
		return -1;
	if ((lock = instance_lock(&cli->home, &cli->refusal)) == -1)
		return -1;
	restore_tidy(&cli->home);
	progress_begin(&progress, cli);
	watch = (struct backup_watch){progress_tell, &progress};
	steps = migrate_run(&cli->home, &watch, &report, &cli->refusal);
	progress_end(&progress);
	close(lock);
	if (steps == -1)
		return -1;
	say_done(cli, steps, &report);
	return 0;
}

/*
 * VERB: migrate
 *
 * usage: bastion migrate [status] [--host] [--json]
 *        bastion migrate plan [--host] [--json]
 *        bastion migrate up [--host] [--json]
 *
 * Say which schema version the database has, or bring an older one up to date.
 *
 * status shows the steps that it was made with, and whether this bastion knows them with the same
 * text; its exit code is 1 where there is something to do. plan shows what up would do, and the
 * space that it needs. up makes a checked copy first, bastion.db.before-VERSION beside the
 * database, then takes each step as one transaction, checked before it counts. The daemon must be
 * stopped. A crash leaves the database before a step or behind it, and up goes on from there. A
 * newer database is left alone. bastion serve --migrate does the same as up at its start.
 */
int
verb_migrate(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
	    {"host", no_argument, NULL, CLI_HOST}, {NULL, 0, NULL, 0}};
	const char *word;
	int first, rc;

	if ((first = cli_options(cli, argc, argv, options, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first > 1)
		return cli_unexpected(cli, argv[first + 1]);
	word = first < argc ? argv[first] : "status";
	if (strcmp(word, "status") != 0 && strcmp(word, "plan") != 0 && strcmp(word, "up") != 0)
		return cli_unexpected(cli, word);
	if (home_open(&cli->home, cli->role, false, &cli->refusal) == -1)
		return cli_refuse(cli);
	rc = *word == 'u' ? up(cli) : *word == 'p' ? look(cli, plan) : look(cli, status);
	return rc == -1 ? cli_refuse(cli) : rc;
}
