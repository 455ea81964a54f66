/* test_acts.c: verbs change what they say, whole or not at all; dry, nothing; nothing of bastion's
 * own. */
#include "tests/worker/acting.h"

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>

#include "engine/worker/hold.h"
#include "engine/worker/probe.h"

/* Nothing is left behind by a verb. */
static void
no_leftovers(void)
{
	shell("test -z \"$(find %s -name '.bastion-*')\"", root);
}

static void
a_file_is_put_whole(void **state)
{
	static struct ask a;
	struct stat st;

	(void)state;
	act(&a, "file:put", at("new.conf"), "a\nb\nc\n", 1, 0);
	ask_is(a.result,
	    "SELECT (?1 ->> '$.changed') || (?1 ->> '$.exists') || (?1 ->> '$.lines_added')",
	    "103");
	assert_string_equal(content(at("new.conf")), "(none)");
	act(&a, "file:put", at("new.conf"), "a\nb\nc\n", 0, 0);
	assert_string_equal(content(at("new.conf")), "a\nb\nc\n");
	assert_int_equal(chmod(at("new.conf"), 0640), 0);
	act(&a, "file:put", at("new.conf"), "a\nX\nY\nc\n", 1, 0);
	assert_int_equal(ask_int(a.result, "$.from_line"), 2);
	assert_int_equal(ask_int(a.result, "$.lines_removed"), 1);
	assert_int_equal(ask_int(a.result, "$.lines_added"), 2);
	ask_is(a.result, "SELECT ?1 ->> '$.mode'", "0640");
	assert_string_equal(content(at("new.conf")), "a\nb\nc\n");
	act(&a, "file:put", at("new.conf"), "a\nX\nY\nc\n", 0, 0);
	assert_string_equal(content(at("new.conf")), "a\nX\nY\nc\n");
	assert_int_equal(stat(at("new.conf"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	act(&a, "file:put", at("new.conf"), "a\nX\nY\nc\n", 0, 0);
	ask_is(a.result, "SELECT ?1 ->> '$.changed'", "0");
	no_leftovers();
}

/* What changed is found by line, at either end, with and without a last newline. */
static void
changes_are_counted(void **state)
{
	static const struct {
		const char *before, *after;
		int line, removed, added;
	} cases[] = {{"a\nb\n", "a\n", 2, 1, 0}, {"a\n", "a\nb\n", 2, 0, 1},
	    {"a\nb", "a\nb\n", 2, 1, 1}, {"x\n", "y\n", 1, 1, 1}, {"a\na\n", "a\n", 2, 1, 0},
	    {"ab\nc\n", "b\nc\n", 1, 1, 1}, {"1\n2\n3\n4\n", "1\n4\n", 2, 2, 0},
	    {"", "a\n", 1, 0, 1}, {"a\nxb\n", "a\nyb\n", 2, 1, 1}};
	static struct ask a;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask_write(at("f"), cases[i].before, 0644);
		act(&a, "file:put", at("f"), cases[i].after, 1, 0);
		if (ask_int(a.result, "$.from_line") != cases[i].line ||
		    ask_int(a.result, "$.lines_removed") != cases[i].removed ||
		    ask_int(a.result, "$.lines_added") != cases[i].added)
			fail_msg("case %zu: %s", i, a.result);
	}
}

/* Links are never followed, and what is no plain file of one name is left alone. */
static void
links_lead_nowhere(void **state)
{
	static struct ask a;

	(void)state;
	ask_write(at("secret"), "keep\n", 0600);
	shell(
	    "cd %s && ln -s secret link && mkdir real && ln -s real dir && ln secret hard && mkfifo pipe",
	    root);
	refused(&a, "file:put", at("link"), "x", "act.file", OBSERVE_FAILED);
	refused(&a, "file:put", at("hard"), "x", "act.file", OBSERVE_FAILED);
	refused(&a, "file:put", at("pipe"), "x", "act.file", OBSERVE_FAILED);
	refused(&a, "file:put", at("real"), "x", "act.file", OBSERVE_FAILED);
	refused(&a, "file:put", at("dir/x"), "x", "act.path", OBSERVE_WRONG);
	refused(&a, "file:put", at("none/x"), "x", "act.missing", OBSERVE_WRONG);
	refused(&a, "file:move", at("link"), at("y"), "act.file", OBSERVE_FAILED);
	refused(&a, "file:move", at("secret"), at("dir/y"), "act.path", OBSERVE_WRONG);
	assert_string_equal(content(at("secret")), "keep\n");
	no_leftovers();
}

static void
paths_have_one_form(void **state)
{
	static const char *const bad[] = {"x", "/", "/a/../b", "/a/./b", "/a//b", "/a/",
	    "/proc/1/mem", "/sys/x", "/dev/sda", "/a\nb", "/proc", ".."};
	struct observe_args canon;
	struct refusal r;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const put[] = {bad[i], "x", NULL}, *const move[] = {
								   "/tmp/a", bad[i], NULL};

		if (ask_check("file:put", put, &canon, &r) == 0 ||
		    ask_check("file:move", move, &canon, &r) == 0)
			fail_msg("passes: %s", bad[i]);
		assert_string_equal(r.code, "act.path");
	}
}

/* Where bastion keeps its own is out of reach, by any name, and is not moved away with what holds
 * it. */
static void
bastions_own_is_out_of_reach(void **state)
{
	static struct ask a;

	(void)state;
	shell("mkdir -p %s/var/state/deep %s/other", root, root);
	snprintf(env.keep[0], sizeof(env.keep[0]), "%s/var/state", root);
	ask_write(at("var/state/bastion.db"), "rows", 0600);
	ask_write(at("other/f"), "f", 0600);
	refused(&a, "file:put", at("var/state/bastion.db"), "x", "act.own", OBSERVE_WRONG);
	refused(&a, "file:put", at("var/state/deep/x"), "x", "act.own", OBSERVE_WRONG);
	refused(&a, "file:move", at("other/f"), at("var/state/f"), "act.own", OBSERVE_WRONG);
	refused(
	    &a, "file:move", at("var/state/bastion.db"), at("other/db"), "act.own", OBSERVE_WRONG);
	refused(&a, "file:move", at("var/state"), at("other/state"), "act.own", OBSERVE_FAILED);
	refused(&a, "file:move", at("var"), at("other/var"), "act.own", OBSERVE_FAILED);
	/* The kept folder by another name: it is known by itself. */
	shell(
	    "mv %s/var/state %s/renamed && ln -s %s/renamed %s/var/state", root, root, root, root);
	refused(&a, "file:put", at("renamed/bastion.db"), "x", "act.own", OBSERVE_WRONG);
	act(&a, "file:put", at("var/fine"), "x", 0, 0);
	assert_string_equal(content(at("renamed/bastion.db")), "rows");
}

static void
a_file_is_moved_onto_nothing(void **state)
{
	static struct ask a;

	(void)state;
	ask_write(at("a"), "one", 0600);
	ask_write(at("b"), "two", 0600);
	shell("mkdir %s/d", root);
	refused(&a, "file:move", at("a"), at("b"), "act.exists", OBSERVE_FAILED);
	refused(&a, "file:move", at("none"), at("c"), "act.missing", OBSERVE_FAILED);
	act(&a, "file:move", at("a"), at("d/a"), 1, 0);
	assert_string_equal(content(at("a")), "one");
	act(&a, "file:move", at("a"), at("d/a"), 0, 0);
	assert_string_equal(content(at("a")), "(none)");
	assert_string_equal(content(at("d/a")), "one");
	act(&a, "file:move", at("d"), at("e"), 0, 0);
	ask_is(a.result, "SELECT ?1 ->> '$.kind'", "folder");
	assert_string_equal(content(at("e/a")), "one");
}

static void
a_service_is_restarted(void **state)
{
	static struct ask a;
	char body[512];

	(void)state;
	snprintf(body, sizeof(body),
	    "echo \"$*\" >> %s/log\n"
	    "case \"$2\" in --property=LoadState) [ \"$5\" = x.service ] && echo loaded || echo not-found;;\n"
	    "--property=ActiveState) test -f %s/up && echo active || echo failed;; esac\n"
	    "[ \"$1\" != restart ] || touch %s/up",
	    root, root, root);
	recorded_stand_in(env.systemctl, body);
	act(&a, "service:restart", "x", NULL, 1, 0);
	assert_string_equal(
	    a.result, "{\"unit\":\"x.service\",\"dry\":true,\"before\":\"failed\",\"after\":null}");
	assert_null(strstr(content(at("log")), "restart"));
	act(&a, "service:restart", "x.service", NULL, 0, 0);
	assert_string_equal(a.result,
	    "{\"unit\":\"x.service\",\"dry\":false,\"before\":\"failed\",\"after\":\"active\"}");
	assert_non_null(strstr(content(at("log")), "restart --no-ask-password -- x.service\n"));
	refused(&a, "service:restart", "y", NULL, "act.unit", OBSERVE_WRONG);
	snprintf(env.systemctl, sizeof(env.systemctl), "/nonexistent");
	refused(&a, "service:restart", "x", NULL, "act.tool", OBSERVE_MISSING);
}

static void
words_have_one_form(void **state)
{
	static const struct {
		const char *op, *one, *two;
	} bad[] = {{"service:restart", "--help", NULL}, {"service:restart", "a b", NULL},
	    {"service:restart", "bastion", NULL}, {"service:restart", "bastion-host.service", NULL},
	    {"service:restart", "a/b", NULL}, {"tree:checkout", "/srv/t", "--force"},
	    {"tree:checkout", "/srv/t", "a..b"}, {"tree:checkout", "/srv/t", "a^b"},
	    {"tree:checkout", "/srv/t", "a:b"}, {"tree:checkout", "t", "main"},
	    {"package:install", "-y", NULL}, {"package:install", "bash-", NULL},
	    {"package:install", "bash+", NULL}, {"package:install", "a=1", NULL},
	    {"package:install", "./x.deb", NULL}, {"user:lock", "-u", NULL},
	    {"user:lock", "a b", NULL}};
	struct observe_args canon;
	struct refusal r;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const words[] = {bad[i].one, bad[i].two, NULL};

		if (ask_check(bad[i].op, words, &canon, &r) == 0)
			fail_msg("passes: %s %s", bad[i].one, bad[i].two != NULL ? bad[i].two : "");
	}
}

#define GIT "git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main"

static void
a_tree_is_checked_out(void **state)
{
	static struct ask a;

	(void)state;
	shell("mkdir -m 755 %s/t && cd %s/t && " GIT " init -q && echo one > f && " GIT
	      " add f && " GIT " commit -qm 1 && git tag v1 && echo two > f && echo new > g && " GIT
	      " add . && " GIT " commit -qm 2 && git tag v2 && chmod 755 .git",
	    root, root);
	act(&a, "tree:checkout", at("t"), "v1", 1, 0);
	ask_is(a.result, "SELECT ?1 -> '$.files'",
	    "[{\"change\":\"M\",\"path\":\"f\"},{\"change\":\"D\",\"path\":\"g\"}]");
	assert_string_equal(content(at("t/f")), "two\n");
	act(&a, "tree:checkout", at("t"), "v1", 0, 0);
	assert_string_equal(content(at("t/f")), "one\n");
	assert_string_equal(content(at("t/g")), "(none)");
	refused(&a, "tree:checkout", at("t"), "v9", "act.ref", OBSERVE_WRONG);
	refused(&a, "tree:checkout", root, "v1", "act.tree", OBSERVE_WRONG);
	/* Hooks do not run; changes of somebody stand in the way. */
	shell("cd %s/t && printf '#!/bin/sh\\ntouch %s/hook' > .git/hooks/post-checkout &&"
	      " chmod 755 .git/hooks/post-checkout && mkdir -p .git/hooks",
	    root, root);
	act(&a, "tree:checkout", at("t"), "v2", 0, 0);
	assert_string_equal(content(at("hook")), "(none)");
	ask_write(at("t/f"), "mine\n", 0644);
	refused(&a, "tree:checkout", at("t"), "v1", "act.failed", OBSERVE_FAILED);
	assert_string_equal(content(at("t/f")), "mine\n");
	/* A configuration that starts programs is not used. */
	shell("cd %s/t && git checkout -q f && git config filter.x.smudge 'touch %s/smudge'", root,
	    root);
	refused(&a, "tree:checkout", at("t"), "v1", "act.tree", OBSERVE_WRONG);
	shell(
	    "cd %s/t && git config --unset filter.x.smudge && git config --remove-section filter.x || true;"
	    " chmod 777 %s/t",
	    root, root);
	refused(&a, "tree:checkout", at("t"), "v1", "act.tree", OBSERVE_WRONG);
}

/* RF-104: only the code that a program has for it means that something is not there; whatever else
 * it ends with is a fault, and said as one. */
static void
a_fault_is_no_absence(void **state)
{
	static struct ask a;
	char git[OBSERVE_PATH_MAX];

	(void)state;
	shell("mkdir -m 755 %s/t && cd %s/t && " GIT " init -q && echo one > f && " GIT
	      " add f && " GIT " commit -qm 1 && git tag v1 && chmod 755 .git",
	    root, root);
	strcpy(git, env.git);
	recorded_stand_in(
	    env.git, "case \"$*\" in *rev-parse*v1*) exit 128;; *) exec git \"$@\";; esac");
	refused(&a, "tree:checkout", at("t"), "v1", "act.failed", OBSERVE_FAILED);
	recorded_stand_in(
	    env.git, "case \"$*\" in *rev-parse*v1*) kill -9 $$;; *) exec git \"$@\";; esac");
	refused(&a, "tree:checkout", at("t"), "v1", "act.failed", OBSERVE_FAILED);
	refused(&a, "tree:checkout", at("t"), "v9", "act.ref", OBSERVE_WRONG);
	strcpy(env.git, git);
	recorded_stand_in(env.apt_get, "exit 1");
	refused(&a, "package:install", "x", NULL, "act.failed", OBSERVE_FAILED);
}

static void
a_package_is_planned_then_installed(void **state)
{
	static struct ask a;
	char body[512];

	(void)state;
	snprintf(body, sizeof(body),
	    "case \"$*\" in *none*) exit 100;; -s*) echo 'Inst libx (1 Debian)'; echo 'Inst x (2 Debian)';"
	    " echo 'Conf x';; *) echo \"$DEBIAN_FRONTEND $*\" > %s/log;; esac",
	    root);
	recorded_stand_in(env.apt_get, body);
	act(&a, "package:install", "x", NULL, 1, 0);
	assert_string_equal(a.result,
	    "{\"package\":\"x\",\"dry\":true,\"installs\":[\"libx\",\"x\"],\"removes\":[]}");
	assert_string_equal(content(at("log")), "(none)");
	act(&a, "package:install", "x", NULL, 0, 0);
	assert_string_equal(content(at("log")),
	    "noninteractive -q -y --no-install-recommends --no-remove -o Dpkg::Options::=--force-confold"
	    " install -- x\n");
	refused(&a, "package:install", "none", NULL, "act.package", OBSERVE_WRONG);
}

static void
an_account_is_locked(void **state)
{
	static struct ask a;
	char body[128];

	(void)state;
	snprintf(body, sizeof(body), "echo \"$*\" > %s/log", root);
	recorded_stand_in(env.usermod, body);
	act(&a, "user:lock", "daemon", NULL, 1, 0);
	assert_string_equal(content(at("log")), "(none)");
	act(&a, "user:lock", "daemon", NULL, 0, 0);
	assert_string_equal(content(at("log")), "--lock -- daemon\n");
	refused(&a, "user:lock", "root", NULL, "act.user", OBSERVE_WRONG);
	refused(&a, "user:lock", "no-such-account", NULL, "act.user", OBSERVE_WRONG);
}

/* VERB-3: where there is no kubectl, that is this machine's matter; a stand-in answers for a
 * cluster. */
static void
a_container_gets_another_image(void **state)
{
	static const char *const bad[][2] = {{"a/b", "r.example/i"}, {"a/b/c/d", "r.example/i"},
	    {"a/b/-c", "r.example/i"}, {"A/b/c", "r.example/i"}, {"a//c", "r.example/i"},
	    {"a/b/c", "i"}, {"a/b/c", "library/i"}, {"a/b/c", "r.example"}, {"a/b/c", "r.example/"},
	    {"a/b/c", "--r.example/i"}, {"a/b/c", "r.example:0/i"}, {"a/b/c", "u@r.example/i"},
	    {"a/b/c", "r.example/i i"}, {"a/b/c", "127.1/i"}};
	struct observe_args canon;
	static struct ask a;
	struct refusal r;
	char body[512];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const words[] = {bad[i][0], bad[i][1], NULL};

		if (ask_check("k8s:set_image", words, &canon, &r) == 0)
			fail_msg("passes: %s %s", bad[i][0], bad[i][1]);
	}
	snprintf(env.kubectl, sizeof(env.kubectl), "/nonexistent");
	refused(
	    &a, "k8s:set_image", "shop/web/app", "198.51.100.8/app:2", "act.tool", OBSERVE_MISSING);
	snprintf(body, sizeof(body),
	    "echo \"$*\" >> %s/log\ncase \"$*\" in *' get deployment/web '*) echo r.example/app:1;; esac",
	    root);
	recorded_stand_in(env.kubectl, body);
	refused(
	    &a, "k8s:set_image", "shop/web/app", "198.51.100.8/app:2", "act.tool", OBSERVE_MISSING);
	snprintf(env.kubeconfig, sizeof(env.kubeconfig), "%s", at("kubeconfig"));
	ask_write(at("kubeconfig"), "{}", 0644);
	assert_int_equal(chmod(at("kubeconfig"), 0666), 0);
	refused(
	    &a, "k8s:set_image", "shop/web/app", "198.51.100.8/app:2", "act.tool", OBSERVE_MISSING);
	assert_int_equal(chmod(at("kubeconfig"), 0600), 0);
	act(&a, "k8s:set_image", "shop/web/app", "198.51.100.8:5000/app:2", 0, 0);
	assert_string_equal(a.result,
	    "{\"destination\":{\"host\":\"198.51.100.8\",\"port\":5000,\"addresses\":[\"198.51.100.8\"]}}");
	assert_string_equal(content(at("log")), "(none)");
	acting_pin = "198.51.100.8:5000:198.51.100.8";
	act(&a, "k8s:set_image", "shop/web/app", "198.51.100.8:5000/app:2", 1, 0);
	assert_null(strstr(content(at("log")), " set image "));
	act(&a, "k8s:set_image", "shop/web/app", "198.51.100.8:5000/app:2", 0, 0);
	assert_string_equal(a.result,
	    "{\"container\":\"shop/web/app\",\"image\":\"198.51.100.8:5000/app:2\",\"dry\":false,"
	    "\"before\":\"r.example/app:1\"}");
	assert_non_null(strstr(content(at("log")),
	    " --namespace=shop set image deployment/web app=198.51.100.8:5000/app:2\n"));
	refused(&a, "k8s:set_image", "shop/none/app", "198.51.100.8:5000/app:2", "act.cluster",
	    OBSERVE_WRONG);
	refused(&a, "k8s:set_image", "shop/web/app", "198.51.100.9:5000/app:2", "act.changed",
	    OBSERVE_WRONG);
	acting_pin = "";
}

/* An image is named in full: its registry, and a tag or a digest. Each spelling has one form. */
static void
images_have_one_form(void **state)
{
#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	static const char *const bad[] = {"app", "app:1", "library/app:1", "r.example/app",
	    "r.example/:1", "r.example/app:", "r.example/App:1", "r.example//app:1",
	    "r.example/app/:1", "r.example/-app:1", "r.example/app_:1", "r.example/a___b:1",
	    "r.example/a..b:1", "r.example/a._b:1", "r.example/app:-1", "r.example/app:1/2",
	    "r.example/app:1@" DIGEST, "r.example/app@" DIGEST "0", "r.example/app@sha256:00",
	    "r.example/app@md5:0123456789abcdef0123456789abcdef", "r.example/app@SHA256:00",
	    "r_x.example/app:1", "-e:5000/app:1", "a-.example/app:1", "a.-b.example/app:1",
	    "r./app:1", "u@r.example/app:1", "r.example:0/app:1", "r.example:65536/app:1",
	    "docker://r.example/app:1", "--all", "r.example/app:1 x", "127.1/app:1",
	    "[::ffff:127.0.0.1]/app:1", "r.example/app:1\n"};
	static const char *const good[][2] = {{"r.example/app:1", "r.example/app:1"},
	    {"R.Example:443/a/b__c.d-e---f/g_h:V1.0-rc_2",
		"r.example/a/b__c.d-e---f/g_h:V1.0-rc_2"},
	    {"r.example:5000/app@" DIGEST, "r.example:5000/app@" DIGEST},
	    {"198.51.100.8:5000/0:_", "198.51.100.8:5000/0:_"},
	    {"reg:5000/app:1", "reg:5000/app:1"}, {"reg.:443/app:1", "reg:443/app:1"},
	    {"[2001:DB8::0]:1/a:b", "[2001:db8::]:1/a:b"}};
	struct observe_args canon;
	struct refusal r;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const words[] = {bad[i], NULL};

		if (ask_check("container:pull", words, &canon, &r) == 0)
			fail_msg("passes: %s", bad[i]);
		assert_string_equal(r.code, "act.image");
	}
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		const char *const words[] = {good[i][0], NULL};

		if (ask_check("container:pull", words, &canon, &r) != 0)
			fail_msg("%s: %s", good[i][0], r.why);
		assert_string_equal(canon.v[0], good[i][1]);
	}
#undef DIGEST
}

/* Who pulls, and as whom, is root's word: a file of passwords that others read is not used. */
static void
passwords_of_registries_are_roots(void **state)
{
	static struct ask a;

	(void)state;
	snprintf(env.skopeo, sizeof(env.skopeo), "/nonexistent");
	refused(&a, "container:pull", "198.51.100.8/app:2", NULL, "act.tool", OBSERVE_MISSING);
	recorded_stand_in(env.skopeo, "exit 1");
	if (geteuid() != 0) {
		refused(
		    &a, "container:pull", "198.51.100.8/app:2", NULL, "act.tool", OBSERVE_MISSING);
		return;
	}
	act(&a, "container:pull", "198.51.100.8/app:2", NULL, 0, 0);
	assert_string_equal(a.result,
	    "{\"destination\":{\"host\":\"198.51.100.8\",\"port\":443,\"addresses\":[\"198.51.100.8\"]}}");
	acting_pin = "198.51.100.9:443:198.51.100.9";
	refused(&a, "container:pull", "198.51.100.8/app:2", NULL, "act.changed", OBSERVE_WRONG);
	acting_pin = "198.51.100.8:443:198.51.100.8";
	snprintf(env.registries, sizeof(env.registries), "%s", at("registries.json"));
	ask_write(at("registries.json"), "{}", 0640);
	assert_int_equal(chmod(at("registries.json"), 0640), 0);
	refused(&a, "container:pull", "198.51.100.8/app:2", NULL, "act.tool", OBSERVE_MISSING);
	assert_int_equal(chmod(at("registries.json"), 0600), 0);
	assert_int_equal(chown(at("registries.json"), 1, 1), 0);
	refused(&a, "container:pull", "198.51.100.8/app:2", NULL, "act.tool", OBSERVE_MISSING);
	acting_pin = "";
}

/* Nothing but the places of a pin is found in it, and only by a request to connect. */
static void
a_pin_has_its_places_alone(void **state)
{
	static const char pin[] =
	    "r.example:443:198.51.100.8,[2001:db8::8] 2001:db8::9:5000:[2001:db8::9]";
	static const struct {
		const char *head;
		int port, count; /* 0: none */
	} cases[] = {{"CONNECT r.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", 443, 2},
	    {"CONNECT R.EXAMPLE:443 HTTP/1.0\r\n\r\n", 443, 2},
	    {"CONNECT [2001:db8::9]:5000 HTTP/1.1\r\n\r\n", 5000, 1},
	    {"CONNECT r.example:80 HTTP/1.1\r\n\r\n", 0, 0},
	    {"CONNECT example:443 HTTP/1.1\r\n\r\n", 0, 0},
	    {"CONNECT 198.51.100.8:443 HTTP/1.1\r\n\r\n", 0, 0},
	    {"CONNECT r.example:443/x HTTP/1.1\r\n\r\n", 0, 0},
	    {"CONNECT r.example:443 x HTTP/1.1\r\n\r\n", 0, 0},
	    {"GET http://r.example/ HTTP/1.1\r\n\r\n", 0, 0}, {"CONNECT  HTTP/1.1\r\n\r\n", 0, 0},
	    {"\r\n\r\n", 0, 0}, {"CONNECT", 0, 0}};
	struct hold_place place;
	const char *target;
	size_t i, len;
	int rc;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rc = hold_target(cases[i].head, strlen(cases[i].head), &target, &len);
		if (rc == 0)
			rc = hold_find(pin, target, len, &place);
		if ((rc == 0) != (cases[i].count > 0))
			fail_msg("%zu: %d", i, rc);
		if (rc == 0) {
			assert_int_equal(place.port, cases[i].port);
			assert_int_equal(place.count, cases[i].count);
		}
	}
}

/* ENF-2: each verb is probed, and one whose tool is missing says which. */
static void
verbs_are_probed(void **state)
{
	(void)state;
	snprintf(env.usermod, sizeof(env.usermod), "/nonexistent");
	assert_string_equal(probe_lacks("user:lock", &env), "usermod");
	assert_null(probe_lacks("file:put", &env));
	assert_null(probe_lacks("tree:checkout", &env));
}

/* From now on this process, and what it starts, can mount nothing and enters no new namespace. */
static void
forbid_mounts(void)
{
#define DENY(call)                                         \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), \
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
	struct sock_filter rules[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    DENY(SYS_mount),
	    DENY(SYS_fsopen),
	    DENY(SYS_fsmount),
	    DENY(SYS_unshare),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* VERB-4: a verb is no program of somebody's: it needs no sandbox, so no overlay of files either.
 * (The last test: what is forbidden stays so.) */
static void
verbs_need_no_overlay(void **state)
{
	static struct ask a;

	(void)state;
	forbid_mounts();
	assert_int_equal(mount("none", "/mnt", "overlay", 0, "lowerdir=/usr"), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(unshare(CLONE_NEWNS), -1);
	act(&a, "file:put", at("f"), "text\n", 1, 0);
	act(&a, "file:put", at("f"), "text\n", 0, 0);
	assert_string_equal(content(at("f")), "text\n");
	recorded_stand_in(env.usermod, "exit 0");
	act(&a, "user:lock", "daemon", NULL, 0, 0);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, recorded_set_up, recorded_tear_down)
	const struct CMUnitTest tests[] = {
	    CASE(a_file_is_put_whole),
	    CASE(changes_are_counted),
	    CASE(links_lead_nowhere),
	    CASE(paths_have_one_form),
	    CASE(bastions_own_is_out_of_reach),
	    CASE(a_file_is_moved_onto_nothing),
	    CASE(a_service_is_restarted),
	    CASE(words_have_one_form),
	    CASE(a_tree_is_checked_out),
	    CASE(a_fault_is_no_absence),
	    CASE(a_package_is_planned_then_installed),
	    CASE(an_account_is_locked),
	    CASE(a_container_gets_another_image),
	    cmocka_unit_test(images_have_one_form),
	    CASE(passwords_of_registries_are_roots),
	    cmocka_unit_test(a_pin_has_its_places_alone),
	    CASE(verbs_are_probed),
	    CASE(verbs_need_no_overlay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
