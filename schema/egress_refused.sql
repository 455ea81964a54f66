-- egress_refused.sql: how many refusals of the internet lane are kept: so many a minute of each who asks, whatever others
-- do, and a wider number of all together.

-- What was refused to one user, Host or run (-1: none; all three: to all of them together) since a minute began. What is
-- over is counted and not kept.
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

-- Of whom some were counted only, in the minute of the last refusal.
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

-- Whoever is refused passes here. The first of each is kept in any case. (A minute that is still to come was of another clock.)
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

-- Who is refused without end fills no database.
CREATE TRIGGER egress_flow_born_refused BEFORE INSERT ON egress_flow WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO egress_refusal (kind, uid, pairing_id, run_id)
    VALUES ('connection', coalesce(NEW.uid, -1), coalesce(NEW.pairing_id, -1), coalesce(NEW.run_id, -1));
    SELECT RAISE(IGNORE)
      FROM egress_stretch
     WHERE kind = 'connection' AND uid = coalesce(NEW.uid, -1) AND pairing_id = coalesce(NEW.pairing_id, -1)
       AND run_id = coalesce(NEW.run_id, -1) AND over;
END;
