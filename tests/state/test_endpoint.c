/* test_endpoint.c: what is an endpoint, what is none, and what a pairing with a bad one still may.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "engine/endpoint.h"
#include "engine/state/approval.h"
#include "engine/state/pairing.h"
#include "tests/person.h"
#include "tests/scratch.h"

#define TEXT(s)    (s), sizeof(s) - 1
#define NOT_SERVED "pairing.invalid"
#define LABEL_63   "a23456789012345678901234567890123456789012345678901234567890123"
#define NAME_253                           \
	LABEL_63 "." LABEL_63 "." LABEL_63 \
		 ".123456789012345678901234567890123456789012345678901234567890b"
#define LONGEST NAME_253 ":65535"

static const struct good {
	const char *text;
	size_t len;
	enum endpoint_kind kind;
	const char *host;
	unsigned port;
	const char *canonical;
} good[] = {
    /* EP-1, EP-2, EP-3 */
    {TEXT("203.0.113.7:51820"), ENDPOINT_IPV4, "203.0.113.7", 51820, "203.0.113.7:51820"},
    {TEXT("[2001:db8::7]:51820"), ENDPOINT_IPV6, "2001:db8::7", 51820, "[2001:db8::7]:51820"},
    {TEXT("relay-a.example.net:51820"), ENDPOINT_NAME, "relay-a.example.net", 51820,
	"relay-a.example.net:51820"},
    /* One spelling. */
    {TEXT("Relay.EXAMPLE.net:1"), ENDPOINT_NAME, "relay.example.net", 1, "relay.example.net:1"},
    {TEXT("[2001:DB8:0:0:0:0:0:7]:65535"), ENDPOINT_IPV6, "2001:db8::7", 65535,
	"[2001:db8::7]:65535"},
    {TEXT("127.0.0.1:80"), ENDPOINT_IPV4, "127.0.0.1", 80, "127.0.0.1:80"},
    {TEXT("[::1]:80"), ENDPOINT_IPV6, "::1", 80, "[::1]:80"},
    {TEXT("[64:ff9b::c000:201]:80"), ENDPOINT_IPV6, "64:ff9b::c000:201", 80,
	"[64:ff9b::c000:201]:80"},
    {TEXT("host_1:80"), ENDPOINT_NAME, "host_1", 80, "host_1:80"},
    {TEXT("1.2.3.4a:80"), ENDPOINT_NAME, "1.2.3.4a", 80, "1.2.3.4a:80"},
    {TEXT(LABEL_63 ":80"), ENDPOINT_NAME, LABEL_63, 80, LABEL_63 ":80"},
    {TEXT(LONGEST), ENDPOINT_NAME, NAME_253, 65535, LONGEST},
};

static const struct bad {
	const char *text;
	size_t len;
} bad[] = {
    {TEXT("203.0.113.7:51820\nallowed_ip=::/0")}, /* EP-4 */
    {TEXT("[fe80::1%x\nallowed_ip=::/0]:51820")}, /* EP-5 */
    {TEXT("203.0.113.7:51820\r")},                /* EP-6 */
    {TEXT("203.0.113.7:51820\t")},                /* EP-7 */
    {TEXT(" 203.0.113.7:51820")},                 /* EP-8 */
    {TEXT("203.0.113.7:51820 ")},                 /* EP-9 */
    {TEXT("relay\0.example.net:51820")},          /* EP-10 */
    {TEXT("relay a.example.net:51820")},          /* EP-11 */
    {TEXT("203.0.113.7")},                        /* EP-13 */
    {TEXT("203.0.113.7:0")},                      /* EP-14 */
    {TEXT("203.0.113.7:65536")},                  /* EP-15 */
    {TEXT("203.0.113.7:+80")},                    /* EP-16 */
    {TEXT("relay.example.net:port")},             /* EP-17 */
    {TEXT("-relay.example.net:51820")},           /* EP-18 */
    {TEXT("relay..example.net:51820")},           /* EP-19 */
    {TEXT("[relay.example.net]:51820")},          /* EP-20 */
    {TEXT("[fe80::1%eth0]:51820")},               /* EP-21 */
    {TEXT("0.0.0.0:51820")},                      /* EP-22 */
    {TEXT("[::]:51820")},                         /* EP-23 */
    {TEXT("2001:db8::7:51820")},                  /* EP-24 */
    /* Ports. */
    {TEXT("a.example:")},
    {TEXT("a.example:00080")},
    {TEXT("a.example:080")},
    {TEXT("a.example:99999999999999999999")},
    {TEXT("a.example:-1")},
    {TEXT("a.example:8 0")},
    {TEXT("a.example:80:")},
    {TEXT("a.example:0x50")},
    {TEXT(":80")},
    {TEXT(":")},
    /* Names. */
    {TEXT("a.example.:80")},
    {TEXT(".a.example:80")},
    {TEXT("a-.example:80")},
    {TEXT("a.-b.example:80")},
    {TEXT("-:80")},
    {TEXT("x" LABEL_63 ":80")},
    {TEXT("x" NAME_253 ":80")},
    {TEXT("r\xc3\xa9lay.example:80")},
    {TEXT("a.example\x7f:80")},
    {TEXT("a/b:80")},
    {TEXT("user@a.example:80")},
    {TEXT("a%25.example:80")},
    /* What a resolver would take for an address. */
    {TEXT("127.1:80")},
    {TEXT("2130706433:80")},
    {TEXT("0x7f000001:80")},
    {TEXT("a.0x7f:80")},
    {TEXT("0177.0.0.1:80")},
    {TEXT("1.2.3.4.5:80")},
    {TEXT("256.1.1.1:80")},
    {TEXT("a.1:80")},
    {TEXT("1.2.3:80")},
    {TEXT("0x:80")},
    /* Addresses that no peer has, and IPv4 in disguise. */
    {TEXT("0.1.2.3:80")},
    {TEXT("224.0.0.1:80")},
    {TEXT("239.255.255.255:80")},
    {TEXT("255.255.255.255:80")},
    {TEXT("[ff02::1]:80")},
    {TEXT("[fe80::1]:80")},
    {TEXT("[::ffff:203.0.113.7]:80")},
    {TEXT("[::ffff:0:0]:80")},
    {TEXT("[::203.0.113.7]:80")},
    {TEXT("[::2]:80")},
    /* Brackets. */
    {TEXT("[]:80")},
    {TEXT("[:80")},
    {TEXT("]:80")},
    {TEXT("[::1:80")},
    {TEXT("::1]:80")},
    {TEXT("[[::1]]:80")},
    {TEXT("[203.0.113.7]:80")},
    {TEXT("[::1]80")},
    {TEXT("[::1]x:80")},
    {TEXT("[1:2:3:4:5:6:7:8:9]:80")},
    {TEXT("[::1::]:80")},
    {TEXT("[:::]:80")},
};

#define GOOD (sizeof(good) / sizeof(good[0]))
#define BAD  (sizeof(bad) / sizeof(bad[0]))

/* EP-1 to EP-3: each good endpoint is read, and its one spelling reads as itself. */
static void
good_ones_are_read(void **state)
{
	struct endpoint e, again;
	struct refusal r = {.code = ""};
	size_t i;

	(void)state;
	for (i = 0; i < GOOD; i++) {
		if (endpoint_parse(good[i].text, good[i].len, &e, &r) != 0)
			fail_msg("%s: %s", good[i].text, r.why);
		assert_int_equal(e.kind, good[i].kind);
		assert_string_equal(e.host, good[i].host);
		assert_int_equal(e.port, good[i].port);
		assert_string_equal(e.text, good[i].canonical);
		assert_int_equal(endpoint_parse(e.text, strlen(e.text), &again, &r), 0);
		assert_string_equal(again.text, e.text);
	}
}

/* EP-4 to EP-11, EP-13 to EP-24, and their like: refused, in words that do not repeat them. */
static void
bad_ones_are_refused(void **state)
{
	struct endpoint e;
	struct refusal r;
	size_t i;

	(void)state;
	for (i = 0; i < BAD; i++) {
		r.code[0] = '\0';
		if (endpoint_parse(bad[i].text, bad[i].len, &e, &r) == 0)
			fail_msg("taken: %s", bad[i].text);
		assert_string_equal(r.code, "endpoint.invalid");
		assert_non_null(strstr(r.why, "not a host:port"));
		assert_true(bad[i].len < 6 || strstr(r.why, bad[i].text) == NULL);
		assert_int_equal(endpoint_parse(bad[i].text, bad[i].len, &e, NULL), -1);
	}
}

/* Every single byte more, anywhere in a good endpoint, is refused unless a host may have it. */
static void
one_byte_more_is_noticed(void **state)
{
	static const char host[] = "relay.example.net:51820";
	char text[sizeof(host) + 1];
	struct endpoint e;
	size_t at;
	int c;

	(void)state;
	for (at = 0; at < sizeof(host); at++)
		for (c = 0; c < 256; c++) {
			memcpy(text, host, at);
			text[at] = (char)c;
			memcpy(text + at + 1, host + at, sizeof(host) - at);
			if (endpoint_parse(text, sizeof(host), &e, NULL) == 0 &&
			    strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789-_.",
				c) == NULL)
				fail_msg("byte %d at %zu is taken", c, at);
		}
}

/* EP-12: no endpoint at all has a refusal of its own. */
static void
none_is_missing(void **state)
{
	struct endpoint e;
	struct refusal r = {.code = ""};

	(void)state;
	assert_int_equal(endpoint_parse("", 0, &e, &r), -1);
	assert_string_equal(r.code, "endpoint.missing");
}

/*
 * Rows.
 */

static struct scratch s;

static void
store_once(int64_t id, int ord, const char *text, size_t len)
{
	scratch_endpoint(&s, id, ord, text, len);
	scratch_open(&s, ROLE_PERSON);
}

static void
forget(void)
{
	assert_int_equal(scratch_sql(&s, "DELETE FROM pairing_endpoint"), 0);
}

/* One more Host, in ${state}: a person consents to it on a local box, so this is on a network. */
static void
another(const char *host, const char *state)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
	    "UPDATE box SET mode = 'networked';"
	    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
	    " VALUES ('%s', 'unix', randomblob(32), 0, '%s', now_ms());"
	    "UPDATE box SET mode = 'local'",
	    host, state);
	if (scratch_sql(&s, sql) != 0)
		fail_msg("%s", s.error);
}

/* Two Hosts: laptop (1), and tower (2). */
static void
two_hosts(void)
{
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	another("tower", "active");
}

/*
 * EP-25 to EP-29 as far as rows go: a set is stored as one statement, the one spelling of each; one
 * bad entry anywhere, and nothing of the set is there.  (What carries the set to the box waits for
 * the network.)
 */
static void
a_set_is_stored_whole_or_not(void **state)
{
	static const char set[] =
	    "INSERT INTO pairing_endpoint (pairing_id, ord, endpoint)"
	    " SELECT 1, key + 1, endpoint_text(value) FROM json_each('%s') WHERE value <> ''";
	char sql[1024];

	(void)state;
	two_hosts();
	snprintf(sql, sizeof(sql), set, "[\"203.0.113.7:51820\",\"\",\"Relay.example.net:51820\"]");
	assert_int_equal(scratch_sql(&s, sql), 0);
	assert_string_equal(
	    scratch_text(&s, "SELECT group_concat(endpoint, ' ') FROM pairing_endpoint", sql, 1024),
	    "203.0.113.7:51820 relay.example.net:51820");
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit"
			      " WHERE entity = 'pairing_endpoint' AND action = 'added'"),
	    2);
	forget();
	snprintf(sql, sizeof(sql), set, "[\"203.0.113.7:51820\",\"203.0.113.7:0\"]");
	person_refused(&s, "endpoint.invalid", sql);
	assert_non_null(strstr(s.error, "not a host:port"));
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_endpoint"), 0);
	/* Not even by another spelling, and a Host cannot fill the table. */
	person_refused(&s, "endpoint.invalid",
	    "INSERT INTO pairing_endpoint VALUES (1, 1, 'Relay.example.net:1')");
	person_refused(&s, "endpoint.many",
	    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 17)"
	    " INSERT INTO pairing_endpoint SELECT 1, i, '203.0.113.7:' || i FROM n");
	assert_int_equal(
	    scratch_sql(&s, "INSERT INTO pairing_endpoint VALUES (1, 1, '203.0.113.7:1')"), 0);
	person_refused(
	    &s, "endpoint.fixed", "UPDATE pairing_endpoint SET endpoint = 'a.example:1'");
	scratch_drop(&s);
}

static void
served(int64_t id, bool yes)
{
	char sql[128];

	snprintf(sql, sizeof(sql), "SELECT active FROM pairing_status WHERE id = %d", (int)id);
	assert_int_equal(scratch_value(&s, sql), yes);
}

/* EP-32, EP-37, EP-38, CFG-1, CFG-5: with each bad entry in turn both load, and the other serves.
 */
static void
a_bad_one_stops_its_own_pairing_only(void **state)
{
	size_t i;

	(void)state;
	two_hosts();
	served(1, true); /* a pairing over a unix socket has none */
	for (i = 0; i < GOOD; i++) {
		store_once(1, 1, good[i].text, good[i].len);
		served(1, true);
		forget();
	}
	for (i = 0; i < BAD; i++) {
		store_once(1, 1, TEXT("203.0.113.7:51820"));
		store_once(1, 2, bad[i].text, bad[i].len);
		served(1, false);
		served(2, true);
		assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_status"), 2);
		forget();
	}
	scratch_drop(&s);
}

/* EP-33, EP-49, CFG-2: what is reported is "invalid", with where it is; it is never stored. */
static void
it_is_reported_never_stored(void **state)
{
	char text[512];

	(void)state;
	two_hosts();
	store_once(1, 1, TEXT("203.0.113.7:51820\nallowed_ip=::/0"));
	scratch_text(&s, "SELECT state || ': ' || reason FROM pairing_status WHERE id = 1", text,
	    sizeof(text));
	assert_non_null(strstr(text, "invalid: its endpoint 1"));
	assert_non_null(strstr(text, "not a host:port"));
	assert_null(strstr(text, "allowed_ip"));
	assert_int_equal(scratch_value(&s, "SELECT state = 'active' FROM pairing WHERE id = 1"), 1);
	assert_int_equal(scratch_sql(&s, "UPDATE pairing SET state = 'invalid' WHERE id = 1"), -1);
	scratch_drop(&s);
}

/* EP-34, EP-35, EP-43: nothing is done for it: no question, no grant, no run, no folder; what a
 * Host hears has "not served" in it and names no place of this machine. */
static void
nothing_is_done_for_it(void **state)
{
	int64_t id;

	(void)state;
	two_hosts();
	assert_int_equal(scratch_grant(&s, "observe:logins", "[]", 3, 60000), 1);
	store_once(1, 1, TEXT("0.0.0.0:51820"));
	person_refused(&s, NOT_SERVED,
	    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
	    " VALUES (1, 'observe:logins', '[]', lower(hex(randomblob(16))), 1, now_ms())");
	assert_non_null(strstr(s.error, "not served"));
	assert_null(strstr(s.error, "/"));
	person_refused(&s, NOT_SERVED,
	    "INSERT INTO context_ask (nonce, uid, box_name, pairing_id, host_name, root, name,"
	    "  asked_at, expires_at) VALUES (lower(hex(randomblob(16))), 7, 'box-a', 1, 'laptop',"
	    "  '/srv', 'srv', now_ms(), now_ms() + 1)");
	person_refused(&s, NOT_SERVED,
	    "INSERT INTO grant (pairing_id, kind, op, args, uses, created_at, expires_at, factor_id,"
	    "  approval_id, seal) SELECT 1, 'op', op, args, uses, 1, 2, 1, id, zeroblob(64)"
	    "  FROM approval");
	scratch_open(&s, ROLE_NET);
	assert_int_equal(approval_ask(s.db, 1, "observe:logins", "[]", 1, 60000, &id), -1);
	assert_string_equal(store_refusal(s.db)->code, NOT_SERVED);
	scratch_drop(&s);
}

/* EP-43, EP-44: a pending pairing with a bad endpoint stays pending, whoever approves it. */
static void
a_pending_one_stays_pending(void **state)
{
	(void)state;
	two_hosts();
	another("third", "pending");
	store_once(3, 1, TEXT("2001:db8::7:51820"));
	person_refused(&s, NOT_SERVED, "UPDATE pairing SET state = 'active' WHERE id = 3");
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'pending' FROM pairing WHERE id = 3"), 1);
	served(3, false);
	scratch_drop(&s);
}

/* EP-36, EP-51: unpairing leaves nothing of it, and pairing anew makes it valid. */
static void
it_can_be_removed_and_paired_anew(void **state)
{
	static const unsigned char key[32] = {7};
	struct pairing_offer offer = {.host = "laptop", .host_key = key};
	struct pairing_made made;
	struct pairing_end end;

	(void)state;
	two_hosts();
	assert_int_equal(scratch_sql(&s, "UPDATE pairing SET state = 'revoked', ended_at = now_ms()"
					 " WHERE id = 2"),
	    0);
	store_once(1, 1, TEXT("-relay.example.net:51820"));
	scratch_open(&s, ROLE_PERSON);
	if (pairing_revoke(s.db, 1, &end) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_endpoint"), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE action = 'removed'"), 1);
	scratch_open(&s, ROLE_PERSON);
	if (pairing_add(s.db, &offer, &made) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_int_equal(
	    scratch_sql(&s, "INSERT INTO pairing_endpoint VALUES (1, 1, '203.0.113.7:51820')"), 0);
	served(1, true);
	scratch_drop(&s);
}

/* EP-50: a new code mends it: the Host is reached where that one says, and keeps what it has. */
static void
a_new_code_mends_it(void **state)
{
	struct pairing_offer offer = {.host = "laptop", .replace = true};
	struct pairing pairing;
	struct pairing_made made;

	(void)state;
	two_hosts();
	assert_int_equal(scratch_grant(&s, "observe:logins", "[]", 3, 60000), 1);
	store_once(1, 1, TEXT("203.0.113.7:51820"));
	store_once(1, 2, TEXT("203.0.113.7:51820\r"));
	served(1, false);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(pairing_pick(s.db, "laptop", &pairing), 0);
	assert_string_equal(pairing.reason, "its endpoint 2 is not a host:port");
	offer.host_key = pairing.host_key;
	if (pairing_add(s.db, &offer, &made) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_string_equal(made.state, "active");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_endpoint"), 0);
	assert_int_equal(
	    scratch_sql(&s, "INSERT INTO pairing_endpoint VALUES (1, 1, '203.0.113.7:51820')"), 0);
	served(1, true);
	assert_int_equal(scratch_value(&s, "SELECT state = 'active' FROM grant WHERE id = 1"), 1);
	scratch_drop(&s);
}

/* A pairing that is invalid in two ways is one pairing, with one reason. */
static void
two_faults_are_one_row(void **state)
{
	(void)state;
	two_hosts();
	assert_int_equal(scratch_sql(&s, "UPDATE pairing SET peer_uid = 4294967295,"
					 " renewed_at = now_ms() WHERE id = 1"),
	    0);
	store_once(1, 1, TEXT("203.0.113.7:0"));
	store_once(1, 2, TEXT("203.0.113.7:51820\t"));
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_invalid"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_status"), 2);
	served(1, false);
	served(2, true);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(good_ones_are_read),
	    cmocka_unit_test(bad_ones_are_refused),
	    cmocka_unit_test(one_byte_more_is_noticed),
	    cmocka_unit_test(none_is_missing),
	    cmocka_unit_test(a_set_is_stored_whole_or_not),
	    cmocka_unit_test(a_bad_one_stops_its_own_pairing_only),
	    cmocka_unit_test(it_is_reported_never_stored),
	    cmocka_unit_test(nothing_is_done_for_it),
	    cmocka_unit_test(a_pending_one_stays_pending),
	    cmocka_unit_test(it_can_be_removed_and_paired_anew),
	    cmocka_unit_test(a_new_code_mends_it),
	    cmocka_unit_test(two_faults_are_one_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
