/* test_ops.c: a person adds an op, a Host asks for it: looked at, applied, held, taken back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/driver.h"

#define PROGRAM                                                           \
	"echo \"building $1\"\ncat \"$2\" >page\nrm old\necho new >new\n" \
	"[ \"$1\" = two ] && exit 7\nexit 0\n"

static struct driver d;
static struct said said;
static char site[96], notes[96], program[96], manifest[96];

static void
says(const char *text)
{
	if (strstr(said.out, text) == NULL)
		fail_msg("does not say %s: %s%s", text, said.out, said.err);
}

static void
put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void
has(const char *name, const char *text)
{
	char path[160], is[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", site, name);
	assert_non_null(f = fopen(path, "r"));
	assert_true(fgets(is, sizeof(is), f) != NULL);
	fclose(f);
	assert_string_equal(is, text);
}

static void
add(const char *name, const char *members)
{
	char text[2048], code[8];

	snprintf(text, sizeof(text), "{\"name\":\"%s\",\"summary\":\"try it\",%s}", name, members);
	put(manifest, text);
	driver_does(&said, driver_code(&d, code), "op", "add", manifest, NULL);
}

/* The whole walk: added, asked for, approved, looked at, applied; and every word it says. */
static void
a_program_is_looked_at_and_applied(void **state)
{
	char members[1024];

	(void)state;
	put(program, PROGRAM);
	snprintf(members, sizeof(members),
	    "\"interpreter\":\"/bin/sh\",\"program\":\"%s\",\"reads\":[\"%s\"],\"writes\":[\"%s\"],"
	    "\"params\":[{\"name\":\"branch\",\"type\":\"string\",\"max\":8,\"doc\":\"what\"},"
	    "{\"name\":\"notes\",\"type\":\"string\",\"like\":\"/**\",\"doc\":\"from where\"}]",
	    program, notes, site);
	add("run:site", members);
	says("Added.");
	driver_does(&said, NULL, "op", "ls", "--json", NULL);
	says("\"holds\":\"yes\"");
	/* What it takes is said before a person is asked. */
	driver_refused(&said, 2, "op.args", NULL, "on", d.box, "--", "run:site", "-x", notes, NULL);
	driver_refused(&said, 2, "op.args", NULL, "on", d.box, "run:site", "one", NULL);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "run:site", "one", notes,
	    "--uses", "9", "--for", "1d", "--bounds", "{\"branch\":{\"in\":[\"one\",\"two\"]}}",
	    NULL);
	/* Who is asked looks first. */
	snprintf(members, sizeof(members), "%" PRId64, driver_question(&d));
	driver_does(&said, NULL, "approvals", "dry", members, "--json", NULL);
	says("building one");
	says("\"change\":\"deleted\"");
	has("old", "old\n");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run WHERE op = 'run:site'"), 0);
	put(program, "touch evil\n");
	driver_refused(&said, 3, "manifest.changed", NULL, "approvals", "dry", members, NULL);
	put(program, PROGRAM);
	driver_approve(&d, driver_question(&d));
	driver_refused(&said, 2, "op.dry", NULL, "approvals", "dry", members, NULL);
	driver_does(
	    &said, NULL, "on", d.box, "run:site", "one", notes, "--dry-run", "--json", NULL);
	says("building one");
	says("\"dry\":true");
	says("\"change\":\"deleted\"");
	says("\"applied\":0");
	has("old", "old\n");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use"), 0);
	driver_does(&said, NULL, "on", d.box, "run:site", "one", notes, "--json", NULL);
	says("\"applied\":3");
	has("page", "a note\n");
	has("new", "new\n");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM sandbox_run AS s JOIN program_run AS p"
		" ON p.sandbox_run_id = s.id WHERE s.applied = 3 AND s.state = 'ended'"),
	    1);
}

/* What ends with another code than 0 is half done: nothing of it is kept. */
static void
what_fails_is_not_applied(void **state)
{
	char path[160];

	(void)state;
	snprintf(path, sizeof(path), "%s/new", site);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/old", site);
	put(path, "old\n");
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "run:site", "two", notes, "--json", NULL), 7);
	says("\"applied\":0");
	has("old", "old\n");
	snprintf(path, sizeof(path), "%s/new", site);
	assert_int_equal(access(path, F_OK), -1);
	driver_refused(
	    &said, 126, "grant.args", NULL, "on", d.box, "run:site", "three", notes, NULL);
}

/* The policy of the machine is asked about every path, before anything starts. */
static void
the_policy_holds_a_program(void **state)
{
	(void)state;
	driver_does(&said, NULL, "sandbox", "policy", "add", "deny_write", site, NULL);
	assert_int_equal(driver_run(&said, NULL, "on", d.box, "run:site", "one", notes, "--dry-run",
			     "--json", NULL),
	    126);
	says("policy.held");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM decision_made WHERE tool = 'run.site'"
			     " AND action = 'deny' AND gate = 'paths'"),
	    1);
	driver_does(&said, NULL, "sandbox", "policy", "remove", "deny_write", site, NULL);
	driver_does(
	    &said, NULL, "on", d.box, "run:site", "one", notes, "--dry-run", "--json", NULL);
}

/* What another tool does to the Host's database while it is served. */
static void
spoil(const char *sql)
{
	char path[128];
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s/bastion.db", d.state[DRIVER_HOST]);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_busy_timeout(db, DRIVER_WAIT_MS), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s", sqlite3_errmsg(db));
	sqlite3_close(db);
}

/* An answer that the Host's database does not take, by whatever error of a trigger, is the end of
 * the ask all the same, and whoever waits is told. */
static void
an_answer_that_is_not_taken_ends_the_ask(void **state)
{
	const char *const words[] = {
	    "on", d.box, "run:site", "one", notes, "--dry-run", "--json", NULL};
	pid_t worker = driver_actor(&d, DRIVER_BOX, "worker");
	struct job job;

	(void)state;
	assert_int_equal(kill(worker, SIGSTOP), 0);
	driver_start(&job, NULL, words);
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM call WHERE state = 'sent'");
	spoil("CREATE TRIGGER spoiled AFTER UPDATE OF state ON call WHEN NEW.state = 'done'"
	      " BEGIN SELECT abs(-9223372036854775807 - 1); END");
	assert_int_equal(kill(worker, SIGCONT), 0);
	assert_int_not_equal(driver_finish(&job, &said), 0);
	spoil("DROP TRIGGER spoiled");
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM call WHERE state = 'failed' AND code IS NOT NULL"
			     " AND why LIKE '%%integer overflow%%'"),
	    1);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM call WHERE finished_at IS NULL"),
	    0);
	driver_does(
	    &said, NULL, "on", d.box, "run:site", "one", notes, "--dry-run", "--json", NULL);
}

/* SEAL-1: a program, or a row, that is not what was signed runs nothing. */
static void
only_what_was_signed_runs(void **state)
{
	char was[256];
	FILE *f;

	(void)state;
	assert_non_null(f = fopen(program, "r"));
	was[fread(was, 1, sizeof(was) - 1, f)] = '\0';
	fclose(f);
	put(program, "touch evil\n");
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "run:site", "one", notes, "--json", NULL), 126);
	says("manifest.changed");
	put(program, was);
}

/* Whoever asked takes it back: what runs is ended at the box, and nothing of it is applied. */
static void
a_run_is_taken_back(void **state)
{
	char members[512], path[160];
	struct job job;
	const char *words[] = {"on", d.box, "run:slow", "--wait", NULL};
	int64_t id;

	(void)state;
	put(program, "echo half >slow\necho begun\nsleep 600\n");
	snprintf(members, sizeof(members),
	    "\"interpreter\":\"/bin/sh\",\"program\":\"%s\",\"writes\":[\"%s\"]", program, site);
	add("run:slow", members);
	driver_grant(&d, "run:slow", NULL, NULL, "3", "1d");
	driver_start(&job, NULL, words);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM op_output AS o JOIN op_run AS r ON r.id = o.op_run_id"
	    " WHERE r.op = 'run:slow' AND r.state = 'running' AND o.frame LIKE '%%begun%%'");
	id = driver_value(&d, DRIVER_BOX, "SELECT max(id) FROM op_run");
	assert_int_equal(kill(job.pid, SIGINT), 0);
	driver_finish(&job, &said);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT state = 'cancelled' AND exit_code IS NULL FROM op_run WHERE id = %" PRId64, id);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_sandboxes");
	snprintf(path, sizeof(path), "%s/slow", site);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM audit WHERE entity = 'op_run' AND action = 'cancel'"),
	    1);
	/* A worker that dies takes its programs along: they read as lost, never as done. */
	driver_start(&job, NULL, words);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM op_output AS o JOIN op_run AS r ON r.id = o.op_run_id"
	    " WHERE r.op = 'run:slow' AND r.state = 'running' AND o.frame LIKE '%%begun%%'");
	driver_kill(&d, DRIVER_BOX, "worker");
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT state = 'lost' FROM op_run WHERE id = (SELECT max(id) FROM op_run)");
	driver_finish(&job, &said);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_sandboxes");
	assert_int_equal(access(path, F_OK), -1);
}

/* While it runs somebody puts a link in the place of a folder on the way to what it may change: its
 * changes are made in the folder that had the name when it began. */
static void
the_folder_that_was_named_is_changed(void **state)
{
	char members[640], path[160];
	struct job job;
	const char *words[] = {"on", d.box, "run:swapped", "--wait", "--json", NULL};

	(void)state;
	snprintf(members, sizeof(members), "mkdir -p %s/app/bin %s/other/bin", site, site);
	assert_int_equal(system(members), 0);
	snprintf(members, sizeof(members),
	    "echo begun\nuntil [ -e %s/app/go ]; do sleep 0.05; done\necho new >tool\n", site);
	put(program, members);
	snprintf(members, sizeof(members),
	    "\"interpreter\":\"/bin/sh\",\"program\":\"%s\",\"reads\":[\"%s/app\"],"
	    "\"writes\":[\"%s/app/bin\"]",
	    program, site, site);
	add("run:swapped", members);
	driver_grant(&d, "run:swapped", NULL, NULL, "2", "1d");
	driver_start(&job, NULL, words);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM op_output AS o JOIN op_run AS r ON r.id = o.op_run_id"
	    " WHERE r.op = 'run:swapped' AND o.frame LIKE '%%begun%%'");
	snprintf(members, sizeof(members),
	    "cd %s && mv app app2 && ln -s other app && echo >app2/go", site);
	assert_int_equal(system(members), 0);
	assert_int_equal(driver_finish(&job, &said), 0);
	says("\"applied\":1");
	has("app2/bin/tool", "new\n");
	snprintf(path, sizeof(path), "%s/other/bin/tool", site);
	assert_int_equal(access(path, F_OK), -1);
	/* A link on the way when it begins is refused. */
	assert_int_not_equal(
	    driver_run(&said, NULL, "on", d.box, "run:swapped", "--json", NULL), 0);
	says("sandbox.plan");
	driver_does(&said, NULL, "op", "rm", "run:swapped", NULL);
	driver_until(&d, DRIVER_HOST, 0, "SELECT count(*) FROM box_op WHERE op = 'run:swapped'");
}

/* An op that reads a folder around what is bastion's sees none of it, also not what other users
 * reach. */
static void
a_program_sees_nothing_of_bastion(void **state)
{
	char members[640];

	(void)state;
	snprintf(members, sizeof(members), "test -S %s-ask/ask.sock", d.run[DRIVER_BOX]);
	assert_int_equal(system(members), 0);
	snprintf(members, sizeof(members),
	    "cd %s && ls -d *box* && ls -A %s %s %s-ask && echo end\n", d.dir, d.state[DRIVER_BOX],
	    d.run[DRIVER_BOX], d.run[DRIVER_BOX]);
	put(program, members);
	snprintf(members, sizeof(members),
	    "\"interpreter\":\"/bin/sh\",\"program\":\"%s\",\"reads\":[\"%s\"]", program, d.dir);
	add("run:around", members);
	driver_grant(&d, "run:around", NULL, NULL, "1", "1d");
	driver_does(&said, NULL, "on", d.box, "run:around", NULL);
	says("-run-ask");
	says("end");
	assert_null(strstr(said.out, ".sock"));
	assert_null(strstr(said.out, "bastion.db"));
	driver_does(&said, NULL, "op", "rm", "run:around", NULL);
	driver_until(&d, DRIVER_HOST, 0, "SELECT count(*) FROM box_op WHERE op = 'run:around'");
}

/* VERB-4: an op that is its verbs needs no program and no sandbox; each verb looks, then does. */
static void
an_op_is_its_verbs(void **state)
{
	char members[1024], from[160], to[160];

	(void)state;
	snprintf(from, sizeof(from), "%s/old", site);
	snprintf(to, sizeof(to), "%s/moved", site);
	snprintf(members, sizeof(members),
	    "\"interpreter\":\"none\",\"params\":[{\"name\":\"text\",\"type\":\"string\",\"doc\":\"d\"}],"
	    "\"verbs\":[[\"file:put\",\"%s/put\",\"$text\"],[\"file:move\",\"%s\",\"%s\"]]",
	    site, from, to);
	add("run:verbs", members);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "run:verbs", "hello",
	    "--uses", "3", "--for", "1d", NULL);
	snprintf(members, sizeof(members), "%" PRId64, driver_question(&d));
	driver_does(&said, NULL, "approvals", "dry", members, NULL);
	says("\"dry\":true,");
	says("/moved\"");
	assert_int_equal(access(to, F_OK), -1);
	driver_approve(&d, driver_question(&d));
	driver_does(&said, NULL, "on", d.box, "run:verbs", "hello", "--dry-run", "--json", NULL);
	says("\"verbs\":[{\"path\"");
	assert_int_equal(access(to, F_OK), -1);
	driver_does(&said, NULL, "on", d.box, "run:verbs", "hello", "--json", NULL);
	assert_int_equal(access(to, F_OK), 0);
	has("put", "hello");
	/* The second has nothing to move any more: the first is done, and said. */
	assert_int_not_equal(
	    driver_run(&said, NULL, "on", d.box, "run:verbs", "hello", "--json", NULL), 0);
	says("\"changed\":false");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM program_run AS p JOIN op_run AS r"
			     " ON r.id = p.op_run_id WHERE r.op = 'run:verbs'"
			     " AND p.sandbox_run_id IS NULL"),
	    3);
}

/* Its Host learns what was added, and says so to whoever asks; what is taken back is gone there. */
static void
a_host_knows_what_was_added(void **state)
{
	(void)state;
	driver_until(&d, DRIVER_HOST, 2, "SELECT count(*) FROM box_op WHERE op <> 'run:slow'");
	driver_does(&said, NULL, "host", "ops", d.box, "--json", NULL);
	says("\"op\":\"run:site\",\"usage\":\"BRANCH NOTES\",\"class\":\"action\",\"added\":1");
	says("\"op\":\"observe:load\"");
	driver_refused(&said, 2, "box.gone", NULL, "host", "ops", "nowhere", NULL);
	driver_does(&said, NULL, "on", d.box, "op:list", "--json", NULL);
	says("run:verbs");
	driver_does(&said, NULL, "op", "rm", "run:verbs", NULL);
	driver_until(&d, DRIVER_HOST, 0, "SELECT count(*) FROM box_op WHERE op = 'run:verbs'");
	driver_refused(&said, 2, "op.unknown", NULL, "on", d.box, "run:verbs", "hello", NULL);
}

/* What the box writes to the system log, in the form of its rows. */
static int64_t
logged(const char *text)
{
	return driver_value(&d, DRIVER_BOX,
	    "SELECT count(*) FROM audit_log_line WHERE instr(line, '%s') > 0", text);
}

/* A command as root: approved in its exact words, capped, judged by the policy, and out of the
 * system log. */
static void
a_command_runs_as_root(void **state)
{
	static const char command[] = "umask; id -u; ulimit -c; cat /proc/self/cgroup";

	(void)state;
	if (geteuid() != 0) {
		driver_refused(
		    &said, 3, "root.authority", NULL, "on", d.box, "root:exec", command, NULL);
		skip();
	}
	driver_refused(&said, 2, "root.exact", NULL, "on", d.box, "root:exec", command, "--bounds",
	    "{\"command\":{\"like\":\"**\"}}", NULL);
	driver_refused(&said, 126, "approval.ttl", NULL, "on", d.box, "root:exec", command, "--for",
	    "31d", NULL);
	driver_grant(&d, "root:exec", command, NULL, "2", "1d");
	driver_does(&said, NULL, "on", d.box, "root:exec", command, "--json", NULL);
	says("0\\n");
	says("\"tasks_capped\":");
	/* With a word more it is another command. */
	driver_refused(&said, 126, "grant.args", NULL, "on", d.box, "root:exec",
	    "umask; id -u; ulimit -c; cat /proc/self/cgroup;", NULL);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM decision_made WHERE tool = 'root.exec' AND action = 'allow'"
		" AND gate = 'answered'"),
	    1);
	driver_does(&said, NULL, "sandbox", "grants", "deny", "root.exec", NULL);
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "root:exec", command, "--json", NULL), 126);
	says("policy.held");
	assert_int_equal(logged("umask"), 0);
	assert_true(logged("command_sha256") >= 2);
}

static int
begin(void **state)
{
	char path[160];

	(void)state;
	driver_make(&d);
	driver_first_day(&d);
	driver_does(&said, NULL, "settings", "set", "factor.steps", "10", NULL);
	snprintf(site, sizeof(site), "%s/site", d.dir);
	snprintf(notes, sizeof(notes), "%s/notes", d.dir);
	snprintf(program, sizeof(program), "%s/program", d.dir);
	snprintf(manifest, sizeof(manifest), "%s/manifest", d.dir);
	assert_int_equal(mkdir(site, 0755), 0);
	snprintf(path, sizeof(path), "%s/old", site);
	put(path, "old\n");
	put(notes, "a note\n");
	return 0;
}

static int
end(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_program_is_looked_at_and_applied),
	    cmocka_unit_test(what_fails_is_not_applied),
	    cmocka_unit_test(the_policy_holds_a_program),
	    cmocka_unit_test(an_answer_that_is_not_taken_ends_the_ask),
	    cmocka_unit_test(only_what_was_signed_runs),
	    cmocka_unit_test(the_folder_that_was_named_is_changed),
	    cmocka_unit_test(a_program_sees_nothing_of_bastion),
	    cmocka_unit_test(an_op_is_its_verbs),
	    cmocka_unit_test(a_host_knows_what_was_added),
	    cmocka_unit_test(a_run_is_taken_back),
	    cmocka_unit_test(a_command_runs_as_root),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
