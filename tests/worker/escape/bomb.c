/* bomb.c: not out, but everything for itself. */
#include "escape.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define MIB 1048576

/* "about" is how many tasks there may be. */
static int
forks(const char *about)
{
	int n = 1, most = atoi(about);
	pid_t pid;

	while (n <= most + 8 && (pid = fork()) != -1) {
		if (pid == 0) {
			/* Each a bomb itself, as far as it gets. */
			while (fork() != -1)
				continue;
			pause();
			_exit(0);
		}
		n++;
	}
	if (n > most)
		return escaped("more tasks than the cap");
	return held();
}

static void *
hang(void *arg)
{
	pause();
	return arg;
}

static int
threads(const char *about)
{
	int n = 1, most = atoi(about), rc = 0;
	pthread_t t;

	while (n <= most + 8 && (rc = pthread_create(&t, NULL, hang, NULL)) == 0)
		n++;
	if (n > most)
		return escaped("more threads than the cap");
	errno = rc;
	return held();
}

/* "about" is how many MiB there may be. */
static int
memory(const char *about)
{
	int most = atoi(about), n, status;
	char *at;

	if (fork() == 0) {
		for (n = 0; n < most + 32; n++) {
			if ((at = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED)
				_exit(3);
			memset(at, n, MIB);
		}
		_exit(0);
	}
	wait(&status);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return held_by("SIGKILL");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		return held_by("ENOMEM");
	return escaped("more memory than the cap");
}

/* Fill the folder that we are in: "about" is how many MiB there may be. */
static int
fill(const char *about)
{
	static char block[MIB];
	int most = atoi(about), n = 0, fd = open("fill", O_CREAT | O_WRONLY, 0600);
	ssize_t wrote;

	memset(block, 'x', sizeof(block));
	if (fd == -1)
		return escaped("no file, so nothing was tried");
	while (n <= most && (wrote = write(fd, block, sizeof(block))) == (ssize_t)sizeof(block))
		n++;
	if (n > most)
		return escaped("more disk than the cap");
	if (n < most / 2)
		return escaped("less than there should be");
	write(fd, block, sizeof(block));
	return held();
}

/* The same with files that hold nothing: "about" is how many. */
static int
files(const char *about)
{
	int most = atoi(about), n;
	char name[32];

	for (n = 0; n <= most; n++) {
		snprintf(name, sizeof(name), "f%d", n);
		if (mkdir(name, 0755) == -1)
			return held();
	}
	return escaped("more files than the cap");
}

static int
descriptors(const char *about)
{
	int most = atoi(about), fd = 0;

	while (fd != -1 && fd <= most)
		fd = dup(0);
	return fd != -1 ? escaped("more descriptors than the cap") : held();
}

int
main(int argc, char **argv)
{
	static const struct attempt list[] = {{"forks", forks}, {"threads", threads},
	    {"memory", memory}, {"fill", fill}, {"files", files}, {"descriptors", descriptors},
	    {NULL, NULL}};

	return attempt(list, argc, argv);
}
