-- op_manifest.sql: ops that a person adds: what runs, on what, on whose word; each run of one; runs that are taken back.

-- An op that a person added, as it was signed. The manifest is {"name": "run:NAME", "summary": text,
--   "program": path, "interpreter": path or "none", "params": [{"name", "type", "needed", "min", "max", "like", "in",
--   "doc"}, …], "reads": [path, …], "writes": [path, …], "destinations": ["HOST:PORT", …], "credential": name of a
--   token, "builder": [path, word, …], "verbs": [[op, word, …], …], "time_ms": n}.
-- With interpreter none the op is its verbs, and has no program. What was signed is what runs: the digests are of the files'
-- bytes, and the row is under the machine's seal.
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

-- (A text is looked into where it is JSON alone, so that nothing else says why it is refused.)
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

-- It stands in the catalog from now on; the row there stays, since history names it.
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

-- The newest run as an op was added: it, and those before it, were asked for of another program, or of none.
CREATE TABLE op_manifest_after (
    manifest_id INTEGER PRIMARY KEY REFERENCES op_manifest (id),
    run_id      INTEGER NOT NULL CHECK (run_id >= 0)
) STRICT;

CREATE TRIGGER op_manifest_is_after AFTER INSERT ON op_manifest
BEGIN
    INSERT INTO op_manifest_after (manifest_id, run_id) SELECT NEW.id, coalesce(max(id), 0) FROM op_run;
END;

CREATE TRIGGER op_manifest_after_fixed BEFORE UPDATE ON op_manifest_after
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what was signed never changes');
END;

CREATE TRIGGER op_manifest_after_stays BEFORE DELETE ON op_manifest_after
BEGIN
    SELECT RAISE(ABORT, 'manifest.kept|an added op is dropped, not deleted');
END;

-- Whose secret the program of an op gets, and whether the op reaches a host that this token is not for: who holds a
-- secret may send it wherever it gets to.
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

-- What the builder of a manifest made of its program, as it was added: this runs, by the digest that is under the seal.
-- Its bytes go with the op.
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

-- What was approved was approved of what ran then: with another program, or none, nothing of it is held.
CREATE TRIGGER op_manifest_ends AFTER UPDATE OF state ON op_manifest
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'the op was ' || NEW.state
     WHERE op = NEW.name AND state = 'active';
    UPDATE approval SET state = 'expired', decided_at = now_ms() WHERE op = NEW.name AND state = 'pending';
    -- What waits was paid for by a grant that may be spent by now.
    UPDATE op_run SET state = 'cancelled', finished_at = now_ms()
     WHERE op = NEW.name AND state = 'queued' AND finished_at IS NULL;
    UPDATE op_probe SET works = 0, why = 'it was ' || NEW.state, probed_at = now_ms() WHERE op = NEW.name;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'op_manifest', NEW.id, NEW.state, '', json_object('op', NEW.name, 'reason', NEW.end_reason));
END;

-- A restored machine is an older self: what it would run is signed anew.
CREATE TRIGGER op_manifest_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE op_manifest SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored' WHERE state = 'active';
END;

-- Added ops, and whether each holds: under its seal, on the word of a factor that is trusted still.
CREATE VIEW added_ops AS
SELECT m.name, m.id, m.manifest ->> '$.summary' AS summary, m.manifest ->> '$.program' AS program,
       CASE WHEN seal_ok('manifest', m.seal_text, m.seal) IS NOT 1 THEN 'changed by another tool'
            WHEN f.state <> 'active' THEN 'its signer is not trusted any more' ELSE 'yes' END AS holds,
       f.label AS signed_with, m.by_uid, m.created_at, m.manifest, m.program_sha256, m.interpreter_sha256
  FROM op_manifest AS m JOIN factor AS f ON f.id = m.factor_id WHERE m.state = 'active';

-- Words that are not what the params say: their number, one that is no such text, number or pattern. A text that
-- begins with a dash could pose as an option of the program: only a pattern, or being named, lets it in.
CREATE VIEW added_op_param AS
SELECT m.name AS op, p.key AS at, p.value ->> '$.type' AS type, coalesce(p.value ->> '$.needed', 1) AS needed,
       coalesce(p.value ->> '$.min', 1) AS low, coalesce(p.value ->> '$.max', 4095) AS high, p.value ->> '$.like' AS pattern,
       p.value -> '$.in' AS choices
  FROM op_manifest AS m JOIN json_each(m.manifest, '$.params') AS p WHERE m.state = 'active';

-- Words that are put to an added op, before they become a run or a question.
CREATE VIEW added_op_ask AS SELECT name AS op, '[]' AS args FROM op_manifest WHERE false;

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

-- (What a machine lacks for one of its verbs is refused before anything is spent.)
CREATE TRIGGER op_run_of_added_op INSTEAD OF INSERT ON op_run_apart WHEN NEW.op GLOB 'run:*'
BEGIN
    INSERT INTO added_op_ask (op, args) VALUES (NEW.op, NEW.args);
    SELECT refuse('act.tool', s.why, 0)
      FROM op_manifest AS m JOIN json_each(m.manifest, '$.verbs') AS v
      JOIN op_probe AS s ON s.op = v.value ->> 0
     WHERE m.name = NEW.op AND m.state = 'active' AND NOT s.works;
END;

-- What an op is granted with beside its words, since its manifest says so.
CREATE VIEW added_op_grants AS
SELECT name AS op, iif(json_array_length(manifest, '$.destinations') > 0, manifest -> '$.destinations', NULL) AS reaches,
       manifest ->> '$.credential' AS credential
  FROM op_manifest WHERE state = 'active';

CREATE TRIGGER approval_of_added_op BEFORE INSERT ON approval WHEN NEW.op GLOB 'run:*' AND json_valid(NEW.args)
BEGIN
    INSERT INTO added_op_ask (op, args) VALUES (NEW.op, NEW.args);
END;

-- What a person signs is all that he grants.
CREATE TRIGGER approval_says_what_is_lent BEFORE INSERT ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.terms|the terms do not name what this op reaches, and with whose secret')
     WHERE NEW.reaches IS NOT (SELECT reaches FROM added_op_grants WHERE op = NEW.op)
        OR NEW.credential IS NOT (SELECT credential FROM added_op_grants WHERE op = NEW.op);
END;

-- The same in words, for who is asked.
CREATE VIEW approval_reach AS
SELECT id, 'The op was added with: '
       || coalesce('it reaches ' || (SELECT group_concat(value, ', ') FROM json_each(reaches)), 'it reaches nothing')
       || coalesce('; it gets the token ' || credential, '') || '.' AS says
  FROM approval WHERE reaches IS NOT NULL OR credential IS NOT NULL;

-- A command as root is approved in its exact words, and runs where the worker is root.
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

CREATE TRIGGER op_run_of_root INSTEAD OF INSERT ON op_run_apart WHEN NEW.op = 'root:exec'
BEGIN
    INSERT INTO root_ask (args, bounds) VALUES (NEW.args, NULL);
END;

CREATE TRIGGER approval_of_root BEFORE INSERT ON approval WHEN NEW.op = 'root:exec' AND json_valid(NEW.args)
BEGIN
    INSERT INTO root_ask (args, bounds) VALUES (NEW.args, iif(json_valid(NEW.bounds), NEW.bounds, NULL));
END;

-- The row that lets a program start: which manifest it is of (none: a command as root, on its grant), and, once it is
-- known, which sandbox it is in.
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
    -- (By numbers: two of one millisecond are told apart, and a clock may be set back.)
    SELECT RAISE(ABORT, 'manifest.replaced|this op was added anew after this run was asked for')
      FROM op_manifest_after WHERE manifest_id = NEW.manifest_id AND run_id >= NEW.op_run_id;
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

-- The token that a run was lent: the row is there before the token is opened. A dry run gets none.
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

-- Where the program of a run reaches, of all there is: what its manifest says. A person signed that, so no rule of the
-- lane has to allow it; what a rule denies stays denied, and nothing but public addresses is dialled (egress_ruling).
CREATE TABLE program_reach (
    run_id INTEGER NOT NULL REFERENCES sandbox_run (id),
    host   TEXT    NOT NULL CHECK (length(host) BETWEEN 1 AND 253),    -- exactly, as host_text() spells it
    port   INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    PRIMARY KEY (run_id, host, port)
) STRICT, WITHOUT ROWID;

-- What a program does out there no dry run takes back: that one reaches nothing.
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

-- What programs of added ops reached, or wanted to.
CREATE VIEW program_flows AS
SELECT f.id, f.asked_at, p.host_name AS host, r.op, r.id AS run, f.host || ':' || f.port AS what, f.state, f.dialled,
       f.up, f.down, f.code
  FROM egress_flow AS f JOIN program_run AS b ON b.sandbox_run_id = f.run_id
  JOIN op_run AS r ON r.id = b.op_run_id JOIN pairing AS p ON p.id = r.pairing_id;

-- A run that whoever asked for it takes back. One that waits is over with that; one that runs is stopped by the worker.
CREATE TABLE op_cancel (
    op_run_id  INTEGER PRIMARY KEY REFERENCES op_run (id),
    asked_at   INTEGER NOT NULL,
    pairing_id INTEGER REFERENCES pairing (id)                 -- of the Host that took it back
) STRICT;

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
