/* test_gate.c: writers queue, nobody waits long, and a dead holder holds nothing up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/store/gate.h"
#include "tests/scratch.h"

#define WRITERS 4
#define WRITES  50

/* What the processes of a test tell each other. */
struct board {
	_Atomic int64_t longest_us;
	_Atomic int failed, holding;
	char code[REFUSAL_CODE_MAX];
};

static int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static struct board *
board_make(void)
{
	struct board *b =
	    mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(b, MAP_FAILED);
	return b;
}

/* No connection is carried over a fork: the parent has none while its children work. */
static void
alone(struct scratch *s)
{
	store_close(s->db);
	s->db = NULL;
}

static int
write_once(struct store *db)
{
	if (store_begin(db) != 0)
		return -1;
	if (stmt_run(store_sql(db, "INSERT INTO refused (at, surface, asked, code, why) VALUES"
				   " (now_ms(), 'cli', 'gate', 'op.unknown', 'x')")) != 0)
		return store_rollback(db);
	return store_commit(db);
}

static void
writer(const struct scratch *s, struct board *b)
{
	struct refusal r = {0};
	struct store *db;
	int64_t began, spent, longest;
	int i;

	if ((db = store_open(&s->home, ROLE_NET, &s->keys, &r)) == NULL) {
		b->failed++;
		return;
	}
	for (i = 0; i < WRITES; i++) {
		began = now_us();
		if (write_once(db) != 0) {
			memcpy(b->code, store_refusal(db)->code, sizeof(b->code));
			b->failed++;
		}
		spent = now_us() - began;
		longest = b->longest_us;
		while (spent > longest &&
		       !atomic_compare_exchange_weak(&b->longest_us, &longest, spent))
			;
	}
	store_close(db);
}

/* DESIGN §3: four processes that write FULL all get in, none is told store.busy. */
static void
four_writers_all_get_in(void **state)
{
	struct board *b = board_make();
	struct scratch s;
	int64_t before;
	int i, status;

	(void)state;
	scratch_make(&s, HOME_BOX);
	before = scratch_value(&s, "SELECT count(*) FROM audit");
	alone(&s);
	for (i = 0; i < WRITERS; i++)
		if (fork() == 0) {
			writer(&s, b);
			_exit(0);
		}
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
	print_message("longest of %d writes by %d processes: %.1f ms\n", WRITERS * WRITES, WRITERS,
	    (double)b->longest_us / 1000);
	if (b->failed != 0)
		fail_msg("%d writes failed: %s", b->failed, b->code);
	assert_true(b->longest_us < 4000000);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM refused"), WRITERS * WRITES);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit") - before, WRITERS * WRITES);
	munmap(b, sizeof(*b));
	scratch_drop(&s);
}

/* A holder killed inside its transaction frees the gate, and nothing of it is left. */
static void
killed_holder_frees_the_gate(void **state)
{
	struct timespec nap = {0, 1000000};
	struct board *b = board_make();
	struct refusal r = {0};
	struct scratch s;
	struct store *db;
	pid_t pid;

	(void)state;
	scratch_make(&s, HOME_BOX);
	alone(&s);
	if ((pid = fork()) == 0) {
		if ((db = store_open(&s.home, ROLE_PERSON, NULL, &r)) == NULL ||
		    store_begin(db) != 0 ||
		    stmt_run(store_sql(db, "UPDATE setting SET value = 7")) == 0)
			_exit(1);
		if (stmt_run(
			store_sql(db, "UPDATE setting SET value = 7 WHERE name = 'op.live'")) != 0)
			_exit(1);
		b->holding = 1;
		for (;;)
			pause();
	}
	while (!b->holding)
		nanosleep(&nap, NULL);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(store_begin(s.db), -1);
	assert_string_equal(store_refusal(s.db)->code, "store.busy");
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(write_once(s.db), 0);
	assert_int_equal(store_setting(s.db, "op.live"), 64);
	munmap(b, sizeof(*b));
	scratch_drop(&s);
}

/* SQ-4: a program started by the holder does not keep the gate: its descriptor is close-on-exec. */
static void
children_do_not_keep_the_gate(void **state)
{
	struct refusal r = {0};
	struct scratch s;
	pid_t pid;
	int fd;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_true((fd = home_file(&s.home, "bastion.gate", &r)) >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(gate_enter(fd, 0), 0);
	if ((pid = fork()) == 0) {
		execl("/bin/sleep", "sleep", "30", (char *)NULL);
		_exit(1);
	}
	/* The child is past its exec when its descriptor is gone and the lock with our own. */
	close(fd);
	assert_int_equal(write_once(s.db), 0);
	assert_int_equal(kill(pid, 0), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	scratch_drop(&s);
}

/* Waiting has an end, and the lock is free again after gate_leave. */
static void
waiting_is_bounded(void **state)
{
	struct refusal r = {0};
	struct scratch s;
	int64_t began;
	int a, b;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_true((a = home_file(&s.home, "bastion.gate", &r)) >= 0);
	assert_true((b = home_file(&s.home, "bastion.gate", &r)) >= 0);
	assert_int_equal(gate_enter(a, 0), 0);
	began = now_us();
	assert_int_equal(gate_enter(b, 50), -1);
	assert_int_equal(errno, EAGAIN);
	assert_true(now_us() - began >= 50000);
	gate_leave(a);
	assert_int_equal(gate_enter(b, 0), 0);
	close(a);
	close(b);
	assert_int_equal(gate_enter(b, 0), -1);
	assert_int_equal(errno, EBADF);
	scratch_drop(&s);
}

/* SQ-5: why no database file is opened by hand: closing it drops the locks of a live connection. */
static void
stray_close_drops_locks(void **state)
{
	struct scratch s;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	pid_t pid;
	int fd, status, round;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_true((fd = openat(s.home.fd, "probe", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) >= 0);
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	for (round = 0; round < 2; round++) {
		if ((pid = fork()) == 0) {
			lock.l_type = F_WRLCK;
			fcntl(fd, F_GETLK, &lock);
			_exit(lock.l_type == F_UNLCK);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(WEXITSTATUS(status), round);
		close(openat(s.home.fd, "probe", O_RDONLY | O_CLOEXEC));
	}
	close(fd);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(four_writers_all_get_in),
	    cmocka_unit_test(killed_holder_frees_the_gate),
	    cmocka_unit_test(children_do_not_keep_the_gate),
	    cmocka_unit_test(waiting_is_bounded),
	    cmocka_unit_test(stray_close_drops_locks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
