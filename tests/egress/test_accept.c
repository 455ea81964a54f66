/* test_accept.c: a listener where there are no descriptors. */
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/egress/accept.h"

static struct loop *loop;
static struct acceptor acceptor;
static struct sockaddr_in at;
static struct rlimit limit;
static int listener, accepted, watched;

static void
on_accepted(void *ctx, int fd, const struct sockaddr_in *from)
{
	assert_ptr_equal(ctx, &accepted);
	assert_int_equal(from->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	if (++accepted == 3)
		loop_stop(loop);
}

static void
begin(size_t most)
{
	socklen_t len = sizeof(at);

	accepted = 0;
	at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_non_null(loop = loop_new());
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(accept_begin(&acceptor, loop, listener, most, on_accepted, &accepted), 0);
}

static int
dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void
end(void)
{
	accept_end(&acceptor);
	accept_end(&acceptor);
	close(listener);
	loop_free(loop);
}

/* The events at hand come before a timer that is due: whoever waits there is watched or not. */
static void
on_due(void *ctx)
{
	(void)ctx;
	assert_int_equal(accepted, 0);
	watched = loop_mod(loop, listener, EPOLLIN) == 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Without descriptors a listener is told of once, not again and again; then all are served. */
static void
a_listener_waits_for_descriptors(void **state)
{
	struct rlimit none;
	int fds[3], i;

	(void)state;
	begin(2);
	for (i = 0; i < 3; i++)
		fds[i] = dial();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_not_equal(loop_after(loop, 20, on_due, NULL), 0);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(accepted, 3);
	assert_false(watched);
	for (i = 0; i < 3; i++)
		close(fds[i]);
	end();
}

static void
on_over(void *ctx)
{
	loop_stop(ctx);
}

static void
on_end(void *ctx)
{
	(void)ctx;
	accept_end(&acceptor);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_not_equal(loop_after(loop, 200, on_over, loop), 0);
}

/* One that ended while it waited is not watched again. */
static void
one_that_ended_stays_so(void **state)
{
	struct rlimit none;
	int fd;

	(void)state;
	begin(2);
	fd = dial();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_not_equal(loop_after(loop, 20, on_end, NULL), 0);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(accepted, 0);
	close(fd);
	end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_listener_waits_for_descriptors),
	    cmocka_unit_test(one_that_ended_stays_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
