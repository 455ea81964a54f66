-- box.sql: this machine, and the Hosts that it is paired with.

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

CREATE TRIGGER box_audit AFTER INSERT ON box
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'box', NEW.id, 'created', '',
            json_object('name', NEW.name, 'role', NEW.role, 'mode', NEW.mode,
                        'key', lower(hex(NEW.identity_key))));
END;

-- A Host that may ask. The key is the Host's; peer_uid is who served its socket when it paired.
CREATE TABLE pairing (
    id         INTEGER PRIMARY KEY,
    host_name  TEXT    NOT NULL CHECK (length(host_name) BETWEEN 1 AND 64
                       AND host_name NOT GLOB '*[^A-Za-z0-9.-]*' AND host_name NOT GLOB '-*'
                       AND instr(host_name, char(0)) = 0),
    transport  TEXT    NOT NULL CHECK (transport IN ('unix')),
    host_key   BLOB    NOT NULL CHECK (length(host_key) = 32),
    peer_uid   INTEGER NOT NULL CHECK (peer_uid >= 0),
    state      TEXT    NOT NULL CHECK (state IN ('active', 'pending', 'revoked')),
    since      INTEGER NOT NULL,
    ended_at   INTEGER,
    CHECK ((state = 'revoked') = (ended_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX pairing_by_host ON pairing (host_name);
CREATE UNIQUE INDEX pairing_by_key ON pairing (host_key) WHERE state <> 'revoked';

CREATE TRIGGER pairing_born BEFORE INSERT ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.key|a Host of this name is paired here with another key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name AND state <> 'revoked'
                      AND host_key <> NEW.host_key);
    SELECT RAISE(ABORT, 'pairing.exists|this Host is already paired here')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot begin in this state')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = '' AND to_state = NEW.state);
END;

CREATE TRIGGER pairing_moves BEFORE UPDATE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its Host')
     WHERE NEW.id IS NOT OLD.id OR NEW.host_name IS NOT OLD.host_name;
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its key until it is paired anew')
     WHERE NEW.state IS OLD.state
       AND (NEW.host_key IS NOT OLD.host_key OR NEW.peer_uid IS NOT OLD.peer_uid
            OR NEW.since IS NOT OLD.since);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE OLD.state = 'revoked' AND NEW.state <> 'revoked' AND (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE OLD.state = 'revoked' AND NEW.state <> 'revoked'
       AND EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
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

CREATE TRIGGER pairing_stays BEFORE DELETE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.kept|a pairing is revoked, not deleted: its history names it');
END;
