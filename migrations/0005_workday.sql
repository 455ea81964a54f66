-- Workers on a lane, models asked by name, manifests that reach out; states that end are kept their time and no longer.

DROP TRIGGER op_manifest_form;
DROP TRIGGER added_op_ask_is_held_to_its_params;
DROP TRIGGER op_cancel_is_of_a_live_run;
DROP TRIGGER op_cancel_takes_back;
DROP TRIGGER op_cancel_stays;
DROP TRIGGER op_cancel_no_update;
DROP TRIGGER egress_flow_ruled;
DROP TRIGGER egress_flow_vetted;
DROP TRIGGER token_born;
DROP VIEW egress_ruling;
DROP VIEW tokens;

ALTER TABLE op_cancel ADD COLUMN pairing_id INTEGER REFERENCES pairing (id);

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

CREATE VIEW approval_reach AS
SELECT a.id, 'The op was added with: '
       || coalesce('it reaches ' || (SELECT group_concat(value, ', ') FROM json_each(m.manifest, '$.destinations')), 'it reaches nothing')
       || coalesce('; it gets the token ' || (m.manifest ->> '$.credential'), '') || '.' AS says
  FROM approval AS a JOIN op_manifest AS m ON m.name = a.op AND m.state = 'active'
 WHERE json_array_length(m.manifest, '$.destinations') > 0 OR m.manifest ->> '$.credential' IS NOT NULL;

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

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('manifest.built', 33554432, 'bytes', 4096, 268435456, 'longest program that the builder of an added op makes: it is kept in the database');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('act.credential', 3, 501, 'have a person add that token: bastion token add'),
    ('manifest.build', 3, 422, 'see what the builder said; try it with bastion sandbox try'),
    ('manifest.builder', 2, 422, 'name it as ["/usr/bin/cc", "-O2", "-o", "$out", "$in"]'),
    ('manifest.credential', 2, 422, 'see bastion token ls for the tokens that there are, and what each is for'),
    ('manifest.destination', 2, 422, 'name each as it is to be reached: "api.example.com:443"'),
    ('op.lane', 3, 503, 'see bastion status for whether the actor egress runs; then ask again'),
    ('op.owner', 126, 403, 'have the Host that asked for it take it back'),
    ('op.place', 3, 501, 'mount a tmpfs at /dev/shm, which is where credentials of runs lie');

DELETE FROM refusal WHERE code = 'manifest.later';
