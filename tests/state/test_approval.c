/* test_approval.c: questions in exact terms; an answer binds to what was shown, and works once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/state/factor.h"
#include "engine/state/pairing.h"
#include "engine/state/person.h"
#include "tests/person.h"

#define DECIDERS 8

static int64_t
morning(struct scratch *s, struct person *p)
{
	scratch_make(s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(s, p, "phone");
	return person_host(s, "laptop");
}

static void
a_question_is_asked_once(void **state)
{
	int64_t pairing, one, again, other;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	one = person_asked(&s, pairing, "[\"/usr\", \"2\"]");
	again = person_asked(&s, pairing, "[ \"/usr\",\"2\" ]");
	other = person_asked(&s, pairing, "[\"/usr\",\"3\"]");
	assert_int_equal(one, again);
	assert_int_not_equal(one, other);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM open_approvals"), 2);
	assert_int_equal(scratch_value(&s, "SELECT digest = sha256(terms) FROM approval"), 1);
	/* What ran out is asked anew, and is marked as such by the one that follows. */
	clock_fix(clock_now() + 3600000);
	assert_int_not_equal(person_asked(&s, pairing, "[\"/usr\",\"2\"]"), one);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM approval WHERE state = 'expired'"), 2);
	scratch_drop(&s);
}

static void
a_question_has_bounds(void **state)
{
	static const struct {
		const char *code, *op, *args;
		int64_t uses, ttl_ms;
	} bad[] = {
	    {"op.unknown", "observe:nothing", "[]", 1, 1000},
	    {"op.args", "observe:folders", "{}", 1, 1000},
	    {"op.args", "observe:folders", "[", 1, 1000},
	    {"approval.uses", "observe:folders", "[]", -1, 1000},
	    {"approval.uses", "observe:folders", "[]", 1001, 1000},
	    {"approval.ttl", "observe:folders", "[]", 1, 1500},
	    {"approval.ttl", "observe:folders", "[]", 1, -1000},
	    {"approval.ttl", "observe:folders", "[]", 1, INT64_C(2592001000)},
	};
	unsigned char before[32], after[32];
	char args[40], *large;
	int64_t pairing, id;
	struct scratch s;
	struct person p;
	size_t i;

	(void)state;
	pairing = morning(&s, &p);
	person_digest(&s, before);
	scratch_open(&s, ROLE_NET);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(approval_ask(s.db, pairing, bad[i].op, bad[i].args, bad[i].uses,
				     bad[i].ttl_ms, &id),
		    -1);
		person_says(&s, bad[i].code);
	}
	assert_int_equal(approval_ask(s.db, 77, "observe:folders", "[]", 0, 0, &id), -1);
	person_says(&s, "pairing.inactive");
	large = malloc(20000);
	assert_non_null(large);
	memset(large, 'x', 20000);
	memcpy(large, "[\"", 2);
	memcpy(large + 19997, "\"]", 3);
	assert_int_equal(approval_ask(s.db, pairing, "observe:folders", large, 0, 0, &id), -1);
	person_says(&s, "op.args");
	free(large);
	person_digest(&s, after);
	assert_memory_equal(before, after, 32);
	/* The settings say what an ask that names nothing gets. */
	scratch_open(&s, ROLE_NET);
	assert_int_equal(approval_ask(s.db, pairing, "observe:folders", "[]", 0, 0, &id), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT uses = 1 AND ttl_ms = 3600000 FROM approval"), 1);
	for (i = 1; i < 32; i++) {
		snprintf(args, sizeof(args), "[\"/%zu\"]", i);
		assert_int_equal(
		    approval_ask(s.db, pairing, "observe:folders", args, 0, 0, &id), 0);
	}
	assert_int_equal(approval_ask(s.db, pairing, "observe:folders", "[9]", 0, 0, &id), -1);
	person_says(&s, "approval.busy");
	/* Questions that ran out do not count. */
	clock_fix(clock_now() + 3600000);
	assert_int_equal(approval_ask(s.db, pairing, "observe:folders", "[9]", 0, 0, &id), 0);
	scratch_drop(&s);
}

/* A step of a larger transaction, where one is open. */
static void
asking_joins_the_callers_transaction(void **state)
{
	int64_t pairing, id;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(approval_ask(s.db, pairing, "observe:folders", "[]", 0, 0, &id), 0);
	store_rollback(s.db);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM approval"), 0);
	scratch_drop(&s);
}

/* One transaction: approved, granted, burned; the audit has every step. */
static void
approving_makes_a_grant(void **state)
{
	int64_t pairing, id, grant_id;
	struct person p;
	struct scratch s;
	char code[7], text[512];

	(void)state;
	pairing = morning(&s, &p);
	id = person_asked(&s, pairing, "[\"/usr\"]");
	assert_int_equal(
	    person_answers(&s, id, person_code(&p, clock_now(), code), NULL, &grant_id), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT g.seal IS NOT NULL AND g.uses = 2 AND g.args = '[\"/usr\"]'"
			      " AND g.expires_at = g.created_at + 60000 AND a.state = 'burned'"
			      " AND a.decided_by = 'alice' AND a.decided_by_uid = 1000"
			      " FROM grant AS g JOIN approval AS a ON a.id = g.approval_id"),
	    1);
	scratch_text(&s,
	    "SELECT group_concat(entity || ' ' || action, ', ') FROM audit"
	    " WHERE seq > (SELECT max(seq) - 4 FROM audit)",
	    text, sizeof(text));
	assert_string_equal(
	    text, "approval pending, approval approved, approval burned, grant active");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_grants"), 1);
	assert_int_equal(person_run(&s, grant_id, 1), 0);
	assert_int_equal(person_run(&s, grant_id, 2), 0);
	assert_int_equal(person_run(&s, grant_id, 3), -1);
	person_says(&s, "grant.gone");
	scratch_drop(&s);
}

/* DEV-4: the answer to one question is worth nothing for it a second time, nor for another. */
static void
an_approval_is_burned(void **state)
{
	int64_t pairing, one, grant_id;
	char signature[2048];
	struct person p, key;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	person_enrol_key(&s, &key, "key");
	one = person_asked(&s, pairing, "[\"/usr\"]");
	person_sign(&s, &key, one, signature, sizeof(signature));
	assert_int_equal(person_answers(&s, one, NULL, signature, &grant_id), 0);
	assert_int_equal(person_answers(&s, one, NULL, signature, &grant_id), -1);
	person_says(&s, "approval.decided");
	clock_fix(clock_now() + 7200000);
	assert_int_equal(person_answers(&s, one, NULL, signature, &grant_id), -1);
	person_says(&s, "approval.decided");
	/* The same question again has a nonce of its own. */
	one = person_asked(&s, pairing, "[\"/usr\"]");
	assert_int_equal(person_answers(&s, one, NULL, signature, &grant_id), -1);
	person_says(&s, "factor.signature");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant"), 1);
	scratch_drop(&s);
}

/* However many decide at once, with proofs that are all good, there is one grant. */
static void
one_of_many_deciders_burns_it(void **state)
{
	int64_t pairing, id, grant_id;
	int i, status, granted = 0, decided = 0, gate[2];
	char signature[2048], code[7], c;
	struct person phone, key;
	struct scratch s;
	pid_t pid[DECIDERS];

	(void)state;
	pairing = morning(&s, &phone);
	person_enrol_key(&s, &key, "key");
	id = person_asked(&s, pairing, "[]");
	person_sign(&s, &key, id, signature, sizeof(signature));
	person_code(&phone, clock_now(), code);
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(pipe(gate), 0);
	for (i = 0; i < DECIDERS; i++)
		if ((pid[i] = fork()) == 0) {
			close(gate[1]);
			if (read(gate[0], &c, 1) != 0)
				_exit(9);
			if (person_answers(&s, id, i % 2 ? code : NULL, i % 2 ? NULL : signature,
				&grant_id) == 0)
				_exit(0);
			_exit(strcmp(store_refusal(s.db)->code, "approval.decided") == 0 ? 1 : 2);
		}
	close(gate[0]);
	close(gate[1]);
	for (i = 0; i < DECIDERS; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		granted += WEXITSTATUS(status) == 0;
		decided += WEXITSTATUS(status) == 1;
	}
	assert_int_equal(granted, 1);
	assert_int_equal(decided, DECIDERS - 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'approval'"
					   " AND action = 'burned'"),
	    1);
	scratch_drop(&s);
}

/* PIPE-3: what was shown must be what is asked; the code is not looked at. */
static void
a_stale_digest_is_refused(void **state)
{
	unsigned char stale[APPROVAL_DIGEST];
	struct approval_answer answer;
	int64_t pairing, id, grant_id;
	struct person p;
	struct scratch s;
	char code[7];

	(void)state;
	pairing = morning(&s, &p);
	id = person_asked(&s, pairing, "[]");
	memset(stale, 7, sizeof(stale));
	answer = (struct approval_answer){.id = id,
	    .digest = stale,
	    .uid = 1000,
	    .name = "alice",
	    .key = s.key,
	    .code = person_code(&p, clock_now(), code)};
	assert_int_equal(approval_approve(scratch_open(&s, ROLE_PERSON), &answer, &grant_id), -1);
	person_says(&s, "approval.terms");
	answer.id = 99;
	assert_int_equal(approval_approve(s.db, &answer, &grant_id), -1);
	person_says(&s, "approval.unknown");
	assert_int_equal(scratch_value(&s, "SELECT last_counter FROM factor"), -1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM factor_try"), 0);
	assert_int_equal(person_answers(&s, id, code, NULL, &grant_id), 0);
	scratch_drop(&s);
}

static void
a_question_runs_out(void **state)
{
	struct approval_answer no = {.uid = 1000, .name = "alice"};
	int64_t pairing, id, grant_id;
	struct person p;
	struct scratch s;
	char code[7];

	(void)state;
	pairing = morning(&s, &p);
	id = person_asked(&s, pairing, "[]");
	clock_fix(clock_now() + 3600000);
	person_code(&p, clock_now(), code);
	assert_int_equal(person_answers(&s, id, code, NULL, &grant_id), -1);
	person_says(&s, "approval.expired");
	assert_int_equal(scratch_value(&s, "SELECT last_counter FROM factor"), -1);
	no.id = id;
	assert_int_equal(approval_deny(s.db, &no), -1);
	person_says(&s, "approval.expired");
	scratch_drop(&s);
}

static void
denying_is_final(void **state)
{
	struct approval_answer no = {.uid = 1000, .name = "alice"};
	int64_t pairing, id, grant_id;
	struct person p;
	struct scratch s;
	char code[7];

	(void)state;
	pairing = morning(&s, &p);
	no.id = id = person_asked(&s, pairing, "[]");
	assert_int_equal(approval_deny(scratch_open(&s, ROLE_PERSON), &no), 0);
	assert_int_equal(approval_deny(s.db, &no), -1);
	person_says(&s, "approval.decided");
	assert_int_equal(
	    person_answers(&s, id, person_code(&p, clock_now(), code), NULL, &grant_id), -1);
	person_says(&s, "approval.decided");
	assert_int_equal(scratch_value(&s, "SELECT decided_by = 'alice' FROM approval"), 1);
	no.id = 99;
	assert_int_equal(approval_deny(s.db, &no), -1);
	person_says(&s, "approval.unknown");
	scratch_drop(&s);
}

static int hang[2];

static int
directory_hangs(uid_t uid, struct passwd *entry, char *buf, size_t size, struct passwd **found)
{
	(void)uid;
	(void)entry;
	*found = NULL;
	while (read(hang[0], buf, size) == -1 && errno == EINTR)
		;
	return 0;
}

static int
directory_is_empty(uid_t uid, struct passwd *entry, char *buf, size_t size, struct passwd **found)
{
	(void)uid;
	(void)entry;
	(void)buf;
	(void)size;
	*found = NULL;
	return 0;
}

static int
directory_knows(uid_t uid, struct passwd *entry, char *buf, size_t size, struct passwd **found)
{
	assert_int_equal(uid, 1000);
	snprintf(buf, size, "alice");
	entry->pw_name = buf;
	*found = entry;
	return 0;
}

static int64_t
monotonic_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* PIPE-1, PIPE-2: a hanging directory holds approvals before the throttle, and no denial. */
static void
a_hanging_directory_holds_approvals(void **state)
{
	int64_t pairing, id, grant_id, began, took;
	struct approval_answer answer = {.uid = 1000};
	unsigned char digest[APPROVAL_DIGEST] = {0};
	char name[PERSON_NAME_MAX + 1], code[7];
	struct refusal r;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	answer.id = id = person_asked(&s, pairing, "[]");
	answer.code = person_code(&p, clock_now(), code);
	answer.digest = digest;
	answer.key = s.key;
	person_lookup_fix(directory_knows);
	assert_int_equal(person_name(1000, name, &r), 0);
	assert_string_equal(name, "alice");
	person_lookup_fix(directory_is_empty);
	assert_int_equal(person_name(1000, name, &r), 0);
	assert_string_equal(name, "uid 1000");

	assert_int_equal(pipe(hang), 0);
	person_lookup_fix(directory_hangs);
	began = monotonic_ms();
	assert_int_equal(person_name(1000, name, &r), -1);
	took = monotonic_ms() - began;
	assert_true(took >= 1900 && took < 4000);
	assert_string_equal(r.code, "approval.person");
	assert_string_equal(name, "uid 1000");
	/* One slot: who comes next does not wait, nor take a thread of their own. */
	began = monotonic_ms();
	assert_int_equal(person_name(1001, name, &r), -1);
	assert_true(monotonic_ms() - began < 500);

	assert_int_equal(approval_approve(scratch_open(&s, ROLE_PERSON), &answer, &grant_id), -1);
	person_says(&s, "approval.person");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM factor_try"), 0);
	assert_int_equal(scratch_value(&s, "SELECT last_counter FROM factor"), -1);
	assert_int_equal(approval_deny(s.db, &answer), 0);
	assert_int_equal(scratch_value(&s, "SELECT decided_by = 'uid 1000' FROM approval"), 1);

	/* When the directory is back, so is the slot. */
	close(hang[1]);
	person_lookup_fix(directory_knows);
	while (person_name(1000, name, &r) != 0)
		;
	assert_string_equal(name, "alice");
	close(hang[0]);
	person_lookup_fix(NULL);
	scratch_drop(&s);
}

/* Text from the Host stands as JSON: it cannot pose as a line of the terms. */
static void
arguments_cannot_pose_as_terms(void **state)
{
	int64_t pairing, id;
	struct person p;
	struct scratch s;
	char terms[4096], *line;
	int lines = 0;

	(void)state;
	pairing = morning(&s, &p);
	id = person_asked(&s, pairing, "[\"/usr\\nuses: 1\\u000a\\u001b[2J\"]");
	assert_int_equal(id, 1);
	scratch_text(&s, "SELECT terms FROM approval", terms, sizeof(terms));
	for (line = terms; (line = strchr(line, '\n')) != NULL; line++)
		lines++;
	assert_int_equal(lines, 8);
	assert_null(strchr(terms, '\033'));
	scratch_drop(&s);
}

/* What the table of approvals refuses, whoever asks. */
static void
the_tables_hold(void **state)
{
	struct person p;
	struct scratch s;
	int64_t pairing;

	(void)state;
	pairing = morning(&s, &p);
	assert_int_equal(person_asked(&s, pairing, "[]"), 1);
#define ASK(values)                                                                           \
	"INSERT INTO approval (nonce, kind, box_name, pairing_id, host_name, op, args, uses," \
	" ttl_ms, digest, asked_at, expires_at, state, decided_at)"                           \
	" SELECT printf('%032x', 7), 'op', " values
	person_refused(&s, "approval.terms",
	    ASK("box_name, 1, host_name, op, '[1]', uses, ttl_ms, digest, 1, 2, state,"
		" NULL FROM approval"));
	person_refused(&s, "approval.terms",
	    ASK("'other', 1, host_name, op, '[1]', uses, ttl_ms, digest, 1, 2, state,"
		" NULL FROM approval"));
	person_refused(&s, "approval.transition",
	    ASK("box_name, 1, host_name, op, '[1]', uses, ttl_ms, digest, 1, 2,"
		" 'expired', 1 FROM approval"));
	person_refused(&s, "approval.decided", "UPDATE approval SET uses = 99");
	person_refused(&s, "approval.decided", "UPDATE approval SET state = 'burned'");
	person_refused(&s, "approval.terms",
	    "UPDATE approval SET uses = 99, state = 'expired', decided_at = now_ms()");
	person_refused(&s, "approval.factor",
	    "UPDATE approval SET state = 'approved', factor_id = 99, decided_digest ="
	    " digest, decided_by_uid = 0, decided_by = 'x', decided_at = now_ms()");
	person_refused(&s, "approval.terms",
	    "UPDATE approval SET state = 'approved', factor_id = 1, decided_digest ="
	    " zeroblob(32), decided_by_uid = 0, decided_by = 'x', decided_at = now_ms()");
	person_refused(&s, "approval.kept", "DELETE FROM approval");
	clock_fix(clock_now() + 3600000);
	person_refused(&s, "approval.expired",
	    "UPDATE approval SET state = 'approved', factor_id = 1, decided_digest ="
	    " digest, decided_by_uid = 0, decided_by = 'x', decided_at = now_ms()");
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_question_is_asked_once),
	    cmocka_unit_test(a_question_has_bounds),
	    cmocka_unit_test(asking_joins_the_callers_transaction),
	    cmocka_unit_test(approving_makes_a_grant),
	    cmocka_unit_test(an_approval_is_burned),
	    cmocka_unit_test(one_of_many_deciders_burns_it),
	    cmocka_unit_test(a_stale_digest_is_refused),
	    cmocka_unit_test(a_question_runs_out),
	    cmocka_unit_test(denying_is_final),
	    cmocka_unit_test(a_hanging_directory_holds_approvals),
	    cmocka_unit_test(arguments_cannot_pose_as_terms),
	    cmocka_unit_test(the_tables_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
