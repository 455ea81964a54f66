/* json.h: the gate that a JSON text passes before SQLite takes it apart. */
#ifndef NET_HTTP_JSON_H
#define NET_HTTP_JSON_H

#include <stddef.h>

#include "engine/refusal.h"

#define JSON_DEPTH_MAX 256

/**
 * http_json_check(text, len, depth_max, refusal):
 * Return 0 if the ${len} bytes at ${text} are one JSON value by RFC 8259 and nothing else but
 * white space, nested at most ${depth_max} (capped at JSON_DEPTH_MAX) arrays and objects deep.
 * Stricter than the standard where parsers differ: no object may have a key twice (compared after
 * unescaping), no key may have a printable ASCII character escaped other than one of "\/<>& (so
 * that a key is the same to json_each and to a path of SQLite), no NUL, escaped or not, no invalid
 * UTF-8 and no lone surrogate.  Else set ${refusal} to json.invalid, json.depth, json.duplicate or
 * http.memory and return -1; the reason names the byte offset, never the content.  Time and memory
 * are linear in ${len}.
 */
int http_json_check(const char *text, size_t len, unsigned depth_max, struct refusal *refusal);

/**
 * http_utf8_len(p, end):
 * Return the length in bytes of the well-formed UTF-8 sequence (RFC 3629 §4) at ${p}, which ends
 * at or before ${end}; 0 if there is none.
 */
size_t http_utf8_len(const char *p, const char *end);

#endif
