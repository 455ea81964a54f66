-- verb.sql: what changes this machine, what that needs, and whether it is here.

CREATE TABLE verb (
    name TEXT PRIMARY KEY CHECK (name GLOB '[a-z]*.[a-z]*'),
    op   TEXT NOT NULL UNIQUE REFERENCES op (name),
    tool TEXT,                                                 -- the program that it needs; NULL: none
    dials    INTEGER NOT NULL DEFAULT 0 CHECK (dials IN (0, 1)),   -- it reaches out: verb_dial.sql
    declares INTEGER CHECK (declares BETWEEN 0 AND 1),         -- the argument that may say where to, from 0 on
    CHECK (declares IS NULL OR dials)
) STRICT, WITHOUT ROWID;

-- What the worker found when it started: of each op, whether this machine has the programs that it needs.
-- Nothing here yet: nobody has looked, and nothing is held up.
CREATE TABLE op_probe (
    op        TEXT    PRIMARY KEY REFERENCES op (name),
    works     INTEGER NOT NULL CHECK (works IN (0, 1)),
    why       TEXT    NOT NULL CHECK (length(why) <= 512),     -- what is missing; '' where it works
    probed_at INTEGER NOT NULL,
    CHECK (works = (why = ''))
) STRICT, WITHOUT ROWID;

-- What a machine says of itself to a Host: each verb, also one whose tool is missing.
CREATE VIEW verb_report AS
SELECT v.name, v.op, v.tool, p.works, p.why, p.probed_at
  FROM verb AS v LEFT JOIN op_probe AS p ON p.op = v.op;
