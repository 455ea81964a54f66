/* kill.c: SIGTERM, patience, SIGKILL, patience, and the truth about what is left. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/worker/kill.h"
#include "engine/worker/tool.h"

struct kill_grace
kill_defaults(void)
{
	return (struct kill_grace){.term_ms = 3000, .kill_ms = 3000, .poll_ms = 50};
}

int
kill_process(pid_t pid, int signo)
{
	if (pid > 1)
		return kill(pid, signo);
	errno = ESRCH;
	return -1;
}

int
kill_group(pid_t group, int signo)
{
	if (group > 1)
		return kill(-group, signo);
	errno = ESRCH;
	return -1;
}

/* Read state and group of ${pid} from /proc.  Return 0, or -1 if there is no such process. */
static int
read_stat(const char *pid, char *state, pid_t *group)
{
	char path[64], buf[512], *close_;
	ssize_t n;
	int fd, parent, pgrp;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	buf[n] = '\0';
	/* The name in parentheses may hold anything: the last one ends it. */
	if ((close_ = strrchr(buf, ')')) == NULL ||
	    sscanf(close_ + 1, " %c %d %d", state, &parent, &pgrp) != 3)
		return -1;
	*group = pgrp;
	return 0;
}

static int
is_dead(char state)
{
	return state == 'Z' || state == 'X' || state == 'x';
}

static int
pid_lives(pid_t pid)
{
	char name[16], state;
	pid_t group;

	snprintf(name, sizeof(name), "%d", (int)pid);
	return read_stat(name, &state, &group) == 0 && !is_dead(state);
}

static int
group_lives(pid_t group)
{
	struct dirent *e;
	char state;
	pid_t of;
	DIR *d;
	int lives = 0;

	if (kill_group(group, 0) == -1 && errno == ESRCH)
		return 0;
	/* Signal 0 counts zombies as alive; the kernel's table tells them apart. */
	if ((d = opendir("/proc")) == NULL)
		return 1;
	while (!lives && (e = readdir(d)) != NULL) {
		if (isdigit((unsigned char)e->d_name[0]) && read_stat(e->d_name, &state, &of) == 0)
			lives = of == group && !is_dead(state);
	}
	closedir(d);
	return lives;
}

int
kill_lives(pid_t pid, pid_t group)
{
	if (group != 0 && group_lives(group))
		return 1;
	return pid_lives(pid);
}

/* Refuse what must never be signalled; find out who is to be signalled as a group. */
static int
prepare(struct kill_target *t, struct refusal *refusal)
{
	if (t->pid <= 1 || t->group == 1 || t->group < 0)
		return refusal_set(
		    refusal, "kill.pid", "a process number of 1 or less is never signalled");
	if (t->pid == getpid())
		return refusal_set(refusal, "kill.pid", "a process does not end itself this way");
	if (t->group == 0 && getpgid(t->pid) == t->pid)
		t->group = t->pid;
	if (t->group == getpgrp())
		t->group = 0;
	t->gone = !kill_lives(t->pid, t->group);
	return 0;
}

/* Signal ${t}.  A process that is not ours to signal stays, and is reported as left. */
static void
signal_target(const struct kill_target *t, int sig)
{
	if (t->group != 0)
		kill_group(t->group, sig);
	/* It may have moved to another group since. */
	if (t->group == 0 || getpgid(t->pid) != t->group)
		kill_process(t->pid, sig);
}

/* Sleep until a leader ended or it is time to look at the groups again. */
static void
wait_change(const struct kill_target *targets, int n, int64_t ms)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};
	int i;

	for (i = 0; i < n && p.fd == -1; i++) {
		if (!targets[i].gone && pid_lives(targets[i].pid))
			p.fd = (int)syscall(SYS_pidfd_open, targets[i].pid, 0);
	}
	poll(&p, 1, (int)ms);
	if (p.fd != -1)
		close(p.fd);
}

/* Wait for all of them together, at most ${ms}.  Return how many are left. */
static int
wait_all(struct kill_target *targets, int n, int64_t ms, int64_t poll_ms)
{
	int64_t deadline = tool_now_ms() + ms, rest;
	int i, left;

	for (;;) {
		left = 0;
		for (i = 0; i < n; i++) {
			if (!targets[i].gone)
				targets[i].gone = !kill_lives(targets[i].pid, targets[i].group);
			left += !targets[i].gone;
		}
		rest = deadline - tool_now_ms();
		if (left == 0 || rest <= 0)
			return left;
		wait_change(targets, n, rest < poll_ms ? rest : poll_ms);
	}
}

static void
signal_left(const struct kill_target *targets, int n, int sig)
{
	int i;

	for (i = 0; i < n; i++) {
		if (!targets[i].gone)
			signal_target(&targets[i], sig);
	}
}

int
kill_trees(
    struct kill_target *targets, int n, const struct kill_grace *grace, struct refusal *refusal)
{
	int i, left;

	for (i = 0; i < n; i++) {
		if (prepare(&targets[i], refusal) == -1)
			return -1;
	}
	signal_left(targets, n, SIGTERM);
	if (wait_all(targets, n, grace->term_ms, grace->poll_ms) == 0)
		return 0;
	signal_left(targets, n, SIGKILL);
	if ((left = wait_all(targets, n, grace->kill_ms, grace->poll_ms)) == 0)
		return 0;
	return refusal_set(refusal, "kill.alive", "%d of %d could not be ended", left, n);
}

int
kill_tree(pid_t pid, pid_t group, struct refusal *refusal)
{
	struct kill_target target = {.pid = pid, .group = group};
	struct kill_grace grace = kill_defaults();

	return kill_trees(&target, 1, &grace, refusal);
}
