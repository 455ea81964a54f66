-- Rules that had a gap: what a restore brings back, whose a rule is, which program was meant; held Hosts and old times.

DROP TRIGGER egress_flow_born;
DROP TRIGGER egress_flow_within;
DROP TRIGGER egress_request_born;
DROP TRIGGER egress_flow_host_may;
DROP TRIGGER destination_is_judged;
DROP VIEW egress_narrowed;
DROP INDEX egress_request_refused;
DROP VIEW egress_ruling;
DROP VIEW egress_grants_mark;
DROP VIEW egress_request_ruling;

CREATE VIEW egress_rule_for AS
SELECT f.id AS flow_id, r.id AS rule_id, r.verdict, r.run_id
  FROM egress_flow AS f JOIN egress_rule AS r
    ON r.state = 'active'
   AND r.suffix IN (f.host, '*', host_tail(f.host, 1), host_tail(f.host, 2), host_tail(f.host, 3),
                    host_tail(f.host, 4), host_tail(f.host, 5), host_tail(f.host, 6),
                    host_tail(f.host, 7), host_tail(f.host, 8))
   AND r.port IN (0, f.port)
   AND (r.run_id IS NULL OR r.run_id = f.run_id)
   AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
        OR (r.uid IS NULL AND r.pairing_id IS NULL AND (f.pairing_id IS NULL OR r.verdict = 'deny')));

CREATE VIEW egress_ruling AS
SELECT f.id,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied'
                    WHEN EXISTS (SELECT 1 FROM program_reach WHERE run_id = f.run_id)
                    THEN (SELECT iif(count(*) = 0, 'unknown', NULL) FROM program_reach
                           WHERE run_id = f.run_id AND host = f.host AND port = f.port)
                    WHEN count(*) = 0 AND NOT EXISTS (SELECT 1 FROM egress_held_by_grant WHERE flow_id = f.id)
                    THEN 'unknown' END
          FROM egress_rule_for AS r WHERE r.flow_id = f.id) AS held
  FROM egress_flow AS f;

CREATE TRIGGER egress_flow_born BEFORE INSERT ON egress_flow
BEGIN
    UPDATE egress_counted
       SET live = (SELECT count(*) FROM egress_flow WHERE ended_at IS NULL),
           last = (SELECT coalesce(max(id), 0) FROM egress_flow)
     WHERE NEW.state <> 'refused'
       AND live + (SELECT coalesce(max(id), 0) FROM egress_flow) - last
        >= min((SELECT value FROM setting WHERE name = 'egress.live'),
               (SELECT value FROM setting WHERE name = 'egress.live_each'));
    SELECT CASE
           WHEN NEW.state NOT IN ('asked', 'open') AND NEW.state <> 'refused'
           THEN RAISE(ABORT, 'egress.transition|a connection begins as asked, open or refused')
           WHEN NEW.state = 'refused'
           THEN NULL
           WHEN NEW.run_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sandbox_run WHERE id = NEW.run_id AND ended_at IS NULL)
           THEN RAISE(ABORT, 'run.over|this run is over')
           WHEN NEW.host = ''
           THEN RAISE(ABORT, 'egress.host|there is no name or address to reach')
           WHEN (SELECT live + (SELECT coalesce(max(id), 0) FROM egress_flow) - last FROM egress_counted)
             >= (SELECT value FROM setting WHERE name = 'egress.live')
           THEN RAISE(ABORT, 'egress.busy|too many connections are open')
           WHEN (SELECT live + (SELECT coalesce(max(id), 0) FROM egress_flow) - last FROM egress_counted)
             >= (SELECT value FROM setting WHERE name = 'egress.live_each')
            AND (SELECT count(*) FROM egress_flow
                  WHERE ended_at IS NULL AND uid IS NEW.uid AND pairing_id IS NEW.pairing_id)
             >= (SELECT value FROM setting WHERE name = 'egress.live_each')
           THEN RAISE(ABORT, 'egress.busy|too many connections are open')
           END;
END;

CREATE TRIGGER egress_flow_host_may INSTEAD OF INSERT ON egress_flow_of_host
BEGIN
    SELECT CASE
           WHEN (SELECT active FROM pairing_status WHERE id = NEW.pairing_id) IS NOT 1
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN EXISTS (SELECT 1 FROM quarantine
                         WHERE pairing_id = NEW.pairing_id AND state = 'held' AND until_at > now_ms())
           THEN RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held')
           WHEN NOT EXISTS (SELECT 1 FROM egress_hosts WHERE pairing_id = NEW.pairing_id)
           THEN RAISE(ABORT, 'egress.capability|this Host has no capability egress here, and no grant')
           END;
END;

CREATE VIEW egress_grants_mark AS
SELECT count(*) AS n, coalesce(sum(f.id), 0) AS which
  FROM egress_flow AS f JOIN egress_use AS u ON u.flow_id = f.id
 WHERE f.ended_at IS NULL AND EXISTS (SELECT 1 FROM grant WHERE op = 'egress:reach')
   AND NOT EXISTS (SELECT 1 FROM egress_held_by_grant WHERE flow_id = f.id);

CREATE TABLE egress_stretch (
    kind       TEXT    NOT NULL CHECK (kind IN ('connection', 'request')),
    uid        INTEGER NOT NULL,
    pairing_id INTEGER NOT NULL,
    run_id     INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    kept       INTEGER NOT NULL DEFAULT 0 CHECK (kept >= 0),
    dropped    INTEGER NOT NULL DEFAULT 0 CHECK (dropped >= 0),
    over       INTEGER NOT NULL DEFAULT 0 CHECK (over IN (0, 1)),   -- the last one was not kept
    PRIMARY KEY (kind, uid, pairing_id, run_id)
) STRICT, WITHOUT ROWID;

CREATE VIEW egress_refused_dropped AS
SELECT CASE WHEN s.run_id >= 0 THEN 'run ' || s.run_id WHEN s.pairing_id >= 0 THEN 'host ' || p.host_name
            WHEN s.uid >= 0 THEN 'uid ' || s.uid ELSE 'all together' END AS who,
       s.kind, s.since, s.kept, s.dropped
  FROM egress_stretch AS s LEFT JOIN pairing AS p ON p.id = s.pairing_id WHERE s.dropped > 0;

CREATE TRIGGER egress_stretch_audit AFTER UPDATE OF dropped ON egress_stretch WHEN NEW.dropped = 1 AND OLD.dropped = 0
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_stretch', NEW.kind, 'full',
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('code', 'egress.flood', 'uid', nullif(NEW.uid, -1), 'run', nullif(NEW.run_id, -1),
                        'kept', NEW.kept, 'since', NEW.since));
END;

CREATE VIEW egress_refusal AS SELECT kind, uid, pairing_id, run_id FROM egress_stretch;

CREATE TRIGGER egress_refusal_counts INSTEAD OF INSERT ON egress_refusal
BEGIN
    DELETE FROM egress_stretch WHERE since NOT BETWEEN now_ms() - 59999 AND now_ms();
    INSERT INTO egress_stretch (kind, uid, pairing_id, run_id, since) VALUES (NEW.kind, -1, -1, -1, now_ms())
        ON CONFLICT DO NOTHING;
    INSERT INTO egress_stretch (kind, uid, pairing_id, run_id, since)
    VALUES (NEW.kind, NEW.uid, NEW.pairing_id, NEW.run_id, now_ms())
        ON CONFLICT DO NOTHING;
    UPDATE egress_stretch
       SET over = kept >= (SELECT value FROM setting WHERE name = 'egress.refused')
                  OR (kept > 0
                      AND (SELECT kept FROM egress_stretch
                            WHERE kind = NEW.kind AND uid = -1 AND pairing_id = -1 AND run_id = -1)
                       >= (SELECT value FROM setting WHERE name = 'egress.refused_all'))
     WHERE kind = NEW.kind AND uid = NEW.uid AND pairing_id = NEW.pairing_id AND run_id = NEW.run_id;
    UPDATE egress_stretch SET kept = kept + 1 - over, dropped = dropped + over
     WHERE kind = NEW.kind AND uid = NEW.uid AND pairing_id = NEW.pairing_id AND run_id = NEW.run_id;
    -- (What is over for one is not counted for all.)
    UPDATE egress_stretch SET kept = kept + 1 - o.over, dropped = dropped + o.over
      FROM (SELECT over, kept AS n FROM egress_stretch
             WHERE kind = NEW.kind AND uid = NEW.uid AND pairing_id = NEW.pairing_id AND run_id = NEW.run_id) AS o
     WHERE kind = NEW.kind AND uid = -1 AND pairing_id = -1 AND run_id = -1
       AND (NOT o.over OR o.n < (SELECT value FROM setting WHERE name = 'egress.refused'));
END;

CREATE TRIGGER egress_flow_born_refused BEFORE INSERT ON egress_flow WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO egress_refusal (kind, uid, pairing_id, run_id)
    VALUES ('connection', coalesce(NEW.uid, -1), coalesce(NEW.pairing_id, -1), coalesce(NEW.run_id, -1));
    SELECT RAISE(IGNORE)
      FROM egress_stretch
     WHERE kind = 'connection' AND uid = coalesce(NEW.uid, -1) AND pairing_id = coalesce(NEW.pairing_id, -1)
       AND run_id = coalesce(NEW.run_id, -1) AND over;
END;

CREATE VIEW grant_in_use AS
SELECT DISTINCT g.id, g.factor_id
  FROM egress_flow AS f JOIN egress_use AS u ON u.flow_id = f.id JOIN op_run AS r ON r.id = u.op_run_id
  JOIN grant AS g ON g.id = r.grant_id
 WHERE f.ended_at IS NULL AND f.pairing_id IS NOT NULL AND g.state = 'spent';

CREATE TRIGGER grant_spent_drops BEFORE UPDATE OF state ON grant WHEN OLD.state = 'spent' AND NEW.state = 'dropped'
BEGIN
    SELECT RAISE(ABORT, 'grant.final|an ended grant stays ended')
     WHERE OLD.id NOT IN (SELECT id FROM grant_in_use);
END;

CREATE TRIGGER grant_in_use_ends_with_factor AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state <> 'dropped'
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = NEW.dropped_at, end_reason = 'approver dropped'
     WHERE id IN (SELECT id FROM grant_in_use WHERE factor_id = NEW.id);
END;

CREATE VIEW egress_narrowed AS
SELECT f.id,
       EXISTS (SELECT 1 FROM egress_rule_for AS r
                WHERE r.flow_id = f.id AND EXISTS (SELECT 1 FROM egress_within WHERE rule_id = r.rule_id)) AS narrowed,
       EXISTS (SELECT 1 FROM program_reach WHERE run_id = f.run_id)
       OR EXISTS (SELECT 1 FROM egress_rule_for AS r
                   WHERE r.flow_id = f.id AND r.run_id = f.run_id AND r.verdict = 'allow'
                     AND NOT EXISTS (SELECT 1 FROM egress_within WHERE rule_id = r.rule_id)) AS whole
  FROM egress_flow AS f;

CREATE TRIGGER egress_flow_within AFTER INSERT ON egress_flow
WHEN NEW.surface = 'http' AND NEW.state <> 'refused' AND EXISTS (SELECT 1 FROM egress_within)
BEGIN
    SELECT RAISE(ABORT, 'egress.plain|what allows this is for requests within TLS')
      FROM egress_narrowed WHERE id = NEW.id AND narrowed AND NOT whole;
END;

CREATE VIEW egress_rule_asked AS
SELECT q.id AS request_id, r.id AS rule_id, r.verdict, r.suffix, r.port, r.uid
  FROM egress_request AS q JOIN egress_flow AS f ON f.id = q.flow_id JOIN egress_rule AS r
    ON r.state = 'active'
   AND r.suffix IN (q.host, '*', host_tail(q.host, 1), host_tail(q.host, 2), host_tail(q.host, 3),
                    host_tail(q.host, 4), host_tail(q.host, 5), host_tail(q.host, 6),
                    host_tail(q.host, 7), host_tail(q.host, 8))
   AND r.port IN (0, q.port)
   AND (r.run_id IS NULL OR r.run_id = f.run_id)
   AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
        OR (r.uid IS NULL AND r.pairing_id IS NULL AND (f.pairing_id IS NULL OR r.verdict = 'deny')));

CREATE VIEW egress_request_ruling AS
SELECT q.id, q.flow_id, q.host = f.host AND q.port = f.port AS same,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied'
                    WHEN count(*) = 0
                    THEN CASE WHEN NOT EXISTS (SELECT 1 FROM egress_held_by_grant
                                           WHERE flow_id = f.id AND q.host = f.host AND q.port = f.port)
                         THEN 'unknown' WHEN q.websocket THEN 'websocket' END
                    WHEN NOT max(CASE WHEN EXISTS (SELECT 1 FROM egress_within WHERE rule_id = r.rule_id)
                                      THEN EXISTS (SELECT 1 FROM egress_within AS w
                                                    WHERE w.rule_id = r.rule_id AND w.method IN ('*', q.method)
                                                      AND q.path GLOB w.path AND w.websocket >= q.websocket)
                                      ELSE q.websocket = 0 END)
                    THEN iif(q.websocket, 'websocket', 'narrower') END
          FROM egress_rule_asked AS r WHERE r.request_id = q.id) AS held,
       (SELECT w.id FROM egress_rule_asked AS r JOIN egress_within AS w ON w.rule_id = r.rule_id
         WHERE r.request_id = q.id AND w.method IN ('*', q.method) AND q.path GLOB w.path
           AND w.websocket >= q.websocket
         ORDER BY length(r.suffix) DESC, r.port DESC, r.uid IS NULL, length(w.path) DESC,
                  w.token_id IS NULL, w.id LIMIT 1) AS within_id
  FROM egress_request AS q JOIN egress_flow AS f ON f.id = q.flow_id;

CREATE VIEW egress_overruled AS
SELECT f.id,
       (SELECT held FROM egress_ruling WHERE id = f.id) IS NOT NULL
       OR (f.pairing_id IS NOT NULL
           AND ((SELECT active FROM pairing_status WHERE id = f.pairing_id) IS NOT 1
                OR EXISTS (SELECT 1 FROM held_pairings WHERE pairing_id = f.pairing_id)))
       -- (One that went over to another protocol lasts as long as its tunnel.)
       OR EXISTS (SELECT 1 FROM egress_request AS q JOIN egress_request_ruling AS r ON r.id = q.id
                   WHERE q.flow_id = f.id AND (q.state = 'open' OR q.status = 101) AND r.held IS NOT NULL) AS over,
       f.state = 'open' AND EXISTS (SELECT 1 FROM egress_within)
       AND (SELECT narrowed AND NOT whole FROM egress_narrowed WHERE id = f.id) AS narrowed
  FROM egress_flow AS f
 WHERE f.ended_at IS NULL;

CREATE VIEW egress_rules_mark AS
SELECT (SELECT count(*) || ' ' || coalesce(sum(state = 'dropped'), 0) FROM egress_rule) || ' '
       || (SELECT coalesce(max(id), 0) FROM egress_within) || ' '
       || (SELECT count(*) || ' ' || coalesce(sum(id), 0) FROM pairing_status WHERE active) || ' '
       || (SELECT count(*) || ' ' || coalesce(sum(id), 0) FROM held_pairings) || ' '
       || (SELECT n || ' ' || which FROM egress_grants_mark) AS mark;

CREATE TRIGGER egress_request_born BEFORE INSERT ON egress_request
BEGIN
    SELECT CASE
           WHEN NEW.state NOT IN ('open', 'refused') OR NEW.token_id IS NOT NULL OR NEW.within_id IS NOT NULL
           THEN RAISE(ABORT, 'egress.transition|a request begins as open or refused')
           WHEN NEW.state = 'open' AND (SELECT state FROM egress_flow WHERE id = NEW.flow_id) IS NOT 'open'
           THEN RAISE(ABORT, 'egress.transition|a request is within an open tunnel')
           END;
END;

CREATE TRIGGER egress_request_born_refused BEFORE INSERT ON egress_request WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO egress_refusal (kind, uid, pairing_id, run_id)
    SELECT 'request', coalesce(uid, -1), coalesce(pairing_id, -1), coalesce(run_id, -1)
      FROM egress_flow WHERE id = NEW.flow_id;
    SELECT RAISE(IGNORE)
      FROM egress_flow AS f JOIN egress_stretch AS s
        ON s.kind = 'request' AND s.uid = coalesce(f.uid, -1) AND s.pairing_id = coalesce(f.pairing_id, -1)
       AND s.run_id = coalesce(f.run_id, -1)
     WHERE f.id = NEW.flow_id AND s.over;
END;

CREATE TRIGGER destination_is_judged INSTEAD OF INSERT ON judged_destination
BEGIN
    SELECT CASE
           WHEN host_text(NEW.host) IS NOT NEW.host
           THEN RAISE(ABORT, 'egress.host|there is no name or address to reach')
           WHEN NEW.host = 'localhost' OR NEW.host GLOB '*.localhost'
           THEN RAISE(ABORT, 'egress.this_machine|that name is this machine')
           WHEN EXISTS (SELECT 1 FROM egress_rule
                         WHERE state = 'active' AND verdict = 'deny' AND uid IS NULL AND run_id IS NULL
                           AND (pairing_id IS NULL OR pairing_id = NEW.pairing_id) AND port IN (0, NEW.port)
                           AND (suffix IN ('*', NEW.host)
                                OR substr(NEW.host, -length(suffix) - 1) = '.' || suffix))
           THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN json_array_length(NEW.addresses)
                NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'egress.addresses')
           THEN RAISE(ABORT, 'egress.resolve|could not resolve that name to a sensible number of addresses')
           END;
    SELECT CASE
           WHEN a.judged IS NULL
           THEN RAISE(ABORT, 'egress.address|an address of that name is none')
           WHEN c.class NOT IN ('public', 'network')
           THEN refuse('egress.' || c.class, 'that is ' || c.why || ': no verb reaches it', 0)
           WHEN NOT EXISTS (SELECT 1 FROM own_address)
           THEN RAISE(ABORT, 'egress.own_unknown|cannot tell whether that is itself: the kernel does not say what this machine''s addresses are')
           WHEN EXISTS (SELECT 1 FROM own_address WHERE a.ip BETWEEN first AND last OR a.judged BETWEEN first AND last)
           THEN RAISE(ABORT, 'egress.own|that is this machine')
           WHEN c.class = 'network' AND NOT EXISTS (SELECT 1 FROM live_anchor)
            AND NOT EXISTS (SELECT 1 FROM egress_rule
                             WHERE state = 'active' AND verdict = 'allow' AND pairing_id = NEW.pairing_id
                               AND address_bytes(suffix) = a.ip AND port IN (0, NEW.port))
           THEN refuse('egress.network', 'that is ' || c.why || ': only an anchored machine reaches it, '
                       || 'or one whose egress rules allow that address to this Host', 0)
           END
      FROM (SELECT ip, (SELECT iif(embed IS NULL, ip,
                                   CAST(x'00000000000000000000ffff' || substr(ip, embed + 1, 4) AS BLOB))
                          FROM address_class WHERE ip BETWEEN first AND last ORDER BY prio LIMIT 1) AS judged
              FROM (SELECT address_bytes(value) AS ip FROM json_each(NEW.addresses))) AS a
      LEFT JOIN address_class AS c
        ON c.prio = (SELECT min(prio) FROM address_class WHERE a.judged BETWEEN first AND last);
END;

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('egress.refused_all', 6000, 'rows', 0, 1000000, 'as egress.refused, which is of one user, Host or run; this is of all together, beyond the first of each');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('grant', 'spent', 'dropped');
