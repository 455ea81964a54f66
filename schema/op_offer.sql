-- op_offer.sql: ops that persons added at a box, as the box tells its Hosts, and as a Host keeps them.

-- At the box: each added op that holds, on a line as a Host is told it. Not what it runs: that is the box's own.
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

-- What a beat tells of them: whether a Host has to ask anew.
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

-- At the Host: which list a box told of last, and which one is kept.
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

-- Ops that were added at a box. All of it is the box's word: bounded, of letters, and shown to models as a quotation.
CREATE TABLE box_op (
    box_id  INTEGER NOT NULL REFERENCES host_box (id),
    op      TEXT    NOT NULL CHECK (op GLOB 'run:[a-z]*' AND substr(op, 5) NOT GLOB '*[^a-z0-9_]*' AND length(op) <= 44),
    summary TEXT    NOT NULL CHECK (length(summary) BETWEEN 1 AND 128),
    params  TEXT    NOT NULL CHECK (json_valid(params) AND json_type(params) = 'array'),
    PRIMARY KEY (box_id, op)
) STRICT, WITHOUT ROWID;

-- What no text for a person or a model holds: control characters, ends of lines, what turns or hides text.
CREATE VIEW unclean AS
SELECT '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || char(173) || char(1564) || char(6158)
    || char(8203) || '-' || char(8207) || char(8232) || '-' || char(8238) || char(8288) || '-' || char(8303)
    || char(65279) || char(65529) || '-' || char(65531) || char(917504) || '-' || char(917631) || ']*' AS pattern;

-- An answer to op:list: a line for each op, and what the box says of all.
CREATE VIEW catalog_line AS
SELECT call_id, seq, frame ->> '$.o' AS text,
       CASE WHEN json_valid(frame ->> '$.o')
            THEN CASE WHEN json_type(frame ->> '$.o') = 'object' AND instr(frame ->> '$.o', '\u0000') = 0
                      THEN frame ->> '$.o' END END AS entry
  FROM call_output WHERE json_type(frame, '$.o') = 'text';

-- Its params, one a row; holds: it is in the form. (What is no object is not looked into.)
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

-- One op of the list that a box sent, as far as it can be believed.
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

-- Whether such an answer is taken as a whole, and why not.
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

-- Which box has to be asked: not all the time, whatever its beats say.
CREATE VIEW catalog_due AS
SELECT k.box_id FROM box_catalog AS k JOIN host_box AS b ON b.id = k.box_id
 WHERE b.state = 'active' AND k.told IS NOT k.digest
   AND k.due_at <= now_ms()
   AND NOT EXISTS (SELECT 1 FROM call WHERE state IN ('asked', 'sent') AND box_id = k.box_id AND op = 'op:list')
   AND (SELECT count(*) FROM call WHERE state IN ('asked', 'sent')) < (SELECT value FROM setting WHERE name = 'call.live')
   AND EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');

-- (Nobody is asked for a list of nothing.)
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
    SELECT box_id, 'op:list', '[]', nonce(), now_ms() FROM catalog_due WHERE box_id = NEW.box_id;
END;

-- Ten may come together; over time there is one in catalog.every_ms (GCRA).
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

-- Apart from the trigger above, which every ask enters: a trigger costs what all of it would use.
CREATE VIEW catalog_taken AS SELECT id AS call_id, box_id FROM call WHERE op = 'op:list';

-- Taken whole or not at all; an op in it that is not in the form hides no other.
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
    SELECT box_id, 'op:list', '[]', nonce(), now_ms() FROM catalog_due WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER host_box_gone_with_its_ops AFTER UPDATE OF state ON host_box WHEN NEW.state = 'gone' AND OLD.state <> 'gone'
BEGIN
    DELETE FROM box_op WHERE box_id = NEW.id;
    DELETE FROM box_catalog WHERE box_id = NEW.id;
END;

-- What each box can be asked: of 0, what every bastion has; else what was added there.
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
