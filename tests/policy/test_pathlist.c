/* test_pathlist.c: the workspace, what is added to it, and the four lists above it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/policy/pathlist.h"

static char dir[PLACE_MAX], ws[PLACE_MAX], out[PLACE_MAX];
static struct scope scope;
static struct pathlists lists;

static const char *
at(const char *base, const char *path)
{
	static char ring[4][PLACE_MAX];
	static unsigned next;
	char *to = ring[next++ % 4];

	assert_int_equal(place_join(base, path, to), 0);
	return to;
}

static void
make_dir(const char *base, const char *path)
{
	assert_int_equal(mkdir(at(base, path), 0700), 0);
}

static void
make_file(const char *base, const char *path)
{
	int fd = open(at(base, path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd != -1);
	close(fd);
}

static int
make(void **state)
{
	char made[] = "/tmp/bastion-pathlist.XXXXXX", why[192];

	(void)state;
	assert_non_null(mkdtemp(made));
	assert_true(place_directory(made, dir));
	make_dir(dir, "ws");
	make_dir(dir, "out");
	strcpy(ws, at(dir, "ws"));
	strcpy(out, at(dir, "out"));
	make_dir(ws, "src");
	make_dir(ws, "secret");
	make_dir(ws, "secret/public");
	make_file(ws, "src/main.go");
	make_file(ws, "secret/creds");
	make_dir(out, "build");
	make_dir(out, "build/protected");
	memset(&scope, 0, sizeof(scope));
	memset(&lists, 0, sizeof(lists));
	assert_int_equal(scope_add(&scope, ws, NULL, why, sizeof(why)), 0);
	return 0;
}

static int
drop(void **state)
{
	char command[PLACE_MAX + 16];

	(void)state;
	scope_free(&scope);
	pathlists_free(&lists);
	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	return system(command);
}

static void
list(enum pathlist_kind kind, const char *path)
{
	assert_int_equal(pathlists_add(&lists, kind, path, ws, NULL), 0);
}

/* The code that a path breaks, or "". */
static const char *
breaks(enum side_effect effect, bool enforce, const char *path)
{
	static struct violation v;

	pathlists_check(&lists, &scope, enforce, effect, path, &v);
	if (v.code != NULL)
		assert_string_equal(v.path, path);
	return v.code == NULL ? "" : v.code;
}

static const char *
leaves(const char *path)
{
	static struct violation v;

	scope_check(&scope, path, &v);
	if (v.code != NULL)
		assert_string_equal(v.path, path);
	if (v.code != NULL && strcmp(v.code, "symlink_traversal") == 0)
		assert_null(strstr(v.why, "--add-dir"));
	else if (v.code != NULL)
		assert_non_null(strstr(v.why, "--add-dir"));
	return v.code == NULL ? "" : v.code;
}

static int
add(const char *path)
{
	char why[192] = "";
	int rc = scope_add(&scope, path, dir, why, sizeof(why));

	assert_int_equal(rc != 0, strncmp(why, "write root \"", 12) == 0);
	return rc;
}

/* W-01 W-02 W-09: a link on the way counts, whichever root it stands in. */
static void
links_are_followed(void **state)
{
	(void)state;
	assert_int_equal(add(at(out, "build")), 0);
	assert_int_equal(symlink("/etc", at(out, "build/link")), 0);
	assert_string_equal(leaves(at(out, "build/link/x")), "symlink_traversal");
	assert_int_equal(symlink(ws, at(dir, "alias")), 0);
	assert_string_equal(leaves(at(dir, "alias/new.txt")), "");
	assert_int_equal(symlink(out, at(ws, "link")), 0);
	assert_string_equal(leaves(at(dir, "alias/link/x")), "symlink_traversal");
	assert_string_equal(leaves(at(ws, "link/escape.txt")), "symlink_traversal");
	assert_string_equal(leaves("link/escape.txt"), "symlink_traversal");
	/* By its text it stays inside; the kernel goes through the link first. */
	assert_string_equal(leaves("link/../x"), "symlink_traversal");
	assert_int_equal(symlink("nowhere", at(ws, "broken")), 0);
	assert_string_equal(leaves("broken"), "symlink_traversal");
	assert_string_equal(leaves("broken/x"), "symlink_traversal");
	assert_int_equal(symlink("src", at(ws, "inner")), 0);
	assert_string_equal(leaves("inner/main.go"), "");
	assert_int_equal(symlink("loop", at(ws, "loop")), 0);
	assert_true(strlen(leaves("src/../../ws/src")) == 0);
}

/* W-03 W-04 W-05 W-06 W-07: what may be added. */
static void
roots_are_directories(void **state)
{
	(void)state;
	assert_string_equal(scope.roots[0], ws);
	assert_int_equal(symlink(at(out, "build"), at(dir, "named")), 0);
	assert_int_equal(add(at(dir, "named")), 0);
	assert_string_equal(scope.roots[1], at(out, "build"));
	assert_int_equal(add("~nonexistent/x"), -1);
	assert_int_equal(add("~/nothing"), -1);
	assert_int_equal(add(at(out, "missing")), -1);
	assert_int_equal(add(at(ws, "src/main.go")), -1);
	assert_int_equal(add("/"), -1);
	assert_int_equal(add("  "), -1);
	assert_int_equal(add(at(out, "build")), 0);
	assert_int_equal(add("~/out/build"), 0);
	assert_int_equal(add(at(out, "build/protected")), 0);
	assert_int_equal(add(ws), 0);
	assert_int_equal(scope.count, 2);
}

/* W-08: inside any of the roots; relative in the workspace alone. */
static void
inside_is_inside_any_root(void **state)
{
	(void)state;
	assert_int_equal(add(at(out, "build")), 0);
	assert_string_equal(leaves(at(out, "build/x")), "");
	assert_string_equal(leaves(at(ws, "x/y/z")), "");
	assert_string_equal(leaves("x/y"), "");
	assert_string_equal(leaves("."), "");
	assert_string_equal(leaves(at(out, "x")), "outside_workspace");
	assert_string_equal(leaves("../out/x"), "outside_workspace");
	assert_string_equal(leaves("../ws2"), "outside_workspace");
	assert_string_equal(leaves(at(dir, "ws2/x")), "outside_workspace");
}

/* PL-01 PL-02 PL-03 PL-04 PL-05 PL-25 PL-26: what is hidden, and shown again. */
static void
reading_is_hidden_and_shown(void **state)
{
	(void)state;
	assert_false(pathlists_hides(&lists, ws, "secret/data"));
	list(PATHLIST_DENY_READ, "secret");
	assert_true(pathlists_hides(&lists, ws, "secret/data"));
	assert_true(pathlists_hides(&lists, ws, "src/../secret/creds"));
	assert_true(pathlists_hides(&lists, NULL, at(ws, "secret")));
	assert_false(pathlists_hides(&lists, ws, "src/main.go"));
	assert_false(pathlists_hides(&lists, ws, "secrets"));
	list(PATHLIST_ALLOW_READ, "secret/public");
	assert_false(pathlists_hides(&lists, ws, "secret/public/ok.txt"));
	assert_true(pathlists_hides(&lists, ws, "secret/other.txt"));
	assert_true(pathlists_hides(&lists, ws, "secret/public/../creds"));
	list(PATHLIST_ALLOW_READ, "secret");
	assert_false(pathlists_hides(&lists, ws, "secret/other.txt"));
	list(PATHLIST_DENY_READ, "src/main.go");
	assert_true(pathlists_hides(&lists, ws, "src/main.go"));
	assert_false(pathlists_hides(&lists, ws, "src/main.go2"));
}

/* A link is hidden where it stands, and where it leads. */
static void
links_do_not_show_what_is_hidden(void **state)
{
	(void)state;
	list(PATHLIST_DENY_READ, "secret");
	list(PATHLIST_ALLOW_READ, "secret/public");
	assert_int_equal(symlink("secret", at(ws, "door")), 0);
	assert_true(pathlists_hides(&lists, ws, "door/creds"));
	assert_int_equal(symlink("../../src", at(ws, "secret/public/way")), 0);
	assert_true(pathlists_hides(&lists, ws, "secret/public/way/main.go"));
	assert_int_equal(symlink("../creds", at(ws, "secret/public/c")), 0);
	assert_true(pathlists_hides(&lists, ws, "secret/public/c"));
}

/* PL-06 PL-07 PL-08 PL-09 PL-10 PL-11: what may be written. */
static void
writing_is_kept_and_opened(void **state)
{
	(void)state;
	assert_string_equal(breaks(SIDE_WRITE, true, "src/x"), "");
	assert_string_equal(breaks(SIDE_WRITE, true, at(out, "build/out.o")), "outside_workspace");
	list(PATHLIST_ALLOW_WRITE, at(out, "build"));
	assert_string_equal(breaks(SIDE_WRITE, true, at(out, "build/out.o")), "");
	assert_string_equal(breaks(SIDE_WRITE, true, "../out/build/out.o"), "outside_workspace");
	assert_string_equal(breaks(SIDE_WRITE, true, at(out, "other")), "outside_workspace");
	list(PATHLIST_DENY_WRITE, "secret");
	assert_string_equal(breaks(SIDE_WRITE, true, "secret/creds"), "policy_denied");
	list(PATHLIST_DENY_WRITE, at(out, "build/protected"));
	assert_string_equal(
	    breaks(SIDE_WRITE, true, at(out, "build/protected/x")), "policy_denied");
	assert_int_equal(symlink("/etc", at(out, "build/etc")), 0);
	assert_string_equal(breaks(SIDE_WRITE, true, at(out, "build/etc/x")), "outside_workspace");
}

/* PL-15: the lists count where the workspace is not enforced. */
static void
lists_count_without_the_workspace(void **state)
{
	(void)state;
	list(PATHLIST_DENY_WRITE, "secret");
	list(PATHLIST_DENY_READ, "secret");
	assert_string_equal(breaks(SIDE_WRITE, false, "secret/x"), "policy_denied");
	assert_string_equal(breaks(SIDE_WRITE, false, at(out, "x")), "");
	assert_string_equal(breaks(SIDE_READ, false, "secret/x"), "policy_denied");
	assert_string_equal(breaks(SIDE_SHELL, false, "secret"), "");
	assert_string_equal(breaks(SIDE_SHELL, true, out), "outside_workspace");
}

/* PL-16 PL-24: without a workspace a relative path is anchored nowhere. */
static void
without_a_workspace(void **state)
{
	(void)state;
	scope_free(&scope);
	assert_string_equal(breaks(SIDE_WRITE, true, "x"), "outside_workspace");
	assert_int_equal(
	    pathlists_add(&lists, PATHLIST_DENY_READ, "/no/such/place", NULL, NULL), 0);
	assert_string_equal(breaks(SIDE_WRITE, false, "x"), "");
	list(PATHLIST_DENY_WRITE, at(ws, "secret"));
	assert_string_equal(breaks(SIDE_WRITE, true, at(ws, "secret/x")), "policy_denied");
	assert_string_equal(breaks(SIDE_WRITE, true, at(ws, "src/x")), "");
	assert_string_equal(breaks(SIDE_WRITE, false, "x"), "outside_workspace");
}

struct globs {
	char text[4 * PLACE_MAX];
};

static void
glob_add(void *ctx, const char *option, const char *glob)
{
	struct globs *g = ctx;

	strcat(g->text, option);
	strcat(g->text, " ");
	strcat(g->text, glob);
	strcat(g->text, " ");
}

/* PL-12: what ripgrep is told. */
static void
globs_for_ripgrep(void **state)
{
	static struct globs g;

	(void)state;
	pathlists_globs(&lists, ws, glob_add, &g);
	assert_string_equal(g.text, "");
	list(PATHLIST_DENY_READ, at(ws, "secret"));
	list(PATHLIST_DENY_READ, out);
	list(PATHLIST_DENY_READ, ws);
	pathlists_globs(&lists, ws, glob_add, &g);
	assert_string_equal(g.text, "--glob !secret --glob !secret/** ");
	g.text[0] = '\0';
	pathlists_free(&lists);
	make_dir(ws, "a*[b");
	list(PATHLIST_DENY_READ, "a*[b");
	pathlists_globs(&lists, ws, glob_add, &g);
	assert_string_equal(g.text, "--glob !a\\*\\[b --glob !a\\*\\[b/** ");
}

/* PL-13 PL-14: a search may skip what is hidden as a whole, and nothing else. */
static void
searches_skip_what_is_hidden_whole(void **state)
{
	(void)state;
	list(PATHLIST_DENY_READ, "secret");
	assert_true(pathlists_hides_all(&lists, ws, "secret"));
	list(PATHLIST_ALLOW_READ, "secret/public");
	assert_false(pathlists_hides_all(&lists, ws, "secret"));
	assert_true(pathlists_hides(&lists, ws, "secret/creds"));
	assert_false(pathlists_hides(&lists, ws, "secret/public/ok"));
	assert_false(pathlists_hides_all(&lists, ws, "src"));
	make_dir(ws, "real");
	make_dir(ws, "real/secret");
	make_dir(ws, "real/secret/public");
	assert_int_equal(symlink("real", at(ws, "link")), 0);
	list(PATHLIST_DENY_READ, "real/secret");
	list(PATHLIST_ALLOW_READ, "real/secret/public");
	assert_false(pathlists_hides_all(&lists, ws, "link/secret"));
}

/* PL-27 PL-28: of entries inside each other. */
static void
entries_inside_each_other(void **state)
{
	(void)state;
	make_dir(ws, "a");
	make_dir(ws, "a/b");
	make_dir(ws, "a/b/c");
	make_dir(ws, "a/b/c/d");
	list(PATHLIST_DENY_READ, "a");
	list(PATHLIST_DENY_READ, "a/b");
	list(PATHLIST_ALLOW_READ, "a/b/c");
	assert_false(pathlists_hides(&lists, ws, "a/b/c/x"));
	assert_true(pathlists_hides(&lists, ws, "a/b/x"));
	list(PATHLIST_DENY_READ, "a/b/c/d");
	assert_false(pathlists_hides(&lists, ws, "a/b/c/x"));
	assert_true(pathlists_hides(&lists, ws, "a/b/c/d/x"));
	pathlists_free(&lists);
	list(PATHLIST_DENY_READ, "a/b");
	list(PATHLIST_ALLOW_READ, "a");
	assert_true(pathlists_hides(&lists, ws, "a/b/x"));
}

/* Random paths against what the kernel does with them: what is inside opens inside. */
static void
the_kernel_agrees(void **state)
{
	static const char *const parts[] = {
	    "..", ".", "src", "secret", "link", "up", "self", "main.go", "", "public"};
	char path[256], real[PLACE_MAX], ours[PLACE_MAX];
	unsigned seed = 7;
	int i, j;

	(void)state;
	assert_int_equal(symlink("../out", at(ws, "link")), 0);
	assert_int_equal(symlink("..", at(ws, "src/up")), 0);
	assert_int_equal(symlink(".", at(ws, "self")), 0);
	for (i = 0; i < 20000; i++) {
		strcpy(path, ws);
		for (j = rand_r(&seed) % 7; j >= 0; j--) {
			strcat(path, "/");
			strcat(path, parts[(unsigned)rand_r(&seed) % 10]);
		}
		if (realpath(path, real) == NULL)
			continue;
		if (place_resolve(path, NULL, ours) != PLACE_FOUND)
			fail_msg("%s: not found", path);
		assert_string_equal(ours, real);
		if (leaves(path)[0] == '\0')
			assert_true(place_inside(real, ws));
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make, drop)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(links_are_followed),
	    CASE(roots_are_directories),
	    CASE(inside_is_inside_any_root),
	    CASE(reading_is_hidden_and_shown),
	    CASE(links_do_not_show_what_is_hidden),
	    CASE(writing_is_kept_and_opened),
	    CASE(lists_count_without_the_workspace),
	    CASE(without_a_workspace),
	    CASE(globs_for_ripgrep),
	    CASE(searches_skip_what_is_hidden_whole),
	    CASE(entries_inside_each_other),
	    CASE(the_kernel_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
