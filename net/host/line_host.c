/* line_host.c: the Host's end of lines: boxes that dialled in, and what link asks them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "engine/state/tls_identity.h"
#include "net/host/line.h"
#include "net/http/client.h"
#include "net/http/reverse.h"

static const char NONE_UP[] = "UPDATE box_line SET up = 0, changed_at = now_ms() WHERE up > 0";

static const char UP[] =
    "INSERT INTO box_line (box_id, up, changed_at, address) VALUES (:box, :up, now_ms(), :address)"
    " ON CONFLICT (box_id) DO UPDATE SET up = excluded.up, changed_at = excluded.changed_at,"
    "  address = iif(excluded.up > box_line.up, excluded.address, box_line.address)";

static const char DIALS_IN[] = "SELECT count(*) FROM host_box WHERE id = :box AND state = 'active'"
			       " AND transport = 'reverse'";

/* A box that has dialled in, and how many of its lines the database says are up. */
struct box {
	struct commit_job job; /* first */
	struct box *next;
	struct lines *lines;
	int64_t id;
	char address[HTTP_ADDRESS_MAX];
	unsigned up, written;
	bool busy; /* the job is with the committer, and with it what follows */
	unsigned writing;
	char writing_address[HTTP_ADDRESS_MAX];
};

/* A request of link's on its way to a box. */
struct relay {
	struct relay *next, **self;
	struct lines *lines;
	struct http_exchange *x;
	struct http_call *call; /* NULL: it waits for an idle line, or is over */
	int64_t box;
	char path[64];
	bool begun, over, paused;
	size_t at, len; /* of what the answer's reader has not room for yet */
	char rest[16384];
};

struct lines {
	struct net *net;
	struct http_client *client;
	struct reverse_hub *hub;
	struct box *boxes;
	struct relay *relays;
	void (*drained)(struct net *net); /* NULL: it is not drained */
	bool ending;                      /* there are no rows any more */
};

/*
 * How many lines are up, in the database.
 */

static int
box_run(struct store *db, struct commit_job *job)
{
	const struct box *b = (const struct box *)job;
	struct stmt *q;

	if ((q = store_sql(db, UP)) == NULL)
		return -1;
	stmt_int(q, ":box", b->id);
	stmt_int(q, ":up", b->writing);
	stmt_text(q, ":address", b->writing_address);
	return stmt_run(q);
}

static void
box_write(struct box *b)
{
	if (b->busy || b->up == b->written || b->lines->ending)
		return;
	b->busy = true;
	b->writing = b->up;
	memcpy(b->writing_address, b->address, sizeof(b->address));
	committer_submit(b->lines->net->committer, &b->job);
}

static void
box_done(struct commit_job *job)
{
	struct box *b = (struct box *)job;

	b->busy = false;
	b->written = b->writing;
	/* A box that is gone is taken off the line at the next wake. */
	if (job->result != 0)
		fprintf(stderr, "bastion: net: the lines of box %" PRId64 ": %s\n", b->id,
		    job->refusal.why);
	box_write(b);
}

static struct box *
box_of(struct lines *lines, int64_t id)
{
	struct box *b;

	for (b = lines->boxes; b != NULL; b = b->next)
		if (b->id == id)
			return b;
	if ((b = calloc(1, sizeof(*b))) == NULL)
		return NULL;
	*b = (struct box){.job = {.run = box_run, .done = box_done},
	    .next = lines->boxes,
	    .lines = lines,
	    .id = id};
	lines->boxes = b;
	return b;
}

/*
 * Passing on what link asks.
 */

static void
check_drained(void *ctx)
{
	struct lines *lines = ctx;
	void (*drained)(struct net * net) = lines->drained;

	if (drained == NULL || lines->relays != NULL)
		return;
	lines->drained = NULL;
	drained(lines->net);
}

static void
relay_free(struct relay *relay)
{
	struct lines *lines = relay->lines;

	*relay->self = relay->next;
	if (relay->next != NULL)
		relay->next->self = relay->self;
	free(relay);
	/* From the loop: whoever frees may be inside the server. */
	if (lines->drained != NULL && lines->relays == NULL)
		loop_post(lines->net->env->loop, check_drained, lines);
}

/* Link has gone, or took it back. */
static void
relay_gone(void *ctx)
{
	struct relay *relay = ctx;

	if (relay->call != NULL)
		http_abort(relay->call);
	relay_free(relay);
}

/* Give the reader what it has room for; at the end of it, go on with the answer or end it.  Return
 * 0, or -1 where it cannot be given. */
static int
relay_push(struct relay *relay)
{
	size_t room = relay->lines->net->stream_bytes, n;
	ssize_t queued;

	while (relay->len > 0 && !relay->paused) {
		n = relay->len < room ? relay->len : room;
		if ((queued = http_stream_write(relay->x, relay->rest + relay->at, n)) == -1)
			return -1;
		relay->at += n;
		relay->len -= n;
		relay->paused = (size_t)queued > room;
	}
	if (relay->len == 0)
		relay->at = 0;
	return relay->call == NULL ? 0 : http_pause(relay->call, relay->paused);
}

static void
relay_end(struct relay *relay)
{
	http_stream_end(relay->x);
	relay_free(relay);
}

static void
relay_drained(void *ctx)
{
	struct relay *relay = ctx;

	relay->paused = false;
	/* The queue is nearly empty, so only a loop without memory stops this: then it is cut. */
	if (relay_push(relay) == -1) {
		if (relay->call != NULL)
			http_abort(relay->call);
		relay_end(relay);
	} else if (relay->over && relay->len == 0)
		relay_end(relay);
}

/* Begin the answer as the box begins its own.  Return 0; or -1 with ${relay} gone. */
static int
relay_begin(struct relay *relay, struct http_call *call)
{
	const char *type = http_call_header(call, "Content-Type");

	relay->begun = true;
	return http_stream_begin(relay->x, (unsigned)http_call_status(call),
	    type != NULL ? type : "application/octet-stream");
}

static int
relay_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct relay *relay = ctx;

	if (!relay->begun && relay_begin(relay, call) != 0)
		return -1;
	/* What is left over is always of the piece that is being read, which fits. */
	if (relay->at + relay->len + len > sizeof(relay->rest))
		return -1;
	memcpy(relay->rest + relay->at + relay->len, data, len);
	relay->len += len;
	return relay_push(relay);
}

static void
relay_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct relay *relay = ctx;

	relay->call = NULL;
	if (!relay->begun && refusal != NULL) {
		net_refuse(relay->lines->net, relay->x, refusal, NULL);
		relay_free(relay);
		return;
	}
	if (!relay->begun && relay_begin(relay, call) != 0)
		return;
	relay->over = true;
	if (relay->len == 0)
		relay_end(relay);
}

/* Return 1 where it is on its way, 0 where it waits, -1 with ${relay} answered and gone. */
static int
relay_send(struct relay *relay)
{
	static const char *const kept[] = {
	    "Content-Type", "Bastion-Key", "Bastion-Time", "Bastion-Nonce", "Bastion-Signature"};
	struct http_field headers[sizeof(kept) / sizeof(kept[0]) + 1];
	struct http_exchange *x = relay->x;
	struct http_request request = {.method = http_method(x),
	    .headers = headers,
	    .chunk = relay_chunk,
	    .done = relay_done,
	    .ctx = relay};
	char url[96];
	struct refusal r;
	size_t i, n = 0;

	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if ((headers[n].value = http_header(x, kept[i])) != NULL)
			headers[n++].name = kept[i];
	headers[n] = (struct http_field){NULL, NULL};
	snprintf(url, sizeof(url), "http://box%s", relay->path);
	request.url = url;
	if (strcmp(request.method, "POST") == 0)
		request.body = http_body(x, &request.body_len);
	relay->call = reverse_hub_ask(relay->lines->hub, relay->box, &request, &r);
	if (relay->call != NULL)
		return 1;
	if (strcmp(r.code, "reverse.busy") == 0)
		return 0;
	net_refuse(relay->lines->net, x, &r, NULL);
	relay_free(relay);
	return -1;
}

int
line_relay(struct http_exchange *x, void *ctx)
{
	static const char *const allowed[] = {"ops", "pairings", "cancels"};
	struct net *net = ctx;
	const char *what = http_param(x, "what"), *box = http_param(x, "box");
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct relay *relay;
	size_t i;

	for (i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (strcmp(what, allowed[i]) == 0)
			break;
	if (i == sizeof(allowed) / sizeof(allowed[0]) || strlen(box) > 18 ||
	    box[strspn(box, "0123456789")] != '\0') {
		refusal_set(
		    &r, "usage.wrong", "a box is a number, and has ops, pairings and cancels");
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	if ((relay = calloc(1, sizeof(*relay))) == NULL) {
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	relay->lines = net->lines;
	relay->x = x;
	relay->box = strtoll(box, NULL, 10);
	snprintf(relay->path, sizeof(relay->path), "/v1/%s", what);
	relay->next = net->lines->relays;
	relay->self = &net->lines->relays;
	if (relay->next != NULL)
		relay->next->self = &relay->next;
	net->lines->relays = relay;
	http_on_close(x, relay_gone, relay);
	http_stream_on_drain(x, relay_drained, relay);
	relay_send(relay);
	return 0;
}

static bool
is_waiting(const struct relay *relay, int64_t box)
{
	return relay->box == box && relay->call == NULL && !relay->begun;
}

/* A line is idle, or the last one is gone: those that wait look again, the oldest first. */
static void
relays_look(struct lines *lines, int64_t box)
{
	struct relay *relay, *oldest;
	int n;

	do {
		oldest = NULL;
		for (relay = lines->relays; relay != NULL; relay = relay->next)
			if (is_waiting(relay, box))
				oldest = relay;
		n = oldest != NULL ? relay_send(oldest) : 0;
	} while (n != 0);
}

static void
look_later(void *ctx)
{
	struct box *b = ctx;

	relays_look(b->lines, b->id);
}

/* From inside the hub: what is asked on the line is asked from the loop. */
static void
on_changed(void *ctx, int64_t id, unsigned up, unsigned idle)
{
	struct lines *lines = ctx;
	const struct relay *relay;
	struct box *b;

	if (lines->ending || (b = box_of(lines, id)) == NULL)
		return;
	b->up = up;
	box_write(b);
	for (relay = lines->relays; relay != NULL; relay = relay->next)
		if ((idle > 0 || up == 0) && is_waiting(relay, id)) {
			loop_post(lines->net->env->loop, look_later, b);
			break;
		}
}

/*
 * Boxes.
 */

int
line_take(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	const struct http_peer *peer = http_peer(x);
	struct refusal r = {.code = ""};
	struct stmt *q;
	struct box *b;
	int64_t id;
	int n = 0;

	if (peer->tls != NULL && (n = tls_box_of(net->env->db, peer->tls->cert.fp, &id)) == 1 &&
	    (q = store_sql(net->env->db, DIALS_IN)) != NULL) {
		stmt_int(q, ":box", id);
		n = stmt_value(q, 0) == 1;
	}
	if (n != 1) {
		refusal_set(&r, "box.unpaired",
		    "no box that dials in is paired here with this certificate");
		net_refuse(net, x, n == -1 ? store_refusal(net->env->db) : &r, NULL);
		return 0;
	}
	if ((b = box_of(net->lines, id)) != NULL)
		snprintf(b->address, sizeof(b->address), "%s", peer->address);
	reverse_hub_take(net->lines->hub, id, x);
	return 0;
}

int
line_start(struct net *net, struct refusal *r)
{
	struct store *db = net->env->db;
	struct reverse_hub_config config = {.per_box = (unsigned)store_setting(db, "line.per_box"),
	    .ping_ms = store_setting(db, "line.ping_ms"),
	    .ping_wait_ms = store_setting(db, "line.ping_wait_ms"),
	    .changed = on_changed};
	struct lines *lines;

	if (store_run_soft(db, NONE_UP, r) != 0)
		return -1;
	if ((lines = calloc(1, sizeof(*lines))) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	net->lines = config.ctx = lines;
	lines->net = net;
	if ((lines->client = config.client = http_client_new(net->env->loop, r)) == NULL)
		return -1;
	lines->hub = reverse_hub_new(net->env->loop, &config, r);
	return lines->hub != NULL ? 0 : -1;
}

void
line_drain(struct net *net, void (*done)(struct net *net))
{
	if (net->lines == NULL || net->lines->relays == NULL)
		done(net);
	else
		net->lines->drained = done;
}

void
line_end(struct net *net)
{
	if (net->lines != NULL)
		net->lines->ending = true;
}

void
line_free(struct net *net)
{
	struct lines *lines = net->lines;
	struct refusal r;
	struct box *b;

	if (lines == NULL)
		return;
	store_run_soft(net->env->db, NONE_UP, &r);
	http_client_free(lines->client);
	reverse_hub_free(lines->hub);
	while ((b = lines->boxes) != NULL) {
		lines->boxes = b->next;
		free(b);
	}
	free(lines);
	net->lines = NULL;
}
