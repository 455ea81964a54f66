-- What is decided goes through no table in between.

DROP TRIGGER op_run_is_allowed;
CREATE TRIGGER op_run_is_allowed BEFORE INSERT ON op_run
BEGIN
    SELECT CASE
           WHEN b.mode IS NOT 'local' AND NOT EXISTS (SELECT 1 FROM live_anchor)
           THEN RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
           WHEN p.state IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
           THEN RAISE(ABORT, 'pairing.invalid|this pairing is not served')
           WHEN o.name IS NULL
           THEN RAISE(ABORT, 'op.unknown|there is no op of this name')
           WHEN EXISTS (SELECT 1 FROM op_run WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce)
           THEN RAISE(ABORT, 'op.replayed|this ask was made before')
           WHEN NEW.state <> 'queued'
           THEN RAISE(ABORT, 'op.transition|a run begins as queued')
           -- Live runs lie between the oldest of them and the newest run: mostly that is few enough.
           WHEN (SELECT max(id) FROM op_run)
              - (SELECT min(id) FROM op_run WHERE finished_at IS NULL) + 1
             >= min((SELECT value FROM setting WHERE name = 'op.live'),
                    (SELECT value FROM setting WHERE name = 'op.live_per_host'))
            AND (SELECT CASE
                        WHEN count(*) >= (SELECT value FROM setting WHERE name = 'op.live')
                        THEN RAISE(ABORT, 'op.busy|too many runs wait or run already')
                        WHEN count(*) FILTER (WHERE pairing_id = NEW.pairing_id)
                          >= (SELECT value FROM setting WHERE name = 'op.live_per_host')
                        THEN RAISE(ABORT, 'op.share|too many runs of this Host wait or run already')
                        END
                   FROM op_run WHERE finished_at IS NULL)
           THEN NULL
           WHEN NEW.op = 'observe:folders'
            AND (SELECT count(*) FROM folder_walk WHERE state = 'stuck')
             >= (SELECT value FROM setting WHERE name = 'folders.stuck')
           THEN RAISE(ABORT, 'observe.stuck|earlier walks still wait for a file system that does not answer')
           WHEN NEW.grant_id IS NULL AND EXISTS (SELECT 1 FROM grant
                 WHERE pairing_id = NEW.pairing_id AND op = NEW.op AND args <> NEW.args
                   AND state = 'active' AND expires_at > now_ms())
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN NEW.grant_id IS NULL
           THEN RAISE(ABORT, 'approval.needed|a person has to approve this first')
           WHEN b.mode IS NOT 'local' AND NEW.pairing_id IS NOT (SELECT pairing_id FROM anchor)
            AND NOT EXISTS (SELECT 1 FROM approved_kinds
                             WHERE pairing_id = NEW.pairing_id AND class = o.class)
           THEN RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
           WHEN g.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.gone|the grant was taken back or is used up')
           WHEN g.pairing_id <> NEW.pairing_id OR g.op <> NEW.op
           THEN RAISE(ABORT, 'grant.other|the grant is for another Host or op')
           WHEN g.args <> NEW.args
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN g.expires_at <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN f.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.approver|whoever approved this grant is no longer trusted here')
           WHEN seal_ok('grant', g.seal_text, g.seal) IS NOT 1
           THEN RAISE(ABORT, 'grant.seal|the record of this grant was changed by another tool')
           END
      FROM (SELECT 1) AS asked
      LEFT JOIN box AS b ON b.id = 1
      LEFT JOIN pairing AS p ON p.id = NEW.pairing_id
      LEFT JOIN op AS o ON o.name = NEW.op
      LEFT JOIN grant AS g ON g.id = NEW.grant_id
      LEFT JOIN factor AS f ON f.id = g.factor_id;
END;

DROP TRIGGER op_run_spends;
CREATE TRIGGER op_run_spends AFTER INSERT ON op_run
BEGIN
    INSERT INTO grant_use (grant_id, n, op_run_id, at)
    VALUES (NEW.grant_id,
            (SELECT coalesce(max(n), 0) + 1 FROM grant_use WHERE grant_id = NEW.grant_id),
            NEW.id, NEW.queued_at);
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NEW.grant_id));
END;

DROP TRIGGER audit_entry_chains;
CREATE TRIGGER audit_entry_chains INSTEAD OF INSERT ON audit_entry
BEGIN
    INSERT INTO audit (seq, at, stream, who, entity, entity_id, action, pairing, body, prev, hash)
    VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM audit), now_ms(), NEW.stream, acting(), NEW.entity,
            NEW.entity_id, NEW.action, NEW.pairing, NEW.body,
            coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), zeroblob(32)),
            chain_hash(coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), zeroblob(32)),
                       json_array((SELECT coalesce(max(seq), 0) + 1 FROM audit), now_ms(), NEW.stream,
                                  acting(), NEW.entity, NEW.entity_id || '', NEW.action, NEW.pairing,
                                  NEW.body || '')));
END;

DROP VIEW live_anchor;
CREATE VIEW live_anchor AS
SELECT a.pairing_id, p.host_name AS host, a.owner, a.reason, a.claimed_at, a.heard_at
  FROM anchor AS a
 CROSS JOIN pairing AS p ON p.id = a.pairing_id AND p.state = 'active' AND p.host_key = a.host_key
 WHERE NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = p.id);

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('lock.ttl_ms', 30000, 'ms', 1000, 86400000, 'how long bastion lock run may be stopped before it loses its lock'),
    ('lock.wait_ms', 3600000, 'ms', 0, 604800000, 'how long bastion lock run waits for a lock');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('lock.name', 2, 422, 'name it with letters, digits, dots, dashes and underscores'),
    ('lock.program', 2, 422, 'see that the command exists and may be run');
