-- audit.sql: what happened, in order, each row chained to the one before it; seals; the system log.

CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY CHECK (seq >= 1),
    at        INTEGER NOT NULL,                                -- ms UTC
    stream    TEXT    NOT NULL CHECK (stream IN ('management', 'pairing') OR stream = 'op'),
    who       TEXT    NOT NULL CHECK (who <> '' AND length(who) <= 160),
    entity    TEXT    NOT NULL,
    entity_id TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    pairing   TEXT    NOT NULL DEFAULT '',                     -- the Host's name, '' for the box itself
    body      TEXT    NOT NULL CHECK (json_valid(body)),
    prev      BLOB    NOT NULL CHECK (length(prev) = 32),
    hash      BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE INDEX audit_by_entity ON audit (entity, entity_id, seq);

-- The exact text that a row's hash covers, behind the 32 bytes of the row before it.
CREATE VIEW audit_line AS
SELECT seq, prev, hash,
       json_array(seq, at, stream, who, entity, entity_id, action, pairing, body) AS line
  FROM audit;

-- Where a trigger tells the audit what happened; nothing else writes there.
CREATE VIEW audit_entry AS
SELECT stream, entity, entity_id, action, pairing, body FROM audit;

-- The only way in: triggers insert here, and the row is numbered, dated, signed for and chained. No role
-- writes to the table itself (engine/store/role.c); what another tool wrote there, bastion audit verify finds.
-- (|| '' makes text of a number, and plain text of what json_object returned: as the columns hold it.
-- VALUES and not SELECT: what is selected for a table with triggers goes through a table in between.)
CREATE TRIGGER audit_entry_chains INSTEAD OF INSERT ON audit_entry
BEGIN
    INSERT INTO audit (seq, at, stream, who, entity, entity_id, action, pairing, body, prev, hash)
    VALUES (NULL, now_ms(), NEW.stream, acting(), NEW.entity, NEW.entity_id, NEW.action, NEW.pairing, NEW.body,
            coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), zeroblob(32)),
            chain_hash(coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), zeroblob(32)),
                       json_array((SELECT coalesce(max(seq), 0) + 1 FROM audit), now_ms(), NEW.stream,
                                  acting(), NEW.entity, NEW.entity_id || '', NEW.action, NEW.pairing,
                                  NEW.body || '')));
END;

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|the audit is append-only');
END;

-- (But for rows that retention removes, behind a sealed and exported row: retention.sql.)
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
WHEN OLD.seq > coalesce((SELECT gone_to FROM retention WHERE entity = 'audit'), 0)
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|the audit is append-only');
END;

-- A seal: the machine's signature over the chain's head at one moment.
CREATE TABLE audit_seal (
    seq       INTEGER PRIMARY KEY REFERENCES audit (seq),
    head      BLOB    NOT NULL CHECK (length(head) = 32),
    at        INTEGER NOT NULL,
    reason    TEXT    NOT NULL CHECK (reason IN ('interval', 'shutdown', 'request')),
    seal_text TEXT    GENERATED ALWAYS AS
              (json_array('audit_seal', seq, lower(hex(head)), at, reason)) VIRTUAL,
    signature BLOB    NOT NULL CHECK (length(signature) = 64)
) STRICT;

CREATE TRIGGER audit_seal_fits BEFORE INSERT ON audit_seal
BEGIN
    SELECT RAISE(ABORT, 'audit.seal|a seal covers the head that the chain has there')
     WHERE NEW.head IS NOT (SELECT hash FROM audit WHERE seq = NEW.seq);
    SELECT RAISE(ABORT, 'audit.seal|the seal is not of this machine')
     WHERE seal_ok('audit', json_array('audit_seal', NEW.seq, lower(hex(NEW.head)), NEW.at,
                                       NEW.reason), NEW.signature) IS NOT 1;
END;

CREATE TRIGGER audit_seal_no_update BEFORE UPDATE ON audit_seal
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|a seal is append-only');
END;

CREATE TRIGGER audit_seal_no_delete BEFORE DELETE ON audit_seal
WHEN OLD.seq > coalesce((SELECT gone_to FROM retention WHERE entity = 'audit'), 0)
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|a seal is append-only');
END;

-- Where the audit is copied to, and how far: what comes after `sent` waits. At most audit.outbox
-- rows wait for the system log; past that the newest are dropped, and the next row that gets in
-- carries their count. Waiting and being dropped cost no row of their own. The sink export is moved by
-- bastion audit export --mark: what it has may be removed here one day.
CREATE TABLE audit_sink (
    name TEXT    PRIMARY KEY CHECK (name IN ('export', 'system-log')),
    sent INTEGER NOT NULL DEFAULT 0 CHECK (sent >= 0),
    kept INTEGER NOT NULL DEFAULT 0 CHECK (kept >= 0)         -- up to here another bound had let rows wait
) STRICT, WITHOUT ROWID;

-- Rows from `first` to `last` do not go to the system log: written when the sink, or the bound, moves.
CREATE TABLE audit_gap (
    first INTEGER PRIMARY KEY,
    last  INTEGER NOT NULL CHECK (last >= first)
) STRICT;

-- Up to `edge` rows may wait; rows after it, up to `top`, are dropped: the gap that is open now. Inserting
-- a row costs none of this.
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

-- What is dropped by now stays dropped when room comes to be.
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

-- Inserting here says that rows from now on are not kept for the system log, up to the newest.
CREATE VIEW audit_gap_open AS SELECT name FROM audit_sink;

CREATE TRIGGER audit_gap_is_kept INSTEAD OF INSERT ON audit_gap_open
BEGIN
    INSERT INTO audit_gap (first, last)
    SELECT coalesce((SELECT first FROM audit_gap WHERE last = edge), edge + 1), top FROM audit_edge WHERE top > edge
        ON CONFLICT DO UPDATE SET last = excluded.last;
END;

-- A gap that a sent row has told of is over.
CREATE TRIGGER audit_sink_sent AFTER UPDATE OF sent ON audit_sink
BEGIN
    DELETE FROM audit_gap WHERE last < NEW.sent;
END;

-- What waits for the system log.
CREATE VIEW audit_outbox AS
SELECT a.seq,
       coalesce((SELECT iif(g.last = a.seq - 1, g.last - g.first + 1, 0) FROM audit_gap AS g
                  WHERE g.first < a.seq ORDER BY g.first DESC LIMIT 1), 0) AS dropped_before
  FROM audit AS a
 WHERE a.seq > (SELECT sent FROM audit_sink WHERE name = 'system-log')
   AND a.seq <= (SELECT edge FROM audit_edge)
   AND a.seq > coalesce((SELECT g.last FROM audit_gap AS g WHERE g.first <= a.seq
                          ORDER BY g.first DESC LIMIT 1), 0);

-- Rows that were dropped since the last one that waits or went.
CREATE VIEW audit_drop AS
SELECT max(e.top - e.edge, 0)
     + coalesce((SELECT last - first + 1 FROM audit_gap WHERE last = min(e.edge, e.top)), 0) AS dropped
  FROM audit_edge AS e;

-- The line for the system log: the row's body plus who, what and where; a command's text never leaves,
-- its digest and length do (json_set keeps NULLs and integers exact, json_patch would not).
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

-- Something was asked and held: kept although the statement that asked was rolled back.
CREATE TABLE refused (
    id         INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    pairing_id INTEGER,                                        -- no foreign key: it may be what was wrong
    surface    TEXT    NOT NULL CHECK (surface IN ('cli', 'control', 'lane', 'enroll')),
    asked      TEXT    NOT NULL CHECK (length(asked) <= 200),
    code       TEXT    NOT NULL REFERENCES refusal (code),
    why        TEXT    NOT NULL CHECK (length(why) <= 512)
) STRICT;

CREATE TRIGGER refused_no_update BEFORE UPDATE ON refused
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|what was refused stays as it was');
END;

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
