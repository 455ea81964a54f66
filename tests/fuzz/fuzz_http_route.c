/* fuzz_http_route.c: any request target against patterns; what a parameter holds must be safe. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/http/json.h"
#include "net/http/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_value(const char *v)
{
	const char *end = v + strlen(v);
	size_t n;

	if (v == end || end - v > ROUTE_VALUE_MAX || strcmp(v, "..") == 0 || strcmp(v, ".") == 0)
		abort();
	for (; v < end; v += n)
		if ((n = http_utf8_len(v, end)) == 0 || (unsigned char)*v < 0x20)
			abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const patterns[] = {
	    "/", "/v1/ops", "/v1/ops/{id}", "/{a}/{b}/{c}/{d}", "/{a}/{b}/{c}/{d}/{e}"};
	struct route_params params;
	char *target;
	size_t i, j;

	if ((target = malloc(size + 1)) == NULL)
		return 0;
	memcpy(target, data, size);
	target[size] = '\0';
	for (i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		if (route_match(patterns[i], target, &params))
			for (j = 0; j < params.n; j++)
				check_value(params.param[j].value);
	free(target);
	return 0;
}
