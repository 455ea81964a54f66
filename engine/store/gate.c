/* gate.c: a flock with a time limit. */
#include <errno.h>
#include <stdint.h>
#include <sys/file.h>
#include <time.h>

#include "engine/store/gate.h"

static int64_t
boot_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* flock(2) has no time limit of its own: try, and sleep a little longer each time (RF-96). */
int
gate_enter(int fd, int wait_ms)
{
	int64_t end = boot_us() + (int64_t)wait_ms * 1000;
	struct timespec nap = {0, 20000};

	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -1;
		if (boot_us() >= end) {
			errno = EAGAIN;
			return -1;
		}
		nanosleep(&nap, NULL);
		if (nap.tv_nsec < 640000)
			nap.tv_nsec *= 2;
	}
	return 0;
}

void
gate_leave(int fd)
{
	flock(fd, LOCK_UN);
}
