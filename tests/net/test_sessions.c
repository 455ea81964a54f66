/* test_sessions.c: sessions over the one protocol: begun, followed from any row, fed, ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/host/sessions.h"
#include "tests/driver.h"
#include "tests/slower.h"
#include "tests/wire.h"

static struct driver d;
static struct said said;
static struct wire_answer answer;
static char control[512];

static int
make(void **state)
{
	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_BOX]);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

static int
ask(const char *method, const char *target, const char *body)
{
	return wire_ask(control, method, target,
	    strchr(target + 1, '?') == NULL && strstr(target, "/input") == NULL
		? "Content-Type: application/json\r\n"
		: "Content-Type: application/octet-stream\r\n",
	    body, body == NULL ? 0 : strlen(body), &answer);
}

static void
refused(const char *method, const char *target, const char *body, int status, const char *code)
{
	if (ask(method, target, body) != status || strcmp(answer.refused, code) != 0)
		fail_msg(
		    "%s %s: %d %s: %s", method, target, answer.status, answer.refused, answer.body);
}

static void
says(const char *text)
{
	if (strstr(answer.body, text) == NULL)
		fail_msg("\"%s\" is not in: %s", text, answer.body);
}

/* RF-21: what it says on standard error is kept with the rest.
 * The whole stream in its order, each line with its row, the end last; from behind a
 * row nothing twice and nothing left out. */
static void
a_stream_is_its_rows(void **state)
{
	(void)state;
	assert_int_equal(
	    ask("POST", "/v1/sessions",
		"{\"name\":\"a\",\"cwd\":\"/\",\"argv\":[\"sh\",\"-c\",\"echo one; sleep 0.2;"
		" echo bad >&2; printf '\\\\377\\\\n'; exit 5\"]}"),
	    200);
	says("\"name\":\"a\"");
	assert_int_equal(ask("GET", "/v1/sessions/a/output", NULL), 200);
	assert_true(answer.whole);
	says("{\"id\":1,\"seq\":1,\"kind\":\"out\",\"line\":1,\"lines\":1,\"more\":0,");
	says("\"text\":\"one\\n\"}");
	says("\"kind\":\"err\"");
	says("\"base64\":\"/wo=\"}");
	says("{\"x\":5,\"state\":\"failed\",\"reason\":\"attempts\",\"id\":1}\n");
	assert_int_equal(ask("GET", "/v1/sessions/a/output?after=1", NULL), 200);
	assert_null(strstr(answer.body, "\"seq\":1,"));
	says("\"seq\":2,");
	assert_int_equal(ask("GET", "/v1/sessions/a", NULL), 200);
	says("\"state\":\"failed\"");
	says("\"exit\":5");
	assert_int_equal(ask("GET", "/v1/sessions", NULL), 200);
	says("[{\"id\":1,\"name\":\"a\"");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM audit WHERE who GLOB 'person:*'"
			     " AND entity = 'session'"),
	    1);
}

/* SE-07: what is sent is read by it, once, and a last piece ends its input; the list has how it
 * ended. */
static void
input_comes_in(void **state)
{
	(void)state;
	assert_int_equal(ask("POST", "/v1/sessions",
			     "{\"name\":\"i\",\"cwd\":\"/\",\"argv\":[\"cat\"],\"input\":true}"),
	    200);
	assert_int_equal(ask("POST", "/v1/sessions/i/input", "hello\n"), 202);
	assert_int_equal(ask("POST", "/v1/sessions/i/input?end=1", "there\n"), 202);
	assert_int_equal(ask("GET", "/v1/sessions/i/output", NULL), 200);
	says("hello\\n");
	says("there\\n");
	says("{\"x\":0,\"state\":\"done\",");
	assert_int_equal(ask("GET", "/v1/sessions", NULL), 200);
	says("\"name\":\"i\",\"worker\":\"\",\"state\":\"done\",");
	says("\"attempts\":1,\"lines\":2,\"bytes\":12}]");
	refused("POST", "/v1/sessions/i/input", "late\n", 409, "session.over");
}

/* An end that is asked for comes; and again is no mistake. */
static void
its_end_is_asked_for(void **state)
{
	(void)state;
	assert_int_equal(ask("POST", "/v1/sessions",
			     "{\"name\":\"c\",\"cwd\":\"/\",\"argv\":[\"sleep\",\"600\"]}"),
	    200);
	assert_int_equal(ask("DELETE", "/v1/sessions/c", NULL), 202);
	assert_int_equal(ask("GET", "/v1/sessions/c/output", NULL), 200);
	says("\"state\":\"cancelled\"");
	assert_int_equal(ask("DELETE", "/v1/sessions/c", NULL), 202);
}

/* PR-02: what is asked for is what the row has, each word as it was sent. */
static void
an_ask_is_its_row(void **state)
{
	(void)state;
	assert_int_equal(ask("POST", "/v1/sessions",
			     "{\"name\":\"r\",\"cwd\":\"/usr\",\"argv\":[\"echo\",\"a b\","
			     "\"\\u00e9\\\"\\\\\\n'\"],\"attempts\":3}"),
	    200);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT name = 'r' AND cwd = '/usr' AND max_attempts = 3 AND argv ="
			     " json_array('echo', 'a b', char(233, 34, 92, 10, 39)) FROM session"),
	    1);
	assert_int_equal(ask("GET", "/v1/sessions/r", NULL), 200);
	says("\"argv\":[\"echo\",\"a b\",\"\xc3\xa9\\\"\\\\\\n'\"]");
}

/*
 * RF-85: what it says when it is told to end is kept, although that end was asked for and a reader
 * does not read.
 */
static void
last_words_are_kept(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(
	    ask("POST", "/v1/sessions",
		"{\"name\":\"w\",\"cwd\":\"/\",\"argv\":[\"sh\",\"-c\","
		"\"trap 'seq 20000; echo bye; exit 3' TERM; seq 20000; sleep 600 & wait\"]}"),
	    200);
	driver_until(&d, DRIVER_BOX, 20000, "SELECT lines FROM session WHERE name = 'w'");
	fd = wire_dial(control);
	assert_int_equal(wire_request(fd, "GET", "/v1/sessions/w/output", "", NULL, 0), 0);
	assert_int_equal(ask("DELETE", "/v1/sessions/w", NULL), 202);
	assert_int_equal(ask("GET", "/v1/sessions/w/output?after=1", NULL), 200);
	says("20000\\nbye\\n\"}");
	says("\"state\":\"cancelled\"");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT lines FROM session WHERE name = 'w'"), 40001);
	close(fd);
}

/* How many descriptors the actor has. */
static int
descriptors(const char *actor)
{
	char path[64];
	struct dirent *entry;
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)driver_actor(&d, DRIVER_BOX, actor));
	assert_non_null(dir = opendir(path));
	while ((entry = readdir(dir)) != NULL)
		n++;
	closedir(dir);
	return n;
}

/* RF-110: whatever a session took in the actors is given back, however it ends. */
static void
nothing_is_left_of_one_that_ended(void **state)
{
	static const char *const argv[] = {"[\"true\"]", "[\"/no/such/program\"]",
	    "[\"sh\",\"-c\",\"kill -9 $$\"]", "[\"sleep\",\"600\"]"};
	int i, worker = 0, net = 0;
	char body[256], path[64];

	(void)state;
	for (i = 0; i < 16; i++) {
		if (i == 8) { /* each kind was there once */
			worker = descriptors("worker");
			net = descriptors("net");
		}
		snprintf(body, sizeof(body),
		    "{\"name\":\"n%d\",\"cwd\":\"/\",\"argv\":%s,\"attempts\":1,\"terminal\":%s}",
		    i, argv[i % 4], i % 8 < 4 ? "false" : "true");
		assert_int_equal(ask("POST", "/v1/sessions", body), 200);
		snprintf(path, sizeof(path), "/v1/sessions/n%d", i);
		if (i % 4 == 3)
			assert_int_equal(ask("DELETE", path, NULL), 202);
		driver_until(&d, DRIVER_BOX, i + 1,
		    "SELECT count(*) FROM session WHERE finished_at IS NOT NULL");
	}
	while (descriptors("worker") > worker || descriptors("net") > net)
		driver_pause();
}

/*
 * SV-03, PR-13: what is no ask is refused, with nothing behind it: an empty name, a field that we
 * do not know (not heeding it could widen what was asked for), a kind of ask that there is not.
 * RF-102: a number is whole, or it is none.
 */
static void
what_is_no_ask_is_refused(void **state)
{
	static const char *const bodies[] = {"{}", "[]", "{\"argv\":[],\"cwd\":\"/\"}",
	    "{\"argv\":[\"a\"],\"cwd\":\"x\"}", "{\"argv\":[1],\"cwd\":\"/\"}",
	    "{\"argv\":[\"a\"],\"cwd\":\"/\",\"uid\":0}",
	    "{\"argv\":[\"a\"],\"cwd\":\"/\",\"name\":\"\"}",
	    "{\"argv\":[\"a\"],\"cwd\":\"/\",\"attempts\":0}",
	    "{\"argv\":[\"a\"],\"cwd\":\"/\",\"attempts\":1.9}",
	    "{\"argv\":[\"a\"],\"cwd\":\"/\",\"attempts\":2.0}",
	    "{\"argv\":[\"a\"],\"cwd\":\"/\",\"attempts\":1e999}",
	    "{\"argv\":[\"a\"],\"cwd\":\"/\",\"attempts\":18446744073709551617}",
	    "{\"argv\":[\"a\"],\"cwd\":\"/\",\"input\":1}"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		refused("POST", "/v1/sessions", bodies[i], 422, "op.args");
	refused("POST", "/v1/sessions", "{\"argv\":[\"a\"],\"cwd\":\"/\",\"attempt\\u0073\":1}",
	    400, "json.invalid");
	refused("POST", "/v1/sessions", "{\"argv\":[\"a\"],\"cwd\":\"/\",\"name\":\"a b\"}", 422,
	    "session.name");
	refused("POST", "/v1/sessions", "{\"argv\":[],\"cwd\":\"/\",\"worker\":\"none\"}", 404,
	    "worker.unknown");
	refused("GET", "/v1/sessions/none", NULL, 404, "session.unknown");
	refused("GET", "/v1/sessions/none/output?after=-1", NULL, 422, "usage.wrong");
	refused("GET", "/v1/sessions/none/output?after=1.9", NULL, 422, "usage.wrong");
	refused("POST", "/v1/frobnicate", "{}", 404, "http.route");
	refused("DELETE", "/v1/sessions/none", NULL, 404, "session.unknown");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session"), 0);
}

/* SV-09, CL-05: whoever goes away in the middle takes nothing with him; the session goes on. */
static void
a_reader_may_go(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(
	    ask("POST", "/v1/sessions",
		"{\"name\":\"g\",\"cwd\":\"/\",\"argv\":[\"sh\",\"-c\",\"seq 1 50000; read x\"],"
		"\"input\":true}"),
	    200);
	fd = wire_dial(control);
	assert_int_equal(wire_request(fd, "GET", "/v1/sessions/g/output", "", NULL, 0), 0);
	driver_until(&d, DRIVER_BOX, 50000, "SELECT lines FROM session WHERE name = 'g'");
	close(fd);
	assert_int_equal(ask("POST", "/v1/sessions/g/input", "x\n"), 202);
	assert_int_equal(ask("GET", "/v1/sessions/g/output", NULL), 200);
	says("49999\\n50000\\n\"}");
	says("{\"x\":0,");
}

/* What is there now, so many rows, and nothing is waited for; of this database and no other. */
static void
some_rows_come_at_once(void **state)
{
	char target[128];
	struct stat st;

	(void)state;
	assert_int_equal(
	    ask("POST", "/v1/sessions",
		"{\"name\":\"m\",\"cwd\":\"/\",\"argv\":[\"sh\",\"-c\",\"echo one; sleep 0.3; echo two;"
		" read x\"],\"input\":true}"),
	    200);
	assert_int_equal(ask("GET", "/v1/sessions/m/output?most=5", NULL), 200);
	assert_true(answer.whole); /* though it runs */
	driver_until(&d, DRIVER_BOX, 2, "SELECT lines FROM session WHERE name = 'm'");
	assert_int_equal(ask("GET", "/v1/sessions/m/output?most=1", NULL), 200);
	assert_true(answer.whole);
	says("\"text\":\"one\\n\"}\n");
	assert_null(strstr(answer.body, "two"));
	assert_int_equal(ask("GET", "/v1/sessions/m/output?most=9&after=1", NULL), 200);
	says("\"seq\":2,");
	assert_null(strstr(answer.body, "one"));
	assert_null(strstr(answer.body, "\"x\":"));
	assert_int_equal(ask("POST", "/v1/sessions/m/input", "x\n"), 202);
	assert_int_equal(ask("GET", "/v1/sessions/m/output", NULL), 200);
	assert_int_equal(ask("GET", "/v1/sessions/m/output?most=9", NULL), 200);
	says("{\"x\":0,");
	assert_int_equal(ask("GET", "/v1/sessions/m/output?most=1", NULL), 200);
	assert_null(strstr(answer.body, "\"x\":"));
	assert_int_equal(stat(d.state[DRIVER_BOX], &st), 0);
	snprintf(target, sizeof(target), "/v1/sessions/m/output?most=1&state=%jx-%jx",
	    (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	assert_int_equal(ask("GET", target, NULL), 200);
	assert_int_equal(stat("/", &st), 0);
	snprintf(target, sizeof(target), "/v1/sessions/m/output?most=1&state=%jx-%jx",
	    (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	refused("GET", target, NULL, 404, "session.unknown");
	refused("GET", "/v1/sessions/m/output?most=x", NULL, 422, "usage.wrong");
}

/* RF-44: whoever looks again holds the number of a session: its name may be another's by then. */
static void
a_name_is_not_the_session(void **state)
{
	static const char body[] =
	    "{\"name\":\"n\",\"cwd\":\"/\",\"argv\":[\"sh\",\"-c\",\"echo 1; echo 2\"]}";
	char target[96];
	int64_t first, second;

	(void)state;
	assert_int_equal(ask("POST", "/v1/sessions", body), 200);
	assert_int_equal(ask("GET", "/v1/sessions/n/output", NULL), 200);
	assert_int_equal(sscanf(answer.body, "{\"id\":%" SCNd64 ",\"seq\":1,", &first), 1);
	driver_does(&said, NULL, "session", "rm", "n", NULL);
	assert_int_equal(ask("POST", "/v1/sessions", body), 200);
	assert_int_equal(ask("GET", "/v1/sessions/n/output", NULL), 200);
	assert_int_equal(sscanf(answer.body, "{\"id\":%" SCNd64 ",\"seq\":1,", &second), 1);
	assert_true(second != first);
	snprintf(target, sizeof(target), "/v1/sessions/n/output?after=1&id=%" PRId64, first);
	refused("GET", target, NULL, 404, "session.unknown");
	snprintf(target, sizeof(target), "/v1/sessions/n/output?after=1&id=%" PRId64, second);
	assert_int_equal(ask("GET", target, NULL), 200);
	says("{\"x\":0,");
}

/* Begin to follow ${name} from its first row, without reading. */
static int
follow(const char *name)
{
	char target[64];
	int fd = wire_dial(control);

	snprintf(target, sizeof(target), "/v1/sessions/%s/output", name);
	assert_int_equal(wire_request(fd, "GET", target, "", NULL, 0), 0);
	return fd;
}

/* SE-08, SE-10: one that does not read holds nobody up, has all that is kept once he reads, in
 * order, with a gap in the numbers where it was too late, also where the session ended meanwhile:
 * before its end. */
static void
a_gap_comes_before_the_end(void **state)
{
	int64_t seq, before = 0, line, lines, next = 1, gaps = 0;
	char *at;
	int fd;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.history", "400000", NULL);
	assert_int_equal(
	    ask("POST", "/v1/sessions",
		"{\"name\":\"s\",\"cwd\":\"/\",\"argv\":[\"sh\",\"-c\",\"seq 1 60000; read x; seq 60001"
		" 400000\"],\"input\":true}"),
	    200);
	driver_until(&d, DRIVER_BOX, 60000, "SELECT lines FROM session WHERE name = 's'");
	fd = follow("s");
	assert_int_equal(ask("POST", "/v1/sessions/s/input", "x\n"), 202);
	driver_until(&d, DRIVER_BOX, 400000,
	    "SELECT lines * (state = 'done') FROM session WHERE name = 's'");
	assert_true(driver_value(&d, DRIVER_BOX, "SELECT first_seq FROM session") > 1);
	wire_take(fd, &answer);
	close(fd);
	assert_true(answer.whole);
	for (at = answer.body; strncmp(at, "{\"x\":", 5) != 0; at = strchr(at, '\n') + 1) {
		assert_int_equal(sscanf(at,
				     "{\"id\":1,\"seq\":%" SCNd64
				     ",\"kind\":\"out\",\"line\":%" SCNd64 ",\"lines\":%" SCNd64,
				     &seq, &line, &lines),
		    3);
		assert_true(seq > before && line >= next && (seq == before + 1) == (line == next));
		gaps += seq != before + 1;
		before = seq;
		next = line + lines;
	}
	assert_int_equal(next, 400001);
	assert_int_equal(gaps, 1);
}

/* The last number of a row that is whole in the answer, every one of which is JSON of its own. */
static int64_t
whole_rows(void)
{
	int64_t seq = 0, line;
	char *at, *end;

	for (at = answer.body; (end = strchr(at, '\n')) != NULL; at = end + 1) {
		assert_int_equal(
		    sscanf(at, "{\"id\":%*d,\"seq\":%" SCNd64 ",\"kind\":\"out\",\"line\":%" SCNd64,
			&seq, &line),
		    2);
		assert_true(end - at > 2 && memcmp(end - 2, "\"}", 2) == 0);
		*end = '\0';
		assert_null(strstr(at + 1, "{\"id\""));
	}
	return seq;
}

/* Where a row goes of which a slow reader has a part, no other's bytes stand behind that part: the
 * stream ends without its end, and goes on behind the last whole row; also where the session goes.
 */
static void
halves_are_not_joined(void **state)
{
	char target[64];
	int64_t seq;
	int fd;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "http.stream", "4096", NULL);
	driver_does(&said, NULL, "settings", "set", "session.history", "400000", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	assert_int_equal(
	    ask("POST", "/v1/sessions",
		"{\"name\":\"h\",\"cwd\":\"/\",\"argv\":[\"sh\",\"-c\",\"seq 1 60000; read x; seq 60001"
		" 400000\"],\"input\":true}"),
	    200);
	driver_until(&d, DRIVER_BOX, 60000, "SELECT lines FROM session WHERE name = 'h'");
	fd = follow("h");
	assert_int_equal(ask("POST", "/v1/sessions/h/input", "x\n"), 202);
	driver_until(&d, DRIVER_BOX, 400000,
	    "SELECT lines * (state = 'done') FROM session WHERE name = 'h'");
	wire_take(fd, &answer);
	close(fd);
	assert_true(answer.whole);
	assert_null(strstr(answer.body, "{\"x\":"));
	seq = whole_rows();
	assert_true(seq > 0);
	snprintf(target, sizeof(target), "/v1/sessions/h/output?after=%" PRId64, seq);
	assert_int_equal(ask("GET", target, NULL), 200);
	says("400000\\n\"}\n{\"x\":0,");
	fd = follow("h");
	assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, DRIVER_WAIT_MS), 1);
	driver_does(&said, NULL, "session", "rm", "h", NULL);
	wire_take(fd, &answer);
	close(fd);
	assert_true(answer.whole);
	assert_null(strstr(answer.body, "{\"x\":"));
	driver_does(&said, NULL, "settings", "set", "http.stream", "262144", NULL);
}

#define COMERS (60 / SLOWER)

/* SE-09, RF-42: they come and go while it speaks and ends; nobody is sent to who has gone, and who
 * stays has all. */
static void
they_come_and_go(void **state)
{
	pid_t net = driver_actor(&d, DRIVER_BOX, "net");
	char body[160], target[64];
	int round, i, fds[COMERS];

	(void)state;
	for (round = 0; round < 5; round++) {
		snprintf(body, sizeof(body),
		    "{\"name\":\"r%d\",\"cwd\":\"/\",\"argv\":[\"sh\",\"-c\",\"for i in 1 2 3 4 5 6; do seq 1"
		    " 500; done\"]}",
		    round);
		assert_int_equal(ask("POST", "/v1/sessions", body), 200);
		snprintf(target, sizeof(target), "r%d", round);
		for (i = 0; i < COMERS; i++) {
			fds[i] = follow(target);
			if (i >= 3 && i % 3 != 0) {
				close(fds[i - 3]);
				fds[i - 3] = -1;
			}
		}
		snprintf(target, sizeof(target), "/v1/sessions/r%d/output", round);
		assert_int_equal(ask("GET", target, NULL), 200);
		says("{\"x\":0,");
		for (i = 0; i < COMERS; i++)
			if (fds[i] != -1)
				close(fds[i]);
	}
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT min(lines) FROM session"), 3000);
	assert_int_equal(driver_actor(&d, DRIVER_BOX, "net"), net);
}

/* RF-47: who replays much, and does not read it, holds up no end of the daemon. */
static void
a_replay_holds_up_no_end(void **state)
{
	char byte;
	int fd;

	(void)state;
	assert_int_equal(ask("POST", "/v1/sessions",
			     "{\"name\":\"b\",\"cwd\":\"/\",\"argv\":[\"seq\",\"1\",\"400000\"]}"),
	    200);
	driver_until(&d, DRIVER_BOX, 400000,
	    "SELECT lines * (state = 'done') FROM session WHERE name = 'b'");
	fd = follow("b");
	assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1); /* it has begun */
	driver_end(&d, DRIVER_BOX, SIGTERM);
	close(fd);
}

/* A Host runs nothing. */
static void
a_host_has_none(void **state)
{
	(void)state;
	driver_serve(&d, DRIVER_HOST);
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_HOST]);
	assert_int_equal(ask("GET", "/v1/sessions", NULL), 200);
	assert_string_equal(answer.body, "[]");
	refused("POST", "/v1/sessions", "{\"argv\":[\"a\"],\"cwd\":\"/\"}", 503, "session.offline");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_stream_is_its_rows, make, drop),
	    cmocka_unit_test_setup_teardown(input_comes_in, make, drop),
	    cmocka_unit_test_setup_teardown(its_end_is_asked_for, make, drop),
	    cmocka_unit_test_setup_teardown(an_ask_is_its_row, make, drop),
	    cmocka_unit_test_setup_teardown(last_words_are_kept, make, drop),
	    cmocka_unit_test_setup_teardown(nothing_is_left_of_one_that_ended, make, drop),
	    cmocka_unit_test_setup_teardown(what_is_no_ask_is_refused, make, drop),
	    cmocka_unit_test_setup_teardown(a_reader_may_go, make, drop),
	    cmocka_unit_test_setup_teardown(some_rows_come_at_once, make, drop),
	    cmocka_unit_test_setup_teardown(a_name_is_not_the_session, make, drop),
	    cmocka_unit_test_setup_teardown(halves_are_not_joined, make, drop),
	    cmocka_unit_test_setup_teardown(a_gap_comes_before_the_end, make, drop),
	    cmocka_unit_test_setup_teardown(they_come_and_go, make, drop),
	    cmocka_unit_test_setup_teardown(a_replay_holds_up_no_end, make, drop),
	    cmocka_unit_test_setup_teardown(a_host_has_none, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
