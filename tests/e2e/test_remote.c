/* test_remote.c: a session run from another machine, over a cable that is cut and a daemon that is
 * started again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/netns.h"
#include "tests/program.h"

static struct driver d;
static struct said said;
static bool can;
static char work[96], pin[65], *program;

#define NEED(where)                                                     \
	if (!can) {                                                     \
		print_message("skipped: no network namespaces here\n"); \
		skip();                                                 \
	}                                                               \
	(void)(where)

/* Become ${command}, of a user with a state of their own. */
static void
become(const char *command)
{
	char script[2048];

	snprintf(script, sizeof(script), "export BASTION_STATE=%s/client BASTION=%s; cd %s; %s",
	    d.dir, program, d.dir, command);
	execl("/bin/sh", "sh", "-c", script, NULL);
	_exit(127);
}

/* Start ${command} at the other end of the cable. */
static pid_t
there(const char *command)
{
	pid_t pid;

	if ((pid = netns_fork()) == 0)
		become(command);
	return pid;
}

/* The same, on a terminal of 30 rows and 100 columns. */
static void
talk_there(struct program_talk *t, const char *command)
{
	t->len = 0;
	if ((t->pid = netns_terminal(&t->fd, 30, 100)) == 0)
		become(command);
	assert_int_not_equal(t->pid, -1);
}

/* Whether a terminal is what a shell left there: lines are edited, and typing is seen. */
static bool
is_cooked(int fd)
{
	struct termios t;

	return tcgetattr(fd, &t) == 0 &&
	       (t.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG) &&
	       (t.c_oflag & OPOST) != 0;
}

/* Begin a session with a terminal, which says what it is told. */
static void
begin_talkative(const char *name)
{
	char script[512];

	snprintf(script, sizeof(script),
	    "while read -r l; do case $l in size) stty size;; bye) exit 5;; *) echo \"got:$l;\";; esac; done");
	driver_does(&said, NULL, "session", "run", "--terminal", "--cwd", work, "--name", name,
	    "--detach", "--", "sh", "-c", script, NULL);
	driver_until(
	    &d, DRIVER_BOX, 1, "SELECT state = 'running' FROM session WHERE name = '%s'", name);
}

/* How often a session said ${what}. */
static int64_t
times_said(const char *name, const char *what)
{
	return driver_value(&d, DRIVER_BOX,
	    "SELECT (length(t) - length(replace(t, '%s', ''))) / length('%s') FROM (SELECT"
	    "  group_concat(CAST(data AS TEXT), '') AS t FROM session_output WHERE session_id ="
	    "  (SELECT id FROM session WHERE name = '%s'))",
	    what, what, name);
}

static int
over(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What the file ${name} of the test holds, for free(). */
static char *
text_of(const char *name)
{
	char path[128], *text = calloc(1, 1 << 20);
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", d.dir, name);
	assert_non_null(text);
	if ((f = fopen(path, "re")) != NULL) {
		(void)!fread(text, 1, (1 << 20) - 1, f);
		fclose(f);
	}
	return text;
}

static bool
holds(const char *name, const char *what)
{
	char *text = text_of(name);
	bool found = strstr(text, what) != NULL;

	free(text);
	return found;
}

static void
until_holds(const char *name, const char *what)
{
	int64_t end = driver_now() + DRIVER_WAIT_MS;

	while (!holds(name, what)) {
		if (driver_now() > end)
			fail_msg("%s never said %s: %s", name, what, text_of(name));
		driver_pause();
	}
}

static void
cable(const char *how)
{
	const char *const words[] = {"ip", "link", "set", "bst1", how, NULL};

	assert_int_equal(netns_run(words), 0);
	if (strcmp(how, "up") == 0) {
		/* Taken down, a link loses its routes but not its address. */
		driver_pause();
	}
}

static int
make(void **state)
{
	char place[48], command[512], token[128];
	FILE *f;

	(void)state;
	can = netns_enter();
	assert_non_null(program = realpath(program_path(), NULL));
	driver_make(&d);
	if (!can)
		return 0;
	driver_serve(&d, DRIVER_BOX);
	snprintf(work, sizeof(work), "%s/work", d.dir);
	assert_int_equal(mkdir(work, 0755), 0);
	snprintf(place, sizeof(place), "%s:%d", NETNS_BOX, driver_port());
	/* So that a cable that is down ends a connection, which else outlives it for a minute. */
	driver_does(&said, NULL, "settings", "set", "port.dead_ms", "1000", NULL);
	driver_does(&said, NULL, "remote", "listen", place, "--json", NULL);
	snprintf(pin, sizeof(pin), "%.64s", strstr(said.out, "\"pin\":\"") + 7);
	driver_does(&said, NULL, "remote", "add", "far", "--root", work, "--verbs",
	    "command,list,attach,send,cancel,bundle", NULL);
	snprintf(token, sizeof(token), "%s/token", d.dir);
	assert_non_null(f = fopen(token, "we"));
	fputs(said.out, f);
	fclose(f);
	driver_until(
	    &d, DRIVER_BOX, 1, "SELECT count(*) FROM tls_identity WHERE state = 'current'");
	snprintf(command, sizeof(command),
	    "for i in 1 2 3 4 5 6 7 8 9 10; do"
	    " $BASTION remote login vm %s --ca-pin %s <token && exit 0; sleep 0.5; done; exit 1",
	    place, pin);
	assert_int_equal(over(there(command)), 0);
	assert_int_equal(unlink(token), 0);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	driver_drop(&d);
	free(program);
	return 0;
}

/* The far end has its program's lines and its exit code, and input reaches it. */
static void
run_from_afar(void **state)
{
	char command[512];

	NEED(state);
	snprintf(command, sizeof(command),
	    "$BASTION session run --remote vm --cwd %s --name a -- sh -c 'echo e1; echo no >&2;"
	    " pwd; exit 7' >a.out 2>a.err",
	    work);
	assert_int_equal(over(there(command)), 7);
	assert_true(holds("a.out", "e1\n"));
	assert_true(holds("a.out", work));
	assert_true(holds("a.err", "no\n"));
	snprintf(command, sizeof(command),
	    "$BASTION session run --remote vm --cwd %s --name i --input --detach -- cat >/dev/null &&"
	    " echo hello | $BASTION session send i --remote vm &&"
	    " $BASTION session send i there --end --remote vm &&"
	    " $BASTION session attach i --remote vm >i.out",
	    work);
	assert_int_equal(over(there(command)), 0);
	assert_true(holds("i.out", "hello\nthere\n"));
}

/* RB-07: the cable is cut, the daemon is started again, the cable is mended: who followed
 * goes on with the next line, and who attaches anew is told the same lines. */
static void
cut_and_started_again(void **state)
{
	char command[512], *followed, *again, *logs;
	pid_t pid;

	NEED(state);
	snprintf(command, sizeof(command),
	    "exec $BASTION session run --remote vm --cwd %s --name long --"
	    " sh -c 'i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done' >long.out 2>long.err",
	    work);
	pid = there(command);
	until_holds("long.out", "line 20\n");
	cable("down");
	/* It goes on without its reader, and ends with the daemon. */
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines > 300 FROM session WHERE name = 'long'");
	assert_false(holds("long.out", "line 150\n"));
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	cable("up");
	assert_int_not_equal(over(pid), 0);
	assert_true(holds("long.err", "the way is cut"));
	assert_int_not_equal(
	    over(there("exec $BASTION session attach long --remote vm >again.out 2>/dev/null")), 0);
	driver_does(&said, NULL, "session", "logs", "long", NULL);
	logs = strdup(said.out);
	followed = text_of("long.out");
	again = text_of("again.out");
	assert_true(strlen(logs) > 1000);
	assert_string_equal(followed, logs);
	assert_string_equal(again, logs);
	free(logs);
	free(followed);
	free(again);
}

/* Who serves pages out there, on ${fd}. */
static pid_t
serve_pages(int fd)
{
	static const char page[] = "HTTP/1.0 200 OK\r\nContent-Length: 14\r\n\r\nfrom the site\n";
	pid_t pid = fork();
	char ask[1024];
	int c;

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((c = accept(fd, NULL, NULL)) != -1) {
		(void)!read(c, ask, sizeof(ask));
		(void)!write(c, page, sizeof(page) - 1);
		close(c);
	}
	_exit(0);
}

/* A worker on the lane reaches what it was added for, from wherever its session was begun, and
 * nothing else: not another address, not this machine, not what it names itself; each connection
 * names its session; and a lane that is started again is the way out again. */
static void
a_worker_is_on_the_lane(void **state)
{
	static const char script[] =
	    "for u in %s:%u %s:%u " NETNS_BOX
	    ":%u 127.0.0.1:%u; do curl -s -m 20 http://$u/ || echo no; done;"
	    " read l; curl -s -m 20 --retry 20 --retry-all-errors --retry-delay 0 http://%s:%u/; curl -s -m 20 http://%s:%u/";
	char allow[64], words[1024], command[512];
	uint16_t port = 0;
	pid_t pid, other;
	int fd;

	NEED(state);
	fd = netns_listen(NETNS_SITE, &port);
	pid = serve_pages(fd);
	close(fd);
	snprintf(allow, sizeof(allow), "%s:%u", NETNS_SITE, port);
	fd = netns_listen(NETNS_OTHER, &port);
	other = serve_pages(fd);
	close(fd);
	snprintf(words, sizeof(words), script, NETNS_SITE, port, NETNS_OTHER, port, port, port,
	    NETNS_SITE, port, NETNS_OTHER, port);
	driver_refused(&said, 2, "worker.lane", NULL, "worker", "add", "w", "--net", "host",
	    "--allow", allow, "--", "true", NULL);
	driver_refused(&said, 2, "run.preset", NULL, "worker", "add", "w", "--allow", "@none", "--",
	    "true", NULL);
	driver_does(&said, NULL, "worker", "add", "reach", "--allow", allow, "--allow", NETNS_BOX,
	    "--", "sh", "-c", words, NULL);
	driver_does(&said, NULL, "remote", "add", "runner", "--root", work, NULL);
	snprintf(command, sizeof(command),
	    "sed 's/^token .*/token %.85s/' client/remotes/vm >client/remotes/run; chmod 600 client/remotes/run;"
	    " $BASTION session run --remote run --cwd %s --name lane --input --detach reach",
	    said.out, work);
	assert_int_equal(over(there(command)), 0);
	driver_until(&d, DRIVER_BOX, 4, "SELECT lines FROM session WHERE name = 'lane'");
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM session_flows WHERE state = 'done'");
	/* Nobody is at its terminal to be asked: a person reads what it wanted, and allows it. */
	driver_does(&said, NULL, "session", "asks", "--json", NULL);
	assert_non_null(strstr(said.out, NETNS_OTHER));
	assert_null(strstr(said.out, NETNS_SITE));
	driver_does(&said, NULL, "session", "allow", "lane", NETNS_OTHER, NULL);
	driver_does(&said, NULL, "session", "asks", NULL);
	assert_null(strstr(said.out, NETNS_OTHER));
	driver_refused(
	    &said, 2, "session.unlaned", NULL, "session", "allow", "a", NETNS_OTHER, NULL);
	driver_kill(&d, DRIVER_BOX, "egress");
	driver_does(&said, NULL, "session", "send", "lane", "go", NULL);
	driver_does(&said, NULL, "session", "attach", "lane", NULL);
	if (strcmp(said.out, "from the site\nno\nno\nno\nfrom the site\nfrom the site\n") != 0)
		fail_msg("%s%s", said.out, said.err);
	/* (The last one may still be under way when its session ends, and is lost with it.) */
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) >= 2 FROM session_flows JOIN egress_flow AS f USING (id)"
	    " WHERE session = 'lane' AND worker = 'reach' AND f.host = '" NETNS_SITE
	    "' AND f.opened_at IS NOT NULL AND f.ended_at IS NOT NULL");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM session_flows WHERE state = 'refused' AND"
			     " code = 'egress.unknown' AND what GLOB '" NETNS_OTHER ":*'"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM session_flows WHERE state = 'refused' AND"
			     " code = 'egress.own' AND what GLOB '" NETNS_BOX ":*'"),
	    1);
	/* What was allowed went with the session. */
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM egress_rule WHERE state = 'active'"),
	    0);
	assert_int_equal(over(there("rm client/remotes/run")), 0);
	kill(pid, SIGKILL);
	kill(other, SIGKILL);
	over(pid);
	over(other);
}

/* Where persons look, what no rule speaks of waits for them: what was allowed meanwhile goes on as
 * if it had been allowed before, and what nobody answered to in time is refused, once. */
static void
the_unknown_waits_for_a_person(void **state)
{
	static const char asks[] = "SELECT count(*) FROM session_asks WHERE session = '%s'";
	char words[256], where[64];
	uint16_t port = 0;
	pid_t pid;
	int fd;

	NEED(state);
	fd = netns_listen(NETNS_OTHER, &port);
	pid = serve_pages(fd);
	close(fd);
	snprintf(where, sizeof(where), "%s:%u", NETNS_OTHER, port);
	snprintf(words, sizeof(words), "curl -s -m 300 http://%s/ || echo no", where);
	driver_does(&said, NULL, "settings", "set", "session.ask_ms", "300000", NULL);
	driver_does(
	    &said, NULL, "worker", "add", "one", "--net", "lane", "--", "sh", "-c", words, NULL);
	driver_does(&said, NULL, "session", "run", "--detach", "--cwd", work, "--name", "held",
	    "one", NULL);
	driver_until(&d, DRIVER_BOX, 1, asks, "held");
	/* A rule about something else answers nothing. */
	driver_does(&said, NULL, "session", "allow", "held", "192.0.2.77:1", NULL);
	driver_until(&d, DRIVER_BOX, 1, asks, "held");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT lines FROM session WHERE name = 'held'"), 0);
	driver_does(&said, NULL, "session", "allow", "held", where, NULL);
	driver_does(&said, NULL, "session", "attach", "held", NULL);
	assert_string_equal(said.out, "from the site\n");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM session_flows WHERE session = 'held'"
			     " AND state = 'refused'"),
	    1);
	/* Later ones to the same place were waited for already. */
	snprintf(words, sizeof(words),
	    "for i in 1 2 3 4 5 6; do curl -s -m 300 http://%s/ || echo no; done", where);
	driver_does(&said, NULL, "settings", "set", "session.ask_ms", "1000", NULL);
	driver_does(
	    &said, NULL, "worker", "add", "six", "--net", "lane", "--", "sh", "-c", words, NULL);
	driver_does(&said, NULL, "session", "run", "--cwd", work, "--name", "late", "six", NULL);
	assert_string_equal(said.out, "no\nno\nno\nno\nno\nno\n");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM session_flows WHERE session = 'late'"
			     " AND code = 'egress.unknown'"),
	    6);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT asked_at - (SELECT min(asked_at) FROM session_flows"
			     "  WHERE session = 'late') >= 1000 FROM session_flows"
			     " WHERE session = 'late' ORDER BY asked_at LIMIT 1 OFFSET 1"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT max(asked_at) - (SELECT asked_at FROM session_flows"
			     "  WHERE session = 'late' ORDER BY asked_at LIMIT 1 OFFSET 1) < 4000"
			     " FROM session_flows WHERE session = 'late'"),
	    1);
	driver_does(&said, NULL, "settings", "set", "session.ask_ms", "0", NULL);
	kill(pid, SIGKILL);
	over(pid);
}

/* A terminal over there is typed to from here: one at a time types, others look on, whoever leaves
 * gives the keyboard back, and the terminal here is what it was. */
static void
typed_to_from_afar(void **state)
{
	static struct program_talk one, two, local;
	static const char *const here[] = {"session", "attach", "t", NULL};
	struct winsize size = {.ws_row = 40, .ws_col = 120};

	NEED(state);
	begin_talkative("t");
	talk_there(&one, "exec $BASTION session attach t --remote vm");
	program_expect(&one, "");
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM session_typist WHERE n = 1");
	program_type(&one, "size\r");
	program_expect(&one, "30 100");
	program_type(&one, "hello\r");
	program_expect(&one, "got:hello;");
	assert_false(is_cooked(one.fd));
	assert_int_equal(ioctl(one.fd, TIOCSWINSZ, &size), 0);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM session_input");
	driver_until(&d, DRIVER_BOX, 1, "SELECT n >= 4 FROM session_typist");
	program_type(&one, "size\r");
	program_expect(&one, "40 120");
	/* Another from afar, and a person at the machine. */
	talk_there(&two, "exec $BASTION session attach t --remote vm");
	program_expect(&two, "you look on [session.typed]");
	program_talk(&local, NULL, here);
	program_expect(&local, "somebody else types to it: you look on");
	program_type(&one, "seen\r");
	program_expect(&two, "got:seen;");
	program_expect(&local, "got:seen;");
	assert_true(is_cooked(two.fd));
	kill(local.pid, SIGTERM);
	program_over(&local);
	/* It is given back at once. */
	program_type(&one, "last\x1d");
	program_expect(&one, "t goes on");
	assert_true(is_cooked(one.fd));
	program_ends(&one, 0);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session_typist"), 0);
	talk_there(&one, "exec $BASTION session attach t -n 1 --remote vm");
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM session_typist WHERE n = 1");
	program_type(&one, " of all\r");
	program_expect(&one, "got:last of all;");
	/* A signal leaves it as it was, too. */
	kill(one.pid, SIGTERM);
	program_expect(&one, "t goes on");
	assert_true(is_cooked(one.fd));
	program_ends(&one, 0);
	kill(two.pid, SIGINT);
	program_over(&two);
	talk_there(&one, "exec $BASTION session attach t --remote vm");
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM session_typist WHERE n = 1");
	program_type(&one, "bye\r");
	program_expect(&one, "t on vm is failed");
	assert_true(is_cooked(one.fd));
	program_ends(&one, 5);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM audit WHERE entity = 'session_typist'"),
	    3);
}

/* RF-45: what is typed while the way is cut, and what serves is started again, arrives once. A
 * daemon that is told to end does, though somebody sits there; the terminal is what it was then,
 * and another session is typed to. */
static void
typed_over_a_cut(void **state)
{
	static struct program_talk t;
	char command[256];

	NEED(state);
	begin_talkative("c");
	talk_there(&t, "exec $BASTION session attach c --remote vm");
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM session_typist WHERE n = 1");
	program_type(&t, "before\r");
	program_expect(&t, "got:before;");
	cable("down");
	program_type(&t, "blind\r");
	driver_kill(&d, DRIVER_BOX, "net");
	cable("up");
	program_expect(&t, "got:blind;");
	program_type(&t, "after\r");
	program_expect(&t, "got:after;");
	assert_int_equal(times_said("c", "got:blind;"), 1);
	assert_int_equal(times_said("c", "got:before;"), 1);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	program_expect(&t, "c on vm is failed");
	assert_true(is_cooked(t.fd));
	assert_int_not_equal(program_over(&t), 0);
	snprintf(command, sizeof(command),
	    "exec $BASTION session run --remote vm --cwd %s --terminal -- sh -c 'read l; echo got:$l'",
	    work);
	talk_there(&t, command);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM session_typist WHERE n = 1");
	program_type(&t, "anew\r");
	program_expect(&t, "got:anew");
	program_ends(&t, 0);
}

/* A credential that may look may not type, and is told so; with its end what it shows ends. */
static void
looks_and_may_not_type(void **state)
{
	static struct program_talk t;
	char command[512];

	NEED(state);
	begin_talkative("l");
	driver_does(
	    &said, NULL, "remote", "add", "looker", "--root", work, "--verbs", "attach", NULL);
	snprintf(command, sizeof(command),
	    "sed 's/^token .*/token %.85s/' client/remotes/vm >client/remotes/look;"
	    " chmod 600 client/remotes/look; exec $BASTION session attach l --remote look",
	    said.out);
	talk_there(&t, command);
	program_expect(&t, "this credential does not allow that: you look on [remote.verb]");
	assert_true(is_cooked(t.fd));
	driver_does(&said, NULL, "session", "send", "l", "hello", NULL);
	program_expect(&t, "got:hello;");
	driver_does(&said, NULL, "remote", "revoke", "looker", NULL);
	program_expect(&t, "[remote.token]");
	program_ends(&t, 126);
	/* Who types is cut off as well, in the middle of it. */
	driver_does(
	    &said, NULL, "remote", "add", "typist", "--root", work, "--verbs", "attach,send", NULL);
	snprintf(command, sizeof(command),
	    "sed 's/^token .*/token %.85s/' client/remotes/vm >client/remotes/look;"
	    " exec $BASTION session attach l --remote look",
	    said.out);
	talk_there(&t, command);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM session_typist WHERE n = 1");
	program_type(&t, "mine\r");
	program_expect(&t, "got:mine;");
	driver_does(&said, NULL, "remote", "revoke", "typist", NULL);
	program_type(&t, "no more\r");
	program_expect(&t, "[remote.token]");
	assert_true(is_cooked(t.fd));
	program_ends(&t, 126);
	assert_int_equal(times_said("l", "no more"), 0);
	driver_does(&said, NULL, "session", "cancel", "l", NULL);
	assert_int_equal(over(there("rm client/remotes/look")), 0);
}

/* BU-02, BU-07, BU-08: a work tree is copied, and what runs there finds it; what is none is said
 * before anybody is dialled, and a second copy has what was committed since. */
static void
with_a_repository(void **state)
{
	char command[512];

	NEED(state);
	assert_int_equal(
	    over(there("git init -q -b main site && cd site && git config user.email a@b &&"
		       " git config user.name n && echo one >f && git add . &&"
		       " git commit -qm one && head -c 400000 /dev/urandom >noise &&"
		       " git add noise && git commit -qm two && mkdir ../empty")),
	    0);
	snprintf(command, sizeof(command),
	    "$BASTION session run --remote vm --repo site --cwd %s --name r -- sh -c 'cat f; pwd; sha256sum <noise'"
	    " >r.out 2>r.err && grep -q $(sha256sum <site/noise | cut -c-64) r.out",
	    work);
	if (over(there(command)) != 0)
		fail_msg("%s", text_of("r.err"));
	assert_true(holds("r.out", "one\n"));
	assert_true(holds("r.out", "/work/site\n"));
	snprintf(command, sizeof(command),
	    "cd site && echo two >f && git commit -qam three;"
	    " $BASTION session run --remote vm --repo . --cwd %s -- cat f >../r2.out 2>&1",
	    work);
	assert_int_equal(over(there(command)), 0);
	assert_true(holds("r2.out", "two\n"));
	/* Whom there is no way to is not asked: the address of this login is nobody's. */
	assert_int_equal(
	    over(
		there("sed 's/^address .*/address 10.9.0.1:1/' client/remotes/vm"
		      " >client/remotes/none; chmod 600 client/remotes/none;"
		      " $BASTION session run --remote none --repo empty --cwd /w -- true 2>e.err")),
	    2);
	assert_true(holds("e.err", "is no git work tree"));
	/* RF-104: a git that is not there says nothing about the tree. */
	assert_int_not_equal(
	    over(there("PATH=/nowhere $BASTION session run --remote none --repo . --cwd /w -- true"
		       " 2>e3.err")),
	    0);
	assert_true(holds("e3.err", "[bundle.failed]"));
	assert_int_equal(
	    over(there("git init -q empty; $BASTION session run --remote none --repo empty"
		       " --cwd /w -- true 2>e2.err; c=$?; rm client/remotes/none; exit $c")),
	    2);
	assert_true(holds("e2.err", "[bundle.tree]"));
	assert_int_equal(
	    over(there("$BASTION session run --repo site --cwd /w -- true 2>e3.err")), 2);
	assert_true(holds("e3.err", "--repo is for run --remote"));
}

/* What listens dies while a repository comes: it goes on behind what is there. */
static void
cut_while_it_is_copied(void **state)
{
	char command[512];
	pid_t pid;

	NEED(state);
	assert_int_equal(
	    over(there("git init -q big && cd big && git config user.email a@b &&"
		       " git config user.name n && head -c 8000000 /dev/urandom >noise &&"
		       " git add . && git commit -qm one")),
	    0);
	snprintf(command, sizeof(command),
	    "exec $BASTION session run --remote vm --repo big --cwd %s -- sha256sum noise >big.out"
	    " 2>big.err",
	    work);
	pid = there(command);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM remote_bundle WHERE name = 'big' AND received > 500000");
	driver_kill(&d, DRIVER_BOX, "net");
	if (over(pid) != 0)
		fail_msg("%s", text_of("big.err"));
	assert_int_equal(over(there("grep -q $(sha256sum <big/noise | cut -c-64) big.out")), 0);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM remote_bundles WHERE name = 'big' AND state = 'live'"
		" AND generation = 1"),
	    1);
}

/* RA-07, RF-51: the login is a file of the user's own; one that others could read is not
 * believed; the secret is in no argument and no variable. */
static void
a_login_is_ones_own(void **state)
{
	struct stat st;
	char path[128];
	pid_t pid;

	NEED(state);
	snprintf(path, sizeof(path), "%s/client/remotes/vm", d.dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	pid = there("$BASTION session run --remote vm --cwd $PWD/work --name s -- sleep 600 &"
		    " sleep 0.5; cat /proc/$!/cmdline /proc/$!/environ >proc.out; kill $!; wait;"
		    " exec $BASTION session cancel s --remote vm");
	assert_int_equal(over(pid), 0);
	assert_true(holds("proc.out", "sleep") || holds("proc.out", "bastion"));
	assert_false(holds("proc.out", "brs_"));
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(over(there("$BASTION session ls --remote vm 2>open.err")), 3);
	assert_true(holds("open.err", "[remote.open]"));
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(over(there("$BASTION session ls --remote nobody 2>none.err")), 2);
	assert_true(holds("none.err", "[remote.login]"));
}

/* RA-02, RA-04, RA-05, RA-06, RC-02, BU-05, BU-06: the secret comes from standard input, or from
 * the file that is named, byte for byte, from where one stands, without the space around it; the
 * authority from a file with one certificate of one. What is kept is whole and needs neither file;
 * what is not whole is not believed. */
static void
a_login_from_files(void **state)
{
	static const struct {
		const char *login; /* behind the name and the place */
		int code;
		const char *says;
	} wrong[] = {{"--ca ../ca.pem --secret-file secret </dev/null", 2, "[file.missing]"},
	    {"--ca ../ca.pem --secret-file blank </dev/null", 2, "[remote.secret]"},
	    {"--ca ../ca.pem --secret-file two </dev/null", 2, "[remote.secret]"},
	    {"--ca ../ca.pem </dev/null", 2, "[remote.secret]"},
	    {"--ca blank --secret-file 'secret ' </dev/null", 2, "[cert.form]"},
	    {"--ca 'secret ' --secret-file 'secret ' </dev/null", 2, "[cert.form]"},
	    {"--ca twice --secret-file 'secret ' </dev/null", 2, "[cert.form]"},
	    {"--ca none --secret-file 'secret ' </dev/null", 2, "[file.missing]"},
	    {"--ca ../ca.pem --ca-pin 00 --secret-file 'secret ' </dev/null", 2, "--ca"},
	    {"--secret-file 'secret ' </dev/null", 2, "--ca"}};
	static const char *const lines[] = {"bastion", "address", "pin", "token"};
	char command[1024], token[86], path[128];
	size_t i;
	FILE *f;

	NEED(state);
	driver_does(&said, NULL, "remote", "ca", NULL);
	snprintf(path, sizeof(path), "%s/ca.pem", d.dir);
	assert_non_null(f = fopen(path, "we"));
	fputs(said.out, f);
	fclose(f);
	driver_does(&said, NULL, "remote", "add", "filed", "--root", work, NULL);
	snprintf(token, sizeof(token), "%.85s", said.out);
	snprintf(command, sizeof(command),
	    "mkdir d; cd d; printf ' \\t%s \\r\\n' >'secret '; printf ' \\n' >blank;"
	    " echo %s %s >two; cat ../ca.pem ../ca.pem >twice",
	    token, token, token);
	assert_int_equal(over(there(command)), 0);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(command, sizeof(command),
		    "a=$(sed -n 's/^address //p' client/remotes/vm); cd d;"
		    " $BASTION remote login y $a %s 2>../wrong.err",
		    wrong[i].login);
		if (over(there(command)) != wrong[i].code || !holds("wrong.err", wrong[i].says))
			fail_msg("%s: %s", wrong[i].login, text_of("wrong.err"));
	}
	assert_int_equal(over(there("test ! -e client/remotes/y")), 0);
	/* What is named counts, not what comes on standard input. */
	snprintf(command, sizeof(command),
	    "a=$(sed -n 's/^address //p' client/remotes/vm); cd d; echo brs_no | $BASTION remote login y"
	    " $a --ca ../ca.pem --secret-file 'secret ' && cd .. && rm -r d ca.pem &&"
	    " printf 'bastion-remote 1\\naddress %%s\\npin %s\\ntoken %s\\n' $a | cmp - client/remotes/y &&"
	    " test $(stat -c %%a client/remotes/y) = 600 && cd / && $BASTION session ls --remote y",
	    pin, token);
	assert_int_equal(over(there(command)), 0);
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(command, sizeof(command),
		    "sed /^%s/d client/remotes/y >client/remotes/z; chmod 600 client/remotes/z;"
		    " $BASTION session ls --remote z 2>z.err",
		    lines[i]);
		assert_int_equal(over(there(command)), 3);
		assert_true(holds("z.err", "this file is no login [remote.open]"));
	}
	assert_int_equal(over(there("rm client/remotes/[yz]")), 0);
}

/* RC-01, RB-04, RF-57, CL-02: another authority, a wrong secret, and nobody there are different
 * things, and nothing is kept of either. */
static void
wrong_is_said_apart(void **state)
{
	char command[1024];

	NEED(state);
	snprintf(command, sizeof(command),
	    "a=$(sed -n 's/^address //p' client/remotes/vm); t=$(sed -n 's/^token //p' client/remotes/vm);"
	    " echo $t | $BASTION remote login x $a --ca-pin %064d 2>1.err;"
	    " echo brs_0123456789abcdef_%064d | $BASTION remote login x $a --ca-pin %s 2>2.err;"
	    " echo $t | $BASTION remote login x 10.9.0.1:1 --ca-pin %s 2>3.err; ls client/remotes >ls.out",
	    0, 0, pin, pin);
	assert_int_equal(over(there(command)), 0);
	assert_true(holds("1.err", "[tls.untrusted]"));
	assert_true(holds("2.err", "no live credential has this secret [remote.token]"));
	assert_true(holds("3.err", "[http.unreachable]"));
	assert_false(holds("ls.out", "x"));
	assert_int_equal(
	    over(there("echo | $BASTION remote login x 10.9.0.1:1 --ca-pin "
		       "0000000000000000000000000000000000000000000000000000000000000000"
		       " 2>4.err")),
	    2);
	assert_true(holds("4.err", "[remote.secret]")); /* and nobody was dialled */
	assert_int_equal(
	    over(there("$BASTION remote login x '' --ca-pin "
		       "0000000000000000000000000000000000000000000000000000000000000000"
		       " 2>5.err </dev/null")),
	    2);
	assert_true(holds("5.err", "[endpoint.missing]"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(run_from_afar),
	    cmocka_unit_test(a_worker_is_on_the_lane),
	    cmocka_unit_test(the_unknown_waits_for_a_person),
	    cmocka_unit_test(typed_to_from_afar),
	    cmocka_unit_test(looks_and_may_not_type),
	    cmocka_unit_test(with_a_repository),
	    cmocka_unit_test(cut_while_it_is_copied),
	    cmocka_unit_test(a_login_is_ones_own),
	    cmocka_unit_test(a_login_from_files),
	    cmocka_unit_test(wrong_is_said_apart),
	    cmocka_unit_test(cut_and_started_again),
	    cmocka_unit_test(typed_over_a_cut),
	};

	return cmocka_run_group_tests(tests, make, drop);
}
