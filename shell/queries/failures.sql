-- Runs that failed, were cancelled or lost.
-- :hours=24 how far back
SELECT id, queued_at, host, op, args, state, exit_code, finished_at - queued_at AS took_ms
  FROM run_history
 WHERE state IN ('failed', 'cancelled', 'lost') AND queued_at > now_ms() - :hours * 3600000
 ORDER BY queued_at DESC, id DESC;
