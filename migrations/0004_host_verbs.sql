-- 0004_host_verbs.sql: what a Host signs as an anchor and has carried to its boxes, asks that only look ahead.

DROP VIEW boxes;

ALTER TABLE call ADD COLUMN dry INTEGER NOT NULL DEFAULT 0 CHECK (dry IN (0, 1));

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
     WHERE OLD.terms IS NOT NULL OR OLD.finished_at IS NULL;
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
CREATE TRIGGER host_terms_end_with_link AFTER UPDATE OF state ON actor_run
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

-- How each box stands. Heard: it answered this Host, within the setting box.silent_ms.
CREATE VIEW boxes AS
SELECT b.id, b.name, b.state,
       CASE WHEN b.state = 'gone' THEN 'gone'
            WHEN w.state = 'behind' THEN 'rolled back'
            WHEN w.state = 'forked' THEN 'forked'
            WHEN b.heard_at IS NULL THEN 'not heard yet'
            WHEN b.heard_at < now_ms() - (SELECT value FROM setting WHERE name = 'box.silent_ms')
            THEN 'silent' ELSE 'heard' END AS status,
       b.paired_at, b.heard_at, b.lane,
       (SELECT count(*) FROM call AS c WHERE c.box_id = b.id) AS asks,
       CASE w.state WHEN 'followed' THEN printf('fits, %d rows', w.size)
                    WHEN 'behind' THEN 'ROLLED BACK: ' || w.why
                    WHEN 'forked' THEN 'FORKED: ' || w.why
                    WHEN 'accepted' THEN 'begins anew on a person''s word'
                    ELSE 'none shown yet' END AS audit,
       CASE WHEN b.heard_at IS NULL THEN 'never'
            WHEN now_ms() - b.heard_at < 120000 THEN max((now_ms() - b.heard_at) / 1000, 0) || ' s ago'
            WHEN now_ms() - b.heard_at < 7200000 THEN (now_ms() - b.heard_at) / 60000 || ' min ago'
            WHEN now_ms() - b.heard_at < 172800000 THEN (now_ms() - b.heard_at) / 3600000 || ' h ago'
            ELSE (now_ms() - b.heard_at) / 86400000 || ' d ago' END AS heard
  FROM host_box AS b LEFT JOIN box_witness AS w ON w.box_id = b.id;

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('terms.answer', 1, 502, 'see whether the box runs another bastion than this Host'),
    ('terms.busy', 75, 429, 'wait for what is carried now: bastion host terms'),
    ('terms.declined', 1, 409, 'nothing was signed'),
    ('terms.expired', 1, 504, 'find out why the box is not reached, then sign anew'),
    ('terms.failed', 1, 502, 'see what the box has now: bastion host pairings BOX'),
    ('terms.final', 1, 500, 'this is a fault in bastion: please report it'),
    ('terms.fixed', 1, 500, 'this is a fault in bastion: please report it'),
    ('terms.kept', 126, 409, 'see bastion host terms for what was signed'),
    ('terms.lost', 1, 502, 'it may have been heard; see what the box has now: bastion host pairings BOX'),
    ('terms.other', 126, 409, 'sign for the box that it is carried to'),
    ('terms.several', 2, 409, 'give the whole name: bastion host pairings BOX shows them'),
    ('terms.signature', 126, 403, 'have this Host sign: bastion host approve-pairing, revoke, consent'),
    ('terms.subject', 2, 404, 'see bastion host pairings BOX for the Hosts that it has'),
    ('terms.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('terms.unseen', 2, 403, 'say which key you mean: --key KEY, as bastion host pairings BOX shows it'),
    ('terms.waiting', 75, 504, 'see what becomes of it: bastion host terms');
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('box.silent_ms', 900000, 'ms', 1000, 31536000000, 'a box that has not answered for that long counts as silent'),
    ('terms.carry_ms', 86400000, 'ms', 1000, 2592000000, 'how long signed terms wait for their box to be reached'),
    ('terms.live', 64, 'rows', 1, 10000, 'terms and looks that may wait to be carried at once'),
    ('terms.look_ms', 30000, 'ms', 1000, 600000, 'how long a person waits for what a box has of pairings, or of terms'),
    ('terms.retry_ms', 15000, 'ms', 100, 3600000, 'rest between two tries to reach a box with terms'),
    ('terms.ttl_ms', 2592000000, 'ms', 1000, 31536000000, 'how long an approval of a Host runs where nothing else is said');
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('host_terms', '', 'waiting'),
    ('host_terms', 'waiting', 'sent'),
    ('host_terms', 'waiting', 'failed'),
    ('host_terms', 'waiting', 'expired'),
    ('host_terms', 'sent', 'taken'),
    ('host_terms', 'sent', 'refused'),
    ('host_terms', 'sent', 'failed'),
    ('host_terms', 'sent', 'waiting');
