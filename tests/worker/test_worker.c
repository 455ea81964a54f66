/* test_worker.c: runs from rows: what is queued runs, answers into rows, and ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/worker/runner.h"
#include "engine/worker/worker.h"
#include "tests/scratch.h"

#define LIMIT_MS 20000

struct bench {
	struct scratch s;
	struct store *worker_db;
	struct actor_env env;
	const char *until; /* the test goes on when this is not zero */
};

static void
look(struct bench *b)
{
	store_bell_quiet(b->worker_db);
	if (scratch_value(&b->s, b->until) > 0)
		loop_stop(b->env.loop);
}

static void
on_bell(void *ctx, uint32_t events)
{
	struct bench *b = ctx;

	(void)events;
	actor_worker.wake(&b->env);
	look(b);
}

static void
too_long(void *ctx)
{
	(void)ctx;
	fail_msg("the worker did not come to an end");
}

/* The actor, in this process, on a connection of its own. */
static void
begin(struct bench *b)
{
	struct refusal r = {0};

	memset(b, 0, sizeof(*b));
	scratch_make(&b->s, HOME_BOX);
	scratch_pair(&b->s);
	b->worker_db = store_open(&b->s.home, ROLE_WORKER, &b->s.keys, &r);
	assert_non_null(b->worker_db);
	store_acting(b->worker_db, "actor:worker");
	b->env = (struct actor_env){.home = &b->s.home, .loop = loop_new(), .db = b->worker_db};
	if (actor_worker.start(&b->env, &r) != 0)
		fail_msg("%s: %s", r.code, r.why);
	loop_add(b->env.loop, store_bell(b->worker_db), EPOLLIN, on_bell, b);
}

static void
run_until(struct bench *b, const char *sql)
{
	uint64_t timer = loop_after(b->env.loop, LIMIT_MS, too_long, NULL);

	b->until = sql;
	actor_worker.wake(&b->env);
	if (scratch_value(&b->s, sql) <= 0)
		loop_run(b->env.loop);
	loop_cancel(b->env.loop, timer);
}

static void
end(struct bench *b)
{
	actor_worker.stop(&b->env);
	loop_del(b->env.loop, store_bell(b->worker_db));
	store_close(b->worker_db);
	loop_free(b->env.loop);
	scratch_drop(&b->s);
}

static void
ask(struct bench *b, const char *op, const char *args, int nonce)
{
	char sql[1024];
	int64_t grant = scratch_grant(&b->s, op, args, 1, 60000);

	snprintf(sql, sizeof(sql),
	    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
	    " VALUES (1, '%s', '%s', printf('%%032x', %d), %lld, now_ms())",
	    op, args, nonce, (long long)grant);
	if (scratch_sql(&b->s, sql) != 0)
		fail_msg("%s", b->s.error);
}

/* A queued walk runs, its frames stand in order, and the walk is closed with it. */
static void
a_queued_run_answers_into_rows(void **state)
{
	struct bench b;
	char result[4096];

	(void)state;
	begin(&b);
	ask(&b, "observe:folders", "[\"/usr/share\",\"1\"]", 1);
	run_until(&b, "SELECT count(*) FROM op_run WHERE finished_at IS NOT NULL");
	assert_int_equal(
	    scratch_value(&b.s, "SELECT state = 'done' AND exit_code = 0 FROM op_run"), 1);
	assert_int_equal(
	    scratch_value(
		&b.s, "SELECT count(*) FROM op_output WHERE json_type(frame, '$.r') = 'object'"),
	    1);
	assert_int_equal(scratch_value(&b.s, "SELECT state = 'done' FROM folder_walk"), 1);
	scratch_text(&b.s, "SELECT frame FROM op_output", result, sizeof(result));
	assert_non_null(strstr(result, "/usr/share"));
	end(&b);
}

/* More runs than may run at once: all of them end, none twice. */
static void
many_runs_all_end_once(void **state)
{
	struct bench b;
	int i;

	(void)state;
	begin(&b);
	for (i = 0; i < 20; i++)
		ask(&b, "observe:folders", "[\"/etc\",\"1\"]", i);
	run_until(&b, "SELECT count(*) = 20 FROM op_run WHERE state = 'done'");
	assert_int_equal(
	    scratch_value(&b.s, "SELECT count(*) FROM op_output WHERE frame LIKE '{\"r\":%'"), 20);
	end(&b);
}

/* What the walls refuse never starts, though a row asked for it: the run has failed, with the rule.
 */
static void
a_run_that_cannot_start_says_why(void **state)
{
	struct bench b;

	(void)state;
	begin(&b);
	ask(&b, "observe:folders", "[\"/proc\",\"1\"]", 1);
	run_until(&b, "SELECT count(*) FROM op_run WHERE state = 'failed'");
	assert_int_equal(
	    scratch_value(
		&b.s, "SELECT count(*) FROM op_output WHERE frame ->> '$.e.code' LIKE 'observe.%'"),
	    1);
	end(&b);
}

/* A listener that never speaks: the kernel accepts, and the handshake waits. */
static int
silent_listener(int *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

/* A run over its time is ended, and both its answer and its exit say so. */
static void
a_late_run_is_ended(void **state)
{
	struct bench b;
	char args[32];
	int fd, port;

	(void)state;
	begin(&b);
	assert_int_equal(
	    scratch_sql(&b.s, "UPDATE setting SET value = 1000 WHERE name = 'op.time_ms';"
			      "UPDATE setting SET value = 60000 WHERE name = 'cert.wait_ms'"),
	    0);
	fd = silent_listener(&port);
	snprintf(args, sizeof(args), "[\"%d\"]", port);
	ask(&b, "observe:cert", args, 1);
	run_until(&b, "SELECT count(*) FROM op_run WHERE finished_at IS NOT NULL");
	assert_int_equal(scratch_value(&b.s, "SELECT exit_code FROM op_run"), 124);
	assert_int_equal(
	    scratch_value(
		&b.s, "SELECT count(*) FROM op_output WHERE frame ->> '$.e.code' = 'op.time'"),
	    1);
	close(fd);
	end(&b);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_queued_run_answers_into_rows),
	    cmocka_unit_test(many_runs_all_end_once),
	    cmocka_unit_test(a_run_that_cannot_start_says_why),
	    cmocka_unit_test(a_late_run_is_ended),
	};

	if (argc > 1 && strcmp(argv[1], "runner") == 0)
		return runner_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
