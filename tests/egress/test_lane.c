/* test_lane.c: the lane from end to end, against servers in another network namespace. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "engine/clock.h"
#include "engine/state/grant.h"
#include "engine/state/process.h"
#include "net/egress/who.h"
#include "tests/rig.h"
#include "tests/netns.h"
#include "tests/person.h"

#define MONDAY INT64_C(1795996800000) /* 2026-11-30, 00:00 UTC */

static struct scratch s;
static bool isolated, real_root;
static int site; /* a server that listens out there */
static uint16_t port;
static char out[RIG_TEXT_MAX], request[RIG_TEXT_MAX];

static int
set_up(void **state)
{
	(void)state;
	if (!isolated)
		return 0;
	scratch_make(&s, HOME_BOX);
	port = 0;
	site = netns_listen(NETNS_SITE, &port);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	if (!isolated)
		return 0;
	close(site);
	scratch_drop(&s);
	return 0;
}

/* Every test begins with it. */
static void
begin(const char *settings)
{
	if (!isolated) {
		print_message("no network namespaces can be made here\n");
		skip();
	}
	if (settings != NULL)
		assert_int_equal(scratch_sql(&s, settings), 0);
	rig_start(&s);
}

/* ${request} is ${text} with the port of the site for each "%u". */
static void
request_fill(const char *text)
{
	size_t n = 0;

	for (; *text != '\0' && n + 8 < sizeof(request); text++)
		if (text[0] == '%' && text[1] == 'u') {
			n += (size_t)snprintf(request + n, sizeof(request) - n, "%u", port);
			text++;
		} else {
			request[n++] = *text;
		}
	request[n] = '\0';
}

static int
say_to(int where, const char *text)
{
	int fd = rig_dial(where);

	request_fill(text);
	rig_say(fd, request);
	return fd;
}

static void
answer_ok(int server)
{
	rig_say(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

/* A refusal has a body that says why, of the length that it says, and the header says the same. */
static void
refused_as(const char *text, int status, const char *code)
{
	char start[32], *body, *header;
	size_t len;

	snprintf(start, sizeof(start), "HTTP/1.1 %d ", status);
	if (strncmp(text, start, strlen(start)) != 0)
		fail_msg("not %d but: %s", status, text);
	assert_non_null(body = strstr(text, "\r\n\r\n"));
	body += 4;
	assert_non_null(header = strstr(text, "Content-Length: "));
	len = (size_t)atoi(header + 16);
	assert_int_equal(strlen(body), len);
	assert_true(len >= 10);
	assert_int_equal(body[len - 1], '\n');
	assert_non_null(strstr(body, code));
	assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
	header = strstr(text, "X-Bastion-Refused: ");
	/* EG-125: a 502 has none; else the texts are the same. */
	assert_int_equal(header == NULL, status == 502);
	if (header != NULL)
		assert_memory_equal(header + 19, body, len - 1);
}

/* EG-127: SEG-16: EG-34: a tunnel carries both ways, and what came with its head comes first. */
static void
a_tunnel_carries_both_ways(void **state)
{
	int client, server;

	(void)state;
	begin(NULL);
	client = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\nearly ");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(client, "\r\n\r\n", out, sizeof(out)), 0);
	assert_string_equal(out, "HTTP/1.1 200 Connection established\r\n\r\n");
	rig_say(client, "and late");
	assert_int_equal(rig_hear_until(server, "late", out, sizeof(out)), 0);
	assert_string_equal(out, "early and late");
	rig_say(server, "back");
	shutdown(server, SHUT_WR);
	assert_int_equal(rig_hear(client, out, sizeof(out)), 4);
	/* The other direction is open still. */
	rig_say(client, "!");
	close(client);
	assert_int_equal(rig_hear(server, out, sizeof(out)), 1);
	close(server);
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_flow WHERE state = 'done' AND dialled = '" NETNS_SITE
	    "' AND up = 15 AND down = 4 AND addresses = '[\"" NETNS_SITE "\"]'");
	rig_stop(&s);
}

/* The row is there, durable, when the server hears of it; and so is its audit row. */
static void
the_row_comes_before_the_first_byte(void **state)
{
	int client, server;

	(void)state;
	begin(NULL);
	client = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state = 'open'"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'egress_flow'"
			      " AND action = 'open' AND body ->> '$.host' = '" NETNS_SITE "'"),
	    1);
	close(client);
	close(server);
	rig_until(&s, 0, "SELECT count(*) FROM live_flows");
	rig_stop(&s);
}

/* The row of an end waits for others, and goes along with the next that is opened. */
static void
ends_go_along_with_openings(void **state)
{
	int client, server, i;

	(void)state;
	begin("UPDATE setting SET value = 10000 WHERE name = 'egress.gather_ms'");
	/* (What is opened before the lane has seen the end takes it not along: the next does.) */
	for (i = 0; i < 200 &&
		    scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state = 'done'") == 0;
	     i++) {
		client = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
		server = rig_accept(site);
		rig_say(server, "all");
		close(server);
		assert_int_equal(rig_hear_until(client, "all", out, sizeof(out)), 0);
		close(client);
	}
	assert_in_range(i, 2, 199);
	/* Nor does one that waits still when the lane closes stay open. */
	rig_stop(&s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_flows"), 0);
}

/* EG-86: what a server receives, byte for byte; and one that Host does not mislead (SEG-04). */
static void
a_plain_request_is_written_anew(void **state)
{
	char wanted[512];
	int client, server;

	(void)state;
	begin(NULL);
	client = say_to(rig_http, "GET http://" NETNS_SITE ":%u/p?q=1 HTTP/1.1\r\n"
				  "Host: inside.example.test\r\nProxy-Authorization: Basic eA==\r\n"
				  "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-Keep: 2\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(server, "\r\n\r\n", out, sizeof(out)), 0);
	snprintf(wanted, sizeof(wanted),
	    "GET http://" NETNS_SITE ":%u/p?q=1 HTTP/1.1\r\nHost: " NETNS_SITE
	    ":%u\r\nX-Keep: 2\r\n"
	    "Connection: close\r\n\r\n",
	    port, port);
	assert_string_equal(out, wanted);
	rig_say(server,
	    "HTTP/1.1 200 OK\r\nConnection: X-Way\r\nX-Way: 1\r\nContent-Length: 2\r\n\r\nok");
	assert_true(rig_hear(client, out, sizeof(out)) > 0);
	assert_string_equal(
	    out, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
	close(client);
	close(server);
	rig_stop(&s);
}

/* EG-84: EG-85: EG-87: CE-2: one request a connection: a second one reaches nobody. */
static void
a_second_request_reaches_nobody(void **state)
{
	int client, server;

	(void)state;
	begin(NULL);
	client = say_to(rig_http, "GET http://" NETNS_SITE ":%u/1 HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(server, "\r\n\r\n", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "\r\nConnection: close\r\n"));
	answer_ok(server);
	assert_int_equal(rig_hear_until(client, "ok", out, sizeof(out)), 0);
	snprintf(request, sizeof(request), "GET http://" NETNS_SITE ":%u/2 HTTP/1.1\r\n\r\n", port);
	rig_say(client, request);
	assert_int_equal(rig_hear(client, out, sizeof(out)), 0);
	assert_int_equal(rig_hear(server, out, sizeof(out)), 0);
	assert_false(rig_contacted(site));
	close(client);
	close(server);
	/* And pipelined. */
	client = say_to(rig_http, "GET http://" NETNS_SITE ":%u/1 HTTP/1.1\r\n\r\n"
				  "GET http://" NETNS_SITE ":%u/2 HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	rig_hear(server, out, sizeof(out));
	assert_null(strstr(out, "/2"));
	close(server);
	rig_hear(client, out, sizeof(out));
	close(client);
	assert_false(rig_contacted(site));
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE code = 'egress.request'");
	rig_stop(&s);
}

/* Send a body with something behind it; return what the server got behind the head. */
static const char *
body_of(const char *text)
{
	char *body;
	int client = say_to(rig_http, text), server = rig_accept(site);

	rig_hear(server, out, sizeof(out));
	close(server);
	close(client);
	assert_non_null(body = strstr(out, "\r\n\r\n"));
	return body + 4;
}

/* EG-109: EG-110: a body ends where it ends. */
static void
a_body_ends_where_it_ends(void **state)
{
	int client, server;

	(void)state;
	begin(NULL);
	assert_string_equal(
	    body_of("POST http://" NETNS_SITE ":%u/ HTTP/1.1\r\nContent-Length: 5\r\n\r\n"
		    "helloGET http://" NETNS_SITE ":%u/2 HTTP/1.1\r\n\r\n"),
	    "hello");
	assert_string_equal(
	    body_of("POST http://" NETNS_SITE ":%u/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
		    "5;x=y\r\nhello\r\n0\r\nX: y\r\n\r\nGET http://" NETNS_SITE
		    ":%u/2 HTTP/1.1\r\n\r\n"),
	    "5\r\nhello\r\n0\r\n\r\n");
	/* EG-128: nobody is told that a broken body is whole. */
	client =
	    say_to(rig_http, "POST http://" NETNS_SITE
			     ":%u/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(server, "hello\r\n", out, sizeof(out)), 0);
	rig_say(client, "zz\r\n");
	assert_int_equal(rig_hear(server, out, sizeof(out)), 0);
	assert_int_equal(rig_hear(client, out, sizeof(out)), 0);
	close(client);
	close(server);
	rig_stop(&s);
}

/* EG-73: EG-74: EG-75: EG-111: EG-112: EG-115: CEG-1: what listens on this machine is not reached.
 */
static void
this_machine_is_not_reached(void **state)
{
	static const char *const all[] = {"CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n",
	    "GET http://127.0.0.1:%u/api/tags HTTP/1.1\r\n\r\n",
	    "CONNECT localhost:%u HTTP/1.1\r\n\r\n",
	    "GET http://[::ffff:127.0.0.1]:%u/ HTTP/1.1\r\n\r\n",
	    "GET http://" NETNS_BOX ":%u/ HTTP/1.1\r\n\r\n",
	    "CONNECT 169.254.169.254:%u HTTP/1.1\r\n\r\n",
	    "CONNECT [64:ff9b::7f00:1]:%u HTTP/1.1\r\n\r\n",
	    "CONNECT 10.0.0.1:%u HTTP/1.1\r\n\r\n"};
	struct sockaddr_storage at = {.ss_family = AF_INET};
	socklen_t len = sizeof(struct sockaddr_in);
	int local = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), i, where;
	uint16_t site_port = port;

	(void)state;
	begin(NULL);
	assert_int_equal(bind(local, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(local, 8), 0);
	assert_int_equal(getsockname(local, (struct sockaddr *)&at, &len), 0);
	memcpy(&port, (char *)&at + 2, 2);
	port = (uint16_t)(port << 8 | port >> 8);
	for (where = 0; where < 2; where++)
		for (i = 0; i < (int)(sizeof(all) / sizeof(all[0])); i++) {
			int fd = say_to(where == 0 ? rig_http : 0, all[i]);

			rig_hear(fd, out, sizeof(out));
			close(fd);
			refused_as(out, 403, "[egress.");
		}
	assert_false(rig_contacted(local));
	close(local);
	port = site_port;
	rig_until(&s, 16, "SELECT count(*) FROM egress_flow WHERE state = 'refused'");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'egress_flow'"
					   " AND action = 'refused'"),
	    16);
	rig_stop(&s);
}

/* EG-78: what serves models on this machine and its networks is reached by no lane, whatever is
 * allowed to whom, and nobody dials it. */
static void
models_are_not_reached(void **state)
{
	static const char *const hosts[] = {"127.0.0.1", "localhost", "192.168.50.7", "[::1]"};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(11434)};
	int local = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t i;

	(void)state;
	begin(NULL);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(local, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(local, 8), 0);
	for (i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		snprintf(request, sizeof(request),
		    "POST http://%s:11434/api/pull HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
		    hosts[i]);
		rig_ask(rig_http, request, out, sizeof(out));
		refused_as(out, 403, "[egress.");
	}
	assert_false(rig_contacted(local));
	close(local);
	rig_until(&s, 4,
	    "SELECT count(*) FROM egress_flow WHERE port = 11434 AND state = 'refused'"
	    " AND dialled IS NULL");
	rig_stop(&s);
}

/* EG-113: EG-114: EG-125: nobody listens: 502, without our header. SEG-06: SEG-07: SEG-14: no rule:
 * 403. */
static void
refusals_say_why(void **state)
{
	(void)state;
	begin("INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
	      " VALUES ('allow', '" NETNS_SITE "', 1, 0), ('allow', 'good.example', 1, 0)");
	rig_ask(rig_http, "GET http://" NETNS_SITE ":9/ HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 502, "egress.dial");
	rig_ask(rig_http, "CONNECT " NETNS_SITE ":9 HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 502, "egress.dial");
	rig_ask(rig_http, "GET http://" NETNS_OTHER "/ HTTP/1.1\r\nHost: " NETNS_SITE "\r\n\r\n",
	    out, sizeof(out));
	refused_as(out, 403, "egress.unknown");
	/* Nobody asks a resolver about what no rule allows. */
	rig_ask(rig_http, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 403, "egress.unknown");
	assert_int_equal(rig_asked(), 0);
	rig_ask(rig_http, "CONNECT user@good.example:443 HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 400, "egress.authority");
	rig_ask(rig_http, "GET https://good.example/ HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 400, "egress.request");
	/* EG-20: */
	rig_ask(rig_http, "CONNECT good.example:443 HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 403, "could not resolve");
	rig_until(&s, 2,
	    "SELECT count(*) FROM egress_flow WHERE state = 'failed' AND code = 'egress.dial'");
	rig_stop(&s);
}

/* EG-121: EG-122: CEG-3: what is no request is closed without a word, and leaves no row. */
static void
what_is_no_request_is_closed(void **state)
{
	static char much[70000];
	int fd;

	(void)state;
	begin(NULL);
	assert_int_equal(rig_ask(rig_http, "NOT-A-REQUEST\r\n\r\n", out, sizeof(out)), 0);
	memset(much, 'a', sizeof(much));
	fd = rig_dial(rig_http);
	rig_send(fd, much, sizeof(much));
	assert_int_equal(rig_hear(fd, out, sizeof(out)), 0);
	close(fd);
	fd = rig_dial(rig_http);
	rig_say(fd, "GET / HT");
	shutdown(fd, SHUT_WR);
	assert_int_equal(rig_hear(fd, out, sizeof(out)), 0);
	close(fd);
	rig_stop(&s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_flow"), 0);
}

/* What a server answers that is no answer: 502, and nothing of it reaches the client. */
static void
broken_answers_are_not_passed_on(void **state)
{
	static const char *const all[] = {"", "SSH-2.0-x\r\n\r\n",
	    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
	    "HTTP/1.1 101 Yes\r\nUpgrade: x\r\n\r\n"};
	size_t i;

	(void)state;
	begin(NULL);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		int client = say_to(rig_http, "GET http://" NETNS_SITE ":%u/ HTTP/1.1\r\n\r\n");
		int server = rig_accept(site);

		assert_int_equal(rig_hear_until(server, "\r\n\r\n", out, sizeof(out)), 0);
		rig_say(server, all[i]);
		close(server);
		rig_hear(client, out, sizeof(out));
		refused_as(out, 502, "egress.answer");
		close(client);
	}
	rig_stop(&s);
}

/* Heads that only tell of an answer to come go on as they come, as many as one head may be long. */
static void
heads_before_an_answer_are_bounded(void **state)
{
	static const char early[] = "HTTP/1.1 102 Processing\r\n\r\n";
	int client, server, i;

	(void)state;
	begin("UPDATE setting SET value = 2700 WHERE name = 'egress.answer_head'");
	client = say_to(rig_http, "GET http://" NETNS_SITE ":%u/ HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(server, "\r\n\r\n", out, sizeof(out)), 0);
	for (i = 0; i < 100; i++)
		rig_say(server, early);
	rig_say(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	assert_int_equal(rig_hear_until(client, "ok", out, sizeof(out)), 0);
	assert_int_equal(strlen(out), 2700 + 59);
	close(client);
	close(server);
	/* They count as any bytes of the server. */
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE state = 'done' AND down = 2740");
	/* One more, and some that go on for ever. */
	client = say_to(rig_http, "GET http://" NETNS_SITE ":%u/ HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(server, "\r\n\r\n", out, sizeof(out)), 0);
	for (i = 0; i < 10000 && send(server, early, 27, MSG_NOSIGNAL) == 27; i++)
		;
	rig_say(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	close(server);
	rig_hear(client, out, sizeof(out));
	close(client);
	assert_true(strlen(out) < 2700 + 1024);
	assert_null(strstr(out, " 200 "));
	assert_non_null(strstr(out, "HTTP/1.1 502 "));
	refused_as(strstr(out, "HTTP/1.1 502 "), 502, "egress.answer");
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_flow WHERE state = 'failed' AND code = 'egress.answer'");
	rig_stop(&s);
}

/* Nothing of the next head is read while whoever asked has no room for the last. */
static void
a_slow_reader_gets_every_head(void **state)
{
	static char text[8192];
	int client, server, i, heads = 0, little = 2048;
	const char *at;

	(void)state;
	begin("UPDATE setting SET value = 1048576 WHERE name = 'egress.answer_head'");
	client = say_to(rig_http, "GET http://" NETNS_SITE ":%u/ HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	setsockopt(client, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
	assert_int_equal(rig_hear_until(server, "\r\n\r\n", out, sizeof(out)), 0);
	snprintf(text, sizeof(text), "HTTP/1.1 103 Early Hints\r\nLink: ");
	memset(text + strlen(text), 'x', sizeof(text) - strlen(text) - 5);
	memcpy(text + sizeof(text) - 5, "\r\n\r\n", 5);
	for (i = 0; i < 25; i++)
		rig_say(server, text);
	answer_ok(server);
	close(server);
	rig_hear(client, out, sizeof(out));
	close(client);
	for (at = out; (at = strstr(at, "HTTP/1.1 103")) != NULL; at++)
		heads++;
	assert_int_equal(heads, 25);
	assert_string_equal(out + strlen(out) - 6, "\r\n\r\nok");
	rig_stop(&s);
}

/* EG-129: EG-130: the end of one side comes to the other, and no more than that. */
static void
ends_come_through(void **state)
{
	int client, server;

	(void)state;
	begin(NULL);
	client = say_to(
	    rig_http, "POST http://" NETNS_SITE ":%u/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
	shutdown(client, SHUT_WR);
	server = rig_accept(site);
	rig_hear(server, out, sizeof(out));
	assert_non_null(strstr(out, "\r\n\r\nabc"));
	rig_say(server, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end");
	close(server);
	rig_hear(client, out, sizeof(out));
	assert_non_null(strstr(
	    out, "100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end"));
	close(client);
	/* An answer that breaks off. */
	client = say_to(rig_http, "GET http://" NETNS_SITE ":%u/ HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	rig_say(server, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort");
	close(server);
	rig_hear(client, out, sizeof(out));
	assert_non_null(strstr(out, "short"));
	close(client);
	rig_stop(&s);
}

/*
 * SOCKS5.
 */

/* Greet, ask, and return the reply's second byte; -1 where there is none. */
static int
socks(const void *bytes, size_t len, int *fd)
{
	char reply[10];

	*fd = rig_dial(rig_socks);
	rig_send(*fd, "\5\1\0", 3);
	rig_send(*fd, bytes, len);
	if (recv(*fd, reply, 2, MSG_WAITALL) != 2 || reply[0] != 5 || reply[1] != 0)
		return -1;
	if (recv(*fd, reply, 10, MSG_WAITALL) != 10)
		return -1;
	assert_memory_equal(reply + 2, "\0\1\0\0\0\0\0\0", 8);
	return (unsigned char)reply[1];
}

static int
socks_name(const char *name, size_t len, uint16_t to)
{
	unsigned char bytes[300] = {5, 1, 0, 3, (unsigned char)len};
	int fd, reply;

	memcpy(bytes + 5, name, len);
	bytes[5 + len] = (unsigned char)(to >> 8);
	bytes[6 + len] = (unsigned char)to;
	reply = socks(bytes, 7 + len, &fd);
	close(fd);
	return reply;
}

/* SK-03: a tunnel by IPv4. SK-11: nobody listens. */
static void
socks_tunnels(void **state)
{
	unsigned char ask[] = {5, 1, 0, 1, 198, 51, 100, 8, 0, 0};
	int fd, server;

	(void)state;
	begin(NULL);
	ask[8] = (unsigned char)(port >> 8);
	ask[9] = (unsigned char)port;
	assert_int_equal(socks(ask, sizeof(ask), &fd), 0);
	server = rig_accept(site);
	rig_say(fd, "ping");
	assert_int_equal(rig_hear_until(server, "ping", out, sizeof(out)), 0);
	rig_say(server, "pong");
	assert_int_equal(rig_hear_until(fd, "pong", out, sizeof(out)), 0);
	close(fd);
	close(server);
	ask[8] = 0;
	ask[9] = 9;
	assert_int_equal(socks(ask, sizeof(ask), &fd), 1);
	close(fd);
	rig_until(
	    &s, 1, "SELECT count(*) FROM egress_flow WHERE surface = 'socks5' AND state = 'done'");
	rig_stop(&s);
}

/* SK-12: a rule that names an address of IPv6 allows it, whether somebody listens there or not; no
 * rule opens this machine. */
static void
socks_by_ipv6(void **state)
{
	unsigned char ask[22] = {5, 1, 0, 4};
	int fd, at;

	(void)state;
	begin("UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms();"
	      "INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid) VALUES"
	      " ('allow', '" NETNS_SIX "', 1, 0), ('allow', '::1', 1, 0)");
	at = netns_listen(NETNS_SIX, &port);
	inet_pton(AF_INET6, NETNS_SIX, ask + 4);
	ask[20] = (unsigned char)(port >> 8);
	ask[21] = (unsigned char)port;
	assert_int_equal(socks(ask, sizeof(ask), &fd), 0);
	close(fd);
	close(at);
	ask[20] = 0;
	ask[21] = 9;
	assert_int_equal(socks(ask, sizeof(ask), &fd), 1);
	close(fd);
	ask[19] = 9;
	assert_int_equal(socks(ask, sizeof(ask), &fd), 2);
	close(fd);
	inet_pton(AF_INET6, "::1", ask + 4);
	assert_int_equal(socks(ask, sizeof(ask), &fd), 2);
	close(fd);
	rig_stop(&s);
}

/* SK-02: SK-06: SK-07: SK-08: SK-09: what is not spoken here; and no byte of an answer where it
 * says so. */
static void
socks_speaks_little(void **state)
{
	char reply[16];
	int fd;

	(void)state;
	begin(NULL);
	fd = rig_dial(rig_socks);
	rig_send(fd, "\5\1\2", 3);
	assert_int_equal(rig_hear(fd, reply, sizeof(reply)), 2);
	assert_memory_equal(reply, "\5\xff", 2);
	close(fd);
	fd = rig_dial(rig_socks);
	rig_send(fd, "\5\0", 2);
	assert_int_equal(rig_hear(fd, reply, sizeof(reply)), 2);
	assert_memory_equal(reply, "\5\xff", 2);
	close(fd);
	fd = rig_dial(rig_socks);
	rig_send(fd, "\4\1\0\x50", 4);
	assert_int_equal(rig_hear(fd, reply, sizeof(reply)), 0);
	close(fd);
	assert_int_equal(socks("\5\2\0\1\1\1\1\1\0\x50", 10, &fd), 7);
	close(fd);
	assert_int_equal(socks("\5\3\0\1\1\1\1\1\0\x50", 10, &fd), 7);
	close(fd);
	assert_int_equal(socks("\5\1\0\5\1\1\1\1\0\x50", 10, &fd), 1);
	close(fd);
	/* A second version that is none, and HTTP where SOCKS is spoken. */
	assert_int_equal(socks("\4\1\0\1\1\1\1\1\0\x50", 10, &fd), -1);
	close(fd);
	assert_int_equal(rig_ask(rig_socks, "GET / HTTP/1.1\r\n\r\n", out, sizeof(out)), 0);
	rig_stop(&s);
}

/* SK-04: SK-05: SK-10: names that no rule allows, or that are none: with NUL, colon, port.
 */
static void
socks_names_are_read_strictly(void **state)
{
	static const struct {
		const char *name;
		size_t len;
	} bad[] = {{"", 0}, {"a\0b", 3}, {NETNS_SITE "\0.x", sizeof(NETNS_SITE) + 2},
	    {"allowed.example:443", 19}, {"[::1]", 5}, {"::1", 3}, {"127.1", 5}, {"0x7f000001", 10},
	    {"2130706433", 10}, {"017700000001", 12}, {"user@allowed.example", 20},
	    {"allowed.example/", 16}, {" allowed.example", 16}, {"\xd0\xb0llowed.example", 16},
	    {"localhost", 9}, {"denied.example", 14}, {"blocked.allowed.example", 23},
	    {"notallowed.example", 18}};
	size_t i;

	(void)state;
	begin("INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid) VALUES"
	      " ('allow', 'allowed.example', 1, 0), ('deny', 'blocked.allowed.example', 1, 0)");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (socks_name(bad[i].name, bad[i].len, 443) != 2)
			fail_msg("not refused: %s", bad[i].name);
	assert_int_equal(socks_name("allowed.example", 15, 0), 2);
	assert_int_equal(rig_asked(), 0);
	rig_stop(&s);
}

/* SK-13: slow ones, on each surface, are closed when the time for a head is over. */
static void
slow_heads_are_closed(void **state)
{
	static const char *const slow[] = {
	    "G", "GET http://a.example/ HTTP/1.1\r\nX: ", "\5", "\5\2\0", ""};
	int fds[16], n = 0, i, where;

	(void)state;
	begin("UPDATE setting SET value = 300 WHERE name = 'egress.head_ms'");
	for (where = 0; where < 3; where++)
		for (i = 0; i < 5; i++) {
			fds[n] = rig_dial(where == 0 ? rig_http : where == 1 ? rig_socks : 0);
			rig_say(fds[n++], slow[i]);
		}
	for (i = 0; i < n; i++) {
		/* A byte now and then buys no time. */
		rig_say(fds[i], "x");
		rig_hear(fds[i], out, sizeof(out));
		close(fds[i]);
	}
	rig_stop(&s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_flow"), 0);
}

/* A tunnel that carries nothing ends, and its row says so. */
static void
idle_tunnels_end(void **state)
{
	int client, server;

	(void)state;
	begin("UPDATE setting SET value = 300 WHERE name = 'egress.idle_ms'");
	client = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	rig_hear(client, out, sizeof(out));
	assert_int_equal(rig_hear(server, out, sizeof(out)), 0);
	close(client);
	close(server);
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE code = 'egress.timeout'");
	rig_stop(&s);
}

/* CE-3: CEG-4: one more than may be gets 503 that names the limit, and the others go on. */
static void
one_too_many_is_told(void **state)
{
	int a, b;

	(void)state;
	begin("UPDATE setting SET value = 2 WHERE name = 'egress.connections'");
	a = rig_dial(rig_http);
	b = rig_dial(rig_http);
	rig_ask(rig_http, "GET http://" NETNS_SITE "/ HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 503, "2 connections");
	close(a);
	close(b);
	rig_stop(&s);
}

/* Rows cap as well: how many of one user are open at once. */
static void
one_users_connections_are_capped(void **state)
{
	int a, server;

	(void)state;
	begin("UPDATE setting SET value = 1 WHERE name = 'egress.live'");
	a = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	snprintf(request, sizeof(request), "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n", port);
	rig_ask(rig_http, request, out, sizeof(out));
	refused_as(out, 503, "egress.busy");
	close(a);
	close(server);
	rig_until(&s, 0, "SELECT count(*) FROM live_flows");
	a = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	close(a);
	close(server);
	rig_stop(&s);
}

/* Whoever goes while its row is decided: the row has the rule's reason, and the loop's is its own.
 */
static void
whoever_goes_while_it_is_decided(void **state)
{
	static const struct linger at_once = {.l_onoff = 1};
	int fd, i;

	(void)state;
	begin("INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
	      " VALUES ('allow', 'good.example', 1, 0)");
	/* Nothing is committed meanwhile. */
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(s.db), 0);
	for (i = 0; i < 8; i++) {
		fd = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
		usleep(20000);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		close(fd);
	}
	usleep(100000);
	store_rollback(s.db);
	store_close(s.db);
	s.db = NULL;
	rig_until(&s, 8,
	    "SELECT count(*) FROM egress_flow WHERE state = 'refused' AND code = 'egress.unknown'");
	rig_stop(&s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_flow"), 8);
}

static int unknowns;

static void
on_unknown(void *ctx, const struct authority *to)
{
	(void)ctx;
	(void)to;
	unknowns++;
}

/* A name whose rule goes while it is looked up is refused: its row is there, and nobody is asked.
 */
static void
a_rule_that_goes_meanwhile_refuses(void **state)
{
	int client;

	(void)state;
	rig_unknown = on_unknown;
	begin("INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
	      " VALUES ('allow', 'good.example', 1, 0)");
	rig_name("good.example", NETNS_SITE, 60, 0);
	rig_names_hold(true);
	client = say_to(rig_http, "CONNECT good.example:%u HTTP/1.1\r\n\r\n");
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE state = 'asked'");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"), 0);
	rig_names_hold(false);
	rig_hear(client, out, sizeof(out));
	refused_as(out, 403, "egress.unknown");
	close(client);
	rig_stop(&s);
	rig_unknown = NULL;
	assert_int_equal(unknowns, 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_flow"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state = 'refused'"), 1);
}

/* One user's names do not keep another's from being looked up; the refusal says which limit it is.
 */
static void
one_users_names_are_capped(void **state)
{
	int a, b;

	(void)state;
	begin("UPDATE setting SET value = 4 WHERE name = 'egress.lookups'");
	rig_names_hold(true);
	a = say_to(rig_http, "CONNECT one.example:%u HTTP/1.1\r\n\r\n");
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE state = 'asked'");
	/* (Its row is told of before the name is looked up, in the same turn of the loop.) */
	b = say_to(rig_http, "CONNECT two.example:%u HTTP/1.1\r\n\r\n");
	rig_hear(b, out, sizeof(out));
	refused_as(out, 503, "egress.lookups");
	refused_as(out, 503, "egress.names");
	rig_names_hold(false);
	rig_hear(a, out, sizeof(out));
	refused_as(out, 403, "egress.resolve");
	close(a);
	close(b);
	rig_stop(&s);
}

/* Ask as ${uid}, in a process of its own; return whether the tunnel came. */
static bool
asks_as(uid_t uid, int where)
{
	int status, fd;
	pid_t pid;

	request_fill("CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	if ((pid = fork()) == 0) {
		if (uid != geteuid() && setuid(uid) != 0)
			_exit(2);
		rig_say(fd = rig_dial(where), request);
		_exit(rig_hear_until(fd, " 200 ", out, sizeof(out)) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	if (status != 0)
		return false;
	close(rig_accept(site));
	return true;
}

/* The kernel says who asks, on the port as on the socket; a rule of one user is not another's. */
static void
the_kernel_says_who_asks(void **state)
{
	int where;

	(void)state;
	begin("INSERT INTO egress_rule (verdict, uid, suffix, made_at, made_by_uid)"
	      " VALUES ('allow', 1234, '" NETNS_SITE "', 1, 0)");
	assert_int_equal(chmod(s.dir, 0711), 0);
	assert_int_equal(chmod(s.home.run, 0711), 0);
	for (where = 0; where < 2; where++) {
		assert_false(asks_as(geteuid(), where == 0 ? rig_http : 0));
		/* An ordinary user can be nobody else. */
		if (real_root)
			assert_true(asks_as(1234, where == 0 ? rig_http : 0));
	}
	rig_until(&s, 2,
	    "SELECT count(*) FROM egress_flow WHERE uid <> 1234 AND code = 'egress.unknown'");
	rig_until(&s, real_root ? 2 : 0,
	    "SELECT count(*) FROM egress_flow WHERE uid = 1234 AND state = 'done'");
	rig_stop(&s);
}

/* Much goes through unchanged, both ways at once, to a reader that is slow: nothing piles up. */
static void
much_goes_through_unchanged(void **state)
{
	enum { ALL = 64 << 20, PIECE = 1 << 16 };
	static unsigned char piece[PIECE];
	crypto_generichash_state sent, heard;
	unsigned char a[32], b[32];
	int client, server, i;
	size_t all;
	ssize_t n;
	pid_t pid;

	(void)state;
	begin(NULL);
	client = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(client, "\r\n\r\n", out, sizeof(out)), 0);
	crypto_generichash_init(&sent, NULL, 0, 32);
	randombytes_buf(piece, sizeof(piece));
	for (i = 0; i < ALL / PIECE; i++) {
		piece[0] = (unsigned char)i;
		crypto_generichash_update(&sent, piece, sizeof(piece));
	}
	if ((pid = fork()) == 0) {
		for (i = 0; i < ALL / PIECE; i++) {
			piece[0] = (unsigned char)i;
			rig_send(server, piece, sizeof(piece));
		}
		shutdown(server, SHUT_WR);
		_exit(0);
	}
	close(server);
	crypto_generichash_init(&heard, NULL, 0, 32);
	for (all = 0; (n = recv(client, out, 10000, 0)) > 0; all += (size_t)n)
		crypto_generichash_update(&heard, (unsigned char *)out, (size_t)n);
	crypto_generichash_final(&sent, a, 32);
	crypto_generichash_final(&heard, b, 32);
	assert_int_equal(all, ALL);
	assert_memory_equal(a, b, 32);
	close(client);
	waitpid(pid, NULL, 0);
	rig_until(&s, ALL, "SELECT down FROM egress_flow WHERE state = 'done'");
	rig_stop(&s);
}

/*
 * Names.
 */

/* EG-34: EG-35: EG-77: all addresses in the resolver's order; the first that answers is taken. */
static void
names_lead_to_vetted_addresses(void **state)
{
	int client, server;

	(void)state;
	begin(NULL);
	rig_name("site.example.test", NETNS_SITE " " NETNS_SIX, 60, 0);
	client = say_to(rig_http, "CONNECT Site.Example.test.:%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(client, "200", out, sizeof(out)), 0);
	close(client);
	close(server);
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_flow WHERE state = 'done'"
	    " AND host = 'site.example.test' AND dialled = '" NETNS_SITE "'"
	    " AND addresses = '[\"" NETNS_SIX "\",\"" NETNS_SITE "\"]'");
	/* It is remembered for as long as it says. */
	assert_int_equal(rig_asked(), 2);
	client = say_to(0, "CONNECT site.example.test:%u HTTP/1.1\r\n\r\n");
	close(rig_accept(site));
	close(client);
	assert_int_equal(rig_asked(), 2);
	rig_stop(&s);
}

/* EG-17: EG-18: EG-79: names that lead here, to the link, to networks, also beside a good address.
 */
static void
names_that_lead_inside_are_refused(void **state)
{
	static const char *const all[] = {"127.0.0.1", NETNS_SITE " 127.0.0.1", NETNS_BOX,
	    "0.0.0.0", "169.254.169.254", NETNS_SITE " 10.1.2.3", "::1", "64:ff9b::7f00:1",
	    "64:ff9b::a01:203", "2002:7f00:1::", "fe80::1", "fec0::5", "::ffff:0:7f00:1",
	    "fd12:3456::9", NETNS_SITE " 64:ff9b:1::5"};
	char name[32];
	size_t i;

	(void)state;
	begin(NULL);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		snprintf(name, sizeof(name), "n%zu.example.test", i);
		rig_name(name, all[i], 60, 0);
		snprintf(request, sizeof(request), "CONNECT %s:%u HTTP/1.1\r\n\r\n", name, port);
		rig_ask(rig_http, request, out, sizeof(out));
		refused_as(out, 403, "[egress.");
		assert_int_equal(socks_name(name, strlen(name), port), 2);
	}
	assert_false(rig_contacted(site));
	rig_stop(&s);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state <> 'refused'"), 0);
}

/* EG-76: one address, one dial, and what failed is told. CEG-2: the same name where somebody
 * listens. */
static void
a_name_that_cannot_be_dialled(void **state)
{
	int client, server;

	(void)state;
	begin(NULL);
	rig_name("site.example.test", NETNS_OTHER, 60, 0);
	rig_ask(rig_http, "CONNECT site.example.test:443 HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 502, "egress.dial");
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_flow WHERE state = 'failed' AND dialled IS NULL"
	    " AND addresses = '[\"" NETNS_OTHER "\"]'");
	assert_false(rig_contacted(site));
	rig_name("good.example.test", NETNS_SITE, 60, 0);
	client = say_to(rig_http, "CONNECT good.example.test:%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(client, " 200 ", out, sizeof(out)), 0);
	close(client);
	close(server);
	rig_stop(&s);
}

/* SEG-03: SK-01: ports of the loopback address alone, one for each protocol. */
static void
ports_are_of_loopback(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	int fd;

	(void)state;
	begin(NULL);
	assert_int_not_equal(rig_http, rig_socks);
	inet_pton(AF_INET, NETNS_BOX, &at.sin_addr);
	at.sin_port = htons((uint16_t)rig_http);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), -1);
	at.sin_port = htons((uint16_t)rig_socks);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), -1);
	close(fd);
	rig_stop(&s);
}

/* SEG-09: what was refused is there with its host; what stood in the path is nowhere. */
static void
paths_are_not_kept(void **state)
{
	char path[PATH_MAX], command[PATH_MAX + 64];

	(void)state;
	begin("INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
	      " VALUES ('allow', 'good.example', 1, 0)");
	rig_ask(rig_http,
	    "GET http://bad.example/x?token=hush-hush-8841 HTTP/1.1\r\nAuthorization: hush-hush-8841\r\n\r\n",
	    out, sizeof(out));
	refused_as(out, 403, "egress.unknown");
	assert_null(strstr(out, "hush"));
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_flow WHERE host = 'bad.example' AND state = 'refused'");
	rig_stop(&s);
	snprintf(path, sizeof(path), "%s", s.home.state);
	snprintf(command, sizeof(command), "grep -rqa hush-hush-8841 %s", path);
	assert_int_not_equal(system(command), 0);
	snprintf(command, sizeof(command), "grep -rqa bad.example %s", path);
	assert_int_equal(system(command), 0);
}

/* DNS rebinding: the second answer is vetted like the first, and the first is what is dialled. */
static void
rebinding_gains_nothing(void **state)
{
	int client, server;

	(void)state;

	begin(NULL);
	rig_name("evil.example.test", NETNS_SITE, 0, 1);
	rig_name("evil.example.test", "127.0.0.1", 0, 1);
	rig_name("evil.example.test", NETNS_BOX, 0, 0);
	client = say_to(rig_http, "CONNECT evil.example.test:%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	close(client);
	close(server);
	snprintf(request, sizeof(request), "CONNECT evil.example.test:%u HTTP/1.1\r\n\r\n", port);
	rig_ask(rig_http, request, out, sizeof(out));
	refused_as(out, 403, "egress.this_machine");
	rig_ask(rig_http, request, out, sizeof(out));
	refused_as(out, 403, "egress.own");
	rig_stop(&s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state = 'done'"
					   " AND addresses = '[\"" NETNS_SITE "\"]'"),
	    1);
}

/* While it is open, a row says how much was carried. */
static void
open_rows_say_how_much(void **state)
{
	int client, server;

	(void)state;
	begin("UPDATE setting SET value = 100 WHERE name = 'egress.report_ms'");
	client = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	rig_say(client, "12345");
	rig_say(server, "1234567");
	rig_until(&s, 1, "SELECT count(*) FROM live_flows WHERE up = 5 AND down = 7");
	scratch_refused(&s, "egress.fixed", "UPDATE egress_flow SET down = 6");
	scratch_refused(
	    &s, "egress.fixed", "UPDATE egress_flow SET up = 9, addresses = '[\"198.51.100.9\"]'");
	close(client);
	close(server);
	rig_until(&s, 0, "SELECT count(*) FROM live_flows");
	rig_stop(&s);
}

/* What is denied while it is open ends then. */
static void
a_rule_that_goes_ends_what_it_allowed(void **state)
{
	int client, server;

	(void)state;
	begin(NULL);
	client = say_to(rig_http, "CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	server = rig_accept(site);
	assert_int_equal(rig_hear_until(client, "\r\n\r\n", out, sizeof(out)), 0);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"), 0);
	rig_awaken();
	assert_int_equal(rig_hear(client, out, sizeof(out)), 0);
	assert_int_equal(rig_hear(server, out, sizeof(out)), 0);
	close(client);
	close(server);
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_flow WHERE state = 'failed' AND code = 'egress.denied'");
	rig_stop(&s);
}

static const struct proxy_who host = {.host = true, .id = 1};

/* Two grants of one connection to the site for the Host; the lane begins then. */
static void
begin_granted(struct person *person, const char *settings)
{
	struct approval_question q = {.op = "egress:reach", .uses = 1, .ttl_ms = 600000};
	char args[64], code[7];
	int64_t id, grant;
	int n;

	if (!isolated)
		skip();
	clock_fix(MONDAY);
	person_enrol(&s, person, "phone");
	assert_int_equal(person_host(&s, "laptop"), 1);
	snprintf(args, sizeof(args), "[\"" NETNS_SITE "\",\"%u\"]", port);
	q.args = args;
	for (n = 0; n < 2; n++) {
		q.ttl_ms += n * 1000;
		assert_int_equal(approval_put(scratch_open(&s, ROLE_NET), 1, &q, &id), 0);
		clock_fix(clock_now() + 30000);
		assert_int_equal(
		    person_answers(&s, id, person_code(person, clock_now(), code), NULL, &grant),
		    0);
	}
	begin(settings);
}

/* A tunnel of the Host's to the site. */
static void
granted_tunnel(int *client, int *server)
{
	*client = rig_take(host);
	request_fill("CONNECT " NETNS_SITE ":%u HTTP/1.1\r\n\r\n");
	rig_say(*client, request);
	*server = rig_accept(site);
	assert_int_equal(rig_hear_until(*client, "\r\n\r\n", out, sizeof(out)), 0);
	assert_memory_equal(out, "HTTP/1.1 200 ", 13);
}

static void
ended(int client, int server)
{
	assert_int_equal(rig_hear(client, out, sizeof(out)), 0);
	assert_int_equal(rig_hear(server, out, sizeof(out)), 0);
	close(client);
	close(server);
}

/* A grant that is used up is taken back while it holds a connection, which ends; it ends as well
 * where the time of its grant is over, or who approved it is dropped. */
static void
a_grant_that_is_used_up_ends(void **state)
{
	struct person person;
	int client, server, other, there;
	int64_t count;

	(void)state;
	begin_granted(&person, NULL);
	granted_tunnel(&client, &server);
	granted_tunnel(&other, &there);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant WHERE state = 'spent'"), 2);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(grant_drop(s.db, 1, &count), 0);
	assert_int_equal(count, 1);
	rig_awaken();
	ended(client, server);
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE code = 'egress.denied'");
	rig_say(other, "bytes");
	assert_int_equal(rig_hear_until(there, "bytes", out, sizeof(out)), 0);
	/* What holds nothing any more is history. */
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(grant_drop(s.db, 1, &count), 0);
	assert_int_equal(count, 0);
	/* Nobody writes anything: the look of every few seconds finds it. */
	clock_fix(clock_now() + 700000);
	rig_awaken();
	ended(other, there);
	rig_until(&s, 2, "SELECT count(*) FROM egress_flow WHERE code = 'egress.denied'");
	scratch_refused(&s, "grant.spent",
	    "UPDATE grant SET state = 'dropped', ended_at = now_ms() WHERE id = 2");
	rig_stop(&s);
	clock_fix(-1);
}

/* Who approved it is dropped: so is what is used up and holds something. */
static void
a_grant_that_is_used_up_ends_with_its_factor(void **state)
{
	struct person person;
	int client, server;

	(void)state;
	begin_granted(&person, NULL);
	granted_tunnel(&client, &server);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE factor SET state = 'dropped', dropped_at = now_ms()"), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM grant WHERE state = 'dropped'"), 2);
	rig_awaken();
	ended(client, server);
	rig_stop(&s);
	clock_fix(-1);
}

/* A Host that is held reaches nothing by a rule either, and what it has under way ends. */
static void
a_held_host_reaches_nothing(void **state)
{
	struct person person;
	int client, server, late;

	(void)state;
	begin_granted(&person,
	    "INSERT INTO egress_rule (verdict, pairing_id, suffix, made_at, made_by_uid)"
	    " VALUES ('allow', 1, '*', now_ms(), 0)");
	granted_tunnel(&client, &server);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_way"), 1);
	assert_int_equal(
	    scratch_sql(&s, "INSERT INTO quarantine (pairing_id, strikes, last, from_at, until_at)"
			    " VALUES (1, 3, 1, now_ms(), now_ms() + 600000)"),
	    0);
	late = rig_take(host);
	rig_say(late, request);
	rig_hear(late, out, sizeof(out));
	assert_non_null(strstr(out, "pairing.held"));
	close(late);
	rig_awaken();
	ended(client, server);
	assert_false(rig_contacted(site));
	assert_int_equal(scratch_sql(&s, "UPDATE quarantine SET state = 'lifted', by_uid = 0,"
					 " ended_at = now_ms()"),
	    0);
	granted_tunnel(&client, &server);
	close(client);
	close(server);
	rig_stop(&s);
	clock_fix(-1);
}

/* Whoever asks without end fills no database, and hides nobody else: what a run is refused is still
 * there to be read, and the first of everybody is, however many others are refused. */
static void
nobodys_refusals_hide_anothers(void **state)
{
	const struct proxy_who run = {.id = 4000, .run = 1}, late = {.id = 4001};
	int n, fd;

	(void)state;
	if (!isolated)
		skip();
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(s.db), 0);
	assert_true(process_self(s.db) > 0);
	assert_int_equal(store_commit(s.db), 0);
	begin(
	    "INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words, net, started_at)"
	    " SELECT lower(hex(randomblob(16))), 'native', max(id), 4000, 'agent', 1, 'sockets',"
	    "  now_ms() FROM process;"
	    "INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
	    " VALUES ('allow', 'nothing.example', now_ms(), 0);"
	    "UPDATE setting SET value = 3 WHERE name = 'egress.refused';"
	    "UPDATE setting SET value = 4 WHERE name = 'egress.refused_all'");
	for (n = 0; n < 6; n++) {
		rig_ask(rig_http, "CONNECT a.example:443 HTTP/1.1\r\n\r\n", out, sizeof(out));
		refused_as(out, 403, "egress.unknown");
	}
	rig_until(&s, 3, "SELECT count(*) FROM egress_flow WHERE state = 'refused'");
	assert_int_equal(scratch_value(&s, "SELECT dropped FROM egress_refused_dropped"), 3);
	fd = rig_catch(run, "b.example", 443);
	rig_hear(fd, out, sizeof(out));
	close(fd);
	rig_until(
	    &s, 1, "SELECT count(*) FROM egress_flow WHERE run_id = 1 AND code = 'egress.unknown'");
	/* Those of all together are as many as are kept, and the first of another is kept. */
	for (n = 0; n < 2; n++) {
		fd = rig_catch(late, "c.example", 443);
		rig_hear(fd, out, sizeof(out));
		close(fd);
	}
	rig_until(&s, 2,
	    "SELECT count(*) FROM egress_refused_dropped"
	    " WHERE who IN ('uid 4001', 'all together') AND dropped = 1");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE uid = 4001"), 1);
	/* That there were more is said once of each. */
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit"
					   " WHERE entity = 'egress_stretch' AND action = 'full'"),
	    3);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'egress_flow'"
					   " AND action = 'refused'"),
	    5);
	/* The next minute is another. */
	assert_int_equal(scratch_sql(&s, "UPDATE egress_stretch SET since = since - 60000"), 0);
	rig_ask(rig_http, "CONNECT a.example:443 HTTP/1.1\r\n\r\n", out, sizeof(out));
	rig_until(&s, 4, "SELECT count(*) FROM egress_flow WHERE uid NOT IN (4000, 4001)");
	rig_stop(&s);
}

/* Rows of connections go when their time is over, and not before. */
static void
old_rows_go(void **state)
{
	(void)state;
	begin(NULL);
	rig_ask(rig_http, "CONNECT " NETNS_SITE ":9 HTTP/1.1\r\n\r\n", out, sizeof(out));
	rig_ask(rig_http, "CONNECT " NETNS_SITE ":9 HTTP/1.1\r\n\r\n", out, sizeof(out));
	rig_until(&s, 2, "SELECT count(*) FROM egress_flow WHERE state = 'failed'");
	scratch_refused(&s, "retention.kept", "DELETE FROM egress_flow WHERE id = 1");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 0 WHERE name = 'egress.keep_days'"), 0);
	rig_awaken();
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow");
	assert_int_equal(scratch_value(&s, "SELECT id FROM egress_flow"), 2);
	rig_stop(&s);
}

/* A socket that its owner closed names nobody, whoever it was: root least of all. */
static void
a_closed_socket_is_nobodys(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
			   from;
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), diag = who_open(), fd, there;
	uid_t uid = 77;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_not_equal(there = accept(listener, (struct sockaddr *)&from, &len), -1);
	assert_int_equal(who_tcp(diag, &at, &from, &uid), 0);
	assert_int_equal(uid, getuid());
	close(fd);
	assert_int_equal(who_tcp(diag, &at, &from, &uid), -1);
	close(there);
	close(listener);
	close(diag);
}

/* An address that this machine gets is its own from then on. */
static void
a_new_address_is_known(void **state)
{
	static const char *const add[] = {
	    "ip", "addr", "add", "203.0.113.77/32", "dev", "lo", NULL};
	static const char *const del[] = {
	    "ip", "addr", "del", "203.0.113.77/32", "dev", "lo", NULL};
	pid_t pid;

	(void)state;
	begin("UPDATE setting SET value = 300 WHERE name = 'egress.dial_ms'");
	rig_ask(rig_http, "CONNECT 203.0.113.77:9 HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 502, "egress.dial");
	if ((pid = fork()) == 0) {
		execvp(add[0], (char *const *)(uintptr_t)add);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	rig_until(&s, 1,
	    "SELECT count(*) > 0 FROM own_address WHERE first = address_bytes('203.0.113.77')");
	rig_ask(rig_http, "CONNECT 203.0.113.77:9 HTTP/1.1\r\n\r\n", out, sizeof(out));
	refused_as(out, 403, "egress.own");
	if ((pid = fork()) == 0) {
		execvp(del[0], (char *const *)(uintptr_t)del);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	rig_stop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_tunnel_carries_both_ways, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_row_comes_before_the_first_byte, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_plain_request_is_written_anew, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_second_request_reaches_nobody, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_body_ends_where_it_ends, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(this_machine_is_not_reached, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(models_are_not_reached, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(refusals_say_why, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(what_is_no_request_is_closed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(broken_answers_are_not_passed_on, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(heads_before_an_answer_are_bounded, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_slow_reader_gets_every_head, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(ends_come_through, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(ends_go_along_with_openings, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(socks_tunnels, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(socks_by_ipv6, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(socks_speaks_little, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(socks_names_are_read_strictly, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(slow_heads_are_closed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(idle_tunnels_end, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(one_too_many_is_told, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(one_users_connections_are_capped, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(whoever_goes_while_it_is_decided, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_rule_that_goes_meanwhile_refuses, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(one_users_names_are_capped, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_kernel_says_who_asks, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(much_goes_through_unchanged, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(names_lead_to_vetted_addresses, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(names_that_lead_inside_are_refused, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_name_that_cannot_be_dialled, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(ports_are_of_loopback, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(paths_are_not_kept, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rebinding_gains_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		a_rule_that_goes_ends_what_it_allowed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(open_rows_say_how_much, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_grant_that_is_used_up_ends, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		a_grant_that_is_used_up_ends_with_its_factor, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_held_host_reaches_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(nobodys_refusals_hide_anothers, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(old_rows_go, set_up, tear_down),
	    cmocka_unit_test(a_closed_socket_is_nobodys),
	    cmocka_unit_test_setup_teardown(a_new_address_is_known, set_up, tear_down),
	};

	real_root = geteuid() == 0;
	isolated = netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
