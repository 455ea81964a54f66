/* test_fetch.c: a Host has a tree fetched by a real daemon, from where the database judged that it
 * may. */
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/netns.h"

#define NAME "git.example.test"
#define TWO  "two.example.test"

static struct driver d;
static struct said said;
static bool isolated;
static char web[64], tree[128], other[128];

static void
shell(const char *format, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("%s", command);
}

static void
says(const char *text)
{
	if (strstr(said.out, text) == NULL)
		fail_msg("does not say %s: %s%s", text, said.out, said.err);
}

static bool
bound(const char *name, const char *to)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", web, name);
	return mount(path, to, NULL, MS_BIND, NULL) == 0;
}

static void
serve(void)
{
	char site[128], pem[128], c;
	int ready[2];

	snprintf(site, sizeof(site), "%s/site", web);
	snprintf(pem, sizeof(pem), "%s/site.pem", web);
	assert_int_equal(pipe(ready), 0);
	if (netns_fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 1);
		execlp("python3", "python3", "tests/egress/origin.py", NETNS_SITE, "443", site, pem,
		    (char *)NULL);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
}

static int
begin(void **state)
{
	(void)state;
	if (!(isolated = netns_enter()))
		return 0;
	strcpy(web, "/tmp/bastion-web-XXXXXX");
	assert_non_null(mkdtemp(web));
	assert_int_equal(chmod(web, 0755), 0);
	shell(
	    "cd %s && printf '127.0.0.1 localhost\\n" NETNS_SITE " " NAME " " TWO "\\n10.9.0.2 " TWO
	    "\\n' >hosts"
	    " && echo hosts: files >nsswitch && openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out ca.pem"
	    " -days 2 -subj /CN=site -addext subjectAltName=DNS:" NAME ",DNS:" TWO
	    " 2>log && cat k ca.pem >site.pem",
	    web);
	shell(
	    "mkdir %s/site && cd %s/site && git init -q -b main work && cd work && echo one >f && git add f &&"
	    " git -c user.name=t -c user.email=t@e commit -qm 1 && git clone -q --bare . ../repo.git &&"
	    " cd ../repo.git && git update-server-info",
	    web, web);
	isolated = unshare(CLONE_NEWNS) == 0 &&
		   mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		   bound("hosts", "/etc/hosts") && bound("nsswitch", "/etc/nsswitch.conf") &&
		   bound("ca.pem", "/etc/ssl/certs/ca-certificates.crt");
	if (!isolated)
		return 0;
	serve();
	snprintf(tree, sizeof(tree), "%s/tree", web);
	snprintf(other, sizeof(other), "%s/other", web);
	shell("umask 022 && git init -q %s && git -C %s remote add origin https://" NAME
	      "/repo.git",
	    tree, tree);
	shell("umask 022 && git init -q %s && git -C %s remote add origin https://" TWO "/repo.git",
	    other, other);
	driver_first_day(&d);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) > 0 FROM own_address");
	return 0;
}

static int
end(void **state)
{
	(void)state;
	if (isolated)
		driver_drop(&d);
	if (web[0] != '\0')
		shell("rm -r %s", web);
	return 0;
}

static void
needs_a_network(void)
{
	if (isolated)
		return;
	print_message("skipped: no network or mount namespace for us here\n");
	skip();
}

static int64_t
dials(void)
{
	return driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM verb_dial");
}

/* DST-1: what is declared as an address of a network is refused before a person is asked. */
static void
a_declared_address_is_refused_as_it_arrives(void **state)
{
	int64_t questions;

	(void)state;
	needs_a_network();
	questions = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM approval");
	driver_refused(&said, 126, "egress.network", NULL, "on", d.box, "git:fetch", tree,
	    "192.168.1.5", NULL);
	driver_refused(&said, 126, "egress.network", NULL, "on", d.box, "git:fetch", tree,
	    "[64:ff9b::c0a8:105]", NULL);
	driver_refused(
	    &said, 126, "egress.own", NULL, "on", d.box, "git:fetch", tree, NETNS_BOX, NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM approval"), questions);
}

/* The whole walk: asked, looked at, approved, run dry, run; each reach is a row before it is made.
 */
static void
a_tree_is_fetched(void **state)
{
	char id[24];

	(void)state;
	needs_a_network();
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "git:fetch", tree, NAME,
	    "--uses", "3", NULL);
	/* The person sees where it would go, and nothing is dialled for it. */
	snprintf(id, sizeof(id), "%" PRId64, driver_question(&d));
	driver_does(&said, NULL, "approvals", "dry", id, NULL);
	says("\"destination\":{\"host\":\"" NAME "\",\"port\":443,\"addresses\":[\"" NETNS_SITE
	     "\"]}");
	assert_int_equal(dials(), 0);
	driver_approve(&d, driver_question(&d));
	driver_does(&said, NULL, "on", d.box, "git:fetch", tree, NAME, "--dry-run", "--json", NULL);
	says("\"dry\":true,\"refs\":[{\"ref\":\"main\",\"before\":null");
	assert_int_equal(dials(), 1);
	shell("test -z \"$(git -C %s for-each-ref)\"", tree);
	driver_does(&said, NULL, "on", d.box, "git:fetch", tree, NAME, "--json", NULL);
	says("\"dry\":false,\"refs\":[{\"ref\":\"main\",\"before\":null");
	assert_null(strstr(said.out, "destination"));
	assert_int_equal(dials(), 2);
	driver_does(&said, NULL, "ops", "dials", "--json", NULL);
	says("\"what\":\"" NAME ":443\"");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use"), 1);
	shell(
	    "test \"$(git -C %s rev-parse origin/main)\" = \"$(git -C %s/site/work rev-parse main)\"",
	    tree, web);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM audit AS a JOIN audit AS b ON b.seq > a.seq"
		" WHERE a.entity = 'verb_dial' AND b.entity = 'op_run' AND b.action = 'done'"
		"   AND b.entity_id = a.body ->> '$.run'"),
	    2);
}

/* DST-2: a name with one address of a network among its own is not reached at all. */
static void
a_name_with_a_private_address_is_not_reached(void **state)
{
	int64_t before;

	(void)state;
	needs_a_network();
	before = dials();
	driver_grant(&d, "git:fetch", other, NULL, "3", "1d");
	assert_int_not_equal(
	    driver_run(&said, NULL, "on", d.box, "git:fetch", other, "--json", NULL), 0);
	says("egress.network");
	shell("test -z \"$(git -C %s for-each-ref)\"", other);
	assert_int_equal(dials(), before);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT exit_code FROM op_run WHERE op = 'git:fetch' ORDER BY id DESC LIMIT 1"),
	    126);
	/* What was not reached is no strike either: the Host cannot know what a name leads to. */
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM quarantine"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_declared_address_is_refused_as_it_arrives),
	    cmocka_unit_test(a_tree_is_fetched),
	    cmocka_unit_test(a_name_with_a_private_address_is_not_reached),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
