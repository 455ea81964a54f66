/* test_sandbox_backend.c: by what a program is confined, whether we are inside, bwrap's command. */
#include "tests/worker/box.h"

#include "engine/worker/sandbox_backend.h"
#include "engine/worker/sandbox_wire.h"

#define WSL2 "  Linux version 5.15.90.1-microsoft-standard-WSL2 (oe-user@oe-host) #1 SMP\n"
#define WSL1 "Linux version 4.4.0-19041-Microsoft (wsl1 build) #1\n"
#define REAL "Linux version 6.8.0-generic (buildd@lcy02) #1 SMP PREEMPT_DYNAMIC\n"

/* BK-07, BK-08, BK-09: WSL is told from /proc/version; what cannot be read is no WSL. */
static void
wsl_is_told_apart(void **state)
{
	struct sandbox_wsl w;

	(void)state;
	sandbox_wsl_parse(WSL2, &w);
	assert_true(w.wsl && w.wsl2);
	assert_string_equal(
	    w.kernel, "Linux version 5.15.90.1-microsoft-standard-WSL2 (oe-user@oe-host) #1 SMP");
	sandbox_wsl_parse(WSL1, &w);
	assert_true(w.wsl);
	assert_false(w.wsl2);
	sandbox_wsl_parse(REAL, &w);
	assert_false(w.wsl || w.wsl2);
	sandbox_wsl_parse(NULL, &w);
	assert_false(w.wsl || w.wsl2);
	assert_string_equal(w.kernel, "");
}

/*
 * BK-10: without anything that confines, WSL is named, and that its traffic can be led through the
 * proxy. BK-11: where bwrap is, WSL is not asked about. BK-12: to domains programs are held by our
 * own sandbox and by no other.
 */
static void
the_best_backend(void **state)
{
	struct sandbox_facts f = {.namespaces = true, .bubblewrap = "/usr/bin/bwrap"};
	struct sandbox_record r;

	(void)state;
	sandbox_backend_best(&f, &r);
	assert_string_equal(r.name, "native");
	assert_true(r.available && r.isolation && r.scoped_egress && !r.fallback);
	f.namespaces = false;
	sandbox_wsl_parse(WSL2, &f.wsl);
	sandbox_backend_best(&f, &r);
	assert_string_equal(r.name, "bubblewrap");
	assert_true(r.available && r.isolation && !r.fallback && !r.scoped_egress);
	assert_string_equal(r.executable, "/usr/bin/bwrap");
	/* One that was seen to fail confines nothing. */
	f.bubblewrap_fails = true;
	sandbox_backend_best(&f, &r);
	assert_string_equal(r.name, "wsl");
	assert_null(r.executable);
	f.bubblewrap_fails = false;
	f.bubblewrap = NULL;
	sandbox_backend_best(&f, &r);
	assert_string_equal(r.name, "wsl");
	assert_true(!r.available && r.fallback && !r.isolation && r.proxy_egress);
	assert_false(r.scoped_egress);
	assert_non_null(strstr(r.message, "WSL 2"));
	sandbox_wsl_parse(REAL, &f.wsl);
	sandbox_backend_best(&f, &r);
	assert_string_equal(r.name, "none");
	assert_true(!r.available && r.fallback && !r.proxy_egress && !r.scoped_egress);
}

/*
 * Nothing weaker is taken than what was asked for. RU-18: without a backend nothing runs, and where
 * that is because of WSL it is what is said.
 */
static void
nothing_falls_back_in_silence(void **state)
{
	struct sandbox_facts f = {.namespaces = false, .bubblewrap = "/usr/bin/bwrap"};
	struct sandbox_record r;
	struct refusal refusal;

	(void)state;
	assert_int_equal(sandbox_backend_choose(NULL, &f, &r, &refusal), -1);
	assert_string_equal(refusal.code, "sandbox.userns");
	assert_non_null(strstr(refusal.why, "--backend bubblewrap"));
	f.bubblewrap_fails = true;
	assert_int_equal(sandbox_backend_choose("native", &f, &r, &refusal), -1);
	assert_null(strstr(refusal.why, "--backend bubblewrap"));
	assert_null(strstr(refusal.why, "WSL"));
	assert_int_equal(sandbox_backend_choose("bubblewrap", &f, &r, &refusal), -1);
	assert_string_equal(refusal.code, "sandbox.backend");
	sandbox_wsl_parse(WSL1, &f.wsl);
	assert_int_equal(sandbox_backend_choose(NULL, &f, &r, &refusal), -1);
	assert_string_equal(refusal.code, "sandbox.userns");
	assert_non_null(strstr(refusal.why, "this is WSL 1"));
	f.bubblewrap = NULL;
	assert_int_equal(sandbox_backend_choose("bubblewrap", &f, &r, &refusal), -1);
	assert_string_equal(refusal.code, "sandbox.backend");
	assert_int_equal(sandbox_backend_choose("policy-only", &f, &r, &refusal), -1);
	assert_string_equal(refusal.code, "usage.wrong");
	assert_int_equal(sandbox_backend_choose("none", &f, &r, &refusal), 0);
	assert_int_equal(r.backend, BACKEND_NONE);
	assert_false(r.isolation);
}

/* RE-01, RE-02, RE-03, RE-04: both markers, exactly. */
static void
markers(void **state)
{
	(void)state;
	assert_false(sandbox_marked("1", ""));
	assert_false(sandbox_marked("1", NULL));
	assert_false(sandbox_marked("1", " \t"));
	assert_false(sandbox_marked(NULL, "native"));
	assert_false(sandbox_marked("", "native"));
	assert_true(sandbox_marked("1", "native"));
	assert_false(sandbox_marked("0", "native"));
	assert_false(sandbox_marked("1 ", "native"));
	assert_false(sandbox_marked("true", "native"));
}

/* RE-08: a worker's environment loses the markers and nothing else. */
static void
markers_are_taken_out(void **state)
{
	char a[] = "PATH=/bin", b[] = "BASTION_SANDBOXED=1", c[] = "BASTION_SANDBOX_BACKEND=native",
	     d[] = "BASTION_SANDBOX_NETWORK=deny", e[] = "HOME=/root",
	     f[] = "BASTION_SANDBOX_RUN=00";
	char *env[] = {a, b, c, d, e, f, NULL};

	(void)state;
	sandbox_unmark(env);
	assert_string_equal(env[0], "PATH=/bin");
	assert_string_equal(env[1], "BASTION_SANDBOX_NETWORK=deny");
	assert_string_equal(env[2], "HOME=/root");
	assert_null(env[3]);
}

/* A variable alone does not say that we are inside; within a sandbox, the kernel says so too. */
static void
inside_is_the_kernels_word(void **state)
{
	static char program[128], word[] = "inside", calm[] = "ASAN_OPTIONS=detect_leaks=0";
	char *argv[] = {program, word, NULL}, *env[] = {calm, NULL};
	struct sandbox_path paths[48] = {{0, NULL, NULL}};
	struct sandbox_plan plan;
	struct box_world w;
	struct boxed *b;
	char self[256], dir[128];
	ssize_t n;

	(void)state;
	assert_false(sandbox_inside("1", "native"));
	box_make(&w);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(dir, sizeof(dir), "%s/bin", w.dir);
	box_shell("mkdir -m 755 %s && cp %s %s/suite && chmod 755 %s/suite", dir, self, dir, dir);
	paths[0] = (struct sandbox_path){SANDBOX_READ, dir, "/suite"};
	box_plan(&w, &plan, paths, 1);
	strcpy(program, "/suite/suite");
	plan.argv = argv;
	/* Sanitizers map more than any bound, and trace. */
	plan.env = env;
	plan.limits.group.memory = 0;
	b = box_run(&w, BOX_USER, &plan);
	if (!b->started)
		fail_msg("%s", b->refusal.why);
	assert_int_equal(b->code, 10);
	box_drop(&w);
}

/*
 * RU-01, RU-06, RU-09: bwrap's command holds the working directory, the paths at their places, no
 * network, a new session, no capability; what is kept or hidden comes behind what it lies in.
 * RE-05: and the markers.
 */
static void
bubblewraps_command(void **state)
{
	static char sh[] = "/bin/sh", c[] = "-c", pwd[] = "pwd", m1[] = "BASTION_SANDBOXED=1",
		    m2[] = "BASTION_SANDBOX_BACKEND=bubblewrap";
	char *argv[] = {sh, c, pwd, NULL}, *env[] = {m1, m2, NULL};
	const struct sandbox_path paths[] = {{SANDBOX_KEEP, NULL, "/ws/kept"},
	    {SANDBOX_READ, "/usr", "/usr"}, {SANDBOX_LINK, "usr/bin", "/bin"},
	    {SANDBOX_WRITE, "/ws", "/ws"}};
	struct sandbox_plan plan = {
	    .argv = argv, .env = env, .cwd = "/ws/nested", .paths = paths, .path_count = 4};
	const char *out[BACKEND_ARGV_MAX];
	char room[4096], line[4096] = "";
	struct refusal r;
	int i, n = sandbox_bubblewrap(&plan, "/usr/bin/bwrap", out, room, sizeof(room), &r);

	(void)state;
	for (i = 0; i < n; i++) {
		strcat(line, out[i]);
		strcat(line, i + 1 < n ? " " : "");
	}
	assert_string_equal(line,
	    "/usr/bin/bwrap --die-with-parent --new-session --unshare-user --unshare-pid "
	    "--unshare-ipc --unshare-uts --unshare-cgroup --cap-drop ALL --proc /proc --dev /dev "
	    "--tmpfs /tmp --unshare-net --symlink usr/bin /bin --ro-bind /usr /usr --bind /ws /ws "
	    "--ro-bind /ws/kept /ws/kept --chdir /ws/nested --clearenv --setenv BASTION_SANDBOXED 1 "
	    "--setenv BASTION_SANDBOX_BACKEND bubblewrap -- /bin/sh -c pwd");
	plan.net = SANDBOX_NET_HOST;
	n = sandbox_bubblewrap(&plan, "/usr/bin/bwrap", out, room, sizeof(room), &r);
	for (i = 0; i < n; i++)
		assert_string_not_equal(out[i], "--unshare-net");
	/* What it cannot do it does not do half. */
	assert_int_equal(sandbox_bubblewrap(&plan, "/usr/bin/bwrap", out, room, 8, &r), -1);
	assert_string_equal(r.code, "sandbox.backend");
}

/* What lies in something comes behind it; what is forbidden is empty by the name that it has
 * inside. */
static void
bubblewraps_paths(void **state)
{
	static char program[] = "true";
	char *argv[] = {program, NULL}, *env[] = {NULL};
	struct sandbox_path paths[] = {{SANDBOX_WRITE, "/home/a/p", "/home/a/p"},
	    {SANDBOX_WRITE, "/cache/run", "/home/a"}, {SANDBOX_READ, "/usr", "/usr"},
	    {SANDBOX_HIDE, NULL, "/usr/no"}};
	const char *forbidden[] = {"/cache/run/state"};
	struct sandbox_plan plan = {.argv = argv,
	    .env = env,
	    .cwd = "/",
	    .paths = paths,
	    .path_count = 4,
	    .forbidden = forbidden,
	    .forbidden_count = 1};
	const char *out[BACKEND_ARGV_MAX];
	char room[4096], line[4096] = "";
	struct refusal r;
	int i, n = sandbox_bubblewrap(&plan, "bwrap", out, room, sizeof(room), &r);

	(void)state;
	for (i = 0; i < n; i++) {
		strcat(line, out[i]);
		strcat(line, " ");
	}
	assert_non_null(strstr(line,
	    "--bind /cache/run /home/a --bind /home/a/p /home/a/p --ro-bind /usr /usr --ro-bind "
	    "/dev/null /usr/no --tmpfs /home/a/state --chdir / "));
	paths[3].target = "/home/a/p/x";
	assert_true(sandbox_bubblewrap(&plan, "bwrap", out, room, sizeof(room), &r) > 0);
	paths[3].target = "/home/a/x";
	assert_int_equal(sandbox_bubblewrap(&plan, "bwrap", out, room, sizeof(room), &r), -1);
	assert_string_equal(r.code, "sandbox.backend");
}

/* A plan comes out of its file as it went in, and nothing else is a plan. */
static void
plans_travel_whole(void **state)
{
	static char sh[] = "/bin/sh", c[] = "", x[] = "A=b";
	char *argv[] = {sh, c, NULL}, *env[] = {x, NULL};
	const struct sandbox_path paths[] = {
	    {SANDBOX_KEEP, NULL, "/ws/kept"}, {SANDBOX_LINK, "usr/bin", "/bin"}};
	const char *forbidden[] = {"/var/lib/bastion"};
	struct sandbox_plan plan = {.argv = argv,
	    .env = env,
	    .cwd = "/ws",
	    .paths = paths,
	    .path_count = 2,
	    .forbidden = forbidden,
	    .forbidden_count = 1,
	    .net = SANDBOX_NET_SOCKETS,
	    .uid = 7,
	    .gid = 8};
	struct sandbox_wire w;
	struct refusal r;
	char bytes[8192];
	ssize_t n;
	int fd = sandbox_wire_write(&plan, &r), other;

	(void)state;
	assert_int_not_equal(fd, -1);
	assert_int_equal(sandbox_wire_read(fd, &w), 0);
	assert_string_equal(w.plan.argv[0], "/bin/sh");
	assert_string_equal(w.plan.argv[1], "");
	assert_null(w.plan.argv[2]);
	assert_string_equal(w.plan.env[0], "A=b");
	assert_null(w.plan.env[1]);
	assert_string_equal(w.plan.cwd, "/ws");
	assert_null(w.plan.paths[0].source);
	assert_string_equal(w.plan.paths[1].source, "usr/bin");
	assert_string_equal(w.plan.forbidden[0], "/var/lib/bastion");
	assert_int_equal(w.plan.net, SANDBOX_NET_SOCKETS);
	assert_int_equal(w.plan.uid, 7);
	sandbox_wire_free(&w);
	n = pread(fd, bytes, sizeof(bytes), 0);
	assert_int_equal(sandbox_wire_parse(bytes, (size_t)n, &w), 0);
	sandbox_wire_free(&w);
	assert_int_equal(sandbox_wire_parse(bytes, (size_t)n - 1, &w), -1);
	sandbox_wire_free(&w);
	bytes[n] = 0;
	assert_int_equal(sandbox_wire_parse(bytes, (size_t)n + 1, &w), -1);
	sandbox_wire_free(&w);
	/* What is not sealed could change behind the check. */
	other = memfd_create("plan", MFD_CLOEXEC);
	assert_int_equal(write(other, bytes, (size_t)n), n);
	assert_int_equal(sandbox_wire_read(other, &w), -1);
	sandbox_wire_free(&w);
	assert_int_equal(sandbox_wire_read(STDERR_FILENO, &w), -1);
	sandbox_wire_free(&w);
	close(other);
	close(fd);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wsl_is_told_apart),
	    cmocka_unit_test(the_best_backend),
	    cmocka_unit_test(nothing_falls_back_in_silence),
	    cmocka_unit_test(markers),
	    cmocka_unit_test(markers_are_taken_out),
	    cmocka_unit_test(inside_is_the_kernels_word),
	    cmocka_unit_test(bubblewraps_command),
	    cmocka_unit_test(bubblewraps_paths),
	    cmocka_unit_test(plans_travel_whole),
	};

	/* Asked from inside a sandbox, by inside_is_the_kernels_word. */
	if (argc == 2 && strcmp(argv[1], "inside") == 0)
		return sandbox_inside("1", "native") && !sandbox_inside("0", "native") ? 10 : 11;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
