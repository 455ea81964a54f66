-- schedule.sql: work that begins by itself: when it is due, and what became of each time.

-- A calendar or an interval, and the session that begins then, as the user who added it. next_at is
-- worked out from these by due_next() and stands here so that a clock that is set does not move it.
CREATE TABLE schedule (
    id           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 96
                         AND name GLOB '[A-Za-z0-9]*' AND name NOT GLOB '*[^A-Za-z0-9._-]*'
                         AND instr(name, char(0)) = 0),
    cron         TEXT    CHECK (length(cron) BETWEEN 1 AND 255),
    every_ms     INTEGER CHECK (every_ms BETWEEN 1000 AND 31622400000),
    zone         TEXT    NOT NULL CHECK (length(zone) BETWEEN 1 AND 64),     -- of the calendar
    missed       TEXT    NOT NULL CHECK (missed IN ('run', 'skip')),   -- once, late; or not at all
    runs_max     INTEGER NOT NULL DEFAULT 0 CHECK (runs_max BETWEEN 0 AND 1000000000),   -- 0: without end
    worker       TEXT    NOT NULL DEFAULT '',                          -- '': a command of its own
    argv         TEXT    NOT NULL CHECK (json_valid(argv) AND json_type(argv) = 'array'
                         AND json_array_length(argv) <= 256 AND length(argv) <= 65536),
    cwd          TEXT    NOT NULL CHECK (cwd GLOB '/*' AND length(CAST(cwd AS BLOB)) <= 4095
                         AND instr(cwd, char(0)) = 0),
    by_uid       INTEGER NOT NULL CHECK (by_uid >= 0),
    max_attempts INTEGER CHECK (max_attempts BETWEEN 1 AND 100),       -- NULL: as the worker has it
    state        TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'over')),
    added_at     INTEGER NOT NULL,
    start_at     INTEGER NOT NULL,                                     -- what an interval counts from
    next_at      INTEGER,
    last_at      INTEGER,                                              -- the newest time that came, in this round
    seen_at      INTEGER NOT NULL,                                     -- when next_at was worked out
    round        INTEGER NOT NULL DEFAULT 0,                           -- how often the clock was set far back
    runs         INTEGER NOT NULL DEFAULT 0,
    skips        INTEGER NOT NULL DEFAULT 0,
    CHECK ((cron IS NULL) <> (every_ms IS NULL)),
    CHECK ((state = 'active') = (next_at IS NOT NULL)),
    CHECK (runs_max = 0 OR runs <= runs_max)
) STRICT;

CREATE INDEX schedule_next ON schedule (next_at) WHERE state = 'active';

CREATE TRIGGER schedule_is_allowed BEFORE INSERT ON schedule
BEGIN
    SELECT RAISE(ABORT, 'schedule.name|the name of a schedule is up to 96 letters, digits, dots, dashes and underscores')
     WHERE length(NEW.name) NOT BETWEEN 1 AND 96 OR NEW.name NOT GLOB '[A-Za-z0-9]*'
        OR NEW.name GLOB '*[^A-Za-z0-9._-]*' OR instr(NEW.name, char(0)) > 0;
    SELECT RAISE(ABORT, 'schedule.exists|there is a schedule of this name')
     WHERE EXISTS (SELECT 1 FROM schedule WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'schedule.full|there are as many schedules as the setting schedule.max allows')
     WHERE (SELECT count(*) FROM schedule) >= (SELECT value FROM setting WHERE name = 'schedule.max');
    SELECT RAISE(ABORT, 'schedule.when|a schedule has a calendar or an interval')
     WHERE (NEW.cron IS NULL) = (NEW.every_ms IS NULL);
    SELECT refuse('schedule.cron', cron_fault(NEW.cron), 0) WHERE cron_fault(NEW.cron) IS NOT NULL;
    SELECT RAISE(ABORT, 'schedule.zone|there is no such time zone')
     WHERE due_next('* * * * *', NEW.zone, NULL, 0, 0) IS NULL;
    SELECT RAISE(ABORT, 'schedule.every|an interval is from one second to a leap year')
     WHERE NEW.every_ms NOT BETWEEN 1000 AND 31622400000;
    SELECT RAISE(ABORT, 'schedule.runs|it runs a number of times, or, with 0, without end')
     WHERE NEW.runs_max NOT BETWEEN 0 AND 1000000000;
    SELECT RAISE(ABORT, 'schedule.start|an interval begins now or later, within a leap year, and a calendar has its own times')
     WHERE NEW.start_at NOT BETWEEN now_ms() AND now_ms() + iif(NEW.cron IS NULL, 31622400000, 0);
    SELECT RAISE(ABORT, 'schedule.never|this calendar has no time in the next fifty years')
     WHERE due_next(NEW.cron, NEW.zone, NEW.every_ms, NEW.start_at, NEW.start_at - 1) IS NULL;
    SELECT RAISE(ABORT, 'worker.unknown|there is no worker of this name')
     WHERE NEW.worker <> '' AND NOT EXISTS (SELECT 1 FROM worker WHERE name = NEW.worker);
    SELECT RAISE(ABORT, 'worker.argv|a worker is a program and its arguments, each without a NUL')
     WHERE EXISTS (SELECT 1 FROM json_each(NEW.argv)
                    WHERE type <> 'text' OR instr(value, char(0)) > 0)
        OR (NEW.worker = '' AND coalesce(NEW.argv ->> 0, '') = '');
    SELECT RAISE(ABORT, 'schedule.transition|a schedule begins as active, with nothing behind it')
     WHERE NEW.state <> 'active' OR NEW.runs <> 0 OR NEW.skips <> 0 OR NEW.round <> 0
        OR NEW.last_at IS NOT NULL OR NEW.added_at <> now_ms() OR NEW.seen_at <> now_ms()
        OR NEW.next_at IS NOT due_next(NEW.cron, NEW.zone, NEW.every_ms, NEW.start_at, NEW.start_at - 1);
END;

-- Its times come one after the other, none twice and none left out in silence.
CREATE TRIGGER schedule_moves BEFORE UPDATE ON schedule
BEGIN
    SELECT RAISE(ABORT, 'schedule.over|this schedule has had all its times') WHERE OLD.state = 'over';
    SELECT RAISE(ABORT, 'schedule.transition|a schedule cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'schedule' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'schedule.fixed|a schedule keeps what it was added with')
     WHERE NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.cron IS NOT OLD.cron
        OR NEW.every_ms IS NOT OLD.every_ms OR NEW.zone IS NOT OLD.zone OR NEW.missed IS NOT OLD.missed
        OR NEW.runs_max IS NOT OLD.runs_max OR NEW.worker IS NOT OLD.worker OR NEW.argv IS NOT OLD.argv
        OR NEW.cwd IS NOT OLD.cwd OR NEW.by_uid IS NOT OLD.by_uid
        OR NEW.max_attempts IS NOT OLD.max_attempts OR NEW.added_at IS NOT OLD.added_at
        OR NEW.start_at IS NOT OLD.start_at;
    SELECT RAISE(ABORT, 'schedule.fixed|what ran and what was left out only grows')
     WHERE NEW.runs < OLD.runs OR NEW.skips < OLD.skips OR NEW.round < OLD.round;
    SELECT RAISE(ABORT, 'schedule.due|the next time of a schedule is one of its own, and a later one')
     WHERE NEW.next_at IS NOT NULL AND NEW.next_at IS NOT OLD.next_at
       AND (NEW.next_at IS NOT due_next(NEW.cron, NEW.zone, NEW.every_ms, NEW.start_at, NEW.next_at - 1)
            OR NEW.next_at <= coalesce(NEW.last_at, -1)
            OR (NEW.round = OLD.round AND NEW.last_at IS NULL AND OLD.last_at IS NOT NULL));
    SELECT RAISE(ABORT, 'schedule.due|a time that a schedule has goes by with a row of its own')
     WHERE NEW.next_at IS NOT OLD.next_at AND OLD.next_at IS NOT NULL AND NEW.state <> 'paused'
       AND NEW.round = OLD.round
       AND NOT EXISTS (SELECT 1 FROM firing WHERE schedule_id = OLD.id AND round = OLD.round
                          AND due_at = OLD.next_at AND by_hand = 0);
    SELECT RAISE(ABORT, 'schedule.round|the clock was not set back so far')
     WHERE NEW.round <> OLD.round
       AND (NEW.round <> OLD.round + 1 OR NEW.last_at IS NOT NULL
            OR NOT EXISTS (SELECT 1 FROM schedule_set_back WHERE id = OLD.id));
END;

CREATE TRIGGER schedule_goes BEFORE DELETE ON schedule
BEGIN
    DELETE FROM firing WHERE schedule_id = OLD.id;
END;

CREATE TRIGGER schedule_audit_birth AFTER INSERT ON schedule
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'cron', NEW.cron, 'every_ms', NEW.every_ms, 'zone', NEW.zone,
                        'missed', NEW.missed, 'worker', NEW.worker, 'uid', NEW.by_uid,
                        'command', (SELECT group_concat(value, ' ') FROM json_each(NEW.argv))));
END;

CREATE TRIGGER schedule_audit_move AFTER UPDATE OF state ON schedule WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'runs', NEW.runs, 'skips', NEW.skips));
END;

CREATE TRIGGER schedule_audit_round AFTER UPDATE OF round ON schedule WHEN NEW.round <> OLD.round
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', NEW.id, NEW.state, '',
            json_object('name', NEW.name, 'why', 'the clock was set back', 'was_due', OLD.next_at,
                        'next_at', NEW.next_at));
END;

CREATE TRIGGER schedule_audit_end AFTER DELETE ON schedule
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('management', 'schedule', OLD.id, 'removed', '', json_object('name', OLD.name));
END;

-- One time of a schedule that came. Its session, its row and the next time of its schedule are one transaction, so
-- each time has exactly one row, whoever dies when, and a time that was left out says why.
CREATE TABLE firing (
    id          INTEGER PRIMARY KEY,
    schedule_id INTEGER NOT NULL REFERENCES schedule (id),
    round       INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    by_hand     INTEGER NOT NULL DEFAULT 0 CHECK (by_hand IN (0, 1)),
    fired_at    INTEGER NOT NULL,
    session     TEXT    NOT NULL DEFAULT '',                   -- its name; the session may be gone by now
    state       TEXT    NOT NULL CHECK (state IN ('running', 'skipped', 'done', 'failed', 'cancelled')),
    why         TEXT    NOT NULL DEFAULT '' CHECK (length(why) <= 64),   -- a code of refusal
    ended_at    INTEGER,
    UNIQUE (schedule_id, round, due_at, by_hand),
    CHECK ((state = 'running') = (ended_at IS NULL)),
    CHECK ((state = 'skipped') = (session = '')),
    CHECK ((state = 'skipped') = (why <> ''))
) STRICT;

-- Two at once of one schedule there are never.
CREATE UNIQUE INDEX firing_one_live ON firing (schedule_id) WHERE ended_at IS NULL;
CREATE INDEX firing_session ON firing (session) WHERE ended_at IS NULL;

CREATE TRIGGER firing_is_allowed BEFORE INSERT ON firing
BEGIN
    SELECT CASE
           WHEN s.id IS NULL
           THEN RAISE(ABORT, 'schedule.unknown|there is no schedule of this name')
           WHEN NEW.fired_at IS NOT now_ms() OR NEW.round IS NOT s.round
             OR NEW.state NOT IN ('running', 'skipped')
           THEN RAISE(ABORT, 'schedule.transition|a time comes now, and runs or is left out')
           WHEN NEW.by_hand AND (NEW.state <> 'running' OR NEW.due_at <> now_ms())
           THEN RAISE(ABORT, 'schedule.transition|what a person asks for is now, or refused')
           WHEN NOT NEW.by_hand AND s.state <> 'active'
           THEN RAISE(ABORT, 'schedule.paused|this schedule has no next time')
           WHEN NOT NEW.by_hand AND NEW.due_at IS NOT s.next_at
           THEN RAISE(ABORT, 'schedule.due|this is not the next time of its schedule')
           WHEN NOT NEW.by_hand AND NEW.due_at > now_ms()
           THEN RAISE(ABORT, 'schedule.early|this time has not come yet')
           WHEN NEW.state = 'running'
            AND EXISTS (SELECT 1 FROM firing WHERE schedule_id = NEW.schedule_id AND ended_at IS NULL)
           THEN RAISE(ABORT, 'schedule.overlap|what this schedule began before still runs')
           WHEN NEW.state = 'running' AND NOT NEW.by_hand AND d.why = 'schedule.missed'
           THEN RAISE(ABORT, 'schedule.missed|this time was missed, and the schedule leaves such out')
           WHEN NEW.state = 'skipped' AND d.why <> '' AND NEW.why <> d.why
           THEN RAISE(ABORT, 'schedule.transition|a time is left out for the reason there is')
           WHEN NEW.state = 'skipped' AND d.why = '' AND NOT EXISTS (SELECT 1 FROM refusal
                WHERE code = NEW.why AND code <> 'session.offline'
                  AND (code GLOB 'session.*' OR code GLOB 'worker.*'))
           THEN RAISE(ABORT, 'schedule.transition|a time is left out because its session was refused')
           WHEN NEW.state = 'running' AND NOT EXISTS (SELECT 1 FROM session WHERE name = NEW.session
                AND state = 'queued' AND queued_at = now_ms() AND by_uid = s.by_uid
                AND worker = s.worker AND cwd = s.cwd)
           THEN RAISE(ABORT, 'schedule.transition|the session of a schedule is begun with it, as it says')
           END
      FROM (SELECT 1) AS asked LEFT JOIN schedule AS s ON s.id = NEW.schedule_id
      LEFT JOIN schedule_due AS d ON d.id = s.id;
END;

-- The schedule goes on to its next time, or to its end. Of what was missed all but the first are
-- passed over; where those are left out, one that is not late yet is not among them.
CREATE TRIGGER firing_moves_schedule AFTER INSERT ON firing WHEN NEW.by_hand = 0
BEGIN
    UPDATE schedule
       SET last_at = NEW.due_at, seen_at = now_ms(), runs = v.runs, skips = skips + (NEW.state = 'skipped'),
           next_at = iif(v.over, NULL, v.next_at), state = iif(v.over, 'over', state)
      FROM (SELECT n.runs, n.next_at, n.next_at IS NULL OR (n.runs_max > 0 AND n.runs >= n.runs_max) AS over
              FROM (SELECT s.runs_max, s.runs + (NEW.state = 'running') AS runs,
                           due_next(s.cron, s.zone, s.every_ms, s.start_at,
                                    iif(NEW.why = 'schedule.missed',
                                        max(NEW.due_at, now_ms() - (SELECT value FROM setting
                                            WHERE name = 'schedule.late_ms')), now_ms())) AS next_at
                      FROM schedule AS s WHERE s.id = NEW.schedule_id) AS n) AS v
     WHERE id = NEW.schedule_id;
END;

CREATE TRIGGER firing_is_kept AFTER INSERT ON firing
BEGIN
    DELETE FROM firing
     WHERE id IN (SELECT id FROM firing WHERE schedule_id = NEW.schedule_id AND ended_at IS NOT NULL
                   ORDER BY id DESC
                   LIMIT -1 OFFSET (SELECT value FROM setting WHERE name = 'schedule.kept'));
END;

CREATE TRIGGER firing_moves BEFORE UPDATE ON firing
BEGIN
    SELECT RAISE(ABORT, 'schedule.transition|a time of a schedule cannot make this move')
     WHERE NEW.state IS NOT OLD.state AND NOT EXISTS (SELECT 1 FROM state_rule
           WHERE entity = 'firing' AND from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'schedule.fixed|a time that came is history')
     WHERE OLD.ended_at IS NOT NULL OR NEW.id IS NOT OLD.id OR NEW.schedule_id IS NOT OLD.schedule_id
        OR NEW.round IS NOT OLD.round OR NEW.due_at IS NOT OLD.due_at OR NEW.by_hand IS NOT OLD.by_hand
        OR NEW.fired_at IS NOT OLD.fired_at OR NEW.session IS NOT OLD.session;
END;

CREATE TRIGGER firing_audit_birth AFTER INSERT ON firing
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'firing', NEW.id, NEW.state, '',
            json_object('schedule', (SELECT name FROM schedule WHERE id = NEW.schedule_id),
                        'due_at', NEW.due_at, 'late_ms', NEW.fired_at - NEW.due_at,
                        'by_hand', NEW.by_hand, 'session', NEW.session, 'why', NEW.why));
END;

CREATE TRIGGER firing_audit_move AFTER UPDATE OF state ON firing WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)
    VALUES ('op', 'firing', NEW.id, NEW.state, '', json_object('session', NEW.session));
END;

-- Which times have come, and why is one to be left out ('': it is not)? Only while a daemon takes work.
CREATE VIEW schedule_due AS
SELECT s.id, s.next_at AS due_at, s.round, s.name, s.worker, s.argv, s.cwd, s.by_uid, s.max_attempts,
       CASE WHEN s.missed = 'skip' AND s.next_at < now_ms()
                 - (SELECT value FROM setting WHERE name = 'schedule.late_ms') THEN 'schedule.missed'
            WHEN EXISTS (SELECT 1 FROM firing AS f WHERE f.schedule_id = s.id AND f.ended_at IS NULL)
            THEN 'schedule.overlap'
            ELSE '' END AS why
  FROM schedule AS s
 WHERE s.state = 'active' AND s.next_at <= now_ms()
   AND EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready');

-- Whose clock was set back so far that it is taken at its word? A calendar waits for a clock that was
-- set back a little to catch up; an interval no longer than itself.
CREATE VIEW schedule_set_back AS
SELECT s.id, due_next(s.cron, s.zone, s.every_ms, s.start_at, now_ms()
                + iif(s.every_ms IS NOT NULL AND s.last_at IS NULL, s.next_at - s.seen_at - 1, 0)) AS next_at
  FROM schedule AS s
 WHERE s.state = 'active'
   AND max(s.seen_at, coalesce(s.last_at, 0))
       > now_ms() + min(coalesce(s.every_ms, 9000000000000000), (SELECT value FROM setting WHERE name = 'schedule.back_ms'));

-- What begins by itself, when next, and how did it go last?
CREATE VIEW schedules AS
SELECT s.id, s.name, coalesce(s.cron, CASE WHEN s.every_ms % 86400000 = 0 THEN 'every ' || (s.every_ms / 86400000) || 'd'
                              WHEN s.every_ms % 3600000 = 0 THEN 'every ' || (s.every_ms / 3600000) || 'h'
                              WHEN s.every_ms % 60000 = 0 THEN 'every ' || (s.every_ms / 60000) || 'm'
                              ELSE printf('every %gs', s.every_ms / 1000.0) END) AS "when",
       iif(s.cron IS NULL, '', s.zone) AS zone, s.state, s.next_at, f.state AS last, f.fired_at AS last_at, f.session,
       f.why, s.runs, s.skips
  FROM schedule AS s
  LEFT JOIN firing AS f ON f.id = (SELECT max(id) FROM firing WHERE schedule_id = s.id);
