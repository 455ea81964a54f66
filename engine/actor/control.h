/* control.h: what supervisor and actor say to each other: an order, the word to begin, a report. */
#ifndef ENGINE_ACTOR_CONTROL_H
#define ENGINE_ACTOR_CONTROL_H

#include <stdint.h>

#include "engine/actor/privilege.h"
#include "engine/refusal.h"
#include "engine/store/home.h"

#define CONTROL_FD 3 /* where an actor finds its end of the socket pair */

/*
 * Both ends are the same program, so the messages are plain structures of fixed size.  Nothing in
 * them is secret: an actor that needs the machine's key reads its file before it gives root away.
 */
struct control_order {
	uint32_t magic;
	uint32_t role;                   /* enum home_role */
	int64_t supervisor;              /* its pid */
	uint8_t identity[32], grant[32]; /* public keys */
	struct privilege who;
	char state[sizeof(((struct home *)0)->state)];
	char run[sizeof(((struct home *)0)->run)];
};

/* The rows of the instance and of this actor's run are there: it may do what it is for. */
struct control_word {
	uint32_t magic;
	int64_t instance_id;
	int64_t schema; /* store_schema of the one that was found to be right */
};

enum control_kind { CONTROL_READY = 1, CONTROL_REFUSED = 2 };

struct control_report {
	uint32_t magic;
	uint32_t kind; /* enum control_kind */
	struct refusal refusal;
};

/**
 * control_pair(fds):
 * Make the two ends of a control socket, close-on-exec.  Return 0 or -1.
 */
int control_pair(int fds[2]);

/**
 * control_order(fd, order), control_go(fd, word), control_report(fd, report):
 * Send; the magic number is filled in.  Return 0 or -1.
 */
int control_order(int fd, struct control_order *order);
int control_go(int fd, struct control_word *word);
int control_report(int fd, struct control_report *report);

/**
 * control_take_order(fd, order), control_take_go(fd, word), control_take_report(fd, report):
 * Receive, the last without waiting.  Return 0; or -1 where there is none, the other end is gone,
 * or what came is not of this program's build.
 */
int control_take_order(int fd, struct control_order *order);
int control_take_go(int fd, struct control_word *word);
int control_take_report(int fd, struct control_report *report);

#endif
