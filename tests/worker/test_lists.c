/* test_lists.c: what this machine lists and counts, from recordings, and from the machine itself.
 */
#include "tests/worker/recorded.h"

/* A file ${name} below the root that a test made up. */
static void
put(const char *name, const char *text)
{
	char path[256], *slash;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (slash = strchr(path + strlen(root) + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) == -1)
			assert_int_equal(access(path, X_OK), 0);
		*slash = '/';
	}
	ask_write(path, text, 0644);
}

static void
ask(struct ask *a, const char *op, const char *word, int code)
{
	const char *const words[] = {word, NULL};

	ask_run(a, op, words, &limits, &env);
	if (a->code != code)
		fail_msg("%s ends with %d: %s", op, a->code, a->frames);
	free(a->frames);
}

static void
made_up_root(void)
{
	snprintf(env.root, sizeof(env.root), "%s", root);
	put("/etc/passwd",
	    "root:x:0:0:root:/root:/bin/bash\n# a comment:x:1:1::/:/bin/sh\nbroken:x\n"
	    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
	    "alice:x:1000:1000:Alice,,,:/home/alice:/bin/zsh\nbob:x:1001:27::/home/bob:/bin/false\n"
	    "mallory:x:12x:1::/:/bin/sh\n");
	put("/etc/group", "root:x:0:\nsudo:x:27:alice\nalice:x:1000:\nvideo:x:44:bob,alice\n"
			  "bad name\":x:45:alice\nalicea:x:46:alicea\n");
}

static void
load_is_told(void **state)
{
	static struct ask a;

	(void)state;
	made_up_root();
	put("/proc/uptime", "12345.67 45678.90\n");
	put("/proc/loadavg", "0.50 1.25 2.00 2/300 4567\n");
	put("/proc/stat", "cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n");
	put("/proc/meminfo",
	    "MemTotal:       2048 kB\nMemFree:         1 kB\nMemAvailable:   1024 kB\n"
	    "SwapTotal:       512 kB\nSwapFree:        256 kB\n");
	ask(&a, "observe:load", NULL, 0);
	assert_string_equal(a.result,
	    "{\"uptime_s\":12345,\"load\":[0.5,1.25,2.0],\"cpus\":2,\"memory\":{\"total_bytes\":2097152,"
	    "\"available_bytes\":1048576},\"swap\":{\"total_bytes\":524288,\"free_bytes\":262144}}");
	env.root[0] = '\0';
	ask(&a, "observe:load", NULL, 0);
	assert_true(ask_int(a.result, "$.cpus") >= 1);
	assert_true(ask_int(a.result, "$.memory.total_bytes") > 1 << 20);
	snprintf(env.root, sizeof(env.root), "/nonexistent");
	ask(&a, "observe:load", NULL, OBSERVE_MISSING);
	ask_is(a.result, "SELECT json_type(?1, '$.unreadable')", "text");
}

static void
disks_are_told(void **state)
{
	static struct ask a;

	(void)state;
	made_up_root();
	put("/proc/self/mountinfo", "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
				    "21 20 0:5 / /proc rw - proc proc rw\n"
				    "22 20 0:50 / /mnt/far\\040away rw - nfs4 server:/x rw\n"
				    "23 20 8:2 / /gone\\134x rw - ext4 /dev/sdb1 rw\n"
				    "nonsense\n24 20 8:3 / - \n");
	ask(&a, "observe:disks", NULL, 0);
	ask_is(a.result,
	    "SELECT group_concat(value ->> '$.path', '|') FROM json_each(?1, '$.disks')",
	    "/|/gone\\x|/mnt/far away");
	ask_is(a.result, "SELECT ?1 ->> '$.disks[2].not_asked'",
	    "another machine or program answers for it");
	ask_is(a.result, "SELECT ?1 ->> '$.disks[1].not_asked'", "No such file or directory");
	assert_true(ask_int(a.result, "$.disks[0].size_bytes") > 0);
	assert_true(ask_int(a.result, "$.disks[0].used_percent") <= 100);
	env.root[0] = '\0';
	ask(&a, "observe:disks", NULL, 0);
}

static void
users_are_told(void **state)
{
	static struct ask a;

	(void)state;
	made_up_root();
	ask(&a, "observe:users", NULL, 0);
	ask_is(a.result, "SELECT group_concat(value ->> '$.user') FROM json_each(?1, '$.users')",
	    "root,daemon,alice,bob");
	ask_is(a.result, "SELECT group_concat(value ->> '$.admin') FROM json_each(?1, '$.users')",
	    "1,0,1,1");
	ask_is(a.result, "SELECT group_concat(value ->> '$.logs_in') FROM json_each(?1, '$.users')",
	    "1,0,1,0");
	ask_is(a.result, "SELECT ?1 -> '$.users[2].groups'", "[\"sudo\",\"alice\",\"video\"]");
	limits.rows_max = 2;
	ask(&a, "observe:users", NULL, 0);
	ask_is(
	    a.result, "SELECT json_array_length(?1, '$.users') || ' ' || (?1 ->> '$.more')", "2 2");
}

/* Names of processes are bounded; what they were started with is never told. */
static void
processes_are_counted(void **state)
{
	static struct ask a;
	char want[32];

	(void)state;
	made_up_root();
	put("/proc/1/status", "Name:\tinit\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t0\t0\t0\t0\n"
			      "VmRSS:\t  100 kB\nThreads:\t1\n");
	put("/proc/77/status", "Name:\ta b\\\x1b[2J\nState:\tR (running)\nUid:\t1000\t0\t0\t0\n"
			       "VmRSS:\t  900 kB\nThreads:\t4\n");
	put("/proc/77/cmdline", "secret");
	put("/proc/78/status",
	    "Name:\tkworker\nState:\tI (idle)\nUid:\t1000\t0\t0\t0\nThreads:\t1\n");
	put("/proc/79x/status", "Name:\tno\nUid:\t0\n");
	ask(&a, "observe:processes", NULL, 0);
	assert_string_equal(a.result,
	    "{\"owner\":null,\"processes\":3,\"owners\":[{\"user\":\"alice\",\"uid\":1000,\"processes\":2,"
	    "\"threads\":5,\"rss_bytes\":921600},{\"user\":\"root\",\"uid\":0,\"processes\":1,\"threads\":1,"
	    "\"rss_bytes\":102400}],\"more\":0}");
	ask(&a, "observe:processes", "alice", 0);
	assert_string_equal(a.result,
	    "{\"owner\":\"alice\",\"processes\":2,\"list\":[{\"pid\":77,\"name\":\"a?b\\\\?[2J\",\"state\":\"R\","
	    "\"threads\":4,\"rss_bytes\":921600},{\"pid\":78,\"name\":\"kworker\",\"state\":\"I\",\"threads\":1,"
	    "\"rss_bytes\":0}],\"more\":0}");
	ask(&a, "observe:processes", "nobody-here", OBSERVE_WRONG);
	ask_is(a.result, "SELECT ?1 ->> '$.refused.code'", "observe.owner_unknown");
	assert_null(strstr(a.result, "nobody-here"));
	/* And here: this very process is one of them. */
	env.root[0] = '\0';
	ask(&a, "observe:processes", NULL, 0);
	snprintf(want, sizeof(want), "%d", (int)getuid());
	ask_is(a.result, "SELECT max(value ->> '$.uid' = 0) FROM json_each(?1, '$.owners')", "1");
	assert_true(ask_int(a.result, "$.processes") > 1);
}

static void
services_are_told(void **state)
{
	static struct ask a;

	(void)state;
	ask(&a, "observe:services", NULL, 0);
	assert_int_equal(ask_int(a.result, "$.failed"), 1);
	ask_is(a.result, "SELECT ?1 ->> '$.services[0].unit'", "broken.service");
	ask_is(a.result, "SELECT ?1 ->> '$.services[0].about'", "One that cannot be read");
	ask(&a, "observe:services", "failed", 0);
	assert_int_equal(ask_int(a.result, "$.count") > 1, 1);
	ask_is(a.result, "SELECT json_array_length(?1, '$.services')", "1");
	recorded_stand_in(
	    env.systemctl, "echo short line\necho \"x\\\"y.service loaded active running\"");
	ask(&a, "observe:services", "running", 0);
	ask_is(a.result, "SELECT ?1 ->> '$.services[0].unit'", "x\"y.service");
	recorded_stand_in(env.systemctl, "exit 1");
	ask(&a, "observe:services", NULL, OBSERVE_MISSING);
	snprintf(env.systemctl, sizeof(env.systemctl), "/nonexistent");
	ask(&a, "observe:services", NULL, OBSERVE_MISSING);
	ask_is(a.result, "SELECT ?1 ->> '$.unreadable'", "this machine has no systemctl");
}

static void
timers_are_told(void **state)
{
	static struct ask a;

	(void)state;
	recorded_stand_in(env.systemctl,
	    "cat <<'X'\n[{\"next\":1796083200000000,\"left\":1,\"last\":0,\"passed\":0,"
	    "\"unit\":\"a.timer\",\"activates\":\"a.service\"},{\"next\":null,\"unit\":\"b.timer\"}]\nX");
	ask(&a, "observe:timers", NULL, 0);
	assert_string_equal(a.result,
	    "{\"count\":2,\"timers\":[{\"unit\":\"a.timer\",\"activates\":\"a.service\","
	    "\"next\":\"2026-12-01T00:00:00Z\",\"last\":null},{\"unit\":\"b.timer\",\"activates\":null,"
	    "\"next\":null,\"last\":null}],\"more\":0}");
	recorded_stand_in(env.systemctl, "echo NEXT LEFT LAST");
	ask(&a, "observe:timers", NULL, OBSERVE_FAILED);
	recorded_stand_in(env.systemctl, "yes | head -c 9000000");
	ask(&a, "observe:timers", NULL, OBSERVE_FAILED);
}

static void
listeners_are_told(void **state)
{
	static struct ask a;

	(void)state;
	recorded_stand_in(env.ss,
	    "cat <<'X'\nudp   UNCONN 0 0 [fe80::1]%eth0:546 [::]:*\n"
	    "tcp   LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:((\"sshd\",pid=411,fd=3),(\"x\",pid=1,fd=1))\n"
	    "tcp   LISTEN 0 128\nX");
	ask(&a, "observe:listeners", NULL, 0);
	assert_string_equal(a.result,
	    "{\"count\":2,\"listeners\":[{\"proto\":\"tcp\",\"address\":\"0.0.0.0\",\"port\":22,"
	    "\"process\":\"sshd\",\"pid\":411},{\"proto\":\"udp\",\"address\":\"[fe80::1]%eth0\",\"port\":546,"
	    "\"process\":null,\"pid\":null}],\"more\":0}");
	snprintf(env.ss, sizeof(env.ss), "/usr/bin/ss");
	ask(&a, "observe:listeners", NULL, 0);
}

static void
packages_are_told(void **state)
{
	static const char *const bad[] = {"", "Bash", "-x", "a*", "a b", "a/b", "%n", "**",
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	static struct ask a;
	struct observe_args canon;
	struct refusal r;
	size_t i;

	(void)state;
	recorded_stand_in(env.dpkg_query,
	    "printf 'bash\\t5.2\\tii \\nbash-x\\t1\\trc \\nzsh\\t5.9\\tii \\nodd\\n'");
	ask(&a, "observe:packages", "bash", 0);
	assert_string_equal(a.result,
	    "{\"prefix\":\"bash\",\"count\":2,\"packages\":[{\"name\":\"bash\",\"version\":\"5.2\",\"status\":\"ii \"},"
	    "{\"name\":\"bash-x\",\"version\":\"1\",\"status\":\"rc \"}],\"more\":0}");
	limits.rows_max = 1;
	ask(&a, "observe:packages", NULL, 0);
	assert_int_equal(ask_int(a.result, "$.count"), 3);
	assert_int_equal(ask_int(a.result, "$.more"), 2);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const words[] = {bad[i], NULL};

		assert_int_equal(ask_check("observe:packages", words, &canon, &r), -1);
		assert_true(strlen(bad[i]) < 3 || strstr(r.why, bad[i]) == NULL);
	}
	snprintf(env.dpkg_query, sizeof(env.dpkg_query), "/usr/bin/dpkg-query");
	ask(&a, "observe:packages", "libc6", 0);
	assert_true(ask_int(a.result, "$.count") >= 1);
}

static void
firewall_is_told(void **state)
{
	static struct ask a;

	(void)state;
	recorded_stand_in(env.nft,
	    "cat <<'X'\n{\"nftables\":[{\"metainfo\":{\"version\":\"1\"}},"
	    "{\"table\":{\"family\":\"inet\",\"name\":\"f\"}},"
	    "{\"chain\":{\"family\":\"inet\",\"table\":\"f\",\"name\":\"in\",\"hook\":\"input\",\"policy\":\"drop\"}},"
	    "{\"chain\":{\"family\":\"inet\",\"table\":\"f\",\"name\":\"mine\"}},"
	    "{\"rule\":{\"family\":\"inet\",\"table\":\"f\",\"chain\":\"in\",\"expr\":[]}},"
	    "{\"rule\":{\"family\":\"inet\",\"table\":\"f\",\"chain\":\"in\",\"expr\":[]}}]}\nX");
	ask(&a, "observe:firewall", NULL, 0);
	assert_string_equal(a.result,
	    "{\"tables\":1,\"rules\":2,\"chains\":[{\"family\":\"inet\",\"table\":\"f\",\"name\":\"in\","
	    "\"hook\":\"input\",\"policy\":\"drop\",\"rules\":2},{\"family\":\"inet\",\"table\":\"f\","
	    "\"name\":\"mine\",\"hook\":null,\"policy\":null,\"rules\":0}],\"more\":0}");
	snprintf(env.nft, sizeof(env.nft), "/nonexistent");
	ask(&a, "observe:firewall", NULL, OBSERVE_MISSING);
	ask_is(a.result, "SELECT ?1 ->> '$.unreadable'", "this machine has no nft");
}

static void
the_kernel_log_is_told(void **state)
{
	static struct ask a;

	(void)state;
	recorded_stand_in(env.journalctl, "echo \"$*\"; echo two");
	ask(&a, "observe:kernel", "1440", 0);
	ask_is(a.result, "SELECT (?1 ->> '$.unit') || ' ' || (?1 ->> '$.lines')", "kernel 2");
	snprintf(env.journalctl, sizeof(env.journalctl), "/nonexistent");
	ask(&a, "observe:kernel", NULL, OBSERVE_MISSING);
	assert_int_equal(ask_int(a.result, "$.lines"), -1);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, recorded_set_up, recorded_tear_down)
	const struct CMUnitTest tests[] = {
	    CASE(load_is_told),
	    CASE(disks_are_told),
	    CASE(users_are_told),
	    CASE(processes_are_counted),
	    CASE(services_are_told),
	    CASE(timers_are_told),
	    CASE(listeners_are_told),
	    CASE(packages_are_told),
	    CASE(firewall_is_told),
	    CASE(the_kernel_log_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
