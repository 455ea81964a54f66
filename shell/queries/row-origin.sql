-- Where a row came from, and who moved it last.
-- :entity as the audit calls it: grant, approval, op_run, pairing, factor, setting
-- :id the row's number or name
SELECT entity, entity_id, born_at, born_by, born_as, host, moved_at, moved_by, state, audit_rows
  FROM row_origin WHERE entity = :entity AND entity_id = CAST(:id AS TEXT);
