-- beat.sql: what a box says of itself, and what its Host last heard.

-- At the Host: the newest beat of each box, one row, as it came.
CREATE TABLE host_beat (
    box_id INTEGER PRIMARY KEY REFERENCES host_box (id),
    beat   TEXT    NOT NULL CHECK (json_valid(beat) AND length(CAST(beat AS BLOB)) <= 1048576),
    at     INTEGER NOT NULL
) STRICT;

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

CREATE TRIGGER host_beat_no_update BEFORE UPDATE ON host_beat
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|a beat is replaced by the next one, never edited');
END;

-- Orders that the box answers are over; the box has been heard.
CREATE TRIGGER host_beat_does AFTER INSERT ON host_beat
BEGIN
    UPDATE host_box SET heard_at = NEW.at WHERE id = NEW.box_id AND NEW.at > coalesce(heard_at, 0);
    UPDATE host_order
       SET state = 'answered', ended_at = NEW.at, outcome = o.value ->> '$.state',
           result = o.value -> '$.result'
      FROM json_each(NEW.beat, '$.orders') AS o
     WHERE box_id = NEW.box_id AND nonce = o.value ->> '$.order' AND host_order.state = 'sent';
END;

-- What this build enforces, whatever the machine.
CREATE TABLE enforces (
    name  TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64 AND name NOT GLOB '*[^a-z_]*'),
    value TEXT NOT NULL CHECK (json_valid(value))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER enforces_fixed BEFORE UPDATE ON enforces
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|what a build enforces comes with its migrations');
END;

CREATE TRIGGER enforces_stays BEFORE DELETE ON enforces
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|what a build enforces comes with its migrations');
END;

-- What a Host is told that this machine enforces: each verb, and the rows of enforces.
CREATE VIEW enforcing AS
SELECT json_set((SELECT coalesce(json_group_object(name, json(value)), '{}') FROM enforces), '$.verbs',
                (SELECT json_group_array(json_object('verb', name, 'can', json(can), 'why', why))
                   FROM (SELECT o.name, coalesce(p.why, 'not looked at yet') AS why,
                                iif(p.works IS 1, 'true', 'false') AS can
                           FROM op AS o LEFT JOIN op_probe AS p ON p.op = o.name
                          ORDER BY o.name))) AS report;

-- A box's beat for each Host that it answers to: about that pairing alone, and so long that any Host
-- takes it, whatever its settings.
CREATE VIEW beat AS
SELECT s.id AS pairing_id,
       json_patch(json_object('name', b.name, 'state', s.state,
                   'caps', json(coalesce(s.caps, '[]')),
                   'enforcing', json((SELECT report FROM enforcing)),
                   'catalog', (SELECT digest FROM op_catalog_digest),
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

-- When each box was heard last, and how: 'beating' where that is not long ago.
CREATE VIEW box_beats AS
SELECT b.id AS box_id, b.name, h.at AS beat_at, h.beat ->> '$.version' AS version,
       h.beat ->> '$.platform' AS platform, h.beat -> '$.enforcing' AS enforcing,
       CASE WHEN b.state = 'gone' THEN 'gone' WHEN h.at IS NULL THEN 'connected'
            WHEN h.at > now_ms() - (SELECT value FROM setting WHERE name = 'beat.silent_ms')
            THEN 'beating' ELSE 'silent' END AS state
  FROM host_box AS b LEFT JOIN host_beat AS h ON h.box_id = b.id;
