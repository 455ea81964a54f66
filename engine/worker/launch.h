/* launch.h: a program that is ready to run and waits for the word, so that its row comes first. */
#ifndef ENGINE_WORKER_LAUNCH_H
#define ENGINE_WORKER_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/refusal.h"

/* Where a session's program is looked for. */
#define LAUNCH_PATH     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define LAUNCH_PATH_MAX 4096 /* bytes of what is found, with its NUL */

struct launch_plan {
	char *const *argv; /* argv[0] without a slash is looked for in PATH of ${env} */
	char *const *env;  /* all of it */
	const char *cwd;
	uid_t uid;  /* who it runs as: our own, or any if we are root; with that user's groups */
	char *mark; /* one of ${env}, of KIN_SIZE bytes, which the process fills
		       (engine/worker/kin.h) */
	bool terminal, input; /* a terminal of its own; else whether it reads what we send */
	unsigned short rows, cols;
};

/* A program, from launch_start until its descriptors are closed by launch_close. */
struct launched {
	pid_t pid;    /* leads a session and group of its own; the caller reaps it */
	int pidfd;    /* readable when it has ended */
	int report;   /* readable when it is ready, could not be started, or runs: launch_report */
	int go;       /* see launch_go */
	int out, err; /* what it says, non-blocking; a terminal has out alone */
	int in;       /* what it is sent, non-blocking; -1: it reads nothing; a terminal: as out */
};

/**
 * launch_find(folders, name, path):
 * Find the program ${name} as execvpe(3) does: as it is if it has a slash, else in ${folders},
 * divided by ':', with ${path} as room.  Return what is found, or NULL with errno.
 */
const char *launch_find(const char *folders, const char *name, char path[LAUNCH_PATH_MAX]);

/**
 * launch_start(plan, p, refusal):
 * Make the process.  It becomes the user, enters the directory, finds its program, reports, and
 * waits.  It has no descriptor of ours, dies with the calling thread, and has no signal blocked or
 * ignored.  Return 0, or -1 with ${refusal} launch.failed.
 */
int launch_start(const struct launch_plan *plan, struct launched *p, struct refusal *refusal);

/**
 * launch_ends(plan, p, stdio, refusal), launch_handed(stdio):
 * Only make the pipes or the terminal, for a program that somebody else starts: ours in ${p}, the
 * program's in ${stdio}, which launch_handed closes.  Return 0, or -1 with ${refusal}
 * launch.failed.
 */
int launch_ends(
    const struct launch_plan *plan, struct launched *p, int stdio[3], struct refusal *refusal);
void launch_handed(const int stdio[3]);

/**
 * launch_report(p, refusal):
 * Take what p->report has to say.  Return 1 where it is ready for launch_go, 0 where it runs, or -1
 * with ${refusal} launch.failed: why it could not; it ends then.
 */
int launch_report(struct launched *p, struct refusal *refusal);

/**
 * launch_go(p):
 * Let it run.
 */
void launch_go(struct launched *p);

/**
 * launch_close(p):
 * Close what is open of ${p}.
 */
void launch_close(struct launched *p);

#endif
