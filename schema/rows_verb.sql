-- rows_verb.sql: the verbs; engine/worker/probe.c looks for the tool of each, and a test compares.
INSERT INTO verb (name, op, tool) VALUES
    ('file.put', 'file:put', NULL),
    ('file.move', 'file:move', NULL),
    ('service.restart', 'service:restart', 'systemctl'),
    ('tree.checkout', 'tree:checkout', 'git'),
    ('package.install', 'package:install', 'apt-get'),
    ('user.lock', 'user:lock', 'usermod');
INSERT INTO verb (name, op, tool, dials, declares) VALUES
    ('git.fetch', 'git:fetch', 'git', 1, 1),
    ('k8s.set_image', 'k8s:set_image', 'kubectl', 1, 1),
    ('container.pull', 'container:pull', 'skopeo', 1, 0);
