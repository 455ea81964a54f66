-- box.sql: this machine, its mode, and the Hosts that it is paired with. See pairing.sql for which
-- of them are served, and anchor.sql for who approves them on a network.

CREATE TABLE box (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    name         TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64
                         AND name NOT GLOB '*[^A-Za-z0-9.-]*' AND name NOT GLOB '-*'
                         AND instr(name, char(0)) = 0),
    role         TEXT    NOT NULL CHECK (role IN ('box', 'host')),
    mode         TEXT    NOT NULL DEFAULT 'local' CHECK (mode IN ('local', 'networked')),
    identity_key BLOB    NOT NULL CHECK (length(identity_key) = 32),   -- Ed25519, public
    created_at   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER box_keeps_its_identity BEFORE UPDATE ON box
WHEN NEW.identity_key IS NOT OLD.identity_key OR NEW.role IS NOT OLD.role
  OR NEW.created_at IS NOT OLD.created_at
BEGIN
    SELECT RAISE(ABORT, 'box.identity|the identity and role of a machine never change');
END;

CREATE TRIGGER box_stays BEFORE DELETE ON box
BEGIN
    SELECT RAISE(ABORT, 'box.identity|the machine is not deleted from its own database');
END;

-- (Whoever changes it: a machine with an anchor answers to more than the person in front of it.)
CREATE TRIGGER box_mode_with_anchor BEFORE UPDATE OF mode ON box
WHEN NEW.mode = 'local' AND OLD.mode <> 'local' AND EXISTS (SELECT 1 FROM anchor)
BEGIN
    SELECT RAISE(ABORT, 'box.anchored|a machine with an anchor stays on its network');
END;

CREATE TRIGGER box_audit AFTER INSERT ON box
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'box', NEW.id, 'created', '',
            json_object('name', NEW.name, 'role', NEW.role, 'mode', NEW.mode,
                        'key', lower(hex(NEW.identity_key))));
END;

-- Local: a person's own machine, where being paired is enough to ask. Networked: a Host has to hold
-- the anchor before anybody is answered. The row is the change; who made it is what the kernel says,
-- and where a factor is enrolled it was proven in this very transaction.
CREATE TABLE mode_change (
    id        INTEGER PRIMARY KEY,
    mode      TEXT    NOT NULL CHECK (mode IN ('local', 'networked')),
    at        INTEGER NOT NULL,
    by_uid    INTEGER NOT NULL CHECK (by_uid >= 0),
    factor_id INTEGER REFERENCES factor (id)
) STRICT;

CREATE TRIGGER mode_change_is_allowed BEFORE INSERT ON mode_change
BEGIN
    SELECT RAISE(ABORT, 'box.authority|the mode of a machine is changed with machine authority, by root')
     WHERE NEW.by_uid <> 0;
    SELECT RAISE(ABORT, 'box.role|only a machine that Hosts ask has a mode')
     WHERE (SELECT role FROM box) <> 'box';
    SELECT RAISE(ABORT, 'box.mode|the machine is in this mode already')
     WHERE (SELECT mode FROM box) = NEW.mode;
    SELECT RAISE(ABORT, 'box.anchored|a machine with an anchor stays on its network')
     WHERE NEW.mode = 'local' AND EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'box.factor|a factor is enrolled here, so it has to prove this change')
     WHERE EXISTS (SELECT 1 FROM factor WHERE state = 'active')
       AND ((SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
            OR NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms()));
END;

CREATE TRIGGER mode_change_is_done AFTER INSERT ON mode_change
BEGIN
    UPDATE box SET mode = NEW.mode;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'box', 1, NEW.mode, '',
            json_object('change', NEW.id, 'uid', NEW.by_uid, 'factor', NEW.factor_id));
END;

CREATE TRIGGER mode_change_no_update BEFORE UPDATE ON mode_change
BEGIN
    SELECT RAISE(ABORT, 'box.history|a change of mode is history');
END;

CREATE TRIGGER mode_change_no_delete BEFORE DELETE ON mode_change
BEGIN
    SELECT RAISE(ABORT, 'box.history|a change of mode is history');
END;

-- A Host that may ask. The key is the Host's; peer_uid is who served its socket when it paired.
CREATE TABLE pairing (
    id         INTEGER PRIMARY KEY,
    host_name  TEXT    NOT NULL CHECK (length(host_name) BETWEEN 1 AND 64
                       AND host_name NOT GLOB '*[^A-Za-z0-9.-]*' AND host_name NOT GLOB '-*'
                       AND instr(host_name, char(0)) = 0),
    host_key   BLOB    NOT NULL CHECK (length(host_key) = 32),
    state      TEXT    NOT NULL CHECK (state IN ('active', 'pending', 'revoked')),
    since      INTEGER NOT NULL,
    ended_at   INTEGER,
    renewed_at INTEGER,                                        -- the Host's last new code, --replace
    terms_id   INTEGER REFERENCES anchor_terms (id),           -- the approval it stands on; NULL: none
    peer_uid   INTEGER CHECK (peer_uid >= 0),                  -- NULL: over a network, where TLS says who
    -- 'unix': each other's sockets; 'tls': the Host dials this box; 'reverse': the box dials the Host.
    transport  TEXT    NOT NULL DEFAULT 'unix' CHECK (transport IN ('unix', 'tls', 'reverse')
                       AND (transport = 'unix') = (peer_uid IS NOT NULL)),
    CHECK ((state = 'revoked') = (ended_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX pairing_by_host ON pairing (host_name);
CREATE UNIQUE INDEX pairing_by_key ON pairing (host_key) WHERE state <> 'revoked';

-- A person's word at the terminal that one more Host may ask a local machine. It is worth something
-- in the transaction that it is written in, once.
CREATE TABLE pairing_consent (
    id        INTEGER PRIMARY KEY,
    host_name TEXT    NOT NULL CHECK (length(host_name) BETWEEN 1 AND 64),
    host_key  BLOB    NOT NULL CHECK (length(host_key) = 32),
    answer    TEXT    NOT NULL,                                -- as it was typed
    by_uid    INTEGER NOT NULL CHECK (by_uid >= 0),
    at        INTEGER NOT NULL,
    used      INTEGER NOT NULL DEFAULT 0 CHECK (used IN (0, 1))
) STRICT;

CREATE TRIGGER pairing_consent_is_a_yes BEFORE INSERT ON pairing_consent
WHEN lower(NEW.answer) NOT IN ('y', 'yes') OR NEW.at <> now_ms() OR NEW.used <> 0
BEGIN
    SELECT RAISE(ABORT, 'pairing.second|a second Host is paired on a plain y or yes alone');
END;

CREATE TRIGGER pairing_consent_once BEFORE UPDATE ON pairing_consent
WHEN OLD.used = 1 OR NEW.used <> 1 OR NEW.id IS NOT OLD.id OR NEW.host_name IS NOT OLD.host_name
  OR NEW.host_key IS NOT OLD.host_key OR NEW.answer IS NOT OLD.answer
  OR NEW.by_uid IS NOT OLD.by_uid OR NEW.at IS NOT OLD.at
BEGIN
    SELECT RAISE(ABORT, 'pairing.consent|a consent is used once and is history');
END;

CREATE TRIGGER pairing_consent_stays BEFORE DELETE ON pairing_consent
BEGIN
    SELECT RAISE(ABORT, 'pairing.consent|a consent is used once and is history');
END;

CREATE TRIGGER pairing_consent_audit AFTER INSERT ON pairing_consent
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_consent', NEW.id, 'given', '',
            json_object('host', NEW.host_name, 'key', lower(hex(NEW.host_key)), 'uid', NEW.by_uid));
END;

CREATE TRIGGER pairing_born BEFORE INSERT ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.key|a Host of this name is paired here with another key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name AND state <> 'revoked'
                      AND host_key <> NEW.host_key);
    SELECT RAISE(ABORT, 'pairing.exists|this Host is already paired here')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked')
       AND NOT EXISTS (SELECT 1 FROM pairing_consent WHERE host_name = NEW.host_name
                          AND host_key = NEW.host_key AND used = 0 AND at = now_ms());
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot begin in this state')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = '' AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'anchor.approval|the anchor has not approved this Host')
     WHERE NEW.state = 'active' AND EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing begins without an approval')
     WHERE NEW.terms_id IS NOT NULL OR NEW.renewed_at IS NOT NULL;
END;

CREATE TRIGGER pairing_moves BEFORE UPDATE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its Host')
     WHERE NEW.id IS NOT OLD.id OR NEW.host_name IS NOT OLD.host_name;
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its key until it is paired anew')
     WHERE OLD.state <> 'revoked'
       AND (NEW.host_key IS NOT OLD.host_key OR NEW.since IS NOT OLD.since
            OR ((NEW.peer_uid IS NOT OLD.peer_uid OR NEW.transport IS NOT OLD.transport)
                AND NEW.renewed_at IS NOT now_ms()));
    SELECT RAISE(ABORT, 'pairing.fixed|a revoked pairing changes when it is paired anew')
     WHERE OLD.state = 'revoked' AND NEW.state IS OLD.state;
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing is renewed while it stands, at the present time')
     WHERE NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
       AND (NEW.renewed_at <> now_ms() OR OLD.state = 'revoked' OR NEW.state IS NOT OLD.state);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE OLD.state = 'revoked' AND NEW.state <> 'revoked' AND (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked')
       AND NOT EXISTS (SELECT 1 FROM pairing_consent WHERE host_name = NEW.host_name
                          AND host_key = NEW.host_key AND used = 0 AND at = now_ms());
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE OLD.state = 'revoked' AND NEW.state <> 'revoked'
       AND EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
    -- What the anchor signed is newer than what the pairing stood on, and about this very Host.
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing stands on a newer approval of its own')
     WHERE NEW.terms_id IS NOT OLD.terms_id
       AND NOT (NEW.terms_id IS NULL AND OLD.state = 'revoked')
       AND NOT EXISTS (SELECT 1 FROM anchor_terms AS t WHERE t.id = NEW.terms_id
                          AND t.kind = 'pairing_grant' AND t.pairing_id = NEW.id
                          AND t.terms ->> '$.subject_key' = lower(hex(NEW.host_key))
                          AND t.taken_at = now_ms() AND t.id > coalesce(OLD.terms_id, 0));
    SELECT RAISE(ABORT, 'anchor.approval|the anchor has not approved this Host')
     WHERE OLD.state = 'pending' AND NEW.state = 'active' AND EXISTS (SELECT 1 FROM anchor)
       AND NEW.terms_id IS OLD.terms_id
       AND NOT EXISTS (SELECT 1 FROM anchor WHERE pairing_id = NEW.id AND host_key = NEW.host_key
                          AND claimed_at >= NEW.since);
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE OLD.state <> 'active' AND NEW.state = 'active'
       AND EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'anchor.approval|a pairing waits again where its approval ran out')
     WHERE OLD.state = 'active' AND NEW.state = 'pending'
       AND (OLD.id IS (SELECT pairing_id FROM anchor)
            OR NOT EXISTS (SELECT 1 FROM anchor_terms
                            WHERE id = OLD.terms_id AND expires_at <= now_ms()));
END;

CREATE TRIGGER pairing_uses_consent_birth AFTER INSERT ON pairing
BEGIN
    UPDATE pairing_consent SET used = 1
     WHERE host_name = NEW.host_name AND host_key = NEW.host_key AND used = 0;
END;

CREATE TRIGGER pairing_uses_consent_return AFTER UPDATE OF state ON pairing
WHEN OLD.state = 'revoked' AND NEW.state <> 'revoked'
BEGIN
    UPDATE pairing_consent SET used = 1
     WHERE host_name = NEW.host_name AND host_key = NEW.host_key AND used = 0;
END;

-- Taking a pairing back takes everything with it that it allowed.
CREATE TRIGGER pairing_revoked AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = NEW.ended_at, end_reason = 'pairing revoked'
     WHERE pairing_id = NEW.id AND state = 'active';
    UPDATE approval SET state = 'expired', decided_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state = 'pending';
    UPDATE op_run SET state = 'cancelled', finished_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state = 'queued' AND finished_at IS NULL;
END;

CREATE TRIGGER pairing_audit_birth AFTER INSERT ON pairing
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'transport', NEW.transport, 'peer_uid', NEW.peer_uid,
                        'key', lower(hex(NEW.host_key))));
END;

CREATE TRIGGER pairing_audit_move AFTER UPDATE OF state ON pairing WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'from', OLD.state));
END;

CREATE TRIGGER pairing_audit_renewal AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'from', OLD.state, 'renewed', json('true'),
                        'transport', NEW.transport, 'peer_uid', NEW.peer_uid));
END;

CREATE TRIGGER pairing_stays BEFORE DELETE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.kept|a pairing is revoked, not deleted: its history names it');
END;

-- Every Host here hears of a real change at once: one row for each, however many changes there are.
-- Whoever beats takes the row away and tells what is true by then.
CREATE TABLE beat_request (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    at         INTEGER NOT NULL
) STRICT;

CREATE TRIGGER pairing_beats AFTER UPDATE OF state ON pairing
WHEN NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.id)
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
    DELETE FROM beat_request WHERE pairing_id IN (SELECT id FROM pairing_status WHERE NOT active);
END;
