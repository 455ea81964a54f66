/* test_park.c: a Host reaches the internet through its box: real daemons, in a network of their
 * own. */
#include <sys/socket.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/netns.h"
#include "tests/slower.h"

#define TEXT_MAX 65536
#define SLOTS    4
#define STREAM   (256UL << 20) /* more than all the sockets on the way take */

static struct driver d;
static struct said said;
static bool isolated;
static int site, proxy;
static uint16_t port;
static char out[TEXT_MAX], where[64], number[8];

/* Nobody waits for long in a test. */
static void
in_a_hurry(void)
{
	static const char *const box[][2] = {{"parked.retry_ms", "200"},
	    {"parked.refused_ms", "1000"}, {"line.first_ms", "50"}, {"factor.steps", "10"},
	    {"beat.every_ms", "60000"}};
	size_t i;

	for (i = 0; i < sizeof(box) / sizeof(box[0]); i++)
		driver_does(&said, NULL, "settings", "set", box[i][0], box[i][1], NULL);
	driver_does(&said, NULL, "settings", "set", "parked.wait_ms", "300", "--host", NULL);
}

static int
first_day(void **state)
{
	char at[8];

	(void)state;
	if (!isolated)
		return 0;
	driver_far_day(&d, NULL);
	in_a_hurry();
	site = netns_listen(NETNS_SITE, &port);
	snprintf(number, sizeof(number), "%u", port);
	snprintf(where, sizeof(where), NETNS_SITE ":%u", port);
	proxy = driver_port();
	snprintf(at, sizeof(at), "%d", proxy);
	driver_does(&said, NULL, "host", "egress", d.box, "--port", at, NULL);
	return 0;
}

static int
evening(void **state)
{
	(void)state;
	if (!isolated)
		return 0;
	close(site);
	driver_drop(&d);
	return 0;
}

/* Every test begins with it. */
static void
begin(void)
{
	if (isolated)
		return;
	print_message("no network namespaces can be made here\n");
	skip();
}

/*
 * A program on the Host.
 */

static int
try_dial(void)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)proxy),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval patience = {.tv_sec = 20};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_not_equal(fd, -1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int
dial(void)
{
	int fd = try_dial();

	assert_int_not_equal(fd, -1);
	return fd;
}

static void
say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Read until ${end} has come, or to the end where it is NULL.  Return the length. */
static size_t
hear(int fd, const char *end)
{
	size_t n = 0;
	ssize_t k = 1;

	out[0] = '\0';
	while (n < sizeof(out) - 1 && (end == NULL || strstr(out, end) == NULL) &&
	       (k = recv(fd, out + n, end != NULL ? 1 : sizeof(out) - 1 - n, 0)) > 0) {
		n += (size_t)k;
		out[n] = '\0';
	}
	if (end != NULL && k <= 0)
		fail_msg("no %s in: %s", end, out);
	return n;
}

static int
tunnel(void)
{
	char text[128];
	int fd = dial();

	snprintf(text, sizeof(text), "CONNECT %s HTTP/1.1\r\n\r\n", where);
	say(fd, text);
	return fd;
}

static int
taken(void)
{
	const struct timeval patience = {.tv_sec = 20};
	int fd;

	setsockopt(site, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	fd = accept4(site, NULL, NULL, SOCK_CLOEXEC);
	assert_int_not_equal(fd, -1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void
until_parked(int n)
{
	driver_until(
	    &d, DRIVER_BOX, n, "SELECT count(*) FROM egress_parked WHERE state = 'parked'");
	driver_until(&d, DRIVER_HOST, n, "SELECT coalesce((SELECT parked FROM box_parked), 0)");
}

static void
refused_with(int fd, const char *code)
{
	hear(fd, NULL);
	close(fd);
	if (strstr(out, code) == NULL)
		fail_msg("no %s in: %s", code, out);
	assert_non_null(strstr(out, "\r\nX-Bastion-Refused: "));
}

/* HB-3: a Host over a network is not offered what it was not granted, although the box could:
 * nothing is parked before a person said yes, and the program is told how to ask. */
static void
nothing_is_parked_unasked(void **state)
{
	(void)state;
	begin();
	refused_with(tunnel(), "[parked.none]; a person at the box grants it: bastion on BOX");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM egress_parked"), 0);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM pairing_serves WHERE lane = 'egress'"),
	    0);
}

/* HB-2: what a box does for its Host is in its beat: lanes that run, and no others. */
static void
beats_say_what_is_served(void **state)
{
	(void)state;
	begin();
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM boxes WHERE serves = 'ops'");
	driver_grant(&d, "egress:reach", NETNS_SITE, number, "1000", "1h");
	until_parked(SLOTS);
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM boxes WHERE serves = 'egress, ops'");
	driver_does(&said, NULL, "host", "boxes", "--json", NULL);
	assert_non_null(strstr(said.out, "\"serves\":\"egress, ops\""));
}

/* A tunnel carries both ways, each end by itself, and its row names the Host and its use. */
static void
a_tunnel_goes_through(void **state)
{
	int64_t used = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use");
	int client, server;

	(void)state;
	begin();
	client = tunnel();
	server = taken();
	hear(client, "\r\n\r\n");
	assert_string_equal(out, "HTTP/1.1 200 Connection established\r\n\r\n");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM egress_flow AS f JOIN egress_use AS u ON"
			     " u.flow_id = f.id WHERE f.state = 'open' AND f.pairing_id = 1"),
	    1);
	driver_until(&d, DRIVER_HOST, 1, "SELECT busy FROM egress_ports");
	say(client, "there");
	hear(server, "there");
	/* The client has said all; the server answers all the same. */
	shutdown(client, SHUT_WR);
	assert_int_equal(hear(server, NULL), 0);
	say(server, "and back");
	close(server);
	assert_int_equal(hear(client, NULL), 8);
	assert_string_equal(out, "and back");
	close(client);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM egress_log WHERE state = 'done' AND who = 'host conductor'"
	    " AND what = '%s' AND up = 5 AND down = 8",
	    where);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use"), used + 1);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM op_run WHERE op = 'egress:reach' AND state = 'done'"),
	    used + 1);
	/* By hand it is an ask as others are, which says what it is for. */
	driver_does(&said, NULL, "on", d.box, "egress:reach", NETNS_SITE, number, NULL);
	assert_non_null(strstr(said.out, NETNS_SITE));
	driver_does(&said, NULL, "egress", "tail", NULL);
	assert_non_null(strstr(said.out, "host conductor"));
	until_parked(SLOTS);
}

/* SOCKS5 by the same port: the bytes are the box's to read. */
static void
socks_goes_through(void **state)
{
	const unsigned char hello[] = {5, 1, 0};
	unsigned char ask[10] = {5, 1, 0, 1}, answer[12];
	int client, server;
	size_t n;

	(void)state;
	begin();
	inet_pton(AF_INET, NETNS_SITE, ask + 4);
	ask[8] = (unsigned char)(port >> 8);
	ask[9] = (unsigned char)port;
	client = dial();
	assert_int_equal(send(client, hello, sizeof(hello), MSG_NOSIGNAL), 3);
	assert_int_equal(recv(client, answer, 2, MSG_WAITALL), 2);
	assert_int_equal(send(client, ask, sizeof(ask), MSG_NOSIGNAL), 10);
	server = taken();
	assert_int_equal(recv(client, answer, 10, MSG_WAITALL), 10);
	assert_int_equal(answer[1], 0);
	say(server, "hi");
	close(server);
	n = hear(client, NULL);
	assert_int_equal(n, 2);
	close(client);
	until_parked(SLOTS);
}

/* The port is for the user of the daemon and root: another user of the machine is not heard. */
static void
another_user_is_not_heard(void **state)
{
	int64_t before = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM egress_flow");
	int status;
	pid_t pid;

	(void)state;
	begin();
	if (geteuid() != 0) {
		print_message("only root can be another user\n");
		skip();
	}
	if ((pid = fork()) == 0) {
		static const char text[] = "CONNECT " NETNS_SITE ":80 HTTP/1.1\r\n\r\n";
		int fd;

		if (setgid(65534) != 0 || setuid(65534) != 0 || (fd = try_dial()) == -1)
			_exit(9);
		/* It may be closed before it has said a word. */
		if (send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL) == -1)
			_exit(0);
		_exit(recv(fd, out, sizeof(out), 0) <= 0 ? 0 : 8);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM egress_flow"), before);
}

/* EG-117: forty tunnels through four connections are done within three seconds, each of them
 * answered 200, each with the server that was asked for, whose address was judged. */
static void
four_carry_forty(void **state)
{
	int64_t began, before;
	int i, client, server;

	(void)state;
	begin();
	before = driver_value(
	    &d, DRIVER_BOX, "SELECT count(*) FROM egress_flow WHERE dialled = '" NETNS_SITE "'");
	began = driver_now();
	for (i = 0; i < 40; i++) {
		client = tunnel();
		server = taken();
		hear(client, "\r\n\r\n");
		assert_string_equal(out, "HTTP/1.1 200 Connection established\r\n\r\n");
		close(client);
		close(server);
	}
	began = driver_now() - began;
	print_message("40 tunnels took %" PRId64 " ms\n", began);
	assert_true(began <= INT64_C(3000) * SLOWER);
	driver_until(&d, DRIVER_BOX, before + 40,
	    "SELECT count(*) FROM egress_flow WHERE dialled = '" NETNS_SITE
	    "' AND addresses = '[\"" NETNS_SITE "\"]' AND state IN ('done', 'failed')");
	until_parked(SLOTS);
}

/* The resident memory of an actor of the box, in KiB. */
static long
resident(const char *actor)
{
	char path[64], line[128];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)driver_actor(&d, DRIVER_BOX, actor));
	assert_non_null(f = fopen(path, "re"));
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = strtol(line + 6, NULL, 10);
	fclose(f);
	return kib;
}

/* The byte at ${at} of what is sent. */
static char
piece(size_t at)
{
	return (char)(at % 251);
}

/* Send until ${fd} takes no more for a while.  Return how much it took. */
static size_t
fill(int fd)
{
	char bytes[65536];
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	size_t sent = 0, i;
	ssize_t n;

	while (sent < STREAM && poll(&p, 1, 500) == 1) {
		for (i = 0; i < sizeof(bytes); i++)
			bytes[i] = piece(sent + i);
		if ((n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT)) > 0)
			sent += (size_t)n;
	}
	return sent;
}

/* EG-119, EG-120: what nobody reads is not kept: the program is held up instead.  All of it arrives
 * in order, in whatever pieces it is read, and its end as an end. */
static void
a_stream_is_not_kept(void **state)
{
	long net, egress;
	size_t sent, got = 0, i;
	int client, server;
	ssize_t n;

	(void)state;
	begin();
	client = tunnel();
	server = taken();
	hear(client, "\r\n\r\n");
	net = resident("net");
	egress = resident("egress");
	sent = fill(client);
	assert_true(sent < STREAM);
	assert_true(resident("net") - net < 8192);
	assert_true(resident("egress") - egress < 8192);
	shutdown(client, SHUT_WR);
	while ((n = recv(server, out, got % 2 == 0 ? 7 : sizeof(out), 0)) > 0)
		for (i = 0; i < (size_t)n; i++)
			if (out[i] != piece(got++))
				fail_msg("byte %zu is another", got - 1);
	assert_int_equal(n, 0);
	assert_int_equal(got, sent);
	close(server);
	assert_int_equal(hear(client, NULL), 0);
	close(client);
	until_parked(SLOTS);
}

/* EG-116: a Host whose every connection comes to nothing has four to sixteen of them in two
 * seconds, whatever it does, and reaches nobody. */
static void
refused_ones_wait(void **state)
{
	static const char sum[] = "SELECT sum(refused) FROM egress_parked";
	static const char reached[] = "SELECT count(*) FROM egress_flow WHERE dialled IS NOT NULL";
	int64_t until, before, dialled;
	int i, fd;

	(void)state;
	begin();
	before = driver_value(&d, DRIVER_BOX, sum);
	dialled = driver_value(&d, DRIVER_BOX, reached);
	until = driver_now() + 2000;
	for (i = 0; driver_now() < until; i++) {
		fd = dial();
		say(fd,
		    i % 2 == 0 ? "CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n" : "NOT-A-REQUEST\r\n\r\n");
		hear(fd, NULL);
		close(fd);
	}
	until_parked(SLOTS);
	before = driver_value(&d, DRIVER_BOX, sum) - before;
	print_message("%d asked, %" PRId64 " got to the box\n", i, before);
	assert_in_range(before, 4, 16);
	assert_int_equal(driver_value(&d, DRIVER_BOX, reached), dialled);
}

/* Rows hold what waits to its time, and what is parked to those who may. */
static void
rows_hold_what_is_parked(void **state)
{
	static const struct {
		const char *code, *sql;
	} all[] = {{"parked.early", "UPDATE egress_parked SET state = 'dialling' WHERE slot = 0"},
	    {"parked.early", "UPDATE egress_parked SET state = 'waiting', next_at = now_ms() + 900"
			     " WHERE slot = 0"},
	    {"parked.transition", "UPDATE egress_parked SET taken = -1 WHERE slot = 0"},
	    {"parked.transition", "UPDATE egress_parked SET slot = 9 WHERE slot = 0"},
	    {"parked.slots", "INSERT INTO egress_parked (pairing_id, slot, changed_at)"
			     " VALUES (1, 4, now_ms())"},
	    {"parked.unserved", "INSERT INTO egress_parked (pairing_id, slot, changed_at)"
				" VALUES (2, 0, now_ms())"},
	    {"parked.transition", "INSERT INTO egress_parked (pairing_id, slot, state, changed_at)"
				  " VALUES (1, 4, 'parked', now_ms())"}};
	struct store *db;
	struct stmt *q;
	size_t i;

	(void)state;
	begin();
	db = driver_open(&d, DRIVER_BOX, ROLE_NET, NULL);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_int_equal(store_begin(db), 0);
		assert_non_null(q = store_sql(db, all[i].sql));
		if (stmt_run(q) == 0)
			fail_msg("passes: %s", all[i].sql);
		assert_string_equal(store_refusal(db)->code, all[i].code);
		store_rollback(db);
	}
	store_close(db);
}

/* What the lane's actor carried ends with it; what is parked stays, and serves the next one. */
static void
the_lane_may_die(void **state)
{
	int client, server;

	(void)state;
	begin();
	client = tunnel();
	server = taken();
	hear(client, "\r\n\r\n");
	driver_kill(&d, DRIVER_BOX, "egress");
	assert_int_equal(hear(client, NULL), 0);
	assert_int_equal(hear(server, NULL), 0);
	close(client);
	close(server);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_flows");
	until_parked(SLOTS);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM actor_run WHERE actor = 'egress' AND state = 'running'");
	client = tunnel();
	server = taken();
	hear(client, "\r\n\r\n");
	close(client);
	close(server);
	until_parked(SLOTS);
}

/* EG-118: once the grant is taken back nothing is parked, what was carried ends, and the Host is
 * told that it is not served any more; all at once. */
static void
a_revoke_ends_it(void **state)
{
	int client, server;
	int64_t began;

	(void)state;
	begin();
	client = tunnel();
	server = taken();
	hear(client, "\r\n\r\n");
	began = driver_now();
	driver_does(&said, NULL, "grants", "drop", "--all", NULL);
	assert_int_equal(hear(client, NULL), 0);
	assert_int_equal(hear(server, NULL), 0);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM egress_parked");
	assert_true(driver_now() - began < 10000);
	close(client);
	close(server);
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM boxes WHERE serves = 'ops'");
	driver_until(&d, DRIVER_HOST, 0, "SELECT parked + busy FROM box_parked");
	/* The lane ended it, or the Host did, which heard of it as well. */
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_flows");
	refused_with(tunnel(), "[parked.none]");
}

/* A rule that names the Host is a person's word as well, on a port that moved; and unpairing ends
 * all of it. */
static void
an_end_of_the_pairing_ends_it(void **state)
{
	char at[8];
	int client, server;

	(void)state;
	begin();
	driver_grant(&d, "egress:reach", NETNS_SITE, "9", "1", "1h");
	driver_does(&said, NULL, "egress", "allow", NETNS_SITE, "--host", "conductor", NULL);
	until_parked(SLOTS);
	proxy = driver_port();
	snprintf(at, sizeof(at), "%d", proxy);
	driver_does(&said, NULL, "host", "egress", d.box, "--port", at, NULL);
	driver_until(&d, DRIVER_HOST, proxy, "SELECT port FROM egress_ports");
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM audit WHERE entity = 'egress_port' AND body ->> '$.port' = %d",
	    proxy);
	client = -1;
	while (client == -1)
		client = try_dial();
	close(client);
	client = tunnel();
	server = taken();
	hear(client, "\r\n\r\n");
	driver_does(&said, "y\n", "unpair", "conductor", NULL);
	assert_int_equal(hear(client, NULL), 0);
	assert_int_equal(hear(server, NULL), 0);
	close(client);
	close(server);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM egress_parked");
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_flows");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_parked_unasked),
	    cmocka_unit_test(beats_say_what_is_served),
	    cmocka_unit_test(a_tunnel_goes_through),
	    cmocka_unit_test(socks_goes_through),
	    cmocka_unit_test(another_user_is_not_heard),
	    cmocka_unit_test(four_carry_forty),
	    cmocka_unit_test(a_stream_is_not_kept),
	    cmocka_unit_test(refused_ones_wait),
	    cmocka_unit_test(rows_hold_what_is_parked),
	    cmocka_unit_test(the_lane_may_die),
	    cmocka_unit_test(a_revoke_ends_it),
	    cmocka_unit_test(an_end_of_the_pairing_ends_it),
	};

	isolated = netns_enter();
	return cmocka_run_group_tests(tests, first_day, evening);
}
