/* test_calls.c: a person asks a box through the Host's control socket, whatever the box, the daemon
 * or whoever listens in its place does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/wire.h"

#define ALARM_S 60
#define LARGE   900000 /* bytes: more than may wait in all buffers on the way */
#define FRAMES  90

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"
#define NO_HEAD \
	"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
#define ASK "{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[]}"

static struct driver d;
static struct said said;
static struct wire_answer answer;
static char control[512];

/* The other end: a process that listens, and answers one request with what it was told. */
static struct other {
	int listener, go;
	pid_t pid;
} box = {.listener = -1};

static int
listen_at(const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd != -1 && strlen(path) < sizeof(name.sun_path));
	strcpy(name.sun_path, path);
	unlink(path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

/* The whole request: its head, and as much body as that says. */
static void
request_take(int fd)
{
	char text[65536];
	size_t len = 0, body = 0;
	char *end = NULL, *at;
	ssize_t n;

	while (end == NULL || len < (size_t)(end - text) + 4 + body) {
		if ((n = recv(fd, text + len, sizeof(text) - 1 - len, 0)) <= 0)
			return;
		text[len += (size_t)n] = '\0';
		if ((end = strstr(text, "\r\n\r\n")) != NULL &&
		    (at = strcasestr(text, "content-length:")) != NULL && at < end)
			body = strtoul(at + 15, NULL, 10);
	}
}

static void __attribute__((noreturn))
other_be(int listener, int go, const char *first, size_t first_len, const char *rest)
{
	int fd;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(ALARM_S);
	if ((fd = accept(listener, NULL, NULL)) == -1)
		_exit(1);
	request_take(fd);
	wire_send(fd, first, first_len);
	if (rest != NULL && read(go, &byte, 1) == 1)
		wire_send(fd, rest, strlen(rest));
	/* To its end: a reset would take back what was sent. */
	shutdown(fd, SHUT_WR);
	while (recv(fd, &byte, 1, 0) > 0)
		;
	_exit(0);
}

/* Have the next request at ${o} answered with ${first}, and with ${rest} (NULL: none) once
 * other_goes_on is called. */
static void
other_answers_n(struct other *o, const char *first, size_t len, const char *rest)
{
	int pipe_of[2];

	assert_int_equal(pipe2(pipe_of, O_CLOEXEC), 0);
	fflush(NULL);
	if ((o->pid = fork()) == 0) {
		close(pipe_of[1]);
		other_be(o->listener, pipe_of[0], first, len, rest);
	}
	assert_true(o->pid > 0);
	close(pipe_of[0]);
	o->go = pipe_of[1];
}

static void
other_answers(struct other *o, const char *first, const char *rest)
{
	other_answers_n(o, first, strlen(first), rest);
}

static void
other_goes_on(struct other *o)
{
	assert_int_equal(write(o->go, "!", 1), 1);
}

static void
other_over(struct other *o)
{
	int status;

	close(o->go);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	o->pid = 0;
}

/* A box of ours, whose lane this process serves. */
static void
pair(const char *name, const char *lane)
{
	unsigned char text[1024];
	char body[1024], door[512], token[65];
	const char *at;
	size_t len;

	driver_does(&said, NULL, "host", "invite", name, NULL);
	assert_int_equal(
	    sodium_base642bin(text, sizeof(text) - 1, said.out + 4, strcspn(said.out, "\n") - 4,
		NULL, &len, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING),
	    0);
	text[len] = '\0';
	assert_non_null(at = strstr((const char *)text, "\"t\":\""));
	snprintf(token, sizeof(token), "%.64s", at + 5);
	snprintf(body, sizeof(body),
	    "{\"token\":\"%s\",\"box\":\"%s\",\"box_key\":\"%064d\",\"lane\":\"%s\"}", token, name,
	    1, lane);
	snprintf(door, sizeof(door), "%s/enroll.sock", d.run[DRIVER_HOST]);
	assert_int_equal(
	    wire_ask(door, "POST", "/v1/enroll", "", body, strlen(body), &answer), 200);
}

static int
serve(void **state)
{
	char lane[96];

	(void)state;
	driver_make(&d);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	driver_serve(&d, DRIVER_HOST);
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_HOST]);
	snprintf(lane, sizeof(lane), "%s/fake.sock", d.dir);
	box.listener = listen_at(lane);
	pair("box-a", lane);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	if (box.pid != 0)
		kill(box.pid, SIGKILL);
	close(box.listener);
	driver_drop(&d);
	return 0;
}

static int64_t
host_value(const char *sql)
{
	return driver_value(&d, DRIVER_HOST, "%s", sql);
}

static int64_t
newest(void)
{
	return host_value("SELECT coalesce(max(id), 0) FROM call");
}

static int
post(const char *body)
{
	return wire_ask(control, "POST", "/v1/calls", "", body, strlen(body), &answer);
}

/* What the daemon streams, behind the line with the number. */
static const char *
streamed(void)
{
	char first[48];

	snprintf(first, sizeof(first), "{\"c\":%" PRId64 "}\n", newest());
	assert_int_equal(answer.status, 200);
	assert_true(answer.whole);
	assert_memory_equal(answer.body, first, strlen(first));
	return answer.body + strlen(first);
}

/* What a verb that runs has written so far. */
static bool
has_said(const struct job *job, const char *text)
{
	static char out[DRIVER_OUT_MAX];
	ssize_t n = pread(job->out, out, sizeof(out) - 1, 0);

	out[n > 0 ? n : 0] = '\0';
	return strstr(out, text) != NULL;
}

static void
until_said(const struct job *job, const char *text)
{
	int64_t limit = driver_now() + DRIVER_WAIT_MS;

	while (!has_said(job, text)) {
		if (driver_now() > limit)
			fail_msg("not said: %s", text);
		driver_pause();
	}
}

static const char *const plainly[] = {"on", "box-a", "observe:logins", NULL};
static const char *const in_json[] = {"on", "box-a", "observe:logins", "--json", NULL};

/*
 * Answers.
 */

/* CK-1: frames come as the box sent them, then its exit, on the socket and at the command line. */
static void
an_answer_is_streamed(void **state)
{
	static const char text[] = OK_HEAD "{\"o\":\"one\\n\"}\n{\"r\":{\"a\":1}}\n{\"x\":3}\n";

	(void)state;
	other_answers(&box, text, NULL);
	post(ASK);
	other_over(&box);
	assert_string_equal(streamed(), strstr(text, "{\"o\""));
	other_answers(&box, text, NULL);
	assert_int_equal(driver_run(&said, NULL, "on", "box-a", "observe:logins", NULL), 3);
	other_over(&box);
	assert_string_equal(said.out, "one\na: 1\n");
	assert_string_equal(said.err, "");
	other_answers(&box, text, NULL);
	assert_int_equal(
	    driver_run(&said, NULL, "on", "box-a", "observe:logins", "--json", NULL), 3);
	other_over(&box);
	assert_string_equal(said.out, strstr(text, "{\"o\""));
	assert_int_equal(host_value("SELECT exit_code FROM call ORDER BY id DESC LIMIT 1"), 3);
}

/* CK-2: the row says what was asked, and the audit who asked: the user that the kernel names. */
static void
an_ask_has_its_row(void **state)
{
	char who[128], text[256];
	struct passwd *me = getpwuid(getuid());

	(void)state;
	other_answers(&box, OK_HEAD "{\"x\":0}\n", NULL);
	post("{\"box\":\"box-a\",\"op\":\"observe:folders\",\"args\":[\"/\\u0061\",\"\\u00e4\\n\"],"
	     "\"uses\":4,\"ttl_ms\":5000,\"anew\":true}");
	other_over(&box);
	driver_text(&d, DRIVER_HOST, text, sizeof(text),
	    "SELECT op || args || uses || ' ' || ttl_ms || ' ' || anew || state FROM call"
	    " ORDER BY id DESC LIMIT 1");
	assert_string_equal(text, "observe:folders[\"/a\",\"ä\\n\"]4 5000 1done");
	if (me != NULL)
		snprintf(text, sizeof(text), "person:%s(%u)", me->pw_name, (unsigned)getuid());
	else
		snprintf(text, sizeof(text), "person:uid %u(%u)", (unsigned)getuid(),
		    (unsigned)getuid());
	driver_text(&d, DRIVER_HOST, who, sizeof(who),
	    "SELECT who FROM audit WHERE entity = 'call' AND action = 'asked' ORDER BY seq DESC"
	    " LIMIT 1");
	assert_string_equal(who, text);
}

/* CK-3: what the box refuses has its code everywhere, with the exit and advice of our table, or the
 * box's own where we do not know the code. */
static void
a_refusal_is_the_same_everywhere(void **state)
{
	static const char known[] =
	    NO_HEAD "{\"error\":{\"code\":\"approval.needed\",\"why\":\"ask\",\"retry_at\":null,"
		    "\"exit\":9,\"advice\":\"no\",\"approval\":7}}\n";
	static const char unknown[] =
	    NO_HEAD "{\"error\":{\"code\":\"new.rule\",\"why\":\"odd\",\"retry_at\":86400000,"
		    "\"exit\":9,\"advice\":\"do\"}}\n";

	(void)state;
	other_answers(&box, known, NULL);
	post(ASK);
	other_over(&box);
	assert_string_equal(streamed(),
	    "{\"x\":77,\"e\":{\"code\":\"approval.needed\",\"why\":\"ask\",\"exit\":77,\"advice\":"
	    "\"have a person at the machine run: bastion approvals\",\"retry_at\":null,\"approval\":7}}\n");
	other_answers(&box, known, NULL);
	driver_refused(&said, 77, "approval.needed", NULL, "on", "box-a", "observe:logins", NULL);
	other_over(&box);
	assert_string_equal(said.err,
	    "bastion: on: ask [approval.needed]\n"
	    "         have a person at the machine run: bastion approvals\n");
	other_answers(&box, unknown, NULL);
	assert_int_equal(
	    driver_run(&said, NULL, "on", "box-a", "observe:logins", "--json", NULL), 9);
	other_over(&box);
	assert_string_equal(said.out, "");
	assert_string_equal(said.err,
	    "{\"error\":{\"code\":\"new.rule\",\"why\":\"odd\",\"advice\":\"do\","
	    "\"retry_at\":\"1970-01-02T00:00:00.000Z\"}}\n");
}

/* CK-4: a frame cannot pass itself off as the end, the number of the ask, or a refusal of ours. */
static void
frames_cannot_pose(void **state)
{
	static const char *const bad[] = {"{\"x\":\"0\"}", "{\"x\":-1}", "{\"x\":256}",
	    "{\"x\":0.5}", "{\"x\":null}", "{\"o\":\"a\",\"\\u0078\":0}",
	    "{\"\\u0078\":0,\"e\":{}}"};
	static const char pose[] = OK_HEAD
	    "{\"c\":99}\n{\"e\":{\"code\":\"approval.needed\",\"why\":\"y\",\"exit\":0}}\n{\"x\":5}\n";
	char text[512];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), OK_HEAD "%s\n{\"x\":0}\n", bad[i]);
		other_answers(&box, text, NULL);
		driver_refused(
		    &said, 1, "call.failed", NULL, "on", "box-a", "observe:logins", NULL);
		other_over(&box);
		assert_string_equal(said.out, "");
	}
	other_answers(&box, pose, NULL);
	assert_int_equal(
	    driver_run(&said, NULL, "on", "box-a", "observe:logins", "--json", NULL), 5);
	other_over(&box);
	assert_string_equal(said.out, strstr(pose, "{\"c\""));
	assert_string_equal(said.err, "");
}

/* CK-5: what is no ask makes no row, and is refused by its form. */
static void
bodies_that_are_no_ask_are_refused(void **state)
{
	static const struct {
		const char *body, *code;
		int status;
	} cases[] = {
	    {"", "json.invalid", 400},
	    {"{\"box\":\"box-a\",\"box\":\"b\"}", "json.duplicate", 400},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[\"\xff\"]}", "json.invalid",
		400},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[\"\\u0000\"]}", "json.invalid",
		400},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[],\"dr\\u0079\":true}",
		"json.invalid", 400},
	    {"[]", "op.args", 422},
	    {"7", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[]}", "op.args", 422},
	    {"{\"box\":\"box-a\",\"args\":[]}", "op.args", 422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\"}", "op.args", 422},
	    {"{\"box\":1,\"op\":\"observe:logins\",\"args\":[]}", "op.args", 422},
	    {"{\"box\":\"box-a\",\"op\":null,\"args\":[]}", "op.args", 422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[1]}", "op.args", 422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":{}}", "op.args", 422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[],\"uses\":0}", "op.args",
		422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[],\"uses\":\"1\"}", "op.args",
		422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[],\"uses\":99999999999999999999}",
		"op.args", 422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[],\"ttl_ms\":999}", "op.args",
		422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[],\"ttl_ms\":1e5}", "op.args",
		422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[],\"anew\":1}", "op.args",
		422},
	    {"{\"box\":\"box-a\",\"op\":\"observe:logins\",\"args\":[],\"nonce\":\"\"}", "op.args",
		422},
	    {"{\"box\":\"box-a\",\"op\":\"\",\"args\":[]}", "op.unknown", 404},
	    {"{\"box\":\"box-b\",\"op\":\"observe:logins\",\"args\":[]}", "box.gone", 404},
	};
	int64_t before = newest();
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (post(cases[i].body) != cases[i].status ||
		    strcmp(answer.refused, cases[i].code) != 0)
			fail_msg("%s: %d %s", cases[i].body, answer.status, answer.refused);
	assert_int_equal(newest(), before);
}

/* CK-6: words of any kind reach the daemon as they are, or are refused; none is changed on the way.
 */
static void
words_are_not_changed(void **state)
{
	static char text[130000]; /* nearly the longest word that a command line can have */
	char args[256];

	(void)state;
	other_answers(&box, OK_HEAD "{\"x\":0}\n", NULL);
	driver_does(
	    &said, NULL, "on", "box-a", "observe:folders", "\"\\/\x01\x1b\x7f\t\nä😀", "", NULL);
	other_over(&box);
	driver_text(&d, DRIVER_HOST, args, sizeof(args),
	    "SELECT hex(args ->> 0) || ' ' || hex(args ->> 1) FROM call ORDER BY id DESC LIMIT 1");
	assert_string_equal(args, "225C2F011B7F090AC3A4F09F9880 ");
	driver_refused(
	    &said, 2, "json.invalid", NULL, "on", "box-a", "observe:folders", "/a\xff", NULL);
	driver_refused(&said, 2, "op.unknown", NULL, "on", "box-a", "", NULL);
	driver_refused(&said, 2, "box.gone", NULL, "on", "", "observe:logins", NULL);
	memset(text, 'a', 16381); /* with brackets and quotes one over */
	driver_refused(&said, 2, "op.args", NULL, "on", "box-a", "observe:folders", text, NULL);
	memset(text, 'a', sizeof(text) - 1);
	driver_refused(&said, 2, "op.args", NULL, "on", "box-a", "observe:folders", text, NULL);
	memset(text, 1, 16000); /* six bytes each in JSON */
	text[16000] = '\0';
	driver_refused(&said, 2, "op.args", NULL, "on", "box-a", "observe:folders", text, NULL);
	memset(text, 'b', sizeof(text) - 1);
	driver_refused(&said, 2, "http.too_large", NULL, "on", "box-a", text, NULL);
	driver_refused(&said, 2, "http.too_large", NULL, "on", text, "observe:logins", NULL);
	driver_refused(&said, 2, "http.too_large", NULL, "on", text, text, NULL);
}

/* CK-7: an answer is followed by its number, from any frame on; a number that is none is refused.
 */
static void
an_answer_can_be_followed_again(void **state)
{
	static const char *const bad[] = {"/v1/calls/x", "/v1/calls/-1", "/v1/calls/1?after=x",
	    "/v1/calls/1?after=-1", "/v1/calls/1?after=", "/v1/calls/99999999999999999999"};
	char target[80];
	size_t i;

	(void)state;
	other_answers(&box, OK_HEAD "{\"o\":\"1\"}\n{\"o\":\"2\"}\n{\"x\":0}\n", NULL);
	post(ASK);
	other_over(&box);
	snprintf(target, sizeof(target), "/v1/calls/%" PRId64, newest());
	assert_int_equal(wire_ask(control, "GET", target, "", "", 0, &answer), 200);
	assert_string_equal(answer.body, "{\"o\":\"1\"}\n{\"o\":\"2\"}\n{\"x\":0}\n");
	strcat(target, "?after=1");
	assert_int_equal(wire_ask(control, "GET", target, "", "", 0, &answer), 200);
	assert_string_equal(answer.body, "{\"o\":\"2\"}\n{\"x\":0}\n");
	strcat(target, "000");
	assert_int_equal(wire_ask(control, "GET", target, "", "", 0, &answer), 200);
	assert_string_equal(answer.body, "{\"x\":0}\n");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(wire_ask(control, "GET", bad[i], "", "", 0, &answer), 422);
	assert_int_equal(wire_ask(control, "GET", "/v1/calls/999999", "", "", 0, &answer), 404);
}

/* An answer of LARGE bytes, in so many frames. */
static char *
large_answer(size_t frames, size_t *len)
{
	char *text = malloc(LARGE + 4096), *at = text;
	size_t i;

	assert_non_null(text);
	at += sprintf(at, OK_HEAD);
	for (i = 0; i < frames; i++) {
		at += sprintf(at, "{\"o\":\"%zu ", i);
		memset(at, 'a', LARGE / frames);
		at += LARGE / frames;
		at += sprintf(at, "\"}\n");
	}
	at += sprintf(at, "{\"x\":0}\n");
	*len = (size_t)(at - text);
	return text;
}

/* CK-8: a frame that is longer than what may wait comes whole, also to a reader that is slow. */
static void
slow_readers_get_everything(void **state)
{
	int fd, size = 4096;
	char *text;
	size_t len;

	(void)state;
	text = large_answer(1, &len);
	other_answers_n(&box, text, len, NULL);
	fd = wire_dial(control);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	wire_request(fd, "POST", "/v1/calls", "", ASK, strlen(ASK));
	/* All of it is here, and nobody has read. */
	driver_until(
	    &d, DRIVER_HOST, 1, "SELECT state = 'done' FROM call ORDER BY id DESC LIMIT 1");
	wire_take(fd, &answer);
	close(fd);
	other_over(&box);
	assert_string_equal(streamed(), strstr(text, "{\"o\""));
	free(text);
}

/* CK-9: a pager that is left alone for longer than the daemon waits gets the rest all the same. */
static void
paused_readers_get_everything(void **state)
{
	static char got[LARGE + 4096];
	char command[256];
	size_t len, have;
	char *text = large_answer(FRAMES, &len);
	FILE *f;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "--host", "http.stall_ms", "100", NULL);
	driver_end(&d, DRIVER_HOST, SIGTERM);
	driver_serve(&d, DRIVER_HOST);
	other_answers_n(&box, text, len, NULL);
	snprintf(command, sizeof(command), "%s on box-a observe:logins --json",
	    getenv("BASTION") != NULL ? getenv("BASTION") : "build/bastion");
	assert_non_null(f = popen(command, "re"));
	driver_until(
	    &d, DRIVER_HOST, 1, "SELECT state = 'done' FROM call ORDER BY id DESC LIMIT 1");
	sleep(3); /* libmicrohttpd counts in seconds */
	have = fread(got, 1, sizeof(got) - 1, f);
	got[have] = '\0';
	assert_int_equal(pclose(f), 0);
	other_over(&box);
	assert_string_equal(got, strstr(text, "{\"o\""));
	free(text);
	driver_does(&said, NULL, "settings", "set", "--host", "http.stall_ms", "30000", NULL);
	driver_end(&d, DRIVER_HOST, SIGTERM);
	driver_serve(&d, DRIVER_HOST);
}

/*
 * Interruptions.
 */

/* CK-10: a frame is shown while the answer goes on; the actor behind the socket may die, and no
 * frame is missing or shown twice. */
static void
a_dying_actor_costs_no_frame(void **state)
{
	struct job job;

	(void)state;
	other_answers(&box, OK_HEAD "{\"o\":\"1\"}\n{\"o\":\"2\"}\n", "{\"o\":\"3\"}\n{\"x\":4}\n");
	driver_start(&job, NULL, in_json);
	until_said(&job, "{\"o\":\"2\"}\n");
	driver_kill(&d, DRIVER_HOST, "net");
	other_goes_on(&box);
	assert_int_equal(driver_finish(&job, &said), 4);
	other_over(&box);
	assert_string_equal(said.out, "{\"o\":\"1\"}\n{\"o\":\"2\"}\n{\"o\":\"3\"}\n{\"x\":4}\n");
	assert_string_equal(said.err, "");
}

/* CK-11: --timeout bounds the wait and not the ask, also where it is no wait at all. */
static void
a_wait_ends_and_the_ask_goes_on(void **state)
{
	static const char *const times[] = {"0", "1"};
	char mark[64];
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		other_answers(&box, OK_HEAD "{\"o\":\"1\"}\n", "{\"x\":4}\n");
		driver_refused(&said, 75, "call.waiting", NULL, "on", "box-a", "observe:logins",
		    "--timeout", times[i], NULL);
		snprintf(mark, sizeof(mark), "goes on as number %" PRId64 " ", newest());
		assert_non_null(strstr(said.err, mark));
		other_goes_on(&box);
		other_over(&box);
		driver_until(
		    &d, DRIVER_HOST, 4, "SELECT exit_code FROM call ORDER BY id DESC LIMIT 1");
	}
}

/* CK-12: Ctrl-C ends the verb, and the ask goes on. */
static void
an_interrupt_leaves_the_ask(void **state)
{
	struct job job;

	(void)state;
	other_answers(&box, OK_HEAD "{\"o\":\"1\"}\n", "{\"x\":4}\n");
	driver_start(&job, NULL, plainly);
	until_said(&job, "1\n");
	assert_int_equal(kill(job.pid, SIGINT), 0);
	assert_int_equal(driver_finish(&job, &said), 128 + SIGINT);
	other_goes_on(&box);
	other_over(&box);
	driver_until(&d, DRIVER_HOST, 4, "SELECT exit_code FROM call ORDER BY id DESC LIMIT 1");
}

/* CK-13: a daemon that is killed leaves the ask lost, which whoever still waits is told by the next
 * one; where none comes, the wait ends. */
static void
a_killed_daemon_loses_the_ask(void **state)
{
	struct job job;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		static const char *const briefly[] = {
		    "on", "box-a", "observe:logins", "--timeout", "1", NULL};

		other_answers(&box, OK_HEAD "{\"o\":\"1\"}\n", "{\"x\":4}\n");
		driver_start(&job, NULL, i == 0 ? plainly : briefly);
		until_said(&job, "1\n");
		driver_end(&d, DRIVER_HOST, SIGKILL);
		other_over(&box);
		if (i == 0)
			driver_serve(&d, DRIVER_HOST);
		assert_int_equal(driver_finish(&job, &said), i == 0 ? 1 : 75);
		assert_non_null(strstr(said.err, i == 0 ? "[call.lost]" : "[call.waiting]"));
	}
	driver_serve(&d, DRIVER_HOST);
}

/* CK-14: a daemon that is stopped over an open ask says so in its row, and nobody waits for more.
 */
static void
a_stopped_daemon_loses_the_ask(void **state)
{
	struct job job;
	int64_t began;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "--host", "actor.drain_ms", "100", NULL);
	other_answers(&box, OK_HEAD "{\"o\":\"1\"}\n", "{\"x\":4}\n");
	driver_start(&job, NULL, plainly);
	until_said(&job, "1\n");
	driver_end(&d, DRIVER_HOST, SIGTERM);
	began = driver_now();
	assert_int_equal(driver_finish(&job, &said), 1);
	assert_non_null(strstr(said.err, "[call.lost]"));
	assert_true(driver_now() - began < 10000);
	other_over(&box);
	driver_serve(&d, DRIVER_HOST);
	driver_does(&said, NULL, "settings", "set", "--host", "actor.drain_ms", "5000", NULL);
}

/* CK-15: without a daemon the ask is refused as what it is, with and without what one left behind,
 * and makes no row. */
static void
nobody_serves(void **state)
{
	int64_t before = newest();
	int status;

	(void)state;
	status = driver_end(&d, DRIVER_HOST, SIGTERM);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	driver_refused(&said, 75, "call.offline", NULL, "on", "box-a", "observe:logins", NULL);
	close(listen_at(control)); /* a socket that nobody listens on */
	driver_refused(&said, 75, "call.offline", NULL, "on", "box-a", "observe:logins", NULL);
	assert_int_equal(
	    driver_run(&said, NULL, "on", "box-a", "observe:logins", "--json", NULL), 75);
	assert_string_equal(said.err,
	    "{\"error\":{\"code\":\"call.offline\",\"why\":\"the Host is not serving, so nobody would"
	    " carry this ask\",\"advice\":\"start it: bastion host serve\",\"retry_at\":null}}\n");
	setenv("BASTION_HOST_STATE", "/nonexistent/state", 1);
	driver_refused(&said, 3, "store.missing", NULL, "on", "box-a", "observe:logins", NULL);
	setenv("BASTION_HOST_STATE", d.state[DRIVER_HOST], 1);
	driver_serve(&d, DRIVER_HOST);
	assert_int_equal(newest(), before);
}

/* A box that nobody serves: which one, where it was looked for, and that it may be tried again. */
static void
nobody_serves_the_box(void **state)
{
	char lane[512];

	(void)state;
	snprintf(lane, sizeof(lane), "%s/fake.sock", d.dir);
	close(box.listener);
	driver_refused(&said, 75, "box.offline", NULL, "on", "box-a", "observe:logins", NULL);
	assert_non_null(strstr(said.err, "box-a does not answer at /"));
	assert_int_equal(host_value("SELECT state = 'failed' AND code = 'box.offline' FROM call"
				    " ORDER BY id DESC LIMIT 1"),
	    1);
	box.listener = listen_at(lane);
}

/*
 * Another in the daemon's place.
 */

/* Have ${o} listen where "on" looks, in another directory for sockets. */
static void
pretend(struct other *o)
{
	static char run[96];
	char path[128];

	snprintf(run, sizeof(run), "%s/pretend", d.dir);
	mkdir(run, 0700);
	snprintf(path, sizeof(path), "%s/control.sock", run);
	o->listener = listen_at(path);
	setenv("BASTION_HOST_RUN", run, 1);
}

static void
pretend_no_more(struct other *o)
{
	close(o->listener);
	setenv("BASTION_HOST_RUN", d.run[DRIVER_HOST], 1);
}

/* CK-16: what does not speak as the daemon does is refused, and never waited for without bound. */
static void
other_answers_are_refused(void **state)
{
	static const struct {
		const char *text, *code;
	} cases[] = {
	    {"", "call.lost"},
	    {"SSH-2.0-OpenSSH\r\n\r\n", "http.protocol"},
	    {"HTTP/1.1 OK\r\n\r\n", "http.protocol"},
	    {"HTTP/1.0 200 OK\r\n", "call.lost"},
	    {"HTTP/1.0 200 OK\r\n\r\n", "call.lost"},
	    {"HTTP/1.0 500 Oh\r\n\r\n", "http.protocol"},
	    {"HTTP/1.0 500 Oh\r\n\r\n{\"error\":{\"code\":7}}\n", "http.protocol"},
	    {"HTTP/1.0 200 OK\r\n\r\n{\"o\":1}\n", "http.protocol"},
	    {"HTTP/1.0 200 OK\r\n\r\n{\"c\":0}\n", "http.protocol"},
	    {"HTTP/1.0 200 OK\r\n\r\n{\"c\":1}\n{\"x\":0", "call.waiting"},
	    {"HTTP/1.0 200 OK\r\n\r\n{\"c\":1}\n{\"x\":}\n", "http.protocol"},
	    {"HTTP/1.0 200 OK\r\n\r\n{\"c\":1}\n{\"x\":0,\"e\":1}\n", "http.protocol"},
	};
	static const char nul[] = "HTTP/1.0 200 OK\r\n\r\n{\"c\":1}\n{\"o\":\"\0\"}\n";
	static char head[100000];
	struct other o = {.go = -1};
	char mark[80];
	size_t i;

	(void)state;
	pretend(&o);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		other_answers(&o, cases[i].text, NULL);
		driver_run(&said, NULL, "on", "box-a", "observe:logins", "--timeout", "1", NULL);
		snprintf(mark, sizeof(mark), "[%s]\n", cases[i].code);
		if (said.code == 0 || strstr(said.err, mark) == NULL)
			fail_msg("%s: %d %s", cases[i].text, said.code, said.err);
		other_over(&o);
	}
	other_answers_n(&o, nul, sizeof(nul) - 1, NULL);
	driver_refused(&said, 1, "http.protocol", NULL, "on", "box-a", "observe:logins", NULL);
	other_over(&o);
	memset(head, 'h', sizeof(head) - 1);
	memcpy(head, "HTTP/1.0 200 OK\r\nX:", 19);
	other_answers(&o, head, NULL);
	driver_refused(&said, 1, "http.protocol", NULL, "on", "box-a", "observe:logins", NULL);
	other_over(&o);
	pretend_no_more(&o);
}

/* CK-17, BND-1: a line is bounded, however long it goes on. */
static void
an_endless_line_is_refused(void **state)
{
	static const char head[] = "HTTP/1.0 200 OK\r\n\r\n{\"c\":1}\n";
	size_t len = 18 * 1024 * 1024;
	char *text = malloc(len);
	struct other o = {.go = -1};

	(void)state;
	assert_non_null(text);
	memset(text, 'a', len);
	memcpy(text, head, sizeof(head) - 1);
	pretend(&o);
	other_answers_n(&o, text, len, NULL);
	driver_refused(&said, 1, "http.protocol", NULL, "on", "box-a", "observe:logins", NULL);
	other_over(&o);
	pretend_no_more(&o);
	free(text);
}

/* In a process of another user: listen at ${path}; the exit code says whether a byte came. */
static pid_t
listen_as_nobody(const char *path, int ready)
{
	pid_t pid = fork();
	char byte;
	int fd;

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
		_exit(3);
	alarm(ALARM_S);
	fd = listen_at(path);
	if (write(ready, "!", 1) != 1 || (fd = accept(fd, NULL, NULL)) == -1)
		_exit(4);
	_exit(recv(fd, &byte, 1, 0) > 0 ? 1 : 0);
}

/* CK-18: another user who listens in the daemon's place is told nothing. */
static void
another_user_is_told_nothing(void **state)
{
	char run[96], path[128], byte;
	int ready[2], status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("only root can become another user\n");
		skip();
	}
	snprintf(run, sizeof(run), "%s/another", d.dir);
	snprintf(path, sizeof(path), "%s/control.sock", run);
	assert_int_equal(mkdir(run, 0700), 0);
	assert_int_equal(chown(run, 65534, 65534), 0);
	assert_int_equal(chmod(d.dir, 0755), 0);
	assert_int_equal(pipe(ready), 0);
	fflush(NULL);
	pid = listen_as_nobody(path, ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	setenv("BASTION_HOST_RUN", run, 1);
	driver_refused(&said, 3, "socket.taken", NULL, "on", "box-a", "observe:logins", NULL);
	setenv("BASTION_HOST_RUN", d.run[DRIVER_HOST], 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(chmod(d.dir, 0700), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_answer_is_streamed),
	    cmocka_unit_test(an_ask_has_its_row),
	    cmocka_unit_test(a_refusal_is_the_same_everywhere),
	    cmocka_unit_test(frames_cannot_pose),
	    cmocka_unit_test(bodies_that_are_no_ask_are_refused),
	    cmocka_unit_test(words_are_not_changed),
	    cmocka_unit_test(an_answer_can_be_followed_again),
	    cmocka_unit_test(slow_readers_get_everything),
	    cmocka_unit_test(paused_readers_get_everything),
	    cmocka_unit_test(a_dying_actor_costs_no_frame),
	    cmocka_unit_test(a_wait_ends_and_the_ask_goes_on),
	    cmocka_unit_test(an_interrupt_leaves_the_ask),
	    cmocka_unit_test(a_killed_daemon_loses_the_ask),
	    cmocka_unit_test(a_stopped_daemon_loses_the_ask),
	    cmocka_unit_test(nobody_serves),
	    cmocka_unit_test(nobody_serves_the_box),
	    cmocka_unit_test(other_answers_are_refused),
	    cmocka_unit_test(an_endless_line_is_refused),
	    cmocka_unit_test(another_user_is_told_nothing),
	};

	return cmocka_run_group_tests(tests, serve, stop);
}
