-- 0004_bounds.sql: grants with bounds, windows and rates; more ops, and ops that act.

DROP TRIGGER approval_born;
DROP TRIGGER approval_moves;
DROP TRIGGER approval_audit_birth;
DROP TRIGGER grant_on_a_persons_word;
DROP TRIGGER grant_burns_its_approval;
DROP TRIGGER grant_moves;
DROP TRIGGER op_run_is_allowed;
DROP TRIGGER op_run_spends;
DROP TRIGGER op_run_moves;
DROP VIEW open_approvals;
DROP VIEW live_grants;
DROP VIEW mcp_tool;
DROP VIEW pairing_may;
DROP VIEW host_may;
DROP VIEW waiting;
DROP VIEW expiring;
DROP INDEX approval_pending_once;

ALTER TABLE grant DROP COLUMN seal_text;
ALTER TABLE grant DROP COLUMN kind;
ALTER TABLE grant ADD COLUMN kind        TEXT    NOT NULL DEFAULT 'op'
                CHECK (kind IN ('op', 'root', 'folder', 'egress', 'terminal', 'model', 'tool'));
ALTER TABLE grant ADD COLUMN bounds      TEXT    CHECK (bounds IS NULL OR json_valid(bounds));
ALTER TABLE grant ADD COLUMN seal_text   TEXT    GENERATED ALWAYS AS
                (CASE WHEN bounds IS NULL
                 THEN json_array('grant', pairing_id, kind, op, args, uses, created_at, expires_at,
                                 factor_id, approval_id)
                 ELSE json_array('bounded', pairing_id, kind, op, args, uses, created_at, expires_at,
                                 factor_id, approval_id, bounds) END) VIRTUAL;
ALTER TABLE approval DROP COLUMN terms;
ALTER TABLE approval DROP COLUMN kind;
ALTER TABLE approval ADD COLUMN kind           TEXT    NOT NULL DEFAULT 'op'
                   CHECK (kind IN ('op', 'root', 'folder', 'egress', 'terminal', 'model', 'tool'));
ALTER TABLE approval ADD COLUMN bounds         TEXT    CHECK (bounds IS NULL OR json_valid(bounds));
ALTER TABLE approval ADD COLUMN words          TEXT    CHECK ((words IS NULL) = (bounds IS NULL));
ALTER TABLE approval ADD COLUMN terms          TEXT    GENERATED ALWAYS AS (
        'bastion approval ' || iif(bounds IS NULL, 1, 2) || char(10) ||
        'machine: ' || box_name || char(10) ||
        'host: ' || host_name || char(10) ||
        'may: ' || op || char(10) ||
        'with: ' || args || char(10) ||
        iif(bounds IS NULL, '', 'within: ' || bounds || char(10) || words || char(10)) ||
        'uses: ' || uses || char(10) ||
        'for: ' || (ttl_ms / 1000) || ' s from the approval' || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL;
ALTER TABLE op DROP COLUMN class;
ALTER TABLE op ADD COLUMN class   TEXT NOT NULL DEFAULT 'observe'
            CHECK (class IN ('observe', 'own', 'action', 'root', 'folder', 'egress', 'terminal', 'model', 'tool'));
ALTER TABLE op_run ADD COLUMN dry         INTEGER NOT NULL DEFAULT 0 CHECK (dry IN (0, 1));
ALTER TABLE call ADD COLUMN dry         INTEGER NOT NULL DEFAULT 0 CHECK (dry IN (0, 1));
ALTER TABLE call ADD COLUMN bounds      TEXT    CHECK (bounds IS NULL OR (json_valid(bounds) AND length(bounds) <= 4096));

CREATE TABLE verb (
    name TEXT PRIMARY KEY CHECK (name GLOB '[a-z]*.[a-z]*'),
    op   TEXT NOT NULL UNIQUE REFERENCES op (name),
    tool TEXT                                                  -- the program that it needs; NULL: none
) STRICT, WITHOUT ROWID;

-- What the worker found when it started. Nothing here yet: nobody has looked, and nothing is held up.
CREATE TABLE verb_support (
    verb      TEXT    PRIMARY KEY REFERENCES verb (name),
    works     INTEGER NOT NULL CHECK (works IN (0, 1)),
    why       TEXT    NOT NULL CHECK (length(why) <= 512),     -- what is missing; '' where it works
    probed_at INTEGER NOT NULL,
    CHECK (works = (why = ''))
) STRICT, WITHOUT ROWID;

-- What a machine says of itself to a Host: each verb, also one whose tool is missing.
CREATE VIEW verb_report AS
SELECT v.name, v.op, v.tool, s.works, s.why, s.probed_at
  FROM verb AS v LEFT JOIN verb_support AS s ON s.verb = v.name;

-- The same question is asked once, however often the Host repeats it.
CREATE UNIQUE INDEX approval_pending_once
    ON approval (pairing_id, op, args, uses, ttl_ms, coalesce(bounds, ''))
 WHERE state = 'pending';

CREATE INDEX grant_bounded ON grant (pairing_id, op) WHERE state = 'active' AND bounds IS NOT NULL;

CREATE TRIGGER approval_within BEFORE INSERT ON approval
WHEN NEW.bounds IS NOT NULL AND json_valid(NEW.args)
BEGIN
    SELECT RAISE(ABORT, 'grant.bounds|bounds are a JSON object of at most 4096 bytes with something in it')
     WHERE CASE WHEN json_valid(NEW.bounds)
                THEN json_type(NEW.bounds) <> 'object' OR NEW.bounds = '{}' OR NEW.bounds <> json(NEW.bounds)
                  OR length(CAST(NEW.bounds AS BLOB)) > 4096
                ELSE 1 END;
    SELECT RAISE(ABORT, 'grant.bounds|a bound names no parameter of this op, or names it twice')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.bounds) AS b
            WHERE b.key NOT IN ('_window', '_rate')
              AND b.key NOT IN (SELECT name FROM op_param WHERE op = NEW.op))
        OR (SELECT count(*) <> count(DISTINCT key) FROM json_each(NEW.bounds));
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
END;

-- (In a BEFORE UPDATE trigger NEW's generated columns are not computed yet: name what they are made of.)
CREATE TRIGGER approval_moves BEFORE UPDATE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.decided|this question is decided already')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'approval' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'approval.decided|this question is decided already')
     WHERE NEW.state IS OLD.state AND OLD.digest IS NOT NULL;
    SELECT RAISE(ABORT, 'approval.terms|the terms of a question never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.kind IS NOT OLD.kind
        OR NEW.box_name IS NOT OLD.box_name OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_name IS NOT OLD.host_name OR NEW.op IS NOT OLD.op OR NEW.args IS NOT OLD.args
        OR NEW.uses IS NOT OLD.uses OR NEW.ttl_ms IS NOT OLD.ttl_ms
        OR NEW.bounds IS NOT OLD.bounds OR NEW.words IS NOT OLD.words OR NEW.digest IS NOT coalesce(OLD.digest, sha256(OLD.terms))
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'approval.expired|this question ran out before it was answered')
     WHERE NEW.state IN ('approved', 'denied') AND OLD.state = 'pending' AND OLD.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'approval.factor|the approving factor is not active')
     WHERE NEW.state = 'approved'
       AND (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'approval.terms|what was approved is not what was asked')
     WHERE NEW.state = 'approved' AND sha256(OLD.terms) IS NOT NEW.decided_digest;
END;

CREATE TRIGGER approval_audit_birth AFTER INSERT ON approval
BEGIN
    UPDATE approval SET digest = sha256(terms) WHERE id = NEW.id AND digest IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'approval', NEW.id, NEW.state, NEW.host_name,
            json_patch(json_object('op', NEW.op, 'args', json(NEW.args), 'uses', NEW.uses,
                                   'ttl_ms', NEW.ttl_ms,
                                   'digest', (SELECT lower(hex(digest)) FROM approval WHERE id = NEW.id)),
                       json_object('bounds', json(NEW.bounds))));
END;

CREATE TRIGGER grant_on_a_persons_word BEFORE INSERT ON grant
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'grant.approval|a grant repeats an approval that was given and not used')
     WHERE NOT EXISTS (SELECT 1 FROM approval AS a
           WHERE a.id = NEW.approval_id AND a.state = 'approved' AND a.kind = NEW.kind
             AND a.pairing_id = NEW.pairing_id AND a.op = NEW.op AND a.args = NEW.args
             AND a.bounds IS NEW.bounds AND a.uses = NEW.uses AND a.factor_id = NEW.factor_id
             AND a.decided_at = NEW.created_at AND NEW.expires_at = a.decided_at + a.ttl_ms);
    SELECT RAISE(ABORT, 'grant.seal|the seal of this grant is not of this machine')
     WHERE seal_ok('grant', NEW.seal_text, NEW.seal) IS NOT 1;
    SELECT RAISE(ABORT, 'grant.transition|a grant begins as active') WHERE NEW.state <> 'active';
END;

-- An approval is burned in the transaction that uses it.
CREATE TRIGGER grant_burns_its_approval AFTER INSERT ON grant
BEGIN
    UPDATE approval SET state = 'burned' WHERE id = NEW.approval_id;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'grant', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_patch(json_object('op', NEW.op, 'args', json(NEW.args), 'uses', NEW.uses,
                                   'expires_at', NEW.expires_at, 'approval', NEW.approval_id,
                                   'factor', NEW.factor_id),
                       json_object('bounds', json(NEW.bounds))));
END;

CREATE TRIGGER grant_moves BEFORE UPDATE ON grant
BEGIN
    SELECT RAISE(ABORT, 'grant.final|an ended grant stays ended')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'grant' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'grant.fixed|the terms of a grant never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.kind IS NOT OLD.kind
        OR NEW.op IS NOT OLD.op OR NEW.args IS NOT OLD.args OR NEW.uses IS NOT OLD.uses
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at
        OR NEW.factor_id IS NOT OLD.factor_id OR NEW.approval_id IS NOT OLD.approval_id
        OR NEW.bounds IS NOT OLD.bounds OR NEW.seal IS NOT OLD.seal;
END;

-- Deciding is what the database does most: what says yes or no is read once.
CREATE TRIGGER op_run_is_allowed BEFORE INSERT ON op_run
BEGIN
    SELECT CASE
           WHEN b.mode IS NOT 'local' AND NOT EXISTS (SELECT 1 FROM live_anchor)
           THEN RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
           WHEN p.state IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id)
           THEN RAISE(ABORT, 'pairing.invalid|this pairing is not served')
           WHEN o.name IS NULL
           THEN RAISE(ABORT, 'op.unknown|there is no op of this name')
           WHEN EXISTS (SELECT 1 FROM op_run WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce)
           THEN RAISE(ABORT, 'op.replayed|this ask was made before')
           WHEN NEW.state <> 'queued'
           THEN RAISE(ABORT, 'op.transition|a run begins as queued')
           -- Live runs lie between the oldest of them and the newest run: mostly that is few enough.
           WHEN (SELECT max(id) FROM op_run)
              - (SELECT min(id) FROM op_run WHERE finished_at IS NULL) + 1
             >= (SELECT min(value) FROM setting WHERE name IN ('op.live', 'op.live_per_host'))
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
           WHEN b.mode IS NOT 'local' AND NEW.pairing_id IS NOT (SELECT pairing_id FROM anchor)
            AND NOT EXISTS (SELECT 1 FROM approved_kinds
                             WHERE pairing_id = NEW.pairing_id AND class = o.class)
           THEN RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
           WHEN g.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.gone|the grant was taken back or is used up')
           WHEN g.pairing_id <> NEW.pairing_id OR g.op <> NEW.op
           THEN RAISE(ABORT, 'grant.other|the grant is for another Host or op')
           -- The arguments themselves, or what the bounds let take their place.
           WHEN g.args <> NEW.args
            AND (g.bounds IS NULL OR instr(NEW.args, '\u0000') > 0
                 OR json_array_length(NEW.args) > (SELECT count(*) FROM op_param WHERE op = NEW.op)
                 OR EXISTS (SELECT 1 FROM grant_bound AS b WHERE b.grant_id = g.id
                       AND NOT CASE b.rule
                           WHEN 'in' THEN coalesce((NEW.args ->> b.at) IN
                                (SELECT CAST(value AS TEXT) FROM json_each(b.bound)), 0)
                           ELSE bound_holds(b.rule, b.bound, NEW.args ->> b.at) END))
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
            AND EXISTS (SELECT 1 FROM verb AS v JOIN verb_support AS s ON s.verb = v.name
                         WHERE v.op = NEW.op AND NOT s.works)
           THEN (SELECT refuse('act.tool', s.why, 0) FROM verb AS v JOIN verb_support AS s ON s.verb = v.name
                  WHERE v.op = NEW.op)
           WHEN NEW.dry OR g.bounds IS NULL
           THEN NULL
           -- Not now: nothing is spent.
           ELSE (SELECT CASE WHEN n.at IS NOT now_ms() THEN refuse(n.code, n.why, nullif(n.at, n.ends)) END
                   FROM grant_not_now AS n WHERE n.id = g.id)
           END
      FROM (SELECT 1) AS asked
      LEFT JOIN box AS b ON b.id = 1
      LEFT JOIN pairing AS p ON p.id = NEW.pairing_id
      LEFT JOIN op AS o ON o.name = NEW.op
      LEFT JOIN grant AS g ON g.id = NEW.grant_id
      LEFT JOIN factor AS f ON f.id = g.factor_id;
END;

CREATE TRIGGER op_run_spends AFTER INSERT ON op_run WHEN NEW.grant_id IS NOT NULL
BEGIN
    INSERT INTO grant_use (grant_id, n, op_run_id, at)
    SELECT NEW.grant_id, coalesce(max(n), 0) + 1, NEW.id, NEW.queued_at
      FROM grant_use WHERE grant_id = NEW.grant_id HAVING NOT NEW.dry;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            CASE WHEN NEW.dry
                 THEN json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NEW.grant_id, 'dry', 1)
                 ELSE json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NEW.grant_id) END);
END;

CREATE TRIGGER op_run_moves BEFORE UPDATE ON op_run
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a run cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'op_run' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'op.final|a finished run is history')
     WHERE NEW.state IS OLD.state AND OLD.finished_at IS NOT NULL;
    SELECT RAISE(ABORT, 'op.fixed|a run keeps what it was authorised for')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.op IS NOT OLD.op
        OR NEW.args IS NOT OLD.args OR NEW.nonce IS NOT OLD.nonce OR NEW.grant_id IS NOT OLD.grant_id
        OR NEW.dry IS NOT OLD.dry;
    SELECT RAISE(ABORT, 'op.seq|output only grows') WHERE NEW.last_seq < OLD.last_seq;
END;

-- What a Host asks about its own grants is done and answered here. Giving one back tightens: nothing
-- holds it up, and what is not held, or is another's, is dropped already.
CREATE TRIGGER op_run_is_own AFTER INSERT ON op_run WHEN NEW.grant_id IS NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NULL));
    UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = NEW.id;
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.id, 1, json_object('r', json_object('dropped', count(*)))
      FROM grant WHERE NEW.op = 'grant:drop' AND state = 'active' AND pairing_id = NEW.pairing_id
       AND (NEW.args ->> 0) IN ('all', CAST(id AS TEXT)) HAVING NEW.op = 'grant:drop';
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'given back by the Host'
     WHERE NEW.op = 'grant:drop' AND state = 'active' AND pairing_id = NEW.pairing_id
       AND (NEW.args ->> 0) IN ('all', CAST(id AS TEXT));
    INSERT INTO op_output (op_run_id, seq, frame)
    SELECT NEW.id, 1, json_object('r', json_object(
           'grants', json_group_array(json(grant)), 'more', coalesce(max(n), 0) - count(*)))
      FROM (SELECT json_object('grant', g.id, 'op', g.op, 'args', json(g.args), 'bounds', json(g.bounds),
                       'uses_left', g.uses - g.used, 'expires_at', g.expires_at, 'next_at', g.next_at) AS grant,
                   count(*) OVER () AS n
              FROM live_grants AS g JOIN grant AS own ON own.id = g.id
             WHERE own.pairing_id = NEW.pairing_id AND NEW.op = 'grant:list' ORDER BY g.id LIMIT 100)
    HAVING NEW.op = 'grant:list';
    UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms() WHERE id = NEW.id;
END;

-- What waits for a person.
CREATE VIEW open_approvals AS
SELECT id, host_name AS host, op, args, uses, ttl_ms, asked_at, expires_at, lower(hex(digest)) AS digest,
       kind, bounds, words
  FROM approval WHERE state = 'pending' AND expires_at > now_ms();

-- What Hosts may do now.
CREATE VIEW live_grants AS
SELECT g.id, p.host_name AS host, g.op, g.args, g.uses,
       (SELECT coalesce(max(u.n), 0) FROM grant_use AS u WHERE u.grant_id = g.id) AS used,
       g.created_at, g.expires_at, f.label AS approver, g.approval_id, g.kind, g.bounds,
       (SELECT at FROM grant_next WHERE id = g.id) AS next_at
  FROM grant AS g
  JOIN pairing AS p ON p.id = g.pairing_id AND p.state = 'active'
  JOIN factor AS f ON f.id = g.factor_id AND f.state = 'active'
 WHERE g.state = 'active' AND g.expires_at > now_ms();

-- What a Host offers to agents: each op of each box, by a name that MCP allows. A box offers none.
CREATE VIEW mcp_tool AS
SELECT b.name || '.' || replace(o.name, ':', '_') AS name, b.name AS box, o.name AS op,
       json_patch(json_object(
           'name', b.name || '.' || replace(o.name, ':', '_'),
           'title', b.name || ': ' || o.summary,
           'description', 'On the machine ' || b.name || ': ' || o.summary
               || iif(o.class = 'own', '.', '. A person at ' || b.name
                      || ' approves each kind of ask first; the call waits for that.'),
           'inputSchema', json(i.schema)),
         json_object(
           'outputSchema', json(r.schema),
           'annotations', json_object(
               'title', b.name || ': ' || o.summary,
               'readOnlyHint', json(iif(o.class = 'observe' OR o.name = 'grant:list', 'true', 'false')),
               'destructiveHint', json(iif(o.class IN ('observe', 'own'), 'false', 'true')),
               'idempotentHint', json(iif(o.class IN ('observe', 'own'), 'true', 'false')),
               'openWorldHint', json('false')))) AS tool
  FROM host_box AS b CROSS JOIN op AS o
  JOIN op_input AS i ON i.op = o.name
  LEFT JOIN op_result AS r ON r.op = o.name
 WHERE b.state = 'active';

-- What a Host may ask for at all, before any grant: everything on a local machine; on a network
-- nothing without an anchor, everything for the anchor, and for others the kinds that it approved.
CREATE VIEW pairing_may AS
SELECT p.id AS pairing_id, o.name AS op
  FROM pairing AS p JOIN op AS o
 WHERE (SELECT mode FROM box) = 'local'
    OR p.id IS (SELECT pairing_id FROM live_anchor)
    OR (EXISTS (SELECT 1 FROM live_anchor)
        AND (o.class = 'own'
             OR EXISTS (SELECT 1 FROM approved_kinds WHERE pairing_id = p.id AND class = o.class)));

-- What may a Host do now, how often still, until when, and on whose word? A grant that the anchor of a
-- machine on a network does not let it use, or of a pairing that cannot be served, is not in it.
CREATE VIEW host_may AS
SELECT g.host, g.op, g.args, g.uses - g.used AS uses_left, g.expires_at,
       a.decided_by AS approved_by, g.approver AS approved_with, g.id AS grant_id, g.approval_id
  FROM live_grants AS g
  JOIN approval AS a ON a.id = g.approval_id
  JOIN pairing_may AS m ON m.pairing_id = a.pairing_id AND m.op = g.op
 WHERE NOT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = a.pairing_id);

-- What waits for a person, since when, until when, and what they type to answer it?
CREATE VIEW waiting AS
SELECT 'approval' AS kind, id, host, op || ' ' || args AS what, asked_at, expires_at,
       'bastion approve ' || id AS answer
  FROM open_approvals
UNION ALL
SELECT 'pairing', id, host, 'the word of the anchor', since, NULL, 'bastion pairings show ' || host
  FROM pairing_status WHERE state = 'pending'
UNION ALL
SELECT 'folder', id, host, 'uid ' || uid || ' shares ' || root, asked_at, expires_at,
       'bastion context allow ' || id
  FROM open_context_asks
UNION ALL
SELECT 'invitation', id, NULL, 'the box ' || box_name || ' has not come yet', created_at, expires_at,
       'on the box: bastion pair CODE'
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, asked_at, expires_at,
       'bastion sql -w --amendment ' || id || ' --signature FILE'
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms();

-- What is about to end by itself, first things first?
CREATE VIEW expiring AS
SELECT 'grant' AS kind, id, host AS name, op || ' ' || args AS what, expires_at FROM live_grants
UNION ALL
SELECT 'approval', id, host, op || ' ' || args, expires_at FROM open_approvals
UNION ALL
SELECT 'folder', id, host, 'uid ' || uid || ' shares ' || root, expires_at FROM open_context_asks
UNION ALL
SELECT 'pairing', a.pairing_id, p.host_name, 'the word of the anchor', a.approved_until
  FROM approved_pairings AS a JOIN pairing AS p ON p.id = a.pairing_id
UNION ALL
SELECT 'invitation', id, box_name, 'a pairing code', expires_at
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, expires_at
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms()
UNION ALL
SELECT 'lease', NULL, name, 'held', expires_at
  FROM lease WHERE process_id IS NOT NULL AND expires_at > now_ms();

UPDATE refusal SET advice = 'ask for as many minutes as bastion ops says' WHERE code = 'observe.minutes';

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('act.changed', 75, 409, 'look again with --dry, then ask again'),
    ('act.exists', 2, 409, 'move what is there first, or choose another name'),
    ('act.failed', 1, 500, 'see the reason; the rest of the machine is as it was'),
    ('act.file', 2, 422, 'name a plain file'),
    ('act.missing', 2, 404, 'make the folder first, or mend the path'),
    ('act.own', 126, 403, 'leave what bastion keeps for itself to its own verbs'),
    ('act.package', 2, 422, 'see observe:packages for names'),
    ('act.path', 2, 422, 'give an absolute path without . .. or links, outside /proc, /sys and /dev'),
    ('act.ref', 2, 422, 'name a branch, tag or commit that the tree has'),
    ('act.tool', 3, 501, 'install the program that the message names'),
    ('act.tree', 126, 403, 'give the tree to the user that bastion runs as, with a plain configuration'),
    ('act.unit', 2, 422, 'see observe:services for the names'),
    ('act.user', 2, 422, 'see observe:users for the names'),
    ('approval.kind', 2, 422, 'see bastion ops for the class of each op'),
    ('approval.root', 2, 422, 'ask for 30 days or less'),
    ('grant.bounds', 2, 422, 'give bounds as schema/bound.sql has them: see bastion help grants'),
    ('grant.many', 75, 429, 'drop a grant that is not needed any more, or wait until one ends'),
    ('grant.rate', 75, 429, 'wait until its rate lets it be used again'),
    ('grant.window', 75, 429, 'wait until its window opens'),
    ('observe.owner', 2, 422, 'give the name of an account, as observe:users shows it'),
    ('observe.owner_unknown', 2, 404, 'see observe:users for the accounts'),
    ('observe.package', 2, 422, 'give the beginning of a package name, or *'),
    ('observe.state', 2, 422, 'ask for all, failed or running'),
    ('op.dry', 2, 422, 'ask without --dry');

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('act.time_ms', 900000, 'ms', 1000, 86400000, 'time for one run of an op that acts'),
    ('act.tool_ms', 600000, 'ms', 100, 86400000, 'time for one program that such a run starts'),
    ('grant.bounded', 32, 'rows', 0, 256, 'live grants with bounds of one Host for one op'),
    ('grant.rate_ms', 2592000000, 'ms', 1000, 31536000000, 'longest time that the rate of a grant may count over'),
    ('grant.root_ttl_ms', 2592000000, 'ms', 1000, 2592000000, 'longest life of a grant to run something as root, counted from when it was given'),
    ('observe.rows', 500, 'rows', 1, 10000, 'services, packages, processes and the like named in one answer');

INSERT INTO op (name, class, usage, summary) VALUES
    ('observe:services', 'observe', '[all | failed | running]', 'the services that systemd has loaded, and how they are'),
    ('observe:timers', 'observe', '', 'the timers of systemd: when they ran and when they run next'),
    ('observe:listeners', 'observe', '', 'the TCP and UDP sockets that wait for others, and whose they are'),
    ('observe:packages', 'observe', '[PREFIX | *]', 'the Debian packages that are installed, with their versions'),
    ('observe:firewall', 'observe', '', 'the chains of the packet filter: their hooks, policies and numbers of rules'),
    ('observe:load', 'observe', '', 'how long this machine is up, its load, memory and swap'),
    ('observe:disks', 'observe', '', 'the file systems that are mounted, and how full they are'),
    ('observe:users', 'observe', '', 'the accounts of the password file: who can log in, who administers'),
    ('observe:processes', 'observe', '[OWNER]', 'how many processes each account runs, or those of one account'),
    ('observe:kernel', 'observe', '[MINUTES 1..1440]', 'what the kernel logged lately'),
    ('grant:list', 'own', '', 'what this Host may do here, within which bounds, and when next'),
    ('grant:drop', 'own', 'GRANT | all', 'give back a grant of this Host, or all of them'),
    ('file:put', 'action', 'PATH TEXT', 'write a file whole, keeping its owner and mode; dry: which lines would change'),
    ('file:move', 'action', 'FROM TO', 'move a file or folder within its file system, onto nothing'),
    ('service:restart', 'action', 'SERVICE', 'restart a service of systemd'),
    ('tree:checkout', 'action', 'TREE REF', 'check out a commit that a git tree of bastion''s user has already'),
    ('package:install', 'action', 'PACKAGE', 'install a Debian package with what it needs'),
    ('user:lock', 'action', 'ACCOUNT', 'lock the password of an account');

INSERT INTO op_param (op, position, name, type, needed, low, high, pattern, fallback, doc) VALUES
    ('observe:services', 1, 'state', 'string', 0, 1, 7, '^(all|failed|running)$', 'all', 'which of them'),
    ('observe:packages', 1, 'prefix', 'string', 0, 1, 64, NULL, '*', 'how their names begin; * for all'),
    ('observe:processes', 1, 'owner', 'string', 0, 1, 32, NULL, NULL, 'the name of an account; without one all are counted'),
    ('observe:kernel', 1, 'minutes', 'integer', 0, 1, 1440, NULL, '15', 'how far to look back'),
    ('file:put', 1, 'path', 'string', 1, 2, 4095, '^/', NULL, 'absolute path of the file'),
    ('file:put', 2, 'text', 'string', 1, 1, 4095, NULL, NULL, 'all that is to be in it'),
    ('file:move', 1, 'source', 'string', 1, 2, 4095, '^/', NULL, 'absolute path of what is moved'),
    ('file:move', 2, 'target', 'string', 1, 2, 4095, '^/', NULL, 'absolute path that it has then'),
    ('service:restart', 1, 'service', 'string', 1, 1, 112, NULL, NULL, 'the name of the service'),
    ('tree:checkout', 1, 'tree', 'string', 1, 2, 255, '^/', NULL, 'absolute path of the tree'),
    ('tree:checkout', 2, 'ref', 'string', 1, 1, 128, NULL, NULL, 'a branch, tag or commit that is there'),
    ('package:install', 1, 'package', 'string', 1, 1, 64, NULL, NULL, 'its name'),
    ('user:lock', 1, 'account', 'string', 1, 1, 32, NULL, NULL, 'its name'),
    ('grant:drop', 1, 'grant', 'string', 1, 1, 19, '^(all|[1-9][0-9]*)$', NULL, 'the number of a grant, or all');

INSERT INTO op_result (op, schema) VALUES
    ('observe:services', '{"type":"object","properties":{"state":{"type":"string"},"count":{"type":"integer"},"failed":{"type":"integer"},"services":{"type":"array","items":{"type":"object","properties":{"unit":{"type":"string"},"active":{"type":"string"},"sub":{"type":"string"},"loaded":{"type":"string"},"about":{"type":["string","null"]}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:timers', '{"type":"object","properties":{"count":{"type":"integer"},"timers":{"type":"array","items":{"type":"object","properties":{"unit":{"type":"string"},"activates":{"type":["string","null"]},"next":{"type":["string","null"]},"last":{"type":["string","null"]}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:listeners', '{"type":"object","properties":{"count":{"type":"integer"},"listeners":{"type":"array","items":{"type":"object","properties":{"proto":{"type":"string"},"address":{"type":"string"},"port":{"type":"integer"},"process":{"type":["string","null"]},"pid":{"type":["integer","null"]}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:packages', '{"type":"object","properties":{"prefix":{"type":"string"},"count":{"type":"integer"},"packages":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"version":{"type":"string"},"status":{"type":"string"}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:firewall', '{"type":"object","properties":{"tables":{"type":"integer"},"rules":{"type":"integer"},"chains":{"type":"array","items":{"type":"object","properties":{"family":{"type":"string"},"table":{"type":"string"},"name":{"type":"string"},"hook":{"type":["string","null"]},"policy":{"type":["string","null"]},"rules":{"type":"integer"}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:load', '{"type":"object","properties":{"uptime_s":{"type":"integer"},"load":{"type":"array","items":{"type":"number"}},"cpus":{"type":"integer"},"memory":{"type":"object","properties":{"total_bytes":{"type":"integer"},"available_bytes":{"type":"integer"}}},"swap":{"type":"object","properties":{"total_bytes":{"type":"integer"},"free_bytes":{"type":"integer"}}},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:disks', '{"type":"object","properties":{"disks":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"device":{"type":"string"},"type":{"type":"string"},"size_bytes":{"type":["integer","null"]},"used_bytes":{"type":["integer","null"]},"used_percent":{"type":["integer","null"]},"inodes":{"type":["integer","null"]},"inodes_free":{"type":["integer","null"]},"not_asked":{"type":["string","null"]}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:users', '{"type":"object","properties":{"count":{"type":"integer"},"users":{"type":"array","items":{"type":"object","properties":{"user":{"type":"string"},"uid":{"type":"integer"},"home":{"type":"string"},"shell":{"type":"string"},"logs_in":{"type":"boolean"},"groups":{"type":"array","items":{"type":"string"}},"admin":{"type":"boolean"}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:processes', '{"type":"object","properties":{"owner":{"type":["string","null"]},"processes":{"type":"integer"},"owners":{"type":"array","items":{"type":"object","properties":{"user":{"type":["string","null"]},"uid":{"type":"integer"},"processes":{"type":"integer"},"threads":{"type":"integer"},"rss_bytes":{"type":"integer"}}}},"list":{"type":"array","items":{"type":"object","properties":{"pid":{"type":"integer"},"name":{"type":"string"},"state":{"type":"string"},"threads":{"type":"integer"},"rss_bytes":{"type":"integer"}}}},"more":{"type":"integer","description":"that are not listed"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":[]}'),
    ('observe:kernel', '{"type":"object","properties":{"unit":{"type":"string"},"minutes":{"type":"integer"},"lines":{"type":"integer"},"bytes":{"type":"integer"},"cut":{"type":"boolean"},"unreadable":{"type":"string","description":"why there is no answer"}},"required":["unit","minutes","lines","bytes"]}'),
    ('file:put', '{"type":"object","properties":{"path":{"type":"string"},"dry":{"type":"boolean"},"changed":{"type":"boolean"},"exists":{"type":"boolean"},"bytes_before":{"type":["integer","null"]},"bytes_after":{"type":"integer"},"from_line":{"type":["integer","null"]},"lines_removed":{"type":"integer"},"lines_added":{"type":"integer"},"mode":{"type":"string"}},"required":["path","dry","changed"]}'),
    ('file:move', '{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"dry":{"type":"boolean"},"kind":{"type":"string"},"bytes":{"type":"integer"}},"required":["from","to","dry"]}'),
    ('service:restart', '{"type":"object","properties":{"unit":{"type":"string"},"dry":{"type":"boolean"},"before":{"type":["string","null"]},"after":{"type":["string","null"]}},"required":["unit","dry"]}'),
    ('tree:checkout', '{"type":"object","properties":{"tree":{"type":"string"},"ref":{"type":"string"},"dry":{"type":"boolean"},"head":{"type":"string"},"commit":{"type":"string"},"files":{"type":"array","items":{"type":"object","properties":{"change":{"type":"string"},"path":{"type":"string"}}}},"more":{"type":"integer"}},"required":["tree","ref","dry","commit"]}'),
    ('package:install', '{"type":"object","properties":{"package":{"type":"string"},"dry":{"type":"boolean"},"installs":{"type":"array","items":{"type":"string"}},"removes":{"type":"array","items":{"type":"string"}}},"required":["package","dry"]}'),
    ('user:lock', '{"type":"object","properties":{"user":{"type":"string"},"uid":{"type":"integer"},"dry":{"type":"boolean"}},"required":["user","dry"]}'),
    ('grant:list', '{"type":"object","properties":{"grants":{"type":"array","items":{"type":"object","properties":{"grant":{"type":"integer"},"op":{"type":"string"},"args":{"type":"array","items":{"type":"string"}},"bounds":{"type":["object","null"]},"uses_left":{"type":"integer"},"expires_at":{"type":"integer","description":"ms UTC"},"next_at":{"type":["integer","null"],"description":"ms UTC: when a window or a rate lets it be used next"}},"required":["grant","op","args","uses_left","expires_at"]}},"more":{"type":"integer","description":"grants that are not listed"}},"required":["grants"]}'),
    ('grant:drop', '{"type":"object","properties":{"dropped":{"type":"integer"}},"required":["dropped"]}');

INSERT INTO verb (name, op, tool) VALUES
    ('file.put', 'file:put', NULL),
    ('file.move', 'file:move', NULL),
    ('service.restart', 'service:restart', 'systemctl'),
    ('tree.checkout', 'tree:checkout', 'git'),
    ('package.install', 'package:install', 'apt-get'),
    ('user.lock', 'user:lock', 'usermod');
