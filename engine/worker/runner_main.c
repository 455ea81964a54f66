/*
 * runner_main.c: the runner itself.
 *
 * One loop over two descriptors: the socket to the worker and the signal that a child ended.  A
 * child leads a process group of its own.  When it ends, the rest of its group is killed while its
 * zombie still holds the group's number, and only then is it reaped.
 */
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/answer.h"
#include "engine/worker/child.h"
#include "engine/worker/kill.h"
#include "engine/worker/observe.h"
#include "engine/worker/runner.h"
#include "engine/worker/runner_wire.h"
#include "engine/worker/sandbox.h"
#include "engine/worker/sandbox_wire.h"
#include "engine/worker/scan.h"
#include "engine/worker/seal.h"
#include "engine/worker/tool.h"

#define RUNS_MAX   1024
#define NOFILE_MAX 4096
/* How long nothing must happen before the next child is made ready; while one answers, its end,
 * which somebody waits for, comes first. */
#define SPARE_MS  5
#define ANSWER_MS 50

/* What a child holds besides the standard descriptors: where its question comes from and it says
 * how it ended, and where its answer goes to. */
#define ASK_FD 3
#define OUT_FD 4

enum run_phase {
	RUN_FREE,
	RUN_LIVE,
	RUN_ASKED,  /* SIGTERM was sent */
	RUN_KILLED, /* SIGKILL was sent */
	RUN_LEFT,   /* that did not help either */
	RUN_SAID,   /* it said how it ended; not reaped yet */
	RUN_OVER,   /* reaped; the worker is still to be told */
};

struct run {
	enum run_phase phase;
	uint64_t id;
	pid_t pid;
	int64_t kill_ms;
	int64_t due; /* when the next step of ending it comes */
	int status;
	int said_fd;         /* where a handler says how it ended; -1 */
	uint32_t say;        /* an event that the worker has not taken yet, or 0 */
	struct sandbox *box; /* where it is one; box->status_fd is -1 once it started */
	bool placed;         /* it started, which the worker has not taken yet */
	struct identity who; /* of a sandbox's first process: it may be gone when it is asked for */
};

struct zygote {
	int child_fd; /* signalfd */
	struct sock_fprog seal;
	pid_t spare; /* the child that stands ready, or 0 */
	int spare_fd;
	int spare_died;            /* unused: do not try again before somebody asks */
	struct sandbox *spare_box; /* the sandbox that stands ready, or NULL */
	bool wants_box;            /* since the last one was taken, none was made */
	struct run runs[RUNS_MAX];
	size_t used; /* of them; all behind are free */
	int gone;    /* the worker is */
};

static int
is_ended(const char *text, size_t len)
{
	return memchr(text, '\0', len) != NULL;
}

/* The other end is our own program, but nothing is taken on trust. */
static const struct observe_op *
vet(const struct runner_wire_request *q)
{
	const struct observe_op *op;
	int i;

	if (!is_ended(q->op, sizeof(q->op)) || q->args.n < 0 || q->args.n > OBSERVE_ARGS_MAX)
		return NULL;
	if (!is_ended(q->args.pin, sizeof(q->args.pin)))
		return NULL;
	for (i = 0; i < OBSERVE_ARGS_MAX; i++) {
		if (!is_ended(q->args.v[i], sizeof(q->args.v[i])))
			return NULL;
	}
	if (!is_ended(q->env.journalctl, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.systemctl, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.ss, OBSERVE_PATH_MAX) || !is_ended(q->env.nft, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.dpkg_query, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.root, OBSERVE_PATH_MAX) || !is_ended(q->env.git, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.apt_get, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.usermod, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.kubectl, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.kubeconfig, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.skopeo, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.registries, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.keep[0], OBSERVE_ARG_MAX) ||
	    !is_ended(q->env.keep[1], OBSERVE_ARG_MAX) ||
	    !is_ended(q->env.journal, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.readers, OBSERVE_PATH_MAX) ||
	    !is_ended(q->env.trust, OBSERVE_PATH_MAX))
		return NULL;
	if (q->limits.folders_max < 0 || q->limits.journal_bytes <= 0 || q->limits.kill_ms < 0 ||
	    q->limits.memory_max < 0)
		return NULL;
	if ((op = scan_find(q->op)) == NULL)
		op = observe_find(q->op);
	return op != NULL && op->run != NULL ? op : NULL;
}

/* Leave the runner behind: own group, no descriptors but standard ones and ${keep}.  Return 0 or
 * -1. */
static int
leave(int keep, int as, pid_t parent)
{
	sigset_t none;

	setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || getppid() != parent)
		return -1;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(0, 2) == -1 || dup2(keep, as) == -1)
		return -1;
	if (as > ASK_FD && close_range(ASK_FD, (unsigned)as - 1, 0) == -1)
		return -1;
	if (close_range((unsigned)as + 1, ~0U, 0) == -1)
		return -1;
	return child_limit(RLIMIT_CORE, 0) == -1 || child_limit(RLIMIT_NOFILE, NOFILE_MAX) == -1
		   ? -1
		   : 0;
}

/* From here on there is no way to write. */
static int
seal_off(const struct zygote *z)
{
	return child_limit(RLIMIT_FSIZE, 0) == -1 ? -1 : seal_apply(&z->seal);
}

static void *
do_nothing(void *arg)
{
	return arg;
}

/* Have ready now what a run will use; a page fault costs more than the work it interrupts. */
static int
warm_up(struct answer *answer)
{
	const struct observe_op *op;
	pthread_t thread;
	size_t i;
	int rc = 0;

	/* A walk's thread shares our heap instead of reserving one. */
	mallopt(M_ARENA_MAX, 1);
	if (pthread_create(&thread, NULL, do_nothing, NULL) != 0)
		return -1;
	pthread_join(thread, NULL);
	for (i = 0; rc == 0 && (op = observe_at(i)) != NULL; i++)
		if (op->ready != NULL)
			rc = op->ready(answer);
	return rc;
}

/* Sanitizers map terabytes of shadow, which no bound on addresses leaves room for. */
static int
bound_memory(int64_t bytes)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	(void)bytes;
	return 0;
#else
	return bytes > 0 ? child_limit(RLIMIT_AS, (rlim_t)bytes) : 0;
#endif
}

/* Wait for the question.  Return its op, or NULL: there will be none. */
static const struct observe_op *
wait_question(struct runner_wire_request *q)
{
	int out, rc;

	while ((rc = runner_wire_receive(ASK_FD, q, &out, 0)) == 0)
		continue;
	if (rc == -1 || out == -1 || dup2(out, OUT_FD) == -1)
		return NULL;
	if (out != OUT_FD)
		close(out);
	if (bound_memory(q->limits.memory_max) == -1)
		return NULL;
	return vet(q);
}

/* Whether this process has one thread: /proc/PID/task has a link for each, and two. */
static bool
is_alone(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

/* The kernel tells of our end once it took all our memory back, and somebody waits for it.  With a
 * thread that hangs there it is no end. */
static void
say_end(int code)
{
	if (is_alone())
		(void)!write(ASK_FD, &code, sizeof(code));
}

/* The child's part: get ready, wait for the question, answer, end. */
static void __attribute__((noreturn)) child(const struct zygote *z, int ask, pid_t parent)
{
	static struct runner_wire_request q;
	const struct observe_op *op;
	struct answer *answer;
	int code;

	memset(&q, 0, sizeof(q));
	if (leave(ask, ASK_FD, parent) == -1 || seal_off(z) == -1 ||
	    (answer = answer_new(OUT_FD, 0)) == NULL || warm_up(answer) == -1 ||
	    (op = wait_question(&q)) == NULL)
		_exit(OBSERVE_FAILED);
	answer_limit(answer, q.limits.frame_max);
	code = op->run(&q.args, &q.limits, &q.env, answer);
	/* A thread that hangs in the kernel would keep the pipe open behind our end. */
	close(OUT_FD);
	say_end(code);
	_exit(code);
}

/* A verb's part: what it does was decided, and it has to write. */
static void __attribute__((noreturn))
act(const struct runner_wire_request *q, int out, pid_t parent)
{
	const struct observe_op *op = vet(q);
	struct answer *answer;
	int code;

	if (op == NULL || leave(out, OUT_FD, parent) == -1 ||
	    bound_memory(q->limits.memory_max) == -1 ||
	    (answer = answer_new(OUT_FD, q->limits.frame_max)) == NULL)
		_exit(OBSERVE_FAILED);
	code = op->run(&q->args, &q->limits, &q->env, answer);
	answer_free(answer);
	close(OUT_FD);
	_exit(code);
}

/* Start a child for the verb ${q}.  Return it, or -1 with errno. */
static pid_t
start_act(const struct runner_wire_request *q, int out)
{
	pid_t parent = getpid(), pid;

	if ((pid = fork()) == 0)
		act(q, out, parent);
	if (pid != -1)
		setpgid(pid, pid);
	return pid;
}

/* Have a child stand ready.  Return 0 or -1. */
static int
make_spare(struct zygote *z)
{
	pid_t parent = getpid();
	int pair[2];

	if (z->spare != 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return -1;
	if ((z->spare = fork()) == 0)
		child(z, pair[1], parent);
	close(pair[1]);
	z->spare_fd = pair[0];
	if (z->spare == -1) {
		close(pair[0]);
		z->spare = 0;
		return -1;
	}
	/* From both sides: whoever is first, the group exists before it is signalled. */
	setpgid(z->spare, z->spare);
	return 0;
}

static void
drop_spare(struct zygote *z)
{
	close(z->spare_fd);
	z->spare = 0;
}

/* Give the question to the child that stands ready.  Return it, and in ${*said} where it will say
 * how it ended; or -1 with errno. */
static pid_t
use_spare(struct zygote *z, const struct runner_wire_request *q, int out, int *said)
{
	pid_t pid;

	if (make_spare(z) == -1)
		return -1;
	z->spare_died = 0;
	if (runner_wire_send(z->spare_fd, q, out) != 0) {
		drop_spare(z);
		return -1;
	}
	pid = z->spare;
	*said = z->spare_fd;
	z->spare = 0;
	return pid;
}

/* Send ${e}.  Return whether the worker took it. */
static bool
tell(struct zygote *z, const struct runner_wire_event *e, const int *fds, size_t n)
{
	if (runner_wire_send_all(WIRE_FD, e, sizeof(*e), fds, n) == 0)
		return true;
	if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		z->gone = 1;
	return false;
}

static void
free_box(struct run *run)
{
	if (run->box == NULL)
		return;
	sandbox_free(run->box);
	free(run->box);
	run->box = NULL;
}

/* Tell the worker that the sandbox is in place, and hand over what it will have changed. */
static void
say_placed(struct zygote *z, struct run *run)
{
	struct runner_wire_event e = {
	    .kind = WIRE_STARTED, .id = run->id, .report = run->box->report, .who = run->who};
	struct sandbox *box = run->box;
	int fds[SANDBOX_EFFECTS + SANDBOX_LISTENERS];
	size_t i, n = box->effect_count;

	memcpy(fds, box->effect_fd, n * sizeof(fds[0]));
	for (i = 0; i < SANDBOX_LISTENERS; i++)
		if (box->listener_fd[i] != -1) {
			e.status |= 1 << i;
			fds[n++] = box->listener_fd[i];
		}
	if ((run->placed = !tell(z, &e, fds, n)))
		return;
	/* They are the worker's now.  The changes lie in memory until nobody holds them; with its
	 * last copy a listener is gone, and whoever waits for it hears that. */
	while (box->effect_count > 0)
		close(box->effect_fd[--box->effect_count]);
	for (i = 0; i < SANDBOX_LISTENERS; i++)
		if (box->listener_fd[i] != -1) {
			close(box->listener_fd[i]);
			box->listener_fd[i] = -1;
		}
}

/* Tell the worker; what it cannot take now is kept in the run. */
static void
say(struct zygote *z, struct run *run)
{
	struct runner_wire_event e = {.kind = run->say, .status = run->status, .id = run->id};

	if (run->placed)
		say_placed(z, run);
	if (run->placed || (run->say != 0 && !tell(z, &e, NULL, 0)))
		return;
	run->say = 0;
	if (run->phase != RUN_OVER)
		return;
	free_box(run);
	run->phase = RUN_FREE;
}

/* Return a place for a run, or NULL. */
static struct run *
free_run(struct zygote *z)
{
	size_t i;

	for (i = 0; i < RUNS_MAX && z->runs[i].phase != RUN_FREE; i++)
		continue;
	if (i == RUNS_MAX)
		return NULL;
	if (z->used <= i)
		z->used = i + 1;
	return &z->runs[i];
}

/* Return the run of the process ${pid}, or with ${pid} 0 the run ${id}, that has not ended, or
 * NULL. */
static struct run *
find_run(struct zygote *z, uint64_t id, pid_t pid)
{
	struct run *run;
	size_t i;

	for (i = 0; i < z->used; i++) {
		run = &z->runs[i];
		if (run->phase != RUN_FREE && run->phase != RUN_OVER &&
		    (pid != 0 ? run->pid == pid : run->id == id))
			return run;
	}
	return NULL;
}

static void
start_run(struct zygote *z, const struct runner_wire_request *q, int out)
{
	struct run *run = free_run(z);
	struct runner_wire_event refused = {.kind = WIRE_REFUSED, .id = q->id};
	const struct observe_op *op = vet(q);
	int said = -1;
	pid_t pid = -1;

	errno = EAGAIN;
	if (op == NULL)
		errno = EINVAL;
	else if (run != NULL)
		pid = op->acts ? start_act(q, out) : use_spare(z, q, out, &said);
	if (pid == -1) {
		refused.status = errno;
		if (send(WIRE_FD, &refused, sizeof(refused), MSG_NOSIGNAL) == -1)
			z->gone = 1;
		return;
	}
	*run = (struct run){
	    .phase = RUN_LIVE,
	    .id = q->id,
	    .pid = pid,
	    .kill_ms = q->limits.kill_ms,
	    .said_fd = said,
	};
}

/* A handler is ended with its group; the first process of a sandbox hands signals on, and takes all
 * others with it. */
static void
signal_run(const struct run *run, int signo)
{
	if (run->box != NULL && !run->box->plain)
		kill_process(run->pid, signo);
	else
		kill_group(run->pid, signo);
}

/* Take the next step of ending ${run}. */
static void
end_run(struct zygote *z, struct run *run)
{
	switch (run->phase) {
	case RUN_LIVE:
		signal_run(run, SIGTERM);
		run->phase = RUN_ASKED;
		break;
	case RUN_ASKED:
		signal_run(run, SIGKILL);
		run->phase = RUN_KILLED;
		break;
	case RUN_KILLED:
		run->phase = RUN_LEFT;
		run->say = WIRE_LEFT;
		say(z, run);
		break;
	default:
		break;
	}
	run->due = tool_now_ms() + run->kill_ms;
}

static void
refuse_box(struct zygote *z, uint64_t id, const struct refusal *refusal)
{
	struct runner_wire_event e = {
	    .kind = WIRE_REFUSED, .status = EINVAL, .id = id, .refusal = *refusal};

	/* A refusal is not kept: who cannot take it does not wait for it either. */
	if (send(WIRE_FD, &e, sizeof(e), MSG_NOSIGNAL) == -1)
		z->gone = 1;
}

/* Give the plan ${w} the descriptors that came behind it.  Return 0 or -1. */
static int
give_fds(struct sandbox_wire *w, const int *fds, size_t n)
{
	size_t i;

	if (n != 4 + w->plan.fd_count)
		return -1;
	for (i = 0; i < 3; i++)
		w->plan.stdio[i] = fds[1 + i];
	for (i = 0; i < w->plan.fd_count; i++)
		w->fds[i] = fds[4 + i];
	return 0;
}

/* In a quiet moment after a sandbox was asked for: have the next one stand ready. */
static void
make_spare_box(struct zygote *z)
{
	struct refusal refusal;

	z->wants_box = false;
	if (z->spare_box != NULL || (z->spare_box = malloc(sizeof(*z->spare_box))) == NULL)
		return;
	if (sandbox_spare(z->spare_box, &refusal) == 0)
		return;
	free(z->spare_box);
	z->spare_box = NULL;
}

static void
drop_spare_box(struct zygote *z)
{
	if (z->spare_box == NULL)
		return;
	sandbox_end(z->spare_box, NULL);
	sandbox_free(z->spare_box);
	free(z->spare_box);
	z->spare_box = NULL;
}

/* Start ${plan}, in the sandbox that stands ready if there is one. */
static int
start_plan(
    struct zygote *z, const struct sandbox_plan *plan, struct sandbox *box, struct refusal *refusal)
{
	if (plan->backend != BACKEND_NATIVE)
		return sandbox_start(plan, box, refusal);
	z->wants_box = true;
	if (z->spare_box == NULL)
		return sandbox_start(plan, box, refusal);
	*box = *z->spare_box;
	free(z->spare_box);
	z->spare_box = NULL;
	return sandbox_start_spare(plan, box, refusal);
}

/* Start the sandbox of the plan in ${fds}[0].  Return it, or NULL with ${refusal}. */
static struct sandbox *
make_box(struct zygote *z, const int *fds, size_t n, struct refusal *refusal)
{
	struct sandbox *box = malloc(sizeof(*box));
	struct sandbox_wire w = {0};

	refusal_set(refusal, "sandbox.plan", "the plan was damaged on its way");
	if (box != NULL && n > 0 && sandbox_wire_read(fds[0], &w) == 0 &&
	    give_fds(&w, fds, n) == 0 && start_plan(z, &w.plan, box, refusal) == 0) {
		sandbox_wire_free(&w);
		return box;
	}
	sandbox_wire_free(&w);
	free(box);
	return NULL;
}

static void
start_box(struct zygote *z, const struct runner_wire_request *q, const int *fds, size_t n)
{
	struct run *run = free_run(z);
	struct sandbox *box = NULL;
	struct refusal refusal;

	if (run == NULL)
		refusal_set(&refusal, "runner.busy", "the process that starts runs has no place");
	else
		box = make_box(z, fds, n, &refusal);
	if (box == NULL) {
		refuse_box(z, q->id, &refusal);
		return;
	}
	*run = (struct run){
	    .phase = RUN_LIVE,
	    .id = q->id,
	    .pid = box->pid,
	    .kill_ms = q->limits.kill_ms,
	    .said_fd = -1,
	    .box = box,
	};
	(void)identity_of(run->pid, &run->who); /* before it can be reaped */
}

/* A sandbox that is being made said something. */
static void
hear_box(struct zygote *z, struct run *run)
{
	struct refusal refusal;
	int rc = sandbox_hear(run->box, &refusal);

	if (rc == 0)
		return;
	if (rc == 1) {
		run->placed = true;
		say(z, run);
		return;
	}
	sandbox_end(run->box, NULL);
	free_box(run);
	run->phase = RUN_FREE;
	refuse_box(z, run->id, &refusal);
}

static void
drop_said(struct run *run)
{
	if (run->said_fd != -1)
		close(run->said_fd);
	run->said_fd = -1;
}

/* A handler said how it ended, or is ending without: then the kernel tells. */
static void
hear_end(struct zygote *z, struct run *run)
{
	ssize_t n;
	int code;

	n = recv(run->said_fd, &code, sizeof(code), MSG_DONTWAIT);
	drop_said(run);
	if (n != (ssize_t)sizeof(code) || code < 0 || code > 255)
		return;
	/* Its word for it is not enough. */
	signal_run(run, SIGKILL);
	run->status = W_EXITCODE(code, 0);
	run->phase = RUN_SAID;
	run->say = WIRE_EXITED;
	say(z, run);
}

static void
kill_run(struct zygote *z, uint64_t id)
{
	struct run *run = find_run(z, id, 0);

	/* Asked again, it is ended for certain. */
	if (run != NULL && (run->phase == RUN_LIVE || run->phase == RUN_ASKED))
		end_run(z, run);
}

static void
read_request(struct zygote *z)
{
	static struct runner_wire_request q;
	int fds[WIRE_FDS_MAX], rc;
	size_t n;

	if ((rc = runner_wire_receive_all(WIRE_FD, &q, sizeof(q), fds, &n, MSG_DONTWAIT)) == -1)
		z->gone = 1;
	if (rc == 1 && q.kind == WIRE_RUN && n == 1)
		start_run(z, &q, fds[0]);
	else if (rc == 1 && q.kind == WIRE_SANDBOX)
		start_box(z, &q, fds, n);
	else if (rc == 1 && q.kind == WIRE_KILL)
		kill_run(z, q.id);
	while (n > 0)
		close(fds[--n]);
}

/* Reap what ended: runs, and orphans of theirs that became ours. */
static void
reap(struct zygote *z)
{
	struct run *run;
	siginfo_t info;
	int status;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1 || info.si_pid == 0)
			return;
		run = find_run(z, 0, info.si_pid);
		/* What it said before it ended is heard first. */
		if (run != NULL && run->box != NULL && run->box->status_fd != -1) {
			hear_box(z, run);
			if (run->phase == RUN_FREE)
				continue;
		}
		if (run != NULL)
			signal_run(run, SIGKILL);
		if (z->spare_box != NULL && z->spare_box->pid == info.si_pid) {
			drop_spare_box(z);
			continue;
		}
		if (z->spare == info.si_pid) {
			z->spare_died = 1;
			drop_spare(z);
		}
		if (waitpid(info.si_pid, &status, WNOHANG) != info.si_pid)
			return;
		if (run == NULL)
			continue;
		if (run->box != NULL)
			sandbox_reaped(run->box);
		drop_said(run);
		if (run->phase != RUN_SAID) {
			run->status = status;
			run->say = WIRE_EXITED;
		}
		run->phase = RUN_OVER;
		say(z, run);
	}
}

static void
read_signal(struct zygote *z)
{
	struct signalfd_siginfo info;

	while (read(z->child_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		continue;
	reap(z);
}

/* Do what is due, repeat what the worker has not taken.  Return ms until the next is due, or -1. */
static int
step(struct zygote *z, int *unsaid)
{
	int64_t now = tool_now_ms(), next = -1;
	struct run *run;
	size_t i;

	*unsaid = 0;
	while (z->used > 0 && z->runs[z->used - 1].phase == RUN_FREE)
		z->used--;
	for (i = 0; i < z->used; i++) {
		run = &z->runs[i];
		if ((run->phase == RUN_ASKED || run->phase == RUN_KILLED) && run->due <= now)
			end_run(z, run);
		say(z, run);
		*unsaid |= run->say != 0 || run->placed;
		if ((run->phase == RUN_ASKED || run->phase == RUN_KILLED) &&
		    (next == -1 || run->due - now < next))
			next = run->due > now ? run->due - now : 0;
	}
	return (int)(next > INT32_MAX ? INT32_MAX : next);
}

/* Watch the sandboxes that are being made, and the handlers.  Return how many there are. */
static nfds_t
watch_runs(struct zygote *z, struct pollfd *p, struct run **of)
{
	struct run *run;
	nfds_t n = 0;
	size_t i;
	int fd;

	for (i = 0; i < z->used; i++) {
		run = &z->runs[i];
		fd = run->box != NULL ? run->box->status_fd : run->said_fd;
		if (run->phase == RUN_FREE || fd == -1)
			continue;
		p[n] = (struct pollfd){.fd = fd, .events = POLLIN};
		of[n++] = run;
	}
	return n;
}

static bool
answering(const struct zygote *z)
{
	size_t i;

	for (i = 0; i < z->used; i++)
		if (z->runs[i].phase == RUN_LIVE && z->runs[i].box == NULL)
			return true;
	return false;
}

static void
loop(struct zygote *z)
{
	static struct pollfd p[2 + RUNS_MAX];
	static struct run *of[RUNS_MAX];
	int wait, quiet, unsaid, n;
	nfds_t i, runs;

	p[0].fd = WIRE_FD;
	p[1] = (struct pollfd){.fd = z->child_fd, .events = POLLIN};

	while (!z->gone) {
		wait = step(z, &unsaid);
		quiet = answering(z) ? ANSWER_MS : SPARE_MS;
		if (((z->spare == 0 && !z->spare_died) || z->wants_box) &&
		    (wait == -1 || wait > quiet))
			wait = quiet;
		p[0].events = unsaid ? POLLIN | POLLOUT : POLLIN;
		runs = watch_runs(z, p + 2, of);
		if ((n = poll(p, 2 + runs, wait)) == -1 && errno != EINTR)
			return;
		/* The run that was just started comes first: a new spare is made in a quiet moment.
		 */
		if (n == 0 && !z->spare_died)
			make_spare(z);
		if (n == 0 && z->wants_box)
			make_spare_box(z);
		if (n <= 0)
			continue;
		for (i = 0; i < runs; i++)
			if (p[2 + i].revents != 0 && of[i]->box != NULL)
				hear_box(z, of[i]);
			else if (p[2 + i].revents != 0)
				hear_end(z, of[i]);
		if (p[1].revents != 0)
			read_signal(z);
		if ((p[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
			read_request(z);
	}
}

static void
kill_all(struct zygote *z)
{
	size_t i;

	kill_process(z->spare, SIGKILL);
	for (i = 0; i < z->used; i++) {
		if (z->runs[i].phase != RUN_FREE && z->runs[i].phase != RUN_OVER)
			signal_run(&z->runs[i], SIGKILL);
	}
}

/* Their groups go with them; what cannot be waited for is left to the next runner. */
static void
end_boxes(struct zygote *z)
{
	size_t i;

	for (i = 0; i < z->used; i++)
		if (z->runs[i].box != NULL && z->runs[i].phase != RUN_OVER)
			sandbox_end(z->runs[i].box, NULL);
	drop_spare_box(z);
}

static int
begin(struct zygote *z)
{
	struct runner_wire_event ready = {.kind = WIRE_READY};
	sigset_t mask;

	/* Children must not be looked into or gain rights; their orphans come to us. */
	if (prctl(PR_SET_DUMPABLE, 0) == -1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1) == -1)
		return -1;
	setsid();
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) == -1 ||
	    (z->child_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK)) == -1 ||
	    fcntl(WIRE_FD, F_SETFD, FD_CLOEXEC) == -1 || seal_build(&z->seal) == -1)
		return -1;
	/* Groups of a runner that was killed: what was in them died with it. */
	cgroup_sweep();
	return send(WIRE_FD, &ready, sizeof(ready), MSG_NOSIGNAL) == (ssize_t)sizeof(ready) ? 0
											    : -1;
}

int
runner_main(int argc, char **argv)
{
	static struct zygote z;

	(void)argc;
	(void)argv;
	if (begin(&z) == -1)
		return OBSERVE_FAILED;
	loop(&z);
	kill_all(&z);
	end_boxes(&z);
	free(z.seal.filter);
	return 0;
}
