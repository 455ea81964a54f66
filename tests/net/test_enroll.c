/* test_enroll.c: who comes to the Host's enroll socket with a code, a bad one, or another's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/wire.h"

#define RACERS 8

static struct driver d;
static struct said said;
static struct wire_answer answer;
static char door[512];

static const char key_a[] = "1111111111111111111111111111111111111111111111111111111111111111";
static const char no_token[] = "2222222222222222222222222222222222222222222222222222222222222222";

static int
serve(void **state)
{
	(void)state;
	driver_make(&d);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	driver_serve(&d, DRIVER_HOST);
	snprintf(door, sizeof(door), "%s/enroll.sock", d.run[DRIVER_HOST]);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

/* The token in the code that an invitation of ${name} prints. */
static void
invite(const char *name, const char *time, char token[65])
{
	unsigned char text[1024];
	const char *at;
	size_t len;

	driver_does(&said, NULL, "host", "invite", name, "--for", time, NULL);
	assert_memory_equal(said.out, "bst_", 4);
	assert_int_equal(
	    sodium_base642bin(text, sizeof(text) - 1, said.out + 4, strcspn(said.out, "\n") - 4,
		NULL, &len, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING),
	    0);
	text[len] = '\0';
	assert_non_null(at = strstr((const char *)text, "\"t\":\""));
	snprintf(token, 65, "%.64s", at + 5);
}

static const char *
body_of(const char *token, const char *box, const char *key)
{
	static char body[512];

	snprintf(body, sizeof(body),
	    "{\"token\":\"%s\",\"box\":\"%s\",\"box_key\":\"%s\",\"lane\":\"/run/x/lane.sock\"}",
	    token, box, key);
	return body;
}

static void
enroll(const char *body)
{
	wire_ask(door, "POST", "/v1/enroll", "Content-Type: application/json\r\n", body,
	    strlen(body), &answer);
}

static void
refused(const char *body, int status, const char *code)
{
	int64_t before = driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM host_box");

	enroll(body);
	if (answer.status != status || strcmp(answer.refused, code) != 0)
		fail_msg("%s: %d %s instead of %d %s", body, answer.status, answer.refused, status,
		    code);
	assert_int_equal(driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM host_box"), before);
}

/* EN-1: what is no enrollment is refused by its form and not repeated. */
static void
garbage_is_refused(void **state)
{
	char body[512];

	(void)state;
	refused("", 400, "json.invalid");
	refused("secretword", 400, "json.invalid");
	refused("{\"token\":1,\"token\":2}", 400, "json.duplicate");
	refused("[]", 422, "code.invalid");
	refused("{}", 422, "code.invalid");
	refused(body_of("secretword", "box-a", key_a), 422, "code.invalid");
	assert_null(strstr(answer.body, "secretword"));
	refused(body_of(no_token, "box-a", "secretword"), 422, "code.invalid");
	snprintf(body, sizeof(body), "%s", body_of(no_token, "box-a", key_a));
	strcpy(body + strlen(body) - 1, ",\"more\":1}");
	refused(body, 422, "code.invalid");
	snprintf(body, sizeof(body),
	    "{\"token\":\"%s\",\"box\":7,\"box_key\":\"%s\",\"lane\":\"/x\"}", no_token, key_a);
	refused(body, 422, "code.invalid");
}

/* EN-2: a token that nobody gave out. */
static void
unknown_token_is_refused(void **state)
{
	(void)state;
	refused(body_of(no_token, "box-a", key_a), 403, "invitation.unknown");
	assert_int_equal(driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM refused"), 1);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST,
		"SELECT count(*) FROM refused WHERE asked || why LIKE '%%%s%%'", no_token),
	    0);
}

/* EN-3: a code is for one name, for one use, and then it is used. */
static void
code_is_used_once(void **state)
{
	char token[65];

	(void)state;
	invite("box-b", "15m", token);
	refused(body_of(token, "box-c", key_a), 403, "invitation.name");
	enroll(body_of(token, "box-b", key_a));
	assert_int_equal(answer.status, 200);
	assert_non_null(strstr(answer.body, "\"host\":\"conductor\""));
	assert_non_null(strstr(answer.body, "\"signature\":\""));
	refused(body_of(token, "box-b", key_a), 409, "invitation.used");
	refused(body_of(token, "box-b", no_token), 409, "invitation.used");
}

/* EN-4: a code that ran out. */
static void
expired_code_is_refused(void **state)
{
	char token[65];

	(void)state;
	invite("box-d", "1s", token);
	driver_until(&d, DRIVER_HOST, 0,
	    "SELECT count(*) FROM invitation WHERE state = 'open' AND expires_at > now_ms()");
	refused(body_of(token, "box-d", key_a), 410, "invitation.expired");
}

/* EN-5: a code that was withdrawn. */
static void
withdrawn_code_is_refused(void **state)
{
	char token[65];

	(void)state;
	invite("box-e", "15m", token);
	driver_does(&said, NULL, "host", "withdraw", "box-e", NULL);
	refused(body_of(token, "box-e", key_a), 409, "invitation.used");
}

/* EN-6: of many who come with one code at once, one is let in. */
static void
racers_with_one_code(void **state)
{
	char token[65], key[65];
	int fd[RACERS], i, in = 0;
	const char *body;

	(void)state;
	invite("box-f", "15m", token);
	for (i = 0; i < RACERS; i++) {
		snprintf(key, sizeof(key), "%064d", i + 1);
		body = body_of(token, "box-f", key);
		fd[i] = wire_dial(door);
		wire_request(fd[i], "POST", "/v1/enroll", "", body, strlen(body));
	}
	for (i = 0; i < RACERS; i++) {
		wire_take(fd[i], &answer);
		close(fd[i]);
		in += answer.status == 200;
		if (answer.status != 200 && strcmp(answer.refused, "invitation.used") != 0)
			fail_msg("%d: %s", answer.status, answer.body);
	}
	assert_int_equal(in, 1);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM host_box WHERE name = 'box-f'"), 1);
}

/* EN-7: a guest who goes away before the welcome takes the code with them, and nothing else. */
static void
vanished_guest_leaves_the_door_open(void **state)
{
	char token[65];
	const char *body;
	int fd;

	(void)state;
	invite("box-g", "15m", token);
	body = body_of(token, "box-g", key_a);
	fd = wire_dial(door);
	wire_request(fd, "POST", "/v1/enroll", "", body, strlen(body));
	close(fd);
	driver_until(
	    &d, DRIVER_HOST, 0, "SELECT count(*) FROM live_instance WHERE state <> 'ready'");
	assert_int_equal(wire_ask(door, "GET", "/v1/openapi.json", "", "", 0, &answer), 200);
	invite("box-h", "15m", token);
	enroll(body_of(token, "box-h", key_a));
	assert_int_equal(answer.status, 200);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(garbage_is_refused),
	    cmocka_unit_test(unknown_token_is_refused),
	    cmocka_unit_test(code_is_used_once),
	    cmocka_unit_test(expired_code_is_refused),
	    cmocka_unit_test(withdrawn_code_is_refused),
	    cmocka_unit_test(racers_with_one_code),
	    cmocka_unit_test(vanished_guest_leaves_the_door_open),
	};

	return cmocka_run_group_tests(tests, serve, stop);
}
