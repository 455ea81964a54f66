/* answer.h: what a handler says, as newline-delimited JSON frames on a descriptor. */
#ifndef ENGINE_WORKER_ANSWER_H
#define ENGINE_WORKER_ANSWER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/refusal.h"

/*
 * JSON is SQLite's.  An answer owns a database of its own in memory: a handler puts rows into it,
 * and one SELECT of json_object turns them into the result.  It never sees the database of bastion.
 */
struct answer;

/**
 * answer_new(fd, frame_max):
 * Return a new answer that writes frames of at most ${frame_max} bytes to ${fd}, which stays the
 * caller's; or NULL without memory.
 */
struct answer *answer_new(int fd, int64_t frame_max);

/**
 * answer_limit(a, frame_max):
 * Change the longest frame of ${a}.
 */
void answer_limit(struct answer *a, int64_t frame_max);

/**
 * answer_ready(a, sql):
 * Take ${sql} through all that answer_result will do with it, but for the values, and write
 * nothing: what is parsed and paged in now is not waited for later.  Return 0 or -1.
 */
int answer_ready(struct answer *a, const char *sql);

/**
 * answer_free(a):
 * Free ${a} and its rows.  ${a} may be NULL.
 */
void answer_free(struct answer *a);

/**
 * answer_asked(a, text, most):
 * Read what came with the question (runner_ask), up to ${most} - 1 bytes, and end it with a NUL.
 * Return the number of bytes, or -1.
 */
ssize_t answer_asked(struct answer *a, char *text, size_t most);

/**
 * answer_is_text(text):
 * Return 1 if ${text} is UTF-8 (RFC 3629).
 */
int answer_is_text(const char *text);

/**
 * answer_rows(a, sql, types, ...):
 * Run one statement ${sql} with the parameters that follow: in ${types}, 't' is a text (const char
 * *; NULL is null; bytes that are not UTF-8 become U+FFFD), 'i' an int64_t.  Return 0 or -1.
 */
int answer_rows(struct answer *a, const char *sql, const char *types, ...);

/**
 * answer_value(a, out, most, sql, types, ...):
 * As answer_rows, and store the text that ${sql} selects first in ${out}, cut to ${most} bytes with
 * its NUL; "" where it selects none or NULL.  Return 0 or -1.
 */
int answer_value(struct answer *a, char *out, size_t most, const char *sql, const char *types, ...);

/**
 * answer_text(a, text, len):
 * Write ${len} bytes of output as frames {"o":"…"}.  Return 0 or -1.
 */
int answer_text(struct answer *a, const char *text, size_t len);

/**
 * answer_result(a, sql, types, ...):
 * Write the frame {"r":…} from the JSON object that ${sql} selects; parameters as in answer_rows. A
 * result longer than the limit is replaced by a refusal that says so.  Return 0 or -1.
 */
int answer_result(struct answer *a, const char *sql, const char *types, ...);

/**
 * answer_unreadable(a, why, exit_code):
 * Write the frame {"r":{"unreadable":${why}}}.  Return ${exit_code}.
 */
int answer_unreadable(struct answer *a, const char *why, int exit_code);

/**
 * answer_refused(a, refusal, exit_code):
 * Write the frame {"r":{"refused":{"code":…,"why":…}}}.  Return ${exit_code}.
 */
int answer_refused(struct answer *a, const struct refusal *refusal, int exit_code);

#endif
