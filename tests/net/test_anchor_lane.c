/* test_anchor_lane.c: the anchor approves, revokes and looks over a box's lane; another Host sees
 * itself. */
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
#include "engine/crypto/key.h"
#include "engine/state/mode.h"
#include "engine/state/pairing.h"
#include "tests/driver.h"
#include "tests/paper.h"
#include "tests/wire.h"

#define PATH "/v1/pairings"
#define ASK  "{\"op\":\"observe:logins\",\"args\":[]}"

static struct driver d;
static struct store_keys keys;
static struct paper_host anchor, other, third;
static struct wire_answer answer;
static char lane[512];

/* Pair ${h} as the user ${by}. */
static void
pair(struct paper_host *h, const char *name, int64_t by)
{
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, &keys);
	struct pairing_offer offer = {
	    .host = name, .host_key = h->pk, .peer_uid = geteuid(), .by_uid = by};
	struct pairing_made made;

	paper_host(h, name);
	if (pairing_add(db, &offer, &made) != 0)
		fail_msg("%s", store_refusal(db)->why);
	h->id = made.id;
	store_close(db);
}

static int
serve(void **state)
{
	struct mode_change change = {.mode = "networked"};
	struct refusal r = {0};
	struct store *db;
	struct key *key;
	char path[128];

	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	snprintf(lane, sizeof(lane), "%s/lane.sock", d.run[DRIVER_BOX]);
	snprintf(path, sizeof(path), "%s/bastion.key", d.state[DRIVER_BOX]);
	if ((key = key_load(path, &r)) == NULL)
		fail_msg("%s", r.why);
	key_public(key, KEY_IDENTITY, keys.identity);
	key_public(key, KEY_GRANT, keys.grant);
	key_free(key);
	keys.present = true;
	db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, &keys);
	if (mode_set(db, &change) != 0)
		fail_msg("%s", store_refusal(db)->why);
	store_close(db);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

static int
asks(const struct paper_host *h, const char *method, const char *body)
{
	char headers[1024];

	paper_headers(h, method, PATH, body, headers, sizeof(headers));
	return wire_ask(lane, method, PATH, headers, body, strlen(body), &answer);
}

static int
asks_op(const struct paper_host *h)
{
	char headers[1024];

	paper_headers(h, "POST", "/v1/ops", ASK, headers, sizeof(headers));
	return wire_ask(lane, "POST", "/v1/ops", headers, ASK, strlen(ASK), &answer);
}

static void
paper_for(struct paper *p, const char *kind, const struct paper_host *subject)
{
	paper_make(p, kind, &anchor, d.box, keys.identity, subject);
}

/* The member ${path} of the answer, which is JSON. */
static void
told(const char *path, const char *want)
{
	char text[256];

	driver_text(&d, DRIVER_BOX, text, sizeof(text), "SELECT '%s' ->> '%s'", answer.body, path);
	assert_string_equal(text, want);
}

/* A networked machine answers no ask before it has an anchor, then the anchor's alone. */
static void
nobody_is_answered_without_an_anchor(void **state)
{
	struct anchor_claim claim = {.host = "main"};
	struct anchor_made made;
	struct store *db;

	(void)state;
	pair(&anchor, "main.example.org", 1000);
	assert_int_equal(asks_op(&anchor), 403);
	assert_string_equal(answer.refused, "anchor.none");
	told("$.error.exit", "126");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM approval"), 0);
	db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, &keys);
	if (anchor_claim(db, &claim, &made) != 0)
		fail_msg("%s", store_refusal(db)->why);
	store_close(db);
	assert_int_equal(asks_op(&anchor), 403);
	assert_string_equal(answer.refused, "approval.needed");
	pair(&other, "other.example.org", 0);
	pair(&third, "third.example.org", 0);
	assert_int_equal(asks_op(&other), 403);
	assert_string_equal(answer.refused, "pairing.inactive");
	assert_null(strstr(answer.body, "main.example.org"));
}

/* BEAT-3, BEAT-4, BEAT-6: signed by another key exit 126; approved and revoked by the anchor. */
static void
the_anchor_decides(void **state)
{
	char body[PAPER_BODY_MAX];
	struct paper p;

	(void)state;
	paper_for(&p, "pairing_grant", &other);
	paper_write(&p, &other);
	assert_int_equal(asks(&anchor, "POST", paper_body(&p, body)), 403);
	assert_string_equal(answer.refused, "anchor.signature");
	told("$.error.exit", "126");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM beat_request"), 0);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM refused WHERE code = 'anchor.signature'"
			     " AND pairing_id = %d AND surface = 'lane'",
			     (int)anchor.id),
	    1);
	paper_write(&p, &anchor);
	assert_int_equal(asks(&anchor, "POST", paper_body(&p, body)), 200);
	told("$.kind", "pairing_grant");
	told("$.host", "other.example.org");
	told("$.state", "active");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM beat_request"), 2);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM audit WHERE entity = 'pairing' AND action ="
			     " 'active' AND who = 'host:main.example.org'"),
	    1);
	/* It asks, and its question is its own. */
	assert_int_equal(asks_op(&other), 403);
	assert_string_equal(answer.refused, "approval.needed");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM open_approvals"), 2);
	/* The same bytes again, whoever carries them. */
	assert_int_equal(asks(&anchor, "POST", body), 409);
	assert_string_equal(answer.refused, "anchor.replayed");
	assert_int_equal(asks(&other, "POST", body), 409);
	paper_for(&p, "pairing_revoke", &other);
	p.issued_at++;
	paper_write(&p, &anchor);
	assert_int_equal(asks(&anchor, "POST", paper_body(&p, body)), 200);
	told("$.state", "revoked");
	/* Who was revoked has no voice here. */
	assert_int_equal(asks(&other, "GET", ""), 403);
	assert_string_equal(answer.refused, "lane.host");
}

/* EP-47: the anchor is told of every pairing, by name, handle, key and state. */
static void
the_anchor_sees_all(void **state)
{
	(void)state;
	assert_int_equal(asks(&anchor, "GET", ""), 200);
	told("$.pairings[0].host", "main.example.org");
	told("$.pairings[0].handle", "main");
	told("$.pairings[0].state", "active");
	told("$.pairings[1].state", "revoked");
	told("$.pairings[2].state", "pending");
	told("$.pairings[2].unapproved", "0");
	assert_null(strstr(answer.body, d.state[DRIVER_BOX]));
}

/* A Host that is not the anchor is told of itself, waiting or not, and of nothing else. */
static void
another_sees_itself(void **state)
{
	(void)state;
	assert_int_equal(asks(&third, "GET", ""), 200);
	told("$.pairings[0].host", "third.example.org");
	told("$.pairings[1]", "");
	assert_null(strstr(answer.body, "main.example.org"));
	assert_null(strstr(answer.body, "other.example.org"));
}

/* What is no pair of terms and signature is refused in the form, and leaves the database alone. */
static void
bodies_are_held_to_their_form(void **state)
{
	static const char *const bodies[] = {"", "{", "[]", "{}", "{\"terms\":\"x\"}",
	    "{\"terms\":1,\"signature\":\"\"}", "{\"terms\":\"{}\",\"signature\":\"\"}",
	    "{\"terms\":\"{}\",\"terms\":\"{}\",\"signature\":\"\"}",
	    "{\"terms\":\"a\\u0000b\",\"signature\":\"\"}"};
	int64_t before = driver_value(&d, DRIVER_BOX, "SELECT max(seq) FROM audit");
	char body[PAPER_BODY_MAX], *at;
	struct paper p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		assert_in_range(asks(&anchor, "POST", bodies[i]), 400, 422);
		assert_true(strncmp(answer.refused, "anchor.terms", 12) == 0 ||
			    strncmp(answer.refused, "json.", 5) == 0);
	}
	paper_for(&p, "pairing_grant", &third);
	paper_write(&p, &anchor);
	/* A second spelling of the signature; a member too many; a signature cut short. */
	paper_body(&p, body);
	at = strstr(body, "==\"}");
	at[-1] = at[-1] == 'A' ? 'B' : (char)(at[-1] + 1);
	assert_int_equal(asks(&anchor, "POST", body), 422);
	paper_body(&p, body);
	snprintf(body + strlen(body) - 1, 16, ",\"x\":1}");
	assert_int_equal(asks(&anchor, "POST", body), 422);
	paper_body(&p, body);
	memcpy(strstr(body, "==\"}"), "\"}", 3);
	assert_int_equal(asks(&anchor, "POST", body), 422);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT max(seq) FROM audit"), before);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing WHERE state = 'pending'"),
	    1);
}

/* EP-43: an invalid pairing is not approved over the lane, and the answer names no file. */
static void
an_invalid_pairing_is_not_approved(void **state)
{
	struct pairing_offer offer = {.peer_uid = 4294967295, .replace = true};
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, &keys);
	struct pairing_made made;
	char body[PAPER_BODY_MAX];
	struct paper p;

	(void)state;
	offer.host = third.name;
	offer.host_key = third.pk;
	if (pairing_add(db, &offer, &made) != 0)
		fail_msg("%s", store_refusal(db)->why);
	paper_for(&p, "pairing_grant", &third);
	paper_write(&p, &anchor);
	assert_int_equal(asks(&anchor, "POST", paper_body(&p, body)), 403);
	assert_string_equal(answer.refused, "pairing.invalid");
	told("$.error.exit", "126");
	assert_non_null(strstr(answer.body, "not served"));
	assert_null(strchr(answer.body, '/'));
	assert_int_equal(asks(&anchor, "GET", ""), 200);
	assert_null(strstr(answer.body, "third.example.org"));
	offer.peer_uid = geteuid();
	assert_int_equal(pairing_add(db, &offer, &made), 0);
	store_close(db);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_is_answered_without_an_anchor),
	    cmocka_unit_test(the_anchor_decides),
	    cmocka_unit_test(the_anchor_sees_all),
	    cmocka_unit_test(another_sees_itself),
	    cmocka_unit_test(bodies_are_held_to_their_form),
	    cmocka_unit_test(an_invalid_pairing_is_not_approved),
	};

	return cmocka_run_group_tests(tests, serve, stop);
}
