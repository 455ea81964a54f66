/* process.c: out by way of other processes. */
#include "escape.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

/* ptrace the first process inside, which is a copy of one outside. */
static int
trace(const char *about)
{
	(void)about;
	if (ptrace(PTRACE_ATTACH, 1, NULL, NULL) == 0 || ptrace(PTRACE_SEIZE, 1, NULL, NULL) == 0)
		return escaped("the first process is traced");
	return held();
}

/* Read its memory, its environment, its descriptors, its root. */
static int
memory(const char *about)
{
	static const char *const files[] = {"/proc/1/mem", "/proc/1/environ", "/proc/1/auxv",
	    "/proc/1/maps", "/proc/1/stack", "/proc/1/root/etc/passwd", "/proc/1/cwd/etc/passwd"};
	char byte, path[64];
	size_t i;
	int fd;

	(void)about;
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if ((fd = open(files[i], O_RDONLY)) != -1 && read(fd, &byte, 1) == 1)
			return escaped(files[i]);
	for (fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/1/fd/%d", fd);
		if (open(path, O_RDONLY) != -1)
			return escaped(path);
	}
	open(files[0], O_RDONLY);
	return held();
}

static int
vm(const char *about)
{
	char buf[16];
	struct iovec local = {buf, sizeof(buf)},
		     remote = {(void *)(uintptr_t)0x400000, sizeof(buf)};

	(void)about;
	if (process_vm_readv(1, &local, 1, &remote, 1, 0) != -1 ||
	    process_vm_writev(1, &local, 1, &remote, 1, 0) != -1)
		return escaped("process_vm");
	return held();
}

/* The shape of CVE-2019-5736: the program that made the sandbox, through /proc/PID/exe. */
static int
maker(const char *about)
{
	char path[64];
	int pid, fd;

	(void)about;
	for (pid = 1; pid < 4; pid++) {
		snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		if (pid != getpid() && (fd = open(path, O_RDONLY)) != -1)
			return escaped(path);
	}
	if ((fd = open("/proc/self/exe", O_WRONLY)) != -1 ||
	    (fd = open("/proc/self/exe", O_WRONLY | O_TRUNC)) != -1)
		return escaped("/proc/self/exe");
	if (open("/proc/1/exe", O_RDONLY) != -1)
		return escaped("/proc/1/exe");
	return held();
}

/* CVE-2024-21626's shape: a descriptor or a working directory that was left open. */
static int
descriptors(const char *about)
{
	char path[64], link[256];
	int fd;
	ssize_t n;

	(void)about;
	for (fd = 3; fd < 8192; fd++)
		if (fcntl(fd, F_GETFD) != -1)
			return escaped("a descriptor was left");
	for (fd = 3; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d/../../../../../etc/passwd", fd);
		if (open(path, O_RDONLY) != -1)
			return escaped(path);
	}
	n = readlink("/proc/self/cwd", link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = '\0';
	if (link[0] != '/' || strstr(link, "unreachable") != NULL)
		return escaped("the working directory is outside");
	errno = EBADF;
	return held();
}

static int
take_fd(const char *about)
{
	int fd = (int)syscall(434, 1, 0); /* pidfd_open */

	(void)about;
	if (fd != -1 && syscall(438, fd, 0, 0) != -1) /* pidfd_getfd */
		return escaped("pidfd_getfd");
	return held();
}

/* A process outside, by the number that it has there. */
static int
signal_outside(const char *about)
{
	pid_t pid = (pid_t)atoi(about);

	if (kill(pid, SIGKILL) == 0 || kill(-pid, SIGKILL) == 0)
		return escaped("a process outside was signalled");
	return held();
}

/* Everybody there is, and the group of whoever started us; the test looks who is left. */
static int
signal_all(const char *about)
{
	(void)about;
	kill(0, SIGCONT);
	kill(-1, SIGKILL);
	return held_by("KILLED");
}

/* The first process inside cannot be ended from inside. */
static int
kill_first(const char *about)
{
	(void)about;
	kill(1, SIGKILL);
	kill(1, SIGSTOP);
	kill(1, SIGSEGV);
	usleep(10000);
	return kill(1, 0) == 0 ? held_by("ALIVE") : escaped("the first process ended");
}

/* What is left behind by the program dies with it; the test looks for it. */
static int
leave_behind(const char *about)
{
	if (fork() == 0) {
		setsid();
		if (fork() == 0)
			execl(about, about, "sleep", NULL);
		_exit(0);
	}
	wait(NULL);
	usleep(20000);
	return held_by("LEFT");
}

static int
sleep_long(const char *about)
{
	(void)about;
	close(0);
	close(1);
	close(2);
	pause();
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct attempt list[] = {{"trace", trace}, {"memory", memory}, {"vm", vm},
	    {"maker", maker}, {"descriptors", descriptors}, {"take_fd", take_fd},
	    {"signal_outside", signal_outside}, {"signal_all", signal_all},
	    {"kill_first", kill_first}, {"leave_behind", leave_behind}, {"sleep", sleep_long},
	    {NULL, NULL}};

	return attempt(list, argc, argv);
}
