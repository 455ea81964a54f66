-- rows_op.sql: the op catalog; engine/worker/observe.c has a handler for each, and a test compares.
INSERT INTO op (name, class, usage, summary) VALUES
    ('observe:folders', 'observe', 'PATH [DEPTH 1..3]', 'the largest folders below a path, as du -x counts'),
    ('observe:journal', 'observe', 'UNIT [MINUTES 1..60]', 'what a systemd unit logged lately'),
    ('observe:logins', 'observe', '[HOURS 1..168]', 'failed and accepted SSH logins'),
    ('grant:list', 'own', '', 'what this Host may do here, within which bounds, and when next'),
    ('grant:drop', 'own', 'GRANT | all', 'give back a grant of this Host, or all of them'),
    ('observe:cert', 'observe', 'PORT [SERVER NAME]', 'the certificate that a local TLS listener presents');
INSERT INTO audit_sink (name, sent) VALUES ('export', 0), ('system-log', 0);
