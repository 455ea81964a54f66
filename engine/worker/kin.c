/* kin.c: look through the environments of /proc for a mark. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/actor/loop.h"
#include "engine/worker/kin.h"

#define PASSES      256
#define ENVIRON_MAX 262144 /* of a process that is looked at */

/* Fields of /proc/PID/stat, and a flag. */
#define STAT_STATE   3
#define STAT_FLAGS   9
#define STAT_CODE    26 /* where its program begins; 0 until execve has set everything else */
#define STAT_ENV     50 /* where its environment begins; then where it ends */
#define FLAG_KTHREAD 0x00200000UL

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

/*
 * The environment of ${pid} as it was given, in ${buf} and ended by two NULs.  Return its length, 0
 * with errno: EACCES or EPERM where it may not be looked at.
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
	errno = 0;
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

/*
 * Whether ${pid}, whose environment was empty, may show one in a moment, or has one by now, or may
 * have left a child by then: while a program takes the place of another there is none, and for a
 * moment it begins and ends at one address as if it were empty (create_elf_tables of the kernel);
 * on the way out there is none any more, but children are still its own.
 */
static bool
between(pid_t pid)
{
	char path[48], stat[1024], *at;
	unsigned long flags = 0, code = 0, env[2] = {0, 0};
	ssize_t n;
	char state;
	int fd, i;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return true; /* it is gone: who knows what it has left */
	n = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	if (n <= 0)
		return true;
	stat[n] = '\0';
	at = strrchr(stat, ')');
	if (at == NULL || sscanf(at, ") %c", &state) != 1 || state == 'Z' || state == 'X')
		return false;
	for (i = STAT_STATE; i <= STAT_ENV + 1 && (at = strchr(at + 1, ' ')) != NULL; i++) {
		if (i == STAT_FLAGS)
			flags = strtoul(at, NULL, 10);
		if (i == STAT_CODE)
			code = strtoul(at, NULL, 10);
		if (i >= STAT_ENV)
			env[i - STAT_ENV] = strtoul(at, NULL, 10);
	}
	return (flags & FLAG_KTHREAD) == 0 && (code == 0 || env[1] == 0 || env[1] > env[0]);
}

/* Whether the process ${fd} has ended, or does until ${until_ms}. */
static bool
ends_until(int fd, int64_t until_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t left = until_ms - loop_now();

	return poll(&p, 1, left > 0 ? (int)left : 0) == 1;
}

bool
kin_over(int fd, pid_t pid, int64_t until_ms)
{
	(void)ends_until(fd, until_ms);
	return waitpid(pid, NULL, WNOHANG) != 0;
}

struct search {
	bool (*ours)(void *ctx, const struct kin *kin);
	void *ctx;
	char *buf;
	bool reap, unsure; /* of somebody in this pass */
	int64_t until_ms;
	int ended;
	int left; /* of this pass: killed, and not gone */
	int held; /* gone, but not to be reaped now */
};

static bool
is_ours(struct search *s, pid_t pid)
{
	struct kin kin;
	size_t len = environ_read(pid, s->buf);

	if (len == 0 && errno != EACCES && errno != EPERM && between(pid))
		s->unsure = true;
	return marked(s->buf, len, &kin) && s->ours(s->ctx, &kin);
}

/* It was killed: see it go.  One that does not is looked at again. */
static void
see_off(struct search *s, int fd, pid_t pid)
{
	if (!ends_until(fd, s->until_ms)) {
		s->left++;
		s->unsure = true;
		return;
	}
	s->ended++;
	if (s->reap && waitpid(pid, NULL, WNOHANG) == 0)
		s->held++;
}

/* End ${pid} where it is one.  It is held before it is looked at, so that it is the same. */
static void
look_at(void *ctx, pid_t pid)
{
	struct search *s = ctx;
	int fd;

	if ((fd = pidfd_open(pid, 0)) == -1) {
		s->unsure |= errno == ESRCH;
		return;
	}
	if (is_ours(s, pid)) {
		if (pidfd_send_signal(fd, SIGKILL, NULL, 0) != 0)
			s->unsure |= errno == ESRCH;
		else
			see_off(s, fd, pid);
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
kin_end(enum kin_where where, bool (*ours)(void *ctx, const struct kin *kin), void *ctx, int *left)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	struct search s = {.ours = ours,
	    .ctx = ctx,
	    .reap = where == KIN_CHILDREN,
	    .until_ms = loop_now() + KIN_PATIENCE_MS};
	int before, passes = PASSES;

	*left = 0;
	if ((s.buf = malloc(ENVIRON_MAX + 1)) == NULL)
		return 0;
	do {
		before = s.ended;
		s.unsure = false;
		s.left = 0;
		(where == KIN_CHILDREN ? each_child : each_process)(look_at, &s);
		if (s.ended == before && s.unsure)
			nanosleep(&moment, NULL);
	} while ((s.ended > before || (s.unsure && loop_now() < s.until_ms)) && --passes > 0);
	free(s.buf);
	*left = s.left + s.held;
	return s.ended;
}

struct reaping {
	bool (*known)(void *ctx, int64_t pid);
	void *ctx;
	int held;
};

static void
reap_one(void *ctx, pid_t pid)
{
	struct reaping *r = ctx;
	struct identity who;

	if (!r->known(r->ctx, pid) && waitpid(pid, NULL, WNOHANG) == 0 &&
	    identity_of(pid, &who) == 0 && who.state == 'Z')
		r->held++;
}

int
kin_reap(bool (*known)(void *ctx, int64_t pid), void *ctx)
{
	struct reaping r = {known, ctx, 0};

	each_child(reap_one, &r);
	return r.held;
}
