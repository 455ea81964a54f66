-- 0002_retention.sql: rows have a time after which they go; copies and what came back from one are rows.

-- Where the audit is copied to: an export that a person took away counts as well.
CREATE TEMP TABLE kept AS SELECT name, sent FROM audit_sink;
DROP TABLE audit_sink;

CREATE TABLE audit_sink (
    name TEXT    PRIMARY KEY CHECK (name IN ('export', 'system-log')),
    sent INTEGER NOT NULL DEFAULT 0 CHECK (sent >= 0)
) STRICT, WITHOUT ROWID;

INSERT INTO audit_sink (name, sent) SELECT name, sent FROM kept UNION ALL SELECT 'export', 0;
DROP TABLE temp.kept;

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

-- The audit stays append-only, but for what its retention removes.
DROP TRIGGER audit_no_delete;
DROP TRIGGER audit_seal_no_delete;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
WHEN OLD.seq > coalesce((SELECT gone_to FROM retention WHERE entity = 'audit'), 0)
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|the audit is append-only');
END;

CREATE TRIGGER audit_seal_no_delete BEFORE DELETE ON audit_seal
WHEN OLD.seq > coalesce((SELECT gone_to FROM retention WHERE entity = 'audit'), 0)
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|a seal is append-only');
END;

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
                       max(at IS NULL OR at >= c.before) OVER through AS kept
                  FROM (SELECT id, at, rows FROM retention_item
                         WHERE entity = c.entity AND id > c.gone_to ORDER BY id
                         LIMIT (SELECT value FROM setting WHERE name = 'retention.batch'))
                WINDOW through AS (ORDER BY id))
         WHERE NOT kept
           AND id < (SELECT max(id) FROM retention_item WHERE entity = c.entity)
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
    DELETE FROM process
     WHERE seen_at < (SELECT before FROM retention_cutoff WHERE entity = NEW.entity)
       AND id < (SELECT max(id) FROM process)
       AND NOT EXISTS (SELECT 1 FROM actor_run WHERE process_id = process.id)
       AND id NOT IN (SELECT process_id FROM instance)
       AND id NOT IN (SELECT process_id FROM lease WHERE process_id IS NOT NULL);
END;

-- (The row that moved the beginning of the audit has said what goes here.)
CREATE TRIGGER retention_audit AFTER UPDATE ON retention WHEN NEW.entity = 'audit'
BEGIN
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

CREATE INDEX actor_run_by_process ON actor_run (process_id);

-- Where the audit begins once older rows are gone: at row `seq`, which stays, with its seal. Signed, so
-- that rows which somebody took away cannot pass for rows that retention removed.
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
-- everything up to it exported and old enough.
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
   AND (young.seq IS NULL OR s.seq < young.seq)
 ORDER BY s.seq DESC LIMIT 1;

CREATE TABLE backup (
    id      INTEGER PRIMARY KEY,
    made_at INTEGER NOT NULL,                                  -- ms UTC
    seq     INTEGER NOT NULL CHECK (seq >= 0),                 -- the last audit row in the copy
    head    BLOB    NOT NULL CHECK (length(head) = 32),        -- and its hash
    bytes   INTEGER NOT NULL CHECK (bytes > 0)
) STRICT;

CREATE TRIGGER backup_no_update BEFORE UPDATE ON backup
BEGIN
    SELECT RAISE(ABORT, 'backup.kept|which copies were taken is history');
END;

CREATE TRIGGER backup_no_delete BEFORE DELETE ON backup
BEGIN
    SELECT RAISE(ABORT, 'backup.kept|which copies were taken is history');
END;

CREATE TRIGGER backup_audit AFTER INSERT ON backup
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'backup', NEW.id, 'made', '',
            json_object('seq', NEW.seq, 'head', lower(hex(NEW.head)), 'bytes', NEW.bytes));
END;

-- This database was a copy, and took the place of another. What had ended meanwhile must not come alive
-- with it: uses that were spent, questions that were answered, factors that were dropped.
CREATE TABLE restore (
    id            INTEGER PRIMARY KEY,
    restored_at   INTEGER NOT NULL,                            -- ms UTC
    seq           INTEGER NOT NULL CHECK (seq >= 0),           -- the last audit row of the copy
    head          BLOB    NOT NULL CHECK (length(head) = 32),  -- and its hash
    replaced_seq  INTEGER,                                     -- the same of the other; NULL: it could not be read
    replaced_head BLOB    CHECK (length(replaced_head) = 32),
    -- What is still good in the other, where it goes on from this copy: {"grants": [seal], "factors":
    -- [[fingerprint, enrolled_at, last_counter]], "pairings": [[host, key, since]], "boxes": [[name, key,
    -- paired_at]]}. NULL: nothing is known of what happened since.
    live          TEXT    CHECK (live IS NULL OR json_valid(live)),
    keep_grants   INTEGER NOT NULL CHECK (keep_grants IN (0, 1)),
    keep_factors  INTEGER NOT NULL CHECK (keep_factors IN (0, 1)),
    CHECK ((replaced_seq IS NULL) = (replaced_head IS NULL)),
    CHECK (live IS NULL OR replaced_seq IS NOT NULL)
) STRICT;

CREATE TRIGGER restore_born BEFORE INSERT ON restore
BEGIN
    SELECT RAISE(ABORT, 'restore.head|a restored database begins at the head of its copy')
     WHERE NEW.seq IS NOT (SELECT coalesce(max(seq), 0) FROM audit)
        OR NEW.head IS NOT coalesce((SELECT hash FROM audit WHERE seq = NEW.seq), zeroblob(32));
END;

CREATE TRIGGER restore_no_update BEFORE UPDATE ON restore
BEGIN
    SELECT RAISE(ABORT, 'restore.kept|what was restored is history');
END;

CREATE TRIGGER restore_no_delete BEFORE DELETE ON restore
BEGIN
    SELECT RAISE(ABORT, 'restore.kept|what was restored is history');
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

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('retention.actor_run', 90, 'days', 0, 36500, 'how long runs of actors are kept, and their processes; 0: for ever'),
    ('retention.audit', 0, 'days', 0, 36500, 'how long audit rows are kept, once sealed and exported; 0: for ever'),
    ('retention.batch', 1000, 'rows', 1, 100000, 'rows that one move of a retention mark covers'),
    ('retention.bytes', 1048576, 'bytes', 1, 1073741824, 'length of the frames that retention removes in one transaction; at least one goes'),
    ('retention.call_output', 90, 'days', 0, 36500, 'how long the answers of boxes are kept; 0: for ever'),
    ('retention.factor_try', 90, 'days', 0, 36500, 'how long tries at factors are kept; 0: for ever'),
    ('retention.frames', 64, 'rows', 1, 100000, 'frames of answers that retention removes in one transaction'),
    ('retention.look_ms', 3600000, 'ms', 100, 86400000, 'how often the keeper looks for what retention removes'),
    ('retention.op_output', 90, 'days', 0, 36500, 'how long the answers of runs are kept; 0: for ever'),
    ('retention.refused', 365, 'days', 0, 36500, 'how long refused asks are kept beside the audit; 0: for ever'),
    ('store.free_pages', 1024, 'pages', 0, 10000000, 'free pages that the database keeps for what comes next'),
    ('store.vacuum_pages', 256, 'pages', 1, 100000, 'free pages that are given back to the disk in one transaction');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('audit.base', 126, 409, 'export first: bastion audit export --mark FILE'),
    ('backup.busy', 75, 409, 'wait until the other backup has ended'),
    ('backup.exists', 3, 409, 'give another name, or replace it with --force'),
    ('backup.file', 2, 422, 'give the name of a plain file of yours in a directory that is there'),
    ('backup.kept', 126, 409, 'which copies were taken is history'),
    ('migrate.edited', 3, 409, 'use the bastion that made it, or restore a backup'),
    ('restore.chain', 3, 409, 'take another backup; see where it breaks: bastion audit verify FILE'),
    ('restore.file', 2, 422, 'name a file that bastion backup made'),
    ('restore.foreign', 3, 409, 'put the bastion.key of that machine into the state directory first'),
    ('restore.head', 1, 500, 'this is a fault in bastion: please report it'),
    ('restore.kept', 126, 409, 'what was restored is history'),
    ('retention.kept', 126, 409, 'rows go when their time is over: bastion settings'),
    ('retention.mark', 126, 409, 'only the keeper moves the marks of retention'),
    ('retention.young', 126, 409, 'see bastion settings for how long rows are kept');
