-- 0004_tls.sql: pairing over a network: authorities, certificates, where this machine listens.

-- A pairing and a box get other ways to reach each other than sockets of one machine. What looks at
-- the columns that change goes first and comes back below; the views stand empty meanwhile, since others
-- look at them.
DROP TRIGGER pairing_moves;
DROP TRIGGER pairing_audit_birth;
DROP TRIGGER pairing_audit_renewal;
DROP VIEW pairing_status;
DROP VIEW pairing_invalid;
CREATE VIEW pairing_invalid AS SELECT 0 AS id, '' AS reason WHERE 0;
CREATE VIEW pairing_status AS
SELECT 0 AS id, '' AS host, '' AS handle, '' AS state, 0 AS active, 0 AS anchor, '' AS transport,
       0 AS peer_uid, 0 AS since, 0 AS renewed_at, 0 AS ended_at, 0 AS expires_at, '' AS caps, '' AS reason
 WHERE 0;
ALTER TABLE pairing ADD COLUMN peer_was INTEGER CHECK (peer_was >= 0);
UPDATE pairing SET peer_was = peer_uid;
ALTER TABLE pairing DROP COLUMN peer_uid;
ALTER TABLE pairing DROP COLUMN transport;
ALTER TABLE pairing RENAME COLUMN peer_was TO peer_uid;
ALTER TABLE pairing ADD COLUMN transport TEXT NOT NULL DEFAULT 'unix' CHECK (transport IN ('unix', 'tls', 'reverse')
                       AND (transport = 'unix') = (peer_uid IS NOT NULL));

DROP TRIGGER host_box_born;
DROP TRIGGER host_box_moves;
DROP TRIGGER host_box_audit;
DROP VIEW boxes;
ALTER TABLE host_box ADD COLUMN lane_was TEXT CHECK (lane_was GLOB '/*' AND length(CAST(lane_was AS BLOB)) <= 103
                          AND instr(lane_was, char(0)) = 0);
ALTER TABLE host_box ADD COLUMN peer_was INTEGER CHECK (peer_was >= 0);
UPDATE host_box SET lane_was = lane, peer_was = peer_uid;
ALTER TABLE host_box DROP COLUMN lane;
ALTER TABLE host_box DROP COLUMN peer_uid;
ALTER TABLE host_box RENAME COLUMN lane_was TO lane;
ALTER TABLE host_box RENAME COLUMN peer_was TO peer_uid;
ALTER TABLE host_box ADD COLUMN endpoint TEXT;
ALTER TABLE host_box ADD COLUMN authority BLOB CHECK (length(authority) BETWEEN 1 AND 8192);
ALTER TABLE host_box ADD COLUMN transport TEXT NOT NULL DEFAULT 'unix' CHECK (transport IN ('unix', 'tls', 'reverse')
                          AND (transport = 'unix') = (lane IS NOT NULL)
                          AND (transport = 'unix') = (peer_uid IS NOT NULL)
                          AND (transport = 'tls') = (endpoint IS NOT NULL)
                          AND (transport = 'tls') = (authority IS NOT NULL));

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

-- What is to be renewed by now: before its last third, and in time.
CREATE VIEW tls_due AS
SELECT i.id, i.use, i.pairing_id, i.not_after
  FROM tls_identity AS i
 WHERE i.state = 'current'
   AND i.not_after - min((SELECT value FROM setting WHERE name = 'tls.renew_ms'),
                         (i.not_after - i.not_before) / 3) <= now_ms();

-- What this machine is to make under its own authority: it lacks it, or has not for long.
CREATE VIEW tls_wanted AS
SELECT w.use
  FROM (SELECT 'server' AS use WHERE EXISTS (SELECT 1 FROM listen)
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

DROP VIEW pairing_status;
DROP VIEW pairing_invalid;

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

CREATE TRIGGER pairing_audit_birth AFTER INSERT ON pairing
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'transport', NEW.transport, 'peer_uid', NEW.peer_uid,
                        'key', lower(hex(NEW.host_key))));
END;

CREATE TRIGGER pairing_audit_renewal AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'from', OLD.state, 'renewed', json('true'),
                        'transport', NEW.transport, 'peer_uid', NEW.peer_uid));
END;

CREATE TRIGGER host_box_born BEFORE INSERT ON host_box
BEGIN
    SELECT RAISE(ABORT, 'box.uninvited|a box comes in on an invitation of its own that it has redeemed')
     WHERE (SELECT state FROM invitation WHERE id = NEW.invitation_id) IS NOT 'redeemed'
        OR EXISTS (SELECT 1 FROM host_box WHERE invitation_id = NEW.invitation_id);
    SELECT RAISE(ABORT, 'invitation.name|the invitation is for a machine of another name')
     WHERE (SELECT box_name FROM invitation WHERE id = NEW.invitation_id) IS NOT NEW.name;
    SELECT RAISE(ABORT, 'box.lane|a lane is the absolute path of a socket, at most 103 bytes long')
     WHERE NEW.lane NOT GLOB '/*' OR length(CAST(NEW.lane AS BLOB)) > 103
        OR instr(NEW.lane, char(0)) > 0;
    SELECT RAISE(ABORT, 'endpoint.invalid|the box listens at no host:port')
     WHERE NEW.endpoint IS NOT NULL
       AND (endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint));
    SELECT RAISE(ABORT, 'box.transition|a box begins as active') WHERE NEW.state <> 'active';
    UPDATE host_box SET state = 'gone', gone_at = NEW.paired_at
     WHERE name = NEW.name AND state = 'active';
END;

CREATE TRIGGER host_box_moves BEFORE UPDATE ON host_box
BEGIN
    SELECT RAISE(ABORT, 'box.final|a box that is gone is history')
     WHERE OLD.state = 'gone' AND NEW.state IS OLD.state;
    SELECT RAISE(ABORT, 'box.transition|a box that is gone is invited again')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'host_box' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'box.identity|a box keeps its name, key and invitation')
     WHERE NEW.name IS NOT OLD.name OR NEW.box_key IS NOT OLD.box_key
        OR NEW.invitation_id IS NOT OLD.invitation_id;
END;

CREATE TRIGGER host_box_audit AFTER INSERT ON host_box
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_box', NEW.id, NEW.state, '',
            json_object('box', NEW.name, 'key', lower(hex(NEW.box_key)), 'transport', NEW.transport,
                        'lane', NEW.lane, 'endpoint', NEW.endpoint));
END;

CREATE VIEW boxes AS
SELECT b.id, b.name, b.state, b.paired_at, b.heard_at, b.transport,
       coalesce(b.lane, b.endpoint) AS lane,
       (SELECT count(*) FROM call AS c WHERE c.box_id = b.id) AS asks,
       CASE w.state WHEN 'followed' THEN printf('fits, %d rows', w.size)
                    WHEN 'behind' THEN 'ROLLED BACK: ' || w.why
                    WHEN 'forked' THEN 'FORKED: ' || w.why
                    WHEN 'accepted' THEN 'begins anew on a person''s word'
                    ELSE 'none shown yet' END AS audit
  FROM host_box AS b LEFT JOIN box_witness AS w ON w.box_id = b.id;

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('host.addresses', 4, 'rows', 1, 8, 'endpoints of this Host that a pairing code names'),
    ('pairing.again_ms', 100, 'ms', 1, 10000, 'how long a box waits before it asks a Host again that cut the connection'),
    ('pairing.tries', 10, 'tries', 1, 1000, 'how often a box asks to be paired while the Host cuts the connection'),
    ('port.connections', 1024, 'rows', 1, 65536, 'connections under TLS at once; handshakes among them'),
    ('port.dead_ms', 60000, 'ms', 100, 3600000, 'how long a peer under TLS may show no sign of life'),
    ('port.flush_ms', 10000, 'ms', 100, 3600000, 'how long a peer under TLS may take for the last bytes'),
    ('port.guests', 64, 'rows', 1, 65536, 'connections at once of those who are not paired yet'),
    ('port.handshake_ms', 5000, 'ms', 100, 60000, 'how long a TLS handshake may take'),
    ('port.handshakes', 512, 'rows', 1, 65536, 'TLS handshakes at once; with one more, the oldest is dropped'),
    ('port.per_address', 256, 'rows', 1, 65536, 'connections of one address under TLS at once'),
    ('tls.authority_ms', 315360000000, 'ms', 86400000, 3153600000000, 'life of a machine''s own authority; whoever is paired pins it'),
    ('tls.early_ms', 3600000, 'ms', 0, 604800000, 'how far in the past a certificate begins, for clocks that are behind'),
    ('tls.leaf_ms', 7776000000, 'ms', 60000, 31536000000, 'life of a certificate'),
    ('tls.per_day', 24, 'rows', 2, 100000, 'certificates that one box may ask for in a day'),
    ('tls.renew_ms', 2592000000, 'ms', 1000, 31536000000, 'how long before its end a certificate is renewed');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('box.proof', 126, 403, 'pair anew from that machine itself: bastion pair CODE'),
    ('listen.fixed', 126, 409, 'give the new address: bastion host listen'),
    ('listen.invalid', 2, 422, 'give * or an IP address, a colon and a port, as *:7443'),
    ('listen.none', 3, 409, 'say where boxes reach this Host: bastion host listen *:PORT --address HOST:PORT'),
    ('listen.role', 2, 409, 'on a Host use bastion host listen, on a box bastion pair --listen'),
    ('pairing.authority', 126, 409, 'make sure which Host it is; then bastion unpair HOST, and pair anew'),
    ('pairing.port', 1, 502, 'see there that bastion host serve runs and listens on this port, and that no firewall is in between'),
    ('pairing.transport', 126, 409, 'pair with a code that leads over a network: bastion host invite NAME'),
    ('tls.authority', 126, 409, 'use the authority that is there'),
    ('tls.busy', 126, 429, 'wait a little, then try again'),
    ('tls.identity', 126, 409, 'have a new certificate made'),
    ('tls.missing', 3, 503, 'have the certificate made: bastion host serve, or bastion pair --replace'),
    ('tls.often', 126, 429, 'wait a day, or raise the setting tls.per_day');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('tls_identity', '', 'current'),
    ('tls_identity', 'current', 'past');
