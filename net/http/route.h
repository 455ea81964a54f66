/* route.h: does the target of a request match a route's path, and with which parameters. */
#ifndef NET_HTTP_ROUTE_H
#define NET_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#define ROUTE_PARAMS    4
#define ROUTE_VALUE_MAX 255 /* bytes, after unescaping */

struct route_param {
	const char *name; /* points into the pattern, ${name_len} bytes */
	size_t name_len;
	char value[ROUTE_VALUE_MAX + 1];
};

struct route_params {
	size_t n;
	struct route_param param[ROUTE_PARAMS];
};

/**
 * route_match(pattern, target, params):
 * Return whether the path of ${target}, the request target as it came (RFC 9112 §3.2.1, escapes
 * and query included), matches ${pattern}, such as "/v1/ops/{id}".  Segments are taken apart
 * before they are unescaped, so "%2F" never makes two of one.  A parameter takes one segment that
 * is neither empty, "." nor "..", at most ROUTE_VALUE_MAX bytes, UTF-8 without NUL or control
 * characters; up to ROUTE_PARAMS of them are stored in ${params}.
 */
bool route_match(const char *pattern, const char *target, struct route_params *params);

/**
 * route_param(params, name):
 * Return the value of the parameter ${name}, or NULL.
 */
const char *route_param(const struct route_params *params, const char *name);

#endif
