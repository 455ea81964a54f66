-- base.sql: what every other family stands on: limits, refusals, the moves of state machines.

-- Each applied migration, with the digest of its text and of the schema that it left.
CREATE TABLE schema_step (
    version    INTEGER PRIMARY KEY CHECK (version >= 1),
    name       TEXT    NOT NULL,
    sha256     BLOB    NOT NULL CHECK (length(sha256) = 32),
    applied_at INTEGER NOT NULL                                -- ms UTC
) STRICT;

CREATE TRIGGER schema_step_is_history BEFORE UPDATE ON schema_step
BEGIN
    SELECT RAISE(ABORT, 'schema.step|an applied migration is history');
END;

-- Every limit of the product. C asks for a row by name; a number in C would be a second truth.
CREATE TABLE setting (
    name  TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
    value INTEGER NOT NULL,
    unit  TEXT    NOT NULL,
    low   INTEGER NOT NULL,
    high  INTEGER NOT NULL,
    doc   TEXT    NOT NULL,
    CHECK (value BETWEEN low AND high)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER setting_only_value_moves BEFORE UPDATE ON setting
WHEN NEW.name IS NOT OLD.name OR NEW.unit IS NOT OLD.unit OR NEW.low IS NOT OLD.low
  OR NEW.high IS NOT OLD.high OR NEW.doc IS NOT OLD.doc
BEGIN
    SELECT RAISE(ABORT, 'setting.fixed|only the value of a setting may change');
END;

CREATE TRIGGER setting_stays BEFORE DELETE ON setting
BEGIN
    SELECT RAISE(ABORT, 'setting.fixed|a setting is not deleted');
END;

-- What a refused caller is told, the same on every surface. RAISE texts are 'code|why'.
CREATE TABLE refusal (
    code        TEXT    PRIMARY KEY CHECK (code GLOB '[a-z]*.[a-z]*'),
    exit_code   INTEGER NOT NULL CHECK (exit_code BETWEEN 1 AND 127),
    http_status INTEGER NOT NULL CHECK (http_status BETWEEN 400 AND 599),
    advice      TEXT    NOT NULL                               -- what to do next
) STRICT, WITHOUT ROWID;

-- Which moves between states there are. from_state '' is birth; a state with no row leading out is final.
CREATE TABLE state_rule (
    entity     TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    PRIMARY KEY (entity, from_state, to_state)
) STRICT, WITHOUT ROWID;
