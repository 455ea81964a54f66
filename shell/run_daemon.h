/* run_daemon.h: the rows of a run, written by the daemon of this state, where one listens. */
#ifndef SHELL_RUN_DAEMON_H
#define SHELL_RUN_DAEMON_H

#include <stdbool.h>

#include "engine/state/run.h"
#include "net/http/unixclient.h"
#include "shell/answer.h"

/*
 * Opening the database takes a process longer than all else that a run needs: 116 tables and 462
 * triggers are read.  The daemon has it open.
 */
struct run_daemon {
	const struct home *home;
	struct unixclient asked, told; /* told: that it started, whose answer is not heard yet */
	struct answer_view view;
	int64_t id;
	int64_t start_ms, published; /* sandbox.start_ms, run.published */
	struct sandbox_limits limits;
	struct answer_end refused;
	bool telling;
};

/**
 * run_daemon_ask(d, home, ask, nonce):
 * Ask the daemon that has the state of ${home} to begin the run of this process, which is called
 * ${nonce}.  Rules are not for it (role.c).  Return 0, or -1 where there is none to be heard.
 */
int run_daemon_ask(struct run_daemon *d, const struct home *home, const struct run_ask *ask,
    const char nonce[SANDBOX_NONCE_SIZE]);

/**
 * run_daemon_hear(d):
 * Wait until the row of the run is durable, and complete ${d}.  Return 0; 1 where the daemon does
 * not do it, and nothing was begun; or -1 with d->refused.
 */
int run_daemon_hear(struct run_daemon *d);

/**
 * run_daemon_started(d, report), run_daemon_ended(d, exit_code), run_daemon_failed(d):
 * Have it commit what became of the run, the first without waiting for that.  Return 0, or -1
 * where it did not.
 */
int run_daemon_started(struct run_daemon *d, const struct sandbox_report *report);
int run_daemon_ended(struct run_daemon *d, int exit_code);
int run_daemon_failed(struct run_daemon *d);

/**
 * run_daemon_leave(d):
 * Close what ${d} holds.
 */
void run_daemon_leave(struct run_daemon *d);

#endif
