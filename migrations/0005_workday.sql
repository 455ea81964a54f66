-- Workers on a lane, models asked by name, manifests that reach out; states that end are kept their time and no longer.

DROP TRIGGER audit_chained;
DROP TRIGGER audit_dropped;
DROP TRIGGER audit_sink_forward;
DROP TRIGGER audit_sink_sent;
DROP TRIGGER audit_base_moves;
DROP TRIGGER amendment_moves;
DROP TRIGGER approval_born;
DROP TRIGGER approval_moves;
DROP TRIGGER approval_stays;
DROP TRIGGER approval_audit_birth;
DROP TRIGGER approval_audit_move;
DROP TRIGGER restore_takes_back;
DROP TRIGGER host_beat_born;
DROP TRIGGER approval_within;
DROP TRIGGER pairing_born;
DROP TRIGGER pairing_moves;
DROP TRIGGER pairing_revoked;
DROP TRIGGER contain_process_no_delete;
DROP TRIGGER context_ask_moves;
DROP TRIGGER egress_flow_host_may;
DROP TRIGGER egress_flow_ruled;
DROP TRIGGER egress_flow_vetted;
DROP TRIGGER grant_on_a_persons_word;
DROP TRIGGER grant_burns_its_approval;
DROP TRIGGER grant_use_within_uses;
DROP TRIGGER op_run_is_allowed;
DROP TRIGGER own_ask_is_answered;
DROP TRIGGER op_manifest_form;
DROP TRIGGER op_manifest_ends;
DROP TRIGGER added_op_ask_is_held_to_its_params;
DROP TRIGGER approval_of_added_op;
DROP TRIGGER approval_of_root;
DROP TRIGGER op_cancel_is_of_a_live_run;
DROP TRIGGER op_cancel_takes_back;
DROP TRIGGER op_cancel_stays;
DROP TRIGGER op_cancel_no_update;
DROP TRIGGER host_order_stays;
DROP TRIGGER directive_is_the_hosts;
DROP TRIGGER directive_stays;
DROP TRIGGER instance_closes;
DROP TRIGGER actor_run_closes;
DROP TRIGGER actor_run_closes_directives;
DROP TRIGGER actor_run_closes_calls;
DROP TRIGGER actor_run_closes_flows;
DROP TRIGGER actor_run_closes_lines;
DROP TRIGGER quarantine_stays;
DROP TRIGGER approval_not_held;
DROP TRIGGER remote_session_no_update;
DROP TRIGGER audit_base_audit;
DROP TRIGGER audit_sink_exported;
DROP TRIGGER agent_scan_ends_with_worker;
DROP TRIGGER schedule_is_allowed;
DROP TRIGGER schedule_moves;
DROP TRIGGER schedule_audit_birth;
DROP TRIGGER firing_is_allowed;
DROP TRIGGER firing_moves;
DROP TRIGGER firing_audit_birth;
DROP TRIGGER firing_audit_move;
DROP TRIGGER worker_is_a_program;
DROP TRIGGER worker_fixed;
DROP TRIGGER worker_audit_birth;
DROP TRIGGER worker_audit_end;
DROP TRIGGER session_is_allowed;
DROP TRIGGER session_moves;
DROP TRIGGER session_cancels;
DROP TRIGGER firing_ends_with_session;
DROP TRIGGER session_stays;
DROP TRIGGER session_audit_birth;
DROP TRIGGER session_audit_move;
DROP TRIGGER attempt_is_allowed;
DROP TRIGGER attempt_begins;
DROP TRIGGER attempt_moves;
DROP TRIGGER attempt_over;
DROP TRIGGER attempt_stays;
DROP TRIGGER attempt_audit;
DROP TRIGGER attempt_ends_with_worker;
DROP TRIGGER attempt_ends_with_instance;
DROP TRIGGER session_output_in_order;
DROP TRIGGER session_output_counts;
DROP TRIGGER session_output_no_update;
DROP TRIGGER session_output_stays;
DROP TRIGGER session_input_is_allowed;
DROP TRIGGER session_input_no_update;
DROP TRIGGER session_input_is_handed_on;
DROP TRIGGER session_input_ends;
DROP TRIGGER remote_bundle_begins;
DROP TRIGGER remote_bundle_moves;
DROP TRIGGER remote_bundle_lands;
DROP TRIGGER remote_bundle_outlives;
DROP TRIGGER remote_bundle_stays;
DROP TRIGGER session_from_afar;
DROP TRIGGER session_from_afar_is_known;
DROP TRIGGER session_leaves_afar;
DROP TRIGGER session_cancelled_from_afar;
DROP TRIGGER session_input_from_afar;
DROP TRIGGER host_terms_stay;
DROP TRIGGER host_terms_end_with_link;
DROP TRIGGER destination_is_judged;
DROP TRIGGER approval_destination;
DROP TRIGGER host_beat_no_update;
DROP TRIGGER host_beat_does;
DROP TRIGGER enforces_fixed;
DROP TRIGGER enforces_stays;
DROP TRIGGER egress_request_ruled;
DROP TRIGGER box_line_beats_onwards;
DROP TRIGGER host_order_born;
DROP TRIGGER decision_passes_gates;
DROP TRIGGER remote_listen_is_one;
DROP TRIGGER remote_credential_born;
DROP TRIGGER remote_bundle_is_allowed;
DROP TRIGGER remote_bundle_grows;
DROP TRIGGER host_terms_hold;
DROP TRIGGER host_terms_end_with_box;
DROP TRIGGER listen_is_one;
DROP TRIGGER token_born;
DROP TRIGGER agent_scan_born;
DROP VIEW audit_outbox;
DROP VIEW audit_drop;
DROP VIEW audit_base_due;
DROP VIEW open_approvals;
DROP VIEW beat;
DROP VIEW egress_ruling;
DROP VIEW boxes;
DROP VIEW egress_request_ruling;
DROP VIEW op_input;
DROP VIEW mcp_tool;
DROP VIEW run_history;
DROP VIEW added_op_param;
DROP VIEW gate_says;
DROP VIEW decision_made;
DROP VIEW remote_reach;
DROP VIEW schedule_due;
DROP VIEW schedules;
DROP VIEW next_session;
DROP VIEW sessions;
DROP VIEW remote_bundle_run;
DROP VIEW remote_bundles;
DROP VIEW tokens;
DROP VIEW host_may;
DROP VIEW waiting;
DROP VIEW expiring;
DROP VIEW run_origin;
DROP VIEW audit_log_line;
DROP VIEW box_beats;
DROP VIEW box_lines;
DROP VIEW host_order_due;
DROP VIEW remote_credentials;
DROP VIEW agent_scan_due;
DROP VIEW agent_beat;
DROP VIEW box_agents;
DROP VIEW box_tool_servers;
DROP VIEW recent_runs;

ALTER TABLE audit_sink ADD COLUMN kept INTEGER NOT NULL DEFAULT 0 CHECK (kept >= 0);
UPDATE audit_sink SET kept = (SELECT coalesce(max(seq), 0) FROM audit) WHERE name = 'system-log';
ALTER TABLE op_cancel ADD COLUMN pairing_id INTEGER REFERENCES pairing (id);
ALTER TABLE worker ADD COLUMN lane         TEXT    CHECK (lane IS NULL OR (json_valid(lane) AND json_type(lane) = 'array'
                         AND json_array_length(lane) <= 64 AND length(lane) <= 16384 AND backend = 'native' AND net = 'none'));
ALTER TABLE session ADD COLUMN lane         TEXT    CHECK (lane IS NULL OR (json_valid(lane) AND backend = 'native' AND net = 'none'));
ALTER TABLE approval DROP COLUMN terms;
ALTER TABLE approval ADD COLUMN reaches        TEXT    CHECK (reaches IS NULL OR json_valid(reaches));
ALTER TABLE approval ADD COLUMN credential     TEXT    CHECK (length(credential) BETWEEN 1 AND 128);
ALTER TABLE approval ADD COLUMN terms          TEXT    GENERATED ALWAYS AS (
        'bastion approval ' || CASE WHEN reaches IS NOT NULL OR credential IS NOT NULL THEN 3
                                    WHEN bounds IS NOT NULL THEN 2 ELSE 1 END || char(10) ||
        'machine: ' || box_name || char(10) ||
        'host: ' || host_name || char(10) ||
        'may: ' || op || char(10) ||
        'with: ' || args || char(10) ||
        iif(bounds IS NULL, '', 'within: ' || bounds || char(10) || words || char(10)) ||
        iif(reaches IS NULL, '', 'reaches: ' || reaches || char(10)) ||
        iif(credential IS NULL, '', 'credential: ' || json_quote(credential) || char(10)) ||
        'uses: ' || uses || char(10) ||
        'for: ' || (ttl_ms / 1000) || ' s from the approval' || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL;

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
        OR NEW.bounds IS NOT OLD.bounds OR NEW.words IS NOT OLD.words
        OR NEW.reaches IS NOT OLD.reaches OR NEW.credential IS NOT OLD.credential OR NEW.digest IS NOT coalesce(OLD.digest, sha256(OLD.terms))
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

CREATE VIEW audit_edge AS
SELECT max(s.sent + (SELECT value FROM setting WHERE name = 'audit.outbox')
                  + (SELECT coalesce(sum(last - first + 1), 0) FROM audit_gap), s.kept) AS edge,
       (SELECT coalesce(max(seq), 0) FROM audit) AS top
  FROM audit_sink AS s WHERE s.name = 'system-log';

CREATE TRIGGER audit_sink_forward BEFORE UPDATE ON audit_sink
BEGIN
    SELECT RAISE(ABORT, 'audit.sink|a copy of the audit only goes forward, and no further than the audit')
     WHERE NEW.name IS NOT OLD.name OR NEW.sent < OLD.sent OR NEW.kept < OLD.kept
        OR max(NEW.sent, NEW.kept) > (SELECT coalesce(max(seq), 0) FROM audit);
END;

CREATE TRIGGER audit_sink_moves BEFORE UPDATE OF sent ON audit_sink WHEN NEW.name = 'system-log'
BEGIN
    INSERT INTO audit_gap_open VALUES (OLD.name);
END;

CREATE TRIGGER audit_outbox_changes BEFORE UPDATE OF value ON setting
WHEN NEW.name = 'audit.outbox' AND NEW.value IS NOT OLD.value
BEGIN
    INSERT INTO audit_gap_open VALUES ('system-log');
    UPDATE audit_sink SET kept = (SELECT coalesce(max(seq), 0) FROM audit) WHERE name = 'system-log';
END;

CREATE VIEW audit_gap_open AS SELECT name FROM audit_sink;

CREATE TRIGGER audit_gap_is_kept INSTEAD OF INSERT ON audit_gap_open
BEGIN
    INSERT INTO audit_gap (first, last)
    SELECT coalesce((SELECT first FROM audit_gap WHERE last = edge), edge + 1), top FROM audit_edge WHERE top > edge
        ON CONFLICT DO UPDATE SET last = excluded.last;
END;

CREATE TRIGGER audit_sink_sent AFTER UPDATE OF sent ON audit_sink
BEGIN
    DELETE FROM audit_gap WHERE last < NEW.sent;
END;

CREATE VIEW audit_outbox AS
SELECT a.seq,
       coalesce((SELECT iif(g.last = a.seq - 1, g.last - g.first + 1, 0) FROM audit_gap AS g
                  WHERE g.first < a.seq ORDER BY g.first DESC LIMIT 1), 0) AS dropped_before
  FROM audit AS a
 WHERE a.seq > (SELECT sent FROM audit_sink WHERE name = 'system-log')
   AND a.seq <= (SELECT edge FROM audit_edge)
   AND a.seq > coalesce((SELECT g.last FROM audit_gap AS g WHERE g.first <= a.seq
                          ORDER BY g.first DESC LIMIT 1), 0);

CREATE VIEW audit_drop AS
SELECT max(e.top - e.edge, 0)
     + coalesce((SELECT last - first + 1 FROM audit_gap WHERE last = min(e.edge, e.top)), 0) AS dropped
  FROM audit_edge AS e;

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
                  OR coalesce(json_type(NEW.beat, '$.serves'), 'array') <> 'array'
                  OR json_array_length(NEW.beat, '$.serves') > 16
                ELSE 1 END;
    SELECT RAISE(ABORT, 'beat.form|a lane in this beat is none')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.beat, '$.serves')
                    WHERE type <> 'text' OR value GLOB '*[^a-z_]*' OR length(value) NOT BETWEEN 1 AND 32);
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

CREATE TRIGGER enforces_fixed BEFORE UPDATE ON enforces
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|what a build enforces comes with its migrations');
END;

CREATE TRIGGER enforces_stays BEFORE DELETE ON enforces
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|what a build enforces comes with its migrations');
END;

CREATE VIEW beat AS
SELECT s.id AS pairing_id,
       json_patch(json_object('name', b.name, 'state', s.state,
                   'caps', json(coalesce(s.caps, '[]')),
                   'enforcing', json((SELECT report FROM enforcing)),
                   'catalog', (SELECT digest FROM op_catalog_digest),
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
                  json_patch(coalesce((SELECT said FROM agent_beat), '{}'),
                             iif(s.transport = 'unix', '{}', json_object('serves',
                                 (SELECT json_group_array(lane)
                                    FROM (SELECT lane FROM pairing_serves WHERE pairing_id = s.id ORDER BY lane)))))) AS body
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

CREATE TRIGGER contain_process_no_delete BEFORE DELETE ON contain_process
WHEN OLD.directive_id NOT IN (SELECT id FROM over_row WHERE entity = 'directive')
BEGIN
    SELECT RAISE(ABORT, 'contain.order|what was stopped is history');
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

CREATE VIEW egress_ruling AS
SELECT f.id,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied'
                    WHEN EXISTS (SELECT 1 FROM program_reach WHERE run_id = f.run_id)
                    THEN (SELECT iif(count(*) = 0, 'unknown', NULL) FROM program_reach
                           WHERE run_id = f.run_id AND host = f.host AND port = f.port)
                    WHEN count(*) = 0 AND NOT EXISTS (SELECT 1 FROM egress_held_by_grant WHERE flow_id = f.id)
                    THEN 'unknown' END
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

CREATE TRIGGER egress_flow_host_may INSTEAD OF INSERT ON egress_flow_of_host
BEGIN
    SELECT CASE
           WHEN (SELECT active FROM pairing_status WHERE id = NEW.pairing_id) IS NOT 1
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN NOT EXISTS (SELECT 1 FROM egress_hosts WHERE pairing_id = NEW.pairing_id)
           THEN RAISE(ABORT, 'egress.capability|this Host has no capability egress here, and no grant')
           END;
END;

CREATE TRIGGER egress_flow_ruled AFTER INSERT ON egress_flow
WHEN NEW.state = 'asked'
 AND NOT EXISTS (SELECT 1 FROM egress_way WHERE host = NEW.host AND port = NEW.port
                    AND uid = coalesce(NEW.uid, -1) AND pairing_id = coalesce(NEW.pairing_id, -1)
                    AND run_id = coalesce(NEW.run_id, -1))
BEGIN
    INSERT INTO egress_flow_asks (id, pairing_id, host, port)
    SELECT NEW.id, NEW.pairing_id, NEW.host, NEW.port WHERE NEW.pairing_id IS NOT NULL;
    SELECT CASE held
           WHEN 'denied' THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN 'unknown' THEN RAISE(ABORT, 'egress.unknown|no rule allows this')
           END
      FROM egress_ruling WHERE id = NEW.id;
END;

CREATE TRIGGER egress_flow_vetted INSTEAD OF INSERT ON egress_flow_unjudged
BEGIN
    INSERT INTO egress_flow_asks (id, pairing_id, host, port)
    SELECT NEW.id, NEW.pairing_id, NEW.host, NEW.port WHERE NEW.pairing_id IS NOT NULL;
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
    -- (What a grant allows is judged each time: it is used up, and runs out.)
    INSERT INTO egress_way (host, port, uid, pairing_id, run_id, addresses)
    SELECT NEW.host, NEW.port, coalesce(NEW.uid, -1), coalesce(NEW.pairing_id, -1),
           coalesce(NEW.run_id, -1), NEW.addresses
     WHERE NEW.pairing_id IS NULL OR NOT EXISTS (SELECT 1 FROM egress_use WHERE flow_id = NEW.id);
    DELETE FROM egress_way
     WHERE id <= (SELECT max(id) FROM egress_way) - (SELECT value FROM setting WHERE name = 'egress.ways');
END;

CREATE TABLE egress_use (
    flow_id   INTEGER PRIMARY KEY REFERENCES egress_flow (id) ON DELETE CASCADE,
    op_run_id INTEGER NOT NULL UNIQUE REFERENCES op_run (id)
) STRICT;

CREATE TRIGGER egress_use_born BEFORE INSERT ON egress_use
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a connection stands by the use that was made for it')
     WHERE NOT EXISTS (SELECT 1 FROM egress_flow AS f JOIN op_run AS r ON r.id = NEW.op_run_id
                        WHERE f.id = NEW.flow_id AND r.pairing_id = f.pairing_id AND r.op = 'egress:reach'
                          AND r.args = json_array(f.host, CAST(f.port AS TEXT)));
END;

CREATE TRIGGER egress_use_fixed BEFORE UPDATE ON egress_use
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a connection stands by the use that was made for it');
END;

CREATE TRIGGER egress_use_stays BEFORE DELETE ON egress_use
WHEN EXISTS (SELECT 1 FROM egress_flow WHERE id = OLD.flow_id)
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a connection stands by the use that was made for it');
END;

CREATE VIEW egress_held_by_grant AS
SELECT u.flow_id
  FROM egress_use AS u JOIN op_run AS r ON r.id = u.op_run_id JOIN grant AS g ON g.id = r.grant_id
 WHERE g.state IN ('active', 'spent') AND g.expires_at > now_ms();

CREATE VIEW egress_grants_mark AS
SELECT count(*) AS n, coalesce(max(ended_at), 0) AS last FROM grant WHERE op = 'egress:reach';

CREATE VIEW egress_covered AS
SELECT f.id AS flow_id, g.id AS grant_id, g.bounds IS NOT NULL AS bounded, g.expires_at,
       iif(g.bounds IS NULL, 0, coalesce((SELECT at FROM grant_next WHERE id = g.id), 9e18)) AS next_at
  FROM egress_flow AS f
  JOIN grant AS g ON g.pairing_id = f.pairing_id AND g.op = 'egress:reach' AND g.state = 'active'
   AND g.expires_at > now_ms()
 WHERE g.args = json_array(f.host, CAST(f.port AS TEXT))
    OR (g.bounds IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM grant_bound AS b WHERE b.grant_id = g.id
              AND NOT CASE b.rule
                  WHEN 'in' THEN coalesce(iif(b.at = 0, f.host, CAST(f.port AS TEXT)) IN
                       (SELECT CAST(value AS TEXT) FROM json_each(b.bound)), 0)
                  ELSE bound_holds(b.rule, b.bound, iif(b.at = 0, f.host, CAST(f.port AS TEXT))) END));

CREATE VIEW egress_flow_asks AS SELECT id, pairing_id, host, port FROM egress_flow;

CREATE TRIGGER egress_flow_pays INSTEAD OF INSERT ON egress_flow_asks
WHEN (SELECT held FROM egress_ruling WHERE id = NEW.id) = 'unknown'
BEGIN
    SELECT RAISE(ABORT, 'egress.ungranted|no rule and no grant of this Host covers this')
     WHERE NOT EXISTS (SELECT 1 FROM egress_covered WHERE flow_id = NEW.id);
    INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)
    VALUES (NEW.pairing_id, 'egress:reach', json_array(NEW.host, CAST(NEW.port AS TEXT)),
            lower(hex(randomblob(16))),
            (SELECT grant_id FROM egress_covered WHERE flow_id = NEW.id
              ORDER BY bounded, next_at, expires_at, grant_id LIMIT 1),
            now_ms());
    INSERT INTO egress_use (flow_id, op_run_id) VALUES (NEW.id, (SELECT max(id) FROM op_run));
    -- Nothing is to be run for it: the connection is what was asked for.
    UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = (SELECT max(id) FROM op_run);
    UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms()
     WHERE id = (SELECT max(id) FROM op_run);
END;

CREATE VIEW egress_hosts AS
SELECT s.id AS pairing_id
  FROM pairing_status AS s
 WHERE s.active
   AND (EXISTS (SELECT 1 FROM json_each(s.caps) AS c WHERE c.value = 'egress')
        OR EXISTS (SELECT 1 FROM grant AS g WHERE g.pairing_id = s.id AND g.op = 'egress:reach'
                      AND g.state = 'active' AND g.expires_at > now_ms()));

CREATE VIEW pairing_parks AS
SELECT r.pairing_id, r.host, r.endpoints, r.identity
  FROM pairing_reached AS r JOIN egress_hosts AS h ON h.pairing_id = r.pairing_id
 WHERE r.identity IS NOT NULL;

CREATE TABLE egress_parked (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    slot       INTEGER NOT NULL CHECK (slot BETWEEN 0 AND 63),
    state      TEXT    NOT NULL DEFAULT 'dialling'
               CHECK (state IN ('dialling', 'parked') OR state IN ('serving', 'waiting')),
    changed_at INTEGER NOT NULL,
    next_at    INTEGER,                                        -- of one that waits: not before
    taken      INTEGER NOT NULL DEFAULT 0 CHECK (taken >= 0),  -- connections that went somewhere
    refused    INTEGER NOT NULL DEFAULT 0 CHECK (refused >= 0),-- and those that did not
    endpoint   TEXT    CHECK (length(endpoint) <= 300),        -- that is dialled, or was reached last
    code       TEXT    CHECK (length(code) <= 64),             -- why it was lost or not made
    why        TEXT    CHECK (length(why) <= 512),
    UNIQUE (pairing_id, slot),
    CHECK ((state = 'waiting') = (next_at IS NOT NULL))
) STRICT;

CREATE TRIGGER egress_parked_born BEFORE INSERT ON egress_parked
BEGIN
    SELECT RAISE(ABORT, 'parked.transition|a connection to a Host begins with dialling')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'egress_parked' AND from_state = '' AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'parked.unserved|this Host may not use the internet lane, or is not reached over a network')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_parks WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'parked.slots|a Host has as many parked connections as the setting parked.slots says')
     WHERE NEW.slot >= (SELECT value FROM setting WHERE name = 'parked.slots');
END;

CREATE TRIGGER egress_parked_moves BEFORE UPDATE ON egress_parked
BEGIN
    SELECT CASE
           WHEN NEW.pairing_id IS NOT OLD.pairing_id OR NEW.slot IS NOT OLD.slot
             OR NEW.taken < OLD.taken OR NEW.refused < OLD.refused
             OR NOT EXISTS (SELECT 1 FROM state_rule
                WHERE entity = 'egress_parked' AND from_state = OLD.state AND to_state = NEW.state)
           THEN RAISE(ABORT, 'parked.transition|a parked connection cannot make this move')
           WHEN NEW.state <> 'waiting'
            AND NOT EXISTS (SELECT 1 FROM pairing_parks WHERE pairing_id = NEW.pairing_id)
           THEN RAISE(ABORT, 'parked.unserved|this Host may not use the internet lane, or is not reached over a network')
           WHEN OLD.state = 'waiting' AND now_ms() < OLD.next_at
           THEN RAISE(ABORT, 'parked.early|a connection that waits is not dialled before its time')
           WHEN NEW.state = 'dialling' AND OLD.state <> 'waiting' AND NEW.taken = OLD.taken
           THEN RAISE(ABORT, 'parked.early|a connection that was of no use waits')
           WHEN NEW.state = 'waiting'
            AND NEW.next_at < now_ms() + (SELECT value FROM setting
                 WHERE name = iif(OLD.state = 'dialling', 'parked.retry_ms', 'parked.refused_ms'))
           THEN RAISE(ABORT, 'parked.early|a connection waits as long as parked.retry_ms or parked.refused_ms say')
           END;
END;

CREATE TRIGGER egress_parked_ends AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM egress_parked WHERE pairing_id = NEW.id;
END;

CREATE VIEW pairing_serves AS
SELECT s.id AS pairing_id, 'ops' AS lane FROM pairing_status AS s WHERE s.active AND s.transport <> 'unix'
 UNION ALL
SELECT DISTINCT w.pairing_id, 'egress'
  FROM egress_parked AS w JOIN pairing_parks AS p ON p.pairing_id = w.pairing_id
 WHERE w.state IN ('parked', 'serving') AND NOT EXISTS (SELECT 1 FROM lines_lost);

CREATE TRIGGER egress_parked_tells AFTER UPDATE OF state ON egress_parked
WHEN (NEW.state IN ('parked', 'serving')) <> (OLD.state IN ('parked', 'serving'))
 AND NOT EXISTS (SELECT 1 FROM egress_parked WHERE pairing_id = NEW.pairing_id AND slot <> NEW.slot
                    AND state IN ('parked', 'serving'))
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE id = NEW.pairing_id AND active
        ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER egress_parked_tells_end AFTER DELETE ON egress_parked
WHEN OLD.state IN ('parked', 'serving')
 AND NOT EXISTS (SELECT 1 FROM egress_parked WHERE pairing_id = OLD.pairing_id AND state IN ('parked', 'serving'))
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE id = OLD.pairing_id AND active
        ON CONFLICT DO NOTHING;
END;

CREATE VIEW egress_parks AS
SELECT p.host_name AS host, w.slot, iif(EXISTS (SELECT 1 FROM lines_lost), 'lost', w.state) AS state, w.changed_at,
       w.next_at, w.taken, w.refused, w.endpoint, w.code, w.why
  FROM egress_parked AS w JOIN pairing AS p ON p.id = w.pairing_id;

CREATE INDEX grant_of_egress ON grant (pairing_id, ended_at) WHERE op = 'egress:reach';

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

CREATE TRIGGER grant_use_within_uses BEFORE INSERT ON grant_use
BEGIN
    SELECT CASE
           WHEN NEW.n > g.uses
           THEN RAISE(ABORT, 'grant.spent|every use of this grant is spent')
           WHEN NEW.n IS NOT (SELECT coalesce(max(n), 0) + 1 FROM grant_use WHERE grant_id = NEW.grant_id)
           THEN RAISE(ABORT, 'grant.uses|uses are numbered without a gap')
           WHEN NEW.grant_id IS NOT (SELECT grant_id FROM op_run WHERE id = NEW.op_run_id)
           THEN RAISE(ABORT, 'grant.uses|a use is of a run that this grant authorised')
           END
      FROM (SELECT 1) LEFT JOIN grant AS g ON g.id = NEW.grant_id;
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
            ELSE (now_ms() - b.heard_at) / 86400000 || ' d ago' END AS heard,
       (SELECT (SELECT group_concat(value, ', ') FROM json_each(h.beat, '$.serves'))
          FROM host_beat AS h WHERE h.box_id = b.id) AS serves   -- lanes, as it says; NULL: it does not say
  FROM host_box AS b LEFT JOIN box_witness AS w ON w.box_id = b.id;

CREATE TABLE egress_port (
    box_id  INTEGER PRIMARY KEY REFERENCES host_box (id),
    port    INTEGER NOT NULL UNIQUE CHECK (port BETWEEN 1 AND 65535),
    made_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER egress_port_born BEFORE INSERT ON egress_port
BEGIN
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'parked.near|a box on the same machine parks nothing here: its lane has sockets of its own')
     WHERE (SELECT transport FROM host_box WHERE id = NEW.box_id) = 'unix';
    SELECT RAISE(ABORT, 'parked.port|another box has this port')
     WHERE EXISTS (SELECT 1 FROM egress_port WHERE port = NEW.port AND box_id <> NEW.box_id);
    DELETE FROM egress_port WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER egress_port_no_update BEFORE UPDATE ON egress_port
BEGIN
    SELECT RAISE(ABORT, 'parked.fixed|a port is replaced, never edited');
END;

CREATE TRIGGER egress_port_audit_birth AFTER INSERT ON egress_port
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_port', NEW.box_id, 'added', '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'port', NEW.port));
END;

CREATE TRIGGER egress_port_audit_end AFTER DELETE ON egress_port
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_port', OLD.box_id, 'removed', '',
            json_object('box', (SELECT name FROM host_box WHERE id = OLD.box_id), 'port', OLD.port));
END;

CREATE TRIGGER egress_port_ends AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    DELETE FROM egress_port WHERE box_id = NEW.id;
END;

CREATE TABLE box_parked (
    box_id     INTEGER PRIMARY KEY REFERENCES host_box (id),
    parked     INTEGER NOT NULL DEFAULT 0 CHECK (parked >= 0),
    busy       INTEGER NOT NULL DEFAULT 0 CHECK (busy >= 0),
    waiting    INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),  -- connections that none was free for yet
    changed_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER box_parked_born BEFORE INSERT ON box_parked
BEGIN
    SELECT RAISE(ABORT, 'box.gone|the box is no longer paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

CREATE TRIGGER box_parked_ends AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    DELETE FROM box_parked WHERE box_id = NEW.id;
END;

CREATE VIEW egress_ports AS
SELECT b.id AS box_id, b.name AS box, p.port,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.parked, 0)) AS parked,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.busy, 0)) AS busy,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.waiting, 0)) AS waiting
  FROM host_box AS b LEFT JOIN egress_port AS p ON p.box_id = b.id LEFT JOIN box_parked AS w ON w.box_id = b.id
 WHERE b.state = 'active' AND (p.port IS NOT NULL OR w.parked > 0 OR w.busy > 0);

CREATE VIEW egress_request_ruling AS
SELECT q.id, q.flow_id, q.host = f.host AND q.port = f.port AS same,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied'
                    WHEN count(*) = 0
                    THEN CASE WHEN NOT EXISTS (SELECT 1 FROM egress_held_by_grant
                                           WHERE flow_id = f.id AND q.host = f.host AND q.port = f.port)
                         THEN 'unknown' WHEN q.websocket THEN 'websocket' END
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

CREATE TRIGGER box_line_beats_onwards BEFORE UPDATE OF beat_time ON box_line
WHEN NEW.beat_time <= OLD.beat_time
BEGIN
    SELECT RAISE(ABORT, 'beat.stale|this beat, or a newer one, of this box was heard');
END;

CREATE VIEW box_lines AS
SELECT b.id, b.name, b.transport, iif(l.up > 0 AND NOT EXISTS (SELECT 1 FROM lines_lost), l.up, 0) AS up, l.address,
       CASE WHEN b.state = 'gone' THEN 'gone'
            WHEN l.up > 0 AND NOT EXISTS (SELECT 1 FROM lines_lost) THEN 'connected'
            WHEN b.heard_at > now_ms() - (SELECT value FROM setting WHERE name = 'beat.silent_ms')
            THEN 'beating'
            ELSE 'silent' END AS line,
       b.heard_at, now_ms() - b.heard_at AS age_ms
  FROM host_box AS b LEFT JOIN box_line AS l ON l.box_id = b.id;

CREATE VIEW param_asked (of, op, position, name, type, needed, low, high, pattern, fallback, doc, choices) AS
SELECT 0, p.op, p.position, p.name, p.type, p.needed, p.low, p.high, p.pattern, p.fallback,
       p.doc || coalesce(' (like ' || a.pattern || ')', ''), a.choices
  FROM op_param AS p LEFT JOIN added_op_param AS a ON a.op = p.op AND a.at = p.position - 1
 UNION ALL
SELECT o.box_id, o.op, p.key + 1, p.value ->> '$.name', p.value ->> '$.type', p.value ->> '$.needed',
       p.value ->> '$.low', p.value ->> '$.high', NULL, NULL,
       (p.value ->> '$.doc') || coalesce(' (like ' || (p.value ->> '$.like') || ')', ''), p.value -> '$.in'
  FROM box_op AS o JOIN json_each(o.params) AS p;

CREATE VIEW op_input (of, op, schema) AS
SELECT o.of, o.op, json_patch(json_object('type', 'object', 'properties', json('{}'),
                                          'additionalProperties', json('false')),
       json_object(
           'properties', (SELECT json_group_object(p.name, json_patch('{}',
                json_object('type', p.type, 'description', p.doc,
                            'minLength', iif(p.type = 'string', p.low, NULL),
                            'maxLength', iif(p.type = 'string', p.high, NULL),
                            'minimum', iif(p.type = 'integer', p.low, NULL),
                            'maximum', iif(p.type = 'integer', p.high, NULL),
                            'pattern', p.pattern,
                            'enum', json(p.choices),
                            'default', iif(p.type = 'integer', CAST(p.fallback AS INTEGER),
                                           p.fallback))))
               FROM param_asked AS p WHERE p.op = o.op AND p.of = o.of),
           'required', (SELECT iif(count(*) = 0, NULL, json_group_array(p.name))
               FROM param_asked AS p WHERE p.op = o.op AND p.of = o.of AND p.needed)))
  FROM (SELECT 0 AS of, name AS op FROM op UNION ALL SELECT box_id, op FROM box_op) AS o;

CREATE VIEW mcp_tool AS
SELECT t.box || '.' || replace(t.op, ':', '_') AS name, t.box, t.op, t.of,
       json_patch(json_object(
           'name', t.box || '.' || replace(t.op, ':', '_'),
           'title', t.box || ': ' || t.summary,
           'description', iif(t.of = 0, 'On the machine ' || t.box || ': ' || t.summary,
                              'An operation that was added on the machine ' || t.box || ', which describes it as "'
                              || replace(t.summary, '"', '''') || '"')
               || iif(t.class = 'own', '.', '. A person at ' || t.box
                      || ' approves each kind of ask first; the call waits for that.'),
           'inputSchema', json((SELECT schema FROM op_input AS i WHERE i.of = t.of AND i.op = t.op))),
         json_object(
           'outputSchema', json((SELECT schema FROM op_result AS r WHERE r.op = t.op)),
           'annotations', json_object(
               'title', t.box || ': ' || t.summary,
               'readOnlyHint', json(iif(t.class = 'observe' OR t.op = 'grant:list', 'true', 'false')),
               'destructiveHint', json(iif(t.class IN ('observe', 'own'), 'false', 'true')),
               'idempotentHint', json(iif(t.class IN ('observe', 'own'), 'true', 'false')),
               'openWorldHint', json('false')))) AS tool
  FROM box_ops AS t
 WHERE t.op <> 'op:list';

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
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.op_run_id, row_number() OVER (ORDER BY op), json_object('o', line)
      FROM op_catalog WHERE NEW.op = 'op:list';
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.op_run_id, ops + 1, json_object('r', json_object('ops', ops, 'digest', digest))
      FROM op_catalog_digest WHERE NEW.op = 'op:list';
    UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms() WHERE id = NEW.op_run_id;
END;

CREATE VIEW run_history AS
SELECT r.id, p.host_name AS host, r.op, r.args, r.state, r.exit_code, r.queued_at, r.finished_at,
       r.grant_id, a.decided_by AS approved_by, f.label AS approved_with
  FROM op_run AS r
  JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN grant AS g ON g.id = r.grant_id
  LEFT JOIN approval AS a ON a.id = g.approval_id
  LEFT JOIN factor AS f ON f.id = g.factor_id;

CREATE TRIGGER op_manifest_form BEFORE INSERT ON op_manifest
BEGIN
    SELECT RAISE(ABORT, 'manifest.form|a manifest is a JSON object of at most 16384 bytes')
     WHERE CASE WHEN json_valid(NEW.manifest)
                THEN json_type(NEW.manifest) <> 'object' OR NEW.manifest <> json(NEW.manifest)
                  OR length(CAST(NEW.manifest AS BLOB)) > 16384 OR instr(NEW.manifest, '\u0000') > 0
                ELSE 1 END;
    SELECT RAISE(ABORT, 'manifest.member|a manifest has name, summary, program, interpreter, params, reads, writes, destinations, credential, builder, verbs and time_ms, each at most once')
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
    SELECT RAISE(ABORT, 'manifest.destination|destinations are at most 16 names or public addresses, each with its port as HOST:PORT, and each once')
     WHERE coalesce(json_type(NEW.manifest, '$.destinations'), 'array') <> 'array'
        OR json_array_length(NEW.manifest, '$.destinations') > 16
        OR (SELECT count(*) <> count(DISTINCT value) FROM json_each(NEW.manifest, '$.destinations'))
        OR EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.destinations') AS d
            WHERE CASE WHEN d.type <> 'text' OR destination_host(d.value) IS NULL THEN 1
                       ELSE d.value <> iif(instr(destination_host(d.value), ':'), '[' || destination_host(d.value) || ']',
                                           destination_host(d.value)) || ':' || destination_port(d.value)
                         OR destination_host(d.value) = 'localhost' OR destination_host(d.value) GLOB '*.localhost'
                         OR (address_bytes(destination_host(d.value)) IS NOT NULL
                             AND (SELECT class FROM address_class
                                   WHERE address_bytes(destination_host(d.value)) BETWEEN first AND last
                                   ORDER BY prio LIMIT 1) IS NOT 'public') END);
    SELECT RAISE(ABORT, 'manifest.credential|a credential is the name of a token')
     WHERE coalesce(json_type(NEW.manifest, '$.credential'), 'text') <> 'text';
    SELECT RAISE(ABORT, 'manifest.builder|a builder is 3 to 16 words: the absolute path of a program, then $in and $out, each once, among words of at most 255 characters')
     WHERE json_type(NEW.manifest, '$.builder') IS NOT NULL
       AND CASE WHEN json_type(NEW.manifest, '$.builder') <> 'array' THEN 1
                ELSE json_array_length(NEW.manifest, '$.builder') NOT BETWEEN 3 AND 16
                  OR bound_holds('beneath', '/', NEW.manifest ->> '$.builder[0]') IS NOT 1
                  OR (SELECT sum(type <> 'text' OR length(value) NOT BETWEEN 1 AND 255
                                 OR value GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*') > 0
                             OR sum(value = '$in') <> 1 OR sum(value = '$out') <> 1
                        FROM json_each(NEW.manifest, '$.builder')) END;
    SELECT RAISE(ABORT, 'manifest.program|a program, and its interpreter, is an absolute path of a file, without empty parts, . and ..')
     WHERE NEW.manifest ->> '$.interpreter' IS NOT 'none'
       AND (json_type(NEW.manifest, '$.program') IS NOT 'text'
         OR bound_holds('beneath', '/', NEW.manifest ->> '$.program') IS NOT 1
         OR coalesce(json_type(NEW.manifest, '$.interpreter'), 'text') <> 'text'
         OR bound_holds('beneath', '/', coalesce(NEW.manifest ->> '$.interpreter', '/')) IS NOT 1);
    SELECT RAISE(ABORT, 'manifest.sealed|the program, and its interpreter where it has one, is sealed by its digest, and nothing else is')
     WHERE (NEW.program_sha256 IS NULL) <> (NEW.manifest ->> '$.interpreter' IS 'none')
        OR (NEW.interpreter_sha256 IS NULL) <> (coalesce(NEW.manifest ->> '$.interpreter', 'none') = 'none');
    SELECT RAISE(ABORT, 'manifest.params|params are at most 8 objects with name, type, needed, min, max, like, in and doc')
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
                                    WHEN 'in' THEN type = 'array' AND json_array_length(p.value, '$.in') BETWEEN 1 AND 32
                                                   AND NOT EXISTS (SELECT 1 FROM json_each(p.value, '$.in') AS w
                                                       WHERE w.type <> 'text' OR length(w.value) NOT BETWEEN 1 AND 128
                                                          OR w.value GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*')
                                    WHEN 'doc' THEN type = 'text' AND length(value) BETWEEN 1 AND 200
                                                    AND value NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
                                    ELSE 0 END), 0) > 0 FROM json_each(p.value)) END);
    SELECT RAISE(ABORT, 'manifest.params|a param has a name of its own, a type and a doc; an integer has min and max; what is not needed comes last')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.params') AS p
            WHERE p.value ->> '$.name' IS NULL OR p.value ->> '$.type' IS NULL OR p.value ->> '$.doc' IS NULL
               OR (p.value ->> '$.type' = 'integer'
                   AND (p.value ->> '$.min' IS NULL OR p.value ->> '$.max' IS NULL OR p.value ->> '$.like' IS NOT NULL
                     OR p.value ->> '$.in' IS NOT NULL))
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
    SELECT RAISE(ABORT, 'manifest.verbs|an op that is its verbs has 1 to 16 of them, each a list: the op of a verb that reaches out to nothing, then words or $PARAM; no other op has any')
     WHERE CASE WHEN NEW.manifest ->> '$.interpreter' IS NOT 'none' THEN json_type(NEW.manifest, '$.verbs') IS NOT NULL
                WHEN json_type(NEW.manifest, '$.verbs') IS NOT 'array' THEN 1
                ELSE json_array_length(NEW.manifest, '$.verbs') NOT BETWEEN 1 AND 16
                  OR EXISTS (SELECT 1 FROM json_each(NEW.manifest, '$.verbs') AS v
                      WHERE CASE WHEN v.type <> 'array' THEN 1
                            ELSE v.value ->> 0 NOT IN (SELECT op FROM verb WHERE NOT dials) OR json_array_length(v.value) NOT BETWEEN 1 AND 3
                              OR EXISTS (SELECT 1 FROM json_each(v.value) AS w WHERE w.type <> 'text'
                                    OR (w.value GLOB '$*' AND substr(w.value, 2) NOT IN
                                        (SELECT p.value ->> '$.name' FROM json_each(NEW.manifest, '$.params') AS p)))
                            END) END;
END;

CREATE VIEW added_op_credential AS
SELECT m.id, m.name AS op, m.manifest ->> '$.credential' AS credential, t.id AS token_id,
       EXISTS (SELECT 1 FROM json_each(m.manifest, '$.destinations') AS d
                WHERE NOT EXISTS (SELECT 1 FROM token_host AS h
                       WHERE h.token_id = t.id
                         AND (h.suffix = destination_host(d.value)
                              OR destination_host(d.value) GLOB '*.' || h.suffix))) AS strays
  FROM op_manifest AS m
  LEFT JOIN token AS t ON t.name = m.manifest ->> '$.credential' AND t.state = 'active'
 WHERE m.state = 'active' AND m.manifest ->> '$.credential' IS NOT NULL;

CREATE TRIGGER op_manifest_credential AFTER INSERT ON op_manifest
WHEN NEW.manifest ->> '$.credential' IS NOT NULL
BEGIN
    SELECT CASE WHEN token_id IS NULL
                THEN RAISE(ABORT, 'manifest.credential|there is no token of this name on this machine')
                WHEN strays
                THEN RAISE(ABORT, 'manifest.credential|a program that gets this token reaches the hosts that it is for, and no others')
           END
      FROM added_op_credential WHERE id = NEW.id;
END;

CREATE TABLE op_built (
    manifest_id    INTEGER PRIMARY KEY REFERENCES op_manifest (id),
    source_sha256  TEXT NOT NULL CHECK (length(source_sha256) = 64 AND source_sha256 NOT GLOB '*[^0-9a-f]*'),
    builder_sha256 TEXT NOT NULL CHECK (length(builder_sha256) = 64 AND builder_sha256 NOT GLOB '*[^0-9a-f]*'),
    program        BLOB NOT NULL
) STRICT;

CREATE TRIGGER op_built_born BEFORE INSERT ON op_built
BEGIN
    SELECT RAISE(ABORT, 'manifest.sealed|what was built is what was signed, of an op that is added now')
     WHERE NOT EXISTS (SELECT 1 FROM op_manifest
                        WHERE id = NEW.manifest_id AND state = 'active' AND created_at = now_ms()
                          AND json_type(manifest, '$.builder') IS NOT NULL
                          AND program_sha256 = lower(hex(sha256(NEW.program))));
    SELECT RAISE(ABORT, 'manifest.build|what was built is larger than the setting manifest.built allows')
     WHERE length(NEW.program) > (SELECT value FROM setting WHERE name = 'manifest.built');
END;

CREATE TRIGGER op_built_audit AFTER INSERT ON op_built
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'op_manifest', m.id, 'built', '',
           json_object('op', m.name, 'source_sha256', NEW.source_sha256, 'builder', m.manifest ->> '$.builder[0]',
                       'builder_sha256', NEW.builder_sha256, 'program_sha256', m.program_sha256,
                       'bytes', length(NEW.program))
      FROM op_manifest AS m WHERE m.id = NEW.manifest_id;
END;

CREATE TRIGGER op_built_fixed BEFORE UPDATE ON op_built
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what was signed never changes');
END;

CREATE TRIGGER op_built_stays BEFORE DELETE ON op_built
WHEN (SELECT state FROM op_manifest WHERE id = OLD.manifest_id) = 'active'
BEGIN
    SELECT RAISE(ABORT, 'manifest.kept|an added op is dropped, not deleted');
END;

CREATE TRIGGER op_built_goes_with_its_op AFTER UPDATE OF state ON op_manifest WHEN NEW.state <> 'active'
BEGIN
    DELETE FROM op_built WHERE manifest_id = NEW.id;
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

CREATE VIEW added_op_param AS
SELECT m.name AS op, p.key AS at, p.value ->> '$.type' AS type, coalesce(p.value ->> '$.needed', 1) AS needed,
       coalesce(p.value ->> '$.min', 1) AS low, coalesce(p.value ->> '$.max', 4095) AS high, p.value ->> '$.like' AS pattern,
       p.value -> '$.in' AS choices
  FROM op_manifest AS m JOIN json_each(m.manifest, '$.params') AS p WHERE m.state = 'active';

CREATE TRIGGER added_op_ask_is_held_to_its_params INSTEAD OF INSERT ON added_op_ask
BEGIN
    SELECT RAISE(ABORT, 'op.unknown|there is no op of this name')
     WHERE NOT EXISTS (SELECT 1 FROM op_manifest WHERE name = NEW.op AND state = 'active');
    SELECT RAISE(ABORT, 'manifest.edited|the record of this op was changed by another tool, or its signer is not trusted any more')
     WHERE (SELECT holds FROM added_ops WHERE name = NEW.op) IS NOT 'yes';
    -- (What the machine lacks is said before anything is spent, and is nobody's fault.)
    SELECT CASE WHEN token_id IS NULL
                THEN RAISE(ABORT, 'act.credential|the token that this op needs is not on this machine any more')
                WHEN strays
                THEN RAISE(ABORT, 'act.credential|the token of this name is for other hosts than those that this op reaches')
           END
      FROM added_op_credential WHERE op = NEW.op;
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
                    OR (p.choices IS NOT NULL AND a.value NOT IN (SELECT value FROM json_each(p.choices)))
                    OR CASE WHEN p.pattern IS NULL THEN p.choices IS NULL AND a.value GLOB '-*'
                            ELSE bound_holds('like', p.pattern, a.value) IS NOT 1 END END);
END;

CREATE VIEW added_op_grants AS
SELECT name AS op, iif(json_array_length(manifest, '$.destinations') > 0, manifest -> '$.destinations', NULL) AS reaches,
       manifest ->> '$.credential' AS credential
  FROM op_manifest WHERE state = 'active';

CREATE TRIGGER approval_of_added_op BEFORE INSERT ON approval WHEN NEW.op GLOB 'run:*' AND json_valid(NEW.args)
BEGIN
    INSERT INTO added_op_ask (op, args) VALUES (NEW.op, NEW.args);
END;

CREATE TRIGGER approval_says_what_is_lent BEFORE INSERT ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.terms|the terms do not name what this op reaches, and with whose secret')
     WHERE NEW.reaches IS NOT (SELECT reaches FROM added_op_grants WHERE op = NEW.op)
        OR NEW.credential IS NOT (SELECT credential FROM added_op_grants WHERE op = NEW.op);
END;

CREATE VIEW approval_reach AS
SELECT id, 'The op was added with: '
       || coalesce('it reaches ' || (SELECT group_concat(value, ', ') FROM json_each(reaches)), 'it reaches nothing')
       || coalesce('; it gets the token ' || credential, '') || '.' AS says
  FROM approval WHERE reaches IS NOT NULL OR credential IS NOT NULL;

CREATE TRIGGER approval_of_root BEFORE INSERT ON approval WHEN NEW.op = 'root:exec' AND json_valid(NEW.args)
BEGIN
    INSERT INTO root_ask (args, bounds) VALUES (NEW.args, iif(json_valid(NEW.bounds), NEW.bounds, NULL));
END;

CREATE TABLE program_lend (
    op_run_id INTEGER PRIMARY KEY REFERENCES op_run (id),
    token_id  INTEGER NOT NULL REFERENCES token (id),
    at        INTEGER NOT NULL
) STRICT;

CREATE INDEX program_lend_by_token ON program_lend (token_id, at);

CREATE TRIGGER program_run_is_lent AFTER INSERT ON program_run
WHEN NEW.manifest_id IS NOT NULL AND NOT (SELECT dry FROM op_run WHERE id = NEW.op_run_id)
BEGIN
    SELECT RAISE(ABORT, 'act.credential|the token that this op needs is not on this machine any more, or is for other hosts')
      FROM added_op_credential WHERE id = NEW.manifest_id AND (token_id IS NULL OR strays);
    INSERT INTO program_lend (op_run_id, token_id, at)
    SELECT NEW.op_run_id, token_id, now_ms() FROM added_op_credential WHERE id = NEW.manifest_id;
END;

CREATE TRIGGER program_lend_audit AFTER INSERT ON program_lend
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'token', NEW.token_id, 'lent', p.host_name, json_object('name', t.name, 'run', r.id, 'op', r.op)
      FROM op_run AS r JOIN pairing AS p ON p.id = r.pairing_id JOIN token AS t ON t.id = NEW.token_id
     WHERE r.id = NEW.op_run_id;
END;

CREATE TRIGGER program_lend_fixed BEFORE UPDATE ON program_lend
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what ran is history');
END;

CREATE TRIGGER program_lend_stays BEFORE DELETE ON program_lend
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what ran is history');
END;

CREATE TABLE program_reach (
    run_id INTEGER NOT NULL REFERENCES sandbox_run (id),
    host   TEXT    NOT NULL CHECK (length(host) BETWEEN 1 AND 253),    -- exactly, as host_text() spells it
    port   INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    PRIMARY KEY (run_id, host, port)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER program_run_reaches AFTER UPDATE OF sandbox_run_id ON program_run WHEN NEW.manifest_id IS NOT NULL
BEGIN
    INSERT INTO program_reach (run_id, host, port)
    SELECT NEW.sandbox_run_id, destination_host(d.value), destination_port(d.value)
      FROM op_manifest AS m JOIN json_each(m.manifest, '$.destinations') AS d
     WHERE m.id = NEW.manifest_id AND NOT (SELECT dry FROM op_run WHERE id = NEW.op_run_id);
END;

CREATE TRIGGER program_reach_born BEFORE INSERT ON program_reach
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what ran is history')
     WHERE (SELECT state FROM sandbox_run WHERE id = NEW.run_id) IS NOT 'starting';
END;

CREATE TRIGGER program_reach_fixed BEFORE UPDATE ON program_reach
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what ran is history');
END;

CREATE TRIGGER program_reach_stays BEFORE DELETE ON program_reach
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what ran is history');
END;

CREATE VIEW program_flows AS
SELECT f.id, f.asked_at, p.host_name AS host, r.op, r.id AS run, f.host || ':' || f.port AS what, f.state, f.dialled,
       f.up, f.down, f.code
  FROM egress_flow AS f JOIN program_run AS b ON b.sandbox_run_id = f.run_id
  JOIN op_run AS r ON r.id = b.op_run_id JOIN pairing AS p ON p.id = r.pairing_id;

CREATE TRIGGER op_cancel_is_of_a_live_run BEFORE INSERT ON op_cancel
BEGIN
    SELECT RAISE(ABORT, 'op.final|a finished run is history')
     WHERE (SELECT finished_at FROM op_run WHERE id = NEW.op_run_id) IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM op_run WHERE id = NEW.op_run_id);
    -- A Host stops what it asked for. What another asked for: on a network its anchor; on a local machine the one
    -- Host that is there, of a Host that is there no more.
    SELECT RAISE(ABORT, 'op.owner|another Host asked for this run: it is not yours to stop')
     WHERE NEW.pairing_id IS NULL
        OR (NEW.pairing_id <> (SELECT pairing_id FROM op_run WHERE id = NEW.op_run_id)
            AND CASE (SELECT mode FROM box) WHEN 'local'
                THEN (SELECT count(*) FROM pairing WHERE state = 'active') <> 1
                  OR (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
                ELSE NEW.pairing_id IS NOT (SELECT pairing_id FROM live_anchor) END);
END;

CREATE TRIGGER op_cancel_takes_back AFTER INSERT ON op_cancel
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'op_run', r.id, 'cancel', p.host_name, json_object('op', r.op, 'state', r.state, 'of', nullif(o.host_name, p.host_name))
      FROM op_run AS r JOIN pairing AS o ON o.id = r.pairing_id JOIN pairing AS p ON p.id = NEW.pairing_id
     WHERE r.id = NEW.op_run_id;
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

CREATE VIEW op_catalog AS
SELECT a.name AS op,
       json_object('op', a.name, 'summary', a.summary, 'params', (SELECT json_group_array(json_patch(json_object(
           'name', p.value ->> '$.name', 'type', p.value ->> '$.type',
           'needed', json(iif(coalesce(p.value ->> '$.needed', 1), 'true', 'false')),
           'low', coalesce(p.value ->> '$.min', 1), 'high', coalesce(p.value ->> '$.max', 4095),
           'doc', p.value ->> '$.doc'),
           json_object('like', p.value ->> '$.like', 'in', json(p.value -> '$.in'))))
           FROM json_each(a.manifest, '$.params') AS p)) || char(10) AS line
  FROM added_ops AS a WHERE a.holds = 'yes';

CREATE VIEW op_catalog_digest AS
SELECT count(*) AS ops, lower(hex(sha256(coalesce(group_concat(line, ''), '')))) AS digest
  FROM (SELECT line FROM op_catalog ORDER BY op);

CREATE TRIGGER op_manifest_tells AFTER INSERT ON op_manifest
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER op_manifest_end_tells AFTER UPDATE OF state ON op_manifest
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
END;

CREATE TABLE box_catalog (
    box_id   INTEGER PRIMARY KEY REFERENCES host_box (id),
    told     TEXT    NOT NULL CHECK (length(told) = 64 AND told NOT GLOB '*[^0-9a-f]*'),      -- by its newest beat
    digest   TEXT    CHECK (length(digest) = 64 AND digest NOT GLOB '*[^0-9a-f]*'),           -- of what box_op has
    due_at   INTEGER NOT NULL DEFAULT 0,                       -- not asked before
    taken_at INTEGER,
    changes  INTEGER NOT NULL DEFAULT 0,                       -- how often box_op changed
    left_out INTEGER NOT NULL DEFAULT 0,                       -- ops that are not in the form
    why      TEXT    CHECK (length(why) <= 512),               -- the last answer was not taken
    CHECK ((digest IS NULL) = (taken_at IS NULL))
) STRICT;

CREATE TABLE box_op (
    box_id  INTEGER NOT NULL REFERENCES host_box (id),
    op      TEXT    NOT NULL CHECK (op GLOB 'run:[a-z]*' AND substr(op, 5) NOT GLOB '*[^a-z0-9_]*' AND length(op) <= 44),
    summary TEXT    NOT NULL CHECK (length(summary) BETWEEN 1 AND 128),
    params  TEXT    NOT NULL CHECK (json_valid(params) AND json_type(params) = 'array'),
    PRIMARY KEY (box_id, op)
) STRICT, WITHOUT ROWID;

CREATE VIEW unclean AS
SELECT '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || char(173) || char(1564) || char(6158)
    || char(8203) || '-' || char(8207) || char(8232) || '-' || char(8238) || char(8288) || '-' || char(8303)
    || char(65279) || char(65529) || '-' || char(65531) || char(917504) || '-' || char(917631) || ']*' AS pattern;

CREATE VIEW catalog_line AS
SELECT call_id, seq, frame ->> '$.o' AS text,
       CASE WHEN json_valid(frame ->> '$.o')
            THEN CASE WHEN json_type(frame ->> '$.o') = 'object' AND instr(frame ->> '$.o', '\u0000') = 0
                      THEN frame ->> '$.o' END END AS entry
  FROM call_output WHERE json_type(frame, '$.o') = 'text';

CREATE VIEW catalog_param AS
SELECT p.call_id, p.seq, p.at, p.value ->> '$.name' AS name, coalesce(p.value ->> '$.needed', 1) AS needed,
       CASE WHEN p.value IS NULL THEN 0
            ELSE coalesce(json_type(p.value, '$.name') = 'text' AND length(p.value ->> '$.name') BETWEEN 1 AND 32
                 AND (p.value ->> '$.name') NOT GLOB '*[^a-z_]*' AND (p.value ->> '$.name') GLOB '[a-z]*'
                 AND (p.value ->> '$.type') IN ('string', 'integer')
                 AND json_type(p.value, '$.needed') IN ('true', 'false')
                 AND json_type(p.value, '$.low') = 'integer' AND json_type(p.value, '$.high') = 'integer'
                 AND (p.value ->> '$.low') <= (p.value ->> '$.high')
                 AND (p.value ->> '$.low') >= iif(p.value ->> '$.type' = 'string', 0, -9000000000000000)
                 AND (p.value ->> '$.high') <= iif(p.value ->> '$.type' = 'string', 4095, 9000000000000000)
                 AND json_type(p.value, '$.doc') = 'text' AND length(p.value ->> '$.doc') BETWEEN 1 AND 200
                 AND (p.value ->> '$.doc') NOT GLOB (SELECT pattern FROM unclean), 0)
             AND CASE WHEN json_type(p.value, '$.like') IS NULL THEN 1
                      ELSE json_type(p.value, '$.like') = 'text' AND glob_valid(p.value ->> '$.like')
                       AND (p.value ->> '$.like') NOT GLOB (SELECT pattern FROM unclean) END
             AND CASE WHEN json_type(p.value, '$.in') IS NULL THEN 1
                      ELSE json_type(p.value, '$.in') = 'array' AND json_array_length(p.value, '$.in') BETWEEN 1 AND 32
                       AND NOT EXISTS (SELECT 1 FROM json_each(p.value, '$.in') AS w
                                        WHERE w.type <> 'text' OR length(w.value) NOT BETWEEN 1 AND 128
                                           OR w.value GLOB (SELECT pattern FROM unclean)) END
       END AS holds,
       p.value AS param
  FROM (SELECT l.call_id, l.seq, e.key AS at, CASE e.type WHEN 'object' THEN e.value END AS value
          FROM catalog_line AS l JOIN json_each(l.entry, '$.params') AS e) AS p;

CREATE VIEW catalog_entry AS
SELECT l.call_id, l.seq, l.entry ->> '$.op' AS op, l.entry ->> '$.summary' AS summary,
       (SELECT json_group_array(json_patch(json_object(
               'name', name, 'type', param ->> '$.type', 'needed', json(iif(needed, 'true', 'false')),
               'low', param ->> '$.low', 'high', param ->> '$.high', 'doc', param ->> '$.doc'),
               json_object('like', param ->> '$.like', 'in', json(param -> '$.in'))))
          FROM catalog_param WHERE call_id = l.call_id AND seq = l.seq ORDER BY at) AS params
  FROM catalog_line AS l
 WHERE json_type(l.entry, '$.op') = 'text' AND (l.entry ->> '$.op') GLOB 'run:[a-z]*'
   AND substr(l.entry ->> '$.op', 5) NOT GLOB '*[^a-z0-9_]*' AND length(l.entry ->> '$.op') <= 44
   AND json_type(l.entry, '$.summary') = 'text' AND length(l.entry ->> '$.summary') BETWEEN 1 AND 128
   AND (l.entry ->> '$.summary') NOT GLOB (SELECT pattern FROM unclean)
   AND json_type(l.entry, '$.params') = 'array' AND json_array_length(l.entry, '$.params') <= 8
   AND NOT EXISTS (SELECT 1 FROM catalog_param AS p
                    WHERE p.call_id = l.call_id AND p.seq = l.seq
                      AND (NOT p.holds OR EXISTS (SELECT 1 FROM catalog_param AS o
                            WHERE o.call_id = p.call_id AND o.seq = p.seq AND o.at < p.at
                              AND (o.name = p.name OR (NOT o.needed AND p.needed)))));

CREATE VIEW catalog_answer AS
SELECT c.id AS call_id, c.box_id, f.digest,
       CASE WHEN c.state <> 'done' OR c.exit_code <> 0
            THEN coalesce(c.why, 'the box ended it with exit ' || c.exit_code, 'the ask was lost')
            WHEN f.digest IS NULL OR length(f.digest) <> 64 OR f.digest GLOB '*[^0-9a-f]*'
            THEN 'the box''s answer is not in the form'
            WHEN f.digest <> lower(hex(sha256(coalesce((SELECT group_concat(text, '')
                   FROM (SELECT text FROM catalog_line WHERE call_id = c.id ORDER BY seq)), ''))))
            THEN 'the ops that the box listed do not have the digest that it says they have' END AS why
  FROM call AS c
  LEFT JOIN (SELECT call_id, frame ->> '$.r.digest' AS digest, max(seq) FROM call_output
              WHERE json_type(frame, '$.r.digest') = 'text' GROUP BY call_id) AS f ON f.call_id = c.id;

CREATE VIEW catalog_due AS
SELECT k.box_id FROM box_catalog AS k JOIN host_box AS b ON b.id = k.box_id
 WHERE b.state = 'active' AND k.told IS NOT k.digest
   AND k.due_at <= now_ms()
   AND NOT EXISTS (SELECT 1 FROM call WHERE state IN ('asked', 'sent') AND box_id = k.box_id AND op = 'op:list')
   AND (SELECT count(*) FROM call WHERE state IN ('asked', 'sent')) < (SELECT value FROM setting WHERE name = 'call.live')
   AND EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');

CREATE TRIGGER host_beat_tells_catalog AFTER INSERT ON host_beat
WHEN json_type(NEW.beat, '$.catalog') = 'text' AND length(NEW.beat ->> '$.catalog') = 64
 AND (NEW.beat ->> '$.catalog') NOT GLOB '*[^0-9a-f]*'
BEGIN
    INSERT INTO box_catalog (box_id, told) VALUES (NEW.box_id, NEW.beat ->> '$.catalog')
        ON CONFLICT DO UPDATE SET told = excluded.told WHERE told <> excluded.told;
    DELETE FROM box_op WHERE box_id = NEW.box_id AND NEW.beat ->> '$.catalog' = lower(hex(sha256('')));
    UPDATE box_catalog SET digest = told, taken_at = now_ms(), changes = changes + 1, left_out = 0, why = NULL
     WHERE box_id = NEW.box_id AND told = lower(hex(sha256(''))) AND digest IS NOT told;
    INSERT INTO call (box_id, op, args, nonce, asked_at)
    SELECT box_id, 'op:list', '[]', lower(hex(randomblob(16))), now_ms() FROM catalog_due WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER call_asks_catalog AFTER INSERT ON call WHEN NEW.op = 'op:list'
BEGIN
    UPDATE box_catalog SET due_at = max(due_at, NEW.asked_at - 9 * s.value) + s.value
      FROM setting AS s WHERE s.name = 'catalog.every_ms' AND box_id = NEW.box_id;
END;

CREATE TRIGGER call_output_of_catalog BEFORE INSERT ON call_output
WHEN (SELECT op FROM call WHERE id = NEW.call_id) = 'op:list'
BEGIN
    SELECT RAISE(ABORT, 'catalog.size|the box lists more than the setting catalog.ops allows, or an op in more than 65536 bytes')
     WHERE NEW.seq > (SELECT value + 1 FROM setting WHERE name = 'catalog.ops')
        OR length(CAST(NEW.frame AS BLOB)) > 65536;
END;

CREATE TRIGGER call_brings_catalog AFTER UPDATE OF state ON call
WHEN NEW.op = 'op:list' AND NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL
BEGIN
    INSERT INTO catalog_taken (call_id, box_id) VALUES (NEW.id, NEW.box_id);
END;

CREATE VIEW catalog_taken AS SELECT id AS call_id, box_id FROM call WHERE op = 'op:list';

CREATE TRIGGER catalog_is_taken INSTEAD OF INSERT ON catalog_taken
BEGIN
    UPDATE box_catalog SET why = substr(a.why, 1, 512),
           due_at = iif(a.why IS NULL, due_at,
                        max(due_at, now_ms() + (SELECT value FROM setting WHERE name = 'catalog.retry_ms')))
      FROM catalog_answer AS a WHERE a.call_id = NEW.call_id AND box_catalog.box_id = NEW.box_id;
    DELETE FROM box_op WHERE box_id = NEW.box_id
       AND EXISTS (SELECT 1 FROM catalog_answer WHERE call_id = NEW.call_id AND why IS NULL);
    INSERT INTO box_op (box_id, op, summary, params)
    SELECT NEW.box_id, op, summary, params
      FROM (SELECT op, summary, params, min(seq) FROM catalog_entry WHERE call_id = NEW.call_id GROUP BY op)
     WHERE (SELECT why IS NULL FROM box_catalog WHERE box_id = NEW.box_id);
    UPDATE box_catalog
       SET digest = (SELECT digest FROM catalog_answer WHERE call_id = NEW.call_id), taken_at = now_ms(),
           changes = changes + 1,
           left_out = (SELECT count(*) FROM catalog_line WHERE call_id = NEW.call_id)
                    - (SELECT count(*) FROM box_op WHERE box_id = NEW.box_id)
     WHERE box_id = NEW.box_id AND why IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'box_catalog', k.box_id, iif(k.why IS NULL, 'taken', 'refused'), '',
           json_object('box', (SELECT name FROM host_box WHERE id = k.box_id), 'digest', k.digest,
                       'ops', (SELECT count(*) FROM box_op WHERE box_id = k.box_id), 'left_out', k.left_out, 'why', k.why)
      FROM box_catalog AS k WHERE k.box_id = NEW.box_id;
    -- It beat again meanwhile.
    INSERT INTO call (box_id, op, args, nonce, asked_at)
    SELECT box_id, 'op:list', '[]', lower(hex(randomblob(16))), now_ms() FROM catalog_due WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER host_box_gone_with_its_ops AFTER UPDATE OF state ON host_box WHEN NEW.state = 'gone' AND OLD.state <> 'gone'
BEGIN
    DELETE FROM box_op WHERE box_id = NEW.id;
    DELETE FROM box_catalog WHERE box_id = NEW.id;
END;

CREATE VIEW box_ops AS
SELECT b.id AS box_id, b.name AS box, o.name AS op, o.usage, o.class, o.summary, 0 AS of
  FROM host_box AS b CROSS JOIN op AS o
 WHERE b.state = 'active' AND o.name NOT GLOB 'run:*'
 UNION ALL
SELECT b.id, b.name, o.op, (SELECT coalesce(group_concat(iif(p.value ->> '$.needed', upper(p.value ->> '$.name'),
           '[' || upper(p.value ->> '$.name') || ']'), ' '), '') FROM json_each(o.params) AS p),
       'action', o.summary, b.id
  FROM host_box AS b JOIN box_op AS o ON o.box_id = b.id
 WHERE b.state = 'active';

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

CREATE TRIGGER host_order_stays BEFORE DELETE ON host_order
WHEN OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'host_order')
BEGIN
    SELECT RAISE(ABORT, 'order.final|an order is withdrawn, not deleted');
END;

CREATE VIEW host_order_due AS
SELECT id, box_id, terms, signature
  FROM (SELECT *, row_number() OVER through AS place, sum(length(terms)) OVER through AS long
          FROM host_order WHERE ended_at IS NULL AND expires_at > now_ms()
        WINDOW through AS (PARTITION BY box_id ORDER BY id))
 WHERE place <= (SELECT value FROM setting WHERE name = 'order.batch')
   AND long <= (SELECT low / 4 FROM setting WHERE name = 'beat.bytes');

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
     WHERE EXISTS (SELECT 1 FROM directive WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce)
        OR (NEW.terms ->> '$.expires_at')
           <= (SELECT expires_to FROM directive_gone WHERE pairing_id = NEW.pairing_id);
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

CREATE TRIGGER directive_stays BEFORE DELETE ON directive
WHEN OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'directive')
  OR coalesce((SELECT expires_to FROM directive_gone WHERE pairing_id = OLD.pairing_id), 0) < OLD.expires_at
BEGIN
    SELECT RAISE(ABORT, 'directive.final|an order is kept until its time is over, so that it is never done again');
END;

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

CREATE VIEW decision_made AS
SELECT d.id, d.at, d.session, d.tool, d.side_effect, d.autonomy, d.risk_level, d.categories,
       g.action, g.gate, g.code, g.why, g.grant_id,
       g.gate = 'sandboxed' AND g.action = 'allow' AS auto_allowed,
       g.code IS 'persistent_deny' AS recoverable,
       d.violation_path AS path
  FROM decision AS d JOIN decision_gate AS g ON g.decision_id = d.id AND g.action IS NOT NULL;

CREATE TRIGGER instance_closes AFTER UPDATE OF ended_at ON instance
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

CREATE TRIGGER actor_run_closes AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE op_run SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'running';
    UPDATE folder_walk SET state = 'done' WHERE state IN ('reading', 'stuck');
END;

CREATE TRIGGER actor_run_closes_directives AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE directive SET state = 'lost', ended_at = NEW.ended_at,
           result = json_object('code', 'directive.lost', 'why', 'the worker ended before the order did')
     WHERE state = 'running';
END;

CREATE TRIGGER actor_run_closes_calls AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'link' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE call SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'sent';
END;

CREATE TRIGGER actor_run_closes_flows AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'egress' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE egress_flow SET state = 'lost', ended_at = NEW.ended_at WHERE ended_at IS NULL AND run_id IS NULL;
END;

CREATE TRIGGER actor_run_closes_lines AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'net' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE box_line SET up = 0, changed_at = NEW.ended_at WHERE up > 0;
END;

CREATE TRIGGER quarantine_stays BEFORE DELETE ON quarantine
WHEN OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'quarantine')
BEGIN
    SELECT RAISE(ABORT, 'quarantine.kept|a hold is lifted, not deleted');
END;

CREATE TRIGGER approval_not_held BEFORE INSERT ON approval
WHEN EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held'
                AND until_at > now_ms())
BEGIN
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held');
END;

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

CREATE TRIGGER remote_session_no_update BEFORE UPDATE ON remote_session
BEGIN
    SELECT RAISE(ABORT, 'remote.fixed|who began a session never changes');
END;

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

CREATE TRIGGER audit_base_moves BEFORE INSERT ON audit_base
BEGIN
    SELECT RAISE(ABORT, 'audit.base|the beginning of the audit only moves forward')
     WHERE NEW.seq <= (SELECT max(seq) FROM audit_base);
    SELECT RAISE(ABORT, 'audit.base|the audit begins at a row that is sealed')
     WHERE NOT EXISTS (SELECT 1 FROM audit_seal AS s JOIN audit AS a ON a.seq = s.seq
                        WHERE s.seq = NEW.seq AND s.head = NEW.head AND a.hash = NEW.head
                          AND seal_ok('audit', s.seal_text, s.signature) = 1);
    SELECT RAISE(ABORT, 'audit.base|rows stay until the tree over them is kept in whole tiles, and signed')
     WHERE NEW.seq > coalesce((SELECT (max(n) + 1) * 256 FROM audit_tile WHERE level = 0), 0)
        OR NEW.seq > coalesce((SELECT max(size) FROM audit_checkpoint), 0);
    SELECT RAISE(ABORT, 'audit.base|rows that were not exported stay')
     WHERE NEW.seq > (SELECT sent FROM audit_sink WHERE name = 'export');
    SELECT RAISE(ABORT, 'retention.young|rows stay for as long as the setting says, and the newest for ever')
     WHERE NOT EXISTS (SELECT 1 FROM retention_cutoff WHERE entity = 'audit')
        OR EXISTS (SELECT 1 FROM audit
                    WHERE seq > coalesce((SELECT max(seq) FROM audit_base), 0) AND seq <= NEW.seq
                      AND at >= (SELECT before FROM retention_cutoff WHERE entity = 'audit'));
    SELECT RAISE(ABORT, 'audit.seal|the seal is not of this machine')
     WHERE seal_ok('audit', json_array('audit_base', NEW.seq, lower(hex(NEW.head)), NEW.at),
                   NEW.signature) IS NOT 1;
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

CREATE VIEW audit_base_due AS
WITH now AS (
    SELECT c.before, b.seq AS base,
           max(b.seq + (SELECT value FROM setting WHERE name = 'retention.batch'),
               coalesce((SELECT min(seq) FROM audit_seal WHERE seq > b.seq), 0)) AS bound
      FROM retention_cutoff AS c, (SELECT coalesce(max(seq), 0) AS seq FROM audit_base) AS b
     WHERE c.entity = 'audit'),
     young AS (
    SELECT now.*, (SELECT min(seq) FROM audit
                    WHERE seq > now.base AND seq <= now.bound AND at >= now.before) AS seq
      FROM now)
SELECT s.seq, s.head
  FROM young JOIN audit_seal AS s ON s.seq > young.base AND s.seq <= young.bound
 WHERE s.seq <= (SELECT sent FROM audit_sink WHERE name = 'export')
   AND s.seq <= coalesce((SELECT (max(n) + 1) * 256 FROM audit_tile WHERE level = 0), 0)
   AND s.seq <= (SELECT max(size) FROM audit_checkpoint)
   AND (young.seq IS NULL OR s.seq < young.seq)
 ORDER BY s.seq DESC LIMIT 1;

CREATE TABLE directive_gone (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    expires_to INTEGER NOT NULL
) STRICT;

CREATE TRIGGER directive_gone_grows BEFORE UPDATE ON directive_gone
WHEN NEW.pairing_id IS NOT OLD.pairing_id OR NEW.expires_to < OLD.expires_to
BEGIN
    SELECT RAISE(ABORT, 'retention.mark|a mark only moves forward');
END;

CREATE TRIGGER directive_gone_stays BEFORE DELETE ON directive_gone
BEGIN
    SELECT RAISE(ABORT, 'retention.mark|a mark only moves forward');
END;

CREATE VIEW over_cutoff AS
SELECT substr(name, 11) AS entity, now_ms() - value * 86400000 AS before, value AS days
  FROM setting
 WHERE name IN ('retention.directive', 'retention.host_order', 'retention.host_terms', 'retention.quarantine')
   AND value > 0;

CREATE VIEW over_row (entity, id) AS
SELECT 'directive', d.id
  FROM directive AS d JOIN over_cutoff AS c ON c.entity = 'directive'
 WHERE d.ended_at < c.before AND d.expires_at < c.before AND d.id <> (SELECT max(id) FROM directive)
   AND NOT EXISTS (SELECT 1 FROM directive_untold AS u JOIN pairing AS p ON p.id = u.pairing_id
                    WHERE u.directive_id = d.id AND p.state <> 'revoked')
 UNION ALL
SELECT 'host_order', o.id
  FROM host_order AS o JOIN over_cutoff AS c ON c.entity = 'host_order'
 WHERE o.ended_at < c.before AND o.expires_at < c.before AND o.id <> (SELECT max(id) FROM host_order)
 UNION ALL
SELECT 'host_terms', t.id
  FROM host_terms AS t JOIN over_cutoff AS c ON c.entity = 'host_terms' JOIN host_box AS b ON b.id = t.box_id
 WHERE t.finished_at < c.before AND t.id <> (SELECT max(id) FROM host_terms)
   AND (t.state <> 'taken' OR b.state = 'gone'
     OR (t.terms IS NULL AND t.id <> (SELECT max(id) FROM host_terms
                                       WHERE box_id = t.box_id AND terms IS NULL AND state = 'taken')))
 UNION ALL
SELECT 'quarantine', q.id
  FROM quarantine AS q JOIN over_cutoff AS c ON c.entity = 'quarantine'
 WHERE q.ended_at < c.before AND q.id <> (SELECT max(id) FROM quarantine WHERE pairing_id = q.pairing_id);

CREATE VIEW over_due AS
SELECT entity, max(id) AS gone_to, count(*) AS n
  FROM (SELECT entity, id, row_number() OVER (PARTITION BY entity ORDER BY id) AS place FROM over_row)
 WHERE place <= (SELECT value FROM setting WHERE name = 'retention.batch')
 GROUP BY entity;

CREATE TRIGGER over_due_goes INSTEAD OF DELETE ON over_due
BEGIN
    INSERT INTO directive_gone (pairing_id, expires_to)
    SELECT pairing_id, max(expires_at) FROM directive
     WHERE OLD.entity = 'directive' AND id <= OLD.gone_to
       AND id IN (SELECT id FROM over_row WHERE entity = 'directive') GROUP BY pairing_id
        ON CONFLICT DO UPDATE SET expires_to = excluded.expires_to WHERE excluded.expires_to > expires_to;
    DELETE FROM contain_process
     WHERE OLD.entity = 'directive' AND directive_id <= OLD.gone_to
       AND directive_id IN (SELECT id FROM over_row WHERE entity = 'directive');
    DELETE FROM directive_untold
     WHERE OLD.entity = 'directive' AND directive_id <= OLD.gone_to
       AND directive_id IN (SELECT id FROM over_row WHERE entity = 'directive');
    DELETE FROM directive
     WHERE OLD.entity = 'directive' AND id <= OLD.gone_to AND id IN (SELECT id FROM over_row WHERE entity = 'directive');
    DELETE FROM host_order
     WHERE OLD.entity = 'host_order' AND id <= OLD.gone_to AND id IN (SELECT id FROM over_row WHERE entity = 'host_order');
    DELETE FROM host_terms
     WHERE OLD.entity = 'host_terms' AND id <= OLD.gone_to AND id IN (SELECT id FROM over_row WHERE entity = 'host_terms');
    DELETE FROM quarantine
     WHERE OLD.entity = 'quarantine' AND id <= OLD.gone_to AND id IN (SELECT id FROM over_row WHERE entity = 'quarantine');
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', OLD.entity, 'removed', '',
           json_object('rows', OLD.n, 'to', OLD.gone_to, 'days', days)
      FROM over_cutoff WHERE entity = OLD.entity;
END;

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

CREATE TRIGGER agent_scan_ends_with_worker AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE agent_scan SET state = iif(dropped, 'dropped', 'lost'), ended_at = NEW.ended_at
     WHERE ended_at IS NULL;
END;

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

CREATE TRIGGER schedule_audit_birth AFTER INSERT ON schedule
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'cron', NEW.cron, 'every_ms', NEW.every_ms, 'zone', NEW.zone,
                        'missed', NEW.missed, 'worker', NEW.worker, 'uid', NEW.by_uid,
                        'command', (SELECT group_concat(value, ' ') FROM json_each(NEW.argv))));
END;

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

CREATE VIEW schedules AS
SELECT s.id, s.name, coalesce(s.cron, CASE WHEN s.every_ms % 86400000 = 0 THEN 'every ' || (s.every_ms / 86400000) || 'd'
                              WHEN s.every_ms % 3600000 = 0 THEN 'every ' || (s.every_ms / 3600000) || 'h'
                              WHEN s.every_ms % 60000 = 0 THEN 'every ' || (s.every_ms / 60000) || 'm'
                              ELSE printf('every %gs', s.every_ms / 1000.0) END) AS "when",
       iif(s.cron IS NULL, '', s.zone) AS zone, s.state, s.next_at, f.state AS last, f.fired_at AS last_at, f.session,
       f.why, s.runs, s.skips
  FROM schedule AS s
  LEFT JOIN firing AS f ON f.id = (SELECT max(id) FROM firing WHERE schedule_id = s.id);

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
    SELECT RAISE(ABORT, 'worker.lane|what a worker reaches is a name in lower case of eight labels at most, an address or *, and a port')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.lane)
                    WHERE CASE WHEN type <> 'object' OR json_type(value, '$.suffix') IS NOT 'text'
                                 OR json_type(value, '$.port') IS NOT 'integer' THEN 1
                               ELSE value ->> 'port' NOT BETWEEN 0 AND 65535
                                 OR (value ->> 'suffix' <> '*' AND host_text(value ->> 'suffix') IS NOT value ->> 'suffix')
                                 OR host_tail(value ->> 'suffix', 8) IS NOT NULL END);
    SELECT RAISE(ABORT, 'worker.lane|on the lane is what a sandbox holds, which has no other network')
     WHERE NEW.lane IS NOT NULL AND (NEW.backend <> 'native' OR NEW.net <> 'none');
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
                        'paths', json(NEW.paths), 'lane', json(NEW.lane)));
END;

CREATE TRIGGER worker_audit_end AFTER DELETE ON worker
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'worker', OLD.name, 'dropped', '', '{}');
END;

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
     WHERE CASE WHEN NEW.worker = ''
                THEN NEW.lane IS NOT NULL OR (NEW.backend <> 'none' AND (NEW.net <> 'none' OR NEW.paths <> '[]'))
                ELSE NOT EXISTS (SELECT 1 FROM worker AS w WHERE w.name = NEW.worker AND w.backend = NEW.backend
                        AND w.net = NEW.net AND w.paths = NEW.paths AND w.lane IS NEW.lane) END;
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
        OR NEW.net IS NOT OLD.net OR NEW.paths IS NOT OLD.paths OR NEW.lane IS NOT OLD.lane;
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
                   AND r.net = iif(s.lane IS NULL, s.net, 'sockets') AND r.uid = s.by_uid))
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

CREATE TRIGGER attempt_ends_with_worker AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE attempt SET state = 'lost', outcome = 'lost', ended_at = NEW.ended_at
     WHERE state IN ('launching', 'running');
END;

CREATE TRIGGER attempt_ends_with_instance AFTER UPDATE OF ended_at ON instance
WHEN NEW.state IN ('ended', 'lost') AND OLD.state NOT IN ('ended', 'lost')
BEGIN
    UPDATE attempt SET state = 'lost', outcome = 'lost', ended_at = NEW.ended_at
     WHERE state IN ('launching', 'running');
END;

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
    INSERT INTO session (id, name, argv, cwd, by_uid, input, max_attempts, queued_at, not_before)
    SELECT (SELECT id FROM next_session_number), session, argv, folder, by_uid, 1, 1, NEW.asked_at, NEW.asked_at
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

CREATE TRIGGER attempt_reaches AFTER INSERT ON attempt WHEN NEW.sandbox_run_id IS NOT NULL
BEGIN
    INSERT INTO egress_rule (verdict, suffix, port, made_at, made_by_uid, run_id)
    SELECT DISTINCT 'allow', w.value ->> 'suffix', w.value ->> 'port', now_ms(), s.by_uid, NEW.sandbox_run_id
      FROM session AS s JOIN json_each(s.lane) AS w WHERE s.id = NEW.session_id;
END;

CREATE VIEW carried_run AS
SELECT r.id, r.uid FROM sandbox_run AS r
 WHERE r.ended_at IS NULL
   AND (EXISTS (SELECT 1 FROM program_reach WHERE run_id = r.id)
        OR EXISTS (SELECT 1 FROM attempt AS a JOIN session AS s ON s.id = a.session_id
                    WHERE a.sandbox_run_id = r.id AND s.lane IS NOT NULL));

CREATE VIEW session_flows AS
SELECT f.id, f.asked_at, s.name AS session, s.worker, a.n AS attempt, f.host || ':' || f.port AS what, f.state,
       f.dialled, f.up, f.down, f.code
  FROM egress_flow AS f JOIN attempt AS a ON a.sandbox_run_id = f.run_id JOIN session AS s ON s.id = a.session_id;

CREATE VIEW session_asks AS
SELECT s.name AS session, s.worker, f.host || ':' || f.port AS what, count(*) AS times, max(f.asked_at) AS last_at
  FROM egress_flow AS f JOIN attempt AS a ON a.sandbox_run_id = f.run_id JOIN session AS s ON s.id = a.session_id
 WHERE f.state = 'refused' AND f.code = 'egress.unknown' AND a.ended_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM egress_rule AS r
                    WHERE r.state = 'active' AND r.suffix = f.host AND r.port IN (0, f.port)
                      AND (r.run_id = f.run_id
                           OR (r.run_id IS NULL AND r.pairing_id IS NULL AND coalesce(r.uid, f.uid) = f.uid)))
 GROUP BY s.id, f.host, f.port;

CREATE TABLE session_number (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL CHECK (last >= 1)                    -- the highest of those that are gone
) STRICT;

CREATE TRIGGER session_number_grows BEFORE UPDATE ON session_number
BEGIN
    SELECT RAISE(ABORT, 'session.fixed|numbers of sessions that are gone only grow') WHERE NEW.last < OLD.last;
END;

CREATE TRIGGER session_number_stays BEFORE DELETE ON session_number
BEGIN
    SELECT RAISE(ABORT, 'session.fixed|numbers of sessions that are gone are kept');
END;

CREATE TRIGGER session_number_is_kept AFTER DELETE ON session
WHEN NOT EXISTS (SELECT 1 FROM session WHERE id > OLD.id)
BEGIN
    INSERT INTO session_number (one, last) VALUES (1, OLD.id)
        ON CONFLICT (one) DO UPDATE SET last = max(last, excluded.last);
END;

CREATE TRIGGER session_number_is_new AFTER INSERT ON session
WHEN NEW.id <= (SELECT last FROM session_number)
BEGIN
    SELECT RAISE(ABORT, 'session.fixed|the number of a session that is gone is nobody else''s');
END;

CREATE VIEW next_session_number AS
SELECT max(coalesce((SELECT max(id) FROM session), 0), coalesce((SELECT last FROM session_number), 0)) + 1 AS id;

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

CREATE TABLE session_typist (
    session_id INTEGER PRIMARY KEY REFERENCES session (id),
    typist     TEXT    NOT NULL CHECK (length(typist) = 32 AND typist NOT GLOB '*[^0-9a-f]*'),
    who        TEXT    NOT NULL CHECK (length(who) <= 256),
    n          INTEGER NOT NULL CHECK (n >= 0),                -- of the last piece that was taken
    until_at   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER session_typist_is_one BEFORE INSERT ON session_typist
BEGIN
    SELECT RAISE(ABORT, 'session.typist|a typist is 32 hex digits, and its pieces are numbered')
     WHERE length(NEW.typist) <> 32 OR NEW.typist GLOB '*[^0-9a-f]*' OR NEW.n < 0;
    SELECT RAISE(ABORT, 'session.over|this session is over')
     WHERE (SELECT finished_at IS NULL FROM session WHERE id = NEW.session_id) IS NOT 1;
    SELECT RAISE(ABORT, 'session.deaf|this session reads nothing')
     WHERE (SELECT terminal + input FROM session WHERE id = NEW.session_id) IS 0;
    SELECT RAISE(ABORT, 'remote.verb|this credential does not send to this session')
     WHERE acting() GLOB 'remote:*'
       AND NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN remote_reach AS r ON r.credential_id = a.id
                        WHERE r.session_id = NEW.session_id AND r.verb = 'send');
    SELECT RAISE(ABORT, 'session.typed|somebody else types to it')
     WHERE EXISTS (SELECT 1 FROM session_typist WHERE session_id = NEW.session_id AND until_at > now_ms()
                      AND (typist <> NEW.typist OR who <> NEW.who))
        OR EXISTS (SELECT 1 FROM lease AS l JOIN process AS p ON p.id = l.process_id
                    WHERE l.name = 'session/' || (SELECT name FROM session WHERE id = NEW.session_id)
                      AND l.expires_at > now_ms() AND process_alive(p.boot_id, p.pid, p.start_ticks));
END;

CREATE TRIGGER session_typist_in_order BEFORE UPDATE OF n ON session_typist
BEGIN
    SELECT RAISE(ABORT, 'session.piece|pieces of what is typed are numbered without a gap')
     WHERE NEW.typist IS OLD.typist AND NEW.n NOT IN (OLD.n, OLD.n + 1);
END;

CREATE TRIGGER session_typist_fixed BEFORE UPDATE OF session_id ON session_typist
BEGIN
    SELECT RAISE(ABORT, 'session.fixed|who types stays at the session');
END;

CREATE TRIGGER session_typist_audit_birth AFTER INSERT ON session_typist
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'session_typist', NEW.session_id, 'typing', '',
            json_object('name', (SELECT name FROM session WHERE id = NEW.session_id), 'who', NEW.who));
END;

CREATE TRIGGER session_typist_audit_move AFTER UPDATE OF typist ON session_typist
WHEN NEW.typist IS NOT OLD.typist
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'session_typist', NEW.session_id, 'typing', '',
            json_object('name', (SELECT name FROM session WHERE id = NEW.session_id), 'who', NEW.who));
END;

CREATE TRIGGER lease_typed_from_afar BEFORE INSERT ON lease
WHEN NEW.name GLOB 'session/*' AND NEW.process_id IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'session.typed|somebody else types to it')
     WHERE EXISTS (SELECT 1 FROM session_typist AS t JOIN session AS s ON s.id = t.session_id
                    WHERE s.name = substr(NEW.name, 9) AND t.until_at > now_ms());
END;

CREATE TRIGGER session_typist_leaves AFTER UPDATE OF state ON session WHEN NEW.finished_at IS NOT NULL
BEGIN
    DELETE FROM session_typist WHERE session_id = NEW.id;
END;

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

CREATE TRIGGER host_terms_stay BEFORE DELETE ON host_terms
BEGIN
    SELECT RAISE(ABORT, 'terms.kept|what a Host signed is history')
     WHERE (OLD.terms IS NOT NULL OR OLD.finished_at IS NULL)
       AND OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'host_terms');
END;

CREATE TRIGGER host_terms_end_with_link AFTER UPDATE OF ended_at ON actor_run
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

CREATE TRIGGER listen_is_one BEFORE INSERT ON listen
BEGIN
    SELECT RAISE(ABORT, 'listen.invalid|this is no address to listen on: * or an IP address, and a port')
     WHERE NEW.address <> '*'
       AND (endpoint_text(NEW.address || ':1') IS NOT NEW.address || ':1'
            OR (NEW.address NOT GLOB '[[]*' AND NEW.address GLOB '*[^0-9.]*'));
    SELECT RAISE(ABORT, 'listen.role|a Host listens for boxes, a box listens for Hosts')
     WHERE NEW.what IS NOT (SELECT CASE role WHEN 'host' THEN 'host' ELSE 'lane' END FROM box);
END;

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

CREATE VIEW tokens AS
SELECT t.id, t.name, t.state,
       (SELECT group_concat(suffix, ' ') FROM token_host WHERE token_id = t.id) AS hosts,
       t.header, t.scheme, t.placeholder, t.made_at, t.rotated_at, t.dropped_at,
       (SELECT max(at) FROM (SELECT max(asked_at) AS at FROM egress_request WHERE token_id = t.id
                             UNION ALL SELECT max(at) FROM program_lend WHERE token_id = t.id)) AS used_at
  FROM token AS t;

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
            AND NOT EXISTS (SELECT 1 FROM egress_rule
                             WHERE state = 'active' AND verdict = 'allow' AND pairing_id = NEW.pairing_id
                               AND address_bytes(suffix) = a.ip AND port IN (0, NEW.port))
           THEN refuse('egress.network', 'that is ' || c.why || ': only an anchored machine reaches it, '
                       || 'or one whose egress rules allow that address to this Host', 0)
           END
      FROM (SELECT ip, (SELECT iif(embed IS NULL, ip,
                                   CAST(x'00000000000000000000ffff' || substr(ip, embed + 1, 4) AS BLOB))
                          FROM address_class WHERE ip BETWEEN first AND last ORDER BY prio LIMIT 1) AS judged
              FROM (SELECT address_bytes(value) AS ip FROM json_each(NEW.addresses))) AS a
      LEFT JOIN address_class AS c
        ON c.prio = (SELECT min(prio) FROM address_class WHERE a.judged BETWEEN first AND last);
END;

CREATE TRIGGER approval_destination BEFORE INSERT ON approval
WHEN (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op) IS NOT NULL
BEGIN
    INSERT INTO declared_destination
    VALUES (NEW.pairing_id, NEW.op, (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op));
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

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('act.image_bytes', 10737418240, 'bytes', 1048576, 1099511627776, 'what an image of containers may have, as it comes in'),
    ('catalog.every_ms', 5000, 'ms', 0, 86400000, 'how often a box is asked for the ops that were added there, over time; ten asks may come together'),
    ('catalog.ops', 256, 'rows', 0, 10000, 'ops that were added at a box and that a Host takes'),
    ('catalog.retry_ms', 60000, 'ms', 0, 86400000, 'how long a box whose list was not taken is not asked for it again'),
    ('lock.shared', 16, 'rows', 1, 1000, 'how many may share a lock at once'),
    ('manifest.built', 33554432, 'bytes', 4096, 268435456, 'longest program that the builder of an added op makes: it is kept in the database'),
    ('parked.dial_ms', 25000, 'ms', 100, 600000, 'how long one endpoint of a Host may take to be reached, to park a connection there'),
    ('parked.handshake_ms', 20000, 'ms', 100, 600000, 'how long a Host may then take for TLS, and as long again to let it park'),
    ('parked.per_box', 64, 'rows', 1, 64, 'connections that a Host lets one box park'),
    ('parked.queue', 256, 'rows', 1, 65536, 'connections to the ports of boxes that wait for a parked one at once'),
    ('parked.refused_ms', 1000, 'ms', 100, 600000, 'how long one waits that carried nothing, or was lost while it was parked, before it is dialled anew'),
    ('parked.retry_ms', 3000, 'ms', 100, 600000, 'how long one waits that could not reach its Host, and up to half as long again'),
    ('parked.slots', 4, 'rows', 1, 64, 'connections that a box keeps parked with each Host, those in use among them'),
    ('parked.wait_ms', 10000, 'ms', 0, 600000, 'how long a connection to the port of a box waits for a parked one'),
    ('retention.directive', 365, 'days', 0, 36500, 'how long orders of Hosts are kept once they are over, with the processes that they were about; 0: for ever'),
    ('retention.host_order', 365, 'days', 0, 36500, 'how long orders of this Host are kept once they are over; 0: for ever'),
    ('retention.host_terms', 365, 'days', 0, 36500, 'how long terms that no box took, or that a box took that is gone, are kept; 0: for ever'),
    ('retention.quarantine', 365, 'days', 0, 36500, 'how long holds of Hosts are kept once they are over; the newest of each stays; 0: for ever'),
    ('session.ask_ms', 0, 'ms', 0, 600000, 'how long what a session wants of the internet, and no rule speaks of, waits for bastion session allow; 0: it is refused at once'),
    ('session.typist_ms', 15000, 'ms', 1000, 600000, 'how long who types from elsewhere keeps the keyboard without a word');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('act.credential', 3, 501, 'have a person add that token: bastion token add'),
    ('act.large', 2, 422, 'have a person raise the setting act.image_bytes'),
    ('catalog.size', 3, 502, 'raise the setting catalog.ops, or look at what was added at the box'),
    ('egress.ungranted', 126, 403, 'ask for it on the Host: bastion on BOX egress:reach HOST PORT --anew'),
    ('manifest.build', 3, 422, 'see what the builder said; try it with bastion sandbox try'),
    ('manifest.builder', 2, 422, 'name it as ["/usr/bin/cc", "-O2", "-o", "$out", "$in"]'),
    ('manifest.credential', 2, 422, 'see bastion token ls for the tokens that there are, and what each is for'),
    ('manifest.destination', 2, 422, 'name each as it is to be reached: "api.example.com:443"'),
    ('op.lane', 3, 503, 'see bastion status for whether the actor egress runs; then ask again'),
    ('op.owner', 126, 403, 'have the Host that asked for it take it back'),
    ('op.place', 3, 501, 'mount a tmpfs at /dev/shm, which is where credentials of runs lie'),
    ('parked.busy', 75, 503, 'try again, or have the box keep more: bastion settings set parked.slots'),
    ('parked.early', 1, 500, 'this is a fault in bastion: please report it'),
    ('parked.fixed', 126, 409, 'see bastion host egress'),
    ('parked.lane', 75, 503, 'see whether the daemon of the box is well: bastion doctor'),
    ('parked.near', 126, 409, 'use the box''s own socket: bastion egress --help'),
    ('parked.none', 75, 503, 'a person at the box grants it: bastion on BOX egress:reach HOST PORT'),
    ('parked.port', 2, 409, 'choose another one, or see bastion host egress'),
    ('parked.slots', 75, 429, 'see the setting parked.slots'),
    ('parked.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('parked.unserved', 126, 403, 'see bastion pairings and bastion grants'),
    ('run.within', 2, 409, 'leave out what the message names, or start it outside'),
    ('session.piece', 1, 409, 'attach again: what was said is kept'),
    ('session.typed', 75, 409, 'look on, or try again when they have left'),
    ('session.typist', 2, 422, 'give ?typist= 32 hex digits, and n= the number of the piece'),
    ('session.unlaned', 2, 409, 'add its worker with --net lane: bastion worker add'),
    ('worker.lane', 2, 422, 'give --allow HOST or HOST:PORT, and leave out --net host and --backend none');

UPDATE refusal SET advice = 'have the anchor approve this Host for egress, or ask for a grant: bastion on BOX egress:reach HOST PORT' WHERE code = 'egress.capability';
UPDATE refusal SET advice = 'add it again: this was refused by an older bastion' WHERE code = 'manifest.later';
UPDATE refusal SET advice = 'see bastion egress presets for their names' WHERE code = 'run.preset';
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('egress_parked', '', 'dialling'),
    ('egress_parked', 'dialling', 'dialling'),
    ('egress_parked', 'dialling', 'parked'),
    ('egress_parked', 'dialling', 'serving'),
    ('egress_parked', 'dialling', 'waiting'),
    ('egress_parked', 'parked', 'dialling'),
    ('egress_parked', 'parked', 'serving'),
    ('egress_parked', 'parked', 'waiting'),
    ('egress_parked', 'serving', 'dialling'),
    ('egress_parked', 'serving', 'waiting'),
    ('egress_parked', 'waiting', 'dialling');

INSERT INTO op (name, usage, summary, class) VALUES
    ('container:pull', 'IMAGE', 'pull an image of containers into root''s storage; dry: what it is, and whether it is here', 'action'),
    ('egress:reach', 'HOST PORT', 'reach that place on the internet through this machine, one connection a use', 'egress'),
    ('op:list', '', 'the ops that were added here, with what they take', 'own');

INSERT INTO op_param (op, position, name, type, needed, low, high, pattern, fallback, doc) VALUES
    ('container:pull', 1, 'image', 'string', 1, 3, 384, NULL, NULL, 'REGISTRY/PATH:TAG, or REGISTRY/PATH@sha256:DIGEST'),
    ('egress:reach', 1, 'host', 'string', 1, 1, 253, NULL, NULL, 'the name or address of a server'),
    ('egress:reach', 2, 'port', 'integer', 1, 1, 65535, NULL, NULL, 'its TCP port');

INSERT INTO op_result (op, schema) VALUES
    ('container:pull', '{"type":"object","properties":{"image":{"type":"string"},"dry":{"type":"boolean"},"digest":{"type":"string","description":"of what the registry has under that name"},"bytes":{"type":"integer","description":"of the image, compressed"},"layers":{"type":"integer"},"here":{"type":"boolean","description":"it was here before"}},"required":["image","dry","digest","bytes","layers","here"]}'),
    ('egress:reach', '{"type":"object","properties":{"host":{"type":"string"},"port":{"type":"integer"}},"required":["host","port"]}'),
    ('op:list', '{"type":"object","properties":{"ops":{"type":"integer","description":"lines of the text beside this, a JSON object each"},"digest":{"type":"string","description":"SHA-256 of that text"}},"required":["ops","digest"]}');

INSERT INTO verb (name, op, tool, dials, declares) VALUES
    ('container.pull', 'container:pull', 'skopeo', 1, 0);
