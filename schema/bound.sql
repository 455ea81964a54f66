-- bound.sql: within what a grant holds: other arguments, the hours of the week, how often.
--
-- bounds is {"PARAMETER": {"in": [value, …], "min": n, "max": n, "prefix": text, "like": pattern,
--   "beneath": path}, …, "_window": {"days": ["mon", …], "from": "HH:MM", "to": "HH:MM", "zone": name},
--   "_rate": {"max": n, "per_ms": ms, "apart_ms": ms}}.
-- A parameter that is named may have any value that keeps all of its rules; one that is not named
-- keeps the value in args.

CREATE TRIGGER approval_within BEFORE INSERT ON approval
WHEN NEW.bounds IS NOT NULL AND json_valid(NEW.args)
BEGIN
    SELECT RAISE(ABORT, 'grant.bounds|bounds are a JSON object of at most 4096 bytes with something in it')
     WHERE CASE WHEN json_valid(NEW.bounds)
                THEN json_type(NEW.bounds) <> 'object' OR NEW.bounds = '{}' OR NEW.bounds <> json(NEW.bounds)
                  OR length(CAST(NEW.bounds AS BLOB)) > 4096
                ELSE 1 END;
    SELECT refuse('grant.bounds', 'bounds name ' || json_quote(substr(b.key, 1, 64)) || '; the parameters of this op are '
                  || coalesce((SELECT group_concat(name, ', ')
                                 FROM (SELECT name FROM op_param WHERE op = NEW.op ORDER BY position)), 'none')
                  || '; beside them there are _window and _rate', 0)
      FROM json_each(NEW.bounds) AS b
     WHERE b.key NOT IN ('_window', '_rate')
       AND b.key NOT IN (SELECT name FROM op_param WHERE op = NEW.op);
    SELECT RAISE(ABORT, 'grant.bounds|bounds name a parameter twice')
     WHERE (SELECT count(*) <> count(DISTINCT key) FROM json_each(NEW.bounds));
    SELECT RAISE(ABORT, 'grant.bounds|a bound is an object with something in it, nothing of it twice')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.bounds) AS b
            WHERE CASE WHEN b.type = 'object'
                       THEN (SELECT count(*) = 0 OR count(*) <> count(DISTINCT key) FROM json_each(b.value))
                       ELSE 1 END);
    -- (CROSS JOIN: in this order, so that what is no parameter is not taken apart.)
    SELECT RAISE(ABORT, 'grant.bounds|a parameter is bound by in, a number by min and max, a text by prefix, like and beneath')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.bounds) AS b
             CROSS JOIN op_param AS p ON p.op = NEW.op AND p.name = b.key
             CROSS JOIN json_each(b.value) AS r
            WHERE NOT CASE r.key
                  WHEN 'in' THEN CASE WHEN r.type = 'array'
                       THEN json_array_length(r.value) BETWEEN 1 AND 64
                        AND NOT EXISTS (SELECT 1 FROM json_each(r.value) AS e
                                         WHERE e.type <> iif(p.type = 'integer', 'integer', 'text'))
                       ELSE 0 END
                  WHEN 'min' THEN p.type = 'integer' AND r.type = 'integer' AND r.value >= p.low
                  WHEN 'max' THEN p.type = 'integer' AND r.type = 'integer' AND r.value <= p.high
                  WHEN 'prefix' THEN p.type = 'string' AND r.type = 'text' AND r.value <> ''
                  WHEN 'like' THEN p.type = 'string' AND r.type = 'text' AND glob_valid(r.value)
                  WHEN 'beneath' THEN p.type = 'string' AND r.type = 'text' AND bound_holds('beneath', '/', r.value)
                  ELSE 0 END);
    SELECT RAISE(ABORT, 'grant.bounds|a window has days of mon to sun, from and to as HH:MM with time between them, and a zone that is known')
     WHERE json_type(NEW.bounds, '$._window') = 'object'
       AND CASE WHEN json_type(NEW.bounds, '$._window.days') IS NOT 'array' THEN 1
                ELSE EXISTS (SELECT 1 FROM json_each(NEW.bounds, '$._window')
                              WHERE key NOT IN ('days', 'from', 'to', 'zone') OR (key <> 'days' AND type <> 'text'))
                  OR EXISTS (SELECT 1 FROM json_each(NEW.bounds, '$._window.days')
                              WHERE type <> 'text' OR value NOT IN ('mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'))
                  OR window_opens(NEW.bounds -> '$._window.days', NEW.bounds ->> '$._window.from',
                                  NEW.bounds ->> '$._window.to', NEW.bounds ->> '$._window.zone', now_ms()) IS NULL
                END;
    SELECT RAISE(ABORT, 'grant.bounds|a rate has max with per_ms, or apart_ms, or both: whole numbers within the settings grant.uses and grant.rate_ms')
     WHERE json_type(NEW.bounds, '$._rate') = 'object'
       AND (EXISTS (SELECT 1 FROM json_each(NEW.bounds, '$._rate')
                     WHERE type <> 'integer' OR NOT CASE key
                           WHEN 'max' THEN value BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'grant.uses')
                           WHEN 'per_ms' THEN value BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'grant.rate_ms')
                           WHEN 'apart_ms' THEN value BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'grant.rate_ms')
                           ELSE 0 END)
            OR (json_type(NEW.bounds, '$._rate.max') IS NULL) <> (json_type(NEW.bounds, '$._rate.per_ms') IS NULL));
    SELECT RAISE(ABORT, 'grant.bounds|what is asked for now does not keep within the bounds')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.bounds) AS b
             CROSS JOIN op_param AS p ON p.op = NEW.op AND p.name = b.key
             CROSS JOIN json_each(b.value) AS r
            WHERE NOT CASE r.key
                  WHEN 'in' THEN coalesce((NEW.args ->> (p.position - 1)) IN
                       (SELECT CAST(value AS TEXT) FROM json_each(r.value)), 0)
                  ELSE bound_holds(r.key, r.value, NEW.args ->> (p.position - 1)) END);
    SELECT RAISE(ABORT, 'approval.terms|the bounds are not put into words as this machine does')
     WHERE NEW.words IS NOT bounds_words(NEW.bounds);
    -- Deciding looks at each of them.
    SELECT RAISE(ABORT, 'grant.many|this Host holds or asks for as many grants with bounds for this op as the setting grant.bounded allows')
     WHERE (SELECT count(*) FROM grant WHERE pairing_id = NEW.pairing_id AND op = NEW.op
               AND state = 'active' AND bounds IS NOT NULL AND expires_at > now_ms())
         + (SELECT count(*) FROM approval WHERE pairing_id = NEW.pairing_id AND op = NEW.op
               AND state = 'pending' AND bounds IS NOT NULL AND expires_at > now_ms())
        >= (SELECT value FROM setting WHERE name = 'grant.bounded');
END;

-- The rules that each argument has to keep, from 0 on; 'is': the value that was approved.
CREATE VIEW grant_bound AS
SELECT g.id AS grant_id, p.position - 1 AS at, p.name, coalesce(r.key, 'is') AS rule,
       iif(r.key IS NULL, g.args ->> (p.position - 1), r.value) AS bound
  FROM grant AS g JOIN op_param AS p ON p.op = g.op
  LEFT JOIN json_each(g.bounds -> p.name) AS r;

-- Until when the rate of a grant holds it. Uses are numbered in their order, so the one that counts is
-- found by its number: a clock that was set back neither frees a grant nor holds it for good.
CREATE VIEW grant_rate AS
SELECT g.id,
       max(coalesce((SELECT u.at + (g.bounds ->> '$._rate.per_ms') FROM grant_use AS u
                      WHERE u.grant_id = g.id
                        AND u.n = (SELECT max(n) FROM grant_use WHERE grant_id = g.id)
                                - (g.bounds ->> '$._rate.max') + 1), 0),
           coalesce((SELECT u.at + (g.bounds ->> '$._rate.apart_ms') FROM grant_use AS u
                      WHERE u.grant_id = g.id ORDER BY u.n DESC LIMIT 1), 0)) AS until
  FROM grant AS g;

-- When a grant can be used next: now, or once its rate frees it and its window is open. NULL: not
-- within two weeks.
CREATE VIEW grant_next AS
SELECT g.id,
       CASE WHEN json_type(g.bounds, '$._window') IS NULL THEN max(now_ms(), r.until)
            ELSE window_opens(g.bounds -> '$._window.days', g.bounds ->> '$._window.from',
                              g.bounds ->> '$._window.to', g.bounds ->> '$._window.zone',
                              max(now_ms(), r.until)) END AS at,
       r.until > now_ms() AS by_rate
  FROM grant AS g JOIN grant_rate AS r ON r.id = g.id;

-- The same as a refusal; ends is at where the grant ends before it.
CREATE VIEW grant_not_now AS
SELECT n.id, n.at, iif(n.at >= g.expires_at, n.at, NULL) AS ends,
       iif(n.by_rate, 'grant.rate', 'grant.window') AS code,
       'grant ' || n.id || ' is held, nothing of it is spent; ' || replace(bounds_words(json_object(
            iif(n.by_rate, '_rate', '_window'),
            g.bounds -> iif(n.by_rate, '$._rate', '$._window'))), '- ', '')
            || iif(n.at >= g.expires_at, '; it ends before it can be used again', '') AS why
  FROM grant_next AS n JOIN grant AS g ON g.id = n.id;
