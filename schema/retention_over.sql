-- retention_over.sql: orders, terms and holds that are over go after their time, and what still counts never.

-- Up to where orders of a Host are gone here. What ran out by then is never taken again, whatever this clock says later.
CREATE TABLE directive_gone (
    pairing_id INTEGER PRIMARY KEY REFERENCES pairing (id),
    expires_to INTEGER NOT NULL
) STRICT;

CREATE TRIGGER directive_gone_grows BEFORE UPDATE ON directive_gone
WHEN NEW.pairing_id IS NOT OLD.pairing_id OR NEW.expires_to < OLD.expires_to
BEGIN
    SELECT RAISE(ABORT, 'retention.mark|a mark only moves forward');
END;

CREATE TRIGGER directive_gone_stays BEFORE DELETE ON directive_gone
BEGIN
    SELECT RAISE(ABORT, 'retention.mark|a mark only moves forward');
END;

-- What ended before this may go. No row: it is kept for ever.
CREATE VIEW over_cutoff AS
SELECT substr(name, 11) AS entity, now_ms() - value * 86400000 AS before, value AS days
  FROM setting
 WHERE name IN ('retention.directive', 'retention.host_order', 'retention.host_terms', 'retention.quarantine')
   AND value > 0;

-- Rows that retention may take away. Not: the newest, whose number would be given again; an order that its Host has not heard the end of;
-- one that has not run out; what a box took of this Host while they are paired; the newest look at it; a Host's newest hold,
-- from which its strikes are counted and its next hold is measured.
CREATE VIEW over_row (entity, id) AS
SELECT 'directive', d.id
  FROM directive AS d JOIN over_cutoff AS c ON c.entity = 'directive'
 WHERE d.ended_at < c.before AND d.expires_at < c.before AND d.id <> (SELECT max(id) FROM directive)
   AND NOT EXISTS (SELECT 1 FROM directive_untold AS u JOIN pairing AS p ON p.id = u.pairing_id
                    WHERE u.directive_id = d.id AND p.state <> 'revoked')
 UNION ALL
SELECT 'host_order', o.id
  FROM host_order AS o JOIN over_cutoff AS c ON c.entity = 'host_order'
 WHERE o.ended_at < c.before AND o.expires_at < c.before AND o.id <> (SELECT max(id) FROM host_order)
 UNION ALL
SELECT 'host_terms', t.id
  FROM host_terms AS t JOIN over_cutoff AS c ON c.entity = 'host_terms' JOIN host_box AS b ON b.id = t.box_id
 WHERE t.finished_at < c.before AND t.id <> (SELECT max(id) FROM host_terms)
   AND (t.state <> 'taken' OR b.state = 'gone'
     OR (t.terms IS NULL AND t.id <> (SELECT max(id) FROM host_terms
                                       WHERE box_id = t.box_id AND terms IS NULL AND state = 'taken')))
 UNION ALL
SELECT 'quarantine', q.id
  FROM quarantine AS q JOIN over_cutoff AS c ON c.entity = 'quarantine'
 WHERE q.ended_at < c.before AND q.id <> (SELECT max(id) FROM quarantine WHERE pairing_id = q.pairing_id);

-- The next of them, the oldest first, as many as one transaction may take. Deleting from here removes them.
CREATE VIEW over_due AS
SELECT entity, max(id) AS gone_to, count(*) AS n
  FROM (SELECT entity, id, row_number() OVER (PARTITION BY entity ORDER BY id) AS place FROM over_row)
 WHERE place <= (SELECT value FROM setting WHERE name = 'retention.batch')
 GROUP BY entity;

CREATE TRIGGER over_due_goes INSTEAD OF DELETE ON over_due
BEGIN
    INSERT INTO directive_gone (pairing_id, expires_to)
    SELECT pairing_id, max(expires_at) FROM directive
     WHERE OLD.entity = 'directive' AND id <= OLD.gone_to
       AND id IN (SELECT id FROM over_row WHERE entity = 'directive') GROUP BY pairing_id
        ON CONFLICT DO UPDATE SET expires_to = excluded.expires_to WHERE excluded.expires_to > expires_to;
    DELETE FROM contain_process
     WHERE OLD.entity = 'directive' AND directive_id <= OLD.gone_to
       AND directive_id IN (SELECT id FROM over_row WHERE entity = 'directive');
    DELETE FROM directive_untold
     WHERE OLD.entity = 'directive' AND directive_id <= OLD.gone_to
       AND directive_id IN (SELECT id FROM over_row WHERE entity = 'directive');
    DELETE FROM directive
     WHERE OLD.entity = 'directive' AND id <= OLD.gone_to AND id IN (SELECT id FROM over_row WHERE entity = 'directive');
    DELETE FROM host_order
     WHERE OLD.entity = 'host_order' AND id <= OLD.gone_to AND id IN (SELECT id FROM over_row WHERE entity = 'host_order');
    DELETE FROM host_terms
     WHERE OLD.entity = 'host_terms' AND id <= OLD.gone_to AND id IN (SELECT id FROM over_row WHERE entity = 'host_terms');
    DELETE FROM quarantine
     WHERE OLD.entity = 'quarantine' AND id <= OLD.gone_to AND id IN (SELECT id FROM over_row WHERE entity = 'quarantine');
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    SELECT 'management', 'retention', OLD.entity, 'removed', '',
           json_object('rows', OLD.n, 'to', OLD.gone_to, 'days', days)
      FROM over_cutoff WHERE entity = OLD.entity;
END;
