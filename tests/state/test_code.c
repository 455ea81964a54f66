/* test_code.c: one set of facts has one code, and everything else is none; invitations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/state/invitation.h"
#include "tests/person.h"

#define T64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define K64 "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define GOOD \
	"{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/run/e.sock\",\"k\":\"" K64 "\",\"h\":\"laptop\"}"

static void
encode(const char *json, char code[4 * CODE_MAX])
{
	strcpy(code, "bst_");
	sodium_bin2base64(code + 4, 4 * CODE_MAX - 4, (const unsigned char *)json, strlen(json),
	    sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static int
reads(struct scratch *s, const char *json, struct pairing_code *facts)
{
	char code[4 * CODE_MAX];

	encode(json, code);
	return code_read(s->db, code, strlen(code), facts);
}

static void
a_code_says_what_was_put_in(void **state)
{
	struct pairing_code facts, back;
	char code[CODE_MAX + 1];
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_HOST);
	scratch_open(&s, ROLE_PERSON);
	memset(&facts, 0, sizeof(facts));
	random_fill(facts.token, sizeof(facts.token));
	random_fill(facts.host_key, sizeof(facts.host_key));
	strcpy(facts.host, "desk.example");
	strcpy(facts.path, "/run/user/1000/b\303\244stion/enroll.sock");
	assert_int_equal(code_make(s.db, &facts, code), 0);
	assert_int_equal(strncmp(code, "bst_", 4), 0);
	assert_int_equal(strspn(code + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					  "0123456789-_"),
	    strlen(code) - 4);
	assert_int_equal(code_read(s.db, code, strlen(code), &back), 0);
	assert_memory_equal(&facts, &back, sizeof(facts));
	memset(facts.path, 'p', CODE_PATH_MAX);
	facts.path[0] = '/';
	assert_int_equal(code_make(s.db, &facts, code), 0);
	/* What could not be read is not given out. */
	strcpy(facts.path, "/run/quo\"te");
	assert_int_equal(code_make(s.db, &facts, code), -1);
	person_says(&s, "code.invalid");
	strcpy(facts.path, "relative");
	assert_int_equal(code_make(s.db, &facts, code), -1);
	scratch_drop(&s);
}

/* PAIR-3: a field named twice; and every other text that is not the code of its facts. */
static void
anything_else_is_no_code(void **state)
{
	static const char *const bad[] = {
	    "",
	    "{}",
	    "[]",
	    "null",
	    "{\"v\":1,\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64
	    "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"t\":\"" K64 "\",\"u\":\"unix:/e\",\"k\":\"" K64
	    "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"\\u0074\":\"" K64 "\",\"u\":\"unix:/e\",\"k\":\"" K64
	    "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64
	    "\",\"h\":\"laptop\",\"h\":\"laptop\"}",
	    "{\"v\":2,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"v\":\"1\",\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64
	    "\",\"h\":\"laptop\",\"x\":1}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64 "\"}",
	    "{ \"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"t\":\"" T64 "\",\"v\":1,\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"00\",\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":7,\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:e\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"http:/e\",\"k\":\"" K64 "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"-laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\",\"k\":\"" K64 "\",\"h\":\"evil\\nhost\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"unix:/e\\u0000x\",\"k\":\"" K64
	    "\",\"h\":\"laptop\"}",
	    GOOD " ",
	    GOOD "{}",
	};
	struct pairing_code facts;
	char code[4 * CODE_MAX], bent[4 * CODE_MAX];
	struct scratch s;
	size_t i, len;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(reads(&s, GOOD, &facts), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (reads(&s, bad[i], &facts) == 0)
			fail_msg("taken for a code: %s", bad[i]);
		person_says(&s, "code.invalid");
		assert_true(sodium_is_zero((void *)&facts, sizeof(facts)));
	}
	encode(GOOD, code);
	len = strlen(code);
	/* No beginning of a code is one, nor is one with a character more or in another place. */
	for (i = 0; i < len; i++)
		assert_int_equal(code_read(s.db, code, i, &facts), -1);
	for (i = 0; i < len; i++) {
		memcpy(bent, code, len + 1);
		bent[i] = (char)0xff;
		assert_int_equal(code_read(s.db, bent, len, &facts), -1);
		bent[i] = '=';
		assert_int_equal(code_read(s.db, bent, len, &facts), -1);
	}
	snprintf(bent, sizeof(bent), "%s=", code);
	assert_int_equal(code_read(s.db, bent, strlen(bent), &facts), -1);
	snprintf(bent, sizeof(bent), "BST_%s", code + 4);
	assert_int_equal(code_read(s.db, bent, strlen(bent), &facts), -1);
	memset(bent, 'A', sizeof(bent) - 1);
	memcpy(bent, "bst_", 4);
	assert_int_equal(code_read(s.db, bent, CODE_MAX + 1, &facts), -1);
	assert_int_equal(code_read(s.db, bent, sizeof(bent) - 1, &facts), -1);
	/* The refusal never repeats what was typed. */
	assert_null(strstr(store_refusal(s.db)->why, "AAAA"));
	scratch_drop(&s);
}

#define TLS(u, c)                                                                 \
	"{\"v\":1,\"t\":\"" T64 "\",\"u\":\"" u "\",\"c\":\"" c "\",\"k\":\"" K64 \
	"\",\"h\":\"laptop\"}"

/* PAIR-3: over a network too: places in their one spelling, none twice, and the authority, once.
 * EP-26: a good place with a bad one behind it is none. */
static void
a_code_over_a_network_has_one_form(void **state)
{
	static const char *const bad[] = {
	    TLS("tls:", T64),
	    TLS("tls:h.example", T64),
	    TLS("tls:h.example:0", T64),
	    TLS("tls:h.example:1,h.example:0", T64),
	    TLS("tls:H.example:1", T64),
	    TLS("tls:h.example:1,", T64),
	    TLS("tls:,h.example:1", T64),
	    TLS("tls:h.example:1,h.example:1", T64),
	    TLS("tls:h.example:1, g.example:1", T64),
	    TLS("tls:h.example:1\\u0000", T64),
	    TLS("tls:a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1", T64),
	    TLS("unix:/run/e.sock", T64),
	    TLS("tls:h.example:1", "00"),
	    TLS("tls:h.example:1",
		"FF112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
	    TLS("tls:h.example:1", T64 "\",\"c\":\"" K64),
	    TLS("tls:h.example:1", T64 "\",\"u\":\"tls:h.example:1"),
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"tls:h.example:1\",\"k\":\"" K64
	    "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"c\":\"" T64 "\",\"u\":\"tls:h.example:1\",\"k\":\"" K64
	    "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"tls:h.example:1\",\"c\":null,\"k\":\"" K64
	    "\",\"h\":\"laptop\"}",
	    "{\"v\":1,\"t\":\"" T64 "\",\"u\":\"tls:h.example:1\",\"c\":7,\"k\":\"" K64
	    "\",\"h\":\"laptop\"}",
	};
	struct pairing_code facts, back;
	char code[CODE_MAX + 1];
	struct scratch s;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(
	    reads(&s, TLS("tls:h.example:7443,[2001:db8::1]:1,192.0.2.7:65535", T64), &facts), 0);
	assert_string_equal(facts.path, "");
	assert_int_equal(facts.nendpoints, 3);
	assert_string_equal(facts.endpoint[1], "[2001:db8::1]:1");
	assert_int_equal(facts.authority[1], 0x11);
	assert_int_equal(code_make(s.db, &facts, code), 0);
	assert_int_equal(code_read(s.db, code, strlen(code), &back), 0);
	assert_memory_equal(&facts, &back, sizeof(facts));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (reads(&s, bad[i], &facts) == 0)
			fail_msg("taken for a code: %s", bad[i]);
		person_says(&s, "code.invalid");
		assert_true(sodium_is_zero((void *)&facts, sizeof(facts)));
	}
	scratch_drop(&s);
}

/* A Host that invites box-a; the code's facts. */
static void
invited(struct scratch *s, struct pairing_code *facts)
{
	char code[CODE_MAX + 1];

	if (invitation_make(scratch_open(s, ROLE_PERSON), "box-a", 0,
		&(struct pairing_code){.path = "/run/enroll.sock"}, code) != 0 ||
	    code_read(s->db, code, strlen(code), facts) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
}

static struct enrollment
enrollment_of(const struct pairing_code *facts)
{
	struct enrollment e = {.box_name = "box-a", .lane = "/run/lane.sock", .peer_uid = 1000};

	memcpy(e.token, facts->token, sizeof(e.token));
	memset(e.box_key, 5, sizeof(e.box_key));
	return e;
}

static void
an_invitation_is_redeemed_once(void **state)
{
	struct pairing_code facts;
	struct enrollment e;
	struct scratch s;
	char text[512];
	int64_t id;

	(void)state;
	scratch_make(&s, HOME_HOST);
	clock_fix(PERSON_MORNING);
	invited(&s, &facts);
	assert_string_equal(facts.host, "host-a");
	assert_memory_equal(facts.host_key, s.keys.identity, 32);
	assert_int_equal(
	    scratch_value(&s, "SELECT expires_at - created_at FROM invitation"), 900000);
	/* Only the digest of the token is kept. */
	scratch_text(&s, "SELECT lower(hex(token_digest)) FROM invitation", text, sizeof(text));
	assert_int_equal(strlen(text), 64);
	e = enrollment_of(&facts);
	assert_int_equal(invitation_redeem(scratch_open(&s, ROLE_NET), &e, &id), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT peer_uid FROM host_box WHERE state = 'active'"), 1000);
	assert_int_equal(invitation_redeem(s.db, &e, &id), -1);
	person_says(&s, "invitation.used");
	e.token[0] ^= 1;
	assert_int_equal(invitation_redeem(s.db, &e, &id), -1);
	person_says(&s, "invitation.unknown");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM host_box"), 1);
	scratch_drop(&s);
}

/* Of many that bring one token at once, one comes in. */
static void
one_of_many_redeems(void **state)
{
	struct pairing_code facts;
	struct enrollment e;
	int i, status, in = 0;
	struct scratch s;
	pid_t pid[8];
	int64_t id;

	(void)state;
	scratch_make(&s, HOME_HOST);
	invited(&s, &facts);
	e = enrollment_of(&facts);
	store_close(s.db);
	s.db = NULL;
	for (i = 0; i < 8; i++)
		if ((pid[i] = fork()) == 0)
			_exit(invitation_redeem(scratch_open(&s, ROLE_NET), &e, &id) == 0 ? 0 : 1);
	for (i = 0; i < 8; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		in += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	assert_int_equal(in, 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM host_box"), 1);
	scratch_drop(&s);
}

/* A refused redeem spends nothing. */
static void
a_refused_redeem_spends_nothing(void **state)
{
	char lane[110];
	struct pairing_code facts;
	struct enrollment e;
	struct scratch s;
	int64_t id;

	(void)state;
	scratch_make(&s, HOME_HOST);
	clock_fix(PERSON_MORNING);
	invited(&s, &facts);
	e = enrollment_of(&facts);
	e.box_name = "box-b";
	assert_int_equal(invitation_redeem(scratch_open(&s, ROLE_NET), &e, &id), -1);
	person_says(&s, "invitation.name");
	e.box_name = "box-a";
	e.lane = "lane.sock";
	assert_int_equal(invitation_redeem(s.db, &e, &id), -1);
	person_says(&s, "box.lane");
	memset(lane, 'x', sizeof(lane));
	lane[0] = '/';
	lane[104] = '\0';
	e.lane = lane;
	assert_int_equal(invitation_redeem(s.db, &e, &id), -1);
	person_says(&s, "box.lane");
	assert_int_equal(scratch_value(&s, "SELECT state = 'open' FROM invitation"), 1);
	clock_fix(clock_now() + 900000);
	e.lane = "/lane.sock";
	scratch_open(&s, ROLE_NET);
	assert_int_equal(invitation_redeem(s.db, &e, &id), -1);
	person_says(&s, "invitation.expired");
	/* What ran out makes room for the next. */
	invited(&s, &facts);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM invitation WHERE state = 'expired'"), 1);
	scratch_drop(&s);
}

static void
an_invitation_is_withdrawn(void **state)
{
	char code[CODE_MAX + 1];
	struct pairing_code facts;
	struct enrollment e;
	struct scratch s;
	int64_t count, id;

	(void)state;
	scratch_make(&s, HOME_HOST);
	invited(&s, &facts);
	assert_int_equal(invitation_make(s.db, "box-a", 0,
			     &(struct pairing_code){.path = "/run/enroll.sock"}, code),
	    -1);
	person_says(&s, "invitation.open");
	assert_int_equal(code[0], '\0');
	assert_int_equal(invitation_withdraw(s.db, "box-a", &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(invitation_withdraw(s.db, "box-a", &count), 0);
	assert_int_equal(count, 0);
	e = enrollment_of(&facts);
	assert_int_equal(invitation_redeem(scratch_open(&s, ROLE_NET), &e, &id), -1);
	person_says(&s, "invitation.used");
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(
	    invitation_make(s.db, "two words", 0, &(struct pairing_code){.path = "/e"}, code), -1);
	person_says(&s, "box.name");
	assert_int_equal(
	    invitation_make(s.db, "", 0, &(struct pairing_code){.path = "/e"}, code), -1);
	person_says(&s, "box.name");
	assert_int_equal(
	    invitation_make(s.db, "box-a", 86400001, &(struct pairing_code){.path = "/e"}, code),
	    -1);
	person_says(&s, "invitation.ttl");
	assert_int_equal(
	    invitation_make(s.db, "box-a", 60000, &(struct pairing_code){.path = "relative"}, code),
	    -1);
	person_says(&s, "code.invalid");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM invitation"), 1);
	scratch_drop(&s);
}

/* A fresh invitation replaces the box of that name, with whatever key it comes. */
static void
a_fresh_invitation_replaces_a_box(void **state)
{
	struct pairing_code facts;
	struct enrollment e;
	struct scratch s;
	int64_t one, two;

	(void)state;
	scratch_make(&s, HOME_HOST);
	invited(&s, &facts);
	e = enrollment_of(&facts);
	assert_int_equal(invitation_redeem(scratch_open(&s, ROLE_NET), &e, &one), 0);
	if (scratch_sql(&s,
		"INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
		" VALUES (printf('%036d', 1), 1, 1, 0, 'test', 1);"
		"INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
		" VALUES (1, 'host', 1, '0', '/run', 1);"
		"UPDATE instance SET state = 'ready', ready_at = 1;"
		"INSERT INTO call (box_id, op, args, nonce, asked_at)"
		" VALUES (1, 'observe:folders', '[]', printf('%032x', 1), 1),"
		" (1, 'observe:folders', '[]', printf('%032x', 2), 1);"
		"UPDATE call SET state = 'sent', sent_at = 1 WHERE id = 2") != 0)
		fail_msg("%s", s.error);
	invited(&s, &facts);
	e = enrollment_of(&facts);
	memset(e.box_key, 6, sizeof(e.box_key));
	assert_int_equal(invitation_redeem(scratch_open(&s, ROLE_NET), &e, &two), 0);
	assert_int_not_equal(one, two);
	assert_int_equal(scratch_value(&s, "SELECT state = 'gone' FROM host_box WHERE id = 1"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'active' FROM host_box WHERE id = 2"), 1);
	/* Nobody carries what was asked of the old one. */
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM call WHERE id = 1 AND"
					   " state = 'failed' AND code = 'box.gone'"),
	    1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM call WHERE id = 2 AND"
					   " state = 'lost' AND code = 'call.lost'"),
	    1);
	scratch_drop(&s);
}

/* What the tables of invitations and boxes refuse, whoever asks. */
static void
the_tables_hold(void **state)
{
	struct pairing_code facts;
	struct enrollment e;
	struct scratch s;
	int64_t id;

	(void)state;
	scratch_make(&s, HOME_HOST);
	invited(&s, &facts);
	person_refused(&s, "invitation.transition",
	    "INSERT INTO invitation (box_name, token_digest, state, created_at,"
	    " expires_at, ended_at) VALUES ('b', zeroblob(32), 'redeemed', 1, 2, 2)");
	person_refused(&s, "invitation.used", "UPDATE invitation SET box_name = 'b'");
	person_refused(&s, "invitation.fixed",
	    "UPDATE invitation SET box_name = 'b', state = 'withdrawn', ended_at = 1");
	person_refused(&s, "invitation.fixed",
	    "UPDATE invitation SET expires_at = expires_at + 1, state = 'redeemed',"
	    " ended_at = 1");
	person_refused(&s, "invitation.kept", "DELETE FROM invitation");
#define BOX(invitation)                                                                  \
	"INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)" \
	" VALUES ('box-a', zeroblob(32), '/l', 0, " invitation ", 1)"
	person_refused(&s, "box.uninvited", BOX("1"));
	person_refused(&s, "box.uninvited", BOX("99"));
	e = enrollment_of(&facts);
	assert_int_equal(invitation_redeem(scratch_open(&s, ROLE_NET), &e, &id), 0);
	person_refused(&s, "box.uninvited", BOX("1"));
	person_refused(&s, "box.identity", "UPDATE host_box SET name = 'b'");
	person_refused(&s, "box.identity", "UPDATE host_box SET box_key = zeroblob(32)");
	person_refused(&s, "box.kept", "DELETE FROM host_box");
	assert_int_equal(scratch_sql(&s, "UPDATE host_box SET state = 'gone', gone_at = 9"), 0);
	person_refused(
	    &s, "box.transition", "UPDATE host_box SET state = 'active', gone_at = NULL");
	person_refused(
	    &s, "invitation.used", "UPDATE invitation SET state = 'open', ended_at = NULL");
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_code_says_what_was_put_in),
	    cmocka_unit_test(anything_else_is_no_code),
	    cmocka_unit_test(a_code_over_a_network_has_one_form),
	    cmocka_unit_test(an_invitation_is_redeemed_once),
	    cmocka_unit_test(one_of_many_redeems),
	    cmocka_unit_test(a_refused_redeem_spends_nothing),
	    cmocka_unit_test(an_invitation_is_withdrawn),
	    cmocka_unit_test(a_fresh_invitation_replaces_a_box),
	    cmocka_unit_test(the_tables_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
