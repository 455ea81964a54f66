/* test_context.c: users who ask to share folders, at the daemon's own socket: many, slow, greedy.
 */
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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/state/pairing.h"
#include "tests/driver.h"
#include "tests/wire.h"

#define ALICE 4711 /* users without an account: the kernel knows their number */
#define BOB   4712
#define BODY  65536

static struct driver d;
static struct said said;
static struct wire_answer answer;
static char sock[160], control[160], program[160];

static void
root_only(void)
{
	if (geteuid() != 0) {
		print_message("only root can become another user\n");
		skip();
	}
}

/*
 * Setting up.
 */

static void
serve(void)
{
	driver_serve(&d, DRIVER_BOX);
}

/* Stop, change the setting (limits are read at the start), serve. */
static void
set(const char *name, const char *value)
{
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_does(&said, NULL, "settings", "set", name, value, NULL);
	serve();
}

static void
copy_program(void)
{
	const char *given = getenv("BASTION");
	char command[512];

	/* Where any user may run it. */
	snprintf(program, sizeof(program), "%s/bastion", d.dir);
	snprintf(command, sizeof(command), "cp '%s' '%s' && chmod 755 '%s' '%s'",
	    given != NULL ? given : "build/bastion", program, program, d.dir);
	assert_int_equal(system(command), 0);
}

static int
begin(void **state)
{
	static const unsigned char key[32] = {1};
	struct pairing_offer offer = {.host = "laptop", .host_key = key};
	struct pairing_made made;
	struct store *db;

	(void)state;
	driver_make(&d);
	snprintf(sock, sizeof(sock), "%s-ask/ask.sock", d.run[DRIVER_BOX]);
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_BOX]);
	copy_program();
	serve();
	db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, NULL);
	if (pairing_add(db, &offer, &made) != 0)
		fail_msg("%s", store_refusal(db)->why);
	store_close(db);
	driver_does(&said, NULL, "settings", "set", "context.asks", "1000", NULL);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

/*
 * Asking.
 */

/* Dial as user ${uid}: the kernel notes who it is as the connection is made. */
static int
dial_as(uid_t uid)
{
	int fd;

	assert_int_equal(seteuid(uid), 0);
	fd = wire_dial(sock);
	assert_int_equal(seteuid(0), 0);
	return fd;
}

static int
ask_as(uid_t uid, const char *method, const char *target, const char *body, size_t len)
{
	int fd = dial_as(uid);

	wire_request(fd, method, target, "", body, len);
	wire_take(fd, &answer);
	close(fd);
	return answer.status;
}

static int
asks(uid_t uid, const char *body)
{
	return ask_as(uid, "POST", "/v1/folders", body, strlen(body));
}

/* Nothing comes on ${fd} for ${ms}: it is open and served. */
static bool
is_quiet(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 0;
}

/* ${fd} is answered "busy", or closed, within 2 s; no slot is free. */
static bool
is_busy(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, 2000) != 1)
		return false;
	wire_take(fd, &answer);
	return answer.status == 503 && strcmp(answer.refused, "http.busy") == 0 &&
	       strstr(answer.body, "busy") != NULL;
}

/* Until every slot is free again: a slot is a connection that is open, and nothing else. */
static void
all_free(uid_t uid)
{
	int64_t until = driver_now() + 10000;
	int fd[4], i, quiet;

	do {
		driver_pause();
		for (i = 0, quiet = 0; i < 4; i++)
			fd[i] = dial_as(uid);
		for (i = 0; i < 4; i++)
			quiet += is_quiet(fd[i], 20);
		for (i = 0; i < 4; i++)
			close(fd[i]);
	} while (quiet < 4 && driver_now() < until);
	assert_int_equal(quiet, 4);
}

/*
 * The place.
 */

/* Anybody may reach the socket; nobody may put another in its place; the other sockets stay ours.
 */
static void
the_socket_is_for_all_its_place_is_ours(void **state)
{
	char directory[160], other[200];
	struct stat st;
	bool held;

	(void)state;
	root_only();
	assert_int_equal(lstat(sock, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0666);
	snprintf(directory, sizeof(directory), "%s-ask", d.run[DRIVER_BOX]);
	assert_int_equal(lstat(directory, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(lstat(d.run[DRIVER_BOX], &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	snprintf(other, sizeof(other), "%s/x", directory);
	assert_int_equal(seteuid(ALICE), 0);
	held = unlink(sock) == -1 && rename(sock, other) == -1 &&
	       open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) == -1 && lstat(control, &st) == -1;
	assert_int_equal(seteuid(0), 0);
	assert_true(held);
}

/* In a child that is another user for good. */
static int
child_asks(uid_t uid)
{
	static const char body[] = "{\"root\":\"/home/child\"}";
	int status;
	pid_t pid;

	if ((pid = fork()) == 0) {
		if (setgroups(0, NULL) != 0 || setgid(uid) != 0 || setuid(uid) != 0)
			_exit(1);
		wire_ask(sock, "POST", "/v1/folders", "", body, sizeof(body) - 1, &answer);
		_exit(answer.status == 200 ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

/* Who asks is the kernel's word: nothing in the message changes it, and nobody sees another's asks.
 */
static void
who_asks_is_the_kernels_word(void **state)
{
	char path[64];
	int64_t id;

	(void)state;
	root_only();
	assert_int_equal(child_asks(BOB), 0);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM context_ask WHERE uid = %d"
			     " AND root = '/home/child'",
			     BOB),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM audit WHERE entity = 'context_ask'"
			     " AND who = 'user:%d'",
			     BOB),
	    1);
	assert_int_equal(asks(ALICE, "{\"root\":\"/home/bob\",\"uid\":4712}"), 422);
	assert_string_equal(answer.refused, "context.form");
	id = driver_value(&d, DRIVER_BOX, "SELECT max(id) FROM context_ask");
	snprintf(path, sizeof(path), "/v1/folders/%" PRId64, id);
	assert_int_equal(ask_as(ALICE, "GET", path, "", 0), 404);
	assert_int_equal(ask_as(ALICE, "DELETE", path, "", 0), 404);
	assert_int_equal(ask_as(0, "DELETE", path, "", 0), 404);
	assert_int_equal(ask_as(ALICE, "GET", "/v1/folders", "", 0), 200);
	assert_string_equal(answer.body, "{\"asks\":[]}");
	assert_int_equal(ask_as(BOB, "GET", path, "", 0), 200);
	assert_int_equal(ask_as(BOB, "DELETE", path, "", 0), 200);
	assert_non_null(strstr(answer.body, "\"state\":\"withdrawn\""));
}

/* CTX-6, as far as Linux has it: whom the kernel cannot name is not heard. */
static void
who_has_no_name_is_not_heard(void **state)
{
	char byte;
	int fd;

	(void)state;
	root_only();
	fd = dial_as(65534);
	wire_request(fd, "GET", "/v1/folders", "", "", 0);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

/* A place for the socket that somebody else made is not used: users cannot ask, which is said, and
 * the box serves. */
static void
a_place_that_is_not_ours_is_not_used(void **state)
{
	char directory[160], command[512];
	int i;

	(void)state;
	root_only();
	snprintf(directory, sizeof(directory), "%s-ask", d.run[DRIVER_BOX]);
	for (i = 0; i < 3; i++) {
		driver_end(&d, DRIVER_BOX, SIGTERM);
		snprintf(command, sizeof(command), "rm -rf %s", directory);
		assert_int_equal(system(command), 0);
		if (i == 0)
			assert_int_equal(symlink(d.dir, directory), 0);
		else
			assert_int_equal(mkdir(directory, 0777), 0);
		if (i == 1)
			assert_int_equal(chown(directory, ALICE, ALICE), 0);
		serve();
		assert_int_equal(wire_ask(control, "GET", "/v1/status", "", "", 0, &answer), 200);
		assert_int_equal(access(sock, F_OK), i == 2 ? 0 : -1);
		snprintf(
		    command, sizeof(command), "grep -q 'users cannot ask' %s", d.log[DRIVER_BOX]);
		assert_int_equal(system(command), 0);
	}
	/* Ours is used, once nobody else may write there. */
	assert_int_equal(ask_as(ALICE, "GET", "/v1/folders", "", 0), 200);
}

/*
 * What is asked.
 */

/* What is no ask is refused by name, is not repeated and leaves nothing. */
static void
bodies_that_are_no_ask_are_refused(void **state)
{
	static const struct {
		const char *body, *code;
		int status;
	} cases[] = {
	    {"", "json.invalid", 400},
	    {"secretword", "json.invalid", 400},
	    {"{\"root\":\"secretword", "json.invalid", 400},
	    {"{\"root\":\"/secretword\\u0000\"}", "json.invalid", 400},
	    {"{\"root\":\"/secretword\xff\"}", "json.invalid", 400},
	    {"{\"root\":\"/a\",\"root\":\"/secretword\"}", "json.duplicate", 400},
	    {"[]", "context.form", 422},
	    {"{}", "context.form", 422},
	    {"{\"root\":7}", "context.form", 422},
	    {"{\"root\":null}", "context.form", 422},
	    {"{\"root\":\"/secretword\",\"name\":[]}", "context.form", 422},
	    {"{\"root\":\"/secretword\",\"x\":1}", "context.form", 422},
	    {"{\"root\":\"secretword\"}", "context.path", 422},
	    {"{\"root\":\"/secretword/..\"}", "context.path", 422},
	    {"{\"root\":\"/secretword\\n\"}", "context.path", 422},
	    {"{\"root\":\"/secretword\\u001b[2J\"}", "context.path", 422},
	    {"{\"root\":\"/a\",\"name\":\"secretword\\r\"}", "context.name", 422},
	    {"{\"root\":\"/a\",\"host\":\"secretword\"}", "context.host", 422},
	};
	int64_t rows;
	size_t i;

	(void)state;
	root_only();
	driver_settle(&d, DRIVER_BOX);
	rows = driver_value(&d, DRIVER_BOX, "SELECT max(seq) FROM audit");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(asks(ALICE, cases[i].body), cases[i].status);
		if (strcmp(answer.refused, cases[i].code) != 0)
			fail_msg("%s: %s", cases[i].body, answer.refused);
		assert_null(strstr(answer.body, "secretword"));
	}
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT max(seq) FROM audit"), rows);
	assert_int_equal(ask_as(ALICE, "GET", "/v1/folders/0", "", 0), 422);
	assert_int_equal(ask_as(ALICE, "GET", "/v1/folders/-1", "", 0), 422);
	assert_int_equal(ask_as(ALICE, "GET", "/v1/folders/99999999999999999999", "", 0), 422);
	assert_int_equal(ask_as(ALICE, "GET", "/v1/folders/999999999", "", 0), 404);
}

/* CTX-8: 65536 bytes of JSON can be read, one more cannot. */
static void
as_long_as_the_bound(void **state)
{
	static const char head[] = "{\"root\":\"/home/long\"";
	static char body[BODY + 2];

	(void)state;
	root_only();
	memset(body, ' ', sizeof(body));
	memcpy(body, head, sizeof(head) - 1);
	body[BODY - 1] = '}';
	assert_int_equal(ask_as(ALICE, "POST", "/v1/folders", body, BODY), 200);
	assert_int_equal(asks(ALICE, "{\"root\":\"/home/long\"}"), 409);
	body[BODY - 1] = ' ';
	body[BODY] = '}';
	assert_int_equal(ask_as(ALICE, "POST", "/v1/folders", body, BODY + 1), 413);
	assert_string_equal(answer.refused, "http.too_large");
}

/* How many bytes of an ask without an end are taken, of at most 16 MiB. */
static size_t
flood(const char *head, bool chunked)
{
	static char block[65536];
	struct timeval wait = {.tv_sec = 2};
	char size[16];
	size_t sent;
	ssize_t n = 0;
	int fd = dial_as(ALICE);

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	memset(block, 'a', sizeof(block));
	snprintf(size, sizeof(size), "%zx\r\n", sizeof(block));
	wire_send(fd, head, strlen(head));
	for (sent = 0; sent < 16u << 20; sent += (size_t)n) {
		if (chunked && wire_send(fd, size, strlen(size)) != 0)
			break;
		if ((n = send(fd, block, sizeof(block), MSG_NOSIGNAL)) <= 0)
			break;
		if (chunked && wire_send(fd, "\r\n", 2) != 0)
			break;
	}
	close(fd);
	return sent;
}

/* CTX-1, BND-1: of an ask without an end fewer than 4 MiB are taken, whichever way it comes. */
static void
an_ask_without_an_end_is_cut_off(void **state)
{
	(void)state;
	root_only();
	assert_true(flood("{\"root\":\"", false) < 4u << 20);
	assert_true(flood("POST /v1/folders HTTP/1.1\r\nHost: b\r\nX-A: ", false) < 4u << 20);
	assert_true(flood("POST /v1/folders HTTP/1.1\r\nHost: b\r\n"
			  "Content-Length: 16777216\r\n\r\n{\"root\":\"",
			false) < 4u << 20);
	assert_true(flood("POST /v1/folders HTTP/1.1\r\nHost: b\r\n"
			  "Transfer-Encoding: chunked\r\n\r\n9\r\n{\"root\":\"\r\n",
			true) < 4u << 20);
	all_free(ALICE);
}

/* One request a connection: what follows it is not read. */
static void
a_connection_has_one_request(void **state)
{
	static const char twice[] = "GET /v1/folders HTTP/1.1\r\nHost: b\r\n\r\n"
				    "GET /v1/folders HTTP/1.1\r\nHost: b\r\n\r\n";
	static const char unknown[] = "GET /v1/nothing HTTP/1.1\r\nHost: b\r\n\r\n";
	char byte;
	int fd;

	(void)state;
	root_only();
	fd = dial_as(ALICE);
	wire_send(fd, twice, sizeof(twice) - 1);
	wire_take(fd, &answer);
	assert_int_equal(answer.status, 200);
	assert_non_null(strstr(answer.head, "Connection: close"));
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
	fd = dial_as(ALICE);
	wire_send(fd, unknown, sizeof(unknown) - 1);
	wire_take(fd, &answer);
	assert_int_equal(answer.status, 404);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

/*
 * How many.
 */

/* CTX-4, CTX-5, CTX-7: a user has four connections; the fifth hears at once that it is too many,
 * while another user is served; closed ones are free again. */
static void
one_user_has_four(void **state)
{
	int fd[4], fifth, i;

	(void)state;
	root_only();
	for (i = 0; i < 4; i++)
		fd[i] = dial_as(ALICE);
	fifth = dial_as(ALICE);
	assert_true(is_busy(fifth));
	assert_non_null(strstr(answer.body, "user 4711"));
	close(fifth);
	for (i = 0; i < 4; i++)
		assert_true(is_quiet(fd[i], 50));
	assert_int_equal(ask_as(BOB, "GET", "/v1/folders", "", 0), 200);
	for (i = 0; i < 4; i++)
		close(fd[i]);
	all_free(ALICE);
}

/* CTX-2, CTX-3: with that cap lifted, 32 are served at once; the 33rd hears so, and when one ends
 * there is a place. */
static void
the_machine_has_thirty_two(void **state)
{
	struct timespec rest = {.tv_nsec = 200000000};
	int fd[32], next, i;

	(void)state;
	root_only();
	set("context.per_uid", "32");
	for (i = 0; i < 32; i++)
		fd[i] = dial_as(ALICE);
	next = dial_as(ALICE);
	assert_true(is_busy(next));
	close(next);
	close(fd[7]);
	nanosleep(&rest, NULL);
	next = dial_as(ALICE);
	assert_true(is_quiet(next, 500));
	wire_request(next, "GET", "/v1/folders", "", "", 0);
	wire_take(next, &answer);
	assert_int_equal(answer.status, 200);
	close(next);
	for (i = 0; i < 32; i++)
		if (i != 7)
			close(fd[i]);
	all_free(ALICE);
	set("context.per_uid", "4");
}

/* Users who hold every connection of theirs take none from the person or the Hosts. */
static void
many_users_take_nothing_from_the_person(void **state)
{
	int fd[32], i;

	(void)state;
	root_only();
	for (i = 0; i < 32; i++)
		fd[i] = dial_as((uid_t)(ALICE + 1000 + i / 4));
	i = dial_as(ALICE);
	assert_true(is_busy(i));
	close(i);
	for (i = 0; i < 200; i++)
		assert_int_equal(wire_ask(control, "GET", "/v1/status", "", "", 0, &answer), 200);
	for (i = 0; i < 32; i++)
		close(fd[i]);
	all_free(ALICE);
}

/* What nobody answers in time ends by itself, and its user sees that. */
static void
what_waits_too_long_ends(void **state)
{
	(void)state;
	root_only();
	driver_does(&said, NULL, "settings", "set", "context.ttl_ms", "1000", NULL);
	assert_int_equal(asks(BOB, "{\"root\":\"/home/late\"}"), 200);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM context_ask WHERE root = '/home/late' AND state = 'expired'");
	assert_int_equal(ask_as(BOB, "GET", "/v1/folders", "", 0), 200);
	assert_non_null(strstr(answer.body, "\"root\":\"/home/late\""));
	assert_non_null(strstr(answer.body, "\"state\":\"expired\""));
	driver_does(&said, NULL, "settings", "set", "context.ttl_ms", "86400000", NULL);
}

/* Ten thousand asks of one user: as many rows as may wait, and another user is heard throughout. */
static void
ten_thousand_asks(void **state)
{
	int64_t rows = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM context_ask");
	int64_t seq = driver_value(&d, DRIVER_BOX, "SELECT max(seq) FROM audit");
	char body[64];
	int i, taken = 0;

	(void)state;
	root_only();
	for (i = 0; i < 10000; i++) {
		snprintf(body, sizeof(body), "{\"root\":\"/home/flood/%d\"}", i);
		if (asks(ALICE + 9, body) == 200)
			taken++;
		else
			assert_string_equal(answer.refused, "context.yours");
		if (i % 1000 == 0)
			assert_int_equal(ask_as(BOB, "GET", "/v1/folders", "", 0), 200);
	}
	assert_int_equal(taken, 4);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM context_ask"), rows + 4);
	assert_true(driver_value(&d, DRIVER_BOX, "SELECT max(seq) FROM audit") < seq + 10);
}

/*
 * How slowly.
 */

/* Feed ${text} a byte at a time, waiting ${ms} after each, until the other end has gone; return how
 * long that took. */
static int64_t
trickle(const char *text, int ms)
{
	struct timespec rest = {.tv_nsec = ms * 1000000L};
	int64_t start = driver_now();
	struct pollfd p;
	size_t i, len = strlen(text);
	int fd = dial_as(ALICE);

	for (i = 0; driver_now() < start + 10000; i++) {
		if (send(fd, text + (i < len ? i : len - 1), 1, MSG_NOSIGNAL) != 1)
			break;
		nanosleep(&rest, NULL);
		p = (struct pollfd){.fd = fd, .events = POLLIN};
		if (poll(&p, 1, 0) == 1)
			break;
	}
	close(fd);
	return driver_now() - start;
}

/* Whoever writes slowly has the time of the setting for all of it, head and body, however steadily
 * the bytes come; who only holds the descriptor has no more. */
static void
slow_writers_have_one_deadline(void **state)
{
	struct pollfd p;
	int64_t start, took;
	int fd;

	(void)state;
	root_only();
	set("context.time_ms", "600");
	took = trickle("GET /v1/folders HTTP/1.1\r\nX-A: aaaaaaaa", 20);
	assert_true(took >= 550 && took < 5000);
	took = trickle("POST /v1/folders HTTP/1.1\r\nHost: b\r\nContent-Length: 60000\r\n\r\n ", 5);
	assert_true(took >= 550 && took < 5000);
	start = driver_now();
	fd = dial_as(ALICE);
	p = (struct pollfd){.fd = fd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 10000), 1);
	took = driver_now() - start;
	assert_true(took >= 550 && took < 5000);
	close(fd);
	all_free(ALICE);
	set("context.time_ms", "30000");
}

/* A daemon that is told to stop does not wait for users who hold their connections. */
static void
held_connections_do_not_hold_the_end(void **state)
{
	int fd[4], i;

	(void)state;
	root_only();
	for (i = 0; i < 4; i++)
		fd[i] = dial_as(ALICE);
	wire_send(fd[0], "POST /v1/folders HTTP/1.1\r\n", 27);
	assert_int_equal(driver_end(&d, DRIVER_BOX, SIGTERM), 0);
	for (i = 0; i < 4; i++)
		close(fd[i]);
	assert_int_equal(access(sock, F_OK), -1);
	serve();
	assert_int_equal(ask_as(ALICE, "GET", "/v1/folders", "", 0), 200);
}

/*
 * The whole way, as a user and a person type it.
 */

/* Run the program as user ${uid}; its exit code, and what it said in said. */
static int
types(uid_t uid, const char *a, const char *b, const char *c)
{
	char command[512];
	size_t len;
	FILE *f;
	int status;

	snprintf(command, sizeof(command),
	    "setpriv --reuid %u --regid %u --clear-groups env -i BASTION_RUN=%s %s context %s %s %s"
	    " 2>&1",
	    (unsigned)uid, (unsigned)uid, d.run[DRIVER_BOX], program, a, b, c);
	assert_non_null(f = popen(command, "re"));
	len = fread(said.out, 1, sizeof(said.out) - 1, f);
	said.out[len] = '\0';
	status = pclose(f);
	return WEXITSTATUS(status);
}

static void
from_the_ask_to_the_end(void **state)
{
	char folder[160], link[160], number[24], code[8];
	int64_t id;

	(void)state;
	root_only();
	driver_does(&said, NULL, "factor", "add", "totp", "--label", "phone", "--json", NULL);
	assert_non_null(strstr(said.out, "\"secret\":\""));
	snprintf(d.totp, sizeof(d.totp), "%.*s",
	    (int)strcspn(strstr(said.out, "\"secret\":\"") + 10, "\""),
	    strstr(said.out, "\"secret\":\"") + 10);
	snprintf(folder, sizeof(folder), "%s/papers", d.dir);
	snprintf(link, sizeof(link), "%s/short", d.dir);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(symlink(folder, link), 0);
	/* Another's folder is held before anybody is asked. */
	assert_int_equal(types(ALICE, "ask", folder, ""), 126);
	assert_non_null(strstr(said.out, "[context.owner]"));
	assert_int_equal(chown(folder, ALICE, ALICE), 0);
	/* The person reads where the link leads. */
	assert_int_equal(types(ALICE, "ask", link, "--name mine"), 0);
	assert_non_null(strstr(said.out, folder));
	id = driver_value(&d, DRIVER_BOX, "SELECT max(id) FROM context_ask");
	snprintf(number, sizeof(number), "%" PRId64, id);
	assert_int_equal(types(ALICE, "mine", "", ""), 0);
	assert_non_null(strstr(said.out, "pending"));
	driver_does(&said, NULL, "context", NULL);
	assert_non_null(strstr(said.out, folder));
	driver_refused(&said, 126, "factor.code", "000000\n", "context", "allow", number, NULL);
	driver_code(&d, code);
	driver_does(&said, code, "context", "allow", number, NULL);
	assert_non_null(strstr(said.err, ", as it is signed:\n    bastion folder 1\n"));
	assert_int_equal(types(ALICE, "mine", "--json", ""), 0);
	assert_non_null(strstr(said.out, "\"state\":\"allowed\""));
	assert_int_equal(types(BOB, "withdraw", number, ""), 2);
	assert_int_equal(types(ALICE, "withdraw", number, ""), 0);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT state = 'dropped' FROM context_ask"
			     " WHERE id = %s",
			     number),
	    1);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	assert_int_equal(types(ALICE, "mine", "", ""), 75);
	assert_non_null(strstr(said.out, "[context.offline]"));
	serve();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_socket_is_for_all_its_place_is_ours),
	    cmocka_unit_test(who_asks_is_the_kernels_word),
	    cmocka_unit_test(who_has_no_name_is_not_heard),
	    cmocka_unit_test(a_place_that_is_not_ours_is_not_used),
	    cmocka_unit_test(bodies_that_are_no_ask_are_refused),
	    cmocka_unit_test(as_long_as_the_bound),
	    cmocka_unit_test(an_ask_without_an_end_is_cut_off),
	    cmocka_unit_test(a_connection_has_one_request),
	    cmocka_unit_test(one_user_has_four),
	    cmocka_unit_test(many_users_take_nothing_from_the_person),
	    cmocka_unit_test(what_waits_too_long_ends),
	    cmocka_unit_test(ten_thousand_asks),
	    cmocka_unit_test(the_machine_has_thirty_two),
	    cmocka_unit_test(slow_writers_have_one_deadline),
	    cmocka_unit_test(held_connections_do_not_hold_the_end),
	    cmocka_unit_test(from_the_ask_to_the_end),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
