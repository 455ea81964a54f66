/* test_contain.c: what an order stops and what it spares, with real processes, all of them our own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/state/beat.h"
#include "engine/state/instance.h"
#include "engine/state/retention.h"
#include "engine/state/sparing.h"
#include "engine/worker/contain.h"
#include "engine/worker/contain_run.h"
#include "tests/orders.h"
#include "tests/person.h"
#include "tests/scratch.h"

#define TREE 8

/* Processes that a test started: tree[0] is the root. A line of the pipe says who each is. */
static struct {
	pid_t pid[TREE];
	int n, out[2];
} tree;

static struct scratch s;
static struct person p;

/* What a process of a tree does: name itself, wait to be stopped. Two of them run programs. */
static void
member(int number)
{
	struct {
		int number;
		pid_t pid;
	} me = {number, getpid()};

	if (write(tree.out[1], &me, sizeof(me)) != sizeof(me))
		_exit(1);
	alarm(60); /* a test that fails leaves nothing behind for long */
	if (number == 4)
		execl("/bin/sleep", "sleep", "1000", NULL);
	if (number == 6)
		execl("/usr/bin/tail", "tail", "-f", "/dev/null", NULL);
	for (;;)
		pause();
}

/* Processes from ${first} to ${last}, each the parent of the next. */
static void
branch(int first, int last)
{
	if (fork() != 0)
		return;
	if (first < last)
		branch(first + 1, last);
	member(first);
}

/* Wait until ${number} runs its program. */
static void
runs(int number, const char *program)
{
	static struct contain_print print;
	struct refusal r;

	while (contain_print_of(tree.pid[number], &print, &r) != 0 ||
	       strstr(print.exe, program) == NULL)
		usleep(1000);
}

/* 0 -> 1 -> 2 -> 3, 0 -> 4, 0 -> 5 -> 6; 4 runs sleep, 6 tail. */
static void
grow(void)
{
	struct {
		int number;
		pid_t pid;
	} one;
	int i;

	assert_int_equal(pipe(tree.out), 0);
	if ((tree.pid[0] = fork()) == 0) {
		signal(SIGCHLD, SIG_DFL);
		branch(1, 3);
		branch(4, 4);
		branch(5, 6);
		member(0);
	}
	for (i = 0; i < 7; i++) {
		assert_int_equal(read(tree.out[0], &one, sizeof(one)), sizeof(one));
		tree.pid[one.number] = one.pid;
	}
	tree.n = 7;
	runs(4, "/sleep");
	runs(6, "/tail");
}

/* Whether the process lives: one that its parent has not buried does not. */
static bool
lives(int number)
{
	struct identity id;

	return identity_of(tree.pid[number], &id) == 0 && id.state != 'Z' && id.state != 'X';
}

/* Those that live, as digits. A killed process may take a moment to be gone. */
static const char *
living(const char *want)
{
	static char said[TREE + 1];
	int tries, i, n;

	for (tries = 0; tries < 1000; tries++) {
		for (n = 0, i = 0; i < tree.n; i++)
			if (lives(i))
				said[n++] = (char)('0' + i);
		said[n] = '\0';
		if (strcmp(said, want) == 0)
			break;
		usleep(2000);
	}
	return said;
}

static void
fell(void)
{
	int i;

	for (i = 0; i < tree.n; i++)
		if (lives(i))
			kill(tree.pid[i], SIGKILL);
	while (waitpid(tree.pid[0], NULL, 0) == -1 && errno == EINTR)
		;
	close(tree.out[0]);
	close(tree.out[1]);
	tree.n = 0;
}

static struct contain_world
world(void)
{
	return (struct contain_world){.processes_max = 65536, .rounds_max = 8};
}

static struct identity
identity(int number)
{
	struct identity id;

	assert_int_equal(identity_of(tree.pid[number], &id), 0);
	return id;
}

static struct contain_entry
entry(pid_t pid, bool any)
{
	struct contain_entry e = {.id = 7, .any = any};
	struct refusal r;

	if (contain_print_of(pid, &e.print, &r) != 0)
		fail_msg("%s", r.why);
	return e;
}

static size_t
count(const struct contain_tree *t, enum contain_fate fate)
{
	size_t i, n = 0;

	for (i = 0; i < t->n; i++)
		n += t->list[i].fate == fate;
	return n;
}

/* Everything beneath the root is stopped, and nothing else. */
static void
a_tree_is_stopped(void **state)
{
	struct contain_world w = world();
	struct contain_target target = {0};
	struct contain_tree t = {0};
	struct refusal r;
	pid_t beside;

	(void)state;
	grow();
	beside = fork();
	if (beside == 0)
		for (;;)
			pause();
	target.pid = tree.pid[0];
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	assert_string_equal(living(""), "");
	assert_int_equal(count(&t, CONTAIN_STOPPED), 7);
	assert_int_equal(kill(beside, 0), 0);
	kill(beside, SIGKILL);
	waitpid(beside, NULL, 0);
	contain_free(&t);
	fell();
}

/* Children that ask to die with their parent are dead before their turn comes: the order stopped
 * them all the same, and says so. */
static void
those_that_die_with_their_parent_are_counted(void **state)
{
	struct contain_world w = world();
	struct contain_target target = {0};
	struct contain_tree t = {0};
	struct refusal r;
	int ready[2], i;
	char one;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	if ((target.pid = fork()) == 0) {
		signal(SIGCHLD, SIG_IGN);
		for (i = 0; i < 100 && fork() != 0; i++)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(60);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	for (i = 0; i < 101; i++)
		assert_int_equal(read(ready[0], &one, 1), 1);
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	assert_int_equal(count(&t, CONTAIN_STOPPED), 101);
	waitpid((pid_t)target.pid, NULL, 0);
	contain_free(&t);
	close(ready[0]);
	close(ready[1]);
}

/* CF-1: a process that begins its program anew, again and again, is told by the same print at any
 * moment: one that is spared is not taken for another while it restarts. */
static void
a_print_stands_through_exec(void **state)
{
	static const char again[] = "exec sh -c \"$0\" \"$0\"";
	static struct contain_print first, print;
	struct refusal r;
	pid_t pid;
	char one;
	int begun[2], i;

	(void)state;
	assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
	if ((pid = fork()) == 0) {
		alarm(60);
		execl("/bin/sh", "sh", "-c", again, again, NULL);
		_exit(1);
	}
	close(begun[1]);
	assert_int_equal(read(begun[0], &one, 1), 0);
	close(begun[0]);
	assert_int_equal(contain_print_of(pid, &first, &r), 0);
	for (i = 0; i < 3000; i++) {
		assert_int_equal(contain_print_of(pid, &print, &r), 0);
		assert_memory_equal(print.argv, first.argv, sizeof(print.argv));
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Make this process one that shows no arguments as long as it lives, which takes no privilege. */
static bool
shows_nothing(void)
{
	struct prctl_mm_map map = {.exe_fd = (__u32)-1};
	unsigned long field[52] = {0};
	char stat[2048], *at;
	ssize_t len;
	int fd, i;

	if ((fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC)) == -1)
		return false;
	len = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	stat[len > 0 ? len : 0] = '\0';
	/* Numbered as in proc(5): 2 is the program's name, 3 a letter. */
	if ((at = strrchr(stat, ')')) == NULL || strlen(at) < 4)
		return false;
	for (at += 3, i = 4; i < 52; i++)
		field[i] = strtoul(at, &at, 10);
	map.start_code = field[26];
	map.end_code = field[27];
	map.start_data = field[45];
	map.end_data = field[46];
	map.start_brk = field[47];
	map.brk = (__u64)(uintptr_t)sbrk(0);
	map.start_stack = field[28];
	map.arg_start = map.arg_end = field[48];
	map.env_start = field[50];
	map.env_end = field[51];
	return prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0) == 0;
}

/* A tree of many that show no arguments holds an order up no longer than one does. */
static void
blank_arguments_hold_nothing_up(void **state)
{
	struct contain_world w = world();
	struct contain_entry spared;
	struct contain_target target = {0};
	struct contain_tree t = {0};
	struct timespec from, to;
	struct refusal r;
	int ready[2], i;
	char one;

	(void)state;
	spared = entry(getpid(), false);
	w.spared = &spared;
	w.n = 1;
	assert_int_equal(pipe(ready), 0);
	if ((target.pid = fork()) == 0) {
		for (i = 0; i < 100 && fork() != 0; i++)
			continue;
		alarm(60);
		if (write(ready[1], shows_nothing() ? "b" : "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	for (i = 0; i < 101; i++) {
		assert_int_equal(read(ready[0], &one, 1), 1);
		if (one != 'b') {
			print_message("no process may hide its arguments here: PR_SET_MM\n");
			kill((pid_t)target.pid, SIGKILL);
			skip();
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &from);
	assert_int_equal(contain_look(&w, &target, &t, &r), 101);
	clock_gettime(CLOCK_MONOTONIC, &to);
	assert_in_range(
	    (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000, 0, 1500);
	contain_free(&t);
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	assert_int_equal(count(&t, CONTAIN_STOPPED), 101);
	waitpid((pid_t)target.pid, NULL, 0);
	contain_free(&t);
	close(ready[0]);
	close(ready[1]);
}

/* CF-1: a listed process, a listed program and what bastion started live, with what is beneath
 * them. */
static void
what_is_guarded_lives(void **state)
{
	struct contain_world w = world();
	struct contain_entry spared[2];
	struct contain_target target = {0};
	struct contain_tree t = {0};
	struct identity ours[1];
	struct refusal r;

	(void)state;
	grow();
	spared[0] = entry(tree.pid[4], true);
	memset(spared[0].print.argv, 0, sizeof(spared[0].print.argv));
	spared[1] = entry(tree.pid[6], false);
	ours[0] = identity(2);
	w.spared = spared;
	w.n = 2;
	w.ours = ours;
	w.our_count = 1;
	target.pid = tree.pid[0];
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	assert_string_equal(living("2346"), "2346");
	assert_int_equal(count(&t, CONTAIN_STOPPED), 3);
	assert_int_equal(count(&t, CONTAIN_SPARE), 4);
	contain_free(&t);
	fell();
	/* Other arguments make another process of it, but not another program. */
	grow();
	spared[0].print.argv[0] ^= 1;
	spared[1].print.argv[0] ^= 1;
	w.our_count = 0;
	target.pid = tree.pid[0];
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	assert_string_equal(living("4"), "4");
	contain_free(&t);
	fell();
}

/* CF-9: the entry and what is beneath it are spared in the tree of an agent as well. */
static void
an_agents_tree_spares_entries(void **state)
{
	struct contain_world w = world();
	struct contain_entry spared[1];
	struct contain_target target = {.agent = true};
	struct contain_tree t = {0};
	struct refusal r;

	(void)state;
	grow();
	spared[0] = entry(tree.pid[4], false);
	w.spared = spared;
	w.n = 1;
	target.pid = tree.pid[0];
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	assert_string_equal(living("4"), "4");
	contain_free(&t);
	fell();
}

/* CF-10: an agent is stopped although it is listed itself; any other listed root is not, nor is
 * what lies beneath it. */
static void
a_listed_root_is_spared_but_an_agent(void **state)
{
	struct contain_world w = world();
	struct contain_entry spared[1];
	struct contain_target target = {0};
	struct contain_tree t = {0};
	struct refusal r;

	(void)state;
	grow();
	spared[0] = entry(tree.pid[4], false);
	w.spared = spared;
	w.n = 1;
	target.pid = tree.pid[4];
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	assert_int_equal(count(&t, CONTAIN_STOPPED), 0);
	assert_string_equal(living("0123456"), "0123456");
	contain_free(&t);
	target.agent = true;
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	assert_string_equal(living("012356"), "012356");
	contain_free(&t);
	fell();
}

/* CF-2: an ancestor of bastion is refused by name, and so is init. */
static void
ancestors_are_refused(void **state)
{
	struct contain_world w = world();
	struct contain_target target = {.pid = getppid(), .agent = true};
	struct contain_tree t = {0};
	struct refusal r;

	(void)state;
	assert_int_equal(contain_stop(&w, &target, &t, &r), -1);
	assert_string_equal(r.code, "contain.bastion");
	assert_non_null(strstr(r.why, "ancestor of bastion"));
	target.pid = 1;
	assert_int_equal(contain_stop(&w, &target, &t, &r), -1);
	assert_string_equal(r.code, "contain.bastion");
	contain_free(&t);
}

/* CF-7: a process that bastion started is not containable, however old; one of anybody else is. */
static void
what_bastion_started_is_filtered(void **state)
{
	struct contain_world w = world();
	struct contain_target target = {0};
	struct contain_tree t = {0};
	struct identity ours[1];
	struct refusal r;

	(void)state;
	grow();
	ours[0] = identity(1);
	w.ours = ours;
	w.our_count = 1;
	/* Ordered an hour from now: by then it is one hour old. */
	target.issued_at = clock_now() + INT64_C(3600000);
	target.pid = tree.pid[2];
	assert_int_equal(contain_look(&w, &target, &t, &r), -1);
	assert_string_equal(r.code, "contain.bastion");
	assert_non_null(strstr(r.why, "started by bastion"));
	target.pid = tree.pid[6];
	assert_int_equal(contain_look(&w, &target, &t, &r), 1);
	assert_string_equal(living("0123456"), "0123456");
	contain_free(&t);
	fell();
}

/* CF-8: a number that another process has by now is not signalled. */
static void
a_reused_pid_is_not_signalled(void **state)
{
	struct contain_world w = world();
	struct contain_target target = {0};
	struct contain_tree t = {0};
	struct refusal r;

	(void)state;
	grow();
	target.pid = tree.pid[6];
	assert_int_equal(contain_look(&w, &target, &t, &r), 1);
	assert_true(contain_signal(&t.list[0], 0));
	/* As if the process that was looked at had ended, and this one had got its number. */
	t.list[0].start_ticks--;
	assert_false(contain_signal(&t.list[0], SIGKILL));
	assert_string_equal(living("0123456"), "0123456");
	contain_free(&t);
	/* Nor one that began after the order, or that runs another program. */
	target.issued_at = clock_now() - INT64_C(86400000) * 365;
	assert_int_equal(contain_stop(&w, &target, &t, &r), -1);
	assert_string_equal(r.code, "contain.reused");
	target.issued_at = 0;
	target.exe = "/bin/another";
	assert_int_equal(contain_stop(&w, &target, &t, &r), -1);
	assert_string_equal(r.code, "contain.exe");
	target.pid = 0x7ffffff0;
	assert_int_equal(contain_stop(&w, &target, &t, &r), -1);
	assert_string_equal(r.code, "contain.gone");
	w.processes_max = 1;
	assert_int_equal(contain_stop(&w, &target, &t, &r), -1);
	assert_string_equal(r.code, "contain.many");
	assert_string_equal(living("0123456"), "0123456");
	contain_free(&t);
	fell();
}

/* A tree that grows while it is stopped does not grow away. */
static void
a_growing_tree_is_stopped(void **state)
{
	struct contain_world w = world();
	struct contain_target target = {0};
	struct contain_tree t = {0};
	struct refusal r;
	char go;
	int out[2];

	(void)state;
	w.rounds_max = 100;
	assert_int_equal(pipe(out), 0);
	if ((target.pid = fork()) == 0) {
		close(out[0]);
		alarm(60);
		signal(SIGCHLD, SIG_IGN);
		if (write(out[1], "x", 1) != 1)
			_exit(1);
		/* Each child lives for a while and holds the pipe. */
		for (;;)
			if (fork() == 0) {
				usleep(20000);
				_exit(0);
			} else {
				usleep(500);
			}
	}
	close(out[1]);
	assert_int_equal(read(out[0], &go, 1), 1);
	assert_int_equal(contain_stop(&w, &target, &t, &r), 0);
	waitpid((pid_t)target.pid, NULL, 0);
	/* The end of the pipe: nobody holds it any more. */
	assert_int_equal(read(out[0], &go, 1), 0);
	close(out[0]);
	contain_free(&t);
}

/*
 * Orders and their rows.
 */

static struct key *host_key;
static int64_t paired;

static int
made(void **state)
{
	char path[160];
	struct refusal r;

	(void)state;
	clock_fix(clock_now());
	scratch_make(&s, HOME_BOX);
	snprintf(path, sizeof(path), "%s/host.key", s.dir);
	if (key_create(path, &r) != 0 || (host_key = key_load(path, &r)) == NULL)
		fail_msg("%s", r.why);
	paired = orders_pair(&s, host_key);
	person_enrol(&s, &p, "phone");
	grow();
	/* The orders are signed after the processes began. */
	clock_fix(clock_now() + 60000);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	fell();
	key_free(host_key);
	scratch_drop(&s);
	return 0;
}

/* The person allows it, with a code. */
static int
trusts(bool agents)
{
	struct sparing_terms terms = {.pairing_id = paired, .agents = agents};
	char code[7];
	struct sparing_proof proof = {.by_uid = 0, .key = s.key};

	clock_fix(clock_now() + 30000);
	proof.code = person_code(&p, clock_now(), code);
	return sparing_decide(scratch_open(&s, ROLE_PERSON), &terms, &proof);
}

static void
trusted(bool agents)
{
	if (trusts(agents) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
}

static int64_t
spares(int number, bool any)
{
	static struct contain_print print;
	struct sparing_process process = {.label = "mine", .exe = print.exe, .by_uid = 0};
	struct refusal r;
	int64_t id;

	assert_int_equal(contain_print_of(tree.pid[number], &print, &r), 0);
	process.uid = print.uid;
	process.argv = any ? NULL : print.argv;
	if (sparing_add(scratch_open(&s, ROLE_PERSON), &process, &id) != 0)
		return -1;
	return id;
}

static void
orders_from(const struct key *key, int n, int number, bool agent)
{
	char sql[512], *answer;
	struct directive_taken taken;

	snprintf(sql, sizeof(sql),
	    ORDERS_TERMS("contain", ", 'pid', %d, 'exe', NULL, 'agent', json('%s')"),
	    tree.pid[number], agent ? "true" : "false");
	answer = orders_answer(&s, key, sql, n);
	if (directive_take(s.db, paired, answer, strlen(answer), &taken) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
	free(answer);
}

static void
orders(int n, int number, bool agent)
{
	orders_from(host_key, n, number, agent);
}

static int
looks(void)
{
	struct contain_order *order = NULL;
	int rc;

	if ((rc = contain_run(scratch_open(&s, ROLE_WORKER), &order)) == -1 ||
	    (rc == 1 && contain_write(s.db, order) != 0)) {
		fprintf(stderr, "%s: %s\n", store_refusal(s.db)->code, store_refusal(s.db)->why);
		rc = -1;
	}
	contain_order_free(order);
	return rc;
}

static int
exit_of(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/* A worker looks, the child of a daemon: processes beside the tree, as what is beneath them is
 * spared.  What it returns. */
static int
worker_looks(void)
{
	pid_t daemon, worker;
	int code;

	store_close(s.db); /* no connection goes over a fork */
	s.db = NULL;
	if ((daemon = fork()) == 0) {
		if ((worker = fork()) == 0)
			_exit(looks() + 1);
		_exit(exit_of(worker));
	}
	code = exit_of(daemon);
	assert_true(code <= 2);
	return code - 1;
}

/* The worker looks; what it says of the newest order is ${want}. */
static void
works(const char *want)
{
	char said[512];

	if (geteuid() != 0) {
		print_message("skipped: only root stops processes\n");
		skip();
	}
	assert_int_not_equal(worker_looks(), -1);
	scratch_text(&s,
	    "SELECT state || ' ' || coalesce(result ->> '$.code', result ->> '$.stopped')"
	    " FROM directive ORDER BY id DESC LIMIT 1",
	    said, sizeof(said));
	if (strcmp(said, want) != 0) {
		scratch_text(&s, "SELECT result FROM directive ORDER BY id DESC LIMIT 1", said,
		    sizeof(said));
		fail_msg("%s", said);
	}
}

static void
sets(const char *sql)
{
	if (scratch_sql(&s, sql) != 0)
		fail_msg("%s: %s", sql, s.error);
}

/* What a daemon without a row started beside its worker is bastion's, as what the worker did. */
static void
what_the_daemon_started_is_spared(void **state)
{
	pid_t daemon, worker, other = 0, was = tree.pid[6];
	int told[2], go[2], code;
	char byte = 0;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root stops processes\n");
		skip();
	}
	assert_int_equal(pipe(told), 0);
	assert_int_equal(pipe(go), 0);
	trusted(false);
	store_close(s.db);
	s.db = NULL;
	if ((daemon = fork()) == 0) {
		if ((other = fork()) == 0)
			for (;;)
				pause();
		if (write(told[1], &other, sizeof(other)) != sizeof(other) ||
		    read(go[0], &byte, 1) != 1)
			_exit(98);
		if ((worker = fork()) == 0)
			_exit(looks() + 1);
		code = exit_of(worker);
		if (waitpid(other, NULL, WNOHANG) != 0)
			_exit(97);
		kill(other, SIGKILL);
		_exit(code);
	}
	assert_int_equal(read(told[0], &other, sizeof(other)), sizeof(other));
	tree.pid[6] = other;
	scratch_open(&s, ROLE_PERSON);
	orders(1, 6, false);
	tree.pid[6] = was;
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(exit_of(daemon), 2);
	close(told[0]);
	close(told[1]);
	close(go[0]);
	close(go[1]);
	works("refused contain.bastion");
}

/* Without a person's word nothing is stopped; with it, what was ordered; without it again, nothing.
 */
static void
containing_needs_a_persons_word(void **state)
{
	bool ended;

	(void)state;
	assert_int_equal(worker_looks(), 0);
	orders(1, 6, false);
	works("refused contain.right");
	assert_string_equal(living("0123456"), "0123456");
	trusted(false);
	orders(2, 6, true);
	works("refused contain.agents");
	orders(3, 5, false);
	works("done 2");
	assert_string_equal(living("01234"), "01234");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM contain_kills"), 2);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM refused"), 2);
	assert_int_equal(sparing_end(scratch_open(&s, ROLE_PERSON), paired, &ended), 0);
	assert_true(ended);
	assert_int_equal(sparing_end(s.db, paired, &ended), 0);
	assert_false(ended);
	orders(4, 4, false);
	works("refused contain.right");
	trusted(true);
	sets("UPDATE factor SET state = 'dropped', dropped_at = now_ms()");
	orders(5, 4, false);
	works("refused contain.right");
	assert_string_equal(living("01234"), "01234");
}

/* CF-4: a list, or a right, that another tool edited stops nothing, until a person sealed it again.
 */
static void
an_edited_list_stops_nothing(void **state)
{
	(void)state;
	assert_int_equal(spares(4, true), 1);
	trusted(false);
	sets("DROP TRIGGER contain_spare_stays; DELETE FROM contain_spare");
	/* (That schema would be refused as a whole: put it right again, as that tool would.) */
	sets(
	    "CREATE TRIGGER contain_spare_stays BEFORE DELETE ON contain_spare\n"
	    "BEGIN\n"
	    "    SELECT RAISE(ABORT, 'contain.kept|an entry of the list is dropped, not deleted');\n"
	    "END");
	orders(1, 0, false);
	works("refused contain.edited");
	assert_string_equal(living("0123456"), "0123456");
	assert_int_equal(spares(4, false), -1);
	person_says(&s, "contain.edited");
	trusted(false);
	orders(2, 5, false);
	works("done 2");
	assert_string_equal(living("01234"), "01234");
}

/* CF-3: a worker that is not root stops nothing. */
static void
without_authority_nothing_is_stopped(void **state)
{
	(void)state;
	trusted(true);
	orders(1, 0, false);
	scratch_refused(&s, "contain.authority",
	    "UPDATE directive SET state = 'running', started_at = now_ms(), by_uid = 1000");
	scratch_refused(&s, "contain.authority",
	    "UPDATE directive SET state = 'running', started_at = now_ms(), by_uid = NULL");
	assert_string_equal(living("0123456"), "0123456");
}

/* CF-5, CF-6: what became of an order is there after a restart, and the order is not done again;
 * one that a dying worker had begun is lost, and not done again either. */
static void
an_order_is_carried_out_once(void **state)
{
	(void)state;
	trusted(false);
	orders(1, 6, false);
	orders(1, 6, false);
	works("done 1");
	assert_int_equal(worker_looks(), 0);
	store_close(s.db);
	s.db = NULL;
	orders(1, 6, false);
	assert_int_equal(worker_looks(), 0);
	works("done 1");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM contain_kills"), 1);
	orders(2, 4, false);
	sets(
	    "INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES ('00000000-0000-0000-0000-000000000000', 2, 1, 0, 'x', now_ms());"
	    "INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 'box', 1, '1', '/run', now_ms());"
	    "INSERT INTO actor_run (instance_id, actor, attempt, process_id, started_at)"
	    " VALUES (1, 'worker', 1, 1, now_ms());"
	    "UPDATE actor_run SET state = 'running';"
	    "UPDATE directive SET state = 'running', started_at = now_ms(), by_uid = 0 WHERE id = 2;"
	    "UPDATE instance SET state = 'lost', ended_at = now_ms(), end_reason = 'kill -9'");
	works("lost directive.lost");
	assert_int_equal(worker_looks(), 0);
	assert_string_equal(living("012345"), "012345");
	/* What it stopped goes with it after its time, and not before. */
	scratch_refused(&s, "contain.order", "DELETE FROM contain_process");
	sets("DELETE FROM directive_untold");
	clock_fix(clock_now() + INT64_C(366) * 86400000);
	store_acting(scratch_open(&s, ROLE_KEEPER), "actor:keeper");
	while (retention_step(s.db) == 1)
		;
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM contain_process"), 0);
	assert_int_equal(scratch_value(&s, "SELECT min(id) FROM directive"), 2);
}

/* CF-9, CF-10, by their rows: an agent is stopped although it is listed, an entry beneath it is
 * not; a listed root that is no agent leaves no kill. */
static void
zero_kills_are_not_recorded(void **state)
{
	(void)state;
	trusted(true);
	assert_int_equal(spares(6, false), 1);
	assert_int_equal(spares(4, true), 2);
	orders(1, 4, false);
	works("done 0");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM contain_kills"), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM contain_process WHERE fate = 'spared'"), 1);
	orders(2, 5, false);
	works("done 1");
	assert_string_equal(living("012346"), "012346");
	orders(3, 4, true);
	works("done 1");
	assert_string_equal(living("01236"), "01236");
}

/* On a network the anchor says so as well; a Host that is held has nothing stopped. */
static void
the_anchor_has_to_approve_containing(void **state)
{
	(void)state;
	trusted(true);
	sets("UPDATE box SET mode = 'networked'");
	orders(1, 6, false);
	works("refused anchor.none");
	sets("INSERT INTO anchor (id, pairing_id, host_key, reason, claimed_at, by_uid, heard_at)"
	     " SELECT 1, id, host_key, 'claimed', now_ms(), 0, now_ms() FROM pairing");
	orders(2, 6, false);
	works("done 1");
	sets("INSERT INTO quarantine (pairing_id, strikes, last, from_at, until_at)"
	     " VALUES (1, 1, 1, now_ms(), now_ms() + 60000)");
	orders(3, 5, false);
	works("refused pairing.held");
	assert_string_equal(living("012345"), "012345");
}

/* Taking an entry from the list is proven; the text that an SSH key signs is of that one entry. */
static void
dropping_an_entry_is_proven(void **state)
{
	struct sparing_terms terms = {.entry = 1};
	struct sparing_proof proof = {.by_uid = 0, .key = s.key};
	char text[SPARING_TERMS_MAX], code[7];

	(void)state;
	proof.key = s.key;
	assert_int_equal(spares(4, true), 1);
	assert_int_equal(spares(4, true), -1);
	person_says(&s, "contain.listed");
	assert_int_equal(sparing_decide(scratch_open(&s, ROLE_PERSON), &terms, &proof), -1);
	person_says(&s, "contain.factor");
	scratch_refused(&s, "contain.factor",
	    "UPDATE contain_spare SET state = 'dropped', dropped_at = now_ms()");
	assert_int_equal(sparing_text(scratch_open(&s, ROLE_PERSON), &terms, text), 0);
	assert_non_null(strstr(text, "no longer spared: entry 1, \"mine\""));
	clock_fix(clock_now() + 30000);
	proof.code = person_code(&p, clock_now(), code);
	assert_int_equal(sparing_decide(scratch_open(&s, ROLE_PERSON), &terms, &proof), 0);
	assert_int_equal(sparing_text(s.db, &terms, text), -1);
	person_says(&s, "contain.unknown");
	assert_int_equal(spares(4, true), 2);
	sets("UPDATE setting SET value = 1 WHERE name = 'contain.spared'");
	assert_int_equal(spares(6, true), -1);
	person_says(&s, "contain.full");
}

/* A restored machine is an older self: what was allowed then is allowed anew, or not at all. */
static void
a_right_ends_with_a_restore(void **state)
{
	(void)state;
	trusted(true);
	sets("INSERT INTO restore (restored_at, seq, head, keep_grants, keep_factors)"
	     " SELECT now_ms() - 100000, seq, hash, 1, 1 FROM audit ORDER BY seq DESC LIMIT 1");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_contain_rights"), 0);
	orders(1, 6, false);
	works("refused contain.right");
	sets("INSERT INTO restore (restored_at, seq, head, keep_grants, keep_factors)"
	     " SELECT now_ms() + 10000, seq, hash, 1, 1 FROM audit ORDER BY seq DESC LIMIT 1");
	orders(2, 6, false);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM refused WHERE code = 'directive.replayed'"), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_tree_is_stopped),
	    cmocka_unit_test(those_that_die_with_their_parent_are_counted),
	    cmocka_unit_test(a_print_stands_through_exec),
	    cmocka_unit_test(blank_arguments_hold_nothing_up),
	    cmocka_unit_test(what_is_guarded_lives),
	    cmocka_unit_test(an_agents_tree_spares_entries),
	    cmocka_unit_test(a_listed_root_is_spared_but_an_agent),
	    cmocka_unit_test(ancestors_are_refused),
	    cmocka_unit_test(what_bastion_started_is_filtered),
	    cmocka_unit_test(a_reused_pid_is_not_signalled),
	    cmocka_unit_test(a_growing_tree_is_stopped),
	    cmocka_unit_test_setup_teardown(what_the_daemon_started_is_spared, made, end),
	    cmocka_unit_test_setup_teardown(containing_needs_a_persons_word, made, end),
	    cmocka_unit_test_setup_teardown(an_edited_list_stops_nothing, made, end),
	    cmocka_unit_test_setup_teardown(without_authority_nothing_is_stopped, made, end),
	    cmocka_unit_test_setup_teardown(an_order_is_carried_out_once, made, end),
	    cmocka_unit_test_setup_teardown(zero_kills_are_not_recorded, made, end),
	    cmocka_unit_test_setup_teardown(the_anchor_has_to_approve_containing, made, end),
	    cmocka_unit_test_setup_teardown(dropping_an_entry_is_proven, made, end),
	    cmocka_unit_test_setup_teardown(a_right_ends_with_a_restore, made, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
