-- inspect.sql: what an allow says of requests within TLS, each request that was seen there, whose certificate the programs trust for it.

-- A rule with such rows allows the requests that one of them describes, and nothing else; its tunnels are
-- looked into. Rows go with their rule. The path is a GLOB over the path alone, without the query.
CREATE TABLE egress_within (
    id          INTEGER PRIMARY KEY,
    rule_id     INTEGER NOT NULL REFERENCES egress_rule (id),
    method      TEXT    NOT NULL DEFAULT '*' CHECK (length(method) BETWEEN 1 AND 32),
    path        TEXT    NOT NULL DEFAULT '*' CHECK (length(path) BETWEEN 1 AND 512),
    websocket   INTEGER NOT NULL DEFAULT 0 CHECK (websocket IN (0, 1)),
    token_id    INTEGER REFERENCES token (id),
    made_at     INTEGER NOT NULL,
    made_by_uid INTEGER NOT NULL CHECK (made_by_uid >= 0)
) STRICT;

CREATE UNIQUE INDEX egress_within_once
    ON egress_within (rule_id, method, path, websocket, coalesce(token_id, 0));

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

CREATE TRIGGER egress_within_moves BEFORE UPDATE ON egress_within
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a rule never changes: forget it and make another');
END;

CREATE TRIGGER egress_within_stays BEFORE DELETE ON egress_within
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a rule is dropped, not deleted');
END;

CREATE TRIGGER egress_within_audit AFTER INSERT ON egress_within
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_rule', NEW.rule_id, 'narrowed', '',
            json_object('method', NEW.method, 'path', NEW.path, 'websocket', NEW.websocket,
                        'token', (SELECT name FROM token WHERE id = NEW.token_id)));
END;

-- What allows a connection: does some of it say something of requests? And is it let be whole all the same: by what
-- was signed for an added op, or by a rule of its own run that says nothing of requests.
CREATE VIEW egress_narrowed AS
SELECT f.id,
       EXISTS (SELECT 1 FROM egress_rule_for AS r
                WHERE r.flow_id = f.id AND EXISTS (SELECT 1 FROM egress_within WHERE rule_id = r.rule_id)) AS narrowed,
       EXISTS (SELECT 1 FROM program_reach WHERE run_id = f.run_id)
       OR EXISTS (SELECT 1 FROM egress_rule_for AS r
                   WHERE r.flow_id = f.id AND r.run_id = f.run_id AND r.verdict = 'allow'
                     AND NOT EXISTS (SELECT 1 FROM egress_within WHERE rule_id = r.rule_id)) AS whole
  FROM egress_flow AS f;

-- A plain request is read on the way by anybody: no secret goes with it, and what is narrowed is for TLS.
CREATE TRIGGER egress_flow_within INSTEAD OF INSERT ON egress_flow_apart
WHEN NEW.surface = 'http' AND NEW.state <> 'refused' AND EXISTS (SELECT 1 FROM egress_within)
BEGIN
    SELECT RAISE(ABORT, 'egress.plain|what allows this is for requests within TLS')
      FROM egress_narrowed WHERE id = NEW.id AND narrowed AND NOT whole;
END;

-- A request within TLS. It is written, with what the rules say, before a byte of it goes on. The query is
-- not kept: programs put secrets there.
CREATE TABLE egress_request (
    id        INTEGER PRIMARY KEY,
    flow_id   INTEGER NOT NULL REFERENCES egress_flow (id) ON DELETE CASCADE,
    method    TEXT    NOT NULL CHECK (length(method) <= 32),
    host      TEXT    NOT NULL CHECK (length(host) <= 253),
    port      INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    path      TEXT    NOT NULL CHECK (length(path) <= 4096),
    websocket INTEGER NOT NULL DEFAULT 0 CHECK (websocket IN (0, 1)),
    within_id INTEGER REFERENCES egress_within (id),           -- by which it is allowed, where narrowed
    token_id  INTEGER REFERENCES token (id),                   -- that goes with it
    state     TEXT    NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'failed', 'refused')),
    status    INTEGER CHECK (status BETWEEN 100 AND 999),      -- of the answer
    asked_at  INTEGER NOT NULL,
    ended_at  INTEGER,
    code      TEXT,
    why       TEXT    CHECK (length(why) <= 512),
    CHECK ((state = 'open') = (ended_at IS NULL)),
    CHECK ((state IN ('failed', 'refused')) = (code IS NOT NULL)),
    CHECK ((state = 'done') = (status IS NOT NULL))
) STRICT;

CREATE INDEX egress_request_by_flow ON egress_request (flow_id);
CREATE INDEX egress_request_by_token ON egress_request (token_id, asked_at) WHERE token_id IS NOT NULL;

-- The rules that speak of a request, as egress_rule_for has those of a connection: it may be for another host than its
-- tunnel.
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

-- What the rules say to a request, as egress_ruling does to a connection; of those that allow it, the one
-- that says most decides whether a token goes along.
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

-- What is under way, as the rules of now have it: is it over, and if not, is it over unless it is looked into?
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

-- What changes when that may. (Numbers that but grow, and sums of who is there: no clock that is set back hides a change.)
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

CREATE TRIGGER egress_request_ruled AFTER INSERT ON egress_request WHEN NEW.state = 'open'
BEGIN
    SELECT CASE
           WHEN held = 'denied' THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN held = 'unknown' THEN RAISE(ABORT, 'egress.unknown|no rule allows this')
           WHEN NOT same AND (SELECT value FROM setting WHERE name = 'egress.inspect_host')
           THEN RAISE(ABORT, 'egress.fronted|the request is for another host than its tunnel')
           WHEN held = 'websocket' THEN RAISE(ABORT, 'egress.websocket|no rule allows to go over to another protocol')
           WHEN held = 'narrower' THEN RAISE(ABORT, 'egress.within|no rule allows this method and path')
           END
      FROM egress_request_ruling WHERE id = NEW.id;
    UPDATE egress_request
       SET within_id = (SELECT within_id FROM egress_request_ruling WHERE id = NEW.id)
     WHERE id = NEW.id;
    UPDATE egress_request
       SET token_id = (SELECT token_id FROM egress_within WHERE id = egress_request.within_id)
     WHERE id = NEW.id AND within_id IS NOT NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'egress_request', q.id, q.state,
           coalesce((SELECT host_name FROM pairing WHERE id = f.pairing_id), ''),
           json_object('flow', q.flow_id, 'uid', f.uid, 'method', q.method, 'host', q.host, 'path', q.path,
                       'token', (SELECT name FROM token WHERE id = q.token_id))
      FROM egress_request AS q JOIN egress_flow AS f ON f.id = q.flow_id WHERE q.id = NEW.id;
END;

-- However a request comes by a token, it passes here: the tunnel, whose certificate is checked against its
-- name, leads to a host that the token is for.
CREATE TRIGGER egress_request_token AFTER UPDATE OF token_id ON egress_request WHEN NEW.token_id IS NOT NULL
BEGIN
    SELECT CASE
           WHEN (SELECT state FROM token WHERE id = NEW.token_id) IS NOT 'active'
           THEN RAISE(ABORT, 'token.dropped|the token of the rule that allows this was dropped')
           WHEN NEW.method = 'TRACE'
           THEN RAISE(ABORT, 'token.trace|TRACE has a request told back, and a token would be in it')
           WHEN NOT EXISTS (SELECT 1 FROM token_host AS h JOIN egress_flow AS f ON f.id = NEW.flow_id
                             WHERE h.token_id = NEW.token_id AND NEW.host = f.host
                               AND (h.suffix = f.host OR f.host GLOB '*.' || h.suffix))
           THEN RAISE(ABORT, 'token.host|the token is not for that host')
           END;
END;

CREATE TRIGGER egress_request_moves BEFORE UPDATE ON egress_request
BEGIN
    SELECT RAISE(ABORT, 'egress.transition|this request is over')
     WHERE OLD.state <> 'open' OR (NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'egress_request' AND from_state = OLD.state AND to_state = NEW.state));
    SELECT RAISE(ABORT, 'egress.fixed|what was asked never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.flow_id IS NOT OLD.flow_id OR NEW.method IS NOT OLD.method
        OR NEW.host IS NOT OLD.host OR NEW.port IS NOT OLD.port OR NEW.path IS NOT OLD.path
        OR NEW.websocket IS NOT OLD.websocket OR NEW.asked_at IS NOT OLD.asked_at
        OR (OLD.within_id IS NOT NULL AND NEW.within_id IS NOT OLD.within_id)
        OR (OLD.token_id IS NOT NULL AND NEW.token_id IS NOT OLD.token_id);
END;

CREATE TRIGGER egress_request_stays BEFORE DELETE ON egress_request
WHEN EXISTS (SELECT 1 FROM egress_flow WHERE id = OLD.flow_id)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a request stays as long as its connection');
END;

CREATE TRIGGER egress_request_audit_refused AFTER INSERT ON egress_request WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_request', NEW.id, NEW.state, '',
            json_object('flow', NEW.flow_id, 'method', NEW.method, 'host', NEW.host, 'path', NEW.path,
                        'code', NEW.code));
END;

CREATE TRIGGER egress_request_audit_failed AFTER UPDATE OF state ON egress_request WHEN NEW.state = 'failed'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_request', NEW.id, NEW.state, '',
            json_object('flow', NEW.flow_id, 'method', NEW.method, 'host', NEW.host, 'path', NEW.path,
                        'code', NEW.code));
END;

-- Whose certificates the daemon's lane shows to programs. Its key is in the lane's memory alone.
CREATE TABLE egress_authority (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    pem     TEXT    NOT NULL CHECK (length(pem) BETWEEN 64 AND 16384),
    made_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER egress_authority_audit_birth AFTER INSERT ON egress_authority
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_authority', NEW.id, 'made', '', json_object('ends_at', NEW.ends_at));
END;

CREATE TRIGGER egress_authority_audit_move AFTER UPDATE ON egress_authority
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_authority', NEW.id, 'made', '', json_object('ends_at', NEW.ends_at));
END;

-- What rules say of requests, for people.
CREATE VIEW egress_may_ask AS
SELECT w.rule_id AS id, m.what, m.port, m.who, w.method, w.path, iif(w.websocket, 'yes', NULL) AS websocket,
       (SELECT name FROM token WHERE id = w.token_id) AS token
  FROM egress_within AS w JOIN egress_may AS m ON m.id = w.rule_id;

-- Every request, for people. One whose connection ended first has no answer.
CREATE VIEW egress_requests AS
SELECT q.id, q.asked_at, coalesce('host ' || p.host_name, 'uid ' || f.uid) AS who, q.method,
       'https://' || q.host || iif(q.port = 443, '', ':' || q.port) || q.path AS what,
       iif(q.state = 'open' AND f.ended_at IS NOT NULL, 'lost', q.state) AS state, q.status,
       (SELECT name FROM token WHERE id = q.token_id) AS token, q.code, q.why
  FROM egress_request AS q JOIN egress_flow AS f ON f.id = q.flow_id
  LEFT JOIN pairing AS p ON p.id = f.pairing_id;
