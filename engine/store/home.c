/* home.c: find, check and tighten the directories of a bastion. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/store/home.h"

/* Where WAL's shared memory does not work (statfs(2) f_type). */
static const struct {
	unsigned long magic;
	const char *name;
} networked[] = {
    {0x6969, "NFS"},
    {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB"},
    {0x517b, "SMB"},
    {0x01021997, "9P"},
    {0x5346414f, "AFS"},
    {0x73757245, "Coda"},
    {0x00c36400, "Ceph"},
    {0x0bd00bd0, "Lustre"},
    {0x564c, "NCP"},
};

/* Of what is not ours in the environment an absolute path counts; anything else does not (PT-09).
 */
static const char *
absolute(const char *variable)
{
	const char *v = getenv(variable);

	return v != NULL && v[0] == '/' ? v : NULL;
}

int
home_variable(const char *variable, const char **path, struct refusal *r)
{
	const char *v = getenv(variable);

	*path = v != NULL && v[0] != '\0' ? v : NULL;
	if (*path != NULL && v[0] != '/')
		return refusal_set(r, "store.place", "%s is no absolute path: \"%s\"", variable, v);
	return 0;
}

static int
fits(int n, size_t size)
{
	return n > 0 && (size_t)n < size ? 0 : -1;
}

/* The directory ${named}, or the system's, or the user's. */
static int
place(char *out, size_t size, const char *named, const char *system, const char *xdg,
    const char *fallback, const char *leaf)
{
	const char *v;

	if (named != NULL)
		return fits(snprintf(out, size, "%s", named), size);
	if (geteuid() == 0)
		return fits(snprintf(out, size, "%s/%s", system, leaf), size);
	if ((v = absolute(xdg)) != NULL)
		return fits(snprintf(out, size, "%s/%s", v, leaf), size);
	if ((v = absolute("HOME")) != NULL)
		return fits(snprintf(out, size, "%s/%s/%s", v, fallback, leaf), size);
	return -1;
}

/* mkdir -p, 0700 for what is made. */
static int
make_directories(const char *path)
{
	char part[PATH_MAX];
	size_t i;

	if (fits(snprintf(part, sizeof(part), "%s", path), sizeof(part)) != 0) {
		errno = ENAMETOOLONG;
		return -1;
	}
	for (i = 1; part[i] != '\0'; i++) {
		if (part[i] != '/')
			continue;
		part[i] = '\0';
		if (mkdir(part, 0700) != 0 && errno != EEXIST)
			return -1;
		part[i] = '/';
	}
	return mkdir(part, 0700) != 0 && errno != EEXIST ? -1 : 0;
}

/* Ours, or anybody's when we are root (the actors then run as its owner); never wider than 0700. */
static int
directory_check(int fd, const char *path, struct refusal *r)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return refusal_errno(r, "store.directory", path);
	if (st.st_uid != geteuid() && geteuid() != 0)
		return refusal_set(r, "store.directory",
		    "%s belongs to user %u, not to us (user %u)", path, (unsigned)st.st_uid,
		    (unsigned)geteuid());
	if ((st.st_mode & 07777) != 0700 && fchmod(fd, 0700) != 0)
		return refusal_errno(r, "store.directory", path);
	return 0;
}

const char *
home_networked(unsigned long type)
{
	size_t i;

	for (i = 0; i < sizeof(networked) / sizeof(networked[0]); i++)
		if (networked[i].magic == (type & 0xffffffff))
			return networked[i].name;
	return NULL;
}

static int
directory_local(int fd, const char *path, struct refusal *r)
{
	struct statfs fs;
	const char *name;

	if (fstatfs(fd, &fs) != 0)
		return refusal_errno(r, "store.directory", path);
	if ((name = home_networked((unsigned long)fs.f_type)) != NULL)
		return refusal_set(r, "store.network",
		    "%s is on a network file system (%s), where SQLite's log does not work", path,
		    name);
	return 0;
}

static int
directory_open(const char *path, bool create, struct refusal *r)
{
	int fd;

	if (create && make_directories(path) != 0)
		return refusal_errno(r, "store.directory", path);
	if ((fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1)
		return errno == ENOENT
			   ? refusal_set(r, "store.missing", "there is no state at %s", path)
			   : refusal_errno(r, "store.directory", path);
	if (directory_check(fd, path, r) == 0 && directory_local(fd, path, r) == 0)
		return fd;
	close(fd);
	return -1;
}

int
home_at(struct home *home, const char *state, const char *run, enum home_role role, bool create,
    struct refusal *r)
{
	struct stat st;

	home->role = role;
	home->fd = -1;
	if (fits(snprintf(home->state, sizeof(home->state), "%s", state), sizeof(home->state)) != 0)
		return refusal_set(
		    r, "store.directory", "the name of the state directory is too long");
	if (fits(snprintf(home->run, sizeof(home->run), "%s", run), sizeof(home->run)) != 0)
		return refusal_set(r, "socket.path",
		    "the name of the directory for sockets is longer than %d bytes", HOME_RUN_MAX);
	if ((home->fd = directory_open(home->state, create, r)) == -1)
		return -1;
	if (fstat(home->fd, &st) != 0) {
		refusal_errno(r, "store.directory", home->state);
		home_close(home);
		return -1;
	}
	home->owner = st.st_uid;
	home->group = st.st_gid;
	return 0;
}

int
home_open(struct home *home, enum home_role role, bool create, struct refusal *r)
{
	const char *leaf = role == HOME_HOST ? "bastion-host" : "bastion";
	const char *named_state, *named_run;
	char state[PATH_MAX], run[PATH_MAX];

	home->fd = -1;
	if (home_variable(
		role == HOME_HOST ? "BASTION_HOST_STATE" : "BASTION_STATE", &named_state, r) != 0 ||
	    home_variable(role == HOME_HOST ? "BASTION_HOST_RUN" : "BASTION_RUN", &named_run, r) !=
		0)
		return -1;
	if (place(state, sizeof(state), named_state, "/var/lib", "XDG_STATE_HOME", ".local/state",
		leaf) != 0 ||
	    place(run, sizeof(run), named_run, "/run", "XDG_RUNTIME_DIR", ".local/run", leaf) != 0)
		return refusal_set(r, "store.directory",
		    "neither HOME nor the XDG directories say where the state is");
	return home_at(home, state, run, role, create, r);
}

int
home_run(const struct home *home, struct refusal *r)
{
	int fd;

	if ((fd = directory_open(home->run, true, r)) == -1)
		return -1;
	close(fd);
	return 0;
}

int
home_ask(const struct home *home, char path[HOME_ASK_MAX + 1], struct refusal *r)
{
	struct stat st;
	int fd, rc = 0;

	snprintf(path, HOME_ASK_MAX + 1, "%s-ask", home->run);
	if (mkdir(path, 0755) != 0 && errno != EEXIST)
		return refusal_errno(r, "store.directory", path);
	if ((fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1)
		return refusal_errno(r, "store.directory", path);
	if (fstat(fd, &st) != 0 ||
	    (st.st_uid == geteuid() && (st.st_mode & 07777) != 0755 && fchmod(fd, 0755) != 0))
		rc = refusal_errno(r, "store.directory", path);
	else if (st.st_uid != geteuid())
		rc = refusal_set(r, "store.directory", "%s belongs to user %u, not to us (user %u)",
		    path, (unsigned)st.st_uid, (unsigned)geteuid());
	close(fd);
	return rc;
}

int
home_dial(const struct home *home, const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd, saved;

	if ((size_t)snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", home->run, name) >=
	    sizeof(at.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) == -1 ||
	    connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

void
home_path(const struct home *home, const char *name, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s/%s", home->state, name);
}

/* What an errno of the disk is called among our refusals. */
static int
disk_refusal(struct refusal *r, const char *name)
{
	if (errno == EROFS)
		return refusal_errno(r, "store.readonly", name);
	if (errno == ENOSPC || errno == EDQUOT)
		return refusal_errno(r, "store.full", name);
	return refusal_errno(r, "store.failed", name);
}

int
home_token(const struct home *home, char token[HOME_TOKEN_SIZE])
{
	struct stat st;

	if (fstat(home->fd, &st) != 0)
		return -1;
	snprintf(token, HOME_TOKEN_SIZE, "%jx-%jx", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return 0;
}

int
home_file(const struct home *home, const char *name, struct refusal *r)
{
	int fd;

	fd = openat(home->fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd == -1)
		return disk_refusal(r, name);
	if (geteuid() != home->owner && fchown(fd, home->owner, home->group) != 0) {
		disk_refusal(r, name);
		close(fd);
		return -1;
	}
	return fd;
}

int
home_tighten(const struct home *home, const char *name, struct refusal *r)
{
	struct stat st;

	if (fstatat(home->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : disk_refusal(r, name);
	if (!S_ISREG(st.st_mode) || st.st_uid != home->owner)
		return refusal_set(r, "store.directory", "%s/%s is not a plain file of user %u",
		    home->state, name, (unsigned)home->owner);
	if ((st.st_mode & 0177) != 0 && fchmodat(home->fd, name, 0600, 0) != 0)
		return disk_refusal(r, name);
	return 0;
}

void
home_close(struct home *home)
{
	if (home->fd != -1)
		close(home->fd);
	home->fd = -1;
}
