-- context.sql: a user of this machine asks to share a folder with a Host; a person answers.

-- What a user wants to share with a Host, in exact terms, and what a person answered.
CREATE TABLE context_ask (
    id             INTEGER PRIMARY KEY,
    nonce          TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    uid            INTEGER NOT NULL CHECK (uid >= 0),          -- who asks, on the kernel's word alone
    box_name       TEXT    NOT NULL,
    pairing_id     INTEGER NOT NULL REFERENCES pairing (id),
    host_name      TEXT    NOT NULL,
    root           TEXT    NOT NULL,                           -- absolute path, nothing to resolve in it
    name           TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64),   -- what the Host is to call it
    -- What the person reads, byte for byte. Text from the user stands as JSON, so it cannot pose as a line.
    terms          TEXT    GENERATED ALWAYS AS (
        'bastion folder 1' || char(10) ||
        'machine: ' || box_name || char(10) ||
        'host: ' || host_name || char(10) ||
        'asked by: uid ' || uid || char(10) ||
        'may have: ' || json_quote(root) || char(10) ||
        'called: ' || json_quote(name) || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL,
    digest         BLOB    CHECK (length(digest) = 32),        -- SHA-256 of terms, entered as it is born
    state          TEXT    NOT NULL DEFAULT 'pending'
                   CHECK (state IN ('pending', 'allowed', 'denied', 'expired', 'withdrawn', 'dropped')),
    asked_at       INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL CHECK (expires_at > asked_at),
    factor_id      INTEGER REFERENCES factor (id),
    decided_digest BLOB    CHECK (length(decided_digest) = 32),
    decided_by_uid INTEGER,
    decided_by     TEXT    CHECK (length(decided_by) BETWEEN 1 AND 64),
    decided_at     INTEGER,
    -- The folder that was found at the path when it was allowed: another one there later is not it.
    folder_dev     INTEGER,
    folder_ino     INTEGER,
    folder_uid     INTEGER,
    seal           BLOB    CHECK (length(seal) = 64),
    ended_at       INTEGER,
    CHECK (state NOT IN ('allowed', 'dropped')
           OR (factor_id IS NOT NULL AND decided_digest = digest AND decided_by_uid IS NOT NULL
               AND decided_by IS NOT NULL AND folder_dev IS NOT NULL AND folder_ino IS NOT NULL
               AND folder_uid = uid AND seal IS NOT NULL)),
    CHECK (state <> 'denied' OR (decided_by_uid IS NOT NULL AND decided_by IS NOT NULL)),
    CHECK ((state IN ('allowed', 'dropped', 'denied')) = (decided_at IS NOT NULL)),
    CHECK ((state IN ('pending', 'allowed')) = (ended_at IS NULL))
) STRICT;

-- The same question is asked once, and a folder is shared once.
CREATE UNIQUE INDEX context_ask_open ON context_ask (uid, pairing_id, root)
 WHERE state IN ('pending', 'allowed');
CREATE INDEX context_ask_due ON context_ask (expires_at) WHERE state = 'pending';
CREATE INDEX context_ask_by_user ON context_ask (uid, asked_at);

CREATE TRIGGER context_ask_born BEFORE INSERT ON context_ask
BEGIN
    -- A question that ran out does not stand in the way of the next, nor does it count.
    UPDATE context_ask SET state = 'expired', ended_at = now_ms()
     WHERE state = 'pending' AND expires_at <= now_ms();
    SELECT CASE
           WHEN NEW.state <> 'pending'
           THEN RAISE(ABORT, 'context.transition|an ask begins as pending')
           WHEN NEW.pairing_id IS NULL
           THEN RAISE(ABORT, 'context.host|which Host is to have it is not clear: none is served by that name, or several are')
           WHEN (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
           THEN RAISE(ABORT, 'pairing.invalid|this pairing is not served')
           WHEN NEW.box_name IS NOT (SELECT name FROM box)
             OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
             OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms))
           THEN RAISE(ABORT, 'context.terms|the terms name another machine, Host or text')
           WHEN NEW.root IS NULL OR NEW.root NOT GLOB '/?*' OR NEW.root GLOB '*/'
             OR length(CAST(NEW.root AS BLOB)) > 4095
             OR instr(NEW.root, '//') > 0 OR instr(NEW.root || '/', '/./') > 0
             OR instr(NEW.root || '/', '/../') > 0
             OR instr(NEW.root, char(0)) > 0
             OR NEW.root GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
           THEN RAISE(ABORT, 'context.path|a folder is named by its absolute path, without links, dots and control characters')
           WHEN NEW.root || '/' GLOB '/proc/*' OR NEW.root || '/' GLOB '/sys/*' OR NEW.root || '/' GLOB '/dev/*'
           THEN RAISE(ABORT, 'context.path|what is in /proc, /sys and /dev is no folder of a user')
           WHEN length(NEW.name) NOT BETWEEN 1 AND 64 OR instr(NEW.name, char(0)) > 0
             OR NEW.name GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
           THEN RAISE(ABORT, 'context.name|a name has 1 to 64 characters and none that controls')
           WHEN EXISTS (SELECT 1 FROM context_ask WHERE uid = NEW.uid AND pairing_id = NEW.pairing_id
                           AND root = NEW.root AND state IN ('pending', 'allowed'))
           THEN RAISE(ABORT, 'context.exists|this was asked already, and waits for a person or was allowed')
           WHEN (SELECT count(*) FROM context_ask WHERE uid = NEW.uid AND state = 'pending')
             >= (SELECT value FROM setting WHERE name = 'context.pending_uid')
           THEN RAISE(ABORT, 'context.yours|busy: too many asks of this user wait for a person')
           WHEN (SELECT count(*) FROM context_ask WHERE state = 'pending')
             >= (SELECT value FROM setting WHERE name = 'context.pending')
           THEN RAISE(ABORT, 'context.busy|busy: too many asks of this machine wait for a person')
           WHEN (SELECT count(*) FROM context_ask WHERE uid = NEW.uid AND asked_at
                  > now_ms() - (SELECT value FROM setting WHERE name = 'context.window_ms'))
             >= (SELECT value FROM setting WHERE name = 'context.asks')
           THEN RAISE(ABORT, 'context.rate|this user asked too often lately')
           WHEN NEW.asked_at IS NOT now_ms()
             OR NEW.expires_at - NEW.asked_at > (SELECT high FROM setting WHERE name = 'context.ttl_ms')
           THEN RAISE(ABORT, 'context.transition|an ask is made at the time that it is, and waits no longer than context.ttl_ms may say')
           END;
END;

-- (In a BEFORE UPDATE trigger NEW's generated columns are not computed yet: name what they are made of.)
CREATE TRIGGER context_ask_moves BEFORE UPDATE ON context_ask
BEGIN
    SELECT RAISE(ABORT, 'context.decided|this ask is decided already')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'context_ask' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'context.decided|this ask is decided already')
     WHERE NEW.state IS OLD.state AND OLD.digest IS NOT NULL;
    SELECT RAISE(ABORT, 'context.terms|the terms of an ask never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.uid IS NOT OLD.uid
        OR NEW.box_name IS NOT OLD.box_name OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_name IS NOT OLD.host_name OR NEW.root IS NOT OLD.root OR NEW.name IS NOT OLD.name
        OR NEW.digest IS NOT coalesce(OLD.digest, sha256(OLD.terms))
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'context.terms|a decision never changes')
     WHERE (OLD.state <> 'pending' OR NEW.state NOT IN ('allowed', 'denied'))
       AND (NEW.factor_id IS NOT OLD.factor_id OR NEW.decided_digest IS NOT OLD.decided_digest
            OR NEW.decided_by_uid IS NOT OLD.decided_by_uid OR NEW.decided_by IS NOT OLD.decided_by
            OR NEW.decided_at IS NOT OLD.decided_at OR NEW.folder_dev IS NOT OLD.folder_dev
            OR NEW.folder_ino IS NOT OLD.folder_ino OR NEW.folder_uid IS NOT OLD.folder_uid
            OR NEW.seal IS NOT OLD.seal);
    SELECT RAISE(ABORT, 'context.expired|this ask ran out before it was answered')
     WHERE NEW.state IN ('allowed', 'denied') AND OLD.expires_at <= now_ms();
    SELECT CASE
           WHEN (SELECT active FROM pairing_status WHERE id = OLD.pairing_id) IS NOT 1
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
           THEN RAISE(ABORT, 'approval.factor|the approving factor is not active')
           WHEN sha256(OLD.terms) IS NOT NEW.decided_digest
           THEN RAISE(ABORT, 'context.terms|what was allowed is not what was asked')
           WHEN NEW.folder_uid IS NOT OLD.uid
           THEN RAISE(ABORT, 'context.owner|the folder is not one of the user who asks')
           WHEN seal_ok('folder', json_array('folder', OLD.id, OLD.pairing_id, OLD.uid, OLD.root,
                    OLD.name, NEW.folder_dev, NEW.folder_ino, NEW.factor_id, NEW.decided_at), NEW.seal)
                IS NOT 1
           THEN RAISE(ABORT, 'context.seal|the seal of this answer is not of this machine')
           END
     WHERE NEW.state = 'allowed';
END;

CREATE TRIGGER context_ask_stays BEFORE DELETE ON context_ask
BEGIN
    SELECT RAISE(ABORT, 'context.kept|an ask and its answer are history');
END;

CREATE TRIGGER context_ask_audit_birth AFTER INSERT ON context_ask
BEGIN
    UPDATE context_ask SET digest = sha256(terms) WHERE id = NEW.id AND digest IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'context_ask', NEW.id, NEW.state, NEW.host_name,
            json_object('uid', NEW.uid, 'root', NEW.root, 'name', NEW.name,
                        'digest', (SELECT lower(hex(digest)) FROM context_ask WHERE id = NEW.id)));
END;

CREATE TRIGGER context_ask_audit_move AFTER UPDATE OF state ON context_ask
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'context_ask', NEW.id, NEW.state, NEW.host_name,
            json_object('uid', NEW.uid, 'root', NEW.root, 'factor', NEW.factor_id,
                        'by', NEW.decided_by));
END;

-- What a pairing allowed ends with it.
CREATE TRIGGER context_ask_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE context_ask SET state = iif(state = 'pending', 'expired', 'dropped'), ended_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state IN ('pending', 'allowed');
END;

-- What waits for a person.
CREATE VIEW open_context_asks AS
SELECT id, host_name AS host, uid, root, name, asked_at, expires_at
  FROM context_ask WHERE state = 'pending' AND expires_at > now_ms();

-- What each Host may have, on whose word.
CREATE VIEW shared_folders AS
SELECT c.id, c.host_name AS host, c.uid, c.root, c.name, c.folder_dev, c.folder_ino, c.decided_by,
       f.label AS factor, c.decided_at
  FROM context_ask AS c JOIN pairing_status AS p ON p.id = c.pairing_id
  JOIN factor AS f ON f.id = c.factor_id
 WHERE c.state = 'allowed' AND p.active;
