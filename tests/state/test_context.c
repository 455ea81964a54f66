/* test_context.c: who may ask to share what, how often, and what a person's yes covers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/state/context.h"
#include "engine/state/factor.h"
#include "engine/state/pairing.h"
#include "tests/person.h"
#include "tests/scratch.h"

static struct scratch s;
static struct person p;
static char docs[128]; /* a folder of ours */

static void
set(const char *name, int value)
{
	char sql[128];

	snprintf(sql, sizeof(sql), "UPDATE setting SET value = %d WHERE name = '%s'", value, name);
	assert_int_equal(scratch_sql(&s, sql), 0);
}

static void
begin(void)
{
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_host(&s, "laptop");
	person_enrol(&s, &p, "phone");
	snprintf(docs, sizeof(docs), "%s/docs", s.dir);
	assert_int_equal(mkdir(docs, 0700), 0);
	scratch_open(&s, ROLE_NET);
}

/* Ask as the net actor does, on the connection that is open.  Return the id, or -1. */
static int64_t
asks(int64_t uid, const char *root, const char *name, const char *host)
{
	struct context_request request = {.uid = uid};
	int64_t id;

	snprintf(request.root, sizeof(request.root), "%s", root);
	snprintf(request.name, sizeof(request.name), "%s", name);
	snprintf(request.host, sizeof(request.host), "%s", host);
	assert_int_equal(store_begin(s.db), 0);
	if (context_ask(s.db, &request, &id) != 0)
		return store_rollback(s.db);
	assert_int_equal(store_commit(s.db), 0);
	return id;
}

static void
asks_in_vain(const char *code, int64_t uid, const char *root, const char *name, const char *host)
{
	if (asks(uid, root, name, host) != -1)
		fail_msg("taken: \"%s\" \"%s\" \"%s\"", root, name, host);
	if (strcmp(store_refusal(s.db)->code, code) != 0)
		fail_msg("\"%s\" \"%s\": %s, not %s", root, name, store_refusal(s.db)->code, code);
}

static int
withdraws(int64_t uid, int64_t id)
{
	assert_int_equal(store_begin(s.db), 0);
	if (context_withdraw(s.db, uid, id) != 0)
		return store_rollback(s.db);
	return store_commit(s.db);
}

/* Allow ${id} with ${code}, having been shown ${shown} (NULL: the terms that it has). */
static int
allows(int64_t id, const char *code, const unsigned char *shown)
{
	struct approval_answer answer = {
	    .id = id, .uid = 1000, .name = "alice", .key = s.key, .code = code};
	unsigned char digest[APPROVAL_DIGEST] = {0};
	const void *found;
	struct stmt *q;

	scratch_open(&s, ROLE_PERSON);
	assert_non_null(q = store_sql(s.db, "SELECT digest FROM context_ask WHERE id = :id"));
	stmt_int(q, ":id", id);
	if (stmt_step(q) == 1) {
		if ((found = stmt_get_blob(q, 0, sizeof(digest))) != NULL)
			memcpy(digest, found, sizeof(digest));
		stmt_done(q);
	}
	answer.digest = shown != NULL ? shown : digest;
	return context_allow(s.db, &answer);
}

static void
allowed(int64_t id)
{
	char code[7];

	clock_fix(clock_now() + 30000);
	if (allows(id, person_code(&p, clock_now(), code), NULL) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM shared_folders"), 1);
}

/* Not allowed for ${why}; a code that works is not spent by it. */
static void
not_allowed(int64_t id, const char *why)
{
	char code[7];

	clock_fix(clock_now() + 30000);
	assert_int_equal(allows(id, person_code(&p, clock_now(), code), NULL), -1);
	person_says(&s, why);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM shared_folders"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM factor_try"), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM context_ask WHERE state = 'pending'"), 1);
}

/* A path that could mean two things, hide something or lead out of users' files is none. */
static void
paths_have_walls(void **state)
{
	static const char *const bad[] = {"", "/", "docs", "./docs", "/a/../b", "/a/..", "/..",
	    "/a/./b", "/a/.", "//a", "/a//b", "/a/", "/a\nb", "/a\rb", "/a\tb", "/a\x1b[2Jb",
	    "/a\x7f", "/a\xc2\x85",
	    "/a\xc2\x9b"
	    "b",
	    "/proc", "/proc/1/root", "/proc/self/cwd", "/sys/kernel", "/dev/shm", "/dev", "~",
	    "~/docs", "C:\\docs"};
	static char longest[PATH_MAX];
	char name[64];
	size_t i;

	(void)state;
	begin();
	set("context.asks", 100);
	scratch_open(&s, ROLE_NET);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		asks_in_vain("context.path", 7, bad[i], "", "");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[0] = '/';
	assert_true(asks(7, longest, "", "") > 0);
	assert_true(asks(7, "/a/...", "", "") > 0);
	assert_true(asks(7, "/a/..b/c..", "", "") > 0);
	assert_true(asks(8, "/process/sysx", "", "") > 0);
	assert_true(asks(8, "/devel", "", "") > 0);
	/* The name is the last part of the path, cut to what a name may be. */
	assert_string_equal(
	    scratch_text(
		&s, "SELECT name FROM context_ask WHERE root = '/a/..b/c..'", name, sizeof(name)),
	    "c..");
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM context_ask WHERE length(name) = 64"), 1);
	scratch_drop(&s);
}

static void
names_have_walls(void **state)
{
	static char longest[CONTEXT_NAME_MAX + 1];
	int i;

	(void)state;
	begin();
	asks_in_vain("context.name", 7, "/a", "a\nmay have: \"/\"", "");
	asks_in_vain("context.name", 7, "/a", "\x1b]0;root\x07", "");
	asks_in_vain("context.name", 7, "/a", "\xc2\x9b", "");
	for (i = 0; i < 65; i++)
		longest[i] = 'n';
	asks_in_vain("context.name", 7, "/a", longest, "");
	/* 64 characters, however many bytes. */
	for (i = 0; i < 64; i++)
		memcpy(longest + 4 * i, "\xf0\x9f\x93\x81", 4);
	assert_true(asks(7, "/a", longest, "") > 0);
	scratch_drop(&s);
}

/* What the user wrote stands as JSON in the terms, so that it cannot be read as a line of them. */
static void
words_cannot_pose_as_terms(void **state)
{
	char terms[1024];

	(void)state;
	begin();
	assert_true(asks(7, "/a\" b", "\"},\\n", "") > 0);
	scratch_text(&s, "SELECT terms FROM context_ask", terms, sizeof(terms));
	assert_non_null(
	    strstr(terms, "asked by: uid 7\nmay have: \"/a\\\" b\"\ncalled: \"\\\"},\\\\n\"\n"));
	assert_int_equal(scratch_value(&s, "SELECT length(terms) - length(replace(terms, char(10),"
					   " '')) FROM context_ask"),
	    7);
	scratch_drop(&s);
}

/* Which Host is meant is never guessed. */
static void
the_host_is_named_or_the_only_one(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_NET);
	asks_in_vain("context.host", 7, "/a", "", "");
	assert_int_equal(scratch_sql(&s, "UPDATE box SET mode = 'networked'"), 0);
	person_host(&s, "laptop");
	person_host(&s, "tower");
	scratch_open(&s, ROLE_NET);
	asks_in_vain("context.host", 7, "/a", "", "");
	asks_in_vain("context.host", 7, "/a", "", "nobody");
	asks_in_vain("context.host", 7, "/a", "", "laptop' OR 1 --");
	assert_true(asks(7, "/a", "", "tower") > 0);
	assert_int_equal(
	    scratch_sql(
		&s, "UPDATE pairing SET state = 'revoked', ended_at = now_ms() WHERE id = 1"),
	    0);
	scratch_open(&s, ROLE_NET);
	asks_in_vain("pairing.inactive", 7, "/b", "", "laptop");
	assert_true(asks(7, "/b", "", "") > 0);
	scratch_drop(&s);
}

/* CTX-7 in rows: as many as one user may, while another still may; and as many as the machine may.
 */
static void
open_asks_are_counted(void **state)
{
	char root[32];
	int i;

	(void)state;
	begin();
	for (i = 0; i < 4; i++) {
		snprintf(root, sizeof(root), "/%d", i);
		assert_true(asks(7, root, "", "") > 0);
	}
	asks_in_vain("context.yours", 7, "/5", "", "");
	assert_non_null(strstr(store_refusal(s.db)->why, "busy"));
	/* The same question is put once. */
	asks_in_vain("context.exists", 7, "/0", "", "");
	for (i = 4; i < 32; i++)
		assert_true(asks(100 + i / 4,
				i % 4 == 0   ? "/0"
				: i % 4 == 1 ? "/1"
				: i % 4 == 2 ? "/2"
					     : "/3",
				"", "") > 0);
	asks_in_vain("context.busy", 8, "/0", "", "");
	assert_non_null(strstr(store_refusal(s.db)->why, "busy"));
	/* What is withdrawn, or ran out, frees its place. */
	assert_int_equal(withdraws(7, 1), 0);
	assert_true(asks(8, "/0", "", "") > 0);
	clock_fix(clock_now() + 86400000);
	assert_true(asks(9, "/0", "", "") > 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM open_context_asks"), 1);
	scratch_drop(&s);
}

/* Ten thousand asks of one user who takes each back leave as many rows as the rate allows, and the
 * next hour is theirs again. */
static void
ten_thousand_asks_leave_few_rows(void **state)
{
	int64_t id, taken = 0;
	char root[32];
	int i;

	(void)state;
	begin();
	for (i = 0; i < 10000; i++) {
		snprintf(root, sizeof(root), "/%d", i);
		if ((id = asks(7, root, "", "")) == -1) {
			assert_string_equal(store_refusal(s.db)->code, "context.rate");
			continue;
		}
		taken++;
		assert_int_equal(withdraws(7, id), 0);
	}
	assert_int_equal(taken, 20);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM context_ask"), 20);
	assert_true(scratch_value(&s, "SELECT count(*) FROM audit") < 100);
	scratch_open(&s, ROLE_NET);
	assert_true(asks(8, "/0", "", "") > 0);
	clock_fix(clock_now() + 3600000);
	assert_true(asks(7, "/0", "", "") > 0);
	scratch_drop(&s);
}

/* An ask is its user's: nobody else takes it back, or learns that it is there. */
static void
an_ask_is_its_users(void **state)
{
	int64_t id;

	(void)state;
	begin();
	assert_true((id = asks(7, "/a", "", "")) > 0);
	assert_int_equal(withdraws(8, id), -1);
	person_says(&s, "context.unknown");
	assert_int_equal(withdraws(8, id + 1), -1);
	person_says(&s, "context.unknown");
	assert_int_equal(withdraws(7, id), 0);
	assert_int_equal(withdraws(7, id), -1);
	person_says(&s, "context.decided");
	scratch_drop(&s);
}

/* A yes covers the folder that stands there, of the one who asked, with a code that works once. */
static void
a_person_allows_what_they_read(void **state)
{
	unsigned char other[APPROVAL_DIGEST] = {1};
	struct stat st;
	int64_t id;
	char code[7], sql[256];

	(void)state;
	begin();
	assert_true((id = asks(geteuid(), docs, "papers", "")) > 0);
	person_code(&p, clock_now(), code);
	assert_int_equal(allows(id, code, other), -1);
	person_says(&s, "context.terms");
	assert_int_equal(allows(id + 1, code, NULL), -1);
	person_says(&s, "context.unknown");
	assert_int_equal(allows(id, "000000", NULL), -1);
	person_says(&s, "factor.code");
	allowed(id);
	assert_int_equal(stat(docs, &st), 0);
	snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM shared_folders WHERE folder_dev = %lld AND folder_ino = %lld"
	    " AND factor = 'phone' AND decided_by = 'alice' AND name = 'papers' AND host = 'laptop'",
	    (long long)st.st_dev, (long long)st.st_ino);
	assert_int_equal(scratch_value(&s, sql), 1);
	assert_int_equal(allows(id, code, NULL), -1);
	person_says(&s, "context.decided");
	scratch_open(&s, ROLE_NET);
	asks_in_vain("context.exists", geteuid(), docs, "", "");
	scratch_drop(&s);
}

/* A user who asks for another's folder gets it from nobody, and the code is not spent. */
static void
anothers_folder_is_not_shared(void **state)
{
	int64_t id;

	(void)state;
	begin();
	assert_true((id = asks(geteuid() + 4711, docs, "", "")) > 0);
	not_allowed(id, "context.owner");
	scratch_drop(&s);
}

/* No link is followed, wherever it stands in the path; nor is what is no folder, or not there. */
static void
links_are_not_followed(void **state)
{
	char path[256], inner[256];
	int fd;

	(void)state;
	begin();
	set("context.pending_uid", 1);
	snprintf(inner, sizeof(inner), "%s/in", docs);
	assert_int_equal(mkdir(inner, 0700), 0);
	snprintf(path, sizeof(path), "%s/link", s.dir);
	assert_int_equal(symlink(docs, path), 0);
	scratch_open(&s, ROLE_NET);
	not_allowed(asks(geteuid(), path, "", ""), "context.link");
	scratch_open(&s, ROLE_NET);
	assert_int_equal(withdraws(geteuid(), 1), 0);
	snprintf(path, sizeof(path), "%s/link/in", s.dir);
	not_allowed(asks(geteuid(), path, "", ""), "context.link");
	scratch_open(&s, ROLE_NET);
	assert_int_equal(withdraws(geteuid(), 2), 0);
	snprintf(path, sizeof(path), "%s/none", s.dir);
	not_allowed(asks(geteuid(), path, "", ""), "context.folder");
	/* What was asked for as a folder may be something else by now. */
	assert_true((fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) != -1);
	close(fd);
	not_allowed(3, "context.folder");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/", path), 0);
	not_allowed(3, "context.link");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	allowed(3);
	scratch_drop(&s);
}

/* Whoever serves the network holds no key: it cannot allow, whatever it writes. */
static void
net_cannot_allow(void **state)
{
	static const char forged[] =
	    "UPDATE context_ask SET state = 'allowed', factor_id = 1, decided_digest = digest,"
	    " decided_by_uid = 0, decided_by = 'root', decided_at = now_ms(), folder_dev = 1,"
	    " folder_ino = 2, folder_uid = uid, seal = %s WHERE id = 1";
	struct store_keys public = {.present = true};
	struct refusal r;
	char sql[512];

	(void)state;
	begin();
	assert_true(asks(7, "/a", "", "") == 1);
	memcpy(public.identity, s.keys.identity, 32);
	memcpy(public.grant, s.keys.grant, 32);
	store_close(s.db);
	assert_non_null(s.db = store_open(&s.home, ROLE_NET, &public, &r));
	assert_int_equal(store_begin(s.db), 0);
	snprintf(sql, sizeof(sql), forged, "zeroblob(64)");
	assert_int_equal(stmt_run(store_sql(s.db, sql)), -1);
	person_says(&s, "context.seal");
	snprintf(sql, sizeof(sql), forged, "seal_sign('folder', 'x')");
	assert_int_equal(stmt_run(store_sql(s.db, sql)), -1);
	store_rollback(s.db);
	assert_int_equal(scratch_value(&s, "SELECT state = 'pending' FROM context_ask"), 1);
	/* Nor does another folder's seal serve, from a process that has the key. */
	snprintf(sql, sizeof(sql), forged,
	    "seal_sign('folder', json_array('folder', id, pairing_id, uid, '/b', name, 1, 2, 1,"
	    " now_ms()))");
	person_refused(&s, "context.seal", sql);
	scratch_drop(&s);
}

/* What was allowed is history: nothing of it moves but its end. */
static void
an_answer_never_changes(void **state)
{
	(void)state;
	begin();
	assert_true(asks(geteuid(), docs, "", "") == 1);
	person_refused(&s, "context.decided", "UPDATE context_ask SET root = '/'");
	allowed(1);
	person_refused(&s, "context.decided", "UPDATE context_ask SET folder_ino = 1");
	person_refused(&s, "context.decided", "UPDATE context_ask SET expires_at = expires_at + 1");
	person_refused(&s, "context.terms",
	    "UPDATE context_ask SET state = 'dropped', ended_at = now_ms(), decided_by = 'bob'");
	person_refused(
	    &s, "context.decided", "UPDATE context_ask SET state = 'pending', ended_at = NULL");
	person_refused(&s, "context.kept", "DELETE FROM context_ask");
	assert_int_equal(context_drop(scratch_open(&s, ROLE_PERSON), 1), 0);
	assert_int_equal(context_drop(s.db, 1), -1);
	person_says(&s, "context.decided");
	person_refused(
	    &s, "context.decided", "UPDATE context_ask SET state = 'allowed', ended_at = NULL");
	scratch_drop(&s);
}

/* What was allowed ends with the factor on whose word it was, and with the pairing; what waits ends
 * with the pairing. */
static void
it_ends_with_what_it_stands_on(void **state)
{
	struct pairing_end end;
	int64_t grants;

	(void)state;
	begin();
	assert_true(asks(geteuid(), docs, "", "") == 1);
	assert_true(asks(7, "/a", "", "") == 2);
	allowed(1);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(factor_drop(s.db, p.factor, &grants), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM shared_folders"), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'dropped' FROM context_ask WHERE id = 1"), 1);
	scratch_open(&s, ROLE_PERSON);
	person_enrol(&s, &p, "new phone");
	scratch_open(&s, ROLE_NET);
	assert_true(asks(geteuid(), docs, "", "") == 3);
	allowed(3);
	scratch_open(&s, ROLE_PERSON);
	if (pairing_revoke(s.db, 1, &end) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_int_equal(scratch_value(&s,
			     "SELECT count(*) FROM context_ask WHERE (id = 2 AND state = 'expired')"
			     " OR (id = 3 AND state = 'dropped')"),
	    2);
	scratch_drop(&s);
}

/* A no needs no code; an answer after the ask ran out is none. */
static void
denied_and_too_late(void **state)
{
	struct approval_answer answer = {.id = 1, .uid = 1000};
	char code[7];

	(void)state;
	begin();
	assert_true(asks(geteuid(), docs, "", "") == 1);
	assert_int_equal(context_deny(scratch_open(&s, ROLE_PERSON), &answer), 0);
	assert_int_equal(context_deny(s.db, &answer), -1);
	person_says(&s, "context.decided");
	answer.id = 77;
	assert_int_equal(context_deny(s.db, &answer), -1);
	person_says(&s, "context.unknown");
	scratch_open(&s, ROLE_NET);
	assert_true(asks(geteuid(), docs, "", "") == 2);
	clock_fix(clock_now() + 86400000);
	assert_int_equal(allows(2, person_code(&p, clock_now(), code), NULL), -1);
	person_says(&s, "context.expired");
	answer.id = 2;
	assert_int_equal(context_deny(s.db, &answer), -1);
	person_says(&s, "context.expired");
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(paths_have_walls),
	    cmocka_unit_test(names_have_walls),
	    cmocka_unit_test(words_cannot_pose_as_terms),
	    cmocka_unit_test(the_host_is_named_or_the_only_one),
	    cmocka_unit_test(open_asks_are_counted),
	    cmocka_unit_test(ten_thousand_asks_leave_few_rows),
	    cmocka_unit_test(an_ask_is_its_users),
	    cmocka_unit_test(a_person_allows_what_they_read),
	    cmocka_unit_test(anothers_folder_is_not_shared),
	    cmocka_unit_test(links_are_not_followed),
	    cmocka_unit_test(net_cannot_allow),
	    cmocka_unit_test(an_answer_never_changes),
	    cmocka_unit_test(it_ends_with_what_it_stands_on),
	    cmocka_unit_test(denied_and_too_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
