-- Workers on a lane, models asked by name, manifests that reach out; states that end are kept their time and no longer.

DROP TRIGGER audit_dropped;
DROP TRIGGER audit_sink_forward;
DROP TRIGGER audit_sink_sent;
DROP TRIGGER audit_base_moves;
DROP TRIGGER contain_process_no_delete;
DROP TRIGGER own_ask_is_answered;
DROP TRIGGER op_manifest_form;
DROP TRIGGER added_op_ask_is_held_to_its_params;
DROP TRIGGER host_order_stays;
DROP TRIGGER directive_is_the_hosts;
DROP TRIGGER directive_stays;
DROP TRIGGER quarantine_stays;
DROP TRIGGER audit_base_audit;
DROP TRIGGER audit_sink_exported;
DROP TRIGGER host_terms_stay;
DROP TRIGGER host_beat_born;
DROP TRIGGER host_beat_no_update;
DROP TRIGGER host_beat_does;
DROP TRIGGER enforces_fixed;
DROP TRIGGER enforces_stays;
DROP TRIGGER box_line_beats_onwards;
DROP TRIGGER agent_scan_born;
DROP TRIGGER restore_takes_back;
DROP TRIGGER listen_is_one;
DROP VIEW audit_outbox;
DROP VIEW audit_base_due;
DROP VIEW beat;
DROP VIEW op_input;
DROP VIEW mcp_tool;
DROP VIEW added_op_param;
DROP VIEW audit_log_line;
DROP VIEW box_beats;
DROP VIEW box_lines;
DROP VIEW host_order_due;
DROP VIEW agent_scan_due;
DROP VIEW agent_beat;
DROP VIEW box_agents;
DROP VIEW box_tool_servers;
DROP VIEW boxes;

ALTER TABLE audit_sink ADD COLUMN kept INTEGER NOT NULL DEFAULT 0 CHECK (kept >= 0);
UPDATE audit_sink SET kept = (SELECT coalesce(max(seq), 0) FROM audit) WHERE name = 'system-log';

CREATE TRIGGER audit_sink_forward BEFORE UPDATE ON audit_sink
BEGIN
    SELECT RAISE(ABORT, 'audit.sink|a copy of the audit only goes forward, and no further than the audit')
     WHERE NEW.name IS NOT OLD.name OR NEW.sent < OLD.sent
        OR NEW.sent > (SELECT coalesce(max(seq), 0) FROM audit);
END;

CREATE TRIGGER audit_sink_sent AFTER UPDATE ON audit_sink
BEGIN
    DELETE FROM audit_gap WHERE last < NEW.sent;
END;

CREATE TRIGGER audit_dropped AFTER INSERT ON audit
WHEN NEW.seq - (SELECT sent FROM audit_sink WHERE name = 'system-log')
     - (SELECT coalesce(sum(last - first + 1), 0) FROM audit_gap)
   > (SELECT value FROM setting WHERE name = 'audit.outbox')
BEGIN
    INSERT INTO audit_gap (first, last) SELECT NEW.seq, NEW.seq
     WHERE NOT EXISTS (SELECT 1 FROM audit_gap WHERE last = NEW.seq - 1);
    UPDATE audit_gap SET last = NEW.seq WHERE last = NEW.seq - 1;
END;

CREATE VIEW audit_outbox AS
SELECT a.seq,
       coalesce((SELECT iif(g.last = a.seq - 1, g.last - g.first + 1, 0) FROM audit_gap AS g
                  WHERE g.first < a.seq ORDER BY g.first DESC LIMIT 1), 0) AS dropped_before
  FROM audit AS a
 WHERE a.seq > (SELECT sent FROM audit_sink WHERE name = 'system-log')
   AND a.seq > coalesce((SELECT g.last FROM audit_gap AS g WHERE g.first <= a.seq
                          ORDER BY g.first DESC LIMIT 1), 0);

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

CREATE TRIGGER contain_process_no_delete BEFORE DELETE ON contain_process
WHEN OLD.directive_id NOT IN (SELECT id FROM over_row WHERE entity = 'directive')
BEGIN
    SELECT RAISE(ABORT, 'contain.order|what was stopped is history');
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
                                    WHEN 'in' THEN type = 'array' AND json_array_length(value) BETWEEN 1 AND 32
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
       CASE WHEN json_valid(frame ->> '$.o') AND json_type(frame ->> '$.o') = 'object' AND instr(frame ->> '$.o', '\u0000') = 0
            THEN frame ->> '$.o' END AS entry
  FROM call_output WHERE json_type(frame, '$.o') = 'text';

CREATE VIEW catalog_param AS
SELECT l.call_id, l.seq, p.key AS at, p.value ->> '$.name' AS name, coalesce(p.value ->> '$.needed', 1) AS needed,
       CASE WHEN p.type <> 'object' THEN 0
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
  FROM catalog_line AS l JOIN json_each(l.entry, '$.params') AS p;

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
    SELECT NEW.box_id, e.op, e.summary, e.params FROM catalog_entry AS e
     WHERE e.call_id = NEW.call_id
       AND (SELECT why IS NULL FROM box_catalog WHERE box_id = NEW.box_id)
       AND NOT EXISTS (SELECT 1 FROM catalog_entry AS o WHERE o.call_id = e.call_id AND o.op = e.op AND o.seq < e.seq);
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

CREATE TRIGGER quarantine_stays BEFORE DELETE ON quarantine
WHEN OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'quarantine')
BEGIN
    SELECT RAISE(ABORT, 'quarantine.kept|a hold is lifted, not deleted');
END;

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

CREATE TRIGGER host_terms_stay BEFORE DELETE ON host_terms
BEGIN
    SELECT RAISE(ABORT, 'terms.kept|what a Host signed is history')
     WHERE (OLD.terms IS NOT NULL OR OLD.finished_at IS NULL)
       AND OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'host_terms');
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

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('catalog.every_ms', 5000, 'ms', 0, 86400000, 'how often a box is asked for the ops that were added there, over time; ten asks may come together'),
    ('catalog.ops', 256, 'rows', 0, 10000, 'ops that were added at a box and that a Host takes'),
    ('catalog.retry_ms', 60000, 'ms', 0, 86400000, 'how long a box whose list was not taken is not asked for it again'),
    ('retention.directive', 365, 'days', 0, 36500, 'how long orders of Hosts are kept once they are over, with the processes that they were about; 0: for ever'),
    ('retention.host_order', 365, 'days', 0, 36500, 'how long orders of this Host are kept once they are over; 0: for ever'),
    ('retention.host_terms', 365, 'days', 0, 36500, 'how long terms that no box took, or that a box took that is gone, are kept; 0: for ever'),
    ('retention.quarantine', 365, 'days', 0, 36500, 'how long holds of Hosts are kept once they are over; the newest of each stays; 0: for ever');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('catalog.size', 3, 502, 'raise the setting catalog.ops, or look at what was added at the box');

INSERT INTO op (name, usage, summary, class) VALUES
    ('op:list', '', 'the ops that were added here, with what they take', 'own');

INSERT INTO op_result (op, schema) VALUES
    ('op:list', '{"type":"object","properties":{"ops":{"type":"integer","description":"lines of the text beside this, a JSON object each"},"digest":{"type":"string","description":"SHA-256 of that text"}},"required":["ops","digest"]}');
