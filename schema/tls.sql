-- tls.sql: who this machine is under TLS, whom it takes for a Host or a box there, and where it listens.

-- The authority of this machine. A Host's names its port and its boxes, and a pairing code pins it; a
-- box's names the listener of the box. Its key opens with the machine's own secret alone.
CREATE TABLE tls_authority (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    cert      BLOB    NOT NULL CHECK (length(cert) BETWEEN 1 AND 8192),        -- DER
    fp        BLOB    NOT NULL CHECK (length(fp) = 32),                        -- SHA-256 of it
    key       BLOB    NOT NULL CHECK (length(key) BETWEEN 41 AND 4096),        -- sealed
    not_after INTEGER NOT NULL,
    made_at   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER tls_authority_once BEFORE INSERT ON tls_authority
BEGIN
    SELECT RAISE(ABORT, 'tls.authority|this machine has an authority, and whoever is paired pins it')
     WHERE EXISTS (SELECT 1 FROM tls_authority);
END;

CREATE TRIGGER tls_authority_fixed BEFORE UPDATE ON tls_authority
BEGIN
    SELECT RAISE(ABORT, 'tls.authority|this machine has an authority, and whoever is paired pins it');
END;

CREATE TRIGGER tls_authority_stays BEFORE DELETE ON tls_authority
BEGIN
    SELECT RAISE(ABORT, 'tls.authority|this machine has an authority, and whoever is paired pins it');
END;

CREATE TRIGGER tls_authority_audit AFTER INSERT ON tls_authority
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'tls_authority', NEW.id, 'created', '',
            json_object('fp', lower(hex(NEW.fp)), 'not_after', NEW.not_after));
END;

-- The authority of a Host that this box is paired with over a network, as it was pinned.
CREATE TABLE pairing_tls (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    authority  BLOB    NOT NULL CHECK (length(authority) BETWEEN 1 AND 8192),  -- DER
    fp         BLOB    NOT NULL CHECK (length(fp) = 32),                       -- SHA-256 of it
    pinned_at  INTEGER NOT NULL
) STRICT;

-- Another authority is another Host, also where it has the key of the first.
CREATE TRIGGER pairing_tls_born BEFORE INSERT ON pairing_tls
BEGIN
    SELECT RAISE(ABORT, 'pairing.authority|a Host of this name is paired here with another authority')
     WHERE EXISTS (SELECT 1 FROM pairing_tls WHERE pairing_id = NEW.pairing_id AND fp <> NEW.fp);
    SELECT RAISE(ABORT, 'pairing.transport|a pairing over a unix socket pins no authority')
     WHERE (SELECT transport FROM pairing WHERE id = NEW.pairing_id) IS 'unix';
    SELECT RAISE(ABORT, 'pairing.authority|the authority is not the one of this fingerprint')
     WHERE sha256(NEW.authority) <> NEW.fp;
END;

CREATE TRIGGER pairing_tls_fixed BEFORE UPDATE ON pairing_tls
BEGIN
    SELECT RAISE(ABORT, 'pairing.authority|a pairing keeps the authority that it pinned');
END;

CREATE TRIGGER pairing_tls_stays BEFORE DELETE ON pairing_tls
WHEN EXISTS (SELECT 1 FROM pairing WHERE id = OLD.pairing_id AND state <> 'revoked')
 AND NOT EXISTS (SELECT 1 FROM pairing WHERE id = OLD.pairing_id AND transport = 'unix')
BEGIN
    SELECT RAISE(ABORT, 'pairing.authority|what a pairing pins ends with the pairing');
END;

CREATE TRIGGER pairing_tls_audit AFTER INSERT ON pairing_tls
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_tls', NEW.pairing_id, 'pinned',
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('fp', lower(hex(NEW.fp))));
END;

-- The certificates that this machine shows, each with its key. Under its own authority (pairing_id
-- NULL) it is the server of its port or listener, and as a Host the client of boxes that listen;
-- under that of a Host it is the client of that Host. The actor net opens these keys and no others.
CREATE TABLE tls_identity (
    id         INTEGER PRIMARY KEY,
    use        TEXT    NOT NULL CHECK (use IN ('server', 'client')),
    pairing_id INTEGER REFERENCES pairing (id),
    state      TEXT    NOT NULL DEFAULT 'current' CHECK (state IN ('current', 'past')),
    cert       BLOB    NOT NULL CHECK (length(cert) BETWEEN 1 AND 8192),       -- DER
    fp         BLOB    NOT NULL UNIQUE CHECK (length(fp) = 32),
    key        BLOB    CHECK (length(key) BETWEEN 41 AND 4096),                -- sealed; gone with its time
    not_before INTEGER NOT NULL,
    not_after  INTEGER NOT NULL CHECK (not_after > not_before),
    made_at    INTEGER NOT NULL,
    ended_at   INTEGER,
    CHECK ((state = 'current') = (key IS NOT NULL)),
    CHECK ((state = 'past') = (ended_at IS NOT NULL)),
    CHECK (pairing_id IS NULL OR use = 'client')
) STRICT;

CREATE UNIQUE INDEX tls_identity_current ON tls_identity (use, coalesce(pairing_id, 0))
 WHERE state = 'current';

-- A newer one takes the place of the older.
CREATE TRIGGER tls_identity_born BEFORE INSERT ON tls_identity
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate begins as the current one')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'tls_identity' AND from_state = '' AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'pairing.transport|a certificate is for a pairing over a network that stands')
     WHERE NEW.pairing_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM pairing AS p JOIN pairing_tls AS t ON t.pairing_id = p.id
                        WHERE p.id = NEW.pairing_id AND p.state <> 'revoked'
                          AND p.transport <> 'unix');
    UPDATE tls_identity SET state = 'past', key = NULL, ended_at = now_ms()
     WHERE use = NEW.use AND pairing_id IS NEW.pairing_id AND state = 'current';
END;

CREATE TRIGGER tls_identity_moves BEFORE UPDATE ON tls_identity
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate that is past is history')
     WHERE OLD.state = 'past';
    SELECT RAISE(ABORT, 'tls.identity|a certificate only ends')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'tls_identity' AND from_state = OLD.state AND to_state = NEW.state)
        OR NEW.id IS NOT OLD.id OR NEW.use IS NOT OLD.use
        OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.cert IS NOT OLD.cert OR NEW.fp IS NOT OLD.fp
        OR NEW.not_before IS NOT OLD.not_before OR NEW.not_after IS NOT OLD.not_after
        OR NEW.made_at IS NOT OLD.made_at;
END;

CREATE TRIGGER tls_identity_stays BEFORE DELETE ON tls_identity
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate that is past is history');
END;

CREATE TRIGGER tls_identity_audit AFTER INSERT ON tls_identity
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'tls_identity', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('use', NEW.use, 'fp', lower(hex(NEW.fp)), 'not_after', NEW.not_after));
END;

CREATE TRIGGER tls_identity_audit_move AFTER UPDATE OF state ON tls_identity
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'tls_identity', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('use', NEW.use));
END;

-- With the pairing end its certificate and what it pinned.
CREATE TRIGGER pairing_tls_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE tls_identity SET state = 'past', key = NULL, ended_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state = 'current';
    DELETE FROM pairing_tls WHERE pairing_id = NEW.id;
END;

-- A pairing that went over to a unix socket shows no certificate any more.
CREATE TRIGGER pairing_tls_ends_with_transport AFTER UPDATE OF transport ON pairing
WHEN NEW.transport = 'unix' AND OLD.transport <> 'unix'
BEGIN
    UPDATE tls_identity SET state = 'past', key = NULL, ended_at = now_ms()
     WHERE pairing_id = NEW.id AND state = 'current';
    DELETE FROM pairing_tls WHERE pairing_id = NEW.id;
END;

-- What this Host's authority has issued to a box. It begins as the box's key, which the actor net took
-- from a request; the actor link, which opens the authority, issues.
CREATE TABLE box_certificate (
    id         INTEGER PRIMARY KEY,
    box_id     INTEGER NOT NULL REFERENCES host_box (id),
    public_key BLOB    NOT NULL CHECK (length(public_key) BETWEEN 1 AND 2048), -- SubjectPublicKeyInfo, DER
    asked_at   INTEGER NOT NULL,
    cert       BLOB    CHECK (length(cert) BETWEEN 1 AND 8192),                -- DER
    fp         BLOB    UNIQUE CHECK (length(fp) = 32),
    not_after  INTEGER,
    issued_at  INTEGER,
    CHECK ((cert IS NULL) = (fp IS NULL) AND (cert IS NULL) = (not_after IS NULL)
           AND (cert IS NULL) = (issued_at IS NULL))
) STRICT;

CREATE INDEX box_certificate_due ON box_certificate (id) WHERE cert IS NULL;

CREATE INDEX box_certificate_by_box ON box_certificate (box_id, id);

CREATE TRIGGER box_certificate_is_allowed BEFORE INSERT ON box_certificate
BEGIN
    SELECT RAISE(ABORT, 'box.gone|a certificate is for a box that is paired over a network')
     WHERE NOT EXISTS (SELECT 1 FROM host_box WHERE id = NEW.box_id AND state = 'active'
                          AND transport <> 'unix');
    SELECT RAISE(ABORT, 'tls.busy|a certificate of this box is being issued')
     WHERE EXISTS (SELECT 1 FROM box_certificate WHERE box_id = NEW.box_id AND cert IS NULL);
    SELECT RAISE(ABORT, 'tls.often|this box has had its certificates of today')
     WHERE (SELECT count(*) FROM box_certificate
             WHERE box_id = NEW.box_id AND asked_at > now_ms() - 86400000)
        >= (SELECT value FROM setting WHERE name = 'tls.per_day');
    SELECT RAISE(ABORT, 'tls.identity|a certificate begins with its key')
     WHERE NEW.cert IS NOT NULL;
END;

CREATE TRIGGER box_certificate_once BEFORE UPDATE ON box_certificate
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate is issued once')
     WHERE OLD.cert IS NOT NULL OR NEW.cert IS NULL OR NEW.id IS NOT OLD.id
        OR NEW.box_id IS NOT OLD.box_id OR NEW.public_key IS NOT OLD.public_key
        OR NEW.asked_at IS NOT OLD.asked_at;
    SELECT RAISE(ABORT, 'box.gone|a certificate is for a box that is paired over a network')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

CREATE TRIGGER box_certificate_stays BEFORE DELETE ON box_certificate
BEGIN
    SELECT RAISE(ABORT, 'tls.identity|a certificate that is past is history');
END;

CREATE TRIGGER box_certificate_audit AFTER UPDATE OF cert ON box_certificate
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'box_certificate', NEW.id, 'issued', '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id),
                        'fp', lower(hex(NEW.fp)), 'not_after', NEW.not_after));
END;

-- Whose certificate is in force: the box's last one and the one before, which it may still show.
CREATE VIEW box_shown AS
SELECT c.fp, c.box_id, b.name, c.not_after
  FROM box_certificate AS c JOIN host_box AS b ON b.id = c.box_id
 WHERE b.state = 'active' AND b.transport <> 'unix' AND c.fp IS NOT NULL
   AND (SELECT count(*) FROM box_certificate AS n
         WHERE n.box_id = c.box_id AND n.fp IS NOT NULL AND n.id > c.id) < 2;

-- What is to be renewed by now: before the last third of its life here, and in time. (It begins before it
-- was made, for clocks that are behind: a short life would be over from the start.)
CREATE VIEW tls_due AS
SELECT i.id, i.use, i.pairing_id, i.not_after
  FROM tls_identity AS i
 WHERE i.state = 'current'
   AND i.not_after - min((SELECT value FROM setting WHERE name = 'tls.renew_ms'),
                         (i.not_after - max(i.not_before, i.made_at)) / 3) <= now_ms();

-- What this machine is to make under its own authority: it lacks it, or has not for long.
CREATE VIEW tls_wanted AS
SELECT w.use
  FROM (SELECT 'server' AS use WHERE EXISTS (SELECT 1 FROM listen)
                                    OR EXISTS (SELECT 1 FROM remote_listen)
        UNION ALL
        SELECT 'client' WHERE EXISTS (SELECT 1 FROM host_box
                                       WHERE state = 'active' AND transport = 'tls')) AS w
 WHERE NOT EXISTS (SELECT 1 FROM tls_identity AS i
                    WHERE i.use = w.use AND i.pairing_id IS NULL AND i.state = 'current'
                      AND i.id NOT IN (SELECT id FROM tls_due));

-- Where this machine listens on a network: a Host for boxes, a box for Hosts. '*' is every address.
CREATE TABLE listen (
    what    TEXT    PRIMARY KEY CHECK (what IN ('host', 'lane')),
    address TEXT    NOT NULL,
    port    INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    set_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER listen_is_one BEFORE INSERT ON listen
BEGIN
    SELECT RAISE(ABORT, 'listen.invalid|this is no address to listen on: * or an IP address, and a port')
     WHERE NEW.address <> '*'
       AND (endpoint_text(NEW.address || ':1') IS NOT NEW.address || ':1'
            OR (NEW.address NOT GLOB '[[]*' AND NEW.address GLOB '*[^0-9.]*'));
    SELECT RAISE(ABORT, 'listen.role|a Host listens for boxes, a box listens for Hosts')
     WHERE NEW.what IS NOT (SELECT CASE role WHEN 'host' THEN 'host' ELSE 'lane' END FROM box);
END;

CREATE TRIGGER listen_no_update BEFORE UPDATE ON listen
BEGIN
    SELECT RAISE(ABORT, 'listen.fixed|where this machine listens is replaced, never edited');
END;

CREATE TRIGGER listen_audit_birth AFTER INSERT ON listen
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'listen', 0, 'added', '',
            json_object('what', NEW.what, 'address', NEW.address, 'port', NEW.port));
END;

CREATE TRIGGER listen_audit_end AFTER DELETE ON listen
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'listen', 0, 'removed', '',
            json_object('what', OLD.what, 'address', OLD.address, 'port', OLD.port));
END;

-- Where boxes reach this Host, as its codes name it, in the order in which they are tried.
CREATE TABLE host_address (
    ord      INTEGER PRIMARY KEY CHECK (ord >= 1),
    endpoint TEXT    NOT NULL UNIQUE                           -- as endpoint_text() spells it
) STRICT;

CREATE TRIGGER host_address_is_one BEFORE INSERT ON host_address
BEGIN
    SELECT RAISE(ABORT, 'endpoint.invalid|an endpoint of this list is not a host:port')
     WHERE endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than a pairing code can name')
     WHERE (SELECT count(*) FROM host_address)
        >= (SELECT value FROM setting WHERE name = 'host.addresses');
END;

CREATE TRIGGER host_address_no_update BEFORE UPDATE ON host_address
BEGIN
    SELECT RAISE(ABORT, 'endpoint.fixed|endpoints are replaced, never edited');
END;

CREATE TRIGGER host_address_audit_birth AFTER INSERT ON host_address
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'host_address', NEW.ord, 'added', '', json_object('endpoint', NEW.endpoint));
END;

CREATE TRIGGER host_address_audit_end AFTER DELETE ON host_address
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'host_address', OLD.ord, 'removed', '', json_object('endpoint', OLD.endpoint));
END;
