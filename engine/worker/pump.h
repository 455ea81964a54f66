/* pump.h: take the answer of a run apart into frames, within bounds. */
#ifndef ENGINE_WORKER_PUMP_H
#define ENGINE_WORKER_PUMP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct redact;

/* Receives one frame of ${len} bytes without its newline.  Nonzero ends the reading. */
typedef int pump_frame(void *ctx, const char *frame, size_t len);

struct pump {
	int fd;
	size_t frame_max;
	int64_t total_left;
	pump_frame *frame;
	void *ctx;

	char *buf;
	size_t used;
	size_t cap;
	int text;     /* what comes is no frames but the output of a program */
	char tail[4]; /* the beginning of a character whose end has not come */
	size_t tail_len;
	int64_t skipped; /* bytes of a frame that was too long, so far */
	int64_t dropped; /* bytes behind the bound of the whole answer */
	int full;
	struct redact *redact; /* of text: what is struck out of it; the caller's, or NULL */
};

/**
 * pump_init(p, fd, frame_max, total_max, frame, ctx):
 * Prepare ${p} to read from ${fd}, which becomes non-blocking and stays the caller's, and to hand
 * frames of at most ${frame_max} bytes, ${total_max} bytes in all, to ${frame} with ${ctx}.  Return
 * 0 or -1.
 */
int pump_init(
    struct pump *p, int fd, int64_t frame_max, int64_t total_max, pump_frame *frame, void *ctx);

/**
 * pump_init_text(p, fd, frame_max, total_max, frame, ctx):
 * As pump_init, for the output of a program, which may be any bytes: it is handed out as frames
 * {"o":"…"} as it comes, RFC 8259 strings of at most ${frame_max} bytes; bytes that are not UTF-8
 * (RFC 3629) become U+FFFD.  ${frame_max} is at least 64.
 */
int pump_init_text(
    struct pump *p, int fd, int64_t frame_max, int64_t total_max, pump_frame *frame, void *ctx);

/**
 * pump_read(p):
 * Read what is there.  What does not fit is left out, and a frame in its place says so:
 * {"cut":{"what":"frame","bytes":N}} for one that was too long, {"cut":{"what":"end","bytes":N}}
 * for one that the end of the answer cut off, {"cut":{"what":"answer","bytes":N}} at the end for
 * all that came behind the bound.  Return 1 if more may come, 0 at the end, -1 on failure or when
 * ${frame} said so.
 */
int pump_read(struct pump *p);

/**
 * pump_string(out, text, len):
 * Write ${len} bytes as what stands between the quotes of a JSON string; bytes that are not UTF-8
 * become U+FFFD.
 */
void pump_string(FILE *out, const char *text, size_t len);

/**
 * pump_free(p):
 * Free what ${p} holds.
 */
void pump_free(struct pump *p);

#endif
