/* write.c: write(2) until everything is written. */
#include <errno.h>
#include <unistd.h>

#include "engine/write.h"

int
write_all(int fd, const void *data, size_t len)
{
	const char *at = data;
	ssize_t n;

	for (; len > 0; at += n, len -= (size_t)n)
		if ((n = write(fd, at, len)) == -1) {
			if (errno != EINTR)
				return -1;
			n = 0;
		}
	return 0;
}
