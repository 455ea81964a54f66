/* test_mcp_http.c: agents at /mcp: who may speak, sessions, streams, and what they cannot break. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/host/mcp_feed.h"
#include "tests/driver.h"
#include "tests/wire.h"

#define TYPES                                \
	"Content-Type: application/json\r\n" \
	"Accept: application/json, text/event-stream\r\n"
#define HERE "Host: localhost\r\n"
#define HELLO                                                                                      \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":" \
	"\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define OVER "\r\n0\r\n\r\n" /* the last chunk of a stream */
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

static struct driver d;
static struct said said;
static struct wire_answer answer;
static uint16_t port;
static char control[640];
static char bearer[2][160]; /* headers of two agents */

static int
dial(void)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
	    .sin_port = htons(port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd != -1);
	assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

/* A request at the port, with exactly these headers and a length. */
static void
request(int fd, const char *method, const char *headers, const char *body)
{
	static char text[80000];

	/* In one piece: the second would wait for the first to be acknowledged. */
	snprintf(text, sizeof(text), "%s /mcp HTTP/1.1\r\nContent-Length: %zu\r\n%s\r\n%s", method,
	    strlen(body), headers, body);
	assert_int_equal(wire_send(fd, text, strlen(text)), 0);
}

static int
ask(const char *method, const char *headers, const char *body)
{
	int fd = dial();

	request(fd, method, headers, body);
	wire_take(fd, &answer);
	close(fd);
	return answer.status;
}

/* What an agent sends with everything, for the session ${id} (NULL: none). */
static const char *
with(int agent, const char *id)
{
	static char headers[8][1024];
	static int n;
	char *out = headers[n++ % 8];

	snprintf(out, sizeof(headers[0]), "%s%s%s%s%s%s", HERE, TYPES, bearer[agent],
	    id == NULL ? "" : "Mcp-Session-Id: ", id == NULL ? "" : id, id == NULL ? "" : "\r\n");
	return out;
}

/* Begin a session; its id lives until the next but seven. */
static const char *
begin(int agent)
{
	static char ids[8][64];
	static int n;
	char *id = ids[n++ % 8];
	const char *at;

	assert_int_equal(ask("POST", with(agent, NULL), HELLO), 200);
	assert_non_null(at = strstr(answer.head, "Mcp-Session-Id: "));
	assert_int_equal(sscanf(at, "Mcp-Session-Id: %63s", id), 1);
	return id;
}

static const char *
look(int id, const char *path)
{
	static char text[512];

	snprintf(text, sizeof(text),
	    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":"
	    "\"%s.observe_folders\",\"arguments\":{\"path\":\"%s\",\"depth\":1},\"_meta\":{"
	    "\"progressToken\":\"p%d\"}}}",
	    id, d.box, path, id);
	return text;
}

/* Read until ${text} has come, or the end; what came is in ${seen}.  Return whether it did. */
static bool
until(int fd, char *seen, size_t size, const char *text)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t len = strlen(seen);
	ssize_t n;

	while (strstr(seen, text) == NULL) {
		if (poll(&p, 1, DRIVER_WAIT_MS) != 1 ||
		    (n = recv(fd, seen + len, size - 1 - len, 0)) <= 0)
			return false;
		seen[len += (size_t)n] = '\0';
	}
	return true;
}

static uint16_t
free_port(void)
{
	struct sockaddr_in name = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (const struct sockaddr *)&name, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	close(fd);
	return ntohs(name.sin_port);
}

static void
set(const char *name, const char *value)
{
	driver_does(&said, NULL, "settings", "set", "--host", name, value, NULL);
}

static void
again(void)
{
	driver_end(&d, DRIVER_HOST, SIGTERM);
	driver_serve(&d, DRIVER_HOST);
}

static int
serve(void **state)
{
	static const char *const labels[] = {"one", "two"};
	char text[16];
	int i;

	(void)state;
	driver_first_day(&d);
	/* So that no test waits for the authenticator's next code. */
	driver_does(&said, NULL, "settings", "set", "factor.steps", "10", NULL);
	port = free_port();
	snprintf(text, sizeof(text), "%u", (unsigned)port);
	set("mcp.port", text);
	set("mcp.beat_ms", "200");
	again();
	for (i = 0; i < 2; i++) {
		driver_does(&said, NULL, "mcp", "token", "add", labels[i], NULL);
		said.out[strcspn(said.out, "\n")] = '\0';
		snprintf(
		    bearer[i], sizeof(bearer[i]), "Authorization: Bearer %.100s\r\n", said.out);
	}
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_HOST]);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

/*
 * Who may speak.
 */

/* MH-1: without a live token nothing is said, not even which sessions there are; with one the
 * port offers /mcp and nothing else. */
static void
no_token_no_word(void **state)
{
	static const char *const bad[] = {"", "Authorization: Bearer \r\n",
	    "Authorization: Bearer x\r\n", "Authorization: Basic eDp4\r\n",
	    "Authorization: bsm_\r\n"};
	char headers[512];
	size_t i;
	int fd;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(
		    headers, sizeof(headers), "%s%s%sMcp-Session-Id: x\r\n", HERE, TYPES, bad[i]);
		assert_int_equal(ask("POST", headers, HELLO), 401);
		assert_string_equal(answer.refused, "mcp.token");
		assert_non_null(strstr(answer.head, "WWW-Authenticate: Bearer"));
		assert_int_equal(ask("GET", headers, ""), 401);
		assert_int_equal(ask("DELETE", headers, ""), 401);
	}
	fd = dial();
	wire_request(fd, "GET", "/v1/status", bearer[0], "", 0);
	wire_take(fd, &answer);
	close(fd);
	assert_int_equal(answer.status, 404);
}

/* MH-2: a web page elsewhere does not get in, by its own name or by a DNS that it moved. */
static void
web_pages_do_not_get_in(void **state)
{
	static const struct {
		const char *headers;
		int status;
	} cases[] = {
	    {"Host: evil.example\r\n", 403},
	    {"Host: localhost.evil.example\r\n", 403},
	    {"Host: 127.0.0.1.evil.example\r\n", 403},
	    {"Host: localhost:x\r\n", 403},
	    {"Host: localhost:\r\n", 403},
	    {"Host: 10.0.0.1\r\n", 403},
	    {"Host: localhost\r\nOrigin: http://evil.example\r\n", 403},
	    {"Host: localhost\r\nOrigin: null\r\n", 403},
	    {"Host: localhost\r\nOrigin: http://localhost.evil.example\r\n", 403},
	    {"Host: localhost\r\nOrigin: http://localhost@evil.example\r\n", 403},
	    {"Host: localhost\r\nOrigin: ftp://localhost\r\n", 403},
	    {"Host: localhost\r\nOrigin: \r\n", 403},
	    {"Host: localhost:80\r\nOrigin: http://localhost:3000\r\n", 200},
	    {"Host: 127.0.0.1:7\r\nOrigin: https://127.0.0.1\r\n", 200},
	    {"Host: [::1]:7\r\n", 200},
	    {"Host: LOCALHOST\r\n", 200},
	};
	char headers[1024];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(headers, sizeof(headers), "%s%s%s", cases[i].headers, TYPES, bearer[0]);
		if (ask("POST", headers, HELLO) != cases[i].status)
			fail_msg("%s: %d %s", cases[i].headers, answer.status, answer.refused);
	}
}

/* MH-3: a session is of whoever began it: another agent with a token of its own, or the user at
 * control.sock, does not find it. */
static void
sessions_are_of_one_agent(void **state)
{
	const char *id = begin(0);
	char headers[512];

	(void)state;
	assert_int_equal(ask("POST", with(0, id), PING), 200);
	assert_int_equal(ask("POST", with(1, id), PING), 404);
	assert_string_equal(answer.refused, "mcp.session");
	assert_int_equal(ask("GET", with(1, id), ""), 404);
	assert_int_equal(ask("DELETE", with(1, id), ""), 404);
	snprintf(headers, sizeof(headers), "%sMcp-Session-Id: %s\r\n", TYPES, id);
	assert_int_equal(
	    wire_ask(control, "POST", "/mcp", headers, PING, strlen(PING), &answer), 404);
	assert_int_equal(ask("POST", with(0, id), PING), 200);
	assert_int_equal(ask("DELETE", with(0, id), ""), 204);
	assert_int_equal(ask("POST", with(0, id), PING), 404);
	assert_int_equal(ask("DELETE", with(0, id), ""), 404);
}

/* MH-4: control.sock knows who asks; a token is neither needed nor looked at. */
static void
the_socket_needs_no_token(void **state)
{
	(void)state;
	assert_int_equal(
	    wire_ask(control, "POST", "/mcp", TYPES, HELLO, strlen(HELLO), &answer), 200);
	assert_non_null(strstr(answer.head, "Mcp-Session-Id: "));
	assert_int_equal(wire_ask(control, "POST", "/mcp", TYPES "Origin: http://evil.example\r\n",
			     HELLO, strlen(HELLO), &answer),
	    403);
}

/* MH-5: a token that is dropped ends its sessions and their streams at once. */
static void
a_dropped_token_is_over_at_once(void **state)
{
	char seen[4096] = "", gone[160];
	const char *id;
	int fd;

	(void)state;
	snprintf(gone, sizeof(gone), "%s", bearer[1]);
	id = begin(1);
	fd = dial();
	request(fd, "GET", with(1, id), "");
	assert_true(until(fd, seen, sizeof(seen), "text/event-stream"));
	driver_does(&said, NULL, "mcp", "token", "drop", "two", NULL);
	assert_true(until(fd, seen, sizeof(seen), OVER));
	close(fd);
	assert_int_equal(ask("POST", with(1, id), PING), 401);
	driver_refused(&said, 2, "mcp.unknown", NULL, "mcp", "token", "drop", "two", NULL);
	driver_does(&said, NULL, "mcp", "token", "add", "two", NULL);
	said.out[strcspn(said.out, "\n")] = '\0';
	snprintf(bearer[1], sizeof(bearer[1]), "Authorization: Bearer %.100s\r\n", said.out);
	assert_string_not_equal(gone, bearer[1]);
	assert_int_equal(ask("POST", with(1, id), PING), 404);
	driver_does(&said, NULL, "mcp", "token", "ls", "--all", "--json", NULL);
	assert_non_null(strstr(said.out, "dropped"));
	assert_null(strstr(said.out, "digest"));
}

/*
 * Requests.
 */

/* MH-6: what is not in the form of the transport is refused with its own code. */
static void
the_form_is_held(void **state)
{
	static const struct {
		const char *method, *headers, *refused;
		int status;
	} cases[] = {
	    {"POST", "Accept: application/json, text/event-stream\r\n", "mcp.type", 415},
	    {"POST", "Content-Type: text/plain\r\nAccept: */*\r\n", "mcp.type", 415},
	    {"POST", "Content-Type: application/json\r\n", "mcp.accept", 406},
	    {"POST", "Content-Type: application/json\r\nAccept: application/json\r\n", "mcp.accept",
		406},
	    {"POST",
		"Content-Type: application/json\r\nAccept: application/jsonx, text/event-stream\r\n",
		"mcp.accept", 406},
	    {"POST", TYPES "Mcp-Session-Id: 00000000000000000000000000000000\r\n", "mcp.session",
		404},
	    {"POST", TYPES "Mcp-Session-Id: \r\n", "mcp.session", 404},
	    {"GET", "", "mcp.accept", 406},
	    {"GET", TYPES, "mcp.session_missing", 400},
	    {"DELETE", "", "mcp.session_missing", 400},
	    {"PUT", TYPES, "http.method", 405},
	};
	const char *id = begin(0);
	char headers[1024];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(headers, sizeof(headers), "%s%s%s", HERE, bearer[0], cases[i].headers);
		if (ask(cases[i].method, headers,
			strcmp(cases[i].method, "POST") == 0 ? PING : "") != cases[i].status ||
		    strcmp(answer.refused, cases[i].refused) != 0)
			fail_msg("%s %s: %d %s", cases[i].method, cases[i].headers, answer.status,
			    answer.refused);
	}
	/* No session yet: only initialize begins one. */
	assert_int_equal(ask("POST", with(0, NULL), "[]"), 400);
	assert_int_equal(ask("POST", with(0, NULL), "{"), 400);
	assert_int_equal(
	    ask("POST", with(0, NULL), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"),
	    400);
	assert_int_equal(ask("POST", with(0, NULL), "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"), 400);
	assert_null(strstr(answer.head, "Mcp-Session-Id"));
	snprintf(headers, sizeof(headers), "%sMCP-Protocol-Version: 2099-01-01\r\n", with(0, id));
	assert_int_equal(ask("POST", headers, PING), 400);
	assert_string_equal(answer.refused, "mcp.version");
	assert_int_equal(ask("POST", with(0, id), "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"), 202);
	assert_int_equal(answer.len, 0);
	assert_int_equal(ask("POST", with(0, id), "[]"), 400);
	assert_non_null(strstr(answer.body, "-32600"));
}

/* MH-7: a message that is too long or nested too deeply is refused, and the session goes on. */
static void
large_and_deep_messages_are_refused(void **state)
{
	static char text[70000];
	const char *id = begin(0);

	(void)state;
	memset(text, ' ', sizeof(text) - 1);
	memcpy(text, PING, strlen(PING));
	assert_int_equal(ask("POST", with(0, id), text), 413);
	text[65536] = '\0';
	assert_int_equal(ask("POST", with(0, id), text), 200);
	memset(text, '[', 60000);
	text[60000] = '\0';
	assert_int_equal(ask("POST", with(0, id), text), 400);
	assert_non_null(strstr(answer.body, "-32700"));
	assert_int_equal(ask("POST", with(0, id), PING), 200);
}

/*
 * Calls.
 */

/* MH-8: a call that nobody approved waits, says for what, and is answered once a person said yes;
 * the audit names the agent, and the box ran it once. */
static void
a_call_waits_for_a_person(void **state)
{
	static char seen[65536];
	const char *id = begin(0);
	char mark[128];
	int fd = dial();
	int64_t runs = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), question;

	(void)state;
	seen[0] = '\0';
	request(fd, "POST", with(0, id), look(5, d.state[DRIVER_HOST]));
	assert_true(until(fd, seen, sizeof(seen), "approve question"));
	question = driver_question(&d);
	snprintf(
	    mark, sizeof(mark), "a person at %s has to approve question %" PRId64, d.box, question);
	assert_non_null(strstr(seen, mark));
	/* It is said again, with a higher number. */
	assert_true(until(fd, seen, sizeof(seen), "\"progress\":3"));
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), runs);
	driver_approve(&d, question);
	assert_true(until(fd, seen, sizeof(seen), "\"id\":5"));
	assert_true(until(fd, seen, sizeof(seen), "structuredContent"));
	assert_null(strstr(seen, "isError"));
	assert_true(until(fd, seen, sizeof(seen), OVER)); /* the stream has ended */
	close(fd);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), runs + 1);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT who = 'agent:one' FROM audit WHERE entity = 'call'"
			     " AND action = 'asked' ORDER BY seq DESC LIMIT 1"),
	    1);
}

/* MH-9: a no is an answer, at once, and puts no further question. */
static void
a_no_is_an_answer(void **state)
{
	static char seen[65536];
	const char *id = begin(0);
	char number[24];
	int fd = dial();
	int64_t question;

	(void)state;
	seen[0] = '\0';
	request(fd, "POST", with(0, id), look(6, "/usr/share"));
	assert_true(until(fd, seen, sizeof(seen), "approve question"));
	question = driver_question(&d);
	snprintf(number, sizeof(number), "%" PRId64, question);
	driver_does(&said, NULL, "deny", number, NULL);
	assert_true(until(fd, seen, sizeof(seen), "approval.denied"));
	assert_true(until(fd, seen, sizeof(seen), "\"isError\":true"));
	close(fd);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM approval WHERE id > %" PRId64 " OR state = 'pending'",
		question),
	    0);
}

/* MH-10: a call that its agent takes back is over on both sides: approving what it asked runs
 * nothing. */
static void
a_call_that_is_taken_back_never_runs(void **state)
{
	static char seen[65536];
	const char *id = begin(0);
	int64_t question, runs = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run");
	int fd = dial();

	(void)state;
	seen[0] = '\0';
	request(fd, "POST", with(0, id), look(7, "/usr/lib"));
	assert_true(until(fd, seen, sizeof(seen), "approve question"));
	question = driver_question(&d);
	assert_int_equal(
	    ask("POST", with(0, id),
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
		"\"requestId\":7,\"reason\":\"enough\"}}"),
	    202);
	assert_true(until(fd, seen, sizeof(seen), OVER));
	assert_null(strstr(seen, "\"id\":7"));
	close(fd);
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT code = 'call.cancelled' FROM call ORDER BY id DESC LIMIT 1");
	driver_approve(&d, question);
	assert_int_equal(ask("POST", with(0, id), PING), 200);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), runs);
	driver_does(&said, NULL, "grants", "drop", "--all", NULL);
}

/* MH-11: a client that dies in the middle of a wait loses nothing: its stream is taken up again by
 * the last id that it saw, and has the answer, on this stream alone and once. */
static void
a_stream_is_taken_up_again(void **state)
{
	static char seen[65536];
	const char *id = begin(0);
	char headers[1200];
	int fd = dial();

	(void)state;
	seen[0] = '\0';
	request(fd, "POST", with(0, id), look(8, d.state[DRIVER_BOX]));
	assert_true(until(fd, seen, sizeof(seen), "approve question"));
	assert_non_null(strstr(seen, "id: 1-1\ndata: \n\n"));
	close(fd);
	driver_approve(&d, driver_question(&d));
	driver_until(
	    &d, DRIVER_HOST, 1, "SELECT state = 'done' FROM call ORDER BY id DESC LIMIT 1");
	snprintf(headers, sizeof(headers), "%sLast-Event-ID: 1-1\r\n", with(0, id));
	assert_int_equal(ask("GET", headers, ""), 200);
	assert_true(answer.whole);
	assert_non_null(strstr(answer.body, "approve question"));
	assert_non_null(strstr(answer.body, "structuredContent"));
	assert_int_equal(ask("GET", headers, ""), 200); /* kept, and ends by itself */
	assert_non_null(strstr(answer.body, "structuredContent"));
	snprintf(headers, sizeof(headers), "%sLast-Event-ID: 2-1\r\n", with(0, id));
	assert_int_equal(ask("GET", headers, ""), 400);
	assert_string_equal(answer.refused, "mcp.resume");
	snprintf(headers, sizeof(headers), "%sLast-Event-ID: 1-99999999\r\n", with(0, id));
	assert_int_equal(ask("GET", headers, ""), 400);
	snprintf(headers, sizeof(headers), "%sLast-Event-ID: 1-1x\r\n", with(0, id));
	assert_int_equal(ask("GET", headers, ""), 400);
	snprintf(
	    headers, sizeof(headers), "%sLast-Event-ID: 18446744073709551616-1\r\n", with(0, id));
	assert_int_equal(ask("GET", headers, ""), 400);
	/* Another session has its own events. */
	snprintf(headers, sizeof(headers), "%sLast-Event-ID: 1-1\r\n", with(0, begin(0)));
	assert_int_equal(ask("GET", headers, ""), 400);
}

/* MH-12: the end of a session takes back what it waits for. */
static void
the_end_takes_back_what_waits(void **state)
{
	static char seen[65536];
	const char *id = begin(0);
	int fd = dial();

	(void)state;
	seen[0] = '\0';
	request(fd, "POST", with(0, id), look(9, "/usr/bin"));
	assert_true(until(fd, seen, sizeof(seen), "approve question"));
	assert_int_equal(ask("DELETE", with(0, id), ""), 204);
	assert_true(until(fd, seen, sizeof(seen), OVER));
	close(fd);
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT code = 'call.cancelled' FROM call ORDER BY id DESC LIMIT 1");
}

/* A Host that is stopped while an agent waits tells the box, and only then ends: what is queued
 * there runs no more. */
static void
a_stopped_host_takes_back_what_waits(void **state)
{
	const char *id = begin(0);
	pid_t worker;
	int fd = dial(), status;

	(void)state;
	driver_grant(&d, "observe:folders", "/usr", "1", "10", "1h");
	worker = driver_actor(&d, DRIVER_BOX, "worker");
	assert_true(worker > 1 && kill(worker, SIGSTOP) == 0);
	request(fd, "POST", with(0, id), look(9, "/usr"));
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM op_run WHERE finished_at IS NULL");
	status = driver_end(&d, DRIVER_HOST, SIGTERM);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(fd);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM op_cancel AS c JOIN op_run AS r ON r.id = c.op_run_id"
		" WHERE r.state = 'cancelled' AND r.started_at IS NULL"),
	    1);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST,
		"SELECT state = 'ended' AND exit_code IS 0 FROM actor_run WHERE actor = 'link' ORDER BY id DESC"),
	    1);
	assert_int_equal(kill(worker, SIGCONT), 0);
	driver_serve(&d, DRIVER_HOST);
}

/* MH-13: what waits on the box for a person is bounded; past that an ask is refused as ever. */
static void
waits_are_bounded(void **state)
{
	const char *id = begin(0);

	(void)state;
	driver_does(&said, NULL, "settings", "set", "lane.waits", "0", NULL);
	assert_int_equal(ask("POST", with(0, id), look(9, "/usr/sbin")), 200);
	assert_non_null(strstr(answer.body, "[approval.needed]"));
	driver_does(&said, NULL, "settings", "set", "lane.waits", "64", NULL);
	/* And in time: then the question stands. */
	set("mcp.wait_ms", "300");
	assert_int_equal(ask("POST", with(0, id), look(10, "/usr/sbin")), 200);
	assert_non_null(strstr(answer.body, "approve question"));
	assert_non_null(strstr(answer.body, "[approval.needed]"));
	set("mcp.wait_ms", "600000");
	driver_until(
	    &d, DRIVER_HOST, 0, "SELECT count(*) FROM call WHERE state IN ('asked', 'sent')");
}

/*
 * Floods.
 */

/* MH-14: a thousand sessions leave no more than the setting allows, and the newest lives. */
static void
sessions_are_bounded(void **state)
{
	char first[64];
	int fd, i;

	(void)state;
	set("mcp.sessions", "16");
	snprintf(first, sizeof(first), "%s", begin(0));
	fd = dial();
	for (i = 0; i < 1000; i++) {
		request(fd, "POST", with(0, NULL), HELLO);
		wire_take(fd, &answer);
		assert_int_equal(answer.status, 200);
	}
	close(fd);
	assert_int_equal(ask("POST", with(0, first), PING), 404);
	assert_int_equal(ask("POST", with(0, begin(0)), PING), 200);
	set("mcp.sessions", "64");
}

/* MH-15: notifications without end are taken, and others are served in between. */
static void
a_flood_of_notifications_is_taken(void **state)
{
	static const char note[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
				   "\"params\":{\"requestId\":1}}";
	const char *id = begin(0), *other = begin(1);
	int fd = dial(), i;

	(void)state;
	for (i = 0; i < 2000; i++) {
		request(fd, "POST", with(0, id), note);
		wire_take(fd, &answer);
		assert_int_equal(answer.status, 202);
		if (i % 500 == 0)
			assert_int_equal(ask("POST", with(1, other), PING), 200);
	}
	close(fd);
}

/* MH-16: whoever can connect to the port cannot take the places of those at the sockets. */
static void
the_port_leaves_room_for_the_sockets(void **state)
{
	int fds[300], i;

	(void)state;
	for (i = 0; i < 300; i++)
		fds[i] = dial();
	assert_int_equal(wire_ask(control, "GET", "/v1/status", "", "", 0, &answer), 200);
	driver_does(&said, NULL, "mcp", "token", NULL);
	for (i = 0; i < 300; i++)
		close(fds[i]);
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM live_instance");
	for (i = 0; i < 1000; i++) {
		int fd = dial();

		request(fd, "POST", with(0, NULL), HELLO);
		wire_take(fd, &answer);
		close(fd);
		if (answer.status == 200)
			break;
		driver_pause();
	}
	assert_int_equal(answer.status, 200);
}

/*
 * A slow reader, at a server of the test.
 */

static struct feed *feed;
static struct feed_stream *stream;

static int
slow_handler(struct http_exchange *x, void *ctx)
{
	const char *last = http_header(x, "Last-Event-ID");

	(void)ctx;
	if (last == NULL)
		stream = feed_begin(feed, x, true);
	else if (feed_resume(feed, x, last) != 0)
		http_reply(x, 400, NULL, NULL, NULL, 0);
	return 0;
}

static int
anybody(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	(void)peer;
	return 0;
}

static void
stop_loop(void *ctx)
{
	loop_stop(ctx);
}

static void
run_for(struct loop *loop, int64_t ms)
{
	loop_after(loop, ms, stop_loop, loop);
	loop_run(loop);
}

static const struct http_route slow_routes[] = {
    {"GET", "/s", 1, 0, slow_handler, ""}, {NULL, NULL, 0, 0, NULL, NULL}};

/* The bytes that come from ${fd} until it says nothing more, and whether it has ended. */
static size_t
drain(struct loop *loop, int fd, int patience, bool *ended)
{
	static char text[65536];
	size_t all = 0;
	ssize_t n;
	int quiet;

	*ended = false;
	for (quiet = 0; quiet < patience; quiet++) {
		run_for(loop, 2);
		while ((n = recv(fd, text, sizeof(text), MSG_DONTWAIT)) > 0) {
			all += (size_t)n;
			quiet = 0;
			run_for(loop, 1);
		}
		if (n == 0)
			*ended = true;
	}
	return all;
}

/* MH-17: a reader that stops costs a bounded ring and no more: it is cut off, and may come back for
 * what is kept and not for what is not; one that reads gets every event. */
static void
a_slow_reader_is_cut_off(void **state)
{
	struct http_server_config config = {.routes = slow_routes, .authorise = anybody};
	struct loop *loop = loop_new();
	struct http_server *server;
	struct http_peer peer = {.surface = 1};
	struct refusal r;
	static char kilobyte[1024];
	int fds[2][2], i, size = 4096;
	bool ended;
	size_t got;

	(void)state;
	config.limits = (struct http_limits){.connections = 8,
	    .uid_connections = 8,
	    .body = 1024,
	    .header_bytes = 8192,
	    .headers = 64,
	    .idle_ms = 60000,
	    .request_ms = 10000,
	    .stall_ms = 30000,
	    .json_depth = 8,
	    .stream_bytes = 8192};
	assert_non_null(server = http_server_new(loop, &config, &r));
	assert_non_null(feed = feed_new(100, 65536, 8192));
	memset(kilobyte, 'a', sizeof(kilobyte));
	for (i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[i]), 0);
		setsockopt(fds[i][0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		assert_int_equal(http_serve_fd(server, fds[i][0], &peer), 0);
	}
	wire_request(fds[0][1], "GET", "/s", "", "", 0);
	run_for(loop, 20);
	/* One that reads as it comes gets everything, however much that is. */
	for (got = 0, i = 0; i < 500; i++) {
		feed_put(feed, stream, kilobyte, sizeof(kilobyte), false);
		got += drain(loop, fds[0][1], 1, &ended);
		assert_false(ended);
	}
	assert_true(got > 500 * sizeof(kilobyte));
	/* Now it stops. */
	for (i = 0; i < 10000; i++)
		feed_put(feed, stream, kilobyte, sizeof(kilobyte), false);
	assert_false(feed_is_read(feed));
	got = drain(loop, fds[0][1], 10, &ended);
	assert_true(got < 65536);
	wire_request(fds[1][1], "GET", "/s", "Last-Event-ID: 1-501\r\n", "", 0);
	got = drain(loop, fds[1][1], 10, &ended);
	assert_true(got < 1024);
	wire_request(fds[1][1], "GET", "/s", "Last-Event-ID: 1-10480\r\n", "", 0);
	got = drain(loop, fds[1][1], 10, &ended);
	assert_in_range(got, 20 * sizeof(kilobyte), 24 * sizeof(kilobyte));
	feed_put(feed, stream, "end", 3, true);
	got = drain(loop, fds[1][1], 10, &ended);
	assert_in_range(got, 3, 100);
	feed_free(feed);
	http_server_free(server);
	loop_free(loop);
	for (i = 0; i < 2; i++)
		close(fds[i][1]);
}

/*
 * Standard input and output.
 */

/* MH-18: a line is answered with a line, and nothing else is written; a line that is too long is
 * refused and the next is heard; the end of the input is the end. */
static void
lines_are_answered_with_lines(void **state)
{
	static char text[140000];
	char *at = text;

	(void)state;
	at += sprintf(at, "%s\n\r\n\n%s\r\n", HELLO, PING);
	memset(at, 'x', 130000);
	at += 130000;
	sprintf(at, "\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\nno newline");
	driver_does(&said, text, "mcp", NULL);
	assert_string_equal(said.err, "");
	assert_non_null(strstr(said.out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"));
	assert_non_null(strstr(said.out, "a message is at most 65536 bytes long"));
	assert_non_null(strstr(said.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n"));
	assert_int_equal(said.out[0], '{');
	assert_string_equal(said.out + strlen(said.out) - 2, "}\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_token_no_word),
	    cmocka_unit_test(web_pages_do_not_get_in),
	    cmocka_unit_test(sessions_are_of_one_agent),
	    cmocka_unit_test(the_socket_needs_no_token),
	    cmocka_unit_test(a_dropped_token_is_over_at_once),
	    cmocka_unit_test(the_form_is_held),
	    cmocka_unit_test(large_and_deep_messages_are_refused),
	    cmocka_unit_test(a_call_waits_for_a_person),
	    cmocka_unit_test(a_no_is_an_answer),
	    cmocka_unit_test(a_call_that_is_taken_back_never_runs),
	    cmocka_unit_test(a_stream_is_taken_up_again),
	    cmocka_unit_test(the_end_takes_back_what_waits),
	    cmocka_unit_test(a_stopped_host_takes_back_what_waits),
	    cmocka_unit_test(waits_are_bounded),
	    cmocka_unit_test(sessions_are_bounded),
	    cmocka_unit_test(a_flood_of_notifications_is_taken),
	    cmocka_unit_test(the_port_leaves_room_for_the_sockets),
	    cmocka_unit_test(a_slow_reader_is_cut_off),
	    cmocka_unit_test(lines_are_answered_with_lines),
	};

	return cmocka_run_group_tests(tests, serve, stop);
}
