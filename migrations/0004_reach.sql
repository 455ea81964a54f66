-- Hosts over a network, beats and orders, terms of the anchor as rows, grants with bounds, the internet lane, sandboxes, policy, sessions; decisions without detours; locks.

DROP TRIGGER approval_moves;
DROP TRIGGER approval_stays;
DROP TRIGGER approval_audit_birth;
DROP TRIGGER approval_audit_move;
DROP TRIGGER audit_entry_chains;
DROP TRIGGER refused_audit;
DROP TRIGGER setting_audit;
DROP TRIGGER box_audit;
DROP TRIGGER pairing_revoked;
DROP TRIGGER pairing_audit_birth;
DROP TRIGGER pairing_audit_move;
DROP TRIGGER pairing_stays;
DROP TRIGGER factor_dropped;
DROP TRIGGER factor_audit_birth;
DROP TRIGGER factor_audit_move;
DROP TRIGGER factor_try_audit;
DROP TRIGGER grant_burns_its_approval;
DROP TRIGGER grant_moves;
DROP TRIGGER grant_stays;
DROP TRIGGER grant_audit_move;
DROP TRIGGER grant_use_within_uses;
DROP TRIGGER grant_use_spends;
DROP TRIGGER grant_use_no_update;
DROP TRIGGER grant_use_no_delete;
DROP TRIGGER invitation_born;
DROP TRIGGER invitation_audit_birth;
DROP TRIGGER invitation_audit_move;
DROP TRIGGER host_box_born;
DROP TRIGGER host_box_gone;
DROP TRIGGER host_box_stays;
DROP TRIGGER host_box_moves;
DROP TRIGGER host_box_audit;
DROP TRIGGER host_box_audit_move;
DROP TRIGGER call_is_allowed;
DROP TRIGGER call_moves;
DROP TRIGGER call_audit_birth;
DROP TRIGGER call_audit_move;
DROP TRIGGER call_output_in_order;
DROP TRIGGER call_output_counts;
DROP TRIGGER op_run_spends;
DROP TRIGGER op_run_moves;
DROP TRIGGER op_run_stays;
DROP TRIGGER op_run_audit_move;
DROP TRIGGER op_output_in_order;
DROP TRIGGER op_output_counts;
DROP TRIGGER op_output_no_update;
DROP TRIGGER folder_walk_born;
DROP TRIGGER folder_walk_moves;
DROP TRIGGER instance_closes;
DROP TRIGGER instance_audit_birth;
DROP TRIGGER instance_audit_move;
DROP TRIGGER actor_run_audit;
DROP TRIGGER actor_run_closes;
DROP TRIGGER actor_run_closes_calls;
DROP TRIGGER amendment_moves;
DROP TRIGGER amendment_audit_birth;
DROP TRIGGER amendment_audit_move;
DROP TRIGGER box_witness_audit_birth;
DROP TRIGGER box_witness_audit_move;
DROP TRIGGER retention_answers;
DROP TRIGGER retention_factor_try;
DROP TRIGGER retention_refused;
DROP TRIGGER retention_actor_run;
DROP TRIGGER audit_base_audit;
DROP TRIGGER audit_sink_exported;
DROP TRIGGER backup_audit;
DROP TRIGGER anchor_terms_hold;
DROP TRIGGER anchor_terms_do;
DROP TRIGGER anchor_claimed;
DROP TRIGGER anchor_moves;
DROP TRIGGER anchor_is_served;
DROP TRIGGER anchor_moved;
DROP TRIGGER approval_born;
DROP TRIGGER restore_takes_back;
DROP TRIGGER mode_change_is_done;
DROP TRIGGER pairing_consent_is_a_yes;
DROP TRIGGER pairing_consent_once;
DROP TRIGGER pairing_consent_stays;
DROP TRIGGER pairing_consent_audit;
DROP TRIGGER pairing_born;
DROP TRIGGER pairing_moves;
DROP TRIGGER pairing_uses_consent_birth;
DROP TRIGGER pairing_uses_consent_return;
DROP TRIGGER pairing_audit_renewal;
DROP TRIGGER pairing_beats;
DROP TRIGGER context_ask_born;
DROP TRIGGER context_ask_moves;
DROP TRIGGER context_ask_audit_birth;
DROP TRIGGER context_ask_audit_move;
DROP TRIGGER context_ask_ends_with_pairing;
DROP TRIGGER grant_on_a_persons_word;
DROP TRIGGER op_run_is_allowed;
DROP TRIGGER anchor_heard_asking;
DROP TRIGGER pairing_endpoint_is_one;
DROP TRIGGER pairing_endpoint_audit_birth;
DROP TRIGGER pairing_endpoint_audit_end;
DROP TRIGGER pairing_endpoint_ends_with_pairing;
DROP TRIGGER pairing_endpoint_ends_with_code;
DROP TRIGGER mcp_token_audit_birth;
DROP TRIGGER mcp_token_audit_move;
DROP TRIGGER retention_moves;
DROP INDEX approval_pending_once;
DROP VIEW open_approvals;
DROP VIEW audit_line;
DROP VIEW audit_entry;
DROP VIEW audit_log_line;
DROP VIEW live_grants;
DROP VIEW live_runs;
DROP VIEW run_history;
DROP VIEW recent_runs;
DROP VIEW refused_why;
DROP VIEW held_locks;
DROP VIEW run_origin;
DROP VIEW row_origin;
DROP VIEW boxes;
DROP VIEW retention_item;
DROP VIEW live_anchor;
DROP VIEW approved_kinds;
DROP VIEW pairing_may;
DROP VIEW approved_pairings;
DROP VIEW told_pairings;
DROP VIEW pairing_invalid;
DROP VIEW pairing_status;
DROP VIEW host_may;
DROP VIEW waiting;
DROP VIEW expiring;
DROP VIEW op_input;
DROP VIEW mcp_tool;
DROP VIEW retention_due;
DROP VIEW unapproved_attempts;
DROP VIEW shared_folders;

ALTER TABLE call ADD COLUMN dry INTEGER NOT NULL DEFAULT 0 CHECK (dry IN (0, 1));
ALTER TABLE pairing ADD COLUMN peer_was INTEGER CHECK (peer_was >= 0);
UPDATE pairing SET peer_was = peer_uid;
ALTER TABLE pairing DROP COLUMN peer_uid;
ALTER TABLE pairing DROP COLUMN transport;
ALTER TABLE pairing RENAME COLUMN peer_was TO peer_uid;
ALTER TABLE pairing ADD COLUMN transport TEXT NOT NULL DEFAULT 'unix' CHECK (transport IN ('unix', 'tls', 'reverse')
                       AND (transport = 'unix') = (peer_uid IS NOT NULL));
ALTER TABLE host_box ADD COLUMN lane_was TEXT CHECK (lane_was GLOB '/*' AND length(CAST(lane_was AS BLOB)) <= 103
                          AND instr(lane_was, char(0)) = 0);
ALTER TABLE host_box ADD COLUMN peer_was INTEGER CHECK (peer_was >= 0);
UPDATE host_box SET lane_was = lane, peer_was = peer_uid;
ALTER TABLE host_box DROP COLUMN lane;
ALTER TABLE host_box DROP COLUMN peer_uid;
ALTER TABLE host_box RENAME COLUMN lane_was TO lane;
ALTER TABLE host_box RENAME COLUMN peer_was TO peer_uid;
ALTER TABLE host_box ADD COLUMN endpoint TEXT;
ALTER TABLE host_box ADD COLUMN authority BLOB CHECK (length(authority) BETWEEN 1 AND 8192);
ALTER TABLE host_box ADD COLUMN transport TEXT NOT NULL DEFAULT 'unix' CHECK (transport IN ('unix', 'tls', 'reverse')
                          AND (transport = 'unix') = (lane IS NOT NULL)
                          AND (transport = 'unix') = (peer_uid IS NOT NULL)
                          AND (transport = 'tls') = (endpoint IS NOT NULL)
                          AND (transport = 'tls') = (authority IS NOT NULL));
ALTER TABLE grant DROP COLUMN seal_text;
ALTER TABLE grant DROP COLUMN kind;
ALTER TABLE grant ADD COLUMN kind        TEXT    NOT NULL DEFAULT 'op'
                CHECK (kind IN ('op', 'root', 'folder', 'egress', 'terminal', 'model', 'tool'));
ALTER TABLE grant ADD COLUMN bounds      TEXT    CHECK (bounds IS NULL OR json_valid(bounds));
ALTER TABLE grant ADD COLUMN seal_text   TEXT    GENERATED ALWAYS AS
                (CASE WHEN bounds IS NULL
                 THEN json_array('grant', pairing_id, kind, op, args, uses, created_at, expires_at,
                                 factor_id, approval_id)
                 ELSE json_array('bounded', pairing_id, kind, op, args, uses, created_at, expires_at,
                                 factor_id, approval_id, bounds) END) VIRTUAL;
ALTER TABLE approval DROP COLUMN terms;
ALTER TABLE approval DROP COLUMN kind;
ALTER TABLE approval ADD COLUMN kind           TEXT    NOT NULL DEFAULT 'op'
                   CHECK (kind IN ('op', 'root', 'folder', 'egress', 'terminal', 'model', 'tool'));
ALTER TABLE approval ADD COLUMN bounds         TEXT    CHECK (bounds IS NULL OR json_valid(bounds));
ALTER TABLE approval ADD COLUMN words          TEXT    CHECK ((words IS NULL) = (bounds IS NULL));
ALTER TABLE approval ADD COLUMN terms          TEXT    GENERATED ALWAYS AS (
        'bastion approval ' || iif(bounds IS NULL, 1, 2) || char(10) ||
        'machine: ' || box_name || char(10) ||
        'host: ' || host_name || char(10) ||
        'may: ' || op || char(10) ||
        'with: ' || args || char(10) ||
        iif(bounds IS NULL, '', 'within: ' || bounds || char(10) || words || char(10)) ||
        'uses: ' || uses || char(10) ||
        'for: ' || (ttl_ms / 1000) || ' s from the approval' || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL;
ALTER TABLE op DROP COLUMN class;
ALTER TABLE op ADD COLUMN class   TEXT NOT NULL DEFAULT 'observe'
            CHECK (class IN ('observe', 'own', 'action', 'root', 'folder', 'egress', 'terminal', 'model', 'tool'));
ALTER TABLE op_run ADD COLUMN dry         INTEGER NOT NULL DEFAULT 0 CHECK (dry IN (0, 1));
ALTER TABLE call ADD COLUMN bounds      TEXT    CHECK (bounds IS NULL OR (json_valid(bounds) AND length(bounds) <= 4096));

-- CHECKs of the tables that each decision writes: IN with more than two values makes a table of them
-- for each row, which took a sixth of a decision's time. They allow what they allowed.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(replace(sql,
       'state IN (''queued'', ''running'', ''done'', ''failed'', ''cancelled'', ''lost'')',
       'state IN (''queued'', ''running'') OR state IN (''done'', ''failed'') OR state IN (''cancelled'', ''lost'')'),
       'state NOT IN (''running'', ''done'', ''failed'')', 'state IN (''queued'', ''cancelled'') OR state = ''lost''')
 WHERE type = 'table' AND name = 'op_run';
UPDATE sqlite_schema SET sql = replace(sql,
       'stream IN (''management'', ''pairing'', ''op'')', 'stream IN (''management'', ''pairing'') OR stream = ''op''')
 WHERE type = 'table' AND name = 'audit';
PRAGMA writable_schema = RESET;

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

CREATE TRIGGER amendment_audit_birth AFTER INSERT ON amendment
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'amendment', NEW.id, NEW.state, '',
            json_object('reason', NEW.reason, 'digest', lower(hex(sha256(NEW.terms)))));
END;

CREATE TRIGGER amendment_audit_move AFTER UPDATE OF state ON amendment WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'amendment', NEW.id, NEW.state, '',
           CASE NEW.state
           WHEN 'running' THEN
                json_object('reason', NEW.reason, 'statement', NEW.statement, 'by', NEW.decided_by,
                            'uid', NEW.decided_by_uid, 'factor', NEW.factor_id,
                            'digest', lower(hex(NEW.decided_digest)))
           WHEN 'done' THEN json_object('reason', NEW.reason, 'changes', json(NEW.changes))
           ELSE json_object('reason', NEW.reason) END;
END;

CREATE VIEW live_anchor AS
SELECT a.pairing_id, p.host_name AS host, a.owner, a.reason, a.claimed_at, a.heard_at
  FROM anchor AS a
 CROSS JOIN pairing AS p ON p.id = a.pairing_id AND p.state = 'active' AND p.host_key = a.host_key
 WHERE NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = p.id);

CREATE VIEW approved_kinds AS
SELECT p.id AS pairing_id, c.value AS class
  FROM pairing AS p JOIN anchor_terms AS t ON t.id = p.terms_id JOIN json_each(t.caps) AS c
 WHERE t.expires_at > now_ms();

CREATE VIEW pairing_may AS
SELECT p.id AS pairing_id, o.name AS op
  FROM pairing AS p JOIN op AS o
 WHERE (SELECT mode FROM box) = 'local'
    OR p.id IS (SELECT pairing_id FROM live_anchor)
    OR (EXISTS (SELECT 1 FROM live_anchor)
        AND (o.class = 'own'
             OR EXISTS (SELECT 1 FROM approved_kinds WHERE pairing_id = p.id AND class = o.class)));

CREATE VIEW approved_pairings AS
SELECT p.id AS pairing_id, t.expires_at AS approved_until
  FROM pairing AS p JOIN anchor_terms AS t ON t.id = p.terms_id
 WHERE p.state = 'active' AND p.id IS NOT (SELECT pairing_id FROM anchor);

CREATE VIEW unapproved_attempts AS
SELECT id AS pairing_id, host, handle, state, since FROM pairing_status
 WHERE state = 'pending' AND EXISTS (SELECT 1 FROM anchor)
   AND since <= now_ms() - (SELECT value FROM setting WHERE name = 'anchor.unapproved_ms');

CREATE VIEW told_pairings AS
SELECT asks.id AS asks_id, s.id AS pairing_id, s.host, s.handle, s.state, s.since, p.host_key,
       s.id IN (SELECT pairing_id FROM unapproved_attempts) AS unapproved
  FROM pairing AS asks
  JOIN pairing_status AS s ON s.state <> 'invalid'
                          AND (s.id = asks.id OR asks.id IS (SELECT pairing_id FROM live_anchor))
  JOIN pairing AS p ON p.id = s.id;

CREATE TRIGGER anchor_terms_hold BEFORE INSERT ON anchor_terms
BEGIN
    SELECT RAISE(ABORT, 'anchor.none|no Host is the anchor of this machine')
     WHERE NOT EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'anchor.signature|these terms are not signed by the anchor of this machine')
     WHERE NEW.signer IS NOT (SELECT host_key FROM anchor)
        OR signed_by('bastion-anchor-1', NEW.signer, NEW.terms, NEW.signature) IS NOT 1;
    SELECT RAISE(ABORT, 'anchor.terms|these are no terms of an anchor')
     WHERE CASE WHEN json_valid(NEW.terms) THEN json_type(NEW.terms) <> 'object' ELSE 1 END
        OR length(CAST(NEW.terms AS BLOB)) > 4096;
    -- Exactly these members, each once: a reader that takes the first of two and one that takes
    -- the last would read different terms.
    SELECT RAISE(ABORT, 'anchor.terms|these are no terms of an anchor')
     WHERE (SELECT group_concat(key || ' ' || type) FROM (SELECT key, type FROM json_each(NEW.terms)
             ORDER BY key)) IS NOT 'anchor text,caps array,expires_at integer,issued_at integer,'
           || 'kind text,server text,server_key text,subject text,subject_key text'
        OR (SELECT count(*) FROM json_each(NEW.terms)) <> 9
        OR (NEW.terms ->> '$.kind') NOT IN ('pairing_grant', 'pairing_revoke', 'anchor_consent')
        OR json_array_length(NEW.terms, '$.caps') > 64
        OR EXISTS (SELECT 1 FROM json_each(NEW.terms, '$.caps')
                    WHERE type <> 'text' OR value GLOB '*[^a-z-]*'
                       OR length(value) NOT BETWEEN 1 AND 32);
    SELECT RAISE(ABORT, 'anchor.other|these terms are for another machine, or of another anchor')
     WHERE (NEW.terms ->> '$.server') IS NOT (SELECT name FROM box)
        OR (NEW.terms ->> '$.server_key') IS NOT (SELECT lower(hex(identity_key)) FROM box)
        OR (NEW.terms ->> '$.anchor')
           IS NOT (SELECT host_name FROM pairing WHERE id = (SELECT pairing_id FROM anchor));
    SELECT RAISE(ABORT, 'anchor.subject|no Host of this name and key is paired here')
     WHERE NOT EXISTS (SELECT 1 FROM pairing WHERE id = NEW.pairing_id AND state <> 'revoked'
                          AND host_name = NEW.terms ->> '$.subject'
                          AND lower(hex(host_key)) = NEW.terms ->> '$.subject_key');
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE (NEW.terms ->> '$.kind') <> 'pairing_revoke'
       AND EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'anchor.time|the time that these terms were signed at cannot be')
     WHERE (NEW.terms ->> '$.issued_at')
           > now_ms() + (SELECT value FROM setting WHERE name = 'lane.skew_ms')
        OR (NEW.terms ->> '$.issued_at') < (SELECT claimed_at FROM anchor)
           - (SELECT value FROM setting WHERE name = 'lane.skew_ms')
        OR (NEW.terms ->> '$.expires_at') <= (NEW.terms ->> '$.issued_at')
        OR NEW.taken_at <> now_ms();
    -- (What was given, and taken back, since the copy was made is not in it.)
    SELECT RAISE(ABORT, 'anchor.replayed|these terms were signed before this database was restored')
     WHERE (NEW.terms ->> '$.kind') <> 'pairing_revoke'
       AND (NEW.terms ->> '$.issued_at') <= (SELECT max(restored_at) FROM restore);
    SELECT RAISE(ABORT, 'anchor.expired|these terms ran out')
     WHERE (NEW.terms ->> '$.expires_at') <= now_ms();
    SELECT RAISE(ABORT, 'anchor.replayed|terms as new or newer about this Host were taken before')
     WHERE EXISTS (SELECT 1 FROM anchor_terms AS t WHERE t.pairing_id = NEW.pairing_id
                      AND t.issued_at >= NEW.terms ->> '$.issued_at');
    SELECT RAISE(ABORT, 'anchor.busy|the anchor signs more than this machine keeps of one day')
     WHERE (NEW.terms ->> '$.kind') <> 'pairing_revoke'
       AND (SELECT count(*) FROM anchor_terms WHERE taken_at > now_ms() - 86400000)
        >= (SELECT value FROM setting WHERE name = 'anchor.terms');
    SELECT RAISE(ABORT, 'anchor.self|an anchor neither revokes itself nor consents to itself')
     WHERE (NEW.terms ->> '$.kind') <> 'pairing_grant'
       AND NEW.pairing_id = (SELECT pairing_id FROM anchor);
END;

CREATE TRIGGER anchor_terms_do AFTER INSERT ON anchor_terms
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'pairing', 'anchor_terms', NEW.id, NEW.kind, NEW.terms ->> '$.anchor',
           json_object('subject', NEW.terms ->> '$.subject', 'caps', json(NEW.caps),
                       'issued_at', NEW.issued_at, 'expires_at', NEW.expires_at,
                       'terms_sha256', lower(hex(sha256(NEW.terms))));
    UPDATE pairing SET state = 'active', terms_id = NEW.id
     WHERE id = NEW.pairing_id AND NEW.kind = 'pairing_grant';
    UPDATE pairing SET state = 'revoked', ended_at = NEW.taken_at
     WHERE id = NEW.pairing_id AND NEW.kind = 'pairing_revoke';
    UPDATE anchor SET heard_at = NEW.taken_at WHERE heard_at < NEW.taken_at;
END;

CREATE TRIGGER anchor_claimed BEFORE INSERT ON anchor
BEGIN
    SELECT RAISE(ABORT, 'box.authority|an anchor is claimed with machine authority, by root')
     WHERE NEW.by_uid <> 0;
    SELECT RAISE(ABORT, 'anchor.mode|only a machine on a network has an anchor')
     WHERE (SELECT mode FROM box) IS NOT 'networked';
    SELECT RAISE(ABORT, 'anchor.held|this machine has an anchor already')
     WHERE EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'anchor.revoked|this Host is no longer paired here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
       AND (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'pending';
    SELECT RAISE(ABORT, 'pairing.several|more than one Host is paired here, so one has to be named')
     WHERE NEW.reason = 'paired'
       AND (SELECT count(*) FROM pairing WHERE state <> 'revoked') <> 1;
    SELECT RAISE(ABORT, 'anchor.held|an anchor begins with the key of its pairing, at the present time')
     WHERE NEW.host_key IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id)
        OR NEW.reason NOT IN ('paired', 'claimed') OR NEW.terms_id IS NOT NULL
        OR NEW.claimed_at <> now_ms() OR NEW.heard_at <> now_ms();
END;

CREATE TRIGGER anchor_moves BEFORE UPDATE ON anchor
BEGIN
    SELECT RAISE(ABORT, 'anchor.held|an anchor that is heard stays what it is')
     WHERE NEW.pairing_id IS OLD.pairing_id AND NEW.host_key IS OLD.host_key
       AND (NEW.owner IS NOT OLD.owner OR NEW.reason IS NOT OLD.reason
            OR NEW.terms_id IS NOT OLD.terms_id OR NEW.claimed_at IS NOT OLD.claimed_at
            OR NEW.by_uid IS NOT OLD.by_uid OR NEW.heard_at < OLD.heard_at
            OR NEW.heard_at > now_ms());
    SELECT RAISE(ABORT, 'anchor.held|an anchor that moves begins anew, at the present time')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND (NEW.claimed_at <> now_ms() OR NEW.heard_at <> now_ms()
            OR NEW.reason NOT IN ('consent', 'silent')
            OR NEW.host_key IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id));
    SELECT RAISE(ABORT, 'box.authority|an anchor is moved with machine authority, by root')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND NEW.by_uid <> 0;
    SELECT RAISE(ABORT, 'anchor.mode|only a machine on a network has an anchor')
     WHERE (SELECT mode FROM box) IS NOT 'networked';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'anchor.revoked|this Host is no longer paired here')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
       AND (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'pending';
    SELECT RAISE(ABORT, 'anchor.consent|the present anchor has not consented to this Host')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND NEW.reason = 'consent'
       AND NOT EXISTS (SELECT 1 FROM anchor_terms AS t WHERE t.id = NEW.terms_id
                          AND t.kind = 'anchor_consent' AND t.signer = OLD.host_key
                          AND t.pairing_id = NEW.pairing_id
                          AND t.terms ->> '$.subject_key' = lower(hex(NEW.host_key))
                          AND t.expires_at > now_ms() AND t.id > coalesce(OLD.terms_id, 0));
    SELECT RAISE(ABORT, 'anchor.silence|the present anchor has not been silent for long enough')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND NEW.reason = 'silent'
       AND (NEW.terms_id IS NOT OLD.terms_id
            OR OLD.heard_at > now_ms()
               - (SELECT value FROM setting WHERE name = 'anchor.silent_ms'));
END;

CREATE TRIGGER anchor_is_served AFTER INSERT ON anchor
BEGIN
    UPDATE pairing SET state = 'active' WHERE id = NEW.pairing_id AND state = 'pending';
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'anchor', 1, NEW.reason,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('owner', NEW.owner, 'uid', NEW.by_uid, 'key', lower(hex(NEW.host_key))));
END;

CREATE TRIGGER anchor_moved AFTER UPDATE ON anchor
WHEN NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key
BEGIN
    UPDATE pairing SET state = 'active' WHERE id = NEW.pairing_id AND state = 'pending';
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'anchor', 1, NEW.reason,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('owner', NEW.owner, 'uid', NEW.by_uid, 'key', lower(hex(NEW.host_key)),
                        'from', (SELECT host_name FROM pairing WHERE id = OLD.pairing_id),
                        'heard_at', OLD.heard_at, 'terms', NEW.terms_id));
END;

CREATE UNIQUE INDEX approval_pending_once
    ON approval (pairing_id, op, args, uses, ttl_ms, coalesce(bounds, ''))
 WHERE state = 'pending';

CREATE TRIGGER approval_born BEFORE INSERT ON approval
BEGIN
    -- A question that ran out does not stand in the way of the next, nor does it count.
    UPDATE approval SET state = 'expired', decided_at = now_ms()
     WHERE pairing_id = NEW.pairing_id AND state = 'pending' AND expires_at <= now_ms();
    SELECT RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
     WHERE (SELECT mode FROM box) = 'networked' AND NOT EXISTS (SELECT 1 FROM live_anchor);
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'approval.transition|an approval begins as pending')
     WHERE NEW.state <> 'pending';
    SELECT RAISE(ABORT, 'op.unknown|there is no op of this name')
     WHERE NOT EXISTS (SELECT 1 FROM op WHERE name = NEW.op);
    SELECT RAISE(ABORT, 'approval.kind|no grant of this kind is for this op')
     WHERE NEW.kind IS NOT (SELECT iif(class IN ('observe', 'action'), 'op', nullif(class, 'own'))
                              FROM op WHERE name = NEW.op);
    SELECT RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_may WHERE pairing_id = NEW.pairing_id AND op = NEW.op);
    SELECT RAISE(ABORT, 'op.args|arguments are a JSON array of at most 16384 characters')
     WHERE CASE WHEN json_valid(NEW.args) THEN json_type(NEW.args) <> 'array' ELSE 1 END
        OR length(NEW.args) > 16384;
    SELECT RAISE(ABORT, 'approval.uses|at least one use, and no more than the setting grant.uses allows')
     WHERE NEW.uses NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'grant.uses');
    SELECT RAISE(ABORT, 'approval.ttl|whole seconds, and no longer than the setting grant.ttl_ms allows')
     WHERE NEW.ttl_ms NOT BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'grant.ttl_ms')
        OR NEW.ttl_ms % 1000 <> 0;
    SELECT RAISE(ABORT, 'approval.root|what runs as root is granted for at most 30 days, and no longer than the setting grant.root_ttl_ms allows')
     WHERE NEW.kind = 'root' AND NEW.ttl_ms > (SELECT value FROM setting WHERE name = 'grant.root_ttl_ms');
    SELECT RAISE(ABORT, 'approval.terms|the terms name another machine, Host or text')
     WHERE NEW.box_name IS NOT (SELECT name FROM box)
        OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
        OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms));
    SELECT RAISE(ABORT, 'approval.busy|too many questions of this Host wait for a person')
     WHERE (SELECT count(*) FROM approval WHERE pairing_id = NEW.pairing_id AND state = 'pending')
        >= (SELECT value FROM setting WHERE name = 'approval.pending');
END;

CREATE TRIGGER approval_moves BEFORE UPDATE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.decided|this question is decided already')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'approval' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'approval.decided|this question is decided already')
     WHERE NEW.state IS OLD.state AND OLD.digest IS NOT NULL;
    SELECT RAISE(ABORT, 'approval.terms|the terms of a question never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.kind IS NOT OLD.kind
        OR NEW.box_name IS NOT OLD.box_name OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_name IS NOT OLD.host_name OR NEW.op IS NOT OLD.op OR NEW.args IS NOT OLD.args
        OR NEW.uses IS NOT OLD.uses OR NEW.ttl_ms IS NOT OLD.ttl_ms
        OR NEW.bounds IS NOT OLD.bounds OR NEW.words IS NOT OLD.words OR NEW.digest IS NOT coalesce(OLD.digest, sha256(OLD.terms))
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'approval.expired|this question ran out before it was answered')
     WHERE NEW.state IN ('approved', 'denied') AND OLD.state = 'pending' AND OLD.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'approval.factor|the approving factor is not active')
     WHERE NEW.state = 'approved'
       AND (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'approval.terms|what was approved is not what was asked')
     WHERE NEW.state = 'approved' AND sha256(OLD.terms) IS NOT NEW.decided_digest;
END;

CREATE TRIGGER approval_stays BEFORE DELETE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.kept|a question and its answer are history');
END;

CREATE TRIGGER approval_audit_birth AFTER INSERT ON approval
BEGIN
    UPDATE approval SET digest = sha256(terms) WHERE id = NEW.id AND digest IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'approval', NEW.id, NEW.state, NEW.host_name,
            json_patch(json_object('op', NEW.op, 'args', json(NEW.args), 'uses', NEW.uses,
                                   'ttl_ms', NEW.ttl_ms,
                                   'digest', (SELECT lower(hex(digest)) FROM approval WHERE id = NEW.id)),
                       json_object('bounds', json(NEW.bounds))));
END;

CREATE TRIGGER approval_audit_move AFTER UPDATE OF state ON approval WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'approval', NEW.id, NEW.state, NEW.host_name,
            json_object('from', OLD.state, 'by', NEW.decided_by, 'uid', NEW.decided_by_uid,
                        'factor', NEW.factor_id, 'digest', lower(hex(NEW.digest))));
END;

CREATE VIEW open_approvals AS
SELECT id, host_name AS host, op, args, uses, ttl_ms, asked_at, expires_at, lower(hex(digest)) AS digest,
       kind, bounds, words
  FROM approval WHERE state = 'pending' AND expires_at > now_ms();

CREATE VIEW audit_line AS
SELECT seq, prev, hash,
       json_array(seq, at, stream, who, entity, entity_id, action, pairing, body) AS line
  FROM audit;

CREATE VIEW audit_entry AS
SELECT stream, entity, entity_id, action, pairing, body FROM audit;

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

CREATE VIEW audit_log_line AS
WITH queued AS (
    SELECT o.seq, o.dropped_before, a.stream, a.pairing, a.at, a.who, a.entity, a.entity_id, a.action,
           CASE WHEN json_type(a.body, '$.command') = 'text' THEN
                json_remove(
                    CASE WHEN json_type(a.body, '$.command_bytes') IS NULL
                         THEN json_set(a.body, '$.command_bytes',
                                       length(CAST(json_extract(a.body, '$.command') AS BLOB)))
                         ELSE a.body END,
                    '$.command')
                -- A command as root is kept out of it, too: how long it was, and its digest.
                WHEN a.body ->> '$.op' = 'root:exec' AND json_type(a.body, '$.args[0]') = 'text' THEN
                json_set(json_remove(a.body, '$.args'),
                         '$.command_bytes', length(CAST(a.body ->> '$.args[0]' AS BLOB)),
                         '$.command_sha256', lower(hex(sha256(a.body ->> '$.args[0]'))))
                ELSE a.body END AS body
      FROM audit_outbox AS o JOIN audit AS a ON a.seq = o.seq)
SELECT seq,
       CASE WHEN dropped_before > 0
            THEN json_set(line, '$.system_log_dropped', dropped_before) ELSE line END AS line
  FROM (SELECT seq, dropped_before,
               json_set(body, '$.audit', stream, '$.pairing', pairing, '$.seq', seq, '$.at', at,
                        '$.who', who, '$.entity', entity, '$.id', entity_id, '$.action', action)
               AS line
          FROM queued);

CREATE TRIGGER refused_audit AFTER INSERT ON refused
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'refused', NEW.id, 'refused',
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('surface', NEW.surface, 'asked', NEW.asked, 'code', NEW.code, 'why', NEW.why));
END;

CREATE TRIGGER setting_audit AFTER UPDATE OF value ON setting WHEN NEW.value IS NOT OLD.value
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'setting', NEW.name, 'changed', '',
            json_object('from', OLD.value, 'to', NEW.value));
END;

CREATE TRIGGER backup_audit AFTER INSERT ON backup
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'backup', NEW.id, 'made', '',
            json_object('seq', NEW.seq, 'head', lower(hex(NEW.head)), 'bytes', NEW.bytes));
END;

CREATE TRIGGER restore_takes_back AFTER INSERT ON restore
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'restore', NEW.id, 'restored', '',
            json_object('seq', NEW.seq, 'head', lower(hex(NEW.head)), 'replaced_seq', NEW.replaced_seq,
                        'replaced_head', lower(hex(NEW.replaced_head)),
                        'keep_grants', NEW.keep_grants, 'keep_factors', NEW.keep_factors));
    -- A question may have been answered since; the same signature would answer it again.
    UPDATE approval SET state = 'expired', decided_at = now_ms() WHERE state = 'pending';
    UPDATE invitation SET state = 'withdrawn', ended_at = now_ms() WHERE state = 'open';
    UPDATE context_ask SET state = iif(state = 'pending', 'expired', 'dropped'), ended_at = now_ms()
     WHERE state IN ('pending', 'allowed');
    UPDATE pairing SET state = 'revoked', ended_at = now_ms()
     WHERE state <> 'revoked' AND NEW.live IS NOT NULL
       AND json_array(host_name, lower(hex(host_key)), since) NOT IN
           (SELECT value FROM json_each(NEW.live, '$.pairings'));
    UPDATE host_box SET state = 'gone', gone_at = now_ms()
     WHERE state = 'active' AND NEW.live IS NOT NULL
       AND json_array(name, lower(hex(box_key)), paired_at) NOT IN
           (SELECT value FROM json_each(NEW.live, '$.boxes'));
    UPDATE factor SET state = 'dropped', dropped_at = now_ms()
     WHERE state = 'active'
       AND CASE WHEN NEW.live IS NULL THEN NOT NEW.keep_factors
                ELSE json_array(fingerprint, enrolled_at) NOT IN
                     (SELECT json_array(value ->> 0, value ->> 1)
                        FROM json_each(NEW.live, '$.factors')) END;
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored'
     WHERE state = 'active'
       AND (NOT NEW.keep_grants
            OR (NEW.live IS NOT NULL AND lower(hex(seal)) NOT IN
                (SELECT value FROM json_each(NEW.live, '$.grants'))));
    -- Codes that were used, and signatures of a token that counts, are not good again.
    UPDATE factor
       SET last_counter = now_ms() / 30000 + (SELECT value FROM setting WHERE name = 'factor.steps')
     WHERE state = 'active' AND kind = 'totp' AND last_counter <
           now_ms() / 30000 + (SELECT value FROM setting WHERE name = 'factor.steps');
    UPDATE factor SET last_counter = l.value ->> 2
      FROM json_each(NEW.live, '$.factors') AS l
     WHERE state = 'active' AND kind = 'ssh'
       AND fingerprint = l.value ->> 0 AND enrolled_at = l.value ->> 1
       AND last_counter < l.value ->> 2;
END;

CREATE TABLE host_beat (
    box_id INTEGER PRIMARY KEY REFERENCES host_box (id),
    beat   TEXT    NOT NULL CHECK (json_valid(beat) AND length(CAST(beat AS BLOB)) <= 1048576),
    at     INTEGER NOT NULL
) STRICT;

CREATE TRIGGER host_beat_born BEFORE INSERT ON host_beat
BEGIN
    SELECT RAISE(ABORT, 'beat.size|a beat is longer than the setting beat.bytes allows')
     WHERE length(CAST(NEW.beat AS BLOB)) > (SELECT value FROM setting WHERE name = 'beat.bytes');
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    -- (A newer box may say more: what is not named here is kept and not looked at.)
    SELECT RAISE(ABORT, 'beat.form|this is no beat of a box')
     WHERE CASE WHEN json_valid(NEW.beat) THEN json_type(NEW.beat) IS NOT 'object'
                  OR json_type(NEW.beat, '$.name') IS NOT 'text'
                  OR length(NEW.beat ->> '$.name') NOT BETWEEN 1 AND 64
                  OR json_type(NEW.beat, '$.version') IS NOT 'text'
                  OR length(NEW.beat ->> '$.version') > 64
                  OR json_type(NEW.beat, '$.platform') IS NOT 'text'
                  OR length(NEW.beat ->> '$.platform') > 128
                  OR (NEW.beat ->> '$.state') IS NOT 'active'
                  OR json_type(NEW.beat, '$.enforcing') IS NOT 'object'
                  OR coalesce(json_type(NEW.beat, '$.endpoint_save_pending'), '') NOT IN ('true', 'false')
                  OR json_type(NEW.beat, '$.orders') IS NOT 'array'
                ELSE 1 END;
    SELECT RAISE(ABORT, 'beat.form|a result in this beat is none')
     WHERE json_array_length(NEW.beat, '$.orders') > (SELECT high FROM setting WHERE name = 'order.batch')
        OR EXISTS (SELECT 1 FROM json_each(NEW.beat, '$.orders') AS o
                    WHERE CASE WHEN o.type <> 'object' THEN 1
                               ELSE json_type(o.value, '$.order') IS NOT 'text'
                                 OR length(o.value ->> '$.order') <> 32
                                 OR coalesce(o.value ->> '$.state', '')
                                    NOT IN ('done', 'refused', 'failed', 'lost')
                                 OR json_type(o.value, '$.result') IS NOT 'object'
                                 OR length(o.value -> '$.result') > 65536 END);
    DELETE FROM host_beat WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER host_beat_no_update BEFORE UPDATE ON host_beat
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|a beat is replaced by the next one, never edited');
END;

CREATE TRIGGER host_beat_does AFTER INSERT ON host_beat
BEGIN
    UPDATE host_box SET heard_at = NEW.at WHERE id = NEW.box_id AND NEW.at > coalesce(heard_at, 0);
    UPDATE host_order
       SET state = 'answered', ended_at = NEW.at, outcome = o.value ->> '$.state',
           result = o.value -> '$.result'
      FROM json_each(NEW.beat, '$.orders') AS o
     WHERE box_id = NEW.box_id AND nonce = o.value ->> '$.order' AND host_order.state = 'sent';
END;

CREATE TABLE enforces (
    name  TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64 AND name NOT GLOB '*[^a-z_]*'),
    value TEXT NOT NULL CHECK (json_valid(value))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER enforces_fixed BEFORE UPDATE ON enforces
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|what a build enforces comes with its migrations');
END;

CREATE TRIGGER enforces_stays BEFORE DELETE ON enforces
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|what a build enforces comes with its migrations');
END;

CREATE VIEW enforcing AS
SELECT json_set((SELECT coalesce(json_group_object(name, json(value)), '{}') FROM enforces), '$.verbs',
                (SELECT json_group_array(json_object('verb', name, 'can', json(can), 'why', why))
                   FROM (SELECT o.name, coalesce(p.why, 'not looked at yet') AS why,
                                iif(p.works IS 1, 'true', 'false') AS can
                           FROM op AS o LEFT JOIN op_probe AS p ON p.op = o.name
                          ORDER BY o.name))) AS report;

CREATE VIEW beat AS
SELECT s.id AS pairing_id,
       json_patch(json_object('name', b.name, 'state', s.state,
                   'caps', json(coalesce(s.caps, '[]')),
                   'enforcing', json((SELECT report FROM enforcing)),
                   'endpoint_save_pending',
                   json(iif(EXISTS (SELECT 1 FROM rotation_endpoint WHERE pairing_id = s.id),
                            'true', 'false')),
                   'orders',
                   (SELECT json_group_array(json_object('order', nonce, 'kind', kind, 'state', state,
                                                        'result', json(result)))
                      FROM (SELECT *, sum(length(result)) OVER (ORDER BY id) AS long
                              FROM untold_result WHERE pairing_id = s.id ORDER BY id
                             LIMIT (SELECT value FROM setting WHERE name = 'order.batch'))
                     WHERE long <= (SELECT low / 2 FROM setting WHERE name = 'beat.bytes'))),
                  coalesce((SELECT said FROM agent_beat), '{}')) AS body
  FROM pairing_status AS s JOIN box AS b
 WHERE s.active;

CREATE VIEW box_beats AS
SELECT b.id AS box_id, b.name, h.at AS beat_at, h.beat ->> '$.version' AS version,
       h.beat ->> '$.platform' AS platform, h.beat -> '$.enforcing' AS enforcing,
       CASE WHEN b.state = 'gone' THEN 'gone' WHEN h.at IS NULL THEN 'connected'
            WHEN h.at > now_ms() - (SELECT value FROM setting WHERE name = 'beat.silent_ms')
            THEN 'beating' ELSE 'silent' END AS state
  FROM host_box AS b LEFT JOIN host_beat AS h ON h.box_id = b.id;

CREATE TRIGGER approval_within BEFORE INSERT ON approval
WHEN NEW.bounds IS NOT NULL AND json_valid(NEW.args)
BEGIN
    SELECT RAISE(ABORT, 'grant.bounds|bounds are a JSON object of at most 4096 bytes with something in it')
     WHERE CASE WHEN json_valid(NEW.bounds)
                THEN json_type(NEW.bounds) <> 'object' OR NEW.bounds = '{}' OR NEW.bounds <> json(NEW.bounds)
                  OR length(CAST(NEW.bounds AS BLOB)) > 4096
                ELSE 1 END;
    SELECT RAISE(ABORT, 'grant.bounds|a bound names no parameter of this op, or names it twice')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.bounds) AS b
            WHERE b.key NOT IN ('_window', '_rate')
              AND b.key NOT IN (SELECT name FROM op_param WHERE op = NEW.op))
        OR (SELECT count(*) <> count(DISTINCT key) FROM json_each(NEW.bounds));
    SELECT RAISE(ABORT, 'grant.bounds|a bound is an object with something in it, nothing of it twice')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.bounds) AS b
            WHERE CASE WHEN b.type = 'object'
                       THEN (SELECT count(*) = 0 OR count(*) <> count(DISTINCT key) FROM json_each(b.value))
                       ELSE 1 END);
    -- (CROSS JOIN: in this order, so that what is no parameter is not taken apart.)
    SELECT RAISE(ABORT, 'grant.bounds|a parameter is bound by in, a number by min and max, a text by prefix, like and beneath')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.bounds) AS b
             CROSS JOIN op_param AS p ON p.op = NEW.op AND p.name = b.key
             CROSS JOIN json_each(b.value) AS r
            WHERE NOT CASE r.key
                  WHEN 'in' THEN CASE WHEN r.type = 'array'
                       THEN json_array_length(r.value) BETWEEN 1 AND 64
                        AND NOT EXISTS (SELECT 1 FROM json_each(r.value) AS e
                                         WHERE e.type <> iif(p.type = 'integer', 'integer', 'text'))
                       ELSE 0 END
                  WHEN 'min' THEN p.type = 'integer' AND r.type = 'integer' AND r.value >= p.low
                  WHEN 'max' THEN p.type = 'integer' AND r.type = 'integer' AND r.value <= p.high
                  WHEN 'prefix' THEN p.type = 'string' AND r.type = 'text' AND r.value <> ''
                  WHEN 'like' THEN p.type = 'string' AND r.type = 'text' AND glob_valid(r.value)
                  WHEN 'beneath' THEN p.type = 'string' AND r.type = 'text' AND bound_holds('beneath', '/', r.value)
                  ELSE 0 END);
    SELECT RAISE(ABORT, 'grant.bounds|a window has days of mon to sun, from and to as HH:MM with time between them, and a zone that is known')
     WHERE json_type(NEW.bounds, '$._window') = 'object'
       AND CASE WHEN json_type(NEW.bounds, '$._window.days') IS NOT 'array' THEN 1
                ELSE EXISTS (SELECT 1 FROM json_each(NEW.bounds, '$._window')
                              WHERE key NOT IN ('days', 'from', 'to', 'zone') OR (key <> 'days' AND type <> 'text'))
                  OR EXISTS (SELECT 1 FROM json_each(NEW.bounds, '$._window.days')
                              WHERE type <> 'text' OR value NOT IN ('mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'))
                  OR window_opens(NEW.bounds -> '$._window.days', NEW.bounds ->> '$._window.from',
                                  NEW.bounds ->> '$._window.to', NEW.bounds ->> '$._window.zone', now_ms()) IS NULL
                END;
    SELECT RAISE(ABORT, 'grant.bounds|a rate has max with per_ms, or apart_ms, or both: whole numbers within the settings grant.uses and grant.rate_ms')
     WHERE json_type(NEW.bounds, '$._rate') = 'object'
       AND (EXISTS (SELECT 1 FROM json_each(NEW.bounds, '$._rate')
                     WHERE type <> 'integer' OR NOT CASE key
                           WHEN 'max' THEN value BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'grant.uses')
                           WHEN 'per_ms' THEN value BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'grant.rate_ms')
                           WHEN 'apart_ms' THEN value BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'grant.rate_ms')
                           ELSE 0 END)
            OR (json_type(NEW.bounds, '$._rate.max') IS NULL) <> (json_type(NEW.bounds, '$._rate.per_ms') IS NULL));
    SELECT RAISE(ABORT, 'grant.bounds|what is asked for now does not keep within the bounds')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.bounds) AS b
             CROSS JOIN op_param AS p ON p.op = NEW.op AND p.name = b.key
             CROSS JOIN json_each(b.value) AS r
            WHERE NOT CASE r.key
                  WHEN 'in' THEN coalesce((NEW.args ->> (p.position - 1)) IN
                       (SELECT CAST(value AS TEXT) FROM json_each(r.value)), 0)
                  ELSE bound_holds(r.key, r.value, NEW.args ->> (p.position - 1)) END);
    SELECT RAISE(ABORT, 'approval.terms|the bounds are not put into words as this machine does')
     WHERE NEW.words IS NOT bounds_words(NEW.bounds);
    -- Deciding looks at each of them.
    SELECT RAISE(ABORT, 'grant.many|this Host holds or asks for as many grants with bounds for this op as the setting grant.bounded allows')
     WHERE (SELECT count(*) FROM grant WHERE pairing_id = NEW.pairing_id AND op = NEW.op
               AND state = 'active' AND bounds IS NOT NULL AND expires_at > now_ms())
         + (SELECT count(*) FROM approval WHERE pairing_id = NEW.pairing_id AND op = NEW.op
               AND state = 'pending' AND bounds IS NOT NULL AND expires_at > now_ms())
        >= (SELECT value FROM setting WHERE name = 'grant.bounded');
END;

CREATE VIEW grant_bound AS
SELECT g.id AS grant_id, p.position - 1 AS at, p.name, coalesce(r.key, 'is') AS rule,
       iif(r.key IS NULL, g.args ->> (p.position - 1), r.value) AS bound
  FROM grant AS g JOIN op_param AS p ON p.op = g.op
  LEFT JOIN json_each(g.bounds -> p.name) AS r;

CREATE VIEW grant_rate AS
SELECT g.id,
       max(coalesce((SELECT u.at + (g.bounds ->> '$._rate.per_ms') FROM grant_use AS u
                      WHERE u.grant_id = g.id
                        AND u.n = (SELECT max(n) FROM grant_use WHERE grant_id = g.id)
                                - (g.bounds ->> '$._rate.max') + 1), 0),
           coalesce((SELECT u.at + (g.bounds ->> '$._rate.apart_ms') FROM grant_use AS u
                      WHERE u.grant_id = g.id ORDER BY u.n DESC LIMIT 1), 0)) AS until
  FROM grant AS g;

CREATE VIEW grant_next AS
SELECT g.id,
       CASE WHEN json_type(g.bounds, '$._window') IS NULL THEN max(now_ms(), r.until)
            ELSE window_opens(g.bounds -> '$._window.days', g.bounds ->> '$._window.from',
                              g.bounds ->> '$._window.to', g.bounds ->> '$._window.zone',
                              max(now_ms(), r.until)) END AS at,
       r.until > now_ms() AS by_rate
  FROM grant AS g JOIN grant_rate AS r ON r.id = g.id;

CREATE VIEW grant_not_now AS
SELECT n.id, n.at, iif(n.at >= g.expires_at, n.at, NULL) AS ends,
       iif(n.by_rate, 'grant.rate', 'grant.window') AS code,
       'grant ' || n.id || ' is held, nothing of it is spent; ' || replace(bounds_words(json_object(
            iif(n.by_rate, '_rate', '_window'),
            g.bounds -> iif(n.by_rate, '$._rate', '$._window'))), '- ', '')
            || iif(n.at >= g.expires_at, '; it ends before it can be used again', '') AS why
  FROM grant_next AS n JOIN grant AS g ON g.id = n.id;

CREATE TRIGGER box_audit AFTER INSERT ON box
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'box', NEW.id, 'created', '',
            json_object('name', NEW.name, 'role', NEW.role, 'mode', NEW.mode,
                        'key', lower(hex(NEW.identity_key))));
END;

CREATE TRIGGER mode_change_is_done AFTER INSERT ON mode_change
BEGIN
    UPDATE box SET mode = NEW.mode;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'box', 1, NEW.mode, '',
            json_object('change', NEW.id, 'uid', NEW.by_uid, 'factor', NEW.factor_id));
END;

CREATE TRIGGER pairing_consent_is_a_yes BEFORE INSERT ON pairing_consent
WHEN lower(NEW.answer) NOT IN ('y', 'yes') OR NEW.at <> now_ms() OR NEW.used <> 0
BEGIN
    SELECT RAISE(ABORT, 'pairing.second|a second Host is paired on a plain y or yes alone');
END;

CREATE TRIGGER pairing_consent_once BEFORE UPDATE ON pairing_consent
WHEN OLD.used = 1 OR NEW.used <> 1 OR NEW.id IS NOT OLD.id OR NEW.host_name IS NOT OLD.host_name
  OR NEW.host_key IS NOT OLD.host_key OR NEW.answer IS NOT OLD.answer
  OR NEW.by_uid IS NOT OLD.by_uid OR NEW.at IS NOT OLD.at
BEGIN
    SELECT RAISE(ABORT, 'pairing.consent|a consent is used once and is history');
END;

CREATE TRIGGER pairing_consent_stays BEFORE DELETE ON pairing_consent
BEGIN
    SELECT RAISE(ABORT, 'pairing.consent|a consent is used once and is history');
END;

CREATE TRIGGER pairing_consent_audit AFTER INSERT ON pairing_consent
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_consent', NEW.id, 'given', '',
            json_object('host', NEW.host_name, 'key', lower(hex(NEW.host_key)), 'uid', NEW.by_uid));
END;

CREATE TRIGGER pairing_born BEFORE INSERT ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.key|a Host of this name is paired here with another key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name AND state <> 'revoked'
                      AND host_key <> NEW.host_key);
    SELECT RAISE(ABORT, 'pairing.exists|this Host is already paired here')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked')
       AND NOT EXISTS (SELECT 1 FROM pairing_consent WHERE host_name = NEW.host_name
                          AND host_key = NEW.host_key AND used = 0 AND at = now_ms());
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot begin in this state')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = '' AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'anchor.approval|the anchor has not approved this Host')
     WHERE NEW.state = 'active' AND EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing begins without an approval')
     WHERE NEW.terms_id IS NOT NULL OR NEW.renewed_at IS NOT NULL;
END;

CREATE TRIGGER pairing_moves BEFORE UPDATE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its Host')
     WHERE NEW.id IS NOT OLD.id OR NEW.host_name IS NOT OLD.host_name;
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its key until it is paired anew')
     WHERE OLD.state <> 'revoked'
       AND (NEW.host_key IS NOT OLD.host_key OR NEW.since IS NOT OLD.since
            OR ((NEW.peer_uid IS NOT OLD.peer_uid OR NEW.transport IS NOT OLD.transport)
                AND NEW.renewed_at IS NOT now_ms()));
    SELECT RAISE(ABORT, 'pairing.fixed|a revoked pairing changes when it is paired anew')
     WHERE OLD.state = 'revoked' AND NEW.state IS OLD.state;
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing is renewed while it stands, at the present time')
     WHERE NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
       AND (NEW.renewed_at <> now_ms() OR OLD.state = 'revoked' OR NEW.state IS NOT OLD.state);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE OLD.state = 'revoked' AND NEW.state <> 'revoked' AND (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked')
       AND NOT EXISTS (SELECT 1 FROM pairing_consent WHERE host_name = NEW.host_name
                          AND host_key = NEW.host_key AND used = 0 AND at = now_ms());
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE OLD.state = 'revoked' AND NEW.state <> 'revoked'
       AND EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
    -- What the anchor signed is newer than what the pairing stood on, and about this very Host.
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing stands on a newer approval of its own')
     WHERE NEW.terms_id IS NOT OLD.terms_id
       AND NOT (NEW.terms_id IS NULL AND OLD.state = 'revoked')
       AND NOT EXISTS (SELECT 1 FROM anchor_terms AS t WHERE t.id = NEW.terms_id
                          AND t.kind = 'pairing_grant' AND t.pairing_id = NEW.id
                          AND t.terms ->> '$.subject_key' = lower(hex(NEW.host_key))
                          AND t.taken_at = now_ms() AND t.id > coalesce(OLD.terms_id, 0));
    SELECT RAISE(ABORT, 'anchor.approval|the anchor has not approved this Host')
     WHERE OLD.state = 'pending' AND NEW.state = 'active' AND EXISTS (SELECT 1 FROM anchor)
       AND NEW.terms_id IS OLD.terms_id
       AND NOT EXISTS (SELECT 1 FROM anchor WHERE pairing_id = NEW.id AND host_key = NEW.host_key
                          AND claimed_at >= NEW.since);
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE OLD.state <> 'active' AND NEW.state = 'active'
       AND EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'anchor.approval|a pairing waits again where its approval ran out')
     WHERE OLD.state = 'active' AND NEW.state = 'pending'
       AND (OLD.id IS (SELECT pairing_id FROM anchor)
            OR NOT EXISTS (SELECT 1 FROM anchor_terms
                            WHERE id = OLD.terms_id AND expires_at <= now_ms()));
END;

CREATE TRIGGER pairing_uses_consent_birth AFTER INSERT ON pairing
BEGIN
    UPDATE pairing_consent SET used = 1
     WHERE host_name = NEW.host_name AND host_key = NEW.host_key AND used = 0;
END;

CREATE TRIGGER pairing_uses_consent_return AFTER UPDATE OF state ON pairing
WHEN OLD.state = 'revoked' AND NEW.state <> 'revoked'
BEGIN
    UPDATE pairing_consent SET used = 1
     WHERE host_name = NEW.host_name AND host_key = NEW.host_key AND used = 0;
END;

CREATE TRIGGER pairing_revoked AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = NEW.ended_at, end_reason = 'pairing revoked'
     WHERE pairing_id = NEW.id AND state = 'active';
    UPDATE approval SET state = 'expired', decided_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state = 'pending';
    UPDATE op_run SET state = 'cancelled', finished_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state = 'queued' AND finished_at IS NULL;
END;

CREATE TRIGGER pairing_audit_birth AFTER INSERT ON pairing
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'transport', NEW.transport, 'peer_uid', NEW.peer_uid,
                        'key', lower(hex(NEW.host_key))));
END;

CREATE TRIGGER pairing_audit_move AFTER UPDATE OF state ON pairing WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'from', OLD.state));
END;

CREATE TRIGGER pairing_audit_renewal AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'from', OLD.state, 'renewed', json('true'),
                        'transport', NEW.transport, 'peer_uid', NEW.peer_uid));
END;

CREATE TRIGGER pairing_stays BEFORE DELETE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.kept|a pairing is revoked, not deleted: its history names it');
END;

CREATE TRIGGER pairing_beats AFTER UPDATE OF state ON pairing
WHEN NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.id)
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
    DELETE FROM beat_request WHERE pairing_id IN (SELECT id FROM pairing_status WHERE NOT active);
END;

CREATE TABLE contain_spare (
    id          INTEGER PRIMARY KEY,
    label       TEXT    NOT NULL CHECK (length(label) BETWEEN 1 AND 64 AND instr(label, char(0)) = 0),
    uid         INTEGER NOT NULL CHECK (uid BETWEEN 0 AND 4294967294),
    exe         TEXT    NOT NULL CHECK (exe GLOB '/*' AND length(CAST(exe AS BLOB)) <= 4096
                        AND instr(exe, char(0)) = 0),
    argv_sha256 BLOB    CHECK (length(argv_sha256) = 32),      -- of that very command line; NULL: any
    state       TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    by_uid      INTEGER NOT NULL CHECK (by_uid >= 0),
    listed_at   INTEGER NOT NULL,
    dropped_at  INTEGER,
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL))
) STRICT;

CREATE INDEX contain_spare_live ON contain_spare (id) WHERE state = 'active';

CREATE TRIGGER contain_spare_born BEFORE INSERT ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.label|a label is 1 to 64 characters, none of them a control character')
     WHERE length(NEW.label) NOT BETWEEN 1 AND 64
        OR NEW.label GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'contain.transition|an entry of the list begins as active')
     WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'contain.listed|this process is listed already')
     WHERE EXISTS (SELECT 1 FROM contain_spare WHERE state = 'active' AND uid = NEW.uid
                      AND exe = NEW.exe AND argv_sha256 IS NEW.argv_sha256);
    SELECT RAISE(ABORT, 'contain.full|more entries than the setting contain.spared allows')
     WHERE (SELECT count(*) FROM contain_spare WHERE state = 'active')
        >= (SELECT value FROM setting WHERE name = 'contain.spared');
END;

CREATE TRIGGER contain_spare_moves BEFORE UPDATE ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.transition|an entry of the list that was dropped stays dropped')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'contain_spare' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'contain.fixed|an entry of the list keeps what it names')
     WHERE NEW.id IS NOT OLD.id OR NEW.label IS NOT OLD.label OR NEW.uid IS NOT OLD.uid
        OR NEW.exe IS NOT OLD.exe OR NEW.argv_sha256 IS NOT OLD.argv_sha256
        OR NEW.by_uid IS NOT OLD.by_uid OR NEW.listed_at IS NOT OLD.listed_at;
    -- (A list that says less lets a Host stop more.)
    SELECT RAISE(ABORT, 'contain.factor|a factor has to prove who takes an entry from the list')
     WHERE NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms());
END;

CREATE TRIGGER contain_spare_stays BEFORE DELETE ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|an entry of the list is dropped, not deleted');
END;

CREATE TRIGGER contain_spare_audit_birth AFTER INSERT ON contain_spare
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_spare', NEW.id, NEW.state, '',
            json_object('label', NEW.label, 'uid', NEW.uid, 'exe', NEW.exe,
                        'argv_sha256', lower(hex(NEW.argv_sha256)), 'by', NEW.by_uid));
END;

CREATE TRIGGER contain_spare_audit_move AFTER UPDATE OF state ON contain_spare
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_spare', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

CREATE TABLE contain_account (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    seal      BLOB    NOT NULL CHECK (length(seal) = 64),
    sealed_at INTEGER NOT NULL
) STRICT;

CREATE VIEW contain_account_text AS
SELECT json_array('contain-spared', json(coalesce((SELECT json_group_array(json_array(id, uid, exe,
                  lower(hex(argv_sha256)))) FROM (SELECT * FROM contain_spare WHERE state = 'active'
                  ORDER BY id)), '[]'))) AS text;

CREATE TRIGGER contain_account_fits_birth BEFORE INSERT ON contain_account
WHEN seal_ok('contain', (SELECT text FROM contain_account_text), NEW.seal) IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list');
END;

CREATE TRIGGER contain_account_fits BEFORE UPDATE ON contain_account
WHEN NEW.id IS NOT OLD.id
  OR seal_ok('contain', (SELECT text FROM contain_account_text), NEW.seal) IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list');
END;

CREATE TRIGGER contain_account_stays BEFORE DELETE ON contain_account
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|the seal of the list is replaced, not deleted');
END;

CREATE TABLE contain_right (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    host_key   BLOB    NOT NULL CHECK (length(host_key) = 32),
    agents     INTEGER NOT NULL CHECK (agents IN (0, 1)),
    factor_id  INTEGER NOT NULL REFERENCES factor (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at),
    seal_text  TEXT    GENERATED ALWAYS AS
               (json_array('contain-right', pairing_id, lower(hex(host_key)), agents, factor_id, created_at,
                           expires_at)) VIRTUAL,
    seal       BLOB    NOT NULL CHECK (length(seal) = 64),
    state      TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'expired', 'dropped')),
    by_uid     INTEGER NOT NULL CHECK (by_uid >= 0),
    ended_at   INTEGER,
    end_reason TEXT    CHECK (length(end_reason) <= 128),
    CHECK ((state = 'active') = (ended_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX contain_right_once ON contain_right (pairing_id) WHERE state = 'active';

CREATE TRIGGER contain_right_on_a_persons_word BEFORE INSERT ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
        OR NEW.host_key IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'contain.factor|a factor has to prove who allows this')
     WHERE (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
        OR NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms())
        OR NEW.created_at <> now_ms();
    SELECT RAISE(ABORT, 'contain.ttl|this cannot be allowed for that long')
     WHERE NEW.expires_at - NEW.created_at
         > (SELECT high FROM setting WHERE name = 'contain.ttl_ms');
    SELECT RAISE(ABORT, 'contain.transition|what is allowed begins as active') WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list')
     WHERE seal_ok('contain', NEW.seal_text, NEW.seal) IS NOT 1;
    UPDATE contain_right SET state = 'dropped', ended_at = now_ms(), end_reason = 'allowed anew'
     WHERE pairing_id = NEW.pairing_id AND state = 'active';
END;

CREATE TRIGGER contain_right_moves BEFORE UPDATE ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'contain.transition|what was taken back stays so')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'contain_right' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'contain.fixed|what was allowed never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_key IS NOT OLD.host_key OR NEW.agents IS NOT OLD.agents
        OR NEW.factor_id IS NOT OLD.factor_id OR NEW.created_at IS NOT OLD.created_at
        OR NEW.expires_at IS NOT OLD.expires_at OR NEW.seal IS NOT OLD.seal
        OR NEW.by_uid IS NOT OLD.by_uid;
END;

CREATE TRIGGER contain_right_stays BEFORE DELETE ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|what was allowed is dropped, not deleted');
END;

CREATE TRIGGER contain_right_audit_birth AFTER INSERT ON contain_right
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_right', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('agents', NEW.agents, 'factor', NEW.factor_id, 'expires_at', NEW.expires_at,
                        'by', NEW.by_uid));
END;

CREATE TRIGGER contain_right_audit_move AFTER UPDATE OF state ON contain_right
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_right', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('reason', NEW.end_reason));
END;

CREATE TRIGGER contain_right_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE contain_right SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored'
     WHERE state = 'active';
END;

CREATE VIEW live_contain_rights AS
SELECT r.id, r.pairing_id, p.host_name AS host, r.agents, f.label AS factor, r.created_at, r.expires_at
  FROM contain_right AS r
  JOIN pairing AS p ON p.id = r.pairing_id AND p.state = 'active' AND p.host_key = r.host_key
  JOIN factor AS f ON f.id = r.factor_id AND f.state = 'active'
 WHERE r.state = 'active' AND r.expires_at > now_ms() AND seal_ok('contain', r.seal_text, r.seal) = 1;

CREATE TABLE contain_process (
    directive_id INTEGER NOT NULL REFERENCES directive (id),
    boot_id      TEXT    NOT NULL CHECK (length(boot_id) = 36),
    pid          INTEGER NOT NULL CHECK (pid >= 2),
    start_ticks  INTEGER NOT NULL CHECK (start_ticks >= 0),
    program      TEXT    NOT NULL CHECK (length(program) <= 64),
    uid          INTEGER NOT NULL CHECK (uid >= 0),
    fate         TEXT    NOT NULL CHECK (fate IN ('stopped', 'spared')),
    why          TEXT    NOT NULL DEFAULT '' CHECK (length(why) <= 128),    -- it was spared
    at           INTEGER NOT NULL,
    PRIMARY KEY (directive_id, pid, start_ticks)
) STRICT, WITHOUT ROWID;

CREATE VIEW contain_kills AS
SELECT p.host_name AS host, c.directive_id, c.pid, c.program, c.uid, c.at
  FROM contain_process AS c JOIN directive AS d ON d.id = c.directive_id
  JOIN pairing AS p ON p.id = d.pairing_id
 WHERE c.fate = 'stopped';

CREATE TRIGGER contain_process_is_of_an_order BEFORE INSERT ON contain_process
BEGIN
    SELECT RAISE(ABORT, 'contain.order|processes are stopped by an order that is carried out now')
     WHERE (SELECT state FROM directive WHERE id = NEW.directive_id) IS NOT 'running';
END;

CREATE TRIGGER contain_process_no_update BEFORE UPDATE ON contain_process
BEGIN
    SELECT RAISE(ABORT, 'contain.order|what was stopped is history');
END;

CREATE TRIGGER contain_process_no_delete BEFORE DELETE ON contain_process
BEGIN
    SELECT RAISE(ABORT, 'contain.order|what was stopped is history');
END;

CREATE TRIGGER context_ask_born BEFORE INSERT ON context_ask
BEGIN
    -- A question that ran out does not stand in the way of the next, nor does it count.
    UPDATE context_ask SET state = 'expired', ended_at = now_ms()
     WHERE state = 'pending' AND expires_at <= now_ms();
    SELECT CASE
           WHEN NEW.state <> 'pending'
           THEN RAISE(ABORT, 'context.transition|an ask begins as pending')
           WHEN NEW.pairing_id IS NULL
           THEN RAISE(ABORT, 'context.host|which Host is to have it is not clear: none is served by that name, or several are')
           WHEN (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
           THEN RAISE(ABORT, 'pairing.invalid|this pairing is not served')
           WHEN NEW.box_name IS NOT (SELECT name FROM box)
             OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
             OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms))
           THEN RAISE(ABORT, 'context.terms|the terms name another machine, Host or text')
           WHEN NEW.root IS NULL OR NEW.root NOT GLOB '/?*' OR NEW.root GLOB '*/'
             OR length(CAST(NEW.root AS BLOB)) > 4095
             OR instr(NEW.root, '//') > 0 OR instr(NEW.root || '/', '/./') > 0
             OR instr(NEW.root || '/', '/../') > 0
             OR instr(NEW.root, char(0)) > 0
             OR NEW.root GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
           THEN RAISE(ABORT, 'context.path|a folder is named by its absolute path, without links, dots and control characters')
           WHEN NEW.root || '/' GLOB '/proc/*' OR NEW.root || '/' GLOB '/sys/*' OR NEW.root || '/' GLOB '/dev/*'
           THEN RAISE(ABORT, 'context.path|what is in /proc, /sys and /dev is no folder of a user')
           WHEN length(NEW.name) NOT BETWEEN 1 AND 64 OR instr(NEW.name, char(0)) > 0
             OR NEW.name GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
           THEN RAISE(ABORT, 'context.name|a name has 1 to 64 characters and none that controls')
           WHEN EXISTS (SELECT 1 FROM context_ask WHERE uid = NEW.uid AND pairing_id = NEW.pairing_id
                           AND root = NEW.root AND state IN ('pending', 'allowed'))
           THEN RAISE(ABORT, 'context.exists|this was asked already, and waits for a person or was allowed')
           WHEN (SELECT count(*) FROM context_ask WHERE uid = NEW.uid AND state = 'pending')
             >= (SELECT value FROM setting WHERE name = 'context.pending_uid')
           THEN RAISE(ABORT, 'context.yours|busy: too many asks of this user wait for a person')
           WHEN (SELECT count(*) FROM context_ask WHERE state = 'pending')
             >= (SELECT value FROM setting WHERE name = 'context.pending')
           THEN RAISE(ABORT, 'context.busy|busy: too many asks of this machine wait for a person')
           WHEN (SELECT count(*) FROM context_ask WHERE uid = NEW.uid AND asked_at
                  > now_ms() - (SELECT value FROM setting WHERE name = 'context.window_ms'))
             >= (SELECT value FROM setting WHERE name = 'context.asks')
           THEN RAISE(ABORT, 'context.rate|this user asked too often lately')
           END;
END;

CREATE TRIGGER context_ask_moves BEFORE UPDATE ON context_ask
BEGIN
    SELECT RAISE(ABORT, 'context.decided|this ask is decided already')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'context_ask' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'context.decided|this ask is decided already')
     WHERE NEW.state IS OLD.state AND OLD.digest IS NOT NULL;
    SELECT RAISE(ABORT, 'context.terms|the terms of an ask never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.uid IS NOT OLD.uid
        OR NEW.box_name IS NOT OLD.box_name OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_name IS NOT OLD.host_name OR NEW.root IS NOT OLD.root OR NEW.name IS NOT OLD.name
        OR NEW.digest IS NOT coalesce(OLD.digest, sha256(OLD.terms))
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'context.terms|a decision never changes')
     WHERE (OLD.state <> 'pending' OR NEW.state NOT IN ('allowed', 'denied'))
       AND (NEW.factor_id IS NOT OLD.factor_id OR NEW.decided_digest IS NOT OLD.decided_digest
            OR NEW.decided_by_uid IS NOT OLD.decided_by_uid OR NEW.decided_by IS NOT OLD.decided_by
            OR NEW.decided_at IS NOT OLD.decided_at OR NEW.folder_dev IS NOT OLD.folder_dev
            OR NEW.folder_ino IS NOT OLD.folder_ino OR NEW.folder_uid IS NOT OLD.folder_uid
            OR NEW.seal IS NOT OLD.seal);
    SELECT RAISE(ABORT, 'context.expired|this ask ran out before it was answered')
     WHERE NEW.state IN ('allowed', 'denied') AND OLD.expires_at <= now_ms();
    SELECT CASE
           WHEN (SELECT active FROM pairing_status WHERE id = OLD.pairing_id) IS NOT 1
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
           THEN RAISE(ABORT, 'approval.factor|the approving factor is not active')
           WHEN sha256(OLD.terms) IS NOT NEW.decided_digest
           THEN RAISE(ABORT, 'context.terms|what was allowed is not what was asked')
           WHEN NEW.folder_uid IS NOT OLD.uid
           THEN RAISE(ABORT, 'context.owner|the folder is not one of the user who asks')
           WHEN seal_ok('folder', json_array('folder', OLD.id, OLD.pairing_id, OLD.uid, OLD.root,
                    OLD.name, NEW.folder_dev, NEW.folder_ino, NEW.factor_id, NEW.decided_at), NEW.seal)
                IS NOT 1
           THEN RAISE(ABORT, 'context.seal|the seal of this answer is not of this machine')
           END
     WHERE NEW.state = 'allowed';
END;

CREATE TRIGGER context_ask_audit_birth AFTER INSERT ON context_ask
BEGIN
    UPDATE context_ask SET digest = sha256(terms) WHERE id = NEW.id AND digest IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'context_ask', NEW.id, NEW.state, NEW.host_name,
            json_object('uid', NEW.uid, 'root', NEW.root, 'name', NEW.name,
                        'digest', (SELECT lower(hex(digest)) FROM context_ask WHERE id = NEW.id)));
END;

CREATE TRIGGER context_ask_audit_move AFTER UPDATE OF state ON context_ask
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'context_ask', NEW.id, NEW.state, NEW.host_name,
            json_object('uid', NEW.uid, 'root', NEW.root, 'factor', NEW.factor_id,
                        'by', NEW.decided_by));
END;

CREATE TRIGGER context_ask_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE context_ask SET state = iif(state = 'pending', 'expired', 'dropped'), ended_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state IN ('pending', 'allowed');
END;

CREATE VIEW shared_folders AS
SELECT c.id, c.host_name AS host, c.uid, c.root, c.name, c.folder_dev, c.folder_ino, c.decided_by,
       f.label AS factor, c.decided_at
  FROM context_ask AS c JOIN pairing_status AS p ON p.id = c.pairing_id
  JOIN factor AS f ON f.id = c.factor_id
 WHERE c.state = 'allowed' AND p.active;

CREATE TABLE address_class (
    prio   INTEGER PRIMARY KEY CHECK (prio >= 1),
    prefix TEXT    NOT NULL UNIQUE,                            -- for people; first and last are what it says
    first  BLOB    NOT NULL CHECK (length(first) = 16),
    last   BLOB    NOT NULL CHECK (length(last) = 16 AND last >= first),
    class  TEXT    CHECK (class IN ('public', 'this_machine', 'link', 'network', 'unreadable', 'obsolete')),
    embed  INTEGER CHECK (embed IN (2, 12)),
    why    TEXT    NOT NULL,
    CHECK ((class IS NULL) = (embed IS NOT NULL))
) STRICT;

CREATE TABLE own_address (
    first  BLOB NOT NULL CHECK (length(first) = 16),
    last   BLOB NOT NULL CHECK (length(last) = 16 AND last >= first),
    source TEXT NOT NULL CHECK (source IN ('nic', 'local_route', 'container', 'bridge')),
    ifname TEXT NOT NULL,
    PRIMARY KEY (first, last, source, ifname)
) STRICT, WITHOUT ROWID;

CREATE TABLE egress_rule (
    id          INTEGER PRIMARY KEY,
    verdict     TEXT    NOT NULL CHECK (verdict IN ('allow', 'deny')),
    uid         INTEGER CHECK (uid >= 0),
    pairing_id  INTEGER REFERENCES pairing (id),
    suffix      TEXT    NOT NULL CHECK (length(suffix) BETWEEN 1 AND 253),   -- a name and all below it, an address, or *
    port        INTEGER NOT NULL DEFAULT 0 CHECK (port BETWEEN 0 AND 65535), -- 0: any
    state       TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    made_at     INTEGER NOT NULL,
    made_by_uid INTEGER NOT NULL CHECK (made_by_uid >= 0),
    dropped_at  INTEGER,
    run_id      INTEGER REFERENCES sandbox_run (id),
    CHECK ((uid IS NOT NULL) + (pairing_id IS NOT NULL) + (run_id IS NOT NULL) <= 1),
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX egress_rule_once
    ON egress_rule (suffix, port, verdict, coalesce(uid, -1), coalesce(pairing_id, -1), coalesce(run_id, -1))
    WHERE state = 'active';

CREATE TRIGGER egress_rule_born BEFORE INSERT ON egress_rule
BEGIN
    SELECT CASE
           WHEN NEW.state <> 'active'
           THEN RAISE(ABORT, 'egress.transition|a rule begins as active')
           WHEN NEW.suffix <> '*' AND host_text(NEW.suffix) IS NOT NEW.suffix
           THEN RAISE(ABORT, 'egress.suffix|a rule is for a name in lower case, an address, or * for all that is public')
           WHEN host_tail(NEW.suffix, 8) IS NOT NULL
           THEN RAISE(ABORT, 'egress.suffix|the name of a rule has eight labels at most')
           WHEN EXISTS (SELECT 1 FROM egress_rule WHERE state = 'active' AND verdict = NEW.verdict
                           AND suffix = NEW.suffix AND port = NEW.port AND uid IS NEW.uid
                           AND pairing_id IS NEW.pairing_id AND run_id IS NEW.run_id)
           THEN RAISE(ABORT, 'egress.exists|there is such a rule already')
           WHEN NEW.pairing_id IS NOT NULL
            AND (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN NEW.run_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sandbox_run WHERE id = NEW.run_id AND ended_at IS NULL)
           THEN RAISE(ABORT, 'run.over|this run is over')
           WHEN (SELECT count(*) FROM egress_rule WHERE state = 'active')
             >= (SELECT value FROM setting WHERE name = 'egress.rules')
           THEN RAISE(ABORT, 'egress.many|there are as many rules as the setting egress.rules allows')
           END;
END;

CREATE TRIGGER egress_rule_moves BEFORE UPDATE ON egress_rule
BEGIN
    SELECT RAISE(ABORT, 'egress.transition|a rule that was dropped stays dropped')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'egress_rule' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'egress.fixed|a rule never changes: forget it and make another')
     WHERE NEW.id IS NOT OLD.id OR NEW.verdict IS NOT OLD.verdict OR NEW.uid IS NOT OLD.uid
        OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.suffix IS NOT OLD.suffix
        OR NEW.port IS NOT OLD.port OR NEW.made_at IS NOT OLD.made_at
        OR NEW.made_by_uid IS NOT OLD.made_by_uid OR NEW.run_id IS NOT OLD.run_id;
END;

CREATE TRIGGER egress_rule_stays BEFORE DELETE ON egress_rule
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a rule is dropped, not deleted');
END;

CREATE TRIGGER egress_rule_audit_birth AFTER INSERT ON egress_rule
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_rule', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('verdict', NEW.verdict, 'uid', NEW.uid, 'suffix', NEW.suffix, 'port', NEW.port));
END;

CREATE TRIGGER egress_rule_audit_move AFTER UPDATE OF state ON egress_rule WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_rule', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('verdict', NEW.verdict, 'uid', NEW.uid, 'suffix', NEW.suffix, 'port', NEW.port));
END;

CREATE TRIGGER egress_rule_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()
     WHERE pairing_id = NEW.id AND state = 'active';
END;

CREATE TRIGGER egress_rule_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()
     WHERE verdict = 'allow' AND state = 'active';
    UPDATE egress_flow SET state = 'lost', ended_at = now_ms() WHERE ended_at IS NULL;
END;

CREATE TABLE egress_preset (
    name   TEXT    NOT NULL CHECK (name GLOB '[a-z]*' AND length(name) <= 32),
    suffix TEXT    NOT NULL CHECK (length(suffix) BETWEEN 1 AND 253),
    port   INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    doc    TEXT    NOT NULL,
    PRIMARY KEY (name, suffix, port)
) STRICT, WITHOUT ROWID;

CREATE TABLE egress_flow (
    id         INTEGER PRIMARY KEY,
    uid        INTEGER CHECK (uid >= 0),                       -- who asks, on the kernel's word
    pairing_id INTEGER REFERENCES pairing (id),                -- or which Host
    surface    TEXT    NOT NULL CHECK (surface IN ('http', 'connect') OR surface IN ('socks5', 'caught')),
    host       TEXT    NOT NULL CHECK (length(host) <= 253),   -- as host_text() spells it; '' could not be read
    port       INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    method     TEXT    CHECK (length(method) <= 32),           -- of a plain request
    state      TEXT    NOT NULL DEFAULT 'asked'
               CHECK (state IN ('asked', 'open') OR state IN ('done', 'failed') OR state IN ('refused', 'lost')),
    addresses  TEXT    CHECK (addresses IS NULL OR json_valid(addresses)), -- all of them, vetted, in the order of dialling
    dialled    TEXT,                                           -- the one that answered
    asked_at   INTEGER NOT NULL,
    opened_at  INTEGER,
    ended_at   INTEGER,
    up         INTEGER NOT NULL DEFAULT 0 CHECK (up >= 0),     -- bytes, from whoever asked
    down       INTEGER NOT NULL DEFAULT 0 CHECK (down >= 0),
    code       TEXT,
    why        TEXT    CHECK (length(why) <= 512),
    run_id     INTEGER REFERENCES sandbox_run (id),            -- the run that it comes out of
    CHECK ((uid IS NULL) <> (pairing_id IS NULL)),
    CHECK ((state IN ('asked', 'open')) = (ended_at IS NULL)),
    CHECK ((state IN ('refused', 'failed')) = (code IS NOT NULL)),
    CHECK (state NOT IN ('open', 'done') OR (addresses IS NOT NULL AND opened_at IS NOT NULL))
) STRICT;

CREATE INDEX egress_flow_live ON egress_flow (id, uid, pairing_id) WHERE ended_at IS NULL;

CREATE INDEX egress_flow_refused ON egress_flow (ended_at) WHERE state = 'refused';

CREATE VIEW egress_ruling AS
SELECT f.id,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied' WHEN count(*) = 0 THEN 'unknown' END
          FROM egress_rule AS r
         WHERE r.state = 'active'
           AND r.suffix IN (f.host, '*', host_tail(f.host, 1), host_tail(f.host, 2), host_tail(f.host, 3),
                            host_tail(f.host, 4), host_tail(f.host, 5), host_tail(f.host, 6),
                            host_tail(f.host, 7), host_tail(f.host, 8))
           AND r.port IN (0, f.port)
           AND (r.run_id IS NULL OR r.run_id = f.run_id)
           AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
                OR (r.uid IS NULL AND r.pairing_id IS NULL
                    AND (f.pairing_id IS NULL OR r.verdict = 'deny')))) AS held
  FROM egress_flow AS f;

CREATE TABLE egress_counted (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    live INTEGER NOT NULL CHECK (live >= 0),
    last INTEGER NOT NULL CHECK (last >= 0)
) STRICT;

CREATE TRIGGER egress_flow_born BEFORE INSERT ON egress_flow
BEGIN
    UPDATE egress_counted
       SET live = (SELECT count(*) FROM egress_flow WHERE ended_at IS NULL),
           last = (SELECT coalesce(max(id), 0) FROM egress_flow)
     WHERE NEW.state <> 'refused'
       AND live + (SELECT coalesce(max(id), 0) FROM egress_flow) - last
        >= min((SELECT value FROM setting WHERE name = 'egress.live'),
               (SELECT value FROM setting WHERE name = 'egress.live_each'));
    SELECT CASE
           WHEN NEW.state NOT IN ('asked', 'open') AND NEW.state <> 'refused'
           THEN RAISE(ABORT, 'egress.transition|a connection begins as asked, open or refused')
           -- Who is refused without end fills no database.
           WHEN NEW.state = 'refused'
            AND (SELECT count(*) FROM egress_flow WHERE state = 'refused' AND ended_at > now_ms() - 60000)
             >= (SELECT value FROM setting WHERE name = 'egress.refused')
           THEN RAISE(ABORT, 'egress.flood|as many refused connections as are kept were refused in this minute')
           WHEN NEW.state = 'refused'
           THEN NULL
           WHEN NEW.run_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sandbox_run WHERE id = NEW.run_id AND ended_at IS NULL)
           THEN RAISE(ABORT, 'run.over|this run is over')
           WHEN NEW.host = ''
           THEN RAISE(ABORT, 'egress.host|there is no name or address to reach')
           WHEN (SELECT live + (SELECT coalesce(max(id), 0) FROM egress_flow) - last FROM egress_counted)
             >= (SELECT value FROM setting WHERE name = 'egress.live')
           THEN RAISE(ABORT, 'egress.busy|too many connections are open')
           WHEN (SELECT live + (SELECT coalesce(max(id), 0) FROM egress_flow) - last FROM egress_counted)
             >= (SELECT value FROM setting WHERE name = 'egress.live_each')
            AND (SELECT count(*) FROM egress_flow
                  WHERE ended_at IS NULL AND uid IS NEW.uid AND pairing_id IS NEW.pairing_id)
             >= (SELECT value FROM setting WHERE name = 'egress.live_each')
           THEN RAISE(ABORT, 'egress.busy|too many connections are open')
           END;
END;

CREATE VIEW egress_flow_of_host AS SELECT pairing_id FROM egress_flow;

CREATE TRIGGER egress_flow_born_of_host BEFORE INSERT ON egress_flow
WHEN NEW.pairing_id IS NOT NULL AND NEW.state <> 'refused'
BEGIN
    INSERT INTO egress_flow_of_host (pairing_id) VALUES (NEW.pairing_id);
END;

CREATE TRIGGER egress_flow_host_may INSTEAD OF INSERT ON egress_flow_of_host
BEGIN
    SELECT CASE
           WHEN (SELECT active FROM pairing_status WHERE id = NEW.pairing_id) IS NOT 1
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN NOT EXISTS (SELECT 1 FROM pairing_status AS p, json_each(p.caps) AS c
                             WHERE p.id = NEW.pairing_id AND c.value = 'egress')
           THEN RAISE(ABORT, 'egress.capability|this Host has no capability egress here')
           END;
END;

CREATE TABLE egress_way (
    id         INTEGER PRIMARY KEY,
    host       TEXT    NOT NULL,
    port       INTEGER NOT NULL,
    uid        INTEGER NOT NULL,
    pairing_id INTEGER NOT NULL,
    run_id     INTEGER NOT NULL,
    addresses  TEXT    NOT NULL,
    UNIQUE (host, port, uid, pairing_id, run_id, addresses)
) STRICT;

CREATE TRIGGER egress_way_rule_new AFTER INSERT ON egress_rule BEGIN DELETE FROM egress_way; END;

CREATE TRIGGER egress_way_rule_gone AFTER UPDATE ON egress_rule BEGIN DELETE FROM egress_way; END;

CREATE TRIGGER egress_way_own_new AFTER INSERT ON own_address BEGIN DELETE FROM egress_way; END;

CREATE TRIGGER egress_way_own_other AFTER UPDATE ON own_address BEGIN DELETE FROM egress_way; END;

CREATE TRIGGER egress_way_own_gone AFTER DELETE ON own_address BEGIN DELETE FROM egress_way; END;

CREATE TRIGGER egress_way_class_new AFTER INSERT ON address_class BEGIN DELETE FROM egress_way; END;

CREATE TRIGGER egress_way_class_other AFTER UPDATE ON address_class BEGIN DELETE FROM egress_way; END;

CREATE TRIGGER egress_way_class_gone AFTER DELETE ON address_class BEGIN DELETE FROM egress_way; END;

CREATE TRIGGER egress_way_bound AFTER UPDATE OF value ON setting
WHEN NEW.name IN ('egress.addresses', 'egress.ways')
BEGIN
    DELETE FROM egress_way;
END;

CREATE TRIGGER egress_flow_ruled AFTER INSERT ON egress_flow
WHEN NEW.state = 'asked'
 AND NOT EXISTS (SELECT 1 FROM egress_way WHERE host = NEW.host AND port = NEW.port
                    AND uid = coalesce(NEW.uid, -1) AND pairing_id = coalesce(NEW.pairing_id, -1)
                    AND run_id = coalesce(NEW.run_id, -1))
BEGIN
    SELECT CASE held
           WHEN 'denied' THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN 'unknown' THEN RAISE(ABORT, 'egress.unknown|no rule allows this')
           END
      FROM egress_ruling WHERE id = NEW.id;
END;

CREATE TRIGGER egress_flow_moves BEFORE UPDATE ON egress_flow
BEGIN
    SELECT RAISE(ABORT, 'egress.transition|this connection is over')
     WHERE CASE WHEN NEW.state IS OLD.state THEN OLD.state <> 'open' ELSE NOT EXISTS (
           SELECT 1 FROM state_rule
            WHERE entity = 'egress_flow' AND from_state = OLD.state AND to_state = NEW.state) END;
    SELECT RAISE(ABORT, 'egress.fixed|who asked for what never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.uid IS NOT OLD.uid OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.surface IS NOT OLD.surface OR NEW.host IS NOT OLD.host OR NEW.port IS NOT OLD.port
        OR NEW.method IS NOT OLD.method OR NEW.asked_at IS NOT OLD.asked_at OR NEW.run_id IS NOT OLD.run_id
        OR NEW.up < OLD.up OR NEW.down < OLD.down
        OR ((NEW.state <> 'open' OR OLD.state = 'open')
            AND (NEW.addresses IS NOT OLD.addresses OR NEW.opened_at IS NOT OLD.opened_at));
END;

CREATE VIEW egress_vetting AS
SELECT f.id,
       (SELECT CASE
               WHEN NOT EXISTS (SELECT 1 FROM own_address) THEN 'own_unknown'
               WHEN count(*) NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'egress.addresses')
               THEN 'resolve'
               WHEN sum(a.ip IS NULL) THEN 'address'
               WHEN sum(EXISTS (SELECT 1 FROM own_address WHERE a.ip BETWEEN first AND last)) THEN 'own'
               WHEN sum((SELECT CASE WHEN c.embed IS NULL THEN c.class ELSE
                               (SELECT e.class FROM address_class AS e
                                 WHERE CAST(x'00000000000000000000ffff' || substr(a.ip, c.embed + 1, 4) AS BLOB)
                                       BETWEEN e.first AND e.last ORDER BY e.prio LIMIT 1) END
                           FROM address_class AS c
                          WHERE a.ip BETWEEN c.first AND c.last ORDER BY c.prio LIMIT 1) IS NOT 'public')
               THEN 'internal' END
          FROM (SELECT address_bytes(value) AS ip FROM json_each(f.addresses)) AS a) AS held
  FROM egress_flow AS f;

CREATE TRIGGER egress_flow_born_open AFTER INSERT ON egress_flow WHEN NEW.state = 'open'
BEGIN
    INSERT INTO egress_flow_opened (id, uid, pairing_id, run_id, surface, host, port, addresses)
    VALUES (NEW.id, NEW.uid, NEW.pairing_id, NEW.run_id, NEW.surface, NEW.host, NEW.port, NEW.addresses);
END;

CREATE TRIGGER egress_flow_moved_open AFTER UPDATE OF state ON egress_flow WHEN NEW.state = 'open'
BEGIN
    INSERT INTO egress_flow_opened (id, uid, pairing_id, run_id, surface, host, port, addresses)
    VALUES (NEW.id, NEW.uid, NEW.pairing_id, NEW.run_id, NEW.surface, NEW.host, NEW.port, NEW.addresses);
END;

CREATE VIEW egress_flow_opened AS
SELECT id, uid, pairing_id, run_id, surface, host, port, addresses FROM egress_flow WHERE state = 'open';

CREATE VIEW egress_flow_unjudged AS
SELECT id, uid, pairing_id, run_id, host, port, addresses FROM egress_flow_opened;

CREATE TRIGGER egress_flow_judged INSTEAD OF INSERT ON egress_flow_opened
WHEN NOT EXISTS (SELECT 1 FROM egress_way WHERE host = NEW.host AND port = NEW.port
                    AND uid = coalesce(NEW.uid, -1) AND pairing_id = coalesce(NEW.pairing_id, -1)
                    AND run_id = coalesce(NEW.run_id, -1) AND addresses = NEW.addresses)
BEGIN
    INSERT INTO egress_flow_unjudged (id, uid, pairing_id, run_id, host, port, addresses)
    VALUES (NEW.id, NEW.uid, NEW.pairing_id, NEW.run_id, NEW.host, NEW.port, NEW.addresses);
END;

CREATE TRIGGER egress_flow_vetted INSTEAD OF INSERT ON egress_flow_unjudged
BEGIN
    SELECT CASE held
           WHEN 'denied' THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN 'unknown' THEN RAISE(ABORT, 'egress.unknown|no rule allows this')
           END
      FROM egress_ruling WHERE id = NEW.id;
    SELECT CASE held
           WHEN 'own_unknown'
           THEN RAISE(ABORT, 'egress.own_unknown|cannot tell whether that is itself: the kernel does not say what this machine''s addresses are')
           WHEN 'resolve'
           THEN RAISE(ABORT, 'egress.resolve|could not resolve that name to a sensible number of addresses')
           WHEN 'address'
           THEN RAISE(ABORT, 'egress.address|an address of that name is none')
           WHEN 'own'
           THEN RAISE(ABORT, 'egress.own|that is this machine')
           WHEN 'internal'
           THEN RAISE(ABORT, 'egress.internal|that is no public address')
           END
      FROM egress_vetting WHERE id = NEW.id;
    INSERT INTO egress_way (host, port, uid, pairing_id, run_id, addresses)
    VALUES (NEW.host, NEW.port, coalesce(NEW.uid, -1), coalesce(NEW.pairing_id, -1),
            coalesce(NEW.run_id, -1), NEW.addresses);
    DELETE FROM egress_way
     WHERE id <= (SELECT max(id) FROM egress_way) - (SELECT value FROM setting WHERE name = 'egress.ways');
END;

CREATE TRIGGER egress_flow_audit_open INSTEAD OF INSERT ON egress_flow_opened
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_flow', NEW.id, 'open',
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('uid', NEW.uid, 'run', NEW.run_id, 'surface', NEW.surface, 'host', NEW.host,
                        'port', NEW.port, 'addresses', json(NEW.addresses)));
END;

CREATE TRIGGER egress_flow_stays BEFORE DELETE ON egress_flow
WHEN OLD.ended_at IS NULL
  OR OLD.ended_at >= now_ms() - 86400000 * (SELECT value FROM setting WHERE name = 'egress.keep_days')
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a connection stays in the list until its time is over');
END;

CREATE TRIGGER egress_flow_audit_birth AFTER INSERT ON egress_flow WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_flow', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('uid', NEW.uid, 'surface', NEW.surface, 'host', NEW.host, 'port', NEW.port,
                        'code', NEW.code));
END;

CREATE TRIGGER egress_flow_audit_end AFTER UPDATE OF state ON egress_flow
WHEN (NEW.state IN ('failed', 'refused') OR NEW.state = 'lost') AND NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_flow', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('uid', NEW.uid, 'surface', NEW.surface, 'host', NEW.host, 'port', NEW.port,
                        'dialled', NEW.dialled, 'up', NEW.up, 'down', NEW.down, 'code', NEW.code));
END;

CREATE VIEW egress_may AS
SELECT r.id, r.verdict,
       CASE WHEN r.pairing_id IS NOT NULL THEN 'host ' || p.host_name
            WHEN r.run_id IS NOT NULL THEN 'run ' || r.run_id
            WHEN r.uid IS NOT NULL THEN 'uid ' || r.uid ELSE 'every user' END AS who,
       r.suffix AS what, iif(r.port = 0, NULL, r.port) AS port, r.made_at, r.made_by_uid
  FROM egress_rule AS r LEFT JOIN pairing AS p ON p.id = r.pairing_id
 WHERE r.state = 'active';

CREATE VIEW egress_log AS
SELECT f.id, f.asked_at, coalesce('host ' || p.host_name, 'run ' || f.run_id, 'uid ' || f.uid) AS who, f.surface,
       f.host || ':' || f.port AS what, f.state, f.dialled, f.up, f.down,
       coalesce(f.ended_at, now_ms()) - f.asked_at AS took_ms, f.code, f.why
  FROM egress_flow AS f LEFT JOIN pairing AS p ON p.id = f.pairing_id;

CREATE VIEW live_flows AS
SELECT l.id, l.asked_at, l.who, l.surface, l.what, l.state, l.up, l.down, l.took_ms
  FROM egress_log AS l WHERE l.id IN (SELECT id FROM egress_flow WHERE ended_at IS NULL);

CREATE TRIGGER factor_dropped AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state = 'active'
BEGIN
    UPDATE factor SET secret = NULL WHERE id = NEW.id AND secret IS NOT NULL;
    UPDATE grant SET state = 'dropped', ended_at = NEW.dropped_at, end_reason = 'approver dropped'
     WHERE factor_id = NEW.id AND state = 'active';
END;

CREATE TRIGGER factor_audit_birth AFTER INSERT ON factor
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', NEW.id, NEW.state, '',
            json_object('kind', NEW.kind, 'label', NEW.label, 'fingerprint', NEW.fingerprint));
END;

CREATE TRIGGER factor_audit_move AFTER UPDATE OF state ON factor WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

CREATE TRIGGER factor_try_audit AFTER INSERT ON factor_try WHEN NEW.outcome = 'wrong'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', '', 'wrong', '', json_object('kind', NEW.kind));
END;

CREATE INDEX grant_bounded ON grant (pairing_id, op) WHERE state = 'active' AND bounds IS NOT NULL;

CREATE TRIGGER grant_on_a_persons_word BEFORE INSERT ON grant
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'grant.approval|a grant repeats an approval that was given and not used')
     WHERE NOT EXISTS (SELECT 1 FROM approval AS a
           WHERE a.id = NEW.approval_id AND a.state = 'approved' AND a.kind = NEW.kind
             AND a.pairing_id = NEW.pairing_id AND a.op = NEW.op AND a.args = NEW.args
             AND a.bounds IS NEW.bounds AND a.uses = NEW.uses AND a.factor_id = NEW.factor_id
             AND a.decided_at = NEW.created_at AND NEW.expires_at = a.decided_at + a.ttl_ms);
    SELECT RAISE(ABORT, 'grant.seal|the seal of this grant is not of this machine')
     WHERE seal_ok('grant', NEW.seal_text, NEW.seal) IS NOT 1;
    SELECT RAISE(ABORT, 'grant.transition|a grant begins as active') WHERE NEW.state <> 'active';
END;

CREATE TRIGGER grant_burns_its_approval AFTER INSERT ON grant
BEGIN
    UPDATE approval SET state = 'burned' WHERE id = NEW.approval_id;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'grant', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_patch(json_object('op', NEW.op, 'args', json(NEW.args), 'uses', NEW.uses,
                                   'expires_at', NEW.expires_at, 'approval', NEW.approval_id,
                                   'factor', NEW.factor_id),
                       json_object('bounds', json(NEW.bounds))));
END;

CREATE TRIGGER grant_moves BEFORE UPDATE ON grant
BEGIN
    SELECT RAISE(ABORT, 'grant.final|an ended grant stays ended')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'grant' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'grant.fixed|the terms of a grant never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.kind IS NOT OLD.kind
        OR NEW.op IS NOT OLD.op OR NEW.args IS NOT OLD.args OR NEW.uses IS NOT OLD.uses
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at
        OR NEW.factor_id IS NOT OLD.factor_id OR NEW.approval_id IS NOT OLD.approval_id
        OR NEW.bounds IS NOT OLD.bounds OR NEW.seal IS NOT OLD.seal;
END;

CREATE TRIGGER grant_stays BEFORE DELETE ON grant
BEGIN
    SELECT RAISE(ABORT, 'grant.kept|a grant is dropped, not deleted');
END;

CREATE TRIGGER grant_audit_move AFTER UPDATE OF state ON grant WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'grant', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'reason', NEW.end_reason));
END;

CREATE TRIGGER grant_use_within_uses BEFORE INSERT ON grant_use
BEGIN
    SELECT RAISE(ABORT, 'grant.spent|every use of this grant is spent')
     WHERE NEW.n > (SELECT uses FROM grant WHERE id = NEW.grant_id);
    SELECT RAISE(ABORT, 'grant.uses|uses are numbered without a gap')
     WHERE NEW.n IS NOT (SELECT coalesce(max(n), 0) + 1 FROM grant_use WHERE grant_id = NEW.grant_id);
    SELECT RAISE(ABORT, 'grant.uses|a use is of a run that this grant authorised')
     WHERE NEW.grant_id IS NOT (SELECT grant_id FROM op_run WHERE id = NEW.op_run_id);
END;

CREATE TRIGGER grant_use_spends AFTER INSERT ON grant_use
WHEN NEW.n >= (SELECT uses FROM grant WHERE id = NEW.grant_id)
BEGIN
    UPDATE grant SET state = 'spent', ended_at = NEW.at, end_reason = 'last use'
     WHERE id = NEW.grant_id AND state = 'active';
END;

CREATE TRIGGER grant_use_no_update BEFORE UPDATE ON grant_use
BEGIN
    SELECT RAISE(ABORT, 'grant.uses|a use is history');
END;

CREATE TRIGGER grant_use_no_delete BEFORE DELETE ON grant_use
BEGIN
    SELECT RAISE(ABORT, 'grant.uses|a use is history');
END;

CREATE VIEW live_grants AS
SELECT g.id, p.host_name AS host, g.op, g.args, g.uses,
       (SELECT coalesce(max(u.n), 0) FROM grant_use AS u WHERE u.grant_id = g.id) AS used,
       g.created_at, g.expires_at, f.label AS approver, g.approval_id, g.kind, g.bounds,
       (SELECT at FROM grant_next WHERE id = g.id) AS next_at
  FROM grant AS g
  JOIN pairing AS p ON p.id = g.pairing_id AND p.state = 'active'
  JOIN factor AS f ON f.id = g.factor_id AND f.state = 'active'
 WHERE g.state = 'active' AND g.expires_at > now_ms();

CREATE TRIGGER invitation_born BEFORE INSERT ON invitation
BEGIN
    SELECT RAISE(ABORT, 'box.name|the name of a machine is letters, digits, dots and dashes, at most 64')
     WHERE length(NEW.box_name) NOT BETWEEN 1 AND 64 OR NEW.box_name GLOB '*[^A-Za-z0-9.-]*'
        OR NEW.box_name GLOB '-*';
    SELECT RAISE(ABORT, 'invitation.open|an invitation for this name is open already')
     WHERE EXISTS (SELECT 1 FROM invitation WHERE box_name = NEW.box_name AND state = 'open'
                      AND expires_at > now_ms());
    SELECT RAISE(ABORT, 'invitation.ttl|a pairing code cannot be open for that long')
     WHERE NEW.expires_at - NEW.created_at
         > (SELECT high FROM setting WHERE name = 'invitation.ttl_ms');
    SELECT RAISE(ABORT, 'invitation.transition|an invitation begins as open')
     WHERE NEW.state <> 'open';
    UPDATE invitation SET state = 'expired', ended_at = now_ms()
     WHERE box_name = NEW.box_name AND state = 'open' AND expires_at <= now_ms();
END;

CREATE TRIGGER invitation_audit_birth AFTER INSERT ON invitation
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'invitation', NEW.id, NEW.state, '',
            json_object('box', NEW.box_name, 'expires_at', NEW.expires_at));
END;

CREATE TRIGGER invitation_audit_move AFTER UPDATE OF state ON invitation WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'invitation', NEW.id, NEW.state, '', json_object('box', NEW.box_name));
END;

CREATE TRIGGER host_box_born BEFORE INSERT ON host_box
BEGIN
    SELECT RAISE(ABORT, 'box.uninvited|a box comes in on an invitation of its own that it has redeemed')
     WHERE (SELECT state FROM invitation WHERE id = NEW.invitation_id) IS NOT 'redeemed'
        OR EXISTS (SELECT 1 FROM host_box WHERE invitation_id = NEW.invitation_id);
    SELECT RAISE(ABORT, 'invitation.name|the invitation is for a machine of another name')
     WHERE (SELECT box_name FROM invitation WHERE id = NEW.invitation_id) IS NOT NEW.name;
    SELECT RAISE(ABORT, 'box.lane|a lane is the absolute path of a socket, at most 103 bytes long')
     WHERE NEW.lane NOT GLOB '/*' OR length(CAST(NEW.lane AS BLOB)) > 103
        OR instr(NEW.lane, char(0)) > 0;
    SELECT RAISE(ABORT, 'endpoint.invalid|the box listens at no host:port')
     WHERE NEW.endpoint IS NOT NULL
       AND (endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint));
    SELECT RAISE(ABORT, 'box.transition|a box begins as active') WHERE NEW.state <> 'active';
    UPDATE host_box SET state = 'gone', gone_at = NEW.paired_at
     WHERE name = NEW.name AND state = 'active';
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

CREATE TRIGGER host_box_stays BEFORE DELETE ON host_box
BEGIN
    SELECT RAISE(ABORT, 'box.kept|a box is history');
END;

CREATE TRIGGER host_box_moves BEFORE UPDATE ON host_box
BEGIN
    SELECT RAISE(ABORT, 'box.final|a box that is gone is history')
     WHERE OLD.state = 'gone' AND NEW.state IS OLD.state;
    SELECT RAISE(ABORT, 'box.transition|a box that is gone is invited again')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'host_box' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'box.identity|a box keeps its name, key and invitation')
     WHERE NEW.name IS NOT OLD.name OR NEW.box_key IS NOT OLD.box_key
        OR NEW.invitation_id IS NOT OLD.invitation_id;
END;

CREATE TRIGGER host_box_audit AFTER INSERT ON host_box
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_box', NEW.id, NEW.state, '',
            json_object('box', NEW.name, 'key', lower(hex(NEW.box_key)), 'transport', NEW.transport,
                        'lane', NEW.lane, 'endpoint', NEW.endpoint));
END;

CREATE TRIGGER host_box_audit_move AFTER UPDATE OF state ON host_box WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_box', NEW.id, NEW.state, '', json_object('box', NEW.name));
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

CREATE TRIGGER box_witness_audit_birth AFTER INSERT ON box_witness
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'box_witness', NEW.box_id, NEW.state, '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'size', NEW.size,
                        'root', lower(hex(NEW.root))));
END;

CREATE TRIGGER box_witness_audit_move AFTER UPDATE OF state ON box_witness WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'box_witness', NEW.box_id, NEW.state, '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'size', NEW.size,
                        'root', lower(hex(NEW.root)), 'from', OLD.state, 'why', coalesce(NEW.why, OLD.why)));
END;

CREATE VIEW boxes AS
SELECT b.id, b.name, b.state,
       CASE WHEN b.state = 'gone' THEN 'gone'
            WHEN w.state = 'behind' THEN 'rolled back'
            WHEN w.state = 'forked' THEN 'forked'
            WHEN (SELECT up FROM box_lines WHERE id = b.id) > 0 THEN 'connected'
            WHEN b.heard_at IS NULL THEN 'not heard yet'
            WHEN b.heard_at < now_ms() - (SELECT value FROM setting WHERE name = 'box.silent_ms')
            THEN 'silent' ELSE 'heard' END AS status,
       b.paired_at, b.heard_at, b.transport,
       coalesce(b.lane, b.endpoint) AS lane,
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

CREATE TABLE egress_within (
    id          INTEGER PRIMARY KEY,
    rule_id     INTEGER NOT NULL REFERENCES egress_rule (id),
    method      TEXT    NOT NULL DEFAULT '*' CHECK (length(method) BETWEEN 1 AND 32),
    path        TEXT    NOT NULL DEFAULT '*' CHECK (length(path) BETWEEN 1 AND 512),
    websocket   INTEGER NOT NULL DEFAULT 0 CHECK (websocket IN (0, 1)),
    token_id    INTEGER REFERENCES token (id),
    made_at     INTEGER NOT NULL,
    made_by_uid INTEGER NOT NULL CHECK (made_by_uid >= 0)
) STRICT;

CREATE UNIQUE INDEX egress_within_once
    ON egress_within (rule_id, method, path, websocket, coalesce(token_id, 0));

CREATE TRIGGER egress_within_born BEFORE INSERT ON egress_within
BEGIN
    SELECT CASE
           WHEN (SELECT state || verdict FROM egress_rule WHERE id = NEW.rule_id) IS NOT 'activeallow'
           THEN RAISE(ABORT, 'egress.within|only what is allowed can be narrowed')
           WHEN NEW.method <> '*' AND (NEW.method GLOB '*[^A-Z]*' OR NEW.method = 'CONNECT')
           THEN RAISE(ABORT, 'egress.within|a method is a word in capital letters, such as GET')
           WHEN NEW.path <> '*' AND NEW.path NOT GLOB '/*'
           THEN RAISE(ABORT, 'egress.within|a path begins with /; * stands for any characters')
           WHEN NEW.path GLOB '*[?#]*' OR instr(NEW.path, '[') > 0 OR NEW.path GLOB '*[^!-~]*'
           THEN RAISE(ABORT, 'egress.within|a path has neither query nor brackets; * stands for any characters')
           WHEN NEW.token_id IS NOT NULL
            AND (SELECT state FROM token WHERE id = NEW.token_id) IS NOT 'active'
           THEN RAISE(ABORT, 'token.unknown|there is no such token')
           WHEN NEW.token_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM token_host AS h JOIN egress_rule AS r ON r.id = NEW.rule_id
                             WHERE h.token_id = NEW.token_id
                               AND (h.suffix = r.suffix OR r.suffix GLOB '*.' || h.suffix))
           THEN RAISE(ABORT, 'token.host|this token is not for that host, so it is never sent there')
           WHEN (SELECT count(*) FROM egress_within WHERE rule_id = NEW.rule_id)
             >= (SELECT value FROM setting WHERE name = 'egress.within')
           THEN RAISE(ABORT, 'egress.many|a rule says as much of requests as the setting egress.within allows')
           END;
END;

CREATE TRIGGER egress_within_moves BEFORE UPDATE ON egress_within
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a rule never changes: forget it and make another');
END;

CREATE TRIGGER egress_within_stays BEFORE DELETE ON egress_within
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a rule is dropped, not deleted');
END;

CREATE TRIGGER egress_within_audit AFTER INSERT ON egress_within
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_rule', NEW.rule_id, 'narrowed', '',
            json_object('method', NEW.method, 'path', NEW.path, 'websocket', NEW.websocket,
                        'token', (SELECT name FROM token WHERE id = NEW.token_id)));
END;

CREATE VIEW egress_narrowed AS
SELECT f.id,
       EXISTS (SELECT 1 FROM egress_within AS w JOIN egress_rule AS r ON r.id = w.rule_id
                WHERE r.state = 'active' AND r.port IN (0, f.port)
                  AND r.suffix IN (f.host, '*', host_tail(f.host, 1), host_tail(f.host, 2),
                                   host_tail(f.host, 3), host_tail(f.host, 4), host_tail(f.host, 5),
                                   host_tail(f.host, 6), host_tail(f.host, 7), host_tail(f.host, 8))
                  AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
                       OR (r.uid IS NULL AND r.pairing_id IS NULL AND f.pairing_id IS NULL))) AS narrowed
  FROM egress_flow AS f;

CREATE TRIGGER egress_flow_within AFTER INSERT ON egress_flow
WHEN NEW.surface = 'http' AND NEW.state <> 'refused' AND EXISTS (SELECT 1 FROM egress_within)
BEGIN
    SELECT RAISE(ABORT, 'egress.plain|what allows this is for requests within TLS')
      FROM egress_narrowed WHERE id = NEW.id AND narrowed;
END;

CREATE TABLE egress_request (
    id        INTEGER PRIMARY KEY,
    flow_id   INTEGER NOT NULL REFERENCES egress_flow (id) ON DELETE CASCADE,
    method    TEXT    NOT NULL CHECK (length(method) <= 32),
    host      TEXT    NOT NULL CHECK (length(host) <= 253),
    port      INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    path      TEXT    NOT NULL CHECK (length(path) <= 4096),
    websocket INTEGER NOT NULL DEFAULT 0 CHECK (websocket IN (0, 1)),
    within_id INTEGER REFERENCES egress_within (id),           -- by which it is allowed, where narrowed
    token_id  INTEGER REFERENCES token (id),                   -- that goes with it
    state     TEXT    NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'failed', 'refused')),
    status    INTEGER CHECK (status BETWEEN 100 AND 999),      -- of the answer
    asked_at  INTEGER NOT NULL,
    ended_at  INTEGER,
    code      TEXT,
    why       TEXT    CHECK (length(why) <= 512),
    CHECK ((state = 'open') = (ended_at IS NULL)),
    CHECK ((state IN ('failed', 'refused')) = (code IS NOT NULL)),
    CHECK ((state = 'done') = (status IS NOT NULL))
) STRICT;

CREATE INDEX egress_request_by_flow ON egress_request (flow_id);

CREATE INDEX egress_request_by_token ON egress_request (token_id, asked_at) WHERE token_id IS NOT NULL;

CREATE INDEX egress_request_refused ON egress_request (ended_at) WHERE state = 'refused';

CREATE VIEW egress_request_ruling AS
SELECT q.id, q.flow_id, q.host = f.host AND q.port = f.port AS same,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied' WHEN count(*) = 0 THEN 'unknown'
                    WHEN NOT max(CASE WHEN EXISTS (SELECT 1 FROM egress_within WHERE rule_id = r.id)
                                      THEN EXISTS (SELECT 1 FROM egress_within AS w
                                                    WHERE w.rule_id = r.id AND w.method IN ('*', q.method)
                                                      AND q.path GLOB w.path AND w.websocket >= q.websocket)
                                      ELSE q.websocket = 0 END)
                    THEN iif(q.websocket, 'websocket', 'narrower') END
          FROM egress_rule AS r
         WHERE r.state = 'active'
           AND r.suffix IN (q.host, '*', host_tail(q.host, 1), host_tail(q.host, 2), host_tail(q.host, 3),
                            host_tail(q.host, 4), host_tail(q.host, 5), host_tail(q.host, 6),
                            host_tail(q.host, 7), host_tail(q.host, 8))
           AND r.port IN (0, q.port)
           AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
                OR (r.uid IS NULL AND r.pairing_id IS NULL
                    AND (f.pairing_id IS NULL OR r.verdict = 'deny')))) AS held,
       (SELECT w.id FROM egress_within AS w JOIN egress_rule AS r ON r.id = w.rule_id
         WHERE r.state = 'active' AND w.method IN ('*', q.method) AND q.path GLOB w.path
           AND w.websocket >= q.websocket
           AND r.suffix IN (q.host, '*', host_tail(q.host, 1), host_tail(q.host, 2), host_tail(q.host, 3),
                            host_tail(q.host, 4), host_tail(q.host, 5), host_tail(q.host, 6),
                            host_tail(q.host, 7), host_tail(q.host, 8))
           AND r.port IN (0, q.port)
           AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
                OR (r.uid IS NULL AND r.pairing_id IS NULL AND f.pairing_id IS NULL))
         ORDER BY length(r.suffix) DESC, r.port DESC, r.uid IS NULL, length(w.path) DESC,
                  w.token_id IS NULL, w.id LIMIT 1) AS within_id
  FROM egress_request AS q JOIN egress_flow AS f ON f.id = q.flow_id;

CREATE TRIGGER egress_request_born BEFORE INSERT ON egress_request
BEGIN
    SELECT CASE
           WHEN NEW.state NOT IN ('open', 'refused') OR NEW.token_id IS NOT NULL OR NEW.within_id IS NOT NULL
           THEN RAISE(ABORT, 'egress.transition|a request begins as open or refused')
           WHEN NEW.state = 'refused'
            AND (SELECT count(*) FROM egress_request WHERE state = 'refused' AND ended_at > now_ms() - 60000)
             >= (SELECT value FROM setting WHERE name = 'egress.refused')
           THEN RAISE(ABORT, 'egress.flood|as many refused requests as are kept were refused in this minute')
           WHEN NEW.state = 'open' AND (SELECT state FROM egress_flow WHERE id = NEW.flow_id) IS NOT 'open'
           THEN RAISE(ABORT, 'egress.transition|a request is within an open tunnel')
           END;
END;

CREATE TRIGGER egress_request_ruled AFTER INSERT ON egress_request WHEN NEW.state = 'open'
BEGIN
    SELECT CASE
           WHEN held = 'denied' THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN held = 'unknown' THEN RAISE(ABORT, 'egress.unknown|no rule allows this')
           WHEN NOT same AND (SELECT value FROM setting WHERE name = 'egress.inspect_host')
           THEN RAISE(ABORT, 'egress.fronted|the request is for another host than its tunnel')
           WHEN held = 'websocket' THEN RAISE(ABORT, 'egress.websocket|no rule allows to go over to another protocol')
           WHEN held = 'narrower' THEN RAISE(ABORT, 'egress.within|no rule allows this method and path')
           END
      FROM egress_request_ruling WHERE id = NEW.id;
    UPDATE egress_request
       SET within_id = (SELECT within_id FROM egress_request_ruling WHERE id = NEW.id)
     WHERE id = NEW.id;
    UPDATE egress_request
       SET token_id = (SELECT token_id FROM egress_within WHERE id = egress_request.within_id)
     WHERE id = NEW.id AND within_id IS NOT NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'egress_request', q.id, q.state,
           coalesce((SELECT host_name FROM pairing WHERE id = f.pairing_id), ''),
           json_object('flow', q.flow_id, 'uid', f.uid, 'method', q.method, 'host', q.host, 'path', q.path,
                       'token', (SELECT name FROM token WHERE id = q.token_id))
      FROM egress_request AS q JOIN egress_flow AS f ON f.id = q.flow_id WHERE q.id = NEW.id;
END;

CREATE TRIGGER egress_request_token AFTER UPDATE OF token_id ON egress_request WHEN NEW.token_id IS NOT NULL
BEGIN
    SELECT CASE
           WHEN (SELECT state FROM token WHERE id = NEW.token_id) IS NOT 'active'
           THEN RAISE(ABORT, 'token.dropped|the token of the rule that allows this was dropped')
           WHEN NEW.method = 'TRACE'
           THEN RAISE(ABORT, 'token.trace|TRACE has a request told back, and a token would be in it')
           WHEN NOT EXISTS (SELECT 1 FROM token_host AS h JOIN egress_flow AS f ON f.id = NEW.flow_id
                             WHERE h.token_id = NEW.token_id AND NEW.host = f.host
                               AND (h.suffix = f.host OR f.host GLOB '*.' || h.suffix))
           THEN RAISE(ABORT, 'token.host|the token is not for that host')
           END;
END;

CREATE TRIGGER egress_request_moves BEFORE UPDATE ON egress_request
BEGIN
    SELECT RAISE(ABORT, 'egress.transition|this request is over')
     WHERE OLD.state <> 'open' OR (NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'egress_request' AND from_state = OLD.state AND to_state = NEW.state));
    SELECT RAISE(ABORT, 'egress.fixed|what was asked never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.flow_id IS NOT OLD.flow_id OR NEW.method IS NOT OLD.method
        OR NEW.host IS NOT OLD.host OR NEW.port IS NOT OLD.port OR NEW.path IS NOT OLD.path
        OR NEW.websocket IS NOT OLD.websocket OR NEW.asked_at IS NOT OLD.asked_at
        OR (OLD.within_id IS NOT NULL AND NEW.within_id IS NOT OLD.within_id)
        OR (OLD.token_id IS NOT NULL AND NEW.token_id IS NOT OLD.token_id);
END;

CREATE TRIGGER egress_request_stays BEFORE DELETE ON egress_request
WHEN EXISTS (SELECT 1 FROM egress_flow WHERE id = OLD.flow_id)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a request stays as long as its connection');
END;

CREATE TRIGGER egress_request_audit_refused AFTER INSERT ON egress_request WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_request', NEW.id, NEW.state, '',
            json_object('flow', NEW.flow_id, 'method', NEW.method, 'host', NEW.host, 'path', NEW.path,
                        'code', NEW.code));
END;

CREATE TRIGGER egress_request_audit_failed AFTER UPDATE OF state ON egress_request WHEN NEW.state = 'failed'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_request', NEW.id, NEW.state, '',
            json_object('flow', NEW.flow_id, 'method', NEW.method, 'host', NEW.host, 'path', NEW.path,
                        'code', NEW.code));
END;

CREATE TABLE egress_authority (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    pem     TEXT    NOT NULL CHECK (length(pem) BETWEEN 64 AND 16384),
    made_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER egress_authority_audit_birth AFTER INSERT ON egress_authority
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_authority', NEW.id, 'made', '', json_object('ends_at', NEW.ends_at));
END;

CREATE TRIGGER egress_authority_audit_move AFTER UPDATE ON egress_authority
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_authority', NEW.id, 'made', '', json_object('ends_at', NEW.ends_at));
END;

CREATE VIEW egress_may_ask AS
SELECT w.rule_id AS id, m.what, m.port, m.who, w.method, w.path, iif(w.websocket, 'yes', NULL) AS websocket,
       (SELECT name FROM token WHERE id = w.token_id) AS token
  FROM egress_within AS w JOIN egress_may AS m ON m.id = w.rule_id;

CREATE VIEW egress_requests AS
SELECT q.id, q.asked_at, coalesce('host ' || p.host_name, 'uid ' || f.uid) AS who, q.method,
       'https://' || q.host || iif(q.port = 443, '', ':' || q.port) || q.path AS what,
       iif(q.state = 'open' AND f.ended_at IS NOT NULL, 'lost', q.state) AS state, q.status,
       (SELECT name FROM token WHERE id = q.token_id) AS token, q.code, q.why
  FROM egress_request AS q JOIN egress_flow AS f ON f.id = q.flow_id
  LEFT JOIN pairing AS p ON p.id = f.pairing_id;

CREATE TABLE box_line (
    box_id     INTEGER PRIMARY KEY REFERENCES host_box (id),
    up         INTEGER NOT NULL DEFAULT 0 CHECK (up >= 0),
    changed_at INTEGER NOT NULL,
    address    TEXT    CHECK (length(address) <= 64),          -- where the newest came from
    beat_time  INTEGER                                         -- of the last beat, as the box signed it
) STRICT;

CREATE TRIGGER box_line_born BEFORE INSERT ON box_line
BEGIN
    SELECT RAISE(ABORT, 'box.gone|the box is no longer paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

CREATE TRIGGER box_line_moves BEFORE UPDATE ON box_line
BEGIN
    SELECT RAISE(ABORT, 'box.gone|the box is no longer paired with this Host')
     WHERE (NEW.up > 0 OR NEW.beat_time IS NOT OLD.beat_time)
       AND (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

CREATE TRIGGER box_line_beats_onwards BEFORE UPDATE OF beat_time ON box_line
WHEN NEW.beat_time <= OLD.beat_time
BEGIN
    SELECT RAISE(ABORT, 'beat.stale|this beat, or a newer one, of this box was heard');
END;

CREATE TRIGGER box_line_ends AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    UPDATE box_line SET up = 0, changed_at = NEW.gone_at WHERE box_id = NEW.id AND up > 0;
END;

CREATE VIEW lines_lost AS
SELECT a.id FROM actor_run AS a JOIN process AS p ON p.id = a.process_id
 WHERE a.actor = 'net' AND a.state IN ('starting', 'running')
   AND NOT process_alive(p.boot_id, p.pid, p.start_ticks);

CREATE VIEW box_lines AS
SELECT b.id, b.name, b.transport, iif(l.up > 0 AND NOT EXISTS (SELECT 1 FROM lines_lost), l.up, 0) AS up, l.address,
       CASE WHEN b.state = 'gone' THEN 'gone'
            WHEN l.up > 0 AND NOT EXISTS (SELECT 1 FROM lines_lost) THEN 'connected'
            WHEN b.heard_at > now_ms() - (SELECT value FROM setting WHERE name = 'beat.silent_ms')
            THEN 'beating'
            ELSE 'silent' END AS line,
       b.heard_at, now_ms() - b.heard_at AS age_ms
  FROM host_box AS b LEFT JOIN box_line AS l ON l.box_id = b.id;

CREATE VIEW call_ready AS
SELECT c.id
  FROM call AS c JOIN host_box AS b ON b.id = c.box_id
 WHERE c.state IN ('asked', 'sent') AND c.state = 'asked'
   AND (b.transport <> 'reverse'
        OR (SELECT up FROM box_line WHERE box_id = b.id)
         > (SELECT count(*) FROM call AS s
             WHERE s.state IN ('asked', 'sent') AND s.state = 'sent' AND s.box_id = b.id));

CREATE VIEW call_waits AS
SELECT c.id, c.asked_at + (SELECT value FROM setting
                             WHERE name = iif(l.up > 0, 'line.busy_ms', 'line.wait_ms')) AS until,
       iif(l.up > 0, 'reverse.busy', 'reverse.offline') AS code,
       iif(l.up > 0, printf('every one of the %d connections of the box is in use', l.up),
           'the box is not connected') AS why
  FROM call AS c JOIN host_box AS b ON b.id = c.box_id LEFT JOIN box_line AS l ON l.box_id = b.id
 WHERE c.state IN ('asked', 'sent') AND c.state = 'asked' AND b.transport = 'reverse';

CREATE TABLE pairing_line (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    up         INTEGER NOT NULL DEFAULT 0 CHECK (up >= 0),
    changed_at INTEGER NOT NULL,
    endpoint   TEXT,                                           -- that is dialled, or was reached last
    code       TEXT    CHECK (length(code) <= 64),             -- why the last was lost or not made
    why        TEXT    CHECK (length(why) <= 512)
) STRICT;

CREATE TRIGGER pairing_line_is_served BEFORE INSERT ON pairing_line
BEGIN
    SELECT RAISE(ABORT, 'pairing.unserved|only a pairing that is active and valid is served')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_dialled WHERE pairing_id = NEW.pairing_id);
END;

CREATE TRIGGER pairing_line_stays_served BEFORE UPDATE ON pairing_line
BEGIN
    SELECT RAISE(ABORT, 'pairing.unserved|only a pairing that is active and valid is served')
     WHERE NEW.up > OLD.up
       AND NOT EXISTS (SELECT 1 FROM pairing_dialled WHERE pairing_id = NEW.pairing_id);
END;

CREATE TRIGGER pairing_line_ends AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM pairing_line WHERE pairing_id = NEW.id;
END;

CREATE VIEW pairing_reached AS
SELECT s.id AS pairing_id, s.host, s.transport,
       (SELECT json_group_array(endpoint)
          FROM (SELECT endpoint FROM pairing_dial WHERE pairing_id = s.id ORDER BY ord))
         AS endpoints,
       (SELECT printf('%d %s', i.id, lower(hex(t.fp)))
          FROM tls_identity AS i JOIN pairing_tls AS t ON t.pairing_id = s.id
         WHERE i.pairing_id = s.id AND i.state = 'current') AS identity
  FROM pairing_status AS s
 WHERE s.active AND s.transport <> 'unix'
   AND EXISTS (SELECT 1 FROM pairing_dial WHERE pairing_id = s.id);

CREATE VIEW pairing_dialled AS
SELECT pairing_id, host, endpoints, identity FROM pairing_reached WHERE transport = 'reverse';

CREATE TABLE pairing_socket (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    path       TEXT    NOT NULL CHECK (path GLOB '/*' AND length(CAST(path AS BLOB)) <= 103
                       AND instr(path, char(0)) = 0)
) STRICT;

CREATE TRIGGER pairing_socket_ends_with_transport AFTER UPDATE OF transport ON pairing
WHEN NEW.transport <> 'unix'
BEGIN
    DELETE FROM pairing_socket WHERE pairing_id = NEW.id;
END;

CREATE TRIGGER pairing_socket_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM pairing_socket WHERE pairing_id = NEW.id;
END;

CREATE VIEW pairing_beats AS
SELECT s.id AS pairing_id, k.path AS socket, s.peer_uid, json_array() AS endpoints,
       printf('%s %d', k.path, s.peer_uid) AS facts
  FROM pairing_status AS s JOIN pairing_socket AS k ON k.pairing_id = s.id
 WHERE s.active AND s.transport = 'unix'
UNION ALL
SELECT d.pairing_id, NULL, NULL, d.endpoints, d.endpoints || ' ' || d.identity
  FROM pairing_reached AS d
 WHERE d.identity IS NOT NULL;

CREATE TRIGGER mcp_token_audit_birth AFTER INSERT ON mcp_token
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'mcp_token', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

CREATE TRIGGER mcp_token_audit_move AFTER UPDATE OF state ON mcp_token WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'mcp_token', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

CREATE VIEW op_input AS
SELECT o.name AS op, json_patch(json_object('type', 'object', 'properties', json('{}'),
                                            'additionalProperties', json('false')),
       json_object(
           'properties', (SELECT json_group_object(p.name, json_patch('{}',
                json_object('type', p.type, 'description', p.doc,
                            'minLength', iif(p.type = 'string', p.low, NULL),
                            'maxLength', iif(p.type = 'string', p.high, NULL),
                            'minimum', iif(p.type = 'integer', p.low, NULL),
                            'maximum', iif(p.type = 'integer', p.high, NULL),
                            'pattern', p.pattern,
                            'default', iif(p.type = 'integer', CAST(p.fallback AS INTEGER),
                                           p.fallback))))
               FROM op_param AS p WHERE p.op = o.name),
           'required', (SELECT iif(count(*) = 0, NULL, json_group_array(p.name))
               FROM op_param AS p WHERE p.op = o.name AND p.needed))) AS schema
  FROM op AS o;

CREATE VIEW mcp_tool AS
SELECT b.name || '.' || replace(o.name, ':', '_') AS name, b.name AS box, o.name AS op,
       json_patch(json_object(
           'name', b.name || '.' || replace(o.name, ':', '_'),
           'title', b.name || ': ' || o.summary,
           'description', 'On the machine ' || b.name || ': ' || o.summary
               || iif(o.class = 'own', '.', '. A person at ' || b.name
                      || ' approves each kind of ask first; the call waits for that.'),
           'inputSchema', json(i.schema)),
         json_object(
           'outputSchema', json(r.schema),
           'annotations', json_object(
               'title', b.name || ': ' || o.summary,
               'readOnlyHint', json(iif(o.class = 'observe' OR o.name = 'grant:list', 'true', 'false')),
               'destructiveHint', json(iif(o.class IN ('observe', 'own'), 'false', 'true')),
               'idempotentHint', json(iif(o.class IN ('observe', 'own'), 'true', 'false')),
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
           WHEN NEW.grant_id IS NULL AND o.class = 'own' AND NOT NEW.dry
           THEN NULL
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
           -- The arguments themselves, or what the bounds let take their place.
           WHEN g.args <> NEW.args
            AND (g.bounds IS NULL OR instr(NEW.args, '\u0000') > 0
                 OR json_array_length(NEW.args) > (SELECT count(*) FROM op_param WHERE op = NEW.op)
                 OR EXISTS (SELECT 1 FROM grant_bound AS b WHERE b.grant_id = g.id
                       AND NOT CASE b.rule
                           WHEN 'in' THEN coalesce((NEW.args ->> b.at) IN
                                (SELECT CAST(value AS TEXT) FROM json_each(b.bound)), 0)
                           ELSE bound_holds(b.rule, b.bound, NEW.args ->> b.at) END))
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN g.expires_at <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN g.kind = 'root'
            AND g.created_at + (SELECT value FROM setting WHERE name = 'grant.root_ttl_ms') <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN f.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.approver|whoever approved this grant is no longer trusted here')
           WHEN seal_ok('grant', g.seal_text, g.seal) IS NOT 1
           THEN RAISE(ABORT, 'grant.seal|the record of this grant was changed by another tool')
           WHEN NEW.dry AND o.class <> 'action'
           THEN RAISE(ABORT, 'op.dry|this op changes nothing, so it is not run dry')
           WHEN o.class = 'action'
            AND EXISTS (SELECT 1 FROM op_probe WHERE op = NEW.op AND NOT works)
           THEN (SELECT refuse('act.tool', why, 0) FROM op_probe WHERE op = NEW.op)
           WHEN NEW.dry OR g.bounds IS NULL
           THEN NULL
           -- Not now: nothing is spent.
           ELSE (SELECT CASE WHEN n.at IS NOT now_ms() THEN refuse(n.code, n.why, nullif(n.at, n.ends)) END
                   FROM grant_not_now AS n WHERE n.id = g.id)
           END
      FROM (SELECT 1) AS asked
      LEFT JOIN box AS b ON b.id = 1
      LEFT JOIN pairing AS p ON p.id = NEW.pairing_id
      LEFT JOIN op AS o ON o.name = NEW.op
      LEFT JOIN grant AS g ON g.id = NEW.grant_id
      LEFT JOIN factor AS f ON f.id = g.factor_id;
END;

CREATE TRIGGER op_run_spends AFTER INSERT ON op_run WHEN NEW.grant_id IS NOT NULL AND NOT NEW.dry
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

CREATE TRIGGER op_run_looks AFTER INSERT ON op_run WHEN NEW.grant_id IS NOT NULL AND NEW.dry
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NEW.grant_id, 'dry', 1));
END;

CREATE TRIGGER op_run_is_own AFTER INSERT ON op_run WHEN NEW.grant_id IS NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NULL));
    INSERT INTO own_ask (op_run_id, pairing_id, op, args) VALUES (NEW.id, NEW.pairing_id, NEW.op, NEW.args);
END;

CREATE VIEW own_ask AS
SELECT id AS op_run_id, pairing_id, op, args FROM op_run WHERE grant_id IS NULL;

CREATE TRIGGER own_ask_is_answered INSTEAD OF INSERT ON own_ask
BEGIN
    UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = NEW.op_run_id;
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.op_run_id, 1, json_object('r', json_object('dropped', count(*)))
      FROM grant WHERE NEW.op = 'grant:drop' AND state = 'active' AND pairing_id = NEW.pairing_id
       AND (NEW.args ->> 0) IN ('all', CAST(id AS TEXT)) HAVING NEW.op = 'grant:drop';
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'given back by the Host'
     WHERE NEW.op = 'grant:drop' AND state = 'active' AND pairing_id = NEW.pairing_id
       AND (NEW.args ->> 0) IN ('all', CAST(id AS TEXT));
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.op_run_id, 1, json_object('r', json_object(
           'grants', json_group_array(json(grant)), 'more', coalesce(max(n), 0) - count(*)))
      FROM (SELECT json_object('grant', g.id, 'op', g.op, 'args', json(g.args), 'bounds', json(g.bounds),
                       'uses_left', g.uses - g.used, 'expires_at', g.expires_at, 'next_at', g.next_at) AS grant,
                   count(*) OVER () AS n
              FROM live_grants AS g JOIN grant AS own ON own.id = g.id
             WHERE own.pairing_id = NEW.pairing_id AND NEW.op = 'grant:list' ORDER BY g.id LIMIT 100)
    HAVING NEW.op = 'grant:list';
    UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms() WHERE id = NEW.op_run_id;
END;

CREATE TRIGGER anchor_heard_asking AFTER INSERT ON op_run
WHEN NEW.pairing_id IS (SELECT pairing_id FROM anchor)
 AND (SELECT heard_at FROM anchor)
     <= now_ms() - (SELECT value FROM setting WHERE name = 'anchor.heard_ms')
BEGIN
    UPDATE anchor SET heard_at = now_ms();
END;

CREATE TRIGGER op_run_moves BEFORE UPDATE ON op_run
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a run cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'op_run' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'op.final|a finished run is history')
     WHERE NEW.state IS OLD.state AND OLD.finished_at IS NOT NULL;
    SELECT RAISE(ABORT, 'op.fixed|a run keeps what it was authorised for')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.op IS NOT OLD.op
        OR NEW.args IS NOT OLD.args OR NEW.nonce IS NOT OLD.nonce OR NEW.grant_id IS NOT OLD.grant_id
        OR NEW.dry IS NOT OLD.dry;
    SELECT RAISE(ABORT, 'op.seq|output only grows') WHERE NEW.last_seq < OLD.last_seq;
END;

CREATE TRIGGER op_run_stays BEFORE DELETE ON op_run
BEGIN
    SELECT RAISE(ABORT, 'op.final|a run is history');
END;

CREATE TRIGGER op_run_audit_move AFTER UPDATE OF state ON op_run WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'exit', NEW.exit_code, 'frames', NEW.last_seq));
END;

CREATE TRIGGER op_output_in_order BEFORE INSERT ON op_output
BEGIN
    SELECT RAISE(ABORT, 'op.output|only a running op answers')
     WHERE (SELECT state FROM op_run WHERE id = NEW.op_run_id) IS NOT 'running';
    SELECT RAISE(ABORT, 'op.seq|frames come in order, without a gap')
     WHERE NEW.seq IS NOT (SELECT last_seq + 1 FROM op_run WHERE id = NEW.op_run_id);
    SELECT RAISE(ABORT, 'op.output|a frame is longer than the setting op.frame allows')
     WHERE length(CAST(NEW.frame AS BLOB)) > (SELECT value FROM setting WHERE name = 'op.frame');
END;

CREATE TRIGGER op_output_counts AFTER INSERT ON op_output
BEGIN
    UPDATE op_run SET last_seq = NEW.seq WHERE id = NEW.op_run_id;
END;

CREATE TRIGGER op_output_no_update BEFORE UPDATE ON op_output
BEGIN
    SELECT RAISE(ABORT, 'op.output|an answer never changes');
END;

CREATE TRIGGER folder_walk_born BEFORE INSERT ON folder_walk WHEN NEW.state <> 'reading'
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a walk begins as reading');
END;

CREATE TRIGGER folder_walk_moves BEFORE UPDATE ON folder_walk
WHEN NOT EXISTS (SELECT 1 FROM state_rule
     WHERE entity = 'folder_walk' AND from_state = OLD.state AND to_state = NEW.state)
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a walk cannot make this move');
END;

CREATE VIEW live_runs AS
SELECT r.id, p.host_name AS host, r.op, r.args, r.state, r.queued_at, r.started_at, r.grant_id
  FROM op_run AS r JOIN pairing AS p ON p.id = r.pairing_id
 WHERE r.finished_at IS NULL;

CREATE VIEW run_history AS
SELECT r.id, p.host_name AS host, r.op, r.args, r.state, r.exit_code, r.queued_at, r.finished_at,
       r.grant_id, a.decided_by AS approved_by, f.label AS approved_with
  FROM op_run AS r
  JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN grant AS g ON g.id = r.grant_id
  LEFT JOIN approval AS a ON a.id = g.approval_id
  LEFT JOIN factor AS f ON f.id = g.factor_id;

CREATE TABLE op_manifest (
    id                 INTEGER PRIMARY KEY,
    name               TEXT    NOT NULL CHECK (name = manifest ->> '$.name'),
    manifest           TEXT    NOT NULL CHECK (json_valid(manifest) AND length(CAST(manifest AS BLOB)) <= 16384),
    program_sha256     TEXT    CHECK (length(program_sha256) = 64 AND program_sha256 NOT GLOB '*[^0-9a-f]*'),
    interpreter_sha256 TEXT    CHECK (length(interpreter_sha256) = 64 AND interpreter_sha256 NOT GLOB '*[^0-9a-f]*'),
    factor_id          INTEGER NOT NULL REFERENCES factor (id),
    by_uid             INTEGER NOT NULL CHECK (by_uid >= 0),
    created_at         INTEGER NOT NULL,
    seal_text          TEXT    GENERATED ALWAYS AS
                       (json_array('manifest', name, manifest, program_sha256, interpreter_sha256, factor_id, by_uid,
                                   created_at)) VIRTUAL,
    seal               BLOB    NOT NULL CHECK (length(seal) = 64),
    state              TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'replaced', 'dropped')),
    ended_at           INTEGER,
    end_reason         TEXT    CHECK (length(end_reason) <= 128),
    CHECK ((state = 'active') = (ended_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX op_manifest_once ON op_manifest (name) WHERE state = 'active';

CREATE TRIGGER op_manifest_form BEFORE INSERT ON op_manifest
BEGIN
    SELECT RAISE(ABORT, 'manifest.form|a manifest is a JSON object of at most 16384 bytes')
     WHERE CASE WHEN json_valid(NEW.manifest)
                THEN json_type(NEW.manifest) <> 'object' OR NEW.manifest <> json(NEW.manifest)
                  OR length(CAST(NEW.manifest AS BLOB)) > 16384 OR instr(NEW.manifest, '\u0000') > 0
                ELSE 1 END;
    SELECT RAISE(ABORT, 'manifest.member|a manifest has name, summary, program, interpreter, params, reads, writes, verbs and time_ms, each at most once')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.manifest)
                    WHERE key NOT IN ('name', 'summary', 'program', 'interpreter', 'params', 'reads', 'writes',
                                      'destinations', 'builder', 'credential', 'verbs', 'time_ms'))
        OR (SELECT count(*) <> count(DISTINCT key) FROM json_each(NEW.manifest));
    SELECT RAISE(ABORT, 'manifest.name|a name is run: and 1 to 40 of a to z, 0 to 9 and _, beginning with a letter')
     WHERE json_type(NEW.manifest, '$.name') IS NOT 'text' OR NEW.name IS NOT NEW.manifest ->> '$.name'
        OR NEW.name NOT GLOB 'run:[a-z]*' OR substr(NEW.name, 5) GLOB '*[^a-z0-9_]*' OR length(NEW.name) > 44;
    SELECT RAISE(ABORT, 'manifest.summary|a summary is 1 to 128 characters, none of them a control character')
     WHERE json_type(NEW.manifest, '$.summary') IS NOT 'text'
        OR length(NEW.manifest ->> '$.summary') NOT BETWEEN 1 AND 128
        OR (NEW.manifest ->> '$.summary') GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'manifest.time|a time is whole milliseconds, at least 1000, and no more than the setting act.time_ms allows')
     WHERE coalesce(json_type(NEW.manifest, '$.time_ms'), 'integer') <> 'integer'
        OR NEW.manifest ->> '$.time_ms'
           NOT BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'act.time_ms');
    SELECT RAISE(ABORT, 'manifest.none|an op without an interpreter is its verbs: it has no program')
     WHERE NEW.manifest ->> '$.interpreter' = 'none' AND json_type(NEW.manifest, '$.program') IS NOT NULL;
    SELECT RAISE(ABORT, 'manifest.none|an op without a program has no reads, writes, destinations or builder')
     WHERE NEW.manifest ->> '$.interpreter' = 'none'
       AND EXISTS (SELECT 1 FROM json_each(NEW.manifest)
                    WHERE key IN ('reads', 'writes', 'destinations', 'builder'));
    SELECT RAISE(ABORT, 'manifest.none|none of the verbs needs a credential')
     WHERE NEW.manifest ->> '$.interpreter' = 'none' AND json_type(NEW.manifest, '$.credential') IS NOT NULL;
    SELECT RAISE(ABORT, 'manifest.later|destinations, builder and credential are not in this version: a program has no network')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.manifest) WHERE key IN ('destinations', 'builder', 'credential'));
    SELECT RAISE(ABORT, 'manifest.program|a program, and its interpreter, is an absolute path of a file, without empty parts, . and ..')
     WHERE NEW.manifest ->> '$.interpreter' IS NOT 'none'
       AND (json_type(NEW.manifest, '$.program') IS NOT 'text'
         OR bound_holds('beneath', '/', NEW.manifest ->> '$.program') IS NOT 1
         OR coalesce(json_type(NEW.manifest, '$.interpreter'), 'text') <> 'text'
         OR bound_holds('beneath', '/', coalesce(NEW.manifest ->> '$.interpreter', '/')) IS NOT 1);
    SELECT RAISE(ABORT, 'manifest.sealed|the program, and its interpreter where it has one, is sealed by its digest, and nothing else is')
     WHERE (NEW.program_sha256 IS NULL) <> (NEW.manifest ->> '$.interpreter' IS 'none')
        OR (NEW.interpreter_sha256 IS NULL) <> (coalesce(NEW.manifest ->> '$.interpreter', 'none') = 'none');
    SELECT RAISE(ABORT, 'manifest.params|params are at most 8 objects with name, type, needed, min, max, like and doc')
     WHERE coalesce(json_type(NEW.manifest, '$.params'), 'array') <> 'array'
        OR json_array_length(NEW.manifest, '$.params') > 8
        OR EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.params') AS p
            WHERE CASE WHEN p.type <> 'object' THEN 1
                       ELSE (SELECT count(*) <> count(DISTINCT key) OR coalesce(sum(NOT CASE key
                                    WHEN 'name' THEN type = 'text' AND length(value) BETWEEN 1 AND 32
                                                     AND value NOT GLOB '*[^a-z_]*' AND value GLOB '[a-z]*'
                                    WHEN 'type' THEN type = 'text' AND value IN ('string', 'integer')
                                    WHEN 'needed' THEN type IN ('true', 'false')
                                    WHEN 'min' THEN type = 'integer' AND value BETWEEN -9000000000000000 AND 9000000000000000
                                    WHEN 'max' THEN type = 'integer' AND value BETWEEN -9000000000000000 AND 9000000000000000
                                    WHEN 'like' THEN type = 'text' AND glob_valid(value)
                                    WHEN 'doc' THEN type = 'text' AND length(value) BETWEEN 1 AND 200
                                                    AND value NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
                                    ELSE 0 END), 0) > 0 FROM json_each(p.value)) END);
    SELECT RAISE(ABORT, 'manifest.params|a param has a name of its own, a type and a doc; an integer has min and max; what is not needed comes last')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.params') AS p
            WHERE p.value ->> '$.name' IS NULL OR p.value ->> '$.type' IS NULL OR p.value ->> '$.doc' IS NULL
               OR (p.value ->> '$.type' = 'integer'
                   AND (p.value ->> '$.min' IS NULL OR p.value ->> '$.max' IS NULL OR p.value ->> '$.like' IS NOT NULL))
               OR (p.value ->> '$.type' = 'string'
                   AND (coalesce(p.value ->> '$.min', 1) NOT BETWEEN 0 AND 4095
                     OR coalesce(p.value ->> '$.max', 4095) NOT BETWEEN 1 AND 4095))
               OR coalesce(p.value ->> '$.min', 1) > coalesce(p.value ->> '$.max', 4095)
               OR EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.params') AS o
                           WHERE o.key < p.key AND (o.value ->> '$.name' = p.value ->> '$.name'
                              OR (coalesce(o.value ->> '$.needed', 1) = 0 AND coalesce(p.value ->> '$.needed', 1) = 1))));
    SELECT RAISE(ABORT, 'manifest.paths|reads are at most 16 absolute paths, writes at most 8 folders, each named once and none of them /')
     WHERE coalesce(json_type(NEW.manifest, '$.reads'), 'array') <> 'array'
        OR coalesce(json_type(NEW.manifest, '$.writes'), 'array') <> 'array'
        OR json_array_length(NEW.manifest, '$.reads') > 16 OR json_array_length(NEW.manifest, '$.writes') > 8
        OR EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.reads')
                    WHERE type <> 'text' OR value = '/' OR bound_holds('beneath', '/', value) IS NOT 1)
        OR EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.writes')
                    WHERE type <> 'text' OR value = '/' OR bound_holds('beneath', '/', value) IS NOT 1)
        OR (SELECT count(*) <> count(DISTINCT value)
              FROM (SELECT value FROM json_each(NEW.manifest, '$.reads')
                    UNION ALL SELECT value FROM json_each(NEW.manifest, '$.writes')));
    SELECT RAISE(ABORT, 'manifest.verbs|an op that is its verbs has 1 to 16 of them, each a list: the op of a verb, then words or $PARAM; no other op has any')
     WHERE CASE WHEN NEW.manifest ->> '$.interpreter' IS NOT 'none' THEN json_type(NEW.manifest, '$.verbs') IS NOT NULL
                WHEN json_type(NEW.manifest, '$.verbs') IS NOT 'array' THEN 1
                ELSE json_array_length(NEW.manifest, '$.verbs') NOT BETWEEN 1 AND 16
                  OR EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.verbs') AS v
                      WHERE CASE WHEN v.type <> 'array' THEN 1
                            ELSE v.value ->> 0 NOT IN (SELECT op FROM verb) OR json_array_length(v.value) NOT BETWEEN 1 AND 3
                              OR EXISTS (SELECT 1 FROM json_each(v.value) AS w WHERE w.type <> 'text'
                                    OR (w.value GLOB '$*' AND substr(w.value, 2) NOT IN
                                        (SELECT p.value ->> '$.name' FROM json_each(NEW.manifest, '$.params') AS p)))
                            END) END;
END;

CREATE TRIGGER op_manifest_on_a_persons_word BEFORE INSERT ON op_manifest
BEGIN
    SELECT RAISE(ABORT, 'manifest.factor|a factor has to prove who adds an op')
     WHERE (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
        OR NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms())
        OR NEW.created_at <> now_ms();
    SELECT RAISE(ABORT, 'manifest.seal|the seal of this op is not of this machine')
     WHERE seal_ok('manifest', NEW.seal_text, NEW.seal) IS NOT 1;
    SELECT RAISE(ABORT, 'manifest.transition|an op that is added begins as active') WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'manifest.full|there are as many added ops as the setting manifest.live allows')
     WHERE (SELECT count(*) FROM op_manifest WHERE state = 'active' AND name <> NEW.name)
        >= (SELECT value FROM setting WHERE name = 'manifest.live');
    UPDATE op_manifest SET state = 'replaced', ended_at = now_ms(), end_reason = 'added anew'
     WHERE name = NEW.name AND state = 'active';
END;

CREATE TRIGGER op_manifest_is_an_op AFTER INSERT ON op_manifest
BEGIN
    INSERT INTO op (name, class, usage, summary)
    SELECT NEW.name, 'action', coalesce((SELECT group_concat(iif(coalesce(p.value ->> '$.needed', 1),
               upper(p.value ->> '$.name'), '[' || upper(p.value ->> '$.name') || ']'), ' ')
               FROM json_each(NEW.manifest, '$.params') AS p), ''), NEW.manifest ->> '$.summary'
     WHERE true
        ON CONFLICT DO UPDATE SET usage = excluded.usage, summary = excluded.summary;
    DELETE FROM op_param WHERE op = NEW.name;
    INSERT INTO op_param (op, position, name, type, needed, low, high, doc)
    SELECT NEW.name, p.key + 1, p.value ->> '$.name', p.value ->> '$.type', coalesce(p.value ->> '$.needed', 1),
           coalesce(p.value ->> '$.min', 1), coalesce(p.value ->> '$.max', 4095), p.value ->> '$.doc'
      FROM json_each(NEW.manifest, '$.params') AS p;
    INSERT INTO op_probe (op, works, why, probed_at) VALUES (NEW.name, 1, '', now_ms())
        ON CONFLICT DO UPDATE SET works = 1, why = '', probed_at = now_ms();
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'op_manifest', NEW.id, NEW.state, '',
            json_object('op', NEW.name, 'program', NEW.manifest ->> '$.program', 'program_sha256', NEW.program_sha256,
                        'interpreter_sha256', NEW.interpreter_sha256, 'manifest_sha256', lower(hex(sha256(NEW.manifest))),
                        'factor', NEW.factor_id, 'by', NEW.by_uid));
END;

CREATE TRIGGER op_manifest_moves BEFORE UPDATE ON op_manifest
BEGIN
    SELECT RAISE(ABORT, 'manifest.transition|an op that was dropped or replaced stays so')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'op_manifest' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'manifest.fixed|what was signed never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.manifest IS NOT OLD.manifest
        OR NEW.program_sha256 IS NOT OLD.program_sha256 OR NEW.interpreter_sha256 IS NOT OLD.interpreter_sha256
        OR NEW.factor_id IS NOT OLD.factor_id OR NEW.by_uid IS NOT OLD.by_uid
        OR NEW.created_at IS NOT OLD.created_at OR NEW.seal IS NOT OLD.seal;
END;

CREATE TRIGGER op_manifest_stays BEFORE DELETE ON op_manifest
BEGIN
    SELECT RAISE(ABORT, 'manifest.kept|an added op is dropped, not deleted');
END;

CREATE TRIGGER op_manifest_ends AFTER UPDATE OF state ON op_manifest
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'the op was ' || NEW.state
     WHERE op = NEW.name AND state = 'active';
    UPDATE approval SET state = 'expired', decided_at = now_ms() WHERE op = NEW.name AND state = 'pending';
    UPDATE op_probe SET works = 0, why = 'it was ' || NEW.state, probed_at = now_ms() WHERE op = NEW.name;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'op_manifest', NEW.id, NEW.state, '', json_object('op', NEW.name, 'reason', NEW.end_reason));
END;

CREATE TRIGGER op_manifest_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE op_manifest SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored' WHERE state = 'active';
END;

CREATE VIEW added_ops AS
SELECT m.name, m.id, m.manifest ->> '$.summary' AS summary, m.manifest ->> '$.program' AS program,
       CASE WHEN seal_ok('manifest', m.seal_text, m.seal) IS NOT 1 THEN 'changed by another tool'
            WHEN f.state <> 'active' THEN 'its signer is not trusted any more' ELSE 'yes' END AS holds,
       f.label AS signed_with, m.by_uid, m.created_at, m.manifest, m.program_sha256, m.interpreter_sha256
  FROM op_manifest AS m JOIN factor AS f ON f.id = m.factor_id WHERE m.state = 'active';

CREATE VIEW added_op_param AS
SELECT m.name AS op, p.key AS at, p.value ->> '$.type' AS type, coalesce(p.value ->> '$.needed', 1) AS needed,
       coalesce(p.value ->> '$.min', 1) AS low, coalesce(p.value ->> '$.max', 4095) AS high, p.value ->> '$.like' AS pattern
  FROM op_manifest AS m JOIN json_each(m.manifest, '$.params') AS p WHERE m.state = 'active';

CREATE VIEW added_op_ask AS SELECT name AS op, '[]' AS args FROM op_manifest WHERE false;

CREATE TRIGGER added_op_ask_is_held_to_its_params INSTEAD OF INSERT ON added_op_ask
BEGIN
    SELECT RAISE(ABORT, 'op.unknown|there is no op of this name')
     WHERE NOT EXISTS (SELECT 1 FROM op_manifest WHERE name = NEW.op AND state = 'active');
    SELECT RAISE(ABORT, 'manifest.edited|the record of this op was changed by another tool, or its signer is not trusted any more')
     WHERE (SELECT holds FROM added_ops WHERE name = NEW.op) IS NOT 'yes';
    SELECT RAISE(ABORT, 'op.args|the words are not what this op takes')
     WHERE instr(NEW.args, '\u0000') > 0
        OR json_array_length(NEW.args) > (SELECT count(*) FROM added_op_param WHERE op = NEW.op)
        OR EXISTS (SELECT 1 FROM added_op_param AS p LEFT JOIN json_each(NEW.args) AS a ON a.key = p.at
            WHERE p.op = NEW.op AND CASE
                  WHEN a.key IS NULL THEN p.needed
                  WHEN a.type <> 'text' THEN 1
                  WHEN p.type = 'integer' THEN bound_holds('min', p.low, a.value) IS NOT 1
                                            OR bound_holds('max', p.high, a.value) IS NOT 1
                  ELSE length(a.value) NOT BETWEEN p.low AND p.high
                    OR a.value GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
                    OR CASE WHEN p.pattern IS NULL THEN a.value GLOB '-*'
                            ELSE bound_holds('like', p.pattern, a.value) IS NOT 1 END END);
END;

CREATE TRIGGER op_run_of_added_op BEFORE INSERT ON op_run WHEN NEW.op GLOB 'run:*'
BEGIN
    INSERT INTO added_op_ask (op, args) VALUES (NEW.op, NEW.args);
    SELECT refuse('act.tool', s.why, 0)
      FROM op_manifest AS m JOIN json_each(m.manifest, '$.verbs') AS v
      JOIN op_probe AS s ON s.op = v.value ->> 0
     WHERE m.name = NEW.op AND m.state = 'active' AND NOT s.works;
END;

CREATE TRIGGER approval_of_added_op BEFORE INSERT ON approval WHEN NEW.op GLOB 'run:*' AND json_valid(NEW.args)
BEGIN
    INSERT INTO added_op_ask (op, args) VALUES (NEW.op, NEW.args);
END;

CREATE VIEW root_ask AS SELECT '' AS args, '' AS bounds WHERE false;

CREATE TRIGGER root_ask_is_one_command INSTEAD OF INSERT ON root_ask
BEGIN
    SELECT RAISE(ABORT, 'op.args|a command is one text of 1 to 4095 characters')
     WHERE json_array_length(NEW.args) <> 1 OR json_type(NEW.args, '$[0]') IS NOT 'text'
        OR length(NEW.args ->> 0) NOT BETWEEN 1 AND 4095 OR instr(NEW.args, '\u0000') > 0;
    SELECT RAISE(ABORT, 'root.exact|a command as root is approved in its exact words: no bound lets another take its place')
     WHERE json_type(NEW.bounds, '$.command') IS NOT NULL;
    SELECT refuse('root.authority', why, 0) FROM op_probe WHERE op = 'root:exec' AND NOT works;
END;

CREATE TRIGGER op_run_of_root BEFORE INSERT ON op_run WHEN NEW.op = 'root:exec'
BEGIN
    INSERT INTO root_ask (args, bounds) VALUES (NEW.args, NULL);
END;

CREATE TRIGGER approval_of_root BEFORE INSERT ON approval WHEN NEW.op = 'root:exec' AND json_valid(NEW.args)
BEGIN
    INSERT INTO root_ask (args, bounds) VALUES (NEW.args, iif(json_valid(NEW.bounds), NEW.bounds, NULL));
END;

CREATE TABLE program_run (
    op_run_id      INTEGER PRIMARY KEY REFERENCES op_run (id),
    manifest_id    INTEGER REFERENCES op_manifest (id),
    sandbox_run_id INTEGER REFERENCES sandbox_run (id)
) STRICT;

CREATE TRIGGER program_run_holds BEFORE INSERT ON program_run
BEGIN
    SELECT RAISE(ABORT, 'op.output|only a run that was begun runs a program')
     WHERE (SELECT state FROM op_run WHERE id = NEW.op_run_id) IS NOT 'running';
    SELECT RAISE(ABORT, 'manifest.edited|the record of this op was changed by another tool, or its signer is not trusted any more')
     WHERE NEW.manifest_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM added_ops AS a JOIN op_run AS r ON r.op = a.name
                        WHERE r.id = NEW.op_run_id AND a.id = NEW.manifest_id AND a.holds = 'yes');
    SELECT RAISE(ABORT, 'grant.gone|the grant was taken back or is used up')
     WHERE NEW.manifest_id IS NULL
       AND NOT EXISTS (SELECT 1 FROM op_run AS r JOIN grant AS g ON g.id = r.grant_id
                        WHERE r.id = NEW.op_run_id AND r.op = 'root:exec' AND g.kind = 'root' AND g.args = r.args
                          AND g.state IN ('active', 'spent') AND seal_ok('grant', g.seal_text, g.seal) = 1);
END;

CREATE TRIGGER program_run_moves BEFORE UPDATE ON program_run
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what ran is history')
     WHERE NEW.op_run_id IS NOT OLD.op_run_id OR NEW.manifest_id IS NOT OLD.manifest_id
        OR OLD.sandbox_run_id IS NOT NULL;
END;

CREATE TRIGGER program_run_stays BEFORE DELETE ON program_run
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what ran is history');
END;

CREATE TABLE op_cancel (
    op_run_id INTEGER PRIMARY KEY REFERENCES op_run (id),
    asked_at  INTEGER NOT NULL
) STRICT;

CREATE TRIGGER op_cancel_is_of_a_live_run BEFORE INSERT ON op_cancel
BEGIN
    SELECT RAISE(ABORT, 'op.final|a finished run is history')
     WHERE (SELECT finished_at FROM op_run WHERE id = NEW.op_run_id) IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM op_run WHERE id = NEW.op_run_id);
END;

CREATE TRIGGER op_cancel_takes_back AFTER INSERT ON op_cancel
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'op_run', r.id, 'cancel', p.host_name, json_object('op', r.op, 'state', r.state)
      FROM op_run AS r JOIN pairing AS p ON p.id = r.pairing_id WHERE r.id = NEW.op_run_id;
    UPDATE op_run SET state = 'cancelled', finished_at = now_ms() WHERE id = NEW.op_run_id AND state = 'queued';
END;

CREATE TRIGGER op_cancel_stays BEFORE DELETE ON op_cancel
BEGIN
    SELECT RAISE(ABORT, 'op.final|a finished run is history');
END;

CREATE TRIGGER op_cancel_no_update BEFORE UPDATE ON op_cancel
BEGIN
    SELECT RAISE(ABORT, 'op.final|a finished run is history');
END;

CREATE TABLE host_order (
    id         INTEGER PRIMARY KEY,
    box_id     INTEGER NOT NULL REFERENCES host_box (id),
    nonce      TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    kind       TEXT    NOT NULL CHECK (kind IN ('rotate', 'contain')),
    terms      TEXT    NOT NULL CHECK (json_valid(terms) AND length(CAST(terms AS BLOB)) <= 8192),
    signature  BLOB    NOT NULL CHECK (length(signature) = 64),
    state      TEXT    NOT NULL DEFAULT 'waiting'
               CHECK (state IN ('waiting', 'sent', 'answered', 'expired', 'withdrawn')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at),
    sent_at    INTEGER,                                        -- first
    ended_at   INTEGER,
    outcome    TEXT    CHECK (outcome IN ('done', 'refused', 'failed', 'lost')),
    result     TEXT    CHECK (result IS NULL OR (json_valid(result) AND length(result) <= 65536)),
    CHECK ((state IN ('waiting', 'sent')) = (ended_at IS NULL)),
    CHECK ((state = 'answered') = (outcome IS NOT NULL)),
    CHECK ((outcome IS NULL) = (result IS NULL))
) STRICT;

CREATE INDEX host_order_open ON host_order (box_id, id) WHERE ended_at IS NULL;

CREATE TRIGGER host_order_born BEFORE INSERT ON host_order
BEGIN
    SELECT RAISE(ABORT, 'order.transition|an order begins as waiting') WHERE NEW.state <> 'waiting';
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'order.endpoint|an endpoint of this list is not a host:port')
     WHERE NEW.kind = 'rotate'
       AND EXISTS (SELECT 1 FROM json_each(NEW.terms, '$.endpoints')
                    WHERE type <> 'text' OR endpoint_text(value) IS NOT value);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than the setting pairing.endpoints allows')
     WHERE NEW.kind = 'rotate' AND json_array_length(NEW.terms, '$.endpoints')
         NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'pairing.endpoints');
    SELECT RAISE(ABORT, 'order.process|a process to contain has a number from 2 on')
     WHERE NEW.kind = 'contain' AND NOT (NEW.terms ->> '$.pid' BETWEEN 2 AND 2147483647);
    SELECT RAISE(ABORT, 'order.ttl|an order cannot be open for that long')
     WHERE NEW.expires_at - NEW.created_at > (SELECT high FROM setting WHERE name = 'order.ttl_ms');
    SELECT RAISE(ABORT, 'order.busy|more orders wait for this box than the setting order.waiting allows')
     WHERE (SELECT count(*) FROM host_order WHERE box_id = NEW.box_id AND ended_at IS NULL)
        >= (SELECT value FROM setting WHERE name = 'order.waiting');
    SELECT RAISE(ABORT, 'order.signature|an order is what this Host signed, for this box')
     WHERE signed_by('bastion-order-1', (SELECT identity_key FROM box WHERE role = 'host'), NEW.terms,
                     NEW.signature) IS NOT 1
        OR (NEW.terms ->> '$.order') IS NOT NEW.nonce OR (NEW.terms ->> '$.kind') IS NOT NEW.kind
        OR (NEW.terms ->> '$.issued_at') IS NOT NEW.created_at
        OR (NEW.terms ->> '$.expires_at') IS NOT NEW.expires_at
        OR (NEW.terms ->> '$.box_key')
           IS NOT (SELECT lower(hex(box_key)) FROM host_box WHERE id = NEW.box_id);
END;

CREATE TRIGGER host_order_moves BEFORE UPDATE ON host_order
BEGIN
    SELECT RAISE(ABORT, 'order.transition|an order cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'host_order' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'order.final|an order that is over is history')
     WHERE NEW.state IS OLD.state AND OLD.ended_at IS NOT NULL;
    SELECT RAISE(ABORT, 'order.fixed|an order keeps what was signed')
     WHERE NEW.id IS NOT OLD.id OR NEW.box_id IS NOT OLD.box_id OR NEW.nonce IS NOT OLD.nonce
        OR NEW.kind IS NOT OLD.kind OR NEW.terms IS NOT OLD.terms OR NEW.signature IS NOT OLD.signature
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at;
END;

CREATE TRIGGER host_order_stays BEFORE DELETE ON host_order
BEGIN
    SELECT RAISE(ABORT, 'order.final|an order is withdrawn, not deleted');
END;

CREATE TRIGGER host_order_audit_birth AFTER INSERT ON host_order
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'host_order', NEW.id, NEW.state, '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'terms', json(NEW.terms)));
END;

CREATE TRIGGER host_order_audit_move AFTER UPDATE OF state ON host_order WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'host_order', NEW.id, NEW.state, '',
            json_object('order', NEW.nonce, 'outcome', NEW.outcome, 'result', json(NEW.result)));
END;

CREATE TRIGGER host_order_ends_with_box AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    UPDATE host_order SET state = 'withdrawn', ended_at = NEW.gone_at
     WHERE box_id = NEW.id AND ended_at IS NULL;
END;

CREATE VIEW host_order_due AS
SELECT id, box_id, terms, signature
  FROM (SELECT *, row_number() OVER through AS place, sum(length(terms)) OVER through AS long
          FROM host_order WHERE ended_at IS NULL AND expires_at > now_ms()
        WINDOW through AS (PARTITION BY box_id ORDER BY id))
 WHERE place <= (SELECT value FROM setting WHERE name = 'order.batch')
   AND long <= (SELECT low / 4 FROM setting WHERE name = 'beat.bytes');

CREATE VIEW orders AS
SELECT o.id, b.name AS box, o.kind,
       CASE o.kind WHEN 'rotate' THEN o.terms -> '$.endpoints'
            ELSE coalesce((o.terms ->> '$.exe') || ' ', '') || (o.terms ->> '$.pid') END AS what,
       o.state, o.outcome, o.result, o.created_at, o.sent_at, o.ended_at, o.expires_at
  FROM host_order AS o JOIN host_box AS b ON b.id = o.box_id;

CREATE TABLE directive (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    nonce      TEXT    NOT NULL CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    kind       TEXT    NOT NULL CHECK (kind IN ('rotate', 'contain')),
    terms      TEXT    NOT NULL CHECK (json_valid(terms) AND length(CAST(terms AS BLOB)) <= 8192),
    signature  BLOB    NOT NULL CHECK (length(signature) = 64),
    signer     BLOB    NOT NULL CHECK (length(signer) = 32),   -- the Host's key at that time
    state      TEXT    NOT NULL DEFAULT 'taken'
               CHECK (state IN ('taken', 'running', 'done', 'refused', 'failed', 'lost')),
    taken_at   INTEGER NOT NULL,
    started_at INTEGER,
    by_uid     INTEGER,                                        -- who carries it out, on the kernel's word
    ended_at   INTEGER,
    result     TEXT    CHECK (result IS NULL OR (json_valid(result) AND length(result) <= 65536)),
    expires_at INTEGER GENERATED ALWAYS AS
               (CASE WHEN json_valid(terms) THEN terms ->> '$.expires_at' END) VIRTUAL,
    UNIQUE (pairing_id, nonce),
    CHECK ((state IN ('taken', 'running')) = (ended_at IS NULL)),
    CHECK ((ended_at IS NULL) = (result IS NULL)),
    CHECK (state <> 'running' OR (started_at IS NOT NULL AND by_uid IS NOT NULL))
) STRICT;

CREATE INDEX directive_open ON directive (id) WHERE ended_at IS NULL;

CREATE INDEX directive_by_time ON directive (pairing_id, taken_at);

CREATE TABLE rotation_endpoint (
    pairing_id   INTEGER NOT NULL REFERENCES pairing (id),
    ord          INTEGER NOT NULL CHECK (ord >= 1),
    endpoint     TEXT    NOT NULL,
    directive_id INTEGER NOT NULL REFERENCES directive (id),
    PRIMARY KEY (pairing_id, ord)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER directive_is_the_hosts BEFORE INSERT ON directive
BEGIN
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.signature|this order is not signed by the Host of this pairing')
     WHERE NEW.signer IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id)
        OR signed_by('bastion-order-1', NEW.signer, NEW.terms, NEW.signature) IS NOT 1;
    SELECT RAISE(ABORT, 'directive.form|this is no order of a Host')
     WHERE CASE WHEN json_valid(NEW.terms) THEN json_type(NEW.terms) IS NOT 'object' ELSE 1 END
        OR length(CAST(NEW.terms AS BLOB)) > 8192;
    SELECT RAISE(ABORT, 'directive.form|this is no order of a Host')
     WHERE (SELECT group_concat(key || ' ' || iif(type = 'false', 'true', type))
              FROM (SELECT key, type FROM json_each(NEW.terms) ORDER BY key)) IS NOT
           CASE NEW.terms ->> '$.kind'
           WHEN 'rotate' THEN 'box_key text,endpoints array,expires_at integer,host text,'
                || 'issued_at integer,kind text,order text'
           WHEN 'contain' THEN 'agent true,box_key text,exe '
                || iif(json_type(NEW.terms, '$.exe') = 'null', 'null', 'text')
                || ',expires_at integer,host text,issued_at integer,kind text,order text,pid integer'
           END
        OR NEW.kind IS NOT NEW.terms ->> '$.kind' OR NEW.nonce IS NOT NEW.terms ->> '$.order';
    SELECT RAISE(ABORT, 'directive.again|this order was taken before')
     WHERE EXISTS (SELECT 1 FROM directive WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce);
    SELECT RAISE(ABORT, 'directive.transition|an order begins as taken')
     WHERE NEW.state <> 'taken' OR NEW.taken_at <> now_ms();
    SELECT RAISE(ABORT, 'directive.other|this order is for another machine, or of another Host')
     WHERE (NEW.terms ->> '$.box_key') IS NOT (SELECT lower(hex(identity_key)) FROM box)
        OR (NEW.terms ->> '$.host')
           IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.time|the time that this order was signed at cannot be')
     WHERE (NEW.terms ->> '$.issued_at')
           > now_ms() + (SELECT value FROM setting WHERE name = 'lane.skew_ms')
        OR (NEW.terms ->> '$.issued_at') < (SELECT since FROM pairing WHERE id = NEW.pairing_id)
           - (SELECT value FROM setting WHERE name = 'lane.skew_ms')
        OR (NEW.terms ->> '$.expires_at') - (NEW.terms ->> '$.issued_at')
           NOT BETWEEN 1 AND (SELECT high FROM setting WHERE name = 'order.ttl_ms');
    -- (It may have been done since the copy was made.)
    SELECT RAISE(ABORT, 'directive.replayed|this order was signed before this database was restored')
     WHERE (NEW.terms ->> '$.issued_at') <= (SELECT max(restored_at) FROM restore);
    SELECT RAISE(ABORT, 'directive.expired|this order ran out')
     WHERE (NEW.terms ->> '$.expires_at') <= now_ms();
    SELECT RAISE(ABORT, 'directive.busy|this Host orders more than this machine keeps of one day')
     WHERE (SELECT count(*) FROM directive
             WHERE pairing_id = NEW.pairing_id AND taken_at > now_ms() - 86400000)
        >= (SELECT value FROM setting WHERE name = 'order.day');
END;

CREATE TRIGGER directive_may_contain BEFORE UPDATE OF state ON directive
WHEN NEW.state = 'running' AND OLD.state = 'taken'
BEGIN
    SELECT RAISE(ABORT, 'contain.kind|only an order to contain is carried out so') WHERE NEW.kind <> 'contain';
    SELECT RAISE(ABORT, 'contain.authority|processes are stopped with machine authority, by root')
     WHERE NEW.by_uid IS NOT 0;
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held')
     WHERE EXISTS (SELECT 1 FROM held_pairings WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.expired|this order ran out') WHERE NEW.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
     WHERE (SELECT mode FROM box) IS NOT 'local' AND NOT EXISTS (SELECT 1 FROM live_anchor);
    SELECT RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
     WHERE (SELECT mode FROM box) IS NOT 'local'
       AND NEW.pairing_id IS NOT (SELECT pairing_id FROM live_anchor)
       AND NOT EXISTS (SELECT 1 FROM approved_kinds
                        WHERE pairing_id = NEW.pairing_id AND class = 'contain');
    SELECT RAISE(ABORT, 'contain.right|no person allowed this Host to have processes stopped here')
     WHERE NOT EXISTS (SELECT 1 FROM live_contain_rights WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'contain.agents|this Host may not have listed processes stopped here')
     WHERE NEW.terms ->> '$.agent'
       AND NOT EXISTS (SELECT 1 FROM live_contain_rights WHERE pairing_id = NEW.pairing_id AND agents);
    SELECT RAISE(ABORT, 'contain.edited|the list of processes to spare was changed by another tool')
     WHERE NOT EXISTS (SELECT 1 FROM contain_account AS a JOIN contain_account_text AS t
                        WHERE seal_ok('contain', t.text, a.seal) = 1);
END;

CREATE TRIGGER directive_moves BEFORE UPDATE ON directive
BEGIN
    SELECT RAISE(ABORT, 'directive.transition|an order cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'directive' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'directive.final|what became of an order is written once')
     WHERE NEW.state IS OLD.state AND OLD.ended_at IS NOT NULL;
    SELECT RAISE(ABORT, 'directive.fixed|an order keeps what was signed')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.nonce IS NOT OLD.nonce
        OR NEW.kind IS NOT OLD.kind OR NEW.terms IS NOT OLD.terms OR NEW.signature IS NOT OLD.signature
        OR NEW.signer IS NOT OLD.signer OR NEW.taken_at IS NOT OLD.taken_at;
END;

CREATE TRIGGER directive_stays BEFORE DELETE ON directive
BEGIN
    SELECT RAISE(ABORT, 'directive.final|an order is kept for ever, so that it is never done again');
END;

CREATE TRIGGER directive_audit_birth AFTER INSERT ON directive
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'directive', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id), json_object('terms', json(NEW.terms)));
    -- The newest set alone is tried.
    UPDATE directive SET state = 'failed', ended_at = NEW.taken_at,
           result = json_object('code', 'rotate.superseded', 'why', 'a later order took its place')
     WHERE NEW.kind = 'rotate' AND pairing_id = NEW.pairing_id AND kind = 'rotate' AND state = 'taken'
       AND id <> NEW.id;
END;

CREATE TRIGGER directive_audit_move AFTER UPDATE OF state ON directive WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'directive', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('order', NEW.nonce, 'result', json(NEW.result)));
END;

CREATE TRIGGER directive_ends AFTER UPDATE OF state ON directive
WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL
BEGIN
    INSERT INTO directive_untold (directive_id, pairing_id) VALUES (NEW.id, NEW.pairing_id);
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE id = NEW.pairing_id AND active
        ON CONFLICT DO NOTHING;
    INSERT INTO refused (at, pairing_id, surface, asked, code, why)
    SELECT now_ms(), NEW.pairing_id, 'lane', 'order:' || NEW.kind, code, NEW.result ->> '$.why'
      FROM refusal WHERE NEW.state = 'refused' AND code = NEW.result ->> '$.code';
END;

CREATE TRIGGER directive_rotates AFTER UPDATE OF state ON directive
WHEN NEW.kind = 'rotate' AND OLD.state = 'taken' AND NEW.ended_at IS NOT NULL
BEGIN
    DELETE FROM pairing_endpoint WHERE NEW.state = 'done' AND pairing_id = NEW.pairing_id;
    INSERT INTO pairing_endpoint (pairing_id, ord, endpoint)
    SELECT pairing_id, ord, endpoint FROM rotation_endpoint
     WHERE NEW.state = 'done' AND directive_id = NEW.id ORDER BY ord;
    DELETE FROM rotation_endpoint WHERE directive_id = NEW.id;
END;

CREATE TRIGGER rotation_endpoint_is_one BEFORE INSERT ON rotation_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.invalid|an endpoint of this list is not a host:port')
     WHERE endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than the setting pairing.endpoints allows')
     WHERE (SELECT count(*) FROM rotation_endpoint WHERE pairing_id = NEW.pairing_id)
        >= (SELECT value FROM setting WHERE name = 'pairing.endpoints');
    SELECT RAISE(ABORT, 'rotate.none|this Host is not reached by endpoints')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_endpoint WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.transition|endpoints are tried while their order is open')
     WHERE NOT EXISTS (SELECT 1 FROM directive WHERE id = NEW.directive_id AND kind = 'rotate'
                          AND state = 'taken' AND pairing_id = NEW.pairing_id);
END;

CREATE TRIGGER rotation_endpoint_no_update BEFORE UPDATE ON rotation_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.fixed|endpoints are replaced, never edited');
END;

CREATE TRIGGER directive_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE directive SET state = 'failed', ended_at = NEW.ended_at,
           result = json_object('code', 'pairing.inactive', 'why', 'the pairing ended first')
     WHERE pairing_id = NEW.id AND state = 'taken';
END;

CREATE TRIGGER directive_ends_with_code AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    UPDATE directive SET state = 'failed', ended_at = NEW.renewed_at,
           result = json_object('code', 'rotate.superseded', 'why', 'a new pairing code took its place')
     WHERE pairing_id = NEW.id AND kind = 'rotate' AND state = 'taken';
END;

CREATE TABLE directive_untold (
    directive_id INTEGER PRIMARY KEY REFERENCES directive (id),
    pairing_id   INTEGER NOT NULL REFERENCES pairing (id)
) STRICT;

CREATE INDEX directive_untold_by_pairing ON directive_untold (pairing_id, directive_id);

CREATE VIEW untold_result AS
SELECT d.id, u.pairing_id, d.nonce, d.kind, d.state, d.result
  FROM directive_untold AS u JOIN directive AS d ON d.id = u.directive_id;

CREATE VIEW directive_deadline AS
SELECT id, iif(kind = 'rotate',
               taken_at + (SELECT value FROM setting WHERE name = 'rotate.try_ms'), expires_at) AS at
  FROM directive WHERE ended_at IS NULL AND state = 'taken';

CREATE VIEW pairing_dial AS
SELECT pairing_id, ord, endpoint, 1 AS fresh FROM rotation_endpoint
UNION ALL
SELECT e.pairing_id, e.ord + (SELECT count(*) FROM rotation_endpoint AS r WHERE r.pairing_id = e.pairing_id),
       e.endpoint, 0
  FROM pairing_endpoint AS e;

CREATE TRIGGER pairing_endpoint_is_one BEFORE INSERT ON pairing_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.invalid|an endpoint of this list is not a host:port')
     WHERE endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than the setting pairing.endpoints allows')
     WHERE (SELECT count(*) FROM pairing_endpoint WHERE pairing_id = NEW.pairing_id)
        >= (SELECT value FROM setting WHERE name = 'pairing.endpoints');
END;

CREATE TRIGGER pairing_endpoint_audit_birth AFTER INSERT ON pairing_endpoint
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_endpoint', NEW.pairing_id, 'added',
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('ord', NEW.ord, 'endpoint', NEW.endpoint));
END;

CREATE TRIGGER pairing_endpoint_audit_end AFTER DELETE ON pairing_endpoint
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_endpoint', OLD.pairing_id, 'removed',
            (SELECT host_name FROM pairing WHERE id = OLD.pairing_id),
            json_object('ord', OLD.ord, 'endpoint', OLD.endpoint));
END;

CREATE TRIGGER pairing_endpoint_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM pairing_endpoint WHERE pairing_id = NEW.id;
END;

CREATE TRIGGER pairing_endpoint_ends_with_code AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    DELETE FROM pairing_endpoint WHERE pairing_id = NEW.id;
END;

CREATE VIEW pairing_invalid AS
SELECT id, 'no process of this machine can be the user that served this Host' AS reason
  FROM pairing WHERE state <> 'revoked' AND peer_uid >= 4294967295
UNION ALL
SELECT p.id, printf('its endpoint %d is not a host:port',
                    (SELECT min(ord) FROM pairing_endpoint
                      WHERE pairing_id = p.id AND endpoint_text(endpoint) IS NULL))
  FROM pairing AS p
 WHERE (p.peer_uid IS NULL OR p.peer_uid < 4294967295)
   AND EXISTS (SELECT 1 FROM pairing_endpoint
                WHERE pairing_id = p.id AND endpoint_text(endpoint) IS NULL)
UNION ALL
SELECT p.id, 'it is over a network, and what its Host''s authority is was lost'
  FROM pairing AS p
 WHERE p.state <> 'revoked' AND p.transport <> 'unix'
   AND NOT EXISTS (SELECT 1 FROM pairing_tls WHERE pairing_id = p.id);

CREATE VIEW pairing_status AS
SELECT p.id, p.host_name AS host,
       substr(p.host_name, 1, instr(p.host_name || '.', '.') - 1) AS handle,
       CASE WHEN i.reason IS NULL THEN p.state ELSE 'invalid' END AS state,
       i.reason IS NULL AND p.state = 'active' AS active,
       p.id IS (SELECT pairing_id FROM anchor) AS anchor,
       p.transport, p.peer_uid, p.since, p.renewed_at, p.ended_at, t.expires_at, t.caps, i.reason
  FROM pairing AS p
  LEFT JOIN pairing_invalid AS i ON i.id = p.id
  LEFT JOIN anchor_terms AS t ON t.id = p.terms_id;

CREATE TABLE policy_field (
    name     TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
    kind     TEXT    NOT NULL CHECK (kind IN ('mode', 'network', 'autonomy', 'answer', 'bool')),
    fallback TEXT    NOT NULL,
    hardens  INTEGER NOT NULL CHECK (hardens IN (0, 1)),
    doc      TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE policy_value (
    name  TEXT    NOT NULL REFERENCES policy_field (name),
    layer TEXT    NOT NULL CHECK (layer IN ('config', 'person')),
    value TEXT    NOT NULL CHECK (length(value) <= 64 AND instr(value, char(0)) = 0),
    PRIMARY KEY (name, layer)
) STRICT, WITHOUT ROWID;

CREATE TABLE policy_domain (
    kind   TEXT NOT NULL CHECK (kind IN ('allow', 'deny')),
    domain TEXT NOT NULL CHECK (length(domain) BETWEEN 1 AND 253 AND domain = lower(trim(domain))
                AND instr(domain, char(0)) = 0 AND domain NOT GLOB '*[:/ ]*' AND domain NOT GLOB '*.'
                AND domain NOT GLOB '.*'),
    PRIMARY KEY (kind, domain)
) STRICT, WITHOUT ROWID;

CREATE TABLE policy_path (
    kind TEXT NOT NULL
         CHECK (kind IN ('allow_read', 'deny_read', 'allow_write', 'deny_write', 'write_root')),
    path TEXT NOT NULL CHECK (length(path) BETWEEN 1 AND 4095 AND trim(path) = path
              AND instr(path, char(0)) = 0),
    PRIMARY KEY (kind, path)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER policy_path_count BEFORE INSERT ON policy_path
BEGIN
    SELECT RAISE(ABORT, 'policy.full|this list of paths is as long as it may be')
     WHERE (SELECT count(*) FROM policy_path WHERE kind = NEW.kind)
           >= (SELECT value FROM setting WHERE name = 'policy.paths');
END;

CREATE VIEW policy_now AS
SELECT f.name, f.kind,
       CASE f.kind
       WHEN 'autonomy' THEN CASE
           WHEN p.value <> '' THEN iif(p.value IN ('low', 'medium', 'high'), p.value, 'low')
           WHEN c.value <> '' THEN iif(c.value IN ('low', 'medium', 'high'), c.value, 'low')
           ELSE f.fallback END
       WHEN 'mode' THEN iif(p.value IN ('enforce', 'disabled'), p.value, f.fallback)
       WHEN 'answer' THEN iif(p.value IN ('deny', 'prompt'), p.value, f.fallback)
       WHEN 'network' THEN CASE
           WHEN p.value IN ('deny', 'allow', 'scoped') THEN p.value
           WHEN c.value IN ('deny', 'allow') THEN c.value
           ELSE f.fallback END
       ELSE CASE
           WHEN f.hardens AND c.value = '1' THEN '1'
           WHEN p.value IN ('0', '1') THEN p.value
           ELSE f.fallback END
       END AS value,
       CASE WHEN p.value IS NOT NULL THEN 'person' WHEN c.value IS NOT NULL THEN 'config'
            ELSE 'default' END AS source,
       f.doc
  FROM policy_field AS f
  LEFT JOIN (SELECT name, lower(trim(value)) AS value FROM policy_value WHERE layer = 'person') AS p
         ON p.name = f.name
  LEFT JOIN (SELECT name, lower(trim(value)) AS value FROM policy_value WHERE layer = 'config') AS c
         ON c.name = f.name;

CREATE VIEW policy_json AS
SELECT json_group_object(name, value) AS policy
  FROM (SELECT name, value FROM policy_now ORDER BY name);

CREATE TRIGGER policy_value_audit AFTER INSERT ON policy_value
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', NEW.name, 'set', '',
            json_object('value', NEW.value, 'layer', NEW.layer));
END;

CREATE TRIGGER policy_value_audit_change AFTER UPDATE ON policy_value
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', NEW.name, 'set', '',
            json_object('value', NEW.value, 'layer', NEW.layer, 'was', OLD.value));
END;

CREATE TRIGGER policy_value_audit_end AFTER DELETE ON policy_value
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', OLD.name, 'unset', '',
            json_object('layer', OLD.layer, 'was', OLD.value));
END;

CREATE TRIGGER policy_path_audit AFTER INSERT ON policy_path
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', NEW.kind, 'added', '', json_object('path', NEW.path));
END;

CREATE TRIGGER policy_path_audit_end AFTER DELETE ON policy_path
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', OLD.kind, 'removed', '', json_object('path', OLD.path));
END;

CREATE TRIGGER policy_domain_audit AFTER INSERT ON policy_domain
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', 'domain', 'added', '',
            json_object('kind', NEW.kind, 'domain', NEW.domain));
END;

CREATE TRIGGER policy_domain_audit_end AFTER DELETE ON policy_domain
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', 'domain', 'removed', '',
            json_object('kind', OLD.kind, 'domain', OLD.domain));
END;

CREATE TABLE tool_grant (
    id           INTEGER PRIMARY KEY,
    tool         TEXT    NOT NULL CHECK (length(tool) BETWEEN 1 AND 128
                         AND tool NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(tool, char(0)) = 0),
    scope_kind   TEXT    NOT NULL CHECK (scope_kind IN ('', 'file', 'dir')),
    scope        TEXT    NOT NULL CHECK (length(scope) <= 4095 AND instr(scope, char(0)) = 0),
    decision     TEXT    NOT NULL CHECK (decision IN ('allow', 'deny')),
    max_autonomy TEXT    NOT NULL CHECK (max_autonomy IN ('low', 'medium', 'high')),
    reason       TEXT    NOT NULL CHECK (length(reason) <= 512 AND instr(reason, char(0)) = 0),
    approved_at  INTEGER NOT NULL,
    -- The bytes under the seal: an allow that another tool edited holds nothing.
    seal_text    TEXT    GENERATED ALWAYS AS
                 (json_array('tool_grant', tool, scope_kind, scope, decision, max_autonomy,
                             approved_at)) VIRTUAL,
    seal         BLOB    NOT NULL CHECK (length(seal) = 64),
    state        TEXT    NOT NULL DEFAULT 'active'
                 CHECK (state IN ('active', 'replaced', 'revoked')),
    ended_at     INTEGER,
    CHECK ((scope_kind = '') = (scope = '')),
    CHECK (scope = '' OR scope GLOB '/*'),
    CHECK ((state = 'active') = (ended_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX tool_grant_one ON tool_grant (tool, scope_kind, scope) WHERE state = 'active';

CREATE TRIGGER tool_grant_born BEFORE INSERT ON tool_grant
BEGIN
    SELECT RAISE(ABORT, 'tool_grant.tool|a tool has letters, digits, dots, dashes and underscores')
     WHERE length(NEW.tool) NOT BETWEEN 1 AND 128 OR NEW.tool GLOB '*[^A-Za-z0-9._-]*'
        OR instr(NEW.tool, char(0)) > 0;
    SELECT RAISE(ABORT, 'tool_grant.terms|it is allow or deny, up to low, medium or high')
     WHERE NEW.decision NOT IN ('allow', 'deny')
        OR NEW.max_autonomy NOT IN ('low', 'medium', 'high');
    SELECT RAISE(ABORT, 'tool_grant.seal|the seal of this grant is not of this machine')
     WHERE seal_ok('tool_grant', NEW.seal_text, NEW.seal) IS NOT 1;
    SELECT RAISE(ABORT, 'tool_grant.transition|a grant begins as active')
     WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'tool_grant.full|as many tool grants are held as may be')
     WHERE (SELECT count(*) FROM tool_grant WHERE state = 'active')
           >= (SELECT value FROM setting WHERE name = 'policy.tool_grants');
    -- Granting the same again takes the place of what was granted.
    UPDATE tool_grant SET state = 'replaced', ended_at = NEW.approved_at
     WHERE state = 'active' AND tool = NEW.tool AND scope_kind = NEW.scope_kind
       AND scope = NEW.scope;
END;

CREATE TRIGGER tool_grant_moves BEFORE UPDATE ON tool_grant
BEGIN
    SELECT RAISE(ABORT, 'tool_grant.final|an ended grant stays ended')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'tool_grant' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'tool_grant.fixed|the terms of a grant never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.tool IS NOT OLD.tool OR NEW.scope_kind IS NOT OLD.scope_kind
        OR NEW.scope IS NOT OLD.scope OR NEW.decision IS NOT OLD.decision
        OR NEW.max_autonomy IS NOT OLD.max_autonomy OR NEW.reason IS NOT OLD.reason
        OR NEW.approved_at IS NOT OLD.approved_at OR NEW.seal IS NOT OLD.seal;
END;

CREATE TRIGGER tool_grant_stays BEFORE DELETE ON tool_grant
BEGIN
    SELECT RAISE(ABORT, 'tool_grant.kept|a grant is revoked, not deleted');
END;

CREATE TRIGGER tool_grant_audit_birth AFTER INSERT ON tool_grant
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'tool_grant', NEW.id, NEW.state, '',
            json_object('tool', NEW.tool, 'scope', NEW.scope, 'kind', NEW.scope_kind,
                        'decision', NEW.decision, 'max_autonomy', NEW.max_autonomy,
                        'reason', NEW.reason));
END;

CREATE TRIGGER tool_grant_audit_move AFTER UPDATE OF state ON tool_grant
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'tool_grant', NEW.id, NEW.state, '',
            json_object('tool', NEW.tool, 'scope', NEW.scope));
END;

CREATE TRIGGER restore_takes_back_tool_grants AFTER INSERT ON restore
BEGIN
    UPDATE tool_grant SET state = 'revoked', ended_at = now_ms()
     WHERE state = 'active' AND decision = 'allow';
END;

CREATE VIEW live_tool_grants AS
SELECT id, tool, scope_kind, scope, decision, max_autonomy, approved_at, reason
  FROM tool_grant WHERE state = 'active';

CREATE TABLE decision (
    id             INTEGER PRIMARY KEY,
    at             INTEGER NOT NULL,
    session        TEXT    NOT NULL DEFAULT '' CHECK (length(session) <= 128),
    workspace      TEXT    NOT NULL DEFAULT '' CHECK (length(workspace) <= 4095),
    tool           TEXT    NOT NULL CHECK (length(tool) BETWEEN 1 AND 128),
    side_effect    TEXT    NOT NULL CHECK (side_effect IN
                   ('read', 'write', 'shell', 'network', 'out_of_workspace', 'none')),
    permission     TEXT    NOT NULL CHECK (permission IN ('allow', 'prompt', 'deny')),
    granted        INTEGER NOT NULL CHECK (granted IN (0, 1)),    -- a person answered yes already
    mode           TEXT    NOT NULL CHECK (mode IN ('auto', 'ask', 'unsafe')),
    autonomy       TEXT    NOT NULL CHECK (length(autonomy) <= 64), -- as it was written
    args_sha256    BLOB    NOT NULL CHECK (length(args_sha256) = 32),
    path           TEXT    NOT NULL DEFAULT '',     -- what a grant for a file or directory would name
    real_path      TEXT    NOT NULL DEFAULT '',     -- where that leads
    risk_level     TEXT    NOT NULL CHECK (risk_level IN ('low', 'medium', 'high', 'critical')),
    categories     TEXT    NOT NULL CHECK (json_valid(categories) AND json_type(categories) = 'array'),
    violation_code TEXT    CHECK (violation_code IN
                   ('outside_workspace', 'symlink_traversal', 'policy_denied')),
    violation_path TEXT,
    violation_why  TEXT,
    cancelled      INTEGER NOT NULL CHECK (cancelled IN (0, 1)),
    confined       INTEGER NOT NULL CHECK (confined IN (0, 1)),   -- a sandbox of ours would hold it
    scoped         INTEGER NOT NULL CHECK (scoped IN (0, 1)),     -- and its way out goes by domains
    policy         TEXT    NOT NULL CHECK (json_valid(policy)),   -- as it was at that time
    CHECK ((violation_code IS NULL) = (violation_why IS NULL))
) STRICT;

CREATE TABLE decision_found (
    decision_id INTEGER PRIMARY KEY REFERENCES decision (id),
    network     TEXT    NOT NULL CHECK (network IN ('deny', 'allow', 'scoped')),
    above       INTEGER NOT NULL CHECK (above IN (0, 1)),     -- more autonomy than the policy's ceiling
    grant_id    INTEGER REFERENCES tool_grant (id),
    grant_says  TEXT    CHECK (grant_says IN ('allow', 'deny')),
    CHECK ((grant_id IS NULL) = (grant_says IS NULL))
) STRICT;

CREATE TABLE gate (
    ord  INTEGER PRIMARY KEY CHECK (ord BETWEEN 1 AND 16),
    name TEXT    NOT NULL UNIQUE,
    asks TEXT    NOT NULL
) STRICT;

CREATE TABLE decision_gate (
    decision_id INTEGER NOT NULL REFERENCES decision (id),
    ord         INTEGER NOT NULL REFERENCES gate (ord),
    gate        TEXT    NOT NULL,
    action      TEXT    CHECK (action IN ('allow', 'deny', 'prompt')),  -- NULL: it let it by
    code        TEXT    CHECK (code IN ('context_canceled', 'denied_permission', 'outside_workspace',
                        'symlink_traversal', 'network', 'destructive_command', 'persistent_deny',
                        'policy_denied')),
    why         TEXT    NOT NULL,
    grant_id    INTEGER REFERENCES tool_grant (id),
    PRIMARY KEY (decision_id, ord),
    CHECK ((code IS NOT NULL) = (action IS 'deny'))
) STRICT, WITHOUT ROWID;

CREATE VIEW autonomy_rank AS
SELECT '' AS name, 0 AS rank UNION ALL SELECT 'low', 0 UNION ALL SELECT 'medium', 1
UNION ALL SELECT 'high', 2;

CREATE VIEW policy_network AS
SELECT p.value AS asked, s.scoped,
       iif(p.value = 'scoped' AND (NOT s.scoped
           OR NOT EXISTS (SELECT 1 FROM policy_domain WHERE kind = 'allow')), 'deny', p.value) AS value
  FROM policy_now AS p, (SELECT 0 AS scoped UNION ALL SELECT 1) AS s
 WHERE p.name = 'network';

CREATE VIEW decision_grant AS
SELECT d.id AS decision_id, g.id AS grant_id, g.decision, g.scope_kind, g.scope, g.approved_at
  FROM decision AS d JOIN tool_grant AS g ON g.tool = d.tool AND g.state = 'active'
 WHERE CASE
       WHEN g.decision = 'deny' THEN g.scope_kind = '' OR d.path = g.scope OR d.real_path = g.scope
            OR (g.scope_kind = 'dir' AND d.path <> '' AND (g.scope = '/'
                OR substr(d.path, 1, length(g.scope) + 1) = g.scope || '/'
                OR substr(d.real_path, 1, length(g.scope) + 1) = g.scope || '/'))
       WHEN g.scope_kind = '' OR (d.path <> '' AND d.real_path = g.scope)
            OR (g.scope_kind = 'dir' AND d.real_path <> '' AND (g.scope = '/'
                OR substr(d.real_path, 1, length(g.scope) + 1) = g.scope || '/'))
            THEN coalesce((SELECT rank FROM autonomy_rank WHERE name = lower(trim(d.autonomy))), 2)
                 <= (SELECT rank FROM autonomy_rank WHERE name = g.max_autonomy)
                 AND seal_ok('tool_grant', g.seal_text, g.seal) IS 1
       ELSE 0 END;

CREATE VIEW decision_finds AS
SELECT d.id AS decision_id, n.value AS network,
       coalesce((SELECT rank FROM autonomy_rank WHERE name = lower(trim(d.autonomy))), 3)
           > (SELECT rank FROM autonomy_rank WHERE name = d.policy ->> '$.max_autonomy') AS above,
       -- The file goes before its directory, the deepest of these before the tool.
       (SELECT g.grant_id FROM decision_grant AS g WHERE g.decision_id = d.id
         ORDER BY g.decision = 'deny' DESC, g.scope_kind = 'file' DESC, g.scope_kind = 'dir' DESC,
                  length(g.scope) DESC, g.approved_at DESC, g.grant_id DESC LIMIT 1) AS grant_id
  FROM decision AS d JOIN policy_network AS n ON n.scoped = d.scoped;

CREATE VIEW gate_says AS
SELECT d.id AS decision_id, g.ord, g.name AS gate,
       CASE g.name
       WHEN 'cancelled' THEN iif(d.cancelled, 'deny', NULL)
       WHEN 'mode' THEN iif(d.policy ->> '$.mode' = 'disabled', 'allow', NULL)
       WHEN 'permission' THEN iif(d.permission = 'deny', 'deny', NULL)
       WHEN 'paths' THEN iif(d.violation_code IS NULL, NULL, 'deny')
       WHEN 'network' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'network')
              OR f.network <> 'deny' THEN NULL
            WHEN d.side_effect = 'network' AND d.policy ->> '$.enforce_tool_network' = '0' THEN NULL
            WHEN d.policy ->> '$.on_network' = 'prompt' THEN iif(d.granted, NULL, 'prompt')
            ELSE 'deny' END
       WHEN 'destructive' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'destructive')
              OR d.policy ->> '$.deny_destructive_shell' = '0' THEN NULL
            WHEN d.policy ->> '$.on_destructive' = 'prompt' THEN iif(d.granted, NULL, 'prompt')
            ELSE 'deny' END
       WHEN 'denied' THEN iif(f.grant_says = 'deny', 'deny', NULL)
       WHEN 'unclear' THEN iif(d.policy ->> '$.ask_unclear' = '1' AND NOT d.granted
            AND EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value IN ('unparseable_command',
                        'piped_installer', 'unseen_script', 'unknown_program')), 'prompt', NULL)
       WHEN 'allowed' THEN iif(f.grant_says = 'allow', iif(f.above, 'prompt', 'allow'), NULL)
       WHEN 'tool' THEN iif(d.permission = 'allow', 'allow', NULL)
       WHEN 'sandboxed' THEN iif(d.side_effect = 'shell' AND d.confined
            AND d.policy ->> '$.auto_allow_shell' = '1', iif(f.above, 'prompt', 'allow'), NULL)
       WHEN 'answered' THEN
            iif(d.granted OR d.mode = 'unsafe', iif(f.above, 'prompt', 'allow'), NULL)
       WHEN 'otherwise' THEN 'prompt'
       END AS action,
       CASE g.name
       WHEN 'cancelled' THEN iif(d.cancelled, 'context_canceled', NULL)
       WHEN 'permission' THEN iif(d.permission = 'deny', 'denied_permission', NULL)
       WHEN 'paths' THEN d.violation_code
       WHEN 'network' THEN iif(f.network = 'deny' AND d.policy ->> '$.on_network' = 'deny'
            AND NOT (d.side_effect = 'network' AND d.policy ->> '$.enforce_tool_network' = '0')
            AND EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'network'),
            'network', NULL)
       WHEN 'destructive' THEN iif(d.policy ->> '$.deny_destructive_shell' = '1'
            AND d.policy ->> '$.on_destructive' = 'deny'
            AND EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'destructive'),
            'destructive_command', NULL)
       WHEN 'denied' THEN iif(f.grant_says = 'deny', 'persistent_deny', NULL)
       END AS code,
       CASE g.name
       WHEN 'cancelled' THEN iif(d.cancelled, 'the ask was cancelled', 'the ask still stands')
       WHEN 'autonomy' THEN CASE
            WHEN d.autonomy = '' THEN 'none was named: low'
            WHEN lower(trim(d.autonomy)) IN ('low', 'medium', 'high') THEN lower(trim(d.autonomy))
            ELSE 'no such level: it counts as above every ceiling' END
       WHEN 'risk' THEN d.risk_level || iif(d.categories = '[]', '', ' risk: '
            || (SELECT group_concat(value, ', ') FROM json_each(d.categories)))
       WHEN 'mode' THEN 'the policy is ' || iif(d.policy ->> '$.mode' = 'disabled', 'disabled', 'enforced')
       WHEN 'permission' THEN 'the tool itself is set to ' || d.permission
       WHEN 'paths' THEN coalesce(d.violation_path || ': ' || d.violation_why,
            'no path breaks the lists or leaves the workspace')
       WHEN 'network' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'network')
            THEN 'it does not use the network'
            WHEN f.network <> 'deny' THEN 'the policy says ' || f.network
            WHEN d.side_effect = 'network' AND d.policy ->> '$.enforce_tool_network' = '0'
            THEN 'a network tool that the policy leaves alone'
            ELSE 'it uses the network, and the policy has no way out' END
       WHEN 'destructive' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'destructive')
            THEN 'nothing in it destroys'
            WHEN d.policy ->> '$.deny_destructive_shell' = '0' THEN 'it destroys, which the policy allows'
            ELSE 'it destroys what cannot be brought back' END
       WHEN 'denied' THEN iif(f.grant_says = 'deny',
            'a person always denies this: tool grant ' || f.grant_id, 'nobody always denies it')
       WHEN 'unclear' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value IN
                ('unparseable_command', 'piped_installer', 'unseen_script', 'unknown_program'))
            THEN 'its text says what it runs'
            WHEN d.policy ->> '$.ask_unclear' = '0'
            THEN 'what it runs is not in its text, which the policy takes'
            WHEN d.granted THEN 'what it runs is not in its text, and a person said yes'
            ELSE 'what it runs is not in its text' END
       WHEN 'allowed' THEN CASE
            WHEN f.grant_says IS NOT 'allow' THEN 'nobody always allows it'
            WHEN f.above THEN 'above the policy ceiling'
            ELSE 'a person always allows this: tool grant ' || f.grant_id END
       WHEN 'tool' THEN 'the tool itself is set to ' || d.permission
       WHEN 'sandboxed' THEN CASE
            WHEN d.side_effect <> 'shell' THEN 'it is no shell command'
            WHEN NOT d.confined THEN 'no sandbox would hold it'
            WHEN d.policy ->> '$.auto_allow_shell' = '0'
            THEN 'a sandbox would hold it, but the policy asks'
            WHEN f.above THEN 'above the policy ceiling'
            ELSE 'a sandbox holds it' END
       WHEN 'answered' THEN CASE
            WHEN NOT d.granted AND d.mode <> 'unsafe' THEN 'nobody said yes to it'
            WHEN f.above THEN 'above the policy ceiling'
            WHEN d.granted THEN 'a person said yes' ELSE 'the session asks nobody (unsafe)' END
       ELSE 'a person decides'
       END AS why,
       iif(g.name = iif(f.grant_says = 'deny', 'denied', 'allowed'), f.grant_id, NULL) AS grant_id
  FROM decision AS d JOIN decision_found AS f ON f.decision_id = d.id CROSS JOIN gate AS g;

CREATE TRIGGER decision_by_this_policy BEFORE INSERT ON decision
BEGIN
    SELECT RAISE(ABORT, 'policy.snapshot|a decision goes by the policy that is in force')
     WHERE NEW.policy IS NOT (SELECT policy FROM policy_json);
END;

CREATE TRIGGER decision_passes_gates AFTER INSERT ON decision
BEGIN
    INSERT INTO decision_found (decision_id, network, above, grant_id, grant_says)
    SELECT f.decision_id, f.network, f.above, f.grant_id, g.decision
      FROM decision_finds AS f LEFT JOIN tool_grant AS g ON g.id = f.grant_id
     WHERE f.decision_id = NEW.id;
    INSERT INTO decision_gate (decision_id, ord, gate, action, code, why, grant_id)
    SELECT decision_id, ord, gate, action, code, why, grant_id FROM gate_says
     WHERE decision_id = NEW.id
       AND ord <= (SELECT min(ord) FROM gate_says WHERE decision_id = NEW.id AND action IS NOT NULL);
END;

CREATE TRIGGER decision_is_history BEFORE UPDATE ON decision
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE VIEW decision_kept AS
SELECT iif(value > 0, now_ms() - value * 86400000, 0) AS since FROM setting WHERE name = 'retention.decision';

CREATE TRIGGER decision_stays BEFORE DELETE ON decision
WHEN OLD.at >= (SELECT since FROM decision_kept) OR OLD.id = (SELECT max(id) FROM decision)
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE TRIGGER decision_gate_is_history BEFORE UPDATE ON decision_gate
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE TRIGGER decision_gate_stays BEFORE DELETE ON decision_gate
WHEN (SELECT at FROM decision WHERE id = OLD.decision_id) >= (SELECT since FROM decision_kept)
  OR OLD.decision_id = (SELECT max(id) FROM decision)
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE TRIGGER decision_found_is_history BEFORE UPDATE ON decision_found
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE TRIGGER decision_found_stays BEFORE DELETE ON decision_found
WHEN (SELECT at FROM decision WHERE id = OLD.decision_id) >= (SELECT since FROM decision_kept)
  OR OLD.decision_id = (SELECT max(id) FROM decision)
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE VIEW decision_due AS
SELECT max(id) AS gone_to, count(*) AS n
  FROM (SELECT id FROM decision
         WHERE id < (SELECT min(id) FROM decision
                      WHERE at >= (SELECT since FROM decision_kept) OR id = (SELECT max(id) FROM decision))
         ORDER BY id LIMIT (SELECT value FROM setting WHERE name = 'retention.batch'))
HAVING count(*) > 0;

CREATE TRIGGER decision_due_goes INSTEAD OF DELETE ON decision_due
BEGIN
    DELETE FROM decision_gate WHERE decision_id <= OLD.gone_to;
    DELETE FROM decision_found WHERE decision_id <= OLD.gone_to;
    DELETE FROM decision WHERE id <= OLD.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', 'decision', 'removed', '',
           json_object('rows', OLD.n, 'to', OLD.gone_to, 'days', value)
      FROM setting WHERE name = 'retention.decision';
END;

CREATE VIEW decision_made AS
SELECT d.id, d.at, d.session, d.tool, d.side_effect, d.autonomy, d.risk_level, d.categories,
       g.action, g.gate, g.code, g.why, g.grant_id,
       g.gate = 'sandboxed' AND g.action = 'allow' AS auto_allowed,
       g.code IS 'persistent_deny' AS recoverable,
       d.violation_path AS path
  FROM decision AS d JOIN decision_gate AS g ON g.decision_id = d.id AND g.action IS NOT NULL;

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

CREATE TRIGGER instance_audit_birth AFTER INSERT ON instance
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'instance', NEW.id, NEW.state, '',
            json_object('epoch', NEW.epoch, 'role', NEW.role, 'version', NEW.version));
END;

CREATE TRIGGER instance_audit_move AFTER UPDATE OF state ON instance WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'instance', NEW.id, NEW.state, '',
            json_object('from', OLD.state, 'reason', NEW.end_reason));
END;

CREATE TRIGGER actor_run_audit AFTER UPDATE OF state ON actor_run WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'actor', NEW.id, NEW.state, '',
            json_object('actor', NEW.actor, 'attempt', NEW.attempt, 'exit', NEW.exit_code,
                        'signal', NEW.term_signal));
END;

CREATE TRIGGER actor_run_closes AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE op_run SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'running';
    UPDATE folder_walk SET state = 'done' WHERE state IN ('reading', 'stuck');
END;

CREATE TRIGGER actor_run_closes_directives AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE directive SET state = 'lost', ended_at = NEW.ended_at,
           result = json_object('code', 'directive.lost', 'why', 'the worker ended before the order did')
     WHERE state = 'running';
END;

CREATE TRIGGER actor_run_closes_calls AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'link' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE call SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'sent';
END;

CREATE TRIGGER actor_run_closes_flows AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'egress' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE egress_flow SET state = 'lost', ended_at = NEW.ended_at WHERE ended_at IS NULL AND run_id IS NULL;
END;

CREATE TRIGGER actor_run_closes_lines AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'net' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE box_line SET up = 0, changed_at = NEW.ended_at WHERE up > 0;
END;

CREATE TABLE strike (
    code TEXT PRIMARY KEY REFERENCES refusal (code) CHECK (code NOT GLOB 'lane.*')
) STRICT, WITHOUT ROWID;

CREATE TABLE quarantine (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    state      TEXT    NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'lapsed', 'lifted')),
    strikes    INTEGER NOT NULL CHECK (strikes >= 1),
    last       INTEGER NOT NULL,                               -- the refused ask that it began with
    from_at    INTEGER NOT NULL,
    until_at   INTEGER NOT NULL CHECK (until_at > from_at),
    ended_at   INTEGER,
    by_uid     INTEGER CHECK (by_uid >= 0),                    -- who lifted it
    CHECK ((state = 'held') = (ended_at IS NULL)),
    CHECK ((state = 'lifted') = (by_uid IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX quarantine_once ON quarantine (pairing_id) WHERE state = 'held';

CREATE INDEX quarantine_by_pairing ON quarantine (pairing_id, id);

CREATE TRIGGER quarantine_born BEFORE INSERT ON quarantine WHEN NEW.state <> 'held'
BEGIN
    SELECT RAISE(ABORT, 'quarantine.transition|a hold begins as held');
END;

CREATE TRIGGER quarantine_moves BEFORE UPDATE ON quarantine
BEGIN
    SELECT RAISE(ABORT, 'quarantine.transition|a hold that is over stays over')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'quarantine' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'quarantine.early|a hold lapses when its time is over')
     WHERE NEW.state = 'lapsed' AND OLD.until_at > now_ms();
    SELECT RAISE(ABORT, 'quarantine.late|this hold is over already')
     WHERE NEW.state = 'lifted' AND OLD.until_at <= now_ms();
    SELECT RAISE(ABORT, 'quarantine.fixed|a hold keeps its Host and its time')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.strikes IS NOT OLD.strikes OR NEW.last IS NOT OLD.last
        OR NEW.from_at IS NOT OLD.from_at OR NEW.until_at IS NOT OLD.until_at;
END;

CREATE TRIGGER quarantine_stays BEFORE DELETE ON quarantine
BEGIN
    SELECT RAISE(ABORT, 'quarantine.kept|a hold is lifted, not deleted');
END;

CREATE TRIGGER quarantine_audit_birth AFTER INSERT ON quarantine
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'quarantine', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('strikes', NEW.strikes, 'until_at', NEW.until_at));
END;

CREATE TRIGGER quarantine_audit_move AFTER UPDATE OF state ON quarantine
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'quarantine', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id), json_object('by', NEW.by_uid));
END;

CREATE VIEW held_pairings AS
SELECT q.id, q.pairing_id, p.host_name AS host, q.strikes, q.from_at, q.until_at
  FROM quarantine AS q JOIN pairing AS p ON p.id = q.pairing_id
 WHERE q.state = 'held' AND q.until_at > now_ms();

CREATE INDEX refused_by_pairing ON refused (pairing_id, at);

CREATE TRIGGER refused_strikes AFTER INSERT ON refused
WHEN EXISTS (SELECT 1 FROM strike WHERE code = NEW.code)
 AND EXISTS (SELECT 1 FROM pairing WHERE id = NEW.pairing_id AND state <> 'revoked')
 AND NOT EXISTS (SELECT 1 FROM held_pairings WHERE pairing_id = NEW.pairing_id)
 AND (SELECT count(*) FROM refused AS r JOIN strike AS s ON s.code = r.code
       WHERE r.pairing_id = NEW.pairing_id
         AND r.at > now_ms() - (SELECT value FROM setting WHERE name = 'quarantine.window_ms')
         AND r.id > coalesce((SELECT max(last) FROM quarantine WHERE pairing_id = NEW.pairing_id), 0))
  >= (SELECT value FROM setting WHERE name = 'quarantine.strikes')
BEGIN
    UPDATE quarantine SET state = 'lapsed', ended_at = now_ms()
     WHERE pairing_id = NEW.pairing_id AND state = 'held' AND until_at <= now_ms();
    INSERT INTO quarantine (pairing_id, strikes, last, from_at, until_at)
    SELECT NEW.pairing_id, (SELECT value FROM setting WHERE name = 'quarantine.strikes'), NEW.id, now_ms(),
           now_ms() + max(b.value, min(2 * coalesce(h.length, 0), c.value))
      FROM setting AS b JOIN setting AS c ON c.name = 'quarantine.cap_ms'
      LEFT JOIN (SELECT until_at - from_at AS length FROM quarantine
                  WHERE pairing_id = NEW.pairing_id AND state = 'lapsed'
                    AND until_at > now_ms()
                        - (SELECT value FROM setting WHERE name = 'quarantine.forget_ms')
                    AND id = (SELECT max(id) FROM quarantine WHERE pairing_id = NEW.pairing_id)) AS h
     WHERE b.name = 'quarantine.base_ms';
END;

CREATE TRIGGER op_run_not_held BEFORE INSERT ON op_run
WHEN EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held'
                AND until_at > now_ms())
BEGIN
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held');
END;

CREATE TRIGGER approval_not_held BEFORE INSERT ON approval
WHEN EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held'
                AND until_at > now_ms())
BEGIN
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held');
END;

CREATE TABLE refused_stretch (
    pairing_id INTEGER NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind IN ('unproven', 'refused', 'strike')),
    since      INTEGER NOT NULL,
    kept       INTEGER NOT NULL CHECK (kept >= 0),
    dropped    INTEGER NOT NULL DEFAULT 0 CHECK (dropped >= 0),
    PRIMARY KEY (pairing_id, kind)
) STRICT, WITHOUT ROWID;

CREATE VIEW refused_dropped AS
SELECT coalesce(p.host_name, '') AS host, r.kind, r.since, r.kept, r.dropped
  FROM refused_stretch AS r LEFT JOIN pairing AS p ON p.id = r.pairing_id WHERE r.dropped > 0;

CREATE TRIGGER refused_stretch_audit AFTER UPDATE OF dropped ON refused_stretch
WHEN NEW.dropped = 1 AND OLD.dropped = 0
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'refused_stretch', NEW.pairing_id, 'full',
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('kind', NEW.kind, 'kept', NEW.kept, 'since', NEW.since));
END;

CREATE VIEW refusal_kind AS
SELECT code, CASE WHEN code GLOB 'lane.*' THEN 'unproven'
                  WHEN code IN (SELECT code FROM strike) THEN 'strike' ELSE 'refused' END AS kind
  FROM refusal;

CREATE TRIGGER refused_bounded BEFORE INSERT ON refused WHEN NEW.surface <> 'cli'
BEGIN
    INSERT INTO refused_stretch (pairing_id, kind, since, kept)
    SELECT coalesce(NEW.pairing_id, 0), kind, now_ms(), 0 FROM refusal_kind WHERE code = NEW.code
        ON CONFLICT DO UPDATE SET since = now_ms(), kept = 0, dropped = 0
           WHERE refused_stretch.since
              <= now_ms() - (SELECT value FROM setting WHERE name = 'refused.stretch_ms');
    UPDATE refused_stretch
       SET kept = kept + (kept < (SELECT max(value) FROM setting
                                   WHERE name IN ('refused.kept', 'quarantine.strikes'))),
           dropped = dropped + (kept >= (SELECT max(value) FROM setting
                                          WHERE name IN ('refused.kept', 'quarantine.strikes')))
     WHERE pairing_id = coalesce(NEW.pairing_id, 0)
       AND kind = (SELECT kind FROM refusal_kind WHERE code = NEW.code);
    SELECT RAISE(IGNORE)
      FROM refused_stretch
     WHERE dropped > 0 AND pairing_id = coalesce(NEW.pairing_id, 0)
       AND kind = (SELECT kind FROM refusal_kind WHERE code = NEW.code);
END;

CREATE TABLE remote_listen (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    address TEXT    NOT NULL,
    port    INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    set_at  INTEGER NOT NULL
) STRICT;

CREATE TRIGGER remote_listen_is_one BEFORE INSERT ON remote_listen
BEGIN
    SELECT RAISE(ABORT, 'listen.invalid|this is no address to listen on: * or an IP address, and a port')
     WHERE NEW.address <> '*'
       AND (endpoint_text(NEW.address || ':1') IS NOT NEW.address || ':1'
            OR (NEW.address NOT GLOB '[[]*' AND NEW.address GLOB '*[^0-9.]*'));
    SELECT RAISE(ABORT, 'remote.role|sessions run on a box, and a Host runs none')
     WHERE (SELECT role FROM box) IS NOT 'box';
    SELECT RAISE(ABORT, 'remote.port|this machine listens for its Hosts on this port')
     WHERE EXISTS (SELECT 1 FROM listen WHERE port = NEW.port);
END;

CREATE TRIGGER remote_listen_no_update BEFORE UPDATE ON remote_listen
BEGIN
    SELECT RAISE(ABORT, 'remote.fixed|where this machine listens is replaced, never edited');
END;

CREATE TRIGGER remote_listen_audit_birth AFTER INSERT ON remote_listen
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_listen', NEW.id, 'added', '',
            json_object('address', NEW.address, 'port', NEW.port));
END;

CREATE TRIGGER remote_listen_audit_end AFTER DELETE ON remote_listen
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_listen', OLD.id, 'removed', '',
            json_object('address', OLD.address, 'port', OLD.port));
END;

CREATE TABLE remote_credential (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64 AND name GLOB '[A-Za-z0-9]*'
                       AND name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0),
    found_by   TEXT    NOT NULL UNIQUE CHECK (length(found_by) = 16
                       AND found_by NOT GLOB '*[^0-9a-f]*'),   -- its row is found by that; no secret
    digest     BLOB    CHECK (length(digest) = 32),            -- of the secret; gone with its time
    by_uid     INTEGER NOT NULL CHECK (by_uid >= 0),           -- whose sessions; who made it, by the kernel's word
    verbs      TEXT    NOT NULL CHECK (json_valid(verbs) AND json_type(verbs) = 'array'
                       AND json_array_length(verbs) BETWEEN 1 AND 8),
    roots      TEXT    NOT NULL CHECK (json_valid(roots) AND json_type(roots) = 'array'
                       AND json_array_length(roots) BETWEEN 1 AND 16 AND length(roots) <= 16384),
    state      TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'rotated', 'revoked', 'expired')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at),
    ended_at   INTEGER,
    CHECK ((state = 'active') = (ended_at IS NULL)),
    CHECK ((state = 'active') = (digest IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX remote_credential_live ON remote_credential (name) WHERE state = 'active';

CREATE INDEX remote_credential_due ON remote_credential (expires_at) WHERE state = 'active';

CREATE TRIGGER remote_credential_born BEFORE INSERT ON remote_credential
BEGIN
    SELECT RAISE(ABORT, 'remote.role|sessions run on a box, and a Host runs none')
     WHERE (SELECT role FROM box) IS NOT 'box';
    SELECT RAISE(ABORT, 'remote.name|a name is 1 to 64 letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 64 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'remote.exists|a credential of this name is live')
     WHERE EXISTS (SELECT 1 FROM remote_credential WHERE name = NEW.name AND state = 'active');
    SELECT RAISE(ABORT, 'remote.verbs|the verbs are run, command, list, attach, send, cancel, bundle, each once')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.verbs)
                    WHERE type <> 'text'
                       OR value NOT IN ('run', 'command', 'list', 'attach', 'send', 'cancel', 'bundle'))
        OR (SELECT count(DISTINCT value) FROM json_each(NEW.verbs)) <> json_array_length(NEW.verbs);
    SELECT RAISE(ABORT, 'remote.roots|a root is the whole path of a folder, without . and .. in it')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.roots)
                    WHERE type <> 'text' OR length(CAST(value AS BLOB)) > 4095
                       OR value NOT GLOB '/*' OR (value <> '/' AND value || '/' GLOB '*//*')
                       OR value || '/' GLOB '*/./*' OR value || '/' GLOB '*/../*')
        OR instr(NEW.roots, '\u0000') > 0;                    -- json_each ends a text there
    SELECT RAISE(ABORT, 'remote.ttl|a credential lasts no longer than the setting remote.ttl_max_ms')
     WHERE NEW.expires_at > now_ms() + (SELECT value FROM setting WHERE name = 'remote.ttl_max_ms')
        OR NEW.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'remote.transition|a credential begins as active') WHERE NEW.state <> 'active';
END;

CREATE TRIGGER remote_credential_moves BEFORE UPDATE ON remote_credential
BEGIN
    SELECT RAISE(ABORT, 'remote.final|a credential that is over stays over')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'remote_credential' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'remote.fixed|a credential keeps what it allows, and for how long')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.found_by IS NOT OLD.found_by
        OR NEW.by_uid IS NOT OLD.by_uid OR NEW.verbs IS NOT OLD.verbs OR NEW.roots IS NOT OLD.roots
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at
        OR NEW.digest IS NOT NULL;
END;

CREATE TRIGGER remote_credential_stays BEFORE DELETE ON remote_credential
BEGIN
    SELECT RAISE(ABORT, 'remote.kept|a credential is revoked, not deleted');
END;

CREATE TRIGGER remote_credential_audit_birth AFTER INSERT ON remote_credential
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_credential', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'uid', NEW.by_uid, 'verbs', json(NEW.verbs),
                        'roots', json(NEW.roots), 'expires_at', NEW.expires_at));
END;

CREATE TRIGGER remote_credential_audit_move AFTER UPDATE OF state ON remote_credential
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_credential', NEW.id, NEW.state, '', json_object('name', NEW.name));
END;

CREATE TABLE remote_try (
    id            INTEGER PRIMARY KEY,
    at            INTEGER NOT NULL,
    origin        TEXT    NOT NULL CHECK (length(origin) BETWEEN 1 AND 64),
    credential_id INTEGER REFERENCES remote_credential (id),   -- NULL: of none that lives
    result        TEXT    NOT NULL CHECK (result IN ('ok', 'wrong')),
    CHECK (result = 'wrong' OR credential_id IS NOT NULL)
) STRICT;

CREATE INDEX remote_try_by_origin ON remote_try (origin, id);

CREATE INDEX remote_try_by_credential ON remote_try (credential_id, id);

CREATE VIEW remote_held AS
SELECT origin, tries, until_at FROM (
    SELECT t.origin, count(*) AS tries,
           max(t.at) + min((SELECT value FROM setting WHERE name = 'remote.hold_cap_ms'),
                           (SELECT value FROM setting WHERE name = 'remote.hold_ms')
                           << max(0, min(count(*)
                                         - (SELECT value FROM setting WHERE name = 'remote.tries'), 20)))
             AS until_at
      FROM remote_try AS t
     WHERE t.result = 'wrong'
       AND t.at > now_ms() - (SELECT value FROM setting WHERE name = 'remote.window_ms')
       AND t.id > coalesce((SELECT max(id) FROM remote_try
                             WHERE origin = t.origin AND result = 'ok'), 0)
     GROUP BY t.origin)
 WHERE tries >= (SELECT value FROM setting WHERE name = 'remote.tries') AND until_at > now_ms();

CREATE TRIGGER remote_try_is_heard BEFORE INSERT ON remote_try
BEGIN
    SELECT RAISE(ABORT, 'remote.held|too many wrong secrets came from there')
     WHERE EXISTS (SELECT 1 FROM remote_held WHERE origin = NEW.origin);
    SELECT RAISE(ABORT, 'remote.token|no live credential has this secret')
     WHERE NEW.result = 'ok'
       AND NOT EXISTS (SELECT 1 FROM remote_credential WHERE id = NEW.credential_id
                          AND state = 'active' AND expires_at > now_ms());
END;

CREATE TRIGGER remote_try_no_update BEFORE UPDATE ON remote_try
BEGIN
    SELECT RAISE(ABORT, 'remote.kept|what was tried never changes');
END;

CREATE TRIGGER remote_try_stays BEFORE DELETE ON remote_try
WHEN OLD.id > (SELECT max(id) FROM remote_try)
            - (SELECT value FROM setting WHERE name = 'remote.kept')
BEGIN
    SELECT RAISE(ABORT, 'remote.kept|tries are kept up to the setting remote.kept');
END;

CREATE TRIGGER remote_try_few AFTER INSERT ON remote_try
BEGIN
    DELETE FROM remote_try
     WHERE id <= NEW.id - (SELECT value FROM setting WHERE name = 'remote.kept');
END;

CREATE TABLE remote_session (
    session_id    INTEGER PRIMARY KEY REFERENCES session (id),
    credential_id INTEGER NOT NULL REFERENCES remote_credential (id)
) STRICT;

CREATE TRIGGER remote_session_no_update BEFORE UPDATE ON remote_session
BEGIN
    SELECT RAISE(ABORT, 'remote.fixed|who began a session never changes');
END;

CREATE VIEW remote_acting AS
SELECT id, by_uid, verbs, roots FROM remote_credential
 WHERE state = 'active' AND expires_at > now_ms()
   AND 'remote:' || name || '(' || id || ')' = acting();

CREATE VIEW remote_reach AS
SELECT c.id AS credential_id, s.id AS session_id, v.value AS verb
  FROM remote_credential AS c JOIN session AS s ON s.by_uid = c.by_uid
  JOIN json_each(c.verbs) AS v
 WHERE c.state = 'active' AND c.expires_at > now_ms()
   AND EXISTS (SELECT 1 FROM json_each(c.roots) AS r
                WHERE r.value IN ('/', s.cwd)
                   OR substr(s.cwd, 1, length(r.value) + 1) = r.value || '/');

CREATE VIEW remote_credentials AS
SELECT c.id, c.name, c.state, c.by_uid, c.verbs, c.roots, c.created_at, c.expires_at, c.ended_at,
       (SELECT max(at) FROM remote_try WHERE credential_id = c.id AND result = 'ok') AS last_at,
       (SELECT count(*) FROM remote_session WHERE credential_id = c.id) AS sessions
  FROM remote_credential AS c;

CREATE VIEW retention_item (entity, id, at, rows) AS
SELECT 'actor_run', id, ended_at, 1 FROM actor_run
 UNION ALL SELECT 'audit', seq, at, 1 FROM audit
            WHERE seq <= (SELECT max(seq) FROM audit_base)
 UNION ALL SELECT 'call_output', id, finished_at, last_seq FROM call
 UNION ALL SELECT 'factor_try', id, at, 1 FROM factor_try
 UNION ALL SELECT 'op_output', id, finished_at, last_seq FROM op_run
 UNION ALL SELECT 'refused', id, at, 1 FROM refused;

CREATE VIEW retention_due AS
SELECT c.entity,
       (SELECT max(id)
          FROM (SELECT id, rows, sum(rows) OVER through AS total,
                       max(at IS NULL OR at >= c.before) OVER through AS kept,
                       lead(id) OVER through AS later
                  FROM (SELECT id, at, rows FROM retention_item
                         WHERE entity = c.entity AND id > c.gone_to ORDER BY id
                         LIMIT (SELECT value + 1 FROM setting WHERE name = 'retention.batch'))
                WINDOW through AS (ORDER BY id))
         WHERE NOT kept AND later IS NOT NULL
           AND (total = rows
                OR total <= (SELECT value FROM setting WHERE name = 'retention.batch'))) AS gone_to
  FROM retention_cutoff AS c;

CREATE TRIGGER retention_moves BEFORE UPDATE ON retention
BEGIN
    SELECT RAISE(ABORT, 'retention.mark|a mark only moves forward')
     WHERE NEW.entity IS NOT OLD.entity OR NEW.gone_to <= OLD.gone_to;
    SELECT RAISE(ABORT, 'retention.young|rows stay for as long as the setting says, and the newest for ever')
     WHERE NOT EXISTS (SELECT 1 FROM retention_cutoff WHERE entity = NEW.entity)
        OR NEW.gone_to >= coalesce((SELECT max(id) FROM retention_item WHERE entity = NEW.entity), 0)
        OR EXISTS (SELECT 1 FROM retention_item
                    WHERE entity = NEW.entity AND id > OLD.gone_to AND id <= NEW.gone_to
                      AND (at IS NULL OR at >= (SELECT before FROM retention_cutoff
                                                 WHERE entity = NEW.entity)));
END;

CREATE TRIGGER retention_answers AFTER UPDATE ON retention
WHEN NEW.entity IN ('op_output', 'call_output')
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', (SELECT coalesce(sum(rows), 0) FROM retention_item
                                 WHERE entity = NEW.entity
                                   AND id > OLD.gone_to AND id <= NEW.gone_to),
                       'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
END;

CREATE TRIGGER retention_factor_try AFTER UPDATE ON retention WHEN NEW.entity = 'factor_try'
BEGIN
    DELETE FROM factor_try WHERE id > OLD.gone_to AND id <= NEW.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', changes(), 'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
END;

CREATE TRIGGER retention_refused AFTER UPDATE ON retention WHEN NEW.entity = 'refused'
BEGIN
    DELETE FROM refused WHERE id > OLD.gone_to AND id <= NEW.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', changes(), 'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
END;

CREATE TRIGGER retention_actor_run AFTER UPDATE ON retention WHEN NEW.entity = 'actor_run'
BEGIN
    DELETE FROM actor_run WHERE id > OLD.gone_to AND id <= NEW.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', changes(), 'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
    DELETE FROM process
     WHERE seen_at < (SELECT before FROM retention_cutoff WHERE entity = NEW.entity)
       AND id < (SELECT max(id) FROM process)
       AND NOT EXISTS (SELECT 1 FROM actor_run WHERE process_id = process.id)
       AND id NOT IN (SELECT process_id FROM attempt WHERE process_id IS NOT NULL)
       AND id NOT IN (SELECT process_id FROM sandbox_run)
       AND id NOT IN (SELECT process_id FROM instance)
       AND id NOT IN (SELECT process_id FROM lease WHERE process_id IS NOT NULL);
END;

CREATE TRIGGER audit_base_audit AFTER INSERT ON audit_base
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'audit', NEW.seq, 'pruned', '',
           json_object('before', NEW.seq, 'head', lower(hex(NEW.head)), 'days', days,
                       'exported', (SELECT sent FROM audit_sink WHERE name = 'export'))
      FROM retention_cutoff WHERE entity = 'audit';
END;

CREATE TRIGGER audit_sink_exported AFTER UPDATE OF sent ON audit_sink
WHEN NEW.name = 'export' AND NEW.sent IS NOT OLD.sent
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'audit', NEW.sent, 'exported', '',
            json_object('after', OLD.sent, 'to', NEW.sent));
END;

CREATE TABLE run_port (
    run_id INTEGER NOT NULL REFERENCES sandbox_run (id),
    port   INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),   -- of 127.0.0.1, outside
    inside INTEGER NOT NULL CHECK (inside BETWEEN 1 AND 65535),
    PRIMARY KEY (run_id, port)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER run_port_allowed BEFORE INSERT ON run_port
BEGIN
    SELECT CASE
           WHEN NOT EXISTS (SELECT 1 FROM sandbox_run WHERE id = NEW.run_id AND state = 'starting')
           THEN RAISE(ABORT, 'run.over|ports are published before a run begins')
           -- Who came in there would reach the internet as the run does.
           WHEN NEW.inside IN (53, 1080, 1081, 3128)
           THEN RAISE(ABORT, 'run.port|this port is the lane''s inside')
           WHEN (SELECT count(*) FROM run_port WHERE run_id = NEW.run_id)
             >= (SELECT value FROM setting WHERE name = 'run.ports')
           THEN RAISE(ABORT, 'run.port|a run has as many ports as the setting run.ports allows')
           END;
END;

CREATE TRIGGER run_port_fixed BEFORE UPDATE ON run_port
BEGIN
    SELECT RAISE(ABORT, 'sandbox.fixed|a run keeps what it was started as');
END;

CREATE TRIGGER run_port_stays BEFORE DELETE ON run_port
BEGIN
    SELECT RAISE(ABORT, 'sandbox.final|a run is history');
END;

CREATE TRIGGER run_port_audit AFTER INSERT ON run_port
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'sandbox_run', NEW.run_id, 'published', '',
            json_object('port', NEW.port, 'inside', NEW.inside));
END;

CREATE TABLE sandbox_run (
    id         INTEGER PRIMARY KEY,
    -- What the run is called inside (BASTION_SANDBOX_RUN): with its namespaces, it tells whether a
    -- process that says so is of this run.
    nonce      TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    backend    TEXT    NOT NULL CHECK (backend IN ('native', 'bubblewrap', 'none')),
    process_id INTEGER NOT NULL REFERENCES process (id),       -- who started it, and dies with it
    uid        INTEGER NOT NULL CHECK (uid >= 0),              -- who it runs as
    program    TEXT    NOT NULL CHECK (length(program) BETWEEN 1 AND 4096),
    words      INTEGER NOT NULL CHECK (words >= 1),            -- of the command, the program too
    net        TEXT    NOT NULL CHECK (net IN ('none', 'sockets', 'host')),
    state      TEXT    NOT NULL DEFAULT 'starting'
               CHECK (state IN ('starting', 'running', 'ended', 'failed', 'lost')),
    user_ns    INTEGER,                                        -- identities of its namespaces
    pid_ns     INTEGER,
    capped     INTEGER CHECK (capped IN (0, 1)),               -- tasks, as proven from inside
    notes      TEXT    CHECK (notes IS NULL OR json_valid(notes)),
    exit_code  INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    changes    INTEGER CHECK (changes >= 0),                   -- what it changed, in entries
    digest     BLOB    CHECK (digest IS NULL OR length(digest) = 32),
    applied    INTEGER CHECK (applied BETWEEN 0 AND changes),  -- of them, for good; NULL: thrown away
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    CHECK (state <> 'ended' OR exit_code IS NOT NULL),
    CHECK ((state IN ('ended', 'failed', 'lost')) = (ended_at IS NOT NULL))
) STRICT;

CREATE INDEX sandbox_run_live ON sandbox_run (id) WHERE ended_at IS NULL;

CREATE TRIGGER sandbox_run_allowed BEFORE INSERT ON sandbox_run
BEGIN
    SELECT RAISE(ABORT, 'sandbox.transition|a run begins as starting') WHERE NEW.state <> 'starting';
    SELECT RAISE(ABORT, 'sandbox.none|nothing runs without a sandbox unless the setting says so')
     WHERE NEW.backend = 'none'
       AND (SELECT value FROM setting WHERE name = 'sandbox.unconfined') = 0;
    SELECT RAISE(ABORT, 'sandbox.busy|too many sandboxes run already')
     WHERE (SELECT count(*) FROM sandbox_run AS r JOIN process AS p ON p.id = r.process_id
             WHERE r.ended_at IS NULL AND process_alive(p.boot_id, p.pid, p.start_ticks))
        >= (SELECT value FROM setting WHERE name = 'sandbox.live');
END;

CREATE TRIGGER sandbox_run_closes AFTER INSERT ON sandbox_run
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'sandbox_run', NEW.id, NEW.state, '',
            json_object('program', NEW.program, 'words', NEW.words, 'backend', NEW.backend,
                        'uid', NEW.uid, 'net', NEW.net));
    UPDATE sandbox_run SET state = 'lost', ended_at = now_ms()
     WHERE ended_at IS NULL
       AND NOT (SELECT process_alive(boot_id, pid, start_ticks) FROM process
                 WHERE id = sandbox_run.process_id);
END;

CREATE TRIGGER sandbox_run_moves BEFORE UPDATE ON sandbox_run
BEGIN
    SELECT RAISE(ABORT, 'sandbox.transition|a sandboxed run cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'sandbox_run' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'sandbox.final|a finished run is history')
     WHERE NEW.state IS OLD.state AND OLD.ended_at IS NOT NULL;
    SELECT RAISE(ABORT, 'sandbox.fixed|a run keeps what it was started as')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.backend IS NOT OLD.backend
        OR NEW.process_id IS NOT OLD.process_id OR NEW.uid IS NOT OLD.uid
        OR NEW.program IS NOT OLD.program OR NEW.words IS NOT OLD.words OR NEW.net IS NOT OLD.net
        OR NEW.started_at IS NOT OLD.started_at;
END;

CREATE TRIGGER sandbox_run_stays BEFORE DELETE ON sandbox_run
BEGIN
    SELECT RAISE(ABORT, 'sandbox.final|a run is history');
END;

CREATE TRIGGER sandbox_run_audit_move AFTER UPDATE OF state ON sandbox_run
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'sandbox_run', NEW.id, NEW.state, '',
            json_object('exit', NEW.exit_code, 'capped', NEW.capped, 'changes', NEW.changes,
                        'applied', NEW.applied, 'digest', lower(hex(NEW.digest))));
END;

CREATE TRIGGER sandbox_run_ends_egress AFTER UPDATE OF state ON sandbox_run
WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL
BEGIN
    UPDATE egress_flow SET state = 'lost', ended_at = NEW.ended_at WHERE run_id = NEW.id AND ended_at IS NULL;
    UPDATE egress_rule SET state = 'dropped', dropped_at = NEW.ended_at WHERE run_id = NEW.id AND state = 'active';
END;

CREATE VIEW live_sandboxes AS
SELECT r.id, r.state, r.program, r.words, r.uid, r.backend, r.net, r.capped, p.pid AS starter,
       r.started_at
  FROM sandbox_run AS r JOIN process AS p ON p.id = r.process_id
 WHERE r.ended_at IS NULL AND process_alive(p.boot_id, p.pid, p.start_ticks);

CREATE TABLE agent_scan (
    id       INTEGER PRIMARY KEY,
    kind     TEXT    NOT NULL CHECK (kind IN ('declared', 'processes')),
    state    TEXT    NOT NULL DEFAULT 'reading'
             CHECK (state IN ('reading', 'stuck', 'done', 'failed', 'dropped', 'lost')),
    of_id    INTEGER,                       -- the declarations that the processes are compared with
    dropped  INTEGER NOT NULL DEFAULT 0 CHECK (dropped IN (0, 1)),  -- nobody wants its result any more
    began_at INTEGER NOT NULL,
    ended_at INTEGER,
    result   TEXT    CHECK (result IS NULL OR json_valid(result) AND length(CAST(result AS BLOB)) <= 16777216),
    CHECK (of_id IS NULL OR kind = 'processes'),
    CHECK ((ended_at IS NULL) = (state IN ('reading', 'stuck'))),
    CHECK ((result IS NOT NULL) = (state = 'done'))
) STRICT;

CREATE UNIQUE INDEX agent_scan_one ON agent_scan (kind) WHERE state IN ('reading', 'stuck');

CREATE VIEW agent_declared AS
SELECT * FROM agent_scan WHERE kind = 'declared' AND state = 'done' ORDER BY id DESC LIMIT 1;

CREATE VIEW agent_seen AS
SELECT * FROM agent_scan WHERE kind = 'processes' AND state NOT IN ('reading', 'dropped')
 ORDER BY id DESC LIMIT 1;

CREATE VIEW agent_scan_due AS
SELECT k.kind,
       CASE WHEN n.id IS NULL OR n.state = 'dropped' THEN 0
            WHEN n.state <> 'done'
            THEN n.began_at + (SELECT value FROM setting WHERE name = 'beat.every_ms')
            WHEN k.kind = 'declared'
            THEN n.ended_at + (SELECT value FROM setting WHERE name = 'agents.keep_ms')
            WHEN n.of_id IS NOT (SELECT id FROM agent_declared) THEN 0
            ELSE n.began_at + (SELECT value FROM setting WHERE name = 'beat.every_ms') END AS at
  FROM (SELECT 'declared' AS kind UNION ALL SELECT 'processes') AS k
  LEFT JOIN agent_scan AS n ON n.id = (SELECT max(id) FROM agent_scan WHERE kind = k.kind)
 WHERE (SELECT value FROM setting WHERE name = 'agents.observe') = 1
   AND EXISTS (SELECT 1 FROM pairing_status WHERE active)
   AND NOT EXISTS (SELECT 1 FROM agent_scan WHERE kind = k.kind AND state IN ('reading', 'stuck'));

CREATE TRIGGER agent_scan_born BEFORE INSERT ON agent_scan
BEGIN
    SELECT RAISE(ABORT, 'agents.due|this machine does not observe, or has looked not long ago, or still looks')
     WHERE NOT EXISTS (SELECT 1 FROM agent_scan_due WHERE kind = NEW.kind AND at <= now_ms());
    SELECT RAISE(ABORT, 'agents.transition|a look begins as reading') WHERE NEW.state <> 'reading';
END;

CREATE TRIGGER agent_scan_replaces AFTER INSERT ON agent_scan
BEGIN
    DELETE FROM agent_scan
     WHERE kind = NEW.kind AND id < NEW.id
       AND id IS NOT (SELECT max(id) FROM agent_scan WHERE kind = NEW.kind AND state = 'done')
       AND id IS NOT (SELECT max(id) FROM agent_scan WHERE kind = NEW.kind AND state <> 'reading');
END;

CREATE TRIGGER agent_scan_moves BEFORE UPDATE ON agent_scan
BEGIN
    SELECT RAISE(ABORT, 'agents.transition|a look cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'agent_scan' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'agents.fixed|what a look has seen is not edited')
     WHERE OLD.ended_at IS NOT NULL OR NEW.id IS NOT OLD.id OR NEW.kind IS NOT OLD.kind
        OR NEW.of_id IS NOT OLD.of_id OR NEW.began_at IS NOT OLD.began_at OR NEW.dropped < OLD.dropped;
    SELECT RAISE(ABORT, 'agents.fixed|nobody wants the result of this look any more')
     WHERE OLD.dropped AND NEW.state = 'done';
END;

CREATE TRIGGER agent_scan_tells AFTER UPDATE OF state ON agent_scan
WHEN NEW.state = 'done'
 AND (SELECT count(*) FROM agent_scan WHERE kind = NEW.kind AND state = 'done') = 1
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER agent_scan_resets AFTER UPDATE OF value ON setting
WHEN NEW.name = 'agents.observe' AND NEW.value IS NOT OLD.value
BEGIN
    DELETE FROM agent_scan WHERE ended_at IS NOT NULL;
    UPDATE agent_scan SET dropped = 1;
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER agent_scan_ends_with_worker AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE agent_scan SET state = iif(dropped, 'dropped', 'lost'), ended_at = NEW.ended_at
     WHERE ended_at IS NULL;
END;

CREATE VIEW agent_server AS
WITH seen AS (SELECT p.result FROM agent_seen AS p JOIN agent_declared AS d ON d.id = p.of_id
               WHERE p.state = 'done')
SELECT v.key AS ord,
       json_set(v.value,
                '$.state', CASE WHEN v.value ->> '$.transport' <> 'stdio' OR v.value ->> '$.what' = '***'
                                  OR NOT EXISTS (SELECT 1 FROM seen) THEN 'unknown'
                                WHEN r.value IS NULL THEN 'declared_not_running'
                                ELSE 'running' END,
                '$.pid', r.value ->> 1) AS server
  FROM agent_declared AS d, json_each(d.result, '$.servers') AS v
  LEFT JOIN (SELECT j.value FROM seen, json_each(seen.result, '$.running') AS j) AS r
    ON r.value ->> 0 = v.key
UNION ALL
SELECT 1000000 + u.key, json_set(u.value, '$.state', 'running_not_declared')
  FROM seen, agent_declared AS d, json_each(seen.result, '$.undeclared') AS u
 WHERE d.result ->> '$.timed_out' = 0 AND d.result ->> '$.truncated' = 0 AND d.result ->> '$.unread' = 0;

CREATE VIEW agent_beat AS
WITH room (bytes) AS (SELECT low / 8 FROM setting WHERE name = 'beat.bytes'),
     servers AS (SELECT ord, server, sum(length(CAST(server AS BLOB)) + 1) OVER (ORDER BY ord) AS long
                   FROM agent_server),
     agents AS (SELECT j.key AS ord, j.value AS agent,
                       sum(length(CAST(j.value AS BLOB)) + 1) OVER (ORDER BY j.key) AS long
                  FROM agent_seen AS p, json_each(p.result, '$.agents') AS j),
     last AS (SELECT max(id) AS id FROM agent_scan WHERE kind = 'declared' AND state NOT IN ('reading', 'dropped'))
SELECT json_patch(
       json_object('tool_servers', (SELECT json_group_array(json(server)) FROM servers, room WHERE long <= bytes),
                   'tool_server_scan', json_object(
                   'supported', json('true'),
                   'process_scan', coalesce((SELECT iif(state = 'done', 'ok', 'failed') FROM agent_seen), 'pending'),
                   'timed_out', json(iif((SELECT id FROM agent_declared) IS NOT (SELECT id FROM last)
                                      OR NOT EXISTS (SELECT 1 FROM agent_declared)
                                      OR (SELECT result ->> '$.timed_out' FROM agent_declared), 'true', 'false')),
                   'truncated', json(iif((SELECT result ->> '$.truncated' FROM agent_declared)
                                      OR EXISTS (SELECT 1 FROM servers, room WHERE long > bytes), 'true', 'false')),
                   'unread', coalesce((SELECT result ->> '$.unread' FROM agent_declared), 0),
                   'read_at', (SELECT ended_at FROM agent_declared))),
       CASE WHEN (SELECT state FROM agent_seen) = 'done'
            THEN json_object('agents', (SELECT json_group_array(json(agent)) FROM agents, room WHERE long <= bytes),
                             'agents_left_out', (SELECT count(*) FROM agents, room WHERE long > bytes),
                             'agents_at', (SELECT ended_at FROM agent_seen))
            ELSE '{}' END) AS said
 WHERE (SELECT value FROM setting WHERE name = 'agents.observe') = 1;

CREATE VIEW box_agents AS
SELECT b.name AS box, a.value ->> '$.agent' AS agent, a.value ->> '$.user' AS user, a.value ->> '$.pid' AS pid,
       a.value ->> '$.owner_class' AS owner_class, a.value ->> '$.command' AS command, h.at AS heard_at
  FROM host_beat AS h JOIN host_box AS b ON b.id = h.box_id, json_each(h.beat, '$.agents') AS a
 WHERE a.type = 'object';

CREATE VIEW box_tool_servers AS
SELECT b.name AS box, t.value ->> '$.user' AS user, t.value ->> '$.client' AS client, t.value ->> '$.name' AS name,
       t.value ->> '$.what' AS what, t.value ->> '$.state' AS state, t.value ->> '$.pid' AS pid,
       h.beat ->> '$.tool_server_scan.timed_out' AS timed_out, h.at AS heard_at
  FROM host_beat AS h JOIN host_box AS b ON b.id = h.box_id, json_each(h.beat, '$.tool_servers') AS t
 WHERE t.type = 'object';

CREATE TABLE schedule (
    id           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 96
                         AND name GLOB '[A-Za-z0-9]*' AND name NOT GLOB '*[^A-Za-z0-9._-]*'
                         AND instr(name, char(0)) = 0),
    cron         TEXT    CHECK (length(cron) BETWEEN 1 AND 255),
    every_ms     INTEGER CHECK (every_ms BETWEEN 1000 AND 31622400000),
    zone         TEXT    NOT NULL CHECK (length(zone) BETWEEN 1 AND 64),     -- of the calendar
    missed       TEXT    NOT NULL CHECK (missed IN ('run', 'skip')),   -- once, late; or not at all
    runs_max     INTEGER NOT NULL DEFAULT 0 CHECK (runs_max BETWEEN 0 AND 1000000000),   -- 0: without end
    worker       TEXT    NOT NULL DEFAULT '',                          -- '': a command of its own
    argv         TEXT    NOT NULL CHECK (json_valid(argv) AND json_type(argv) = 'array'
                         AND json_array_length(argv) <= 256 AND length(argv) <= 65536),
    cwd          TEXT    NOT NULL CHECK (cwd GLOB '/*' AND length(CAST(cwd AS BLOB)) <= 4095
                         AND instr(cwd, char(0)) = 0),
    by_uid       INTEGER NOT NULL CHECK (by_uid >= 0),
    max_attempts INTEGER CHECK (max_attempts BETWEEN 1 AND 100),       -- NULL: as the worker has it
    state        TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'over')),
    added_at     INTEGER NOT NULL,
    start_at     INTEGER NOT NULL,                                     -- what an interval counts from
    next_at      INTEGER,
    last_at      INTEGER,                                              -- the newest time that came, in this round
    seen_at      INTEGER NOT NULL,                                     -- when next_at was worked out
    round        INTEGER NOT NULL DEFAULT 0,                           -- how often the clock was set far back
    runs         INTEGER NOT NULL DEFAULT 0,
    skips        INTEGER NOT NULL DEFAULT 0,
    CHECK ((cron IS NULL) <> (every_ms IS NULL)),
    CHECK ((state = 'active') = (next_at IS NOT NULL)),
    CHECK (runs_max = 0 OR runs <= runs_max)
) STRICT;

CREATE INDEX schedule_next ON schedule (next_at) WHERE state = 'active';

CREATE TRIGGER schedule_is_allowed BEFORE INSERT ON schedule
BEGIN
    SELECT RAISE(ABORT, 'schedule.name|the name of a schedule is up to 96 letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 96 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'schedule.exists|there is a schedule of this name')
     WHERE EXISTS (SELECT 1 FROM schedule WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'schedule.full|there are as many schedules as the setting schedule.max allows')
     WHERE (SELECT count(*) FROM schedule) >= (SELECT value FROM setting WHERE name = 'schedule.max');
    SELECT RAISE(ABORT, 'schedule.when|a schedule has a calendar or an interval')
     WHERE (NEW.cron IS NULL) = (NEW.every_ms IS NULL);
    SELECT refuse('schedule.cron', cron_fault(NEW.cron), 0) WHERE cron_fault(NEW.cron) IS NOT NULL;
    SELECT RAISE(ABORT, 'schedule.zone|there is no such time zone')
     WHERE due_next('* * * * *', NEW.zone, NULL, 0, 0) IS NULL;
    SELECT RAISE(ABORT, 'schedule.every|an interval is from one second to a leap year')
     WHERE NEW.every_ms NOT BETWEEN 1000 AND 31622400000;
    SELECT RAISE(ABORT, 'schedule.runs|it runs a number of times, or, with 0, without end')
     WHERE NEW.runs_max NOT BETWEEN 0 AND 1000000000;
    SELECT RAISE(ABORT, 'schedule.start|an interval begins now or later, within a leap year, and a calendar has its own times')
     WHERE NEW.start_at NOT BETWEEN now_ms() AND now_ms() + iif(NEW.cron IS NULL, 31622400000, 0);
    SELECT RAISE(ABORT, 'schedule.never|this calendar has no time in the next fifty years')
     WHERE due_next(NEW.cron, NEW.zone, NEW.every_ms, NEW.start_at, NEW.start_at - 1) IS NULL;
    SELECT RAISE(ABORT, 'worker.unknown|there is no worker of this name')
     WHERE NEW.worker <> '' AND NOT EXISTS (SELECT 1 FROM worker WHERE name = NEW.worker);
    SELECT RAISE(ABORT, 'worker.argv|a worker is a program and its arguments, each without a NUL')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.argv)
                    WHERE type <> 'text' OR instr(value, char(0)) > 0)
        OR (NEW.worker = '' AND coalesce(NEW.argv ->> 0, '') = '');
    SELECT RAISE(ABORT, 'schedule.transition|a schedule begins as active, with nothing behind it')
     WHERE NEW.state <> 'active' OR NEW.runs <> 0 OR NEW.skips <> 0 OR NEW.round <> 0
        OR NEW.last_at IS NOT NULL OR NEW.added_at <> now_ms() OR NEW.seen_at <> now_ms()
        OR NEW.next_at IS NOT due_next(NEW.cron, NEW.zone, NEW.every_ms, NEW.start_at, NEW.start_at - 1);
END;

CREATE TRIGGER schedule_moves BEFORE UPDATE ON schedule
BEGIN
    SELECT RAISE(ABORT, 'schedule.over|this schedule has had all its times') WHERE OLD.state = 'over';
    SELECT RAISE(ABORT, 'schedule.transition|a schedule cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'schedule' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'schedule.fixed|a schedule keeps what it was added with')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.cron IS NOT OLD.cron
        OR NEW.every_ms IS NOT OLD.every_ms OR NEW.zone IS NOT OLD.zone OR NEW.missed IS NOT OLD.missed
        OR NEW.runs_max IS NOT OLD.runs_max OR NEW.worker IS NOT OLD.worker OR NEW.argv IS NOT OLD.argv
        OR NEW.cwd IS NOT OLD.cwd OR NEW.by_uid IS NOT OLD.by_uid
        OR NEW.max_attempts IS NOT OLD.max_attempts OR NEW.added_at IS NOT OLD.added_at
        OR NEW.start_at IS NOT OLD.start_at;
    SELECT RAISE(ABORT, 'schedule.fixed|what ran and what was left out only grows')
     WHERE NEW.runs < OLD.runs OR NEW.skips < OLD.skips OR NEW.round < OLD.round;
    SELECT RAISE(ABORT, 'schedule.due|the next time of a schedule is one of its own, and a later one')
     WHERE NEW.next_at IS NOT NULL AND NEW.next_at IS NOT OLD.next_at
       AND (NEW.next_at IS NOT due_next(NEW.cron, NEW.zone, NEW.every_ms, NEW.start_at, NEW.next_at - 1)
            OR NEW.next_at <= coalesce(NEW.last_at, -1)
            OR (NEW.round = OLD.round AND NEW.last_at IS NULL AND OLD.last_at IS NOT NULL));
    SELECT RAISE(ABORT, 'schedule.due|a time that a schedule has goes by with a row of its own')
     WHERE NEW.next_at IS NOT OLD.next_at AND OLD.next_at IS NOT NULL AND NEW.state <> 'paused'
       AND NEW.round = OLD.round
       AND NOT EXISTS (SELECT 1 FROM firing WHERE schedule_id = OLD.id AND round = OLD.round
                          AND due_at = OLD.next_at AND by_hand = 0);
    SELECT RAISE(ABORT, 'schedule.round|the clock was not set back so far')
     WHERE NEW.round <> OLD.round
       AND (NEW.round <> OLD.round + 1 OR NEW.last_at IS NOT NULL
            OR NOT EXISTS (SELECT 1 FROM schedule_set_back WHERE id = OLD.id));
END;

CREATE TRIGGER schedule_goes BEFORE DELETE ON schedule
BEGIN
    DELETE FROM firing WHERE schedule_id = OLD.id;
END;

CREATE TRIGGER schedule_audit_birth AFTER INSERT ON schedule
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'cron', NEW.cron, 'every_ms', NEW.every_ms, 'zone', NEW.zone,
                        'missed', NEW.missed, 'worker', NEW.worker, 'uid', NEW.by_uid,
                        'command', (SELECT group_concat(value, ' ') FROM json_each(NEW.argv))));
END;

CREATE TRIGGER schedule_audit_move AFTER UPDATE OF state ON schedule WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'runs', NEW.runs, 'skips', NEW.skips));
END;

CREATE TRIGGER schedule_audit_round AFTER UPDATE OF round ON schedule WHEN NEW.round <> OLD.round
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'why', 'the clock was set back', 'was_due', OLD.next_at,
                        'next_at', NEW.next_at));
END;

CREATE TRIGGER schedule_audit_end AFTER DELETE ON schedule
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', OLD.id, 'removed', '', json_object('name', OLD.name));
END;

CREATE TABLE firing (
    id          INTEGER PRIMARY KEY,
    schedule_id INTEGER NOT NULL REFERENCES schedule (id),
    round       INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    by_hand     INTEGER NOT NULL DEFAULT 0 CHECK (by_hand IN (0, 1)),
    fired_at    INTEGER NOT NULL,
    session     TEXT    NOT NULL DEFAULT '',                   -- its name; the session may be gone by now
    state       TEXT    NOT NULL CHECK (state IN ('running', 'skipped', 'done', 'failed', 'cancelled')),
    why         TEXT    NOT NULL DEFAULT '' CHECK (length(why) <= 64),   -- a code of refusal
    ended_at    INTEGER,
    UNIQUE (schedule_id, round, due_at, by_hand),
    CHECK ((state = 'running') = (ended_at IS NULL)),
    CHECK ((state = 'skipped') = (session = '')),
    CHECK ((state = 'skipped') = (why <> ''))
) STRICT;

CREATE UNIQUE INDEX firing_one_live ON firing (schedule_id) WHERE ended_at IS NULL;

CREATE INDEX firing_session ON firing (session) WHERE ended_at IS NULL;

CREATE TRIGGER firing_is_allowed BEFORE INSERT ON firing
BEGIN
    SELECT CASE
           WHEN s.id IS NULL
           THEN RAISE(ABORT, 'schedule.unknown|there is no schedule of this name')
           WHEN NEW.fired_at IS NOT now_ms() OR NEW.round IS NOT s.round
             OR NEW.state NOT IN ('running', 'skipped')
           THEN RAISE(ABORT, 'schedule.transition|a time comes now, and runs or is left out')
           WHEN NEW.by_hand AND (NEW.state <> 'running' OR NEW.due_at <> now_ms())
           THEN RAISE(ABORT, 'schedule.transition|what a person asks for is now, or refused')
           WHEN NOT NEW.by_hand AND s.state <> 'active'
           THEN RAISE(ABORT, 'schedule.paused|this schedule has no next time')
           WHEN NOT NEW.by_hand AND NEW.due_at IS NOT s.next_at
           THEN RAISE(ABORT, 'schedule.due|this is not the next time of its schedule')
           WHEN NOT NEW.by_hand AND NEW.due_at > now_ms()
           THEN RAISE(ABORT, 'schedule.early|this time has not come yet')
           WHEN NEW.state = 'running'
            AND EXISTS (SELECT 1 FROM firing WHERE schedule_id = NEW.schedule_id AND ended_at IS NULL)
           THEN RAISE(ABORT, 'schedule.overlap|what this schedule began before still runs')
           WHEN NEW.state = 'running' AND NOT NEW.by_hand AND d.why = 'schedule.missed'
           THEN RAISE(ABORT, 'schedule.missed|this time was missed, and the schedule leaves such out')
           WHEN NEW.state = 'skipped' AND d.why <> '' AND NEW.why <> d.why
           THEN RAISE(ABORT, 'schedule.transition|a time is left out for the reason there is')
           WHEN NEW.state = 'skipped' AND d.why = '' AND NOT EXISTS (SELECT 1 FROM refusal
                WHERE code = NEW.why AND code <> 'session.offline'
                  AND (code GLOB 'session.*' OR code GLOB 'worker.*'))
           THEN RAISE(ABORT, 'schedule.transition|a time is left out because its session was refused')
           WHEN NEW.state = 'running' AND NOT EXISTS (SELECT 1 FROM session WHERE name = NEW.session
                AND state = 'queued' AND queued_at = now_ms() AND by_uid = s.by_uid
                AND worker = s.worker AND cwd = s.cwd)
           THEN RAISE(ABORT, 'schedule.transition|the session of a schedule is begun with it, as it says')
           END
      FROM (SELECT 1) AS asked LEFT JOIN schedule AS s ON s.id = NEW.schedule_id
      LEFT JOIN schedule_due AS d ON d.id = s.id;
END;

CREATE TRIGGER firing_moves_schedule AFTER INSERT ON firing WHEN NEW.by_hand = 0
BEGIN
    UPDATE schedule
       SET last_at = NEW.due_at, seen_at = now_ms(), runs = v.runs, skips = skips + (NEW.state = 'skipped'),
           next_at = iif(v.over, NULL, v.next_at), state = iif(v.over, 'over', state)
      FROM (SELECT n.runs, n.next_at, n.next_at IS NULL OR (n.runs_max > 0 AND n.runs >= n.runs_max) AS over
              FROM (SELECT s.runs_max, s.runs + (NEW.state = 'running') AS runs,
                           due_next(s.cron, s.zone, s.every_ms, s.start_at,
                                    iif(NEW.why = 'schedule.missed',
                                        max(NEW.due_at, now_ms() - (SELECT value FROM setting
                                            WHERE name = 'schedule.late_ms')), now_ms())) AS next_at
                      FROM schedule AS s WHERE s.id = NEW.schedule_id) AS n) AS v
     WHERE id = NEW.schedule_id;
END;

CREATE TRIGGER firing_is_kept AFTER INSERT ON firing
BEGIN
    DELETE FROM firing
     WHERE id IN (SELECT id FROM firing WHERE schedule_id = NEW.schedule_id AND ended_at IS NOT NULL
                   ORDER BY id DESC
                   LIMIT -1 OFFSET (SELECT value FROM setting WHERE name = 'schedule.kept'));
END;

CREATE TRIGGER firing_moves BEFORE UPDATE ON firing
BEGIN
    SELECT RAISE(ABORT, 'schedule.transition|a time of a schedule cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'firing' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'schedule.fixed|a time that came is history')
     WHERE OLD.ended_at IS NOT NULL OR NEW.id IS NOT OLD.id OR NEW.schedule_id IS NOT OLD.schedule_id
        OR NEW.round IS NOT OLD.round OR NEW.due_at IS NOT OLD.due_at OR NEW.by_hand IS NOT OLD.by_hand
        OR NEW.fired_at IS NOT OLD.fired_at OR NEW.session IS NOT OLD.session;
END;

CREATE TRIGGER firing_audit_birth AFTER INSERT ON firing
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'firing', NEW.id, NEW.state, '',
            json_object('schedule', (SELECT name FROM schedule WHERE id = NEW.schedule_id),
                        'due_at', NEW.due_at, 'late_ms', NEW.fired_at - NEW.due_at,
                        'by_hand', NEW.by_hand, 'session', NEW.session, 'why', NEW.why));
END;

CREATE TRIGGER firing_audit_move AFTER UPDATE OF state ON firing WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'firing', NEW.id, NEW.state, '', json_object('session', NEW.session));
END;

CREATE VIEW schedule_due AS
SELECT s.id, s.next_at AS due_at, s.round, s.name, s.worker, s.argv, s.cwd, s.by_uid, s.max_attempts,
       CASE WHEN s.missed = 'skip' AND s.next_at < now_ms()
                 - (SELECT value FROM setting WHERE name = 'schedule.late_ms') THEN 'schedule.missed'
            WHEN EXISTS (SELECT 1 FROM firing AS f WHERE f.schedule_id = s.id AND f.ended_at IS NULL)
            THEN 'schedule.overlap'
            ELSE '' END AS why
  FROM schedule AS s
 WHERE s.state = 'active' AND s.next_at <= now_ms()
   AND EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');

CREATE VIEW schedule_set_back AS
SELECT s.id, due_next(s.cron, s.zone, s.every_ms, s.start_at, now_ms()
                + iif(s.every_ms IS NOT NULL AND s.last_at IS NULL, s.next_at - s.seen_at - 1, 0)) AS next_at
  FROM schedule AS s
 WHERE s.state = 'active'
   AND max(s.seen_at, coalesce(s.last_at, 0))
       > now_ms() + min(coalesce(s.every_ms, 9000000000000000), (SELECT value FROM setting WHERE name = 'schedule.back_ms'));

CREATE VIEW schedules AS
SELECT s.id, s.name, coalesce(s.cron, CASE WHEN s.every_ms % 86400000 = 0 THEN 'every ' || (s.every_ms / 86400000) || 'd'
                              WHEN s.every_ms % 3600000 = 0 THEN 'every ' || (s.every_ms / 3600000) || 'h'
                              WHEN s.every_ms % 60000 = 0 THEN 'every ' || (s.every_ms / 60000) || 'm'
                              ELSE printf('every %gs', s.every_ms / 1000.0) END) AS "when",
       iif(s.cron IS NULL, '', s.zone) AS zone, s.state, s.next_at, f.state AS last, f.fired_at AS last_at, f.session,
       f.why, s.runs, s.skips
  FROM schedule AS s
  LEFT JOIN firing AS f ON f.id = (SELECT max(id) FROM firing WHERE schedule_id = s.id);

CREATE TABLE worker (
    name         TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64
                         AND name GLOB '[A-Za-z0-9]*' AND name NOT GLOB '*[^A-Za-z0-9._-]*'
                         AND instr(name, char(0)) = 0),
    argv         TEXT    NOT NULL CHECK (json_valid(argv) AND json_type(argv) = 'array'
                         AND json_array_length(argv) BETWEEN 1 AND 64 AND length(argv) <= 16384),
    max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 100),
    by_uid       INTEGER NOT NULL CHECK (by_uid >= 0),
    added_at     INTEGER NOT NULL,
    -- What its sessions reach: the folder that they run in, what paths says, the machine's programs.
    backend      TEXT    NOT NULL DEFAULT 'native' CHECK (backend IN ('native', 'none')),
    net          TEXT    NOT NULL DEFAULT 'none' CHECK (net IN ('none', 'host')),
    paths        TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(paths) AND json_type(paths) = 'array'
                         AND json_array_length(paths) <= 48),          -- of {"kind","path"}
    CHECK (backend <> 'none' OR (net = 'host' AND paths = '[]'))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER worker_is_a_program BEFORE INSERT ON worker
BEGIN
    SELECT RAISE(ABORT, 'worker.name|the name of a worker is letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 64 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'worker.exists|there is a worker of this name')
     WHERE EXISTS (SELECT 1 FROM worker WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'worker.argv|a worker is a program and its arguments, each without a NUL')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.argv)
                    WHERE type <> 'text' OR instr(value, char(0)) > 0)
        OR (NEW.argv ->> 0) = '';
    SELECT RAISE(ABORT, 'worker.paths|a path of a worker is read or written, absolute, and by its real name')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.paths)
                    WHERE type <> 'object' OR value ->> 'kind' NOT IN ('read', 'write')
                       OR json_type(value, '$.path') IS NOT 'text' OR value ->> 'path' NOT GLOB '/?*'
                       OR length(CAST(value ->> 'path' AS BLOB)) > 4095
                       OR instr(value ->> 'path', char(0)) > 0
                       OR value ->> 'path' || '/' GLOB '*/./*' OR value ->> 'path' || '/' GLOB '*/../*');
    SELECT RAISE(ABORT, 'worker.unheld|what nothing holds has the network of the machine, and paths are no bounds for it')
     WHERE NEW.backend = 'none' AND (NEW.net <> 'host' OR NEW.paths <> '[]');
END;

CREATE TRIGGER worker_fixed BEFORE UPDATE ON worker
BEGIN
    SELECT RAISE(ABORT, 'worker.fixed|a worker is dropped and added, never edited');
END;

CREATE TRIGGER worker_audit_birth AFTER INSERT ON worker
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'worker', NEW.name, 'added', '',
            json_object('command', (SELECT group_concat(value, ' ') FROM json_each(NEW.argv)),
                        'uid', NEW.by_uid, 'backend', NEW.backend, 'net', NEW.net,
                        'paths', json(NEW.paths)));
END;

CREATE TRIGGER worker_audit_end AFTER DELETE ON worker
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'worker', OLD.name, 'dropped', '', '{}');
END;

CREATE TABLE session (
    id           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 128
                         AND name GLOB '[A-Za-z0-9]*' AND name NOT GLOB '*[^A-Za-z0-9._-]*'
                         AND instr(name, char(0)) = 0),
    worker       TEXT    NOT NULL DEFAULT '',                  -- by which template; '': a command of its own
    argv         TEXT    NOT NULL CHECK (json_valid(argv) AND json_type(argv) = 'array'
                         AND json_array_length(argv) BETWEEN 1 AND 256 AND length(argv) <= 131072),
    cwd          TEXT    NOT NULL CHECK (cwd GLOB '/*' AND length(CAST(cwd AS BLOB)) <= 4095
                         AND instr(cwd, char(0)) = 0),
    by_uid       INTEGER NOT NULL CHECK (by_uid >= 0),         -- who asked, by the kernel's word; runs it, too
    terminal     INTEGER NOT NULL DEFAULT 0 CHECK (terminal IN (0, 1)),
    input        INTEGER NOT NULL DEFAULT 0 CHECK (input IN (0, 1)),   -- it reads what it is sent
    rows         INTEGER NOT NULL DEFAULT 24 CHECK (rows BETWEEN 1 AND 1000),
    cols         INTEGER NOT NULL DEFAULT 80 CHECK (cols BETWEEN 1 AND 1000),
    max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 100),
    state        TEXT    NOT NULL DEFAULT 'queued'
                 CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    queued_at    INTEGER NOT NULL,
    not_before   INTEGER NOT NULL,                             -- of the next attempt: lives through a restart
    started_at   INTEGER,                                      -- of the first attempt
    finished_at  INTEGER,
    exit_code    INTEGER CHECK (exit_code BETWEEN 0 AND 255),  -- of the last attempt
    end_reason   TEXT    CHECK (end_reason IN ('permanent', 'attempts', 'launch', 'cancelled', 'daemon', 'drain')),
    cancel_at    INTEGER,                                      -- somebody asked for its end
    attempts     INTEGER NOT NULL DEFAULT 0,
    crashes      INTEGER NOT NULL DEFAULT 0,                   -- of these; what backoff counts
    first_seq    INTEGER NOT NULL DEFAULT 1,                   -- output before this row is gone
    last_seq     INTEGER NOT NULL DEFAULT 0,
    lines        INTEGER NOT NULL DEFAULT 0,                   -- that it ever said
    bytes        INTEGER NOT NULL DEFAULT 0,
    input_seq    INTEGER NOT NULL DEFAULT 0,                   -- input up to here was handed on
    backend      TEXT    NOT NULL DEFAULT 'none' CHECK (backend IN ('native', 'none')),   -- what holds it
    net          TEXT    NOT NULL DEFAULT 'host' CHECK (net IN ('none', 'host')),
    paths        TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(paths)),      -- as the worker had them
    CHECK (backend <> 'none' OR (net = 'host' AND paths = '[]')),
    CHECK ((state IN ('queued', 'running')) = (finished_at IS NULL)),
    CHECK (state <> 'running' OR started_at IS NOT NULL),
    CHECK (state <> 'done' OR exit_code = 0),
    CHECK ((state IN ('failed', 'cancelled')) = (end_reason IS NOT NULL)),
    CHECK (attempts <= max_attempts AND first_seq BETWEEN 1 AND last_seq + 1)
) STRICT;

CREATE INDEX session_waits ON session (queued_at, id) WHERE state = 'queued';

CREATE INDEX session_over ON session (finished_at, id) WHERE finished_at IS NOT NULL;

CREATE TRIGGER session_is_allowed BEFORE INSERT ON session
BEGIN
    SELECT RAISE(ABORT, 'session.name|the name of a session is letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 128 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'session.exists|there is a session of this name')
     WHERE EXISTS (SELECT 1 FROM session WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'worker.unknown|there is no worker of this name')
     WHERE NEW.worker <> '' AND NOT EXISTS (SELECT 1 FROM worker WHERE name = NEW.worker);
    -- What a worker runs begins as its template has it: what is asked for comes behind.
    SELECT RAISE(ABORT, 'worker.argv|a session of a worker runs that worker''s program')
     WHERE NEW.worker <> ''
       AND EXISTS (SELECT 1 FROM worker AS w JOIN json_each(w.argv) AS t
                    WHERE w.name = NEW.worker AND t.value IS NOT (NEW.argv ->> t.key));
    SELECT RAISE(ABORT, 'worker.argv|a worker is a program and its arguments, each without a NUL')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.argv)
                    WHERE type <> 'text' OR instr(value, char(0)) > 0)
        OR (NEW.argv ->> 0) = '';
    SELECT RAISE(ABORT, 'session.sandbox|a session is held as its worker says; one without a worker reaches its folder alone')
     WHERE CASE WHEN NEW.worker = '' THEN NEW.backend <> 'none' AND (NEW.net <> 'none' OR NEW.paths <> '[]')
                ELSE NOT EXISTS (SELECT 1 FROM worker AS w WHERE w.name = NEW.worker
                        AND w.backend = NEW.backend AND w.net = NEW.net AND w.paths = NEW.paths) END;
    SELECT RAISE(ABORT, 'session.offline|the daemon does not serve, so nobody would run this')
     WHERE NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');
    SELECT RAISE(ABORT, 'session.busy|too many sessions wait already')
     WHERE (SELECT count(*) FROM session WHERE state = 'queued')
        >= (SELECT value FROM setting WHERE name = 'session.queue');
    SELECT RAISE(ABORT, 'session.transition|a session begins as queued, with nothing behind it')
     WHERE NEW.state <> 'queued' OR NEW.attempts <> 0 OR NEW.crashes <> 0 OR NEW.last_seq <> 0
        OR NEW.first_seq <> 1 OR NEW.lines <> 0 OR NEW.bytes <> 0 OR NEW.input_seq <> 0
        OR NEW.cancel_at IS NOT NULL OR NEW.started_at IS NOT NULL;
    -- Of those that are over the oldest make place, never one that lives.
    DELETE FROM session
     WHERE id IN (SELECT id FROM session WHERE finished_at IS NOT NULL ORDER BY finished_at, id
                   LIMIT max(0, (SELECT count(*) FROM session) + 1
                              - (SELECT value FROM setting WHERE name = 'session.kept')));
END;

CREATE TRIGGER session_moves BEFORE UPDATE ON session
BEGIN
    SELECT RAISE(ABORT, 'session.transition|a session cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'session' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'session.final|a session that is over is history')
     WHERE OLD.finished_at IS NOT NULL;
    SELECT RAISE(ABORT, 'session.fixed|a session keeps what it was asked for')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.worker IS NOT OLD.worker
        OR NEW.argv IS NOT OLD.argv OR NEW.cwd IS NOT OLD.cwd OR NEW.by_uid IS NOT OLD.by_uid
        OR NEW.terminal IS NOT OLD.terminal OR NEW.input IS NOT OLD.input OR NEW.max_attempts IS NOT OLD.max_attempts
        OR NEW.queued_at IS NOT OLD.queued_at OR NEW.backend IS NOT OLD.backend
        OR NEW.net IS NOT OLD.net OR NEW.paths IS NOT OLD.paths;
    SELECT RAISE(ABORT, 'session.seq|output and input only grow, and their beginning only moves on')
     WHERE NEW.last_seq < OLD.last_seq OR NEW.first_seq < OLD.first_seq OR NEW.lines < OLD.lines
        OR NEW.bytes < OLD.bytes OR NEW.input_seq < OLD.input_seq OR NEW.attempts < OLD.attempts;
    SELECT RAISE(ABORT, 'session.cancelled|the end of this session was asked for already')
     WHERE OLD.cancel_at IS NOT NULL AND NEW.cancel_at IS NOT OLD.cancel_at;
    -- What a watcher may still read goes when there is more than the setting keeps, and not before.
    SELECT RAISE(ABORT, 'session.young|output is kept up to the setting session.history')
     WHERE NEW.first_seq > OLD.first_seq
       AND (SELECT coalesce(sum(length(data)), 0) FROM session_output
             WHERE session_id = NEW.id AND seq >= NEW.first_seq - 1)
         < (SELECT value FROM setting WHERE name = 'session.history');
END;

CREATE TRIGGER session_cancels AFTER UPDATE OF cancel_at ON session
WHEN NEW.cancel_at IS NOT NULL AND OLD.cancel_at IS NULL AND NEW.state = 'queued'
BEGIN
    UPDATE session SET state = 'cancelled', end_reason = 'cancelled', finished_at = NEW.cancel_at
     WHERE id = NEW.id;
END;

CREATE TRIGGER firing_ends_with_session AFTER UPDATE OF state ON session WHEN NEW.finished_at IS NOT NULL
BEGIN
    UPDATE firing SET state = NEW.state, ended_at = NEW.finished_at
     WHERE session = NEW.name AND ended_at IS NULL;
END;

CREATE TRIGGER session_stays BEFORE DELETE ON session
BEGIN
    SELECT RAISE(ABORT, 'session.live|a session is deleted when it is over') WHERE OLD.finished_at IS NULL;
    DELETE FROM session_input WHERE session_id = OLD.id;
    DELETE FROM session_output WHERE session_id = OLD.id;
    DELETE FROM attempt WHERE session_id = OLD.id;
END;

CREATE TRIGGER session_audit_birth AFTER INSERT ON session
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'session', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'worker', NEW.worker, 'uid', NEW.by_uid,
                        'backend', NEW.backend, 'net', NEW.net,
                        'command', (SELECT group_concat(value, ' ') FROM json_each(NEW.argv))));
END;

CREATE TRIGGER session_audit_move AFTER UPDATE OF state ON session WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'session', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'attempts', NEW.attempts, 'exit', NEW.exit_code,
                        'reason', NEW.end_reason, 'lines', NEW.lines));
END;

CREATE TABLE attempt (
    id          INTEGER PRIMARY KEY,
    session_id  INTEGER NOT NULL REFERENCES session (id),
    n           INTEGER NOT NULL CHECK (n >= 1),
    process_id  INTEGER REFERENCES process (id),               -- the leader of its group
    state       TEXT    NOT NULL DEFAULT 'launching'
                CHECK (state IN ('launching', 'running', 'ended', 'failed', 'lost')),
    outcome     TEXT    CHECK (outcome IN ('success', 'crash', 'later', 'permanent', 'launch',
                                           'cancelled', 'drain', 'lost')),
    launched_at INTEGER NOT NULL,
    ended_at    INTEGER,
    exit_code   INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    term_signal INTEGER CHECK (term_signal BETWEEN 1 AND 64),
    why         TEXT    CHECK (length(why) <= 512),            -- of a launch that failed
    sandbox_run_id INTEGER UNIQUE REFERENCES sandbox_run (id), -- what holds it
    UNIQUE (session_id, n),
    CHECK ((state IN ('launching', 'running')) = (ended_at IS NULL)),
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK (state NOT IN ('running', 'ended') OR process_id IS NOT NULL),
    CHECK (outcome IS NOT 'success' OR (exit_code = 0 AND term_signal IS NULL)),
    CHECK (outcome IS NOT 'later' OR exit_code = 75),
    CHECK (outcome IS NOT 'permanent' OR exit_code = 76)
) STRICT;

CREATE UNIQUE INDEX attempt_one_live ON attempt (session_id) WHERE state IN ('launching', 'running');

CREATE TRIGGER attempt_is_allowed BEFORE INSERT ON attempt
BEGIN
    SELECT CASE
           WHEN NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready')
           THEN RAISE(ABORT, 'session.drain|the daemon takes no work any more')
           WHEN s.state IS NOT 'queued' OR s.cancel_at IS NOT NULL
           THEN RAISE(ABORT, 'session.transition|this session does not wait')
           WHEN s.not_before > now_ms()
           THEN RAISE(ABORT, 'session.early|this session is not to be tried again yet')
           WHEN s.id IS NOT (SELECT id FROM next_session)
           THEN RAISE(ABORT, 'session.turn|another session waits for longer')
           WHEN (SELECT count(*) FROM attempt WHERE state IN ('launching', 'running'))
             >= (SELECT value FROM setting WHERE name = 'session.slots')
           THEN RAISE(ABORT, 'session.slots|every place is taken')
           WHEN NEW.n IS NOT s.attempts + 1 OR NEW.n > s.max_attempts
           THEN RAISE(ABORT, 'session.attempts|attempts are numbered, up to what the session allows')
           WHEN NEW.state <> 'launching'
           THEN RAISE(ABORT, 'session.transition|an attempt begins as launching')
           WHEN (s.backend <> 'none') IS NOT (NEW.sandbox_run_id IS NOT NULL)
             OR (s.backend <> 'none' AND NOT EXISTS (SELECT 1 FROM sandbox_run AS r
                 WHERE r.id = NEW.sandbox_run_id AND r.state = 'starting' AND r.backend = s.backend
                   AND r.net = s.net AND r.uid = s.by_uid))
           THEN RAISE(ABORT, 'session.sandbox|a session is held as its worker says; one without a worker reaches its folder alone')
           END
      FROM (SELECT 1) AS asked LEFT JOIN session AS s ON s.id = NEW.session_id;
END;

CREATE TRIGGER attempt_begins AFTER INSERT ON attempt
BEGIN
    UPDATE session SET state = 'running', attempts = NEW.n,
                       started_at = coalesce(started_at, NEW.launched_at)
     WHERE id = NEW.session_id;
END;

CREATE TRIGGER attempt_moves BEFORE UPDATE ON attempt
BEGIN
    SELECT RAISE(ABORT, 'session.transition|an attempt cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'attempt' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'session.final|an attempt that ended is history')
     WHERE OLD.ended_at IS NOT NULL;
    SELECT RAISE(ABORT, 'session.fixed|an attempt keeps its session and its process')
     WHERE NEW.id IS NOT OLD.id OR NEW.session_id IS NOT OLD.session_id OR NEW.n IS NOT OLD.n
        OR NEW.launched_at IS NOT OLD.launched_at OR NEW.sandbox_run_id IS NOT OLD.sandbox_run_id
        OR (OLD.process_id IS NOT NULL AND NEW.process_id IS NOT OLD.process_id);
END;

CREATE TRIGGER attempt_over AFTER UPDATE OF state ON attempt
WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL
BEGIN
    UPDATE session
       SET state = v.state, exit_code = NEW.exit_code,
           crashes = crashes + (NEW.outcome IN ('crash', 'launch')),
           finished_at = iif(v.state = 'queued', NULL, NEW.ended_at),
           end_reason = CASE WHEN v.state IN ('queued', 'done') THEN NULL
                             WHEN v.state = 'cancelled' THEN 'cancelled'
                             WHEN NEW.outcome = 'permanent' THEN 'permanent'
                             WHEN NEW.outcome = 'lost' THEN 'daemon'
                             WHEN NEW.outcome = 'drain' THEN 'drain'
                             WHEN NEW.outcome = 'launch' THEN 'launch'
                             ELSE 'attempts' END,
           not_before = CASE WHEN v.state <> 'queued' THEN not_before
                             WHEN NEW.outcome = 'later'
                             THEN NEW.ended_at + (SELECT value FROM setting WHERE name = 'session.later_ms')
                             ELSE NEW.ended_at + v.backoff * (500 + abs(random() % 1000)) / 1000 END
      FROM (SELECT CASE WHEN s.cancel_at IS NOT NULL OR NEW.outcome = 'cancelled' THEN 'cancelled'
                        WHEN NEW.outcome = 'success' THEN 'done'
                        WHEN NEW.outcome IN ('permanent', 'lost', 'drain') THEN 'failed'
                        WHEN NEW.n >= s.max_attempts THEN 'failed'
                        ELSE 'queued' END AS state,
                   min((SELECT value FROM setting WHERE name = 'session.backoff_cap_ms'),
                       (SELECT value FROM setting WHERE name = 'session.backoff_ms')
                       << min(s.crashes + 1, 20)) AS backoff
              FROM session AS s WHERE s.id = NEW.session_id) AS v
     WHERE id = NEW.session_id;
END;

CREATE TRIGGER attempt_ends_sandbox AFTER UPDATE OF state ON attempt
WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL AND NEW.sandbox_run_id IS NOT NULL
BEGIN
    UPDATE sandbox_run
       SET state = CASE WHEN NEW.state = 'ended' AND state = 'running' THEN 'ended'
                        WHEN NEW.state = 'failed' AND state = 'starting' THEN 'failed' ELSE 'lost' END,
           exit_code = NEW.exit_code, ended_at = NEW.ended_at
     WHERE id = NEW.sandbox_run_id AND ended_at IS NULL;
END;

CREATE TRIGGER attempt_stays BEFORE DELETE ON attempt
WHEN EXISTS (SELECT 1 FROM session WHERE id = OLD.session_id AND finished_at IS NULL)
BEGIN
    SELECT RAISE(ABORT, 'session.live|a session is deleted when it is over');
END;

CREATE TRIGGER attempt_audit AFTER UPDATE OF state ON attempt WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'attempt', NEW.id, NEW.state, '',
            json_object('session', NEW.session_id, 'n', NEW.n, 'outcome', NEW.outcome,
                        'exit', NEW.exit_code, 'signal', NEW.term_signal));
END;

CREATE TRIGGER attempt_ends_with_worker AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE attempt SET state = 'lost', outcome = 'lost', ended_at = NEW.ended_at
     WHERE state IN ('launching', 'running');
END;

CREATE TRIGGER attempt_ends_with_instance AFTER UPDATE OF state ON instance
WHEN NEW.state IN ('ended', 'lost') AND OLD.state NOT IN ('ended', 'lost')
BEGIN
    UPDATE attempt SET state = 'lost', outcome = 'lost', ended_at = NEW.ended_at
     WHERE state IN ('launching', 'running');
END;

CREATE TABLE session_output (
    session_id INTEGER NOT NULL REFERENCES session (id),
    seq        INTEGER NOT NULL CHECK (seq >= 1),
    attempt    INTEGER NOT NULL CHECK (attempt >= 0),          -- its number; 0: between two
    kind       TEXT    NOT NULL CHECK (kind IN ('out', 'err', 'tty', 'note')),
    line       INTEGER NOT NULL CHECK (line >= 1),             -- the number of its first line
    lines      INTEGER NOT NULL CHECK (lines >= 0),            -- that end in it
    more       INTEGER NOT NULL DEFAULT 0 CHECK (more IN (0, 1)),
    at         INTEGER NOT NULL,
    data       BLOB    NOT NULL CHECK (length(data) <= 131072),
    PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_output_by_line ON session_output (session_id, line);

CREATE TRIGGER session_output_in_order BEFORE INSERT ON session_output
BEGIN
    SELECT RAISE(ABORT, 'session.output|only a session that is not over says something')
     WHERE (SELECT finished_at IS NULL FROM session WHERE id = NEW.session_id) IS NOT 1
        OR (NEW.kind <> 'note' AND (SELECT state FROM session WHERE id = NEW.session_id) <> 'running');
    SELECT RAISE(ABORT, 'session.seq|output comes in order, without a gap')
     WHERE NEW.seq IS NOT (SELECT last_seq + 1 FROM session WHERE id = NEW.session_id);
END;

CREATE TRIGGER session_output_counts AFTER INSERT ON session_output
BEGIN
    UPDATE session SET last_seq = NEW.seq, lines = lines + NEW.lines, bytes = bytes + length(NEW.data)
     WHERE id = NEW.session_id;
END;

CREATE TRIGGER session_output_no_update BEFORE UPDATE ON session_output
BEGIN
    SELECT RAISE(ABORT, 'session.output|what was said never changes');
END;

CREATE TRIGGER session_output_stays BEFORE DELETE ON session_output
WHEN EXISTS (SELECT 1 FROM session WHERE id = OLD.session_id AND finished_at IS NULL
                AND first_seq <= OLD.seq)
BEGIN
    SELECT RAISE(ABORT, 'session.young|output is kept up to the setting session.history');
END;

CREATE TABLE session_input (
    session_id INTEGER NOT NULL REFERENCES session (id),
    seq        INTEGER NOT NULL CHECK (seq >= 1),
    kind       TEXT    NOT NULL CHECK (kind IN ('data', 'end', 'size')),
    data       BLOB    NOT NULL CHECK (length(data) <= 65536),
    at         INTEGER NOT NULL,
    PRIMARY KEY (session_id, seq),
    CHECK (kind <> 'size' OR CAST(data AS TEXT) GLOB '[1-9]*x[1-9]*')
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_input_is_allowed BEFORE INSERT ON session_input
BEGIN
    SELECT RAISE(ABORT, 'session.over|this session is over')
     WHERE (SELECT finished_at IS NULL FROM session WHERE id = NEW.session_id) IS NOT 1;
    SELECT RAISE(ABORT, 'session.input|more input waits than the session takes')
     WHERE (SELECT count(*) FROM session_input WHERE session_id = NEW.session_id)
        >= (SELECT value FROM setting WHERE name = 'session.inputs');
    SELECT RAISE(ABORT, 'session.seq|input is numbered without a gap')
     WHERE NEW.seq IS NOT coalesce((SELECT max(seq) FROM session_input WHERE session_id = NEW.session_id),
                                   (SELECT input_seq FROM session WHERE id = NEW.session_id)) + 1;
    SELECT RAISE(ABORT, 'session.input|only a terminal has a size')
     WHERE NEW.kind = 'size'
       AND (SELECT terminal FROM session WHERE id = NEW.session_id) IS NOT 1;
    SELECT RAISE(ABORT, 'session.deaf|this session reads nothing')
     WHERE (SELECT terminal + input FROM session WHERE id = NEW.session_id) IS 0;
END;

CREATE TRIGGER session_input_no_update BEFORE UPDATE ON session_input
BEGIN
    SELECT RAISE(ABORT, 'session.input|what was sent never changes');
END;

CREATE TRIGGER session_input_is_handed_on AFTER UPDATE OF input_seq ON session
WHEN NEW.input_seq > OLD.input_seq
BEGIN
    DELETE FROM session_input WHERE session_id = NEW.id AND seq <= NEW.input_seq;
END;

CREATE TRIGGER session_input_ends AFTER UPDATE OF state ON session WHEN NEW.finished_at IS NOT NULL
BEGIN
    DELETE FROM session_input WHERE session_id = NEW.id;
END;

CREATE VIEW next_session AS
SELECT id, name FROM session
 WHERE state = 'queued' AND not_before <= now_ms() ORDER BY queued_at, id LIMIT 1;

CREATE VIEW sessions AS
SELECT s.id, s.name, s.worker, s.state, s.queued_at, s.started_at, s.finished_at, s.exit_code,
       s.end_reason, s.attempts, s.lines, s.bytes, p.pid,
       CASE WHEN s.state = 'queued' AND s.attempts > 0 THEN s.not_before END AS again_at
  FROM session AS s
  LEFT JOIN attempt AS a ON a.session_id = s.id AND a.state IN ('launching', 'running')
  LEFT JOIN process AS p ON p.id = a.process_id;

CREATE VIEW session_survivors AS
SELECT a.id AS attempt_id, p.boot_id, p.pid, p.start_ticks
  FROM attempt AS a JOIN process AS p ON p.id = a.process_id
 WHERE a.outcome = 'lost' AND process_alive(p.boot_id, p.pid, p.start_ticks);

CREATE TABLE remote_bundle (
    id            INTEGER PRIMARY KEY,
    credential_id INTEGER NOT NULL REFERENCES remote_credential (id),
    session_id    INTEGER UNIQUE REFERENCES session (id),      -- NULL: not yet, or not kept any more
    name          TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 128 AND name GLOB '[A-Za-z0-9_]*'
                          AND name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0),
    folder        TEXT    NOT NULL CHECK (folder GLOB '/*'),   -- in it the repository is the folder ${name}
    size          INTEGER NOT NULL CHECK (size > 0),
    sha256        TEXT    NOT NULL CHECK (length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*'),
    program       TEXT    NOT NULL CHECK (program GLOB '/*'),  -- of bastion: where the daemon's own is
    received      INTEGER NOT NULL DEFAULT 0 CHECK (received BETWEEN 0 AND size),
    generation    INTEGER NOT NULL CHECK (generation >= 1),    -- of what is in that place
    live          INTEGER NOT NULL DEFAULT 0 CHECK (live IN (0, 1)),   -- it is what is there
    asked_at      INTEGER NOT NULL,
    landed_at     INTEGER,
    CHECK (live = 0 OR landed_at IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX remote_bundle_live ON remote_bundle (folder, name) WHERE live = 1;

CREATE INDEX remote_bundle_by_place ON remote_bundle (folder, name, generation);

CREATE INDEX remote_bundle_by_credential ON remote_bundle (credential_id);

CREATE VIEW remote_bundle_run AS
SELECT b.id, 'bundle-' || b.id AS session, b.credential_id, b.session_id, b.folder, c.by_uid,
       json_array(b.program, 'unpack', b.folder, b.name, CAST(b.size AS TEXT), b.sha256,
           CAST((SELECT value FROM setting WHERE name = 'remote.bundle_stall_ms') AS TEXT),
           CAST((SELECT value FROM setting WHERE name = 'remote.bundle_git_ms') AS TEXT),
           CAST((SELECT value FROM setting WHERE name = 'remote.bundle_unpacked') AS TEXT)) AS argv
  FROM remote_bundle AS b JOIN remote_credential AS c ON c.id = b.credential_id;

CREATE VIEW remote_bundles AS
SELECT b.id, c.name AS credential, b.credential_id, b.name, b.folder, b.generation,
       CASE WHEN b.live THEN 'live' WHEN b.landed_at IS NOT NULL THEN 'replaced'
            WHEN s.finished_at IS NULL THEN 'open' ELSE 'failed' END AS state,
       b.size, b.received, b.sha256, b.asked_at, b.landed_at, s.name AS session,
       coalesce((SELECT utf8(o.data) FROM session_output AS o
                  WHERE o.session_id = s.id AND o.kind = 'err' ORDER BY o.seq DESC LIMIT 1),
                (SELECT t.why FROM attempt AS t WHERE t.session_id = s.id ORDER BY t.n DESC LIMIT 1)) AS message
  FROM remote_bundle AS b JOIN remote_credential AS c ON c.id = b.credential_id
  LEFT JOIN session AS s ON s.id = b.session_id;

CREATE TRIGGER remote_bundle_is_allowed BEFORE INSERT ON remote_bundle
BEGIN
    SELECT RAISE(ABORT, 'remote.token|no live credential has this secret')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting WHERE id = NEW.credential_id);
    SELECT RAISE(ABORT, 'remote.verb|this credential copies no repository')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN json_each(a.verbs) AS v
                        WHERE v.value = 'bundle');
    SELECT RAISE(ABORT, 'bundle.name|a repository''s name is 1 to 128 letters, digits, dots, dashes and underscores, and begins with none of dot and dash')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 128 OR NEW.name NOT GLOB '[A-Za-z0-9_]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'bundle.size|a bundle has 1 to remote.bundle_bytes bytes')
     WHERE NEW.size NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'remote.bundle_bytes');
    SELECT RAISE(ABORT, 'bundle.digest|a digest is 64 small hex digits: SHA-256 of the bundle')
     WHERE length(NEW.sha256) <> 64 OR NEW.sha256 GLOB '*[^0-9a-f]*';
    SELECT RAISE(ABORT, 'bundle.busy|another copy to this place is under way')
     WHERE EXISTS (SELECT 1 FROM remote_bundles WHERE folder = NEW.folder AND name = NEW.name AND state = 'open');
    SELECT RAISE(ABORT, 'bundle.many|this credential has as many copies under way as it may')
     WHERE (SELECT count(*) FROM remote_bundles
             WHERE credential_id = NEW.credential_id AND state = 'open')
        >= (SELECT value FROM setting WHERE name = 'remote.bundles');
    SELECT RAISE(ABORT, 'bundle.quota|the repositories of this credential would take more than remote.bundle_total')
     WHERE NEW.size + (SELECT coalesce(sum(size), 0) FROM remote_bundles
                        WHERE credential_id = NEW.credential_id AND state IN ('open', 'live')
                          AND NOT (folder = NEW.folder AND name = NEW.name))
         > (SELECT value FROM setting WHERE name = 'remote.bundle_total');
    SELECT RAISE(ABORT, 'remote.transition|a copy begins with nothing')
     WHERE NEW.received <> 0 OR NEW.live <> 0 OR NEW.landed_at IS NOT NULL OR NEW.session_id IS NOT NULL
        OR NEW.generation <> coalesce((SELECT max(generation) FROM remote_bundle
                                        WHERE folder = NEW.folder AND name = NEW.name), 0) + 1;
END;

CREATE TRIGGER remote_bundle_begins AFTER INSERT ON remote_bundle
BEGIN
    INSERT INTO session (name, argv, cwd, by_uid, input, max_attempts, queued_at, not_before)
    SELECT session, argv, folder, by_uid, 1, 1, NEW.asked_at, NEW.asked_at
      FROM remote_bundle_run WHERE id = NEW.id;
    UPDATE remote_bundle SET session_id = (SELECT id FROM session WHERE name = 'bundle-' || NEW.id)
     WHERE id = NEW.id;
END;

CREATE TRIGGER remote_bundle_grows BEFORE UPDATE OF received ON remote_bundle
BEGIN
    SELECT RAISE(ABORT, 'remote.token|no live credential has this secret')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting WHERE id = OLD.credential_id);
    SELECT RAISE(ABORT, 'bundle.size|this is more than the bundle has') WHERE NEW.received > OLD.size;
    SELECT RAISE(ABORT, 'bundle.over|nothing more is taken for this copy')
     WHERE NEW.received <= OLD.received
        OR (SELECT state FROM remote_bundles WHERE id = OLD.id) <> 'open';
END;

CREATE TRIGGER remote_bundle_moves BEFORE UPDATE ON remote_bundle
BEGIN
    SELECT RAISE(ABORT, 'remote.fixed|what is copied where never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.credential_id IS NOT OLD.credential_id OR NEW.name IS NOT OLD.name
        OR NEW.folder IS NOT OLD.folder OR NEW.size IS NOT OLD.size OR NEW.sha256 IS NOT OLD.sha256
        OR NEW.program IS NOT OLD.program OR NEW.generation IS NOT OLD.generation
        OR NEW.asked_at IS NOT OLD.asked_at OR (OLD.landed_at IS NOT NULL AND NEW.landed_at IS NOT OLD.landed_at);
    SELECT RAISE(ABORT, 'remote.transition|a copy lands when its session ends well, once')
     WHERE (NEW.live > OLD.live AND (OLD.landed_at IS NOT NULL
            OR (SELECT state FROM session WHERE id = OLD.session_id) IS NOT 'done'))
        OR (NEW.landed_at IS NOT OLD.landed_at AND NEW.live = 0)
        OR (NEW.session_id IS NOT OLD.session_id AND NEW.session_id IS NOT NULL
            AND (OLD.session_id IS NOT NULL OR OLD.landed_at IS NOT NULL
                 OR (SELECT name FROM session WHERE id = NEW.session_id) IS NOT 'bundle-' || OLD.id));
END;

CREATE TRIGGER remote_bundle_lands AFTER UPDATE OF state ON session
WHEN NEW.state = 'done' AND EXISTS (SELECT 1 FROM remote_bundle WHERE session_id = NEW.id)
BEGIN
    UPDATE remote_bundle SET live = 0
     WHERE live = 1 AND (folder, name) = (SELECT folder, name FROM remote_bundle WHERE session_id = NEW.id);
    UPDATE remote_bundle SET live = 1, landed_at = NEW.finished_at WHERE session_id = NEW.id;
    DELETE FROM remote_bundle WHERE live = 0 AND session_id IS NULL;
END;

CREATE TRIGGER remote_bundle_outlives BEFORE DELETE ON session
BEGIN
    UPDATE remote_bundle SET session_id = NULL WHERE session_id = OLD.id;
    DELETE FROM remote_bundle WHERE live = 0 AND session_id IS NULL;
END;

CREATE TRIGGER remote_bundle_stays BEFORE DELETE ON remote_bundle
BEGIN
    SELECT RAISE(ABORT, 'remote.kept|a copy goes when its session does')
     WHERE OLD.live = 1 OR OLD.session_id IS NOT NULL;
END;

CREATE TRIGGER remote_bundle_audit_birth AFTER INSERT ON remote_bundle
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_bundle', NEW.id, 'asked', '',
            json_object('folder', NEW.folder, 'name', NEW.name, 'size', NEW.size, 'sha256', NEW.sha256));
END;

CREATE TRIGGER remote_bundle_audit_landed AFTER UPDATE OF live ON remote_bundle WHEN NEW.live > OLD.live
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_bundle', NEW.id, 'landed', '',
            json_object('folder', NEW.folder, 'name', NEW.name, 'generation', NEW.generation));
END;

CREATE TRIGGER session_from_afar BEFORE INSERT ON session WHEN acting() GLOB 'remote:*'
BEGIN
    SELECT RAISE(ABORT, 'remote.token|no live credential has this secret')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting);
    SELECT RAISE(ABORT, 'remote.verb|this credential does not begin sessions')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN json_each(a.verbs) AS v
                        WHERE v.value IN ('run', 'command'))
       -- A copy of a repository (session_bundle.sql) has a verb and a program of its own.
       AND NOT EXISTS (SELECT 1 FROM remote_bundle_run AS b JOIN remote_acting AS a ON a.id = b.credential_id
                        WHERE b.session_id IS NULL AND b.session = NEW.name AND b.argv = NEW.argv
                          AND b.folder = NEW.cwd);
    -- Who may give a command may give any word; else a worker is run as its person added it, and an
    -- option could turn it into something else.
    SELECT RAISE(ABORT, 'remote.command|this credential runs workers, with words that are no options')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN json_each(a.verbs) AS v
                        WHERE v.value = 'command')
       AND NOT EXISTS (SELECT 1 FROM remote_bundle_run AS b JOIN remote_acting AS a ON a.id = b.credential_id
                        WHERE b.session_id IS NULL AND b.session = NEW.name AND b.argv = NEW.argv
                          AND b.folder = NEW.cwd)
       AND (NEW.worker = ''
            OR EXISTS (SELECT 1 FROM json_each(NEW.argv) AS w
                        WHERE w.value GLOB '-*'
                          AND w.key >= (SELECT json_array_length(argv) FROM worker
                                         WHERE name = NEW.worker)));
    SELECT RAISE(ABORT, 'remote.root|this credential works in other folders')
     WHERE NEW.cwd || '/' GLOB '*/../*' OR NEW.cwd || '/' GLOB '*/./*' OR NEW.cwd GLOB '*//*'
        OR NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN json_each(a.roots) AS r
                        WHERE r.value IN ('/', NEW.cwd)
                           OR substr(NEW.cwd, 1, length(r.value) + 1) = r.value || '/');
    SELECT RAISE(ABORT, 'remote.user|a session from afar runs as the user of its credential')
     WHERE NEW.by_uid IS NOT (SELECT by_uid FROM remote_acting);
END;

CREATE TRIGGER session_from_afar_is_known AFTER INSERT ON session WHEN acting() GLOB 'remote:*'
BEGIN
    INSERT INTO remote_session (session_id, credential_id) SELECT NEW.id, id FROM remote_acting;
END;

CREATE TRIGGER session_leaves_afar BEFORE DELETE ON session
BEGIN
    DELETE FROM remote_session WHERE session_id = OLD.id;
END;

CREATE TRIGGER session_cancelled_from_afar BEFORE UPDATE OF cancel_at ON session
WHEN acting() GLOB 'remote:*'
BEGIN
    SELECT RAISE(ABORT, 'remote.verb|this credential does not end this session')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN remote_reach AS r ON r.credential_id = a.id
                        WHERE r.session_id = NEW.id AND r.verb = 'cancel');
END;

CREATE TRIGGER session_input_from_afar BEFORE INSERT ON session_input WHEN acting() GLOB 'remote:*'
BEGIN
    SELECT RAISE(ABORT, 'remote.verb|this credential does not send to this session')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN remote_reach AS r ON r.credential_id = a.id
                        WHERE r.session_id = NEW.session_id AND r.verb = 'send')
       AND NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN remote_bundle AS b ON b.credential_id = a.id
                        WHERE b.session_id = NEW.session_id);
END;

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

CREATE TABLE tls_authority (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    cert      BLOB    NOT NULL CHECK (length(cert) BETWEEN 1 AND 8192),        -- DER
    fp        BLOB    NOT NULL CHECK (length(fp) = 32),                        -- SHA-256 of it
    key       BLOB    NOT NULL CHECK (length(key) BETWEEN 41 AND 4096),        -- sealed
    not_after INTEGER NOT NULL,
    made_at   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER tls_authority_once BEFORE INSERT ON tls_authority
BEGIN
    SELECT RAISE(ABORT, 'tls.authority|this machine has an authority, and whoever is paired pins it')
     WHERE EXISTS (SELECT 1 FROM tls_authority);
END;

CREATE TRIGGER tls_authority_fixed BEFORE UPDATE ON tls_authority
BEGIN
    SELECT RAISE(ABORT, 'tls.authority|this machine has an authority, and whoever is paired pins it');
END;

CREATE TRIGGER tls_authority_stays BEFORE DELETE ON tls_authority
BEGIN
    SELECT RAISE(ABORT, 'tls.authority|this machine has an authority, and whoever is paired pins it');
END;

CREATE TRIGGER tls_authority_audit AFTER INSERT ON tls_authority
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'tls_authority', NEW.id, 'created', '',
            json_object('fp', lower(hex(NEW.fp)), 'not_after', NEW.not_after));
END;

CREATE TABLE pairing_tls (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    authority  BLOB    NOT NULL CHECK (length(authority) BETWEEN 1 AND 8192),  -- DER
    fp         BLOB    NOT NULL CHECK (length(fp) = 32),                       -- SHA-256 of it
    pinned_at  INTEGER NOT NULL
) STRICT;

CREATE TRIGGER pairing_tls_born BEFORE INSERT ON pairing_tls
BEGIN
    SELECT RAISE(ABORT, 'pairing.authority|a Host of this name is paired here with another authority')
     WHERE EXISTS (SELECT 1 FROM pairing_tls WHERE pairing_id = NEW.pairing_id AND fp <> NEW.fp);
    SELECT RAISE(ABORT, 'pairing.transport|a pairing over a unix socket pins no authority')
     WHERE (SELECT transport FROM pairing WHERE id = NEW.pairing_id) IS 'unix';
    SELECT RAISE(ABORT, 'pairing.authority|the authority is not the one of this fingerprint')
     WHERE sha256(NEW.authority) <> NEW.fp;
END;

CREATE TRIGGER pairing_tls_fixed BEFORE UPDATE ON pairing_tls
BEGIN
    SELECT RAISE(ABORT, 'pairing.authority|a pairing keeps the authority that it pinned');
END;

CREATE TRIGGER pairing_tls_stays BEFORE DELETE ON pairing_tls
WHEN EXISTS (SELECT 1 FROM pairing WHERE id = OLD.pairing_id AND state <> 'revoked')
 AND NOT EXISTS (SELECT 1 FROM pairing WHERE id = OLD.pairing_id AND transport = 'unix')
BEGIN
    SELECT RAISE(ABORT, 'pairing.authority|what a pairing pins ends with the pairing');
END;

CREATE TRIGGER pairing_tls_audit AFTER INSERT ON pairing_tls
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_tls', NEW.pairing_id, 'pinned',
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('fp', lower(hex(NEW.fp))));
END;

CREATE TABLE tls_identity (
    id         INTEGER PRIMARY KEY,
    use        TEXT    NOT NULL CHECK (use IN ('server', 'client')),
    pairing_id INTEGER REFERENCES pairing (id),
    state      TEXT    NOT NULL DEFAULT 'current' CHECK (state IN ('current', 'past')),
    cert       BLOB    NOT NULL CHECK (length(cert) BETWEEN 1 AND 8192),       -- DER
    fp         BLOB    NOT NULL UNIQUE CHECK (length(fp) = 32),
    key        BLOB    CHECK (length(key) BETWEEN 41 AND 4096),                -- sealed; gone with its time
    not_before INTEGER NOT NULL,
    not_after  INTEGER NOT NULL CHECK (not_after > not_before),
    made_at    INTEGER NOT NULL,
    ended_at   INTEGER,
    CHECK ((state = 'current') = (key IS NOT NULL)),
    CHECK ((state = 'past') = (ended_at IS NOT NULL)),
    CHECK (pairing_id IS NULL OR use = 'client')
) STRICT;

CREATE UNIQUE INDEX tls_identity_current ON tls_identity (use, coalesce(pairing_id, 0))
 WHERE state = 'current';

CREATE TRIGGER tls_identity_born BEFORE INSERT ON tls_identity
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate begins as the current one')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'tls_identity' AND from_state = '' AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'pairing.transport|a certificate is for a pairing over a network that stands')
     WHERE NEW.pairing_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM pairing AS p JOIN pairing_tls AS t ON t.pairing_id = p.id
                        WHERE p.id = NEW.pairing_id AND p.state <> 'revoked'
                          AND p.transport <> 'unix');
    UPDATE tls_identity SET state = 'past', key = NULL, ended_at = now_ms()
     WHERE use = NEW.use AND pairing_id IS NEW.pairing_id AND state = 'current';
END;

CREATE TRIGGER tls_identity_moves BEFORE UPDATE ON tls_identity
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate that is past is history')
     WHERE OLD.state = 'past';
    SELECT RAISE(ABORT, 'tls.identity|a certificate only ends')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'tls_identity' AND from_state = OLD.state AND to_state = NEW.state)
        OR NEW.id IS NOT OLD.id OR NEW.use IS NOT OLD.use
        OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.cert IS NOT OLD.cert OR NEW.fp IS NOT OLD.fp
        OR NEW.not_before IS NOT OLD.not_before OR NEW.not_after IS NOT OLD.not_after
        OR NEW.made_at IS NOT OLD.made_at;
END;

CREATE TRIGGER tls_identity_stays BEFORE DELETE ON tls_identity
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate that is past is history');
END;

CREATE TRIGGER tls_identity_audit AFTER INSERT ON tls_identity
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'tls_identity', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('use', NEW.use, 'fp', lower(hex(NEW.fp)), 'not_after', NEW.not_after));
END;

CREATE TRIGGER tls_identity_audit_move AFTER UPDATE OF state ON tls_identity
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'tls_identity', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('use', NEW.use));
END;

CREATE TRIGGER pairing_tls_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE tls_identity SET state = 'past', key = NULL, ended_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state = 'current';
    DELETE FROM pairing_tls WHERE pairing_id = NEW.id;
END;

CREATE TRIGGER pairing_tls_ends_with_transport AFTER UPDATE OF transport ON pairing
WHEN NEW.transport = 'unix' AND OLD.transport <> 'unix'
BEGIN
    UPDATE tls_identity SET state = 'past', key = NULL, ended_at = now_ms()
     WHERE pairing_id = NEW.id AND state = 'current';
    DELETE FROM pairing_tls WHERE pairing_id = NEW.id;
END;

CREATE TABLE box_certificate (
    id         INTEGER PRIMARY KEY,
    box_id     INTEGER NOT NULL REFERENCES host_box (id),
    public_key BLOB    NOT NULL CHECK (length(public_key) BETWEEN 1 AND 2048), -- SubjectPublicKeyInfo, DER
    asked_at   INTEGER NOT NULL,
    cert       BLOB    CHECK (length(cert) BETWEEN 1 AND 8192),                -- DER
    fp         BLOB    UNIQUE CHECK (length(fp) = 32),
    not_after  INTEGER,
    issued_at  INTEGER,
    CHECK ((cert IS NULL) = (fp IS NULL) AND (cert IS NULL) = (not_after IS NULL)
           AND (cert IS NULL) = (issued_at IS NULL))
) STRICT;

CREATE INDEX box_certificate_due ON box_certificate (id) WHERE cert IS NULL;

CREATE INDEX box_certificate_by_box ON box_certificate (box_id, id);

CREATE TRIGGER box_certificate_is_allowed BEFORE INSERT ON box_certificate
BEGIN
    SELECT RAISE(ABORT, 'box.gone|a certificate is for a box that is paired over a network')
     WHERE NOT EXISTS (SELECT 1 FROM host_box WHERE id = NEW.box_id AND state = 'active'
                          AND transport <> 'unix');
    SELECT RAISE(ABORT, 'tls.busy|a certificate of this box is being issued')
     WHERE EXISTS (SELECT 1 FROM box_certificate WHERE box_id = NEW.box_id AND cert IS NULL);
    SELECT RAISE(ABORT, 'tls.often|this box has had its certificates of today')
     WHERE (SELECT count(*) FROM box_certificate
             WHERE box_id = NEW.box_id AND asked_at > now_ms() - 86400000)
        >= (SELECT value FROM setting WHERE name = 'tls.per_day');
    SELECT RAISE(ABORT, 'tls.identity|a certificate begins with its key')
     WHERE NEW.cert IS NOT NULL;
END;

CREATE TRIGGER box_certificate_once BEFORE UPDATE ON box_certificate
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate is issued once')
     WHERE OLD.cert IS NOT NULL OR NEW.cert IS NULL OR NEW.id IS NOT OLD.id
        OR NEW.box_id IS NOT OLD.box_id OR NEW.public_key IS NOT OLD.public_key
        OR NEW.asked_at IS NOT OLD.asked_at;
    SELECT RAISE(ABORT, 'box.gone|a certificate is for a box that is paired over a network')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

CREATE TRIGGER box_certificate_stays BEFORE DELETE ON box_certificate
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate that is past is history');
END;

CREATE TRIGGER box_certificate_audit AFTER UPDATE OF cert ON box_certificate
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'box_certificate', NEW.id, 'issued', '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id),
                        'fp', lower(hex(NEW.fp)), 'not_after', NEW.not_after));
END;

CREATE VIEW box_shown AS
SELECT c.fp, c.box_id, b.name, c.not_after
  FROM box_certificate AS c JOIN host_box AS b ON b.id = c.box_id
 WHERE b.state = 'active' AND b.transport <> 'unix' AND c.fp IS NOT NULL
   AND (SELECT count(*) FROM box_certificate AS n
         WHERE n.box_id = c.box_id AND n.fp IS NOT NULL AND n.id > c.id) < 2;

CREATE VIEW tls_due AS
SELECT i.id, i.use, i.pairing_id, i.not_after
  FROM tls_identity AS i
 WHERE i.state = 'current'
   AND i.not_after - min((SELECT value FROM setting WHERE name = 'tls.renew_ms'),
                         (i.not_after - max(i.not_before, i.made_at)) / 3) <= now_ms();

CREATE VIEW tls_wanted AS
SELECT w.use
  FROM (SELECT 'server' AS use WHERE EXISTS (SELECT 1 FROM listen)
                                    OR EXISTS (SELECT 1 FROM remote_listen)
        UNION ALL
        SELECT 'client' WHERE EXISTS (SELECT 1 FROM host_box
                                       WHERE state = 'active' AND transport = 'tls')) AS w
 WHERE NOT EXISTS (SELECT 1 FROM tls_identity AS i
                    WHERE i.use = w.use AND i.pairing_id IS NULL AND i.state = 'current'
                      AND i.id NOT IN (SELECT id FROM tls_due));

CREATE TABLE listen (
    what    TEXT    PRIMARY KEY CHECK (what IN ('host', 'lane')),
    address TEXT    NOT NULL,
    port    INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    set_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER listen_is_one BEFORE INSERT ON listen
BEGIN
    SELECT RAISE(ABORT, 'listen.invalid|this is no address to listen on: * or an IP address, and a port')
     WHERE NEW.address <> '*'
       AND (endpoint_text(NEW.address || ':1') IS NOT NEW.address || ':1'
            OR (NEW.address NOT GLOB '[[]*' AND NEW.address GLOB '*[^0-9.]*'));
    SELECT RAISE(ABORT, 'listen.role|a Host listens for boxes, a box listens for Hosts')
     WHERE NEW.what IS NOT (SELECT CASE role WHEN 'host' THEN 'host' ELSE 'lane' END FROM box);
END;

CREATE TRIGGER listen_no_update BEFORE UPDATE ON listen
BEGIN
    SELECT RAISE(ABORT, 'listen.fixed|where this machine listens is replaced, never edited');
END;

CREATE TRIGGER listen_audit_birth AFTER INSERT ON listen
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'listen', 0, 'added', '',
            json_object('what', NEW.what, 'address', NEW.address, 'port', NEW.port));
END;

CREATE TRIGGER listen_audit_end AFTER DELETE ON listen
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'listen', 0, 'removed', '',
            json_object('what', OLD.what, 'address', OLD.address, 'port', OLD.port));
END;

CREATE TABLE host_address (
    ord      INTEGER PRIMARY KEY CHECK (ord >= 1),
    endpoint TEXT    NOT NULL UNIQUE                           -- as endpoint_text() spells it
) STRICT;

CREATE TRIGGER host_address_is_one BEFORE INSERT ON host_address
BEGIN
    SELECT RAISE(ABORT, 'endpoint.invalid|an endpoint of this list is not a host:port')
     WHERE endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than a pairing code can name')
     WHERE (SELECT count(*) FROM host_address)
        >= (SELECT value FROM setting WHERE name = 'host.addresses');
END;

CREATE TRIGGER host_address_no_update BEFORE UPDATE ON host_address
BEGIN
    SELECT RAISE(ABORT, 'endpoint.fixed|endpoints are replaced, never edited');
END;

CREATE TRIGGER host_address_audit_birth AFTER INSERT ON host_address
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'host_address', NEW.ord, 'added', '', json_object('endpoint', NEW.endpoint));
END;

CREATE TRIGGER host_address_audit_end AFTER DELETE ON host_address
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'host_address', OLD.ord, 'removed', '', json_object('endpoint', OLD.endpoint));
END;

CREATE TABLE token (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64
                        AND name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0),
    header      TEXT    NOT NULL DEFAULT 'Authorization' CHECK (length(header) BETWEEN 1 AND 64),
    scheme      TEXT    NOT NULL DEFAULT 'Bearer' CHECK (length(scheme) <= 32),     -- '': the secret alone
    placeholder TEXT    NOT NULL UNIQUE CHECK (length(placeholder) = 40 AND placeholder GLOB 'bastion-*'),
    secret      BLOB    CHECK (length(secret) BETWEEN 48 AND 4136),                 -- sealed
    generation  INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),                 -- grows with each secret
    state       TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    made_at     INTEGER NOT NULL,
    made_by_uid INTEGER NOT NULL CHECK (made_by_uid >= 0),
    rotated_at  INTEGER,
    dropped_at  INTEGER,
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL)),
    CHECK ((state = 'dropped') = (secret IS NULL))
) STRICT;

CREATE UNIQUE INDEX token_by_name ON token (name) WHERE state = 'active';

CREATE TABLE token_host (
    token_id INTEGER NOT NULL REFERENCES token (id),
    suffix   TEXT    NOT NULL CHECK (length(suffix) BETWEEN 1 AND 253),
    PRIMARY KEY (token_id, suffix)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER token_born BEFORE INSERT ON token
BEGIN
    SELECT CASE
           WHEN length(NEW.name) NOT BETWEEN 1 AND 64 OR NEW.name GLOB '*[^A-Za-z0-9._-]*'
             OR instr(NEW.name, char(0)) > 0
           THEN RAISE(ABORT, 'token.name|a name is 1 to 64 letters, digits, dots, dashes and underscores')
           WHEN EXISTS (SELECT 1 FROM token WHERE name = NEW.name AND state = 'active')
           THEN RAISE(ABORT, 'token.name|there is a token of this name')
           WHEN length(NEW.header) NOT BETWEEN 1 AND 64 OR NEW.header GLOB '*[^A-Za-z0-9-]*'
             OR instr(NEW.header, char(0)) > 0
           THEN RAISE(ABORT, 'token.header|a header has 1 to 64 letters, digits and dashes')
           WHEN lower(NEW.header) IN ('host', 'connection', 'content-length', 'transfer-encoding', 'upgrade',
                'te', 'trailer', 'keep-alive', 'expect', 'range', 'if-range', 'accept-encoding', 'content-encoding',
                'location', 'referer', 'origin', 'user-agent')
             OR lower(NEW.header) GLOB 'proxy-*' OR lower(NEW.header) GLOB 'sec-*'
           THEN RAISE(ABORT, 'token.header|this header says something else')
           WHEN NEW.scheme GLOB '*[^A-Za-z0-9-]*' OR instr(NEW.scheme, char(0)) > 0 OR length(NEW.scheme) > 32
           THEN RAISE(ABORT, 'token.scheme|a scheme is one word of letters, digits and dashes')
           WHEN NEW.state <> 'active' OR NEW.generation <> 1 OR NEW.secret IS NULL
           THEN RAISE(ABORT, 'token.transition|a token begins as active, with its first secret')
           WHEN (SELECT count(*) FROM token WHERE state = 'active')
             >= (SELECT value FROM setting WHERE name = 'token.live')
           THEN RAISE(ABORT, 'token.many|there are as many tokens as the setting token.live allows')
           END;
END;

CREATE TRIGGER token_moves BEFORE UPDATE ON token
BEGIN
    SELECT RAISE(ABORT, 'token.final|a token that was dropped stays dropped')
     WHERE OLD.state = 'dropped' OR (NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'token' AND from_state = OLD.state AND to_state = NEW.state));
    SELECT RAISE(ABORT, 'token.fixed|a token keeps its name, header and placeholder; a new secret is a new generation')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.header IS NOT OLD.header
        OR NEW.scheme IS NOT OLD.scheme OR NEW.placeholder IS NOT OLD.placeholder
        OR NEW.made_at IS NOT OLD.made_at OR NEW.made_by_uid IS NOT OLD.made_by_uid
        OR NEW.generation <> OLD.generation + (NEW.state = 'active')
        OR (NEW.rotated_at IS NULL AND NEW.state = 'active');
END;

CREATE TRIGGER token_stays BEFORE DELETE ON token
BEGIN
    SELECT RAISE(ABORT, 'token.kept|a token is dropped, not deleted: requests name it');
END;

CREATE TRIGGER token_host_born BEFORE INSERT ON token_host
BEGIN
    SELECT CASE
           WHEN host_text(NEW.suffix) IS NOT NEW.suffix
           THEN RAISE(ABORT, 'token.host|a token is for a name in lower case or an address')
           WHEN host_tail(NEW.suffix, 8) IS NOT NULL
           THEN RAISE(ABORT, 'token.host|the name of a host has eight labels at most')
           -- A name of one label is a whole top-level domain.
           WHEN NEW.suffix NOT GLOB '*[.:]*'
           THEN RAISE(ABORT, 'token.host|a token is for one host and those below it, not for all of a domain')
           WHEN (SELECT state FROM token WHERE id = NEW.token_id) IS NOT 'active'
             OR EXISTS (SELECT 1 FROM egress_within WHERE token_id = NEW.token_id)
             OR EXISTS (SELECT 1 FROM egress_request WHERE token_id = NEW.token_id)
           THEN RAISE(ABORT, 'token.fixed|a token gets no more hosts once it is in use')
           WHEN (SELECT count(*) FROM token_host WHERE token_id = NEW.token_id)
             >= (SELECT value FROM setting WHERE name = 'token.hosts')
           THEN RAISE(ABORT, 'token.many|a token is for as many hosts as the setting token.hosts allows')
           END;
END;

CREATE TRIGGER token_host_moves BEFORE UPDATE ON token_host
BEGIN
    SELECT RAISE(ABORT, 'token.fixed|the hosts of a token never change');
END;

CREATE TRIGGER token_host_stays BEFORE DELETE ON token_host
BEGIN
    SELECT RAISE(ABORT, 'token.fixed|the hosts of a token never change');
END;

CREATE TRIGGER token_audit_birth AFTER INSERT ON token
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'token', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'header', NEW.header, 'scheme', NEW.scheme));
END;

CREATE TRIGGER token_host_audit AFTER INSERT ON token_host
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'token', NEW.token_id, 'host', '', json_object('suffix', NEW.suffix));
END;

CREATE TRIGGER token_audit_move AFTER UPDATE ON token
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'token', NEW.id, iif(NEW.state IS OLD.state, 'rotated', NEW.state), '',
            json_object('name', NEW.name, 'generation', NEW.generation));
END;

CREATE TRIGGER token_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE token SET state = 'dropped', dropped_at = now_ms(), secret = NULL WHERE state = 'active';
END;

CREATE VIEW tokens AS
SELECT t.id, t.name, t.state,
       (SELECT group_concat(suffix, ' ') FROM token_host WHERE token_id = t.id) AS hosts,
       t.header, t.scheme, t.placeholder, t.made_at, t.rotated_at, t.dropped_at,
       (SELECT max(asked_at) FROM egress_request WHERE token_id = t.id) AS used_at
  FROM token AS t;

CREATE TABLE verb (
    name TEXT PRIMARY KEY CHECK (name GLOB '[a-z]*.[a-z]*'),
    op   TEXT NOT NULL UNIQUE REFERENCES op (name),
    tool TEXT,                                                 -- the program that it needs; NULL: none
    dials    INTEGER NOT NULL DEFAULT 0 CHECK (dials IN (0, 1)),   -- it reaches out: verb_dial.sql
    declares INTEGER CHECK (declares BETWEEN 0 AND 1),         -- the argument that may say where to, from 0 on
    CHECK (declares IS NULL OR dials)
) STRICT, WITHOUT ROWID;

CREATE TABLE op_probe (
    op        TEXT    PRIMARY KEY REFERENCES op (name),
    works     INTEGER NOT NULL CHECK (works IN (0, 1)),
    why       TEXT    NOT NULL CHECK (length(why) <= 512),     -- what is missing; '' where it works
    probed_at INTEGER NOT NULL,
    CHECK (works = (why = ''))
) STRICT, WITHOUT ROWID;

CREATE VIEW verb_report AS
SELECT v.name, v.op, v.tool, p.works, p.why, p.probed_at
  FROM verb AS v LEFT JOIN op_probe AS p ON p.op = v.op;

CREATE TABLE verb_dial (
    id        INTEGER PRIMARY KEY,
    op_run_id INTEGER NOT NULL UNIQUE REFERENCES op_run (id),
    host      TEXT    NOT NULL CHECK (length(host) BETWEEN 1 AND 253),     -- as host_text() spells it
    port      INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    addresses TEXT    NOT NULL CHECK (json_valid(addresses) AND json_type(addresses) = 'array'),
    at        INTEGER NOT NULL
) STRICT;

CREATE VIEW verb_dials AS
SELECT d.id, d.at, p.host_name AS host, r.op, d.op_run_id AS run, d.host || ':' || d.port AS what, d.addresses, r.state
  FROM verb_dial AS d JOIN op_run AS r ON r.id = d.op_run_id JOIN pairing AS p ON p.id = r.pairing_id;

CREATE VIEW judged_destination AS
SELECT r.pairing_id, d.host, d.port, d.addresses FROM verb_dial AS d JOIN op_run AS r ON r.id = d.op_run_id;

CREATE TRIGGER destination_is_judged INSTEAD OF INSERT ON judged_destination
BEGIN
    SELECT CASE
           WHEN host_text(NEW.host) IS NOT NEW.host
           THEN RAISE(ABORT, 'egress.host|there is no name or address to reach')
           WHEN NEW.host = 'localhost' OR NEW.host GLOB '*.localhost'
           THEN RAISE(ABORT, 'egress.this_machine|that name is this machine')
           WHEN EXISTS (SELECT 1 FROM egress_rule
                         WHERE state = 'active' AND verdict = 'deny' AND uid IS NULL
                           AND (pairing_id IS NULL OR pairing_id = NEW.pairing_id) AND port IN (0, NEW.port)
                           AND (suffix IN ('*', NEW.host)
                                OR substr(NEW.host, -length(suffix) - 1) = '.' || suffix))
           THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN json_array_length(NEW.addresses)
                NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'egress.addresses')
           THEN RAISE(ABORT, 'egress.resolve|could not resolve that name to a sensible number of addresses')
           END;
    SELECT CASE
           WHEN a.judged IS NULL
           THEN RAISE(ABORT, 'egress.address|an address of that name is none')
           WHEN c.class NOT IN ('public', 'network')
           THEN refuse('egress.' || c.class, 'that is ' || c.why || ': no verb reaches it', 0)
           WHEN NOT EXISTS (SELECT 1 FROM own_address)
           THEN RAISE(ABORT, 'egress.own_unknown|cannot tell whether that is itself: the kernel does not say what this machine''s addresses are')
           WHEN EXISTS (SELECT 1 FROM own_address WHERE a.ip BETWEEN first AND last OR a.judged BETWEEN first AND last)
           THEN RAISE(ABORT, 'egress.own|that is this machine')
           WHEN c.class = 'network' AND NOT EXISTS (SELECT 1 FROM live_anchor)
           THEN refuse('egress.network', 'that is ' || c.why || ': only an anchored machine reaches it', 0)
           END
      FROM (SELECT ip, (SELECT iif(embed IS NULL, ip,
                                   CAST(x'00000000000000000000ffff' || substr(ip, embed + 1, 4) AS BLOB))
                          FROM address_class WHERE ip BETWEEN first AND last ORDER BY prio LIMIT 1) AS judged
              FROM (SELECT address_bytes(value) AS ip FROM json_each(NEW.addresses))) AS a
      LEFT JOIN address_class AS c
        ON c.prio = (SELECT min(prio) FROM address_class WHERE a.judged BETWEEN first AND last);
END;

CREATE VIEW declared_destination AS
SELECT r.pairing_id, r.op, r.args ->> v.declares AS word
  FROM op_run AS r JOIN verb AS v ON v.op = r.op WHERE (r.args ->> v.declares) IS NOT NULL;

CREATE TRIGGER destination_arrives INSTEAD OF INSERT ON declared_destination
BEGIN
    SELECT RAISE(ABORT, 'egress.host|there is no name or address to reach')
     WHERE destination_host(NEW.word) IS NULL;
    INSERT INTO judged_destination
    SELECT NEW.pairing_id, destination_host(NEW.word), destination_port(NEW.word),
           json_array(destination_host(NEW.word))
     WHERE address_bytes(destination_host(NEW.word)) IS NOT NULL;
END;

CREATE TRIGGER approval_destination BEFORE INSERT ON approval
WHEN (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op) IS NOT NULL
BEGIN
    INSERT INTO declared_destination
    VALUES (NEW.pairing_id, NEW.op, (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op));
END;

CREATE TRIGGER op_run_destination BEFORE INSERT ON op_run
WHEN (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op) IS NOT NULL
BEGIN
    INSERT INTO declared_destination
    VALUES (NEW.pairing_id, NEW.op, (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op));
END;

CREATE TRIGGER verb_dial_born BEFORE INSERT ON verb_dial
BEGIN
    SELECT RAISE(ABORT, 'act.dial|only a running verb that reaches out dials, and once')
     WHERE NOT EXISTS (SELECT 1 FROM op_run AS r JOIN verb AS v ON v.op = r.op
                        WHERE r.id = NEW.op_run_id AND r.state = 'running' AND v.dials)
        OR EXISTS (SELECT 1 FROM verb_dial WHERE op_run_id = NEW.op_run_id);
    SELECT RAISE(ABORT, 'act.remote|that is another place than was asked for')
      FROM op_run AS r JOIN verb AS v ON v.op = r.op
     WHERE r.id = NEW.op_run_id AND (r.args ->> v.declares) IS NOT NULL
       AND (destination_host(r.args ->> v.declares) IS NOT NEW.host
            OR destination_port(r.args ->> v.declares) IS NOT NEW.port);
    INSERT INTO judged_destination
    SELECT pairing_id, NEW.host, NEW.port, NEW.addresses FROM op_run WHERE id = NEW.op_run_id;
END;

CREATE TRIGGER verb_dial_fixed BEFORE UPDATE ON verb_dial
BEGIN
    SELECT RAISE(ABORT, 'act.dial|what was reached is history');
END;

CREATE TRIGGER verb_dial_stays BEFORE DELETE ON verb_dial
BEGIN
    SELECT RAISE(ABORT, 'act.dial|what was reached is history');
END;

CREATE TRIGGER verb_dial_audit AFTER INSERT ON verb_dial
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'verb_dial', NEW.id, 'dialled', p.host_name,
           json_object('run', NEW.op_run_id, 'host', NEW.host, 'port', NEW.port, 'addresses', json(NEW.addresses))
      FROM op_run AS r JOIN pairing AS p ON p.id = r.pairing_id WHERE r.id = NEW.op_run_id;
END;

CREATE VIEW host_may AS
SELECT g.host, g.op, g.args, g.uses - g.used AS uses_left, g.expires_at,
       a.decided_by AS approved_by, g.approver AS approved_with, g.id AS grant_id, g.approval_id
  FROM live_grants AS g
  JOIN approval AS a ON a.id = g.approval_id
  JOIN pairing_may AS m ON m.pairing_id = a.pairing_id AND m.op = g.op
 WHERE NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = a.pairing_id);

CREATE VIEW waiting AS
SELECT 'approval' AS kind, id, host, op || ' ' || args AS what, asked_at, expires_at,
       'bastion approve ' || id AS answer
  FROM open_approvals
UNION ALL
SELECT 'pairing', id, host, 'the word of the anchor', since, NULL, 'bastion pairings show ' || host
  FROM pairing_status WHERE state = 'pending'
UNION ALL
SELECT 'folder', id, host, 'uid ' || uid || ' shares ' || root, asked_at, expires_at,
       'bastion context allow ' || id
  FROM open_context_asks
UNION ALL
SELECT 'invitation', id, NULL, 'the box ' || box_name || ' has not come yet', created_at, expires_at,
       'on the box: bastion pair CODE'
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, asked_at, expires_at,
       'bastion sql -w --amendment ' || id || ' --signature FILE'
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms();

CREATE VIEW recent_runs AS
SELECT r.id, r.queued_at, r.host, r.op, r.args, r.state, r.exit_code,
       r.finished_at - r.queued_at AS took_ms, r.approved_by, r.approved_with, r.grant_id
  FROM run_history AS r WHERE r.queued_at > now_ms() - 3600000;

CREATE VIEW refused_why AS
SELECT r.id, r.at, p.host_name AS host, r.surface, r.asked, r.code, r.why, f.advice
  FROM refused AS r
  LEFT JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN refusal AS f ON f.code = r.code;

CREATE VIEW held_locks AS
SELECT 'lease' AS kind, l.name, p.program AS holder, p.pid,
       process_alive(p.boot_id, p.pid, p.start_ticks) AS alive, NULL AS since_at, l.expires_at
  FROM lease AS l JOIN process AS p ON p.id = l.process_id
UNION ALL
SELECT 'instance', i.role || ' ' || i.state, p.program, p.pid,
       process_alive(p.boot_id, p.pid, p.start_ticks), i.started_at, NULL
  FROM instance AS i JOIN process AS p ON p.id = i.process_id
 WHERE i.state IN ('starting', 'ready', 'draining')
UNION ALL
SELECT 'run', r.op || ' ' || r.args, r.host, NULL, NULL, coalesce(r.started_at, r.queued_at), NULL
  FROM live_runs AS r
UNION ALL
SELECT 'walk', 'observe:folders of run ' || w.op_run_id, NULL, NULL, NULL, r.started_at, NULL
  FROM folder_walk AS w JOIN op_run AS r ON r.id = w.op_run_id WHERE w.state = 'stuck';

CREATE VIEW expiring AS
SELECT 'grant' AS kind, id, host AS name, op || ' ' || args AS what, expires_at FROM live_grants
UNION ALL
SELECT 'approval', id, host, op || ' ' || args, expires_at FROM open_approvals
UNION ALL
SELECT 'folder', id, host, 'uid ' || uid || ' shares ' || root, expires_at FROM open_context_asks
UNION ALL
SELECT 'pairing', a.pairing_id, p.host_name, 'the word of the anchor', a.approved_until
  FROM approved_pairings AS a JOIN pairing AS p ON p.id = a.pairing_id
UNION ALL
SELECT 'invitation', id, box_name, 'a pairing code', expires_at
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, expires_at
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms()
UNION ALL
SELECT 'remote', id, name, 'a secret of another machine', expires_at
  FROM remote_credential WHERE state = 'active' AND expires_at > now_ms()
UNION ALL
SELECT 'lease', NULL, name, 'held', expires_at
  FROM lease WHERE process_id IS NOT NULL AND expires_at > now_ms();

CREATE VIEW run_origin AS
SELECT r.id, r.op, r.args, r.queued_at, p.host_name AS asked_by, r.grant_id, u.n AS use_of_grant,
       g.approval_id, a.asked_at AS question_at, a.decided_by AS approved_by, a.decided_by_uid,
       a.decided_at AS approved_at, f.kind AS factor, f.label AS approved_with,
       f.enrolled_at AS factor_enrolled_at, p.since AS host_paired_at
  FROM op_run AS r
  JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN grant AS g ON g.id = r.grant_id
  LEFT JOIN grant_use AS u ON u.grant_id = r.grant_id AND u.op_run_id = r.id
  LEFT JOIN approval AS a ON a.id = g.approval_id
  LEFT JOIN factor AS f ON f.id = g.factor_id;

CREATE VIEW row_origin AS
SELECT b.entity, b.entity_id, b.seq AS born_seq, b.at AS born_at, b.who AS born_by,
       b.action AS born_as, b.pairing AS host, l.at AS moved_at, l.who AS moved_by, l.action AS state,
       (SELECT count(*) FROM audit AS c
         WHERE c.entity = b.entity AND c.entity_id = b.entity_id) AS audit_rows
  FROM audit AS b
  JOIN audit AS l ON l.seq = (SELECT max(m.seq) FROM audit AS m
                               WHERE m.entity = b.entity AND m.entity_id = b.entity_id)
 WHERE b.seq = (SELECT min(m.seq) FROM audit AS m
                 WHERE m.entity = b.entity AND m.entity_id = b.entity_id);

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('act.time_ms', 900000, 'ms', 1000, 86400000, 'time for one run of an op that acts'),
    ('act.tool_ms', 600000, 'ms', 100, 86400000, 'time for one program that such a run starts'),
    ('agents.command', 256, 'characters', 16, 4096, 'of the command line of an agent that are shown'),
    ('agents.file', 1048576, 'bytes', 4096, 16777216, 'largest such file that is read'),
    ('agents.files', 1000, 'files', 1, 100000, 'such files that are looked at, of all accounts'),
    ('agents.keep_ms', 600000, 'ms', 1000, 86400000, 'how old declarations get before a beat has them read anew'),
    ('agents.observe', 0, 'bool', 0, 1, 'whether beats tell Hosts which agents run here and which tool servers they declare'),
    ('agents.processes', 32768, 'rows', 256, 1048576, 'processes that a scan looks at'),
    ('agents.servers', 256, 'rows', 1, 10000, 'declared tool servers that are listed'),
    ('agents.wait_ms', 20000, 'ms', 100, 600000, 'time for one scan of processes and files'),
    ('beat.bytes', 262144, 'bytes', 131072, 1048576, 'longest beat of a box, and longest answer to one'),
    ('beat.every_ms', 60000, 'ms', 1000, 3600000, 'how often a box tells its Host how it is'),
    ('beat.silent_ms', 180000, 'ms', 1000, 86400000, 'a box that was not heard for this long is silent'),
    ('beat.time_ms', 30000, 'ms', 100, 600000, 'how long a Host may take to answer that'),
    ('box.silent_ms', 900000, 'ms', 1000, 31536000000, 'a box that has not answered for that long counts as silent'),
    ('contain.named', 64, 'rows', 1, 200, 'processes that the result of an order names; the rest is counted'),
    ('contain.processes', 65536, 'rows', 16, 4194304, 'processes of a machine that are looked at; with more nothing is stopped'),
    ('contain.rounds', 8, 'rounds', 1, 100, 'how often children that were born meanwhile are looked for'),
    ('contain.spared', 256, 'rows', 1, 10000, 'entries in the list of processes to spare'),
    ('contain.ttl_ms', 2592000000, 'ms', 1000, 31536000000, 'how long a Host may have processes stopped where no time is given'),
    ('egress.accepts', 64, 'rows', 1, 4096, 'connections taken from one listener before others have their turn'),
    ('egress.addresses', 64, 'rows', 1, 256, 'most addresses that a name may have'),
    ('egress.answer_head', 65536, 'bytes', 1024, 1048576, 'longest head of an answer to a plain request'),
    ('egress.authority_hours', 720, 'hours', 1, 8760, 'how long the certificate lasts that programs trust the lane by'),
    ('egress.cache', 4096, 'rows', 0, 1000000, 'names whose addresses are remembered'),
    ('egress.cache_ms', 60000, 'ms', 0, 86400000, 'longest that the addresses of a name are remembered, whatever their TTL'),
    ('egress.connections', 12000, 'rows', 1, 1000000, 'connections to the lane served at once'),
    ('egress.dial_ms', 25000, 'ms', 100, 600000, 'how long all addresses of a destination may take to answer'),
    ('egress.fields', 200, 'rows', 8, 1000, 'header fields of a request or an answer'),
    ('egress.gather_ms', 20, 'ms', 0, 10000, 'how long ends of connections gather before they are written together'),
    ('egress.head', 65536, 'bytes', 1024, 1048576, 'longest head of a request'),
    ('egress.head_ms', 30000, 'ms', 100, 600000, 'how long a head may take to arrive'),
    ('egress.http_port', 0, 'port', 0, 65535, 'TCP port of the lane for HTTP and CONNECT on the loopback address; 0: none'),
    ('egress.idle_ms', 600000, 'ms', 100, 86400000, 'how long a connection may carry nothing'),
    ('egress.inspect', 0, 'mode', 0, 2, 'which tunnels the lane looks into; 0: none, 1: those whose rule says something of requests, 2: all'),
    ('egress.inspect_host', 1, 'bool', 0, 1, 'whether a request within TLS has to be for the host of its tunnel'),
    ('egress.keep_days', 30, 'days', 0, 36500, 'how long a connection that is over stays in the list'),
    ('egress.leaves', 512, 'rows', 1, 4096, 'certificates of hosts that the lane keeps'),
    ('egress.linger_ms', 1000, 'ms', 10, 60000, 'how long a refused client may take to read why'),
    ('egress.live', 11000, 'rows', 1, 1000000, 'connections to the internet open at once'),
    ('egress.live_each', 10000, 'rows', 1, 1000000, 'connections of one user or Host to the internet open at once'),
    ('egress.lookups', 256, 'rows', 1, 65536, 'names looked up at once'),
    ('egress.refused', 600, 'rows', 0, 1000000, 'refused connections of one minute that are kept'),
    ('egress.report_ms', 2000, 'ms', 100, 3600000, 'how often the rows of open connections say how much these have carried'),
    ('egress.resolve_ms', 10000, 'ms', 100, 600000, 'how long a name may take to be looked up'),
    ('egress.rules', 10000, 'rows', 1, 1000000, 'rules in force at once'),
    ('egress.shake_ms', 30000, 'ms', 100, 600000, 'how long a TLS handshake of an inspected tunnel may take'),
    ('egress.socks_port', 0, 'port', 0, 65535, 'TCP port of the lane for SOCKS5 on the loopback address; 0: none'),
    ('egress.stagger_ms', 300, 'ms', 1, 60000, 'how long one address may take before the next is tried beside it'),
    ('egress.total_ms', 86400000, 'ms', 1000, 2592000000, 'how long a connection may last'),
    ('egress.tunnels', 4096, 'rows', 1, 100000, 'inspected tunnels at once'),
    ('egress.ways', 4096, 'rows', 0, 1000000, 'ways that were judged and hold for the next connection there'),
    ('egress.within', 256, 'rows', 1, 10000, 'what one rule may say of requests'),
    ('grant.bounded', 32, 'rows', 0, 256, 'live grants with bounds of one Host for one op'),
    ('grant.rate_ms', 2592000000, 'ms', 1000, 31536000000, 'longest time that the rate of a grant may count over'),
    ('grant.root_ttl_ms', 2592000000, 'ms', 1000, 2592000000, 'longest life of a grant to run something as root, counted from when it was given'),
    ('host.addresses', 4, 'rows', 1, 8, 'endpoints of this Host that a pairing code names'),
    ('line.answer_ms', 10000, 'ms', 100, 600000, 'how long a Host may take to accept a line, once it was reached'),
    ('line.busy_ms', 60000, 'ms', 0, 3600000, 'how long an ask waits while every line of its box is in use'),
    ('line.cap_ms', 60000, 'ms', 100, 3600000, 'longest wait before a Host that fails is dialled again'),
    ('line.connect_ms', 10000, 'ms', 100, 600000, 'how long one endpoint of a Host may take to be reached'),
    ('line.connections', 4, 'rows', 1, 64, 'lines that a box keeps up to each Host'),
    ('line.first_ms', 1000, 'ms', 10, 3600000, 'first wait before a Host that fails is dialled again; it doubles'),
    ('line.per_box', 8, 'rows', 1, 64, 'lines of one box that a Host takes'),
    ('line.ping_ms', 20000, 'ms', 100, 3600000, 'how long a line may be idle before the box is asked for a sign of life'),
    ('line.ping_wait_ms', 10000, 'ms', 100, 600000, 'how long that sign may take'),
    ('line.steady_ms', 10000, 'ms', 100, 3600000, 'a line that lived that long was a good one, and is dialled anew at once'),
    ('line.wait_ms', 10000, 'ms', 0, 3600000, 'how long an ask waits for a box that is to dial in'),
    ('lock.ttl_ms', 30000, 'ms', 1000, 86400000, 'how long bastion lock run may be stopped before it loses its lock'),
    ('lock.wait_ms', 3600000, 'ms', 0, 604800000, 'how long bastion lock run waits for a lock'),
    ('manifest.changes', 500, 'rows', 1, 10000, 'changes that the answer of a program lists'),
    ('manifest.file', 67108864, 'bytes', 4096, 1073741824, 'longest program, or interpreter, of an added op'),
    ('manifest.live', 256, 'rows', 1, 10000, 'added ops at once'),
    ('observe.rows', 500, 'rows', 1, 10000, 'services, packages, processes and the like named in one answer'),
    ('order.batch', 16, 'rows', 1, 256, 'orders in one answer, and results in one beat'),
    ('order.day', 200, 'rows', 1, 100000, 'orders of one Host that are taken in one day'),
    ('order.ttl_ms', 86400000, 'ms', 1000, 604800000, 'how long an order waits for its box'),
    ('order.waiting', 64, 'rows', 1, 10000, 'orders that may wait for one box'),
    ('pairing.again_ms', 100, 'ms', 1, 10000, 'how long a box waits before it asks a Host again that cut the connection'),
    ('pairing.tries', 10, 'tries', 1, 1000, 'how often a box asks to be paired while the Host cuts the connection'),
    ('policy.args', 2097152, 'bytes', 1024, 16777216, 'largest ask of a tool that is decided'),
    ('policy.paths', 64, 'rows', 1, 256, 'entries of one list of paths of the policy'),
    ('policy.shell_commands', 20000, 'commands', 16, 1000000, 'in a script that is read; one with more counts as unparseable'),
    ('policy.shell_depth', 100, 'levels', 8, 200, 'how deep a script that is read may be nested'),
    ('policy.shell_text', 1048576, 'bytes', 1024, 16777216, 'largest script that is read'),
    ('policy.tool_grants', 1000, 'rows', 1, 100000, 'tool grants that may be held at once'),
    ('port.connections', 1024, 'rows', 1, 65536, 'connections under TLS at once; handshakes among them'),
    ('port.dead_ms', 60000, 'ms', 100, 3600000, 'how long a peer under TLS may show no sign of life'),
    ('port.flush_ms', 10000, 'ms', 100, 3600000, 'how long a peer under TLS may take for the last bytes'),
    ('port.guests', 64, 'rows', 1, 65536, 'connections at once of those who are not paired yet'),
    ('port.handshake_ms', 5000, 'ms', 100, 60000, 'how long a TLS handshake may take'),
    ('port.handshakes', 512, 'rows', 1, 65536, 'TLS handshakes at once; with one more, the oldest is dropped'),
    ('port.per_address', 256, 'rows', 1, 65536, 'connections of one address under TLS at once'),
    ('quarantine.base_ms', 300000, 'ms', 1000, 86400000, 'how long a Host is held the first time'),
    ('quarantine.cap_ms', 86400000, 'ms', 1000, 2592000000, 'longest that a Host is held'),
    ('quarantine.forget_ms', 604800000, 'ms', 1000, 31536000000, 'how long a hold that was sat out makes the next one longer'),
    ('quarantine.strikes', 20, 'rows', 1, 1000000, 'asks for what it may not, within quarantine.window_ms, before a Host is held'),
    ('quarantine.window_ms', 600000, 'ms', 1000, 86400000, 'how long such an ask counts'),
    ('refused.kept', 1000, 'rows', 100, 1000000, 'refused asks of one kind of one Host that are kept within refused.stretch_ms'),
    ('refused.stretch_ms', 3600000, 'ms', 1000, 86400000, 'stretch of time for refused.kept'),
    ('remote.bundle_bytes', 268435456, 'bytes', 1, 4294967296, 'size of one repository that another machine copies here'),
    ('remote.bundle_git_ms', 120000, 'ms', 1000, 3600000, 'how long git may take for each step of unpacking one'),
    ('remote.bundle_stall_ms', 30000, 'ms', 100, 600000, 'how long a copy waits for its next piece'),
    ('remote.bundle_total', 1073741824, 'bytes', 1, 1099511627776, 'bundles of one credential: what is in place and under way'),
    ('remote.bundle_unpacked', 1073741824, 'bytes', 1, 1099511627776, 'files of one repository, unpacked'),
    ('remote.bundles', 2, 'rows', 1, 64, 'copies of one credential under way at once'),
    ('remote.connections', 32, 'rows', 1, 1024, 'connections of other machines with a right secret, served at once'),
    ('remote.delay_ms', 250, 'ms', 0, 60000, 'how long a wrong secret waits for its answer'),
    ('remote.guest_ms', 10000, 'ms', 100, 600000, 'time from connecting to a right secret'),
    ('remote.guests', 32, 'rows', 1, 1024, 'connections at once that have not shown a right secret yet; the oldest makes room'),
    ('remote.handshake_ms', 5000, 'ms', 100, 60000, 'how long a TLS handshake may take'),
    ('remote.handshakes', 64, 'rows', 1, 65536, 'TLS handshakes at once; with one more, the oldest is dropped'),
    ('remote.hold_cap_ms', 900000, 'ms', 1, 86400000, 'longest hold after wrong secrets'),
    ('remote.hold_ms', 5000, 'ms', 1, 86400000, 'first hold after remote.tries wrong secrets from one address; doubles'),
    ('remote.kept', 10000, 'rows', 100, 1000000, 'connections with a right or wrong secret that are kept as rows'),
    ('remote.per_address', 32, 'rows', 1, 65536, 'connections of one address at once'),
    ('remote.tries', 5, 'rows', 1, 1000, 'wrong secrets from one address, without a right one, before it is held'),
    ('remote.ttl_max_ms', 31536000000, 'ms', 1000, 315360000000, 'longest life of a credential'),
    ('remote.ttl_ms', 2592000000, 'ms', 1000, 31536000000, 'life of a credential where none is said'),
    ('remote.window_ms', 3600000, 'ms', 1000, 86400000, 'how long a wrong secret is held against its address'),
    ('retention.decision', 365, 'days', 0, 36500, 'how long decisions about tools are kept, gate by gate; 0: for ever'),
    ('root.tasks', 96, 'tasks', 8, 100000, 'processes and threads of a command as root'),
    ('rotate.try_ms', 86400000, 'ms', 1000, 2592000000, 'how long new endpoints are tried before the order has failed'),
    ('run.ask_ms', 60000, 'ms', 100, 3600000, 'how long a person may take to answer bastion run --ask'),
    ('run.files', 1000000, 'files', 64, 100000000, 'files that a program of bastion run may make in its /tmp'),
    ('run.memory', 0, 'bytes', 0, 1099511627776, 'memory of all processes of bastion run; 0: no cap of its own'),
    ('run.names', 16384, 'rows', 16, 131072, 'names that a program of bastion run may look up'),
    ('run.open_files', 65536, 'descriptors', 16, 1048576, 'descriptors that one process of bastion run may hold'),
    ('run.ports', 8, 'rows', 0, 16, 'ports that a program of bastion run may publish'),
    ('run.published', 256, 'rows', 1, 4096, 'connections to those ports that may be open at once'),
    ('run.scratch', 1073741824, 'bytes', 65536, 1099511627776, 'what the /tmp of bastion run may hold'),
    ('run.tasks', 4096, 'tasks', 1, 100000, 'processes and threads of bastion run'),
    ('sandbox.cpu_percent', 0, 'percent', 0, 100000, 'share of one processor that a sandbox may use; 0: no cap'),
    ('sandbox.effect', 536870912, 'bytes', 65536, 1099511627776, 'what a program in a sandbox may change before it is applied or thrown away'),
    ('sandbox.file', 0, 'bytes', 0, 1099511627776, 'longest file that a program in a sandbox may write; 0: no cap of its own'),
    ('sandbox.files', 100000, 'files', 64, 100000000, 'files that a program in a sandbox may make, in its changes and in its /tmp'),
    ('sandbox.live', 256, 'rows', 1, 4096, 'sandboxes that may run at once'),
    ('sandbox.memory', 1073741824, 'bytes', 16777216, 1099511627776, 'memory of all processes in a sandbox'),
    ('sandbox.open_files', 4096, 'descriptors', 16, 1048576, 'descriptors that one process in a sandbox may hold'),
    ('sandbox.scratch', 268435456, 'bytes', 65536, 1099511627776, 'what the /tmp of a sandbox may hold'),
    ('sandbox.start_ms', 10000, 'ms', 100, 600000, 'how long a sandbox may take to start'),
    ('sandbox.tasks', 64, 'tasks', 1, 100000, 'processes and threads of a program in a sandbox'),
    ('sandbox.time_ms', 600000, 'ms', 100, 86400000, 'how long a program may run in a sandbox'),
    ('sandbox.unconfined', 0, 'bool', 0, 1, 'allow the backend none, which confines nothing'),
    ('schedule.back_ms', 10800000, 'ms', 1000, 604800000, 'a clock that is set back further is taken at its word; one set back less has to catch up'),
    ('schedule.kept', 100, 'rows', 1, 100000, 'times of one schedule that are kept once they are over'),
    ('schedule.late_ms', 60000, 'ms', 1000, 86400000, 'how late a time of a schedule may come before it counts as missed'),
    ('schedule.max', 1000, 'rows', 1, 100000, 'schedules there may be'),
    ('session.attempts', 5, 'rows', 1, 100, 'how often a worker is tried, the first time included'),
    ('session.backoff_cap_ms', 300000, 'ms', 1, 86400000, 'longest wait before a crashed session is tried again'),
    ('session.backoff_ms', 1000, 'ms', 1, 3600000, 'half of the first wait before a crashed session is tried again; doubles'),
    ('session.drain_ms', 2000, 'ms', 1, 600000, 'how long what a session left running is still heard'),
    ('session.flush_ms', 20, 'ms', 1, 1000, 'how long output may gather before it is committed'),
    ('session.history', 67108864, 'bytes', 4096, 1099511627776, 'output that is kept of a session, at least'),
    ('session.inputs', 256, 'rows', 1, 100000, 'pieces of input that may wait for a session'),
    ('session.kept', 1000, 'rows', 1, 1000000, 'sessions that are kept; of those that are over the oldest go'),
    ('session.kill_ms', 5000, 'ms', 1, 600000, 'between the polite and the certain end of a session'),
    ('session.later_ms', 30000, 'ms', 1, 86400000, 'wait before a session that asked for later (exit 75) is tried again'),
    ('session.queue', 10000, 'rows', 1, 1000000, 'sessions that may wait'),
    ('session.slots', 4, 'rows', 1, 1024, 'sessions that run at once'),
    ('terms.carry_ms', 86400000, 'ms', 1000, 2592000000, 'how long signed terms wait for their box to be reached'),
    ('terms.live', 64, 'rows', 1, 10000, 'terms and looks that may wait to be carried at once'),
    ('terms.look_ms', 30000, 'ms', 1000, 600000, 'how long a person waits for what a box has of pairings, or of terms'),
    ('terms.retry_ms', 15000, 'ms', 100, 3600000, 'rest between two tries to reach a box with terms'),
    ('terms.ttl_ms', 2592000000, 'ms', 1000, 31536000000, 'how long an approval of a Host runs where nothing else is said'),
    ('tls.authority_ms', 315360000000, 'ms', 86400000, 3153600000000, 'life of a machine''s own authority; whoever is paired pins it'),
    ('tls.early_ms', 3600000, 'ms', 0, 604800000, 'how far in the past a certificate begins, for clocks that are behind'),
    ('tls.leaf_ms', 7776000000, 'ms', 10000, 31536000000, 'life of a certificate'),
    ('tls.per_day', 24, 'rows', 2, 100000, 'certificates that one box may ask for in a day'),
    ('tls.renew_ms', 2592000000, 'ms', 1000, 31536000000, 'how long before its end a certificate is renewed'),
    ('tls.retry_ms', 600000, 'ms', 100, 86400000, 'how long a certificate that could not be renewed waits for the next try'),
    ('token.hosts', 32, 'rows', 1, 1000, 'hosts of one token'),
    ('token.live', 1000, 'rows', 1, 100000, 'tokens at once');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('act.changed', 75, 409, 'look again with --dry, then ask again'),
    ('act.cluster', 2, 422, 'name what runs: NAMESPACE/DEPLOYMENT/CONTAINER'),
    ('act.dial', 126, 409, 'see bastion ops dials for what was reached'),
    ('act.exists', 2, 409, 'move what is there first, or choose another name'),
    ('act.failed', 1, 500, 'see the reason; the rest of the machine is as it was'),
    ('act.file', 2, 422, 'name a plain file'),
    ('act.image', 2, 422, 'name it in full: REGISTRY/PATH:TAG, or REGISTRY/PATH@sha256:DIGEST'),
    ('act.missing', 2, 404, 'make the folder first, or mend the path'),
    ('act.own', 126, 403, 'leave what bastion keeps for itself to its own verbs'),
    ('act.package', 2, 422, 'see observe:packages for names'),
    ('act.path', 2, 422, 'give an absolute path without . .. or links, outside /proc, /sys and /dev'),
    ('act.ref', 2, 422, 'name a branch, tag or commit that the tree has'),
    ('act.remote', 126, 403, 'give the tree the origin https://HOST/PATH, without a name or password in it'),
    ('act.tool', 3, 501, 'install the program that the message names'),
    ('act.tree', 126, 403, 'give the tree to the user that bastion runs as, with a plain configuration'),
    ('act.unit', 2, 422, 'see observe:services for the names'),
    ('act.user', 2, 422, 'see observe:users for the names'),
    ('agents.due', 126, 409, 'wait for what is under way, or see the settings agents.observe and agents.keep_ms'),
    ('agents.failed', 1, 500, 'see the reason; nothing was listed, so that nobody takes a part for the whole'),
    ('agents.fixed', 1, 500, 'this is a fault in bastion: please report it'),
    ('agents.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('approval.kind', 2, 422, 'see bastion ops for the class of each op'),
    ('approval.root', 2, 422, 'ask for 30 days or less'),
    ('beat.fixed', 126, 409, 'what a machine says of itself comes with its next beat'),
    ('beat.form', 126, 422, 'bring the box and its Host to versions that know each other'),
    ('beat.size', 126, 413, 'raise the setting beat.bytes, or find out why the box says so much'),
    ('beat.stale', 126, 409, 'set the clock of the box'),
    ('beat.unheard', 1, 502, 'see the log of the Host'),
    ('box.proof', 126, 403, 'pair anew from that machine itself: bastion pair CODE'),
    ('box.unpaired', 126, 403, 'pair the box with this Host'),
    ('bundle.busy', 75, 409, 'wait until it is over: bastion session ls --remote NAME'),
    ('bundle.digest', 2, 422, 'give the SHA-256 of the bundle'),
    ('bundle.failed', 1, 500, 'see bastion remote copies there'),
    ('bundle.many', 75, 429, 'wait until one is over, or raise the setting remote.bundles there'),
    ('bundle.name', 2, 422, 'rename the folder of the repository, or copy it to another'),
    ('bundle.offset', 75, 409, 'go on behind what is there: GET /v1/bundles/ID'),
    ('bundle.over', 75, 409, 'begin it anew'),
    ('bundle.quota', 3, 413, 'raise the setting remote.bundle_total there'),
    ('bundle.size', 3, 413, 'raise the setting remote.bundle_bytes there'),
    ('bundle.tree', 2, 422, 'give --repo with the folder of a git work tree that has a commit'),
    ('bundle.unknown', 2, 404, 'see bastion remote copies there'),
    ('contain.agents', 77, 403, 'have a person at the machine allow it: bastion contain trust HOST --agents'),
    ('contain.authority', 3, 501, 'run the box''s daemon as root'),
    ('contain.bastion', 126, 403, 'name a process that is not bastion, its ancestor, init or of the kernel'),
    ('contain.edited', 77, 409, 'look at it, and seal it anew: bastion contain ls, bastion contain trust HOST'),
    ('contain.exe', 126, 409, 'look which process runs that program now'),
    ('contain.factor', 77, 403, 'enrol a factor first: bastion factor add'),
    ('contain.failed', 1, 500, 'see the daemon''s messages for the reason'),
    ('contain.fixed', 126, 409, 'drop it, and allow anew'),
    ('contain.full', 126, 409, 'drop entries, or raise the setting contain.spared'),
    ('contain.gone', 126, 410, 'nothing is to be done: it has ended'),
    ('contain.kept', 126, 409, 'drop it with bastion contain'),
    ('contain.kind', 1, 500, 'this is a fault in bastion: please report it'),
    ('contain.label', 2, 422, 'give a short plain label'),
    ('contain.listed', 126, 409, 'see bastion contain ls'),
    ('contain.many', 75, 503, 'raise the setting contain.processes'),
    ('contain.order', 1, 500, 'this is a fault in bastion: please report it'),
    ('contain.process', 2, 404, 'name a process that runs, of which bastion may read the program'),
    ('contain.reused', 126, 409, 'look which process has that number now'),
    ('contain.right', 77, 403, 'have a person at the machine allow it: bastion contain trust HOST'),
    ('contain.seal', 126, 403, 'change the list with bastion contain'),
    ('contain.transition', 126, 409, 'allow it anew'),
    ('contain.ttl', 2, 422, 'allow it for less time'),
    ('contain.unknown', 2, 404, 'see bastion contain ls for the entries'),
    ('directive.again', 126, 409, 'nothing is to be done: an order is carried out once'),
    ('directive.busy', 75, 429, 'order less, or raise the setting order.day on the machine'),
    ('directive.expired', 126, 410, 'order anew'),
    ('directive.final', 126, 409, 'order anew'),
    ('directive.fixed', 126, 409, 'order anew'),
    ('directive.form', 126, 422, 'bring the box and its Host to versions that know each other'),
    ('directive.lost', 1, 500, 'look what runs there now, and order anew'),
    ('directive.other', 126, 403, 'order it of the machine that is meant'),
    ('directive.replayed', 126, 409, 'order anew'),
    ('directive.signature', 126, 403, 'sign with the key that was paired'),
    ('directive.size', 126, 413, 'send fewer orders at once'),
    ('directive.time', 126, 403, 'set the clocks of Host and machine right'),
    ('directive.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('egress.address', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.answer', 1, 502, 'look at what the server answers, without the lane'),
    ('egress.authority', 2, 400, 'write HOST:PORT, an IPv6 address in brackets, without user and password'),
    ('egress.busy', 75, 503, 'close connections, or raise the settings egress.live and egress.live_each'),
    ('egress.capability', 126, 403, 'have the anchor approve this Host for egress'),
    ('egress.denied', 126, 403, 'see bastion egress ls for the rule'),
    ('egress.dial', 1, 502, 'check that the server answers, then try again'),
    ('egress.early', 2, 400, 'wait for the answer to CONNECT before TLS begins'),
    ('egress.encoded', 1, 502, 'ask for an answer without a content coding'),
    ('egress.exists', 126, 409, 'see bastion egress ls'),
    ('egress.fixed', 126, 409, 'see bastion egress ls'),
    ('egress.flood', 75, 429, 'try again later, or raise the setting egress.refused'),
    ('egress.fronted', 126, 403, 'ask for the host in a tunnel of its own'),
    ('egress.host', 2, 400, 'name a host to reach'),
    ('egress.internal', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.link', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.many', 126, 409, 'forget rules, or raise the setting egress.rules'),
    ('egress.network', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.no_authority', 126, 404, 'turn it on: bastion egress inspect rules, with the daemon running'),
    ('egress.obsolete', 126, 403, 'write the address as it is written today'),
    ('egress.own', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.own_unknown', 126, 403, 'see the daemon''s messages for the reason'),
    ('egress.plain', 126, 403, 'use https, or allow the host for plain requests by a rule without --method, --path and --token'),
    ('egress.request', 2, 400, 'send a request that can be read in one way only'),
    ('egress.resolve', 126, 403, 'check the name, and the resolver of this machine'),
    ('egress.suffix', 2, 422, 'for example: bastion egress allow github.com'),
    ('egress.this_machine', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.timeout', 75, 504, 'try again'),
    ('egress.tls', 1, 502, 'have the program trust the lane: bastion egress inspect ca'),
    ('egress.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('egress.uninspected', 126, 403, 'turn it on: bastion egress inspect rules; for a run: bastion run --inspect'),
    ('egress.unknown', 126, 403, 'have whoever runs the daemon do: bastion egress allow HOST'),
    ('egress.unknown_rule', 126, 404, 'see bastion egress ls'),
    ('egress.unreadable', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.untrusted', 1, 502, 'check the server''s certificate'),
    ('egress.user', 126, 403, 'connect as a process that goes on living'),
    ('egress.websocket', 126, 403, 'allow it: bastion egress allow HOST --websocket'),
    ('egress.within', 126, 403, 'see bastion egress ls for what rules say of requests'),
    ('grant.bounds', 2, 422, 'give bounds as schema/bound.sql has them: see bastion help grants'),
    ('grant.many', 75, 429, 'drop a grant that is not needed any more, or wait until one ends'),
    ('grant.rate', 75, 429, 'wait until its rate lets it be used again'),
    ('grant.window', 75, 429, 'wait until its window opens'),
    ('instance.slow', 75, 504, 'wait, and look: bastion status'),
    ('instance.start', 1, 500, 'read the file that it names, or see it start: bastion serve'),
    ('instance.stop', 126, 403, 'end it as the user whose daemon it is, or as root'),
    ('lane.line', 126, 403, 'ask on a connection of your own'),
    ('launch.failed', 1, 500, 'see the reason; then run it again'),
    ('listen.fixed', 126, 409, 'give the new address: bastion host listen'),
    ('listen.invalid', 2, 422, 'give * or an IP address, a colon and a port, as *:7443'),
    ('listen.none', 3, 409, 'say where boxes reach this Host: bastion host listen *:PORT --address HOST:PORT'),
    ('listen.role', 2, 409, 'on a Host use bastion host listen, on a box bastion pair --listen'),
    ('lock.name', 2, 422, 'name it with letters, digits, dots, dashes and underscores'),
    ('lock.program', 2, 422, 'see that the command exists and may be run'),
    ('manifest.changed', 3, 409, 'look at what changed in the file; then add the op anew: bastion op add'),
    ('manifest.edited', 126, 409, 'have a person add the op anew: bastion op add'),
    ('manifest.factor', 126, 403, 'prove it with a code, or an SSH signature over what --bytes prints'),
    ('manifest.file', 3, 422, 'name a file that can be read, within the setting manifest.file'),
    ('manifest.fixed', 126, 409, 'add the op anew: bastion op add'),
    ('manifest.form', 2, 422, 'see bastion help op for what a manifest is'),
    ('manifest.full', 126, 409, 'drop some first: bastion op ls'),
    ('manifest.kept', 126, 409, 'drop it: bastion op rm'),
    ('manifest.later', 2, 422, 'leave them out; what it needs of the network, fetch beforehand'),
    ('manifest.member', 2, 422, 'see bastion help op for what a manifest is'),
    ('manifest.name', 2, 422, 'name it as run:backup_site'),
    ('manifest.none', 2, 422, 'leave that out, or name an interpreter and a program'),
    ('manifest.params', 2, 422, 'see bastion help op for what a param is'),
    ('manifest.paths', 2, 422, 'name them in full, without links'),
    ('manifest.program', 2, 422, 'name it in full'),
    ('manifest.script', 2, 422, 'name its interpreter: then that is sealed as well'),
    ('manifest.seal', 1, 500, 'add it with the verb: bastion op add'),
    ('manifest.sealed', 1, 500, 'add it with the verb: bastion op add'),
    ('manifest.summary', 2, 422, 'say in a line what it does'),
    ('manifest.time', 2, 422, 'shorten it, or raise the setting act.time_ms'),
    ('manifest.transition', 1, 500, 'add it with the verb: bastion op add'),
    ('manifest.unknown', 2, 404, 'see bastion op ls'),
    ('manifest.verbs', 2, 422, 'see bastion ops verbs for their ops'),
    ('observe.owner', 2, 422, 'give the name of an account, as observe:users shows it'),
    ('observe.owner_unknown', 2, 404, 'see observe:users for the accounts'),
    ('observe.package', 2, 422, 'give the beginning of a package name, or *'),
    ('observe.state', 2, 422, 'ask for all, failed or running'),
    ('op.dry', 2, 422, 'ask without --dry'),
    ('order.busy', 75, 429, 'wait until the box has answered, or withdraw some'),
    ('order.decided', 126, 409, 'see bastion host orders'),
    ('order.endpoint', 2, 422, 'give endpoints as host:port'),
    ('order.final', 126, 409, 'order anew'),
    ('order.fixed', 126, 409, 'order anew'),
    ('order.process', 2, 422, 'give the number of a process'),
    ('order.signature', 1, 500, 'this is a fault in bastion: please report it'),
    ('order.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('order.ttl', 2, 422, 'give a shorter time'),
    ('order.unknown', 2, 404, 'see bastion host orders for the numbers'),
    ('pairing.authority', 126, 409, 'make sure which Host it is; then bastion unpair HOST, and pair anew'),
    ('pairing.held', 75, 429, 'wait, and ask for what is granted; or have a person lift it: bastion quarantine lift HOST'),
    ('pairing.port', 1, 502, 'see there that bastion host serve runs and listens on this port, and that no firewall is in between'),
    ('pairing.transport', 126, 409, 'pair with a code that leads over a network: bastion host invite NAME'),
    ('pairing.unserved', 126, 403, 'see bastion pairings for how it stands'),
    ('policy.domain', 2, 422, 'write a domain as in a certificate: example.com, without a port'),
    ('policy.field', 2, 404, 'see bastion sandbox policy for the names'),
    ('policy.full', 126, 409, 'remove an entry first: bastion sandbox policy'),
    ('policy.held', 126, 403, 'see bastion sandbox policy, and bastion sandbox explain for what it says'),
    ('policy.history', 126, 409, 'decisions are read, never changed'),
    ('policy.path', 2, 422, 'write an absolute path, or one below ~/'),
    ('policy.request', 2, 422, 'see bastion help sandbox explain for what an ask is made of'),
    ('policy.snapshot', 75, 409, 'ask again: the policy changed meanwhile'),
    ('policy.value', 2, 422, 'see bastion sandbox policy for what each may be'),
    ('quarantine.early', 126, 409, 'lift it: bastion quarantine lift HOST'),
    ('quarantine.fixed', 126, 409, 'lift it: bastion quarantine lift HOST'),
    ('quarantine.kept', 126, 409, 'lift it: bastion quarantine lift HOST'),
    ('quarantine.late', 126, 409, 'nothing is to be done: this Host may ask again'),
    ('quarantine.none', 2, 404, 'see bastion quarantine for those that are held'),
    ('quarantine.transition', 126, 409, 'see bastion quarantine for those that are held'),
    ('remote.busy', 75, 503, 'try again later, or raise the setting remote.connections there'),
    ('remote.command', 126, 403, 'name a worker of that machine, or have a credential made with --verbs command'),
    ('remote.exists', 3, 409, 'give it another name, or rotate it: bastion remote rotate NAME'),
    ('remote.final', 126, 409, 'make a new one: bastion remote add NAME'),
    ('remote.fixed', 126, 409, 'revoke it and make a new one: bastion remote add NAME'),
    ('remote.held', 75, 429, 'wait, and see that the secret is the right one: bastion remote login'),
    ('remote.kept', 126, 409, 'use bastion remote revoke'),
    ('remote.login', 2, 404, 'log in first: bastion remote login NAME HOST:PORT --ca-pin PIN'),
    ('remote.name', 2, 422, 'give another name'),
    ('remote.open', 3, 403, 'see who has changed that file, remove it and log in anew: bastion remote login'),
    ('remote.port', 3, 409, 'give another port'),
    ('remote.role', 2, 409, 'run it on a box'),
    ('remote.root', 126, 403, 'give --cwd in one of the folders that the credential names'),
    ('remote.roots', 2, 422, 'give --root with a whole path, as /srv/work'),
    ('remote.secret', 2, 422, 'give the secret as bastion remote add showed it, on standard input'),
    ('remote.token', 126, 401, 'have a credential made there: bastion remote add NAME; then: bastion remote login'),
    ('remote.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('remote.ttl', 2, 422, 'give a shorter --expires'),
    ('remote.unknown', 2, 404, 'see bastion remote'),
    ('remote.user', 1, 500, 'this is a fault in bastion: please report it'),
    ('remote.verb', 126, 403, 'have a credential made that allows it: bastion remote add NAME --verbs LIST'),
    ('remote.verbs', 2, 422, 'name some of run, command, list, attach, send, cancel, bundle, with commas between'),
    ('root.authority', 3, 501, 'run the box''s daemon as root'),
    ('root.exact', 2, 422, 'ask for the command as it is to run'),
    ('rotate.none', 126, 409, 'pair the machine anew over a network first'),
    ('rotate.superseded', 126, 409, 'nothing is to be done: a later order counts'),
    ('rotate.unreached', 75, 504, 'make sure that the Host is reached there, and order anew'),
    ('run.agent', 2, 422, 'see the message; leave out --agent, or start the agent'),
    ('run.ask', 3, 422, 'leave out --ask, or run this on a terminal'),
    ('run.folder', 2, 422, 'see the message; change into a folder of your own'),
    ('run.inspect', 2, 422, 'see the message; leave out --inspect, or --no-net'),
    ('run.over', 126, 409, 'start another run'),
    ('run.port', 2, 422, 'see the message; take another port'),
    ('run.preset', 2, 404, 'see bastion sql ''SELECT DISTINCT name FROM egress_preset'''),
    ('sandbox.backend', 3, 503, 'install bubblewrap, or take the backend native'),
    ('sandbox.busy', 75, 503, 'wait for a run to end: bastion sql ''SELECT * FROM live_sandboxes'''),
    ('sandbox.effect', 1, 500, 'see the message; what was not applied is as it was'),
    ('sandbox.final', 126, 409, 'what ran is history'),
    ('sandbox.fixed', 126, 409, 'start another run'),
    ('sandbox.late', 1, 504, 'try again; the machine is busy'),
    ('sandbox.none', 126, 403, 'leave out --backend none; or, where that is meant: bastion settings sandbox.unconfined 1'),
    ('sandbox.plan', 2, 422, 'see the message; name paths by their real names'),
    ('sandbox.program', 2, 422, 'name a program that is there inside: the folders of the system are, and those that were named'),
    ('sandbox.start', 1, 500, 'see the message; nothing ran'),
    ('sandbox.time', 75, 504, 'allow more time, or ask for less'),
    ('sandbox.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('sandbox.userns', 3, 503, 'have an administrator allow it as the message says; nothing runs without it'),
    ('schedule.cron', 2, 422, 'five fields: minute hour day month weekday, as in */15 8-18 * * mon-fri; or @daily'),
    ('schedule.due', 1, 500, 'this is a fault in bastion: please report it'),
    ('schedule.early', 1, 500, 'this is a fault in bastion: please report it'),
    ('schedule.every', 2, 422, 'give it as 30s, 15m, 2h or 7d'),
    ('schedule.exists', 3, 409, 'give it another name, or remove the other: bastion schedule rm NAME'),
    ('schedule.fixed', 1, 500, 'this is a fault in bastion: please report it'),
    ('schedule.full', 75, 429, 'remove one: bastion schedule rm NAME; or raise the setting schedule.max'),
    ('schedule.missed', 75, 409, 'add it with --missed run to have such times run late'),
    ('schedule.name', 2, 422, 'name it with letters, digits, dots, dashes and underscores'),
    ('schedule.never', 2, 422, 'look at its days and months: not every month has a day 30 or 31'),
    ('schedule.over', 126, 409, 'add it anew: bastion schedule rm NAME, then add'),
    ('schedule.overlap', 75, 409, 'wait for its end, or cancel it: bastion session ls'),
    ('schedule.paused', 126, 409, 'resume it: bastion schedule resume NAME'),
    ('schedule.round', 1, 500, 'this is a fault in bastion: please report it'),
    ('schedule.runs', 2, 422, 'give a number from 0 to 1000000000'),
    ('schedule.start', 2, 422, 'give --first with --every, as 30s, 15m, 2h or 7d'),
    ('schedule.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('schedule.unknown', 2, 404, 'see bastion schedule ls'),
    ('schedule.when', 2, 422, 'give one of --cron, --every and --daily'),
    ('schedule.zone', 2, 422, 'give an IANA name as Europe/Berlin, or +hh:mm'),
    ('session.attempts', 1, 500, 'this is a fault in bastion: please report it'),
    ('session.busy', 75, 429, 'wait until some have run, or raise the setting session.queue'),
    ('session.cancelled', 126, 409, 'wait for its end: bastion session ls'),
    ('session.deaf', 2, 409, 'run it with --input or --terminal'),
    ('session.drain', 75, 503, 'try again once the daemon runs'),
    ('session.early', 75, 409, 'wait: bastion session ls says when'),
    ('session.exists', 3, 409, 'give it another name'),
    ('session.final', 1, 500, 'this is a fault in bastion: please report it'),
    ('session.fixed', 1, 500, 'this is a fault in bastion: please report it'),
    ('session.input', 75, 429, 'send less, or wait until it has read what was sent'),
    ('session.live', 126, 409, 'cancel it first: bastion session cancel NAME'),
    ('session.name', 2, 422, 'name it with letters, digits, dots, dashes and underscores'),
    ('session.offline', 75, 503, 'start the daemon: bastion serve'),
    ('session.output', 1, 500, 'this is a fault in bastion: please report it'),
    ('session.over', 126, 409, 'see how it ended: bastion session show NAME'),
    ('session.sandbox', 2, 422, 'add a worker that may reach more: bastion worker add NAME --read DIR -- COMMAND'),
    ('session.seq', 1, 500, 'this is a fault in bastion: please report it'),
    ('session.slots', 75, 409, 'wait for a place'),
    ('session.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('session.turn', 75, 409, 'wait for its turn'),
    ('session.unknown', 2, 404, 'see bastion session ls'),
    ('session.watch', 1, 500, 'attach again: what was said is kept'),
    ('session.young', 126, 409, 'lower the setting session.history'),
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
    ('terms.waiting', 75, 504, 'see what becomes of it: bastion host terms'),
    ('tls.authority', 126, 409, 'use the authority that is there'),
    ('tls.busy', 126, 429, 'wait a little, then try again'),
    ('tls.identity', 126, 409, 'have a new certificate made'),
    ('tls.missing', 3, 503, 'have the certificate made: bastion host serve, or bastion pair --replace'),
    ('tls.often', 126, 429, 'wait a day, or raise the setting tls.per_day'),
    ('token.dropped', 126, 403, 'forget the rule, and allow it with another token'),
    ('token.final', 126, 409, 'add another token'),
    ('token.fixed', 126, 409, 'drop it and add another'),
    ('token.header', 2, 422, 'for example: --header X-Api-Key'),
    ('token.host', 126, 403, 'see bastion token ls for its hosts'),
    ('token.kept', 126, 409, 'bastion token rm NAME'),
    ('token.key', 1, 500, 'this lane holds no key for tokens: see the daemon''s messages'),
    ('token.many', 126, 409, 'remove tokens, or raise the settings token.live and token.hosts'),
    ('token.name', 2, 422, 'choose another name'),
    ('token.scheme', 2, 422, 'for example: --scheme Bearer, --scheme Basic, --scheme none'),
    ('token.secret', 2, 422, 'give it on standard input: bastion token add NAME --host HOST <FILE'),
    ('token.trace', 126, 403, 'use another method'),
    ('token.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('token.unknown', 126, 404, 'see bastion token ls'),
    ('tool_grant.final', 126, 409, 'grant it anew: bastion sandbox grants allow'),
    ('tool_grant.fixed', 126, 409, 'grant it anew: bastion sandbox grants allow'),
    ('tool_grant.full', 126, 409, 'revoke some first: bastion sandbox grants'),
    ('tool_grant.kept', 126, 409, 'revoke it: bastion sandbox grants revoke'),
    ('tool_grant.path', 2, 422, 'name a file or directory, or leave --path out for the whole tool'),
    ('tool_grant.seal', 1, 500, 'grant it with the verb: bastion sandbox grants allow'),
    ('tool_grant.terms', 2, 422, 'see bastion help sandbox grants'),
    ('tool_grant.tool', 2, 422, 'see the name that the agent asks with'),
    ('tool_grant.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('worker.argv', 2, 422, 'give the program and its arguments behind --'),
    ('worker.exists', 3, 409, 'drop it first: bastion worker drop NAME'),
    ('worker.fixed', 126, 409, 'drop it and add it anew'),
    ('worker.name', 2, 422, 'name it with letters, digits, dots, dashes and underscores'),
    ('worker.paths', 2, 422, 'name paths by their real names: realpath PATH'),
    ('worker.unheld', 2, 422, 'leave out --backend none, or everything that bounds it'),
    ('worker.unknown', 2, 404, 'see bastion worker ls');

UPDATE refusal SET advice = 'ask for as many minutes as bastion ops says' WHERE code = 'observe.minutes';
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('agent_scan', '', 'reading'),
    ('agent_scan', 'reading', 'done'),
    ('agent_scan', 'reading', 'dropped'),
    ('agent_scan', 'reading', 'failed'),
    ('agent_scan', 'reading', 'lost'),
    ('agent_scan', 'reading', 'stuck'),
    ('agent_scan', 'stuck', 'dropped'),
    ('agent_scan', 'stuck', 'failed'),
    ('agent_scan', 'stuck', 'lost'),
    ('attempt', '', 'launching'),
    ('attempt', 'launching', 'failed'),
    ('attempt', 'launching', 'lost'),
    ('attempt', 'launching', 'running'),
    ('attempt', 'running', 'ended'),
    ('attempt', 'running', 'lost'),
    ('contain_right', '', 'active'),
    ('contain_right', 'active', 'dropped'),
    ('contain_right', 'active', 'expired'),
    ('contain_spare', '', 'active'),
    ('contain_spare', 'active', 'dropped'),
    ('directive', '', 'taken'),
    ('directive', 'running', 'done'),
    ('directive', 'running', 'failed'),
    ('directive', 'running', 'lost'),
    ('directive', 'running', 'refused'),
    ('directive', 'taken', 'done'),
    ('directive', 'taken', 'failed'),
    ('directive', 'taken', 'refused'),
    ('directive', 'taken', 'running'),
    ('egress_flow', '', 'asked'),
    ('egress_flow', '', 'open'),
    ('egress_flow', '', 'refused'),
    ('egress_flow', 'asked', 'failed'),
    ('egress_flow', 'asked', 'lost'),
    ('egress_flow', 'asked', 'open'),
    ('egress_flow', 'asked', 'refused'),
    ('egress_flow', 'open', 'done'),
    ('egress_flow', 'open', 'failed'),
    ('egress_flow', 'open', 'lost'),
    ('egress_request', '', 'open'),
    ('egress_request', '', 'refused'),
    ('egress_request', 'open', 'done'),
    ('egress_request', 'open', 'failed'),
    ('egress_rule', '', 'active'),
    ('egress_rule', 'active', 'dropped'),
    ('firing', '', 'running'),
    ('firing', '', 'skipped'),
    ('firing', 'running', 'cancelled'),
    ('firing', 'running', 'done'),
    ('firing', 'running', 'failed'),
    ('host_order', '', 'waiting'),
    ('host_order', 'sent', 'answered'),
    ('host_order', 'sent', 'expired'),
    ('host_order', 'sent', 'withdrawn'),
    ('host_order', 'waiting', 'expired'),
    ('host_order', 'waiting', 'sent'),
    ('host_order', 'waiting', 'withdrawn'),
    ('host_terms', '', 'waiting'),
    ('host_terms', 'sent', 'failed'),
    ('host_terms', 'sent', 'refused'),
    ('host_terms', 'sent', 'taken'),
    ('host_terms', 'sent', 'waiting'),
    ('host_terms', 'waiting', 'expired'),
    ('host_terms', 'waiting', 'failed'),
    ('host_terms', 'waiting', 'sent'),
    ('op_manifest', '', 'active'),
    ('op_manifest', 'active', 'dropped'),
    ('op_manifest', 'active', 'replaced'),
    ('quarantine', '', 'held'),
    ('quarantine', 'held', 'lapsed'),
    ('quarantine', 'held', 'lifted'),
    ('remote_credential', '', 'active'),
    ('remote_credential', 'active', 'expired'),
    ('remote_credential', 'active', 'revoked'),
    ('remote_credential', 'active', 'rotated'),
    ('sandbox_run', '', 'starting'),
    ('sandbox_run', 'running', 'ended'),
    ('sandbox_run', 'running', 'lost'),
    ('sandbox_run', 'starting', 'failed'),
    ('sandbox_run', 'starting', 'lost'),
    ('sandbox_run', 'starting', 'running'),
    ('schedule', '', 'active'),
    ('schedule', 'active', 'over'),
    ('schedule', 'active', 'paused'),
    ('schedule', 'paused', 'active'),
    ('session', '', 'queued'),
    ('session', 'queued', 'cancelled'),
    ('session', 'queued', 'running'),
    ('session', 'running', 'cancelled'),
    ('session', 'running', 'done'),
    ('session', 'running', 'failed'),
    ('session', 'running', 'queued'),
    ('tls_identity', '', 'current'),
    ('tls_identity', 'current', 'past'),
    ('token', '', 'active'),
    ('token', 'active', 'dropped'),
    ('tool_grant', '', 'active'),
    ('tool_grant', 'active', 'replaced'),
    ('tool_grant', 'active', 'revoked');

INSERT INTO enforces (name, value) VALUES
    ('grant_run_bounds', 'true'),
    ('orders', '["contain","rotate"]'),
    ('sandbox', '{"observe":"read-only system call filter"}');

INSERT INTO address_class (prio, prefix, first, last, class, embed, why) VALUES
    (1, '127.0.0.0/8', x'00000000000000000000ffff7f000000', x'00000000000000000000ffff7fffffff', 'this_machine', NULL, 'loopback'),
    (2, '0.0.0.0/32', x'00000000000000000000ffff00000000', x'00000000000000000000ffff00000000', 'this_machine', NULL, 'unspecified: the kernel dials this machine'),
    (3, '169.254.0.0/16', x'00000000000000000000ffffa9fe0000', x'00000000000000000000ffffa9feffff', 'link', NULL, 'link-local, with the metadata services of clouds'),
    (4, '224.0.0.0/24', x'00000000000000000000ffffe0000000', x'00000000000000000000ffffe00000ff', 'link', NULL, 'multicast on the link'),
    (5, '10.0.0.0/8', x'00000000000000000000ffff0a000000', x'00000000000000000000ffff0affffff', 'network', NULL, 'private (RFC 1918)'),
    (6, '172.16.0.0/12', x'00000000000000000000ffffac100000', x'00000000000000000000ffffac1fffff', 'network', NULL, 'private (RFC 1918)'),
    (7, '192.168.0.0/16', x'00000000000000000000ffffc0a80000', x'00000000000000000000ffffc0a8ffff', 'network', NULL, 'private (RFC 1918)'),
    (8, '224.0.0.0/4', x'00000000000000000000ffffe0000000', x'00000000000000000000ffffefffffff', 'network', NULL, 'multicast'),
    (9, '0.0.0.0/8', x'00000000000000000000ffff00000000', x'00000000000000000000ffff00ffffff', 'this_machine', NULL, 'this network (RFC 1122)'),
    (10, '100.64.0.0/10', x'00000000000000000000ffff64400000', x'00000000000000000000ffff647fffff', 'network', NULL, 'shared by carriers and meshes (RFC 6598)'),
    (11, '198.18.0.0/15', x'00000000000000000000ffffc6120000', x'00000000000000000000ffffc613ffff', 'network', NULL, 'benchmarks (RFC 2544)'),
    (12, '240.0.0.0/4', x'00000000000000000000fffff0000000', x'00000000000000000000ffffffffffff', 'network', NULL, 'reserved, and broadcast'),
    (13, '0.0.0.0/0', x'00000000000000000000ffff00000000', x'00000000000000000000ffffffffffff', 'public', NULL, 'any other IPv4'),
    (14, '::1/128', x'00000000000000000000000000000001', x'00000000000000000000000000000001', 'this_machine', NULL, 'loopback'),
    (15, '::/128', x'00000000000000000000000000000000', x'00000000000000000000000000000000', 'this_machine', NULL, 'unspecified: the kernel dials this machine'),
    (16, 'fe80::/10', x'fe800000000000000000000000000000', x'febfffffffffffffffffffffffffffff', 'link', NULL, 'link-local'),
    (17, 'ff02::/16', x'ff020000000000000000000000000000', x'ff02ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (18, 'ff12::/16', x'ff120000000000000000000000000000', x'ff12ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (19, 'ff22::/16', x'ff220000000000000000000000000000', x'ff22ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (20, 'ff32::/16', x'ff320000000000000000000000000000', x'ff32ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (21, 'ff42::/16', x'ff420000000000000000000000000000', x'ff42ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (22, 'ff52::/16', x'ff520000000000000000000000000000', x'ff52ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (23, 'ff62::/16', x'ff620000000000000000000000000000', x'ff62ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (24, 'ff72::/16', x'ff720000000000000000000000000000', x'ff72ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (25, 'ff82::/16', x'ff820000000000000000000000000000', x'ff82ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (26, 'ff92::/16', x'ff920000000000000000000000000000', x'ff92ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (27, 'ffa2::/16', x'ffa20000000000000000000000000000', x'ffa2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (28, 'ffb2::/16', x'ffb20000000000000000000000000000', x'ffb2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (29, 'ffc2::/16', x'ffc20000000000000000000000000000', x'ffc2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (30, 'ffd2::/16', x'ffd20000000000000000000000000000', x'ffd2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (31, 'ffe2::/16', x'ffe20000000000000000000000000000', x'ffe2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (32, 'fff2::/16', x'fff20000000000000000000000000000', x'fff2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (33, 'fc00::/7', x'fc000000000000000000000000000000', x'fdffffffffffffffffffffffffffffff', 'network', NULL, 'unique local (RFC 4193)'),
    (34, 'ff00::/8', x'ff000000000000000000000000000000', x'ffffffffffffffffffffffffffffffff', 'network', NULL, 'multicast'),
    (35, '64:ff9b::/96', x'0064ff9b000000000000000000000000', x'0064ff9b0000000000000000ffffffff', NULL, 12, 'NAT64 (RFC 6052): the IPv4 address in it'),
    (36, '64:ff9b::/32', x'0064ff9b000000000000000000000000', x'0064ff9bffffffffffffffffffffffff', 'unreadable', NULL, 'NAT64 for local use (RFC 8215): where it leads is not to be read'),
    (37, '2002::/16', x'20020000000000000000000000000000', x'2002ffffffffffffffffffffffffffff', NULL, 2, '6to4 (RFC 3056): the IPv4 address in it'),
    (38, '::/96', x'00000000000000000000000000000000', x'000000000000000000000000ffffffff', 'obsolete', NULL, 'IPv4-compatible (RFC 4291)'),
    (39, '::ffff:0:0:0/96', x'0000000000000000ffff000000000000', x'0000000000000000ffff0000ffffffff', 'obsolete', NULL, 'IPv4-translated (RFC 2765)'),
    (40, 'fec0::/10', x'fec00000000000000000000000000000', x'feffffffffffffffffffffffffffffff', 'obsolete', NULL, 'site-local (RFC 3879)'),
    (41, '::/0', x'00000000000000000000000000000000', x'ffffffffffffffffffffffffffffffff', 'public', NULL, 'any other IPv6');

INSERT INTO egress_preset (name, suffix, port, doc) VALUES
    ('crates', 'crates.io', 443, 'the registry of Rust'),
    ('crates', 'static.rust-lang.org', 443, 'compilers of Rust'),
    ('debian', 'deb.debian.org', 80, 'packages of Debian'),
    ('debian', 'deb.debian.org', 443, 'packages of Debian'),
    ('debian', 'security.debian.org', 80, 'its updates'),
    ('debian', 'security.debian.org', 443, 'its updates'),
    ('git', 'bitbucket.org', 22, 'by ssh'),
    ('git', 'bitbucket.org', 443, 'repositories'),
    ('git', 'codeberg.org', 22, 'by ssh'),
    ('git', 'codeberg.org', 443, 'repositories'),
    ('git', 'github.com', 22, 'by ssh'),
    ('git', 'github.com', 443, 'repositories'),
    ('git', 'githubusercontent.com', 443, 'files of releases and raw files'),
    ('git', 'gitlab.com', 22, 'by ssh'),
    ('git', 'gitlab.com', 443, 'repositories'),
    ('go', 'go.dev', 443, 'toolchains'),
    ('go', 'proxy.golang.org', 443, 'modules of Go'),
    ('go', 'storage.googleapis.com', 443, 'what the proxy leads to'),
    ('go', 'sum.golang.org', 443, 'their checksums'),
    ('npm', 'nodejs.org', 443, 'headers for modules in C'),
    ('npm', 'registry.npmjs.org', 443, 'the registry of npm'),
    ('pypi', 'files.pythonhosted.org', 443, 'the packages'),
    ('pypi', 'pypi.org', 443, 'the index of Python packages');

INSERT INTO egress_counted (id, live, last) VALUES
    (1, 0, 0);

INSERT INTO op (name, usage, summary, class) VALUES
    ('file:move', 'FROM TO', 'move a file or folder within its file system, onto nothing', 'action'),
    ('file:put', 'PATH TEXT', 'write a file whole, keeping its owner and mode; dry: which lines would change', 'action'),
    ('git:fetch', 'TREE [HOST[:PORT]]', 'fetch the branches of a git tree of bastion''s user from where it is from', 'action'),
    ('grant:drop', 'GRANT | all', 'give back a grant of this Host, or all of them', 'own'),
    ('grant:list', '', 'what this Host may do here, within which bounds, and when next', 'own'),
    ('k8s:set_image', 'NAMESPACE/DEPLOYMENT/CONTAINER IMAGE', 'have a container of a cluster run another image; dry: which it runs now', 'action'),
    ('observe:disks', '', 'the file systems that are mounted, and how full they are', 'observe'),
    ('observe:firewall', '', 'the chains of the packet filter: their hooks, policies and numbers of rules', 'observe'),
    ('observe:kernel', '[MINUTES 1..1440]', 'what the kernel logged lately', 'observe'),
    ('observe:listeners', '', 'the TCP and UDP sockets that wait for others, and whose they are', 'observe'),
    ('observe:load', '', 'how long this machine is up, its load, memory and swap', 'observe'),
    ('observe:packages', '[PREFIX | *]', 'the Debian packages that are installed, with their versions', 'observe'),
    ('observe:processes', '[OWNER]', 'how many processes each account runs, or those of one account', 'observe'),
    ('observe:services', '[all | failed | running]', 'the services that systemd has loaded, and how they are', 'observe'),
    ('observe:timers', '', 'the timers of systemd: when they ran and when they run next', 'observe'),
    ('observe:users', '', 'the accounts of the password file: who can log in, who administers', 'observe'),
    ('package:install', 'PACKAGE', 'install a Debian package with what it needs', 'action'),
    ('root:exec', 'COMMAND', 'run a command as root by sh -c, in exactly the words that a person approved', 'root'),
    ('service:restart', 'SERVICE', 'restart a service of systemd', 'action'),
    ('tree:checkout', 'TREE REF', 'check out a commit that a git tree of bastion''s user has already', 'action'),
    ('user:lock', 'ACCOUNT', 'lock the password of an account', 'action');

INSERT INTO op_param (op, position, name, type, needed, low, high, pattern, fallback, doc) VALUES
    ('file:move', 1, 'source', 'string', 1, 2, 4095, '^/', NULL, 'absolute path of what is moved'),
    ('file:move', 2, 'target', 'string', 1, 2, 4095, '^/', NULL, 'absolute path that it has then'),
    ('file:put', 1, 'path', 'string', 1, 2, 4095, '^/', NULL, 'absolute path of the file'),
    ('file:put', 2, 'text', 'string', 1, 1, 4095, NULL, NULL, 'all that is to be in it'),
    ('git:fetch', 1, 'tree', 'string', 1, 2, 255, '^/', NULL, 'absolute path of the tree'),
    ('git:fetch', 2, 'from', 'string', 0, 1, 261, NULL, NULL, 'the HOST[:PORT] that the tree has to be from'),
    ('grant:drop', 1, 'grant', 'string', 1, 1, 19, '^(all|[1-9][0-9]*)$', NULL, 'the number of a grant, or all'),
    ('k8s:set_image', 1, 'container', 'string', 1, 5, 192, NULL, NULL, 'NAMESPACE/DEPLOYMENT/CONTAINER'),
    ('k8s:set_image', 2, 'image', 'string', 1, 3, 255, NULL, NULL, 'REGISTRY/PATH:TAG, or with @sha256:DIGEST'),
    ('observe:kernel', 1, 'minutes', 'integer', 0, 1, 1440, NULL, '15', 'how far to look back'),
    ('observe:packages', 1, 'prefix', 'string', 0, 1, 64, NULL, '*', 'how their names begin; * for all'),
    ('observe:processes', 1, 'owner', 'string', 0, 1, 32, NULL, NULL, 'the name of an account; without one all are counted'),
    ('observe:services', 1, 'state', 'string', 0, 1, 7, '^(all|failed|running)$', 'all', 'which of them'),
    ('package:install', 1, 'package', 'string', 1, 1, 64, NULL, NULL, 'its name'),
    ('root:exec', 1, 'command', 'string', 1, 1, 4095, NULL, NULL, 'what sh runs, as root and without a sandbox'),
    ('service:restart', 1, 'service', 'string', 1, 1, 112, NULL, NULL, 'the name of the service'),
    ('tree:checkout', 1, 'tree', 'string', 1, 2, 255, '^/', NULL, 'absolute path of the tree'),
    ('tree:checkout', 2, 'ref', 'string', 1, 1, 128, NULL, NULL, 'a branch, tag or commit that is there'),
    ('user:lock', 1, 'account', 'string', 1, 1, 32, NULL, NULL, 'its name');

INSERT INTO op_result (op, schema) VALUES
    ('file:move', '{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"dry":{"type":"boolean"},"kind":{"type":"string"},"bytes":{"type":"integer"}},"required":["from","to","dry"]}'),
    ('file:put', '{"type":"object","properties":{"path":{"type":"string"},"dry":{"type":"boolean"},"changed":{"type":"boolean"},"exists":{"type":"boolean"},"bytes_before":{"type":["integer","null"]},"bytes_after":{"type":"integer"},"from_line":{"type":["integer","null"]},"lines_removed":{"type":"integer"},"lines_added":{"type":"integer"},"mode":{"type":"string"}},"required":["path","dry","changed"]}'),
    ('git:fetch', '{"type":"object","properties":{"tree":{"type":"string"},"from":{"type":"string"},"dry":{"type":"boolean"},"refs":{"type":"array","items":{"type":"object","properties":{"ref":{"type":"string"},"before":{"type":["string","null"]},"after":{"type":"string"}}}},"more":{"type":"integer"}},"required":["tree","from","dry","refs"]}'),
    ('grant:drop', '{"type":"object","properties":{"dropped":{"type":"integer"}},"required":["dropped"]}'),
    ('grant:list', '{"type":"object","properties":{"grants":{"type":"array","items":{"type":"object","properties":{"grant":{"type":"integer"},"op":{"type":"string"},"args":{"type":"array","items":{"type":"string"}},"bounds":{"type":["object","null"]},"uses_left":{"type":"integer"},"expires_at":{"type":"integer","description":"ms UTC"},"next_at":{"type":["integer","null"],"description":"ms UTC: when a window or a rate lets it be used next"}},"required":["grant","op","args","uses_left","expires_at"]}},"more":{"type":"integer","description":"grants that are not listed"}},"required":["grants"]}'),
    ('k8s:set_image', '{"type":"object","properties":{"container":{"type":"string"},"image":{"type":"string"},"dry":{"type":"boolean"},"before":{"type":"string"}},"required":["container","image","dry","before"]}'),
    ('observe:disks', '{"type":"object","properties":{"disks":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"device":{"type":"string"},"type":{"type":"string"},"size_bytes":{"type":["integer","null"]},"used_bytes":{"type":["integer","null"]},"used_percent":{"type":["integer","null"]},"inodes":{"type":["integer","null"]},"inodes_free":{"type":["integer","null"]},"not_asked":{"type":["string","null"]}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:firewall', '{"type":"object","properties":{"tables":{"type":"integer"},"rules":{"type":"integer"},"chains":{"type":"array","items":{"type":"object","properties":{"family":{"type":"string"},"table":{"type":"string"},"name":{"type":"string"},"hook":{"type":["string","null"]},"policy":{"type":["string","null"]},"rules":{"type":"integer"}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:kernel', '{"type":"object","properties":{"unit":{"type":"string"},"minutes":{"type":"integer"},"lines":{"type":"integer"},"bytes":{"type":"integer"},"cut":{"type":"boolean"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":["unit","minutes","lines","bytes"]}'),
    ('observe:listeners', '{"type":"object","properties":{"count":{"type":"integer"},"listeners":{"type":"array","items":{"type":"object","properties":{"proto":{"type":"string"},"address":{"type":"string"},"port":{"type":"integer"},"process":{"type":["string","null"]},"pid":{"type":["integer","null"]}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:load', '{"type":"object","properties":{"uptime_s":{"type":"integer"},"load":{"type":"array","items":{"type":"number"}},"cpus":{"type":"integer"},"memory":{"type":"object","properties":{"total_bytes":{"type":"integer"},"available_bytes":{"type":"integer"}}},"swap":{"type":"object","properties":{"total_bytes":{"type":"integer"},"free_bytes":{"type":"integer"}}},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:packages', '{"type":"object","properties":{"prefix":{"type":"string"},"count":{"type":"integer"},"packages":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"version":{"type":"string"},"status":{"type":"string"}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:processes', '{"type":"object","properties":{"owner":{"type":["string","null"]},"processes":{"type":"integer"},"owners":{"type":"array","items":{"type":"object","properties":{"user":{"type":["string","null"]},"uid":{"type":"integer"},"processes":{"type":"integer"},"threads":{"type":"integer"},"rss_bytes":{"type":"integer"}}}},"list":{"type":"array","items":{"type":"object","properties":{"pid":{"type":"integer"},"name":{"type":"string"},"state":{"type":"string"},"threads":{"type":"integer"},"rss_bytes":{"type":"integer"}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:services', '{"type":"object","properties":{"state":{"type":"string"},"count":{"type":"integer"},"failed":{"type":"integer"},"services":{"type":"array","items":{"type":"object","properties":{"unit":{"type":"string"},"active":{"type":"string"},"sub":{"type":"string"},"loaded":{"type":"string"},"about":{"type":["string","null"]}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:timers', '{"type":"object","properties":{"count":{"type":"integer"},"timers":{"type":"array","items":{"type":"object","properties":{"unit":{"type":"string"},"activates":{"type":["string","null"]},"next":{"type":["string","null"]},"last":{"type":["string","null"]}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:users', '{"type":"object","properties":{"count":{"type":"integer"},"users":{"type":"array","items":{"type":"object","properties":{"user":{"type":"string"},"uid":{"type":"integer"},"home":{"type":"string"},"shell":{"type":"string"},"logs_in":{"type":"boolean"},"groups":{"type":"array","items":{"type":"string"}},"admin":{"type":"boolean"}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('package:install', '{"type":"object","properties":{"package":{"type":"string"},"dry":{"type":"boolean"},"installs":{"type":"array","items":{"type":"string"}},"removes":{"type":"array","items":{"type":"string"}}},"required":["package","dry"]}'),
    ('root:exec', '{"type":"object","properties":{"exit":{"type":"integer"},"tasks_capped":{"type":"boolean","description":"proven by the kernel before it began"},"notes":{"type":"array","items":{"type":"string"}}},"required":["exit","tasks_capped","notes"]}'),
    ('service:restart', '{"type":"object","properties":{"unit":{"type":"string"},"dry":{"type":"boolean"},"before":{"type":["string","null"]},"after":{"type":["string","null"]}},"required":["unit","dry"]}'),
    ('tree:checkout', '{"type":"object","properties":{"tree":{"type":"string"},"ref":{"type":"string"},"dry":{"type":"boolean"},"head":{"type":"string"},"commit":{"type":"string"},"files":{"type":"array","items":{"type":"object","properties":{"change":{"type":"string"},"path":{"type":"string"}}}},"more":{"type":"integer"}},"required":["tree","ref","dry","commit"]}'),
    ('user:lock', '{"type":"object","properties":{"user":{"type":"string"},"uid":{"type":"integer"},"dry":{"type":"boolean"}},"required":["user","dry"]}');

INSERT INTO policy_field (name, kind, fallback, hardens, doc) VALUES
    ('ask_unclear', 'bool', '1', 1, 'ask where the text of a command does not say what it runs, also where nobody else would be asked'),
    ('auto_allow_shell', 'bool', '0', 0, 'allow shell commands that a sandbox holds, without asking'),
    ('deny_destructive_shell', 'bool', '1', 1, 'hold commands that destroy what cannot be brought back'),
    ('enforce_tool_network', 'bool', '0', 1, 'hold network tools to the policy as well, not shell commands alone'),
    ('enforce_workspace', 'bool', '1', 1, 'hold paths to the workspace and the directories added to it'),
    ('max_autonomy', 'autonomy', 'high', 0, 'the autonomy up to which nobody is asked'),
    ('mode', 'mode', 'enforce', 0, 'enforce, or disabled: then everything is allowed'),
    ('network', 'network', 'deny', 0, 'deny, allow, or scoped: to the allowed domains alone'),
    ('on_destructive', 'answer', 'deny', 0, 'deny or prompt: what becomes of a destructive command'),
    ('on_network', 'answer', 'deny', 0, 'deny or prompt: what becomes of a command that uses a network it may not');

INSERT INTO gate (ord, name, asks) VALUES
    (1, 'cancelled', 'whether the ask still stands'),
    (3, 'autonomy', 'how much autonomy it is asked with'),
    (4, 'risk', 'what it would do'),
    (5, 'mode', 'whether the policy is enforced'),
    (6, 'permission', 'whether the tool itself is denied'),
    (7, 'paths', 'whether a path breaks the lists or leaves the workspace'),
    (8, 'network', 'whether it uses a network that it may not'),
    (9, 'destructive', 'whether it destroys'),
    (10, 'denied', 'whether a person always denies it'),
    (11, 'unclear', 'whether its text says what it runs'),
    (12, 'allowed', 'whether a person always allows it'),
    (13, 'tool', 'whether the tool itself is allowed'),
    (14, 'sandboxed', 'whether a sandbox holds it, and the policy takes that'),
    (15, 'answered', 'whether a person said yes to it, or the session asks nobody'),
    (16, 'otherwise', 'nothing: a person is asked');

INSERT INTO strike (code) VALUES
    ('anchor.caps'),
    ('anchor.other'),
    ('anchor.signature'),
    ('anchor.terms'),
    ('contain.agents'),
    ('contain.bastion'),
    ('contain.right'),
    ('directive.form'),
    ('directive.other'),
    ('directive.signature'),
    ('grant.args'),
    ('grant.other'),
    ('observe.args'),
    ('observe.depth'),
    ('observe.hours'),
    ('observe.minutes'),
    ('observe.name'),
    ('observe.path'),
    ('observe.port'),
    ('observe.unit'),
    ('op.args'),
    ('op.replayed'),
    ('op.unknown');

INSERT INTO verb (name, op, tool, dials, declares) VALUES
    ('file.move', 'file:move', NULL, 0, NULL),
    ('file.put', 'file:put', NULL, 0, NULL),
    ('git.fetch', 'git:fetch', 'git', 1, 1),
    ('k8s.set_image', 'k8s:set_image', 'kubectl', 1, 1),
    ('package.install', 'package:install', 'apt-get', 0, NULL),
    ('service.restart', 'service:restart', 'systemctl', 0, NULL),
    ('tree.checkout', 'tree:checkout', 'git', 0, NULL),
    ('user.lock', 'user:lock', 'usermod', 0, NULL);
