-- amendment.sql: what a person changed by SQL of their own: the statement, why, and on what proof.

-- It is shown, then signed for, then made: as `pending` nothing has happened; `running` is seen only by
-- the rules, inside the one transaction that decides, changes and ends as `done`.
CREATE TABLE amendment (
    id             INTEGER PRIMARY KEY,
    nonce          TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    box_name       TEXT    NOT NULL,
    reason         TEXT    NOT NULL CHECK (length(reason) BETWEEN 1 AND 200),
    statement      TEXT    NOT NULL CHECK (length(statement) BETWEEN 1 AND 65536),
    -- What the person reads and signs, byte for byte. Lines of the statement stand further in, so that
    -- none of them can pose as a line of the terms.
    terms          TEXT    GENERATED ALWAYS AS (
        'bastion amendment 1' || char(10) ||
        'machine: ' || box_name || char(10) ||
        'reason: ' || reason || char(10) ||
        'statement:' || char(10) ||
        '    ' || replace(statement, char(10), char(10) || '    ') || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL,
    state          TEXT    NOT NULL DEFAULT 'pending'
                   CHECK (state IN ('pending', 'running', 'done', 'dropped', 'expired')),
    asked_at       INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL CHECK (expires_at > asked_at),
    factor_id      INTEGER REFERENCES factor (id),
    decided_digest BLOB    CHECK (length(decided_digest) = 32),
    decided_by_uid INTEGER,
    decided_by     TEXT    CHECK (length(decided_by) BETWEEN 1 AND 64),
    after_seq      INTEGER CHECK (after_seq >= 0),             -- the audit's last row before the changes
    changes        TEXT    CHECK (changes IS NULL OR (json_valid(changes) AND json_type(changes) = 'object')),
    ended_at       INTEGER,
    CHECK (state NOT IN ('running', 'done')
           OR (factor_id IS NOT NULL AND decided_digest IS NOT NULL AND decided_by_uid IS NOT NULL
               AND decided_by IS NOT NULL AND after_seq IS NOT NULL)),
    CHECK ((state = 'done') = (changes IS NOT NULL)),
    CHECK ((state IN ('pending', 'running')) = (ended_at IS NULL))
) STRICT;

CREATE TRIGGER amendment_born BEFORE INSERT ON amendment
BEGIN
    UPDATE amendment SET state = 'expired', ended_at = now_ms()
     WHERE state = 'pending' AND expires_at <= now_ms();
    SELECT RAISE(ABORT, 'amendment.transition|an amendment begins as pending')
     WHERE NEW.state <> 'pending';
    SELECT RAISE(ABORT, 'amendment.reason|a reason is 1 to 200 characters, none of them a control character')
     WHERE length(trim(NEW.reason)) = 0 OR length(NEW.reason) > 200
        OR NEW.reason GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'amendment.text|a statement has no control characters, and no more than amendment.text others')
     WHERE length(NEW.statement) NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'amendment.text')
        OR NEW.statement GLOB '*[' || char(1) || '-' || char(8) || char(11) || '-' || char(31) ||
                              char(127) || ']*';
    SELECT RAISE(ABORT, 'amendment.terms|the terms name another machine')
     WHERE NEW.box_name IS NOT (SELECT name FROM box);
END;

CREATE TRIGGER amendment_moves BEFORE UPDATE ON amendment
BEGIN
    SELECT RAISE(ABORT, 'amendment.decided|this amendment was made or given up')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'amendment' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'amendment.terms|the terms of an amendment never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.box_name IS NOT OLD.box_name
        OR NEW.reason IS NOT OLD.reason OR NEW.statement IS NOT OLD.statement
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'amendment.expired|this amendment ran out before it was approved')
     WHERE NEW.state = 'running' AND OLD.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'approval.factor|the approving factor is not active')
     WHERE NEW.state = 'running'
       AND (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'amendment.terms|what was approved is not what is asked')
     WHERE NEW.state = 'running' AND sha256(OLD.terms) IS NOT NEW.decided_digest;
    SELECT RAISE(ABORT, 'amendment.transition|the changes of an amendment begin where the audit ends')
     WHERE NEW.state = 'running'
       AND NEW.after_seq IS NOT (SELECT coalesce(max(seq), 0) FROM audit);
    SELECT RAISE(ABORT, 'amendment.terms|an amendment keeps who decided it')
     WHERE OLD.state = 'running'
       AND (NEW.factor_id IS NOT OLD.factor_id OR NEW.decided_digest IS NOT OLD.decided_digest
            OR NEW.decided_by_uid IS NOT OLD.decided_by_uid OR NEW.decided_by IS NOT OLD.decided_by
            OR NEW.after_seq IS NOT OLD.after_seq);
    -- Whatever the statement was dressed as: the audit says what came of it.
    SELECT RAISE(ABORT, 'amendment.gives|an amendment sets limits and takes away: it cannot pair, approve, grant or run')
     WHERE NEW.state = 'done' AND EXISTS (SELECT 1 FROM audit WHERE seq > OLD.after_seq
       AND (entity, action) IN (VALUES
           ('pairing', 'active'), ('pairing', 'pending'), ('invitation', 'open'),
           ('invitation', 'redeemed'), ('host_box', 'active'), ('factor', 'active'),
           ('approval', 'pending'), ('approval', 'approved'), ('approval', 'burned'),
           ('grant', 'active'), ('grant', 'spent'), ('op_run', 'queued'), ('op_run', 'running'),
           ('op_run', 'done'), ('op_run', 'failed'), ('call', 'asked'), ('call', 'done')));
END;

CREATE TRIGGER amendment_stays BEFORE DELETE ON amendment
BEGIN
    SELECT RAISE(ABORT, 'amendment.kept|an amendment is history');
END;

CREATE TRIGGER amendment_audit_birth AFTER INSERT ON amendment
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'amendment', NEW.id, NEW.state, '',
            json_object('reason', NEW.reason, 'digest', lower(hex(sha256(NEW.terms)))));
END;

-- The changes' own audit rows stand between `running`, with the proof, and `done`, with the counts.
CREATE TRIGGER amendment_audit_move AFTER UPDATE OF state ON amendment WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'amendment', NEW.id, NEW.state, '',
           CASE NEW.state
           WHEN 'running' THEN
                json_object('reason', NEW.reason, 'statement', NEW.statement, 'by', NEW.decided_by,
                            'uid', NEW.decided_by_uid, 'factor', NEW.factor_id,
                            'digest', lower(hex(NEW.decided_digest)))
           WHEN 'done' THEN json_object('reason', NEW.reason, 'changes', json(NEW.changes))
           ELSE json_object('reason', NEW.reason) END;
END;
