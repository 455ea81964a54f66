/* sandbox_landlock.c: writing is bound to the plan's folders a second time, by another part of the
 * kernel. */
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <unistd.h>

#include "engine/worker/sandbox_job.h"

/* What Debian 12's headers do not have yet. */
#define ACCESS_REFER     (1ULL << 13) /* version 2 */
#define ACCESS_TRUNCATE  (1ULL << 14) /* version 3 */
#define ACCESS_IOCTL_DEV (1ULL << 15) /* version 5 */
#define SCOPE_ABSTRACT   (1ULL << 0)  /* version 6 */
#define SCOPE_SIGNAL     (1ULL << 1)

#define WRITES                                                              \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |    \
	    LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | \
	    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |     \
	    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |   \
	    LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* What can be done to a file that is no folder. */
#define FILE_WRITES (LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE | ACCESS_IOCTL_DEV)

/* As the kernel has it since version 6; it takes a longer one than it knows if the rest is 0. */
struct ruleset {
	uint64_t files;
	uint64_t net;
	uint64_t scoped;
};

static int
version(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static void
rules_of(int abi, struct ruleset *r)
{
	r->files = WRITES;
	r->net = r->scoped = 0;
	if (abi >= 2)
		r->files |= ACCESS_REFER;
	if (abi >= 3)
		r->files |= ACCESS_TRUNCATE;
	if (abi >= 5)
		r->files |= ACCESS_IOCTL_DEV;
	if (abi >= 6)
		r->scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
}

static int
allow(int ruleset, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr beneath = {.allowed_access = access};
	int rc;

	if ((beneath.parent_fd = open(path, O_PATH | O_CLOEXEC)) == -1)
		return -1;
	rc = (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
	close(beneath.parent_fd);
	return rc;
}

static int
allow_all(int ruleset, const struct sandbox_job *job, uint64_t access)
{
	const struct sandbox_step *s;
	size_t i;

	if (allow(ruleset, "/tmp", access) == -1 || allow(ruleset, "/dev", access) == -1)
		return -1;
	for (i = 0; i < job->step_count; i++) {
		s = &job->steps[i];
		if ((s->kind == STEP_WRITE || s->kind == STEP_EFFECT) &&
		    allow(ruleset, s->target, s->folder ? access : access & FILE_WRITES) == -1)
			return -1;
	}
	return 0;
}

int
sandbox_landlock(const struct sandbox_job *job)
{
	struct ruleset r;
	int abi = version(), fd, rc;

	/* Not built in, or not switched on at boot. */
	if (abi < 1)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -1;
	rules_of(abi, &r);
	/* The first version cannot allow a rename between folders: it would break honest programs.
	 */
	if (abi < 2)
		return 0;
	fd = (int)syscall(SYS_landlock_create_ruleset, &r, sizeof(r), 0);
	if (fd == -1)
		return -1;
	rc = allow_all(fd, job, r.files);
	if (rc == 0)
		rc = (int)syscall(SYS_landlock_restrict_self, fd, 0);
	close(fd);
	return rc == 0 ? abi : -1;
}
