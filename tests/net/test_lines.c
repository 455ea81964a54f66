/* test_lines.c: boxes and Hosts over a network: real daemons, lines that the box makes, TLS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <signal.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "net/host/sign.h"
#include "tests/authority.h"
#include "tests/driver.h"
#include "tests/program.h"
#include "tests/wire.h"

/* A box with its Host, and a second Host that it may be paired with as well. */
static struct driver d, second;
static struct said said;
static struct wire_answer answer;
static char tree[128];

/* Verbs of the box are for that of ${box}, those of a Host for that of ${host}. */
static void
world(const struct driver *box, const struct driver *host)
{
	setenv("BASTION_STATE", box->state[DRIVER_BOX], 1);
	setenv("BASTION_RUN", box->run[DRIVER_BOX], 1);
	setenv("BASTION_HOST_STATE", host->state[DRIVER_HOST], 1);
	setenv("BASTION_HOST_RUN", host->run[DRIVER_HOST], 1);
}

/* Nobody waits for long in a test. */
static void
in_a_hurry(void)
{
	static const char *const box[][2] = {{"line.first_ms", "50"}, {"line.cap_ms", "400"},
	    {"line.steady_ms", "100"}, {"line.connect_ms", "2000"}, {"factor.steps", "10"}};
	size_t i;

	for (i = 0; i < sizeof(box) / sizeof(box[0]); i++)
		driver_does(&said, NULL, "settings", "set", box[i][0], box[i][1], NULL);
	driver_does(&said, NULL, "settings", "set", "line.wait_ms", "300", "--host", NULL);
}

static void
until_up(struct driver *host, int up)
{
	driver_until(host, DRIVER_HOST, up,
	    "SELECT coalesce((SELECT up FROM box_line ORDER BY box_id DESC LIMIT 1), 0)");
}

/* The box's end is a moment behind the Host's. */
static void
until_all_up(struct driver *host, int64_t pairing)
{
	until_up(host, 4);
	driver_until(&d, DRIVER_BOX, 4,
	    "SELECT coalesce((SELECT up FROM pairing_line WHERE pairing_id = %" PRId64 "), 0)",
	    pairing);
}

static int
first_day(void **state)
{
	(void)state;
	driver_far_day(&d, NULL);
	in_a_hurry();
	snprintf(tree, sizeof(tree), "%s/tree", d.dir);
	assert_int_equal(mkdir(tree, 0700), 0);
	until_all_up(&d, 1);
	driver_grant(&d, "observe:folders", tree, "1", "1000", "1h");
	return 0;
}

static int
evening(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

static void
ask(void)
{
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
}

/* Nothing listens at the box: the Host asks on what the box dialled, and is answered whole. */
static void
asks_go_over_lines(void **state)
{
	char transport[16];

	(void)state;
	driver_text(&d, DRIVER_BOX, transport, sizeof(transport), "SELECT transport FROM pairing");
	assert_string_equal(transport, "reverse");
	ask();
	assert_non_null(strstr(said.out, tree));
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM call WHERE state = 'done' AND exit_code = 0"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_HOST, "SELECT up FROM box_lines"), 4);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM box_lines WHERE line = 'connected'"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM listen"), 0);
}

/* What the box refuses is refused with its own words, and its question. */
static void
refusals_come_home(void **state)
{
	(void)state;
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "observe:logins", NULL);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM call WHERE state = 'refused'"
			     " AND code = 'approval.needed' AND approval IS NOT NULL"),
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM call WHERE state = 'refused'"));
}

/* An ask of the Host's control socket, with its answer left to be read. */
static int
ask_by_hand(const char *more)
{
	char control[256], body[512];
	int fd;

	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_HOST]);
	snprintf(body, sizeof(body),
	    "{\"box\":\"%s\",\"op\":\"observe:folders\",\"args\":[\"%s\",\"1\"]%s}", d.box, tree,
	    more);
	fd = wire_dial(control);
	assert_int_equal(wire_request(fd, "POST", "/v1/calls", "", body, strlen(body)), 0);
	return fd;
}

/* An ask that waits for a person keeps its line, and goes on once the person said yes. */
static void
asks_wait_on_a_line(void **state)
{
	int64_t before = driver_value(&d, DRIVER_HOST, "SELECT coalesce(max(id), 0) FROM call");
	int fd;

	(void)state;
	fd = ask_by_hand(",\"anew\":true,\"wait_ms\":60000");
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM call_output WHERE call_id > %" PRId64
	    " AND json_type(frame, '$.q') = 'integer'",
	    before);
	ask(); /* on another one */
	driver_approve(&d, driver_question(&d));
	wire_take(fd, &answer);
	close(fd);
	assert_true(answer.whole);
	assert_non_null(strstr(answer.body, "{\"x\":0}"));
}

/* One that is taken back lets go of its line, and the box of the ask; the line is made anew. */
static void
cancelled_asks_end_at_the_box(void **state)
{
	char control[256], path[64];
	int64_t call, question, runs;
	int fd;

	(void)state;
	fd = ask_by_hand(",\"anew\":true,\"wait_ms\":60000");
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM call_output WHERE call_id = (SELECT max(id) FROM call)"
	    " AND json_type(frame, '$.q') = 'integer'");
	call = driver_value(&d, DRIVER_HOST, "SELECT max(id) FROM call");
	question = driver_question(&d);
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_HOST]);
	snprintf(path, sizeof(path), "/v1/calls/%" PRId64, call);
	assert_int_equal(wire_ask(control, "DELETE", path, "", "", 0, &answer), 202);
	wire_take(fd, &answer);
	close(fd);
	assert_non_null(strstr(answer.body, "call.cancelled"));
	until_up(&d, 3);
	until_all_up(&d, 1);
	/* Approved now, it runs no more: nobody waits for it. */
	runs = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run");
	driver_approve(&d, question);
	ask();
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), runs + 1);
}

/* With more asks than lines the rest waits as rows, and each has its turn. */
static void
crowds_take_turns(void **state)
{
	int fd[12], i;

	(void)state;
	for (i = 0; i < 12; i++)
		fd[i] = ask_by_hand("");
	for (i = 0; i < 12; i++) {
		wire_take(fd[i], &answer);
		close(fd[i]);
		assert_true(answer.whole);
		if (strstr(answer.body, "{\"x\":0}") == NULL)
			fail_msg("%s", answer.body);
	}
	until_all_up(&d, 1);
}

/* With all lines in use an ask is told so in time. */
static void
busy_lines_are_said(void **state)
{
	int fd[4], i;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "line.busy_ms", "200", "--host", NULL);
	for (i = 0; i < 4; i++)
		fd[i] = ask_by_hand(",\"anew\":true,\"wait_ms\":60000");
	driver_until(&d, DRIVER_HOST, 4, "SELECT count(*) FROM call WHERE state = 'sent'");
	driver_refused(
	    &said, 75, "reverse.busy", NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	for (i = 0; i < 4; i++)
		close(fd[i]);
	driver_end(&d, DRIVER_HOST, SIGKILL);
	driver_serve(&d, DRIVER_HOST);
	until_all_up(&d, 1);
}

/* A Host that starts again, or is killed, has its boxes back; so has one whose box starts again. */
static void
lines_come_back(void **state)
{
	(void)state;
	driver_end(&d, DRIVER_HOST, SIGTERM);
	driver_until(&d, DRIVER_BOX, 0, "SELECT up FROM pairing_line");
	driver_serve(&d, DRIVER_HOST);
	until_all_up(&d, 1);
	ask();
	driver_end(&d, DRIVER_HOST, SIGKILL);
	/* Nobody was left to say so. */
	driver_until(&d, DRIVER_HOST, 0,
	    "SELECT count(*) FROM box_lines WHERE line = 'connected' OR up > 0");
	driver_until(&d, DRIVER_HOST, 0, "SELECT count(*) FROM boxes WHERE status = 'connected'");
	driver_serve(&d, DRIVER_HOST);
	until_all_up(&d, 1);
	ask();
	driver_end(&d, DRIVER_BOX, SIGTERM);
	until_up(&d, 0);
	driver_refused(
	    &said, 75, "reverse.offline", NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	driver_serve(&d, DRIVER_BOX);
	until_all_up(&d, 1);
	ask();
	driver_end(&d, DRIVER_BOX, SIGKILL);
	driver_serve(&d, DRIVER_BOX);
	until_all_up(&d, 1);
	ask();
}

/* An actor of either that dies takes its lines with it, and the next one has them again. */
static void
actors_may_die(void **state)
{
	pid_t pid;

	(void)state;
	pid = driver_actor(&d, DRIVER_HOST, "net");
	driver_kill(&d, DRIVER_HOST, "net");
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM actor_run WHERE actor = 'net' AND ended_at IS NULL");
	while (driver_actor(&d, DRIVER_HOST, "net") == pid)
		driver_pause();
	until_all_up(&d, 1);
	ask();
	pid = driver_actor(&d, DRIVER_BOX, "net");
	driver_kill(&d, DRIVER_BOX, "net");
	while (driver_actor(&d, DRIVER_BOX, "net") == pid)
		driver_pause();
	until_all_up(&d, 1);
	ask();
}

/* HB: the Host hears of the box with each beat, and by what it signed; BEAT: a change is told at
 * once. */
static void
beats_are_heard(void **state)
{
	int64_t before;

	(void)state;
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM host_beat WHERE beat ->> '$.name' = (SELECT name FROM host_box)");
	before = driver_value(&d, DRIVER_HOST, "SELECT max(beat_time) FROM box_line");
	assert_true(before > 0);
	driver_does(&said, NULL, "settings", "set", "beat.every_ms", "1000", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	driver_until(
	    &d, DRIVER_HOST, 1, "SELECT max(beat_time) > %" PRId64 " FROM box_line", before);
	before = driver_value(&d, DRIVER_HOST, "SELECT max(beat_time) FROM box_line");
	driver_until(
	    &d, DRIVER_HOST, 1, "SELECT max(beat_time) > %" PRId64 " FROM box_line", before);
	driver_does(&said, NULL, "settings", "set", "beat.every_ms", "3600000", NULL);
	until_all_up(&d, 1);
}

/* The headers of a request for ${path} that ${signer} signs now. */
static void
sign_as(const struct driver *signer, enum driver_side side, const char *path, const char *body,
    char *headers, size_t size)
{
	struct sign_request request = {
	    .method = "POST", .path = path, .time = clock_now(), .body = body, .len = strlen(body)};
	unsigned char identity[32];
	struct sign_headers h;
	struct refusal r;
	char file[128];
	struct key *key;
	size_t i, n = 0;

	snprintf(file, sizeof(file), "%s/bastion.key", signer->state[side]);
	assert_non_null(key = key_load(file, &r));
	key_public(key, KEY_IDENTITY, identity);
	assert_int_equal(sign_headers(key, identity, &request, &h), 0);
	key_free(key);
	for (i = 1; h.fields[i].name != NULL; i++)
		n += (size_t)snprintf(
		    headers + n, size - n, "%s: %s\r\n", h.fields[i].name, h.fields[i].value);
}

/* What a change of a pairing leaves behind. */
static void
kick(void)
{
	struct store_keys none = {.present = false};
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_MIGRATE, &none);

	assert_int_equal(store_begin(db), 0);
	assert_int_equal(store_exec(db, "INSERT INTO beat_request (pairing_id, at)"
					" SELECT id, now_ms() FROM pairing WHERE true"
					" ON CONFLICT DO NOTHING"),
	    0);
	assert_int_equal(store_commit(db), 0);
	store_close(db);
}

/* BEAT-1, BEAT-2: a change beats at once, long before the time, once for a burst of them; what is
 * not of a pairing that stands beats nothing. */
static void
changes_beat_at_once(void **state)
{
	int64_t heard = driver_value(&d, DRIVER_HOST, "SELECT max(beat_time) FROM box_line"), next;
	int i;

	(void)state;
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT value FROM setting WHERE name = 'beat.every_ms'"),
	    3600000);
	for (i = 0; i < 3; i++)
		kick();
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM beat_request");
	driver_until(
	    &d, DRIVER_HOST, 1, "SELECT max(beat_time) > %" PRId64 " FROM box_line", heard);
	next = driver_value(&d, DRIVER_HOST, "SELECT max(beat_time) FROM box_line");
	ask();
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT max(beat_time) FROM box_line"), next);
}

/* A beat by another machine than the one on the connection is none. */
static void
beats_of_others_are_not_heard(void **state)
{
	const char *body = "{}";
	char path[256], headers[1024];
	int64_t heard = driver_value(&d, DRIVER_HOST, "SELECT max(beat_time) FROM box_line");

	(void)state;
	snprintf(path, sizeof(path), "%s/enroll.sock", d.run[DRIVER_HOST]);
	/* On the socket of this machine, where the box, which is paired over a network, is not. */
	sign_as(&d, DRIVER_BOX, "/v1/beats", body, headers, sizeof(headers));
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/beats", headers, body, strlen(body), &answer), 403);
	assert_string_equal(answer.refused, "lane.peer");
	/* With a key that no box has; with the signature of something else. */
	sign_as(&d, DRIVER_HOST, "/v1/beats", body, headers, sizeof(headers));
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/beats", headers, body, strlen(body), &answer), 403);
	assert_string_equal(answer.refused, "box.unpaired");
	sign_as(&d, DRIVER_BOX, "/v1/beat", body, headers, sizeof(headers));
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/beats", headers, body, strlen(body), &answer), 403);
	assert_string_equal(answer.refused, "lane.signature");
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT max(beat_time) FROM box_line"), heard);
}

/* Paired anew, a box has new lines at once; and its certificate, one of a short life, is renewed
 * while it serves, and the next one takes over. */
static void
certificates_are_renewed_over_the_way(void **state)
{
	static struct said invited;
	int64_t id;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "--host", "tls.leaf_ms", "24000", NULL);
	driver_does(&said, NULL, "settings", "set", "tls.renew_ms", "1000", NULL);
	driver_does(&invited, NULL, "host", "invite", d.box, NULL);
	driver_does(&said, invited.out, "pair", "--replace", "-", NULL);
	until_all_up(&d, 1);
	id = driver_value(&d, DRIVER_BOX, "SELECT id FROM tls_identity WHERE state = 'current'");
	driver_does(&said, NULL, "settings", "set", "tls.renew_ms", "23900", NULL);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT max(id) > %" PRId64 " FROM tls_identity WHERE state = 'current'", id);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM box_certificate WHERE cert IS NOT NULL"
			     " AND box_id = (SELECT max(id) FROM host_box)"),
	    2);
	until_all_up(&d, 1);
	ask();
}

/* Pair the box with ${second} too, as a person at a terminal. */
static void
pair_second(void)
{
	static struct program_talk talk;
	static char code[2048];
	struct scratch s = {0};
	char at[32];

	driver_make(&second);
	world(&d, &second);
	driver_does(&said, NULL, "host", "init", "second", NULL);
	driver_serve(&second, DRIVER_HOST);
	second.port = driver_port();
	snprintf(at, sizeof(at), "127.0.0.1:%d", second.port);
	driver_does(&said, NULL, "host", "listen", at, "--address", at, NULL);
	driver_does(&said, NULL, "host", "invite", d.box, NULL);
	snprintf(code, sizeof(code), "%.*s", (int)strcspn(said.out, "\n"), said.out);
	snprintf(s.home.state, sizeof(s.home.state), "%s", d.state[DRIVER_BOX]);
	snprintf(s.home.run, sizeof(s.home.run), "%s", d.run[DRIVER_BOX]);
	program_talk(&talk, &s, (const char *const[]){"pair", code, NULL});
	program_expect(&talk, "[y/N] ");
	program_type(&talk, "yes\n");
	program_expect(&talk, "The Host second may ask this machine now");
	program_ends(&talk, 0);
	world(&d, &d);
}

static void
exec_as_person(struct driver *of, enum driver_side side, const char *sql)
{
	struct store *db = driver_open(of, side, ROLE_PERSON, NULL);
	struct stmt *q;

	assert_int_equal(store_begin(db), 0);
	assert_non_null(q = store_sql(db, sql));
	if (stmt_run(q) != 0)
		fail_msg("%s: %s", sql, store_refusal(db)->why);
	assert_int_equal(store_commit(db), 0);
	store_close(db);
}

/* Have the Host of ${pairing} be at the port ${port}, whoever listens there. */
static void
move(int64_t pairing, int port)
{
	static char sql[2][256];

	snprintf(sql[0], sizeof(sql[0]), "DELETE FROM pairing_endpoint WHERE pairing_id = %" PRId64,
	    pairing);
	snprintf(sql[1], sizeof(sql[1]),
	    "INSERT INTO pairing_endpoint (pairing_id, ord, endpoint)"
	    " VALUES (%" PRId64 ", 1, '127.0.0.1:%d')",
	    pairing, port);
	exec_as_person(&d, DRIVER_BOX, sql[0]);
	exec_as_person(&d, DRIVER_BOX, sql[1]);
}

static void
until_fails(int64_t pairing, const char *code)
{
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM pairing_line WHERE pairing_id = %" PRId64
	    " AND up = 0 AND code = '%s'",
	    pairing, code);
}

static int
two_hosts(void **state)
{
	if (first_day(state) != 0)
		return -1;
	pair_second();
	until_all_up(&second, 2);
	return 0;
}

static int
two_evenings(void **state)
{
	(void)state;
	world(&d, &second);
	driver_drop(&second);
	world(&d, &d);
	driver_drop(&d);
	return 0;
}

/* A Host's key on the lines of another Host opens nothing, though its own lines would carry it. */
static void
lines_carry_their_own_host_alone(void **state)
{
	const char *body = "{\"op\":\"observe:logins\",\"args\":[]}";
	char path[256], headers[1024];

	(void)state;
	snprintf(path, sizeof(path), "%s/lines.sock", d.run[DRIVER_HOST]);
	sign_as(&second, DRIVER_HOST, "/v1/ops", body, headers, sizeof(headers));
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/boxes/1/ops", headers, body, strlen(body), &answer), 403);
	assert_non_null(strstr(answer.body, "lane.line"));
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM refused WHERE code = 'lane.line'"
			     " AND pairing_id = 2"),
	    1);
	sign_as(&d, DRIVER_HOST, "/v1/ops", body, headers, sizeof(headers));
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/boxes/1/ops", headers, body, strlen(body), &answer), 403);
	assert_non_null(strstr(answer.body, "approval.needed"));
	/* There is no box of another number, and nothing else on a line. */
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/boxes/77/ops", headers, body, strlen(body), &answer), 503);
	assert_int_equal(wire_ask(path, "GET", "/v1/boxes/1/status", headers, "", 0, &answer), 422);
}

/* A Host that is down, is no Host, or is another one: the other Host is served all the while, and
 * the one that is wrong comes back once it is right. */
static void
one_bad_host_stops_nothing(void **state)
{
	int64_t dials;
	int fd, port;

	(void)state;
	world(&d, &second);
	driver_end(&second, DRIVER_HOST, SIGKILL);
	world(&d, &d);
	until_fails(2, "http.unreachable");
	driver_does(&said, NULL, "status", NULL);
	assert_non_null(strstr(said.out, "second  [not connected]: "));
	assert_null(strstr(said.out, "conductor  [not connected]"));
	ask();
	/* A port that takes the connection and says nothing. */
	fd = tcp_listen(&port);
	move(2, port);
	until_fails(2, "http.timeout");
	ask();
	close(fd);
	/* The other Host's port: the same program, an authority that is not the pinned one. */
	dials = driver_value(&d, DRIVER_HOST, "SELECT up FROM box_line");
	move(2, d.port);
	until_fails(2, "tls.untrusted");
	ask();
	assert_int_equal(driver_value(&d, DRIVER_HOST, "SELECT up FROM box_line"), dials);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT up FROM pairing_line"), 4);
	/* What is behind the first endpoint is tried before that counts. */
	exec_as_person(&d, DRIVER_BOX, "DELETE FROM pairing_endpoint WHERE pairing_id = 2");
	{
		static char sql[256];

		snprintf(sql, sizeof(sql),
		    "INSERT INTO pairing_endpoint (pairing_id, ord, endpoint) VALUES"
		    " (2, 1, '127.0.0.1:%d'), (2, 2, '127.0.0.1:%d')",
		    d.port, second.port);
		exec_as_person(&d, DRIVER_BOX, sql);
	}
	world(&d, &second);
	driver_serve(&second, DRIVER_HOST);
	world(&d, &d);
	until_all_up(&second, 2);
	ask();
}

/* A Host that stops reading and says nothing is given up; the other one does not notice. */
static void
silent_host_is_given_up(void **state)
{
	pid_t net;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "http.idle_ms", "1500", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	until_all_up(&second, 2);
	until_all_up(&d, 1);
	net = driver_actor(&second, DRIVER_HOST, "net");
	assert_int_equal(kill(net, SIGSTOP), 0);
	driver_until(&d, DRIVER_BOX, 0, "SELECT up FROM pairing_line WHERE pairing_id = 2");
	ask();
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT up FROM pairing_line WHERE pairing_id = 1"), 4);
	assert_int_equal(kill(net, SIGCONT), 0);
	until_all_up(&second, 2);
	driver_does(&said, NULL, "settings", "set", "http.idle_ms", "60000", NULL);
}

static void
lenient(sqlite3_context *c, int n, sqlite3_value **v)
{
	(void)n;
	sqlite3_result_value(c, v[0]);
}

/* EP-32, EP-34, EP-35, EP-45: an endpoint that no build dials any more stops its own pairing, at
 * once and from the next start on; nothing is dialled for it, and the other Host is served. */
static void
invalid_pairings_are_not_dialled(void **state)
{
	struct store_keys none = {.present = false};
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_MIGRATE, &none);

	(void)state;
	assert_int_equal(
	    sqlite3_create_function(store_handle(db), "endpoint_text", 1,
		SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, NULL, lenient, NULL, NULL),
	    SQLITE_OK);
	assert_int_equal(store_begin(db), 0);
	assert_int_equal(store_exec(db, "INSERT INTO pairing_endpoint (pairing_id, ord, endpoint)"
					" VALUES (2, 9, '127.0.0.1:1' || char(10) || 'x=1')"),
	    0);
	assert_int_equal(store_commit(db), 0);
	store_close(db);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM pairing_line WHERE pairing_id = 2");
	until_up(&second, 0);
	ask();
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	until_all_up(&d, 1);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing_line"), 1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT group_concat(host) = 'conductor' FROM pairing_reached"),
	    1);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM box_line WHERE up = 4"), 1);
	driver_does(&said, NULL, "status", NULL);
	assert_non_null(strstr(said.out, "second  [invalid]"));
	move(2, second.port);
	until_all_up(&second, 2);
}

/* Unpaired, a Host is cut off at once, and what it asks finds nobody. */
static void
unpaired_hosts_are_cut_off(void **state)
{
	(void)state;
	driver_does(&said, NULL, "unpair", "second", NULL);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM pairing_line WHERE pairing_id = 2");
	until_up(&second, 0);
	world(&d, &second);
	driver_does(&said, NULL, "settings", "set", "line.wait_ms", "100", "--host", NULL);
	driver_refused(&said, 75, "reverse.offline", NULL, "on", d.box, "observe:logins", NULL);
	world(&d, &d);
	ask();
}

/* The Host that dials: the box listens, proves itself under its own authority, and tells the two
 * apart that it serves. */
static int
listening_day(void **state)
{
	char at[32];

	(void)state;
	snprintf(at, sizeof(at), "127.0.0.1:%d", driver_port());
	driver_far_day(&d, at);
	in_a_hurry();
	snprintf(tree, sizeof(tree), "%s/tree", d.dir);
	assert_int_equal(mkdir(tree, 0700), 0);
	driver_grant(&d, "observe:folders", tree, "1", "1000", "1h");
	return 0;
}

static void
hosts_dial_boxes_that_listen(void **state)
{
	int fd;

	(void)state;
	ask();
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM host_box WHERE transport = 'tls'"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing_line"), 0);
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM host_beat");
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM box_lines WHERE line = 'beating'"),
	    1);
	fd = ask_by_hand(",\"anew\":true,\"wait_ms\":60000");
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM approval WHERE state = 'pending'");
	driver_approve(&d, driver_question(&d));
	wire_take(fd, &answer);
	close(fd);
	assert_non_null(strstr(answer.body, "{\"x\":0}"));
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	ask();
	driver_end(&d, DRIVER_HOST, SIGTERM);
	driver_serve(&d, DRIVER_HOST);
	ask();
}

/* Unpaired, what waits is cut off at once. */
static void
listening_boxes_cut_off_too(void **state)
{
	int fd;

	(void)state;
	fd = ask_by_hand(",\"anew\":true,\"wait_ms\":60000");
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM approval WHERE state = 'pending'");
	driver_does(&said, NULL, "unpair", "conductor", NULL);
	wire_take(fd, &answer);
	close(fd);
	assert_non_null(strstr(answer.body, "{\"x\":1,\"e\""));
	driver_run(&said, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	assert_int_not_equal(said.code, 0);
}

/* Beside its Host, a box beats on the Host's socket. */
static int
day_beside(void **state)
{
	(void)state;
	driver_first_day(&d);
	return 0;
}

static void
boxes_beside_beat_too(void **state)
{
	(void)state;
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM host_beat");
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM box_lines WHERE line = 'beating'"),
	    1);
}

/* What was heard is not heard again, though its signature is good and its time not long ago. */
static void
beats_are_heard_once(void **state)
{
	static char body[65536];
	char path[256], headers[1024];

	(void)state;
	snprintf(path, sizeof(path), "%s/enroll.sock", d.run[DRIVER_HOST]);
	driver_text(&d, DRIVER_HOST, body, sizeof(body), "SELECT beat FROM host_beat");
	sign_as(&d, DRIVER_BOX, "/v1/beats", body, headers, sizeof(headers));
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/beats", headers, body, strlen(body), &answer), 200);
	assert_non_null(strstr(answer.body, "\"directives\":[]"));
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/beats", headers, body, strlen(body), &answer), 409);
	assert_string_equal(answer.refused, "beat.stale");
	/* One byte of it is another beat. */
	sign_as(&d, DRIVER_BOX, "/v1/beats", body, headers, sizeof(headers));
	body[strlen(body) - 1] = ' ';
	assert_int_equal(
	    wire_ask(path, "POST", "/v1/beats", headers, body, strlen(body), &answer), 403);
	assert_string_equal(answer.refused, "lane.signature");
}

#define T(name) cmocka_unit_test(name)

int
main(void)
{
	const struct CMUnitTest one[] = {
	    T(asks_go_over_lines),
	    T(refusals_come_home),
	    T(asks_wait_on_a_line),
	    T(cancelled_asks_end_at_the_box),
	    T(crowds_take_turns),
	    T(busy_lines_are_said),
	    T(lines_come_back),
	    T(actors_may_die),
	    T(beats_are_heard),
	    T(changes_beat_at_once),
	    T(beats_of_others_are_not_heard),
	    T(certificates_are_renewed_over_the_way),
	};
	const struct CMUnitTest two[] = {
	    T(lines_carry_their_own_host_alone),
	    T(one_bad_host_stops_nothing),
	    T(silent_host_is_given_up),
	    T(invalid_pairings_are_not_dialled),
	    T(unpaired_hosts_are_cut_off),
	};
	const struct CMUnitTest listening[] = {
	    T(hosts_dial_boxes_that_listen),
	    T(listening_boxes_cut_off_too),
	};

	const struct CMUnitTest beside[] = {
	    T(boxes_beside_beat_too),
	    T(beats_are_heard_once),
	};

	setlinebuf(stdout);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(beside, day_beside, evening) +
	       cmocka_run_group_tests(one, first_day, evening) +
	       cmocka_run_group_tests(two, two_hosts, two_evenings) +
	       cmocka_run_group_tests(listening, listening_day, evening);
}
