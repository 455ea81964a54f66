/* test_cli.c: options, durations, secrets, and how a verb says no. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/cli.h"
#include "tests/scratch.h"

static char said[4096]; /* on standard error since hear() */
static int kept = -1, file = -1;

static void
hear(void)
{
	fflush(stderr);
	assert_int_not_equal(kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10), -1);
	assert_int_not_equal(file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), -1);
	assert_int_not_equal(dup2(file, STDERR_FILENO), -1);
}

static void
heard(void)
{
	ssize_t n;

	fflush(stderr);
	assert_int_not_equal(dup2(kept, STDERR_FILENO), -1);
	close(kept);
	assert_true((n = pread(file, said, sizeof(said) - 1, 0)) >= 0);
	said[n] = '\0';
	close(file);
}

struct given {
	int uses;
	const char *file;
	int all;
	int64_t ms;
};

static int
take(void *ctx, int val, const char *arg)
{
	struct given *given = ctx;

	if (val == 'a')
		given->all++;
	if (val == 'f')
		given->file = arg;
	if (val == 't')
		return cli_duration(arg, &given->ms);
	if (val == 1000)
		given->uses = atoi(arg);
	return val == 1000 && given->uses == 0 ? -1 : 0;
}

static const struct option OPTIONS[] = {{"all", no_argument, NULL, 'a'},
    {"file", required_argument, NULL, 'f'}, {"uses", required_argument, NULL, 1000},
    {"time", required_argument, NULL, 't'}, {NULL, 0, NULL, 0}};

static char *words[16];
static int count;

/* Split ${line} at blanks, as a shell would. */
static void
type(const char *line)
{
	static char text[256];
	char *at;

	snprintf(text, sizeof(text), "%s", line);
	for (count = 0, at = strtok(text, " "); at != NULL; at = strtok(NULL, " "))
		words[count++] = at;
	words[count] = NULL;
}

static int
options(struct cli *cli, struct given *given, const char *line)
{
	memset(given, 0, sizeof(*given));
	memset(cli, 0, sizeof(*cli));
	cli->home.fd = -1;
	cli->verb = "test";
	type(line);
	return cli_options(cli, count, words, OPTIONS, take, given);
}

static void
options_and_words_mix(void **state)
{
	struct given given;
	struct cli cli;
	int first;

	(void)state;
	first = options(&cli, &given, "v one --all --uses 3 two -f x --json three");
	assert_int_equal(count - first, 3);
	assert_string_equal(words[first], "one");
	assert_string_equal(words[first + 1], "two");
	assert_string_equal(words[first + 2], "three");
	assert_int_equal(given.all, 1);
	assert_int_equal(given.uses, 3);
	assert_string_equal(given.file, "x");
	assert_int_equal(cli.mode, CLI_JSON);
	first = options(&cli, &given, "v --uses=4 -fy --csv");
	assert_int_equal(first, count);
	assert_int_equal(given.uses, 4);
	assert_string_equal(given.file, "y");
	assert_int_equal(cli.mode, CLI_CSV);
	first = options(&cli, &given, "v - -- --all -f");
	assert_int_equal(count - first, 3);
	assert_int_equal(given.all, 0);
	assert_string_equal(words[first], "-");
	assert_string_equal(words[first + 1], "--all");
}

/* RF-01: what is not understood is said, never dropped; beginnings of names are no names. */
static void
wrong_options_are_loud(void **state)
{
	static const char *const wrong[] = {"v --nope", "v --al", "v -x", "v --all=1",
	    "v word --uses", "v --uses zero", "v -ax", "v -f"};
	struct given given;
	struct cli cli;
	size_t i;
	int first;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		hear();
		first = options(&cli, &given, wrong[i]);
		heard();
		assert_int_equal(first, -1);
		assert_non_null(strstr(said, "bastion: test: "));
		assert_non_null(strstr(said, "[usage.wrong]"));
	}
}

/* A mistake is named as it was typed; what is an option is nobody's value. */
static void
a_wrong_value_is_named(void **state)
{
	static const struct {
		const char *line, *says;
	} wrong[] = {
	    {"v --uses zero", "--uses does not take \"zero\" [usage.wrong]"},
	    {"v --uses=zero", "--uses does not take \"zero\" [usage.wrong]"},
	    {"v -tx", "-t does not take \"x\": it takes 30s, 10m, 2h or 3d [usage.wrong]"},
	    {"v -t 3parsecs", "-t does not take \"3parsecs\": it takes 30s, 10m, 2h or 3d"},
	    {"v -t 2h --uses 0", "--uses does not take \"0\" [usage.wrong]"},
	    {"v -f", "-f needs a value"},
	    {"v --file -- word", "--file needs a value"},
	    {"v --file --all", "--file needs a value"},
	    {"v --file -a", "--file needs a value"},
	    {"v -f --uses=3", "-f needs a value"},
	    {"v -f --json", "-f needs a value"},
	    {"v -f --help", "-f needs a value"},
	    {"v --all=1", "--all takes no value"},
	};
	struct given given;
	struct cli cli;
	int first;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		hear();
		assert_int_equal(options(&cli, &given, wrong[i].line), -1);
		heard();
		if (strstr(said, wrong[i].says) == NULL)
			fail_msg("%s: %s", wrong[i].line, said);
	}
	first = options(&cli, &given, "v --file=--all -f -x");
	assert_int_equal(first, count);
	assert_string_equal(given.file, "-x");
	first = options(&cli, &given, "v -f -");
	assert_int_equal(first, count);
	assert_string_equal(given.file, "-");
	first = options(&cli, &given, "v --file=--all");
	assert_int_equal(first, count);
	assert_string_equal(given.file, "--all");
	assert_int_equal(given.all, 0);
}

static void
durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {{"90s", 90000}, {"15m", 900000}, {"2h", 7200000}, {"7d", 604800000},
	    {"30", 30000}, {"0", 0}};
	static const char *const bad[] = {"", "s", "-1s", "1w", "1.5h", "1h30m", " 1s", "0x10",
	    "1s ", "+1s", "9223372036854775807d", "99999999999999999999999"};
	int64_t ms;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(cli_duration(good[i].text, &ms), 0);
		assert_int_equal(ms, good[i].ms);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(cli_duration(bad[i], &ms), -1);
}

static int
secret_from(const char *input, size_t len, char *out, size_t size)
{
	int ends[2], before, n;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], input, len), (ssize_t)len);
	close(ends[1]);
	before = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	n = cli_secret("code: ", out, size);
	if (before != -1) {
		dup2(before, STDIN_FILENO);
		close(before);
	}
	return n;
}

static void
secrets_from_a_pipe(void **state)
{
	char out[8];

	(void)state;
	assert_int_equal(secret_from("123456\n", 7, out, sizeof(out)), 6);
	assert_string_equal(out, "123456");
	assert_int_equal(secret_from("123456\r\nnext", 12, out, sizeof(out)), 6);
	assert_int_equal(secret_from("123456", 6, out, sizeof(out)), 6);
	assert_int_equal(secret_from("\n", 1, out, sizeof(out)), 0);
	assert_int_equal(secret_from("", 0, out, sizeof(out)), -1);
	assert_int_equal(secret_from("12\0"
				     "3\n",
			     5, out, sizeof(out)),
	    -1);
	assert_int_equal(secret_from("12345678\n", 9, out, sizeof(out)), -1);
	assert_memory_equal(out, "\0\0\0\0\0\0\0\0", 8);
}

static int
refused(const char *code, const char *why, enum cli_mode mode, int64_t retry_at)
{
	struct cli cli = {.verb = "grants", .mode = mode, .home.fd = -1};
	int exit_code;

	refusal_set(&cli.refusal, code, "%s", why);
	cli.refusal.retry_at = retry_at;
	hear();
	exit_code = cli_refuse(&cli);
	heard();
	return exit_code;
}

/* Two lines for a person: what and why with the rule, and what to do; the exit code is the row's.
 */
static void
refusals_say_what_to_do(void **state)
{
	(void)state;
	assert_int_equal(
	    refused("grant.spent", "every use of this grant is spent", CLI_TABLE, 0), 126);
	assert_string_equal(said,
	    "bastion: grants: every use of this grant is spent [grant.spent]\n"
	    "         ask again, so that a person approves anew\n");
	assert_int_equal(refused("approval.needed", "a person", CLI_TABLE, 0), 77);
	assert_int_equal(refused("store.missing", "none", CLI_TABLE, 0), 3);
	assert_int_equal(refused("factor.throttled", "too many", CLI_TABLE, 1800000000000), 75);
	assert_non_null(strstr(said, "(again at 2027-01-15 08:00:00)"));
	assert_int_equal(refused("no.such", "x\033[2J", CLI_TABLE, 0), 1);
	assert_string_equal(said, "bastion: grants: x\\x1b[2J [no.such]\n");
}

static void
refusals_in_json(void **state)
{
	(void)state;
	assert_int_equal(refused("grant.spent", "say \"no\"", CLI_JSON, 0), 126);
	assert_string_equal(said, "{\"error\":{\"code\":\"grant.spent\",\"why\":\"say \\\"no\\\"\","
				  "\"advice\":\"ask again, so that a person approves anew\","
				  "\"retry_at\":null}}\n");
	refused("store.busy", "x", CLI_JSON, 1800000000123);
	assert_non_null(strstr(said, "\"retry_at\":\"2027-01-15T08:00:00.123Z\""));
}

/* The connection's own table counts where there is one, and the store's refusal where the verb has
 * none. */
static void
refusals_of_an_open_store(void **state)
{
	struct cli cli = {.verb = "settings", .mode = CLI_TABLE, .home.fd = -1};
	struct scratch s;
	int exit_code;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(scratch_sql(&s, "UPDATE refusal SET exit_code = 99 WHERE code = "
					 "'setting.fixed'"),
	    0);
	assert_int_equal(
	    home_at(&cli.home, s.home.state, s.home.run, HOME_BOX, false, &cli.refusal), 0);
	cli.db = store_open(&cli.home, ROLE_PERSON, NULL, &cli.refusal);
	assert_non_null(cli.db);
	assert_int_equal(store_begin(cli.db), 0);
	assert_int_equal(stmt_run(store_sql(cli.db, "UPDATE setting SET doc = '' WHERE name = "
						    "'op.live'")),
	    -1);
	hear();
	exit_code = cli_refuse(&cli);
	heard();
	assert_int_equal(exit_code, 99);
	assert_non_null(strstr(said, "only the value of a setting may change [setting.fixed]"));
	assert_null(cli.db);
	assert_int_equal(cli.home.fd, -1);
	scratch_drop(&s);
}

/* A person's connection has the key and says in the audit who acted. */
static void
a_person_acts_by_name(void **state)
{
	struct cli cli = {.verb = "pair", .home.fd = -1};
	char who[128], expected[32];
	struct scratch s;
	struct stmt *q;

	(void)state;
	scratch_make(&s, HOME_BOX);
	setenv("BASTION_STATE", s.home.state, 1);
	setenv("BASTION_RUN", s.home.run, 1);
	assert_int_equal(cli_open(&cli, ROLE_PERSON), 0);
	assert_non_null(cli.key);
	assert_non_null(q = store_sql(cli.db, "SELECT acting()"));
	assert_int_equal(stmt_step(q), 1);
	snprintf(who, sizeof(who), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	snprintf(expected, sizeof(expected), "(%u)", (unsigned)getuid());
	assert_int_equal(strncmp(who, "person:", 7), 0);
	assert_non_null(strstr(who, expected));
	cli_close(&cli);
	assert_null(cli.key);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(options_and_words_mix),
	    cmocka_unit_test(wrong_options_are_loud),
	    cmocka_unit_test(a_wrong_value_is_named),
	    cmocka_unit_test(durations),
	    cmocka_unit_test(secrets_from_a_pipe),
	    cmocka_unit_test(refusals_say_what_to_do),
	    cmocka_unit_test(refusals_in_json),
	    cmocka_unit_test(refusals_of_an_open_store),
	    cmocka_unit_test(a_person_acts_by_name),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
