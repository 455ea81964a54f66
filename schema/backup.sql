-- backup.sql: copies of this database that were taken, and those that it came back from.

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
    UPDATE amendment SET state = 'expired', ended_at = now_ms() WHERE state = 'pending';
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

-- A line in what a person signs that is numbered by what went before: numbers begin again at the copy's, and what was signed
-- under one of them since would be good again.
CREATE VIEW restored_line AS
SELECT coalesce((SELECT 'restored: ' || strftime('%Y-%m-%dT%H:%M:%fZ', restored_at / 1000.0, 'unixepoch') || char(10)
                   FROM restore ORDER BY id DESC LIMIT 1), '') AS text;
