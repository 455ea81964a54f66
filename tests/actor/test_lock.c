/* test_lock.c: file locks that the kernel holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/lock.h"
#include "engine/clock.h"

#define NAME    "bastion.lock"
#define RACERS  32
#define HOUR_MS INT64_C(3600000)

struct place {
	char path[64];
	int fd;
};

static void
place_make(struct place *p)
{
	snprintf(p->path, sizeof(p->path), "/tmp/bastion-lock-XXXXXX");
	assert_non_null(mkdtemp(p->path));
	assert_true((p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
}

static void
place_drop(struct place *p)
{
	char command[96];

	close(p->fd);
	snprintf(command, sizeof(command), "rm -rf %s", p->path);
	assert_int_equal(system(command), 0);
}

static void
place_write(const struct place *p, const char *name, const char *text)
{
	int fd;

	assert_true(
	    (fd = openat(p->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static const char *
place_read(const struct place *p, const char *name)
{
	static char text[64];
	ssize_t n;
	int fd;

	assert_true((fd = openat(p->fd, name, O_RDONLY | O_CLOEXEC)) >= 0);
	assert_true((n = read(fd, text, sizeof(text) - 1)) >= 0);
	text[n] = '\0';
	close(fd);
	return text;
}

static const char *
our_line(void)
{
	static char line[32];

	snprintf(line, sizeof(line), "%ld\n", (long)getpid());
	return line;
}

/* Take the lock, which must be free. */
static int
take(const struct place *p)
{
	struct refusal r = {0};
	int64_t holder;
	int fd;

	if ((fd = lock_take(p->fd, NAME, &holder, &r)) < 0)
		fail_msg("%d %s: %s", fd, r.code, r.why);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	return fd;
}

static void
is_busy(const struct place *p, int64_t pid)
{
	struct refusal r = {0};
	int64_t holder;

	assert_int_equal(lock_take(p->fd, NAME, &holder, &r), LOCK_BUSY);
	assert_int_equal(holder, pid);
}

static void
is_refused(const struct place *p, const char *why)
{
	struct refusal r = {0};
	int64_t holder;

	assert_int_equal(lock_take(p->fd, NAME, &holder, &r), -1);
	assert_string_equal(r.code, "store.lock");
	if (strstr(r.why, why) == NULL)
		fail_msg("expected \"%s\" in: %s", why, r.why);
}

/* LK-1: one at a time, the second is told who; after the first has let go it is free. */
static void
one_at_a_time(void **state)
{
	struct place p;
	int fd;

	(void)state;
	place_make(&p);
	fd = take(&p);
	is_busy(&p, getpid());
	close(fd);
	close(take(&p));
	place_drop(&p);
}

/*
 * LK-2, LK-10, LK-11, LU-5, RF-27, RF-28, RF-70: what the file says decides nothing, be it a dead
 * pid, the pid of another living program, nothing, or noise; taken, it names us.
 */
static void
content_decides_nothing(void **state)
{
	static const char *const texts[] = {"4242\n", "1\n", "", "garbage", "-3\n", "12"};
	struct place p;
	size_t i;
	int fd;

	(void)state;
	place_make(&p);
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		place_write(&p, NAME, texts[i]);
		fd = take(&p);
		assert_string_equal(place_read(&p, NAME), our_line());
		close(fd);
	}
	place_drop(&p);
}

/* LK-11: with a holder in the kernel, garbage is still busy; only the name of the holder is lost.
 */
static void
garbage_does_not_free(void **state)
{
	struct place p;
	int fd;

	(void)state;
	place_make(&p);
	fd = take(&p);
	place_write(&p, NAME, "garbage");
	is_busy(&p, 0);
	place_write(&p, NAME, "");
	is_busy(&p, 0);
	close(fd);
	place_drop(&p);
}

/* LK-3, LU-4, RF-31: letting go leaves the file, the same one, so nobody's fresh lock goes with it.
 */
static void
the_file_is_permanent(void **state)
{
	struct stat before, after;
	struct place p;
	int fd;

	(void)state;
	place_make(&p);
	fd = take(&p);
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(before.st_mode & 07777, 0600);
	close(fd);
	assert_int_equal(fstatat(p.fd, NAME, &after, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_string_equal(place_read(&p, NAME), our_line());
	place_drop(&p);
}

/* In a child that leads a group: hold the lock until killed; return once it is held. */
static pid_t
holder_start(const struct place *p, bool with_child)
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	if ((pid = fork()) == 0) {
		setpgid(0, 0);
		take(p);
		if (with_child && fork() == 0) {
			execl("/bin/sleep", "sleep", "30", NULL);
			_exit(99);
		}
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	/* End of file: all copies are closed, by holder and, at exec, by its child. */
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

/* LK-8, LU-11: a holder killed with SIGKILL holds nothing any more, at once.  LK-5: of the dead one
 * nothing is left, its line least of all.  LK-6: while it lives, whoever is refused leaves the lock
 * and its line as they are, and nothing beside them. */
static void
killed_holder(void **state)
{
	struct stat before, after;
	char line[256];
	struct place p;
	pid_t pid;

	(void)state;
	place_make(&p);
	pid = holder_start(&p, false);
	assert_int_equal(fstatat(p.fd, NAME, &before, AT_SYMLINK_NOFOLLOW), 0);
	snprintf(line, sizeof(line), "%s", place_read(&p, NAME));
	is_busy(&p, pid);
	assert_string_equal(place_read(&p, NAME), line);
	assert_int_equal(fstatat(p.fd, NAME, &after, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(take(&p));
	assert_string_not_equal(place_read(&p, NAME), line);
	assert_string_equal(place_read(&p, NAME), our_line());
	assert_int_equal(unlinkat(p.fd, NAME, 0), 0);
	assert_int_equal(rmdir(p.path), 0);
	assert_int_equal(mkdir(p.path, 0700), 0);
	place_drop(&p);
}

/* LK-9, LU-12, RF-97: a program that the holder started and that outlives it does not hold on. */
static void
surviving_child(void **state)
{
	struct place p;
	pid_t pid;

	(void)state;
	place_make(&p);
	pid = holder_start(&p, true);
	is_busy(&p, pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* The group outlives its leader. */
	assert_int_equal(kill(-pid, 0), 0);
	close(take(&p));
	assert_int_equal(kill(-pid, SIGKILL), 0);
	place_drop(&p);
}

/* LK-12, LU-13: a link is not followed, and what it points to stays as it is. */
static void
links_are_refused(void **state)
{
	struct place p;

	(void)state;
	place_make(&p);
	place_write(&p, "precious", "do not touch");
	assert_int_equal(symlinkat("precious", p.fd, NAME), 0);
	is_refused(&p, "symbolic link");
	assert_string_equal(place_read(&p, "precious"), "do not touch");
	assert_int_equal(unlinkat(p.fd, NAME, 0), 0);
	assert_int_equal(linkat(p.fd, "precious", p.fd, NAME, 0), 0);
	is_refused(&p, "another name");
	assert_string_equal(place_read(&p, "precious"), "do not touch");
	place_drop(&p);
}

/* LK-12: a file that others may open, or that is theirs, or is none. */
static void
odd_files_are_refused(void **state)
{
	struct place p;

	(void)state;
	place_make(&p);
	place_write(&p, NAME, "");
	assert_int_equal(fchmodat(p.fd, NAME, 0620, 0), 0);
	is_refused(&p, "mode 0620");
	assert_int_equal(fchmodat(p.fd, NAME, 0604, 0), 0);
	is_refused(&p, "mode 0604");
	assert_int_equal(unlinkat(p.fd, NAME, 0), 0);
	assert_int_equal(mkfifoat(p.fd, NAME, 0600), 0);
	is_refused(&p, "not a regular file");
	assert_int_equal(unlinkat(p.fd, NAME, 0), 0);
	assert_int_equal(mkdirat(p.fd, NAME, 0700), 0);
	is_refused(&p, NAME);
	assert_int_equal(unlinkat(p.fd, NAME, AT_REMOVEDIR), 0);
	if (geteuid() == 0) {
		place_write(&p, NAME, "");
		assert_int_equal(fchownat(p.fd, NAME, 12345, 12345, 0), 0);
		is_refused(&p, "another user");
	}
	place_drop(&p);
}

/* RF-32, RF-89, RF-90, RF-95: no permission is an error with its name, not contention, and at once.
 */
static void
no_permission_is_an_error(void **state)
{
	struct refusal r = {0};
	struct place p;
	int64_t holder;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	place_make(&p);
	if ((pid = fork()) == 0) {
		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(2);
		_exit(lock_take(p.fd, NAME, &holder, &r) == -1 &&
			      strstr(r.why, "Permission denied") != NULL
			  ? 0
			  : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	place_drop(&p);
}

/*
 * LU-14: the file was removed while it was held, and a newcomer has the new one.  Whoever opened
 * the old one before sees that it is not the file any more, and goes to the present one.
 */
static void
replaced_file(void **state)
{
	struct refusal r = {0};
	struct place p;
	int old, new;

	(void)state;
	place_make(&p);
	old = take(&p);
	assert_int_equal(unlinkat(p.fd, NAME, 0), 0);
	new = take(&p);
	/* The old inode is locked by us, but it is not the lock: a third one finds the new one. */
	is_busy(&p, getpid());
	close(old);
	is_busy(&p, getpid());
	close(new);
	old = lock_open(p.fd, NAME, &r);
	assert_true(old >= 0);
	close(old);
	close(take(&p));
	place_drop(&p);
}

/*
 * LU-14, RF-91: against somebody who keeps removing the file, taking it ends every time: with the
 * lock, or with the words that say what goes on, and without a descriptor left over.
 */
static void
removed_all_the_time(void **state)
{
	struct refusal r = {0};
	struct place p;
	int64_t holder;
	int fd, i, first;
	pid_t pid;

	(void)state;
	place_make(&p);
	close(first = take(&p));
	if ((pid = fork()) == 0)
		for (;;)
			unlinkat(p.fd, NAME, 0);
	for (i = 0; i < 3000; i++) {
		fd = lock_take(p.fd, NAME, &holder, &r);
		assert_int_not_equal(fd, LOCK_BUSY);
		if (fd >= 0)
			close(fd);
		else
			assert_non_null(strstr(r.why, "keeps being replaced"));
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	fd = take(&p);
	assert_int_equal(fd, first);
	close(fd);
	place_drop(&p);
}

struct race {
	_Atomic int inside, taken, broken;
};

static void
racer(const struct place *p, struct race *race, int rounds)
{
	struct refusal r;
	int64_t holder;
	int fd;

	while (rounds > 0) {
		if ((fd = lock_take(p->fd, NAME, &holder, &r)) == -1)
			_exit(1);
		if (fd == LOCK_BUSY) {
			sched_yield();
			continue;
		}
		if (++race->inside != 1)
			race->broken++;
		sched_yield();
		race->inside--;
		race->taken++;
		close(fd);
		rounds--;
	}
	_exit(0);
}

/* LK-7, LU-10, RF-29, RF-94: 32 processes; never two inside, and the count could have shown it. */
static void
never_two_inside(void **state)
{
	struct race *race;
	struct place p;
	pid_t pid[RACERS];
	int i, status;

	(void)state;
	place_make(&p);
	race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(race, MAP_FAILED);
	for (i = 0; i < RACERS; i++)
		if ((pid[i] = fork()) == 0)
			racer(&p, race, 20);
	for (i = 0; i < RACERS; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(race->broken, 0);
	assert_int_equal(race->taken, RACERS * 20);
	assert_int_equal(munmap(race, sizeof(*race)), 0);
	place_drop(&p);
}

/* LU-18: the clock has no say. */
static void
clock_has_no_say(void **state)
{
	int64_t now = clock_now();
	struct place p;
	int fd;

	(void)state;
	place_make(&p);
	fd = take(&p);
	clock_fix(now - HOUR_MS);
	is_busy(&p, getpid());
	clock_fix(now + 24 * HOUR_MS);
	is_busy(&p, getpid());
	clock_fix(-1);
	close(fd);
	place_drop(&p);
}

static void *
look_on(void *ctx)
{
	struct place *p = ctx;
	struct refusal r;
	int i, failed = 0;

	for (i = 0; i < 500; i++)
		failed += lock_is_held(p->fd, NAME, &r) == -1;
	return failed == 0 ? ctx : NULL;
}

/* DC-21: whoever only looks takes nothing, so nobody who takes is refused for that. */
static void
a_look_is_in_nobodys_way(void **state)
{
	struct refusal r;
	struct place p;
	pthread_t other;
	void *whole;
	int fd, i;

	(void)state;
	place_make(&p);
	assert_int_equal(lock_is_held(p.fd, NAME, &r), 0);
	fd = take(&p);
	assert_int_equal(lock_is_held(p.fd, NAME, &r), 1);
	close(fd);
	assert_int_equal(lock_is_held(p.fd, NAME, &r), 0);
	assert_int_equal(pthread_create(&other, NULL, look_on, &p), 0);
	for (i = 0; i < 500; i++)
		close(take(&p));
	assert_int_equal(pthread_join(other, &whole), 0);
	assert_ptr_equal(whole, &p);
	place_drop(&p);
}

/* Take and drop many locks of another file, until the parent ends us. */
static void
be_busy(const struct place *p)
{
	int fds[200], i;

	for (i = 0; i < 200; i++)
		fds[i] = openat(p->fd, "other", O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	for (i = 0;; i = (i + 1) % 200)
		if (flock(fds[i], LOCK_SH) != 0 || flock(fds[(i + 100) % 200], LOCK_UN) != 0)
			_exit(1);
}

/* The kernel's list comes in pieces, and others take and drop theirs between two: ours is seen. */
static void
a_look_sees_it_among_many(void **state)
{
	struct refusal r;
	struct place p;
	pid_t busy[2];
	int fd, i, status;

	(void)state;
	place_make(&p);
	fd = take(&p);
	for (i = 0; i < 2; i++)
		if ((busy[i] = fork()) == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be_busy(&p);
		}
	for (i = 0; i < 2000; i++)
		assert_int_equal(lock_is_held(p.fd, NAME, &r), 1);
	for (i = 0; i < 2; i++) {
		assert_int_equal(kill(busy[i], SIGKILL), 0);
		assert_int_equal(waitpid(busy[i], &status, 0), busy[i]);
		assert_true(WIFSIGNALED(status));
	}
	close(fd);
	place_drop(&p);
}

/* LU-17: a fork's copy of the descriptor, closed, frees nothing. */
static void
close_after_fork(void **state)
{
	struct place p;
	pid_t pid;
	int fd;

	(void)state;
	place_make(&p);
	fd = take(&p);
	if ((pid = fork()) == 0) {
		close(fd);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	is_busy(&p, getpid());
	close(fd);
	close(take(&p));
	place_drop(&p);
}

/* LU-9, RF-92: nothing but the lock itself is ever in the directory, whatever happened to it. */
static void
no_side_files(void **state)
{
	struct place p;
	int fd;

	(void)state;
	place_make(&p);
	fd = take(&p);
	is_busy(&p, getpid());
	close(fd);
	assert_int_equal(unlinkat(p.fd, NAME, 0), 0);
	assert_int_equal(rmdir(p.path), 0);
	assert_int_equal(mkdir(p.path, 0700), 0);
	place_drop(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_at_a_time),
	    cmocka_unit_test(content_decides_nothing),
	    cmocka_unit_test(garbage_does_not_free),
	    cmocka_unit_test(the_file_is_permanent),
	    cmocka_unit_test(killed_holder),
	    cmocka_unit_test(surviving_child),
	    cmocka_unit_test(links_are_refused),
	    cmocka_unit_test(odd_files_are_refused),
	    cmocka_unit_test(no_permission_is_an_error),
	    cmocka_unit_test(replaced_file),
	    cmocka_unit_test(removed_all_the_time),
	    cmocka_unit_test(never_two_inside),
	    cmocka_unit_test(clock_has_no_say),
	    cmocka_unit_test(a_look_is_in_nobodys_way),
	    cmocka_unit_test(a_look_sees_it_among_many),
	    cmocka_unit_test(close_after_fork),
	    cmocka_unit_test(no_side_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
