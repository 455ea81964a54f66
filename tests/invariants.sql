-- invariants.sql: what must hold after every test; each row is a fault: (name, detail).

-- The file itself.
SELECT 'integrity' AS name, integrity_check AS detail
  FROM pragma_integrity_check WHERE integrity_check <> 'ok';

SELECT 'foreign key' AS name, "table" || ' row ' || rowid || ' names no ' || parent AS detail
  FROM pragma_foreign_key_check;

SELECT 'schema step' AS name, 'version ' || user_version || ' after ' || count(*) || ' steps' AS detail
  FROM pragma_user_version, schema_step
HAVING count(*) <> user_version OR max(version) <> user_version;

-- Every code that a trigger can raise is a row of refusal: exit code, HTTP status, advice.
WITH RECURSIVE raised (rest) AS (
    SELECT substr(sql, instr(sql, 'RAISE(ABORT, ''') + 14) FROM sqlite_schema
     WHERE type = 'trigger' AND instr(sql, 'RAISE(ABORT, ''') > 0
    UNION ALL
    SELECT substr(rest, instr(rest, 'RAISE(ABORT, ''') + 14) FROM raised
     WHERE instr(rest, 'RAISE(ABORT, ''') > 0)
SELECT DISTINCT 'refusal without a row' AS name, substr(rest, 1, instr(rest, '|') - 1) AS detail
  FROM raised WHERE substr(rest, 1, instr(rest, '|') - 1) NOT IN (SELECT code FROM refusal);

SELECT 'refused with a code that nobody knows' AS name, id || ': ' || code AS detail
  FROM refused WHERE code NOT IN (SELECT code FROM refusal);

SELECT 'setting out of bounds' AS name, name AS detail FROM setting WHERE value NOT BETWEEN low AND high;

-- Audit: numbered without a gap from where retention removed it, each row chained to the one before
-- it, each seal on its row.
SELECT 'audit gap' AS name, count(*) || ' rows up to ' || max(seq) AS detail
  FROM audit, retention AS r WHERE r.entity = 'audit'
HAVING count(*) > 0 AND (count(*) <> max(seq) - r.gone_to OR min(seq) <> r.gone_to + 1);

SELECT 'audit chain' AS name, 'row ' || l.seq AS detail
  FROM audit_line AS l LEFT JOIN audit AS before ON before.seq = l.seq - 1
 WHERE l.hash IS NOT chain_hash(l.prev, l.line)
    OR (l.prev IS NOT coalesce(before.hash, zeroblob(32))
        AND l.seq IS NOT (SELECT gone_to + 1 FROM retention WHERE entity = 'audit' AND gone_to > 0));

SELECT 'audit removed too far' AS name, 'to row ' || gone_to AS detail
  FROM retention WHERE entity = 'audit' AND gone_to > 0
   AND gone_to >= coalesce((SELECT max(b.seq) FROM audit_base AS b JOIN audit AS a ON a.seq = b.seq
                              JOIN audit_seal AS s ON s.seq = b.seq
                             WHERE a.hash = b.head AND s.head = b.head), 0);

SELECT 'audit leaves removed' AS name, 'to row ' || gone_to AS detail
  FROM retention WHERE entity = 'audit'
   AND gone_to > coalesce((SELECT (max(n) + 1) * 256 FROM audit_tile WHERE level = 0), 0);

SELECT 'audit seal' AS name, 'row ' || s.seq AS detail
  FROM audit_seal AS s LEFT JOIN audit AS a ON a.seq = s.seq
 WHERE s.head IS NOT a.hash OR seal_ok('audit', s.seal_text, s.signature) = 0;

-- Audit: no more rows wait for the system log than the setting allows, or allowed once.
SELECT 'outbox over its cap' AS name, count(*) || ' rows' AS detail FROM audit_outbox
HAVING count(*) > (SELECT max(n) FROM (
           SELECT value AS n FROM setting WHERE name = 'audit.outbox'
            UNION ALL SELECT body ->> 'from' FROM audit
                       WHERE entity = 'setting' AND entity_id = 'audit.outbox'));

SELECT 'gap in the system log' AS name, 'rows ' || g.first || ' to ' || g.last AS detail
  FROM audit_gap AS g JOIN audit_sink AS s ON s.name = 'system-log'
 WHERE g.first <= s.sent OR g.last > (SELECT max(seq) FROM audit)
    OR EXISTS (SELECT 1 FROM audit_gap AS h WHERE h.first > g.first AND h.first <= g.last + 1);

SELECT 'sink ahead of the audit' AS name, name AS detail FROM audit_sink
 WHERE sent > (SELECT coalesce(max(seq), 0) FROM audit);

-- No transition without an audit row: the newest one about a thing says the state that it is in.
-- (An actor's start and a call's way to the box are not audited: they end in rows that are.)
WITH thing (entity, id, state) AS (
    SELECT 'approval', id, state FROM approval
     UNION ALL SELECT 'grant', id, state FROM grant
     UNION ALL SELECT 'context_ask', id, state FROM context_ask
     UNION ALL SELECT 'op_run', id, state FROM op_run
     UNION ALL SELECT 'sandbox_run', id, state FROM sandbox_run
     UNION ALL SELECT 'instance', id, state FROM instance
     UNION ALL SELECT 'actor', id, state FROM actor_run WHERE state <> 'starting'
     UNION ALL SELECT 'pairing', id, state FROM pairing
     UNION ALL SELECT 'factor', id, state FROM factor
     UNION ALL SELECT 'invitation', id, state FROM invitation
     UNION ALL SELECT 'amendment', id, state FROM amendment
     UNION ALL SELECT 'host_box', id, state FROM host_box
     UNION ALL SELECT 'mcp_token', id, state FROM mcp_token
     UNION ALL SELECT 'remote_credential', id, state FROM remote_credential
     UNION ALL SELECT 'session', id, state FROM session
     UNION ALL SELECT 'attempt', id, state FROM attempt
     UNION ALL SELECT 'schedule', id, state FROM schedule
     UNION ALL SELECT 'firing', id, state FROM firing
     UNION ALL SELECT 'directive', id, state FROM directive
     UNION ALL SELECT 'host_order', id, state FROM host_order
     UNION ALL SELECT 'contain_spare', id, state FROM contain_spare
     UNION ALL SELECT 'contain_right', id, state FROM contain_right
     UNION ALL SELECT 'quarantine', id, state FROM quarantine
     UNION ALL SELECT 'tls_identity', id, state FROM tls_identity
     UNION ALL SELECT 'call', id, CASE state WHEN 'sent' THEN 'asked' ELSE state END FROM call)
SELECT 'state without an audit row' AS name, entity || ' ' || id || ' is ' || state AS detail
  FROM thing AS t
 WHERE state IS NOT (SELECT action FROM audit AS a
                      WHERE a.entity = t.entity AND a.entity_id = CAST(t.id AS TEXT)
                      ORDER BY seq DESC LIMIT 1)
   AND ((SELECT gone_to FROM retention WHERE entity = 'audit') = 0
        OR EXISTS (SELECT 1 FROM audit AS a
                    WHERE a.entity = t.entity AND a.entity_id = CAST(t.id AS TEXT)));

-- State machines: a state is one that a move leads to, and a final one has its time.
WITH thing (entity, id, state) AS (
    SELECT 'approval', id, state FROM approval
     UNION ALL SELECT 'grant', id, state FROM grant
     UNION ALL SELECT 'context_ask', id, state FROM context_ask
     UNION ALL SELECT 'op_run', id, state FROM op_run
     UNION ALL SELECT 'sandbox_run', id, state FROM sandbox_run
     UNION ALL SELECT 'folder_walk', op_run_id, state FROM folder_walk
     UNION ALL SELECT 'agent_scan', id, state FROM agent_scan
     UNION ALL SELECT 'instance', id, state FROM instance
     UNION ALL SELECT 'actor_run', id, state FROM actor_run
     UNION ALL SELECT 'pairing', id, state FROM pairing
     UNION ALL SELECT 'factor', id, state FROM factor
     UNION ALL SELECT 'invitation', id, state FROM invitation
     UNION ALL SELECT 'amendment', id, state FROM amendment
     UNION ALL SELECT 'host_box', id, state FROM host_box
     UNION ALL SELECT 'mcp_token', id, state FROM mcp_token
     UNION ALL SELECT 'schedule', id, state FROM schedule
     UNION ALL SELECT 'firing', id, state FROM firing
     UNION ALL SELECT 'remote_credential', id, state FROM remote_credential
     UNION ALL SELECT 'directive', id, state FROM directive
     UNION ALL SELECT 'host_order', id, state FROM host_order
     UNION ALL SELECT 'contain_spare', id, state FROM contain_spare
     UNION ALL SELECT 'contain_right', id, state FROM contain_right
     UNION ALL SELECT 'quarantine', id, state FROM quarantine
     UNION ALL SELECT 'tls_identity', id, state FROM tls_identity
     UNION ALL SELECT 'egress_rule', id, state FROM egress_rule
     UNION ALL SELECT 'token', id, state FROM token
     UNION ALL SELECT 'egress_request', id, state FROM egress_request
     UNION ALL SELECT 'egress_flow', id, state FROM egress_flow
     UNION ALL SELECT 'call', id, state FROM call)
SELECT 'state that no move leads to' AS name, entity || ' ' || id || ' is ' || state AS detail
  FROM thing AS t
 WHERE NOT EXISTS (SELECT 1 FROM state_rule AS r WHERE r.entity = t.entity AND r.to_state = t.state);

WITH ended (entity, id, state, is_final, at) AS (
    SELECT 'approval', id, state, state <> 'pending', decided_at FROM approval
     UNION ALL SELECT 'grant', id, state, state <> 'active', ended_at FROM grant
     UNION ALL SELECT 'context_ask', id, state, state NOT IN ('pending', 'allowed'), ended_at
                 FROM context_ask
     UNION ALL SELECT 'op_run', id, state, state NOT IN ('queued', 'running'), finished_at FROM op_run
     UNION ALL SELECT 'sandbox_run', id, state, state NOT IN ('starting', 'running'), ended_at
                 FROM sandbox_run
     UNION ALL SELECT 'instance', id, state, state IN ('ended', 'lost'), ended_at FROM instance
     UNION ALL SELECT 'actor_run', id, state, state NOT IN ('starting', 'running'), ended_at
                 FROM actor_run
     UNION ALL SELECT 'pairing', id, state, state = 'revoked', ended_at FROM pairing
     UNION ALL SELECT 'factor', id, state, state = 'dropped', dropped_at FROM factor
     UNION ALL SELECT 'invitation', id, state, state <> 'open', ended_at FROM invitation
     UNION ALL SELECT 'amendment', id, state, state <> 'pending', ended_at FROM amendment
     UNION ALL SELECT 'host_box', id, state, state = 'gone', gone_at FROM host_box
     UNION ALL SELECT 'mcp_token', id, state, state = 'dropped', dropped_at FROM mcp_token
     UNION ALL SELECT 'remote_credential', id, state, state <> 'active', ended_at FROM remote_credential
     UNION ALL SELECT 'session', id, state, state NOT IN ('queued', 'running'), finished_at FROM session
     UNION ALL SELECT 'attempt', id, state, state NOT IN ('launching', 'running'), ended_at FROM attempt
     UNION ALL SELECT 'firing', id, state, state <> 'running', ended_at FROM firing
     UNION ALL SELECT 'directive', id, state, state NOT IN ('taken', 'running'), ended_at FROM directive
     UNION ALL SELECT 'host_order', id, state, state NOT IN ('waiting', 'sent'), ended_at FROM host_order
     UNION ALL SELECT 'contain_spare', id, state, state = 'dropped', dropped_at FROM contain_spare
     UNION ALL SELECT 'contain_right', id, state, state <> 'active', ended_at FROM contain_right
     UNION ALL SELECT 'quarantine', id, state, state <> 'held', ended_at FROM quarantine
     UNION ALL SELECT 'tls_identity', id, state, state = 'past', ended_at FROM tls_identity
     UNION ALL SELECT 'egress_rule', id, state, state = 'dropped', dropped_at FROM egress_rule
     UNION ALL SELECT 'token', id, state, state = 'dropped', dropped_at FROM token
     UNION ALL SELECT 'egress_request', id, state, state <> 'open', ended_at FROM egress_request
     UNION ALL SELECT 'egress_flow', id, state, state NOT IN ('asked', 'open'), ended_at FROM egress_flow
     UNION ALL SELECT 'call', id, state, state NOT IN ('asked', 'sent'), finished_at FROM call)
SELECT 'end and its time disagree' AS name, entity || ' ' || id || ' is ' || state AS detail
  FROM ended WHERE is_final <> (at IS NOT NULL);

-- Instances: one lives at a time, and nothing runs under one that ended.
SELECT 'two live instances' AS name, count(*) || ' of them' AS detail
  FROM instance WHERE state IN ('starting', 'ready', 'draining') HAVING count(*) > 1;

SELECT 'instance of another role' AS name, 'instance ' || id AS detail
  FROM instance WHERE role <> (SELECT role FROM box);

SELECT 'actor under an ended instance' AS name, a.actor || ' of ' || i.id AS detail
  FROM actor_run AS a JOIN instance AS i ON i.id = a.instance_id
 WHERE a.state IN ('starting', 'running') AND i.state IN ('ended', 'lost');

SELECT 'run under an ended instance' AS name, 'op_run ' || id || ' is ' || state AS detail
  FROM op_run WHERE state IN ('queued', 'running')
   AND queued_at < (SELECT max(ended_at) FROM instance);

SELECT 'walk of a finished run' AS name, 'op_run ' || w.op_run_id || ' is ' || r.state AS detail
  FROM folder_walk AS w JOIN op_run AS r ON r.id = w.op_run_id
 WHERE w.state = 'reading' AND r.state NOT IN ('queued', 'running');

SELECT 'ask under an ended instance' AS name, 'call ' || id || ' is ' || state AS detail
  FROM call WHERE state IN ('asked', 'sent') AND asked_at < (SELECT max(ended_at) FROM instance);

-- Approvals: the digest is of the terms, what was approved is what was asked, one answer pays once.
SELECT 'approval digest' AS name, 'approval ' || id AS detail
  FROM approval WHERE digest IS NOT sha256(terms) OR decided_digest IS NOT NULL AND decided_digest <> digest;

SELECT 'burned approval' AS name, 'approval ' || a.id || ' has ' || count(g.id) || ' grants' AS detail
  FROM approval AS a LEFT JOIN grant AS g ON g.approval_id = a.id
 WHERE a.state = 'burned' GROUP BY a.id HAVING count(g.id) <> 1;

SELECT 'grant without a burned approval' AS name, 'grant ' || g.id || ': ' || a.state AS detail
  FROM grant AS g JOIN approval AS a ON a.id = g.approval_id WHERE a.state <> 'burned';

-- Amendments: none is half made, and what was proved is what was asked.
SELECT 'amendment' AS name, 'amendment ' || id || ' is ' || state AS detail
  FROM amendment
 WHERE state = 'running' OR (state = 'done' AND decided_digest IS NOT sha256(terms));

-- Grants: uses never exceed, a spent one has all of its uses, and each run is paid for once.
SELECT 'uses' AS name, 'grant ' || g.id || ' is ' || g.state || ' with ' || count(u.op_run_id) || ' of '
       || g.uses AS detail
  FROM grant AS g LEFT JOIN grant_use AS u ON u.grant_id = g.id
 GROUP BY g.id
HAVING count(u.op_run_id) > g.uses OR (g.state = 'spent' AND count(u.op_run_id) <> g.uses)
    OR (g.state = 'active' AND count(u.op_run_id) >= g.uses);

SELECT 'run that nothing paid for' AS name, 'op_run ' || r.id AS detail
  FROM op_run AS r JOIN op AS o ON o.name = r.op LEFT JOIN grant_use AS u ON u.op_run_id = r.id
 WHERE CASE WHEN r.dry THEN u.grant_id IS NOT NULL OR r.grant_id IS NULL
            WHEN o.class = 'own' THEN u.grant_id IS NOT NULL OR r.grant_id IS NOT NULL
            ELSE u.grant_id IS NULL OR u.grant_id IS NOT r.grant_id END;

SELECT 'run outside its grant' AS name, 'op_run ' || r.id || ', grant ' || g.id AS detail
  FROM op_run AS r JOIN grant AS g ON g.id = r.grant_id
 WHERE r.pairing_id <> g.pairing_id OR r.op <> g.op
    OR (r.args <> g.args AND (g.bounds IS NULL OR EXISTS (SELECT 1 FROM json_each(r.args) AS a
        JOIN op_param AS p ON p.op = r.op AND p.position = a.key + 1
        WHERE json_type(g.bounds, '$.' || p.name) IS NULL AND a.value IS NOT (g.args ->> a.key))))
    OR r.queued_at NOT BETWEEN g.created_at AND g.expires_at;

-- What is taken back takes with it what it allowed (unless a test took that trigger away to see what
-- else holds).
SELECT 'grant of a dropped factor' AS name, 'grant ' || g.id AS detail
  FROM grant AS g JOIN factor AS f ON f.id = g.factor_id
 WHERE g.state = 'active' AND f.state = 'dropped'
   AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'factor_dropped');

SELECT 'secret of a dropped factor' AS name, 'factor ' || id AS detail
  FROM factor WHERE state = 'dropped' AND secret IS NOT NULL
   AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'factor_dropped');

SELECT 'grant of a revoked pairing' AS name, 'grant ' || g.id AS detail
  FROM grant AS g JOIN pairing AS p ON p.id = g.pairing_id
 WHERE g.state = 'active' AND p.state = 'revoked';

SELECT 'question of a revoked pairing' AS name, 'approval ' || a.id AS detail
  FROM approval AS a JOIN pairing AS p ON p.id = a.pairing_id
 WHERE a.state = 'pending' AND p.state = 'revoked';

SELECT 'queued run of a revoked pairing' AS name, 'op_run ' || r.id AS detail
  FROM op_run AS r JOIN pairing AS p ON p.id = r.pairing_id
 WHERE r.state = 'queued' AND p.state = 'revoked';

-- The anchor: of a networked machine, and whoever asks beside it asks on its word.
SELECT 'anchor of a local machine' AS name, 'pairing ' || pairing_id AS detail
  FROM anchor WHERE (SELECT mode FROM box) <> 'networked';

SELECT 'anchor without an audit row' AS name, reason AS detail
  FROM anchor WHERE reason IS NOT (SELECT action FROM audit WHERE entity = 'anchor'
                                    ORDER BY seq DESC LIMIT 1);

SELECT 'pairing that no anchor approved' AS name, 'pairing ' || p.id AS detail
  FROM pairing AS p JOIN anchor AS a
 WHERE p.state = 'active' AND p.id <> a.pairing_id AND p.terms_id IS NULL AND p.since > a.claimed_at;

SELECT 'terms of another pairing' AS name, 'pairing ' || p.id AS detail
  FROM pairing AS p JOIN anchor_terms AS t ON t.id = p.terms_id
 WHERE t.pairing_id <> p.id OR t.kind <> 'pairing_grant'
    OR signed_by('bastion-anchor-1', t.signer, t.terms, t.signature) IS NOT 1;

SELECT 'consent that was not used' AS name, 'consent ' || id AS detail
  FROM pairing_consent WHERE used = 0;

-- Answers: frames from 1 to last_seq, without a gap, but where retention removes them.
SELECT 'frames of a run' AS name, 'op_run ' || r.id || ' has ' || count(o.seq) || ' of ' || r.last_seq
       AS detail
  FROM op_run AS r LEFT JOIN op_output AS o ON o.op_run_id = r.id
 WHERE r.id > (SELECT gone_to FROM retention WHERE entity = 'op_output')
 GROUP BY r.id HAVING count(o.seq) <> r.last_seq OR coalesce(max(o.seq), 0) <> r.last_seq;

SELECT 'frames of a call' AS name, 'call ' || c.id || ' has ' || count(o.seq) || ' of ' || c.last_seq
       AS detail
  FROM call AS c LEFT JOIN call_output AS o ON o.call_id = c.id
 WHERE c.id > (SELECT gone_to FROM retention WHERE entity = 'call_output')
 GROUP BY c.id HAVING count(o.seq) <> c.last_seq OR coalesce(max(o.seq), 0) <> c.last_seq;

-- Shared folders: what was allowed is what was asked, of the one who asked, sealed by this machine.
SELECT 'ask digest' AS name, 'context_ask ' || id AS detail
  FROM context_ask WHERE digest IS NOT sha256(terms);

SELECT 'shared folder' AS name, 'context_ask ' || id AS detail
  FROM context_ask WHERE state = 'allowed'
   AND (folder_uid IS NOT uid
        OR seal_ok('folder', json_array('folder', id, pairing_id, uid, root, name, folder_dev,
                   folder_ino, factor_id, decided_at), seal) = 0);

SELECT 'folder of a revoked pairing' AS name, 'context_ask ' || c.id AS detail
  FROM context_ask AS c JOIN pairing AS p ON p.id = c.pairing_id
 WHERE c.state IN ('pending', 'allowed') AND p.state = 'revoked';

SELECT 'folder of a dropped factor' AS name, 'context_ask ' || c.id AS detail
  FROM context_ask AS c JOIN factor AS f ON f.id = c.factor_id
 WHERE c.state = 'allowed' AND f.state = 'dropped'
   AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'factor_dropped_folders');

-- Endpoints: a revoked pairing has none.
SELECT 'endpoint of a revoked pairing' AS name, 'pairing ' || p.id AS detail
  FROM pairing_endpoint AS e JOIN pairing AS p ON p.id = e.pairing_id WHERE p.state = 'revoked';

-- Orders: what was done was signed by the Host that is named; endpoints are tried for an open order alone.
SELECT 'order that its Host did not sign' AS name, 'directive ' || id AS detail
  FROM directive WHERE signed_by('bastion-order-1', signer, terms, signature) IS NOT 1;

SELECT 'endpoint that no order tries' AS name, 'pairing ' || r.pairing_id AS detail
  FROM rotation_endpoint AS r JOIN directive AS d ON d.id = r.directive_id
 WHERE d.state <> 'taken' OR d.kind <> 'rotate' OR d.pairing_id <> r.pairing_id;

SELECT 'kill by an order that was not carried out' AS name, 'directive ' || c.directive_id AS detail
  FROM contain_process AS c JOIN directive AS d ON d.id = c.directive_id
 WHERE d.state NOT IN ('running', 'done', 'lost') OR d.by_uid IS NOT 0;

SELECT 'right of a revoked pairing that is live' AS name, 'pairing ' || r.pairing_id AS detail
  FROM live_contain_rights AS r JOIN pairing AS p ON p.id = r.pairing_id WHERE p.state <> 'active';

SELECT 'held twice' AS name, 'pairing ' || pairing_id AS detail
  FROM held_pairings GROUP BY pairing_id HAVING count(*) > 1;
-- Networks: what a pairing pins and shows ends with it, and an authority is named by its bytes.
SELECT 'pairing over a network without what it pins' AS name, 'pairing ' || p.id AS detail
  FROM pairing AS p
 WHERE p.transport <> 'unix' AND p.state <> 'revoked'
   AND NOT EXISTS (SELECT 1 FROM pairing_tls WHERE pairing_id = p.id);

SELECT 'certificate without a pairing' AS name, 'tls_identity ' || i.id AS detail
  FROM tls_identity AS i JOIN pairing AS p ON p.id = i.pairing_id
 WHERE i.state = 'current' AND (p.state = 'revoked' OR p.transport = 'unix');

SELECT 'authority of another fingerprint' AS name, 'pairing ' || pairing_id AS detail
  FROM pairing_tls WHERE sha256(authority) <> fp
 UNION ALL SELECT 'authority of another fingerprint', 'ours'
  FROM tls_authority WHERE sha256(cert) <> fp
 UNION ALL SELECT 'authority of another fingerprint', 'tls_identity ' || id
  FROM tls_identity WHERE sha256(cert) <> fp
 UNION ALL SELECT 'authority of another fingerprint', 'box_certificate ' || id
  FROM box_certificate WHERE cert IS NOT NULL AND sha256(cert) <> fp;

SELECT 'certificate of a box on a socket' AS name, 'box_certificate ' || c.id AS detail
  FROM box_certificate AS c JOIN host_box AS b ON b.id = c.box_id WHERE b.transport = 'unix';

-- The internet lane: what was opened is in the audit with the same addresses, and nothing is open under
-- an instance that ended.
SELECT 'connection without an audit row' AS name, 'egress_flow ' || f.id AS detail
  FROM egress_flow AS f
 WHERE f.opened_at IS NOT NULL
   AND (SELECT gone_to FROM retention WHERE entity = 'audit') = 0
   AND f.addresses IS NOT (SELECT body ->> '$.addresses' FROM audit
                            WHERE entity = 'egress_flow' AND entity_id = CAST(f.id AS TEXT)
                              AND action = 'open');

SELECT 'room for more connections than may be open' AS name, 'up to ' || until AS detail FROM egress_room
 WHERE until - (SELECT coalesce(max(id), 0) FROM egress_flow)
     > max(0, min((SELECT value FROM setting WHERE name = 'egress.live'),
                  (SELECT value FROM setting WHERE name = 'egress.live_each'))
              - (SELECT count(*) FROM egress_flow WHERE ended_at IS NULL));

-- A way that holds is one that the rules of this moment let be.
SELECT 'way that is not let be' AS name, w.host || ':' || w.port AS detail FROM egress_way AS w
 WHERE EXISTS (SELECT 1 FROM json_each(w.addresses) AS a JOIN own_address AS o
                  ON address_bytes(a.value) BETWEEN o.first AND o.last)
    OR NOT EXISTS (SELECT 1 FROM own_address)
    OR EXISTS (SELECT 1 FROM egress_rule AS r
                WHERE r.state = 'active' AND r.verdict = 'deny' AND r.port IN (0, w.port)
                  AND coalesce(r.uid, w.uid) = w.uid AND coalesce(r.pairing_id, w.pairing_id) = w.pairing_id
                  AND coalesce(r.run_id, w.run_id) = w.run_id
                  AND (r.suffix IN ('*', w.host) OR substr('.' || w.host, -length(r.suffix) - 1) = '.' || r.suffix))
    OR CASE WHEN EXISTS (SELECT 1 FROM program_reach WHERE run_id = w.run_id)
       THEN NOT EXISTS (SELECT 1 FROM program_reach
                         WHERE run_id = w.run_id AND host = w.host AND port = w.port)
       ELSE NOT EXISTS (SELECT 1 FROM egress_rule AS r
                WHERE r.state = 'active' AND r.verdict = 'allow' AND r.port IN (0, w.port)
                  AND coalesce(r.run_id, w.run_id) = w.run_id
                  AND (r.uid = w.uid OR r.pairing_id = w.pairing_id
                       OR (r.uid IS NULL AND r.pairing_id IS NULL AND w.pairing_id = -1))
                  AND (r.suffix IN ('*', w.host)
                       OR substr('.' || w.host, -length(r.suffix) - 1) = '.' || r.suffix)) END;

-- What a program got to is what the manifest says that was signed.
SELECT 'program that reached further' AS name, 'egress_flow ' || f.id AS detail
  FROM egress_flow AS f JOIN program_run AS b ON b.sandbox_run_id = f.run_id
  JOIN op_manifest AS m ON m.id = b.manifest_id
 WHERE f.state IN ('open', 'done')
   AND NOT EXISTS (SELECT 1 FROM json_each(m.manifest, '$.destinations') AS d
                    WHERE d.value = f.host || ':' || f.port OR d.value = '[' || f.host || ']:' || f.port);

SELECT 'connection under an ended instance' AS name, 'egress_flow ' || id AS detail
  FROM egress_flow WHERE ended_at IS NULL AND asked_at < (SELECT max(ended_at) FROM instance);
-- Every ask of a tool was decided by one gate, the last that was asked.
SELECT 'ask without one decision' AS name, d.id AS detail FROM decision AS d
 WHERE (SELECT count(*) FROM decision_gate AS g WHERE g.decision_id = d.id AND g.action IS NOT NULL) <> 1
    OR (SELECT max(ord) FROM decision_gate AS g WHERE g.decision_id = d.id)
       <> (SELECT ord FROM decision_gate AS g WHERE g.decision_id = d.id AND g.action IS NOT NULL);

SELECT 'denied for what it is not' AS name, d.id AS detail
  FROM decision AS d JOIN decision_gate AS g ON g.decision_id = d.id
 WHERE (g.code = 'network' AND NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'network'))
    OR (g.code = 'destructive_command'
        AND NOT EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = 'destructive'))
    OR (g.code = 'persistent_deny') <> (g.action = 'deny' AND g.grant_id IS NOT NULL);
-- Sessions: what runs has one attempt that lives, and what is over has none; what was said is numbered.
SELECT 'session without its attempt' AS name, s.name || ' is ' || s.state AS detail
  FROM session AS s
 WHERE (s.state = 'running') <> EXISTS (SELECT 1 FROM attempt AS a WHERE a.session_id = s.id
                                           AND a.state IN ('launching', 'running'));

SELECT 'session output' AS name, s.name || ': ' || count(o.seq) || ' rows' AS detail
  FROM session AS s LEFT JOIN session_output AS o ON o.session_id = s.id AND o.seq >= s.first_seq
 GROUP BY s.id
HAVING count(o.seq) <> s.last_seq - s.first_seq + 1 OR coalesce(max(o.seq), s.last_seq) <> s.last_seq;

-- Whoever began a session from afar had shown a right secret, and the session is of its user.
SELECT 'session from afar' AS name, s.name AS detail
  FROM remote_session AS r JOIN session AS s ON s.id = r.session_id
  JOIN remote_credential AS c ON c.id = r.credential_id
 WHERE s.by_uid <> c.by_uid
    OR (NOT EXISTS (SELECT 1 FROM remote_try WHERE credential_id = c.id AND result = 'ok')
        AND (SELECT min(id) FROM remote_try) = 1);

SELECT 'input of a session that is over' AS name, s.name AS detail
  FROM session AS s JOIN session_input AS i ON i.session_id = s.id WHERE s.finished_at IS NOT NULL;

SELECT 'a time of a schedule without its session' AS name, f.session AS detail
  FROM firing AS f LEFT JOIN session AS s ON s.name = f.session
 WHERE f.state = 'running' AND (s.id IS NULL OR s.finished_at IS NOT NULL);

SELECT 'a schedule whose next time is not its own' AS name, name AS detail FROM schedule
 WHERE next_at IS NOT NULL
   AND (next_at IS NOT due_next(cron, zone, every_ms, start_at, next_at - 1) OR next_at <= last_at);
-- A verb reached out only in a run of its own, to where it was asked to.
SELECT 'reach that nobody asked for' AS name, d.id || ': ' || d.host AS detail
  FROM verb_dial AS d LEFT JOIN op_run AS r ON r.id = d.op_run_id LEFT JOIN verb AS v ON v.op = r.op
 WHERE v.dials IS NOT 1 OR r.started_at IS NULL OR json_array_length(d.addresses) = 0
    OR ((r.args ->> v.declares) IS NOT NULL AND instr(d.host, ':') = 0
        AND instr(lower(r.args ->> v.declares), d.host) = 0);

-- A copy from afar is in place once its session ended well, and one that is under way has a session.
SELECT 'repository from afar' AS name, b.folder || '/' || b.name AS detail
  FROM remote_bundle AS b LEFT JOIN session AS s ON s.id = b.session_id
 WHERE (b.landed_at IS NOT NULL AND s.state <> 'done')
    OR (b.landed_at IS NULL AND s.id IS NULL)
    OR (b.landed_at IS NULL AND s.state = 'done');

-- Whoever types does so to what lives.
SELECT 'typist of what is over' AS name, 'session ' || t.session_id AS detail
  FROM session_typist AS t JOIN session AS s ON s.id = t.session_id WHERE s.finished_at IS NOT NULL;

-- A session without the lane has nothing on it.
SELECT 'session that reached without a lane' AS name, 'egress_flow ' || f.id AS detail
  FROM egress_flow AS f JOIN attempt AS a ON a.sandbox_run_id = f.run_id JOIN session AS s ON s.id = a.session_id
 WHERE s.lane IS NULL;

-- What a try was allowed went with it.
SELECT 'rule of a try that is over' AS name, 'egress_rule ' || r.id AS detail
  FROM egress_rule AS r JOIN attempt AS a ON a.sandbox_run_id = r.run_id
 WHERE r.state = 'active' AND a.ended_at IS NOT NULL;
