/* test_logins.c: attempts and logins out of lines that strangers had a hand in. */
#include "tests/worker/recorded.h"

#include <sys/wait.h>

#include <ctype.h>

#include "engine/worker/sshd.h"

static struct ask a;

static void
ask_logins(const char *hours)
{
	const char *const words[] = {hours, NULL};

	free(a.frames);
	ask_run(&a, "observe:logins", words, &limits, &env);
}

static enum sshd_kind
parse(const char *message, struct sshd_line *l)
{
	char line[1024];

	snprintf(line, sizeof(line), "2026-11-29T10:00:00+0000 box sshd[7]: %s", message);
	return sshd_parse(line, strlen(line), l);
}

/* OB-4: the recording: sums agree, sources are addresses or names, no line comes back. */
static void
the_recording(void **state)
{
	(void)state;
	ask_logins(NULL);
	assert_int_equal(a.code, OBSERVE_DONE);
	/* 2 admin, 1 oracle, 2 root by connection, 3 by address or name, 6 odd names. */
	assert_int_equal(ask_int(a.result, "$.failed"), 14);
	assert_int_equal(ask_int(a.result, "$.accepted"), 2);
	assert_int_equal(ask_int(a.result, "$.unclear"), 2);
	assert_int_equal(ask_int(a.result, "$.hours"), 24);
	ask_is(a.result,
	    "SELECT sum(value ->> 'count') + (?1 ->> 'sources_others')"
	    " FROM json_each(?1, '$.sources')",
	    "14");
	ask_is(a.result,
	    "SELECT sum(value ->> 'count') + (?1 ->> 'users_others') FROM json_each(?1, '$.users')",
	    "14");
	ask_is(a.result, "SELECT json_extract(?1, '$.sources[0]')",
	    "{\"source\":\"203.0.113.5\",\"count\":9}");
	ask_is(
	    a.result, "SELECT json_extract(?1, '$.users[0]')", "{\"user\":\"root\",\"count\":4}");
	ask_is(a.result, "SELECT json_extract(?1, '$.logins[0].user')", "carol");
	ask_is(a.result, "SELECT json_extract(?1, '$.logins[1]')",
	    "{\"time\":\"2026-11-29T10:06:01+0000\",\"user\":\"alice\",\"source\":\"192.0.2.10\","
	    "\"method\":\"publickey\"}");
	assert_null(strstr(a.result, "SHA256"));
	assert_null(strstr(a.result, "1.2.3.4\""));
	assert_null(strstr(a.result, "6.6.6.6"));
	assert_null(strstr(a.result, "9.9.9.9"));
	assert_null(strstr(a.result, "script>"));
	assert_null(strstr(a.result, "mallory"));
	assert_null(strstr(a.result, "/"));
}

/* OB-4: the source is what sshd wrote last, whatever a user calls itself. */
static void
names_that_look_like_the_line(void **state)
{
	struct sshd_line l;

	(void)state;
	assert_int_equal(parse("Failed password for invalid user x from 1.2.3.4 port 1 from "
			       "203.0.113.5 port 40003 ssh2",
			     &l),
	    SSHD_FAILED);
	assert_string_equal(l.source, "203.0.113.5");
	assert_string_equal(l.user, "x?from?1.2.3.4?port?1");
	assert_int_equal(
	    parse("Failed password for a from 1.2.3.4 port 1 ssh2: from 5.6.7.8 port 9 "
		  "ssh2",
		&l),
	    SSHD_FAILED);
	assert_string_equal(l.source, "5.6.7.8");
	assert_int_equal(
	    parse("Invalid user a from 1.2.3.4 port 1 from ::1 port 65535", &l), SSHD_CONNECTED);
	assert_string_equal(l.source, "::1");
	assert_int_equal(
	    parse("Connection closed by invalid user a b 5.6.7.8 port 9 [preauth]", &l),
	    SSHD_CONNECTED);
	assert_string_equal(l.user, "a?b");
	assert_string_equal(l.source, "5.6.7.8");
	assert_int_equal(
	    parse("Failed password for root from evil/host port 22 ssh2", &l), SSHD_UNCLEAR);
	assert_string_equal(l.source, "");
	assert_int_equal(
	    parse("Failed password for root from 1.2.3.4 port 22 ssh2 and more", &l), SSHD_UNCLEAR);
	assert_int_equal(
	    parse("Failed password for root from 1.2.3.4 port x ssh2", &l), SSHD_UNCLEAR);
	assert_int_equal(parse("Failed password", &l), SSHD_UNCLEAR);
	assert_int_equal(parse("Server listening on 0.0.0.0 port 22.", &l), SSHD_NOTHING);
}

/* OB-4: a NUL ends nothing and reaches nobody; names are cut to 32 characters. */
static void
names_are_bounded(void **state)
{
	static const char nul[] = "2026-11-29T10:00:00+0000 box sshd[7]: "
				  "Failed password for n\0ul from 1.2.3.4 port 22 ssh2";
	struct sshd_line l;

	(void)state;
	assert_int_equal(sshd_parse(nul, sizeof(nul) - 1, &l), SSHD_FAILED);
	assert_string_equal(l.user, "n?ul");
	assert_int_equal(parse("Failed password for "
			       "0123456789012345678901234567890123456789 from 1.2.3.4 port 22 ssh2",
			     &l),
	    SSHD_FAILED);
	assert_string_equal(l.user, "01234567890123456789012345678901");
	assert_int_equal(parse("Failed password for  from 1.2.3.4 port 22 ssh2", &l), SSHD_FAILED);
	assert_string_equal(l.user, "?");
}

/* Ranks have an end; what is behind it is a number. */
static void
ranks_are_cut(void **state)
{
	(void)state;
	recorded_stand_in(env.journalctl,
	    "for i in $(seq 1 50); do echo \"2026-11-29T10:00:00+0000 b sshd[$i]: Failed password for "
	    "u$i from 10.0.0.$i port 1 ssh2\"; echo \"2026-11-29T10:00:00+0000 b sshd[$i]: Accepted "
	    "password for a$i from 10.0.0.$i port 1 ssh2\"; done");
	ask_logins("168");
	assert_int_equal(ask_int(a.result, "$.failed"), 50);
	ask_is(a.result, "SELECT json_array_length(?1, '$.sources')", "20");
	ask_is(a.result, "SELECT json_array_length(?1, '$.users')", "20");
	ask_is(a.result, "SELECT json_array_length(?1, '$.logins')", "20");
	assert_int_equal(ask_int(a.result, "$.sources_others"), 30);
	assert_int_equal(ask_int(a.result, "$.users_others"), 30);
	assert_int_equal(ask_int(a.result, "$.accepted"), 50);
	ask_is(a.result, "SELECT json_extract(?1, '$.logins[0].user')", "a50");
}

/* Nobody came: zero, and said to be known. */
static void
nobody_came(void **state)
{
	(void)state;
	recorded_stand_in(env.journalctl, "exit 0");
	ask_logins(NULL);
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_int_equal(ask_int(a.result, "$.failed"), 0);
	assert_int_equal(ask_int(a.result, "$.accepted"), 0);
	assert_null(strstr(a.result, "unreadable"));
}

/* OBS-11: what cannot be read counts -1, never 0. */
static void
unreadable_counts_minus_one(void **state)
{
	(void)state;
	recorded_stand_in(env.journalctl, "exit 3");
	ask_logins(NULL);
	assert_int_equal(a.code, OBSERVE_FAILED);
	assert_int_equal(ask_int(a.result, "$.failed"), -1);
	assert_int_equal(ask_int(a.result, "$.accepted"), -1);
	strcpy(env.journal, "/nonexistent");
	ask_logins(NULL);
	assert_int_equal(a.code, OBSERVE_MISSING);
	assert_int_equal(ask_int(a.result, "$.failed"), -1);
	ask_is(a.result, "SELECT json_extract(?1, '$.unreadable')",
	    "this machine keeps no system journal");
	ask_is(a.result, "SELECT json_type(?1, '$.sources')", "null");
}

/* The same for an ordinary user, from end to end. */
static void
ordinary_user(void **state)
{
	struct ask *shared;
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root to become somebody else\n");
		skip();
	}
	strcpy(env.journalctl, "/bin/true");
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	if ((pid = fork()) == 0) {
		const char *const words[] = {NULL};

		if (setgid(NOBODY) == -1 || setuid(NOBODY) == -1)
			_exit(9);
		ask_run(shared, "observe:logins", words, &limits, &env);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(shared->code, OBSERVE_MISSING);
	assert_int_equal(ask_int(shared->result, "$.failed"), -1);
	assert_non_null(strstr(shared->result, "systemd-journal"));
	munmap(shared, sizeof(*shared));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(the_recording, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test(names_that_look_like_the_line),
	    cmocka_unit_test(names_are_bounded),
	    cmocka_unit_test_setup_teardown(ranks_are_cut, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(nobody_came, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(
		unreadable_counts_minus_one, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(ordinary_user, recorded_set_up, recorded_tear_down),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	free(a.frames);
	return rc;
}
