/* test_cgroup.c: groups in every hierarchy that a machine may have; what is left behind is swept.
 */
#include "tests/worker/box.h"

#include "engine/worker/cgroup.h"
#include "engine/worker/runner.h"
#include "tests/pidns.h"

static char root[64];

static int
set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/bastion-cgroup-XXXXXX");
	assert_non_null(mkdtemp(root));
	box_shell("mkdir -p %s/proc/self", root);
	cgroup_root(root);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	cgroup_root(NULL);
	box_shell("rm -rf %s", root);
	return 0;
}

static void
put(const char *name, const char *text)
{
	box_shell("mkdir -p $(dirname %s/%s) && printf '%s' > %s/%s", root, name, text, root, name);
}

static const char *
get(const char *path, const char *name)
{
	static char text[64];
	char at[1024];
	FILE *f;

	snprintf(at, sizeof(at), "%s/%s", path, name);
	text[0] = '\0';
	if ((f = fopen(at, "re")) != NULL) {
		if (fgets(text, sizeof(text), f) == NULL)
			text[0] = '\0';
		fclose(f);
	}
	return text;
}

/* The unified hierarchy with its controllers: what they cap is written where it belongs. */
static void
unified(void **state)
{
	struct cgroup_limits limits = {.tasks = 65, .memory = 1048576, .cpu_percent = 50};
	struct cgroup c;

	(void)state;
	put("proc/self/cgroup", "0::/system.slice/bastion.service\\n");
	put("proc/self/mountinfo",
	    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\\n");
	put("sys/fs/cgroup/system.slice/bastion.service/cgroup.controllers", "cpu memory pids\\n");
	put("sys/fs/cgroup/system.slice/bastion.service/cgroup.subtree_control",
	    "cpu memory pids\\n");
	cgroup_make(&c, &limits);
	/* No kernel is behind these files, so none made those of the new group. */
	assert_int_equal(c.tree_count, 1);
	assert_true(c.trees[0].unified);
	assert_non_null(strstr(c.trees[0].path, "/system.slice/bastion.service/bastion-"));
	assert_int_not_equal(c.fd, -1);
	assert_false(c.tasks);
	assert_non_null(strstr(c.tasks_note, "not capped"));
	cgroup_drop(&c);
	assert_int_equal(access(c.trees[0].path, F_OK), -1);
}

/* Where we moved beside our groups, these are made and swept one level up: a process that was there
 * before, which left some, and one that is born beside them. */
static void
groups_lie_beside_our_own(void **state)
{
	static const char unit[] = "sys/fs/cgroup/system.slice/bastion.service";
	struct cgroup_limits limits = {.tasks = 65};
	struct cgroup c;
	char path[160], own[192];
	int status;
	pid_t dead;

	(void)state;
	put("proc/self/cgroup", "0::/system.slice/bastion.service/bastion.self\n");
	put("proc/self/mountinfo",
	    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
	snprintf(path, sizeof(path), "%s/cgroup.controllers", unit);
	put(path, "pids\n");
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", unit);
	put(path, "pids\n");
	if ((dead = fork()) == 0)
		_exit(0);
	waitpid(dead, &status, 0);
	box_shell("cd %s/%s && mkdir -p bastion.self bastion-%d-1-1", root, unit, (int)dead);
	cgroup_make(&c, &limits);
	snprintf(own, sizeof(own), "%s/%s/%s", root, unit, c.name);
	assert_int_equal(c.tree_count, 1);
	assert_string_equal(c.trees[0].path, own);
	assert_int_equal(cgroup_sweep(), 1);
	snprintf(path, sizeof(path), "%s/%s/bastion-%d-1-1", root, unit, (int)dead);
	assert_int_equal(access(path, F_OK), -1);
	/* Those of the living stay, and so does where we are. */
	assert_int_equal(access(own, F_OK), 0);
	snprintf(path, sizeof(path), "%s/%s/bastion.self", root, unit);
	assert_int_equal(access(path, F_OK), 0);
	cgroup_drop(&c);
}

/* Version 1: a hierarchy for each controller, some of them together, under the roots of a
 * container. */
static void
version_one(void **state)
{
	struct cgroup_limits limits = {.tasks = 65, .memory = 1048576, .cpu_percent = 50};
	struct cgroup c;

	(void)state;
	put("proc/self/cgroup",
	    "8:pids:/docker/abc\\n7:cpu,cpuacct:/docker/abc/sub\\n4:memory:/other\\n0::/\\n");
	put("proc/self/mountinfo",
	    "1 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\\n"
	    "1 2 0:3 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\\n"
	    "1 2 0:4 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\\n"
	    "1 2 0:5 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\\n");
	box_shell(
	    "cd %s && mkdir -p sys/fs/cgroup/unified sys/fs/cgroup/pids sys/fs/cgroup/cpu/sub "
	    "sys/fs/cgroup/memory",
	    root);
	cgroup_make(&c, &limits);
	assert_int_equal(c.tree_count, 2);
	assert_non_null(strstr(c.trees[0].path, "/sys/fs/cgroup/pids/bastion-"));
	assert_non_null(strstr(c.trees[1].path, "/sys/fs/cgroup/cpu/sub/bastion-"));
	assert_int_equal(c.fd, -1);
	cgroup_drop(&c);
}

/* No hierarchy at all, or one that may not be written. */
static void
none(void **state)
{
	struct cgroup_limits limits = {.tasks = 65};
	struct cgroup c;

	(void)state;
	cgroup_make(&c, &limits);
	assert_int_equal(c.tree_count, 0);
	assert_false(c.tasks);
	assert_non_null(strstr(c.tasks_note, "tasks are not capped"));
	assert_false(cgroup_holds(&c, 65));
	assert_int_equal(cgroup_attach(&c, getpid()), 0);
	cgroup_drop(&c);
}

/* The real one: the cap stands in the kernel, and is seen by who is in the group and nobody else.
 */
static void
the_kernels(void **state)
{
	struct cgroup_limits limits = {.tasks = 12, .memory = 67108864};
	struct cgroup c;
	char path[600];
	int status;
	pid_t pid;

	(void)state;
	cgroup_root(NULL);
	cgroup_make(&c, &limits);
	if (!c.tasks) {
		print_message("skipped: %s\n", c.tasks_note);
		cgroup_drop(&c);
		skip();
	}
	assert_string_equal(get(c.trees[0].path, "pids.max"), "12\n");
	assert_false(cgroup_holds(&c, 12));
	/* One that enters it itself, and one that is put there. */
	if ((pid = fork()) == 0) {
		if (cgroup_enter(&c) != 0)
			_exit(1);
		_exit(cgroup_holds(&c, 12) && !cgroup_holds(&c, 13) ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	cgroup_shut(&c);
	/* It is removed with whatever is still in it. */
	if ((pid = fork()) == 0) {
		if (cgroup_attach(&c, getpid()) != 0)
			_exit(1);
		for (;;)
			pause();
	}
	snprintf(path, sizeof(path), "%s", c.trees[0].path);
	while (get(path, "cgroup.procs")[0] == '\0')
		usleep(1000);
	assert_int_equal(cgroup_drop(&c), 0);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(access(path, F_OK), -1);
}

/* CAP-3: who makes groups is killed in the middle of a run: the next start leaves nothing behind.
 */
static void
orphans_are_swept(void **state)
{
	struct cgroup_limits limits = {.tasks = 12};
	struct cgroup *c =
	    mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cgroup own;
	int held[2], status;
	pid_t pid, inside;
	char byte;

	(void)state;
	cgroup_root(NULL);
	assert_ptr_not_equal(c, MAP_FAILED);
	assert_int_equal(pipe2(held, O_CLOEXEC), 0);
	if ((pid = fork()) == 0) {
		cgroup_make(c, &limits);
		if (c->tasks && (inside = fork()) == 0) {
			cgroup_attach(c, getpid());
			execlp("sleep", "sleep", "60", (char *)NULL);
			_exit(1);
		}
		while (c->tasks && get(c->trees[0].path, "cgroup.procs")[0] == '\0')
			usleep(1000);
		raise(SIGKILL);
	}
	waitpid(pid, &status, 0);
	/* Until it is another program, the one inside holds what its maker held. */
	close(held[1]);
	assert_int_equal(read(held[0], &byte, 1), 0);
	close(held[0]);
	if (!c->tasks)
		skip();
	cgroup_make(&own, &limits);
	assert_int_equal(access(c->trees[0].path, F_OK), 0);
	assert_true(cgroup_sweep() >= 1);
	assert_int_equal(access(c->trees[0].path, F_OK), -1);
	/* Those of the living stay. */
	assert_int_equal(access(own.trees[0].path, F_OK), 0);
	cgroup_drop(&own);
	munmap(c, sizeof(*c));
}

/* A container, or whatever has numbers of its own: a group there is held as ours are, and who is
 * in it lives on. */
static void
groups_of_another_pid_namespace_stay(void **state)
{
	struct cgroup_limits limits = {.tasks = 12};
	struct cgroup *c =
	    mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int made[2], end[2], status;
	char byte;
	pid_t pid;

	(void)state;
	cgroup_root(NULL);
	assert_ptr_not_equal(c, MAP_FAILED);
	assert_int_equal(pipe(made), 0);
	assert_int_equal(pipe(end), 0);
	if ((pid = pidns_fork()) == 0) {
		close(end[1]);
		cgroup_make(c, &limits);
		if (cgroup_enter(c) != 0 || write(made[1], "", 1) != 1)
			_exit(1);
		_exit(read(end[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(end[0]);
	close(made[1]);
	assert_int_equal(read(made[0], &byte, 1), 1);
	cgroup_sweep();
	if (c->tasks)
		assert_int_equal(access(c->trees[0].path, F_OK), 0);
	close(end[1]);
	close(made[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	if (!c->tasks)
		skip();
	assert_true(cgroup_sweep() >= 1);
	assert_int_equal(access(c->trees[0].path, F_OK), -1);
	munmap(c, sizeof(*c));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(unified, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(groups_lie_beside_our_own, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(version_one, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(none, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_kernels, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(orphans_are_swept, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		groups_of_another_pid_namespace_stay, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
