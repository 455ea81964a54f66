/* test_tool_grant.c: what a person always allows or denies a tool, and the verbs that keep it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pwd.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/policy/policy.h"
#include "engine/policy/tool_grant.h"
#include "tests/program.h"
#include "tests/slower.h"

static struct scratch s;
static struct policy_answer a;

#define RUN(p, ...) program_run(p, &s, NULL, (const char *const[]){__VA_ARGS__, NULL})

static int
make(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	clock_fix(-1);
	scratch_drop(&s);
	return 0;
}

static int
try(const char *tool, const char *path, const char *kind, const char *decision, const char *max)
{
	struct tool_grant_terms terms = {tool, path, kind, decision, max, NULL};
	int64_t id;

	return tool_grant_give(s.db, &terms, "/repo", &id);
}

static void
give(const char *tool, const char *path, const char *kind, const char *decision, const char *max)
{
	assert_int_equal(try(tool, path, kind, decision, max), 0);
}

static void
refused(const char *code)
{
	assert_string_equal(store_refusal(s.db)->code, code);
}

static int64_t
take_back(const char *tool, const char *path)
{
	int64_t count;

	assert_int_equal(tool_grant_revoke(s.db, tool, path, "/repo", &count), 0);
	return count;
}

/* Judge a write of ${tool} with the arguments ${args}; return "allow", "deny" or "prompt". */
static const char *
judge(const char *tool, const char *autonomy, const char *args)
{
	char ask[1024];

	snprintf(ask, sizeof(ask),
	    "{\"tool\":\"%s\",\"side_effect\":\"none\",\"autonomy\":\"%s\",\"args\":%s}", tool,
	    autonomy, args);
	assert_int_equal(store_begin(s.db), 0);
	if (policy_judge(s.db, NULL, ask, strlen(ask), &a) != 0)
		fail_msg("%s: %s", ask, store_refusal(s.db)->why);
	assert_int_equal(store_commit(s.db), 0);
	return a.action;
}

#define IS(action, tool, args) assert_string_equal(judge(tool, "low", args), action)
#define PATH(p)                "{\"path\":\"" p "\"}"

/* Relative paths have no workspace in these asks: the lists must not hold them back. */
static void
unbound(void)
{
	assert_int_equal(policy_set(s.db, "enforce_workspace", false, "0"), 0);
}

/* SGR-01: grants are kept, looked up by autonomy, revoked and cleared; their time is the clock's.
 */
static void
grants_are_kept(void **state)
{
	char text[64];

	(void)state;
	clock_fix(1800000000000);
	give("write_file", NULL, NULL, "allow", "medium");
	give("bash", NULL, NULL, "deny", NULL);
	scratch_open(&s, ROLE_PERSON);
	assert_string_equal(scratch_text(&s,
				"SELECT group_concat(tool) FROM"
				" (SELECT tool FROM live_tool_grants ORDER BY tool)",
				text, sizeof(text)),
	    "bash,write_file");
	assert_int_equal(scratch_value(&s, "SELECT approved_at FROM tool_grant"), 1800000000000);
	IS("allow", "write_file", "{}");
	assert_string_equal(judge("write_file", "high", "{}"), "prompt");
	assert_int_equal(take_back("write_file", NULL), 1);
	assert_int_equal(take_back("write_file", NULL), 0);
	assert_int_equal(take_back(NULL, NULL), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_tool_grants"), 0);
	IS("prompt", "bash", "{}");
}

/* SGR-02, SGR-12: names and terms that are none; blanks around a name are none of it. */
static void
terms_are_checked(void **state)
{
	(void)state;
	assert_int_equal(try("", NULL, NULL, "allow", NULL), -1);
	refused("tool_grant.tool");
	assert_int_equal(try("../escape", NULL, NULL, "allow", NULL), -1);
	refused("tool_grant.tool");
	assert_int_equal(try("x", NULL, NULL, "maybe", NULL), -1);
	refused("tool_grant.terms");
	assert_int_equal(try("x", NULL, NULL, "allow", "root"), -1);
	refused("tool_grant.terms");
	assert_int_equal(try("x", "", NULL, "allow", NULL), -1);
	refused("tool_grant.path");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tool_grant"), 0);
	give("  bash ", NULL, NULL, "deny", NULL);
	IS("deny", "bash", "{}");
	IS("deny", " bash  ", "{}");
	assert_int_equal(take_back(" bash", NULL), 1);
}

/* SGR-05 SGR-06 SGR-07 SGR-08 SGR-09 SGR-10 SGR-15: what covers what, and what goes first. */
static void
coverage(void **state)
{
	(void)state;
	unbound();
	give("w", "src/main.go", "file", "allow", NULL);
	IS("allow", "w", PATH("/repo/src/main.go"));
	IS("prompt", "w", PATH("/repo/src/other.go"));
	IS("prompt", "w", PATH("/repo/src/main.go/x"));
	IS("prompt", "w", "{}");
	IS("prompt", "v", PATH("/repo/src/main.go"));
	give("w", "src", "dir", "allow", NULL);
	IS("allow", "w", PATH("/repo/src/a/b"));
	IS("allow", "w", PATH("/repo/src"));
	IS("prompt", "w", PATH("/repo/srcfoo"));
	IS("prompt", "w", PATH("/repo"));
	IS("prompt", "w", PATH("/repo/src/../x"));
	IS("prompt", "w", "{}");
	/* The file goes before its directory, and both before the tool. */
	IS("allow", "w", PATH("/repo/src/main.go"));
	assert_int_equal(a.grant_id, 1);
	give("w", NULL, NULL, "allow", NULL);
	IS("allow", "w", PATH("/repo/src/x"));
	assert_int_equal(a.grant_id, 2);
	IS("allow", "w", "{}");
	assert_int_equal(a.grant_id, 3);
	give("w", "secrets", "dir", "deny", NULL);
	IS("deny", "w", PATH("/repo/secrets/x"));
	IS("allow", "w", PATH("/repo/other"));
	/* The same again takes its place. */
	give("w", "src/main.go", "file", "deny", NULL);
	IS("deny", "w", PATH("/repo/src/main.go"));
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM tool_grant WHERE state = 'replaced'"), 1);
	assert_int_equal(take_back("w", "/repo/src/nothing"), 0);
	assert_int_equal(take_back("w", "src/main.go"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_tool_grants"), 3);
}

/* SGR-13: which argument names the path, and when it names the tool. */
static void
scopes_from_arguments(void **state)
{
	static const struct {
		const char *args, *path;
	} rows[] = {
	    {"{\"path\":\"/r/a\"}", "/r/a"},
	    {"{\"file\":\"/r/a\"}", "/r/a"},
	    {"{\"file_path\":\"/r/a\"}", "/r/a"},
	    {"{\"directory\":\"/r/d\"}", "/r/d"},
	    {"{\"dir\":\"/r/d\"}", "/r/d"},
	    {"{\"cwd\":\"/r/d/\"}", "/r/d"},
	    {"{\"cwd\":\"/r/d\",\"path\":\"/r/./a//b/..\"}", "/r/a"},
	    {"{\"path\":\".\"}", ""},
	    {"{\"path\":\"./\"}", ""},
	    {"{\"path\":\"./.\"}", ""},
	    {"{\"path\":\"a/..\"}", ""},
	    {"{\"path\":\"  \"}", ""},
	    {"{\"path\":7}", ""},
	    {"{}", ""},
	};
	char text[256];
	size_t i;

	(void)state;
	unbound();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		judge("t", "low", rows[i].args);
		assert_string_equal(scratch_text(&s, "SELECT path FROM decision ORDER BY id DESC",
					text, sizeof(text)),
		    rows[i].path);
	}
}

/* SGR-14: where a grant is kept. */
static void
scopes_are_absolute(void **state)
{
	char out[PLACE_MAX];

	(void)state;
	assert_int_equal(tool_grant_scope("/repo", "src/main.go", out), 0);
	assert_string_equal(out, "/repo/src/main.go");
	assert_int_equal(tool_grant_scope("/other", "src/main.go", out), 0);
	assert_string_equal(out, "/other/src/main.go");
	assert_int_equal(tool_grant_scope("/repo", "./src//main.go", out), 0);
	assert_string_equal(out, "/repo/src/main.go");
	assert_int_equal(tool_grant_scope("/repo", "/abs/x", out), 0);
	assert_string_equal(out, "/abs/x");
	assert_int_equal(tool_grant_scope("/repo", "", out), -1);
}

/* What another tool does: take the guard down, edit, put it back as it was. */
static void
edited(const char *edit)
{
	char sql[4096], path[2 * PLACE_MAX];
	sqlite3 *raw;

	scratch_text(
	    &s, "SELECT sql FROM sqlite_schema WHERE name = 'tool_grant_moves'", sql, sizeof(sql));
	store_close(s.db);
	s.db = NULL;
	snprintf(path, sizeof(path), "%s/bastion.db", s.home.state);
	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(raw, "DROP TRIGGER tool_grant_moves", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, edit, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_changes(raw), 1);
	assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
	scratch_open(&s, ROLE_PERSON);
}

/* An allow that another tool made or edited holds nothing; a deny holds whatever was done to it. */
static void
edited_grants_allow_nothing(void **state)
{
	(void)state;
	scratch_refused(&s, "tool_grant.seal",
	    "INSERT INTO tool_grant (tool, scope_kind, scope, decision, max_autonomy, reason,"
	    " approved_at, seal) VALUES ('x', '', '', 'allow', 'high', '', 1, zeroblob(64))");
	give("w", NULL, NULL, "allow", "low");
	IS("allow", "w", "{}");
	scratch_refused(&s, "tool_grant.fixed",
	    "UPDATE tool_grant SET max_autonomy = 'high', state = "
	    "'revoked', ended_at = 1");
	scratch_refused(&s, "tool_grant.final", "UPDATE tool_grant SET tool = 'x'");
	scratch_refused(&s, "tool_grant.kept", "DELETE FROM tool_grant");
	edited("UPDATE tool_grant SET tool = 'bash'");
	IS("prompt", "bash", "{}");
	edited("UPDATE tool_grant SET tool = 'w', max_autonomy = 'high'");
	IS("prompt", "w", "{}");
	edited("UPDATE tool_grant SET max_autonomy = 'low'");
	IS("allow", "w", "{}");
	give("w", NULL, NULL, "deny", "low");
	edited("UPDATE tool_grant SET seal = zeroblob(64) WHERE decision = 'deny'");
	IS("deny", "w", "{}");
}

/* A copy brings back no allow that was revoked since, and loses no deny. */
static void
an_allow_does_not_come_back_with_a_restore(void **state)
{
	(void)state;
	give("w", NULL, NULL, "allow", "low");
	give("v", NULL, NULL, "deny", "low");
	assert_int_equal(
	    scratch_sql(&s,
		"INSERT INTO restore (restored_at, seq, head, keep_grants, keep_factors)"
		" SELECT now_ms(), seq, hash, 1, 1 FROM audit ORDER BY seq DESC LIMIT 1"),
	    0);
	IS("prompt", "w", "{}");
	IS("deny", "v", "{}");
}

static void
has(const char *text, const char *what)
{
	if (strstr(text, what) == NULL)
		fail_msg("no \"%s\" in: %s", what, text);
}

/* SC-01 SC-02 SC-03, SGR-04: the verb. */
static void
the_verb_of_grants(void **state)
{
	struct program p;

	(void)state;
	RUN(&p, "sandbox", "grants");
	assert_int_equal(p.code, 0);
	has(p.out, "No tool is always allowed");
	program_free(&p);
	RUN(&p, "sandbox", "grants", "allow", "write_file", "--auto", "medium", "--reason", "docs",
	    "--json");
	assert_int_equal(p.code, 0);
	has(p.out, "\"tool\":\"write_file\"");
	has(p.out, "\"up_to\":\"medium\"");
	program_free(&p);
	RUN(&p, "sandbox", "grants", "deny", "bash", "--auto=high", "--reason=no");
	assert_int_equal(p.code, 0);
	has(p.out, "bash");
	has(p.out, "deny");
	program_free(&p);
	RUN(&p, "sandbox", "grants", "--json");
	assert_true(strstr(p.out, "\"bash\"") < strstr(p.out, "\"write_file\""));
	program_free(&p);
	RUN(&p, "sandbox", "grants", "ls");
	has(p.out, "docs");
	has(p.out, "medium");
	has(p.out, "*");
	program_free(&p);
	RUN(&p, "sandbox", "grants", "revoke", "bash", "--json");
	assert_string_equal(p.out, "{\"revoked\":1}\n");
	program_free(&p);
	RUN(&p, "sandbox", "grants", "allow", "write_file", "--path", "/srv/a");
	assert_int_equal(p.code, 0);
	program_free(&p);
	RUN(&p, "sandbox", "grants", "allow", "write_file", "--path", "");
	assert_int_equal(p.code, 2);
	has(p.err, "path");
	program_free(&p);
	RUN(&p, "sandbox", "grants", "revoke", "write_file", "--path=");
	assert_int_equal(p.code, 2);
	has(p.err, "path");
	program_free(&p);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_tool_grants"), 2);
	RUN(&p, "sandbox", "grants", "revoke", "write_file", "--path", "/srv/a", "--json");
	assert_string_equal(p.out, "{\"revoked\":1}\n");
	program_free(&p);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM live_tool_grants WHERE scope = ''"), 1);
	RUN(&p, "sandbox", "grants", "clear", "--json");
	assert_int_equal(p.code, 2);
	has(p.err, "--confirm");
	program_free(&p);
	RUN(&p, "sandbox", "grants", "clear", "--confirm", "--json");
	assert_string_equal(p.out, "{\"cleared\":1}\n");
	program_free(&p);
}

/* SC-05 SC-06 SC-08: what the policy comes to. */
static void
the_verb_of_the_policy(void **state)
{
	char path[128], real[PLACE_MAX];
	struct program p;

	(void)state;
	RUN(&p, "sandbox", "policy", "--effective", "--workspace", s.dir);
	assert_int_equal(p.code, 0);
	has(p.out, "mode                       enforce");
	has(p.out, "network                    deny");
	has(p.out, "network_guard              enabled");
	assert_true(strstr(p.out, "enforce_workspace") < strstr(p.out, "write_roots"));
	assert_null(strstr(p.out, "write_roots_error"));
	program_free(&p);
	snprintf(path, sizeof(path), "%s/extra", s.dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(place_directory(path, real));
	snprintf(path, sizeof(path), "%s/named", s.dir);
	assert_int_equal(symlink("extra", path), 0);
	RUN(&p, "sandbox", "policy", "add", "write_root", path);
	assert_int_equal(p.code, 0);
	program_free(&p);
	RUN(&p, "sandbox", "policy", "--effective", "--workspace", "/var", "--json");
	assert_int_equal(p.code, 0);
	has(p.out, real);
	program_free(&p);
	assert_int_equal(unlink(path), 0);
	RUN(&p, "sandbox", "policy", "--effective", "--workspace", "/var", "--json");
	assert_int_equal(p.code, 0);
	has(p.out, "write_roots_error");
	has(p.out, path);
	has(p.out, "\"write_roots\",\"value\":\"/var\"");
	program_free(&p);
	RUN(&p, "sandbox", "policy", "set", "max_autonomy", "MEDIUM", "--config");
	assert_int_equal(p.code, 0);
	program_free(&p);
	RUN(&p, "sandbox", "policy", "--json");
	has(p.out, "{\"name\":\"max_autonomy\",\"value\":\"medium\",\"source\":\"config\"");
	program_free(&p);
	RUN(&p, "sandbox", "policy", "set", "network", "perhaps");
	assert_int_equal(p.code, 2);
	program_free(&p);
	RUN(&p, "sandbox", "policy", "add", "deny_read", "relative");
	assert_int_equal(p.code, 2);
	program_free(&p);
	RUN(&p, "sandbox", "policy", "add", "banana", "/x");
	assert_int_equal(p.code, 2);
	program_free(&p);
}

/* Have a shell run ${command} on a machine that is ${poor}; return what it says. */
static const char *
on_a_machine(const char *poor, const char *command)
{
	static char said[16384];
	char line[4 * PLACE_MAX];
	size_t n;
	FILE *f;

	snprintf(line, sizeof(line),
	    "export BASTION_STATE=%s BASTION_RUN=%s HOME=%s; cd /var; unshare -Urm sh -ec '%s\n"
	    "PATH=$WAY exec \"$@\"' sh %s sandbox %s >%s/said 2>&1",
	    s.home.state, s.home.run, s.dir, poor, program_path(), command, s.dir);
	if (system(line) != 0)
		print_message("%s\n", line);
	snprintf(line, sizeof(line), "%s/said", s.dir);
	assert_non_null(f = fopen(line, "r"));
	n = fread(said, 1, sizeof(said) - 1, f);
	fclose(f);
	said[n] = '\0';
	return said;
}

static void
needs_other_machines(void)
{
	if (system("unshare -Urm sh -ec 'echo 0 >/proc/sys/user/max_user_namespaces;"
		   " mount --bind /proc/uptime /proc/version' 2>/dev/null") != 0) {
		print_message("no namespaces can be made here, or not changed\n");
		skip();
	}
}

#define NO_USERNS "echo 0 >/proc/sys/user/max_user_namespaces;"
#define FORBIDS   "the setting sandbox.unconfined forbids"

/*
 * BK-01: what confines programs here is said, without a warning. BK-05 BK-06 SC-04: so is that
 * nothing does: what is left are the guards of the policy, or not even these where it is switched
 * off.
 */
static void
the_truth_about_the_machine(void **state)
{
	static const char *const guards[] = {
	    "policy_evaluation", "destructive_shell_guard", "network_guard", "workspace_guard"};
	const char *said;
	char line[64], json[64];
	size_t i;

	(void)state;
	needs_other_machines();
	said = on_a_machine("WAY=$PATH", "policy --effective");
	has(said, "backend                    native\n");
	has(said, "backend_fallback           0\n");
	has(said, "support_level              native\n");
	has(said, "scoped_egress              native\n");
	has(said, "programs run in a sandbox: native\n");
	assert_null(strstr(said, "warning"));
	said = on_a_machine(NO_USERNS "WAY=/nowhere", "policy --effective --json");
	has(said, "\"mode\",\"value\":\"enforce\"");
	has(said, "\"write_roots\",\"value\":\"/var\"");
	has(said, "\"backend\",\"value\":\"none\"");
	has(said, "\"backend_fallback\",\"value\":\"1\"");
	has(said, "\"support_level\",\"value\":\"policy-only\"");
	has(said, "\"process_isolation\",\"value\":\"unavailable\"");
	has(said, "\"restriction\",\"value\":\"tools change nothing outside the write roots\"");
	has(said, "and nothing confines a program");
	has(said,
	    "\"warning\",\"value\":\"nothing confines a program here: neither user namespaces nor bwrap\"");
	has(said, FORBIDS);
	for (i = 0; i < 4; i++) {
		snprintf(json, sizeof(json), "\"%s\",\"value\":\"enabled\"", guards[i]);
		has(said, json);
	}
	has(on_a_machine(NO_USERNS "WAY=/nowhere", "explain --command true"),
	    "held by   nothing confines a program here");
	assert_int_equal(policy_set(s.db, "mode", false, "disabled"), 0);
	said = on_a_machine(NO_USERNS "WAY=/nowhere", "policy --effective");
	has(said, "process_isolation          unavailable\n");
	assert_null(strstr(said, "tools change nothing"));
	for (i = 0; i < 4; i++) {
		snprintf(line, sizeof(line), "%-27sdisabled\n", guards[i]);
		has(said, line);
	}
}

/* Write an executable file ${name} with ${text} in the scratch folder. */
static void
place(const char *name, const char *text)
{
	char path[2 * PLACE_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", s.dir, name);
	assert_non_null(f = fopen(path, "w"));
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, 0755), 0);
}

/*
 * Where domains are what programs are held to, it is said whether anything holds them: our own
 * sandbox does; bwrap does not, and is no backend where it makes no sandbox. WSL is named.
 */
static void
domains_need_a_backend(void **state)
{
	char way[2 * PLACE_MAX], wsl[3 * PLACE_MAX];
	const char *said;
	bool changed;

	(void)state;
	needs_other_machines();
	assert_int_equal(policy_set(s.db, "network", false, "scoped"), 0);
	assert_int_equal(policy_entry(s.db, "allow_domain", "example.com", true, &changed), 0);
	said = on_a_machine("WAY=$PATH", "policy --effective");
	has(said, "network                    scoped\n");
	assert_null(strstr(said, "warning"));
	place("bwrap", "#!/bin/sh\nexit 0\n");
	snprintf(way, sizeof(way), NO_USERNS "WAY=%s", s.dir);
	said = on_a_machine(way, "policy --effective");
	has(said, "backend                    bubblewrap\n");
	has(said, "support_level              native\n");
	has(said, "scoped_egress              unavailable\n");
	has(said, "network                    deny\n");
	has(said, "network_guard              enabled\n");
	has(said, "nothing here holds a program to domains");
	assert_null(strstr(said, FORBIDS));
	has(on_a_machine(way, "explain --command true"),
	    "held by   bubblewrap, which holds nothing to domains");
	place("bwrap", "#!/bin/sh\nexit 1\n");
	said = on_a_machine(way, "policy --effective");
	has(said, "backend                    none\n");
	has(said, "nor bwrap, which is there and makes no sandbox");
	place("version", "Linux version 5.15.90.1-microsoft-standard-WSL2 x\n");
	snprintf(wsl, sizeof(wsl), "mount --bind %s/version /proc/version;%s", s.dir, way);
	said = on_a_machine(wsl, "policy --effective");
	has(said, "backend                    wsl\n");
	has(said, "this is WSL 2");
}

/* Names of variables that something of ours asks for, and of such as other programs widen by. */
static size_t
variables(char names[][64], size_t max)
{
	static const char *const others[] = {"BASTION_SANDBOX_AUTO_ALLOW_SHELL",
	    "BASTION_SANDBOX_AUTO_ALLOW_BASH", "BASTION_SANDBOX_NETWORK", "BASTION_UNCONFINED",
	    "BASTION_SANDBOXED", "BASTION_SANDBOX_BACKEND", "BASTION_SANDBOX_RUN"};
	char line[3 * PLACE_MAX];
	size_t n = 0, i;
	FILE *f;

	snprintf(line, sizeof(line),
	    "grep -rhoE '(getenv|absolute|said)\\(\"[A-Z_]+\"|\"(BASTION|XDG)_[A-Z_]+' --include='*.c' shell"
	    " engine net | grep -oE '[A-Z][A-Z_]+' | sort -u >%s/names",
	    s.dir);
	assert_int_equal(system(line), 0);
	snprintf(line, sizeof(line), "%s/names", s.dir);
	assert_non_null(f = fopen(line, "r"));
	while (n < max && fscanf(f, "%63s", names[n]) == 1)
		/* Where the state is, and where programs are, is not what they widen. */
		if (strcmp(names[n], "BASTION_STATE") != 0 && strcmp(names[n], "BASTION_RUN") != 0)
			n++;
	fclose(f);
	assert_true(n > 15);
	for (i = 0; i < sizeof(others) / sizeof(others[0]) && n < max; i++)
		snprintf(names[n++], 64, "%s", others[i]);
	return n;
}

/* RF-12: whatever variables say, every decision is what it is without them, and so is the policy.
 */
static void
no_variable_widens(void **state)
{
	/* A switch that is on, or a place. */
	static const char *const values[] = {"1", "/"};
	const struct passwd *pw = getpwuid(geteuid());
	char home[PLACE_MAX + 64];
	const char *const commands[] = {home, "explain --json --command 'curl https://x.example'",
	    "explain --json --command 'echo x >/etc/passwd' --mode unsafe",
	    "policy --effective --json"};
	static char names[128][64], plain[4][16384];
	size_t n, i, j, k, at;
	char way[8192];
	bool changed;

	(void)state;
	needs_other_machines();
	if (access("shell/verb_run.c", R_OK) != 0) {
		print_message("skipped: the sources are not here\n");
		skip();
	}
	snprintf(home, sizeof(home), "explain --json --read %s/x", pw != NULL ? pw->pw_dir : s.dir);
	assert_int_equal(policy_entry(s.db, "deny_read", "~/.", true, &changed), 0);
	n = variables(names, 128);
	for (j = 0; j < 4; j++)
		snprintf(plain[j], sizeof(plain[j]), "%s", on_a_machine("WAY=$PATH", commands[j]));
	if (pw != NULL && access(pw->pw_dir, F_OK) == 0)
		has(plain[0], "\"code\":\"policy_denied\"");
	has(plain[1], "\"code\":\"network\"");
	for (k = 0; k < (SLOWER > 1 ? 1 : 2); k++) {
		at = (size_t)snprintf(way, sizeof(way), "WAY=$PATH;export");
		for (i = 0; i < n && at < sizeof(way); i++)
			if (strcmp(names[i], "PATH") != 0)
				at += (size_t)snprintf(
				    way + at, sizeof(way) - at, " %s=%s", names[i], values[k]);
		assert_true(at < sizeof(way));
		for (j = 0; j < 4; j++)
			assert_string_equal(on_a_machine(way, commands[j]), plain[j]);
	}
}

/* SC-07 SC-09: help needs no state; without one the policy is an error and nothing else. */
static void
help_opens_nothing(void **state)
{
	static const char *const help[][4] = {{"sandbox", "policy", "--help", NULL},
	    {"sandbox", "grants", "--help", NULL}, {"help", "sandbox", "explain", NULL}};
	char path[2 * PLACE_MAX], away[2 * PLACE_MAX];
	struct program p;
	size_t i;

	(void)state;
	snprintf(path, sizeof(path), "%s/bastion.db", s.home.state);
	snprintf(away, sizeof(away), "%s/away.db", s.home.state);
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(rename(path, away), 0);
	for (i = 0; i < 3; i++) {
		program_run(&p, &s, NULL, help[i]);
		assert_int_equal(p.code, 0);
		has(p.out, "usage: bastion sandbox");
		program_free(&p);
	}
	RUN(&p, "help", "sandbox", "policy");
	has(p.out, "--effective");
	program_free(&p);
	RUN(&p, "sandbox", "policy");
	assert_int_equal(p.code, 3);
	assert_string_equal(p.out, "");
	program_free(&p);
	assert_int_equal(rename(away, path), 0);
}

/* An explanation names each gate, and leaves nothing behind. */
static void
explanations_keep_nothing(void **state)
{
	struct program p;

	(void)state;
	RUN(&p, "sandbox", "explain", "--command", "sudo rm -rf /", "--mode", "unsafe");
	assert_int_equal(p.code, 0);
	has(p.out, "network      goes on");
	has(p.out, "destructive  deny");
	has(p.out, "so        deny destructive_command: ");
	has(p.out, "programs  sudo, rm");
	program_free(&p);
	RUN(&p, "sandbox", "explain", "--command", "git rebase -i", "--json");
	has(p.out, "\"waits_for\":\"git rebase -i\"");
	has(p.out, "\"gate\":\"risk\"");
	program_free(&p);
	program_run(&p, &s,
	    "{\"tool\":\"t\",\"side_effect\":\"write\",\"workspace\":\"/var\",\"args\":{\"path\":"
	    "\"/etc/passwd\"}}",
	    (const char *const[]){"sandbox", "explain", "-", NULL});
	has(p.out, "outside_workspace");
	program_free(&p);
	RUN(&p, "sandbox", "explain");
	assert_int_equal(p.code, 2);
	program_free(&p);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM decision"), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make, drop)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(grants_are_kept),
	    CASE(terms_are_checked),
	    CASE(coverage),
	    CASE(scopes_from_arguments),
	    CASE(scopes_are_absolute),
	    CASE(edited_grants_allow_nothing),
	    CASE(an_allow_does_not_come_back_with_a_restore),
	    CASE(the_verb_of_grants),
	    CASE(the_verb_of_the_policy),
	    CASE(the_truth_about_the_machine),
	    CASE(no_variable_widens),
	    CASE(domains_need_a_backend),
	    CASE(help_opens_nothing),
	    CASE(explanations_keep_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
