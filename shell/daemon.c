/* daemon.c: the daemon is told to end by a signal, and says that it serves as to a service manager.
 */
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/actor/lock.h"
#include "engine/clock.h"
#include "engine/worker/kill.h"
#include "engine/worker/tool.h"
#include "shell/daemon.h"

static const char LIVE[] =
    "SELECT p.boot_id, p.pid, p.start_ticks, i.state = 'ready' FROM instance AS i JOIN process AS p ON p.id = i.process_id"
    " WHERE i.state IN ('starting', 'ready', 'draining')"
    "   AND process_alive(p.boot_id, p.pid, p.start_ticks)";

/* The child, and how it is heard. */
struct start {
	struct cli *cli;
	pid_t pid;
	int pidfd, ready;
	char address[64], log[PATH_MAX];
};

/* Open the state to look who serves it.  One that the daemon of another bastion made may be older
 * than this one: that daemon has to be ended before the state can be brought up to date. */
static int
open_state(struct cli *cli)
{
	if (cli->db != NULL || cli_open(cli, ROLE_READER) == 0)
		return 0;
	if (strcmp(cli->refusal.code, "store.older") != 0)
		return -1;
	cli->db = store_open(&cli->home, ROLE_MIGRATE, NULL, &cli->refusal);
	return cli->db != NULL ? 0 : -1;
}

/* Store who serves in ${who}, and whether it does yet.  Return 1, 0 where nobody does, or -1. */
static int
find(struct cli *cli, struct identity *who, bool *ready)
{
	struct stmt *q;
	int n;

	if (open_state(cli) != 0 || (q = store_sql(cli->db, LIVE)) == NULL)
		return -1;
	if ((n = stmt_step(q)) != 1)
		return n;
	snprintf(who->boot_id, sizeof(who->boot_id), "%s", stmt_get_text(q, 0));
	who->pid = stmt_get_int(q, 1);
	who->start_ticks = stmt_get_int(q, 2);
	*ready = stmt_get_int(q, 3) == 1;
	stmt_done(q);
	return 1;
}

/*
 * Ending it.
 */

/* Hold the process before it is looked at once more: that is the one that is signalled. */
static int
hold(const struct identity *who)
{
	int fd = pidfd_open((pid_t)who->pid, 0);

	if (fd != -1 && !identity_alive(who->boot_id, who->pid, who->start_ticks)) {
		close(fd);
		errno = ESRCH;
		return -1;
	}
	return fd;
}

int
daemon_stop(struct cli *cli, int64_t *pid)
{
	struct pollfd end = {.events = POLLIN};
	struct identity who;
	int64_t wait_ms;
	bool ready;
	int n;

	*pid = 0;
	if ((n = find(cli, &who, &ready)) != 1) {
		/* Without a state there is no daemon of it. */
		if (n == -1 && strcmp(cli->refusal.code, "store.missing") != 0)
			return -1;
		return 0;
	}
	if ((end.fd = hold(&who)) == -1 && errno == ESRCH)
		return 0;
	/* Its grace, that of the killed, and what it seals last. */
	wait_ms = 2 * store_setting(cli->db, "actor.drain_ms") +
		  store_setting(cli->db, "session.kill_ms") + 10000;
	*pid = who.pid;
	if (end.fd == -1 || pidfd_send_signal(end.fd, SIGTERM, NULL, 0) != 0) {
		refusal_errno(&cli->refusal, "instance.stop", "the daemon");
		n = -1;
	} else {
		n = poll(&end, 1, (int)(wait_ms > INT_MAX ? INT_MAX : wait_ms));
		if (n != 1)
			refusal_set(&cli->refusal, "instance.slow",
			    "the process %" PRId64 " was told to end, and has not yet", who.pid);
	}
	if (end.fd != -1)
		close(end.fd);
	return n == 1 ? 0 : -1;
}

/*
 * Beginning it.
 */

struct asked {
	char *user;
	bool migrate;
};

static int
take_option(void *ctx, int val, const char *arg)
{
	struct asked *asked = ctx;

	if (val == 'u')
		asked->user = (char *)(uintptr_t)arg;
	else
		asked->migrate = true;
	return 0;
}

int
daemon_words(struct cli *cli, int argc, char **argv, char *words[DAEMON_WORDS_MAX + 1])
{
	static const struct option options[] = {{"user", required_argument, NULL, 'u'},
	    {"migrate", no_argument, NULL, 'm'}, {"host", no_argument, NULL, CLI_HOST},
	    {NULL, 0, NULL, 0}};
	static char user[] = "--user", migrate[] = "--migrate";
	struct asked asked = {0};
	int first, n = 0;

	if ((first = cli_options(cli, argc, argv, options, take_option, &asked)) < 0)
		return first;
	if (first < argc) {
		cli_unexpected(cli, argv[first]);
		return -1;
	}
	if (asked.user != NULL) {
		words[n++] = user;
		words[n++] = asked.user;
	}
	if (asked.migrate)
		words[n++] = migrate;
	words[n] = NULL;
	return 0;
}

/* A socket as a service manager has; only what our child says there counts. */
static int
listen_ready(struct start *s)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char random[33];
	const int on = 1;
	int n;

	random_hex(random);
	n = snprintf(s->address, sizeof(s->address), "@bastion-start-%s", random);
	memcpy(un.sun_path + 1, s->address + 1, (size_t)n - 1);
	s->ready = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->ready == -1 || setsockopt(s->ready, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == -1)
		return -1;
	return bind(s->ready, (const struct sockaddr *)&un,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n));
}

/* Whether our child said that it serves. */
static bool
is_ready(const struct start *s)
{
	char text[256];
	union {
		char buf[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
	struct msghdr m = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf)};
	const struct cmsghdr *head;
	struct ucred who;
	ssize_t n;

	while ((n = recvmsg(s->ready, &m, MSG_CMSG_CLOEXEC)) >= 0) {
		text[n] = '\0';
		head = CMSG_FIRSTHDR(&m);
		if (head != NULL && head->cmsg_level == SOL_SOCKET &&
		    head->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&who, CMSG_DATA(head), sizeof(who));
			if (who.pid == s->pid && strcmp(text, "READY=1") == 0)
				return true;
		}
		m.msg_controllen = sizeof(control.buf);
	}
	return false;
}

/* What it says before and beside its database.  Nobody else's file is written to. */
static int
open_log(struct start *s)
{
	struct stat st;
	int fd;

	snprintf(s->log, sizeof(s->log), "%s.log", s->cli->home.run);
	fd =
	    open(s->log, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd == -1)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_nlink == 1 && fchmod(fd, 0600) == 0)
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

static void __attribute__((noreturn))
become_daemon(const struct start *s, char *const *words, int null, int log)
{
	char *argv[DAEMON_WORDS_MAX + 4], bastion[] = "bastion", host[] = "host", serve[] = "serve";
	sigset_t none;
	int n = 0;

	argv[n++] = bastion;
	if (s->cli->role == HOME_HOST)
		argv[n++] = host;
	argv[n++] = serve;
	while (*words != NULL && n < DAEMON_WORDS_MAX + 3)
		argv[n++] = *words++;
	argv[n] = NULL;
	sigemptyset(&none);
	if (setsid() == -1 || dup2(null, 0) == -1 || dup2(log, 1) == -1 || dup2(log, 2) == -1 ||
	    setenv("NOTIFY_SOCKET", s->address, 1) != 0 || unsetenv("WATCHDOG_USEC") != 0 ||
	    sigprocmask(SIG_SETMASK, &none, NULL) == -1)
		_exit(127);
	execv("/proc/self/exe", argv);
	_exit(127);
}

static int
fork_daemon(struct start *s, char *const *words)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), log = open_log(s);

	s->pid = -1;
	if (null != -1 && log != -1) {
		fflush(NULL);
		if ((s->pid = fork()) == 0)
			become_daemon(s, words, null, log);
	}
	if (null != -1)
		close(null);
	if (log != -1)
		close(log);
	return s->pid == -1 ? -1 : (s->pidfd = pidfd_open(s->pid, 0)) == -1 ? -1 : 0;
}

/* Wait until it serves, or ended, or took too long.  Return 1 where it serves. */
static int
wait_ready(const struct start *s, int64_t ms)
{
	int64_t deadline = tool_now_ms() + ms, left;
	struct pollfd p[2] = {
	    {.fd = s->ready, .events = POLLIN}, {.fd = s->pidfd, .events = POLLIN}};

	for (;;) {
		left = deadline - tool_now_ms();
		/* At the deadline it is looked at once more. */
		if (poll(p, 2, left < 0 ? 0 : (int)left) == -1 && errno != EINTR)
			return 0;
		if (is_ready(s))
			return 1;
		if (p[1].revents != 0 || left <= 0)
			return 0;
	}
}

/* Nothing half begun is left: its group first, then itself. */
static void
give_up(const struct start *s)
{
	struct refusal r;

	(void)kill_tree(s->pid, s->pid, &r);
	waitpid(s->pid, NULL, 0);
}

/* Whether somebody holds the lock of the state: a daemon, though its row is not there yet. */
static bool
is_locked(struct cli *cli)
{
	struct refusal r;
	int held;

	if (home_open(&cli->home, cli->role, false, &r) == -1)
		return false;
	held = lock_is_held(cli->home.fd, "bastion.lock", &r);
	home_close(&cli->home);
	return held == 1;
}

/* Wait for another daemon to serve, where there is one.  Return its pid; 0: there is none. */
static int64_t
wait_other(struct cli *cli)
{
	const struct timespec nap = {.tv_nsec = 20000000};
	int64_t deadline = tool_now_ms() + DAEMON_READY_MS;
	struct identity who;
	bool ready = false;
	int64_t pid = 0;

	do {
		if (find(cli, &who, &ready) == 1 && ready)
			pid = who.pid;
		cli_close(cli);
		if (pid != 0 || !is_locked(cli))
			return pid;
		nanosleep(&nap, NULL);
	} while (tool_now_ms() < deadline);
	return 0;
}

static int
start(struct start *s, char *const *words)
{
	struct refusal *r = &s->cli->refusal;

	if (home_open(&s->cli->home, s->cli->role, true, r) == -1 ||
	    home_run(&s->cli->home, r) == -1)
		return -1;
	if (listen_ready(s) == -1 || fork_daemon(s, words) == -1)
		refusal_errno(r, "instance.start", "the daemon");
	else if (wait_ready(s, DAEMON_READY_MS) == 1)
		return 0;
	else
		refusal_set(
		    r, "instance.start", "the daemon does not serve; it said why in %s", s->log);
	if (s->pid > 0)
		give_up(s);
	return -1;
}

int
daemon_start(struct cli *cli, char *const *words, int64_t *pid)
{
	struct start s = {.cli = cli, .pid = -1, .pidfd = -1, .ready = -1};
	struct refusal why;
	int rc;

	if ((*pid = wait_other(cli)) > 0)
		return 1;
	cli->refusal = (struct refusal){0};
	rc = start(&s, words);
	*pid = s.pid;
	if (s.ready != -1)
		close(s.ready);
	if (s.pidfd != -1)
		close(s.pidfd);
	home_close(&cli->home);
	if (rc == 0)
		return 0;
	/* Somebody else may have been first. */
	why = cli->refusal;
	if ((*pid = wait_other(cli)) > 0)
		return 1;
	cli->refusal = why;
	return -1;
}
