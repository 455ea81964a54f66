/* sandbox_backend.c: which backend, whether we are in one already, and bwrap's command. */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/kill.h"
#include "engine/worker/sandbox_backend.h"

/* The inode of the user namespace that a machine starts with (include/linux/proc_ns.h). */
#define FIRST_USER_NS 0xEFFFFFFDu

/*
 * Which one.
 */

void
sandbox_wsl_parse(const char *text, struct sandbox_wsl *wsl)
{
	size_t n;

	memset(wsl, 0, sizeof(*wsl));
	if (text == NULL)
		return;
	while (isspace((unsigned char)*text))
		text++;
	snprintf(wsl->kernel, sizeof(wsl->kernel), "%s", text);
	for (n = strlen(wsl->kernel); n > 0 && isspace((unsigned char)wsl->kernel[n - 1]); n--)
		wsl->kernel[n - 1] = '\0';
	wsl->wsl = strcasestr(text, "microsoft") != NULL || strcasestr(text, "wsl") != NULL;
	wsl->wsl2 = strcasestr(text, "microsoft") != NULL && strcasestr(text, "wsl1") == NULL;
}

/* Make a user namespace and leave it at once: nothing tells as surely whether one can be made. */
static bool
can_make_namespace(void)
{
	struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(0);
	if (pid == -1)
		return false;
	while (waitpid((pid_t)pid, NULL, 0) == -1 && errno == EINTR)
		continue;
	return true;
}

static const char *
find_program(const char *name, const char *path, char *room)
{
	struct stat st;
	size_t n;

	for (; path != NULL && *path != '\0'; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (n > 0 && path[0] == '/' &&
		    snprintf(room, BACKEND_PATH_MAX, "%.*s/%s", (int)n, path, name) <
			BACKEND_PATH_MAX &&
		    stat(room, &st) == 0 && S_ISREG(st.st_mode) && access(room, X_OK) == 0)
			return room;
	}
	return NULL;
}

/* Return whether ${pid} ends with 0 in its time; it is gone in any case. */
static bool
ends_well(pid_t pid)
{
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0U), .events = POLLIN};
	int status = -1;

	if (end.fd == -1 || poll(&end, 1, BACKEND_PROBE_MS) != 1)
		kill_process(pid, SIGKILL);
	if (end.fd != -1)
		close(end.fd);
	while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
		continue;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Have bwrap make a sandbox, for a program that does nothing. */
static bool
bubblewrap_works(const char *bwrap)
{
	static const char *const words[] = {"bwrap", "--die-with-parent", "--new-session",
	    "--unshare-user", "--unshare-pid", "--unshare-net", "--cap-drop", "ALL", "--ro-bind",
	    "/", "/", "--", "/bin/true", NULL};
	char *const env[] = {NULL};
	posix_spawn_file_actions_t to;
	pid_t pid = -1;
	int fd, rc;

	if (posix_spawn_file_actions_init(&to) != 0)
		return false;
	rc = posix_spawn_file_actions_addopen(&to, 0, "/dev/null", O_RDWR, 0);
	for (fd = 1; rc == 0 && fd < 3; fd++)
		rc = posix_spawn_file_actions_adddup2(&to, 0, fd);
	if (rc == 0)
		rc = posix_spawn(&pid, bwrap, &to, NULL, (char *const *)(uintptr_t)words, env);
	posix_spawn_file_actions_destroy(&to);
	return rc == 0 && ends_well(pid);
}

void
sandbox_facts(struct sandbox_facts *facts, const char *path, char *room)
{
	char text[BACKEND_KERNEL_MAX];
	ssize_t n = -1;
	int fd;

	memset(facts, 0, sizeof(*facts));
	facts->namespaces = can_make_namespace();
	facts->bubblewrap = find_program("bwrap", path, room);
	facts->bubblewrap_fails =
	    !facts->namespaces && facts->bubblewrap != NULL && !bubblewrap_works(facts->bubblewrap);
	if ((fd = open("/proc/version", O_RDONLY | O_CLOEXEC)) != -1) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n > 0)
		text[n] = '\0';
	sandbox_wsl_parse(n > 0 ? text : NULL, &facts->wsl);
}

static void
record_none(const struct sandbox_facts *facts, struct sandbox_record *r)
{
	const struct sandbox_wsl *wsl = &facts->wsl;

	*r = (struct sandbox_record){.backend = BACKEND_NONE,
	    .name = wsl->wsl ? "wsl" : "none",
	    .fallback = true,
	    .proxy_egress = wsl->wsl};
	if (wsl->wsl)
		snprintf(r->message, sizeof(r->message),
		    "this is WSL %d, where nothing confines a program; its traffic can be led through the proxy, "
		    "by its own good will",
		    wsl->wsl2 ? 2 : 1);
	else
		snprintf(r->message, sizeof(r->message),
		    "nothing confines a program here: neither user namespaces nor bwrap%s",
		    facts->bubblewrap_fails ? ", which is there and makes no sandbox" : "");
}

static void
record_native(struct sandbox_record *r)
{
	*r = (struct sandbox_record){.backend = BACKEND_NATIVE,
	    .name = "native",
	    .available = true,
	    .isolation = true,
	    .scoped_egress = true};
}

static void
record_bubblewrap(const struct sandbox_facts *facts, struct sandbox_record *r)
{
	*r = (struct sandbox_record){.backend = BACKEND_BUBBLEWRAP,
	    .name = "bubblewrap",
	    .available = true,
	    .isolation = true,
	    .executable = facts->bubblewrap};
}

void
sandbox_backend_best(const struct sandbox_facts *facts, struct sandbox_record *record)
{
	if (facts->namespaces)
		record_native(record);
	else if (facts->bubblewrap != NULL && !facts->bubblewrap_fails)
		record_bubblewrap(facts, record);
	else
		record_none(facts, record);
}

static int
refuse_native(const struct sandbox_facts *facts, struct refusal *refusal)
{
	if (facts->wsl.wsl && !facts->wsl.wsl2)
		return refusal_set(refusal, "sandbox.userns",
		    "this is WSL 1, which has no user namespaces, and nothing runs without one: WSL 2 has them"
		    " (wsl --set-version)");
	return refusal_set(refusal, "sandbox.userns",
	    "no user namespace can be made here, and nothing runs without one%s",
	    facts->bubblewrap != NULL && !facts->bubblewrap_fails
		? "; bwrap is here and is able to: --backend bubblewrap"
		: "");
}

int
sandbox_backend_choose(const char *want, const struct sandbox_facts *facts,
    struct sandbox_record *record, struct refusal *refusal)
{
	if (want == NULL || strcmp(want, "native") == 0) {
		if (!facts->namespaces)
			return refuse_native(facts, refusal);
		record_native(record);
		return 0;
	}
	if (strcmp(want, "bubblewrap") == 0) {
		if (facts->bubblewrap == NULL)
			return refusal_set(
			    refusal, "sandbox.backend", "bwrap is not installed on this machine");
		if (facts->bubblewrap_fails)
			return refusal_set(refusal, "sandbox.backend",
			    "bwrap is installed, and can make no sandbox on this machine");
		record_bubblewrap(facts, record);
		return 0;
	}
	if (strcmp(want, "none") == 0) {
		record_none(facts, record);
		return 0;
	}
	return refusal_set(refusal, "usage.wrong", "a backend is native, bubblewrap or none");
}

/*
 * bwrap.
 */

struct words {
	const char **argv;
	int n;
	char *room;
	size_t left;
	bool full;
};

static void
word(struct words *w, const char *text)
{
	if (w->n >= BACKEND_ARGV_MAX - 1)
		w->full = true;
	else
		w->argv[w->n++] = text;
}

static void
words(struct words *w, const char *a, const char *b, const char *c)
{
	word(w, a);
	if (b != NULL)
		word(w, b);
	if (c != NULL)
		word(w, c);
}

/* A NAME=VALUE of an environment as --setenv NAME VALUE. */
static void
setenv_words(struct words *w, const char *variable)
{
	const char *equals = strchr(variable, '=');
	size_t n = equals != NULL ? (size_t)(equals - variable) : 0;

	if (n == 0)
		return;
	if (n + 1 > w->left) {
		w->full = true;
		return;
	}
	memcpy(w->room, variable, n);
	w->room[n] = '\0';
	words(w, "--setenv", w->room, equals + 1);
	w->room += n + 1;
	w->left -= n + 1;
}

/* Where ${path}, which lies in the source of ${p}, is inside; in the room unless it is its own
 * name. */
static const char *
place_inside(struct words *w, const struct sandbox_path *p, const char *path)
{
	const char *rest = path + strlen(p->source);
	char *out = w->room;
	int n;

	if (strcmp(p->source, p->target) == 0)
		return path;
	n = snprintf(out, w->left, "%s%s", p->target, rest);
	if (n < 0 || (size_t)n >= w->left) {
		w->full = true;
		return path;
	}
	w->room += n + 1;
	w->left -= (size_t)n + 1;
	return out;
}

static void
path_words(struct words *w, const struct sandbox_path *p)
{
	struct stat st;

	switch (p->kind) {
	case SANDBOX_READ:
		words(w, "--ro-bind", p->source, p->target);
		break;
	case SANDBOX_WRITE:
		words(w, "--bind", p->source, p->target);
		break;
	case SANDBOX_LINK:
		words(w, "--symlink", p->source, p->target);
		break;
	case SANDBOX_KEEP:
		words(w, "--ro-bind", p->target, p->target);
		break;
	case SANDBOX_HIDE:
		if (lstat(p->target, &st) == 0 && S_ISDIR(st.st_mode))
			words(w, "--tmpfs", p->target, NULL);
		else
			words(w, "--ro-bind", "/dev/null", p->target);
		break;
	default:
		break;
	}
}

static void
fixed_words(struct words *w, const struct sandbox_plan *plan)
{
	static const char *const first[] = {"--die-with-parent", "--new-session", "--unshare-user",
	    "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--cap-drop",
	    "ALL", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"};
	size_t i;

	for (i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		word(w, first[i]);
	if (plan->net != SANDBOX_NET_HOST)
		word(w, "--unshare-net");
}

/* Is what is seen at ${path} shown there by another name than it has outside? */
static bool
is_moved(const struct sandbox_plan *plan, const char *path)
{
	const struct sandbox_path *p, *at = NULL;
	size_t i;

	for (i = 0; i < plan->path_count; i++) {
		p = &plan->paths[i];
		if (p->kind <= SANDBOX_WRITE && sandbox_within(path, p->target) &&
		    (at == NULL || strlen(p->target) > strlen(at->target)))
			at = p;
	}
	return at != NULL && strcmp(at->source, at->target) != 0;
}

/* What hides or keeps comes behind all that it could lie in; there it has one name for both sides.
 */
static int
paths_fit(const struct sandbox_plan *plan, struct refusal *refusal)
{
	enum sandbox_kind kind;
	size_t i;

	for (i = 0; i < plan->path_count; i++) {
		kind = plan->paths[i].kind;
		if (kind == SANDBOX_EFFECT)
			return refusal_set(
			    refusal, "sandbox.backend", "bubblewrap cannot gather changes");
		if (kind == SANDBOX_SHOW)
			return refusal_set(refusal, "sandbox.backend",
			    "bubblewrap cannot show a part of what is hidden");
		if (kind == SANDBOX_SOCKET)
			return refusal_set(refusal, "sandbox.backend",
			    "sockets are shown only in a sandbox of our own");
		if ((kind == SANDBOX_HIDE || kind == SANDBOX_KEEP) &&
		    is_moved(plan, plan->paths[i].target))
			return refusal_set(refusal, "sandbox.backend",
			    "with bubblewrap what is hidden or kept has the same name inside");
	}
	return 0;
}

/* Wherever the folder ${path} is seen by the plan there is an empty one. */
static void
forbid_words(struct words *w, const struct sandbox_plan *plan, const char *path)
{
	const struct sandbox_path *p;
	size_t i;

	for (i = 0; i < plan->path_count; i++) {
		p = &plan->paths[i];
		if (p->kind <= SANDBOX_WRITE && sandbox_within(path, p->source))
			words(w, "--tmpfs", place_inside(w, p, path), NULL);
	}
}

static int
by_target(const void *a, const void *b)
{
	const struct sandbox_path *const *one = a, *const *other = b;

	return strcmp((*one)->target, (*other)->target);
}

/* What is shown, then what hides or keeps; each behind what it lies in. */
static void
paths_words(struct words *w, const struct sandbox_plan *plan)
{
	const struct sandbox_path *sorted[SANDBOX_PATHS_MAX] = {NULL};
	size_t i;
	int late;

	for (i = 0; i < plan->path_count; i++)
		sorted[i] = &plan->paths[i];
	qsort(sorted, plan->path_count, sizeof(sorted[0]), by_target);
	for (late = 0; late < 2; late++)
		for (i = 0; i < plan->path_count; i++)
			if ((sorted[i]->kind > SANDBOX_LINK) == late)
				path_words(w, sorted[i]);
}

int
sandbox_bubblewrap(const struct sandbox_plan *plan, const char *executable, const char **argv,
    char *room, size_t size, struct refusal *refusal)
{
	struct words w = {.argv = argv, .room = room, .left = size};
	size_t i;

	if (plan->path_count > SANDBOX_PATHS_MAX)
		return refusal_set(refusal, "sandbox.backend", "there are too many paths");
	if (paths_fit(plan, refusal) == -1)
		return -1;
	word(&w, executable);
	fixed_words(&w, plan);
	paths_words(&w, plan);
	for (i = 0; i < plan->forbidden_count; i++)
		forbid_words(&w, plan, plan->forbidden[i]);
	words(&w, "--chdir", plan->cwd, "--clearenv");
	for (i = 0; plan->env[i] != NULL; i++)
		setenv_words(&w, plan->env[i]);
	word(&w, "--");
	for (i = 0; plan->argv[i] != NULL; i++)
		word(&w, plan->argv[i]);
	argv[w.n] = NULL;
	return !w.full ? w.n
		       : refusal_set(refusal, "sandbox.backend",
			     "the command for bubblewrap is longer than it may be");
}

/*
 * Whether we are in one.
 */

bool
sandbox_marked(const char *sandboxed, const char *backend)
{
	if (sandboxed == NULL || backend == NULL || strcmp(sandboxed, "1") != 0)
		return false;
	return backend[strspn(backend, " \t\r\n\v\f")] != '\0';
}

int
sandbox_namespaces(pid_t pid, uint64_t *user_ns, uint64_t *pid_ns)
{
	char path[64], who[16] = "self";
	struct stat user, child;

	if (pid != 0)
		snprintf(who, sizeof(who), "%d", (int)pid);
	snprintf(path, sizeof(path), "/proc/%s/ns/user", who);
	if (stat(path, &user) == -1)
		return -1;
	snprintf(path, sizeof(path), "/proc/%s/ns/pid", who);
	if (stat(path, &child) == -1)
		return -1;
	*user_ns = user.st_ino;
	*pid_ns = child.st_ino;
	return 0;
}

/* Return whether a line of /proc/self/status is exactly ${line}. */
static bool
status_says(const char *status, const char *line)
{
	const char *at = strstr(status, line);

	return at != NULL && at > status && at[-1] == '\n' && at[strlen(line)] == '\n';
}

bool
sandbox_inside(const char *sandboxed, const char *backend)
{
	uint64_t user_ns, pid_ns;
	char status[8192];
	ssize_t n;
	int fd;

	if (!sandbox_marked(sandboxed, backend) || sandbox_namespaces(0, &user_ns, &pid_ns) == -1 ||
	    user_ns == FIRST_USER_NS)
		return false;
	if ((fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC)) == -1)
		return false;
	n = read(fd, status, sizeof(status) - 1);
	close(fd);
	status[n > 0 ? n : 0] = '\0';
	return status_says(status, "NoNewPrivs:\t1") && status_says(status, "Seccomp:\t2") &&
	       status_says(status, "CapBnd:\t0000000000000000");
}

void
sandbox_unmark(char **env)
{
	static const char *const names[] = {
	    "BASTION_SANDBOXED=", "BASTION_SANDBOX_BACKEND=", "BASTION_SANDBOX_RUN="};
	char **to = env;
	size_t i;

	for (; *env != NULL; env++) {
		for (i = 0; i < 3; i++)
			if (strncmp(*env, names[i], strlen(names[i])) == 0)
				break;
		if (i == 3)
			*to++ = *env;
	}
	*to = NULL;
}
