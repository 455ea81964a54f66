/* runner.c: the worker's side of the runner. */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/worker/kill.h"
#include "engine/worker/runner.h"
#include "engine/worker/runner_wire.h"
#include "engine/worker/sandbox_wire.h"
#include "engine/worker/tool.h"

#define READY_MS 5000
#define STOP_MS  2000
#define SEND_MS  1000
#define ENV_MAX  4
#define ENV_LEN  1024

/* The names that may pass into a runner's environment. */
static const char *const env_names[] = {"PATH", "LANG", "TZ"};

struct clean_env {
	char text[ENV_MAX][ENV_LEN];
	char *list[ENV_MAX];
};

static void
make_env(struct clean_env *e)
{
	const char *value;
	size_t i;
	int n = 0, len;

	memset(e, 0, sizeof(*e));
	for (i = 0; i < sizeof(env_names) / sizeof(env_names[0]); i++) {
		if ((value = getenv(env_names[i])) == NULL)
			continue;
		len = snprintf(e->text[n], ENV_LEN, "%s=%s", env_names[i], value);
		if (len > 0 && len < ENV_LEN) {
			e->list[n] = e->text[n];
			n++;
		}
	}
	e->list[n] = NULL;
}

/* The child's part: only calls that are safe between fork and exec. */
static void __attribute__((noreturn))
become_runner(const char *self_path, struct clean_env *env, int sock, int null, pid_t parent)
{
	static char name[] = "bastion", verb[] = "runner";
	char *const argv[] = {name, verb, NULL};
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* The parent may have died before the kernel was asked to tell. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || getppid() != parent)
		_exit(126);
	if (dup2(null, 0) == -1 || dup2(null, 1) == -1 || dup2(sock, WIRE_FD) == -1)
		_exit(126);
	close_range(WIRE_FD + 1, ~0U, 0);
	execve(self_path, argv, env->list);
	_exit(127);
}

/* Copy ${fd} out of the way of the numbers that the child will use, and close it. */
static int
move_up(int fd)
{
	int up = fd != -1 ? fcntl(fd, F_DUPFD_CLOEXEC, 10) : -1;

	if (fd != -1)
		close(fd);
	return up;
}

static pid_t
fork_runner(const char *self_path, int sock, int null)
{
	struct clean_env env;
	pid_t parent = getpid(), pid;

	make_env(&env);
	if ((pid = fork()) == 0)
		become_runner(self_path, &env, sock, null, parent);
	return pid;
}

static int
wait_ready(struct runner *r)
{
	struct pollfd p = {.fd = r->fd, .events = POLLIN};
	struct runner_wire_event e;

	if (poll(&p, 1, READY_MS) != 1)
		return -1;
	return recv(r->fd, &e, sizeof(e), MSG_DONTWAIT) == (ssize_t)sizeof(e) &&
		       e.kind == WIRE_READY
		   ? 0
		   : -1;
}

int
runner_start(struct runner *r, const char *self_path, struct refusal *refusal)
{
	int pair[2], sock, null;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return refusal_errno(refusal, "runner.start", "the runner has no socket");
	r->fd = pair[0];
	sock = move_up(pair[1]);
	null = move_up(open("/dev/null", O_RDWR | O_CLOEXEC));
	r->pid = sock != -1 && null != -1 ? fork_runner(self_path, sock, null) : -1;
	if (sock != -1)
		close(sock);
	if (null != -1)
		close(null);
	if (r->pid != -1 && wait_ready(r) == 0)
		return 0;
	refusal_set(refusal, "runner.start", "the process that starts runs did not come up");
	runner_stop(r);
	return -1;
}

int
runner_fd(const struct runner *r)
{
	return r->fd;
}

/* Send ${request}, with ${n} descriptors. */
static int
send_request(struct runner *r, const struct runner_wire_request *request, const int *fds, size_t n)
{
	struct pollfd room = {.fd = r->fd, .events = POLLOUT};

	/* The socket holds about a dozen requests, and each is taken within a millisecond or so. */
	while (runner_wire_send_all(r->fd, request, sizeof(*request), fds, n) == -1) {
		if (errno != EAGAIN)
			return -1;
		if (poll(&room, 1, SEND_MS) != 1) {
			errno = EAGAIN;
			return -1;
		}
	}
	return 0;
}

static int
refuse_send(struct refusal *refusal)
{
	if (errno == EAGAIN)
		return refusal_set(
		    refusal, "runner.busy", "the process that starts runs does not keep up");
	return refusal_set(refusal, "runner.gone", "the process that starts runs is gone");
}

/* Have ${op} run with ${out}[1] for its answer, whose other end becomes ${*out_fd}.  Return 0 or
 * -1; both ends are taken. */
static int
spawn(struct runner *r, const struct observe_op *op, const struct observe_args *args,
    const struct observe_limits *limits, const struct observe_env *env, const int out[2],
    int *out_fd, uint64_t *id, struct refusal *refusal)
{
	struct runner_wire_request request = {.kind = WIRE_RUN};

	request.id = r->last_id + 1;
	snprintf(request.op, sizeof(request.op), "%s", op->name);
	request.args = *args;
	request.limits = *limits;
	request.env = *env;
	if (send_request(r, &request, &out[1], 1) == -1) {
		refuse_send(refusal);
		close(out[0]);
		close(out[1]);
		return -1;
	}
	close(out[1]);
	*out_fd = out[0];
	*id = r->last_id = request.id;
	return 0;
}

int
runner_spawn(struct runner *r, const struct observe_op *op, const struct observe_args *args,
    const struct observe_limits *limits, const struct observe_env *env, int *out_fd, uint64_t *id,
    struct refusal *refusal)
{
	int out[2];

	if (r->fd == -1)
		return refusal_set(refusal, "runner.gone", "the process that starts runs is gone");
	if (pipe2(out, O_CLOEXEC) == -1)
		return refusal_errno(refusal, "runner.spawn", "there is no pipe for the answer");
	return spawn(r, op, args, limits, env, out, out_fd, id, refusal);
}

int
runner_ask(struct runner *r, const struct observe_op *op, const struct observe_args *args,
    const struct observe_limits *limits, const struct observe_env *env, const char *text,
    size_t len, int *out_fd, uint64_t *id, struct refusal *refusal)
{
	int out[2];

	if (r->fd == -1)
		return refusal_set(refusal, "runner.gone", "the process that starts runs is gone");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) == -1)
		return refusal_errno(refusal, "runner.spawn", "there is no socket for the answer");
	if ((len > 0 && send(out[0], text, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len) ||
	    shutdown(out[0], SHUT_WR) == -1) {
		close(out[0]);
		close(out[1]);
		return refusal_set(
		    refusal, "runner.spawn", "the question is longer than a socket holds");
	}
	return spawn(r, op, args, limits, env, out, out_fd, id, refusal);
}

int
runner_sandbox(struct runner *r, const struct sandbox_plan *plan, int64_t kill_ms, uint64_t *id,
    struct refusal *refusal)
{
	struct runner_wire_request request = {.kind = WIRE_SANDBOX};
	int fds[WIRE_FDS_MAX], rc;
	size_t i;

	if (r->fd == -1)
		return refusal_set(refusal, "runner.gone", "the process that starts runs is gone");
	if ((fds[0] = sandbox_wire_write(plan, refusal)) == -1)
		return -1;
	for (i = 0; i < 3 + plan->fd_count; i++)
		fds[1 + i] = i < 3 ? plan->stdio[i] : plan->fds[i - 3];
	request.id = r->last_id + 1;
	request.limits.kill_ms = kill_ms;
	rc = send_request(r, &request, fds, 4 + plan->fd_count);
	if (rc == -1)
		refuse_send(refusal);
	close(fds[0]);
	if (rc == 0)
		*id = r->last_id = request.id;
	return rc;
}

/* Keep the layers of changes and the listeners that came with a sandbox, and close what came with
 * anything else. */
static void
take_fds(struct runner_event *event, int listeners, const int *fds, size_t n)
{
	size_t i, at = 0, layers = n;

	event->effect_count = 0;
	for (i = 0; i < SANDBOX_LISTENERS; i++) {
		event->listener_fd[i] = -1;
		layers -= event->kind == RUNNER_STARTED && (listeners & 1 << i) != 0 && layers > 0;
	}
	for (i = 0; i < n; i++) {
		while (at < SANDBOX_LISTENERS && (listeners & 1 << at) == 0)
			at++;
		if (event->kind == RUNNER_STARTED && i < layers &&
		    event->effect_count < SANDBOX_EFFECTS)
			event->effect_fd[event->effect_count++] = fds[i];
		else if (event->kind == RUNNER_STARTED && i >= layers && at < SANDBOX_LISTENERS)
			event->listener_fd[at++] = fds[i];
		else
			close(fds[i]);
	}
}

int
runner_event(struct runner *r, struct runner_event *event)
{
	struct runner_wire_event e;
	int fds[WIRE_FDS_MAX], rc;
	size_t n;

	if (r->fd == -1)
		return -1;
	errno = 0;
	if ((rc = runner_wire_receive_all(r->fd, &e, sizeof(e), fds, &n, MSG_DONTWAIT)) != 1)
		return rc == 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	event->kind = RUNNER_EXITED;
	switch (e.kind) {
	case WIRE_EXITED:
		event->kind = RUNNER_EXITED;
		break;
	case WIRE_LEFT:
		event->kind = RUNNER_LEFT;
		break;
	case WIRE_REFUSED:
		event->kind = RUNNER_REFUSED;
		break;
	case WIRE_STARTED:
		event->kind = RUNNER_STARTED;
		break;
	default:
		rc = -1;
	}
	take_fds(event, e.status, fds, n);
	event->id = e.id;
	event->status = e.status;
	event->refusal = e.refusal;
	event->report = e.report;
	event->who = e.who;
	return rc;
}

void
runner_event_drop(struct runner_event *event)
{
	size_t i;

	while (event->effect_count > 0)
		close(event->effect_fd[--event->effect_count]);
	for (i = 0; i < SANDBOX_LISTENERS; i++)
		if (event->listener_fd[i] != -1) {
			close(event->listener_fd[i]);
			event->listener_fd[i] = -1;
		}
}

int
runner_kill(struct runner *r, uint64_t id)
{
	struct runner_wire_request request = {.kind = WIRE_KILL, .id = id};

	return r->fd == -1 ? -1 : send_request(r, &request, NULL, 0);
}

int
runner_stop(struct runner *r)
{
	struct timespec nap = {.tv_nsec = 1000000};
	int64_t deadline = tool_now_ms() + STOP_MS;
	int killed = 0;

	if (r->fd != -1)
		close(r->fd);
	r->fd = -1;
	if (r->pid <= 0)
		return 0;
	while (waitpid(r->pid, NULL, WNOHANG) == 0) {
		if (tool_now_ms() >= deadline) {
			if (killed)
				return -1;
			kill_process(r->pid, SIGKILL);
			killed = 1;
			deadline = tool_now_ms() + STOP_MS;
		}
		nanosleep(&nap, NULL);
	}
	r->pid = 0;
	return 0;
}
