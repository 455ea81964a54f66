/* test_sandbox.c: what a plan says is what the program sees, may use, and leaves behind. */
#include "tests/worker/box.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "engine/worker/sandbox_effect.h"
#include "engine/worker/sandbox_job.h"

#define PATHS 96

static struct box_world world;

/* A plan for one shell line. */
struct line {
	struct sandbox_path paths[PATHS];
	struct sandbox_plan plan;
	char *argv[4];
	char ws[80], other[80];
	int opened; /* the folder whose changes are applied; -1: what ws names then */
};

static int
set_up(void **state)
{
	(void)state;
	box_make(&world);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	box_drop(&world);
	return 0;
}

static uid_t
owner(enum box_who who)
{
	return box_uid(who);
}

/* A folder ws made anew by the shell line ${make}, owned by whom it runs as. */
static void
make_ws(enum box_who who, const char *make)
{
	box_shell("cd %s && rm -rf ws && mkdir ws && cd ws && { %s; } && chown -hR %d:%d .",
	    world.dir, make, (int)owner(who), (int)(geteuid() == 0 ? owner(who) : getegid()));
}

static void
line_plan(struct line *l, const char *script, const struct sandbox_path *paths, size_t n)
{
	static char sh[] = "sh", dash_c[] = "-c";

	memset(l, 0, sizeof(*l));
	l->opened = -1;
	snprintf(l->ws, sizeof(l->ws), "%s/ws", world.dir);
	memcpy(l->paths, paths, n * sizeof(*paths));
	box_plan(&world, &l->plan, l->paths, n);
	l->argv[0] = sh;
	l->argv[1] = dash_c;
	l->argv[2] = (char *)(uintptr_t)script;
	l->plan.argv = l->argv;
}

static struct boxed *
line_run(enum box_who who, struct line *l)
{
	struct boxed *b = box_run(&world, who, &l->plan);

	if (!b->started)
		fail_msg("as %s: %s: %s", box_names[who], b->refusal.code, b->refusal.why);
	return b;
}

#define EACH_WHO(who)                               \
	for (who = BOX_ROOT; who < BOX_WHOS; who++) \
		if (box_can(who))

/*
 * Paths.
 */

struct path_case {
	const char *name;
	struct sandbox_path paths[6];
	const char *see, *hidden; /* names below /w, with blanks between */
};

/* What is read beneath hidden and shown paths, by the kernel's word. */
static const struct path_case path_cases[] = {
    {"no lists", {{0, NULL, NULL}}, "secret/data src/main", ""},
    {"hidden", {{SANDBOX_HIDE, NULL, "/w/secret"}}, "src/main", "secret/data secret/public/ok"},
    {"shown in hidden",
	{{SANDBOX_HIDE, NULL, "/w/secret"}, {SANDBOX_SHOW, NULL, "/w/secret/public"}},
	"src/main secret/public/ok", "secret/data secret/other"},
    {"one file", {{SANDBOX_HIDE, NULL, "/w/secret/data"}}, "secret/other", "secret/data"},
    {"shown and hidden alike",
	{{SANDBOX_HIDE, NULL, "/w/secret"}, {SANDBOX_SHOW, NULL, "/w/secret"}},
	"secret/data secret/public/ok", ""},
    {"in both",
	{{SANDBOX_HIDE, NULL, "/w/a"}, {SANDBOX_HIDE, NULL, "/w/a/b"},
	    {SANDBOX_SHOW, NULL, "/w/a/b/c"}},
	"a/b/c/x", "a/y a/b/z"},
    {"hidden in shown",
	{{SANDBOX_HIDE, NULL, "/w/a"}, {SANDBOX_SHOW, NULL, "/w/a/b/c"},
	    {SANDBOX_HIDE, NULL, "/w/a/b/c/d"}},
	"a/b/c/x", "a/b/c/d/x a/b/z"},
    {"shown above hidden", {{SANDBOX_SHOW, NULL, "/w/a"}, {SANDBOX_HIDE, NULL, "/w/a/b"}}, "a/y",
	"a/b/z a/b/c/x"},
    {"not there", {{SANDBOX_HIDE, NULL, "/w/none"}, {SANDBOX_KEEP, NULL, "/w/none/x"}},
	"secret/data", ""},
};

static const char TREE[] =
    "mkdir -p secret/public src a/b/c/d && for f in secret/data secret/other secret/public/ok "
    "src/main a/y a/b/z a/b/c/x a/b/c/d/x; do echo canary > $f; done";

static void
check_paths(const struct path_case *c, enum box_who who, enum sandbox_kind kind)
{
	struct sandbox_path paths[7] = {{kind, NULL, "/w"}};
	char script[512];
	struct line l;
	struct boxed *b;
	size_t n = 1, i;

	for (i = 0; i < 6 && c->paths[i].target != NULL; i++)
		paths[n++] = c->paths[i];
	make_ws(who, TREE);
	snprintf(script, sizeof(script),
	    "cd /w; for f in %s; do [ \"$(cat $f)\" = canary ] || echo missing $f; done; "
	    "for f in %s; do cat $f 2>/dev/null; done; echo end",
	    c->see, c->hidden[0] != '\0' ? c->hidden : "/none");
	line_plan(&l, script, paths, n);
	l.paths[0].source = l.ws;
	b = line_run(who, &l);
	if (strcmp(b->out, "end\n") != 0)
		fail_msg("%s as %s, kind %d: %s", c->name, box_names[who], (int)kind, b->out);
}

/*
 * PL-01, PL-02, PL-03, PL-04, PL-05, PL-25, PL-26, PL-27, PL-28: a hidden path is not read, its
 * sibling is, and what is shown within it is again, however the lists lie in each other.
 */
static void
hidden_and_shown_paths(void **state)
{
	size_t i;
	int who;

	(void)state;
	for (i = 0; i < sizeof(path_cases) / sizeof(path_cases[0]); i++)
		EACH_WHO(who)
		{
			check_paths(&path_cases[i], who, SANDBOX_READ);
			check_paths(&path_cases[i], who, SANDBOX_WRITE);
			check_paths(&path_cases[i], who, SANDBOX_EFFECT);
		}
}

/*
 * PL-06, PL-07, PL-08, PL-09, PL-10, PL-11, PL-21: writing goes where the plan says, and not to
 * what it keeps, also within what it lets write.
 */
static void
written_and_kept_paths(void **state)
{
	static const char script[] =
	    "cd /w; for f in in src/new secret/creds secret/deep/x /ext/build/out "
	    "/ext/build/protected/x /ext/other /usr/x /x; do "
	    "(echo x > $f) 2>/dev/null && echo wrote $f; done; "
	    "rm -rf secret 2>/dev/null; mv src /w/gone 2>/dev/null; cat secret/kept";
	struct sandbox_path paths[] = {{SANDBOX_WRITE, NULL, "/w"}, {SANDBOX_READ, NULL, "/ext"},
	    {SANDBOX_WRITE, NULL, "/ext/build"}, {SANDBOX_KEEP, NULL, "/w/secret"},
	    {SANDBOX_KEEP, NULL, "/ext/build/protected"}};
	char ext[96], build[96];
	struct line l;
	struct boxed *b;
	int who;

	(void)state;
	EACH_WHO(who)
	{
		make_ws(who,
		    "mkdir -p w/src w/secret/deep ext/build/protected && echo canary > w/secret/kept");
		line_plan(&l, script, paths, 5);
		snprintf(ext, sizeof(ext), "%s/ext", l.ws);
		snprintf(build, sizeof(build), "%s/ext/build", l.ws);
		strcat(l.ws, "/w");
		l.paths[0].source = l.ws;
		l.paths[1].source = ext;
		l.paths[2].source = build;
		b = line_run(who, &l);
		assert_string_equal(
		    b->out, "wrote in\nwrote src/new\nwrote /ext/build/out\ncanary\n");
		box_shell("test -f %s/in && test -f %s/gone/new && test ! -e %s/secret/creds", l.ws,
		    l.ws, l.ws);
	}
}

/* What bastion owns is in no plan, and hidden in what is. */
static void
forbidden_paths(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_WRITE, NULL, "/w"}};
	struct line l;
	struct boxed *b;
	char forbidden[96];
	const char *list[] = {forbidden};
	int who;

	(void)state;
	EACH_WHO(who)
	{
		make_ws(who, "mkdir -p a/state && echo canary > a/state/bastion.key && touch a/ok");
		line_plan(&l,
		    "ls /w/a; cat /w/a/state/bastion.key; mv /w/a /w/b; echo x > /w/a/state/y",
		    paths, 1);
		l.paths[0].source = l.ws;
		snprintf(forbidden, sizeof(forbidden), "%s/a/state", l.ws);
		l.plan.forbidden = list;
		l.plan.forbidden_count = 1;
		b = line_run(who, &l);
		assert_non_null(strstr(b->out, "ok\nstate\n"));
		assert_null(strstr(b->out, "canary"));
		box_shell("test -f %s/bastion.key && test ! -e %s/y", forbidden, forbidden);
		/* What shows a part of what is hidden does not show it, by its name or from above.
		 */
		l.paths[l.plan.path_count++] = (struct sandbox_path){SANDBOX_HIDE, NULL, "/w/a"};
		l.paths[l.plan.path_count++] =
		    (struct sandbox_path){SANDBOX_SHOW, NULL, "/w/a/state"};
		b = box_run(&world, who, &l.plan);
		assert_false(b->started);
		assert_string_equal(b->refusal.code, "sandbox.plan");
		l.paths[l.plan.path_count - 2].target = "/w";
		l.paths[l.plan.path_count - 1].target = "/w/a";
		b = line_run(who, &l);
		assert_non_null(strstr(b->out, "ok\nstate\n"));
		assert_null(strstr(b->out, "canary"));
		l.plan.path_count -= 2;
		/* As a path of its own it is refused, and so is what lies in it. */
		strcpy(l.ws, forbidden);
		b = box_run(&world, who, &l.plan);
		assert_false(b->started);
		assert_string_equal(b->refusal.code, "sandbox.plan");
	}
}

/* A folder that becomes a link while the sandbox is made: never is anything else seen. */
static void
swapped_sources(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_READ, NULL, "/w"}};
	struct line l;
	struct boxed *b;
	pid_t swapper;
	char a[96], t[96];
	int i, refused = 0;

	(void)state;
	make_ws(BOX_USER, "mkdir -p s out && echo canary > out/canary && ln -s out link");
	line_plan(&l, "cat /w/canary", paths, 1);
	snprintf(t, sizeof(t), "%s/link", l.ws);
	snprintf(a, sizeof(a), "%s/s", l.ws);
	if ((swapper = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, t, 2 /* EXCHANGE */) ==
			    -1)
				_exit(1);
	}
	l.paths[0].source = a;
	for (i = 0; i < 60; i++) {
		b = box_run(&world, BOX_USER, &l.plan);
		assert_null(strstr(b->out, "canary\n"));
		refused += !b->started;
	}
	kill(swapper, SIGKILL);
	waitpid(swapper, NULL, 0);
	print_message("%d of 60 were refused\n", refused);
}

/*
 * A folder on the way to what is hidden is swapped with another one all the time, as another
 * program with the same folder could: by no name is the file ever read.
 */
static void
swapped_ways(void **state)
{
	struct sandbox_path paths[] = {
	    {SANDBOX_WRITE, NULL, "/w"}, {SANDBOX_HIDE, NULL, "/w/a/b/secret"}};
	struct line l;
	struct boxed *b;
	pid_t swapper;
	char a[96], t[96];
	int i, ran = 0;

	(void)state;
	make_ws(
	    BOX_USER, "mkdir -p a/b x/b && echo canary > a/b/secret && echo other > x/b/secret");
	line_plan(&l,
	    "cd /w; i=0; while [ $i -lt 50 ]; do cat a/b/secret x/b/secret 2>/dev/null; i=$((i+1)); done",
	    paths, 2);
	snprintf(t, sizeof(t), "%s/x", l.ws);
	snprintf(a, sizeof(a), "%s/a", l.ws);
	l.paths[0].source = l.ws;
	if ((swapper = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, t, 2 /* EXCHANGE */) ==
			    -1)
				_exit(1);
	}
	for (i = 0; i < 30; i++) {
		b = box_run(&world, BOX_USER, &l.plan);
		ran += b->started;
		/* It is the file that lay there when the plan was looked at; either may have. */
		if (strstr(b->out, "canary\n") != NULL && strstr(b->out, "other\n") != NULL)
			fail_msg("both were read: %s", b->out);
	}
	kill(swapper, SIGKILL);
	waitpid(swapper, NULL, 0);
	print_message("%d of 30 ran\n", ran);
}

/*
 * Plans.
 */

struct bad {
	const char *what;
	void (*spoil)(struct line *l);
};

static void
spoil_dots(struct line *l)
{
	l->paths[0].target = "/w/../etc";
}

static void
spoil_root(struct line *l)
{
	l->paths[0].target = "/";
}

static void
spoil_relative(struct line *l)
{
	l->paths[0].source = "ws";
}

static void
spoil_proc(struct line *l)
{
	l->paths[0].target = "/proc/sys";
}

static void
spoil_twice(struct line *l)
{
	l->paths[0].target = "/usr";
}

static void
spoil_device(struct line *l)
{
	l->paths[0].source = "/dev/null";
}

static void
spoil_missing(struct line *l)
{
	l->paths[0].source = "/tmp/bastion-not-there";
}

static void
spoil_user(struct line *l)
{
	l->plan.limits.group.tasks = 0;
}

static void
spoil_command(struct line *l)
{
	l->argv[0] = NULL;
}

static void
spoil_cwd(struct line *l)
{
	l->plan.cwd = "tmp";
}

static int folder_fd, socket_fd, path_fd;

static void
spoil_folder_fd(struct line *l)
{
	l->plan.stdio[0] = folder_fd;
}

static void
spoil_path_fd(struct line *l)
{
	l->plan.stdio[0] = path_fd;
}

static void
spoil_socket(struct line *l)
{
	l->plan.fds = &socket_fd;
	l->plan.fd_count = 1;
}

/* A plan that contradicts itself, or that would be a way out, starts nothing. */
static void
bad_plans(void **state)
{
	static const struct bad list[] = {{"..", spoil_dots}, {"/", spoil_root},
	    {"relative", spoil_relative}, {"/proc", spoil_proc}, {"twice", spoil_twice},
	    {"a device", spoil_device}, {"missing", spoil_missing}, {"limits", spoil_user},
	    {"no command", spoil_command}, {"working directory", spoil_cwd},
	    {"a folder's descriptor", spoil_folder_fd}, {"a path's descriptor", spoil_path_fd},
	    {"a socket without a network", spoil_socket}};
	struct sandbox_path paths[] = {{SANDBOX_READ, NULL, "/w"}};
	struct boxed *b;
	struct line l;
	int pair[2];
	size_t i;

	(void)state;
	make_ws(BOX_USER, "true");
	folder_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	path_fd = open("/etc/passwd", O_PATH | O_CLOEXEC);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	socket_fd = pair[0];
	for (i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		line_plan(&l, "echo ran", paths, 1);
		l.paths[0].source = l.ws;
		list[i].spoil(&l);
		b = box_run(&world, BOX_USER, &l.plan);
		if (b->started || strcmp(b->refusal.code, "sandbox.plan") != 0)
			fail_msg("%s: %s %s", list[i].what, b->refusal.code, b->out);
	}
	close(folder_fd);
	close(path_fd);
	close(pair[0]);
	close(pair[1]);
}

/* RU-05, RU-08: it begins in any folder that is seen, and in no other: then nothing runs. */
static void
working_directories(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_READ, NULL, "/w"}, {SANDBOX_WRITE, NULL, "/extra"}};
	struct boxed *b;
	struct line l;
	int who;

	(void)state;
	EACH_WHO(who)
	{
		make_ws(who, "mkdir inner");
		line_plan(&l, "pwd", paths, 2);
		l.paths[0].source = l.paths[1].source = l.ws;
		l.plan.cwd = "/extra/inner";
		b = line_run(who, &l);
		assert_string_equal(b->out, "/extra/inner\n");
		l.plan.cwd = l.ws; /* which is there, outside */
		b = box_run(&world, who, &l.plan);
		assert_false(b->started);
		assert_string_equal(b->refusal.code, "sandbox.start");
		assert_non_null(strstr(b->refusal.why, "working directory"));
	}
}

/* A socket that is passed in is the one way out. */
static void
passed_socket(void **state)
{
	struct sandbox_path none = {0, NULL, NULL};
	char text[16] = {0};
	struct boxed *b;
	struct line l;
	int pair[2], who;

	(void)state;
	EACH_WHO(who)
	{
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		line_plan(&l, "echo hello >&3; ls -l /proc/self/fd | grep -c socket", &none, 0);
		l.plan.net = SANDBOX_NET_SOCKETS;
		l.plan.fds = &pair[1];
		l.plan.fd_count = 1;
		b = line_run(who, &l);
		assert_string_equal(b->out, "1\n");
		assert_int_equal(read(pair[0], text, sizeof(text) - 1), 6);
		assert_string_equal(text, "hello\n");
		close(pair[0]);
		close(pair[1]);
	}
}

/* Where user namespaces are forbidden nothing runs, and the refusal names the setting. */
static void
without_user_namespaces(void **state)
{
	struct sandbox_path none = {0, NULL, NULL};
	struct refusal *r = &world.boxed->refusal;
	struct sandbox box;
	struct line l;
	int status, fd;
	pid_t pid;

	(void)state;
	line_plan(&l, "echo ran", &none, 0);
	l.plan.stdio[0] = l.plan.stdio[1] = l.plan.stdio[2] = STDERR_FILENO;
	l.plan.uid = geteuid();
	l.plan.gid = getegid();
	memset(r, 0, sizeof(*r));
	if ((pid = fork()) == 0) {
		if (unshare(CLONE_NEWUSER) == -1)
			_exit(2);
		fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
		if (fd == -1 || write(fd, "0", 1) != 1)
			_exit(3);
		l.plan.uid = geteuid();
		l.plan.gid = getegid();
		_exit(sandbox_start(&l.plan, &box, r) == -1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_equal(r->code, "sandbox.userns");
	assert_non_null(strstr(r->why, "user.max_user_namespaces"));
}

/*
 * Its life.
 */

static void
exit_codes(void **state)
{
	static const struct {
		const char *script;
		int code;
	} list[] = {{"exit 0", 0}, {"exit 7", 7}, {"kill -9 $$", 137}, {"kill -TERM $$", 143}};
	struct sandbox_path none = {0, NULL, NULL};
	struct boxed *b;
	struct line l;
	size_t i;
	int who;

	(void)state;
	EACH_WHO(who)
	for (i = 0; i < 4; i++) {
		line_plan(&l, list[i].script, &none, 0);
		b = line_run(who, &l);
		assert_int_equal(b->code, list[i].code);
	}
	line_plan(&l, "", &none, 0);
	l.argv[0] = (char *)(uintptr_t) "no-such-program";
	b = box_run(&world, BOX_USER, &l.plan);
	assert_string_equal(b->refusal.code, "sandbox.program");
	assert_non_null(strstr(b->refusal.why, "no-such-program cannot be started inside"));
}

static void
ask_to_end(struct sandbox *box, struct boxed *b, void *ctx)
{
	char byte;
	int *ready = ctx;

	(void)b;
	/* Once it says that its trap is set. */
	if (read(ready[0], &byte, 1) == 1)
		kill(box->pid, SIGTERM);
}

/* A signal from outside is the program's; its children, and theirs, end with it. */
static void
signals_are_handed_on(void **state)
{
	struct sandbox_path none = {0, NULL, NULL};
	struct boxed *b;
	struct line l;
	int who, ready[2];

	(void)state;
	EACH_WHO(who)
	{
		assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
		line_plan(&l,
		    "trap 'echo asked; exit 3' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000' &) ; "
		    "echo r >&3; while :; do sleep 0.05; done",
		    &none, 0);
		l.plan.fds = &ready[1];
		l.plan.fd_count = 1;
		world.during = ask_to_end;
		world.ctx = ready;
		b = line_run(who, &l);
		world.during = NULL;
		assert_non_null(strstr(b->out, "asked\n"));
		assert_int_equal(b->code, 3);
		close(ready[0]);
		close(ready[1]);
	}
}

/* The program dies with whoever started it, kill -9 included. */
static void
dies_with_its_starter(void **state)
{
	struct sandbox_path none = {0, NULL, NULL};
	struct pollfd p = {.events = POLLIN};
	struct refusal refusal;
	struct sandbox box;
	struct line l;
	int out[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char text[16];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	line_plan(&l, "echo on; (setsid sleep 1000 &); sleep 1000", &none, 0);
	l.plan.stdio[0] = null;
	l.plan.stdio[1] = l.plan.stdio[2] = out[1];
	l.plan.uid = geteuid();
	l.plan.gid = getegid();
	if ((pid = fork()) == 0) {
		if (sandbox_start(&l.plan, &box, &refusal) != 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(out[1]);
	p.fd = out[0];
	assert_int_equal(read(out[0], text, sizeof(text)), 3);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* The pipe ends when the last of them is gone. */
	assert_int_equal(poll(&p, 1, BOX_WAIT_MS), 1);
	assert_int_equal(read(out[0], text, sizeof(text)), 0);
	close(out[0]);
	close(null);
}

/* Asked whether it may start: ${ctx} is the descriptor that it writes to, or -1 for no. */
static int
may(void *ctx, struct refusal *refusal)
{
	const int *fd = ctx;

	if (*fd == -1)
		return refusal_set(refusal, "run.over", "it may not");
	return write(*fd, "asked ", 6) == 6 ? 0 : -1;
}

/* Nothing of a program runs before its starter said so, or where it said no. */
static void
starts_when_it_may(void **state)
{
	struct sandbox_path none = {0, NULL, NULL};
	struct refusal refusal;
	struct sandbox box;
	struct line l;
	int out[2], null = open("/dev/null", O_RDWR | O_CLOEXEC), no = -1;
	char text[32] = "";
	size_t len = 0;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	line_plan(&l, "echo ran", &none, 0);
	l.plan.stdio[0] = null;
	l.plan.stdio[1] = l.plan.stdio[2] = out[1];
	l.plan.uid = geteuid();
	l.plan.gid = getegid();
	l.plan.may = may;
	l.plan.may_ctx = &no;
	assert_int_equal(sandbox_start(&l.plan, &box, &refusal), -1);
	assert_string_equal(refusal.code, "run.over");
	l.plan.may_ctx = &out[1];
	assert_int_equal(sandbox_start(&l.plan, &box, &refusal), 0);
	assert_int_equal(sandbox_ready(&box, BOX_WAIT_MS, &refusal), 0);
	assert_int_equal(waitpid(box.pid, NULL, 0), box.pid);
	sandbox_reaped(&box);
	sandbox_free(&box);
	close(out[1]);
	while ((n = read(out[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	assert_string_equal(text, "asked ran\n");
	close(out[0]);
	close(null);
}

/* Start ${line}, whose standard output comes to ${*out}, and wait until it runs. */
static void
line_started(const char *line, struct sandbox *box, int *out)
{
	struct sandbox_path none = {0, NULL, NULL};
	int pipes[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct refusal refusal;
	struct line l;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	line_plan(&l, line, &none, 0);
	l.plan.stdio[0] = l.plan.stdio[2] = null;
	l.plan.stdio[1] = pipes[1];
	l.plan.uid = geteuid();
	l.plan.gid = getegid();
	assert_int_equal(sandbox_start(&l.plan, box, &refusal), 0);
	assert_int_equal(sandbox_ready(box, BOX_WAIT_MS, &refusal), 0);
	close(pipes[1]);
	close(null);
	*out = pipes[0];
}

/* Its end is said when nothing of it is alive, also of what it left behind. */
static void
over_when_all_are_dead(void **state)
{
	struct pollfd over = {.events = POLLIN}, out = {.events = POLLIN};
	struct sandbox box;
	char go;
	int status;

	(void)state;
	line_started(
	    "for i in 1 2 3; do setsid sleep 1000 & done; echo; sleep 0.3; exit 3", &box, &out.fd);
	assert_int_equal(read(out.fd, &go, 1), 1);
	assert_false(sandbox_over(&box));
	over.fd = box.over_fd;
	assert_int_equal(poll(&over, 1, BOX_WAIT_MS), 1);
	assert_true(sandbox_over(&box));
	assert_int_equal(box.code, 3);
	/* The pipe that they all had is nobody's. */
	assert_int_equal(poll(&out, 1, 0), 1);
	assert_int_equal(read(out.fd, &go, 1), 0);
	assert_int_equal(sandbox_end(&box, &status), 0);
	assert_int_equal(status, W_EXITCODE(3, 0));
	sandbox_free(&box);
	close(out.fd);
}

/* What is killed from outside says nothing: its status does. */
static void
killed_says_no_code(void **state)
{
	struct sandbox box;
	int out, status;

	(void)state;
	line_started("sleep 1000", &box, &out);
	assert_int_equal(sandbox_signal(&box, SIGKILL), 0);
	assert_int_equal(sandbox_end(&box, &status), 0);
	assert_false(sandbox_over(&box));
	assert_int_equal(status, W_EXITCODE(0, SIGKILL));
	sandbox_free(&box);
	close(out);
}

/*
 * CAP-1, CAP-2: as root the cap on tasks is proven from inside before the program starts; where no
 * group can be made it is not said to be capped, and why is said.
 */
static void
caps_are_proven(void **state)
{
	struct sandbox_path none = {0, NULL, NULL};
	struct boxed *b;
	struct line l;

	(void)state;
	line_plan(&l, "true", &none, 0);
	if (box_can(BOX_ROOT)) {
		b = line_run(BOX_ROOT, &l);
		if (b->report.note_count > 0)
			print_message("%s\n", b->report.notes[0]);
		assert_true(b->report.tasks_capped);
		line_plan(
		    &l, "i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done; wait", &none, 0);
		l.plan.limits.group.tasks = 20;
		b = line_run(BOX_ROOT, &l);
		assert_non_null(strstr(b->out, "ork")); /* Cannot fork, or fork: ... */
	}
	line_plan(&l, "true", &none, 0);
	b = line_run(BOX_USER, &l);
	if (!b->report.tasks_capped) {
		assert_true(b->report.note_count > 0);
		assert_non_null(strstr(b->report.notes[0], "tasks are not capped"));
	}
}

/* Real work goes on in it: a compiler, a pipeline, an interpreter with threads. */
static void
ordinary_programs_run(void **state)
{
	static const char script[] =
	    "cd /w && printf 'int main(void){return 42;}' > a.c && gcc -o a a.c && ./a; echo $?; "
	    "seq 1000 | sort -n | tail -1; git init -q . && git add a.c && git -c user.name=x -c "
	    "user.email=x@example.com commit -qm x && git log --oneline | wc -l; "
	    "ls /dev/shm >/dev/null && echo shm; getent hosts localhost >/dev/null; "
	    "python3 -c 'import threading,socket,tempfile,os; t=threading.Thread(target=print,args=(\"py\",)); "
	    "t.start(); t.join(); s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen(); "
	    "c=socket.create_connection(s.getsockname()); print(\"net\")'";
	struct sandbox_path paths[] = {{SANDBOX_EFFECT, NULL, "/w"}};
	struct boxed *b;
	struct line l;
	int who;

	(void)state;
	EACH_WHO(who)
	{
		make_ws(who, "true");
		line_plan(&l, script, paths, 1);
		l.paths[0].source = l.ws;
		b = line_run(who, &l);
		assert_string_equal(b->out, "42\n1000\n1\nshm\npy\nnet\n");
	}
}

/* Root makes one for a user out of what that user alone may enter, and of what root alone may. */
static void
folders_of_one_user(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_WRITE, NULL, "/w"}, {SANDBOX_READ, NULL, "/lent"},
	    {SANDBOX_HIDE, NULL, "/w/no"}};
	struct boxed *b;
	struct line l;
	char lent[96];

	(void)state;
	if (!box_can(BOX_LENT))
		skip();
	make_ws(BOX_LENT, "mkdir -p in/at/no lent && echo it >in/at/it && echo no >in/at/no/no");
	box_shell("cd %s/ws && echo lent >lent/lent && chown 0:0 lent lent/lent && "
		  "chmod 755 . && chmod 700 in in/at lent && chmod 644 lent/lent",
	    world.dir);
	line_plan(&l, "cat /w/it /lent; ls /w/no; echo new >/w/new", paths, 3);
	snprintf(lent, sizeof(lent), "%s/lent/lent", l.ws);
	l.paths[1].source = lent;
	strcat(l.ws, "/in/at");
	l.paths[0].source = l.ws;
	b = line_run(BOX_LENT, &l);
	assert_string_equal(b->out, "it\nlent\n");
	box_shell("test -f %s/ws/in/at/new", world.dir);
}

/*
 * What no plan shows.
 */

static struct sandbox_system sys_;
static struct sandbox_path sys_paths[SANDBOX_PATHS_MAX];

/* Complete a plan of the user ${uid} that reads ${reads}, whose secrets lie in ${also} too. */
static void
complete(struct sandbox_plan *plan, uid_t uid, const char *const *reads, const struct home *home,
    const char *also)
{
	struct refusal refusal;

	*plan = (struct sandbox_plan){.uid = uid};
	for (; *reads != NULL; reads++)
		sys_paths[plan->path_count++] = (struct sandbox_path){SANDBOX_READ, *reads, *reads};
	if (sandbox_system(&sys_, plan, sys_paths, home, also, &refusal) != 0)
		fail_msg("%s: %s", refusal.code, refusal.why);
}

static bool
says(const struct sandbox_plan *plan, enum sandbox_kind kind, const char *fmt, ...)
{
	char target[PATH_MAX];
	va_list ap;
	size_t i;

	va_start(ap, fmt);
	vsnprintf(target, sizeof(target), fmt, ap);
	va_end(ap);
	for (i = 0; i < plan->path_count; i++)
		if (plan->paths[i].kind == kind && strcmp(plan->paths[i].target, target) == 0)
			return true;
	return false;
}

/* Whoever makes a plan: keys and tokens in the home are hidden where it shows the home, also behind
 * a link, but for what it names; and the state, and all sockets, are forbidden. */
static void
what_no_plan_shows(void **state)
{
	struct sandbox_plan plan;
	static struct home home;
	char at[80], hosts[112];
	const char *reads[3] = {at, hosts, NULL};
	int i;

	(void)state;
	snprintf(at, sizeof(at), "%s/at", world.dir);
	snprintf(hosts, sizeof(hosts), "%s/.ssh/known_hosts", at);
	snprintf(home.state, sizeof(home.state), "%s/state", world.dir);
	snprintf(home.run, sizeof(home.run), "%s/run", world.dir);
	box_shell("cd %s && mkdir -p state run run-ask at/.ssh at/dot/aws && touch at/.netrc "
		  "at/.ssh/known_hosts && ln -s dot/aws at/.aws && ln -s /dev/null at/.zsh_history",
	    world.dir);
	complete(&plan, BOX_NOBODY, reads, &home, at);
	assert_true(says(&plan, SANDBOX_HIDE, "%s/.ssh", at));
	assert_true(says(&plan, SANDBOX_SHOW, "%s", hosts));
	assert_true(says(&plan, SANDBOX_HIDE, "%s/.netrc", at));
	assert_true(says(&plan, SANDBOX_HIDE, "%s/dot/aws", at));
	assert_false(says(&plan, SANDBOX_HIDE, "%s/.aws", at));
	assert_true(says(&plan, SANDBOX_READ, "/usr"));
	assert_int_equal(plan.forbidden_count, 3);
	for (i = 0; i < 3; i++)
		assert_non_null(strstr(plan.forbidden[i], i == 0 ? "/state" : "/run"));
	assert_non_null(strstr(plan.forbidden[2], "/run-ask"));
	sandbox_system_free(&sys_);
	/* What is not shown need not be hidden. */
	reads[0] = hosts;
	reads[1] = NULL;
	complete(&plan, BOX_NOBODY, reads, NULL, at);
	assert_false(says(&plan, SANDBOX_HIDE, "%s/.ssh", at));
	assert_int_equal(plan.forbidden_count, 0);
	sandbox_system_free(&sys_);
}

static const char ETC_OF_SERVICES[] =
    "umask 022; cd /etc && mkdir -p letsencrypt/live/x mysql exim4 kubernetes/pki app/a/b/c/d app/e "
    "pki/tls/private etcetera && chmod 700 letsencrypt/live pki/tls/private && "
    "for f in letsencrypt/live/x/key mysql/debian.cnf pki/tls/private/key app/a/b/key app/e/key; do "
    "echo canary >$f; done; chmod 600 mysql/debian.cnf app/a/b/key; "
    "echo canary >exim4/passwd.client; chmod 640 exim4/passwd.client; "
    "echo canary >.hidden; chmod 600 .hidden; chmod 750 app/e; "
    "echo ok >kubernetes/pki/ca.crt; for i in 1 2 3 4 5 6 7 8 9 10; do "
    "echo canary >kubernetes/pki/$i.key; done; chmod 600 kubernetes/pki/*.key; "
    "echo ok >mysql/my.cnf; echo ok >etcetera/all; ln -s /etc/mysql/debian.cnf etcetera/link";

/* A program that runs as root reads of /etc what others may, and what its plan names. */
static void
root_reads_no_secrets_of_services(void **state)
{
	static const char script[] =
	    "find /etc -type f ! -perm -4; find /etc -type d ! -perm -5; "
	    "grep -rs canary /etc; cat /etc/mysql/my.cnf /etc/etcetera/all";
	const char *reads[] = {"/etc/app/e", NULL};
	static char sh[] = "sh", dash_c[] = "-c";
	char *argv[] = {sh, dash_c, (char *)(uintptr_t)script, NULL};
	struct sandbox_plan plan, of;
	static struct sandbox_path room[SANDBOX_PATHS_MAX];
	struct boxed *b;

	(void)state;
	if (!box_can(BOX_ROOT) || unshare(CLONE_NEWNS) == -1 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1 ||
	    mount("etc", "/etc", "tmpfs", 0, "mode=0755") == -1)
		skip();
	box_shell("%s", ETC_OF_SERVICES);
	complete(&plan, 0, reads, NULL, NULL);
	box_plan(&world, &of, room, 0);
	plan.env = of.env;
	plan.cwd = "/";
	plan.argv = argv;
	plan.stdio[0] = plan.stdio[1] = plan.stdio[2] = -1;
	plan.limits = of.limits;
	b = box_run(&world, BOX_ROOT, &plan);
	umount2("/etc", MNT_DETACH);
	if (!b->started)
		fail_msg("%s: %s", b->refusal.code, b->refusal.why);
	/* Seven that others may not read, and the folder with more keys than are hidden one by one.
	 */
	assert_true(says(&plan, SANDBOX_HIDE, "/etc/kubernetes/pki"));
	assert_true(says(&plan, SANDBOX_HIDE, "/etc/letsencrypt/live"));
	assert_false(says(&plan, SANDBOX_HIDE, "/etc/kubernetes"));
	assert_string_equal(b->out, "/etc/app/e\n/etc/app/e/key:canary\nok\nok\n");
	sandbox_system_free(&sys_);
	/* Another user's sandbox need not: the kernel says no. */
	complete(&plan, BOX_NOBODY, reads + 1, NULL, NULL);
	assert_false(says(&plan, SANDBOX_HIDE, "/etc/.pwd.lock"));
	sandbox_system_free(&sys_);
}

/*
 * Changes.
 */

/* List in ${e} what became of the folder ${fd}, or of the one of ${l} where that is -1. */
static int64_t
read_changes(
    struct effect *e, const struct line *l, int fd, const struct sandbox *box, struct boxed *b)
{
	memset(e, 0, sizeof(*e));
	if (fd == -1 && (fd = effect_open(l->ws, &b->refusal)) == -1)
		return -1;
	return effect_read(e, fd, &box->report.overlaid[0], box->effect_fd[0], 1000, &b->refusal);
}

static void
list_changes(struct sandbox *box, struct boxed *b, void *ctx)
{
	const struct line *l = ctx;
	struct effect e;
	size_t i, n = 0;

	b->value = read_changes(&e, l, -1, box, b);
	for (i = 0; i < e.count; i++)
		n += (size_t)snprintf(b->text + n, sizeof(b->text) - n, "%s %s %s\n",
		    effect_change_name(e.entries[i].change), effect_type_name(e.entries[i].type),
		    e.entries[i].path);
	effect_free(&e);
}

static const char OLD_TREE[] =
    "echo 1 > a && echo 2 > b && mkdir -p d/e gone/x && echo 3 > d/f && "
    "echo 4 > gone/x/y && ln -s a l && echo 5 > m && chmod 644 m && echo 6 > same";
static const char CHANGE[] =
    "cd /w; echo more >> a; rm b; echo new > n; mkdir -p d/g/h; echo 7 > d/g/h/i; rm -r gone; "
    "mkdir gone; echo 8 > gone/z; ln -sf n l; chmod 600 m; cat same >> /dev/null; touch same; "
    "ln -s /etc/passwd out; ln -s ../../x out2; ln -s ../a d/in; "
    "ln -s .. d/g/up; ln -s up/../../etc d/g/two; ln -s ../d/../x d/in2; mkfifo p; echo x > d/f; rm -r d/e; "
    "echo file > d/e; echo $((1)) >> same; printf '6\\n' > same";
static const char CHANGES[] =
    "modified file a\ndeleted file b\ndeleted folder d/e\ncreated file d/e\nmodified file d/f\n"
    "created folder d/g\ncreated folder d/g/h\ncreated file d/g/h/i\nleft out link d/g/two\n"
    "created link d/g/up\ncreated link d/in\nleft out link d/in2\n"
    "deleted folder gone\ncreated folder gone\ncreated file gone/z\nmodified link l\nmode file m\n"
    "created file n\nleft out link out\nleft out link out2\nleft out other p\n";

/* What changed is listed, all of it and nothing else; the folder is as it was. */
static void
changes_are_listed(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_EFFECT, NULL, "/w"}};
	struct boxed *b;
	struct line l;
	int who;

	(void)state;
	EACH_WHO(who)
	{
		make_ws(who, OLD_TREE);
		box_shell(
		    "cd %s && find ws -printf '%%p %%m %%s %%l\\n' | sort > before", world.dir);
		line_plan(&l, CHANGE, paths, 1);
		l.paths[0].source = l.ws;
		world.then = list_changes;
		world.ctx = &l;
		b = line_run(who, &l);
		world.then = NULL;
		assert_int_equal(b->value, 0);
		assert_string_equal(b->text, CHANGES);
		box_shell("cd %s && find ws -printf '%%p %%m %%s %%l\\n' | sort | cmp - before",
		    world.dir);
	}
}

static void
apply_changes(struct sandbox *box, struct boxed *b, void *ctx)
{
	const struct line *l = ctx;
	struct effect e;
	size_t n = 0;

	b->value = read_changes(&e, l, l->opened, box, b);
	if (b->value == 0)
		b->value = effect_apply(&e, &n, &b->refusal);
	if (b->value == 0)
		b->value = (int64_t)n;
	effect_free(&e);
}

/* Applied, the folder is what the program saw, but for what is never applied. */
static void
changes_are_applied(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_EFFECT, NULL, "/w"}};
	struct boxed *b;
	struct line l;
	char script[1024];
	int who;

	(void)state;
	EACH_WHO(who)
	{
		make_ws(who, OLD_TREE);
		snprintf(script, sizeof(script),
		    "{ %s; } 2>&1; rm out out2 d/g/two d/in2 p; find . -type f -exec cat {} + | sort; "
		    "find . ! -type d -printf '%%p %%m %%s %%l\\n' | sort",
		    CHANGE);
		line_plan(&l, script, paths, 1);
		l.paths[0].source = l.ws;
		world.then = apply_changes;
		world.ctx = &l;
		b = line_run(who, &l);
		world.then = NULL;
		if (b->value != 16)
			fail_msg("%d: %s %s", (int)b->value, b->refusal.code, b->refusal.why);
		box_shell("cat > %s/want << 'END'\n%sEND\n", world.dir, b->out);
		box_shell("cd %s/ws && { find . -type f -exec cat {} + | sort; "
			  "find . ! -type d -printf '%%p %%m %%s %%l\\n' | sort; } | cmp - ../want",
		    world.dir);
	}
}

static void
apply_late(struct sandbox *box, struct boxed *b, void *ctx)
{
	const struct line *l = ctx;
	char command[256];
	struct effect e;
	size_t n = 0;

	snprintf(command, sizeof(command), "cd %s && echo meanwhile > gone/x/new", l->ws);
	b->value = read_changes(&e, l, -1, box, b);
	if (b->value == 0 && system(command) == 0)
		b->value = effect_apply(&e, &n, &b->refusal);
	effect_free(&e);
}

/* Somebody else's change in between is not lost: nothing is applied. */
static void
changes_meanwhile_are_kept(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_EFFECT, NULL, "/w"}};
	struct boxed *b;
	struct line l;

	(void)state;
	make_ws(BOX_USER, OLD_TREE);
	line_plan(&l, "cd /w; echo x >> a; rm -r gone", paths, 1);
	l.paths[0].source = l.ws;
	world.then = apply_late;
	world.ctx = &l;
	b = line_run(BOX_USER, &l);
	world.then = NULL;
	assert_int_equal(b->value, -1);
	assert_string_equal(b->refusal.code, "sandbox.applied");
	box_shell("cd %s/ws && test \"$(cat a)\" = 1 && test -f gone/x/y && test -f gone/x/new",
	    world.dir);
}

/* While the program runs, a link to another folder takes the place of a folder above its own. */
static void
swap_way(struct sandbox *box, struct boxed *b, void *ctx)
{
	const struct line *l = ctx;
	char command[256];

	(void)box;
	snprintf(command, sizeof(command),
	    "cd %s && mv app app2 && ln -s other app && echo > app2/go", l->other);
	b->value = system(command);
}

/* What was named when it began is what is changed, whatever has that name at the end. */
static void
changes_go_to_the_folder_that_was_named(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_EFFECT, NULL, "/w"}, {SANDBOX_READ, NULL, "/go"}};
	struct refusal refusal;
	struct boxed *b;
	char way[96];
	struct line l;
	int who, kept;

	(void)state;
	EACH_WHO(who)
	{
		make_ws(who, "mkdir -p app/bin other/bin");
		line_plan(
		    &l, "until [ -e /go/go ]; do sleep 0.01; done; echo evil >/w/tool", paths, 2);
		snprintf(l.other, sizeof(l.other), "%s", l.ws);
		snprintf(way, sizeof(way), "%s/app", l.ws);
		l.paths[1].source = way;
		strcat(l.ws, "/app/bin");
		l.paths[0].source = l.ws;
		assert_int_not_equal(l.opened = effect_open(l.ws, &refusal), -1);
		world.during = swap_way;
		world.then = apply_changes;
		world.ctx = &l;
		b = line_run(who, &l);
		assert_int_equal(b->value, 1);
		box_shell("cd %s && test -f app2/bin/tool && ! test -e other/bin/tool", l.other);
		/* By its name, it is no folder any more: a link is on the way. */
		make_ws(who, "mkdir -p app/bin other/bin");
		kept = l.opened;
		l.opened = -1;
		b = line_run(who, &l);
		assert_int_equal(b->value, -1);
		/* And what was opened before is another one than the sandbox stood over. */
		make_ws(who, "mkdir -p app/bin other/bin");
		l.opened = kept;
		b = line_run(who, &l);
		world.during = NULL;
		world.then = NULL;
		close(kept);
		assert_int_equal(b->value, -1);
		assert_string_equal(b->refusal.code, "sandbox.effect");
		box_shell("cd %s && ! test -e app2/bin/tool && ! test -e other/bin/tool", l.other);
	}
}

/* Two gathered folders are two lists, in the plan's order. */
static void
two(struct sandbox *box, struct boxed *b, void *ctx)
{
	(void)ctx;
	b->value = faccessat(box->effect_fd[0], "first", F_OK, 0) == 0 &&
		   faccessat(box->effect_fd[1], "second", F_OK, 0) == 0 && box->effect_count == 2;
}

static void
folders_keep_their_order(void **state)
{
	struct sandbox_path paths[] = {{SANDBOX_EFFECT, NULL, "/z"}, {SANDBOX_EFFECT, NULL, "/b"}};
	struct boxed *b;
	struct line l;
	char other[96];

	(void)state;
	make_ws(BOX_USER, "mkdir z b");
	line_plan(&l, "touch /z/first /b/second", paths, 2);
	snprintf(other, sizeof(other), "%s/b", l.ws);
	strcat(l.ws, "/z");
	l.paths[0].source = l.ws;
	l.paths[1].source = other;
	world.then = two;
	b = line_run(BOX_USER, &l);
	world.then = NULL;
	assert_int_equal(b->value, 1);
}

/*
 * The filters, step by step.
 */

static uint32_t
loaded(const struct seccomp_data *d, uint32_t offset)
{
	uint32_t word;

	/* The number, the architecture, and arguments: no address, and nothing beyond. */
	assert_true(offset % 4 == 0 && (offset < 8 || offset >= 16) && offset < sizeof(*d));
	memcpy(&word, (const char *)d + offset, sizeof(word));
	return word;
}

/* What ${f} says of a call. */
static uint32_t
filtered(const struct sock_fprog *f, const struct seccomp_data *d)
{
	const struct sock_filter *at;
	uint32_t acc = 0;
	size_t i;
	bool yes;

	for (i = 0; i < f->len; i++) {
		at = &f->filter[i];
		switch (at->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			acc = loaded(d, at->k);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= at->k;
			continue;
		case BPF_RET | BPF_K:
			return at->k;
		case BPF_JMP | BPF_JA:
			i += at->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = acc == at->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			yes = acc > at->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = acc >= at->k;
			break;
		default:
			fail_msg("step %zu: %#x", i, at->code);
			return 0;
		}
		i += yes ? at->jt : at->jf;
	}
	fail_msg("it runs off its end");
	return 0;
}

/* Of both filters the stricter word, as the kernel takes it. */
static uint32_t
call(uint32_t arch, long number, uint64_t first, uint64_t second)
{
	const struct seccomp_data d = {.nr = (int)number, .arch = arch, .args = {first, second, 0}};
	uint32_t word = SECCOMP_RET_ALLOW, said;
	size_t i;

	for (i = 0; i < SANDBOX_FILTERS; i++) {
		said = filtered(&sandbox_filter[i], &d);
		if ((int32_t)(said & SECCOMP_RET_ACTION_FULL) <
		    (int32_t)(word & SECCOMP_RET_ACTION_FULL))
			word = said;
	}
	return word;
}

static bool
lands(const struct sock_fprog *f, size_t i)
{
	const struct sock_filter *at = &f->filter[i];

	if (BPF_CLASS(at->code) != BPF_JMP)
		return BPF_CLASS(at->code) == BPF_RET || i + 1 < f->len;
	if (BPF_OP(at->code) == BPF_JA)
		return i + 1 + at->k < f->len;
	return i + 1 + at->jt < f->len && i + 1 + at->jf < f->len;
}

/*
 * RU-23: every jump of the filters lands inside; they look at the number, the architecture and
 * arguments; sockets are of the families that a network of its own holds in, another architecture's
 * calls end the program, and what is refused is refused with EPERM.
 */
static void
filters_are_sound(void **state)
{
#ifdef __x86_64__
	const uint32_t ours = AUDIT_ARCH_X86_64, other = AUDIT_ARCH_AARCH64;
#else
	const uint32_t ours = AUDIT_ARCH_AARCH64, other = AUDIT_ARCH_X86_64;
#endif
	const uint32_t eperm = SECCOMP_RET_ERRNO | EPERM, enosys = SECCOMP_RET_ERRNO | ENOSYS;
	size_t f, i;
	int family;

	(void)state;
	for (f = 0; f < SANDBOX_FILTERS; f++)
		for (i = 0; i < sandbox_filter[f].len; i++)
			if (!lands(&sandbox_filter[f], i))
				fail_msg("filter %zu: step %zu leads nowhere", f, i);
	for (i = 0; i < 1024; i++)
		assert_int_equal(call(other, (long)i, 0, 0), SECCOMP_RET_KILL_PROCESS);
	for (family = 0; family < 64; family++)
		assert_int_equal(call(ours, SYS_socket, (uint64_t)family, SOCK_STREAM),
		    family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
			    family == AF_NETLINK
			? SECCOMP_RET_ALLOW
			: enosys);
	assert_int_equal(call(ours, SYS_socketpair, AF_UNIX, SOCK_STREAM), SECCOMP_RET_ALLOW);
	assert_int_equal(call(ours, SYS_socketpair, AF_INET, SOCK_STREAM), enosys);
	assert_int_equal(call(ours, SYS_read, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(ours, SYS_ptrace, 0, 0), eperm);
	assert_int_equal(call(ours, SYS_unshare, CLONE_NEWUSER, 0), eperm);
	assert_int_equal(call(ours, SYS_unshare, CLONE_FILES, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(ours, SYS_fchmod, 3, 04755), eperm);
	assert_int_equal(call(ours, SYS_fchmod, 3, 0755), SECCOMP_RET_ALLOW);
	assert_int_equal(call(ours, SYS_io_uring_setup, 1, 0), enosys);
	assert_int_equal(call(ours, 100000, 0, 0), enosys);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(filters_are_sound),
	    cmocka_unit_test(hidden_and_shown_paths),
	    cmocka_unit_test(written_and_kept_paths),
	    cmocka_unit_test(forbidden_paths),
	    cmocka_unit_test(swapped_sources),
	    cmocka_unit_test(swapped_ways),
	    cmocka_unit_test(bad_plans),
	    cmocka_unit_test(working_directories),
	    cmocka_unit_test(passed_socket),
	    cmocka_unit_test(without_user_namespaces),
	    cmocka_unit_test(exit_codes),
	    cmocka_unit_test(signals_are_handed_on),
	    cmocka_unit_test(dies_with_its_starter),
	    cmocka_unit_test(starts_when_it_may),
	    cmocka_unit_test(over_when_all_are_dead),
	    cmocka_unit_test(killed_says_no_code),
	    cmocka_unit_test(caps_are_proven),
	    cmocka_unit_test(ordinary_programs_run),
	    cmocka_unit_test(changes_are_listed),
	    cmocka_unit_test(changes_are_applied),
	    cmocka_unit_test(changes_meanwhile_are_kept),
	    cmocka_unit_test(folders_of_one_user),
	    cmocka_unit_test(what_no_plan_shows),
	    cmocka_unit_test(root_reads_no_secrets_of_services),
	    cmocka_unit_test(changes_go_to_the_folder_that_was_named),
	    cmocka_unit_test(folders_keep_their_order),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
