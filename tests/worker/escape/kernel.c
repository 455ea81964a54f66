/* kernel.c: out by asking the kernel. */
#include "escape.h"

#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static int
mounting(const char *about)
{
	(void)about;
	if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0)
		return escaped("mount");
	if (mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
		return escaped("remount");
	if (mount("/proc", "/tmp", NULL, MS_BIND | MS_REC, NULL) == 0)
		return escaped("bind");
	if (umount2("/proc", MNT_DETACH) == 0 || umount2("/etc", MNT_DETACH) == 0)
		return escaped("umount");
	if (syscall(SYS_fsopen, "tmpfs", 0) != -1 ||
	    syscall(SYS_open_tree, AT_FDCWD, "/", 1) != -1 ||
	    syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, NULL, 0) != -1)
		return escaped("the new calls for mounts");
	return held();
}

static int
pivot(const char *about)
{
	(void)about;
	mkdir("/tmp/root", 0755);
	if (chdir("/tmp/root") == -1 || syscall(SYS_pivot_root, ".", ".") == 0)
		return escaped("pivot_root");
	if (chroot("/tmp/root") == 0)
		return escaped("chroot");
	return held();
}

static int
nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* A user namespace within, where all rights would come back. */
static int
namespaces(const char *about)
{
	static char stack[65536];
	uint64_t args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, 0};
	long pid;

	(void)about;
	if (unshare(CLONE_NEWUSER) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ||
	    unshare(CLONE_NEWNET) == 0)
		return escaped("unshare");
	if ((pid = syscall(SYS_clone3, args, sizeof(args))) == 0)
		_exit(0);
	if (pid > 0)
		return escaped("clone3");
	if (clone(nothing, stack + sizeof(stack), CLONE_NEWUSER | SIGCHLD, NULL) != -1)
		return escaped("clone");
	return held();
}

static int
join(const char *about)
{
	static const char *const spaces[] = {"mnt", "user", "pid", "net"};
	char path[64];
	size_t i;
	int fd;

	(void)about;
	for (i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "/proc/1/ns/%s", spaces[i]);
		if ((fd = open(path, O_RDONLY)) != -1 && setns(fd, 0) == 0)
			return escaped(path);
		snprintf(path, sizeof(path), "/proc/self/ns/%s", spaces[i]);
		/* The parent of a namespace: NS_GET_PARENT, NS_GET_USERNS. */
		if ((fd = open(path, O_RDONLY)) != -1 &&
		    (ioctl(fd, 0xb702) != -1 || (setns(fd, 0) == 0)))
			return escaped(path);
	}
	return held();
}

static int
keys(const char *about)
{
	(void)about;
	if (syscall(SYS_keyctl, 0, -4, 1) != -1 || syscall(SYS_keyctl, 11, -4, NULL, 0) != -1 ||
	    syscall(SYS_add_key, "user", "x", "y", 1, -4) != -1 ||
	    syscall(SYS_request_key, "user", "x", NULL, 0) != -1)
		return escaped("keys");
	return held();
}

static int
uring(const char *about)
{
	char params[256] = {0};

	(void)about;
	if (syscall(425, 4, params) != -1)
		return escaped("io_uring");
	return held();
}

static int
programs(const char *about)
{
	char attr[128] = {0};

	(void)about;
	if (syscall(SYS_bpf, 0, attr, sizeof(attr)) != -1 ||
	    syscall(SYS_perf_event_open, attr, 0, -1, -1, 0) != -1 ||
	    syscall(SYS_userfaultfd, 0) != -1)
		return escaped("bpf, perf or userfaultfd");
	return held();
}

static int
modules(const char *about)
{
	(void)about;
	if (syscall(SYS_init_module, "", 0, "") != -1 ||
	    syscall(SYS_finit_module, 0, "", 0) != -1 ||
	    syscall(SYS_kexec_load, 0, 0, NULL, 0) != -1 || reboot(RB_DISABLE_CAD) != -1 ||
	    syscall(SYS_syslog, 3, NULL, 0) != -1)
		return escaped("a module, a kernel or the kernel's log");
	return held();
}

/* Typing into the terminal of whoever started us; the filter must look at the low 32 bits alone. */
static int
typing(const char *about)
{
	char c = 'x';

	(void)about;
	ioctl(0, TIOCSCTTY, 1);
	if (ioctl(0, TIOCSTI, &c) == 0 ||
	    syscall(SYS_ioctl, 0, (unsigned long)TIOCSTI | 1ul << 32, &c) == 0)
		return escaped("TIOCSTI");
	if (ioctl(0, TIOCLINUX, &c) == 0)
		return escaped("TIOCLINUX");
	if (ioctl(0, TIOCSTI, &c) == -1)
		return held();
	return escaped("TIOCSTI");
}

static int
clocks(const char *about)
{
	struct timespec ts = {.tv_sec = 1000000000};
	struct timeval tv = {.tv_sec = 1000000000};

	(void)about;
	if (clock_settime(CLOCK_REALTIME, &ts) == 0 || settimeofday(&tv, NULL) == 0)
		return escaped("the clock");
	if (sethostname("evil", 4) == 0 || setdomainname("evil", 4) == 0)
		return escaped("the name of the machine");
	return held();
}

/* Files by number instead of by name: the shape of "shocker". */
static int
handles(const char *about)
{
	union {
		struct file_handle h;
		char room[128];
	} u = {.h = {.handle_bytes = 8, .handle_type = 1}};
	int mount;

	(void)about;
	u.h.f_handle[0] = 2;
	if (open_by_handle_at(AT_FDCWD, &u.h, O_RDONLY) != -1)
		return escaped("the root of the disk");
	u.h.handle_bytes = 100;
	if (name_to_handle_at(AT_FDCWD, "/usr", &u.h, &mount, 0) != -1)
		return escaped("name_to_handle_at");
	return held();
}

static int
personalities(const char *about)
{
	(void)about;
	if (personality(ADDR_NO_RANDOMIZE) != -1 || personality(READ_IMPLIES_EXEC) != -1)
		return escaped("personality");
	return held();
}

/* The calls of another architecture have other numbers: a filter that does not look is passed. */
static int
foreign(const char *about)
{
#if defined(__x86_64__)
	int status;
	long rc;

	(void)about;
	if (fork() == 0) {
		__asm__ volatile("int $0x80" : "=a"(rc) : "a"(20) : "memory"); /* getpid */
		_exit(rc > 0 ? 1 : 0);
	}
	wait(&status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		return escaped("a call of i386");
	if (fork() == 0) {
		rc = syscall(0x40000000 + 165, "none", "/tmp", "tmpfs", 0, NULL); /* mount of x32 */
		_exit(rc == 0 || errno != ENOSYS ? 1 : 0);
	}
	wait(&status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		return escaped("a call of x32");
#else
	(void)about;
#endif
	return held_by("SIGSYS");
}

/* Rights, by every way to get one. */
static int
rights(const char *about)
{
	uid_t before = geteuid();
	char text[4096], *at;
	ssize_t n;
	int fd = open("/proc/self/status", O_RDONLY);

	(void)about;
	if (fd == -1 || (n = read(fd, text, sizeof(text) - 1)) <= 0)
		return escaped("no status");
	text[n] = '\0';
	for (at = text; (at = strstr(at, "\nCap")) != NULL; at += 4)
		if (strncmp(at + 9, "0000000000000000", 16) != 0)
			return escaped("a capability");
	if (strstr(text, "NoNewPrivs:\t1") == NULL || strstr(text, "Seccomp:\t2") == NULL)
		return escaped("new privileges");
	if (before != 0 && (setuid(0) == 0 || setresuid(0, 0, 0) == 0 || seteuid(0) == 0))
		return escaped("setuid");
	if (setgid(getgid() + 1) == 0 || setuid(before + 1) == 0)
		return escaped("another user");
	return held();
}

int
main(int argc, char **argv)
{
	static const struct attempt list[] = {{"mounting", mounting}, {"pivot", pivot},
	    {"namespaces", namespaces}, {"join", join}, {"keys", keys}, {"uring", uring},
	    {"programs", programs}, {"modules", modules}, {"typing", typing}, {"clocks", clocks},
	    {"handles", handles}, {"personalities", personalities}, {"foreign", foreign},
	    {"rights", rights}, {NULL, NULL}};

	return attempt(list, argc, argv);
}
