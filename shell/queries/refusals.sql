-- What was refused lately, why, and what would help.
-- :hours=24 how far back
-- :host= only of this Host
SELECT at, host, surface, asked, code, why, advice
  FROM refused_why
 WHERE at > now_ms() - :hours * 3600000 AND (:host = '' OR host = :host)
 ORDER BY at DESC, id DESC;
