-- rows_egress_parked.sql: the op, the limits, refusals and moves of parked connections.
INSERT INTO op (name, class, usage, summary) VALUES
    ('egress:reach', 'egress', 'HOST PORT', 'reach that place on the internet through this machine, one connection a use');
INSERT INTO op_param (op, position, name, type, needed, low, high, pattern, fallback, doc) VALUES
    ('egress:reach', 1, 'host', 'string', 1, 1, 253, NULL, NULL, 'the name or address of a server'),
    ('egress:reach', 2, 'port', 'integer', 1, 1, 65535, NULL, NULL, 'its TCP port');
INSERT INTO op_result (op, schema) VALUES
    ('egress:reach', '{"type":"object","properties":{"host":{"type":"string"},"port":{"type":"integer"}},"required":["host","port"]}');
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('parked.dial_ms', 25000, 'ms', 100, 600000, 'how long one endpoint of a Host may take to be reached, to park a connection there'),
    ('parked.handshake_ms', 20000, 'ms', 100, 600000, 'how long a Host may then take for TLS, and as long again to let it park'),
    ('parked.per_box', 64, 'rows', 1, 64, 'connections that a Host lets one box park'),
    ('parked.queue', 256, 'rows', 1, 65536, 'connections to the ports of boxes that wait for a parked one at once'),
    ('parked.refused_ms', 1000, 'ms', 100, 600000, 'how long one waits that carried nothing, or was lost while it was parked, before it is dialled anew'),
    ('parked.retry_ms', 3000, 'ms', 100, 600000, 'how long one waits that could not reach its Host, and up to half as long again'),
    ('parked.slots', 4, 'rows', 1, 64, 'connections that a box keeps parked with each Host, those in use among them'),
    ('parked.wait_ms', 10000, 'ms', 0, 600000, 'how long a connection to the port of a box waits for a parked one');
INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('egress.ungranted', 126, 403, 'ask for it on the Host: bastion on BOX egress:reach HOST PORT --anew'),
    ('parked.busy', 75, 503, 'try again, or have the box keep more: bastion settings set parked.slots'),
    ('parked.early', 1, 500, 'this is a fault in bastion: please report it'),
    ('parked.fixed', 126, 409, 'see bastion host egress'),
    ('parked.lane', 75, 503, 'see whether the daemon of the box is well: bastion doctor'),
    ('parked.near', 126, 409, 'use the box''s own socket: bastion egress --help'),
    ('parked.none', 75, 503, 'a person at the box grants it: bastion on BOX egress:reach HOST PORT'),
    ('parked.port', 2, 409, 'choose another one, or see bastion host egress'),
    ('parked.slots', 75, 429, 'see the setting parked.slots'),
    ('parked.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('parked.unserved', 126, 403, 'see bastion pairings and bastion grants');
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('egress_parked', '', 'dialling'),
    ('egress_parked', 'dialling', 'parked'),
    ('egress_parked', 'dialling', 'serving'),
    ('egress_parked', 'dialling', 'waiting'),
    ('egress_parked', 'dialling', 'dialling'),
    ('egress_parked', 'parked', 'serving'),
    ('egress_parked', 'parked', 'dialling'),
    ('egress_parked', 'parked', 'waiting'),
    ('egress_parked', 'serving', 'dialling'),
    ('egress_parked', 'serving', 'waiting'),
    ('egress_parked', 'waiting', 'dialling');
