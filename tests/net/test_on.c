/* test_on.c: what would happen, asked before; a wait that is seen, and that Ctrl-C ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/program.h"

static struct driver d;
static struct said said;

static int
begin(void **state)
{
	(void)state;
	driver_first_day(&d);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

static void
says(const char *text)
{
	if (strstr(said.out, text) == NULL && strstr(said.err, text) == NULL)
		fail_msg("does not say '%s': %s%s", text, said.out, said.err);
}

/* All that an ask could leave at the box. */
static int64_t
traces(void)
{
	return driver_value(&d, DRIVER_BOX,
	    "SELECT (SELECT max(seq) FROM audit) + (SELECT count(*) FROM op_run)"
	    " + (SELECT count(*) FROM approval) + (SELECT count(*) FROM grant_use)"
	    " + (SELECT count(*) FROM refused)");
}

/* A dry ask says what would happen, and by which rule, and leaves nothing. */
static void
a_dry_run_does_nothing(void **state)
{
	int64_t before;

	(void)state;
	before = traces();
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "observe:folders", "/usr", "--dry-run", NULL), 77);
	says("It would wait");
	assert_int_equal(traces(), before);
	driver_grant(&d, "observe:folders", "/usr", "1", "2", "1h");
	before = traces();
	driver_does(
	    &said, NULL, "on", d.box, "observe:folders", "/usr", "1", "--dry-run", "--json", NULL);
	says("\"dry\":\"allowed\"");
	says("\"left\":2");
	says("{\"x\":0}");
	driver_does(&said, NULL, "on", d.box, "observe:folders", "/usr", "1", "--dry-run", NULL);
	says("It would run: grant 1 holds it, 2 uses left");
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "observe:folders", "/etc", "--dry-run", NULL),
	    126);
	says("[grant.args]");
	says("by the rule op_run_is_allowed");
	/* A question that would be put anew is none yet. */
	assert_int_equal(driver_run(&said, NULL, "on", d.box, "observe:folders", "/etc", "--anew",
			     "--dry-run", NULL),
	    77);
	assert_int_equal(traces(), before);
	driver_does(&said, NULL, "on", d.box, "observe:folders", "/usr", "1", NULL);
	driver_does(&said, NULL, "on", d.box, "observe:folders", "/usr", "1", "--dry-run", NULL);
	says("1 use left");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use"), 1);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM call WHERE dry AND state = 'done'"),
	    6);
}

/* What is no ask is refused as ever, dry or not. */
static void
a_dry_run_has_its_form(void **state)
{
	(void)state;
	driver_refused(
	    &said, 2, "op.unknown", NULL, "on", d.box, "observe:nothing", "--dry-run", NULL);
	assert_null(strstr(said.err, "near it"));
	assert_non_null(strstr(said.err, "see bastion host ops BOX"));
	driver_refused(&said, 2, "op.unknown", NULL, "on", d.box, "observe:folder", "/usr", NULL);
	assert_non_null(
	    strstr(said.err, "there is no op of this name; near it: observe:folders ["));
	driver_refused(&said, 2, "op.unknown", NULL, "on", d.box, "logins", NULL);
	assert_non_null(strstr(said.err, "near it: observe:logins ["));
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "observe:logins", "--dry-run", "--wait", NULL), 2);
}

/* Not on a pipe: whoever waits there reads the answer alone. */
static void
a_wait_goes_on_to_the_answer(void **state)
{
	static const char *const words[] = {"on", NULL, "observe:logins", "--wait=50s", NULL};
	const char *mine[5];
	struct job job;

	(void)state;
	memcpy(mine, words, sizeof(mine));
	mine[1] = d.box;
	driver_start(&job, NULL, mine);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM open_approvals"
	    " WHERE op = 'observe:logins'");
	driver_approve(&d, driver_question(&d));
	driver_finish(&job, &said);
	says("failed: ");
	assert_null(strstr(said.err, "waits for a person"));
}

/* The end of a wait says what stays open. */
static void
a_wait_that_ends_says_what_is_open(void **state)
{
	(void)state;
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "observe:journal", "cron", "--wait=1s", NULL), 77);
	says("stays open");
	says("[approval.needed]");
}

/* On a terminal. */
struct tty {
	pid_t pid;
	int fd;
	char seen[16384];
	size_t len;
};

static void
tty_start(struct tty *t, const char *const *words)
{
	struct winsize size = {.ws_row = 24, .ws_col = 120};
	union {
		const char *in[16];
		char *out[16];
	} argv = {.in = {"bastion"}};
	int i;

	t->len = 0;
	t->seen[0] = '\0';
	for (i = 0; words[i] != NULL; i++)
		argv.in[i + 1] = words[i];
	if ((t->pid = forkpty(&t->fd, NULL, NULL, &size)) == 0) {
		execv(program_path(), argv.out);
		_exit(127);
	}
	assert_true(t->pid > 0);
}

/* Read until ${text} is there; NULL: to the end. */
static void
tty_until(struct tty *t, const char *text)
{
	struct pollfd p = {.fd = t->fd, .events = POLLIN};
	ssize_t n;

	while (text == NULL || strstr(t->seen, text) == NULL) {
		if (poll(&p, 1, DRIVER_WAIT_MS) != 1)
			fail_msg("it does not say '%s': %s", text, t->seen);
		n = read(t->fd, t->seen + t->len, sizeof(t->seen) - 1 - t->len);
		if (n <= 0 && text == NULL)
			return;
		if (n <= 0)
			fail_msg("it ended without '%s': %s", text, t->seen);
		t->seen[t->len += (size_t)n] = '\0';
	}
}

static int
tty_over(struct tty *t)
{
	int status;

	tty_until(t, NULL);
	close(t->fd);
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A terminal is told what is waited for; Ctrl-C takes the ask back, and says so. */
static void
a_wait_is_seen_and_taken_back(void **state)
{
	const char *const words[] = {"on", d.box, "observe:cert", "443", "--wait", NULL};
	static struct tty t;
	char want[128];

	(void)state;
	tty_start(&t, words);
	tty_until(&t, "waits for a person, since 0:0");
	snprintf(want, sizeof(want), "question %d at %s", (int)driver_question(&d), d.box);
	assert_non_null(strstr(t.seen, want));
	tty_until(&t, "since 0:01, until ");
	assert_int_equal(write(t.fd, "\003", 1), 1);
	assert_int_equal(tty_over(&t), 1);
	assert_non_null(strstr(t.seen, "\r\033[K"));
	assert_non_null(strstr(t.seen, "taken back, and nothing runs; question"));
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT code = 'call.cancelled' FROM call ORDER BY id DESC LIMIT 1");
	/* A yes that comes later runs nothing by itself. */
	driver_approve(&d, driver_question(&d));
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run WHERE op = 'observe:cert'"),
	    0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_dry_run_does_nothing),
	    cmocka_unit_test(a_dry_run_has_its_form),
	    cmocka_unit_test(a_wait_goes_on_to_the_answer),
	    cmocka_unit_test(a_wait_that_ends_says_what_is_open),
	    cmocka_unit_test(a_wait_is_seen_and_taken_back),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
