/* session_lane.c: a session's sockets at the lane, also at the next one where it is started again.
 */
#include <sys/epoll.h>

#include <unistd.h>

#include "engine/worker/session_lane.h"

#define AGAIN_MS 500

static void hand_over(struct session_lane *l);

void
session_lane_none(struct session_lane *l)
{
	size_t i;

	*l = (struct session_lane){.fd = -1};
	for (i = 0; i < LANE_SOCKETS; i++)
		l->sockets[i] = -1;
}

static void
on_again(void *ctx)
{
	struct session_lane *l = ctx;

	l->again = 0;
	hand_over(l);
}

/* The lane says nothing: it is gone, or would not have it yet. */
static void
on_lane(void *ctx, uint32_t events)
{
	struct session_lane *l = ctx;

	(void)events;
	loop_del(l->loop, l->fd);
	close(l->fd);
	l->fd = -1;
	l->again = loop_after(l->loop, AGAIN_MS, on_again, l);
}

static void
hand_over(struct session_lane *l)
{
	if ((l->fd = lane_call(l->home, NULL)) != -1) {
		if (lane_hand(l->fd, l->run, l->sockets, NULL) == 0 &&
		    loop_add(l->loop, l->fd, EPOLLIN, on_lane, l) == 0)
			return;
		close(l->fd);
		l->fd = -1;
	}
	l->again = loop_after(l->loop, AGAIN_MS, on_again, l);
}

int
session_lane_take(struct session_lane *l, int listeners[SANDBOX_LISTENERS], struct refusal *r)
{
	size_t i;

	for (i = 0; i < LANE_SOCKETS; i++) {
		l->sockets[i] = listeners[i];
		listeners[i] = -1;
	}
	if (l->sockets[LANE_NAMES] == -1 || l->sockets[LANE_CAUGHT] == -1)
		return refusal_set(
		    r, "op.lane", "this kernel catches no connections in a sandbox (nf_tables)");
	return 0;
}

void
session_lane_begin(struct session_lane *l, struct loop *loop, const struct home *home, int64_t run)
{
	l->loop = loop;
	l->home = home;
	l->run = run;
	hand_over(l);
}

void
session_lane_end(struct session_lane *l)
{
	size_t i;

	if (l->loop != NULL)
		loop_cancel(l->loop, l->again);
	if (l->fd != -1) {
		loop_del(l->loop, l->fd);
		close(l->fd);
	}
	for (i = 0; i < LANE_SOCKETS; i++)
		if (l->sockets[i] != -1)
			close(l->sockets[i]);
	session_lane_none(l);
}
