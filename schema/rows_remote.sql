-- rows_remote.sql: limits, refusals and moves of sessions from other machines.
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('remote.connections', 32, 'rows', 1, 1024, 'connections of other machines with a right secret, served at once'),
    ('remote.delay_ms', 250, 'ms', 0, 60000, 'how long a wrong secret waits for its answer'),
    ('remote.guest_ms', 10000, 'ms', 100, 600000, 'time from connecting to a right secret'),
    ('remote.guests', 32, 'rows', 1, 1024, 'connections at once that have not shown a right secret yet; the oldest makes room'),
    ('remote.handshake_ms', 5000, 'ms', 100, 60000, 'how long a TLS handshake may take'),
    ('remote.handshakes', 64, 'rows', 1, 65536, 'TLS handshakes at once; with one more, the oldest is dropped'),
    ('remote.hold_cap_ms', 900000, 'ms', 1, 86400000, 'longest hold after wrong secrets'),
    ('remote.hold_ms', 5000, 'ms', 1, 86400000, 'first hold after remote.tries wrong secrets from one address; doubles'),
    ('remote.kept', 10000, 'rows', 100, 1000000, 'connections with a right or wrong secret that are kept as rows'),
    ('remote.per_address', 32, 'rows', 1, 65536, 'connections of one address at once'),
    ('remote.tries', 5, 'rows', 1, 1000, 'wrong secrets from one address, without a right one, before it is held'),
    ('remote.ttl_max_ms', 31536000000, 'ms', 1000, 315360000000, 'longest life of a credential'),
    ('remote.ttl_ms', 2592000000, 'ms', 1000, 31536000000, 'life of a credential where none is said'),
    ('remote.window_ms', 3600000, 'ms', 1000, 86400000, 'how long a wrong secret is held against its address');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('remote.busy', 75, 503, 'try again later, or raise the setting remote.connections there'),
    ('remote.command', 126, 403, 'name a worker of that machine, or have a credential made with --verbs command'),
    ('remote.exists', 3, 409, 'give it another name, or rotate it: bastion remote rotate NAME'),
    ('remote.final', 126, 409, 'make a new one: bastion remote add NAME'),
    ('remote.fixed', 126, 409, 'revoke it and make a new one: bastion remote add NAME'),
    ('remote.held', 75, 429, 'wait, and see that the secret is the right one: bastion remote login'),
    ('remote.kept', 126, 409, 'use bastion remote revoke'),
    ('remote.port', 3, 409, 'give another port'),
    ('remote.role', 2, 409, 'run it on a box'),
    ('remote.root', 126, 403, 'give --cwd in one of the folders that the credential names'),
    ('remote.roots', 2, 422, 'give --root with a whole path, as /srv/work'),
    ('remote.token', 126, 401, 'have a credential made there: bastion remote add NAME; then: bastion remote login'),
    ('remote.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('remote.ttl', 2, 422, 'give a shorter --expires'),
    ('remote.unknown', 2, 404, 'see bastion remote'),
    ('remote.user', 1, 500, 'this is a fault in bastion: please report it'),
    ('remote.verb', 126, 403, 'have a credential made that allows it: bastion remote add NAME --verbs LIST'),
    ('remote.verbs', 2, 422, 'name some of run, command, list, attach, send, cancel, with commas between');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('remote_credential', '', 'active'),
    ('remote_credential', 'active', 'rotated'),
    ('remote_credential', 'active', 'revoked'),
    ('remote_credential', 'active', 'expired');
