-- Rules that had a gap: what a restore brings back, whose a rule is, which program was meant; held Hosts and old times.

DROP TRIGGER approval_within;

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

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('store.place', 3, 500, 'name it from the root: BASTION_STATE="$PWD/state"; empty or unset is the default');

UPDATE refusal SET advice = 'look again with --dry-run, then ask again' WHERE code = 'act.changed';
UPDATE refusal SET advice = 'see bastion host ops BOX (at the machine: bastion ops) for the class of each op' WHERE code = 'approval.kind';
UPDATE refusal SET advice = 'give bounds as bastion help on has them' WHERE code = 'grant.bounds';
UPDATE refusal SET advice = 'see bastion host ops BOX (at the machine: bastion ops) for how it is asked' WHERE code = 'observe.args';
UPDATE refusal SET advice = 'ask for as many minutes as bastion host ops BOX says (at the machine: bastion ops)' WHERE code = 'observe.minutes';
UPDATE refusal SET advice = 'see bastion host ops BOX (at the machine: bastion ops) for how it is asked' WHERE code = 'op.args';
UPDATE refusal SET advice = 'this op only reads, or its question waits no more: approve or ask it as it is' WHERE code = 'op.dry';
UPDATE refusal SET advice = 'see bastion host ops BOX (at the machine: bastion ops) for what can be asked' WHERE code = 'op.unknown';
UPDATE refusal SET advice = 'leave out --backend none; or, where that is meant: bastion settings set sandbox.unconfined 1' WHERE code = 'sandbox.none';
