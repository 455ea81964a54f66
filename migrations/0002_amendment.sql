-- 0002_amendment.sql: bastion sql -w, and views that answer an operator's questions.

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('sql.query', 2, 404, 'see bastion sql --queries'),
    ('amendment.changed', 75, 409, 'look at what it would do now, and decide again'),
    ('amendment.constraint', 126, 409, 'see the rule in bastion sql ''.schema TABLE'''),
    ('amendment.decided', 126, 409, 'ask anew: bastion sql -w'),
    ('amendment.declined', 1, 409, 'nothing was changed'),
    ('amendment.expired', 126, 410, 'ask anew: bastion sql -w'),
    ('amendment.gives', 126, 403, 'give with the verbs: bastion pair, factor add, approve'),
    ('amendment.kept', 126, 409, 'an amendment that was asked for stays in the list'),
    ('amendment.nothing', 2, 422, 'look at the rows first: bastion sql SELECT'),
    ('amendment.reason', 2, 422, 'say in one line why: -m REASON'),
    ('amendment.refused', 126, 403, 'see bastion help sql for what may be amended'),
    ('amendment.terms', 126, 409, 'ask anew: bastion sql -w'),
    ('amendment.text', 2, 422, 'write it in plain characters: char(27) instead of the control itself'),
    ('amendment.time', 1, 422, 'change less at once, or raise the setting amendment.time_ms'),
    ('amendment.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('amendment.unknown', 2, 404, 'see bastion sql @waiting for those that wait');

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('amendment.text', 16384, 'characters', 256, 65536, 'longest statement of one amendment'),
    ('amendment.time_ms', 2000, 'ms', 10, 60000, 'how long the statement of an amendment may run, while others wait to write'),
    ('amendment.ttl_ms', 900000, 'ms', 1000, 86400000, 'how long an amendment waits for its approval');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('amendment', '', 'pending'),
    ('amendment', 'pending', 'running'),
    ('amendment', 'pending', 'dropped'),
    ('amendment', 'pending', 'expired'),
    ('amendment', 'running', 'done');

-- It is shown, then signed for, then made: as `pending` nothing has happened; `running` is seen only by
-- the rules, inside the one transaction that decides, changes and ends as `done`.
CREATE TABLE amendment (
    id             INTEGER PRIMARY KEY,
    nonce          TEXT    NOT NULL UNIQUE CHECK (length(nonce) = 32 AND nonce NOT GLOB '*[^0-9a-f]*'),
    box_name       TEXT    NOT NULL,
    reason         TEXT    NOT NULL CHECK (length(reason) BETWEEN 1 AND 200),
    statement      TEXT    NOT NULL CHECK (length(statement) BETWEEN 1 AND 65536),
    -- What the person reads and signs, byte for byte. Lines of the statement stand further in, so that
    -- none of them can pose as a line of the terms.
    terms          TEXT    GENERATED ALWAYS AS (
        'bastion amendment 1' || char(10) ||
        'machine: ' || box_name || char(10) ||
        'reason: ' || reason || char(10) ||
        'statement:' || char(10) ||
        '    ' || replace(statement, char(10), char(10) || '    ') || char(10) ||
        'nonce: ' || nonce || char(10)) VIRTUAL,
    state          TEXT    NOT NULL DEFAULT 'pending'
                   CHECK (state IN ('pending', 'running', 'done', 'dropped', 'expired')),
    asked_at       INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL CHECK (expires_at > asked_at),
    factor_id      INTEGER REFERENCES factor (id),
    decided_digest BLOB    CHECK (length(decided_digest) = 32),
    decided_by_uid INTEGER,
    decided_by     TEXT    CHECK (length(decided_by) BETWEEN 1 AND 64),
    after_seq      INTEGER CHECK (after_seq >= 0),             -- the audit's last row before the changes
    changes        TEXT    CHECK (changes IS NULL OR (json_valid(changes) AND json_type(changes) = 'object')),
    ended_at       INTEGER,
    CHECK (state NOT IN ('running', 'done')
           OR (factor_id IS NOT NULL AND decided_digest IS NOT NULL AND decided_by_uid IS NOT NULL
               AND decided_by IS NOT NULL AND after_seq IS NOT NULL)),
    CHECK ((state = 'done') = (changes IS NOT NULL)),
    CHECK ((state IN ('pending', 'running')) = (ended_at IS NULL))
) STRICT;

CREATE TRIGGER amendment_born BEFORE INSERT ON amendment
BEGIN
    UPDATE amendment SET state = 'expired', ended_at = now_ms()
     WHERE state = 'pending' AND expires_at <= now_ms();
    SELECT RAISE(ABORT, 'amendment.transition|an amendment begins as pending')
     WHERE NEW.state <> 'pending';
    SELECT RAISE(ABORT, 'amendment.reason|a reason is 1 to 200 characters, none of them a control character')
     WHERE length(trim(NEW.reason)) = 0 OR length(NEW.reason) > 200
        OR NEW.reason GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'amendment.text|a statement has no control characters, and no more than amendment.text others')
     WHERE length(NEW.statement) NOT BETWEEN 1 AND (SELECT value FROM setting WHERE name = 'amendment.text')
        OR NEW.statement GLOB '*[' || char(1) || '-' || char(8) || char(11) || '-' || char(31) ||
                              char(127) || ']*';
    SELECT RAISE(ABORT, 'amendment.terms|the terms name another machine')
     WHERE NEW.box_name IS NOT (SELECT name FROM box);
END;

CREATE TRIGGER amendment_moves BEFORE UPDATE ON amendment
BEGIN
    SELECT RAISE(ABORT, 'amendment.decided|this amendment was made or given up')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'amendment' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'amendment.terms|the terms of an amendment never change')
     WHERE NEW.id IS NOT OLD.id OR NEW.nonce IS NOT OLD.nonce OR NEW.box_name IS NOT OLD.box_name
        OR NEW.reason IS NOT OLD.reason OR NEW.statement IS NOT OLD.statement
        OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at;
    SELECT RAISE(ABORT, 'amendment.expired|this amendment ran out before it was approved')
     WHERE NEW.state = 'running' AND OLD.expires_at <= now_ms();
    SELECT RAISE(ABORT, 'approval.factor|the approving factor is not active')
     WHERE NEW.state = 'running'
       AND (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active';
    SELECT RAISE(ABORT, 'amendment.terms|what was approved is not what is asked')
     WHERE NEW.state = 'running' AND sha256(OLD.terms) IS NOT NEW.decided_digest;
    SELECT RAISE(ABORT, 'amendment.transition|the changes of an amendment begin where the audit ends')
     WHERE NEW.state = 'running'
       AND NEW.after_seq IS NOT (SELECT coalesce(max(seq), 0) FROM audit);
    SELECT RAISE(ABORT, 'amendment.terms|an amendment keeps who decided it')
     WHERE OLD.state = 'running'
       AND (NEW.factor_id IS NOT OLD.factor_id OR NEW.decided_digest IS NOT OLD.decided_digest
            OR NEW.decided_by_uid IS NOT OLD.decided_by_uid OR NEW.decided_by IS NOT OLD.decided_by
            OR NEW.after_seq IS NOT OLD.after_seq);
    -- Whatever the statement was dressed as: the audit says what came of it.
    SELECT RAISE(ABORT, 'amendment.gives|an amendment sets limits and takes away: it cannot pair, approve, grant or run')
     WHERE NEW.state = 'done' AND EXISTS (SELECT 1 FROM audit WHERE seq > OLD.after_seq
       AND (entity, action) IN (VALUES
           ('pairing', 'active'), ('pairing', 'pending'), ('invitation', 'open'),
           ('invitation', 'redeemed'), ('host_box', 'active'), ('factor', 'active'),
           ('approval', 'pending'), ('approval', 'approved'), ('approval', 'burned'),
           ('grant', 'active'), ('grant', 'spent'), ('op_run', 'queued'), ('op_run', 'running'),
           ('op_run', 'done'), ('op_run', 'failed'), ('call', 'asked'), ('call', 'done')));
END;

CREATE TRIGGER amendment_stays BEFORE DELETE ON amendment
BEGIN
    SELECT RAISE(ABORT, 'amendment.kept|an amendment is history');
END;

CREATE TRIGGER amendment_audit_birth AFTER INSERT ON amendment
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'amendment', NEW.id, NEW.state, '',
            json_object('reason', NEW.reason, 'digest', lower(hex(sha256(NEW.terms)))));
END;

-- The changes' own audit rows stand between `running`, with the proof, and `done`, with the counts.
CREATE TRIGGER amendment_audit_move AFTER UPDATE OF state ON amendment WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'amendment', NEW.id, NEW.state, '',
           CASE NEW.state
           WHEN 'running' THEN
                json_object('reason', NEW.reason, 'statement', NEW.statement, 'by', NEW.decided_by,
                            'uid', NEW.decided_by_uid, 'factor', NEW.factor_id,
                            'digest', lower(hex(NEW.decided_digest)))
           WHEN 'done' THEN json_object('reason', NEW.reason, 'changes', json(NEW.changes))
           ELSE json_object('reason', NEW.reason) END;
END;

-- What may a Host do now, how often still, until when, and on whose word?
CREATE VIEW host_may AS
SELECT g.host, g.op, g.args, g.uses - g.used AS uses_left, g.expires_at,
       a.decided_by AS approved_by, g.approver AS approved_with, g.id AS grant_id, g.approval_id
  FROM live_grants AS g JOIN approval AS a ON a.id = g.approval_id;

-- What waits for a person, since when, until when, and what they type to answer it?
CREATE VIEW waiting AS
SELECT 'approval' AS kind, id, host, op || ' ' || args AS what, asked_at, expires_at,
       'bastion approve ' || id AS answer
  FROM open_approvals
UNION ALL
SELECT 'pairing', id, host_name, 'to be paired', since, NULL, 'bastion status'
  FROM pairing WHERE state = 'pending'
UNION ALL
SELECT 'invitation', id, NULL, 'the box ' || box_name || ' has not come yet', created_at, expires_at,
       'on the box: bastion pair CODE'
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, asked_at, expires_at,
       'bastion sql -w --amendment ' || id || ' --signature FILE'
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms();

-- What ran in the last hour, how it ended, and who approved it? Older ones are in run_history.
CREATE VIEW recent_runs AS
SELECT r.id, r.queued_at, r.host, r.op, r.args, r.state, r.exit_code,
       r.finished_at - r.queued_at AS took_ms, r.approved_by, r.approved_with, r.grant_id
  FROM run_history AS r WHERE r.queued_at > now_ms() - 3600000;

-- What was refused, why, and what would help?
CREATE VIEW refused_why AS
SELECT r.id, r.at, p.host_name AS host, r.surface, r.asked, r.code, r.why, f.advice
  FROM refused AS r
  LEFT JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN refusal AS f ON f.code = r.code;

-- What holds a lock: leases, the one daemon, runs that fill a place? alive is 0 where its process is dead.
CREATE VIEW held_locks AS
SELECT 'lease' AS kind, l.name, p.program AS holder, p.pid,
       process_alive(p.boot_id, p.pid, p.start_ticks) AS alive, NULL AS since_at, l.expires_at
  FROM lease AS l JOIN process AS p ON p.id = l.process_id
UNION ALL
SELECT 'instance', i.role || ' ' || i.state, p.program, p.pid,
       process_alive(p.boot_id, p.pid, p.start_ticks), i.started_at, NULL
  FROM instance AS i JOIN process AS p ON p.id = i.process_id
 WHERE i.state IN ('starting', 'ready', 'draining')
UNION ALL
SELECT 'run', r.op || ' ' || r.args, r.host, NULL, NULL, coalesce(r.started_at, r.queued_at), NULL
  FROM live_runs AS r
UNION ALL
SELECT 'walk', 'observe:folders of run ' || w.op_run_id, NULL, NULL, NULL, r.started_at, NULL
  FROM folder_walk AS w JOIN op_run AS r ON r.id = w.op_run_id WHERE w.state = 'stuck';

-- What is about to end by itself, first things first?
CREATE VIEW expiring AS
SELECT 'grant' AS kind, id, host AS name, op || ' ' || args AS what, expires_at FROM live_grants
UNION ALL
SELECT 'approval', id, host, op || ' ' || args, expires_at FROM open_approvals
UNION ALL
SELECT 'invitation', id, box_name, 'a pairing code', expires_at
  FROM invitation WHERE state = 'open' AND expires_at > now_ms()
UNION ALL
SELECT 'amendment', id, NULL, reason, expires_at
  FROM amendment WHERE state = 'pending' AND expires_at > now_ms()
UNION ALL
SELECT 'lease', NULL, name, 'held', expires_at
  FROM lease WHERE process_id IS NOT NULL AND expires_at > now_ms();

-- Where did a run come from: who asked, who approved it when and with what, and how the Host came here?
CREATE VIEW run_origin AS
SELECT r.id, r.op, r.args, r.queued_at, p.host_name AS asked_by, r.grant_id, u.n AS use_of_grant,
       g.approval_id, a.asked_at AS question_at, a.decided_by AS approved_by, a.decided_by_uid,
       a.decided_at AS approved_at, f.kind AS factor, f.label AS approved_with,
       f.enrolled_at AS factor_enrolled_at, p.since AS host_paired_at
  FROM op_run AS r
  JOIN pairing AS p ON p.id = r.pairing_id
  LEFT JOIN grant AS g ON g.id = r.grant_id
  LEFT JOIN grant_use AS u ON u.grant_id = r.grant_id AND u.op_run_id = r.id
  LEFT JOIN approval AS a ON a.id = g.approval_id
  LEFT JOIN factor AS f ON f.id = g.factor_id;

-- Where did a row come from, and who moved it since? Ask it with entity and entity_id.
CREATE VIEW row_origin AS
SELECT b.entity, b.entity_id, b.seq AS born_seq, b.at AS born_at, b.who AS born_by,
       b.action AS born_as, b.pairing AS host, l.at AS moved_at, l.who AS moved_by, l.action AS state,
       (SELECT count(*) FROM audit AS c
         WHERE c.entity = b.entity AND c.entity_id = b.entity_id) AS audit_rows
  FROM audit AS b
  JOIN audit AS l ON l.seq = (SELECT max(m.seq) FROM audit AS m
                               WHERE m.entity = b.entity AND m.entity_id = b.entity_id)
 WHERE b.seq = (SELECT min(m.seq) FROM audit AS m
                 WHERE m.entity = b.entity AND m.entity_id = b.entity_id);
