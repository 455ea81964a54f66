-- Workers on a lane, models asked by name, manifests that reach out; states that end are kept their time and no longer.

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('run.within', 2, 409, 'leave out what the message names, or start it outside');
