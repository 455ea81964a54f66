/* act.c: the walls around the paths that verbs take. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/worker/act.h"

#define LEVELS 512

int
act_path_check(const char *path, struct refusal *refusal)
{
	static const char *const tops[] = {"/proc", "/sys", "/dev"};
	const char *at, *end;
	size_t i, len;

	if (path[0] != '/' || path[1] == '\0')
		return refusal_set(refusal, "act.path", "a path is absolute, and not / itself");
	for (at = path; *at != '\0'; at = end) {
		end = at + 1 + strcspn(at + 1, "/");
		len = (size_t)(end - at) - 1;
		if (len == 0 || (len == 1 && at[1] == '.') ||
		    (len == 2 && at[1] == '.' && at[2] == '.'))
			return refusal_set(
			    refusal, "act.path", "a path has no empty part, no . and no ..");
	}
	for (at = path; *at != '\0'; at++)
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			return refusal_set(refusal, "act.path", "a path has no control characters");
	for (i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
		len = strlen(tops[i]);
		if (strncmp(path, tops[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
			return refusal_set(
			    refusal, "act.path", "verbs do not reach below /proc, /sys and /dev");
	}
	return 0;
}

static bool
same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is the folder ${fd}, which this closes, or one that it lies in, one of the ${n} in ${set}?  Yes
 * where nobody can say. */
static bool
lies_in(int fd, const struct stat *set, int n)
{
	struct stat st, up;
	int i, level, next;
	bool found = fd == -1 || fstat(fd, &st) == -1;

	for (level = 0; !found && level < LEVELS; level++, st = up) {
		for (i = 0; i < n; i++)
			found = found || same_file(&st, &set[i]);
		next = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
		if (found || fd == -1 || fstat(fd, &up) == -1) {
			found = true;
			break;
		}
		if (same_file(&st, &up))
			break;
	}
	if (fd != -1)
		close(fd);
	return found || level == LEVELS;
}

static bool
is_ours(const struct observe_env *env, int fd)
{
	struct stat keep[OBSERVE_KEEP];
	int i, n = 0;

	for (i = 0; i < OBSERVE_KEEP; i++)
		if (env->keep[i][0] != '\0' && stat(env->keep[i], &keep[n]) == 0)
			n++;
	return lies_in(fcntl(fd, F_DUPFD_CLOEXEC, 0), keep, n);
}

bool
act_holds_own(const struct observe_env *env, const struct stat *st)
{
	int i;

	for (i = 0; i < OBSERVE_KEEP; i++)
		if (env->keep[i][0] != '\0' && access(env->keep[i], F_OK) == 0 &&
		    lies_in(open(env->keep[i], O_PATH | O_DIRECTORY | O_CLOEXEC), st, 1))
			return true;
	return false;
}

int
act_parent(
    const struct observe_env *env, const char *path, const char **name, struct refusal *refusal)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
	    .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	char folder[OBSERVE_ARG_MAX];
	int fd;

	if (act_path_check(path, refusal) != 0)
		return -1;
	*name = strrchr(path, '/') + 1;
	snprintf(
	    folder, sizeof(folder), "%.*s", *name - 1 > path ? (int)(*name - 1 - path) : 1, path);
	if ((fd = (int)syscall(SYS_openat2, AT_FDCWD, folder, &how, sizeof(how))) == -1) {
		if (errno == ELOOP)
			return refusal_set(refusal, "act.path", "a part of the path is a link");
		return refusal_set(
		    refusal, "act.missing", "the folder cannot be opened: %s", strerror(errno));
	}
	if (is_ours(env, fd)) {
		close(fd);
		return refusal_set(refusal, "act.own", "bastion keeps its own files there");
	}
	return fd;
}
