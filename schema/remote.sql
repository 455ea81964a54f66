-- remote.sql: sessions from another machine: where it listens for them, who may come, to do what, and tries.

-- Where this box listens, under TLS, for whoever has a secret. Nobody's place until a person says so.
CREATE TABLE remote_listen (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    address TEXT    NOT NULL,
    port    INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    set_at  INTEGER NOT NULL
) STRICT;

CREATE TRIGGER remote_listen_is_one BEFORE INSERT ON remote_listen
BEGIN
    SELECT RAISE(ABORT, 'listen.invalid|this is no address to listen on: * or an IP address, and a port')
     WHERE NEW.address <> '*'
       AND (endpoint_text(NEW.address || ':1') IS NOT NEW.address || ':1'
            OR (NEW.address NOT GLOB '[[]*' AND NEW.address GLOB '*[^0-9.]*'));
    SELECT RAISE(ABORT, 'remote.role|sessions run on a box, and a Host runs none')
     WHERE (SELECT role FROM box) IS NOT 'box';
    SELECT RAISE(ABORT, 'remote.port|this machine listens for its Hosts on this port')
     WHERE EXISTS (SELECT 1 FROM listen WHERE port = NEW.port);
END;

CREATE TRIGGER remote_listen_no_update BEFORE UPDATE ON remote_listen
BEGIN
    SELECT RAISE(ABORT, 'remote.fixed|where this machine listens is replaced, never edited');
END;

CREATE TRIGGER remote_listen_audit_birth AFTER INSERT ON remote_listen
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_listen', NEW.id, 'added', '',
            json_object('address', NEW.address, 'port', NEW.port));
END;

CREATE TRIGGER remote_listen_audit_end AFTER DELETE ON remote_listen
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_listen', OLD.id, 'removed', '',
            json_object('address', OLD.address, 'port', OLD.port));
END;

-- Which other machines may come, and for what. The secret was shown once; its digest is keyed by this machine, so
-- neither a copy of the database nor another machine can tell what it was. What it allows never changes: rotated or made anew.
CREATE TABLE remote_credential (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64 AND name GLOB '[A-Za-z0-9]*'
                       AND name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0),
    found_by   TEXT    NOT NULL UNIQUE CHECK (length(found_by) = 16
                       AND found_by NOT GLOB '*[^0-9a-f]*'),   -- its row is found by that; no secret
    digest     BLOB    CHECK (length(digest) = 32),            -- of the secret; gone with its time
    by_uid     INTEGER NOT NULL CHECK (by_uid >= 0),           -- whose sessions; who made it, by the kernel's word
    verbs      TEXT    NOT NULL CHECK (json_valid(verbs) AND json_type(verbs) = 'array'
                       AND json_array_length(verbs) BETWEEN 1 AND 8),
    roots      TEXT    NOT NULL CHECK (json_valid(roots) AND json_type(roots) = 'array'
                       AND json_array_length(roots) BETWEEN 1 AND 16 AND length(roots) <= 16384),
    state      TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'rotated', 'revoked', 'expired')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at),
    ended_at   INTEGER,
    CHECK ((state = 'active') = (ended_at IS NULL)),
    CHECK ((state = 'active') = (digest IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX remote_credential_live ON remote_credential (name) WHERE state = 'active';

CREATE INDEX remote_credential_due ON remote_credential (expires_at) WHERE state = 'active';

CREATE TRIGGER remote_credential_born BEFORE INSERT ON remote_credential
BEGIN
    SELECT RAISE(ABORT, 'remote.role|sessions run on a box, and a Host runs none')
     WHERE (SELECT role FROM box) IS NOT 'box';
    SELECT RAISE(ABORT, 'remote.name|a name is 1 to 64 letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 64 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'remote.exists|a credential of this name is live')
     WHERE EXISTS (SELECT 1 FROM remote_credential WHERE name = NEW.name AND state = 'active');
    SELECT RAISE(ABORT, 'remote.verbs|the verbs are run, command, list, attach, send, cancel, bundle, each once')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.verbs)
                    WHERE type <> 'text'
                       OR value NOT IN ('run', 'command', 'list', 'attach', 'send', 'cancel', 'bundle'))
        OR (SELECT count(DISTINCT value) FROM json_each(NEW.verbs)) <> json_array_length(NEW.verbs);
    SELECT RAISE(ABORT, 'remote.roots|a root is the whole path of a folder, without . and .. in it')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.roots)
                    WHERE type <> 'text' OR length(CAST(value AS BLOB)) > 4095
                       OR value NOT GLOB '/*' OR (value <> '/' AND value || '/' GLOB '*//*')
                       OR value || '/' GLOB '*/./*' OR value || '/' GLOB '*/../*')
        OR instr(NEW.roots, '\u0000') > 0;                    -- json_each ends a text there
    SELECT RAISE(ABORT, 'remote.ttl|a credential lasts no longer than the setting remote.ttl_max_ms')
     WHERE NEW.expires_at > now_ms() + (SELECT value FROM setting WHERE name = 'remote.ttl_max_ms')
        OR NEW.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'remote.transition|a credential begins as active') WHERE NEW.state <> 'active';
END;

CREATE TRIGGER remote_credential_moves BEFORE UPDATE ON remote_credential
BEGIN
    SELECT RAISE(ABORT, 'remote.final|a credential that is over stays over')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'remote_credential' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'remote.fixed|a credential keeps what it allows, and for how long')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.found_by IS NOT OLD.found_by
        OR NEW.by_uid IS NOT OLD.by_uid OR NEW.verbs IS NOT OLD.verbs OR NEW.roots IS NOT OLD.roots
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at
        OR NEW.digest IS NOT NULL;
END;

CREATE TRIGGER remote_credential_stays BEFORE DELETE ON remote_credential
BEGIN
    SELECT RAISE(ABORT, 'remote.kept|a credential is revoked, not deleted');
END;

CREATE TRIGGER remote_credential_audit_birth AFTER INSERT ON remote_credential
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_credential', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'uid', NEW.by_uid, 'verbs', json(NEW.verbs),
                        'roots', json(NEW.roots), 'expires_at', NEW.expires_at));
END;

CREATE TRIGGER remote_credential_audit_move AFTER UPDATE OF state ON remote_credential
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_credential', NEW.id, NEW.state, '', json_object('name', NEW.name));
END;

-- A restored machine is an older self: what was revoked or rotated since would let its holder in again.
CREATE TRIGGER remote_credential_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE remote_credential SET state = 'revoked', ended_at = now_ms(), digest = NULL WHERE state = 'active';
END;

-- Each connection that showed a secret, right or wrong. The row of a right one authorises all that is
-- asked on it. An origin is an IPv4 address, or the /64 of an IPv6 address.
CREATE TABLE remote_try (
    id            INTEGER PRIMARY KEY,
    at            INTEGER NOT NULL,
    origin        TEXT    NOT NULL CHECK (length(origin) BETWEEN 1 AND 64),
    credential_id INTEGER REFERENCES remote_credential (id),   -- NULL: of none that lives
    result        TEXT    NOT NULL CHECK (result IN ('ok', 'wrong')),
    CHECK (result = 'wrong' OR credential_id IS NOT NULL)
) STRICT;

CREATE INDEX remote_try_by_origin ON remote_try (origin, id);

CREATE INDEX remote_try_by_credential ON remote_try (credential_id, id);

-- Who is not heard now, and until when: after remote.tries wrong secrets without a right one, twice as
-- long with each further one.
CREATE VIEW remote_held AS
SELECT origin, tries, until_at FROM (
    SELECT t.origin, count(*) AS tries,
           max(t.at) + min((SELECT value FROM setting WHERE name = 'remote.hold_cap_ms'),
                           (SELECT value FROM setting WHERE name = 'remote.hold_ms')
                           << max(0, min(count(*)
                                         - (SELECT value FROM setting WHERE name = 'remote.tries'), 20)))
             AS until_at
      FROM remote_try AS t
     WHERE t.result = 'wrong'
       AND t.at > now_ms() - (SELECT value FROM setting WHERE name = 'remote.window_ms')
       AND t.id > coalesce((SELECT max(id) FROM remote_try
                             WHERE origin = t.origin AND result = 'ok'), 0)
     GROUP BY t.origin)
 WHERE tries >= (SELECT value FROM setting WHERE name = 'remote.tries') AND until_at > now_ms();

CREATE TRIGGER remote_try_is_heard BEFORE INSERT ON remote_try
BEGIN
    SELECT RAISE(ABORT, 'remote.held|too many wrong secrets came from there')
     WHERE EXISTS (SELECT 1 FROM remote_held WHERE origin = NEW.origin);
    SELECT RAISE(ABORT, 'remote.token|no live credential has this secret')
     WHERE NEW.result = 'ok'
       AND NOT EXISTS (SELECT 1 FROM remote_credential WHERE id = NEW.credential_id
                          AND state = 'active' AND expires_at > now_ms());
END;

CREATE TRIGGER remote_try_no_update BEFORE UPDATE ON remote_try
BEGIN
    SELECT RAISE(ABORT, 'remote.kept|what was tried never changes');
END;

CREATE TRIGGER remote_try_stays BEFORE DELETE ON remote_try
WHEN OLD.id > (SELECT max(id) FROM remote_try)
            - (SELECT value FROM setting WHERE name = 'remote.kept')
BEGIN
    SELECT RAISE(ABORT, 'remote.kept|tries are kept up to the setting remote.kept');
END;

CREATE TRIGGER remote_try_few AFTER INSERT ON remote_try
BEGIN
    DELETE FROM remote_try
     WHERE id <= NEW.id - (SELECT value FROM setting WHERE name = 'remote.kept');
END;

-- Who began a session from another machine.
CREATE TABLE remote_session (
    session_id    INTEGER PRIMARY KEY REFERENCES session (id),
    credential_id INTEGER NOT NULL REFERENCES remote_credential (id)
) STRICT;

CREATE TRIGGER remote_session_no_update BEFORE UPDATE ON remote_session
BEGIN
    SELECT RAISE(ABORT, 'remote.fixed|who began a session never changes');
END;

-- The credential in whose name something is done in this transaction.
CREATE VIEW remote_acting AS
SELECT id, by_uid, verbs, roots FROM remote_credential
 WHERE state = 'active' AND expires_at > now_ms()
   AND 'remote:' || name || '(' || id || ')' = acting();

-- Which sessions a credential reaches: its user's, at work in one of its roots or beneath; and how.
CREATE VIEW remote_reach AS
SELECT c.id AS credential_id, s.id AS session_id, v.value AS verb
  FROM remote_credential AS c JOIN session AS s ON s.by_uid = c.by_uid
  JOIN json_each(c.verbs) AS v
 WHERE c.state = 'active' AND c.expires_at > now_ms()
   AND EXISTS (SELECT 1 FROM json_each(c.roots) AS r
                WHERE r.value IN ('/', s.cwd)
                   OR substr(s.cwd, 1, length(r.value) + 1) = r.value || '/');

-- Who may come from other machines, as what, until when, and when each came last?
CREATE VIEW remote_credentials AS
SELECT c.id, c.name, c.state, c.by_uid, c.verbs, c.roots, c.created_at, c.expires_at, c.ended_at,
       (SELECT max(at) FROM remote_try WHERE credential_id = c.id AND result = 'ok') AS last_at,
       (SELECT count(*) FROM remote_session WHERE credential_id = c.id) AS sessions
  FROM remote_credential AS c;
