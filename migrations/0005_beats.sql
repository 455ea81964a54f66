-- 0005_beats.sql: what a box tells its Host, orders and containing, quarantine.

-- What a person listed: it is spared with everything beneath it.
CREATE TABLE contain_spare (
    id          INTEGER PRIMARY KEY,
    label       TEXT    NOT NULL CHECK (length(label) BETWEEN 1 AND 64 AND instr(label, char(0)) = 0),
    uid         INTEGER NOT NULL CHECK (uid BETWEEN 0 AND 4294967294),
    exe         TEXT    NOT NULL CHECK (exe GLOB '/*' AND length(CAST(exe AS BLOB)) <= 4096
                        AND instr(exe, char(0)) = 0),
    argv_sha256 BLOB    CHECK (length(argv_sha256) = 32),      -- of that very command line; NULL: any
    state       TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    by_uid      INTEGER NOT NULL CHECK (by_uid >= 0),
    listed_at   INTEGER NOT NULL,
    dropped_at  INTEGER,
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL))
) STRICT;

CREATE INDEX contain_spare_live ON contain_spare (id) WHERE state = 'active';

CREATE TRIGGER contain_spare_born BEFORE INSERT ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.label|a label is 1 to 64 characters, none of them a control character')
     WHERE length(NEW.label) NOT BETWEEN 1 AND 64
        OR NEW.label GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'contain.transition|an entry of the list begins as active')
     WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'contain.listed|this process is listed already')
     WHERE EXISTS (SELECT 1 FROM contain_spare WHERE state = 'active' AND uid = NEW.uid
                      AND exe = NEW.exe AND argv_sha256 IS NEW.argv_sha256);
    SELECT RAISE(ABORT, 'contain.full|more entries than the setting contain.spared allows')
     WHERE (SELECT count(*) FROM contain_spare WHERE state = 'active')
        >= (SELECT value FROM setting WHERE name = 'contain.spared');
END;

CREATE TRIGGER contain_spare_moves BEFORE UPDATE ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.transition|an entry of the list that was dropped stays dropped')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'contain_spare' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'contain.fixed|an entry of the list keeps what it names')
     WHERE NEW.id IS NOT OLD.id OR NEW.label IS NOT OLD.label OR NEW.uid IS NOT OLD.uid
        OR NEW.exe IS NOT OLD.exe OR NEW.argv_sha256 IS NOT OLD.argv_sha256
        OR NEW.by_uid IS NOT OLD.by_uid OR NEW.listed_at IS NOT OLD.listed_at;
    -- (A list that says less lets a Host stop more.)
    SELECT RAISE(ABORT, 'contain.factor|a factor has to prove who takes an entry from the list')
     WHERE NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms());
END;

CREATE TRIGGER contain_spare_stays BEFORE DELETE ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|an entry of the list is dropped, not deleted');
END;

CREATE TRIGGER contain_spare_audit_birth AFTER INSERT ON contain_spare
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_spare', NEW.id, NEW.state, '',
            json_object('label', NEW.label, 'uid', NEW.uid, 'exe', NEW.exe,
                        'argv_sha256', lower(hex(NEW.argv_sha256)), 'by', NEW.by_uid));
END;

CREATE TRIGGER contain_spare_audit_move AFTER UPDATE OF state ON contain_spare
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_spare', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

-- The whole list under one seal, so that an entry that another tool took away is missed as well.
CREATE TABLE contain_account (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    seal      BLOB    NOT NULL CHECK (length(seal) = 64),
    sealed_at INTEGER NOT NULL
) STRICT;

CREATE VIEW contain_account_text AS
SELECT json_array('contain-spared', json(coalesce((SELECT json_group_array(json_array(id, uid, exe,
                  lower(hex(argv_sha256)))) FROM (SELECT * FROM contain_spare WHERE state = 'active'
                  ORDER BY id)), '[]'))) AS text;

CREATE TRIGGER contain_account_fits_birth BEFORE INSERT ON contain_account
WHEN seal_ok('contain', (SELECT text FROM contain_account_text), NEW.seal) IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list');
END;

CREATE TRIGGER contain_account_fits BEFORE UPDATE ON contain_account
WHEN NEW.id IS NOT OLD.id
  OR seal_ok('contain', (SELECT text FROM contain_account_text), NEW.seal) IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list');
END;

CREATE TRIGGER contain_account_stays BEFORE DELETE ON contain_account
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|the seal of the list is replaced, not deleted');
END;

-- A person's word that a Host may have processes stopped; with agents, also one that is listed.
CREATE TABLE contain_right (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    host_key   BLOB    NOT NULL CHECK (length(host_key) = 32),
    agents     INTEGER NOT NULL CHECK (agents IN (0, 1)),
    factor_id  INTEGER NOT NULL REFERENCES factor (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at),
    seal_text  TEXT    GENERATED ALWAYS AS
               (json_array('contain-right', pairing_id, lower(hex(host_key)), agents, factor_id, created_at,
                           expires_at)) VIRTUAL,
    seal       BLOB    NOT NULL CHECK (length(seal) = 64),
    state      TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'expired', 'dropped')),
    by_uid     INTEGER NOT NULL CHECK (by_uid >= 0),
    ended_at   INTEGER,
    end_reason TEXT    CHECK (length(end_reason) <= 128),
    CHECK ((state = 'active') = (ended_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX contain_right_once ON contain_right (pairing_id) WHERE state = 'active';

CREATE TRIGGER contain_right_on_a_persons_word BEFORE INSERT ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
        OR NEW.host_key IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'contain.factor|a factor has to prove who allows this')
     WHERE (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
        OR NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms())
        OR NEW.created_at <> now_ms();
    SELECT RAISE(ABORT, 'contain.ttl|this cannot be allowed for that long')
     WHERE NEW.expires_at - NEW.created_at
         > (SELECT high FROM setting WHERE name = 'contain.ttl_ms');
    SELECT RAISE(ABORT, 'contain.transition|what is allowed begins as active') WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list')
     WHERE seal_ok('contain', NEW.seal_text, NEW.seal) IS NOT 1;
    UPDATE contain_right SET state = 'dropped', ended_at = now_ms(), end_reason = 'allowed anew'
     WHERE pairing_id = NEW.pairing_id AND state = 'active';
END;

CREATE TRIGGER contain_right_moves BEFORE UPDATE ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'contain.transition|what was taken back stays so')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'contain_right' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'contain.fixed|what was allowed never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_key IS NOT OLD.host_key OR NEW.agents IS NOT OLD.agents
        OR NEW.factor_id IS NOT OLD.factor_id OR NEW.created_at IS NOT OLD.created_at
        OR NEW.expires_at IS NOT OLD.expires_at OR NEW.seal IS NOT OLD.seal
        OR NEW.by_uid IS NOT OLD.by_uid;
END;

CREATE TRIGGER contain_right_stays BEFORE DELETE ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|what was allowed is dropped, not deleted');
END;

CREATE TRIGGER contain_right_audit_birth AFTER INSERT ON contain_right
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_right', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('agents', NEW.agents, 'factor', NEW.factor_id, 'expires_at', NEW.expires_at,
                        'by', NEW.by_uid));
END;

CREATE TRIGGER contain_right_audit_move AFTER UPDATE OF state ON contain_right
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_right', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('reason', NEW.end_reason));
END;

-- A restored machine is an older self: what it allowed then is allowed anew, or not at all.
CREATE TRIGGER contain_right_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE contain_right SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored'
     WHERE state = 'active';
END;

-- Hosts that may have processes stopped now.
CREATE VIEW live_contain_rights AS
SELECT r.id, r.pairing_id, p.host_name AS host, r.agents, f.label AS factor, r.created_at, r.expires_at
  FROM contain_right AS r
  JOIN pairing AS p ON p.id = r.pairing_id AND p.state = 'active' AND p.host_key = r.host_key
  JOIN factor AS f ON f.id = r.factor_id AND f.state = 'active'
 WHERE r.state = 'active' AND r.expires_at > now_ms() AND seal_ok('contain', r.seal_text, r.seal) = 1;

-- What became of the processes that an order was about. One that stopped nothing has no kill.
CREATE TABLE contain_process (
    directive_id INTEGER NOT NULL REFERENCES directive (id),
    boot_id      TEXT    NOT NULL CHECK (length(boot_id) = 36),
    pid          INTEGER NOT NULL CHECK (pid >= 2),
    start_ticks  INTEGER NOT NULL CHECK (start_ticks >= 0),
    program      TEXT    NOT NULL CHECK (length(program) <= 64),
    uid          INTEGER NOT NULL CHECK (uid >= 0),
    fate         TEXT    NOT NULL CHECK (fate IN ('stopped', 'spared')),
    why          TEXT    NOT NULL DEFAULT '' CHECK (length(why) <= 128),    -- it was spared
    at           INTEGER NOT NULL,
    PRIMARY KEY (directive_id, pid, start_ticks)
) STRICT, WITHOUT ROWID;

CREATE VIEW contain_kills AS
SELECT p.host_name AS host, c.directive_id, c.pid, c.program, c.uid, c.at
  FROM contain_process AS c JOIN directive AS d ON d.id = c.directive_id
  JOIN pairing AS p ON p.id = d.pairing_id
 WHERE c.fate = 'stopped';

CREATE TRIGGER contain_process_is_of_an_order BEFORE INSERT ON contain_process
BEGIN
    SELECT RAISE(ABORT, 'contain.order|processes are stopped by an order that is carried out now')
     WHERE (SELECT state FROM directive WHERE id = NEW.directive_id) IS NOT 'running';
END;

CREATE TRIGGER contain_process_no_update BEFORE UPDATE ON contain_process
BEGIN
    SELECT RAISE(ABORT, 'contain.order|what was stopped is history');
END;

CREATE TRIGGER contain_process_no_delete BEFORE DELETE ON contain_process
BEGIN
    SELECT RAISE(ABORT, 'contain.order|what was stopped is history');
END;

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

CREATE VIEW orders AS
SELECT o.id, b.name AS box, o.kind,
       CASE o.kind WHEN 'rotate' THEN o.terms -> '$.endpoints'
            ELSE coalesce((o.terms ->> '$.exe') || ' ', '') || (o.terms ->> '$.pid') END AS what,
       o.state, o.outcome, o.result, o.created_at, o.sent_at, o.ended_at, o.expires_at
  FROM host_order AS o JOIN host_box AS b ON b.id = o.box_id;

-- At the box: each order of a Host once, for ever, whatever became of it. Taken: it is to be done;
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
     WHERE EXISTS (SELECT 1 FROM directive WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce);
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
BEGIN
    SELECT RAISE(ABORT, 'directive.final|an order is kept for ever, so that it is never done again');
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

-- At the Host: the newest beat of each box, one row, as it came.
CREATE TABLE host_beat (
    box_id INTEGER PRIMARY KEY REFERENCES host_box (id),
    beat   TEXT    NOT NULL CHECK (json_valid(beat) AND length(CAST(beat AS BLOB)) <= 1048576),
    at     INTEGER NOT NULL
) STRICT;

CREATE TRIGGER host_beat_born BEFORE INSERT ON host_beat
BEGIN
    SELECT RAISE(ABORT, 'beat.size|a beat is longer than the setting beat.bytes allows')
     WHERE length(CAST(NEW.beat AS BLOB)) > (SELECT value FROM setting WHERE name = 'beat.bytes');
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    -- (A newer box may say more: what is not named here is kept and not looked at.)
    SELECT RAISE(ABORT, 'beat.form|this is no beat of a box')
     WHERE CASE WHEN json_valid(NEW.beat) THEN json_type(NEW.beat) IS NOT 'object'
                  OR json_type(NEW.beat, '$.name') IS NOT 'text'
                  OR length(NEW.beat ->> '$.name') NOT BETWEEN 1 AND 64
                  OR json_type(NEW.beat, '$.version') IS NOT 'text'
                  OR length(NEW.beat ->> '$.version') > 64
                  OR json_type(NEW.beat, '$.platform') IS NOT 'text'
                  OR length(NEW.beat ->> '$.platform') > 128
                  OR (NEW.beat ->> '$.state') IS NOT 'active'
                  OR json_type(NEW.beat, '$.enforcing') IS NOT 'object'
                  OR coalesce(json_type(NEW.beat, '$.endpoint_save_pending'), '') NOT IN ('true', 'false')
                  OR json_type(NEW.beat, '$.orders') IS NOT 'array'
                ELSE 1 END;
    SELECT RAISE(ABORT, 'beat.form|a result in this beat is none')
     WHERE json_array_length(NEW.beat, '$.orders') > (SELECT high FROM setting WHERE name = 'order.batch')
        OR EXISTS (SELECT 1 FROM json_each(NEW.beat, '$.orders') AS o
                    WHERE CASE WHEN o.type <> 'object' THEN 1
                               ELSE json_type(o.value, '$.order') IS NOT 'text'
                                 OR length(o.value ->> '$.order') <> 32
                                 OR coalesce(o.value ->> '$.state', '')
                                    NOT IN ('done', 'refused', 'failed', 'lost')
                                 OR json_type(o.value, '$.result') IS NOT 'object'
                                 OR length(o.value -> '$.result') > 65536 END);
    DELETE FROM host_beat WHERE box_id = NEW.box_id;
END;

CREATE TRIGGER host_beat_no_update BEFORE UPDATE ON host_beat
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|a beat is replaced by the next one, never edited');
END;

-- Orders that the box answers are over; the box has been heard.
CREATE TRIGGER host_beat_does AFTER INSERT ON host_beat
BEGIN
    UPDATE host_box SET heard_at = NEW.at WHERE id = NEW.box_id AND NEW.at > coalesce(heard_at, 0);
    UPDATE host_order
       SET state = 'answered', ended_at = NEW.at, outcome = o.value ->> '$.state',
           result = o.value -> '$.result'
      FROM json_each(NEW.beat, '$.orders') AS o
     WHERE box_id = NEW.box_id AND nonce = o.value ->> '$.order' AND host_order.state = 'sent';
END;

-- What this machine can run: what the worker found when it started. No row: it has not looked yet.
CREATE TABLE verb_probe (
    verb TEXT    PRIMARY KEY CHECK (length(verb) BETWEEN 1 AND 64),
    can  INTEGER NOT NULL CHECK (can IN (0, 1)),
    why  TEXT    NOT NULL DEFAULT '' CHECK (length(why) <= 256),   -- it cannot
    at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What this build enforces, whatever the machine.
CREATE TABLE enforces (
    name  TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64 AND name NOT GLOB '*[^a-z_]*'),
    value TEXT NOT NULL CHECK (json_valid(value))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER enforces_fixed BEFORE UPDATE ON enforces
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|what a build enforces comes with its migrations');
END;

CREATE TRIGGER enforces_stays BEFORE DELETE ON enforces
BEGIN
    SELECT RAISE(ABORT, 'beat.fixed|what a build enforces comes with its migrations');
END;

-- What a Host is told that this machine enforces: each verb, and the rows of enforces.
CREATE VIEW enforcing AS
SELECT json_set((SELECT coalesce(json_group_object(name, json(value)), '{}') FROM enforces), '$.verbs',
                (SELECT json_group_array(json_object('verb', name, 'can', json(can), 'why', why))
                   FROM (SELECT o.name, coalesce(p.why, 'not looked at yet') AS why,
                                iif(p.can = 1, 'true', 'false') AS can
                           FROM op AS o LEFT JOIN verb_probe AS p ON p.verb = o.name
                          ORDER BY o.name))) AS report;

-- A box's beat for each Host that it answers to: about that pairing alone, and so long that any Host
-- takes it, whatever its settings.
CREATE VIEW beat AS
SELECT s.id AS pairing_id,
       json_object('name', b.name, 'state', s.state,
                   'caps', json(coalesce(s.caps, '[]')),
                   'enforcing', json((SELECT report FROM enforcing)),
                   'endpoint_save_pending',
                   json(iif(EXISTS (SELECT 1 FROM rotation_endpoint WHERE pairing_id = s.id),
                            'true', 'false')),
                   'orders',
                   (SELECT json_group_array(json_object('order', nonce, 'kind', kind, 'state', state,
                                                        'result', json(result)))
                      FROM (SELECT *, sum(length(result)) OVER (ORDER BY id) AS long
                              FROM untold_result WHERE pairing_id = s.id ORDER BY id
                             LIMIT (SELECT value FROM setting WHERE name = 'order.batch'))
                     WHERE long <= (SELECT low / 2 FROM setting WHERE name = 'beat.bytes'))) AS body
  FROM pairing_status AS s JOIN box AS b
 WHERE s.active;

-- When each box was heard last, and how: 'beating' where that is not long ago.
CREATE VIEW box_beats AS
SELECT b.id AS box_id, b.name, h.at AS beat_at, h.beat ->> '$.version' AS version,
       h.beat ->> '$.platform' AS platform, h.beat -> '$.enforcing' AS enforcing,
       CASE WHEN b.state = 'gone' THEN 'gone' WHEN h.at IS NULL THEN 'connected'
            WHEN h.at > now_ms() - (SELECT value FROM setting WHERE name = 'beat.silent_ms')
            THEN 'beating' ELSE 'silent' END AS state
  FROM host_box AS b LEFT JOIN host_beat AS h ON h.box_id = b.id;

-- fill with refused asks is bounded.

-- Refusals that count against the Host that was refused. What only means "not now" is none of them, nor
-- what was not proven to come from that Host.
CREATE TABLE strike (
    code TEXT PRIMARY KEY REFERENCES refusal (code) CHECK (code NOT GLOB 'lane.*')
) STRICT, WITHOUT ROWID;

-- One hold of one Host. 'lapsed': it was sat out, and the next one is twice as long; 'lifted': a person
-- forgave it.
CREATE TABLE quarantine (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    state      TEXT    NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'lapsed', 'lifted')),
    strikes    INTEGER NOT NULL CHECK (strikes >= 1),
    last       INTEGER NOT NULL,                               -- the refused ask that it began with
    from_at    INTEGER NOT NULL,
    until_at   INTEGER NOT NULL CHECK (until_at > from_at),
    ended_at   INTEGER,
    by_uid     INTEGER CHECK (by_uid >= 0),                    -- who lifted it
    CHECK ((state = 'held') = (ended_at IS NULL)),
    CHECK ((state = 'lifted') = (by_uid IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX quarantine_once ON quarantine (pairing_id) WHERE state = 'held';
CREATE INDEX quarantine_by_pairing ON quarantine (pairing_id, id);

CREATE TRIGGER quarantine_born BEFORE INSERT ON quarantine WHEN NEW.state <> 'held'
BEGIN
    SELECT RAISE(ABORT, 'quarantine.transition|a hold begins as held');
END;

CREATE TRIGGER quarantine_moves BEFORE UPDATE ON quarantine
BEGIN
    SELECT RAISE(ABORT, 'quarantine.transition|a hold that is over stays over')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'quarantine' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'quarantine.early|a hold lapses when its time is over')
     WHERE NEW.state = 'lapsed' AND OLD.until_at > now_ms();
    SELECT RAISE(ABORT, 'quarantine.late|this hold is over already')
     WHERE NEW.state = 'lifted' AND OLD.until_at <= now_ms();
    SELECT RAISE(ABORT, 'quarantine.fixed|a hold keeps its Host and its time')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.strikes IS NOT OLD.strikes OR NEW.last IS NOT OLD.last
        OR NEW.from_at IS NOT OLD.from_at OR NEW.until_at IS NOT OLD.until_at;
END;

CREATE TRIGGER quarantine_stays BEFORE DELETE ON quarantine
BEGIN
    SELECT RAISE(ABORT, 'quarantine.kept|a hold is lifted, not deleted');
END;

CREATE TRIGGER quarantine_audit_birth AFTER INSERT ON quarantine
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'quarantine', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('strikes', NEW.strikes, 'until_at', NEW.until_at));
END;

CREATE TRIGGER quarantine_audit_move AFTER UPDATE OF state ON quarantine
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'quarantine', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id), json_object('by', NEW.by_uid));
END;

-- Who is held now.
CREATE VIEW held_pairings AS
SELECT q.id, q.pairing_id, p.host_name AS host, q.strikes, q.from_at, q.until_at
  FROM quarantine AS q JOIN pairing AS p ON p.id = q.pairing_id
 WHERE q.state = 'held' AND q.until_at > now_ms();

CREATE INDEX refused_by_pairing ON refused (pairing_id, at);

-- (A hold that nobody closed yet is lapsed if its time is over. One long past is forgotten.)
CREATE TRIGGER refused_strikes AFTER INSERT ON refused
WHEN EXISTS (SELECT 1 FROM strike WHERE code = NEW.code)
 AND EXISTS (SELECT 1 FROM pairing WHERE id = NEW.pairing_id AND state <> 'revoked')
 AND NOT EXISTS (SELECT 1 FROM held_pairings WHERE pairing_id = NEW.pairing_id)
 AND (SELECT count(*) FROM refused AS r JOIN strike AS s ON s.code = r.code
       WHERE r.pairing_id = NEW.pairing_id
         AND r.at > now_ms() - (SELECT value FROM setting WHERE name = 'quarantine.window_ms')
         AND r.id > coalesce((SELECT max(last) FROM quarantine WHERE pairing_id = NEW.pairing_id), 0))
  >= (SELECT value FROM setting WHERE name = 'quarantine.strikes')
BEGIN
    UPDATE quarantine SET state = 'lapsed', ended_at = now_ms()
     WHERE pairing_id = NEW.pairing_id AND state = 'held' AND until_at <= now_ms();
    INSERT INTO quarantine (pairing_id, strikes, last, from_at, until_at)
    SELECT NEW.pairing_id, (SELECT value FROM setting WHERE name = 'quarantine.strikes'), NEW.id, now_ms(),
           now_ms() + max(b.value, min(2 * coalesce(h.length, 0), c.value))
      FROM setting AS b JOIN setting AS c ON c.name = 'quarantine.cap_ms'
      LEFT JOIN (SELECT until_at - from_at AS length FROM quarantine
                  WHERE pairing_id = NEW.pairing_id AND state = 'lapsed'
                    AND until_at > now_ms()
                        - (SELECT value FROM setting WHERE name = 'quarantine.forget_ms')
                    AND id = (SELECT max(id) FROM quarantine WHERE pairing_id = NEW.pairing_id)) AS h
     WHERE b.name = 'quarantine.base_ms';
END;

-- While a Host is held, nothing that it asks is answered or put before a person. What takes away (its
-- grants, its pairing) goes on.
CREATE TRIGGER op_run_not_held BEFORE INSERT ON op_run
WHEN EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held'
                AND until_at > now_ms())
BEGIN
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held');
END;

CREATE TRIGGER approval_not_held BEFORE INSERT ON approval
WHEN EXISTS (SELECT 1 FROM quarantine WHERE pairing_id = NEW.pairing_id AND state = 'held'
                AND until_at > now_ms())
BEGIN
    SELECT RAISE(ABORT, 'pairing.held|this Host asked too often for what it may not, and is held');
END;

-- Rows of refused asks of one Host in one stretch of time: what is over is counted and not kept. What
-- was not proven to be the Host's, and strikes, have stretches of their own, so that neither crowds
-- the other out; as many are kept as hold a Host. (pairing_id 0: of nobody.)
CREATE TABLE refused_stretch (
    pairing_id INTEGER NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind IN ('unproven', 'refused', 'strike')),
    since      INTEGER NOT NULL,
    kept       INTEGER NOT NULL CHECK (kept >= 0),
    dropped    INTEGER NOT NULL DEFAULT 0 CHECK (dropped >= 0),
    PRIMARY KEY (pairing_id, kind)
) STRICT, WITHOUT ROWID;

CREATE VIEW refused_dropped AS
SELECT coalesce(p.host_name, '') AS host, r.kind, r.since, r.kept, r.dropped
  FROM refused_stretch AS r LEFT JOIN pairing AS p ON p.id = r.pairing_id WHERE r.dropped > 0;

CREATE TRIGGER refused_stretch_audit AFTER UPDATE OF dropped ON refused_stretch
WHEN NEW.dropped = 1 AND OLD.dropped = 0
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'refused_stretch', NEW.pairing_id, 'full',
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('kind', NEW.kind, 'kept', NEW.kept, 'since', NEW.since));
END;

CREATE VIEW refusal_kind AS
SELECT code, CASE WHEN code GLOB 'lane.*' THEN 'unproven'
                  WHEN code IN (SELECT code FROM strike) THEN 'strike' ELSE 'refused' END AS kind
  FROM refusal;

CREATE TRIGGER refused_bounded BEFORE INSERT ON refused WHEN NEW.surface <> 'cli'
BEGIN
    INSERT INTO refused_stretch (pairing_id, kind, since, kept)
    SELECT coalesce(NEW.pairing_id, 0), kind, now_ms(), 0 FROM refusal_kind WHERE code = NEW.code
        ON CONFLICT DO UPDATE SET since = now_ms(), kept = 0, dropped = 0
           WHERE refused_stretch.since
              <= now_ms() - (SELECT value FROM setting WHERE name = 'refused.stretch_ms');
    UPDATE refused_stretch
       SET kept = kept + (kept < (SELECT max(value) FROM setting
                                   WHERE name IN ('refused.kept', 'quarantine.strikes'))),
           dropped = dropped + (kept >= (SELECT max(value) FROM setting
                                          WHERE name IN ('refused.kept', 'quarantine.strikes')))
     WHERE pairing_id = coalesce(NEW.pairing_id, 0)
       AND kind = (SELECT kind FROM refusal_kind WHERE code = NEW.code);
    SELECT RAISE(IGNORE)
      FROM refused_stretch
     WHERE dropped > 0 AND pairing_id = coalesce(NEW.pairing_id, 0)
       AND kind = (SELECT kind FROM refusal_kind WHERE code = NEW.code);
END;

-- What a worker was stopping when it died is not stopped again: part of it may be done.
CREATE TRIGGER actor_run_closes_directives AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE directive SET state = 'lost', ended_at = NEW.ended_at,
           result = json_object('code', 'directive.lost', 'why', 'the worker ended before the order did')
     WHERE state = 'running';
END;

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('beat.bytes', 262144, 'bytes', 131072, 1048576, 'longest beat of a box, and longest answer to one'),
    ('beat.silent_ms', 180000, 'ms', 1000, 86400000, 'a box that was not heard for this long is silent'),
    ('contain.named', 64, 'rows', 1, 200, 'processes that the result of an order names; the rest is counted'),
    ('contain.processes', 65536, 'rows', 16, 4194304, 'processes of a machine that are looked at; with more nothing is stopped'),
    ('contain.rounds', 8, 'rounds', 1, 100, 'how often children that were born meanwhile are looked for'),
    ('contain.spared', 256, 'rows', 1, 10000, 'entries in the list of processes to spare'),
    ('contain.ttl_ms', 2592000000, 'ms', 1000, 31536000000, 'how long a Host may have processes stopped where no time is given'),
    ('order.batch', 16, 'rows', 1, 256, 'orders in one answer, and results in one beat'),
    ('order.day', 200, 'rows', 1, 100000, 'orders of one Host that are taken in one day'),
    ('order.ttl_ms', 86400000, 'ms', 1000, 604800000, 'how long an order waits for its box'),
    ('order.waiting', 64, 'rows', 1, 10000, 'orders that may wait for one box'),
    ('quarantine.base_ms', 300000, 'ms', 1000, 86400000, 'how long a Host is held the first time'),
    ('quarantine.cap_ms', 86400000, 'ms', 1000, 2592000000, 'longest that a Host is held'),
    ('quarantine.forget_ms', 604800000, 'ms', 1000, 31536000000, 'how long a hold that was sat out makes the next one longer'),
    ('quarantine.strikes', 20, 'rows', 1, 1000000, 'asks for what it may not, within quarantine.window_ms, before a Host is held'),
    ('quarantine.window_ms', 600000, 'ms', 1000, 86400000, 'how long such an ask counts'),
    ('refused.kept', 1000, 'rows', 100, 1000000, 'refused asks of one kind of one Host that are kept within refused.stretch_ms'),
    ('refused.stretch_ms', 3600000, 'ms', 1000, 86400000, 'stretch of time for refused.kept'),
    ('rotate.try_ms', 86400000, 'ms', 1000, 2592000000, 'how long new endpoints are tried before the order has failed');
INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('beat.fixed', 126, 409, 'what a machine says of itself comes with its next beat'),
    ('beat.form', 126, 422, 'bring the box and its Host to versions that know each other'),
    ('beat.size', 126, 413, 'raise the setting beat.bytes, or find out why the box says so much'),
    ('contain.agents', 77, 403, 'have a person at the machine allow it: bastion contain trust HOST --agents'),
    ('contain.authority', 3, 501, 'run the box''s daemon as root'),
    ('contain.bastion', 126, 403, 'name a process that is not bastion, its ancestor, init or of the kernel'),
    ('contain.edited', 77, 409, 'look at it, and seal it anew: bastion contain ls, bastion contain trust HOST'),
    ('contain.exe', 126, 409, 'look which process runs that program now'),
    ('contain.factor', 77, 403, 'enrol a factor first: bastion factor add'),
    ('contain.failed', 1, 500, 'see the daemon''s messages for the reason'),
    ('contain.fixed', 126, 409, 'drop it, and allow anew'),
    ('contain.full', 126, 409, 'drop entries, or raise the setting contain.spared'),
    ('contain.gone', 126, 410, 'nothing is to be done: it has ended'),
    ('contain.kept', 126, 409, 'drop it with bastion contain'),
    ('contain.kind', 1, 500, 'this is a fault in bastion: please report it'),
    ('contain.label', 2, 422, 'give a short plain label'),
    ('contain.listed', 126, 409, 'see bastion contain ls'),
    ('contain.many', 75, 503, 'raise the setting contain.processes'),
    ('contain.order', 1, 500, 'this is a fault in bastion: please report it'),
    ('contain.process', 2, 404, 'name a process that runs, of which bastion may read the program'),
    ('contain.reused', 126, 409, 'look which process has that number now'),
    ('contain.right', 77, 403, 'have a person at the machine allow it: bastion contain trust HOST'),
    ('contain.seal', 126, 403, 'change the list with bastion contain'),
    ('contain.transition', 126, 409, 'allow it anew'),
    ('contain.ttl', 2, 422, 'allow it for less time'),
    ('contain.unknown', 2, 404, 'see bastion contain ls for the entries'),
    ('directive.again', 126, 409, 'nothing is to be done: an order is carried out once'),
    ('directive.busy', 75, 429, 'order less, or raise the setting order.day on the machine'),
    ('directive.expired', 126, 410, 'order anew'),
    ('directive.final', 126, 409, 'order anew'),
    ('directive.fixed', 126, 409, 'order anew'),
    ('directive.form', 126, 422, 'bring the box and its Host to versions that know each other'),
    ('directive.lost', 1, 500, 'look what runs there now, and order anew'),
    ('directive.other', 126, 403, 'order it of the machine that is meant'),
    ('directive.replayed', 126, 409, 'order anew'),
    ('directive.signature', 126, 403, 'sign with the key that was paired'),
    ('directive.size', 126, 413, 'send fewer orders at once'),
    ('directive.time', 126, 403, 'set the clocks of Host and machine right'),
    ('directive.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('order.busy', 75, 429, 'wait until the box has answered, or withdraw some'),
    ('order.decided', 126, 409, 'see bastion host orders'),
    ('order.endpoint', 2, 422, 'give endpoints as host:port'),
    ('order.final', 126, 409, 'order anew'),
    ('order.fixed', 126, 409, 'order anew'),
    ('order.process', 2, 422, 'give the number of a process'),
    ('order.signature', 1, 500, 'this is a fault in bastion: please report it'),
    ('order.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('order.ttl', 2, 422, 'give a shorter time'),
    ('order.unknown', 2, 404, 'see bastion host orders for the numbers'),
    ('pairing.held', 75, 429, 'wait, and ask for what is granted; or have a person lift it: bastion quarantine lift HOST'),
    ('quarantine.early', 126, 409, 'lift it: bastion quarantine lift HOST'),
    ('quarantine.fixed', 126, 409, 'lift it: bastion quarantine lift HOST'),
    ('quarantine.kept', 126, 409, 'lift it: bastion quarantine lift HOST'),
    ('quarantine.late', 126, 409, 'nothing is to be done: this Host may ask again'),
    ('quarantine.none', 2, 404, 'see bastion quarantine for those that are held'),
    ('quarantine.transition', 126, 409, 'see bastion quarantine for those that are held'),
    ('rotate.none', 126, 409, 'pair the machine anew over a network first'),
    ('rotate.superseded', 126, 409, 'nothing is to be done: a later order counts'),
    ('rotate.unreached', 75, 504, 'make sure that the Host is reached there, and order anew');
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('host_order', '', 'waiting'),
    ('host_order', 'waiting', 'sent'),
    ('host_order', 'waiting', 'expired'),
    ('host_order', 'waiting', 'withdrawn'),
    ('host_order', 'sent', 'answered'),
    ('host_order', 'sent', 'expired'),
    ('host_order', 'sent', 'withdrawn'),
    ('directive', '', 'taken'),
    ('directive', 'taken', 'running'),
    ('directive', 'taken', 'done'),
    ('directive', 'taken', 'refused'),
    ('directive', 'taken', 'failed'),
    ('directive', 'running', 'done'),
    ('directive', 'running', 'refused'),
    ('directive', 'running', 'failed'),
    ('directive', 'running', 'lost'),
    ('contain_spare', '', 'active'),
    ('contain_spare', 'active', 'dropped'),
    ('contain_right', '', 'active'),
    ('contain_right', 'active', 'expired'),
    ('contain_right', 'active', 'dropped'),
    ('quarantine', '', 'held'),
    ('quarantine', 'held', 'lapsed'),
    ('quarantine', 'held', 'lifted');
INSERT INTO strike (code) VALUES
    ('anchor.caps'), ('anchor.other'), ('anchor.signature'), ('anchor.terms'), ('contain.agents'),
    ('contain.bastion'), ('contain.right'), ('directive.form'), ('directive.other'),
    ('directive.signature'), ('grant.args'), ('grant.other'), ('op.args'), ('op.replayed'),
    ('op.unknown'), ('observe.args'), ('observe.depth'), ('observe.hours'), ('observe.minutes'),
    ('observe.name'), ('observe.path'), ('observe.port'), ('observe.unit');
-- Bounds of grants come with their own step, which turns this on.
INSERT INTO enforces (name, value) VALUES
    ('grant_run_bounds', 'false'), ('orders', '["contain","rotate"]'),
    ('sandbox', '{"observe":"read-only system call filter"}');
