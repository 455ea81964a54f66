-- Rules that had a gap: what a restore brings back, whose a rule is, which program was meant; held Hosts and old times.

INSERT INTO refusal (code, exit_code, http_status, advice) VALUES
    ('store.place', 3, 500, 'name it from the root: BASTION_STATE="$PWD/state"; empty or unset is the default');
