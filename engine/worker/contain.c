/* contain.c: processes by /proc, and signals to exactly those. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/worker/contain.h"

#define CMDLINE_MAX 65536
#define STATUS_MAX  4096
#define KTHREADD    2 /* the parent of the kernel's own threads */

#define EXEC_PATIENCE 20 /* ms that arguments are waited for, in one look at all processes */

/* One process of the machine, as the walk saw it. */
struct seen {
	int64_t pid, parent, start_ticks;
	char program[IDENTITY_PROGRAM_SIZE];
	enum { UNKNOWN, OUTSIDE, STOP, SPARE, BENEATH } place;
	bool known; /* from an earlier look */
	char why[CONTAIN_WHY_MAX];
};

/* All of them, by pid. */
struct walk {
	struct seen *list;
	size_t n, room;
	const struct contain_world *world;
	int patience; /* ms left for arguments: whoever shows none must not hold an order up */
};

static int
proc_text(int64_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	size_t len = 0;
	ssize_t n = 1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRId64 "/%s", pid, name);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	while (n != 0 && len < size - 1) {
		if ((n = read(fd, buf + len, size - 1 - len)) == -1 && errno != EINTR)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	buf[len] = '\0';
	return n == -1 ? -1 : (int)len;
}

static int
uid_of(int64_t pid, int64_t *uid)
{
	char status[STATUS_MAX];
	const char *at;

	if (proc_text(pid, "status", status, sizeof(status)) == -1 ||
	    (at = strstr(status, "\nUid:\t")) == NULL)
		return -1;
	*uid = strtoll(at + 6, NULL, 10);
	return 0;
}

static int
exe_of(int64_t pid, char exe[CONTAIN_EXE_MAX + 1])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%" PRId64 "/exe", pid);
	if ((n = readlink(path, exe, CONTAIN_EXE_MAX + 1)) < 1 || n > CONTAIN_EXE_MAX)
		return -1;
	exe[n] = '\0';
	return 0;
}

/*
 * Hash the arguments.  In the middle of execve(2) a process has its program and no arguments yet:
 * that is waited for while ${patience}, in ms, lasts.
 */
static int
argv_of(int64_t pid, unsigned char argv[CONTAIN_DIGEST], int *patience)
{
	char cmdline[CMDLINE_MAX + 1];
	static const struct timespec nap = {.tv_nsec = 1000000};
	int len;

	while ((len = proc_text(pid, "cmdline", cmdline, sizeof(cmdline))) == 0 && *patience > 0) {
		nanosleep(&nap, NULL);
		(*patience)--;
	}
	if (len == -1)
		return -1;
	crypto_hash_sha256(argv, (const unsigned char *)cmdline, (unsigned)len);
	return 0;
}

static int
print_of(int64_t pid, struct contain_print *print, int *patience)
{
	struct identity before, after;

	return identity_of(pid, &before) != 0 || exe_of(pid, print->exe) != 0 ||
		       uid_of(pid, &print->uid) != 0 || argv_of(pid, print->argv, patience) != 0 ||
		       identity_of(pid, &after) != 0 || before.start_ticks != after.start_ticks
		   ? -1
		   : 0;
}

int
contain_print_of(int64_t pid, struct contain_print *print, struct refusal *refusal)
{
	int patience = EXEC_PATIENCE;

	return print_of(pid, print, &patience) == 0
		   ? 0
		   : refusal_set(refusal, "contain.process",
			 "no process of this number runs here, or its program cannot be read");
}

/*
 * The walk.
 */

static int64_t
parent_of(const char *stat)
{
	const char *close = strrchr(stat, ')');

	return close != NULL && strlen(close) > 4 ? strtoll(close + 4, NULL, 10) : 0;
}

static int
walk_add(struct walk *w, int64_t pid, struct refusal *r)
{
	struct identity id;
	struct seen *more;
	char stat[1024];

	/* One that ended since its directory was listed is no loss. */
	if (proc_text(pid, "stat", stat, sizeof(stat)) == -1 || identity_parse(stat, &id) != 0 ||
	    id.state == 'Z' || id.state == 'X')
		return 0;
	if ((int64_t)w->n >= w->world->processes_max)
		return refusal_set(r, "contain.many",
		    "this machine runs more processes than the setting contain.processes allows");
	if (w->n == w->room) {
		w->room = w->room == 0 ? 512 : 2 * w->room;
		if ((more = reallocarray(w->list, w->room, sizeof(*more))) == NULL)
			return refusal_set(r, "contain.failed", "out of memory");
		w->list = more;
	}
	w->list[w->n] =
	    (struct seen){.pid = id.pid, .parent = parent_of(stat), .start_ticks = id.start_ticks};
	memcpy(w->list[w->n++].program, id.program, sizeof(id.program));
	return 0;
}

static int
seen_compare(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int
walk_all(struct walk *w, struct refusal *r)
{
	const struct dirent *entry;
	DIR *proc;
	int rc = 0;

	if ((proc = opendir("/proc")) == NULL)
		return refusal_errno(r, "contain.failed", "/proc");
	while (rc == 0 && (entry = readdir(proc)) != NULL)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			rc = walk_add(w, strtoll(entry->d_name, NULL, 10), r);
	closedir(proc);
	if (rc == 0 && w->n > 0)
		qsort(w->list, w->n, sizeof(*w->list), seen_compare);
	return rc;
}

static struct seen *
find(const struct walk *w, int64_t pid)
{
	struct seen key = {.pid = pid};

	return w->n == 0 ? NULL : bsearch(&key, w->list, w->n, sizeof(key), seen_compare);
}

/*
 * What is spared.
 */

static bool
is_ours(const struct contain_world *world, const struct seen *p)
{
	size_t i;

	for (i = 0; i < world->our_count; i++)
		if (world->ours[i].pid == p->pid && world->ours[i].start_ticks == p->start_ticks)
			return true;
	return false;
}

/* Whether ${p} is of bastion or was started by it. */
static bool
beneath_ours(const struct walk *w, const struct seen *p)
{
	size_t steps;

	for (steps = 0; p != NULL && steps < w->n; steps++, p = find(w, p->parent))
		if (is_ours(w->world, p))
			return true;
	return false;
}

/* Return the entry of the list that spares ${p}, or NULL. */
static const struct contain_entry *
listed(struct walk *w, const struct seen *p)
{
	struct contain_print print;
	const struct contain_entry *e;
	size_t i;

	if (w->world->n == 0 || print_of(p->pid, &print, &w->patience) != 0)
		return NULL;
	for (i = 0; i < w->world->n; i++) {
		e = &w->world->spared[i];
		if (e->print.uid == print.uid && strcmp(e->print.exe, print.exe) == 0 &&
		    (e->any || memcmp(e->print.argv, print.argv, sizeof(print.argv)) == 0))
			return e;
	}
	return NULL;
}

static bool
guarded(struct walk *w, struct seen *p)
{
	const struct contain_entry *entry;

	if (p->pid == 1) {
		snprintf(p->why, sizeof(p->why), "it is init");
		return true;
	}
	/* What lies beneath it comes after it; the root has none of bastion above it. */
	if (is_ours(w->world, p)) {
		snprintf(p->why, sizeof(p->why), "bastion started it");
		return true;
	}
	if ((entry = listed(w, p)) == NULL)
		return false;
	snprintf(p->why, sizeof(p->why), "entry %" PRId64 " of the list spares it", entry->id);
	return true;
}

/* Where ${p} stands, given where its parent does. */
static void
place_below(struct walk *w, struct seen *p, const struct seen *parent)
{
	if (parent == NULL || parent->place == OUTSIDE || parent->place == UNKNOWN)
		p->place = OUTSIDE;
	else if (parent->place == SPARE || parent->place == BENEATH)
		p->place = BENEATH;
	else
		p->place = guarded(w, p) ? SPARE : STOP;
}

/* Place ${p}, after those above it.  A circle, which only a torn view can have, is outside. */
static void
place(struct walk *w, struct seen *p, struct seen **chain)
{
	struct seen *at = p;
	size_t n = 0;

	for (; at != NULL && at->place == UNKNOWN && n < w->n; at = find(w, at->parent)) {
		at->place = OUTSIDE; /* until its turn comes: it ends a circle */
		chain[n++] = at;
	}
	while (n-- > 0)
		place_below(w, chain[n], find(w, chain[n]->parent));
}

/*
 * The root of the tree.
 */

/* When the process began, in ms UTC, to a tick; 0 where that cannot be told. */
static int64_t
began_at(int64_t start_ticks)
{
	struct timespec now, up;
	long hz = sysconf(_SC_CLK_TCK);

	if (hz < 1 || clock_gettime(CLOCK_REALTIME, &now) != 0 ||
	    clock_gettime(CLOCK_BOOTTIME, &up) != 0)
		return 0;
	return (now.tv_sec - up.tv_sec) * 1000 + (now.tv_nsec - up.tv_nsec) / 1000000 +
	       start_ticks * 1000 / hz;
}

/* Whether ${root} is above the process ${pid}, as all of bastion's ancestors are above its worker.
 */
static bool
above(const struct walk *w, const struct seen *root, int64_t pid)
{
	const struct seen *p;
	size_t steps;

	for (p = find(w, pid), steps = 0; p != NULL && steps < w->n;
	     steps++, p = find(w, p->parent))
		if (p == root)
			return true;
	return false;
}

static int
root_guard(const struct walk *w, const struct contain_target *target, const struct seen *root,
    struct refusal *r)
{
	char exe[CONTAIN_EXE_MAX + 1];

	if (root == NULL)
		return refusal_set(
		    r, "contain.gone", "no process %" PRId64 " runs here", target->pid);
	if (root->pid == 1 || root->pid == KTHREADD || root->parent == KTHREADD)
		return refusal_set(r, "contain.bastion", "the process %" PRId64 " (%s) is %s",
		    root->pid, root->program, root->pid == 1 ? "init" : "of the kernel");
	if (beneath_ours(w, root))
		return refusal_set(r, "contain.bastion",
		    "the process %" PRId64 " (%s) was started by bastion", root->pid,
		    root->program);
	if (above(w, root, getpid()))
		return refusal_set(r, "contain.bastion",
		    "the process %" PRId64 " (%s) is an ancestor of bastion", root->pid,
		    root->program);
	if (target->exe != NULL && (exe_of(root->pid, exe) != 0 || strcmp(exe, target->exe) != 0))
		return refusal_set(r, "contain.exe",
		    "the process %" PRId64 " (%s) runs another program than the order names",
		    root->pid, root->program);
	if (target->issued_at != 0 && began_at(root->start_ticks) > target->issued_at)
		return refusal_set(r, "contain.reused",
		    "the process %" PRId64 " (%s) began after the order was signed", root->pid,
		    root->program);
	return 0;
}

/*
 * The tree.
 */

static void
mark_known(const struct walk *w, const struct contain_tree *tree)
{
	struct seen *p;
	size_t i;

	for (i = 0; i < tree->n; i++)
		if ((p = find(w, tree->list[i].pid)) != NULL &&
		    p->start_ticks == tree->list[i].start_ticks)
			p->known = true;
}

static int
tree_add(struct contain_tree *tree, const struct seen *p, struct refusal *r)
{
	struct contain_process *more;

	if (tree->n == tree->room) {
		tree->room = tree->room == 0 ? 64 : 2 * tree->room;
		if ((more = reallocarray(tree->list, tree->room, sizeof(*more))) == NULL)
			return refusal_set(r, "contain.failed", "out of memory");
		tree->list = more;
	}
	more = &tree->list[tree->n];
	*more = (struct contain_process){.pid = p->pid, .start_ticks = p->start_ticks};
	memcpy(more->program, p->program, sizeof(more->program));
	more->fate = p->place == STOP ? CONTAIN_STOP : CONTAIN_SPARE;
	snprintf(more->why, sizeof(more->why), "%s", p->why);
	if (uid_of(p->pid, &more->uid) != 0)
		more->uid = 0;
	tree->n++;
	return 0;
}

static bool
in_tree(const struct seen *p)
{
	return p->place == STOP || p->place == SPARE || p->place == BENEATH;
}

/* Add what is new, the root first.  Return how many of them are to be stopped, or -1. */
static int
tree_take(
    struct contain_tree *tree, const struct walk *w, const struct seen *root, struct refusal *r)
{
	int fresh = 0;
	size_t i;

	if (tree->n == 0) {
		if (tree_add(tree, root, r) != 0)
			return -1;
		fresh = root->place == STOP;
	}
	mark_known(w, tree);
	for (i = 0; i < w->n; i++) {
		if (!in_tree(&w->list[i]) || w->list[i].known)
			continue;
		if (tree_add(tree, &w->list[i], r) != 0)
			return -1;
		fresh += w->list[i].place == STOP;
	}
	return fresh;
}

static int
look_from(struct walk *w, const struct contain_target *target, struct contain_tree *tree,
    struct refusal *r)
{
	struct seen *root = find(w, target->pid), **chain;
	size_t i;

	/* Once it is held, the root is what it was, or nothing any more. */
	if (tree->n > 0 && (root == NULL || root->start_ticks != tree->list[0].start_ticks))
		return 0;
	if (tree->n == 0 && root_guard(w, target, root, r) != 0)
		return -1;
	if ((chain = calloc(w->n + 1, sizeof(struct seen *))) == NULL)
		return refusal_set(r, "contain.failed", "out of memory");
	root->place = !target->agent && guarded(w, root) ? SPARE : STOP;
	for (i = 0; i < w->n; i++)
		if (w->list[i].place == UNKNOWN)
			place(w, &w->list[i], chain);
	free(chain);
	return tree_take(tree, w, root, r);
}

int
contain_look(const struct contain_world *world, const struct contain_target *target,
    struct contain_tree *tree, struct refusal *refusal)
{
	struct walk w = {.world = world, .patience = EXEC_PATIENCE};
	struct identity me;
	int rc;

	if (identity_of(getpid(), &me) != 0)
		return refusal_set(refusal, "contain.failed", "cannot read our own /proc");
	memcpy(tree->boot_id, me.boot_id, sizeof(tree->boot_id));
	rc = walk_all(&w, refusal) != 0 ? -1 : look_from(&w, target, tree, refusal);
	free(w.list);
	return rc;
}

/* The descriptor is taken first and the identity read after it: if that fits, both are of one. */
bool
contain_signal(const struct contain_process *process, int number)
{
	struct identity now;
	bool sent;
	int fd;

	if ((fd = (int)syscall(SYS_pidfd_open, (pid_t)process->pid, 0)) == -1)
		return false;
	sent = identity_of(process->pid, &now) == 0 && now.start_ticks == process->start_ticks &&
	       now.state != 'Z' && syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0;
	close(fd);
	return sent;
}

static void
hold_from(struct contain_tree *tree, size_t from)
{
	size_t i;

	for (i = from; i < tree->n; i++)
		if (tree->list[i].fate == CONTAIN_STOP && !contain_signal(&tree->list[i], SIGSTOP))
			tree->list[i].fate = CONTAIN_GONE;
}

/* One that stood still and is gone when its turn comes died of this order too: its parent was
 * killed before it, and PR_SET_PDEATHSIG took it along. */
static void
kill_all(struct contain_tree *tree, size_t held)
{
	size_t i;

	for (i = 0; i < tree->n; i++) {
		struct contain_process *p = &tree->list[i];

		if (p->fate == CONTAIN_STOP)
			p->fate =
			    contain_signal(p, SIGKILL) || i < held ? CONTAIN_STOPPED : CONTAIN_GONE;
	}
}

int
contain_stop(const struct contain_world *world, const struct contain_target *target,
    struct contain_tree *tree, struct refusal *refusal)
{
	struct refusal later;
	int64_t round;
	size_t held = 0;
	int fresh;

	if ((fresh = contain_look(world, target, tree, refusal)) == -1)
		return -1;
	/* Parents that stand still have no more children: then nothing is new. */
	for (round = 1; fresh > 0; round++) {
		hold_from(tree, held);
		held = tree->n;
		fresh = round < world->rounds_max ? contain_look(world, target, tree, &later) : 0;
	}
	kill_all(tree, held);
	return 0;
}

void
contain_free(struct contain_tree *tree)
{
	free(tree->list);
	*tree = (struct contain_tree){.list = NULL};
}
