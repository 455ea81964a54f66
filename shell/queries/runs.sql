-- What ran lately, how it ended, and who approved it.
-- :minutes=60 how far back
-- :host= only for this Host
SELECT id, queued_at, host, op, args, state, exit_code, finished_at - queued_at AS took_ms,
       approved_by, approved_with, grant_id
  FROM run_history
 WHERE queued_at > now_ms() - :minutes * 60000 AND (:host = '' OR host = :host)
 ORDER BY queued_at DESC, id DESC;
