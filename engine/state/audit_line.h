/* audit_line.h: the text that a row's hash covers, made from its columns. */
#ifndef ENGINE_STATE_AUDIT_LINE_H
#define ENGINE_STATE_AUDIT_LINE_H

#include <stddef.h>
#include <stdint.h>

/* A text that grows; ${text} is freed by the owner. */
struct audit_line {
	char *text;
	size_t len, size;
};

/* A column: ${len} bytes. */
struct audit_text {
	const char *text;
	size_t len;
};

#define AUDIT_TEXTS 7 /* stream, who, entity, entity_id, action, pairing, body */

/**
 * audit_line_make(line, seq, at, texts):
 * Make ${line} what the view audit_line says of a row, byte for byte, as SQLite's
 * json_array would.  Return 0, or -1 where memory ran out.
 */
int audit_line_make(
    struct audit_line *line, int64_t seq, int64_t at, const struct audit_text texts[AUDIT_TEXTS]);

#endif
