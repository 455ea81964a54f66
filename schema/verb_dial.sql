-- verb_dial.sql: where verbs reach out to. What is declared is judged when it arrives; what a name leads to is judged
-- when it is used, all of it, and what is dialled then is what was judged.

-- One reach of one run: the row is durable before the first byte leaves.
CREATE TABLE verb_dial (
    id        INTEGER PRIMARY KEY,
    op_run_id INTEGER NOT NULL UNIQUE REFERENCES op_run (id),
    host      TEXT    NOT NULL CHECK (length(host) BETWEEN 1 AND 253),     -- as host_text() spells it
    port      INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    addresses TEXT    NOT NULL CHECK (json_valid(addresses) AND json_type(addresses) = 'array'),
    at        INTEGER NOT NULL
) STRICT;

-- Where verbs reached out to, for people.
CREATE VIEW verb_dials AS
SELECT d.id, d.at, p.host_name AS host, r.op, d.op_run_id AS run, d.host || ':' || d.port AS what, d.addresses, r.state
  FROM verb_dial AS d JOIN op_run AS r ON r.id = d.op_run_id JOIN pairing AS p ON p.id = r.pairing_id;

-- What was judged; who inserts here has it judged. A network's own addresses are reached from an anchored machine, or
-- where a rule of the lane allows that very address to this Host; this machine, its links and what cannot be read are
-- never reached, and neither is what a rule of the lane denies to this Host or to everybody.
CREATE VIEW judged_destination AS
SELECT r.pairing_id, d.host, d.port, d.addresses FROM verb_dial AS d JOIN op_run AS r ON r.id = d.op_run_id;

CREATE TRIGGER destination_is_judged INSTEAD OF INSERT ON judged_destination
BEGIN
    SELECT CASE
           WHEN host_text(NEW.host) IS NOT NEW.host
           THEN RAISE(ABORT, 'egress.host|there is no name or address to reach')
           WHEN NEW.host = 'localhost' OR NEW.host GLOB '*.localhost'
           THEN RAISE(ABORT, 'egress.this_machine|that name is this machine')
           WHEN EXISTS (SELECT 1 FROM egress_rule
                         WHERE state = 'active' AND verdict = 'deny' AND uid IS NULL AND run_id IS NULL
                           AND (pairing_id IS NULL OR pairing_id = NEW.pairing_id) AND port IN (0, NEW.port)
                           AND (suffix IN ('*', NEW.host)
                                OR substr(NEW.host, -length(suffix) - 1) = '.' || suffix))
           THEN RAISE(ABORT, 'egress.denied|a rule denies this')
           WHEN json_array_length(NEW.addresses)
                NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'egress.addresses')
           THEN RAISE(ABORT, 'egress.resolve|could not resolve that name to a sensible number of addresses')
           END;
    SELECT CASE
           WHEN a.judged IS NULL
           THEN RAISE(ABORT, 'egress.address|an address of that name is none')
           WHEN c.class NOT IN ('public', 'network')
           THEN refuse('egress.' || c.class, 'that is ' || c.why || ': no verb reaches it', 0)
           WHEN NOT EXISTS (SELECT 1 FROM own_address)
           THEN RAISE(ABORT, 'egress.own_unknown|cannot tell whether that is itself: the kernel does not say what this machine''s addresses are')
           WHEN EXISTS (SELECT 1 FROM own_address WHERE a.ip BETWEEN first AND last OR a.judged BETWEEN first AND last)
           THEN RAISE(ABORT, 'egress.own|that is this machine')
           WHEN c.class = 'network' AND NOT EXISTS (SELECT 1 FROM live_anchor)
            AND NOT EXISTS (SELECT 1 FROM egress_rule
                             WHERE state = 'active' AND verdict = 'allow' AND pairing_id = NEW.pairing_id
                               AND address_bytes(suffix) = a.ip AND port IN (0, NEW.port))
           THEN refuse('egress.network', 'that is ' || c.why || ': only an anchored machine reaches it, '
                       || 'or one whose egress rules allow that address to this Host', 0)
           END
      FROM (SELECT ip, (SELECT iif(embed IS NULL, ip,
                                   CAST(x'00000000000000000000ffff' || substr(ip, embed + 1, 4) AS BLOB))
                          FROM address_class WHERE ip BETWEEN first AND last ORDER BY prio LIMIT 1) AS judged
              FROM (SELECT address_bytes(value) AS ip FROM json_each(NEW.addresses))) AS a
      LEFT JOIN address_class AS c
        ON c.prio = (SELECT min(prio) FROM address_class WHERE a.judged BETWEEN first AND last);
END;

-- What was asked for with a destination. An address is judged as it arrives, before a person is asked; a name waits
-- for what it leads to.
CREATE VIEW declared_destination AS
SELECT r.pairing_id, r.op, r.args ->> v.declares AS word
  FROM op_run AS r JOIN verb AS v ON v.op = r.op WHERE (r.args ->> v.declares) IS NOT NULL;

CREATE TRIGGER destination_arrives INSTEAD OF INSERT ON declared_destination
BEGIN
    SELECT RAISE(ABORT, 'egress.host|there is no name or address to reach')
     WHERE destination_host(NEW.word) IS NULL;
    INSERT INTO judged_destination
    SELECT NEW.pairing_id, destination_host(NEW.word), destination_port(NEW.word),
           json_array(destination_host(NEW.word))
     WHERE address_bytes(destination_host(NEW.word)) IS NOT NULL;
END;

CREATE TRIGGER approval_destination BEFORE INSERT ON approval
WHEN (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op) IS NOT NULL
BEGIN
    INSERT INTO declared_destination
    VALUES (NEW.pairing_id, NEW.op, (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op));
END;

CREATE TRIGGER op_run_destination INSTEAD OF INSERT ON op_run_apart
WHEN (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op) IS NOT NULL
BEGIN
    INSERT INTO declared_destination
    VALUES (NEW.pairing_id, NEW.op, (SELECT NEW.args ->> declares FROM verb WHERE op = NEW.op));
END;

CREATE TRIGGER verb_dial_born BEFORE INSERT ON verb_dial
BEGIN
    SELECT RAISE(ABORT, 'act.dial|only a running verb that reaches out dials, and once')
     WHERE NOT EXISTS (SELECT 1 FROM op_run AS r JOIN verb AS v ON v.op = r.op
                        WHERE r.id = NEW.op_run_id AND r.state = 'running' AND v.dials)
        OR EXISTS (SELECT 1 FROM verb_dial WHERE op_run_id = NEW.op_run_id);
    SELECT RAISE(ABORT, 'act.remote|that is another place than was asked for')
      FROM op_run AS r JOIN verb AS v ON v.op = r.op
     WHERE r.id = NEW.op_run_id AND (r.args ->> v.declares) IS NOT NULL
       AND (destination_host(r.args ->> v.declares) IS NOT NEW.host
            OR destination_port(r.args ->> v.declares) IS NOT NEW.port);
    INSERT INTO judged_destination
    SELECT pairing_id, NEW.host, NEW.port, NEW.addresses FROM op_run WHERE id = NEW.op_run_id;
END;

CREATE TRIGGER verb_dial_fixed BEFORE UPDATE ON verb_dial
BEGIN
    SELECT RAISE(ABORT, 'act.dial|what was reached is history');
END;

CREATE TRIGGER verb_dial_stays BEFORE DELETE ON verb_dial
BEGIN
    SELECT RAISE(ABORT, 'act.dial|what was reached is history');
END;

CREATE TRIGGER verb_dial_audit AFTER INSERT ON verb_dial
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'op', 'verb_dial', NEW.id, 'dialled', p.host_name,
           json_object('run', NEW.op_run_id, 'host', NEW.host, 'port', NEW.port, 'addresses', json(NEW.addresses))
      FROM op_run AS r JOIN pairing AS p ON p.id = r.pairing_id WHERE r.id = NEW.op_run_id;
END;
