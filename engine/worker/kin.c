/* kin.c: look through the environments of /proc for a mark. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/worker/kin.h"

#define PASSES      32
#define ENVIRON_MAX 262144 /* of a process that is looked at */

int
kin_mark(char mark[KIN_SIZE])
{
	struct identity me;
	int n;

	if (identity_of(getpid(), &me) != 0)
		return -1;
	n = snprintf(mark, KIN_SIZE, KIN_NAME "=%s.%" PRId64 ".%" PRId64, me.boot_id, me.pid,
	    me.start_ticks);
	return n < KIN_SIZE ? 0 : -1;
}

static bool
parse(const char *value, struct kin *kin)
{
	char end;

	return sscanf(value, "%36[0-9a-f-].%" SCNd64 ".%" SCNd64 "%c", kin->boot_id, &kin->pid,
		   &kin->start_ticks, &end) == 3;
}

/* The environment of ${pid} as it was given, in ${buf} and ended by two NULs.  Return its length.
 */
static size_t
environ_read(const char *pid, char *buf)
{
	char path[48];
	size_t len = 0;
	ssize_t n;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "/proc/%.20s/environ", pid) >= sizeof(path) ||
	    (fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return 0;
	while (len < ENVIRON_MAX && (n = read(fd, buf + len, ENVIRON_MAX - len)) > 0)
		len += (size_t)n;
	close(fd);
	buf[len] = '\0';
	return len;
}

static bool
marked(const char *buf, size_t len, struct kin *kin)
{
	static const char name[] = KIN_NAME "=";
	const char *at = buf, *end = buf + len;

	for (; at < end; at += strlen(at) + 1)
		if (strncmp(at, name, sizeof(name) - 1) == 0)
			return parse(at + sizeof(name) - 1, kin);
	return false;
}

/* End ${pid} where it is still the one that was looked at.  Return whether it was. */
static bool
end_one(const char *name, char *buf, bool (*ours)(void *ctx, const struct kin *kin), void *ctx)
{
	int fd = pidfd_open((pid_t)strtol(name, NULL, 10), 0);
	struct kin kin;
	bool ended;

	if (fd == -1)
		return false;
	ended = marked(buf, environ_read(name, buf), &kin) && ours(ctx, &kin) &&
		pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0;
	close(fd);
	return ended;
}

/* One look at all of them.  Return how many were ended. */
static int
pass(char *buf, bool (*ours)(void *ctx, const struct kin *kin), void *ctx)
{
	struct dirent *e;
	struct kin kin;
	int ended = 0;
	DIR *d;

	if ((d = opendir("/proc")) == NULL)
		return 0;
	while ((e = readdir(d)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]) &&
		    marked(buf, environ_read(e->d_name, buf), &kin) && ours(ctx, &kin))
			ended += end_one(e->d_name, buf, ours, ctx);
	closedir(d);
	return ended;
}

int
kin_end(bool (*ours)(void *ctx, const struct kin *kin), void *ctx)
{
	int n, ended = 0, left = PASSES;
	char *buf;

	if ((buf = malloc(ENVIRON_MAX + 1)) == NULL)
		return 0;
	while (left-- > 0 && (n = pass(buf, ours, ctx)) > 0)
		ended += n;
	free(buf);
	return ended;
}
