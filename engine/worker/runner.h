/* runner.h: a small process that starts all others, so that none of them inherits the worker. */
#ifndef ENGINE_WORKER_RUNNER_H
#define ENGINE_WORKER_RUNNER_H

#include <stdint.h>
#include <sys/types.h>

#include "engine/refusal.h"
#include "engine/actor/identity.h"
#include "engine/worker/observe.h"
#include "engine/worker/sandbox.h"

/*
 * The worker has the database open; a process that it forked would carry the connection and drop
 * its locks.  So it starts one runner, by fork and exec, which has nothing: no database, no key, no
 * socket but the one to the worker.  The runner forks a child for each run: cheap, and clean.
 */
struct runner {
	int fd;
	pid_t pid;
	uint64_t last_id;
};

enum runner_kind {
	RUNNER_EXITED, /* the run ended; ${status} is as from waitpid */
	RUNNER_LEFT, /* it was killed, but hangs in the kernel; RUNNER_EXITED comes if it ever ends
		      */
	RUNNER_REFUSED, /* it could not be started; ${status} is an errno; a sandbox: ${refusal} */
	RUNNER_STARTED, /* a sandbox is in place: ${report}, ${effect_fd}, ${listener_fd} */
};

struct runner_event {
	enum runner_kind kind;
	uint64_t id;
	int status;
	struct refusal refusal;
	struct sandbox_report report;
	struct identity who; /* of its first process, which may have ended; all zero: not seen */
	int effect_fd[SANDBOX_EFFECTS]; /* the caller's to close */
	size_t effect_count;
	/* As in the plan; -1: it could not be had, or none was asked for.  The caller's to close.
	 */
	int listener_fd[SANDBOX_LISTENERS];
};

/**
 * runner_main(argc, argv):
 * Be the runner: "bastion runner", started by runner_start with the socket on descriptor 3.  Return
 * the exit code.
 */
int runner_main(int argc, char **argv);

/**
 * runner_start(r, self_path, refusal):
 * Start a runner from the program ${self_path} ("/proc/self/exe"), whose main calls runner_main
 * when argv[1] is "runner".  It inherits standard error, PATH, LANG and TZ, and ends when the
 * calling thread does.  Return 0, or -1 with ${refusal} runner.start.
 */
int runner_start(struct runner *r, const char *self_path, struct refusal *refusal);

/**
 * runner_spawn(r, op, args, limits, env, out_fd, id, refusal):
 * Have ${op} run with the checked ${args}.  Its frames come from ${*out_fd}, which is the caller's
 * to close; its end comes as the event ${*id}.  A result frame is the whole answer: an event may be
 * late (RUNNER_LEFT) or the descriptor held open by a descendant.  Return 0, or -1 with ${refusal}
 * runner.gone, runner.busy or runner.spawn.
 */
int runner_spawn(struct runner *r, const struct observe_op *op, const struct observe_args *args,
    const struct observe_limits *limits, const struct observe_env *env, int *out_fd, uint64_t *id,
    struct refusal *refusal);

/**
 * runner_ask(r, op, args, limits, env, text, len, out_fd, id, refusal):
 * As runner_spawn, and the op can read the ${len} bytes of ${text} (answer_asked).  They are sent
 * without waiting: runner.spawn for more than a socket holds.
 */
int runner_ask(struct runner *r, const struct observe_op *op, const struct observe_args *args,
    const struct observe_limits *limits, const struct observe_env *env, const char *text,
    size_t len, int *out_fd, uint64_t *id, struct refusal *refusal);

/**
 * runner_sandbox(r, plan, kill_ms, id, refusal):
 * Have the program of ${plan} run in a sandbox that the runner makes, so that nothing of the
 * calling process is copied into it.  The plan's descriptors stay the caller's.  RUNNER_STARTED or
 * RUNNER_REFUSED comes as the event ${*id}, and RUNNER_EXITED at its end, when all that it started
 * is gone too.  runner_kill asks its processes by SIGTERM, and ends them all after ${kill_ms}.
 * Return 0, or -1 with ${refusal}.
 */
int runner_sandbox(struct runner *r, const struct sandbox_plan *plan, int64_t kill_ms, uint64_t *id,
    struct refusal *refusal);

/**
 * runner_fd(r):
 * Return the descriptor that is readable when there is an event, or the runner died.
 */
int runner_fd(const struct runner *r);

/**
 * runner_event(r, event):
 * Take the next event without waiting.  Return 1 with ${event}, 0 if there is none, or -1 if the
 * runner is gone: then all of its runs are, and a new one is to be started after runner_stop.
 */
int runner_event(struct runner *r, struct runner_event *event);

/**
 * runner_event_drop(event):
 * Close the descriptors of ${event}.
 */
void runner_event_drop(struct runner_event *event);

/**
 * runner_kill(r, id):
 * Ask the run ${id} and what it started to end: SIGTERM at once, SIGKILL after the kill_ms that it
 * was started with or at the second call, RUNNER_LEFT after as long again.  This does not wait, so
 * several share one grace.  Return 0, or -1 if the runner is gone.
 */
int runner_kill(struct runner *r, uint64_t id);

/**
 * runner_stop(r):
 * End the runner and every run, within bounds.  Return 0, or -1 if it could not be reaped.
 */
int runner_stop(struct runner *r);

#endif
