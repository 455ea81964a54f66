/* test_session.c: the rules of sessions, in SQL: whose turn, how often, what becomes of each end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/clock.h"
#include "tests/scratch.h"

#define MORNING INT64_C(1800000015000)

static struct scratch s;

static void __attribute__((format(printf, 1, 2))) sql(const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (scratch_sql(&s, text) != 0)
		fail_msg("%s: %s", text, s.error);
}

static int64_t
value(const char *text)
{
	return scratch_value(&s, text);
}

/* A daemon that serves, with a worker. */
static int
make(void **state)
{
	(void)state;
	clock_fix(MORNING);
	scratch_make(&s, HOME_BOX);
	sql("INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES (1, '00000000-0000-0000-0000-000000000000', 4711, 1, 0, 'bastion', now_ms());"
	    "INSERT INTO instance (id, epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 1, 'box', 1, 'test', '/run/bastion', now_ms());"
	    "UPDATE instance SET state = 'ready', ready_at = now_ms();"
	    "INSERT INTO actor_run (id, instance_id, actor, attempt, process_id, state, started_at)"
	    " VALUES (1, 1, 'worker', 1, 1, 'starting', now_ms());"
	    "UPDATE actor_run SET state = 'running'");
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	sql("UPDATE instance SET state = 'draining', draining_at = now_ms() WHERE state = 'ready';"
	    "UPDATE actor_run SET state = 'ended', ended_at = now_ms()"
	    " WHERE state IN ('starting', 'running');"
	    "UPDATE instance SET state = 'ended', ended_at = now_ms(), end_reason = 'test'"
	    " WHERE state = 'draining'");
	scratch_drop(&s);
	clock_fix(-1);
	return 0;
}

static void
ask(const char *name, int max_attempts)
{
	sql("INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
	    " VALUES ('%s', '[\"true\"]', '/', 0, %d, now_ms(), now_ms())",
	    name, max_attempts);
}

#define LAUNCH                                             \
	"INSERT INTO attempt (session_id, n, launched_at)" \
	" SELECT id, attempts + 1, now_ms() FROM session WHERE name = '%s'"

static void
launch(const char *name)
{
	sql(LAUNCH, name);
	sql("UPDATE attempt SET state = 'running', process_id = 1 WHERE state = 'launching'");
}

static void
ends(const char *name, const char *outcome, int exit_code)
{
	sql("UPDATE attempt SET state = 'ended', outcome = '%s', exit_code = %d, ended_at = now_ms()"
	    " WHERE state = 'running' AND session_id = (SELECT id FROM session WHERE name = '%s')",
	    outcome, exit_code, name);
}

static void
is(const char *name, const char *state)
{
	char query[160], found[32];

	snprintf(query, sizeof(query),
	    "SELECT state || coalesce(' ' || end_reason, '') FROM session"
	    " WHERE name = '%s'",
	    name);
	assert_string_equal(scratch_text(&s, query, found, sizeof(found)), state);
}

static void __attribute__((format(printf, 2, 3))) refused(const char *code, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	scratch_refused(&s, code, text);
}

static void
later(int64_t ms)
{
	clock_fix(clock_now() + ms);
}

/* PO-18, RF-35: attempts are known by their rows, their processes by more than a pid: two that had
 * the same pid do not disturb each other. */
static void
a_pid_is_not_an_attempt(void **state)
{
	(void)state;
	sql("INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at) SELECT 1 + value,"
	    " '00000000-0000-0000-0000-000000000000', 4712, value, 0, 'sh', now_ms()"
	    " FROM json_each('[1,2]')");
	ask("a", 1);
	ask("b", 1);
	sql(LAUNCH, "a");
	sql("UPDATE attempt SET state = 'running', process_id = 2 WHERE state = 'launching'");
	sql(LAUNCH, "b");
	sql("UPDATE attempt SET state = 'running', process_id = 3 WHERE state = 'launching'");
	ends("a", "success", 0);
	is("a", "done");
	is("b", "running");
	assert_int_equal(value("SELECT count(*) FROM attempt WHERE state = 'running'"), 1);
	refused("session.fixed", "UPDATE attempt SET process_id = %s WHERE state = 'running'", "2");
	ends("b", "permanent", 76);
	is("b", "failed permanent");
	is("a", "done");
}

/* PO-17: nothing is made that could start nothing, be it a worker or a session. */
static void
nothing_without_a_program(void **state)
{
	static const char *const none[] = {"[]", "{}", "\"true\"", "[\"\"]", "[1]", "[null]"};
	char worker[256], session[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		snprintf(worker, sizeof(worker),
		    "INSERT INTO worker (name, argv, max_attempts, by_uid, added_at)"
		    " VALUES ('w', '%s', 5, 0, now_ms())",
		    none[i]);
		snprintf(session, sizeof(session),
		    "INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at,"
		    " not_before) VALUES ('s', '%s', '/', 0, 1, now_ms(), now_ms())",
		    none[i]);
		assert_int_not_equal(scratch_sql(&s, worker), 0);
		assert_non_null(strstr(s.error, i < 3 ? "json_type(argv)" : "worker.argv"));
		assert_int_not_equal(scratch_sql(&s, session), 0);
		assert_non_null(strstr(s.error, i < 3 ? "json_type(argv)" : "worker.argv"));
	}
	assert_int_equal(
	    value("SELECT (SELECT count(*) FROM worker) + (SELECT count(*) FROM session)"), 0);
}

/* PO-01, PO-03, PO-04, PO-05: what each exit code makes of a session. */
static void
exits_decide(void **state)
{
	(void)state;
	ask("good", 5);
	launch("good");
	ends("good", "success", 0);
	is("good", "done");
	ask("never", 5);
	launch("never");
	ends("never", "permanent", 76);
	is("never", "failed permanent");
	ask("later", 2);
	launch("later");
	ends("later", "later", 75);
	is("later", "queued");
	assert_int_equal(value("SELECT crashes FROM session WHERE name = 'later'"), 0);
	refused("session.early", LAUNCH, "later");
	later(30000);
	launch("later");
	ends("later", "success", 0);
	is("later", "done");
	assert_int_equal(value("SELECT attempts FROM session WHERE name = 'later'"), 2);
}

/* PO-02, PO-04, PO-14: crashes are tried again up to the bound, and the last ends it at once. */
static void
crashes_are_counted(void **state)
{
	int i;

	(void)state;
	ask("c", 3);
	for (i = 0; i < 3; i++) {
		is("c", "queued");
		launch("c");
		is("c", "running");
		ends("c", i == 1 ? "later" : "crash", i == 1 ? 75 : 1);
		later(3600000);
	}
	is("c", "failed attempts");
	assert_int_equal(value("SELECT crashes FROM session"), 2);
	refused("session.transition", LAUNCH, "c");
}

/* BO-01, BO-02, BO-03, RF-13: waits double from one second to five minutes, each spread by half,
 * and are times in rows. */
static void
waits_double_and_spread(void **state)
{
	static const int64_t base[] = {2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300};
	int64_t wait, low = 1 << 30, high = 0;
	char name[16];
	int n, i;

	(void)state;
	sql("UPDATE setting SET value = 1000 WHERE name = 'session.slots'");
	for (i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		ask(name, 100);
		for (n = 0; n < 12; n++) {
			launch(name);
			ends(name, "crash", 1);
			wait = value(
			    "SELECT not_before - now_ms() FROM session ORDER BY id DESC LIMIT 1");
			assert_in_range(wait, base[n] * 500, base[n] * 1500 - 1);
			if (n >= 8 && wait < low)
				low = wait;
			if (n >= 8 && wait > high)
				high = wait;
			later(wait);
		}
		sql("UPDATE session SET cancel_at = now_ms() WHERE name = '%s'", name);
	}
	assert_true(low < 250000 && high > 350000); /* not all alike */
}

/* PO-06, PO-16, SE-03: places are bounded, and who waits for longest comes first. */
static void
places_and_turns(void **state)
{
	(void)state;
	sql("UPDATE setting SET value = 2 WHERE name = 'session.slots'");
	ask("a", 1);
	ask("b", 1);
	ask("c", 1);
	refused("session.turn", LAUNCH, "b");
	launch("a");
	launch("b");
	refused("session.slots", LAUNCH, "c");
	ends("a", "success", 0);
	launch("c");
	assert_int_equal(value("SELECT count(*) FROM attempt WHERE state = 'running'"), 2);
}

/* RF-40: a session that waits to be tried again holds no place. */
static void
waiting_holds_no_place(void **state)
{
	(void)state;
	sql("UPDATE setting SET value = 1 WHERE name = 'session.slots'");
	ask("a", 5);
	ask("b", 5);
	launch("a");
	ends("a", "crash", 1);
	launch("b");
	ends("b", "success", 0);
	is("a", "queued");
}

/* PO-13: cancelled while it waits, it never runs; while it runs, it ends with its attempt. */
static void
cancelling(void **state)
{
	(void)state;
	ask("w", 5);
	sql("UPDATE session SET cancel_at = now_ms() WHERE name = 'w'");
	is("w", "cancelled cancelled");
	refused("session.transition", LAUNCH, "w");
	ask("r", 5);
	launch("r");
	sql("UPDATE session SET cancel_at = now_ms() WHERE name = 'r'");
	is("r", "running");
	ends("r", "crash", 143);
	is("r", "cancelled cancelled");
	ask("d", 5);
	launch("d");
	sql("UPDATE session SET cancel_at = now_ms() WHERE name = 'd'");
	ends("d", "success", 0); /* it was asked to end, and did */
	is("d", "cancelled cancelled");
}

/* PO-07, PO-19, RF-36, RF-39, SE-13: no place after a drain began; what ran is lost with the
 * worker; what waits lives on. */
static void
drain_and_loss(void **state)
{
	(void)state;
	ask("a", 5);
	ask("b", 5);
	launch("a");
	sql("UPDATE actor_run SET state = 'failed', exit_code = 1, ended_at = now_ms() WHERE id = 1");
	is("a", "failed daemon");
	is("b", "queued");
	sql("INSERT INTO actor_run (instance_id, actor, attempt, process_id, state, started_at)"
	    " VALUES (1, 'worker', 2, 1, 'starting', now_ms());"
	    "UPDATE instance SET state = 'draining', draining_at = now_ms()");
	refused("session.drain", LAUNCH, "b");
	refused("session.offline",
	    "INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
	    " VALUES ('%s', '[\"true\"]', '/', 0, 1, now_ms(), now_ms())",
	    "c");
}

/* SE-02, SE-12, SE-14: one session of a name, and a name that is one. */
static void
names(void **state)
{
	static const char insert[] =
	    "INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
	    " VALUES (%s, '[\"true\"]', '/', 0, 1, now_ms(), now_ms())";
	static const char *const bad[] = {"''", "'a/b'", "'-a'", "'a' || char(10)", "'.a'",
	    "'a' || char(0)", "replace(hex(zeroblob(65)), '0', 'a')"};
	size_t i;

	(void)state;
	ask("x", 1);
	refused("session.exists", insert, "'x'");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused("session.name", insert, bad[i]);
}

/* SE-05, SE-06, SE-15, RF-43: of those that are over the oldest go, with what they said; none that
 * lives does. */
static void
the_oldest_make_place(void **state)
{
	(void)state;
	sql("UPDATE setting SET value = 2 WHERE name = 'session.kept'");
	ask("r1", 1);
	launch("r1");
	ask("r2", 1);
	launch("r2");
	ask("r3", 1); /* over the bound, since all of them live */
	assert_int_equal(value("SELECT count(*) FROM session"), 3);
	sql("INSERT INTO session_output (session_id, seq, attempt, kind, line, lines, at, data)"
	    " VALUES (1, 1, 1, 'out', 1, 1, now_ms(), x'610a')");
	ends("r1", "success", 0);
	later(1);
	ends("r2", "success", 0);
	later(1);
	ask("r4", 1);
	assert_int_equal(value("SELECT count(*) FROM session WHERE name IN ('r1', 'r2')"), 0);
	assert_int_equal(value("SELECT count(*) FROM session WHERE name IN ('r3', 'r4')"), 2);
	assert_int_equal(value("SELECT count(*) FROM session_output"), 0);
	assert_int_equal(value("SELECT count(*) FROM attempt"), 0);
	refused("session.live", "DELETE FROM session WHERE name = '%s'", "r3");
}

/* RF-44: who watches a session that is gone holds a number that no other gets. */
static void
numbers_are_given_once(void **state)
{
	static const char insert[] =
	    "INSERT INTO session (id, name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
	    " VALUES (%s, 'again', '[\"true\"]', '/', 0, 1, now_ms(), now_ms())";

	(void)state;
	ask("x1", 1);
	ask("x2", 1);
	sql("UPDATE session SET cancel_at = now_ms(); DELETE FROM session WHERE name = 'x1'");
	assert_int_equal(value("SELECT id FROM next_session_number"), 3);
	sql("DELETE FROM session");
	assert_int_equal(value("SELECT id FROM next_session_number"), 3);
	refused("session.fixed", insert, "2");
	refused("session.fixed", insert, "1");
	refused("session.fixed", "UPDATE session_number SET last = %s", "1");
	refused("session.fixed", "DELETE FROM session_number%s", "");
	sql(insert, "3");
	assert_int_equal(value("SELECT id FROM next_session_number"), 4);
}

#define SAY                                                                                  \
	"INSERT INTO session_output (session_id, seq, attempt, kind, line, lines, at, data)" \
	" SELECT id, last_seq + 1, 1, 'out', lines + 1, 1, now_ms(), CAST(%s AS BLOB)"       \
	"   FROM session WHERE name = 'o'"

/* SE-11: output is numbered without a gap, is never changed, and what is kept is at least what the
 * setting says. */
static void
output_is_kept(void **state)
{
	int i;

	(void)state;
	sql("UPDATE setting SET value = 4096 WHERE name = 'session.history'");
	ask("o", 1);
	refused("session.output", SAY, "'early'");
	launch("o");
	for (i = 0; i < 10; i++)
		sql(SAY, "replace(hex(zeroblob(512)), '0', 'x')"); /* of 1024 bytes */
	refused("session.seq",
	    "INSERT INTO session_output (session_id, seq, attempt, kind, line, lines, at, data)"
	    " VALUES (1, 12, 1, 'out', 11, 1, now_ms(), x'0%s')",
	    "a");
	refused("session.output", "UPDATE session_output SET data = x'6%s' WHERE seq = 1", "1");
	refused("session.young", "DELETE FROM session_output WHERE seq = 1%s", "");
	refused("session.young", "UPDATE session SET first_seq = %s", "9");
	sql("UPDATE session SET first_seq = 7; DELETE FROM session_output WHERE seq < 7");
	refused("session.seq", "UPDATE session SET first_seq = %s", "3");
	assert_int_equal(value("SELECT lines FROM session"), 10);
	assert_int_equal(value("SELECT min(seq) FROM session_output"), 7);
}

/* What is sent is handed on once, and then nowhere. */
static void
input_is_gone_once_handed_on(void **state)
{
	static const char send[] = "INSERT INTO session_input (session_id, seq, kind, data, at)"
				   " VALUES ((SELECT id FROM session), %s, now_ms())";

	(void)state;
	ask("deaf", 1);
	refused("session.deaf", send, "1, 'data', x'61'");
	sql("UPDATE session SET cancel_at = now_ms(); DELETE FROM session;"
	    "INSERT INTO session (id, name, input, argv, cwd, by_uid, max_attempts, queued_at,"
	    "  not_before) VALUES (2, 'i', 1, '[\"cat\"]', '/', 0, 1, now_ms(), now_ms())");
	sql(send, "1, 'data', x'7365637265740a'");
	refused("session.seq", send, "3, 'data', x'61'");
	refused("session.input", send, "2, 'size', CAST('80x24' AS BLOB)");
	launch("i");
	sql(send, "2, 'end', x''");
	sql("UPDATE session SET input_seq = 1");
	assert_int_equal(value("SELECT count(*) FROM session_input"), 1);
	sql(send, "3, 'data', x'61'");
	ends("i", "success", 0);
	assert_int_equal(value("SELECT count(*) FROM session_input"), 0);
	refused("session.over", send, "4, 'data', x'61'");
}

/* A session of a worker runs that worker's program, with more words behind. */
static void
a_worker_is_its_program(void **state)
{
	static const char insert[] = "INSERT INTO session (name, worker, argv, cwd, by_uid,"
				     "  max_attempts, queued_at, not_before, backend, net)"
				     " VALUES ('w', %s, '/', 0, 1, now_ms(), now_ms(), 'native',"
				     "  'none')";

	(void)state;
	refused("worker.argv",
	    "INSERT INTO worker (name, argv, max_attempts, by_uid, added_at)"
	    " VALUES ('%s', '[1]', 5, 0, now_ms())",
	    "w");
	sql("INSERT INTO worker (name, argv, max_attempts, by_uid, added_at)"
	    " VALUES ('agent', '[\"agent\",\"-p\"]', 5, 0, now_ms())");
	refused("worker.unknown", insert, "'other', '[\"agent\"]'");
	refused("worker.argv", insert, "'agent', '[\"agent\",\"-q\"]'");
	refused("worker.argv", insert, "'agent', '[\"agent\"]'");
	refused("worker.argv", insert, "'agent', '[\"agent\",\"-p\",7]'");
	sql(insert, "'agent', '[\"agent\",\"-p\",\"mend it\"]'");
	refused("worker.fixed", "UPDATE worker SET argv = '[\"%s\"]'", "sh");
}

/* A session is held as its template says, by a sandbox that has a row of its own and ends with it.
 */
static void
a_worker_is_held(void **state)
{
	static const char session[] =
	    "INSERT INTO session (name, worker, argv, cwd, by_uid, max_attempts, queued_at, not_before,"
	    "  backend, net, paths) VALUES ('w', 'agent', '[\"agent\"]', '/', 0, 1, now_ms(), now_ms(), %s)";
	static const char launch[] =
	    "INSERT INTO attempt (session_id, n, launched_at, sandbox_run_id) VALUES (1, 1, now_ms(), %s)";
	static const char worker[] = "INSERT INTO worker (name, argv, max_attempts, by_uid,"
				     "  added_at, backend, net, paths)"
				     " VALUES ('x', '[\"x\"]', 1, 0, now_ms(), %s)";
	struct identity me;

	(void)state;
	refused(
	    "worker.paths", worker, "'native', 'none', '[{\"kind\":\"read\",\"path\":\"srv\"}]'");
	refused(
	    "worker.paths", worker, "'native', 'none', '[{\"kind\":\"hide\",\"path\":\"/srv\"}]'");
	refused("worker.paths", worker,
	    "'native', 'none', '[{\"kind\":\"read\",\"path\":\"/srv/../etc\"}]'");
	refused("worker.unheld", worker, "'none', 'none', '[]'");
	refused(
	    "worker.unheld", worker, "'none', 'host', '[{\"kind\":\"read\",\"path\":\"/srv\"}]'");
	sql("INSERT INTO worker (name, argv, max_attempts, by_uid, added_at, paths) VALUES ('agent',"
	    " '[\"agent\"]', 5, 0, now_ms(), '[{\"kind\":\"write\",\"path\":\"/srv\"}]')");
	refused("session.sandbox", session, "'none', 'host', '[]'");
	refused("session.sandbox", session, "'native', 'none', '[]'");
	refused("session.sandbox", session,
	    "'native', 'host', '[{\"kind\":\"write\",\"path\":\"/srv\"}]'");
	sql(session, "'native', 'none', '[{\"kind\":\"write\",\"path\":\"/srv\"}]'");
	refused("session.fixed",
	    "UPDATE session SET backend = 'none', net = 'host', paths = '[]'%s", "");
	refused("session.sandbox", launch, "NULL");
	/* A sandbox dies with whoever started it: that must live. */
	assert_int_equal(identity_of(getpid(), &me), 0);
	sql("INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES (9, '%s', %" PRId64 ", %" PRId64 ", 0, 'bastion', now_ms())",
	    me.boot_id, me.pid, me.start_ticks);
	sql("INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words, net, started_at)"
	    " VALUES (lower(hex(randomblob(16))), 'native', 9, 7, 'agent', 1, 'none', now_ms()),"
	    "  (lower(hex(randomblob(16))), 'native', 9, 0, 'agent', 1, 'host', now_ms()),"
	    "  (lower(hex(randomblob(16))), 'native', 9, 0, 'agent', 1, 'none', now_ms())");
	refused("session.sandbox", launch, "1"); /* another user's */
	refused("session.sandbox", launch, "2"); /* on the machine's network */
	sql(launch, "3");
	refused("session.fixed", "UPDATE attempt SET sandbox_run_id = %s", "2");
	sql("UPDATE sandbox_run SET state = 'running' WHERE id = 3;"
	    "UPDATE attempt SET state = 'running', process_id = 1;"
	    "UPDATE attempt SET state = 'ended', outcome = 'success', exit_code = 0, ended_at = now_ms()");
	assert_int_equal(
	    value("SELECT state = 'ended' AND exit_code = 0 FROM sandbox_run WHERE id = 3"), 1);
}

/* What a worker's sessions reach is said with it, holds for a try in a network of its own, and ends
 * with that. */
static void
a_worker_on_the_lane(void **state)
{
	static const char worker[] =
	    "INSERT INTO worker (name, argv, max_attempts, by_uid, added_at, backend, net, lane)"
	    " VALUES ('agent', '[\"agent\"]', 5, 0, now_ms(), %s)";
	static const char session[] =
	    "INSERT INTO session (name, worker, argv, cwd, by_uid, max_attempts, queued_at, not_before,"
	    "  backend, net, lane) VALUES ('w', 'agent', '[\"agent\"]', '/', 0, 1, now_ms(), now_ms(), 'native', 'none', %s)";
	static const char launch[] =
	    "INSERT INTO attempt (session_id, n, launched_at, sandbox_run_id) VALUES (1, 1, now_ms(), %s)";
	struct identity me;

	(void)state;
	refused("worker.lane", worker, "'native', 'none', '[\"x\"]'");
	refused("worker.lane", worker, "'native', 'none', '[{\"suffix\":\"A.b\",\"port\":0}]'");
	refused("worker.lane", worker, "'native', 'none', '[{\"suffix\":\"a.b\",\"port\":65536}]'");
	refused("worker.lane", worker, "'native', 'none', '[{\"suffix\":\"a.b\"}]'");
	refused("worker.lane", worker, "'native', 'host', '[]'");
	refused("worker.lane", worker, "'none', 'host', '[]'");
	sql(worker, "'native', 'none', '[{\"suffix\":\"example.com\",\"port\":443}]'");
	refused("session.sandbox", session, "NULL");
	refused("session.sandbox", session, "'[]'");
	sql(session, "'[{\"suffix\":\"example.com\",\"port\":443}]'");
	refused("session.fixed", "UPDATE session SET lane = '[]'%s", "");
	assert_int_equal(identity_of(getpid(), &me), 0);
	sql("INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES (9, '%s', %" PRId64 ", %" PRId64 ", 0, 'bastion', now_ms())",
	    me.boot_id, me.pid, me.start_ticks);
	sql("INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words, net, started_at)"
	    " VALUES (lower(hex(randomblob(16))), 'native', 9, 0, 'agent', 1, 'none', now_ms()),"
	    "  (lower(hex(randomblob(16))), 'native', 9, 0, 'agent', 1, 'sockets', now_ms())");
	refused("session.sandbox", launch, "1"); /* without the network that it is to have */
	assert_int_equal(value("SELECT count(*) FROM carried_run"), 0);
	sql(launch, "2");
	assert_int_equal(value("SELECT id FROM carried_run"), 2);
	assert_int_equal(
	    value("SELECT count(*) FROM egress_rule WHERE run_id = 2 AND verdict = 'allow'"
		  " AND suffix = 'example.com' AND port = 443 AND state = 'active'"),
	    1);
	sql("UPDATE sandbox_run SET state = 'running' WHERE id = 2;"
	    "UPDATE attempt SET state = 'running', process_id = 1;"
	    "UPDATE attempt SET state = 'ended', outcome = 'success', exit_code = 0, ended_at = now_ms();"
	    "UPDATE sandbox_run SET state = 'failed', ended_at = now_ms() WHERE id = 1");
	assert_int_equal(value("SELECT count(*) FROM egress_rule WHERE state = 'active'"), 0);
	assert_int_equal(value("SELECT count(*) FROM carried_run"), 0);
}

#define SIT                                                                                 \
	"INSERT INTO session_typist (session_id, typist, who, n, until_at)"                 \
	" SELECT id, printf('%%.32c', '%s'), 'me', %d, now_ms() + 15000 FROM session"       \
	"  WHERE name = '%s'"                                                               \
	" ON CONFLICT (session_id) DO UPDATE SET typist = excluded.typist, n = excluded.n," \
	"  until_at = excluded.until_at"

/* One at a time types, from here or elsewhere, in numbered pieces; whoever is silent has left. */
static void
one_has_the_keyboard(void **state)
{
	(void)state;
	ask("deaf", 1);
	launch("deaf");
	refused("session.deaf", SIT, "a", 0, "deaf");
	ends("deaf", "success", 0);
	refused("session.over", SIT, "a", 0, "deaf");
	sql("INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before, terminal)"
	    " VALUES ('t', '[\"sh\"]', '/', 0, 1, now_ms(), now_ms(), 1)");
	launch("t");
	refused("session.typist", SIT, "g", 0, "t");
	sql(SIT, "a", 0, "t");
	sql("UPDATE session_typist SET n = 1");
	sql("UPDATE session_typist SET n = 1");
	refused("session.piece", "UPDATE session_typist SET n = 3");
	refused("session.piece", "UPDATE session_typist SET n = 0");
	refused("session.typed", SIT, "b", 0, "t");
	refused("session.typed", "INSERT INTO lease (name, process_id, fence, expires_at)"
				 " VALUES ('session/t', 1, 1, now_ms() + 1000)");
	later(15000);
	sql(SIT, "b", 7, "t");
	assert_int_equal(value("SELECT n FROM session_typist"), 7);
	refused("session.typed", SIT, "a", 1, "t");
	ends("t", "success", 0);
	assert_int_equal(value("SELECT count(*) FROM session_typist"), 0);
	assert_int_equal(value("SELECT count(*) FROM audit WHERE action = 'typing'"), 2);
}

/* Who sits at the machine has the keyboard while their process lives. */
static void
a_lease_is_a_keyboard(void **state)
{
	struct identity me;

	(void)state;
	assert_int_equal(identity_of(getpid(), &me), 0);
	sql("INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before, input)"
	    " VALUES ('i', '[\"cat\"]', '/', 0, 1, now_ms(), now_ms(), 1);"
	    "INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before, input)"
	    " VALUES ('j', '[\"cat\"]', '/', 0, 1, now_ms(), now_ms(), 1);"
	    "INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES (2, '%s', %" PRId64 ", %" PRId64 ", 0, 'bastion', now_ms());"
	    "INSERT INTO lease (name, process_id, fence, expires_at)"
	    " VALUES ('session/i', 2, 1, now_ms() + 60000);"
	    "INSERT INTO lease (name, process_id, fence, expires_at)"
	    " VALUES ('session/j', 1, 1, now_ms() + 60000)",
	    me.boot_id, me.pid, me.start_ticks);
	refused("session.typed", SIT, "a", 0, "i");
	sql(SIT, "a", 0, "j"); /* the process that had it is gone */
	later(60001);
	sql(SIT, "a", 0, "i");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(nothing_without_a_program, make, drop),
	    cmocka_unit_test_setup_teardown(exits_decide, make, drop),
	    cmocka_unit_test_setup_teardown(crashes_are_counted, make, drop),
	    cmocka_unit_test_setup_teardown(waits_double_and_spread, make, drop),
	    cmocka_unit_test_setup_teardown(places_and_turns, make, drop),
	    cmocka_unit_test_setup_teardown(waiting_holds_no_place, make, drop),
	    cmocka_unit_test_setup_teardown(cancelling, make, drop),
	    cmocka_unit_test_setup_teardown(drain_and_loss, make, drop),
	    cmocka_unit_test_setup_teardown(names, make, drop),
	    cmocka_unit_test_setup_teardown(the_oldest_make_place, make, drop),
	    cmocka_unit_test_setup_teardown(a_pid_is_not_an_attempt, make, drop),
	    cmocka_unit_test_setup_teardown(numbers_are_given_once, make, drop),
	    cmocka_unit_test_setup_teardown(output_is_kept, make, drop),
	    cmocka_unit_test_setup_teardown(input_is_gone_once_handed_on, make, drop),
	    cmocka_unit_test_setup_teardown(a_worker_is_its_program, make, drop),
	    cmocka_unit_test_setup_teardown(a_worker_is_held, make, drop),
	    cmocka_unit_test_setup_teardown(a_worker_on_the_lane, make, drop),
	    cmocka_unit_test_setup_teardown(one_has_the_keyboard, make, drop),
	    cmocka_unit_test_setup_teardown(a_lease_is_a_keyboard, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
