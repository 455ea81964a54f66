-- Rules that had a gap: what a restore brings back, whose a rule is, which program was meant; held Hosts and old times.

DROP TRIGGER context_ask_born;
DROP TRIGGER egress_flow_born;
DROP TRIGGER egress_within_born;
DROP TRIGGER egress_flow_within;
DROP TRIGGER egress_request_born;
DROP TRIGGER program_run_holds;
DROP TRIGGER retention_actor_run;
DROP TRIGGER token_host_born;
DROP TRIGGER approval_born;
DROP TRIGGER restore_takes_back;
DROP TRIGGER approval_within;
DROP TRIGGER egress_flow_host_may;
DROP TRIGGER op_run_is_allowed;
DROP TRIGGER op_manifest_ends;
DROP TRIGGER session_is_allowed;
DROP TRIGGER destination_is_judged;
DROP TRIGGER audit_entry_chains;
DROP VIEW egress_narrowed;
DROP TABLE egress_counted;
DROP INDEX egress_request_refused;
DROP VIEW egress_ruling;
DROP VIEW egress_grants_mark;
DROP VIEW egress_request_ruling;
DROP TRIGGER op_run_not_held;
DROP TRIGGER op_run_of_added_op;
DROP TRIGGER op_run_of_root;
DROP TRIGGER op_run_destination;
DROP TRIGGER grant_use_spends;
DROP TRIGGER op_run_looks;
DROP TRIGGER op_run_is_own;
DROP TRIGGER anchor_heard_asking;
DROP TRIGGER egress_flow_ruled;
DROP TRIGGER egress_flow_audit_birth;
DROP TRIGGER egress_flow_pays;
DROP TRIGGER host_beat_tells_catalog;
DROP TRIGGER catalog_is_taken;

CREATE TRIGGER audit_entry_chains INSTEAD OF INSERT ON audit_entry
BEGIN
    INSERT INTO audit (seq, at, stream, who, entity, entity_id, action, pairing, body, prev, hash)
    VALUES (NULL, now_ms(), NEW.stream, acting(), NEW.entity, NEW.entity_id, NEW.action, NEW.pairing, NEW.body,
            coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), zeroblob(32)),
            chain_hash(coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), zeroblob(32)),
                       json_array((SELECT coalesce(max(seq), 0) + 1 FROM audit), now_ms(), NEW.stream,
                                  acting(), NEW.entity, NEW.entity_id || '', NEW.action, NEW.pairing,
                                  NEW.body || '')));
END;

CREATE TRIGGER approval_born BEFORE INSERT ON approval
BEGIN
    -- A question that ran out does not stand in the way of the next, nor does it count.
    UPDATE approval SET state = 'expired', decided_at = now_ms()
     WHERE pairing_id = NEW.pairing_id AND state = 'pending' AND expires_at <= now_ms();
    SELECT RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
     WHERE (SELECT mode FROM box) = 'networked' AND NOT EXISTS (SELECT 1 FROM live_anchor);
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'approval.transition|an approval begins as pending')
     WHERE NEW.state <> 'pending';
    SELECT RAISE(ABORT, 'op.unknown|there is no op of this name')
     WHERE NOT EXISTS (SELECT 1 FROM op WHERE name = NEW.op);
    SELECT RAISE(ABORT, 'approval.kind|no grant of this kind is for this op')
     WHERE NEW.kind IS NOT (SELECT iif(class IN ('observe', 'action'), 'op', nullif(class, 'own'))
                              FROM op WHERE name = NEW.op);
    SELECT RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_may WHERE pairing_id = NEW.pairing_id AND op = NEW.op);
    SELECT RAISE(ABORT, 'op.args|arguments are a JSON array of at most 16384 characters')
     WHERE CASE WHEN json_valid(NEW.args) THEN json_type(NEW.args) <> 'array' ELSE 1 END
        OR length(NEW.args) > 16384;
    SELECT RAISE(ABORT, 'approval.uses|at least one use, and no more than the setting grant.uses allows')
     WHERE NEW.uses NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'grant.uses');
    SELECT RAISE(ABORT, 'approval.ttl|whole seconds, and no longer than the setting grant.ttl_ms allows')
     WHERE NEW.ttl_ms NOT BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'grant.ttl_ms')
        OR NEW.ttl_ms % 1000 <> 0;
    SELECT RAISE(ABORT, 'approval.root|what runs as root is granted for at most 30 days, and no longer than the setting grant.root_ttl_ms allows')
     WHERE NEW.kind = 'root' AND NEW.ttl_ms > (SELECT value FROM setting WHERE name = 'grant.root_ttl_ms');
    SELECT RAISE(ABORT, 'approval.terms|the terms name another machine, Host or text')
     WHERE NEW.box_name IS NOT (SELECT name FROM box)
        OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
        OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms));
    SELECT RAISE(ABORT, 'approval.busy|too many questions of this Host wait for a person')
     WHERE (SELECT count(*) FROM approval WHERE pairing_id = NEW.pairing_id AND state = 'pending')
        >= (SELECT value FROM setting WHERE name = 'approval.pending');
    SELECT RAISE(ABORT, 'approval.transition|a question is asked at the time that it is, and waits no longer than approval.ttl_ms may say')
     WHERE NEW.asked_at IS NOT now_ms()
        OR NEW.expires_at - NEW.asked_at > (SELECT high FROM setting WHERE name = 'approval.ttl_ms');
END;

CREATE TRIGGER restore_takes_back AFTER INSERT ON restore
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'restore', NEW.id, 'restored', '',
            json_object('seq', NEW.seq, 'head', lower(hex(NEW.head)), 'replaced_seq', NEW.replaced_seq,
                        'replaced_head', lower(hex(NEW.replaced_head)),
                        'keep_grants', NEW.keep_grants, 'keep_factors', NEW.keep_factors));
    -- A question may have been answered since; the same signature would answer it again.
    UPDATE approval SET state = 'expired', decided_at = now_ms() WHERE state = 'pending';
    UPDATE amendment SET state = 'expired', ended_at = now_ms() WHERE state = 'pending';
    UPDATE invitation SET state = 'withdrawn', ended_at = now_ms() WHERE state = 'open';
    UPDATE context_ask SET state = iif(state = 'pending', 'expired', 'dropped'), ended_at = now_ms()
     WHERE state IN ('pending', 'allowed');
    UPDATE pairing SET state = 'revoked', ended_at = now_ms()
     WHERE state <> 'revoked' AND NEW.live IS NOT NULL
       AND json_array(host_name, lower(hex(host_key)), since) NOT IN
           (SELECT value FROM json_each(NEW.live, '$.pairings'));
    UPDATE host_box SET state = 'gone', gone_at = now_ms()
     WHERE state = 'active' AND NEW.live IS NOT NULL
       AND json_array(name, lower(hex(box_key)), paired_at) NOT IN
           (SELECT value FROM json_each(NEW.live, '$.boxes'));
    UPDATE factor SET state = 'dropped', dropped_at = now_ms()
     WHERE state = 'active'
       AND CASE WHEN NEW.live IS NULL THEN NOT NEW.keep_factors
                ELSE json_array(fingerprint, enrolled_at) NOT IN
                     (SELECT json_array(value ->> 0, value ->> 1)
                        FROM json_each(NEW.live, '$.factors')) END;
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored'
     WHERE state = 'active'
       AND (NOT NEW.keep_grants
            OR (NEW.live IS NOT NULL AND lower(hex(seal)) NOT IN
                (SELECT value FROM json_each(NEW.live, '$.grants'))));
    -- Codes that were used, and signatures of a token that counts, are not good again.
    UPDATE factor
       SET last_counter = now_ms() / 30000 + (SELECT value FROM setting WHERE name = 'factor.steps')
     WHERE state = 'active' AND kind = 'totp' AND last_counter <
           now_ms() / 30000 + (SELECT value FROM setting WHERE name = 'factor.steps');
    UPDATE factor SET last_counter = l.value ->> 2
      FROM json_each(NEW.live, '$.factors') AS l
     WHERE state = 'active' AND kind = 'ssh'
       AND fingerprint = l.value ->> 0 AND enrolled_at = l.value ->> 1
       AND last_counter < l.value ->> 2;
END;

CREATE VIEW restored_line AS
SELECT coalesce((SELECT 'restored: ' || strftime('%Y-%m-%dT%H:%M:%fZ', restored_at / 1000.0, 'unixepoch') || char(10)
                   FROM restore ORDER BY id DESC LIMIT 1), '') AS text;

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

CREATE TRIGGER context_ask_born BEFORE INSERT ON context_ask
BEGIN
    -- A question that ran out does not stand in the way of the next, nor does it count.
    UPDATE context_ask SET state = 'expired', ended_at = now_ms()
     WHERE state = 'pending' AND expires_at <= now_ms();
    SELECT CASE
           WHEN NEW.state <> 'pending'
           THEN RAISE(ABORT, 'context.transition|an ask begins as pending')
           WHEN NEW.pairing_id IS NULL
           THEN RAISE(ABORT, 'context.host|which Host is to have it is not clear: none is served by that name, or several are')
           WHEN (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
           THEN RAISE(ABORT, 'pairing.invalid|this pairing is not served')
           WHEN NEW.box_name IS NOT (SELECT name FROM box)
             OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
             OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms))
           THEN RAISE(ABORT, 'context.terms|the terms name another machine, Host or text')
           WHEN NEW.root IS NULL OR NEW.root NOT GLOB '/?*' OR NEW.root GLOB '*/'
             OR length(CAST(NEW.root AS BLOB)) > 4095
             OR instr(NEW.root, '//') > 0 OR instr(NEW.root || '/', '/./') > 0
             OR instr(NEW.root || '/', '/../') > 0
             OR instr(NEW.root, char(0)) > 0
             OR NEW.root GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
           THEN RAISE(ABORT, 'context.path|a folder is named by its absolute path, without links, dots and control characters')
           WHEN NEW.root || '/' GLOB '/proc/*' OR NEW.root || '/' GLOB '/sys/*' OR NEW.root || '/' GLOB '/dev/*'
           THEN RAISE(ABORT, 'context.path|what is in /proc, /sys and /dev is no folder of a user')
           WHEN length(NEW.name) NOT BETWEEN 1 AND 64 OR instr(NEW.name, char(0)) > 0
             OR NEW.name GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
           THEN RAISE(ABORT, 'context.name|a name has 1 to 64 characters and none that controls')
           WHEN EXISTS (SELECT 1 FROM context_ask WHERE uid = NEW.uid AND pairing_id = NEW.pairing_id
                           AND root = NEW.root AND state IN ('pending', 'allowed'))
           THEN RAISE(ABORT, 'context.exists|this was asked already, and waits for a person or was allowed')
           WHEN (SELECT count(*) FROM context_ask WHERE uid = NEW.uid AND state = 'pending')
             >= (SELECT value FROM setting WHERE name = 'context.pending_uid')
           THEN RAISE(ABORT, 'context.yours|busy: too many asks of this user wait for a person')
           WHEN (SELECT count(*) FROM context_ask WHERE state = 'pending')
             >= (SELECT value FROM setting WHERE name = 'context.pending')
           THEN RAISE(ABORT, 'context.busy|busy: too many asks of this machine wait for a person')
           WHEN (SELECT count(*) FROM context_ask WHERE uid = NEW.uid AND asked_at
                  > now_ms() - (SELECT value FROM setting WHERE name = 'context.window_ms'))
             >= (SELECT value FROM setting WHERE name = 'context.asks')
           THEN RAISE(ABORT, 'context.rate|this user asked too often lately')
           WHEN NEW.asked_at IS NOT now_ms()
             OR NEW.expires_at - NEW.asked_at > (SELECT high FROM setting WHERE name = 'context.ttl_ms')
           THEN RAISE(ABORT, 'context.transition|an ask is made at the time that it is, and waits no longer than context.ttl_ms may say')
           END;
END;

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

CREATE TABLE egress_room (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    until INTEGER NOT NULL CHECK (until >= 0)
) STRICT;

CREATE TRIGGER egress_flow_born BEFORE INSERT ON egress_flow WHEN NEW.state <> 'refused'
BEGIN
    SELECT CASE
           WHEN NEW.state NOT IN ('asked', 'open')
           THEN RAISE(ABORT, 'egress.transition|a connection begins as asked, open or refused')
           WHEN NEW.run_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sandbox_run WHERE id = NEW.run_id AND ended_at IS NULL)
           THEN RAISE(ABORT, 'run.over|this run is over')
           WHEN NEW.host = ''
           THEN RAISE(ABORT, 'egress.host|there is no name or address to reach')
           END;
END;

CREATE VIEW egress_flow_counted AS SELECT uid, pairing_id FROM egress_flow;

CREATE TRIGGER egress_flow_has_room BEFORE INSERT ON egress_flow
WHEN NEW.state <> 'refused'
 AND (SELECT coalesce(max(id), 0) FROM egress_flow) >= (SELECT until FROM egress_room)
BEGIN
    INSERT INTO egress_flow_counted (uid, pairing_id) VALUES (NEW.uid, NEW.pairing_id);
END;

CREATE TRIGGER egress_flow_counts INSTEAD OF INSERT ON egress_flow_counted
BEGIN
    UPDATE egress_room
       SET until = (SELECT coalesce(max(id), 0) FROM egress_flow)
                 + max(0, min((SELECT value FROM setting WHERE name = 'egress.live'),
                              (SELECT value FROM setting WHERE name = 'egress.live_each'))
                          - (SELECT count(*) FROM egress_flow WHERE ended_at IS NULL));
    SELECT RAISE(ABORT, 'egress.busy|too many connections are open')
     WHERE (SELECT count(*) FROM egress_flow WHERE ended_at IS NULL)
        >= (SELECT value FROM setting WHERE name = 'egress.live')
        OR (SELECT count(*) FROM egress_flow
             WHERE ended_at IS NULL AND uid IS NEW.uid AND pairing_id IS NEW.pairing_id)
        >= (SELECT value FROM setting WHERE name = 'egress.live_each');
END;

CREATE TRIGGER egress_room_bound AFTER UPDATE OF value ON setting
WHEN NEW.name IN ('egress.live', 'egress.live_each')
BEGIN
    UPDATE egress_room SET until = 0;
END;

CREATE TRIGGER egress_room_gone AFTER DELETE ON egress_flow
WHEN OLD.id > (SELECT coalesce(max(id), 0) FROM egress_flow)
BEGIN
    UPDATE egress_room SET until = 0;
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

CREATE TRIGGER grant_dropped_runs AFTER UPDATE OF state ON grant
WHEN NEW.state = 'dropped' AND OLD.state <> 'dropped'
BEGIN
    UPDATE op_run SET state = 'cancelled', finished_at = NEW.ended_at
     WHERE grant_id = NEW.id AND state = 'queued' AND finished_at IS NULL;
END;

CREATE TRIGGER factor_dropped_runs AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state = 'active'
BEGIN
    UPDATE op_run SET state = 'cancelled', finished_at = NEW.dropped_at
     WHERE state = 'queued' AND finished_at IS NULL
       AND (SELECT factor_id FROM grant WHERE id = op_run.grant_id) = NEW.id;
END;

CREATE VIEW grant_in_use AS
SELECT DISTINCT g.id, g.factor_id
  FROM egress_flow AS f JOIN egress_use AS u ON u.flow_id = f.id JOIN op_run AS r ON r.id = u.op_run_id
  JOIN grant AS g ON g.id = r.grant_id
 WHERE f.ended_at IS NULL AND f.pairing_id IS NOT NULL AND g.state = 'spent';

CREATE TRIGGER grant_spent_drops BEFORE UPDATE OF state ON grant WHEN OLD.state = 'spent' AND NEW.state = 'dropped'
BEGIN
    SELECT RAISE(ABORT, 'grant.spent|this grant is used up, and holds nothing that is under way')
     WHERE OLD.id NOT IN (SELECT id FROM grant_in_use);
END;

CREATE TRIGGER grant_in_use_ends_with_factor AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state <> 'dropped'
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = NEW.dropped_at, end_reason = 'approver dropped'
     WHERE id IN (SELECT id FROM grant_in_use WHERE factor_id = NEW.id);
END;

CREATE TRIGGER egress_within_born BEFORE INSERT ON egress_within
BEGIN
    SELECT CASE
           WHEN (SELECT state || verdict FROM egress_rule WHERE id = NEW.rule_id) IS NOT 'activeallow'
           THEN RAISE(ABORT, 'egress.narrow|only what is allowed can be narrowed')
           WHEN NEW.method <> '*' AND (NEW.method GLOB '*[^A-Z]*' OR NEW.method = 'CONNECT')
           THEN RAISE(ABORT, 'egress.narrow|a method is a word in capital letters, such as GET')
           WHEN NEW.path <> '*' AND NEW.path NOT GLOB '/*'
           THEN RAISE(ABORT, 'egress.narrow|a path begins with /; * stands for any characters')
           WHEN NEW.path GLOB '*[?#]*' OR instr(NEW.path, '[') > 0 OR NEW.path GLOB '*[^!-~]*'
           THEN RAISE(ABORT, 'egress.narrow|a path has neither query nor brackets; * stands for any characters')
           WHEN NEW.token_id IS NOT NULL
            AND (SELECT state FROM token WHERE id = NEW.token_id) IS NOT 'active'
           THEN RAISE(ABORT, 'token.unknown|there is no such token')
           WHEN NEW.token_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM token_host AS h JOIN egress_rule AS r ON r.id = NEW.rule_id
                             WHERE h.token_id = NEW.token_id
                               AND (h.suffix = r.suffix OR r.suffix GLOB '*.' || h.suffix))
           THEN RAISE(ABORT, 'token.host|this token is not for that host, so it is never sent there')
           WHEN (SELECT count(*) FROM egress_within WHERE rule_id = NEW.rule_id)
             >= (SELECT value FROM setting WHERE name = 'egress.within')
           THEN RAISE(ABORT, 'egress.many|a rule says as much of requests as the setting egress.within allows')
           END;
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
                   WHERE q.flow_id = f.id AND (q.state = 'open' OR q.status = 101)
                     AND (r.held IS NOT NULL
                          OR (SELECT state FROM token WHERE id = q.token_id) IS 'dropped')) AS over,
       f.state = 'open' AND EXISTS (SELECT 1 FROM egress_within)
       AND (SELECT narrowed AND NOT whole FROM egress_narrowed WHERE id = f.id) AS narrowed
  FROM egress_flow AS f
 WHERE f.ended_at IS NULL;

CREATE VIEW egress_rules_mark AS
SELECT (SELECT count(*) || ' ' || coalesce(sum(state = 'dropped'), 0) FROM egress_rule) || ' '
       || (SELECT coalesce(max(id), 0) FROM egress_within) || ' '
       || (SELECT count(*) || ' ' || coalesce(sum(id), 0) FROM pairing_status WHERE active) || ' '
       || (SELECT count(*) || ' ' || coalesce(sum(id), 0) FROM held_pairings) || ' '
       || (SELECT coalesce(sum(state = 'dropped'), 0) FROM token) || ' '
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

CREATE TRIGGER mcp_token_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE mcp_token SET state = 'dropped', dropped_at = now_ms() WHERE state = 'active';
END;

CREATE TRIGGER op_run_is_allowed BEFORE INSERT ON op_run
BEGIN
    SELECT CASE
           WHEN p.state IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN o.name IS NULL
           THEN RAISE(ABORT, 'op.unknown|there is no op of this name')
           WHEN EXISTS (SELECT 1 FROM op_run WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce)
           THEN RAISE(ABORT, 'op.replayed|this ask was made before')
           -- (Rates are measured by that time.)
           WHEN NEW.state <> 'queued' OR NEW.queued_at IS NOT now_ms()
           THEN RAISE(ABORT, 'op.transition|a run begins as queued, at the time that it is')
           -- Live runs lie between the oldest of them and the newest run: mostly that is few enough.
           WHEN (SELECT max(id) FROM op_run)
              - (SELECT min(id) FROM op_run WHERE finished_at IS NULL) + 1
             >= min((SELECT value FROM setting WHERE name = 'op.live'),
                    (SELECT value FROM setting WHERE name = 'op.live_per_host'))
            AND (SELECT CASE
                        WHEN count(*) >= (SELECT value FROM setting WHERE name = 'op.live')
                        THEN RAISE(ABORT, 'op.busy|too many runs wait or run already')
                        WHEN count(*) FILTER (WHERE pairing_id = NEW.pairing_id)
                          >= (SELECT value FROM setting WHERE name = 'op.live_per_host')
                        THEN RAISE(ABORT, 'op.share|too many runs of this Host wait or run already')
                        END
                   FROM op_run WHERE finished_at IS NULL)
           THEN NULL
           WHEN NEW.op = 'observe:folders'
            AND (SELECT count(*) FROM folder_walk WHERE state = 'stuck')
             >= (SELECT value FROM setting WHERE name = 'folders.stuck')
           THEN RAISE(ABORT, 'observe.stuck|earlier walks still wait for a file system that does not answer')
           WHEN NEW.grant_id IS NULL AND o.class = 'own' AND NOT NEW.dry
           THEN NULL
           WHEN NEW.grant_id IS NULL AND EXISTS (SELECT 1 FROM grant
                 WHERE pairing_id = NEW.pairing_id AND op = NEW.op AND args <> NEW.args
                   AND state = 'active' AND expires_at > now_ms())
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN NEW.grant_id IS NULL
           THEN RAISE(ABORT, 'approval.needed|a person has to approve this first')
           WHEN g.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.gone|the grant was taken back or is used up')
           WHEN g.pairing_id <> NEW.pairing_id OR g.op <> NEW.op
           THEN RAISE(ABORT, 'grant.other|the grant is for another Host or op')
           WHEN g.args <> NEW.args AND g.bounds IS NULL
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN g.expires_at <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN g.kind = 'root'
            AND g.created_at + (SELECT value FROM setting WHERE name = 'grant.root_ttl_ms') <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN f.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.approver|whoever approved this grant is no longer trusted here')
           WHEN seal_ok('grant', g.seal_text, g.seal) IS NOT 1
           THEN RAISE(ABORT, 'grant.seal|the record of this grant was changed by another tool')
           WHEN NEW.dry AND o.class <> 'action'
           THEN RAISE(ABORT, 'op.dry|this op changes nothing, so it is not run dry')
           WHEN o.class = 'action'
            AND EXISTS (SELECT 1 FROM op_probe WHERE op = NEW.op AND NOT works)
           THEN (SELECT refuse('act.tool', why, 0) FROM op_probe WHERE op = NEW.op)
           END
      FROM (SELECT 1) AS asked
      LEFT JOIN pairing AS p ON p.id = NEW.pairing_id
      LEFT JOIN op AS o ON o.name = NEW.op
      LEFT JOIN grant AS g ON g.id = NEW.grant_id
      LEFT JOIN factor AS f ON f.id = g.factor_id;
    -- Last, since the next try would be held by the above all the same.
    INSERT INTO op_run_granted (grant_id, op, args, dry) VALUES (NEW.grant_id, NEW.op, NEW.args, NEW.dry);
END;

CREATE TABLE op_manifest_after (
    manifest_id INTEGER PRIMARY KEY REFERENCES op_manifest (id),
    run_id      INTEGER NOT NULL CHECK (run_id >= 0)
) STRICT;

CREATE TRIGGER op_manifest_is_after AFTER INSERT ON op_manifest
BEGIN
    INSERT INTO op_manifest_after (manifest_id, run_id) SELECT NEW.id, coalesce(max(id), 0) FROM op_run;
END;

CREATE TRIGGER op_manifest_after_fixed BEFORE UPDATE ON op_manifest_after
BEGIN
    SELECT RAISE(ABORT, 'manifest.fixed|what was signed never changes');
END;

CREATE TRIGGER op_manifest_after_stays BEFORE DELETE ON op_manifest_after
BEGIN
    SELECT RAISE(ABORT, 'manifest.kept|an added op is dropped, not deleted');
END;

CREATE TRIGGER op_manifest_ends AFTER UPDATE OF state ON op_manifest
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'the op was ' || NEW.state
     WHERE op = NEW.name AND state = 'active';
    UPDATE approval SET state = 'expired', decided_at = now_ms() WHERE op = NEW.name AND state = 'pending';
    -- What waits was paid for by a grant that may be spent by now.
    UPDATE op_run SET state = 'cancelled', finished_at = now_ms()
     WHERE op = NEW.name AND state = 'queued' AND finished_at IS NULL;
    UPDATE op_probe SET works = 0, why = 'it was ' || NEW.state, probed_at = now_ms() WHERE op = NEW.name;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'op_manifest', NEW.id, NEW.state, '', json_object('op', NEW.name, 'reason', NEW.end_reason));
END;

CREATE TRIGGER program_run_holds BEFORE INSERT ON program_run
BEGIN
    SELECT RAISE(ABORT, 'op.output|only a run that was begun runs a program')
     WHERE (SELECT state FROM op_run WHERE id = NEW.op_run_id) IS NOT 'running';
    SELECT RAISE(ABORT, 'manifest.edited|the record of this op was changed by another tool, or its signer is not trusted any more')
     WHERE NEW.manifest_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM added_ops AS a JOIN op_run AS r ON r.op = a.name
                        WHERE r.id = NEW.op_run_id AND a.id = NEW.manifest_id AND a.holds = 'yes');
    -- (By numbers: two of one millisecond are told apart, and a clock may be set back.)
    SELECT RAISE(ABORT, 'manifest.replaced|this op was added anew after this run was asked for')
      FROM op_manifest_after WHERE manifest_id = NEW.manifest_id AND run_id >= NEW.op_run_id;
    SELECT RAISE(ABORT, 'grant.gone|the grant was taken back or is used up')
     WHERE NEW.manifest_id IS NULL
       AND NOT EXISTS (SELECT 1 FROM op_run AS r JOIN grant AS g ON g.id = r.grant_id
                        WHERE r.id = NEW.op_run_id AND r.op = 'root:exec' AND g.kind = 'root' AND g.args = r.args
                          AND g.state IN ('active', 'spent') AND seal_ok('grant', g.seal_text, g.seal) = 1);
END;

CREATE TRIGGER directive_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE directive SET state = 'failed', ended_at = now_ms(),
           result = json_object('code', 'directive.replayed',
                                'why', 'this order was signed before this database was restored')
     WHERE state = 'taken';
END;

CREATE TRIGGER host_order_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE host_order SET state = 'withdrawn', ended_at = now_ms() WHERE state IN ('waiting', 'sent');
END;

CREATE TRIGGER remote_credential_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE remote_credential SET state = 'revoked', ended_at = now_ms(), digest = NULL WHERE state = 'active';
END;

CREATE TRIGGER retention_actor_run AFTER UPDATE ON retention WHEN NEW.entity = 'actor_run'
BEGIN
    DELETE FROM actor_run WHERE id > OLD.gone_to AND id <= NEW.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', changes(), 'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
    -- (As many as one move covers: the next takes the others.)
    DELETE FROM process
     WHERE id IN (SELECT id FROM process AS p
                   WHERE seen_at < (SELECT before FROM retention_cutoff WHERE entity = NEW.entity)
                     AND id < (SELECT max(id) FROM process)
                     AND NOT EXISTS (SELECT 1 FROM actor_run WHERE process_id = p.id)
                     AND NOT EXISTS (SELECT 1 FROM attempt WHERE process_id = p.id)
                     AND NOT EXISTS (SELECT 1 FROM sandbox_run WHERE process_id = p.id)
                     AND NOT EXISTS (SELECT 1 FROM instance WHERE process_id = p.id)
                     AND NOT EXISTS (SELECT 1 FROM lease WHERE process_id = p.id)
                   ORDER BY id LIMIT (SELECT value FROM setting WHERE name = 'retention.batch'));
END;

CREATE INDEX instance_by_process ON instance (process_id);

CREATE INDEX lease_by_process ON lease (process_id);

CREATE INDEX sandbox_run_by_process ON sandbox_run (process_id);

CREATE TRIGGER session_is_allowed BEFORE INSERT ON session
BEGIN
    SELECT RAISE(ABORT, 'session.name|the name of a session is letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 128 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'session.exists|there is a session of this name')
     WHERE EXISTS (SELECT 1 FROM session WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'worker.unknown|there is no worker of this name')
     WHERE NEW.worker <> '' AND NOT EXISTS (SELECT 1 FROM worker WHERE name = NEW.worker);
    -- What a worker runs begins as its template has it: what is asked for comes behind.
    SELECT RAISE(ABORT, 'worker.argv|a session of a worker runs that worker''s program')
     WHERE NEW.worker <> ''
       AND EXISTS (SELECT 1 FROM worker AS w JOIN json_each(w.argv) AS t
                    WHERE w.name = NEW.worker AND t.value IS NOT (NEW.argv ->> t.key));
    SELECT RAISE(ABORT, 'worker.argv|a worker is a program and its arguments, each without a NUL')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.argv)
                    WHERE type <> 'text' OR instr(value, char(0)) > 0)
        OR (NEW.argv ->> 0) = '';
    SELECT RAISE(ABORT, 'session.sandbox|a session is held as its worker says; one without a worker reaches its folder alone')
     WHERE CASE WHEN NEW.worker = ''
                THEN NEW.lane IS NOT NULL OR (NEW.backend <> 'none' AND (NEW.net <> 'none' OR NEW.paths <> '[]'))
                ELSE NOT EXISTS (SELECT 1 FROM worker AS w WHERE w.name = NEW.worker AND w.backend = NEW.backend
                        AND w.net = NEW.net AND w.paths = NEW.paths AND w.lane IS NEW.lane) END;
    SELECT RAISE(ABORT, 'session.offline|the daemon does not serve, so nobody would run this')
     WHERE NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');
    SELECT RAISE(ABORT, 'session.busy|too many sessions wait already')
     WHERE (SELECT count(*) FROM session WHERE state = 'queued')
        >= (SELECT value FROM setting WHERE name = 'session.queue');
    SELECT RAISE(ABORT, 'session.transition|a session begins as queued, with nothing behind it')
     WHERE NEW.state <> 'queued' OR NEW.attempts <> 0 OR NEW.crashes <> 0 OR NEW.last_seq <> 0
        OR NEW.first_seq <> 1 OR NEW.lines <> 0 OR NEW.bytes <> 0 OR NEW.input_seq <> 0
        OR NEW.cancel_at IS NOT NULL OR NEW.started_at IS NOT NULL OR NEW.queued_at IS NOT now_ms();
    -- Of those that are over the oldest make place, never one that lives.
    DELETE FROM session
     WHERE id IN (SELECT id FROM session WHERE finished_at IS NOT NULL ORDER BY finished_at, id
                   LIMIT max(0, (SELECT count(*) FROM session) + 1
                              - (SELECT value FROM setting WHERE name = 'session.kept')));
END;

CREATE TRIGGER session_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE session SET cancel_at = now_ms() WHERE state = 'queued';
END;

CREATE INDEX attempt_by_process ON attempt (process_id);

CREATE TRIGGER token_host_born BEFORE INSERT ON token_host
BEGIN
    SELECT CASE
           WHEN host_text(NEW.suffix) IS NOT NEW.suffix
           THEN RAISE(ABORT, 'token.host|a token is for a name in lower case or an address')
           WHEN host_tail(NEW.suffix, 8) IS NOT NULL
           THEN RAISE(ABORT, 'token.host|the name of a host has eight labels at most')
           -- A name of one label is a whole top-level domain.
           WHEN NEW.suffix NOT GLOB '*[.:]*'
           THEN RAISE(ABORT, 'token.host|a token is for one host and those below it, not for all of a domain')
           -- In the transaction that makes it, in which nothing of it can be in use.
           WHEN NOT EXISTS (SELECT 1 FROM token WHERE id = NEW.token_id AND state = 'active' AND made_at = now_ms())
             OR EXISTS (SELECT 1 FROM egress_within WHERE token_id = NEW.token_id)
             OR EXISTS (SELECT 1 FROM egress_request WHERE token_id = NEW.token_id)
             OR EXISTS (SELECT 1 FROM program_lend WHERE token_id = NEW.token_id)
           THEN RAISE(ABORT, 'token.fixed|a token gets its hosts as it is made, and no more')
           WHEN (SELECT count(*) FROM token_host WHERE token_id = NEW.token_id)
             >= (SELECT value FROM setting WHERE name = 'token.hosts')
           THEN RAISE(ABORT, 'token.many|a token is for as many hosts as the setting token.hosts allows')
           END;
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

INSERT INTO egress_room (id, until) VALUES (1, 0);

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('egress.refused_all', 6000, 'rows', 0, 1000000, 'as egress.refused, which is of one user, Host or run; this is of all together, beyond the first of each');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('box.offline', 75, 503, 'start its daemon there: bastion serve; or have it paired anew where it is now'),
    ('egress.names', 75, 503, 'try again in a moment, or raise the setting egress.lookups'),
    ('egress.narrow', 2, 422, 'for example: bastion egress allow api.example.com --method GET --path ''/repos/*'''),
    ('file.missing', 2, 422, 'name one that is there and that you may read'),
    ('file.write', 2, 422, 'name a new file, in a folder that is there and that you may write to'),
    ('manifest.replaced', 126, 409, 'ask again: what was asked for waited until the op was another one'),
    ('store.place', 3, 500, 'name it from the root: BASTION_STATE="$PWD/state"; empty or unset is the default');

UPDATE refusal SET advice = 'look again with --dry-run, then ask again' WHERE code = 'act.changed';
UPDATE refusal SET advice = 'see bastion host ops BOX (at the machine: bastion ops) for the class of each op' WHERE code = 'approval.kind';
UPDATE refusal SET advice = 'give words, "words in a row", begin*, OR between two, NOT before one to leave it out' WHERE code = 'audit.search';
UPDATE refusal SET exit_code = 75 WHERE code = 'call.offline';
UPDATE refusal SET exit_code = 3 WHERE code = 'context.exists';
UPDATE refusal SET exit_code = 75 WHERE code = 'context.offline';
UPDATE refusal SET exit_code = 3 WHERE code = 'egress.exists';
UPDATE refusal SET exit_code = 2 WHERE code = 'egress.unknown_rule';
UPDATE refusal SET exit_code = 2, advice = 'give one address or name, a colon and a port each, as host.example.org:7443' WHERE code = 'endpoint.invalid';
UPDATE refusal SET advice = 'give bounds as bastion help on has them' WHERE code = 'grant.bounds';
UPDATE refusal SET advice = 'end the other first: bastion stop (a Host''s: bastion stop --host); or give this one a state of its own' WHERE code = 'instance.running';
UPDATE refusal SET advice = 'see bastion host ops BOX (at the machine: bastion ops) for how it is asked' WHERE code = 'observe.args';
UPDATE refusal SET advice = 'ask for as many minutes as bastion host ops BOX says (at the machine: bastion ops)' WHERE code = 'observe.minutes';
UPDATE refusal SET advice = 'see bastion host ops BOX (at the machine: bastion ops) for how it is asked' WHERE code = 'op.args';
UPDATE refusal SET advice = 'this op only reads, or its question waits no more: approve or ask it as it is' WHERE code = 'op.dry';
UPDATE refusal SET advice = 'see bastion host ops BOX (at the machine: bastion ops) for what can be asked' WHERE code = 'op.unknown';
UPDATE refusal SET advice = 'leave out --backend none; or, where that is meant: bastion settings set sandbox.unconfined 1' WHERE code = 'sandbox.none';
UPDATE refusal SET exit_code = 2 WHERE code = 'token.unknown';
UPDATE refusal SET advice = 'see bastion help: it lists the verbs, and tells of one that is named' WHERE code = 'usage.wrong';
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('grant', 'spent', 'dropped');

CREATE VIEW op_run_apart AS SELECT pairing_id, op, args, grant_id, dry FROM op_run WHERE false;

CREATE TRIGGER op_run_is_apart BEFORE INSERT ON op_run
WHEN (SELECT mode FROM box WHERE id = 1) IS NOT 'local'
  OR NOT EXISTS (SELECT 1 FROM pairing_plain WHERE id = NEW.pairing_id)
  OR EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held')
  OR NEW.op GLOB 'run:*' OR NEW.op = 'root:exec'
  OR (SELECT declares FROM verb WHERE op = NEW.op) IS NOT NULL
BEGIN
    INSERT INTO op_run_apart (pairing_id, op, args, grant_id, dry)
    VALUES (NEW.pairing_id, NEW.op, NEW.args, NEW.grant_id, NEW.dry);
END;

CREATE TRIGGER op_run_not_held INSTEAD OF INSERT ON op_run_apart
WHEN EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held'
                AND until_at > now_ms())
BEGIN
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held');
END;

CREATE TRIGGER op_run_of_added_op INSTEAD OF INSERT ON op_run_apart WHEN NEW.op GLOB 'run:*'
BEGIN
    INSERT INTO added_op_ask (op, args) VALUES (NEW.op, NEW.args);
    SELECT refuse('act.tool', s.why, 0)
      FROM op_manifest AS m JOIN json_each(m.manifest, '$.verbs') AS v
      JOIN op_probe AS s ON s.op = v.value ->> 0
     WHERE m.name = NEW.op AND m.state = 'active' AND NOT s.works;
END;

CREATE TRIGGER op_run_of_root INSTEAD OF INSERT ON op_run_apart WHEN NEW.op = 'root:exec'
BEGIN
    INSERT INTO root_ask (args, bounds) VALUES (NEW.args, NULL);
END;

CREATE TRIGGER op_run_destination INSTEAD OF INSERT ON op_run_apart
WHEN (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op) IS NOT NULL
BEGIN
    INSERT INTO declared_destination
    VALUES (NEW.pairing_id, NEW.op, (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op));
END;

CREATE TRIGGER op_run_spends_nothing AFTER INSERT ON op_run WHEN NEW.grant_id IS NULL OR NEW.dry
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            iif(NEW.dry, json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NEW.grant_id, 'dry', 1),
                         json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NULL)));
    INSERT INTO own_ask (op_run_id, pairing_id, op, args)
    SELECT NEW.id, NEW.pairing_id, NEW.op, NEW.args WHERE NEW.grant_id IS NULL;
END;

CREATE TRIGGER grant_use_spends AFTER INSERT ON grant_use
WHEN NEW.n >= (SELECT uses FROM grant WHERE id = NEW.grant_id)
BEGIN
    INSERT INTO grant_last_use (grant_id, at) VALUES (NEW.grant_id, NEW.at);
END;

CREATE VIEW grant_last_use AS SELECT grant_id, max(at) AS at FROM grant_use GROUP BY grant_id;

CREATE TRIGGER grant_is_spent INSTEAD OF INSERT ON grant_last_use
BEGIN
    UPDATE grant SET state = 'spent', ended_at = NEW.at, end_reason = 'last use'
     WHERE id = NEW.grant_id AND state = 'active';
END;

CREATE VIEW pairing_plain AS
SELECT id FROM pairing AS p WHERE transport = 'unix' AND peer_uid < 4294967295
   AND NOT EXISTS (SELECT 1 FROM pairing_endpoint WHERE pairing_id = p.id);

CREATE VIEW egress_flow_apart AS
SELECT id, uid, pairing_id, run_id, surface, host, port, state, code FROM egress_flow;

CREATE TRIGGER egress_flow_is_apart AFTER INSERT ON egress_flow WHEN NEW.state <> 'open' OR NEW.surface = 'http'
BEGIN
    INSERT INTO egress_flow_apart (id, uid, pairing_id, run_id, surface, host, port, state, code)
    VALUES (NEW.id, NEW.uid, NEW.pairing_id, NEW.run_id, NEW.surface, NEW.host, NEW.port, NEW.state, NEW.code);
END;

CREATE TRIGGER egress_flow_ruled INSTEAD OF INSERT ON egress_flow_apart
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

CREATE TRIGGER egress_flow_within INSTEAD OF INSERT ON egress_flow_apart
WHEN NEW.surface = 'http' AND NEW.state <> 'refused' AND EXISTS (SELECT 1 FROM egress_within)
BEGIN
    SELECT RAISE(ABORT, 'egress.plain|what allows this is for requests within TLS')
      FROM egress_narrowed WHERE id = NEW.id AND narrowed AND NOT whole;
END;

CREATE TRIGGER egress_flow_audit_birth INSTEAD OF INSERT ON egress_flow_apart WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_flow', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('uid', NEW.uid, 'surface', NEW.surface, 'host', NEW.host, 'port', NEW.port,
                        'code', NEW.code));
END;

CREATE TRIGGER op_run_is_served INSTEAD OF INSERT ON op_run_apart
BEGIN
    SELECT RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
     WHERE (SELECT mode FROM box WHERE id = 1) IS NOT 'local' AND NOT EXISTS (SELECT 1 FROM live_anchor);
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
     WHERE (SELECT mode FROM box WHERE id = 1) IS NOT 'local' AND NEW.grant_id IS NOT NULL
       AND NEW.pairing_id IS NOT (SELECT pairing_id FROM anchor)
       AND NOT EXISTS (SELECT 1 FROM approved_kinds AS k JOIN op AS o ON o.class = k.class
                        WHERE k.pairing_id = NEW.pairing_id AND o.name = NEW.op);
    -- The anchor is heard by what it asks for. Once an hour is enough to tell silence, and deciding is what
    -- the database does most.
    UPDATE anchor SET heard_at = now_ms()
     WHERE pairing_id = NEW.pairing_id
       AND heard_at <= now_ms() - (SELECT value FROM setting WHERE name = 'anchor.heard_ms');
END;

CREATE VIEW op_run_granted AS SELECT grant_id, op, args, dry FROM op_run WHERE false;

CREATE VIEW op_run_bounded AS SELECT grant_id, op, args, dry FROM op_run WHERE false;

CREATE TRIGGER op_run_is_bounded INSTEAD OF INSERT ON op_run_granted
WHEN (SELECT bounds FROM grant WHERE id = NEW.grant_id) IS NOT NULL
BEGIN
    INSERT INTO op_run_bounded (grant_id, op, args, dry) VALUES (NEW.grant_id, NEW.op, NEW.args, NEW.dry);
END;

CREATE TRIGGER op_run_in_bounds INSTEAD OF INSERT ON op_run_bounded
BEGIN
    SELECT RAISE(ABORT, 'grant.args|a grant for this op is held, but these arguments are outside its bounds')
      FROM grant AS g
     WHERE g.id = NEW.grant_id AND g.args <> NEW.args
       AND (instr(NEW.args, '\u0000') > 0
            OR json_array_length(NEW.args) > (SELECT count(*) FROM op_param WHERE op = NEW.op)
            OR EXISTS (SELECT 1 FROM grant_bound AS b WHERE b.grant_id = g.id
                  AND NOT CASE b.rule
                      WHEN 'in' THEN coalesce((NEW.args ->> b.at) IN
                           (SELECT CAST(value AS TEXT) FROM json_each(b.bound)), 0)
                      ELSE bound_holds(b.rule, b.bound, NEW.args ->> b.at) END));
    -- Not now: nothing is spent.
    SELECT refuse(code, why, nullif(at, ends))
      FROM grant_not_now WHERE id = NEW.grant_id AND at IS NOT now_ms() AND NOT NEW.dry;
END;

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

CREATE TRIGGER host_beat_tells_catalog AFTER INSERT ON host_beat
WHEN json_type(NEW.beat, '$.catalog') = 'text' AND length(NEW.beat ->> '$.catalog') = 64
 AND (NEW.beat ->> '$.catalog') NOT GLOB '*[^0-9a-f]*'
BEGIN
    INSERT INTO box_catalog (box_id, told) VALUES (NEW.box_id, NEW.beat ->> '$.catalog')
        ON CONFLICT DO UPDATE SET told = excluded.told WHERE told <> excluded.told;
    DELETE FROM box_op WHERE box_id = NEW.box_id AND NEW.beat ->> '$.catalog' = lower(hex(sha256('')));
    UPDATE box_catalog SET digest = told, taken_at = now_ms(), changes = changes + 1, left_out = 0, why = NULL
     WHERE box_id = NEW.box_id AND told = lower(hex(sha256(''))) AND digest IS NOT told;
    INSERT INTO call (box_id, op, args, nonce, asked_at)
    SELECT box_id, 'op:list', '[]', nonce(), now_ms() FROM catalog_due WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER catalog_is_taken INSTEAD OF INSERT ON catalog_taken
BEGIN
    UPDATE box_catalog SET why = substr(a.why, 1, 512),
           due_at = iif(a.why IS NULL, due_at,
                        max(due_at, now_ms() + (SELECT value FROM setting WHERE name = 'catalog.retry_ms')))
      FROM catalog_answer AS a WHERE a.call_id = NEW.call_id AND box_catalog.box_id = NEW.box_id;
    DELETE FROM box_op WHERE box_id = NEW.box_id
       AND EXISTS (SELECT 1 FROM catalog_answer WHERE call_id = NEW.call_id AND why IS NULL);
    INSERT INTO box_op (box_id, op, summary, params)
    SELECT NEW.box_id, op, summary, params
      FROM (SELECT op, summary, params, min(seq) FROM catalog_entry WHERE call_id = NEW.call_id GROUP BY op)
     WHERE (SELECT why IS NULL FROM box_catalog WHERE box_id = NEW.box_id);
    UPDATE box_catalog
       SET digest = (SELECT digest FROM catalog_answer WHERE call_id = NEW.call_id), taken_at = now_ms(),
           changes = changes + 1,
           left_out = (SELECT count(*) FROM catalog_line WHERE call_id = NEW.call_id)
                    - (SELECT count(*) FROM box_op WHERE box_id = NEW.box_id)
     WHERE box_id = NEW.box_id AND why IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'box_catalog', k.box_id, iif(k.why IS NULL, 'taken', 'refused'), '',
           json_object('box', (SELECT name FROM host_box WHERE id = k.box_id), 'digest', k.digest,
                       'ops', (SELECT count(*) FROM box_op WHERE box_id = k.box_id), 'left_out', k.left_out, 'why', k.why)
      FROM box_catalog AS k WHERE k.box_id = NEW.box_id;
    -- It beat again meanwhile.
    INSERT INTO call (box_id, op, args, nonce, asked_at)
    SELECT box_id, 'op:list', '[]', nonce(), now_ms() FROM catalog_due WHERE box_id = NEW.box_id;
END;
