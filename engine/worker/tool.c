/* tool.c: start journalctl, systemctl, ss, nft or dpkg-query, exactly as the table says. */
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "engine/worker/hold.h"
#include "engine/worker/kill.h"
#include "engine/worker/tool.h"

/* git that reaches out: to one place, by HTTPS, with no password, no other configuration and no
 * hook. */
#define GIT_OUT                                                                                    \
	"git", "-C", "<path>", "-c", "<pin>", "-c", "<trust>", "-c", "http.followRedirects=false", \
	    "-c", "http.proxy=", "-c", "credential.helper=", "-c", "protocol.allow=never", "-c",   \
	    "protocol.https.allow=always", "-c", "core.hooksPath=/dev/null", "-c",                 \
	    "core.fsmonitor=false", "-c", "transfer.fsckObjects=true"

/* Every start that a handler can make; <unit>, <since> and <lines> are the gaps. */
static const char *const argvs[TOOL_COUNT][TOOL_ARGV_MAX] = {
    [TOOL_UNITS] = {"systemctl", "list-units", "--all", "--no-legend", "--plain"},
    [TOOL_UNIT_FILES] = {"systemctl", "list-unit-files", "--no-legend", "--plain"},
    [TOOL_UNIT_LOG] = {"journalctl", "<unit>", "<since>", "-o", "short-iso", "--no-pager", "-q",
	"<lines>"},
    [TOOL_SSHD_LOG] = {"journalctl", "<since>", "-o", "short-iso", "--no-pager", "-q", "<lines>",
	"_COMM=sshd", "_COMM=sshd-session", "_COMM=sshd-auth", "_UID=0", "+",
	"_SYSTEMD_UNIT=ssh.service", "_SYSTEMD_UNIT=sshd.service", "_UID=0"},
    [TOOL_LISTENERS] = {"ss", "-Hltn"},
    [TOOL_SERVICES] = {"systemctl", "list-units", "--type=service", "--all", "--no-legend",
	"--plain"},
    [TOOL_TIMERS] = {"systemctl", "list-timers", "--all", "--output=json"},
    [TOOL_KERNEL_LOG] = {"journalctl", "-k", "<since>", "-o", "short-iso", "--no-pager", "-q",
	"<lines>"},
    [TOOL_SOCKETS] = {"ss", "-Hltunp"},
    [TOOL_RULES] = {"nft", "-j", "list", "ruleset"},
    [TOOL_PACKAGES] = {"dpkg-query", "-W",
	"-f=${binary:Package}\\t${Version}\\t${db:Status-Abbrev}\\n"},
    [TOOL_UNIT_LOADED] = {"systemctl", "show", "--property=LoadState", "--value", "--", "<name>"},
    [TOOL_UNIT_SHOW] = {"systemctl", "show", "--property=ActiveState", "--value", "--", "<name>"},
    [TOOL_UNIT_RESTART] = {"systemctl", "restart", "--no-ask-password", "--", "<name>"},
    [TOOL_TREE_CONFIG] = {"git", "-C", "<path>", "config", "--local", "--name-only", "--list"},
    [TOOL_TREE_COMMIT] = {"git", "-C", "<path>", "rev-parse", "--verify", "--quiet", "<commit>"},
    [TOOL_TREE_DIFF] = {"git", "-C", "<path>", "-c", "core.fsmonitor=false", "diff",
	"--name-status", "--no-renames", "--no-ext-diff", "--no-textconv", "HEAD", "<name>", "--"},
    [TOOL_TREE_CHECKOUT] = {"git", "-C", "<path>", "-c", "core.hooksPath=/dev/null", "-c",
	"core.fsmonitor=false", "-c", "protocol.allow=never", "checkout", "--quiet", "--detach",
	"--no-recurse-submodules", "<name>", "--"},
    [TOOL_TREE_ORIGIN] = {"git", "-C", "<path>", "config", "--local", "--get", "remote.origin.url"},
    [TOOL_TREE_REFS] = {"git", "-C", "<path>", "for-each-ref",
	"--format=%(objectname)%09%(refname)", "refs/remotes/origin/"},
    [TOOL_TREE_LOOK] = {GIT_OUT, "ls-remote", "--heads", "--", "<url>"},
    [TOOL_TREE_FETCH] = {GIT_OUT, "fetch", "--quiet", "--no-auto-maintenance",
	"--no-recurse-submodules", "--no-write-fetch-head", "--", "<url>",
	"+refs/heads/*:refs/remotes/origin/*"},
    [TOOL_GIT_VERSION] = {"git", "version"},
    [TOOL_CLUSTER_IMAGE] = {"kubectl", "<kubeconfig>", "--request-timeout=20s", "<space>", "get",
	"<deployment>", "<jsonpath>"},
    [TOOL_CLUSTER_SET] = {"kubectl", "<kubeconfig>", "--request-timeout=20s", "<space>", "set",
	"image", "<deployment>", "<image>"},
    [TOOL_PACKAGE_PLAN] = {"apt-get", "-s", "-q", "-y", "--no-install-recommends", "install", "--",
	"<name>"},
    [TOOL_PACKAGE_INSTALL] = {"apt-get", "-q", "-y", "--no-install-recommends", "--no-remove", "-o",
	"Dpkg::Options::=--force-confold", "install", "--", "<name>"},
    [TOOL_USER_LOCK] = {"usermod", "--lock", "--", "<name>"},
    /* By HTTPS alone, whatever the machine's configuration says of a registry. */
    [TOOL_IMAGE_LOOK] = {"skopeo", "inspect", "--raw", "--tls-verify=true", "<creds>", "<source>"},
    [TOOL_IMAGE_HERE] = {"skopeo", "inspect", "--raw", "<stored>"},
    [TOOL_IMAGE_PULL] = {"skopeo", "copy", "--quiet", "--src-tls-verify=true", "<src-creds>",
	"<source>", "<stored>"},
};

static char *const tool_environ[] = {
    (char[]){"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
    (char[]){"LC_ALL=C.UTF-8"},
    (char[]){"SYSTEMD_COLORS=0"},
    (char[]){"HOME=/nonexistent"},
    (char[]){"GIT_CONFIG_NOSYSTEM=1"},
    (char[]){"GIT_CONFIG_GLOBAL=/dev/null"},
    (char[]){"GIT_TERMINAL_PROMPT=0"},
    (char[]){"GIT_OPTIONAL_LOCKS=0"},
    (char[]){"DEBIAN_FRONTEND=noninteractive"},
    NULL,
};

/* Of one that is held (hold.h): there is no other way out. */
static char *const held_environ[] = {
    (char[]){"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
    (char[]){"LC_ALL=C.UTF-8"},
    (char[]){"HOME=/nonexistent"},
    (char[]){"TMPDIR=/var/tmp"},
    (char[]){"HTTPS_PROXY=" HOLD_PROXY},
    NULL,
};

static const char *
tool_path(enum tool which, const struct observe_env *env)
{
	switch (which) {
	case TOOL_UNITS:
	case TOOL_UNIT_FILES:
	case TOOL_SERVICES:
	case TOOL_TIMERS:
		return env->systemctl;
	case TOOL_UNIT_LOADED:
	case TOOL_UNIT_SHOW:
	case TOOL_UNIT_RESTART:
		return env->systemctl;
	case TOOL_TREE_CONFIG:
	case TOOL_TREE_COMMIT:
	case TOOL_TREE_DIFF:
	case TOOL_TREE_CHECKOUT:
	case TOOL_TREE_ORIGIN:
	case TOOL_TREE_REFS:
	case TOOL_TREE_LOOK:
	case TOOL_TREE_FETCH:
	case TOOL_GIT_VERSION:
		return env->git;
	case TOOL_CLUSTER_IMAGE:
	case TOOL_CLUSTER_SET:
		return env->kubectl;
	case TOOL_PACKAGE_PLAN:
	case TOOL_PACKAGE_INSTALL:
		return env->apt_get;
	case TOOL_USER_LOCK:
		return env->usermod;
	case TOOL_IMAGE_LOOK:
	case TOOL_IMAGE_HERE:
	case TOOL_IMAGE_PULL:
		return env->skopeo;
	case TOOL_RULES:
		return env->nft;
	case TOOL_PACKAGES:
		return env->dpkg_query;
	case TOOL_LISTENERS:
	case TOOL_SOCKETS:
		return env->ss;
	default:
		return env->journalctl;
	}
}

static int
fill_gap(char *out, const char *word, const struct observe_env *env, const struct tool_fill *fill)
{
	int n;

	if (strcmp(word, "<unit>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "--unit=%s", fill->unit);
	else if (strcmp(word, "<name>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "%s", fill->name);
	else if (strcmp(word, "<commit>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "%s^{commit}", fill->name);
	else if (strcmp(word, "<path>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "%s", fill->path);
	else if (strcmp(word, "<url>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "%s", fill->url);
	else if (strcmp(word, "<pin>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "http.curloptResolve=%s", fill->pin);
	else if (strcmp(word, "<trust>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "http.%s%s",
		    fill->trust[0] == '\0' ? "sslVerify=true" : "sslCAInfo=", fill->trust);
	else if (strcmp(word, "<kubeconfig>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "--kubeconfig=%s", env->kubeconfig);
	else if (strcmp(word, "<space>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "--namespace=%s", fill->space);
	else if (strcmp(word, "<deployment>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "deployment/%s", fill->deployment);
	else if (strcmp(word, "<jsonpath>") == 0)
		n = snprintf(out, TOOL_ARG_MAX,
		    "--output=jsonpath={.spec.template.spec.containers[?(@.name==\"%s\")].image}",
		    fill->container);
	else if (strcmp(word, "<image>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "%s=%s", fill->container, fill->image);
	else if (strcmp(word, "<creds>") == 0 || strcmp(word, "<src-creds>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "--%s%s%s", word[1] == 's' ? "src-" : "",
		    fill->creds[0] == '\0' ? "no-creds" : "authfile=", fill->creds);
	else if (strcmp(word, "<source>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "docker://%s", fill->source);
	else if (strcmp(word, "<stored>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "containers-storage:%s", fill->stored);
	else if (strcmp(word, "<since>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "--since=-%lldmin", (long long)fill->since_min);
	else if (strcmp(word, "<lines>") == 0)
		n = snprintf(out, TOOL_ARG_MAX, "--lines=%lld", (long long)fill->lines);
	else
		n = snprintf(out, TOOL_ARG_MAX, "%s", word);
	return n >= 0 && n < TOOL_ARG_MAX ? 0 : -1;
}

int
tool_call(enum tool which, const struct observe_env *env, const struct tool_fill *fill,
    struct tool_call *call)
{
	int i;

	memset(call, 0, sizeof(*call));
	for (i = 0; i < TOOL_ARGV_MAX && argvs[which][i] != NULL; i++) {
		if (fill_gap(call->text[i], argvs[which][i], env, fill) == -1)
			return -1;
		call->argv[i] = call->text[i];
	}
	return tool_path(which, env)[0] == '/' ? 0 : -1;
}

int64_t
tool_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The child's part: only calls that are safe between fork and exec. */
static void __attribute__((noreturn))
become_tool(const char *path, char *const *argv, char *const *envp, int null, int out)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(null, 0) == -1 || dup2(out, 1) == -1 || dup2(null, 2) == -1)
		_exit(127);
	close_range(3, ~0U, 0);
	execve(path, argv, envp);
	_exit(127);
}

/* Feed ${sink} until the end, its wish or the deadline.  Return 0, or -1 if time ran out. */
static int
drain(int fd, int64_t deadline, int (*sink)(void *, const char *, size_t), void *ctx, int *early)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char buf[65536];
	int64_t left;
	ssize_t n;

	for (;;) {
		if ((left = deadline - tool_now_ms()) <= 0)
			return -1;
		if (poll(&p, 1, (int)left) == -1 && errno != EINTR)
			return -1;
		if (p.revents == 0)
			continue;
		if ((n = read(fd, buf, sizeof(buf))) == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		if (sink(ctx, buf, (size_t)n) != 0) {
			*early = 1;
			return 0;
		}
	}
}

/* Wait for ${pid} until ${deadline}, then end it.  Return its status, or -1: it had to be ended. */
static int
reap(pid_t pid, int64_t deadline)
{
	struct timespec nap = {.tv_nsec = 1000000};
	int status, killed = 0;
	pid_t got;

	for (;;) {
		if ((got = waitpid(pid, &status, WNOHANG)) == pid)
			return killed ? -1 : status;
		if (got == -1 && errno != EINTR)
			return -1;
		if (tool_now_ms() >= deadline) {
			if (killed)
				return -1;
			kill_process(pid, SIGKILL);
			killed = 1;
			deadline = tool_now_ms() + 1000;
		}
		nanosleep(&nap, NULL);
	}
}

/* Only the code that is documented for it says that something is not there; any other is a fault.
 */
static bool
says_absent(enum tool which, int status)
{
	if (!WIFEXITED(status))
		return false;
	if (which == TOOL_PACKAGE_PLAN)
		return WEXITSTATUS(status) == 100; /* apt-get(8) */
	return (which == TOOL_TREE_COMMIT || which == TOOL_TREE_ORIGIN) &&
	       WEXITSTATUS(status) == 1; /* git-rev-parse(1) --quiet, git-config(1) */
}

/* Start ${path} in ${envp}; its output can be read from ${*fd}. */
static pid_t
start(const char *path, char *const *argv, char *const *envp, int *fd)
{
	int out[2], null;
	pid_t pid;

	/* Under the handlers' seal nothing can be opened for writing, /dev/null included. */
	if ((null = open("/dev/null", O_RDWR | O_CLOEXEC)) == -1 &&
	    (null = open("/dev/null", O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	if (pipe2(out, O_CLOEXEC) == -1) {
		close(null);
		return -1;
	}
	if ((pid = fork()) == 0)
		become_tool(path, argv, envp, null, out[1]);
	close(out[1]);
	close(null);
	if (pid == -1)
		close(out[0]);
	*fd = out[0];
	return pid;
}

int
tool_run(enum tool which, const struct observe_env *env, const struct tool_fill *fill,
    int64_t time_ms, int (*sink)(void *, const char *, size_t), void *ctx, char *why, size_t whylen)
{
	int64_t deadline = tool_now_ms() + time_ms;
	struct tool_call call;
	int fd, status, late, early = 0;
	pid_t pid;

	if (tool_call(which, env, fill, &call) == -1 || access(tool_path(which, env), X_OK) != 0) {
		snprintf(why, whylen, "this machine has no %s", argvs[which][0]);
		return -1;
	}
	if ((pid = start(tool_path(which, env), call.argv,
		 tool_path(which, env) == env->skopeo ? held_environ : tool_environ, &fd)) == -1) {
		snprintf(why, whylen, "%s cannot be started", argvs[which][0]);
		return -1;
	}
	late = drain(fd, deadline, sink, ctx, &early);
	close(fd);
	status = reap(pid, late == -1 || early ? 0 : deadline);
	if (early)
		return 0;
	if (late == -1 || status == -1) {
		snprintf(why, whylen, "%s did not end in time", argvs[which][0]);
		return -1;
	}
	if (says_absent(which, status))
		return TOOL_ABSENT;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		snprintf(why, whylen, "%s failed", argvs[which][0]);
		return -1;
	}
	return 0;
}

int
tool_lines_sink(void *ctx, const char *data, size_t len)
{
	struct tool_lines *l = ctx;
	const char *end;
	size_t n, fits;

	while (len > 0) {
		end = memchr(data, '\n', len);
		n = end != NULL ? (size_t)(end - data) : len;
		fits = sizeof(l->buf) - l->used;
		memcpy(l->buf + l->used, data, n < fits ? n : fits);
		l->used += n < fits ? n : fits;
		if (end == NULL)
			return 0;
		if (l->line(l->ctx, l->buf, l->used) != 0)
			return 1;
		l->used = 0;
		data = end + 1;
		len -= n + 1;
	}
	return 0;
}

void
tool_lines_end(struct tool_lines *l)
{
	if (l->used > 0)
		l->line(l->ctx, l->buf, l->used);
	l->used = 0;
}
