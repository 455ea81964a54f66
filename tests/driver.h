/* driver.h: for tests: real daemons in a directory of their own, and a person who types at them. */
#ifndef TESTS_DRIVER_H
#define TESTS_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/store/store.h"

/*
 * Tests run from the top of the repository; BASTION names the program (build/bastion without it).
 * Whatever a driver starts dies with the test, however that ends.  Waits are for conditions and
 * fail the test where one does not come true within DRIVER_WAIT_MS.
 */
#define DRIVER_WAIT_MS   60000
#define DRIVER_OUT_MAX   262144
#define DRIVER_ERR_MAX   16384
#define DRIVER_WORDS_MAX 24

enum driver_side { DRIVER_BOX, DRIVER_HOST };

struct driver {
	char dir[64];
	char state[2][80], run[2][80], log[2][80]; /* of box and Host */
	pid_t serving[2];                          /* their daemons; 0: none */
	char box[65];                              /* the box's name, once it was served */
	char totp[65];                             /* base32, once driver_enrol was called */
	int64_t last_step;                         /* of the newest code that was given out */
	int port;                                  /* of the Host, under TLS; 0: none */
};

/* What a verb said, and how it ended. */
struct said {
	int code; /* 128 + signal where one ended it */
	char out[DRIVER_OUT_MAX], err[DRIVER_ERR_MAX];
};

/* A verb that runs. */
struct job {
	pid_t pid;
	int pidfd, out, err;
};

/**
 * driver_make(d):
 * Make the directory, with the environment of this process set so that verbs find their way.
 */
void driver_make(struct driver *d);

/**
 * driver_drop(d):
 * Stop both daemons where they run, hold both databases against tests/invariants.sql, remove the
 * directory.
 */
void driver_drop(struct driver *d);

/**
 * driver_serve(d, side), driver_serve_begin(d, side), driver_serve_wait(d, side):
 * Start the daemon and wait until it says that it serves; the two halves of that, to start two at
 * once.
 */
void driver_serve(struct driver *d, enum driver_side side);
void driver_serve_begin(struct driver *d, enum driver_side side);
void driver_serve_wait(struct driver *d, enum driver_side side);

/**
 * driver_settle(d, side):
 * Wait until all actors of the daemon run, also those that begin once it is ready.
 */
void driver_settle(struct driver *d, enum driver_side side);

/**
 * driver_end(d, side, signo):
 * Send ${signo} to the daemon and wait for its end.  Return its wait status.
 */
int driver_end(struct driver *d, enum driver_side side, int signo);

/**
 * driver_actor(d, side, actor):
 * Return the pid of the actor's process, as the database and /proc say; 0 while it has none that
 * runs.
 */
pid_t driver_actor(struct driver *d, enum driver_side side, const char *actor);

/**
 * driver_kill(d, side, actor):
 * Kill the actor's process, which must be there: to kill 0 would be to kill the suite.
 */
void driver_kill(struct driver *d, enum driver_side side, const char *actor);

/**
 * driver_runner(d):
 * Return the pid of the process that starts the box's runs, a child of its worker; or 0.
 */
pid_t driver_runner(struct driver *d);

/**
 * driver_start(job, input, words):
 * Start a verb with ${words}, up to a NULL, and ${input} (NULL: nothing) on its standard input.
 */
void driver_start(struct job *job, const char *input, const char *const *words);

/**
 * driver_finish(job, said), driver_finished(job):
 * Wait for it and store in ${said} (may be NULL) what it said.  Return its exit code.  The second
 * tells, without waiting, whether it has ended.
 */
int driver_finish(struct job *job, struct said *said);
bool driver_finished(const struct job *job);

/**
 * driver_run(said, input, words...):
 * Run a verb: the words end with NULL.  Return its exit code.
 */
int driver_run(struct said *said, const char *input, ...) __attribute__((sentinel));

/**
 * driver_does(said, input, words...), driver_refused(said, exit_code, code, input, words...):
 * As driver_run, for what must end with 0; or with ${exit_code}, one sentence on standard error and
 * the refusal ${code} at its end.
 */
void driver_does(struct said *said, const char *input, ...) __attribute__((sentinel));
void driver_refused(struct said *said, int exit_code, const char *code, const char *input, ...)
    __attribute__((sentinel));

/**
 * driver_value(d, side, sql...), driver_text(d, side, out, size, sql...):
 * The first column of the first row of what printf makes of ${sql}; -1 and "" without one.
 */
int64_t driver_value(struct driver *d, enum driver_side side, const char *sql, ...)
    __attribute__((format(printf, 3, 4)));
const char *driver_text(struct driver *d, enum driver_side side, char *out, size_t size,
    const char *sql, ...) __attribute__((format(printf, 5, 6)));

/**
 * driver_until(d, side, value, sql...):
 * Wait until driver_value of ${sql} is ${value}.
 */
void driver_until(struct driver *d, enum driver_side side, int64_t value, const char *sql, ...)
    __attribute__((format(printf, 4, 5)));

/**
 * driver_invariants(d, side):
 * Hold the database against tests/invariants.sql.
 */
void driver_invariants(struct driver *d, enum driver_side side);

/**
 * driver_open(d, side, role, keys):
 * Open the database from this process; ${keys} may be NULL.  Close it with store_close.
 */
struct store *driver_open(
    struct driver *d, enum driver_side side, enum store_role role, const struct store_keys *keys);

/**
 * driver_enrol(d):
 * Enrol an authenticator with the box: d->totp.
 */
void driver_enrol(struct driver *d);

/**
 * driver_first_day(d):
 * Both daemons, an authenticator, and the box paired with the Host.
 */
void driver_first_day(struct driver *d);

/**
 * driver_far_day(d, listen):
 * The same over a network: the Host listens under TLS on a port of 127.0.0.1, d->port, and the box
 * dials it; where ${listen} is set, the box listens there ("127.0.0.1:PORT"), and the Host dials.
 */
void driver_far_day(struct driver *d, const char *listen);

/**
 * driver_port():
 * Return a TCP port of 127.0.0.1 that is free now.
 */
int driver_port(void);

/**
 * driver_code(d, code):
 * Write a code of the authenticator that was not given out before, waiting for the next step where
 * the window of the present one is used up.
 */
const char *driver_code(struct driver *d, char code[8]);

/**
 * driver_question(d):
 * Return the number of the newest question that is put to a person.
 */
int64_t driver_question(struct driver *d);

/**
 * driver_approve(d, id):
 * Approve the question ${id} with the next code.
 */
void driver_approve(struct driver *d, int64_t id);

/**
 * driver_grant(d, op, a, b, uses, time):
 * Ask for an op anew with one or two arguments (NULL: none), be told 77, and approve it.
 */
void driver_grant(struct driver *d, const char *op, const char *a, const char *b, const char *uses,
    const char *time);

/**
 * driver_now():
 * Milliseconds of a clock that only goes forward.
 */
int64_t driver_now(void);

/**
 * driver_pause():
 * The rest between two looks at a condition.
 */
void driver_pause(void);

#endif
