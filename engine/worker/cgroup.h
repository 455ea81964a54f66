/* cgroup.h: caps on everything that a run starts, by whichever hierarchy this machine has. */
#ifndef ENGINE_WORKER_CGROUP_H
#define ENGINE_WORKER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CGROUP_NOTE_MAX 160
#define CGROUP_TREES    4 /* the unified one, or those of pids, memory and cpu */
#define CGROUP_PATH_MAX 512

struct cgroup_limits {
	int64_t tasks;       /* processes and threads */
	int64_t memory;      /* bytes, swap included; 0: none */
	int64_t cpu_percent; /* of one processor; 0: no cap */
};

struct cgroup_tree {
	char path[CGROUP_PATH_MAX]; /* of our group in it; "" where it has none */
	bool unified;
	int held;  /* the group, as one in use */
	int entry; /* by which a process enters it itself; -1 where it is born in there */
};

struct cgroup {
	struct cgroup_tree trees[CGROUP_TREES];
	int tree_count;
	int fd;       /* of the unified group, to be born in; borrowed of its tree; -1 */
	int tasks_fd; /* reads the cap on tasks; -1 where there is none */
	bool tasks, memory, cpu;
	char tasks_note[CGROUP_NOTE_MAX]; /* why tasks are not capped; "" if they are */
	char name[64];
};

/**
 * cgroup_root(root):
 * Look for hierarchies below ${root}'s /proc/self/{cgroup,mountinfo} instead of the machine's; NULL
 * ends that.  For tests.
 */
void cgroup_root(const char *root);

/**
 * cgroup_make(c, limits):
 * Make a group with ${limits} below the one that this process is in, in each hierarchy that has a
 * controller for one of them: unified where its controllers are, else version 1.  What cannot be
 * capped is false in ${c}, with c->tasks_note; that is no failure.
 */
void cgroup_make(struct cgroup *c, const struct cgroup_limits *limits);

/**
 * cgroup_limit(c, limits):
 * Set other ${limits} for the group ${c}.  Where that takes a further hierarchy, who is in ${c} has
 * to be attached again.
 */
void cgroup_limit(struct cgroup *c, const struct cgroup_limits *limits);

/**
 * cgroup_enter(c):
 * Called by a process with one thread, made by whoever made ${c}: move it into the groups of ${c}
 * that it was not born in.  It waits for no grace period of the kernel, as cgroup_attach does in
 * version 1.  Return 0 or -1.  Only system calls.
 */
int cgroup_enter(const struct cgroup *c);

/**
 * cgroup_shut(c):
 * Nobody else enters ${c} by himself: close what that takes.
 */
void cgroup_shut(struct cgroup *c);

/**
 * cgroup_attach(c, pid):
 * Move ${pid} into the groups of ${c} that it was not born in.  Return 0 or -1.
 */
int cgroup_attach(const struct cgroup *c, pid_t pid);

/**
 * cgroup_holds(c, cap):
 * Asked by a process inside: return whether the kernel says that it is in the group of ${c} and
 * that the group's cap on tasks is ${cap}.  Only system calls.
 */
bool cgroup_holds(const struct cgroup *c, int64_t cap);

/**
 * cgroup_drop(c):
 * Kill what is in ${c} and remove its groups.  Return 0, or -1 if one is left for cgroup_sweep.
 */
int cgroup_drop(struct cgroup *c);

/**
 * cgroup_sweep():
 * Kill and remove the groups that no process of bastion holds, in whichever pid namespace it is.
 * Return how many there were.
 */
int cgroup_sweep(void);

#endif
