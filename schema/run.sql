-- run.sql: ports of programs in a sandbox that are reached from this machine.

-- The row that authorises it, before anybody can connect.
CREATE TABLE run_port (
    run_id INTEGER NOT NULL REFERENCES sandbox_run (id),
    port   INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),   -- of 127.0.0.1, outside
    inside INTEGER NOT NULL CHECK (inside BETWEEN 1 AND 65535),
    PRIMARY KEY (run_id, port)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER run_port_allowed BEFORE INSERT ON run_port
BEGIN
    SELECT CASE
           WHEN NOT EXISTS (SELECT 1 FROM sandbox_run WHERE id = NEW.run_id AND state = 'starting')
           THEN RAISE(ABORT, 'run.over|ports are published before a run begins')
           -- Who came in there would reach the internet as the run does.
           WHEN NEW.inside IN (53, 1080, 1081, 3128)
           THEN RAISE(ABORT, 'run.port|this port is the lane''s inside')
           WHEN (SELECT count(*) FROM run_port WHERE run_id = NEW.run_id)
             >= (SELECT value FROM setting WHERE name = 'run.ports')
           THEN RAISE(ABORT, 'run.port|a run has as many ports as the setting run.ports allows')
           END;
END;

CREATE TRIGGER run_port_fixed BEFORE UPDATE ON run_port
BEGIN
    SELECT RAISE(ABORT, 'sandbox.fixed|a run keeps what it was started as');
END;

CREATE TRIGGER run_port_stays BEFORE DELETE ON run_port
BEGIN
    SELECT RAISE(ABORT, 'sandbox.final|a run is history');
END;

CREATE TRIGGER run_port_audit AFTER INSERT ON run_port
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'sandbox_run', NEW.run_id, 'published', '',
            json_object('port', NEW.port, 'inside', NEW.inside));
END;
