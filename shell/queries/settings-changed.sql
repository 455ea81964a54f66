-- Limits that were changed, when, by whom, from what to what.
SELECT at, who, entity_id AS setting, body ->> 'from' AS was, body ->> 'to' AS became
  FROM audit WHERE entity = 'setting' AND action = 'changed'
 ORDER BY seq DESC;
