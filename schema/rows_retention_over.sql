-- rows_retention_over.sql: how long what is over is kept.
INSERT INTO setting (name, value, unit, low, high, doc) VALUES
    ('retention.directive', 365, 'days', 0, 36500, 'how long orders of Hosts are kept once they are over, with the processes that they were about; 0: for ever'),
    ('retention.host_order', 365, 'days', 0, 36500, 'how long orders of this Host are kept once they are over; 0: for ever'),
    ('retention.host_terms', 365, 'days', 0, 36500, 'how long terms that no box took, or that a box took that is gone, are kept; 0: for ever'),
    ('retention.quarantine', 365, 'days', 0, 36500, 'how long holds of Hosts are kept once they are over; the newest of each stays; 0: for ever');
