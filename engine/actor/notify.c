/* notify.c: datagrams to the service manager. */
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/notify.h"

#define USEC_PER_HALF_MS 2000

/* Return the length of the address, or 0 where ${name} is none. */
static socklen_t
notify_address(const char *name, struct sockaddr_un *un)
{
	size_t len = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(un->sun_path))
		return 0;
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, name, len);
	if (name[0] == '@')
		un->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

/* Send, or give up after ${wait_ms}; a time limit of 0 would be none to the kernel. */
static ssize_t
send_within(int fd, const char *text, const struct sockaddr *to, socklen_t len, int wait_ms)
{
	struct timeval limit = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
	int flags = MSG_NOSIGNAL | (wait_ms > 0 ? 0 : MSG_DONTWAIT);

	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == -1)
		return -1;
	return sendto(fd, text, strlen(text), flags, to, len);
}

int
notify_send(const char *text, int wait_ms)
{
	union {
		struct sockaddr any;
		struct sockaddr_un un;
	} to;
	const char *name;
	socklen_t len;
	ssize_t sent;
	int fd, saved;

	if ((name = getenv("NOTIFY_SOCKET")) == NULL)
		return 0;
	if ((len = notify_address(name, &to.un)) == 0) {
		errno = EINVAL;
		return -1;
	}
	if ((fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) == -1)
		return -1;
	sent = send_within(fd, text, &to.any, len, wait_ms);
	saved = errno;
	close(fd);
	errno = saved;
	return sent == -1 ? -1 : 1;
}

static int64_t
number_of(const char *name)
{
	const char *text;
	char *end;
	long long value;

	if ((text = getenv(name)) == NULL)
		return -1;
	errno = 0;
	value = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' ? value : -1;
}

int64_t
notify_watchdog_ms(void)
{
	int64_t usec, pid;

	usec = number_of("WATCHDOG_USEC");
	pid = number_of("WATCHDOG_PID");
	if (usec < USEC_PER_HALF_MS || (pid != -1 && pid != getpid()))
		return 0;
	return usec / USEC_PER_HALF_MS;
}
