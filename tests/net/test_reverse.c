/* test_reverse.c: boxes that dial in, are asked on what they dialled, and come again. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "engine/clock.h"
#include "net/http/reverse.h"
#include "net/http/tls.h"
#include "tests/authority.h"
#include "tests/slower.h"

#define HOST     1u /* surfaces */
#define BOX      2u
#define GUARD_MS (20000 * SLOWER)

static struct loop *loop;
static struct http_server *host, *box;
static struct http_client *client;
static struct reverse_hub *hub;
static struct reverse *reverse;
static struct tls_end *box_end;
static struct authority ours, theirs;
static struct identity host_id, box_id;
static struct refusal r;
static int port;

/* What the Host sees. */
static unsigned up, idle, changes, upgrades;
static bool ask_at_once, refuse_proof, fall_silent;

/* What the box sees. */
static unsigned box_up, box_failures, proofs, served, closed;
static struct refusal box_why;
static struct http_exchange *held[4];
static unsigned nheld;

/* The box's handlers. */

static int
say_who(struct http_exchange *x, void *ctx)
{
	const struct http_peer *peer = http_peer(x);
	char text[128];

	(void)ctx;
	served++;
	snprintf(text, sizeof(text), "%u|%d|%s|%d", peer->surface, (int)peer->tag, peer->address,
	    peer->tls != NULL && memcmp(peer->tls->issuer_fp, ca_cert(ours.ca)->fp, 32) == 0);
	http_reply(x, 200, "text/plain", NULL, text, strlen(text));
	return 0;
}

static void
on_close(void *ctx)
{
	(void)ctx;
	closed++;
}

static int
hold(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	held[nheld++] = x;
	http_stream_begin(x, 200, "text/plain");
	http_stream_write(x, "so far", 6);
	return 0;
}

/* As much as there is room for, until MUCH bytes are said. */
#define MUCH 40000000

static size_t written;

static void
pour(void *ctx)
{
	static const char drop[4096] = "x";
	struct http_exchange *x = ctx;

	while (written < MUCH) {
		written += sizeof(drop);
		if (http_stream_write(x, drop, sizeof(drop)) > 65536)
			return;
	}
	http_stream_end(x);
}

static int
much(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	written = 0;
	http_on_close(x, on_close, NULL);
	http_stream_begin(x, 200, "text/plain");
	http_stream_on_drain(x, pour, x);
	pour(x);
	return 0;
}

static const struct http_route box_routes[] = {
    {"GET", "/much", BOX, 0, much, ""},
    {"GET", "/who", BOX, 0, say_who, ""},
    {"POST", "/who", BOX, 1000, say_who, ""},
    {"GET", "/hold", BOX, 0, hold, ""},
    {NULL, NULL, 0, 0, NULL, NULL},
};

/* The Host's. */

static void
taken_in_silence(void *ctx, struct http_upgraded *upgraded)
{
	(void)ctx;
	(void)upgraded;
}

static int
take(struct http_exchange *x, void *ctx)
{
	const char *proof = http_header(x, REVERSE_PROOF);

	(void)ctx;
	upgrades++;
	if (refuse_proof || proof == NULL || strncmp(proof, "it is me ", 9) != 0) {
		refusal_set(&r, "pairing.inactive", "who are you?");
		http_refuse(x, 403, &r, NULL);
		return 0;
	}
	if (fall_silent)
		http_upgrade(x, REVERSE_PROTOCOL, taken_in_silence, on_close, NULL);
	else
		reverse_hub_take(hub, 7, x);
	return 0;
}

static const struct http_route host_routes[] = {
    {"GET", "/v1/reverse", HOST, 0, take, ""},
    {NULL, NULL, 0, 0, NULL, NULL},
};

static int
authorise(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	(void)peer;
	return 0;
}

/* Calls. */

struct outcome {
	struct refusal refusal;
	char body[256];
	int status;
	unsigned done, chunks;
};

static int
on_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct outcome *o = ctx;

	(void)call;
	o->chunks++;
	snprintf(o->body, sizeof(o->body), "%.*s", (int)len, data);
	return 0;
}

static void
on_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct outcome *o = ctx;

	o->done++;
	if (refusal != NULL)
		o->refusal = *refusal;
	o->status = http_call_status(call);
}

static struct http_call *
ask(struct outcome *o, const char *url)
{
	const struct http_request request = {.method = "GET",
	    .url = url,
	    .connect_ms = 2000 * SLOWER,
	    .reply_max = 10000,
	    .chunk = on_chunk,
	    .done = on_done,
	    .ctx = o};

	memset(o, 0, sizeof(*o));
	return reverse_hub_ask(hub, 7, &request, &r);
}

static struct outcome first;

static void
on_changed(void *ctx, int64_t which, unsigned now_up, unsigned now_idle)
{
	(void)ctx;
	assert_int_equal(which, 7);
	changes++;
	up = now_up;
	idle = now_idle;
	if (ask_at_once && idle > 0) {
		ask_at_once = false;
		assert_non_null(ask(&first, "http://box/who"));
	}
}

static void
on_box_changed(void *ctx, unsigned now_up, const struct refusal *why)
{
	(void)ctx;
	box_up = now_up;
	if (why == NULL)
		return;
	box_failures++;
	box_why = *why;
}

static int
prove(void *ctx, char proof[REVERSE_PROOF_MAX + 1], struct refusal *refusal)
{
	(void)ctx;
	(void)refusal;
	snprintf(proof, REVERSE_PROOF_MAX + 1, "it is me %u", proofs++);
	return 0;
}

/* The world. */

static void
stop(void *ctx)
{
	(void)ctx;
	loop_stop(loop);
}

static void
run_for(int64_t ms)
{
	loop_after(loop, ms, stop, NULL);
	loop_run(loop);
}

#define AWAIT(condition)             \
	do {                         \
		while (!(condition)) \
			run_for(1);  \
	} while (0)

static void
hung(void *ctx)
{
	(void)ctx;
	fprintf(stderr,
	    "the test hangs: up %u idle %u upgrades %u proofs %u box_up %u failures %u: %s: %s\n",
	    up, idle, upgrades, proofs, box_up, box_failures, box_why.code, box_why.why);
	abort();
}

static const struct tls_limits limits = {.connections = 100,
    .handshakes = 50,
    .per_address = 100,
    .handshake_ms = 5000 * SLOWER,
    .flush_ms = 2000 * SLOWER,
    .dead_ms = 30000};

static struct http_server *
new_server(const struct http_route *routes, int64_t idle_ms)
{
	struct http_server_config config = {.routes = routes, .authorise = authorise};
	struct http_server *s;

	config.limits = (struct http_limits){.connections = 50,
	    .uid_connections = 50,
	    .body = 10000,
	    .header_bytes = 8192,
	    .headers = 40,
	    .idle_ms = idle_ms,
	    .request_ms = 5000 * SLOWER,
	    .stall_ms = 5000 * SLOWER,
	    .json_depth = 32,
	    .stream_bytes = 65536};
	assert_non_null(s = http_server_new(loop, &config, &r));
	return s;
}

static void
host_listens(int fd)
{
	const struct tls_config config = {.cert = &host_id.cert,
	    .key = &host_id.key,
	    .issuer = &ours.cert,
	    .cas = &ours.cert,
	    .ncas = 1,
	    .ask = TLS_ASK_REQUIRED};

	assert_int_equal(http_listen_tls(host, fd, HOST, &config, &limits, &r), 0);
}

static void
new_hub(int64_t ping_ms, int64_t ping_wait_ms)
{
	const struct reverse_hub_config config = {.client = client,
	    .per_box = 3,
	    .ping_ms = ping_ms,
	    .ping_wait_ms = ping_wait_ms,
	    .changed = on_changed};

	assert_non_null(hub = reverse_hub_new(loop, &config, &r));
}

static void
box_trusts(const struct authority *a)
{
	const struct tls_config config = {
	    .cert = &box_id.cert, .key = &box_id.key, .cas = &a->cert, .ncas = 1};

	assert_non_null(box_end = tls_client_end(&config, &r));
}

static void
box_dials(const char *const *addresses, const char *name, unsigned connections, int64_t first_ms)
{
	const struct reverse_config config = {.addresses = addresses,
	    .name = name,
	    .path = "/v1/reverse",
	    .tls = box_end,
	    .limits = &limits,
	    .server = box,
	    .peer = {.surface = BOX, .tag = 42},
	    .prove = prove,
	    .changed = on_box_changed,
	    .connections = connections,
	    .connect_ms = 2000 * SLOWER,
	    .answer_ms = 2000 * SLOWER,
	    .first_ms = first_ms,
	    .cap_ms = 10 * first_ms,
	    .steady_ms = 10000};

	assert_non_null(reverse = reverse_start(loop, &config, &r));
}

static void
box_starts(const char *name, unsigned connections)
{
	char address[32];
	const char *const addresses[] = {address, NULL};

	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	box_dials(addresses, name, connections, 20);
}

static int
setup(void **state)
{
	int fd;

	(void)state;
	up = idle = changes = upgrades = box_up = box_failures = proofs = served = closed = 0;
	nheld = 0;
	ask_at_once = refuse_proof = fall_silent = false;
	memset(&box_why, 0, sizeof(box_why));
	assert_non_null(loop = loop_new());
	authority_make(&ours, "ours");
	authority_make(&theirs, "theirs");
	authority_server(&ours, &host_id, AUTHORITY_HOST, -AUTHORITY_DAY, AUTHORITY_DAY);
	authority_client(&ours, &box_id, "dev-1", -AUTHORITY_DAY, AUTHORITY_DAY);
	host = new_server(host_routes, 10000 * SLOWER);
	box = new_server(box_routes, 10000 * SLOWER);
	assert_non_null(client = http_client_new(loop, &r));
	fd = tcp_listen(&port);
	host_listens(fd);
	new_hub(60000, 5000);
	box_trusts(&ours);
	return loop_after(loop, GUARD_MS, hung, NULL) == 0;
}

static int
teardown(void **state)
{
	(void)state;
	reverse_stop(reverse);
	reverse = NULL;
	http_server_free(box);
	http_server_free(host);
	http_client_free(client);
	reverse_hub_free(hub);
	tls_end_free(box_end);
	loop_free(loop);
	identity_drop(&host_id);
	identity_drop(&box_id);
	authority_drop(&ours);
	authority_drop(&theirs);
	return 0;
}

/* The plan: its clock and dice are ours, nothing sleeps. */

static void
middle(void *buf, size_t len)
{
	memset(buf, 0, len);
	((unsigned char *)buf)[len - 1] = 0x80; /* jitter of exactly the base */
}

static struct reverse_plan plan;

static void
plan_reset(unsigned wanted)
{
	plan = (struct reverse_plan){
	    .wanted = wanted, .first_ms = 1000, .cap_ms = 60000, .steady_ms = 30000};
}

static void
failures_are_tried_ever_more_slowly(void **state)
{
	static const int64_t waits[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
	int64_t now = 5;
	size_t i;

	(void)state;
	random_fix(middle);
	plan_reset(1);
	assert_int_equal(reverse_plan_next(&plan, now), 0);
	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		reverse_plan_dial(&plan);
		assert_int_equal(reverse_plan_next(&plan, now), -1);
		now += 50;
		reverse_plan_down(&plan, now, -1);
		assert_int_equal(reverse_plan_next(&plan, now), waits[i]);
		now += waits[i];
		assert_int_equal(reverse_plan_next(&plan, now), 0);
	}

	/* A Host that takes a connection and drops it is no better than none. */
	reverse_plan_dial(&plan);
	reverse_plan_up(&plan);
	reverse_plan_down(&plan, now, 29999);
	assert_int_equal(reverse_plan_next(&plan, now), 60000);
	now += 60000;
	reverse_plan_dial(&plan);
	reverse_plan_up(&plan);
	now += 30000;
	reverse_plan_down(&plan, now, 30000);
	assert_int_equal(reverse_plan_next(&plan, now), 1000);
	random_fix(NULL);
}

static void
failing_box_dials_one_at_a_time(void **state)
{
	int64_t now = 0;
	int i;

	(void)state;
	random_fix(middle);
	plan_reset(4);
	for (i = 0; i < 4; i++) {
		assert_int_equal(reverse_plan_next(&plan, now), 0);
		reverse_plan_dial(&plan);
	}
	assert_int_equal(reverse_plan_next(&plan, now), -1);
	for (i = 0; i < 4; i++)
		reverse_plan_down(&plan, now, -1);
	assert_int_equal(plan.failures, 1); /* what fails together is one failure */
	assert_int_equal(reverse_plan_next(&plan, now), 1000);
	now += 1000;
	reverse_plan_dial(&plan);
	assert_int_equal(reverse_plan_next(&plan, now), -1);
	reverse_plan_up(&plan);
	for (i = 0; i < 3; i++) {
		assert_int_equal(reverse_plan_next(&plan, now), 0);
		reverse_plan_dial(&plan);
		reverse_plan_up(&plan);
	}
	assert_int_equal(reverse_plan_next(&plan, now), -1);
	random_fix(NULL);
}

static void
returning_boxes_are_spread(void **state)
{
	int64_t least = INT64_MAX, most = 0, ms;
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		plan_reset(1);
		reverse_plan_dial(&plan);
		reverse_plan_up(&plan);
		reverse_plan_down(&plan, 100000, 90000);
		ms = reverse_plan_next(&plan, 100000);
		least = ms < least ? ms : least;
		most = ms > most ? ms : most;
	}
	assert_in_range(least, 500, 600);
	assert_in_range(most, 1400, 1500);
}

/* Asking. */

static void
box_is_asked_on_what_it_dialled(void **state)
{
	struct outcome o;
	int i;

	(void)state;
	box_starts(AUTHORITY_HOST, 2);
	AWAIT(idle == 2 && box_up == 2);
	for (i = 0; i < 100; i++) {
		assert_non_null(ask(&o, "http://box/who"));
		AWAIT(o.done == 1);
		assert_string_equal(o.refusal.code, "");
		assert_int_equal(o.status, 200);
		AWAIT(idle == 2);
	}
	assert_non_null(strstr(o.body, "2|42|127.0.0.1:"));
	assert_non_null(strstr(o.body, "|1"));
	assert_int_equal(served, 100);
	assert_int_equal(upgrades, 2); /* on the two connections there were */
	assert_int_equal(proofs, 2);
}

/* The request may come right behind the 101. */
static void
first_request_may_come_at_once(void **state)
{
	(void)state;
	ask_at_once = true;
	box_starts(AUTHORITY_HOST, 1);
	AWAIT(first.done == 1);
	assert_string_equal(first.refusal.why, "");
	assert_int_equal(first.status, 200);
	assert_int_equal(served, 1);
}

/* What a paused reader takes, and how much of it. */
static size_t taken;
static bool pausing;

static int
take_one(void *ctx, struct http_call *call, const char *data, size_t len)
{
	(void)ctx;
	(void)data;
	taken += len;
	return http_pause(call, pausing);
}

/* A reader that pauses holds the box up, and has every byte in the end; its connection is whole. */
static void
paused_reader_gets_everything(void **state)
{
	struct outcome o = {0};
	const struct http_request request = {.method = "GET",
	    .url = "http://box/much",
	    .connect_ms = 2000 * SLOWER,
	    .chunk = take_one,
	    .done = on_done,
	    .ctx = &o};
	struct http_call *call;
	size_t before;
	int i;

	(void)state;
	box_starts(AUTHORITY_HOST, 1);
	AWAIT(idle == 1);
	taken = 0;
	pausing = true;
	assert_non_null(call = reverse_hub_ask(hub, 7, &request, &r));
	AWAIT(taken > 0);
	run_for(200);
	before = taken;
	run_for(200);
	assert_int_equal(taken, before);
	assert_true(written < MUCH);
	for (i = 0; i < 10; i++) {
		before = taken;
		assert_int_equal(http_pause(call, false), 0);
		AWAIT(taken > before);
	}
	pausing = false;
	assert_int_equal(http_pause(call, false), 0);
	AWAIT(o.done == 1);
	assert_int_equal(o.status, 200);
	assert_int_equal(o.refusal.code[0], '\0');
	assert_int_equal(taken, written);
	AWAIT(idle == 1);
	assert_int_equal(upgrades, 1);
}

static void
busy_connections_are_not_asked(void **state)
{
	struct outcome a, b, c;

	(void)state;
	assert_null(ask(&a, "http://box/who"));
	assert_string_equal(r.code, "reverse.offline");
	box_starts(AUTHORITY_HOST, 2);
	AWAIT(idle == 2);
	assert_non_null(ask(&a, "http://box/hold"));
	assert_non_null(ask(&b, "http://box/hold"));
	AWAIT(nheld == 2 && a.chunks == 1 && b.chunks == 1);
	assert_null(ask(&c, "http://box/who"));
	assert_string_equal(r.code, "reverse.busy");
	http_stream_end(held[0]); /* of either */
	AWAIT(a.done + b.done == 1);
	AWAIT(idle == 1);
	assert_int_equal(up, 2);
	assert_non_null(ask(&c, "http://box/who"));
	AWAIT(c.done == 1);
	assert_int_equal(c.status, 200);
	http_stream_end(held[1]);
	AWAIT(a.done + b.done == 2 && idle == 2);
	assert_int_equal(upgrades, 2);
}

/* A call that is given up takes its connection along; the box hears of it, and dials anew. */
static void
aborted_call_ends_its_connection(void **state)
{
	struct http_call *call;
	struct outcome o;

	(void)state;
	box_starts(AUTHORITY_HOST, 1);
	AWAIT(idle == 1);
	assert_non_null(call = ask(&o, "http://box/hold"));
	AWAIT(o.chunks == 1);
	http_abort(call);
	AWAIT(closed == 1);
	AWAIT(idle == 1 && upgrades == 2);
	assert_int_equal(o.done, 0);
}

/* Who may not. */

/* The proof is shown to the pinned Host alone. */
static void
nothing_is_proved_to_strangers(void **state)
{
	(void)state;
	tls_end_free(box_end);
	box_trusts(&theirs);
	box_starts(AUTHORITY_HOST, 2);
	AWAIT(box_failures >= 3);
	assert_string_equal(box_why.code, "tls.untrusted");
	reverse_stop(reverse);
	tls_end_free(box_end);
	box_trusts(&ours);
	box_failures = 0;
	box_starts("other.bastion.internal", 2);
	AWAIT(box_failures >= 3);
	assert_string_equal(box_why.code, "tls.untrusted");
	assert_int_equal(proofs, 0);
	assert_int_equal(upgrades, 0);
	assert_int_equal(box_up, 0);
}

static void
refused_proof_is_told_with_its_reason(void **state)
{
	(void)state;
	refuse_proof = true;
	box_starts(AUTHORITY_HOST, 1);
	AWAIT(box_failures >= 2);
	assert_string_equal(box_why.code, "reverse.refused");
	assert_non_null(strstr(box_why.why, "403: pairing.inactive"));
	assert_int_equal(up, 0);
	refuse_proof = false;
	AWAIT(idle == 1);
}

/* The Host's end takes no box without a certificate of its authority; the box hears why. */
static void
refused_certificate_is_told_with_its_reason(void **state)
{
	(void)state;
	identity_drop(&box_id);
	authority_client(&theirs, &box_id, "dev-1", -AUTHORITY_DAY, AUTHORITY_DAY);
	tls_end_free(box_end);
	box_trusts(&ours);
	box_starts(AUTHORITY_HOST, 1);
	AWAIT(box_failures >= 2);
	assert_string_equal(box_why.code, "tls.handshake");
	assert_non_null(strstr(box_why.why, "alert"));
	assert_int_equal(upgrades, 0);
}

/* Coming again. */

static void
box_comes_back_to_a_restarted_host(void **state)
{
	struct outcome o;
	int old = port;

	(void)state;
	box_starts(AUTHORITY_HOST, 2);
	AWAIT(idle == 2);
	http_client_free(client);
	http_server_free(host);
	reverse_hub_free(hub);
	up = idle = 0;
	AWAIT(box_up == 0 && box_failures >= 3);
	assert_string_equal(box_why.code, "http.unreachable");
	host = new_server(host_routes, 10000 * SLOWER);
	assert_non_null(client = http_client_new(loop, &r));
	new_hub(60000, 5000);
	{
		struct sockaddr_in sin = {.sin_family = AF_INET,
		    .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
		    .sin_port = htons((uint16_t)old)};
		int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
		assert_int_equal(listen(fd, 10), 0);
		host_listens(fd);
	}
	AWAIT(idle == 2);
	assert_non_null(ask(&o, "http://box/who"));
	AWAIT(o.done == 1);
	assert_int_equal(o.status, 200);
}

/* A Host that was cut off says nothing any more: the box's server gives such a connection up. */
static void
silent_host_is_noticed(void **state)
{
	(void)state;
	http_server_free(box);
	box = new_server(box_routes, REVERSE_IDLE_MIN);
	fall_silent = true;
	box_starts(AUTHORITY_HOST, 1);
	AWAIT(box_up == 1);
	AWAIT(box_failures >= 1);
	fall_silent = false;
	AWAIT(upgrades >= 2 && idle == 1);
}

/* A box that waits for less than three of the Host's pings gets them as often as it needs them. */
static void
hasty_box_is_kept(void **state)
{
	(void)state;
	http_server_free(box);
	box = new_server(box_routes, 600 * SLOWER);
	box_starts(AUTHORITY_HOST, 1);
	AWAIT(idle == 1);
	changes = 0;
	run_for(2000 * SLOWER);
	assert_true(changes > 6);
	assert_int_equal(upgrades, 1);
	assert_int_equal(box_failures, 0);
}

/* One that would need them all the time is told so. */
static void
too_hasty_box_is_refused(void **state)
{
	(void)state;
	http_server_free(box);
	box = new_server(box_routes, REVERSE_IDLE_MIN - 1);
	box_starts(AUTHORITY_HOST, 1);
	AWAIT(box_failures >= 1);
	assert_string_equal(box_why.code, "reverse.refused");
	assert_non_null(strstr(box_why.why, "reverse.upgrade"));
	assert_int_equal(box_up, 0);
}

static int half = -1; /* the Host's end of a connection that it has answered by half */

static int
answer_by_half(void *ctx, struct tls_conn *conn, int plain, struct tls_peer *peer)
{
	static const char text[] = "HTTP/1.1 101 Switching Protocols\r\nConn";

	(void)ctx;
	(void)conn;
	tls_peer_free(peer);
	half = plain;
	return send(plain, text, sizeof(text) - 1, MSG_NOSIGNAL) == sizeof(text) - 1 ? 0 : -1;
}

/* A box whose Host has answered by half waits for the rest and does nothing meanwhile. */
static void
half_an_answer_is_waited_for(void **state)
{
	static const char rest[] = "ection: Upgrade\r\nUpgrade: " REVERSE_PROTOCOL "\r\n\r\n";
	const struct tls_config config = {.cert = &host_id.cert,
	    .key = &host_id.key,
	    .issuer = &ours.cert,
	    .cas = &ours.cert,
	    .ncas = 1,
	    .ask = TLS_ASK_REQUIRED};
	const struct tls_hooks hooks = {.ready = answer_by_half};
	struct sockaddr_storage from = {.ss_family = AF_INET};
	struct tls_pump *pump;
	struct tls_end *end;
	int listener = tcp_listen(&port), fd;
	clock_t used;

	(void)state;
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	assert_non_null(end = tls_server_end(&config, &r));
	assert_non_null(pump = tls_pump_new(loop, &limits, &r));
	box_starts(AUTHORITY_HOST, 1);
	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) == -1)
		run_for(1);
	assert_non_null(tls_accept(pump, end, fd, &from, &hooks, &r));
	AWAIT(half != -1);
	run_for(50);
	used = clock();
	run_for(500);
	assert_true(clock() - used < CLOCKS_PER_SEC / 5);
	assert_int_equal(box_failures, 0);
	assert_int_equal(send(half, rest, sizeof(rest) - 1, MSG_NOSIGNAL), sizeof(rest) - 1);
	AWAIT(box_up == 1);
	reverse_stop(reverse);
	reverse = NULL;
	close(half);
	close(listener);
	tls_pump_free(pump);
	tls_end_free(end);
}

/* Where one address fails the next is dialled, without a wait; it is kept to from then on. */
static void
next_address_is_tried(void **state)
{
	char dead[2][32], good[32];
	const char *const addresses[] = {dead[0], dead[1], good, NULL};
	int i, fd, closed_port;

	(void)state;
	for (i = 0; i < 2; i++) {
		fd = tcp_listen(&closed_port);
		close(fd);
		snprintf(dead[i], sizeof(dead[i]), "127.0.0.1:%d", closed_port);
	}
	snprintf(good, sizeof(good), "127.0.0.1:%d", port);
	box_dials(addresses, AUTHORITY_HOST, 2, 3600000);
	AWAIT(idle == 2 && box_up == 2);
	assert_string_equal(reverse_where(reverse), good);
	reverse_hub_drop(hub, 7);
	AWAIT(box_up == 0);
	assert_string_equal(reverse_where(reverse), good);
}

/* When all have failed, that counts as one failure. */
static void
all_addresses_fail_in_turn(void **state)
{
	char dead[2][32];
	const char *const addresses[] = {dead[0], dead[1], NULL};
	int i, fd, closed_port;

	(void)state;
	for (i = 0; i < 2; i++) {
		fd = tcp_listen(&closed_port);
		close(fd);
		snprintf(dead[i], sizeof(dead[i]), "127.0.0.1:%d", closed_port);
	}
	box_dials(addresses, AUTHORITY_HOST, 1, 3600000);
	AWAIT(box_failures == 2);
	run_for(50);
	assert_int_equal(box_failures, 2);
	assert_string_equal(box_why.code, "http.unreachable");
}

/* Pings keep a connection that is not asked on alive, for far longer than the box waits. */
static void
pings_keep_connections(void **state)
{
	(void)state;
	reverse_hub_free(hub);
	http_server_free(box);
	new_hub(50, 2000 * SLOWER);
	box = new_server(box_routes, 400 * SLOWER);
	box_starts(AUTHORITY_HOST, 2);
	AWAIT(idle == 2);
	changes = 0;
	run_for(1500 * SLOWER);
	assert_true(changes > 10);
	assert_int_equal(upgrades, 2);
	assert_int_equal(box_failures, 0);
}

/* Boxes that do not play along: a TLS client by hand. */

static SSL *
hand_box(SSL_CTX **ctx, int *fd, const char *behind)
{
	const unsigned char *p = box_id.key.data;
	EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &p, (long)box_id.key.len);
	char text[512];
	SSL *ssl;
	int n;

	*ctx = SSL_CTX_new(TLS_client_method());
	assert_int_equal(
	    SSL_CTX_use_certificate_ASN1(*ctx, (int)box_id.cert.len, box_id.cert.data), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(*ctx, key), 1);
	EVP_PKEY_free(key);
	*fd = tcp_dial(port, 0);
	assert_int_equal(fcntl(*fd, F_SETFL, O_NONBLOCK), 0);
	ssl = SSL_new(*ctx);
	SSL_set_fd(ssl, *fd);
	while ((n = SSL_connect(ssl)) != 1) {
		assert_int_equal(SSL_get_error(ssl, n), SSL_ERROR_WANT_READ);
		run_for(1);
	}
	n = snprintf(text, sizeof(text),
	    "GET /v1/reverse HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n"
	    "Upgrade: bastion-serve\r\n" REVERSE_IDLE ": 60000\r\n" REVERSE_PROOF
	    ": it is me 1\r\n\r\n%s",
	    behind);
	assert_int_equal(SSL_write(ssl, text, n), n);
	return ssl;
}

static void
hand_drop(SSL *ssl, SSL_CTX *ctx, int fd)
{
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
}

static void
silent_box_is_noticed(void **state)
{
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;

	(void)state;
	reverse_hub_free(hub);
	new_hub(100, 200);
	ssl = hand_box(&ctx, &fd, "");
	AWAIT(idle == 1);
	AWAIT(up == 0);
	AWAIT(http_server_connections(host) == 0);
	hand_drop(ssl, ctx, fd);
}

static void
noise_ends_a_connection(void **state)
{
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;

	(void)state;
	ssl = hand_box(&ctx, &fd, "");
	AWAIT(idle == 1);
	assert_int_equal(SSL_write(ssl, "HTTP/1.1 200 OK\r\n", 17), 17);
	AWAIT(up == 0);
	AWAIT(http_server_connections(host) == 0);
	hand_drop(ssl, ctx, fd);

	ssl = hand_box(&ctx, &fd, "");
	AWAIT(idle == 1);
	hand_drop(ssl, ctx, fd);
	AWAIT(up == 0);
	AWAIT(http_server_connections(host) == 0);
}

static void
box_that_does_not_wait_is_cut_off(void **state)
{
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;

	(void)state;
	ssl = hand_box(&ctx, &fd, "HTTP/1.1 200 OK\r\n\r\n");
	AWAIT(upgrades == 1);
	AWAIT(http_server_connections(host) == 0);
	assert_int_equal(up, 0);
	hand_drop(ssl, ctx, fd);
}

/* A box that was cut off comes again: its oldest idle connection gives way, a busy one does not. */
static void
one_box_has_its_share(void **state)
{
	SSL_CTX *ctx[5];
	SSL *ssl[5];
	struct outcome o;
	char byte;
	int fd[5], i;

	(void)state;
	for (i = 0; i < 3; i++) {
		ssl[i] = hand_box(&ctx[i], &fd[i], "");
		AWAIT(idle == (unsigned)i + 1);
	}
	assert_non_null(ask(&o, "http://box/who")); /* on the third */
	ssl[3] = hand_box(&ctx[3], &fd[3], "");
	AWAIT(upgrades == 4);
	AWAIT(idle == 2);
	assert_int_equal(up, 3);
	for (i = 0; i < 4; i++)
		(void)!SSL_read(ssl[i], &byte, 1);
	AWAIT(SSL_read(ssl[0], &byte, 1) <= 0 && SSL_get_shutdown(ssl[0]) == SSL_RECEIVED_SHUTDOWN);
	assert_int_equal(SSL_get_shutdown(ssl[1]), 0);
	assert_int_equal(SSL_get_shutdown(ssl[2]), 0);
	for (i = 0; i < 4; i++)
		hand_drop(ssl[i], ctx[i], fd[i]);
	AWAIT(up == 0);
	AWAIT(o.done == 1);
}

static void
only_the_right_upgrade_is_taken(void **state)
{
#define WAITS "\r\n" REVERSE_IDLE ": "
#define RIGHT "Connection: Upgrade\r\nUpgrade: bastion-serve"
	static const char *const wrong[] = {"Connection: keep-alive\r\nUpgrade: bastion-serve" WAITS
					    "60000",
	    "Connection: Upgrade\r\nUpgrade: websocket" WAITS "60000",
	    "Connection: Upgrade" WAITS "60000",
	    "Connection: Upgrades\r\nUpgrade: bastion-serve" WAITS "60000",
	    "Connection: Upgrade\r\nUpgrade: bastion-serve-2" WAITS "60000", RIGHT,
	    RIGHT WAITS "299", RIGHT WAITS "-5", RIGHT WAITS "1e6", RIGHT WAITS "60000 ms",
	    RIGHT WAITS "9999999999"};
	char text[512], answer[1024];
	SSL_CTX *ctx;
	SSL *ssl;
	size_t i;
	int fd, n, len;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ssl = hand_box(&ctx, &fd, "");
		AWAIT(idle == 1);
		hand_drop(ssl, ctx, fd);
		AWAIT(up == 0);
	}
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const unsigned char *p = box_id.key.data;
		EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &p, (long)box_id.key.len);

		ctx = SSL_CTX_new(TLS_client_method());
		SSL_CTX_use_certificate_ASN1(ctx, (int)box_id.cert.len, box_id.cert.data);
		SSL_CTX_use_PrivateKey(ctx, key);
		EVP_PKEY_free(key);
		fd = tcp_dial(port, 0);
		assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
		ssl = SSL_new(ctx);
		SSL_set_fd(ssl, fd);
		AWAIT(SSL_connect(ssl) == 1);
		n = snprintf(text, sizeof(text),
		    "GET /v1/reverse HTTP/1.1\r\nHost: x\r\n%s\r\n" REVERSE_PROOF
		    ": it is me 1\r\n\r\n",
		    wrong[i]);
		assert_int_equal(SSL_write(ssl, text, n), n);
		AWAIT((len = SSL_read(ssl, answer, sizeof(answer) - 1)) > 0);
		answer[len] = '\0';
		assert_memory_equal(answer, "HTTP/1.1 426", 12);
		assert_non_null(strstr(answer, "reverse.upgrade"));
		hand_drop(ssl, ctx, fd);
	}
	assert_int_equal(up, 0);
}

/* Endings. */

static void
dropped_box_is_gone_at_once(void **state)
{
	struct outcome o;

	(void)state;
	box_starts(AUTHORITY_HOST, 2);
	AWAIT(idle == 2);
	assert_non_null(ask(&o, "http://box/hold"));
	AWAIT(o.chunks == 1);
	refuse_proof = true;
	reverse_hub_drop(hub, 7);
	assert_int_equal(idle, 0);
	AWAIT(o.done == 1 && up == 0);
	assert_string_not_equal(o.refusal.code, "");
	AWAIT(closed == 1 && box_up == 0);
}

static void
drained_host_ends_what_is_asked(void **state)
{
	struct outcome o;

	(void)state;
	box_starts(AUTHORITY_HOST, 2);
	AWAIT(idle == 2);
	assert_non_null(ask(&o, "http://box/hold"));
	AWAIT(o.chunks == 1);
	http_server_drain(host, stop, NULL);
	loop_run(loop);
	AWAIT(o.done == 1 && up == 0);
	assert_string_not_equal(o.refusal.code, "");
	AWAIT(box_up == 0);
}

/* In every order and at every moment. */
static void
ends_are_safe_at_every_moment(void **state)
{
	struct outcome o;
	int ms;

	(void)state;
	for (ms = 0; ms < 12; ms++) {
		ask_at_once = false;
		box_starts(AUTHORITY_HOST, 3);
		run_for(ms);
		if (idle > 0)
			ask(&o, "http://box/hold");
		run_for(ms % 3);
		if (ms % 2 == 0) {
			reverse_stop(reverse);
			http_client_free(client);
			http_server_free(host);
			reverse_hub_free(hub);
		} else {
			http_server_free(host);
			http_client_free(client);
			reverse_hub_free(hub);
			reverse_stop(reverse);
		}
		reverse = NULL;
		up = idle = nheld = 0;
		host = new_server(host_routes, 10000 * SLOWER);
		assert_non_null(client = http_client_new(loop, &r));
		new_hub(60000, 5000);
		host_listens(tcp_listen(&port));
	}
}

static unsigned
open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void
connections_leave_nothing(void **state)
{
	struct outcome o;
	unsigned before = open_files(), i;

	(void)state;
	for (i = 0; i < 50; i++) {
		box_starts(AUTHORITY_HOST, 3);
		AWAIT(idle == 3);
		assert_non_null(ask(&o, "http://box/who"));
		AWAIT(o.done == 1);
		reverse_stop(reverse);
		reverse = NULL;
		AWAIT(up == 0);
	}
	AWAIT(http_server_connections(host) == 0 && http_server_connections(box) == 0);
	AWAIT(open_files() == before);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	    cmocka_unit_test(failures_are_tried_ever_more_slowly),
	    cmocka_unit_test(failing_box_dials_one_at_a_time),
	    cmocka_unit_test(returning_boxes_are_spread),
	    T(box_is_asked_on_what_it_dialled),
	    T(first_request_may_come_at_once),
	    T(paused_reader_gets_everything),
	    T(busy_connections_are_not_asked),
	    T(aborted_call_ends_its_connection),
	    T(nothing_is_proved_to_strangers),
	    T(refused_proof_is_told_with_its_reason),
	    T(refused_certificate_is_told_with_its_reason),
	    T(box_comes_back_to_a_restarted_host),
	    T(silent_host_is_noticed),
	    T(hasty_box_is_kept),
	    T(half_an_answer_is_waited_for),
	    T(too_hasty_box_is_refused),
	    T(next_address_is_tried),
	    T(all_addresses_fail_in_turn),
	    T(pings_keep_connections),
	    T(silent_box_is_noticed),
	    T(noise_ends_a_connection),
	    T(box_that_does_not_wait_is_cut_off),
	    T(one_box_has_its_share),
	    T(only_the_right_upgrade_is_taken),
	    T(dropped_box_is_gone_at_once),
	    T(drained_host_ends_what_is_asked),
	    T(ends_are_safe_at_every_moment),
	    T(connections_leave_nothing),
	};

	setlinebuf(stdout);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
