-- mcp.sql: what agents are offered over MCP: the parameters of ops by name, results, and bearers.

-- An op's arguments are words in order; whoever speaks JSON names them.
CREATE TABLE op_param (
    op       TEXT    NOT NULL REFERENCES op (name),
    position INTEGER NOT NULL CHECK (position >= 1),
    name     TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 32 AND name NOT GLOB '*[^a-z_]*'),
    type     TEXT    NOT NULL CHECK (type IN ('string', 'integer')),
    needed   INTEGER NOT NULL CHECK (needed IN (0, 1)),
    low      INTEGER NOT NULL,                                 -- of a string: characters
    high     INTEGER NOT NULL CHECK (high >= low),
    pattern  TEXT    CHECK (pattern <> ''),                    -- ECMA-262, for the asker; the op's walls decide
    fallback TEXT,                                             -- what the op takes where it is not given
    doc      TEXT    NOT NULL,
    PRIMARY KEY (op, position),
    UNIQUE (op, name),
    CHECK (type = 'string' OR pattern IS NULL)
) STRICT, WITHOUT ROWID;

-- What {"r":…} of an op that was done holds: a JSON Schema (2020-12) of type object.
CREATE TABLE op_result (
    op     TEXT PRIMARY KEY REFERENCES op (name),
    schema TEXT NOT NULL CHECK (json_valid(schema) AND schema ->> '$.type' = 'object')
) STRICT, WITHOUT ROWID;

-- Who may speak MCP on the loopback port. The token is shown once; its digest stays.
CREATE TABLE mcp_token (
    id         INTEGER PRIMARY KEY,
    label      TEXT    NOT NULL CHECK (length(label) BETWEEN 1 AND 64
                       AND label NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(label, char(0)) = 0),
    digest     BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32),
    state      TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    created_at INTEGER NOT NULL,
    dropped_at INTEGER,
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX mcp_token_label ON mcp_token (label) WHERE state = 'active';

CREATE TRIGGER mcp_token_born BEFORE INSERT ON mcp_token
BEGIN
    SELECT RAISE(ABORT, 'mcp.label|a label is 1 to 64 letters, digits, dots, dashes and underscores')
     WHERE length(NEW.label) NOT BETWEEN 1 AND 64 OR NEW.label GLOB '*[^A-Za-z0-9._-]*'
        OR instr(NEW.label, char(0)) > 0;
    SELECT RAISE(ABORT, 'mcp.label|a token of this label is live already')
     WHERE EXISTS (SELECT 1 FROM mcp_token WHERE label = NEW.label AND state = 'active');
    SELECT RAISE(ABORT, 'mcp.transition|a token begins as active') WHERE NEW.state <> 'active';
END;

CREATE TRIGGER mcp_token_moves BEFORE UPDATE ON mcp_token
BEGIN
    SELECT RAISE(ABORT, 'mcp.final|a token that was dropped stays dropped')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'mcp_token' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'mcp.fixed|a token keeps its label and digest')
     WHERE NEW.id IS NOT OLD.id OR NEW.label IS NOT OLD.label OR NEW.digest IS NOT OLD.digest
        OR NEW.created_at IS NOT OLD.created_at;
END;

CREATE TRIGGER mcp_token_stays BEFORE DELETE ON mcp_token
BEGIN
    SELECT RAISE(ABORT, 'mcp.kept|a token is dropped, not deleted');
END;

CREATE TRIGGER mcp_token_audit_birth AFTER INSERT ON mcp_token
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'mcp_token', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

CREATE TRIGGER mcp_token_audit_move AFTER UPDATE OF state ON mcp_token WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'mcp_token', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

-- A restored machine is an older self: what was dropped since would open the port again.
CREATE TRIGGER mcp_token_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE mcp_token SET state = 'dropped', dropped_at = now_ms() WHERE state = 'active';
END;

-- What an op takes, one argument a row: of 0, each op of this machine; else what was added at that box.
CREATE VIEW param_asked (of, op, position, name, type, needed, low, high, pattern, fallback, doc, choices) AS
SELECT 0, p.op, p.position, p.name, p.type, p.needed, p.low, p.high, p.pattern, p.fallback,
       p.doc || coalesce(' (like ' || a.pattern || ')', ''), a.choices
  FROM op_param AS p LEFT JOIN added_op_param AS a ON a.op = p.op AND a.at = p.position - 1
 UNION ALL
SELECT o.box_id, o.op, p.key + 1, p.value ->> '$.name', p.value ->> '$.type', p.value ->> '$.needed',
       p.value ->> '$.low', p.value ->> '$.high', NULL, NULL,
       (p.value ->> '$.doc') || coalesce(' (like ' || (p.value ->> '$.like') || ')', ''), p.value -> '$.in'
  FROM box_op AS o JOIN json_each(o.params) AS p;

-- The JSON Schema of an op's arguments.
CREATE VIEW op_input (of, op, schema) AS
SELECT o.of, o.op, json_patch(json_object('type', 'object', 'properties', json('{}'),
                                          'additionalProperties', json('false')),
       json_object(
           'properties', (SELECT json_group_object(p.name, json_patch('{}',
                json_object('type', p.type, 'description', p.doc,
                            'minLength', iif(p.type = 'string', p.low, NULL),
                            'maxLength', iif(p.type = 'string', p.high, NULL),
                            'minimum', iif(p.type = 'integer', p.low, NULL),
                            'maximum', iif(p.type = 'integer', p.high, NULL),
                            'pattern', p.pattern,
                            'enum', json(p.choices),
                            'default', iif(p.type = 'integer', CAST(p.fallback AS INTEGER),
                                           p.fallback))))
               FROM param_asked AS p WHERE p.op = o.op AND p.of = o.of),
           'required', (SELECT iif(count(*) = 0, NULL, json_group_array(p.name))
               FROM param_asked AS p WHERE p.op = o.op AND p.of = o.of AND p.needed)))
  FROM (SELECT 0 AS of, name AS op FROM op UNION ALL SELECT box_id, op FROM box_op) AS o;

-- What a Host offers to agents: each op of each box, by a name that MCP allows. A box offers none.
CREATE VIEW mcp_tool AS
SELECT t.box || '.' || replace(t.op, ':', '_') AS name, t.box, t.op, t.of,
       json_patch(json_object(
           'name', t.box || '.' || replace(t.op, ':', '_'),
           'title', t.box || ': ' || t.summary,
           'description', iif(t.of = 0, 'On the machine ' || t.box || ': ' || t.summary,
                              'An operation that was added on the machine ' || t.box || ', which describes it as "'
                              || replace(t.summary, '"', '''') || '"')
               || iif(t.class = 'own', '.', '. A person at ' || t.box
                      || ' approves each kind of ask first; the call waits for that.'),
           'inputSchema', json((SELECT schema FROM op_input AS i WHERE i.of = t.of AND i.op = t.op))),
         json_object(
           'outputSchema', json((SELECT schema FROM op_result AS r WHERE r.op = t.op)),
           'annotations', json_object(
               'title', t.box || ': ' || t.summary,
               'readOnlyHint', json(iif(t.class = 'observe' OR t.op = 'grant:list', 'true', 'false')),
               'destructiveHint', json(iif(t.class IN ('observe', 'own'), 'false', 'true')),
               'idempotentHint', json(iif(t.class IN ('observe', 'own'), 'true', 'false')),
               'openWorldHint', json('false')))) AS tool
  FROM box_ops AS t
 WHERE t.op <> 'op:list';                                      -- these tools are what it says
