/* route.c: matching of request targets, one segment at a time. */
#include <string.h>

#include "net/http/json.h"
#include "net/http/route.h"

static int
hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		return (c | 0x20) - 'a' + 10;
	return -1;
}

/* Unescape ${len} bytes into ${out}; false if an escape is broken or the result does not fit. */
static bool
unescape(const char *p, size_t len, char out[ROUTE_VALUE_MAX + 1])
{
	size_t i, n = 0;
	int c;

	for (i = 0; i < len; i++) {
		c = p[i];
		if (c == '%') {
			if (len - i < 3 || hex(p[i + 1]) < 0 || hex(p[i + 2]) < 0)
				return false;
			c = hex(p[i + 1]) << 4 | hex(p[i + 2]);
			i += 2;
		}
		if (c == '\0' || n == ROUTE_VALUE_MAX)
			return false;
		out[n++] = (char)c;
	}
	out[n] = '\0';
	return true;
}

static bool
plain_text(const char *s)
{
	const char *end = s + strlen(s);
	size_t n;

	for (; s < end; s += n)
		if ((n = http_utf8_len(s, end)) == 0 || (unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

static bool
may_be_value(const char *s)
{
	return s[0] != '\0' && strcmp(s, ".") != 0 && strcmp(s, "..") != 0 && plain_text(s);
}

static bool
segment_match(const char *pattern, size_t pattern_len, const char *target, size_t target_len,
    struct route_params *params)
{
	char literal[ROUTE_VALUE_MAX + 1];
	struct route_param *p;

	if (pattern_len < 2 || pattern[0] != '{')
		return unescape(target, target_len, literal) && strlen(literal) == pattern_len &&
		       memcmp(literal, pattern, pattern_len) == 0;
	if (params->n == ROUTE_PARAMS)
		return false;
	p = &params->param[params->n];
	p->name = pattern + 1;
	p->name_len = pattern_len - 2;
	if (!unescape(target, target_len, p->value) || !may_be_value(p->value))
		return false;
	params->n++;
	return true;
}

bool
route_match(const char *pattern, const char *target, struct route_params *params)
{
	size_t a, b;

	params->n = 0;
	while (*pattern == '/' && *target == '/') {
		pattern++;
		target++;
		a = strcspn(pattern, "/");
		b = strcspn(target, "/?#");
		if (!segment_match(pattern, a, target, b, params))
			return false;
		pattern += a;
		target += b;
	}
	return *pattern == '\0' && (*target == '\0' || *target == '?');
}

const char *
route_param(const struct route_params *params, const char *name)
{
	const struct route_param *p;
	size_t i;

	for (i = 0; i < params->n; i++) {
		p = &params->param[i];
		if (strlen(name) == p->name_len && memcmp(name, p->name, p->name_len) == 0)
			return p->value;
	}
	return NULL;
}
