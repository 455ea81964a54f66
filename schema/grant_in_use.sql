-- grant_in_use.sql: grants that are used up, but hold what is under way.

-- Those that hold connections of the internet lane. They can be taken back still, and so end with who approved them.
CREATE VIEW grant_in_use AS
SELECT DISTINCT g.id, g.factor_id
  FROM egress_flow AS f JOIN egress_use AS u ON u.flow_id = f.id JOIN op_run AS r ON r.id = u.op_run_id
  JOIN grant AS g ON g.id = r.grant_id
 WHERE f.ended_at IS NULL AND f.pairing_id IS NOT NULL AND g.state = 'spent';

CREATE TRIGGER grant_spent_drops BEFORE UPDATE OF state ON grant WHEN OLD.state = 'spent' AND NEW.state = 'dropped'
BEGIN
    SELECT RAISE(ABORT, 'grant.spent|this grant is used up, and holds nothing that is under way')
     WHERE OLD.id NOT IN (SELECT id FROM grant_in_use);
END;

CREATE TRIGGER grant_in_use_ends_with_factor AFTER UPDATE OF state ON factor
WHEN NEW.state = 'dropped' AND OLD.state <> 'dropped'
BEGIN
    UPDATE grant SET state = 'dropped', ended_at = NEW.dropped_at, end_reason = 'approver dropped'
     WHERE id IN (SELECT id FROM grant_in_use WHERE factor_id = NEW.id);
END;
