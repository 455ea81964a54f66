/* test_folders.c: sizes of real trees, and what must not be followed, counted or waited for. */
#include "tests/worker/ask.h"

#include <sys/mount.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>

#include "engine/worker/tool.h"
#include "engine/worker/walk.h"

#define NOBODY 65534

static struct observe_limits limits;
static struct observe_env env;
static char root[64];
static int can_mount;

/* A path below the test's folder, in one of a few buffers. */
static char *
at(const char *name)
{
	static char paths[8][256];
	static int next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
	return path;
}

static void
make_folder(const char *name)
{
	assert_int_equal(mkdir(at(name), 0755), 0);
}

static void
make_file(const char *name, size_t len)
{
	char *text = calloc(1, len + 1);

	memset(text, 'x', len);
	ask_write(at(name), text, 0644);
	free(text);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int
set_up(void **state)
{
	(void)state;
	observe_defaults(&limits, &env);
	strcpy(root, "/tmp/bastion-folders-XXXXXX");
	return mkdtemp(root) != NULL && chmod(root, 0755) == 0 ? 0 : -1;
}

static int
tear_down(void **state)
{
	(void)state;
	walk_pause(NULL, NULL);
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static struct ask *
ask_folders(struct ask *a, const char *path, const char *depth)
{
	const char *const words[] = {path, depth, NULL};

	ask_run(a, "observe:folders", words, &limits, &env);
	free(a->frames);
	a->frames = NULL;
	return a;
}

/* What du says of ${path}. */
static int64_t
du(const char *path)
{
	char command[320];
	long long bytes = -1;
	FILE *p;

	snprintf(command, sizeof(command), "du -x -s -B1 '%s'", path);
	assert_non_null(p = popen(command, "r"));
	assert_int_equal(fscanf(p, "%lld", &bytes), 1);
	assert_int_equal(pclose(p), 0);
	return bytes;
}

static void
make_tree(void)
{
	make_folder("a");
	make_folder("a/b");
	make_folder("a/b/c");
	make_folder("a/b/c/d");
	make_folder("e");
	make_file("a/one", 70000);
	make_file("a/b/two", 30000);
	make_file("a/b/c/d/three", 200000);
	make_file("e/four", 5000);
}

/* OBS-4: the sum is that of du -x, for the whole and for each folder within the depth. */
static void
sums_are_those_of_du(void **state)
{
	static struct ask a;
	char want[64];

	(void)state;
	make_tree();
	ask_folders(&a, root, NULL);
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_int_equal(ask_int(a.result, "$.total_bytes"), du(root));
	assert_int_equal(ask_int(a.result, "$.files"), 4);
	assert_int_equal(ask_int(a.result, "$.folders_read"), 6);
	assert_int_equal(ask_int(a.result, "$.lower_bounds"), 0);
	ask_is(a.result, "SELECT json_array_length(?1, '$.folders')", "3");
	ask_is(a.result, "SELECT json_array_length(?1, '$.not_counted')", "0");
	ask_is(a.result, "SELECT json_extract(?1, '$.folders[0].path')", at("a"));
	ask_is(a.result, "SELECT json_extract(?1, '$.folders[1].path')", at("a/b"));
	snprintf(want, sizeof(want), "%lld", (long long)du(at("a/b")));
	ask_is(a.result, "SELECT json_extract(?1, '$.folders[1].bytes')", want);
	assert_null(strstr(a.result, "three"));
	ask_folders(&a, root, "3");
	ask_is(a.result, "SELECT json_array_length(?1, '$.folders')", "4");
	ask_folders(&a, root, "1");
	ask_is(a.result, "SELECT json_array_length(?1, '$.folders')", "2");
}

/* lanes 12: the 25 largest, largest first. */
static void
only_the_largest(void **state)
{
	static struct ask a;
	char name[32];
	int i;

	(void)state;
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "f%02d", i);
		make_folder(name);
		snprintf(name, sizeof(name), "f%02d/x", i);
		make_file(name, (size_t)(i + 1) * 8192);
	}
	ask_folders(&a, root, NULL);
	ask_is(a.result, "SELECT json_array_length(?1, '$.folders')", "25");
	ask_is(a.result, "SELECT json_extract(?1, '$.folders[0].path')", at("f39"));
	ask_is(a.result, "SELECT json_extract(?1, '$.folders[24].path')", at("f15"));
	assert_int_equal(ask_int(a.result, "$.total_bytes"), du(root));
}

/* OBS-6: a file with two names counts once. */
static void
hard_links_once(void **state)
{
	static struct ask a;

	(void)state;
	make_folder("a");
	make_folder("b");
	make_file("a/x", 100000);
	assert_int_equal(link(at("a/x"), at("b/x")), 0);
	ask_folders(&a, root, NULL);
	assert_int_equal(ask_int(a.result, "$.total_bytes"), du(root));
	assert_true(ask_int(a.result, "$.total_bytes") < 150000);
	assert_int_equal(ask_int(a.result, "$.files"), 1);
}

/* core 1.1.1: links are never traversed. */
static void
links_are_not_followed(void **state)
{
	static struct ask a;

	(void)state;
	make_folder("a");
	make_file("a/x", 100000);
	make_folder("b");
	assert_int_equal(symlink("../a", at("b/out")), 0);
	assert_int_equal(symlink("..", at("b/loop")), 0);
	ask_folders(&a, at("b"), NULL);
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_int_equal(ask_int(a.result, "$.folders_read"), 1);
	assert_int_equal(ask_int(a.result, "$.total_bytes"), du(at("b")));
}

/* OBS-2: a link that leads into the kernel's places is refused, whatever its name. */
static void
links_into_proc(void **state)
{
	static const char *const targets[] = {
	    "/proc/1", "/sys/kernel", "/dev", "/proc/self/root/proc", "/dev/shm"};
	static struct ask a;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		unlink(at("l"));
		assert_int_equal(symlink(targets[i], at("l")), 0);
		ask_folders(&a, at("l"), NULL);
		assert_int_equal(a.code, OBSERVE_WRONG);
		ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.path");
	}
}

/* A link elsewhere is followed to the start, and the answer says where that is. */
static void
link_to_the_start(void **state)
{
	static struct ask a;

	(void)state;
	make_tree();
	assert_int_equal(symlink("a", at("l")), 0);
	ask_folders(&a, at("l"), NULL);
	ask_is(a.result, "SELECT json_extract(?1, '$.resolved')", at("a"));
	assert_int_equal(ask_int(a.result, "$.total_bytes"), du(at("a")));
}

static void
missing_folder(void **state)
{
	static struct ask a;

	(void)state;
	make_file("x", 10);
	ask_folders(&a, at("gone"), NULL);
	assert_int_equal(a.code, OBSERVE_WRONG);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.folder");
	ask_folders(&a, at("x"), NULL);
	assert_int_equal(a.code, OBSERVE_WRONG);
}

/* OBS-7: mounts below are named with the folder that holds them, and not counted. */
static void
mounts_below(void **state)
{
	static struct ask a;

	(void)state;
	if (!can_mount) {
		print_message("needs root and a mount namespace\n");
		skip();
	}
	make_folder("big");
	make_file("big/x", 300000);
	make_folder("a");
	make_folder("a/bound");
	make_folder("a/other");
	make_file("a/file", 0);
	make_file("file", 0);
	assert_int_equal(mount(at("big"), at("a/bound"), NULL, MS_BIND, NULL), 0);
	assert_int_equal(mount("none", at("a/other"), "tmpfs", 0, NULL), 0);
	assert_int_equal(mount(at("big/x"), at("file"), NULL, MS_BIND, NULL), 0);
	ask_folders(&a, root, NULL);
	assert_int_equal(umount(at("a/bound")), 0);
	assert_int_equal(umount(at("a/other")), 0);
	assert_int_equal(umount(at("file")), 0);
	ask_is(a.result, "SELECT json_extract(?1, '$.not_counted[0].path')", at("a"));
	ask_is(a.result, "SELECT json_extract(?1, '$.not_counted[0].reason')", "mount");
	ask_is(a.result, "SELECT json_extract(?1, '$.not_counted[0].count')", "2");
	ask_is(a.result, "SELECT json_extract(?1, '$.not_counted[1].path')", root);
	assert_true(ask_int(a.result, "$.total_bytes") < 400000);
	assert_int_equal(ask_int(a.result, "$.lower_bounds"), 0);
}

/* OBS-2: the kernel's file systems are refused under every name. */
static void
proc_under_another_name(void **state)
{
	static struct ask a;

	(void)state;
	if (!can_mount) {
		print_message("needs root and a mount namespace\n");
		skip();
	}
	make_folder("p");
	assert_int_equal(mount("none", at("p"), "proc", 0, NULL), 0);
	ask_folders(&a, at("p"), NULL);
	assert_int_equal(umount(at("p")), 0);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.path");
	assert_int_equal(mount("/dev", at("p"), NULL, MS_BIND, NULL), 0);
	ask_folders(&a, at("p"), NULL);
	assert_int_equal(umount(at("p")), 0);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.path");
}

/* What cannot be read is said with the folder that holds it, with reason and count. */
static void
unreadable_is_said(void **state)
{
	struct ask *a =
	    mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;
	int status;

	(void)state;
	assert_ptr_not_equal(a, MAP_FAILED);
	make_folder("a");
	make_folder("a/one");
	make_folder("a/two");
	assert_int_equal(chmod(at("a/one"), 0), 0);
	assert_int_equal(chmod(at("a/two"), 0), 0);
	if ((pid = fork()) == 0) {
		if (geteuid() == 0 && (setgid(NOBODY) == -1 || setuid(NOBODY) == -1))
			_exit(9);
		ask_folders(a, root, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	ask_is(a->result, "SELECT json_extract(?1, '$.not_counted[0].path')", at("a"));
	ask_is(a->result, "SELECT json_extract(?1, '$.not_counted[0].reason')", "not permitted");
	ask_is(a->result, "SELECT json_extract(?1, '$.not_counted[0].count')", "2");
	munmap(a, sizeof(*a));
}

/* When the walk is about to open ${when}, move ${from} away and put a link to the outside there. */
struct swap {
	const char *when;
	char from[256];
	char away[256];
	int done;
};

static void
swap_now(void *ctx, const char *name)
{
	struct swap *s = ctx;

	if (s->done || strcmp(name, s->when) != 0)
		return;
	s->done = rename(s->from, s->away) == 0 && symlink("/usr", s->from) == 0;
}

static void
try_swap(const char *when, const char *from)
{
	static struct ask a;
	struct swap s = {.when = when};

	make_tree();
	make_folder("start");
	assert_int_equal(rename(at("a"), at("start/a")), 0);
	make_folder("start/keep");
	make_file("start/keep/x", 50000);
	snprintf(s.from, sizeof(s.from), "%s", at(from));
	snprintf(s.away, sizeof(s.away), "%s", at("away"));
	walk_pause(swap_now, &s);
	ask_folders(&a, at("start"), "3");
	walk_pause(NULL, NULL);
	assert_true(s.done);
	ask_is(a.result, "SELECT json_extract(?1, '$.not_counted[0].reason')", "changed");
	ask_is(a.result, "SELECT json_extract(?1, '$.not_counted[0].count')", "1");
	assert_int_equal(ask_int(a.result, "$.total_bytes"), du(at("start")));
}

/* core 1.1.1: a folder that turned into a link mid-walk is "changed" and adds nothing. */
static void
swapped_folder(void **state)
{
	(void)state;
	try_swap("b", "start/a/b");
}

/* The same when it is a folder above the one that is being read. */
static void
swapped_ancestor(void **state)
{
	(void)state;
	try_swap("d", "start/a");
}

/* Swapped for another real folder between the look and the opening: not the one that was seen. */
static void
replace_now(void *ctx, const char *name)
{
	struct swap *s = ctx;

	if (!s->done && strcmp(name, s->when) == 0)
		s->done = rename(s->from, s->away) == 0 && rename(at("e"), s->from) == 0;
}

static void
replaced_folder(void **state)
{
	static struct ask a;
	struct swap s = {.when = "b"};

	(void)state;
	make_tree();
	snprintf(s.from, sizeof(s.from), "%s", at("a/b"));
	snprintf(s.away, sizeof(s.away), "%s", at("away"));
	walk_pause(replace_now, &s);
	ask_folders(&a, at("a"), NULL);
	assert_true(s.done);
	ask_is(a.result, "SELECT json_extract(?1, '$.not_counted[0].reason')", "changed");
	assert_int_equal(ask_int(a.result, "$.folders_read"), 1);
}

/* The start itself was swapped: nothing of it counts. */
static void
swapped_start(void **state)
{
	static struct ask a;
	struct swap s = {.when = "b"};

	(void)state;
	make_tree();
	snprintf(s.from, sizeof(s.from), "%s", at("a"));
	snprintf(s.away, sizeof(s.away), "%s", at("away"));
	walk_pause(swap_now, &s);
	ask_folders(&a, at("a"), NULL);
	assert_true(s.done);
	assert_int_equal(a.code, OBSERVE_WRONG);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.folder");
}

/* A read that hangs until the test lets go. */
struct hang {
	pthread_mutex_t lock;
	int hung;
};

static void
hang_here(void *ctx, const char *name)
{
	struct hang *h = ctx;

	if (strcmp(name, "z-slow") != 0)
		return;
	h->hung = 1;
	pthread_mutex_lock(&h->lock);
	pthread_mutex_unlock(&h->lock);
}

/* OBS-5: the answer comes within the budget with what was measured, however long a read hangs. */
static void
budget_holds(void **state)
{
	/* The thread of the walk looks at it after this test is over. */
	static struct hang h = {.lock = PTHREAD_MUTEX_INITIALIZER};
	static struct ask a;
	int64_t began;

	(void)state;
	make_folder("a");
	make_folder("a/z-slow");
	make_file("x", 50000);
	limits.folders_budget_ms = 300;
	pthread_mutex_lock(&h.lock);
	walk_pause(hang_here, &h);
	began = tool_now_ms();
	ask_folders(&a, root, NULL);
	assert_in_range(tool_now_ms() - began, 200, 600);
	walk_pause(NULL, NULL);
	pthread_mutex_unlock(&h.lock);
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_int_equal(ask_int(a.result, "$.lower_bounds"), 1);
	assert_int_equal(ask_int(a.result, "$.stuck"), 1);
	assert_true(ask_int(a.result, "$.total_bytes") > 0);
	ask_is(a.result, "SELECT json_extract(?1, '$.folders[0].path')", at("a"));
}

/* The same walk, asked to stop while it makes progress: lower bounds, but nothing hangs. */
static void
slow_here(void *ctx, const char *name)
{
	struct timespec nap = {.tv_nsec = 5000000};

	(void)ctx;
	(void)name;
	nanosleep(&nap, NULL);
}

static void
budget_stops_a_walk(void **state)
{
	static struct ask a;
	char name[32];
	int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "f%03d", i);
		make_folder(name);
	}
	limits.folders_budget_ms = 200;
	walk_pause(slow_here, NULL);
	ask_folders(&a, root, NULL);
	assert_int_equal(ask_int(a.result, "$.lower_bounds"), 1);
	assert_int_equal(ask_int(a.result, "$.stuck"), 0);
	assert_in_range(ask_int(a.result, "$.folders_read"), 2, 199);
}

/* Names that are no text are still valid JSON. */
static void
names_that_are_no_text(void **state)
{
	static struct ask a;

	(void)state;
	make_folder("\xff\xfe\n\"x");
	ask_folders(&a, root, NULL);
	ask_is(a.result, "SELECT json_valid(?1)", "1");
	ask_is(a.result, "SELECT json_array_length(?1, '$.folders')", "1");
}

/* Deeper than descriptors reach: said, not crashed. */
static void
very_deep(void **state)
{
	static struct ask a;
	int fd, next, i;

	(void)state;
	assert_int_not_equal(fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), -1);
	for (i = 0; i < 700; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	ask_folders(&a, root, NULL);
	assert_int_equal(a.code, OBSERVE_DONE);
	ask_is(a.result, "SELECT json_extract(?1, '$.not_counted[0].reason')", "too deep");
	assert_int_equal(ask_int(a.result, "$.folders_read"), 512);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(sums_are_those_of_du, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(only_the_largest, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(hard_links_once, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(links_are_not_followed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(links_into_proc, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(link_to_the_start, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(missing_folder, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(mounts_below, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(proc_under_another_name, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(unreadable_is_said, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(swapped_folder, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(swapped_ancestor, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(replaced_folder, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(swapped_start, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(budget_holds, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(budget_stops_a_walk, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(names_that_are_no_text, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(very_deep, set_up, tear_down),
	};

	/* Mounts of the test are seen by nobody else. */
	can_mount =
	    unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
