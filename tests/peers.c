/* peers.c: what a bench needs of the programs beside ours. */
#include <sys/prctl.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/driver.h"
#include "tests/peers.h"

void
peer_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

pid_t
peer_start(const char *const *words)
{
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setsid();
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execvp(words[0], (char *const *)(uintptr_t)words);
		_exit(127);
	}
	return pid;
}

static bool
is_up(int port)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	rc = connect(fd, (const struct sockaddr *)&to, sizeof(to));
	close(fd);
	return rc == 0;
}

bool
peer_comes_up(int port, int ms)
{
	int64_t until = driver_now() + ms;

	while (driver_now() < until) {
		if (is_up(port))
			return true;
		usleep(20000);
	}
	return false;
}

long
peer_sum(pid_t pid, int depth, long (*of)(const char *proc))
{
	char path[64], line[128];
	struct dirent *d;
	long all, value;
	FILE *f;
	DIR *proc;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	all = of(path);
	if (depth == 0 || (proc = opendir("/proc")) == NULL)
		return all;
	while ((d = readdir(proc)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%.16s/status", d->d_name);
		if (atoi(d->d_name) <= 0 || (f = fopen(path, "re")) == NULL)
			continue;
		while (fgets(line, sizeof(line), f) != NULL)
			if (sscanf(line, "PPid: %ld", &value) == 1 && value == pid)
				all += peer_sum(atoi(d->d_name), depth - 1, of);
		fclose(f);
	}
	closedir(proc);
	return all;
}

long
peer_memory(const char *proc)
{
	char path[96], line[128];
	long kb = 0, value;
	FILE *f;

	snprintf(path, sizeof(path), "%s/status", proc);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmRSS: %ld", &value) == 1)
			kb = value;
	fclose(f);
	return kb;
}
