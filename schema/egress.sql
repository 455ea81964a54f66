-- egress.sql: what addresses are, who may reach what on the internet, and every connection that was asked for.

-- What an address is, first match by prio. An IPv4 address stands as ::ffff:a.b.c.d. Where embed says so,
-- the IPv4 address that stands at that byte is judged instead: whoever translates it goes there.
CREATE TABLE address_class (
    prio   INTEGER PRIMARY KEY CHECK (prio >= 1),
    prefix TEXT    NOT NULL UNIQUE,                            -- for people; first and last are what it says
    first  BLOB    NOT NULL CHECK (length(first) = 16),
    last   BLOB    NOT NULL CHECK (length(last) = 16 AND last >= first),
    class  TEXT    CHECK (class IN ('public', 'this_machine', 'link', 'network', 'unreadable', 'obsolete')),
    embed  INTEGER CHECK (embed IN (2, 12)),
    why    TEXT    NOT NULL,
    CHECK ((class IS NULL) = (embed IS NOT NULL))
) STRICT;

-- What is this machine, or lives on it: the actor asks the kernel, and again when that changes. Without a
-- row nobody knows, and nothing is reached.
CREATE TABLE own_address (
    first  BLOB NOT NULL CHECK (length(first) = 16),
    last   BLOB NOT NULL CHECK (length(last) = 16 AND last >= first),
    source TEXT NOT NULL CHECK (source IN ('nic', 'local_route', 'container', 'bridge')),
    ifname TEXT NOT NULL,
    PRIMARY KEY (first, last, source, ifname)
) STRICT, WITHOUT ROWID;

-- Who may reach what. A deny wins over any allow, and what no rule allows is refused. Without uid and
-- pairing a rule is for every user of this machine, and for no Host; with a run, for what that one starts.
CREATE TABLE egress_rule (
    id          INTEGER PRIMARY KEY,
    verdict     TEXT    NOT NULL CHECK (verdict IN ('allow', 'deny')),
    uid         INTEGER CHECK (uid >= 0),
    pairing_id  INTEGER REFERENCES pairing (id),
    suffix      TEXT    NOT NULL CHECK (length(suffix) BETWEEN 1 AND 253),   -- a name and all below it, an address, or *
    port        INTEGER NOT NULL DEFAULT 0 CHECK (port BETWEEN 0 AND 65535), -- 0: any
    state       TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    made_at     INTEGER NOT NULL,
    made_by_uid INTEGER NOT NULL CHECK (made_by_uid >= 0),
    dropped_at  INTEGER,
    run_id      INTEGER REFERENCES sandbox_run (id),
    CHECK ((uid IS NOT NULL) + (pairing_id IS NOT NULL) + (run_id IS NOT NULL) <= 1),
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX egress_rule_once
    ON egress_rule (suffix, port, verdict, coalesce(uid, -1), coalesce(pairing_id, -1), coalesce(run_id, -1))
    WHERE state = 'active';

CREATE TRIGGER egress_rule_born BEFORE INSERT ON egress_rule
BEGIN
    SELECT CASE
           WHEN NEW.state <> 'active'
           THEN RAISE(ABORT, 'egress.transition|a rule begins as active')
           WHEN NEW.suffix <> '*' AND host_text(NEW.suffix) IS NOT NEW.suffix
           THEN RAISE(ABORT, 'egress.suffix|a rule is for a name in lower case, an address, or * for all that is public')
           WHEN host_tail(NEW.suffix, 8) IS NOT NULL
           THEN RAISE(ABORT, 'egress.suffix|the name of a rule has eight labels at most')
           WHEN EXISTS (SELECT 1 FROM egress_rule WHERE state = 'active' AND verdict = NEW.verdict
                           AND suffix = NEW.suffix AND port = NEW.port AND uid IS NEW.uid
                           AND pairing_id IS NEW.pairing_id AND run_id IS NEW.run_id)
           THEN RAISE(ABORT, 'egress.exists|there is such a rule already')
           WHEN NEW.pairing_id IS NOT NULL
            AND (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN NEW.run_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sandbox_run WHERE id = NEW.run_id AND ended_at IS NULL)
           THEN RAISE(ABORT, 'run.over|this run is over')
           WHEN (SELECT count(*) FROM egress_rule WHERE state = 'active')
             >= (SELECT value FROM setting WHERE name = 'egress.rules')
           THEN RAISE(ABORT, 'egress.many|there are as many rules as the setting egress.rules allows')
           END;
END;

CREATE TRIGGER egress_rule_moves BEFORE UPDATE ON egress_rule
BEGIN
    SELECT RAISE(ABORT, 'egress.transition|a rule that was dropped stays dropped')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'egress_rule' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'egress.fixed|a rule never changes: forget it and make another')
     WHERE NEW.id IS NOT OLD.id OR NEW.verdict IS NOT OLD.verdict OR NEW.uid IS NOT OLD.uid
        OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.suffix IS NOT OLD.suffix
        OR NEW.port IS NOT OLD.port OR NEW.made_at IS NOT OLD.made_at
        OR NEW.made_by_uid IS NOT OLD.made_by_uid OR NEW.run_id IS NOT OLD.run_id;
END;

CREATE TRIGGER egress_rule_stays BEFORE DELETE ON egress_rule
BEGIN
    SELECT RAISE(ABORT, 'egress.fixed|a rule is dropped, not deleted');
END;

CREATE TRIGGER egress_rule_audit_birth AFTER INSERT ON egress_rule
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_rule', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('verdict', NEW.verdict, 'uid', NEW.uid, 'suffix', NEW.suffix, 'port', NEW.port));
END;

CREATE TRIGGER egress_rule_audit_move AFTER UPDATE OF state ON egress_rule WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'egress_rule', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('verdict', NEW.verdict, 'uid', NEW.uid, 'suffix', NEW.suffix, 'port', NEW.port));
END;

-- What a pairing was allowed ends with it; and what a restored database allows was allowed in an older world.
CREATE TRIGGER egress_rule_ends_with_pairing AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()
     WHERE pairing_id = NEW.id AND state = 'active';
END;

CREATE TRIGGER egress_rule_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()
     WHERE verdict = 'allow' AND state = 'active';
    UPDATE egress_flow SET state = 'lost', ended_at = now_ms() WHERE ended_at IS NULL;
END;

-- What common tools need, by a name: --allow @npm. A deny wins over these as well.
CREATE TABLE egress_preset (
    name   TEXT    NOT NULL CHECK (name GLOB '[a-z]*' AND length(name) <= 32),
    suffix TEXT    NOT NULL CHECK (length(suffix) BETWEEN 1 AND 253),
    port   INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    doc    TEXT    NOT NULL,
    PRIMARY KEY (name, suffix, port)
) STRICT, WITHOUT ROWID;

-- A connection that somebody asked for. 'asked' stands before its name is looked up, 'open' before the
-- first address is dialled; both are durable first. A refused one stays to be seen. (Values two at a time:
-- IN with more makes a table of them for each row.)
CREATE TABLE egress_flow (
    id         INTEGER PRIMARY KEY,
    uid        INTEGER CHECK (uid >= 0),                       -- who asks, on the kernel's word
    pairing_id INTEGER REFERENCES pairing (id),                -- or which Host
    surface    TEXT    NOT NULL CHECK (surface IN ('http', 'connect') OR surface IN ('socks5', 'caught')),
    host       TEXT    NOT NULL CHECK (length(host) <= 253),   -- as host_text() spells it; '' could not be read
    port       INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    method     TEXT    CHECK (length(method) <= 32),           -- of a plain request
    state      TEXT    NOT NULL DEFAULT 'asked'
               CHECK (state IN ('asked', 'open') OR state IN ('done', 'failed') OR state IN ('refused', 'lost')),
    addresses  TEXT    CHECK (addresses IS NULL OR json_valid(addresses)), -- all of them, vetted, in the order of dialling
    dialled    TEXT,                                           -- the one that answered
    asked_at   INTEGER NOT NULL,
    opened_at  INTEGER,
    ended_at   INTEGER,
    up         INTEGER NOT NULL DEFAULT 0 CHECK (up >= 0),     -- bytes, from whoever asked
    down       INTEGER NOT NULL DEFAULT 0 CHECK (down >= 0),
    code       TEXT,
    why        TEXT    CHECK (length(why) <= 512),
    run_id     INTEGER REFERENCES sandbox_run (id),            -- the run that it comes out of
    CHECK ((uid IS NULL) <> (pairing_id IS NULL)),
    CHECK ((state IN ('asked', 'open')) = (ended_at IS NULL)),
    CHECK ((state IN ('refused', 'failed')) = (code IS NOT NULL)),
    CHECK (state NOT IN ('open', 'done') OR (addresses IS NOT NULL AND opened_at IS NOT NULL))
) STRICT;

CREATE INDEX egress_flow_live ON egress_flow (id, uid, pairing_id) WHERE ended_at IS NULL;
CREATE INDEX egress_flow_refused ON egress_flow (ended_at) WHERE state = 'refused';

-- The rules that speak of a connection: of where it goes, to whom it is. (A name is looked for with each of its tails:
-- host_tail is the last so many labels, NULL where there are not more than that, or of an address.)
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

-- What the rules say to a connection: NULL where they let it be; to one of an added op's program, its manifest does, and
-- the rules can but deny.
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

-- Up to which row there is room in any case: that many were free when they were counted last. They are counted anew
-- where it is reached, and where a bound was moved or the newest rows are gone.
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

-- A connection that begins past it is counted with all that are under way.
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

-- What holds Hosts alone stands behind a view: a trigger's whole program is set up before its WHEN is looked at.
CREATE VIEW egress_flow_of_host AS SELECT pairing_id FROM egress_flow;

CREATE TRIGGER egress_flow_born_of_host BEFORE INSERT ON egress_flow
WHEN NEW.pairing_id IS NOT NULL AND NEW.state <> 'refused'
BEGIN
    INSERT INTO egress_flow_of_host (pairing_id) VALUES (NEW.pairing_id);
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

-- A way that was judged and let be: this user, Host or run (-1: none) to these addresses of that name. It holds for
-- the next connection there, which then costs two look-ups; whatever it was judged by empties the table, so it
-- never says what the rules do not. The oldest make room.
CREATE TABLE egress_way (
    id         INTEGER PRIMARY KEY,
    host       TEXT    NOT NULL,
    port       INTEGER NOT NULL,
    uid        INTEGER NOT NULL,
    pairing_id INTEGER NOT NULL,
    run_id     INTEGER NOT NULL,
    addresses  TEXT    NOT NULL,
    UNIQUE (host, port, uid, pairing_id, run_id, addresses)
) STRICT;

CREATE TRIGGER egress_way_rule_new AFTER INSERT ON egress_rule BEGIN DELETE FROM egress_way; END;
CREATE TRIGGER egress_way_rule_gone AFTER UPDATE ON egress_rule BEGIN DELETE FROM egress_way; END;
CREATE TRIGGER egress_way_own_new AFTER INSERT ON own_address BEGIN DELETE FROM egress_way; END;
CREATE TRIGGER egress_way_own_other AFTER UPDATE ON own_address BEGIN DELETE FROM egress_way; END;
CREATE TRIGGER egress_way_own_gone AFTER DELETE ON own_address BEGIN DELETE FROM egress_way; END;
CREATE TRIGGER egress_way_class_new AFTER INSERT ON address_class BEGIN DELETE FROM egress_way; END;
CREATE TRIGGER egress_way_class_other AFTER UPDATE ON address_class BEGIN DELETE FROM egress_way; END;
CREATE TRIGGER egress_way_class_gone AFTER DELETE ON address_class BEGIN DELETE FROM egress_way; END;
CREATE TRIGGER egress_way_bound AFTER UPDATE OF value ON setting
WHEN NEW.name IN ('egress.addresses', 'egress.ways')
BEGIN
    DELETE FROM egress_way;
END;

-- What only some connections need is apart, as with runs (op_run_apart): those that are not open from the start, and
-- plain requests.
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

-- (While it is open, the actor says now and then how much it has carried.)
CREATE TRIGGER egress_flow_moves BEFORE UPDATE ON egress_flow
BEGIN
    SELECT RAISE(ABORT, 'egress.transition|this connection is over')
     WHERE CASE WHEN NEW.state IS OLD.state THEN OLD.state <> 'open' ELSE NOT EXISTS (
           SELECT 1 FROM state_rule
            WHERE entity = 'egress_flow' AND from_state = OLD.state AND to_state = NEW.state) END;
    SELECT RAISE(ABORT, 'egress.fixed|who asked for what never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.uid IS NOT OLD.uid OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.surface IS NOT OLD.surface OR NEW.host IS NOT OLD.host OR NEW.port IS NOT OLD.port
        OR NEW.method IS NOT OLD.method OR NEW.asked_at IS NOT OLD.asked_at OR NEW.run_id IS NOT OLD.run_id
        OR NEW.up < OLD.up OR NEW.down < OLD.down
        OR ((NEW.state <> 'open' OR OLD.state = 'open')
            AND (NEW.addresses IS NOT OLD.addresses OR NEW.opened_at IS NOT OLD.opened_at));
END;

-- What holds a connection to the addresses that its row has: each is judged, and one bad one is enough,
-- since what is not dialled today is dialled tomorrow.
CREATE VIEW egress_vetting AS
SELECT f.id,
       (SELECT CASE
               WHEN NOT EXISTS (SELECT 1 FROM own_address) THEN 'own_unknown'
               WHEN count(*) NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'egress.addresses')
               THEN 'resolve'
               WHEN sum(a.ip IS NULL) THEN 'address'
               WHEN sum(EXISTS (SELECT 1 FROM own_address WHERE a.ip BETWEEN first AND last)) THEN 'own'
               WHEN sum((SELECT CASE WHEN c.embed IS NULL THEN c.class ELSE
                               (SELECT e.class FROM address_class AS e
                                 WHERE CAST(x'00000000000000000000ffff' || substr(a.ip, c.embed + 1, 4) AS BLOB)
                                       BETWEEN e.first AND e.last ORDER BY e.prio LIMIT 1) END
                           FROM address_class AS c
                          WHERE a.ip BETWEEN c.first AND c.last ORDER BY c.prio LIMIT 1) IS NOT 'public')
               THEN 'internal' END
          FROM (SELECT address_bytes(value) AS ip FROM json_each(f.addresses)) AS a) AS held
  FROM egress_flow AS f;

CREATE TRIGGER egress_flow_born_open AFTER INSERT ON egress_flow WHEN NEW.state = 'open'
BEGIN
    INSERT INTO egress_flow_opened (id, uid, pairing_id, run_id, surface, host, port, addresses)
    VALUES (NEW.id, NEW.uid, NEW.pairing_id, NEW.run_id, NEW.surface, NEW.host, NEW.port, NEW.addresses);
END;

CREATE TRIGGER egress_flow_moved_open AFTER UPDATE OF state ON egress_flow WHEN NEW.state = 'open'
BEGIN
    INSERT INTO egress_flow_opened (id, uid, pairing_id, run_id, surface, host, port, addresses)
    VALUES (NEW.id, NEW.uid, NEW.pairing_id, NEW.run_id, NEW.surface, NEW.host, NEW.port, NEW.addresses);
END;

-- However a row came to be open, it passes here, in the transaction that opened it.
CREATE VIEW egress_flow_opened AS
SELECT id, uid, pairing_id, run_id, surface, host, port, addresses FROM egress_flow WHERE state = 'open';

-- Connections that no ruling is known for yet: the whole judgement is made here.
CREATE VIEW egress_flow_unjudged AS
SELECT id, uid, pairing_id, run_id, host, port, addresses FROM egress_flow_opened;

CREATE TRIGGER egress_flow_judged INSTEAD OF INSERT ON egress_flow_opened
WHEN NOT EXISTS (SELECT 1 FROM egress_way WHERE host = NEW.host AND port = NEW.port
                    AND uid = coalesce(NEW.uid, -1) AND pairing_id = coalesce(NEW.pairing_id, -1)
                    AND run_id = coalesce(NEW.run_id, -1) AND addresses = NEW.addresses)
BEGIN
    INSERT INTO egress_flow_unjudged (id, uid, pairing_id, run_id, host, port, addresses)
    VALUES (NEW.id, NEW.uid, NEW.pairing_id, NEW.run_id, NEW.host, NEW.port, NEW.addresses);
END;

CREATE TRIGGER egress_flow_vetted INSTEAD OF INSERT ON egress_flow_unjudged
BEGIN
    INSERT INTO egress_flow_asks (id, pairing_id, host, port)
    SELECT NEW.id, NEW.pairing_id, NEW.host, NEW.port WHERE NEW.pairing_id IS NOT NULL;
    SELECT CASE held
           WHEN 'denied' THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN 'unknown' THEN RAISE(ABORT, 'egress.unknown|no rule allows this')
           END
      FROM egress_ruling WHERE id = NEW.id;
    SELECT CASE held
           WHEN 'own_unknown'
           THEN RAISE(ABORT, 'egress.own_unknown|cannot tell whether that is itself: the kernel does not say what this machine''s addresses are')
           WHEN 'resolve'
           THEN RAISE(ABORT, 'egress.resolve|could not resolve that name to a sensible number of addresses')
           WHEN 'address'
           THEN RAISE(ABORT, 'egress.address|an address of that name is none')
           WHEN 'own'
           THEN RAISE(ABORT, 'egress.own|that is this machine')
           WHEN 'internal'
           THEN RAISE(ABORT, 'egress.internal|that is no public address')
           END
      FROM egress_vetting WHERE id = NEW.id;
    -- (What a grant allows is judged each time: it is used up, and runs out.)
    INSERT INTO egress_way (host, port, uid, pairing_id, run_id, addresses)
    SELECT NEW.host, NEW.port, coalesce(NEW.uid, -1), coalesce(NEW.pairing_id, -1),
           coalesce(NEW.run_id, -1), NEW.addresses
     WHERE NEW.pairing_id IS NULL OR NOT EXISTS (SELECT 1 FROM egress_use WHERE flow_id = NEW.id);
    DELETE FROM egress_way
     WHERE id <= (SELECT max(id) FROM egress_way) - (SELECT value FROM setting WHERE name = 'egress.ways');
END;

CREATE TRIGGER egress_flow_audit_open INSTEAD OF INSERT ON egress_flow_opened
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_flow', NEW.id, 'open',
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('uid', NEW.uid, 'run', NEW.run_id, 'surface', NEW.surface, 'host', NEW.host,
                        'port', NEW.port, 'addresses', json(NEW.addresses)));
END;

CREATE TRIGGER egress_flow_stays BEFORE DELETE ON egress_flow
WHEN OLD.ended_at IS NULL
  OR OLD.ended_at >= now_ms() - 86400000 * (SELECT value FROM setting WHERE name = 'egress.keep_days')
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a connection stays in the list until its time is over');
END;

CREATE TRIGGER egress_flow_audit_birth INSTEAD OF INSERT ON egress_flow_apart WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_flow', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('uid', NEW.uid, 'surface', NEW.surface, 'host', NEW.host, 'port', NEW.port,
                        'code', NEW.code));
END;

-- (A clean end is in the row alone: what was reached is in the audit since it was opened.)
CREATE TRIGGER egress_flow_audit_end AFTER UPDATE OF state ON egress_flow
WHEN (NEW.state IN ('failed', 'refused') OR NEW.state = 'lost') AND NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_flow', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('uid', NEW.uid, 'surface', NEW.surface, 'host', NEW.host, 'port', NEW.port,
                        'dialled', NEW.dialled, 'up', NEW.up, 'down', NEW.down, 'code', NEW.code));
END;

-- Who may reach what, for people.
CREATE VIEW egress_may AS
SELECT r.id, r.verdict,
       CASE WHEN r.pairing_id IS NOT NULL THEN 'host ' || p.host_name
            WHEN r.run_id IS NOT NULL THEN 'run ' || r.run_id
            WHEN r.uid IS NOT NULL THEN 'uid ' || r.uid ELSE 'every user' END AS who,
       r.suffix AS what, iif(r.port = 0, NULL, r.port) AS port, r.made_at, r.made_by_uid
  FROM egress_rule AS r LEFT JOIN pairing AS p ON p.id = r.pairing_id
 WHERE r.state = 'active';

-- Every connection, for people.
CREATE VIEW egress_log AS
SELECT f.id, f.asked_at, coalesce('host ' || p.host_name, 'run ' || f.run_id, 'uid ' || f.uid) AS who, f.surface,
       f.host || ':' || f.port AS what, f.state, f.dialled, f.up, f.down,
       coalesce(f.ended_at, now_ms()) - f.asked_at AS took_ms, f.code, f.why
  FROM egress_flow AS f LEFT JOIN pairing AS p ON p.id = f.pairing_id;

-- What is connected now.
CREATE VIEW live_flows AS
SELECT l.id, l.asked_at, l.who, l.surface, l.what, l.state, l.up, l.down, l.took_ms
  FROM egress_log AS l WHERE l.id IN (SELECT id FROM egress_flow WHERE ended_at IS NULL);
