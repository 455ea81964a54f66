-- 0002_mcp.sql: asks that wait for a person, and what agents are offered over MCP.

ALTER TABLE call ADD COLUMN wait_ms INTEGER CHECK (wait_ms BETWEEN 0 AND 86400000);

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('lane.wait_ms', 3600000, 'ms', 0, 86400000, 'longest that an ask may wait on the box for a person'),
    ('lane.waits', 64, 'rows', 0, 10000, 'asks that may wait on the box for a person at once'),
    ('mcp.answer', 1048576, 'bytes', 4096, 8388608, 'longest text of an answer to an agent; what is over is cut, and said'),
    ('mcp.beat_ms', 15000, 'ms', 100, 600000, 'how often an agent that waits is told so'),
    ('mcp.calls', 16, 'rows', 1, 1000, 'calls of one agent open at once'),
    ('mcp.calls_all', 128, 'rows', 1, 100000, 'calls of all agents open at once; the rest of call.live is for persons'),
    ('mcp.connections', 64, 'rows', 1, 10000, 'connections on the MCP port served at once'),
    ('mcp.events', 256, 'rows', 4, 100000, 'messages of one session kept for a stream that is taken up again'),
    ('mcp.idle_ms', 3600000, 'ms', 1000, 604800000, 'how long a session lives without a word of its agent'),
    ('mcp.page', 100, 'rows', 1, 10000, 'tools in one page of their list'),
    ('mcp.port', 0, 'port', 0, 65535, 'TCP port of MCP on the loopback address, from the next start on; 0: none'),
    ('mcp.ring', 4194304, 'bytes', 65536, 67108864, 'bytes of one session kept for a stream that is taken up again'),
    ('mcp.sessions', 64, 'rows', 1, 10000, 'sessions of agents at once; the one that was silent longest makes room'),
    ('mcp.wait_ms', 600000, 'ms', 0, 86400000, 'how long a call of an agent waits for a person');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('approval.denied', 126, 403, 'a person said no: ask them before you ask the same again'),
    ('call.cancelled', 1, 409, 'ask again'),
    ('mcp.accept', 2, 406, 'send Accept: application/json, text/event-stream (a GET: text/event-stream)'),
    ('mcp.busy', 75, 429, 'wait for open calls to be answered, or end sessions that are not used'),
    ('mcp.final', 126, 409, 'make a new token: bastion mcp token add LABEL'),
    ('mcp.fixed', 126, 409, 'drop the token and make a new one'),
    ('mcp.host', 126, 403, 'ask at localhost or 127.0.0.1, by this name in the header Host'),
    ('mcp.kept', 126, 409, 'use bastion mcp token drop'),
    ('mcp.label', 2, 422, 'give another label'),
    ('mcp.origin', 126, 403, 'no web page of another machine may speak here'),
    ('mcp.resume', 2, 400, 'ask again; bastion://calls/NUMBER has the answers of earlier calls'),
    ('mcp.session', 2, 404, 'begin a new session with initialize'),
    ('mcp.session_missing', 2, 400, 'send the header Mcp-Session-Id that initialize answered with'),
    ('mcp.token', 126, 401, 'make a token with bastion mcp token add LABEL, and send it as Authorization: Bearer'),
    ('mcp.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('mcp.type', 2, 415, 'send Content-Type: application/json'),
    ('mcp.unknown', 2, 404, 'see bastion mcp token for the labels'),
    ('mcp.version', 2, 400, 'send the header MCP-Protocol-Version that initialize agreed on');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('mcp_token', '', 'active'),
    ('mcp_token', 'active', 'dropped');

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
           'description', 'On the machine ' || b.name || ': ' || o.summary || '. A person at '
               || b.name || ' approves each kind of ask first; the call waits for that.',
           'inputSchema', json(i.schema)),
         json_object(
           'outputSchema', json(r.schema),
           'annotations', json_object(
               'title', b.name || ': ' || o.summary,
               'readOnlyHint', json(iif(o.class = 'observe', 'true', 'false')),
               'destructiveHint', json(iif(o.class = 'observe', 'false', 'true')),
               'idempotentHint', json(iif(o.class = 'observe', 'true', 'false')),
               'openWorldHint', json('false')))) AS tool
  FROM host_box AS b CROSS JOIN op AS o
  JOIN op_input AS i ON i.op = o.name
  LEFT JOIN op_result AS r ON r.op = o.name
 WHERE b.state = 'active';

INSERT INTO op_param (op, position, name, type, needed, low, high, pattern, fallback, doc) VALUES
    ('observe:folders', 1, 'path', 'string', 1, 1, 4095, '^/', NULL, 'absolute path of a folder, outside /proc, /sys and /dev'),
    ('observe:folders', 2, 'depth', 'integer', 0, 1, 3, NULL, '2', 'levels of folders to name'),
    ('observe:journal', 1, 'unit', 'string', 1, 1, 255, NULL, NULL, 'a systemd unit; without a suffix it is a service'),
    ('observe:journal', 2, 'minutes', 'integer', 0, 1, 60, NULL, '15', 'how far to look back'),
    ('observe:logins', 1, 'hours', 'integer', 0, 1, 168, NULL, '24', 'how far to look back'),
    ('observe:cert', 1, 'port', 'integer', 1, 1, 65535, NULL, NULL, 'the TCP port of a listener on this machine'),
    ('observe:cert', 2, 'server_name', 'string', 0, 1, 253, NULL, NULL, 'the name to ask for (SNI) and to check the certificate against');
INSERT INTO op_result (op, schema) VALUES
    ('observe:folders', '{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer"},"total_bytes":{"type":"integer"},"folders":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"bytes":{"type":"integer"}},"required":["path","bytes"]}},"lower_bounds":{"type":"boolean","description":"true: something could not be counted"}},"required":["path","total_bytes","folders"]}'),
    ('observe:journal', '{"type":"object","properties":{"unit":{"type":"string"},"minutes":{"type":"integer"},"lines":{"type":"integer","description":"of the text beside this"},"bytes":{"type":"integer"},"cut":{"type":"boolean","description":"true: only the newest lines"}},"required":["unit","minutes","lines","bytes"]}'),
    ('observe:logins', '{"type":"object","properties":{"hours":{"type":"integer"},"failed":{"type":"integer"},"sources":{"type":"array","items":{"type":"object","properties":{"source":{"type":["string","null"]},"count":{"type":"integer"}}}},"users":{"type":"array","items":{"type":"object","properties":{"user":{"type":["string","null"]},"count":{"type":"integer"}}}},"accepted":{"type":"integer"},"logins":{"type":"array","items":{"type":"object"}}},"required":["hours","failed","accepted"]}'),
    ('observe:cert', '{"type":"object","properties":{"port":{"type":"integer"},"server_name":{"type":["string","null"]},"subject":{"type":["string","null"]},"issuer":{"type":["string","null"]},"names":{"type":"array","items":{"type":"object","properties":{"kind":{"type":"string"},"name":{"type":"string"}}}},"not_before":{"type":["string","null"]},"not_after":{"type":["string","null"]},"days_left":{"type":["integer","null"]},"verify":{"type":"object","properties":{"ok":{"type":"boolean"},"reason":{"type":["string","null"]},"name_checked":{"type":"boolean"}},"required":["ok"]}},"required":["port","verify"]}');
