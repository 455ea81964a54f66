/* lock.c: run a program while a lease is held. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/state/lease.h"
#include "shell/lock.h"

#define GRACE_MS 5000 /* between SIGTERM and SIGKILL */

/* What we wait for: the program's end, and what we are told that is meant for it. */
static void
told(sigset_t *set)
{
	static const int signals[] = {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
	size_t i;

	sigemptyset(set);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(set, signals[i]);
}

/* In the new process: become the program, or tell why not. */
static void __attribute__((noreturn))
become(const struct lock *lock, char *const *argv, pid_t parent, const sigset_t *mask, int report)
{
	char fence[24];
	int error;

	/* Who holds the lease is its process: without it nothing is protected any more. */
	snprintf(fence, sizeof(fence), "%" PRId64, lock->fence);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
	    setenv("BASTION_LOCK", lock->name, 1) == 0 &&
	    (lock->shared ? unsetenv("BASTION_FENCE") : setenv("BASTION_FENCE", fence, 1)) == 0 &&
	    sigprocmask(SIG_SETMASK, mask, NULL) == 0) {
		signal(SIGPIPE, SIG_DFL);
		execvp(argv[0], argv);
	}
	error = errno;
	(void)!write(report, &error, sizeof(error));
	_exit(127);
}

static pid_t
start(const struct lock *lock, char *const *argv, const sigset_t *mask)
{
	struct refusal *r = store_refusal(lock->db);
	pid_t parent = getpid(), child;
	int report[2], error = 0;
	ssize_t n;

	if (pipe2(report, O_CLOEXEC) == -1)
		return refusal_errno(r, "lock.program", argv[0]);
	if ((child = fork()) == 0)
		become(lock, argv, parent, mask, report[1]);
	if (child == -1)
		refusal_errno(r, "lock.program", argv[0]);
	close(report[1]);
	while (child != -1 && (n = read(report[0], &error, sizeof(error))) == -1 && errno == EINTR)
		;
	close(report[0]);
	if (child == -1 || error == 0)
		return child;
	waitpid(child, NULL, 0);
	errno = error;
	return refusal_errno(r, "lock.program", argv[0]);
}

/* From a terminal the program got it as well, being in the same group. */
static void
pass_on(pid_t child, const siginfo_t *si)
{
	if (si->si_signo != SIGCHLD && si->si_code != SI_KERNEL)
		kill(child, si->si_signo);
}

/* Wait ${ms} for the end of ${child}.  Return whether it is over. */
static int
over_within(pid_t child, int64_t ms, const sigset_t *set, int *status)
{
	int64_t end = loop_now() + ms, left;
	struct timespec ts;
	siginfo_t si;

	for (;;) {
		if (waitpid(child, status, WNOHANG) == child)
			return 1;
		if ((left = end - loop_now()) <= 0)
			return 0;
		ts = (struct timespec){left / 1000, left % 1000 * 1000000};
		if (sigtimedwait(set, &si, &ts) != -1)
			pass_on(child, &si);
	}
}

static void
end(pid_t child, const sigset_t *set, int *status)
{
	kill(child, SIGTERM);
	kill(child, SIGCONT);
	if (over_within(child, GRACE_MS, set, status))
		return;
	kill(child, SIGKILL);
	waitpid(child, status, 0);
}

int
lock_run(struct lock *lock, char *const *argv, int *status)
{
	sigset_t set, before;
	int rc = 0;
	pid_t child;

	told(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	if ((child = start(lock, argv, &before)) == -1)
		rc = -1;
	while (rc == 0 && !over_within(child, lock->ttl_ms / 3, &set, status))
		if ((rc = lease_renew(lock->db, lock->lease, lock->ttl_ms, lock->fence)) == -1)
			end(child, &set, status);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}
