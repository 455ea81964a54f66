/* test_resolve.c: names, shares of them, and servers that say nothing. */
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/egress/resolve.h"

#define SERVERS 3
#define WAIT_MS 1500

static struct loop *loop;
static struct resolver *resolver;
static int servers[SERVERS];
static char list[SERVERS * 24];

/* What whoever waits was told. */
struct told {
	int times;
	size_t n;
	struct refusal why;
};

static void
on_told(void *ctx, const struct address *addresses, size_t n, const struct refusal *why)
{
	struct told *t = ctx;

	(void)addresses;
	t->times++;
	t->n = n;
	if (why != NULL)
		t->why = *why;
	loop_stop(loop);
}

/* ${n} servers that say nothing by themselves, and as many names at once as ${lookups}. */
static void
begin(int n, size_t lookups)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct resolver_config config = {
	    .lookups = lookups, .addresses = 4, .cache = 8, .wait_ms = WAIT_MS, .servers = list};
	socklen_t len = sizeof(at);
	struct refusal r;
	size_t used = 0;
	int i;

	assert_non_null(loop = loop_new());
	for (i = 0; i < n; i++) {
		at.sin_port = 0;
		servers[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_int_equal(bind(servers[i], (struct sockaddr *)&at, sizeof(at)), 0);
		assert_int_equal(getsockname(servers[i], (struct sockaddr *)&at, &len), 0);
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s127.0.0.1:%u",
		    i > 0 ? "," : "", ntohs(at.sin_port));
	}
	if ((resolver = resolver_new(loop, &config, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
}

static void
end(int n)
{
	resolver_free(resolver);
	loop_free(loop);
	while (n-- > 0)
		close(servers[n]);
}

static struct lookup *
ask(int64_t asker, const char *name, struct told *t)
{
	struct refusal r;
	struct lookup *l;

	memset(t, 0, sizeof(*t));
	if ((l = resolver_ask(resolver, asker, name, on_told, t, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	return l;
}

static void
no_more(int64_t asker, const char *name)
{
	struct refusal r;
	struct told t;

	assert_null(resolver_ask(resolver, asker, name, on_told, &t, &r));
	assert_string_equal(r.code, "egress.names");
}

/* How many questions have come to ${server} so far. */
static int
questions(int server)
{
	unsigned char q[512];
	int n = 0;

	while (recv(server, q, sizeof(q), 0) > 0)
		n++;
	return n;
}

/* Answer every question, A with 192.0.2.1. */
static void
on_question(void *ctx, uint32_t events)
{
	static const unsigned char record[] = {
	    0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1};
	unsigned char q[512];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n;
	size_t end_at = 12;

	(void)events;
	(void)ctx;
	if ((n = recvfrom(servers[0], q, 256, 0, (struct sockaddr *)&from, &len)) < 17)
		return;
	while (end_at < (size_t)n && q[end_at] != 0)
		end_at += q[end_at] + (size_t)1;
	end_at += 5;
	q[2] |= 0x84;
	memset(q + 6, 0, 6);
	if (q[end_at - 3] == 1) {
		q[7] = 1;
		memcpy(q + end_at, record, sizeof(record));
		end_at += sizeof(record);
	}
	sendto(servers[0], q, end_at, 0, (struct sockaddr *)&from, len);
}

/* One who asks has a quarter of what may be asked at once, and going away gives none of it back
 * before its time; a name that is asked for already costs nothing. */
static void
nobody_takes_all_lookups(void **state)
{
	struct told a, b, c, d, e;
	struct lookup *first;

	(void)state;
	begin(1, 8);
	first = ask(1, "a.example", &a);
	lookup_cancel(first);
	ask(1, "b.example", &b);
	no_more(1, "c.example");
	ask(2, "c.example", &c);
	ask(1, "c.example", &d);
	ask(1, "a.example", &e);
	no_more(1, "d.example");
	assert_int_equal(loop_add(loop, servers[0], EPOLLIN, on_question, NULL), 0);
	while (b.times + c.times + d.times + e.times < 4)
		assert_int_equal(loop_run(loop), 0);
	assert_int_equal(a.times, 0);
	assert_true(b.n == 1 && c.n == 1 && d.n == 1 && e.n == 1);
	ask(1, "e.example", &a);
	ask(1, "f.example", &b);
	no_more(1, "g.example");
	end(1);
}

static void
all_together_are_bounded(void **state)
{
	struct told t[4];
	int i;

	(void)state;
	begin(1, 4);
	for (i = 0; i < 4; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%d.example", i);
		ask(i, name, &t[i]);
	}
	no_more(4, "more.example");
	end(1);
}

/* Several servers that say nothing are waited for no longer than one is. */
static void
more_servers_take_no_longer(void **state)
{
	struct told t;
	int64_t since = loop_now();

	(void)state;
	begin(SERVERS, 1);
	ask(1, "a.example", &t);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(t.times, 1);
	assert_string_equal(t.why.code, "egress.resolve");
	assert_true(loop_now() - since < 2 * WAIT_MS);
	assert_true(questions(servers[0]) > 0 && questions(servers[2]) > 0);
	ask(1, "b.example", &t);
	end(SERVERS);
}

static int
file_put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	return f != NULL && fputs(text, f) >= 0 && fclose(f) == 0 ? 0 : -1;
}

/* With a resolv.conf of its own: return 0, 1 where it is not as it should be, 77 where there can be
 * no such process. */
static int
with_new_servers(void)
{
	char path[] = "/tmp/bastion-resolv-XXXXXX";
	struct told a, b;
	int fd = mkstemp(path), first;

	if (fd == -1 || file_put(path, "nameserver 127.0.0.1\n") != 0 ||
	    (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL) != 0)
		return unlink(path) == 0 ? 77 : 1;
	begin(1, 8);
	ask(1, "a.example", &a);
	while ((first = questions(servers[0])) == 0)
		usleep(1000);
	/* Another length is another time, also where the clock is coarse. */
	if (file_put(path, "nameserver 127.0.0.1\nnameserver 127.0.0.2\n") != 0 ||
	    usleep(20000) != 0 || file_put(path, "nameserver 127.0.0.3\n") != 0)
		return 1;
	unlink(path);
	ask(2, "b.example", &b);
	/* What was asked before is asked anew at once, and told once. */
	if (questions(servers[0]) != 2 * first ||
	    loop_add(loop, servers[0], EPOLLIN, on_question, NULL) != 0)
		return 1;
	while (a.times + b.times < 2)
		loop_run(loop);
	first = a.times == 1 && a.n == 1 && b.n == 1 ? 0 : 1;
	end(1);
	close(fd);
	return first;
}

/* The servers of this machine change while names are looked up, as they always are. */
static void
new_servers_are_asked_at_once(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0)
		exit(with_new_servers());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_takes_all_lookups),
	    cmocka_unit_test(all_together_are_bounded),
	    cmocka_unit_test(more_servers_take_no_longer),
	    cmocka_unit_test(new_servers_are_asked_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
