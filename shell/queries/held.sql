-- Which Hosts are held for asking too often for what they may not, and until when.
SELECT host, strikes, from_at, until_at FROM held_pairings ORDER BY until_at, host;
