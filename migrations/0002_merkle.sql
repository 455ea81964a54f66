-- merkle: a hash tree beside the audit's chain, its checkpoints, words to search by, and what Hosts hold of boxes.

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
