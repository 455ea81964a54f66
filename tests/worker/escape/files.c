/* files.c: out by way of files.  "about" is a path outside, whose text is "canary". */
#include "escape.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* Return whether ${path} can be read and holds the canary. */
static int
sings(const char *path)
{
	char text[16] = {0};
	int fd = open(path, O_RDONLY);
	ssize_t n = fd != -1 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd != -1)
		close(fd);
	return n > 0 && strncmp(text, "canary", 6) == 0;
}

static int
upwards(const char *about)
{
	char path[512];
	int dir = open(".", O_RDONLY | O_DIRECTORY), i, fd;

	if (sings(about))
		return escaped(about);
	for (i = 0; i < 40; i++) {
		if ((fd = openat(dir, "..", O_RDONLY | O_DIRECTORY)) == -1)
			break;
		dir = fd;
	}
	if (fchdir(dir) == 0 && sings(about + 1))
		return escaped("..");
	snprintf(path, sizeof(path), "/proc/self/root%s", about);
	if (sings(path))
		return escaped(path);
	snprintf(path, sizeof(path), "/proc/1/root%s", about);
	if (sings(path))
		return escaped(path);
	snprintf(path, sizeof(path), "/proc/self/cwd/../../../../../..%s", about);
	if (sings(path))
		return escaped(path);
	sings(about);
	return held();
}

/* A link that points out, and folders that become links while they are walked. */
static int
links(const char *about)
{
	int i;

	unlink("link");
	if (symlink(about, "link") == -1)
		return escaped("no link can be made, so nothing was tried");
	if (sings("link"))
		return escaped("link");
	for (i = 0; i < 200; i++) {
		mkdir("d", 0755);
		rename("d", "e");
		unlink("d");
		symlink("/", "d");
		if (sings("d/../canary"))
			return escaped("a race");
		unlink("d");
		rmdir("e");
	}
	sings("link");
	return held();
}

/* Move every folder on the way to ${about}, below /work or /gathered.  Return whether one went. */
static int
move_way(const char *about)
{
	char up[512], *slash;
	int last = 0;

	snprintf(up, sizeof(up), "%s", about);
	while ((slash = strrchr(up, '/')) != NULL && strchr(up + 1, '/') != NULL) {
		*slash = '\0';
		if (strchr(up + 1, '/') == NULL)
			break;
		if (umount2(up, MNT_DETACH) == 0 || rename(up, "moved") == 0 || rmdir(up) == 0)
			return 1;
		rename(up, "moved");
		last = errno;
	}
	errno = last;
	return 0;
}

/* "about" is hidden: it cannot be read, uncovered, or moved to where it would not be hidden. */
static int
hidden(const char *about)
{
	if (sings(about))
		return escaped("it is read");
	if (umount2(about, MNT_DETACH) == 0)
		return escaped("it is uncovered");
	if (rename(about, "moved") == 0 || unlink(about) == 0 || link(about, "moved") == 0)
		return escaped("it is moved");
	if (move_way(about))
		return escaped("its folder is moved");
	return held();
}

/* "about" is kept: it can be read, and is not changed by any name. */
static int
kept(const char *about)
{
	if (!sings(about))
		return escaped("it is not readable, so nothing was tried");
	if (move_way(about))
		return escaped("its folder is moved");
	if (rename(about, "moved") == 0 || unlink(about) == 0 || rename("other", about) == 0)
		return escaped("it is moved");
	if (link(about, "moved") == 0)
		return escaped("it has another name");
	if (chmod(about, 0777) == 0 || truncate(about, 0) == 0)
		return escaped("it is changed");
	if (open(about, O_WRONLY) != -1 || open(about, O_RDWR | O_APPEND) != -1)
		return escaped("it is opened");
	return held();
}

/* A program with the set-user-ID bit, made outside; and one made here. */
static int
setuid_program(const char *about)
{
	int fd, status;
	pid_t pid;

	if ((pid = fork()) == 0) {
		execl(about, about, "euid", NULL);
		_exit(2);
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != (int)(geteuid() % 256))
		return escaped("another user's rights");
	if ((fd = open("/tmp/s", O_CREAT | O_RDWR, 0755)) == -1)
		return escaped("no file can be made, so nothing was tried");
	if (fchmod(fd, 04755) == 0 || chmod("/tmp/s", 06755) == 0 ||
	    fchmodat(AT_FDCWD, "/tmp/s", 02755, 0) == 0 ||
	    open("/tmp/t", O_CREAT | O_RDWR, 04755) != -1)
		return escaped("a file that gives rights");
	return held();
}

static int
euid(const char *about)
{
	(void)about;
	return (int)(geteuid() % 256);
}

static int
devices(const char *about)
{
	static const char *const names[] = {"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg",
	    "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/loop0", "/dev/loop-control", "/dev/fuse",
	    "/dev/kvm", "/dev/net/tun", "/dev/vhost-net", "/dev/uinput", "/dev/vsock", "/dev/tty1"};
	size_t i;

	(void)about;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (open(names[i], O_RDONLY) != -1)
			return escaped(names[i]);
	/* A disk; and a whiteout, which is a device too, by which layers would be confused. */
	if (mknod("/tmp/d", S_IFBLK | 0666, makedev(254, 0)) == 0 ||
	    mknod("/tmp/c", S_IFCHR | 0666, makedev(1, 1)) == 0 ||
	    mknod("w", S_IFCHR, makedev(0, 0)) == 0)
		return escaped("a device");
	return held();
}

/* Settings of the machine that run something, or stop it. */
static int
kernel_files(const char *about)
{
	static const char *const names[] = {"/proc/sys/kernel/core_pattern",
	    "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/kernel/hostname",
	    "/proc/sys/vm/panic_on_oom", "/proc/sys/fs/binfmt_misc/register",
	    "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger", "/proc/self/uid_map",
	    "/proc/1/oom_score_adj", "/proc/1/uid_map", "/sys/kernel/uevent_helper",
	    "/proc/sys/net/ipv4/ip_forward"};
	size_t i;

	(void)about;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (open(names[i], O_WRONLY) != -1 || chmod(names[i], 0666) == 0)
			return escaped(names[i]);
	if (open("/proc/kcore", O_RDONLY) != -1 || open("/proc/kmsg", O_RDONLY) != -1)
		return escaped("the kernel's memory");
	open(names[0], O_WRONLY);
	return held();
}

/* Cgroups: CVE-2022-0492's shape needs one to mount, or one that is there. */
static int
release_agent(const char *about)
{
	(void)about;
	mkdir("/tmp/cg", 0755);
	if (mount("cgroup", "/tmp/cg", "cgroup", 0, "memory") == 0 ||
	    mount("cgroup2", "/tmp/cg", "cgroup2", 0, NULL) == 0)
		return escaped("a mount of cgroups");
	if (access("/sys/fs/cgroup", F_OK) == 0 || access("/sys/kernel", F_OK) == 0)
		return escaped("/sys is there");
	mount("cgroup", "/tmp/cg", "cgroup", 0, "memory");
	return held();
}

/* Names that an overlay itself writes on what it keeps: they would lead it elsewhere. */
static int
overlay(const char *about)
{
	(void)about;
	mkdir("over", 0755);
	/* Newer kernels store it under another name; what counts is that it leads nowhere. */
	setxattr("over", "user.overlay.redirect", "/..", 3, 0);
	setxattr("over", "trusted.overlay.redirect", "/..", 3, 0);
	setxattr("over", "user.overlay.opaque", "y", 1, 0);
	setxattr("over", "user.overlay.metacopy", "", 0, 0);
	if (access("over/canary", F_OK) == 0 || access("over/etc", F_OK) == 0)
		return escaped("an overlay was led elsewhere");
	if (access("/.effect", F_OK) == 0)
		return escaped("the layer of changes is there");
	return held();
}

/* Writing to what is read-only, by every way. */
static int
readonly(const char *about)
{
	if (open("/usr/bin/true", O_WRONLY) != -1 || mkdir("/usr/evil", 0755) == 0 ||
	    mkdir("/evil", 0755) == 0 || unlink("/etc/passwd") == 0 ||
	    chmod("/usr/bin/true", 0777) == 0 ||
	    utimensat(AT_FDCWD, "/usr/bin/true", NULL, 0) == 0 || mkdir("/dev/evil", 0755) == 0 ||
	    rename("/bin", "/evil") == 0)
		return escaped("the machine's programs");
	if (about[0] != '\0' && open(about, O_WRONLY) != -1)
		return escaped(about);
	mkdir("/usr/evil", 0755);
	return held();
}

int
main(int argc, char **argv)
{
	static const struct attempt list[] = {{"upwards", upwards}, {"links", links},
	    {"hidden", hidden}, {"kept", kept}, {"setuid_program", setuid_program}, {"euid", euid},
	    {"devices", devices}, {"kernel_files", kernel_files}, {"release_agent", release_agent},
	    {"overlay", overlay}, {"readonly", readonly}, {NULL, NULL}};

	return attempt(list, argc, argv);
}
