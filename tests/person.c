/* person.c: a person and a Host, for tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/factor.h"
#include "engine/state/pairing.h"
#include "tests/person.h"

static const char RUN[] = "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
			  " SELECT pairing_id, op, args, printf('%032x', :nonce), id, now_ms()"
			  "   FROM grant WHERE id = :grant";

/* The whole output of ${command}, which must succeed, in ${out}. */
static void
shell(const char *command, char *out, size_t size)
{
	FILE *f = popen(command, "re");
	size_t len;

	assert_non_null(f);
	len = fread(out, 1, size - 1, f);
	out[len] = '\0';
	if (pclose(f) != 0)
		fail_msg("failed: %s", command);
}

void
person_says(struct scratch *s, const char *code)
{
	assert_string_equal(store_refusal(s->db)->code, code);
}

int64_t
person_host(struct scratch *s, const char *name)
{
	unsigned char key[32];
	struct pairing_offer offer = {
	    .host = name, .host_key = key, .peer_uid = 1000, .by_uid = 1000, .answer = "yes"};
	struct pairing_made made;

	crypto_hash_sha256(key, (const unsigned char *)name, strlen(name));
	if (pairing_add(scratch_open(s, ROLE_PERSON), &offer, &made) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
	return made.id;
}

void
person_enrol(struct scratch *s, struct person *p, const char *label)
{
	struct factor_totp totp;

	if (factor_add_totp(scratch_open(s, ROLE_PERSON), s->key, label, &totp) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
	p->factor = totp.id;
	snprintf(p->secret, sizeof(p->secret), "%s", totp.secret);
}

void
person_enrol_key(struct scratch *s, struct person *p, const char *label)
{
	char command[512], line[1024];

	snprintf(p->path, sizeof(p->path), "%s/%s", s->dir, label);
	snprintf(command, sizeof(command),
	    "test -f %s || ssh-keygen -q -t ed25519 -N '' -C '%s' -f %s; cat %s.pub", p->path,
	    label, p->path, p->path);
	shell(command, line, sizeof(line));
	if (factor_add_ssh(scratch_open(s, ROLE_PERSON), line, NULL, &p->factor) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
	p->secret[0] = '\0';
}

const char *
person_code(const struct person *p, int64_t at_ms, char code[7])
{
	char command[256], out[32];

	snprintf(command, sizeof(command), "oathtool --totp -b -N @%lld %s",
	    (long long)(at_ms / 1000), p->secret);
	shell(command, out, sizeof(out));
	snprintf(code, 7, "%.6s", out);
	return code;
}

const char *
person_sign(struct scratch *s, const struct person *p, int64_t id, char *out, size_t size)
{
	char command[512], sql[96], terms[20000];
	FILE *f;

	snprintf(sql, sizeof(sql), "SELECT terms FROM approval WHERE id = %lld", (long long)id);
	scratch_text(s, sql, terms, sizeof(terms));
	snprintf(command, sizeof(command), "%s/terms", s->dir);
	assert_non_null(f = fopen(command, "we"));
	assert_true(fputs(terms, f) >= 0);
	assert_int_equal(fclose(f), 0);
	snprintf(command, sizeof(command),
	    "ssh-keygen -q -Y sign -n bastion -f %s < %s/terms 2>/dev/null", p->path, s->dir);
	shell(command, out, size);
	return out;
}

int64_t
person_asked(struct scratch *s, int64_t pairing_id, const char *args)
{
	int64_t id;

	if (approval_ask(
		scratch_open(s, ROLE_NET), pairing_id, "observe:folders", args, 2, 60000, &id) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
	return id;
}

int
person_answers(
    struct scratch *s, int64_t id, const char *code, const char *signature, int64_t *grant_id)
{
	struct approval_answer answer = {.id = id,
	    .uid = 1000,
	    .name = "alice",
	    .key = s->key,
	    .code = code,
	    .signature = signature};
	unsigned char digest[APPROVAL_DIGEST] = {0};
	const void *found;
	struct stmt *q;

	scratch_open(s, ROLE_PERSON);
	assert_non_null(q = store_sql(s->db, "SELECT digest FROM approval WHERE id = :id"));
	stmt_int(q, ":id", id);
	if (stmt_step(q) == 1) {
		if ((found = stmt_get_blob(q, 0, sizeof(digest))) != NULL)
			memcpy(digest, found, sizeof(digest));
		stmt_done(q);
	}
	answer.digest = digest;
	return approval_approve(s->db, &answer, grant_id);
}

int64_t
person_granted(struct scratch *s, const struct person *p, int64_t pairing_id, const char *args)
{
	int64_t id = person_asked(s, pairing_id, args), grant_id;
	char code[7];

	clock_fix(clock_now() + 30000);
	if (person_answers(s, id, person_code(p, clock_now(), code), NULL, &grant_id) != 0)
		fail_msg("%s: %s", store_refusal(s->db)->code, store_refusal(s->db)->why);
	return grant_id;
}

int
person_run(struct scratch *s, int64_t grant_id, int nonce)
{
	struct stmt *q;

	scratch_open(s, ROLE_NET);
	assert_int_equal(store_begin(s->db), 0);
	assert_non_null(q = store_sql(s->db, RUN));
	stmt_int(q, ":grant", grant_id);
	stmt_int(q, ":nonce", nonce);
	return stmt_run_one(q) == 0 ? store_commit(s->db) : store_rollback(s->db);
}

/* Every row of the table ${name}, into ${state}. */
static void
table_hash(struct scratch *s, const char *name, crypto_hash_sha256_state *state)
{
	char sql[128];
	sqlite3_stmt *q;
	int i;

	snprintf(sql, sizeof(sql), "SELECT * FROM \"%s\"", name);
	assert_int_equal(sqlite3_prepare_v2(store_handle(s->db), sql, -1, &q, NULL), SQLITE_OK);
	while (sqlite3_step(q) == SQLITE_ROW)
		for (i = 0; i < sqlite3_column_count(q); i++) {
			unsigned char type = (unsigned char)sqlite3_column_type(q, i);
			const void *bytes = sqlite3_column_blob(q, i);
			unsigned len = (unsigned)sqlite3_column_bytes(q, i);

			crypto_hash_sha256_update(state, &type, 1);
			crypto_hash_sha256_update(state, (const void *)&len, sizeof(len));
			crypto_hash_sha256_update(state, bytes, len);
		}
	sqlite3_finalize(q);
}

void
person_digest(struct scratch *s, unsigned char digest[32])
{
	crypto_hash_sha256_state state;
	sqlite3_stmt *q;

	scratch_open(s, ROLE_MIGRATE);
	crypto_hash_sha256_init(&state);
	assert_int_equal(
	    sqlite3_prepare_v2(store_handle(s->db),
		"SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name", -1, &q, NULL),
	    SQLITE_OK);
	while (sqlite3_step(q) == SQLITE_ROW)
		table_hash(s, (const char *)sqlite3_column_text(q, 0), &state);
	sqlite3_finalize(q);
	crypto_hash_sha256_final(&state, digest);
}

void
person_refused(struct scratch *s, const char *code, const char *sql)
{
	unsigned char before[32], after[32];

	person_digest(s, before);
	scratch_refused(s, code, sql);
	person_digest(s, after);
	assert_memory_equal(before, after, 32);
}
