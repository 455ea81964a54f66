/* driver.c: real daemons for tests, and a person who types at them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/base32.h"
#include "engine/crypto/key.h"
#include "engine/crypto/totp.h"
#include "engine/state/birth.h"
#include "tests/driver.h"
#include "tests/scratch.h"

#define STARTED_MAX 512
#define PAUSE_NS    2000000

static const char *const variables[2][2] = {
    {"BASTION_STATE", "BASTION_RUN"}, {"BASTION_HOST_STATE", "BASTION_HOST_RUN"}};
static const char *const names[2] = {"box", "host"};

/* What lives because of us. */
static volatile pid_t started[STARTED_MAX];

int64_t
driver_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void
driver_pause(void)
{
	static const struct timespec rest = {.tv_nsec = PAUSE_NS};

	nanosleep(&rest, NULL);
}

/*
 * Nothing outlives the test.
 */

static void
end_all(void)
{
	int i;

	for (i = 0; i < STARTED_MAX; i++)
		if (started[i] != 0)
			kill(started[i], SIGKILL);
}

static void
end_all_and_die(int signo)
{
	end_all();
	signal(signo, SIG_DFL);
	raise(signo);
}

static void
end_all_at_exit(void)
{
	static bool once;

	if (once)
		return;
	once = true;
	atexit(end_all);
	signal(SIGTERM, end_all_and_die);
	signal(SIGINT, end_all_and_die);
	signal(SIGHUP, end_all_and_die);
}

static void
remember(pid_t pid)
{
	int i;

	for (i = 0; i < STARTED_MAX; i++)
		if (started[i] == 0) {
			started[i] = pid;
			return;
		}
	kill(pid, SIGKILL);
	fail_msg("too many processes at once");
}

static void
forget(pid_t pid)
{
	int i;

	for (i = 0; i < STARTED_MAX; i++)
		if (started[i] == pid)
			started[i] = 0;
}

static const char *
program(void)
{
	const char *given = getenv("BASTION");

	return given != NULL ? given : "build/bastion";
}

/* The child's part. */
static void __attribute__((noreturn))
become(char *const argv[], int in, int out, int err, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || getppid() != parent)
		_exit(126);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(in, 0) == -1 || dup2(out, 1) == -1 || dup2(err, 2) == -1)
		_exit(126);
	execv(program(), argv);
	_exit(127);
}

static pid_t
start(const char *const *words, int in, int out, int err)
{
	union {
		const char *in[DRIVER_WORDS_MAX + 2];
		char *out[DRIVER_WORDS_MAX + 2];
	} argv = {.in = {"bastion"}};
	pid_t parent = getpid(), pid;
	int n;

	for (n = 0; words[n] != NULL; n++) {
		assert_true(n < DRIVER_WORDS_MAX);
		argv.in[n + 1] = words[n];
	}
	argv.in[n + 1] = NULL;
	end_all_at_exit();
	fflush(NULL);
	if ((pid = fork()) == 0)
		become(argv.out, in, out, err, parent);
	assert_true(pid > 0);
	remember(pid);
	return pid;
}

/* Wait for the end of our child ${pid}; the wait status. */
static int
ended(pid_t pid, int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int status = -1;

	if (poll(&p, 1, DRIVER_WAIT_MS) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		forget(pid);
		return -1;
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	forget(pid);
	return status;
}

/*
 * Verbs.
 */

static int
memory_file(const char *text)
{
	int fd = memfd_create("said", MFD_CLOEXEC);

	assert_true(fd != -1);
	if (text != NULL) {
		assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	}
	return fd;
}

void
driver_start(struct job *job, const char *input, const char *const *words)
{
	int in = memory_file(input);

	job->out = memory_file(NULL);
	job->err = memory_file(NULL);
	job->pid = start(words, in, job->out, job->err);
	job->pidfd = pidfd_open(job->pid, 0);
	assert_true(job->pidfd != -1);
	close(in);
}

bool
driver_finished(const struct job *job)
{
	struct pollfd p = {.fd = job->pidfd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void
take(int fd, char *out, size_t size)
{
	ssize_t len = out != NULL ? pread(fd, out, size - 1, 0) : 0;

	if (out != NULL)
		out[len > 0 ? len : 0] = '\0';
	close(fd);
}

int
driver_finish(struct job *job, struct said *said)
{
	int status = ended(job->pid, job->pidfd), code;

	code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	close(job->pidfd);
	take(job->out, said != NULL ? said->out : NULL, DRIVER_OUT_MAX);
	take(job->err, said != NULL ? said->err : NULL, DRIVER_ERR_MAX);
	if (said != NULL)
		said->code = code;
	job->pid = 0;
	if (status == -1)
		fail_msg("a verb did not end: %s%s", said != NULL ? said->out : "",
		    said != NULL ? said->err : "");
	return code;
}

static int
run_list(struct said *said, const char *input, va_list ap)
{
	const char *words[DRIVER_WORDS_MAX + 1];
	struct job job;
	int n = 0;

	do
		words[n] = va_arg(ap, const char *);
	while (words[n] != NULL && ++n < DRIVER_WORDS_MAX);
	words[n] = NULL;
	driver_start(&job, input, words);
	return driver_finish(&job, said);
}

int
driver_run(struct said *said, const char *input, ...)
{
	va_list ap;
	int code;

	va_start(ap, input);
	code = run_list(said, input, ap);
	va_end(ap);
	return code;
}

void
driver_does(struct said *said, const char *input, ...)
{
	const char *first;
	va_list ap;

	va_start(ap, input);
	run_list(said, input, ap);
	va_end(ap);
	va_start(ap, input);
	first = va_arg(ap, const char *);
	if (said->code != 0)
		fail_msg(
		    "bastion %s … ended with %d: %s%s", first, said->code, said->out, said->err);
	va_end(ap);
}

void
driver_refused(struct said *said, int exit_code, const char *code, const char *input, ...)
{
	char mark[96];
	const char *first;
	va_list ap;

	va_start(ap, input);
	run_list(said, input, ap);
	va_end(ap);
	va_start(ap, input);
	first = va_arg(ap, const char *);
	va_end(ap);
	snprintf(mark, sizeof(mark), "[%s]\n", code);
	if (said->code != exit_code || strstr(said->err, mark) == NULL)
		fail_msg("bastion %s … should be refused as %s (exit %d), but ended with %d: %s%s",
		    first, code, exit_code, said->code, said->out, said->err);
}

/*
 * The directory and its daemons.
 */

void
driver_make(struct driver *d)
{
	int side;

	memset(d, 0, sizeof(*d));
	assert_true(sodium_init() >= 0);
	snprintf(d->dir, sizeof(d->dir), "/tmp/bastion-e2e-XXXXXX");
	assert_non_null(mkdtemp(d->dir));
	for (side = 0; side < 2; side++) {
		snprintf(d->state[side], sizeof(d->state[0]), "%s/%s-state", d->dir, names[side]);
		snprintf(d->run[side], sizeof(d->run[0]), "%s/%s-run", d->dir, names[side]);
		snprintf(d->log[side], sizeof(d->log[0]), "%s/%s.log", d->dir, names[side]);
		setenv(variables[side][0], d->state[side], 1);
		setenv(variables[side][1], d->run[side], 1);
	}
	d->last_step = -1;
}

/* What a first start makes, but for the row of the machine; it would take a second for each test.
 */
static void
state_begin(struct driver *d, enum driver_side side)
{
	enum home_role role = side == DRIVER_HOST ? HOME_HOST : HOME_BOX;
	struct store_keys keys;
	struct refusal r = {0};
	struct home home;
	char path[128];

	snprintf(path, sizeof(path), "%s/bastion.db", d->state[side]);
	if (access(path, F_OK) == 0)
		return;
	if (home_at(&home, d->state[side], d->run[side], role, true, &r) != 0 ||
	    birth_key(&home, &keys, &r) != 0)
		fail_msg("%s: %s", r.code, r.why);
	scratch_database(&home);
	home_close(&home);
}

void
driver_serve_begin(struct driver *d, enum driver_side side)
{
	static const char *const words[2][3] = {{"serve", NULL}, {"host", "serve", NULL}};
	int in = memory_file(NULL), log;

	assert_int_equal(d->serving[side], 0);
	state_begin(d, side);
	/* What an earlier daemon said stays: the marker of this one is searched behind it. */
	log = open(d->log[side], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(log != -1);
	dprintf(log, "---- start\n");
	d->serving[side] = start(words[side], in, log, log);
	close(log);
	close(in);
}

/* Whether the daemon that was started last has said that it serves; and what it said. */
static bool
says_serving(const struct driver *d, enum driver_side side, char *text, size_t size)
{
	const char *at = text, *next;
	FILE *f = fopen(d->log[side], "re");
	size_t len;

	assert_non_null(f);
	if (fseek(f, -(long)size + 1, SEEK_END) != 0)
		rewind(f);
	len = fread(text, 1, size - 1, f);
	text[len] = '\0';
	fclose(f);
	while ((next = strstr(at, "---- start\n")) != NULL)
		at = next + 1;
	memmove(text, at, strlen(at) + 1);
	at = text;
	return strstr(at, "bastion: serving") != NULL;
}

void
driver_serve_wait(struct driver *d, enum driver_side side)
{
	int64_t limit = driver_now() + DRIVER_WAIT_MS;
	static char text[8192];
	int status;

	while (!says_serving(d, side, text, sizeof(text))) {
		if (waitpid(d->serving[side], &status, WNOHANG) == d->serving[side]) {
			forget(d->serving[side]);
			d->serving[side] = 0;
			fail_msg("the daemon ended: %s", text);
		}
		if (driver_now() > limit)
			fail_msg("the daemon does not serve: %s", text);
		driver_pause();
	}
	if (side == DRIVER_BOX && d->box[0] == '\0')
		driver_text(d, side, d->box, sizeof(d->box), "SELECT name FROM box");
}

void
driver_serve(struct driver *d, enum driver_side side)
{
	driver_serve_begin(d, side);
	driver_serve_wait(d, side);
}

void
driver_settle(struct driver *d, enum driver_side side)
{
	driver_until(d, side, side == DRIVER_BOX ? 5 : 3,
	    "SELECT count(*) FROM actor_run AS a JOIN live_instance AS i ON i.id = a.instance_id"
	    " WHERE a.state = 'running'");
}

int
driver_end(struct driver *d, enum driver_side side, int signo)
{
	int pidfd = pidfd_open(d->serving[side], 0), status;

	assert_true(pidfd != -1);
	kill(d->serving[side], signo);
	status = ended(d->serving[side], pidfd);
	close(pidfd);
	d->serving[side] = 0;
	if (status == -1)
		fail_msg("the daemon (%s) did not end after signal %d", names[side], signo);
	return status;
}

void
driver_drop(struct driver *d)
{
	char command[128];
	int side;

	for (side = 0; side < 2; side++) {
		if (d->serving[side] != 0)
			driver_end(d, side, SIGTERM);
		snprintf(command, sizeof(command), "%s/bastion.db", d->state[side]);
		if (access(command, F_OK) == 0)
			driver_invariants(d, side);
	}
	snprintf(command, sizeof(command), "rm -rf %s", d->dir);
	assert_int_equal(system(command), 0);
}

pid_t
driver_actor(struct driver *d, enum driver_side side, const char *actor)
{
	return (pid_t)driver_value(d, side,
	    "SELECT coalesce((SELECT p.pid FROM actor_run AS r JOIN process AS p ON p.id = r.process_id"
	    " WHERE r.actor = '%s' AND r.state = 'running'"
	    "   AND process_alive(p.boot_id, p.pid, p.start_ticks)"
	    "   AND r.instance_id = (SELECT id FROM live_instance)), 0)",
	    actor);
}

void
driver_kill(struct driver *d, enum driver_side side, const char *actor)
{
	pid_t pid = driver_actor(d, side, actor);

	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
}

/* The first child of ${parent} whose command line ends in ${word}. */
static pid_t
child_named(pid_t parent, const char *word)
{
	char path[64], text[256];
	FILE *f;
	size_t len;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	while (fscanf(f, "%d", &child) == 1) {
		FILE *g;

		snprintf(path, sizeof(path), "/proc/%d/cmdline", child);
		if ((g = fopen(path, "re")) == NULL)
			continue;
		len = fread(text, 1, sizeof(text) - 1, g);
		fclose(g);
		text[len] = '\0';
		if (len > strlen(word) + 1 && strcmp(text + len - strlen(word) - 1, word) == 0) {
			fclose(f);
			return child;
		}
	}
	fclose(f);
	return 0;
}

pid_t
driver_runner(struct driver *d)
{
	pid_t worker = driver_actor(d, DRIVER_BOX, "worker");

	return worker != 0 ? child_named(worker, "runner") : 0;
}

/*
 * Rows.
 */

struct store *
driver_open(
    struct driver *d, enum driver_side side, enum store_role role, const struct store_keys *keys)
{
	static struct home home[2]; /* the store remembers where it lives */
	struct refusal r = {0};
	struct store *db;

	if (home[side].state[0] != '\0')
		home_close(&home[side]);
	if (home_at(&home[side], d->state[side], d->run[side], (enum home_role)side, false, &r) !=
		0 ||
	    (db = store_open(&home[side], role, keys, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	store_acting(db, "test:driver");
	return db;
}

/* The first row of ${sql}; the caller finalizes and closes. */
static sqlite3_stmt *
first_row(struct store *db, const char *sql)
{
	sqlite3_stmt *q;
	int rc;

	if (sqlite3_prepare_v2(store_handle(db), sql, -1, &q, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(store_handle(db)));
	rc = sqlite3_step(q);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		fail_msg("%s: %s", sql, sqlite3_errmsg(store_handle(db)));
	return q;
}

static int64_t
value_of(struct driver *d, enum driver_side side, const char *sql)
{
	struct store *db = driver_open(d, side, ROLE_READER, NULL);
	sqlite3_stmt *q = first_row(db, sql);
	int64_t value = sqlite3_data_count(q) > 0 && sqlite3_column_type(q, 0) != SQLITE_NULL
			    ? sqlite3_column_int64(q, 0)
			    : -1;

	sqlite3_finalize(q);
	store_close(db);
	return value;
}

int64_t
driver_value(struct driver *d, enum driver_side side, const char *sql, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, sql);
	vsnprintf(text, sizeof(text), sql, ap);
	va_end(ap);
	return value_of(d, side, text);
}

const char *
driver_text(struct driver *d, enum driver_side side, char *out, size_t size, const char *sql, ...)
{
	struct store *db = driver_open(d, side, ROLE_READER, NULL);
	char text[4096];
	sqlite3_stmt *q;
	va_list ap;

	va_start(ap, sql);
	vsnprintf(text, sizeof(text), sql, ap);
	va_end(ap);
	q = first_row(db, text);
	out[0] = '\0';
	if (sqlite3_data_count(q) > 0 && sqlite3_column_type(q, 0) != SQLITE_NULL)
		snprintf(out, size, "%s", (const char *)sqlite3_column_text(q, 0));
	sqlite3_finalize(q);
	store_close(db);
	return out;
}

void
driver_until(struct driver *d, enum driver_side side, int64_t value, const char *sql, ...)
{
	int64_t limit = driver_now() + DRIVER_WAIT_MS, found;
	char text[4096];
	va_list ap;

	va_start(ap, sql);
	vsnprintf(text, sizeof(text), sql, ap);
	va_end(ap);
	while ((found = value_of(d, side, text)) != value) {
		if (driver_now() > limit)
			fail_msg("waited for %lld, still %lld: %s", (long long)value,
			    (long long)found, text);
		driver_pause();
	}
}

static void
keys_of(struct driver *d, enum driver_side side, struct store_keys *keys)
{
	struct refusal r = {0};
	char path[PATH_MAX];
	struct key *key;

	memset(keys, 0, sizeof(*keys));
	snprintf(path, sizeof(path), "%s/bastion.key", d->state[side]);
	if ((key = key_load(path, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	key_public(key, KEY_IDENTITY, keys->identity);
	key_public(key, KEY_GRANT, keys->grant);
	keys->present = true;
	key_free(key);
}

void
driver_invariants(struct driver *d, enum driver_side side)
{
	static char sql[65536];
	struct store_keys keys;
	struct store *db;
	sqlite3_stmt *q;
	const char *tail = sql;
	FILE *f;
	size_t len;

	if ((f = fopen("tests/invariants.sql", "re")) == NULL)
		fail_msg("tests run from the top of the repository");
	len = fread(sql, 1, sizeof(sql) - 1, f);
	fclose(f);
	sql[len] = '\0';
	keys_of(d, side, &keys);
	db = driver_open(d, side, ROLE_MIGRATE, &keys);
	while (*tail != '\0') {
		if (sqlite3_prepare_v2(store_handle(db), tail, -1, &q, &tail) != SQLITE_OK)
			fail_msg("invariants: %s", sqlite3_errmsg(store_handle(db)));
		while (q != NULL && sqlite3_step(q) == SQLITE_ROW)
			fail_msg("%s: invariant broken: %s: %s", names[side],
			    (const char *)sqlite3_column_text(q, 0),
			    (const char *)sqlite3_column_text(q, 1));
		sqlite3_finalize(q);
	}
	store_close(db);
}

/*
 * A person.
 */

/* Take the text of the member ${name} of the JSON ${text}. */
static void
member(const char *text, const char *name, char *out, size_t size)
{
	char mark[64];
	const char *at;
	size_t len;

	snprintf(mark, sizeof(mark), "\"%s\":\"", name);
	if ((at = strstr(text, mark)) == NULL)
		fail_msg("no member %s in %s", name, text);
	at += strlen(mark);
	len = strcspn(at, "\"");
	assert_true(len < size);
	memcpy(out, at, len);
	out[len] = '\0';
}

void
driver_enrol(struct driver *d)
{
	static struct said said;

	driver_does(&said, NULL, "factor", "add", "totp", "--label", "phone", "--json", NULL);
	member(said.out, "secret", d->totp, sizeof(d->totp));
}

/* Both serve, and the person at the box has an authenticator. */
static void
morning(struct driver *d)
{
	static struct said said;

	driver_make(d);
	driver_serve_begin(d, DRIVER_BOX);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	driver_serve_begin(d, DRIVER_HOST);
	driver_serve_wait(d, DRIVER_BOX);
	driver_serve_wait(d, DRIVER_HOST);
	driver_enrol(d);
}

void
driver_first_day(struct driver *d)
{
	static struct said said, invited;

	morning(d);
	driver_does(&invited, NULL, "host", "invite", d->box, NULL);
	driver_does(&said, invited.out, "pair", "-", NULL);
	driver_settle(d, DRIVER_BOX);
	driver_settle(d, DRIVER_HOST);
}

int
driver_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd;

	assert_true((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) != -1);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	close(fd);
	return ntohs(at.sin_port);
}

void
driver_far_day(struct driver *d, const char *listen)
{
	static struct said said, invited;
	char at[32];

	morning(d);
	d->port = driver_port();
	snprintf(at, sizeof(at), "127.0.0.1:%d", d->port);
	driver_does(&said, NULL, "host", "listen", at, "--address", at, NULL);
	driver_does(&invited, NULL, "host", "invite", d->box, NULL);
	if (listen == NULL)
		driver_does(&said, invited.out, "pair", "-", NULL);
	else
		driver_does(&said, invited.out, "pair", "-", "--listen", listen, NULL);
}

/* Codes go out in order of their steps, each once, from the oldest that the box still takes. */
const char *
driver_code(struct driver *d, char code[8])
{
	uint8_t secret[TOTP_SECRET_MAX];
	char text[TOTP_DIGITS_MAX + 1];
	int64_t limit = driver_now() + DRIVER_WAIT_MS, window, step;
	size_t len;

	window =
	    driver_value(d, DRIVER_BOX, "SELECT value FROM setting WHERE name = 'factor.steps'");
	assert_int_equal(base32_decode(d->totp, secret, sizeof(secret), &len), 0);
	while ((step = clock_now() / TOTP_STEP_MS - window + 1) > 0) {
		if (step <= d->last_step)
			step = d->last_step + 1;
		if (step <= clock_now() / TOTP_STEP_MS + window)
			break;
		assert_true(driver_now() < limit);
		driver_pause();
	}
	d->last_step = step;
	assert_int_equal(totp_code(secret, len, (uint64_t)step, TOTP_DIGITS, text), 0);
	snprintf(code, 8, "%.6s\n", text);
	return code;
}

int64_t
driver_question(struct driver *d)
{
	return driver_value(d, DRIVER_BOX, "SELECT max(id) FROM approval WHERE state = 'pending'");
}

void
driver_approve(struct driver *d, int64_t id)
{
	static struct said said;
	char code[8], number[24];

	snprintf(number, sizeof(number), "%lld", (long long)id);
	driver_does(&said, driver_code(d, code), "approve", number, NULL);
}

void
driver_grant(struct driver *d, const char *op, const char *a, const char *b, const char *uses,
    const char *time)
{
	const char *words[DRIVER_WORDS_MAX] = {"on", d->box, op};
	static struct said said;
	struct job job;
	int n = 3;

	if (a != NULL)
		words[n++] = a;
	if (b != NULL)
		words[n++] = b;
	words[n++] = "--anew";
	words[n++] = "--uses";
	words[n++] = uses;
	words[n++] = "--for";
	words[n++] = time;
	driver_start(&job, NULL, words);
	if (driver_finish(&job, &said) != 77)
		fail_msg("asked for %s, ended with %d: %s%s", op, said.code, said.out, said.err);
	driver_approve(d, driver_question(d));
}
