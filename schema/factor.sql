-- factor.sql: what proves that a person decided: a TOTP secret or an SSH key, and tries at it.

CREATE TABLE factor (
    id            INTEGER PRIMARY KEY,
    kind          TEXT    NOT NULL CHECK (kind IN ('totp', 'ssh')),
    label         TEXT    NOT NULL CHECK (length(label) BETWEEN 1 AND 64 AND instr(label, char(0)) = 0),
    secret        BLOB    CHECK (length(secret) BETWEEN 40 AND 256),   -- sealed; TOTP only
    public_key    TEXT    CHECK (length(public_key) <= 1024),          -- an authorized_keys line; SSH
    fingerprint   TEXT    NOT NULL CHECK (length(fingerprint) <= 96),
    state         TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    enrolled_at   INTEGER NOT NULL,
    dropped_at    INTEGER,
    last_counter  INTEGER NOT NULL DEFAULT -1,                 -- TOTP step or FIDO counter last used
    CHECK ((kind = 'totp') = (public_key IS NULL)),
    CHECK (kind = 'totp' OR secret IS NULL),
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL)),
    CHECK (kind <> 'totp' OR state = 'dropped' OR secret IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX factor_by_label ON factor (label) WHERE state = 'active';
CREATE UNIQUE INDEX factor_by_fingerprint ON factor (fingerprint) WHERE state = 'active';

CREATE TRIGGER factor_born BEFORE INSERT ON factor
BEGIN
    SELECT RAISE(ABORT, 'factor.label|a label is 1 to 64 characters, none of them a control character')
     WHERE length(NEW.label) NOT BETWEEN 1 AND 64
        OR NEW.label GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'factor.label|an active factor has this label or key already')
     WHERE EXISTS (SELECT 1 FROM factor WHERE state = 'active'
           AND (label = NEW.label OR fingerprint = NEW.fingerprint));
    SELECT RAISE(ABORT, 'factor.transition|a factor begins as active') WHERE NEW.state <> 'active';
END;

CREATE TRIGGER factor_moves BEFORE UPDATE ON factor
BEGIN
    SELECT RAISE(ABORT, 'factor.transition|a dropped factor stays dropped')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'factor' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'factor.fixed|a factor keeps its kind, label and key')
     WHERE NEW.kind IS NOT OLD.kind OR NEW.label IS NOT OLD.label
        OR NEW.public_key IS NOT OLD.public_key OR NEW.fingerprint IS NOT OLD.fingerprint
        OR NEW.enrolled_at IS NOT OLD.enrolled_at
        OR (NEW.secret IS NOT OLD.secret AND NEW.secret IS NOT NULL);
    -- (Its secret is wiped as it is dropped: that one change follows.)
    SELECT RAISE(ABORT, 'factor.final|a dropped factor is history')
     WHERE OLD.state = 'dropped'
       AND (NEW.id IS NOT OLD.id OR NEW.secret IS NOT NULL OR NEW.enrolled_at IS NOT OLD.enrolled_at
            OR NEW.dropped_at IS NOT OLD.dropped_at OR NEW.last_counter IS NOT OLD.last_counter);
END;

-- A proof moves the counter on, or it was used: staying where it is counts as used.
CREATE TRIGGER factor_counter_grows BEFORE UPDATE OF last_counter ON factor
WHEN NEW.last_counter <= OLD.last_counter
BEGIN
    SELECT RAISE(ABORT, 'factor.used|this code or signature was used already');
END;

-- Dropping a factor drops what it approved, for good; its secret goes at once.
CREATE TRIGGER factor_dropped AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state = 'active'
BEGIN
    UPDATE factor SET secret = NULL WHERE id = NEW.id AND secret IS NOT NULL;
    UPDATE grant SET state = 'dropped', ended_at = NEW.dropped_at, end_reason = 'approver dropped'
     WHERE factor_id = NEW.id AND state = 'active';
END;

CREATE TRIGGER factor_dropped_folders AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state = 'active'
BEGIN
    UPDATE context_ask SET state = 'dropped', ended_at = NEW.dropped_at
     WHERE factor_id = NEW.id AND state = 'allowed';
END;

CREATE TRIGGER factor_stays BEFORE DELETE ON factor
BEGIN
    SELECT RAISE(ABORT, 'factor.kept|a factor is dropped, not deleted: approvals name it');
END;

CREATE TRIGGER factor_audit_birth AFTER INSERT ON factor
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', NEW.id, NEW.state, '',
            json_object('kind', NEW.kind, 'label', NEW.label, 'fingerprint', NEW.fingerprint));
END;

CREATE TRIGGER factor_audit_move AFTER UPDATE OF state ON factor WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

-- Every try to prove oneself. So many wrong ones in a while close the door until the oldest is past.
CREATE TABLE factor_try (
    id        INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    kind      TEXT    NOT NULL CHECK (kind IN ('totp', 'ssh')),
    outcome   TEXT    NOT NULL CHECK (outcome IN ('right', 'wrong'))
) STRICT;

CREATE INDEX factor_try_by_time ON factor_try (at);

-- Wrong tries since the last right one, within the throttle's window, and when the door opens again.
CREATE VIEW factor_throttle AS
SELECT count(*) AS wrong,
       (SELECT value FROM setting WHERE name = 'factor.tries') AS allowed,
       min(at) + (SELECT value FROM setting WHERE name = 'factor.throttle_ms') AS until
  FROM factor_try
 WHERE outcome = 'wrong'
   AND at > now_ms() - (SELECT value FROM setting WHERE name = 'factor.throttle_ms')
   AND id > coalesce((SELECT max(id) FROM factor_try WHERE outcome = 'right'), 0);

CREATE TRIGGER factor_try_throttled BEFORE INSERT ON factor_try
WHEN (SELECT wrong >= allowed FROM factor_throttle)
BEGIN
    SELECT RAISE(ABORT, 'factor.throttled|too many wrong codes');
END;

CREATE TRIGGER factor_try_audit AFTER INSERT ON factor_try WHEN NEW.outcome = 'wrong'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', '', 'wrong', '', json_object('kind', NEW.kind));
END;
