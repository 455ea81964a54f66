/* run_screen.h: the person's terminal, between the program's own one and questions of ours. */
#ifndef SHELL_RUN_SCREEN_H
#define SHELL_RUN_SCREEN_H

#include <stdbool.h>
#include <termios.h>

#include "engine/worker/sandbox.h"
#include "engine/actor/loop.h"
#include "engine/refusal.h"

#define SCREEN_BUFFER 16384

/* One direction: bytes that were read and are not written yet. */
struct screen_way {
	int from, to;
	char bytes[SCREEN_BUFFER];
	size_t off, len;
};

struct screen {
	struct loop *loop;
	int tty;    /* of the person, opened anew: what is set for it is ours alone; -1: none */
	int master; /* the other end of the program's terminal; -1: none */
	bool typed; /* the program reads what the person types */
	bool raw, asking;
	struct termios before;
	struct screen_way out, in;
	void (*answered)(void *ctx, char key);
	void *ctx;
};

/**
 * screen_open(s, loop, needed, refusal):
 * Open the terminal of this process, where it has one.  Return 0; or -1 with ${refusal} run.ask
 * where it is ${needed} and there is none.
 */
int screen_open(struct screen *s, struct loop *loop, bool needed, struct refusal *refusal);

/**
 * screen_begins(s, terminal):
 * Store how the program's terminal begins: as the person's is.  Return 0 or -1.
 */
int screen_begins(const struct screen *s, struct sandbox_terminal *terminal);

/**
 * screen_join(s, master, typed):
 * Carry bytes between the person's terminal and ${master}; what is typed only if ${typed}.  Return
 * 0 or -1.
 */
int screen_join(struct screen *s, int master, bool typed);

/**
 * screen_resized(s):
 * Tell the program's terminal the size of the person's.
 */
void screen_resized(struct screen *s);

/**
 * screen_ask(s, question, answered, ctx):
 * Show ${question} and call ${answered} with the next key; what the program says waits.
 */
void screen_ask(
    struct screen *s, const char *question, void (*answered)(void *ctx, char key), void *ctx);

/**
 * screen_asked(s):
 * Ask no more: the question was answered, or is too old.
 */
void screen_asked(struct screen *s);

/**
 * screen_say(s, text):
 * Say a line on standard error, whatever the terminal is doing.
 */
void screen_say(const struct screen *s, const char *text);

/**
 * screen_close(s):
 * Show what the program said last, and leave the terminal as it was.
 */
void screen_close(struct screen *s);

#endif
