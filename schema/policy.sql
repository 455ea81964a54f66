-- policy.sql: whether a tool of an agent may do what it asks for: the policy, what a person always
-- allows or denies, and each decision with what every gate said.

-- What the policy is made of, and what holds where nobody said anything. hardens: a layer other than
-- the person at the machine may only turn it on.
CREATE TABLE policy_field (
    name     TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
    kind     TEXT    NOT NULL CHECK (kind IN ('mode', 'network', 'autonomy', 'answer', 'bool')),
    fallback TEXT    NOT NULL,
    hardens  INTEGER NOT NULL CHECK (hardens IN (0, 1)),
    doc      TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- What somebody set in the policy of tools. The text may be anything: policy_now says what it comes to.
CREATE TABLE policy_value (
    name  TEXT    NOT NULL REFERENCES policy_field (name),
    layer TEXT    NOT NULL CHECK (layer IN ('config', 'person')),
    value TEXT    NOT NULL CHECK (length(value) <= 64 AND instr(value, char(0)) = 0),
    PRIMARY KEY (name, layer)
) STRICT, WITHOUT ROWID;

-- Names that a tool of an agent may or may not reach, with all below them, where the network is scoped.
CREATE TABLE policy_domain (
    kind   TEXT NOT NULL CHECK (kind IN ('allow', 'deny')),
    domain TEXT NOT NULL CHECK (length(domain) BETWEEN 1 AND 253 AND domain = lower(trim(domain))
                AND instr(domain, char(0)) = 0 AND domain NOT GLOB '*[:/ ]*' AND domain NOT GLOB '*.'
                AND domain NOT GLOB '.*'),
    PRIMARY KEY (kind, domain)
) STRICT, WITHOUT ROWID;

-- Entries as they were written: one that leads nowhere sleeps until it leads somewhere again.
-- write_root: a directory beside the workspace.
CREATE TABLE policy_path (
    kind TEXT NOT NULL
         CHECK (kind IN ('allow_read', 'deny_read', 'allow_write', 'deny_write', 'write_root')),
    path TEXT NOT NULL CHECK (length(path) BETWEEN 1 AND 4095 AND trim(path) = path
              AND instr(path, char(0)) = 0),
    PRIMARY KEY (kind, path)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER policy_path_count BEFORE INSERT ON policy_path
BEGIN
    SELECT RAISE(ABORT, 'policy.full|this list of paths is as long as it may be')
     WHERE (SELECT count(*) FROM policy_path WHERE kind = NEW.kind)
           >= (SELECT value FROM setting WHERE name = 'policy.paths');
END;

-- The policy in force. The person's word is taken as it is where it is one; the layer below may
-- harden, never soften. A ceiling that is no level is the lowest one.
CREATE VIEW policy_now AS
SELECT f.name, f.kind,
       CASE f.kind
       WHEN 'autonomy' THEN CASE
           WHEN p.value <> '' THEN iif(p.value IN ('low', 'medium', 'high'), p.value, 'low')
           WHEN c.value <> '' THEN iif(c.value IN ('low', 'medium', 'high'), c.value, 'low')
           ELSE f.fallback END
       WHEN 'mode' THEN iif(p.value IN ('enforce', 'disabled'), p.value, f.fallback)
       WHEN 'answer' THEN iif(p.value IN ('deny', 'prompt'), p.value, f.fallback)
       WHEN 'network' THEN CASE
           WHEN p.value IN ('deny', 'allow', 'scoped') THEN p.value
           WHEN c.value IN ('deny', 'allow') THEN c.value
           ELSE f.fallback END
       ELSE CASE
           WHEN f.hardens AND c.value = '1' THEN '1'
           WHEN p.value IN ('0', '1') THEN p.value
           ELSE f.fallback END
       END AS value,
       CASE WHEN p.value IS NOT NULL THEN 'person' WHEN c.value IS NOT NULL THEN 'config'
            ELSE 'default' END AS source,
       f.doc
  FROM policy_field AS f
  LEFT JOIN (SELECT name, lower(trim(value)) AS value FROM policy_value WHERE layer = 'person') AS p
         ON p.name = f.name
  LEFT JOIN (SELECT name, lower(trim(value)) AS value FROM policy_value WHERE layer = 'config') AS c
         ON c.name = f.name;

-- The same as one object, which decisions keep.
CREATE VIEW policy_json AS
SELECT json_group_object(name, value) AS policy
  FROM (SELECT name, value FROM policy_now ORDER BY name);

CREATE TRIGGER policy_value_audit AFTER INSERT ON policy_value
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', NEW.name, 'set', '',
            json_object('value', NEW.value, 'layer', NEW.layer));
END;

CREATE TRIGGER policy_value_audit_change AFTER UPDATE ON policy_value
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', NEW.name, 'set', '',
            json_object('value', NEW.value, 'layer', NEW.layer, 'was', OLD.value));
END;

CREATE TRIGGER policy_value_audit_end AFTER DELETE ON policy_value
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', OLD.name, 'unset', '',
            json_object('layer', OLD.layer, 'was', OLD.value));
END;

CREATE TRIGGER policy_path_audit AFTER INSERT ON policy_path
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', NEW.kind, 'added', '', json_object('path', NEW.path));
END;

CREATE TRIGGER policy_path_audit_end AFTER DELETE ON policy_path
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', OLD.kind, 'removed', '', json_object('path', OLD.path));
END;

CREATE TRIGGER policy_domain_audit AFTER INSERT ON policy_domain
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', 'domain', 'added', '',
            json_object('kind', NEW.kind, 'domain', NEW.domain));
END;

CREATE TRIGGER policy_domain_audit_end AFTER DELETE ON policy_domain
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'policy', 'domain', 'removed', '',
            json_object('kind', OLD.kind, 'domain', OLD.domain));
END;

-- Always allow, always deny: a tool, or a tool for one file, or for one directory and all below it.
CREATE TABLE tool_grant (
    id           INTEGER PRIMARY KEY,
    tool         TEXT    NOT NULL CHECK (length(tool) BETWEEN 1 AND 128
                         AND tool NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(tool, char(0)) = 0),
    scope_kind   TEXT    NOT NULL CHECK (scope_kind IN ('', 'file', 'dir')),
    scope        TEXT    NOT NULL CHECK (length(scope) <= 4095 AND instr(scope, char(0)) = 0),
    decision     TEXT    NOT NULL CHECK (decision IN ('allow', 'deny')),
    max_autonomy TEXT    NOT NULL CHECK (max_autonomy IN ('low', 'medium', 'high')),
    reason       TEXT    NOT NULL CHECK (length(reason) <= 512 AND instr(reason, char(0)) = 0),
    approved_at  INTEGER NOT NULL,
    -- The bytes under the seal: an allow that another tool edited holds nothing.
    seal_text    TEXT    GENERATED ALWAYS AS
                 (json_array('tool_grant', tool, scope_kind, scope, decision, max_autonomy,
                             approved_at)) VIRTUAL,
    seal         BLOB    NOT NULL CHECK (length(seal) = 64),
    state        TEXT    NOT NULL DEFAULT 'active'
                 CHECK (state IN ('active', 'replaced', 'revoked')),
    ended_at     INTEGER,
    CHECK ((scope_kind = '') = (scope = '')),
    CHECK (scope = '' OR scope GLOB '/*'),
    CHECK ((state = 'active') = (ended_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX tool_grant_one ON tool_grant (tool, scope_kind, scope) WHERE state = 'active';

CREATE TRIGGER tool_grant_born BEFORE INSERT ON tool_grant
BEGIN
    SELECT RAISE(ABORT, 'tool_grant.tool|a tool has letters, digits, dots, dashes and underscores')
     WHERE length(NEW.tool) NOT BETWEEN 1 AND 128 OR NEW.tool GLOB '*[^A-Za-z0-9._-]*'
        OR instr(NEW.tool, char(0)) > 0;
    SELECT RAISE(ABORT, 'tool_grant.terms|it is allow or deny, up to low, medium or high')
     WHERE NEW.decision NOT IN ('allow', 'deny')
        OR NEW.max_autonomy NOT IN ('low', 'medium', 'high');
    SELECT RAISE(ABORT, 'tool_grant.seal|the seal of this grant is not of this machine')
     WHERE seal_ok('tool_grant', NEW.seal_text, NEW.seal) IS NOT 1;
    SELECT RAISE(ABORT, 'tool_grant.transition|a grant begins as active')
     WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'tool_grant.full|as many tool grants are held as may be')
     WHERE (SELECT count(*) FROM tool_grant WHERE state = 'active')
           >= (SELECT value FROM setting WHERE name = 'policy.tool_grants');
    -- Granting the same again takes the place of what was granted.
    UPDATE tool_grant SET state = 'replaced', ended_at = NEW.approved_at
     WHERE state = 'active' AND tool = NEW.tool AND scope_kind = NEW.scope_kind
       AND scope = NEW.scope;
END;

CREATE TRIGGER tool_grant_moves BEFORE UPDATE ON tool_grant
BEGIN
    SELECT RAISE(ABORT, 'tool_grant.final|an ended grant stays ended')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'tool_grant' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'tool_grant.fixed|the terms of a grant never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.tool IS NOT OLD.tool OR NEW.scope_kind IS NOT OLD.scope_kind
        OR NEW.scope IS NOT OLD.scope OR NEW.decision IS NOT OLD.decision
        OR NEW.max_autonomy IS NOT OLD.max_autonomy OR NEW.reason IS NOT OLD.reason
        OR NEW.approved_at IS NOT OLD.approved_at OR NEW.seal IS NOT OLD.seal;
END;

CREATE TRIGGER tool_grant_stays BEFORE DELETE ON tool_grant
BEGIN
    SELECT RAISE(ABORT, 'tool_grant.kept|a grant is revoked, not deleted');
END;

CREATE TRIGGER tool_grant_audit_birth AFTER INSERT ON tool_grant
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'tool_grant', NEW.id, NEW.state, '',
            json_object('tool', NEW.tool, 'scope', NEW.scope, 'kind', NEW.scope_kind,
                        'decision', NEW.decision, 'max_autonomy', NEW.max_autonomy,
                        'reason', NEW.reason));
END;

CREATE TRIGGER tool_grant_audit_move AFTER UPDATE OF state ON tool_grant
WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'tool_grant', NEW.id, NEW.state, '',
            json_object('tool', NEW.tool, 'scope', NEW.scope));
END;

-- What was revoked since a copy was made does not come back with it; what was denied stays denied.
CREATE TRIGGER restore_takes_back_tool_grants AFTER INSERT ON restore
BEGIN
    UPDATE tool_grant SET state = 'revoked', ended_at = now_ms()
     WHERE state = 'active' AND decision = 'allow';
END;

-- What tools may always do, or never, until it is taken back.
CREATE VIEW live_tool_grants AS
SELECT id, tool, scope_kind, scope, decision, max_autonomy, approved_at, reason
  FROM tool_grant WHERE state = 'active';

-- One ask of a tool: what was asked, and what was found out about it without doing it. What becomes
-- of it is in decision_gate, by the triggers below; both are history.
CREATE TABLE decision (
    id             INTEGER PRIMARY KEY,
    at             INTEGER NOT NULL,
    session        TEXT    NOT NULL DEFAULT '' CHECK (length(session) <= 128),
    workspace      TEXT    NOT NULL DEFAULT '' CHECK (length(workspace) <= 4095),
    tool           TEXT    NOT NULL CHECK (length(tool) BETWEEN 1 AND 128),
    side_effect    TEXT    NOT NULL CHECK (side_effect IN
                   ('read', 'write', 'shell', 'network', 'out_of_workspace', 'none')),
    permission     TEXT    NOT NULL CHECK (permission IN ('allow', 'prompt', 'deny')),
    granted        INTEGER NOT NULL CHECK (granted IN (0, 1)),    -- a person answered yes already
    mode           TEXT    NOT NULL CHECK (mode IN ('auto', 'ask', 'unsafe')),
    autonomy       TEXT    NOT NULL CHECK (length(autonomy) <= 64), -- as it was written
    args_sha256    BLOB    NOT NULL CHECK (length(args_sha256) = 32),
    path           TEXT    NOT NULL DEFAULT '',     -- what a grant for a file or directory would name
    real_path      TEXT    NOT NULL DEFAULT '',     -- where that leads
    risk_level     TEXT    NOT NULL CHECK (risk_level IN ('low', 'medium', 'high', 'critical')),
    categories     TEXT    NOT NULL CHECK (json_valid(categories) AND json_type(categories) = 'array'),
    violation_code TEXT    CHECK (violation_code IN
                   ('outside_workspace', 'symlink_traversal', 'policy_denied')),
    violation_path TEXT,
    violation_why  TEXT,
    cancelled      INTEGER NOT NULL CHECK (cancelled IN (0, 1)),
    confined       INTEGER NOT NULL CHECK (confined IN (0, 1)),   -- a sandbox of ours would hold it
    scoped         INTEGER NOT NULL CHECK (scoped IN (0, 1)),     -- and its way out goes by domains
    policy         TEXT    NOT NULL CHECK (json_valid(policy)),   -- as it was at that time
    CHECK ((violation_code IS NULL) = (violation_why IS NULL))
) STRICT;

-- What was found out about it in the database: the way out that is left, the tool grant that covers it.
CREATE TABLE decision_found (
    decision_id INTEGER PRIMARY KEY REFERENCES decision (id),
    network     TEXT    NOT NULL CHECK (network IN ('deny', 'allow', 'scoped')),
    above       INTEGER NOT NULL CHECK (above IN (0, 1)),     -- more autonomy than the policy's ceiling
    grant_id    INTEGER REFERENCES tool_grant (id),
    grant_says  TEXT    CHECK (grant_says IN ('allow', 'deny')),
    CHECK ((grant_id IS NULL) = (grant_says IS NULL))
) STRICT;

-- The gates, in the order in which they are asked.
CREATE TABLE gate (
    ord  INTEGER PRIMARY KEY CHECK (ord BETWEEN 1 AND 16),
    name TEXT    NOT NULL UNIQUE,
    asks TEXT    NOT NULL
) STRICT;

-- What each gate said, in order: the first that says allow, deny or prompt decides, those behind it
-- were not asked.
CREATE TABLE decision_gate (
    decision_id INTEGER NOT NULL REFERENCES decision (id),
    ord         INTEGER NOT NULL REFERENCES gate (ord),
    gate        TEXT    NOT NULL,
    action      TEXT    CHECK (action IN ('allow', 'deny', 'prompt')),  -- NULL: it let it by
    code        TEXT    CHECK (code IN ('context_canceled', 'denied_permission', 'outside_workspace',
                        'symlink_traversal', 'network', 'destructive_command', 'persistent_deny',
                        'policy_denied')),
    why         TEXT    NOT NULL,
    grant_id    INTEGER REFERENCES tool_grant (id),
    PRIMARY KEY (decision_id, ord),
    CHECK ((code IS NOT NULL) = (action IS 'deny'))
) STRICT, WITHOUT ROWID;

-- low, medium, high are 0, 1, 2; nothing is low; what is no level is above all of them.
CREATE VIEW autonomy_rank AS
SELECT '' AS name, 0 AS rank UNION ALL SELECT 'low', 0 UNION ALL SELECT 'medium', 1
UNION ALL SELECT 'high', 2;

-- A policy that names no domain, or a sandbox that cannot hold it to them, leaves no way out.
CREATE VIEW policy_network AS
SELECT p.value AS asked, s.scoped,
       iif(p.value = 'scoped' AND (NOT s.scoped
           OR NOT EXISTS (SELECT 1 FROM policy_domain WHERE kind = 'allow')), 'deny', p.value) AS value
  FROM policy_now AS p, (SELECT 0 AS scoped UNION ALL SELECT 1) AS s
 WHERE p.name = 'network';

-- The grants that cover a decision: any deny; else allows, up to their autonomy. An allow covers a
-- path by all of its names and only under its seal; a deny by any, and always.
CREATE VIEW decision_grant AS
SELECT d.id AS decision_id, g.id AS grant_id, g.decision, g.scope_kind, g.scope, g.approved_at
  FROM decision AS d JOIN tool_grant AS g ON g.tool = d.tool AND g.state = 'active'
 WHERE CASE
       WHEN g.decision = 'deny' THEN g.scope_kind = '' OR d.path = g.scope OR d.real_path = g.scope
            OR (g.scope_kind = 'dir' AND d.path <> '' AND (g.scope = '/'
                OR substr(d.path, 1, length(g.scope) + 1) = g.scope || '/'
                OR substr(d.real_path, 1, length(g.scope) + 1) = g.scope || '/'))
       WHEN g.scope_kind = '' OR (d.path <> '' AND d.real_path = g.scope)
            OR (g.scope_kind = 'dir' AND d.real_path <> '' AND (g.scope = '/'
                OR substr(d.real_path, 1, length(g.scope) + 1) = g.scope || '/'))
            THEN coalesce((SELECT rank FROM autonomy_rank WHERE name = lower(trim(d.autonomy))), 2)
                 <= (SELECT rank FROM autonomy_rank WHERE name = g.max_autonomy)
                 AND seal_ok('tool_grant', g.seal_text, g.seal) IS 1
       ELSE 0 END;

-- What an ask of a tool met: the network, the autonomy, and the grant that speaks of it.
CREATE VIEW decision_finds AS
SELECT d.id AS decision_id, n.value AS network,
       coalesce((SELECT rank FROM autonomy_rank WHERE name = lower(trim(d.autonomy))), 3)
           > (SELECT rank FROM autonomy_rank WHERE name = d.policy ->> '$.max_autonomy') AS above,
       -- The file goes before its directory, the deepest of these before the tool.
       (SELECT g.grant_id FROM decision_grant AS g WHERE g.decision_id = d.id
         ORDER BY g.decision = 'deny' DESC, g.scope_kind = 'file' DESC, g.scope_kind = 'dir' DESC,
                  length(g.scope) DESC, g.approved_at DESC, g.grant_id DESC LIMIT 1) AS grant_id
  FROM decision AS d JOIN policy_network AS n ON n.scoped = d.scoped;

-- What every gate says of a decision.
CREATE VIEW gate_says AS
SELECT d.id AS decision_id, g.ord, g.name AS gate,
       CASE g.name
       WHEN 'cancelled' THEN iif(d.cancelled, 'deny', NULL)
       WHEN 'mode' THEN iif(d.policy ->> '$.mode' = 'disabled', 'allow', NULL)
       WHEN 'permission' THEN iif(d.permission = 'deny', 'deny', NULL)
       WHEN 'paths' THEN iif(d.violation_code IS NULL, NULL, 'deny')
       WHEN 'network' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'network')
              OR f.network <> 'deny' THEN NULL
            WHEN d.side_effect = 'network' AND d.policy ->> '$.enforce_tool_network' = '0' THEN NULL
            WHEN d.policy ->> '$.on_network' = 'prompt' THEN iif(d.granted, NULL, 'prompt')
            ELSE 'deny' END
       WHEN 'destructive' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'destructive')
              OR d.policy ->> '$.deny_destructive_shell' = '0' THEN NULL
            WHEN d.policy ->> '$.on_destructive' = 'prompt' THEN iif(d.granted, NULL, 'prompt')
            ELSE 'deny' END
       WHEN 'denied' THEN iif(f.grant_says = 'deny', 'deny', NULL)
       WHEN 'unclear' THEN iif(d.policy ->> '$.ask_unclear' = '1' AND NOT d.granted
            AND EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value IN ('unparseable_command',
                        'piped_installer', 'unseen_script', 'unknown_program')), 'prompt', NULL)
       WHEN 'allowed' THEN iif(f.grant_says = 'allow', iif(f.above, 'prompt', 'allow'), NULL)
       WHEN 'tool' THEN iif(d.permission = 'allow', 'allow', NULL)
       WHEN 'sandboxed' THEN iif(d.side_effect = 'shell' AND d.confined
            AND d.policy ->> '$.auto_allow_shell' = '1', iif(f.above, 'prompt', 'allow'), NULL)
       WHEN 'answered' THEN
            iif(d.granted OR d.mode = 'unsafe', iif(f.above, 'prompt', 'allow'), NULL)
       WHEN 'otherwise' THEN 'prompt'
       END AS action,
       CASE g.name
       WHEN 'cancelled' THEN iif(d.cancelled, 'context_canceled', NULL)
       WHEN 'permission' THEN iif(d.permission = 'deny', 'denied_permission', NULL)
       WHEN 'paths' THEN d.violation_code
       WHEN 'network' THEN iif(f.network = 'deny' AND d.policy ->> '$.on_network' = 'deny'
            AND NOT (d.side_effect = 'network' AND d.policy ->> '$.enforce_tool_network' = '0')
            AND EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'network'),
            'network', NULL)
       WHEN 'destructive' THEN iif(d.policy ->> '$.deny_destructive_shell' = '1'
            AND d.policy ->> '$.on_destructive' = 'deny'
            AND EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'destructive'),
            'destructive_command', NULL)
       WHEN 'denied' THEN iif(f.grant_says = 'deny', 'persistent_deny', NULL)
       END AS code,
       CASE g.name
       WHEN 'cancelled' THEN iif(d.cancelled, 'the ask was cancelled', 'the ask still stands')
       WHEN 'autonomy' THEN CASE
            WHEN d.autonomy = '' THEN 'none was named: low'
            WHEN lower(trim(d.autonomy)) IN ('low', 'medium', 'high') THEN lower(trim(d.autonomy))
            ELSE 'no such level: it counts as above every ceiling' END
       WHEN 'risk' THEN d.risk_level || iif(d.categories = '[]', '', ' risk: '
            || (SELECT group_concat(value, ', ') FROM json_each(d.categories)))
       WHEN 'mode' THEN 'the policy is ' || iif(d.policy ->> '$.mode' = 'disabled', 'disabled', 'enforced')
       WHEN 'permission' THEN 'the tool itself is set to ' || d.permission
       WHEN 'paths' THEN coalesce(d.violation_path || ': ' || d.violation_why,
            'no path breaks the lists or leaves the workspace')
       WHEN 'network' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'network')
            THEN 'it does not use the network'
            WHEN f.network <> 'deny' THEN 'the policy says ' || f.network
            WHEN d.side_effect = 'network' AND d.policy ->> '$.enforce_tool_network' = '0'
            THEN 'a network tool that the policy leaves alone'
            ELSE 'it uses the network, and the policy has no way out' END
       WHEN 'destructive' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'destructive')
            THEN 'nothing in it destroys'
            WHEN d.policy ->> '$.deny_destructive_shell' = '0' THEN 'it destroys, which the policy allows'
            ELSE 'it destroys what cannot be brought back' END
       WHEN 'denied' THEN iif(f.grant_says = 'deny',
            'a person always denies this: tool grant ' || f.grant_id, 'nobody always denies it')
       WHEN 'unclear' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value IN
                ('unparseable_command', 'piped_installer', 'unseen_script', 'unknown_program'))
            THEN 'its text says what it runs'
            WHEN d.policy ->> '$.ask_unclear' = '0'
            THEN 'what it runs is not in its text, which the policy takes'
            WHEN d.granted THEN 'what it runs is not in its text, and a person said yes'
            ELSE 'what it runs is not in its text' END
       WHEN 'allowed' THEN CASE
            WHEN f.grant_says IS NOT 'allow' THEN 'nobody always allows it'
            WHEN f.above THEN 'above the policy ceiling'
            ELSE 'a person always allows this: tool grant ' || f.grant_id END
       WHEN 'tool' THEN 'the tool itself is set to ' || d.permission
       WHEN 'sandboxed' THEN CASE
            WHEN d.side_effect <> 'shell' THEN 'it is no shell command'
            WHEN NOT d.confined THEN 'no sandbox would hold it'
            WHEN d.policy ->> '$.auto_allow_shell' = '0'
            THEN 'a sandbox would hold it, but the policy asks'
            WHEN f.above THEN 'above the policy ceiling'
            ELSE 'a sandbox holds it' END
       WHEN 'answered' THEN CASE
            WHEN NOT d.granted AND d.mode <> 'unsafe' THEN 'nobody said yes to it'
            WHEN f.above THEN 'above the policy ceiling'
            WHEN d.granted THEN 'a person said yes' ELSE 'the session asks nobody (unsafe)' END
       ELSE 'a person decides'
       END AS why,
       iif(g.name = iif(f.grant_says = 'deny', 'denied', 'allowed'), f.grant_id, NULL) AS grant_id
  FROM decision AS d JOIN decision_found AS f ON f.decision_id = d.id CROSS JOIN gate AS g;

CREATE TRIGGER decision_by_this_policy BEFORE INSERT ON decision
BEGIN
    SELECT RAISE(ABORT, 'policy.snapshot|a decision goes by the policy that is in force')
     WHERE NEW.policy IS NOT (SELECT policy FROM policy_json);
END;

-- The gates are asked in their order, up to the one that decides.
CREATE TRIGGER decision_passes_gates AFTER INSERT ON decision
BEGIN
    INSERT INTO decision_found (decision_id, network, above, grant_id, grant_says)
    SELECT f.decision_id, f.network, f.above, f.grant_id, g.decision
      FROM decision_finds AS f LEFT JOIN tool_grant AS g ON g.id = f.grant_id
     WHERE f.decision_id = NEW.id;
    INSERT INTO decision_gate (decision_id, ord, gate, action, code, why, grant_id)
    SELECT decision_id, ord, gate, action, code, why, grant_id FROM gate_says
     WHERE decision_id = NEW.id
       AND ord <= (SELECT min(ord) FROM gate_says WHERE decision_id = NEW.id AND action IS NOT NULL);
END;

CREATE TRIGGER decision_is_history BEFORE UPDATE ON decision
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

-- How long a decision is kept; 0 days: for ever.
CREATE VIEW decision_kept AS
SELECT iif(value > 0, now_ms() - value * 86400000, 0) AS since FROM setting WHERE name = 'retention.decision';

CREATE TRIGGER decision_stays BEFORE DELETE ON decision
WHEN OLD.at >= (SELECT since FROM decision_kept) OR OLD.id = (SELECT max(id) FROM decision)
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE TRIGGER decision_gate_is_history BEFORE UPDATE ON decision_gate
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE TRIGGER decision_gate_stays BEFORE DELETE ON decision_gate
WHEN (SELECT at FROM decision WHERE id = OLD.decision_id) >= (SELECT since FROM decision_kept)
  OR OLD.decision_id = (SELECT max(id) FROM decision)
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE TRIGGER decision_found_is_history BEFORE UPDATE ON decision_found
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

CREATE TRIGGER decision_found_stays BEFORE DELETE ON decision_found
WHEN (SELECT at FROM decision WHERE id = OLD.decision_id) >= (SELECT since FROM decision_kept)
  OR OLD.decision_id = (SELECT max(id) FROM decision)
BEGIN
    SELECT RAISE(ABORT, 'policy.history|a decision is history');
END;

-- Up to where decisions may go in one transaction: from the oldest on, up to the first that is too young,
-- and never the newest, whose number would be given again. Deleting from here removes them.
CREATE VIEW decision_due AS
SELECT max(id) AS gone_to, count(*) AS n
  FROM (SELECT id FROM decision
         WHERE id < (SELECT min(id) FROM decision
                      WHERE at >= (SELECT since FROM decision_kept) OR id = (SELECT max(id) FROM decision))
         ORDER BY id LIMIT (SELECT value FROM setting WHERE name = 'retention.batch'))
HAVING count(*) > 0;

CREATE TRIGGER decision_due_goes INSTEAD OF DELETE ON decision_due
BEGIN
    DELETE FROM decision_gate WHERE decision_id <= OLD.gone_to;
    DELETE FROM decision_found WHERE decision_id <= OLD.gone_to;
    DELETE FROM decision WHERE id <= OLD.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', 'decision', 'removed', '',
           json_object('rows', OLD.n, 'to', OLD.gone_to, 'days', value)
      FROM setting WHERE name = 'retention.decision';
END;

-- What became of each ask, and by which gate.
CREATE VIEW decision_made AS
SELECT d.id, d.at, d.session, d.tool, d.side_effect, d.autonomy, d.risk_level, d.categories,
       g.action, g.gate, g.code, g.why, g.grant_id,
       g.gate = 'sandboxed' AND g.action = 'allow' AS auto_allowed,
       g.code IS 'persistent_deny' AS recoverable,
       d.violation_path AS path
  FROM decision AS d JOIN decision_gate AS g ON g.decision_id = d.id AND g.action IS NOT NULL;
