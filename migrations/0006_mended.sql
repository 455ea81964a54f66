-- Rules that had a gap: what a restore brings back, whose a rule is, which program was meant; held Hosts and old times.

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('box.offline', 75, 503, 'start its daemon there: bastion serve; or have it paired anew where it is now');

UPDATE refusal SET exit_code = 75 WHERE code = 'call.offline';
UPDATE refusal SET exit_code = 75 WHERE code = 'context.offline';
