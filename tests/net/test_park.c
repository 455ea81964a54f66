/* test_park.c: a Host reaches the internet through its box: real daemons, in a network of their own. */
#include <sys/socket.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/netns.h"

#define TEXT_MAX 65536
#define SLOTS    4

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
dial(void)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)proxy),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval patience = {.tv_sec = 20};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_not_equal(fd, -1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
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
	driver_until(&d, DRIVER_BOX, n,
	    "SELECT count(*) FROM egress_parked WHERE state = 'parked'");
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

/* Nothing is parked before a person said yes, and the program is told how to ask. */
static void
nothing_is_parked_unasked(void **state)
{
	(void)state;
	begin();
	refused_with(tunnel(), "[parked.none]; a person at the box grants it: bastion on BOX");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM egress_parked"), 0);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing_serves WHERE lane = 'egress'"),
	    0);
}

/* HB-2: what a box does for its Host is in its beat: lanes that run, and no others. */
static void
beats_say_what_is_served(void **state)
{
	(void)state;
	begin();
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM boxes WHERE serves = 'ops'");
	driver_grant(&d, "egress:reach", NETNS_SITE, number, "1000", "1h");
	until_parked(SLOTS);
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM boxes WHERE serves = 'ops, egress'");
	driver_does(&said, NULL, "host", "boxes", "--json", NULL);
	assert_non_null(strstr(said.out, "\"serves\":\"ops, egress\""));
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
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use"), used + 1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM op_run WHERE op = 'egress:reach' AND state = 'done'"),
	    used + 1);
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

/* EG-117: forty tunnels through four connections are done within three seconds, each of them
 * answered 200, each with the server that was asked for, whose address was judged. */
static void
four_carry_forty(void **state)
{
	int64_t began, before;
	int i, client, server;

	(void)state;
	begin();
	before = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM egress_flow WHERE dialled = '"
	    NETNS_SITE "'");
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
	assert_true(began <= 3000 * 2);
	driver_until(&d, DRIVER_BOX, before + 40,
	    "SELECT count(*) FROM egress_flow WHERE dialled = '" NETNS_SITE
	    "' AND addresses = '[\"" NETNS_SITE "\"]' AND state IN ('done', 'failed')");
	until_parked(SLOTS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_parked_unasked),
	    cmocka_unit_test(beats_say_what_is_served),
	    cmocka_unit_test(a_tunnel_goes_through),
	    cmocka_unit_test(socks_goes_through),
	    cmocka_unit_test(four_carry_forty),
	};

	isolated = netns_enter();
	return cmocka_run_group_tests(tests, first_day, evening);
}
