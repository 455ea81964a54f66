-- What begins by itself, when it is due next, and what became of its newest times.
-- :hours=24 how far back
SELECT s.name, v."when", s.state, s.next_at, f.due_at, f.fired_at - f.due_at AS late_ms, f.state AS became, f.session, f.why
  FROM schedule AS s JOIN schedules AS v ON v.id = s.id
  LEFT JOIN firing AS f ON f.schedule_id = s.id AND f.fired_at > now_ms() - :hours * 3600000
 ORDER BY s.name, f.id DESC;
