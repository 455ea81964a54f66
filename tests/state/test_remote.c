/* test_remote.c: the rules of sessions from other machines, row by row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/state/remote.h"
#include "engine/state/session.h"
#include "tests/scratch.h"

#define MORNING INT64_C(1800000015000)
#define HOUR    INT64_C(3600000)

/* A daemon that serves, with a worker's program; and its end. */
#define READY                                                                                   \
	"INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at)"            \
	" VALUES (1, '00000000-0000-0000-0000-000000000000', 4711, 1, 0, 'bastion', now_ms());" \
	"INSERT INTO instance (id, epoch, role, process_id, version, run_dir, started_at)"      \
	" VALUES (1, 1, 'box', 1, 'test', '/run/bastion', now_ms());"                           \
	"UPDATE instance SET state = 'ready', ready_at = now_ms();"                             \
	"INSERT INTO worker (name, argv, max_attempts, by_uid, added_at)"                       \
	" VALUES ('w', '[\"echo\"]', 1, 0, now_ms())"
#define OVER                                                              \
	"UPDATE instance SET state = 'draining', draining_at = now_ms();" \
	"UPDATE instance SET state = 'ended', ended_at = now_ms(), end_reason = 'test'"

static struct scratch s;
static char token[REMOTE_TOKEN_LEN + 1];

static const struct remote_ask ask = {
    .name = "far", .verbs = "[\"run\",\"list\"]", .roots = "[\"/srv/work\"]", .uid = 1000};

static int
make(void **state)
{
	(void)state;
	clock_fix(MORNING);
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(remote_add(s.db, s.key, &ask, token), 0);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	clock_fix(-1);
	return 0;
}

static void
add_refused(const char *code, struct remote_ask wrong)
{
	char unused[REMOTE_TOKEN_LEN + 1];

	if (wrong.name == NULL)
		wrong.name = "other";
	if (wrong.verbs == NULL)
		wrong.verbs = ask.verbs;
	if (wrong.roots == NULL)
		wrong.roots = ask.roots;
	if (remote_add(s.db, s.key, &wrong, unused) == 0)
		fail_msg("%s %s %s is a credential", wrong.name, wrong.verbs, wrong.roots);
	assert_string_equal(store_refusal(s.db)->code, code);
}

/* What a credential may not be: each by its own rule. */
static void
what_is_no_credential(void **state)
{
	static const char *const roots[] = {"[\"srv\"]", "[\"/srv/\"]", "[\"/srv/../etc\"]",
	    "[\"/srv/..\"]", "[\"/./srv\"]", "[\"//srv\"]", "[\"\"]", "[1]", "[\"/a\\u0000b\"]"};
	static const char *const verbs[] = {
	    "[\"fly\"]", "[\"run\",\"run\"]", "[1]", "[\"RUN\"]", "[\"\"]"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		add_refused("remote.roots", (struct remote_ask){.roots = roots[i]});
	for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		add_refused("remote.verbs", (struct remote_ask){.verbs = verbs[i]});
	add_refused("remote.name", (struct remote_ask){.name = "a b"});
	add_refused("remote.name", (struct remote_ask){.name = ""});
	add_refused("remote.name", (struct remote_ask){.name = "-a"});
	add_refused("remote.exists", (struct remote_ask){.name = "far"});
	add_refused("remote.ttl", (struct remote_ask){.ttl_ms = INT64_C(31536000001)});
}

/* What it allows never changes, and an end is one. */
static void
credentials_are_fixed(void **state)
{
	(void)state;
	scratch_refused(&s, "remote.fixed",
	    "UPDATE remote_credential SET verbs = '[\"command\"]'"
	    ", state = 'revoked', digest = NULL, ended_at = now_ms()");
	scratch_refused(&s, "remote.fixed",
	    "UPDATE remote_credential SET expires_at = expires_at + 1,"
	    " state = 'revoked', digest = NULL, ended_at = now_ms()");
	scratch_refused(&s, "remote.final", "UPDATE remote_credential SET verbs = '[\"command\"]'");
	scratch_refused(&s, "remote.kept", "DELETE FROM remote_credential");
	assert_int_equal(remote_revoke(s.db, "far"), 0);
	scratch_refused(&s, "remote.final",
	    "UPDATE remote_credential SET state = 'active', digest = randomblob(32), ended_at = NULL");
	assert_int_equal(remote_revoke(s.db, "far"), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.unknown");
}

/* RA-01, RA-08, RA-09, RF-52: one text is the secret, and every other is not; where it is kept is
 * nothing of it, and another machine's key makes another digest. */
static void
one_text_is_the_secret(void **state)
{
	char wrong[REMOTE_TOKEN_LEN + 2], second[REMOTE_TOKEN_LEN + 1], hex[129];
	int64_t id, other;
	size_t i;

	(void)state;
	assert_true(remote_right(s.db, s.key, token, &id));
	assert_int_equal(id, 1);
	for (i = 0; i < REMOTE_TOKEN_LEN; i++) {
		memcpy(wrong, token, REMOTE_TOKEN_LEN + 1);
		wrong[i] = wrong[i] == '0' ? '1' : '0';
		assert_false(remote_right(s.db, s.key, wrong, &other));
		/* The selector names the row; the secret behind it names none. */
		assert_int_equal(other, i > 4 + REMOTE_SELECTOR ? 1 : 0);
	}
	snprintf(wrong, sizeof(wrong), "%sa", token);
	assert_false(remote_right(s.db, s.key, wrong, &id));
	wrong[REMOTE_TOKEN_LEN - 1] = '\0';
	assert_false(remote_right(s.db, s.key, wrong, &id));
	assert_false(remote_right(s.db, s.key, "", &id));
	scratch_text(&s, "SELECT lower(hex(digest)) FROM remote_credential", hex, sizeof(hex));
	assert_null(strstr(token, hex));
	assert_int_equal(
	    scratch_value(
		&s, "SELECT digest = sha256(CAST(found_by AS BLOB)) FROM remote_credential"),
	    0);
	/* Rotated, the first is over, and the next allows the same. */
	assert_int_equal(remote_rotate(s.db, s.key, "far", 0, second), 0);
	assert_false(remote_right(s.db, s.key, token, &id));
	assert_true(remote_right(s.db, s.key, second, &id));
	assert_int_equal(id, 2);
	assert_int_equal(scratch_value(&s, "SELECT count(DISTINCT verbs || roots || by_uid"
					   " || (expires_at - created_at)) FROM remote_credential"),
	    1);
	/* In time, without anybody's doing. */
	clock_fix(MORNING + INT64_C(2592000000));
	assert_false(remote_right(s.db, s.key, second, &id));
}

static int
tried(const char *origin, int64_t id, bool right)
{
	scratch_open(&s, ROLE_NET);
	assert_int_equal(store_begin(s.db), 0);
	if (remote_tried(s.db, origin, id, right) != 0)
		return store_rollback(s.db);
	return store_commit(s.db);
}

/* RB-12, RF-54: five wrong ones hold an origin, each further one twice as long; a right one, or
 * time, forgives. */
static void
wrong_secrets_hold(void **state)
{
	int64_t now = MORNING, wait = 5000;
	struct refusal r;
	int i;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(tried("192.0.2.1", 0, false), 0);
	assert_int_equal(remote_held(s.db, "192.0.2.1", &r), 0);
	for (i = 0; i < 10; i++) {
		assert_int_equal(tried("192.0.2.1", 0, false), 0);
		assert_int_equal(remote_held(s.db, "192.0.2.1", &r), -1);
		assert_string_equal(r.code, "remote.held");
		assert_int_equal(r.retry_at, now + wait);
		assert_int_equal(tried("192.0.2.1", 1, true), -1);
		assert_string_equal(store_refusal(s.db)->code, "remote.held");
		assert_int_equal(remote_held(s.db, "192.0.2.2", &r), 0);
		clock_fix(now + wait - 1);
		assert_int_equal(remote_held(s.db, "192.0.2.1", &r), -1);
		clock_fix(now += wait);
		assert_int_equal(remote_held(s.db, "192.0.2.1", &r), 0);
		wait = wait * 2 < 900000 ? wait * 2 : 900000;
	}
	assert_int_equal(tried("192.0.2.1", 1, true), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(tried("192.0.2.1", 0, false), 0);
	assert_int_equal(remote_held(s.db, "192.0.2.1", &r), 0);
	clock_fix(now + HOUR + 1);
	for (i = 0; i < 4; i++)
		assert_int_equal(tried("192.0.2.1", 0, false), 0);
	assert_int_equal(remote_held(s.db, "192.0.2.1", &r), 0);
}

/* Tries are append-only, and as many as the setting says are kept. */
static void
tries_are_kept(void **state)
{
	(void)state;
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 100 WHERE name = 'remote.kept';"
			    "UPDATE setting SET value = 1000 WHERE name = 'remote.tries';"
			    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
			    " FROM n WHERE i < 250) INSERT INTO remote_try (at, origin,"
			    " result) SELECT now_ms(), '192.0.2.3', 'wrong' FROM n"),
	    0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM remote_try"), 100);
	scratch_refused(&s, "remote.kept", "DELETE FROM remote_try");
	scratch_refused(&s, "remote.kept", "UPDATE remote_try SET result = 'wrong'");
	scratch_refused(&s, "remote.token",
	    "INSERT INTO remote_try (at, origin, credential_id, result)"
	    " SELECT now_ms(), 'x', 99, 'ok'");
}

/* An IPv6 address is its /64: whoever has one has all of it. */
static void
origins(void **state)
{
	static const char *const of[][2] = {{"192.0.2.1", "192.0.2.1"},
	    {"::ffff:192.0.2.1", "192.0.2.1"}, {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
	    {"2001:db8:1:2::9", "2001:db8:1:2::/64"}, {"2001:db8:1:3::9", "2001:db8:1:3::/64"},
	    {"::1", "::/64"}};
	char origin[REMOTE_ORIGIN_MAX + 1];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		remote_origin(of[i][0], origin);
		assert_string_equal(origin, of[i][1]);
	}
}

/* RB-14, RF-56: whoever acts from afar is held to the credential by the rows themselves. */
static void
rows_hold_who_acts_from_afar(void **state)
{
	struct session_ask session = {.name = "a",
	    .base = "s",
	    .worker = "",
	    .argv = "[\"true\"]",
	    .cwd = "/srv/work",
	    .uid = 1000,
	    .rows = 24,
	    .cols = 80};

	(void)state;
	assert_int_equal(scratch_sql(&s, READY), 0);
	scratch_open(&s, ROLE_NET);
	store_acting(s.db, "remote:far(1)");
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(session_new(s.db, &session), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.command");
	session.worker = "w";
	session.argv = "[\"-x\"]";
	assert_int_equal(session_new(s.db, &session), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.command");
	session.argv = "[]";
	session.cwd = "/srv/workshop";
	assert_int_equal(session_new(s.db, &session), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.root");
	session.cwd = "/srv/work/a";
	session.uid = 0;
	assert_int_equal(session_new(s.db, &session), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.user");
	session.uid = 1000;
	store_acting(s.db, "remote:far(2)");
	assert_int_equal(session_new(s.db, &session), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.token");
	store_acting(s.db, "remote:fa(1)");
	assert_int_equal(session_new(s.db, &session), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.token");
	store_acting(s.db, "remote:far(1)");
	assert_int_equal(session_new(s.db, &session), 1);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(scratch_value(&s, "SELECT credential_id FROM remote_session"
					   " WHERE session_id = 1"),
	    1);
	/* It may list it, and neither end nor feed it. */
	assert_int_equal(remote_reaches(s.db, 1, 1, "list"), 0);
	assert_int_equal(remote_reaches(s.db, 1, 1, "attach"), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.verb");
	assert_int_equal(remote_reaches(s.db, 1, 2, "list"), -1);
	assert_string_equal(store_refusal(s.db)->code, "session.unknown");
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(session_cancel(s.db, 1), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.verb");
	assert_int_equal(session_send(s.db, 1, "data", "x", 1), -1);
	assert_string_equal(store_refusal(s.db)->code, "remote.verb");
	store_rollback(s.db);
	/* Once it is over, it goes with its row. */
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(session_cancel(s.db, 1), 0);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(scratch_sql(&s, "DELETE FROM session"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM remote_session"), 0);
	assert_int_equal(scratch_sql(&s, OVER), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_is_no_credential, make, drop),
	    cmocka_unit_test_setup_teardown(credentials_are_fixed, make, drop),
	    cmocka_unit_test_setup_teardown(one_text_is_the_secret, make, drop),
	    cmocka_unit_test_setup_teardown(wrong_secrets_hold, make, drop),
	    cmocka_unit_test_setup_teardown(tries_are_kept, make, drop),
	    cmocka_unit_test_setup_teardown(origins, make, drop),
	    cmocka_unit_test_setup_teardown(rows_hold_who_acts_from_afar, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
