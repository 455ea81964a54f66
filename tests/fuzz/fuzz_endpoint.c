/* fuzz_endpoint.c: any bytes as an endpoint; what is taken must be safe and have one spelling. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/endpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct endpoint e, again;
	struct refusal r;
	char *text;

	/* A copy without a NUL behind it, so that a read past its end is seen. */
	if ((text = malloc(size > 0 ? size : 1)) == NULL)
		return 0;
	memcpy(text, data, size);
	if (endpoint_parse(text, size, &e, &r) == 0) {
		if (e.port == 0 || e.host[0] == '\0' || strlen(e.text) > ENDPOINT_TEXT_MAX ||
		    strspn(e.text, "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") !=
			strlen(e.text) ||
		    endpoint_parse(e.text, strlen(e.text), &again, NULL) != 0 ||
		    strcmp(e.text, again.text) != 0 || e.kind != again.kind)
			abort();
	} else if (strcmp(r.code, size == 0 ? "endpoint.missing" : "endpoint.invalid") != 0) {
		abort();
	}
	free(text);
	return 0;
}
