/* place.c: following paths. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/policy/place.h"

struct way {
	int fd;               /* the directory that ${at} names, O_PATH */
	char *at;             /* where we are, clean */
	char left[PLACE_MAX]; /* what is still to be gone */
	size_t own;           /* how much of it, at its end, stood in the path and not in a link */
	unsigned links;
};

static int
way_to_root(struct way *w)
{
	if (w->fd != -1)
		close(w->fd);
	strcpy(w->at, "/");
	return (w->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) == -1 ? -1 : 0;
}

/* Take the next component; false at the end. */
static bool
way_next(struct way *w, char name[PLACE_MAX])
{
	size_t skip = strspn(w->left, "/"), n = strcspn(w->left + skip, "/");

	memcpy(name, w->left + skip, n);
	name[n] = '\0';
	memmove(w->left, w->left + skip + n, strlen(w->left + skip + n) + 1);
	return n > 0;
}

static int
way_append(struct way *w, const char *name)
{
	size_t len = strcmp(w->at, "/") == 0 ? 0 : strlen(w->at), n = strlen(name);

	if (len + 1 + n >= PLACE_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	w->at[len] = '/';
	memcpy(w->at + len + 1, name, n + 1);
	return 0;
}

static int
way_up(struct way *w)
{
	char *slash = strrchr(w->at, '/');
	int fd = openat(w->fd, "..", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd == -1)
		return -1;
	close(w->fd);
	w->fd = fd;
	slash[slash == w->at] = '\0';
	return 0;
}

/* The link ${fd}: what it says comes next. */
static int
way_link(struct way *w, int fd)
{
	char target[PLACE_MAX], left[PLACE_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

	if (n <= 0 || ++w->links > PLACE_LINKS) {
		errno = ELOOP;
		return -1;
	}
	target[n] = '\0';
	if (w->own > strlen(w->left))
		w->own = strlen(w->left);
	if (snprintf(left, sizeof(left), "%s/%s", target, w->left) >= (int)sizeof(left)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(w->left, left);
	return target[0] == '/' ? way_to_root(w) : 0;
}

/* What is left, below where we are; no ".." in it, since nobody knows where that would lead. */
static enum place_end
way_rest(struct way *w, const char *name, bool dots, enum place_end end)
{
	char next[PLACE_MAX];

	strcpy(next, name);
	do {
		if (strcmp(next, ".") == 0 || next[0] == '\0')
			continue;
		if (strcmp(next, "..") == 0 && !dots) {
			errno = ENOENT;
			return PLACE_FAILED;
		}
		if (way_append(w, next) != 0)
			return PLACE_FAILED;
	} while (way_next(w, next));
	return end;
}

/* Go to ${name}, which is neither "." nor "..".  1: go on. */
static int
way_go(struct way *w, const char *name, enum place_end *end)
{
	struct stat st;
	int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), rc;

	*end = PLACE_FAILED;
	if (fd == -1 && errno == ENOENT) {
		*end = strlen(w->left) > w->own ? PLACE_BROKEN
						: way_rest(w, name, false, PLACE_MISSING);
		return 0;
	}
	if (fd == -1)
		return 0;
	if (fstat(fd, &st) != 0) {
		close(fd);
		return 0;
	}
	if (S_ISLNK(st.st_mode)) {
		rc = way_link(w, fd);
		close(fd);
		return rc == 0;
	}
	if (way_append(w, name) != 0) {
		close(fd);
		return 0;
	}
	if (S_ISDIR(st.st_mode)) {
		close(w->fd);
		w->fd = fd;
		return 1;
	}
	close(fd);
	if (w->left[strspn(w->left, "/")] != '\0') {
		errno = ENOTDIR;
		return 0;
	}
	*end = PLACE_FOUND;
	return 0;
}

enum place_end
place_resolve(const char *path, const char *stop, char out[PLACE_MAX])
{
	struct way w = {.fd = -1, .at = out};
	enum place_end end = PLACE_FOUND;
	char name[PLACE_MAX];

	if (path[0] != '/' || strlen(path) >= PLACE_MAX) {
		errno = path[0] != '/' ? EINVAL : ENAMETOOLONG;
		return PLACE_FAILED;
	}
	strcpy(w.left, path);
	w.own = strlen(path);
	if (way_to_root(&w) != 0)
		return PLACE_FAILED;
	while (end == PLACE_FOUND) {
		if (stop != NULL && place_inside(out, stop)) {
			end = way_rest(&w, "", true, PLACE_FOUND);
			break;
		}
		if (!way_next(&w, name))
			break;
		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") == 0) {
			if (way_up(&w) != 0)
				end = PLACE_FAILED;
		} else if (way_go(&w, name, &end) == 1) {
			end = PLACE_FOUND;
		} else {
			break;
		}
	}
	if (w.fd != -1)
		close(w.fd);
	return end;
}

int
place_clean(const char *path, char out[PLACE_MAX])
{
	size_t n = 0, len;

	if (path[0] != '/' || strlen(path) >= PLACE_MAX)
		return -1;
	while (*path != '\0') {
		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 2 && memcmp(path, "..", 2) == 0) {
			while (n > 0 && out[--n] != '/')
				;
		} else if (len > 0 && !(len == 1 && path[0] == '.')) {
			out[n++] = '/';
			memcpy(out + n, path, len);
			n += len;
		}
		path += len;
	}
	if (n == 0)
		out[n++] = '/';
	out[n] = '\0';
	return 0;
}

int
place_join(const char *base, const char *path, char out[PLACE_MAX])
{
	int n = path[0] == '/' ? snprintf(out, PLACE_MAX, "%s", path)
			       : snprintf(out, PLACE_MAX, "%s/%s", base, path);

	return n < 0 || n >= PLACE_MAX ? -1 : 0;
}

bool
place_inside(const char *path, const char *root)
{
	size_t n = strlen(root);

	if (strcmp(root, "/") == 0)
		return path[0] == '/';
	return strncmp(path, root, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool
place_directory(const char *path, char out[PLACE_MAX])
{
	struct stat st;

	return place_resolve(path, NULL, out) == PLACE_FOUND &&
	       fstatat(AT_FDCWD, out, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}
