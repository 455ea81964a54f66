-- Workers on a lane, models asked by name, manifests that reach out; states that end are kept their time and no longer.

DROP TRIGGER remote_bundle_begins;

CREATE TRIGGER remote_bundle_begins AFTER INSERT ON remote_bundle
BEGIN
    INSERT INTO session (id, name, argv, cwd, by_uid, input, max_attempts, queued_at, not_before)
    SELECT (SELECT id FROM next_session_number), session, argv, folder, by_uid, 1, 1, NEW.asked_at, NEW.asked_at
      FROM remote_bundle_run WHERE id = NEW.id;
    UPDATE remote_bundle SET session_id = (SELECT id FROM session WHERE name = 'bundle-' || NEW.id)
     WHERE id = NEW.id;
END;

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

CREATE VIEW next_session_number AS
SELECT max(coalesce((SELECT max(id) FROM session), 0), coalesce((SELECT last FROM session_number), 0)) + 1 AS id;
