-- 0004_sandbox.sql: programs that run in a sandbox.

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

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('sandbox_run', '', 'starting'),
    ('sandbox_run', 'starting', 'running'),
    ('sandbox_run', 'starting', 'failed'),
    ('sandbox_run', 'starting', 'lost'),
    ('sandbox_run', 'running', 'ended'),
    ('sandbox_run', 'running', 'lost');

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('run.ask_ms', 60000, 'ms', 100, 3600000, 'how long a person may take to answer bastion run --ask'),
    ('run.files', 1000000, 'files', 64, 100000000, 'files that a program of bastion run may make in its /tmp'),
    ('run.memory', 0, 'bytes', 0, 1099511627776, 'memory of all processes of bastion run; 0: no cap of its own'),
    ('run.names', 16384, 'rows', 16, 131072, 'names that a program of bastion run may look up'),
    ('run.open_files', 65536, 'descriptors', 16, 1048576, 'descriptors that one process of bastion run may hold'),
    ('run.scratch', 1073741824, 'bytes', 65536, 1099511627776, 'what the /tmp of bastion run may hold'),
    ('run.tasks', 4096, 'tasks', 1, 100000, 'processes and threads of bastion run'),
    ('sandbox.cpu_percent', 0, 'percent', 0, 100000, 'share of one processor that a sandbox may use; 0: no cap'),
    ('sandbox.effect', 536870912, 'bytes', 65536, 1099511627776, 'what a program in a sandbox may change before it is applied or thrown away'),
    ('sandbox.file', 0, 'bytes', 0, 1099511627776, 'longest file that a program in a sandbox may write; 0: no cap of its own'),
    ('sandbox.files', 100000, 'files', 64, 100000000, 'files that a program in a sandbox may make, in its changes and in its /tmp'),
    ('sandbox.live', 256, 'rows', 1, 4096, 'sandboxes that may run at once'),
    ('sandbox.memory', 1073741824, 'bytes', 16777216, 1099511627776, 'memory of all processes in a sandbox'),
    ('sandbox.open_files', 4096, 'descriptors', 16, 1048576, 'descriptors that one process in a sandbox may hold'),
    ('sandbox.scratch', 268435456, 'bytes', 65536, 1099511627776, 'what the /tmp of a sandbox may hold'),
    ('sandbox.start_ms', 10000, 'ms', 100, 600000, 'how long a sandbox may take to start'),
    ('sandbox.tasks', 64, 'tasks', 1, 100000, 'processes and threads of a program in a sandbox'),
    ('sandbox.time_ms', 600000, 'ms', 100, 86400000, 'how long a program may run in a sandbox'),
    ('sandbox.unconfined', 0, 'bool', 0, 1, 'allow the backend none, which confines nothing');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('run.ask', 3, 422, 'leave out --ask, or run this on a terminal'),
    ('run.folder', 2, 422, 'see the message; change into a folder of your own'),
    ('run.over', 126, 409, 'start another run'),
    ('run.preset', 2, 404, 'see bastion sql ''SELECT DISTINCT name FROM egress_preset'''),
    ('sandbox.backend', 3, 503, 'install bubblewrap, or take the backend native'),
    ('sandbox.busy', 75, 503, 'wait for a run to end: bastion sql ''SELECT * FROM live_sandboxes'''),
    ('sandbox.effect', 1, 500, 'see the message; what was not applied is as it was'),
    ('sandbox.final', 126, 409, 'what ran is history'),
    ('sandbox.fixed', 126, 409, 'start another run'),
    ('sandbox.late', 1, 504, 'try again; the machine is busy'),
    ('sandbox.none', 126, 403, 'leave out --backend none; or, where that is meant: bastion settings sandbox.unconfined 1'),
    ('sandbox.plan', 2, 422, 'see the message; name paths by their real names'),
    ('sandbox.program', 2, 422, 'name a program that is there inside: the folders of the system are, and those that were named'),
    ('sandbox.start', 1, 500, 'see the message; nothing ran'),
    ('sandbox.time', 75, 504, 'allow more time, or ask for less'),
    ('sandbox.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('sandbox.userns', 3, 503, 'have an administrator allow it as the message says; nothing runs without it');
