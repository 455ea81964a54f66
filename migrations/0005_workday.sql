-- Workers on a lane, models asked by name, manifests that reach out; states that end are kept their time and no longer.

DROP TRIGGER op_manifest_form;
DROP TRIGGER added_op_ask_is_held_to_its_params;
DROP TRIGGER op_cancel_is_of_a_live_run;
DROP TRIGGER op_cancel_takes_back;
DROP TRIGGER op_cancel_stays;
DROP TRIGGER op_cancel_no_update;
DROP TRIGGER actor_run_closes;
DROP TRIGGER actor_run_closes_directives;
DROP TRIGGER remote_session_no_update;
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
DROP TRIGGER egress_flow_ruled;
DROP TRIGGER egress_flow_vetted;
DROP TRIGGER decision_passes_gates;
DROP TRIGGER remote_listen_is_one;
DROP TRIGGER remote_credential_born;
DROP TRIGGER remote_bundle_is_allowed;
DROP TRIGGER remote_bundle_grows;
DROP VIEW egress_ruling;
DROP VIEW gate_says;
DROP VIEW decision_made;
DROP VIEW remote_reach;
DROP VIEW schedule_due;
DROP VIEW schedules;
DROP VIEW next_session;
DROP VIEW sessions;
DROP VIEW remote_bundle_run;
DROP VIEW remote_bundles;
DROP VIEW remote_credentials;

ALTER TABLE op_cancel ADD COLUMN pairing_id INTEGER REFERENCES pairing (id);
ALTER TABLE worker ADD COLUMN lane         TEXT    CHECK (lane IS NULL OR (json_valid(lane) AND json_type(lane) = 'array'
                         AND json_array_length(lane) <= 64 AND length(lane) <= 16384 AND backend = 'native' AND net = 'none'));
ALTER TABLE session ADD COLUMN lane         TEXT    CHECK (lane IS NULL OR (json_valid(lane) AND backend = 'native' AND net = 'none'));

CREATE VIEW egress_ruling AS
SELECT f.id,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied'
                    WHEN EXISTS (SELECT 1 FROM program_reach WHERE run_id = f.run_id)
                    THEN (SELECT iif(count(*) = 0, 'unknown', NULL) FROM program_reach
                           WHERE run_id = f.run_id AND host = f.host AND port = f.port)
                    WHEN count(*) = 0 THEN 'unknown' END
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

CREATE TRIGGER op_manifest_form BEFORE INSERT ON op_manifest
BEGIN
    SELECT RAISE(ABORT, 'manifest.form|a manifest is a JSON object of at most 16384 bytes')
     WHERE CASE WHEN json_valid(NEW.manifest)
                THEN json_type(NEW.manifest) <> 'object' OR NEW.manifest <> json(NEW.manifest)
                  OR length(CAST(NEW.manifest AS BLOB)) > 16384 OR instr(NEW.manifest, '\u0000') > 0
                ELSE 1 END;
    SELECT RAISE(ABORT, 'manifest.member|a manifest has name, summary, program, interpreter, params, reads, writes, destinations, credential, verbs and time_ms, each at most once')
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
    SELECT RAISE(ABORT, 'manifest.later|a builder is not in this version: build the program beforehand, and add what was built')
     WHERE json_type(NEW.manifest, '$.builder') IS NOT NULL;
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
                    OR CASE WHEN p.pattern IS NULL THEN a.value GLOB '-*'
                            ELSE bound_holds('like', p.pattern, a.value) IS NOT 1 END END);
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

CREATE TRIGGER agent_scan_ends_with_worker AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE agent_scan SET state = iif(dropped, 'dropped', 'lost'), ended_at = NEW.ended_at
     WHERE ended_at IS NULL;
END;

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

CREATE TRIGGER attempt_ends_with_worker AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
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

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('session.typist_ms', 15000, 'ms', 1000, 600000, 'how long who types from elsewhere keeps the keyboard without a word');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('act.credential', 3, 501, 'have a person add that token: bastion token add'),
    ('manifest.credential', 2, 422, 'see bastion token ls for the tokens that there are, and what each is for'),
    ('manifest.destination', 2, 422, 'name each as it is to be reached: "api.example.com:443"'),
    ('op.lane', 3, 503, 'see bastion doctor for what the internet lane lacks'),
    ('op.owner', 126, 403, 'have the Host that asked for it take it back'),
    ('op.place', 3, 501, 'mount a tmpfs at /dev/shm, which is where credentials of runs lie'),
    ('session.piece', 1, 409, 'attach again: what was said is kept'),
    ('session.typed', 75, 409, 'look on, or try again when they have left'),
    ('session.typist', 2, 422, 'give ?typist= 32 hex digits, and n= the number of the piece'),
    ('session.unlaned', 2, 409, 'add its worker with --net lane: bastion worker add'),
    ('worker.lane', 2, 422, 'give --allow HOST or HOST:PORT, and leave out --net host and --backend none');

UPDATE refusal SET advice = 'leave it out' WHERE code = 'manifest.later';
