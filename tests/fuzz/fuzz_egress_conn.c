/*
 * fuzz_egress_conn.c: any bytes, in any pieces, on a connection to the lane: SOCKS5 or HTTP.
 *
 * Nothing is allowed, so each ends in a refusal, an answer or a close.
 */
#include <sys/socket.h>

#include <poll.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/store/migrate.h"
#include "net/egress/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop *loop;
static struct proxy *proxy;
static struct home home;

static void
lane_make(void)
{
	static struct store_keys keys;
	char dir[] = "/tmp/bastion-fuzz-XXXXXX", state[64], run[64];
	struct proxy_config config = {.home = &home, .keys = &keys};
	struct refusal r = {0};

	if (sodium_init() == -1 || mkdtemp(dir) == NULL)
		abort();
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(run, sizeof(run), "%s/run", dir);
	if (home_at(&home, state, run, HOME_BOX, true, &r) != 0 || migrate_up(&home, &r) < 0 ||
	    (config.db = store_open(&home, ROLE_EGRESS, &keys, &r)) == NULL ||
	    (loop = config.loop = loop_new()) == NULL || (proxy = proxy_new(&config, &r)) == NULL) {
		fprintf(stderr, "%s: %s\n", r.code, r.why);
		abort();
	}
}

static void
stop(void *ctx)
{
	(void)ctx;
	loop_stop(loop);
}

/* A turn of the loop, and time for the committer. */
static void
turn(int64_t ms)
{
	loop_after(loop, ms, stop, NULL);
	loop_run(loop);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct proxy_who who = {.host = false, .id = 1000};
	size_t piece, at;
	char in[4096];
	int fds[2];

	if (proxy == NULL)
		lane_make();
	if (size < 2 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
		return 0;
	proxy_take(proxy, fds[0], (enum proxy_speaks)(1 + data[0] % 3), &who);
	piece = data[0] < 128 ? size : 1 + data[0] % 32;
	for (at = 1; at < size; at += piece) {
		size_t some = size - at < piece ? size - at : piece;

		if (send(fds[1], data + at, some, MSG_NOSIGNAL) <= 0)
			break;
		turn(0);
	}
	while (recv(fds[1], in, sizeof(in), 0) > 0)
		;
	close(fds[1]);
	turn(0);
	return 0;
}
