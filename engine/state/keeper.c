/* keeper.c: one pass over everything that may be due, and one timer for what is due next. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "engine/actor/loop.h"
#include "engine/state/audit.h"
#include "engine/state/audit_search.h"
#include "engine/state/audit_tree.h"
#include "engine/state/keeper.h"
#include "engine/state/outbox.h"
#include "engine/state/retention.h"

static const char KEEPER_DUE[] =
    "SELECT min(at) FROM (SELECT min(expires_at) AS at FROM approval WHERE state = 'pending'"
    " UNION ALL SELECT min(expires_at) FROM grant WHERE state = 'active'"
    " UNION ALL SELECT min(expires_at) FROM context_ask WHERE state = 'pending'"
    " UNION ALL SELECT min(expires_at) FROM invitation WHERE state = 'open'"
    " UNION ALL SELECT min(approved_until) FROM approved_pairings"
    " UNION ALL SELECT min(expires_at) FROM host_order WHERE ended_at IS NULL"
    " UNION ALL SELECT min(until_at) FROM quarantine WHERE state = 'held'"
    " UNION ALL SELECT min(expires_at) FROM contain_right WHERE state = 'active'"
    " UNION ALL SELECT min(expires_at) FROM remote_credential WHERE state = 'active'"
    " UNION ALL SELECT min(at) FROM directive_deadline)"
    " HAVING min(at) IS NOT NULL";

static const char KEEPER_APPROVALS[] =
    "UPDATE approval SET state = 'expired', decided_at = now_ms()"
    " WHERE state = 'pending' AND expires_at <= now_ms()";

static const char KEEPER_GRANTS[] =
    "UPDATE grant SET state = 'expired', ended_at = now_ms(), end_reason = 'ran out'"
    " WHERE state = 'active' AND expires_at <= now_ms()";

static const char KEEPER_CONTEXT[] = "UPDATE context_ask SET state = 'expired', ended_at = now_ms()"
				     " WHERE state = 'pending' AND expires_at <= now_ms()";

static const char KEEPER_INVITATIONS[] =
    "UPDATE invitation SET state = 'expired', ended_at = now_ms()"
    " WHERE state = 'open' AND expires_at <= now_ms()";

/* A Host whose approval ran out waits for its anchor again. */
static const char KEEPER_PAIRINGS[] =
    "UPDATE pairing SET state = 'pending' WHERE id IN"
    " (SELECT pairing_id FROM approved_pairings WHERE approved_until <= now_ms())";

static const char KEEPER_ORDERS[] = "UPDATE host_order SET state = 'expired', ended_at = now_ms()"
				    " WHERE ended_at IS NULL AND expires_at <= now_ms()";

static const char KEEPER_HOLDS[] = "UPDATE quarantine SET state = 'lapsed', ended_at = now_ms()"
				   " WHERE state = 'held' AND until_at <= now_ms()";

static const char KEEPER_RIGHTS[] =
    "UPDATE contain_right SET state = 'expired', ended_at = now_ms(), end_reason = 'ran out'"
    " WHERE state = 'active' AND expires_at <= now_ms()";

static const char KEEPER_REMOTES[] =
    "UPDATE remote_credential SET state = 'expired', digest = NULL, ended_at = now_ms()"
    " WHERE state = 'active' AND expires_at <= now_ms()";

/* What nobody carried out in time is not carried out later. */
static const char KEEPER_DIRECTIVES[] =
    "UPDATE directive SET state = 'failed', ended_at = now_ms(), result = iif(kind = 'rotate',"
    "    json_object('code', 'rotate.unreached', 'why', 'the Host was not reached there in time'),"
    "    json_object('code', 'directive.expired', 'why', 'this order ran out'))"
    " WHERE id IN (SELECT id FROM directive_deadline WHERE at <= now_ms())";

#define NEVER INT64_MAX

static const char PAGES[] = "PRAGMA page_count";

static const char *log_path = OUTBOX_LOG;

struct keeper {
	struct outbox outbox;
	uint64_t timer;
	uint64_t gather; /* timer of commits that are let gather */
	bool log_full;   /* its descriptor is in the loop */
	bool draining;
	int64_t checkpoint_at;          /* on loop_now()'s clock, 0: nothing to fold */
	int64_t pages;                  /* of the database when it was folded last */
	int64_t retention_at;           /* on the same clock */
	bool failed;                    /* something did, in this pass */
	char failing[REFUSAL_CODE_MAX]; /* said already */
};

static void keeper_pass(void *ctx);

void
keeper_log(const char *path)
{
	log_path = path;
}

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Say what fails, once until something else does, and return when to try again. */
static int64_t
keeper_failed(struct actor_env *env, const char *what)
{
	struct keeper *k = env->ctx;
	const struct refusal *r = store_refusal(env->db);

	k->failed = true;
	if (strcmp(k->failing, r->code) != 0) {
		fprintf(stderr, "keeper: %s: %s: %s\n", what, r->code, r->why);
		snprintf(k->failing, sizeof(k->failing), "%s", r->code);
	}
	return store_setting(env->db, "store.tick_ms");
}

static int
expire_all(struct store *db)
{
	if (store_begin(db) == -1)
		return -1;
	if (stmt_run(store_sql(db, KEEPER_APPROVALS)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_GRANTS)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_CONTEXT)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_INVITATIONS)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_PAIRINGS)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_ORDERS)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_HOLDS)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_RIGHTS)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_REMOTES)) == -1 ||
	    stmt_run(store_sql(db, KEEPER_DIRECTIVES)) == -1)
		return store_rollback(db);
	return store_commit(db);
}

/* End what ran out.  Return the milliseconds until the next thing does. */
static int64_t
keeper_expire(struct actor_env *env)
{
	int64_t due;

	due = stmt_value(store_sql(env->db, KEEPER_DUE), NEVER);
	if (due <= store_now(env->db)) {
		if (expire_all(env->db) == -1)
			return keeper_failed(env, "ending what ran out");
		due = stmt_value(store_sql(env->db, KEEPER_DUE), NEVER);
	}
	if (due == NEVER)
		return NEVER;
	due -= store_now(env->db);
	return due > 0 ? due : 1;
}

/*
 * Seal what waits long enough.  Return the milliseconds until something does.  A tree that is far
 * behind grows a little at each pass, so that the rest of the work goes on.
 */
static int64_t
keeper_seal(struct actor_env *env)
{
	int64_t rows, since, every, left;
	int more;

	if ((rows = audit_unsealed(env->db, &since)) == -1)
		return keeper_failed(env, "sealing the audit");
	if (rows == 0)
		return NEVER;
	every = store_setting(env->db, "audit.seal_ms");
	left = earlier(since + every - store_now(env->db), every);
	if (left > 0)
		return left;
	if ((more = audit_tree_extend(env->db)) != 0)
		return more == 1 ? 0 : keeper_failed(env, "the tree of the audit");
	return audit_seal(env->db, "interval") == -1 ? keeper_failed(env, "sealing the audit")
						     : NEVER;
}

/* Index what was sealed, some rows a pass. */
static int64_t
keeper_index(struct actor_env *env)
{
	switch (audit_index(env->db)) {
	case 0:
		return NEVER;
	case 1:
		return 0;
	default:
		return keeper_failed(env, "the words of the audit");
	}
}

static void
log_writable(void *ctx, uint32_t events)
{
	struct actor_env *env = ctx;
	struct keeper *k = env->ctx;

	(void)events;
	loop_del(env->loop, k->outbox.fd);
	k->log_full = false;
	keeper_pass(env);
}

/* Ship what waits.  Return the milliseconds until the next try. */
static int64_t
keeper_ship(struct actor_env *env)
{
	struct keeper *k = env->ctx;

	if (k->log_full)
		return NEVER;
	switch (outbox_ship(&k->outbox, env->db)) {
	case OUTBOX_EMPTY:
		return NEVER;
	case OUTBOX_MORE:
		return 0;
	case OUTBOX_FULL:
		k->log_full = loop_add(env->loop, k->outbox.fd, EPOLLOUT, log_writable, env) == 0;
		return k->log_full ? NEVER : store_setting(env->db, "store.tick_ms");
	case OUTBOX_REFUSED:
		return store_setting(env->db, "store.tick_ms");
	case OUTBOX_FAILED:
		break;
	}
	return keeper_failed(env, "shipping to the system log");
}

/* Fold the log into the database once in a while.  Return the milliseconds until then. */
static int64_t
keeper_checkpoint(struct actor_env *env)
{
	struct keeper *k = env->ctx;
	int64_t every;
	int rc, frames, folded;

	if (k->checkpoint_at == 0)
		return NEVER;
	if (k->checkpoint_at > loop_now())
		return k->checkpoint_at - loop_now();
	k->checkpoint_at = 0;
	rc = sqlite3_wal_checkpoint_v2(
	    store_handle(env->db), NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &folded);
	k->pages = stmt_value(store_sql(env->db, PAGES), 0);
	if (rc == SQLITE_OK && frames == folded)
		return NEVER;

	/* A reader still needs the rest, another process folds, or the disk is full. */
	every = store_setting(env->db, "store.checkpoint_ms");
	k->checkpoint_at = loop_now() + every;
	return every;
}

/* Remove what was kept for long enough, a little at a time.  Return the milliseconds until then. */
static int64_t
keeper_retain(struct actor_env *env)
{
	struct keeper *k = env->ctx;
	int64_t wait;

	if (k->retention_at > loop_now())
		return k->retention_at - loop_now();
	switch (retention_step(env->db)) {
	case 0:
		wait = store_setting(env->db, "retention.look_ms");
		break;
	case 1:
		/* Others write in between. */
		wait = store_setting(env->db, "keeper.gather_ms");
		break;
	default:
		wait = keeper_failed(env, "retention");
	}
	k->retention_at = loop_now() + wait;
	return wait;
}

static void
keeper_pass(void *ctx)
{
	struct actor_env *env = ctx;
	struct keeper *k = env->ctx;
	int64_t next;

	if (k->draining)
		return;
	k->failed = false;
	next = keeper_expire(env);
	next = earlier(next, keeper_seal(env));
	next = earlier(next, keeper_index(env));
	next = earlier(next, keeper_ship(env));
	next = earlier(next, keeper_checkpoint(env));
	next = earlier(next, keeper_retain(env));
	if (!k->failed)
		k->failing[0] = '\0';
	loop_cancel(env->loop, k->timer);
	k->timer = next == NEVER ? 0 : loop_after(env->loop, next, keeper_pass, env);
}

static int
keeper_start(struct actor_env *env, struct refusal *r)
{
	struct keeper *k;

	if (env->keys.secret == NULL)
		return refusal_set(r, "actor.start", "the keeper has no key to seal with");
	if ((k = calloc(1, sizeof(*k))) == NULL)
		return refusal_errno(r, "actor.start", "the keeper");
	outbox_init(&k->outbox, log_path);
	env->ctx = k;
	k->checkpoint_at = loop_now();
	if ((k->timer = loop_after(env->loop, 0, keeper_pass, env)) == 0) {
		free(k);
		env->ctx = NULL;
		return refusal_errno(r, "actor.start", "the keeper");
	}
	return 0;
}

/* Who writes much would soon have to fold the log himself, in the commit that somebody waits for.
 */
static bool
keeper_hurries(struct actor_env *env)
{
	const struct keeper *k = env->ctx;

	return k->checkpoint_at > loop_now() &&
	       stmt_value(store_sql(env->db, PAGES), 0) > k->pages + STORE_LOG_PAGES / 2;
}

static void
keeper_gathered(void *ctx)
{
	struct actor_env *env = ctx;
	struct keeper *k = env->ctx;

	k->gather = 0;
	if (keeper_hurries(env))
		k->checkpoint_at = loop_now();
	keeper_pass(env);
}

static void
keeper_keep(struct actor_env *env)
{
	struct keeper *k = env->ctx;

	if (k->checkpoint_at == 0)
		k->checkpoint_at = loop_now() + store_setting(env->db, "store.checkpoint_ms");
	/* Nothing here is urgent: let a burst of commits pass, and those who wait for an answer
	 * first. */
	if (k->gather == 0)
		k->gather = loop_after(
		    env->loop, store_setting(env->db, "keeper.gather_ms"), keeper_gathered, env);
}

static void
keeper_quiet(struct actor_env *env)
{
	struct keeper *k = env->ctx;

	loop_cancel(env->loop, k->timer);
	loop_cancel(env->loop, k->gather);
	k->timer = k->gather = 0;
	if (k->log_full)
		loop_del(env->loop, k->outbox.fd);
	k->log_full = false;
}

static void
keeper_drain(struct actor_env *env)
{
	struct keeper *k = env->ctx;

	k->draining = true;
	keeper_quiet(env);
	if (audit_seal(env->db, "shutdown") == -1)
		keeper_failed(env, "the last seal");
	outbox_flush(&k->outbox, env->db, OUTBOX_FLUSH_MS);

	/* Only if nobody reads or writes right now: what is not folded today is tomorrow. */
	sqlite3_busy_timeout(store_handle(env->db), 0);
	sqlite3_wal_checkpoint_v2(
	    store_handle(env->db), NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	loop_stop(env->loop);
}

static void
keeper_stop(struct actor_env *env)
{
	struct keeper *k = env->ctx;

	keeper_quiet(env);
	outbox_close(&k->outbox);
	free(k);
	env->ctx = NULL;
}

const struct actor actor_keeper = {
    .name = "keeper",
    .role = ROLE_KEEPER,
    .secret = SECRET_MACHINE,
    .box = true,
    .host = true,
    .late = LATE_BOX | LATE_HOST,
    .start = keeper_start,
    .keep = keeper_keep,
    .drain = keeper_drain,
    .stop = keeper_stop,
};
