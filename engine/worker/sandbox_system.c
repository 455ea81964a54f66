/* sandbox_system.c: folders that Linux systems have in common, and what nobody is shown. */
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/sandbox_system.h"

#define CODE "sandbox.plan"
#define ETC  "/etc"

/* How far what root alone may read is looked for in /etc. */
#define ETC_DEPTH  4     /* folders */
#define ETC_LOOKS  16384 /* entries; folders beyond are hidden whole */
#define ETC_HIDDEN 8     /* of one folder below /etc; with more, it is hidden whole */
#define ETC_LIST   8192  /* bytes of a folder's entries that are read at once */

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Folders, or links into /usr. */
static const char *const seen[] = {
    "/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/opt", "/sbin", "/usr"};

/* Readable to some alone. */
static const char *const hidden[] = {"/etc/bastion", "/etc/shadow", "/etc/shadow-", "/etc/gshadow",
    "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private",
    "/etc/krb5.keytab", "/etc/wireguard", "/etc/NetworkManager/system-connections"};

/* What programs keep keys, tokens and passwords in, below a user's home. */
static const char *const secrets[] = {".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker",
    ".netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".config/gh",
    ".config/gcloud", ".config/git/credentials", ".config/rclone", ".config/sops",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".terraform.d",
    ".password-store", ".local/share/keyrings", ".mozilla", ".config/google-chrome",
    ".config/chromium", ".thunderbird", ".bash_history", ".zsh_history", ".local/state/bastion"};

/* A plan that is completed. */
struct maker {
	struct sandbox_system *s;
	struct sandbox_plan *plan;
	struct sandbox_path *paths;
	size_t own; /* of the paths: those that it had */
	size_t looks;
	struct refusal *refusal;
};

static int
keep(struct maker *m, const char *text, const char **out)
{
	struct sandbox_system *s = m->s;

	if (s->text_count == SANDBOX_SYSTEM_TEXTS || (*out = strdup(text)) == NULL)
		return refusal_set(m->refusal, CODE, "there are too many paths");
	s->texts[s->text_count++] = (char *)(uintptr_t)*out;
	return 0;
}

static bool
has(const struct maker *m, enum sandbox_kind kind, const char *target)
{
	size_t i;

	for (i = 0; i < m->plan->path_count; i++)
		if ((kind != SANDBOX_SHOW || m->paths[i].kind == kind) &&
		    strcmp(m->paths[i].target, target) == 0)
			return true;
	return false;
}

/* Forget what was added behind the first ${paths} and ${texts}. */
static void
take_back(struct maker *m, size_t paths, size_t texts)
{
	m->plan->path_count = paths;
	while (m->s->text_count > texts)
		free(m->s->texts[--m->s->text_count]);
}

/* Add a path, unless the plan says something of it already. */
static int
add(struct maker *m, enum sandbox_kind kind, const char *source, const char *target)
{
	struct sandbox_path p = {.kind = kind};

	if (has(m, kind, target))
		return 0;
	if (m->plan->path_count == SANDBOX_PATHS_MAX)
		return refusal_set(m->refusal, CODE, "there are too many paths");
	if ((source != NULL && keep(m, source, &p.source) != 0) || keep(m, target, &p.target) != 0)
		return -1;
	m->paths[m->plan->path_count++] = p;
	return 0;
}

static int
add_seen(struct maker *m, const char *path)
{
	char text[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) == -1)
		return 0;
	if (S_ISDIR(st.st_mode))
		return add(m, SANDBOX_READ, path, path);
	if (S_ISLNK(st.st_mode) && (n = readlink(path, text, sizeof(text) - 1)) > 0) {
		text[n] = '\0';
		return add(m, SANDBOX_LINK, text, path);
	}
	return 0;
}

/*
 * What is hidden.
 */

/* Hide ${target}, but what the plan names itself beneath it. */
static int
hide(struct maker *m, const char *target)
{
	size_t i;

	if (has(m, SANDBOX_HIDE, target))
		return 0;
	if (add(m, SANDBOX_HIDE, NULL, target) != 0)
		return -1;
	for (i = 0; i < m->own; i++)
		if (m->paths[i].kind <= SANDBOX_EFFECT &&
		    sandbox_within(m->paths[i].target, target) &&
		    add(m, SANDBOX_SHOW, NULL, m->paths[i].target) != 0)
			return -1;
	return 0;
}

static int
hide_some(struct maker *m)
{
	struct stat st;
	size_t i;

	for (i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (lstat(hidden[i], &st) == 0 && !S_ISLNK(st.st_mode) && hide(m, hidden[i]) != 0)
			return -1;
	return 0;
}

/* Whether the plan says itself that ${path} of /etc is seen: by its name, or a folder's around it.
 */
static bool
is_named(const struct maker *m, const char *path)
{
	size_t i;

	for (i = 0; i < m->own; i++)
		if (m->paths[i].kind <= SANDBOX_EFFECT && strcmp(m->paths[i].target, ETC) != 0 &&
		    sandbox_within(path, m->paths[i].target))
			return true;
	return false;
}

static bool
others_read(const struct stat *st)
{
	mode_t need = S_ISDIR(st->st_mode) ? S_IROTH | S_IXOTH : S_IROTH;

	return (st->st_mode & need) == need;
}

static int hide_unread(struct maker *m, int dir, const char *path, int depth);

/* One entry.  Return 1 if something was hidden, 0 or -1. */
static int
look_at(struct maker *m, int dir, const char *path, const char *name, int depth)
{
	char at[PATH_MAX];
	struct stat st;
	int fd, rc;

	/* Most are files that anybody may read, and need no name. */
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1 ||
	    (!S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || others_read(&st))) ||
	    snprintf(at, sizeof(at), "%s/%s", path, name) >= (int)sizeof(at) ||
	    has(m, SANDBOX_HIDE, at) || is_named(m, at))
		return 0;
	if (!others_read(&st))
		return hide(m, at) == 0 ? 1 : -1;
	if (!S_ISDIR(st.st_mode) || depth == ETC_DEPTH)
		return 0;
	if (m->looks >= ETC_LOOKS || (fd = openat(dir, name, FOLDER)) == -1)
		return hide(m, at) == 0 ? 1 : -1;
	rc = hide_unread(m, fd, at, depth + 1);
	return rc != 1 ? rc : hide(m, at) == 0 ? 1 : -1;
}

/* As look_at for the entry ${d}, of which ${some} were hidden before.  Return 0; 1 if it is too
 * much; or -1. */
static int
look_next(
    struct maker *m, int dir, const char *path, const struct dirent64 *d, int depth, int *some)
{
	int rc;

	/* Most are links, as of alternatives and certificates. */
	if (d->d_type == DT_LNK || strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	if ((++m->looks > ETC_LOOKS || *some > ETC_HIDDEN) && depth > 1)
		return 1;
	if ((rc = look_at(m, dir, path, d->d_name, depth)) == 1)
		(*some)++;
	return rc == -1 ? -1 : 0;
}

/*
 * Hide what others may not read in the folder ${path} of /etc, whose descriptor ${dir} is closed.
 * Return 0; 1 if it is too much or cannot be read, and the folder is to be hidden instead; or -1.
 * (A stream of the library's would ask the kernel three times more for each folder.)
 */
static int
hide_unread(struct maker *m, int dir, const char *path, int depth)
{
	size_t paths = m->plan->path_count, texts = m->s->text_count;
	_Alignas(struct dirent64) char list[ETC_LIST];
	const struct dirent64 *d;
	ssize_t n = 0, at;
	int some = 0, rc = 0;

	while (rc == 0 && (n = getdents64(dir, list, sizeof(list))) > 0)
		for (at = 0; rc == 0 && at < n; at += d->d_reclen) {
			d = (const void *)(list + at);
			rc = look_next(m, dir, path, d, depth, &some);
		}
	/* (ENOENT: it was removed.) */
	if (n == -1 && errno != ENOENT)
		rc = 1;
	close(dir);
	if (rc == 1)
		take_back(m, paths, texts);
	return rc;
}

/* A program that runs as root has no rights but those of a file's owner, and root owns the secrets
 * of services. */
static int
hide_roots(struct maker *m)
{
	int fd, rc;

	if (m->plan->uid != 0 || (fd = open(ETC, FOLDER)) == -1)
		return 0;
	rc = hide_unread(m, fd, ETC, 1);
	return rc != 1 ? rc : refusal_set(m->refusal, CODE, "/etc cannot be looked through");
}

/* Hide ${secret}, a real path, wherever a folder of the plan shows it. */
static int
hide_secret(struct maker *m, const char *secret)
{
	const struct sandbox_path *p;
	char target[PATH_MAX];
	const char *rest;
	size_t i;

	for (i = 0; i < m->own; i++) {
		p = &m->paths[i];
		if (p->kind > SANDBOX_EFFECT || !sandbox_within(secret, p->source))
			continue;
		rest = secret + strlen(p->source);
		/* Named itself, it is wanted. */
		if (*rest != '\0' &&
		    snprintf(target, sizeof(target), "%s%s", p->target, rest) <
			(int)sizeof(target) &&
		    hide(m, target) != 0)
			return -1;
	}
	return 0;
}

static int
hide_secrets(struct maker *m, const char *home)
{
	char path[PATH_MAX], real[PATH_MAX];
	struct stat st;
	size_t i;

	if (home == NULL || home[0] != '/')
		return 0;
	/* Most are not there, which one call tells; what a path leads to takes one for each folder.
	 */
	for (i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		if (snprintf(path, sizeof(path), "%s/%s", home, secrets[i]) < (int)sizeof(path) &&
		    stat(path, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) &&
		    realpath(path, real) != NULL && hide_secret(m, real) != 0)
			return -1;
	return 0;
}

/* Our state and sockets are shown to nobody, whatever the plan says. */
static void
forbid(struct maker *m, const char *path)
{
	struct sandbox_system *s = m->s;
	char *text = s->forbidden_text[m->plan->forbidden_count];

	if (realpath(path, text) != NULL)
		s->forbidden[m->plan->forbidden_count++] = text;
}

static void
forbid_ours(struct maker *m, const struct home *home)
{
	char ask[HOME_ASK_MAX + 1];

	snprintf(ask, sizeof(ask), "%s-ask", home->run);
	forbid(m, home->state);
	forbid(m, home->run);
	forbid(m, ask);
	m->plan->forbidden = m->s->forbidden;
}

int
sandbox_system(struct sandbox_system *s, struct sandbox_plan *plan, struct sandbox_path *paths,
    const struct home *home, const char *also, struct refusal *refusal)
{
	struct maker m = {
	    .s = s, .plan = plan, .paths = paths, .own = plan->path_count, .refusal = refusal};
	const struct passwd *pw = getpwuid(plan->uid);
	size_t i;

	s->text_count = 0;
	if (hide_secrets(&m, pw != NULL ? pw->pw_dir : NULL) != 0 || hide_secrets(&m, also) != 0)
		return -1;
	for (i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		if (add_seen(&m, seen[i]) != 0)
			return -1;
	if (hide_some(&m) != 0 || hide_roots(&m) != 0)
		return -1;
	plan->forbidden_count = 0;
	if (home != NULL)
		forbid_ours(&m, home);
	plan->paths = paths;
	return 0;
}

void
sandbox_system_free(struct sandbox_system *s)
{
	while (s->text_count > 0)
		free(s->texts[--s->text_count]);
}
