-- rows_op_manifest.sql: limits, refusals and moves of ops that a person adds.
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('manifest.file', 67108864, 'bytes', 4096, 1073741824, 'longest program, or interpreter, of an added op'),
    ('manifest.built', 33554432, 'bytes', 4096, 268435456, 'longest program that the builder of an added op makes: it is kept in the database'),
    ('root.tasks', 96, 'tasks', 8, 100000, 'processes and threads of a command as root'),
    ('manifest.live', 256, 'rows', 1, 10000, 'added ops at once'),
    ('manifest.changes', 500, 'rows', 1, 10000, 'changes that the answer of a program lists');
INSERT INTO op (name, class, usage, summary) VALUES
    ('root:exec', 'root', 'COMMAND', 'run a command as root by sh -c, in exactly the words that a person approved');
INSERT INTO op_param (op, position, name, type, needed, low, high, pattern, fallback, doc) VALUES
    ('root:exec', 1, 'command', 'string', 1, 1, 4095, NULL, NULL, 'what sh runs, as root and without a sandbox');
INSERT INTO op_result (op, schema) VALUES
    ('root:exec', '{"type":"object","properties":{"exit":{"type":"integer"},"tasks_capped":{"type":"boolean","description":"proven by the kernel before it began"},"notes":{"type":"array","items":{"type":"string"}}},"required":["exit","tasks_capped","notes"]}');
INSERT INTO state_rule (entity, from_state, to_state) VALUES
    ('op_manifest', '', 'active'),
    ('op_manifest', 'active', 'replaced'),
    ('op_manifest', 'active', 'dropped');
INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('manifest.build', 3, 422, 'see what the builder said; try it with bastion sandbox try'),
    ('manifest.builder', 2, 422, 'name it as ["/usr/bin/cc", "-O2", "-o", "$out", "$in"]'),
    ('manifest.changed', 3, 409, 'look at what changed in the file; then add the op anew: bastion op add'),
    ('manifest.credential', 2, 422, 'see bastion token ls for the tokens that there are, and what each is for'),
    ('manifest.destination', 2, 422, 'name each as it is to be reached: "api.example.com:443"'),
    ('act.credential', 3, 501, 'have a person add that token: bastion token add'),
    ('op.lane', 3, 503, 'see bastion status for whether the actor egress runs; then ask again'),
    ('op.place', 3, 501, 'mount a tmpfs at /dev/shm, which is where credentials of runs lie'),
    ('op.owner', 126, 403, 'have the Host that asked for it take it back'),
    -- No code goes: what was refused by it remembers it.
    ('manifest.later', 2, 422, 'add it again: this was refused by an older bastion'),
    ('manifest.edited', 126, 409, 'have a person add the op anew: bastion op add'),
    ('manifest.factor', 126, 403, 'prove it with a code, or an SSH signature over what --bytes prints'),
    ('manifest.file', 3, 422, 'name a file that can be read, within the setting manifest.file'),
    ('manifest.fixed', 126, 409, 'add the op anew: bastion op add'),
    ('manifest.form', 2, 422, 'see bastion help op for what a manifest is'),
    ('manifest.full', 126, 409, 'drop some first: bastion op ls'),
    ('manifest.kept', 126, 409, 'drop it: bastion op rm'),
    ('manifest.member', 2, 422, 'see bastion help op for what a manifest is'),
    ('manifest.name', 2, 422, 'name it as run:backup_site'),
    ('manifest.none', 2, 422, 'leave that out, or name an interpreter and a program'),
    ('manifest.params', 2, 422, 'see bastion help op for what a param is'),
    ('manifest.paths', 2, 422, 'name them in full, without links'),
    ('manifest.program', 2, 422, 'name it in full'),
    ('manifest.replaced', 126, 409, 'ask again: what was asked for waited until the op was another one'),
    ('manifest.script', 2, 422, 'name its interpreter: then that is sealed as well'),
    ('manifest.seal', 1, 500, 'add it with the verb: bastion op add'),
    ('manifest.sealed', 1, 500, 'add it with the verb: bastion op add'),
    ('manifest.summary', 2, 422, 'say in a line what it does'),
    ('manifest.time', 2, 422, 'shorten it, or raise the setting act.time_ms'),
    ('manifest.transition', 1, 500, 'add it with the verb: bastion op add'),
    ('manifest.unknown', 2, 404, 'see bastion op ls'),
    ('manifest.verbs', 2, 422, 'see bastion ops verbs for their ops'),
    ('root.authority', 3, 501, 'run the box''s daemon as root'),
    ('root.exact', 2, 422, 'ask for the command as it is to run'),
    ('policy.held', 126, 403, 'see bastion sandbox policy, and bastion sandbox explain for what it says');
