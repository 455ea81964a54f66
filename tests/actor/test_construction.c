/* test_construction.c: what the sources as a whole never do, so that some faults cannot come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One rule: ${word} stands as a whole word in none of the sources but ${where}, up to a NULL. */
struct rule {
	const char *word;
	const char *where[12];
};

static const struct rule *rule;
static unsigned files, hits;

static bool
is_allowed(const char *path)
{
	size_t i;

	for (i = 0; rule->where[i] != NULL; i++)
		if (strcmp(path, rule->where[i]) == 0)
			return true;
	return false;
}

/* Lines of comments name what is not done. */
static bool
is_comment(const char *line)
{
	line += strspn(line, " \t");
	return line[0] == '*' || (line[0] == '/' && line[1] == '*');
}

static bool
stands_in(const char *line, const char *word)
{
	const char *at;

	for (at = line; (at = strstr(at, word)) != NULL; at++)
		if (at == line || !(isalnum((unsigned char)at[-1]) || at[-1] == '_'))
			return true;
	return false;
}

static int
look(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	size_t len = strlen(path);
	char line[1024];
	int number = 0;
	FILE *f;

	(void)st;
	(void)ftw;
	if (type != FTW_F || len < 2 || path[len - 2] != '.' || strchr("ch", path[len - 1]) == NULL)
		return 0;
	assert_non_null(f = fopen(path, "re"));
	files++;
	while (fgets(line, sizeof(line), f) != NULL) {
		number++;
		if (is_comment(line) || !stands_in(line, rule->word))
			continue;
		hits++;
		if (!is_allowed(path))
			fail_msg("%s:%d: %s", path, number, line);
	}
	fclose(f);
	return 0;
}

/* Hold all sources to ${r}; what it allows must be there, else the rule looks at nothing. */
static void
hold(const struct rule *r)
{
	static const char *const rooms[] = {"engine", "net", "shell"};
	size_t i;

	rule = r;
	files = hits = 0;
	for (i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
		assert_int_equal(nftw(rooms[i], look, 16, FTW_PHYS), 0);
	assert_true(files > 300);
	assert_int_equal(hits > 0, r->where[0] != NULL);
}

static bool
no_sources(void)
{
	FILE *f = fopen("engine/actor/lock.c", "re");

	if (f != NULL)
		fclose(f);
	return f == NULL;
}

/*
 * RF-93: files are locked in one way, by flock, for as long as a descriptor is open: the daemon's
 * lock (lock.c), the writers' queue on a file that lock.c opened (gate.c), and two files that are
 * locked while they are made.  Nobody has locks of records, or of files whose being there is the
 * lock.
 */
static void
one_way_to_lock(void **state)
{
	static const struct rule rules[] = {
	    {"flock(", {"engine/actor/lock.c", "engine/store/gate.c", "engine/store/backup.c",
			   "engine/worker/unpack.c"}},
	    {"lockf(", {NULL}},
	    {"F_SETLK", {NULL}},
	    {"F_SETLKW", {NULL}},
	    {"F_OFD_SETLK", {NULL}},
	    {"F_OFD_SETLKW", {NULL}},
	};
	size_t i;

	(void)state;
	if (no_sources())
		skip();
	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		hold(&rules[i]);
}

/*
 * RF-111: whoever reaches out does it in one of these places, each of which has a deadline and says
 * what failed: to the network the lane (dial.c), libcurl (client.c), and certificates that are
 * looked at; to sockets of this machine the rest.
 */
static void
one_way_to_dial(void **state)
{
	static const struct rule dialling = {"connect(",
	    {"engine/state/outbox.c", "engine/store/home.c", "engine/worker/hold.c",
		"engine/worker/observe_cert.c", "net/egress/dial.c", "net/http/unixclient.c",
		"net/http/unixsock.c", "shell/doctor_places.c", "shell/run_publish.c"}};

	(void)state;
	if (no_sources())
		skip();
	hold(&dialling);
}

/*
 * RF-98: closing a descriptor of the database, its log or its shared memory drops SQLite's locks,
 * so whoever names them is known, and has them opened by SQLite alone.  (restore.c replaces them,
 * alone, when nobody has them open; doctor_rows.c and sql_who.c look at files beside it by name.)
 */
static void
the_database_is_sqlites(void **state)
{
	static const struct rule named = {"bastion.db",
	    {"engine/state/birth.c", "engine/store/migrate.c", "engine/store/restore.c",
		"engine/store/store.c", "shell/doctor_rows.c", "shell/verb_migrate.c",
		"shell/verb_pairings.c", "shell/verb_status.c"}};
	static const struct rule opened = {
	    "sqlite3_db_filename(", {"engine/store/backup.c", "shell/sql_who.c"}};

	(void)state;
	if (no_sources())
		skip();
	hold(&named);
	hold(&opened);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_way_to_lock),
	    cmocka_unit_test(one_way_to_dial),
	    cmocka_unit_test(the_database_is_sqlites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
