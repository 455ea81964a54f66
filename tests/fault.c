/* fault.c: a VFS over the default one that counts, fails, and loses what was not synced. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fault.h"

#define SECTOR 512
#define DISKS  16

/* A sector as it was when the file was synced last. */
struct sector {
	sqlite3_int64 at;
	unsigned char was[SECTOR];
};

/* What a path holds that is not synced yet; it outlives whoever has the file open. */
struct disk {
	char path[PATH_MAX];
	sqlite3_int64 synced; /* its size then */
	struct sector *sectors;
	size_t n, room;
};

struct file {
	sqlite3_file base;
	struct disk *disk; /* NULL: a file that no power loss touches */
	sqlite3_file *real;
};

static struct {
	sqlite3_vfs vfs, *real;
	sqlite3_io_methods io;
	struct fault_plan plan;
	int count, hits;
	struct disk disks[DISKS];
} fault;

/* Count the operation ${op}.  Return SQLITE_OK, or ${rc} where it fails. */
static int
fails(enum fault_op op, int rc)
{
	if ((fault.plan.ops & op) == 0)
		return SQLITE_OK;
	fault.count++;
	if (fault.plan.nth == 0 || fault.count < fault.plan.nth ||
	    (fault.count > fault.plan.nth && !fault.plan.sticky))
		return SQLITE_OK;
	if (fault.plan.power)
		fault_power_off();
	fault.hits++;
	return fault.plan.full ? SQLITE_FULL : rc;
}

static struct file *
of(sqlite3_file *f)
{
	return (struct file *)f;
}

static sqlite3_int64
size_of(sqlite3_file *f)
{
	sqlite3_int64 size = 0;

	of(f)->real->pMethods->xFileSize(of(f)->real, &size);
	return size;
}

static struct disk *
disk_find(const char *path)
{
	struct disk *free_one = NULL;
	size_t i;

	for (i = 0; i < DISKS; i++) {
		if (strcmp(fault.disks[i].path, path) == 0)
			return &fault.disks[i];
		if (fault.disks[i].path[0] == '\0')
			free_one = &fault.disks[i];
	}
	if (free_one == NULL)
		abort();
	return free_one;
}

static void
disk_forget(struct disk *d)
{
	free(d->sectors);
	memset(d, 0, sizeof(*d));
}

/* Keep the sectors from ${from} up to ${to} as they are, where they are not kept already. */
static void
disk_keep(sqlite3_file *f, sqlite3_int64 from, sqlite3_int64 to)
{
	struct disk *d = of(f)->disk;
	sqlite3_int64 at;
	size_t i;

	if (d == NULL || !fault.plan.power)
		return;
	for (at = from / SECTOR * SECTOR; at < to; at += SECTOR) {
		for (i = 0; i < d->n && d->sectors[i].at != at; i++)
			;
		if (i < d->n)
			continue;
		if (d->n == d->room) {
			d->room = d->room == 0 ? 64 : 2 * d->room;
			d->sectors = realloc(d->sectors, d->room * sizeof(d->sectors[0]));
			if (d->sectors == NULL)
				abort();
		}
		d->sectors[d->n].at = at;
		of(f)->real->pMethods->xRead(of(f)->real, d->sectors[d->n++].was, SECTOR, at);
	}
}

/* A generator of our own: what one seed loses it loses again. */
static unsigned
draw(void)
{
	static unsigned x;

	if (x == 0)
		x = fault.plan.seed * 2654435761u | 1;
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return x >> 8;
}

static int
lost(void)
{
	return fault.plan.seed == 0 ? 1 : fault.plan.seed == 1 ? 0 : (int)(draw() & 1);
}

/* The disk as it may be found: each unsynced sector old or new, and the size old or new. */
static void
disk_lose(struct disk *d)
{
	struct stat st;
	size_t i;
	int fd;

	if (d->path[0] == '\0' || (fd = open(d->path, O_RDWR | O_CLOEXEC)) == -1)
		return;
	if (fstat(fd, &st) != 0)
		abort();
	for (i = 0; i < d->n; i++)
		if (lost() && pwrite(fd, d->sectors[i].was, SECTOR, d->sectors[i].at) != SECTOR)
			abort();
	if (ftruncate(fd, lost() ? d->synced : st.st_size) != 0)
		abort();
	close(fd);
}

void
fault_power_off(void)
{
	size_t i;

	for (i = 0; i < DISKS; i++)
		disk_lose(&fault.disks[i]);
	_exit(FAULT_EXIT);
}

static int
file_close(sqlite3_file *f)
{
	int rc = of(f)->real->pMethods->xClose(of(f)->real);

	free(of(f)->real);
	return rc;
}

static int
file_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 at)
{
	int rc = fails(FAULT_READ, SQLITE_IOERR_READ);

	/* A full disk can still be read. */
	return rc == SQLITE_OK || rc == SQLITE_FULL
		   ? of(f)->real->pMethods->xRead(of(f)->real, buf, n, at)
		   : rc;
}

static int
file_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 at)
{
	int rc = fails(FAULT_WRITE, SQLITE_IOERR_WRITE);

	if (rc != SQLITE_OK)
		return rc;
	disk_keep(f, at, at + n);
	return of(f)->real->pMethods->xWrite(of(f)->real, buf, n, at);
}

static int
file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	int rc = fails(FAULT_TRUNCATE, SQLITE_IOERR_TRUNCATE);

	if (rc != SQLITE_OK)
		return rc;
	disk_keep(f, size, size_of(f));
	return of(f)->real->pMethods->xTruncate(of(f)->real, size);
}

static int
file_sync(sqlite3_file *f, int flags)
{
	int rc = fails(FAULT_SYNC, SQLITE_IOERR_FSYNC);

	(void)flags;
	if (rc != SQLITE_OK || of(f)->disk == NULL)
		return rc;
	of(f)->disk->n = 0;
	of(f)->disk->synced = size_of(f);
	return SQLITE_OK;
}

static int
file_size(sqlite3_file *f, sqlite3_int64 *size)
{
	return of(f)->real->pMethods->xFileSize(of(f)->real, size);
}

static int
file_lock(sqlite3_file *f, int level)
{
	int rc = fails(FAULT_LOCK, SQLITE_IOERR_LOCK);

	return rc != SQLITE_OK ? rc : of(f)->real->pMethods->xLock(of(f)->real, level);
}

static int
file_unlock(sqlite3_file *f, int level)
{
	return of(f)->real->pMethods->xUnlock(of(f)->real, level);
}

static int
file_reserved(sqlite3_file *f, int *held)
{
	return of(f)->real->pMethods->xCheckReservedLock(of(f)->real, held);
}

static int
file_control(sqlite3_file *f, int op, void *arg)
{
	return of(f)->real->pMethods->xFileControl(of(f)->real, op, arg);
}

static int
file_sector(sqlite3_file *f)
{
	return of(f)->real->pMethods->xSectorSize(of(f)->real);
}

static int
file_traits(sqlite3_file *f)
{
	return of(f)->real->pMethods->xDeviceCharacteristics(of(f)->real);
}

static int
file_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
	int rc = fails(FAULT_SHM, SQLITE_IOERR_SHMMAP);

	if (rc == SQLITE_OK)
		return of(f)->real->pMethods->xShmMap(of(f)->real, page, size, extend, out);
	*out = NULL;
	return rc;
}

static int
file_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
	int rc;

	/* Letting go always works, as it does in the kernel. */
	rc = (flags & SQLITE_SHM_UNLOCK) != 0 ? SQLITE_OK : fails(FAULT_SHM, SQLITE_IOERR_SHMLOCK);
	return rc != SQLITE_OK ? rc
			       : of(f)->real->pMethods->xShmLock(of(f)->real, offset, n, flags);
}

static void
file_shm_barrier(sqlite3_file *f)
{
	of(f)->real->pMethods->xShmBarrier(of(f)->real);
}

static int
file_shm_unmap(sqlite3_file *f, int remove_it)
{
	return of(f)->real->pMethods->xShmUnmap(of(f)->real, remove_it);
}

static int
vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *out)
{
	int rc = fails(FAULT_OPEN, SQLITE_CANTOPEN);
	struct disk *d;

	(void)vfs;
	f->pMethods = NULL;
	if (rc != SQLITE_OK)
		return rc;
	of(f)->disk = NULL;
	if ((of(f)->real = calloc(1, (size_t)fault.real->szOsFile)) == NULL)
		return SQLITE_NOMEM;
	if ((rc = fault.real->xOpen(fault.real, path, of(f)->real, flags, out)) != SQLITE_OK) {
		if (of(f)->real->pMethods != NULL)
			of(f)->real->pMethods->xClose(of(f)->real);
		free(of(f)->real);
		return rc;
	}
	f->pMethods = &fault.io;
	if (path == NULL || (flags & SQLITE_OPEN_DELETEONCLOSE) != 0)
		return SQLITE_OK;
	of(f)->disk = d = disk_find(path);
	if (d->path[0] == '\0') {
		snprintf(d->path, sizeof(d->path), "%s", path);
		d->synced = size_of(f);
	}
	return SQLITE_OK;
}

static int
vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_dir)
{
	int rc = fails(FAULT_DELETE, SQLITE_IOERR_DELETE);

	(void)vfs;
	if (rc != SQLITE_OK)
		return rc;
	if ((rc = fault.real->xDelete(fault.real, path, sync_dir)) == SQLITE_OK)
		disk_forget(disk_find(path));
	return rc;
}

/* Where ${name} of the directory ${dir} is, as SQLite would say it. */
static void
path_of(int dir, const char *name, char out[PATH_MAX])
{
	char link[64], at[PATH_MAX];
	ssize_t n = -1;

	if (name[0] != '/' && dir != AT_FDCWD) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
		n = readlink(link, at, sizeof(at) - 1);
	}
	if (n > 0)
		snprintf(out, PATH_MAX, "%.*s/%s", (int)n, at, name);
	else
		snprintf(out, PATH_MAX, "%s", name);
}

static bool
name_fails(void)
{
	int rc = fault.real == NULL ? SQLITE_OK : fails(FAULT_NAME, SQLITE_IOERR);

	if (rc == SQLITE_OK)
		return false;
	errno = rc == SQLITE_FULL ? ENOSPC : EIO;
	return true;
}

/* What is not synced yet of a file goes with it to its new name. */
static void
disk_rename(int from, const char *a, int to, const char *b)
{
	char path[PATH_MAX];
	struct disk *d;

	path_of(to, b, path);
	disk_forget(disk_find(path));
	path_of(from, a, path);
	d = disk_find(path);
	if (d->path[0] != '\0')
		path_of(to, b, d->path);
}

/* These stand before the ones of the C library, for all that is linked into a test. */
int
renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
	if (name_fails())
		return -1;
	if (syscall(SYS_renameat2, from, a, to, b, flags) != 0)
		return -1;
	if (fault.real != NULL)
		disk_rename(from, a, to, b);
	return 0;
}

int
renameat(int from, const char *a, int to, const char *b)
{
	return renameat2(from, a, to, b, 0);
}

int
linkat(int from, const char *a, int to, const char *b, int flags)
{
	return name_fails() ? -1 : (int)syscall(SYS_linkat, from, a, to, b, flags);
}

int
unlinkat(int dir, const char *name, int flags)
{
	char path[PATH_MAX];

	if (name_fails() || syscall(SYS_unlinkat, dir, name, flags) != 0)
		return -1;
	if (fault.real != NULL) {
		path_of(dir, name, path);
		disk_forget(disk_find(path));
	}
	return 0;
}

void
fault_install(const struct fault_plan *plan)
{
	size_t i;

	fault.plan = *plan;
	fault.count = fault.hits = 0;
	for (i = 0; i < DISKS; i++)
		disk_forget(&fault.disks[i]);
	if (fault.real != NULL)
		return;
	fault.real = sqlite3_vfs_find(NULL);
	fault.vfs = *fault.real;
	fault.vfs.pNext = NULL;
	fault.vfs.zName = "fault";
	fault.vfs.szOsFile = (int)sizeof(struct file);
	fault.vfs.xOpen = vfs_open;
	fault.vfs.xDelete = vfs_delete;
	fault.io = (sqlite3_io_methods){
	    .iVersion = 2,
	    .xClose = file_close,
	    .xRead = file_read,
	    .xWrite = file_write,
	    .xTruncate = file_truncate,
	    .xSync = file_sync,
	    .xFileSize = file_size,
	    .xLock = file_lock,
	    .xUnlock = file_unlock,
	    .xCheckReservedLock = file_reserved,
	    .xFileControl = file_control,
	    .xSectorSize = file_sector,
	    .xDeviceCharacteristics = file_traits,
	    .xShmMap = file_shm_map,
	    .xShmLock = file_shm_lock,
	    .xShmBarrier = file_shm_barrier,
	    .xShmUnmap = file_shm_unmap,
	};
	if (sqlite3_vfs_register(&fault.vfs, 1) != SQLITE_OK)
		abort();
}

int
fault_count(void)
{
	return fault.count;
}

int
fault_hits(void)
{
	return fault.hits;
}
