-- merkle.sql: the hash tree over the audit, its signed checkpoints, and the words to search by.

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
