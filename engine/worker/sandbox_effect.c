/*
 * sandbox_effect.c: an overlay's upper layer, read as changes, and changes made.
 *
 * The layer was written by a program that nobody trusts: every name in it is opened beneath the
 * descriptor of its folder, no link is followed, and nothing but files, folders and links is taken.
 */
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/clear.h"
#include "engine/worker/sandbox_effect.h"

#define CODE      "sandbox.effect"
#define CHANGED   "sandbox.applied"
#define DEPTH_MAX 128
#define FOLDER    (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PERMITTED 0777
#define NEW_NAME  ".bastion-new-XXXXXXXX"

/* Where a walk is: a folder in the layer, the same folder below (-1: it is new), and its path. */
struct place {
	int upper, lower;
	char path[PATH_MAX];
	size_t len;
	int depth;
};

static const char *const changes[] = {"created", "modified", "mode", "deleted", "left out"};

/*
 * Entries.
 */

static struct effect_entry *
add_entry(struct effect *e, const struct place *at, const char *name, enum effect_change change)
{
	struct effect_entry *bigger, *n;

	if (e->count == e->most) {
		errno = EFBIG;
		return NULL;
	}
	if (e->count == e->room) {
		e->room = e->room != 0 ? 2 * e->room : 64;
		if ((bigger = realloc(e->entries, e->room * sizeof(*bigger))) == NULL)
			return NULL;
		e->entries = bigger;
	}
	n = &e->entries[e->count];
	memset(n, 0, sizeof(*n));
	n->change = change;
	if (asprintf(&n->path, "%.*s%s%s", (int)at->len, at->path, at->len > 0 ? "/" : "", name) ==
	    -1)
		return NULL;
	e->count++;
	return n;
}

static char
type_of(mode_t mode)
{
	return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : '?';
}

static int
leave_out(struct effect *e, const struct place *at, const char *name, mode_t mode, const char *why)
{
	struct effect_entry *n = add_entry(e, at, name, EFFECT_LEFT_OUT);

	if (n == NULL)
		return -1;
	n->type = type_of(mode);
	n->why = why;
	e->left_out++;
	return 0;
}

/*
 * Contents.
 */

/* Store the digest of the file ${name} in ${out}.  Return 0 or -1. */
static int
digest_file(int dir, const char *name, unsigned char out[EFFECT_DIGEST])
{
	crypto_hash_sha256_state h;
	unsigned char buf[65536];
	ssize_t n = -1;
	int fd;

	/* A pipe in a file's place would be waited for. */
	if ((fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) == -1)
		return -1;
	crypto_hash_sha256_init(&h);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		crypto_hash_sha256_update(&h, buf, (unsigned long long)n);
	close(fd);
	crypto_hash_sha256_final(&h, out);
	return n == 0 ? 0 : -1;
}

/* Store the text of the link ${name} in ${text}.  Return 0 or -1. */
static int
read_link(int dir, const char *name, char text[PATH_MAX])
{
	ssize_t n = readlinkat(dir, name, text, PATH_MAX);

	if (n <= 0 || n == PATH_MAX)
		return -1;
	text[n] = '\0';
	return 0;
}

/*
 * Return whether a link at ${depth} folders below the root may lead out of it.  It goes up from
 * where it lies, and then only down: behind a name ".." goes up from wherever that leads to, which
 * may be another link.  So it ends within the root if all that it passes does.
 */
static bool
leads_out(const char *text, size_t depth)
{
	bool named = false;
	size_t n;

	if (text[0] == '/')
		return true;
	for (; *text != '\0'; text += n + (text[n] == '/')) {
		n = strcspn(text, "/");
		if (n == 2 && text[0] == '.' && text[1] == '.') {
			if (named || depth == 0)
				return true;
			depth--;
		} else if (n > 0 && !(n == 1 && text[0] == '.')) {
			named = true;
		}
	}
	return false;
}

/* A fingerprint of what is in a folder: names, numbers and times of change, in the order of names.
 */
static int
fingerprint(
    int dir, const char *name, dev_t dev, int depth, crypto_hash_sha256_state *h, int64_t *count)
{
	struct dirent **list;
	struct stat st;
	int fd, i, n, rc = 0;

	if (depth > DEPTH_MAX || (fd = openat(dir, name, FOLDER)) == -1)
		return -1;
	if ((n = scandirat(fd, ".", &list, NULL, alphasort)) == -1) {
		close(fd);
		return -1;
	}
	for (i = 0; i < n; i++) {
		name = list[i]->d_name;
		if (rc == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
			rc = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW);
			crypto_hash_sha256_update(h, (const unsigned char *)name, strlen(name) + 1);
			crypto_hash_sha256_update(
			    h, (const unsigned char *)&st.st_ino, sizeof(st.st_ino));
			if (!S_ISDIR(st.st_mode))
				crypto_hash_sha256_update(
				    h, (const unsigned char *)&st.st_ctim, sizeof(st.st_ctim));
			++*count;
			if (rc == 0 && st.st_dev != dev)
				rc = -1;
			if (rc == 0 && S_ISDIR(st.st_mode))
				rc = fingerprint(fd, name, dev, depth + 1, h, count);
		}
		free(list[i]);
	}
	free(list);
	close(fd);
	return rc;
}

static int
digest_tree(int dir, const char *name, const struct stat *st, unsigned char out[EFFECT_DIGEST],
    int64_t *count)
{
	crypto_hash_sha256_state h;

	*count = 1;
	crypto_hash_sha256_init(&h);
	if (S_ISDIR(st->st_mode) && fingerprint(dir, name, st->st_dev, 0, &h, count) == -1)
		return -1;
	crypto_hash_sha256_final(&h, out);
	return 0;
}

/*
 * Reading the layer.
 */

static int read_folder(struct effect *e, struct place *at);

static bool
is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Return whether the folder ${fd} of the layer takes the place of the one below, instead of adding
 * to it. */
static bool
is_opaque(int fd)
{
	char value[4];

	return fgetxattr(fd, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

static int
note_deleted(struct effect *e, const struct place *at, const char *name, const struct stat *was)
{
	struct effect_entry *n;

	if (was->st_ino == 0)
		return 0;
	if ((n = add_entry(e, at, name, EFFECT_DELETED)) == NULL)
		return -1;
	n->type = type_of(was->st_mode);
	n->was = *was;
	if (digest_tree(at->lower, name, was, n->content, &n->count) == 0)
		return 0;
	n->change = EFFECT_LEFT_OUT;
	n->why = "what it held cannot be read whole, or another file system is mounted in it";
	e->left_out++;
	return 0;
}

/* Return whether the newest entry takes away what lay at its own place. */
static bool
just_deleted(const struct effect *e)
{
	const struct effect_entry *n = &e->entries[e->count - 1];

	return e->count > 1 && n[-1].change == EFFECT_DELETED && strcmp(n[-1].path, n->path) == 0;
}

static int
note_changed(struct effect *e, const struct place *at, const char *name, const struct stat *st,
    const struct stat *was, enum effect_change change, const unsigned char *content)
{
	struct effect_entry *n;

	if ((n = add_entry(e, at, name, change)) == NULL)
		return -1;
	n->type = type_of(st->st_mode);
	n->mode = st->st_mode & PERMITTED;
	n->bytes = S_ISREG(st->st_mode) ? st->st_size : 0;
	n->was = *was;
	n->fresh = at->lower == -1 || just_deleted(e);
	if (content != NULL)
		memcpy(n->content, content, EFFECT_DIGEST);
	return 0;
}

/* A name that stood for something of another kind stands for this now. */
static int
replace_kind(struct effect *e, const struct place *at, const char *name, const struct stat *st,
    struct stat *was)
{
	if (was->st_ino == 0 || (was->st_mode & S_IFMT) == (st->st_mode & S_IFMT))
		return 0;
	if (note_deleted(e, at, name, was) == -1)
		return -1;
	memset(was, 0, sizeof(*was));
	return 0;
}

static int
read_file(struct effect *e, const struct place *at, const char *name, const struct stat *st,
    struct stat *was)
{
	unsigned char now[EFFECT_DIGEST], then[EFFECT_DIGEST];

	if (digest_file(at->upper, name, now) == -1)
		return leave_out(e, at, name, st->st_mode, "it cannot be read");
	if (was->st_ino == 0)
		return note_changed(e, at, name, st, was, EFFECT_CREATED, now);
	/* Opened for writing, it is in the layer, whether anything was written or not. */
	if (was->st_size != st->st_size || digest_file(at->lower, name, then) == -1 ||
	    memcmp(now, then, EFFECT_DIGEST) != 0)
		return note_changed(e, at, name, st, was, EFFECT_MODIFIED, now);
	if ((was->st_mode & PERMITTED) != (st->st_mode & PERMITTED))
		return note_changed(e, at, name, st, was, EFFECT_MODE, now);
	return 0;
}

static int
read_symlink(struct effect *e, const struct place *at, const char *name, const struct stat *st,
    struct stat *was)
{
	char now[PATH_MAX], then[PATH_MAX];
	unsigned char content[EFFECT_DIGEST];

	if (read_link(at->upper, name, now) == -1)
		return leave_out(e, at, name, st->st_mode, "it cannot be read");
	if (was->st_ino != 0 && read_link(at->lower, name, then) == 0 && strcmp(now, then) == 0)
		return 0;
	if (leads_out(now, (size_t)at->depth))
		return leave_out(e, at, name, st->st_mode,
		    "a link that leads out of the folder, or goes up behind a name");
	crypto_hash_sha256(content, (const unsigned char *)now, strlen(now));
	return note_changed(
	    e, at, name, st, was, was->st_ino != 0 ? EFFECT_MODIFIED : EFFECT_CREATED, content);
}

/* Go into the folder ${name}, whose descriptor is ${upper}. */
static int
descend(struct effect *e, struct place *at, const char *name, int upper, bool below)
{
	size_t n = strlen(name), len = at->len;
	struct place in = {.upper = upper, .lower = -1, .depth = at->depth + 1};
	int rc;

	if (in.depth > DEPTH_MAX || len + 1 + n >= sizeof(in.path))
		return leave_out(e, at, name, S_IFDIR, "it is too deep");
	memcpy(in.path, at->path, len);
	if (len > 0)
		in.path[len++] = '/';
	memcpy(in.path + len, name, n);
	in.len = len + n;
	if (below && (in.lower = openat(at->lower, name, FOLDER)) == -1)
		return leave_out(e, at, name, S_IFDIR, "the folder below cannot be opened");
	rc = read_folder(e, &in);
	if (in.lower != -1)
		close(in.lower);
	return rc;
}

static int
read_subfolder(
    struct effect *e, struct place *at, const char *name, const struct stat *st, struct stat *was)
{
	int fd, rc = 0;

	if ((fd = openat(at->upper, name, FOLDER)) == -1)
		return leave_out(e, at, name, st->st_mode, "it cannot be read");
	if (was->st_ino != 0 && is_opaque(fd)) {
		rc = note_deleted(e, at, name, was);
		memset(was, 0, sizeof(*was));
	}
	if (rc == 0 && was->st_ino == 0)
		rc = note_changed(e, at, name, st, was, EFFECT_CREATED, NULL);
	else if (rc == 0 && (was->st_mode & PERMITTED) != (st->st_mode & PERMITTED))
		rc = note_changed(e, at, name, st, was, EFFECT_MODE, NULL);
	if (rc == 0)
		rc = descend(e, at, name, fd, was->st_ino != 0);
	close(fd);
	return rc;
}

static int
read_name(struct effect *e, struct place *at, const char *name)
{
	struct stat st, was;

	if (fstatat(at->upper, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return -1;
	memset(&was, 0, sizeof(was));
	if (at->lower != -1 && fstatat(at->lower, name, &was, AT_SYMLINK_NOFOLLOW) == -1) {
		if (errno != ENOENT)
			return -1;
		memset(&was, 0, sizeof(was));
	}
	if (is_whiteout(&st))
		return note_deleted(e, at, name, &was);
	if (type_of(st.st_mode) == '?')
		return leave_out(
		    e, at, name, st.st_mode, "only files, folders and links are applied");
	if (replace_kind(e, at, name, &st, &was) == -1)
		return -1;
	if (S_ISDIR(st.st_mode))
		return read_subfolder(e, at, name, &st, &was);
	return S_ISREG(st.st_mode) ? read_file(e, at, name, &st, &was)
				   : read_symlink(e, at, name, &st, &was);
}

/* In the order of names, so that the same changes are the same list. */
static int
read_folder(struct effect *e, struct place *at)
{
	struct dirent **list;
	int i, n, rc = 0;

	if ((n = scandirat(at->upper, ".", &list, NULL, alphasort)) == -1)
		return -1;
	for (i = 0; i < n; i++) {
		if (rc == 0 && strcmp(list[i]->d_name, ".") != 0 &&
		    strcmp(list[i]->d_name, "..") != 0)
			rc = read_name(e, at, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return rc;
}

static void
digest_all(struct effect *e)
{
	crypto_hash_sha256_state h;
	const struct effect_entry *n;
	char head[64];
	size_t i;

	crypto_hash_sha256_init(&h);
	for (i = 0; i < e->count; i++) {
		n = &e->entries[i];
		snprintf(head, sizeof(head), "%s %c %04o %lld %lld ", changes[n->change], n->type,
		    (unsigned)n->mode, (long long)n->bytes, (long long)n->count);
		crypto_hash_sha256_update(&h, (const unsigned char *)head, strlen(head));
		crypto_hash_sha256_update(&h, (const unsigned char *)n->path, strlen(n->path) + 1);
		crypto_hash_sha256_update(&h, n->content, EFFECT_DIGEST);
	}
	crypto_hash_sha256_final(&h, e->digest);
}

int
effect_open(const char *folder, struct refusal *refusal)
{
	struct open_how how = {.flags = FOLDER, .resolve = RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, folder, &how, sizeof(how));

	return fd != -1 ? fd : refusal_errno(refusal, "sandbox.plan", folder);
}

int
effect_read(struct effect *e, int folder, const struct sandbox_folder *overlaid, int upper,
    size_t most, struct refusal *refusal)
{
	struct place at = {.upper = upper, .lower = folder};
	struct stat st;

	memset(e, 0, sizeof(*e));
	e->upper = upper;
	e->lower = folder;
	e->most = most;
	if (fstat(folder, &st) == -1)
		return refusal_errno(refusal, CODE, "the folder cannot be looked at");
	if (st.st_dev != overlaid->dev || st.st_ino != overlaid->ino)
		return refusal_set(
		    refusal, CODE, "another folder was put in its place as the sandbox started");
	if (read_folder(e, &at) == -1) {
		if (errno == EFBIG)
			return refusal_set(refusal, CODE, "there are more than %zu changes", most);
		return refusal_errno(refusal, CODE, "the changes cannot be read");
	}
	digest_all(e);
	return 0;
}

/*
 * Making them.
 */

/*
 * Open the folder that holds ${path} below ${root}, and ${make} it first where it is not there;
 * store where its last name begins in ${*name}.
 */
static int
open_parent(int root, const char *path, bool make, const char **name)
{
	char part[NAME_MAX + 1];
	const char *slash;
	int fd = openat(root, ".", FOLDER), next;
	size_t n;

	while (fd != -1 && (slash = strchr(path, '/')) != NULL) {
		n = (size_t)(slash - path);
		memcpy(part, path, n);
		part[n] = '\0';
		next = make && mkdirat(fd, part, 0755) == -1 && errno != EEXIST
			   ? -1
			   : openat(fd, part, FOLDER);
		close(fd);
		fd = next;
		path = slash + 1;
	}
	*name = path;
	return fd;
}

static bool
same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       (S_ISDIR(a->st_mode) || (a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
					   a->st_ctim.tv_nsec == b->st_ctim.tv_nsec));
}

/* Return whether what ${n} would change is what it was. */
static bool
unchanged(int dir, const char *name, const struct effect_entry *n)
{
	unsigned char content[EFFECT_DIGEST];
	struct stat st;
	int64_t count;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT && n->was.st_ino == 0;
	if (n->was.st_ino == 0 || !same_file(&st, &n->was))
		return false;
	if (n->change != EFFECT_DELETED)
		return true;
	return digest_tree(dir, name, &st, content, &count) == 0 && count == n->count &&
	       memcmp(content, n->content, EFFECT_DIGEST) == 0;
}

static int
check(const struct effect *e, size_t i, struct refusal *refusal)
{
	const struct effect_entry *n = &e->entries[i];
	const char *name;
	bool same;
	int dir;

	if (n->change == EFFECT_LEFT_OUT || n->fresh)
		return 0;
	if ((dir = open_parent(e->lower, n->path, false, &name)) == -1)
		return refusal_set(
		    refusal, CHANGED, "the folder of %.200s is not there any more", n->path);
	same = unchanged(dir, name, n);
	close(dir);
	if (same)
		return 0;
	return refusal_set(refusal, CHANGED,
	    "%.200s was changed by somebody else meanwhile; nothing was applied", n->path);
}

/* Copy ${from} to ${to}.  Return 0 if that was what the list says. */
static int
copy_content(int from, int to, const unsigned char *content)
{
	unsigned char buf[65536];
	unsigned char digest[EFFECT_DIGEST];
	crypto_hash_sha256_state h;
	ssize_t n, wrote, at;

	crypto_hash_sha256_init(&h);
	while ((n = read(from, buf, sizeof(buf))) > 0) {
		crypto_hash_sha256_update(&h, buf, (unsigned long long)n);
		for (at = 0; at < n; at += wrote)
			if ((wrote = write(to, buf + at, (size_t)(n - at))) <= 0)
				return -1;
	}
	crypto_hash_sha256_final(&h, digest);
	if (n == 0 && memcmp(digest, content, EFFECT_DIGEST) == 0)
		return 0;
	errno = n == 0 ? ESTALE : errno;
	return -1;
}

/* Whose a new file is: of whoever had the one before, else of whoever the program ran as. */
static int
give_owner(int fd, const struct effect_entry *n, const struct stat *now)
{
	if (geteuid() != 0)
		return 0;
	return n->was.st_ino != 0 ? fchown(fd, n->was.st_uid, n->was.st_gid)
				  : fchown(fd, now->st_uid, now->st_gid);
}

/* Make a file beside its place, whole, and put it there. */
static int
put_file(int from, int dir, const char *name, const struct effect_entry *n)
{
	char temp[] = NEW_NAME;
	struct stat st;
	int to, rc = -1;

	randombytes_buf(temp + sizeof(temp) - 9, 8);
	for (to = 0; to < 8; to++)
		temp[sizeof(temp) - 9 + to] =
		    (char)('a' + (unsigned char)temp[sizeof(temp) - 9 + to] % 26);
	if ((to = openat(dir, temp, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600)) ==
	    -1)
		return -1;
	if (copy_content(from, to, n->content) == 0 && fstat(from, &st) == 0 &&
	    give_owner(to, n, &st) == 0 && fchmod(to, n->mode) == 0)
		rc = renameat(dir, temp, dir, name);
	close(to);
	if (rc == -1)
		unlinkat(dir, temp, 0);
	return rc;
}

static int
put_link(int upper, const char *from, int dir, const char *name)
{
	char text[PATH_MAX];

	if (read_link(upper, from, text) == -1)
		return -1;
	if (unlinkat(dir, name, 0) == -1 && errno != ENOENT)
		return -1;
	return symlinkat(text, dir, name);
}

static int
put_folder(int upper, const char *from, int dir, const char *name, const struct effect_entry *n)
{
	struct stat st;
	int fd, rc;

	if (mkdirat(dir, name, 0700) == -1 || (fd = openat(dir, name, FOLDER)) == -1)
		return -1;
	rc = fstatat(upper, from, &st, AT_SYMLINK_NOFOLLOW);
	if (rc == 0)
		rc = give_owner(fd, n, &st);
	if (rc == 0)
		rc = fchmod(fd, n->mode);
	close(fd);
	return rc;
}

static int
put_mode(int dir, const char *name, const struct effect_entry *n)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), rc;
	struct stat st;

	if (fd == -1)
		return -1;
	/* Nobody's file that took its place since it was looked at. */
	if ((rc = fstat(fd, &st)) == 0 &&
	    (st.st_dev != n->was.st_dev || st.st_ino != n->was.st_ino)) {
		errno = ESTALE;
		rc = -1;
	}
	if (rc == 0)
		rc = fchmod(fd, n->mode);
	close(fd);
	return rc;
}

static int
put_new(int upper, const char *from, int dir, const char *name, const struct effect_entry *n)
{
	int fd, rc;

	if (n->type == 'd')
		return put_folder(upper, from, dir, name, n);
	if (n->type == 'l')
		return put_link(upper, from, dir, name);
	if ((fd = openat(upper, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) == -1)
		return -1;
	rc = put_file(fd, dir, name, n);
	close(fd);
	return rc;
}

static int
make_change(const struct effect *e, const struct effect_entry *n)
{
	const char *name, *from;
	int dir, upper, rc;

	if ((dir = open_parent(e->lower, n->path, false, &name)) == -1)
		return -1;
	if (n->change == EFFECT_DELETED) {
		rc = clear_entry(dir, name, DEPTH_MAX);
	} else if (n->change == EFFECT_MODE) {
		rc = put_mode(dir, name, n);
	} else if ((upper = open_parent(e->upper, n->path, false, &from)) == -1) {
		rc = -1;
	} else {
		rc = put_new(upper, from, dir, name, n);
		close(upper);
	}
	close(dir);
	return rc;
}

int
effect_apply(const struct effect *e, size_t *applied, struct refusal *refusal)
{
	size_t i;

	*applied = 0;
	for (i = 0; i < e->count; i++)
		if (check(e, i, refusal) == -1)
			return -1;
	for (i = 0; i < e->count; i++) {
		if (e->entries[i].change == EFFECT_LEFT_OUT)
			continue;
		if (make_change(e, &e->entries[i]) == -1)
			return refusal_set(refusal, CODE,
			    "%.200s could not be applied, after %zu changes were: %s",
			    e->entries[i].path, *applied, strerror(errno));
		++*applied;
	}
	/* Durable before it is reported. */
	if (e->count > 0 && syncfs(e->lower) == -1)
		return refusal_errno(
		    refusal, CODE, "the changes were made, but are not on the disk");
	return 0;
}

static int
keep_one(const struct effect *e, const struct effect_entry *n, int root)
{
	const char *name, *from;
	int dir, upper, rc;

	if ((dir = open_parent(root, n->path, true, &name)) == -1)
		return -1;
	if ((upper = open_parent(e->upper, n->path, false, &from)) == -1) {
		close(dir);
		return -1;
	}
	/* A folder may be there already, made on the way to what it holds. */
	rc = put_new(upper, from, dir, name, n);
	if (rc == -1 && errno == EEXIST && n->type == 'd')
		rc = 0;
	close(upper);
	close(dir);
	return rc;
}

/* Make the folder ${path} and open it: ours, in whatever folder was on the way to it at once. */
static int
new_folder(const char *path)
{
	char way[PATH_MAX];
	size_t n = strlen(path), at;
	struct stat st;
	int dir, fd = -1;

	while (n > 1 && path[n - 1] == '/')
		n--;
	for (at = n; at > 0 && path[at - 1] != '/'; at--)
		;
	errno = ENAMETOOLONG;
	if (n >= sizeof(way))
		return -1;
	snprintf(way, sizeof(way), "%.*s.", (int)at, path);
	if ((dir = open(way, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return -1;
	snprintf(way, sizeof(way), "%.*s", (int)(n - at), path + at);
	if (mkdirat(dir, way, 0700) == 0 && (fd = openat(dir, way, FOLDER)) != -1 &&
	    (fstat(fd, &st) == -1 || st.st_uid != geteuid())) {
		close(fd);
		fd = -1;
		errno = ESTALE;
	}
	close(dir);
	return fd;
}

int
effect_keep(const struct effect *e, const char *folder, size_t *kept, struct refusal *refusal)
{
	size_t i;
	int root, rc = 0;

	*kept = 0;
	if ((root = new_folder(folder)) == -1)
		return refusal_errno(
		    refusal, CODE, "the folder to keep the changes in cannot be made");
	for (i = 0; rc == 0 && i < e->count; i++) {
		if (e->entries[i].change != EFFECT_CREATED &&
		    e->entries[i].change != EFFECT_MODIFIED)
			continue;
		if ((rc = keep_one(e, &e->entries[i], root)) == 0)
			++*kept;
		else
			refusal_set(refusal, CODE, "%.200s could not be kept: %s",
			    e->entries[i].path, strerror(errno));
	}
	close(root);
	return rc;
}

const char *
effect_change_name(enum effect_change change)
{
	return changes[change];
}

const char *
effect_type_name(char type)
{
	return type == 'f' ? "file" : type == 'd' ? "folder" : type == 'l' ? "link" : "other";
}

void
effect_free(struct effect *e)
{
	size_t i;

	for (i = 0; i < e->count; i++)
		free(e->entries[i].path);
	free(e->entries);
	e->entries = NULL;
	e->count = 0;
}
