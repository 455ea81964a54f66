-- What this Host ordered of its boxes, or this box was ordered, and what became of it.
SELECT box AS who, kind, what, state, outcome, result, created_at AS at, ended_at FROM orders
UNION ALL
SELECT p.host_name, d.kind, coalesce(d.terms ->> '$.pid', d.terms -> '$.endpoints'), d.state, NULL,
       d.result, d.taken_at, d.ended_at
  FROM directive AS d JOIN pairing AS p ON p.id = d.pairing_id
 ORDER BY 7;
