/* refusal.h: why something was not done, in the one form that every surface shows. */
#ifndef ENGINE_REFUSAL_H
#define ENGINE_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#define REFUSAL_CODE_MAX 64
#define REFUSAL_WHY_MAX  512

/*
 * A refusal names the rule (${code}, a row of the table refusal: exit code, HTTP status and advice
 * come from there), says why in one sentence without the offending value, and, where waiting helps,
 * when to try again (ms UTC; 0: waiting does not help).
 */
struct refusal {
	char code[REFUSAL_CODE_MAX];
	char why[REFUSAL_WHY_MAX];
	int64_t retry_at;
};

/**
 * refusal_set(r, code, fmt, ...):
 * Store ${code} and the formatted sentence in ${r}, cut to its bounds.  ${r} may be NULL.  Return
 * -1, so that a failing function can end with "return refusal_set(...)".
 */
int refusal_set(struct refusal *r, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * refusal_errno(r, code, what):
 * As refusal_set, with "${what}: strerror(errno)".  errno is kept.  Return -1.
 */
int refusal_errno(struct refusal *r, const char *code, const char *what);

/**
 * refusal_decides(r):
 * Whether a rule said so: then it is a decision, which a row may keep.  Codes store.* say that the
 * store failed, and nothing was decided.
 */
bool refusal_decides(const struct refusal *r);

#endif
