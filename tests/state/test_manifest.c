/* test_manifest.c: what a manifest may be; who adds one; that an edited one holds nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/factor.h"
#include "engine/state/grant.h"
#include "engine/state/manifest.h"
#include "engine/state/op_run.h"
#include "engine/state/token.h"
#include "tests/person.h"

#define HEX  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SITE "{\"name\":\"run:site\",\"summary\":\"build\",\"program\":\"/srv/build\"}"
#define NONE "{\"name\":\"run:x\",\"summary\":\"x\",\"interpreter\":\"none\""
#define PROG "{\"name\":\"run:x\",\"summary\":\"x\",\"program\":\"/x\""
/* The question about run:x once more, which says ${reaches} and ${credential} of it. */
#define OTHER(reaches, credential)                                                                     \
	"INSERT INTO approval (nonce, box_name, pairing_id, host_name, op, args, reaches, credential," \
	" uses, ttl_ms, asked_at, expires_at) SELECT '" NONCE                                          \
	"', box_name, pairing_id, host_name, op, args, " reaches ", " credential                       \
	", 1, 60000, now_ms(), now_ms() + 1000 FROM approval WHERE op = 'run:x'"
#define NONCE "0123456789abcdef0123456789abcdef"
#define MOVE  ",\"verbs\":[[\"file:move\",\"/a\",\"/b\"]]}"

struct world {
	struct scratch s;
	struct person p;
	int64_t pairing;
};

static void
world_make(struct world *w)
{
	scratch_make(&w->s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(&w->s, &w->p, "phone");
	w->pairing = person_host(&w->s, "laptop");
}

static int
add(struct world *w, const char *text, bool program)
{
	struct manifest_draft draft = {.text = text};
	struct manifest_proof proof = {.by_uid = 1000, .key = w->s.key};
	char code[7];
	int64_t id;

	if (program)
		snprintf(draft.program_sha256, sizeof(draft.program_sha256), "%s", HEX);
	clock_fix(clock_now() + 30000);
	proof.code = person_code(&w->p, clock_now(), code);
	return manifest_add(scratch_open(&w->s, ROLE_PERSON), &draft, &proof, &id);
}

/* Ask for ${op} as the net actor does: a question.  Return its number, or -1. */
static int64_t
asks(struct world *w, const char *op, const char *args)
{
	int64_t id;

	return approval_ask(scratch_open(&w->s, ROLE_NET), w->pairing, op, args, 2, 60000, &id) == 0
		   ? id
		   : -1;
}

static int64_t
granted(struct world *w, const char *op, const char *args)
{
	int64_t id = asks(w, op, args), grant = 0;
	char code[7];

	assert_int_not_equal(id, -1);
	clock_fix(clock_now() + 30000);
	assert_int_equal(
	    person_answers(&w->s, id, person_code(&w->p, clock_now(), code), NULL, &grant), 0);
	return grant;
}

/* VERB-1, VERB-2: an op without a program has no run file, and no destinations, builder or reads.
 */
static void
what_is_no_manifest_is_refused(void **state)
{
	static const struct {
		const char *code, *text;
		bool program;
	} bad[] = {
	    {"manifest.none", NONE ",\"program\":\"/x\"" MOVE, false},
	    {"manifest.none", NONE ",\"destinations\":[\"a.example:443\"]" MOVE, false},
	    {"manifest.none", NONE ",\"builder\":\"make\"" MOVE, false},
	    {"manifest.none", NONE ",\"reads\":[\"/srv\"]" MOVE, false},
	    {"manifest.none", NONE ",\"credential\":\"deploy\"" MOVE, false},
	    {"manifest.verbs", NONE "}", false},
	    {"manifest.verbs", NONE ",\"verbs\":[]}", false},
	    {"manifest.verbs", NONE ",\"verbs\":[[\"observe:load\"]]}", false},
	    {"manifest.verbs", NONE ",\"verbs\":[[\"file:move\",\"$a\",\"/b\"]]}", false},
	    {"manifest.verbs", NONE ",\"verbs\":[[\"file:move\",\"/a\",\"/b\",\"/c\"]]}", false},
	    {"manifest.verbs", NONE ",\"verbs\":[\"file:move\"]}", false},
	    {"manifest.verbs", PROG MOVE, true},
	    {"manifest.form", "[]", true},
	    {"manifest.member", PROG ",\"user\":\"root\"}", true},
	    {"manifest.name", "{\"name\":\"observe:load\",\"summary\":\"x\",\"program\":\"/x\"}",
		true},
	    {"manifest.name", "{\"name\":\"run:X\",\"summary\":\"x\",\"program\":\"/x\"}", true},
	    {"manifest.summary", "{\"name\":\"run:x\",\"summary\":\"\\n\",\"program\":\"/x\"}",
		true},
	    {"manifest.program", "{\"name\":\"run:x\",\"summary\":\"x\",\"program\":\"x\"}", true},
	    {"manifest.program", "{\"name\":\"run:x\",\"summary\":\"x\",\"program\":\"/../x\"}",
		true},
	    {"manifest.program", "{\"name\":\"run:x\",\"summary\":\"x\"}", true},
	    {"manifest.sealed", PROG "}", false},
	    {"manifest.builder", PROG ",\"builder\":\"make\"}", true},
	    {"manifest.builder", PROG ",\"builder\":[\"cc\",\"$in\",\"$out\"]}", true},
	    {"manifest.builder", PROG ",\"builder\":[\"/bin/cc\",\"-o\",\"$out\"]}", true},
	    {"manifest.builder", PROG ",\"builder\":[\"/bin/cc\",\"$in\",\"$in\",\"$out\"]}", true},
	    {"manifest.builder", PROG ",\"builder\":[\"/bin/cc\",\"$in\",\"$out\",7]}", true},
	    {"manifest.destination", PROG ",\"destinations\":\"a.example:443\"}", true},
	    {"manifest.destination", PROG ",\"destinations\":[443]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"a.example\"]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"A.example:443\"]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"*.example:443\"]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"a.example:0443\"]}", true},
	    {"manifest.destination",
		PROG ",\"destinations\":[\"a.example:443\",\"a.example:443\"]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"localhost:443\"]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"127.0.0.1:443\"]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"192.168.1.5:443\"]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"169.254.169.254:80\"]}", true},
	    {"manifest.destination", PROG ",\"destinations\":[\"[64:ff9b::c0a8:105]:443\"]}", true},
	    {"manifest.verbs", NONE ",\"verbs\":[[\"git:fetch\",\"/srv/t\"]]}", false},
	    {"manifest.credential", PROG ",\"credential\":7}", true},
	    {"manifest.credential", PROG ",\"credential\":\"nobody\"}", true},
	    {"manifest.time", PROG ",\"time_ms\":999}", true},
	    {"manifest.time", PROG ",\"time_ms\":\"5000\"}", true},
	    {"manifest.paths", PROG ",\"reads\":[\"/\"]}", true},
	    {"manifest.paths", PROG ",\"reads\":[\"srv\"]}", true},
	    {"manifest.paths", PROG ",\"reads\":[\"/srv\"],\"writes\":[\"/srv\"]}", true},
	    {"manifest.params",
		PROG ",\"params\":[{\"name\":\"a\",\"type\":\"integer\",\"doc\":\"d\"}]}", true},
	    {"manifest.params", PROG ",\"params\":[{\"name\":\"a\",\"type\":\"string\"}]}", true},
	    {"manifest.params",
		PROG ",\"params\":[{\"name\":\"a\",\"type\":\"float\",\"doc\":\"d\"}]}", true},
	    {"manifest.params",
		PROG
		",\"params\":[{\"name\":\"a\",\"type\":\"string\",\"doc\":\"d\",\"needed\":false},"
		"{\"name\":\"b\",\"type\":\"string\",\"doc\":\"d\"}]}",
		true},
	    {"manifest.params",
		PROG ",\"params\":[{\"name\":\"a\",\"type\":\"string\",\"doc\":\"d\"},"
		     "{\"name\":\"a\",\"type\":\"string\",\"doc\":\"d\"}]}",
		true},
	};
	struct world w;
	size_t i;

	(void)state;
	world_make(&w);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(add(&w, bad[i].text, bad[i].program), -1);
		if (strcmp(store_refusal(w.s.db)->code, bad[i].code) != 0)
			fail_msg("%s: %s, %s", bad[i].text, store_refusal(w.s.db)->code,
			    store_refusal(w.s.db)->why);
	}
	assert_int_equal(scratch_value(&w.s, "SELECT count(*) FROM op_manifest"), 0);
	assert_int_equal(add(&w, NONE MOVE, false), 0);
	assert_int_equal(add(&w, PROG ",\"time_ms\":1000}", true), 0);
	assert_int_equal(add(&w,
			     PROG ",\"destinations\":[\"a.example:443\",\"198.51.100.8:80\","
				  "\"[2001:4860::8]:443\"]}",
			     true),
	    0);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* A person with a factor adds an op, and nobody else. */
static void
a_factor_adds_an_op(void **state)
{
	struct manifest_draft draft = {.text = SITE, .program_sha256 = HEX};
	struct manifest_proof proof = {.by_uid = 1000, .code = "000000"};
	struct world w;
	int64_t id;

	(void)state;
	world_make(&w);
	proof.key = w.s.key;
	assert_int_equal(manifest_add(scratch_open(&w.s, ROLE_PERSON), &draft, &proof, &id), -1);
	person_says(&w.s, "factor.code");
	proof.code = NULL;
	assert_int_equal(manifest_add(w.s.db, &draft, &proof, &id), -1);
	person_says(&w.s, "manifest.factor");
	assert_int_equal(asks(&w, "run:site", "[]"), -1);
	person_says(&w.s, "op.unknown");
	assert_int_equal(add(&w, SITE, true), 0);
	assert_int_not_equal(asks(&w, "run:site", "[]"), -1);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* An SSH signature is of one op, as it was shown: with other bytes of the program it is of none. */
static void
a_signature_is_of_one_op(void **state)
{
	struct manifest_draft draft = {.text = SITE, .program_sha256 = HEX};
	struct manifest_proof proof = {.by_uid = 1000};
	static char terms[MANIFEST_TERMS_MAX], armored[4096];
	char path[128], command[512];
	struct world w;
	struct person k;
	int64_t id;
	FILE *f;

	(void)state;
	world_make(&w);
	person_enrol_key(&w.s, &k, "key");
	assert_int_equal(manifest_terms(scratch_open(&w.s, ROLE_PERSON), &draft, terms), 0);
	assert_non_null(strstr(terms, "\nprogram: \"/srv/build\", sha256 " HEX "\n"));
	snprintf(path, sizeof(path), "%s/op", w.s.dir);
	assert_non_null(f = fopen(path, "w"));
	fputs(terms, f);
	fclose(f);
	snprintf(
	    command, sizeof(command), "ssh-keygen -q -Y sign -n bastion -f %s < %s", k.path, path);
	assert_non_null(f = popen(command, "r"));
	armored[fread(armored, 1, sizeof(armored) - 1, f)] = '\0';
	pclose(f);
	proof.signature = armored;
	draft.program_sha256[0] = '1';
	assert_int_equal(manifest_add(w.s.db, &draft, &proof, &id), -1);
	person_says(&w.s, "factor.signature");
	draft.program_sha256[0] = '0';
	assert_int_equal(manifest_add(w.s.db, &draft, &proof, &id), 0);
	/* And it serves once. */
	assert_int_equal(manifest_add(w.s.db, &draft, &proof, &id), -1);
	person_says(&w.s, "factor.signature");
	clock_fix(0);
	scratch_drop(&w.s);
}

/* What another tool does: take the guard down, edit, put it back as it was. */
static void
edited(struct world *w, const char *edit)
{
	char sql[4096], path[PATH_MAX];
	sqlite3 *raw;

	scratch_open(&w->s, ROLE_READER);
	scratch_text(&w->s, "SELECT sql FROM sqlite_schema WHERE name = 'op_manifest_moves'", sql,
	    sizeof(sql));
	store_close(w->s.db);
	w->s.db = NULL;
	snprintf(path, sizeof(path), "%s/bastion.db", w->s.home.state);
	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(raw, "DROP TRIGGER op_manifest_moves", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, edit, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_changes(raw), 1);
	assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
}

/* SEAL-1: with any part of it changed by another tool, an op holds nothing; put back, it does. */
static void
an_edited_op_holds_nothing(void **state)
{
	static const struct {
		const char *edit, *back;
	} edits[] = {
	    {"UPDATE op_manifest SET program_sha256 = '1' || substr(program_sha256, 2)",
		"UPDATE op_manifest SET program_sha256 = '0' || substr(program_sha256, 2)"},
	    {"UPDATE op_manifest SET manifest = json_set(manifest, '$.writes', json('[\"/etc\"]'))",
		"UPDATE op_manifest SET manifest = json_remove(manifest, '$.writes')"},
	    {"UPDATE op_manifest SET by_uid = 0", "UPDATE op_manifest SET by_uid = 1000"},
	    {"UPDATE op_manifest SET created_at = created_at + 1",
		"UPDATE op_manifest SET created_at = created_at - 1"},
	    {"UPDATE op_manifest SET factor_id = 2", "UPDATE op_manifest SET factor_id = 1"},
	};
	struct world w;
	struct person q;
	int64_t grant;
	size_t i;

	(void)state;
	world_make(&w);
	person_enrol(&w.s, &q, "watch");
	assert_int_equal(add(&w, SITE, true), 0);
	grant = granted(&w, "run:site", "[]");
	for (i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		edited(&w, edits[i].edit);
		assert_int_equal(person_run(&w.s, grant, 1), -1);
		person_says(&w.s, "manifest.edited");
		edited(&w, edits[i].back);
	}
	assert_int_equal(person_run(&w.s, grant, 1), 0);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* What was approved was approved of the program that was signed then. */
static void
another_program_has_no_grants(void **state)
{
	struct world w;

	(void)state;
	world_make(&w);
	assert_int_equal(add(&w, SITE, true), 0);
	granted(&w, "run:site", "[]");
	asks(&w, "run:site", "[]");
	assert_int_equal(add(&w, SITE, true), 0);
	assert_int_equal(scratch_value(&w.s, "SELECT count(*) FROM grant WHERE state = 'dropped'"
					     " AND end_reason = 'the op was replaced'"),
	    1);
	assert_int_equal(scratch_value(&w.s, "SELECT count(*) FROM open_approvals"), 0);
	granted(&w, "run:site", "[]");
	/* Dropped, or its signer's factor dropped: there is no such op. */
	assert_int_equal(manifest_drop(scratch_open(&w.s, ROLE_PERSON), "run:site"), 0);
	assert_int_equal(manifest_drop(w.s.db, "run:site"), -1);
	person_says(&w.s, "manifest.unknown");
	assert_int_equal(asks(&w, "run:site", "[]"), -1);
	person_says(&w.s, "op.unknown");
	assert_int_equal(scratch_value(&w.s, "SELECT count(*) FROM live_grants"), 0);
	clock_fix(0);
	scratch_drop(&w.s);
}

static void
a_signer_who_is_dropped_signed_nothing(void **state)
{
	struct world w;
	int64_t grants;

	(void)state;
	world_make(&w);
	assert_int_equal(add(&w, SITE, true), 0);
	assert_int_equal(factor_drop(scratch_open(&w.s, ROLE_PERSON), w.p.factor, &grants), 0);
	assert_int_equal(asks(&w, "run:site", "[]"), -1);
	person_says(&w.s, "manifest.edited");
	clock_fix(0);
	scratch_drop(&w.s);
}

/* Words are held to the params, of a question and of a run. */
static void
words_are_held_to_the_params(void **state)
{
	static const struct {
		const char *args;
		bool good;
	} words[] = {
	    {"[\"main\",\"3\"]", true},
	    {"[\"main\",\"3\",\"/srv/x.txt\"]", true},
	    {"[]", false},
	    {"[\"main\"]", false},
	    {"[\"main\",\"0\"]", false},
	    {"[\"main\",\"03\"]", false},
	    {"[\"main\",\"3x\"]", false},
	    {"[\"main\",3]", false},
	    {"[\"-x\",\"3\"]", false},
	    {"[\"\",\"3\"]", false},
	    {"[\"main\\n\",\"3\"]", false},
	    {"[\"a\\u0000\",\"3\"]", false},
	    {"[\"muchtoolong\",\"3\"]", false},
	    {"[\"main\",\"3\",\"/srv/x.sh\"]", false},
	    {"[\"main\",\"3\",\"/srv/x.txt\",\"more\"]", false},
	};
	struct world w;
	size_t i;

	(void)state;
	world_make(&w);
	assert_int_equal(
	    add(&w,
		PROG
		",\"params\":[{\"name\":\"a\",\"type\":\"string\",\"max\":8,\"doc\":\"d\"},"
		"{\"name\":\"b\",\"type\":\"integer\",\"min\":1,\"max\":9,\"doc\":\"d\"},"
		"{\"name\":\"c\",\"type\":\"string\",\"like\":\"/srv/*.txt\",\"needed\":false,\"doc\":\"d\"}]}",
		true),
	    0);
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((asks(&w, "run:x", words[i].args) != -1) != words[i].good)
			fail_msg("%s", words[i].args);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* A param that names its choices takes those and no other, also ones that begin with a dash. */
static void
choices_are_the_words(void **state)
{
	static const char *const wrong[] = {"[]", "[7]", "\"one\"", "[\"\"]", "[\"a\\nb\"]"};
	struct world w;
	char text[512];
	size_t i;

	(void)state;
	world_make(&w);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text),
		    PROG
		    ",\"params\":[{\"name\":\"a\",\"type\":\"string\",\"in\":%s,\"doc\":\"d\"}]}",
		    wrong[i]);
		assert_int_equal(add(&w, text, true), -1);
		person_says(&w.s, "manifest.params");
	}
	assert_int_equal(add(&w,
			     PROG ",\"params\":[{\"name\":\"a\",\"type\":\"integer\",\"min\":1,"
				  "\"max\":2,\"in\":[\"1\"],\"doc\":\"d\"}]}",
			     true),
	    -1);
	assert_int_equal(add(&w,
			     PROG ",\"params\":[{\"name\":\"a\",\"type\":\"string\","
				  "\"in\":[\"one\",\"-v\"],\"doc\":\"d\"}]}",
			     true),
	    0);
	assert_int_not_equal(asks(&w, "run:x", "[\"one\"]"), -1);
	assert_int_not_equal(asks(&w, "run:x", "[\"-v\"]"), -1);
	assert_int_equal(asks(&w, "run:x", "[\"-x\"]"), -1);
	assert_int_equal(asks(&w, "run:x", "[\"on\"]"), -1);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* A verb whose tool is missing is the machine's matter: no use is spent, and it is no strike. */
static void
a_missing_tool_spends_nothing(void **state)
{
	struct world w;
	int64_t grant;

	(void)state;
	world_make(&w);
	assert_int_equal(add(&w, NONE MOVE, false), 0);
	grant = granted(&w, "run:x", "[]");
	assert_int_equal(scratch_sql(&w.s, "INSERT INTO op_probe (op, works, why, probed_at)"
					   " VALUES ('file:move', 0, 'this machine has no mv', 1)"),
	    0);
	assert_int_equal(person_run(&w.s, grant, 1), -1);
	person_says(&w.s, "act.tool");
	assert_int_equal(scratch_value(&w.s, "SELECT count(*) FROM grant_use"), 0);
	assert_int_equal(
	    scratch_value(&w.s, "SELECT count(*) FROM strike WHERE code = 'act.tool'"), 0);
	assert_int_equal(
	    scratch_sql(&w.s, "UPDATE op_probe SET works = 1, why = '' WHERE op = 'file:move'"), 0);
	assert_int_equal(person_run(&w.s, grant, 1), 0);
	clock_fix(0);
	scratch_drop(&w.s);
}

static void
token(struct world *w, const char *host)
{
	struct token_wish wish = {.name = "deploy", .hosts = &host, .nhosts = 1, .by_uid = 1000};
	int64_t id;

	assert_int_equal(
	    token_add(scratch_open(&w->s, ROLE_PERSON), w->s.key, &wish, "s3cr3t-0123456789", &id),
	    0);
}

/* What is signed for a question names what the op reaches and whose secret it gets, and a row that
 * leaves that out, or says something else, is no question. */
static void
a_question_names_what_is_lent(void **state)
{
	struct world w;
	char terms[1024];
	int64_t id;

	(void)state;
	world_make(&w);
	token(&w, "api.example.org");
	assert_int_equal(
	    add(&w, PROG ",\"credential\":\"deploy\",\"destinations\":[\"api.example.org:443\"]}",
		true),
	    0);
	assert_int_equal(add(&w, SITE, true), 0);
	assert_int_not_equal(id = asks(&w, "run:x", "[]"), -1);
	assert_int_not_equal(asks(&w, "run:site", "[]"), -1);
	scratch_text(&w.s, "SELECT terms FROM approval WHERE op = 'run:x'", terms, sizeof(terms));
	assert_int_equal(strncmp(terms, "bastion approval 3\n", 19), 0);
	assert_non_null(
	    strstr(terms, "\nreaches: [\"api.example.org:443\"]\ncredential: \"deploy\"\n"));
	scratch_text(
	    &w.s, "SELECT terms FROM approval WHERE op = 'run:site'", terms, sizeof(terms));
	assert_int_equal(strncmp(terms, "bastion approval 1\n", 19), 0);
	assert_null(strstr(terms, "reaches"));
	scratch_refused(&w.s, "approval.terms", OTHER("NULL", "NULL"));
	scratch_refused(&w.s, "approval.terms", OTHER("reaches", "NULL"));
	scratch_refused(&w.s, "approval.terms", OTHER("NULL", "credential"));
	scratch_refused(&w.s, "approval.terms", OTHER("reaches", "'release'"));
	scratch_refused(&w.s, "approval.terms", OTHER("'[]'", "credential"));
	assert_int_equal(scratch_sql(&w.s, OTHER("reaches", "credential")), 0);
	scratch_refused(
	    &w.s, "approval.decided", "UPDATE approval SET credential = NULL WHERE op = 'run:x'");
	/* What it was asked for is what is granted: with another manifest the question is none. */
	assert_int_equal(add(&w, PROG ",\"destinations\":[\"api.example.org:443\"]}", true), 0);
	assert_int_equal(
	    scratch_value(
		&w.s, "SELECT count(*) FROM approval WHERE op = 'run:x' AND state = 'expired'"),
	    2);
	assert_true(id > 0);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* A program gets a token that reaches no further than the token is for; one that is gone is the
 * machine's matter: it costs no use, and is no strike. */
static void
a_token_is_for_its_hosts(void **state)
{
	static const char good[] = PROG ",\"credential\":\"deploy\",\"destinations\":["
					"\"api.example.org:443\",\"b.api.example.org:8443\"]}";
	struct world w;
	int64_t grant;

	(void)state;
	world_make(&w);
	token(&w, "api.example.org");
	assert_int_equal(add(&w,
			     PROG ",\"credential\":\"deploy\",\"destinations\":["
				  "\"api.example.org:443\",\"xapi.example.org:443\"]}",
			     true),
	    -1);
	person_says(&w.s, "manifest.credential");
	assert_int_equal(add(&w, PROG ",\"credential\":\"deploy\"}", true), 0);
	assert_int_equal(add(&w, good, true), 0);
	grant = granted(&w, "run:x", "[]");
	assert_int_equal(token_drop(scratch_open(&w.s, ROLE_PERSON), "deploy"), 0);
	assert_int_equal(person_run(&w.s, grant, 1), -1);
	person_says(&w.s, "act.credential");
	assert_int_equal(asks(&w, "run:x", "[]"), -1);
	person_says(&w.s, "act.credential");
	/* One of the same name for others is another. */
	token(&w, "example.net");
	assert_int_equal(person_run(&w.s, grant, 1), -1);
	person_says(&w.s, "act.credential");
	assert_int_equal(token_drop(scratch_open(&w.s, ROLE_PERSON), "deploy"), 0);
	token(&w, "example.org");
	assert_int_equal(scratch_value(&w.s, "SELECT count(*) FROM grant_use"), 0);
	assert_int_equal(
	    scratch_value(&w.s, "SELECT count(*) FROM strike WHERE code = 'act.credential'"), 0);
	assert_int_equal(person_run(&w.s, grant, 1), 0);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* The run with the number ${n}, of the Host ${pairing}, taken back by ${by}.  Return
 * op_run_cancel's result, or 1 where there was nothing to take back. */
static int
takes_back(struct world *w, int n, int64_t by)
{
	char nonce[33];
	int64_t id = 0;
	int rc;

	snprintf(nonce, sizeof(nonce), "%032d", n);
	assert_int_equal(store_begin(scratch_open(&w->s, ROLE_NET)), 0);
	rc = op_run_cancel(w->s.db, by, nonce, &id);
	if (rc == 0)
		assert_int_equal(store_commit(w->s.db), 0);
	else
		store_rollback(w->s.db);
	return rc == 0 && id == 0 ? 1 : rc;
}

/* COD-1, COD-2, COD-3: a Host stops its own runs.  Those of another nobody else stops where several
 * are paired with a local machine; the one Host that is left there does; on a network the anchor.
 */
static void
runs_are_of_their_hosts(void **state)
{
	int64_t grant_a, grant_b, b;
	struct world w;

	(void)state;
	world_make(&w);
	b = person_host(&w.s, "desktop");
	grant_a = person_granted(&w.s, &w.p, w.pairing, "[\"/srv\",\"2\"]");
	grant_b = person_granted(&w.s, &w.p, b, "[\"/srv\",\"3\"]");
	assert_int_equal(person_run(&w.s, grant_a, 1), 0);
	assert_int_equal(person_run(&w.s, grant_a, 2), 0);
	assert_int_equal(person_run(&w.s, grant_b, 3), 0);
	assert_int_equal(person_run(&w.s, grant_b, 4), 0);
	/* A local machine of two Hosts. */
	assert_int_equal(takes_back(&w, 1, b), -1);
	person_says(&w.s, "op.owner");
	assert_int_equal(scratch_value(&w.s, "SELECT count(*) FROM op_cancel"), 0);
	assert_int_equal(takes_back(&w, 1, w.pairing), 0);
	assert_int_equal(takes_back(&w, 1, w.pairing), 1);
	/* A local machine of one Host, where another was. */
	assert_int_equal(takes_back(&w, 4, w.pairing), -1);
	person_says(&w.s, "op.owner");
	assert_int_equal(scratch_sql(&w.s, "UPDATE op_run SET state = 'running',"
					   " started_at = now_ms() WHERE id IN (3, 4)"),
	    0);
	assert_int_equal(
	    scratch_sql(&w.s, "UPDATE pairing SET state = 'revoked', ended_at = now_ms()"
			      " WHERE host_name = 'desktop'"),
	    0);
	assert_int_equal(takes_back(&w, 4, w.pairing), 0);
	/* On a network: the anchor, and no other. */
	assert_int_equal(scratch_sql(&w.s, "UPDATE box SET mode = 'networked'"), 0);
	assert_int_equal(takes_back(&w, 2, b), -1);
	person_says(&w.s, "op.owner");
	assert_int_equal(
	    scratch_sql(&w.s, "INSERT INTO anchor (id, pairing_id, host_key, reason,"
			      "  claimed_at, by_uid, heard_at)"
			      " SELECT 1, id, host_key, 'claimed', now_ms(), 0, now_ms()"
			      "  FROM pairing WHERE host_name = 'laptop'"),
	    0);
	assert_int_equal(takes_back(&w, 2, b), -1);
	person_says(&w.s, "op.owner");
	assert_int_equal(takes_back(&w, 3, w.pairing), 0);
	assert_int_equal(scratch_sql(&w.s, "UPDATE op_run SET state = 'cancelled',"
					   " finished_at = now_ms() WHERE state = 'running'"),
	    0);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* A run that is taken back while it waits is over; one that ended is history. */
static void
a_run_is_taken_back(void **state)
{
	struct world w;
	int64_t grant, id;
	char text[256];

	(void)state;
	world_make(&w);
	assert_int_equal(add(&w, SITE, true), 0);
	grant = granted(&w, "run:site", "[]");
	snprintf(text, sizeof(text),
	    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
	    " VALUES (%lld, 'run:site', '[]', '%032d', %lld, now_ms())",
	    (long long)w.pairing, 1, (long long)grant);
	assert_int_equal(scratch_sql(&w.s, text), 0);
	snprintf(text, sizeof(text), "%032d", 1);
	assert_int_equal(store_begin(scratch_open(&w.s, ROLE_NET)), 0);
	assert_int_equal(op_run_cancel(w.s.db, w.pairing, text, &id), 0);
	assert_int_equal(id, 1);
	assert_int_equal(op_run_cancel(w.s.db, w.pairing, text, &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(store_commit(w.s.db), 0);
	assert_int_equal(
	    scratch_value(&w.s, "SELECT count(*) FROM op_run WHERE state = 'cancelled'"), 1);
	clock_fix(0);
	scratch_drop(&w.s);
}

static int64_t
cancelled(struct world *w)
{
	return scratch_value(&w->s, "SELECT count(*) FROM op_run WHERE state = 'cancelled'"
				    " AND finished_at = now_ms()");
}

/* A run that waits, or was begun and has no program yet, never has the program of a later op. */
static void
a_run_has_the_program_it_was_asked_of(void **state)
{
	static const char begin[] =
	    "UPDATE op_run SET state = 'running', started_at = now_ms() WHERE state = 'queued'";
	static const char program[] =
	    "INSERT INTO program_run (op_run_id, manifest_id) SELECT max(r.id), max(m.id)"
	    "  FROM op_run AS r, op_manifest AS m";
	struct world w;
	int64_t grant;

	(void)state;
	world_make(&w);
	assert_int_equal(add(&w, SITE, true), 0);
	grant = granted(&w, "run:site", "[]");
	assert_int_equal(person_run(&w.s, grant, 1), 0);
	assert_int_equal(person_run(&w.s, grant, 2), 0);
	/* Its last use: the grant is spent, and no longer what could be dropped. */
	assert_int_equal(
	    scratch_value(&w.s, "SELECT count(*) FROM grant WHERE state = 'spent'"), 1);
	assert_int_equal(add(&w, SITE, true), 0);
	assert_int_equal(cancelled(&w), 2);
	grant = granted(&w, "run:site", "[]");
	assert_int_equal(person_run(&w.s, grant, 3), 0);
	assert_int_equal(manifest_drop(scratch_open(&w.s, ROLE_PERSON), "run:site"), 0);
	assert_int_equal(cancelled(&w), 1);
	/* Begun, while another takes the op's place; the clock went back meanwhile. */
	assert_int_equal(add(&w, SITE, true), 0);
	grant = granted(&w, "run:site", "[]");
	assert_int_equal(person_run(&w.s, grant, 4), 0);
	assert_int_equal(scratch_sql(&w.s, begin), 0);
	assert_int_equal(add(&w, SITE, true), 0);
	clock_fix(clock_now() - 3600000);
	scratch_refused(&w.s, "manifest.replaced", program);
	assert_int_equal(scratch_sql(&w.s, "UPDATE op_run SET state = 'cancelled',"
					   " finished_at = now_ms() WHERE state = 'running'"),
	    0);
	clock_fix(clock_now() + 3600000);
	grant = granted(&w, "run:site", "[]");
	assert_int_equal(person_run(&w.s, grant, 5), 0);
	assert_int_equal(scratch_sql(&w.s, begin), 0);
	assert_int_equal(scratch_sql(&w.s, program), 0);
	assert_int_equal(scratch_sql(&w.s, "UPDATE op_run SET state = 'cancelled',"
					   " finished_at = now_ms() WHERE state = 'running'"),
	    0);
	clock_fix(0);
	scratch_drop(&w.s);
}

/* What waits under a grant ends as it is taken back, or as who approved it is not trusted any more.
 */
static void
what_waits_ends_with_its_grant(void **state)
{
	struct world w;
	int64_t grant, n;

	(void)state;
	world_make(&w);
	grant = person_granted(&w.s, &w.p, w.pairing, "[1]");
	assert_int_equal(person_run(&w.s, grant, 1), 0);
	assert_int_equal(grant_drop(scratch_open(&w.s, ROLE_PERSON), grant, &n), 0);
	assert_int_equal(cancelled(&w), 1);
	grant = person_granted(&w.s, &w.p, w.pairing, "[2]");
	assert_int_equal(person_run(&w.s, grant, 2), 0);
	assert_int_equal(person_run(&w.s, grant, 3), 0);
	assert_int_equal(
	    scratch_value(&w.s, "SELECT count(*) FROM grant WHERE state = 'spent'"), 1);
	assert_int_equal(factor_drop(scratch_open(&w.s, ROLE_PERSON), w.p.factor, &n), 0);
	assert_int_equal(cancelled(&w), 2);
	clock_fix(0);
	scratch_drop(&w.s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_no_manifest_is_refused),
	    cmocka_unit_test(a_factor_adds_an_op),
	    cmocka_unit_test(a_signature_is_of_one_op),
	    cmocka_unit_test(an_edited_op_holds_nothing),
	    cmocka_unit_test(another_program_has_no_grants),
	    cmocka_unit_test(a_signer_who_is_dropped_signed_nothing),
	    cmocka_unit_test(words_are_held_to_the_params),
	    cmocka_unit_test(choices_are_the_words),
	    cmocka_unit_test(a_missing_tool_spends_nothing),
	    cmocka_unit_test(a_run_is_taken_back),
	    cmocka_unit_test(a_run_has_the_program_it_was_asked_of),
	    cmocka_unit_test(what_waits_ends_with_its_grant),
	    cmocka_unit_test(a_question_names_what_is_lent),
	    cmocka_unit_test(a_token_is_for_its_hosts),
	    cmocka_unit_test(runs_are_of_their_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
