/* clear.c: remove a tree beneath a handle. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/clear.h"

int
clear_folder(int fd, int depth)
{
	struct dirent *e;
	int error = 0;
	DIR *list;

	if ((list = fdopendir(fd)) == NULL) {
		error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	while ((e = readdir(list)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    clear_entry(dirfd(list), e->d_name, depth - 1) == -1 && error == 0)
			error = errno;
	closedir(list);
	errno = error;
	return error == 0 ? 0 : -1;
}

int
clear_entry(int dir, const char *name, int depth)
{
	int fd;

	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	if (depth < 0) {
		errno = ELOOP;
		return -1;
	}
	if ((fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1 ||
	    clear_folder(fd, depth) == -1)
		return -1;
	return unlinkat(dir, name, AT_REMOVEDIR);
}
