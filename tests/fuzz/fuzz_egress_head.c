/* fuzz_egress_head.c: any bytes as the head of a request, of an answer, and as a chunked body. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/egress/chunk.h"
#include "net/egress/head.h"

#define FIELDS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was written is read again as the same, and there is one framing in it. */
static void
request(const char *bytes, size_t len)
{
	struct head h, again;
	struct refusal r;

	if (head_read(bytes, len, FIELDS, &h, &r) != 0)
		return;
	if (h.connect != (h.out == NULL))
		abort();
	if (h.out != NULL) {
		if (head_end(h.out, h.out_len, 0) != h.out_len ||
		    memchr(h.out, '\0', h.out_len) != NULL ||
		    head_read(h.out, h.out_len, FIELDS + 8, &again, &r) != 0)
			abort();
		if (again.body != h.body || again.length != h.length ||
		    strcmp(again.to.host.text, h.to.host.text) != 0 || again.to.port != h.to.port ||
		    again.out_len != h.out_len || memcmp(again.out, h.out, h.out_len) != 0)
			abort();
		head_free(&again);
	}
	head_free(&h);
}

static void
answer(const char *bytes, size_t len)
{
	struct head_answer a;
	struct refusal r;

	if (head_answer_read(bytes, len, FIELDS, false, &a, &r) != 0)
		return;
	if (head_end(a.out, a.out_len, 0) != a.out_len || memchr(a.out, '\0', a.out_len) != NULL)
		abort();
	head_answer_free(&a);
}

/* In whatever pieces it comes, the same bytes are its end. */
static void
chunked(const char *bytes, size_t len, size_t piece)
{
	struct chunk whole = {.state = CHUNK_SIZE}, parts = {.state = CHUNK_SIZE};
	char *out = malloc(len + CHUNK_GROWTH);
	size_t at = 0, n;
	long used, all;

	if (out == NULL)
		return;
	all = chunk_feed(&whole, bytes, len, out, &n);
	if (all != -1 && n > len + CHUNK_GROWTH)
		abort();
	for (used = 0; at < len && parts.state != CHUNK_DONE && used != -1; at += (size_t)used) {
		size_t some = len - at < piece ? len - at : piece;

		if ((used = chunk_feed(&parts, bytes + at, some, out, &n)) == -1)
			break;
		if (n > some + CHUNK_GROWTH)
			abort();
	}
	if ((used == -1) != (all == -1) || (all != -1 && at != (size_t)all) ||
	    (all != -1 && parts.state != whole.state))
		abort();
	free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes;
	size_t end;

	/* A copy without a NUL behind it, so that a read past its end is seen. */
	if (size < 2 || (bytes = malloc(size - 1)) == NULL)
		return 0;
	memcpy(bytes, data + 1, size - 1);
	if ((end = head_end(bytes, size - 1, 0)) != 0) {
		head_is_one(bytes, end);
		request(bytes, end);
		answer(bytes, end);
	}
	chunked(bytes, size - 1, 1 + data[0] % 16);
	free(bytes);
	return 0;
}
