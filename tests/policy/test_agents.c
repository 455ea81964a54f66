/* test_agents.c: whose an agent's process is, and which tool servers are declared. */
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
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#include "engine/policy/agents.h"
#include "engine/policy/secret.h"
#include "engine/policy/sudoers.h"
#include "tests/program.h"

static const struct agents_limits limits = {4096, 1000, 1 << 20, 64, 256, 20000};

static char dir[64];
static int root = -1;

static void
is(const struct owner *owner, const char *class, const char *admin, const char *interactive)
{
	assert_string_equal(owner->class, class);
	assert_string_equal(owner->admin, admin);
	assert_string_equal(owner->interactive, interactive);
}

#define YES     FACT_YES
#define NO      FACT_NO
#define UNKNOWN FACT_UNKNOWN

/* OWN-1 OWN-2 OWN-3 OWN-4 OWN-5 OWN-6 OWN-7 OWN-8 OWN-9 OWN-10 OWN-11 OWN-12: the classifier. */
static void
accounts_are_classified(void **state)
{
	static const struct {
		struct owner_seen seen;
		const char *class, *admin, *interactive;
	} rows[] = {
	    {{true, 0, true, "root", 999, YES, false, NO, NO, NO}, "system", "yes", "no"},
	    {{true, 115, false, "daemon", 999, YES, false, NO, NO, NO}, "service", "no", "no"},
	    {{true, 65534, false, "", 999, UNKNOWN, false, UNKNOWN, UNKNOWN, UNKNOWN}, "service",
		"unknown", "unknown"},
	    {{true, 1001, false, "pat", 999, YES, false, YES, UNKNOWN, YES}, "local_user", "yes",
		"yes"},
	    {{true, 1002, false, "lee", 999, YES, false, NO, YES, UNKNOWN}, "local_user", "yes",
		"unknown"},
	    {{true, 1003, false, "kim", 999, YES, false, NO, NO, NO}, "local_user", "no", "no"},
	    {{true, 1003, false, "kim", 999, YES, false, NO, UNKNOWN, NO}, "local_user", "unknown",
		"no"},
	    {{true, 1003, false, "kim", 999, YES, false, UNKNOWN, NO, NO}, "local_user", "unknown",
		"no"},
	    {{true, 501234, false, "", 999, NO, true, UNKNOWN, UNKNOWN, UNKNOWN}, "domain_user",
		"unknown", "unknown"},
	    {{true, 501234, false, "", 999, NO, false, UNKNOWN, UNKNOWN, UNKNOWN}, "unknown",
		"unknown", "unknown"},
	    {{true, 70001, false, "pat@corp.example", 999, UNKNOWN, false, UNKNOWN, UNKNOWN,
		 UNKNOWN},
		"domain_user", "unknown", "unknown"},
	    {{false, 0, false, "", 999, UNKNOWN, false, UNKNOWN, UNKNOWN, UNKNOWN}, "unknown",
		"unknown", "unknown"},
	    {{false, 0, false, "a@b", 999, UNKNOWN, false, UNKNOWN, UNKNOWN, UNKNOWN}, "unknown",
		"unknown", "unknown"},
	    {{true, 1002, true, "lee", 999, YES, false, NO, NO, NO}, "local_user", "yes", "no"},
	};
	struct owner owner;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		owner_classify(&rows[i].seen, &owner);
		is(&owner, rows[i].class, rows[i].admin, rows[i].interactive);
	}
}

/* OWN-13 OWN-14: a status file; what is none is never root's. */
static void
status_files(void **state)
{
	struct owner_status st;

	(void)state;
	assert_int_equal(owner_status("Name:\tx\nUid:\t1001\t0\t0\t0\nGid:\t1001\t0\t0\t0\n"
				      "Groups:\t27 1001 \n",
			     &st),
	    0);
	assert_int_equal(st.uid, 1001);
	assert_int_equal(st.euid, 0);
	assert_true(st.groups_read && st.gid_read);
	assert_int_equal(st.group_count, 2);
	assert_int_equal(st.groups[0], 27);
	assert_int_equal(st.groups[1], 1001);
	assert_int_equal(owner_status("Name:\tx\nGid:\t0\t0\t0\t0\n", &st), -1);
	assert_int_equal(owner_status("Uid:\t1001\n", &st), -1);
	assert_int_equal(owner_status("Uid:\tx\t0\n", &st), -1);
	assert_int_equal(owner_status("", &st), -1);
	assert_int_equal(owner_status("Uid:\t99999999999\t0\n", &st), -1);
}

struct list {
	char text[512];
};

static void
list_add(void *ctx, uint32_t id, const char *name)
{
	struct list *list = ctx;
	size_t n = strlen(list->text);

	snprintf(list->text + n, sizeof(list->text) - n, "%u %s,", id, name);
}

/* OWN-15 OWN-16: accounts and groups by their numbers. */
static void
accounts_and_groups(void **state)
{
	struct list list = {""};

	(void)state;
	owner_names("root:x:0:\n# comment:x:5:\nbad line\nsudo:x:27:pat\nx:y:z:\nshort:1\n",
	    list_add, &list);
	assert_string_equal(list.text, "0 root,27 sudo,");
	list.text[0] = '\0';
	owner_names(
	    "root:x:0:0:root:/root:/bin/sh\npat:x:1001:1001::/home/pat:/bin/sh", list_add, &list);
	assert_string_equal(list.text, "0 root,1001 pat,");
}

/* OWN-17 OWN-18: which numbers are services', and where accounts come from. */
static void
login_and_nsswitch(void **state)
{
	(void)state;
	assert_int_equal(owner_system_max(""), 999);
	assert_int_equal(owner_system_max("UID_MIN 500\n"), 499);
	assert_int_equal(owner_system_max("UID_MIN 1000\nSYS_UID_MAX   899\n"), 899);
	assert_int_equal(owner_system_max("# SYS_UID_MAX 10\n"), 999);
	assert_int_equal(owner_system_max("#SYS_UID_MAX 10\n"), 999);
	assert_true(owner_directory("passwd: files sss systemd\n"));
	assert_false(owner_directory("passwd: files systemd\n"));
	assert_false(owner_directory("passwd: files\ngroup: files sss\n"));
	assert_true(owner_directory("group: files\npasswd:\tnisplus\n"));
	assert_false(owner_directory("passwd: files # sss\n"));
}

static void
user_add(void *ctx, const char *name)
{
	list_add(ctx, 0, name);
}

/* OWN-19 OWN-20: who is logged in. */
static void
sessions(void **state)
{
	struct utmp entries[4];
	struct list list = {""};

	(void)state;
	assert_int_equal(owner_session("NAME=pat\nSTATE=active\n"), FACT_YES);
	assert_int_equal(owner_session("STATE=lingering\n"), FACT_NO);
	assert_int_equal(owner_session("STATE=invented\n"), FACT_UNKNOWN);
	assert_int_equal(owner_session("NAME=pat\n"), FACT_UNKNOWN);
	memset(entries, 0, sizeof(entries));
	entries[0].ut_type = USER_PROCESS;
	memcpy(entries[0].ut_user, "pat", 3);
	entries[1].ut_type = DEAD_PROCESS;
	memcpy(entries[1].ut_user, "gone", 4);
	entries[2].ut_type = USER_PROCESS;
	memcpy(entries[2].ut_user, "lee", 3);
	owner_utmp(entries, 3 * sizeof(entries[0]) + 3, user_add, &list);
	assert_string_equal(list.text, "0 pat,0 lee,");
}

/* Whom rules name; what is not understood names nobody for certain. */
static void
rules_of_sudo(void **state)
{
	struct sudoers s;

	(void)state;
	memset(&s, 0, sizeof(s));
	sudoers_text(&s,
	    "# comment\nDefaults env_reset\nCmnd_Alias X = /bin/a, \\\n /bin/b\n"
	    "root ALL=(ALL:ALL) ALL\n%wheel, lee ALL = \\\n NOPASSWD: ALL\n#1007 ALL=ALL\n"
	    "%#44 ALL=ALL # why\n");
	assert_false(s.partly);
	assert_int_equal(sudoers_user(&s, "root", 0), FACT_YES);
	assert_int_equal(sudoers_user(&s, "lee", 5), FACT_YES);
	assert_int_equal(sudoers_user(&s, "x", 1007), FACT_YES);
	assert_int_equal(sudoers_user(&s, "pat", 6), FACT_NO);
	assert_true(sudoers_group(&s, "wheel", 10));
	assert_true(sudoers_group(&s, "x", 44));
	assert_false(sudoers_group(&s, "lee", 5));
	sudoers_free(&s);
	memset(&s, 0, sizeof(s));
	sudoers_text(&s, "+admins ALL=ALL\n");
	assert_true(s.partly);
	memset(&s, 0, sizeof(s));
	sudoers_text(&s, "@includedir /etc/sudoers.d\n");
	assert_true(s.partly);
	memset(&s, 0, sizeof(s));
	sudoers_text(&s, "ALL, !pat ALL=ALL\n");
	assert_true(s.partly);
	sudoers_free(&s);
}

static void
put(const char *path, const char *text, size_t len)
{
	char at[256], *slash;
	int fd;

	snprintf(at, sizeof(at), "%s/%s", dir, path);
	for (slash = at + strlen(dir) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
		*slash = '\0';
		mkdir(at, 0700);
	}
	assert_true((fd = open(at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) != -1);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	close(fd);
}

#define PUT(path, text) put(path, text, sizeof(text) - 1)

static int
make(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/bastion-agents.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_true((root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC)) != -1);
	PUT("etc/passwd", "root:x:0:0::/root:/bin/sh\npat:x:1001:1001::/home/pat:/bin/sh\n"
			  "lee:x:1002:1002::/home/lee:/bin/sh\nsvc:x:120:120::/:/bin/false\n");
	PUT("etc/group", "root:x:0:\nsudo:x:27:pat\npat:x:1001:\nlee:x:1002:\nsvc:x:120:\n");
	PUT("etc/nsswitch.conf", "passwd: files\n");
	PUT("etc/sudoers", "root ALL=(ALL) ALL\n%sudo ALL=(ALL) ALL\n@includedir /etc/sudoers.d\n");
	PUT("run/systemd/users/1001", "STATE=active\n");
	PUT("proc/400/status", "Uid:\t1001\t1001\nGid:\t1001\t1001\nGroups:\t27 1001 \n");
	PUT("proc/401/status", "Uid:\t1002\t1002\nGid:\t1002\t1002\nGroups:\t1002 \n");
	PUT("proc/402/status", "Uid:\t120\t120\nGid:\t120\t120\nGroups:\t\n");
	PUT("proc/403/status", "Uid:\t1002\t0\nGid:\t1002\t0\nGroups:\t1002 \n");
	PUT("proc/404/stat", "404 (x) S 1 1\n");
	return 0;
}

static int
drop(void **state)
{
	char command[96];

	(void)state;
	close(root);
	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	return system(command);
}

static void
process_is(pid_t pid, const char *class, const char *admin, const char *interactive)
{
	struct owner_tables *t = owner_open(root);
	struct owner_status status;
	struct owner owner;

	assert_non_null(t);
	assert_int_equal(owner_process(t, pid, &status, &owner), pid != 404);
	is(&owner, class, admin, interactive);
	owner_close(t);
}

/* OWN-21: processes of a machine, by its files; and what cannot be read is unknown, not no. */
static void
processes_of_a_machine(void **state)
{
	(void)state;
	process_is(400, "local_user", "yes", "yes");
	process_is(401, "local_user", "no", "no");
	process_is(402, "service", "no", "no");
	process_is(403, "local_user", "yes", "no");
	process_is(404, "unknown", "unknown", "unknown");
	/* A group that has no name may be any; so may one that is the process's own alone. */
	PUT("proc/401/status", "Uid:\t1002\t1002\nGid:\t1002\t1002\nGroups:\t1002 7777\n");
	process_is(401, "local_user", "unknown", "no");
	PUT("proc/401/status", "Uid:\t1002\t1002\nGid:\t27\t27\nGroups:\t1002\n");
	process_is(401, "local_user", "yes", "no");
	PUT("proc/401/status", "Uid:\t1002\t1002\nGid:\t1002\t1002\nGroups:\t1002 \n");
	PUT("etc/sudoers.d/rules", "+net ALL=ALL\n");
	process_is(401, "local_user", "unknown", "no");
	PUT("etc/sudoers.d/rules", "lee ALL=ALL\n");
	process_is(401, "local_user", "yes", "no");
}

struct found {
	struct agent agents[16];
	size_t count;
};

static void
agent_add(void *ctx, const struct agent *agent)
{
	struct found *f = ctx;

	if (f->count < 16)
		f->agents[f->count++] = *agent;
}

static const struct agent *
agent_of(const struct found *f, pid_t pid)
{
	size_t i;

	for (i = 0; i < f->count; i++)
		if (f->agents[i].pid == pid)
			return &f->agents[i];
	return NULL;
}

/* Agents are known by program, script or package; what bastion started is its own.  RF-108: a
 * sentence about secrets holds none, and is shown as it is. */
static void
agents_are_found(void **state)
{
	static const pid_t own[] = {410};
	static struct found f;
	const struct agent *a;
	struct refusal r;

	(void)state;
	memset(&f, 0, sizeof(f));
	PUT("proc/400/cmdline", "node\0--max-old-space=4\0/usr/lib/node_modules/@anthropic-ai/"
				"claude-code/cli.js\0--api-key\0hunter2\0");
	PUT("proc/400/cgroup", "0::/user.slice/user-1001.slice/session-3.scope\n");
	PUT("proc/401/cmdline", "/home/lee/bin/codex\0exec\0TOKEN=abc\0ghp_0123456789abcdefghij\0");
	PUT("proc/402/cmdline", "python3\0/opt/aider.py\0");
	PUT("proc/403/cmdline", "vim\0claude.md\0");
	PUT("proc/404/cmdline",
	    "claude\0-p\0the token economy, a secret of success: why keys matter\0");
	PUT("proc/410/cmdline", "bastion\0actor\0");
	PUT("proc/411/cmdline", "claude\0");
	PUT("proc/411/stat", "411 (cl) R 9 (x) S 410 1\n");
	PUT("proc/412/cmdline", "");
	assert_int_equal(agents_each(root, &limits, own, 1, agent_add, &f, &r), 0);
	assert_int_equal(f.count, 4);
	assert_non_null(a = agent_of(&f, 404));
	assert_string_equal(
	    a->command, "claude -p the token economy, a secret of success: why keys matter");
	assert_non_null(a = agent_of(&f, 400));
	assert_string_equal(a->signature, "claude-code");
	assert_string_equal(a->evidence, "package");
	assert_string_equal(a->user, "pat");
	assert_string_equal(a->unit, "session-3.scope");
	assert_string_equal(a->owner.admin, "yes");
	assert_null(strstr(a->command, "hunter2"));
	assert_non_null(strstr(a->command, "--api-key ***"));
	assert_non_null(a = agent_of(&f, 401));
	assert_string_equal(a->signature, "codex");
	assert_string_equal(a->command, "/home/lee/bin/codex exec TOKEN=*** ***");
	assert_non_null(a = agent_of(&f, 402));
	assert_string_equal(a->evidence, "script");
	/* A walk that did not happen is no empty list. */
	f.count = 0;
	assert_int_equal(agents_each(-1, &limits, own, 1, agent_add, &f, &r), -1);
	assert_string_equal(r.code, "agents.failed");
	assert_int_equal(f.count, 0);
}

struct servers {
	struct tool_server list[64];
	size_t count;
};

static void
server_add(void *ctx, const struct tool_server *server)
{
	struct servers *s = ctx;

	if (s->count < 64)
		s->list[s->count++] = *server;
}

static const struct tool_server *
server_of(const struct servers *s, const char *name)
{
	size_t i;

	for (i = 0; i < s->count; i++)
		if (strcmp(s->list[i].name, name) == 0)
			return &s->list[i];
	fail_msg("no server %s", name);
	return NULL;
}

static const char CONFIG[] =
    "{\"mcpServers\":{"
    "\"files\":{\"command\":\"npx\",\"args\":[\"-y\",\"@modelcontextprotocol/server-filesystem\","
    "\"/home/pat\"],\"env\":{\"LANG\":\"C\"}},"
    "\"hub\":{\"type\":\"http\",\"url\":\"https://pat:SECRET-a@api.example:8443/SECRET-b?k=SECRET-c\","
    "\"headers\":{\"Authorization\":\"Bearer SECRET-d\"}},"
    "\"tok\":{\"command\":\"/opt/tool\",\"args\":[\"--token\",\"SECRET-e\"],\"env\":{\"API_KEY\":"
    "\"SECRET-f\",\"X\":\"SECRET-g-0123456789\"},\"cwd\":\"/SECRET-h\",\"extra\":\"SECRET-i\"},"
    "\"arg\":{\"command\":\"node\",\"args\":[\"sk-SECRET0123456789abcd\"]}},"
    "\"projects\":{\"/p\":{\"mcpServers\":{\"mine\":{\"command\":\"mine-mcp\"}}}},"
    "\"oauthAccount\":{\"token\":\"SECRET-j\"}}";

/* Of all that a file holds, only what the list shows leaves the reader. */
static void
declared_servers(void **state)
{
	static struct servers s;
	const struct tool_server *t;
	struct agents_scan scan;
	struct refusal r;

	(void)state;
	memset(&s, 0, sizeof(s));
	put("home/pat/.claude.json", CONFIG, sizeof(CONFIG) - 1);
	PUT("home/lee/.cursor/mcp.json", "{\"mcpServers\":{\"l\":{\"command\":\"l-server\"}}}");
	PUT("proc/500/cmdline", "node\0/usr/bin/server-filesystem\0/home/pat\0");
	PUT("proc/500/status", "Uid:\t1001\t1001\n");
	PUT("proc/501/cmdline", "node\0/x/mcp-server-odd\0");
	PUT("proc/501/status", "Uid:\t1002\t1002\n");
	assert_int_equal(agents_servers(root, &limits, server_add, &s, &scan, &r), 0);
	assert_true(scan.processes);
	assert_false(scan.timed_out || scan.truncated);
	assert_int_equal(scan.unread, 0);
	assert_int_equal(s.count, 7);
	t = server_of(&s, "files");
	assert_string_equal(t->what, "@modelcontextprotocol/server-filesystem");
	assert_int_equal(t->state, SERVER_RUNNING);
	assert_int_equal(t->pid, 500);
	assert_string_equal(t->user, "pat");
	assert_string_equal(t->env, "LANG");
	assert_false(t->secrets);
	t = server_of(&s, "hub");
	assert_string_equal(t->what, "https://api.example:8443");
	assert_string_equal(t->transport, "http");
	assert_string_equal(t->env, "Authorization");
	assert_true(t->secrets);
	assert_int_equal(t->state, SERVER_UNKNOWN);
	t = server_of(&s, "tok");
	assert_string_equal(t->what, "/opt/tool");
	assert_string_equal(t->env, "API_KEY,X");
	assert_true(t->secrets);
	assert_int_equal(t->state, SERVER_STOPPED);
	assert_string_equal(server_of(&s, "arg")->what, "***");
	assert_string_equal(server_of(&s, "mine")->what, "mine-mcp");
	assert_string_equal(server_of(&s, "l")->user, "lee");
	t = server_of(&s, "");
	assert_int_equal(t->state, SERVER_UNDECLARED);
	assert_int_equal(t->pid, 501);
	assert_string_equal(t->user, "lee");
	assert_null(memmem(&s, sizeof(s), "SECRET", 6));
}

/* MCP-6 and its like: where a part is not known, nothing is called undeclared. */
static void
what_was_not_read_is_said(void **state)
{
	static const struct agents_limits few = {4096, 2, 1 << 20, 64, 256, 20000},
					  one = {4096, 1000, 1 << 20, 1, 256, 20000},
					  none = {1, 1000, 1 << 20, 64, 256, 20000};
	static struct servers s;
	struct agents_scan scan;
	struct refusal r;
	char path[128];

	(void)state;
	put("home/pat/.claude.json", CONFIG, sizeof(CONFIG) - 1);
	PUT("proc/501/cmdline", "node\0/x/mcp-server-odd\0");
	memset(&s, 0, sizeof(s));
	assert_int_equal(agents_servers(root, &few, server_add, &s, &scan, &r), 0);
	assert_true(scan.timed_out);
	assert_int_equal(s.count, 5);
	s.count = 0;
	assert_int_equal(agents_servers(root, &one, server_add, &s, &scan, &r), 0);
	assert_true(scan.truncated);
	assert_int_equal(s.count, 1);
	s.count = 0;
	assert_int_equal(agents_servers(root, &none, server_add, &s, &scan, &r), 0);
	assert_false(scan.processes);
	assert_int_equal(s.count, 5);
	assert_int_equal(server_of(&s, "files")->state, SERVER_UNKNOWN);
	s.count = 0;
	PUT("home/lee/.cursor/mcp.json", "{\"mcpServers\": // not JSON\n{}}");
	assert_int_equal(agents_servers(root, &limits, server_add, &s, &scan, &r), 0);
	assert_int_equal(scan.unread, 1);
	assert_int_equal(s.count, 5);
	/* A link out of a home is not followed, a pipe is not waited for. */
	snprintf(path, sizeof(path), "%s/home/lee/.cursor/mcp.json", dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("../../pat/.claude.json", path), 0);
	s.count = 0;
	assert_int_equal(agents_servers(root, &limits, server_add, &s, &scan, &r), 0);
	assert_int_equal(scan.unread, 1);
	assert_int_equal(s.count, 5);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(agents_servers(root, &limits, server_add, &s, &scan, &r), 0);
	assert_int_equal(scan.unread, 1);
}

static void
fact_known(const char *fact)
{
	assert_non_null(fact);
	assert_true(fact[0] != '\0');
}

/* OWN-22: this machine, this process: every fact says something. */
static void
this_machine(void **state)
{
	struct owner_tables *t;
	struct owner_status status;
	struct owner owner;
	int here;

	(void)state;
	assert_true((here = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) != -1);
	assert_non_null(t = owner_open(here));
	assert_true(owner_process(t, getpid(), &status, &owner));
	assert_int_equal(status.uid, getuid());
	assert_int_equal(status.euid, geteuid());
	fact_known(owner.class);
	fact_known(owner.admin);
	fact_known(owner.interactive);
	if (getuid() == 0)
		assert_string_equal(owner.class, "system");
	owner_close(t);
	close(here);
}

/* The directory of the objects that this suite is linked from. */
static void
objects(char out[512])
{
	ssize_t n = readlink("/proc/self/exe", out, 400);
	int i;

	assert_true(n > 0);
	out[n] = '\0';
	for (i = 0; i < 3; i++)
		*strrchr(out, '/') = '\0';
	strcat(out, "/engine/policy/");
}

/* The symbols that an object takes from elsewhere, one a line. */
static size_t
symbols(const char *object, char *out, size_t size)
{
	char path[600];
	size_t n = 0;
	ssize_t got;
	int fds[2];
	pid_t pid;

	objects(path);
	strcat(path, object);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_true((pid = fork()) != -1);
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execlp("nm", "nm", "-u", "--format=just-symbols", path, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	while (n < size - 1 && (got = read(fds[0], out + n, size - 1 - n)) > 0)
		n += (size_t)got;
	out[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &(int){0}, 0), pid);
	return n;
}

/*
 * MCP-7, BD-5: what reads the files of clients starts nothing and dials nothing: its object takes
 * these symbols from elsewhere and no other, not by a pointer either.
 */
static void
the_reader_is_alone(void **state)
{
	static const char allowed[] =
	    " calloc free close openat clock_gettime memrchr reallocarray snprintf strcmp strcspn"
	    " strlen strncmp strrchr strstr memset memcpy explicit_bzero __errno_location"
	    " __explicit_bzero_chk __snprintf_chk __stack_chk_fail owner_account owner_close"
	    " owner_homes owner_open owner_process owner_read_beneath processes_free processes_read"
	    " refusal_set secret_word sqlite3_bind_text sqlite3_close sqlite3_column_int"
	    " sqlite3_column_text sqlite3_finalize sqlite3_open sqlite3_prepare_v2 sqlite3_step ";
	char text[8192], padded[128], *line, *rest;

	(void)state;
	assert_true(symbols("declared.o", text, sizeof(text)) > 0);
	for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "__asan", 6) == 0 || strncmp(line, "__ubsan", 7) == 0 ||
		    strncmp(line, "__tsan", 6) == 0)
			continue;
		snprintf(padded, sizeof(padded), " %s ", line);
		if (strstr(allowed, padded) == NULL)
			fail_msg("the reader takes %s", line);
	}
}

static void
what_looks_like_a_secret(void **state)
{
	static const char *const yes[] = {"sk-abc", "ghp_x1", "AKIAIOSFODNN7EXAMPLE",
	    "postgres://u:p@h/d", "a8f5f167f44f4964e6c998dee827110c", "xoxb-1-2",
	    "--key=a8f5f167f44f4964e6c998dee827110c"};
	static const char *const no[] = {"@modelcontextprotocol/server-filesystem", "/usr/bin/node",
	    "a", "", "--no-update-notifier", "server.py", "https://example.com/path"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(secret_word(yes[i], strlen(yes[i])));
	for (i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(secret_word(no[i], strlen(no[i])));
	assert_true(secret_name("--api-KEY", 9));
	assert_false(secret_name("PATH", 4));
}

/* The verb: rows of this machine, whatever runs on it. */
static void
the_verb(void **state)
{
	static const char *const words[][4] = {
	    {"agents", "--json", NULL}, {"agents", "--servers", "--json", NULL}};
	struct scratch s;
	struct program p;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (i = 0; i < 2; i++) {
		program_run(&p, &s, NULL, words[i]);
		assert_int_equal(p.code, 0);
		assert_true(p.out[0] == '[' && strstr(p.out, "]\n") != NULL);
		program_free(&p);
	}
	program_run(&p, &s, NULL, (const char *const[]){"agents", "x", NULL});
	assert_int_equal(p.code, 2);
	program_free(&p);
	scratch_open(&s, ROLE_READER);
	scratch_drop(&s);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make, drop)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(accounts_are_classified),
	    cmocka_unit_test(status_files),
	    cmocka_unit_test(accounts_and_groups),
	    cmocka_unit_test(login_and_nsswitch),
	    cmocka_unit_test(sessions),
	    cmocka_unit_test(rules_of_sudo),
	    CASE(processes_of_a_machine),
	    CASE(agents_are_found),
	    CASE(declared_servers),
	    CASE(what_was_not_read_is_said),
	    cmocka_unit_test(the_reader_is_alone),
	    cmocka_unit_test(this_machine),
	    cmocka_unit_test(what_looks_like_a_secret),
	    cmocka_unit_test(the_verb),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
