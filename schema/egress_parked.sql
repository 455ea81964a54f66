-- egress_parked.sql: Hosts reach the internet through this box: what a grant holds for a connection, and the
-- connections that the box dials to its Hosts and parks there until they have a use for one.

-- The use of a grant by which a connection of a Host stands, where no rule allows it.
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

-- Connections whose grant stands still: it may be used up, it was not taken back and has not run out.
CREATE VIEW egress_held_by_grant AS
SELECT u.flow_id
  FROM egress_use AS u JOIN op_run AS r ON r.id = u.op_run_id JOIN grant AS g ON g.id = r.grant_id
 WHERE g.state IN ('active', 'spent') AND g.expires_at > now_ms();

-- Of those under way the ones that stand by a grant no more. (What is new of them, the lane looks at. Where no grant was
-- ever given, no connection is looked at for it.)
CREATE VIEW egress_grants_mark AS
SELECT count(*) AS n, coalesce(sum(f.id), 0) AS which
  FROM egress_flow AS f JOIN egress_use AS u ON u.flow_id = f.id
 WHERE f.ended_at IS NULL AND EXISTS (SELECT 1 FROM grant WHERE op = 'egress:reach')
   AND NOT EXISTS (SELECT 1 FROM egress_held_by_grant WHERE flow_id = f.id);

-- The grants that cover where a connection wants to go, as an ask for egress:reach would find them.
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

-- A connection of a Host that no rule speaks of is an ask for egress:reach: the same triggers decide, and it
-- spends a use. One that a rule denies is denied, whatever was granted.
CREATE VIEW egress_flow_asks AS SELECT id, pairing_id, host, port FROM egress_flow;

CREATE TRIGGER egress_flow_pays INSTEAD OF INSERT ON egress_flow_asks
WHEN (SELECT held FROM egress_ruling WHERE id = NEW.id) = 'unknown'
BEGIN
    SELECT RAISE(ABORT, 'egress.ungranted|no rule and no grant of this Host covers this')
     WHERE NOT EXISTS (SELECT 1 FROM egress_covered WHERE flow_id = NEW.id);
    INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)
    VALUES (NEW.pairing_id, 'egress:reach', json_array(NEW.host, CAST(NEW.port AS TEXT)),
            nonce(),
            (SELECT grant_id FROM egress_covered WHERE flow_id = NEW.id
              ORDER BY bounded, next_at, expires_at, grant_id LIMIT 1),
            now_ms());
    INSERT INTO egress_use (flow_id, op_run_id) VALUES (NEW.id, (SELECT max(id) FROM op_run));
    -- Nothing is to be run for it: the connection is what was asked for.
    UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = (SELECT max(id) FROM op_run);
    UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms()
     WHERE id = (SELECT max(id) FROM op_run);
END;

-- The Hosts that may use the lane at all: the anchor approved them for it, or a person granted them something
-- of it.
CREATE VIEW egress_hosts AS
SELECT s.id AS pairing_id
  FROM pairing_status AS s
 WHERE s.active
   AND (EXISTS (SELECT 1 FROM json_each(s.caps) AS c WHERE c.value = 'egress')
        OR EXISTS (SELECT 1 FROM grant AS g WHERE g.pairing_id = s.id AND g.op = 'egress:reach'
                      AND g.state = 'active' AND g.expires_at > now_ms()));

-- Those of them that are reached over a network, for whom the box parks connections: where, in the order to try, and
-- as whom. What differs is dialled anew. (A Host on the same machine has its own way out.)
CREATE VIEW pairing_parks AS
SELECT r.pairing_id, r.host, r.endpoints, r.identity
  FROM pairing_reached AS r JOIN egress_hosts AS h ON h.pairing_id = r.pairing_id
 WHERE r.identity IS NOT NULL;

-- One of them: a connection to a Host that is dialled, parked there, serving a connection of the Host's, or waits
-- until it may be dialled again. The row comes first.
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

-- What failed or was refused waits before it is tried again; what was of use goes on at once.
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

-- What a Host over a network is served, as its beat says: a lane that is named runs.
CREATE VIEW pairing_serves AS
SELECT s.id AS pairing_id, 'ops' AS lane FROM pairing_status AS s WHERE s.active AND s.transport <> 'unix'
 UNION ALL
SELECT DISTINCT w.pairing_id, 'egress'
  FROM egress_parked AS w JOIN pairing_parks AS p ON p.pairing_id = w.pairing_id
 WHERE w.state IN ('parked', 'serving') AND NOT EXISTS (SELECT 1 FROM lines_lost);

-- The Host hears at once when that begins or ends.
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

-- Which connections are parked with which Hosts, and what became of each?
CREATE VIEW egress_parks AS
SELECT p.host_name AS host, w.slot, iif(EXISTS (SELECT 1 FROM lines_lost), 'lost', w.state) AS state, w.changed_at,
       w.next_at, w.taken, w.refused, w.endpoint, w.code, w.why
  FROM egress_parked AS w JOIN pairing AS p ON p.id = w.pairing_id;
