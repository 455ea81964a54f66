/* test_supervisor.c: a daemon of toy actors: starts, crashes, drains, refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/actor.h"
#include "engine/actor/identity.h"
#include "engine/actor/lock.h"
#include "engine/actor/loop.h"
#include "engine/actor/supervisor.h"
#include "engine/crypto/key.h"
#include "engine/state/lease.h"
#include "engine/store/gate.h"
#include "tests/scratch.h"

#define PATIENCE_MS 30000
#define NOBODY      65534

/*
 * The toys.  A file NAME.WHAT in the state directory tells one to misbehave; each start and each
 * wake appends a byte to NAME.began or NAME.wakes.
 */

static bool
told_to(const struct actor_env *env, const char *name, const char *what)
{
	char file[64];

	snprintf(file, sizeof(file), "%s.%s", name, what);
	return faccessat(env->home->fd, file, F_OK, 0) == 0;
}

static void
leave_mark(const struct actor_env *env, const char *what)
{
	char file[64];
	int fd;

	snprintf(file, sizeof(file), "%s.%s", (const char *)env->ctx, what);
	fd = openat(env->home->fd, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd == -1 || write(fd, "w", 1) != 1)
		abort();
	close(fd);
}

static int
toy_start(struct actor_env *env, struct refusal *r, const char *name)
{
	char lease[64];
	int64_t fence;

	env->ctx = strdup(name);
	leave_mark(env, "began");
	if (told_to(env, name, "refuse"))
		return refusal_set(r, "toy.rule", "the toy %s may not run", name);
	while (told_to(env, name, "slow"))
		poll(NULL, 0, 20);
	snprintf(lease, sizeof(lease), "toy.%s", name);
	if (lease_take(env->db, lease, 3600000, 0, &fence) != 0) {
		*r = *store_refusal(env->db);
		return -1;
	}
	return 0;
}

static int
start_net(struct actor_env *env, struct refusal *r)
{
	return toy_start(env, r, "net");
}

static int
start_worker(struct actor_env *env, struct refusal *r)
{
	return toy_start(env, r, "worker");
}

static int
start_keeper(struct actor_env *env, struct refusal *r)
{
	if (env->keys.secret == NULL)
		return refusal_set(r, "toy.key", "the keeper got no key");
	return toy_start(env, r, "keeper");
}

static void
toy_wake(struct actor_env *env)
{
	leave_mark(env, "wakes");
}

static void
toy_drain(struct actor_env *env)
{
	if (!told_to(env, env->ctx, "stubborn"))
		loop_stop(env->loop);
}

static void
toy_stop(struct actor_env *env)
{
	free(env->ctx);
}

static const struct actor toy_net = {.name = "net",
    .role = ROLE_NET,
    .box = true,
    .host = true,
    .filtered = true,
    .serves = true,
    .start = start_net,
    .wake = toy_wake,
    .drain = toy_drain,
    .stop = toy_stop};
static const struct actor toy_worker = {.name = "worker",
    .role = ROLE_WORKER,
    .box = true,
    .serves = true,
    .start = start_worker,
    .wake = toy_wake,
    .drain = toy_drain,
    .stop = toy_stop};
static const struct actor toy_keeper = {.name = "keeper",
    .role = ROLE_KEEPER,
    .secret = SECRET_MACHINE,
    .box = true,
    .host = true,
    .late = LATE_BOX | LATE_HOST,
    .start = start_keeper,
    .keep = toy_wake,
    .drain = toy_drain,
    .stop = toy_stop};

const struct actor *const actors[] = {&toy_net, &toy_worker, &toy_keeper, NULL};

/* "serve STATE RUN ROLE [USER]": the daemon, in a program of its own. */
static int
serve_main(int argc, char **argv)
{
	struct supervisor_options options = {.user = argc > 5 ? argv[5] : NULL};
	enum home_role role = strcmp(argv[4], "host") == 0 ? HOME_HOST : HOME_BOX;
	struct refusal r = {0};
	struct home home;
	int rc;

	umask(077);
	rc = home_at(&home, argv[2], argv[3], role, true, &r);
	if (rc == 0) {
		rc = supervisor_run(&home, &options, &r);
		home_close(&home);
	}
	if (rc == -1)
		fprintf(stderr, "refused %s: %s\n", r.code, r.why);
	return rc == 0 ? 0 : 1;
}

struct daemon {
	pid_t pid;
	int out;        /* its standard output */
	char line[256]; /* what it said there */
};

static void
daemon_exec(const struct scratch *s, const char *user, int out)
{
	char err[96], state[80], run[80];
	int fd;

	snprintf(state, sizeof(state), "%s/state", s->dir);
	snprintf(run, sizeof(run), "%s/run", s->dir);
	snprintf(err, sizeof(err), "%s/stderr", s->dir);
	fd = open(err, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	dup2(out, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	setenv("BASTION_TEST_SECRET", "hidden", 1);
	execl("/proc/self/exe", "bastion", "serve", state, run,
	    s->home.role == HOME_HOST ? "host" : "box", user, NULL);
	_exit(99);
}

static void
daemon_start_as(struct daemon *d, const struct scratch *s, const char *user)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	if ((d->pid = fork()) == 0)
		daemon_exec(s, user, ends[1]);
	assert_true(d->pid > 0);
	close(ends[1]);
	d->out = ends[0];
	d->line[0] = '\0';
}

/* Read a line of its output; false when it ended without one. */
static bool
daemon_says(struct daemon *d)
{
	struct pollfd fd = {.fd = d->out, .events = POLLIN};
	size_t len = 0;

	while (len < sizeof(d->line) - 1) {
		if (poll(&fd, 1, PATIENCE_MS) != 1)
			fail_msg("the daemon is neither ready nor gone");
		if (read(d->out, d->line + len, 1) != 1)
			return false;
		if (d->line[len++] == '\n')
			break;
	}
	d->line[len] = '\0';
	return true;
}

static char *
messages(const struct scratch *s)
{
	static char text[8192];
	char path[96];
	size_t len = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/stderr", s->dir);
	if ((f = fopen(path, "re")) != NULL) {
		len = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[len] = '\0';
	return text;
}

/* Wait for its end; return its exit code, or 128 and the signal. */
static int
daemon_ends(struct daemon *d)
{
	struct pollfd fd = {.fd = d->out, .events = 0};
	int status;

	if (poll(&fd, 1, PATIENCE_MS) != 1)
		fail_msg("the daemon does not end");
	assert_int_equal(waitpid(d->pid, &status, 0), d->pid);
	close(d->out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int
daemon_stop(struct daemon *d)
{
	assert_int_equal(kill(d->pid, SIGTERM), 0);
	return daemon_ends(d);
}

/* Start a daemon that must refuse, with ${code} and ${why} in its words. */
static void
daemon_refuses(const struct scratch *s, const char *code, const char *why)
{
	struct daemon d;
	char *said;

	daemon_start_as(&d, s, NULL);
	if (daemon_says(&d))
		fail_msg("not refused: %s", d.line);
	assert_int_equal(daemon_ends(&d), 1);
	said = messages(s);
	if (strstr(said, code) == NULL || strstr(said, why) == NULL)
		fail_msg("expected %s (%s) in: %s", code, why, said);
}

/* Wait until ${sql} gives ${value}, woken by the daemon's commits. */
static void
wait_value(struct scratch *s, const char *sql, int64_t value)
{
	struct pollfd bell = {.fd = -1, .events = POLLIN};
	int64_t end = loop_now() + PATIENCE_MS;

	while (scratch_value(s, sql) != value) { /* which opens the database */
		bell.fd = store_bell(s->db);
		if (loop_now() > end)
			fail_msg("%s does not become %lld; messages: %s", sql, (long long)value,
			    messages(s));
		poll(&bell, 1, 50);
		store_bell_quiet(s->db);
	}
}

/* Wait for the actors that nobody waits for: they begin when the daemon is ready. */
static void
all_run(struct scratch *s)
{
	wait_value(s, "SELECT count(*) FROM actor_run WHERE state = 'running'",
	    s->home.role == HOME_HOST ? 2 : 3);
}

static void
daemon_ready(struct daemon *d, const struct scratch *s, const char *user)
{
	daemon_start_as(d, s, user);
	if (!daemon_says(d))
		fail_msg("the daemon did not start: %s", messages(s));
}

static void
daemon_start(struct daemon *d, struct scratch *s)
{
	daemon_ready(d, s, NULL);
	all_run(s);
}

static void
wait_message(const struct scratch *s, const char *part)
{
	int64_t end = loop_now() + PATIENCE_MS;

	while (strstr(messages(s), part) == NULL) {
		if (loop_now() > end)
			fail_msg("nobody says %s: %s", part, messages(s));
		poll(NULL, 0, 20);
	}
}

/* The daemon has made a key of its own: its seals are checked with that. */
static void
adopt_key(struct scratch *s)
{
	struct refusal r = {0};
	char path[PATH_MAX];

	store_close(s->db);
	s->db = NULL;
	key_free(s->key);
	home_path(&s->home, "bastion.key", path);
	assert_non_null(s->key = key_load(path, &r));
	key_public(s->key, KEY_IDENTITY, s->keys.identity);
	key_public(s->key, KEY_GRANT, s->keys.grant);
	s->keys.secret = s->key;
}

static void
tell(const struct scratch *s, const char *file)
{
	int fd;

	fd = openat(s->home.fd, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static off_t
size_of(const struct scratch *s, const char *file)
{
	struct stat st;

	return fstatat(s->home.fd, file, &st, 0) == 0 ? st.st_size : 0;
}

static void
set(struct scratch *s, const char *name, int value)
{
	char sql[128];

	snprintf(sql, sizeof(sql), "UPDATE setting SET value = %d WHERE name = '%s'", value, name);
	assert_int_equal(scratch_sql(s, sql), 0);
}

/* The process of ${actor}; never 0 or below, which kill would take for many processes. */
static pid_t
pid_of(struct scratch *s, const char *actor)
{
	char sql[256];
	int64_t pid;

	snprintf(sql, sizeof(sql),
	    "SELECT pid FROM process WHERE id = (SELECT process_id FROM actor_run"
	    " WHERE actor = '%s' ORDER BY id DESC LIMIT 1)",
	    actor);
	pid = scratch_value(s, sql);
	assert_in_range(pid, 2, INT_MAX);
	return (pid_t)pid;
}

/* PT-3, LK-3: ready means rows, files and a line; the end leaves history and the permanent lock. */
static void
starts_and_drains(void **state)
{
	struct daemon d;
	struct scratch s;
	char text[256], expected[PATH_MAX + 256];

	(void)state;
	scratch_make(&s, HOME_BOX);
	daemon_start(&d, &s);
	snprintf(expected, sizeof(expected), "bastion: serving (pid %ld, state %s, sockets %s)\n",
	    (long)d.pid, s.home.state, s.home.run);
	assert_string_equal(d.line, expected);
	assert_int_equal(
	    scratch_value(&s, "SELECT pid FROM live_instance WHERE state = 'ready'"), d.pid);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run WHERE state = 'running'"
					   " AND attempt = 1 AND process_id IS NOT NULL"),
	    3);
	assert_int_equal(daemon_stop(&d), 0);
	assert_string_equal(
	    scratch_text(&s, "SELECT state || ':' || end_reason FROM instance", text, sizeof(text)),
	    "ended:signal TERM");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run WHERE state = 'ended'"
					   " AND exit_code = 0"),
	    3);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM lease WHERE process_id"), 0);
	assert_int_equal(faccessat(s.home.fd, "bastion.lock", F_OK, 0), 0);
	scratch_drop(&s);
}

/* A Host's daemon runs the Host's actors. */
static void
host_runs_its_own(void **state)
{
	struct daemon d;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_HOST);
	daemon_start(&d, &s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run"), 2);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* An empty place becomes a machine: key, database, box; the second start finds what it made. */
static void
birth(void **state)
{
	struct daemon d;
	struct scratch s;
	struct stat st;
	int64_t created;

	(void)state;
	scratch_make(&s, HOME_BOX);
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(unlinkat(s.home.fd, "bastion.key", 0), 0);
	assert_int_equal(unlinkat(s.home.fd, "bastion.db", 0), 0);
	daemon_ready(&d, &s, NULL);
	adopt_key(&s);
	assert_int_equal(fstatat(s.home.fd, "bastion.key", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM box WHERE role = 'box'"), 1);
	created = scratch_value(&s, "SELECT created_at FROM box");
	assert_int_equal(daemon_stop(&d), 0);
	daemon_start(&d, &s);
	assert_int_equal(scratch_value(&s, "SELECT created_at FROM box"), created);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* A crashed actor is started again, later each time, under a new row, and its lease is free. */
static void
crash_is_mended(void **state)
{
	struct daemon d;
	struct scratch s;
	pid_t first;

	(void)state;
	scratch_make(&s, HOME_BOX);
	set(&s, "actor.backoff_ms", 40);
	daemon_start(&d, &s);
	first = pid_of(&s, "net");
	assert_int_equal(kill(first, SIGKILL), 0);
	wait_value(&s,
	    "SELECT count(*) FROM actor_run WHERE actor = 'net' AND attempt = 2"
	    " AND state = 'running'",
	    1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run WHERE actor = 'net'"
					   " AND attempt = 1 AND state = 'failed' AND exit_code IS"
					   " NULL AND term_signal = 9"
					   " AND not_before - ended_at BETWEEN 18 AND 90"),
	    1);
	assert_int_not_equal(pid_of(&s, "net"), first);
	/* The next row is not begun before its time. */
	assert_int_equal(scratch_value(&s, "SELECT b.started_at >= a.not_before - 2 FROM actor_run"
					   " AS a JOIN actor_run AS b USING (actor)"
					   " WHERE actor = 'net' AND a.attempt = 1"
					   " AND b.attempt = 2"),
	    1);
	assert_int_equal(scratch_value(&s, "SELECT fence FROM lease WHERE name = 'toy.net'"), 2);
	kill(pid_of(&s, "net"), SIGKILL);
	wait_value(&s,
	    "SELECT count(*) FROM actor_run WHERE actor = 'net' AND attempt = 3"
	    " AND state = 'running'",
	    1);
	/* Twice the first base, within the jitter. */
	assert_int_equal(scratch_value(&s, "SELECT not_before - ended_at BETWEEN 38 AND 130"
					   " FROM actor_run WHERE actor = 'net' AND attempt = 2"),
	    1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_instance"
					   " WHERE state = 'ready'"),
	    1);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* A commit of anybody wakes every actor, also who is late. */
static void
bell_wakes(void **state)
{
	static const char *const wakes[] = {"net.wakes", "keeper.wakes"};
	int64_t end = loop_now() + PATIENCE_MS;
	struct daemon d;
	struct scratch s;
	off_t before[2];
	int i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	set(&s, "store.tick_ms", 600000);
	daemon_start(&d, &s);
	for (i = 0; i < 2; i++)
		before[i] = size_of(&s, wakes[i]);
	assert_int_equal(scratch_sql(&s, "UPDATE setting SET value = 7 WHERE name = 'op.live'"), 0);
	for (i = 0; i < 2; i++) {
		while (size_of(&s, wakes[i]) <= before[i] && loop_now() < end)
			poll(NULL, 0, 5);
		assert_true(size_of(&s, wakes[i]) > before[i]);
	}
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

static bool
process_is_gone(struct scratch *s, const char *actor)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
	    "SELECT process_alive(boot_id, pid, start_ticks) FROM process WHERE id ="
	    " (SELECT process_id FROM actor_run WHERE actor = '%s' ORDER BY id LIMIT 1)",
	    actor);
	return scratch_value(s, sql) == 0;
}

/*
 * LK-8: after kill -9 of the supervisor its actors are gone and the next start needs no hand: the
 * old instance reads as lost, its runs too, and its leases are free.
 */
static void
killed_supervisor(void **state)
{
	int64_t end = loop_now() + PATIENCE_MS;
	struct daemon d;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	daemon_start(&d, &s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM lease WHERE process_id"), 3);
	assert_int_equal(kill(d.pid, SIGKILL), 0);
	assert_int_equal(daemon_ends(&d), 128 + SIGKILL);
	while (!(process_is_gone(&s, "net") && process_is_gone(&s, "worker") &&
		   process_is_gone(&s, "keeper")) &&
	       loop_now() < end)
		poll(NULL, 0, 5);
	assert_true(process_is_gone(&s, "net"));
	assert_true(process_is_gone(&s, "worker"));
	assert_true(process_is_gone(&s, "keeper"));
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_instance"), 1);
	set(&s, "op.live", 9);
	daemon_start(&d, &s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM instance WHERE epoch = 1"
					   " AND state = 'lost' AND ended_at IS NOT NULL"),
	    1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run WHERE instance_id = 1"
					   " AND state = 'lost'"),
	    3);
	assert_int_equal(scratch_value(&s, "SELECT epoch FROM live_instance"), 2);
	/* Freed, then taken anew: two grants, two fences. */
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM lease WHERE fence = 2"), 3);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* How many actors ${pid} has started that wait for something. */
static int
children_waiting(pid_t pid)
{
	char path[64], name[32], state;
	int child, n = 0;
	FILE *all, *one;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	if ((all = fopen(path, "re")) == NULL)
		return 0;
	while (fscanf(all, "%d", &child) == 1) {
		snprintf(path, sizeof(path), "/proc/%d/stat", child);
		if ((one = fopen(path, "re")) == NULL)
			continue;
		if (fscanf(one, "%*d (%31[a-z]) %c", name, &state) == 2)
			n += state == 'S' && strcmp(name, "bastion") != 0 &&
			     strcmp(name, "exe") != 0;
		fclose(one);
	}
	fclose(all);
	return n;
}

static void
wait_children(const struct daemon *d, int n)
{
	int64_t end = loop_now() + PATIENCE_MS;

	while (children_waiting(d->pid) != n) {
		if (loop_now() > end)
			fail_msg("the daemon never has %d actors", n);
		poll(NULL, 0, 5);
	}
}

/* Start a daemon that cannot write its instance: the gate is shut.  Its actors are there. */
static int
daemon_held(struct daemon *d, const struct scratch *s)
{
	struct refusal r = {0};
	int gate;

	assert_true((gate = home_file(&s->home, "bastion.gate", &r)) >= 0);
	assert_int_equal(gate_enter(gate, 1000), 0);
	daemon_start_as(d, s, NULL);
	wait_children(d, 2);
	return gate;
}

static void
nobody_has_begun(struct scratch *s)
{
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM instance"), 0);
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM actor_run"), 0);
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM lease"), 0);
	assert_int_equal(size_of(s, "net.began"), 0);
	assert_int_equal(size_of(s, "worker.began"), 0);
	assert_int_equal(size_of(s, "keeper.began"), 0);
}

/*
 * Actors get ready beside the supervisor, and begin with its word alone: without the instance's row
 * none of them does anything, and they die with a supervisor that never wrote it.
 */
static void
no_actor_before_the_instance(void **state)
{
	struct daemon d;
	struct scratch s;
	int gate;

	(void)state;
	scratch_make(&s, HOME_BOX);
	gate = daemon_held(&d, &s);
	nobody_has_begun(&s);
	assert_int_equal(kill(d.pid, SIGKILL), 0);
	assert_int_equal(daemon_ends(&d), 128 + SIGKILL);
	close(gate);
	gate = daemon_held(&d, &s);
	nobody_has_begun(&s);
	close(gate);
	assert_true(daemon_says(&d));
	all_run(&s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run AS a"
					   " JOIN live_instance AS i ON i.id = a.instance_id"
					   " WHERE a.state = 'running'"),
	    3);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM lease WHERE fence = 1"), 3);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* RF-26: actors that do not drain are killed after one grace for all of them. */
static void
stubborn_is_killed(void **state)
{
	struct daemon d;
	struct scratch s;
	int64_t began;

	(void)state;
	scratch_make(&s, HOME_BOX);
	set(&s, "actor.drain_ms", 1000);
	tell(&s, "net.stubborn");
	tell(&s, "keeper.stubborn");
	daemon_start(&d, &s);
	began = loop_now();
	assert_int_equal(daemon_stop(&d), 0);
	assert_in_range(loop_now() - began, 900, 1900);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run WHERE state = 'failed'"
					   " AND term_signal = 9"),
	    2);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM actor_run WHERE state = 'ended'"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM instance WHERE state = 'ended'"), 1);
	scratch_drop(&s);
}

/* A second SIGTERM does not wait. */
static void
second_term_is_at_once(void **state)
{
	struct daemon d;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	set(&s, "actor.drain_ms", 600000);
	tell(&s, "net.stubborn");
	daemon_start(&d, &s);
	assert_int_equal(kill(d.pid, SIGTERM), 0);
	wait_value(&s, "SELECT count(*) FROM live_instance WHERE state = 'draining'", 1);
	assert_int_equal(daemon_stop(&d), 0);
	assert_int_equal(scratch_value(&s, "SELECT term_signal FROM actor_run"
					   " WHERE actor = 'net'"),
	    9);
	scratch_drop(&s);
}

/* SV-10, RF-46: an end that is asked for before it serves comes: an actor that takes for ever to
 * start holds up neither signals nor the end. */
static void
slow_start_does_not_hang(void **state)
{
	struct daemon d;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	set(&s, "actor.drain_ms", 200);
	tell(&s, "worker.slow");
	daemon_start_as(&d, &s, NULL);
	wait_value(&s, "SELECT count(*) FROM actor_run WHERE state = 'running'", 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_instance"
					   " WHERE state = 'starting'"),
	    1);
	assert_int_equal(daemon_stop(&d), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM instance WHERE state = 'ended'"
					   " AND ready_at IS NULL"),
	    1);
	scratch_drop(&s);
}

/* Ready is who answers: an actor that works unasked begins after it, however slow it is. */
static void
ready_is_who_serves(void **state)
{
	struct daemon d;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	tell(&s, "keeper.slow");
	daemon_ready(&d, &s, NULL);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM actor_run AS a JOIN live_instance AS i"
			      " WHERE a.state = 'running' AND i.state = 'ready'"),
	    2);
	wait_value(&s,
	    "SELECT count(*) FROM actor_run WHERE actor = 'keeper' AND state = 'starting'"
	    " AND started_at >= (SELECT ready_at FROM instance)",
	    1);
	assert_int_equal(unlinkat(s.home.fd, "keeper.slow", 0), 0);
	all_run(&s);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* One of those that may not run ends the daemon too, later by that much. */
static void
refusing_after_ready(void **state)
{
	struct daemon d;
	struct scratch s;
	char text[64];

	(void)state;
	scratch_make(&s, HOME_BOX);
	tell(&s, "keeper.refuse");
	daemon_ready(&d, &s, NULL);
	assert_int_equal(daemon_ends(&d), 1);
	assert_non_null(strstr(messages(&s), "refused toy.rule: the toy keeper may not run"));
	assert_string_equal(
	    scratch_text(&s, "SELECT state || ':' || end_reason FROM instance", text, sizeof(text)),
	    "ended:refused: toy.rule");
	scratch_drop(&s);
}

/*
 * The supervisor's word says which schema it found to be right. An actor that finds another one
 * looks for itself: it does not work with a rule that is not ours.
 */
static void
schema_is_the_supervisors(void **state)
{
	struct daemon d;
	struct scratch s;
	sqlite3 *other;
	char path[PATH_MAX];

	(void)state;
	scratch_make(&s, HOME_BOX);
	set(&s, "actor.backoff_ms", 40);
	daemon_start(&d, &s);
	home_path(&s.home, "bastion.db", path);
	assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(other, "CREATE TRIGGER mine AFTER INSERT ON lease BEGIN SELECT 1; END",
		NULL, NULL, NULL),
	    SQLITE_OK);
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	assert_int_equal(kill(pid_of(&s, "net"), SIGKILL), 0);
	wait_value(&s,
	    "SELECT count(*) FROM actor_run WHERE actor = 'net' AND attempt = 2"
	    " AND state = 'failed'",
	    1);
	wait_message(&s, "are not those of schema version");
	assert_int_equal(size_of(&s, "net.began"), 1);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* A rule that stops an actor's start stops the daemon, in the rule's words. */
static void
refusing_actor(void **state)
{
	struct scratch s;
	char text[64];

	(void)state;
	scratch_make(&s, HOME_BOX);
	tell(&s, "worker.refuse");
	daemon_refuses(&s, "refused toy.rule", "the toy worker may not run");
	assert_string_equal(
	    scratch_text(&s, "SELECT state || ':' || end_reason FROM instance", text, sizeof(text)),
	    "ended:refused: toy.rule");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM actor_run"
					   " WHERE state IN ('starting', 'running')"),
	    0);
	scratch_drop(&s);
}

/*
 * LK-1, LK-13: a second daemon is refused and told who serves, also when the lock file was removed
 * meanwhile; the first one goes on.
 */
static void
second_daemon(void **state)
{
	struct daemon d;
	struct scratch s;
	char who[128];

	(void)state;
	scratch_make(&s, HOME_BOX);
	daemon_start(&d, &s);
	snprintf(who, sizeof(who), "the process %ld already serves %s", (long)d.pid, "/tmp");
	daemon_refuses(&s, "refused instance.running", who);
	assert_int_equal(unlinkat(s.home.fd, "bastion.lock", 0), 0);
	snprintf(who, sizeof(who), "the process %ld already serves this state", (long)d.pid);
	daemon_refuses(&s, "refused instance.running", who);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM instance"), 1);
	assert_int_equal(scratch_value(&s, "SELECT pid FROM live_instance"), d.pid);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* A key that is gone, or not the one of this database, is said and never remade. */
static void
key_is_not_remade(void **state)
{
	struct scratch s;
	int fd;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(unlinkat(s.home.fd, "bastion.key", 0), 0);
	daemon_refuses(&s, "refused key.missing", "");
	assert_int_equal(faccessat(s.home.fd, "bastion.key", F_OK, 0), -1);
	fd = openat(s.home.fd, "bastion.key", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "another key of thirty-two bytes!", 32), 32);
	close(fd);
	daemon_refuses(&s, "refused key.other", "born with");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM instance"), 0);
	scratch_drop(&s);
}

/* A box's state does not serve as a Host's. */
static void
role_is_kept(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	s.home.role = HOME_HOST;
	daemon_refuses(&s, "refused box.identity", "that of a box");
	scratch_drop(&s);
}

/* PT-5: a directory that is open to others is closed before it is used. */
static void
wide_directory_is_tightened(void **state)
{
	struct daemon d;
	struct scratch s;
	struct stat st;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(fchmod(s.home.fd, 0777), 0);
	assert_int_equal(chmod(s.home.run, 0777), 0);
	daemon_start(&d, &s);
	assert_int_equal(fstat(s.home.fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(s.home.run, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

/* PT-6: a state of another user, or a link to a place elsewhere, is refused. */
static void
foreign_directory(void **state)
{
	struct scratch s;
	char from[96], to[96];

	(void)state;
	if (geteuid() != 0)
		skip();
	scratch_make(&s, HOME_BOX);
	assert_int_equal(fchown(s.home.fd, 12345, 12345), 0);
	daemon_refuses(&s, "refused store.directory", "belongs to user 12345");
	assert_int_equal(fchown(s.home.fd, 0, 0), 0);
	snprintf(from, sizeof(from), "%s/state", s.dir);
	snprintf(to, sizeof(to), "%s/real", s.dir);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(symlink(to, from), 0);
	daemon_refuses(&s, "refused store.directory", "");
	assert_int_equal(unlink(from), 0);
	assert_int_equal(rename(to, from), 0);
	scratch_drop(&s);
}

/* Return the line of /proc/PID/status that begins with ${field}, without the field. */
static const char *
status_of(int64_t pid, const char *field, char *line, size_t size)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%lld/status", (long long)pid);
	assert_non_null(f = fopen(path, "re"));
	while (fgets(line, (int)size, f) != NULL)
		if (strncmp(line, field, strlen(field)) == 0)
			break;
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return line + strlen(field) + 1;
}

static void
is_confined(struct scratch *s, const char *actor, const char *seccomp, const char *ids)
{
	pid_t pid = pid_of(s, actor);
	char line[256];

	assert_string_equal(status_of(pid, "NoNewPrivs:", line, sizeof(line)), "1");
	assert_string_equal(status_of(pid, "Seccomp:", line, sizeof(line)), seccomp);
	assert_string_equal(status_of(pid, "CapEff:", line, sizeof(line)), "0000000000000000");
	assert_string_equal(status_of(pid, "CapPrm:", line, sizeof(line)), "0000000000000000");
	if (ids != NULL)
		assert_string_equal(status_of(pid, "Uid:", line, sizeof(line)), ids);
}

/* Everything that /proc/PID/fd and environ of an actor tell. */
static void
inherits_nothing(int64_t pid)
{
	char path[320], target[PATH_MAX], env[4096];
	struct dirent *e;
	ssize_t n;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%lld/fd", (long long)pid);
	assert_non_null(dir = opendir(path));
	while ((e = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%lld/fd/%s", (long long)pid, e->d_name);
		if ((n = readlink(path, target, sizeof(target) - 1)) == -1)
			continue;
		target[n] = '\0';
		assert_null(strstr(target, "bastion.lock"));
		if (strcmp(e->d_name, "0") == 0)
			assert_string_equal(target, "/dev/null");
	}
	closedir(dir);
	snprintf(path, sizeof(path), "/proc/%lld/environ", (long long)pid);
	assert_non_null(f = fopen(path, "re"));
	n = (ssize_t)fread(env, 1, sizeof(env), f);
	fclose(f);
	assert_null(memmem(env, (size_t)n, "hidden", 6));
}

/* RF-97: an actor holds no power, no lock, no descriptor and no variable of its parent. */
static void
actors_are_confined(void **state)
{
	struct daemon d;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	daemon_start(&d, &s);
	is_confined(&s, "net", "2", NULL);
	is_confined(&s, "keeper", "0", NULL);
	if (geteuid() == 0) {
		inherits_nothing(pid_of(&s, "net"));
		inherits_nothing(pid_of(&s, "worker"));
	}
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

static uid_t
owner_of(const struct scratch *s, const char *file)
{
	struct stat st;

	assert_int_equal(fstatat(s->home.fd, file, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_uid;
}

/* Root serves as another user: actors and files are that user's, the key stays root's. */
static void
serves_as_another_user(void **state)
{
	static const char ids[] = "65534\t65534\t65534\t65534";
	struct daemon d;
	struct scratch s;
	char command[192];

	(void)state;
	if (geteuid() != 0)
		skip();
	scratch_make(&s, HOME_BOX);
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(chmod(s.dir, 0711), 0);
	snprintf(command, sizeof(command), "rm -rf %s/run %s/state/*", s.dir, s.dir);
	assert_int_equal(system(command), 0);
	daemon_ready(&d, &s, "nobody");
	s.home.owner = NOBODY;
	adopt_key(&s);
	all_run(&s);
	is_confined(&s, "net", "2", ids);
	is_confined(&s, "worker", "0", ids);
	assert_int_equal(owner_of(&s, "bastion.db"), NOBODY);
	assert_int_equal(owner_of(&s, "bastion.lock"), NOBODY);
	assert_int_equal(owner_of(&s, "bastion.gate"), NOBODY);
	assert_int_equal(owner_of(&s, "."), NOBODY);
	assert_int_equal(owner_of(&s, "bastion.key"), 0);
	kill(pid_of(&s, "keeper"), SIGKILL);
	wait_value(&s,
	    "SELECT count(*) FROM actor_run WHERE actor = 'keeper' AND attempt = 2"
	    " AND state = 'running'",
	    1);
	assert_int_equal(daemon_stop(&d), 0);
	/* Again, now that everything is there. */
	daemon_ready(&d, &s, "nobody");
	assert_int_equal(daemon_stop(&d), 0);
	scratch_drop(&s);
}

static void
expect_notice(int fd, const char *text)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t end = loop_now() + PATIENCE_MS;
	char got[128];
	ssize_t n;

	do {
		if (poll(&p, 1, PATIENCE_MS) != 1 || loop_now() > end)
			fail_msg("%s was not sent", text);
		n = recv(fd, got, sizeof(got) - 1, 0);
		assert_true(n > 0);
		got[n] = '\0';
	} while (strcmp(got, text) != 0);
}

/* Where the kernel lets a service manager be: a path, or an abstract name. */
static void
notices(const char *name)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	struct daemon d;
	struct scratch s;
	int fd;

	scratch_make(&s, HOME_BOX);
	memcpy(un.sun_path, name, strlen(name));
	if (name[0] == '@')
		un.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&un, len), 0);
	setenv("NOTIFY_SOCKET", name, 1);
	setenv("WATCHDOG_USEC", "40000", 1);
	daemon_start(&d, &s);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	expect_notice(fd, "READY=1");
	expect_notice(fd, "WATCHDOG=1");
	expect_notice(fd, "WATCHDOG=1");
	assert_int_equal(kill(d.pid, SIGTERM), 0);
	expect_notice(fd, "STOPPING=1");
	assert_int_equal(daemon_ends(&d), 0);
	close(fd);
	scratch_drop(&s);
}

/* The service manager hears when we are ready, alive, stopping: at both kinds of socket. */
static void
service_manager(void **state)
{
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "/tmp/bastion-notify-%ld", (long)getpid());
	notices(name);
	unlink(name);
	snprintf(name, sizeof(name), "@bastion-notify-%ld", (long)getpid());
	notices(name);
}

/* An actor is no verb: without a supervisor it does not run. */
static void
actor_alone(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if ((pid = fork()) == 0) {
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		close(3);
		execl("/proc/self/exe", "bastion", "actor", "net", NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 2);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(starts_and_drains),
	    cmocka_unit_test(host_runs_its_own),
	    cmocka_unit_test(birth),
	    cmocka_unit_test(crash_is_mended),
	    cmocka_unit_test(bell_wakes),
	    cmocka_unit_test(killed_supervisor),
	    cmocka_unit_test(no_actor_before_the_instance),
	    cmocka_unit_test(stubborn_is_killed),
	    cmocka_unit_test(second_term_is_at_once),
	    cmocka_unit_test(slow_start_does_not_hang),
	    cmocka_unit_test(ready_is_who_serves),
	    cmocka_unit_test(refusing_after_ready),
	    cmocka_unit_test(schema_is_the_supervisors),
	    cmocka_unit_test(refusing_actor),
	    cmocka_unit_test(second_daemon),
	    cmocka_unit_test(key_is_not_remade),
	    cmocka_unit_test(role_is_kept),
	    cmocka_unit_test(wide_directory_is_tightened),
	    cmocka_unit_test(foreign_directory),
	    cmocka_unit_test(actors_are_confined),
	    cmocka_unit_test(serves_as_another_user),
	    cmocka_unit_test(service_manager),
	    cmocka_unit_test(actor_alone),
	};
	int rc;

	if (argc > 1 && strcmp(argv[1], "actor") == 0)
		return actor_main(argc, argv);
	if (argc > 4 && strcmp(argv[1], "serve") == 0) {
		rc = serve_main(argc, argv);
		fflush(NULL);
		/* After a change of user nothing may trace us, not even a sanitizer's leak check.
		 */
		if (argc > 5)
			_exit(rc);
		return rc;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
