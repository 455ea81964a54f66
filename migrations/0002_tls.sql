-- 0002_tls.sql: refusals of TLS, of certificates and of connections that boxes make.
INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('ca.expired', 3, 500, 'make a new authority and pair anew'),
    ('ca.order', 2, 422, 'give plain names, a time to live, and the key that belongs to the certificate'),
    ('cert.device', 126, 403, 'have the certificate made anew for this one device'),
    ('cert.form', 2, 422, 'give one whole X.509 certificate or request, unchanged'),
    ('cert.key', 2, 422, 'make a key with ECDSA on P-256'),
    ('cert.make', 1, 500, 'see the message; free some memory, then try again'),
    ('cert.request', 126, 403, 'sign the request with the key that it names'),
    ('cert.uris', 2, 422, 'name fewer and shorter URIs of printable characters'),
    ('reverse.busy', 75, 429, 'wait until an answer is complete, then ask again'),
    ('reverse.offline', 75, 503, 'wait until the box dials in; see on the box: bastion status'),
    ('reverse.refused', 126, 403, 'see the reason; pair anew if the Host does not know this machine any more'),
    ('reverse.upgrade', 2, 426, 'this path is for boxes that dial in'),
    ('tls.config', 3, 500, 'give a certificate with its own key, and an authority to trust'),
    ('tls.handshake', 1, 502, 'check that the other side speaks TLS 1.2 or 1.3 and takes our certificate'),
    ('tls.untrusted', 126, 403, 'make sure which Host it is, and that both clocks are right; if it has a new authority, pair anew');
