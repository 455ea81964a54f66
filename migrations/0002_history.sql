-- 0002_history.sql: sql -w, a hash tree over the audit and words to search it by, retention, backups, upgrades.

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

-- The tree is that of RFC 6962 over SHA-256; leaf number seq - 1 is the 32 bytes of audit.hash. It is kept
-- as whole tiles of 256 hashes (as c2sp.org/tlog-tiles has them): level 0 holds hashes of leaves, level 1
-- roots of tiles of level 0, and so on. All of it follows from the audit, and bastion audit verify computes
-- it anew. Whoever seals adds the tiles; inserting a row costs none of this.
CREATE TABLE audit_tile (
    level  INTEGER NOT NULL CHECK (level BETWEEN 0 AND 6),
    n      INTEGER NOT NULL CHECK (n >= 0),
    root   BLOB    NOT NULL CHECK (length(root) = 32),         -- over the hashes: one hash of the level above
    hashes BLOB    NOT NULL CHECK (length(hashes) = 8192),
    PRIMARY KEY (level, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_tile_grows BEFORE INSERT ON audit_tile
BEGIN
    SELECT RAISE(ABORT, 'audit.tile|tiles of a level come one after the other')
     WHERE NEW.n IS NOT (SELECT coalesce(max(n), -1) + 1 FROM audit_tile WHERE level = NEW.level);
    SELECT RAISE(ABORT, 'audit.tile|a tile is over rows, or tiles, that are all there')
     WHERE (NEW.n + 1) * 256 > CASE NEW.level
           WHEN 0 THEN (SELECT coalesce(max(seq), 0) FROM audit)
           ELSE (SELECT coalesce(max(n), -1) + 1 FROM audit_tile WHERE level = NEW.level - 1) END;
END;

CREATE TRIGGER audit_tile_no_update BEFORE UPDATE ON audit_tile
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|the tree is append-only');
END;

CREATE TRIGGER audit_tile_no_delete BEFORE DELETE ON audit_tile
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|the tree is append-only');
END;

-- The machine's word for the tree of its first `size` rows: bastion audit checkpoint shows it as the note
-- that was signed.
CREATE TABLE audit_checkpoint (
    size      INTEGER PRIMARY KEY CHECK (size >= 1),
    root      BLOB    NOT NULL CHECK (length(root) = 32),
    at        INTEGER NOT NULL,
    signature BLOB    NOT NULL CHECK (length(signature) = 64)
) STRICT;

CREATE TRIGGER audit_checkpoint_grows BEFORE INSERT ON audit_checkpoint
BEGIN
    SELECT RAISE(ABORT, 'audit.checkpoint|a checkpoint is of more rows than the one before, all of them there')
     WHERE NEW.size <= (SELECT coalesce(max(size), 0) FROM audit_checkpoint)
        OR NEW.size > (SELECT coalesce(max(seq), 0) FROM audit);
    SELECT RAISE(ABORT, 'audit.checkpoint|the checkpoint is not signed by this machine')
     WHERE checkpoint_ok(NEW.size, NEW.root, NEW.signature) IS NOT 1;
END;

CREATE TRIGGER audit_checkpoint_no_update BEFORE UPDATE ON audit_checkpoint
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|a checkpoint is append-only');
END;

CREATE TRIGGER audit_checkpoint_no_delete BEFORE DELETE ON audit_checkpoint
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|a checkpoint is append-only');
END;

-- The words of the audit's rows up to the highest number in it; the keeper adds what was sealed. The text
-- itself stands in the audit alone.
CREATE VIRTUAL TABLE audit_word USING fts5 (
    who, entity, entity_id, action, pairing, body, content = 'audit', content_rowid = 'seq'
);

-- The newest checkpoint of its audit that a box has shown: this Host holds it against every later one
-- (c2sp.org/tlog-witness). A box whose database went back, or was written anew, cannot show how the two fit.
CREATE TABLE box_witness (
    box_id  INTEGER PRIMARY KEY REFERENCES host_box (id),
    state   TEXT    NOT NULL DEFAULT 'followed'
            CHECK (state IN ('followed', 'behind', 'forked', 'accepted')),
    size    INTEGER NOT NULL CHECK (size >= 1),                -- rows of the audit that it is of
    root    BLOB    NOT NULL CHECK (length(root) = 32),
    note    TEXT    NOT NULL CHECK (length(note) <= 16384),    -- as the box signed it
    seen_at INTEGER NOT NULL,
    why     TEXT    CHECK (length(why) <= 512),                -- it does not fit what the box shows now
    CHECK ((state IN ('behind', 'forked')) = (why IS NOT NULL))
) STRICT;

CREATE TRIGGER box_witness_born BEFORE INSERT ON box_witness WHEN NEW.state <> 'followed'
BEGIN
    SELECT RAISE(ABORT, 'witness.transition|a box begins as followed');
END;

-- 'accepted' is a person's word that the box may begin anew: the next checkpoint is taken as the first was.
CREATE TRIGGER box_witness_moves BEFORE UPDATE ON box_witness
BEGIN
    SELECT RAISE(ABORT, 'witness.transition|what a Host holds of a box cannot make this move')
     WHERE NEW.box_id IS NOT OLD.box_id
        OR (NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
            WHERE entity = 'box_witness' AND from_state = OLD.state AND to_state = NEW.state));
    SELECT RAISE(ABORT, 'witness.back|what a Host holds of a box only grows, and only when it fits')
     WHERE OLD.state <> 'accepted'
       AND (NEW.size < OLD.size OR (NEW.size = OLD.size AND NEW.root IS NOT OLD.root)
            OR (NEW.state <> 'followed' AND (NEW.size <> OLD.size OR NEW.note IS NOT OLD.note)));
END;

CREATE TRIGGER box_witness_stays BEFORE DELETE ON box_witness
BEGIN
    SELECT RAISE(ABORT, 'witness.back|what a Host holds of a box is not deleted');
END;

CREATE TRIGGER box_witness_audit_birth AFTER INSERT ON box_witness
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'box_witness', NEW.box_id, NEW.state, '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'size', NEW.size,
                        'root', lower(hex(NEW.root))));
END;

CREATE TRIGGER box_witness_audit_move AFTER UPDATE OF state ON box_witness WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('pairing', 'box_witness', NEW.box_id, NEW.state, '',
            json_object('box', (SELECT name FROM host_box WHERE id = NEW.box_id), 'size', NEW.size,
                        'root', lower(hex(NEW.root)), 'from', OLD.state, 'why', coalesce(NEW.why, OLD.why)));
END;

DROP VIEW boxes;
CREATE VIEW boxes AS
SELECT b.id, b.name, b.state, b.paired_at, b.heard_at, b.lane,
       (SELECT count(*) FROM call AS c WHERE c.box_id = b.id) AS asks,
       CASE w.state WHEN 'followed' THEN printf('fits, %d rows', w.size)
                    WHEN 'behind' THEN 'ROLLED BACK: ' || w.why
                    WHEN 'forked' THEN 'FORKED: ' || w.why
                    WHEN 'accepted' THEN 'begins anew on a person''s word'
                    ELSE 'none shown yet' END AS audit
  FROM host_box AS b LEFT JOIN box_witness AS w ON w.box_id = b.id;

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('audit.checkpoint', 1, 500, 'check with bastion audit verify'),
    ('audit.search', 2, 422, 'give words, "words in a row", begin*, OR between two, -word to leave out'),
    ('audit.tile', 1, 500, 'check with bastion audit verify'),
    ('checkpoint.form', 2, 422, 'give the checkpoint whole, as bastion audit checkpoint prints it'),
    ('checkpoint.none', 75, 503, 'wait for the next seal, which the daemon makes every audit.seal_ms'),
    ('checkpoint.other', 126, 403, 'give the key of the machine that signed it: --key'),
    ('checkpoint.signature', 126, 403, 'fetch the checkpoint again, from the machine or its Host'),
    ('checkpoint.size', 2, 404, 'see bastion sql ''SELECT size FROM audit_checkpoint'' for those that were signed'),
    ('proof.form', 2, 422, 'give the proof whole, as bastion audit prove or consistency prints it'),
    ('proof.wrong', 126, 403, 'do not trust what it was to prove; fetch the proof again from the machine'),
    ('witness.back', 126, 409, 'after a restore that you know of: bastion host accept BOX'),
    ('witness.behind', 126, 409, 'find out who put an older database in place; if it was you: bastion host accept BOX on the Host'),
    ('witness.forked', 126, 409, 'find out who wrote the audit anew; after a restore that you know of: bastion host accept BOX on the Host'),
    ('witness.missing', 126, 409, 'the box must show a checkpoint: see bastion host boxes for what the Host holds'),
    ('witness.transition', 1, 500, 'this is a fault in bastion: please report it'),
    ('witness.unknown', 2, 404, 'see bastion host boxes: only a box that is rolled back or forked is accepted');

INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('box_witness', '', 'followed'),
    ('box_witness', 'followed', 'behind'),
    ('box_witness', 'followed', 'forked'),
    ('box_witness', 'behind', 'followed'),
    ('box_witness', 'behind', 'forked'),
    ('box_witness', 'behind', 'accepted'),
    ('box_witness', 'forked', 'followed'),
    ('box_witness', 'forked', 'behind'),
    ('box_witness', 'forked', 'accepted'),
    ('box_witness', 'accepted', 'followed');

-- Where the audit is copied to: an export that a person took away counts as well.
CREATE TEMP TABLE kept AS SELECT name, sent FROM audit_sink;
DROP TABLE audit_sink;

CREATE TABLE audit_sink (
    name TEXT    PRIMARY KEY CHECK (name IN ('export', 'system-log')),
    sent INTEGER NOT NULL DEFAULT 0 CHECK (sent >= 0)
) STRICT, WITHOUT ROWID;

INSERT INTO audit_sink (name, sent) SELECT name, sent FROM kept UNION ALL SELECT 'export', 0;
DROP TABLE temp.kept;

CREATE TRIGGER audit_sink_forward BEFORE UPDATE ON audit_sink
BEGIN
    SELECT RAISE(ABORT, 'audit.sink|a copy of the audit only goes forward, and no further than the audit')
     WHERE NEW.name IS NOT OLD.name OR NEW.sent < OLD.sent
        OR NEW.sent > (SELECT coalesce(max(seq), 0) FROM audit);
END;

CREATE TRIGGER audit_sink_sent AFTER UPDATE ON audit_sink
BEGIN
    DELETE FROM audit_gap WHERE last < NEW.sent;
END;

-- The audit stays append-only, but for what its retention removes.
DROP TRIGGER audit_no_delete;
DROP TRIGGER audit_seal_no_delete;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
WHEN OLD.seq > coalesce((SELECT gone_to FROM retention WHERE entity = 'audit'), 0)
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|the audit is append-only');
END;

CREATE TRIGGER audit_seal_no_delete BEFORE DELETE ON audit_seal
WHEN OLD.seq > coalesce((SELECT gone_to FROM retention WHERE entity = 'audit'), 0)
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|a seal is append-only');
END;

-- Up to where a table's rows are gone. The setting retention.ENTITY says after how many days they may go.
CREATE TABLE retention (
    entity  TEXT    PRIMARY KEY CHECK (entity IN ('actor_run', 'audit', 'call_output', 'factor_try',
                                                  'op_output', 'refused')),
    gone_to INTEGER NOT NULL DEFAULT 0 CHECK (gone_to >= 0)    -- of the run, the ask, or the row itself
) STRICT, WITHOUT ROWID;

INSERT INTO retention (entity) VALUES
    ('actor_run'), ('audit'), ('call_output'), ('factor_try'), ('op_output'), ('refused');

-- What a mark can move past: when it ended (NULL: it has not), and how many rows go with it.
CREATE VIEW retention_item (entity, id, at, rows) AS
SELECT 'actor_run', id, ended_at, 1 FROM actor_run
 UNION ALL SELECT 'audit', seq, at, 1 FROM audit
            WHERE seq <= (SELECT max(seq) FROM audit_base)
 UNION ALL SELECT 'call_output', id, finished_at, last_seq FROM call
 UNION ALL SELECT 'factor_try', id, at, 1 FROM factor_try
 UNION ALL SELECT 'op_output', id, finished_at, last_seq FROM op_run
 UNION ALL SELECT 'refused', id, at, 1 FROM refused;

-- What ended before this may go. No row: it is kept for ever.
CREATE VIEW retention_cutoff AS
SELECT r.entity, r.gone_to, now_ms() - s.value * 86400000 AS before, s.value AS days
  FROM retention AS r JOIN setting AS s ON s.name = 'retention.' || r.entity
 WHERE s.value > 0;

-- How far each mark may move in one transaction: retention.batch rows, or the one thing that has more.
-- It stops at the first thing that is too young.
CREATE VIEW retention_due AS
SELECT c.entity,
       (SELECT max(id)
          FROM (SELECT id, rows, sum(rows) OVER through AS total,
                       max(at IS NULL OR at >= c.before) OVER through AS kept,
                       lead(id) OVER through AS later
                  FROM (SELECT id, at, rows FROM retention_item
                         WHERE entity = c.entity AND id > c.gone_to ORDER BY id
                         LIMIT (SELECT value + 1 FROM setting WHERE name = 'retention.batch'))
                WINDOW through AS (ORDER BY id))
         WHERE NOT kept AND later IS NOT NULL
           AND (total = rows
                OR total <= (SELECT value FROM setting WHERE name = 'retention.batch'))) AS gone_to
  FROM retention_cutoff AS c;

-- (The newest row always stays: its number would be given again.)
CREATE TRIGGER retention_moves BEFORE UPDATE ON retention
BEGIN
    SELECT RAISE(ABORT, 'retention.mark|a mark only moves forward')
     WHERE NEW.entity IS NOT OLD.entity OR NEW.gone_to <= OLD.gone_to;
    SELECT RAISE(ABORT, 'retention.young|rows stay for as long as the setting says, and the newest for ever')
     WHERE NOT EXISTS (SELECT 1 FROM retention_cutoff WHERE entity = NEW.entity)
        OR NEW.gone_to >= coalesce((SELECT max(id) FROM retention_item WHERE entity = NEW.entity), 0)
        OR EXISTS (SELECT 1 FROM retention_item
                    WHERE entity = NEW.entity AND id > OLD.gone_to AND id <= NEW.gone_to
                      AND (at IS NULL OR at >= (SELECT before FROM retention_cutoff
                                                 WHERE entity = NEW.entity)));
END;

CREATE TRIGGER retention_mark_stays BEFORE DELETE ON retention
BEGIN
    SELECT RAISE(ABORT, 'retention.mark|a mark only moves forward');
END;

-- Answers may be long: behind their mark the keeper deletes them frame by frame, which no rule holds then.
CREATE TRIGGER retention_answers AFTER UPDATE ON retention
WHEN NEW.entity IN ('op_output', 'call_output')
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', (SELECT coalesce(sum(rows), 0) FROM retention_item
                                 WHERE entity = NEW.entity
                                   AND id > OLD.gone_to AND id <= NEW.gone_to),
                       'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
END;

CREATE TRIGGER retention_factor_try AFTER UPDATE ON retention WHEN NEW.entity = 'factor_try'
BEGIN
    DELETE FROM factor_try WHERE id > OLD.gone_to AND id <= NEW.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', changes(), 'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
END;

CREATE TRIGGER retention_refused AFTER UPDATE ON retention WHEN NEW.entity = 'refused'
BEGIN
    DELETE FROM refused WHERE id > OLD.gone_to AND id <= NEW.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', changes(), 'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
END;

-- With the last run of a process goes its identity, where nothing else names it.
CREATE TRIGGER retention_actor_run AFTER UPDATE ON retention WHEN NEW.entity = 'actor_run'
BEGIN
    DELETE FROM actor_run WHERE id > OLD.gone_to AND id <= NEW.gone_to;
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', NEW.entity, 'removed', '',
           json_object('rows', changes(), 'after', OLD.gone_to, 'to', NEW.gone_to, 'days', days)
      FROM retention_cutoff WHERE entity = NEW.entity;
    DELETE FROM process
     WHERE seen_at < (SELECT before FROM retention_cutoff WHERE entity = NEW.entity)
       AND id < (SELECT max(id) FROM process)
       AND NOT EXISTS (SELECT 1 FROM actor_run WHERE process_id = process.id)
       AND id NOT IN (SELECT process_id FROM instance)
       AND id NOT IN (SELECT process_id FROM lease WHERE process_id IS NOT NULL);
END;

-- (The row that moved the beginning of the audit has said what goes here. An index has no words of rows
-- that are gone; rows behind its end are not in it.)
CREATE TRIGGER retention_audit AFTER UPDATE ON retention WHEN NEW.entity = 'audit'
BEGIN
    DELETE FROM audit_word WHERE rowid > OLD.gone_to AND rowid <= NEW.gone_to
       AND rowid <= (SELECT max(id) FROM audit_word_docsize);
    DELETE FROM audit_seal WHERE seq > OLD.gone_to AND seq <= NEW.gone_to;
    DELETE FROM audit WHERE seq > OLD.gone_to AND seq <= NEW.gone_to;
END;

CREATE TRIGGER op_output_stays BEFORE DELETE ON op_output
WHEN OLD.op_run_id > coalesce((SELECT gone_to FROM retention WHERE entity = 'op_output'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|an answer stays until its time is over');
END;

CREATE TRIGGER call_output_stays BEFORE DELETE ON call_output
WHEN OLD.call_id > coalesce((SELECT gone_to FROM retention WHERE entity = 'call_output'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|an answer stays until its time is over');
END;

CREATE TRIGGER factor_try_stays BEFORE DELETE ON factor_try
WHEN OLD.id > coalesce((SELECT gone_to FROM retention WHERE entity = 'factor_try'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a try stays until its time is over');
END;

CREATE TRIGGER refused_stays BEFORE DELETE ON refused
WHEN OLD.id > coalesce((SELECT gone_to FROM retention WHERE entity = 'refused'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a refusal stays until its time is over');
END;

CREATE TRIGGER actor_run_stays BEFORE DELETE ON actor_run
WHEN OLD.id > coalesce((SELECT gone_to FROM retention WHERE entity = 'actor_run'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|the run of an actor stays until its time is over');
END;

CREATE TRIGGER process_stays BEFORE DELETE ON process
WHEN OLD.seen_at >= coalesce((SELECT before FROM retention_cutoff WHERE entity = 'actor_run'), 0)
BEGIN
    SELECT RAISE(ABORT, 'retention.kept|a process stays until its time is over');
END;

CREATE INDEX actor_run_by_process ON actor_run (process_id);

-- Where the audit begins once older rows are gone: at row `seq`, which stays, with its seal. Signed, so
-- that rows which somebody took away cannot pass for rows that retention removed. Their leaves stay, in
-- tiles of audit_tile, and so does every proof over them.
CREATE TABLE audit_base (
    seq       INTEGER PRIMARY KEY CHECK (seq >= 1),
    head      BLOB    NOT NULL CHECK (length(head) = 32),
    at        INTEGER NOT NULL,                                -- ms UTC
    base_text TEXT    GENERATED ALWAYS AS
              (json_array('audit_base', seq, lower(hex(head)), at)) VIRTUAL,
    signature BLOB    NOT NULL CHECK (length(signature) = 64)
) STRICT;

CREATE TRIGGER audit_base_moves BEFORE INSERT ON audit_base
BEGIN
    SELECT RAISE(ABORT, 'audit.base|the beginning of the audit only moves forward')
     WHERE NEW.seq <= (SELECT max(seq) FROM audit_base);
    SELECT RAISE(ABORT, 'audit.base|the audit begins at a row that is sealed')
     WHERE NOT EXISTS (SELECT 1 FROM audit_seal AS s JOIN audit AS a ON a.seq = s.seq
                        WHERE s.seq = NEW.seq AND s.head = NEW.head AND a.hash = NEW.head
                          AND seal_ok('audit', s.seal_text, s.signature) = 1);
    SELECT RAISE(ABORT, 'audit.base|rows stay until the tree over them is kept in whole tiles, and signed')
     WHERE NEW.seq > coalesce((SELECT (max(n) + 1) * 256 FROM audit_tile WHERE level = 0), 0)
        OR NEW.seq > coalesce((SELECT max(size) FROM audit_checkpoint), 0);
    SELECT RAISE(ABORT, 'audit.base|rows that were not exported stay')
     WHERE NEW.seq > (SELECT sent FROM audit_sink WHERE name = 'export');
    SELECT RAISE(ABORT, 'retention.young|rows stay for as long as the setting says, and the newest for ever')
     WHERE NOT EXISTS (SELECT 1 FROM retention_cutoff WHERE entity = 'audit')
        OR EXISTS (SELECT 1 FROM audit
                    WHERE seq > coalesce((SELECT max(seq) FROM audit_base), 0) AND seq <= NEW.seq
                      AND at >= (SELECT before FROM retention_cutoff WHERE entity = 'audit'));
    SELECT RAISE(ABORT, 'audit.seal|the seal is not of this machine')
     WHERE seal_ok('audit', json_array('audit_base', NEW.seq, lower(hex(NEW.head)), NEW.at),
                   NEW.signature) IS NOT 1;
END;

CREATE TRIGGER audit_base_no_update BEFORE UPDATE ON audit_base
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|where the audit began is history');
END;

CREATE TRIGGER audit_base_no_delete BEFORE DELETE ON audit_base
BEGIN
    SELECT RAISE(ABORT, 'audit.append_only|where the audit began is history');
END;

CREATE TRIGGER audit_base_audit AFTER INSERT ON audit_base
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'audit', NEW.seq, 'pruned', '',
           json_object('before', NEW.seq, 'head', lower(hex(NEW.head)), 'days', days,
                       'exported', (SELECT sent FROM audit_sink WHERE name = 'export'))
      FROM retention_cutoff WHERE entity = 'audit';
END;

-- What was taken away may be removed here one day: who said so is history.
CREATE TRIGGER audit_sink_exported AFTER UPDATE OF sent ON audit_sink
WHEN NEW.name = 'export' AND NEW.sent IS NOT OLD.sent
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'audit', NEW.sent, 'exported', '',
            json_object('after', OLD.sent, 'to', NEW.sent));
END;

-- The next beginning: the furthest sealed row within retention.batch rows, or the next sealed one, with
-- everything up to it exported, old enough, and in whole tiles under a checkpoint.
CREATE VIEW audit_base_due AS
WITH now AS (
    SELECT c.before, b.seq AS base,
           max(b.seq + (SELECT value FROM setting WHERE name = 'retention.batch'),
               coalesce((SELECT min(seq) FROM audit_seal WHERE seq > b.seq), 0)) AS bound
      FROM retention_cutoff AS c, (SELECT coalesce(max(seq), 0) AS seq FROM audit_base) AS b
     WHERE c.entity = 'audit'),
     young AS (
    SELECT now.*, (SELECT min(seq) FROM audit
                    WHERE seq > now.base AND seq <= now.bound AND at >= now.before) AS seq
      FROM now)
SELECT s.seq, s.head
  FROM young JOIN audit_seal AS s ON s.seq > young.base AND s.seq <= young.bound
 WHERE s.seq <= (SELECT sent FROM audit_sink WHERE name = 'export')
   AND s.seq <= coalesce((SELECT (max(n) + 1) * 256 FROM audit_tile WHERE level = 0), 0)
   AND s.seq <= (SELECT max(size) FROM audit_checkpoint)
   AND (young.seq IS NULL OR s.seq < young.seq)
 ORDER BY s.seq DESC LIMIT 1;

CREATE TABLE backup (
    id      INTEGER PRIMARY KEY,
    made_at INTEGER NOT NULL,                                  -- ms UTC
    seq     INTEGER NOT NULL CHECK (seq >= 0),                 -- the last audit row in the copy
    head    BLOB    NOT NULL CHECK (length(head) = 32),        -- and its hash
    bytes   INTEGER NOT NULL CHECK (bytes > 0)
) STRICT;

CREATE TRIGGER backup_no_update BEFORE UPDATE ON backup
BEGIN
    SELECT RAISE(ABORT, 'backup.kept|which copies were taken is history');
END;

CREATE TRIGGER backup_no_delete BEFORE DELETE ON backup
BEGIN
    SELECT RAISE(ABORT, 'backup.kept|which copies were taken is history');
END;

CREATE TRIGGER backup_audit AFTER INSERT ON backup
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'backup', NEW.id, 'made', '',
            json_object('seq', NEW.seq, 'head', lower(hex(NEW.head)), 'bytes', NEW.bytes));
END;

-- This database was a copy, and took the place of another. What had ended meanwhile must not come alive
-- with it: uses that were spent, questions that were answered, factors that were dropped.
CREATE TABLE restore (
    id            INTEGER PRIMARY KEY,
    restored_at   INTEGER NOT NULL,                            -- ms UTC
    seq           INTEGER NOT NULL CHECK (seq >= 0),           -- the last audit row of the copy
    head          BLOB    NOT NULL CHECK (length(head) = 32),  -- and its hash
    replaced_seq  INTEGER,                                     -- the same of the other; NULL: it could not be read
    replaced_head BLOB    CHECK (length(replaced_head) = 32),
    -- What is still good in the other, where it goes on from this copy: {"grants": [seal], "factors":
    -- [[fingerprint, enrolled_at, last_counter]], "pairings": [[host, key, since]], "boxes": [[name, key,
    -- paired_at]]}. NULL: nothing is known of what happened since.
    live          TEXT    CHECK (live IS NULL OR json_valid(live)),
    keep_grants   INTEGER NOT NULL CHECK (keep_grants IN (0, 1)),
    keep_factors  INTEGER NOT NULL CHECK (keep_factors IN (0, 1)),
    CHECK ((replaced_seq IS NULL) = (replaced_head IS NULL)),
    CHECK (live IS NULL OR replaced_seq IS NOT NULL)
) STRICT;

CREATE TRIGGER restore_born BEFORE INSERT ON restore
BEGIN
    SELECT RAISE(ABORT, 'restore.head|a restored database begins at the head of its copy')
     WHERE NEW.seq IS NOT (SELECT coalesce(max(seq), 0) FROM audit)
        OR NEW.head IS NOT coalesce((SELECT hash FROM audit WHERE seq = NEW.seq), zeroblob(32));
END;

CREATE TRIGGER restore_no_update BEFORE UPDATE ON restore
BEGIN
    SELECT RAISE(ABORT, 'restore.kept|what was restored is history');
END;

CREATE TRIGGER restore_no_delete BEFORE DELETE ON restore
BEGIN
    SELECT RAISE(ABORT, 'restore.kept|what was restored is history');
END;

CREATE TRIGGER restore_takes_back AFTER INSERT ON restore
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'restore', NEW.id, 'restored', '',
            json_object('seq', NEW.seq, 'head', lower(hex(NEW.head)), 'replaced_seq', NEW.replaced_seq,
                        'replaced_head', lower(hex(NEW.replaced_head)),
                        'keep_grants', NEW.keep_grants, 'keep_factors', NEW.keep_factors));
    -- A question may have been answered since; the same signature would answer it again.
    UPDATE approval SET state = 'expired', decided_at = now_ms() WHERE state = 'pending';
    UPDATE invitation SET state = 'withdrawn', ended_at = now_ms() WHERE state = 'open';
    UPDATE pairing SET state = 'revoked', ended_at = now_ms()
     WHERE state <> 'revoked' AND NEW.live IS NOT NULL
       AND json_array(host_name, lower(hex(host_key)), since) NOT IN
           (SELECT value FROM json_each(NEW.live, '$.pairings'));
    UPDATE host_box SET state = 'gone', gone_at = now_ms()
     WHERE state = 'active' AND NEW.live IS NOT NULL
       AND json_array(name, lower(hex(box_key)), paired_at) NOT IN
           (SELECT value FROM json_each(NEW.live, '$.boxes'));
    UPDATE factor SET state = 'dropped', dropped_at = now_ms()
     WHERE state = 'active'
       AND CASE WHEN NEW.live IS NULL THEN NOT NEW.keep_factors
                ELSE json_array(fingerprint, enrolled_at) NOT IN
                     (SELECT json_array(value ->> 0, value ->> 1)
                        FROM json_each(NEW.live, '$.factors')) END;
    UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored'
     WHERE state = 'active'
       AND (NOT NEW.keep_grants
            OR (NEW.live IS NOT NULL AND lower(hex(seal)) NOT IN
                (SELECT value FROM json_each(NEW.live, '$.grants'))));
    -- Codes that were used, and signatures of a token that counts, are not good again.
    UPDATE factor
       SET last_counter = now_ms() / 30000 + (SELECT value FROM setting WHERE name = 'factor.steps')
     WHERE state = 'active' AND kind = 'totp' AND last_counter <
           now_ms() / 30000 + (SELECT value FROM setting WHERE name = 'factor.steps');
    UPDATE factor SET last_counter = l.value ->> 2
      FROM json_each(NEW.live, '$.factors') AS l
     WHERE state = 'active' AND kind = 'ssh'
       AND fingerprint = l.value ->> 0 AND enrolled_at = l.value ->> 1
       AND last_counter < l.value ->> 2;
END;

INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('retention.actor_run', 90, 'days', 0, 36500, 'how long runs of actors are kept, and their processes; 0: for ever'),
    ('retention.audit', 0, 'days', 0, 36500, 'how long audit rows are kept, once sealed and exported; 0: for ever'),
    ('retention.batch', 1000, 'rows', 1, 100000, 'rows that one move of a retention mark covers'),
    ('retention.bytes', 1048576, 'bytes', 1, 1073741824, 'length of the frames that retention removes in one transaction; at least one goes'),
    ('retention.call_output', 90, 'days', 0, 36500, 'how long the answers of boxes are kept; 0: for ever'),
    ('retention.factor_try', 90, 'days', 0, 36500, 'how long tries at factors are kept; 0: for ever'),
    ('retention.frames', 64, 'rows', 1, 100000, 'frames of answers that retention removes in one transaction'),
    ('retention.look_ms', 3600000, 'ms', 100, 86400000, 'how often the keeper looks for what retention removes'),
    ('retention.op_output', 90, 'days', 0, 36500, 'how long the answers of runs are kept; 0: for ever'),
    ('retention.refused', 365, 'days', 0, 36500, 'how long refused asks are kept beside the audit; 0: for ever'),
    ('store.free_pages', 1024, 'pages', 0, 10000000, 'free pages that the database keeps for what comes next'),
    ('store.vacuum_pages', 256, 'pages', 1, 100000, 'free pages that are given back to the disk in one transaction');

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('audit.base', 126, 409, 'export first: bastion audit export --mark FILE; the keeper removes what is old enough'),
    ('backup.busy', 75, 409, 'wait until the other backup has ended'),
    ('backup.exists', 3, 409, 'give another name, or replace it with --force'),
    ('backup.file', 2, 422, 'give the name of a plain file of yours in a directory that is there'),
    ('backup.kept', 126, 409, 'which copies were taken is history'),
    ('migrate.edited', 3, 409, 'use the bastion that made it, or restore a backup'),
    ('restore.chain', 3, 409, 'take another backup; see where it breaks: bastion audit verify FILE'),
    ('restore.file', 2, 422, 'name a file that bastion backup made'),
    ('restore.foreign', 3, 409, 'put the bastion.key of that machine into the state directory first'),
    ('restore.head', 1, 500, 'this is a fault in bastion: please report it'),
    ('restore.kept', 126, 409, 'what was restored is history'),
    ('retention.kept', 126, 409, 'rows go when their time is over: bastion settings'),
    ('retention.mark', 126, 409, 'only the keeper moves the marks of retention'),
    ('retention.young', 126, 409, 'see bastion settings for how long rows are kept');
