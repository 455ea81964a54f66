/* doctor.c: the checks of bastion doctor. */
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/library.h"
#include "net/http/unixclient.h"
#include "shell/doctor.h"

#define WHAT_MAX    512
#define MIB         INT64_C(1048576)
#define ROOM_BAD    (32 * MIB)  /* what a busy hour writes */
#define ROOM_WARN   (512 * MIB) /* and a busy day */
#define DIAL_MS     2000
#define SPARE_FILES 128 /* descriptors that a daemon needs beside its connections */

/* Level, what, advice: what the database itself knows to be wrong, or worth saying. */
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
    " UNION ALL SELECT 'backups', 1, 'none was ever taken', 'bastion backup FILE'"
    "  WHERE NOT EXISTS (SELECT 1 FROM backup)"
    " UNION ALL SELECT 'backups', iif(age > 30, 1, 0), printf('the last is %d days old', age),"
    "    iif(age > 30, 'bastion backup FILE', '')"
    "  FROM (SELECT (now_ms() - max(made_at)) / 86400000 AS age FROM backup) WHERE age IS NOT NULL";

static const char IDENTITY[] = "SELECT identity_key FROM box";

struct doctor {
	struct cli *cli;
	bool deep;
	void (*tell)(void *ctx, const struct doctor_finding *finding);
	void *ctx;
};

static void __attribute__((format(printf, 5, 6))) note(struct doctor *d, const char *check,
    enum doctor_level level, const char *advice, const char *fmt, ...)
{
	char what[WHAT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	d->tell(d->ctx, &(struct doctor_finding){check, level, what, advice});
}

/* What a refusal says, with its own advice. */
static void
note_refusal(struct doctor *d, const char *check, enum doctor_level level, const struct refusal *r)
{
	char advice[REFUSAL_WHY_MAX];

	cli_advice(d->cli, r->code, advice);
	note(d, check, level, advice, "%s [%s]", r->why, r->code);
}

static void
look_directory(struct doctor *d)
{
	const struct home *home = &d->cli->home;
	enum doctor_level level;
	struct statvfs fs;
	int64_t room;

	if (fstatvfs(home->fd, &fs) == -1) {
		note(d, "disk", DOCTOR_BAD, "", "%s: %s", home->state, strerror(errno));
		return;
	}
	room = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize / MIB * MIB;
	level = room < ROOM_BAD ? DOCTOR_BAD : room < ROOM_WARN ? DOCTOR_WARN : DOCTOR_OK;
	note(d, "disk", level,
	    level == DOCTOR_OK ? "" : "make room: nothing runs that cannot be recorded",
	    "%" PRId64 " MB are free at %s", room / MIB, home->state);
}

static void
look_key(struct doctor *d)
{
	uint8_t pk[KEY_PUBLIC_SIZE];
	struct refusal r = {0};
	const void *known;
	char path[PATH_MAX];
	struct stmt *q;
	struct key *key;

	home_path(&d->cli->home, "bastion.key", path);
	if ((key = key_load(path, &r)) == NULL) {
		/* Another user's key is theirs to look at. */
		note_refusal(
		    d, "key", geteuid() == d->cli->home.owner ? DOCTOR_BAD : DOCTOR_WARN, &r);
		return;
	}
	key_public(key, KEY_IDENTITY, pk);
	key_free(key);
	if (d->cli->db == NULL || (q = store_sql(d->cli->db, IDENTITY)) == NULL ||
	    stmt_step(q) != 1)
		return;
	known = stmt_get_blob(q, 0, sizeof(pk));
	if (known != NULL && memcmp(known, pk, sizeof(pk)) == 0)
		note(d, "key", DOCTOR_OK, "", "this machine's");
	else
		note(d, "key", DOCTOR_BAD, "put the key of this database in its place",
		    "it is another machine's than the database");
	stmt_done(q);
}

/* What was read, where SQLite finds fault with it. */
static void
look_pages(struct doctor *d)
{
	struct stmt *q;

	if ((q = store_sql(d->cli->db, "SELECT * FROM pragma_quick_check(1)")) == NULL ||
	    stmt_step(q) != 1) {
		note_refusal(d, "pages", DOCTOR_BAD, store_refusal(d->cli->db));
		return;
	}
	if (strcmp(stmt_get_text(q, 0), "ok") == 0)
		note(d, "pages", DOCTOR_OK, "", "every page of the database is sound");
	else
		note(d, "pages", DOCTOR_BAD, "bastion restore BACKUP", "%s", stmt_get_text(q, 0));
	stmt_done(q);
}

static void
look_rows(struct doctor *d)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(d->cli->db, COMPLAINTS)) == NULL) {
		note_refusal(d, "database", DOCTOR_BAD, store_refusal(d->cli->db));
		return;
	}
	while ((n = stmt_step(q)) == 1)
		note(d, stmt_get_text(q, 0), (enum doctor_level)stmt_get_int(q, 1),
		    stmt_get_text(q, 3), "%s", stmt_get_text(q, 2));
	if (n == -1)
		note_refusal(d, "database", DOCTOR_BAD, store_refusal(d->cli->db));
}

/* Only where a daemon should answer there. */
static void
look_socket(struct doctor *d)
{
	struct home *home = &d->cli->home;
	struct unixclient c = {.fd = -1};
	struct refusal r = {0};
	char path[HOME_RUN_MAX + 16];
	int status = -1;

	if (stmt_value(
		store_sql(d->cli->db, "SELECT count(*) FROM live_instance WHERE state = 'ready'"),
		0) != 1)
		return;
	snprintf(path, sizeof(path), "%s/control.sock", home->run);
	if (unixclient_dial(&c, path, home->owner, unixclient_now() + DIAL_MS, &r) == 0)
		status = unixclient_ask(&c, "GET", "/v1/status", NULL, 0, &r);
	unixclient_close(&c);
	if (status == 200)
		note(d, "socket", DOCTOR_OK, "", "%s answers", path);
	else if (status == -1)
		note_refusal(d, "socket", DOCTOR_BAD, &r);
	else
		note(d, "socket", DOCTOR_BAD, "bastion status", "%s answers with %d", path, status);
}

static void
look_store(struct doctor *d)
{
	struct cli *cli = d->cli;

	if ((cli->db = store_open(&cli->home, ROLE_READER, NULL, &cli->refusal)) == NULL) {
		note_refusal(d, "database", DOCTOR_BAD, &cli->refusal);
		return;
	}
	note(d, "database", DOCTOR_OK, "", "schema version %" PRId64 ", as this build knows it",
	    stmt_value(store_sql(cli->db, "PRAGMA user_version"), -1));
	if (d->deep)
		look_pages(d);
}

static void
look_files(struct doctor *d)
{
	struct rlimit limit;
	int64_t wanted = SPARE_FILES;

	if (d->cli->db != NULL)
		wanted += store_setting(d->cli->db, "http.connections");
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_max == RLIM_INFINITY || (int64_t)limit.rlim_max >= wanted)
		note(d, "descriptors", DOCTOR_OK, "", "a process may have %" PRIu64,
		    (uint64_t)limit.rlim_max);
	else
		note(d, "descriptors", DOCTOR_WARN,
		    "raise LimitNOFILE of the unit, or lower the setting http.connections",
		    "a process may have %" PRIu64 ", and the connections allowed want %" PRId64,
		    (uint64_t)limit.rlim_max, wanted);
}

static void
look_clock(struct doctor *d)
{
	struct timex tx = {.modes = 0};

	if (adjtimex(&tx) == -1 || (tx.status & STA_UNSYNC) != 0)
		note(d, "clock", DOCTOR_WARN, "let NTP set it: timedatectl set-ntp true",
		    "nothing keeps it right, and codes and signed asks go by it");
	else
		note(d, "clock", DOCTOR_OK, "", "kept right by the system");
}

/* Whether an ordinary program may make a user namespace: tried, in a process of its own. */
static bool
namespaces_work(void)
{
	int status = 1;
	pid_t pid;

	if ((pid = fork()) == 0)
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) == 0 ? 0
											      : 1);
	return pid != -1 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

static void
look_kernel(struct doctor *d)
{
	long landlock = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, 1U);
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0U);

	if (namespaces_work())
		note(d, "namespaces", DOCTOR_OK, "",
		    "user, mount, pid and network namespaces can be made");
	else
		note(d, "namespaces", DOCTOR_WARN,
		    "look at user.max_user_namespaces, kernel.unprivileged_userns_clone and"
		    " kernel.apparmor_restrict_unprivileged_userns (sysctl)",
		    "this system lets this user make none, so nothing can be put in a sandbox");
	if (landlock >= 1)
		note(d, "landlock", DOCTOR_OK, "", "version %ld", landlock);
	else
		note(d, "landlock", DOCTOR_WARN,
		    "boot a kernel of 5.13 or later with landlock in lsm=",
		    "this kernel has none: sandboxes do with one layer less");
	if (pidfd == -1)
		note(d, "pidfd", DOCTOR_BAD, "boot a kernel of 5.3 or later",
		    "this kernel cannot name a process for good");
	else
		close(pidfd);
}

static void
look_cgroups(struct doctor *d)
{
	char text[512] = "";
	FILE *f;

	if ((f = fopen("/sys/fs/cgroup/cgroup.controllers", "re")) != NULL) {
		if (fgets(text, sizeof(text), f) == NULL)
			text[0] = '\0';
		fclose(f);
	}
	if (strstr(text, "pids") != NULL)
		note(d, "cgroups", DOCTOR_OK, "", "version 2, with pids");
	else if (access("/sys/fs/cgroup/pids/tasks", F_OK) == 0)
		note(d, "cgroups", DOCTOR_OK, "", "version 1, with pids");
	else
		note(d, "cgroups", DOCTOR_WARN,
		    "boot with systemd, or mount a cgroup hierarchy with pids",
		    "no hierarchy counts tasks here, so what runs is capped by rlimits alone");
}

static void
look_libraries(struct doctor *d)
{
	static const struct {
		const char *file, *package, *use;
	} wanted[] = {
	    {"libcurl.so.4", "libcurl4", "asking others"},
	    {"libmicrohttpd.so.12", "libmicrohttpd12", "serving"},
	    {"libssl.so.3", "libssl3", "TLS"},
	    {"libedit.so.2", "libedit2", "line editing in bastion sql"},
	};
	static const struct library_symbol none[] = {{NULL, 0}};
	struct refusal r = {0};
	size_t i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (library_load(wanted[i].file, wanted[i].package, none, NULL, &r) != 0)
			note(d, "libraries", i < 3 ? DOCTOR_BAD : DOCTOR_WARN, "apt-get install it",
			    "%s is missing, for %s (Debian package %s)", wanted[i].file,
			    wanted[i].use, wanted[i].package);
}

void
doctor_look(struct cli *cli, bool deep,
    void (*tell)(void *ctx, const struct doctor_finding *finding), void *ctx)
{
	struct doctor d = {cli, deep, tell, ctx};

	look_libraries(&d);
	if (home_open(&cli->home, cli->role, false, &cli->refusal) != 0) {
		note_refusal(&d, "state", DOCTOR_BAD, &cli->refusal);
	} else {
		look_directory(&d);
		look_store(&d);
		look_key(&d);
	}
	if (cli->db != NULL) {
		look_rows(&d);
		look_socket(&d);
	}
	look_files(&d);
	look_clock(&d);
	look_kernel(&d);
	look_cgroups(&d);
}
