-- session_bundle.sql: repositories that another machine copies here: asked for, fed piece by piece, in place.

-- A repository that another machine copies here. Its row begins a session with a fixed program, which reads the
-- pieces, checks them, has git unpack them, and changes places with what was there; so it ends, is bounded and is
-- kept as every session.
CREATE TABLE remote_bundle (
    id            INTEGER PRIMARY KEY,
    credential_id INTEGER NOT NULL REFERENCES remote_credential (id),
    session_id    INTEGER UNIQUE REFERENCES session (id),      -- NULL: not yet, or not kept any more
    name          TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 128 AND name GLOB '[A-Za-z0-9_]*'
                          AND name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0),
    folder        TEXT    NOT NULL CHECK (folder GLOB '/*'),   -- in it the repository is the folder ${name}
    size          INTEGER NOT NULL CHECK (size > 0),
    sha256        TEXT    NOT NULL CHECK (length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*'),
    program       TEXT    NOT NULL CHECK (program GLOB '/*'),  -- of bastion: where the daemon's own is
    received      INTEGER NOT NULL DEFAULT 0 CHECK (received BETWEEN 0 AND size),
    generation    INTEGER NOT NULL CHECK (generation >= 1),    -- of what is in that place
    live          INTEGER NOT NULL DEFAULT 0 CHECK (live IN (0, 1)),   -- it is what is there
    asked_at      INTEGER NOT NULL,
    landed_at     INTEGER,
    CHECK (live = 0 OR landed_at IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX remote_bundle_live ON remote_bundle (folder, name) WHERE live = 1;

CREATE INDEX remote_bundle_by_place ON remote_bundle (folder, name, generation);

CREATE INDEX remote_bundle_by_credential ON remote_bundle (credential_id);

-- What the session of a copy runs, and nothing else.
CREATE VIEW remote_bundle_run AS
SELECT b.id, 'bundle-' || b.id AS session, b.credential_id, b.session_id, b.folder, c.by_uid,
       json_array(b.program, 'unpack', b.folder, b.name, CAST(b.size AS TEXT), b.sha256,
           CAST((SELECT value FROM setting WHERE name = 'remote.bundle_stall_ms') AS TEXT),
           CAST((SELECT value FROM setting WHERE name = 'remote.bundle_git_ms') AS TEXT),
           CAST((SELECT value FROM setting WHERE name = 'remote.bundle_unpacked') AS TEXT)) AS argv
  FROM remote_bundle AS b JOIN remote_credential AS c ON c.id = b.credential_id;

-- Which copies were made, what is in place, and how far are those under way?
CREATE VIEW remote_bundles AS
SELECT b.id, c.name AS credential, b.credential_id, b.name, b.folder, b.generation,
       CASE WHEN b.live THEN 'live' WHEN b.landed_at IS NOT NULL THEN 'replaced'
            WHEN s.finished_at IS NULL THEN 'open' ELSE 'failed' END AS state,
       b.size, b.received, b.sha256, b.asked_at, b.landed_at, s.name AS session,
       coalesce((SELECT utf8(o.data) FROM session_output AS o
                  WHERE o.session_id = s.id AND o.kind = 'err' ORDER BY o.seq DESC LIMIT 1),
                (SELECT t.why FROM attempt AS t WHERE t.session_id = s.id ORDER BY t.n DESC LIMIT 1)) AS message
  FROM remote_bundle AS b JOIN remote_credential AS c ON c.id = b.credential_id
  LEFT JOIN session AS s ON s.id = b.session_id;

CREATE TRIGGER remote_bundle_is_allowed BEFORE INSERT ON remote_bundle
BEGIN
    SELECT RAISE(ABORT, 'remote.token|no live credential has this secret')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting WHERE id = NEW.credential_id);
    SELECT RAISE(ABORT, 'remote.verb|this credential copies no repository')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting AS a JOIN json_each(a.verbs) AS v
                        WHERE v.value = 'bundle');
    SELECT RAISE(ABORT, 'bundle.name|a repository''s name is 1 to 128 letters, digits, dots, dashes and underscores, and begins with none of dot and dash')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 128 OR NEW.name NOT GLOB '[A-Za-z0-9_]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'bundle.size|a bundle has 1 to remote.bundle_bytes bytes')
     WHERE NEW.size NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'remote.bundle_bytes');
    SELECT RAISE(ABORT, 'bundle.digest|a digest is 64 small hex digits: SHA-256 of the bundle')
     WHERE length(NEW.sha256) <> 64 OR NEW.sha256 GLOB '*[^0-9a-f]*';
    SELECT RAISE(ABORT, 'bundle.busy|another copy to this place is under way')
     WHERE EXISTS (SELECT 1 FROM remote_bundles WHERE folder = NEW.folder AND name = NEW.name AND state = 'open');
    SELECT RAISE(ABORT, 'bundle.many|this credential has as many copies under way as it may')
     WHERE (SELECT count(*) FROM remote_bundles
             WHERE credential_id = NEW.credential_id AND state = 'open')
        >= (SELECT value FROM setting WHERE name = 'remote.bundles');
    SELECT RAISE(ABORT, 'bundle.quota|the repositories of this credential would take more than remote.bundle_total')
     WHERE NEW.size + (SELECT coalesce(sum(size), 0) FROM remote_bundles
                        WHERE credential_id = NEW.credential_id AND state IN ('open', 'live')
                          AND NOT (folder = NEW.folder AND name = NEW.name))
         > (SELECT value FROM setting WHERE name = 'remote.bundle_total');
    SELECT RAISE(ABORT, 'remote.transition|a copy begins with nothing')
     WHERE NEW.received <> 0 OR NEW.live <> 0 OR NEW.landed_at IS NOT NULL OR NEW.session_id IS NOT NULL
        OR NEW.generation <> coalesce((SELECT max(generation) FROM remote_bundle
                                        WHERE folder = NEW.folder AND name = NEW.name), 0) + 1;
END;

-- Its session: whether that may begin there is for the rules of sessions (session_remote.sql).
CREATE TRIGGER remote_bundle_begins AFTER INSERT ON remote_bundle
BEGIN
    INSERT INTO session (id, name, argv, cwd, by_uid, input, max_attempts, queued_at, not_before)
    SELECT (SELECT id FROM next_session_number), session, argv, folder, by_uid, 1, 1, NEW.asked_at, NEW.asked_at
      FROM remote_bundle_run WHERE id = NEW.id;
    UPDATE remote_bundle SET session_id = (SELECT id FROM session WHERE name = 'bundle-' || NEW.id)
     WHERE id = NEW.id;
END;

CREATE TRIGGER remote_bundle_grows BEFORE UPDATE OF received ON remote_bundle
BEGIN
    SELECT RAISE(ABORT, 'remote.token|no live credential has this secret')
     WHERE NOT EXISTS (SELECT 1 FROM remote_acting WHERE id = OLD.credential_id);
    SELECT RAISE(ABORT, 'bundle.size|this is more than the bundle has') WHERE NEW.received > OLD.size;
    SELECT RAISE(ABORT, 'bundle.over|nothing more is taken for this copy')
     WHERE NEW.received <= OLD.received
        OR (SELECT state FROM remote_bundles WHERE id = OLD.id) <> 'open';
END;

CREATE TRIGGER remote_bundle_moves BEFORE UPDATE ON remote_bundle
BEGIN
    SELECT RAISE(ABORT, 'remote.fixed|what is copied where never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.credential_id IS NOT OLD.credential_id OR NEW.name IS NOT OLD.name
        OR NEW.folder IS NOT OLD.folder OR NEW.size IS NOT OLD.size OR NEW.sha256 IS NOT OLD.sha256
        OR NEW.program IS NOT OLD.program OR NEW.generation IS NOT OLD.generation
        OR NEW.asked_at IS NOT OLD.asked_at OR (OLD.landed_at IS NOT NULL AND NEW.landed_at IS NOT OLD.landed_at);
    SELECT RAISE(ABORT, 'remote.transition|a copy lands when its session ends well, once')
     WHERE (NEW.live > OLD.live AND (OLD.landed_at IS NOT NULL
            OR (SELECT state FROM session WHERE id = OLD.session_id) IS NOT 'done'))
        OR (NEW.landed_at IS NOT OLD.landed_at AND NEW.live = 0)
        OR (NEW.session_id IS NOT OLD.session_id AND NEW.session_id IS NOT NULL
            AND (OLD.session_id IS NOT NULL OR OLD.landed_at IS NOT NULL
                 OR (SELECT name FROM session WHERE id = NEW.session_id) IS NOT 'bundle-' || OLD.id));
END;

-- What its session did: the new one is what is there, and the old one is not.
CREATE TRIGGER remote_bundle_lands AFTER UPDATE OF state ON session
WHEN NEW.state = 'done' AND EXISTS (SELECT 1 FROM remote_bundle WHERE session_id = NEW.id)
BEGIN
    UPDATE remote_bundle SET live = 0
     WHERE live = 1 AND (folder, name) = (SELECT folder, name FROM remote_bundle WHERE session_id = NEW.id);
    UPDATE remote_bundle SET live = 1, landed_at = NEW.finished_at WHERE session_id = NEW.id;
    DELETE FROM remote_bundle WHERE live = 0 AND session_id IS NULL;
END;

-- A row goes with its session, but for what is there: that stays, so that the next one may replace it.
CREATE TRIGGER remote_bundle_outlives BEFORE DELETE ON session
BEGIN
    UPDATE remote_bundle SET session_id = NULL WHERE session_id = OLD.id;
    DELETE FROM remote_bundle WHERE live = 0 AND session_id IS NULL;
END;

CREATE TRIGGER remote_bundle_stays BEFORE DELETE ON remote_bundle
BEGIN
    SELECT RAISE(ABORT, 'remote.kept|a copy goes when its session does')
     WHERE OLD.live = 1 OR OLD.session_id IS NOT NULL;
END;

CREATE TRIGGER remote_bundle_audit_birth AFTER INSERT ON remote_bundle
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_bundle', NEW.id, 'asked', '',
            json_object('folder', NEW.folder, 'name', NEW.name, 'size', NEW.size, 'sha256', NEW.sha256));
END;

CREATE TRIGGER remote_bundle_audit_landed AFTER UPDATE OF live ON remote_bundle WHEN NEW.live > OLD.live
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'remote_bundle', NEW.id, 'landed', '',
            json_object('folder', NEW.folder, 'name', NEW.name, 'generation', NEW.generation));
END;
