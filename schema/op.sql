-- op.sql: what can be asked for, each time it ran, and what it answered.

CREATE TABLE op (
    name    TEXT PRIMARY KEY CHECK (name GLOB '[a-z]*:[a-z]*'),
    usage   TEXT NOT NULL,
    summary TEXT NOT NULL,
    -- own: a Host's own grants, which need no person. An action changes something: it can be run dry.
    -- The rest are the lanes' (grant.kind).
    class   TEXT NOT NULL DEFAULT 'observe'
            CHECK (class IN ('observe', 'own', 'action', 'root', 'folder', 'egress', 'terminal', 'model', 'tool'))
) STRICT, WITHOUT ROWID;

-- The row that authorises a run. It exists, durably, before anything starts.
CREATE TABLE op_run (
    id          INTEGER PRIMARY KEY,
    pairing_id  INTEGER NOT NULL REFERENCES pairing (id),
    op          TEXT    NOT NULL REFERENCES op (name),
    args        TEXT    NOT NULL CHECK (json_valid(args) AND json_type(args) = 'array'
                        AND length(args) <= 16384),
    nonce       TEXT    NOT NULL CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    grant_id    INTEGER REFERENCES grant (id),
    state       TEXT    NOT NULL DEFAULT 'queued'
                CHECK (state IN ('queued', 'running') OR state IN ('done', 'failed') OR state IN ('cancelled', 'lost')),
    queued_at   INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER,
    exit_code   INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    last_seq    INTEGER NOT NULL DEFAULT 0,
    dry         INTEGER NOT NULL DEFAULT 0 CHECK (dry IN (0, 1)),   -- shows what it would change, and changes nothing
    UNIQUE (pairing_id, nonce),
    CHECK (state <> 'done' OR exit_code = 0),
    CHECK (state <> 'failed' OR exit_code > 0),
    CHECK (state IN ('queued', 'cancelled') OR state = 'lost' OR started_at IS NOT NULL),
    CHECK ((state IN ('queued', 'running')) = (finished_at IS NULL))
) STRICT;

CREATE INDEX op_run_live ON op_run (id, pairing_id) WHERE finished_at IS NULL;

-- Deciding is what the database does most: what says yes or no is read once.
CREATE TRIGGER op_run_is_allowed BEFORE INSERT ON op_run
BEGIN
    SELECT CASE
           WHEN p.state IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN o.name IS NULL
           THEN RAISE(ABORT, 'op.unknown|there is no op of this name')
           WHEN EXISTS (SELECT 1 FROM op_run WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce)
           THEN RAISE(ABORT, 'op.replayed|this ask was made before')
           -- (Rates are measured by that time.)
           WHEN NEW.state <> 'queued' OR NEW.queued_at IS NOT now_ms()
           THEN RAISE(ABORT, 'op.transition|a run begins as queued, at the time that it is')
           -- Live runs lie between the oldest of them and the newest run: mostly that is few enough.
           WHEN (SELECT max(id) FROM op_run)
              - (SELECT min(id) FROM op_run WHERE finished_at IS NULL) + 1
             >= min((SELECT value FROM setting WHERE name = 'op.live'),
                    (SELECT value FROM setting WHERE name = 'op.live_per_host'))
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
           WHEN NEW.grant_id IS NULL AND o.class = 'own' AND NOT NEW.dry
           THEN NULL
           WHEN NEW.grant_id IS NULL AND EXISTS (SELECT 1 FROM grant
                 WHERE pairing_id = NEW.pairing_id AND op = NEW.op AND args <> NEW.args
                   AND state = 'active' AND expires_at > now_ms())
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN NEW.grant_id IS NULL
           THEN RAISE(ABORT, 'approval.needed|a person has to approve this first')
           WHEN g.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.gone|the grant was taken back or is used up')
           WHEN g.pairing_id <> NEW.pairing_id OR g.op <> NEW.op
           THEN RAISE(ABORT, 'grant.other|the grant is for another Host or op')
           WHEN g.args <> NEW.args AND g.bounds IS NULL
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN g.expires_at <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN g.kind = 'root'
            AND g.created_at + (SELECT value FROM setting WHERE name = 'grant.root_ttl_ms') <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN f.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.approver|whoever approved this grant is no longer trusted here')
           WHEN seal_ok('grant', g.seal_text, g.seal) IS NOT 1
           THEN RAISE(ABORT, 'grant.seal|the record of this grant was changed by another tool')
           WHEN NEW.dry AND o.class <> 'action'
           THEN RAISE(ABORT, 'op.dry|this op changes nothing, so it is not run dry')
           WHEN o.class = 'action'
            AND EXISTS (SELECT 1 FROM op_probe WHERE op = NEW.op AND NOT works)
           THEN (SELECT refuse('act.tool', why, 0) FROM op_probe WHERE op = NEW.op)
           END
      FROM (SELECT 1) AS asked
      LEFT JOIN pairing AS p ON p.id = NEW.pairing_id
      LEFT JOIN op AS o ON o.name = NEW.op
      LEFT JOIN grant AS g ON g.id = NEW.grant_id
      LEFT JOIN factor AS f ON f.id = g.factor_id;
    -- Last, since the next try would be held by the above all the same.
    INSERT INTO op_run_granted (grant_id, op, args, dry) VALUES (NEW.grant_id, NEW.op, NEW.args, NEW.dry);
END;

-- What only some asks need is apart, and one trigger sends them there: a trigger costs what all of it would
-- use, and every decision enters it.  (VALUES, as with the audit: see audit.sql.)
CREATE VIEW op_run_apart AS SELECT pairing_id, op, args, grant_id, dry FROM op_run WHERE false;

CREATE TRIGGER op_run_is_apart BEFORE INSERT ON op_run
WHEN (SELECT mode FROM box WHERE id = 1) IS NOT 'local'
  OR NOT EXISTS (SELECT 1 FROM pairing_plain WHERE id = NEW.pairing_id)
  OR EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held')
  OR NEW.op GLOB 'run:*' OR NEW.op = 'root:exec'
  OR (SELECT declares FROM verb WHERE op = NEW.op) IS NOT NULL
BEGIN
    INSERT INTO op_run_apart (pairing_id, op, args, grant_id, dry)
    VALUES (NEW.pairing_id, NEW.op, NEW.args, NEW.grant_id, NEW.dry);
END;

-- (In one trigger, since the first that holds is what is said.)
CREATE TRIGGER op_run_is_served INSTEAD OF INSERT ON op_run_apart
BEGIN
    SELECT RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
     WHERE (SELECT mode FROM box WHERE id = 1) IS NOT 'local' AND NOT EXISTS (SELECT 1 FROM live_anchor);
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
     WHERE (SELECT mode FROM box WHERE id = 1) IS NOT 'local' AND NEW.grant_id IS NOT NULL
       AND NEW.pairing_id IS NOT (SELECT pairing_id FROM anchor)
       AND NOT EXISTS (SELECT 1 FROM approved_kinds AS k JOIN op AS o ON o.class = k.class
                        WHERE k.pairing_id = NEW.pairing_id AND o.name = NEW.op);
    -- The anchor is heard by what it asks for. Once an hour is enough to tell silence, and deciding is what
    -- the database does most.
    UPDATE anchor SET heard_at = now_ms()
     WHERE pairing_id = NEW.pairing_id
       AND heard_at <= now_ms() - (SELECT value FROM setting WHERE name = 'anchor.heard_ms');
END;

-- An ask that is allowed but for the bounds of its grant.
CREATE VIEW op_run_granted AS SELECT grant_id, op, args, dry FROM op_run WHERE false;

-- One whose grant has bounds.
CREATE VIEW op_run_bounded AS SELECT grant_id, op, args, dry FROM op_run WHERE false;

CREATE TRIGGER op_run_is_bounded INSTEAD OF INSERT ON op_run_granted
WHEN (SELECT bounds FROM grant WHERE id = NEW.grant_id) IS NOT NULL
BEGIN
    INSERT INTO op_run_bounded (grant_id, op, args, dry) VALUES (NEW.grant_id, NEW.op, NEW.args, NEW.dry);
END;

-- The arguments are the grant's, or what its bounds let take their place; and now is a time for it.
CREATE TRIGGER op_run_in_bounds INSTEAD OF INSERT ON op_run_bounded
BEGIN
    SELECT RAISE(ABORT, 'grant.args|a grant for this op is held, but these arguments are outside its bounds')
      FROM grant AS g
     WHERE g.id = NEW.grant_id AND g.args <> NEW.args
       AND (instr(NEW.args, '\u0000') > 0
            OR json_array_length(NEW.args) > (SELECT count(*) FROM op_param WHERE op = NEW.op)
            OR EXISTS (SELECT 1 FROM grant_bound AS b WHERE b.grant_id = g.id
                  AND NOT CASE b.rule
                      WHEN 'in' THEN coalesce((NEW.args ->> b.at) IN
                           (SELECT CAST(value AS TEXT) FROM json_each(b.bound)), 0)
                      ELSE bound_holds(b.rule, b.bound, NEW.args ->> b.at) END));
    -- Not now: nothing is spent.
    SELECT refuse(code, why, nullif(at, ends))
      FROM grant_not_now WHERE id = NEW.grant_id AND at IS NOT now_ms() AND NOT NEW.dry;
END;

CREATE TRIGGER op_run_spends AFTER INSERT ON op_run WHEN NEW.grant_id IS NOT NULL AND NOT NEW.dry
BEGIN
    INSERT INTO grant_use (grant_id, n, op_run_id, at)
    VALUES (NEW.grant_id,
            (SELECT coalesce(max(n), 0) + 1 FROM grant_use WHERE grant_id = NEW.grant_id),
            NEW.id, NEW.queued_at);
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NEW.grant_id));
END;

-- A dry run spends nothing, nor does what a Host asks about its own grants. That is done and answered at
-- once. Giving one back tightens: nothing holds it up, and what is not held, or is another's, is dropped already.
CREATE TRIGGER op_run_spends_nothing AFTER INSERT ON op_run WHEN NEW.grant_id IS NULL OR NEW.dry
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            iif(NEW.dry, json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NEW.grant_id, 'dry', 1),
                         json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NULL)));
    INSERT INTO own_ask (op_run_id, pairing_id, op, args)
    SELECT NEW.id, NEW.pairing_id, NEW.op, NEW.args WHERE NEW.grant_id IS NULL;
END;

-- What a Host asked about its own grants: inserting here answers it.
CREATE VIEW own_ask AS
SELECT id AS op_run_id, pairing_id, op, args FROM op_run WHERE grant_id IS NULL;

CREATE TRIGGER own_ask_is_answered INSTEAD OF INSERT ON own_ask
BEGIN
    UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = NEW.op_run_id;
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.op_run_id, 1, json_object('r', json_object('dropped', count(*)))
      FROM grant WHERE NEW.op = 'grant:drop' AND state = 'active' AND pairing_id = NEW.pairing_id
       AND (NEW.args ->> 0) IN ('all', CAST(id AS TEXT)) HAVING NEW.op = 'grant:drop';
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'given back by the Host'
     WHERE NEW.op = 'grant:drop' AND state = 'active' AND pairing_id = NEW.pairing_id
       AND (NEW.args ->> 0) IN ('all', CAST(id AS TEXT));
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.op_run_id, 1, json_object('r', json_object(
           'grants', json_group_array(json(grant)), 'more', coalesce(max(n), 0) - count(*)))
      FROM (SELECT json_object('grant', g.id, 'op', g.op, 'args', json(g.args), 'bounds', json(g.bounds),
                       'uses_left', g.uses - g.used, 'expires_at', g.expires_at, 'next_at', g.next_at) AS grant,
                   count(*) OVER () AS n
              FROM live_grants AS g JOIN grant AS own ON own.id = g.id
             WHERE own.pairing_id = NEW.pairing_id AND NEW.op = 'grant:list' ORDER BY g.id LIMIT 100)
    HAVING NEW.op = 'grant:list';
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.op_run_id, row_number() OVER (ORDER BY op), json_object('o', line)
      FROM op_catalog WHERE NEW.op = 'op:list';
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.op_run_id, ops + 1, json_object('r', json_object('ops', ops, 'digest', digest))
      FROM op_catalog_digest WHERE NEW.op = 'op:list';
    UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms() WHERE id = NEW.op_run_id;
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

CREATE TRIGGER op_run_moves BEFORE UPDATE ON op_run
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a run cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'op_run' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'op.final|a finished run is history')
     WHERE NEW.state IS OLD.state AND OLD.finished_at IS NOT NULL;
    SELECT RAISE(ABORT, 'op.fixed|a run keeps what it was authorised for')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.op IS NOT OLD.op
        OR NEW.args IS NOT OLD.args OR NEW.nonce IS NOT OLD.nonce OR NEW.grant_id IS NOT OLD.grant_id
        OR NEW.dry IS NOT OLD.dry;
    SELECT RAISE(ABORT, 'op.seq|output only grows') WHERE NEW.last_seq < OLD.last_seq;
END;

CREATE TRIGGER op_run_stays BEFORE DELETE ON op_run
BEGIN
    SELECT RAISE(ABORT, 'op.final|a run is history');
END;

CREATE TRIGGER op_run_audit_move AFTER UPDATE OF state ON op_run WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'exit', NEW.exit_code, 'frames', NEW.last_seq));
END;

-- The answer, one frame a row: {"o":…} or {"r":…}; who watches sees a frame only after its commit.
CREATE TABLE op_output (
    op_run_id INTEGER NOT NULL REFERENCES op_run (id),
    seq       INTEGER NOT NULL CHECK (seq >= 1),
    frame     TEXT    NOT NULL CHECK (json_valid(frame) AND json_type(frame) = 'object'),
    PRIMARY KEY (op_run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER op_output_in_order BEFORE INSERT ON op_output
BEGIN
    SELECT RAISE(ABORT, 'op.output|only a running op answers')
     WHERE (SELECT state FROM op_run WHERE id = NEW.op_run_id) IS NOT 'running';
    SELECT RAISE(ABORT, 'op.seq|frames come in order, without a gap')
     WHERE NEW.seq IS NOT (SELECT last_seq + 1 FROM op_run WHERE id = NEW.op_run_id);
    SELECT RAISE(ABORT, 'op.output|a frame is longer than the setting op.frame allows')
     WHERE length(CAST(NEW.frame AS BLOB)) > (SELECT value FROM setting WHERE name = 'op.frame');
END;

CREATE TRIGGER op_output_counts AFTER INSERT ON op_output
BEGIN
    UPDATE op_run SET last_seq = NEW.seq WHERE id = NEW.op_run_id;
END;

CREATE TRIGGER op_output_no_update BEFORE UPDATE ON op_output
BEGIN
    SELECT RAISE(ABORT, 'op.output|an answer never changes');
END;

-- A walk over folders. One that a dead file system holds stays as stuck; four of those close the door.
CREATE TABLE folder_walk (
    op_run_id INTEGER PRIMARY KEY REFERENCES op_run (id),
    state     TEXT NOT NULL DEFAULT 'reading' CHECK (state IN ('reading', 'stuck', 'done'))
) STRICT;

CREATE TRIGGER folder_walk_capped BEFORE INSERT ON folder_walk
WHEN (SELECT count(*) FROM folder_walk WHERE state = 'stuck')
  >= (SELECT value FROM setting WHERE name = 'folders.stuck')
BEGIN
    SELECT RAISE(ABORT, 'observe.stuck|earlier walks still wait for a file system that does not answer');
END;

CREATE TRIGGER folder_walk_born BEFORE INSERT ON folder_walk WHEN NEW.state <> 'reading'
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a walk begins as reading');
END;

CREATE TRIGGER folder_walk_moves BEFORE UPDATE ON folder_walk
WHEN NOT EXISTS (SELECT 1 FROM state_rule
     WHERE entity = 'folder_walk' AND from_state = OLD.state AND to_state = NEW.state)
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a walk cannot make this move');
END;

-- What runs or waits to.
CREATE VIEW live_runs AS
SELECT r.id, p.host_name AS host, r.op, r.args, r.state, r.queued_at, r.started_at, r.grant_id
  FROM op_run AS r JOIN pairing AS p ON p.id = r.pairing_id
 WHERE r.finished_at IS NULL;

-- What ran, and on whose word.
CREATE VIEW run_history AS
SELECT r.id, p.host_name AS host, r.op, r.args, r.state, r.exit_code, r.queued_at, r.finished_at,
       r.grant_id, a.decided_by AS approved_by, f.label AS approved_with
  FROM op_run AS r
  JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN grant AS g ON g.id = r.grant_id
  LEFT JOIN approval AS a ON a.id = g.approval_id
  LEFT JOIN factor AS f ON f.id = g.factor_id;
