-- pairing.sql: where the Host of a pairing is reached, and which pairings are served at all.

-- The whole set is replaced at once. A pairing over a unix socket has none.
CREATE TABLE pairing_endpoint (
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    ord        INTEGER NOT NULL CHECK (ord >= 1),              -- the order in which they are tried
    endpoint   TEXT    NOT NULL,                               -- as endpoint_text() spells it
    PRIMARY KEY (pairing_id, ord)
) STRICT, WITHOUT ROWID;

-- No CHECK: a row that an earlier version took stays readable, visible and removable under a stricter one.
CREATE TRIGGER pairing_endpoint_is_one BEFORE INSERT ON pairing_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.invalid|an endpoint of this list is not a host:port')
     WHERE endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than the setting pairing.endpoints allows')
     WHERE (SELECT count(*) FROM pairing_endpoint WHERE pairing_id = NEW.pairing_id)
        >= (SELECT value FROM setting WHERE name = 'pairing.endpoints');
END;

CREATE TRIGGER pairing_endpoint_no_update BEFORE UPDATE ON pairing_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.fixed|endpoints are replaced, never edited');
END;

CREATE TRIGGER pairing_endpoint_audit_birth AFTER INSERT ON pairing_endpoint
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_endpoint', NEW.pairing_id, 'added',
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('ord', NEW.ord, 'endpoint', NEW.endpoint));
END;

CREATE TRIGGER pairing_endpoint_audit_end AFTER DELETE ON pairing_endpoint
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_endpoint', OLD.pairing_id, 'removed',
            (SELECT host_name FROM pairing WHERE id = OLD.pairing_id),
            json_object('ord', OLD.ord, 'endpoint', OLD.endpoint));
END;

CREATE TRIGGER pairing_endpoint_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM pairing_endpoint WHERE pairing_id = NEW.id;
END;

-- A new code says anew where its Host is reached.
CREATE TRIGGER pairing_endpoint_ends_with_code AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    DELETE FROM pairing_endpoint WHERE pairing_id = NEW.id;
END;

-- What is wrong with a record that this build cannot serve, one row each. It is reported, never
-- stored, and stands over the state that is. Such a pairing can be listed, paired anew and taken
-- back; it is never asked for, approved, made the anchor or told of to a Host: the triggers that
-- would let it look here. (The largest user is nobody's number.)
CREATE VIEW pairing_invalid AS
SELECT id, 'no process of this machine can be the user that served this Host' AS reason
  FROM pairing WHERE state <> 'revoked' AND peer_uid >= 4294967295
UNION ALL
SELECT p.id, printf('its endpoint %d is not a host:port',
                    (SELECT min(ord) FROM pairing_endpoint
                      WHERE pairing_id = p.id AND endpoint_text(endpoint) IS NULL))
  FROM pairing AS p
 WHERE (p.peer_uid IS NULL OR p.peer_uid < 4294967295)
   AND EXISTS (SELECT 1 FROM pairing_endpoint
                WHERE pairing_id = p.id AND endpoint_text(endpoint) IS NULL)
UNION ALL
SELECT p.id, 'it is over a network, and what its Host''s authority is was lost'
  FROM pairing AS p
 WHERE p.state <> 'revoked' AND p.transport <> 'unix'
   AND NOT EXISTS (SELECT 1 FROM pairing_tls WHERE pairing_id = p.id);

-- A Host at a socket here, with no endpoint: nothing of the above can be wrong with it. Whoever decides
-- often looks here first.
CREATE VIEW pairing_plain AS
SELECT id FROM pairing AS p WHERE transport = 'unix' AND peer_uid < 4294967295
   AND NOT EXISTS (SELECT 1 FROM pairing_endpoint WHERE pairing_id = p.id);

-- How each pairing stands. A handle is the name up to its first dot.
CREATE VIEW pairing_status AS
SELECT p.id, p.host_name AS host,
       substr(p.host_name, 1, instr(p.host_name || '.', '.') - 1) AS handle,
       CASE WHEN i.reason IS NULL THEN p.state ELSE 'invalid' END AS state,
       i.reason IS NULL AND p.state = 'active' AS active,
       p.id IS (SELECT pairing_id FROM anchor) AS anchor,
       p.transport, p.peer_uid, p.since, p.renewed_at, p.ended_at, t.expires_at, t.caps, i.reason
  FROM pairing AS p
  LEFT JOIN pairing_invalid AS i ON i.id = p.id
  LEFT JOIN anchor_terms AS t ON t.id = p.terms_id;
