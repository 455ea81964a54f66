/*
 * walk.c: a depth-first walk beneath one handle.
 *
 * Every folder is opened by its name in the handle of the folder above, never by a path, and is the
 * one that was looked at before: same device, inode and mount.  When its content was added up, the
 * name must still be that folder; else the whole of it counts as changed and adds nothing.
 *
 * The walk runs in a thread, since a dead network mount may hold a system call for ever.  It does
 * not hold the lock during one, so whoever waits can always read what was measured.
 */
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/worker/tool.h"
#include "engine/worker/walk.h"

/* Each level holds one descriptor. */
#define LEVELS_MAX 512
#define NAMES_SIZE 32768 /* bytes of names that one system call reads */
/* Places that are remembered as not counted; further ones are only counted. */
#define SKIPS_MAX 4096
#define NAME_LEN  256

/* Reasons that are no errno. */
#define SKIP_MOUNT   (-2)
#define SKIP_CHANGED WALK_CHANGED
#define SKIP_DEEP    (-4)

#define LOOK (STATX_TYPE | STATX_INO | STATX_NLINK | STATX_BLOCKS | STATX_MNT_ID)

/* Asking no server: a dead mount below must not hold the walk up only to be named as a mount. */
#define LOOK_FLAGS (AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC)

/* What makes a folder the same folder. */
struct place {
	dev_t dev;
	uint64_t ino;
	uint64_t mount;
};

/* A folder within the depth that was asked for. */
struct record {
	long above; /* index, -1 for the start */
	size_t name;
	int64_t bytes;
};

struct skip {
	char *path;
	int reason;
	int64_t count;
	long serial; /* of the folder that holds it */
};

/* A file with several names, counted already. */
struct linked {
	dev_t dev;
	uint64_t ino;
	long next;
};

/* A folder that is being read. */
struct level {
	int fd;
	size_t got, at; /* bytes of its entries that were read, and taken */
	struct place place;
	char name[NAME_LEN];
	int64_t bytes;
	int64_t files;
	int64_t folders;
	long record; /* -1: deeper than was asked for */
	long serial;
	/* Where the lists stood when it began: if it changed, what came since is taken back. */
	size_t records_mark;
	size_t skips_mark;
	size_t linked_mark;
};

struct walk {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	atomic_int stop;
	int finished;
	int abandoned; /* nobody waits any more: the thread frees it */

	char path[4096];
	int depth;
	struct walk_total total;

	struct level *levels;
	char *entries[LEVELS_MAX]; /* of each level, kept for the next folder there; or NULL */
	int nlevels;
	long serial;
	struct record *records;
	size_t nrecords, records_cap;
	char *names;
	size_t names_len, names_cap;
	struct skip *skips;
	size_t nskips, skips_cap;
	struct linked *linked;
	size_t nlinked, linked_cap;
	long *buckets;
	size_t nbuckets;
};

/* Atomic, since a walk that was left behind may still look here. */
static void (*_Atomic pause_hook)(void *, const char *);
static void *_Atomic pause_ctx;

void
walk_pause(void (*hook)(void *, const char *), void *ctx)
{
	pause_ctx = ctx;
	pause_hook = hook;
}

/* Make room for one more of ${size} bytes in the list whose pointer is at ${list}.  Return 0 or -1.
 */
static int
grow(void *list, size_t used, size_t *cap, size_t size)
{
	void *old, *bigger;

	if (used < *cap)
		return 0;
	memcpy(&old, list, sizeof(old));
	if ((bigger = reallocarray(old, *cap != 0 ? *cap * 2 : 64, size)) == NULL)
		return -1;
	memcpy(list, &bigger, sizeof(bigger));
	*cap = *cap != 0 ? *cap * 2 : 64;
	return 0;
}

static const char *
reason_text(int reason)
{
	switch (reason) {
	case SKIP_MOUNT:
		return "mount";
	case SKIP_CHANGED:
		return "changed";
	case SKIP_DEEP:
		return "too deep";
	case EACCES:
	case EPERM:
		return "not permitted";
	default:
		return strerrordesc_np(reason) != NULL ? strerrordesc_np(reason) : "unreadable";
	}
}

/* The path of the folder that is being read, as far as it fits. */
static void
path_here(const struct walk *w, char *path, size_t len)
{
	size_t used = 0, n;
	int i;

	for (i = 0; i < w->nlevels; i++) {
		n = strlen(w->levels[i].name);
		if (used + n + 2 > len)
			break;
		if (used > 0 && path[used - 1] != '/')
			path[used++] = '/';
		memcpy(path + used, w->levels[i].name, n);
		used += n;
	}
	path[used] = '\0';
}

/* Remember that ${count} things in the folder that is being read were not counted. */
static void
skip_add(struct walk *w, int reason)
{
	struct level *l = &w->levels[w->nlevels - 1];
	char path[sizeof(w->path)];
	size_t i;

	for (i = w->nskips; i > l->skips_mark; i--) {
		if (w->skips[i - 1].serial == l->serial && w->skips[i - 1].reason == reason) {
			w->skips[i - 1].count++;
			return;
		}
	}
	path_here(w, path, sizeof(path));
	if (w->nskips >= SKIPS_MAX ||
	    grow(&w->skips, w->nskips, &w->skips_cap, sizeof(*w->skips)) == -1 ||
	    (w->skips[w->nskips].path = strdup(path)) == NULL) {
		w->total.unnamed++;
		return;
	}
	w->skips[w->nskips].reason = reason;
	w->skips[w->nskips].count = 1;
	w->skips[w->nskips].serial = l->serial;
	w->nskips++;
}

static size_t
bucket_of(const struct walk *w, dev_t dev, uint64_t ino)
{
	return (size_t)((ino ^ (uint64_t)dev << 32) * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
	       (w->nbuckets - 1);
}

static int
buckets_grow(struct walk *w)
{
	size_t i, n = w->nbuckets != 0 ? w->nbuckets * 4 : 1024, b;
	long *bigger;

	if (w->nlinked < w->nbuckets)
		return 0;
	if ((bigger = malloc(n * sizeof(*bigger))) == NULL)
		return -1;
	for (i = 0; i < n; i++)
		bigger[i] = -1;
	free(w->buckets);
	w->buckets = bigger;
	w->nbuckets = n;
	for (i = 0; i < w->nlinked; i++) {
		b = bucket_of(w, w->linked[i].dev, w->linked[i].ino);
		w->linked[i].next = w->buckets[b];
		w->buckets[b] = (long)i;
	}
	return 0;
}

/* Return 1 the first time that this file is met.  Without memory it counts again. */
static int
first_name(struct walk *w, dev_t dev, uint64_t ino)
{
	struct linked *x;
	size_t b;
	long i;

	if (buckets_grow(w) == -1)
		return 1;
	b = bucket_of(w, dev, ino);
	for (i = w->buckets[b]; i != -1; i = w->linked[i].next) {
		if (w->linked[i].dev == dev && w->linked[i].ino == ino)
			return 0;
	}
	if (grow(&w->linked, w->nlinked, &w->linked_cap, sizeof(*w->linked)) == -1)
		return 1;
	x = &w->linked[w->nlinked];
	*x = (struct linked){.dev = dev, .ino = ino, .next = w->buckets[b]};
	w->buckets[b] = (long)w->nlinked++;
	return 1;
}

/* Forget the names met since ${mark}; the newest stands first in its bucket. */
static void
unlink_since(struct walk *w, size_t mark)
{
	struct linked *x;

	while (w->nlinked > mark) {
		x = &w->linked[--w->nlinked];
		w->buckets[bucket_of(w, x->dev, x->ino)] = x->next;
	}
}

/* Give the folder at the top a record if it is within the depth that was asked for. */
static long
record_add(struct walk *w, long above, const char *name)
{
	size_t len = strlen(name) + 1;
	struct record *r;

	if (w->nlevels > w->depth)
		return -1;
	while (w->names_len + len > w->names_cap) {
		if (grow(&w->names, w->names_cap, &w->names_cap, 1) == -1)
			return -1;
	}
	if (grow(&w->records, w->nrecords, &w->records_cap, sizeof(*w->records)) == -1)
		return -1;
	r = &w->records[w->nrecords];
	*r = (struct record){.above = above, .name = w->names_len};
	memcpy(w->names + w->names_len, name, len);
	w->names_len += len;
	return (long)w->nrecords++;
}

static struct place
place_of(const struct statx *st)
{
	return (struct place){
	    .dev = makedev(st->stx_dev_major, st->stx_dev_minor),
	    .ino = st->stx_ino,
	    .mount = (st->stx_mask & STATX_MNT_ID) != 0 ? st->stx_mnt_id : 0,
	};
}

static int
same_place(const struct place *a, const struct place *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->mount == b->mount;
}

/* Begin to read the folder ${fd}, which this owns.  The lock is held. */
static int
level_push(struct walk *w, int fd, const char *name, const struct statx *st)
{
	long above = w->nlevels > 0 ? w->levels[w->nlevels - 1].record : -1;
	struct level *l = &w->levels[w->nlevels];
	char **entries = &w->entries[w->nlevels];

	memset(l, 0, sizeof(*l));
	if (*entries == NULL && (*entries = malloc(NAMES_SIZE)) == NULL) {
		close(fd);
		return -1;
	}
	l->fd = fd;
	l->place = place_of(st);
	l->bytes = (int64_t)st->stx_blocks * 512;
	l->folders = 1;
	l->records_mark = w->nrecords;
	l->skips_mark = w->nskips;
	l->linked_mark = w->nlinked;
	l->serial = w->serial++;
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->record = record_add(w, above, name);
	w->nlevels++;
	return 0;
}

/* Take back all that was found in the folder at the top. */
static void
level_undo(struct walk *w, struct level *l)
{
	while (w->nskips > l->skips_mark)
		free(w->skips[--w->nskips].path);
	unlink_since(w, l->linked_mark);
	w->nrecords = l->records_mark;
	l->bytes = l->files = l->folders = 0;
}

/* The folder at the top was read.  Does its name still mean it? */
static void
level_pop(struct walk *w)
{
	struct level *l = &w->levels[w->nlevels - 1], *up = l - 1;
	struct statx st;
	struct place now;
	int changed = 0;

	if (w->nlevels > 1) {
		changed = 1;
		if (statx(up->fd, l->name, LOOK_FLAGS, LOOK, &st) == 0) {
			now = place_of(&st);
			changed = !same_place(&now, &l->place);
		}
	}
	pthread_mutex_lock(&w->lock);
	close(l->fd);
	w->nlevels--;
	if (changed)
		level_undo(w, l);
	if (l->record != -1 && !changed)
		w->records[l->record].bytes = l->bytes;
	if (w->nlevels > 0) {
		up->bytes += l->bytes;
		up->files += l->files;
		up->folders += l->folders;
		if (changed)
			skip_add(w, SKIP_CHANGED);
	} else {
		w->total.bytes = l->bytes;
		w->total.files = l->files;
		w->total.folders = l->folders;
	}
	pthread_mutex_unlock(&w->lock);
}

static void
skip_locked(struct walk *w, int reason)
{
	pthread_mutex_lock(&w->lock);
	skip_add(w, reason);
	pthread_mutex_unlock(&w->lock);
}

/* Go down into ${name}, which was a folder when ${seen} was taken. */
static void
descend(struct walk *w, const char *name, const struct statx *seen)
{
	struct place before = place_of(seen), now;
	void (*hook)(void *, const char *);
	struct statx st;
	int fd, saved, rc;

	if (w->nlevels >= LEVELS_MAX) {
		skip_locked(w, SKIP_DEEP);
		return;
	}
	if ((hook = pause_hook) != NULL)
		hook(pause_ctx, name);
	fd = openat(w->levels[w->nlevels - 1].fd, name,
	    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd == -1) {
		saved = errno;
		if (saved == ELOOP || saved == ENOTDIR || saved == ENOENT)
			saved = SKIP_CHANGED;
		skip_locked(w, saved);
		return;
	}
	if (statx(fd, "", AT_EMPTY_PATH, LOOK, &st) == -1) {
		saved = errno;
		close(fd);
		skip_locked(w, saved);
		return;
	}
	now = place_of(&st);
	if (!same_place(&before, &now)) {
		close(fd);
		skip_locked(w, SKIP_CHANGED);
		return;
	}
	pthread_mutex_lock(&w->lock);
	if ((rc = level_push(w, fd, name, &st)) == -1)
		skip_add(w, errno);
	pthread_mutex_unlock(&w->lock);
}

/* Is this on another file system than the folder that holds it, or mounted from elsewhere on it? */
static int
is_mount(const struct level *l, const struct statx *st)
{
	struct place p = place_of(st);

	if ((st->stx_attributes & st->stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
		return 1;
	if (p.mount != l->place.mount)
		return 1;
	/* An overlay gives files the device of a layer; only folders tell. */
	return S_ISDIR(st->stx_mode) && p.dev != l->place.dev;
}

static void
entry(struct walk *w, const char *name)
{
	struct level *l = &w->levels[w->nlevels - 1];
	struct statx st;

	if (statx(l->fd, name, LOOK_FLAGS, LOOK, &st) == -1) {
		skip_locked(w, errno == ENOENT ? SKIP_CHANGED : errno);
		return;
	}
	if (is_mount(l, &st)) {
		skip_locked(w, SKIP_MOUNT);
		return;
	}
	if (S_ISDIR(st.stx_mode)) {
		descend(w, name, &st);
		return;
	}
	pthread_mutex_lock(&w->lock);
	if (st.stx_nlink <= 1 ||
	    first_name(w, makedev(st.stx_dev_major, st.stx_dev_minor), st.stx_ino)) {
		l->bytes += (int64_t)st.stx_blocks * 512;
		l->files++;
	}
	pthread_mutex_unlock(&w->lock);
}

/*
 * Return the next name in the folder at the top, or NULL with errno, 0 at the end, and where it was
 * removed.  A stream of the library's would cost two system calls and 32 KiB of memory for each
 * folder, most of which hold little.
 */
static const char *
next_name(struct walk *w)
{
	struct level *l = &w->levels[w->nlevels - 1];
	char *entries = w->entries[w->nlevels - 1];
	const struct dirent64 *e;
	ssize_t n;

	if (l->at == l->got) {
		errno = 0;
		if ((n = getdents64(l->fd, entries, NAMES_SIZE)) <= 0) {
			errno = errno == ENOENT ? 0 : errno;
			return NULL;
		}
		l->got = (size_t)n;
		l->at = 0;
	}
	e = (const void *)(entries + l->at);
	l->at += e->d_reclen;
	return e->d_name;
}

static void
read_folders(struct walk *w)
{
	const char *name;

	while (w->nlevels > 0 && !atomic_load(&w->stop)) {
		if ((name = next_name(w)) == NULL) {
			if (errno != 0)
				skip_locked(w, errno);
			level_pop(w);
			continue;
		}
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
			entry(w, name);
	}
}

/* File systems that are the kernel's own words. */
static int
is_kernel_fs(int64_t magic)
{
	static const int64_t magics[] = {
	    PROC_SUPER_MAGIC,
	    SYSFS_MAGIC,
	    DEVPTS_SUPER_MAGIC,
	    CGROUP_SUPER_MAGIC,
	    CGROUP2_SUPER_MAGIC,
	    DEBUGFS_MAGIC,
	    TRACEFS_MAGIC,
	    SECURITYFS_MAGIC,
	};
	size_t i;

	for (i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		if (magic == magics[i])
			return 1;
	}
	return 0;
}

/* Is ${path}, of which ${fd} is a handle, a place that is never measured? */
static int
is_refused(int fd, const char *path, dev_t dev)
{
	static const char *const roots[] = {"/proc", "/sys", "/dev"};
	struct stat st, top;
	struct statfs fs;
	size_t i, len;

	for (i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		len = strlen(roots[i]);
		if (strncmp(path, roots[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
			return 1;
		/* The same file system under another name, unless it is that of / as well. */
		if (stat(roots[i], &st) == 0 && st.st_dev == dev && stat("/", &top) == 0 &&
		    top.st_dev != dev)
			return 1;
	}
	return fstatfs(fd, &fs) == -1 || is_kernel_fs((int64_t)fs.f_type);
}

/* Open the start, following links to it, and look where that leads.  Return 0 or the reason. */
static int
open_start(struct walk *w)
{
	char self[64], resolved[sizeof(w->total.resolved)];
	struct statx st;
	ssize_t n;
	int fd, rc;

	if ((fd = open(w->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) == -1)
		return errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (statx(fd, "", AT_EMPTY_PATH, LOOK, &st) == -1 ||
	    (n = readlink(self, resolved, sizeof(resolved) - 1)) == -1) {
		rc = errno;
		close(fd);
		return rc;
	}
	resolved[n] = '\0';
	if (is_refused(fd, resolved, makedev(st.stx_dev_major, st.stx_dev_minor))) {
		close(fd);
		return WALK_REFUSED;
	}
	pthread_mutex_lock(&w->lock);
	memcpy(w->total.resolved, resolved, sizeof(resolved));
	w->total.opened = 1;
	rc = level_push(w, fd, w->path, &st) == -1 ? errno : 0;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* The start itself may have been swapped meanwhile. */
static void
check_start(struct walk *w, const struct place *began)
{
	struct statx st;
	struct place now;

	if (statx(AT_FDCWD, w->path, 0, LOOK, &st) == 0) {
		now = place_of(&st);
		if (same_place(&now, began))
			return;
	}
	pthread_mutex_lock(&w->lock);
	while (w->nskips > 0)
		free(w->skips[--w->nskips].path);
	w->nrecords = 0;
	w->total.bytes = w->total.files = w->total.folders = 0;
	w->total.error = WALK_CHANGED;
	pthread_mutex_unlock(&w->lock);
}

/* Free everything; the thread is done with it. */
static void
release(struct walk *w)
{
	int i;

	while (w->nlevels > 0)
		close(w->levels[--w->nlevels].fd);
	for (i = 0; i < LEVELS_MAX; i++)
		free(w->entries[i]);
	while (w->nskips > 0)
		free(w->skips[--w->nskips].path);
	free(w->levels);
	free(w->records);
	free(w->names);
	free(w->skips);
	free(w->linked);
	free(w->buckets);
	pthread_cond_destroy(&w->ended);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void *
walk_thread(void *arg)
{
	struct walk *w = arg;
	struct place began;
	int rc, abandoned;

	rc = open_start(w);
	if (rc == 0) {
		began = w->levels[0].place;
		read_folders(w);
		if (w->nlevels == 0)
			check_start(w, &began);
	}
	pthread_mutex_lock(&w->lock);
	if (rc != 0)
		w->total.error = rc;
	w->finished = 1;
	abandoned = w->abandoned;
	pthread_cond_signal(&w->ended);
	pthread_mutex_unlock(&w->lock);
	if (abandoned)
		release(w);
	return NULL;
}

struct walk *
walk_start(const char *path, int depth)
{
	pthread_condattr_t attr;
	struct walk *w;

	if ((w = calloc(1, sizeof(*w))) == NULL)
		return NULL;
	if ((w->levels = calloc(LEVELS_MAX, sizeof(*w->levels))) == NULL) {
		free(w);
		return NULL;
	}
	snprintf(w->path, sizeof(w->path), "%s", path);
	w->depth = depth;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->ended, &attr);
	pthread_condattr_destroy(&attr);
	if (pthread_create(&w->thread, NULL, walk_thread, w) != 0) {
		free(w->levels);
		free(w);
		return NULL;
	}
	return w;
}

/* Wait until the walk ended or the clock shows ${until}.  The lock is held. */
static int
wait_until(struct walk *w, int64_t until)
{
	struct timespec t = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};

	while (!w->finished) {
		if (pthread_cond_timedwait(&w->ended, &w->lock, &t) == ETIMEDOUT)
			break;
	}
	return w->finished;
}

enum walk_end
walk_wait(struct walk *w, int64_t budget_ms)
{
	int64_t now = tool_now_ms(), spare = budget_ms / 10 < 250 ? budget_ms / 10 : 250;
	enum walk_end end = WALK_DONE;

	pthread_mutex_lock(&w->lock);
	if (!wait_until(w, now + budget_ms - spare)) {
		atomic_store(&w->stop, 1);
		end = wait_until(w, now + budget_ms) ? WALK_TIME : WALK_STUCK;
	}
	pthread_mutex_unlock(&w->lock);
	return end;
}

static void
record_path(const struct walk *w, const struct record *r, char *path, size_t len)
{
	size_t at = len - 1, n;
	const char *name;

	path[at] = '\0';
	for (;;) {
		name = w->names + r->name;
		n = strlen(name);
		if (at != len - 1 && name[n - 1] != '/')
			path[--at] = '/';
		if (n + 1 > at)
			break;
		at -= n;
		memcpy(path + at, name, n);
		if (r->above == -1)
			break;
		r = &w->records[r->above];
	}
	memmove(path, path + at, len - at);
}

/* What is still open counts for itself and for everything above it. */
static void
fold_open(struct walk *w)
{
	struct level *l;
	int n;

	for (n = w->nlevels - 1; n >= 0; n--) {
		l = &w->levels[n];
		if (n > 0) {
			l[-1].bytes += l->bytes;
			l[-1].files += l->files;
			l[-1].folders += l->folders;
		} else {
			w->total.bytes = l->bytes;
			w->total.files = l->files;
			w->total.folders = l->folders;
		}
		if (l->record != -1)
			w->records[l->record].bytes = l->bytes;
	}
}

/* Hand out the ${max} largest folders without sorting what may be a million of them. */
static void
report_largest(struct walk *w, size_t max, const struct walk_sink *sink)
{
	const struct record **top, *r;
	char path[sizeof(w->path)];
	size_t i, n = 0, at;

	if ((top = calloc(max + 1, sizeof(*top))) == NULL)
		return;
	/* The first is the start, which is the total. */
	for (i = 1; i < w->nrecords; i++) {
		r = &w->records[i];
		if (n == max && (max == 0 || r->bytes <= top[n - 1]->bytes))
			continue;
		for (at = n; at > 0 && top[at - 1]->bytes < r->bytes; at--)
			top[at] = top[at - 1];
		top[at] = r;
		n += n < max;
	}
	for (i = 0; i < n; i++) {
		record_path(w, top[i], path, sizeof(path));
		sink->folder(sink->ctx, path, top[i]->bytes);
	}
	free(top);
}

void
walk_report(struct walk *w, size_t max, struct walk_total *total, const struct walk_sink *sink)
{
	size_t i;

	pthread_mutex_lock(&w->lock);
	fold_open(w);
	report_largest(w, max, sink);
	for (i = 0; i < w->nskips; i++)
		sink->skipped(sink->ctx, w->skips[i].path, reason_text(w->skips[i].reason),
		    w->skips[i].count);
	*total = w->total;
	pthread_mutex_unlock(&w->lock);
}

void
walk_free(struct walk *w)
{
	int finished;

	pthread_mutex_lock(&w->lock);
	if ((finished = w->finished) == 0) {
		w->abandoned = 1;
		pthread_detach(w->thread);
	}
	pthread_mutex_unlock(&w->lock);
	if (!finished)
		return;
	pthread_join(w->thread, NULL);
	release(w);
}
