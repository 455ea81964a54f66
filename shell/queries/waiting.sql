-- What waits for a person, and what they type to answer it.
-- :host= only of this Host
SELECT kind, id, host, what, asked_at, expires_at, answer
  FROM waiting WHERE :host = '' OR host = :host
 ORDER BY asked_at;
