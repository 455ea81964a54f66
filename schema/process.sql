-- process.sql: who runs: process identities, the daemon's instances, its actors, leases.

-- A process for good: a pid is reused, (boot, pid, start time) is not.
CREATE TABLE process (
    id          INTEGER PRIMARY KEY,
    boot_id     TEXT    NOT NULL CHECK (length(boot_id) = 36),
    pid         INTEGER NOT NULL CHECK (pid >= 1),
    start_ticks INTEGER NOT NULL CHECK (start_ticks >= 0),     -- /proc/PID/stat field 22
    uid         INTEGER NOT NULL CHECK (uid >= 0),
    program     TEXT    NOT NULL CHECK (length(program) <= 64),
    seen_at     INTEGER NOT NULL,
    UNIQUE (boot_id, pid, start_ticks)
) STRICT;

CREATE TRIGGER process_never_changes BEFORE UPDATE ON process
BEGIN
    SELECT RAISE(ABORT, 'process.fixed|a process identity never changes');
END;

-- One run of the daemon: the lock record and the status document at once.
CREATE TABLE instance (
    id          INTEGER PRIMARY KEY,
    epoch       INTEGER NOT NULL UNIQUE CHECK (epoch >= 1),    -- grows with every start
    role        TEXT    NOT NULL CHECK (role IN ('box', 'host')),
    process_id  INTEGER NOT NULL REFERENCES process (id),
    state       TEXT    NOT NULL DEFAULT 'starting'
                CHECK (state IN ('starting', 'ready', 'draining', 'ended', 'lost')),
    version     TEXT    NOT NULL,
    run_dir     TEXT    NOT NULL CHECK (length(CAST(run_dir AS BLOB)) BETWEEN 1 AND 90),
    started_at  INTEGER NOT NULL,
    ready_at    INTEGER,
    draining_at INTEGER,
    ended_at    INTEGER,
    end_reason  TEXT CHECK (end_reason IS NULL OR length(end_reason) <= 128),
    CHECK (state <> 'ready' OR ready_at IS NOT NULL),
    CHECK ((state IN ('ended', 'lost')) = (ended_at IS NOT NULL)),
    CHECK ((ended_at IS NULL) = (end_reason IS NULL))
) STRICT;

CREATE UNIQUE INDEX instance_one_live ON instance (1) WHERE state IN ('starting', 'ready', 'draining');

CREATE TRIGGER instance_born BEFORE INSERT ON instance
BEGIN
    SELECT RAISE(ABORT, 'instance.running|another instance is already running')
     WHERE EXISTS (SELECT 1 FROM instance WHERE state IN ('starting', 'ready', 'draining'));
    SELECT RAISE(ABORT, 'instance.transition|an instance begins as starting')
     WHERE NEW.state <> 'starting';
    SELECT RAISE(ABORT, 'instance.epoch|the epoch grows with every start')
     WHERE NEW.epoch <= (SELECT coalesce(max(epoch), 0) FROM instance);
END;

CREATE TRIGGER instance_moves BEFORE UPDATE ON instance
BEGIN
    SELECT RAISE(ABORT, 'instance.transition|an instance cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'instance' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'instance.final|an ended instance is history')
     WHERE NEW.state IS OLD.state AND OLD.state IN ('ended', 'lost');
END;

-- Whatever an ended instance left open is closed with it: in flight reads as lost, never as done.
CREATE TRIGGER instance_closes AFTER UPDATE OF ended_at ON instance
WHEN NEW.state IN ('ended', 'lost') AND OLD.state NOT IN ('ended', 'lost')
BEGIN
    UPDATE actor_run SET state = 'lost', ended_at = NEW.ended_at
     WHERE instance_id = NEW.id AND state IN ('starting', 'running');
    UPDATE op_run SET state = 'lost', finished_at = NEW.ended_at
     WHERE finished_at IS NULL;
    UPDATE folder_walk SET state = 'done' WHERE state IN ('reading', 'stuck');
    UPDATE call SET state = 'lost', finished_at = NEW.ended_at WHERE state IN ('asked', 'sent');
    UPDATE lease SET process_id = NULL, expires_at = NULL
     WHERE process_id IN (SELECT process_id FROM actor_run WHERE instance_id = NEW.id
                          UNION SELECT NEW.process_id);
END;

CREATE TRIGGER instance_audit_birth AFTER INSERT ON instance
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'instance', NEW.id, NEW.state, '',
            json_object('epoch', NEW.epoch, 'role', NEW.role, 'version', NEW.version));
END;

CREATE TRIGGER instance_audit_move AFTER UPDATE OF state ON instance WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'instance', NEW.id, NEW.state, '',
            json_object('from', OLD.state, 'reason', NEW.end_reason));
END;

-- One run of one actor's process.
CREATE TABLE actor_run (
    id          INTEGER PRIMARY KEY,
    instance_id INTEGER NOT NULL REFERENCES instance (id),
    actor       TEXT    NOT NULL
                CHECK (actor IN ('net', 'link', 'egress', 'tunnel', 'worker', 'keeper')),
    attempt     INTEGER NOT NULL CHECK (attempt >= 1),
    process_id  INTEGER REFERENCES process (id),
    state       TEXT    NOT NULL DEFAULT 'starting'
                CHECK (state IN ('starting', 'running', 'ended', 'failed', 'lost')),
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    exit_code   INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    term_signal INTEGER CHECK (term_signal BETWEEN 1 AND 64),
    not_before  INTEGER,                                       -- after a crash: when the next may start
    UNIQUE (instance_id, actor, attempt),
    CHECK (state <> 'running' OR process_id IS NOT NULL),
    CHECK ((state IN ('ended', 'failed', 'lost')) = (ended_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX actor_run_one_live ON actor_run (instance_id, actor)
 WHERE state IN ('starting', 'running');

CREATE TRIGGER actor_run_needs_instance BEFORE INSERT ON actor_run
BEGIN
    SELECT RAISE(ABORT, 'actor.instance|an actor runs only under a live instance')
     WHERE (SELECT state FROM instance WHERE id = NEW.instance_id) IS NOT 'starting'
       AND (SELECT state FROM instance WHERE id = NEW.instance_id) IS NOT 'ready';
    SELECT RAISE(ABORT, 'actor.transition|an actor begins as starting') WHERE NEW.state <> 'starting';
END;

CREATE TRIGGER actor_run_moves BEFORE UPDATE ON actor_run
BEGIN
    SELECT RAISE(ABORT, 'actor.transition|an actor cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'actor_run' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'actor.final|an ended actor run is history')
     WHERE NEW.state IS OLD.state AND OLD.state IN ('ended', 'failed', 'lost');
END;

CREATE TRIGGER actor_run_audit AFTER UPDATE OF state ON actor_run WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'actor', NEW.id, NEW.state, '',
            json_object('actor', NEW.actor, 'attempt', NEW.attempt, 'exit', NEW.exit_code,
                        'signal', NEW.term_signal));
END;

-- A worker that died may have left runs open: they are lost with it, and a new one starts clean.
CREATE TRIGGER actor_run_closes AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE op_run SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'running';
    UPDATE folder_walk SET state = 'done' WHERE state IN ('reading', 'stuck');
END;

-- What a worker was stopping when it died is not stopped again: part of it may be done.
CREATE TRIGGER actor_run_closes_directives AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE directive SET state = 'lost', ended_at = NEW.ended_at,
           result = json_object('code', 'directive.lost', 'why', 'the worker ended before the order did')
     WHERE state = 'running';
END;

CREATE TRIGGER actor_run_closes_calls AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'link' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE call SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'sent';
END;

-- An actor that died took its connections with it.
CREATE TRIGGER actor_run_closes_flows AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'egress' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE egress_flow SET state = 'lost', ended_at = NEW.ended_at WHERE ended_at IS NULL AND run_id IS NULL;
END;

CREATE TRIGGER actor_run_closes_lines AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'net' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE box_line SET up = 0, changed_at = NEW.ended_at WHERE up > 0;
END;

-- A lease: a named lock with fencing. Holding one is a row, and so is having lost it.
CREATE TABLE lease (
    name       TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 128 AND instr(name, char(0)) = 0),
    process_id INTEGER REFERENCES process (id),                -- NULL: free
    fence      INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0),  -- grows at each grant, never otherwise
    expires_at INTEGER,                                        -- ms UTC
    CHECK ((process_id IS NULL) = (expires_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER lease_fence_grows BEFORE UPDATE ON lease
BEGIN
    SELECT RAISE(ABORT, 'lease.fence|a new holder needs a higher fence')
     WHERE NEW.process_id IS NOT NULL AND NEW.process_id IS NOT OLD.process_id
       AND NEW.fence <= OLD.fence;
    SELECT RAISE(ABORT, 'lease.fence|a fence never falls') WHERE NEW.fence < OLD.fence;
    SELECT RAISE(ABORT, 'lease.held|a live holder keeps its lease until it runs out')
     WHERE OLD.process_id IS NOT NULL AND NEW.process_id IS NOT NULL
       AND NEW.process_id IS NOT OLD.process_id AND OLD.expires_at > now_ms()
       AND (SELECT process_alive(boot_id, pid, start_ticks) FROM process
             WHERE id = OLD.process_id);
END;

CREATE TRIGGER lease_stays BEFORE DELETE ON lease
BEGIN
    SELECT RAISE(ABORT, 'lease.kept|a lease is freed, not deleted: its fence must live on');
END;

-- The daemon that runs over this database now.
CREATE VIEW live_instance AS
SELECT i.id, i.epoch, i.role, i.state, p.pid, i.version, i.run_dir, i.started_at, i.ready_at
  FROM instance AS i JOIN process AS p ON p.id = i.process_id
 WHERE i.state IN ('starting', 'ready', 'draining');
