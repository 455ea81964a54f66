/* program_lane.c: both ends of handing a run's sockets over. */
#include <sys/socket.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/program_lane.h"
#include "engine/worker/runner_wire.h"

#define CODE  "op.lane"
#define MAGIC 0x6c616e65

struct word {
	uint32_t magic, padding;
	int64_t run;
};

void
lane_plan(struct sandbox_plan *plan)
{
	static const struct sandbox_listener listeners[LANE_SOCKETS] = {
	    [LANE_NAMES] = {.port = LANE_DNS, .datagram = true, .any = true},
	    [LANE_CAUGHT] = {.port = LANE_PORT, .catch = true}};

	plan->net = SANDBOX_NET_CAUGHT;
	plan->listeners = listeners;
	plan->listener_count = LANE_SOCKETS;
}

int
lane_call(const struct home *home, struct refusal *r)
{
	int fd = home_dial(home, LANE_SOCKET);

	return fd != -1 ? fd : refusal_errno(r, CODE, "the internet lane does not answer");
}

int
lane_hand(int fd, int64_t run, const int sockets[LANE_SOCKETS], struct refusal *r)
{
	const struct word w = {.magic = MAGIC, .run = run};

	if (runner_wire_send_all(fd, &w, sizeof(w), sockets, LANE_SOCKETS) == 0)
		return 0;
	return refusal_errno(r, CODE, "the internet lane takes no run");
}

int
lane_take(int fd, int64_t *run, int sockets[LANE_SOCKETS])
{
	int passed[WIRE_FDS_MAX], rc;
	struct word w;
	size_t n;

	errno = 0;
	rc = runner_wire_receive_all(fd, &w, sizeof(w), passed, &n, MSG_DONTWAIT);
	if (rc == 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (rc == 1 && w.magic == MAGIC && n == LANE_SOCKETS) {
		memcpy(sockets, passed, sizeof(passed[0]) * LANE_SOCKETS);
		*run = w.run;
		return 1;
	}
	while (rc == 1 && n > 0)
		close(passed[--n]);
	return -1;
}
