/* test_sandbox_run.c: runs in sandboxes: their rows, the runner that makes them, the verb. */
#include "tests/worker/box.h"

#include <sys/inotify.h>

#include "engine/state/sandbox_run.h"
#include "engine/worker/pump.h"
#include "engine/worker/runner.h"
#include "tests/program.h"

#define RUN(p, s, ...) program_run(p, s, NULL, (const char *const[]){__VA_ARGS__, NULL})
#define MANY           60

static int
set_up(void **state)
{
	static struct scratch s;

	scratch_make(&s, HOME_BOX);
	*state = &s;
	return 0;
}

static int
tear_down(void **state)
{
	scratch_drop(*state);
	return 0;
}

/*
 * Rows.
 */

static int64_t
begin(struct scratch *s, const char *backend, char nonce[SANDBOX_NONCE_SIZE])
{
	struct sandbox_ask ask = {
	    .backend = backend, .program = "true", .words = 1, .uid = geteuid()};
	int64_t id = -1;

	return sandbox_run_begin(s->db, &ask, nonce, &id) == 0 ? id : -1;
}

/* A run has its row before it starts; it moves as the rules say, and is history at its end. */
static void
rows_move_by_the_rules(void **state)
{
	struct scratch *s = *state;
	struct sandbox_report report = {.tasks_capped = true, .user_ns = 5, .pid_ns = 6};
	struct sandbox_outcome outcome = {.exit_code = 3, .changes = 2, .applied = -1};
	char nonce[SANDBOX_NONCE_SIZE];
	int64_t id;

	scratch_open(s, ROLE_PERSON);
	id = begin(s, "native", nonce);
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM live_sandboxes"), 1);
	snprintf(report.notes[0], sizeof(report.notes[0]), "a \"note\"");
	report.note_count = 1;
	assert_int_equal(sandbox_run_started(s->db, id, &report), 0);
	assert_int_equal(sandbox_run_ended(s->db, id, &outcome), 0);
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM sandbox_run WHERE state = 'ended'"
					  " AND exit_code = 3 AND changes = 2 AND applied IS NULL"
					  " AND notes ->> 0 = 'a \"note\"'"),
	    1);
	scratch_refused(s, "sandbox.transition", "UPDATE sandbox_run SET state = 'running'");
	scratch_refused(s, "sandbox.final", "UPDATE sandbox_run SET exit_code = 0");
	scratch_refused(s, "sandbox.final", "DELETE FROM sandbox_run");
	assert_int_equal(
	    scratch_value(s, "SELECT count(*) FROM audit WHERE entity = 'sandbox_run'"), 3);
}

/* What the engine assumes without a database is what a new one has. */
static void
limits_are_the_settings(void **state)
{
	struct scratch *s = *state;
	struct sandbox_limits a, b;

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	scratch_open(s, ROLE_READER);
	sandbox_limits(&a);
	sandbox_run_limits(s->db, &b);
	assert_memory_equal(&a, &b, sizeof(a));
}

/* Nothing runs unconfined but where a person set that it may. */
static void
nothing_runs_unconfined_in_silence(void **state)
{
	struct scratch *s = *state;
	char nonce[SANDBOX_NONCE_SIZE];

	scratch_open(s, ROLE_PERSON);
	assert_int_equal(begin(s, "none", nonce), -1);
	assert_string_equal(store_refusal(s->db)->code, "sandbox.none");
	assert_int_equal(
	    scratch_sql(s, "UPDATE setting SET value = 1 WHERE name = 'sandbox.unconfined'"), 0);
	scratch_open(s, ROLE_PERSON);
	assert_int_not_equal(begin(s, "none", nonce), -1);
}

/* What is alive is counted, not what was left open; that reads as lost. */
static void
the_cap_counts_the_living(void **state)
{
	struct scratch *s = *state;
	char nonce[SANDBOX_NONCE_SIZE];

	assert_int_equal(
	    scratch_sql(s,
		"UPDATE setting SET value = 1 WHERE name = 'sandbox.live';"
		"INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
		" VALUES ('00000000-0000-0000-0000-000000000000', 1, 1, 0, 'x', 1);"
		"INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words,"
		" net, started_at) VALUES ('00000000000000000000000000000000', 'native',"
		" last_insert_rowid(), 0, 'x', 1, 'none', 1)"),
	    0);
	scratch_open(s, ROLE_PERSON);
	assert_int_not_equal(begin(s, "native", nonce), -1);
	assert_int_equal(
	    scratch_value(s, "SELECT count(*) FROM sandbox_run WHERE state = 'lost'"), 1);
	assert_int_equal(begin(s, "native", nonce), -1);
	assert_string_equal(store_refusal(s->db)->code, "sandbox.busy");
}

/* A process is of a run if it knows the run's name and the kernel says that it is in its
 * namespaces. */
static void
a_run_is_known_by_its_namespaces(void **state)
{
	struct scratch *s = *state;
	struct sandbox_report report = {.user_ns = 5, .pid_ns = 6};
	char nonce[SANDBOX_NONCE_SIZE];
	int64_t id;

	scratch_open(s, ROLE_PERSON);
	id = begin(s, "native", nonce);
	assert_int_equal(sandbox_run_of(s->db, nonce, 5, 6), 0);
	assert_int_equal(sandbox_run_started(s->db, id, &report), 0);
	assert_int_equal(sandbox_run_of(s->db, nonce, 5, 6), id);
	assert_int_equal(sandbox_run_of(s->db, nonce, 5, 7), 0);
	assert_int_equal(sandbox_run_of(s->db, "00000000000000000000000000000000", 5, 6), 0);
}

/*
 * The runner.
 */

struct running {
	struct runner runner;
	struct box_world world;
	struct sandbox_path paths[48];
	struct sandbox_plan plan;
	char *argv[4];
	int out[2];
};

static int
runner_up(void **state)
{
	static struct running r;
	static char sh[] = "sh", dash_c[] = "-c";
	struct refusal refusal;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	memset(&r, 0, sizeof(r));
	*state = &r;
	assert_int_equal(runner_start(&r.runner, "/proc/self/exe", &refusal), 0);
	box_make(&r.world);
	box_plan(&r.world, &r.plan, r.paths, 0);
	r.argv[0] = sh;
	r.argv[1] = dash_c;
	r.plan.argv = r.argv;
	r.plan.uid = geteuid();
	r.plan.gid = getegid();
	assert_int_equal(pipe2(r.out, O_CLOEXEC), 0);
	r.plan.stdio[0] = null;
	r.plan.stdio[1] = r.plan.stdio[2] = r.out[1];
	return 0;
}

static int
runner_down(void **state)
{
	struct running *r = *state;

	runner_stop(&r->runner);
	close(r->out[0]);
	close(r->out[1]);
	close(r->plan.stdio[0]);
	box_drop(&r->world);
	return 0;
}

static uint64_t
runner_sh(struct running *r, const char *script)
{
	struct refusal refusal;
	uint64_t id;

	r->argv[2] = (char *)(uintptr_t)script;
	if (runner_sandbox(&r->runner, &r->plan, 200, &id, &refusal) != 0)
		fail_msg("%s: %s", refusal.code, refusal.why);
	return id;
}

static struct runner_event *
next(struct running *r)
{
	static struct runner_event e;
	struct pollfd p = {.fd = runner_fd(&r->runner), .events = POLLIN};
	int64_t deadline = tool_now_ms() + BOX_WAIT_MS;

	while (tool_now_ms() < deadline) {
		poll(&p, 1, 1000);
		if (runner_event(&r->runner, &e) == 1)
			return &e;
	}
	fail_msg("no event came");
	return NULL;
}

static void
expect(struct running *r, uint64_t id, enum runner_kind kind, int status)
{
	struct runner_event *e = next(r);

	if (e->kind == RUNNER_REFUSED && kind != RUNNER_REFUSED)
		fail_msg("%s: %s", e->refusal.code, e->refusal.why);
	assert_int_equal(e->id, id);
	assert_int_equal(e->kind, kind);
	if (kind == RUNNER_EXITED)
		assert_int_equal(e->status, status);
}

/* A program runs by way of the runner: started, said, ended, with its exit code. */
static void
the_runner_runs_programs(void **state)
{
	struct running *r = *state;
	char text[64] = {0};
	uint64_t id = runner_sh(r, "echo hello; ls /proc/self/fd | wc -w; exit 5");

	expect(r, id, RUNNER_STARTED, 0);
	expect(r, id, RUNNER_EXITED, 5 << 8);
	assert_true(read(r->out[0], text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "hello\n4\n");
}

/* Who it was is told with its start: when that is read, a short one may be gone already. */
static void
the_runner_says_who(void **state)
{
	struct running *r = *state;
	uint64_t id = runner_sh(r, "exit 0");
	struct runner_event *e = next(r);
	struct identity me;

	assert_int_equal(e->id, id);
	assert_int_equal(e->kind, RUNNER_STARTED);
	assert_int_equal(identity_of(getpid(), &me), 0);
	assert_int_equal(e->who.pid, e->report.pid);
	assert_string_equal(e->who.boot_id, me.boot_id);
	assert_true(e->who.start_ticks >= me.start_ticks);
	expect(r, id, RUNNER_EXITED, 0);
	assert_int_equal(identity_of(e->who.pid, &me), -1);
}

/* What cannot be is refused in words, also where it is the far end that finds out. */
static void
the_runner_refuses(void **state)
{
	struct running *r = *state;
	struct runner_event *e;
	static char none[] = "/no/such/program";
	uint64_t id;

	r->argv[0] = none;
	id = runner_sh(r, "");
	e = next(r);
	assert_int_equal(e->kind, RUNNER_REFUSED);
	assert_int_equal(e->id, id);
	assert_string_equal(e->refusal.code, "sandbox.program");
	r->plan.cwd = "nowhere";
	runner_sh(r, "");
	e = next(r);
	assert_string_equal(e->refusal.code, "sandbox.plan");
}

/* Cancelled, a program that does not listen is killed with all that it started. */
static void
the_runner_kills_all(void **state)
{
	struct running *r = *state;
	struct pollfd p = {.fd = r->out[0], .events = POLLIN};
	uint64_t id = runner_sh(
	    r, "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000' &); echo on; sleep 1000");
	char text[16];

	expect(r, id, RUNNER_STARTED, 0);
	assert_int_equal(read(r->out[0], text, 3), 3);
	assert_int_equal(runner_kill(&r->runner, id), 0);
	expect(r, id, RUNNER_EXITED, SIGKILL);
	/* Nothing holds the pipe any more but we. */
	close(r->out[1]);
	assert_int_equal(poll(&p, 1, BOX_WAIT_MS), 1);
	assert_int_equal(read(r->out[0], text, sizeof(text)), 0);
	r->out[1] = -1;
}

/* Return whether the file system of the folder that ${in} watches is gone. */
static bool
is_unmounted(int in)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct pollfd p = {.fd = in, .events = POLLIN};
	const struct inotify_event *e;
	ssize_t n, at;

	while (poll(&p, 1, BOX_WAIT_MS / 4) == 1 && (n = read(in, buf, sizeof(buf))) > 0)
		for (at = 0; at < n; at += (ssize_t)(sizeof(*e) + e->len)) {
			e = (const struct inotify_event *)(const void *)(buf + at);
			if ((e->mask & IN_UNMOUNT) != 0)
				return true;
		}
	return false;
}

/* Wait until the runner ${pid} has ${children}: two of them are a child and a sandbox that stand
 * ready. */
static void
until_spare(pid_t pid, int children)
{
	int64_t deadline = tool_now_ms() + BOX_WAIT_MS;
	char path[64];
	int n = 0, child;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	while (n != children && tool_now_ms() < deadline) {
		assert_non_null(f = fopen(path, "re"));
		for (n = 0; fscanf(f, "%d", &child) == 1; n++)
			continue;
		fclose(f);
		usleep(1000);
	}
	assert_int_equal(n, children);
}

/* What a run changed is in memory as long as whoever asked for it holds it: neither the runner nor
 * the sandbox that it has ready does. */
static void
changes_go_with_who_asked(void **state)
{
	struct running *r = *state;
	struct runner_event *e;
	char way[48], folder[80];
	int in = inotify_init1(IN_CLOEXEC), line[2];
	uint64_t id;

	snprintf(folder, sizeof(folder), "%s/ws", r->world.dir);
	assert_int_equal(mkdir(folder, 0755), 0);
	close(r->plan.stdio[0]);
	box_plan(&r->world, &r->plan, r->paths, 1);
	r->paths[0] = (struct sandbox_path){SANDBOX_EFFECT, folder, "/w"};
	r->plan.argv = r->argv;
	r->plan.uid = geteuid();
	r->plan.gid = getegid();
	assert_int_equal(pipe2(line, O_CLOEXEC), 0);
	r->plan.stdio[0] = line[0];
	r->plan.stdio[1] = r->plan.stdio[2] = r->out[1];
	id = runner_sh(r, "echo a >/w/a; read line; exit 0");
	e = next(r);
	assert_int_equal(e->kind, RUNNER_STARTED);
	assert_int_equal(e->effect_count, 1);
	snprintf(way, sizeof(way), "/proc/self/fd/%d", e->effect_fd[0]);
	assert_int_not_equal(inotify_add_watch(in, way, IN_ATTRIB), -1);
	runner_event_drop(e);
	until_spare(r->runner.pid, 3);
	close(line[1]);
	expect(r, id, RUNNER_EXITED, 0);
	assert_true(is_unmounted(in));
	close(in);
}

/* One that stands ready holds nothing that its maker had open by chance. */
static void
a_spare_holds_nothing(void **state)
{
	struct pollfd p = {.events = POLLIN};
	struct refusal refusal;
	struct sandbox box;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	if (sandbox_spare(&box, &refusal) != 0)
		fail_msg("%s: %s", refusal.code, refusal.why);
	close(fds[1]);
	p.fd = fds[0];
	assert_int_equal(poll(&p, 1, BOX_WAIT_MS / 4), 1);
	assert_int_equal(waitpid(box.pid, NULL, WNOHANG), 0);
	sandbox_end(&box, NULL);
	sandbox_free(&box);
	close(fds[0]);
}

/* One that stands ready looked for the folders of a plan as nobody: for another user one is made.
 */
static void
a_spare_is_no_users(void **state)
{
	struct running *r = *state;
	char folder[80];
	uint64_t id;

	if (geteuid() != 0)
		skip();
	id = runner_sh(r, "exit 0");
	expect(r, id, RUNNER_STARTED, 0);
	expect(r, id, RUNNER_EXITED, 0);
	until_spare(r->runner.pid, 2);
	snprintf(folder, sizeof(folder), "%s/ws", r->world.dir);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chown(folder, BOX_NOBODY, BOX_NOBODY), 0);
	strcat(folder, "/in");
	assert_int_equal(mkdir(folder, 0755), 0);
	r->paths[r->plan.path_count] = (struct sandbox_path){SANDBOX_READ, folder, "/in"};
	r->plan.path_count++;
	r->plan.uid = r->plan.gid = BOX_NOBODY;
	id = runner_sh(r, "test -d /in");
	expect(r, id, RUNNER_STARTED, 0);
	expect(r, id, RUNNER_EXITED, 0);
}

/* Many at once, none of which fails. */
static void
the_runner_runs_many(void **state)
{
	struct running *r = *state;
	struct runner_event *e;
	int i, started = 0, ended = 0;

	for (i = 0; i < MANY; i++)
		runner_sh(r, "exit 0");
	while (ended < MANY) {
		e = next(r);
		started += e->kind == RUNNER_STARTED;
		if (e->kind == RUNNER_REFUSED)
			fail_msg("%s: %s", e->refusal.code, e->refusal.why);
		if (e->kind == RUNNER_EXITED) {
			assert_int_equal(e->status, 0);
			ended++;
		}
	}
	assert_int_equal(started, MANY);
}

/* Return how many groups of the process ${pid} there are in the hierarchy of pids. */
static int
groups_of(pid_t pid)
{
	char command[256];

	snprintf(command, sizeof(command),
	    "exit $(find /sys/fs/cgroup -maxdepth 6 -type d -name 'bastion-%d-*' | wc -l)",
	    (int)pid);
	return WEXITSTATUS(system(command));
}

/* CAP-3: a runner that is killed in the middle of a run takes the run with it; the next one finds
 * its group and removes it. */
static void
nothing_stays_of_a_killed_runner(void **state)
{
	struct running *r = *state;
	struct refusal refusal;
	pid_t pid = r->runner.pid;
	char text[16];
	uint64_t id = runner_sh(r, "echo on; sleep 1000");

	expect(r, id, RUNNER_STARTED, 0);
	assert_int_equal(read(r->out[0], text, 3), 3);
	kill(pid, SIGKILL);
	close(r->out[1]);
	r->out[1] = -1;
	assert_int_equal(read(r->out[0], text, sizeof(text)), 0);
	runner_stop(&r->runner);
	assert_int_equal(runner_start(&r->runner, "/proc/self/exe", &refusal), 0);
	assert_int_equal(groups_of(pid), 0);
}

/*
 * What a program says.
 */

static int
keep_frame(void *ctx, const char *frame, size_t len)
{
	char *out = ctx;

	assert_true(strlen(out) + len + 2 < 16384);
	strncat(out, frame, len);
	strcat(out, "\n");
	return 0;
}

/* Give the pump ${parts}, one a read, and return its frames. */
static const char *
pumped(const char *const *parts, int64_t frame_max, int64_t total)
{
	static char out[16384];
	struct pump p;
	int fds[2], rc = 1;

	out[0] = '\0';
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(pump_init_text(&p, fds[0], frame_max, total, keep_frame, out), 0);
	for (; *parts != NULL; parts++) {
		assert_int_equal(write(fds[1], *parts, strlen(*parts)), (ssize_t)strlen(*parts));
		assert_int_equal(pump_read(&p), 1);
	}
	close(fds[1]);
	while (rc == 1)
		rc = pump_read(&p);
	assert_int_equal(rc, 0);
	pump_free(&p);
	close(fds[0]);
	return out;
}

/* Output becomes frames as it comes: JSON, whole characters, nothing that is not UTF-8, within
 * bounds. */
static void
output_becomes_frames(void **state)
{
	static const char *const plain[] = {"a\"b\\\n\x1b[1m", "c", NULL};
	static const char *const split[] = {"x\xe2\x82", "\xacy\xf0", "\x9f\x98", "\x80", NULL};
	static const char *const bad[] = {
	    "\xff\xc0\xaf", "\xed\xa0\x80", "\xe2", "z", "\xe2\x82", NULL};
	static const char *const longer[] = {
	    "0123456789012345678901234567890123456789012345678901234567890123456789", NULL};

	(void)state;
	assert_string_equal(
	    pumped(plain, 1024, 4096), "{\"o\":\"a\\\"b\\\\\\n\\u001b[1m\"}\n{\"o\":\"c\"}\n");
	assert_string_equal(pumped(split, 1024, 4096),
	    "{\"o\":\"x\"}\n{\"o\":\"\u20acy\"}\n{\"o\":\"\U0001f600\"}\n");
	assert_string_equal(pumped(bad, 1024, 4096),
	    "{\"o\":\"\ufffd\ufffd\ufffd\"}\n{\"o\":\"\ufffd\ufffd\ufffd\"}\n{\"o\":\"\ufffdz\"}\n"
	    "{\"o\":\"\ufffd\"}\n");
	assert_string_equal(pumped(longer, 64, 4096),
	    "{\"o\":\"01234567890123456789012345678901234567890123456789\"}\n"
	    "{\"o\":\"01234567890123456789\"}\n");
	assert_non_null(strstr(pumped(longer, 64, 60), "{\"cut\":{\"what\":\"answer\",\"bytes\":"));
}

/*
 * The verb.
 */

static void
make_folder(struct scratch *s, char *dir, size_t size)
{
	snprintf(dir, size, "%s/folder", s->dir);
	box_shell("mkdir -p %s && echo one > %s/a && echo canary > %s/secret", dir, dir, dir);
}

/* Tried, a command's changes are shown and thrown away; the row says so. */
static void
a_try_changes_nothing(void **state)
{
	struct scratch *s = *state;
	struct program p;
	char dir[128];

	make_folder(s, dir, sizeof(dir));
	RUN(&p, s, "sandbox", "try", "--effect", dir, "--", "sh", "-c",
	    "echo said; echo two >> a; echo new > b; cat /proc/1/environ; exit 4");
	if (p.code != 4)
		fail_msg("%d: %s", p.code, p.err);
	assert_non_null(strstr(p.out, "said\n"));
	assert_non_null(strstr(p.out, "It would have changed:"));
	assert_non_null(strstr(p.out, "modified"));
	assert_non_null(strstr(p.out, "created"));
	program_free(&p);
	box_shell("test \"$(cat %s/a)\" = one && test ! -e %s/b", dir, dir);
	scratch_open(s, ROLE_READER);
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM sandbox_run WHERE state = 'ended'"
					  " AND exit_code = 4 AND changes = 2 AND applied IS NULL"
					  " AND program = 'sh' AND words = 3"),
	    1);
}

/* Each finds something in the folder "secret" where it is not hidden. */
static const char SEARCHES[] =
    "exec 2>/dev/null; grep -rl 'package main' .; find . -name '*.go'; grep -Rl canary /proc/self/cwd/;"
    "grep . link/* secret/*; find -L . -name 'c*'; ls -R; ls secret; tar -chf - . | strings | grep canary;"
    "bash -O globstar -O dotglob -c 'echo **/*.go'; cat <secret/creds.go; true";

/*
 * PL-22, PL-23: a search within a sandbox, by text and by name, finds nothing in what is hidden, by
 * whatever way it leads there; the same search outside does.
 */
static void
searches_find_nothing_hidden(void **state)
{
	struct scratch *s = *state;
	char dir[128], hidden[160], was[PATH_MAX];
	struct program p;

	snprintf(dir, sizeof(dir), "%s/ws", s->dir);
	snprintf(hidden, sizeof(hidden), "%s/secret", dir);
	box_shell("mkdir -p %s && cd %s && echo 'package main' >main.go && "
		  "echo 'package main // canary' >secret/creds.go && ln -s secret link",
	    hidden, dir);
	program_path(); /* while we stand where its name is from */
	assert_non_null(getcwd(was, sizeof(was)));
	assert_int_equal(chdir(dir), 0);
	box_shell("(%s) >../found; test $(grep -c creds.go ../found) -ge 7 &&"
		  " test $(grep -c canary ../found) -ge 4",
	    SEARCHES);
	RUN(&p, s, "sandbox", "try", "--effect", dir, "--deny-read", hidden, "--", "sh", "-c",
	    SEARCHES);
	assert_int_equal(chdir(was), 0);
	assert_int_equal(p.code, 0);
	assert_true(strncmp(p.out, "./main.go\n./main.go\n", 20) == 0);
	if (strstr(p.out, "creds") != NULL || strstr(p.out, "canary") != NULL)
		fail_msg("%s", p.out);
	program_free(&p);
}

static void
a_try_is_applied(void **state)
{
	struct scratch *s = *state;
	struct program p;
	char dir[128];

	make_folder(s, dir, sizeof(dir));
	RUN(&p, s, "sandbox", "try", "--effect", dir, "--apply", "--json", "--", "sh", "-c",
	    "echo two >> a; rm secret");
	if (p.code != 0)
		fail_msg("%d: %s", p.code, p.err);
	assert_non_null(strstr(p.out, "\"applied\":2"));
	assert_non_null(strstr(p.out, "{\"change\":\"deleted\",\"type\":\"file\""));
	program_free(&p);
	box_shell("test \"$(wc -l < %s/a)\" = 2 && test ! -e %s/secret", dir, dir);
}

static void
a_try_is_kept_aside(void **state)
{
	struct scratch *s = *state;
	struct program p;
	char dir[128], kept[128];

	make_folder(s, dir, sizeof(dir));
	snprintf(kept, sizeof(kept), "%s/kept/", s->dir);
	RUN(&p, s, "sandbox", "try", "--effect", dir, "--keep", kept, "--", "sh", "-c",
	    "mkdir -p d/e; echo two > d/e/f; echo x >> a");
	if (p.code != 0)
		fail_msg("%d: %s", p.code, p.err);
	program_free(&p);
	box_shell(
	    "test \"$(cat %s/d/e/f)\" = two && test -f %s/a && test ! -e %s/d", kept, kept, dir);
}

/* The state of bastion is not seen, also where it lies in the folder that is tried. */
static void
the_state_is_not_seen(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "sandbox", "try", "--effect", s->dir, "--deny-read", s->home.run, "--", "sh",
	    "-c",
	    "cat state/*; ls state run; find / -name bastion.key -o -name bastion.db 2>/dev/null; echo end");
	assert_null(strstr(p.out, "SQLite"));
	assert_null(strstr(p.out, "bastion.key"));
	assert_non_null(strstr(p.out, "end\n"));
	program_free(&p);
	RUN(&p, s, "sandbox", "try", "--read", s->home.state, "--", "true");
	assert_int_not_equal(p.code, 0);
	assert_non_null(strstr(p.err, "sandbox.plan"));
	program_free(&p);
}

/* Over its time a command is ended, and nothing of it is applied. */
static void
a_late_try_is_not_applied(void **state)
{
	struct scratch *s = *state;
	struct program p;
	char dir[128];

	make_folder(s, dir, sizeof(dir));
	RUN(&p, s, "sandbox", "try", "--effect", dir, "--apply", "--time", "1s", "--", "sh", "-c",
	    "echo two >> a; sleep 1000");
	assert_int_equal(p.code, 75);
	assert_non_null(strstr(p.err, "sandbox.time"));
	program_free(&p);
	box_shell("test \"$(cat %s/a)\" = one", dir);
}

/*
 * Another backend is taken where it is asked for by name; RU-04: nothing at all only where that was
 * set. RU-03: then a program runs as it is, where it was asked for, and says of no sandbox.
 */
static void
other_backends_are_asked_for(void **state)
{
	struct scratch *s = *state;
	struct program p;
	char dir[128];

	make_folder(s, dir, sizeof(dir));
	RUN(&p, s, "sandbox", "try", "--backend", "none", "--write", dir, "--", "true");
	assert_int_equal(p.code, 126);
	assert_non_null(strstr(p.err, "sandbox.none"));
	program_free(&p);
	assert_int_equal(
	    scratch_sql(s, "UPDATE setting SET value = 1 WHERE name = 'sandbox.unconfined'"), 0);
	RUN(&p, s, "sandbox", "try", "--backend", "none", "--write", dir, "--", "sh", "-c",
	    "echo \"$BASTION_SANDBOXED$(readlink /proc/self/ns/mnt) $PWD\" > b; (sleep 1000 &); exit 6");
	if (p.code != 6)
		fail_msg("%d: %s %s", p.code, p.out, p.err);
	program_free(&p);
	box_shell("test \"$(cat %s/b)\" = \"$(readlink /proc/self/ns/mnt) %s\"", dir, dir);
	RUN(&p, s, "sandbox", "try", "--backend", "bubblewrap", "--write", dir, "--", "sh", "-c",
	    "echo \"$BASTION_SANDBOXED $BASTION_SANDBOX_BACKEND\" > b; ls /proc | grep -c '^[0-9]'; "
	    "ls /home /root /var 2>/dev/null; exit 7");
	if (access("/usr/bin/bwrap", X_OK) == 0) {
		if (p.code != 7)
			fail_msg("%d: %s %s", p.code, p.out, p.err);
		box_shell("test \"$(cat %s/b)\" = '1 bubblewrap'", dir);
	} else {
		assert_non_null(strstr(p.err, "sandbox.backend"));
	}
	program_free(&p);
	RUN(&p, s, "sandbox", "try", "--backend", "policy-only", "--write", dir, "--", "true");
	assert_int_equal(p.code, 2);
	program_free(&p);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(rows_move_by_the_rules, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(limits_are_the_settings, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(nothing_runs_unconfined_in_silence, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_cap_counts_the_living, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_run_is_known_by_its_namespaces, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_runner_runs_programs, runner_up, runner_down),
	    cmocka_unit_test_setup_teardown(the_runner_says_who, runner_up, runner_down),
	    cmocka_unit_test_setup_teardown(the_runner_refuses, runner_up, runner_down),
	    cmocka_unit_test_setup_teardown(the_runner_kills_all, runner_up, runner_down),
	    cmocka_unit_test_setup_teardown(changes_go_with_who_asked, runner_up, runner_down),
	    cmocka_unit_test(a_spare_holds_nothing),
	    cmocka_unit_test_setup_teardown(a_spare_is_no_users, runner_up, runner_down),
	    cmocka_unit_test_setup_teardown(the_runner_runs_many, runner_up, runner_down),
	    cmocka_unit_test_setup_teardown(
		nothing_stays_of_a_killed_runner, runner_up, runner_down),
	    cmocka_unit_test(output_becomes_frames),
	    cmocka_unit_test_setup_teardown(a_try_changes_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(searches_find_nothing_hidden, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_try_is_applied, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_try_is_kept_aside, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_state_is_not_seen, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_late_try_is_not_applied, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(other_backends_are_asked_for, set_up, tear_down),
	};

	if (argc > 1 && strcmp(argv[1], "runner") == 0)
		return runner_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
