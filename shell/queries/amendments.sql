-- What persons changed with bastion sql -w, why, and on what proof.
-- :days=30 how far back
SELECT a.id, a.asked_at, a.state, a.reason, a.statement, a.changes, a.decided_by, f.label AS factor
  FROM amendment AS a LEFT JOIN factor AS f ON f.id = a.factor_id
 WHERE a.asked_at > now_ms() - :days * 86400000
 ORDER BY a.id DESC;
