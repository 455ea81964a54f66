/* sandbox_job.h: a plan that was checked, as the steps that the first process inside takes. */
#ifndef ENGINE_WORKER_SANDBOX_JOB_H
#define ENGINE_WORKER_SANDBOX_JOB_H

#include <sys/types.h>

#include <linux/filter.h>

#include "engine/worker/sandbox.h"

#define SANDBOX_GIVEN   (SANDBOX_EFFECTS + SANDBOX_LISTENERS + 1) /* descriptors that come out */
#define SANDBOX_FILTERS 2 /* the list, and what is bad about calls that are on it */

enum sandbox_step_kind {
	STEP_READ,
	STEP_WRITE,
	STEP_EFFECT,
	STEP_LINK,
	STEP_PIN, /* a folder on the way to what is hidden or kept: it cannot be moved away */
	STEP_HIDE,
	STEP_SHOW,
	STEP_KEEP,
};

/* Paths are not ended: a pinned folder is the beginning of another path. */
struct sandbox_step {
	enum sandbox_step_kind kind;
	const char *source;
	const char *target;
	size_t len;    /* of ${target} */
	size_t effect; /* which of the gathered folders it is */
	bool folder;
	bool exact; /* what lies at ${target} must be ${dev} and ${ino} */
	dev_t dev;
	ino_t ino;
	int tree; /* the child's: what is to be mounted */
};

struct sandbox_job {
	const struct sandbox_plan *plan;
	struct sandbox_step steps[SANDBOX_STEPS_MAX];
	size_t step_count;
	size_t effect_count;
	char *hidden[SANDBOX_PATHS_MAX]; /* what the forbidden paths are called inside */
	size_t hidden_count;
	char **programs; /* where argv[0] may be, in order */
	char uid_map[64], gid_map[64];
	char scratch_size[32], effect_size[32], files[32];
	bool privileged; /* the parent is root: it writes the maps, and all groups are dropped */
	const struct sock_fprog *filter;
	struct cgroup *group;
	int64_t tasks_max; /* of the group: with our first process */
	int status_fd;     /* both ways: how far it came, and the parent's word to go on */
};

/* How far the child came; the last three are no failure. */
enum sandbox_stage {
	STAGE_BEGIN,
	STAGE_GROUP,
	STAGE_MAP,
	STAGE_SOURCE, /* ${step} says which */
	STAGE_CHANGED,
	STAGE_USER,
	STAGE_ROOT,
	STAGE_PROC,
	STAGE_DEV,
	STAGE_SCRATCH,
	STAGE_EFFECT,
	STAGE_STEP,
	STAGE_PIVOT,
	STAGE_NET,
	STAGE_CWD,
	STAGE_LIMITS,
	STAGE_DROP,
	STAGE_LANDLOCK,
	STAGE_FILTER,
	STAGE_FORK,
	STAGE_FDS,
	STAGE_TERMINAL,
	STAGE_EXEC,
	STAGE_PLAN, /* one that stood ready refuses the plan: ${refusal} says why */
	STAGE_READY,
	STAGE_STARTED, /* its process is the program now */
	STAGE_OVER,    /* it ended with ${code}, and nothing that it left behind is alive */
};

struct sandbox_status {
	uint32_t stage;
	int32_t error;
	uint32_t step;
	int32_t landlock;
	uint32_t capped;
	uint32_t effects;
	uint32_t listeners; /* one bit for each that follows, in their order */
	uint32_t terminal;
	int32_t code;
	uint64_t user_ns, pid_ns;
	char path[128]; /* of the step that failed, or the program, cut */
	struct sandbox_folder overlaid[SANDBOX_EFFECTS];
	struct refusal refusal;
};

/* Who asks, as they are outside: inside, before it is mapped, every user is nobody. */
struct sandbox_caller {
	uid_t uid;
	gid_t gid;
};

/**
 * sandbox_compile(plan, caller, job, report, refusal):
 * Check ${plan} of ${caller} and fill the steps, programs and texts of ${job}.  Things worth
 * knowing go to ${report}'s notes.  Return 0, or -1 with ${refusal}; sandbox_job_free in both
 * cases.
 */
int sandbox_compile(const struct sandbox_plan *plan, const struct sandbox_caller *caller,
    struct sandbox_job *job, struct sandbox_report *report, struct refusal *refusal);

/**
 * sandbox_job_free(job):
 * Free what ${job} holds.
 */
void sandbox_job_free(struct sandbox_job *job);

/**
 * sandbox_note(report, fmt, ...):
 * Add a note, if there is room.
 */
void sandbox_note(struct sandbox_report *report, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The system call filters of every sandbox, made when bastion is built. */
extern const struct sock_fprog sandbox_filter[SANDBOX_FILTERS];

/**
 * sandbox_landlock(job):
 * Forbid this process to write anywhere but where ${job}'s plan allows it, and to signal or speak
 * to what is outside by other names.  Return the version of Landlock, 0 where the kernel has none,
 * or -1.  Only system calls.
 */
int sandbox_landlock(const struct sandbox_job *job);

/**
 * sandbox_net(job, fds):
 * Make the network of ${job}'s plan and its listeners in ${fds}; those that cannot be had are -1.
 * Return 0 or -1.  Only system calls.
 */
int sandbox_net(const struct sandbox_job *job, int fds[SANDBOX_LISTENERS]);

/**
 * sandbox_child(job):
 * Be the first process inside.
 */
void sandbox_child(struct sandbox_job *job) __attribute__((noreturn));

/**
 * sandbox_child_plain(job, argv):
 * Be the program ${argv} without a sandbox of ours: its own session and group, its limits, no new
 * privileges, no descriptors but the plan's.
 */
void sandbox_child_plain(struct sandbox_job *job, char *const *argv) __attribute__((noreturn));

/**
 * sandbox_child_waits(status_fd, group, caller):
 * As sandbox_child, for a plan that comes by ${status_fd} later: a message of one byte with the
 * plan (sandbox_wire) and its descriptors.
 */
void sandbox_child_waits(int status_fd, struct cgroup *group, const struct sandbox_caller *caller)
    __attribute__((noreturn));

#endif
