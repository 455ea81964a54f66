-- host.sql: the Host role: invitations, the boxes that took one, and what was asked of them.

-- A code that one machine may pair with, once, before it expires.
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
    invitation_id INTEGER NOT NULL UNIQUE REFERENCES invitation (id),
    welcome       TEXT    CHECK (length(welcome) = 88),        -- this Host's signature of the enrollment
    state         TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'gone')),
    paired_at     INTEGER NOT NULL,
    heard_at      INTEGER,                                     -- last answer
    gone_at       INTEGER,
    lane          TEXT    CHECK (lane GLOB '/*' AND length(CAST(lane AS BLOB)) <= 103
                          AND instr(lane, char(0)) = 0),       -- 'unix': where its socket is
    peer_uid      INTEGER CHECK (peer_uid >= 0),               -- 'unix': who serves it
    endpoint      TEXT,                                        -- 'tls': where it listens
    authority     BLOB    CHECK (length(authority) BETWEEN 1 AND 8192),    -- 'tls': its own, DER
    -- 'unix': each other's sockets; 'tls': this Host dials the box; 'reverse': the box dials this Host.
    transport     TEXT    NOT NULL DEFAULT 'unix' CHECK (transport IN ('unix', 'tls', 'reverse')
                          AND (transport = 'unix') = (lane IS NOT NULL)
                          AND (transport = 'unix') = (peer_uid IS NOT NULL)
                          AND (transport = 'tls') = (endpoint IS NOT NULL)
                          AND (transport = 'tls') = (authority IS NOT NULL)),
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
    SELECT RAISE(ABORT, 'endpoint.invalid|the box listens at no host:port')
     WHERE NEW.endpoint IS NOT NULL
       AND (endpoint_text(NEW.endpoint) IS NULL OR NEW.endpoint <> endpoint_text(NEW.endpoint));
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
            json_object('box', NEW.name, 'key', lower(hex(NEW.box_key)), 'transport', NEW.transport,
                        'lane', NEW.lane, 'endpoint', NEW.endpoint));
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
    wait_ms     INTEGER CHECK (wait_ms BETWEEN 0 AND 86400000), -- for a person, on the box; NULL: not at all
    dry         INTEGER NOT NULL DEFAULT 0 CHECK (dry IN (0, 1)),     -- what would happen, and nothing does
    bounds      TEXT    CHECK (bounds IS NULL OR (json_valid(bounds) AND length(bounds) <= 4096)), -- of the grant to ask for
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

-- What a box answered to an ask, frame by frame, in order.
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

-- How each box stands. Heard: it answered this Host, within the setting box.silent_ms.
CREATE VIEW boxes AS
SELECT b.id, b.name, b.state,
       CASE WHEN b.state = 'gone' THEN 'gone'
            WHEN w.state = 'behind' THEN 'rolled back'
            WHEN w.state = 'forked' THEN 'forked'
            WHEN (SELECT up FROM box_lines WHERE id = b.id) > 0 THEN 'connected'
            WHEN b.heard_at IS NULL THEN 'not heard yet'
            WHEN b.heard_at < now_ms() - (SELECT value FROM setting WHERE name = 'box.silent_ms')
            THEN 'silent' ELSE 'heard' END AS status,
       b.paired_at, b.heard_at, b.transport,
       coalesce(b.lane, b.endpoint) AS lane,
       (SELECT count(*) FROM call AS c WHERE c.box_id = b.id) AS asks,
       CASE w.state WHEN 'followed' THEN printf('fits, %d rows', w.size)
                    WHEN 'behind' THEN 'ROLLED BACK: ' || w.why
                    WHEN 'forked' THEN 'FORKED: ' || w.why
                    WHEN 'accepted' THEN 'begins anew on a person''s word'
                    ELSE 'none shown yet' END AS audit,
       CASE WHEN b.heard_at IS NULL THEN 'never'
            WHEN now_ms() - b.heard_at < 120000 THEN max((now_ms() - b.heard_at) / 1000, 0) || ' s ago'
            WHEN now_ms() - b.heard_at < 7200000 THEN (now_ms() - b.heard_at) / 60000 || ' min ago'
            WHEN now_ms() - b.heard_at < 172800000 THEN (now_ms() - b.heard_at) / 3600000 || ' h ago'
            ELSE (now_ms() - b.heard_at) / 86400000 || ' d ago' END AS heard,
       (SELECT (SELECT group_concat(value, ', ') FROM json_each(h.beat, '$.serves'))
          FROM host_beat AS h WHERE h.box_id = b.id) AS serves   -- lanes, as it says; NULL: it does not say
  FROM host_box AS b LEFT JOIN box_witness AS w ON w.box_id = b.id;
