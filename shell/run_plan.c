/* run_plan.c: what a program of bastion run sees. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/program_lent.h"
#include "engine/write.h"
#include "shell/run_plan.h"

#define CODE "run.folder"

/* What of a home is seen, read-only: how the person writes commits, and programs. No secret lies
 * there. */
static const char *const shown[] = {".gitconfig", ".config/git/config", ".config/git/ignore",
    ".config/git/attributes", ".local/bin", ".local/lib", ".local/share/uv", ".local/share/pnpm",
    ".cargo/bin", ".rustup", ".nvm", ".volta", ".deno/bin", ".bun/bin", ".pyenv", ".rbenv",
    ".sdkman", "go/bin"};

/* What of a project others run later, outside: never written. */
static const char *const kept[] = {".git/hooks", ".git/config"};

/* What passes from one environment into the other by itself: no name here has ever held a secret.
 */
static const char *const passed[] = {"PATH", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL",
    "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TZ",
    "EDITOR", "VISUAL", "PAGER", "CI"};

/* What is the system's, and never a project. */
static const char *const systems[] = {"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64",
    "/libx32", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr"};

static int
add(struct run_plan *p, enum sandbox_kind kind, const char *source, const char *target,
    struct refusal *refusal)
{
	char *from = source != NULL ? strdup(source) : NULL, *to = strdup(target);

	if ((source != NULL && from == NULL) || to == NULL ||
	    p->plan.path_count == SANDBOX_PATHS_MAX ||
	    p->text_count > sizeof(p->texts) / sizeof(p->texts[0]) - 2) {
		free(from);
		free(to);
		return refusal_set(refusal, "sandbox.plan", "there are too many paths");
	}
	p->texts[p->text_count++] = from;
	p->texts[p->text_count++] = to;
	p->paths[p->plan.path_count].kind = kind;
	p->paths[p->plan.path_count].source = from;
	p->paths[p->plan.path_count++].target = to;
	return 0;
}

static bool
is_named(const struct run_plan *p, const char *target)
{
	size_t i;

	for (i = 0; i < p->plan.path_count; i++)
		if (strcmp(p->paths[i].target, target) == 0)
			return true;
	return false;
}

int
run_plan_path(struct run_plan *p, enum sandbox_kind kind, const char *path, struct refusal *refusal)
{
	char *real = realpath(path, NULL);
	int rc;

	if (real == NULL)
		return refusal_errno(refusal, "file.missing", path);
	rc = is_named(p, real) ? 0 : add(p, kind, real, real, refusal);
	free(real);
	return rc;
}

/*
 * The home: a folder of its own for each folder that programs run in, kept for their caches.
 */

static int
home_find(struct run_plan *p, struct refusal *refusal)
{
	const struct passwd *pw = getpwuid(geteuid());
	const char *home = getenv("HOME");
	struct stat st;

	/* Whatever HOME says, this one holds what is nobody's project. */
	if (pw == NULL || realpath(pw->pw_dir, p->listed) == NULL || strcmp(p->listed, "/") == 0)
		p->listed[0] = '\0';
	if (home == NULL || home[0] != '/' || stat(home, &st) != 0 || st.st_uid != geteuid())
		home = pw != NULL ? pw->pw_dir : NULL;
	if (home == NULL || realpath(home, p->home) == NULL || strcmp(p->home, "/") == 0)
		return refusal_set(refusal, CODE, "you have no home directory");
	return 0;
}

/* Make ${path} below ${dir} with everything on the way.  Return a descriptor, or -1. */
static int
make_below(int dir, const char *path)
{
	char name[NAME_MAX + 1];
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 3), next;
	size_t n;

	while (fd != -1 && *path != '\0') {
		if (*path == '/') {
			path++;
			continue;
		}
		n = strcspn(path, "/");
		errno = ENAMETOOLONG;
		next = -1;
		if (n < sizeof(name)) {
			memcpy(name, path, n);
			name[n] = '\0';
			/* What a program left there may be a link. */
			if (mkdirat(fd, name, 0700) == 0 || errno == EEXIST)
				next = openat(
				    fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		}
		close(fd);
		fd = next;
		path += n;
	}
	return fd;
}

static int
kept_make(struct run_plan *p, struct refusal *refusal)
{
	const char *cache = getenv("XDG_CACHE_HOME");
	unsigned char digest[crypto_hash_sha256_BYTES];
	char hex[17], base[PATH_MAX], real[PATH_MAX], below[64];
	int cached, fd = -1;

	crypto_hash_sha256(digest, (const unsigned char *)p->here, strlen(p->here));
	sodium_bin2hex(hex, sizeof(hex), digest, 8);
	snprintf(below, sizeof(below), "bastion/run/%s", hex);
	if (cache != NULL && cache[0] == '/')
		snprintf(base, sizeof(base), "%.3000s", cache);
	else
		snprintf(base, sizeof(base), "%.3000s/.cache", p->home);
	if ((mkdir(base, 0700) == 0 || errno == EEXIST) && realpath(base, real) != NULL &&
	    (cached = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) != -1) {
		fd = make_below(cached, below);
		close(cached);
	}
	if (fd == -1)
		return refusal_errno(refusal, CODE, base);
	close(fd);
	snprintf(p->kept, sizeof(p->kept), "%.3900s/%s", real, below);
	return 0;
}

/* What is mounted in the home needs something to be mounted on. */
static int
mount_point(int home, const char *below, bool folder)
{
	char way[PATH_MAX];
	char *name;
	int fd, file;

	snprintf(way, sizeof(way), "%s", below);
	if (folder) {
		if ((fd = make_below(home, way)) == -1)
			return -1;
		return close(fd);
	}
	name = strrchr(way, '/');
	if (name != NULL)
		*name++ = '\0';
	if ((fd = make_below(home, name != NULL ? way : "")) == -1)
		return -1;
	file = openat(fd, name != NULL ? name : way,
	    O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	close(fd);
	return file != -1 ? close(file) : -1;
}

static int
mount_points(struct run_plan *p, struct refusal *refusal)
{
	size_t i, n = strlen(p->home);
	struct stat st;
	int home, rc = 0;

	if ((home = open(p->kept, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1)
		return refusal_errno(refusal, CODE, p->kept);
	for (i = 0; rc == 0 && i < p->plan.path_count; i++) {
		if ((p->paths[i].kind > SANDBOX_WRITE && p->paths[i].kind != SANDBOX_SOCKET) ||
		    strcmp(p->paths[i].target, p->home) == 0 ||
		    !sandbox_within(p->paths[i].target, p->home))
			continue;
		rc = lstat(p->paths[i].source, &st);
		if (rc == 0)
			rc = mount_point(home, p->paths[i].target + n + 1, S_ISDIR(st.st_mode));
		if (rc != 0)
			refusal_set(refusal, CODE,
			    "%.200s cannot be shown at its place in %.200s: %s; that folder can be removed",
			    p->paths[i].target, p->kept, strerror(errno));
	}
	close(home);
	return rc;
}

static int
add_home(struct run_plan *p, struct refusal *refusal)
{
	char path[PATH_MAX], *real;
	struct stat st;
	int rc = 0;
	size_t i;

	if (kept_make(p, refusal) != 0)
		return -1;
	if (is_named(p, p->home))
		return 0;
	if (add(p, SANDBOX_WRITE, p->kept, p->home, refusal) != 0)
		return -1;
	for (i = 0; rc == 0 && i < sizeof(shown) / sizeof(shown[0]); i++) {
		snprintf(path, sizeof(path), "%.3900s/%s", p->home, shown[i]);
		if (is_named(p, path) || stat(path, &st) != 0 ||
		    (real = realpath(path, NULL)) == NULL)
			continue;
		/* A link shows what it leads to. */
		rc = add(p, SANDBOX_READ, real, path, refusal);
		free(real);
	}
	if (rc != 0)
		return -1;
	return mount_points(p, refusal);
}

/*
 * Agents: who is inside uses keys by them, and sees none.
 */

/* Show ${source} at ${target} where it is what ${kind} wants, and the person's.  Return 1 if it is,
 * 0 if not, or -1. */
static int
add_own(struct run_plan *p, enum sandbox_kind kind, const char *source, const char *target,
    struct refusal *refusal)
{
	char real[PATH_MAX];
	struct stat st;

	if (source == NULL || realpath(source, real) == NULL || stat(real, &st) != 0 ||
	    st.st_uid != geteuid() ||
	    (kind == SANDBOX_SOCKET ? !S_ISSOCK(st.st_mode) : !S_ISREG(st.st_mode)))
		return 0;
	if (is_named(p, target))
		return 1;
	return add(p, kind, real, target, refusal) == 0 ? 1 : -1;
}

static int
add_ssh(struct run_plan *p, struct refusal *refusal)
{
	char known[PATH_MAX];
	int rc = add_own(p, SANDBOX_SOCKET, getenv("SSH_AUTH_SOCK"), RUN_SSH_AGENT, refusal);

	if (rc == 0)
		return refusal_set(refusal, "run.agent",
		    "there is no ssh-agent: SSH_AUTH_SOCK is no socket of yours");
	snprintf(known, sizeof(known), "%.4000s/.ssh/known_hosts", p->home);
	return rc == 1 && add_own(p, SANDBOX_READ, known, known, refusal) >= 0 ? 0 : -1;
}

/* Its restricted socket, the one for other machines: it signs and deciphers, and gives out no key.
 */
static int
add_gpg(struct run_plan *p, struct refusal *refusal)
{
	static const char *const files[] = {"pubring.kbx", "trustdb.gpg"};
	char from[PATH_MAX], to[PATH_MAX];
	size_t i;
	int rc;

	snprintf(to, sizeof(to), "%.4000s/.gnupg/S.gpg-agent", p->home);
	snprintf(from, sizeof(from), "/run/user/%u/gnupg/S.gpg-agent.extra", (unsigned)geteuid());
	if ((rc = add_own(p, SANDBOX_SOCKET, from, to, refusal)) == 0) {
		snprintf(from, sizeof(from), "%.4000s/.gnupg/S.gpg-agent.extra", p->home);
		rc = add_own(p, SANDBOX_SOCKET, from, to, refusal);
	}
	if (rc == 0)
		return refusal_set(refusal, "run.agent",
		    "there is no gpg-agent: start it with gpgconf --launch gpg-agent");
	for (i = 0; rc >= 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(from, sizeof(from), "%.4000s/.gnupg/%s", p->home, files[i]);
		rc = add_own(p, SANDBOX_READ, from, from, refusal);
	}
	return rc >= 0 ? 0 : -1;
}

int
run_plan_agent(struct run_plan *p, const char *which, struct refusal *refusal)
{
	if (strcmp(which, "ssh") == 0)
		p->ssh = true;
	else if (strcmp(which, "gpg") == 0)
		p->gpg = true;
	else
		return refusal_set(refusal, "run.agent",
		    "there are the agents ssh and gpg, and no \"%.32s\"", which);
	return 0;
}

static int
add_agents(struct run_plan *p, struct refusal *refusal)
{
	if (p->ssh && add_ssh(p, refusal) != 0)
		return -1;
	return p->gpg ? add_gpg(p, refusal) : 0;
}

/*
 * The folder.
 */

static bool
holds_home(const struct run_plan *p)
{
	return sandbox_within(p->home, p->here) ||
	       (p->listed[0] != '\0' && sandbox_within(p->listed, p->here));
}

/* A folder that holds more than a project is none. */
static bool
is_project(const struct run_plan *p)
{
	size_t i;

	if (holds_home(p) || strcmp(p->here, "/tmp") == 0 || strcmp(p->here, "/") == 0)
		return false;
	for (i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
		if (sandbox_within(p->here, systems[i]))
			return false;
	return true;
}

static int
add_folder(struct run_plan *p, struct refusal *refusal)
{
	char path[PATH_MAX];
	struct stat st;
	size_t i;

	if (getcwd(p->here, sizeof(p->here)) == NULL || p->here[0] != '/')
		return refusal_errno(refusal, CODE, "the working directory");
	p->plan.cwd = p->here;
	if (!is_project(p)) {
		/* Where the home is empty, so is the place of a folder around it. */
		if (holds_home(p))
			p->plan.cwd = p->home;
		return 0;
	}
	if (is_named(p, p->here))
		return 0;
	if (run_plan_path(p, access(p->here, W_OK) == 0 ? SANDBOX_WRITE : SANDBOX_READ, p->here,
		refusal) != 0)
		return -1;
	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		snprintf(path, sizeof(path), "%.4000s/%s", p->here, kept[i]);
		if (!is_named(p, path) && lstat(path, &st) == 0 && !S_ISLNK(st.st_mode) &&
		    add(p, SANDBOX_KEEP, NULL, path, refusal) != 0)
			return -1;
	}
	return 0;
}

/* Does ${path} say ${text} already, with ${mode}?  What is cut and written anew waits for the disk.
 */
static bool
file_says(const char *path, const char *text, size_t len, mode_t mode)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char was[1024];
	struct stat st;
	bool same;

	if (fd == -1)
		return false;
	same = len < sizeof(was) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_mode & 07777) == mode && st.st_uid == geteuid() && st.st_nlink == 1 &&
	       read(fd, was, sizeof(was)) == (ssize_t)len && memcmp(was, text, len) == 0;
	close(fd);
	return same;
}

/* Show a file of ours, which says ${text}, as ${target}. */
static int
add_file(
    struct run_plan *p, const char *target, const char *text, mode_t mode, struct refusal *refusal)
{
	char path[PATH_MAX];
	size_t len = strlen(text);
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.3900s.%.100s", p->kept, strrchr(target, '/') + 1);
	if (file_says(path, text, len, mode))
		return add(p, SANDBOX_READ, path, target, refusal);
	if ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode)) == -1)
		return refusal_errno(refusal, CODE, path);
	n = write(fd, text, len);
	if (fchmod(fd, mode) == -1 || n != (ssize_t)len) {
		close(fd);
		return refusal_errno(refusal, CODE, path);
	}
	close(fd);
	return add(p, SANDBOX_READ, path, target, refusal);
}

/* Names are the lane's to look up: also those that this machine knows by a file. */
static int
add_names(struct run_plan *p, struct refusal *refusal)
{
	const struct lent_lookup *l;

	for (l = lent_lookups; l < lent_lookups + LENT_NAMES; l++)
		if (!is_named(p, l->target) && lent_hides(l) &&
		    add_file(p, l->target, l->text, 0644, refusal) != 0)
			return -1;
	return 0;
}

/* What gives more rights outside gives none inside; here it says so, in words and by its code. */
static int
add_rights(struct run_plan *p, struct refusal *refusal)
{
	static const char *const tools[] = {
	    "/usr/bin/sudo", "/usr/bin/su", "/usr/bin/doas", "/usr/bin/pkexec"};
	static const char says[] =
	    "#!/bin/sh\n"
	    "echo \"bastion: run: nothing inside gets more rights than it has, so"
	    " ${0##*/} is refused; leave it out, or do that step outside\" >&2\n"
	    "exit 126\n";
	char real[PATH_MAX];
	size_t i;

	for (i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (realpath(tools[i], real) != NULL && strncmp(real, "/usr/", 5) == 0 &&
		    !is_named(p, real) && add_file(p, real, says, 0755, refusal) != 0)
			return -1;
	return 0;
}

int
run_plan_make(
    struct run_plan *p, const struct home *home, char **argv, bool lane, struct refusal *refusal)
{
	const struct sandbox_listener listeners[] = {{.port = RUN_HTTP}, {.port = RUN_SOCKS},
	    {.port = RUN_DNS, .datagram = true, .any = true}, {.port = RUN_CAUGHT, .catch = true}};

	p->plan.argv = argv;
	p->plan.uid = geteuid();
	p->plan.gid = getegid();
	p->plan.paths = p->paths;
	if (home_find(p, refusal) != 0 || add_folder(p, refusal) != 0 ||
	    add_agents(p, refusal) != 0 || add_home(p, refusal) != 0 ||
	    sandbox_system(&p->system, &p->plan, p->paths, home, p->home, refusal) != 0 ||
	    add_rights(p, refusal) != 0 || (lane && add_names(p, refusal) != 0))
		return -1;
	if (lane) {
		memcpy(p->listeners, listeners, sizeof(listeners));
		p->plan.net = SANDBOX_NET_CAUGHT;
		p->plan.listeners = p->listeners;
		p->plan.listener_count = SANDBOX_LISTENERS;
	}
	return 0;
}

void
run_plan_handle(struct run_plan *p)
{
	/* One that nobody talks to, at whatever port. */
	p->listeners[0] = (struct sandbox_listener){.datagram = true};
	p->plan.listeners = p->listeners;
	p->plan.listener_count = 1;
}

/*
 * The environment.
 */

static int
put(struct run_plan *p, char *text, struct refusal *refusal)
{
	size_t i, n = text != NULL ? strcspn(text, "=") : 0;
	char **grown;

	if (text == NULL)
		return refusal_set(refusal, "sandbox.plan", "out of memory");
	for (i = 0; i < p->env_count; i++)
		if (strncmp(p->env[i], text, n + 1) == 0) {
			free(p->env[i]);
			p->env[i] = text;
			return 0;
		}
	if (p->env_count == SANDBOX_WORDS_MAX ||
	    (grown = realloc(p->env, (p->env_count + 2) * sizeof(*grown))) == NULL) {
		free(text);
		return refusal_set(refusal, "sandbox.plan", "the environment is too large");
	}
	p->env = grown;
	p->env[p->env_count++] = text;
	p->env[p->env_count] = NULL;
	return 0;
}

static int
put_value(struct run_plan *p, const char *name, const char *value, struct refusal *refusal)
{
	char *text = malloc(strlen(name) + strlen(value) + 2);

	if (text != NULL)
		sprintf(text, "%s=%s", name, value);
	return put(p, text, refusal);
}

int
run_plan_env(struct run_plan *p, const char *text, struct refusal *refusal)
{
	const char *value;

	if (text[0] == '\0' || text[0] == '=')
		return refusal_set(refusal, "sandbox.plan", "a variable has a name");
	if (strchr(text, '=') != NULL)
		return put(p, strdup(text), refusal);
	value = getenv(text);
	return value != NULL ? put_value(p, text, value, refusal) : 0;
}

static bool
env_named(const struct run_plan *p, const char *name)
{
	size_t i, n = strlen(name);

	for (i = 0; i < p->env_count; i++)
		if (strncmp(p->env[i], name, n) == 0 && p->env[i][n] == '=')
			return true;
	return false;
}

int
run_plan_environment(struct run_plan *p, const char *nonce, bool lane, struct refusal *refusal)
{
	static const char *const proxies[][2] = {{"HTTP_PROXY", "http://127.0.0.1:3128"},
	    {"HTTPS_PROXY", "http://127.0.0.1:3128"}, {"ALL_PROXY", "socks5h://127.0.0.1:1080"},
	    {"NO_PROXY", "localhost,127.0.0.1,::1"}, {"http_proxy", "http://127.0.0.1:3128"},
	    {"https_proxy", "http://127.0.0.1:3128"}, {"all_proxy", "socks5h://127.0.0.1:1080"},
	    {"no_proxy", "localhost,127.0.0.1,::1"}, {"NODE_USE_ENV_PROXY", "1"}};
	const char *fixed[][2] = {{"HOME", p->home}, {"TMPDIR", "/tmp"}, {"SHELL", "/bin/sh"},
	    {"BASTION_SANDBOXED", "1"},
	    {"BASTION_SANDBOX_BACKEND",
		p->plan.backend == BACKEND_NATIVE ? "native" : "bubblewrap"},
	    {"BASTION_SANDBOX_RUN", nonce}};
	const char *value;
	size_t i;
	int rc = p->ssh ? put_value(p, "SSH_AUTH_SOCK", RUN_SSH_AGENT, refusal) : 0;

	for (i = 0; rc == 0 && i < sizeof(passed) / sizeof(passed[0]); i++)
		if ((value = getenv(passed[i])) != NULL && !env_named(p, passed[i]))
			rc = put_value(p, passed[i], value, refusal);
	for (i = 0; rc == 0 && lane && i < sizeof(proxies) / sizeof(proxies[0]); i++)
		if (!env_named(p, proxies[i][0]))
			rc = put_value(p, proxies[i][0], proxies[i][1], refusal);
	for (i = 0; rc == 0 && i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (i > 2 || !env_named(p, fixed[i][0]))
			rc = put_value(p, fixed[i][0], fixed[i][1], refusal);
	p->plan.env = p->env;
	return rc;
}

/*
 * Whom programs trust.
 */

/* Where systems have all authorities in one file. */
static const char *const root_files[] = {"/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

/* Open what the machine, and the lane with it, trusts.  Return a descriptor, or -1: nothing. */
static int
roots_open(void)
{
	const char *path = getenv("SSL_CERT_FILE");
	size_t i;
	int fd;

	if (path != NULL && path[0] != '\0')
		return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	for (i = 0; i < sizeof(root_files) / sizeof(root_files[0]); i++)
		if ((fd = open(root_files[i], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) != -1)
			return fd;
	return -1;
}

/* Copy ${from} to ${fd}, with the end of a line behind it. */
static int
roots_copy(int from, int fd)
{
	char bytes[65536];
	struct stat st;
	ssize_t n = 0;
	size_t all = 0;

	if (fstat(from, &st) != 0 || !S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	while (all <= RUN_ROOTS_MAX && (n = read(from, bytes, sizeof(bytes))) > 0) {
		if (write_all(fd, bytes, (size_t)n) != 0)
			return -1;
		all += (size_t)n;
	}
	if (all > RUN_ROOTS_MAX)
		errno = EFBIG;
	return n == 0 && all <= RUN_ROOTS_MAX ? write_all(fd, "\n", 1) : -1;
}

/* Make the file ${path} of ${pem}, with ${all} behind what the machine trusts. */
static int
trust_make(const char *path, const char *pem, bool all, struct refusal *refusal)
{
	int roots = all ? roots_open() : -1, rc = 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd == -1 || (roots != -1 && roots_copy(roots, fd) != 0) ||
	    write_all(fd, pem, strlen(pem)) != 0 || fchmod(fd, 0444) != 0)
		rc = refusal_errno(refusal, "run.inspect", "what programs trust cannot be written");
	if (roots != -1)
		close(roots);
	if (fd != -1)
		close(fd);
	return rc;
}

static int
trust_variables(struct run_plan *p, struct refusal *refusal)
{
	/* All but the last two have their file in place of what is trusted otherwise. */
	static const char *const names[][2] = {{"SSL_CERT_FILE", RUN_ROOTS},
	    {"CURL_CA_BUNDLE", RUN_ROOTS}, {"REQUESTS_CA_BUNDLE", RUN_ROOTS},
	    {"GIT_SSL_CAINFO", RUN_ROOTS}, {"PIP_CERT", RUN_ROOTS}, {"AWS_CA_BUNDLE", RUN_ROOTS},
	    {"CARGO_HTTP_CAINFO", RUN_ROOTS}, {"NPM_CONFIG_CAFILE", RUN_ROOTS},
	    {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", RUN_ROOTS}, {"NODE_EXTRA_CA_CERTS", RUN_CA},
	    {"DENO_CERT", RUN_CA}};
	size_t i;
	int rc = 0;

	for (i = 0; rc == 0 && i < sizeof(names) / sizeof(names[0]); i++)
		if (!env_named(p, names[i][0]))
			rc = put_value(p, names[i][0], names[i][1], refusal);
	p->plan.env = p->env;
	return rc;
}

int
run_plan_trust(struct run_plan *p, const char *nonce, const char *pem, struct refusal *refusal)
{
	struct stat st;
	size_t i;
	int rc = 0;

	/* Of this run: others in the same folder have an authority of their own. */
	snprintf(p->ca, sizeof(p->ca), "%.3900s.%.40s.ca", p->kept, nonce);
	snprintf(p->roots, sizeof(p->roots), "%.3900s.%.40s.roots", p->kept, nonce);
	if (trust_make(p->ca, pem, false, refusal) != 0 ||
	    trust_make(p->roots, pem, true, refusal) != 0 ||
	    add(p, SANDBOX_READ, p->ca, RUN_CA, refusal) != 0 ||
	    add(p, SANDBOX_READ, p->roots, RUN_ROOTS, refusal) != 0)
		return -1;
	/* Programs that ask no variable find it where the machine has its own. */
	for (i = 0; rc == 0 && i < sizeof(root_files) / sizeof(root_files[0]); i++)
		if (!is_named(p, root_files[i]) && lstat(root_files[i], &st) == 0 &&
		    S_ISREG(st.st_mode))
			rc = add(p, SANDBOX_READ, p->roots, root_files[i], refusal);
	return rc == 0 ? trust_variables(p, refusal) : -1;
}

void
run_plan_placed(struct run_plan *p)
{
	if (p->ca[0] != '\0')
		unlink(p->ca);
	if (p->roots[0] != '\0')
		unlink(p->roots);
	p->ca[0] = p->roots[0] = '\0';
}

void
run_plan_free(struct run_plan *p)
{
	size_t i;

	run_plan_placed(p);
	for (i = 0; i < p->text_count; i++)
		free(p->texts[i]);
	sandbox_system_free(&p->system);
	for (i = 0; i < p->env_count; i++)
		free(p->env[i]);
	free(p->env);
}
