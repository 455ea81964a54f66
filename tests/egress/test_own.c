/* test_own.c: what the kernel says is this machine, or lives on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/egress/own.h"
#include "tests/netns.h"
#include "tests/scratch.h"

static bool isolated;
static struct own own;

/* "ip …" in our namespace. */
static int
ip_try(const char *command)
{
	char copy[256], *word, *rest = copy;
	const char *words[24] = {"ip"};
	size_t n = 1;
	int status;
	pid_t pid;

	snprintf(copy, sizeof(copy), "%s", command);
	while ((word = strsep(&rest, " ")) != NULL && n < 23)
		words[n++] = word;
	if ((pid = fork()) == 0) {
		execvp("ip", (char *const *)(uintptr_t)words);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void
ip(const char *command)
{
	int status = ip_try(command);

	if (status != 0)
		fail_msg("ip %s: %d", command, status);
}

static bool
is_own(const char *text)
{
	struct refusal r;
	struct address a;

	assert_int_equal(own_read(&own, &r), 0);
	assert_int_equal(address_parse(text, &a), 0);
	return own_has(&own, &a);
}

static void
needs_namespaces(void)
{
	if (!isolated) {
		print_message("no network namespaces can be made here\n");
		skip();
	}
}

/* EG-15: EG-16: addresses of links, and whole ranges that a route delivers here. */
static void
addresses_and_local_routes(void **state)
{
	(void)state;
	needs_namespaces();
	assert_true(is_own("127.0.0.1"));
	assert_true(is_own("127.9.9.9"));
	assert_true(is_own("::1"));
	assert_true(is_own(NETNS_BOX));
	assert_false(is_own(NETNS_SITE));
	assert_false(is_own("203.0.113.5"));
	ip("route add local 203.0.113.0/24 dev lo");
	assert_true(is_own("203.0.113.5"));
	assert_true(is_own("203.0.113.255"));
	assert_false(is_own("203.0.114.0"));
	ip("route del local 203.0.113.0/24 dev lo");
	assert_false(is_own("203.0.113.5"));
	ip("-6 route add local 2001:db8:77::/48 dev lo");
	assert_true(is_own("2001:db8:77::9"));
}

/* A veth that a route goes into without a gateway leads to a container; the way out does not. */
static void
containers_are_this_machine(void **state)
{
	(void)state;
	needs_namespaces();
	ip("link add c0 type veth peer name c1");
	ip("link set c0 up");
	ip("link set c1 up");
	ip("addr add 198.51.100.65/26 dev c0");
	assert_true(is_own("198.51.100.65"));
	assert_true(is_own("198.51.100.99"));
	assert_false(is_own("198.51.100.8"));
	/* With a gateway the same link is outside. */
	ip("route add 203.0.113.0/24 via 198.51.100.66 dev c0");
	assert_false(is_own("203.0.113.5"));
	/* The link to the router carries the default route: its network is outside. */
	assert_false(is_own(NETNS_ROUTER));
	ip("link del c0");
	assert_false(is_own("198.51.100.99"));
}

/* A bridge of containers alone is this machine; with a port that leads out it is a network. */
static void
bridges_are_judged_by_their_ports(void **state)
{
	(void)state;
	needs_namespaces();
	ip("link add br0 type bridge");
	ip("link add d0 type veth peer name d1");
	ip("link set d0 master br0");
	ip("link set br0 up");
	ip("addr add 198.51.100.129/26 dev br0");
	assert_true(is_own("198.51.100.130"));
	if (ip_try("link add name v0 link d1 type macvlan") == 0) {
		ip("link set v0 master br0");
		assert_false(is_own("198.51.100.130"));
		assert_true(is_own("198.51.100.129"));
	} else {
		print_message("this kernel has no macvlan\n");
	}
	ip("link del br0");
	ip("link del d0");
}

/* The watch tells of a change, and is quiet otherwise. */
static void
changes_are_told(void **state)
{
	struct refusal r;
	int fd, i;

	(void)state;
	needs_namespaces();
	assert_int_not_equal(fd = own_watch(&r), -1);
	assert_false(own_changed(fd));
	ip("addr add 203.0.113.1/32 dev lo");
	for (i = 0; i < 1000 && !own_changed(fd); i++)
		usleep(1000);
	assert_true(i < 1000);
	assert_false(own_changed(fd));
	ip("addr del 203.0.113.1/32 dev lo");
	close(fd);
}

/* The rows say what was read, and follow it. */
static void
rows_follow(void **state)
{
	struct scratch s;
	struct refusal r;

	(void)state;
	needs_namespaces();
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_EGRESS);
	assert_int_equal(own_read(&own, &r), 0);
	assert_false(own_is_stored(s.db, &own));
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(own_store(s.db, &own), 0);
	assert_int_equal(store_commit(s.db), 0);
	assert_true(own_is_stored(s.db, &own));
	assert_int_equal(
	    scratch_value(&s,
		"SELECT count(*) > 0 FROM own_address WHERE ifname = 'bst0'"
		" AND source = 'nic' AND address_bytes('" NETNS_BOX "') BETWEEN first AND last"),
	    1);
	own_free(&own);
	scratch_open(&s, ROLE_EGRESS);
	assert_false(own_is_stored(s.db, &own));
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(own_store(s.db, &own), 0);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM own_address"), 0);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(addresses_and_local_routes),
	    cmocka_unit_test(containers_are_this_machine),
	    cmocka_unit_test(bridges_are_judged_by_their_ports),
	    cmocka_unit_test(changes_are_told),
	    cmocka_unit_test(rows_follow),
	};
	int failed;

	isolated = netns_enter();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	own_free(&own);
	return failed;
}
