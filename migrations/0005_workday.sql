-- Workers on a lane, models asked by name, manifests that reach out; states that end are kept their time and no longer.

DROP TRIGGER host_beat_born;
DROP TRIGGER egress_flow_host_may;
DROP TRIGGER egress_flow_ruled;
DROP TRIGGER egress_flow_vetted;
DROP VIEW beat;
DROP VIEW egress_ruling;
DROP VIEW boxes;
DROP VIEW egress_request_ruling;

CREATE TRIGGER host_beat_born BEFORE INSERT ON host_beat
BEGIN
    SELECT RAISE(ABORT, 'beat.size|a beat is longer than the setting beat.bytes allows')
     WHERE length(CAST(NEW.beat AS BLOB)) > (SELECT value FROM setting WHERE name = 'beat.bytes');
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    -- (A newer box may say more: what is not named here is kept and not looked at.)
    SELECT RAISE(ABORT, 'beat.form|this is no beat of a box')
     WHERE CASE WHEN json_valid(NEW.beat) THEN json_type(NEW.beat) IS NOT 'object'
                  OR json_type(NEW.beat, '$.name') IS NOT 'text'
                  OR length(NEW.beat ->> '$.name') NOT BETWEEN 1 AND 64
                  OR json_type(NEW.beat, '$.version') IS NOT 'text'
                  OR length(NEW.beat ->> '$.version') > 64
                  OR json_type(NEW.beat, '$.platform') IS NOT 'text'
                  OR length(NEW.beat ->> '$.platform') > 128
                  OR (NEW.beat ->> '$.state') IS NOT 'active'
                  OR json_type(NEW.beat, '$.enforcing') IS NOT 'object'
                  OR coalesce(json_type(NEW.beat, '$.endpoint_save_pending'), '') NOT IN ('true', 'false')
                  OR json_type(NEW.beat, '$.orders') IS NOT 'array'
                  OR coalesce(json_type(NEW.beat, '$.serves'), 'array') <> 'array'
                  OR json_array_length(NEW.beat, '$.serves') > 16
                ELSE 1 END;
    SELECT RAISE(ABORT, 'beat.form|a lane in this beat is none')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.beat, '$.serves')
                    WHERE type <> 'text' OR value GLOB '*[^a-z_]*' OR length(value) NOT BETWEEN 1 AND 32);
    SELECT RAISE(ABORT, 'beat.form|a result in this beat is none')
     WHERE json_array_length(NEW.beat, '$.orders') > (SELECT high FROM setting WHERE name = 'order.batch')
        OR EXISTS (SELECT 1 FROM json_each(NEW.beat, '$.orders') AS o
                    WHERE CASE WHEN o.type <> 'object' THEN 1
                               ELSE json_type(o.value, '$.order') IS NOT 'text'
                                 OR length(o.value ->> '$.order') <> 32
                                 OR coalesce(o.value ->> '$.state', '')
                                    NOT IN ('done', 'refused', 'failed', 'lost')
                                 OR json_type(o.value, '$.result') IS NOT 'object'
                                 OR length(o.value -> '$.result') > 65536 END);
    DELETE FROM host_beat WHERE box_id = NEW.box_id;
END;

CREATE VIEW beat AS
SELECT s.id AS pairing_id,
       json_patch(json_object('name', b.name, 'state', s.state,
                   'caps', json(coalesce(s.caps, '[]')),
                   'enforcing', json((SELECT report FROM enforcing)),
                   'endpoint_save_pending',
                   json(iif(EXISTS (SELECT 1 FROM rotation_endpoint WHERE pairing_id = s.id),
                            'true', 'false')),
                   'orders',
                   (SELECT json_group_array(json_object('order', nonce, 'kind', kind, 'state', state,
                                                        'result', json(result)))
                      FROM (SELECT *, sum(length(result)) OVER (ORDER BY id) AS long
                              FROM untold_result WHERE pairing_id = s.id ORDER BY id
                             LIMIT (SELECT value FROM setting WHERE name = 'order.batch'))
                     WHERE long <= (SELECT low / 2 FROM setting WHERE name = 'beat.bytes'))),
                  json_patch(coalesce((SELECT said FROM agent_beat), '{}'),
                             iif(s.transport = 'unix', '{}', json_object('serves',
                                 (SELECT json_group_array(lane)
                                    FROM (SELECT lane FROM pairing_serves WHERE pairing_id = s.id ORDER BY lane)))))) AS body
  FROM pairing_status AS s JOIN box AS b
 WHERE s.active;

CREATE VIEW egress_ruling AS
SELECT f.id,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied'
                    WHEN count(*) = 0 AND NOT EXISTS (SELECT 1 FROM egress_held_by_grant WHERE flow_id = f.id)
                    THEN 'unknown' END
          FROM egress_rule AS r
         WHERE r.state = 'active'
           AND r.suffix IN (f.host, '*', host_tail(f.host, 1), host_tail(f.host, 2), host_tail(f.host, 3),
                            host_tail(f.host, 4), host_tail(f.host, 5), host_tail(f.host, 6),
                            host_tail(f.host, 7), host_tail(f.host, 8))
           AND r.port IN (0, f.port)
           AND (r.run_id IS NULL OR r.run_id = f.run_id)
           AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
                OR (r.uid IS NULL AND r.pairing_id IS NULL
                    AND (f.pairing_id IS NULL OR r.verdict = 'deny')))) AS held
  FROM egress_flow AS f;

CREATE TRIGGER egress_flow_host_may INSTEAD OF INSERT ON egress_flow_of_host
BEGIN
    SELECT CASE
           WHEN (SELECT active FROM pairing_status WHERE id = NEW.pairing_id) IS NOT 1
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN NOT EXISTS (SELECT 1 FROM egress_hosts WHERE pairing_id = NEW.pairing_id)
           THEN RAISE(ABORT, 'egress.capability|this Host has no capability egress here, and no grant')
           END;
END;

CREATE TRIGGER egress_flow_ruled AFTER INSERT ON egress_flow
WHEN NEW.state = 'asked'
 AND NOT EXISTS (SELECT 1 FROM egress_way WHERE host = NEW.host AND port = NEW.port
                    AND uid = coalesce(NEW.uid, -1) AND pairing_id = coalesce(NEW.pairing_id, -1)
                    AND run_id = coalesce(NEW.run_id, -1))
BEGIN
    INSERT INTO egress_flow_asks (id, pairing_id, host, port)
    SELECT NEW.id, NEW.pairing_id, NEW.host, NEW.port WHERE NEW.pairing_id IS NOT NULL;
    SELECT CASE held
           WHEN 'denied' THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN 'unknown' THEN RAISE(ABORT, 'egress.unknown|no rule allows this')
           END
      FROM egress_ruling WHERE id = NEW.id;
END;

CREATE TRIGGER egress_flow_vetted INSTEAD OF INSERT ON egress_flow_unjudged
BEGIN
    INSERT INTO egress_flow_asks (id, pairing_id, host, port)
    SELECT NEW.id, NEW.pairing_id, NEW.host, NEW.port WHERE NEW.pairing_id IS NOT NULL;
    SELECT CASE held
           WHEN 'denied' THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN 'unknown' THEN RAISE(ABORT, 'egress.unknown|no rule allows this')
           END
      FROM egress_ruling WHERE id = NEW.id;
    SELECT CASE held
           WHEN 'own_unknown'
           THEN RAISE(ABORT, 'egress.own_unknown|cannot tell whether that is itself: the kernel does not say what this machine''s addresses are')
           WHEN 'resolve'
           THEN RAISE(ABORT, 'egress.resolve|could not resolve that name to a sensible number of addresses')
           WHEN 'address'
           THEN RAISE(ABORT, 'egress.address|an address of that name is none')
           WHEN 'own'
           THEN RAISE(ABORT, 'egress.own|that is this machine')
           WHEN 'internal'
           THEN RAISE(ABORT, 'egress.internal|that is no public address')
           END
      FROM egress_vetting WHERE id = NEW.id;
    -- (What a grant allows is judged each time: it is used up, and runs out.)
    INSERT INTO egress_way (host, port, uid, pairing_id, run_id, addresses)
    SELECT NEW.host, NEW.port, coalesce(NEW.uid, -1), coalesce(NEW.pairing_id, -1),
           coalesce(NEW.run_id, -1), NEW.addresses
     WHERE NEW.pairing_id IS NULL OR NOT EXISTS (SELECT 1 FROM egress_use WHERE flow_id = NEW.id);
    DELETE FROM egress_way
     WHERE id <= (SELECT max(id) FROM egress_way) - (SELECT value FROM setting WHERE name = 'egress.ways');
END;

CREATE TABLE egress_use (
    flow_id   INTEGER PRIMARY KEY REFERENCES egress_flow (id) ON DELETE CASCADE,
    op_run_id INTEGER NOT NULL UNIQUE REFERENCES op_run (id)
) STRICT;

CREATE TRIGGER egress_use_born BEFORE INSERT ON egress_use
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a connection stands by the use that was made for it')
     WHERE NOT EXISTS (SELECT 1 FROM egress_flow AS f JOIN op_run AS r ON r.id = NEW.op_run_id
                        WHERE f.id = NEW.flow_id AND r.pairing_id = f.pairing_id AND r.op = 'egress:reach'
                          AND r.args = json_array(f.host, CAST(f.port AS TEXT)));
END;

CREATE TRIGGER egress_use_fixed BEFORE UPDATE ON egress_use
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a connection stands by the use that was made for it');
END;

CREATE TRIGGER egress_use_stays BEFORE DELETE ON egress_use
WHEN EXISTS (SELECT 1 FROM egress_flow WHERE id = OLD.flow_id)
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a connection stands by the use that was made for it');
END;

CREATE VIEW egress_held_by_grant AS
SELECT u.flow_id
  FROM egress_use AS u JOIN op_run AS r ON r.id = u.op_run_id JOIN grant AS g ON g.id = r.grant_id
 WHERE g.state IN ('active', 'spent') AND g.expires_at > now_ms();

CREATE VIEW egress_grants_mark AS
SELECT count(*) AS n, coalesce(max(ended_at), 0) AS last FROM grant WHERE op = 'egress:reach';

CREATE VIEW egress_covered AS
SELECT f.id AS flow_id, g.id AS grant_id, g.bounds IS NOT NULL AS bounded, g.expires_at,
       iif(g.bounds IS NULL, 0, coalesce((SELECT at FROM grant_next WHERE id = g.id), 9e18)) AS next_at
  FROM egress_flow AS f
  JOIN grant AS g ON g.pairing_id = f.pairing_id AND g.op = 'egress:reach' AND g.state = 'active'
   AND g.expires_at > now_ms()
 WHERE g.args = json_array(f.host, CAST(f.port AS TEXT))
    OR (g.bounds IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM grant_bound AS b WHERE b.grant_id = g.id
              AND NOT CASE b.rule
                  WHEN 'in' THEN coalesce(iif(b.at = 0, f.host, CAST(f.port AS TEXT)) IN
                       (SELECT CAST(value AS TEXT) FROM json_each(b.bound)), 0)
                  ELSE bound_holds(b.rule, b.bound, iif(b.at = 0, f.host, CAST(f.port AS TEXT))) END));

CREATE VIEW egress_flow_asks AS SELECT id, pairing_id, host, port FROM egress_flow;

CREATE TRIGGER egress_flow_pays INSTEAD OF INSERT ON egress_flow_asks
WHEN (SELECT held FROM egress_ruling WHERE id = NEW.id) = 'unknown'
BEGIN
    SELECT RAISE(ABORT, 'egress.ungranted|no rule and no grant of this Host covers this')
     WHERE NOT EXISTS (SELECT 1 FROM egress_covered WHERE flow_id = NEW.id);
    INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)
    VALUES (NEW.pairing_id, 'egress:reach', json_array(NEW.host, CAST(NEW.port AS TEXT)),
            lower(hex(randomblob(16))),
            (SELECT grant_id FROM egress_covered WHERE flow_id = NEW.id
              ORDER BY bounded, next_at, expires_at, grant_id LIMIT 1),
            now_ms());
    INSERT INTO egress_use (flow_id, op_run_id) VALUES (NEW.id, (SELECT max(id) FROM op_run));
    -- Nothing is to be run for it: the connection is what was asked for.
    UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = (SELECT max(id) FROM op_run);
    UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms()
     WHERE id = (SELECT max(id) FROM op_run);
END;

CREATE VIEW egress_hosts AS
SELECT s.id AS pairing_id
  FROM pairing_status AS s
 WHERE s.active
   AND (EXISTS (SELECT 1 FROM json_each(s.caps) AS c WHERE c.value = 'egress')
        OR EXISTS (SELECT 1 FROM grant AS g WHERE g.pairing_id = s.id AND g.op = 'egress:reach'
                      AND g.state = 'active' AND g.expires_at > now_ms()));

CREATE VIEW pairing_parks AS
SELECT r.pairing_id, r.host, r.endpoints, r.identity
  FROM pairing_reached AS r JOIN egress_hosts AS h ON h.pairing_id = r.pairing_id
 WHERE r.identity IS NOT NULL;

CREATE TABLE egress_parked (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    slot       INTEGER NOT NULL CHECK (slot BETWEEN 0 AND 63),
    state      TEXT    NOT NULL DEFAULT 'dialling'
               CHECK (state IN ('dialling', 'parked') OR state IN ('serving', 'waiting')),
    changed_at INTEGER NOT NULL,
    next_at    INTEGER,                                        -- of one that waits: not before
    taken      INTEGER NOT NULL DEFAULT 0 CHECK (taken >= 0),  -- connections that went somewhere
    refused    INTEGER NOT NULL DEFAULT 0 CHECK (refused >= 0),-- and those that did not
    endpoint   TEXT    CHECK (length(endpoint) <= 300),        -- that is dialled, or was reached last
    code       TEXT    CHECK (length(code) <= 64),             -- why it was lost or not made
    why        TEXT    CHECK (length(why) <= 512),
    UNIQUE (pairing_id, slot),
    CHECK ((state = 'waiting') = (next_at IS NOT NULL))
) STRICT;

CREATE TRIGGER egress_parked_born BEFORE INSERT ON egress_parked
BEGIN
    SELECT RAISE(ABORT, 'parked.transition|a connection to a Host begins with dialling')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'egress_parked' AND from_state = '' AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'parked.unserved|this Host may not use the internet lane, or is not reached over a network')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_parks WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'parked.slots|a Host has as many parked connections as the setting parked.slots says')
     WHERE NEW.slot >= (SELECT value FROM setting WHERE name = 'parked.slots');
END;

CREATE TRIGGER egress_parked_moves BEFORE UPDATE ON egress_parked
BEGIN
    SELECT CASE
           WHEN NEW.pairing_id IS NOT OLD.pairing_id OR NEW.slot IS NOT OLD.slot
             OR NEW.taken < OLD.taken OR NEW.refused < OLD.refused
             OR NOT EXISTS (SELECT 1 FROM state_rule
                WHERE entity = 'egress_parked' AND from_state = OLD.state AND to_state = NEW.state)
           THEN RAISE(ABORT, 'parked.transition|a parked connection cannot make this move')
           WHEN NEW.state <> 'waiting'
            AND NOT EXISTS (SELECT 1 FROM pairing_parks WHERE pairing_id = NEW.pairing_id)
           THEN RAISE(ABORT, 'parked.unserved|this Host may not use the internet lane, or is not reached over a network')
           WHEN OLD.state = 'waiting' AND now_ms() < OLD.next_at
           THEN RAISE(ABORT, 'parked.early|a connection that waits is not dialled before its time')
           WHEN NEW.state = 'dialling' AND OLD.state <> 'waiting' AND NEW.taken = OLD.taken
           THEN RAISE(ABORT, 'parked.early|a connection that was of no use waits')
           WHEN NEW.state = 'waiting'
            AND NEW.next_at < now_ms() + (SELECT value FROM setting
                 WHERE name = iif(OLD.state = 'dialling', 'parked.retry_ms', 'parked.refused_ms'))
           THEN RAISE(ABORT, 'parked.early|a connection waits as long as parked.retry_ms or parked.refused_ms say')
           END;
END;

CREATE TRIGGER egress_parked_ends AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    DELETE FROM egress_parked WHERE pairing_id = NEW.id;
END;

CREATE VIEW pairing_serves AS
SELECT s.id AS pairing_id, 'ops' AS lane FROM pairing_status AS s WHERE s.active AND s.transport <> 'unix'
 UNION ALL
SELECT DISTINCT w.pairing_id, 'egress'
  FROM egress_parked AS w JOIN pairing_parks AS p ON p.pairing_id = w.pairing_id
 WHERE w.state IN ('parked', 'serving') AND NOT EXISTS (SELECT 1 FROM lines_lost);

CREATE TRIGGER egress_parked_tells AFTER UPDATE OF state ON egress_parked
WHEN (NEW.state IN ('parked', 'serving')) <> (OLD.state IN ('parked', 'serving'))
 AND NOT EXISTS (SELECT 1 FROM egress_parked WHERE pairing_id = NEW.pairing_id AND slot <> NEW.slot
                    AND state IN ('parked', 'serving'))
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE id = NEW.pairing_id AND active
        ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER egress_parked_tells_end AFTER DELETE ON egress_parked
WHEN OLD.state IN ('parked', 'serving')
 AND NOT EXISTS (SELECT 1 FROM egress_parked WHERE pairing_id = OLD.pairing_id AND state IN ('parked', 'serving'))
BEGIN
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE id = OLD.pairing_id AND active
        ON CONFLICT DO NOTHING;
END;

CREATE VIEW egress_parks AS
SELECT p.host_name AS host, w.slot, iif(EXISTS (SELECT 1 FROM lines_lost), 'lost', w.state) AS state, w.changed_at,
       w.next_at, w.taken, w.refused, w.endpoint, w.code, w.why
  FROM egress_parked AS w JOIN pairing AS p ON p.id = w.pairing_id;

CREATE INDEX grant_of_egress ON grant (pairing_id, ended_at) WHERE op = 'egress:reach';

CREATE VIEW boxes AS
SELECT b.id, b.name, b.state,
       CASE WHEN b.state = 'gone' THEN 'gone'
            WHEN w.state = 'behind' THEN 'rolled back'
            WHEN w.state = 'forked' THEN 'forked'
            WHEN (SELECT up FROM box_lines WHERE id = b.id) > 0 THEN 'connected'
            WHEN b.heard_at IS NULL THEN 'not heard yet'
            WHEN b.heard_at < now_ms() - (SELECT value FROM setting WHERE name = 'box.silent_ms')
            THEN 'silent' ELSE 'heard' END AS status,
       b.paired_at, b.heard_at, b.transport,
       coalesce(b.lane, b.endpoint) AS lane,
       (SELECT count(*) FROM call AS c WHERE c.box_id = b.id) AS asks,
       CASE w.state WHEN 'followed' THEN printf('fits, %d rows', w.size)
                    WHEN 'behind' THEN 'ROLLED BACK: ' || w.why
                    WHEN 'forked' THEN 'FORKED: ' || w.why
                    WHEN 'accepted' THEN 'begins anew on a person''s word'
                    ELSE 'none shown yet' END AS audit,
       CASE WHEN b.heard_at IS NULL THEN 'never'
            WHEN now_ms() - b.heard_at < 120000 THEN max((now_ms() - b.heard_at) / 1000, 0) || ' s ago'
            WHEN now_ms() - b.heard_at < 7200000 THEN (now_ms() - b.heard_at) / 60000 || ' min ago'
            WHEN now_ms() - b.heard_at < 172800000 THEN (now_ms() - b.heard_at) / 3600000 || ' h ago'
            ELSE (now_ms() - b.heard_at) / 86400000 || ' d ago' END AS heard,
       (SELECT (SELECT group_concat(value, ', ') FROM json_each(h.beat, '$.serves'))
          FROM host_beat AS h WHERE h.box_id = b.id) AS serves   -- lanes, as it says; NULL: it does not say
  FROM host_box AS b LEFT JOIN box_witness AS w ON w.box_id = b.id;

CREATE TABLE egress_port (
    box_id  INTEGER PRIMARY KEY REFERENCES host_box (id),
    port    INTEGER NOT NULL UNIQUE CHECK (port BETWEEN 1 AND 65535),
    made_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER egress_port_born BEFORE INSERT ON egress_port
BEGIN
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'parked.near|a box on the same machine parks nothing here: its lane has sockets of its own')
     WHERE (SELECT transport FROM host_box WHERE id = NEW.box_id) = 'unix';
    SELECT RAISE(ABORT, 'parked.port|another box has this port')
     WHERE EXISTS (SELECT 1 FROM egress_port WHERE port = NEW.port AND box_id <> NEW.box_id);
    DELETE FROM egress_port WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER egress_port_no_update BEFORE UPDATE ON egress_port
BEGIN
    SELECT RAISE(ABORT, 'parked.fixed|a port is replaced, never edited');
END;

CREATE TRIGGER egress_port_audit_birth AFTER INSERT ON egress_port
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_port', NEW.box_id, 'added', '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'port', NEW.port));
END;

CREATE TRIGGER egress_port_audit_end AFTER DELETE ON egress_port
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_port', OLD.box_id, 'removed', '',
            json_object('box', (SELECT name FROM host_box WHERE id = OLD.box_id), 'port', OLD.port));
END;

CREATE TRIGGER egress_port_ends AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    DELETE FROM egress_port WHERE box_id = NEW.id;
END;

CREATE TABLE box_parked (
    box_id     INTEGER PRIMARY KEY REFERENCES host_box (id),
    parked     INTEGER NOT NULL DEFAULT 0 CHECK (parked >= 0),
    busy       INTEGER NOT NULL DEFAULT 0 CHECK (busy >= 0),
    waiting    INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),  -- connections that none was free for yet
    changed_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER box_parked_born BEFORE INSERT ON box_parked
BEGIN
    SELECT RAISE(ABORT, 'box.gone|the box is no longer paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
END;

CREATE TRIGGER box_parked_ends AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    DELETE FROM box_parked WHERE box_id = NEW.id;
END;

CREATE VIEW egress_ports AS
SELECT b.id AS box_id, b.name AS box, p.port,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.parked, 0)) AS parked,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.busy, 0)) AS busy,
       iif(EXISTS (SELECT 1 FROM lines_lost), 0, coalesce(w.waiting, 0)) AS waiting
  FROM host_box AS b LEFT JOIN egress_port AS p ON p.box_id = b.id LEFT JOIN box_parked AS w ON w.box_id = b.id
 WHERE b.state = 'active' AND (p.port IS NOT NULL OR w.parked > 0 OR w.busy > 0);

CREATE VIEW egress_request_ruling AS
SELECT q.id, q.flow_id, q.host = f.host AND q.port = f.port AS same,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied'
                    WHEN count(*) = 0
                    THEN CASE WHEN NOT EXISTS (SELECT 1 FROM egress_held_by_grant
                                           WHERE flow_id = f.id AND q.host = f.host AND q.port = f.port)
                         THEN 'unknown' WHEN q.websocket THEN 'websocket' END
                    WHEN NOT max(CASE WHEN EXISTS (SELECT 1 FROM egress_within WHERE rule_id = r.id)
                                      THEN EXISTS (SELECT 1 FROM egress_within AS w
                                                    WHERE w.rule_id = r.id AND w.method IN ('*', q.method)
                                                      AND q.path GLOB w.path AND w.websocket >= q.websocket)
                                      ELSE q.websocket = 0 END)
                    THEN iif(q.websocket, 'websocket', 'narrower') END
          FROM egress_rule AS r
         WHERE r.state = 'active'
           AND r.suffix IN (q.host, '*', host_tail(q.host, 1), host_tail(q.host, 2), host_tail(q.host, 3),
                            host_tail(q.host, 4), host_tail(q.host, 5), host_tail(q.host, 6),
                            host_tail(q.host, 7), host_tail(q.host, 8))
           AND r.port IN (0, q.port)
           AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
                OR (r.uid IS NULL AND r.pairing_id IS NULL
                    AND (f.pairing_id IS NULL OR r.verdict = 'deny')))) AS held,
       (SELECT w.id FROM egress_within AS w JOIN egress_rule AS r ON r.id = w.rule_id
         WHERE r.state = 'active' AND w.method IN ('*', q.method) AND q.path GLOB w.path
           AND w.websocket >= q.websocket
           AND r.suffix IN (q.host, '*', host_tail(q.host, 1), host_tail(q.host, 2), host_tail(q.host, 3),
                            host_tail(q.host, 4), host_tail(q.host, 5), host_tail(q.host, 6),
                            host_tail(q.host, 7), host_tail(q.host, 8))
           AND r.port IN (0, q.port)
           AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
                OR (r.uid IS NULL AND r.pairing_id IS NULL AND f.pairing_id IS NULL))
         ORDER BY length(r.suffix) DESC, r.port DESC, r.uid IS NULL, length(w.path) DESC,
                  w.token_id IS NULL, w.id LIMIT 1) AS within_id
  FROM egress_request AS q JOIN egress_flow AS f ON f.id = q.flow_id;

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('parked.dial_ms', 25000, 'ms', 100, 600000, 'how long one endpoint of a Host may take to be reached, to park a connection there'),
    ('parked.handshake_ms', 20000, 'ms', 100, 600000, 'how long a Host may then take for TLS, and as long again to let it park'),
    ('parked.per_box', 64, 'rows', 1, 64, 'connections that a Host lets one box park'),
    ('parked.queue', 256, 'rows', 1, 65536, 'connections to the ports of boxes that wait for a parked one at once'),
    ('parked.refused_ms', 1000, 'ms', 100, 600000, 'how long one waits that carried nothing, or was lost while it was parked, before it is dialled anew'),
    ('parked.retry_ms', 3000, 'ms', 100, 600000, 'how long one waits that could not reach its Host, and up to half as long again'),
    ('parked.slots', 4, 'rows', 1, 64, 'connections that a box keeps parked with each Host, those in use among them'),
    ('parked.wait_ms', 10000, 'ms', 0, 600000, 'how long a connection to the port of a box waits for a parked one');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('egress.ungranted', 126, 403, 'ask for it on the Host: bastion on BOX egress:reach HOST PORT --anew'),
    ('parked.busy', 75, 503, 'try again, or have the box keep more: bastion settings set parked.slots'),
    ('parked.early', 1, 500, 'this is a fault in bastion: please report it'),
    ('parked.fixed', 126, 409, 'see bastion host egress'),
    ('parked.lane', 75, 503, 'see whether the daemon of the box is well: bastion doctor'),
    ('parked.near', 126, 409, 'use the box''s own socket: bastion egress --help'),
    ('parked.none', 75, 503, 'a person at the box grants it: bastion on BOX egress:reach HOST PORT'),
    ('parked.port', 2, 409, 'choose another one, or see bastion host egress'),
    ('parked.slots', 75, 429, 'see the setting parked.slots'),
    ('parked.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('parked.unserved', 126, 403, 'see bastion pairings and bastion grants');

UPDATE refusal SET advice = 'have the anchor approve this Host for egress, or ask for a grant: bastion on BOX egress:reach HOST PORT' WHERE code = 'egress.capability';
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('egress_parked', '', 'dialling'),
    ('egress_parked', 'dialling', 'dialling'),
    ('egress_parked', 'dialling', 'parked'),
    ('egress_parked', 'dialling', 'serving'),
    ('egress_parked', 'dialling', 'waiting'),
    ('egress_parked', 'parked', 'dialling'),
    ('egress_parked', 'parked', 'serving'),
    ('egress_parked', 'parked', 'waiting'),
    ('egress_parked', 'serving', 'dialling'),
    ('egress_parked', 'serving', 'waiting'),
    ('egress_parked', 'waiting', 'dialling');

INSERT INTO op (name, usage, summary, class) VALUES
    ('egress:reach', 'HOST PORT', 'reach that place on the internet through this machine, one connection a use', 'egress');

INSERT INTO op_param (op, position, name, type, needed, low, high, pattern, fallback, doc) VALUES
    ('egress:reach', 1, 'host', 'string', 1, 1, 253, NULL, NULL, 'the name or address of a server'),
    ('egress:reach', 2, 'port', 'integer', 1, 1, 65535, NULL, NULL, 'its TCP port');

INSERT INTO op_result (op, schema) VALUES
    ('egress:reach', '{"type":"object","properties":{"host":{"type":"string"},"port":{"type":"integer"}},"required":["host","port"]}');
