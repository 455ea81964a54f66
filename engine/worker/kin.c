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
#include <sys/wait.h>
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
environ_read(pid_t pid, char *buf)
{
	char path[48];
	size_t len = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
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

struct search {
	bool (*ours)(void *ctx, const struct kin *kin);
	void *ctx;
	char *buf;
	bool reap;
	int ended;
};

static bool
is_ours(const struct search *s, pid_t pid)
{
	struct kin kin;

	return marked(s->buf, environ_read(pid, s->buf), &kin) && s->ours(s->ctx, &kin);
}

/* End ${pid} where it is one, and still the one that was looked at. */
static void
look_at(void *ctx, pid_t pid)
{
	struct search *s = ctx;
	int fd;

	if (!is_ours(s, pid) || (fd = pidfd_open(pid, 0)) == -1)
		return;
	if (is_ours(s, pid) && pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0) {
		s->ended++;
		if (s->reap)
			waitpid(pid, NULL, 0);
	}
	close(fd);
}

static void
each_process(void (*fn)(void *ctx, pid_t pid), void *ctx)
{
	struct dirent *e;
	DIR *d;

	if ((d = opendir("/proc")) == NULL)
		return;
	while ((e = readdir(d)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]))
			fn(ctx, (pid_t)strtol(e->d_name, NULL, 10));
	closedir(d);
}

/* A process is the child of a thread. */
static void
each_child(void (*fn)(void *ctx, pid_t pid), void *ctx)
{
	char path[64];
	struct dirent *e;
	FILE *f;
	int pid;
	DIR *d;

	if ((d = opendir("/proc/self/task")) == NULL)
		return;
	while ((e = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/children", e->d_name);
		if (!isdigit((unsigned char)e->d_name[0]) || (f = fopen(path, "re")) == NULL)
			continue;
		while (fscanf(f, "%d", &pid) == 1)
			fn(ctx, pid);
		fclose(f);
	}
	closedir(d);
}

int
kin_end(enum kin_where where, bool (*ours)(void *ctx, const struct kin *kin), void *ctx)
{
	struct search s = {.ours = ours, .ctx = ctx, .reap = where == KIN_CHILDREN};
	int before, left = PASSES;

	if ((s.buf = malloc(ENVIRON_MAX + 1)) == NULL)
		return 0;
	do {
		before = s.ended;
		(where == KIN_CHILDREN ? each_child : each_process)(look_at, &s);
	} while (s.ended > before && --left > 0);
	free(s.buf);
	return s.ended;
}

struct reaping {
	bool (*known)(void *ctx, int64_t pid);
	void *ctx;
};

static void
reap_one(void *ctx, pid_t pid)
{
	const struct reaping *r = ctx;

	if (!r->known(r->ctx, pid))
		(void)waitpid(pid, NULL, WNOHANG);
}

void
kin_reap(bool (*known)(void *ctx, int64_t pid), void *ctx)
{
	struct reaping r = {known, ctx};

	each_child(reap_one, &r);
}
