-- Rules that had a gap: what a restore brings back, whose a rule is, which program was meant; held Hosts and old times.

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('egress.names', 75, 503, 'try again in a moment, or raise the setting egress.lookups');
