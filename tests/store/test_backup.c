/* test_backup.c: a copy is whole or not there; a restore brings back nothing that had ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/state/audit.h"
#include "engine/state/factor.h"
#include "engine/state/instance.h"
#include "engine/state/manifest.h"
#include "engine/state/mode.h"
#include "engine/state/pairing.h"
#include "engine/state/sparing.h"
#include "engine/store/backup.h"
#include "engine/store/migrate.h"
#include "engine/store/restore.h"
#include "tests/person.h"
#include "tests/scratch.h"
#include "tests/slower.h"

static struct scratch s;
static char file[96];

static int
make(void **state)
{
	(void)state;
	clock_fix(PERSON_MORNING);
	scratch_make(&s, HOME_BOX);
	snprintf(file, sizeof(file), "%s/copy.db", s.dir);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

/* Take a backup as a person does.  Return 0, or -1 with the refusal of s.db. */
static int
take(const char *path, bool force, struct backup_copy *copy)
{
	scratch_open(&s, ROLE_PERSON);
	return backup_write(s.db, path, s.keys.identity, force, NULL, copy);
}

static void
taken(void)
{
	struct backup_copy copy;

	if (take(file, true, &copy) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
}

static void
not_taken(const char *path, const char *code)
{
	struct backup_copy copy;

	assert_int_equal(take(path, false, &copy), -1);
	assert_string_equal(store_refusal(s.db)->code, code);
}

static int
restore(struct restore_options options, struct restore_report *report, struct refusal *r)
{
	store_close(s.db);
	s.db = NULL;
	options.acting = "person:alice(1000)";
	return restore_run(&s.home, file, &s.keys, &options, NULL, report, r);
}

static struct restore_report
restored(struct restore_options options)
{
	struct restore_report report;
	struct refusal r = {0};

	if (restore(options, &report, &r) != 0)
		fail_msg("%s: %s", r.code, r.why);
	return report;
}

/* Refused with ${code}, and every byte of the database is what it was. */
static void
not_restored(const char *code)
{
	unsigned char before[32], after[32];
	struct restore_report report;
	struct refusal r = {0};

	person_digest(&s, before);
	assert_int_equal(restore((struct restore_options){0}, &report, &r), -1);
	if (strcmp(r.code, code) != 0)
		fail_msg("not %s but %s: %s", code, r.code, r.why);
	person_digest(&s, after);
	assert_memory_equal(before, after, 32);
	assert_int_not_equal(faccessat(s.home.fd, "bastion.db.restoring", F_OK, 0), 0);
}

static const struct restore_options plain = {0};

static int64_t
value(const char *sql)
{
	return scratch_value(&s, sql);
}

static int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static struct {
	_Atomic int writes;
	_Atomic int64_t longest_us;
} * board;

/* Write until killed, and say how long the longest write took. */
static void
writer(void)
{
	int64_t began;

	for (;;) {
		began = now_us();
		if (scratch_sql(&s,
			"INSERT INTO audit_entry (stream, entity, entity_id, action,"
			" pairing, body) VALUES ('op', 'test', '1', 'added', '', '{}')"))
			_exit(1);
		began = now_us() - began;
		if (began > board->longest_us)
			board->longest_us = began;
		board->writes++;
	}
}

/* A database of some megabytes, whose audit is sealed. */
static void
grow(void)
{
	assert_int_equal(
	    scratch_sql(&s,
		"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
		" i < 20000) INSERT INTO audit_entry (stream, entity, entity_id, action,"
		" pairing, body) SELECT 'op', 'test', i, 'added', '', '{}' FROM n"),
	    0);
	scratch_open(&s, ROLE_KEEPER);
	assert_int_equal(audit_seal(s.db, "request"), 1);
}

/* While others write, the copy is of one moment, and they hardly notice. */
static void
writers_go_on(void **state)
{
	struct backup_copy copy;
	struct stat st;
	unsigned char head[100];
	pid_t pid;
	int fd, status, i, begun;

	(void)state;
	grow();
	board =
	    mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(board, MAP_FAILED);
	store_close(s.db);
	s.db = NULL;
	if ((pid = fork()) == 0)
		writer();
	while (board->writes == 0)
		usleep(1000);
	board->longest_us = 0;
	begun = board->writes;
	for (i = 0; i < 3; i++) {
		if (take(file, true, &copy) != 0)
			fail_msg("%s", store_refusal(s.db)->why);
		assert_true(copy.rows == copy.seq && copy.seq > 20000);
	}
	assert_true(board->writes > begun);
	assert_true(board->longest_us < 1000000 * SLOWER);
	print_message("%d writes during three copies of %d kB, the longest of %d ms\n",
	    board->writes - begun, (int)(copy.bytes / 1024), (int)(board->longest_us / 1000));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	/* It stands alone: no log beside it, and none wanted. */
	assert_true((fd = open(file, O_RDONLY | O_CLOEXEC)) != -1);
	assert_int_equal(read(fd, head, sizeof(head)), sizeof(head));
	assert_int_equal(head[18], 1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, copy.bytes);
	close(fd);
	munmap(board, sizeof(*board));
}

static void
beside_is(const char *suffix, bool there)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%s", file, suffix);
	assert_int_equal(access(path, F_OK) == 0, there);
}

/* RF-103: the place of the database is known by what it is, whatever it is called. */
static void
not_over_the_database(void)
{
	static const char *const names[] = {
	    "bastion.db", "./bastion.db", "../state/bastion.db", "../door/bastion.db"};
	struct backup_copy copy;
	char door[PATH_MAX], *cwd = getcwd(NULL, 0);
	size_t i;

	snprintf(door, sizeof(door), "%s/door", s.dir);
	assert_int_equal(symlink("state", door), 0);
	assert_int_equal(fchdir(s.home.fd), 0);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(access(names[i], F_OK), 0);
		assert_int_equal(take(names[i], true, &copy), -1);
		assert_string_equal(store_refusal(s.db)->code, "backup.file");
	}
	assert_int_equal(chdir(cwd), 0);
	free(cwd);
}

/* What is there stays, but for --force; nothing is written where another could swap it. */
static void
names_are_ours(void **state)
{
	char path[PATH_MAX], other[128];
	int fd;

	(void)state;
	taken();
	not_taken(file, "backup.exists");
	home_path(&s.home, "copy.db", path);
	not_taken(path, "backup.file");
	home_path(&s.home, "bastion.db", path);
	not_taken(path, "backup.file");
	not_over_the_database();
	snprintf(path, sizeof(path), "%s/nowhere/copy.db", s.dir);
	not_taken(path, "backup.file");
	snprintf(path, sizeof(path), "%s/", s.dir);
	not_taken(path, "backup.file");
	snprintf(path, sizeof(path), "%s/open", s.dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	snprintf(path, sizeof(path), "%s/open/copy.db", s.dir);
	not_taken(path, "backup.file");
	/* A link in the place of the part leads nowhere. */
	snprintf(path, sizeof(path), "%s/second.db.part", s.dir);
	snprintf(other, sizeof(other), "%s/victim", s.dir);
	assert_true((fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) != -1);
	close(fd);
	assert_int_equal(symlink(other, path), 0);
	snprintf(path, sizeof(path), "%s/second.db", s.dir);
	not_taken(path, "backup.file");
	/* Nor does a second name of a file that is somebody's. */
	snprintf(path, sizeof(path), "%s/third.db.part", s.dir);
	assert_int_equal(link(other, path), 0);
	snprintf(path, sizeof(path), "%s/third.db", s.dir);
	not_taken(path, "backup.file");
}

/* Two cannot write one file; what one left behind is no hindrance. */
static void
parts_are_taken_over(void **state)
{
	struct backup_copy copy;
	char part[128];
	int fd;

	(void)state;
	snprintf(part, sizeof(part), "%s.part", file);
	assert_true((fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) != -1);
	assert_int_equal(write(fd, "half", 4), 4);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	not_taken(file, "backup.busy");
	beside_is(".part", true);
	close(fd);
	assert_int_equal(take(file, false, &copy), 0);
	beside_is(".part", false);
	beside_is(".part-wal", false);
	beside_is(".part-shm", false);
	beside_is(".part-journal", false);
	beside_is("-wal", false);
}

/* As another tool does it. */
static void
edit(const char *path, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

static const char EDIT_AUDIT[] =
    "CREATE TEMP TABLE t AS SELECT sql FROM sqlite_schema WHERE name = 'audit_no_update';"
    "DROP TRIGGER audit_no_update; UPDATE audit SET action = 'x' WHERE seq = 1;"
    "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT 'trigger',"
    " 'audit_no_update', 'audit', 0, sql FROM temp.t";

/* A database that is not whole makes no backup: it would be trusted one day. */
static void
a_damaged_database_makes_none(void **state)
{
	char path[PATH_MAX], safe[128], command[PATH_MAX + 256];

	(void)state;
	store_close(s.db);
	s.db = NULL;
	home_path(&s.home, "bastion.db", path);
	snprintf(safe, sizeof(safe), "%s/safe.db", s.dir);
	snprintf(command, sizeof(command), "cp %s %s", path, safe);
	assert_int_equal(system(command), 0);
	edit(path, EDIT_AUDIT);
	not_taken(file, "audit.chain");
	beside_is("", false);
	beside_is(".part", false);
	store_close(s.db);
	s.db = NULL;
	snprintf(command, sizeof(command), "cp %s %s", safe, path);
	assert_int_equal(system(command), 0);
}

/* Uses that were spent since the backup stay spent: its grants are dropped. */
static void
spent_uses_stay_spent(void **state)
{
	struct restore_report report;
	struct person p;
	int64_t host, id;

	(void)state;
	host = person_host(&s, "laptop");
	person_enrol(&s, &p, "phone");
	id = person_granted(&s, &p, host, "[\"/a\"]");
	taken();
	assert_int_equal(person_run(&s, id, 1), 0);
	report = restored(plain);
	assert_true(report.descends);
	assert_int_equal(report.grants, 1);
	assert_int_equal(person_run(&s, id, 1), -1);
	person_says(&s, "grant.gone");
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(value("SELECT count(*) FROM grant WHERE end_reason = 'restored'"), 1);
	assert_int_equal(value("SELECT count(*) FROM audit WHERE entity = 'restore'"
			       " AND action = 'restored' AND who = 'person:alice(1000)'"
			       " AND body ->> 'seq' = (SELECT seq FROM restore)"),
	    1);
	/* What happened is signed for. */
	assert_int_equal(
	    value("SELECT max(seq) FROM audit_seal") == value("SELECT max(seq) FROM audit"), 1);
}

/* With --keep-grants a grant lives on, unless the database that was replaced had ended it. */
static void
kept_grants_are_those_that_live(void **state)
{
	struct restore_options keep = {.keep_grants = true};
	struct restore_report report;
	struct person p;
	int64_t host, stays, dropped;

	(void)state;
	host = person_host(&s, "laptop");
	person_enrol(&s, &p, "phone");
	stays = person_granted(&s, &p, host, "[\"/a\"]");
	dropped = person_granted(&s, &p, host, "[\"/b\"]");
	taken();
	assert_int_equal(scratch_sql(&s, "UPDATE grant SET state = 'dropped', ended_at = now_ms(),"
					 " end_reason = 'x' WHERE args = '[\"/b\"]'"),
	    0);
	report = restored(keep);
	assert_int_equal(report.grants, 1);
	assert_int_equal(person_run(&s, dropped, 1), -1);
	person_says(&s, "grant.gone");
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(value("SELECT id FROM grant WHERE state = 'active'"), stays);
}

/* A question that was answered since, and the very signature that answered it. */
static void
an_answer_counts_once(void **state)
{
	struct restore_options keep = {.keep_grants = true, .keep_factors = true};
	struct person key;
	char signature[2048];
	int64_t host, question, grant_id;

	(void)state;
	host = person_host(&s, "laptop");
	person_enrol_key(&s, &key, "me");
	question = person_asked(&s, host, "[\"/a\"]");
	taken();
	person_sign(&s, &key, question, signature, sizeof(signature));
	assert_int_equal(person_answers(&s, question, NULL, signature, &grant_id), 0);
	assert_int_equal(restored(keep).questions, 1);
	assert_int_equal(person_answers(&s, question, NULL, signature, &grant_id), -1);
	person_says(&s, "approval.decided");
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(value("SELECT count(*) FROM grant"), 0);
}

/* A code that was used since the backup is not good for another question. */
static void
a_code_works_once_across_a_restore(void **state)
{
	struct person p;
	char code[7];
	int64_t host, first, second, grant_id;

	(void)state;
	host = person_host(&s, "laptop");
	person_enrol(&s, &p, "phone");
	taken();
	first = person_asked(&s, host, "[\"/a\"]");
	person_code(&p, clock_now(), code);
	assert_int_equal(person_answers(&s, first, code, NULL, &grant_id), 0);
	assert_int_equal(restored(plain).factors, 0);
	second = person_asked(&s, host, "[\"/b\"]");
	assert_int_equal(person_answers(&s, second, code, NULL, &grant_id), -1);
	person_says(&s, "factor.used");
	/* The one after the window is. */
	clock_fix(clock_now() + 60000);
	person_code(&p, clock_now(), code);
	assert_int_equal(person_answers(&s, second, code, NULL, &grant_id), 0);
}

/* A factor that was lost and dropped, and a Host that was unpaired, do not come back. */
static void
what_was_dropped_stays_dropped(void **state)
{
	struct restore_report report;
	struct pairing_end end;
	struct person lost, kept;
	int64_t grants;

	(void)state;
	person_host(&s, "laptop");
	person_enrol(&s, &lost, "lost");
	person_enrol(&s, &kept, "kept");
	taken();
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(factor_drop(s.db, lost.factor, &grants), 0);
	assert_int_equal(pairing_revoke(s.db, 1, &end), 0);
	report = restored((struct restore_options){.keep_factors = true});
	assert_true(report.descends);
	assert_int_equal(report.factors, 1);
	assert_int_equal(report.pairings, 1);
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(value("SELECT count(*) FROM factor WHERE state = 'active'"), 1);
	assert_int_equal(
	    value("SELECT state = 'dropped' AND secret IS NULL FROM factor WHERE label = 'lost'"),
	    1);
	assert_int_equal(value("SELECT count(*) FROM pairing WHERE state = 'revoked'"), 1);
}

/* Folders that a person let a Host have are asked for again. */
static void
shared_folders_end(void **state)
{
	static const char ask[] =
	    "INSERT INTO context_ask (nonce, uid, box_name, pairing_id, host_name, root, name,"
	    " asked_at, expires_at) SELECT printf('%032x', 1), 7, name, 1, 'laptop', '/srv', 'srv',"
	    " now_ms(), now_ms() + 60000 FROM box";
	struct restore_options keep = {.keep_grants = true, .keep_factors = true};

	(void)state;
	person_host(&s, "laptop");
	assert_int_equal(scratch_sql(&s, ask), 0);
	taken();
	restored(keep);
	assert_int_equal(value("SELECT state = 'expired' FROM context_ask"), 1);
	assert_int_equal(value("SELECT count(*) FROM shared_folders"), 0);
}

/* Whoever was let in, and what waited, before a restore is not, and does not, after it. */
static void
nothing_that_ended_lives_again(void **state)
{
	static const char alive[] =
	    "INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at) VALUES"
	    " (1, '00000000-0000-0000-0000-000000000000', 4711, 1, 0, 'bastion', now_ms());"
	    "INSERT INTO instance (id, epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 1, 'box', 1, 'test', '/run/bastion', now_ms());"
	    "UPDATE instance SET state = 'ready', ready_at = now_ms();"
	    "INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
	    " VALUES ('s', '[\"true\"]', '/', 0, 1, now_ms(), now_ms());"
	    "INSERT INTO remote_credential (name, found_by, digest, by_uid, verbs, roots, created_at,"
	    " expires_at) VALUES ('far', '0123456789abcdef', zeroblob(32), 0, '[\"run\"]', '[\"/\"]',"
	    " now_ms(), now_ms() + 60000);"
	    "INSERT INTO mcp_token (label, digest, created_at) VALUES ('a', zeroblob(32), now_ms());"
	    "INSERT INTO amendment (nonce, box_name, reason, statement, asked_at, expires_at)"
	    " SELECT printf('%032x', 8), name, 'tidy up', 'UPDATE x', now_ms(), now_ms() + 60000"
	    " FROM box";
	static const char since[] =
	    "UPDATE remote_credential SET state = 'revoked', ended_at = now_ms(), digest = NULL;"
	    "UPDATE mcp_token SET state = 'dropped', dropped_at = now_ms();"
	    "UPDATE amendment SET state = 'dropped', ended_at = now_ms();"
	    "UPDATE session SET cancel_at = now_ms()";
	struct restore_options keep = {.keep_grants = true, .keep_factors = true};

	(void)state;
	assert_int_equal(scratch_sql(&s, alive), 0);
	taken();
	assert_int_equal(scratch_sql(&s, since), 0);
	restored(keep);
	assert_int_equal(
	    value("SELECT state = 'revoked' AND digest IS NULL FROM remote_credential"), 1);
	assert_int_equal(value("SELECT state = 'dropped' FROM mcp_token"), 1);
	assert_int_equal(value("SELECT state = 'expired' FROM amendment"), 1);
	assert_int_equal(
	    value("SELECT state = 'cancelled' AND finished_at IS NOT NULL FROM session"), 1);
	assert_int_equal(
	    scratch_sql(
		&s, "UPDATE instance SET state = 'lost', ended_at = now_ms(), end_reason = 'x'"),
	    0);
}

/*
 * Whatever has a life either changes with a restore, or stands here with its reason.  A new entity
 * is in neither, and fails this.
 */
static void
whatever_lives_is_thought_of(void **state)
{
	static const struct {
		const char *entity, *stays;
	} all[] = {
	    {"instance", "it reads as lost as the next one begins"},
	    {"actor_run", "with its instance"},
	    {"op_run", "with its instance"},
	    {"folder_walk", "with its instance"},
	    {"call", "with its instance"},
	    {"attempt", "with its instance"},
	    {"firing", "with its session"},
	    {"agent_scan", "with its worker"},
	    {"egress_request", "with its connection"},
	    {"egress_parked", "whoever serves begins with none"},
	    {"sandbox_run", "with the process that started it"},
	    {"host_terms", "a box takes none as old as what it has, and they run out"},
	    {"box_witness", "what was seen of a box, which is looked at anew"},
	    {"quarantine", "it holds a Host back"},
	    {"contain_spare", "it protects a process"},
	    {"tls_identity", "a certificate runs out; its keys are this machine's"},
	    {"schedule", "a setting of the machine, which a person looks at"},
	};
	static const char thought_of[] =
	    "SELECT group_concat(entity, ' ') FROM (SELECT entity FROM state_rule WHERE from_state <> ''"
	    "   UNION SELECT m.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c"
	    "          WHERE m.type = 'table' AND c.name = 'state')"
	    " WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'restore'"
	    "    AND instr(sql, 'UPDATE ' || entity || ' SET') > 0)";
	char found[1024], *name, *rest = found;
	const char *stays;
	size_t i, n = 0;

	(void)state;
	scratch_open(&s, ROLE_MIGRATE);
	scratch_text(&s, thought_of, found, sizeof(found));
	while ((name = strtok_r(rest, " ", &rest)) != NULL) {
		stays = NULL;
		for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
			if (strcmp(all[i].entity, name) == 0)
				stays = all[i].stays;
		if (stays == NULL)
			fail_msg("what becomes of %s with a restore?", name);
		n++;
	}
	assert_int_equal(n, sizeof(all) / sizeof(all[0]));
}

/* Numbers go back with a restore.  What was signed under one of them before is good for nothing
 * after it. */
static void
numbered_texts_are_not_good_again(void **state)
{
	static const struct manifest_draft draft = {
	    .text = "{\"name\":\"run:x\",\"summary\":\"x\",\"program\":\"/x\"}",
	    .program_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
	static char op[3][MANIFEST_TERMS_MAX];
	static char right[3][SPARING_TERMS_MAX], mode[3][MODE_TERMS_MAX];
	struct sparing_terms terms = {.ttl_ms = 1000};
	int i;

	(void)state;
	terms.pairing_id = person_host(&s, "laptop");
	taken();
	for (i = 0; i < 3; i++) {
		scratch_open(&s, ROLE_PERSON);
		assert_int_equal(manifest_terms(s.db, &draft, op[i]), 0);
		assert_int_equal(sparing_text(s.db, &terms, right[i]), 0);
		assert_int_equal(mode_terms(s.db, "networked", mode[i]), 0);
		assert_true((strstr(op[i], "\nrestored: 2027-01-15T") != NULL) == (i > 0));
		assert_true((strstr(right[i], "\nrestored: 2027-01-15T") != NULL) == (i > 0));
		assert_true((strstr(mode[i], "\nrestored: 2027-01-15T") != NULL) == (i > 0));
		if (i > 0) {
			assert_string_not_equal(op[i], op[i - 1]);
			assert_string_not_equal(right[i], right[i - 1]);
			assert_string_not_equal(mode[i], mode[i - 1]);
		}
		clock_fix(clock_now() + 1000);
		restored(plain);
	}
}

/* Where nothing tells what was dropped since, no factor is trusted, but on a person's word. */
static void
without_a_witness_no_factor_is_trusted(void **state)
{
	struct restore_report report;
	struct person p;
	int i;

	(void)state;
	person_host(&s, "laptop");
	person_enrol(&s, &p, "phone");
	taken();
	for (i = 0; i < 2; i++) {
		store_close(s.db);
		s.db = NULL;
		assert_int_equal(unlinkat(s.home.fd, "bastion.db", 0), 0);
		report = restored((struct restore_options){.keep_factors = i == 1});
		assert_false(report.descends);
		assert_string_equal(report.kept, "");
		assert_int_equal(report.factors, i == 0);
		scratch_open(&s, ROLE_MIGRATE);
		assert_int_equal(value("SELECT count(*) FROM factor WHERE state = 'active'"), i);
		assert_int_equal(value("SELECT replaced_seq IS NULL FROM restore"), 1);
	}
}

/* Another branch of the same machine's history says nothing about this one. */
static void
another_branch_is_no_witness(void **state)
{
	struct restore_report report;
	struct person p;
	char later[128];
	struct backup_copy copy;

	(void)state;
	person_enrol(&s, &p, "phone");
	taken();
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 7 WHERE name = 'factor.tries'"), 0);
	snprintf(later, sizeof(later), "%s/later.db", s.dir);
	assert_int_equal(take(later, false, &copy), 0);
	assert_true(restored(plain).descends);
	/* The present one is a copy that went its own way: it never saw what the later one has. */
	snprintf(file, sizeof(file), "%s/later.db", s.dir);
	report = restored(plain);
	assert_false(report.descends);
	assert_int_equal(report.factors, 1);
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(value("SELECT replaced_seq IS NOT NULL AND live IS NULL FROM restore"), 1);
}

/* The box of another key, or another role, or a file that is none. */
static void
foreign_files_are_refused(void **state)
{
	struct scratch other;
	struct backup_copy copy;
	char command[256];

	(void)state;
	scratch_make(&other, HOME_BOX);
	scratch_open(&other, ROLE_PERSON);
	assert_int_equal(backup_write(other.db, file, other.keys.identity, true, NULL, &copy), 0);
	not_restored("restore.foreign");
	scratch_drop(&other);

	scratch_make(&other, HOME_HOST);
	scratch_open(&other, ROLE_PERSON);
	assert_int_equal(backup_write(other.db, file, other.keys.identity, true, NULL, &copy), 0);
	not_restored("restore.foreign");
	scratch_drop(&other);

	snprintf(command, sizeof(command), "echo no database > %s", file);
	assert_int_equal(system(command), 0);
	not_restored("restore.file");
	snprintf(command, sizeof(command), "rm %s; sqlite3 %s 'CREATE TABLE a (b)'", file, file);
	assert_int_equal(system(command), 0);
	not_restored("restore.file");
	snprintf(file, sizeof(file), "%s", s.dir);
	not_restored("restore.file");
	snprintf(file, sizeof(file), "%s/nothing", s.dir);
	not_restored("restore.file");
}

/* A file that somebody worked on: its rules, its audit, its pages. */
static void
edited_files_are_refused(void **state)
{
	char command[320];

	(void)state;
	taken();
	edit(file, EDIT_AUDIT);
	not_restored("restore.chain");
	taken();
	edit(file, "CREATE TRIGGER extra AFTER INSERT ON restore BEGIN"
		   " UPDATE grant SET uses = 1000; END");
	not_restored("store.foreign");
	taken();
	edit(file, "PRAGMA user_version = 77");
	not_restored("store.newer");
	taken();
	edit(file, "PRAGMA application_id = 1");
	not_restored("restore.file");
	taken();
	snprintf(command, sizeof(command),
	    "dd if=/dev/urandom of=%s bs=4096 seek=20 count=40 conv=notrunc status=none", file);
	assert_int_equal(system(command), 0);
	not_restored("store.corrupt");
}

/* Neither under a daemon nor under anybody who has the database open. */
static void
nobody_else_may_be_there(void **state)
{
	struct refusal r = {0};
	struct store *reader;
	int lock;

	(void)state;
	taken();
	assert_true((lock = instance_lock(&s.home, &r)) >= 0);
	not_restored("instance.running");
	close(lock);
	assert_non_null(reader = store_open(&s.home, ROLE_READER, NULL, &r));
	assert_int_equal(stmt_value(store_sql(reader, "SELECT count(*) FROM box"), 0), 1);
	not_restored("store.busy");
	store_close(reader);
	restored(plain);
}

/* A database that cannot be read is kept as it is, with its log, and replaced all the same. */
static void
a_broken_database_is_kept(void **state)
{
	struct restore_report report;
	char path[PATH_MAX], command[PATH_MAX + 64], kept[NAME_MAX + 8];
	int fd;

	(void)state;
	taken();
	store_close(s.db);
	s.db = NULL;
	home_path(&s.home, "bastion.db", path);
	snprintf(command, sizeof(command), "head -c 20000 /dev/urandom > %s", path);
	assert_int_equal(system(command), 0);
	assert_true(
	    (fd = openat(s.home.fd, "bastion.db-wal", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) != -1);
	assert_int_equal(write(fd, "a log", 5), 5);
	close(fd);
	report = restored(plain);
	assert_true(report.broken);
	assert_int_equal(faccessat(s.home.fd, report.kept, F_OK, 0), 0);
	snprintf(kept, sizeof(kept), "%s-wal", report.kept);
	assert_int_equal(faccessat(s.home.fd, kept, F_OK, 0), 0);
}

/* What is kept is never overwritten, also within a second; and it is what was there. */
static void
what_was_there_is_kept(void **state)
{
	struct restore_report first, second;
	struct refusal r = {0};
	char path[PATH_MAX];
	struct stat st;
	struct store *db;

	(void)state;
	taken();
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 7 WHERE name = 'factor.tries'"), 0);
	first = restored(plain);
	second = restored(plain);
	assert_string_not_equal(first.kept, second.kept);
	home_path(&s.home, first.kept, path);
	assert_non_null(db = store_open_file(path, ROLE_READER, NULL, &r));
	assert_int_equal(store_setting(db, "factor.tries"), 7);
	store_close(db);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(st.st_mode & 07777, 0600);
	scratch_open(&s, ROLE_READER);
	assert_int_equal(store_setting(s.db, "factor.tries"), 5);
}

/* A name that a restore left on the present database, when it was cut short, goes. */
static void
twins_are_tidied(void **state)
{
	(void)state;
	assert_int_equal(
	    linkat(s.home.fd, "bastion.db", s.home.fd, "bastion.db.before-restore-x", 0), 0);
	restore_tidy(&s.home);
	assert_int_not_equal(faccessat(s.home.fd, "bastion.db.before-restore-x", F_OK, 0), 0);
	assert_int_equal(faccessat(s.home.fd, "bastion.db", F_OK, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(writers_go_on, make, drop),
	    cmocka_unit_test_setup_teardown(names_are_ours, make, drop),
	    cmocka_unit_test_setup_teardown(parts_are_taken_over, make, drop),
	    cmocka_unit_test_setup_teardown(a_damaged_database_makes_none, make, drop),
	    cmocka_unit_test_setup_teardown(spent_uses_stay_spent, make, drop),
	    cmocka_unit_test_setup_teardown(kept_grants_are_those_that_live, make, drop),
	    cmocka_unit_test_setup_teardown(an_answer_counts_once, make, drop),
	    cmocka_unit_test_setup_teardown(a_code_works_once_across_a_restore, make, drop),
	    cmocka_unit_test_setup_teardown(what_was_dropped_stays_dropped, make, drop),
	    cmocka_unit_test_setup_teardown(shared_folders_end, make, drop),
	    cmocka_unit_test_setup_teardown(nothing_that_ended_lives_again, make, drop),
	    cmocka_unit_test_setup_teardown(whatever_lives_is_thought_of, make, drop),
	    cmocka_unit_test_setup_teardown(numbered_texts_are_not_good_again, make, drop),
	    cmocka_unit_test_setup_teardown(without_a_witness_no_factor_is_trusted, make, drop),
	    cmocka_unit_test_setup_teardown(another_branch_is_no_witness, make, drop),
	    cmocka_unit_test_setup_teardown(foreign_files_are_refused, make, drop),
	    cmocka_unit_test_setup_teardown(edited_files_are_refused, make, drop),
	    cmocka_unit_test_setup_teardown(nobody_else_may_be_there, make, drop),
	    cmocka_unit_test_setup_teardown(a_broken_database_is_kept, make, drop),
	    cmocka_unit_test_setup_teardown(what_was_there_is_kept, make, drop),
	    cmocka_unit_test_setup_teardown(twins_are_tidied, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
