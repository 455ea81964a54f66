-- Questions of Hosts that nobody has answered yet, oldest first.
-- :host= only of this Host
SELECT id, host, op, args, uses, ttl_ms / 1000 AS seconds, asked_at, expires_at
  FROM open_approvals WHERE :host = '' OR host = :host
 ORDER BY asked_at;
