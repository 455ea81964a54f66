/* test_nat.c: a box behind a router that lets nothing in is reached by its Host all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/netns.h"

/*
 * Three network namespaces of this test's own: the Host's, the router's, the box's.
 *
 *     Host 10.98.0.1 ---- 10.98.0.254 router, masquerade 10.99.0.254 ---- 10.99.0.2 box
 *
 * The Host has no route to the box.
 */
enum place { HOST, ROUTER, BOX, PLACES };

#define HOST_PORT "10.98.0.1:7443"

static struct driver d;
static struct said said;
static pid_t holders[PLACES];
static bool can;

static void
enter(enum place place)
{
	netns_at(holders[place]);
}

static bool
shell(enum place place, const char *command)
{
	return netns_shell(holders[place], command);
}

static bool
wire_up(void)
{
	char command[256];

	snprintf(command, sizeof(command),
	    "ip link add name rh0 type veth peer name hr0 netns %d;"
	    " ip link add name rb0 type veth peer name br0 netns %d",
	    (int)holders[HOST], (int)holders[BOX]);
	return shell(ROUTER, command) &&
	       shell(ROUTER, "ip link set lo up; ip addr add 10.98.0.254/24 dev rh0;"
			     " ip addr add 10.99.0.254/24 dev rb0; ip link set rh0 up;"
			     " ip link set rb0 up; echo 1 > /proc/sys/net/ipv4/ip_forward") &&
	       shell(ROUTER, "nft \"add table ip nat; add chain ip nat post"
			     " { type nat hook postrouting priority 100; };"
			     " add rule ip nat post oifname rh0 masquerade\"") &&
	       shell(HOST, "ip link set lo up; ip addr add 10.98.0.1/24 dev hr0;"
			   " ip link set hr0 up") &&
	       shell(BOX, "ip link set lo up; ip addr add 10.99.0.2/24 dev br0;"
			  " ip link set br0 up; ip route add default via 10.99.0.254");
}

static void
pairing_made(void)
{
	static struct said invited;

	driver_make(&d);
	enter(HOST);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	driver_serve_begin(&d, DRIVER_HOST);
	driver_serve_wait(&d, DRIVER_HOST);
	driver_does(&said, NULL, "settings", "set", "--host", "line.ping_ms", "300", NULL);
	driver_does(&said, NULL, "settings", "set", "--host", "line.ping_wait_ms", "500", NULL);
	driver_end(&d, DRIVER_HOST, SIGTERM);
	driver_serve(&d, DRIVER_HOST);
	driver_does(&said, NULL, "host", "listen", HOST_PORT, "--address", HOST_PORT, NULL);
	enter(BOX);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "settings", "set", "http.idle_ms", "2000", NULL);
	driver_does(&said, NULL, "settings", "set", "line.connect_ms", "1000", NULL);
	driver_does(&said, NULL, "settings", "set", "line.cap_ms", "500", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&invited, NULL, "host", "invite", d.box, NULL);
	driver_does(&said, invited.out, "pair", "-", NULL);
}

static int
begin(void **state)
{
	int i;

	(void)state;
	can = geteuid() == 0;
	for (i = 0; can && i < PLACES; i++)
		can = (holders[i] = netns_hold()) > 0;
	if (can && (can = wire_up()))
		pairing_made();
	return 0;
}

static int
end(void **state)
{
	int i;

	(void)state;
	if (d.dir[0] != '\0')
		driver_drop(&d);
	for (i = 0; i < PLACES; i++)
		if (holders[i] > 0) {
			kill(holders[i], SIGKILL);
			waitpid(holders[i], NULL, 0);
		}
	return 0;
}

#define NEEDS_NETWORKS()                                                                     \
	do {                                                                                 \
		if (!can) {                                                                  \
			puts("needs root, ip, nft and namespaces with masquerade: skipped"); \
			skip();                                                              \
		}                                                                            \
	} while (0)

/* The Host cannot reach the box, where nobody listens; and asks it. */
static void
box_behind_a_router_is_asked(void **state)
{
	struct sockaddr_in box = {.sin_family = AF_INET, .sin_port = htons(22)};
	int fd;

	(void)state;
	NEEDS_NETWORKS();
	enter(HOST);
	assert_true((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) != -1);
	assert_int_equal(inet_pton(AF_INET, "10.99.0.2", &box.sin_addr), 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&box, sizeof(box)), -1);
	assert_int_equal(errno, ENETUNREACH);
	close(fd);
	assert_false(shell(BOX, "grep -q \" 0A \" /proc/net/tcp /proc/net/tcp6"));
	driver_until(&d, DRIVER_HOST, 4, "SELECT coalesce((SELECT max(up) FROM box_line), 0)");
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "observe:logins", NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM approval"), 1);
	/* It sees the router. */
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM box_line WHERE address GLOB '*10.98.0.254'"),
	    1);
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM host_beat");
}

/* The way is cut without a word to either end: both notice, and are together again when it is
 * back. */
static void
cut_is_noticed_at_both_ends(void **state)
{
	(void)state;
	NEEDS_NETWORKS();
	assert_true(shell(ROUTER, "echo 0 > /proc/sys/net/ipv4/ip_forward"));
	driver_until(&d, DRIVER_HOST, 0, "SELECT up FROM box_line");
	driver_until(&d, DRIVER_BOX, 0, "SELECT up FROM pairing_line");
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM pairing_line WHERE code IN ('http.timeout', 'http.unreachable')");
	assert_true(shell(ROUTER, "echo 1 > /proc/sys/net/ipv4/ip_forward"));
	driver_until(&d, DRIVER_HOST, 4, "SELECT up FROM box_line");
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "observe:logins", NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(box_behind_a_router_is_asked),
	    cmocka_unit_test(cut_is_noticed_at_both_ends),
	};

	setlinebuf(stdout);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, begin, end);
}
