/* test_dial.c: several addresses side by side (RFC 8305), with sockets that answer when the test
 * lets them. */
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/egress/dial.h"

#define STAGGER 300

/* How an address is to answer, and what became of it. */
static struct script {
	int64_t after; /* ms until it can be written, -1: never */
	int fails;     /* errno at once */
	int fd, far;   /* both ends */
	int64_t begun; /* ms after the start */
} scripts[4];

static struct loop *loop;
static size_t begun;
static int64_t start;
static struct {
	int calls, fd, error;
	size_t which;
	int64_t at;
} got;

static void
answer(void *ctx)
{
	struct script *x = ctx;
	static char sink[1 << 20];

	if (recv(x->far, sink, sizeof(sink), 0) == -1)
		fail();
}

/* A socket whose buffer is full can be written, and so is "connected", once the far end reads. */
static int
scripted(void *ctx, const struct address *address, uint16_t port)
{
	struct script *x = &scripts[begun];
	static const char fill[4096];
	int fds[2];

	(void)ctx;
	assert_int_equal(port, 443);
	assert_int_equal(address->b[15], begun);
	begun++;
	x->begun = loop_now() - start;
	if (x->fails != 0) {
		errno = x->fails;
		return -1;
	}
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	while (send(fds[0], fill, sizeof(fill), 0) > 0)
		;
	x->fd = fds[0];
	x->far = fds[1];
	if (x->after >= 0)
		loop_after(loop, x->after, answer, x);
	return fds[0];
}

static void
done(void *ctx, int fd, size_t which, bool readable, int error)
{
	(void)ctx;
	(void)readable;
	got.calls++;
	got.fd = fd;
	got.which = which;
	got.error = error;
	got.at = loop_now() - start;
	loop_stop(loop);
}

static void
run(size_t n)
{
	struct address addresses[4];
	const struct dial_how how = {.open = scripted, .done = done, .stagger_ms = STAGGER};
	size_t i;

	memset(addresses, 0, sizeof(addresses));
	for (i = 0; i < 4; i++)
		addresses[i].b[15] = (uint8_t)i;
	memset(&got, 0, sizeof(got));
	begun = 0;
	start = loop_now();
	assert_non_null(dial_start(loop, &how, addresses, n, 443));
	assert_int_equal(got.calls, 0);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(got.calls, 1);
}

/* Whether our end was closed: the far one then reads an end behind what was sent. */
static bool
was_closed(const struct script *x)
{
	static char sink[1 << 20];
	ssize_t n;

	while ((n = recv(x->far, sink, sizeof(sink), 0)) > 0)
		;
	return n == 0;
}

static int
set_up(void **state)
{
	(void)state;
	memset(scripts, 0, sizeof(scripts));
	loop = loop_new();
	return loop != NULL ? 0 : -1;
}

static int
tear_down(void **state)
{
	size_t i;

	(void)state;
	if (got.fd > 0) {
		loop_del(loop, got.fd);
		close(got.fd);
	}
	for (i = 0; i < 4; i++)
		if (scripts[i].far != 0)
			close(scripts[i].far);
	loop_free(loop);
	return 0;
}

/* EG-80: a silent address is left for the next one, and closed when that answers. */
static void
a_silent_address_is_passed(void **state)
{
	(void)state;
	scripts[0].after = -1;
	run(2);
	assert_int_equal(got.which, 1);
	assert_int_equal(got.fd, scripts[1].fd);
	assert_true(scripts[1].begun >= STAGGER - 5);
	assert_int_equal(begun, 2);
	assert_true(was_closed(&scripts[0]));
	assert_false(was_closed(&scripts[1]));
}

/* EG-81: the second wins; the first, which would answer later, is closed. */
static void
the_first_to_answer_wins(void **state)
{
	(void)state;
	scripts[0].after = 2 * STAGGER;
	run(2);
	assert_int_equal(got.which, 1);
	assert_true(got.at < 2 * STAGGER);
	assert_true(was_closed(&scripts[0]));
}

/* EG-82: all fail at once: the last error, and nobody waits. */
static void
all_failing_is_told_at_once(void **state)
{
	(void)state;
	scripts[0].fails = ENETUNREACH;
	scripts[1].fails = ECONNREFUSED;
	run(2);
	assert_int_equal(got.fd, -1);
	assert_int_equal(got.error, ECONNREFUSED);
	assert_true(got.at < STAGGER);
}

/* A failure starts the next at once; an address that is slow may still win against silent ones. */
static void
a_failure_starts_the_next(void **state)
{
	(void)state;
	scripts[0].fails = ENETUNREACH;
	scripts[1].after = STAGGER + 100;
	scripts[2].after = -1;
	run(3);
	assert_int_equal(got.which, 1);
	assert_true(scripts[1].begun < STAGGER);
	assert_int_equal(begun, 3);
	assert_true(was_closed(&scripts[2]));
}

/* EG-83: no addresses. And one that is cancelled closes what it has, and tells nobody. */
static void
nothing_to_dial_and_cancelling(void **state)
{
	struct address addresses[4];
	const struct dial_how how = {.open = scripted, .done = done, .stagger_ms = STAGGER};
	struct dial *d;

	(void)state;
	memset(&got, 0, sizeof(got));
	memset(addresses, 0, sizeof(addresses));
	assert_null(dial_start(loop, &how, addresses, 0, 443));
	begun = 0;
	scripts[0].after = -1;
	start = loop_now();
	assert_non_null(d = dial_start(loop, &how, addresses, 1, 443));
	dial_cancel(d);
	assert_true(was_closed(&scripts[0]));
	assert_int_equal(got.calls, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_silent_address_is_passed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_first_to_answer_wins, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(all_failing_is_told_at_once, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_failure_starts_the_next, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(nothing_to_dial_and_cancelling, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
