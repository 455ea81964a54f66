-- Decisions without detours; Hosts that sign, look and dry-run.

DROP TRIGGER audit_entry_chains;
DROP TRIGGER host_box_gone;
DROP TRIGGER call_is_allowed;
DROP TRIGGER call_moves;
DROP TRIGGER call_audit_birth;
DROP TRIGGER call_audit_move;
DROP TRIGGER call_output_in_order;
DROP TRIGGER call_output_counts;
DROP TRIGGER op_run_spends;
DROP TRIGGER instance_closes;
DROP TRIGGER actor_run_closes_calls;
DROP TRIGGER amendment_moves;
DROP VIEW boxes;
DROP VIEW retention_item;
DROP VIEW live_anchor;
DROP TRIGGER op_run_is_allowed;
DROP VIEW mcp_tool;

ALTER TABLE call ADD COLUMN dry INTEGER NOT NULL DEFAULT 0 CHECK (dry IN (0, 1));

CREATE TRIGGER amendment_moves BEFORE UPDATE ON amendment
BEGIN
    SELECT RAISE(ABORT, 'amendment.decided|this amendment was made or given up')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'amendment' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'amendment.terms|the terms of an amendment never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.box_name IS NOT OLD.box_name
        OR NEW.reason IS NOT OLD.reason OR NEW.statement IS NOT OLD.statement
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'amendment.expired|this amendment ran out before it was approved')
     WHERE NEW.state = 'running' AND OLD.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'approval.factor|the approving factor is not active')
     WHERE NEW.state = 'running'
       AND (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'amendment.terms|what was approved is not what is asked')
     WHERE NEW.state = 'running' AND sha256(OLD.terms) IS NOT NEW.decided_digest;
    SELECT RAISE(ABORT, 'amendment.transition|the changes of an amendment begin where the audit ends')
     WHERE NEW.state = 'running'
       AND NEW.after_seq IS NOT (SELECT coalesce(max(seq), 0) FROM audit);
    SELECT RAISE(ABORT, 'amendment.terms|an amendment keeps who decided it')
     WHERE OLD.state = 'running'
       AND (NEW.factor_id IS NOT OLD.factor_id OR NEW.decided_digest IS NOT OLD.decided_digest
            OR NEW.decided_by_uid IS NOT OLD.decided_by_uid OR NEW.decided_by IS NOT OLD.decided_by
            OR NEW.after_seq IS NOT OLD.after_seq);
    -- Whatever the statement was dressed as: the audit says what came of it.
    SELECT RAISE(ABORT, 'amendment.gives|an amendment sets limits and takes away: it cannot pair, approve, grant or run')
     WHERE NEW.state = 'done' AND EXISTS (SELECT 1 FROM audit WHERE seq > OLD.after_seq
       AND (entity, action) IN (VALUES
           ('pairing', 'active'), ('pairing', 'pending'), ('invitation', 'open'),
           ('invitation', 'redeemed'), ('host_box', 'active'), ('factor', 'active'),
           ('approval', 'pending'), ('approval', 'approved'), ('approval', 'burned'),
           ('grant', 'active'), ('grant', 'spent'), ('op_run', 'queued'), ('op_run', 'running'),
           ('op_run', 'done'), ('op_run', 'failed'), ('call', 'asked'), ('call', 'done')));
END;

CREATE VIEW live_anchor AS
SELECT a.pairing_id, p.host_name AS host, a.owner, a.reason, a.claimed_at, a.heard_at
  FROM anchor AS a
 CROSS JOIN pairing AS p ON p.id = a.pairing_id AND p.state = 'active' AND p.host_key = a.host_key
 WHERE NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = p.id);

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

CREATE TRIGGER host_box_gone AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    UPDATE call SET state = 'failed', finished_at = NEW.gone_at, code = 'box.gone',
                    why = 'the box is no longer paired with this Host'
     WHERE box_id = NEW.id AND state = 'asked';
    UPDATE call SET state = 'lost', finished_at = NEW.gone_at, code = 'call.lost',
                    why = 'the box was paired anew while the ask was open'
     WHERE box_id = NEW.id AND state = 'sent';
END;

CREATE TRIGGER call_is_allowed BEFORE INSERT ON call
BEGIN
    SELECT RAISE(ABORT, 'call.transition|an ask begins as asked') WHERE NEW.state <> 'asked';
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'call.busy|too many asks wait for an answer')
     WHERE (SELECT count(*) FROM call WHERE state IN ('asked', 'sent'))
        >= (SELECT value FROM setting WHERE name = 'call.live');
    SELECT RAISE(ABORT, 'call.offline|the Host is not serving, so nobody would carry this ask')
     WHERE NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');
END;

CREATE TRIGGER call_moves BEFORE UPDATE ON call
BEGIN
    SELECT RAISE(ABORT, 'call.transition|an ask cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'call' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'call.final|an answered ask is history')
     WHERE NEW.state IS OLD.state AND OLD.finished_at IS NOT NULL;
END;

CREATE TRIGGER call_audit_birth AFTER INSERT ON call
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'call', NEW.id, NEW.state, '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'op', NEW.op,
                        'args', json(NEW.args)));
END;

CREATE TRIGGER call_audit_move AFTER UPDATE OF state ON call
WHEN NEW.state IS NOT OLD.state AND NEW.finished_at IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'call', NEW.id, NEW.state, '',
            json_object('exit', NEW.exit_code, 'code', NEW.code, 'frames', NEW.last_seq));
END;

CREATE TRIGGER call_output_in_order BEFORE INSERT ON call_output
BEGIN
    SELECT RAISE(ABORT, 'call.seq|frames come in order, while the ask is open')
     WHERE (SELECT state FROM call WHERE id = NEW.call_id) IS NOT 'sent'
        OR NEW.seq IS NOT (SELECT last_seq + 1 FROM call WHERE id = NEW.call_id);
END;

CREATE TRIGGER call_output_counts AFTER INSERT ON call_output
BEGIN
    UPDATE call SET last_seq = NEW.seq WHERE id = NEW.call_id;
END;

CREATE VIEW boxes AS
SELECT b.id, b.name, b.state,
       CASE WHEN b.state = 'gone' THEN 'gone'
            WHEN w.state = 'behind' THEN 'rolled back'
            WHEN w.state = 'forked' THEN 'forked'
            WHEN b.heard_at IS NULL THEN 'not heard yet'
            WHEN b.heard_at < now_ms() - (SELECT value FROM setting WHERE name = 'box.silent_ms')
            THEN 'silent' ELSE 'heard' END AS status,
       b.paired_at, b.heard_at, b.lane,
       (SELECT count(*) FROM call AS c WHERE c.box_id = b.id) AS asks,
       CASE w.state WHEN 'followed' THEN printf('fits, %d rows', w.size)
                    WHEN 'behind' THEN 'ROLLED BACK: ' || w.why
                    WHEN 'forked' THEN 'FORKED: ' || w.why
                    WHEN 'accepted' THEN 'begins anew on a person''s word'
                    ELSE 'none shown yet' END AS audit,
       CASE WHEN b.heard_at IS NULL THEN 'never'
            WHEN now_ms() - b.heard_at < 120000 THEN max((now_ms() - b.heard_at) / 1000, 0) || ' s ago'
            WHEN now_ms() - b.heard_at < 7200000 THEN (now_ms() - b.heard_at) / 60000 || ' min ago'
            WHEN now_ms() - b.heard_at < 172800000 THEN (now_ms() - b.heard_at) / 3600000 || ' h ago'
            ELSE (now_ms() - b.heard_at) / 86400000 || ' d ago' END AS heard
  FROM host_box AS b LEFT JOIN box_witness AS w ON w.box_id = b.id;

CREATE VIEW mcp_tool AS
SELECT b.name || '.' || replace(o.name, ':', '_') AS name, b.name AS box, o.name AS op,
       json_patch(json_object(
           'name', b.name || '.' || replace(o.name, ':', '_'),
           'title', b.name || ': ' || o.summary,
           'description', 'On the machine ' || b.name || ': ' || o.summary || '. A person at '
               || b.name || ' approves each kind of ask first; the call waits for that.',
           'inputSchema', json(i.schema)),
         json_object(
           'outputSchema', json(r.schema),
           'annotations', json_object(
               'title', b.name || ': ' || o.summary,
               'readOnlyHint', json(iif(o.class = 'observe', 'true', 'false')),
               'destructiveHint', json(iif(o.class = 'observe', 'false', 'true')),
               'idempotentHint', json(iif(o.class = 'observe', 'true', 'false')),
               'openWorldHint', json('false')))) AS tool
  FROM host_box AS b CROSS JOIN op AS o
  JOIN op_input AS i ON i.op = o.name
  LEFT JOIN op_result AS r ON r.op = o.name
 WHERE b.state = 'active';

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

CREATE TRIGGER instance_closes AFTER UPDATE OF state ON instance
WHEN NEW.state IN ('ended', 'lost') AND OLD.state NOT IN ('ended', 'lost')
BEGIN
    UPDATE actor_run SET state = 'lost', ended_at = NEW.ended_at
     WHERE instance_id = NEW.id AND state IN ('starting', 'running');
    UPDATE op_run SET state = 'lost', finished_at = NEW.ended_at
     WHERE finished_at IS NULL;
    UPDATE folder_walk SET state = 'done' WHERE state IN ('reading', 'stuck');
    UPDATE call SET state = 'lost', finished_at = NEW.ended_at WHERE state IN ('asked', 'sent');
    UPDATE lease SET process_id = NULL, expires_at = NULL
     WHERE process_id IN (SELECT process_id FROM actor_run WHERE instance_id = NEW.id
                          UNION SELECT NEW.process_id);
END;

CREATE TRIGGER actor_run_closes_calls AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'link' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE call SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'sent';
END;

CREATE VIEW retention_item (entity, id, at, rows) AS
SELECT 'actor_run', id, ended_at, 1 FROM actor_run
 UNION ALL SELECT 'audit', seq, at, 1 FROM audit
            WHERE seq <= (SELECT max(seq) FROM audit_base)
 UNION ALL SELECT 'call_output', id, finished_at, last_seq FROM call
 UNION ALL SELECT 'factor_try', id, at, 1 FROM factor_try
 UNION ALL SELECT 'op_output', id, finished_at, last_seq FROM op_run
 UNION ALL SELECT 'refused', id, at, 1 FROM refused;

CREATE TABLE host_terms (
    id          INTEGER PRIMARY KEY,
    box_id      INTEGER NOT NULL REFERENCES host_box (id),
    terms       TEXT    CHECK (terms IS NULL OR (json_valid(terms)
                        AND length(CAST(terms AS BLOB)) <= 4096)),     -- NULL: a look
    signature   BLOB    CHECK (length(signature) = 64),        -- of this Host, domain bastion-anchor-1
    state       TEXT    NOT NULL DEFAULT 'waiting'
                CHECK (state IN ('waiting', 'sent', 'taken', 'refused', 'failed', 'expired')),
    made_at     INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL CHECK (expires_at > made_at), -- no box is tried after that
    tries       INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    tried_at    INTEGER,
    finished_at INTEGER,
    answer      TEXT    CHECK (answer IS NULL OR (json_valid(answer) AND length(answer) <= 16777216)),
    exit_code   INTEGER CHECK (exit_code BETWEEN 1 AND 255),
    code        TEXT    CHECK (length(code) <= 64),            -- the refusal, of the box or of this Host
    why         TEXT    CHECK (length(why) <= 512),            -- while it waits: why the last try was none
    advice      TEXT    CHECK (length(advice) <= 512),
    CHECK ((terms IS NULL) = (signature IS NULL)),
    CHECK ((state IN ('waiting', 'sent')) = (finished_at IS NULL)),
    CHECK ((state = 'taken') = (answer IS NOT NULL)),
    CHECK (state NOT IN ('refused', 'failed', 'expired') OR code IS NOT NULL)
) STRICT;

CREATE INDEX host_terms_live ON host_terms (state, id) WHERE state IN ('waiting', 'sent');

CREATE INDEX host_terms_by_box ON host_terms (box_id, id);

CREATE TRIGGER host_terms_hold BEFORE INSERT ON host_terms
BEGIN
    SELECT RAISE(ABORT, 'terms.transition|terms begin by waiting to be carried')
     WHERE NEW.state <> 'waiting' OR NEW.tries <> 0;
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'call.offline|the Host is not serving, so nobody would carry this')
     WHERE NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');
    SELECT RAISE(ABORT, 'terms.busy|too many terms and looks wait to be carried')
     WHERE (SELECT count(*) FROM host_terms WHERE state IN ('waiting', 'sent'))
        >= (SELECT value FROM setting WHERE name = 'terms.live');
    SELECT RAISE(ABORT, 'terms.signature|what leaves this Host as its word is signed with its key')
     WHERE NEW.terms IS NOT NULL
       AND signed_by('bastion-anchor-1', (SELECT identity_key FROM box), NEW.terms, NEW.signature) IS NOT 1;
    SELECT RAISE(ABORT, 'terms.other|terms name the box that they are carried to, and this Host')
     WHERE NEW.terms IS NOT NULL
       AND ((NEW.terms ->> '$.server') IS NOT (SELECT name FROM host_box WHERE id = NEW.box_id)
         OR (NEW.terms ->> '$.server_key')
            IS NOT (SELECT lower(hex(box_key)) FROM host_box WHERE id = NEW.box_id)
         OR (NEW.terms ->> '$.anchor') IS NOT (SELECT name FROM box));
END;

CREATE TRIGGER host_terms_look_anew AFTER INSERT ON host_terms WHEN NEW.terms IS NULL
BEGIN
    DELETE FROM host_terms WHERE box_id = NEW.box_id AND id < NEW.id AND terms IS NULL
       AND finished_at < now_ms() - (SELECT value FROM setting WHERE name = 'terms.look_ms');
END;

CREATE TRIGGER host_terms_stay BEFORE DELETE ON host_terms
BEGIN
    SELECT RAISE(ABORT, 'terms.kept|what a Host signed is history')
     WHERE OLD.terms IS NOT NULL OR OLD.finished_at IS NULL;
END;

CREATE TRIGGER host_terms_move BEFORE UPDATE ON host_terms
BEGIN
    SELECT RAISE(ABORT, 'terms.transition|terms cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'host_terms' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'terms.final|terms that were answered are history')
     WHERE OLD.finished_at IS NOT NULL;
    SELECT RAISE(ABORT, 'terms.fixed|terms stay as they were signed')
     WHERE NEW.id IS NOT OLD.id OR NEW.box_id IS NOT OLD.box_id OR NEW.terms IS NOT OLD.terms
        OR NEW.signature IS NOT OLD.signature OR NEW.made_at IS NOT OLD.made_at
        OR NEW.expires_at IS NOT OLD.expires_at;
    -- What a box says is read by a person, and a key in it is signed for: it is held to its form.
    SELECT RAISE(ABORT, 'terms.answer|the box''s answer is not in the form')
     WHERE NEW.state = 'taken'
       AND CASE WHEN NEW.terms IS NULL
           THEN json_type(NEW.answer, '$.pairings') IS NOT 'array'
             OR EXISTS (SELECT 1 FROM json_each(NEW.answer, '$.pairings') AS p
                         WHERE p.type <> 'object' OR json_type(p.value, '$.host') IS NOT 'text'
                            OR length(p.value ->> '$.host') NOT BETWEEN 1 AND 64
                            OR json_type(p.value, '$.key') IS NOT 'text'
                            OR length(p.value ->> '$.key') <> 64
                            OR p.value ->> '$.key' GLOB '*[^0-9a-f]*'
                            OR coalesce(p.value ->> '$.state', '') NOT IN ('active', 'pending', 'revoked')
                            OR json_type(p.value, '$.since') IS NOT 'integer')
           ELSE json_type(NEW.answer) IS NOT 'object'
             OR (NEW.answer ->> '$.kind') IS NOT (NEW.terms ->> '$.kind')
             OR (NEW.answer ->> '$.host') IS NOT (NEW.terms ->> '$.subject')
             OR coalesce(NEW.answer ->> '$.state', '') NOT IN ('active', 'pending', 'revoked') END;
END;

CREATE TRIGGER host_terms_audit_birth AFTER INSERT ON host_terms WHEN NEW.terms IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_terms', NEW.id, NEW.state, '',
            json_object('box', NEW.terms ->> '$.server', 'kind', NEW.terms ->> '$.kind',
                        'subject', NEW.terms ->> '$.subject', 'key', NEW.terms ->> '$.subject_key',
                        'terms_sha256', lower(hex(sha256(NEW.terms)))));
END;

CREATE TRIGGER host_terms_audit_end AFTER UPDATE OF state ON host_terms
WHEN NEW.terms IS NOT NULL AND NEW.finished_at IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_terms', NEW.id, NEW.state, '',
            json_object('box', NEW.terms ->> '$.server', 'kind', NEW.terms ->> '$.kind',
                        'subject', NEW.terms ->> '$.subject', 'code', NEW.code));
END;

CREATE TRIGGER host_terms_end_with_link AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'link' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state NOT IN ('ended', 'failed', 'lost')
BEGIN
    UPDATE host_terms SET state = 'failed', finished_at = NEW.ended_at, code = 'terms.lost',
                          why = 'the Host stopped while the box had not answered yet'
     WHERE state = 'sent';
END;

CREATE TRIGGER host_terms_end_with_box AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    UPDATE host_terms SET state = 'failed', finished_at = NEW.gone_at, code = 'box.gone',
                          why = 'the box is no longer paired with this Host'
     WHERE box_id = NEW.id AND state = 'waiting';
END;

CREATE VIEW box_pairings AS
SELECT b.name AS box, p.value ->> '$.host' AS host,
       substr(p.value ->> '$.host', 1, instr((p.value ->> '$.host') || '.', '.') - 1) AS handle,
       p.value ->> '$.state' AS state, p.value ->> '$.since' AS since,
       coalesce(p.value ->> '$.unapproved', 0) AS unapproved, p.value ->> '$.key' AS key,
       t.id AS look, t.finished_at AS told_at
  FROM host_terms AS t JOIN host_box AS b ON b.id = t.box_id JOIN json_each(t.answer, '$.pairings') AS p
 WHERE t.terms IS NULL AND t.state = 'taken' AND b.state = 'active'
   AND t.id = (SELECT max(id) FROM host_terms WHERE box_id = t.box_id AND terms IS NULL AND state = 'taken');

CREATE VIEW signed_terms AS
SELECT t.id, b.name AS box, t.terms ->> '$.kind' AS kind, t.terms ->> '$.subject' AS host,
       t.state, t.made_at, t.tries, t.finished_at, t.code, t.why
  FROM host_terms AS t JOIN host_box AS b ON b.id = t.box_id WHERE t.terms IS NOT NULL;

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('box.silent_ms', 900000, 'ms', 1000, 31536000000, 'a box that has not answered for that long counts as silent'),
    ('lock.ttl_ms', 30000, 'ms', 1000, 86400000, 'how long bastion lock run may be stopped before it loses its lock'),
    ('lock.wait_ms', 3600000, 'ms', 0, 604800000, 'how long bastion lock run waits for a lock'),
    ('terms.carry_ms', 86400000, 'ms', 1000, 2592000000, 'how long signed terms wait for their box to be reached'),
    ('terms.live', 64, 'rows', 1, 10000, 'terms and looks that may wait to be carried at once'),
    ('terms.look_ms', 30000, 'ms', 1000, 600000, 'how long a person waits for what a box has of pairings, or of terms'),
    ('terms.retry_ms', 15000, 'ms', 100, 3600000, 'rest between two tries to reach a box with terms'),
    ('terms.ttl_ms', 2592000000, 'ms', 1000, 31536000000, 'how long an approval of a Host runs where nothing else is said');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('lock.name', 2, 422, 'name it with letters, digits, dots, dashes and underscores'),
    ('lock.program', 2, 422, 'see that the command exists and may be run'),
    ('terms.answer', 1, 502, 'see whether the box runs another bastion than this Host'),
    ('terms.busy', 75, 429, 'wait for what is carried now: bastion host terms'),
    ('terms.declined', 1, 409, 'nothing was signed'),
    ('terms.expired', 1, 504, 'find out why the box is not reached, then sign anew'),
    ('terms.failed', 1, 502, 'see what the box has now: bastion host pairings BOX'),
    ('terms.final', 1, 500, 'this is a fault in bastion: please report it'),
    ('terms.fixed', 1, 500, 'this is a fault in bastion: please report it'),
    ('terms.kept', 126, 409, 'see bastion host terms for what was signed'),
    ('terms.lost', 1, 502, 'it may have been heard; see what the box has now: bastion host pairings BOX'),
    ('terms.other', 126, 409, 'sign for the box that it is carried to'),
    ('terms.several', 2, 409, 'give the whole name: bastion host pairings BOX shows them'),
    ('terms.signature', 126, 403, 'have this Host sign: bastion host approve-pairing, revoke, consent'),
    ('terms.subject', 2, 404, 'see bastion host pairings BOX for the Hosts that it has'),
    ('terms.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('terms.unseen', 2, 403, 'say which key you mean: --key KEY, as bastion host pairings BOX shows it'),
    ('terms.waiting', 75, 504, 'see what becomes of it: bastion host terms');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('host_terms', '', 'waiting'),
    ('host_terms', 'sent', 'failed'),
    ('host_terms', 'sent', 'refused'),
    ('host_terms', 'sent', 'taken'),
    ('host_terms', 'sent', 'waiting'),
    ('host_terms', 'waiting', 'expired'),
    ('host_terms', 'waiting', 'failed'),
    ('host_terms', 'waiting', 'sent');
