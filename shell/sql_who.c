/* sql_who.c: who runs here, who holds a lease, who holds the database. */
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shell/sql_dot.h"
#include "shell/text.h"

/* SQLite's locks on the shared memory of a log: https://sqlite.org/walformat.html, 2.3. */
#define LOCK_WRITE    120
#define LOCK_FOLD     121
#define LOCK_READ     123
#define LOCK_READ_END 127
#define LOCK_OPEN     128

static const char ACTORS[] =
    "SELECT 'supervisor' AS actor, p.pid, i.state, i.started_at, NULL AS restarts,"
    " i.role || ', epoch ' || i.epoch || ', bastion ' || i.version AS about"
    " FROM instance AS i JOIN process AS p ON p.id = i.process_id"
    " WHERE i.state IN ('starting', 'ready', 'draining')"
    " UNION ALL SELECT r.actor, p.pid, r.state, r.started_at, r.attempt - 1, ''"
    " FROM actor_run AS r LEFT JOIN process AS p ON p.id = r.process_id"
    " WHERE r.state IN ('starting', 'running') AND r.instance_id IN (SELECT id FROM instance"
    " WHERE state IN ('starting', 'ready', 'draining'))";
static const char LEASES[] =
    "SELECT l.name AS lease, p.pid, p.program, l.fence, l.expires_at, l.expires_at <= now_ms() AS over"
    " FROM lease AS l JOIN process AS p ON p.id = l.process_id ORDER BY l.name";
static const char LOCKS[] =
    "SELECT pid, program, group_concat(holds, '; ') AS holds FROM (SELECT DISTINCT value ->> 0 AS pid,"
    " value ->> 1 AS program, value ->> 2 AS holds FROM json_each(?1)) GROUP BY pid ORDER BY pid";

/* A line of /proc/locks (proc(5)). */
struct lock {
	bool waits, posix, writes;
	long pid;
	uint64_t inode;
	long first, last;
};

static bool
read_lock(const char *line, struct lock *l)
{
	char kind[16], access[16], last[32];
	int n = 0;

	if (sscanf(line, "%*d: %n", &n) != 0 || n == 0)
		return false;
	l->waits = strncmp(line + n, "-> ", 3) == 0;
	if (sscanf(line + n + (l->waits ? 3 : 0), "%15s %*s %15s %ld %*x:%*x:%" SCNu64 " %ld %31s",
		kind, access, &l->pid, &l->inode, &l->first, last) != 6)
		return false;
	l->posix = strcmp(kind, "POSIX") == 0;
	l->writes = strcmp(access, "WRITE") == 0;
	l->last = strcmp(last, "EOF") == 0 ? LONG_MAX : strtol(last, NULL, 10);
	return l->posix || strcmp(kind, "FLOCK") == 0;
}

static bool
covers(const struct lock *l, long first, long last)
{
	return l->first <= last && l->last >= first;
}

/* What a lock on the shared memory means to a person; NULL: nothing to speak of. */
static const char *
meaning(const struct lock *l)
{
	if (l->waits)
		return "waits for the database";
	if (covers(l, LOCK_WRITE, LOCK_WRITE) && l->writes)
		return "an open transaction that writes";
	if (covers(l, LOCK_FOLD, LOCK_FOLD) && l->writes)
		return "folding the log into the database";
	if (covers(l, LOCK_READ, LOCK_READ_END))
		return "an open transaction that reads";
	return covers(l, LOCK_OPEN, LOCK_OPEN) ? "the database open" : NULL;
}

static void
program_of(long pid, char name[32])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	*name = '\0';
	if ((f = fopen(path, "re")) == NULL)
		return;
	if (fgets(name, 32, f) != NULL)
		name[strcspn(name, "\n")] = '\0';
	fclose(f);
}

static void
add_lock(FILE *out, const struct lock *l, const char *holds)
{
	char program[32];

	program_of(l->pid, program);
	fprintf(out, "%s[%ld,", ftello(out) > 1 ? "," : "", l->pid);
	text_json(out, program, strlen(program));
	putc(',', out);
	text_json(out, holds, strlen(holds));
	putc(']', out);
}

/* The files beside the database are looked at by name: opening them would drop SQLite's locks. */
static uint64_t
inode_of(const char *dir, size_t n, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%.*s%s", (int)n, dir, name) >= (int)sizeof(path))
		return 0;
	return stat(path, &st) == 0 ? st.st_ino : 0;
}

static void
read_locks(struct sql *s, FILE *out)
{
	const char *path = sqlite3_db_filename(store_handle(s->db), "main");
	size_t dir = (size_t)(strrchr(path, '/') - path) + 1;
	uint64_t memory = inode_of(path, strlen(path), "-shm");
	uint64_t gate = inode_of(path, dir, "bastion.gate");
	uint64_t daemon = inode_of(path, dir, "bastion.lock");
	struct lock l;
	char line[256];
	FILE *f;

	putc('[', out);
	f = fopen("/proc/locks", "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (!read_lock(line, &l) || l.inode == 0)
			continue;
		if (l.inode == gate)
			add_lock(
			    out, &l, l.waits ? "waits for the gate" : "the gate: it may write");
		else if (l.inode == daemon)
			add_lock(out, &l, "the state: it is the daemon");
		else if (l.posix && l.inode == memory && meaning(&l) != NULL)
			add_lock(out, &l, meaning(&l));
	}
	if (f != NULL)
		fclose(f);
	putc(']', out);
}

static int
show_locks(struct sql *s)
{
	char *json = NULL;
	size_t len;
	FILE *out;
	int rc;

	if ((out = open_memstream(&json, &len)) == NULL)
		return refusal_set(s->refusal, "store.failed", "out of memory");
	read_locks(s, out);
	rc = fclose(out) == 0 ? sql_show(s, LOCKS, json, NULL)
			      : refusal_set(s->refusal, "store.failed", "out of memory");
	free(json);
	return rc;
}

static void
title(struct sql *s, const char *text)
{
	if (table_for_people(s->mode))
		fputs(text, s->out);
}

int
dot_who(struct sql *s, const struct dot_line *line)
{
	(void)line;
	title(s, "Who runs:\n");
	if (sql_show(s, ACTORS, NULL, NULL) == -1)
		return -1;
	title(s, "\nWho holds a lease:\n");
	if (sql_show(s, LEASES, NULL, NULL) == -1)
		return -1;
	title(s, "\nWho holds the database:\n");
	return show_locks(s);
}
