/* test_outbox.c: the copy in the system log, against real sockets in the scratch directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/clock.h"
#include "engine/state/outbox.h"
#include "tests/scratch.h"
#include "tests/slower.h"

#define ENTRY "INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body) "

/* A state and a system log of its own. */
struct bench {
	struct scratch s;
	struct outbox outbox;
	char path[96];
	int log; /* -1: there is none */
	char line[1 << 20];
};

static struct bench b;

static void
log_open(void)
{
	struct sockaddr_un at;

	memset(&at, 0, sizeof(at));
	at.sun_family = AF_UNIX;
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", b.path);
	unlink(b.path);
	b.log = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_not_equal(b.log, -1);
	assert_int_equal(bind(b.log, (const struct sockaddr *)&at, sizeof(at)), 0);
}

static void
log_close(void)
{
	if (b.log != -1)
		close(b.log);
	b.log = -1;
	unlink(b.path);
}

/* The next datagram in b.line; false when there is none. */
static bool
log_next(void)
{
	ssize_t n;

	if ((n = recv(b.log, b.line, sizeof(b.line) - 1, 0)) == -1)
		return false;
	assert_int_equal(strlen(b.line) > 0 && n > 0, 1);
	b.line[n] = '\0';
	assert_int_equal(strlen(b.line), n);
	return true;
}

static const char *
log_json(void)
{
	assert_non_null(strstr(b.line, " bastion-audit: {"));
	return strstr(b.line, " bastion-audit: {") + strlen(" bastion-audit: ");
}

static int64_t
json_int(const char *path)
{
	struct stmt *q;

	assert_non_null(q = store_sql(b.s.db, "SELECT :line ->> :path"));
	stmt_text(q, ":line", log_json());
	stmt_text(q, ":path", path);
	return stmt_value(q, -1);
}

static void
run(const char *sql)
{
	if (scratch_sql(&b.s, sql) != 0)
		fail_msg("%s: %s", sql, b.s.error);
	scratch_open(&b.s, ROLE_KEEPER);
}

static void
add_rows(int n)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
	    ENTRY "SELECT 'op', 'test', value, 'added', 'laptop', json_object('n', value)"
		  " FROM (WITH RECURSIVE c (value) AS (SELECT 1 UNION ALL SELECT value + 1"
		  " FROM c WHERE value < %d) SELECT value FROM c)",
	    n);
	run(sql);
}

static int
make(void **state)
{
	(void)state;
	memset(&b, 0, sizeof(b));
	b.log = -1;
	scratch_make(&b.s, HOME_BOX);
	snprintf(b.path, sizeof(b.path), "%s/log", b.s.dir);
	outbox_init(&b.outbox, b.path);
	scratch_open(&b.s, ROLE_KEEPER);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	outbox_close(&b.outbox);
	log_close();
	scratch_drop(&b.s);
	return 0;
}

/* As make, with a log, and what the birth of the state wrote already shipped and read. */
static int
make_quiet(void **state)
{
	make(state);
	log_open();
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	while (log_next())
		;
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 0);
	return 0;
}

/* Ship and read until nothing waits; the number of lines read. */
static int
drain_all(void)
{
	enum outbox_result result;
	int n;

	n = 0;
	do {
		result = outbox_ship(&b.outbox, b.s.db);
		assert_true(result != OUTBOX_REFUSED && result != OUTBOX_FAILED);
		while (log_next())
			n++;
	} while (result != OUTBOX_EMPTY);
	return n;
}

/* AUD-1: the outbox is the only way to the log: each row waits there or is counted. */
static void
each_row_waits_or_is_counted(void **state)
{
	(void)state;
	run("UPDATE setting SET value = 20 WHERE name = 'audit.outbox'");
	add_rows(50);
	assert_int_equal(
	    scratch_value(&b.s, "SELECT (SELECT count(*) FROM audit)"
				" - (SELECT count(*) + sum(dropped_before) FROM audit_outbox)"
				" - (SELECT dropped FROM audit_drop)"),
	    0);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 20);
	assert_int_equal(stmt_run(store_sql(b.s.db, "INSERT INTO audit_gap VALUES (1, 9)")), -1);
	assert_string_equal(store_refusal(b.s.db)->code, "store.role");
	assert_int_equal(stmt_run(store_sql(b.s.db, "UPDATE audit_sink SET sent = 1000")), -1);
	assert_string_equal(store_refusal(b.s.db)->code, "audit.sink");
	run("UPDATE audit_sink SET sent = 2");
	assert_int_equal(stmt_run(store_sql(b.s.db, "UPDATE audit_sink SET sent = 1")), -1);
	assert_string_equal(store_refusal(b.s.db)->code, "audit.sink");
}

/*
 * AUD-2: with the log away, 1000 rows go in at once; once it is back, what fits the queue of 8 is
 * written, and the first row after the gap says how many were lost.
 */
static void
a_gap_is_counted(void **state)
{
	int64_t begin, lost;
	int written;

	(void)state;
	run("UPDATE setting SET value = 8 WHERE name = 'audit.outbox'");
	assert_int_equal(drain_all(), 1);
	log_close();
	begin = loop_now();
	add_rows(1000);
	assert_true(loop_now() - begin < 5000 * SLOWER);
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_REFUSED);
	assert_int_equal(scratch_value(&b.s, "SELECT dropped FROM audit_drop"), 992);

	log_open();
	assert_int_equal(written = drain_all(), 8);
	add_rows(1);
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	assert_true(log_next());
	lost = json_int("system_log_dropped");
	assert_int_equal(written + 1 + lost, 1001);
	assert_int_equal(scratch_value(&b.s, "SELECT dropped FROM audit_drop"), 0);
	add_rows(1);
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	assert_true(log_next());
	assert_null(strstr(b.line, "system_log_dropped"));
}

/* A bound that changes takes nothing back: who waits waits on, who was dropped stays dropped. */
static void
another_bound_is_for_rows_to_come(void **state)
{
	(void)state;
	run("UPDATE setting SET value = 50 WHERE name = 'audit.outbox'");
	assert_int_equal(drain_all(), 1);
	add_rows(45);
	run("UPDATE setting SET value = 8 WHERE name = 'audit.outbox'"); /* a row, too */
	add_rows(10);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 45);
	assert_int_equal(scratch_value(&b.s, "SELECT dropped FROM audit_drop"), 11);
	run("UPDATE setting SET value = 50 WHERE name = 'audit.outbox'");
	assert_int_equal(scratch_value(&b.s, "SELECT max(dropped_before) FROM audit_outbox"), 11);
	add_rows(10);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 50);
	assert_int_equal(scratch_value(&b.s, "SELECT dropped FROM audit_drop"), 6);
	run("UPDATE audit_sink SET sent = sent + 40 WHERE name = 'system-log'");
	add_rows(50);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 50);
	assert_int_equal(drain_all(), 50);
	assert_int_equal(scratch_value(&b.s, "SELECT dropped FROM audit_drop"), 10);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_gap"), 1);
	assert_int_equal(
	    stmt_run(store_sql(b.s.db, "UPDATE audit_sink SET kept = 0 WHERE kept > 0")), -1);
	assert_string_equal(store_refusal(b.s.db)->code, "audit.sink");
}

/* AUD-3: a command's text never leaves; its digest and its length do. */
static void
a_command_stays_here(void **state)
{
	(void)state;
	run(ENTRY "VALUES ('op', 'test', '1', 'ran', 'laptop',"
		  " '{\"command\":\"PGPASSWORD=hunter2 psql\",\"command_sha256\":\"ab\"}')");
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	assert_true(log_next());
	assert_null(strstr(b.line, "hunter2"));
	assert_null(strstr(b.line, "\"command\""));
	assert_non_null(strstr(b.line, "\"command_sha256\":\"ab\""));
	assert_int_equal(json_int("command_bytes"), 23);
}

/* AUD-4: a length that the row names is kept. */
static void
a_named_length_is_kept(void **state)
{
	(void)state;
	run(ENTRY "VALUES ('op', 'test', '1', 'ran', 'laptop',"
		  " '{\"command\":\"cut\",\"command_bytes\":70000}')");
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	assert_true(log_next());
	assert_int_equal(json_int("command_bytes"), 70000);
	assert_null(strstr(b.line, "cut"));
}

/* AUD-5: in order, and each line is its row's body with the eight columns of the row added. */
static void
a_line_is_its_row(void **state)
{
	static const char same[] =
	    "SELECT count(*) FROM audit AS a WHERE a.seq = :line ->> 'seq'"
	    "   AND json(a.body) = json_remove(:line, '$.audit', '$.pairing', '$.seq', '$.at', '$.who',"
	    "                                  '$.entity', '$.id', '$.action')"
	    "   AND a.stream = :line ->> 'audit' AND a.pairing = :line ->> 'pairing'"
	    "   AND a.at = :line ->> 'at' AND a.who = :line ->> 'who' AND a.entity = :line ->> 'entity'"
	    "   AND a.entity_id = :line ->> 'id' AND a.action = :line ->> 'action'";
	struct stmt *q;
	int64_t before, seq;
	int n;

	(void)state;
	before = scratch_value(&b.s, "SELECT max(seq) FROM audit");
	run("UPDATE setting SET value = 7 WHERE name = 'factor.tries'");
	scratch_pair(&b.s);
	scratch_grant(&b.s, "observe:cert", "[\"443\"]", 2, 60000);
	run("INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at) VALUES (1, 'observe:cert',"
	    " '[\"443\"]', '00000000000000000000000000000001', 1, now_ms())");
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	for (n = 0; log_next(); n++) {
		seq = json_int("seq");
		assert_int_equal(seq, before + n + 1);
		assert_non_null(q = store_sql(b.s.db, same));
		stmt_text(q, ":line", log_json());
		assert_int_equal(stmt_value(q, -1), 1);
		/* A change of a pairing is the box's own: its Host stands in the row. */
		if (strstr(b.line, "\"entity\":\"pairing\"") != NULL)
			assert_non_null(strstr(b.line, "\"audit\":\"pairing\",\"pairing\":\"\""));
	}
	assert_int_equal(n, scratch_value(&b.s, "SELECT max(seq) FROM audit") - before);
	assert_true(n >= 7);
}

/* AUD-6: without a system log the rows are kept all the same, and shipped when there is one. */
static void
no_log_costs_the_copy_alone(void **state)
{
	int64_t rows;

	(void)state;
	add_rows(3);
	rows = scratch_value(&b.s, "SELECT count(*) FROM audit");
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_REFUSED);
	assert_int_equal(b.outbox.fd, -1);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit"), rows);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), rows);
	log_open();
	assert_int_equal(drain_all(), rows);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 0);
}

/* AUD-7: numbers keep every digit. */
static void
numbers_are_exact(void **state)
{
	(void)state;
	run(ENTRY "VALUES ('op', 'test', '1', 'ran', '', '{\"store_id\":9007199254740993}')");
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	assert_true(log_next());
	assert_non_null(strstr(b.line, "\"store_id\":9007199254740993,"));
}

/* AUD-8: a log that nobody reads holds nobody up; what it did not take waits or is counted. */
static void
an_unread_log_blocks_nobody(void **state)
{
	int64_t begin, took = 0, total;
	int i, read_lines;

	(void)state;
	run("UPDATE setting SET value = 64 WHERE name = 'audit.outbox'");
	assert_int_equal(drain_all(), 1);
	total = scratch_value(&b.s, "SELECT count(*) FROM audit");
	for (i = 0; i < 50; i++) {
		add_rows(100);
		begin = loop_now();
		outbox_ship(&b.outbox, b.s.db);
		took += loop_now() - begin;
	}
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_FULL);
	assert_true(took < 5000 * SLOWER);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit"), total + 5000);
	assert_true(scratch_value(&b.s, "SELECT dropped FROM audit_drop") > 0);

	/* Once it is read, the books balance. */
	for (read_lines = 0, total = 0; log_next(); read_lines++)
		total += json_int("system_log_dropped");
	assert_true(read_lines > 0);
	total += scratch_value(&b.s, "SELECT count(*) + sum(dropped_before) FROM audit_outbox");
	total += scratch_value(&b.s, "SELECT dropped FROM audit_drop");
	assert_int_equal(total + read_lines, 5000);
}

/* The head is that of syslog(3): priority 38, local time, a day of two columns, the tag. */
static void
the_head_is_syslogs(void **state)
{
	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	clock_fix(1783580703000);
	add_rows(1);
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	clock_fix(-1);
	assert_true(log_next());
	assert_int_equal(strncmp(b.line, "<38>Jul  9 07:05:03 bastion-audit: {", 36), 0);
}

/* The log is started anew: the connection is dropped at the failed write and made again. */
static void
a_restarted_log_gets_the_rest(void **state)
{
	(void)state;
	add_rows(2);
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	log_close();
	add_rows(2);
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_REFUSED);
	assert_int_equal(b.outbox.fd, -1);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 2);
	log_open();
	assert_int_equal(drain_all(), 2);
}

/* A row that fits no datagram goes without its body, and does not hold up those behind it. */
static void
a_long_row_goes_short(void **state)
{
	(void)state;
	run(ENTRY "VALUES ('op', 'test', '1', 'long', 'laptop',"
		  " json_object('t', replace(hex(zeroblob(1000000)), '00', 'x')))");
	add_rows(1);
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	assert_true(log_next());
	assert_int_equal(json_int("body_bytes"), 1000008);
	assert_non_null(strstr(b.line, "\"action\":\"long\""));
	assert_true(log_next());
	assert_non_null(strstr(b.line, "\"action\":\"added\""));
}

/* A flush ships all that a reader takes, and waits no longer than it is told. */
static void
a_flush_is_bounded(void **state)
{
	int64_t begin, took;

	(void)state;
	add_rows(2000);
	begin = loop_now();
	assert_int_equal(outbox_flush(&b.outbox, b.s.db, 150), OUTBOX_FULL);
	took = loop_now() - begin;
	assert_in_range(took, 150, 2000);
	assert_true(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox") > 0);
	log_close();
	begin = loop_now();
	assert_int_equal(outbox_flush(&b.outbox, b.s.db, 150), OUTBOX_REFUSED);
	assert_true(loop_now() - begin < 150);
}

/* With the setting off, nothing is opened and nothing leaves. */
static void
the_copy_can_be_off(void **state)
{
	(void)state;
	run("UPDATE setting SET value = 0 WHERE name = 'audit.syslog'");
	assert_false(outbox_waiting(b.s.db));
	assert_int_equal(outbox_ship(&b.outbox, b.s.db), OUTBOX_EMPTY);
	assert_false(log_next());
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(each_row_waits_or_is_counted, make, drop),
	    cmocka_unit_test_setup_teardown(a_gap_is_counted, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(another_bound_is_for_rows_to_come, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(a_command_stays_here, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(a_named_length_is_kept, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(a_line_is_its_row, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(no_log_costs_the_copy_alone, make, drop),
	    cmocka_unit_test_setup_teardown(numbers_are_exact, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(an_unread_log_blocks_nobody, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(the_head_is_syslogs, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(a_restarted_log_gets_the_rest, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(a_long_row_goes_short, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(a_flush_is_bounded, make_quiet, drop),
	    cmocka_unit_test_setup_teardown(the_copy_can_be_off, make_quiet, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
