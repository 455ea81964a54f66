/* fuzz_egress_within.c: any bytes as a request and an answer within a tunnel, and with a token. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/egress/chunk.h"
#include "net/egress/head.h"
#include "net/egress/inject.h"
#include "engine/redact.h"

#define FIELDS 64
#define SECRET "s3cr3t:012/45678"
#define HOLDER "bastion-0123456789abcdef0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct token token = {.header = "Authorization",
    .scheme = "Bearer",
    .placeholder = HOLDER,
    .secret = SECRET,
    .len = sizeof(SECRET) - 1};

/* What goes on is one request, read again as the same, with the header once that is added. */
static void
written(const char *bytes, size_t len, const struct authority *tunnel, struct head *h,
    const char *header)
{
	struct head again;
	struct refusal r;
	const char *value;
	char *all;

	if (head_within_write(bytes, len, FIELDS, h, header, &r) != 0)
		abort();
	if ((all = malloc(h->out_len + 2)) == NULL)
		return;
	memcpy(all, h->out, h->out_len);
	memcpy(all + h->out_len, "\r\n", 2);
	if (head_end(all, h->out_len + 2, 0) != h->out_len + 2 ||
	    head_within_read(all, h->out_len + 2, FIELDS + 8, tunnel, &again, &r) != 0)
		abort();
	if (header != NULL && head_field(all, h->out_len + 2, FIELDS + 8, header, &value) != -1)
		abort();
	if (again.body != h->body || again.length != h->length || again.keep != h->keep ||
	    again.websocket != h->websocket || strcmp(again.path, h->path) != 0 ||
	    strcmp(again.to.host.text, h->to.host.text) != 0 || again.to.port != h->to.port)
		abort();
	head_free(&again);
	free(all);
	free(h->out);
	h->out = NULL;
}

static void
request(const char *bytes, size_t len)
{
	struct authority tunnel = {.host = {.text = "a.example"}, .port = 443};
	const char *value = NULL;
	char out[65536];
	struct head h;
	struct refusal r;
	long n;

	if (head_within_read(bytes, len, FIELDS, &tunnel, &h, &r) != 0)
		return;
	written(bytes, len, &tunnel, &h, NULL);
	written(bytes, len, &tunnel, &h, token.header);
	n = head_field(bytes, len, FIELDS, token.header, &value);
	n = inject_value(&token, value, n > 0 ? (size_t)n : 0, out, sizeof(out));
	if (n > (long)sizeof(out) || (n > 0 && memchr(out, '\n', (size_t)n) != NULL))
		abort();
	head_free(&h);
}

static void
answer(const char *bytes, size_t len, bool websocket)
{
	struct head h = {.method = "GET", .keep = true, .websocket = websocket};
	struct head_answer a, again;
	struct refusal r;

	if (head_within_answer(bytes, len, FIELDS, &h, &a, &r) != 0)
		return;
	if (head_end(a.out, a.out_len, 0) != a.out_len ||
	    head_within_answer(a.out, a.out_len, FIELDS + 8, &h, &again, &r) != 0)
		abort();
	if (again.body != a.body || again.sized != a.sized || again.length != a.length ||
	    again.over != a.over || again.keep != (a.keep && a.status >= 200) ||
	    again.coded != a.coded)
		if (a.status >= 200)
			abort();
	head_answer_free(&a);
	head_answer_free(&again);
}

/* In whatever pieces it comes, the same comes out, as long as it was, and the secret is not in it.
 */
static void
struck(const char *bytes, size_t len, size_t piece)
{
	struct redact *r = redact_new();
	char *whole = malloc(len + 1), *parts = malloc(len + 1);
	size_t at, n, m;

	if (r == NULL || whole == NULL || parts == NULL || redact_add(r, SECRET) != 0)
		abort();
	n = redact_feed(r, bytes, len, whole);
	n += redact_end(r, whole + n);
	for (at = 0, m = 0; at < len; at += piece)
		m += redact_feed(r, bytes + at, len - at < piece ? len - at : piece, parts + m);
	m += redact_end(r, parts + m);
	if (n != len || m != len || memcmp(whole, parts, len) != 0 ||
	    memmem(whole, len, SECRET, sizeof(SECRET) - 1) != NULL)
		abort();
	redact_free(r);
	free(whole);
	free(parts);
}

/* The data of a chunked body is what its writing anew stands for. */
static void
data_of(const char *bytes, size_t len)
{
	struct chunk framed = {.state = CHUNK_SIZE}, bare = framed, again = framed;
	char *out = malloc(len + CHUNK_GROWTH), *data = malloc(len + 1),
	     *twice = malloc(len + CHUNK_GROWTH);
	size_t n, m, k;

	if (out == NULL || data == NULL || twice == NULL)
		abort();
	if (chunk_feed(&framed, bytes, len, out, &n) != -1) {
		if (chunk_data(&bare, bytes, len, data, &m) == -1 || m > len ||
		    chunk_data(&again, out, n, twice, &k) == -1 || k != m ||
		    memcmp(twice, data, m) != 0)
			abort();
	}
	free(out);
	free(data);
	free(twice);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes;
	size_t end;

	if (sodium_init() == -1 || size < 2 || (bytes = malloc(size - 1)) == NULL)
		return 0;
	memcpy(bytes, data + 1, size - 1);
	if ((end = head_end(bytes, size - 1, 0)) != 0) {
		request(bytes, end);
		answer(bytes, end, data[0] % 2 == 1);
	}
	struck(bytes, size - 1, 1 + data[0] % 16);
	data_of(bytes, size - 1);
	free(bytes);
	return 0;
}
