-- grant.sql: what a Host may do, on whose word, how often, until when; and each use.

CREATE TABLE grant (
    id          INTEGER PRIMARY KEY,
    pairing_id  INTEGER NOT NULL REFERENCES pairing (id),
    op          TEXT    NOT NULL REFERENCES op (name),
    args        TEXT    NOT NULL CHECK (json_valid(args) AND json_type(args) = 'array'),
    uses        INTEGER NOT NULL CHECK (uses >= 1),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL CHECK (expires_at > created_at),
    factor_id   INTEGER NOT NULL REFERENCES factor (id),
    approval_id INTEGER NOT NULL UNIQUE REFERENCES approval (id),
    seal        BLOB    NOT NULL CHECK (length(seal) = 64),
    state       TEXT    NOT NULL DEFAULT 'active'
                CHECK (state IN ('active', 'spent', 'expired', 'dropped')),
    ended_at    INTEGER,
    end_reason  TEXT    CHECK (length(end_reason) <= 128),
    -- What uses it: an op of the catalog, or a lane, whose kind of thing stands in the catalog as well.
    kind        TEXT    NOT NULL DEFAULT 'op'
                CHECK (kind IN ('op', 'root', 'folder', 'egress', 'terminal', 'model', 'tool')),
    bounds      TEXT    CHECK (bounds IS NULL OR json_valid(bounds)),  -- bound.sql; NULL: these arguments, at any time
    -- The bytes under the seal: a record that another tool edited holds nothing.
    seal_text   TEXT    GENERATED ALWAYS AS
                (CASE WHEN bounds IS NULL
                 THEN json_array('grant', pairing_id, kind, op, args, uses, created_at, expires_at,
                                 factor_id, approval_id)
                 ELSE json_array('bounded', pairing_id, kind, op, args, uses, created_at, expires_at,
                                 factor_id, approval_id, bounds) END) VIRTUAL,
    CHECK ((state = 'active') = (ended_at IS NULL))
) STRICT;

CREATE INDEX grant_usable ON grant (pairing_id, op, args) WHERE state = 'active';
CREATE INDEX grant_bounded ON grant (pairing_id, op) WHERE state = 'active' AND bounds IS NOT NULL;
CREATE INDEX grant_due ON grant (expires_at) WHERE state = 'active';
CREATE INDEX grant_of_egress ON grant (pairing_id, ended_at) WHERE op = 'egress:reach';
CREATE INDEX grant_by_factor ON grant (factor_id) WHERE state = 'active';

CREATE TRIGGER grant_on_a_persons_word BEFORE INSERT ON grant
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'grant.approval|a grant repeats an approval that was given and not used')
     WHERE NOT EXISTS (SELECT 1 FROM approval AS a
           WHERE a.id = NEW.approval_id AND a.state = 'approved' AND a.kind = NEW.kind
             AND a.pairing_id = NEW.pairing_id AND a.op = NEW.op AND a.args = NEW.args
             AND a.bounds IS NEW.bounds AND a.uses = NEW.uses AND a.factor_id = NEW.factor_id
             AND a.decided_at = NEW.created_at AND NEW.expires_at = a.decided_at + a.ttl_ms);
    SELECT RAISE(ABORT, 'grant.seal|the seal of this grant is not of this machine')
     WHERE seal_ok('grant', NEW.seal_text, NEW.seal) IS NOT 1;
    SELECT RAISE(ABORT, 'grant.transition|a grant begins as active') WHERE NEW.state <> 'active';
END;

-- An approval is burned in the transaction that uses it.
CREATE TRIGGER grant_burns_its_approval AFTER INSERT ON grant
BEGIN
    UPDATE approval SET state = 'burned' WHERE id = NEW.approval_id;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'grant', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_patch(json_object('op', NEW.op, 'args', json(NEW.args), 'uses', NEW.uses,
                                   'expires_at', NEW.expires_at, 'approval', NEW.approval_id,
                                   'factor', NEW.factor_id),
                       json_object('bounds', json(NEW.bounds))));
END;

CREATE TRIGGER grant_moves BEFORE UPDATE ON grant
BEGIN
    SELECT RAISE(ABORT, 'grant.final|an ended grant stays ended')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'grant' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'grant.fixed|the terms of a grant never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.kind IS NOT OLD.kind
        OR NEW.op IS NOT OLD.op OR NEW.args IS NOT OLD.args OR NEW.uses IS NOT OLD.uses
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at
        OR NEW.factor_id IS NOT OLD.factor_id OR NEW.approval_id IS NOT OLD.approval_id
        OR NEW.bounds IS NOT OLD.bounds OR NEW.seal IS NOT OLD.seal;
END;

CREATE TRIGGER grant_stays BEFORE DELETE ON grant
BEGIN
    SELECT RAISE(ABORT, 'grant.kept|a grant is dropped, not deleted');
END;

CREATE TRIGGER grant_audit_move AFTER UPDATE OF state ON grant WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'grant', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'reason', NEW.end_reason));
END;

-- What waits under a grant that is taken back does not begin.
CREATE TRIGGER grant_dropped_runs AFTER UPDATE OF state ON grant
WHEN NEW.state = 'dropped' AND OLD.state <> 'dropped'
BEGIN
    UPDATE op_run SET state = 'cancelled', finished_at = NEW.ended_at
     WHERE grant_id = NEW.id AND state = 'queued' AND finished_at IS NULL;
END;

-- Nor under one whose last use it is, and whose approver is not trusted any more.
CREATE TRIGGER factor_dropped_runs AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state = 'active'
BEGIN
    UPDATE op_run SET state = 'cancelled', finished_at = NEW.dropped_at
     WHERE state = 'queued' AND finished_at IS NULL
       AND (SELECT factor_id FROM grant WHERE id = op_run.grant_id) = NEW.id;
END;

-- One row for each run that a grant paid for, numbered from 1: the number is the count.
CREATE TABLE grant_use (
    grant_id  INTEGER NOT NULL REFERENCES grant (id),
    n         INTEGER NOT NULL CHECK (n >= 1),
    op_run_id INTEGER NOT NULL REFERENCES op_run (id),
    at        INTEGER NOT NULL,
    PRIMARY KEY (grant_id, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER grant_use_within_uses BEFORE INSERT ON grant_use
BEGIN
    SELECT CASE
           WHEN NEW.n > g.uses
           THEN RAISE(ABORT, 'grant.spent|every use of this grant is spent')
           WHEN NEW.n IS NOT (SELECT coalesce(max(n), 0) + 1 FROM grant_use WHERE grant_id = NEW.grant_id)
           THEN RAISE(ABORT, 'grant.uses|uses are numbered without a gap')
           WHEN NEW.grant_id IS NOT (SELECT grant_id FROM op_run WHERE id = NEW.op_run_id)
           THEN RAISE(ABORT, 'grant.uses|a use is of a run that this grant authorised')
           END
      FROM (SELECT 1) LEFT JOIN grant AS g ON g.id = NEW.grant_id;
END;

CREATE TRIGGER grant_use_spends AFTER INSERT ON grant_use
WHEN NEW.n >= (SELECT uses FROM grant WHERE id = NEW.grant_id)
BEGIN
    INSERT INTO grant_last_use (grant_id, at) VALUES (NEW.grant_id, NEW.at);
END;

-- (Apart, as with op_run_apart: op.sql.)
CREATE VIEW grant_last_use AS SELECT grant_id, max(at) AS at FROM grant_use GROUP BY grant_id;

CREATE TRIGGER grant_is_spent INSTEAD OF INSERT ON grant_last_use
BEGIN
    UPDATE grant SET state = 'spent', ended_at = NEW.at, end_reason = 'last use'
     WHERE id = NEW.grant_id AND state = 'active';
END;

CREATE TRIGGER grant_use_no_update BEFORE UPDATE ON grant_use
BEGIN
    SELECT RAISE(ABORT, 'grant.uses|a use is history');
END;

CREATE TRIGGER grant_use_no_delete BEFORE DELETE ON grant_use
BEGIN
    SELECT RAISE(ABORT, 'grant.uses|a use is history');
END;

-- What Hosts may do now.
CREATE VIEW live_grants AS
SELECT g.id, p.host_name AS host, g.op, g.args, g.uses,
       (SELECT coalesce(max(u.n), 0) FROM grant_use AS u WHERE u.grant_id = g.id) AS used,
       g.created_at, g.expires_at, f.label AS approver, g.approval_id, g.kind, g.bounds,
       (SELECT at FROM grant_next WHERE id = g.id) AS next_at
  FROM grant AS g
  JOIN pairing AS p ON p.id = g.pairing_id AND p.state = 'active'
  JOIN factor AS f ON f.id = g.factor_id AND f.state = 'active'
 WHERE g.state = 'active' AND g.expires_at > now_ms();
