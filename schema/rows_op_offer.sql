-- rows_op_offer.sql: what a Host asks a box for its added ops, and how much of them it takes.
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('catalog.every_ms', 5000, 'ms', 0, 86400000, 'how often a box is asked for the ops that were added there, over time; ten asks may come together'),
    ('catalog.ops', 256, 'rows', 0, 10000, 'ops that were added at a box and that a Host takes'),
    ('catalog.retry_ms', 60000, 'ms', 0, 86400000, 'how long a box whose list was not taken is not asked for it again');
INSERT INTO op (name, class, usage, summary) VALUES
    ('op:list', 'own', '', 'the ops that were added here, with what they take');
INSERT INTO op_result (op, schema) VALUES
    ('op:list', '{"type":"object","properties":{"ops":{"type":"integer","description":"lines of the text beside this, a JSON object each"},"digest":{"type":"string","description":"SHA-256 of that text"}},"required":["ops","digest"]}');
INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('catalog.size', 3, 502, 'raise the setting catalog.ops, or look at what was added at the box');
