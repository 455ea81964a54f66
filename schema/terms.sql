-- terms.sql: what a Host has carried to a box as its anchor: terms that it signed, and looks at who is paired there.

-- Terms that this Host signed as the anchor of a box, or a look at who is paired there, and what became of it.
CREATE TABLE host_terms (
    id          INTEGER PRIMARY KEY,
    box_id      INTEGER NOT NULL REFERENCES host_box (id),
    terms       TEXT    CHECK (terms IS NULL OR (json_valid(terms)
                        AND length(CAST(terms AS BLOB)) <= 4096)),     -- NULL: a look
    signature   BLOB    CHECK (length(signature) = 64),        -- of this Host, domain bastion-anchor-1
    state       TEXT    NOT NULL DEFAULT 'waiting'
                CHECK (state IN ('waiting', 'sent', 'taken', 'refused', 'failed', 'expired')),
    made_at     INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL CHECK (expires_at > made_at), -- no box is tried after that
    tries       INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    tried_at    INTEGER,
    finished_at INTEGER,
    answer      TEXT    CHECK (answer IS NULL OR (json_valid(answer) AND length(answer) <= 16777216)),
    exit_code   INTEGER CHECK (exit_code BETWEEN 1 AND 255),
    code        TEXT    CHECK (length(code) <= 64),            -- the refusal, of the box or of this Host
    why         TEXT    CHECK (length(why) <= 512),            -- while it waits: why the last try was none
    advice      TEXT    CHECK (length(advice) <= 512),
    CHECK ((terms IS NULL) = (signature IS NULL)),
    CHECK ((state IN ('waiting', 'sent')) = (finished_at IS NULL)),
    CHECK ((state = 'taken') = (answer IS NOT NULL)),
    CHECK (state NOT IN ('refused', 'failed', 'expired') OR code IS NOT NULL)
) STRICT;

CREATE INDEX host_terms_live ON host_terms (state, id) WHERE state IN ('waiting', 'sent');
CREATE INDEX host_terms_by_box ON host_terms (box_id, id);

CREATE TRIGGER host_terms_hold BEFORE INSERT ON host_terms
BEGIN
    SELECT RAISE(ABORT, 'terms.transition|terms begin by waiting to be carried')
     WHERE NEW.state <> 'waiting' OR NEW.tries <> 0;
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'call.offline|the Host is not serving, so nobody would carry this')
     WHERE NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');
    SELECT RAISE(ABORT, 'terms.busy|too many terms and looks wait to be carried')
     WHERE (SELECT count(*) FROM host_terms WHERE state IN ('waiting', 'sent'))
        >= (SELECT value FROM setting WHERE name = 'terms.live');
    SELECT RAISE(ABORT, 'terms.signature|what leaves this Host as its word is signed with its key')
     WHERE NEW.terms IS NOT NULL
       AND signed_by('bastion-anchor-1', (SELECT identity_key FROM box), NEW.terms, NEW.signature) IS NOT 1;
    SELECT RAISE(ABORT, 'terms.other|terms name the box that they are carried to, and this Host')
     WHERE NEW.terms IS NOT NULL
       AND ((NEW.terms ->> '$.server') IS NOT (SELECT name FROM host_box WHERE id = NEW.box_id)
         OR (NEW.terms ->> '$.server_key')
            IS NOT (SELECT lower(hex(box_key)) FROM host_box WHERE id = NEW.box_id)
         OR (NEW.terms ->> '$.anchor') IS NOT (SELECT name FROM box));
END;

-- The newest look is what is known; those before it say nothing any more.
CREATE TRIGGER host_terms_look_anew AFTER INSERT ON host_terms WHEN NEW.terms IS NULL
BEGIN
    DELETE FROM host_terms WHERE box_id = NEW.box_id AND id < NEW.id AND terms IS NULL
       AND finished_at < now_ms() - (SELECT value FROM setting WHERE name = 'terms.look_ms');
END;

CREATE TRIGGER host_terms_stay BEFORE DELETE ON host_terms
BEGIN
    SELECT RAISE(ABORT, 'terms.kept|what a Host signed is history')
     WHERE (OLD.terms IS NOT NULL OR OLD.finished_at IS NULL)
       AND OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'host_terms');
END;

CREATE TRIGGER host_terms_move BEFORE UPDATE ON host_terms
BEGIN
    SELECT RAISE(ABORT, 'terms.transition|terms cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'host_terms' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'terms.final|terms that were answered are history')
     WHERE OLD.finished_at IS NOT NULL;
    SELECT RAISE(ABORT, 'terms.fixed|terms stay as they were signed')
     WHERE NEW.id IS NOT OLD.id OR NEW.box_id IS NOT OLD.box_id OR NEW.terms IS NOT OLD.terms
        OR NEW.signature IS NOT OLD.signature OR NEW.made_at IS NOT OLD.made_at
        OR NEW.expires_at IS NOT OLD.expires_at;
    -- What a box says is read by a person, and a key in it is signed for: it is held to its form.
    SELECT RAISE(ABORT, 'terms.answer|the box''s answer is not in the form')
     WHERE NEW.state = 'taken'
       AND CASE WHEN NEW.terms IS NULL
           THEN json_type(NEW.answer, '$.pairings') IS NOT 'array'
             OR EXISTS (SELECT 1 FROM json_each(NEW.answer, '$.pairings') AS p
                         WHERE p.type <> 'object' OR json_type(p.value, '$.host') IS NOT 'text'
                            OR length(p.value ->> '$.host') NOT BETWEEN 1 AND 64
                            OR json_type(p.value, '$.key') IS NOT 'text'
                            OR length(p.value ->> '$.key') <> 64
                            OR p.value ->> '$.key' GLOB '*[^0-9a-f]*'
                            OR coalesce(p.value ->> '$.state', '') NOT IN ('active', 'pending', 'revoked')
                            OR json_type(p.value, '$.since') IS NOT 'integer')
           ELSE json_type(NEW.answer) IS NOT 'object'
             OR (NEW.answer ->> '$.kind') IS NOT (NEW.terms ->> '$.kind')
             OR (NEW.answer ->> '$.host') IS NOT (NEW.terms ->> '$.subject')
             OR coalesce(NEW.answer ->> '$.state', '') NOT IN ('active', 'pending', 'revoked') END;
END;

CREATE TRIGGER host_terms_audit_birth AFTER INSERT ON host_terms WHEN NEW.terms IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_terms', NEW.id, NEW.state, '',
            json_object('box', NEW.terms ->> '$.server', 'kind', NEW.terms ->> '$.kind',
                        'subject', NEW.terms ->> '$.subject', 'key', NEW.terms ->> '$.subject_key',
                        'terms_sha256', lower(hex(sha256(NEW.terms)))));
END;

CREATE TRIGGER host_terms_audit_end AFTER UPDATE OF state ON host_terms
WHEN NEW.terms IS NOT NULL AND NEW.finished_at IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_terms', NEW.id, NEW.state, '',
            json_object('box', NEW.terms ->> '$.server', 'kind', NEW.terms ->> '$.kind',
                        'subject', NEW.terms ->> '$.subject', 'code', NEW.code));
END;

-- What was under way when the actor that carries it ended may have been heard.
CREATE TRIGGER host_terms_end_with_link AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'link' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state NOT IN ('ended', 'failed', 'lost')
BEGIN
    UPDATE host_terms SET state = 'failed', finished_at = NEW.ended_at, code = 'terms.lost',
                          why = 'the Host stopped while the box had not answered yet'
     WHERE state = 'sent';
END;

CREATE TRIGGER host_terms_end_with_box AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    UPDATE host_terms SET state = 'failed', finished_at = NEW.gone_at, code = 'box.gone',
                          why = 'the box is no longer paired with this Host'
     WHERE box_id = NEW.id AND state = 'waiting';
END;

-- Who is paired with a box, as it said last.
CREATE VIEW box_pairings AS
SELECT b.name AS box, p.value ->> '$.host' AS host,
       substr(p.value ->> '$.host', 1, instr((p.value ->> '$.host') || '.', '.') - 1) AS handle,
       p.value ->> '$.state' AS state, p.value ->> '$.since' AS since,
       coalesce(p.value ->> '$.unapproved', 0) AS unapproved, p.value ->> '$.key' AS key,
       t.id AS look, t.finished_at AS told_at
  FROM host_terms AS t JOIN host_box AS b ON b.id = t.box_id JOIN json_each(t.answer, '$.pairings') AS p
 WHERE t.terms IS NULL AND t.state = 'taken' AND b.state = 'active'
   AND t.id = (SELECT max(id) FROM host_terms WHERE box_id = t.box_id AND terms IS NULL AND state = 'taken');

-- What this Host signed as an anchor, and what became of it.
CREATE VIEW signed_terms AS
SELECT t.id, b.name AS box, t.terms ->> '$.kind' AS kind, t.terms ->> '$.subject' AS host,
       t.state, t.made_at, t.tries, t.finished_at, t.code, t.why
  FROM host_terms AS t JOIN host_box AS b ON b.id = t.box_id WHERE t.terms IS NOT NULL;
