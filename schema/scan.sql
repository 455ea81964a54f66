-- scan.sql: what a box that observes tells of its agents, and of the tool servers that they declare.

-- One look by a process of the worker: at the files in which clients declare tool servers, or at the
-- processes that run. At most one of a kind is under way, also where it hangs.
CREATE TABLE agent_scan (
    id       INTEGER PRIMARY KEY,
    kind     TEXT    NOT NULL CHECK (kind IN ('declared', 'processes')),
    state    TEXT    NOT NULL DEFAULT 'reading'
             CHECK (state IN ('reading', 'stuck', 'done', 'failed', 'dropped', 'lost')),
    of_id    INTEGER,                       -- the declarations that the processes are compared with
    dropped  INTEGER NOT NULL DEFAULT 0 CHECK (dropped IN (0, 1)),  -- nobody wants its result any more
    began_at INTEGER NOT NULL,
    ended_at INTEGER,
    result   TEXT    CHECK (result IS NULL OR json_valid(result) AND length(CAST(result AS BLOB)) <= 16777216),
    CHECK (of_id IS NULL OR kind = 'processes'),
    CHECK ((ended_at IS NULL) = (state IN ('reading', 'stuck'))),
    CHECK ((result IS NOT NULL) = (state = 'done'))
) STRICT;

CREATE UNIQUE INDEX agent_scan_one ON agent_scan (kind) WHERE state IN ('reading', 'stuck');

-- The last complete reading of declarations, whatever became of those after it.
CREATE VIEW agent_declared AS
SELECT * FROM agent_scan WHERE kind = 'declared' AND state = 'done' ORDER BY id DESC LIMIT 1;

-- The last look at the processes that is over or hangs: only where that is done may anything be said.
CREATE VIEW agent_seen AS
SELECT * FROM agent_scan WHERE kind = 'processes' AND state NOT IN ('reading', 'dropped')
 ORDER BY id DESC LIMIT 1;

-- When each kind is to be looked at next: declarations when what was read is old, processes as often
-- as a beat goes out, and at once where there is something new to compare them with.
CREATE VIEW agent_scan_due AS
SELECT k.kind,
       CASE WHEN n.id IS NULL OR n.state = 'dropped' THEN 0
            WHEN n.state <> 'done'
            THEN n.began_at + (SELECT value FROM setting WHERE name = 'beat.every_ms')
            WHEN k.kind = 'declared'
            THEN n.ended_at + (SELECT value FROM setting WHERE name = 'agents.keep_ms')
            WHEN n.of_id IS NOT (SELECT id FROM agent_declared) THEN 0
            ELSE n.began_at + (SELECT value FROM setting WHERE name = 'beat.every_ms') END AS at
  FROM (SELECT 'declared' AS kind UNION ALL SELECT 'processes') AS k
  LEFT JOIN agent_scan AS n ON n.id = (SELECT max(id) FROM agent_scan WHERE kind = k.kind)
 WHERE (SELECT value FROM setting WHERE name = 'agents.observe') = 1
   AND EXISTS (SELECT 1 FROM pairing_status WHERE active)
   AND NOT EXISTS (SELECT 1 FROM agent_scan WHERE kind = k.kind AND state IN ('reading', 'stuck'));

CREATE TRIGGER agent_scan_born BEFORE INSERT ON agent_scan
BEGIN
    SELECT RAISE(ABORT, 'agents.due|this machine does not observe, or has looked not long ago, or still looks')
     WHERE NOT EXISTS (SELECT 1 FROM agent_scan_due WHERE kind = NEW.kind AND at <= now_ms());
    SELECT RAISE(ABORT, 'agents.transition|a look begins as reading') WHERE NEW.state <> 'reading';
END;

-- What was seen before is kept as long as something may be said by it.
CREATE TRIGGER agent_scan_replaces AFTER INSERT ON agent_scan
BEGIN
    DELETE FROM agent_scan
     WHERE kind = NEW.kind AND id < NEW.id
       AND id IS NOT (SELECT max(id) FROM agent_scan WHERE kind = NEW.kind AND state = 'done')
       AND id IS NOT (SELECT max(id) FROM agent_scan WHERE kind = NEW.kind AND state <> 'reading');
END;

CREATE TRIGGER agent_scan_moves BEFORE UPDATE ON agent_scan
BEGIN
    SELECT RAISE(ABORT, 'agents.transition|a look cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'agent_scan' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'agents.fixed|what a look has seen is not edited')
     WHERE OLD.ended_at IS NOT NULL OR NEW.id IS NOT OLD.id OR NEW.kind IS NOT OLD.kind
        OR NEW.of_id IS NOT OLD.of_id OR NEW.began_at IS NOT OLD.began_at OR NEW.dropped < OLD.dropped;
    SELECT RAISE(ABORT, 'agents.fixed|nobody wants the result of this look any more')
     WHERE OLD.dropped AND NEW.state = 'done';
END;

-- The first that is known is told at once.
CREATE TRIGGER agent_scan_tells AFTER UPDATE OF state ON agent_scan
WHEN NEW.state = 'done'
 AND (SELECT count(*) FROM agent_scan WHERE kind = NEW.kind AND state = 'done') = 1
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
END;

-- Turning it on or off forgets all that was seen; what is being read is of no use either.
CREATE TRIGGER agent_scan_resets AFTER UPDATE OF value ON setting
WHEN NEW.name = 'agents.observe' AND NEW.value IS NOT OLD.value
BEGIN
    DELETE FROM agent_scan WHERE ended_at IS NOT NULL;
    UPDATE agent_scan SET dropped = 1;
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE active
        ON CONFLICT DO NOTHING;
END;

-- A worker's looks end with it.
CREATE TRIGGER agent_scan_ends_with_worker AFTER UPDATE OF ended_at ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE agent_scan SET state = iif(dropped, 'dropped', 'lost'), ended_at = NEW.ended_at
     WHERE ended_at IS NULL;
END;

-- Each declared server, with what is known of its running; then those that run and that no file declares.
CREATE VIEW agent_server AS
WITH seen AS (SELECT p.result FROM agent_seen AS p JOIN agent_declared AS d ON d.id = p.of_id
               WHERE p.state = 'done')
SELECT v.key AS ord,
       json_set(v.value,
                '$.state', CASE WHEN v.value ->> '$.transport' <> 'stdio' OR v.value ->> '$.what' = '***'
                                  OR NOT EXISTS (SELECT 1 FROM seen) THEN 'unknown'
                                WHEN r.value IS NULL THEN 'declared_not_running'
                                ELSE 'running' END,
                '$.pid', r.value ->> 1) AS server
  FROM agent_declared AS d, json_each(d.result, '$.servers') AS v
  LEFT JOIN (SELECT j.value FROM seen, json_each(seen.result, '$.running') AS j) AS r
    ON r.value ->> 0 = v.key
UNION ALL
SELECT 1000000 + u.key, json_set(u.value, '$.state', 'running_not_declared')
  FROM seen, agent_declared AS d, json_each(seen.result, '$.undeclared') AS u
 WHERE d.result ->> '$.timed_out' = 0 AND d.result ->> '$.truncated' = 0 AND d.result ->> '$.unread' = 0;

-- What a beat says of them: one row where this machine observes, with no agents where nobody knows.
-- Each list has an eighth of the shortest beat that a Host may take.
CREATE VIEW agent_beat AS
WITH room (bytes) AS (SELECT low / 8 FROM setting WHERE name = 'beat.bytes'),
     servers AS (SELECT ord, server, sum(length(CAST(server AS BLOB)) + 1) OVER (ORDER BY ord) AS long
                   FROM agent_server),
     agents AS (SELECT j.key AS ord, j.value AS agent,
                       sum(length(CAST(j.value AS BLOB)) + 1) OVER (ORDER BY j.key) AS long
                  FROM agent_seen AS p, json_each(p.result, '$.agents') AS j),
     last AS (SELECT max(id) AS id FROM agent_scan WHERE kind = 'declared' AND state NOT IN ('reading', 'dropped'))
SELECT json_patch(
       json_object('tool_servers', (SELECT json_group_array(json(server)) FROM servers, room WHERE long <= bytes),
                   'tool_server_scan', json_object(
                   'supported', json('true'),
                   'process_scan', coalesce((SELECT iif(state = 'done', 'ok', 'failed') FROM agent_seen), 'pending'),
                   'timed_out', json(iif((SELECT id FROM agent_declared) IS NOT (SELECT id FROM last)
                                      OR NOT EXISTS (SELECT 1 FROM agent_declared)
                                      OR (SELECT result ->> '$.timed_out' FROM agent_declared), 'true', 'false')),
                   'truncated', json(iif((SELECT result ->> '$.truncated' FROM agent_declared)
                                      OR EXISTS (SELECT 1 FROM servers, room WHERE long > bytes), 'true', 'false')),
                   'unread', coalesce((SELECT result ->> '$.unread' FROM agent_declared), 0),
                   'read_at', (SELECT ended_at FROM agent_declared))),
       CASE WHEN (SELECT state FROM agent_seen) = 'done'
            THEN json_object('agents', (SELECT json_group_array(json(agent)) FROM agents, room WHERE long <= bytes),
                             'agents_left_out', (SELECT count(*) FROM agents, room WHERE long > bytes),
                             'agents_at', (SELECT ended_at FROM agent_seen))
            ELSE '{}' END) AS said
 WHERE (SELECT value FROM setting WHERE name = 'agents.observe') = 1;

-- At a Host: what its boxes told last, as people ask for it.
CREATE VIEW box_agents AS
SELECT b.name AS box, a.value ->> '$.agent' AS agent, a.value ->> '$.user' AS user, a.value ->> '$.pid' AS pid,
       a.value ->> '$.owner_class' AS owner_class, a.value ->> '$.command' AS command, h.at AS heard_at
  FROM host_beat AS h JOIN host_box AS b ON b.id = h.box_id, json_each(h.beat, '$.agents') AS a
 WHERE a.type = 'object';

-- The tool servers that are declared at the boxes of this Host, as their last beat told.
CREATE VIEW box_tool_servers AS
SELECT b.name AS box, t.value ->> '$.user' AS user, t.value ->> '$.client' AS client, t.value ->> '$.name' AS name,
       t.value ->> '$.what' AS what, t.value ->> '$.state' AS state, t.value ->> '$.pid' AS pid,
       h.beat ->> '$.tool_server_scan.timed_out' AS timed_out, h.at AS heard_at
  FROM host_beat AS h JOIN host_box AS b ON b.id = h.box_id, json_each(h.beat, '$.tool_servers') AS t
 WHERE t.type = 'object';
