/* sandbox_run.c: rows of runs in sandboxes. */
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/process.h"
#include "engine/state/sandbox_run.h"

static const char BEGIN[] =
    "INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words, net, started_at)"
    " VALUES (:nonce, :backend, :process, :uid, :program, :words, :net, now_ms())";

static const char STARTED[] =
    "UPDATE sandbox_run SET state = 'running', user_ns = nullif(:user_ns, 0),"
    "    pid_ns = nullif(:pid_ns, 0), capped = :capped,"
    "    notes = (SELECT json_group_array(value) FROM json_each(json_array(:a, :b, :c, :d, :e, :f,"
    "             :g, :h)) WHERE value IS NOT NULL)"
    " WHERE id = :id";

static const char ENDED[] =
    "UPDATE sandbox_run SET state = 'ended', ended_at = now_ms(), exit_code = :exit,"
    "    changes = :changes, digest = :digest, applied = nullif(:applied, -1) WHERE id = :id";

static const char FAILED[] =
    "UPDATE sandbox_run SET state = 'failed', ended_at = now_ms() WHERE id = :id";

static const char RUN_OF[] =
    "SELECT r.id FROM sandbox_run AS r JOIN process AS p ON p.id = r.process_id"
    " WHERE r.nonce = :nonce AND r.user_ns = :user_ns AND r.pid_ns = :pid_ns"
    "   AND r.state = 'running' AND process_alive(p.boot_id, p.pid, p.start_ticks)";

static const char *const nets[] = {"none", "sockets", "host", "sockets"};
static const char *const note_names[SANDBOX_NOTES_MAX] = {
    ":a", ":b", ":c", ":d", ":e", ":f", ":g", ":h"};

void
sandbox_run_limits(struct store *db, struct sandbox_limits *l)
{
	*l = (struct sandbox_limits){
	    .group = {.tasks = store_setting(db, "sandbox.tasks"),
		.memory = store_setting(db, "sandbox.memory"),
		.cpu_percent = store_setting(db, "sandbox.cpu_percent")},
	    .scratch_bytes = store_setting(db, "sandbox.scratch"),
	    .effect_bytes = store_setting(db, "sandbox.effect"),
	    .effect_files = store_setting(db, "sandbox.files"),
	    .file_bytes = store_setting(db, "sandbox.file"),
	    .open_files = store_setting(db, "sandbox.open_files"),
	};
}

int
sandbox_run_insert_as(struct store *db, const struct sandbox_ask *ask, int64_t process,
    const char *nonce, int64_t *id)
{
	struct stmt *q;

	if ((q = store_sql(db, BEGIN)) == NULL)
		return -1;
	stmt_text(q, ":nonce", nonce);
	stmt_text(q, ":backend", ask->backend);
	stmt_int(q, ":process", process);
	stmt_int(q, ":uid", ask->uid);
	stmt_text(q, ":program", ask->program);
	stmt_int(q, ":words", ask->words);
	stmt_text(q, ":net", nets[ask->net]);
	if (stmt_run_one(q) == -1)
		return -1;
	*id = store_last_id(db);
	return 0;
}

int
sandbox_run_insert(
    struct store *db, const struct sandbox_ask *ask, char nonce[SANDBOX_NONCE_SIZE], int64_t *id)
{
	int64_t process;

	random_hex(nonce);
	if ((process = process_self(db)) == -1)
		return -1;
	return sandbox_run_insert_as(db, ask, process, nonce, id);
}

int
sandbox_run_begin(
    struct store *db, const struct sandbox_ask *ask, char nonce[SANDBOX_NONCE_SIZE], int64_t *id)
{
	if (store_begin(db) == -1)
		return -1;
	return sandbox_run_insert(db, ask, nonce, id) == 0 ? store_commit(db) : store_rollback(db);
}

int
sandbox_run_placed(struct store *db, int64_t id, const struct sandbox_report *report)
{
	struct stmt *q;
	size_t i;

	if ((q = store_sql(db, STARTED)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":user_ns", (int64_t)report->user_ns);
	stmt_int(q, ":pid_ns", (int64_t)report->pid_ns);
	stmt_int(q, ":capped", report->tasks_capped);
	for (i = 0; i < SANDBOX_NOTES_MAX; i++)
		stmt_text(q, note_names[i], i < report->note_count ? report->notes[i] : NULL);
	return stmt_run_one(q);
}

int
sandbox_run_started(struct store *db, int64_t id, const struct sandbox_report *report)
{
	if (store_begin_soft(db) == -1)
		return -1;
	return sandbox_run_placed(db, id, report) == 0 ? store_commit(db) : store_rollback(db);
}

void
sandbox_run_warm(struct store *db, bool started)
{
	/* What fails is said where it is run. */
	stmt_done(store_sql(db, started ? ENDED : STARTED));
}

int
sandbox_run_end(struct store *db, int64_t id, const struct sandbox_outcome *outcome)
{
	struct stmt *q;

	if ((q = store_sql(db, outcome != NULL ? ENDED : FAILED)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if (outcome == NULL)
		return stmt_run_one(q);
	stmt_int(q, ":exit", outcome->exit_code);
	stmt_int(q, ":changes", outcome->changes);
	stmt_int(q, ":applied", outcome->applied);
	if (outcome->digest != NULL)
		stmt_blob(q, ":digest", outcome->digest, 32);
	return stmt_run_one(q);
}

int
sandbox_run_ended(struct store *db, int64_t id, const struct sandbox_outcome *outcome)
{
	/* An end that the power took reads as lost; what a program changed stays known. */
	if ((outcome->changes == 0 ? store_begin_soft(db) : store_begin(db)) == -1)
		return -1;
	return sandbox_run_end(db, id, outcome) == 0 ? store_commit(db) : store_rollback(db);
}

int
sandbox_run_failed(struct store *db, int64_t id)
{
	if (store_begin(db) == -1)
		return -1;
	return sandbox_run_end(db, id, NULL) == 0 ? store_commit(db) : store_rollback(db);
}

int64_t
sandbox_run_of(struct store *db, const char *nonce, uint64_t user_ns, uint64_t pid_ns)
{
	struct stmt *q;

	if ((q = store_sql(db, RUN_OF)) == NULL)
		return -1;
	stmt_text(q, ":nonce", nonce);
	stmt_int(q, ":user_ns", (int64_t)user_ns);
	stmt_int(q, ":pid_ns", (int64_t)pid_ns);
	return stmt_value(q, 0);
}
