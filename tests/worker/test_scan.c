/* test_scan.c: what a box that observes tells of its agents and their tool servers, and what not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/clock.h"
#include "engine/state/beat.h"
#include "engine/worker/runner.h"
#include "engine/worker/scan.h"
#include "tests/scratch.h"

#define LIMIT_MS 20000
#define MINUTE   60000
#define MORNING  INT64_C(1700000000000)

#define DONE     "SELECT s.state = 'done' AND s.of_id = d.id FROM agent_seen AS s, agent_declared AS d"
#define DECLARED "SELECT max(id) FROM agent_scan WHERE kind = 'declared'"

static struct scratch s;
static struct actor_env env;
static struct runner runner;
static struct scans *scans;
static const char *until; /* the test goes on when this is not zero */
static char root[64];
static int64_t paired, now;

static void
look(void)
{
	if (until != NULL && scratch_value(&s, until) > 0)
		loop_stop(env.loop);
}

static void
on_bell(void *ctx, uint32_t events)
{
	(void)ctx;
	(void)events;
	store_bell_quiet(env.db);
	scans_wake(scans);
	look();
}

static void
on_runner(void *ctx, uint32_t events)
{
	struct runner_event event;

	(void)ctx;
	(void)events;
	while (runner_event(&runner, &event) == 1)
		assert_true(scans_event(scans, &event));
	look();
}

static void
too_long(void *ctx)
{
	(void)ctx;
	fail_msg("this never came: %s", until);
}

static void
waits(const char *sql)
{
	uint64_t timer = loop_after(env.loop, LIMIT_MS, too_long, NULL);

	until = sql;
	scans_wake(scans);
	if (scratch_value(&s, sql) <= 0)
		loop_run(env.loop);
	until = NULL;
	loop_cancel(env.loop, timer);
}

static void
sets(const char *sql)
{
	if (scratch_sql(&s, sql) != 0)
		fail_msg("%s: %s", sql, s.error);
}

static void
later(int minutes)
{
	clock_fix(now += (int64_t)minutes * MINUTE);
}

/* A file of the other machine, and the folders above it. */
static void
put(const char *path, const char *bytes, size_t len)
{
	char full[256], *at;
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
		*at = '\0';
		mkdir(full, 0755);
	}
	assert_non_null(f = fopen(full, "we"));
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

#define PUT(path, bytes) put(path, bytes, sizeof(bytes) - 1)

static void
machine_make(void)
{
	PUT("etc/passwd", "root:x:0:0::/root:/bin/sh\npat:x:1001:1001::/home/pat:/bin/sh\n");
	PUT("etc/group", "pat:x:1001:\n");
	PUT("home/pat/.claude.json",
	    "{\"mcpServers\":{\"files\":{\"command\":\"npx\",\"args\":[\"-y\",\"mcp-files\",\"/SECRET-a\"],"
	    "\"env\":{\"API_KEY\":\"SECRET-b\"}},\"idle\":{\"command\":\"/opt/idle\"},"
	    "\"hub\":{\"url\":\"https://hub.example/SECRET-c\",\"headers\":{\"X\":\"SECRET-d\"}}}}");
	PUT("proc/500/cmdline", "node\0/usr/bin/mcp-files\0--token\0SECRET-e\0");
	PUT("proc/500/status", "Uid:\t1001\t1001\n");
	PUT("proc/501/cmdline", "node\0/x/mcp-server-odd\0");
	PUT("proc/501/status", "Uid:\t1001\t1001\n");
	PUT("proc/502/cmdline", "/usr/bin/claude\0-p\0--api-key\0SECRET-f\0");
	PUT("proc/502/status", "Uid:\t1001\t1001\n");
}

static void
begin(const char *of)
{
	struct refusal r = {0};

	clock_fix(now = MORNING);
	scratch_make(&s, HOME_BOX);
	paired = scratch_pair(&s);
	env = (struct actor_env){.home = &s.home, .loop = loop_new()};
	env.db = store_open(&s.home, ROLE_WORKER, &s.keys, &r);
	assert_non_null(env.db);
	store_acting(env.db, "actor:worker");
	if (runner_start(&runner, "/proc/self/exe", &r) != 0)
		fail_msg("%s: %s", r.code, r.why);
	assert_non_null(scans = scans_new(&env, &runner, of));
	loop_add(env.loop, runner_fd(&runner), EPOLLIN, on_runner, NULL);
	loop_add(env.loop, store_bell(env.db), EPOLLIN, on_bell, NULL);
}

static int
set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/bastion-scan-XXXXXX");
	if (mkdtemp(root) == NULL)
		return -1;
	machine_make();
	begin(root);
	sets("UPDATE setting SET value = 1 WHERE name = 'agents.observe'");
	return 0;
}

static int
tear_down(void **state)
{
	char command[128];

	(void)state;
	scans_free(scans);
	loop_del(env.loop, runner_fd(&runner));
	loop_del(env.loop, store_bell(env.db));
	assert_int_equal(kill(runner.pid, SIGCONT), 0);
	assert_int_equal(runner_stop(&runner), 0);
	store_close(env.db);
	loop_free(env.loop);
	scratch_drop(&s);
	snprintf(command, sizeof(command), "rm -rf --one-file-system '%s'", root);
	return root[0] == '\0' || system(command) == 0 ? 0 : -1;
}

/* What the box says now, by a path of SQLite; "" where it does not say that. */
static const char *
says(const char *path)
{
	static char out[65536];
	struct stmt *q;
	char *beat;

	if (beat_make(scratch_open(&s, ROLE_LINK), paired, &beat) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_null(strstr(beat, "SECRET"));
	assert_non_null(q = store_sql(s.db, "SELECT CAST(:beat -> :path AS TEXT)"));
	stmt_text(q, ":beat", beat);
	stmt_text(q, ":path", path);
	assert_int_equal(stmt_step(q), 1);
	snprintf(out, sizeof(out), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	free(beat);
	return out;
}

#define SAYS(path, want) assert_string_equal(says(path), want)

/* How the server of this name fits what runs. */
static const char *
server(const char *name)
{
	static char out[128];
	char sql[256];

	snprintf(sql, sizeof(sql),
	    "SELECT server ->> '$.state' || ' ' || coalesce(server ->> '$.pid', '-') FROM agent_server"
	    " WHERE server ->> '$.name' = '%s'",
	    name);
	return scratch_text(&s, sql, out, sizeof(out));
}

/* HB-4: a box that does not observe looks at nothing and says nothing of it, whatever it saw. */
static void
not_observing_nothing_is_said(void **state)
{
	(void)state;
	waits(DONE);
	assert_string_not_equal(says("$.agents"), "");
	sets("UPDATE setting SET value = 0 WHERE name = 'agents.observe'");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM agent_scan"), 0);
	later(20);
	scans_wake(scans);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM agent_scan"), 0);
	scratch_refused(&s, "agents.due",
	    "INSERT INTO agent_scan (kind, began_at) VALUES ('processes', now_ms())");
	SAYS("$.agents", "");
	SAYS("$.schedulers", "");
	SAYS("$.tool_servers", "");
	SAYS("$.tool_server_scan", "");
	SAYS("$.state", "\"active\"");
}

/* What runs, what is declared, how they fit; the first of it makes a beat go out at once. */
static void
agents_and_servers_are_told(void **state)
{
	(void)state;
	sets("DELETE FROM beat_request");
	waits(DONE);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM beat_request"), 1);
	SAYS("$.agents[0].agent", "\"claude-code\"");
	SAYS("$.agents[0].pid", "502");
	SAYS("$.agents[0].owner_class", "\"local_user\"");
	SAYS("$.agents[1]", "");
	assert_string_equal(server("files"), "running 500");
	assert_string_equal(server("idle"), "declared_not_running -");
	assert_string_equal(server("hub"), "unknown -");
	assert_string_equal(server(""), "running_not_declared 501");
	SAYS("$.tool_servers[0].env", "\"API_KEY\"");
	SAYS("$.tool_servers[0].secrets", "true");
	SAYS("$.tool_servers[3].what", "\"/x/mcp-server-odd\"");
	SAYS("$.tool_servers[4]", "");
	SAYS("$.tool_server_scan.timed_out", "false");
	SAYS("$.tool_server_scan.process_scan", "\"ok\"");
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM agent_scan WHERE result GLOB '*SECRET*'"), 0);
}

/* MCP-1, MCP-2, HB-5: while a reading hangs, beats say so at once, and no second one begins. */
static void
a_stuck_reading_holds_up_no_beat(void **state)
{
	(void)state;
	SAYS("$.tool_servers", "[]");
	SAYS("$.tool_server_scan.timed_out", "true");
	SAYS("$.agents", "");
	sets("UPDATE setting SET value = 100 WHERE name = 'agents.wait_ms'");
	assert_int_equal(kill(runner.pid, SIGSTOP), 0);
	waits("SELECT count(*) = 2 FROM agent_scan WHERE state = 'stuck'");
	SAYS("$.tool_servers", "[]");
	SAYS("$.tool_server_scan.timed_out", "true");
	SAYS("$.tool_server_scan.process_scan", "\"failed\"");
	SAYS("$.agents", "");
	later(30);
	scans_wake(scans);
	SAYS("$.tool_servers", "[]");
	SAYS("$.tool_server_scan.timed_out", "true");
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) = 2 AND min(state) = 'stuck' FROM agent_scan"), 1);
	scratch_refused(&s, "agents.due",
	    "INSERT INTO agent_scan (kind, began_at) VALUES ('declared', now_ms())");
	/* What hangs lets go: what it says now is too late, and the next reading is a new one. */
	sets("UPDATE setting SET value = 20000 WHERE name = 'agents.wait_ms'");
	assert_int_equal(kill(runner.pid, SIGCONT), 0);
	waits(DONE);
	assert_true(scratch_value(&s, DECLARED) > 2);
	SAYS("$.tool_server_scan.timed_out", "false");
}

/* MCP-3: what was read is kept for ten minutes; processes are looked at for each beat. */
static void
declarations_are_kept(void **state)
{
	int64_t first, seen;

	(void)state;
	waits(DONE);
	first = scratch_value(&s, DECLARED);
	seen = scratch_value(&s, "SELECT id FROM agent_seen");
	later(9);
	PUT("proc/503/cmdline", "/opt/idle\0");
	waits("SELECT ended_at > 1700000000000 FROM agent_seen");
	assert_true(scratch_value(&s, "SELECT id FROM agent_seen") != seen);
	assert_int_equal(scratch_value(&s, DECLARED), first);
	assert_string_equal(server("idle"), "running 503");
	later(2);
	waits("SELECT began_at = now_ms() FROM agent_declared");
	waits(DONE);
	assert_true(scratch_value(&s, DECLARED) > first);
	assert_true(scratch_value(&s, "SELECT count(*) FROM agent_scan") <= 4);
}

/* MCP-4: while a new reading hangs, the list of the last one is told, and that it is old. */
static void
a_stuck_refresh_leaves_the_old_list(void **state)
{
	(void)state;
	waits(DONE);
	later(11);
	sets("UPDATE setting SET value = 100 WHERE name = 'agents.wait_ms'");
	assert_int_equal(kill(runner.pid, SIGSTOP), 0);
	waits("SELECT count(*) FROM agent_scan WHERE state = 'stuck' AND kind = 'declared'");
	SAYS("$.tool_servers[0].name", "\"files\"");
	SAYS("$.tool_servers[2].name", "\"idle\"");
	SAYS("$.tool_server_scan.timed_out", "true");
}

/* MCP-5: what was being read when a person turned it off and on is of no use. */
static void
a_reset_drops_what_is_read(void **state)
{
	(void)state;
	assert_int_equal(kill(runner.pid, SIGSTOP), 0);
	waits("SELECT count(*) = 2 FROM agent_scan WHERE state = 'reading'");
	sets("UPDATE setting SET value = 0 WHERE name = 'agents.observe';"
	     "UPDATE setting SET value = 1 WHERE name = 'agents.observe'");
	scratch_refused(&s, "agents.fixed",
	    "UPDATE agent_scan SET state = 'done', ended_at = 1, result = '{}'");
	assert_int_equal(kill(runner.pid, SIGCONT), 0);
	waits(DONE);
	assert_true(scratch_value(&s, "SELECT min(id) FROM agent_scan WHERE state = 'done'") > 2);
	assert_int_equal(
	    scratch_value(
		&s, "SELECT count(*) FROM agent_scan WHERE dropped AND result IS NOT NULL"),
	    0);
}

/* MCP-6, HB-5: where the processes cannot be read, the declared list stands, and nothing is said of
 * what runs. */
static void
no_processes_no_word_of_them(void **state)
{
	char from[128], to[128];

	(void)state;
	waits(DONE);
	later(2);
	snprintf(from, sizeof(from), "%s/proc", root);
	snprintf(to, sizeof(to), "%s/gone", root);
	assert_int_equal(rename(from, to), 0);
	waits("SELECT state = 'failed' FROM agent_seen");
	SAYS("$.agents", "");
	SAYS("$.tool_server_scan.process_scan", "\"failed\"");
	SAYS("$.tool_server_scan.timed_out", "false");
	assert_string_equal(server("files"), "unknown -");
	assert_string_equal(server("idle"), "unknown -");
	assert_string_equal(server(""), "");
	SAYS("$.tool_servers[2].name", "\"idle\"");
	SAYS("$.tool_servers[3]", "");
}

/* Each list has its part of a beat; what does not fit is said to be left out. */
static void
long_lists_are_cut(void **state)
{
	char *beat;

	(void)state;
	waits(DONE);
	later(11);
	sets(
	    "INSERT INTO agent_scan (kind, began_at) VALUES ('declared', now_ms());"
	    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
	    "UPDATE agent_scan SET state = 'done', ended_at = now_ms(), result = (SELECT json_object("
	    " 'servers', json_group_array(json_object('name', printf('%0100d', i), 'what', 'x',"
	    "   'transport', 'http')), 'timed_out', json('false'), 'truncated', json('false'),"
	    " 'unread', 0) FROM n) WHERE state = 'reading';"
	    "INSERT INTO agent_scan (kind, began_at) VALUES ('processes', now_ms());"
	    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
	    "UPDATE agent_scan SET state = 'done', ended_at = now_ms(), result = (SELECT json_object("
	    " 'agents', json_group_array(json_object('command', printf('%0200d', i)))) FROM n)"
	    " WHERE state = 'reading'");
	assert_int_equal(beat_make(scratch_open(&s, ROLE_LINK), paired, &beat), 0);
	assert_true(strlen(beat) < 65536);
	free(beat);
	SAYS("$.tool_server_scan.truncated", "true");
	assert_true(atoi(says("$.agents_left_out")) > 900);
}

/* This machine: an agent that runs here is told, as itself; one that bastion started is not. */
static void
an_agent_of_this_machine_is_told(void **state)
{
	char sql[256];
	pid_t pid;

	(void)state;
	root[0] = '\0';
	begin("");
	assert_true((pid = fork()) != -1);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sleep", "claude", "600", (char *)NULL);
		_exit(127);
	}
	/* Until its name is its own, the look would see a copy of this test. */
	snprintf(sql, sizeof(sql), "/proc/%d/cmdline", (int)pid);
	for (char name[8] = ""; strcmp(name, "claude") != 0;) {
		FILE *f = fopen(sql, "re");

		assert_non_null(f);
		if (fread(name, 1, 7, f) < 7)
			name[0] = '\0';
		fclose(f);
	}
	sets("UPDATE setting SET value = 1 WHERE name = 'agents.observe'");
	waits(DONE);
	snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM agent_seen, json_each(result, '$.agents') AS a"
	    " WHERE a.value ->> '$.pid' = %d AND a.value ->> '$.agent' = 'claude-code'",
	    (int)pid);
	assert_int_equal(scratch_value(&s, sql), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	SAYS("$.tool_server_scan.process_scan", "\"ok\"");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    CASE(not_observing_nothing_is_said),
	    CASE(agents_and_servers_are_told),
	    CASE(a_stuck_reading_holds_up_no_beat),
	    CASE(declarations_are_kept),
	    CASE(a_stuck_refresh_leaves_the_old_list),
	    CASE(a_reset_drops_what_is_read),
	    CASE(no_processes_no_word_of_them),
	    CASE(long_lists_are_cut),
	    cmocka_unit_test_teardown(an_agent_of_this_machine_is_told, tear_down),
	};

	if (argc > 1 && strcmp(argv[1], "runner") == 0)
		return runner_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
