/* child.c: limits and signals of a process that was just made. */
#include <sys/syscall.h>

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "engine/worker/child.h"

int
child_limit(int which, rlim_t value)
{
	struct rlimit l;

	if (getrlimit(which, &l) == -1)
		return -1;
	if (l.rlim_max == RLIM_INFINITY || value < l.rlim_max)
		l.rlim_max = value;
	l.rlim_cur = l.rlim_max;
	return setrlimit(which, &l);
}

void
child_signals(void)
{
	static const unsigned long usual[4]; /* the kernel's sigaction: SIG_DFL, no flags */
	sigset_t none;
	int i;

	/* Not by signal(3), which leaves out two that the C library keeps for itself. */
	for (i = 1; i < NSIG; i++)
		syscall(SYS_rt_sigaction, i, usual, NULL, NSIG / 8);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
