-- session_remote.sql: what another machine may do with sessions (remote.sql says who comes).

-- Whoever acts from afar is held to the credential, whatever route or program wrote the row.
CREATE TRIGGER session_from_afar BEFORE INSERT ON session WHEN acting() GLOB 'remote:*'
BEGIN
    SELECT RAISE(ABORT, 'remote.token|no live credential has this secret')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting);
    SELECT RAISE(ABORT, 'remote.verb|this credential does not begin sessions')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN json_each(a.verbs) AS v
                        WHERE v.value IN ('run', 'command'))
       -- A copy of a repository (session_bundle.sql) has a verb and a program of its own.
       AND NOT EXISTS (SELECT 1 FROM remote_bundle_run AS b JOIN remote_acting AS a ON a.id = b.credential_id
                        WHERE b.session_id IS NULL AND b.session = NEW.name AND b.argv = NEW.argv
                          AND b.folder = NEW.cwd);
    -- Who may give a command may give any word; else a worker is run as its person added it, and an
    -- option could turn it into something else.
    SELECT RAISE(ABORT, 'remote.command|this credential runs workers, with words that are no options')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN json_each(a.verbs) AS v
                        WHERE v.value = 'command')
       AND NOT EXISTS (SELECT 1 FROM remote_bundle_run AS b JOIN remote_acting AS a ON a.id = b.credential_id
                        WHERE b.session_id IS NULL AND b.session = NEW.name AND b.argv = NEW.argv
                          AND b.folder = NEW.cwd)
       AND (NEW.worker = ''
            OR EXISTS (SELECT 1 FROM json_each(NEW.argv) AS w
                        WHERE w.value GLOB '-*'
                          AND w.key >= (SELECT json_array_length(argv) FROM worker
                                         WHERE name = NEW.worker)));
    SELECT RAISE(ABORT, 'remote.root|this credential works in other folders')
     WHERE NEW.cwd || '/' GLOB '*/../*' OR NEW.cwd || '/' GLOB '*/./*' OR NEW.cwd GLOB '*//*'
        OR NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN json_each(a.roots) AS r
                        WHERE r.value IN ('/', NEW.cwd)
                           OR substr(NEW.cwd, 1, length(r.value) + 1) = r.value || '/');
    SELECT RAISE(ABORT, 'remote.user|a session from afar runs as the user of its credential')
     WHERE NEW.by_uid IS NOT (SELECT by_uid FROM remote_acting);
END;

CREATE TRIGGER session_from_afar_is_known AFTER INSERT ON session WHEN acting() GLOB 'remote:*'
BEGIN
    INSERT INTO remote_session (session_id, credential_id) SELECT NEW.id, id FROM remote_acting;
END;

CREATE TRIGGER session_leaves_afar BEFORE DELETE ON session
BEGIN
    DELETE FROM remote_session WHERE session_id = OLD.id;
END;

CREATE TRIGGER session_cancelled_from_afar BEFORE UPDATE OF cancel_at ON session
WHEN acting() GLOB 'remote:*'
BEGIN
    SELECT RAISE(ABORT, 'remote.verb|this credential does not end this session')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN remote_reach AS r ON r.credential_id = a.id
                        WHERE r.session_id = NEW.id AND r.verb = 'cancel');
END;

CREATE TRIGGER session_input_from_afar BEFORE INSERT ON session_input WHEN acting() GLOB 'remote:*'
BEGIN
    SELECT RAISE(ABORT, 'remote.verb|this credential does not send to this session')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN remote_reach AS r ON r.credential_id = a.id
                        WHERE r.session_id = NEW.session_id AND r.verb = 'send')
       AND NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN remote_bundle AS b ON b.credential_id = a.id
                        WHERE b.session_id = NEW.session_id);
END;
