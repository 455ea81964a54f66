/* lanes.c: runs that are handed over: each a connection, and two sockets of another network. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/worker/program_lane.h"
#include "net/egress/accept.h"
#include "net/egress/inside.h"
#include "net/egress/lanes.h"
#include "net/egress/who.h"
#include "net/http/unixsock.h"

#define BACKLOG 64
#define TURN    16 /* runs before others have their turn */

/* Who it runs as, where it is under way and reaches something. */
static const char UID[] = "SELECT uid FROM carried_run WHERE id = :run";

struct run {
	struct run *next, **self;
	struct lanes *of;
	int fd;
	struct inside *inside; /* NULL until its sockets came */
};

struct lanes {
	struct lanes_config config;
	struct unixsock sock;
	struct acceptor acceptor;
	struct run *list;
	int64_t count;
};

static void
run_free(struct run *run)
{
	struct lanes *lanes = run->of;

	*run->self = run->next;
	if (run->next != NULL)
		run->next->self = run->self;
	lanes->count--;
	inside_free(run->inside);
	loop_del(lanes->config.loop, run->fd);
	close(run->fd);
	free(run);
}

/* Return who the run ${id} runs as, or -1. */
static int64_t
uid_of(struct store *db, int64_t id)
{
	struct stmt *q = store_sql(db, UID);

	if (q == NULL)
		return -1;
	stmt_int(q, ":run", id);
	return stmt_value(q, -1);
}

/* Carry what comes out of ${sockets}, which are taken.  Return 0 or -1. */
static int
run_begin(struct run *run, int64_t id, const int sockets[LANE_SOCKETS])
{
	const struct lanes_config *c = &run->of->config;
	struct inside_config config = {.proxy = c->proxy,
	    .loop = c->loop,
	    .who = {.id = uid_of(c->db, id), .run = id},
	    .names = (size_t)store_setting(c->db, "run.names"),
	    .dns = sockets[LANE_NAMES],
	    .caught = sockets[LANE_CAUGHT]};
	struct refusal r;

	if (config.who.id >= 0)
		return (run->inside = inside_new(&config, &r)) != NULL ? 0 : -1;
	close(config.dns);
	close(config.caught);
	return -1;
}

static void
on_run(void *ctx, uint32_t events)
{
	int64_t id = 0;
	struct run *run = ctx;
	int sockets[LANE_SOCKETS], n = lane_take(run->fd, &id, sockets);

	(void)events;
	if (n == 0)
		return;
	if (n == 1 && run->inside == NULL && run_begin(run, id, sockets) == 0)
		return;
	if (n == 1 && run->inside != NULL) {
		close(sockets[LANE_NAMES]);
		close(sockets[LANE_CAUGHT]);
	}
	run_free(run);
}

/* Whether who connected may hand runs over: the directory lets no other in, and the kernel says so
 * again. */
static bool
is_ours(int fd)
{
	uid_t uid;

	return who_unix(fd, &uid) == 0 && (uid == 0 || uid == geteuid());
}

static void
on_accepted(void *ctx, int fd, const struct sockaddr_in *from)
{
	struct lanes *lanes = ctx;
	struct run *run;

	(void)from;
	if (!is_ours(fd) || lanes->count >= store_setting(lanes->config.db, "sandbox.live") ||
	    (run = calloc(1, sizeof(*run))) == NULL) {
		close(fd);
		return;
	}
	run->of = lanes;
	run->fd = fd;
	run->next = lanes->list;
	run->self = &lanes->list;
	if (run->next != NULL)
		run->next->self = &run->next;
	lanes->list = run;
	lanes->count++;
	if (loop_add(lanes->config.loop, fd, EPOLLIN, on_run, run) != 0)
		run_free(run);
}

struct lanes *
lanes_new(const struct lanes_config *config, struct refusal *r)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));
	char path[HOME_RUN_MAX + sizeof(LANE_SOCKET) + 1];

	if (lanes == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	lanes->config = *config;
	snprintf(path, sizeof(path), "%s/%s", config->home->run, LANE_SOCKET);
	if (unixsock_bind(&lanes->sock, path, 0600, r) != 0 ||
	    unixsock_publish(&lanes->sock, BACKLOG, r) != 0) {
		free(lanes);
		return NULL;
	}
	if (accept_begin(
		&lanes->acceptor, config->loop, lanes->sock.fd, TURN, on_accepted, lanes) == 0)
		return lanes;
	refusal_errno(r, "socket.bind", "cannot listen for runs of added ops");
	unixsock_close(&lanes->sock);
	free(lanes);
	return NULL;
}

void
lanes_free(struct lanes *lanes)
{
	if (lanes == NULL)
		return;
	while (lanes->list != NULL)
		run_free(lanes->list);
	accept_end(&lanes->acceptor);
	unixsock_close(&lanes->sock);
	free(lanes);
}
