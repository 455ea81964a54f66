-- base.sql: what every other family stands on: limits, refusals, the moves of state machines.

-- Each applied migration, with the digest of its text and of the schema that it left.
CREATE TABLE schema_step (
    version    INTEGER PRIMARY KEY CHECK (version >= 1),
    name       TEXT    NOT NULL,
    sha256     BLOB    NOT NULL CHECK (length(sha256) = 32),
    applied_at INTEGER NOT NULL                                -- ms UTC
) STRICT;

CREATE TRIGGER schema_step_is_history BEFORE UPDATE ON schema_step
BEGIN
    SELECT RAISE(ABORT, 'schema.step|an applied migration is history');
END;

-- Every limit of the product. C asks for a row by name; a number in C would be a second truth.
CREATE TABLE setting (
    name  TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
    value INTEGER NOT NULL,
    unit  TEXT    NOT NULL,
    low   INTEGER NOT NULL,
    high  INTEGER NOT NULL,
    doc   TEXT    NOT NULL,
    CHECK (value BETWEEN low AND high)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER setting_only_value_moves BEFORE UPDATE ON setting
WHEN NEW.name IS NOT OLD.name OR NEW.unit IS NOT OLD.unit OR NEW.low IS NOT OLD.low
  OR NEW.high IS NOT OLD.high OR NEW.doc IS NOT OLD.doc
BEGIN
    SELECT RAISE(ABORT, 'setting.fixed|only the value of a setting may change');
END;

CREATE TRIGGER setting_stays BEFORE DELETE ON setting
BEGIN
    SELECT RAISE(ABORT, 'setting.fixed|a setting is not deleted');
END;

-- What a refused caller is told, the same on every surface. RAISE texts are 'code|why'.
CREATE TABLE refusal (
    code        TEXT    PRIMARY KEY CHECK (code GLOB '[a-z]*.[a-z]*'),
    exit_code   INTEGER NOT NULL CHECK (exit_code BETWEEN 1 AND 127),
    http_status INTEGER NOT NULL CHECK (http_status BETWEEN 400 AND 599),
    advice      TEXT    NOT NULL                               -- what to do next
) STRICT, WITHOUT ROWID;

-- The moves that exist. from_state '' is birth; a state with no row leading out is final.
CREATE TABLE state_rule (
    entity     TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    PRIMARY KEY (entity, from_state, to_state)
) STRICT, WITHOUT ROWID;
-- approval.sql: a question to a person, in exact terms; and the answer.

CREATE TABLE approval (
    id             INTEGER PRIMARY KEY,
    nonce          TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    kind           TEXT    NOT NULL CHECK (kind IN ('op')),
    box_name       TEXT    NOT NULL,
    pairing_id     INTEGER NOT NULL REFERENCES pairing (id),
    host_name      TEXT    NOT NULL,
    op             TEXT    NOT NULL REFERENCES op (name),
    args           TEXT    NOT NULL CHECK (json_valid(args) AND json_type(args) = 'array'
                           AND length(args) <= 16384),
    uses           INTEGER NOT NULL CHECK (uses >= 1),
    ttl_ms         INTEGER NOT NULL CHECK (ttl_ms >= 1000),    -- of the grant, from the decision on
    -- What the person reads, byte for byte. Text from the Host stands as JSON, so it cannot pose as a line.
    terms          TEXT    GENERATED ALWAYS AS (
        'bastion approval 1' || char(10) ||
        'machine: ' || box_name || char(10) ||
        'host: ' || host_name || char(10) ||
        'may: ' || op || char(10) ||
        'with: ' || args || char(10) ||
        'uses: ' || uses || char(10) ||
        'for: ' || (ttl_ms / 1000) || ' s from the approval' || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL,
    digest         BLOB    CHECK (length(digest) = 32),       -- SHA-256 of terms, entered as it is born
    state          TEXT    NOT NULL DEFAULT 'pending'
                   CHECK (state IN ('pending', 'approved', 'burned', 'denied', 'expired')),
    asked_at       INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL CHECK (expires_at > asked_at),
    factor_id      INTEGER REFERENCES factor (id),
    decided_digest BLOB    CHECK (length(decided_digest) = 32),
    decided_by_uid INTEGER,
    decided_by     TEXT    CHECK (length(decided_by) BETWEEN 1 AND 64),
    decided_at     INTEGER,
    CHECK (state NOT IN ('approved', 'burned')
           OR (factor_id IS NOT NULL AND decided_digest = digest AND decided_by_uid IS NOT NULL
               AND decided_by IS NOT NULL)),
    CHECK (state <> 'denied' OR (decided_by_uid IS NOT NULL AND decided_by IS NOT NULL)),
    CHECK ((state = 'pending') = (decided_at IS NULL))
) STRICT;

-- The same question is asked once, however often the Host repeats it.
CREATE UNIQUE INDEX approval_pending_once ON approval (pairing_id, op, args, uses, ttl_ms)
 WHERE state = 'pending';

CREATE TRIGGER approval_born BEFORE INSERT ON approval
BEGIN
    -- A question that ran out does not stand in the way of the next, nor does it count.
    UPDATE approval SET state = 'expired', decided_at = now_ms()
     WHERE pairing_id = NEW.pairing_id AND state = 'pending' AND expires_at <= now_ms();
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'approval.transition|an approval begins as pending')
     WHERE NEW.state <> 'pending';
    SELECT RAISE(ABORT, 'op.unknown|there is no op of this name')
     WHERE NOT EXISTS (SELECT 1 FROM op WHERE name = NEW.op);
    SELECT RAISE(ABORT, 'op.args|arguments are a JSON array of at most 16384 characters')
     WHERE CASE WHEN json_valid(NEW.args) THEN json_type(NEW.args) <> 'array' ELSE 1 END
        OR length(NEW.args) > 16384;
    SELECT RAISE(ABORT, 'approval.uses|at least one use, and no more than the setting grant.uses allows')
     WHERE NEW.uses NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'grant.uses');
    SELECT RAISE(ABORT, 'approval.ttl|whole seconds, and no longer than the setting grant.ttl_ms allows')
     WHERE NEW.ttl_ms NOT BETWEEN 1000 AND (SELECT value FROM setting WHERE name = 'grant.ttl_ms')
        OR NEW.ttl_ms % 1000 <> 0;
    SELECT RAISE(ABORT, 'approval.terms|the terms name another machine, Host or text')
     WHERE NEW.box_name IS NOT (SELECT name FROM box)
        OR NEW.host_name IS NOT (SELECT host_name FROM pairing WHERE id = NEW.pairing_id)
        OR (NEW.digest IS NOT NULL AND NEW.digest IS NOT sha256(NEW.terms));
    SELECT RAISE(ABORT, 'approval.busy|too many questions of this Host wait for a person')
     WHERE (SELECT count(*) FROM approval WHERE pairing_id = NEW.pairing_id AND state = 'pending')
        >= (SELECT value FROM setting WHERE name = 'approval.pending');
END;

-- (In a BEFORE UPDATE trigger NEW's generated columns are not computed yet: name what they are made of.)
CREATE TRIGGER approval_moves BEFORE UPDATE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.decided|this question is decided already')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'approval' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'approval.decided|this question is decided already')
     WHERE NEW.state IS OLD.state AND OLD.digest IS NOT NULL;
    SELECT RAISE(ABORT, 'approval.terms|the terms of a question never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.kind IS NOT OLD.kind
        OR NEW.box_name IS NOT OLD.box_name OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_name IS NOT OLD.host_name OR NEW.op IS NOT OLD.op OR NEW.args IS NOT OLD.args
        OR NEW.uses IS NOT OLD.uses OR NEW.ttl_ms IS NOT OLD.ttl_ms
        OR NEW.digest IS NOT coalesce(OLD.digest, sha256(OLD.terms))
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'approval.expired|this question ran out before it was answered')
     WHERE NEW.state IN ('approved', 'denied') AND OLD.state = 'pending' AND OLD.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'approval.factor|the approving factor is not active')
     WHERE NEW.state = 'approved'
       AND (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'approval.terms|what was approved is not what was asked')
     WHERE NEW.state = 'approved' AND sha256(OLD.terms) IS NOT NEW.decided_digest;
END;

CREATE TRIGGER approval_stays BEFORE DELETE ON approval
BEGIN
    SELECT RAISE(ABORT, 'approval.kept|a question and its answer are history');
END;

CREATE TRIGGER approval_audit_birth AFTER INSERT ON approval
BEGIN
    UPDATE approval SET digest = sha256(terms) WHERE id = NEW.id AND digest IS NULL;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'approval', NEW.id, NEW.state, NEW.host_name,
            json_object('op', NEW.op, 'args', json(NEW.args), 'uses', NEW.uses, 'ttl_ms', NEW.ttl_ms,
                        'digest', (SELECT lower(hex(digest)) FROM approval WHERE id = NEW.id)));
END;

CREATE TRIGGER approval_audit_move AFTER UPDATE OF state ON approval WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'approval', NEW.id, NEW.state, NEW.host_name,
            json_object('from', OLD.state, 'by', NEW.decided_by, 'uid', NEW.decided_by_uid,
                        'factor', NEW.factor_id, 'digest', lower(hex(NEW.digest))));
END;

-- What waits for a person.
CREATE VIEW open_approvals AS
SELECT id, host_name AS host, op, args, uses, ttl_ms, asked_at, expires_at, lower(hex(digest)) AS digest
  FROM approval WHERE state = 'pending' AND expires_at > now_ms();
-- audit.sql: what happened, in order, each row chained to the one before it; seals; the system log.

CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY CHECK (seq >= 1),
    at        INTEGER NOT NULL,                                -- ms UTC
    stream    TEXT    NOT NULL CHECK (stream IN ('management', 'pairing', 'op')),
    who       TEXT    NOT NULL CHECK (who <> '' AND length(who) <= 160),
    entity    TEXT    NOT NULL,
    entity_id TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    pairing   TEXT    NOT NULL DEFAULT '',                     -- the Host's name, '' for the box itself
    body      TEXT    NOT NULL CHECK (json_valid(body)),
    prev      BLOB    NOT NULL CHECK (length(prev) = 32),
    hash      BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE INDEX audit_by_entity ON audit (entity, entity_id, seq);

-- The exact text that a row's hash covers, behind the 32 bytes of the row before it.
CREATE VIEW audit_line AS
SELECT seq, prev, hash,
       json_array(seq, at, stream, who, entity, entity_id, action, pairing, body) AS line
  FROM audit;

CREATE VIEW audit_entry AS
SELECT stream, entity, entity_id, action, pairing, body FROM audit;

-- The only way in: triggers insert here, and the row is numbered, dated, signed for and chained.
-- (|| '' makes text of a number, and plain text of what json_object returned: as the columns hold it.)
CREATE TRIGGER audit_entry_chains INSTEAD OF INSERT ON audit_entry
BEGIN
    INSERT INTO audit (seq, at, stream, who, entity, entity_id, action, pairing, body, prev, hash)
    SELECT h.seq + 1, now_ms(), NEW.stream, acting(), NEW.entity, NEW.entity_id, NEW.action,
           NEW.pairing, NEW.body, h.hash,
           chain_hash(h.hash, json_array(h.seq + 1, now_ms(), NEW.stream, acting(), NEW.entity,
                                         NEW.entity_id || '', NEW.action, NEW.pairing,
                                         NEW.body || ''))
      FROM (SELECT seq, hash FROM audit
             UNION ALL SELECT 0, zeroblob(32) ORDER BY seq DESC LIMIT 1) AS h;
END;

CREATE TRIGGER audit_chained BEFORE INSERT ON audit
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM audit)
  OR NEW.prev IS NOT coalesce((SELECT hash FROM audit WHERE seq = NEW.seq - 1), zeroblob(32))
BEGIN
    SELECT RAISE(ABORT, 'audit.chain|an audit row continues the chain');
END;

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|the audit is append-only');
END;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|the audit is append-only');
END;

-- A seal: the machine's signature over the chain's head at one moment.
CREATE TABLE audit_seal (
    seq       INTEGER PRIMARY KEY REFERENCES audit (seq),
    head      BLOB    NOT NULL CHECK (length(head) = 32),
    at        INTEGER NOT NULL,
    reason    TEXT    NOT NULL CHECK (reason IN ('interval', 'shutdown', 'request')),
    seal_text TEXT    GENERATED ALWAYS AS
              (json_array('audit_seal', seq, lower(hex(head)), at, reason)) VIRTUAL,
    signature BLOB    NOT NULL CHECK (length(signature) = 64)
) STRICT;

CREATE TRIGGER audit_seal_fits BEFORE INSERT ON audit_seal
BEGIN
    SELECT RAISE(ABORT, 'audit.seal|a seal covers the head that the chain has there')
     WHERE NEW.head IS NOT (SELECT hash FROM audit WHERE seq = NEW.seq);
    SELECT RAISE(ABORT, 'audit.seal|the seal is not of this machine')
     WHERE seal_ok('audit', json_array('audit_seal', NEW.seq, lower(hex(NEW.head)), NEW.at,
                                       NEW.reason), NEW.signature) IS NOT 1;
END;

CREATE TRIGGER audit_seal_no_update BEFORE UPDATE ON audit_seal
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|a seal is append-only');
END;

CREATE TRIGGER audit_seal_no_delete BEFORE DELETE ON audit_seal
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|a seal is append-only');
END;

-- Where the audit is copied to, and how far: what comes after `sent` waits. At most audit.outbox
-- rows wait for the system log; past that the newest are dropped, and the next row that gets in
-- carries their count. Waiting costs no row of its own: only a gap does.
CREATE TABLE audit_sink (
    name TEXT    PRIMARY KEY CHECK (name IN ('system-log')),
    sent INTEGER NOT NULL DEFAULT 0 CHECK (sent >= 0)
) STRICT, WITHOUT ROWID;

-- Rows from `first` to `last` do not go to the system log.
CREATE TABLE audit_gap (
    first INTEGER PRIMARY KEY,
    last  INTEGER NOT NULL CHECK (last >= first)
) STRICT;

CREATE TRIGGER audit_sink_forward BEFORE UPDATE ON audit_sink
BEGIN
    SELECT RAISE(ABORT, 'audit.sink|a copy of the audit only goes forward, and no further than the audit')
     WHERE NEW.name IS NOT OLD.name OR NEW.sent < OLD.sent
        OR NEW.sent > (SELECT coalesce(max(seq), 0) FROM audit);
END;

-- A gap that a sent row has told of is over.
CREATE TRIGGER audit_sink_sent AFTER UPDATE ON audit_sink
BEGIN
    DELETE FROM audit_gap WHERE last < NEW.sent;
END;

CREATE TRIGGER audit_dropped AFTER INSERT ON audit
WHEN NEW.seq - (SELECT sent FROM audit_sink WHERE name = 'system-log')
     - (SELECT coalesce(sum(last - first + 1), 0) FROM audit_gap)
   > (SELECT value FROM setting WHERE name = 'audit.outbox')
BEGIN
    INSERT INTO audit_gap (first, last) SELECT NEW.seq, NEW.seq
     WHERE NOT EXISTS (SELECT 1 FROM audit_gap WHERE last = NEW.seq - 1);
    UPDATE audit_gap SET last = NEW.seq WHERE last = NEW.seq - 1;
END;

-- What waits for the system log.
CREATE VIEW audit_outbox AS
SELECT a.seq,
       coalesce((SELECT iif(g.last = a.seq - 1, g.last - g.first + 1, 0) FROM audit_gap AS g
                  WHERE g.first < a.seq ORDER BY g.first DESC LIMIT 1), 0) AS dropped_before
  FROM audit AS a
 WHERE a.seq > (SELECT sent FROM audit_sink WHERE name = 'system-log')
   AND a.seq > coalesce((SELECT g.last FROM audit_gap AS g WHERE g.first <= a.seq
                          ORDER BY g.first DESC LIMIT 1), 0);

-- Rows that were dropped since the last one that waits or went.
CREATE VIEW audit_drop AS
SELECT coalesce(sum(last - first + 1), 0) AS dropped
  FROM audit_gap WHERE last = (SELECT max(seq) FROM audit);

-- The line for the system log: the row's body plus who, what and where; a command's text never leaves,
-- its digest and length do (json_set keeps NULLs and integers exact, json_patch would not).
CREATE VIEW audit_log_line AS
WITH queued AS (
    SELECT o.seq, o.dropped_before, a.stream, a.pairing, a.at, a.who, a.entity, a.entity_id, a.action,
           CASE WHEN json_type(a.body, '$.command') = 'text' THEN
                json_remove(
                    CASE WHEN json_type(a.body, '$.command_bytes') IS NULL
                         THEN json_set(a.body, '$.command_bytes',
                                       length(CAST(json_extract(a.body, '$.command') AS BLOB)))
                         ELSE a.body END,
                    '$.command')
                ELSE a.body END AS body
      FROM audit_outbox AS o JOIN audit AS a ON a.seq = o.seq)
SELECT seq,
       CASE WHEN dropped_before > 0
            THEN json_set(line, '$.system_log_dropped', dropped_before) ELSE line END AS line
  FROM (SELECT seq, dropped_before,
               json_set(body, '$.audit', stream, '$.pairing', pairing, '$.seq', seq, '$.at', at,
                        '$.who', who, '$.entity', entity, '$.id', entity_id, '$.action', action)
               AS line
          FROM queued);

-- Something was asked and held: kept although the statement that asked was rolled back.
CREATE TABLE refused (
    id         INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    pairing_id INTEGER,                                        -- no foreign key: it may be what was wrong
    surface    TEXT    NOT NULL CHECK (surface IN ('cli', 'control', 'lane', 'enroll')),
    asked      TEXT    NOT NULL CHECK (length(asked) <= 200),
    code       TEXT    NOT NULL REFERENCES refusal (code),
    why        TEXT    NOT NULL CHECK (length(why) <= 512)
) STRICT;

CREATE TRIGGER refused_no_update BEFORE UPDATE ON refused
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|what was refused stays as it was');
END;

CREATE TRIGGER refused_audit AFTER INSERT ON refused
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'refused', NEW.id, 'refused',
            coalesce((SELECT host_name FROM pairing WHERE id = NEW.pairing_id), ''),
            json_object('surface', NEW.surface, 'asked', NEW.asked, 'code', NEW.code, 'why', NEW.why));
END;

CREATE TRIGGER setting_audit AFTER UPDATE OF value ON setting WHEN NEW.value IS NOT OLD.value
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'setting', NEW.name, 'changed', '',
            json_object('from', OLD.value, 'to', NEW.value));
END;
-- box.sql: this machine, and the Hosts that it is paired with.

CREATE TABLE box (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    name         TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64
                         AND name NOT GLOB '*[^A-Za-z0-9.-]*' AND name NOT GLOB '-*'
                         AND instr(name, char(0)) = 0),
    role         TEXT    NOT NULL CHECK (role IN ('box', 'host')),
    mode         TEXT    NOT NULL DEFAULT 'local' CHECK (mode IN ('local', 'networked')),
    identity_key BLOB    NOT NULL CHECK (length(identity_key) = 32),   -- Ed25519, public
    created_at   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER box_keeps_its_identity BEFORE UPDATE ON box
WHEN NEW.identity_key IS NOT OLD.identity_key OR NEW.role IS NOT OLD.role
  OR NEW.created_at IS NOT OLD.created_at
BEGIN
    SELECT RAISE(ABORT, 'box.identity|the identity and role of a machine never change');
END;

CREATE TRIGGER box_stays BEFORE DELETE ON box
BEGIN
    SELECT RAISE(ABORT, 'box.identity|the machine is not deleted from its own database');
END;

CREATE TRIGGER box_audit AFTER INSERT ON box
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'box', NEW.id, 'created', '',
            json_object('name', NEW.name, 'role', NEW.role, 'mode', NEW.mode,
                        'key', lower(hex(NEW.identity_key))));
END;

-- A Host that may ask. The key is the Host's; peer_uid is who served its socket when it paired.
CREATE TABLE pairing (
    id         INTEGER PRIMARY KEY,
    host_name  TEXT    NOT NULL CHECK (length(host_name) BETWEEN 1 AND 64
                       AND host_name NOT GLOB '*[^A-Za-z0-9.-]*' AND host_name NOT GLOB '-*'
                       AND instr(host_name, char(0)) = 0),
    transport  TEXT    NOT NULL CHECK (transport IN ('unix')),
    host_key   BLOB    NOT NULL CHECK (length(host_key) = 32),
    peer_uid   INTEGER NOT NULL CHECK (peer_uid >= 0),
    state      TEXT    NOT NULL CHECK (state IN ('active', 'pending', 'revoked')),
    since      INTEGER NOT NULL,
    ended_at   INTEGER,
    CHECK ((state = 'revoked') = (ended_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX pairing_by_host ON pairing (host_name);
CREATE UNIQUE INDEX pairing_by_key ON pairing (host_key) WHERE state <> 'revoked';

CREATE TRIGGER pairing_born BEFORE INSERT ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.key|a Host of this name is paired here with another key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name AND state <> 'revoked'
                      AND host_key <> NEW.host_key);
    SELECT RAISE(ABORT, 'pairing.exists|this Host is already paired here')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_name = NEW.host_name);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot begin in this state')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = '' AND to_state = NEW.state);
END;

CREATE TRIGGER pairing_moves BEFORE UPDATE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.transition|a pairing cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'pairing' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its Host')
     WHERE NEW.id IS NOT OLD.id OR NEW.host_name IS NOT OLD.host_name;
    SELECT RAISE(ABORT, 'pairing.fixed|a pairing keeps its key until it is paired anew')
     WHERE NEW.state IS OLD.state
       AND (NEW.host_key IS NOT OLD.host_key OR NEW.peer_uid IS NOT OLD.peer_uid
            OR NEW.since IS NOT OLD.since);
    SELECT RAISE(ABORT, 'pairing.second|a local machine has one Host, and it has one already')
     WHERE OLD.state = 'revoked' AND NEW.state <> 'revoked' AND (SELECT mode FROM box) = 'local'
       AND EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked');
    SELECT RAISE(ABORT, 'pairing.key|a Host of another name is paired here with this key')
     WHERE OLD.state = 'revoked' AND NEW.state <> 'revoked'
       AND EXISTS (SELECT 1 FROM pairing WHERE host_key = NEW.host_key AND state <> 'revoked');
END;

-- Taking a pairing back takes everything with it that it allowed.
CREATE TRIGGER pairing_revoked AFTER UPDATE OF state ON pairing
WHEN NEW.state = 'revoked' AND OLD.state <> 'revoked'
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = NEW.ended_at, end_reason = 'pairing revoked'
     WHERE pairing_id = NEW.id AND state = 'active';
    UPDATE approval SET state = 'expired', decided_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state = 'pending';
    UPDATE op_run SET state = 'cancelled', finished_at = NEW.ended_at
     WHERE pairing_id = NEW.id AND state = 'queued' AND finished_at IS NULL;
END;

CREATE TRIGGER pairing_audit_birth AFTER INSERT ON pairing
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'transport', NEW.transport, 'peer_uid', NEW.peer_uid,
                        'key', lower(hex(NEW.host_key))));
END;

CREATE TRIGGER pairing_audit_move AFTER UPDATE OF state ON pairing WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'pairing', NEW.id, NEW.state, '',
            json_object('host', NEW.host_name, 'from', OLD.state));
END;

CREATE TRIGGER pairing_stays BEFORE DELETE ON pairing
BEGIN
    SELECT RAISE(ABORT, 'pairing.kept|a pairing is revoked, not deleted: its history names it');
END;
-- factor.sql: what proves that a person decided: a TOTP secret or an SSH key, and tries at it.

CREATE TABLE factor (
    id            INTEGER PRIMARY KEY,
    kind          TEXT    NOT NULL CHECK (kind IN ('totp', 'ssh')),
    label         TEXT    NOT NULL CHECK (length(label) BETWEEN 1 AND 64 AND instr(label, char(0)) = 0),
    secret        BLOB    CHECK (length(secret) BETWEEN 40 AND 256),   -- sealed; TOTP only
    public_key    TEXT    CHECK (length(public_key) <= 1024),          -- an authorized_keys line; SSH
    fingerprint   TEXT    NOT NULL CHECK (length(fingerprint) <= 96),
    state         TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    enrolled_at   INTEGER NOT NULL,
    dropped_at    INTEGER,
    last_counter  INTEGER NOT NULL DEFAULT -1,                 -- TOTP step or FIDO counter last used
    CHECK ((kind = 'totp') = (public_key IS NULL)),
    CHECK (kind = 'totp' OR secret IS NULL),
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL)),
    CHECK (kind <> 'totp' OR state = 'dropped' OR secret IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX factor_by_label ON factor (label) WHERE state = 'active';
CREATE UNIQUE INDEX factor_by_fingerprint ON factor (fingerprint) WHERE state = 'active';

CREATE TRIGGER factor_born BEFORE INSERT ON factor
BEGIN
    SELECT RAISE(ABORT, 'factor.label|a label is 1 to 64 characters, none of them a control character')
     WHERE length(NEW.label) NOT BETWEEN 1 AND 64
        OR NEW.label GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'factor.label|an active factor has this label or key already')
     WHERE EXISTS (SELECT 1 FROM factor WHERE state = 'active'
           AND (label = NEW.label OR fingerprint = NEW.fingerprint));
    SELECT RAISE(ABORT, 'factor.transition|a factor begins as active') WHERE NEW.state <> 'active';
END;

CREATE TRIGGER factor_moves BEFORE UPDATE ON factor
BEGIN
    SELECT RAISE(ABORT, 'factor.transition|a dropped factor stays dropped')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'factor' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'factor.fixed|a factor keeps its kind, label and key')
     WHERE NEW.kind IS NOT OLD.kind OR NEW.label IS NOT OLD.label
        OR NEW.public_key IS NOT OLD.public_key OR NEW.fingerprint IS NOT OLD.fingerprint
        OR NEW.enrolled_at IS NOT OLD.enrolled_at
        OR (NEW.secret IS NOT OLD.secret AND NEW.secret IS NOT NULL);
    -- (Its secret is wiped as it is dropped: that one change follows.)
    SELECT RAISE(ABORT, 'factor.final|a dropped factor is history')
     WHERE OLD.state = 'dropped'
       AND (NEW.id IS NOT OLD.id OR NEW.secret IS NOT NULL OR NEW.enrolled_at IS NOT OLD.enrolled_at
            OR NEW.dropped_at IS NOT OLD.dropped_at OR NEW.last_counter IS NOT OLD.last_counter);
END;

-- A proof moves the counter on, or it was used: staying where it is counts as used.
CREATE TRIGGER factor_counter_grows BEFORE UPDATE OF last_counter ON factor
WHEN NEW.last_counter <= OLD.last_counter
BEGIN
    SELECT RAISE(ABORT, 'factor.used|this code or signature was used already');
END;

-- Dropping a factor drops what it approved, for good; its secret goes at once.
CREATE TRIGGER factor_dropped AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state = 'active'
BEGIN
    UPDATE factor SET secret = NULL WHERE id = NEW.id AND secret IS NOT NULL;
    UPDATE grant SET state = 'dropped', ended_at = NEW.dropped_at, end_reason = 'approver dropped'
     WHERE factor_id = NEW.id AND state = 'active';
END;

CREATE TRIGGER factor_stays BEFORE DELETE ON factor
BEGIN
    SELECT RAISE(ABORT, 'factor.kept|a factor is dropped, not deleted: approvals name it');
END;

CREATE TRIGGER factor_audit_birth AFTER INSERT ON factor
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', NEW.id, NEW.state, '',
            json_object('kind', NEW.kind, 'label', NEW.label, 'fingerprint', NEW.fingerprint));
END;

CREATE TRIGGER factor_audit_move AFTER UPDATE OF state ON factor WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

-- Every try to prove oneself. So many wrong ones in a while close the door until the oldest is past.
CREATE TABLE factor_try (
    id        INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    kind      TEXT    NOT NULL CHECK (kind IN ('totp', 'ssh')),
    outcome   TEXT    NOT NULL CHECK (outcome IN ('right', 'wrong'))
) STRICT;

CREATE INDEX factor_try_by_time ON factor_try (at);

-- Wrong tries since the last right one, within the throttle's window, and when the door opens again.
CREATE VIEW factor_throttle AS
SELECT count(*) AS wrong,
       (SELECT value FROM setting WHERE name = 'factor.tries') AS allowed,
       min(at) + (SELECT value FROM setting WHERE name = 'factor.throttle_ms') AS until
  FROM factor_try
 WHERE outcome = 'wrong'
   AND at > now_ms() - (SELECT value FROM setting WHERE name = 'factor.throttle_ms')
   AND id > coalesce((SELECT max(id) FROM factor_try WHERE outcome = 'right'), 0);

CREATE TRIGGER factor_try_throttled BEFORE INSERT ON factor_try
WHEN (SELECT wrong >= allowed FROM factor_throttle)
BEGIN
    SELECT RAISE(ABORT, 'factor.throttled|too many wrong codes');
END;

CREATE TRIGGER factor_try_audit AFTER INSERT ON factor_try WHEN NEW.outcome = 'wrong'
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'factor', '', 'wrong', '', json_object('kind', NEW.kind));
END;
-- grant.sql: what a Host may do, on whose word, how often, until when; and each use.

CREATE TABLE grant (
    id          INTEGER PRIMARY KEY,
    pairing_id  INTEGER NOT NULL REFERENCES pairing (id),
    kind        TEXT    NOT NULL CHECK (kind IN ('op')),
    op          TEXT    NOT NULL REFERENCES op (name),
    args        TEXT    NOT NULL CHECK (json_valid(args) AND json_type(args) = 'array'),
    uses        INTEGER NOT NULL CHECK (uses >= 1),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL CHECK (expires_at > created_at),
    factor_id   INTEGER NOT NULL REFERENCES factor (id),
    approval_id INTEGER NOT NULL UNIQUE REFERENCES approval (id),
    -- The bytes under the seal: a record that another tool edited holds nothing.
    seal_text   TEXT    GENERATED ALWAYS AS
                (json_array('grant', pairing_id, kind, op, args, uses, created_at, expires_at,
                            factor_id, approval_id)) VIRTUAL,
    seal        BLOB    NOT NULL CHECK (length(seal) = 64),
    state       TEXT    NOT NULL DEFAULT 'active'
                CHECK (state IN ('active', 'spent', 'expired', 'dropped')),
    ended_at    INTEGER,
    end_reason  TEXT    CHECK (length(end_reason) <= 128),
    CHECK ((state = 'active') = (ended_at IS NULL))
) STRICT;

CREATE INDEX grant_usable ON grant (pairing_id, op, args) WHERE state = 'active';
CREATE INDEX grant_due ON grant (expires_at) WHERE state = 'active';
CREATE INDEX grant_by_factor ON grant (factor_id) WHERE state = 'active';

CREATE TRIGGER grant_on_a_persons_word BEFORE INSERT ON grant
BEGIN
    SELECT RAISE(ABORT, 'grant.approval|a grant repeats an approval that was given and not used')
     WHERE NOT EXISTS (SELECT 1 FROM approval AS a
           WHERE a.id = NEW.approval_id AND a.state = 'approved' AND a.kind = NEW.kind
             AND a.pairing_id = NEW.pairing_id AND a.op = NEW.op AND a.args = NEW.args
             AND a.uses = NEW.uses AND a.factor_id = NEW.factor_id
             AND a.decided_at = NEW.created_at AND NEW.expires_at = a.decided_at + a.ttl_ms);
    SELECT RAISE(ABORT, 'grant.seal|the seal of this grant is not of this machine')
     WHERE seal_ok('grant', NEW.seal_text, NEW.seal) IS NOT 1;
    SELECT RAISE(ABORT, 'grant.transition|a grant begins as active') WHERE NEW.state <> 'active';
END;

-- An approval is burned in the transaction that uses it.
CREATE TRIGGER grant_burns_its_approval AFTER INSERT ON grant
BEGIN
    UPDATE approval SET state = 'burned' WHERE id = NEW.approval_id;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'grant', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'args', json(NEW.args), 'uses', NEW.uses,
                        'expires_at', NEW.expires_at, 'approval', NEW.approval_id,
                        'factor', NEW.factor_id));
END;

CREATE TRIGGER grant_moves BEFORE UPDATE ON grant
BEGIN
    SELECT RAISE(ABORT, 'grant.final|an ended grant stays ended')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'grant' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'grant.fixed|the terms of a grant never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.kind IS NOT OLD.kind
        OR NEW.op IS NOT OLD.op OR NEW.args IS NOT OLD.args OR NEW.uses IS NOT OLD.uses
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at
        OR NEW.factor_id IS NOT OLD.factor_id OR NEW.approval_id IS NOT OLD.approval_id
        OR NEW.seal IS NOT OLD.seal;
END;

CREATE TRIGGER grant_stays BEFORE DELETE ON grant
BEGIN
    SELECT RAISE(ABORT, 'grant.kept|a grant is dropped, not deleted');
END;

CREATE TRIGGER grant_audit_move AFTER UPDATE OF state ON grant WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'grant', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'reason', NEW.end_reason));
END;

-- One row for each run that a grant paid for, numbered from 1: the number is the count.
CREATE TABLE grant_use (
    grant_id  INTEGER NOT NULL REFERENCES grant (id),
    n         INTEGER NOT NULL CHECK (n >= 1),
    op_run_id INTEGER NOT NULL REFERENCES op_run (id),
    at        INTEGER NOT NULL,
    PRIMARY KEY (grant_id, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER grant_use_within_uses BEFORE INSERT ON grant_use
BEGIN
    SELECT RAISE(ABORT, 'grant.spent|every use of this grant is spent')
     WHERE NEW.n > (SELECT uses FROM grant WHERE id = NEW.grant_id);
    SELECT RAISE(ABORT, 'grant.uses|uses are numbered without a gap')
     WHERE NEW.n IS NOT (SELECT coalesce(max(n), 0) + 1 FROM grant_use WHERE grant_id = NEW.grant_id);
    SELECT RAISE(ABORT, 'grant.uses|a use is of a run that this grant authorised')
     WHERE NEW.grant_id IS NOT (SELECT grant_id FROM op_run WHERE id = NEW.op_run_id);
END;

CREATE TRIGGER grant_use_spends AFTER INSERT ON grant_use
WHEN NEW.n >= (SELECT uses FROM grant WHERE id = NEW.grant_id)
BEGIN
    UPDATE grant SET state = 'spent', ended_at = NEW.at, end_reason = 'last use'
     WHERE id = NEW.grant_id AND state = 'active';
END;

CREATE TRIGGER grant_use_no_update BEFORE UPDATE ON grant_use
BEGIN
    SELECT RAISE(ABORT, 'grant.uses|a use is history');
END;

CREATE TRIGGER grant_use_no_delete BEFORE DELETE ON grant_use
BEGIN
    SELECT RAISE(ABORT, 'grant.uses|a use is history');
END;

-- What Hosts may do now.
CREATE VIEW live_grants AS
SELECT g.id, p.host_name AS host, g.op, g.args, g.uses,
       (SELECT coalesce(max(u.n), 0) FROM grant_use AS u WHERE u.grant_id = g.id) AS used,
       g.created_at, g.expires_at, f.label AS approver, g.approval_id
  FROM grant AS g
  JOIN pairing AS p ON p.id = g.pairing_id AND p.state = 'active'
  JOIN factor AS f ON f.id = g.factor_id AND f.state = 'active'
 WHERE g.state = 'active' AND g.expires_at > now_ms();
-- host.sql: the Host role: invitations, the boxes that took one, and what was asked of them.

CREATE TABLE invitation (
    id           INTEGER PRIMARY KEY,
    box_name     TEXT    NOT NULL CHECK (length(box_name) BETWEEN 1 AND 64
                         AND box_name NOT GLOB '*[^A-Za-z0-9.-]*' AND box_name NOT GLOB '-*'
                         AND instr(box_name, char(0)) = 0),
    token_digest BLOB    NOT NULL UNIQUE CHECK (length(token_digest) = 32),    -- never the token
    state        TEXT    NOT NULL DEFAULT 'open'
                 CHECK (state IN ('open', 'redeemed', 'expired', 'withdrawn')),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL CHECK (expires_at > created_at),
    ended_at     INTEGER,
    CHECK ((state = 'open') = (ended_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX invitation_open_once ON invitation (box_name) WHERE state = 'open';

CREATE TRIGGER invitation_born BEFORE INSERT ON invitation
BEGIN
    SELECT RAISE(ABORT, 'box.name|the name of a machine is letters, digits, dots and dashes, at most 64')
     WHERE length(NEW.box_name) NOT BETWEEN 1 AND 64 OR NEW.box_name GLOB '*[^A-Za-z0-9.-]*'
        OR NEW.box_name GLOB '-*';
    SELECT RAISE(ABORT, 'invitation.open|an invitation for this name is open already')
     WHERE EXISTS (SELECT 1 FROM invitation WHERE box_name = NEW.box_name AND state = 'open'
                      AND expires_at > now_ms());
    SELECT RAISE(ABORT, 'invitation.ttl|a pairing code cannot be open for that long')
     WHERE NEW.expires_at - NEW.created_at
         > (SELECT high FROM setting WHERE name = 'invitation.ttl_ms');
    SELECT RAISE(ABORT, 'invitation.transition|an invitation begins as open')
     WHERE NEW.state <> 'open';
    UPDATE invitation SET state = 'expired', ended_at = now_ms()
     WHERE box_name = NEW.box_name AND state = 'open' AND expires_at <= now_ms();
END;

CREATE TRIGGER invitation_moves BEFORE UPDATE ON invitation
BEGIN
    SELECT RAISE(ABORT, 'invitation.expired|this invitation ran out')
     WHERE NEW.state = 'redeemed'
       AND (OLD.state = 'expired' OR (OLD.state = 'open' AND OLD.expires_at <= now_ms()));
    SELECT RAISE(ABORT, 'invitation.used|this invitation was used or withdrawn')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'invitation' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'invitation.fixed|an invitation keeps its name, token and end')
     WHERE NEW.box_name IS NOT OLD.box_name OR NEW.token_digest IS NOT OLD.token_digest
        OR NEW.created_at IS NOT OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at;
END;

CREATE TRIGGER invitation_stays BEFORE DELETE ON invitation
BEGIN
    SELECT RAISE(ABORT, 'invitation.kept|an invitation is withdrawn, not deleted');
END;

CREATE TRIGGER invitation_audit_birth AFTER INSERT ON invitation
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'invitation', NEW.id, NEW.state, '',
            json_object('box', NEW.box_name, 'expires_at', NEW.expires_at));
END;

CREATE TRIGGER invitation_audit_move AFTER UPDATE OF state ON invitation WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'invitation', NEW.id, NEW.state, '', json_object('box', NEW.box_name));
END;

-- A box that this Host may ask.
CREATE TABLE host_box (
    id            INTEGER PRIMARY KEY,
    name          TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    box_key       BLOB    NOT NULL CHECK (length(box_key) = 32),
    lane          TEXT    NOT NULL CHECK (lane GLOB '/*' AND length(CAST(lane AS BLOB)) <= 103
                          AND instr(lane, char(0)) = 0),
    peer_uid      INTEGER NOT NULL CHECK (peer_uid >= 0),
    invitation_id INTEGER NOT NULL UNIQUE REFERENCES invitation (id),
    welcome       TEXT    CHECK (length(welcome) = 88),        -- this Host's signature of the enrollment
    state         TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'gone')),
    paired_at     INTEGER NOT NULL,
    heard_at      INTEGER,                                     -- last answer
    gone_at       INTEGER,
    CHECK ((state = 'gone') = (gone_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX host_box_by_name ON host_box (name) WHERE state = 'active';

-- An invitation is the word of a person at this Host, so the box that redeems it takes the place of
-- an older box of that name, whatever its key. Nothing else makes a box, and none comes in twice.
CREATE TRIGGER host_box_born BEFORE INSERT ON host_box
BEGIN
    SELECT RAISE(ABORT, 'box.uninvited|a box comes in on an invitation of its own that it has redeemed')
     WHERE (SELECT state FROM invitation WHERE id = NEW.invitation_id) IS NOT 'redeemed'
        OR EXISTS (SELECT 1 FROM host_box WHERE invitation_id = NEW.invitation_id);
    SELECT RAISE(ABORT, 'invitation.name|the invitation is for a machine of another name')
     WHERE (SELECT box_name FROM invitation WHERE id = NEW.invitation_id) IS NOT NEW.name;
    SELECT RAISE(ABORT, 'box.lane|a lane is the absolute path of a socket, at most 103 bytes long')
     WHERE NEW.lane NOT GLOB '/*' OR length(CAST(NEW.lane AS BLOB)) > 103
        OR instr(NEW.lane, char(0)) > 0;
    SELECT RAISE(ABORT, 'box.transition|a box begins as active') WHERE NEW.state <> 'active';
    UPDATE host_box SET state = 'gone', gone_at = NEW.paired_at
     WHERE name = NEW.name AND state = 'active';
END;

-- Nobody carries an ask to a box that is gone; one that was under way may have been heard.
CREATE TRIGGER host_box_gone AFTER UPDATE OF state ON host_box
WHEN NEW.state = 'gone' AND OLD.state = 'active'
BEGIN
    UPDATE call SET state = 'failed', finished_at = NEW.gone_at, code = 'box.gone',
                    why = 'the box is no longer paired with this Host'
     WHERE box_id = NEW.id AND state = 'asked';
    UPDATE call SET state = 'lost', finished_at = NEW.gone_at, code = 'call.lost',
                    why = 'the box was paired anew while the ask was open'
     WHERE box_id = NEW.id AND state = 'sent';
END;

CREATE TRIGGER host_box_stays BEFORE DELETE ON host_box
BEGIN
    SELECT RAISE(ABORT, 'box.kept|a box is history');
END;

CREATE TRIGGER host_box_moves BEFORE UPDATE ON host_box
BEGIN
    SELECT RAISE(ABORT, 'box.final|a box that is gone is history')
     WHERE OLD.state = 'gone' AND NEW.state IS OLD.state;
    SELECT RAISE(ABORT, 'box.transition|a box that is gone is invited again')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'host_box' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'box.identity|a box keeps its name, key and invitation')
     WHERE NEW.name IS NOT OLD.name OR NEW.box_key IS NOT OLD.box_key
        OR NEW.invitation_id IS NOT OLD.invitation_id;
END;

CREATE TRIGGER host_box_audit AFTER INSERT ON host_box
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_box', NEW.id, NEW.state, '',
            json_object('box', NEW.name, 'key', lower(hex(NEW.box_key)), 'lane', NEW.lane));
END;

CREATE TRIGGER host_box_audit_move AFTER UPDATE OF state ON host_box WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'host_box', NEW.id, NEW.state, '', json_object('box', NEW.name));
END;

-- One ask of one box: written by whoever asks, carried by link, answered in frames.
CREATE TABLE call (
    id          INTEGER PRIMARY KEY,
    box_id      INTEGER NOT NULL REFERENCES host_box (id),
    op          TEXT    NOT NULL CHECK (length(op) BETWEEN 1 AND 64),
    args        TEXT    NOT NULL CHECK (json_valid(args) AND json_type(args) = 'array'
                        AND length(args) <= 16384),
    uses        INTEGER CHECK (uses >= 1),                     -- of the grant to ask for; NULL: the box's default
    ttl_ms      INTEGER CHECK (ttl_ms >= 1000),
    anew        INTEGER NOT NULL DEFAULT 0 CHECK (anew IN (0, 1)),     -- ask a person even where a grant is held
    nonce       TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    state       TEXT    NOT NULL DEFAULT 'asked'
                CHECK (state IN ('asked', 'sent', 'done', 'refused', 'failed', 'lost')),
    asked_at    INTEGER NOT NULL,
    sent_at     INTEGER,
    finished_at INTEGER,
    exit_code   INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    code        TEXT    CHECK (length(code) <= 64),            -- the box's refusal
    why         TEXT    CHECK (length(why) <= 512),
    advice      TEXT    CHECK (length(advice) <= 512),
    approval    INTEGER,                                       -- the question's number on the box
    retry_at    INTEGER,
    last_seq    INTEGER NOT NULL DEFAULT 0,
    CHECK ((state IN ('asked', 'sent')) = (finished_at IS NULL)),
    CHECK (state <> 'done' OR exit_code IS NOT NULL),
    CHECK (state <> 'refused' OR code IS NOT NULL)
) STRICT;

CREATE INDEX call_live ON call (state, id) WHERE state IN ('asked', 'sent');

CREATE TRIGGER call_is_allowed BEFORE INSERT ON call
BEGIN
    SELECT RAISE(ABORT, 'call.transition|an ask begins as asked') WHERE NEW.state <> 'asked';
    SELECT RAISE(ABORT, 'box.gone|no box of this name is paired with this Host')
     WHERE (SELECT state FROM host_box WHERE id = NEW.box_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'call.busy|too many asks wait for an answer')
     WHERE (SELECT count(*) FROM call WHERE state IN ('asked', 'sent'))
        >= (SELECT value FROM setting WHERE name = 'call.live');
    SELECT RAISE(ABORT, 'call.offline|the Host is not serving, so nobody would carry this ask')
     WHERE NOT EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');
END;

CREATE TRIGGER call_moves BEFORE UPDATE ON call
BEGIN
    SELECT RAISE(ABORT, 'call.transition|an ask cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'call' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'call.final|an answered ask is history')
     WHERE NEW.state IS OLD.state AND OLD.finished_at IS NOT NULL;
END;

CREATE TRIGGER call_audit_birth AFTER INSERT ON call
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'call', NEW.id, NEW.state, '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'op', NEW.op,
                        'args', json(NEW.args)));
END;

CREATE TRIGGER call_audit_move AFTER UPDATE OF state ON call
WHEN NEW.state IS NOT OLD.state AND NEW.finished_at IS NOT NULL
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'call', NEW.id, NEW.state, '',
            json_object('exit', NEW.exit_code, 'code', NEW.code, 'frames', NEW.last_seq));
END;

CREATE TABLE call_output (
    call_id INTEGER NOT NULL REFERENCES call (id),
    seq     INTEGER NOT NULL CHECK (seq >= 1),
    frame   TEXT    NOT NULL CHECK (json_valid(frame)),
    PRIMARY KEY (call_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER call_output_in_order BEFORE INSERT ON call_output
BEGIN
    SELECT RAISE(ABORT, 'call.seq|frames come in order, while the ask is open')
     WHERE (SELECT state FROM call WHERE id = NEW.call_id) IS NOT 'sent'
        OR NEW.seq IS NOT (SELECT last_seq + 1 FROM call WHERE id = NEW.call_id);
END;

CREATE TRIGGER call_output_counts AFTER INSERT ON call_output
BEGIN
    UPDATE call SET last_seq = NEW.seq WHERE id = NEW.call_id;
END;

CREATE VIEW boxes AS
SELECT b.id, b.name, b.state, b.paired_at, b.heard_at, b.lane,
       (SELECT count(*) FROM call AS c WHERE c.box_id = b.id) AS asks
  FROM host_box AS b;
-- op.sql: what can be asked for, each time it ran, and what it answered.

CREATE TABLE op (
    name    TEXT PRIMARY KEY CHECK (name GLOB '[a-z]*:[a-z]*'),
    class   TEXT NOT NULL CHECK (class IN ('observe')),
    usage   TEXT NOT NULL,
    summary TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The row that authorises a run. It exists, durably, before anything starts.
CREATE TABLE op_run (
    id          INTEGER PRIMARY KEY,
    pairing_id  INTEGER NOT NULL REFERENCES pairing (id),
    op          TEXT    NOT NULL REFERENCES op (name),
    args        TEXT    NOT NULL CHECK (json_valid(args) AND json_type(args) = 'array'
                        AND length(args) <= 16384),
    nonce       TEXT    NOT NULL CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    grant_id    INTEGER REFERENCES grant (id),
    state       TEXT    NOT NULL DEFAULT 'queued'
                CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'lost')),
    queued_at   INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER,
    exit_code   INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    last_seq    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (pairing_id, nonce),
    CHECK (state <> 'done' OR exit_code = 0),
    CHECK (state <> 'failed' OR exit_code > 0),
    CHECK (state NOT IN ('running', 'done', 'failed') OR started_at IS NOT NULL),
    CHECK ((state IN ('queued', 'running')) = (finished_at IS NULL))
) STRICT;

CREATE INDEX op_run_live ON op_run (id) WHERE finished_at IS NULL;

CREATE TRIGGER op_run_is_allowed BEFORE INSERT ON op_run
BEGIN
    SELECT CASE
           WHEN (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
           THEN RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
           WHEN NOT EXISTS (SELECT 1 FROM op WHERE name = NEW.op)
           THEN RAISE(ABORT, 'op.unknown|there is no op of this name')
           WHEN EXISTS (SELECT 1 FROM op_run WHERE pairing_id = NEW.pairing_id AND nonce = NEW.nonce)
           THEN RAISE(ABORT, 'op.replayed|this ask was made before')
           WHEN NEW.state <> 'queued'
           THEN RAISE(ABORT, 'op.transition|a run begins as queued')
           WHEN (SELECT count(*) FROM op_run WHERE finished_at IS NULL)
             >= (SELECT value FROM setting WHERE name = 'op.live')
           THEN RAISE(ABORT, 'op.busy|too many runs wait or run already')
           WHEN NEW.op = 'observe:folders'
            AND (SELECT count(*) FROM folder_walk WHERE state = 'stuck')
             >= (SELECT value FROM setting WHERE name = 'folders.stuck')
           THEN RAISE(ABORT, 'observe.stuck|earlier walks still wait for a file system that does not answer')
           WHEN NEW.grant_id IS NULL AND EXISTS (SELECT 1 FROM grant
                 WHERE pairing_id = NEW.pairing_id AND op = NEW.op AND args <> NEW.args
                   AND state = 'active' AND expires_at > now_ms())
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN NEW.grant_id IS NULL
           THEN RAISE(ABORT, 'approval.needed|a person has to approve this first')
           END;
    -- The grant is read once: deciding is what the database does most.
    SELECT CASE
           WHEN g.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.gone|the grant was taken back or is used up')
           WHEN g.pairing_id <> NEW.pairing_id OR g.op <> NEW.op
           THEN RAISE(ABORT, 'grant.other|the grant is for another Host or op')
           WHEN g.args <> NEW.args
           THEN RAISE(ABORT, 'grant.args|a grant for this op is held, but not with these arguments')
           WHEN g.expires_at <= now_ms()
           THEN RAISE(ABORT, 'grant.expired|the grant ran out')
           WHEN f.state IS NOT 'active'
           THEN RAISE(ABORT, 'grant.approver|whoever approved this grant is no longer trusted here')
           WHEN seal_ok('grant', g.seal_text, g.seal) IS NOT 1
           THEN RAISE(ABORT, 'grant.seal|the record of this grant was changed by another tool')
           END
      FROM (SELECT NEW.grant_id AS id) AS asked
      LEFT JOIN grant AS g ON g.id = asked.id
      LEFT JOIN factor AS f ON f.id = g.factor_id;
END;

CREATE TRIGGER op_run_spends AFTER INSERT ON op_run
BEGIN
    INSERT INTO grant_use (grant_id, n, op_run_id, at)
    SELECT NEW.grant_id, coalesce(max(n), 0) + 1, NEW.id, NEW.queued_at
      FROM grant_use WHERE grant_id = NEW.grant_id;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'args', json(NEW.args), 'grant', NEW.grant_id));
END;

CREATE TRIGGER op_run_moves BEFORE UPDATE ON op_run
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a run cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'op_run' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'op.final|a finished run is history')
     WHERE NEW.state IS OLD.state AND OLD.finished_at IS NOT NULL;
    SELECT RAISE(ABORT, 'op.fixed|a run keeps what it was authorised for')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id OR NEW.op IS NOT OLD.op
        OR NEW.args IS NOT OLD.args OR NEW.nonce IS NOT OLD.nonce OR NEW.grant_id IS NOT OLD.grant_id;
    SELECT RAISE(ABORT, 'op.seq|output only grows') WHERE NEW.last_seq < OLD.last_seq;
END;

CREATE TRIGGER op_run_stays BEFORE DELETE ON op_run
BEGIN
    SELECT RAISE(ABORT, 'op.final|a run is history');
END;

CREATE TRIGGER op_run_audit_move AFTER UPDATE OF state ON op_run WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'op_run', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('op', NEW.op, 'exit', NEW.exit_code, 'frames', NEW.last_seq));
END;

-- The answer, one frame a row: {"o":…} or {"r":…}; who watches sees a frame only after its commit.
CREATE TABLE op_output (
    op_run_id INTEGER NOT NULL REFERENCES op_run (id),
    seq       INTEGER NOT NULL CHECK (seq >= 1),
    frame     TEXT    NOT NULL CHECK (json_valid(frame) AND json_type(frame) = 'object'),
    PRIMARY KEY (op_run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER op_output_in_order BEFORE INSERT ON op_output
BEGIN
    SELECT RAISE(ABORT, 'op.output|only a running op answers')
     WHERE (SELECT state FROM op_run WHERE id = NEW.op_run_id) IS NOT 'running';
    SELECT RAISE(ABORT, 'op.seq|frames come in order, without a gap')
     WHERE NEW.seq IS NOT (SELECT last_seq + 1 FROM op_run WHERE id = NEW.op_run_id);
    SELECT RAISE(ABORT, 'op.output|a frame is longer than the setting op.frame allows')
     WHERE length(CAST(NEW.frame AS BLOB)) > (SELECT value FROM setting WHERE name = 'op.frame');
END;

CREATE TRIGGER op_output_counts AFTER INSERT ON op_output
BEGIN
    UPDATE op_run SET last_seq = NEW.seq WHERE id = NEW.op_run_id;
END;

CREATE TRIGGER op_output_no_update BEFORE UPDATE ON op_output
BEGIN
    SELECT RAISE(ABORT, 'op.output|an answer never changes');
END;

-- A walk over folders. One that a dead file system holds stays as stuck; four of those close the door.
CREATE TABLE folder_walk (
    op_run_id INTEGER PRIMARY KEY REFERENCES op_run (id),
    state     TEXT NOT NULL DEFAULT 'reading' CHECK (state IN ('reading', 'stuck', 'done'))
) STRICT;

CREATE TRIGGER folder_walk_capped BEFORE INSERT ON folder_walk
WHEN (SELECT count(*) FROM folder_walk WHERE state = 'stuck')
  >= (SELECT value FROM setting WHERE name = 'folders.stuck')
BEGIN
    SELECT RAISE(ABORT, 'observe.stuck|earlier walks still wait for a file system that does not answer');
END;

CREATE TRIGGER folder_walk_born BEFORE INSERT ON folder_walk WHEN NEW.state <> 'reading'
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a walk begins as reading');
END;

CREATE TRIGGER folder_walk_moves BEFORE UPDATE ON folder_walk
WHEN NOT EXISTS (SELECT 1 FROM state_rule
     WHERE entity = 'folder_walk' AND from_state = OLD.state AND to_state = NEW.state)
BEGIN
    SELECT RAISE(ABORT, 'op.transition|a walk cannot make this move');
END;

-- What runs or waits to.
CREATE VIEW live_runs AS
SELECT r.id, p.host_name AS host, r.op, r.args, r.state, r.queued_at, r.started_at, r.grant_id
  FROM op_run AS r JOIN pairing AS p ON p.id = r.pairing_id
 WHERE r.finished_at IS NULL;

-- What ran, and on whose word.
CREATE VIEW run_history AS
SELECT r.id, p.host_name AS host, r.op, r.args, r.state, r.exit_code, r.queued_at, r.finished_at,
       r.grant_id, a.decided_by AS approved_by, f.label AS approved_with
  FROM op_run AS r
  JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN grant AS g ON g.id = r.grant_id
  LEFT JOIN approval AS a ON a.id = g.approval_id
  LEFT JOIN factor AS f ON f.id = g.factor_id;
-- process.sql: who runs: process identities, the daemon's instances, its actors, leases.

-- A process for good: a pid is reused, (boot, pid, start time) is not.
CREATE TABLE process (
    id          INTEGER PRIMARY KEY,
    boot_id     TEXT    NOT NULL CHECK (length(boot_id) = 36),
    pid         INTEGER NOT NULL CHECK (pid >= 1),
    start_ticks INTEGER NOT NULL CHECK (start_ticks >= 0),     -- /proc/PID/stat field 22
    uid         INTEGER NOT NULL CHECK (uid >= 0),
    program     TEXT    NOT NULL CHECK (length(program) <= 64),
    seen_at     INTEGER NOT NULL,
    UNIQUE (boot_id, pid, start_ticks)
) STRICT;

CREATE TRIGGER process_never_changes BEFORE UPDATE ON process
BEGIN
    SELECT RAISE(ABORT, 'process.fixed|a process identity never changes');
END;

-- One run of the daemon: the lock record and the status document at once.
CREATE TABLE instance (
    id          INTEGER PRIMARY KEY,
    epoch       INTEGER NOT NULL UNIQUE CHECK (epoch >= 1),    -- grows with every start
    role        TEXT    NOT NULL CHECK (role IN ('box', 'host')),
    process_id  INTEGER NOT NULL REFERENCES process (id),
    state       TEXT    NOT NULL DEFAULT 'starting'
                CHECK (state IN ('starting', 'ready', 'draining', 'ended', 'lost')),
    version     TEXT    NOT NULL,
    run_dir     TEXT    NOT NULL CHECK (length(CAST(run_dir AS BLOB)) BETWEEN 1 AND 90),
    started_at  INTEGER NOT NULL,
    ready_at    INTEGER,
    draining_at INTEGER,
    ended_at    INTEGER,
    end_reason  TEXT CHECK (end_reason IS NULL OR length(end_reason) <= 128),
    CHECK (state <> 'ready' OR ready_at IS NOT NULL),
    CHECK ((state IN ('ended', 'lost')) = (ended_at IS NOT NULL)),
    CHECK ((ended_at IS NULL) = (end_reason IS NULL))
) STRICT;

CREATE UNIQUE INDEX instance_one_live ON instance (1) WHERE state IN ('starting', 'ready', 'draining');

CREATE TRIGGER instance_born BEFORE INSERT ON instance
BEGIN
    SELECT RAISE(ABORT, 'instance.running|another instance is already running')
     WHERE EXISTS (SELECT 1 FROM instance WHERE state IN ('starting', 'ready', 'draining'));
    SELECT RAISE(ABORT, 'instance.transition|an instance begins as starting')
     WHERE NEW.state <> 'starting';
    SELECT RAISE(ABORT, 'instance.epoch|the epoch grows with every start')
     WHERE NEW.epoch <= (SELECT coalesce(max(epoch), 0) FROM instance);
END;

CREATE TRIGGER instance_moves BEFORE UPDATE ON instance
BEGIN
    SELECT RAISE(ABORT, 'instance.transition|an instance cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'instance' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'instance.final|an ended instance is history')
     WHERE NEW.state IS OLD.state AND OLD.state IN ('ended', 'lost');
END;

-- Whatever an ended instance left open is closed with it: in flight reads as lost, never as done.
CREATE TRIGGER instance_closes AFTER UPDATE OF state ON instance
WHEN NEW.state IN ('ended', 'lost') AND OLD.state NOT IN ('ended', 'lost')
BEGIN
    UPDATE actor_run SET state = 'lost', ended_at = NEW.ended_at
     WHERE instance_id = NEW.id AND state IN ('starting', 'running');
    UPDATE op_run SET state = 'lost', finished_at = NEW.ended_at
     WHERE finished_at IS NULL;
    UPDATE folder_walk SET state = 'done' WHERE state IN ('reading', 'stuck');
    UPDATE call SET state = 'lost', finished_at = NEW.ended_at WHERE state IN ('asked', 'sent');
    UPDATE lease SET process_id = NULL, expires_at = NULL
     WHERE process_id IN (SELECT process_id FROM actor_run WHERE instance_id = NEW.id
                          UNION SELECT NEW.process_id);
END;

CREATE TRIGGER instance_audit_birth AFTER INSERT ON instance
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'instance', NEW.id, NEW.state, '',
            json_object('epoch', NEW.epoch, 'role', NEW.role, 'version', NEW.version));
END;

CREATE TRIGGER instance_audit_move AFTER UPDATE OF state ON instance WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'instance', NEW.id, NEW.state, '',
            json_object('from', OLD.state, 'reason', NEW.end_reason));
END;

-- One run of one actor's process.
CREATE TABLE actor_run (
    id          INTEGER PRIMARY KEY,
    instance_id INTEGER NOT NULL REFERENCES instance (id),
    actor       TEXT    NOT NULL
                CHECK (actor IN ('net', 'link', 'egress', 'tunnel', 'worker', 'keeper')),
    attempt     INTEGER NOT NULL CHECK (attempt >= 1),
    process_id  INTEGER REFERENCES process (id),
    state       TEXT    NOT NULL DEFAULT 'starting'
                CHECK (state IN ('starting', 'running', 'ended', 'failed', 'lost')),
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    exit_code   INTEGER CHECK (exit_code BETWEEN 0 AND 255),
    term_signal INTEGER CHECK (term_signal BETWEEN 1 AND 64),
    not_before  INTEGER,                                       -- after a crash: when the next may start
    UNIQUE (instance_id, actor, attempt),
    CHECK (state <> 'running' OR process_id IS NOT NULL),
    CHECK ((state IN ('ended', 'failed', 'lost')) = (ended_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX actor_run_one_live ON actor_run (instance_id, actor)
 WHERE state IN ('starting', 'running');

CREATE TRIGGER actor_run_needs_instance BEFORE INSERT ON actor_run
BEGIN
    SELECT RAISE(ABORT, 'actor.instance|an actor runs only under a live instance')
     WHERE (SELECT state FROM instance WHERE id = NEW.instance_id) IS NOT 'starting'
       AND (SELECT state FROM instance WHERE id = NEW.instance_id) IS NOT 'ready';
    SELECT RAISE(ABORT, 'actor.transition|an actor begins as starting') WHERE NEW.state <> 'starting';
END;

CREATE TRIGGER actor_run_moves BEFORE UPDATE ON actor_run
BEGIN
    SELECT RAISE(ABORT, 'actor.transition|an actor cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'actor_run' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'actor.final|an ended actor run is history')
     WHERE NEW.state IS OLD.state AND OLD.state IN ('ended', 'failed', 'lost');
END;

CREATE TRIGGER actor_run_audit AFTER UPDATE OF state ON actor_run WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'actor', NEW.id, NEW.state, '',
            json_object('actor', NEW.actor, 'attempt', NEW.attempt, 'exit', NEW.exit_code,
                        'signal', NEW.term_signal));
END;

-- A worker that died may have left runs open: they are lost with it, and a new one starts clean.
CREATE TRIGGER actor_run_closes AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'worker' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE op_run SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'running';
    UPDATE folder_walk SET state = 'done' WHERE state IN ('reading', 'stuck');
END;

CREATE TRIGGER actor_run_closes_calls AFTER UPDATE OF state ON actor_run
WHEN NEW.actor = 'link' AND NEW.state IN ('ended', 'failed', 'lost')
 AND OLD.state IN ('starting', 'running')
BEGIN
    UPDATE call SET state = 'lost', finished_at = NEW.ended_at WHERE state = 'sent';
END;

-- A lease: a named lock with fencing. Holding one is a row, and so is having lost it.
CREATE TABLE lease (
    name       TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 128 AND instr(name, char(0)) = 0),
    process_id INTEGER REFERENCES process (id),                -- NULL: free
    fence      INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0),  -- grows at each grant, never otherwise
    expires_at INTEGER,                                        -- ms UTC
    CHECK ((process_id IS NULL) = (expires_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER lease_fence_grows BEFORE UPDATE ON lease
BEGIN
    SELECT RAISE(ABORT, 'lease.fence|a new holder needs a higher fence')
     WHERE NEW.process_id IS NOT NULL AND NEW.process_id IS NOT OLD.process_id
       AND NEW.fence <= OLD.fence;
    SELECT RAISE(ABORT, 'lease.fence|a fence never falls') WHERE NEW.fence < OLD.fence;
    SELECT RAISE(ABORT, 'lease.held|a live holder keeps its lease until it runs out')
     WHERE OLD.process_id IS NOT NULL AND NEW.process_id IS NOT NULL
       AND NEW.process_id IS NOT OLD.process_id AND OLD.expires_at > now_ms()
       AND (SELECT process_alive(boot_id, pid, start_ticks) FROM process
             WHERE id = OLD.process_id);
END;

CREATE TRIGGER lease_stays BEFORE DELETE ON lease
BEGIN
    SELECT RAISE(ABORT, 'lease.kept|a lease is freed, not deleted: its fence must live on');
END;

CREATE VIEW live_instance AS
SELECT i.id, i.epoch, i.role, i.state, p.pid, i.version, i.run_dir, i.started_at, i.ready_at
  FROM instance AS i JOIN process AS p ON p.id = i.process_id
 WHERE i.state IN ('starting', 'ready', 'draining');
-- rows_op.sql: the op catalog; engine/worker/observe.c has a handler for each, and a test compares.
INSERT INTO op (name, class, usage, summary) VALUES
    ('observe:folders', 'observe', 'PATH [DEPTH 1..3]', 'the largest folders below a path, as du -x counts'),
    ('observe:journal', 'observe', 'UNIT [MINUTES 1..60]', 'what a systemd unit logged lately'),
    ('observe:logins', 'observe', '[HOURS 1..168]', 'failed and accepted SSH logins'),
    ('observe:cert', 'observe', 'PORT [SERVER NAME]', 'the certificate that a local TLS listener presents');
INSERT INTO audit_sink (name, sent) VALUES ('system-log', 0);
-- rows_refusal.sql: every code that a caller may be shown. exit 75 try later, 77 a person is needed,
-- 126 a rule holds it, 2 the call is wrong, 3 the set-up is wrong, 1 the machine failed.
INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('actor.final', 1, 500, 'this is a fault in bastion: please report it'),
    ('actor.instance', 1, 500, 'the daemon is stopping; start it again'),
    ('actor.start', 1, 500, 'see the daemon''s messages for the reason'),
    ('actor.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('approval.busy', 75, 429, 'have a person answer what waits: bastion approvals'),
    ('approval.decided', 126, 409, 'see bastion approvals --all for what was decided'),
    ('approval.expired', 126, 410, 'have the Host ask again'),
    ('approval.factor', 126, 403, 'enrol a factor: bastion factor add totp'),
    ('approval.kept', 126, 409, 'an approval is answered, never deleted'),
    ('approval.needed', 77, 403, 'have a person at the machine run: bastion approvals'),
    ('approval.person', 1, 503, 'the user directory does not answer; try again when it does'),
    ('approval.terms', 126, 409, 'read the question again and answer that'),
    ('approval.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('approval.ttl', 126, 422, 'ask for a shorter time'),
    ('approval.unknown', 2, 404, 'see bastion approvals for the numbers that wait'),
    ('approval.uses', 126, 422, 'ask for fewer uses'),
    ('audit.append_only', 126, 409, 'the audit is read with bastion audit, never changed'),
    ('audit.chain', 1, 500, 'check with bastion audit verify'),
    ('audit.sink', 1, 500, 'only the keeper moves the copies of the audit forward'),
    ('audit.seal', 1, 500, 'check with bastion audit verify'),
    ('box.exists', 3, 409, 'nothing to do; to start over, move the state away yourself first'),
    ('box.final', 126, 409, 'invite it again: bastion host invite NAME'),
    ('box.gone', 2, 404, 'see bastion host boxes, or invite it: bastion host invite NAME'),
    ('box.identity', 126, 409, 'a machine with another name or key is another machine: invite it anew'),
    ('box.kept', 126, 409, 'a box that is gone stays in the list'),
    ('box.lane', 2, 422, 'set BASTION_RUN to a shorter absolute path'),
    ('box.missing', 3, 409, 'start bastion serve once (a Host: bastion host init), which sets this machine up'),
    ('box.name', 2, 422, 'give a plain machine name'),
    ('box.transition', 126, 409, 'invite it again: bastion host invite NAME'),
    ('box.uninvited', 126, 403, 'have the Host invite again: bastion host invite NAME'),
    ('call.busy', 75, 429, 'wait for open asks to be answered'),
    ('call.failed', 1, 502, 'check that bastion serve runs on the box'),
    ('call.final', 1, 500, 'this is a fault in bastion: please report it'),
    ('call.lost', 1, 502, 'the Host stopped while the ask was open; look at the box before asking again'),
    ('call.offline', 1, 503, 'start it: bastion host serve'),
    ('call.seq', 1, 500, 'this is a fault in bastion: please report it'),
    ('call.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('call.waiting', 75, 504, 'see bastion sql --host ''SELECT * FROM call'' for how it ended'),
    ('code.invalid', 2, 422, 'copy the whole code, from bst_ to its end'),
    ('factor.code', 126, 403, 'type the six digits that the authenticator shows now'),
    ('factor.final', 126, 409, 'enrol a new factor'),
    ('factor.fixed', 126, 409, 'drop the factor and enrol a new one'),
    ('factor.kept', 126, 409, 'use bastion factor drop'),
    ('factor.key', 2, 422, 'give the .pub file of an ssh-ed25519 or sk-ssh-ed25519 key: ssh-keygen -t ed25519'),
    ('factor.label', 2, 422, 'give another label'),
    ('factor.none', 126, 403, 'enrol one: bastion factor add totp'),
    ('factor.seal', 3, 500, 'drop the factor and enrol a new one; the key or the database is not what it was'),
    ('factor.signature', 126, 403, 'sign the shown bytes with ssh-keygen -Y sign -n bastion and an enrolled key'),
    ('factor.throttled', 75, 429, 'wait, then try again'),
    ('factor.transition', 126, 409, 'enrol a new factor'),
    ('factor.unknown', 2, 404, 'see bastion factor for the numbers'),
    ('factor.used', 126, 403, 'wait for the next code'),
    ('grant.approval', 126, 403, 'have a person approve it first'),
    ('grant.approver', 126, 403, 'ask again, so that a trusted person approves'),
    ('grant.args', 126, 403, 'ask within the grant, or with --anew to put new terms before a person'),
    ('grant.expired', 126, 403, 'ask again, so that a person approves anew'),
    ('grant.final', 126, 409, 'ask again, so that a person approves anew'),
    ('grant.fixed', 126, 409, 'drop the grant and ask again'),
    ('grant.gone', 126, 403, 'ask again, so that a person approves anew'),
    ('grant.kept', 126, 409, 'use bastion grants drop'),
    ('grant.other', 126, 403, 'ask again, so that a person approves anew'),
    ('grant.seal', 126, 403, 'drop the grant, find out who edited the database, and have it approved anew'),
    ('grant.spent', 126, 403, 'ask again, so that a person approves anew'),
    ('grant.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('grant.unknown', 2, 404, 'see bastion grants for the numbers'),
    ('grant.uses', 126, 409, 'uses are history'),
    ('http.aborted', 1, 502, 'see the message; try again'),
    ('http.busy', 75, 503, 'close idle connections, then try again'),
    ('http.headers', 2, 431, 'send fewer and shorter header fields'),
    ('http.internal', 1, 500, 'this is a fault in bastion: please report it'),
    ('http.memory', 1, 503, 'free some memory, then try again'),
    ('http.method', 2, 405, 'see GET /v1/openapi.json for what is served'),
    ('http.protocol', 1, 502, 'check that a bastion answers at that address'),
    ('http.route', 2, 404, 'see GET /v1/openapi.json for what is served'),
    ('http.timeout', 75, 504, 'check that the other side runs, then try again'),
    ('http.too_large', 2, 413, 'send less'),
    ('http.unreachable', 1, 502, 'check that the other side runs, then try again'),
    ('instance.epoch', 1, 500, 'this is a fault in bastion: please report it'),
    ('instance.final', 1, 500, 'this is a fault in bastion: please report it'),
    ('instance.running', 1, 409, 'stop the other daemon, or give this one a state of its own'),
    ('instance.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('invitation.expired', 126, 410, 'have the Host invite again: bastion host invite NAME'),
    ('invitation.fixed', 126, 409, 'withdraw it and invite again'),
    ('invitation.kept', 126, 409, 'use bastion host withdraw'),
    ('invitation.name', 126, 403, 'have the Host invite this machine by its name'),
    ('invitation.open', 2, 409, 'use the code that is open, or withdraw it: bastion host withdraw NAME'),
    ('invitation.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('invitation.ttl', 2, 422, 'give a shorter --for'),
    ('invitation.unknown', 126, 403, 'have the Host invite again: bastion host invite NAME'),
    ('invitation.used', 126, 409, 'have the Host invite again: bastion host invite NAME'),
    ('json.depth', 2, 400, 'nest less deeply'),
    ('json.duplicate', 2, 400, 'name each member once'),
    ('json.invalid', 2, 400, 'send one JSON value (RFC 8259) in UTF-8'),
    ('key.create', 3, 500, 'check the space, mode and file system of the state directory'),
    ('key.damaged', 3, 503, 'restore bastion.key from its backup'),
    ('key.exists', 3, 409, 'use the key that is there; to start anew, move it away yourself first'),
    ('key.missing', 3, 503, 'put bastion.key back beside the database: a new one would be another machine'),
    ('key.open', 3, 503, 'make bastion.key a plain file of the daemon''s user, mode 0600, with one name'),
    ('key.other', 3, 503, 'put the key back that this database was born with'),
    ('key.unreadable', 1, 503, 'mend what the system reports, then start again'),
    ('kill.alive', 1, 500, 'the process is held by the kernel; see what it waits for'),
    ('kill.pid', 2, 422, 'name a process of ours'),
    ('lane.host', 126, 403, 'pair first: bastion pair CODE'),
    ('lane.peer', 126, 403, 'serve the Host as the user that it paired as'),
    ('lane.signature', 126, 403, 'sign the ask with the key that was paired'),
    ('lane.time', 126, 403, 'set the clocks of Host and machine right'),
    ('lease.fence', 126, 409, 'take the lease again'),
    ('lease.held', 75, 409, 'wait for its holder, or for the lease to run out'),
    ('lease.kept', 126, 409, 'free the lease instead'),
    ('library.missing', 3, 500, 'install the Debian package that the message names'),
    ('observe.answer', 1, 500, 'ask for less, or raise the setting op.frame'),
    ('observe.args', 2, 422, 'see bastion ops for how it is asked'),
    ('observe.depth', 2, 422, 'ask for 1 to 3 levels'),
    ('observe.folder', 2, 422, 'name a folder that is there'),
    ('observe.handshake', 1, 502, 'check that the listener speaks TLS'),
    ('observe.hours', 2, 422, 'ask for 1 to 168 hours'),
    ('observe.minutes', 2, 422, 'ask for 1 to 60 minutes'),
    ('observe.name', 2, 422, 'give a plain server name'),
    ('observe.path', 2, 422, 'give an absolute path without .., outside /proc, /sys and /dev'),
    ('observe.port', 2, 422, 'name a port from 1 to 65535'),
    ('observe.port_closed', 2, 404, 'see what listens: ss -ltn'),
    ('observe.stuck', 75, 429, 'wait until the file system answers, or unmount it'),
    ('observe.tool', 3, 501, 'install the program that the message names'),
    ('observe.unit', 2, 422, 'give the name of a systemd unit of this machine'),
    ('observe.unit_unknown', 2, 404, 'pick one of the near names'),
    ('op.args', 2, 422, 'see bastion ops for how it is asked'),
    ('op.busy', 75, 429, 'wait for earlier runs to end'),
    ('op.cancelled', 1, 409, 'ask again'),
    ('op.final', 1, 500, 'this is a fault in bastion: please report it'),
    ('op.fixed', 1, 500, 'this is a fault in bastion: please report it'),
    ('op.lost', 1, 500, 'the daemon stopped under it; look before asking again'),
    ('op.output', 1, 500, 'this is a fault in bastion: please report it'),
    ('op.replayed', 126, 409, 'make each ask with a nonce of its own'),
    ('op.seq', 1, 500, 'this is a fault in bastion: please report it'),
    ('op.start', 1, 500, 'see the reason; then ask again'),
    ('op.time', 1, 504, 'ask for less, or raise the setting op.time_ms'),
    ('op.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('op.unknown', 2, 404, 'see bastion ops for what can be asked'),
    ('pairing.exists', 3, 409, 'nothing to do; to start over: bastion unpair HOST first'),
    ('pairing.fixed', 126, 409, 'bastion unpair HOST, then pair anew'),
    ('pairing.inactive', 126, 403, 'pair anew: bastion pair CODE'),
    ('pairing.kept', 126, 409, 'use bastion unpair'),
    ('pairing.key', 126, 409, 'make sure which Host it is; then bastion unpair HOST, and pair anew'),
    ('pairing.refused', 126, 403, 'have the Host invite again: bastion host invite NAME'),
    ('pairing.second', 126, 409, 'unpair the present Host first: bastion unpair HOST'),
    ('pairing.transition', 126, 409, 'bastion unpair HOST, then pair anew'),
    ('pairing.unknown', 2, 404, 'see bastion status for the Hosts'),
    ('pairing.unreachable', 1, 502, 'check that bastion host serve runs, then try again'),
    ('process.fixed', 1, 500, 'this is a fault in bastion: please report it'),
    ('runner.busy', 75, 503, 'try again'),
    ('runner.gone', 1, 500, 'try again: a new one is started'),
    ('runner.spawn', 1, 500, 'see the message; try again'),
    ('runner.start', 1, 500, 'see the message'),
    ('schema.step', 126, 409, 'migrations are history'),
    ('seal.broken', 1, 500, 'another key or a changed record: restore the matching key, or enrol anew'),
    ('seal.place', 1, 500, 'this is a fault in bastion: please report it'),
    ('seal.size', 1, 500, 'this is a fault in bastion: please report it'),
    ('setting.fixed', 126, 409, 'only the value of a setting may change'),
    ('setting.range', 2, 422, 'see bastion settings for the bounds'),
    ('setting.unknown', 2, 404, 'see bastion settings for the names'),
    ('socket.bind', 3, 500, 'see the message'),
    ('socket.directory', 3, 500, 'give the directory for sockets to the daemon''s user, mode 0700'),
    ('socket.path', 3, 422, 'give the directory for sockets a shorter name'),
    ('socket.replaced', 3, 500, 'find out who else writes to the directory for sockets'),
    ('socket.taken', 3, 409, 'stop what listens there'),
    ('sql.error', 1, 422, 'see bastion sql ''.schema'' for the tables'),
    ('sql.interrupted', 1, 422, 'ask for less'),
    ('sql.refused', 126, 403, 'bastion sql reads; the verbs change'),
    ('sql.timeout', 1, 422, 'ask for less, or allow more: --timeout'),
    ('sshkey.form', 2, 422, 'give the one line of the .pub file, unchanged'),
    ('sshkey.type', 2, 422, 'make a key with ssh-keygen -t ed25519 or -t ed25519-sk'),
    ('sshsig.form', 2, 422, 'give the whole signature, from BEGIN to END'),
    ('sshsig.hash', 2, 422, 'sign without -O hashalg'),
    ('sshsig.key', 126, 403, 'sign with the enrolled key'),
    ('sshsig.namespace', 126, 403, 'sign with ssh-keygen -Y sign -n bastion'),
    ('sshsig.presence', 126, 403, 'touch the key when it blinks'),
    ('sshsig.wrong', 126, 403, 'fetch the question again and sign exactly its bytes'),
    ('store.busy', 75, 503, 'another writer holds the database; try again'),
    ('store.corrupt', 1, 500, 'restore a backup; the damaged file is left as it is'),
    ('store.directory', 3, 500, 'give the directory to the right user, mode 0700'),
    ('store.failed', 1, 500, 'see the message; nothing was changed'),
    ('store.foreign', 3, 500, 'another tool changed the schema: restore a backup'),
    ('store.full', 1, 507, 'make room on the disk, then try again; nothing was lost'),
    ('store.lock', 1, 500, 'see the message; remove nothing by hand'),
    ('store.missing', 3, 404, 'start bastion serve (a Host: bastion host init) to create it'),
    ('store.network', 3, 500, 'put the state on a local disk'),
    ('store.newer', 3, 409, 'use the newer bastion that wrote it'),
    ('store.older', 3, 409, 'bring it up to date: bastion migrate up'),
    ('store.readonly', 1, 500, 'make the disk writable; nothing was changed'),
    ('store.role', 126, 403, 'this part of bastion may not do that'),
    ('totp.form', 2, 422, 'type the six digits that the authenticator shows, without spaces'),
    ('totp.used', 126, 403, 'wait for the next code'),
    ('totp.wrong', 126, 403, 'take the code shown now; check the clocks of phone and machine'),
    ('usage.wrong', 2, 422, 'see bastion help VERB');
-- rows_setting.sql: every limit, with its bounds.
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('actor.backoff_ms', 200, 'ms', 1, 60000, 'first wait before a crashed actor is started again; doubles'),
    ('actor.backoff_cap_ms', 30000, 'ms', 1, 3600000, 'longest wait before a crashed actor is started again'),
    ('actor.steady_ms', 10000, 'ms', 1, 3600000, 'an actor that ran this long starts its backoff anew'),
    ('actor.drain_ms', 5000, 'ms', 1, 600000, 'how long actors may take to finish at shutdown'),
    ('approval.pending', 32, 'rows', 1, 10000, 'questions of one Host that may wait for a person at once'),
    ('approval.ttl_ms', 3600000, 'ms', 1000, 2592000000, 'how long a question waits for an answer'),
    ('audit.outbox', 4096, 'rows', 1, 1000000, 'audit rows that may wait for the system log; past it the newest are counted, not kept'),
    ('audit.seal_ms', 60000, 'ms', 100, 86400000, 'how often the head of the audit chain is sealed'),
    ('audit.syslog', 1, 'bool', 0, 1, 'copy audit rows to the system log'),
    ('call.live', 256, 'rows', 1, 100000, 'asks of boxes that may be open at once'),
    ('call.answer_ms', 120000, 'ms', 1000, 3600000, 'how long a box may take to answer an ask'),
    ('call.connect_ms', 10000, 'ms', 100, 600000, 'how long a box may take to accept a connection'),
    ('call.frame', 1048576, 'bytes', 4096, 16777216, 'longest frame taken from a box'),
    ('call.total', 33554432, 'bytes', 4096, 1073741824, 'longest answer taken from a box'),
    ('cert.wait_ms', 5000, 'ms', 100, 60000, 'time for one connection and handshake with a local listener'),
    ('factor.tries', 5, 'tries', 1, 100, 'wrong codes that may be tried within factor.throttle_ms'),
    ('factor.throttle_ms', 900000, 'ms', 1000, 86400000, 'how long a wrong code counts against the next'),
    ('factor.steps', 1, 'steps', 0, 10, 'clock steps of 30 s that a code may be early or late'),
    ('folders.stuck', 4, 'walks', 1, 64, 'walks held by a dead file system before new ones are refused'),
    ('folders.budget_ms', 20000, 'ms', 100, 600000, 'time for one walk over folders'),
    ('folders.max', 25, 'rows', 1, 1000, 'largest folders named in an answer'),
    ('grant.uses', 1000, 'uses', 1, 1000000, 'most uses that one grant may carry'),
    ('grant.ttl_ms', 2592000000, 'ms', 1000, 31536000000, 'longest life of a grant'),
    ('grant.default_uses', 1, 'uses', 1, 1000000, 'uses of a grant where the ask names none'),
    ('grant.default_ttl_ms', 3600000, 'ms', 1000, 31536000000, 'life of a grant where the ask names none'),
    ('http.body', 65536, 'bytes', 1024, 16777216, 'longest request body'),
    ('http.connections', 256, 'rows', 1, 65536, 'connections served at once'),
    ('http.depth', 32, 'levels', 2, 32, 'deepest nesting of a JSON body'),
    ('http.header', 8192, 'bytes', 1024, 1048576, 'longest head of a request'),
    ('http.headers', 64, 'rows', 8, 1000, 'header fields of a request'),
    ('http.idle_ms', 60000, 'ms', 100, 3600000, 'how long a connection may say nothing'),
    ('http.per_uid', 128, 'rows', 1, 65536, 'connections of one user served at once'),
    ('http.request_ms', 10000, 'ms', 100, 3600000, 'how long a request may take to arrive'),
    ('http.stall_ms', 30000, 'ms', 100, 3600000, 'how long a client may stop reading its answer'),
    ('http.stream', 262144, 'bytes', 4096, 16777216, 'bytes of an answer that wait for a slow reader'),
    ('invitation.ttl_ms', 900000, 'ms', 1000, 86400000, 'how long a pairing code can be used'),
    ('keeper.gather_ms', 50, 'ms', 0, 60000, 'how long the keeper lets commits gather before it looks at them'),
    ('lane.skew_ms', 60000, 'ms', 1000, 3600000, 'how far the clock of a signed ask may be off'),
    ('journal.lines', 5000, 'lines', 1, 100000, 'most lines of a journal answer'),
    ('journal.bytes', 200000, 'bytes', 1000, 16000000, 'longest journal answer'),
    ('logins.lines', 50000, 'lines', 1, 1000000, 'journal lines read for logins'),
    ('logins.ranked', 20, 'rows', 1, 1000, 'sources, users and accepted logins named in an answer'),
    ('op.frame', 1048576, 'bytes', 4096, 16777216, 'longest frame of an answer'),
    ('op.live', 64, 'rows', 1, 10000, 'runs that may wait or run at once'),
    ('op.parallel', 8, 'runs', 1, 1000, 'runs at the same time'),
    ('op.memory', 1073741824, 'bytes', 0, 1099511627776, 'address space of one run; 0: no limit'),
    ('op.output', 16777216, 'bytes', 4096, 1073741824, 'longest answer of one run'),
    ('op.time_ms', 60000, 'ms', 1000, 3600000, 'time for one run'),
    ('op.tool_ms', 15000, 'ms', 100, 600000, 'time for one program that a run starts'),
    ('op.gather_ms', 20, 'ms', 0, 1000, 'how long a result waits for the end of its run, to be committed with it'),
    ('op.kill_ms', 3000, 'ms', 10, 60000, 'grace between asking a run to end and ending it'),
    ('pairing.wait_ms', 10000, 'ms', 100, 600000, 'how long a Host may take to answer a pairing'),
    ('store.checkpoint_ms', 5000, 'ms', 100, 3600000, 'how often the keeper folds the log into the database'),
    ('store.tick_ms', 5000, 'ms', 100, 600000, 'slow look at the database, should a bell be missed');
-- rows_state_rule.sql: every move that exists.
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('instance', '', 'starting'),
    ('instance', 'starting', 'ready'),
    ('instance', 'starting', 'draining'),
    ('instance', 'starting', 'ended'),
    ('instance', 'starting', 'lost'),
    ('instance', 'ready', 'draining'),
    ('instance', 'ready', 'lost'),
    ('instance', 'draining', 'ended'),
    ('instance', 'draining', 'lost'),
    ('actor_run', '', 'starting'),
    ('actor_run', 'starting', 'running'),
    ('actor_run', 'starting', 'ended'),
    ('actor_run', 'starting', 'failed'),
    ('actor_run', 'starting', 'lost'),
    ('actor_run', 'running', 'ended'),
    ('actor_run', 'running', 'failed'),
    ('actor_run', 'running', 'lost'),
    ('pairing', '', 'active'),
    ('pairing', '', 'pending'),
    ('pairing', 'pending', 'active'),
    ('pairing', 'pending', 'revoked'),
    ('pairing', 'active', 'revoked'),
    ('pairing', 'revoked', 'pending'),
    ('factor', '', 'active'),
    ('factor', 'active', 'dropped'),
    ('approval', '', 'pending'),
    ('approval', 'pending', 'approved'),
    ('approval', 'pending', 'denied'),
    ('approval', 'pending', 'expired'),
    ('approval', 'approved', 'burned'),
    ('grant', '', 'active'),
    ('grant', 'active', 'spent'),
    ('grant', 'active', 'expired'),
    ('grant', 'active', 'dropped'),
    ('op_run', '', 'queued'),
    ('op_run', 'queued', 'running'),
    ('op_run', 'queued', 'cancelled'),
    ('op_run', 'queued', 'lost'),
    ('op_run', 'running', 'done'),
    ('op_run', 'running', 'failed'),
    ('op_run', 'running', 'cancelled'),
    ('op_run', 'running', 'lost'),
    ('folder_walk', '', 'reading'),
    ('folder_walk', 'reading', 'stuck'),
    ('folder_walk', 'reading', 'done'),
    ('folder_walk', 'stuck', 'done'),
    ('invitation', '', 'open'),
    ('invitation', 'open', 'redeemed'),
    ('invitation', 'open', 'expired'),
    ('invitation', 'open', 'withdrawn'),
    ('host_box', '', 'active'),
    ('host_box', 'active', 'gone'),
    ('call', '', 'asked'),
    ('call', 'asked', 'sent'),
    ('call', 'asked', 'failed'),
    ('call', 'asked', 'lost'),
    ('call', 'sent', 'done'),
    ('call', 'sent', 'refused'),
    ('call', 'sent', 'failed'),
    ('call', 'sent', 'lost');
