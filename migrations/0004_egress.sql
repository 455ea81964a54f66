-- 0004_egress.sql: the internet lane: what addresses are, who may reach what, every connection.

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
-- first address is dialled; both are durable first. A refused one stays to be seen.
CREATE TABLE egress_flow (
    id         INTEGER PRIMARY KEY,
    uid        INTEGER CHECK (uid >= 0),                       -- who asks, on the kernel's word
    pairing_id INTEGER REFERENCES pairing (id),                -- or which Host
    surface    TEXT    NOT NULL CHECK (surface IN ('http', 'connect', 'socks5', 'caught')),
    host       TEXT    NOT NULL CHECK (length(host) <= 253),   -- as host_text() spells it; '' could not be read
    port       INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    method     TEXT    CHECK (length(method) <= 32),           -- of a plain request
    state      TEXT    NOT NULL DEFAULT 'asked'
               CHECK (state IN ('asked', 'open', 'done', 'failed', 'refused', 'lost')),
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

-- What the rules say to a connection: NULL where they let it be. (A name is looked for with each of its
-- tails: host_tail is the last so many labels, NULL where there are not more than that, or of an address.)
CREATE VIEW egress_ruling AS
SELECT f.id,
       (SELECT CASE WHEN max(r.verdict = 'deny') THEN 'denied' WHEN count(*) = 0 THEN 'unknown' END
          FROM egress_rule AS r
         WHERE r.state = 'active'
           AND r.suffix IN (f.host, '*', host_tail(f.host, 1), host_tail(f.host, 2), host_tail(f.host, 3),
                            host_tail(f.host, 4), host_tail(f.host, 5), host_tail(f.host, 6),
                            host_tail(f.host, 7), host_tail(f.host, 8))
           AND r.port IN (0, f.port)
           AND (r.run_id IS NULL OR r.run_id = f.run_id)
           AND (r.uid = f.uid OR r.pairing_id = f.pairing_id
                OR (r.uid IS NULL AND r.pairing_id IS NULL
                    AND (f.pairing_id IS NULL OR r.verdict = 'deny')))) AS held
  FROM egress_flow AS f;

-- (They are counted only where there could be too many.)
CREATE TRIGGER egress_flow_born BEFORE INSERT ON egress_flow
BEGIN
    SELECT CASE
           WHEN NEW.state NOT IN ('asked', 'open', 'refused')
           THEN RAISE(ABORT, 'egress.transition|a connection begins as asked, open or refused')
           -- Who is refused without end fills no database.
           WHEN NEW.state = 'refused'
            AND (SELECT count(*) FROM egress_flow WHERE state = 'refused' AND ended_at > now_ms() - 60000)
             >= (SELECT value FROM setting WHERE name = 'egress.refused')
           THEN RAISE(ABORT, 'egress.flood|as many refused connections as are kept were refused in this minute')
           WHEN NEW.state = 'refused'
           THEN NULL
           WHEN NEW.pairing_id IS NOT NULL
            AND (SELECT active FROM pairing_status WHERE id = NEW.pairing_id) IS NOT 1
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN NEW.pairing_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM pairing_status AS p, json_each(p.caps) AS c
                             WHERE p.id = NEW.pairing_id AND c.value = 'egress')
           THEN RAISE(ABORT, 'egress.capability|this Host has no capability egress here')
           WHEN NEW.run_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sandbox_run WHERE id = NEW.run_id AND ended_at IS NULL)
           THEN RAISE(ABORT, 'run.over|this run is over')
           WHEN NEW.host = ''
           THEN RAISE(ABORT, 'egress.host|there is no name or address to reach')
           WHEN (SELECT max(id) - (SELECT min(id) FROM egress_flow WHERE ended_at IS NULL) + 1 FROM egress_flow)
             >= (SELECT min(value) FROM setting WHERE name IN ('egress.live', 'egress.live_each'))
            AND (SELECT count(*) >= (SELECT value FROM setting WHERE name = 'egress.live')
                     OR sum(uid IS NEW.uid AND pairing_id IS NEW.pairing_id)
                        >= (SELECT value FROM setting WHERE name = 'egress.live_each')
                   FROM egress_flow WHERE ended_at IS NULL)
           THEN RAISE(ABORT, 'egress.busy|too many connections are open')
           END;
END;

CREATE TRIGGER egress_flow_ruled AFTER INSERT ON egress_flow WHEN NEW.state <> 'refused'
BEGIN
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
    INSERT INTO egress_flow_opened (id) VALUES (NEW.id);
END;

CREATE TRIGGER egress_flow_moved_open AFTER UPDATE OF state ON egress_flow WHEN NEW.state = 'open'
BEGIN
    INSERT INTO egress_flow_opened (id) VALUES (NEW.id);
END;

-- However a row came to be open, it passes here, in the transaction that opened it.
CREATE VIEW egress_flow_opened AS SELECT id FROM egress_flow WHERE state = 'open';

CREATE TRIGGER egress_flow_vetted INSTEAD OF INSERT ON egress_flow_opened
BEGIN
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
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'egress_flow', f.id, f.state,
           coalesce((SELECT host_name FROM pairing WHERE id = f.pairing_id), ''),
           json_object('uid', f.uid, 'run', f.run_id, 'surface', f.surface, 'host', f.host, 'port', f.port,
                       'addresses', json(f.addresses))
      FROM egress_flow AS f WHERE f.id = NEW.id;
END;

CREATE TRIGGER egress_flow_stays BEFORE DELETE ON egress_flow
WHEN OLD.ended_at IS NULL
  OR OLD.ended_at >= now_ms() - 86400000 * (SELECT value FROM setting WHERE name = 'egress.keep_days')
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a connection stays in the list until its time is over');
END;

CREATE TRIGGER egress_flow_audit_birth AFTER INSERT ON egress_flow WHEN NEW.state = 'refused'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'egress_flow', NEW.id, NEW.state,
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('uid', NEW.uid, 'surface', NEW.surface, 'host', NEW.host, 'port', NEW.port,
                        'code', NEW.code));
END;

-- (A clean end is in the row alone: what was reached is in the audit since it was opened.)
CREATE TRIGGER egress_flow_audit_end AFTER UPDATE OF state ON egress_flow
WHEN NEW.state IN ('failed', 'refused', 'lost') AND NEW.state IS NOT OLD.state
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

-- An actor that died took its connections with it.
CREATE TRIGGER actor_run_closes_flows AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'egress' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE egress_flow SET state = 'lost', ended_at = NEW.ended_at WHERE ended_at IS NULL AND run_id IS NULL;
END;

INSERT INTO address_class (prio, prefix, first, last, class, embed, why) VALUES
    (1, '127.0.0.0/8', x'00000000000000000000ffff7f000000', x'00000000000000000000ffff7fffffff', 'this_machine', NULL, 'loopback'),
    (2, '0.0.0.0/32', x'00000000000000000000ffff00000000', x'00000000000000000000ffff00000000', 'this_machine', NULL, 'unspecified: the kernel dials this machine'),
    (3, '169.254.0.0/16', x'00000000000000000000ffffa9fe0000', x'00000000000000000000ffffa9feffff', 'link', NULL, 'link-local, with the metadata services of clouds'),
    (4, '224.0.0.0/24', x'00000000000000000000ffffe0000000', x'00000000000000000000ffffe00000ff', 'link', NULL, 'multicast on the link'),
    (5, '10.0.0.0/8', x'00000000000000000000ffff0a000000', x'00000000000000000000ffff0affffff', 'network', NULL, 'private (RFC 1918)'),
    (6, '172.16.0.0/12', x'00000000000000000000ffffac100000', x'00000000000000000000ffffac1fffff', 'network', NULL, 'private (RFC 1918)'),
    (7, '192.168.0.0/16', x'00000000000000000000ffffc0a80000', x'00000000000000000000ffffc0a8ffff', 'network', NULL, 'private (RFC 1918)'),
    (8, '224.0.0.0/4', x'00000000000000000000ffffe0000000', x'00000000000000000000ffffefffffff', 'network', NULL, 'multicast'),
    (9, '0.0.0.0/8', x'00000000000000000000ffff00000000', x'00000000000000000000ffff00ffffff', 'this_machine', NULL, 'this network (RFC 1122)'),
    (10, '100.64.0.0/10', x'00000000000000000000ffff64400000', x'00000000000000000000ffff647fffff', 'network', NULL, 'shared by carriers and meshes (RFC 6598)'),
    (11, '198.18.0.0/15', x'00000000000000000000ffffc6120000', x'00000000000000000000ffffc613ffff', 'network', NULL, 'benchmarks (RFC 2544)'),
    (12, '240.0.0.0/4', x'00000000000000000000fffff0000000', x'00000000000000000000ffffffffffff', 'network', NULL, 'reserved, and broadcast'),
    (13, '0.0.0.0/0', x'00000000000000000000ffff00000000', x'00000000000000000000ffffffffffff', 'public', NULL, 'any other IPv4'),
    (14, '::1/128', x'00000000000000000000000000000001', x'00000000000000000000000000000001', 'this_machine', NULL, 'loopback'),
    (15, '::/128', x'00000000000000000000000000000000', x'00000000000000000000000000000000', 'this_machine', NULL, 'unspecified: the kernel dials this machine'),
    (16, 'fe80::/10', x'fe800000000000000000000000000000', x'febfffffffffffffffffffffffffffff', 'link', NULL, 'link-local'),
    (17, 'ff02::/16', x'ff020000000000000000000000000000', x'ff02ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (18, 'ff12::/16', x'ff120000000000000000000000000000', x'ff12ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (19, 'ff22::/16', x'ff220000000000000000000000000000', x'ff22ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (20, 'ff32::/16', x'ff320000000000000000000000000000', x'ff32ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (21, 'ff42::/16', x'ff420000000000000000000000000000', x'ff42ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (22, 'ff52::/16', x'ff520000000000000000000000000000', x'ff52ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (23, 'ff62::/16', x'ff620000000000000000000000000000', x'ff62ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (24, 'ff72::/16', x'ff720000000000000000000000000000', x'ff72ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (25, 'ff82::/16', x'ff820000000000000000000000000000', x'ff82ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (26, 'ff92::/16', x'ff920000000000000000000000000000', x'ff92ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (27, 'ffa2::/16', x'ffa20000000000000000000000000000', x'ffa2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (28, 'ffb2::/16', x'ffb20000000000000000000000000000', x'ffb2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (29, 'ffc2::/16', x'ffc20000000000000000000000000000', x'ffc2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (30, 'ffd2::/16', x'ffd20000000000000000000000000000', x'ffd2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (31, 'ffe2::/16', x'ffe20000000000000000000000000000', x'ffe2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (32, 'fff2::/16', x'fff20000000000000000000000000000', x'fff2ffffffffffffffffffffffffffff', 'link', NULL, 'multicast on the link'),
    (33, 'fc00::/7', x'fc000000000000000000000000000000', x'fdffffffffffffffffffffffffffffff', 'network', NULL, 'unique local (RFC 4193)'),
    (34, 'ff00::/8', x'ff000000000000000000000000000000', x'ffffffffffffffffffffffffffffffff', 'network', NULL, 'multicast'),
    (35, '64:ff9b::/96', x'0064ff9b000000000000000000000000', x'0064ff9b0000000000000000ffffffff', NULL, 12, 'NAT64 (RFC 6052): the IPv4 address in it'),
    (36, '64:ff9b::/32', x'0064ff9b000000000000000000000000', x'0064ff9bffffffffffffffffffffffff', 'unreadable', NULL, 'NAT64 for local use (RFC 8215): where it leads is not to be read'),
    (37, '2002::/16', x'20020000000000000000000000000000', x'2002ffffffffffffffffffffffffffff', NULL, 2, '6to4 (RFC 3056): the IPv4 address in it'),
    (38, '::/96', x'00000000000000000000000000000000', x'000000000000000000000000ffffffff', 'obsolete', NULL, 'IPv4-compatible (RFC 4291)'),
    (39, '::ffff:0:0:0/96', x'0000000000000000ffff000000000000', x'0000000000000000ffff0000ffffffff', 'obsolete', NULL, 'IPv4-translated (RFC 2765)'),
    (40, 'fec0::/10', x'fec00000000000000000000000000000', x'feffffffffffffffffffffffffffffff', 'obsolete', NULL, 'site-local (RFC 3879)'),
    (41, '::/0', x'00000000000000000000000000000000', x'ffffffffffffffffffffffffffffffff', 'public', NULL, 'any other IPv6');

INSERT INTO egress_preset (name, suffix, port, doc) VALUES
    ('crates', 'crates.io', 443, 'the registry of Rust'),
    ('crates', 'static.rust-lang.org', 443, 'compilers of Rust'),
    ('debian', 'deb.debian.org', 80, 'packages of Debian'),
    ('debian', 'deb.debian.org', 443, 'packages of Debian'),
    ('debian', 'security.debian.org', 80, 'its updates'),
    ('debian', 'security.debian.org', 443, 'its updates'),
    ('git', 'bitbucket.org', 22, 'by ssh'),
    ('git', 'bitbucket.org', 443, 'repositories'),
    ('git', 'codeberg.org', 22, 'by ssh'),
    ('git', 'codeberg.org', 443, 'repositories'),
    ('git', 'github.com', 22, 'by ssh'),
    ('git', 'github.com', 443, 'repositories'),
    ('git', 'githubusercontent.com', 443, 'files of releases and raw files'),
    ('git', 'gitlab.com', 22, 'by ssh'),
    ('git', 'gitlab.com', 443, 'repositories'),
    ('go', 'go.dev', 443, 'toolchains'),
    ('go', 'proxy.golang.org', 443, 'modules of Go'),
    ('go', 'storage.googleapis.com', 443, 'what the proxy leads to'),
    ('go', 'sum.golang.org', 443, 'their checksums'),
    ('npm', 'nodejs.org', 443, 'headers for modules in C'),
    ('npm', 'registry.npmjs.org', 443, 'the registry of npm'),
    ('pypi', 'files.pythonhosted.org', 443, 'the packages'),
    ('pypi', 'pypi.org', 443, 'the index of Python packages');

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('egress.accepts', 64, 'rows', 1, 4096, 'connections taken from one listener before others have their turn'),
    ('egress.addresses', 64, 'rows', 1, 256, 'most addresses that a name may have'),
    ('egress.answer_head', 65536, 'bytes', 1024, 1048576, 'longest head of an answer to a plain request'),
    ('egress.cache', 4096, 'rows', 0, 1000000, 'names whose addresses are remembered'),
    ('egress.cache_ms', 60000, 'ms', 0, 86400000, 'longest that the addresses of a name are remembered, whatever their TTL'),
    ('egress.connections', 12000, 'rows', 1, 1000000, 'connections to the lane served at once'),
    ('egress.dial_ms', 25000, 'ms', 100, 600000, 'how long all addresses of a destination may take to answer'),
    ('egress.fields', 200, 'rows', 8, 1000, 'header fields of a request or an answer'),
    ('egress.gather_ms', 20, 'ms', 0, 10000, 'how long ends of connections gather before they are written together'),
    ('egress.head', 65536, 'bytes', 1024, 1048576, 'longest head of a request'),
    ('egress.head_ms', 30000, 'ms', 100, 600000, 'how long a head may take to arrive'),
    ('egress.http_port', 0, 'port', 0, 65535, 'TCP port of the lane for HTTP and CONNECT on the loopback address; 0: none'),
    ('egress.idle_ms', 600000, 'ms', 100, 86400000, 'how long a connection may carry nothing'),
    ('egress.keep_days', 30, 'days', 0, 36500, 'how long a connection that is over stays in the list'),
    ('egress.linger_ms', 1000, 'ms', 10, 60000, 'how long a refused client may take to read why'),
    ('egress.live', 11000, 'rows', 1, 1000000, 'connections to the internet open at once'),
    ('egress.live_each', 10000, 'rows', 1, 1000000, 'connections of one user or Host to the internet open at once'),
    ('egress.lookups', 256, 'rows', 1, 65536, 'names looked up at once'),
    ('egress.refused', 600, 'rows', 0, 1000000, 'refused connections of one minute that are kept'),
    ('egress.report_ms', 2000, 'ms', 100, 3600000, 'how often the rows of open connections say how much these have carried'),
    ('egress.resolve_ms', 10000, 'ms', 100, 600000, 'how long a name may take to be looked up'),
    ('egress.rules', 10000, 'rows', 1, 1000000, 'rules in force at once'),
    ('egress.socks_port', 0, 'port', 0, 65535, 'TCP port of the lane for SOCKS5 on the loopback address; 0: none'),
    ('egress.stagger_ms', 300, 'ms', 1, 60000, 'how long one address may take before the next is tried beside it'),
    ('egress.total_ms', 86400000, 'ms', 1000, 2592000000, 'how long a connection may last');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('egress.address', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.answer', 1, 502, 'look at what the server answers, without the lane'),
    ('egress.authority', 2, 400, 'write HOST:PORT, an IPv6 address in brackets, without user and password'),
    ('egress.busy', 75, 503, 'close connections, or raise the settings egress.live and egress.live_each'),
    ('egress.capability', 126, 403, 'have the anchor approve this Host for egress'),
    ('egress.denied', 126, 403, 'see bastion egress ls for the rule'),
    ('egress.dial', 1, 502, 'check that the server answers, then try again'),
    ('egress.exists', 126, 409, 'see bastion egress ls'),
    ('egress.fixed', 126, 409, 'see bastion egress ls'),
    ('egress.flood', 75, 429, 'try again later, or raise the setting egress.refused'),
    ('egress.host', 2, 400, 'name a host to reach'),
    ('egress.internal', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.link', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.many', 126, 409, 'forget rules, or raise the setting egress.rules'),
    ('egress.network', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.obsolete', 126, 403, 'write the address as it is written today'),
    ('egress.own', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.own_unknown', 126, 403, 'see the daemon''s messages for the reason'),
    ('egress.request', 2, 400, 'send a request that can be read in one way only'),
    ('egress.resolve', 126, 403, 'check the name, and the resolver of this machine'),
    ('egress.suffix', 2, 422, 'for example: bastion egress allow github.com'),
    ('egress.this_machine', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.timeout', 75, 504, 'try again'),
    ('egress.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('egress.unknown', 126, 403, 'have whoever runs the daemon do: bastion egress allow HOST'),
    ('egress.unknown_rule', 126, 404, 'see bastion egress ls'),
    ('egress.unreadable', 126, 403, 'see bastion egress check HOST:PORT'),
    ('egress.user', 126, 403, 'connect as a process that goes on living');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('egress_rule', '', 'active'),
    ('egress_rule', 'active', 'dropped'),
    ('egress_flow', '', 'asked'),
    ('egress_flow', '', 'open'),
    ('egress_flow', '', 'refused'),
    ('egress_flow', 'asked', 'open'),
    ('egress_flow', 'asked', 'refused'),
    ('egress_flow', 'asked', 'failed'),
    ('egress_flow', 'asked', 'lost'),
    ('egress_flow', 'open', 'done'),
    ('egress_flow', 'open', 'failed'),
    ('egress_flow', 'open', 'lost');
