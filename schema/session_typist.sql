-- session_typist.sql: who types to a session from another machine, or over the one protocol.

-- One at a time has the keyboard, here by a lease (session/NAME) or from elsewhere by this row; it is free
-- again where they leave, or are not heard of. Pieces are numbered, so that one which is sent again, since
-- the way was cut before its answer, is typed once.
CREATE TABLE session_typist (
    session_id INTEGER PRIMARY KEY REFERENCES session (id),
    typist     TEXT    NOT NULL CHECK (length(typist) = 32 AND typist NOT GLOB '*[^0-9a-f]*'),
    who        TEXT    NOT NULL CHECK (length(who) <= 256),
    n          INTEGER NOT NULL CHECK (n >= 0),                -- of the last piece that was taken
    until_at   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER session_typist_is_one BEFORE INSERT ON session_typist
BEGIN
    SELECT RAISE(ABORT, 'session.typist|a typist is 32 hex digits, and its pieces are numbered')
     WHERE length(NEW.typist) <> 32 OR NEW.typist GLOB '*[^0-9a-f]*' OR NEW.n < 0;
    SELECT RAISE(ABORT, 'session.over|this session is over')
     WHERE (SELECT finished_at IS NULL FROM session WHERE id = NEW.session_id) IS NOT 1;
    SELECT RAISE(ABORT, 'session.deaf|this session reads nothing')
     WHERE (SELECT terminal + input FROM session WHERE id = NEW.session_id) IS 0;
    SELECT RAISE(ABORT, 'remote.verb|this credential does not send to this session')
     WHERE acting() GLOB 'remote:*'
       AND NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN remote_reach AS r ON r.credential_id = a.id
                        WHERE r.session_id = NEW.session_id AND r.verb = 'send');
    SELECT RAISE(ABORT, 'session.typed|somebody else types to it')
     WHERE EXISTS (SELECT 1 FROM session_typist WHERE session_id = NEW.session_id AND until_at > now_ms()
                      AND (typist <> NEW.typist OR who <> NEW.who))
        OR EXISTS (SELECT 1 FROM lease AS l JOIN process AS p ON p.id = l.process_id
                    WHERE l.name = 'session/' || (SELECT name FROM session WHERE id = NEW.session_id)
                      AND l.expires_at > now_ms() AND process_alive(p.boot_id, p.pid, p.start_ticks));
END;

CREATE TRIGGER session_typist_in_order BEFORE UPDATE OF n ON session_typist
BEGIN
    SELECT RAISE(ABORT, 'session.piece|pieces of what is typed are numbered without a gap')
     WHERE NEW.typist IS OLD.typist AND NEW.n NOT IN (OLD.n, OLD.n + 1);
END;

CREATE TRIGGER session_typist_fixed BEFORE UPDATE OF session_id ON session_typist
BEGIN
    SELECT RAISE(ABORT, 'session.fixed|who types stays at the session');
END;

CREATE TRIGGER session_typist_audit_birth AFTER INSERT ON session_typist
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'session_typist', NEW.session_id, 'typing', '',
            json_object('name', (SELECT name FROM session WHERE id = NEW.session_id), 'who', NEW.who));
END;

CREATE TRIGGER session_typist_audit_move AFTER UPDATE OF typist ON session_typist
WHEN NEW.typist IS NOT OLD.typist
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'session_typist', NEW.session_id, 'typing', '',
            json_object('name', (SELECT name FROM session WHERE id = NEW.session_id), 'who', NEW.who));
END;

-- Whoever sits at this machine looks on meanwhile.
CREATE TRIGGER lease_typed_from_afar BEFORE INSERT ON lease
WHEN NEW.name GLOB 'session/*' AND NEW.process_id IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'session.typed|somebody else types to it')
     WHERE EXISTS (SELECT 1 FROM session_typist AS t JOIN session AS s ON s.id = t.session_id
                    WHERE s.name = substr(NEW.name, 9) AND t.until_at > now_ms());
END;

CREATE TRIGGER session_typist_leaves AFTER UPDATE OF state ON session WHEN NEW.finished_at IS NOT NULL
BEGIN
    DELETE FROM session_typist WHERE session_id = NEW.id;
END;
