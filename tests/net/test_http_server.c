/* test_http_server.c: the server, asked by the curl program and by sockets that misbehave. */
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/http/server.h"

#define LOCAL      1u
#define ADMIN      2u
#define STREAM_MAX 65536
#define GUARD_MS   20000 /* a test that hangs ends here, and fails */

struct world {
	struct loop *loop;
	struct http_server *server;
	char dir[32], path[64], admin[64];
	char out[1 << 20];
	size_t len;
	int exit_status;
	unsigned closed, asked, refused, produced, drained;
	struct http_exchange *held;
	bool any_peer;
	uint64_t guard;
};

static struct world w;

/* Handlers. */

static int
say_hello(struct http_exchange *x, void *ctx)
{
	const struct http_field headers[] = {{"X-Test", "yes"}, {NULL, NULL}};

	(void)ctx;
	http_reply(x, 200, "text/plain", headers, "hello\n", 6);
	return 0;
}

static int
echo(struct http_exchange *x, void *ctx)
{
	size_t len;
	const char *body = http_body(x, &len);

	(void)ctx;
	w.asked++;
	http_reply(x, 201, "application/octet-stream", NULL, body, len);
	return 0;
}

static int
take_json(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	if (http_body_json(x, NULL) != NULL)
		http_reply(x, 204, NULL, NULL, NULL, 0);
	return 0;
}

static int
show_item(struct http_exchange *x, void *ctx)
{
	char text[512];
	const char *q = http_query(x, "q"), *h = http_header(x, "x-ask");

	(void)ctx;
	snprintf(text, sizeof(text), "%s|%s|%s|%d|%u|%s", http_param(x, "id"), q ? q : "-",
	    h ? h : "-", http_peer(x)->uid == getuid(), http_surface(x), http_method(x));
	http_reply(x, 200, "text/plain", NULL, text, strlen(text));
	return 0;
}

static void
on_close(void *ctx)
{
	(void)ctx;
	w.closed++;
	w.held = NULL;
	loop_stop(w.loop);
}

static void
reply_later(void *ctx)
{
	http_reply(ctx, 200, "text/plain", NULL, "later\n", 6);
}

static int
answer_later(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	return loop_after(w.loop, 2, reply_later, x) == 0 ? -1 : 0;
}

static int
hold(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	w.held = x;
	w.asked++;
	loop_stop(w.loop);
	return 0;
}

static int
forget(struct http_exchange *x, void *ctx)
{
	(void)x;
	(void)ctx;
	return 0;
}

static int
refuse(struct http_exchange *x, void *ctx)
{
	struct refusal r;

	(void)ctx;
	refusal_set(&r, "grant.window", "not \"now\"\\\n\x01 caf\xc3");
	r.retry_at = 1234567890123;
	http_refuse(x, 403, &r, "\"rule\":{\"max\":2}");
	return 0;
}

/* A producer that heeds the queue: 4 KiB pieces, up to 8 MiB. */
static void
produce(void *ctx)
{
	char piece[4096];
	ssize_t queued = 0;

	memset(piece, 'x', sizeof(piece));
	while (w.produced < 2048 && queued <= STREAM_MAX) {
		queued = http_stream_write(ctx, piece, sizeof(piece));
		assert_true(queued > 0 && queued <= 2 * STREAM_MAX);
		w.produced++;
	}
	if (w.produced == 2048)
		http_stream_end(ctx);
}

static void
produce_more(void *ctx)
{
	w.drained++;
	produce(ctx);
}

static int
stream(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	http_stream_on_drain(x, produce_more, x);
	if (http_stream_begin(x, 200, "application/x-ndjson") == 0)
		produce(x);
	return 0;
}

static void
tick(void *ctx)
{
	if (w.produced == 3) {
		http_stream_end(ctx);
		return;
	}
	http_stream_write(ctx, "tick\n", 5);
	w.produced++;
	loop_after(w.loop, 2, tick, ctx);
}

static void
begin_late(void *ctx)
{
	assert_int_equal(http_stream_begin(ctx, 200, "text/plain"), 0);
	tick(ctx);
}

static int
stream_slowly(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	loop_after(w.loop, 2, begin_late, x);
	return 0;
}

/* A stream that never ends, whose queue nobody fills. */
static int
stream_nothing(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	assert_int_equal(http_stream_begin(x, 200, "text/plain"), 0);
	http_stream_write(x, "open\n", 5);
	w.held = x;
	return 0;
}

static int
overfill(struct http_exchange *x, void *ctx)
{
	static char big[2 * STREAM_MAX + 1];

	(void)ctx;
	assert_int_equal(http_stream_begin(x, 200, "text/plain"), -1); /* no on_close yet */
	http_on_close(x, on_close, NULL);
	assert_int_equal(http_stream_begin(x, 200, "text/plain"), 0);
	assert_int_equal(http_stream_write(x, big, sizeof(big)), -1);
	assert_int_equal(http_stream_write(x, big, sizeof(big) - 1), sizeof(big) - 1);
	assert_int_equal(http_stream_write(x, big, 1), -1);
	http_stream_end(x);
	return 0;
}

static const struct http_route routes[] = {
    {"GET", "/hello", LOCAL | ADMIN, 0, say_hello, "greet"},
    {"POST", "/hello", LOCAL, 100, echo, "greet back"},
    {"POST", "/echo", LOCAL, 100000, echo, "the body again"},
    {"POST", "/all", LOCAL, SIZE_MAX, echo, "as much as the server takes"},
    {"POST", "/beat", LOCAL, HTTP_BEAT, echo, "longer than others"},
    {"POST", "/json", LOCAL, 1000, take_json, "check JSON"},
    {"GET", "/items/{id}", LOCAL, 0, show_item, "one item"},
    {"GET", "/later", LOCAL, 0, answer_later, "answer from a timer"},
    {"POST", "/hold", LOCAL, 100, hold, "never answer"},
    {"GET", "/hold", LOCAL, 0, hold, "never answer"},
    {"GET", "/forget", LOCAL, 0, forget, "a handler with a mistake"},
    {"GET", "/refuse", LOCAL, 0, refuse, "a refusal"},
    {"GET", "/stream", LOCAL, 0, stream, "8 MiB"},
    {"GET", "/ticks", LOCAL, 0, stream_slowly, "a line now and then"},
    {"GET", "/open", LOCAL, 0, stream_nothing, "a stream without an end"},
    {"GET", "/overfill", LOCAL, 0, overfill, "a producer that does not listen"},
    {"GET", "/admin", ADMIN, 0, say_hello, "elsewhere"},
    {NULL, NULL, 0, 0, NULL, NULL},
};

/* The world. */

static int
authorise(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	if (w.any_peer || (peer->uid == getuid() && peer->pid > 0))
		return 0;
	w.refused++;
	return -1;
}

static const struct http_limits usual = {
    .connections = 250,
    .uid_connections = 250,
    .body = 1 << 20,
    .beat = 2 << 20,
    .header_bytes = 8192,
    .headers = 40,
    .idle_ms = 5000,
    .request_ms = 5000,
    .stall_ms = 5000,
    .json_depth = 32,
    .stream_bytes = STREAM_MAX,
};

static void
start(const struct http_limits *limits)
{
	struct http_server_config config = {
	    .routes = routes, .limits = *limits, .authorise = authorise};
	struct refusal r;

	w.server = http_server_new(w.loop, &config, &r);
	assert_non_null(w.server);
	assert_int_equal(http_listen_unix(w.server, w.path, LOCAL, 0600, &r), 0);
	assert_int_equal(http_listen_unix(w.server, w.admin, ADMIN, 0600, &r), 0);
}

static void
hung(void *ctx)
{
	(void)ctx;
	fprintf(stderr, "the test hangs\n");
	abort();
}

static int
setup_bare(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	strcpy(w.dir, "/tmp/bst-http-XXXXXX");
	if (mkdtemp(w.dir) == NULL || (w.loop = loop_new()) == NULL)
		return -1;
	snprintf(w.path, sizeof(w.path), "%s/s", w.dir);
	snprintf(w.admin, sizeof(w.admin), "%s/a", w.dir);
	w.guard = loop_after(w.loop, GUARD_MS, hung, NULL);
	return 0;
}

static int
setup(void **state)
{
	int r = setup_bare(state);

	if (r == 0)
		start(&usual);
	return r;
}

/* PT-03: nothing is left at the path. */
static int
teardown(void **state)
{
	(void)state;
	http_server_free(w.server);
	loop_free(w.loop);
	return rmdir(w.dir);
}

/* Collect what ${fd} says until its end, then stop the loop. */
static void
on_output(void *ctx, uint32_t events)
{
	int fd = *(int *)ctx;
	ssize_t n = read(fd, w.out + w.len, sizeof(w.out) - 1 - w.len);

	(void)events;
	if (n == -1 && errno == EAGAIN)
		return;
	if (n > 0) {
		w.len += (size_t)n;
		w.out[w.len] = '\0';
		if (w.len < sizeof(w.out) - 1)
			return;
	}
	if (n == -1)
		strcat(w.out, "<error>");
	loop_del(w.loop, fd);
	loop_stop(w.loop);
}

static void
read_to_end(int fd)
{
	w.len = 0;
	w.out[0] = '\0';
	assert_int_equal(loop_add(w.loop, fd, EPOLLIN, on_output, &fd), 0);
	loop_run(w.loop);
	loop_del(w.loop, fd);
	close(fd);
}

static pid_t
spawn(int out, const char *const *args)
{
	const char *argv[32] = {"curl", "-sS", "--max-time", "15", "--noproxy", "*"};
	size_t n = 6;
	pid_t pid;

	if (w.path[0] != '\0') {
		argv[n++] = "--unix-socket";
		argv[n++] = w.path;
	}
	for (; *args != NULL; args++)
		argv[n++] = *args;
	argv[n] = NULL;
	if ((pid = fork()) == 0) {
		dup2(out, 1);
		dup2(out, 2);
		execvp("curl", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid;
}

/* Run curl; its output ends up in w.out. */
static const char *
curl(const char *const *args)
{
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = spawn(fds[1], args);
	close(fds[1]);
	read_to_end(fds[0]);
	waitpid(pid, &status, 0);
	w.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return w.out;
}

#define CURL(...) curl((const char *const[]){__VA_ARGS__, NULL})
#define CODE      "-w", "%{http_code}", "-o", "/dev/null"

static int
dial(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

static int
ask(const char *text)
{
	int fd = dial(w.path);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void
stop(void *ctx)
{
	(void)ctx;
	loop_stop(w.loop);
}

static void
run_for(int64_t ms)
{
	uint64_t timer = loop_after(w.loop, ms, stop, NULL);

	loop_run(w.loop);
	loop_cancel(w.loop, timer); /* something else may have stopped the loop */
}

/* Run until there are ${n} connections; the guard ends a test that waits in vain. */
static void
await_connections(unsigned n)
{
	while (http_server_connections(w.server) != n)
		run_for(1);
}

static void
want(const char *part)
{
	if (strstr(w.out, part) == NULL)
		fail_msg("no \"%s\" in: %.600s", part, w.out);
}

static void
want_not(const char *part)
{
	if (strstr(w.out, part) != NULL)
		fail_msg("\"%s\" in: %.600s", part, w.out);
}

/* Asking. */

static void
get_post_and_head(void **state)
{
	(void)state;
	CURL("-i", "http://x/hello");
	want("HTTP/1.1 200");
	want("X-Test: yes\r\n");
	want("\r\n\r\nhello\n");
	CURL("-i", "http://x/echo", "-d", "a=b");
	want("HTTP/1.1 201");
	want("\r\n\r\na=b");
	CURL("-I", "http://x/hello");
	want("HTTP/1.1 200");
	want("Content-Length: 6");
	want_not("hello");
	assert_int_equal(w.exit_status, 0);
}

static void
handler_sees_the_request(void **state)
{
	(void)state;
	CURL("http://x/items/a%20b%2Fc?q=1%262", "-H", "X-Ask: this");
	assert_string_equal(w.out, "a b/c|1&2|this|1|1|GET");
	CURL("-X", "HEAD", "--head", "http://x/items/7");
	want("200");
}

static void
unknown_path_method_and_surface(void **state)
{
	(void)state;
	CURL("-i", "http://x/nothing");
	want("HTTP/1.1 404");
	want("X-Bastion-Refused: http.route");
	want("{\"error\":{\"code\":\"http.route\",\"why\":");
	CURL("-i", "http://x/nothing", "-d", "body");
	want("HTTP/1.1 404");
	CURL("-i", "-X", "DELETE", "http://x/hello");
	want("HTTP/1.1 405");
	want("Allow: GET, HEAD, POST\r\n");
	want("http.method");
	CURL("-i", "http://x/echo");
	want("HTTP/1.1 405");
	want("Allow: POST\r\n");
	CURL(CODE, "http://x/admin");
	assert_string_equal(w.out, "404");
	strcpy(w.path, w.admin);
	CURL(CODE, "http://x/admin");
	assert_string_equal(w.out, "200");
	CURL("-i", "http://x/hello", "-d", "x");
	want("Allow: GET, HEAD\r\n");
}

/* One connection serves many requests, refused ones without a body among them. */
static void
connection_is_kept(void **state)
{
	(void)state;
	CURL("-w", "%{num_connects}", "http://x/hello", "http://x/nothing", "http://x/hello",
	    "http://x/later");
	want("hello\n1{\"error\"");
	want("}}\n0hello\n0later\n0");
}

static void
pipelined_requests_are_answered_in_order(void **state)
{
	(void)state;
	read_to_end(ask("GET /later HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n"
			"Connection: close\r\n\r\n"));
	want("later\nHTTP/1.1 200 OK");
	want("hello\n");
}

/* Write all of ${text}, then read what comes to the end of the connection. */
static void
exchange(const void *text, size_t len)
{
	int fd = dial(w.path);

	assert_int_equal(write(fd, text, len), len);
	read_to_end(fd);
}

/* PR-01: bodies of 5, 0 and 4096 bytes, one behind the other, come as they were sent, in order. */
static void
bodies_of_any_size_keep_their_bounds(void **state)
{
	static char text[8192];
	char *p;

	(void)state;
	p = stpcpy(text, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nfirst"
			 "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
			 "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4096\r\n"
			 "Connection: close\r\n\r\n");
	memset(p, 'z', 4096);
	exchange(text, (size_t)(p - text) + 4096);
	assert_int_equal(w.asked, 3);
	want("Content-Length: 5\r\n");
	want("\r\n\r\nfirstHTTP/1.1 201");
	want("Content-Length: 0\r\n");
	assert_memory_equal(w.out + w.len - 4096, p, 4096);
	assert_memory_equal(w.out + w.len - 4100, "\r\n\r\n", 4);
}

/* The most that this process ever had of memory, in kB. */
static long
memory_peak(void)
{
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "re");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL && sscanf(line, "VmPeak: %ld", &kb) != 1)
		continue;
	fclose(f);
	return kb;
}

/* PR-04, PR-10: a length over the bound is refused by the head alone; nothing is set aside for it.
 */
static void
announced_length_costs_nothing(void **state)
{
	static const char *const lengths[] = {"101", "4294967295", "9223372036854775807"};
	char text[256];
	long before;
	size_t i;

	(void)state;
	CURL(CODE, "http://x/hello", "-d", "a"); /* what is loaded at first use is loaded */
	before = memory_peak();
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		snprintf(text, sizeof(text),
		    "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n", lengths[i]);
		exchange(text, strlen(text));
		want("HTTP/1.1 413");
		want("http.too_large");
	}
	assert_int_equal(w.asked, 1);
	assert_true(memory_peak() - before < 65536);
}

/* PR-05, PR-09: what is unknown is refused by name, and what follows on the connection is heard. */
static void
unknown_is_refused_and_the_next_is_heard(void **state)
{
	static const char method[] = "FROB /hello HTTP/1.1\r\nHost: x\r\n\r\n"
				     "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"
				     "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	static const char body[] = "FROB /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"
				   "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

	(void)state;
	exchange(method, sizeof(method) - 1);
	want("HTTP/1.1 405");
	want("http.method");
	want("HTTP/1.1 404");
	want("\r\n\r\nhello\n");

	/* One with a body is the last of its connection, so nobody takes its body for a request. */
	exchange(body, sizeof(body) - 1);
	want("HTTP/1.1 405");
	want("Connection: close");
	want_not("hello\n");
}

/* PR-06: a body that ends before its length reaches no handler, and is not said to be too large. */
static void
cut_body_is_no_body(void **state)
{
	int fd = ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");

	(void)state;
	shutdown(fd, SHUT_WR);
	read_to_end(fd);
	want_not("413");
	want_not("HTTP/1.1 2");
	assert_int_equal(w.asked, 0);
	await_connections(0);
}

/* PR-07, SV-07: a newer minor version is answered in ours; what is no version of ours is refused.
 */
static void
versions_are_negotiated(void **state)
{
	static const char *const good[] = {"1.1", "1.0", "1.2"};
	static const char *const bad[] = {"0.0", "0.9", "-3", "2.0", "99"};
	char text[128];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text),
		    "GET /hello HTTP/%s\r\nHost: x\r\nConnection: close\r\n\r\n", good[i]);
		exchange(text, strlen(text));
		want("HTTP/1.1 200");
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text),
		    "GET /hello HTTP/%s\r\nHost: x\r\nConnection: close\r\n\r\n", bad[i]);
		exchange(text, strlen(text));
		want("HTTP/1.");
		want_not(" 200 ");
		want_not("hello\n");
	}
}

struct dribble {
	int fd;
	const char *text;
};

static void
on_alarm(int signo)
{
	(void)signo;
}

static void
send_one(void *ctx)
{
	struct dribble *d = ctx;

	if (*d->text == '\0')
		return;
	if (write(d->fd, d->text, 1) == 1)
		d->text++;
	loop_after(w.loop, 0, send_one, d);
}

/* PR-11: a byte at a time, with system calls that signals cut short: the same requests. */
static void
single_bytes_are_the_same_requests(void **state)
{
	const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
	struct sigaction act = {.sa_handler = on_alarm}, old; /* no SA_RESTART */
	struct dribble d = {
	    .text = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\npayload"
		    "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		    "3\r\nin \r\n6\r\nchunks\r\n0\r\n\r\n"
		    "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"};
	const char *p;
	size_t xs = 0;

	(void)state;
	w.produced = 2044; /* four pieces of the stream */
	d.fd = dial(w.path);
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	loop_after(w.loop, 0, send_one, &d);
	read_to_end(d.fd);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_int_equal(w.asked, 2);
	want("\r\n\r\npayloadHTTP/1.1 201");
	want("\r\n\r\nin chunksHTTP/1.1 200");
	for (p = strstr(w.out, "x-ndjson"); *p != '\0'; p++)
		xs += *p == 'x' && (p[1] == 'x' || p[-1] == 'x');
	assert_true(xs >= 4 * 4096);
}

/* SV-06, SV-08: what is no request, or asks for what is not there, is refused without a word of it
 * in the answer, and closed. */
static void
nonsense_is_not_repeated(void **state)
{
	static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 evil\r\n\r\n";
	static const char odd[] = "GET /evil%22%0d%0aX-Evil:%201%1b[31m HTTP/1.1\r\nHost: x\r\n"
				  "Connection: close\r\n\r\n";

	(void)state;
	exchange(hello, sizeof(hello) - 1);
	want("HTTP/1.");
	want_not(" 200 ");
	want_not("evil");
	exchange(odd, sizeof(odd) - 1);
	want("HTTP/1.1 404");
	want("\"code\":\"http.route\"");
	want_not("vil");
	want_not("\x1b");
	await_connections(0);
}

/* RF-15: an answer is whole before the next one begins, however it is made. */
static void
answers_do_not_mix(void **state)
{
	static const char text[] = "GET /ticks HTTP/1.1\r\nHost: x\r\n\r\n"
				   "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
				   "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

	(void)state;
	exchange(text, sizeof(text) - 1);
	want("5\r\ntick\n\r\n5\r\ntick\n\r\n5\r\ntick\n\r\n0\r\n\r\nHTTP/1.1 200");
	want("\r\n\r\nlater\nHTTP/1.1 200");
}

/* PR-08, BND-1: up to the bound, the bound included, and no byte more.
 * 413 by the announced length, with and without waiting for 100, and by counting chunks. */
static void
body_over_its_limit_is_refused(void **state)
{
	char file[80], data[88];
	int fd;

	(void)state;
	snprintf(file, sizeof(file), "%s/big", w.dir);
	snprintf(data, sizeof(data), "@%s", file);
	fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, 3 << 20), 0);
	CURL("-i", "http://x/hello", "--data-binary", data, "-H", "Expect: 100-continue");
	want("HTTP/1.1 413");
	want_not("100 Continue");
	want("http.too_large");
	CURL("-i", "http://x/hello", "--data-binary", data, "-H", "Expect:");
	want("HTTP/1.1 413");
	CURL("-i", "http://x/hello", "--data-binary", data, "-H", "Expect:", "-H",
	    "Transfer-Encoding: chunked");
	want("HTTP/1.1 413");
	want("over 100 bytes");
	CURL("-i", "http://x/all", "--data-binary", data, "-H", "Expect:");
	want("over 1048576 bytes");
	CURL("-i", "http://x/beat", "--data-binary", data, "-H", "Expect:");
	want("over 2097152 bytes");
	assert_int_equal(w.asked, 0);
	assert_int_equal(ftruncate(fd, 2 << 20), 0);
	CURL(CODE, "http://x/beat", "--data-binary", data, "-H", "Expect:", "-o", "/dev/null");
	assert_string_equal(w.out, "201");
	assert_int_equal(ftruncate(fd, 100), 0);
	CURL(CODE, "http://x/hello", "--data-binary", data);
	assert_string_equal(w.out, "201");
	assert_int_equal(ftruncate(fd, 101), 0);
	CURL(CODE, "http://x/hello", "--data-binary", data);
	assert_string_equal(w.out, "413");
	unlink(file);
	close(fd);
}

static void
chunked_upload_and_expect(void **state)
{
	(void)state;
	CURL("http://x/echo", "-d", "in chunks", "-H", "Transfer-Encoding: chunked");
	assert_string_equal(w.out, "in chunks");
	CURL("-i", "http://x/echo", "-d", "waited", "-H", "Expect: 100-continue");
	want("HTTP/1.1 100 Continue");
	want("\r\n\r\nwaited");
}

static void
too_many_or_long_headers(void **state)
{
	static char text[20000];
	char *p;
	int i;

	(void)state;
	p = stpcpy(text, "GET /hello HTTP/1.1\r\nHost: x\r\n");
	for (i = 0; i < 40; i++)
		p += sprintf(p, "X-%d: 1\r\n", i);
	stpcpy(p, "Connection: close\r\n\r\n");
	read_to_end(ask(text));
	want("HTTP/1.1 431");
	want("http.headers");
	p = stpcpy(text, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ");
	memset(p, 'a', 9000);
	stpcpy(p + 9000, "\r\n\r\n");
	read_to_end(ask(text));
	want("HTTP/1.1 431");
}

static void
broken_requests_do_no_harm(void **state)
{
	static const char *const texts[] = {"\r\n\r\n\r\n", "GET\r\n\r\n", "", "\1\2\3\r\n\r\n",
	    "GET / HTTP/9.9\r\n\r\n", "GET /hello HTTP/1.1\r\n\r\n",
	    "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
	    "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
	    "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	    "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n"};
	struct http_limits limits = usual;
	size_t i;
	int fd;

	(void)state;
	limits.idle_ms = 200; /* blank lines, and then the end: libmicrohttpd waits for more */
	start(&limits);
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		fd = ask(texts[i]);
		shutdown(fd, SHUT_WR);
		read_to_end(fd);
		want_not("HTTP/1.1 2");
	}
	assert_int_equal(w.asked, 0);
	CURL(CODE, "http://x/hello");
	assert_string_equal(w.out, "200");
}

/* A client that sends its request and closes that half gets its answer, also a late one. */
static void
half_closed_client_is_answered(void **state)
{
	int fd = ask("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");

	(void)state;
	shutdown(fd, SHUT_WR);
	read_to_end(fd);
	want("later\n");
	assert_int_equal(w.closed, 0);
}

static void
json_is_checked(void **state)
{
	(void)state;
	CURL(CODE, "http://x/json", "-d", "{\"a\":1}");
	assert_string_equal(w.out, "204");
	CURL("-i", "http://x/json", "-d", "{\"a\":1,\"a\":2}");
	want("HTTP/1.1 400");
	want("json.duplicate");
	CURL("-i", "-X", "POST", "http://x/json");
	want("json.invalid");
}

static void
refusal_is_json(void **state)
{
	(void)state;
	CURL("-i", "http://x/refuse");
	want("HTTP/1.1 403");
	want("X-Bastion-Refused: grant.window\r\n");
	want("{\"error\":{\"code\":\"grant.window\",");
	want("\"why\":\"not \\\"now\\\"\\\\\\u000a\\u0001 caf?\",");
	want("\"retry_at\":1234567890123,\"rule\":{\"max\":2}}}\n");
}

static void
forgotten_request_is_a_500(void **state)
{
	(void)state;
	CURL("-i", "http://x/forget");
	want("HTTP/1.1 500");
	want("http.internal");
}

/* Streams. */

/* PR-03: of a piece that is over the bound not a byte is sent; what is in it goes whole. */
static void
stream_arrives_whole(void **state)
{
	(void)state;
	CURL("-w", "%{size_download}", "-o", "/dev/null", "http://x/stream");
	assert_string_equal(w.out, "8388608");
	assert_int_equal(w.closed, 0);
	w.produced = 0;
	CURL("http://x/ticks");
	assert_string_equal(w.out, "tick\ntick\ntick\n");
	CURL("-w", "%{size_download}", "-o", "/dev/null", "http://x/overfill");
	assert_string_equal(w.out, "131072");
	CURL("-I", "http://x/overfill");
	want("HTTP/1.1 200");
	assert_int_equal(w.closed, 0);
}

/* A HEAD has all that it wants before the stream's first byte: its producer is told. */
static void
head_of_a_stream_closes_it(void **state)
{
	int fd = ask("HEAD /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");

	(void)state;
	loop_run(w.loop);
	assert_int_equal(w.closed, 1);
	read_to_end(fd);
	want("HTTP/1.1 200");
	want_not("open\n");
}

/* Nobody reads: the producer is stopped by the queue, and goes on when someone does. */
static void
slow_reader_costs_bounded_memory(void **state)
{
	int fd = ask("GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	static char drop[65536];
	size_t total = 0;
	ssize_t n;
	unsigned before;

	(void)state;
	do {
		before = w.produced;
		run_for(20);
	} while (w.produced < STREAM_MAX / 4096 || w.produced != before);
	assert_true(before < 400);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((n = read(fd, drop, sizeof(drop))) != 0) {
		if (n == -1)
			run_for(1);
		else
			total += (size_t)n;
	}
	assert_true(total > 8388608);
	assert_int_equal(w.produced, 2048);
	assert_true(w.drained > 10);
	close(fd);
}

static void
client_that_vanishes_is_noticed(void **state)
{
	int fd;

	(void)state;
	fd = ask("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"); /* waiting for the answer */
	loop_run(w.loop);
	assert_non_null(w.held);
	close(fd);
	loop_run(w.loop);
	assert_int_equal(w.closed, 1);
	fd = ask("GET /open HTTP/1.1\r\nHost: x\r\n\r\n"); /* in a silent stream */
	while (w.held == NULL)
		run_for(1);
	run_for(5);
	close(fd);
	loop_run(w.loop);
	assert_int_equal(w.closed, 2);
	fd = ask("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"); /* in the midst of a full one */
	while (w.produced == 0)
		run_for(1);
	close(fd);
	loop_run(w.loop);
	assert_int_equal(w.closed, 3);
	await_connections(0);
}

/* The end of the server ends what is open, each with its on_close. */
static void
server_ends_with_requests_open(void **state)
{
	int a = ask("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"), b, c;

	(void)state;
	loop_run(w.loop);
	w.held = NULL;
	b = ask("GET /open HTTP/1.1\r\nHost: x\r\n\r\n");
	c = ask("POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12");
	while (w.held == NULL)
		run_for(1);
	await_connections(3);
	run_for(5);
	http_server_free(w.server);
	w.server = NULL;
	assert_int_equal(w.closed, 2);
	assert_int_equal(access(w.path, F_OK), -1);
	close(a);
	close(b);
	close(c);
}

static void
drain_answers_what_was_asked(void **state)
{
	int idle = dial(w.path), fd;

	(void)state;
	fd = ask("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
	loop_run(w.loop);
	await_connections(2);
	http_server_drain(w.server, stop, NULL);
	assert_int_equal(access(w.path, F_OK), -1);
	await_connections(1);
	http_reply(w.held, 200, "text/plain", NULL, "held\n", 5);
	loop_run(w.loop);
	assert_int_equal(http_server_connections(w.server), 0);
	read_to_end(fd);
	want("Connection: close");
	want("held\n");
	read_to_end(idle);
	assert_string_equal(w.out, "");
}

/* Many. */

static void
two_hundred_at_once(void **state)
{
	int fds[200], i;

	(void)state;
	for (i = 0; i < 200; i++) {
		fds[i] = ask("GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
		if (i % 50 == 49)
			run_for(1);
	}
	for (i = 0; i < 200; i++) {
		read_to_end(fds[i]);
		want("later\n");
	}
	await_connections(0);
}

/* A request that stays open. */
static int
ask_and_wait(void)
{
	int fd = ask("GET /hold HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");

	loop_run(w.loop);
	return fd;
}

static void
busy_server_says_so(void **state)
{
	struct http_limits limits = usual;
	int fds[3], i;

	(void)state;
	limits.connections = 3;
	start(&limits);
	for (i = 0; i < 3; i++)
		fds[i] = ask_and_wait();
	CURL("-i", "http://x/hello");
	want("HTTP/1.1 503");
	want("http.busy");
	for (i = 0; i < 3; i++)
		close(fds[i]);
	await_connections(0);
	CURL(CODE, "http://x/hello");
	assert_string_equal(w.out, "200");
}

static void
one_uid_does_not_take_all(void **state)
{
	struct http_limits limits = usual;
	int fd;

	(void)state;
	limits.uid_connections = 1;
	start(&limits);
	fd = ask_and_wait();
	CURL(CODE, "http://x/hello");
	assert_string_equal(w.out, "503");
	close(fd);
}

/* SV-11: however many connect and say nothing, whoever asks is answered; no more than the cap are
 * ever there, and those that ask keep their places. */
static void
silent_ones_are_in_nobodys_way(void **state)
{
	struct http_limits limits = usual;
	int fds[500], held, i;

	(void)state;
	limits.connections = 20;
	limits.uid_connections = 10;
	start(&limits);
	held = ask_and_wait();
	for (i = 0; i < 500; i++) {
		fds[i] = dial(w.path);
		if (i % 50 == 49) {
			CURL(CODE, "http://x/hello");
			assert_string_equal(w.out, "200");
			while (http_server_connections(w.server) > 10)
				run_for(1);
		}
	}
	assert_int_equal(w.closed, 0);
	http_reply(w.held, 200, "text/plain", NULL, "kept\n", 5);
	read_to_end(held);
	want("kept\n");
	for (i = 0; i < 500; i++)
		close(fds[i]);
}

/* Many that ask at once are answered, or told that there is no place; nobody is cut off for
 * another. */
static void
a_burst_is_answered(void **state)
{
	struct http_limits limits = usual;
	int fds[40], i, served = 0;

	(void)state;
	limits.uid_connections = 10;
	start(&limits);
	for (i = 0; i < 40; i++)
		fds[i] = ask("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	for (i = 0; i < 40; i++) {
		read_to_end(fds[i]);
		served += strstr(w.out, "hello\n") != NULL;
		if (strstr(w.out, "hello\n") == NULL)
			want("http.busy");
	}
	assert_true(served >= 10);
}

/* The same where all places together are too few: the one that waits longest goes. */
static void
the_longest_silence_goes_first(void **state)
{
	struct http_limits limits = usual;
	int first, second;
	char byte;

	(void)state;
	limits.connections = 2;
	start(&limits);
	first = dial(w.path);
	await_connections(1);
	run_for(2);
	second = ask("GET /hello HTTP/1.1\r\nHost: x\r\n");
	await_connections(2);
	CURL(CODE, "http://x/hello");
	assert_string_equal(w.out, "200");
	assert_int_equal(recv(first, &byte, 1, MSG_DONTWAIT), 0);
	assert_int_equal(recv(second, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(write(second, "Connection: close\r\n\r\n", 21), 21);
	read_to_end(second);
	want("hello\n");
	close(first);
}

/* SV-12, RF-50: without descriptors the server pauses, and goes on when there are some again. */
static void
no_descriptors_is_survived(void **state)
{
	struct rlimit old, none;
	int fd = dial(w.path);

	(void)state;
	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	run_for(20);
	assert_int_equal(http_server_connections(w.server), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(write(fd, "GET /hello HTTP/1.0\r\n\r\n", 23), 23);
	read_to_end(fd);
	want("hello\n");
}

/* Time. */

/* SV-04: who connects and asks for nothing goes.  RF-16: where time ran out within a request the
 * connection ends with it, so the rest is never taken for another. */
static void
slow_clients_are_cut_off(void **state)
{
	struct http_limits limits = usual;
	int late;

	(void)state;
	limits.idle_ms = 100;
	limits.request_ms = 100;
	start(&limits);
	read_to_end(dial(w.path));
	assert_string_equal(w.out, "");
	read_to_end(ask("GET /hello HTTP/1.1\r\nHost: x\r\nX-Slow"));
	assert_string_equal(w.out, "");
	read_to_end(ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345"));
	want("HTTP/1.1 408");
	want("http.timeout");
	late = ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345");
	await_connections(1);
	await_connections(0);
	send(late, "67890GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", 42, MSG_NOSIGNAL);
	read_to_end(late);
	want("HTTP/1.1 408");
	want_not("hello");
	assert_int_equal(w.asked, 0);
	read_to_end(ask("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"));
	want("hello\n");
	assert_int_equal(http_server_connections(w.server), 0);
}

static int trickle_fd;

static void
trickle(void *ctx)
{
	if (send(trickle_fd, "a", 1, MSG_NOSIGNAL) == 1)
		loop_after(w.loop, 5, trickle, ctx);
}

/* A byte now and then does not keep a connection: the deadline is for all of the headers. */
static void
trickled_headers_are_cut_off(void **state)
{
	struct http_limits limits = usual;
	int64_t began = loop_now();

	(void)state;
	limits.idle_ms = 60;
	start(&limits);
	trickle_fd = ask("GET /hello HTTP/1.1\r\nHost: x\r\nX-Slow: ");
	loop_after(w.loop, 5, trickle, NULL);
	read_to_end(trickle_fd);
	assert_true(loop_now() - began < 2000);
	trickle_fd = -1;
}

/* While an answer is awaited, no deadline of the client's runs. */
static void
waiting_for_an_answer_is_not_idling(void **state)
{
	struct http_limits limits = usual;
	int fd;

	(void)state;
	limits.idle_ms = 60;
	limits.request_ms = 60;
	start(&limits);
	fd = ask("GET /hold HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	loop_run(w.loop);
	run_for(150);
	assert_int_equal(w.closed, 0);
	http_reply(w.held, 200, "text/plain", NULL, "at last", 7);
	read_to_end(fd);
	want("at last");
}

static void
reader_that_stalls_is_cut_off(void **state)
{
	struct http_limits limits = usual;
	int fd;

	(void)state;
	limits.stall_ms = 1; /* rounded up to a second */
	start(&limits);
	fd = ask("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	loop_run(w.loop); /* until on_close */
	assert_int_equal(w.closed, 1);
	close(fd);
}

/* Who. */

/* PT-11: a peer of another uid is closed before a byte is read. */
static void
peer_of_another_uid_is_closed(void **state)
{
	int fds[2], fd, status;
	char seen[8];
	pid_t pid;

	(void)state;
	if (getuid() != 0) {
		print_message("not root: no peer of another uid can be made here\n");
		skip();
	}
	assert_int_equal(chmod(w.dir, 0711), 0);
	assert_int_equal(chmod(w.path, 0666), 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	if ((pid = fork()) == 0) {
		if (setgid(65534) == -1 || setuid(65534) == -1)
			_exit(1);
		fd = dial(w.path);
		(void)!send(fd, "GET /hello HTTP/1.0\r\n\r\n", 23, MSG_NOSIGNAL);
		status = (int)read(fd, seen, sizeof(seen));
		(void)!write(fds[1], "done", 4);
		_exit(status > 0 ? 2 : 0);
	}
	close(fds[1]);
	read_to_end(fds[0]);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(w.refused, 1);
	assert_int_equal(http_server_connections(w.server), 0);
}

/* A connection that we dialled, or were handed, is served like any other. */
static void
handed_in_connection_is_served(void **state)
{
	struct http_peer peer = {.uid = getuid(), .surface = ADMIN, .tag = 7};
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(http_serve_fd(w.server, fds[0], &peer), 0);
	assert_int_equal(write(fds[1], "GET /admin HTTP/1.0\r\n\r\n", 23), 23);
	read_to_end(fds[1]);
	want("hello\n");
	assert_int_equal(http_serve_fd(w.server, -1, &peer), -1);
}

/* A listener that was opened elsewhere, of a family without credentials. */
static void
handed_in_listener_is_served(void **state)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	socklen_t len = sizeof(sin);
	struct refusal r;
	char url[64];
	int fd;

	(void)state;
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	assert_int_equal(http_listen_fd(w.server, fd, LOCAL, &r), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/hello", ntohs(sin.sin_port));
	w.path[0] = '\0'; /* curl dials the URL then */
	CURL(CODE, url);
	assert_int_equal(w.refused, 1); /* the hook of these tests wants a uid */
	w.any_peer = true;
	CURL(CODE, url);
	assert_string_equal(w.out, "200");
	CURL("-i", url, "-d",
	    "0123456789012345678901234567890123456789012345678901234567890123456789"
	    "0123456789012345678901234567890123456789",
	    "-H", "Expect:");
	want("HTTP/1.1 413");
	assert_int_equal(http_listen_fd(w.server, -1, LOCAL, &r), -1);
	assert_string_equal(r.code, "socket.bind");
}

/* PT-01, PT-02, PT-04 through the server; PT-10: its end leaves a successor's socket. */
static void
listener_follows_the_path_rules(void **state)
{
	struct http_server_config config = {
	    .routes = routes, .limits = usual, .authorise = authorise};
	char at[128];
	struct refusal r;
	struct stat st;
	struct http_server *next;

	(void)state;
	assert_int_equal(stat(w.path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	snprintf(at, sizeof(at), "%s/%0*d", w.dir, (int)(104 - strlen(w.dir) - 1), 0);
	assert_int_equal(http_listen_unix(w.server, at, LOCAL, 0600, &r), -1);
	assert_string_equal(r.code, "socket.path");
	assert_int_equal(http_listen_unix(w.server, w.path, LOCAL, 0600, &r), -1);
	assert_string_equal(r.code, "socket.taken");
	assert_int_equal(unlink(w.path), 0);
	next = http_server_new(w.loop, &config, &r);
	assert_non_null(next);
	assert_int_equal(http_listen_unix(next, w.path, LOCAL, 0600, &r), 0);
	http_server_free(w.server);
	w.server = next;
	CURL(CODE, "http://x/hello");
	assert_string_equal(w.out, "200");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define BARE(f) cmocka_unit_test_setup_teardown(f, setup_bare, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(get_post_and_head),
	    TEST(handler_sees_the_request),
	    TEST(unknown_path_method_and_surface),
	    TEST(connection_is_kept),
	    TEST(pipelined_requests_are_answered_in_order),
	    TEST(bodies_of_any_size_keep_their_bounds),
	    TEST(announced_length_costs_nothing),
	    TEST(unknown_is_refused_and_the_next_is_heard),
	    TEST(cut_body_is_no_body),
	    TEST(versions_are_negotiated),
	    TEST(single_bytes_are_the_same_requests),
	    TEST(nonsense_is_not_repeated),
	    TEST(answers_do_not_mix),
	    TEST(body_over_its_limit_is_refused),
	    TEST(chunked_upload_and_expect),
	    TEST(too_many_or_long_headers),
	    BARE(broken_requests_do_no_harm),
	    TEST(half_closed_client_is_answered),
	    TEST(json_is_checked),
	    TEST(refusal_is_json),
	    TEST(forgotten_request_is_a_500),
	    TEST(stream_arrives_whole),
	    TEST(head_of_a_stream_closes_it),
	    TEST(slow_reader_costs_bounded_memory),
	    TEST(client_that_vanishes_is_noticed),
	    TEST(server_ends_with_requests_open),
	    TEST(drain_answers_what_was_asked),
	    TEST(two_hundred_at_once),
	    BARE(busy_server_says_so),
	    BARE(one_uid_does_not_take_all),
	    BARE(silent_ones_are_in_nobodys_way),
	    BARE(a_burst_is_answered),
	    BARE(the_longest_silence_goes_first),
	    TEST(no_descriptors_is_survived),
	    BARE(slow_clients_are_cut_off),
	    BARE(trickled_headers_are_cut_off),
	    BARE(waiting_for_an_answer_is_not_idling),
	    BARE(reader_that_stalls_is_cut_off),
	    TEST(peer_of_another_uid_is_closed),
	    TEST(handed_in_connection_is_served),
	    TEST(handed_in_listener_is_served),
	    TEST(listener_follows_the_path_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
