-- rows_inspect.sql: bounds, refusals and moves of tokens and of requests within TLS.
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('egress.authority_hours', 720, 'hours', 1, 8760, 'how long the certificate lasts that programs trust the lane by'),
    ('egress.inspect', 0, 'mode', 0, 2, 'which tunnels the lane looks into; 0: none, 1: those whose rule says something of requests, 2: all'),
    ('egress.inspect_host', 1, 'bool', 0, 1, 'whether a request within TLS has to be for the host of its tunnel'),
    ('egress.leaves', 512, 'rows', 1, 4096, 'certificates of hosts that the lane keeps'),
    ('egress.shake_ms', 30000, 'ms', 100, 600000, 'how long a TLS handshake of an inspected tunnel may take'),
    ('egress.tunnels', 4096, 'rows', 1, 100000, 'inspected tunnels at once'),
    ('egress.within', 256, 'rows', 1, 10000, 'what one rule may say of requests'),
    ('token.hosts', 32, 'rows', 1, 1000, 'hosts of one token'),
    ('token.live', 1000, 'rows', 1, 100000, 'tokens at once');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('egress.early', 2, 400, 'wait for the answer to CONNECT before TLS begins'),
    ('egress.encoded', 1, 502, 'ask for an answer without a content coding'),
    ('egress.fronted', 126, 403, 'ask for the host in a tunnel of its own'),
    ('egress.narrow', 2, 422, 'for example: bastion egress allow api.example.com --method GET --path ''/repos/*'''),
    ('egress.no_authority', 126, 404, 'turn it on: bastion egress inspect rules, with the daemon running'),
    ('egress.plain', 126, 403, 'use https, or allow the host for plain requests by a rule without --method, --path and --token'),
    ('egress.tls', 1, 502, 'have the program trust the lane: bastion egress inspect ca'),
    ('egress.uninspected', 126, 403, 'turn it on: bastion egress inspect rules; for a run: bastion run --inspect'),
    ('egress.untrusted', 1, 502, 'check the server''s certificate'),
    ('egress.websocket', 126, 403, 'allow it: bastion egress allow HOST --websocket'),
    ('egress.within', 126, 403, 'see bastion egress ls for what rules say of requests'),
    ('token.dropped', 126, 403, 'forget the rule, and allow it with another token'),
    ('token.final', 126, 409, 'add another token'),
    ('token.fixed', 126, 409, 'drop it and add another'),
    ('token.header', 2, 422, 'for example: --header X-Api-Key'),
    ('token.host', 126, 403, 'see bastion token ls for its hosts'),
    ('token.kept', 126, 409, 'bastion token rm NAME'),
    ('token.key', 1, 500, 'this lane holds no key for tokens: see the daemon''s messages'),
    ('token.many', 126, 409, 'remove tokens, or raise the settings token.live and token.hosts'),
    ('token.name', 2, 422, 'choose another name'),
    ('token.scheme', 2, 422, 'for example: --scheme Bearer, --scheme Basic, --scheme none'),
    ('token.secret', 2, 422, 'give it on standard input: bastion token add NAME --host HOST <FILE'),
    ('token.trace', 126, 403, 'use another method'),
    ('token.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('token.unknown', 2, 404, 'see bastion token ls');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('token', '', 'active'),
    ('token', 'active', 'dropped'),
    ('egress_request', '', 'open'),
    ('egress_request', '', 'refused'),
    ('egress_request', 'open', 'done'),
    ('egress_request', 'open', 'failed');
