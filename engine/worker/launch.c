/* launch.c: start a program that waits for the word. */
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "engine/worker/child.h"
#include "engine/worker/kill.h"
#include "engine/worker/kin.h"
#include "engine/worker/launch.h"

#define GROUPS_MAX 256

/* What the child says through its report: READY once, or where it failed, with errno. */
enum step { READY, STEP_USER, STEP_DIRECTORY, STEP_TERMINAL, STEP_PROGRAM };

struct word {
	enum step step;
	int error;
};

/* Everything that the child needs, worked out before the fork. */
struct child {
	const struct launch_plan *plan;
	int stdio[3], report, go;
	gid_t gid, groups[GROUPS_MAX];
	int ngroups;
	pid_t parent;
};

static void __attribute__((noreturn)) fail(const struct child *c, enum step step)
{
	struct word w = {step, errno};

	(void)!write(c->report, &w, sizeof(w));
	_exit(127);
}

static void
become(const struct child *c)
{
	const struct launch_plan *plan = c->plan;

	if (geteuid() == 0 && (setgroups((size_t)c->ngroups, c->groups) != 0 ||
				  setresgid(c->gid, c->gid, c->gid) != 0 ||
				  setresuid(plan->uid, plan->uid, plan->uid) != 0))
		fail(c, STEP_USER);
	if (geteuid() != plan->uid) {
		errno = EPERM;
		fail(c, STEP_USER);
	}
	/* Setting the user has cleared it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != c->parent)
		fail(c, STEP_USER);
	if (chdir(plan->cwd) != 0)
		fail(c, STEP_DIRECTORY);
}

static const char *
variable(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; *env != NULL; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return "";
}

const char *
launch_find(const char *folders, const char *name, char path[LAUNCH_PATH_MAX])
{
	const char *at = folders, *end;

	if (strchr(name, '/') != NULL)
		return access(name, X_OK) == 0 ? name : NULL;
	errno = ENOENT;
	for (; *at != '\0'; at = *end == '\0' ? end : end + 1) {
		end = strchrnul(at, ':');
		if (snprintf(path, LAUNCH_PATH_MAX, "%.*s/%s", (int)(end - at), at, name) <
			LAUNCH_PATH_MAX &&
		    access(path, X_OK) == 0)
			return path;
	}
	return NULL;
}

static void __attribute__((noreturn)) child_main(struct child *c)
{
	static char path[LAUNCH_PATH_MAX];
	const struct word ready = {READY, 0};
	const char *program;
	char go;
	int i;

	child_signals();
	setsid();
	if (kin_mark(c->plan->mark) != 0)
		fail(c, STEP_USER);
	if (c->plan->terminal && ioctl(c->stdio[0], TIOCSCTTY, 0) != 0)
		fail(c, STEP_TERMINAL);
	for (i = 0; i < 3; i++)
		if (dup2(c->stdio[i], i) == -1)
			fail(c, STEP_TERMINAL);
	become(c);
	/* Before the word is given. */
	if ((program = launch_find(variable(c->plan->env, "PATH"), c->plan->argv[0], path)) == NULL)
		fail(c, STEP_PROGRAM);
	if (write(c->report, &ready, sizeof(ready)) != (ssize_t)sizeof(ready) ||
	    read(c->go, &go, 1) != 1)
		_exit(127);
	execve(program, c->plan->argv, c->plan->env);
	fail(c, STEP_PROGRAM);
}

static int
user_groups(struct child *c)
{
	struct passwd *pw = getpwuid(c->plan->uid);

	c->gid = pw == NULL ? (gid_t)c->plan->uid : pw->pw_gid;
	c->ngroups = GROUPS_MAX;
	if (pw == NULL) {
		c->groups[0] = c->gid;
		c->ngroups = 1;
		return 0;
	}
	return getgrouplist(pw->pw_name, pw->pw_gid, c->groups, &c->ngroups) == -1 ? -1 : 0;
}

static int
terminal_open(const struct launch_plan *plan, struct launched *p, int stdio[3])
{
	struct winsize size = {.ws_row = plan->rows, .ws_col = plan->cols};
	int slave;

	if ((p->out = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) == -1 ||
	    grantpt(p->out) != 0 || unlockpt(p->out) != 0 ||
	    ioctl(p->out, TIOCSWINSZ, &size) != 0 ||
	    (slave = ioctl(p->out, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) == -1)
		return -1;
	if (geteuid() == 0 && fchown(slave, plan->uid, (gid_t)-1) != 0)
		(void)0; /* /dev/pts of another namespace: the descriptors are enough */
	p->in = p->out;
	stdio[0] = stdio[1] = stdio[2] = slave;
	return 0;
}

/* One end ours, without waiting. */
static int
pipe_open(int *ours, int *theirs, bool we_read)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) == -1)
		return -1;
	*ours = ends[we_read ? 0 : 1];
	*theirs = ends[we_read ? 1 : 0];
	return fcntl(*ours, F_SETFL, O_NONBLOCK);
}

static int
pipes_open(const struct launch_plan *plan, struct launched *p, int stdio[3])
{
	if (pipe_open(&p->out, &stdio[1], true) != 0 || pipe_open(&p->err, &stdio[2], true) != 0)
		return -1;
	if (plan->input)
		return pipe_open(&p->in, &stdio[0], false);
	stdio[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return stdio[0] == -1 ? -1 : 0;
}

static int
ends_open(const struct launch_plan *plan, struct launched *p, int stdio[3])
{
	*p = (struct launched){
	    .pid = -1, .pidfd = -1, .report = -1, .go = -1, .out = -1, .err = -1, .in = -1};
	stdio[0] = stdio[1] = stdio[2] = -1;
	return plan->terminal ? terminal_open(plan, p, stdio) : pipes_open(plan, p, stdio);
}

void
launch_handed(const int stdio[3])
{
	int i;

	for (i = 0; i < 3; i++)
		if (stdio[i] != -1 && (i == 0 || stdio[i] != stdio[i - 1]))
			close(stdio[i]);
}

int
launch_ends(
    const struct launch_plan *plan, struct launched *p, int stdio[3], struct refusal *refusal)
{
	if (ends_open(plan, p, stdio) == 0)
		return 0;
	refusal_errno(refusal, "launch.failed", "its terminal or pipes could not be made");
	launch_handed(stdio);
	launch_close(p);
	return -1;
}

static void
close_theirs(struct child *c)
{
	launch_handed(c->stdio);
	if (c->report != -1)
		close(c->report);
	if (c->go != -1)
		close(c->go);
}

int
launch_start(const struct launch_plan *plan, struct launched *p, struct refusal *refusal)
{
	struct child c = {
	    .plan = plan, .stdio = {-1, -1, -1}, .report = -1, .go = -1, .parent = getpid()};

	if (ends_open(plan, p, c.stdio) != 0 || user_groups(&c) != 0 ||
	    pipe_open(&p->report, &c.report, true) != 0 || pipe_open(&p->go, &c.go, false) != 0 ||
	    (p->pid = fork()) == -1)
		goto failed;
	if (p->pid == 0)
		child_main(&c);
	close_theirs(&c);
	if ((p->pidfd = pidfd_open(p->pid, 0)) != -1)
		return 0;
	kill_process(p->pid, SIGKILL);
	refusal_errno(refusal, "launch.failed", "the process");
	launch_close(p);
	return -1;

failed:
	refusal_errno(refusal, "launch.failed", "the process could not be made");
	close_theirs(&c);
	launch_close(p);
	return -1;
}

int
launch_report(struct launched *p, struct refusal *refusal)
{
	static const char *const steps[] = {
	    [STEP_USER] = "it could not become its user",
	    [STEP_DIRECTORY] = "its directory cannot be entered",
	    [STEP_TERMINAL] = "its terminal could not be made",
	    [STEP_PROGRAM] = "its program cannot be run",
	};
	struct word w;
	ssize_t n = read(p->report, &w, sizeof(w));

	if (n == (ssize_t)sizeof(w) && w.step == READY)
		return 1;
	if (n == 0 && p->go == -1) /* closed by exec */
		return 0;
	if (n == (ssize_t)sizeof(w) && w.step <= STEP_PROGRAM) {
		errno = w.error;
		return refusal_errno(refusal, "launch.failed", steps[w.step]);
	}
	return refusal_set(refusal, "launch.failed", "it ended before it ran");
}

void
launch_go(struct launched *p)
{
	(void)!write(p->go, "g", 1);
	close(p->go);
	p->go = -1;
}

void
launch_close(struct launched *p)
{
	int *const fds[] = {&p->pidfd, &p->report, &p->go, &p->err, &p->out};
	size_t i;

	if (p->in != -1 && p->in != p->out)
		close(p->in);
	p->in = -1;
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] != -1)
			close(*fds[i]);
		*fds[i] = -1;
	}
}
