-- quarantine.sql: a Host that keeps asking for what it may not is held for a while; what a Host may
-- fill with refused asks is bounded.

-- Refusals that count against the Host that was refused. What only means "not now" is none of them, nor
-- what was not proven to come from that Host.
CREATE TABLE strike (
    code TEXT PRIMARY KEY REFERENCES refusal (code) CHECK (code NOT GLOB 'lane.*')
) STRICT, WITHOUT ROWID;

-- A time for which one Host is held. 'lapsed': it was sat out, and the next one is twice as long; 'lifted': a person
-- forgave it.
CREATE TABLE quarantine (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    state      TEXT    NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'lapsed', 'lifted')),
    strikes    INTEGER NOT NULL CHECK (strikes >= 1),
    last       INTEGER NOT NULL,                               -- the refused ask that it began with
    from_at    INTEGER NOT NULL,
    until_at   INTEGER NOT NULL CHECK (until_at > from_at),
    ended_at   INTEGER,
    by_uid     INTEGER CHECK (by_uid >= 0),                    -- who lifted it
    CHECK ((state = 'held') = (ended_at IS NULL)),
    CHECK ((state = 'lifted') = (by_uid IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX quarantine_once ON quarantine (pairing_id) WHERE state = 'held';
CREATE INDEX quarantine_by_pairing ON quarantine (pairing_id, id);

CREATE TRIGGER quarantine_born BEFORE INSERT ON quarantine WHEN NEW.state <> 'held'
BEGIN
    SELECT RAISE(ABORT, 'quarantine.transition|a hold begins as held');
END;

CREATE TRIGGER quarantine_moves BEFORE UPDATE ON quarantine
BEGIN
    SELECT RAISE(ABORT, 'quarantine.transition|a hold that is over stays over')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'quarantine' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'quarantine.early|a hold lapses when its time is over')
     WHERE NEW.state = 'lapsed' AND OLD.until_at > now_ms();
    SELECT RAISE(ABORT, 'quarantine.late|this hold is over already')
     WHERE NEW.state = 'lifted' AND OLD.until_at <= now_ms();
    SELECT RAISE(ABORT, 'quarantine.fixed|a hold keeps its Host and its time')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.strikes IS NOT OLD.strikes OR NEW.last IS NOT OLD.last
        OR NEW.from_at IS NOT OLD.from_at OR NEW.until_at IS NOT OLD.until_at;
END;

CREATE TRIGGER quarantine_stays BEFORE DELETE ON quarantine
WHEN OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'quarantine')
BEGIN
    SELECT RAISE(ABORT, 'quarantine.kept|a hold is lifted, not deleted');
END;

CREATE TRIGGER quarantine_audit_birth AFTER INSERT ON quarantine
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'quarantine', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('strikes', NEW.strikes, 'until_at', NEW.until_at));
END;

CREATE TRIGGER quarantine_audit_move AFTER UPDATE OF state ON quarantine
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'quarantine', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id), json_object('by', NEW.by_uid));
END;

-- Which Hosts are held now, and until when.
CREATE VIEW held_pairings AS
SELECT q.id, q.pairing_id, p.host_name AS host, q.strikes, q.from_at, q.until_at
  FROM quarantine AS q JOIN pairing AS p ON p.id = q.pairing_id
 WHERE q.state = 'held' AND q.until_at > now_ms();

CREATE INDEX refused_by_pairing ON refused (pairing_id, at);

-- (A hold that nobody closed yet is lapsed if its time is over. One long past is forgotten.)
CREATE TRIGGER refused_strikes AFTER INSERT ON refused
WHEN EXISTS (SELECT 1 FROM strike WHERE code = NEW.code)
 AND EXISTS (SELECT 1 FROM pairing WHERE id = NEW.pairing_id AND state <> 'revoked')
 AND NOT EXISTS (SELECT 1 FROM held_pairings WHERE pairing_id = NEW.pairing_id)
 AND (SELECT count(*) FROM refused AS r JOIN strike AS s ON s.code = r.code
       WHERE r.pairing_id = NEW.pairing_id
         AND r.at > now_ms() - (SELECT value FROM setting WHERE name = 'quarantine.window_ms')
         AND r.id > coalesce((SELECT max(last) FROM quarantine WHERE pairing_id = NEW.pairing_id), 0))
  >= (SELECT value FROM setting WHERE name = 'quarantine.strikes')
BEGIN
    UPDATE quarantine SET state = 'lapsed', ended_at = now_ms()
     WHERE pairing_id = NEW.pairing_id AND state = 'held' AND until_at <= now_ms();
    INSERT INTO quarantine (pairing_id, strikes, last, from_at, until_at)
    SELECT NEW.pairing_id, (SELECT value FROM setting WHERE name = 'quarantine.strikes'), NEW.id, now_ms(),
           now_ms() + max(b.value, min(2 * coalesce(h.length, 0), c.value))
      FROM setting AS b JOIN setting AS c ON c.name = 'quarantine.cap_ms'
      LEFT JOIN (SELECT until_at - from_at AS length FROM quarantine
                  WHERE pairing_id = NEW.pairing_id AND state = 'lapsed'
                    AND until_at > now_ms()
                        - (SELECT value FROM setting WHERE name = 'quarantine.forget_ms')
                    AND id = (SELECT max(id) FROM quarantine WHERE pairing_id = NEW.pairing_id)) AS h
     WHERE b.name = 'quarantine.base_ms';
END;

-- While a Host is held, nothing that it asks is answered or put before a person. What takes away (its
-- grants, its pairing) goes on.
CREATE TRIGGER op_run_not_held INSTEAD OF INSERT ON op_run_apart
WHEN EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held'
                AND until_at > now_ms())
BEGIN
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held');
END;

CREATE TRIGGER approval_not_held BEFORE INSERT ON approval
WHEN EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held'
                AND until_at > now_ms())
BEGIN
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held');
END;

-- Rows of refused asks of one Host in one stretch of time: what is over is counted and not kept. What
-- was not proven to be the Host's, and strikes, have stretches of their own, so that neither crowds
-- the other out; as many are kept as hold a Host. (pairing_id 0: of nobody.)
CREATE TABLE refused_stretch (
    pairing_id INTEGER NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind IN ('unproven', 'refused', 'strike')),
    since      INTEGER NOT NULL,
    kept       INTEGER NOT NULL CHECK (kept >= 0),
    dropped    INTEGER NOT NULL DEFAULT 0 CHECK (dropped >= 0),
    PRIMARY KEY (pairing_id, kind)
) STRICT, WITHOUT ROWID;

-- Hosts of whose refusals some were counted only, since there were too many.
CREATE VIEW refused_dropped AS
SELECT coalesce(p.host_name, '') AS host, r.kind, r.since, r.kept, r.dropped
  FROM refused_stretch AS r LEFT JOIN pairing AS p ON p.id = r.pairing_id WHERE r.dropped > 0;

CREATE TRIGGER refused_stretch_audit AFTER UPDATE OF dropped ON refused_stretch
WHEN NEW.dropped = 1 AND OLD.dropped = 0
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'refused_stretch', NEW.pairing_id, 'full',
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('kind', NEW.kind, 'kept', NEW.kept, 'since', NEW.since));
END;

-- What a refusal counts as, by its code, against a Host that asks for too much.
CREATE VIEW refusal_kind AS
SELECT code, CASE WHEN code GLOB 'lane.*' THEN 'unproven'
                  WHEN code IN (SELECT code FROM strike) THEN 'strike' ELSE 'refused' END AS kind
  FROM refusal;

CREATE TRIGGER refused_bounded BEFORE INSERT ON refused WHEN NEW.surface <> 'cli'
BEGIN
    INSERT INTO refused_stretch (pairing_id, kind, since, kept)
    SELECT coalesce(NEW.pairing_id, 0), kind, now_ms(), 0 FROM refusal_kind WHERE code = NEW.code
        ON CONFLICT DO UPDATE SET since = now_ms(), kept = 0, dropped = 0
           WHERE refused_stretch.since
              <= now_ms() - (SELECT value FROM setting WHERE name = 'refused.stretch_ms');
    UPDATE refused_stretch
       SET kept = kept + (kept < (SELECT max(value) FROM setting
                                   WHERE name IN ('refused.kept', 'quarantine.strikes'))),
           dropped = dropped + (kept >= (SELECT max(value) FROM setting
                                          WHERE name IN ('refused.kept', 'quarantine.strikes')))
     WHERE pairing_id = coalesce(NEW.pairing_id, 0)
       AND kind = (SELECT kind FROM refusal_kind WHERE code = NEW.code);
    SELECT RAISE(IGNORE)
      FROM refused_stretch
     WHERE dropped > 0 AND pairing_id = coalesce(NEW.pairing_id, 0)
       AND kind = (SELECT kind FROM refusal_kind WHERE code = NEW.code);
END;
