-- order.sql: what a Host orders of a box, signed like an ask, and what the box does with it.
--
--   {"kind": "rotate", "host": the Host's name, "box_key": the machine's key in hex, "order": 32 hex
--    digits, "issued_at": ms UTC, "expires_at": ms UTC, "endpoints": [host:port…]}
--   {"kind": "contain", "host", "box_key", "order", "issued_at", "expires_at", "pid": a process,
--    "exe": the program that it runs, or null, "agent": whether it is stopped although it is listed}
--
-- The Host signs these bytes (Ed25519, domain bastion-order-1). Who carries them does not matter.

-- At the Host: orders on their way. They are sent with every beat until the box answers.
CREATE TABLE host_order (
    id         INTEGER PRIMARY KEY,
    box_id     INTEGER NOT NULL REFERENCES host_box (id),
    nonce      TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    kind       TEXT    NOT NULL CHECK (kind IN ('rotate', 'contain')),
    terms      TEXT    NOT NULL CHECK (json_valid(terms) AND length(CAST(terms AS BLOB)) <= 8192),
    signature  BLOB    NOT NULL CHECK (length(signature) = 64),
    state      TEXT    NOT NULL DEFAULT 'waiting'
               CHECK (state IN ('waiting', 'sent', 'answered', 'expired', 'withdrawn')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at),
    sent_at    INTEGER,                                        -- first
    ended_at   INTEGER,
    outcome    TEXT    CHECK (outcome IN ('done', 'refused', 'failed', 'lost')),
    result     TEXT    CHECK (result IS NULL OR (json_valid(result) AND length(result) <= 65536)),
    CHECK ((state IN ('waiting', 'sent')) = (ended_at IS NULL)),
    CHECK ((state = 'answered') = (outcome IS NOT NULL)),
    CHECK ((outcome IS NULL) = (result IS NULL))
) STRICT;

CREATE INDEX host_order_open ON host_order (box_id, id) WHERE ended_at IS NULL;

CREATE TRIGGER host_order_born BEFORE INSERT ON host_order
BEGIN
    SELECT RAISE(ABORT, 'order.transition|an order begins as waiting') WHERE NEW.state <> 'waiting';
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'order.endpoint|an endpoint of this list is not a host:port')
     WHERE NEW.kind = 'rotate'
       AND EXISTS (SELECT 1 FROM json_each(NEW.terms, '$.endpoints')
                    WHERE type <> 'text' OR endpoint_text(value) IS NOT value);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than the setting pairing.endpoints allows')
     WHERE NEW.kind = 'rotate' AND json_array_length(NEW.terms, '$.endpoints')
         NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'pairing.endpoints');
    SELECT RAISE(ABORT, 'order.process|a process to contain has a number from 2 on')
     WHERE NEW.kind = 'contain' AND NOT (NEW.terms ->> '$.pid' BETWEEN 2 AND 2147483647);
    SELECT RAISE(ABORT, 'order.ttl|an order cannot be open for that long')
     WHERE NEW.expires_at - NEW.created_at > (SELECT high FROM setting WHERE name = 'order.ttl_ms');
    SELECT RAISE(ABORT, 'order.busy|more orders wait for this box than the setting order.waiting allows')
     WHERE (SELECT count(*) FROM host_order WHERE box_id = NEW.box_id AND ended_at IS NULL)
        >= (SELECT value FROM setting WHERE name = 'order.waiting');
    SELECT RAISE(ABORT, 'order.signature|an order is what this Host signed, for this box')
     WHERE signed_by('bastion-order-1', (SELECT identity_key FROM box WHERE role = 'host'), NEW.terms,
                     NEW.signature) IS NOT 1
        OR (NEW.terms ->> '$.order') IS NOT NEW.nonce OR (NEW.terms ->> '$.kind') IS NOT NEW.kind
        OR (NEW.terms ->> '$.issued_at') IS NOT NEW.created_at
        OR (NEW.terms ->> '$.expires_at') IS NOT NEW.expires_at
        OR (NEW.terms ->> '$.box_key')
           IS NOT (SELECT lower(hex(box_key)) FROM host_box WHERE id = NEW.box_id);
END;

CREATE TRIGGER host_order_moves BEFORE UPDATE ON host_order
BEGIN
    SELECT RAISE(ABORT, 'order.transition|an order cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'host_order' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'order.final|an order that is over is history')
     WHERE NEW.state IS OLD.state AND OLD.ended_at IS NOT NULL;
    SELECT RAISE(ABORT, 'order.fixed|an order keeps what was signed')
     WHERE NEW.id IS NOT OLD.id OR NEW.box_id IS NOT OLD.box_id OR NEW.nonce IS NOT OLD.nonce
        OR NEW.kind IS NOT OLD.kind OR NEW.terms IS NOT OLD.terms OR NEW.signature IS NOT OLD.signature
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at;
END;

CREATE TRIGGER host_order_stays BEFORE DELETE ON host_order
WHEN OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'host_order')
BEGIN
    SELECT RAISE(ABORT, 'order.final|an order is withdrawn, not deleted');
END;

CREATE TRIGGER host_order_audit_birth AFTER INSERT ON host_order
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'host_order', NEW.id, NEW.state, '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'terms', json(NEW.terms)));
END;

CREATE TRIGGER host_order_audit_move AFTER UPDATE OF state ON host_order WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'host_order', NEW.id, NEW.state, '',
            json_object('order', NEW.nonce, 'outcome', NEW.outcome, 'result', json(NEW.result)));
END;

CREATE TRIGGER host_order_ends_with_box AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    UPDATE host_order SET state = 'withdrawn', ended_at = NEW.gone_at
     WHERE box_id = NEW.id AND ended_at IS NULL;
END;

-- What the next answer to a box carries, the oldest first, and so long that any box takes it.
CREATE VIEW host_order_due AS
SELECT id, box_id, terms, signature
  FROM (SELECT *, row_number() OVER through AS place, sum(length(terms)) OVER through AS long
          FROM host_order WHERE ended_at IS NULL AND expires_at > now_ms()
        WINDOW through AS (PARTITION BY box_id ORDER BY id))
 WHERE place <= (SELECT value FROM setting WHERE name = 'order.batch')
   AND long <= (SELECT low / 4 FROM setting WHERE name = 'beat.bytes');

-- What this Host ordered of its boxes, in words, and what became of it.
CREATE VIEW orders AS
SELECT o.id, b.name AS box, o.kind,
       CASE o.kind WHEN 'rotate' THEN o.terms -> '$.endpoints'
            ELSE coalesce((o.terms ->> '$.exe') || ' ', '') || (o.terms ->> '$.pid') END AS what,
       o.state, o.outcome, o.result, o.created_at, o.sent_at, o.ended_at, o.expires_at
  FROM host_order AS o JOIN host_box AS b ON b.id = o.box_id;

-- At the box: each order of a Host once, for ever, whatever became of it (retention_over.sql). Taken: it is to be done;
-- a rotation is done when the Host was reached at the new place.
CREATE TABLE directive (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    nonce      TEXT    NOT NULL CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    kind       TEXT    NOT NULL CHECK (kind IN ('rotate', 'contain')),
    terms      TEXT    NOT NULL CHECK (json_valid(terms) AND length(CAST(terms AS BLOB)) <= 8192),
    signature  BLOB    NOT NULL CHECK (length(signature) = 64),
    signer     BLOB    NOT NULL CHECK (length(signer) = 32),   -- the Host's key at that time
    state      TEXT    NOT NULL DEFAULT 'taken'
               CHECK (state IN ('taken', 'running', 'done', 'refused', 'failed', 'lost')),
    taken_at   INTEGER NOT NULL,
    started_at INTEGER,
    by_uid     INTEGER,                                        -- who carries it out, on the kernel's word
    ended_at   INTEGER,
    result     TEXT    CHECK (result IS NULL OR (json_valid(result) AND length(result) <= 65536)),
    expires_at INTEGER GENERATED ALWAYS AS
               (CASE WHEN json_valid(terms) THEN terms ->> '$.expires_at' END) VIRTUAL,
    UNIQUE (pairing_id, nonce),
    CHECK ((state IN ('taken', 'running')) = (ended_at IS NULL)),
    CHECK ((ended_at IS NULL) = (result IS NULL)),
    CHECK (state <> 'running' OR (started_at IS NOT NULL AND by_uid IS NOT NULL))
) STRICT;

CREATE INDEX directive_open ON directive (id) WHERE ended_at IS NULL;
CREATE INDEX directive_by_time ON directive (pairing_id, taken_at);

-- Endpoints that a Host ordered and that were not reached yet. The old ones stay until one was.
CREATE TABLE rotation_endpoint (
    pairing_id   INTEGER NOT NULL REFERENCES pairing (id),
    ord          INTEGER NOT NULL CHECK (ord >= 1),
    endpoint     TEXT    NOT NULL,
    directive_id INTEGER NOT NULL REFERENCES directive (id),
    PRIMARY KEY (pairing_id, ord)
) STRICT, WITHOUT ROWID;

-- Exactly these members, each once: no two readers take it for different orders.
CREATE TRIGGER directive_is_the_hosts BEFORE INSERT ON directive
BEGIN
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.signature|this order is not signed by the Host of this pairing')
     WHERE NEW.signer IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id)
        OR signed_by('bastion-order-1', NEW.signer, NEW.terms, NEW.signature) IS NOT 1;
    SELECT RAISE(ABORT, 'directive.form|this is no order of a Host')
     WHERE CASE WHEN json_valid(NEW.terms) THEN json_type(NEW.terms) IS NOT 'object' ELSE 1 END
        OR length(CAST(NEW.terms AS BLOB)) > 8192;
    SELECT RAISE(ABORT, 'directive.form|this is no order of a Host')
     WHERE (SELECT group_concat(key || ' ' || iif(type = 'false', 'true', type))
              FROM (SELECT key, type FROM json_each(NEW.terms) ORDER BY key)) IS NOT
           CASE NEW.terms ->> '$.kind'
           WHEN 'rotate' THEN 'box_key text,endpoints array,expires_at integer,host text,'
                || 'issued_at integer,kind text,order text'
           WHEN 'contain' THEN 'agent true,box_key text,exe '
                || iif(json_type(NEW.terms, '$.exe') = 'null', 'null', 'text')
                || ',expires_at integer,host text,issued_at integer,kind text,order text,pid integer'
           END
        OR NEW.kind IS NOT NEW.terms ->> '$.kind' OR NEW.nonce IS NOT NEW.terms ->> '$.order';
    SELECT RAISE(ABORT, 'directive.again|this order was taken before')
     WHERE EXISTS (SELECT 1 FROM directive WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce)
        OR (NEW.terms ->> '$.expires_at')
           <= (SELECT expires_to FROM directive_gone WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.transition|an order begins as taken')
     WHERE NEW.state <> 'taken' OR NEW.taken_at <> now_ms();
    SELECT RAISE(ABORT, 'directive.other|this order is for another machine, or of another Host')
     WHERE (NEW.terms ->> '$.box_key') IS NOT (SELECT lower(hex(identity_key)) FROM box)
        OR (NEW.terms ->> '$.host')
           IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.time|the time that this order was signed at cannot be')
     WHERE (NEW.terms ->> '$.issued_at')
           > now_ms() + (SELECT value FROM setting WHERE name = 'lane.skew_ms')
        OR (NEW.terms ->> '$.issued_at') < (SELECT since FROM pairing WHERE id = NEW.pairing_id)
           - (SELECT value FROM setting WHERE name = 'lane.skew_ms')
        OR (NEW.terms ->> '$.expires_at') - (NEW.terms ->> '$.issued_at')
           NOT BETWEEN 1 AND (SELECT high FROM setting WHERE name = 'order.ttl_ms');
    -- (It may have been done since the copy was made.)
    SELECT RAISE(ABORT, 'directive.replayed|this order was signed before this database was restored')
     WHERE (NEW.terms ->> '$.issued_at') <= (SELECT max(restored_at) FROM restore);
    SELECT RAISE(ABORT, 'directive.expired|this order ran out')
     WHERE (NEW.terms ->> '$.expires_at') <= now_ms();
    SELECT RAISE(ABORT, 'directive.busy|this Host orders more than this machine keeps of one day')
     WHERE (SELECT count(*) FROM directive
             WHERE pairing_id = NEW.pairing_id AND taken_at > now_ms() - 86400000)
        >= (SELECT value FROM setting WHERE name = 'order.day');
END;

-- What is about to be done was allowed by a person here, and by the anchor where there is one.
CREATE TRIGGER directive_may_contain BEFORE UPDATE OF state ON directive
WHEN NEW.state = 'running' AND OLD.state = 'taken'
BEGIN
    SELECT RAISE(ABORT, 'contain.kind|only an order to contain is carried out so') WHERE NEW.kind <> 'contain';
    SELECT RAISE(ABORT, 'contain.authority|processes are stopped with machine authority, by root')
     WHERE NEW.by_uid IS NOT 0;
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held')
     WHERE EXISTS (SELECT 1 FROM held_pairings WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.expired|this order ran out') WHERE NEW.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'anchor.none|this machine is on a network and no Host is its anchor')
     WHERE (SELECT mode FROM box) IS NOT 'local' AND NOT EXISTS (SELECT 1 FROM live_anchor);
    SELECT RAISE(ABORT, 'anchor.caps|the anchor has not approved ops of this kind for this Host')
     WHERE (SELECT mode FROM box) IS NOT 'local'
       AND NEW.pairing_id IS NOT (SELECT pairing_id FROM live_anchor)
       AND NOT EXISTS (SELECT 1 FROM approved_kinds
                        WHERE pairing_id = NEW.pairing_id AND class = 'contain');
    SELECT RAISE(ABORT, 'contain.right|no person allowed this Host to have processes stopped here')
     WHERE NOT EXISTS (SELECT 1 FROM live_contain_rights WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'contain.agents|this Host may not have listed processes stopped here')
     WHERE NEW.terms ->> '$.agent'
       AND NOT EXISTS (SELECT 1 FROM live_contain_rights WHERE pairing_id = NEW.pairing_id AND agents);
    SELECT RAISE(ABORT, 'contain.edited|the list of processes to spare was changed by another tool')
     WHERE NOT EXISTS (SELECT 1 FROM contain_account AS a JOIN contain_account_text AS t
                        WHERE seal_ok('contain', t.text, a.seal) = 1);
END;

CREATE TRIGGER directive_moves BEFORE UPDATE ON directive
BEGIN
    SELECT RAISE(ABORT, 'directive.transition|an order cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'directive' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'directive.final|what became of an order is written once')
     WHERE NEW.state IS OLD.state AND OLD.ended_at IS NOT NULL;
    SELECT RAISE(ABORT, 'directive.fixed|an order keeps what was signed')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.nonce IS NOT OLD.nonce
        OR NEW.kind IS NOT OLD.kind OR NEW.terms IS NOT OLD.terms OR NEW.signature IS NOT OLD.signature
        OR NEW.signer IS NOT OLD.signer OR NEW.taken_at IS NOT OLD.taken_at;
END;

CREATE TRIGGER directive_stays BEFORE DELETE ON directive
WHEN OLD.id NOT IN (SELECT id FROM over_row WHERE entity = 'directive')
  OR coalesce((SELECT expires_to FROM directive_gone WHERE pairing_id = OLD.pairing_id), 0) < OLD.expires_at
BEGIN
    SELECT RAISE(ABORT, 'directive.final|an order is kept until its time is over, so that it is never done again');
END;

CREATE TRIGGER directive_audit_birth AFTER INSERT ON directive
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'directive', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id), json_object('terms', json(NEW.terms)));
    -- The newest set alone is tried.
    UPDATE directive SET state = 'failed', ended_at = NEW.taken_at,
           result = json_object('code', 'rotate.superseded', 'why', 'a later order took its place')
     WHERE NEW.kind = 'rotate' AND pairing_id = NEW.pairing_id AND kind = 'rotate' AND state = 'taken'
       AND id <> NEW.id;
END;

CREATE TRIGGER directive_audit_move AFTER UPDATE OF state ON directive WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'directive', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('order', NEW.nonce, 'result', json(NEW.result)));
END;

-- The Host hears of a result at once, and one that was refused counts as any refused ask.
CREATE TRIGGER directive_ends AFTER UPDATE OF state ON directive
WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL
BEGIN
    INSERT INTO directive_untold (directive_id, pairing_id) VALUES (NEW.id, NEW.pairing_id);
    INSERT INTO beat_request (pairing_id, at)
    SELECT id, now_ms() FROM pairing_status WHERE id = NEW.pairing_id AND active
        ON CONFLICT DO NOTHING;
    INSERT INTO refused (at, pairing_id, surface, asked, code, why)
    SELECT now_ms(), NEW.pairing_id, 'lane', 'order:' || NEW.kind, code, NEW.result ->> '$.why'
      FROM refusal WHERE NEW.state = 'refused' AND code = NEW.result ->> '$.code';
END;

-- The set that was reached takes the place of the old one, whole.
CREATE TRIGGER directive_rotates AFTER UPDATE OF state ON directive
WHEN NEW.kind = 'rotate' AND OLD.state = 'taken' AND NEW.ended_at IS NOT NULL
BEGIN
    DELETE FROM pairing_endpoint WHERE NEW.state = 'done' AND pairing_id = NEW.pairing_id;
    INSERT INTO pairing_endpoint (pairing_id, ord, endpoint)
    SELECT pairing_id, ord, endpoint FROM rotation_endpoint
     WHERE NEW.state = 'done' AND directive_id = NEW.id ORDER BY ord;
    DELETE FROM rotation_endpoint WHERE directive_id = NEW.id;
END;

CREATE TRIGGER rotation_endpoint_is_one BEFORE INSERT ON rotation_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.invalid|an endpoint of this list is not a host:port')
     WHERE endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint);
    SELECT RAISE(ABORT, 'endpoint.many|more endpoints than the setting pairing.endpoints allows')
     WHERE (SELECT count(*) FROM rotation_endpoint WHERE pairing_id = NEW.pairing_id)
        >= (SELECT value FROM setting WHERE name = 'pairing.endpoints');
    SELECT RAISE(ABORT, 'rotate.none|this Host is not reached by endpoints')
     WHERE NOT EXISTS (SELECT 1 FROM pairing_endpoint WHERE pairing_id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'directive.transition|endpoints are tried while their order is open')
     WHERE NOT EXISTS (SELECT 1 FROM directive WHERE id = NEW.directive_id AND kind = 'rotate'
                          AND state = 'taken' AND pairing_id = NEW.pairing_id);
END;

CREATE TRIGGER rotation_endpoint_no_update BEFORE UPDATE ON rotation_endpoint
BEGIN
    SELECT RAISE(ABORT, 'endpoint.fixed|endpoints are replaced, never edited');
END;

CREATE TRIGGER directive_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE directive SET state = 'failed', ended_at = NEW.ended_at,
           result = json_object('code', 'pairing.inactive', 'why', 'the pairing ended first')
     WHERE pairing_id = NEW.id AND state = 'taken';
END;

-- It may have been done since the copy was made, or withdrawn by its Host.
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

-- A new code says anew where its Host is reached.
CREATE TRIGGER directive_ends_with_code AFTER UPDATE OF renewed_at ON pairing
WHEN NEW.renewed_at IS NOT OLD.renewed_at AND NEW.renewed_at IS NOT NULL
BEGIN
    UPDATE directive SET state = 'failed', ended_at = NEW.renewed_at,
           result = json_object('code', 'rotate.superseded', 'why', 'a new pairing code took its place')
     WHERE pairing_id = NEW.id AND kind = 'rotate' AND state = 'taken';
END;

-- Results that the Host has not heard of yet. It says so in its answer, and the row goes.
CREATE TABLE directive_untold (
    directive_id INTEGER PRIMARY KEY REFERENCES directive (id),
    pairing_id   INTEGER NOT NULL REFERENCES pairing (id)
) STRICT;

CREATE INDEX directive_untold_by_pairing ON directive_untold (pairing_id, directive_id);

-- Orders that are done here and whose Host does not know it yet.
CREATE VIEW untold_result AS
SELECT d.id, u.pairing_id, d.nonce, d.kind, d.state, d.result
  FROM directive_untold AS u JOIN directive AS d ON d.id = u.directive_id;

-- Until when an order has to be done; a rotation is tried for longer than it may be under way.
CREATE VIEW directive_deadline AS
SELECT id, iif(kind = 'rotate',
               taken_at + (SELECT value FROM setting WHERE name = 'rotate.try_ms'), expires_at) AS at
  FROM directive WHERE ended_at IS NULL AND state = 'taken';

-- Where a Host is tried, in order: the places that it ordered first, and behind them the old ones.
CREATE VIEW pairing_dial AS
SELECT pairing_id, ord, endpoint, 1 AS fresh FROM rotation_endpoint
UNION ALL
SELECT e.pairing_id, e.ord + (SELECT count(*) FROM rotation_endpoint AS r WHERE r.pairing_id = e.pairing_id),
       e.endpoint, 0
  FROM pairing_endpoint AS e;
