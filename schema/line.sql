-- line.sql: which connections between boxes and Hosts are up. Nobody decides here who may ask: a line
-- only carries. What is up is so until the actor that holds it says otherwise, or begins anew.

-- On a Host: the connections that a box of transport 'reverse' has made, and when it was heard of.
CREATE TABLE box_line (
    box_id     INTEGER PRIMARY KEY REFERENCES host_box (id),
    up         INTEGER NOT NULL DEFAULT 0 CHECK (up >= 0),
    changed_at INTEGER NOT NULL,
    address    TEXT    CHECK (length(address) <= 64),          -- where the newest came from
    beat_time  INTEGER                                         -- of the last beat, as the box signed it
) STRICT;

CREATE TRIGGER box_line_born BEFORE INSERT ON box_line
BEGIN
    SELECT RAISE(ABORT, 'box.gone|the box is no longer paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

CREATE TRIGGER box_line_moves BEFORE UPDATE ON box_line
BEGIN
    SELECT RAISE(ABORT, 'box.gone|the box is no longer paired with this Host')
     WHERE (NEW.up > 0 OR NEW.beat_time IS NOT OLD.beat_time)
       AND (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

-- What was heard is not heard again, whoever says it.
CREATE TRIGGER box_line_beats_onwards BEFORE UPDATE OF beat_time ON box_line
WHEN NEW.beat_time <= OLD.beat_time
BEGIN
    SELECT RAISE(ABORT, 'beat.stale|this beat, or a newer one, of this box was heard');
END;

CREATE TRIGGER box_line_ends AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    UPDATE box_line SET up = 0, changed_at = NEW.gone_at WHERE box_id = NEW.id AND up > 0;
END;

-- That an actor died may not have been said yet.
CREATE VIEW lines_lost AS
SELECT a.id FROM actor_run AS a JOIN process AS p ON p.id = a.process_id
 WHERE a.actor = 'net' AND a.state IN ('starting', 'running')
   AND NOT process_alive(p.boot_id, p.pid, p.start_ticks);

-- How each box is to be reached now.
CREATE VIEW box_lines AS
SELECT b.id, b.name, b.transport, iif(l.up > 0 AND NOT EXISTS (SELECT 1 FROM lines_lost), l.up, 0) AS up, l.address,
       CASE WHEN b.state = 'gone' THEN 'gone'
            WHEN l.up > 0 AND NOT EXISTS (SELECT 1 FROM lines_lost) THEN 'connected'
            WHEN b.heard_at > now_ms() - (SELECT value FROM setting WHERE name = 'beat.silent_ms')
            THEN 'beating'
            ELSE 'silent' END AS line,
       b.heard_at, now_ms() - b.heard_at AS age_ms
  FROM host_box AS b LEFT JOIN box_line AS l ON l.box_id = b.id;

-- Asks that can leave now: over a line that the box made, no more at once than there are lines.
CREATE VIEW call_ready AS
SELECT c.id
  FROM call AS c JOIN host_box AS b ON b.id = c.box_id
 WHERE c.state IN ('asked', 'sent') AND c.state = 'asked'
   AND (b.transport <> 'reverse'
        OR (SELECT up FROM box_line WHERE box_id = b.id)
         > (SELECT count(*) FROM call AS s
             WHERE s.state IN ('asked', 'sent') AND s.state = 'sent' AND s.box_id = b.id));

-- Those that wait for a line, until when, and what to say then.
CREATE VIEW call_waits AS
SELECT c.id, c.asked_at + (SELECT value FROM setting
                             WHERE name = iif(l.up > 0, 'line.busy_ms', 'line.wait_ms')) AS until,
       iif(l.up > 0, 'reverse.busy', 'reverse.offline') AS code,
       iif(l.up > 0, printf('every one of the %d connections of the box is in use', l.up),
           'the box is not connected') AS why
  FROM call AS c JOIN host_box AS b ON b.id = c.box_id LEFT JOIN box_line AS l ON l.box_id = b.id
 WHERE c.state IN ('asked', 'sent') AND c.state = 'asked' AND b.transport = 'reverse';

-- On a box: the connections to the Host of a pairing of transport 'reverse'. The row comes first, and
-- with it the right to dial.
CREATE TABLE pairing_line (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    up         INTEGER NOT NULL DEFAULT 0 CHECK (up >= 0),
    changed_at INTEGER NOT NULL,
    endpoint   TEXT,                                           -- that is dialled, or was reached last
    code       TEXT    CHECK (length(code) <= 64),             -- why the last was lost or not made
    why        TEXT    CHECK (length(why) <= 512)
) STRICT;

CREATE TRIGGER pairing_line_is_served BEFORE INSERT ON pairing_line
BEGIN
    SELECT RAISE(ABORT, 'pairing.unserved|only a pairing that is active and valid is served')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_dialled WHERE pairing_id = NEW.pairing_id);
END;

CREATE TRIGGER pairing_line_stays_served BEFORE UPDATE ON pairing_line
BEGIN
    SELECT RAISE(ABORT, 'pairing.unserved|only a pairing that is active and valid is served')
     WHERE NEW.up > OLD.up
       AND NOT EXISTS (SELECT 1 FROM pairing_dialled WHERE pairing_id = NEW.pairing_id);
END;

CREATE TRIGGER pairing_line_ends AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM pairing_line WHERE pairing_id = NEW.id;
END;

-- The Hosts that are reached over a network: where, in the order to try, and as whom.
CREATE VIEW pairing_reached AS
SELECT s.id AS pairing_id, s.host, s.transport,
       (SELECT json_group_array(endpoint)
          FROM (SELECT endpoint FROM pairing_dial WHERE pairing_id = s.id ORDER BY ord))
         AS endpoints,
       (SELECT printf('%d %s', i.id, lower(hex(t.fp)))
          FROM tls_identity AS i JOIN pairing_tls AS t ON t.pairing_id = s.id
         WHERE i.pairing_id = s.id AND i.state = 'current') AS identity
  FROM pairing_status AS s
 WHERE s.active AND s.transport <> 'unix'
   AND EXISTS (SELECT 1 FROM pairing_dial WHERE pairing_id = s.id);

-- Those of them whose lines this box keeps up: what differs is dialled anew.
CREATE VIEW pairing_dialled AS
SELECT pairing_id, host, endpoints, identity FROM pairing_reached WHERE transport = 'reverse';

-- Where the Host of a pairing over a unix socket takes what this box says of itself.
CREATE TABLE pairing_socket (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    path       TEXT    NOT NULL CHECK (path GLOB '/*' AND length(CAST(path AS BLOB)) <= 103
                       AND instr(path, char(0)) = 0)
) STRICT;

CREATE TRIGGER pairing_socket_ends_with_transport AFTER UPDATE OF transport ON pairing
WHEN NEW.transport <> 'unix'
BEGIN
    DELETE FROM pairing_socket WHERE pairing_id = NEW.id;
END;

CREATE TRIGGER pairing_socket_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM pairing_socket WHERE pairing_id = NEW.id;
END;

-- Which Hosts are told how this box is, and by what way: what differs is taken up anew.
CREATE VIEW pairing_beats AS
SELECT s.id AS pairing_id, k.path AS socket, s.peer_uid, json_array() AS endpoints,
       printf('%s %d', k.path, s.peer_uid) AS facts
  FROM pairing_status AS s JOIN pairing_socket AS k ON k.pairing_id = s.id
 WHERE s.active AND s.transport = 'unix'
UNION ALL
SELECT d.pairing_id, NULL, NULL, d.endpoints, d.endpoints || ' ' || d.identity
  FROM pairing_reached AS d
 WHERE d.identity IS NOT NULL;
