-- sandbox.sql: programs that ran in a sandbox, who started them, and what became of what they changed.

-- The row that authorises a run; it exists before the program does. The words of the command stand
-- nowhere: they may hold what is nobody's business.
CREATE TABLE sandbox_run (
    id         INTEGER PRIMARY KEY,
    -- What the run is called inside (BASTION_SANDBOX_RUN): with its namespaces, it tells whether a
    -- process that says so is of this run.
    nonce      TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    backend    TEXT    NOT NULL CHECK (backend IN ('native', 'bubblewrap', 'none')),
    process_id INTEGER NOT NULL REFERENCES process (id),       -- who started it, and dies with it
    uid        INTEGER NOT NULL CHECK (uid >= 0),              -- who it runs as
    program    TEXT    NOT NULL CHECK (length(program) BETWEEN 1 AND 4096),
    words      INTEGER NOT NULL CHECK (words >= 1),            -- of the command, the program too
    net        TEXT    NOT NULL CHECK (net IN ('none', 'sockets', 'host')),
    state      TEXT    NOT NULL DEFAULT 'starting'
               CHECK (state IN ('starting', 'running', 'ended', 'failed', 'lost')),
    user_ns    INTEGER,                                        -- identities of its namespaces
    pid_ns     INTEGER,
    capped     INTEGER CHECK (capped IN (0, 1)),               -- tasks, as proven from inside
    notes      TEXT    CHECK (notes IS NULL OR json_valid(notes)),
    exit_code  INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    changes    INTEGER CHECK (changes >= 0),                   -- what it changed, in entries
    digest     BLOB    CHECK (digest IS NULL OR length(digest) = 32),
    applied    INTEGER CHECK (applied BETWEEN 0 AND changes),  -- of them, for good; NULL: thrown away
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    CHECK (state <> 'ended' OR exit_code IS NOT NULL),
    CHECK ((state IN ('ended', 'failed', 'lost')) = (ended_at IS NOT NULL))
) STRICT;

CREATE INDEX sandbox_run_live ON sandbox_run (id) WHERE ended_at IS NULL;
CREATE INDEX sandbox_run_by_process ON sandbox_run (process_id);

CREATE TRIGGER sandbox_run_allowed BEFORE INSERT ON sandbox_run
BEGIN
    SELECT RAISE(ABORT, 'sandbox.transition|a run begins as starting') WHERE NEW.state <> 'starting';
    SELECT RAISE(ABORT, 'sandbox.none|nothing runs without a sandbox unless the setting says so')
     WHERE NEW.backend = 'none'
       AND (SELECT value FROM setting WHERE name = 'sandbox.unconfined') = 0;
    SELECT RAISE(ABORT, 'sandbox.busy|too many sandboxes run already')
     WHERE (SELECT count(*) FROM sandbox_run AS r JOIN process AS p ON p.id = r.process_id
             WHERE r.ended_at IS NULL AND process_alive(p.boot_id, p.pid, p.start_ticks))
        >= (SELECT value FROM setting WHERE name = 'sandbox.live');
END;

-- A program dies with whoever started it: what a dead process left open is lost.
CREATE TRIGGER sandbox_run_closes AFTER INSERT ON sandbox_run
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'sandbox_run', NEW.id, NEW.state, '',
            json_object('program', NEW.program, 'words', NEW.words, 'backend', NEW.backend,
                        'uid', NEW.uid, 'net', NEW.net));
    UPDATE sandbox_run SET state = 'lost', ended_at = now_ms()
     WHERE ended_at IS NULL
       AND NOT (SELECT process_alive(boot_id, pid, start_ticks) FROM process
                 WHERE id = sandbox_run.process_id);
END;

CREATE TRIGGER sandbox_run_moves BEFORE UPDATE ON sandbox_run
BEGIN
    SELECT RAISE(ABORT, 'sandbox.transition|a sandboxed run cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'sandbox_run' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'sandbox.final|a finished run is history')
     WHERE NEW.state IS OLD.state AND OLD.ended_at IS NOT NULL;
    SELECT RAISE(ABORT, 'sandbox.fixed|a run keeps what it was started as')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.backend IS NOT OLD.backend
        OR NEW.process_id IS NOT OLD.process_id OR NEW.uid IS NOT OLD.uid
        OR NEW.program IS NOT OLD.program OR NEW.words IS NOT OLD.words OR NEW.net IS NOT OLD.net
        OR NEW.started_at IS NOT OLD.started_at;
END;

CREATE TRIGGER sandbox_run_stays BEFORE DELETE ON sandbox_run
BEGIN
    SELECT RAISE(ABORT, 'sandbox.final|a run is history');
END;

CREATE TRIGGER sandbox_run_audit_move AFTER UPDATE OF state ON sandbox_run
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'sandbox_run', NEW.id, NEW.state, '',
            json_object('exit', NEW.exit_code, 'capped', NEW.capped, 'changes', NEW.changes,
                        'applied', NEW.applied, 'digest', lower(hex(NEW.digest))));
END;

-- What was allowed to a run ends with it, and so does what it has connected.
CREATE TRIGGER sandbox_run_ends_egress AFTER UPDATE OF state ON sandbox_run
WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL
BEGIN
    UPDATE egress_flow SET state = 'lost', ended_at = NEW.ended_at WHERE run_id = NEW.id AND ended_at IS NULL;
    UPDATE egress_rule SET state = 'dropped', dropped_at = NEW.ended_at WHERE run_id = NEW.id AND state = 'active';
END;

-- What runs in a sandbox now.
CREATE VIEW live_sandboxes AS
SELECT r.id, r.state, r.program, r.words, r.uid, r.backend, r.net, r.capped, p.pid AS starter,
       r.started_at
  FROM sandbox_run AS r JOIN process AS p ON p.id = r.process_id
 WHERE r.ended_at IS NULL AND process_alive(p.boot_id, p.pid, p.start_ticks);
