-- view.sql: an operator's questions. Views of one family alone stand with it: open_approvals,
-- live_grants, live_runs, run_history, live_instance, boxes. Times are ms UTC.

-- What may a Host do now, how often still, until when, and on whose word? A grant that the anchor of a
-- machine on a network does not let it use, or of a pairing that cannot be served, is not in it.
CREATE VIEW host_may AS
SELECT g.host, g.op, g.args, g.uses - g.used AS uses_left, g.expires_at,
       a.decided_by AS approved_by, g.approver AS approved_with, g.id AS grant_id, g.approval_id
  FROM live_grants AS g
  JOIN approval AS a ON a.id = g.approval_id
  JOIN pairing_may AS m ON m.pairing_id = a.pairing_id AND m.op = g.op
 WHERE NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = a.pairing_id);

-- What waits for a person, since when, until when, and what they type to answer it?
CREATE VIEW waiting AS
SELECT 'approval' AS kind, id, host, op || ' ' || args AS what, asked_at, expires_at,
       'bastion approve ' || id AS answer
  FROM open_approvals
UNION ALL
SELECT 'pairing', id, host, 'the word of the anchor', since, NULL, 'bastion pairings show ' || host
  FROM pairing_status WHERE state = 'pending'
UNION ALL
SELECT 'folder', id, host, 'uid ' || uid || ' shares ' || root, asked_at, expires_at,
       'bastion context allow ' || id
  FROM open_context_asks
UNION ALL
SELECT 'invitation', id, NULL, 'the box ' || box_name || ' has not come yet', created_at, expires_at,
       'on the box: bastion pair CODE'
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, asked_at, expires_at,
       'bastion sql -w --amendment ' || id || ' --signature FILE'
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms();

-- What ran in the last hour, how it ended, and who approved it? Older ones are in run_history.
CREATE VIEW recent_runs AS
SELECT r.id, r.queued_at, r.host, r.op, r.args, r.state, r.exit_code,
       r.finished_at - r.queued_at AS took_ms, r.approved_by, r.approved_with, r.grant_id
  FROM run_history AS r WHERE r.queued_at > now_ms() - 3600000;

-- What was refused, why, and what would help?
CREATE VIEW refused_why AS
SELECT r.id, r.at, p.host_name AS host, r.surface, r.asked, r.code, r.why, f.advice
  FROM refused AS r
  LEFT JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN refusal AS f ON f.code = r.code;

-- What holds a lock: leases, the one daemon, runs that fill a place? alive is 0 where its process is dead.
CREATE VIEW held_locks AS
SELECT 'lease' AS kind, l.name, p.program AS holder, p.pid,
       process_alive(p.boot_id, p.pid, p.start_ticks) AS alive, NULL AS since_at, l.expires_at
  FROM lease AS l JOIN process AS p ON p.id = l.process_id
UNION ALL
SELECT 'instance', i.role || ' ' || i.state, p.program, p.pid,
       process_alive(p.boot_id, p.pid, p.start_ticks), i.started_at, NULL
  FROM instance AS i JOIN process AS p ON p.id = i.process_id
 WHERE i.state IN ('starting', 'ready', 'draining')
UNION ALL
SELECT 'run', r.op || ' ' || r.args, r.host, NULL, NULL, coalesce(r.started_at, r.queued_at), NULL
  FROM live_runs AS r
UNION ALL
SELECT 'walk', 'observe:folders of run ' || w.op_run_id, NULL, NULL, NULL, r.started_at, NULL
  FROM folder_walk AS w JOIN op_run AS r ON r.id = w.op_run_id WHERE w.state = 'stuck';

-- What is about to end by itself, first things first?
CREATE VIEW expiring AS
SELECT 'grant' AS kind, id, host AS name, op || ' ' || args AS what, expires_at FROM live_grants
UNION ALL
SELECT 'approval', id, host, op || ' ' || args, expires_at FROM open_approvals
UNION ALL
SELECT 'folder', id, host, 'uid ' || uid || ' shares ' || root, expires_at FROM open_context_asks
UNION ALL
SELECT 'pairing', a.pairing_id, p.host_name, 'the word of the anchor', a.approved_until
  FROM approved_pairings AS a JOIN pairing AS p ON p.id = a.pairing_id
UNION ALL
SELECT 'invitation', id, box_name, 'a pairing code', expires_at
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, expires_at
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms()
UNION ALL
SELECT 'remote', id, name, 'a secret of another machine', expires_at
  FROM remote_credential WHERE state = 'active' AND expires_at > now_ms()
UNION ALL
SELECT 'lease', NULL, name, 'held', expires_at
  FROM lease WHERE process_id IS NOT NULL AND expires_at > now_ms();

-- Where did a run come from: who asked, who approved it when and with what, and how the Host came here?
CREATE VIEW run_origin AS
SELECT r.id, r.op, r.args, r.queued_at, p.host_name AS asked_by, r.grant_id, u.n AS use_of_grant,
       g.approval_id, a.asked_at AS question_at, a.decided_by AS approved_by, a.decided_by_uid,
       a.decided_at AS approved_at, f.kind AS factor, f.label AS approved_with,
       f.enrolled_at AS factor_enrolled_at, p.since AS host_paired_at
  FROM op_run AS r
  JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN grant AS g ON g.id = r.grant_id
  LEFT JOIN grant_use AS u ON u.grant_id = r.grant_id AND u.op_run_id = r.id
  LEFT JOIN approval AS a ON a.id = g.approval_id
  LEFT JOIN factor AS f ON f.id = g.factor_id;

-- Where did a row come from, and who moved it since? Ask it with entity and entity_id.
CREATE VIEW row_origin AS
SELECT b.entity, b.entity_id, b.seq AS born_seq, b.at AS born_at, b.who AS born_by,
       b.action AS born_as, b.pairing AS host, l.at AS moved_at, l.who AS moved_by, l.action AS state,
       (SELECT count(*) FROM audit AS c
         WHERE c.entity = b.entity AND c.entity_id = b.entity_id) AS audit_rows
  FROM audit AS b
  JOIN audit AS l ON l.seq = (SELECT max(m.seq) FROM audit AS m
                               WHERE m.entity = b.entity AND m.entity_id = b.entity_id)
 WHERE b.seq = (SELECT min(m.seq) FROM audit AS m
                 WHERE m.entity = b.entity AND m.entity_id = b.entity_id);
