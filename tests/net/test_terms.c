/* test_terms.c: a person at the anchor lets another Host in, and out; two Hosts, one box, real
 * daemons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/program.h"

/* The box and its anchor; another Host, which has a home of its own. */
static struct driver d, e;
static struct said said;
static char key[65]; /* of the other Host */

/* Verbs of a Host are from now on those of ${who}. */
static void
as(const struct driver *who)
{
	setenv("BASTION_HOST_STATE", who->state[DRIVER_HOST], 1);
	setenv("BASTION_HOST_RUN", who->run[DRIVER_HOST], 1);
}

/* Pair the box with the Host of ${who}. */
static void
pair(const struct driver *who)
{
	static struct said invited;

	as(who);
	driver_does(&invited, NULL, "host", "invite", d.box, NULL);
	driver_does(&said, invited.out, "pair", "-", NULL);
}

static int
begin(void **state)
{
	(void)state;
	driver_make(&e);
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "set-mode", "networked", NULL);
	driver_does(&said, NULL, "host", "init", "main.example.org", NULL);
	driver_serve(&d, DRIVER_HOST);
	pair(&d);
	as(&e);
	driver_does(&said, NULL, "host", "init", "other.example.org", NULL);
	driver_serve(&e, DRIVER_HOST);
	pair(&e);
	driver_text(&e, DRIVER_HOST, key, sizeof(key), "SELECT lower(hex(identity_key)) FROM box");
	as(&d);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	as(&e);
	driver_drop(&e);
	as(&d);
	driver_drop(&d);
	return 0;
}

static void
says(const char *text)
{
	if (strstr(said.out, text) == NULL && strstr(said.err, text) == NULL)
		fail_msg("does not say '%s': %s%s", text, said.out, said.err);
}

/* How the pairing of the other Host stands, at the box. */
static void
other_is(const char *want)
{
	char is[32];

	driver_text(&d, DRIVER_BOX, is, sizeof(is),
	    "SELECT state FROM pairing_status WHERE host = 'other.example.org'");
	assert_string_equal(is, want);
}

/* Run a verb on a terminal of its own and type ${answer}; what was shown goes to ${seen}. */
static int
typed(const char *answer, char *seen, size_t size, const char *const *words)
{
	union {
		const char *in[16];
		char *out[16];
	} argv = {.in = {"bastion"}};
	size_t len = 0;
	bool told = false;
	int fd, i, status;
	ssize_t n;
	pid_t pid;

	for (i = 0; words[i] != NULL; i++)
		argv.in[i + 1] = words[i];
	if ((pid = forkpty(&fd, NULL, NULL, NULL)) == 0) {
		execv(program_path(), argv.out);
		_exit(127);
	}
	assert_true(pid > 0);
	while (len < size - 1 && (n = read(fd, seen + len, size - 1 - len)) > 0) {
		seen[len += (size_t)n] = '\0';
		if (!told && strstr(seen, "[y/N]") != NULL) {
			told = true;
			assert_int_equal(
			    write(fd, answer, strlen(answer)), (ssize_t)strlen(answer));
		}
	}
	close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The first Host anchors, the second waits, and the anchor sees it by name and key. */
static void
the_anchor_sees_who_waits(void **state)
{
	(void)state;
	other_is("pending");
	driver_does(&said, NULL, "host", "pairings", d.box, NULL);
	says("other.example.org");
	says("pending");
	says(key);
	driver_does(&said, NULL, "host", "pairings", d.box, "--json", NULL);
	says("\"host\":\"main.example.org\"");
	as(&e);
	driver_does(&said, NULL, "host", "pairings", d.box, NULL);
	assert_null(strstr(said.out, "main.example.org"));
	driver_refused(&said, 126, "pairing.inactive", NULL, "on", d.box, "observe:logins", NULL);
	as(&d);
}

/* Nothing is signed without a yes to the key, on a terminal or by name. */
static void
a_key_is_seen_before_it_is_signed_for(void **state)
{
	const char *const words[] = {"host", "approve-pairing", d.box, "other", NULL};
	char seen[8192];

	(void)state;
	assert_int_equal(typed("n\n", seen, sizeof(seen), words), 1);
	assert_non_null(strstr(seen, key));
	assert_non_null(strstr(seen, "terms.declined"));
	other_is("pending");
	assert_int_equal(driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM signed_terms"), 0);
}

/* The anchor approves; what it signed is what was shown, and the other Host may ask. */
static void
the_anchor_lets_another_in(void **state)
{
	const char *const words[] = {
	    "host", "approve-pairing", d.box, "other", "--ttl", "1h", NULL};
	char seen[8192], terms[4097];

	(void)state;
	if (typed("y\n", seen, sizeof(seen), words) != 0)
		fail_msg("%s", seen);
	assert_non_null(strstr(seen, "other.example.org is active there"));
	other_is("active");
	driver_text(&d, DRIVER_HOST, terms, sizeof(terms),
	    "SELECT terms FROM host_terms WHERE terms IS NOT NULL AND state = 'taken'");
	assert_non_null(strstr(seen, terms));
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT t.expires_at - t.issued_at FROM anchor_terms AS t"),
	    3600000);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM audit WHERE entity = 'host_terms'"
			     " AND who LIKE 'person:%%' AND body ->> '$.subject_key' IS NULL"
			     " AND action = 'waiting' AND body ->> '$.key' = '%s'",
			     key),
	    1);
	as(&e);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "observe:logins", NULL);
	as(&d);
}

/* It ends what it let in, and the other Host is heard no more until it is paired and let in anew,
 * with its key named instead of looked at. */
static void
the_anchor_turns_another_out(void **state)
{
	(void)state;
	driver_does(&said, NULL, "host", "revoke", d.box, "other", "--json", NULL);
	says("\"pairing\":\"revoked\"");
	says("\"signed\":\"{\\\"kind\\\":\\\"pairing_revoke");
	other_is("revoked");
	as(&e);
	driver_refused(&said, 126, "lane.host", NULL, "on", d.box, "observe:logins", NULL);
	pair(&e);
	as(&d);
	other_is("pending");
	driver_refused(&said, 126, "anchor.subject", NULL, "host", "approve-pairing", d.box,
	    "other.example.org", "--key",
	    "0000000000000000000000000000000000000000000000000000000000000000", NULL);
	other_is("pending");
	driver_does(
	    &said, NULL, "host", "approve-pairing", d.box, "other.example.org", "--key", key, NULL);
	other_is("active");
	driver_does(&said, NULL, "host", "terms", NULL);
	says("pairing_revoke");
	says("refused");
}

/* Only the anchor's word counts, whoever carries it; names that are none are told. */
static void
who_is_no_anchor_changes_nothing(void **state)
{
	(void)state;
	as(&e);
	driver_refused(&said, 126, "anchor.signature", NULL, "host", "revoke", d.box,
	    "main.example.org", "--key", key, NULL);
	as(&d);
	driver_refused(&said, 2, "terms.subject", NULL, "host", "revoke", d.box, "nobody", NULL);
	driver_refused(&said, 126, "anchor.self", NULL, "host", "revoke", d.box, "main", NULL);
	driver_refused(&said, 2, "box.gone", NULL, "host", "pairings", "nowhere", NULL);
	assert_int_equal(
	    driver_run(&said, NULL, "host", "revoke", d.box, "other", "--key", "xyz", NULL), 2);
	other_is("active");
}

/* A box that is not reached is tried until it is, and nobody has to wait for that. */
static void
a_box_that_is_away_is_tried_again(void **state)
{
	(void)state;
	driver_does(&said, NULL, "settings", "set", "--host", "terms.retry_ms", "100", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_does(&said, NULL, "host", "revoke", d.box, "other.example.org", "--key", key,
	    "--no-wait", NULL);
	says("bastion host terms");
	driver_until(
	    &d, DRIVER_HOST, 1, "SELECT tries > 1 FROM signed_terms ORDER BY id DESC LIMIT 1");
	driver_refused(&said, 1, "terms.failed", NULL, "host", "pairings", d.box, NULL);
	driver_serve(&d, DRIVER_BOX);
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT state = 'taken' FROM signed_terms ORDER BY id DESC LIMIT 1");
	other_is("revoked");
}

/* Where the actor that carries dies, nobody is told that it was taken, or was not. */
static void
what_was_under_way_is_lost(void **state)
{
	pid_t net = driver_actor(&d, DRIVER_BOX, "net");

	(void)state;
	assert_true(net > 1 && kill(net, SIGSTOP) == 0);
	driver_does(&said, NULL, "host", "consent", d.box, "other.example.org", "--key",
	    "0000000000000000000000000000000000000000000000000000000000000000", "--no-wait", NULL);
	driver_until(
	    &d, DRIVER_HOST, 1, "SELECT state = 'sent' FROM signed_terms ORDER BY id DESC LIMIT 1");
	driver_kill(&d, DRIVER_HOST, "link");
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT state = 'failed' AND code = 'terms.lost' FROM signed_terms"
	    " ORDER BY id DESC LIMIT 1");
	assert_int_equal(kill(net, SIGCONT), 0);
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM actor_run WHERE actor = 'link'"
	    " AND state = 'running'");
}

/* The anchor moves by its consent, to the Host that it named. */
static void
the_anchor_gives_way(void **state)
{
	char host[65];

	(void)state;
	pair(&e);
	as(&d);
	driver_does(&said, NULL, "host", "consent", d.box, "other.example.org", "--key", key, NULL);
	says("bastion claim-anchor --rotate --host other.example.org");
	driver_does(&said, NULL, "claim-anchor", "--rotate", "--host", "other.example.org", NULL);
	driver_text(&d, DRIVER_BOX, host, sizeof(host), "SELECT host FROM live_anchor");
	assert_string_equal(host, "other.example.org");
	as(&e);
	driver_does(&said, NULL, "host", "pairings", d.box, NULL);
	says("main.example.org");
	as(&d);
}

/* How long ago a box was heard is told, and what it is called. */
static void
boxes_have_an_age(void **state)
{
	(void)state;
	driver_does(&said, NULL, "host", "boxes", NULL);
	says("heard");
	says(" s ago");
	driver_does(&said, NULL, "host", "boxes", "--json", NULL);
	says("\"status\":\"heard\"");
	driver_does(&said, NULL, "settings", "set", "--host", "box.silent_ms", "1000", NULL);
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM boxes WHERE status = 'silent'");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_anchor_sees_who_waits),
	    cmocka_unit_test(a_key_is_seen_before_it_is_signed_for),
	    cmocka_unit_test(the_anchor_lets_another_in),
	    cmocka_unit_test(the_anchor_turns_another_out),
	    cmocka_unit_test(who_is_no_anchor_changes_nothing),
	    cmocka_unit_test(a_box_that_is_away_is_tried_again),
	    cmocka_unit_test(what_was_under_way_is_lost),
	    cmocka_unit_test(the_anchor_gives_way),
	    cmocka_unit_test(boxes_have_an_age),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
