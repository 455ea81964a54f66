-- token.sql: secrets that programs use. The internet lane opens one, to send it to a host that it is for, and no program sees
-- it; the worker lends one to the program of an added op that names it, as a file (op_manifest.sql). Nobody else opens any.

-- What a program may hold instead of the secret is the placeholder, which is worth nothing to anybody.
CREATE TABLE token (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64
                        AND name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0),
    header      TEXT    NOT NULL DEFAULT 'Authorization' CHECK (length(header) BETWEEN 1 AND 64),
    scheme      TEXT    NOT NULL DEFAULT 'Bearer' CHECK (length(scheme) <= 32),     -- '': the secret alone
    placeholder TEXT    NOT NULL UNIQUE CHECK (length(placeholder) = 40 AND placeholder GLOB 'bastion-*'),
    secret      BLOB    CHECK (length(secret) BETWEEN 48 AND 4136),                 -- sealed
    generation  INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),                 -- grows with each secret
    state       TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    made_at     INTEGER NOT NULL,
    made_by_uid INTEGER NOT NULL CHECK (made_by_uid >= 0),
    rotated_at  INTEGER,
    dropped_at  INTEGER,
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL)),
    CHECK ((state = 'dropped') = (secret IS NULL))
) STRICT;

CREATE UNIQUE INDEX token_by_name ON token (name) WHERE state = 'active';

-- Where it is sent: a name with all below it, or an address. A token never gets another host: it would be
-- a way to have it sent there.
CREATE TABLE token_host (
    token_id INTEGER NOT NULL REFERENCES token (id),
    suffix   TEXT    NOT NULL CHECK (length(suffix) BETWEEN 1 AND 253),
    PRIMARY KEY (token_id, suffix)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER token_born BEFORE INSERT ON token
BEGIN
    SELECT CASE
           WHEN length(NEW.name) NOT BETWEEN 1 AND 64 OR NEW.name GLOB '*[^A-Za-z0-9._-]*'
             OR instr(NEW.name, char(0)) > 0
           THEN RAISE(ABORT, 'token.name|a name is 1 to 64 letters, digits, dots, dashes and underscores')
           WHEN EXISTS (SELECT 1 FROM token WHERE name = NEW.name AND state = 'active')
           THEN RAISE(ABORT, 'token.name|there is a token of this name')
           WHEN length(NEW.header) NOT BETWEEN 1 AND 64 OR NEW.header GLOB '*[^A-Za-z0-9-]*'
             OR instr(NEW.header, char(0)) > 0
           THEN RAISE(ABORT, 'token.header|a header has 1 to 64 letters, digits and dashes')
           WHEN lower(NEW.header) IN ('host', 'connection', 'content-length', 'transfer-encoding', 'upgrade',
                'te', 'trailer', 'keep-alive', 'expect', 'range', 'if-range', 'accept-encoding', 'content-encoding',
                'location', 'referer', 'origin', 'user-agent')
             OR lower(NEW.header) GLOB 'proxy-*' OR lower(NEW.header) GLOB 'sec-*'
           THEN RAISE(ABORT, 'token.header|this header says something else')
           WHEN NEW.scheme GLOB '*[^A-Za-z0-9-]*' OR instr(NEW.scheme, char(0)) > 0 OR length(NEW.scheme) > 32
           THEN RAISE(ABORT, 'token.scheme|a scheme is one word of letters, digits and dashes')
           WHEN NEW.state <> 'active' OR NEW.generation <> 1 OR NEW.secret IS NULL
           THEN RAISE(ABORT, 'token.transition|a token begins as active, with its first secret')
           WHEN (SELECT count(*) FROM token WHERE state = 'active')
             >= (SELECT value FROM setting WHERE name = 'token.live')
           THEN RAISE(ABORT, 'token.many|there are as many tokens as the setting token.live allows')
           END;
END;

CREATE TRIGGER token_moves BEFORE UPDATE ON token
BEGIN
    SELECT RAISE(ABORT, 'token.final|a token that was dropped stays dropped')
     WHERE OLD.state = 'dropped' OR (NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'token' AND from_state = OLD.state AND to_state = NEW.state));
    SELECT RAISE(ABORT, 'token.fixed|a token keeps its name, header and placeholder; a new secret is a new generation')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.header IS NOT OLD.header
        OR NEW.scheme IS NOT OLD.scheme OR NEW.placeholder IS NOT OLD.placeholder
        OR NEW.made_at IS NOT OLD.made_at OR NEW.made_by_uid IS NOT OLD.made_by_uid
        OR NEW.generation <> OLD.generation + (NEW.state = 'active')
        OR (NEW.rotated_at IS NULL AND NEW.state = 'active');
END;

CREATE TRIGGER token_stays BEFORE DELETE ON token
BEGIN
    SELECT RAISE(ABORT, 'token.kept|a token is dropped, not deleted: requests name it');
END;

CREATE TRIGGER token_host_born BEFORE INSERT ON token_host
BEGIN
    SELECT CASE
           WHEN host_text(NEW.suffix) IS NOT NEW.suffix
           THEN RAISE(ABORT, 'token.host|a token is for a name in lower case or an address')
           WHEN host_tail(NEW.suffix, 8) IS NOT NULL
           THEN RAISE(ABORT, 'token.host|the name of a host has eight labels at most')
           -- A name of one label is a whole top-level domain.
           WHEN NEW.suffix NOT GLOB '*[.:]*'
           THEN RAISE(ABORT, 'token.host|a token is for one host and those below it, not for all of a domain')
           -- In the transaction that makes it, in which nothing of it can be in use.
           WHEN NOT EXISTS (SELECT 1 FROM token WHERE id = NEW.token_id AND state = 'active' AND made_at = now_ms())
             OR EXISTS (SELECT 1 FROM egress_within WHERE token_id = NEW.token_id)
             OR EXISTS (SELECT 1 FROM egress_request WHERE token_id = NEW.token_id)
             OR EXISTS (SELECT 1 FROM program_lend WHERE token_id = NEW.token_id)
           THEN RAISE(ABORT, 'token.fixed|a token gets its hosts as it is made, and no more')
           WHEN (SELECT count(*) FROM token_host WHERE token_id = NEW.token_id)
             >= (SELECT value FROM setting WHERE name = 'token.hosts')
           THEN RAISE(ABORT, 'token.many|a token is for as many hosts as the setting token.hosts allows')
           END;
END;

CREATE TRIGGER token_host_moves BEFORE UPDATE ON token_host
BEGIN
    SELECT RAISE(ABORT, 'token.fixed|the hosts of a token never change');
END;

CREATE TRIGGER token_host_stays BEFORE DELETE ON token_host
BEGIN
    SELECT RAISE(ABORT, 'token.fixed|the hosts of a token never change');
END;

CREATE TRIGGER token_audit_birth AFTER INSERT ON token
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'token', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'header', NEW.header, 'scheme', NEW.scheme));
END;

CREATE TRIGGER token_host_audit AFTER INSERT ON token_host
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'token', NEW.token_id, 'host', '', json_object('suffix', NEW.suffix));
END;

CREATE TRIGGER token_audit_move AFTER UPDATE ON token
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'token', NEW.id, iif(NEW.state IS OLD.state, 'rotated', NEW.state), '',
            json_object('name', NEW.name, 'generation', NEW.generation));
END;

-- What was sealed before a restore is an older world's: it may have been taken back since.
CREATE TRIGGER token_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE token SET state = 'dropped', dropped_at = now_ms(), secret = NULL WHERE state = 'active';
END;

-- Tokens, for people.
CREATE VIEW tokens AS
SELECT t.id, t.name, t.state,
       (SELECT group_concat(suffix, ' ') FROM token_host WHERE token_id = t.id) AS hosts,
       t.header, t.scheme, t.placeholder, t.made_at, t.rotated_at, t.dropped_at,
       (SELECT max(at) FROM (SELECT max(asked_at) AS at FROM egress_request WHERE token_id = t.id
                             UNION ALL SELECT max(at) FROM program_lend WHERE token_id = t.id)) AS used_at
  FROM token AS t;
