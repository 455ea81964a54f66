-- anchor.sql: the one Host that a machine on a network answers to: who holds that, and what it signed.

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

CREATE INDEX anchor_terms_by_pairing ON anchor_terms (pairing_id, id);
CREATE INDEX anchor_terms_by_time ON anchor_terms (taken_at);

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

-- The anchor where it is in force: its pairing stands, with the key that holds it. (CROSS: the one row
-- of anchor first, else SQLite makes an index of it for each decision.)
CREATE VIEW live_anchor AS
SELECT a.pairing_id, p.host_name AS host, a.owner, a.reason, a.claimed_at, a.heard_at
  FROM anchor AS a
 CROSS JOIN pairing AS p ON p.id = a.pairing_id AND p.state = 'active' AND p.host_key = a.host_key
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
        AND (o.class = 'own'
             OR EXISTS (SELECT 1 FROM approved_kinds WHERE pairing_id = p.id AND class = o.class)));

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
