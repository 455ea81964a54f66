-- 0003_pairings.sql: the anchor of a machine on a network, endpoints, shared folders, TLS, MCP.

DROP TRIGGER approval_born;
DROP TRIGGER restore_takes_back;
DROP TRIGGER pairing_born;
DROP TRIGGER pairing_moves;
DROP TRIGGER grant_on_a_persons_word;
DROP INDEX op_run_live;
DROP TRIGGER op_run_is_allowed;
DROP VIEW host_may;
DROP VIEW waiting;
DROP VIEW expiring;

-- What the anchor signed, byte for byte (Ed25519, domain bastion-anchor-1), and what it did:
--
--   {"kind": "pairing_grant" | "pairing_revoke" | "anchor_consent",
--    "anchor": its name, "server": the machine's name, "server_key": the machine's key in hex,
--    "subject": a Host's name, "subject_key": that Host's key in hex, "caps": [kind of op, …],
--    "issued_at": ms UTC, "expires_at": ms UTC}
--
-- Keys are named as well as names: terms for a Host serve no other that takes its name, on no other
-- machine. A consent names the Host that may take the anchor over.
CREATE TABLE anchor_terms (
    id          INTEGER PRIMARY KEY,
    terms       TEXT    NOT NULL CHECK (json_valid(terms) AND length(CAST(terms AS BLOB)) <= 4096),
    signature   BLOB    NOT NULL CHECK (length(signature) = 64),
    signer      BLOB    NOT NULL CHECK (length(signer) = 32),  -- the anchor's key at that time
    pairing_id  INTEGER NOT NULL REFERENCES pairing (id),      -- of the subject
    taken_at    INTEGER NOT NULL,
    -- (What is no JSON has none of these; the trigger says so.)
    kind        TEXT    GENERATED ALWAYS AS
                (CASE WHEN json_valid(terms) THEN terms ->> '$.kind' END) VIRTUAL,
    caps        TEXT    GENERATED ALWAYS AS
                (CASE WHEN json_valid(terms) THEN terms -> '$.caps' END) VIRTUAL,
    issued_at   INTEGER GENERATED ALWAYS AS
                (CASE WHEN json_valid(terms) THEN terms ->> '$.issued_at' END) VIRTUAL,
    expires_at  INTEGER GENERATED ALWAYS AS
                (CASE WHEN json_valid(terms) THEN terms ->> '$.expires_at' END) VIRTUAL
) STRICT;

-- Held by one Host, for good, until it consents to another or falls silent. The key is kept: what
-- answers to the name of the anchor with another key is not the anchor.
CREATE TABLE anchor (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    host_key   BLOB    NOT NULL CHECK (length(host_key) = 32),
    owner      TEXT    NOT NULL DEFAULT '' CHECK (length(owner) <= 64 AND instr(owner, char(0)) = 0),
    reason     TEXT    NOT NULL CHECK (reason IN ('paired', 'claimed', 'consent', 'silent')),
    terms_id   INTEGER REFERENCES anchor_terms (id),           -- the last consent that moved it
    claimed_at INTEGER NOT NULL,
    by_uid     INTEGER NOT NULL CHECK (by_uid >= 0),
    heard_at   INTEGER NOT NULL,                               -- last proof that the anchor lives
    CHECK (reason <> 'consent' OR terms_id IS NOT NULL)
) STRICT;

-- Local: a person's own machine, where being paired is enough to ask. Networked: a Host has to hold
-- the anchor before anybody is answered. The row is the change; who made it is what the kernel says,
-- and where a factor is enrolled it was proven in this very transaction.
CREATE TABLE mode_change (
    id        INTEGER PRIMARY KEY,
    mode      TEXT    NOT NULL CHECK (mode IN ('local', 'networked')),
    at        INTEGER NOT NULL,
    by_uid    INTEGER NOT NULL CHECK (by_uid >= 0),
    factor_id INTEGER REFERENCES factor (id)
) STRICT;

-- A person's word at the terminal that one more Host may ask a local machine. It is worth something
-- in the transaction that it is written in, once.
CREATE TABLE pairing_consent (
    id        INTEGER PRIMARY KEY,
    host_name TEXT    NOT NULL CHECK (length(host_name) BETWEEN 1 AND 64),
    host_key  BLOB    NOT NULL CHECK (length(host_key) = 32),
    answer    TEXT    NOT NULL,                                -- as it was typed
    by_uid    INTEGER NOT NULL CHECK (by_uid >= 0),
    at        INTEGER NOT NULL,
    used      INTEGER NOT NULL DEFAULT 0 CHECK (used IN (0, 1))
) STRICT;

-- Every Host here hears of a real change at once: one row for each, however many changes there are.
-- Whoever beats takes the row away and tells what is true by then.
CREATE TABLE beat_request (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    at         INTEGER NOT NULL
) STRICT;

CREATE TABLE context_ask (
    id             INTEGER PRIMARY KEY,
    nonce          TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    uid            INTEGER NOT NULL CHECK (uid >= 0),          -- who asks, on the kernel's word alone
    box_name       TEXT    NOT NULL,
    pairing_id     INTEGER NOT NULL REFERENCES pairing (id),
    host_name      TEXT    NOT NULL,
    root           TEXT    NOT NULL,                           -- absolute path, nothing to resolve in it
    name           TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64),   -- what the Host is to call it
    -- What the person reads, byte for byte. Text from the user stands as JSON, so it cannot pose as a line.
    terms          TEXT    GENERATED ALWAYS AS (
        'bastion folder 1' || char(10) ||
        'machine: ' || box_name || char(10) ||
        'host: ' || host_name || char(10) ||
        'asked by: uid ' || uid || char(10) ||
        'may have: ' || json_quote(root) || char(10) ||
        'called: ' || json_quote(name) || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL,
    digest         BLOB    CHECK (length(digest) = 32),        -- SHA-256 of terms, entered as it is born
    state          TEXT    NOT NULL DEFAULT 'pending'
                   CHECK (state IN ('pending', 'allowed', 'denied', 'expired', 'withdrawn', 'dropped')),
    asked_at       INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL CHECK (expires_at > asked_at),
    factor_id      INTEGER REFERENCES factor (id),
    decided_digest BLOB    CHECK (length(decided_digest) = 32),
    decided_by_uid INTEGER,
    decided_by     TEXT    CHECK (length(decided_by) BETWEEN 1 AND 64),
    decided_at     INTEGER,
    -- The folder that was found at the path when it was allowed: another one there later is not it.
    folder_dev     INTEGER,
    folder_ino     INTEGER,
    folder_uid     INTEGER,
    seal           BLOB    CHECK (length(seal) = 64),
    ended_at       INTEGER,
    CHECK (state NOT IN ('allowed', 'dropped')
           OR (factor_id IS NOT NULL AND decided_digest = digest AND decided_by_uid IS NOT NULL
               AND decided_by IS NOT NULL AND folder_dev IS NOT NULL AND folder_ino IS NOT NULL
               AND folder_uid = uid AND seal IS NOT NULL)),
    CHECK (state <> 'denied' OR (decided_by_uid IS NOT NULL AND decided_by IS NOT NULL)),
    CHECK ((state IN ('allowed', 'dropped', 'denied')) = (decided_at IS NOT NULL)),
    CHECK ((state IN ('pending', 'allowed')) = (ended_at IS NULL))
) STRICT;

-- The whole set is replaced at once. A pairing over a unix socket has none.
CREATE TABLE pairing_endpoint (
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    ord        INTEGER NOT NULL CHECK (ord >= 1),              -- the order in which they are tried
    endpoint   TEXT    NOT NULL,                               -- as endpoint_text() spells it
    PRIMARY KEY (pairing_id, ord)
) STRICT, WITHOUT ROWID;

ALTER TABLE pairing ADD COLUMN renewed_at INTEGER;                      -- the Host's last new code, --replace
ALTER TABLE pairing ADD COLUMN terms_id INTEGER REFERENCES anchor_terms (id);  -- the approval it stands on; NULL: none

CREATE INDEX anchor_terms_by_pairing ON anchor_terms (pairing_id, id);

CREATE INDEX anchor_terms_by_time ON anchor_terms (taken_at);

-- The same question is asked once, and a folder is shared once.
CREATE UNIQUE INDEX context_ask_open ON context_ask (uid, pairing_id, root)
 WHERE state IN ('pending', 'allowed');

CREATE INDEX context_ask_due ON context_ask (expires_at) WHERE state = 'pending';

CREATE INDEX context_ask_by_user ON context_ask (uid, asked_at);

CREATE INDEX op_run_live ON op_run (id, pairing_id) WHERE finished_at IS NULL;

-- The anchor where it is in force: its pairing stands, with the key that holds it.
CREATE VIEW live_anchor AS
SELECT a.pairing_id, p.host_name AS host, a.owner, a.reason, a.claimed_at, a.heard_at
  FROM anchor AS a
  JOIN pairing AS p ON p.id = a.pairing_id AND p.state = 'active' AND p.host_key = a.host_key
 WHERE NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = p.id);

-- Kinds of ops that the anchor approved for Hosts beside it, as long as that approval runs.
CREATE VIEW approved_kinds AS
SELECT p.id AS pairing_id, c.value AS class
  FROM pairing AS p JOIN anchor_terms AS t ON t.id = p.terms_id JOIN json_each(t.caps) AS c
 WHERE t.expires_at > now_ms();

-- What a Host may ask for at all, before any grant: everything on a local machine; on a network
-- nothing without an anchor, everything for the anchor, and for others the kinds that it approved.
CREATE VIEW pairing_may AS
SELECT p.id AS pairing_id, o.name AS op
  FROM pairing AS p JOIN op AS o
 WHERE (SELECT mode FROM box) = 'local'
    OR p.id IS (SELECT pairing_id FROM live_anchor)
    OR (EXISTS (SELECT 1 FROM live_anchor)
        AND EXISTS (SELECT 1 FROM approved_kinds WHERE pairing_id = p.id AND class = o.class));

-- Hosts that ask on the anchor's word, until when. The anchor itself asks on nobody's.
CREATE VIEW approved_pairings AS
SELECT p.id AS pairing_id, t.expires_at AS approved_until
  FROM pairing AS p JOIN anchor_terms AS t ON t.id = p.terms_id
 WHERE p.state = 'active' AND p.id IS NOT (SELECT pairing_id FROM anchor);

-- Hosts that have waited for the anchor's word for long enough to be told of.
CREATE VIEW unapproved_attempts AS
SELECT id AS pairing_id, host, handle, state, since FROM pairing_status
 WHERE state = 'pending' AND EXISTS (SELECT 1 FROM anchor)
   AND since <= now_ms() - (SELECT value FROM setting WHERE name = 'anchor.unapproved_ms');

-- What a Host is told of the pairings here: the anchor of all, another of its own alone.
CREATE VIEW told_pairings AS
SELECT asks.id AS asks_id, s.id AS pairing_id, s.host, s.handle, s.state, s.since, p.host_key,
       s.id IN (SELECT pairing_id FROM unapproved_attempts) AS unapproved
  FROM pairing AS asks
  JOIN pairing_status AS s ON s.state <> 'invalid'
                          AND (s.id = asks.id OR asks.id IS (SELECT pairing_id FROM live_anchor))
  JOIN pairing AS p ON p.id = s.id;

-- What waits for a person.
CREATE VIEW open_context_asks AS
SELECT id, host_name AS host, uid, root, name, asked_at, expires_at
  FROM context_ask WHERE state = 'pending' AND expires_at > now_ms();

-- What each Host may have, on whose word.
CREATE VIEW shared_folders AS
SELECT c.id, c.host_name AS host, c.uid, c.root, c.name, c.folder_dev, c.folder_ino, c.decided_by,
       f.label AS factor, c.decided_at
  FROM context_ask AS c JOIN pairing_status AS p ON p.id = c.pairing_id
  JOIN factor AS f ON f.id = c.factor_id
 WHERE c.state = 'allowed' AND p.active;

-- What is wrong with a record that this build cannot serve, one row each. It is reported, never
-- stored, and stands over the state that is. Such a pairing can be listed, paired anew and taken
-- back; it is never asked for, approved, made the anchor or told of to a Host: the triggers that
-- would let it look here. (The largest user is nobody's number.)
CREATE VIEW pairing_invalid AS
SELECT id, 'no process of this machine can be the user that served this Host' AS reason
  FROM pairing WHERE state <> 'revoked' AND peer_uid >= 4294967295
UNION ALL
SELECT p.id, printf('its endpoint %d is not a host:port',
                    (SELECT min(ord) FROM pairing_endpoint
                      WHERE pairing_id = p.id AND endpoint_text(endpoint) IS NULL))
  FROM pairing AS p
 WHERE p.peer_uid < 4294967295
   AND EXISTS (SELECT 1 FROM pairing_endpoint
                WHERE pairing_id = p.id AND endpoint_text(endpoint) IS NULL);

-- How each pairing stands. A handle is the name up to its first dot.
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

-- What may a Host do now, how often still, until when, and on whose word? A grant that the anchor of a
-- machine on a network does not let it use, or of a pairing that cannot be served, is not in it.
CREATE VIEW host_may AS
SELECT g.host, g.op, g.args, g.uses - g.used AS uses_left, g.expires_at,
       a.decided_by AS approved_by, g.approver AS approved_with, g.id AS grant_id, g.approval_id
  FROM live_grants AS g
  JOIN approval AS a ON a.id = g.approval_id
  JOIN pairing_may AS m ON m.pairing_id = a.pairing_id AND m.op = g.op
 WHERE NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = a.pairing_id);

-- What waits for a person, since when, until when, and what they type to answer it?
CREATE VIEW waiting AS
SELECT 'approval' AS kind, id, host, op || ' ' || args AS what, asked_at, expires_at,
       'bastion approve ' || id AS answer
  FROM open_approvals
UNION ALL
SELECT 'pairing', id, host, 'the word of the anchor', since, NULL, 'bastion pairings show ' || host
  FROM pairing_status WHERE state = 'pending'
UNION ALL
SELECT 'folder', id, host, 'uid ' || uid || ' shares ' || root, asked_at, expires_at,
       'bastion context allow ' || id
  FROM open_context_asks
UNION ALL
SELECT 'invitation', id, NULL, 'the box ' || box_name || ' has not come yet', created_at, expires_at,
       'on the box: bastion pair CODE'
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, asked_at, expires_at,
       'bastion sql -w --amendment ' || id || ' --signature FILE'
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms();

-- What is about to end by itself, first things first?
CREATE VIEW expiring AS
SELECT 'grant' AS kind, id, host AS name, op || ' ' || args AS what, expires_at FROM live_grants
UNION ALL
SELECT 'approval', id, host, op || ' ' || args, expires_at FROM open_approvals
UNION ALL
SELECT 'folder', id, host, 'uid ' || uid || ' shares ' || root, expires_at FROM open_context_asks
UNION ALL
SELECT 'pairing', a.pairing_id, p.host_name, 'the word of the anchor', a.approved_until
  FROM approved_pairings AS a JOIN pairing AS p ON p.id = a.pairing_id
UNION ALL
SELECT 'invitation', id, box_name, 'a pairing code', expires_at
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, expires_at
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms()
UNION ALL
SELECT 'lease', NULL, name, 'held', expires_at
  FROM lease WHERE process_id IS NOT NULL AND expires_at > now_ms();

CREATE TRIGGER anchor_terms_hold BEFORE INSERT ON anchor_terms
BEGIN
    SELECT RAISE(ABORT, 'anchor.none|no Host is the anchor of this machine')
     WHERE NOT EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'anchor.signature|these terms are not signed by the anchor of this machine')
     WHERE NEW.signer IS NOT (SELECT host_key FROM anchor)
        OR signed_by('bastion-anchor-1', NEW.signer, NEW.terms, NEW.signature) IS NOT 1;
    SELECT RAISE(ABORT, 'anchor.terms|these are no terms of an anchor')
     WHERE CASE WHEN json_valid(NEW.terms) THEN json_type(NEW.terms) <> 'object' ELSE 1 END
        OR length(CAST(NEW.terms AS BLOB)) > 4096;
    -- Exactly these members, each once: a reader that takes the first of two and one that takes
    -- the last would read different terms.
    SELECT RAISE(ABORT, 'anchor.terms|these are no terms of an anchor')
     WHERE (SELECT group_concat(key || ' ' || type) FROM (SELECT key, type FROM json_each(NEW.terms)
             ORDER BY key)) IS NOT 'anchor text,caps array,expires_at integer,issued_at integer,'
           || 'kind text,server text,server_key text,subject text,subject_key text'
        OR (SELECT count(*) FROM json_each(NEW.terms)) <> 9
        OR (NEW.terms ->> '$.kind') NOT IN ('pairing_grant', 'pairing_revoke', 'anchor_consent')
        OR json_array_length(NEW.terms, '$.caps') > 64
        OR EXISTS (SELECT 1 FROM json_each(NEW.terms, '$.caps')
                    WHERE type <> 'text' OR value GLOB '*[^a-z-]*'
                       OR length(value) NOT BETWEEN 1 AND 32);
    SELECT RAISE(ABORT, 'anchor.other|these terms are for another machine, or of another anchor')
     WHERE (NEW.terms ->> '$.server') IS NOT (SELECT name FROM box)
        OR (NEW.terms ->> '$.server_key') IS NOT (SELECT lower(hex(identity_key)) FROM box)
        OR (NEW.terms ->> '$.anchor')
           IS NOT (SELECT host_name FROM pairing WHERE id = (SELECT pairing_id FROM anchor));
    SELECT RAISE(ABORT, 'anchor.subject|no Host of this name and key is paired here')
     WHERE NOT EXISTS (SELECT 1 FROM pairing WHERE id = NEW.pairing_id AND state <> 'revoked'
                          AND host_name = NEW.terms ->> '$.subject'
                          AND lower(hex(host_key)) = NEW.terms ->> '$.subject_key');
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE (NEW.terms ->> '$.kind') <> 'pairing_revoke'
       AND EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'anchor.time|the time that these terms were signed at cannot be')
     WHERE (NEW.terms ->> '$.issued_at')
           > now_ms() + (SELECT value FROM setting WHERE name = 'lane.skew_ms')
        OR (NEW.terms ->> '$.issued_at') < (SELECT claimed_at FROM anchor)
           - (SELECT value FROM setting WHERE name = 'lane.skew_ms')
        OR (NEW.terms ->> '$.expires_at') <= (NEW.terms ->> '$.issued_at')
        OR NEW.taken_at <> now_ms();
    -- (What was given, and taken back, since the copy was made is not in it.)
    SELECT RAISE(ABORT, 'anchor.replayed|these terms were signed before this database was restored')
     WHERE (NEW.terms ->> '$.kind') <> 'pairing_revoke'
       AND (NEW.terms ->> '$.issued_at') <= (SELECT max(restored_at) FROM restore);
    SELECT RAISE(ABORT, 'anchor.expired|these terms ran out')
     WHERE (NEW.terms ->> '$.expires_at') <= now_ms();
    SELECT RAISE(ABORT, 'anchor.replayed|terms as new or newer about this Host were taken before')
     WHERE EXISTS (SELECT 1 FROM anchor_terms AS t WHERE t.pairing_id = NEW.pairing_id
                      AND t.issued_at >= NEW.terms ->> '$.issued_at');
    SELECT RAISE(ABORT, 'anchor.busy|the anchor signs more than this machine keeps of one day')
     WHERE (NEW.terms ->> '$.kind') <> 'pairing_revoke'
       AND (SELECT count(*) FROM anchor_terms WHERE taken_at > now_ms() - 86400000)
        >= (SELECT value FROM setting WHERE name = 'anchor.terms');
    SELECT RAISE(ABORT, 'anchor.self|an anchor neither revokes itself nor consents to itself')
     WHERE (NEW.terms ->> '$.kind') <> 'pairing_grant'
       AND NEW.pairing_id = (SELECT pairing_id FROM anchor);
END;

CREATE TRIGGER anchor_terms_do AFTER INSERT ON anchor_terms
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'pairing', 'anchor_terms', NEW.id, NEW.kind, NEW.terms ->> '$.anchor',
           json_object('subject', NEW.terms ->> '$.subject', 'caps', json(NEW.caps),
                       'issued_at', NEW.issued_at, 'expires_at', NEW.expires_at,
                       'terms_sha256', lower(hex(sha256(NEW.terms))));
    UPDATE pairing SET state = 'active', terms_id = NEW.id
     WHERE id = NEW.pairing_id AND NEW.kind = 'pairing_grant';
    UPDATE pairing SET state = 'revoked', ended_at = NEW.taken_at
     WHERE id = NEW.pairing_id AND NEW.kind = 'pairing_revoke';
    UPDATE anchor SET heard_at = NEW.taken_at WHERE heard_at < NEW.taken_at;
END;

CREATE TRIGGER anchor_terms_no_update BEFORE UPDATE ON anchor_terms
BEGIN
    SELECT RAISE(ABORT, 'anchor.history|what an anchor signed is history');
END;

CREATE TRIGGER anchor_terms_no_delete BEFORE DELETE ON anchor_terms
BEGIN
    SELECT RAISE(ABORT, 'anchor.history|what an anchor signed is history');
END;

CREATE TRIGGER anchor_claimed BEFORE INSERT ON anchor
BEGIN
    SELECT RAISE(ABORT, 'box.authority|an anchor is claimed with machine authority, by root')
     WHERE NEW.by_uid <> 0;
    SELECT RAISE(ABORT, 'anchor.mode|only a machine on a network has an anchor')
     WHERE (SELECT mode FROM box) IS NOT 'networked';
    SELECT RAISE(ABORT, 'anchor.held|this machine has an anchor already')
     WHERE EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'anchor.revoked|this Host is no longer paired here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
       AND (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'pending';
    SELECT RAISE(ABORT, 'pairing.several|more than one Host is paired here, so one has to be named')
     WHERE NEW.reason = 'paired'
       AND (SELECT count(*) FROM pairing WHERE state <> 'revoked') <> 1;
    SELECT RAISE(ABORT, 'anchor.held|an anchor begins with the key of its pairing, at the present time')
     WHERE NEW.host_key IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id)
        OR NEW.reason NOT IN ('paired', 'claimed') OR NEW.terms_id IS NOT NULL
        OR NEW.claimed_at <> now_ms() OR NEW.heard_at <> now_ms();
END;

-- It moves on the anchor's word or after its silence, never else; to be heard is all that is left.
CREATE TRIGGER anchor_moves BEFORE UPDATE ON anchor
BEGIN
    SELECT RAISE(ABORT, 'anchor.held|an anchor that is heard stays what it is')
     WHERE NEW.pairing_id IS OLD.pairing_id AND NEW.host_key IS OLD.host_key
       AND (NEW.owner IS NOT OLD.owner OR NEW.reason IS NOT OLD.reason
            OR NEW.terms_id IS NOT OLD.terms_id OR NEW.claimed_at IS NOT OLD.claimed_at
            OR NEW.by_uid IS NOT OLD.by_uid OR NEW.heard_at < OLD.heard_at
            OR NEW.heard_at > now_ms());
    SELECT RAISE(ABORT, 'anchor.held|an anchor that moves begins anew, at the present time')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND (NEW.claimed_at <> now_ms() OR NEW.heard_at <> now_ms()
            OR NEW.reason NOT IN ('consent', 'silent')
            OR NEW.host_key IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id));
    SELECT RAISE(ABORT, 'box.authority|an anchor is moved with machine authority, by root')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND NEW.by_uid <> 0;
    SELECT RAISE(ABORT, 'anchor.mode|only a machine on a network has an anchor')
     WHERE (SELECT mode FROM box) IS NOT 'networked';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'anchor.revoked|this Host is no longer paired here')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
       AND (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'pending';
    SELECT RAISE(ABORT, 'anchor.consent|the present anchor has not consented to this Host')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND NEW.reason = 'consent'
       AND NOT EXISTS (SELECT 1 FROM anchor_terms AS t WHERE t.id = NEW.terms_id
                          AND t.kind = 'anchor_consent' AND t.signer = OLD.host_key
                          AND t.pairing_id = NEW.pairing_id
                          AND t.terms ->> '$.subject_key' = lower(hex(NEW.host_key))
                          AND t.expires_at > now_ms() AND t.id > coalesce(OLD.terms_id, 0));
    SELECT RAISE(ABORT, 'anchor.silence|the present anchor has not been silent for long enough')
     WHERE (NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key)
       AND NEW.reason = 'silent'
       AND (NEW.terms_id IS NOT OLD.terms_id
            OR OLD.heard_at > now_ms()
               - (SELECT value FROM setting WHERE name = 'anchor.silent_ms'));
END;

CREATE TRIGGER anchor_stays BEFORE DELETE ON anchor
BEGIN
    SELECT RAISE(ABORT, 'anchor.held|an anchor is rotated, not deleted');
END;

-- Whom the machine answers to is approved by that.
CREATE TRIGGER anchor_is_served AFTER INSERT ON anchor
BEGIN
    UPDATE pairing SET state = 'active' WHERE id = NEW.pairing_id AND state = 'pending';
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'anchor', 1, NEW.reason,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('owner', NEW.owner, 'uid', NEW.by_uid, 'key', lower(hex(NEW.host_key))));
END;

CREATE TRIGGER anchor_moved AFTER UPDATE ON anchor
WHEN NEW.pairing_id IS NOT OLD.pairing_id OR NEW.host_key IS NOT OLD.host_key
BEGIN
    UPDATE pairing SET state = 'active' WHERE id = NEW.pairing_id AND state = 'pending';
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'anchor', 1, NEW.reason,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('owner', NEW.owner, 'uid', NEW.by_uid, 'key', lower(hex(NEW.host_key)),
                        'from', (SELECT host_name FROM pairing WHERE id = OLD.pairing_id),
                        'heard_at', OLD.heard_at, 'terms', NEW.terms_id));
END;

CREATE TRIGGER approval_born BEFORE INSERT ON approval
BEGIN
    -- A question that ran out does not stand in the way of the next, nor does it count.
    UPDATE approval SET state = 'expired', decided_at = now_ms()
     WHERE pairing_id = NEW.pairing_id AND state = 'pending' AND expires_at <= now_ms();
    SELECT RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
     WHERE (SELECT mode FROM box) = 'networked' AND NOT EXISTS (SELECT 1 FROM live_anchor);
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'approval.transition|an approval begins as pending')
     WHERE NEW.state <> 'pending';
    SELECT RAISE(ABORT, 'op.unknown|there is no op of this name')
     WHERE NOT EXISTS (SELECT 1 FROM op WHERE name = NEW.op);
    SELECT RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_may WHERE pairing_id = NEW.pairing_id AND op = NEW.op);
    SELECT RAISE(ABORT, 'op.args|arguments are a JSON array of at most 16384 characters')
     WHERE CASE WHEN json_valid(NEW.args) THEN json_type(NEW.args) <> 'array' ELSE 1 END
        OR length(NEW.args) > 16384;
    SELECT RAISE(ABORT, 'approval.uses|at least one use, and no more than the setting grant.uses allows')
     WHERE NEW.uses NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'grant.uses');
    SELECT RAISE(ABORT, 'approval.ttl|whole seconds, and no longer than the setting grant.ttl_ms allows')
     WHERE NEW.ttl_ms NOT BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'grant.ttl_ms')
        OR NEW.ttl_ms % 1000 <> 0;
    SELECT RAISE(ABORT, 'approval.terms|the terms name another machine, Host or text')
     WHERE NEW.box_name IS NOT (SELECT name FROM box)
        OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
        OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms));
    SELECT RAISE(ABORT, 'approval.busy|too many questions of this Host wait for a person')
     WHERE (SELECT count(*) FROM approval WHERE pairing_id = NEW.pairing_id AND state = 'pending')
        >= (SELECT value FROM setting WHERE name = 'approval.pending');
END;

CREATE TRIGGER restore_takes_back AFTER INSERT ON restore
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'restore', NEW.id, 'restored', '',
            json_object('seq', NEW.seq, 'head', lower(hex(NEW.head)), 'replaced_seq', NEW.replaced_seq,
                        'replaced_head', lower(hex(NEW.replaced_head)),
                        'keep_grants', NEW.keep_grants, 'keep_factors', NEW.keep_factors));
    -- A question may have been answered since; the same signature would answer it again.
    UPDATE approval SET state = 'expired', decided_at = now_ms() WHERE state = 'pending';
    UPDATE invitation SET state = 'withdrawn', ended_at = now_ms() WHERE state = 'open';
    UPDATE context_ask SET state = iif(state = 'pending', 'expired', 'dropped'), ended_at = now_ms()
     WHERE state IN ('pending', 'allowed');
    UPDATE pairing SET state = 'revoked', ended_at = now_ms()
     WHERE state <> 'revoked' AND NEW.live IS NOT NULL
       AND json_array(host_name, lower(hex(host_key)), since) NOT IN
           (SELECT value FROM json_each(NEW.live, '$.pairings'));
    UPDATE host_box SET state = 'gone', gone_at = now_ms()
     WHERE state = 'active' AND NEW.live IS NOT NULL
       AND json_array(name, lower(hex(box_key)), paired_at) NOT IN
           (SELECT value FROM json_each(NEW.live, '$.boxes'));
    UPDATE factor SET state = 'dropped', dropped_at = now_ms()
     WHERE state = 'active'
       AND CASE WHEN NEW.live IS NULL THEN NOT NEW.keep_factors
                ELSE json_array(fingerprint, enrolled_at) NOT IN
                     (SELECT json_array(value ->> 0, value ->> 1)
                        FROM json_each(NEW.live, '$.factors')) END;
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored'
     WHERE state = 'active'
       AND (NOT NEW.keep_grants
            OR (NEW.live IS NOT NULL AND lower(hex(seal)) NOT IN
                (SELECT value FROM json_each(NEW.live, '$.grants'))));
    -- Codes that were used, and signatures of a token that counts, are not good again.
    UPDATE factor
       SET last_counter = now_ms() / 30000 + (SELECT value FROM setting WHERE name = 'factor.steps')
     WHERE state = 'active' AND kind = 'totp' AND last_counter <
           now_ms() / 30000 + (SELECT value FROM setting WHERE name = 'factor.steps');
    UPDATE factor SET last_counter = l.value ->> 2
      FROM json_each(NEW.live, '$.factors') AS l
     WHERE state = 'active' AND kind = 'ssh'
       AND fingerprint = l.value ->> 0 AND enrolled_at = l.value ->> 1
       AND last_counter < l.value ->> 2;
END;

-- (Whoever changes it: a machine with an anchor answers to more than the person in front of it.)
CREATE TRIGGER box_mode_with_anchor BEFORE UPDATE OF mode ON box
WHEN NEW.mode = 'local' AND OLD.mode <> 'local' AND EXISTS (SELECT 1 FROM anchor)
BEGIN
    SELECT RAISE(ABORT, 'box.anchored|a machine with an anchor stays on its network');
END;

CREATE TRIGGER mode_change_is_allowed BEFORE INSERT ON mode_change
BEGIN
    SELECT RAISE(ABORT, 'box.authority|the mode of a machine is changed with machine authority, by root')
     WHERE NEW.by_uid <> 0;
    SELECT RAISE(ABORT, 'box.role|only a machine that Hosts ask has a mode')
     WHERE (SELECT role FROM box) <> 'box';
    SELECT RAISE(ABORT, 'box.mode|the machine is in this mode already')
     WHERE (SELECT mode FROM box) = NEW.mode;
    SELECT RAISE(ABORT, 'box.anchored|a machine with an anchor stays on its network')
     WHERE NEW.mode = 'local' AND EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'box.factor|a factor is enrolled here, so it has to prove this change')
     WHERE EXISTS (SELECT 1 FROM factor WHERE state = 'active')
       AND ((SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
            OR NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms()));
END;

CREATE TRIGGER mode_change_is_done AFTER INSERT ON mode_change
BEGIN
    UPDATE box SET mode = NEW.mode;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'box', 1, NEW.mode, '',
            json_object('change', NEW.id, 'uid', NEW.by_uid, 'factor', NEW.factor_id));
END;

CREATE TRIGGER mode_change_no_update BEFORE UPDATE ON mode_change
BEGIN
    SELECT RAISE(ABORT, 'box.history|a change of mode is history');
END;

CREATE TRIGGER mode_change_no_delete BEFORE DELETE ON mode_change
BEGIN
    SELECT RAISE(ABORT, 'box.history|a change of mode is history');
END;

CREATE TRIGGER pairing_consent_is_a_yes BEFORE INSERT ON pairing_consent
WHEN lower(NEW.answer) NOT IN ('y', 'yes') OR NEW.at <> now_ms() OR NEW.used <> 0
BEGIN
    SELECT RAISE(ABORT, 'pairing.second|a second Host is paired on a plain y or yes alone');
END;

CREATE TRIGGER pairing_consent_once BEFORE UPDATE ON pairing_consent
WHEN OLD.used = 1 OR NEW.used <> 1 OR NEW.id IS NOT OLD.id OR NEW.host_name IS NOT OLD.host_name
  OR NEW.host_key IS NOT OLD.host_key OR NEW.answer IS NOT OLD.answer
  OR NEW.by_uid IS NOT OLD.by_uid OR NEW.at IS NOT OLD.at
BEGIN
    SELECT RAISE(ABORT, 'pairing.consent|a consent is used once and is history');
END;

CREATE TRIGGER pairing_consent_stays BEFORE DELETE ON pairing_consent
BEGIN
    SELECT RAISE(ABORT, 'pairing.consent|a consent is used once and is history');
END;

CREATE TRIGGER pairing_consent_audit AFTER INSERT ON pairing_consent
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_consent', NEW.id, 'given', '',
            json_object('host', NEW.host_name, 'key', lower(hex(NEW.host_key)), 'uid', NEW.by_uid));
END;

CREATE TRIGGER pairing_born BEFORE INSERT ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.key|a Host of this name is paired here with another key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name AND state <> 'revoked'
                      AND host_key <> NEW.host_key);
    SELECT RAISE(ABORT, 'pairing.exists|this Host is already paired here')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked')
       AND NOT EXISTS (SELECT 1 FROM pairing_consent WHERE host_name = NEW.host_name
                          AND host_key = NEW.host_key AND used = 0 AND at = now_ms());
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot begin in this state')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = '' AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'anchor.approval|the anchor has not approved this Host')
     WHERE NEW.state = 'active' AND EXISTS (SELECT 1 FROM anchor);
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing begins without an approval')
     WHERE NEW.terms_id IS NOT NULL OR NEW.renewed_at IS NOT NULL;
END;

CREATE TRIGGER pairing_moves BEFORE UPDATE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its Host')
     WHERE NEW.id IS NOT OLD.id OR NEW.host_name IS NOT OLD.host_name
        OR NEW.transport IS NOT OLD.transport;
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its key until it is paired anew')
     WHERE OLD.state <> 'revoked'
       AND (NEW.host_key IS NOT OLD.host_key OR NEW.since IS NOT OLD.since
            OR (NEW.peer_uid IS NOT OLD.peer_uid AND NEW.renewed_at IS NOT now_ms()));
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

CREATE TRIGGER pairing_uses_consent_birth AFTER INSERT ON pairing
BEGIN
    UPDATE pairing_consent SET used = 1
     WHERE host_name = NEW.host_name AND host_key = NEW.host_key AND used = 0;
END;

CREATE TRIGGER pairing_uses_consent_return AFTER UPDATE OF state ON pairing
WHEN OLD.state = 'revoked' AND NEW.state <> 'revoked'
BEGIN
    UPDATE pairing_consent SET used = 1
     WHERE host_name = NEW.host_name AND host_key = NEW.host_key AND used = 0;
END;

CREATE TRIGGER pairing_audit_renewal AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'from', OLD.state, 'renewed', json('true'),
                        'peer_uid', NEW.peer_uid));
END;

CREATE TRIGGER pairing_beats AFTER UPDATE OF state ON pairing
WHEN NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.id)
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
    DELETE FROM beat_request WHERE pairing_id IN (SELECT id FROM pairing_status WHERE NOT active);
END;

CREATE TRIGGER context_ask_born BEFORE INSERT ON context_ask
BEGIN
    -- A question that ran out does not stand in the way of the next, nor does it count.
    UPDATE context_ask SET state = 'expired', ended_at = now_ms()
     WHERE state = 'pending' AND expires_at <= now_ms();
    SELECT CASE
           WHEN NEW.state <> 'pending'
           THEN RAISE(ABORT, 'context.transition|an ask begins as pending')
           WHEN NEW.pairing_id IS NULL
           THEN RAISE(ABORT, 'context.host|which Host is to have it is not clear: none is served by that name, or several are')
           WHEN (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
           THEN RAISE(ABORT, 'pairing.invalid|this pairing is not served')
           WHEN NEW.box_name IS NOT (SELECT name FROM box)
             OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
             OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms))
           THEN RAISE(ABORT, 'context.terms|the terms name another machine, Host or text')
           WHEN NEW.root IS NULL OR NEW.root NOT GLOB '/?*' OR NEW.root GLOB '*/'
             OR length(CAST(NEW.root AS BLOB)) > 4095
             OR instr(NEW.root, '//') > 0 OR instr(NEW.root || '/', '/./') > 0
             OR instr(NEW.root || '/', '/../') > 0
             OR instr(NEW.root, char(0)) > 0
             OR NEW.root GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
           THEN RAISE(ABORT, 'context.path|a folder is named by its absolute path, without links, dots and control characters')
           WHEN NEW.root || '/' GLOB '/proc/*' OR NEW.root || '/' GLOB '/sys/*' OR NEW.root || '/' GLOB '/dev/*'
           THEN RAISE(ABORT, 'context.path|what is in /proc, /sys and /dev is no folder of a user')
           WHEN length(NEW.name) NOT BETWEEN 1 AND 64 OR instr(NEW.name, char(0)) > 0
             OR NEW.name GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
           THEN RAISE(ABORT, 'context.name|a name has 1 to 64 characters and none that controls')
           WHEN EXISTS (SELECT 1 FROM context_ask WHERE uid = NEW.uid AND pairing_id = NEW.pairing_id
                           AND root = NEW.root AND state IN ('pending', 'allowed'))
           THEN RAISE(ABORT, 'context.exists|this was asked already, and waits for a person or was allowed')
           WHEN (SELECT count(*) FROM context_ask WHERE uid = NEW.uid AND state = 'pending')
             >= (SELECT value FROM setting WHERE name = 'context.pending_uid')
           THEN RAISE(ABORT, 'context.yours|busy: too many asks of this user wait for a person')
           WHEN (SELECT count(*) FROM context_ask WHERE state = 'pending')
             >= (SELECT value FROM setting WHERE name = 'context.pending')
           THEN RAISE(ABORT, 'context.busy|busy: too many asks of this machine wait for a person')
           WHEN (SELECT count(*) FROM context_ask WHERE uid = NEW.uid AND asked_at
                  > now_ms() - (SELECT value FROM setting WHERE name = 'context.window_ms'))
             >= (SELECT value FROM setting WHERE name = 'context.asks')
           THEN RAISE(ABORT, 'context.rate|this user asked too often lately')
           END;
END;

-- (In a BEFORE UPDATE trigger NEW's generated columns are not computed yet: name what they are made of.)
CREATE TRIGGER context_ask_moves BEFORE UPDATE ON context_ask
BEGIN
    SELECT RAISE(ABORT, 'context.decided|this ask is decided already')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'context_ask' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'context.decided|this ask is decided already')
     WHERE NEW.state IS OLD.state AND OLD.digest IS NOT NULL;
    SELECT RAISE(ABORT, 'context.terms|the terms of an ask never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.uid IS NOT OLD.uid
        OR NEW.box_name IS NOT OLD.box_name OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_name IS NOT OLD.host_name OR NEW.root IS NOT OLD.root OR NEW.name IS NOT OLD.name
        OR NEW.digest IS NOT coalesce(OLD.digest, sha256(OLD.terms))
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'context.terms|a decision never changes')
     WHERE (OLD.state <> 'pending' OR NEW.state NOT IN ('allowed', 'denied'))
       AND (NEW.factor_id IS NOT OLD.factor_id OR NEW.decided_digest IS NOT OLD.decided_digest
            OR NEW.decided_by_uid IS NOT OLD.decided_by_uid OR NEW.decided_by IS NOT OLD.decided_by
            OR NEW.decided_at IS NOT OLD.decided_at OR NEW.folder_dev IS NOT OLD.folder_dev
            OR NEW.folder_ino IS NOT OLD.folder_ino OR NEW.folder_uid IS NOT OLD.folder_uid
            OR NEW.seal IS NOT OLD.seal);
    SELECT RAISE(ABORT, 'context.expired|this ask ran out before it was answered')
     WHERE NEW.state IN ('allowed', 'denied') AND OLD.expires_at <= now_ms();
    SELECT CASE
           WHEN (SELECT active FROM pairing_status WHERE id = OLD.pairing_id) IS NOT 1
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
           THEN RAISE(ABORT, 'approval.factor|the approving factor is not active')
           WHEN sha256(OLD.terms) IS NOT NEW.decided_digest
           THEN RAISE(ABORT, 'context.terms|what was allowed is not what was asked')
           WHEN NEW.folder_uid IS NOT OLD.uid
           THEN RAISE(ABORT, 'context.owner|the folder is not one of the user who asks')
           WHEN seal_ok('folder', json_array('folder', OLD.id, OLD.pairing_id, OLD.uid, OLD.root,
                    OLD.name, NEW.folder_dev, NEW.folder_ino, NEW.factor_id, NEW.decided_at), NEW.seal)
                IS NOT 1
           THEN RAISE(ABORT, 'context.seal|the seal of this answer is not of this machine')
           END
     WHERE NEW.state = 'allowed';
END;

CREATE TRIGGER context_ask_stays BEFORE DELETE ON context_ask
BEGIN
    SELECT RAISE(ABORT, 'context.kept|an ask and its answer are history');
END;

CREATE TRIGGER context_ask_audit_birth AFTER INSERT ON context_ask
BEGIN
    UPDATE context_ask SET digest = sha256(terms) WHERE id = NEW.id AND digest IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'context_ask', NEW.id, NEW.state, NEW.host_name,
            json_object('uid', NEW.uid, 'root', NEW.root, 'name', NEW.name,
                        'digest', (SELECT lower(hex(digest)) FROM context_ask WHERE id = NEW.id)));
END;

CREATE TRIGGER context_ask_audit_move AFTER UPDATE OF state ON context_ask
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'context_ask', NEW.id, NEW.state, NEW.host_name,
            json_object('uid', NEW.uid, 'root', NEW.root, 'factor', NEW.factor_id,
                        'by', NEW.decided_by));
END;

-- What a pairing allowed ends with it.
CREATE TRIGGER context_ask_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE context_ask SET state = iif(state = 'pending', 'expired', 'dropped'), ended_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state IN ('pending', 'allowed');
END;

CREATE TRIGGER factor_dropped_folders AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state = 'active'
BEGIN
    UPDATE context_ask SET state = 'dropped', ended_at = NEW.dropped_at
     WHERE factor_id = NEW.id AND state = 'allowed';
END;

CREATE TRIGGER grant_on_a_persons_word BEFORE INSERT ON grant
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'grant.approval|a grant repeats an approval that was given and not used')
     WHERE NOT EXISTS (SELECT 1 FROM approval AS a
           WHERE a.id = NEW.approval_id AND a.state = 'approved' AND a.kind = NEW.kind
             AND a.pairing_id = NEW.pairing_id AND a.op = NEW.op AND a.args = NEW.args
             AND a.uses = NEW.uses AND a.factor_id = NEW.factor_id
             AND a.decided_at = NEW.created_at AND NEW.expires_at = a.decided_at + a.ttl_ms);
    SELECT RAISE(ABORT, 'grant.seal|the seal of this grant is not of this machine')
     WHERE seal_ok('grant', NEW.seal_text, NEW.seal) IS NOT 1;
    SELECT RAISE(ABORT, 'grant.transition|a grant begins as active') WHERE NEW.state <> 'active';
END;

-- Deciding is what the database does most: what says yes or no is read once.
CREATE TRIGGER op_run_is_allowed BEFORE INSERT ON op_run
BEGIN
    SELECT CASE
           WHEN b.mode IS NOT 'local' AND NOT EXISTS (SELECT 1 FROM live_anchor)
           THEN RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
           WHEN p.state IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
           THEN RAISE(ABORT, 'pairing.invalid|this pairing is not served')
           WHEN o.name IS NULL
           THEN RAISE(ABORT, 'op.unknown|there is no op of this name')
           WHEN EXISTS (SELECT 1 FROM op_run WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce)
           THEN RAISE(ABORT, 'op.replayed|this ask was made before')
           WHEN NEW.state <> 'queued'
           THEN RAISE(ABORT, 'op.transition|a run begins as queued')
           -- Live runs lie between the oldest of them and the newest run: mostly that is few enough.
           WHEN (SELECT max(id) FROM op_run)
              - (SELECT min(id) FROM op_run WHERE finished_at IS NULL) + 1
             >= (SELECT min(value) FROM setting WHERE name IN ('op.live', 'op.live_per_host'))
            AND (SELECT CASE
                        WHEN count(*) >= (SELECT value FROM setting WHERE name = 'op.live')
                        THEN RAISE(ABORT, 'op.busy|too many runs wait or run already')
                        WHEN count(*) FILTER (WHERE pairing_id = NEW.pairing_id)
                          >= (SELECT value FROM setting WHERE name = 'op.live_per_host')
                        THEN RAISE(ABORT, 'op.share|too many runs of this Host wait or run already')
                        END
                   FROM op_run WHERE finished_at IS NULL)
           THEN NULL
           WHEN NEW.op = 'observe:folders'
            AND (SELECT count(*) FROM folder_walk WHERE state = 'stuck')
             >= (SELECT value FROM setting WHERE name = 'folders.stuck')
           THEN RAISE(ABORT, 'observe.stuck|earlier walks still wait for a file system that does not answer')
           WHEN NEW.grant_id IS NULL AND EXISTS (SELECT 1 FROM grant
                 WHERE pairing_id = NEW.pairing_id AND op = NEW.op AND args <> NEW.args
                   AND state = 'active' AND expires_at > now_ms())
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN NEW.grant_id IS NULL
           THEN RAISE(ABORT, 'approval.needed|a person has to approve this first')
           WHEN b.mode IS NOT 'local' AND NEW.pairing_id IS NOT (SELECT pairing_id FROM anchor)
            AND NOT EXISTS (SELECT 1 FROM approved_kinds
                             WHERE pairing_id = NEW.pairing_id AND class = o.class)
           THEN RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
           WHEN g.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.gone|the grant was taken back or is used up')
           WHEN g.pairing_id <> NEW.pairing_id OR g.op <> NEW.op
           THEN RAISE(ABORT, 'grant.other|the grant is for another Host or op')
           WHEN g.args <> NEW.args
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN g.expires_at <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN f.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.approver|whoever approved this grant is no longer trusted here')
           WHEN seal_ok('grant', g.seal_text, g.seal) IS NOT 1
           THEN RAISE(ABORT, 'grant.seal|the record of this grant was changed by another tool')
           END
      FROM (SELECT 1) AS asked
      LEFT JOIN box AS b ON b.id = 1
      LEFT JOIN pairing AS p ON p.id = NEW.pairing_id
      LEFT JOIN op AS o ON o.name = NEW.op
      LEFT JOIN grant AS g ON g.id = NEW.grant_id
      LEFT JOIN factor AS f ON f.id = g.factor_id;
END;

-- The anchor is heard by what it asks for. Once an hour is enough to tell silence, and deciding is
-- what the database does most.
CREATE TRIGGER anchor_heard_asking AFTER INSERT ON op_run
WHEN NEW.pairing_id IS (SELECT pairing_id FROM anchor)
 AND (SELECT heard_at FROM anchor)
     <= now_ms() - (SELECT value FROM setting WHERE name = 'anchor.heard_ms')
BEGIN
    UPDATE anchor SET heard_at = now_ms();
END;

-- (What fails at the lane itself was not proven to come from it.)
CREATE TRIGGER anchor_heard_refused AFTER INSERT ON refused
WHEN NEW.pairing_id IS (SELECT pairing_id FROM anchor) AND NEW.surface = 'lane'
 AND NEW.code NOT GLOB 'lane.*'
 AND (SELECT heard_at FROM anchor)
     <= now_ms() - (SELECT value FROM setting WHERE name = 'anchor.heard_ms')
BEGIN
    UPDATE anchor SET heard_at = now_ms();
END;

-- No CHECK: a row that an earlier version took stays readable, visible and removable under a stricter one.
CREATE TRIGGER pairing_endpoint_is_one BEFORE INSERT ON pairing_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.invalid|an endpoint of this list is not a host:port')
     WHERE endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than the setting pairing.endpoints allows')
     WHERE (SELECT count(*) FROM pairing_endpoint WHERE pairing_id = NEW.pairing_id)
        >= (SELECT value FROM setting WHERE name = 'pairing.endpoints');
END;

CREATE TRIGGER pairing_endpoint_no_update BEFORE UPDATE ON pairing_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.fixed|endpoints are replaced, never edited');
END;

CREATE TRIGGER pairing_endpoint_audit_birth AFTER INSERT ON pairing_endpoint
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_endpoint', NEW.pairing_id, 'added',
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('ord', NEW.ord, 'endpoint', NEW.endpoint));
END;

CREATE TRIGGER pairing_endpoint_audit_end AFTER DELETE ON pairing_endpoint
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing_endpoint', OLD.pairing_id, 'removed',
            (SELECT host_name FROM pairing WHERE id = OLD.pairing_id),
            json_object('ord', OLD.ord, 'endpoint', OLD.endpoint));
END;

CREATE TRIGGER pairing_endpoint_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM pairing_endpoint WHERE pairing_id = NEW.id;
END;

-- A new code says anew where its Host is reached.
CREATE TRIGGER pairing_endpoint_ends_with_code AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    DELETE FROM pairing_endpoint WHERE pairing_id = NEW.id;
END;

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('pairing', 'active', 'pending'),
    ('context_ask', '', 'pending'),
    ('context_ask', 'pending', 'allowed'),
    ('context_ask', 'pending', 'denied'),
    ('context_ask', 'pending', 'expired'),
    ('context_ask', 'pending', 'withdrawn'),
    ('context_ask', 'allowed', 'dropped');

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('anchor.heard_ms', 3600000, 'ms', 1000, 86400000, 'how often asks of the anchor count as a sign of its life'),
    ('anchor.silent_ms', 2592000000, 'ms', 604800000, 31536000000, 'silence of the anchor after which another Host may take its place'),
    ('anchor.terms', 1000, 'rows', 1, 1000000, 'approvals and consents of the anchor that are taken in one day'),
    ('anchor.unapproved_ms', 600000, 'ms', 1000, 86400000, 'how long a Host waits for the anchor before the anchor is told of it'),
    ('context.asks', 20, 'rows', 1, 100000, 'asks to share a folder of one user within context.window_ms'),
    ('context.body', 65536, 'bytes', 1024, 65536, 'longest ask to share a folder'),
    ('context.connections', 32, 'rows', 1, 1024, 'connections of asking users served at once'),
    ('context.listed', 100, 'rows', 1, 1000, 'asks of one user that a list shows'),
    ('context.pending', 32, 'rows', 1, 10000, 'asks to share a folder that may wait for a person at once'),
    ('context.pending_uid', 4, 'rows', 1, 10000, 'asks of one user that may wait for a person at once'),
    ('context.per_uid', 4, 'rows', 1, 1024, 'connections of one asking user served at once'),
    ('context.time_ms', 30000, 'ms', 100, 600000, 'how long an ask may take from connecting to its last byte'),
    ('context.ttl_ms', 86400000, 'ms', 1000, 2592000000, 'how long an ask to share a folder waits for an answer'),
    ('context.window_ms', 3600000, 'ms', 1000, 2592000000, 'how long an ask counts in context.asks'),
    ('op.live_per_host', 48, 'rows', 1, 10000, 'runs of one Host that may wait or run at once'),
    ('pairing.endpoints', 16, 'rows', 1, 256, 'endpoints that one pairing may have');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('anchor.approval', 126, 403, 'have the anchor approve it: bastion pairings shows which Host that is'),
    ('anchor.busy', 75, 429, 'have the anchor sign less often'),
    ('anchor.caps', 126, 403, 'have the anchor approve this Host for ops of this kind'),
    ('anchor.consent', 126, 403, 'have the anchor sign a consent to this Host, and hand it over: --consent FILE'),
    ('anchor.expired', 126, 410, 'have the anchor sign anew'),
    ('anchor.held', 126, 409, 'to move it: bastion claim-anchor --rotate, with its consent or after its silence'),
    ('anchor.history', 126, 409, 'what an anchor signed is read with bastion sql, never changed'),
    ('anchor.mode', 126, 409, 'put the machine on the network first: bastion set-mode networked'),
    ('anchor.none', 126, 403, 'have root at the machine run: bastion claim-anchor'),
    ('anchor.other', 126, 403, 'have the anchor sign for this machine, by name and key'),
    ('anchor.replayed', 126, 409, 'have the anchor sign anew'),
    ('anchor.revoked', 126, 403, 'pair the Host anew first: bastion pair CODE'),
    ('anchor.self', 126, 409, 'have the anchor consent to another Host: bastion claim-anchor --rotate'),
    ('anchor.signature', 126, 403, 'have the anchor sign them: bastion pairings shows which Host that is'),
    ('anchor.silence', 126, 403, 'wait, or have the anchor sign a consent: bastion claim-anchor --rotate --consent FILE'),
    ('anchor.subject', 126, 404, 'see bastion pairings for the Hosts and their keys'),
    ('anchor.terms', 126, 422, 'see schema/anchor.sql for what the anchor signs'),
    ('anchor.time', 126, 403, 'set the clocks of Host and machine right'),
    ('box.anchored', 126, 409, 'nothing to do: who is answered is decided by the anchor, see bastion pairings'),
    ('box.authority', 126, 403, 'run it as root'),
    ('box.factor', 126, 403, 'prove it with a code, or with --signature FILE'),
    ('box.history', 126, 409, 'changes of mode are read with bastion sql, never changed'),
    ('box.mode', 3, 409, 'nothing to do: see bastion status'),
    ('box.role', 2, 409, 'run it on a machine that Hosts ask'),
    ('ca.expired', 3, 500, 'make a new authority and pair anew'),
    ('ca.order', 2, 422, 'give plain names, a time to live, and the key that belongs to the certificate'),
    ('cert.device', 126, 403, 'have the certificate made anew for this one device'),
    ('cert.form', 2, 422, 'give one whole X.509 certificate or request, unchanged'),
    ('cert.key', 2, 422, 'make a key with ECDSA on P-256'),
    ('cert.make', 1, 500, 'see the message; free some memory, then try again'),
    ('cert.request', 126, 403, 'sign the request with the key that it names'),
    ('cert.uris', 2, 422, 'name fewer and shorter URIs of printable characters'),
    ('context.busy', 75, 429, 'wait until a person has answered some: bastion context'),
    ('context.decided', 126, 409, 'see bastion context --all for what was decided'),
    ('context.exists', 2, 409, 'see bastion context mine for its state'),
    ('context.expired', 126, 410, 'have the user ask again'),
    ('context.folder', 126, 404, 'name a folder that is there'),
    ('context.form', 2, 422, 'send {"root":path,"name":text,"host":text}, where only root is needed'),
    ('context.host', 2, 422, 'see bastion status for the Hosts, and name one: --host HOST'),
    ('context.kept', 126, 409, 'an ask is answered or withdrawn, never deleted'),
    ('context.link', 126, 409, 'ask anew for the path that the link leads to'),
    ('context.name', 2, 422, 'give a shorter, plain name: --name NAME'),
    ('context.number', 2, 422, 'name an ask by its number: bastion context mine'),
    ('context.offline', 1, 503, 'have somebody start it: bastion serve'),
    ('context.owner', 126, 403, 'have the owner of the folder ask'),
    ('context.path', 2, 422, 'name a folder by its absolute path'),
    ('context.rate', 75, 429, 'wait, then ask again'),
    ('context.seal', 126, 403, 'have the user ask again, and allow it with bastion context allow'),
    ('context.terms', 126, 409, 'read the ask again and answer that'),
    ('context.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('context.unknown', 2, 404, 'see bastion context (your own: bastion context mine) for the numbers'),
    ('context.yours', 75, 429, 'wait for an answer, or withdraw one: bastion context withdraw ID'),
    ('endpoint.fixed', 126, 409, 'pair anew: the Host says where it is reached'),
    ('endpoint.invalid', 126, 422, 'have the Host give one address or name, a colon and a port each'),
    ('endpoint.many', 126, 422, 'have the Host name fewer endpoints'),
    ('endpoint.missing', 2, 422, 'give an address or name, a colon and a port'),
    ('op.share', 75, 429, 'wait for earlier runs of this Host to end'),
    ('pairing.consent', 126, 409, 'run bastion pair again, at a terminal'),
    ('pairing.invalid', 126, 403, 'mend the pairing: bastion pair --replace CODE, or end it: bastion unpair HOST'),
    ('pairing.several', 2, 409, 'name one, in full: bastion pairings lists them (claim-anchor takes --host NAME)'),
    ('reverse.busy', 75, 429, 'wait until an answer is complete, then ask again'),
    ('reverse.offline', 75, 503, 'wait until the box dials in; see on the box: bastion status'),
    ('reverse.refused', 126, 403, 'see the reason; pair anew if the Host does not know this machine any more'),
    ('reverse.upgrade', 2, 426, 'this path is for boxes that dial in'),
    ('tls.config', 3, 500, 'give a certificate with its own key, and an authority to trust'),
    ('tls.handshake', 1, 502, 'check that the other side speaks TLS 1.2 or 1.3 and takes our certificate'),
    ('tls.untrusted', 126, 403, 'make sure which Host it is, and that both clocks are right; if it has a new authority, pair anew');

UPDATE refusal SET exit_code = 3, http_status = 409,
    advice = 'nothing to do; to pair it with a new code: bastion pair --replace CODE'
 WHERE code = 'pairing.exists';
UPDATE refusal SET exit_code = 126, http_status = 409,
    advice = 'pair at a terminal and answer yes, or unpair the present Host: bastion unpair HOST'
 WHERE code = 'pairing.second';
UPDATE refusal SET exit_code = 2, http_status = 404,
    advice = 'see bastion pairings for the Hosts; a new one: bastion pair CODE'
 WHERE code = 'pairing.unknown';

-- Asks that wait for a person, and what agents are offered over MCP.
ALTER TABLE call ADD COLUMN wait_ms INTEGER CHECK (wait_ms BETWEEN 0 AND 86400000);

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('lane.wait_ms', 3600000, 'ms', 0, 86400000, 'longest that an ask may wait on the box for a person'),
    ('lane.waits', 64, 'rows', 0, 10000, 'asks that may wait on the box for a person at once'),
    ('mcp.answer', 1048576, 'bytes', 4096, 8388608, 'longest text of an answer to an agent; what is over is cut, and said'),
    ('mcp.beat_ms', 15000, 'ms', 100, 600000, 'how often an agent that waits is told so'),
    ('mcp.calls', 16, 'rows', 1, 1000, 'calls of one agent open at once'),
    ('mcp.calls_all', 128, 'rows', 1, 100000, 'calls of all agents open at once; the rest of call.live is for persons'),
    ('mcp.connections', 64, 'rows', 1, 10000, 'connections on the MCP port served at once'),
    ('mcp.events', 256, 'rows', 4, 100000, 'messages of one session kept for a stream that is taken up again'),
    ('mcp.idle_ms', 3600000, 'ms', 1000, 604800000, 'how long a session lives without a word of its agent'),
    ('mcp.page', 100, 'rows', 1, 10000, 'tools in one page of their list'),
    ('mcp.port', 0, 'port', 0, 65535, 'TCP port of MCP on the loopback address, from the next start on; 0: none'),
    ('mcp.ring', 4194304, 'bytes', 65536, 67108864, 'bytes of one session kept for a stream that is taken up again'),
    ('mcp.sessions', 64, 'rows', 1, 10000, 'sessions of agents at once; the one that was silent longest makes room'),
    ('mcp.wait_ms', 600000, 'ms', 0, 86400000, 'how long a call of an agent waits for a person');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('approval.denied', 126, 403, 'a person said no: ask them before you ask the same again'),
    ('call.cancelled', 1, 409, 'ask again'),
    ('mcp.accept', 2, 406, 'send Accept: application/json, text/event-stream (a GET: text/event-stream)'),
    ('mcp.busy', 75, 429, 'wait for open calls to be answered, or end sessions that are not used'),
    ('mcp.final', 126, 409, 'make a new token: bastion mcp token add LABEL'),
    ('mcp.fixed', 126, 409, 'drop the token and make a new one'),
    ('mcp.host', 126, 403, 'ask at localhost or 127.0.0.1, by this name in the header Host'),
    ('mcp.kept', 126, 409, 'use bastion mcp token drop'),
    ('mcp.label', 2, 422, 'give another label'),
    ('mcp.origin', 126, 403, 'no web page of another machine may speak here'),
    ('mcp.resume', 2, 400, 'ask again; bastion://calls/NUMBER has the answers of earlier calls'),
    ('mcp.session', 2, 404, 'begin a new session with initialize'),
    ('mcp.session_missing', 2, 400, 'send the header Mcp-Session-Id that initialize answered with'),
    ('mcp.token', 126, 401, 'make a token with bastion mcp token add LABEL, and send it as Authorization: Bearer'),
    ('mcp.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('mcp.type', 2, 415, 'send Content-Type: application/json'),
    ('mcp.unknown', 2, 404, 'see bastion mcp token for the labels'),
    ('mcp.version', 2, 400, 'send the header MCP-Protocol-Version that initialize agreed on');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('mcp_token', '', 'active'),
    ('mcp_token', 'active', 'dropped');

-- An op's arguments are words in order; whoever speaks JSON names them.
CREATE TABLE op_param (
    op       TEXT    NOT NULL REFERENCES op (name),
    position INTEGER NOT NULL CHECK (position >= 1),
    name     TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 32 AND name NOT GLOB '*[^a-z_]*'),
    type     TEXT    NOT NULL CHECK (type IN ('string', 'integer')),
    needed   INTEGER NOT NULL CHECK (needed IN (0, 1)),
    low      INTEGER NOT NULL,                                 -- of a string: characters
    high     INTEGER NOT NULL CHECK (high >= low),
    pattern  TEXT    CHECK (pattern <> ''),                    -- ECMA-262, for the asker; the op's walls decide
    fallback TEXT,                                             -- what the op takes where it is not given
    doc      TEXT    NOT NULL,
    PRIMARY KEY (op, position),
    UNIQUE (op, name),
    CHECK (type = 'string' OR pattern IS NULL)
) STRICT, WITHOUT ROWID;

-- What {"r":…} of an op that was done holds: a JSON Schema (2020-12) of type object.
CREATE TABLE op_result (
    op     TEXT PRIMARY KEY REFERENCES op (name),
    schema TEXT NOT NULL CHECK (json_valid(schema) AND schema ->> '$.type' = 'object')
) STRICT, WITHOUT ROWID;

-- Who may speak MCP on the loopback port. The token is shown once; its digest stays.
CREATE TABLE mcp_token (
    id         INTEGER PRIMARY KEY,
    label      TEXT    NOT NULL CHECK (length(label) BETWEEN 1 AND 64
                       AND label NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(label, char(0)) = 0),
    digest     BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32),
    state      TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    created_at INTEGER NOT NULL,
    dropped_at INTEGER,
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX mcp_token_label ON mcp_token (label) WHERE state = 'active';

CREATE TRIGGER mcp_token_born BEFORE INSERT ON mcp_token
BEGIN
    SELECT RAISE(ABORT, 'mcp.label|a label is 1 to 64 letters, digits, dots, dashes and underscores')
     WHERE length(NEW.label) NOT BETWEEN 1 AND 64 OR NEW.label GLOB '*[^A-Za-z0-9._-]*'
        OR instr(NEW.label, char(0)) > 0;
    SELECT RAISE(ABORT, 'mcp.label|a token of this label is live already')
     WHERE EXISTS (SELECT 1 FROM mcp_token WHERE label = NEW.label AND state = 'active');
    SELECT RAISE(ABORT, 'mcp.transition|a token begins as active') WHERE NEW.state <> 'active';
END;

CREATE TRIGGER mcp_token_moves BEFORE UPDATE ON mcp_token
BEGIN
    SELECT RAISE(ABORT, 'mcp.final|a token that was dropped stays dropped')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'mcp_token' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'mcp.fixed|a token keeps its label and digest')
     WHERE NEW.id IS NOT OLD.id OR NEW.label IS NOT OLD.label OR NEW.digest IS NOT OLD.digest
        OR NEW.created_at IS NOT OLD.created_at;
END;

CREATE TRIGGER mcp_token_stays BEFORE DELETE ON mcp_token
BEGIN
    SELECT RAISE(ABORT, 'mcp.kept|a token is dropped, not deleted');
END;

CREATE TRIGGER mcp_token_audit_birth AFTER INSERT ON mcp_token
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'mcp_token', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

CREATE TRIGGER mcp_token_audit_move AFTER UPDATE OF state ON mcp_token WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'mcp_token', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

-- The JSON Schema of an op's arguments.
CREATE VIEW op_input AS
SELECT o.name AS op, json_patch(json_object('type', 'object', 'properties', json('{}'),
                                            'additionalProperties', json('false')),
       json_object(
           'properties', (SELECT json_group_object(p.name, json_patch('{}',
                json_object('type', p.type, 'description', p.doc,
                            'minLength', iif(p.type = 'string', p.low, NULL),
                            'maxLength', iif(p.type = 'string', p.high, NULL),
                            'minimum', iif(p.type = 'integer', p.low, NULL),
                            'maximum', iif(p.type = 'integer', p.high, NULL),
                            'pattern', p.pattern,
                            'default', iif(p.type = 'integer', CAST(p.fallback AS INTEGER),
                                           p.fallback))))
               FROM op_param AS p WHERE p.op = o.name),
           'required', (SELECT iif(count(*) = 0, NULL, json_group_array(p.name))
               FROM op_param AS p WHERE p.op = o.name AND p.needed))) AS schema
  FROM op AS o;

-- What a Host offers to agents: each op of each box, by a name that MCP allows. A box offers none.
CREATE VIEW mcp_tool AS
SELECT b.name || '.' || replace(o.name, ':', '_') AS name, b.name AS box, o.name AS op,
       json_patch(json_object(
           'name', b.name || '.' || replace(o.name, ':', '_'),
           'title', b.name || ': ' || o.summary,
           'description', 'On the machine ' || b.name || ': ' || o.summary || '. A person at '
               || b.name || ' approves each kind of ask first; the call waits for that.',
           'inputSchema', json(i.schema)),
         json_object(
           'outputSchema', json(r.schema),
           'annotations', json_object(
               'title', b.name || ': ' || o.summary,
               'readOnlyHint', json(iif(o.class = 'observe', 'true', 'false')),
               'destructiveHint', json(iif(o.class = 'observe', 'false', 'true')),
               'idempotentHint', json(iif(o.class = 'observe', 'true', 'false')),
               'openWorldHint', json('false')))) AS tool
  FROM host_box AS b CROSS JOIN op AS o
  JOIN op_input AS i ON i.op = o.name
  LEFT JOIN op_result AS r ON r.op = o.name
 WHERE b.state = 'active';

INSERT INTO op_param (op, position, name, type, needed, low, high, pattern, fallback, doc) VALUES
    ('observe:folders', 1, 'path', 'string', 1, 1, 4095, '^/', NULL, 'absolute path of a folder, outside /proc, /sys and /dev'),
    ('observe:folders', 2, 'depth', 'integer', 0, 1, 3, NULL, '2', 'levels of folders to name'),
    ('observe:journal', 1, 'unit', 'string', 1, 1, 255, NULL, NULL, 'a systemd unit; without a suffix it is a service'),
    ('observe:journal', 2, 'minutes', 'integer', 0, 1, 60, NULL, '15', 'how far to look back'),
    ('observe:logins', 1, 'hours', 'integer', 0, 1, 168, NULL, '24', 'how far to look back'),
    ('observe:cert', 1, 'port', 'integer', 1, 1, 65535, NULL, NULL, 'the TCP port of a listener on this machine'),
    ('observe:cert', 2, 'server_name', 'string', 0, 1, 253, NULL, NULL, 'the name to ask for (SNI) and to check the certificate against');
INSERT INTO op_result (op, schema) VALUES
    ('observe:folders', '{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer"},"total_bytes":{"type":"integer"},"folders":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"bytes":{"type":"integer"}},"required":["path","bytes"]}},"lower_bounds":{"type":"boolean","description":"true: something could not be counted"}},"required":["path","total_bytes","folders"]}'),
    ('observe:journal', '{"type":"object","properties":{"unit":{"type":"string"},"minutes":{"type":"integer"},"lines":{"type":"integer","description":"of the text beside this"},"bytes":{"type":"integer"},"cut":{"type":"boolean","description":"true: only the newest lines"}},"required":["unit","minutes","lines","bytes"]}'),
    ('observe:logins', '{"type":"object","properties":{"hours":{"type":"integer"},"failed":{"type":"integer"},"sources":{"type":"array","items":{"type":"object","properties":{"source":{"type":["string","null"]},"count":{"type":"integer"}}}},"users":{"type":"array","items":{"type":"object","properties":{"user":{"type":["string","null"]},"count":{"type":"integer"}}}},"accepted":{"type":"integer"},"logins":{"type":"array","items":{"type":"object"}}},"required":["hours","failed","accepted"]}'),
    ('observe:cert', '{"type":"object","properties":{"port":{"type":"integer"},"server_name":{"type":["string","null"]},"subject":{"type":["string","null"]},"issuer":{"type":["string","null"]},"names":{"type":"array","items":{"type":"object","properties":{"kind":{"type":"string"},"name":{"type":"string"}}}},"not_before":{"type":["string","null"]},"not_after":{"type":["string","null"]},"days_left":{"type":["integer","null"]},"verify":{"type":"object","properties":{"ok":{"type":"boolean"},"reason":{"type":["string","null"]},"name_checked":{"type":"boolean"}},"required":["ok"]}},"required":["port","verify"]}');
