-- host_egress.sql: the Host role: ports of this machine whose connections go out of a box.

-- A port of 127.0.0.1, for the user of the daemon and root. What comes in there goes over a connection that the
-- box has parked here to its internet lane, which decides.
CREATE TABLE egress_port (
    box_id  INTEGER PRIMARY KEY REFERENCES host_box (id),
    port    INTEGER NOT NULL UNIQUE CHECK (port BETWEEN 1 AND 65535),
    made_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER egress_port_born BEFORE INSERT ON egress_port
BEGIN
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'parked.near|a box on the same machine parks nothing here: its lane has sockets of its own')
     WHERE (SELECT transport FROM host_box WHERE id = NEW.box_id) = 'unix';
    SELECT RAISE(ABORT, 'parked.port|another box has this port')
     WHERE EXISTS (SELECT 1 FROM egress_port WHERE port = NEW.port AND box_id <> NEW.box_id);
    DELETE FROM egress_port WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER egress_port_no_update BEFORE UPDATE ON egress_port
BEGIN
    SELECT RAISE(ABORT, 'parked.fixed|a port is replaced, never edited');
END;

CREATE TRIGGER egress_port_audit_birth AFTER INSERT ON egress_port
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_port', NEW.box_id, 'added', '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'port', NEW.port));
END;

CREATE TRIGGER egress_port_audit_end AFTER DELETE ON egress_port
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_port', OLD.box_id, 'removed', '',
            json_object('box', (SELECT name FROM host_box WHERE id = OLD.box_id), 'port', OLD.port));
END;

CREATE TRIGGER egress_port_ends AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    DELETE FROM egress_port WHERE box_id = NEW.id;
END;

-- Connections that a box has parked here, and those in use: so until the actor says otherwise, or begins anew.
CREATE TABLE box_parked (
    box_id     INTEGER PRIMARY KEY REFERENCES host_box (id),
    parked     INTEGER NOT NULL DEFAULT 0 CHECK (parked >= 0),
    busy       INTEGER NOT NULL DEFAULT 0 CHECK (busy >= 0),
    waiting    INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),  -- connections that none was free for yet
    changed_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER box_parked_born BEFORE INSERT ON box_parked
BEGIN
    SELECT RAISE(ABORT, 'box.gone|the box is no longer paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

CREATE TRIGGER box_parked_ends AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    DELETE FROM box_parked WHERE box_id = NEW.id;
END;

-- Which boxes can be reached through, by which port, and is anything going on there?
CREATE VIEW egress_ports AS
SELECT b.id AS box_id, b.name AS box, p.port,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.parked, 0)) AS parked,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.busy, 0)) AS busy,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.waiting, 0)) AS waiting
  FROM host_box AS b LEFT JOIN egress_port AS p ON p.box_id = b.id LEFT JOIN box_parked AS w ON w.box_id = b.id
 WHERE b.state = 'active' AND (p.port IS NOT NULL OR w.parked > 0 OR w.busy > 0);
