/* identity.c: process identities from /proc. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/identity.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* Fields of /proc/PID/stat from the state (field 3) to the start time (field 22). */
#define FIELDS_TO_START 19

static int
read_text(const char *path, char *buf, size_t size)
{
	ssize_t n;
	int fd;

	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	do
		n = read(fd, buf, size - 1);
	while (n == -1 && errno == EINTR);
	close(fd);
	if (n <= 0)
		return -1;
	buf[n] = '\0';
	return 0;
}

static int
read_boot(char boot_id[IDENTITY_BOOT_LEN + 1])
{
	char buf[IDENTITY_BOOT_LEN + 2];

	if (read_text(BOOT_ID, buf, sizeof(buf)) == -1)
		return -1;
	buf[strcspn(buf, "\n")] = '\0';
	if (strlen(buf) != IDENTITY_BOOT_LEN)
		return -1;
	memcpy(boot_id, buf, IDENTITY_BOOT_LEN + 1);
	return 0;
}

/* Return the text behind ${count} spaces, or NULL. */
static const char *
skip_fields(const char *at, int count)
{
	for (; count > 0; count--) {
		if ((at = strchr(at, ' ')) == NULL)
			return NULL;
		at++;
	}
	return at;
}

static int
read_number(const char *at, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(at, &end, 10);
	return errno == 0 && end != at && *value >= 0 ? 0 : -1;
}

int
identity_parse(const char *stat, struct identity *id)
{
	const char *open, *close, *at;
	int64_t pid, start;
	char state;

	open = strchr(stat, '(');
	close = strrchr(stat, ')');
	if (open == NULL || close == NULL || close < open)
		return -1;
	if (close[1] != ' ' || close[2] == '\0' || close[3] != ' ')
		return -1;
	state = close[2];
	if ((at = skip_fields(close + 2, FIELDS_TO_START)) == NULL)
		return -1;
	if (read_number(stat, &pid) == -1 || read_number(at, &start) == -1)
		return -1;
	id->pid = pid;
	id->start_ticks = start;
	id->state = state;
	snprintf(id->program, sizeof(id->program), "%.*s", (int)(close - open - 1), open + 1);
	return 0;
}

int
identity_of(int64_t pid, struct identity *id)
{
	char path[64], stat[1024];

	snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
	if (read_text(path, stat, sizeof(stat)) == -1 || identity_parse(stat, id) == -1)
		return -1;
	return read_boot(id->boot_id);
}

bool
identity_alive(const char *boot_id, int64_t pid, int64_t start_ticks)
{
	char boot[IDENTITY_BOOT_LEN + 1];
	struct identity now;

	if (pid < 1 || pid > INT_MAX)
		return false;
	if (read_boot(boot) == 0 && strcmp(boot, boot_id) != 0)
		return false;
	if (identity_of(pid, &now) == -1)
		return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
	return now.start_ticks == start_ticks && now.state != 'Z' && now.state != 'X';
}
