/* test_lent.c: what a run is lent as a file: who may read it, and that nothing of it stays. */
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/worker/program_lent.h"
#include "tests/pidns.h"

#define SECRET "s3cr3t-0123456789abcdef"

/* ${path} has ${mode}, and is of the user and the group that we are. */
static void
is_ours(const char *path, mode_t mode)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		fail_msg("%s is not there", path);
	assert_int_equal(st.st_mode & 07777, mode);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_gid, getegid());
}

/* HC-1, HC-2: as root or not, the folder around it is closed to all others, folder and file are of
 * whom the program runs as, and they are there for the length of the run alone. */
static void
a_credential_is_for_one_user(void **state)
{
	char folder[LENT_MAX], file[LENT_MAX + 16], text[LENT_MAX];
	struct lent lent = {.fd = -1};
	struct refusal r;
	ssize_t n;
	int fd;

	(void)state;
	umask(0);
	assert_int_equal(lent_open(&lent, &r), 0);
	assert_int_equal(lent_put(&lent, 7, "deploy", SECRET, strlen(SECRET), folder, &r), 0);
	snprintf(file, sizeof(file), "%s/deploy", folder);
	is_ours(lent.path, 0700);
	is_ours(folder, 0700);
	is_ours(file, 0400);
	assert_true((fd = open(file, O_RDONLY | O_CLOEXEC)) != -1);
	n = read(fd, text, sizeof(text));
	close(fd);
	assert_int_equal(n, strlen(SECRET));
	assert_memory_equal(text, SECRET, strlen(SECRET));
	/* One run has one, and another's is another. */
	assert_int_equal(lent_put(&lent, 8, "deploy", SECRET, strlen(SECRET), text, &r), 0);
	lent_take_back(&lent, 7);
	assert_int_equal(access(folder, F_OK), -1);
	assert_int_equal(access(text, F_OK), 0);
	lent_close(&lent);
	assert_int_equal(access(lent.path, F_OK), -1);
}

/* One that cannot be stored leaves nothing. */
static void
what_fails_leaves_nothing(void **state)
{
	char folder[LENT_MAX], name[300];
	struct lent lent = {.fd = -1};
	struct refusal r;

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(lent_open(&lent, &r), 0);
	assert_int_equal(lent_put(&lent, 7, name, SECRET, strlen(SECRET), folder, &r), -1);
	assert_string_equal(r.code, "op.place");
	assert_int_equal(access(folder, F_OK), -1);
	lent_close(&lent);
}

/* What a process left that was killed is gone with the next; of one that lives nothing is touched.
 */
static void
what_a_killed_process_left_is_removed(void **state)
{
	struct lent mine = {.fd = -1}, other = {.fd = -1};
	char folder[LENT_MAX];
	struct refusal r;
	int pipes[2];
	pid_t pid;

	(void)state;
	assert_int_equal(lent_open(&mine, &r), 0);
	assert_int_equal(pipe(pipes), 0);
	if ((pid = fork()) == 0) {
		if (lent_open(&other, &r) == 0 &&
		    lent_put(&other, 7, "deploy", SECRET, strlen(SECRET), folder, &r) == 0 &&
		    write(pipes[1], other.path, sizeof(other.path)) == sizeof(other.path))
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], other.path, sizeof(other.path)), sizeof(other.path));
	lent_sweep();
	assert_int_equal(access(other.path, F_OK), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	lent_sweep();
	assert_int_equal(access(other.path, F_OK), -1);
	assert_int_equal(access(mine.path, F_OK), 0);
	lent_close(&mine);
	close(pipes[0]);
	close(pipes[1]);
}

/* Of a process in another pid namespace nothing is touched as long as it lives, and then all. */
static void
what_lives_in_another_pid_namespace_keeps_its_own(void **state)
{
	struct lent other = {.fd = -1};
	struct refusal r;
	int path[2], end[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(path), 0);
	assert_int_equal(pipe(end), 0);
	if ((pid = pidns_fork()) == 0) {
		close(end[1]);
		_exit(
		    lent_open(&other, &r) == 0 &&
			    write(path[1], other.path, sizeof(other.path)) == sizeof(other.path) &&
			    read(end[0], &status, 1) == 0
			? 0
			: 1);
	}
	close(end[0]);
	close(path[1]);
	assert_int_equal(read(path[0], other.path, sizeof(other.path)), sizeof(other.path));
	lent_sweep();
	assert_int_equal(access(other.path, F_OK), 0);
	close(end[1]);
	close(path[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	lent_sweep();
	assert_int_equal(access(other.path, F_OK), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_credential_is_for_one_user),
	    cmocka_unit_test(what_fails_leaves_nothing),
	    cmocka_unit_test(what_a_killed_process_left_is_removed),
	    cmocka_unit_test(what_lives_in_another_pid_namespace_keeps_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
