/* test_anchor.c: modes; who a networked machine answers to; what that Host signs, and what else it
 * might. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/state/anchor.h"
#include "engine/state/mode.h"
#include "engine/state/pairing.h"
#include "tests/paper.h"
#include "tests/person.h"

#define DAY       INT64_C(86400000)
#define HALF_YEAR (183 * DAY)

/* Pair ${h} as the user ${by}. */
static void
host_pair(struct scratch *s, struct paper_host *h, const char *name, int64_t by)
{
	struct pairing_offer offer = {
	    .host = name, .host_key = h->pk, .peer_uid = 1000, .by_uid = by, .answer = "yes"};
	struct pairing_made made;

	paper_host(h, name);
	if (pairing_add(scratch_open(s, ROLE_PERSON), &offer, &made) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
	h->id = made.id;
}

/* What is right, for the machine of ${s}. */
static void
paper_for(struct scratch *s, struct paper *p, const char *kind, const struct paper_host *anchor,
    const struct paper_host *subject)
{
	paper_make(p, kind, anchor, "box-a", s->keys.identity, subject);
}

static int
paper_take(struct scratch *s, struct paper *p, struct anchor_taken *taken)
{
	return anchor_take(scratch_open(s, ROLE_NET), &p->given, taken);
}

/* What the last refusal said, kept while the database is looked at. */
static struct refusal said;

/* Refused with ${code}, which is exit 126, and not a byte of the database is another. */
static void
paper_refused(struct scratch *s, struct paper *p, const char *code)
{
	unsigned char before[32], after[32];
	struct anchor_taken taken;
	char sql[96];

	person_digest(s, before);
	if (paper_take(s, p, &taken) == 0)
		fail_msg("taken, though %s should hold it: %s", code, p->text);
	said = *store_refusal(s->db);
	if (strcmp(said.code, code) != 0)
		fail_msg("%s, not %s: %s", said.code, code, p->text);
	person_digest(s, after);
	assert_memory_equal(before, after, 32);
	snprintf(sql, sizeof(sql), "SELECT exit_code FROM refusal WHERE code = '%s'", code);
	assert_int_equal(scratch_value(s, sql), 126);
}

/* Sign and take what is right. */
static void
says(struct scratch *s, const char *kind, const struct paper_host *anchor,
    const struct paper_host *subject)
{
	struct anchor_taken taken;
	struct paper p;

	clock_fix(clock_now() + 1);
	paper_for(s, &p, kind, anchor, subject);
	paper_write(&p, anchor);
	if (paper_take(s, &p, &taken) != 0)
		fail_msg("%s: %s", store_refusal(s->db)->code, store_refusal(s->db)->why);
	assert_string_equal(taken.kind, kind);
	assert_string_equal(taken.host, subject->name);
}

static void
set_networked(struct scratch *s)
{
	struct mode_change change = {.mode = "networked"};

	if (mode_set(scratch_open(s, ROLE_PERSON), &change) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
}

/* A networked machine with the anchor ${m} and ${other}, which waits for its word. */
static void
anchored(struct scratch *s, struct paper_host *m, struct paper_host *other)
{
	scratch_make(s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	set_networked(s);
	host_pair(s, m, "main.example.org", 0);
	if (other != NULL)
		host_pair(s, other, "other.example.org", 0);
}

static int64_t
beats(struct scratch *s)
{
	return scratch_value(s, "SELECT count(*) FROM beat_request");
}

/* What a beat does once it was sent. */
static void
beaten(struct scratch *s)
{
	assert_int_equal(scratch_sql(s, "DELETE FROM beat_request"), 0);
}

static int
claims(struct scratch *s, const struct anchor_claim *claim, struct anchor_made *made)
{
	return anchor_claim(scratch_open(s, ROLE_PERSON), claim, made);
}

static void
claim_refused(struct scratch *s, const struct anchor_claim *claim, const char *code)
{
	unsigned char before[32], after[32];
	struct anchor_made made;

	person_digest(s, before);
	assert_int_equal(claims(s, claim, &made), -1);
	said = *store_refusal(s->db);
	assert_string_equal(said.code, code);
	person_digest(s, after);
	assert_memory_equal(before, after, 32);
}

/* A claim that succeeds and writes nothing. */
static void
claim_is_so(struct scratch *s, const struct anchor_claim *claim)
{
	unsigned char before[32], after[32];
	struct anchor_made made;

	person_digest(s, before);
	if (claims(s, claim, &made) != 0)
		fail_msg("%s: %s", store_refusal(s->db)->code, store_refusal(s->db)->why);
	assert_false(made.changed);
	person_digest(s, after);
	assert_memory_equal(before, after, 32);
}

/*
 * Modes.
 */

/* B1: the mode moves on root's word, both ways while nobody holds the anchor, and is audited. */
static void
root_changes_the_mode(void **state)
{
	struct mode_change change = {.mode = "networked", .by_uid = 1000};
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(mode_set(s.db, &change), -1);
	person_says(&s, "box.authority");
	change.by_uid = 0;
	assert_int_equal(mode_set(s.db, &change), 0);
	assert_int_equal(mode_set(s.db, &change), -1);
	person_says(&s, "box.mode");
	assert_int_equal(scratch_value(&s, "SELECT mode = 'networked' FROM box"), 1);
	change.mode = "local";
	assert_int_equal(mode_set(s.db, &change), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'box'"
			      " AND action IN ('networked', 'local') AND who = 'test:scratch'"),
	    2);
	/* The role of a person cannot go past it. */
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(s.db), 0);
	assert_null(store_sql(s.db, "UPDATE box SET mode = 'networked'"));
	person_says(&s, "store.role");
	store_rollback(s.db);
	person_refused(&s, "box.history", "UPDATE mode_change SET mode = 'local'");
	person_refused(&s, "box.history", "DELETE FROM mode_change");
	scratch_drop(&s);
}

/* Where a factor is enrolled it proves who changes the mode, fresh, and each proof serves once. */
static void
a_factor_proves_the_change(void **state)
{
	struct mode_change change = {.mode = "networked"};
	struct person p;
	struct scratch s;
	char code[7];

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(&s, &p, "phone");
	scratch_open(&s, ROLE_PERSON);
	change.key = s.key;
	assert_int_equal(mode_check(s.db, &change), -1);
	person_says(&s, "box.factor");
	assert_int_equal(mode_set(s.db, &change), -1);
	person_says(&s, "box.factor");
	change.code = "000000";
	assert_int_equal(mode_set(s.db, &change), -1);
	person_says(&s, "factor.code");
	change.code = person_code(&p, clock_now(), code);
	assert_int_equal(mode_set(s.db, &change), 0);
	change.mode = "local";
	assert_int_equal(mode_set(s.db, &change), -1);
	person_says(&s, "factor.used");
	/* A proof from before this transaction is none. */
	person_refused(&s, "box.factor",
	    "INSERT INTO mode_change (mode, at, by_uid, factor_id)"
	    " VALUES ('local', now_ms() + 1, 0, NULL)");
	clock_fix(clock_now() + 30000);
	person_refused(&s, "box.factor",
	    "INSERT INTO mode_change (mode, at, by_uid, factor_id)"
	    " VALUES ('local', now_ms(), 0, 1)");
	scratch_drop(&s);
}

/* An SSH key signs the number of the change, so its signature serves for one. */
static void
an_ssh_key_proves_one_change(void **state)
{
	struct mode_change change = {.mode = "networked"};
	char terms[MODE_TERMS_MAX], command[512], armored[2048];
	struct person p;
	struct scratch s;
	size_t len;
	FILE *f;

	(void)state;
	scratch_make(&s, HOME_BOX);
	person_enrol_key(&s, &p, "key");
	assert_int_equal(mode_terms(scratch_open(&s, ROLE_PERSON), "networked", terms), 0);
	assert_non_null(strstr(terms, "mode: networked\nchange: 1\n"));
	snprintf(command, sizeof(command),
	    "ssh-keygen -q -Y sign -n bastion -f %s > %s/signature 2>/dev/null", p.path, s.dir);
	assert_non_null(f = popen(command, "we"));
	fputs(terms, f);
	assert_int_equal(pclose(f), 0);
	snprintf(command, sizeof(command), "%s/signature", s.dir);
	assert_non_null(f = fopen(command, "re"));
	len = fread(armored, 1, sizeof(armored) - 1, f);
	armored[len] = '\0';
	fclose(f);
	change.signature = armored;
	change.mode = "local";
	assert_int_equal(mode_set(s.db, &change), -1);
	person_says(&s, "box.mode");
	change.mode = "networked";
	if (mode_set(s.db, &change) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
	assert_int_equal(scratch_sql(&s, "UPDATE box SET mode = 'local'"), 0);
	assert_int_equal(mode_set(scratch_open(&s, ROLE_PERSON), &change), -1);
	person_says(&s, "factor.signature");
	scratch_drop(&s);
}

/* B1: an anchored machine stays networked, whoever writes it. */
static void
anchored_is_never_local(void **state)
{
	struct mode_change change = {.mode = "local"};
	struct scratch s;
	struct paper_host m;

	(void)state;
	anchored(&s, &m, NULL);
	assert_int_equal(mode_set(scratch_open(&s, ROLE_PERSON), &change), -1);
	person_says(&s, "box.anchored");
	person_refused(&s, "box.anchored", "UPDATE box SET mode = 'local'");
	person_refused(&s, "anchor.held", "DELETE FROM anchor");
	scratch_drop(&s);
}

/*
 * Claiming.
 */

/* ANC-0: the first Host that root pairs on a networked machine is its anchor, in one transaction.
 */
static void
the_first_pairing_anchors(void **state)
{
	struct paper_host m, other;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	assert_int_equal(scratch_value(&s, "SELECT pairing_id FROM live_anchor"), m.id);
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'pending' FROM pairing WHERE id = 2"), 1);
	scratch_drop(&s);
	/* In one transaction, whose clock stands still. */
	scratch_make(&s, HOME_BOX);
	set_networked(&s);
	host_pair(&s, &m, "main", 0);
	assert_int_equal(
	    scratch_value(&s,
		"SELECT a.claimed_at = p.since AND a.by_uid = 0 AND a.reason = 'paired'"
		" FROM anchor AS a JOIN pairing AS p ON p.id = a.pairing_id"),
	    1);
	scratch_drop(&s);
	/* Not where another than root pairs, nor on a local machine, nor beside another Host. */
	scratch_make(&s, HOME_BOX);
	host_pair(&s, &m, "main", 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM anchor"), 0);
	set_networked(&s);
	host_pair(&s, &other, "other", 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM anchor"), 0);
	scratch_drop(&s);
	scratch_make(&s, HOME_BOX);
	set_networked(&s);
	host_pair(&s, &m, "main", 1000);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM anchor"), 0);
	scratch_drop(&s);
}

/* Before a code is redeemed nobody has the authority of its Host: that is looked over as well,
 * where the Host will be the first, and where it will wait, and nothing is written. */
static void
a_host_is_looked_over_before_its_authority_is_known(void **state)
{
	struct paper_host h;
	struct pairing_offer offer = {
	    .host = "main", .host_key = h.pk, .transport = "reverse", .by_uid = 0};
	unsigned char before[32], after[32];
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	set_networked(&s);
	paper_host(&h, "main");
	person_digest(&s, before);
	if (pairing_check(scratch_open(&s, ROLE_PERSON), &offer) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	person_digest(&s, after);
	assert_memory_equal(before, after, 32);
	host_pair(&s, &h, "first", 0);
	paper_host(&h, "main");
	if (pairing_check(scratch_open(&s, ROLE_PERSON), &offer) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing"), 1);
	scratch_drop(&s);
}

/* ANC-1, ANC-2: machine authority is looked for first, then the mode, consent or not. */
static void
a_claim_needs_root_and_a_network(void **state)
{
	struct anchor_claim claim = {.by_uid = 1000};
	struct anchor_signed consent = {.terms = "", .len = 0};
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	person_host(&s, "main");
	claim_refused(&s, &claim, "box.authority");
	assert_non_null(strstr(said.why, "machine authority"));
	claim.consent = &consent;
	claim.rotate = true;
	claim_refused(&s, &claim, "box.authority");
	claim.by_uid = 0;
	claim_refused(&s, &claim, "anchor.mode");
	assert_int_equal(scratch_value(&s, "SELECT advice LIKE '%set-mode networked%' FROM refusal"
					   " WHERE code = 'anchor.mode'"),
	    1);
	scratch_drop(&s);
}

/* ANC-3, ANC-5: claiming what is so already changes nothing, by full name or handle; another is
 * refused. */
static void
a_claim_can_be_repeated(void **state)
{
	struct anchor_claim first = {.owner = "Acme"}, again = {.owner = "Other"};
	struct anchor_made made;
	struct paper_host m, other;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	set_networked(&s);
	claim_refused(&s, &first, "pairing.unknown");
	host_pair(&s, &m, "main.example.org", 1000);
	if (claims(&s, &first, &made) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_true(made.changed);
	assert_string_equal(made.owner, "Acme");
	host_pair(&s, &other, "other.example.org", 0);
	claim_is_so(&s, &again);
	again.host = "main.example.org";
	claim_is_so(&s, &again);
	again.host = "main";
	claim_is_so(&s, &again);
	again.rotate = true;
	claim_is_so(&s, &again);
	again.host = NULL;
	claim_refused(&s, &again, "pairing.several");
	again.rotate = false;
	again.host = "other";
	claim_refused(&s, &again, "anchor.held");
	assert_non_null(strstr(said.why, "already anchored"));
	assert_non_null(strstr(said.why, "--rotate"));
	assert_non_null(strstr(said.why, "30 days"));
	again.host = "nobody";
	claim_refused(&s, &again, "anchor.held");
	scratch_drop(&s);
}

/* ANC-4: an anchor whose pairing does not stand is no success, and nothing is undone by asking. */
static void
an_anchor_that_fell_is_not_claimed_again(void **state)
{
	struct anchor_claim claim = {.host = NULL};
	struct pairing_offer offer = {.by_uid = 0, .peer_uid = 1000};
	struct pairing_made made;
	struct pairing_end end;
	struct paper_host m;
	struct scratch s;

	(void)state;
	anchored(&s, &m, NULL);
	clock_fix(clock_now() + 1);
	assert_int_equal(pairing_revoke(scratch_open(&s, ROLE_PERSON), m.id, &end), 0);
	assert_true(end.anchor);
	claim_refused(&s, &claim, "anchor.held");
	claim.host = "main";
	claim_refused(&s, &claim, "anchor.held");
	offer.host = m.name;
	offer.host_key = m.pk;
	assert_int_equal(pairing_add(scratch_open(&s, ROLE_PERSON), &offer, &made), 0);
	assert_string_equal(made.state, "pending");
	assert_false(made.anchor);
	claim_refused(&s, &claim, "anchor.held");
	claim.host = NULL;
	claim_refused(&s, &claim, "anchor.held");
	person_refused(&s, "anchor.approval", "UPDATE pairing SET state = 'active'");
	claim.rotate = true;
	claim_refused(&s, &claim, "anchor.approval");
	claim.rotate = false;
	/* Its own word brings it back. */
	says(&s, "pairing_grant", &m, &m);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_anchor"), 1);
	claim_is_so(&s, &claim);
	scratch_drop(&s);
}

/* Steps e and g: none, one, several; revoked stays revoked, pending is approved with the claim. */
static void
a_claim_picks_no_host_silently(void **state)
{
	struct anchor_claim claim = {.host = NULL};
	struct anchor_made made;
	struct pairing_end end;
	struct paper_host m, other;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	host_pair(&s, &m, "main", 1000);
	host_pair(&s, &other, "other", 1000);
	set_networked(&s);
	claim_refused(&s, &claim, "pairing.several");
	assert_non_null(strstr(said.why, "main, other"));
	assert_int_equal(pairing_revoke(scratch_open(&s, ROLE_PERSON), other.id, &end), 0);
	claim.host = "other";
	claim_refused(&s, &claim, "anchor.revoked");
	person_refused(&s, "anchor.revoked",
	    "INSERT INTO anchor (id, pairing_id, host_key, reason, claimed_at, by_uid, heard_at)"
	    " SELECT 1, id, host_key, 'claimed', now_ms(), 0, now_ms() FROM pairing WHERE id = 2");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE pairing SET state = 'pending', ended_at = NULL WHERE id = 2"),
	    0);
	assert_int_equal(claims(&s, &claim, &made), 0);
	assert_string_equal(made.reason, "claimed");
	assert_int_equal(scratch_value(&s, "SELECT state = 'active' FROM pairing WHERE id = 2"), 1);
	scratch_drop(&s);
}

enum fault { FAULT_USER, FAULT_ENDPOINT, FAULTS };

/* Make the pairing ${id} one that cannot be served. */
static void
spoil(struct scratch *s, int64_t id, enum fault fault)
{
	char sql[128];

	if (fault == FAULT_ENDPOINT) {
		scratch_endpoint(s, id, 1, "203.0.113.7:51820\nallowed_ip=::/0", 33);
		return;
	}
	snprintf(sql, sizeof(sql),
	    "UPDATE pairing SET peer_uid = 4294967295, renewed_at = now_ms() WHERE id = %d",
	    (int)id);
	if (scratch_sql(s, sql) != 0)
		fail_msg("%s", s->error);
}

/* ANC-6, EP-39 to EP-42: an invalid pairing is no anchor: alone or named, active or pending. */
static void
an_invalid_pairing_is_no_anchor(void **state)
{
	static const char pending[] =
	    "UPDATE pairing SET state = 'revoked', ended_at = 1 WHERE id = 1;"
	    "UPDATE pairing SET state = 'pending', ended_at = NULL WHERE id = 1";
	struct anchor_claim claim = {.host = NULL};
	struct paper_host m, other;
	struct scratch s;
	size_t i;

	(void)state;
	for (i = 0; i < 8; i++) {
		scratch_make(&s, HOME_BOX);
		host_pair(&s, &m, "main", 1000);
		if ((i & 2) != 0)
			host_pair(&s, &other, "other", 1000);
		claim.host = (i & 2) != 0 ? "main" : NULL;
		set_networked(&s);
		if ((i & 1) != 0 && scratch_sql(&s, pending) != 0)
			fail_msg("%s", s.error);
		spoil(&s, m.id, (i & 4) != 0 ? FAULT_ENDPOINT : FAULT_USER);
		claim_refused(&s, &claim, "pairing.invalid");
		assert_non_null(strstr(said.why, (i & 4) != 0 ? "its endpoint 1" : "no process"));
		person_refused(&s, "pairing.invalid",
		    "INSERT INTO anchor (id, pairing_id, host_key, reason, claimed_at, by_uid,"
		    " heard_at) SELECT 1, id, host_key, 'claimed', now_ms(), 0, now_ms()"
		    " FROM pairing WHERE id = 1");
		scratch_drop(&s);
	}
}

/* The tables say it whoever asks. */
static void
the_anchor_holds(void **state)
{
	struct paper_host m, other;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	clock_fix(clock_now() + 40 * DAY);
	says(&s, "pairing_grant", &m, &other);
#define MOVE(rest)                                                                                  \
	"UPDATE anchor SET pairing_id = 2, host_key = (SELECT host_key FROM pairing WHERE id = 2)," \
	" claimed_at = now_ms(), heard_at = now_ms(), " rest
	person_refused(&s, "anchor.silence", MOVE("reason = 'silent'"));
	person_refused(&s, "anchor.consent", MOVE("reason = 'consent', terms_id = 1"));
	person_refused(&s, "anchor.held", MOVE("reason = 'claimed'"));
	person_refused(&s, "anchor.held", "UPDATE anchor SET owner = 'me'");
	person_refused(&s, "anchor.held", "UPDATE anchor SET heard_at = heard_at - 1");
	person_refused(&s, "anchor.held", "UPDATE anchor SET heard_at = now_ms() + 1");
	person_refused(&s, "anchor.held",
	    "UPDATE anchor SET host_key = randomblob(32),"
	    " claimed_at = now_ms(), heard_at = now_ms(),"
	    " reason = 'silent'");
	clock_fix(clock_now() + 40 * DAY);
	person_refused(&s, "box.authority", MOVE("reason = 'silent', by_uid = 1000"));
	person_refused(&s, "anchor.silence", MOVE("reason = 'silent', terms_id = 1"));
	person_refused(&s, "anchor.held",
	    "INSERT INTO anchor (id, pairing_id, host_key, reason, claimed_at, by_uid, heard_at)"
	    " SELECT 2, id, host_key, 'claimed', now_ms(), 0, now_ms() FROM pairing WHERE id = 2");
	person_refused(&s, "anchor.history", "UPDATE anchor_terms SET taken_at = 0");
	person_refused(&s, "anchor.history", "DELETE FROM anchor_terms");
	scratch_drop(&s);
}

/*
 * What a machine without an anchor answers.
 */

/* A networked machine without an anchor in force refuses every op, whatever was granted. */
static void
unanchored_refuses_every_op(void **state)
{
	struct anchor_claim claim = {.host = "main"};
	struct anchor_made made;
	struct pairing_end end;
	int64_t grant_id, question;
	struct person p;
	struct paper_host m;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	host_pair(&s, &m, "main", 1000);
	person_enrol(&s, &p, "phone");
	grant_id = person_granted(&s, &p, m.id, "[1]");
	assert_int_equal(scratch_sql(&s, "UPDATE box SET mode = 'networked'"), 0);
	assert_int_equal(person_run(&s, grant_id, 1), -1);
	person_says(&s, "anchor.none");
	assert_int_equal(approval_ask(scratch_open(&s, ROLE_NET), m.id, "observe:folders", "[2]", 1,
			     1000, &question),
	    -1);
	person_says(&s, "anchor.none");
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM pairing_may WHERE pairing_id = 1"), 0);
	assert_int_equal(claims(&s, &claim, &made), 0);
	assert_int_equal(person_run(&s, grant_id, 1), 0);
	/* Nor where the anchor's pairing was taken back: others that it approved do not go on. */
	assert_int_equal(pairing_revoke(scratch_open(&s, ROLE_PERSON), m.id, &end), 0);
	assert_int_equal(person_run(&s, grant_id, 2), -1);
	person_says(&s, "anchor.none");
	scratch_drop(&s);
}

/* The anchor's word is needed for each kind of op, for as long as it says. */
static void
others_may_what_the_anchor_approved(void **state)
{
	int64_t grant_id, question;
	struct anchor_taken taken;
	struct paper paper;
	struct person p;
	struct paper_host m, other;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	person_enrol(&s, &p, "phone");
	scratch_open(&s, ROLE_NET);
	assert_int_equal(
	    approval_ask(s.db, other.id, "observe:folders", "[1]", 1, 1000, &question), -1);
	person_says(&s, "pairing.inactive");
	paper_for(&s, &paper, "pairing_grant", &m, &other);
	paper.caps = "[\"inference\"]";
	paper_write(&paper, &m);
	assert_int_equal(paper_take(&s, &paper, &taken), 0);
	assert_string_equal(taken.state, "active");
	assert_int_equal(
	    approval_ask(s.db, other.id, "observe:folders", "[1]", 1, 1000, &question), -1);
	person_says(&s, "anchor.caps");
	clock_fix(clock_now() + 1);
	paper_for(&s, &paper, "pairing_grant", &m, &other);
	paper.expires_at = clock_now() + 60000;
	paper_write(&paper, &m);
	assert_int_equal(paper_take(&s, &paper, &taken), 0);
	grant_id = person_granted(&s, &p, other.id, "[1]");
	assert_int_equal(person_run(&s, grant_id, 1), 0);
	/* The approval of the pairing ran out; the grant still stands, and is worth nothing. */
	clock_fix(paper.expires_at);
	assert_int_equal(scratch_value(&s, "SELECT expires_at > now_ms() FROM grant"), 1);
	assert_int_equal(person_run(&s, grant_id, 2), -1);
	person_says(&s, "anchor.caps");
	assert_int_equal(scratch_sql(&s, "UPDATE pairing SET state = 'pending' WHERE id = 2"), 0);
	person_refused(&s, "anchor.approval", "UPDATE pairing SET state = 'active' WHERE id = 2");
	says(&s, "pairing_grant", &m, &other);
	assert_int_equal(person_run(&s, grant_id, 2), 0);
	scratch_drop(&s);
}

/*
 * Terms.
 */

/* BEAT-3, BEAT-4, BEAT-5, BEAT-6: a signature of another key changes nothing; approval and
 * revocation are heard of by every Host at once, a repeated approval is not. */
static void
terms_move_the_pairing(void **state)
{
	struct anchor_taken taken;
	struct paper_host m, other;
	struct paper p;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	paper_for(&s, &p, "pairing_grant", &m, &other);
	paper_write(&p, &other);
	paper_refused(&s, &p, "anchor.signature");
	assert_int_equal(beats(&s), 0);
	paper_write(&p, &m);
	assert_int_equal(paper_take(&s, &p, &taken), 0);
	assert_string_equal(taken.state, "active");
	assert_int_equal(beats(&s), 2);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'anchor_terms'"
			      " AND action = 'pairing_grant' AND pairing = 'main.example.org'"),
	    1);
	beaten(&s);
	clock_fix(clock_now() + 1);
	paper_for(&s, &p, "pairing_grant", &m, &other);
	p.caps = "[\"observe\",\"dcn\"]";
	paper_write(&p, &m);
	assert_int_equal(paper_take(&s, &p, &taken), 0);
	assert_string_equal(taken.state, "active");
	assert_int_equal(beats(&s), 0);
	assert_int_equal(scratch_value(&s, "SELECT json_array_length(caps) FROM pairing_status"
					   " WHERE id = 2"),
	    2);
	says(&s, "pairing_revoke", &m, &other);
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'revoked' FROM pairing WHERE id = 2"), 1);
	/* Who was revoked is told nothing more. */
	assert_int_equal(scratch_value(&s, "SELECT pairing_id FROM beat_request"), m.id);
	assert_int_equal(beats(&s), 1);
	scratch_drop(&s);
}

/* A burst of changes is one beat for each Host. */
static void
a_burst_is_one_beat(void **state)
{
	struct paper_host m, a, b;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &a);
	host_pair(&s, &b, "third", 0);
	says(&s, "pairing_grant", &m, &a);
	says(&s, "pairing_grant", &m, &b);
	says(&s, "pairing_revoke", &m, &b);
	assert_int_equal(beats(&s), 2);
	scratch_drop(&s);
}

/* What is signed is these bytes, for this machine, about this Host, now and once. */
static void
wrong_terms_are_refused(void **state)
{
	struct anchor_taken taken;
	struct paper_host m, other, third;
	struct paper p;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	paper_host(&third, "third");
	paper_for(&s, &p, "pairing_grant", &m, &other);
	/* Other bytes than were signed; a signature for another purpose. */
	paper_write(&p, &m);
	p.text[strlen(p.text) - 2] ^= 1;
	paper_refused(&s, &p, "anchor.signature");
	paper_write(&p, &m);
	paper_sign(&p, &m, "bastion-lane-1");
	paper_refused(&s, &p, "anchor.signature");
	paper_write(&p, &m);
	p.given.len--;
	paper_refused(&s, &p, "anchor.signature");
	/* Another machine, by name or by key; in another anchor's name. */
	p.server = "box-b";
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.other");
	p.server = "box-a";
	p.key[0] ^= 1;
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.other");
	p.key[0] ^= 1;
	p.anchor = other.name;
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.other");
	p.anchor = m.name;
	/* Nobody's name, another Host's key. */
	p.subject = &third;
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.subject");
	p.subject = &other;
	sodium_bin2hex(p.subject_key, sizeof(p.subject_key), third.pk, 32);
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.subject");
	/* Times. */
	paper_for(&s, &p, "pairing_grant", &m, &other);
	p.issued_at = clock_now() + 60001;
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.time");
	p.issued_at = clock_now() - 60001;
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.time");
	p.issued_at = clock_now();
	p.expires_at = p.issued_at;
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.time");
	p.issued_at = clock_now() - 2;
	p.expires_at = clock_now();
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.expired");
	/* Itself. */
	paper_for(&s, &p, "pairing_revoke", &m, &m);
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.self");
	p.kind = "anchor_consent";
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.self");
	/* And what is right is taken after all of that. */
	paper_for(&s, &p, "pairing_grant", &m, &other);
	paper_write(&p, &m);
	assert_int_equal(paper_take(&s, &p, &taken), 0);
	scratch_drop(&s);
}

/* The form is exact: nothing missing, doubled, added, of another type, or none at all. */
static void
terms_have_one_form(void **state)
{
	static const char *const whole[] = {"", "{}", "[]", "null", "{", "[[[[", "{\"kind\":1}",
	    "{\"kind\":\"pairing_grant\"}", "\"text\"", "1"};
	static const char *const kinds[] = {"", "grant", "Pairing_grant", "pairing_grant "};
	static const char *const caps[] = {"null", "{}", "1", "\"observe\"", "[1]", "[null]",
	    "[\"\"]", "[\"Observe\"]", "[\"a b\"]", "[[\"observe\"]]", "[\"observe\",2]",
	    "[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]"};
	static const char *const more[] = {",\"x\":1", ",\"kind\":\"pairing_revoke\"",
	    ",\"caps\":[]", ",\"subject\":\"main.example.org\"", ",\"expires_at\":9999999999999"};
	struct paper_host m, other;
	struct paper p;
	struct scratch s;
	size_t i;

	(void)state;
	anchored(&s, &m, &other);
	paper_for(&s, &p, "pairing_grant", &m, &other);
	for (i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		snprintf(p.text, sizeof(p.text), "%s", whole[i]);
		paper_sign(&p, &m, ANCHOR_DOMAIN);
		paper_refused(&s, &p, "anchor.terms");
	}
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		p.kind = kinds[i];
		paper_write(&p, &m);
		paper_refused(&s, &p, "anchor.terms");
	}
	p.kind = "pairing_grant";
	for (i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		p.caps = caps[i];
		paper_write(&p, &m);
		paper_refused(&s, &p, "anchor.terms");
	}
	p.caps = "[]";
	for (i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		p.more = more[i];
		paper_write(&p, &m);
		paper_refused(&s, &p, "anchor.terms");
	}
	/* A name that poses as two. */
	snprintf(p.text, sizeof(p.text),
	    "{\"anchor text,caps array,expires_at\":1,\"issued_at\":1,\"kind\":\"pairing_grant\","
	    "\"server\":\"\",\"server_key\":\"\",\"subject\":\"\",\"subject_key\":\"\"}");
	paper_sign(&p, &m, ANCHOR_DOMAIN);
	paper_refused(&s, &p, "anchor.terms");
	scratch_drop(&s);
}

/* Whatever the bytes that the anchor signed: they are taken, or refused by a rule of ours. */
static void
no_bytes_break_it(void **state)
{
	static const char splice[] = "{}[]\",:0123456789-+.eEtrufalsn \\\x01\x7f\xc3\xa9";
	struct anchor_taken taken;
	struct paper_host m, other;
	struct paper p;
	struct scratch s;
	size_t len, at;
	int i, n, took = 0;

	(void)state;
	anchored(&s, &m, &other);
	scratch_open(&s, ROLE_NET);
	srandom(4);
	for (i = 0; i < 4000; i++) {
		paper_for(&s, &p, "pairing_grant", &m, &other);
		p.issued_at = clock_now() - 50000 + i;
		paper_write(&p, &m);
		for (n = 1 + (int)(random() % 3); n > 0; n--) {
			len = strlen(p.text);
			at = (size_t)random() % len;
			if (random() % 2 == 0)
				memmove(p.text + at, p.text + at + 1, len - at);
			else
				p.text[at] = splice[(size_t)random() % (sizeof(splice) - 1)];
		}
		paper_sign(&p, &m, ANCHOR_DOMAIN);
		if (anchor_take(s.db, &p.given, &taken) == 0)
			took++;
		else if (strncmp(store_refusal(s.db)->code, "anchor.", 7) != 0)
			fail_msg("%s: %s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why,
			    p.text);
	}
	/* Some changes are none: another time, another kind of op. */
	assert_in_range(took, 1, 400);
	scratch_drop(&s);
}

/* Of many who claim at once for different Hosts one is first, and the others are told. */
static void
one_of_many_claims_wins(void **state)
{
	struct anchor_claim claim = {.host = NULL};
	struct anchor_made made;
	struct paper_host h;
	struct scratch s;
	char name[16];
	int i, status, won = 0, held = 0;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "host%d", i);
		host_pair(&s, &h, name, 1000);
	}
	set_networked(&s);
	store_close(s.db);
	s.db = NULL;
	for (i = 0; i < 6; i++)
		if (fork() == 0) {
			snprintf(name, sizeof(name), "host%d", i);
			claim.host = name;
			if (claims(&s, &claim, &made) == 0)
				_exit(made.changed ? 1 : 3);
			_exit(strcmp(store_refusal(s.db)->code, "anchor.held") == 0 ? 2 : 3);
		}
	while (wait(&status) > 0) {
		won += WEXITSTATUS(status) == 1;
		held += WEXITSTATUS(status) == 2;
	}
	assert_int_equal(won, 1);
	assert_int_equal(held, 5);
	scratch_drop(&s);
}

/* Replay: what was taken is not taken again, nor anything older; so a revocation is final. */
static void
old_terms_are_not_taken_again(void **state)
{
	struct pairing_offer offer = {.peer_uid = 1000, .by_uid = 0};
	struct pairing_made made;
	struct anchor_taken taken;
	struct paper_host m, other;
	struct paper grant, held, p;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	paper_for(&s, &held, "pairing_grant", &m, &other);
	held.caps = "[\"observe\",\"harness\"]";
	paper_write(&held, &m);
	clock_fix(clock_now() + 1);
	paper_for(&s, &grant, "pairing_grant", &m, &other);
	paper_write(&grant, &m);
	assert_int_equal(paper_take(&s, &grant, &taken), 0);
	paper_refused(&s, &grant, "anchor.replayed");
	/* One that was signed before and held back. */
	paper_refused(&s, &held, "anchor.replayed");
	says(&s, "pairing_revoke", &m, &other);
	paper_refused(&s, &grant, "anchor.subject");
	/* Paired anew it waits again, and no older word lets it in. */
	offer.host = other.name;
	offer.host_key = other.pk;
	assert_int_equal(pairing_add(scratch_open(&s, ROLE_PERSON), &offer, &made), 0);
	assert_string_equal(made.state, "pending");
	paper_refused(&s, &grant, "anchor.replayed");
	paper_refused(&s, &held, "anchor.replayed");
	/* In the moment of the revocation neither. */
	paper_for(&s, &p, "pairing_grant", &m, &other);
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.replayed");
	clock_fix(clock_now() + 1);
	says(&s, "pairing_grant", &m, &other);
	assert_int_equal(scratch_value(&s, "SELECT state = 'active' FROM pairing WHERE id = 2"), 1);
	scratch_drop(&s);
}

/* An anchor that signs without end fills no disk; taking back is never held up by it. */
static void
terms_of_a_day_are_counted(void **state)
{
	struct paper_host m, other;
	struct paper p;
	struct scratch s;
	int i;

	(void)state;
	anchored(&s, &m, &other);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 3 WHERE name = 'anchor.terms'"), 0);
	for (i = 0; i < 3; i++)
		says(&s, "pairing_grant", &m, &other);
	clock_fix(clock_now() + 1);
	paper_for(&s, &p, "pairing_grant", &m, &other);
	paper_write(&p, &m);
	assert_int_equal(
	    anchor_take(scratch_open(&s, ROLE_NET), &p.given, &(struct anchor_taken){.kind = ""}),
	    -1);
	person_says(&s, "anchor.busy");
	says(&s, "pairing_revoke", &m, &other);
	scratch_drop(&s);
}

/* Terms name a key: one for a Host's old key does not let in who took its name. */
static void
terms_are_for_the_key_that_they_name(void **state)
{
	struct pairing_offer offer = {.peer_uid = 1000, .by_uid = 0};
	struct pairing_made made;
	struct pairing_end end;
	struct paper_host m, other, thief;
	struct paper p;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	paper_for(&s, &p, "pairing_grant", &m, &other);
	paper_write(&p, &m);
	assert_int_equal(pairing_revoke(scratch_open(&s, ROLE_PERSON), other.id, &end), 0);
	paper_host(&thief, "thief");
	offer.host = other.name;
	offer.host_key = thief.pk;
	assert_int_equal(pairing_add(s.db, &offer, &made), 0);
	paper_refused(&s, &p, "anchor.subject");
	scratch_drop(&s);
}

/* A database that came back from a copy does not know what was taken back since: only what the
 * anchor signs from then on gives; what it takes back, it takes back. */
static void
nothing_of_before_a_restore_gives(void **state)
{
	static const char back[] =
	    "INSERT INTO restore (restored_at, seq, head, keep_grants, keep_factors)"
	    " SELECT now_ms(), seq, hash, 0, 0 FROM audit ORDER BY seq DESC LIMIT 1";
	struct paper_host m, other;
	struct anchor_taken taken;
	struct paper give, take;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	clock_fix(clock_now() + 2);
	paper_for(&s, &give, "pairing_grant", &m, &other);
	paper_write(&give, &m);
	if (scratch_sql(&s, back) != 0)
		fail_msg("%s", s.error);
	paper_refused(&s, &give, "anchor.replayed");
	says(&s, "pairing_grant", &m, &other);
	paper_refused(&s, &give, "anchor.replayed");
	assert_int_equal(scratch_value(&s, "SELECT state = 'active' FROM pairing WHERE id = 2"), 1);
	scratch_drop(&s);

	anchored(&s, &m, &other);
	clock_fix(clock_now() + 2);
	paper_for(&s, &take, "pairing_revoke", &m, &other);
	paper_write(&take, &m);
	if (scratch_sql(&s, back) != 0)
		fail_msg("%s", s.error);
	assert_int_equal(paper_take(&s, &take, &taken), 0);
	assert_string_equal(taken.state, "revoked");
	scratch_drop(&s);
}

/* EP-43 to EP-48: an invalid pairing is not approved and never told of. */
static void
never_seen(enum fault fault)
{
	struct paper_host m, bad, good;
	struct paper p;
	struct scratch s;

	anchored(&s, &m, &bad);
	host_pair(&s, &good, "good", 0);
	spoil(&s, bad.id, fault);
	paper_for(&s, &p, "pairing_grant", &m, &bad);
	paper_write(&p, &m);
	paper_refused(&s, &p, "pairing.invalid");
	assert_non_null(strstr(said.why, "not served"));
	assert_null(strchr(said.why, '/'));
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'pending' FROM pairing WHERE id = 2"), 1);
	clock_fix(clock_now() + DAY);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM told_pairings WHERE asks_id = 1"), 2);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM told_pairings WHERE host LIKE 'other%'"
			      " AND asks_id <> 2"),
	    0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM told_pairings WHERE asks_id = 2"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM unapproved_attempts"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM told_pairings"
					   " WHERE state NOT IN ('active', 'pending', 'revoked')"),
	    0);
	/* Here at the machine it is listed as what it is; and the anchor may take it back. */
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'invalid' FROM pairing_status WHERE id = 2"), 1);
	beaten(&s);
	says(&s, "pairing_revoke", &m, &bad);
	scratch_drop(&s);
}

static void
hosts_never_see_an_invalid_pairing(void **state)
{
	enum fault fault;

	(void)state;
	for (fault = 0; fault < FAULTS; fault++)
		never_seen(fault);
}

/* An anchor that cannot be served any more is not in force: nobody is answered. */
static void
an_anchor_that_became_invalid_is_none(void **state)
{
	enum fault fault;
	struct paper_host m;
	struct scratch s;

	(void)state;
	for (fault = 0; fault < FAULTS; fault++) {
		anchored(&s, &m, NULL);
		assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_anchor"), 1);
		spoil(&s, m.id, fault);
		assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_anchor"), 0);
		person_refused(&s, "anchor.none",
		    "INSERT INTO op_run (pairing_id, op, args, nonce, queued_at)"
		    " VALUES (1, 'observe:logins', '[]', printf('%032x', 1), now_ms())");
		scratch_drop(&s);
	}
}

/* Attempts that the anchor is told of have waited for ten minutes, and only the anchor is. */
static void
attempts_are_told_after_ten_minutes(void **state)
{
	struct paper_host m, other, third;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	clock_fix(clock_now() + 599999);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM unapproved_attempts"), 0);
	clock_fix(clock_now() + 1);
	host_pair(&s, &third, "third", 0);
	assert_int_equal(scratch_value(&s, "SELECT pairing_id FROM unapproved_attempts"), other.id);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM told_pairings WHERE asks_id = 1"
					   " AND unapproved"),
	    1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM told_pairings WHERE asks_id = 3"), 1);
	says(&s, "pairing_grant", &m, &other);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM unapproved_attempts"), 0);
	/* An approved Host is told of itself alone as well. */
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM told_pairings WHERE asks_id = 2"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM told_pairings WHERE asks_id = 1"), 3);
	scratch_drop(&s);
}

/*
 * Rotation.
 */

/* The anchor consents: by terms sent before, or that a person carries; each serves once. */
static void
the_anchor_gives_way_by_consent(void **state)
{
	struct anchor_claim claim = {.rotate = true, .host = "other", .owner = "New"};
	struct anchor_made made;
	struct paper_host m, other;
	struct paper p;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	claim_refused(&s, &claim, "anchor.silence");
	assert_true(said.retry_at == PERSON_MORNING + 30 * DAY);
	says(&s, "anchor_consent", &m, &other);
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'pending' FROM pairing WHERE id = 2"), 1);
	claim.rotate = false;
	claim_refused(&s, &claim, "anchor.held");
	claim.rotate = true;
	claim.by_uid = 1000;
	claim_refused(&s, &claim, "box.authority");
	claim.by_uid = 0;
	clock_fix(clock_now() + 1);
	assert_int_equal(claims(&s, &claim, &made), 0);
	assert_string_equal(made.host, other.name);
	assert_string_equal(made.reason, "consent");
	assert_string_equal(made.owner, "New");
	assert_int_equal(scratch_value(&s, "SELECT pairing_id FROM live_anchor"), other.id);
	/* The old one signs for nobody now, and may ask for nothing until it is approved. */
	clock_fix(clock_now() + 1);
	paper_for(&s, &p, "pairing_revoke", &m, &other);
	paper_write(&p, &m);
	paper_refused(&s, &p, "anchor.signature");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_may JOIN op ON name = op"
					   " WHERE pairing_id = 1 AND class <> 'own'"),
	    0);
	/* Back again, by a consent in the person's hand; then the first one is spent. */
	clock_fix(clock_now() + 1);
	paper_for(&s, &p, "anchor_consent", &other, &m);
	paper_write(&p, &other);
	claim = (struct anchor_claim){.rotate = true, .host = "main", .consent = &p.given};
	assert_int_equal(claims(&s, &claim, &made), 0);
	assert_string_equal(made.host, m.name);
	assert_string_equal(made.owner, "New");
	clock_fix(clock_now() + 1);
	claim = (struct anchor_claim){.rotate = true, .host = "other"};
	claim_refused(&s, &claim, "anchor.silence");
	person_refused(&s, "anchor.consent",
	    "UPDATE anchor SET pairing_id = 2, host_key = (SELECT host_key FROM pairing WHERE id ="
	    " 2), claimed_at = now_ms(), heard_at = now_ms(), reason = 'consent', terms_id = 1");
	scratch_drop(&s);
}

/* A consent is for the Host that it names, for its time, and from the anchor. */
static void
a_consent_is_for_one_host(void **state)
{
	struct anchor_claim claim = {.rotate = true};
	struct paper_host m, other, third;
	struct paper p;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	host_pair(&s, &third, "third", 0);
	claim_refused(&s, &claim, "pairing.several");
	says(&s, "anchor_consent", &m, &other);
	claim.host = "third";
	claim_refused(&s, &claim, "anchor.silence");
	paper_for(&s, &p, "anchor_consent", &m, &third);
	paper_write(&p, &third);
	claim.consent = &p.given;
	claim_refused(&s, &claim, "anchor.signature");
	/* An approval is no consent. */
	p.kind = "pairing_grant";
	paper_write(&p, &m);
	claim_refused(&s, &claim, "anchor.silence");
	claim.consent = NULL;
	clock_fix(clock_now() + 29 * DAY);
	says(&s, "pairing_grant", &m, &third);
	clock_fix(clock_now() + 29 * DAY);
	claim.host = "other";
	assert_int_equal(scratch_sql(&s, "UPDATE setting SET value = 31536000000"
					 " WHERE name = 'anchor.silent_ms'"),
	    0);
	clock_fix(PERSON_MORNING + HALF_YEAR + 10);
	claim_refused(&s, &claim, "anchor.silence");
	scratch_drop(&s);
}

/* Silence: counted from the last proof that the anchor lives, over to the millisecond. */
static void
the_anchor_gives_way_by_silence(void **state)
{
	struct anchor_claim claim = {.rotate = true, .host = "other"};
	struct anchor_made made;
	struct paper_host m, other;
	struct scratch s;

	(void)state;
	anchored(&s, &m, &other);
	clock_fix(clock_now() + 20 * DAY);
	/* A proven ask that is refused is heard; what was not proven to be the anchor's is not. */
	assert_int_equal(
	    scratch_sql(&s, "INSERT INTO refused (at, pairing_id, surface, asked, code,"
			    " why) VALUES (now_ms(), 1, 'lane', '', 'approval.needed',"
			    " '')"),
	    0);
	clock_fix(clock_now() + 20 * DAY);
	assert_int_equal(
	    scratch_sql(&s, "INSERT INTO refused (at, pairing_id, surface, asked, code,"
			    " why) VALUES (now_ms(), 1, 'lane', '', 'lane.signature',"
			    " ''), (now_ms(), 2, 'lane', '', 'approval.needed', '')"),
	    0);
	clock_fix(clock_now() + 10 * DAY - 1);
	claim_refused(&s, &claim, "anchor.silence");
	clock_fix(clock_now() + 1);
	assert_int_equal(claims(&s, &claim, &made), 0);
	assert_string_equal(made.reason, "silent");
	assert_string_equal(made.host, other.name);
	assert_int_equal(scratch_value(&s, "SELECT body ->> 'from' = 'main.example.org' FROM audit"
					   " WHERE entity = 'anchor' AND action = 'silent'"),
	    1);
	/* The setting cannot be turned down to nothing. */
	assert_int_equal(scratch_sql(&s, "UPDATE setting SET value = 1"
					 " WHERE name = 'anchor.silent_ms'"),
	    -1);
	scratch_drop(&s);
}

/* The anchor's runs are heard, at most once an hour, so that deciding stays one write. */
static void
the_anchor_is_heard_by_its_runs(void **state)
{
	int64_t grant_id, claimed;
	struct person p;
	struct paper_host m;
	struct scratch s;

	(void)state;
	anchored(&s, &m, NULL);
	claimed = clock_now();
	person_enrol(&s, &p, "phone");
	grant_id = person_granted(&s, &p, m.id, "[1]");
	assert_int_equal(person_run(&s, grant_id, 1), 0);
	assert_int_equal(scratch_value(&s, "SELECT heard_at FROM anchor"), claimed);
	clock_fix(claimed + 3600000);
	grant_id = person_granted(&s, &p, m.id, "[1]");
	assert_int_equal(person_run(&s, grant_id, 2), 0);
	assert_int_equal(scratch_value(&s, "SELECT heard_at FROM anchor"), clock_now());
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(root_changes_the_mode),
	    cmocka_unit_test(a_factor_proves_the_change),
	    cmocka_unit_test(an_ssh_key_proves_one_change),
	    cmocka_unit_test(anchored_is_never_local),
	    cmocka_unit_test(the_first_pairing_anchors),
	    cmocka_unit_test(a_host_is_looked_over_before_its_authority_is_known),
	    cmocka_unit_test(a_claim_needs_root_and_a_network),
	    cmocka_unit_test(a_claim_can_be_repeated),
	    cmocka_unit_test(an_anchor_that_fell_is_not_claimed_again),
	    cmocka_unit_test(a_claim_picks_no_host_silently),
	    cmocka_unit_test(an_invalid_pairing_is_no_anchor),
	    cmocka_unit_test(the_anchor_holds),
	    cmocka_unit_test(unanchored_refuses_every_op),
	    cmocka_unit_test(others_may_what_the_anchor_approved),
	    cmocka_unit_test(terms_move_the_pairing),
	    cmocka_unit_test(a_burst_is_one_beat),
	    cmocka_unit_test(wrong_terms_are_refused),
	    cmocka_unit_test(terms_have_one_form),
	    cmocka_unit_test(old_terms_are_not_taken_again),
	    cmocka_unit_test(no_bytes_break_it),
	    cmocka_unit_test(one_of_many_claims_wins),
	    cmocka_unit_test(terms_of_a_day_are_counted),
	    cmocka_unit_test(terms_are_for_the_key_that_they_name),
	    cmocka_unit_test(nothing_of_before_a_restore_gives),
	    cmocka_unit_test(hosts_never_see_an_invalid_pairing),
	    cmocka_unit_test(an_anchor_that_became_invalid_is_none),
	    cmocka_unit_test(attempts_are_told_after_ten_minutes),
	    cmocka_unit_test(the_anchor_gives_way_by_consent),
	    cmocka_unit_test(a_consent_is_for_one_host),
	    cmocka_unit_test(the_anchor_gives_way_by_silence),
	    cmocka_unit_test(the_anchor_is_heard_by_its_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
