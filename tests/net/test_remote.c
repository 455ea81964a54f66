/* test_remote.c: sessions from another machine: who is heard on the port, how far, and for how
 * long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/state/remote.h"
#include "engine/state/tls_identity.h"
#include "net/http/client.h"
#include "net/http/tls.h"
#include "net/http/tls_pump.h"
#include "shell/remote.h"
#include "tests/authority.h"
#include "tests/driver.h"
#include "tests/program.h"
#include "tests/slower.h"

#define ALL "run,command,list,attach,send,cancel"

static struct driver d;
static struct said said;
static uint8_t pin[32];
static char place[32], work[128], token[REMOTE_TOKEN_LEN + 1];
static int port;

/* One request, and what came of it. */
static struct {
	int rc, status;
	char code[64];
	char *body;
} answer;

static void
settings(const char *name, const char *value)
{
	driver_does(&said, NULL, "settings", "set", name, value, NULL);
}

static void
add(const char *name, const char *verbs, char out[REMOTE_TOKEN_LEN + 1])
{
	driver_does(&said, NULL, "remote", "add", name, "--root", work, "--verbs", verbs, NULL);
	assert_int_equal(strcspn(said.out, "\n"), REMOTE_TOKEN_LEN);
	memcpy(out, said.out, REMOTE_TOKEN_LEN);
	out[REMOTE_TOKEN_LEN] = '\0';
}

/* Ask as whoever holds ${secret}; a piece of the answer goes to ${chunk}. */
static int
ask_for(const char *secret, const char *method, const char *path, const char *body,
    int (*chunk)(void *ctx, struct http_call *call, const char *data, size_t len))
{
	char bearer[256], url[256];
	const struct http_field headers[] = {
	    {"Authorization", bearer}, {"Content-Type", "application/json"}, {NULL, NULL}};
	const struct tls_config config = {.pin = pin};
	struct http_request request = {.dial = place,
	    .method = method,
	    .url = url,
	    .headers = headers,
	    .body = body,
	    .body_len = body == NULL ? 0 : strlen(body),
	    .connect_ms = 20000 * SLOWER,
	    .total_ms = 30000 * SLOWER,
	    .reply_max = 1 << 20,
	    .chunk = chunk};
	struct http_answer got = {.status = 0};
	struct refusal r = {.code = ""};

	free(answer.body);
	snprintf(bearer, sizeof(bearer), "Bearer %s", secret);
	snprintf(url, sizeof(url), "https://%s%s", TLS_BOX_NAME, path);
	assert_non_null(request.tls = tls_client_end(&config, &r));
	answer.rc = http_ask(&request, &got, &r);
	tls_end_free(request.tls);
	answer.status = got.status;
	answer.body = got.body;
	snprintf(answer.code, sizeof(answer.code), "%s", r.code);
	return answer.status;
}

static int
ask(const char *secret, const char *method, const char *path, const char *body)
{
	return ask_for(secret, method, path, body, NULL);
}

static void
refused(const char *secret, const char *method, const char *path, const char *body, int status,
    const char *code)
{
	char member[96];

	snprintf(member, sizeof(member), "\"code\":\"%s\"", code);
	if (ask(secret, method, path, body) != status || strstr(answer.body, member) == NULL)
		fail_msg("%s %s: %d %s %s instead of %d %s", method, path, answer.status,
		    answer.code, answer.body, status, code);
}

static void
begin(const char *secret, const char *name, const char *script)
{
	char body[512];

	snprintf(body, sizeof(body),
	    "{\"name\":\"%s\",\"cwd\":\"%s\",\"argv\":[\"sh\",\"-c\",\"%s\"],\"input\":true}", name,
	    work, script);
	if (ask(secret, "POST", "/v1/sessions", body) != 200)
		fail_msg("%d %s %s", answer.status, answer.code, answer.body);
}

/* A plain connection to the port. */
static int
dial(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd != -1 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	if (fd != -1)
		close(fd);
	return -1;
}

/* Whether the other end closes ${fd} before the wait is over, and how much it said. */
static bool
closes(int fd, size_t *said_bytes)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t end = driver_now() + DRIVER_WAIT_MS;
	char buf[512];
	ssize_t n;

	*said_bytes = 0;
	while (driver_now() < end) {
		if (poll(&p, 1, 100) != 1)
			continue;
		if ((n = recv(fd, buf, sizeof(buf), 0)) <= 0)
			return true;
		*said_bytes += (size_t)n;
	}
	return false;
}

/* Another program that says ${text} under TLS; what it is answered can be read, to its end. */
static FILE *
by_hand(const char *text)
{
	char command[256], path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/request", d.dir);
	assert_non_null(f = fopen(path, "we"));
	fputs(text, f);
	fclose(f);
	snprintf(command, sizeof(command),
	    "exec timeout %d openssl s_client -quiet -connect %s <%s 2>&1", 20 * SLOWER, place,
	    path);
	assert_non_null(f = popen(command, "re"));
	return f;
}

static const char *
heard_by_hand(const char *text)
{
	static char out[16384];
	FILE *f = by_hand(text);

	out[fread(out, 1, sizeof(out) - 1, f)] = '\0';
	pclose(f);
	return out;
}

static void
listens(void)
{
	int fd;

	driver_does(&said, NULL, "remote", "listen", place, "--json", NULL);
	assert_int_equal(sodium_hex2bin(pin, sizeof(pin), strstr(said.out, "\"pin\":\"") + 7, 64,
			     NULL, NULL, NULL),
	    0);
	while ((fd = dial()) == -1)
		driver_pause();
	close(fd);
}

static int
make(void **state)
{
	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	port = driver_port();
	snprintf(place, sizeof(place), "127.0.0.1:%d", port);
	snprintf(work, sizeof(work), "%s/work", d.dir);
	assert_int_equal(mkdir(work, 0755), 0);
	settings("remote.handshake_ms", "1000");
	settings("remote.guest_ms", "1500");
	settings("remote.hold_ms", "1500");
	settings("remote.delay_ms", "20");
	settings("http.idle_ms", "3000");
	settings("http.request_ms", "3000");
	listens();
	add("laptop", ALL, token);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	free(answer.body);
	answer.body = NULL;
	driver_drop(&d);
	return 0;
}

/* RB-01, RB-07: the lines of a session, and the same again on another connection, from any
 * row; it is of the credential's user, and the audit names the credential. */
static void
a_session_from_afar(void **state)
{
	(void)state;
	begin(token, "a", "echo e1; echo e2");
	assert_int_equal(ask(token, "GET", "/v1/sessions/a/output", NULL), 200);
	assert_non_null(strstr(answer.body, "e2\\n"));
	assert_non_null(strstr(answer.body, "{\"x\":0,\"state\":\"done\""));
	assert_int_equal(ask(token, "GET", "/v1/sessions/a/output?after=1", NULL), 200);
	assert_null(strstr(answer.body, "\"seq\":1,"));
	assert_int_equal(ask(token, "GET", "/v1/sessions", NULL), 200);
	assert_non_null(strstr(answer.body, "\"name\":\"a\""));
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM audit WHERE entity = 'session' AND action = 'queued'"
		" AND who GLOB 'remote:laptop(*)'"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM remote_session JOIN remote_credential AS c"
			     " ON c.id = credential_id WHERE c.name = 'laptop'"),
	    1);
	/* Nothing else of the daemon is there. */
	refused(token, "GET", "/v1/status", NULL, 404, "http.route");
	refused(token, "POST", "/v1/ops", "{}", 404, "http.route");
}

/* It is fed, and ended. */
static void
fed_and_ended(void **state)
{
	(void)state;
	begin(token, "i", "cat");
	assert_int_equal(ask(token, "POST", "/v1/sessions/i/input?end=1", "hello\n"), 202);
	assert_int_equal(ask(token, "GET", "/v1/sessions/i/output", NULL), 200);
	assert_non_null(strstr(answer.body, "hello\\n"));
	begin(token, "c", "sleep 600");
	assert_int_equal(ask(token, "DELETE", "/v1/sessions/c", NULL), 202);
	assert_int_equal(ask(token, "GET", "/v1/sessions/c/output", NULL), 200);
	assert_non_null(strstr(answer.body, "\"state\":\"cancelled\""));
}

/* Keys come in numbered pieces: one that comes again is typed once, one out of its turn not at all,
 * and nobody else's are taken meanwhile. */
static void
typed_in_pieces(void **state)
{
	static const char one[] = "/v1/sessions/k/keys?typist=00000000000000000000000000000001&n=";
	static const char two[] = "/v1/sessions/k/keys?typist=00000000000000000000000000000002&n=";
	static const struct {
		const char *query, *body;
		int status;
		const char *code;
	} wrong[] = {{"", "x", 422, "session.typist"}, {"?n=1", "x", 422, "session.typist"},
	    {"?typist=0&n=1", "x", 422, "session.typist"},
	    {"?typist=0000000000000000000000000000000G&n=1", "x", 422, "session.typist"},
	    {"?typist=00000000000000000000000000000001", "x", 422, "session.typist"},
	    {"?typist=00000000000000000000000000000001&n=-1", "x", 422, "session.typist"},
	    {"?typist=00000000000000000000000000000001&n=0", "x", 422, "session.typist"},
	    {"?typist=00000000000000000000000000000001&n=9999999999999999", "x", 422,
		"session.typist"},
	    {"?typist=00000000000000000000000000000001&n=1&size=80x24", "x", 422, "usage.wrong"},
	    {"?typist=00000000000000000000000000000001&n=1&size=80", NULL, 422, "usage.wrong"},
	    {"?typist=00000000000000000000000000000001&n=1&size=80x24", NULL, 429, "session.input"},
	    {"?typist=00000000000000000000000000000001&n=1&leave=2", NULL, 422, "usage.wrong"}};
	char path[160];
	size_t i;

	(void)state;
	begin(token, "k", "cat");
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(path, sizeof(path), "/v1/sessions/k/keys%s", wrong[i].query);
		refused(token, "POST", path, wrong[i].body, wrong[i].status, wrong[i].code);
	}
	snprintf(path, sizeof(path), "%s0", one);
	assert_int_equal(ask(token, "POST", path, NULL), 200);
	assert_non_null(strstr(answer.body, "{\"terminal\":false,\"n\":0,"));
	snprintf(path, sizeof(path), "%s1", one);
	assert_int_equal(ask(token, "POST", path, "a\n"), 200);
	assert_int_equal(ask(token, "POST", path, "a\n"), 200);
	assert_non_null(strstr(answer.body, "\"n\":1,"));
	snprintf(path, sizeof(path), "%s3", one);
	refused(token, "POST", path, "c\n", 409, "session.piece");
	snprintf(path, sizeof(path), "%s1", two);
	refused(token, "POST", path, "z\n", 409, "session.typed");
	snprintf(path, sizeof(path), "%s2&leave=1", two);
	assert_int_equal(ask(token, "POST", path, NULL), 202); /* what it does not have */
	snprintf(path, sizeof(path), "%s2", one);
	assert_int_equal(ask(token, "POST", path, "b\n"), 200);
	snprintf(path, sizeof(path), "%s2&leave=1", one);
	assert_int_equal(ask(token, "POST", path, NULL), 202);
	snprintf(path, sizeof(path), "%s1", two);
	assert_int_equal(ask(token, "POST", path, "d\n"), 200);
	assert_int_equal(ask(token, "POST", "/v1/sessions/k/input?end=1", NULL), 202);
	assert_int_equal(ask(token, "GET", "/v1/sessions/k/output", NULL), 200);
	assert_non_null(strstr(answer.body, "\"x\":0"));
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT group_concat(CAST(data AS TEXT), '') = 'a' || char(10) || 'b' || char(10)"
		"  || 'd' || char(10) FROM (SELECT data FROM session_output WHERE session_id ="
		"  (SELECT id FROM session WHERE name = 'k') ORDER BY seq)"),
	    1);
	refused(token, "POST", path, "e\n", 409, "session.over");
}

/* RB-10: what speaks no TLS is told nothing of ours, leaves no row, and is in nobody's way. */
static void
garbage_is_told_nothing(void **state)
{
	static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	    "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\xff\xff garbage", "\n\n\n\n\n\n\n\n"};
	char junk[65536];
	size_t i, bytes;
	int64_t rows;
	int fd;

	(void)state;
	rows = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM remote_try");
	for (i = 0; i <= sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_not_equal(fd = dial(), -1);
		if (i < sizeof(texts) / sizeof(texts[0])) {
			assert_true(send(fd, texts[i], strlen(texts[i]), MSG_NOSIGNAL) > 0);
		} else {
			randombytes_buf(junk, sizeof(junk));
			junk[0] = 'j';
			(void)!send(fd, junk, sizeof(junk), MSG_NOSIGNAL);
		}
		assert_true(closes(fd, &bytes));
		assert_true(bytes <= 7); /* an alert of TLS, and no word of HTTP */
		close(fd);
	}
	assert_int_equal(ask(token, "GET", "/v1/sessions", NULL), 200);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM remote_try"), rows + 1);
}

/* RB-03: what is of another version of the protocol is refused, with the right secret as well, and
 * nothing is done; with a wrong one it is told no more than that. */
static void
another_version(void **state)
{
	static const char body[] = "{\"name\":\"v\",\"cwd\":\"/\",\"argv\":[\"true\"]}";
	char wrong[REMOTE_TOKEN_LEN + 1];

	(void)state;
	refused(token, "POST", "/v2/sessions", body, 404, "http.route");
	refused(token, "POST", "/v0/sessions", body, 404, "http.route");
	refused(token, "POST", "/sessions", body, 404, "http.route");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session WHERE name = 'v'"), 0);
	memcpy(wrong, token, sizeof(wrong));
	wrong[REMOTE_TOKEN_LEN - 1] = wrong[REMOTE_TOKEN_LEN - 1] == '0' ? '1' : '0';
	refused(wrong, "POST", "/v2/sessions", body, 401, "remote.token");
}

/* RA-01, RB-02, RF-52: what is not the secret is refused, whatever it is, and before the body. */
static void
wrong_secrets(void **state)
{
	char wrong[REMOTE_TOKEN_LEN + 1], request[1024];
	const char *out;

	(void)state;
	settings("remote.tries", "1000");
	memcpy(wrong, token, sizeof(wrong));
	wrong[REMOTE_TOKEN_LEN - 1] = wrong[REMOTE_TOKEN_LEN - 1] == '0' ? '1' : '0';
	refused(wrong, "GET", "/v1/sessions", NULL, 401, "remote.token");
	refused(wrong, "POST", "/v1/sessions", "this is no JSON", 401, "remote.token");
	refused("", "GET", "/v1/sessions", NULL, 401, "remote.token");
	refused("x", "GET", "/v1/sessions", NULL, 401, "remote.token");
	refused(wrong, "GET", "/nowhere", NULL, 401, "remote.token");
	wrong[0] = 'B';
	refused(wrong, "GET", "/v1/sessions", NULL, 401, "remote.token");
	assert_true(driver_value(&d, DRIVER_BOX,
			"SELECT count(*) FROM remote_try WHERE result = 'wrong'") >= 5);
	/* The answer comes, and the end, though the body that was announced never does. */
	snprintf(request, sizeof(request),
	    "POST /v1/sessions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
	    "Content-Length: 60000\r\n\r\n{",
	    TLS_BOX_NAME, wrong);
	out = heard_by_hand(request);
	assert_non_null(strstr(out, "HTTP/1.1 401 "));
	assert_non_null(strstr(out, "remote.token"));
	snprintf(request, sizeof(request),
	    "POST /v1/sessions HTTP/1.1\r\nHost: %s\r\nContent-Length: 60000\r\n\r\n{",
	    TLS_BOX_NAME);
	out = heard_by_hand(request);
	assert_non_null(strstr(out, "HTTP/1.1 401 "));
	/* A right one forgives them. */
	assert_int_equal(ask(token, "GET", "/v1/sessions", NULL), 200);
	settings("remote.tries", "5");
}

/* A connection that was let in is not let in for another's secret. */
static void
one_credential_a_connection(void **state)
{
	char other[REMOTE_TOKEN_LEN + 1], request[2048];
	const char *out, *second;

	(void)state;
	add("other", ALL, other);
	snprintf(request, sizeof(request),
	    "GET /v1/sessions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n"
	    "GET /v1/sessions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
	    TLS_BOX_NAME, token, TLS_BOX_NAME, other);
	out = heard_by_hand(request);
	assert_non_null(strstr(out, "HTTP/1.1 200 "));
	assert_non_null(second = strstr(strstr(out, "HTTP/1.1 200 ") + 5, "HTTP/1.1 "));
	assert_memory_equal(second, "HTTP/1.1 401 ", 13);
	driver_does(&said, NULL, "remote", "revoke", "other", NULL);
}

/* RB-12, RF-54: after some wrong secrets an address is held, the right one as well, each time
 * longer; then it is heard again. */
static void
a_flood_is_held(void **state)
{
	char wrong[REMOTE_TOKEN_LEN + 1];
	int64_t tries, held;
	int i;

	(void)state;
	assert_int_equal(ask(token, "GET", "/v1/sessions", NULL), 200);
	memcpy(wrong, token, sizeof(wrong));
	wrong[30] = wrong[30] == '0' ? '1' : '0';
	for (i = 0; i < 5; i++)
		refused(wrong, "GET", "/v1/sessions", NULL, 401, "remote.token");
	tries = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM remote_try");
	for (i = 0; i < 20; i++)
		ask(wrong, "GET", "/v1/sessions", NULL);
	held = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM remote_held");
	if (held == 1) { /* on a machine that is too slow it is over by now */
		ask(token, "GET", "/v1/sessions", NULL);
		if (answer.status == 429) {
			assert_non_null(strstr(answer.body, "\"code\":\"remote.held\""));
			assert_null(strstr(answer.body, "\"retry_at\":null"));
		}
	}
	/* Held, it costs no row. */
	assert_true(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM remote_try") < tries + 20);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM remote_held");
	assert_int_equal(ask(token, "GET", "/v1/sessions", NULL), 200);
}

/* RB-09, RB-11, RF-54: who says nothing, or nonsense, goes, is told nothing, and is
 * in nobody's way. */
static void
strangers_are_in_nobodys_way(void **state)
{
	static const char nonsense[] = "GET / HTTP/1.0\r\n\r\n";
	int fds[40], i;
	size_t n;

	(void)state;
	settings("remote.per_address", "64");
	driver_does(&said, NULL, "remote", "listen", "off", NULL);
	while ((i = dial()) != -1) {
		close(i);
		driver_pause();
	}
	listens(); /* with that limit */
	for (i = 0; i < 40; i++)
		assert_int_not_equal(fds[i] = dial(), -1);
	assert_int_equal(ask(token, "GET", "/v1/sessions", NULL), 200);
	assert_int_equal(
	    send(fds[0], nonsense, sizeof(nonsense) - 1, MSG_NOSIGNAL), sizeof(nonsense) - 1);
	assert_true(closes(fds[0], &n));
	assert_in_range(n, 0, 16); /* an alert of TLS at most */
	assert_true(closes(fds[1], &n));
	assert_int_equal(n, 0);
	for (i = 0; i < 40; i++)
		close(fds[i]);
	settings("remote.per_address", "32");
}

static bool revoked;
static const char *ending; /* what ends the credential, as a verb of remote */

/* The first piece came: end its credential. */
static int
end_it(void *ctx, struct http_call *call, const char *data, size_t len)
{
	(void)ctx;
	(void)call;
	(void)data;
	(void)len;
	if (!revoked && ending != NULL)
		driver_does(&said, NULL, "remote", ending, "short", NULL);
	revoked = true;
	return 0;
}

/* A credential that is revoked, rotated or over takes what is open with it, at once. */
static void
what_is_over_is_cut(void **state)
{
	char secret[REMOTE_TOKEN_LEN + 1], next[REMOTE_TOKEN_LEN + 1];

	(void)state;
	begin(token, "long", "while :; do echo line; sleep 0.05; done");
	add("short", ALL, secret);
	ending = "revoke";
	revoked = false;
	ask_for(secret, "GET", "/v1/sessions/long/output", NULL, end_it);
	assert_true(revoked);
	assert_int_equal(answer.rc, -1);
	assert_string_not_equal(answer.code, "http.timeout");
	refused(secret, "GET", "/v1/sessions", NULL, 401, "remote.token");

	add("short", ALL, secret);
	ending = "rotate";
	revoked = false;
	ask_for(secret, "GET", "/v1/sessions/long/output", NULL, end_it);
	assert_int_equal(answer.rc, -1);
	assert_string_not_equal(answer.code, "http.timeout");
	memcpy(next, said.out, REMOTE_TOKEN_LEN);
	next[REMOTE_TOKEN_LEN] = '\0';
	refused(secret, "GET", "/v1/sessions", NULL, 401, "remote.token");
	assert_int_equal(ask(next, "GET", "/v1/sessions", NULL), 200);
	driver_does(&said, NULL, "remote", "revoke", "short", NULL);

	/* Time, too, ends it: nobody has to do a thing. */
	driver_does(&said, NULL, "remote", "add", "short", "--root", work, "--expires", "2s", NULL);
	memcpy(secret, said.out, REMOTE_TOKEN_LEN);
	ending = NULL;
	revoked = false;
	ask_for(secret, "GET", "/v1/sessions/long/output", NULL, end_it);
	assert_int_equal(answer.rc, -1);
	assert_string_not_equal(answer.code, "http.timeout");
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM remote_credential WHERE state = 'expired' AND digest IS NULL");
	refused(secret, "GET", "/v1/sessions", NULL, 401, "remote.token");
	assert_int_equal(ask(token, "DELETE", "/v1/sessions/long", NULL), 202);
}

/* RB-14, RF-56: a credential does what it names, where it names it, and no more. */
static void
a_credential_has_bounds(void **state)
{
	char looks[REMOTE_TOKEN_LEN + 1], runs[REMOTE_TOKEN_LEN + 1], body[512];

	(void)state;
	add("looks", "list,attach", looks);
	add("runs", "run", runs);
	driver_does(&said, NULL, "worker", "add", "say", "--", "echo", "said", NULL);
	snprintf(body, sizeof(body), "{\"cwd\":\"%s\",\"argv\":[\"true\"]}", work);
	refused(looks, "POST", "/v1/sessions", body, 403, "remote.verb");
	refused(runs, "POST", "/v1/sessions", body, 403, "remote.command");
	snprintf(body, sizeof(body), "{\"cwd\":\"%s\",\"worker\":\"say\",\"argv\":[\"--unsafe\"]}",
	    work);
	refused(runs, "POST", "/v1/sessions", body, 403, "remote.command");
	snprintf(body, sizeof(body),
	    "{\"name\":\"w\",\"cwd\":\"%s\",\"worker\":\"say\",\"argv\":[\"yes\"]}", work);
	assert_int_equal(ask(runs, "POST", "/v1/sessions", body), 200);
	refused(runs, "GET", "/v1/sessions/w/output", NULL, 403, "remote.verb");
	assert_int_equal(ask(runs, "GET", "/v1/sessions", NULL), 200);
	assert_string_equal(answer.body, "[]");
	assert_int_equal(ask(looks, "GET", "/v1/sessions/w/output", NULL), 200);
	assert_non_null(strstr(answer.body, "said yes\\n"));
	begin(token, "cat", "cat");
	refused(looks, "POST", "/v1/sessions/cat/input", "x", 403, "remote.verb");
	refused(looks, "DELETE", "/v1/sessions/cat", NULL, 403, "remote.verb");
	assert_int_equal(ask(token, "DELETE", "/v1/sessions/cat", NULL), 202);
}

/* No path leads out of the folders, and what works elsewhere is not there at all. */
static void
folders_are_bounds(void **state)
{
	static const char *const outside[][2] = {{"", ""}, {"/etc", ""}, {"w", "/.."},
	    {"w", "/../work"}, {"w", "/./x"}, {"w", "x"}, {"w", "//x"}, {"/tmp/..", "w"}};
	char body[512], cwd[256];
	const char *a, *b;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		a = outside[i][0][0] == 'w' ? work : outside[i][0];
		b = outside[i][1][0] == 'w' ? work : outside[i][1];
		snprintf(cwd, sizeof(cwd), "%s%s", a, b);
		snprintf(body, sizeof(body), "{\"cwd\":\"%s\",\"argv\":[\"true\"]}",
		    cwd[0] == '\0' ? "/" : cwd);
		refused(token, "POST", "/v1/sessions", body, 403, "remote.root");
	}
	driver_does(
	    &said, NULL, "session", "run", "--name", "elsewhere", "--cwd", "/", "--", "true", NULL);
	refused(token, "GET", "/v1/sessions/elsewhere/output", NULL, 404, "session.unknown");
	refused(token, "DELETE", "/v1/sessions/elsewhere", NULL, 404, "session.unknown");
	ask(token, "GET", "/v1/sessions", NULL);
	assert_null(strstr(answer.body, "elsewhere"));
}

/* RB-08: no more at once than the setting says. */
static void
connections_are_capped(void **state)
{
	char request[512], first[8];
	int64_t n;
	FILE *f;

	(void)state;
	begin(token, "slow", "echo first; sleep 600");
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'slow'");
	n = driver_value(&d, DRIVER_BOX, "SELECT max(id) FROM remote_try");
	snprintf(request, sizeof(request),
	    "GET /v1/sessions/slow/output HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
	    token);
	f = by_hand(request);
	driver_until(&d, DRIVER_BOX, n + 1, "SELECT max(id) FROM remote_try");
	assert_int_equal(fread(first, 1, sizeof(first), f), sizeof(first));
	settings("remote.connections", "1");
	refused(token, "GET", "/v1/sessions", NULL, 503, "remote.busy");
	settings("remote.connections", "32");
	assert_int_equal(ask(token, "DELETE", "/v1/sessions/slow", NULL), 202);
	pclose(f);
}

/* RB-04: a client that pinned another authority tells it nothing. */
static void
another_authority_is_told_nothing(void **state)
{
	(void)state;
	pin[0] ^= 1;
	ask(token, "GET", "/v1/sessions", NULL);
	pin[0] ^= 1;
	assert_int_equal(answer.rc, -1);
	assert_string_equal(answer.code, "tls.untrusted");
}

/* A machine that answers what no bastion would. */
static const struct {
	const char *name, *says;
	int status;
	int code; /* that we end with */
	const char *shows;
} lies[] = {
    {"words", "this is no JSON\n", 200, -1, "[http.protocol]"},
    {"array", "[1,2]\n", 200, -1, "[http.protocol]"},
    {"type", "{\"seq\":\"one\",\"kind\":\"out\",\"line\":1,\"lines\":1,\"text\":\"x\"}\n", 200, -1,
	"[http.protocol]"},
    {"back",
	"{\"seq\":2,\"kind\":\"out\",\"line\":1,\"lines\":1,\"text\":\"x\"}\n"
	"{\"seq\":1,\"kind\":\"out\",\"line\":1,\"lines\":1,\"text\":\"y\"}\n",
	200, -1, "[http.protocol]"},
    {"coded", "{\"seq\":1,\"kind\":\"out\",\"line\":1,\"lines\":1,\"base64\":\"!!\"}\n", 200, -1,
	"[http.protocol]"},
    {"twice", "{\"seq\":1,\"seq\":2,\"kind\":\"out\"}\n", 200, -1, "[http.protocol]"},
    {"long", NULL, 200, -1, "[http.protocol]"},
    {"html", "<html>no</html>", 403, -1, "[http.protocol]"},
    {"other", "{\"error\":{\"code\":\"session.unknown\",\"why\":\"none\"}}", 404, 2,
	"[session.unknown]"},
    {"good",
	"{\"seq\":1,\"kind\":\"out\",\"line\":1,\"lines\":1,\"text\":\"fine\\n\"}\n"
	"{\"x\":7,\"state\":\"failed\",\"reason\":\"attempts\"}\n",
	200, 7, "is failed: attempts"},
};

static void
lie_on(void *x)
{
	static char piece[65536];

	memset(piece, 'a', sizeof(piece));
	while (http_stream_write(x, piece, sizeof(piece)) <= 65536)
		;
}

static void
lie_over(void *ctx)
{
	(void)ctx;
}

static int
lie(struct http_exchange *x, void *ctx)
{
	const char *name = http_param(x, "name");
	size_t i;

	(void)ctx;
	for (i = 0; strcmp(lies[i].name, name) != 0; i++)
		;
	if (lies[i].says == NULL) {
		http_on_close(x, lie_over, NULL);
		http_stream_on_drain(x, lie_on, x);
		if (http_stream_begin(x, 200, "application/x-ndjson") == 0)
			lie_on(x);
		return 0;
	}
	http_reply(x, (unsigned)lies[i].status, "application/x-ndjson", NULL, lies[i].says,
	    strlen(lies[i].says));
	return 0;
}

static int
welcome(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	(void)peer;
	return 0;
}

/* Serve them as ${a} vouches for us.  Return the pid of who does. */
static pid_t
serve_lies(const struct authority *a, int fd)
{
	static const struct http_route routes[] = {
	    {"GET", "/v1/sessions/{name}/output", 1, 0, lie, ""}, {NULL, NULL, 0, 0, NULL, NULL}};
	const struct http_server_config config = {.routes = routes,
	    .authorise = welcome,
	    .limits = {.connections = 8,
		.beat = 1024,
		.uid_connections = 8,
		.body = 1024,
		.header_bytes = 8192,
		.headers = 32,
		.idle_ms = 60000,
		.request_ms = 60000,
		.json_depth = 8,
		.stream_bytes = 65536}};
	const struct tls_limits limits = {.connections = 8,
	    .handshakes = 8,
	    .per_address = 8,
	    .handshake_ms = 60000,
	    .flush_ms = 5000,
	    .dead_ms = 60000};
	struct http_server *server;
	struct identity id;
	struct loop *loop;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	authority_server(a, &id, TLS_BOX_NAME, -AUTHORITY_DAY, AUTHORITY_DAY);
	if ((loop = loop_new()) != NULL &&
	    (server = http_server_new(loop, &config, NULL)) != NULL &&
	    http_listen_tls(server, fd, 1,
		&(struct tls_config){
		    .cert = &id.cert, .key = &id.key, .issuer = &a->cert, .ask = TLS_ASK_NOTHING},
		&limits, NULL) == 0)
		loop_run(loop);
	_exit(1);
}

/* CL-04: what a session of another machine is said to have said is taken apart with care: what is
 * none ends it in words, with nothing of it shown, and nobody waits for more. */
static void
lies_are_not_believed(void **state)
{
	struct remote_login login = {.name = "liar"};
	struct authority a;
	struct refusal r;
	int fd, at;
	size_t i;
	pid_t pid;

	(void)state;
	authority_make(&a, "liars");
	fd = tcp_listen(&at);
	snprintf(login.address, sizeof(login.address), "127.0.0.1:%d", at);
	memcpy(login.pin, ca_cert(a.ca)->fp, sizeof(login.pin));
	memcpy(login.token, token, sizeof(login.token));
	assert_int_equal(remote_login_save(&login, &r), 0);
	pid = serve_lies(&a, fd);
	close(fd);
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		driver_run(
		    &said, NULL, "session", "attach", lies[i].name, "--remote", "liar", NULL);
		if ((lies[i].code == -1 ? said.code == 0 : said.code != lies[i].code) ||
		    strstr(said.err, lies[i].shows) == NULL)
			fail_msg("%s: %d %s", lies[i].name, said.code, said.err);
	}
	assert_string_equal(said.out, "fine\n");
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(remote_login_drop("liar", &r), 0);
	authority_drop(&a);
}

/* RA-10: the secret is in no file of this machine, nor in its log, nor told to a worker. */
static void
the_secret_is_nowhere(void **state)
{
	char command[512];

	(void)state;
	begin(token, "env", "env");
	assert_int_equal(ask(token, "GET", "/v1/sessions/env/output", NULL), 200);
	assert_non_null(strstr(answer.body, "PATH="));
	assert_null(strstr(answer.body, token + 21));
	/* (A file may go while it is looked at.) */
	snprintf(command, sizeof(command), "test -z \"$(grep -rlaFs '%s' %s %s %s)\"", token + 21,
	    d.state[DRIVER_BOX], d.run[DRIVER_BOX], d.log[DRIVER_BOX]);
	assert_int_equal(system(command), 0);
}

/* RF-48, RF-49: whoever showed a right secret and says nothing more is let go, as everybody is. */
static void
idle_ones_are_let_go(void **state)
{
	char request[512], rest[256];
	FILE *idle, *half;
	int64_t began;

	(void)state;
	snprintf(request, sizeof(request),
	    "GET /v1/sessions/none HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token);
	idle = by_hand(request);
	snprintf(request, sizeof(request),
	    "GET /v1/sessions/none HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n"
	    "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 99\r\n\r\n{",
	    token, token);
	half = by_hand(request);
	began = driver_now();
	while (fread(rest, 1, sizeof(rest), idle) > 0)
		;
	while (fread(rest, 1, sizeof(rest), half) > 0)
		;
	assert_true(driver_now() - began < DRIVER_WAIT_MS);
	pclose(idle);
	pclose(half);
	assert_int_equal(ask(token, "GET", "/v1/sessions", NULL), 200);
}

/* RB-13, RF-55: an end that comes before the listener is not lost. */
static void
off_before_it_listens(void **state)
{
	pid_t net = driver_actor(&d, DRIVER_BOX, "net");
	int fd;

	(void)state;
	assert_int_equal(kill(net, SIGSTOP), 0);
	driver_does(&said, NULL, "remote", "listen", place, NULL);
	driver_does(&said, NULL, "remote", "listen", "off", NULL);
	assert_int_equal(kill(net, SIGCONT), 0);
	/* It has looked at the rows by the time it answers what was asked after them. */
	driver_does(
	    &said, NULL, "session", "run", "--name", "after", "--detach", "--", "true", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT state = 'done' FROM session WHERE name = 'after'");
	driver_does(&said, NULL, "status", NULL);
	fd = dial();
	assert_int_equal(fd, -1);
	assert_int_equal(driver_actor(&d, DRIVER_BOX, "net"), net);
}

/* RB-06: it listens where a person said so, and no longer than that. */
static void
off_is_off(void **state)
{
	int fd;

	(void)state;
	driver_refused(&said, 2, "listen.invalid", NULL, "remote", "listen", "nowhere", NULL);
	driver_does(&said, NULL, "remote", "listen", "off", NULL);
	while ((fd = dial()) != -1) {
		close(fd);
		driver_pause();
	}
	driver_does(&said, NULL, "remote", "listen", "off", NULL);
	driver_refused(&said, 2, "remote.verbs", NULL, "remote", "add", "x", "--root", "/",
	    "--verbs", "run,fly", NULL);
	driver_refused(
	    &said, 3, "remote.exists", NULL, "remote", "add", "laptop", "--root", "/", NULL);
	driver_refused(&said, 2, "remote.unknown", NULL, "remote", "revoke", "nobody", NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_session_from_afar),
	    cmocka_unit_test(fed_and_ended),
	    cmocka_unit_test(typed_in_pieces),
	    cmocka_unit_test(garbage_is_told_nothing),
	    cmocka_unit_test(another_version),
	    cmocka_unit_test(wrong_secrets),
	    cmocka_unit_test(one_credential_a_connection),
	    cmocka_unit_test(a_flood_is_held),
	    cmocka_unit_test(strangers_are_in_nobodys_way),
	    cmocka_unit_test(what_is_over_is_cut),
	    cmocka_unit_test(a_credential_has_bounds),
	    cmocka_unit_test(folders_are_bounds),
	    cmocka_unit_test(connections_are_capped),
	    cmocka_unit_test(another_authority_is_told_nothing),
	    cmocka_unit_test(lies_are_not_believed),
	    cmocka_unit_test(the_secret_is_nowhere),
	    cmocka_unit_test(idle_ones_are_let_go),
	    cmocka_unit_test(off_is_off),
	    cmocka_unit_test(off_before_it_listens),
	};

	return cmocka_run_group_tests(tests, make, drop);
}
