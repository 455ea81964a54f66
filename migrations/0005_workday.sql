-- Workers on a lane, models asked by name, manifests that reach out; states that end are kept their time and no longer.

DROP TRIGGER audit_chained;
DROP TRIGGER audit_dropped;
DROP TRIGGER audit_sink_forward;
DROP TRIGGER audit_sink_sent;
DROP TRIGGER audit_base_moves;
DROP TRIGGER grant_use_within_uses;
DROP TRIGGER audit_base_audit;
DROP TRIGGER audit_sink_exported;
DROP VIEW audit_outbox;
DROP VIEW audit_drop;
DROP VIEW audit_base_due;
DROP VIEW audit_log_line;

ALTER TABLE audit_sink ADD COLUMN kept INTEGER NOT NULL DEFAULT 0 CHECK (kept >= 0);
UPDATE audit_sink SET kept = (SELECT coalesce(max(seq), 0) FROM audit) WHERE name = 'system-log';

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
