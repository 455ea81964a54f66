/* lock.c: the one module for file locks. */
#include <sys/file.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/lock.h"

#define LOCK_CODE "store.lock"
#define PID_SIZE  24

/* How often the file may be replaced under us before we take that for an attack. */
#define LOCK_TRIES 16

#define LOOKS 8

static int
lock_check(int fd, int dirfd, const char *name, struct refusal *r)
{
	struct stat st, dir;

	if (fstat(fd, &st) == -1 || fstat(dirfd, &dir) == -1)
		return refusal_errno(r, LOCK_CODE, name);
	if (!S_ISREG(st.st_mode))
		return refusal_set(r, LOCK_CODE, "%s is not a regular file", name);
	if (st.st_nlink > 1)
		return refusal_set(r, LOCK_CODE, "%s has another name as well", name);
	if (st.st_uid != geteuid() && st.st_uid != dir.st_uid)
		return refusal_set(r, LOCK_CODE, "%s belongs to another user", name);
	if ((st.st_mode & 07177) != 0)
		return refusal_set(r, LOCK_CODE, "%s may be opened by others (mode %04o)", name,
		    st.st_mode & 07777U);
	return 0;
}

/* A disk that cannot take the file is said as what it is. */
static const char *
lock_code(int error)
{
	if (error == EROFS)
		return "store.readonly";
	return error == ENOSPC || error == EDQUOT ? "store.full" : LOCK_CODE;
}

int
lock_open(int dirfd, const char *name, struct refusal *r)
{
	int fd;

	fd = openat(
	    dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd == -1 && errno == ELOOP)
		return refusal_set(r, LOCK_CODE, "%s is a symbolic link", name);
	if (fd == -1)
		return refusal_errno(r, lock_code(errno), name);
	if (lock_check(fd, dirfd, name, r) == -1) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Return whether ${name} is still the file that ${fd} locks. */
static bool
lock_is_current(int fd, int dirfd, const char *name)
{
	struct stat ours, there;

	if (fstat(fd, &ours) == -1 || fstatat(dirfd, name, &there, AT_SYMLINK_NOFOLLOW) == -1)
		return false;
	return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static int64_t
lock_holder(int fd)
{
	char buf[PID_SIZE], *end;
	long long pid;
	ssize_t n;

	if ((n = pread(fd, buf, sizeof(buf) - 1, 0)) <= 0)
		return 0;
	buf[n] = '\0';
	pid = strtoll(buf, &end, 10);
	return end != buf && *end == '\n' && pid > 0 ? pid : 0;
}

/* The content helps a person only, so a full disk does not keep us from starting. */
static void
lock_sign(int fd)
{
	char buf[PID_SIZE];
	int len;

	len = snprintf(buf, sizeof(buf), "%ld\n", (long)getpid());
	if (pwrite(fd, buf, (size_t)len, 0) != len || ftruncate(fd, len) == -1)
		(void)!ftruncate(fd, 0);
}

/* Only EWOULDBLOCK means contention; any other errno is an error, and is reported as one. */
static int
lock_now(int fd, int how)
{
	int rc;

	do
		rc = flock(fd, how | LOCK_NB);
	while (rc == -1 && errno == EINTR);
	return rc == -1 && errno == EWOULDBLOCK ? LOCK_BUSY : rc;
}

static int
lock_try(int dirfd, const char *name, int64_t *holder, struct refusal *r)
{
	int fd, rc;

	if ((fd = lock_open(dirfd, name, r)) == -1)
		return -1;
	if ((rc = lock_now(fd, LOCK_EX)) == 0)
		return fd;
	if (rc == LOCK_BUSY)
		*holder = lock_holder(fd);
	else
		refusal_errno(r, LOCK_CODE, name);
	close(fd);
	return rc;
}

int
lock_take(int dirfd, const char *name, int64_t *holder, struct refusal *r)
{
	int fd, tries;

	*holder = 0;
	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if ((fd = lock_try(dirfd, name, holder, r)) < 0)
			return fd;
		if (lock_is_current(fd, dirfd, name)) {
			lock_sign(fd);
			return fd;
		}
		close(fd);
	}
	return refusal_set(r, LOCK_CODE, "%s keeps being replaced", name);
}

/* A line of proc(5) locks: whether it is a flock that is held, on the inode ${ino}. */
static bool
line_is(const char *line, ino_t ino)
{
	unsigned long long inode;

	/* Those that wait have an arrow behind their number. */
	return sscanf(line, "%*d: FLOCK %*s WRITE %*d %*x:%*x:%llu", &inode) == 1 && inode == ino;
}

/* Return 1 if the kernel's list has the lock on ${ino}, 0 if not, -1 where there is no list. */
static int
list_has(ino_t ino)
{
	bool held = false;
	char line[256];
	FILE *f;

	if ((f = fopen("/proc/locks", "re")) == NULL)
		return -1;
	while (!held && fgets(line, sizeof(line), f) != NULL)
		held = line_is(line, ino);
	fclose(f);
	return held;
}

int
lock_is_held(int dirfd, const char *name, struct refusal *r)
{
	struct stat st;
	int looks, held = 0;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT ? 0 : refusal_errno(r, LOCK_CODE, name);
	/* The list comes in pieces: where a lock before ours is dropped meanwhile, ours is missed.
	 */
	for (looks = 0; looks < LOOKS && held == 0; looks++)
		held = list_has(st.st_ino);
	return held != -1 ? held : refusal_errno(r, LOCK_CODE, "/proc/locks");
}

int
lock_use(int fd)
{
	return lock_now(fd, LOCK_SH);
}

int
lock_unused(int fd)
{
	return lock_now(fd, LOCK_EX);
}
