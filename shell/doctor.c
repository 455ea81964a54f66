/* doctor.c: the checks of bastion doctor: libraries, state, database, key; and the others in turn.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/library.h"
#include "shell/doctor_part.h"

#define WHAT_MAX    512
#define MIB         INT64_C(1048576)
#define ROOM_BAD    (32 * MIB)  /* what a busy hour writes */
#define ROOM_WARN   (512 * MIB) /* and a busy day */
#define INODES_WARN 10000

static const char IDENTITY[] = "SELECT identity_key FROM box";

void
doctor_note(struct doctor *d, const char *check, enum doctor_level level, const char *advice,
    const char *fmt, ...)
{
	char what[WHAT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	d->tell(d->ctx, &(struct doctor_finding){check, level, what, advice});
}

void
doctor_note_refusal(
    struct doctor *d, const char *check, enum doctor_level level, const struct refusal *r)
{
	char advice[REFUSAL_WHY_MAX];

	cli_advice(d->cli, r->code, advice);
	doctor_note(d, check, level, advice, "%s [%s]", r->why, r->code);
}

static void
look_directory(struct doctor *d)
{
	const struct home *home = &d->cli->home;
	enum doctor_level level;
	struct statvfs fs;
	int64_t room;

	if (fstatvfs(home->fd, &fs) == -1) {
		doctor_note(d, "disk", DOCTOR_BAD, "", "%s: %s", home->state, strerror(errno));
		return;
	}
	room = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize / MIB * MIB;
	level = room < ROOM_BAD ? DOCTOR_BAD : room < ROOM_WARN ? DOCTOR_WARN : DOCTOR_OK;
	doctor_note(d, "disk", level,
	    level == DOCTOR_OK ? "" : "make room: nothing runs that cannot be recorded",
	    "%" PRId64 " MB are free at %s", room / MIB, home->state);
	if (fs.f_files > 0 && fs.f_favail < INODES_WARN)
		doctor_note(d, "disk", DOCTOR_WARN,
		    "remove files: bastion makes few, and what it runs many",
		    "only %" PRIu64 " more files can be made at %s", (uint64_t)fs.f_favail,
		    home->state);
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
		doctor_note_refusal(
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
		doctor_note(d, "key", DOCTOR_OK, "", "this machine's");
	else
		doctor_note(d, "key", DOCTOR_BAD, "put the key of this database in its place",
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
		doctor_note_refusal(d, "pages", DOCTOR_BAD, store_refusal(d->cli->db));
		return;
	}
	if (strcmp(stmt_get_text(q, 0), "ok") == 0)
		doctor_note(d, "pages", DOCTOR_OK, "", "every page of the database is sound");
	else
		doctor_note(
		    d, "pages", DOCTOR_BAD, "bastion restore BACKUP", "%s", stmt_get_text(q, 0));
	stmt_done(q);
}

static void
look_store(struct doctor *d)
{
	struct cli *cli = d->cli;

	if ((cli->db = store_open(&cli->home, ROLE_READER, NULL, &cli->refusal)) == NULL) {
		doctor_note_refusal(d, "database", DOCTOR_BAD, &cli->refusal);
		return;
	}
	doctor_note(d, "database", DOCTOR_OK, "",
	    "schema version %" PRId64 ", as this build knows it",
	    stmt_value(store_sql(cli->db, "PRAGMA user_version"), -1));
	if (d->deep)
		look_pages(d);
}

static void
look_libraries(struct doctor *d)
{
	static const struct {
		const char *file, *package, *use;
		enum doctor_level level;
	} wanted[] = {
	    {"libcurl.so.4", "libcurl4", "asking others", DOCTOR_BAD},
	    {"libmicrohttpd.so.12", "libmicrohttpd12", "serving", DOCTOR_BAD},
	    {"libssl.so.3", "libssl3", "TLS", DOCTOR_BAD},
	    {"libseccomp.so.2", "libseccomp2", "filters of system calls", DOCTOR_BAD},
	    {"libedit.so.2", "libedit2", "line editing in bastion sql", DOCTOR_WARN},
	};
	static const struct library_symbol none[] = {{NULL, 0}};
	struct refusal r = {0};
	size_t i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (library_load(wanted[i].file, wanted[i].package, none, NULL, &r) != 0)
			doctor_note(d, "libraries", wanted[i].level, "apt-get install it",
			    "%s is missing, for %s (Debian package %s)", wanted[i].file,
			    wanted[i].use, wanted[i].package);
}

static int64_t
changed_at(const struct stat *st)
{
	return st->st_ctim.tv_sec * INT64_C(1000000000) + st->st_ctim.tv_nsec;
}

/* Whether the machine's ${soname}, which lies where its libc does, was installed after ${time}. */
static bool
is_newer(const char *soname, int64_t time)
{
	char path[PATH_MAX];
	struct stat st;
	Dl_info libc;
	int dir;

	if (dladdr((void *)gnu_get_libc_version, &libc) == 0)
		return false;
	dir = (int)(strrchr(libc.dli_fname, '/') + 1 - libc.dli_fname);
	snprintf(path, sizeof(path), "%.*s%s", dir, libc.dli_fname, soname);
	return stat(path, &st) == 0 && changed_at(&st) > time;
}

/* What the program was built of, unless it was linked to the machine's: no update reaches it. */
static void
look_built_in(struct doctor *d)
{
	static const char *const sonames[] = {"libsqlite3.so.0", "libsodium.so.23"};
	enum doctor_level level = DOCTOR_OK;
	Dl_info sqlite, self;
	struct stat program;
	size_t i;

	if (dladdr((void *)sqlite3_libversion, &sqlite) == 0 ||
	    dladdr((void *)doctor_look, &self) == 0 || sqlite.dli_fbase != self.dli_fbase ||
	    stat("/proc/self/exe", &program) != 0)
		return;
	for (i = 0; i < sizeof(sonames) / sizeof(sonames[0]); i++) {
		if (!is_newer(sonames[i], changed_at(&program)))
			continue;
		level = DOCTOR_WARN;
		doctor_note(d, "built in", level, "build and install bastion again",
		    "%s was updated on this machine after bastion was installed", sonames[i]);
	}
	if (level == DOCTOR_OK)
		doctor_note(d, "built in", level, "", "SQLite %s and libsodium %s",
		    sqlite3_libversion(), sodium_version_string());
}

void
doctor_look(struct cli *cli, bool deep,
    void (*tell)(void *ctx, const struct doctor_finding *finding), void *ctx)
{
	struct doctor d = {cli, deep, tell, ctx};

	look_libraries(&d);
	look_built_in(&d);
	if (home_open(&cli->home, cli->role, false, &cli->refusal) != 0) {
		doctor_note_refusal(&d, "state", DOCTOR_BAD, &cli->refusal);
	} else {
		look_directory(&d);
		look_store(&d);
		look_key(&d);
	}
	if (cli->db != NULL) {
		doctor_rows(&d);
		doctor_places(&d);
		doctor_agents(&d);
	}
	doctor_machine(&d);
}
