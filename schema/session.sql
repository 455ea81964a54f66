-- session.sql: long work: the programs that may be workers, sessions, each attempt at one, what it said.

-- A program that is a worker here. The person who adds it says which; it is never edited.
CREATE TABLE worker (
    name         TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64
                         AND name GLOB '[A-Za-z0-9]*' AND name NOT GLOB '*[^A-Za-z0-9._-]*'
                         AND instr(name, char(0)) = 0),
    argv         TEXT    NOT NULL CHECK (json_valid(argv) AND json_type(argv) = 'array'
                         AND json_array_length(argv) BETWEEN 1 AND 64 AND length(argv) <= 16384),
    max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 100),
    by_uid       INTEGER NOT NULL CHECK (by_uid >= 0),
    added_at     INTEGER NOT NULL,
    -- What its sessions reach: the folder that they run in, what paths says, the machine's programs.
    backend      TEXT    NOT NULL DEFAULT 'native' CHECK (backend IN ('native', 'none')),
    net          TEXT    NOT NULL DEFAULT 'none' CHECK (net IN ('none', 'host')),
    paths        TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(paths) AND json_type(paths) = 'array'
                         AND json_array_length(paths) <= 48),          -- of {"kind","path"}
    -- What of the internet its sessions reach by the lane, beside what rules allow to all: [{"suffix","port"}]; NULL: nothing.
    lane         TEXT    CHECK (lane IS NULL OR (json_valid(lane) AND json_type(lane) = 'array'
                         AND json_array_length(lane) <= 64 AND length(lane) <= 16384 AND backend = 'native' AND net = 'none')),
    CHECK (backend <> 'none' OR (net = 'host' AND paths = '[]'))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER worker_is_a_program BEFORE INSERT ON worker
BEGIN
    SELECT RAISE(ABORT, 'worker.name|the name of a worker is letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 64 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'worker.exists|there is a worker of this name')
     WHERE EXISTS (SELECT 1 FROM worker WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'worker.argv|a worker is a program and its arguments, each without a NUL')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.argv)
                    WHERE type <> 'text' OR instr(value, char(0)) > 0)
        OR (NEW.argv ->> 0) = '';
    SELECT RAISE(ABORT, 'worker.paths|a path of a worker is read or written, absolute, and by its real name')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.paths)
                    WHERE type <> 'object' OR value ->> 'kind' NOT IN ('read', 'write')
                       OR json_type(value, '$.path') IS NOT 'text' OR value ->> 'path' NOT GLOB '/?*'
                       OR length(CAST(value ->> 'path' AS BLOB)) > 4095
                       OR instr(value ->> 'path', char(0)) > 0
                       OR value ->> 'path' || '/' GLOB '*/./*' OR value ->> 'path' || '/' GLOB '*/../*');
    SELECT RAISE(ABORT, 'worker.lane|what a worker reaches is a name in lower case of eight labels at most, an address or *, and a port')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.lane)
                    WHERE CASE WHEN type <> 'object' OR json_type(value, '$.suffix') IS NOT 'text'
                                 OR json_type(value, '$.port') IS NOT 'integer' THEN 1
                               ELSE value ->> 'port' NOT BETWEEN 0 AND 65535
                                 OR (value ->> 'suffix' <> '*' AND host_text(value ->> 'suffix') IS NOT value ->> 'suffix')
                                 OR host_tail(value ->> 'suffix', 8) IS NOT NULL END);
    SELECT RAISE(ABORT, 'worker.lane|on the lane is what a sandbox holds, which has no other network')
     WHERE NEW.lane IS NOT NULL AND (NEW.backend <> 'native' OR NEW.net <> 'none');
    SELECT RAISE(ABORT, 'worker.unheld|what nothing holds has the network of the machine, and paths are no bounds for it')
     WHERE NEW.backend = 'none' AND (NEW.net <> 'host' OR NEW.paths <> '[]');
END;

CREATE TRIGGER worker_fixed BEFORE UPDATE ON worker
BEGIN
    SELECT RAISE(ABORT, 'worker.fixed|a worker is dropped and added, never edited');
END;

CREATE TRIGGER worker_audit_birth AFTER INSERT ON worker
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'worker', NEW.name, 'added', '',
            json_object('command', (SELECT group_concat(value, ' ') FROM json_each(NEW.argv)),
                        'uid', NEW.by_uid, 'backend', NEW.backend, 'net', NEW.net,
                        'paths', json(NEW.paths), 'lane', json(NEW.lane)));
END;

CREATE TRIGGER worker_audit_end AFTER DELETE ON worker
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'worker', OLD.name, 'dropped', '', '{}');
END;

-- A named run, watched live or later, tried again where it crashes. Whoever asked may go: it is the
-- machine's. It holds a place only while an attempt runs, so one that waits to be tried again
-- starves nobody.
CREATE TABLE session (
    id           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 128
                         AND name GLOB '[A-Za-z0-9]*' AND name NOT GLOB '*[^A-Za-z0-9._-]*'
                         AND instr(name, char(0)) = 0),
    worker       TEXT    NOT NULL DEFAULT '',                  -- by which template; '': a command of its own
    argv         TEXT    NOT NULL CHECK (json_valid(argv) AND json_type(argv) = 'array'
                         AND json_array_length(argv) BETWEEN 1 AND 256 AND length(argv) <= 131072),
    cwd          TEXT    NOT NULL CHECK (cwd GLOB '/*' AND length(CAST(cwd AS BLOB)) <= 4095
                         AND instr(cwd, char(0)) = 0),
    by_uid       INTEGER NOT NULL CHECK (by_uid >= 0),         -- who asked, by the kernel's word; runs it, too
    terminal     INTEGER NOT NULL DEFAULT 0 CHECK (terminal IN (0, 1)),
    input        INTEGER NOT NULL DEFAULT 0 CHECK (input IN (0, 1)),   -- it reads what it is sent
    rows         INTEGER NOT NULL DEFAULT 24 CHECK (rows BETWEEN 1 AND 1000),
    cols         INTEGER NOT NULL DEFAULT 80 CHECK (cols BETWEEN 1 AND 1000),
    max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 100),
    state        TEXT    NOT NULL DEFAULT 'queued'
                 CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    queued_at    INTEGER NOT NULL,
    not_before   INTEGER NOT NULL,                             -- of the next attempt: lives through a restart
    started_at   INTEGER,                                      -- of the first attempt
    finished_at  INTEGER,
    exit_code    INTEGER CHECK (exit_code BETWEEN 0 AND 255),  -- of the last attempt
    end_reason   TEXT    CHECK (end_reason IN ('permanent', 'attempts', 'launch', 'cancelled', 'daemon', 'drain')),
    cancel_at    INTEGER,                                      -- somebody asked for its end
    attempts     INTEGER NOT NULL DEFAULT 0,
    crashes      INTEGER NOT NULL DEFAULT 0,                   -- of these; what backoff counts
    first_seq    INTEGER NOT NULL DEFAULT 1,                   -- output before this row is gone
    last_seq     INTEGER NOT NULL DEFAULT 0,
    lines        INTEGER NOT NULL DEFAULT 0,                   -- that it ever said
    bytes        INTEGER NOT NULL DEFAULT 0,
    input_seq    INTEGER NOT NULL DEFAULT 0,                   -- input up to here was handed on
    backend      TEXT    NOT NULL DEFAULT 'none' CHECK (backend IN ('native', 'none')),   -- what holds it
    net          TEXT    NOT NULL DEFAULT 'host' CHECK (net IN ('none', 'host')),
    paths        TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(paths)),      -- as the worker had them
    lane         TEXT    CHECK (lane IS NULL OR (json_valid(lane) AND backend = 'native' AND net = 'none')), -- likewise
    CHECK (backend <> 'none' OR (net = 'host' AND paths = '[]')),
    CHECK ((state IN ('queued', 'running')) = (finished_at IS NULL)),
    CHECK (state <> 'running' OR started_at IS NOT NULL),
    CHECK (state <> 'done' OR exit_code = 0),
    CHECK ((state IN ('failed', 'cancelled')) = (end_reason IS NOT NULL)),
    CHECK (attempts <= max_attempts AND first_seq BETWEEN 1 AND last_seq + 1)
) STRICT;

CREATE INDEX session_waits ON session (queued_at, id) WHERE state = 'queued';
CREATE INDEX session_over ON session (finished_at, id) WHERE finished_at IS NOT NULL;

CREATE TRIGGER session_is_allowed BEFORE INSERT ON session
BEGIN
    SELECT RAISE(ABORT, 'session.name|the name of a session is letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 128 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'session.exists|there is a session of this name')
     WHERE EXISTS (SELECT 1 FROM session WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'worker.unknown|there is no worker of this name')
     WHERE NEW.worker <> '' AND NOT EXISTS (SELECT 1 FROM worker WHERE name = NEW.worker);
    -- What a worker runs begins as its template has it: what is asked for comes behind.
    SELECT RAISE(ABORT, 'worker.argv|a session of a worker runs that worker''s program')
     WHERE NEW.worker <> ''
       AND EXISTS (SELECT 1 FROM worker AS w JOIN json_each(w.argv) AS t
                    WHERE w.name = NEW.worker AND t.value IS NOT (NEW.argv ->> t.key));
    SELECT RAISE(ABORT, 'worker.argv|a worker is a program and its arguments, each without a NUL')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.argv)
                    WHERE type <> 'text' OR instr(value, char(0)) > 0)
        OR (NEW.argv ->> 0) = '';
    SELECT RAISE(ABORT, 'session.sandbox|a session is held as its worker says; one without a worker reaches its folder alone')
     WHERE CASE WHEN NEW.worker = ''
                THEN NEW.lane IS NOT NULL OR (NEW.backend <> 'none' AND (NEW.net <> 'none' OR NEW.paths <> '[]'))
                ELSE NOT EXISTS (SELECT 1 FROM worker AS w WHERE w.name = NEW.worker AND w.backend = NEW.backend
                        AND w.net = NEW.net AND w.paths = NEW.paths AND w.lane IS NEW.lane) END;
    SELECT RAISE(ABORT, 'session.offline|the daemon does not serve, so nobody would run this')
     WHERE NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');
    SELECT RAISE(ABORT, 'session.busy|too many sessions wait already')
     WHERE (SELECT count(*) FROM session WHERE state = 'queued')
        >= (SELECT value FROM setting WHERE name = 'session.queue');
    SELECT RAISE(ABORT, 'session.transition|a session begins as queued, with nothing behind it')
     WHERE NEW.state <> 'queued' OR NEW.attempts <> 0 OR NEW.crashes <> 0 OR NEW.last_seq <> 0
        OR NEW.first_seq <> 1 OR NEW.lines <> 0 OR NEW.bytes <> 0 OR NEW.input_seq <> 0
        OR NEW.cancel_at IS NOT NULL OR NEW.started_at IS NOT NULL OR NEW.queued_at IS NOT now_ms();
    -- Of those that are over the oldest make place, never one that lives.
    DELETE FROM session
     WHERE id IN (SELECT id FROM session WHERE finished_at IS NOT NULL ORDER BY finished_at, id
                   LIMIT max(0, (SELECT count(*) FROM session) + 1
                              - (SELECT value FROM setting WHERE name = 'session.kept')));
END;

CREATE TRIGGER session_moves BEFORE UPDATE ON session
BEGIN
    SELECT RAISE(ABORT, 'session.transition|a session cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'session' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'session.final|a session that is over is history')
     WHERE OLD.finished_at IS NOT NULL;
    SELECT RAISE(ABORT, 'session.fixed|a session keeps what it was asked for')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.worker IS NOT OLD.worker
        OR NEW.argv IS NOT OLD.argv OR NEW.cwd IS NOT OLD.cwd OR NEW.by_uid IS NOT OLD.by_uid
        OR NEW.terminal IS NOT OLD.terminal OR NEW.input IS NOT OLD.input OR NEW.max_attempts IS NOT OLD.max_attempts
        OR NEW.queued_at IS NOT OLD.queued_at OR NEW.backend IS NOT OLD.backend
        OR NEW.net IS NOT OLD.net OR NEW.paths IS NOT OLD.paths OR NEW.lane IS NOT OLD.lane;
    SELECT RAISE(ABORT, 'session.seq|output and input only grow, and their beginning only moves on')
     WHERE NEW.last_seq < OLD.last_seq OR NEW.first_seq < OLD.first_seq OR NEW.lines < OLD.lines
        OR NEW.bytes < OLD.bytes OR NEW.input_seq < OLD.input_seq OR NEW.attempts < OLD.attempts;
    SELECT RAISE(ABORT, 'session.cancelled|the end of this session was asked for already')
     WHERE OLD.cancel_at IS NOT NULL AND NEW.cancel_at IS NOT OLD.cancel_at;
    -- What a watcher may still read goes when there is more than the setting keeps, and not before.
    SELECT RAISE(ABORT, 'session.young|output is kept up to the setting session.history')
     WHERE NEW.first_seq > OLD.first_seq
       AND (SELECT coalesce(sum(length(data)), 0) FROM session_output
             WHERE session_id = NEW.id AND seq >= NEW.first_seq - 1)
         < (SELECT value FROM setting WHERE name = 'session.history');
END;

-- A session that waits ends at once when that is asked for; one that runs, when its attempt does.
CREATE TRIGGER session_cancels AFTER UPDATE OF cancel_at ON session
WHEN NEW.cancel_at IS NOT NULL AND OLD.cancel_at IS NULL AND NEW.state = 'queued'
BEGIN
    UPDATE session SET state = 'cancelled', end_reason = 'cancelled', finished_at = NEW.cancel_at
     WHERE id = NEW.id;
END;

-- It may have run since the copy was made, and would a second time.
CREATE TRIGGER session_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE session SET cancel_at = now_ms() WHERE state = 'queued';
END;

-- Of one that began by itself: its schedule may begin the next.
CREATE TRIGGER firing_ends_with_session AFTER UPDATE OF state ON session WHEN NEW.finished_at IS NOT NULL
BEGIN
    UPDATE firing SET state = NEW.state, ended_at = NEW.finished_at
     WHERE session = NEW.name AND ended_at IS NULL;
END;

CREATE TRIGGER session_stays BEFORE DELETE ON session
BEGIN
    SELECT RAISE(ABORT, 'session.live|a session is deleted when it is over') WHERE OLD.finished_at IS NULL;
    DELETE FROM session_input WHERE session_id = OLD.id;
    DELETE FROM session_output WHERE session_id = OLD.id;
    DELETE FROM attempt WHERE session_id = OLD.id;
END;

CREATE TRIGGER session_audit_birth AFTER INSERT ON session
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'session', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'worker', NEW.worker, 'uid', NEW.by_uid,
                        'backend', NEW.backend, 'net', NEW.net,
                        'command', (SELECT group_concat(value, ' ') FROM json_each(NEW.argv))));
END;

CREATE TRIGGER session_audit_move AFTER UPDATE OF state ON session WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'session', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'attempts', NEW.attempts, 'exit', NEW.exit_code,
                        'reason', NEW.end_reason, 'lines', NEW.lines));
END;

-- One try of a session. The row authorises the process: it is there, durably, before anything starts.
CREATE TABLE attempt (
    id          INTEGER PRIMARY KEY,
    session_id  INTEGER NOT NULL REFERENCES session (id),
    n           INTEGER NOT NULL CHECK (n >= 1),
    process_id  INTEGER REFERENCES process (id),               -- the leader of its group
    state       TEXT    NOT NULL DEFAULT 'launching'
                CHECK (state IN ('launching', 'running', 'ended', 'failed', 'lost')),
    outcome     TEXT    CHECK (outcome IN ('success', 'crash', 'later', 'permanent', 'launch',
                                           'cancelled', 'drain', 'lost')),
    launched_at INTEGER NOT NULL,
    ended_at    INTEGER,
    exit_code   INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    term_signal INTEGER CHECK (term_signal BETWEEN 1 AND 64),
    why         TEXT    CHECK (length(why) <= 512),            -- of a launch that failed
    sandbox_run_id INTEGER UNIQUE REFERENCES sandbox_run (id), -- what holds it
    UNIQUE (session_id, n),
    CHECK ((state IN ('launching', 'running')) = (ended_at IS NULL)),
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK (state NOT IN ('running', 'ended') OR process_id IS NOT NULL),
    CHECK (outcome IS NOT 'success' OR (exit_code = 0 AND term_signal IS NULL)),
    CHECK (outcome IS NOT 'later' OR exit_code = 75),
    CHECK (outcome IS NOT 'permanent' OR exit_code = 76)
) STRICT;

CREATE UNIQUE INDEX attempt_one_live ON attempt (session_id) WHERE state IN ('launching', 'running');
CREATE INDEX attempt_by_process ON attempt (process_id);

-- A place, a turn, and a daemon that takes work: looked at in one transaction.
CREATE TRIGGER attempt_is_allowed BEFORE INSERT ON attempt
BEGIN
    SELECT CASE
           WHEN NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready')
           THEN RAISE(ABORT, 'session.drain|the daemon takes no work any more')
           WHEN s.state IS NOT 'queued' OR s.cancel_at IS NOT NULL
           THEN RAISE(ABORT, 'session.transition|this session does not wait')
           WHEN s.not_before > now_ms()
           THEN RAISE(ABORT, 'session.early|this session is not to be tried again yet')
           WHEN s.id IS NOT (SELECT id FROM next_session)
           THEN RAISE(ABORT, 'session.turn|another session waits for longer')
           WHEN (SELECT count(*) FROM attempt WHERE state IN ('launching', 'running'))
             >= (SELECT value FROM setting WHERE name = 'session.slots')
           THEN RAISE(ABORT, 'session.slots|every place is taken')
           WHEN NEW.n IS NOT s.attempts + 1 OR NEW.n > s.max_attempts
           THEN RAISE(ABORT, 'session.attempts|attempts are numbered, up to what the session allows')
           WHEN NEW.state <> 'launching'
           THEN RAISE(ABORT, 'session.transition|an attempt begins as launching')
           WHEN (s.backend <> 'none') IS NOT (NEW.sandbox_run_id IS NOT NULL)
             OR (s.backend <> 'none' AND NOT EXISTS (SELECT 1 FROM sandbox_run AS r
                 WHERE r.id = NEW.sandbox_run_id AND r.state = 'starting' AND r.backend = s.backend
                   AND r.net = iif(s.lane IS NULL, s.net, 'sockets') AND r.uid = s.by_uid))
           THEN RAISE(ABORT, 'session.sandbox|a session is held as its worker says; one without a worker reaches its folder alone')
           END
      FROM (SELECT 1) AS asked LEFT JOIN session AS s ON s.id = NEW.session_id;
END;

CREATE TRIGGER attempt_begins AFTER INSERT ON attempt
BEGIN
    UPDATE session SET state = 'running', attempts = NEW.n,
                       started_at = coalesce(started_at, NEW.launched_at)
     WHERE id = NEW.session_id;
END;

CREATE TRIGGER attempt_moves BEFORE UPDATE ON attempt
BEGIN
    SELECT RAISE(ABORT, 'session.transition|an attempt cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'attempt' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'session.final|an attempt that ended is history')
     WHERE OLD.ended_at IS NOT NULL;
    SELECT RAISE(ABORT, 'session.fixed|an attempt keeps its session and its process')
     WHERE NEW.id IS NOT OLD.id OR NEW.session_id IS NOT OLD.session_id OR NEW.n IS NOT OLD.n
        OR NEW.launched_at IS NOT OLD.launched_at OR NEW.sandbox_run_id IS NOT OLD.sandbox_run_id
        OR (OLD.process_id IS NOT NULL AND NEW.process_id IS NOT OLD.process_id);
END;

-- What becomes of the session. A crash waits twice as long each time, spread by half, so that what
-- failed together does not come back together; 75 asks for later, which is no crash; 76 says never.
CREATE TRIGGER attempt_over AFTER UPDATE OF state ON attempt
WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL
BEGIN
    UPDATE session
       SET state = v.state, exit_code = NEW.exit_code,
           crashes = crashes + (NEW.outcome IN ('crash', 'launch')),
           finished_at = iif(v.state = 'queued', NULL, NEW.ended_at),
           end_reason = CASE WHEN v.state IN ('queued', 'done') THEN NULL
                             WHEN v.state = 'cancelled' THEN 'cancelled'
                             WHEN NEW.outcome = 'permanent' THEN 'permanent'
                             WHEN NEW.outcome = 'lost' THEN 'daemon'
                             WHEN NEW.outcome = 'drain' THEN 'drain'
                             WHEN NEW.outcome = 'launch' THEN 'launch'
                             ELSE 'attempts' END,
           not_before = CASE WHEN v.state <> 'queued' THEN not_before
                             WHEN NEW.outcome = 'later'
                             THEN NEW.ended_at + (SELECT value FROM setting WHERE name = 'session.later_ms')
                             ELSE NEW.ended_at + v.backoff * (500 + abs(random() % 1000)) / 1000 END
      FROM (SELECT CASE WHEN s.cancel_at IS NOT NULL OR NEW.outcome = 'cancelled' THEN 'cancelled'
                        WHEN NEW.outcome = 'success' THEN 'done'
                        WHEN NEW.outcome IN ('permanent', 'lost', 'drain') THEN 'failed'
                        WHEN NEW.n >= s.max_attempts THEN 'failed'
                        ELSE 'queued' END AS state,
                   min((SELECT value FROM setting WHERE name = 'session.backoff_cap_ms'),
                       (SELECT value FROM setting WHERE name = 'session.backoff_ms')
                       << min(s.crashes + 1, 20)) AS backoff
              FROM session AS s WHERE s.id = NEW.session_id) AS v
     WHERE id = NEW.session_id;
END;

-- The sandbox ends with what it held.
CREATE TRIGGER attempt_ends_sandbox AFTER UPDATE OF state ON attempt
WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL AND NEW.sandbox_run_id IS NOT NULL
BEGIN
    UPDATE sandbox_run
       SET state = CASE WHEN NEW.state = 'ended' AND state = 'running' THEN 'ended'
                        WHEN NEW.state = 'failed' AND state = 'starting' THEN 'failed' ELSE 'lost' END,
           exit_code = NEW.exit_code, ended_at = NEW.ended_at
     WHERE id = NEW.sandbox_run_id AND ended_at IS NULL;
END;

CREATE TRIGGER attempt_stays BEFORE DELETE ON attempt
WHEN EXISTS (SELECT 1 FROM session WHERE id = OLD.session_id AND finished_at IS NULL)
BEGIN
    SELECT RAISE(ABORT, 'session.live|a session is deleted when it is over');
END;

CREATE TRIGGER attempt_audit AFTER UPDATE OF state ON attempt WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'attempt', NEW.id, NEW.state, '',
            json_object('session', NEW.session_id, 'n', NEW.n, 'outcome', NEW.outcome,
                        'exit', NEW.exit_code, 'signal', NEW.term_signal));
END;

-- With the worker die its children; what they were at is lost, and said so.
CREATE TRIGGER attempt_ends_with_worker AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE attempt SET state = 'lost', outcome = 'lost', ended_at = NEW.ended_at
     WHERE state IN ('launching', 'running');
END;

CREATE TRIGGER attempt_ends_with_instance AFTER UPDATE OF ended_at ON instance
WHEN NEW.state IN ('ended', 'lost') AND OLD.state NOT IN ('ended', 'lost')
BEGIN
    UPDATE attempt SET state = 'lost', outcome = 'lost', ended_at = NEW.ended_at
     WHERE state IN ('launching', 'running');
END;

-- What it said, many lines a row. A row is whole lines; or a piece of one line (lines 0, but 1 with its
-- end), the pieces of a line in order, each but the last with more; or, of a terminal, bytes.
CREATE TABLE session_output (
    session_id INTEGER NOT NULL REFERENCES session (id),
    seq        INTEGER NOT NULL CHECK (seq >= 1),
    attempt    INTEGER NOT NULL CHECK (attempt >= 0),          -- its number; 0: between two
    kind       TEXT    NOT NULL CHECK (kind IN ('out', 'err', 'tty', 'note')),
    line       INTEGER NOT NULL CHECK (line >= 1),             -- the number of its first line
    lines      INTEGER NOT NULL CHECK (lines >= 0),            -- that end in it
    more       INTEGER NOT NULL DEFAULT 0 CHECK (more IN (0, 1)),
    at         INTEGER NOT NULL,
    data       BLOB    NOT NULL CHECK (length(data) <= 131072),
    PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_output_by_line ON session_output (session_id, line);

CREATE TRIGGER session_output_in_order BEFORE INSERT ON session_output
BEGIN
    SELECT RAISE(ABORT, 'session.output|only a session that is not over says something')
     WHERE (SELECT finished_at IS NULL FROM session WHERE id = NEW.session_id) IS NOT 1
        OR (NEW.kind <> 'note' AND (SELECT state FROM session WHERE id = NEW.session_id) <> 'running');
    SELECT RAISE(ABORT, 'session.seq|output comes in order, without a gap')
     WHERE NEW.seq IS NOT (SELECT last_seq + 1 FROM session WHERE id = NEW.session_id);
END;

CREATE TRIGGER session_output_counts AFTER INSERT ON session_output
BEGIN
    UPDATE session SET last_seq = NEW.seq, lines = lines + NEW.lines, bytes = bytes + length(NEW.data)
     WHERE id = NEW.session_id;
END;

CREATE TRIGGER session_output_no_update BEFORE UPDATE ON session_output
BEGIN
    SELECT RAISE(ABORT, 'session.output|what was said never changes');
END;

CREATE TRIGGER session_output_stays BEFORE DELETE ON session_output
WHEN EXISTS (SELECT 1 FROM session WHERE id = OLD.session_id AND finished_at IS NULL
                AND first_seq <= OLD.seq)
BEGIN
    SELECT RAISE(ABORT, 'session.young|output is kept up to the setting session.history');
END;

-- What is sent to a session as its input. A row is handed on once and is gone then: a password may be in it.
CREATE TABLE session_input (
    session_id INTEGER NOT NULL REFERENCES session (id),
    seq        INTEGER NOT NULL CHECK (seq >= 1),
    kind       TEXT    NOT NULL CHECK (kind IN ('data', 'end', 'size')),
    data       BLOB    NOT NULL CHECK (length(data) <= 65536),
    at         INTEGER NOT NULL,
    PRIMARY KEY (session_id, seq),
    CHECK (kind <> 'size' OR CAST(data AS TEXT) GLOB '[1-9]*x[1-9]*')
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_input_is_allowed BEFORE INSERT ON session_input
BEGIN
    SELECT RAISE(ABORT, 'session.over|this session is over')
     WHERE (SELECT finished_at IS NULL FROM session WHERE id = NEW.session_id) IS NOT 1;
    SELECT RAISE(ABORT, 'session.input|more input waits than the session takes')
     WHERE (SELECT count(*) FROM session_input WHERE session_id = NEW.session_id)
        >= (SELECT value FROM setting WHERE name = 'session.inputs');
    SELECT RAISE(ABORT, 'session.seq|input is numbered without a gap')
     WHERE NEW.seq IS NOT coalesce((SELECT max(seq) FROM session_input WHERE session_id = NEW.session_id),
                                   (SELECT input_seq FROM session WHERE id = NEW.session_id)) + 1;
    SELECT RAISE(ABORT, 'session.input|only a terminal has a size')
     WHERE NEW.kind = 'size'
       AND (SELECT terminal FROM session WHERE id = NEW.session_id) IS NOT 1;
    SELECT RAISE(ABORT, 'session.deaf|this session reads nothing')
     WHERE (SELECT terminal + input FROM session WHERE id = NEW.session_id) IS 0;
END;

CREATE TRIGGER session_input_no_update BEFORE UPDATE ON session_input
BEGIN
    SELECT RAISE(ABORT, 'session.input|what was sent never changes');
END;

CREATE TRIGGER session_input_is_handed_on AFTER UPDATE OF input_seq ON session
WHEN NEW.input_seq > OLD.input_seq
BEGIN
    DELETE FROM session_input WHERE session_id = NEW.id AND seq <= NEW.input_seq;
END;

CREATE TRIGGER session_input_ends AFTER UPDATE OF state ON session WHEN NEW.finished_at IS NOT NULL
BEGIN
    DELETE FROM session_input WHERE session_id = NEW.id;
END;

-- Which session begins next?
CREATE VIEW next_session AS
SELECT id, name FROM session
 WHERE state = 'queued' AND not_before <= now_ms() ORDER BY queued_at, id LIMIT 1;

-- What runs, what waits, what ended?
CREATE VIEW sessions AS
SELECT s.id, s.name, s.worker, s.state, s.queued_at, s.started_at, s.finished_at, s.exit_code,
       s.end_reason, s.attempts, s.lines, s.bytes, p.pid,
       CASE WHEN s.state = 'queued' AND s.attempts > 0 THEN s.not_before END AS again_at
  FROM session AS s
  LEFT JOIN attempt AS a ON a.session_id = s.id AND a.state IN ('launching', 'running')
  LEFT JOIN process AS p ON p.id = a.process_id;

-- Processes of attempts that were lost, and live all the same: whoever starts next ends them.
CREATE VIEW session_survivors AS
SELECT a.id AS attempt_id, p.boot_id, p.pid, p.start_ticks
  FROM attempt AS a JOIN process AS p ON p.id = a.process_id
 WHERE a.outcome = 'lost' AND process_alive(p.boot_id, p.pid, p.start_ticks);
