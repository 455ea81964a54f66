-- session_number.sql: a session that is gone leaves its number to nobody: who watched it holds that.

CREATE TABLE session_number (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL CHECK (last >= 1)                    -- the highest of those that are gone
) STRICT;

CREATE TRIGGER session_number_grows BEFORE UPDATE ON session_number
BEGIN
    SELECT RAISE(ABORT, 'session.fixed|numbers of sessions that are gone only grow') WHERE NEW.last < OLD.last;
END;

CREATE TRIGGER session_number_stays BEFORE DELETE ON session_number
BEGIN
    SELECT RAISE(ABORT, 'session.fixed|numbers of sessions that are gone are kept');
END;

-- Only of the newest: any other is below one that is there.
CREATE TRIGGER session_number_is_kept AFTER DELETE ON session
WHEN NOT EXISTS (SELECT 1 FROM session WHERE id > OLD.id)
BEGIN
    INSERT INTO session_number (one, last) VALUES (1, OLD.id)
        ON CONFLICT (one) DO UPDATE SET last = max(last, excluded.last);
END;

CREATE TRIGGER session_number_is_new AFTER INSERT ON session
WHEN NEW.id <= (SELECT last FROM session_number)
BEGIN
    SELECT RAISE(ABORT, 'session.fixed|the number of a session that is gone is nobody else''s');
END;

-- What is the number of the next?
CREATE VIEW next_session_number AS
SELECT max(coalesce((SELECT max(id) FROM session), 0), coalesce((SELECT last FROM session_number), 0)) + 1 AS id;
