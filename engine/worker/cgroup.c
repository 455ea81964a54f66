/*
 * cgroup.c: groups of the unified hierarchy where its controllers are, of version 1 else.
 *
 * A group's name tells people whose it is: bastion-PID-START-N, where START is the time that PID
 * started in clock ticks since boot.  Who made it holds a lock on it.  A process of another pid
 * namespace may see our groups, and its numbers are others.
 */
#include <sys/stat.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/actor/lock.h"
#include "engine/worker/cgroup.h"
#include "engine/worker/kill.h"

#define LINE_MAX_  4096
#define DROP_TRIES 200
#define HOLD_TRIES 3
#define CPU_PERIOD 100000
#define PREFIX     "bastion-"
#define BESIDE     "/bastion.self" /* where our own processes are, where our groups have some */

/* A hierarchy and where our groups are in it. */
struct hierarchy {
	char at[CGROUP_PATH_MAX];
	bool unified;
};

static const char *proc_root = "";

/* Where the hierarchies are, once they were looked for: reading all mounts for each run costs more
 * than making a group. */
static struct {
	const char *controller;
	bool known, found;
	struct hierarchy h;
} places[] = {
    {.controller = ""}, {.controller = "pids"}, {.controller = "memory"}, {.controller = "cpu"}};

#define PLACES (sizeof(places) / sizeof(places[0]))

static void
forget_places(void)
{
	size_t i;

	for (i = 0; i < PLACES; i++)
		places[i].known = false;
}

void
cgroup_root(const char *root)
{
	proc_root = root != NULL ? root : "";
	forget_places();
}

/*
 * Finding the hierarchies.
 */

static FILE *
open_proc(const char *name)
{
	char path[CGROUP_PATH_MAX];

	snprintf(path, sizeof(path), "%s/proc/self/%s", proc_root, name);
	return fopen(path, "re");
}

/* Return whether the comma-separated ${list} holds ${word}. */
static bool
list_has(const char *list, const char *word)
{
	size_t n = strlen(word), len;

	for (; *list != '\0'; list += len + (list[len] != '\0')) {
		len = strcspn(list, ",\n");
		if (len == n && memcmp(list, word, n) == 0)
			return true;
	}
	return false;
}

/* Where this process is in the hierarchy of ${controller}; "" is the unified one. */
static int
own_path(const char *controller, char *out, size_t size)
{
	char line[LINE_MAX_], *list, *path;
	bool found = false;
	FILE *f;

	if ((f = open_proc("cgroup")) == NULL)
		return -1;
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if ((list = strchr(line, ':')) == NULL || (path = strchr(++list, ':')) == NULL)
			continue;
		*path++ = '\0';
		if (controller[0] == '\0' ? list[0] != '\0' : !list_has(list, controller))
			continue;
		found = snprintf(out, size, "%s", path) < (int)size;
	}
	fclose(f);
	return found ? 0 : -1;
}

/* One line of mountinfo: its root, its place, its type and the options of its file system. */
static int
parse_mount(char *line, char **root, char **place, char **type, char **options)
{
	char *save = NULL, *word, *dash;
	int i;

	if ((dash = strstr(line, " - ")) == NULL)
		return -1;
	*dash = '\0';
	word = strtok_r(line, " ", &save);
	for (i = 0; i < 3 && word != NULL; i++)
		word = strtok_r(NULL, " ", &save);
	*root = word;
	*place = strtok_r(NULL, " ", &save);
	*type = strtok_r(dash + 3, " ", &save);
	strtok_r(NULL, " ", &save);
	*options = strtok_r(NULL, " \n", &save);
	return *root != NULL && *place != NULL && *type != NULL && *options != NULL ? 0 : -1;
}

/* What of ${own} lies below ${root}, which is what is mounted. */
static const char *
below(const char *own, const char *root)
{
	size_t n = strlen(root);

	if (strcmp(root, "/") == 0)
		return own;
	if (strncmp(own, root, n) == 0 && (own[n] == '/' || own[n] == '\0'))
		return own + n;
	return NULL;
}

/* Where we, or who started us, moved beside our groups (delegate), these are one level up. */
static void
to_our_groups(struct hierarchy *h)
{
	size_t n = strlen(h->at), len = strlen(BESIDE);

	if (h->unified && n > len && strcmp(h->at + n - len, BESIDE) == 0)
		h->at[n - len] = '\0';
}

/* Look for the place of our groups in the hierarchy of ${controller} in version 1, or the unified
 * one for "". */
static int
look_for(const char *controller, struct hierarchy *h)
{
	char line[LINE_MAX_], own[CGROUP_PATH_MAX], *root, *place, *type, *options;
	bool unified = controller[0] == '\0', found = false;
	const char *rest;
	FILE *f;

	if (own_path(controller, own, sizeof(own)) != 0 || (f = open_proc("mountinfo")) == NULL)
		return -1;
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		if (parse_mount(line, &root, &place, &type, &options) != 0 ||
		    strcmp(type, unified ? "cgroup2" : "cgroup") != 0 ||
		    (!unified && !list_has(options, controller)) ||
		    (rest = below(own, root)) == NULL)
			continue;
		found = snprintf(h->at, sizeof(h->at), "%s%s%s", proc_root, place,
			    strcmp(rest, "/") == 0 ? "" : rest) < (int)sizeof(h->at);
	}
	fclose(f);
	h->unified = unified;
	if (!found)
		return -1;
	to_our_groups(h);
	return 0;
}

/* As look_for, remembered. */
static int
find_mounted(const char *controller, struct hierarchy *h)
{
	size_t i = 0;

	while (strcmp(places[i].controller, controller) != 0)
		i++;
	if (!places[i].known) {
		places[i].found = look_for(controller, &places[i].h) == 0;
		places[i].known = true;
	}
	*h = places[i].h;
	return places[i].found ? 0 : -1;
}

/*
 * Files of a group.
 */

static int
open_in(const char *dir, const char *name)
{
	char path[CGROUP_PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
}

static int
write_file(const char *dir, const char *name, const char *text)
{
	ssize_t n, len = (ssize_t)strlen(text);
	int fd;

	if ((fd = open_in(dir, name)) == -1)
		return -1;
	n = write(fd, text, (size_t)len);
	close(fd);
	return n == len ? 0 : -1;
}

static int
write_number(const char *dir, const char *name, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	return write_file(dir, name, text);
}

/* Return whether the list of words in a file holds ${word}. */
static bool
file_has(const char *dir, const char *name, const char *word)
{
	char path[CGROUP_PATH_MAX + 64], text[1024], *save = NULL, *w;
	bool has = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if ((f = fopen(path, "re")) == NULL)
		return false;
	if (fgets(text, sizeof(text), f) != NULL)
		for (w = strtok_r(text, " \n", &save); w != NULL && !has;
		     w = strtok_r(NULL, " \n", &save))
			has = strcmp(w, word) == 0;
	fclose(f);
	return has;
}

static void
move_all(const char *from, const char *to)
{
	char path[CGROUP_PATH_MAX + 64], line[32];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", from);
	if ((f = fopen(path, "re")) == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		write_file(to, "cgroup.procs", line);
	}
	fclose(f);
}

/*
 * Have children of ${at} get ${controller}.  A unified group with controllers for its children has
 * no processes of its own: ours move to one beside them, which only works where the group was
 * delegated to us.
 */
static bool
delegate(const char *at, const char *controller)
{
	char plus[32], beside[CGROUP_PATH_MAX + 16];

	if (!file_has(at, "cgroup.controllers", controller))
		return false;
	if (file_has(at, "cgroup.subtree_control", controller))
		return true;
	snprintf(plus, sizeof(plus), "+%s", controller);
	if (write_file(at, "cgroup.subtree_control", plus) == 0)
		return true;
	if (errno != EBUSY)
		return false;
	snprintf(beside, sizeof(beside), "%s" BESIDE, at);
	if (mkdir(beside, 0755) == -1 && errno != EEXIST)
		return false;
	move_all(at, beside);
	forget_places();
	return write_file(at, "cgroup.subtree_control", plus) == 0;
}

/*
 * Making a group.
 */

/* Whether the processes of ${c} are in ${t} from their beginning. */
static bool
born_in(const struct cgroup *c, const struct cgroup_tree *t)
{
	return t->unified && c->fd != -1;
}

static const struct timespec nap = {.tv_nsec = 1000000};

/* Make the group ${path}, and hold it: who sweeps may come between, and takes what nobody holds.
 * Other users could lock what they can open.  Return its descriptor, or -1 with errno. */
static int
make_held(const char *path)
{
	int i, fd;

	for (i = 0; i < HOLD_TRIES; i++) {
		if (mkdir(path, 0700) == -1 && (i == 0 || errno != EEXIST))
			return -1;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd != -1 && lock_use(fd) != LOCK_BUSY && access(path, F_OK) == 0)
			return fd;
		if (fd != -1)
			close(fd);
		nanosleep(&nap, NULL);
	}
	errno = EBUSY;
	return -1;
}

/* Return our group in ${h}, made where it is not there yet; NULL on failure. */
static struct cgroup_tree *
tree_in(struct cgroup *c, const struct hierarchy *h)
{
	struct cgroup_tree *t;
	char path[CGROUP_PATH_MAX];
	int i, held;

	if (snprintf(path, sizeof(path), "%s/%s", h->at, c->name) >= (int)sizeof(path))
		return NULL;
	for (i = 0; i < c->tree_count; i++)
		if (strcmp(c->trees[i].path, path) == 0)
			return &c->trees[i];
	if (c->tree_count == CGROUP_TREES || (held = make_held(path)) == -1)
		return NULL;
	t = &c->trees[c->tree_count++];
	snprintf(t->path, sizeof(t->path), "%s", path);
	t->unified = h->unified;
	t->held = held;
	t->entry = -1;
	if (t->unified)
		c->fd = held;
	if (!born_in(c, t))
		t->entry = open_in(path, t->unified ? "cgroup.procs" : "tasks");
	return t;
}

/* Our group in the hierarchy that has ${controller}, or NULL. */
static struct cgroup_tree *
tree_for(struct cgroup *c, const char *controller)
{
	struct hierarchy h;

	if (find_mounted("", &h) == 0 && delegate(h.at, controller))
		return tree_in(c, &h);
	return find_mounted(controller, &h) == 0 ? tree_in(c, &h) : NULL;
}

static void
cap_tasks(struct cgroup *c, int64_t tasks)
{
	char path[CGROUP_PATH_MAX + 16];
	struct cgroup_tree *t = tree_for(c, "pids");

	if (t == NULL) {
		snprintf(c->tasks_note, sizeof(c->tasks_note),
		    "tasks are not capped: no group for them can be made here (%s)",
		    errno == EACCES || errno == EPERM || errno == EROFS ? "not permitted"
									: "there is none");
		return;
	}
	snprintf(path, sizeof(path), "%s/pids.max", t->path);
	if (write_number(t->path, "pids.max", tasks) != 0 ||
	    (c->tasks_fd = open(path, O_RDONLY | O_CLOEXEC)) == -1) {
		snprintf(c->tasks_note, sizeof(c->tasks_note),
		    "tasks are not capped: the cap could not be set");
		return;
	}
	c->tasks = true;
}

static void
cap_memory(struct cgroup *c, int64_t bytes)
{
	struct cgroup_tree *t;

	if (bytes <= 0 || (t = tree_for(c, "memory")) == NULL)
		return;
	if (t->unified) {
		c->memory = write_number(t->path, "memory.max", bytes) == 0;
		write_file(t->path, "memory.swap.max", "0");
		write_file(t->path, "memory.oom.group", "1");
		return;
	}
	c->memory = write_number(t->path, "memory.limit_in_bytes", bytes) == 0;
	/* Not there where swap is not accounted. */
	write_number(t->path, "memory.memsw.limit_in_bytes", bytes);
}

static void
cap_cpu(struct cgroup *c, int64_t percent)
{
	struct cgroup_tree *t;
	char text[64];

	if (percent <= 0 || (t = tree_for(c, "cpu")) == NULL)
		return;
	if (t->unified) {
		snprintf(text, sizeof(text), "%lld %d", (long long)percent * CPU_PERIOD / 100,
		    CPU_PERIOD);
		c->cpu = write_file(t->path, "cpu.max", text) == 0;
		return;
	}
	c->cpu = write_number(t->path, "cpu.cfs_quota_us", percent * CPU_PERIOD / 100) == 0;
}

static void
name_it(struct cgroup *c)
{
	static unsigned next;
	struct identity self;

	/* Without /proc there are no groups either. */
	if (identity_of(getpid(), &self) != 0)
		memset(&self, 0, sizeof(self));
	snprintf(c->name, sizeof(c->name), PREFIX "%lld-%lld-%u", (long long)self.pid,
	    (long long)self.start_ticks, ++next);
}

void
cgroup_limit(struct cgroup *c, const struct cgroup_limits *limits)
{
	if (c->tasks_fd != -1)
		close(c->tasks_fd);
	c->tasks_fd = -1;
	c->tasks = c->memory = c->cpu = false;
	errno = 0;
	cap_tasks(c, limits->tasks);
	/* Somebody moved this process since the hierarchies were looked for. */
	if (!c->tasks && errno == ENOENT && c->tree_count == 0) {
		forget_places();
		c->tasks_note[0] = '\0';
		cap_tasks(c, limits->tasks);
	}
	cap_memory(c, limits->memory);
	cap_cpu(c, limits->cpu_percent);
}

void
cgroup_make(struct cgroup *c, const struct cgroup_limits *limits)
{
	memset(c, 0, sizeof(*c));
	c->fd = c->tasks_fd = -1;
	name_it(c);
	cgroup_limit(c, limits);
}

/*
 * One thread that moves itself cannot end or become another meanwhile, so the kernel holds nobody
 * else up for it (version 1, "tasks").
 */
int
cgroup_enter(const struct cgroup *c)
{
	int i;

	for (i = 0; i < c->tree_count; i++)
		if (!born_in(c, &c->trees[i]) && write(c->trees[i].entry, "0", 1) != 1)
			return -1;
	return 0;
}

void
cgroup_shut(struct cgroup *c)
{
	int i;

	for (i = 0; i < c->tree_count; i++) {
		if (c->trees[i].entry != -1)
			close(c->trees[i].entry);
		c->trees[i].entry = -1;
	}
}

int
cgroup_attach(const struct cgroup *c, pid_t pid)
{
	int i;

	for (i = 0; i < c->tree_count; i++)
		if (!born_in(c, &c->trees[i]) &&
		    write_number(c->trees[i].path, "cgroup.procs", pid) != 0)
			return -1;
	return 0;
}

/* Return whether a line of ${text} ends with "/${name}". */
static bool
has_line(const char *text, const char *name)
{
	size_t n = strlen(name);
	const char *at = text;

	while ((at = strstr(at, name)) != NULL) {
		if (at > text && at[-1] == '/' && (at[n] == '\n' || at[n] == '\0'))
			return true;
		at += n;
	}
	return false;
}

bool
cgroup_holds(const struct cgroup *c, int64_t cap)
{
	char text[LINE_MAX_], *end;
	ssize_t n;
	int fd;

	if (!c->tasks || (n = pread(c->tasks_fd, text, 31, 0)) <= 0)
		return false;
	text[n] = '\0';
	if (strtoll(text, &end, 10) != cap || *end != '\n')
		return false;
	if ((fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC)) == -1)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return has_line(text, c->name);
}

/*
 * Their end.
 */

static void
kill_members(const char *dir)
{
	char path[CGROUP_PATH_MAX + 64], line[32];
	FILE *f;
	long pid;

	if (write_file(dir, "cgroup.kill", "1") == 0)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	if ((f = fopen(path, "re")) == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL)
		if ((pid = strtol(line, NULL, 10)) > 1)
			kill_process((pid_t)pid, SIGKILL);
	fclose(f);
}

/* Remove the group ${dir} once it is empty.  Return 0 or -1. */
static int
remove_group(const char *dir)
{
	int i;

	for (i = 0; i < DROP_TRIES; i++) {
		if (rmdir(dir) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			return -1;
		kill_members(dir);
		nanosleep(&nap, NULL);
	}
	return -1;
}

int
cgroup_drop(struct cgroup *c)
{
	int i, rc = 0;

	if (c->tasks_fd != -1)
		close(c->tasks_fd);
	c->fd = c->tasks_fd = -1;
	cgroup_shut(c);
	for (i = 0; i < c->tree_count; i++) {
		if (remove_group(c->trees[i].path) != 0)
			rc = -1;
		close(c->trees[i].held);
	}
	c->tree_count = 0;
	return rc;
}

/* Return whether ${name} is that of a group of bastion's. */
static bool
is_ours(const char *name)
{
	long long pid, start;
	unsigned n;
	int len = 0;

	return sscanf(name, PREFIX "%lld-%lld-%u%n", &pid, &start, &n, &len) == 3 &&
	       name[len] == '\0';
}

/* Remove the group ${path} unless somebody holds it.  Return whether it is gone. */
static bool
sweep_group(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool gone = false;

	if (fd == -1)
		return false;
	if (lock_unused(fd) == 0) {
		kill_members(path);
		gone = remove_group(path) == 0;
	}
	close(fd);
	return gone;
}

static int
sweep_in(const char *at)
{
	char path[CGROUP_PATH_MAX + 300];
	struct dirent *e;
	int count = 0;
	DIR *d;

	if ((d = opendir(at)) == NULL)
		return 0;
	while ((e = readdir(d)) != NULL) {
		if (!is_ours(e->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", at, e->d_name);
		count += sweep_group(path);
	}
	closedir(d);
	return count;
}

int
cgroup_sweep(void)
{
	struct hierarchy h;
	size_t i;
	int count = 0;

	for (i = 0; i < PLACES; i++)
		if (find_mounted(places[i].controller, &h) == 0)
			count += sweep_in(h.at);
	return count;
}
