/* test_loop.c: the event loop: order, cancellation, deletion inside a batch, other threads. */
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/actor/loop.h"

static int
setup(void **state)
{
	*state = loop_new();
	return *state == NULL;
}

static int
teardown(void **state)
{
	loop_free(*state);
	return 0;
}

struct trace {
	struct loop *loop;
	char text[64];
	int fds[4];
	uint64_t timer;
	int n;
};

static void
add_a(void *ctx)
{
	strcat(((struct trace *)ctx)->text, "a");
}

static void
add_b(void *ctx)
{
	strcat(((struct trace *)ctx)->text, "b");
}

static void
add_stop(void *ctx)
{
	struct trace *t = ctx;

	strcat(t->text, ".");
	loop_stop(t->loop);
}

static void
timers_fire_in_order_of_time(void **state)
{
	struct trace t = {.loop = *state};

	loop_after(t.loop, 12, add_stop, &t);
	loop_after(t.loop, 6, add_b, &t);
	loop_after(t.loop, 1, add_a, &t);
	assert_int_equal(loop_run(t.loop), 0);
	assert_string_equal(t.text, "ab.");
}

static void
cancel_other(void *ctx)
{
	struct trace *t = ctx;

	strcat(t->text, "c");
	loop_cancel(t->loop, t->timer);
	loop_cancel(t->loop, t->timer);
}

/* Both are due in the same round: the first takes the second back. */
static void
timer_cancels_one_that_is_due(void **state)
{
	struct trace t = {.loop = *state};
	int64_t until;

	loop_after(t.loop, 0, cancel_other, &t);
	t.timer = loop_after(t.loop, 1, add_a, &t);
	loop_after(t.loop, 3, add_stop, &t);
	for (until = loop_now() + 4; loop_now() < until;)
		continue;
	loop_run(t.loop);
	assert_string_equal(t.text, "c.");
}

static void
cancelled_id_is_not_reused(void **state)
{
	struct trace t = {.loop = *state};
	uint64_t old = loop_after(t.loop, 1, add_b, &t);

	loop_cancel(t.loop, old);
	assert_int_not_equal(loop_after(t.loop, 1, add_a, &t), old);
	loop_cancel(t.loop, old);
	loop_cancel(t.loop, 0);
	loop_after(t.loop, 3, add_stop, &t);
	loop_run(t.loop);
	assert_string_equal(t.text, "a.");
}

struct span {
	int64_t earliest, latest;
};

static const struct span *fired[1000];
static int nfired;

static void
note_due(void *ctx)
{
	fired[nfired++] = ctx;
}

/*
 * The heap: a thousand timers in scattered order, every third cancelled, the rest sorted.  When
 * exactly a timer is due only the loop knows; we know a time before and one after it.
 */
static void
many_timers_keep_order(void **state)
{
	static struct span due[1000];
	struct trace t = {.loop = *state};
	uint64_t ids[1000];
	int i;

	nfired = 0;
	for (i = 0; i < 1000; i++) {
		due[i].earliest = loop_now() + i * 617 % 1000 / 50;
		ids[i] = loop_after(t.loop, i * 617 % 1000 / 50, note_due, &due[i]);
		due[i].latest = loop_now() + 1 + i * 617 % 1000 / 50;
		assert_int_not_equal(ids[i], 0);
	}
	for (i = 0; i < 1000; i += 3)
		loop_cancel(t.loop, ids[i]);
	loop_after(t.loop, 25, add_stop, &t);
	loop_run(t.loop);
	assert_int_equal(nfired, 666);
	for (i = 1; i < nfired; i++)
		assert_true(fired[i - 1]->earliest <= fired[i]->latest);
}

static void
again(void *ctx)
{
	struct trace *t = ctx;

	if (++t->n < 100)
		loop_after(t->loop, 0, again, t);
}

static void
on_readable(void *ctx, uint32_t events)
{
	struct trace *t = ctx;

	assert_true(events & EPOLLIN);
	t->fds[2] = t->n;
	loop_stop(t->loop);
}

/* A timer that always asks for 0 ms does not keep descriptors from their turn. */
static void
timer_of_zero_does_not_starve(void **state)
{
	struct trace t = {.loop = *state};

	assert_int_equal(pipe(t.fds), 0);
	assert_int_equal(loop_add(t.loop, t.fds[0], EPOLLIN, on_readable, &t), 0);
	assert_int_equal(write(t.fds[1], "x", 1), 1);
	loop_after(t.loop, 0, again, &t);
	loop_run(t.loop);
	assert_true(t.fds[2] < 50);
	loop_del(t.loop, t.fds[0]);
	close(t.fds[0]);
	close(t.fds[1]);
}

static void
delete_both(void *ctx, uint32_t events)
{
	struct trace *t = ctx;

	(void)events;
	t->n++;
	loop_del(t->loop, t->fds[0]);
	loop_del(t->loop, t->fds[2]);
}

/* Two descriptors are readable in one batch: whichever is first deletes both. */
static void
delete_with_event_pending(void **state)
{
	struct trace t = {.loop = *state};
	int i;

	assert_int_equal(pipe(t.fds), 0);
	assert_int_equal(pipe(t.fds + 2), 0);
	assert_int_equal(loop_add(t.loop, t.fds[0], EPOLLIN, delete_both, &t), 0);
	assert_int_equal(loop_add(t.loop, t.fds[2], EPOLLIN, delete_both, &t), 0);
	assert_int_equal(write(t.fds[1], "x", 1), 1);
	assert_int_equal(write(t.fds[3], "x", 1), 1);
	loop_after(t.loop, 3, add_stop, &t);
	loop_run(t.loop);
	assert_int_equal(t.n, 1);
	for (i = 0; i < 4; i++)
		close(t.fds[i]);
}

struct reuse {
	struct loop *loop;
	int first[2], second[2], quiet[2];
	int calls;
};

static void replace_second(void *ctx, uint32_t events);
static void replace_first(void *ctx, uint32_t events);

/* Turn the other descriptor, readable in this batch, into one with nothing to read. */
static void
replace(struct reuse *r, int fd, void (*fn)(void *, uint32_t))
{
	if (++r->calls > 1)
		return;
	loop_mod(r->loop, r->first[0] == fd ? r->second[0] : r->first[0], 0);
	loop_del(r->loop, fd);
	assert_int_equal(dup2(r->quiet[0], fd), fd);
	assert_int_equal(loop_add(r->loop, fd, EPOLLIN, fn, r), 0);
}

static void
replace_second(void *ctx, uint32_t events)
{
	struct reuse *r = ctx;

	(void)events;
	replace(r, r->second[0], replace_first);
}

static void
replace_first(void *ctx, uint32_t events)
{
	struct reuse *r = ctx;

	(void)events;
	replace(r, r->first[0], replace_second);
}

static void
number_reused_within_batch_gets_no_old_event(void **state)
{
	struct reuse r = {.loop = *state};
	struct trace t = {.loop = *state};

	assert_int_equal(pipe(r.quiet) | pipe(r.first) | pipe(r.second), 0);
	assert_int_equal(loop_add(r.loop, r.first[0], EPOLLIN, replace_second, &r), 0);
	assert_int_equal(loop_add(r.loop, r.second[0], EPOLLIN, replace_first, &r), 0);
	assert_int_equal(write(r.first[1], "x", 1), 1);
	assert_int_equal(write(r.second[1], "x", 1), 1);
	loop_after(t.loop, 3, add_stop, &t);
	loop_run(t.loop);
	assert_int_equal(r.calls, 1);
	loop_del(r.loop, r.first[0]);
	loop_del(r.loop, r.second[0]);
	close(r.first[0]);
	close(r.first[1]);
	close(r.second[0]);
	close(r.second[1]);
	close(r.quiet[0]);
	close(r.quiet[1]);
}

static void
misuse_is_refused(void **state)
{
	struct loop *loop = *state;
	int fds[2];

	assert_int_equal(loop_add(loop, -1, EPOLLIN, on_readable, NULL), -1);
	assert_int_equal(loop_mod(loop, 4000, EPOLLIN), -1);
	loop_del(loop, 4000);
	loop_del(loop, -1);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(loop_add(loop, fds[0], EPOLLIN, on_readable, NULL), 0);
	assert_int_equal(loop_add(loop, fds[0], EPOLLIN, on_readable, NULL), -1);
	assert_int_equal(loop_signal(loop, 0, NULL, NULL), -1);
	assert_int_equal(loop_signal(loop, 1000, NULL, NULL), -1);
	close(fds[0]);
	close(fds[1]);
}

static void
on_signal(void *ctx, int signo)
{
	struct trace *t = ctx;

	t->n = signo;
	loop_stop(t->loop);
}

static void
signal_reaches_its_handler(void **state)
{
	struct trace t = {.loop = *state};

	assert_int_equal(loop_signal(t.loop, SIGUSR1, on_signal, &t), 0);
	assert_int_equal(loop_signal(t.loop, SIGUSR2, on_signal, &t), 0);
	kill(getpid(), SIGUSR2);
	loop_run(t.loop);
	assert_int_equal(t.n, SIGUSR2);
	kill(getpid(), SIGUSR1);
	loop_run(t.loop);
	assert_int_equal(t.n, SIGUSR1);
}

/* A pending signal dies with the loop instead of killing us when it is unblocked. */
static void
freed_loop_gives_signals_back(void **state)
{
	struct loop *loop = loop_new();
	sigset_t mask;

	(void)state;
	assert_int_equal(loop_signal(loop, SIGUSR1, on_signal, NULL), 0);
	kill(getpid(), SIGUSR1);
	loop_free(loop);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_false(sigismember(&mask, SIGUSR1));
}

#define THREADS 4
#define POSTS   5000

struct poster {
	struct trace *trace;
	pthread_t thread;
	int seen;
};

static void
count_post(void *ctx)
{
	struct poster *p = ctx;

	p->seen++;
	if (++p->trace->n == THREADS * POSTS)
		loop_stop(p->trace->loop);
}

static void *
post_many(void *ctx)
{
	struct poster *p = ctx;
	int i;

	for (i = 0; i < POSTS; i++)
		if (loop_post(p->trace->loop, count_post, p) == -1)
			abort();
	return NULL;
}

static void
posts_of_threads_all_arrive(void **state)
{
	struct trace t = {.loop = *state};
	struct poster p[THREADS] = {{.trace = NULL}};
	int i;

	for (i = 0; i < THREADS; i++) {
		p[i].trace = &t;
		assert_int_equal(pthread_create(&p[i].thread, NULL, post_many, &p[i]), 0);
	}
	loop_run(t.loop);
	for (i = 0; i < THREADS; i++) {
		pthread_join(p[i].thread, NULL);
		assert_int_equal(p[i].seen, POSTS);
	}
}

/* What a stop leaves over runs in the next loop_run, in order. */
static void
stop_keeps_later_posts(void **state)
{
	struct trace t = {.loop = *state};

	loop_post(t.loop, add_a, &t);
	loop_post(t.loop, add_stop, &t);
	loop_post(t.loop, add_b, &t);
	loop_post(t.loop, add_stop, &t);
	loop_run(t.loop);
	assert_string_equal(t.text, "a.");
	loop_run(t.loop);
	assert_string_equal(t.text, "a.b.");
	loop_post(t.loop, add_a, &t); /* freed unrun: the sanitizer would tell */
}

static void
stop_before_run_returns_at_once(void **state)
{
	struct trace t = {.loop = *state};

	loop_after(t.loop, 0, add_a, &t);
	loop_stop(t.loop);
	assert_int_equal(loop_run(t.loop), 0);
	assert_string_equal(t.text, "");
}

static void
pass_second(void *ctx, uint32_t events)
{
	(void)events;
	add_b(ctx);
	add_stop(ctx);
}

static int passed[2];

/* Of two descriptors that are ready at once, the first hands the second over. */
static void
pass_first(void *ctx, uint32_t events)
{
	struct trace *t = ctx;

	(void)events;
	add_a(t);
	loop_del(t->loop, passed[0]);
	assert_int_equal(loop_pass(t->loop, passed[1], pass_second, t), 0);
}

/* An event that was fetched already goes to whom its descriptor was passed. */
static void
passed_descriptor_brings_its_event(void **state)
{
	struct trace t = {.loop = *state};
	int one[2], two[2];

	assert_int_equal(pipe(one), 0);
	assert_int_equal(pipe(two), 0);
	passed[0] = one[0];
	passed[1] = two[0];
	assert_int_equal(write(one[1], "x", 1), 1);
	assert_int_equal(write(two[1], "x", 1), 1);
	assert_int_equal(loop_add(t.loop, one[0], EPOLLIN, pass_first, &t), 0);
	assert_int_equal(loop_add(t.loop, two[0], EPOLLIN | EPOLLET, pass_first, &t), 0);
	assert_int_equal(loop_pass(t.loop, one[1], pass_first, &t), -1);
	loop_run(t.loop);
	assert_string_equal(t.text, "ab.");
	loop_del(t.loop, two[0]);
	close(one[0]);
	close(one[1]);
	close(two[0]);
	close(two[1]);
}

static void
no_descriptor_left_and_none_inherited(void **state)
{
	struct rlimit lim;
	int fd, before = 0, after = 0;
	struct loop *loop;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur > 4096)
		lim.rlim_cur = 4096;
	for (fd = 0; fd < (int)lim.rlim_cur; fd++)
		before += fcntl(fd, F_GETFD) != -1;
	loop = loop_new();
	for (fd = 3; fd < (int)lim.rlim_cur; fd++)
		if (fcntl(fd, F_GETFD) == 0) /* open, without FD_CLOEXEC */
			after++;
	loop_free(loop);
	for (fd = 3; fd < (int)lim.rlim_cur; fd++)
		if (fcntl(fd, F_GETFD) == 0)
			after--;
	assert_int_equal(after, 0);
	for (fd = 0; fd < (int)lim.rlim_cur; fd++)
		before -= fcntl(fd, F_GETFD) != -1;
	assert_int_equal(before, 0);
}

/* One end is heard by the loop, the other is the test's. */
struct pair {
	struct trace *t;
	int fds[2];
	bool closed; /* by the loop, for whoever was heard first */
};

static bool
is_open(const struct pair *p)
{
	char byte;

	return recv(p->fds[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN;
}

static void
on_pair(void *ctx, uint32_t events)
{
	struct pair *p = ctx;

	(void)events;
	if (p->t->n++ == 0) {
		p->closed = true;
		loop_close(p->t->loop, p->fds[0]);
		strcat(p->t->text, is_open(p) ? "a" : "x");
	} else {
		strcat(p->t->text, "b");
		loop_del(p->t->loop, p->fds[0]);
		loop_after(p->t->loop, 0, add_stop, p->t);
	}
}

/* What is closed is closed behind all that happened with it, and is not heard again. */
static void
a_close_waits_for_the_turn(void **state)
{
	struct trace t = {.loop = *state};
	struct pair pairs[2] = {{.t = &t}, {.t = &t}};
	int i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i].fds), 0);
		assert_int_equal(send(pairs[i].fds[1], "x", 1, 0), 1);
		assert_int_equal(loop_add(t.loop, pairs[i].fds[0], EPOLLIN, on_pair, &pairs[i]), 0);
	}
	assert_int_equal(loop_run(t.loop), 0);
	assert_string_equal(t.text, "ab.");
	for (i = 0; i < 2; i++) {
		assert_int_equal(is_open(&pairs[i]), !pairs[i].closed);
		if (!pairs[i].closed)
			close(pairs[i].fds[0]);
		close(pairs[i].fds[1]);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_close_waits_for_the_turn),
	    TEST(timers_fire_in_order_of_time),
	    TEST(timer_cancels_one_that_is_due),
	    TEST(cancelled_id_is_not_reused),
	    TEST(many_timers_keep_order),
	    TEST(timer_of_zero_does_not_starve),
	    TEST(delete_with_event_pending),
	    TEST(number_reused_within_batch_gets_no_old_event),
	    TEST(misuse_is_refused),
	    TEST(signal_reaches_its_handler),
	    TEST(freed_loop_gives_signals_back),
	    TEST(posts_of_threads_all_arrive),
	    TEST(stop_keeps_later_posts),
	    TEST(stop_before_run_returns_at_once),
	    TEST(passed_descriptor_brings_its_event),
	    TEST(no_descriptor_left_and_none_inherited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
