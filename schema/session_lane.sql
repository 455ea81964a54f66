-- session_lane.sql: what of the internet a session reaches, and reached: all of it through the lane.

-- What its worker allows holds for this try, and goes with its sandbox (sandbox.sql).
CREATE TRIGGER attempt_reaches AFTER INSERT ON attempt WHEN NEW.sandbox_run_id IS NOT NULL
BEGIN
    INSERT INTO egress_rule (verdict, suffix, port, made_at, made_by_uid, run_id)
    SELECT DISTINCT 'allow', w.value ->> 'suffix', w.value ->> 'port', now_ms(), s.by_uid, NEW.sandbox_run_id
      FROM session AS s JOIN json_each(s.lane) AS w WHERE s.id = NEW.session_id;
END;

-- Whose networks the lane may be given: of programs that a row lets reach something.
CREATE VIEW carried_run AS
SELECT r.id, r.uid FROM sandbox_run AS r
 WHERE r.ended_at IS NULL
   AND (EXISTS (SELECT 1 FROM program_reach WHERE run_id = r.id)
        OR EXISTS (SELECT 1 FROM attempt AS a JOIN session AS s ON s.id = a.session_id
                    WHERE a.sandbox_run_id = r.id AND s.lane IS NOT NULL));

-- What sessions reached, or wanted to.
CREATE VIEW session_flows AS
SELECT f.id, f.asked_at, s.name AS session, s.worker, a.n AS attempt, f.host || ':' || f.port AS what, f.state,
       f.dialled, f.up, f.down, f.code
  FROM egress_flow AS f JOIN attempt AS a ON a.sandbox_run_id = f.run_id JOIN session AS s ON s.id = a.session_id;

-- What sessions that run wanted and no rule says anything about: for a person to allow, or not.
CREATE VIEW session_asks AS
SELECT s.name AS session, s.worker, f.host || ':' || f.port AS what, count(*) AS times, max(f.asked_at) AS last_at
  FROM egress_flow AS f JOIN attempt AS a ON a.sandbox_run_id = f.run_id JOIN session AS s ON s.id = a.session_id
 WHERE f.state = 'refused' AND f.code = 'egress.unknown' AND a.ended_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM egress_rule AS r
                    WHERE r.state = 'active' AND r.suffix = f.host AND r.port IN (0, f.port)
                      AND (r.run_id = f.run_id
                           OR (r.run_id IS NULL AND r.pairing_id IS NULL AND coalesce(r.uid, f.uid) = f.uid)))
 GROUP BY s.id, f.host, f.port;
