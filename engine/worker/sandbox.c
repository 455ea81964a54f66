/* sandbox.c: the outside of a sandbox: start it, hear how far it came, end it. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "engine/worker/kill.h"
#include "engine/worker/runner_wire.h"
#include "engine/worker/sandbox.h"
#include "engine/worker/sandbox_backend.h"
#include "engine/worker/sandbox_job.h"
#include "engine/worker/sandbox_wire.h"
#include "engine/worker/tool.h"

#define START  "sandbox.start"
#define USERNS "sandbox.userns"

/* What the child was doing when it gave up. */
static const char *const doing[] = {
    [STAGE_BEGIN] = "its own view of cgroups cannot be made",
    [STAGE_GROUP] = "its group cannot be entered",
    [STAGE_MAP] = "its user cannot be mapped",
    [STAGE_SOURCE] = "cannot be opened without following a link",
    [STAGE_CHANGED] = "is not what it was a moment ago",
    [STAGE_USER] = "its user cannot be changed",
    [STAGE_ROOT] = "its root cannot be made",
    [STAGE_PROC] = "its /proc cannot be mounted, as where parts of /proc are covered (a container)",
    [STAGE_DEV] = "its /dev cannot be made",
    [STAGE_SCRATCH] = "its /tmp cannot be made",
    [STAGE_EFFECT] = "cannot be overlaid, so its changes could not be gathered",
    [STAGE_STEP] = "cannot be put in place",
    [STAGE_PIVOT] = "its root cannot be entered",
    [STAGE_NET] = "its network cannot be made",
    [STAGE_CWD] = "its working directory cannot be entered",
    [STAGE_LIMITS] = "its limits cannot be set",
    [STAGE_DROP] = "its rights cannot be dropped",
    [STAGE_LANDLOCK] = "Landlock refuses its rules",
    [STAGE_FILTER] = "the filter of system calls is refused",
    [STAGE_FORK] = "the program's process cannot be made",
    [STAGE_FDS] = "a descriptor cannot be handed over",
    [STAGE_TERMINAL] = "its terminal cannot be made",
    [STAGE_EXEC] = "cannot be started inside",
};

void
sandbox_limits(struct sandbox_limits *l)
{
	*l = (struct sandbox_limits){
	    .group = {.tasks = 64, .memory = 1073741824, .cpu_percent = 0},
	    .scratch_bytes = 268435456,
	    .effect_bytes = 536870912,
	    .effect_files = 100000,
	    .file_bytes = 0,
	    .open_files = 4096,
	};
}

/*
 * Why not.
 */

/* Return the number in the file ${path}, or -1. */
static int64_t
read_number(const char *path)
{
	char text[32];
	ssize_t n;
	int fd;

	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return strtoll(text, NULL, 10);
}

/* Name the setting that forbids user namespaces here, and how it is changed. */
static int
refuse_userns(struct refusal *refusal, int error)
{
	if (read_number("/proc/sys/user/max_user_namespaces") == 0)
		return refusal_set(refusal, USERNS,
		    "user namespaces are switched off here: sysctl user.max_user_namespaces is 0 "
		    "(inside a sandbox it always is)");
	if (read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		return refusal_set(refusal, USERNS,
		    "user namespaces are for root alone here: sysctl "
		    "kernel.unprivileged_userns_clone is 0, and 1 allows them");
	if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		return refusal_set(refusal, USERNS,
		    "AppArmor keeps user namespaces for programs with a profile here: install bastion "
		    "as root, which brings one, or set sysctl "
		    "kernel.apparmor_restrict_unprivileged_userns to 0");
	if (error == ENOSPC)
		return refusal_set(refusal, USERNS,
		    "there are as many user namespaces as sysctl user.max_user_namespaces allows");
	if (error == ENOSYS || error == EINVAL)
		return refusal_set(refusal, USERNS,
		    "this kernel, or a filter above bastion, has no user namespaces or no clone3");
	errno = error;
	return refusal_errno(
	    refusal, USERNS, "a filter or a container above bastion forbids user namespaces");
}

static bool
names_step(uint32_t stage)
{
	return stage == STAGE_SOURCE || stage == STAGE_CHANGED || stage == STAGE_EFFECT ||
	       stage == STAGE_STEP;
}

static int
refuse_status(const struct sandbox_status *st, struct refusal *refusal)
{
	bool denied = st->error == EPERM || st->error == EACCES;

	errno = st->error;
	if (st->stage == STAGE_PLAN && memchr(st->refusal.why, '\0', REFUSAL_WHY_MAX) != NULL &&
	    memchr(st->refusal.code, '\0', REFUSAL_CODE_MAX) != NULL) {
		*refusal = st->refusal;
		return -1;
	}
	if (st->stage == STAGE_EXEC)
		return refusal_set(refusal, "sandbox.program", "%.*s %s: %s", (int)sizeof(st->path),
		    st->path, doing[STAGE_EXEC], strerror(st->error));
	/* AppArmor lets the namespace be made and takes its rights away. */
	if (denied && (st->stage == STAGE_MAP || st->stage == STAGE_ROOT) &&
	    read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		return refuse_userns(refusal, st->error);
	if (st->stage >= STAGE_PLAN)
		return refusal_set(refusal, START, "the sandbox said what it never says");
	if (names_step(st->stage))
		return refusal_set(refusal, START, "the path %.*s of the plan %s: %s",
		    (int)sizeof(st->path), st->path, doing[st->stage], strerror(st->error));
	return refusal_errno(refusal, START, doing[st->stage]);
}

/*
 * Starting.
 */

static int
write_proc(pid_t pid, const char *name, const char *text)
{
	char path[64];
	ssize_t n, len = (ssize_t)strlen(text);
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	if ((fd = open(path, O_WRONLY | O_CLOEXEC)) == -1)
		return -1;
	n = write(fd, text, (size_t)len);
	close(fd);
	return n == len ? 0 : -1;
}

#define SPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

/* Clone a process into ${spaces} and its group. */
static pid_t
clone_child(struct sandbox *box, uint64_t spaces)
{
	struct clone_args args = {
	    .flags = spaces | CLONE_PIDFD,
	    .pidfd = (uint64_t)(uintptr_t)&box->pidfd,
	    .exit_signal = SIGCHLD,
	};

	if (box->group.fd != -1) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)box->group.fd;
	}
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* What the child waits for: its user, if we are root. */
static int
map_child(struct sandbox *box, const struct sandbox_job *job, struct refusal *refusal)
{
	if (job->privileged && (write_proc(box->pid, "uid_map", job->uid_map) != 0 ||
				   write_proc(box->pid, "gid_map", job->gid_map) != 0 ||
				   send(box->status_fd, "", 1, MSG_NOSIGNAL) != 1))
		return refusal_errno(refusal, START, doing[STAGE_MAP]);
	return 0;
}

/* And then the word that it may. */
static int
let_go(const struct sandbox_plan *plan, struct sandbox *box, struct refusal *refusal)
{
	if (plan->may != NULL && plan->may(plan->may_ctx, refusal) != 0)
		return -1;
	/* Where it gave up, it says why itself. */
	if (send(box->status_fd, "", 1, MSG_NOSIGNAL) != 1 && errno != EPIPE && errno != ECONNRESET)
		return refusal_errno(refusal, START, "it died before it began");
	return 0;
}

/* Clone the first process: for ${job}, or, where that is NULL, for one that comes later. */
static int
spawn(struct sandbox *box, struct sandbox_job *job, enum sandbox_net net,
    const struct sandbox_caller *caller, struct refusal *refusal)
{
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return refusal_errno(refusal, START, "there is no socket to hear it with");
	box->status_fd = pair[0];
	if (job != NULL)
		job->status_fd = pair[1];
	box->pid = clone_child(box, net == SANDBOX_NET_HOST ? SPACES : SPACES | CLONE_NEWNET);
	if (box->pid == 0) {
		/* Its parent's end would keep it from noticing that the parent died. */
		close(pair[0]);
		if (job == NULL)
			sandbox_child_waits(pair[1], &box->group, caller);
		sandbox_child(job);
	}
	rc = errno;
	close(pair[1]);
	cgroup_shut(&box->group);
	return box->pid != -1 ? 0 : refuse_userns(refusal, rc);
}

static void
note_caps(struct sandbox *box, const struct sandbox_plan *plan)
{
	const struct cgroup *g = &box->group;

	if (!g->tasks && plan->uid != 0)
		sandbox_note(&box->report,
		    "%.80s; held by RLIMIT_NPROC in a user namespace of its own", g->tasks_note);
	else if (!g->tasks)
		sandbox_note(&box->report, "%.120s", g->tasks_note);
	if (plan->limits.group.memory > 0 && !g->memory)
		sandbox_note(
		    &box->report, "memory is capped for each process, not for all together");
	if (plan->limits.group.cpu_percent > 0 && !g->cpu)
		sandbox_note(&box->report, "the share of processors is not capped");
}

static void
empty(struct sandbox *box)
{
	size_t i;

	memset(box, 0, sizeof(*box));
	box->pid = box->pidfd = box->status_fd = box->over_fd = -1;
	box->group.fd = box->group.tasks_fd = box->terminal_fd = -1;
	for (i = 0; i < SANDBOX_LISTENERS; i++)
		box->listener_fd[i] = -1;
}

/* What of a failed start is left to do. */
static int
failed(struct sandbox *box)
{
	sandbox_end(box, NULL);
	sandbox_free(box);
	return -1;
}

static int
start_new(const struct sandbox_plan *plan, struct sandbox_job *job, struct sandbox *box,
    const struct sandbox_caller *caller, struct refusal *refusal)
{
	struct cgroup_limits caps = plan->limits.group;

	caps.tasks = job->tasks_max;
	cgroup_make(&box->group, &caps);
	note_caps(box, plan);
	box->net = plan->net;
	job->group = &box->group;
	if (spawn(box, job, plan->net, caller, refusal) != 0 || map_child(box, job, refusal) != 0)
		return -1;
	return let_go(plan, box, refusal);
}

/* What is executed where the backend is not ours.  Return it, or NULL with ${refusal}. */
static char *const *
plain_argv(const struct sandbox_plan *plan, char *room, size_t size, struct refusal *refusal)
{
	static const char *argv[BACKEND_ARGV_MAX];
	static char bwrap[BACKEND_PATH_MAX];
	struct sandbox_record record;
	struct sandbox_facts facts;

	if (plan->backend == BACKEND_NONE)
		return plan->argv;
	sandbox_facts(&facts, "/usr/local/bin:/usr/bin:/bin", bwrap);
	if (sandbox_backend_choose("bubblewrap", &facts, &record, refusal) == -1 ||
	    sandbox_bubblewrap(plan, record.executable, argv, room, size, refusal) == -1)
		return NULL;
	return (char *const *)(uintptr_t)argv;
}

/* bwrap or nothing, in a group and with limits all the same. */
static int
start_plain(const struct sandbox_plan *plan, struct sandbox_job *job, struct sandbox *box,
    struct refusal *refusal)
{
	struct cgroup_limits caps = plan->limits.group;
	static char room[65536];
	char *const *argv = plain_argv(plan, room, sizeof(room), refusal);
	int pair[2];

	if (argv == NULL)
		return -1;
	if (plan->backend != BACKEND_NONE) {
		free(job->programs[0]);
		if ((job->programs[0] = strdup(argv[0])) == NULL)
			return refusal_set(refusal, START, "out of memory");
	}
	box->plain = true;
	caps.tasks = job->tasks_max;
	cgroup_make(&box->group, &caps);
	if (!box->group.tasks)
		sandbox_note(&box->report, "%.120s", box->group.tasks_note);
	if (plan->backend == BACKEND_BUBBLEWRAP && plan->net != SANDBOX_NET_HOST)
		sandbox_note(&box->report,
		    "bubblewrap holds nothing to domains: there is no network, whatever rules allow");
	job->group = &box->group;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return refusal_errno(refusal, START, "there is no socket to hear it with");
	box->status_fd = pair[0];
	job->status_fd = pair[1];
	if ((box->pid = clone_child(box, 0)) == 0) {
		close(pair[0]);
		sandbox_child_plain(job, argv);
	}
	close(pair[1]);
	cgroup_shut(&box->group);
	if (box->pid == -1)
		return refusal_errno(refusal, START, "the program's process cannot be made");
	return let_go(plan, box, refusal);
}

int
sandbox_start(const struct sandbox_plan *plan, struct sandbox *box, struct refusal *refusal)
{
	struct sandbox_caller caller = {geteuid(), getegid()};
	struct sandbox_job *job;
	int rc = -1;

	empty(box);
	if ((job = malloc(sizeof(*job))) == NULL)
		return refusal_set(refusal, START, "out of memory");
	if (sandbox_compile(plan, &caller, job, &box->report, refusal) == 0)
		rc = plan->backend == BACKEND_NATIVE ? start_new(plan, job, box, &caller, refusal)
						     : start_plain(plan, job, box, refusal);
	sandbox_job_free(job);
	free(job);
	return rc == 0 ? 0 : failed(box);
}

/*
 * One that stands ready.
 */

int
sandbox_spare(struct sandbox *box, struct refusal *refusal)
{
	struct sandbox_caller caller = {geteuid(), getegid()};
	struct sandbox_limits limits;

	empty(box);
	sandbox_limits(&limits);
	cgroup_make(&box->group, &limits.group);
	return spawn(box, NULL, SANDBOX_NET_NONE, &caller, refusal) == 0 ? 0 : failed(box);
}

/* Hand ${plan} to the child that waits.  Return 0, or -1 if it is not there any more. */
static int
send_plan(const struct sandbox_plan *plan, const struct sandbox *box, struct refusal *refusal)
{
	int fds[WIRE_FDS_MAX], rc;
	size_t i;

	if ((fds[0] = sandbox_wire_write(plan, refusal)) == -1)
		return -1;
	for (i = 0; i < 3 + plan->fd_count; i++)
		fds[1 + i] = i < 3 ? plan->stdio[i] : plan->fds[i - 3];
	rc = runner_wire_send_all(box->status_fd, "", 1, fds, 4 + plan->fd_count);
	close(fds[0]);
	return rc;
}

static int
start_waiting(const struct sandbox_plan *plan, const struct sandbox_job *job, struct sandbox *box,
    struct refusal *refusal)
{
	struct cgroup_limits caps = plan->limits.group;
	int trees = box->group.tree_count;

	caps.tasks = job->tasks_max;
	cgroup_limit(&box->group, &caps);
	note_caps(box, plan);
	if (send_plan(plan, box, refusal) != 0 || map_child(box, job, refusal) != 0)
		return -1;
	/* It goes into those that there were when it was made by itself. */
	if (box->group.tree_count != trees && cgroup_attach(&box->group, box->pid) != 0)
		return refusal_errno(refusal, START, doing[STAGE_GROUP]);
	cgroup_shut(&box->group);
	return let_go(plan, box, refusal);
}

/* Whether the sandbox that stands ready fits ${plan}: it has a network of its own, and, of root's,
 * looks for the plan's folders while it is not yet another user. */
static bool
spare_fits(const struct sandbox_plan *plan, const struct sandbox_caller *caller)
{
	return plan->net != SANDBOX_NET_HOST && plan->backend == BACKEND_NATIVE &&
	       plan->uid == caller->uid;
}

int
sandbox_start_spare(const struct sandbox_plan *plan, struct sandbox *box, struct refusal *refusal)
{
	struct sandbox_caller caller = {geteuid(), getegid()};
	struct sandbox_job *job;
	int rc = -1;

	if ((job = malloc(sizeof(*job))) == NULL) {
		refusal_set(refusal, START, "out of memory");
		return failed(box);
	}
	/* Checked here too: what is wrong with a plan is said at once. */
	if (sandbox_compile(plan, &caller, job, &box->report, refusal) == 0) {
		rc = spare_fits(plan, &caller) ? start_waiting(plan, job, box, refusal) : -1;
		if (rc != 0) {
			failed(box);
			empty(box);
			rc = plan->backend == BACKEND_NATIVE
				 ? start_new(plan, job, box, &caller, refusal)
				 : start_plain(plan, job, box, refusal);
		}
	}
	sandbox_job_free(job);
	free(job);
	return rc == 0 ? 0 : failed(box);
}

/*
 * Hearing.
 */

/* Keep ${fd}, the next one that came with ${st}: first effects, then listeners, then the terminal.
 */
static void
keep_fd(struct sandbox *box, const struct sandbox_status *st, int fd)
{
	while (box->effect_count == st->effects && box->listener_count < SANDBOX_LISTENERS &&
	       (st->listeners & 1U << box->listener_count) == 0)
		box->listener_count++;
	if (box->effect_count < st->effects && box->effect_count < SANDBOX_EFFECTS)
		box->effect_fd[box->effect_count++] = fd;
	else if (box->listener_count < SANDBOX_LISTENERS)
		box->listener_fd[box->listener_count++] = fd;
	else if (st->terminal != 0 && box->terminal_fd == -1)
		box->terminal_fd = fd;
	else
		close(fd);
}

/* Take the descriptors that came with the word that all is in place. */
static void
take_fds(struct sandbox *box, const struct sandbox_status *st, struct msghdr *m)
{
	struct cmsghdr *head;
	size_t i, n;
	int fd;

	for (head = CMSG_FIRSTHDR(m); head != NULL; head = CMSG_NXTHDR(m, head)) {
		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
			keep_fd(box, st, fd);
		}
	}
}

/* Receive one message by ${fd}.  Return 1; 0 at their end; -1 on failure. */
static int
hear(struct sandbox *box, int fd, struct sandbox_status *st)
{
	union {
		char buf[CMSG_SPACE(SANDBOX_GIVEN * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = st, .iov_len = sizeof(*st)};
	struct msghdr m = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf)};
	ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	/* It ended before it read our word, which is told once, before what it said itself. */
	if (n == -1 && errno == ECONNRESET)
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n == 0 || n == -1)
		return (int)n;
	errno = EPROTO;
	if (n != (ssize_t)sizeof(*st))
		return -1;
	take_fds(box, st, &m);
	return 1;
}

static void
keep_report(struct sandbox *box, const struct sandbox_status *st)
{
	box->report.landlock = st->landlock;
	box->report.tasks_capped = st->capped != 0;
	box->report.user_ns = st->user_ns;
	box->report.pid_ns = st->pid_ns;
	box->report.pid = box->pid;
	memcpy(box->report.overlaid, st->overlaid, sizeof(box->report.overlaid));
	if (box->net == SANDBOX_NET_HOST && st->landlock < 6)
		sandbox_note(&box->report,
		    "on the machine's network, and this kernel's Landlock does not hold abstract sockets");
	if (st->landlock == 0 && !box->plain)
		sandbox_note(&box->report, "this kernel has no Landlock: one layer less");
	if (box->group.tasks && !st->capped)
		sandbox_note(&box->report,
		    "tasks are not capped: from inside the kernel does not confirm it");
}

int
sandbox_hear(struct sandbox *box, struct refusal *refusal)
{
	struct sandbox_status st;
	int n;

	while ((n = hear(box, box->status_fd, &st)) == 1) {
		if (st.stage == STAGE_STARTED && box->placed) {
			box->over_fd = box->status_fd;
			box->status_fd = -1;
			return 1;
		}
		if (st.stage != STAGE_READY)
			return refuse_status(&st, refusal);
		box->placed = true;
		keep_report(box, &st);
	}
	if (n == -1 && errno == EAGAIN)
		return 0;
	close(box->status_fd);
	box->status_fd = -1;
	/* Without a first process of ours, the program's exec closed the other end. */
	if (n == 0 && box->placed && box->plain)
		return 1;
	return refusal_set(refusal, START, "the sandbox died while it was made");
}

int
sandbox_ready(struct sandbox *box, int ms, struct refusal *refusal)
{
	struct pollfd p = {.fd = box->status_fd, .events = POLLIN};
	int64_t deadline = tool_now_ms() + ms, left;
	int rc;

	while ((rc = sandbox_hear(box, refusal)) == 0) {
		if ((left = deadline - tool_now_ms()) <= 0)
			return refusal_set(
			    refusal, "sandbox.late", "the sandbox did not start in time");
		poll(&p, 1, (int)left);
	}
	return rc == 1 ? 0 : -1;
}

/*
 * Ending.
 */

bool
sandbox_over(struct sandbox *box)
{
	struct sandbox_status st;

	if (!box->over && box->over_fd != -1 && hear(box, box->over_fd, &st) == 1 &&
	    st.stage == STAGE_OVER) {
		box->over = true;
		box->code = st.code;
	}
	return box->over;
}

int
sandbox_signal(const struct sandbox *box, int signo)
{
	if (box->pid > 0)
		return pidfd_send_signal(box->pidfd, signo, NULL, 0);
	errno = ESRCH;
	return -1;
}

void
sandbox_reaped(struct sandbox *box)
{
	box->pid = -1;
	cgroup_drop(&box->group);
}

int
sandbox_end(struct sandbox *box, int *status)
{
	int st = 0, rc = 0;

	if (box->pid > 0) {
		/* Its first process takes all others with it. */
		if (box->plain)
			kill_group(box->pid, SIGKILL);
		kill_process(box->pid, SIGKILL);
		while ((rc = waitpid(box->pid, &st, 0)) == -1 && errno == EINTR)
			continue;
	}
	/* Killed or not while the kernel took it apart: the program had ended. */
	if (status != NULL)
		*status = box->over ? W_EXITCODE(box->code, 0) : st;
	sandbox_reaped(box);
	return rc == -1 ? -1 : 0;
}

void
sandbox_free(struct sandbox *box)
{
	size_t i;

	if (box->pidfd != -1)
		close(box->pidfd);
	if (box->status_fd != -1)
		close(box->status_fd);
	if (box->over_fd != -1)
		close(box->over_fd);
	for (i = 0; i < box->effect_count; i++)
		close(box->effect_fd[i]);
	for (i = 0; i < SANDBOX_LISTENERS; i++)
		if (box->listener_fd[i] != -1) {
			close(box->listener_fd[i]);
			box->listener_fd[i] = -1;
		}
	if (box->terminal_fd != -1)
		close(box->terminal_fd);
	box->terminal_fd = -1;
	box->pidfd = box->status_fd = box->over_fd = -1;
	box->effect_count = 0;
}
