-- rows_op.sql: the op catalog; engine/worker/observe.c has a handler for each, and a test compares.
INSERT INTO op (name, class, usage, summary) VALUES
    ('observe:folders', 'observe', 'PATH [DEPTH 1..3]', 'the largest folders below a path, as du -x counts'),
    ('observe:journal', 'observe', 'UNIT [MINUTES 1..60]', 'what a systemd unit logged lately'),
    ('observe:logins', 'observe', '[HOURS 1..168]', 'failed and accepted SSH logins'),
    ('observe:services', 'observe', '[all | failed | running]', 'the services that systemd has loaded, and how they are'),
    ('observe:timers', 'observe', '', 'the timers of systemd: when they ran and when they run next'),
    ('observe:listeners', 'observe', '', 'the TCP and UDP sockets that wait for others, and whose they are'),
    ('observe:packages', 'observe', '[PREFIX | *]', 'the Debian packages that are installed, with their versions'),
    ('observe:firewall', 'observe', '', 'the chains of the packet filter: their hooks, policies and numbers of rules'),
    ('observe:load', 'observe', '', 'how long this machine is up, its load, memory and swap'),
    ('observe:disks', 'observe', '', 'the file systems that are mounted, and how full they are'),
    ('observe:users', 'observe', '', 'the accounts of the password file: who can log in, who administers'),
    ('observe:processes', 'observe', '[OWNER]', 'how many processes each account runs, or those of one account'),
    ('observe:kernel', 'observe', '[MINUTES 1..1440]', 'what the kernel logged lately'),
    ('grant:list', 'own', '', 'what this Host may do here, within which bounds, and when next'),
    ('grant:drop', 'own', 'GRANT | all', 'give back a grant of this Host, or all of them'),
    ('observe:cert', 'observe', 'PORT [SERVER NAME]', 'the certificate that a local TLS listener presents');
INSERT INTO audit_sink (name, sent) VALUES ('export', 0), ('system-log', 0);
