/* unixsock.c: bind hidden, check, listen, rename into place. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/http/unixsock.h"

static int
open_directory(struct unixsock *s, const char *path, mode_t mode, struct refusal *refusal)
{
	char dir[UNIXSOCK_PATH_MAX + 1];
	const char *slash = strrchr(path, '/');
	struct stat st;

	/* "/x/../y" or "name" would depend on something else than the directory that we check. */
	if (path[0] != '/' || slash[1] == '\0' || strcmp(slash, "/.") == 0 ||
	    strcmp(slash, "/..") == 0)
		return refusal_set(refusal, "socket.path", "a socket's path is absolute");
	snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	snprintf(s->name, sizeof(s->name), "%s", slash + 1);
	s->dir = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->dir == -1 || fstat(s->dir, &st) == -1)
		return refusal_errno(refusal, "socket.directory", "the socket's directory");
	if (st.st_uid != geteuid())
		return refusal_set(
		    refusal, "socket.directory", "the socket's directory belongs to another user");
	if ((st.st_mode & 022) != 0 || ((mode & 077) == 0 && (st.st_mode & 077) != 0))
		return refusal_set(refusal, "socket.directory",
		    "the socket's directory is open to others (mode %04o)", st.st_mode & 07777);
	return 0;
}

/* The address of ${name} beneath ${dir}: the kernel has no bindat. */
static int
address(struct sockaddr_un *sun, int dir, const char *name)
{
	int n;

	*sun = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(sun->sun_path, sizeof(sun->sun_path), "/proc/self/fd/%d/%s", dir, name);
	return n > 0 && (size_t)n < sizeof(sun->sun_path) ? 0 : -1;
}

static bool
is_ours(const struct unixsock *s, const char *name)
{
	struct stat st;

	return fstatat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
	       st.st_dev == s->dev && st.st_ino == s->ino;
}

static int
bind_hidden(struct unixsock *s, mode_t mode)
{
	struct sockaddr_un sun;
	struct stat st;
	uint64_t tail;
	mode_t old;
	int r;

	randombytes_buf(&tail, sizeof(tail));
	snprintf(s->hidden, sizeof(s->hidden), ".sock.%016" PRIx64, tail);
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd == -1 || address(&sun, s->dir, s->hidden) == -1)
		return -1;
	old = umask(0177);
	r = bind(s->fd, (struct sockaddr *)&sun, sizeof(sun));
	umask(old);
	if (r == -1 || fstatat(s->dir, s->hidden, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return -1;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	if ((mode & 0777) == 0600)
		return 0;
	return fchmodat(s->dir, s->hidden, mode & 0777, 0);
}

int
unixsock_bind(struct unixsock *s, const char *path, mode_t mode, struct refusal *refusal)
{
	*s = (struct unixsock){.fd = -1, .dir = -1};
	if (strlen(path) > UNIXSOCK_PATH_MAX)
		return refusal_set(refusal, "socket.path",
		    "a socket's path has at most %d bytes, this one has %zu", UNIXSOCK_PATH_MAX,
		    strlen(path));
	if (open_directory(s, path, mode, refusal) == -1)
		goto fail;
	if (bind_hidden(s, mode) == -1) {
		refusal_errno(refusal, "socket.bind", "binding the socket");
		goto fail;
	}
	return 0;
fail:
	unixsock_close(s);
	return -1;
}

/* Does anyone answer on the socket that ${path_fd} (an O_PATH descriptor) stands for? */
static bool
is_answered(int path_fd)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	bool refused;
	int fd;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d", path_fd);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return true;
	refused = connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1 && errno == ECONNREFUSED;
	close(fd);
	return !refused;
}

/* Remove a socket that a crash left behind.  Return 0 when the name is free. */
static int
remove_stale(const struct unixsock *s, struct refusal *refusal)
{
	struct stat st;
	bool stale;
	int fd;

	fd = openat(s->dir, s->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 && errno == ENOENT)
		return 0;
	if (fd == -1 || fstat(fd, &st) == -1) {
		refusal_errno(refusal, "socket.taken", "what stands in the socket's place");
		if (fd != -1)
			close(fd);
		return -1;
	}
	stale = S_ISSOCK(st.st_mode) && !is_answered(fd);
	close(fd);
	if (!S_ISSOCK(st.st_mode))
		return refusal_set(refusal, "socket.taken",
		    "something that is no socket stands in the socket's place");
	if (!stale)
		return refusal_set(refusal, "socket.taken", "another server answers there");
	if (unlinkat(s->dir, s->name, 0) == -1 && errno != ENOENT)
		return refusal_errno(refusal, "socket.taken", "removing the stale socket");
	return 0;
}

int
unixsock_publish(struct unixsock *s, int backlog, struct refusal *refusal)
{
	if (listen(s->fd, backlog) == -1) {
		refusal_errno(refusal, "socket.bind", "listening on the socket");
		goto fail;
	}
	if (remove_stale(s, refusal) == -1)
		goto fail;
	if (!is_ours(s, s->hidden))
		goto replaced;
	if (renameat2(s->dir, s->hidden, s->dir, s->name, RENAME_NOREPLACE) == -1) {
		refusal_errno(refusal, errno == EEXIST ? "socket.taken" : "socket.bind",
		    "giving the socket its name");
		goto fail;
	}
	if (!is_ours(s, s->name))
		goto replaced;
	s->hidden[0] = '\0';
	return 0;
replaced:
	refusal_set(
	    refusal, "socket.replaced", "the socket was replaced while it was being set up");
fail:
	unixsock_close(s);
	return -1;
}

void
unixsock_close(struct unixsock *s)
{
	if (s->dir != -1 && s->ino != 0) {
		if (s->hidden[0] != '\0' && is_ours(s, s->hidden))
			unlinkat(s->dir, s->hidden, 0);
		if (is_ours(s, s->name))
			unlinkat(s->dir, s->name, 0);
	}
	if (s->fd != -1)
		close(s->fd);
	if (s->dir != -1)
		close(s->dir);
	s->fd = s->dir = -1;
}
