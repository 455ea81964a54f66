/* pidns.c: a child in a pid namespace of its own. */
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/pidns.h"

static int
enter(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 &&
		       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
		   ? 0
		   : -1;
}

/* Whoever asked for the namespace is not in it: it waits for its child, and ends as that did. */
static void
keep(pid_t inner)
{
	int status;

	close_range(STDERR_FILENO + 1, ~0U, 0);
	if (inner == -1 || waitpid(inner, &status, 0) != inner || !WIFEXITED(status))
		_exit(1);
	_exit(WEXITSTATUS(status));
}

pid_t
pidns_fork(void)
{
	pid_t outer, inner;
	int status;

	if ((outer = fork()) == 0)
		_exit(enter());
	assert_int_equal(waitpid(outer, &status, 0), outer);
	if (status != 0)
		skip();
	if ((outer = fork()) != 0)
		return outer;
	if (enter() != 0)
		_exit(1);
	if ((inner = fork()) != 0)
		keep(inner);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
		_exit(1);
	return 0;
}
