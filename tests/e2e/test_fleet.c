/* test_fleet.c: two boxes and two Hosts, each on a network place of its own, from pairing to the
 * last restart: real daemons, real verbs, TLS on the wire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/netns.h"
#include "tests/program.h"

/*
 * Five network namespaces of this test's own. The switch is a router as well:
 *
 *     main 10.97.0.1   other 10.97.0.2   shop 10.97.0.3
 *          |                |                |
 *          +------- switch 10.97.0.254 ------+
 *                          | masquerade 10.96.0.254
 *                   attic 10.96.0.2
 *
 * The box attic is networked and can only dial out; the box shop is a person's own, and listens.
 */
enum place { SWITCH, MAIN, OTHER, SHOP, ATTIC, PLACES };

#define MAIN_AT  "10.97.0.1:7443"
#define MOVED_TO "10.97.0.11:7443"
#define OTHER_AT "10.97.0.2:7443"
#define SHOP_AT  "10.97.0.3:7444"

/* The box attic and the Host main; the box shop and the Host other. */
static struct driver a, b;
static struct said said;
static pid_t holders[PLACES];
static char main_key[65], other_key[65], tree[128];
static bool can;

#define NEEDS_NETWORKS()                                                                     \
	do {                                                                                 \
		if (!can) {                                                                  \
			puts("needs root, ip, nft and namespaces with masquerade: skipped"); \
			skip();                                                              \
		}                                                                            \
	} while (0)

/* Verbs of a box are for that of ${box}, those of a Host for that of ${host}. */
static void
world(const struct driver *box, const struct driver *host)
{
	setenv("BASTION_STATE", box->state[DRIVER_BOX], 1);
	setenv("BASTION_RUN", box->run[DRIVER_BOX], 1);
	setenv("BASTION_HOST_STATE", host->state[DRIVER_HOST], 1);
	setenv("BASTION_HOST_RUN", host->run[DRIVER_HOST], 1);
}

static void
at(enum place place)
{
	netns_at(holders[place]);
}

static bool
there(enum place place, const char *command)
{
	return netns_shell(holders[place], command);
}

/* Which place each daemon is at. */
static enum place
place_of(const struct driver *d, enum driver_side side)
{
	if (side == DRIVER_BOX)
		return d == &a ? ATTIC : SHOP;
	return d == &a ? MAIN : OTHER;
}

static void
serve(struct driver *d, enum driver_side side)
{
	world(d, d);
	at(place_of(d, side));
	driver_serve(d, side);
}

static void
says(const char *part)
{
	if (strstr(said.out, part) == NULL)
		fail_msg("without \"%s\": %s%s", part, said.out, said.err);
}

/*
 * The network, and who is on it.
 */

static bool
plug_in(enum place place, const char *name, const char *address)
{
	char command[512];

	snprintf(command, sizeof(command),
	    "ip link add name %s type veth peer name eth0 netns %d; ip link set %s master sw0 up",
	    name, (int)holders[place], name);
	if (!there(SWITCH, command))
		return false;
	snprintf(command, sizeof(command),
	    "ip link set lo up; echo 1 > /proc/sys/net/ipv4/conf/all/promote_secondaries;"
	    " ip addr add %s/24 dev eth0; ip link set eth0 up",
	    address);
	return there(place, command);
}

static bool
wire_up(void)
{
	char command[256];

	snprintf(command, sizeof(command),
	    "ip link add name attic0 type veth peer name eth0 netns %d", (int)holders[ATTIC]);
	return there(SWITCH, "ip link set lo up; ip link add name sw0 type bridge;"
			     " ip addr add 10.97.0.254/24 dev sw0; ip link set sw0 up;"
			     " echo 1 > /proc/sys/net/ipv4/ip_forward") &&
	       plug_in(MAIN, "main0", "10.97.0.1") && plug_in(OTHER, "other0", "10.97.0.2") &&
	       plug_in(SHOP, "shop0", "10.97.0.3") && there(SWITCH, command) &&
	       there(SWITCH, "ip addr add 10.96.0.254/24 dev attic0; ip link set attic0 up;"
			     " nft \"add table ip nat; add chain ip nat post"
			     " { type nat hook postrouting priority 100; };"
			     " add rule ip nat post oifname sw0 masquerade\"") &&
	       there(ATTIC, "ip link set lo up; ip addr add 10.96.0.2/24 dev eth0;"
			    " ip link set eth0 up; ip route add default via 10.96.0.254");
}

static void
host_born(struct driver *d, const char *name, const char *address, char key[65])
{
	world(d, d);
	driver_does(&said, NULL, "host", "init", name, NULL);
	driver_does(&said, NULL, "settings", "set", "--host", "line.ping_ms", "500", NULL);
	driver_does(&said, NULL, "settings", "set", "--host", "line.ping_wait_ms", "3000", NULL);
	serve(d, DRIVER_HOST);
	driver_does(&said, NULL, "host", "listen", "*:7443", "--address", address, NULL);
	driver_text(d, DRIVER_HOST, key, 65, "SELECT lower(hex(identity_key)) FROM box");
}

/* A box has the name of its machine; nobody here waits for long. */
static void
box_born(struct driver *d, const char *name)
{
	static const char *const hurry[][2] = {{"line.first_ms", "50"}, {"line.cap_ms", "400"},
	    {"line.steady_ms", "100"}, {"line.connect_ms", "2000"}, {"beat.every_ms", "1000"},
	    {"http.idle_ms", "4000"}, {"factor.steps", "10"}};
	size_t i;

	assert_int_equal(sethostname(name, strlen(name)), 0);
	serve(d, DRIVER_BOX);
	assert_string_equal(d->box, name);
	for (i = 0; i < sizeof(hurry) / sizeof(hurry[0]); i++)
		driver_does(&said, NULL, "settings", "set", hurry[i][0], hurry[i][1], NULL);
	if (d == &a)
		driver_does(&said, NULL, "set-mode", "networked", NULL);
	driver_enrol(d);
	driver_end(d, DRIVER_BOX, SIGTERM);
	serve(d, DRIVER_BOX);
}

static int
morning(void **state)
{
	int i;

	(void)state;
	can = geteuid() == 0 && unshare(CLONE_NEWUTS) == 0;
	for (i = 0; can && i < PLACES; i++)
		can = (holders[i] = netns_hold()) > 0;
	if (!can || !(can = wire_up()))
		return 0;
	driver_make(&a);
	driver_make(&b);
	host_born(&a, "main.example.org", MAIN_AT, main_key);
	host_born(&b, "other.example.org", OTHER_AT, other_key);
	box_born(&a, "attic");
	box_born(&b, "shop");
	snprintf(tree, sizeof(tree), "%s/tree", a.dir);
	assert_int_equal(mkdir(tree, 0700), 0);
	return 0;
}

/* The invariants of all four databases are held here. */
static int
evening(void **state)
{
	int i;

	(void)state;
	if (b.dir[0] != '\0')
		driver_drop(&b);
	if (a.dir[0] != '\0')
		driver_drop(&a);
	for (i = 0; i < PLACES; i++)
		if (holders[i] > 0) {
			kill(holders[i], SIGKILL);
			waitpid(holders[i], NULL, 0);
		}
	return 0;
}

/*
 * What a person does, and what they see.
 */

/* The code of ${host} for ${box}. */
static void
invite(struct driver *box, struct driver *host, char code[2048])
{
	world(box, host);
	driver_does(&said, NULL, "host", "invite", box->box, NULL);
	snprintf(code, 2048, "%.*s", (int)strcspn(said.out, "\n"), said.out);
	at(place_of(box, DRIVER_BOX));
}

static void
pair(struct driver *box, struct driver *host, const char *how, const char *where)
{
	static char code[2048];

	invite(box, host, code);
	if (where != NULL)
		driver_does(&said, code, "pair", "-", how, where, NULL);
	else if (how != NULL)
		driver_does(&said, code, "pair", how, "-", NULL);
	else
		driver_does(&said, code, "pair", "-", NULL);
}

/* How the pairing of the Host named ${host} stands at ${box}. */
static void
stands(struct driver *box, const char *host, const char *want)
{
	char is[32];

	driver_text(box, DRIVER_BOX, is, sizeof(is),
	    "SELECT state FROM pairing_status WHERE host = '%s' ORDER BY id DESC LIMIT 1", host);
	assert_string_equal(is, want);
}

static void
until_lines(struct driver *host, const char *box, int up)
{
	driver_until(host, DRIVER_HOST, up,
	    "SELECT coalesce((SELECT up FROM box_lines WHERE name = '%s' ORDER BY id DESC LIMIT 1),"
	    " 0)",
	    box);
}

/* All lines of ${box} to ${host} are up, as both ends have it. */
static void
until_connected(struct driver *box, struct driver *host, const char *name)
{
	until_lines(host, box->box, 4);
	driver_until(box, DRIVER_BOX, 4,
	    "SELECT coalesce((SELECT l.up FROM pairing_line AS l"
	    " JOIN pairing_status AS s ON s.id = l.pairing_id WHERE s.host = '%s'), 0)",
	    name);
}

static void
asks(struct driver *box, struct driver *host)
{
	world(box, host);
	driver_does(&said, NULL, "on", box->box, "observe:folders", tree, "1", NULL);
	says(tree);
}

/* A question goes over the network, a person answers it at the box, and the ask is answered. */
static void
granted(struct driver *box, struct driver *host)
{
	int64_t runs = driver_value(box, DRIVER_BOX, "SELECT count(*) FROM op_run");

	world(box, host);
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", box->box, "observe:folders", tree, "1", NULL);
	driver_grant(box, "observe:folders", tree, "1", "1000", "1h");
	asks(box, host);
	assert_int_equal(
	    driver_value(box, DRIVER_BOX, "SELECT count(*) FROM op_run WHERE state = 'done'"),
	    runs + 1);
}

/* Beside it, how this Host's last ask is written down at its own end. */
static void
last_call_is(struct driver *host, const char *want)
{
	char is[32];

	driver_text(
	    host, DRIVER_HOST, is, sizeof(is), "SELECT state FROM call ORDER BY id DESC LIMIT 1");
	assert_string_equal(is, want);
}

static void
ordered(struct driver *box, const char *kind, const char *state, int n)
{
	driver_until(box, DRIVER_BOX, n,
	    "SELECT count(*) FROM directive WHERE kind = '%s' AND state = '%s'", kind, state);
}

/*
 * The day.
 */

/* A networked box that can only dial out: the first Host that root pairs anchors it, and asks over
 * the lines that the box makes. */
static void
the_first_host_anchors(void **state)
{
	char is[65];

	(void)state;
	NEEDS_NETWORKS();
	pair(&a, &a, NULL, NULL);
	stands(&a, "main.example.org", "active");
	driver_text(&a, DRIVER_BOX, is, sizeof(is), "SELECT host FROM live_anchor");
	assert_string_equal(is, "main.example.org");
	until_connected(&a, &a, "main.example.org");
	granted(&a, &a);
	last_call_is(&a, "done");
	driver_text(&a, DRIVER_HOST, is, sizeof(is), "SELECT address FROM box_lines");
	assert_non_null(strstr(is, "10.97.0.254")); /* the router, behind which it is */
	assert_false(there(ATTIC, "grep -q \" 0A \" /proc/net/tcp /proc/net/tcp6"));
}

/* A second Host waits at the networked box: it is not dialled, and asks in vain, until the anchor
 * says yes to its key, over the network. */
static void
the_second_host_waits_for_the_anchor(void **state)
{
	(void)state;
	NEEDS_NETWORKS();
	pair(&a, &b, NULL, NULL);
	stands(&a, "other.example.org", "pending");
	world(&a, &b);
	driver_does(&said, NULL, "settings", "set", "--host", "line.wait_ms", "200", NULL);
	driver_refused(&said, 75, "reverse.offline", NULL, "on", a.box, "observe:logins", NULL);
	driver_does(&said, NULL, "settings", "set", "--host", "line.wait_ms", "30000", NULL);
	world(&a, &a);
	driver_does(&said, NULL, "host", "pairings", a.box, NULL);
	says("other.example.org: pending");
	says(other_key);
	driver_does(&said, NULL, "host", "approve-pairing", a.box, "other.example.org", "--key",
	    other_key, "--caps", "observe", "--ttl", "1h", NULL);
	stands(&a, "other.example.org", "active");
	until_connected(&a, &b, "other.example.org");
	granted(&a, &b);
	assert_int_equal(driver_value(&a, DRIVER_HOST,
			     "SELECT count(*) FROM signed_terms WHERE state = 'taken'"),
	    driver_value(&a, DRIVER_BOX, "SELECT count(*) FROM anchor_terms"));
}

/* A box that listens is dialled by its first Host; the second one, which a person lets in at the
 * terminal, is dialled by the box. */
static void
a_box_that_listens_has_hosts_of_both_kinds(void **state)
{
	static struct program_talk talk;
	static char code[2048];
	struct scratch s = {0};

	(void)state;
	NEEDS_NETWORKS();
	pair(&b, &b, "--listen", SHOP_AT);
	granted(&b, &b);
	assert_int_equal(driver_value(&b, DRIVER_HOST,
			     "SELECT count(*) FROM host_box WHERE name = 'shop'"
			     " AND transport = 'tls'"),
	    1);
	invite(&b, &a, code);
	snprintf(s.home.state, sizeof(s.home.state), "%s", b.state[DRIVER_BOX]);
	snprintf(s.home.run, sizeof(s.home.run), "%s", b.run[DRIVER_BOX]);
	program_talk(&talk, &s, (const char *const[]){"pair", code, NULL});
	program_expect(&talk, "[y/N] ");
	program_type(&talk, "yes\n");
	program_expect(&talk, "The Host main.example.org may ask this machine now");
	program_ends(&talk, 0);
	until_connected(&b, &a, "main.example.org");
	granted(&b, &a);
}

/* HB: both Hosts hear both boxes, and list them. */
static void
both_hosts_hear_both_boxes(void **state)
{
	struct driver *hosts[] = {&a, &b};
	int i;

	(void)state;
	NEEDS_NETWORKS();
	for (i = 0; i < 2; i++) {
		driver_until(hosts[i], DRIVER_HOST, 2,
		    "SELECT count(*) FROM host_beat AS h JOIN host_box AS x ON x.id = h.box_id"
		    " WHERE h.beat ->> '$.name' = x.name AND x.state = 'active'");
		world(&a, hosts[i]);
		driver_does(&said, NULL, "host", "boxes", NULL);
		says("attic");
		says("shop");
		assert_null(strstr(said.out, "silent"));
		driver_does(&said, NULL, "host", "boxes", "--json", NULL);
		says("\"status\":\"connected\"");
	}
	assert_int_equal(driver_value(&a, DRIVER_HOST,
			     "SELECT count(*) FROM box_lines WHERE line = 'connected'"),
	    2);
	assert_int_equal(driver_value(&b, DRIVER_HOST,
			     "SELECT count(*) FROM box_lines"
			     " WHERE line = iif(name = 'attic', 'connected', 'beating')"),
	    2);
}

/* The places of the Host main, as ${box} has them. */
static void
until_main_is(struct driver *box, const char *where)
{
	driver_until(box, DRIVER_BOX, 1,
	    "SELECT group_concat(endpoint) = '%s' FROM pairing_endpoint WHERE pairing_id ="
	    " (SELECT max(id) FROM pairing_status WHERE host = 'main.example.org')",
	    where);
}

/* A Host moves: it has a second address, tells its boxes, and gives the first one up. */
static void
a_host_moves_with_its_boxes(void **state)
{
	(void)state;
	NEEDS_NETWORKS();
	assert_true(there(MAIN, "ip addr add 10.97.0.11/24 dev eth0"));
	world(&a, &a);
	driver_does(&said, NULL, "host", "listen", "*:7443", "--address", MOVED_TO, NULL);
	driver_does(&said, NULL, "host", "rotate", "attic", MOVED_TO, NULL);
	driver_does(&said, NULL, "host", "rotate", "shop", MOVED_TO, NULL);
	ordered(&a, "rotate", "done", 1);
	ordered(&b, "rotate", "done", 1);
	until_main_is(&a, MOVED_TO);
	until_main_is(&b, MOVED_TO);
	assert_true(there(MAIN, "ip addr del 10.97.0.1/24 dev eth0"));
	assert_false(there(MAIN, "ip addr | grep -q \"10.97.0.1/\""));
	driver_until(&a, DRIVER_HOST, 2,
	    "SELECT count(*) FROM host_order WHERE kind = 'rotate' AND outcome = 'done'");
	until_connected(&a, &a, "main.example.org");
	until_connected(&b, &a, "main.example.org");
	asks(&a, &a);
	asks(&b, &a);
	/* The other Host was not ordered, and nothing of its is another. */
	assert_int_equal(
	    driver_value(&a, DRIVER_BOX,
		"SELECT count(*) FROM pairing_endpoint WHERE endpoint = '" OTHER_AT "'"),
	    1);
	asks(&a, &b);
}

/* Three processes: one, and two beneath it. */
static pid_t
tree_grow(void)
{
	pid_t parent = getpid(), pid;
	int i;

	assert_true((pid = fork()) != -1);
	if (pid != 0)
		return pid;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
		for (i = 0; i < 2 && fork() != 0; i++)
			continue;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* An order over the network ends a real process with what is beneath it, where the person at the
 * box trusts this Host with that; that of a Host for which the anchor approved observing alone is
 * refused. */
static void
an_order_ends_a_process_tree(void **state)
{
	char pid[16], line[16], code[8];
	pid_t wanted;
	int status;

	(void)state;
	NEEDS_NETWORKS();
	wanted = tree_grow();
	snprintf(pid, sizeof(pid), "%d", wanted);
	snprintf(line, sizeof(line), "%s\n", driver_code(&a, code));
	world(&a, &a);
	driver_does(&said, line, "contain", "trust", "main.example.org", NULL);
	world(&a, &b);
	driver_does(&said, NULL, "host", "contain", "attic", pid, NULL);
	ordered(&a, "contain", "refused", 1);
	assert_int_equal(waitpid(wanted, &status, WNOHANG), 0);
	driver_until(&b, DRIVER_HOST, 1,
	    "SELECT count(*) FROM host_order WHERE outcome = 'refused'"
	    " AND result ->> '$.code' = 'anchor.caps'");
	world(&a, &a);
	driver_does(&said, NULL, "host", "contain", "attic", pid, NULL);
	ordered(&a, "contain", "done", 1);
	assert_int_equal(waitpid(wanted, &status, 0), wanted);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	driver_until(&a, DRIVER_HOST, 1,
	    "SELECT count(*) FROM host_order WHERE kind = 'contain' AND outcome = 'done'"
	    " AND result ->> '$.stopped' = 3");
	driver_does(&said, NULL, "host", "orders", "attic", "--json", NULL);
	says("contain");
}

/* The anchor turns the other Host out: its lines close, and what it was granted is over. It comes
 * back with a new code and the anchor's word, and asks a person again. */
static void
a_host_is_turned_out_and_comes_back(void **state)
{
	int64_t first;

	(void)state;
	NEEDS_NETWORKS();
	world(&a, &a);
	driver_does(
	    &said, NULL, "host", "revoke", "attic", "other.example.org", "--key", other_key, NULL);
	stands(&a, "other.example.org", "revoked");
	until_lines(&b, "attic", 0);
	until_connected(&a, &a, "main.example.org");
	pair(&a, &b, NULL, NULL);
	stands(&a, "other.example.org", "pending");
	world(&a, &a);
	driver_does(&said, NULL, "host", "approve-pairing", "attic", "other.example.org", "--key",
	    other_key, NULL);
	until_connected(&a, &b, "other.example.org");
	granted(&a, &b);
	/* Paired anew in place, it keeps its number, and what it was granted. */
	first = driver_value(&a, DRIVER_BOX,
	    "SELECT id FROM pairing_status WHERE host = 'other.example.org'"
	    " AND state = 'active'");
	pair(&a, &b, "--replace", NULL);
	assert_int_equal(driver_value(&a, DRIVER_BOX,
			     "SELECT max(id) FROM pairing_status WHERE host = 'other.example.org'"),
	    first);
	until_connected(&a, &b, "other.example.org");
	asks(&a, &b);
	assert_int_equal(driver_value(&b, DRIVER_HOST,
			     "SELECT count(*) FROM host_box WHERE name = 'attic'"
			     " AND state = 'active'"),
	    1);
}

/* The anchor gives way to the other Host, by its word and root's; from then on its word counts no
 * more, and that of the other does. */
static void
the_anchor_moves(void **state)
{
	char is[65];

	(void)state;
	NEEDS_NETWORKS();
	world(&a, &a);
	driver_does(
	    &said, NULL, "host", "consent", "attic", "other.example.org", "--key", other_key, NULL);
	driver_does(&said, NULL, "claim-anchor", "--rotate", "--host", "other.example.org", NULL);
	driver_text(&a, DRIVER_BOX, is, sizeof(is), "SELECT host FROM live_anchor");
	assert_string_equal(is, "other.example.org");
	driver_refused(&said, 126, "anchor.signature", NULL, "host", "revoke", "attic",
	    "other.example.org", "--key", other_key, NULL);
	world(&a, &b);
	driver_does(&said, NULL, "host", "pairings", "attic", NULL);
	says("main.example.org");
	says(main_key);
}

/* The way of the box behind the router is cut without a word: both its Hosts notice, the other box
 * does not, and it is back when the way is. */
static void
a_cut_way_heals(void **state)
{
	(void)state;
	NEEDS_NETWORKS();
	until_connected(&a, &b, "other.example.org");
	assert_true(there(SWITCH, "ip link set attic0 down"));
	until_lines(&a, "attic", 0);
	until_lines(&b, "attic", 0);
	driver_until(&a, DRIVER_BOX, 0, "SELECT coalesce(sum(up), 0) FROM pairing_line");
	asks(&b, &a);
	asks(&b, &b);
	assert_true(there(SWITCH, "ip link set attic0 up"));
	until_connected(&a, &b, "other.example.org");
	until_lines(&a, "attic",
	    driver_value(&a, DRIVER_BOX,
		"SELECT 4 * count(*) FROM pairing_status"
		" WHERE host = 'main.example.org' AND active"));
	asks(&a, &b);
}

/* Each daemon dies once, or ends; all that were together are so again. */
static void
whoever_starts_again_is_back(void **state)
{
	struct driver *of[] = {&a, &b};
	int i;

	(void)state;
	NEEDS_NETWORKS();
	for (i = 0; i < 2; i++) {
		driver_end(of[i], DRIVER_HOST, i == 0 ? SIGKILL : SIGTERM);
		serve(of[i], DRIVER_HOST);
		driver_end(of[i], DRIVER_BOX, i == 0 ? SIGTERM : SIGKILL);
		serve(of[i], DRIVER_BOX);
	}
	until_connected(&a, &b, "other.example.org");
	until_connected(&b, &a, "main.example.org");
	asks(&a, &b);
	asks(&b, &a);
	asks(&b, &b);
	for (i = 0; i < 2; i++) {
		world(of[i], of[i]);
		driver_does(&said, NULL, "audit", "verify", NULL);
		driver_does(&said, NULL, "audit", "verify", "--host", NULL);
		driver_does(&said, NULL, "doctor", "--json", NULL);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_host_anchors),
	    cmocka_unit_test(the_second_host_waits_for_the_anchor),
	    cmocka_unit_test(a_box_that_listens_has_hosts_of_both_kinds),
	    cmocka_unit_test(both_hosts_hear_both_boxes),
	    cmocka_unit_test(a_host_moves_with_its_boxes),
	    cmocka_unit_test(an_order_ends_a_process_tree),
	    cmocka_unit_test(a_host_is_turned_out_and_comes_back),
	    cmocka_unit_test(the_anchor_moves),
	    cmocka_unit_test(a_cut_way_heals),
	    cmocka_unit_test(whoever_starts_again_is_back),
	};

	setlinebuf(stdout);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, morning, evening);
}
