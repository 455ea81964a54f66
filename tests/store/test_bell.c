/* test_bell.c: a commit anywhere wakes whoever watches, once it can be seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/scratch.h"

#define ROUNDS 101

static int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int
rings(struct store *db, int wait_ms)
{
	struct pollfd p = {.fd = store_bell(db), .events = POLLIN};

	return poll(&p, 1, wait_ms);
}

static int
change(struct store *db, int64_t value)
{
	struct stmt *q;

	if (store_begin(db) != 0 ||
	    (q = store_sql(db, "UPDATE setting SET value = :v WHERE name = 'audit.seal_ms'")) ==
		NULL)
		return -1;
	stmt_int(q, ":v", value);
	return stmt_run_one(q);
}

/* In a process of its own: commit whenever a byte arrives, and note the time that it was durable.
 */
static void
ringer(const struct scratch *s, int orders, int64_t *at)
{
	struct refusal r = {0};
	struct store *db = store_open(&s->home, ROLE_PERSON, NULL, &r);
	int64_t n = 1000;
	char order;

	while (db != NULL && read(orders, &order, 1) == 1) {
		if (change(db, n++) != 0)
			_exit(1);
		if (order == 'r') {
			store_rollback(db);
		} else {
			if (store_commit(db) != 0)
				_exit(1);
			*at = now_us();
		}
	}
	store_close(db);
	_exit(db == NULL);
}

static int
by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* DESIGN §3: poll() wakes for a commit of another process, with the rows there to be read. */
static void
a_commit_wakes(void **state)
{
	int64_t *at = mmap(
		    NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
		took[ROUNDS];
	struct scratch s;
	int i, orders[2], status;
	pid_t pid;

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	scratch_make(&s, HOME_BOX);
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(pipe(orders), 0);
	if ((pid = fork()) == 0) {
		close(orders[1]);
		ringer(&s, orders[0], at);
	}
	close(orders[0]);
	scratch_open(&s, ROLE_READER);
	assert_true(store_bell(s.db) >= 0);
	store_changed(s.db);
	for (i = 0; i < ROUNDS; i++) {
		store_bell_quiet(s.db);
		assert_int_equal(write(orders[1], "c", 1), 1);
		assert_int_equal(rings(s.db, 5000), 1);
		took[i] = now_us() - *at;
		assert_true(store_changed(s.db));
		assert_int_equal(store_setting(s.db, "audit.seal_ms"), 1000 + i);
	}
	/* Nothing rings for what was undone: the next ring is the commit behind it. */
	store_bell_quiet(s.db);
	assert_int_equal(write(orders[1], "r", 1), 1);
	assert_int_equal(rings(s.db, 200), 0);
	assert_false(store_changed(s.db));
	assert_int_equal(write(orders[1], "c", 1), 1);
	assert_int_equal(rings(s.db, 5000), 1);
	close(orders[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	qsort(took, ROUNDS, sizeof(took[0]), by_size);
	print_message("from commit to reader: median %lld us, 99th of 101 %lld us\n",
	    (long long)took[ROUNDS / 2], (long long)took[ROUNDS - 2]);
	munmap(at, sizeof(*at));
	scratch_drop(&s);
}

/* One ring is enough for many commits, and reading the bell empty quiets it. */
static void
the_bell_is_quieted(void **state)
{
	struct refusal r = {0};
	struct scratch s;
	struct store *watch;
	int i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	if ((watch = store_open(&s.home, ROLE_KEEPER, NULL, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	assert_int_equal(rings(watch, 0), 0);
	for (i = 0; i < 200; i++) {
		assert_int_equal(change(s.db, 1000 + i), 0);
		assert_int_equal(store_commit(s.db), 0);
	}
	assert_int_equal(rings(watch, 0), 1);
	store_bell_quiet(watch);
	assert_int_equal(rings(watch, 0), 0);
	assert_int_equal(store_bell(watch), store_bell(watch));
	store_close(watch);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_commit_wakes),
	    cmocka_unit_test(the_bell_is_quieted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
