/* test_http_client.c: our client against our server, and against listeners that misbehave. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/http/client.h"
#include "net/http/server.h"

#define GUARD_MS 20000

static struct loop *loop;
static struct http_server *server;
static struct http_client *client;
static char dir[32], path[64];
static unsigned closed, held, pieces;

/* What one call came to. */
struct outcome {
	char body[70000];
	size_t len;
	int status, done;
	char type[64];
	struct refusal refusal;
	pid_t listener;
	struct http_call *call;
	bool give_up, abort;
};

static struct outcome out;
static unsigned waiting; /* calls whose end stops the loop */

/* The other end. */

static int
echo(struct http_exchange *x, void *ctx)
{
	const char *header = http_header(x, "X-Say"), *type = http_header(x, "Content-Type");
	const struct http_field headers[] = {{"X-Said", header ? header : "nothing"}, {NULL, NULL}};
	size_t len;
	const char *body = http_body(x, &len);

	(void)ctx;
	http_reply(x, 201, type, headers, body, len);
	return 0;
}

static int
fixed(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_reply(x, 200, "text/plain", NULL, "fixed", 5);
	return 0;
}

static int
elsewhere(struct http_exchange *x, void *ctx)
{
	static const struct http_field headers[] = {{"Location", "http://b/echo"}, {NULL, NULL}};

	(void)ctx;
	http_reply(x, 307, "text/plain", headers, "there", 5);
	return 0;
}

static void
on_close(void *ctx)
{
	(void)ctx;
	closed++;
	loop_stop(loop);
}

static int
hold(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	held++;
	loop_stop(loop);
	return 0;
}

static void
fill(void *x)
{
	static const char piece[4096];

	while (http_stream_write(x, piece, sizeof(piece)) <= 65536)
		pieces++;
}

static int
flood(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	http_stream_on_drain(x, fill, x);
	if (http_stream_begin(x, 200, "application/x-ndjson") == 0)
		fill(x);
	return 0;
}

static int
say_once(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	if (http_stream_begin(x, 200, "text/plain") == 0)
		http_stream_write(x, "once", 4);
	return 0;
}

static const struct http_route routes[] = {
    {"POST", "/echo", 1, 65536, echo, ""},
    {"PUT", "/echo", 1, 65536, echo, ""},
    {"GET", "/fixed", 1, 0, fixed, ""},
    {"GET", "/elsewhere", 1, 0, elsewhere, ""},
    {"GET", "/hold", 1, 0, hold, ""},
    {"GET", "/flood", 1, 0, flood, ""},
    {"GET", "/once", 1, 0, say_once, ""},
    {NULL, NULL, 0, 0, NULL, NULL},
};

static int
authorise(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	(void)peer;
	return 0;
}

static struct http_server *
serve(struct loop *on)
{
	struct http_server_config config = {.routes = routes, .authorise = authorise};
	struct http_server *s;
	struct refusal r;

	config.limits = (struct http_limits){.connections = 300,
	    .uid_connections = 300,
	    .body = 65536,
	    .header_bytes = 8192,
	    .headers = 40,
	    .idle_ms = 5000,
	    .request_ms = 5000,
	    .stall_ms = 5000,
	    .json_depth = 32,
	    .stream_bytes = 65536};
	s = http_server_new(on, &config, &r);
	assert_non_null(s);
	assert_int_equal(http_listen_unix(s, path, 1, 0600, &r), 0);
	return s;
}

static void
hung(void *ctx)
{
	(void)ctx;
	fprintf(stderr, "the test hangs\n");
	abort();
}

static int
setup(void **state)
{
	struct refusal r;

	(void)state;
	memset(&out, 0, sizeof(out));
	closed = held = pieces = waiting = 0;
	strcpy(dir, "/tmp/bst-call-XXXXXX");
	if (mkdtemp(dir) == NULL || (loop = loop_new()) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/s", dir);
	server = serve(loop);
	client = http_client_new(loop, &r);
	loop_after(loop, GUARD_MS, hung, NULL);
	return client == NULL;
}

static int
teardown(void **state)
{
	(void)state;
	http_client_free(client);
	http_server_free(server);
	loop_free(loop);
	return rmdir(dir);
}

/* Callbacks. */

static int
on_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct outcome *o = ctx;

	o->status = http_call_status(call);
	if (o->abort) {
		http_abort(call);
		return 0;
	}
	if (o->give_up)
		return -1;
	if (len > sizeof(o->body) - 1 - o->len)
		len = sizeof(o->body) - 1 - o->len;
	memcpy(o->body + o->len, data, len);
	o->len += len;
	o->body[o->len] = '\0';
	return 0;
}

static void
on_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct outcome *o = ctx;
	const char *type;

	assert_ptr_equal(call, o->call);
	o->done++;
	o->status = http_call_status(call);
	if ((type = http_call_header(call, "content-type")) != NULL)
		snprintf(o->type, sizeof(o->type), "%s", type);
	if (refusal != NULL)
		o->refusal = *refusal;
	if (waiting == 0 || --waiting == 0)
		loop_stop(loop);
}

static int
note_listener(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	struct outcome *o = ctx;

	(void)refusal;
	o->listener = peer->uid == getuid() ? peer->pid : -1;
	return 0;
}

static int
distrust(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	(void)ctx;
	(void)peer;
	return refusal_set(refusal, "socket.stranger", "not who we expected");
}

static struct http_request
request(const char *method, const char *url)
{
	return (struct http_request){.socket_path = path,
	    .method = method,
	    .url = url,
	    .connect_ms = 2000,
	    .total_ms = 10000,
	    .reply_max = 65536,
	    .chunk = on_chunk,
	    .done = on_done,
	    .ctx = &out};
}

static void
run(const struct http_request *q)
{
	int before = out.done;
	struct refusal r;

	out.call = http_start(client, q, &r);
	assert_non_null(out.call);
	while (out.done == before)
		loop_run(loop);
}

/* Asking. */

static void
post_get_head_put(void **state)
{
	const struct http_field headers[] = {{"X-Say", "boo"}, {NULL, NULL}};
	struct http_request q = request("POST", "http://b/echo");

	(void)state;
	q.body = "{\"a\":1}";
	q.body_len = 7;
	q.headers = headers;
	run(&q);
	assert_int_equal(out.done, 1);
	assert_string_equal(out.refusal.code, "");
	assert_int_equal(out.status, 201);
	assert_string_equal(out.body, "{\"a\":1}");
	assert_string_equal(out.type, "application/json");
	q.method = "PUT";
	q.body = NULL;
	run(&q);
	assert_int_equal(out.status, 201);
	q = request("HEAD", "http://b/fixed");
	out.len = 0;
	run(&q);
	assert_int_equal(out.status, 200);
	assert_int_equal(out.len, 0);
	q = request("GET", "http://b/nothing");
	run(&q);
	assert_int_equal(out.status, 404);
	assert_string_equal(out.refusal.code, "");
}

/* The body that was passed may be gone when it is sent. */
static void
body_is_copied(void **state)
{
	struct http_request q = request("POST", "http://b/echo");
	char *body = malloc(60000), url[32];
	struct refusal r;

	(void)state;
	memset(body, 'z', 60000);
	strcpy(url, "http://b/echo");
	q.url = url;
	q.body = body;
	q.body_len = 60000;
	out.call = http_start(client, &q, &r);
	memset(body, 0, 60000);
	memset(url, 0, sizeof(url));
	free(body);
	loop_run(loop);
	assert_int_equal(out.len, 60000);
	assert_int_equal(strspn(out.body, "z"), 60000);
}

static void
listener_is_shown_before_anything_is_sent(void **state)
{
	struct http_request q = request("GET", "http://b/fixed");

	(void)state;
	q.verify = note_listener;
	run(&q);
	assert_int_equal(out.listener, getpid());
	assert_int_equal(out.status, 200);
}

static int listener, accepted;

static void
on_accept(void *ctx, uint32_t events)
{
	(void)ctx;
	(void)events;
	accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

/* A listener of our own at ${path}, for what our server never does. */
static void
listen_plain(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};

	http_server_free(server);
	server = NULL;
	strcpy(sun.sun_path, path);
	accepted = -1;
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(listener, 5), 0);
	assert_int_equal(loop_add(loop, listener, EPOLLIN, on_accept, NULL), 0);
}

static void
unlisten(void)
{
	loop_del(loop, listener);
	close(listener);
	close(accepted);
	unlink(path);
}

static void
stop(void *ctx)
{
	(void)ctx;
	loop_stop(loop);
}

static void
stranger_gets_nothing(void **state)
{
	struct http_request q = request("POST", "http://b/echo");
	char seen[16];

	(void)state;
	listen_plain();
	q.verify = distrust;
	q.body = "secret";
	q.body_len = 6;
	run(&q);
	assert_string_equal(out.refusal.code, "socket.stranger");
	while (accepted == -1) {
		loop_after(loop, 1, stop, NULL);
		loop_run(loop);
	}
	assert_int_equal(read(accepted, seen, sizeof(seen)), 0);
	unlisten();
}

static void
nobody_listens(void **state)
{
	struct http_request q = request("GET", "http://b/fixed");

	(void)state;
	http_server_free(server);
	server = NULL;
	run(&q);
	assert_string_equal(out.refusal.code, "http.unreachable");
	assert_int_equal(out.status, 0);
}

/* RC-04: accepted, and silent: each of the three clocks ends it. */
static void
silence_is_a_timeout(void **state)
{
	struct http_request q = request("GET", "http://b/fixed");

	(void)state;
	listen_plain();
	q.total_ms = 20;
	run(&q);
	assert_string_equal(out.refusal.code, "http.timeout");
	close(accepted);
	q.total_ms = 0;
	q.idle_ms = 20;
	run(&q);
	assert_string_equal(out.refusal.code, "http.timeout");
	close(accepted);
	q.idle_ms = 0;
	q.head_ms = 20;
	run(&q);
	assert_string_equal(out.refusal.code, "http.timeout");
	assert_int_equal(out.done, 3);
	unlisten();
}

/* RF-64: whoever is sent elsewhere does not go, so no header of theirs does. */
static void
nobody_is_led_elsewhere(void **state)
{
	static const struct http_field headers[] = {
	    {"Authorization", "Bearer mine"}, {"X-Key", "mine"}, {NULL, NULL}};
	struct http_request q = request("GET", "http://b/elsewhere");

	(void)state;
	q.headers = headers;
	run(&q);
	assert_int_equal(out.status, 307);
	assert_string_equal(out.body, "there");
	assert_int_equal(out.done, 1);
}

static void
stream_that_falls_silent_is_a_timeout(void **state)
{
	struct http_request q = request("GET", "http://b/once");

	(void)state;
	q.total_ms = 0;
	q.idle_ms = 30;
	run(&q);
	assert_string_equal(out.body, "once");
	assert_string_equal(out.refusal.code, "http.timeout");
	if (closed == 0)
		loop_run(loop);
	assert_int_equal(closed, 1);
}

static void
garbage_is_no_answer(void **state)
{
	struct http_request q = request("GET", "http://b/fixed");
	struct refusal r;

	(void)state;
	listen_plain();
	out.call = http_start(client, &q, &r);
	while (accepted == -1) {
		loop_after(loop, 1, stop, NULL);
		loop_run(loop);
	}
	assert_int_equal(
	    write(accepted, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", 43), 43);
	shutdown(accepted, SHUT_RDWR);
	loop_run(loop);
	assert_string_equal(out.refusal.code, "http.protocol");
	unlisten();
}

static void
answer_over_its_limit_is_cut(void **state)
{
	struct http_request q = request("GET", "http://b/flood");

	(void)state;
	q.reply_max = 10000;
	run(&q);
	assert_string_equal(out.refusal.code, "http.too_large");
	assert_true(out.len <= 10000);
	q.url = "http://b/fixed"; /* by the announced length */
	q.reply_max = 4;
	out.len = 0;
	run(&q);
	assert_string_equal(out.refusal.code, "http.too_large");
	assert_int_equal(out.len, 0);
	q.reply_max = 5;
	out.refusal.code[0] = '\0';
	run(&q);
	assert_string_equal(out.refusal.code, "");
}

/* Giving up from inside a chunk, aborting there, and aborting from elsewhere. */
static void
call_ends_when_asked(void **state)
{
	struct http_request q = request("GET", "http://b/flood");
	struct refusal r;

	(void)state;
	q.reply_max = 0;
	out.give_up = true;
	run(&q);
	assert_string_equal(out.refusal.code, "http.aborted");
	while (closed < 1)
		loop_run(loop);
	out.give_up = false;
	out.abort = true;
	out.done = 0;
	assert_non_null(http_start(client, &q, &r));
	while (closed < 2)
		loop_run(loop);
	out.abort = false;
	q.url = "http://b/hold";
	out.call = http_start(client, &q, &r);
	while (held < 1)
		loop_run(loop);
	http_abort(out.call);
	while (closed < 3)
		loop_run(loop);
	assert_int_equal(out.done, 0);
}

/* Freeing the client ends its calls without their done. */
static void
freed_client_ends_its_calls(void **state)
{
	struct http_request q = request("GET", "http://b/hold");
	struct refusal r;

	(void)state;
	assert_non_null(http_start(client, &q, &r));
	assert_non_null(http_start(client, &q, &r));
	while (held < 2)
		loop_run(loop);
	http_client_free(client);
	client = NULL;
	while (closed < 2)
		loop_run(loop);
	assert_int_equal(out.done, 0);
}

static void
header_with_a_line_break_is_refused(void **state)
{
	static const struct http_field bad[][2] = {{{"X", "a\r\nY: b"}, {NULL, NULL}},
	    {{"X\nY", "a"}, {NULL, NULL}}, {{"X: y", "a"}, {NULL, NULL}}};
	struct http_request q = request("GET", "http://b/fixed");
	struct refusal r;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		q.headers = bad[i];
		assert_null(http_start(client, &q, &r));
	}
}

/* Without a socket_path the URL is dialled; the user's proxy variables are not heeded. */
static void
url_is_dialled(void **state)
{
	struct http_request q = request("GET", NULL);
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
	assert_int_equal(http_listen_fd(server, fd, 1, &r), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/fixed", ntohs(sin.sin_port));
	setenv("http_proxy", "http://127.0.0.1:1/", 1);
	q.socket_path = NULL;
	q.url = url;
	run(&q);
	run(&q);
	unsetenv("http_proxy");
	assert_string_equal(out.refusal.code, "");
	assert_string_equal(out.body, "fixedfixed");
	assert_int_equal(http_server_connections(server), 1); /* kept for the second */
	q.url = "file:///etc/hostname";
	run(&q);
	assert_string_equal(out.refusal.code, "http.protocol");
}

static unsigned
open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static struct outcome many[200];

static void
two_hundred_calls_at_once(void **state)
{
	struct http_request q = request("POST", "http://b/echo");
	unsigned i, before;
	struct refusal r;

	(void)state;
	q.body = "x";
	q.body_len = 1;
	/* With its first call a client takes what libcurl keeps. */
	run(&q);
	while (http_server_connections(server) > 0) {
		loop_after(loop, 1, stop, NULL);
		loop_run(loop);
	}
	before = open_descriptors();
	waiting = 200;
	memset(many, 0, sizeof(many));
	for (i = 0; i < 200; i++) {
		q.ctx = &many[i];
		many[i].call = http_start(client, &q, &r);
		assert_non_null(many[i].call);
	}
	loop_run(loop);
	for (i = 0; i < 200; i++) {
		assert_string_equal(many[i].refusal.code, "");
		assert_string_equal(many[i].body, "x");
	}
	while (http_server_connections(server) > 0) {
		loop_after(loop, 1, stop, NULL);
		loop_run(loop);
	}
	assert_int_equal(open_descriptors(), before);
}

/* For verbs. */

static void *
serve_in_thread(void *ctx)
{
	loop_run(ctx);
	return NULL;
}

static void
ask_waits_for_the_answer(void **state)
{
	struct http_request q = request("POST", "http://b/echo");
	struct http_answer answer;
	struct refusal r;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, serve_in_thread, loop), 0);
	q.chunk = NULL;
	q.done = NULL;
	q.verify = note_listener;
	q.body = "ask";
	q.body_len = 3;
	assert_int_equal(http_ask(&q, &answer, &r), 0);
	assert_int_equal(answer.status, 201);
	assert_string_equal(answer.body, "ask");
	assert_int_equal(answer.len, 3);
	assert_int_equal(out.listener, getpid());
	free(answer.body);
	q.verify = distrust;
	assert_int_equal(http_ask(&q, &answer, &r), -1);
	assert_string_equal(r.code, "socket.stranger");
	assert_null(answer.body);
	q = request("GET", "http://b/fixed");
	assert_int_equal(http_ask(&q, &answer, &r), 0);
	assert_string_equal(out.body, "fixed");
	assert_string_equal(answer.body, "");
	free(answer.body);
	q = request("GET", "http://b/flood");
	q.chunk = NULL;
	assert_int_equal(http_ask(&q, &answer, &r), -1);
	assert_string_equal(r.code, "http.too_large");
	pthread_join(thread, NULL); /* the end of that stream stopped its loop */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(post_get_head_put),
	    TEST(body_is_copied),
	    TEST(listener_is_shown_before_anything_is_sent),
	    TEST(stranger_gets_nothing),
	    TEST(nobody_listens),
	    TEST(silence_is_a_timeout),
	    TEST(nobody_is_led_elsewhere),
	    TEST(stream_that_falls_silent_is_a_timeout),
	    TEST(garbage_is_no_answer),
	    TEST(answer_over_its_limit_is_cut),
	    TEST(call_ends_when_asked),
	    TEST(freed_client_ends_its_calls),
	    TEST(header_with_a_line_break_is_refused),
	    TEST(url_is_dialled),
	    TEST(two_hundred_calls_at_once),
	    TEST(ask_waits_for_the_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
