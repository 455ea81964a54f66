/* test_args.c: what may be asked, before anything is looked at. */
#include "tests/worker/ask.h"

#include "engine/worker/tool.h"

/* A question and what becomes of it: the canonical words, or the code of the refusal. */
struct seed {
	const char *op;
	const char *words[4];
	const char *canon[2];
	const char *code;
};

static void
try_seeds(const struct seed *s, size_t n)
{
	struct observe_args canon;
	struct refusal refusal;
	size_t i;
	int rc, j;

	for (i = 0; i < n; i++) {
		memset(&refusal, 0, sizeof(refusal));
		rc = ask_check(s[i].op, s[i].words, &canon, &refusal);
		if ((rc == 0) != (s[i].code == NULL))
			print_error("%s %s: %d %s\n", s[i].op, s[i].words[0], rc, refusal.code);
		assert_int_equal(rc, s[i].code == NULL ? 0 : -1);
		if (s[i].code != NULL) {
			assert_string_equal(refusal.code, s[i].code);
			continue;
		}
		for (j = 0; j < 2 && s[i].canon[j] != NULL; j++)
			assert_string_equal(canon.v[j], s[i].canon[j]);
		assert_int_equal(canon.n, j);
	}
}

/* OB-1, OBS-1, OBS-2, OBS-3, OBS-4: folders are clean absolute paths outside the kernel's. */
static void
folder_paths(void **state)
{
	static const struct seed seeds[] = {
	    {"observe:folders", {"/"}, {"/", "2"}, NULL},
	    {"observe:folders", {"/var/lib"}, {"/var/lib", "2"}, NULL},
	    {"observe:folders", {"/var//lib/", "3"}, {"/var/lib", "3"}, NULL},
	    {"observe:folders", {"/srv/./data", "1"}, {"/srv/data", "1"}, NULL},
	    {"observe:folders", {"/devices"}, {"/devices", "2"}, NULL},
	    {"observe:folders", {"/.hidden/a.b"}, {"/.hidden/a.b", "2"}, NULL},
	    {"observe:folders", {"/proc"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/proc/1"}, {NULL}, "observe.path"},
	    {"observe:folders", {"//proc/1"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/./proc"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/a/../proc"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/a..b"}, {NULL}, "observe.path"},
	    {"observe:folders", {"rel"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/dev/shm"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/sys/"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/\xff"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/x\ny"}, {NULL}, "observe.path"},
	    {"observe:folders", {"/x\x7f"}, {NULL}, "observe.path"},
	    {"observe:folders", {""}, {NULL}, "observe.args"},
	    {"observe:folders", {NULL}, {NULL}, "observe.args"},
	    {"observe:disks", {"/"}, {NULL}, "observe.args"},
	    {"observe:folders", {"/", "2", "3"}, {NULL}, "observe.args"},
	    {"observe:folders", {"/", "0"}, {NULL}, "observe.depth"},
	    {"observe:folders", {"/", "4"}, {NULL}, "observe.depth"},
	    {"observe:folders", {"/", "-1"}, {NULL}, "observe.depth"},
	    {"observe:folders", {"/", "99999999999999999999"}, {NULL}, "observe.depth"},
	    {"observe:nothing", {"/"}, {NULL}, "op.unknown"},
	};
	struct observe_word nul = {"/x\0y", 4};
	struct observe_args canon;
	struct refusal refusal;

	(void)state;
	try_seeds(seeds, sizeof(seeds) / sizeof(seeds[0]));
	assert_int_equal(observe_check("observe:folders", 1, &nul, &canon, &refusal), -1);
	assert_string_equal(refusal.code, "observe.args");
}

/* OB-1: a path of the greatest length stays within its room. */
static void
long_path(void **state)
{
	static char path[OBSERVE_ARG_MAX + 8];
	struct observe_word word = {path, 0};
	struct observe_args canon;

	(void)state;
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	word.len = OBSERVE_ARG_MAX - 1;
	assert_int_equal(observe_check("observe:folders", 1, &word, &canon, NULL), 0);
	assert_int_equal(strlen(canon.v[0]), OBSERVE_ARG_MAX - 1);
	word.len = OBSERVE_ARG_MAX;
	assert_int_equal(observe_check("observe:folders", 1, &word, &canon, NULL), -1);
}

/* OB-2, OBS-8, OBS-10: a unit is a unit, never an option or a shell's words. */
static void
units(void **state)
{
	static const struct seed seeds[] = {
	    {"observe:journal", {"example"}, {"example.service", "15"}, NULL},
	    {"observe:journal", {"getty@tty1", "60"}, {"getty@tty1.service", "60"}, NULL},
	    {"observe:journal", {"dev-disk-by\\x2dlabel-data.device"},
		{"dev-disk-by\\x2dlabel-data.device", "15"}, NULL},
	    {"observe:journal", {"data.mount"}, {"data.mount", "15"}, NULL},
	    {"observe:journal", {"a.b"}, {"a.b.service", "15"}, NULL},
	    {"observe:journal", {"example", "1"}, {"example.service", "1"}, NULL},
	    {"observe:journal", {"-.mount"}, {NULL}, "observe.unit"},
	    {"observe:journal", {"--unit=x"}, {NULL}, "observe.unit"},
	    {"observe:journal", {"worker@.service"}, {NULL}, "observe.unit"},
	    {"observe:journal", {"a@b@c"}, {NULL}, "observe.unit"},
	    {"observe:journal", {"x;id"}, {NULL}, "observe.unit"},
	    {"observe:journal", {"x*"}, {NULL}, "observe.unit"},
	    {"observe:journal", {".service"}, {NULL}, "observe.unit"},
	    {"observe:journal", {"@x"}, {NULL}, "observe.unit"},
	    {"observe:journal", {"\xc3\xa9"}, {NULL}, "observe.unit"},
	    {"observe:journal", {"example", "0"}, {NULL}, "observe.minutes"},
	    {"observe:journal", {"example", "61"}, {NULL}, "observe.minutes"},
	    {"observe:journal", {"example", "1h"}, {NULL}, "observe.minutes"},
	    {"observe:logins", {NULL}, {"24"}, NULL},
	    {"observe:logins", {"168"}, {"168"}, NULL},
	    {"observe:logins", {"007"}, {"7"}, NULL},
	    {"observe:logins", {"0"}, {NULL}, "observe.hours"},
	    {"observe:logins", {"169"}, {NULL}, "observe.hours"},
	    {"observe:logins", {"1", "2"}, {NULL}, "observe.args"},
	};

	(void)state;
	try_seeds(seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* OB-2: 255 characters with the suffix, and no more. */
static void
long_unit(void **state)
{
	char name[300];
	struct observe_word word = {name, 0};
	struct observe_args canon;

	(void)state;
	memset(name, 'u', sizeof(name));
	word.len = 255 - strlen(".service");
	assert_int_equal(observe_check("observe:journal", 1, &word, &canon, NULL), 0);
	assert_int_equal(strlen(canon.v[0]), 255);
	word.len++;
	assert_int_equal(observe_check("observe:journal", 1, &word, &canon, NULL), -1);
	word.len = 299;
	assert_int_equal(observe_check("observe:journal", 1, &word, &canon, NULL), -1);
}

/* OB-3: ports and server names. */
static void
certs(void **state)
{
	static const struct seed seeds[] = {
	    {"observe:cert", {"443", "box-a.example"}, {"443", "box-a.example"}, NULL},
	    {"egress:reach", {"Example.COM.", "443"}, {"example.com", "443"}, NULL},
	    {"egress:reach", {"[::1]", "443"}, {NULL}, "egress.authority"},
	    {"egress:reach", {"example.com", "0443"}, {NULL}, "egress.authority"},
	    {"egress:reach", {"example.com", "65536"}, {NULL}, "egress.authority"},
	    {"observe:cert", {"443"}, {"443", NULL}, NULL},
	    {"observe:cert", {"8443", "192.0.2.10"}, {"8443", "192.0.2.10"}, NULL},
	    {"observe:cert", {"443", "A.EXAMPLE"}, {"443", "a.example"}, NULL},
	    {"observe:cert", {"65535", "x"}, {"65535", "x"}, NULL},
	    {"observe:cert", {" 443 ", "A.EXAMPLE"}, {NULL}, "observe.port"},
	    {"observe:cert", {"0", "x"}, {NULL}, "observe.port"},
	    {"observe:cert", {"65536", "x"}, {NULL}, "observe.port"},
	    {"observe:cert", {"443", "-x"}, {NULL}, "observe.name"},
	    {"observe:cert", {"443", ".x"}, {NULL}, "observe.name"},
	    {"observe:cert", {"443", "x."}, {NULL}, "observe.name"},
	    {"observe:cert", {"443", "a..b"}, {NULL}, "observe.name"},
	    {"observe:cert", {"443", "a_b"}, {NULL}, "observe.name"},
	    {"observe:cert", {"443", "a-.b"}, {NULL}, "observe.name"},
	    {"observe:cert", {"443", "a/b"}, {NULL}, "observe.name"},
	    {"observe:cert", {"443", ""}, {NULL}, "observe.args"},
	};

	(void)state;
	try_seeds(seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* OBS-13: what was wrong is never repeated. */
static void
refusals_never_echo(void **state)
{
	static const char *const marked[][3] = {
	    {"observe:folders", "QZXQ/rel", NULL},
	    {"observe:folders", "/QZXQ/..", NULL},
	    {"observe:folders", "/", "QZXQ"},
	    {"observe:journal", "--QZXQ", NULL},
	    {"observe:journal", "x", "QZXQ"},
	    {"observe:logins", "QZXQ", NULL},
	    {"observe:cert", "QZXQ", NULL},
	    {"observe:cert", "443", "-QZXQ"},
	    {"QZXQ", "x", NULL},
	};
	struct observe_args canon;
	struct refusal refusal;
	const char *words[3];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(marked) / sizeof(marked[0]); i++) {
		words[0] = marked[i][1];
		words[1] = marked[i][2];
		words[2] = NULL;
		assert_int_equal(ask_check(marked[i][0], words, &canon, &refusal), -1);
		assert_null(strstr(refusal.why, "QZXQ"));
		assert_true(strlen(refusal.why) > 10);
	}
}

/* OBS-14, CLM-22: the table holds these four; a fifth needs this test's consent. */
static void
table_is_known(void **state)
{
	const struct observe_op *op;
	size_t i;

	(void)state;
	for (i = 0; (op = observe_at(i)) != NULL; i++) {
		assert_ptr_equal(observe_find(op->name), op);
		assert_non_null(op->check);
		/* What a Host asks about its own grants, and its own catalog, the database answers.
		 */
		assert_int_equal(op->run != NULL,
		    strncmp(op->name, "grant:", 6) != 0 && strcmp(op->name, "op:list") != 0);
		assert_true(op->args_min <= op->args_max && op->args_max <= OBSERVE_ARGS_MAX);
	}
	assert_true(i >= 4);
}

#define GIT_OUT                                                                                  \
	"git -C /tree -c http.curloptResolve=a.example:443:198.51.100.8 -c http.sslVerify=true " \
	"-c http.followRedirects=false -c http.proxy= -c credential.helper= "                    \
	"-c protocol.allow=never -c protocol.https.allow=always -c core.hooksPath=/dev/null "    \
	"-c core.fsmonitor=false -c transfer.fsckObjects=true "

/* Chapter core 11: every program that a handler can start, word by word. */
static void
programs_are_fixed(void **state)
{
	static const char *const want[TOOL_COUNT] = {
	    "systemctl list-units --all --no-legend --plain ",
	    "systemctl list-unit-files --no-legend --plain ",
	    "journalctl --unit=ssh.service --since=-15min -o short-iso --no-pager -q --lines=5000 ",
	    "journalctl --since=-15min -o short-iso --no-pager -q --lines=5000 _COMM=sshd "
	    "_COMM=sshd-session _COMM=sshd-auth _UID=0 + _SYSTEMD_UNIT=ssh.service "
	    "_SYSTEMD_UNIT=sshd.service _UID=0 ",
	    "ss -Hltn ",
	    "systemctl list-units --type=service --all --no-legend --plain ",
	    "systemctl list-timers --all --output=json ",
	    "journalctl -k --since=-15min -o short-iso --no-pager -q --lines=5000 ",
	    "ss -Hltunp ",
	    "nft -j list ruleset ",
	    "dpkg-query -W -f=${binary:Package}\\t${Version}\\t${db:Status-Abbrev}\\n ",
	    "systemctl show --property=LoadState --value -- name ",
	    "systemctl show --property=ActiveState --value -- name ",
	    "systemctl restart --no-ask-password -- name ",
	    "git -C /tree config --local --name-only --list ",
	    "git -C /tree rev-parse --verify --quiet name^{commit} ",
	    "git -C /tree -c core.fsmonitor=false diff --name-status --no-renames --no-ext-diff "
	    "--no-textconv HEAD name -- ",
	    "git -C /tree -c core.hooksPath=/dev/null -c core.fsmonitor=false -c protocol.allow=never "
	    "checkout --quiet --detach --no-recurse-submodules name -- ",
	    "git -C /tree config --local --get remote.origin.url ",
	    "git -C /tree for-each-ref --format=%(objectname)%09%(refname) refs/remotes/origin/ ",
	    GIT_OUT "ls-remote --heads -- https://a.example/r ",
	    GIT_OUT
	    "fetch --quiet --no-auto-maintenance --no-recurse-submodules --no-write-fetch-head -- "
	    "https://a.example/r +refs/heads/*:refs/remotes/origin/* ",
	    "git version ",
	    "kubectl --kubeconfig=/etc/bastion/kubeconfig --request-timeout=20s --namespace=default get "
	    "deployment/web "
	    "--output=jsonpath={.spec.template.spec.containers[?(@.name==\"app\")].image} ",
	    "kubectl --kubeconfig=/etc/bastion/kubeconfig --request-timeout=20s --namespace=default set "
	    "image deployment/web app=r.example/i:1 ",
	    "apt-get -s -q -y --no-install-recommends install -- name ",
	    "apt-get -q -y --no-install-recommends --no-remove -o Dpkg::Options::=--force-confold install "
	    "-- name ",
	    "usermod --lock -- name ",
	    "skopeo inspect --raw --tls-verify=true --no-creds docker://r.example/i@sha256:0 ",
	    "skopeo inspect --raw containers-storage:r.example/i:1 ",
	    "skopeo copy --quiet --src-tls-verify=true --src-no-creds docker://r.example/i@sha256:0 "
	    "containers-storage:r.example/i:1 ",
	};
	const struct tool_fill fill = {"ssh.service", 15, 5000, "name", "/tree",
	    "https://a.example/r", "a.example:443:198.51.100.8", "r.example/i:1", "default", "web",
	    "app", "r.example/i@sha256:0", "r.example/i:1", "", ""};
	struct observe_limits limits;
	struct observe_env env;
	struct tool_call call;
	char line[1024];
	int i, j;

	(void)state;
	observe_defaults(&limits, &env);
	for (i = 0; i < TOOL_COUNT; i++) {
		line[0] = '\0';
		assert_int_equal(tool_call((enum tool)i, &env, &fill, &call), 0);
		for (j = 0; call.argv[j] != NULL; j++) {
			strcat(line, call.argv[j]);
			strcat(line, " ");
		}
		assert_string_equal(line, want[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(folder_paths),
	    cmocka_unit_test(long_path),
	    cmocka_unit_test(units),
	    cmocka_unit_test(long_unit),
	    cmocka_unit_test(certs),
	    cmocka_unit_test(refusals_never_echo),
	    cmocka_unit_test(table_is_known),
	    cmocka_unit_test(programs_are_fixed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
