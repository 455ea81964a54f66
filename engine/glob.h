/* glob.h: patterns of names and paths, matched in time linear in the text. */
#ifndef ENGINE_GLOB_H
#define ENGINE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#define GLOB_MAX 256 /* bytes of a pattern */

/**
 * glob_valid(pattern):
 * Is ${pattern} a pattern?  It is up to GLOB_MAX bytes of: ? for one character but '/'; * for any
 * number of those; ** for any number of characters, '/' too; [abc], [a-z], [!a-z] for one character
 * (of ASCII, never '/') that is or is not in the set; \c for c itself; anything else for itself.
 */
bool glob_valid(const char *pattern);

/**
 * glob_matches(pattern, text, len):
 * Does ${pattern} match all ${len} bytes of ${text}?  A set of places in the pattern goes over the
 * text once: there is no backtracking, whatever the pattern.  What is no pattern matches nothing.
 * Characters are those of UTF-8; a byte that begins none is one.
 */
bool glob_matches(const char *pattern, const char *text, size_t len);

#endif
