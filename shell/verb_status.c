/* verb_status.c: what runs, what waits, what was recorded. */
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shell/cli.h"
#include "shell/text.h"

/* One document has it all; what people read is drawn from it. */
static const char STATUS[] =
    "WITH live AS (SELECT i.*, p.pid, process_alive(p.boot_id, p.pid, p.start_ticks) AS alive"
    "                FROM instance AS i JOIN process AS p ON p.id = i.process_id"
    "               WHERE i.state IN ('starting', 'ready', 'draining')),"
    " ran AS (SELECT r.actor, r.state, r.attempt, p.pid,"
    "                CASE WHEN process_alive(p.boot_id, p.pid, p.start_ticks)"
    "                     THEN process_rss(p.pid) END AS rss"
    "           FROM actor_run AS r LEFT JOIN process AS p ON p.id = r.process_id"
    "          WHERE r.instance_id = (SELECT id FROM live) AND r.attempt ="
    "                (SELECT max(attempt) FROM actor_run"
    "                  WHERE instance_id = r.instance_id AND actor = r.actor)"
    "          ORDER BY r.actor),"
    " last AS (SELECT * FROM instance WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT 1)"
    " SELECT json_object("
    "  'name', (SELECT name FROM box), 'role', (SELECT role FROM box),"
    "  'mode', (SELECT mode FROM box),"
    "  'anchor', (SELECT json_object('host', p.host_name, 'owner', a.owner,"
    "             'live', json(iif(EXISTS (SELECT 1 FROM live_anchor), 'true', 'false')),"
    "             'heard_at', rfc3339(a.heard_at), 'heard_age_ms', now_ms() - a.heard_at)"
    "             FROM anchor AS a JOIN pairing AS p ON p.id = a.pairing_id),"
    "  'running', json(CASE WHEN (SELECT alive FROM live) THEN 'true' ELSE 'false' END),"
    "  'state', coalesce((SELECT iif(alive, state, 'lost') FROM live),"
    "                    (SELECT state FROM last)),"
    "  'pid', (SELECT pid FROM live WHERE alive), 'epoch', (SELECT max(epoch) FROM instance),"
    "  'version', (SELECT version FROM live WHERE alive),"
    "  'uptime_ms', (SELECT now_ms() - started_at FROM live WHERE alive),"
    "  'ended_at', (SELECT rfc3339(ended_at) FROM last WHERE NOT EXISTS (SELECT 1 FROM live)),"
    "  'end_reason', (SELECT end_reason FROM last WHERE NOT EXISTS (SELECT 1 FROM live)),"
    "  'actors', (SELECT json_group_array(json_object('actor', actor, 'state', state, 'pid', pid,"
    "             'restarts', attempt - 1, 'rss_bytes', rss)) FROM ran),"
    "  'schema', (SELECT user_version FROM pragma_user_version),"
    "  'directory', :directory,"
    "  'database_bytes', (SELECT page_count * page_size"
    "                       FROM pragma_page_count, pragma_page_size),"
    "  'free_bytes', (SELECT freelist_count * page_size"
    "                   FROM pragma_freelist_count, pragma_page_size),"
    "  'wal_bytes', :wal,"
    "  'pairings', (SELECT json_group_array(json_object('host', host, 'state', state,"
    "               'reason', reason, 'since_at', rfc3339(since), 'transport', transport,"
    "               'lines', up, 'line_code', code, 'line_why', why,"
    "               'line_age_ms', now_ms() - changed_at))"
    "               FROM pairing_status LEFT JOIN pairing_line ON pairing_id = id"
    "               WHERE state <> 'revoked'),"
    "  'factors', (SELECT count(*) FROM factor WHERE state = 'active'),"
    "  'open_approvals', (SELECT count(*) FROM open_approvals),"
    "  'open_context_asks', (SELECT count(*) FROM open_context_asks),"
    "  'live_grants', (SELECT count(*) FROM live_grants),"
    "  'boxes', (SELECT count(*) FROM host_box WHERE state = 'active'),"
    "  'boxes_astray', (SELECT count(*) FROM box_witness AS w JOIN host_box AS b ON b.id = w.box_id"
    "                    WHERE b.state = 'active' AND w.state IN ('behind', 'forked')),"
    "  'open_invitations', (SELECT count(*) FROM invitation"
    "                        WHERE state = 'open' AND expires_at > now_ms()),"
    "  'open_calls', (SELECT count(*) FROM call WHERE finished_at IS NULL),"
    "  'audit_seq', coalesce((SELECT max(seq) FROM audit), 0),"
    "  'sealed_seq', (SELECT max(seq) FROM audit_seal),"
    "  'sealed_at', (SELECT rfc3339(at) FROM audit_seal ORDER BY seq DESC LIMIT 1),"
    "  'seal_age_ms', (SELECT now_ms() - at FROM audit_seal ORDER BY seq DESC LIMIT 1),"
    "  'outbox', (SELECT count(*) FROM audit_outbox),"
    "  'outbox_dropped', (SELECT dropped FROM audit_drop))";

static const char ACTORS[] = "SELECT value->>'actor' AS actor, value->>'state' AS state,"
			     " value->>'pid' AS pid, value->>'restarts' AS restarts,"
			     " size_words(value->>'rss_bytes') AS memory"
			     " FROM json_each(:doc, '$.actors')";

static const char LINES[] =
    "SELECT 'machine', (:doc->>'name') || iif(:doc->>'role' = 'host', ', a Host', '')"
    " UNION ALL SELECT 'mode', CASE"
    "   WHEN :doc->>'mode' = 'local' THEN 'local: paired Hosts may ask, a person approves'"
    "   WHEN :doc->>'$.anchor.host' IS NULL THEN 'networked, without an anchor, so nothing is'"
    "        || ' answered: bastion ' || iif(json_array_length(:doc, '$.pairings') = 0,"
    "        'pair CODE', 'claim-anchor')"
    "   WHEN NOT :doc->>'$.anchor.live' THEN printf('networked; its anchor %s does not stand, so'"
    "        || ' nothing is answered: bastion pairings', :doc->>'$.anchor.host')"
    "   ELSE printf('networked, anchored to %s%s, heard %s ago', :doc->>'$.anchor.host',"
    "        iif(:doc->>'$.anchor.owner' = '', '', ' for ' || (:doc->>'$.anchor.owner')),"
    "        time_words(:doc->>'$.anchor.heard_age_ms')) END WHERE :doc->>'role' = 'box'"
    " UNION ALL SELECT 'daemon', CASE"
    "   WHEN :doc->>'running' THEN printf('%s, pid %d, up %s, epoch %d, bastion %s',"
    "        :doc->>'state', :doc->>'pid', time_words(:doc->>'uptime_ms'), :doc->>'epoch',"
    "        :doc->>'version')"
    "   WHEN :doc->>'state' IS NULL THEN 'not running, and never was'"
    "   WHEN :doc->>'ended_at' IS NULL THEN"
    "        'not running: the last one died without a word, and the next will say what was lost'"
    "   ELSE printf('not running: %s at %s, %s', :doc->>'state',"
    "        datetime(:doc->>'ended_at', 'localtime'), :doc->>'end_reason') END"
    " UNION ALL SELECT 'state', printf('%s, schema %d, database %s%s, log %s', :doc->>'directory',"
    "   :doc->>'schema', size_words(:doc->>'database_bytes'), iif(:doc->>'free_bytes' = 0, '',"
    "   printf(' (%s free)', size_words(:doc->>'free_bytes'))), size_words(:doc->>'wal_bytes'))"
    " UNION ALL SELECT 'Hosts', coalesce((SELECT group_concat(printf('%s (%s)', value->>'host',"
    "   value->>'state'), ', ') FROM json_each(:doc, '$.pairings')), 'none paired')"
    "   WHERE :doc->>'role' = 'box'"
    " UNION ALL SELECT '', printf('%s  [invalid]: %s; mend it: bastion pair --replace CODE, or end'"
    "   || ' it: bastion unpair %s', value->>'host', value->>'reason', value->>'host')"
    "   FROM json_each(:doc, '$.pairings') WHERE value->>'state' = 'invalid'"
    " UNION ALL SELECT '', printf('%s  [not connected]: %s', value->>'host',"
    "   coalesce(value->>'line_why', 'it is being dialled'))"
    "   FROM json_each(:doc, '$.pairings') WHERE :doc->>'running'"
    "    AND value->>'state' = 'active' AND value->>'transport' = 'reverse'"
    "    AND coalesce(value->>'lines', 0) = 0"
    " UNION ALL SELECT 'factors', iif(:doc->>'factors' = 0,"
    "   'none, so nobody can approve: bastion factor add totp', :doc->>'factors')"
    "   WHERE :doc->>'role' = 'box'"
    " UNION ALL SELECT 'approvals', iif(:doc->>'open_approvals' = 0, 'none waits',"
    "   (:doc->>'open_approvals') || ' to decide: bastion approvals') WHERE :doc->>'role' = 'box'"
    " UNION ALL SELECT 'folders', (:doc->>'open_context_asks')"
    "   || ' that users ask to share: bastion context' WHERE :doc->>'open_context_asks' > 0"
    " UNION ALL SELECT 'grants', iif(:doc->>'live_grants' = 0, 'none',"
    "   (:doc->>'live_grants') || ' live: bastion grants') WHERE :doc->>'role' = 'box'"
    " UNION ALL SELECT 'boxes', printf('%d paired, %d invited, %d asks open%s', :doc->>'boxes',"
    "   :doc->>'open_invitations', :doc->>'open_calls', iif(:doc->>'boxes_astray' = 0, '',"
    "   printf('; the audit of %d went back or was written anew: bastion host boxes',"
    "   :doc->>'boxes_astray'))) WHERE :doc->>'role' = 'host'"
    " UNION ALL SELECT 'audit', printf('%d rows, %s', :doc->>'audit_seq',"
    "   iif(:doc->>'sealed_seq' IS NULL, 'never sealed', printf('sealed to %d %s ago',"
    "       :doc->>'sealed_seq', time_words(:doc->>'seal_age_ms'))))"
    " UNION ALL SELECT 'system log', printf('%d rows wait, %d dropped', :doc->>'outbox',"
    "   :doc->>'outbox_dropped')";

/* Resident memory of a process in bytes, from /proc/PID/statm; NULL where there is none. */
static void
process_rss(sqlite3_context *c, int n, sqlite3_value **v)
{
	char path[48];
	unsigned long long pages;
	FILE *f;

	(void)n;
	snprintf(path, sizeof(path), "/proc/%d/statm", sqlite3_value_int(v[0]));
	if ((f = fopen(path, "re")) == NULL)
		return;
	if (fscanf(f, "%*u %llu", &pages) == 1)
		sqlite3_result_int64(c, (sqlite3_int64)(pages * (size_t)sysconf(_SC_PAGESIZE)));
	fclose(f);
}

static void
rfc3339(sqlite3_context *c, int n, sqlite3_value **v)
{
	char when[TEXT_TIME_MAX];

	(void)n;
	if (sqlite3_value_type(v[0]) == SQLITE_NULL)
		return;
	text_time(sqlite3_value_int64(v[0]), true, when);
	sqlite3_result_text(c, when, -1, SQLITE_TRANSIENT);
}

/* 4711 bytes are 4.6 kB: powers of 1024, as other tools say it. */
static void
size_words(sqlite3_context *c, int n, sqlite3_value **v)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
	double size = sqlite3_value_double(v[0]);
	char text[32];
	size_t i = 0;

	(void)n;
	if (sqlite3_value_type(v[0]) == SQLITE_NULL)
		return;
	for (; size >= 1024 && i < 4; i++)
		size /= 1024;
	snprintf(text, sizeof(text), i == 0 ? "%.0f %s" : "%.1f %s", size, units[i]);
	sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
}

static void
time_words(sqlite3_context *c, int n, sqlite3_value **v)
{
	int64_t s = sqlite3_value_int64(v[0]) / 1000;
	char text[64];

	(void)n;
	if (sqlite3_value_type(v[0]) == SQLITE_NULL)
		return;
	if (s < 60)
		snprintf(text, sizeof(text), "%" PRId64 " s", s);
	else if (s < 3600)
		snprintf(text, sizeof(text), "%" PRId64 " min", s / 60);
	else if (s < 86400)
		snprintf(
		    text, sizeof(text), "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
	else
		snprintf(
		    text, sizeof(text), "%" PRId64 " d %" PRId64 " h", s / 86400, s / 3600 % 24);
	sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
}

static int
add_functions(struct cli *cli)
{
	static const struct {
		const char *name;
		void (*fn)(sqlite3_context *, int, sqlite3_value **);
	} all[] = {{"process_rss", process_rss}, {"rfc3339", rfc3339}, {"size_words", size_words},
	    {"time_words", time_words}};
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (sqlite3_create_function(store_handle(cli->db), all[i].name, 1, SQLITE_UTF8,
			NULL, all[i].fn, NULL, NULL) != SQLITE_OK)
			return refusal_set(&cli->refusal, "store.failed", "out of memory");
	}
	return 0;
}

static struct stmt *
status_query(struct cli *cli)
{
	struct stat wal = {.st_size = 0};
	struct stmt *q;

	if (fstatat(cli->home.fd, "bastion.db-wal", &wal, AT_SYMLINK_NOFOLLOW) == -1)
		wal.st_size = 0;
	if ((q = store_sql(cli->db, STATUS)) == NULL)
		return NULL;
	stmt_text(q, ":directory", cli->home.state);
	stmt_int(q, ":wal", wal.st_size);
	return q;
}

static int
show_lines(struct cli *cli, const char *doc)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, LINES)) == NULL)
		return -1;
	stmt_text(q, ":doc", doc);
	while ((n = stmt_step(q)) == 1) {
		printf("%-11s ", stmt_get_text(q, 0));
		text_show(stdout, stmt_get_text(q, 1), strlen(stmt_get_text(q, 1)));
		putchar('\n');
	}
	return n;
}

static int
show_actors(struct cli *cli, const char *doc)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, ACTORS)) == NULL)
		return -1;
	stmt_text(q, ":doc", doc);
	if (strstr(doc, "\"actors\":[]") == NULL)
		putchar('\n');
	return cli_show(cli, q);
}

/* Return the exit code, or -1 with a refusal. */
static int
show(struct cli *cli)
{
	struct stmt *q;
	const char *doc;
	int running;

	if (add_functions(cli) == -1 || (q = status_query(cli)) == NULL || stmt_step(q) != 1)
		return -1;
	doc = stmt_get_text(q, 0);
	running = strstr(doc, "\"running\":true") != NULL;
	if (cli->mode == CLI_JSON)
		printf("%s\n", doc);
	else if (show_lines(cli, doc) == -1 || show_actors(cli, doc) == -1)
		return -1;
	stmt_done(q);
	return running ? 0 : 1;
}

/*
 * VERB: status
 *
 * usage: bastion status [--json]
 *
 * Say whether the daemon runs, with which actors, and what waits for a person. The exit code is 0
 * while it runs, 1 if it does not, and 3 where there is no state yet.
 */
int
verb_status(struct cli *cli, int argc, char **argv)
{
	int first, code;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	if (cli_open(cli, ROLE_READER) == -1)
		return cli_refuse(cli);
	return (code = show(cli)) == -1 ? cli_refuse(cli) : code;
}
