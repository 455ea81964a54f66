/* act_file.c: put a file, move a file: whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/worker/act.h"
#include "engine/worker/answer.h"
#include "engine/worker/lines.h"

#define OLD_MAX 16777216 /* bytes of a file that is compared */

/* Lines from the first that differs to the last, before and after: never their text, which putting
 * a file gives nobody the right to read. */
static const char PUT[] =
    "SELECT json_object('path', ?1, 'dry', json(iif(?2, 'true', 'false')),"
    "  'changed', json(iif(?3, 'true', 'false')), 'exists', json(iif(?4, 'true', 'false')),"
    "  'bytes_before', iif(?4, ?5, NULL), 'bytes_after', ?6, 'from_line', iif(?3, ?7, NULL),"
    "  'lines_removed', ?8, 'lines_added', ?9, 'mode', printf('%04o', ?10))";

static const char MOVED[] =
    "SELECT json_object('from', ?1, 'to', ?2, 'dry', json(iif(?3, 'true', 'false')), 'kind', ?4,"
    "  'bytes', ?5)";

/* A file before and after. */
struct change {
	char *old;
	size_t old_len, new_len;
	const char *new;
	bool exists;
	struct stat st; /* of the old one */
	int64_t line, removed, added;
};

/* The words as they came; of the first ${paths} each is a path. */
static int
check_words(const char *const *args, int paths, struct observe_args *canon, struct refusal *refusal)
{
	for (canon->n = 0; canon->n < 2; canon->n++) {
		if (canon->n < paths && act_path_check(args[canon->n], refusal) != 0)
			return -1;
		snprintf(canon->v[canon->n], sizeof(canon->v[0]), "%s", args[canon->n]);
	}
	return 0;
}

static int
check_put(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	(void)nargs;
	return check_words(args, 1, canon, refusal);
}

/* Read what is there now.  Return 0, or -1 with act.file or act.missing. */
static int
read_old(int dir, const char *name, struct change *c, struct refusal *refusal)
{
	ssize_t n;
	int fd;

	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd == -1 && errno == ENOENT)
		return 0;
	if (fd == -1)
		return refusal_set(refusal, errno == ELOOP ? "act.file" : "act.missing",
		    errno == ELOOP ? "there is a link of this name"
				   : "what is there cannot be read");
	if (fstat(fd, &c->st) == -1 || !S_ISREG(c->st.st_mode) || c->st.st_nlink > 1 ||
	    c->st.st_size > OLD_MAX) {
		close(fd);
		return refusal_set(refusal, "act.file",
		    "what is there is no plain file of one name and at most %d bytes", OLD_MAX);
	}
	c->exists = true;
	if ((c->old = malloc((size_t)c->st.st_size + 1)) == NULL) {
		close(fd);
		return refusal_set(refusal, "act.failed", "out of memory");
	}
	while (c->old_len < (size_t)c->st.st_size &&
	       (n = read(fd, c->old + c->old_len, (size_t)c->st.st_size - c->old_len)) > 0)
		c->old_len += (size_t)n;
	close(fd);
	return 0;
}

static bool
begins_line(const char *text, size_t at, size_t from)
{
	return at == from || text[at - 1] == '\n';
}

/* Leave out the lines that are the same at both ends. */
static void
compare(struct change *c)
{
	size_t from = 0, at, a = c->old_len, b = c->new_len;

	c->line = 1;
	for (at = 0; at < a && at < b && c->old[at] == c->new[at]; at++)
		if (c->old[at] == '\n') {
			from = at + 1;
			c->line++;
		}
	if (at == a && at == b)
		return;
	while (a > from && b > from && c->old[a - 1] == c->new[b - 1])
		a--, b--;
	/* On to where lines begin in both: what follows is the same. */
	while (a < c->old_len && !(begins_line(c->old, a, from) && begins_line(c->new, b, from)))
		a++, b++;
	c->removed = lines_count(c->old + from, a - from);
	c->added = lines_count(c->new + from, b - from);
}

/* A new file beside the old one, with its rights, whole and on the disk.  Return 0 or -1 with
 * errno. */
static int
write_new(int dir, const char *temp, const struct change *c)
{
	size_t len = 0;
	ssize_t n;
	int fd, saved;

	if ((fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) ==
	    -1)
		return -1;
	while (len < c->new_len && (n = write(fd, c->new + len, c->new_len - len)) > 0)
		len += (size_t)n;
	if (len == c->new_len && (!c->exists || fchown(fd, c->st.st_uid, c->st.st_gid) == 0) &&
	    fchmod(fd, c->exists ? c->st.st_mode & 07777 : 0644) == 0 && fsync(fd) == 0)
		return close(fd);
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Is what lies there still what was compared? */
static bool
unchanged(int dir, const char *name, const struct change *c)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT && !c->exists;
	return c->exists && st.st_dev == c->st.st_dev && st.st_ino == c->st.st_ino &&
	       st.st_size == c->st.st_size && st.st_mtim.tv_sec == c->st.st_mtim.tv_sec &&
	       st.st_mtim.tv_nsec == c->st.st_mtim.tv_nsec;
}

static int
put_file(int dir, const char *name, const struct change *c, struct refusal *refusal)
{
	char temp[32];

	snprintf(
	    temp, sizeof(temp), ".bastion-%08x%08x", randombytes_random(), randombytes_random());
	if (write_new(dir, temp, c) != 0) {
		refusal_errno(refusal, "act.failed", "the new file cannot be written");
		unlinkat(dir, temp, 0);
		return -1;
	}
	if (!unchanged(dir, name, c)) {
		unlinkat(dir, temp, 0);
		return refusal_set(
		    refusal, "act.changed", "somebody else changed the file meanwhile");
	}
	if ((c->exists ? renameat(dir, temp, dir, name)
		       : renameat2(dir, temp, dir, name, RENAME_NOREPLACE)) != 0) {
		refusal_errno(refusal, "act.failed", "the new file cannot take its place");
		unlinkat(dir, temp, 0);
		return -1;
	}
	fsync(dir);
	return 0;
}

static int
put_at(int dir, const char *name, const struct observe_args *args, struct change *c,
    struct answer *out, struct refusal *refusal)
{
	bool changed;

	if (read_old(dir, name, c, refusal) != 0)
		return -1;
	changed = !c->exists || c->old_len != c->new_len || memcmp(c->old, c->new, c->new_len) != 0;
	if (changed)
		compare(c);
	if (!args->dry && changed && put_file(dir, name, c, refusal) != 0)
		return -1;
	return answer_result(out, PUT, "tiiiiiiiii", args->v[0], (int64_t)args->dry,
	    (int64_t)changed, (int64_t)c->exists, (int64_t)c->old_len, (int64_t)c->new_len, c->line,
	    c->removed, c->added, (int64_t)(c->exists ? c->st.st_mode & 07777 : 0644));
}

static int
run_put(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct change c = {.new = args->v[1], .new_len = strlen(args->v[1])};
	struct refusal refusal = {.code = "act.failed", .why = "the answer could not be made"};
	const char *name;
	int dir, rc;

	(void)limits;
	if ((dir = act_parent(env, args->v[0], &name, &refusal)) == -1)
		return answer_refused(out, &refusal, OBSERVE_WRONG);
	rc = put_at(dir, name, args, &c, out, &refusal);
	close(dir);
	free(c.old);
	return rc == 0 ? OBSERVE_DONE : answer_refused(out, &refusal, OBSERVE_FAILED);
}

/*
 * Moving.
 */

static int
check_move(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	(void)nargs;
	return check_words(args, 2, canon, refusal);
}

/* What is there to move, and is there room for it? */
static int
move_look(int from, const char *a, int to, const char *b, struct stat *st, struct refusal *refusal)
{
	struct stat other, there;

	if (fstatat(from, a, st, AT_SYMLINK_NOFOLLOW) == -1)
		return refusal_set(refusal, "act.missing", "there is nothing to move");
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return refusal_set(refusal, "act.file", "only plain files and folders are moved");
	if (fstatat(to, b, &other, AT_SYMLINK_NOFOLLOW) == 0)
		return refusal_set(
		    refusal, "act.exists", "there is something of that name already");
	if (fstat(to, &there) == -1 || there.st_dev != st->st_dev)
		return refusal_set(
		    refusal, "act.file", "a file is moved within its file system only");
	return 0;
}

static int
move_at(const struct observe_env *env, int from, const char *a, int to, const char *b,
    const struct observe_args *args, struct answer *out, struct refusal *refusal)
{
	struct stat st;

	if (move_look(from, a, to, b, &st, refusal) != 0)
		return -1;
	/* A folder goes with what is in it. */
	if (S_ISDIR(st.st_mode) && act_holds_own(env, &st))
		return refusal_set(refusal, "act.own", "bastion keeps its own files there");
	if (!args->dry && renameat2(from, a, to, b, RENAME_NOREPLACE) != 0)
		return refusal_errno(refusal, "act.failed", "it cannot be moved");
	if (!args->dry) {
		fsync(from);
		fsync(to);
	}
	return answer_result(out, MOVED, "ttiti", args->v[0], args->v[1], (int64_t)args->dry,
	    S_ISDIR(st.st_mode) ? "folder" : "file", (int64_t)st.st_size);
}

static int
run_move(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct refusal refusal = {.code = "act.failed", .why = "the answer could not be made"};
	const char *a, *b;
	int from, to = -1, rc = -1;

	(void)limits;
	if ((from = act_parent(env, args->v[0], &a, &refusal)) != -1) {
		if ((to = act_parent(env, args->v[1], &b, &refusal)) != -1) {
			rc = move_at(env, from, a, to, b, args, out, &refusal);
			close(to);
		}
		close(from);
	}
	return rc == 0 ? OBSERVE_DONE
		       : answer_refused(out, &refusal, to == -1 ? OBSERVE_WRONG : OBSERVE_FAILED);
}

const struct observe_op act_file_put = {
    .name = "file:put",
    .usage = "PATH TEXT",
    .summary = "write a file whole, keeping its owner and mode; dry: which lines would change",
    .args_min = 2,
    .args_max = 2,
    .acts = true,
    .check = check_put,
    .run = run_put,
};

const struct observe_op act_file_move = {
    .name = "file:move",
    .usage = "FROM TO",
    .summary = "move a file or folder within its file system, onto nothing",
    .args_min = 2,
    .args_max = 2,
    .acts = true,
    .check = check_move,
    .run = run_move,
};
