/* test_reply.c: answers that are read, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/http/reply.h"

static struct reply reply;
static char body[1024];
static struct refusal r;

static int
add(void *ctx, const char *data, size_t len)
{
	(void)ctx;
	strncat(body, data, len);
	return 0;
}

/* Feed ${text} in pieces of ${step} bytes.  Return 1 if the answer is whole, 0 if not yet, or -1.
 */
static int
feed(const char *text, size_t step, bool to_head)
{
	size_t len = strlen(text), n;

	reply_init(&reply, to_head);
	body[0] = '\0';
	for (; len > 0; text += n, len -= n) {
		n = len < step ? len : step;
		if (reply_feed(&reply, text, n, add, NULL, &r) == -1)
			return -1;
	}
	return reply.stage == REPLY_COMPLETE;
}

#define OK  "HTTP/1.1 200 OK\r\n"
#define END "\r\n"

static void
answers_are_read(void **state)
{
	static const struct {
		const char *text, *body;
		int status;
		bool to_head, close;
	} good[] = {
	    {OK "Content-Length: 5\r\n" END "hello", "hello", 200, false, false},
	    {OK "content-length:0\r\n" END, "", 200, false, false},
	    {OK "Content-Length: 5\r\nConnection: close\r\n" END "hello", "hello", 200, false,
		true},
	    {OK "Content-Length: 5\r\nConnection: keep-alive\r\n" END "hello", "hello", 200, false,
		false},
	    {OK "Content-Length: 5\r\n" END, "", 200, true, false},
	    {OK END, "", 200, true, false},
	    {"HTTP/1.1 204 None\r\n" END, "", 204, false, false},
	    {"HTTP/1.1 304\r\n" END, "", 304, false, false},
	    {OK "Transfer-Encoding: chunked\r\n" END "5\r\nhello\r\nA\r\n, it is me\r\n0\r\n\r\n",
		"hello, it is me", 200, false, false},
	    {"HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n" END "ok", "ok", 200, false,
		false},
	};
	size_t i, step;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		for (step = 1; step < 40; step++) {
			if (feed(good[i].text, step, good[i].to_head) != 1)
				fail_msg("%zu: %s", i, r.why);
			assert_string_equal(body, good[i].body);
			assert_int_equal(reply.status, good[i].status);
			assert_int_equal(reply.close, good[i].close);
		}
	assert_int_equal(feed(OK "X-A: 1\r\nx-a:  2 \t\r\nContent-Length: 0\r\n" END, 7, false), 1);
	assert_string_equal(reply_header(&reply, "X-a"), "2");
	assert_null(reply_header(&reply, "X"));
}

/* What another reader could take in another way is refused: lengths above all. */
static void
what_is_no_answer_is_refused(void **state)
{
	static const char *const bad[] = {
	    "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/2 200\r\nContent-Length: 0\r\n\r\n",
	    "http/1.1 200\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/1.1 20\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/1.1 2000\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/1.1 099 x\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/1.1 +20 x\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/1.1 101 x\r\nUpgrade: y\r\n\r\n",
	    "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	    OK "\r\n", /* no length */
	    OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
	    OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
	    OK "Transfer-Encoding: gzip, chunked\r\n\r\n",
	    OK "Transfer-Encoding: identity\r\n\r\n",
	    OK "Content-Length: -1\r\n\r\n",
	    OK "Content-Length: +1\r\n\r\nx",
	    OK "Content-Length: 0x1\r\n\r\nx",
	    OK "Content-Length: 1, 1\r\n\r\nx",
	    OK "Content-Length:\r\n\r\n",
	    OK "Content-Length: 9999999999999999\r\n\r\n",
	    OK "Content-Length : 1\r\n\r\nx",
	    OK " Content-Length: 1\r\n\r\nx",
	    OK "Content-Length: 1\r\n folded\r\n\r\nx",
	    OK "Content-Length: 1\nX: y\r\n\r\nx",
	    OK "X: a\rb\r\nContent-Length: 1\r\n\r\nx",
	    OK ": 1\r\nContent-Length: 0\r\n\r\n",
	    OK "X\r\nContent-Length: 0\r\n\r\n",
	    OK "Content-Length: 1\r\n\r\nxy", /* something behind it */
	    OK "Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\n\r\n",
	    OK "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
	    OK "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
	    OK "Transfer-Encoding: chunked\r\n\r\n\r\n",
	    OK "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
	    OK "Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
	    OK "Transfer-Encoding: chunked\r\n\r\n0000000000000000000000000000001\r\n",
	    OK "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
	};
	size_t i, step;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (step = 1; step < 100; step += 3) {
			if (feed(bad[i], step, false) != -1)
				fail_msg("%zu is taken: %s", i, bad[i]);
			assert_string_equal(r.code, "http.protocol");
		}
}

static void
heads_are_bounded(void **state)
{
	static char text[2 * REPLY_HEAD_MAX];
	char *p = text + sprintf(text, OK);
	int i;

	(void)state;
	for (i = 0; i < REPLY_HEADERS_MAX; i++)
		p += sprintf(p, "X-%d: y\r\n", i);
	strcpy(p, "Content-Length: 0\r\n\r\n");
	assert_int_equal(feed(text, 1000, false), -1);
	p = text + sprintf(text, OK "X: ");
	memset(p, 'a', REPLY_HEAD_MAX);
	assert_int_equal(feed(text, 1000, false), -1);
	for (p = text, i = 0; i < 9; i++)
		p += sprintf(p, "HTTP/1.1 102 wait\r\n\r\n");
	assert_int_equal(feed(text, 1000, false), -1);
	reply_init(&reply, false);
	assert_int_equal(reply_feed(&reply, "HTTP/1.1 2\0", 11, add, NULL, &r), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(answers_are_read),
	    cmocka_unit_test(what_is_no_answer_is_refused),
	    cmocka_unit_test(heads_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
