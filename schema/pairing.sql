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

-- What is wrong with a pairing that this build cannot serve. It is reported, never stored, and stands over
-- the state that is. Such a pairing can be listed, taken back and paired anew; nothing else.
CREATE VIEW pairing_invalid AS
SELECT e.pairing_id AS id,
       printf('its endpoint %d (pairing_endpoint, pairing %d) is not a host:port, so it is not served; take'
              || ' it back with bastion unpair %s, then pair anew', min(e.ord), p.id, p.host_name) AS reason
  FROM pairing_endpoint AS e JOIN pairing AS p ON p.id = e.pairing_id
 WHERE endpoint_text(e.endpoint) IS NULL
 GROUP BY e.pairing_id;

-- How each pairing stands.
CREATE VIEW pairing_status AS
SELECT p.id, p.host_name AS host, iif(i.id IS NULL, p.state, 'invalid') AS state,
       i.id IS NULL AND p.state = 'active' AS active, p.transport, p.since, i.reason
  FROM pairing AS p LEFT JOIN pairing_invalid AS i ON i.id = p.id;

-- Nothing is done for an invalid pairing. What a Host hears of it names no place of this machine.
CREATE TRIGGER pairing_active_if_valid BEFORE UPDATE OF state ON pairing
WHEN NEW.state = 'active' AND EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served: an endpoint of it is not a host:port');
END;

CREATE TRIGGER approval_of_a_valid_pairing BEFORE INSERT ON approval
WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served: an endpoint of it is not a host:port');
END;

CREATE TRIGGER grant_of_a_valid_pairing BEFORE INSERT ON grant
WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served: an endpoint of it is not a host:port');
END;

CREATE TRIGGER op_run_of_a_valid_pairing BEFORE INSERT ON op_run
WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served: an endpoint of it is not a host:port');
END;

CREATE TRIGGER context_ask_of_a_valid_pairing BEFORE INSERT ON context_ask
WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served: an endpoint of it is not a host:port');
END;
