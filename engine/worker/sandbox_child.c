/*
 * sandbox_child.c: the first process inside: it builds the root, starts the program and reaps.
 *
 * Between clone and exec nothing is allocated and no lock is taken: the parent may have threads.
 * Every path is walked component by component from a descriptor, and a symbolic link on the way is
 * a failure, so what the plan names is what is mounted.
 */
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "engine/worker/child.h"
#include "engine/worker/runner_wire.h"
#include "engine/worker/sandbox_job.h"
#include "engine/worker/sandbox_wire.h"

#define PLAIN   (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define WHOLE   (AT_EMPTY_PATH | AT_RECURSIVE)
#define FD_PATH 32

#define PROGRAM_STACK 65536 /* bytes; a sanitizer's frames are large */

#define LAST "/.effect" /* where the changes lie while their overlays are made */

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

#define DEVICES (sizeof(devices) / sizeof(devices[0]))

struct child {
	struct sandbox_job *job;
	struct sandbox_status status;
	int root;
	dev_t root_dev, scratch_dev; /* where we may make what something is mounted on */
	int device[DEVICES];
	int effect[SANDBOX_EFFECTS];
	int listener[SANDBOX_LISTENERS];
	int terminal[2]; /* ours, and the program's */
};

static void
name_it(struct child *c, const char *path, size_t len)
{
	memcpy(
	    c->status.path, path, len < sizeof(c->status.path) ? len : sizeof(c->status.path) - 1);
}

static void
say(const struct child *c, int fd)
{
	send(fd, &c->status, sizeof(c->status), MSG_NOSIGNAL);
}

/* Say how far it came, and end. */
static void __attribute__((noreturn)) give_up(struct child *c, enum sandbox_stage stage)
{
	const struct sandbox_step *s = &c->job->steps[c->status.step];

	c->status.error = errno;
	c->status.stage = stage;
	if (stage == STAGE_EXEC)
		name_it(c, c->job->plan->argv[0], strlen(c->job->plan->argv[0]));
	else if (c->job->step_count > 0)
		name_it(c, s->target, s->len);
	say(c, c->job->status_fd);
	_exit(126);
}

static void
must(struct child *c, enum sandbox_stage stage, long rc)
{
	if (rc < 0)
		give_up(c, stage);
}

/* Write the name of descriptor ${fd} to ${out}: an option of a mount that needs no quoting. */
static const char *
fd_path(int fd, char out[FD_PATH])
{
	static const char head[] = "/proc/self/fd/";
	char digits[12];
	int n = 0, len = sizeof(head) - 1;

	memcpy(out, head, sizeof(head));
	do
		digits[n++] = (char)('0' + fd % 10);
	while ((fd /= 10) > 0);
	while (n > 0)
		out[len++] = digits[--n];
	out[len] = '\0';
	return out;
}

static int
write_text(const char *path, const char *text)
{
	ssize_t n, len = (ssize_t)strlen(text);
	int fd;

	if ((fd = open(path, O_WRONLY | O_CLOEXEC)) == -1)
		return -1;
	n = write(fd, text, (size_t)len);
	close(fd);
	return n == len ? 0 : -1;
}

/*
 * Who we are.
 */

/* Wait for the parent's next word. */
static void
wait_go(struct child *c)
{
	ssize_t n;
	char go;

	do
		n = recv(c->job->status_fd, &go, 1, 0);
	while (n == -1 && errno == EINTR);
	if (n != 1)
		_exit(126);
}

/* The parent holds the other end as long as it lives; asked to tell us, the kernel may be late. */
static void
die_with_parent(struct child *c)
{
	struct pollfd p = {.fd = c->job->status_fd};

	must(c, STAGE_USER, prctl(PR_SET_PDEATHSIG, SIGKILL));
	if (poll(&p, 1, 0) != 0 && (p.revents & POLLHUP) != 0)
		_exit(126);
}

/* Root's maps come from the parent; anyone else maps itself, for which the kernel asks whose
 * process this is. */
static void
map_user(struct child *c)
{
	if (c->job->privileged) {
		wait_go(c);
		return;
	}
	prctl(PR_SET_DUMPABLE, 1);
	must(c, STAGE_MAP, write_text("/proc/self/setgroups", "deny"));
	must(c, STAGE_MAP, write_text("/proc/self/uid_map", c->job->uid_map));
	must(c, STAGE_MAP, write_text("/proc/self/gid_map", c->job->gid_map));
}

/* Not the library's calls: those talk to other threads, which a cloned child lacks. */
static void
become_user(struct child *c)
{
	const struct sandbox_plan *plan = c->job->plan;

	if (c->job->privileged) {
		/* Root of a user namespace may be as little allowed to give up groups as a user is.
		 */
		if (syscall(SYS_setgroups, 0, NULL) == -1 && (errno != EPERM || plan->uid != 0))
			give_up(c, STAGE_USER);
		must(c, STAGE_USER, syscall(SYS_setresgid, plan->gid, plan->gid, plan->gid));
		must(c, STAGE_USER, syscall(SYS_setresuid, plan->uid, plan->uid, plan->uid));
	}
	/* What the program could read of us is a copy of our parent. */
	must(c, STAGE_USER, prctl(PR_SET_DUMPABLE, 0));
}

/* Nothing of the program runs before it is in its group, as seen from here, and the parent says so.
 */
static void
enter_group(struct child *c)
{
	wait_go(c);
	c->status.capped = cgroup_holds(c->job->group, c->job->tasks_max);
	must(c, STAGE_BEGIN, unshare(CLONE_NEWCGROUP));
}

static uint64_t
identity(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_ino : 0;
}

/*
 * What there is outside.
 */

static int
same(const struct sandbox_step *s, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == -1)
		return -1;
	if (st.st_dev == s->dev && st.st_ino == s->ino)
		return 0;
	errno = ESTALE;
	return -1;
}

/* Open ${path} of outside, where no component may be a link. */
static int
open_outside(const char *path)
{
	static const struct {
		uint64_t flags, mode, resolve;
	} how = {O_PATH | O_CLOEXEC, 0, 0x04 /* RESOLVE_NO_SYMLINKS */};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

/*
 * Of our parent's rights in files there is none any more but that of an owner.  So root, who makes
 * it for a user, opens what is root's before it is the user, and what only the user may enter
 * ${later}.
 */
static void
open_sources(struct child *c, bool later)
{
	struct sandbox_step *s;
	size_t i;
	int fd;

	for (i = 0; i < c->job->step_count; i++) {
		s = &c->job->steps[i];
		if (s->kind > STEP_EFFECT || s->tree != -1)
			continue;
		c->status.step = (uint32_t)i;
		fd = open_outside(s->source);
		if (fd == -1 && errno == EACCES && c->job->privileged && !later)
			continue;
		must(c, STAGE_SOURCE, fd);
		must(c, STAGE_CHANGED, same(s, fd));
		if (s->kind == STEP_EFFECT) {
			c->status.overlaid[s->effect] = (struct sandbox_folder){s->dev, s->ino};
			s->tree = fd;
			continue;
		}
		must(c, STAGE_SOURCE,
		    s->tree = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | WHOLE));
		close(fd);
	}
}

static void
open_devices(struct child *c)
{
	char path[32] = "/dev/";
	size_t i;

	for (i = 0; i < DEVICES; i++) {
		memcpy(path + 5, devices[i], strlen(devices[i]) + 1);
		must(c, STAGE_DEV,
		    c->device[i] = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
	}
}

/*
 * The root.
 */

static int
restrict_mount(int fd, uint64_t set)
{
	struct mount_attr attr = {.attr_set = set};

	return mount_setattr(fd, "", WHOLE, &attr, sizeof(attr));
}

struct option {
	const char *key;
	const char *value;
};

/* Make a file system of ${type}.  Return a descriptor of its mount, attached nowhere, or -1. */
static int
make_fs(const char *type, const struct option *options, uint64_t attributes)
{
	int fs, rc = 0, fd = -1;

	if ((fs = fsopen(type, FSOPEN_CLOEXEC)) == -1)
		return -1;
	for (; rc == 0 && options != NULL && options->key != NULL; options++)
		rc = options->value != NULL
			 ? fsconfig(fs, FSCONFIG_SET_STRING, options->key, options->value, 0)
			 : fsconfig(fs, FSCONFIG_SET_FLAG, options->key, NULL, 0);
	if (rc == 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
	close(fs);
	return fd;
}

static int
attach(int mount, int at)
{
	return move_mount(mount, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

/* Open the entry ${name} of ${dir}, made where it is missing and ${dir} is ours. */
static int
step_in(struct child *c, int dir, const char *name, bool folder)
{
	struct stat st;
	int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd == -1 && errno == ENOENT && fstat(dir, &st) == 0 &&
	    (st.st_dev == c->root_dev || st.st_dev == c->scratch_dev)) {
		if (folder)
			mkdirat(dir, name, 0755);
		else
			mknodat(dir, name, S_IFREG | 0644, 0);
		fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	}
	/* Told apart here: a descriptor of a link is one as well. */
	if (fd != -1 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
		close(fd);
		errno = ELOOP;
		return -1;
	}
	return fd;
}

/* Open the first ${len} bytes of ${path} below our root; the last component is a folder or a file.
 * With ${parent}, stop before that and store where its name begins. */
static int
walk(struct child *c, const char *path, size_t len, bool folder, const char **parent)
{
	char name[NAME_MAX + 1];
	const char *at = path, *end = path + len, *slash;
	int fd = dup(c->root), next;
	size_t n;

	while (fd != -1 && at < end) {
		if (*at == '/') {
			at++;
			continue;
		}
		slash = memchr(at, '/', (size_t)(end - at));
		n = (size_t)((slash != NULL ? slash : end) - at);
		if (slash == NULL && parent != NULL) {
			*parent = at;
			return fd;
		}
		errno = ENAMETOOLONG;
		next = -1;
		if (n < sizeof(name)) {
			memcpy(name, at, n);
			name[n] = '\0';
			next = step_in(c, fd, name, slash != NULL || folder);
		}
		close(fd);
		fd = next;
		at += n;
	}
	return fd;
}

static int
mount_at(struct child *c, int mount, const char *path, size_t len, bool folder)
{
	int at, rc;

	if (mount == -1 || (at = walk(c, path, len, folder, NULL)) == -1)
		return -1;
	rc = attach(mount, at);
	close(at);
	close(mount);
	return rc;
}

static void
make_root(struct child *c)
{
	static const struct option options[] = {
	    {"mode", "0755"}, {"size", "1m"}, {"nr_inodes", "4096"}, {NULL, NULL}};
	struct mount_attr private = {.propagation = MS_PRIVATE};
	struct stat st;

	must(c, STAGE_ROOT, mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof(private)));
	must(c, STAGE_ROOT, c->root = make_fs("tmpfs", options, PLAIN));
	must(c, STAGE_ROOT, move_mount(c->root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH));
	must(c, STAGE_ROOT, fstat(c->root, &st));
	c->root_dev = st.st_dev;
}

/* All of it read-only: also what the kernel would let the owner of the machine set there. */
static void
make_proc(struct child *c)
{
	int fd = make_fs("proc", NULL, PLAIN | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);

	must(c, STAGE_PROC, mount_at(c, fd, "/proc", 5, true));
}

static void
make_dev(struct child *c)
{
	static const struct option pts[] = {{"ptmxmode", "0666"}, {"mode", "0620"}, {NULL, NULL}};
	static const struct option links[] = {{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"},
	    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
	    {"shm", "/tmp"}};
	char path[32] = "/dev/";
	size_t i, n;
	int dev;

	for (i = 0; i < DEVICES; i++) {
		n = strlen(devices[i]);
		memcpy(path + 5, devices[i], n + 1);
		must(c, STAGE_DEV,
		    restrict_mount(c->device[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
		must(c, STAGE_DEV, mount_at(c, c->device[i], path, 5 + n, false));
	}
	must(c, STAGE_DEV,
	    mount_at(c, make_fs("devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), "/dev/pts",
		8, true));
	must(c, STAGE_DEV, dev = walk(c, "/dev", 4, true, NULL));
	for (i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		must(c, STAGE_DEV, symlinkat(links[i].value, dev, links[i].key));
	close(dev);
}

static void
make_scratch(struct child *c)
{
	const struct option options[] = {{"mode", "01777"}, {"size", c->job->scratch_size},
	    {"nr_inodes", c->job->files}, {NULL, NULL}};
	struct stat st;
	int fd;

	must(c, STAGE_SCRATCH, fd = make_fs("tmpfs", options, PLAIN));
	must(c, STAGE_SCRATCH, fstat(fd, &st));
	c->scratch_dev = st.st_dev;
	must(c, STAGE_SCRATCH, mount_at(c, fd, "/tmp", 4, true));
}

/*
 * The folders whose changes are gathered: overlays whose upper layers lie on one tmpfs, which
 * bounds them and of which a descriptor is all that stays.
 */

static int
open_made(int dir, const char *name)
{
	if (mkdirat(dir, name, 0755) == -1)
		return -1;
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int
make_overlay(int lower, int upper, int work)
{
	char l[FD_PATH], u[FD_PATH], w[FD_PATH];
	const struct option options[] = {{"lowerdir", fd_path(lower, l)},
	    {"upperdir", fd_path(upper, u)}, {"workdir", fd_path(work, w)}, {"userxattr", NULL},
	    {NULL, NULL}};

	return make_fs("overlay", options, PLAIN);
}

/* Who looks at the upper layer's root sees the mode and the owner of the folder below it. */
static int
copy_mode(int from, int to)
{
	struct stat st;

	return fstat(from, &st) == -1 ? -1 : fchmod(to, st.st_mode & 0777);
}

static void
make_effect(struct child *c, struct sandbox_step *s, int effects, size_t n)
{
	char upper[] = "u0", work[] = "w0";
	int u, w;

	upper[1] = work[1] = (char)('0' + n);
	must(c, STAGE_EFFECT, u = open_made(effects, upper));
	must(c, STAGE_EFFECT, w = open_made(effects, work));
	must(c, STAGE_EFFECT, copy_mode(s->tree, u));
	c->effect[n] = u;
	u = s->tree;
	must(c, STAGE_EFFECT, s->tree = make_overlay(u, c->effect[n], w));
	close(u);
	close(w);
}

static void
make_effects(struct child *c)
{
	const struct option options[] = {{"mode", "0700"}, {"size", c->job->effect_size},
	    {"nr_inodes", c->job->files}, {NULL, NULL}};
	size_t i, n = 0;
	int effects, at;

	if (c->job->effect_count == 0)
		return;
	must(c, STAGE_EFFECT, effects = make_fs("tmpfs", options, PLAIN));
	must(c, STAGE_EFFECT, at = walk(c, LAST, sizeof(LAST) - 1, true, NULL));
	must(c, STAGE_EFFECT, attach(effects, at));
	close(at);
	for (i = 0; i < c->job->step_count; i++) {
		c->status.step = (uint32_t)i;
		if (c->job->steps[i].kind != STEP_EFFECT)
			continue;
		make_effect(c, &c->job->steps[i], effects, c->job->steps[i].effect);
		n++;
	}
	close(effects);
	c->status.effects = (uint32_t)n;
}

/* The overlays hold what they need; nobody else does any more. */
static void
leave_effects(struct child *c)
{
	char path[FD_PATH];
	int at;

	if (c->job->effect_count == 0)
		return;
	must(c, STAGE_EFFECT, at = walk(c, LAST, sizeof(LAST) - 1, true, NULL));
	must(c, STAGE_EFFECT, umount2(fd_path(at, path), MNT_DETACH));
	close(at);
	must(c, STAGE_EFFECT, unlinkat(c->root, &LAST[1], AT_REMOVEDIR));
}

/*
 * The steps of the plan.
 */

static int
put_link(struct child *c, const struct sandbox_step *s)
{
	const char *name = NULL;
	char ended[NAME_MAX + 1];
	size_t n;
	int dir, rc;

	if ((dir = walk(c, s->target, s->len, true, &name)) == -1 || name == NULL)
		return -1;
	n = s->len - (size_t)(name - s->target);
	errno = ENAMETOOLONG;
	if (n >= sizeof(ended))
		return -1;
	memcpy(ended, name, n);
	ended[n] = '\0';
	rc = symlinkat(s->source, dir, ended);
	close(dir);
	return rc;
}

/* Open what the plan says lies at a target, and clone it with all that is mounted in it. */
static int
clone_inside(struct child *c, const struct sandbox_step *s, int *at)
{
	if ((*at = walk(c, s->target, s->len, true, NULL)) == -1)
		return -1;
	if (s->exact && same(s, *at) == -1)
		return -1;
	return open_tree(*at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | WHOLE);
}

/* Mount a folder or file upon itself: it can be neither moved nor removed any more. */
static int
pin(struct child *c, const struct sandbox_step *s, uint64_t set)
{
	int at, tree, rc;

	if ((tree = clone_inside(c, s, &at)) == -1)
		return -1;
	rc = set != 0 ? restrict_mount(tree, set) : 0;
	if (rc == 0)
		rc = attach(tree, at);
	close(tree);
	close(at);
	return rc;
}

/* A folder is hidden by an empty one, a file by one that nobody may open. */
static int
hide(struct child *c, struct sandbox_step *s)
{
	static const struct option options[] = {
	    {"mode", "0555"}, {"size", "64k"}, {"nr_inodes", "256"}, {NULL, NULL}};
	int at, rc;

	if ((at = walk(c, s->target, s->len, true, NULL)) == -1)
		return -1;
	if (s->exact && same(s, at) == -1)
		return -1;
	if (s->folder)
		s->tree = make_fs("tmpfs", options, PLAIN | MOUNT_ATTR_NOEXEC);
	else if ((s->tree = open_tree(
		      AT_FDCWD, "/dev/null", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)) != -1)
		restrict_mount(s->tree, MOUNT_ATTR_RDONLY | PLAIN | MOUNT_ATTR_NOEXEC);
	rc = s->tree == -1 ? -1 : attach(s->tree, at);
	close(at);
	return rc;
}

/* Make the way to ${s} on the empty folders that hide it. */
static int
show(struct child *c, const struct sandbox_step *s)
{
	dev_t was = c->root_dev;
	struct sandbox_step *h = NULL;
	struct stat st;
	size_t i;
	int at, rc;

	for (i = 0; i < c->job->step_count; i++)
		if (c->job->steps[i].kind == STEP_HIDE && &c->job->steps[i] < s &&
		    c->job->steps[i].len <= s->len &&
		    memcmp(c->job->steps[i].target, s->target, c->job->steps[i].len) == 0)
			h = &c->job->steps[i];
	if (h == NULL || fstat(h->tree, &st) == -1)
		return -1;
	c->root_dev = st.st_dev;
	at = walk(c, s->target, s->len, s->folder, NULL);
	c->root_dev = was;
	if (at == -1)
		return -1;
	rc = attach(s->tree, at);
	close(at);
	close(s->tree);
	return rc;
}

static int
take_step(struct child *c, struct sandbox_step *s)
{
	switch (s->kind) {
	case STEP_READ:
		if (restrict_mount(s->tree, PLAIN | MOUNT_ATTR_RDONLY) == -1)
			return -1;
		return mount_at(c, s->tree, s->target, s->len, s->folder);
	case STEP_WRITE:
		if (restrict_mount(s->tree, PLAIN) == -1)
			return -1;
		return mount_at(c, s->tree, s->target, s->len, s->folder);
	case STEP_EFFECT:
		return mount_at(c, s->tree, s->target, s->len, s->folder);
	case STEP_LINK:
		return put_link(c, s);
	case STEP_PIN:
		return pin(c, s, 0);
	case STEP_HIDE:
		return hide(c, s);
	case STEP_SHOW:
		return show(c, s);
	case STEP_KEEP:
		return pin(c, s, MOUNT_ATTR_RDONLY);
	}
	return -1;
}

/* What is shown is taken before anything hides it. */
static void
take_shown(struct child *c)
{
	struct sandbox_step *s;
	size_t i;
	int at;

	for (i = 0; i < c->job->step_count; i++) {
		s = &c->job->steps[i];
		if (s->kind != STEP_SHOW)
			continue;
		c->status.step = (uint32_t)i;
		must(c, STAGE_STEP, s->tree = clone_inside(c, s, &at));
		close(at);
	}
}

static void
close_hidden(struct child *c)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	size_t i;

	for (i = 0; i < c->job->step_count; i++) {
		if (c->job->steps[i].kind != STEP_HIDE)
			continue;
		c->status.step = (uint32_t)i;
		must(c, STAGE_STEP,
		    mount_setattr(c->job->steps[i].tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)));
		close(c->job->steps[i].tree);
	}
}

static void
take_steps(struct child *c)
{
	size_t i;
	bool shown = false;

	for (i = 0; i < c->job->step_count; i++) {
		if (!shown && c->job->steps[i].kind >= STEP_HIDE) {
			take_shown(c);
			shown = true;
		}
		c->status.step = (uint32_t)i;
		must(c, STAGE_STEP, take_step(c, &c->job->steps[i]));
	}
	close_hidden(c);
}

static void
enter_root(struct child *c)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	must(c, STAGE_PIVOT, fchdir(c->root));
	must(c, STAGE_PIVOT, syscall(SYS_pivot_root, ".", "."));
	must(c, STAGE_PIVOT, umount2(".", MNT_DETACH));
	must(c, STAGE_PIVOT, mount_setattr(c->root, "", AT_EMPTY_PATH, &attr, sizeof(attr)));
	must(c, STAGE_PIVOT, chdir("/"));
}

/*
 * Everything but files.
 */

/* Opened inside, so that the program finds it by its name. */
static void
make_terminal(struct child *c)
{
	int unlocked = 0;

	c->terminal[0] = c->terminal[1] = -1;
	if (c->job->plan->terminal == NULL)
		return;
	must(c, STAGE_TERMINAL,
	    c->terminal[0] = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
	must(c, STAGE_TERMINAL, ioctl(c->terminal[0], TIOCSPTLCK, &unlocked));
	must(c, STAGE_TERMINAL, ioctl(c->terminal[0], TIOCSWINSZ, &c->job->plan->terminal->size));
	must(c, STAGE_TERMINAL,
	    tcsetattr(c->terminal[0], TCSANOW, &c->job->plan->terminal->settings));
	must(c, STAGE_TERMINAL,
	    c->terminal[1] = ioctl(c->terminal[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
}

static void
set_limits(struct child *c)
{
	const struct sandbox_limits *l = &c->job->plan->limits;

	must(c, STAGE_LIMITS, child_limit(RLIMIT_CORE, 0));
	must(c, STAGE_LIMITS, child_limit(RLIMIT_NOFILE, (rlim_t)l->open_files));
	must(c, STAGE_LIMITS, child_limit(RLIMIT_MSGQUEUE, 0));
	must(c, STAGE_LIMITS, child_limit(RLIMIT_RTPRIO, 0));
	/* Counted within our user namespace; the machine's root is not held by it. */
	if (c->job->plan->backend == BACKEND_NATIVE)
		must(c, STAGE_LIMITS, child_limit(RLIMIT_NPROC, (rlim_t)c->job->tasks_max));
	if (l->file_bytes > 0)
		must(c, STAGE_LIMITS, child_limit(RLIMIT_FSIZE, (rlim_t)l->file_bytes));
	if (l->group.memory > 0 && !c->job->group->memory)
		must(c, STAGE_LIMITS, child_limit(RLIMIT_DATA, (rlim_t)l->group.memory));
}

static void
drop_rights(struct child *c)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED;
	int cap;

	must(c, STAGE_DROP, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	must(c, STAGE_DROP, prctl(PR_SET_SECUREBITS, bits, 0, 0, 0));
	must(c, STAGE_DROP, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
	for (cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		must(c, STAGE_DROP, prctl(PR_CAPBSET_DROP, cap, 0, 0, 0));
	must(c, STAGE_DROP, syscall(SYS_capset, &header, none));
	/* Changed rights forget it. */
	die_with_parent(c);
}

static void
close_doors(struct child *c)
{
	int i;

	must(c, STAGE_LANDLOCK, c->status.landlock = sandbox_landlock(c->job));
	for (i = 0; i < SANDBOX_FILTERS; i++)
		must(c, STAGE_FILTER,
		    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &c->job->filter[i]));
}

/*
 * The program, and waiting for it.
 */

/* Put the plan's descriptors at 0, 1, 2, 3, …: first out of the way, then where they belong. */
static void
place_fds(struct child *c)
{
	const struct sandbox_plan *plan = c->job->plan;
	int moved[3 + SANDBOX_FDS_MAX], status, base = 3 + SANDBOX_FDS_MAX + 1;
	size_t i, n = 3 + plan->fd_count;

	must(c, STAGE_FDS, status = fcntl(c->job->status_fd, F_DUPFD_CLOEXEC, base));
	for (i = 0; i < n; i++)
		must(c, STAGE_FDS,
		    moved[i] = fcntl(i >= 3                 ? plan->fds[i - 3]
				     : plan->stdio[i] == -1 ? c->terminal[1]
							    : plan->stdio[i],
			F_DUPFD_CLOEXEC, base));
	c->job->status_fd = status;
	for (i = 0; i < n; i++)
		must(c, STAGE_FDS, dup2(moved[i], (int)i));
	must(c, STAGE_FDS, close_range((unsigned)n, ~0U, CLOSE_RANGE_CLOEXEC));
}

/* Become ${argv}, with the plan's descriptors and nothing else of ours. */
static void __attribute__((noreturn)) program(struct child *c, char *const *argv)
{
	const struct sandbox_plan *plan = c->job->plan;
	int i, error = ENOENT;

	setsid();
	if (plan->terminal != NULL)
		must(c, STAGE_TERMINAL, ioctl(c->terminal[1], TIOCSCTTY, 0));
	place_fds(c);
	if (plan->terminal == NULL)
		(void)ioctl(0, TIOCSCTTY, 0); /* where the caller gives it one of its own */
	child_signals();
	umask(022);
	for (i = 0; c->job->programs[i] != NULL; i++) {
		execve(c->job->programs[i], argv, plan->env);
		if (errno != ENOENT && errno != ENOTDIR)
			error = errno;
	}
	errno = error;
	give_up(c, STAGE_EXEC);
}

static int
program_begins(void *ctx)
{
	struct child *c = ctx;

	program(c, c->job->plan->argv);
}

/*
 * Make the program's process.  Until it is the program it shares our memory, on a piece of our
 * stack that is its own, and we wait: copying what is a copy of our parent's would take as long as
 * all mounts.  Not the library's fork: its handlers may want locks that a thread of the parent
 * held.
 */
static pid_t
program_make(struct child *c)
{
	char stack[PROGRAM_STACK] __attribute__((aligned(64)));

	return clone(program_begins, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, c);
}

/* Tell the parent that all is in place, and hand over where the changes will be. */
static void
say_ready(struct child *c)
{
	union {
		char buf[CMSG_SPACE(SANDBOX_GIVEN * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = &c->status, .iov_len = sizeof(c->status)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	int given[SANDBOX_GIVEN];
	size_t n = c->status.effects, i;
	struct cmsghdr *head;

	memcpy(given, c->effect, n * sizeof(int));
	for (i = 0; i < c->job->plan->listener_count; i++)
		if (c->listener[i] != -1) {
			c->status.listeners |= 1U << i;
			given[n++] = c->listener[i];
		}
	c->status.terminal = c->terminal[0] != -1;
	if (c->terminal[0] != -1)
		given[n++] = c->terminal[0];

	c->status.stage = STAGE_READY;
	if (n > 0) {
		memset(&control, 0, sizeof(control));
		m.msg_control = control.buf;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		head = CMSG_FIRSTHDR(&m);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(head), given, n * sizeof(int));
	}
	if (sendmsg(c->job->status_fd, &m, MSG_NOSIGNAL) == -1)
		_exit(126);
}

static int
exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/*
 * The program is over.  Say so once nothing else is alive: until the kernel has taken the
 * namespaces apart, which nobody has to wait for, it is another while.
 */
static void __attribute__((noreturn)) end(struct child *c, int code)
{
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		continue;
	c->status.stage = STAGE_OVER;
	c->status.code = code;
	say(c, 0);
	_exit(code);
}

/*
 * Reap whatever ends, hand signals from outside on, and end with the program.  Senders inside have
 * a number here; what they send to this process is for nobody.
 */
static void __attribute__((noreturn))
reap(struct child *c, pid_t pid, int status_fd, const sigset_t *all)
{
	siginfo_t info;
	pid_t got;
	int sig, status;

	c->status.stage = STAGE_STARTED;
	say(c, status_fd);
	dup2(status_fd, 0);
	close_range(1, ~0U, 0);
	for (;;) {
		sig = sigwaitinfo(all, &info);
		if (sig > 0 && sig != SIGCHLD && info.si_code == SI_USER && info.si_pid == 0 &&
		    kill(-pid, sig) == -1)
			kill(pid, sig);
		while ((got = waitpid(-1, &status, WNOHANG)) > 0)
			if (got == pid)
				end(c, exit_code(status));
	}
}

/* A signal is for the program, and it is not there yet; its end is ours to see. */
static void
quiet(sigset_t *all)
{
	sigfillset(all);
	sigprocmask(SIG_SETMASK, all, NULL);
	/* A handler of the parent's is no business of this process; the default would lose SIGCHLD.
	 */
	signal(SIGCHLD, SIG_DFL);
}

void
sandbox_child(struct sandbox_job *job)
{
	struct child c = {.job = job};
	int status_fd = job->status_fd; /* where the program's process has it, is another */
	sigset_t all;
	pid_t pid;

	quiet(&all);
	must(&c, STAGE_GROUP, cgroup_enter(job->group));
	c.status.user_ns = identity("/proc/self/ns/user");
	c.status.pid_ns = identity("/proc/self/ns/pid");
	open_sources(&c, false);
	open_devices(&c);
	map_user(&c);
	become_user(&c);
	open_sources(&c, true);
	die_with_parent(&c);
	/* One of several layers: a container may keep it from being set. */
	write_text("/proc/sys/user/max_user_namespaces", "0");
	make_root(&c);
	make_proc(&c);
	make_dev(&c);
	make_scratch(&c);
	make_effects(&c);
	take_steps(&c);
	leave_effects(&c);
	enter_root(&c);
	must(&c, STAGE_NET, sandbox_net(job, c.listener));
	make_terminal(&c);
	/* No layer, and a unit with ProtectHostname forbids it. */
	if (sethostname("sandbox", 7) == -1)
		errno = 0;
	must(&c, STAGE_CWD, chdir(job->plan->cwd));
	enter_group(&c);
	set_limits(&c);
	drop_rights(&c);
	close_doors(&c);
	say_ready(&c);
	must(&c, STAGE_FORK, pid = program_make(&c));
	reap(&c, pid, status_fd, &all);
}

void
sandbox_child_plain(struct sandbox_job *job, char *const *argv)
{
	struct child c = {.job = job, .terminal = {-1, -1}};
	sigset_t all;

	quiet(&all);
	must(&c, STAGE_GROUP, cgroup_enter(job->group));
	wait_go(&c);
	c.status.capped = cgroup_holds(job->group, job->tasks_max);
	become_user(&c);
	die_with_parent(&c);
	must(&c, STAGE_CWD, chdir(job->plan->backend == BACKEND_NONE ? job->plan->cwd : "/"));
	set_limits(&c);
	must(&c, STAGE_DROP, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	say_ready(&c);
	program(&c, argv);
}

/* Close all but the standard ones and ${kept}, ${n} of them, which are sorted for it. */
static int
keep_only(int *kept, size_t n)
{
	unsigned from = STDERR_FILENO + 1;
	size_t i, j;
	int fd;

	for (i = 1; i < n; i++) {
		fd = kept[i];
		for (j = i; j > 0 && kept[j - 1] > fd; j--)
			kept[j] = kept[j - 1];
		kept[j] = fd;
	}
	for (i = 0; i < n; i++) {
		if (kept[i] < (int)from)
			continue;
		if (kept[i] > (int)from && close_range(from, (unsigned)kept[i] - 1, 0) == -1)
			return -1;
		from = (unsigned)kept[i] + 1;
	}
	return close_range(from, ~0U, 0);
}

/* What its parent had open is of other runs, and would live as long as this waits. */
static int
leave_others(int status_fd, const struct cgroup *group)
{
	int kept[2 + CGROUP_TREES] = {status_fd}, i;
	size_t n = 1;

	if (group->tasks_fd != -1)
		kept[n++] = group->tasks_fd;
	for (i = 0; i < group->tree_count; i++)
		if (group->trees[i].entry != -1)
			kept[n++] = group->trees[i].entry;
	return keep_only(kept, n);
}

/* Take the plan and its descriptors from the parent; there is none where it closes the socket. */
static void
take_plan(int status_fd, struct sandbox_wire *w)
{
	int fds[WIRE_FDS_MAX];
	size_t i, n;
	char byte;

	if (runner_wire_receive_all(status_fd, &byte, 1, fds, &n, 0) != 1 || n < 4 ||
	    sandbox_wire_read(fds[0], w) != 0 || n != 4 + w->plan.fd_count)
		_exit(126);
	for (i = 0; i < 3; i++)
		w->plan.stdio[i] = fds[1 + i];
	for (i = 0; i < w->plan.fd_count; i++)
		w->fds[i] = fds[4 + i];
}

void
sandbox_child_waits(int status_fd, struct cgroup *group, const struct sandbox_caller *caller)
{
	static struct sandbox_job job;
	static struct sandbox_wire w;
	struct sandbox_status st = {.stage = STAGE_PLAN};
	struct sandbox_report report = {0};
	sigset_t all;

	quiet(&all);
	if (leave_others(status_fd, group) == -1 || prctl(PR_SET_PDEATHSIG, SIGKILL) == -1)
		_exit(126);
	take_plan(status_fd, &w);
	if (sandbox_compile(&w.plan, caller, &job, &report, &st.refusal) != 0) {
		send(status_fd, &st, sizeof(st), MSG_NOSIGNAL);
		_exit(126);
	}
	job.group = group;
	job.status_fd = status_fd;
	sandbox_child(&job);
}
