-- Rules that had a gap: what a restore brings back, whose a rule is, which program was meant; held Hosts and old times.

DROP TRIGGER egress_within_born;

CREATE TRIGGER egress_within_born BEFORE INSERT ON egress_within
BEGIN
    SELECT CASE
           WHEN (SELECT state || verdict FROM egress_rule WHERE id = NEW.rule_id) IS NOT 'activeallow'
           THEN RAISE(ABORT, 'egress.narrow|only what is allowed can be narrowed')
           WHEN NEW.method <> '*' AND (NEW.method GLOB '*[^A-Z]*' OR NEW.method = 'CONNECT')
           THEN RAISE(ABORT, 'egress.narrow|a method is a word in capital letters, such as GET')
           WHEN NEW.path <> '*' AND NEW.path NOT GLOB '/*'
           THEN RAISE(ABORT, 'egress.narrow|a path begins with /; * stands for any characters')
           WHEN NEW.path GLOB '*[?#]*' OR instr(NEW.path, '[') > 0 OR NEW.path GLOB '*[^!-~]*'
           THEN RAISE(ABORT, 'egress.narrow|a path has neither query nor brackets; * stands for any characters')
           WHEN NEW.token_id IS NOT NULL
            AND (SELECT state FROM token WHERE id = NEW.token_id) IS NOT 'active'
           THEN RAISE(ABORT, 'token.unknown|there is no such token')
           WHEN NEW.token_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM token_host AS h JOIN egress_rule AS r ON r.id = NEW.rule_id
                             WHERE h.token_id = NEW.token_id
                               AND (h.suffix = r.suffix OR r.suffix GLOB '*.' || h.suffix))
           THEN RAISE(ABORT, 'token.host|this token is not for that host, so it is never sent there')
           WHEN (SELECT count(*) FROM egress_within WHERE rule_id = NEW.rule_id)
             >= (SELECT value FROM setting WHERE name = 'egress.within')
           THEN RAISE(ABORT, 'egress.many|a rule says as much of requests as the setting egress.within allows')
           END;
END;

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('egress.narrow', 2, 422, 'for example: bastion egress allow api.example.com --method GET --path ''/repos/*'''),
    ('file.missing', 2, 422, 'name one that is there and that you may read'),
    ('file.write', 2, 422, 'name a new file, in a folder that is there and that you may write to');

UPDATE refusal SET advice = 'give words, "words in a row", begin*, OR between two, NOT before one to leave it out' WHERE code = 'audit.search';
UPDATE refusal SET exit_code = 3 WHERE code = 'context.exists';
UPDATE refusal SET exit_code = 3 WHERE code = 'egress.exists';
UPDATE refusal SET exit_code = 2 WHERE code = 'egress.unknown_rule';
UPDATE refusal SET exit_code = 2, advice = 'give one address or name, a colon and a port each, as host.example.org:7443' WHERE code = 'endpoint.invalid';
UPDATE refusal SET advice = 'end the other first: bastion stop (a Host''s: bastion stop --host); or give this one a state of its own' WHERE code = 'instance.running';
UPDATE refusal SET exit_code = 2 WHERE code = 'token.unknown';
UPDATE refusal SET advice = 'see bastion help for the verbs, and bastion help with one of them' WHERE code = 'usage.wrong';
