-- invariants.sql: what must hold after every test; each row is a fault: (name, detail).
SELECT 'integrity' AS name, integrity_check AS detail FROM pragma_integrity_check WHERE integrity_check <> 'ok';
SELECT 'foreign key', "table" FROM pragma_foreign_key_check;
