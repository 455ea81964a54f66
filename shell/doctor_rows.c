/* doctor_rows.c: what the database itself knows to be wrong, or worth saying. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shell/doctor_part.h"

#define LOG_MOST 67108864 /* bytes: twice what the log grows to before it is folded */

/* Check, level, what, advice. */
static const char COMPLAINTS[] =
    "SELECT 'daemon', iif(alive, 0, 2), CASE WHEN alive THEN printf('%s, pid %d', state, pid)"
    "    ELSE 'the last one died without a word' END,"
    "    iif(alive, '', 'start it: bastion serve; it says what was lost')"
    "  FROM (SELECT i.state, p.pid, process_alive(p.boot_id, p.pid, p.start_ticks) AS alive"
    "          FROM instance AS i JOIN process AS p ON p.id = i.process_id"
    "         WHERE i.state IN ('starting', 'ready', 'draining'))"
    " UNION ALL SELECT 'daemon', 2, 'it does not run', iif((SELECT role FROM box) = 'host',"
    "    'start it: bastion host serve', 'start it: bastion serve')"
    "  WHERE NOT EXISTS (SELECT 1 FROM instance WHERE state IN ('starting', 'ready', 'draining'))"
    " UNION ALL SELECT 'actors', 1, printf('%s was started %d times by this daemon', actor,"
    "    max(attempt)), 'see why in its log: journalctl -u bastion'"
    "  FROM actor_run WHERE instance_id = (SELECT id FROM live_instance)"
    "  GROUP BY actor HAVING max(attempt) > 3"
    " UNION ALL SELECT 'approving', 1, 'no factor is enrolled, so nobody can approve anything',"
    "    'bastion factor add totp'"
    "  WHERE (SELECT role FROM box) = 'box'"
    "    AND NOT EXISTS (SELECT 1 FROM factor WHERE state = 'active')"
    " UNION ALL SELECT 'pairings', 1, printf('%s is not served: %s', host, reason),"
    "    'mend it: bastion pair --replace CODE; or end it: bastion unpair ' || host"
    "  FROM pairing_status WHERE state = 'invalid'"
    " UNION ALL SELECT 'anchor', 2, 'on a network, without an anchor in force: nothing is answered',"
    "    'bastion pairings; then bastion claim-anchor'"
    "  WHERE (SELECT mode FROM box) = 'networked' AND NOT EXISTS (SELECT 1 FROM live_anchor)"
    " UNION ALL SELECT 'boxes', 2, printf('%s: %s', name, audit), 'bastion help host accept'"
    "  FROM boxes WHERE state = 'active' AND (audit GLOB 'ROLLED*' OR audit GLOB 'FORKED*')"
    " UNION ALL SELECT 'audit', 1, printf('%d rows wait for the system log, %d were dropped',"
    "    (SELECT count(*) FROM audit_outbox), (SELECT dropped FROM audit_drop)),"
    "    'see that a system log listens at /dev/log'"
    "  WHERE (SELECT count(*) FROM audit_outbox)"
    "        > (SELECT value / 2 FROM setting WHERE name = 'audit.outbox')"
    " UNION ALL SELECT 'audit', 1, 'it was not sealed for longer than it should be',"
    "    'see that the keeper runs: bastion status'"
    "  WHERE EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready')"
    "    AND (SELECT min(at) FROM audit"
    "          WHERE seq > (SELECT coalesce(max(seq), 0) FROM audit_seal))"
    "        < now_ms() - 3 * (SELECT value FROM setting WHERE name = 'audit.seal_ms')"
    " UNION ALL SELECT 'clock', 2, 'the newest row of the audit is of a later time than now',"
    "    'set the clock right'"
    "  WHERE (SELECT at FROM audit ORDER BY seq DESC LIMIT 1) > now_ms() + 60000"
    " UNION ALL SELECT 'sessions', 2, printf('%d processes of sessions that were lost live on',"
    "    count(*)), 'start the daemon anew: it ends them'"
    "  FROM session_survivors HAVING count(*) > 0"
    " UNION ALL SELECT 'schedules', iif(late, 2, 0), iif(late,"
    "    printf('%s is due since %d s, and has not begun', name, (now_ms() - next_at) / 1000),"
    "    printf('%d begin by themselves, the next in %d s', n, max(0, next_at - now_ms()) / 1000)),"
    "    iif(late, 'see why in the log of the worker: journalctl -u bastion', '')"
    "  FROM (SELECT name, min(next_at) AS next_at, count(*) AS n, min(next_at) < now_ms()"
    "          - (SELECT sum(value) FROM setting WHERE name IN ('schedule.late_ms', 'store.tick_ms')) AS late"
    "          FROM schedule WHERE state = 'active' AND EXISTS"
    "               (SELECT 1 FROM live_instance WHERE state = 'ready')) WHERE n > 0"
    " UNION ALL SELECT 'schedules', 1, printf('%s: the last time %s', s.name,"
    "    iif(f.state = 'failed', 'failed', 'was left out (' || f.why || ')')),"
    "    iif(f.state = 'failed', 'bastion session logs ' || f.session, 'bastion schedule log ' || s.name)"
    "  FROM schedule AS s JOIN firing AS f ON f.id = (SELECT max(id) FROM firing"
    "    WHERE schedule_id = s.id AND by_hand = 0 AND ended_at IS NOT NULL)"
    " WHERE s.state = 'active' AND (f.state = 'failed' OR (f.state = 'skipped'"
    "    AND f.why NOT IN ('schedule.overlap', 'schedule.missed')))"
    " UNION ALL SELECT 'certificates', CASE WHEN left < 0 THEN 2 WHEN left < 30 THEN 1 ELSE 0 END,"
    "    CASE WHEN left < 0 THEN printf('the %s ran out %d days ago', what, -left)"
    "         ELSE printf('the %s is good for %d days', what, left) END,"
    "    CASE WHEN left >= 30 THEN '' WHEN what = 'authority of this machine'"
    "         THEN 'pair anew under another: boxes and Hosts keep the one that they pinned'"
    "         ELSE 'see that the link actor runs, which renews it: bastion status' END"
    "  FROM (SELECT 'authority of this machine' AS what, (not_after - now_ms()) / 86400000 AS left"
    "          FROM tls_authority)"
    " UNION ALL SELECT 'certificates', iif(not_after <= now_ms(), 2, 1),"
    "    printf('the certificate of this machine as %s%s %s', use, coalesce(' of ' || (SELECT host_name"
    "      FROM pairing WHERE id = pairing_id), ''), iif(not_after <= now_ms(), 'ran out',"
    "      'should have been renewed by now')),"
    "    'see that the link actor runs, and reaches the Host: bastion pairings'"
    "  FROM tls_identity WHERE state = 'current' AND not_after - now_ms() < (not_after - not_before) / 10"
    " UNION ALL SELECT 'lines', 1, printf('%s was not reached for %d s: %s', d.host,"
    "    (now_ms() - coalesce(l.changed_at, now_ms())) / 1000, coalesce(l.why, 'not tried yet')),"
    "    'bastion pairings'"
    "  FROM pairing_dialled AS d LEFT JOIN pairing_line AS l ON l.pairing_id = d.pairing_id"
    "  WHERE coalesce(l.up, 0) = 0 AND EXISTS (SELECT 1 FROM live_instance WHERE state = 'ready')"
    " UNION ALL SELECT 'backups', 1, 'none was ever taken', 'bastion backup FILE'"
    "  WHERE NOT EXISTS (SELECT 1 FROM backup)"
    " UNION ALL SELECT 'backups', iif(age > 30, 1, 0), printf('the last is %d days old', age),"
    "    iif(age > 30, 'bastion backup FILE', '')"
    "  FROM (SELECT (now_ms() - max(made_at)) / 86400000 AS age FROM backup) WHERE age IS NOT NULL";

static const char WORKERS[] = "SELECT name, argv ->> 0 FROM worker ORDER BY name";

static void
look_complaints(struct doctor *d)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(d->cli->db, COMPLAINTS)) == NULL) {
		doctor_note_refusal(d, "database", DOCTOR_BAD, store_refusal(d->cli->db));
		return;
	}
	while ((n = stmt_step(q)) == 1)
		doctor_note(d, stmt_get_text(q, 0), (enum doctor_level)stmt_get_int(q, 1),
		    stmt_get_text(q, 3), "%s", stmt_get_text(q, 2));
	if (n == -1)
		doctor_note_refusal(d, "database", DOCTOR_BAD, store_refusal(d->cli->db));
}

/* Is there such a program, where sessions look for it? */
static bool
found(const char *program)
{
	static const char *const places[] = {
	    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};
	char path[4352];
	struct stat st;
	size_t i;

	if (strchr(program, '/') != NULL) /* one that is not absolute depends on where it runs */
		return program[0] != '/' ||
		       (stat(program, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0);
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", places[i], program);
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0)
			return true;
	}
	return false;
}

static void
look_workers(struct doctor *d)
{
	struct stmt *q;

	if ((q = store_sql(d->cli->db, WORKERS)) == NULL)
		return;
	while (stmt_step(q) == 1)
		if (!found(stmt_get_text(q, 1)))
			doctor_note(d, "workers", DOCTOR_WARN,
			    "install it, or add the worker anew with its whole path",
			    "%s: there is no program %s", stmt_get_text(q, 0), stmt_get_text(q, 1));
}

/* Whoever reads for minutes, or was stopped while he read, keeps the log from being taken back. */
static void
look_log(struct doctor *d)
{
	struct stat st;

	if (fstatat(d->cli->home.fd, "bastion.db-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_size > LOG_MOST)
		doctor_note(d, "log", DOCTOR_WARN,
		    "see who reads since when: bastion sql .who; continue that process, or end it",
		    "the log of the database has grown to %lld MiB: a reader keeps it",
		    (long long)st.st_size / 1048576);
}

void
doctor_rows(struct doctor *d)
{
	look_log(d);
	look_complaints(d);
	look_workers(d);
}
