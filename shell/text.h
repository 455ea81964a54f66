/* text.h: text from anywhere, made safe to show: what a Host wrote never drives the terminal. */
#ifndef SHELL_TEXT_H
#define SHELL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_TIME_MAX 32

/**
 * text_next(s, end, rune):
 * Decode the UTF-8 character at ${s}, before ${end}, into ${*rune}; -1 for a byte that begins none
 * (RFC 3629: nothing overlong, no surrogates).  Return the number of bytes taken, at least 1.
 */
size_t text_next(const char *s, const char *end, int32_t *rune);

/**
 * text_show(out, s, len):
 * Write the ${len} bytes at ${s} to ${out} on one line: controls, changes of writing direction,
 * invisible characters and bytes that are not UTF-8 stand as \n, \x1b, \u202e.  Return the number
 * of terminal columns written.
 */
int text_show(FILE *out, const char *s, size_t len);

/**
 * text_width(s, len):
 * Return the number of terminal columns of what text_show made at ${s}: none for marks that
 * combine, two for wide characters and emoji.  Terminals disagree about emoji that are joined to
 * one; this is the most that any of them takes, since text of a Host must not overrun its line.
 */
int text_width(const char *s, size_t len);

/**
 * text_clip(out, s, len, width):
 * Write what text_show made at ${s}, cut to ${width} columns, with an ellipsis where it was cut.
 * Return the number of columns written.
 */
int text_clip(FILE *out, const char *s, size_t len, int width);

/**
 * text_json(out, s, len):
 * Write the text as a JSON string (RFC 8259), with the escapes that keep a terminal quiet as well;
 * bytes that are not UTF-8 become U+FFFD.
 */
void text_json(FILE *out, const char *s, size_t len);

/**
 * text_csv(out, s, len):
 * Write the text as one field of RFC 4180, quoted where it has to be, otherwise byte for byte.
 */
void text_csv(FILE *out, const char *s, size_t len);

/**
 * text_sql(out, s, len):
 * Write the text as an SQL expression that gives the same bytes: controls and what an eye would not
 * see as char(27), text that is not UTF-8 as a cast of its bytes.
 */
void text_sql(FILE *out, const char *s, size_t len);

/**
 * text_time(ms, utc, out):
 * Store the time ${ms} (ms since 1970, UTC) in ${out}: with ${utc} as RFC 3339 with milliseconds,
 * otherwise as local date and time to the second.  Return whether it is a time that fits a
 * calendar; if not, ${out} is the number.
 */
bool text_time(int64_t ms, bool utc, char out[TEXT_TIME_MAX]);

#endif
