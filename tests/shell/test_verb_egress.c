/* test_verb_egress.c: bastion egress, as a person types it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/program.h"

static struct scratch s;
static struct program p;

static int
set_up(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

/* Run "bastion egress WORDS", which is to end with ${code} and say ${text}. */
static void
egress(int code, const char *text, const char *words)
{
	const char *all[16] = {"egress"};
	char copy[256], *word, *rest = copy;
	size_t n = 1;

	snprintf(copy, sizeof(copy), "%s", words);
	while ((word = strsep(&rest, " ")) != NULL && n < 15)
		if (*word != '\0')
			all[n++] = word;
	program_run(&p, &s, NULL, all);
	if (p.code != code || (strstr(p.out, text) == NULL && strstr(p.err, text) == NULL))
		fail_msg("egress %s: %d\n%s%s", words, p.code, p.out, p.err);
	program_free(&p);
}

/* Nothing is allowed at first; a rule is made once, an opposite takes its place, and it can go. */
static void
rules_come_and_go(void **state)
{
	(void)state;
	egress(0, "Nothing is allowed", "");
	egress(0, "Allowed. To take it back: bastion egress forget 1", "allow *.GitHub.com.:443");
	egress(0, "\"what\":\"github.com\",\"port\":443", "ls --json");
	egress(3, "egress.exists", "allow github.com:443");
	egress(0, "Denied", "deny github.com:443");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_may"), 1);
	assert_int_equal(
	    scratch_value(
		&s, "SELECT count(*) FROM egress_may WHERE verdict = 'deny' AND port = 443"),
	    1);
	egress(0, "{\"id\":3,\"verdict\":\"allow\"}", "allow [2001:db8::8]:443 --json");
	egress(0, "Allowed", "allow 2001:db8::9");
	egress(0, "Allowed", "allow [2001:db8::a]");
	assert_int_equal(
	    scratch_value(&s, "SELECT port FROM egress_rule WHERE suffix = '2001:db8::a'"), 0);
	egress(0, "Allowed", "allow * --user 1000");
	egress(0, "Allowed", "allow *:80");
	egress(0, "uid 1000", "");
	egress(0, "1 rule forgotten", "forget github.com");
	egress(0, "{\"dropped\":1}", "forget 3 --json");
	egress(2, "egress.unknown_rule", "forget 3");
	/* Each is in the audit, with who made it. */
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'egress_rule'"
					   " AND who LIKE 'person:%'"),
	    10);
}

/* What a common tool needs is allowed at once, and goes at once. */
static void
presets_come_and_go(void **state)
{
	(void)state;
	egress(0, "@npm", "presets");
	egress(0, "Allowed", "allow crates.io:443");
	egress(0, "Allowed, in 1 rule. To take them back: bastion egress forget @crates",
	    "allow @crates");
	egress(3, "egress.exists", "allow @crates");
	egress(0, "{\"made\":2,\"verdict\":\"deny\"}", "deny @crates --json");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_may"), 2);
	egress(0, "Allowed, in 2 rules", "allow @crates --user 1000");
	egress(0, "4 rules forgotten", "forget @crates");
	egress(2, "egress.unknown_rule", "forget @crates");
	egress(2, "run.preset", "allow @nope");
	egress(2, "run.preset", "forget @nope");
	egress(2, "of places alone", "allow @npm --path /a");
}

/* A rule for what the lane never reaches says so. */
static void
a_rule_for_nothing_is_told(void **state)
{
	(void)state;
	egress(0, "The lane goes there for no rule, though: ", "allow 10.77.66.55:443");
	egress(0, "[egress.this_machine]", "allow 127.0.0.1");
	egress(0, "Denied. To take it back: bastion egress forget 3\n", "deny 10.77.66.55");
}

/* What is no name is no rule. */
static void
odd_rules_are_refused(void **state)
{
	static const char *const bad[] = {"allow user@github.com", "allow 127.1", "allow 0x7f.1",
	    "allow github.com:99999", "allow github.com:", "allow http://github.com/", "allow a..b",
	    "allow [::1", "allow *:x"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		egress(2, "egress.authority", bad[i]);
	egress(2, "pairing.unknown", "allow github.com --host nobody");
	egress(2, "usage", "allow");
	egress(2, "usage", "dance");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_rule"), 0);
}

/* What the lane would do, without doing it. */
static void
check_says_what_would_be(void **state)
{
	(void)state;
	egress(126, "loopback", "check 127.0.0.1:80");
	egress(126, "egress.this_machine", "check localhost:80");
	egress(126, "metadata", "check 169.254.169.254:80");
	egress(126, "\"class\":\"link\"", "check 169.254.169.254:80 --json");
	egress(126, "egress.network", "check 10.77.66.55:80");
	egress(126, "egress.obsolete", "check [::c633:6408]:443");
	egress(126, "egress.unknown", "check 198.51.100.8:443");
	/* A name that no rule allows is not looked up to say so. */
	egress(126, "egress.unknown", "check nobody.invalid:443");
	egress(0, "Allowed", "allow 198.51.100.8:443");
	egress(0, "It would be reached", "check 198.51.100.8:443");
	egress(0, "\"reached\":true", "check 198.51.100.8 --json");
	egress(126, "egress.unknown", "check 198.51.100.8:80");
	egress(2, "egress.authority", "check 2130706433:80");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_flow"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM own_address"), 0);
}

/* What rules say of requests, and which tunnels are looked into. */
static void
tunnels_are_looked_into_on_request(void **state)
{
	(void)state;
	egress(0, "No rule says anything", "within");
	egress(0, "No request was seen", "requests");
	egress(0, "none", "inspect");
	egress(126, "egress.no_authority", "inspect ca");
	egress(0, "bastion egress inspect rules", "allow a.example --method GET --path /repos/*");
	egress(0, "Allowed", "allow a.example --websocket --path /live");
	egress(0, "\"path\":\"/repos/*\"", "within --json");
	egress(2, "token.unknown", "allow b.example --token nobody");
	egress(2, "egress.narrow", "allow b.example --method get");
	egress(2, "egress.narrow", "deny b.example --method GET");
	egress(0, "bastion-ca.pem", "inspect rules");
	egress(0, "those whose rule", "inspect");
	egress(0, "", "inspect off");
	egress(2, "usage", "inspect some");
	assert_int_equal(
	    scratch_value(&s, "SELECT value FROM setting WHERE name = 'egress.inspect'"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_within"), 2);
}

/* The lists. */
static void
connections_are_listed(void **state)
{
	(void)state;
	egress(0, "Nothing was asked for yet", "tail");
	egress(0, "Nothing is connected", "top");
	assert_int_equal(
	    scratch_sql(&s,
		"INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
		" VALUES ('allow', '*', 1, 0);"
		"INSERT INTO own_address VALUES (zeroblob(16), zeroblob(16), 'nic', 'lo');"
		"INSERT INTO egress_flow (uid, surface, host, port, state, asked_at, opened_at,"
		" addresses) VALUES (1000, 'connect', 'a.example', 443, 'open', now_ms(), now_ms(),"
		" '[\"198.51.100.8\"]'), (1000, 'http', 'b.example', 80, 'open', now_ms(), now_ms(),"
		" '[\"198.51.100.8\"]');"
		"UPDATE egress_flow SET state = 'done', ended_at = now_ms(), up = 5, down = 7,"
		" dialled = '198.51.100.8' WHERE id = 2"),
	    0);
	egress(0, "a.example:443", "top");
	egress(0, "b.example:80", "tail -n 1");
	egress(0, "\"down\":7", "tail --json");
}

/* Whoever follows begins with the last rows, and hears of each when it comes and when it is over:
 * lines, or objects with --json. */
static void
connections_are_followed(void **state)
{
	static struct program_talk t;
	const char *words[] = {"egress", "tail", "--follow", "-n", "1", "--json", NULL};

	connections_are_listed(state);
	egress(2, "--follow writes", "tail --follow --csv");
	program_talk(&t, &s, words);
	program_expect(&t, "{\"id\":2,\"asked_at\":\"");
	program_expect(&t,
	    "Z\",\"who\":\"uid 1000\",\"surface\":\"http\",\"what\":\"b.example:80\","
	    "\"state\":\"done\",\"dialled\":\"198.51.100.8\",\"up\":5,\"down\":7,");
	assert_null(strstr(t.seen, "a.example"));
	assert_int_equal(
	    scratch_sql(&s,
		"INSERT INTO egress_flow (uid, surface, host, port, state, asked_at, opened_at,"
		" addresses) VALUES (1000, 'connect', 'c.example', 443, 'open', now_ms(), now_ms(),"
		" '[\"198.51.100.8\"]')"),
	    0);
	program_expect(&t, "\"what\":\"c.example:443\",\"state\":\"open\"");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE egress_flow SET state = 'done', ended_at = now_ms(), up = 9,"
			    " down = 9, dialled = '198.51.100.8' WHERE id = 3"),
	    0);
	program_expect(&t, "\"what\":\"c.example:443\",\"state\":\"done\"");
	assert_int_equal(kill(t.pid, SIGINT), 0);
	program_over(&t);
	words[5] = NULL;
	program_talk(&t, &s, words);
	program_expect(&t, "  uid 1000  connect  c.example:443  done  198.51.100.8");
	assert_int_equal(kill(t.pid, SIGINT), 0);
	program_over(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(rules_come_and_go, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(presets_come_and_go, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_rule_for_nothing_is_told, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(odd_rules_are_refused, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(check_says_what_would_be, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(tunnels_are_looked_into_on_request, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(connections_are_listed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(connections_are_followed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
