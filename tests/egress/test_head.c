/* test_head.c: requests are read in one way, written anew, and refused where there are two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/egress/chunk.h"
#include "net/egress/head.h"

#define FIELDS 64
#define HOST   "Host: public.example.test\r\n"

static struct head h;
static struct refusal r;

/* Read ${text}, which ends with its empty line; at most one byte behind it is looked at. */
static int
read_head(const char *text)
{
	return head_read(text, strlen(text), FIELDS, &h, &r);
}

static void
takes(const char *text, const char *out)
{
	if (read_head(text) != 0)
		fail_msg("refused: %s\n%s", r.why, text);
	if (out != NULL)
		assert_string_equal(h.out, out);
	head_free(&h);
}

static void
refuses(const char *text)
{
	if (read_head(text) == 0)
		fail_msg("taken: %s", text);
	assert_true(
	    strcmp(r.code, "egress.request") == 0 || strcmp(r.code, "egress.authority") == 0);
	assert_non_null(r.why);
	assert_null(strchr(r.why, '\n'));
}

/* EG-86: fields for one hop go, the authority of the target is the Host. */
static void
the_head_is_written_anew(void **state)
{
	(void)state;
	takes("GET http://198.51.100.31/p?q=1 HTTP/1.1\r\nHost: inside.example.test\r\n"
	      "Proxy-Authorization: Basic eA==\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
	      "X-Keep: 2\r\n\r\n",
	    "GET http://198.51.100.31/p?q=1 HTTP/1.1\r\nHost: 198.51.100.31\r\nX-Keep: 2\r\n"
	    "Connection: close\r\n\r\n");
	takes(
	    "get http://a.example/ HTTP/1.0\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: h2c\r\n"
	    "Keep-Alive: 1\r\nProxy-Connection: close\r\nproxy-authenticate: x\r\nA: \t b \t\r\n\r\n",
	    "GET http://a.example/ HTTP/1.0\r\nHost: a.example\r\nA: b\r\nConnection: close\r\n\r\n");
	/* Our own Connection says of this one that it is for one hop. */
	takes("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nClose: 1\r\nA: b\r\n\r\n",
	    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nA: b\r\nConnection: close\r\n\r\n");
}

/* EG-88: EG-89: EG-90: EG-91: where the authority ends, and its one spelling. */
static void
targets_are_read_once(void **state)
{
	(void)state;
	takes("GET http://public.example.test?@10.0.0.1/ HTTP/1.1\r\n\r\n",
	    "GET http://public.example.test/?@10.0.0.1/ HTTP/1.1\r\nHost: public.example.test\r\n"
	    "Connection: close\r\n\r\n");
	takes("GET http://public.example.test#@10.0.0.1/ HTTP/1.1\r\n\r\n",
	    "GET http://public.example.test/ HTTP/1.1\r\nHost: public.example.test\r\n"
	    "Connection: close\r\n\r\n");
	takes("GET http://Public.Example.Test./x HTTP/1.1\r\n\r\n",
	    "GET http://public.example.test/x HTTP/1.1\r\nHost: public.example.test\r\n"
	    "Connection: close\r\n\r\n");
	takes("GET /x HTTP/1.1\r\nHost: Public.Example.Test:8080\r\n\r\n",
	    "GET /x HTTP/1.1\r\nHost: public.example.test:8080\r\nConnection: close\r\n\r\n");
	assert_int_equal(read_head("GET /x HTTP/1.1\r\nHost: Public.Example.Test:8080\r\n\r\n"), 0);
	assert_string_equal(h.to.host.text, "public.example.test");
	assert_int_equal(h.to.port, 8080);
	head_free(&h);
}

/* EG-92: EG-93: EG-94: EG-95: EG-96: EG-97: EG-98: EG-99: EG-100: EG-101: EG-102: EG-103: EG-104:
 * EG-105: one refusal for each; CE-1: CEG-1: user and password among them. */
static void
what_reads_in_two_ways_is_refused(void **state)
{
	static const char *const all[] = {
	    "GET http://user:pw@public.example.test/ HTTP/1.1\r\n\r\n",
	    "GET http://198.51.100.41:80@public.example.test/ HTTP/1.1\r\n\r\n",
	    "GET http://2001:db8::1/ HTTP/1.1\r\n\r\n",
	    "GET http://public.example.test:80x/ HTTP/1.1\r\n\r\n",
	    "GET https://public.example.test/ HTTP/1.1\r\n\r\n",
	    "GET / HTTP/1.1\r\n" HOST HOST "\r\n", "GET / HTTP/1.1\r\nA: b\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
	    "GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n",
	    "CONNECT user@public.example.test:443 HTTP/1.1\r\n\r\n",
	    "CONNECT 2001:db8::1:443 HTTP/1.1\r\n\r\n",
	    "CONNECT [198.51.100.41]:443 HTTP/1.1\r\n\r\n",
	    /* A target is ASCII (RFC 9112 §3.2), and what a row says of it is text. */
	    "GET http://public.example.test/caf\xc3\xa9 HTTP/1.1\r\n\r\n",
	    "GET http://public.example.test/\xff HTTP/1.1\r\n\r\n",
	    "GET /\x80 HTTP/1.1\r\n" HOST "\r\n", "GET /\x7f HTTP/1.1\r\n" HOST "\r\n"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		refuses(all[i]);
}

/* EG-106: the rest of what a head may not be. */
static void
broken_heads_are_refused(void **state)
{
	static const char *const all[] = {"GET http://a.example/\r\n\r\n",
	    "GET http://a.example/ HTTP/2.0\r\n\r\n", "GET  http://a.example/ HTTP/1.1\r\n\r\n",
	    "GET http://a.example/ HTTP/1.1 \r\n\r\n",
	    "GET http://a.example/ HTTP/1.1\r\nA: b\rc\r\n\r\n",
	    "GET http://a.example/ HTTP/1.1\r\nA b\r\n\r\n",
	    "GET http://a.example/ HTTP/1.1\r\nHost : x\r\n\r\n",
	    "GET http://a.example/ HTTP/1.1\r\n: x\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 6\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: 5,\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Content-Length: 1234567890123456789\r\n\r\n",
	    "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked;q=1\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding\t: chunked\r\n\r\n",
	    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \x0b"
	    "chunked\r\n\r\n",
	    "GET /?u=http://b.example/ HTTP/1.1\r\n\r\n",
	    "GET /?u=https://b.example/ HTTP/1.1\r\n" HOST "\r\n",
	    "GET a.example/x HTTP/1.1\r\n" HOST "\r\n", "GET /\x01 HTTP/1.1\r\n" HOST "\r\n",
	    "G{T / HTTP/1.1\r\n" HOST "\r\n", "GET http:///x HTTP/1.1\r\n" HOST "\r\n"};
	char nul[] = "GET / HTTP/1.1\r\n" HOST "A: b_c\r\n\r\n";
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		refuses(all[i]);
	nul[strcspn(nul, "_")] = '\0';
	assert_int_equal(head_read(nul, sizeof(nul) - 1, FIELDS, &h, &r), -1);
}

/* EG-107: EG-108: odd and good. */
static void
odd_heads_that_have_one_reading(void **state)
{
	(void)state;
	takes("POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n",
	    "POST / HTTP/1.1\r\nHost: public.example.test\r\nContent-Length: 5\r\n"
	    "Connection: close\r\n\r\n");
	takes("GET http://h/ HTTP/1.0\r\n\r\n",
	    "GET http://h/ HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n");
	takes("OPTIONS * HTTP/1.1\r\nHost: a_b.example\r\n\r\n",
	    "OPTIONS * HTTP/1.1\r\nHost: a_b.example\r\nConnection: close\r\n\r\n");
	takes("GET / HTTP/1.1\nHost: a.example\nX: \ty\t\n\n",
	    "GET / HTTP/1.1\r\nHost: a.example\r\nX: y\r\nConnection: close\r\n\r\n");
	assert_int_equal(read_head("GET http://[::ffff:198.51.100.8]:80/ HTTP/1.1\r\n\r\n"), 0);
	assert_string_equal(h.to.host.text, "198.51.100.8");
	assert_int_equal(h.to.host.kind, ENDPOINT_IPV4);
	head_free(&h);
}

/* A field that Connection names cannot take the framing away, nor can a doubled name. */
static void
hops_do_not_touch_the_framing(void **state)
{
	(void)state;
	takes("POST / HTTP/1.1\r\n" HOST "Connection: content-length, transfer-encoding, host\r\n"
	      "Transfer-Encoding: chunked\r\n\r\n",
	    "POST / HTTP/1.1\r\nHost: public.example.test\r\nTransfer-Encoding: chunked\r\n"
	    "Connection: close\r\n\r\n");
	takes("POST / HTTP/1.1\r\n" HOST "CONTENT-LENGTH: 3\r\ncontent-length: 3\r\n\r\n",
	    "POST / HTTP/1.1\r\nHost: public.example.test\r\nContent-Length: 3\r\n"
	    "Connection: close\r\n\r\n");
}

/* EG-124: and CONNECT without a port. */
static void
connect_in_any_case(void **state)
{
	(void)state;
	assert_int_equal(read_head("connect Host.Example:8443 HTTP/1.1\r\n\r\n"), 0);
	assert_true(h.connect);
	assert_null(h.out);
	assert_string_equal(h.to.host.text, "host.example");
	assert_int_equal(h.to.port, 8443);
	assert_int_equal(read_head("CONNECT host.example HTTP/1.1\r\n\r\n"), 0);
	assert_int_equal(h.to.port, 443);
}

/* The table of the authority parser, default port 80. */
static void
authorities(void **state)
{
	static const struct {
		const char *text, *host;
		int port;
	} good[] = {{"example.test", "example.test", 80}, {" example.test ", "example.test", 80},
	    {"Example.Test.:8080", "example.test", 8080}, {"h:00080", "h", 80},
	    {"h:65535", "h", 65535}, {"a_b.example", "a_b.example", 80}, {"-x", "-x", 80},
	    {"[2001:DB8:0::1]:8443", "2001:db8::1", 8443},
	    {"[::ffff:198.51.100.8]:80", "198.51.100.8", 80}};
	static const char *const bad[] = {"", " ", "\t", ".", "..", "...", "a...", ".h", "a..b",
	    "a@b", "2001:db8::1", "2001:db8::1:443", "[198.51.100.41]:443", "[fe80::1%eth0]:80",
	    "[::1", "[::1]x", "[::1]:", "[::1]:80x", "[]", "[]:80", "h:", "h:80x", "h:0", "h:65536",
	    "h:123456", "h:+80", "h:-1", "ho st", "h/", "h\\x", "h\xc3\xa9", "\xe2\x84\xaa.example",
	    /* What resolvers take for addresses: decimal, octal, hexadecimal, short. */
	    "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.1", "0x7f.0.0.1", "1.2.3.4.5",
	    "127.0.0.1..", "example.0x1", "256.1.1.1", "01.2.3.4", "h:80:80", "[::1]:80:80"};
	struct authority a;
	char name[300];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(
		    authority_parse(good[i].text, strlen(good[i].text), 80, &a, &r), 0);
		assert_string_equal(a.host.text, good[i].host);
		assert_int_equal(a.port, good[i].port);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (authority_parse(bad[i], strlen(bad[i]), 80, &a, &r) == 0)
			fail_msg("taken: %s", bad[i]);
	memset(name, 'a', sizeof(name));
	assert_int_equal(authority_parse(name, 64, 80, &a, &r), -1);
	assert_int_equal(authority_parse(name, sizeof(name), 80, &a, &r), -1);
	assert_int_equal(authority_parse("h\0x", 3, 80, &a, &r), -1);
}

/* Where a head ends, however it comes in. */
static void
the_end_of_a_head(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nA: b\r\n\r\nrest";
	size_t i, end = sizeof(text) - 1 - 4;

	(void)state;
	for (i = 1; i < end; i++)
		assert_int_equal(head_end(text, i, i - 1), 0);
	assert_int_equal(head_end(text, end, end - 1), end);
	assert_int_equal(head_end(text, sizeof(text) - 1, 0), end);
	assert_int_equal(head_end("A\n\nB", 4, 0), 3);
	assert_int_equal(head_end("A\r\n\nB", 5, 0), 4);
	assert_int_equal(head_end("A\r\rB\n", 5, 0), 0);
	/* EG-122: one field is no request. */
	assert_false(head_is_one("NOT-A-REQUEST\r\n\r\n", 17));
	assert_true(head_is_one("GET /\r\n\r\n", 9));
}

static const char *
answered(const char *text, bool to_head, struct head_answer *a)
{
	head_answer_free(a);
	if (head_answer_read(text, strlen(text), FIELDS, to_head, a, &r) != 0)
		return NULL;
	return a->out;
}

/* Fields of one hop go on the way back as well, and an answer has one end. */
static void
answers_are_written_anew(void **state)
{
	struct head_answer a = {.out = NULL};

	(void)state;
	assert_string_equal(
	    answered("HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
		     "Keep-Alive: 5\r\nProxy-Authenticate: x\r\nX-Bastion-Refused: no\r\n"
		     "Content-Length: 3\r\n\r\n",
		false, &a),
	    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n");
	assert_true(a.sized);
	assert_int_equal(a.length, 3);
	assert_string_equal(answered("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"
				     "Transfer-Encoding: chunked\r\n\r\n",
				false, &a),
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	assert_false(a.sized);
	assert_string_equal(
	    answered("HTTP/1.1 100 Continue\r\n\r\n", false, &a), "HTTP/1.1 100 Continue\r\n\r\n");
	assert_non_null(answered("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true, &a));
	assert_int_equal(a.body, HEAD_NO_BODY);
	assert_non_null(answered("HTTP/1.0 304\r\nContent-Length: 3\r\n\r\n", false, &a));
	assert_int_equal(a.body, HEAD_NO_BODY);
	assert_null(answered(
	    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", false, &a));
	assert_null(answered("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", false, &a));
	assert_null(answered("HTTP/2 200\r\n\r\n", false, &a));
	assert_null(answered("SSH-2.0-OpenSSH\r\n\r\n", false, &a));
	assert_null(answered("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", false, &a));
	head_answer_free(&a);
}

/* Feed ${text} in pieces of ${piece} bytes.  Return how many were used, or -1. */
static long
chunks(const char *text, size_t piece, char *out)
{
	struct chunk k = {.state = CHUNK_SIZE};
	size_t len = strlen(text), at = 0, n = 0, m;
	long used;

	while (at < len && k.state != CHUNK_DONE) {
		size_t some = len - at < piece ? len - at : piece;

		if ((used = chunk_feed(&k, text + at, some, out + n, &m)) == -1)
			return -1;
		at += (size_t)used;
		n += m;
	}
	out[n] = '\0';
	return k.state == CHUNK_DONE ? (long)at : -2;
}

/* EG-110: a body with extensions and a trailer comes out plain, and ends where it ends. */
static void
chunked_bodies_come_out_plain(void **state)
{
	static const char text[] =
	    "5;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n";
	char out[512], data[64];
	size_t piece, i, n;

	(void)state;
	assert_int_equal(chunks(text, sizeof(text), out), (long)(strstr(text, "GET") - text));
	assert_string_equal(out, "5\r\nhello\r\n0\r\n\r\n");
	for (piece = 1; piece < 12; piece++) {
		assert_int_equal(chunks(text, piece, out), (long)(strstr(text, "GET") - text));
		/* In other pieces, but the same data. */
		for (i = n = 0; out[i] != '0'; i += 2 + (size_t)(out[i] - '0') + 3) {
			memcpy(data + n, out + i + 3, (size_t)(out[i] - '0'));
			n += (size_t)(out[i] - '0');
		}
		assert_int_equal(n, 5);
		assert_memory_equal(data, "hello", 5);
	}
}

/* EG-128: what is no chunked body; the bounds of lines and trailers. */
static void
broken_chunks_are_refused(void **state)
{
	static const char *const all[] = {"x\r\n", "\r\n", ";a\r\n", "-1\r\n", "+1\r\n",
	    " 5\r\nhello\r\n", "5 \r\nhello\r\n", "0x5\r\nhello\r\n", "5\nhello\r\n0\r\n\r\n",
	    "5\r\nhelloX\r\n", "5\r\nhello\n0\r\n\r\n", "1234567890abcdef\r\n",
	    "5;a\nb\r\nhello\r\n", "0\r\nA: b\n\r\n", "5\r\rhello", "5;a\r;\nhello"};
	static char much[20000], out[sizeof(much) + CHUNK_GROWTH];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (chunks(all[i], 100, out) != -1)
			fail_msg("taken: %s", all[i]);
	snprintf(much, sizeof(much), "0\r\nA: %05000d\r\n\r\n", 1);
	assert_int_equal(chunks(much, sizeof(much), out), -1);
	snprintf(much, sizeof(much), "0\r\nA: %04000d\r\nB: %04000d\r\nC: %0300d\r\n\r\n", 1, 1, 1);
	assert_int_equal(chunks(much, sizeof(much), out), -1);
	snprintf(much, sizeof(much), "0\r\nA: %04000d\r\nB: %04000d\r\n\r\n", 1, 1);
	assert_true(chunks(much, sizeof(much), out) > 0);
	snprintf(much, sizeof(much), "1;%05000d\r\nx\r\n0\r\n\r\n", 1);
	assert_int_equal(chunks(much, sizeof(much), out), -1);
}

/* BND-1: many fields and many names in Connection are bounded: no head costs more than its size. */
static void
heads_are_bounded(void **state)
{
	static char text[65536];
	size_t n, i;

	(void)state;
	n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST);
	for (i = 0; i < FIELDS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "A: b\r\n");
	snprintf(text + n, sizeof(text) - n, "\r\n");
	refuses(text);
	n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "Connection: ");
	for (i = 0; i < 100; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "x%zu,", i);
	snprintf(text + n, sizeof(text) - n, "y\r\n\r\n");
	refuses(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_head_is_written_anew),
	    cmocka_unit_test(targets_are_read_once),
	    cmocka_unit_test(what_reads_in_two_ways_is_refused),
	    cmocka_unit_test(broken_heads_are_refused),
	    cmocka_unit_test(odd_heads_that_have_one_reading),
	    cmocka_unit_test(hops_do_not_touch_the_framing),
	    cmocka_unit_test(connect_in_any_case),
	    cmocka_unit_test(authorities),
	    cmocka_unit_test(the_end_of_a_head),
	    cmocka_unit_test(answers_are_written_anew),
	    cmocka_unit_test(chunked_bodies_come_out_plain),
	    cmocka_unit_test(broken_chunks_are_refused),
	    cmocka_unit_test(heads_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
