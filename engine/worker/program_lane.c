/* program_lane.c: both ends of handing a run's sockets over. */
#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <stdio.h>
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

int
lane_call(const struct home *home, struct refusal *r)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd;

	snprintf(at.sun_path, sizeof(at.sun_path), "%.90s/%s", home->run, LANE_SOCKET);
	if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) == -1)
		return refusal_errno(r, CODE, "the internet lane");
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	refusal_set(r, CODE, "the internet lane does not answer: %s", strerror(errno));
	close(fd);
	return -1;
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
