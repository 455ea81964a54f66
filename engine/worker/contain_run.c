/* contain_run.c: an order's rows, before and after processes are stopped. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/contain.h"
#include "engine/worker/contain_run.h"

#define OURS_MAX 64

static const char NEXT[] =
    "SELECT id, terms ->> '$.pid', terms ->> '$.exe', terms ->> '$.agent', terms ->> '$.issued_at'"
    "  FROM directive WHERE kind = 'contain' AND state = 'taken' ORDER BY id LIMIT 1";

static const char RUNNING[] =
    "UPDATE directive SET state = 'running', started_at = now_ms(), by_uid = :by WHERE id = :id";

static const char REFUSE[] = "UPDATE directive SET state = 'refused', ended_at = now_ms(),"
			     "  result = json_object('code', :code, 'why', :why) WHERE id = :id";

static const char SPARED[] =
    "SELECT id, uid, exe, argv_sha256 FROM contain_spare WHERE state = 'active' ORDER BY id";

/* The daemon and its actors, as their rows name them; whether they live is for the walk. */
static const char OURS[] =
    "SELECT p.pid, p.start_ticks FROM process AS p JOIN live_instance AS i ON i.pid = p.pid"
    " UNION SELECT p.pid, p.start_ticks FROM actor_run AS a JOIN process AS p ON p.id = a.process_id"
    "  WHERE a.state IN ('starting', 'running')";

static const char PROCESS[] =
    "INSERT INTO contain_process (directive_id, boot_id, pid, start_ticks, program, uid, fate, why, at)"
    " VALUES (:id, :boot, :pid, :start, :program, :uid, :fate, :why, now_ms())";

static const char DONE[] =
    "UPDATE directive SET state = 'done', ended_at = now_ms(), result = json_object("
    "    'stopped', (SELECT count(*) FROM contain_process WHERE directive_id = :id AND fate = 'stopped'),"
    "    'spared', :spared, 'gone', :gone, 'processes',"
    "    (SELECT json_group_array(json_object('pid', pid, 'program', program, 'uid', uid, 'fate', fate,"
    "                                         'why', why))"
    "       FROM (SELECT * FROM contain_process WHERE directive_id = :id ORDER BY fate, pid"
    "              LIMIT (SELECT value FROM setting WHERE name = 'contain.named'))))"
    " WHERE id = :id";

/* One order on its way. */
struct contain_order {
	int64_t id;
	struct refusal refusal; /* why nothing more is done; no code: it was carried out */
	char exe[CONTAIN_EXE_MAX + 1];
	struct contain_target target;
	struct contain_entry *spared;
	struct identity ours[OURS_MAX];
	struct contain_world world;
	struct contain_tree tree;
};

/* Return 1, 0 where none waits, -1. */
static int
next_read(struct store *db, struct contain_order *o)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, NEXT)) == NULL || (rc = stmt_step(q)) == -1)
		return -1;
	if (rc == 0)
		return 0;
	o->id = stmt_get_int(q, 0);
	o->target.pid = stmt_get_int(q, 1);
	snprintf(o->exe, sizeof(o->exe), "%s", stmt_get_text(q, 2));
	o->target.exe = stmt_is_null(q, 2) ? NULL : o->exe;
	o->target.agent = stmt_get_int(q, 3) != 0;
	o->target.issued_at = stmt_get_int(q, 4);
	stmt_done(q);
	return 1;
}

static int
spared_read(struct store *db, struct contain_order *o)
{
	struct contain_entry *e;
	const void *digest;
	struct stmt *q;
	size_t room = (size_t)store_setting(db, "contain.spared");
	int rc;

	if ((o->spared = calloc(room, sizeof(*o->spared))) == NULL)
		return refusal_set(store_refusal(db), "contain.failed", "out of memory");
	o->world.spared = o->spared;
	if ((q = store_sql(db, SPARED)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1) {
		if (o->world.n == room) {
			stmt_done(q);
			return refusal_set(store_refusal(db), "contain.full",
			    "the list of processes to spare is longer than the setting allows");
		}
		e = &o->spared[o->world.n++];
		e->id = stmt_get_int(q, 0);
		e->print.uid = stmt_get_int(q, 1);
		snprintf(e->print.exe, sizeof(e->print.exe), "%s", stmt_get_text(q, 2));
		digest = stmt_get_blob(q, 3, CONTAIN_DIGEST);
		if (digest != NULL)
			memcpy(e->print.argv, digest, CONTAIN_DIGEST);
		e->any = digest == NULL;
	}
	return rc;
}

/* Where the daemon died we have another parent, which may be everybody's. */
static bool
parent_is_ours(struct identity *who)
{
	char path[64], ours[PATH_MAX], its[PATH_MAX];
	pid_t parent = getppid();
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)parent);
	n = readlink("/proc/self/exe", ours, sizeof(ours));
	return parent > 1 && n > 0 && readlink(path, its, sizeof(its)) == n &&
	       memcmp(ours, its, (size_t)n) == 0 && identity_of(parent, who) == 0;
}

/* Ourselves and our parent, the daemon, stand for bastion also where their rows do not. */
static int
ours_read(struct store *db, struct contain_order *o)
{
	size_t n = 0;
	struct stmt *q;
	int rc;

	if (identity_of(getpid(), &o->ours[n++]) != 0)
		return refusal_set(
		    store_refusal(db), "contain.failed", "cannot read our own /proc");
	n += parent_is_ours(&o->ours[n]) ? 1 : 0;
	if ((q = store_sql(db, OURS)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1 && n < OURS_MAX) {
		o->ours[n].pid = stmt_get_int(q, 0);
		o->ours[n++].start_ticks = stmt_get_int(q, 1);
	}
	if (rc == 1)
		stmt_done(q);
	o->world.ours = o->ours;
	o->world.our_count = n;
	o->world.processes_max = store_setting(db, "contain.processes");
	o->world.rounds_max = store_setting(db, "contain.rounds");
	return rc == -1 ? -1 : 0;
}

/* Durable before anything is stopped: after a crash the order reads as lost, and is not done again.
 */
static int
authorise(struct store *db, struct contain_order *o)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, RUNNING)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", o->id);
	stmt_int(q, ":by", geteuid());
	if (stmt_run_one(q) != 0 || spared_read(db, o) != 0 || ours_read(db, o) != 0)
		return store_rollback(db);
	return store_commit(db);
}

static int
process_write(struct store *db, const struct contain_order *o, const struct contain_process *p)
{
	struct stmt *q;

	if ((q = store_sql(db, PROCESS)) == NULL)
		return -1;
	stmt_int(q, ":id", o->id);
	stmt_text(q, ":boot", o->tree.boot_id);
	stmt_int(q, ":pid", p->pid);
	stmt_int(q, ":start", p->start_ticks);
	stmt_text(q, ":program", p->program);
	stmt_int(q, ":uid", p->uid);
	stmt_text(q, ":fate", p->fate == CONTAIN_STOPPED ? "stopped" : "spared");
	stmt_text(q, ":why", p->why);
	return stmt_run_one(q);
}

static int
done_write(struct store *db, const struct contain_order *o)
{
	int64_t spared = 0, gone = 0;
	struct stmt *q;
	size_t i;

	for (i = 0; i < o->tree.n; i++) {
		const struct contain_process *p = &o->tree.list[i];

		spared += p->fate == CONTAIN_SPARE;
		gone += p->fate == CONTAIN_GONE;
		/* What lies beneath one that is spared is counted. */
		if ((p->fate == CONTAIN_STOPPED || p->why[0] != '\0') &&
		    process_write(db, o, p) != 0)
			return -1;
	}
	if ((q = store_sql(db, DONE)) == NULL)
		return -1;
	stmt_int(q, ":id", o->id);
	stmt_int(q, ":spared", spared);
	stmt_int(q, ":gone", gone);
	return stmt_run_one(q);
}

/* The refusal is the answer to the order. */
static int
refused_write(struct store *db, const struct contain_order *o)
{
	struct stmt *q;

	if ((q = store_sql(db, REFUSE)) == NULL)
		return -1;
	stmt_int(q, ":id", o->id);
	stmt_text(q, ":code", o->refusal.code);
	stmt_text(q, ":why", o->refusal.why);
	return stmt_run_one(q);
}

int
contain_write(struct store *db, const struct contain_order *o)
{
	if (store_begin(db) != 0)
		return -1;
	if ((o->refusal.code[0] != '\0' ? refused_write(db, o) : done_write(db, o)) != 0)
		return store_rollback(db);
	return store_commit(db);
}

void
contain_order_free(struct contain_order *o)
{
	if (o == NULL)
		return;
	contain_free(&o->tree);
	free(o->spared);
	free(o);
}

/* Return 0, also where it was refused; or -1 where the database could not be asked. */
static int
carry_out(struct store *db, struct contain_order *o)
{
	if (authorise(db, o) != 0) {
		o->refusal = *store_refusal(db);
		return refusal_decides(&o->refusal) ? 0 : -1;
	}
	if (contain_stop(&o->world, &o->target, &o->tree, &o->refusal) == 0)
		o->refusal.code[0] = '\0';
	return 0;
}

int
contain_run(struct store *db, struct contain_order **order)
{
	struct contain_order *o;
	int rc;

	if ((o = calloc(1, sizeof(*o))) == NULL)
		return refusal_set(store_refusal(db), "contain.failed", "out of memory");
	if ((rc = next_read(db, o)) == 1 && carry_out(db, o) != 0)
		rc = -1;
	if (rc == 1)
		*order = o;
	else
		contain_order_free(o);
	return rc;
}
