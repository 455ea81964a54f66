-- rows_line.sql: limits and refusals of the lines between boxes and Hosts, and of beats on their way.
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('beat.every_ms', 60000, 'ms', 1000, 3600000, 'how often a box tells its Host how it is'),
    ('beat.time_ms', 30000, 'ms', 100, 600000, 'how long a Host may take to answer that'),
    ('line.answer_ms', 10000, 'ms', 100, 600000, 'how long a Host may take to accept a line, once it was reached'),
    ('line.busy_ms', 60000, 'ms', 0, 3600000, 'how long an ask waits while every line of its box is in use'),
    ('line.cap_ms', 60000, 'ms', 100, 3600000, 'longest wait before a Host that fails is dialled again'),
    ('line.connect_ms', 10000, 'ms', 100, 600000, 'how long one endpoint of a Host may take to be reached'),
    ('line.connections', 4, 'rows', 1, 64, 'lines that a box keeps up to each Host'),
    ('line.first_ms', 1000, 'ms', 10, 3600000, 'first wait before a Host that fails is dialled again; it doubles'),
    ('line.per_box', 8, 'rows', 1, 64, 'lines of one box that a Host takes'),
    ('line.ping_ms', 20000, 'ms', 100, 3600000, 'how long a line may be idle before the box is asked for a sign of life'),
    ('line.ping_wait_ms', 10000, 'ms', 100, 600000, 'how long that sign may take'),
    ('line.steady_ms', 10000, 'ms', 100, 3600000, 'a line that lived that long was a good one, and is dialled anew at once'),
    ('line.wait_ms', 10000, 'ms', 0, 3600000, 'how long an ask waits for a box that is to dial in'),
    ('tls.retry_ms', 600000, 'ms', 100, 86400000, 'how long a certificate that could not be renewed waits for the next try');
INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('beat.stale', 126, 409, 'set the clock of the box'),
    ('beat.unheard', 1, 502, 'see the log of the Host'),
    ('box.unpaired', 126, 403, 'pair the box with this Host'),
    ('lane.line', 126, 403, 'ask on a connection of your own'),
    ('pairing.unserved', 126, 403, 'see bastion pairings for how it stands');
