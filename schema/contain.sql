-- contain.sql: processes that a Host may have stopped, on whose word, and those that are spared.

-- What a person listed: it is spared with everything beneath it.
CREATE TABLE contain_spare (
    id          INTEGER PRIMARY KEY,
    label       TEXT    NOT NULL CHECK (length(label) BETWEEN 1 AND 64 AND instr(label, char(0)) = 0),
    uid         INTEGER NOT NULL CHECK (uid BETWEEN 0 AND 4294967294),
    exe         TEXT    NOT NULL CHECK (exe GLOB '/*' AND length(CAST(exe AS BLOB)) <= 4096
                        AND instr(exe, char(0)) = 0),
    argv_sha256 BLOB    CHECK (length(argv_sha256) = 32),      -- of that very command line; NULL: any
    state       TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'dropped')),
    by_uid      INTEGER NOT NULL CHECK (by_uid >= 0),
    listed_at   INTEGER NOT NULL,
    dropped_at  INTEGER,
    CHECK ((state = 'dropped') = (dropped_at IS NOT NULL))
) STRICT;

CREATE INDEX contain_spare_live ON contain_spare (id) WHERE state = 'active';

CREATE TRIGGER contain_spare_born BEFORE INSERT ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.label|a label is 1 to 64 characters, none of them a control character')
     WHERE length(NEW.label) NOT BETWEEN 1 AND 64
        OR NEW.label GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'contain.transition|an entry of the list begins as active')
     WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'contain.listed|this process is listed already')
     WHERE EXISTS (SELECT 1 FROM contain_spare WHERE state = 'active' AND uid = NEW.uid
                      AND exe = NEW.exe AND argv_sha256 IS NEW.argv_sha256);
    SELECT RAISE(ABORT, 'contain.full|more entries than the setting contain.spared allows')
     WHERE (SELECT count(*) FROM contain_spare WHERE state = 'active')
        >= (SELECT value FROM setting WHERE name = 'contain.spared');
END;

CREATE TRIGGER contain_spare_moves BEFORE UPDATE ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.transition|an entry of the list that was dropped stays dropped')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'contain_spare' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'contain.fixed|an entry of the list keeps what it names')
     WHERE NEW.id IS NOT OLD.id OR NEW.label IS NOT OLD.label OR NEW.uid IS NOT OLD.uid
        OR NEW.exe IS NOT OLD.exe OR NEW.argv_sha256 IS NOT OLD.argv_sha256
        OR NEW.by_uid IS NOT OLD.by_uid OR NEW.listed_at IS NOT OLD.listed_at;
    -- (A list that says less lets a Host stop more.)
    SELECT RAISE(ABORT, 'contain.factor|a factor has to prove who takes an entry from the list')
     WHERE NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms());
END;

CREATE TRIGGER contain_spare_stays BEFORE DELETE ON contain_spare
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|an entry of the list is dropped, not deleted');
END;

CREATE TRIGGER contain_spare_audit_birth AFTER INSERT ON contain_spare
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_spare', NEW.id, NEW.state, '',
            json_object('label', NEW.label, 'uid', NEW.uid, 'exe', NEW.exe,
                        'argv_sha256', lower(hex(NEW.argv_sha256)), 'by', NEW.by_uid));
END;

CREATE TRIGGER contain_spare_audit_move AFTER UPDATE OF state ON contain_spare
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_spare', NEW.id, NEW.state, '', json_object('label', NEW.label));
END;

-- The whole list under one seal, so that an entry that another tool took away is missed as well.
CREATE TABLE contain_account (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    seal      BLOB    NOT NULL CHECK (length(seal) = 64),
    sealed_at INTEGER NOT NULL
) STRICT;

-- What the seal of the list of spared processes is over.
CREATE VIEW contain_account_text AS
SELECT json_array('contain-spared', json(coalesce((SELECT json_group_array(json_array(id, uid, exe,
                  lower(hex(argv_sha256)))) FROM (SELECT * FROM contain_spare WHERE state = 'active'
                  ORDER BY id)), '[]'))) AS text;

CREATE TRIGGER contain_account_fits_birth BEFORE INSERT ON contain_account
WHEN seal_ok('contain', (SELECT text FROM contain_account_text), NEW.seal) IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list');
END;

CREATE TRIGGER contain_account_fits BEFORE UPDATE ON contain_account
WHEN NEW.id IS NOT OLD.id
  OR seal_ok('contain', (SELECT text FROM contain_account_text), NEW.seal) IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list');
END;

CREATE TRIGGER contain_account_stays BEFORE DELETE ON contain_account
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|the seal of the list is replaced, not deleted');
END;

-- A person's word that a Host may have processes stopped; with agents, also one that is listed.
CREATE TABLE contain_right (
    id         INTEGER PRIMARY KEY,
    pairing_id INTEGER NOT NULL REFERENCES pairing (id),
    host_key   BLOB    NOT NULL CHECK (length(host_key) = 32),
    agents     INTEGER NOT NULL CHECK (agents IN (0, 1)),
    factor_id  INTEGER NOT NULL REFERENCES factor (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at),
    seal_text  TEXT    GENERATED ALWAYS AS
               (json_array('contain-right', pairing_id, lower(hex(host_key)), agents, factor_id, created_at,
                           expires_at)) VIRTUAL,
    seal       BLOB    NOT NULL CHECK (length(seal) = 64),
    state      TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'expired', 'dropped')),
    by_uid     INTEGER NOT NULL CHECK (by_uid >= 0),
    ended_at   INTEGER,
    end_reason TEXT    CHECK (length(end_reason) <= 128),
    CHECK ((state = 'active') = (ended_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX contain_right_once ON contain_right (pairing_id) WHERE state = 'active';

CREATE TRIGGER contain_right_on_a_persons_word BEFORE INSERT ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'pairing.invalid|this pairing is not served')
     WHERE EXISTS (SELECT 1 FROM pairing_invalid WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'pairing.inactive|this Host has no active pairing here')
     WHERE (SELECT state FROM pairing WHERE id = NEW.pairing_id) IS NOT 'active'
        OR NEW.host_key IS NOT (SELECT host_key FROM pairing WHERE id = NEW.pairing_id);
    SELECT RAISE(ABORT, 'contain.factor|a factor has to prove who allows this')
     WHERE (SELECT state FROM factor WHERE id = NEW.factor_id) IS NOT 'active'
        OR NOT EXISTS (SELECT 1 FROM factor_try WHERE outcome = 'right' AND at = now_ms())
        OR NEW.created_at <> now_ms();
    SELECT RAISE(ABORT, 'contain.ttl|this cannot be allowed for that long')
     WHERE NEW.expires_at - NEW.created_at
         > (SELECT high FROM setting WHERE name = 'contain.ttl_ms');
    SELECT RAISE(ABORT, 'contain.transition|what is allowed begins as active') WHERE NEW.state <> 'active';
    SELECT RAISE(ABORT, 'contain.seal|this seal is not of this machine, or not of this list')
     WHERE seal_ok('contain', NEW.seal_text, NEW.seal) IS NOT 1;
    UPDATE contain_right SET state = 'dropped', ended_at = now_ms(), end_reason = 'allowed anew'
     WHERE pairing_id = NEW.pairing_id AND state = 'active';
END;

CREATE TRIGGER contain_right_moves BEFORE UPDATE ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'contain.transition|what was taken back stays so')
     WHERE NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'contain_right' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'contain.fixed|what was allowed never changes')
     WHERE NEW.id IS NOT OLD.id OR NEW.pairing_id IS NOT OLD.pairing_id
        OR NEW.host_key IS NOT OLD.host_key OR NEW.agents IS NOT OLD.agents
        OR NEW.factor_id IS NOT OLD.factor_id OR NEW.created_at IS NOT OLD.created_at
        OR NEW.expires_at IS NOT OLD.expires_at OR NEW.seal IS NOT OLD.seal
        OR NEW.by_uid IS NOT OLD.by_uid;
END;

CREATE TRIGGER contain_right_stays BEFORE DELETE ON contain_right
BEGIN
    SELECT RAISE(ABORT, 'contain.kept|what was allowed is dropped, not deleted');
END;

CREATE TRIGGER contain_right_audit_birth AFTER INSERT ON contain_right
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_right', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('agents', NEW.agents, 'factor', NEW.factor_id, 'expires_at', NEW.expires_at,
                        'by', NEW.by_uid));
END;

CREATE TRIGGER contain_right_audit_move AFTER UPDATE OF state ON contain_right
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'contain_right', NEW.id, NEW.state,
            (SELECT host_name FROM pairing WHERE id = NEW.pairing_id),
            json_object('reason', NEW.end_reason));
END;

-- A restored machine is an older self: what it allowed then is allowed anew, or not at all.
CREATE TRIGGER contain_right_ends_with_restore AFTER INSERT ON restore
BEGIN
    UPDATE contain_right SET state = 'dropped', ended_at = now_ms(), end_reason = 'restored'
     WHERE state = 'active';
END;

-- Hosts that may have processes stopped now.
CREATE VIEW live_contain_rights AS
SELECT r.id, r.pairing_id, p.host_name AS host, r.agents, f.label AS factor, r.created_at, r.expires_at
  FROM contain_right AS r
  JOIN pairing AS p ON p.id = r.pairing_id AND p.state = 'active' AND p.host_key = r.host_key
  JOIN factor AS f ON f.id = r.factor_id AND f.state = 'active'
 WHERE r.state = 'active' AND r.expires_at > now_ms() AND seal_ok('contain', r.seal_text, r.seal) = 1;

-- What became of the processes that an order was about. One that stopped nothing has no kill.
CREATE TABLE contain_process (
    directive_id INTEGER NOT NULL REFERENCES directive (id),
    boot_id      TEXT    NOT NULL CHECK (length(boot_id) = 36),
    pid          INTEGER NOT NULL CHECK (pid >= 2),
    start_ticks  INTEGER NOT NULL CHECK (start_ticks >= 0),
    program      TEXT    NOT NULL CHECK (length(program) <= 64),
    uid          INTEGER NOT NULL CHECK (uid >= 0),
    fate         TEXT    NOT NULL CHECK (fate IN ('stopped', 'spared')),
    why          TEXT    NOT NULL DEFAULT '' CHECK (length(why) <= 128),    -- it was spared
    at           INTEGER NOT NULL,
    PRIMARY KEY (directive_id, pid, start_ticks)
) STRICT, WITHOUT ROWID;

-- Processes that were stopped by the order of a Host.
CREATE VIEW contain_kills AS
SELECT p.host_name AS host, c.directive_id, c.pid, c.program, c.uid, c.at
  FROM contain_process AS c JOIN directive AS d ON d.id = c.directive_id
  JOIN pairing AS p ON p.id = d.pairing_id
 WHERE c.fate = 'stopped';

CREATE TRIGGER contain_process_is_of_an_order BEFORE INSERT ON contain_process
BEGIN
    SELECT RAISE(ABORT, 'contain.order|processes are stopped by an order that is carried out now')
     WHERE (SELECT state FROM directive WHERE id = NEW.directive_id) IS NOT 'running';
END;

CREATE TRIGGER contain_process_no_update BEFORE UPDATE ON contain_process
BEGIN
    SELECT RAISE(ABORT, 'contain.order|what was stopped is history');
END;

CREATE TRIGGER contain_process_no_delete BEFORE DELETE ON contain_process
WHEN OLD.directive_id NOT IN (SELECT id FROM over_row WHERE entity = 'directive')
BEGIN
    SELECT RAISE(ABORT, 'contain.order|what was stopped is history');
END;
