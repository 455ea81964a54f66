-- What Hosts may do now, on whose word and until when.
-- :host= only this Host
SELECT host, op, args, uses_left, expires_at, approved_by, approved_with, grant_id
  FROM host_may WHERE :host = '' OR host = :host
 ORDER BY host, op, expires_at;
