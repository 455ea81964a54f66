-- approval.sql: a question to a person, in exact terms; and the answer.

CREATE TABLE approval (
    id             INTEGER PRIMARY KEY,
    nonce          TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    box_name       TEXT    NOT NULL,
    pairing_id     INTEGER NOT NULL REFERENCES pairing (id),
    host_name      TEXT    NOT NULL,
    op             TEXT    NOT NULL REFERENCES op (name),
    args           TEXT    NOT NULL CHECK (json_valid(args) AND json_type(args) = 'array'
                           AND length(args) <= 16384),
    uses           INTEGER NOT NULL CHECK (uses >= 1),
    ttl_ms         INTEGER NOT NULL CHECK (ttl_ms >= 1000),    -- of the grant, from the decision on
    digest         BLOB    CHECK (length(digest) = 32),       -- SHA-256 of terms, entered as it is born
    state          TEXT    NOT NULL DEFAULT 'pending'
                   CHECK (state IN ('pending', 'approved', 'burned', 'denied', 'expired')),
    asked_at       INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL CHECK (expires_at > asked_at),
    factor_id      INTEGER REFERENCES factor (id),
    decided_digest BLOB    CHECK (length(decided_digest) = 32),
    decided_by_uid INTEGER,
    decided_by     TEXT    CHECK (length(decided_by) BETWEEN 1 AND 64),
    decided_at     INTEGER,
    kind           TEXT    NOT NULL DEFAULT 'op'
                   CHECK (kind IN ('op', 'root', 'folder', 'egress', 'terminal', 'model', 'tool')),
    bounds         TEXT    CHECK (bounds IS NULL OR json_valid(bounds)),  -- see bound.sql
    words          TEXT    CHECK ((words IS NULL) = (bounds IS NULL)),    -- bounds as a person says it, a line each
    reaches        TEXT    CHECK (reaches IS NULL OR json_valid(reaches)),       -- of an added op: where to,
    credential     TEXT    CHECK (length(credential) BETWEEN 1 AND 128),         -- and with whose secret
    -- What the person reads, byte for byte. Text from the Host stands as JSON, so it cannot pose as a line. What was
    -- signed under a lower number has the same bytes as then.
    terms          TEXT    GENERATED ALWAYS AS (
        'bastion approval ' || CASE WHEN reaches IS NOT NULL OR credential IS NOT NULL THEN 3
                                    WHEN bounds IS NOT NULL THEN 2 ELSE 1 END || char(10) ||
        'machine: ' || box_name || char(10) ||
        'host: ' || host_name || char(10) ||
        'may: ' || op || char(10) ||
        'with: ' || args || char(10) ||
        iif(bounds IS NULL, '', 'within: ' || bounds || char(10) || words || char(10)) ||
        iif(reaches IS NULL, '', 'reaches: ' || reaches || char(10)) ||
        iif(credential IS NULL, '', 'credential: ' || json_quote(credential) || char(10)) ||
        'uses: ' || uses || char(10) ||
        'for: ' || (ttl_ms / 1000) || ' s from the approval' || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL,
    CHECK (state NOT IN ('approved', 'burned')
           OR (factor_id IS NOT NULL AND decided_digest = digest AND decided_by_uid IS NOT NULL
               AND decided_by IS NOT NULL)),
    CHECK (state <> 'denied' OR (decided_by_uid IS NOT NULL AND decided_by IS NOT NULL)),
    CHECK ((state = 'pending') = (decided_at IS NULL))
) STRICT;

-- The same question is asked once, however often the Host repeats it.
CREATE UNIQUE INDEX approval_pending_once
    ON approval (pairing_id, op, args, uses, ttl_ms, coalesce(bounds, ''))
 WHERE state = 'pending';

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
    SELECT RAISE(ABORT, 'approval.kind|no grant of this kind is for this op')
     WHERE NEW.kind IS NOT (SELECT iif(class IN ('observe', 'action'), 'op', nullif(class, 'own'))
                              FROM op WHERE name = NEW.op);
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
    SELECT RAISE(ABORT, 'approval.root|what runs as root is granted for at most 30 days, and no longer than the setting grant.root_ttl_ms allows')
     WHERE NEW.kind = 'root' AND NEW.ttl_ms > (SELECT value FROM setting WHERE name = 'grant.root_ttl_ms');
    SELECT RAISE(ABORT, 'approval.terms|the terms name another machine, Host or text')
     WHERE NEW.box_name IS NOT (SELECT name FROM box)
        OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
        OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms));
    SELECT RAISE(ABORT, 'approval.busy|too many questions of this Host wait for a person')
     WHERE (SELECT count(*) FROM approval WHERE pairing_id = NEW.pairing_id AND state = 'pending')
        >= (SELECT value FROM setting WHERE name = 'approval.pending');
    SELECT RAISE(ABORT, 'approval.transition|a question is asked at the time that it is, and waits no longer than approval.ttl_ms may say')
     WHERE NEW.asked_at IS NOT now_ms()
        OR NEW.expires_at - NEW.asked_at > (SELECT high FROM setting WHERE name = 'approval.ttl_ms');
END;

-- (In a BEFORE UPDATE trigger NEW's generated columns are not computed yet: name what they are made of.)
CREATE TRIGGER approval_moves BEFORE UPDATE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.decided|this question is decided already')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'approval' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'approval.decided|this question is decided already')
     WHERE NEW.state IS OLD.state AND OLD.digest IS NOT NULL;
    SELECT RAISE(ABORT, 'approval.terms|the terms of a question never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.kind IS NOT OLD.kind
        OR NEW.box_name IS NOT OLD.box_name OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_name IS NOT OLD.host_name OR NEW.op IS NOT OLD.op OR NEW.args IS NOT OLD.args
        OR NEW.uses IS NOT OLD.uses OR NEW.ttl_ms IS NOT OLD.ttl_ms
        OR NEW.bounds IS NOT OLD.bounds OR NEW.words IS NOT OLD.words
        OR NEW.reaches IS NOT OLD.reaches OR NEW.credential IS NOT OLD.credential OR NEW.digest IS NOT coalesce(OLD.digest, sha256(OLD.terms))
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'approval.expired|this question ran out before it was answered')
     WHERE NEW.state IN ('approved', 'denied') AND OLD.state = 'pending' AND OLD.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'approval.factor|the approving factor is not active')
     WHERE NEW.state = 'approved'
       AND (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'approval.terms|what was approved is not what was asked')
     WHERE NEW.state = 'approved' AND sha256(OLD.terms) IS NOT NEW.decided_digest;
END;

CREATE TRIGGER approval_stays BEFORE DELETE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.kept|a question and its answer are history');
END;

CREATE TRIGGER approval_audit_birth AFTER INSERT ON approval
BEGIN
    UPDATE approval SET digest = sha256(terms) WHERE id = NEW.id AND digest IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'approval', NEW.id, NEW.state, NEW.host_name,
            json_patch(json_object('op', NEW.op, 'args', json(NEW.args), 'uses', NEW.uses,
                                   'ttl_ms', NEW.ttl_ms,
                                   'digest', (SELECT lower(hex(digest)) FROM approval WHERE id = NEW.id)),
                       json_object('bounds', json(NEW.bounds))));
END;

CREATE TRIGGER approval_audit_move AFTER UPDATE OF state ON approval WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'approval', NEW.id, NEW.state, NEW.host_name,
            json_object('from', OLD.state, 'by', NEW.decided_by, 'uid', NEW.decided_by_uid,
                        'factor', NEW.factor_id, 'digest', lower(hex(NEW.digest))));
END;

-- What waits for a person.
CREATE VIEW open_approvals AS
SELECT id, host_name AS host, op, args, uses, ttl_ms, asked_at, expires_at, lower(hex(digest)) AS digest,
       kind, bounds, words
  FROM approval WHERE state = 'pending' AND expires_at > now_ms();
