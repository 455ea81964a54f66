-- rows_policy.sql: what the policy of tools is made of, and what holds where nobody said anything.
INSERT INTO policy_field (name, kind, fallback, hardens, doc) VALUES
    ('ask_unclear', 'bool', '1', 1, 'ask where the text of a command does not say what it runs, also where nobody else would be asked'),
    ('auto_allow_shell', 'bool', '0', 0, 'allow shell commands that a sandbox holds, without asking'),
    ('deny_destructive_shell', 'bool', '1', 1, 'hold commands that destroy what cannot be brought back'),
    ('enforce_tool_network', 'bool', '0', 1, 'hold network tools to the policy as well, not shell commands alone'),
    ('enforce_workspace', 'bool', '1', 1, 'hold paths to the workspace and the directories added to it'),
    ('max_autonomy', 'autonomy', 'high', 0, 'the autonomy up to which nobody is asked'),
    ('mode', 'mode', 'enforce', 0, 'enforce, or disabled: then everything is allowed'),
    ('network', 'network', 'deny', 0, 'deny, allow, or scoped: to the allowed domains alone'),
    ('on_destructive', 'answer', 'deny', 0, 'deny or prompt: what becomes of a destructive command'),
    ('on_network', 'answer', 'deny', 0, 'deny or prompt: what becomes of a command that uses a network it may not');

INSERT INTO gate (ord, name, asks) VALUES
    (1, 'cancelled', 'whether the ask still stands'),
    (3, 'autonomy', 'how much autonomy it is asked with'),
    (4, 'risk', 'what it would do'),
    (5, 'mode', 'whether the policy is enforced'),
    (6, 'permission', 'whether the tool itself is denied'),
    (7, 'paths', 'whether a path breaks the lists or leaves the workspace'),
    (8, 'network', 'whether it uses a network that it may not'),
    (9, 'destructive', 'whether it destroys'),
    (10, 'denied', 'whether a person always denies it'),
    (11, 'unclear', 'whether its text says what it runs'),
    (12, 'allowed', 'whether a person always allows it'),
    (13, 'tool', 'whether the tool itself is allowed'),
    (14, 'sandboxed', 'whether a sandbox holds it, and the policy takes that'),
    (15, 'answered', 'whether a person said yes to it, or the session asks nobody'),
    (16, 'otherwise', 'nothing: a person is asked');
