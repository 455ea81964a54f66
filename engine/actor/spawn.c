/* spawn.c: fork and exec. */
#include <sys/pidfd.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/spawn.h"

#define FAILED      "actor.start"
#define EXEC_FAILED 127

/* What an actor may know of our environment: how to show text and time, where certificates are. */
static const char *const kept[] = {"PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"};

#define KEPT (sizeof(kept) / sizeof(kept[0]))

/*
 * SQLite takes and gives back thousands of small pieces while it reads the schema: a longer list of
 * those that are free saves a tenth of an actor's start.  (Another C library does not know it.)
 */
static char pieces[] = "GLIBC_TUNABLES=glibc.malloc.tcache_count=1000";

extern char **environ;

/* Fill ${to} with the variables to keep, which stay where they are, one of ours, and a NULL. */
static void
reduce_environment(char *to[KEPT + 2])
{
	size_t i, len, n = 0;
	char **var;

	for (i = 0; i < KEPT; i++) {
		len = strlen(kept[i]);
		for (var = environ; var != NULL && *var != NULL; var++)
			if (strncmp(*var, kept[i], len) == 0 && (*var)[len] == '=')
				break;
		if (var != NULL && *var != NULL)
			to[n++] = *var;
	}
	to[n++] = pieces;
	to[n] = NULL;
}

/*
 * In the child: system calls only.  The parent's SQLite objects, locks and memory are here in copy,
 * and touching them would be the end of both (spec daemon RF-99).
 */
static void
become_actor(int control, int null, char *const argv[], char *const envp[])
{
	sigset_t none;

	sigemptyset(&none);
	if (privilege_regain() == -1 || setsid() == -1 || dup2(null, STDIN_FILENO) == -1)
		_exit(EXEC_FAILED);
	if (control == CONTROL_FD ? fcntl(control, F_SETFD, 0) == -1
				  : dup2(control, CONTROL_FD) == -1)
		_exit(EXEC_FAILED);
	if (close_range(CONTROL_FD + 1, UINT_MAX, 0) == -1 ||
	    sigprocmask(SIG_SETMASK, &none, NULL) == -1)
		_exit(EXEC_FAILED);
	execve("/proc/self/exe", argv, envp);
	_exit(EXEC_FAILED);
}

static pid_t
fork_actor(const char *name, int control, struct refusal *r)
{
	char program[] = "bastion", verb[] = "actor", which[64];
	char *argv[] = {program, verb, which, NULL}, *envp[KEPT + 2];
	pid_t pid;
	int null;

	strncpy(which, name, sizeof(which) - 1);
	which[sizeof(which) - 1] = '\0';
	reduce_environment(envp);
	if ((null = open("/dev/null", O_RDONLY | O_CLOEXEC)) == -1)
		return refusal_errno(r, FAILED, "/dev/null");
	if ((pid = fork()) == 0)
		become_actor(control, null, argv, envp);
	if (pid == -1)
		refusal_errno(r, FAILED, "cannot make a process");
	close(null);
	return pid;
}

int
spawn_actor(const char *name, struct control_order *order, struct spawned *child, struct refusal *r)
{
	int ends[2];

	if (control_pair(ends) == -1)
		return refusal_errno(r, FAILED, "cannot make a control socket");
	/* The order waits in the socket: nobody has to wait for anybody. */
	if (control_order(ends[0], order) == -1) {
		refusal_errno(r, FAILED, "cannot send the order");
		goto failed;
	}
	if ((child->pid = fork_actor(name, ends[1], r)) == -1) {
		child->pid = 0;
		goto failed;
	}
	if ((child->pidfd = pidfd_open(child->pid, 0)) == -1) {
		refusal_errno(r, FAILED, "cannot watch the process");
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
		child->pid = 0;
		goto failed;
	}
	close(ends[1]);
	child->control = ends[0];
	return 0;

failed:
	close(ends[0]);
	close(ends[1]);
	return -1;
}

void
spawn_signal(const struct spawned *child, int signo)
{
	pidfd_send_signal(child->pidfd, signo, NULL, 0);
}

static void
spawn_forget(struct spawned *child)
{
	close(child->pidfd);
	close(child->control);
	child->pid = 0;
	child->pidfd = child->control = -1;
}

void
spawn_kill(struct spawned *child)
{
	if (child->pid <= 0)
		return;
	spawn_signal(child, SIGKILL);
	while (waitpid(child->pid, NULL, 0) == -1 && errno == EINTR)
		;
	spawn_forget(child);
}

int
spawn_reap(struct spawned *child, int *status)
{
	pid_t pid;

	do
		pid = waitpid(child->pid, status, WNOHANG);
	while (pid == -1 && errno == EINTR);
	if (pid != child->pid)
		return -1;
	spawn_forget(child);
	return 0;
}
