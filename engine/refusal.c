/* refusal.c: fill a refusal. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/refusal.h"

int
refusal_set(struct refusal *r, const char *code, const char *fmt, ...)
{
	va_list ap;

	if (r == NULL)
		return -1;
	snprintf(r->code, sizeof(r->code), "%s", code);
	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
	r->retry_at = 0;
	return -1;
}

int
refusal_errno(struct refusal *r, const char *code, const char *what)
{
	int saved = errno;

	refusal_set(r, code, "%s: %s", what, strerror(saved));
	errno = saved;
	return -1;
}

bool
refusal_decides(const struct refusal *r)
{
	return strncmp(r->code, "store.", 6) != 0;
}
