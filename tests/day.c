/* day.c: pairing, factor, approval, grant, run, answer, seal. */
#include <stddef.h>

#include "tests/day.h"

#define ARGS  "'[\"/usr\",\"2\"]'"
#define NONCE "'0123456789abcdef0123456789abcdef'"

const struct day_step day_steps[] = {
    {"serve", ROLE_SUPERVISOR, false,
	{"INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at) VALUES"
	 " ('00000000-0000-0000-0000-000000000000', 1, 1, 0, 'bastion', now_ms())",
	    "INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 'box', 1, '0', '/run/x', now_ms())",
	    "UPDATE instance SET state = 'ready', ready_at = now_ms() WHERE id = 1",
	    "INSERT INTO actor_run (instance_id, actor, attempt, started_at)"
	    " VALUES (1, 'worker', 1, now_ms())"},
	"SELECT count(*) FROM instance JOIN actor_run ON instance_id = instance.id"
	" WHERE instance.state = 'ready'"},
    {"pair", ROLE_PERSON, false,
	{"INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
	 " VALUES ('laptop', 'unix', zeroblob(32), 0, 'active', now_ms())"},
	"SELECT count(*) FROM pairing"},
    {"enrol", ROLE_PERSON, false,
	{"INSERT INTO factor (kind, label, secret, fingerprint, enrolled_at)"
	 " VALUES ('totp', 'phone', randomblob(60), 'totp:test', now_ms())",
	    "INSERT INTO factor_try (at, kind, outcome) VALUES (now_ms(), 'totp', 'wrong')"},
	"SELECT (SELECT count(*) FROM factor) + (SELECT count(*) FROM factor_try)"
	" = 2 * (SELECT count(*) FROM factor) AND (SELECT count(*) FROM factor)"},
    {"ask", ROLE_NET, false,
	{"INSERT INTO approval (nonce, kind, box_name, pairing_id, host_name, op, args, uses, ttl_ms,"
	 " asked_at, expires_at) SELECT " NONCE ", 'op', name, 1, 'laptop', 'observe:folders',"
	 " " ARGS ", 2, 3600000, now_ms(), now_ms() + 3600000 FROM box",
	    "INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
	    " VALUES (now_ms(), 1, 'lane', 'observe:folders', 'approval.needed', 'a person first')"},
	"SELECT (SELECT count(*) FROM approval) + (SELECT count(*) FROM refused)"
	" = 2 * (SELECT count(*) FROM refused) AND (SELECT count(*) FROM refused)"},
    {"approve", ROLE_PERSON, false,
	{"UPDATE approval SET state = 'approved', factor_id = 1, decided_digest = digest,"
	 " decided_by_uid = 0, decided_by = 'root', decided_at = now_ms() WHERE id = 1",
	    "INSERT INTO grant (pairing_id, kind, op, args, uses, created_at, expires_at, factor_id,"
	    " approval_id, seal) SELECT pairing_id, kind, op, args, uses, decided_at, decided_at + ttl_ms,"
	    " factor_id, id, seal_sign('grant', json_array('grant', pairing_id, kind, op, args, uses,"
	    " decided_at, decided_at + ttl_ms, factor_id, id)) FROM approval WHERE state = 'approved'"},
	"SELECT CASE WHEN (SELECT state FROM approval) = 'burned' THEN (SELECT count(*) FROM grant)"
	" WHEN (SELECT count(*) FROM grant) = 0"
	"  AND coalesce((SELECT state FROM approval), 'pending') = 'pending' THEN 0 ELSE 2 END"},
    {"run", ROLE_NET, false,
	{"INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
	 " VALUES (1, 'observe:folders', " ARGS ", " NONCE ", 1, now_ms())"},
	"SELECT (SELECT count(*) FROM op_run) + (SELECT count(*) FROM grant_use)"
	" = 2 * (SELECT count(*) FROM op_run) AND (SELECT count(*) FROM op_run)"},
    {"start", ROLE_WORKER, false,
	{"UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = 1 AND state = 'queued'",
	    "INSERT INTO folder_walk (op_run_id) VALUES (1)"},
	"SELECT (SELECT count(*) FROM op_run WHERE state <> 'queued') + (SELECT count(*) FROM folder_walk)"
	" = 2 * (SELECT count(*) FROM folder_walk) AND (SELECT count(*) FROM folder_walk)"},
    {"answer", ROLE_WORKER, true,
	{"INSERT INTO op_output (op_run_id, seq, frame) VALUES (1, 1, '{\"o\":\"first\"}')"},
	"SELECT count(*) FROM op_output WHERE seq = 1"},
    {"answer more", ROLE_WORKER, true,
	{"INSERT INTO op_output (op_run_id, seq, frame) VALUES (1, 2, json_object('o', hex(zeroblob(9000))))"},
	"SELECT count(*) FROM op_output WHERE seq = 2"},
    {"finish", ROLE_WORKER, false,
	{"UPDATE folder_walk SET state = 'done' WHERE op_run_id = 1 AND state = 'reading'",
	    "UPDATE op_run SET state = 'done', finished_at = now_ms(), exit_code = 0"
	    " WHERE id = 1 AND state = 'running'"},
	"SELECT count(*) FROM op_run JOIN folder_walk AS w ON w.op_run_id = op_run.id"
	" WHERE op_run.state = 'done' AND w.state = 'done'"},
    {"seal", ROLE_KEEPER, false,
	{"INSERT INTO audit_seal (seq, head, at, reason, signature) SELECT seq, hash, now_ms(),"
	 " 'interval', seal_sign('audit', json_array('audit_seal', seq, lower(hex(hash)), now_ms(),"
	 " 'interval')) FROM audit ORDER BY seq DESC LIMIT 1",
	    "UPDATE audit_sink SET sent = 3 WHERE name = 'system-log'"},
	"SELECT count(*) FROM audit_seal WHERE NOT EXISTS (SELECT 1 FROM audit_outbox WHERE seq <= 3)"},
    {NULL, ROLE_READER, false, {NULL}, NULL},
};

int
day_take(struct store *db, const struct day_step *step)
{
	int i;

	store_acting(db, "test:%s", step->name);
	if ((step->soft ? store_begin_soft(db) : store_begin(db)) != 0)
		return -1;
	for (i = 0; step->sql[i] != NULL; i++)
		if (stmt_run(store_sql(db, step->sql[i])) != 0)
			return store_rollback(db);
	return store_commit(db);
}
