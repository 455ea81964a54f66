/* identity.c: read process identities from /proc. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/identity.h"

static ssize_t
read_file(const char *path, char *buf, size_t size)
{
	ssize_t n;
	int fd;

	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n >= 0)
		buf[n] = '\0';
	return n;
}

int
identity_boot(char out[IDENTITY_BOOT])
{
	return read_file("/proc/sys/kernel/random/boot_id", out, IDENTITY_BOOT) == IDENTITY_BOOT - 1
		   ? 0
		   : -1;
}

int
identity_start(pid_t pid, uint64_t *ticks)
{
	char path[32], stat[1024], state, *p;
	int i;

	if (pid <= 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	/* The name stands in parentheses and may itself hold some: what follows the last is ours.
	 */
	if (read_file(path, stat, sizeof(stat)) <= 0 || (p = strrchr(stat, ')')) == NULL)
		return -1;
	if (sscanf(p + 1, " %c", &state) != 1 || state == 'Z' || state == 'X')
		return -1;
	for (i = 2, p++; i < 22; i++)
		if ((p = strchr(p + 1, ' ')) == NULL)
			return -1;
	return sscanf(p, " %" SCNu64, ticks) == 1 ? 0 : -1;
}

bool
identity_alive(const char *boot, pid_t pid, uint64_t ticks)
{
	char now[IDENTITY_BOOT];
	uint64_t started;

	return identity_boot(now) == 0 && strcmp(now, boot) == 0 &&
	       identity_start(pid, &started) == 0 && started == ticks;
}
