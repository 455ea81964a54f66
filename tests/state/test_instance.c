/* test_instance.c: the daemon's own rows: one live instance, and the end of what it left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/state/instance.h"
#include "engine/state/lease.h"
#include "engine/state/process.h"
#include "tests/scratch.h"

#define RESTARTS 50

/* Let the holder of the live instance be a process that is no more. */
static void
bury_instance(struct scratch *s)
{
	if (scratch_sql(s, "INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
			   " VALUES ('00000000-0000-0000-0000-000000000000', 9, 9, 0, 'ghost', 0)"
			   " ON CONFLICT DO NOTHING;"
			   "UPDATE instance SET process_id ="
			   " (SELECT id FROM process WHERE program = 'ghost')"
			   " WHERE state IN ('starting', 'ready', 'draining')") != 0)
		fail_msg("%s", s->error);
	scratch_open(s, ROLE_SUPERVISOR);
}

static int64_t
begin(struct scratch *s)
{
	int64_t id;

	if (instance_begin(s->db, HOME_BOX, "/run/bastion", &id) == -1)
		fail_msg("%s: %s", store_refusal(s->db)->code, store_refusal(s->db)->why);
	return id;
}

/* One process has one row, however often it asks; an identity never changes. */
static void
process_has_one_row(void **state)
{
	struct scratch s;
	int64_t id;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_SUPERVISOR);
	assert_int_equal(store_begin(s.db), 0);
	id = process_self(s.db);
	assert_true(id > 0);
	assert_int_equal(process_self(s.db), id);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM process"), 1);
	assert_int_equal(scratch_value(&s, "SELECT pid FROM process"), getpid());
	assert_int_equal(scratch_value(&s, "SELECT process_alive(boot_id, pid, start_ticks)"
					   " FROM process"),
	    1);
	scratch_refused(&s, "process.fixed", "UPDATE process SET pid = 1");
	scratch_drop(&s);
}

/* starting, ready, draining, ended: with its times, and final. */
static void
life(void **state)
{
	struct scratch s;
	int64_t id;
	char text[128];

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_SUPERVISOR);
	id = begin(&s);
	assert_int_equal(instance_ready(s.db, id), 0);
	assert_int_equal(instance_draining(s.db, id), 0);
	assert_int_equal(instance_end(s.db, id, "signal TERM"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM instance WHERE epoch = 1 AND"
					   " started_at <= ready_at AND ready_at <= draining_at AND"
					   " draining_at <= ended_at"),
	    1);
	assert_string_equal(scratch_text(&s,
				"SELECT group_concat(action) FROM audit"
				" WHERE entity = 'instance'",
				text, sizeof(text)),
	    "starting,ready,draining,ended");
	assert_int_equal(instance_ready(s.db, id), -1);
	scratch_refused(&s, "instance.final", "UPDATE instance SET end_reason = 'other'");
	scratch_refused(&s, "instance.transition", "UPDATE instance SET state = 'ready'");
	scratch_drop(&s);
}

/* LK-13, RF-30: while the process of the open instance runs, there is no second one. */
static void
one_live_instance(void **state)
{
	struct scratch s;
	int64_t id;
	char who[64];

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_SUPERVISOR);
	begin(&s);
	assert_int_equal(instance_begin(s.db, HOME_BOX, "/run/bastion", &id), -1);
	assert_string_equal(store_refusal(s.db)->code, "instance.running");
	snprintf(who, sizeof(who), "the process %ld already", (long)getpid());
	assert_non_null(strstr(store_refusal(s.db)->why, who));
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM instance"), 1);
	scratch_refused(&s, "instance.running",
	    "INSERT INTO instance (epoch, role, process_id, version, run_dir,"
	    " started_at) SELECT 9, role, process_id, version, run_dir, started_at"
	    " FROM instance");
	scratch_drop(&s);
}

/* PT-9's sibling of the row: what would not fit a socket's address is no directory for sockets. */
static void
run_dir_is_bounded(void **state)
{
	struct scratch s;
	int64_t id;
	char dir[92];

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_SUPERVISOR);
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[91] = '\0';
	assert_int_equal(instance_begin(s.db, HOME_BOX, dir, &id), -1);
	dir[90] = '\0';
	assert_int_equal(instance_begin(s.db, HOME_BOX, dir, &id), 0);
	scratch_drop(&s);
}

/* The row of an actor's life, and which attempt it is. */
static void
actor_runs(void **state)
{
	struct instance_exit how = {.code = -1, .signal = 9, .not_before = 5};
	struct scratch s;
	struct identity me;
	int64_t id, run, fence;
	int attempt;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_SUPERVISOR);
	id = begin(&s);
	assert_int_equal(instance_run_begin(s.db, id, "net", &run, &attempt), 0);
	assert_int_equal(attempt, 1);
	assert_int_equal(instance_run_begin(s.db, id, "net", &run, &attempt), -1);
	run = scratch_value(&s, "SELECT id FROM actor_run");
	assert_int_equal(instance_run_ready(s.db, run), -1);
	assert_int_equal(identity_of(getpid(), &me), 0);
	assert_int_equal(instance_run_process(s.db, run, &me, 0), 0);
	assert_int_equal(instance_run_ready(s.db, run), 0);
	assert_int_equal(lease_take(s.db, "toy", 60000, 0, &fence), 0);
	assert_int_equal(instance_run_end(s.db, run, &how), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run WHERE state = 'failed'"
					   " AND exit_code IS NULL AND term_signal = 9"
					   " AND not_before = 5"),
	    1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM lease WHERE process_id"), 0);
	assert_int_equal(instance_run_begin(s.db, id, "net", &run, &attempt), 0);
	assert_int_equal(attempt, 2);
	how = (struct instance_exit){.code = 0};
	assert_int_equal(instance_run_end(s.db, run, &how), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run WHERE state = 'ended'"
					   " AND exit_code = 0 AND not_before IS NULL"),
	    1);
	scratch_refused(&s, "actor.final", "UPDATE actor_run SET exit_code = 3");
	assert_int_equal(instance_draining(scratch_open(&s, ROLE_SUPERVISOR), id), 0);
	assert_int_equal(instance_run_begin(s.db, id, "net", &run, &attempt), -1);
	assert_string_equal(store_refusal(s.db)->code, "actor.instance");
	scratch_drop(&s);
}

/* LK-8: what a lost instance left open is closed by the next one, in the transaction of its birth.
 */
static void
lost_closes_all(void **state)
{
	struct scratch s;
	int64_t id, run, fence;
	int attempt;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_SUPERVISOR);
	id = begin(&s);
	assert_int_equal(instance_run_begin(s.db, id, "worker", &run, &attempt), 0);
	assert_int_equal(lease_take(s.db, "toy", 3600000, 0, &fence), 0);
	bury_instance(&s);
	if (scratch_sql(&s, "UPDATE actor_run SET process_id ="
			    " (SELECT process_id FROM lease WHERE name = 'toy')") != 0)
		fail_msg("%s", s.error);
	scratch_open(&s, ROLE_SUPERVISOR);
	assert_int_equal(begin(&s), id + 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM instance WHERE state = 'lost'"
					   " AND end_reason IS NOT NULL"),
	    1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM actor_run WHERE state = 'lost'"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT process_id IS NULL AND fence = 1 FROM lease"), 1);
	assert_int_equal(scratch_value(&s, "SELECT epoch FROM live_instance"), 2);
	scratch_drop(&s);
}

/* "reader STATE RUN": look at the status until there is a file "stop"; fail on half a row. */
static int
reader_main(char **argv)
{
	static const char STATUS[] =
	    "SELECT epoch, pid, version, run_dir, started_at, (SELECT count(*) FROM live_instance)"
	    " FROM live_instance";
	struct refusal r = {0};
	struct store *db;
	struct home home;
	struct stmt *q;
	int64_t epoch = 0;
	int seen = 0;

	if (home_at(&home, argv[2], argv[3], HOME_BOX, false, &r) != 0 ||
	    (db = store_open(&home, ROLE_READER, NULL, &r)) == NULL)
		return 1;
	while (faccessat(home.fd, "stop", F_OK, 0) != 0) {
		if ((q = store_sql(db, STATUS)) == NULL || stmt_step(q) != 1)
			return 2;
		if (stmt_get_int(q, 0) < epoch || stmt_get_int(q, 1) < 1 ||
		    strcmp(stmt_get_text(q, 2), BASTION_VERSION) != 0 ||
		    strcmp(stmt_get_text(q, 3), "/run/bastion") != 0 || stmt_get_int(q, 4) < 1 ||
		    stmt_get_int(q, 5) != 1)
			return 3;
		epoch = stmt_get_int(q, 0);
		stmt_done(q);
		seen++;
	}
	store_close(db);
	home_close(&home);
	return seen > 0 ? 0 : 4;
}

/*
 * PT-8, RF-34: the row is the status: readers that look all the time during restarts see one whole
 * instance at every look, never none and never two, with an epoch that only grows.
 */
static void
status_is_never_partial(void **state)
{
	struct scratch s;
	pid_t reader[4];
	int i, status;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_SUPERVISOR);
	begin(&s);
	for (i = 0; i < 4; i++)
		if ((reader[i] = fork()) == 0) {
			execl("/proc/self/exe", "reader", "reader", s.home.state, s.home.run, NULL);
			_exit(99);
		}
	for (i = 0; i < RESTARTS; i++) {
		bury_instance(&s);
		begin(&s);
	}
	close(openat(s.home.fd, "stop", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	for (i = 0; i < 4; i++) {
		assert_int_equal(waitpid(reader[i], &status, 0), reader[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(scratch_value(&s, "SELECT epoch FROM live_instance"), RESTARTS + 1);
	scratch_drop(&s);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(process_has_one_row),
	    cmocka_unit_test(life),
	    cmocka_unit_test(one_live_instance),
	    cmocka_unit_test(run_dir_is_bounded),
	    cmocka_unit_test(actor_runs),
	    cmocka_unit_test(lost_closes_all),
	    cmocka_unit_test(status_is_never_partial),
	};

	if (argc == 4 && strcmp(argv[1], "reader") == 0)
		return reader_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
