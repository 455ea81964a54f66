/* unpack.c: a bundle from standard input to a folder, by git, beneath one handle. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/worker/clear.h"
#include "engine/worker/kill.h"
#include "engine/worker/sandbox_job.h"
#include "engine/worker/tool.h"
#include "engine/worker/unpack.h"
#include "engine/write.h"

#define BUNDLE     "bundle" /* in the folder beside the place, as are the next two */
#define CHECK      "check"
#define TREE       "tree"
#define MARK       "bastion-bundle" /* in .git of what a bundle brought: its digest */
#define PIECE      65536
#define BESIDE_MAX 160
#define DEPTH_MAX  512 /* folders in folders that are removed */
#define LINE_BYTES 4608

/* A copy under way. */
struct copy {
	const struct unpack *u;
	struct refusal *r;
	int root;              /* the folder */
	int beside;            /* the folder beside the place; its lock is ours */
	char name[BESIDE_MAX]; /* of that */
	char text[PIECE];      /* what git says of a tree */
	int64_t bytes;         /* of the files in it */
};

static volatile sig_atomic_t told; /* to end */

static void
on_signal(int sig)
{
	(void)sig;
	told = 1;
}

static int
fail(struct copy *c, const char *what)
{
	return refusal_errno(c->r, "bundle.failed", what);
}

static int
clear_beside(struct copy *c)
{
	int dir = openat(c->beside, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir == -1 ? -1 : clear_folder(dir, DEPTH_MAX);
}

/* Make the folder beside the place, or take the one that somebody who was killed left. */
static int
beside_open(struct copy *c)
{
	struct stat st;

	snprintf(c->name, sizeof(c->name), ".%s.bundle", c->u->name);
	if (mkdirat(c->root, c->name, 0700) == -1 && errno != EEXIST)
		return fail(c, "the folder beside it");
	c->beside = openat(c->root, c->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->beside == -1)
		return fail(c, "the folder beside it");
	if (fstat(c->beside, &st) == -1 || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return refusal_set(
		    c->r, "bundle.failed", "%s is there, and is somebody else's", c->name);
	if (flock(c->beside, LOCK_EX | LOCK_NB) == -1)
		return errno == EWOULDBLOCK ? refusal_set(c->r, "bundle.failed",
						  "another copy to this place is under way")
					    : fail(c, c->name);
	return clear_beside(c) == 0 ? 0 : fail(c, c->name);
}

/* The next bytes; 0 at the end. */
static ssize_t
piece(struct copy *c, int in)
{
	struct pollfd p = {.fd = in, .events = POLLIN};
	int64_t end = tool_now_ms() + c->u->stall_ms, left;
	ssize_t n;

	while (!told && (left = end - tool_now_ms()) > 0) {
		if (poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left) <= 0)
			continue;
		if ((n = read(in, c->text, sizeof(c->text))) != -1)
			return n;
		if (errno != EINTR && errno != EAGAIN)
			return fail(c, "standard input");
	}
	return refusal_set(c->r, "bundle.failed",
	    told ? "the copy was ended" : "nothing came for %" PRId64 " ms", c->u->stall_ms);
}

static int
take_into(struct copy *c, int in, int out)
{
	uint8_t digest[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state hash;
	char hex[2 * sizeof(digest) + 1];
	int64_t got = 0;
	ssize_t n;

	crypto_hash_sha256_init(&hash);
	while ((n = piece(c, in)) > 0) {
		got += n;
		if (got > c->u->size)
			return refusal_set(c->r, "bundle.size",
			    "more came than the %" PRId64 " bytes that were said", c->u->size);
		crypto_hash_sha256_update(&hash, (const uint8_t *)c->text, (size_t)n);
		if (write_all(out, c->text, (size_t)n) == -1)
			return fail(c, BUNDLE);
	}
	if (n != 0)
		return -1;
	if (got < c->u->size)
		return refusal_set(
		    c->r, "bundle.size", "%" PRId64 " of %" PRId64 " bytes came", got, c->u->size);
	crypto_hash_sha256_final(&hash, digest);
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	return strcmp(hex, c->u->sha256) == 0 ? 0
					      : refusal_set(c->r, "bundle.digest",
						    "what came has not the digest that was said");
}

static int
take(struct copy *c, int in)
{
	int fd = openat(c->beside, BUNDLE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd == -1)
		return fail(c, BUNDLE);
	rc = take_into(c, in, fd);
	if (close(fd) == -1 && rc == 0)
		rc = fail(c, BUNDLE);
	return rc;
}

/*
 * Git.  It has no environment of ours, and no configuration but the words in front: those of the
 * machine and of the user could name programs.  A bundle brings none.
 */

/* A second line, should git be wrong about what it may write. */
static int
held(void)
{
	static struct sandbox_job job = {.step_count = 1};

	job.steps[0] = (struct sandbox_step){.kind = STEP_WRITE, .target = ".", .folder = true};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ? -1 : sandbox_landlock(&job);
}

static void
git_child(struct copy *c, int out, char *const *words)
{
	static char *const env[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/nonexistent",
	    "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null",
	    "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file",
	    "GIT_NO_LAZY_FETCH=1", NULL};
	static char *const first[] = {"git", "-c", "core.hooksPath=/dev/null", "-c",
	    "core.fsmonitor=false", "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true",
	    "-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null", "-c",
	    "transfer.fsckObjects=true", "-c", "submodule.recurse=false", "-c", "gc.auto=0", "-c",
	    "maintenance.auto=false", "-c", "fsck.hasDot=error", "-c", "fsck.hasDotdot=error", "-c",
	    "fsck.hasDotgit=error", "-c", "fsck.fullPathname=error", "-c",
	    "advice.detachedHead=false", "-c", "init.defaultBranch=main"};
	const struct rlimit no_core = {0, 0};
	const struct rlimit file = {(rlim_t)c->u->unpacked, (rlim_t)c->u->unpacked};
	char *argv[sizeof(first) / sizeof(first[0]) + 16];
	size_t n = sizeof(first) / sizeof(first[0]), i;
	int null;

	memcpy(argv, first, sizeof(first));
	for (i = 0; words[i] != NULL; i++)
		argv[n++] = words[i];
	argv[n] = NULL;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || setpgid(0, 0) == -1 ||
	    setrlimit(RLIMIT_CORE, &no_core) == -1 || setrlimit(RLIMIT_FSIZE, &file) == -1 ||
	    fchdir(c->beside) == -1 || null == -1 || dup2(null, 0) == -1 ||
	    dup2(out == -1 ? null : out, 1) == -1 || held() == -1)
		_exit(127);
	execve(c->u->git, argv, env);
	_exit(127);
}

/* Whether ${pid} ends before its time; it has ended when this returns. */
static bool
git_ends(struct copy *c, pid_t pid, int *status)
{
	struct pollfd p = {.fd = pidfd_open(pid, 0), .events = POLLIN};
	int64_t end = tool_now_ms() + c->u->git_ms, left;
	bool ended = false;

	while (p.fd != -1 && !ended && !told && (left = end - tool_now_ms()) > 0)
		ended = poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left) == 1;
	if (p.fd != -1)
		close(p.fd);
	kill_group(pid, SIGKILL); /* what it started, too */
	if (!ended)
		kill_process(pid, SIGKILL);
	while (waitpid(pid, status, 0) == -1 && errno == EINTR)
		;
	return ended;
}

/* Run git with ${words} in the folder beside; ${out}: where it writes, or -1. */
static int
git(struct copy *c, int out, char *const *words)
{
	int status = 0;
	pid_t pid;

	if ((pid = fork()) == 0)
		git_child(c, out, words);
	if (pid == -1)
		return fail(c, "git");
	if (!git_ends(c, pid, &status))
		return refusal_set(c->r, "bundle.failed",
		    told ? "the copy was ended" : "git took longer than %" PRId64 " ms",
		    c->u->git_ms);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return refusal_set(c->r, "bundle.failed", "git %s: this is no bundle to be unpacked",
	    words[strcmp(words[0], "-C") == 0 ? 2 : 0]);
}

/* One line of ls-tree: MODE TYPE OBJECT SIZE<tab>PATH. */
static void
count(struct copy *c, const char *line)
{
	const char *at = line;
	int i;

	for (i = 0; i < 3 && (at = strchr(at, ' ')) != NULL; i++)
		at += strspn(at, " ");
	if (at != NULL && *at >= '0' && *at <= '9')
		c->bytes += strtoll(at, NULL, 10) / 4096 * 4096 + 4096;
	else
		c->bytes += 4096;
}

/* What its head would take: a small bundle may hold a file of many copies of one byte. */
static int
measure(struct copy *c)
{
	static char *const words[] = {"-C", TREE, "ls-tree", "-r", "-l", "HEAD", NULL};
	FILE *f;
	int fd, rc;

	if ((fd = openat(c->beside, "list", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) == -1)
		return fail(c, "list");
	if ((f = fdopen(fd, "r")) == NULL) {
		close(fd);
		return fail(c, "list");
	}
	rc = git(c, fd, words);
	rewind(f);
	/* A name that is longer than the text counts twice, which is not too little. */
	while (rc == 0 && c->bytes <= c->u->unpacked && fgets(c->text, LINE_BYTES, f) != NULL)
		count(c, c->text);
	fclose(f);
	if (rc == 0 && c->bytes > c->u->unpacked)
		rc = refusal_set(c->r, "bundle.size",
		    "its files would take more than the %" PRId64
		    " bytes of remote.bundle_unpacked",
		    c->u->unpacked);
	return rc;
}

static int
mark(struct copy *c)
{
	int fd = openat(c->beside, TREE "/.git/" MARK,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc;

	if (fd == -1)
		return fail(c, MARK);
	rc = write_all(fd, c->u->sha256, strlen(c->u->sha256)) == -1 ||
		     write_all(fd, "\n", 1) == -1 || syncfs(fd) == -1
		 ? fail(c, MARK)
		 : 0;
	close(fd);
	return rc;
}

static int
unpack(struct copy *c)
{
	static char *const init[] = {"init", "-q", "--bare", "--template=", CHECK, NULL};
	static char *const verify[] = {"-C", CHECK, "bundle", "verify", "-q", "../" BUNDLE, NULL};
	static char *const clone[] = {"clone", "-q", "--no-checkout", "--template=", "--origin",
	    "bundle", "--no-recurse-submodules", "--", BUNDLE, TREE, NULL};
	static char *const fsck[] = {"-C", TREE, "fsck", "--no-dangling", "--no-progress", NULL};
	static char *const checkout[] = {"-C", TREE, "reset", "-q", "--hard", "HEAD", NULL};

	if (git(c, -1, init) != 0 || git(c, -1, verify) != 0 || git(c, -1, clone) != 0 ||
	    git(c, -1, fsck) != 0 || measure(c) != 0 || git(c, -1, checkout) != 0)
		return -1;
	return mark(c);
}

/* Whether the folder ${dir}, which is closed, is what a bundle brought. */
static bool
is_ours(int dir)
{
	int sub = openat(dir, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool is =
	    sub != -1 && fstatat(sub, MARK, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);

	if (sub != -1)
		close(sub);
	close(dir);
	return is;
}

static int
place(struct copy *c)
{
	const char *name = c->u->name;
	struct stat st;
	int old;

	if (told)
		return refusal_set(c->r, "bundle.failed", "the copy was ended");
	if (fstatat(c->root, name, &st, AT_SYMLINK_NOFOLLOW) == -1 && errno == ENOENT)
		return renameat2(c->beside, TREE, c->root, name, RENAME_NOREPLACE) == 0
			   ? 0
			   : fail(c, name);
	old = openat(c->root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (old == -1 || !is_ours(old))
		return refusal_set(
		    c->r, "bundle.failed", "%s is there already, and no bundle brought it", name);
	return renameat2(c->beside, TREE, c->root, name, RENAME_EXCHANGE) == 0 ? 0 : fail(c, name);
}

/* The name comes from afar; the rows have looked at it, and this is where it becomes a path. */
static bool
is_name(const char *name)
{
	return name[0] != '\0' && name[0] != '.' && name[0] != '-' && strlen(name) <= 128 &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789._-")] == '\0';
}

int
unpack_run(const struct unpack *u, int in, struct refusal *r)
{
	struct copy *c = calloc(1, sizeof(*c));
	char here[PATH_MAX];
	int rc = -1;

	if (c == NULL)
		return refusal_set(r, "bundle.failed", "out of memory");
	*c = (struct copy){.u = u, .r = r, .root = -1, .beside = -1};
	if (!is_name(u->name))
		refusal_set(r, "bundle.failed", "this is no name of a repository");
	else if ((c->root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) == -1 ||
		 getcwd(here, sizeof(here)) == NULL)
		fail(c, "the working directory");
	else if (strcmp(here, u->folder) != 0)
		refusal_set(
		    r, "bundle.failed", "%.256s leads elsewhere: a link is in the way", u->folder);
	else if ((rc = beside_open(c)) == 0) {
		rc = take(c, in) == 0 && unpack(c) == 0 ? place(c) : -1;
		(void)clear_beside(c);
		unlinkat(c->root, c->name, AT_REMOVEDIR);
	}
	if (c->beside != -1)
		close(c->beside);
	if (c->root != -1)
		close(c->root);
	free(c);
	return rc;
}

static int
number(const char *text, int64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && *n > 0 ? 0 : -1;
}

int
unpack_main(int argc, char **argv)
{
	const struct sigaction act = {.sa_handler = on_signal};
	struct refusal r = {.code = ""};
	struct unpack u;

	if (argc != 9 || number(argv[4], &u.size) != 0 || number(argv[6], &u.stall_ms) != 0 ||
	    number(argv[7], &u.git_ms) != 0 || number(argv[8], &u.unpacked) != 0) {
		fputs("bastion: unpack is for the daemon\n", stderr);
		return 2;
	}
	u.folder = argv[2];
	u.name = argv[3];
	u.sha256 = argv[5];
	u.git = "/usr/bin/git";
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	if (unpack_run(&u, STDIN_FILENO, &r) == 0) {
		printf("%s/%s\n", strcmp(u.folder, "/") == 0 ? "" : u.folder, u.name);
		return 0;
	}
	fprintf(stderr, "%s [%s]\n", r.why, r.code);
	return 1;
}
