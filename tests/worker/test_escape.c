/* test_escape.c: hostile programs that each try one way out of the sandbox, and must fail. */
#include "tests/worker/box.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pty.h>

#define PATHS   48
#define TASKS   24
#define MEMORY  96 /* MiB */
#define SCRATCH 8
#define EFFECT  12
#define FILES   2000
#define OPEN    256

/* What an attempt is told about the world. */
enum about {
	NOTHING,
	CANARY,   /* a file outside */
	PID,      /* a process outside, of the same user */
	PORT,     /* a listener on the machine's loopback */
	ABSTRACT, /* a listener without a file */
	SOCKET,   /* a listener with a file that is hidden */
	TERMINAL, /* nothing, with a terminal as its input */
	LITERAL,
};

struct row {
	const char *name;
	const char *program, *attempt;
	enum about about;
	const char *text;  /* LITERAL */
	const char *cwd;   /* NULL: /work, which is written for good */
	const char *held;  /* what it may be held by, with '|' between */
	const char *layer; /* which layer that is */
};

static const struct row rows[] = {
    /* processes */
    {"tracing_the_first_process_is_refused", "process", "trace", NOTHING, NULL, NULL, "EPERM",
	"seccomp"},
    {"memory_of_the_first_process_is_closed", "process", "memory", NOTHING, NULL, NULL,
	"EACCES|EPERM", "not dumpable"},
    {"memory_is_not_read_across_processes", "process", "vm", NOTHING, NULL, NULL, "EPERM",
	"seccomp"},
    {"the_program_that_made_it_is_not_reached", "process", "maker", NOTHING, NULL, NULL,
	"EACCES|EPERM", "not dumpable"},
    {"no_descriptor_is_inherited", "process", "descriptors", NOTHING, NULL, NULL, "EBADF",
	"closed before exec"},
    {"no_descriptor_is_taken", "process", "take_fd", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"a_process_outside_is_not_signalled", "process", "signal_outside", PID, NULL, NULL, "ESRCH",
	"pid namespace"},
    {"all_processes_are_those_inside", "process", "signal_all", PID, NULL, NULL, "KILLED",
	"pid namespace"},
    {"the_first_process_is_not_ended", "process", "kill_first", NOTHING, NULL, NULL, "ALIVE",
	"pid namespace"},
    /* the kernel */
    {"nothing_is_mounted", "kernel", "mounting", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_root_is_changed", "kernel", "pivot", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_namespace_within", "kernel", "namespaces", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_namespace_is_joined", "kernel", "join", NOTHING, NULL, NULL, "EPERM|EACCES", "seccomp"},
    {"no_keys", "kernel", "keys", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_io_uring", "kernel", "uring", NOTHING, NULL, NULL, "ENOSYS", "seccomp"},
    {"no_programs_in_the_kernel", "kernel", "programs", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_modules", "kernel", "modules", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"nothing_is_typed_into_a_terminal", "kernel", "typing", TERMINAL, NULL, NULL, "EPERM",
	"seccomp"},
    {"clock_and_hostname_stay", "kernel", "clocks", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_files_by_number", "kernel", "handles", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_personality", "kernel", "personalities", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_calls_of_another_architecture", "kernel", "foreign", NOTHING, NULL, NULL, "SIGSYS",
	"seccomp"},
    {"no_rights_are_gained", "kernel", "rights", NOTHING, NULL, NULL, "EPERM|EINVAL",
	"capabilities"},
    /* files */
    {"no_way_upwards", "files", "upwards", CANARY, NULL, NULL, "ENOENT", "mount namespace"},
    {"no_link_leads_out", "files", "links", CANARY, NULL, NULL, "ENOENT", "mount namespace"},
    {"a_hidden_file_is_not_read", "files", "hidden", LITERAL, "/work/a/secret", NULL, "EBUSY",
	"mount over it"},
    {"a_hidden_folder_is_not_read", "files", "hidden", LITERAL, "/work/h/d/secret", NULL, "EBUSY",
	"mount over it"},
    {"a_file_hidden_in_a_gathered_folder_is_not_read", "files", "hidden", LITERAL,
	"/gathered/a/secret", "/gathered", "EBUSY", "mount over it"},
    {"the_state_within_a_folder_is_not_read", "files", "hidden", LITERAL,
	"/work/s/state/bastion.key", NULL, "EBUSY", "mount over it"},
    {"a_kept_file_is_not_changed", "files", "kept", LITERAL, "/work/k/kept", NULL, "EROFS",
	"read-only mount"},
    {"no_rights_of_a_files_owner", "files", "setuid_program", LITERAL, "/escape/setuid", NULL,
	"EPERM", "no new privileges"},
    {"no_devices", "files", "devices", NOTHING, NULL, NULL, "EPERM|ENOSYS", "seccomp"},
    {"settings_of_the_kernel_stay", "files", "kernel_files", NOTHING, NULL, NULL, "EROFS|EACCES",
	"read-only /proc"},
    {"no_cgroup_runs_a_program", "files", "release_agent", NOTHING, NULL, NULL, "EPERM", "seccomp"},
    {"no_overlay_is_led_elsewhere", "files", "overlay", NOTHING, NULL, NULL, "ENOENT", "overlayfs"},
    {"no_overlay_of_changes_is_led_elsewhere", "files", "overlay", NOTHING, NULL, "/gathered",
	"ENOENT", "overlayfs"},
    {"programs_of_the_machine_stay", "files", "readonly", NOTHING, NULL, NULL, "EROFS",
	"read-only mount"},
    /* the network */
    {"no_listener_on_loopback", "network", "loopback", PORT, NULL, NULL, "ECONNREFUSED",
	"network namespace"},
    {"no_packet_and_no_name_leaves", "network", "away", NOTHING, NULL, NULL, "ENETUNREACH",
	"network namespace"},
    {"no_abstract_socket", "network", "abstract", ABSTRACT, NULL, NULL, "ECONNREFUSED|EPERM",
	"network namespace"},
    {"no_socket_of_bastion", "network", "named", SOCKET, NULL, NULL, "ENOENT", "mount over it"},
    {"no_families_past_the_namespace", "network", "families", NOTHING, NULL, NULL, "ENOSYS",
	"seccomp"},
    {"no_raw_packets", "network", "raw", NOTHING, NULL, NULL, "EPERM|EACCES", "capabilities"},
    {"no_network_device_is_changed", "network", "links", NOTHING, NULL, NULL, "EPERM",
	"capabilities"},
    /* everything for itself */
    {"a_fork_bomb_ends", "bomb", "forks", LITERAL, "24", NULL, "EAGAIN",
	"cgroup pids, or RLIMIT_NPROC"},
    {"a_thread_bomb_ends", "bomb", "threads", LITERAL, "24", NULL, "EAGAIN",
	"cgroup pids, or RLIMIT_NPROC"},
    {"a_memory_bomb_ends", "bomb", "memory", LITERAL, "96", NULL, "SIGKILL|ENOMEM",
	"cgroup memory, or RLIMIT_DATA"},
    {"scratch_is_bounded", "bomb", "fill", LITERAL, "8", "/tmp", "ENOSPC", "tmpfs size"},
    {"changes_are_bounded", "bomb", "fill", LITERAL, "12", "/gathered", "ENOSPC", "tmpfs size"},
    {"files_are_bounded", "bomb", "files", LITERAL, "2000", "/gathered", "ENOSPC", "tmpfs inodes"},
    {"descriptors_are_bounded", "bomb", "descriptors", LITERAL, "256", NULL, "EMFILE",
	"RLIMIT_NOFILE"},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static struct box_world world;
static int tcp, unix_abstract, unix_named, terminal = -1, terminal_inside = -1;
static char port[16], pid_text[16], abstract_name[64], canary[128], socket_name[128];
static pid_t outsider;

static void
listen_on(int fd, const struct sockaddr *at, socklen_t len)
{
	assert_int_not_equal(fd, -1);
	assert_int_equal(bind(fd, at, len), 0);
	assert_int_equal(listen(fd, 8), 0);
}

static void
make_listeners(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(in);

	inet_pton(AF_INET, "127.0.0.1", &in.sin_addr);
	listen_on(
	    tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&in, len);
	assert_int_equal(getsockname(tcp, (struct sockaddr *)&in, &len), 0);
	snprintf(port, sizeof(port), "%d", ntohs(in.sin_port));
	snprintf(abstract_name, sizeof(abstract_name), "bastion-escape-%d", (int)getpid());
	strcpy(un.sun_path + 1, abstract_name);
	listen_on(unix_abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    (struct sockaddr *)&un,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract_name)));
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/run/control.sock", world.dir);
	listen_on(unix_named = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    (struct sockaddr *)&un, sizeof(un));
	assert_int_equal(chmod(un.sun_path, 0777), 0);
	strcpy(socket_name, "/world/run/control.sock");
}

/* Somebody of the same user, who must live through all of it. */
static void
make_outsider(void)
{
	if ((outsider = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (geteuid() == 0 && setresuid(BOX_NOBODY, BOX_NOBODY, BOX_NOBODY) == -1)
			_exit(1);
		for (;;)
			pause();
	}
	snprintf(pid_text, sizeof(pid_text), "%d", (int)outsider);
}

static int
set_up(void **state)
{
	static const char *const programs[] = {"process", "kernel", "files", "network", "bomb"};
	char self[256];
	ssize_t n;
	size_t i;

	(void)state;
	box_make(&world);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	assert_true(n > 0);
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	box_shell("mkdir -m 755 %s/bin %s/outside %s/run", world.dir, world.dir, world.dir);
	for (i = 0; i < 5; i++)
		box_shell("cp %s/escape/%s %s/bin/", self, programs[i], world.dir);
	box_shell("cp %s/bin/files %s/bin/setuid && chmod 4755 %s/bin/setuid", world.dir, world.dir,
	    world.dir);
	snprintf(canary, sizeof(canary), "%s/outside/canary", world.dir);
	box_shell("echo canary > %s", canary);
	make_listeners();
	make_outsider();
	assert_int_equal(openpty(&terminal, &terminal_inside, NULL, NULL, NULL), 0);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	kill(outsider, SIGKILL);
	waitpid(outsider, NULL, 0);
	close(tcp);
	close(unix_abstract);
	close(unix_named);
	close(terminal);
	close(terminal_inside);
	box_drop(&world);
	return 0;
}

/* Folders for one run, made anew and owned by whom it runs as. */
static void
make_folders(enum box_who who)
{
	box_shell(
	    "cd %s && rm -rf ws fx && mkdir -p ws/a ws/h/d ws/k ws/s/state fx/a && "
	    "for f in ws/a/secret ws/h/d/secret ws/k/kept ws/s/state/bastion.key fx/a/secret; do "
	    "echo canary > $f; done; chown -R %d:%d ws fx",
	    world.dir, (int)box_uid(who), (int)(geteuid() == 0 ? box_uid(who) : getegid()));
}

static const char *
about_of(const struct row *row)
{
	switch (row->about) {
	case CANARY:
		return canary;
	case PID:
		return pid_text;
	case PORT:
		return port;
	case ABSTRACT:
		return abstract_name;
	case SOCKET:
		return socket_name;
	case LITERAL:
		return row->text;
	default:
		return "";
	}
}

/* Return whether ${out} is one of "held X" for the names in ${held}. */
static bool
is_held(const char *out, const char *held)
{
	char line[64];
	size_t n;

	for (; *held != '\0'; held += n + (held[n] == '|')) {
		n = strcspn(held, "|");
		snprintf(line, sizeof(line), "held %.*s\n", (int)n, held);
		if (strcmp(out, line) == 0)
			return true;
	}
	return false;
}

static void
tiny(struct sandbox_limits *l)
{
	l->group.tasks = TASKS;
	l->group.memory = MEMORY * 1048576LL;
	l->scratch_bytes = SCRATCH * 1048576LL;
	l->effect_bytes = EFFECT * 1048576LL;
	l->effect_files = FILES;
	l->open_files = OPEN;
}

static struct boxed *
try(const struct row *row, enum box_who who)
{
	char bin[80], ws[80], fx[80], state[96], run[80], program[64];
	char *argv[] = {
	    program, (char *)(uintptr_t)row->attempt, (char *)(uintptr_t)about_of(row), NULL};
	const char *const forbidden[] = {state, run};
	struct sandbox_path paths[PATHS] = {{SANDBOX_READ, bin, "/escape"},
	    {SANDBOX_WRITE, ws, "/work"}, {SANDBOX_EFFECT, fx, "/gathered"},
	    {SANDBOX_HIDE, NULL, "/work/a/secret"}, {SANDBOX_HIDE, NULL, "/work/h/d"},
	    {SANDBOX_HIDE, NULL, "/gathered/a/secret"}, {SANDBOX_KEEP, NULL, "/work/k/kept"},
	    {SANDBOX_READ, world.dir, "/world"}};
	struct sandbox_plan plan;

	make_folders(who);
	snprintf(bin, sizeof(bin), "%s/bin", world.dir);
	snprintf(ws, sizeof(ws), "%s/ws", world.dir);
	snprintf(fx, sizeof(fx), "%s/fx", world.dir);
	snprintf(state, sizeof(state), "%s/ws/s/state", world.dir);
	snprintf(run, sizeof(run), "%s/run", world.dir);
	snprintf(program, sizeof(program), "/escape/%s", row->program);
	/* The whole world is seen where bastion's sockets are tried, and nowhere else. */
	box_plan(&world, &plan, paths, row->about == SOCKET ? 8 : 7);
	plan.argv = argv;
	plan.cwd = row->cwd != NULL ? row->cwd : "/work";
	plan.forbidden = forbidden;
	plan.forbidden_count = 2;
	if (row->about == TERMINAL)
		plan.stdio[0] = terminal_inside;
	tiny(&plan.limits);
	return box_run(&world, who, &plan);
}

static void
check_world(const struct row *row)
{
	int waiting = 0;

	if (kill(outsider, 0) != 0 || waitpid(outsider, NULL, WNOHANG) != 0)
		fail_msg("%s: the process outside is gone", row->name);
	ioctl(terminal_inside, FIONREAD, &waiting);
	if (waiting != 0)
		fail_msg("%s: something was typed", row->name);
}

static void
attempt(void **state)
{
	const struct row *row = *state;
	struct boxed *b;
	int who;

	for (who = BOX_ROOT; who < BOX_WHOS; who++) {
		if (!box_can(who))
			continue;
		b = try(row, who);
		if (!b->started)
			fail_msg("%s as %s: %s: %s", row->name, box_names[who], b->refusal.code,
			    b->refusal.why);
		if (!is_held(b->out, row->held))
			fail_msg("%s as %s: %s", row->name, box_names[who], b->out);
		b->out[strcspn(b->out, "\n")] = '\0';
		print_message("%s, %s: %s by %s\n", row->name, box_names[who], b->out, row->layer);
		check_world(row);
	}
}

/* On the machine's own network an abstract socket has no file to hide and no namespace between:
 * Landlock holds it, and where it cannot, the report says so. */
static void
no_abstract_socket_on_the_machines_network(void **state)
{
	static char program[] = "/escape/network", word[] = "abstract";
	char *argv[] = {program, word, abstract_name, NULL}, bin[80];
	struct sandbox_path paths[PATHS] = {{SANDBOX_READ, bin, "/escape"}};
	struct sandbox_plan plan;
	struct boxed *b;
	int who;

	(void)state;
	snprintf(bin, sizeof(bin), "%s/bin", world.dir);
	for (who = BOX_ROOT; who < BOX_WHOS; who++) {
		if (!box_can(who))
			continue;
		box_plan(&world, &plan, paths, 1);
		plan.argv = argv;
		plan.net = SANDBOX_NET_HOST;
		b = box_run(&world, who, &plan);
		assert_true(b->started);
		if (b->report.landlock >= 6)
			assert_string_equal(b->out, "held EPERM\n");
		else
			assert_non_null(
			    strstr(b->report.notes[b->report.note_count - 1], "abstract"));
	}
}

int
main(void)
{
	static struct CMUnitTest tests[ROWS + 1];
	size_t i;

	for (i = 0; i < ROWS; i++)
		tests[i] = (struct CMUnitTest){.name = rows[i].name,
		    .test_func = attempt,
		    .initial_state = (void *)(uintptr_t)&rows[i]};
	tests[ROWS] =
	    (struct CMUnitTest)cmocka_unit_test(no_abstract_socket_on_the_machines_network);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
