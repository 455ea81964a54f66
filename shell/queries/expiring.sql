-- What ends by itself soon, first things first.
-- :minutes=60 how far ahead
SELECT kind, id, name, what, expires_at, (expires_at - now_ms()) / 1000 AS seconds_left
  FROM expiring WHERE expires_at <= now_ms() + :minutes * 60000
 ORDER BY expires_at;
