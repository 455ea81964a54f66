/* lines.h: a stream of bytes as rows: whole lines together, a long or late line in pieces. */
#ifndef ENGINE_WORKER_LINES_H
#define ENGINE_WORKER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_ROW 65536 /* bytes of a row, at most */

/* Receives one row as schema/session.sql has it.  Nonzero ends the taking. */
typedef int lines_row(
    void *ctx, int64_t line, int64_t lines, bool more, const unsigned char *data, size_t len);

/* One stream; zero at first. */
struct lines {
	unsigned char *buf;
	size_t used, size;
	int64_t open_line; /* the line that pieces were handed out of; 0: none */
};

/**
 * lines_room(l, want):
 * Return where to put the next ${want} bytes of the stream, or NULL without memory.
 */
unsigned char *lines_room(struct lines *l, size_t want);

/**
 * lines_add(l, n):
 * ${n} bytes were put there.
 */
void lines_add(struct lines *l, size_t n);

/* How far a stream was handed out: what lines_done then takes for good. */
struct lines_mark {
	size_t done;       /* bytes */
	int64_t open_line; /* behind them */
	int64_t next;      /* the number of the next line */
};

/**
 * lines_take(l, next, all, over, mark, row, ctx):
 * Hand out the rows that are there: whole lines, and LINES_ROW bytes of a longer one.  With ${all}
 * also what is there of a line without its end; with ${over} the stream has ended, and so has its
 * last line.  A line gets its number when its first byte is handed out, from ${next} on; bytes are
 * handed out as they are.  Nothing of ${l} changes: what was handed out is in ${mark}.  Return 0,
 * or what ${row} returned.
 */
int lines_take(const struct lines *l, int64_t next, bool all, bool over, struct lines_mark *mark,
    lines_row *row, void *ctx);

/**
 * lines_done(l, mark):
 * What ${mark} says was handed out is kept elsewhere now.
 */
void lines_done(struct lines *l, const struct lines_mark *mark);

/**
 * lines_count(text, len):
 * Return how many lines the ${len} bytes at ${text} are; what is behind the last end of one is one
 * more.
 */
int64_t lines_count(const char *text, size_t len);

/**
 * lines_free(l):
 * Free what ${l} holds.
 */
void lines_free(struct lines *l);

#endif
