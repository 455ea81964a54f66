-- retention.sql: how long rows are kept. What is behind a mark goes, and nothing else can.

-- Up to where a table's rows are gone. The setting retention.ENTITY says after how many days they may go.
CREATE TABLE retention (
    entity  TEXT    PRIMARY KEY CHECK (entity IN ('actor_run', 'audit', 'call_output', 'factor_try',
                                                  'op_output', 'refused')),
    gone_to INTEGER NOT NULL DEFAULT 0 CHECK (gone_to >= 0)    -- of the run, the ask, or the row itself
) STRICT, WITHOUT ROWID;

INSERT INTO retention (entity) VALUES
    ('actor_run'), ('audit'), ('call_output'), ('factor_try'), ('op_output'), ('refused');

-- What a mark can move past: when it ended (NULL: it has not), and how many rows go with it.
CREATE VIEW retention_item (entity, id, at, rows) AS
SELECT 'actor_run', id, ended_at, 1 FROM actor_run
 UNION ALL SELECT 'audit', seq, at, 1 FROM audit
            WHERE seq <= (SELECT max(seq) FROM audit_base)
 UNION ALL SELECT 'call_output', id, finished_at, last_seq FROM call
 UNION ALL SELECT 'factor_try', id, at, 1 FROM factor_try
 UNION ALL SELECT 'op_output', id, finished_at, last_seq FROM op_run
 UNION ALL SELECT 'refused', id, at, 1 FROM refused;

-- What ended before this may go. No row: it is kept for ever.
CREATE VIEW retention_cutoff AS
SELECT r.entity, r.gone_to, now_ms() - s.value * 86400000 AS before, s.value AS days
  FROM retention AS r JOIN setting AS s ON s.name = 'retention.' || r.entity
 WHERE s.value > 0;

-- How far each mark may move in one transaction: retention.batch rows, or the one thing that has more.
-- It stops at the first thing that is too young.
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

-- (The newest row always stays: its number would be given again.)
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

CREATE TRIGGER retention_mark_stays BEFORE DELETE ON retention
BEGIN
    SELECT RAISE(ABORT, 'retention.mark|a mark only moves forward');
END;

-- Answers may be long: behind their mark the keeper deletes them frame by frame, which no rule holds then.
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

-- With the last run of a process goes its identity, where nothing else names it.
CREATE TRIGGER retention_actor_run AFTER UPDATE ON retention WHEN NEW.entity = 'actor_run'
BEGIN
    DELETE FROM actor_run WHERE id > OLD.gone_to AND id <= NEW.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', changes(), 'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
    -- (As many as one move covers: the next takes the others.)
    DELETE FROM process
     WHERE id IN (SELECT id FROM process AS p
                   WHERE seen_at < (SELECT before FROM retention_cutoff WHERE entity = NEW.entity)
                     AND id < (SELECT max(id) FROM process)
                     AND NOT EXISTS (SELECT 1 FROM actor_run WHERE process_id = p.id)
                     AND NOT EXISTS (SELECT 1 FROM attempt WHERE process_id = p.id)
                     AND NOT EXISTS (SELECT 1 FROM sandbox_run WHERE process_id = p.id)
                     AND NOT EXISTS (SELECT 1 FROM instance WHERE process_id = p.id)
                     AND NOT EXISTS (SELECT 1 FROM lease WHERE process_id = p.id)
                   ORDER BY id LIMIT (SELECT value FROM setting WHERE name = 'retention.batch'));
END;

-- (The row that moved the beginning of the audit has said what goes here. An index has no words of rows
-- that are gone; rows behind its end are not in it.)
CREATE TRIGGER retention_audit AFTER UPDATE ON retention WHEN NEW.entity = 'audit'
BEGIN
    DELETE FROM audit_word WHERE rowid > OLD.gone_to AND rowid <= NEW.gone_to
       AND rowid <= (SELECT max(id) FROM audit_word_docsize);
    DELETE FROM audit_seal WHERE seq > OLD.gone_to AND seq <= NEW.gone_to;
    DELETE FROM audit WHERE seq > OLD.gone_to AND seq <= NEW.gone_to;
END;

CREATE TRIGGER op_output_stays BEFORE DELETE ON op_output
WHEN OLD.op_run_id > coalesce((SELECT gone_to FROM retention WHERE entity = 'op_output'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|an answer stays until its time is over');
END;

CREATE TRIGGER call_output_stays BEFORE DELETE ON call_output
WHEN OLD.call_id > coalesce((SELECT gone_to FROM retention WHERE entity = 'call_output'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|an answer stays until its time is over');
END;

CREATE TRIGGER factor_try_stays BEFORE DELETE ON factor_try
WHEN OLD.id > coalesce((SELECT gone_to FROM retention WHERE entity = 'factor_try'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a try stays until its time is over');
END;

CREATE TRIGGER refused_stays BEFORE DELETE ON refused
WHEN OLD.id > coalesce((SELECT gone_to FROM retention WHERE entity = 'refused'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a refusal stays until its time is over');
END;

CREATE TRIGGER actor_run_stays BEFORE DELETE ON actor_run
WHEN OLD.id > coalesce((SELECT gone_to FROM retention WHERE entity = 'actor_run'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|the run of an actor stays until its time is over');
END;

CREATE TRIGGER process_stays BEFORE DELETE ON process
WHEN OLD.seen_at >= coalesce((SELECT before FROM retention_cutoff WHERE entity = 'actor_run'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a process stays until its time is over');
END;

-- (Whoever names a process is asked about it for each that goes; so are attempts and sandboxes.)
CREATE INDEX actor_run_by_process ON actor_run (process_id);
CREATE INDEX instance_by_process ON instance (process_id);
CREATE INDEX lease_by_process ON lease (process_id);

-- Where the audit begins once older rows are gone: at row `seq`, which stays, with its seal. Signed, so
-- that rows which somebody took away cannot pass for rows that retention removed. Their leaves stay, in
-- tiles of audit_tile, and so does every proof over them.
CREATE TABLE audit_base (
    seq       INTEGER PRIMARY KEY CHECK (seq >= 1),
    head      BLOB    NOT NULL CHECK (length(head) = 32),
    at        INTEGER NOT NULL,                                -- ms UTC
    base_text TEXT    GENERATED ALWAYS AS
              (json_array('audit_base', seq, lower(hex(head)), at)) VIRTUAL,
    signature BLOB    NOT NULL CHECK (length(signature) = 64)
) STRICT;

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

CREATE TRIGGER audit_base_no_update BEFORE UPDATE ON audit_base
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|where the audit began is history');
END;

CREATE TRIGGER audit_base_no_delete BEFORE DELETE ON audit_base
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|where the audit began is history');
END;

CREATE TRIGGER audit_base_audit AFTER INSERT ON audit_base
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'audit', NEW.seq, 'pruned', '',
           json_object('before', NEW.seq, 'head', lower(hex(NEW.head)), 'days', days,
                       'exported', (SELECT sent FROM audit_sink WHERE name = 'export'))
      FROM retention_cutoff WHERE entity = 'audit';
END;

-- What was taken away may be removed here one day: who said so is history.
CREATE TRIGGER audit_sink_exported AFTER UPDATE OF sent ON audit_sink
WHEN NEW.name = 'export' AND NEW.sent IS NOT OLD.sent
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'audit', NEW.sent, 'exported', '',
            json_object('after', OLD.sent, 'to', NEW.sent));
END;

-- The next beginning: the furthest sealed row within retention.batch rows, or the next sealed one, with
-- everything up to it exported, old enough, and in whole tiles under a checkpoint.
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
