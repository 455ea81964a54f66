/* program_lent.c: files in memory, and that nothing of them is left. */
#include <sys/stat.h>
#include <sys/statfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/actor/lock.h"
#include "engine/clock.h"
#include "engine/worker/clear.h"
#include "engine/worker/program_lent.h"
#include "engine/write.h"

#define CODE   "op.place"
#define PREFIX "bastion-op-"
#define NAME   "%s%" PRId64 "-%" PRId64 "-%016" PRIx64 /* of which process; nobody guesses it */

#define DEPTH 8 /* of folders in it, at most */

/* Remove the folder ${name} of ${root}, unless a process holds it. */
static void
sweep(int root, const char *name)
{
	int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd == -1)
		return;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && lock_unused(fd) == 0)
		clear_entry(root, name, DEPTH);
	close(fd);
}

void
lent_sweep(void)
{
	const struct dirent *e;
	DIR *list;

	if ((list = opendir(LENT_ROOT)) == NULL)
		return;
	while ((e = readdir(list)) != NULL)
		if (strncmp(e->d_name, PREFIX, sizeof(PREFIX) - 1) == 0)
			sweep(dirfd(list), e->d_name);
	closedir(list);
}

/* Write a new file.  Return 0, or -1 with errno and none left. */
static int
put(int dir, const char *name, const char *text, size_t len, mode_t mode)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc;

	if (fd == -1)
		return -1;
	rc = write_all(fd, text, len) == 0 && fchmod(fd, mode) == 0 ? 0 : -1;
	close(fd);
	if (rc == -1)
		unlinkat(dir, name, 0);
	return rc;
}

const struct lent_lookup lent_lookups[LENT_NAMES] = {
    {"/etc/hosts", "hosts", "127.0.0.1 localhost sandbox\n"},
    {"/etc/resolv.conf", "resolv.conf", "nameserver 127.0.0.1\n"},
};

bool
lent_hides(const struct lent_lookup *lookup)
{
	struct stat st;

	return lstat(lookup->target, &st) == 0 && S_ISREG(st.st_mode);
}

static int
make(struct lent *p, int root)
{
	struct identity self;
	struct statfs fs;
	uint64_t word;
	size_t i;

	random_fill(&word, sizeof(word));
	if (fstatfs(root, &fs) == -1 || identity_of(getpid(), &self) != 0)
		return -1;
	if (fs.f_type != TMPFS_MAGIC) {
		errno = EXDEV;
		return -1;
	}
	snprintf(
	    p->path, sizeof(p->path), LENT_ROOT "/" NAME, PREFIX, self.pid, self.start_ticks, word);
	if (mkdirat(root, p->path + sizeof(LENT_ROOT), 0700) == -1 ||
	    (p->fd = openat(root, p->path + sizeof(LENT_ROOT),
		 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1 ||
	    lock_use(p->fd) != 0)
		return -1;
	for (i = 0; i < LENT_NAMES; i++)
		if (put(p->fd, lent_lookups[i].name, lent_lookups[i].text,
			strlen(lent_lookups[i].text), 0444) != 0)
			return -1;
	return 0;
}

size_t
lent_names(const struct lent *p, struct lent_name names[LENT_NAMES])
{
	size_t i, n = 0;

	for (i = 0; i < LENT_NAMES; i++) {
		if (!lent_hides(&lent_lookups[i]))
			continue;
		snprintf(names[n].source, sizeof(names[n].source), "%s/%s", p->path,
		    lent_lookups[i].name);
		names[n++].target = lent_lookups[i].target;
	}
	return n;
}

int
lent_open(struct lent *p, struct refusal *r)
{
	int root, rc;

	if (p->fd != -1)
		return 0;
	if ((root = open(LENT_ROOT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1)
		return refusal_errno(r, CODE, LENT_ROOT);
	rc = make(p, root);
	if (rc == -1)
		refusal_set(r, CODE, "there is no place in memory at %s: %s", LENT_ROOT,
		    errno == EXDEV ? "it is no tmpfs" : strerror(errno));
	close(root);
	if (rc == -1)
		lent_close(p);
	return rc;
}

int
lent_put(struct lent *p, int64_t run, const char *name, const char *secret, size_t len,
    char path[LENT_MAX], struct refusal *r)
{
	char folder[24];
	int fd = -1;

	snprintf(folder, sizeof(folder), "%" PRId64, run);
	if ((size_t)snprintf(path, LENT_MAX, "%.100s/%s", p->path, folder) < LENT_MAX &&
	    mkdirat(p->fd, folder, 0700) == 0 &&
	    (fd = openat(p->fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) != -1 &&
	    put(fd, name, secret, len, 0400) == 0) {
		close(fd);
		return 0;
	}
	refusal_errno(r, CODE, "the credential of the run could not be stored");
	if (fd != -1)
		close(fd);
	lent_take_back(p, run);
	return -1;
}

void
lent_take_back(const struct lent *p, int64_t run)
{
	char folder[24];

	if (p->fd == -1)
		return;
	snprintf(folder, sizeof(folder), "%" PRId64, run);
	clear_entry(p->fd, folder, 0);
}

void
lent_close(struct lent *p)
{
	int root;

	if (p->fd == -1)
		return;
	close(p->fd);
	p->fd = -1;
	if ((root = open(LENT_ROOT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1)
		return;
	clear_entry(root, p->path + sizeof(LENT_ROOT), DEPTH);
	close(root);
}
