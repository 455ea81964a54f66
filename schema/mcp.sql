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

-- The JSON Schema of an op's arguments.
CREATE VIEW op_input AS
SELECT o.name AS op, json_patch(json_object('type', 'object', 'properties', json('{}'),
                                            'additionalProperties', json('false')),
       json_object(
           'properties', (SELECT json_group_object(p.name, json_patch('{}',
                json_object('type', p.type, 'description', p.doc,
                            'minLength', iif(p.type = 'string', p.low, NULL),
                            'maxLength', iif(p.type = 'string', p.high, NULL),
                            'minimum', iif(p.type = 'integer', p.low, NULL),
                            'maximum', iif(p.type = 'integer', p.high, NULL),
                            'pattern', p.pattern,
                            'default', iif(p.type = 'integer', CAST(p.fallback AS INTEGER),
                                           p.fallback))))
               FROM op_param AS p WHERE p.op = o.name),
           'required', (SELECT iif(count(*) = 0, NULL, json_group_array(p.name))
               FROM op_param AS p WHERE p.op = o.name AND p.needed))) AS schema
  FROM op AS o;

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
