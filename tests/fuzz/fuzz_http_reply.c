/* fuzz_http_reply.c: any bytes as an answer, whole and byte by byte, are read alike. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/http/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct body {
	size_t len;
	uint64_t sum;
};

static int
add(void *ctx, const char *data, size_t len)
{
	struct body *b = ctx;
	size_t i;

	for (i = 0; i < len; i++)
		b->sum = b->sum * 31 + (unsigned char)data[i];
	b->len += len;
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct reply whole, bytes;
	struct body a = {.len = 0}, b = {.len = 0};
	struct refusal r = {.code = ""};
	int rc, one = 0;
	unsigned i;
	size_t n;

	if (size == 0)
		return 0;
	reply_init(&whole, data[0] & 1);
	reply_init(&bytes, data[0] & 1);
	rc = reply_feed(&whole, (const char *)data + 1, size - 1, add, &a, &r);
	for (n = 1; n < size && one == 0; n++)
		one = reply_feed(&bytes, (const char *)data + n, 1, add, &b, &r);
	if (rc != one || a.len != b.len || a.sum != b.sum || a.len > size)
		abort();
	if (rc == -1 && strcmp(r.code, "http.protocol") != 0)
		abort();
	if (rc == 0 && whole.stage != bytes.stage)
		abort();
	for (i = 0; rc == 0 && whole.stage > REPLY_HEAD && i < whole.nheaders; i++)
		if (reply_header(&whole, whole.headers[i].name) == NULL)
			abort();
	return 0;
}
