/* test_terms.c: rows of what a Host has carried as an anchor, whoever writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/state/anchor.h"
#include "engine/state/retention.h"
#include "tests/person.h"

#define LOOK \
	"INSERT INTO host_terms (box_id, made_at, expires_at) VALUES (1, now_ms(), now_ms() + 9)"
#define ONE "[{\"host\":\"h\",\"key\":\"%064d\",\"state\":\"pending\",\"since\":1}]"

static struct scratch s;

static void
sql(const char *text)
{
	if (scratch_sql(&s, text) != 0)
		fail_msg("%s: %s", text, s.error);
}

/* A Host that serves, and a box of it. */
static int
make(void **state)
{
	(void)state;
	scratch_make(&s, HOME_HOST);
	sql("INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES ('12345678-1234-1234-1234-123456789abc', 1, 0, 0, 'bastion', 1);"
	    "INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 'host', 1, '0', '/r', now_ms());"
	    "INSERT INTO actor_run (instance_id, actor, attempt, started_at)"
	    " VALUES (1, 'link', 1, now_ms());"
	    "UPDATE instance SET state = 'ready', ready_at = now_ms();"
	    "INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
	    " VALUES ('vm', zeroblob(32), now_ms(), now_ms() + 60000);"
	    "UPDATE invitation SET state = 'redeemed', ended_at = now_ms();"
	    "INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)"
	    " VALUES ('vm', zeroblob(32), '/l', 0, 1, now_ms())");
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

/* The statement that keeps terms for ${server}, signed for ${domain}. */
static const char *
kept(const char *anchor, const char *server, const char *domain)
{
	static char text[4096];
	char terms[1024], hex[2 * KEY_SIGN_SIZE + 1];
	unsigned char signature[KEY_SIGN_SIZE];

	snprintf(terms, sizeof(terms),
	    "{\"kind\":\"pairing_revoke\",\"anchor\":\"%s\",\"server\":\"%s\",\"server_key\":\"%064d\","
	    "\"subject\":\"h\",\"subject_key\":\"%064d\",\"caps\":[],\"issued_at\":1,\"expires_at\":2}",
	    anchor, server, 0, 0);
	assert_int_equal(key_sign(s.key, KEY_IDENTITY, domain, terms, strlen(terms), signature), 0);
	sodium_bin2hex(hex, sizeof(hex), signature, sizeof(signature));
	snprintf(text, sizeof(text),
	    "INSERT INTO host_terms (box_id, terms, signature, made_at, expires_at)"
	    " VALUES (1, '%s', x'%s', now_ms(), now_ms() + 60000)",
	    terms, hex);
	return text;
}

/* What leaves as this Host's word is signed with its key for this use, names it and the box, and
 * does not change on the way. */
static void
terms_are_as_they_were_signed(void **state)
{
	(void)state;
	person_refused(&s, "terms.signature", kept("host-a", "vm", "bastion-lane-1"));
	person_refused(&s, "terms.other", kept("host-b", "vm", ANCHOR_DOMAIN));
	person_refused(&s, "terms.other", kept("host-a", "vm2", ANCHOR_DOMAIN));
	sql(kept("host-a", "vm", ANCHOR_DOMAIN));
	person_refused(
	    &s, "terms.fixed", "UPDATE host_terms SET terms = replace(terms, 'revoke', 'grant')");
	person_refused(&s, "terms.transition",
	    "UPDATE host_terms SET state = 'taken', finished_at = 1,"
	    " answer = '{\"kind\":\"pairing_revoke\",\"host\":\"h\",\"state\":\"revoked\"}'");
	person_refused(&s, "terms.kept", "DELETE FROM host_terms");
	sql("UPDATE host_terms SET state = 'sent', tries = 1, tried_at = now_ms()");
	/* The answer is about these terms. */
	person_refused(&s, "terms.answer",
	    "UPDATE host_terms SET state = 'taken', finished_at = 1,"
	    " answer = '{\"kind\":\"pairing_revoke\",\"host\":\"x\",\"state\":\"revoked\"}'");
	sql("UPDATE host_terms SET state = 'taken', finished_at = 1,"
	    " answer = '{\"kind\":\"pairing_revoke\",\"host\":\"h\",\"state\":\"revoked\"}'");
	person_refused(&s, "terms.final", "UPDATE host_terms SET why = 'x'");
	person_refused(&s, "terms.kept", "DELETE FROM host_terms");
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'host_terms'"), 2);
}

/* Terms that no box took go after their time; what one took stays while it is paired. */
static void
terms_of_a_pairing_stay(void **state)
{
	int i, rc;

	(void)state;
	clock_fix(PERSON_MORNING);
	for (i = 0; i < 3; i++)
		sql(kept("host-a", "vm", ANCHOR_DOMAIN));
	sql("UPDATE host_terms SET state = 'sent', tries = 1, tried_at = now_ms() WHERE id = 1;"
	    "UPDATE host_terms SET state = 'taken', finished_at = now_ms(),"
	    " answer = '{\"kind\":\"pairing_revoke\",\"host\":\"h\",\"state\":\"revoked\"}' WHERE id = 1;"
	    "UPDATE host_terms SET state = 'expired', finished_at = now_ms(), code = 'terms.expired'"
	    " WHERE id > 1");
	person_refused(&s, "terms.kept", "DELETE FROM host_terms WHERE id = 2");
	clock_fix(PERSON_MORNING + INT64_C(366) * 86400000);
	person_refused(&s, "terms.kept", "DELETE FROM host_terms WHERE id = 1");
	store_acting(scratch_open(&s, ROLE_KEEPER), "actor:keeper");
	while ((rc = retention_step(s.db)) == 1)
		;
	assert_int_equal(rc, 0);
	scratch_open(&s, ROLE_MIGRATE);
	/* The newest has the number that is given last. */
	assert_int_equal(scratch_value(&s, "SELECT sum(id) FROM host_terms"), 1 + 3);
	sql("UPDATE host_box SET state = 'gone', gone_at = now_ms();"
	    "DELETE FROM host_terms WHERE id = 1");
	clock_fix(0);
}

/* A key that a person is to sign for has one form, and so has all that stands around it. */
static void
a_boxs_answer_is_held_to_its_form(void **state)
{
	static const char *const wrong[] = {"{}", "[]", "{\"pairings\":{}}", "{\"pairings\":[1]}",
	    "{\"pairings\":[{\"host\":1,\"key\":\"\",\"state\":\"active\",\"since\":1}]}",
	    "{\"pairings\":[{\"host\":\"h\",\"key\":\"ab\",\"state\":\"active\",\"since\":1}]}"};
	char text[512], key[65];
	size_t i;

	(void)state;
	sql(LOOK);
	sql("UPDATE host_terms SET state = 'sent'");
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text),
		    "UPDATE host_terms SET state = 'taken', finished_at = 1, answer = '%s'",
		    wrong[i]);
		person_refused(&s, "terms.answer", text);
	}
	memset(key, 'G', 64);
	key[64] = '\0';
	snprintf(text, sizeof(text),
	    "UPDATE host_terms SET state = 'taken', finished_at = 1, answer = '{\"pairings\":"
	    "[{\"host\":\"h\",\"key\":\"%s\",\"state\":\"active\",\"since\":1}]}'",
	    key);
	person_refused(&s, "terms.answer", text);
	snprintf(text, sizeof(text),
	    "UPDATE host_terms SET state = 'taken', finished_at = 1, answer = '{\"pairings\":" ONE
	    "}'",
	    0);
	sql(text);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM box_pairings"), 1);
	/* The next look takes its place, once nobody can be waiting for it. */
	sql(LOOK);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM host_terms"), 1);
}

/* A Host that does not serve carries nothing; nor does it without end, or to a box that has gone;
 * and what the actor had under way ends with it. */
static void
nothing_waits_for_nobody(void **state)
{
	(void)state;
	sql("UPDATE setting SET value = 2 WHERE name = 'terms.live'");
	sql(LOOK);
	sql(LOOK);
	person_refused(&s, "terms.busy", LOOK);
	sql("UPDATE host_terms SET state = 'sent' WHERE id = 1");
	sql("UPDATE actor_run SET state = 'failed', ended_at = now_ms(), exit_code = 1");
	assert_int_equal(
	    scratch_value(&s, "SELECT code = 'terms.lost' FROM host_terms WHERE id = 1"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'waiting' FROM host_terms WHERE id = 2"), 1);
	sql("UPDATE instance SET state = 'lost', ended_at = now_ms(), end_reason = 'x'");
	person_refused(&s, "call.offline", LOOK);
	sql("UPDATE host_box SET state = 'gone', gone_at = now_ms()");
	assert_int_equal(
	    scratch_value(&s, "SELECT code = 'box.gone' FROM host_terms WHERE id = 2"), 1);
	person_refused(&s, "box.gone", LOOK);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(terms_are_as_they_were_signed, make, drop),
	    cmocka_unit_test_setup_teardown(a_boxs_answer_is_held_to_its_form, make, drop),
	    cmocka_unit_test_setup_teardown(terms_of_a_pairing_stay, make, drop),
	    cmocka_unit_test_setup_teardown(nothing_waits_for_nobody, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
