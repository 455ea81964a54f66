/* fuzz_http_server.c: any bytes on a connection; the server answers or closes, and stays whole. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/http/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop *loop;
static struct http_server *server;
static unsigned open_exchanges;

static int
take(struct http_exchange *x, void *ctx)
{
	size_t len;

	(void)ctx;
	if (http_body_json(x, &len) != NULL)
		http_reply(x, 200, "text/plain", NULL, http_body(x, NULL), len);
	return 0;
}

static void
on_close(void *ctx)
{
	(void)ctx;
	open_exchanges--;
}

static void
say(void *ctx)
{
	struct http_exchange *x = ctx;

	if (open_exchanges == 0)
		return;
	open_exchanges--;
	http_stream_write(x, "line\n", 5);
	http_stream_end(x);
}

static int
stream(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	open_exchanges++;
	if (http_stream_begin(x, 200, http_param(x, "id")) == 0)
		say(x);
	return 0;
}

static const struct http_route routes[] = {
    {"POST", "/a", 1, 64, take, ""},
    {"GET", "/s/{id}", 1, 0, stream, ""},
    {NULL, NULL, 0, 0, NULL, NULL},
};

static int
authorise(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	(void)peer;
	return 0;
}

static void
start(void)
{
	struct http_server_config config = {.routes = routes, .authorise = authorise};

	config.limits = (struct http_limits){.connections = 4,
	    .uid_connections = 4,
	    .body = 1024,
	    .header_bytes = 1024,
	    .headers = 8,
	    .idle_ms = 5,
	    .request_ms = 5,
	    .stall_ms = 1000,
	    .json_depth = 8,
	    .stream_bytes = 4096};
	if ((loop = loop_new()) == NULL || (server = http_server_new(loop, &config, NULL)) == NULL)
		abort();
}

static void
on_readable(void *ctx, uint32_t events)
{
	char drop[4096];

	(void)events;
	if (recv(*(int *)ctx, drop, sizeof(drop), 0) <= 0)
		loop_stop(loop);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_peer peer = {.surface = 1};
	int fds[2];

	if (server == NULL)
		start();
	if (size > 16384 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1)
		return 0;
	if (http_serve_fd(server, fds[0], &peer) == -1 ||
	    loop_add(loop, fds[1], EPOLLIN, on_readable, &fds[1]) == -1)
		abort();
	(void)!send(fds[1], data, size, MSG_NOSIGNAL);
	shutdown(fds[1], SHUT_WR);
	loop_run(loop);
	loop_del(loop, fds[1]);
	close(fds[1]);
	return 0;
}
