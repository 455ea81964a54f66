/* park_box.c: the box's end of parked connections: dialled, parked, handed to the lane, and again.
 */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/backoff.h"
#include "net/egress/handed.h"
#include "net/host/ends.h"
#include "net/host/park.h"
#include "net/http/upgrade.h"

#define ENDPOINT_MAX  300
#define ENDPOINTS_MAX 256

static const char PARKS[] = "SELECT pairing_id, endpoints || ' ' || identity FROM pairing_parks";

static const char ENDPOINTS[] = "SELECT value FROM json_each((SELECT endpoints"
				" FROM pairing_parks WHERE pairing_id = :pairing)) LIMIT :n";

/* The row that lets us dial. */
static const char BEGIN[] =
    "INSERT INTO egress_parked (pairing_id, slot, changed_at) VALUES (:pairing, :slot, now_ms())";

static const char STATE[] =
    "UPDATE egress_parked SET state = :state, changed_at = now_ms(), taken = taken + :taken,"
    "  refused = refused + :refused, endpoint = :endpoint, code = :code, why = :why,"
    "  next_at = iif(:state = 'waiting', now_ms() + :wait, NULL)"
    " WHERE pairing_id = :pairing AND slot = :slot";

static const char END[] = "DELETE FROM egress_parked WHERE pairing_id = :pairing AND slot = :slot";

static const char NONE[] = "DELETE FROM egress_parked";

enum state { DIALLING, PARKED, SERVING, WAITING };

static const char *const states[] = {"dialling", "parked", "serving", "waiting"};

/* How a connection stands, as its row has it. */
struct standing {
	enum state state;
	int64_t wait;            /* of WAITING: how long */
	unsigned taken, refused; /* since the last row */
	char endpoint[ENDPOINT_MAX + 1];
	struct refusal why; /* empty code: nothing is wrong */
};

struct park;

struct slot {
	struct commit_job job; /* first */
	struct park *park;
	int number;
	bool busy, ending; /* the job is with the committer; the row is to go */
	struct standing now, writing;
	bool changed; /* now is not written */
	struct upgrade *upgrade;
	int plain; /* parked; -1: none */
	int told;  /* what was handed over, while it serves; -1: none */
	bool reached;
	uint64_t timer;
};

/* A pairing whose Host may use the lane. */
struct park {
	struct park *next;
	struct parks *parks;
	int64_t pairing;
	char *facts; /* endpoints and certificates that it is dialled with */
	bool found;  /* seen in this look */
	char *endpoints[ENDPOINTS_MAX];
	unsigned nendpoints, at;
	struct tls_end *end;
	unsigned nslots, left; /* left: whose rows are to go yet */
	struct slot slots[PARK_SLOTS];
};

struct parks {
	struct net *net;
	struct http_client *client;
	struct tls_pump *pump;
	struct park *first;
	bool ending;
};

/*
 * Rows.
 */

static int
end_run(struct store *db, struct commit_job *job)
{
	const struct slot *s = (const struct slot *)job;
	struct stmt *q;

	if ((q = store_sql(db, END)) == NULL)
		return -1;
	stmt_int(q, ":pairing", s->park->pairing);
	stmt_int(q, ":slot", s->number);
	return stmt_run(q);
}

static int
begin_run(struct store *db, struct commit_job *job)
{
	const struct slot *s = (const struct slot *)job;
	struct stmt *q;

	if (end_run(db, job) != 0 || (q = store_sql(db, BEGIN)) == NULL)
		return -1;
	stmt_int(q, ":pairing", s->park->pairing);
	stmt_int(q, ":slot", s->number);
	return stmt_run(q);
}

static int
state_run(struct store *db, struct commit_job *job)
{
	const struct slot *s = (const struct slot *)job;
	const struct standing *w = &s->writing;
	bool wrong = w->why.code[0] != '\0';
	struct stmt *q;

	if ((q = store_sql(db, STATE)) == NULL)
		return -1;
	stmt_int(q, ":pairing", s->park->pairing);
	stmt_int(q, ":slot", s->number);
	stmt_text(q, ":state", states[w->state]);
	stmt_int(q, ":wait", w->wait);
	stmt_int(q, ":taken", w->taken);
	stmt_int(q, ":refused", w->refused);
	stmt_text(q, ":endpoint", w->endpoint[0] != '\0' ? w->endpoint : NULL);
	stmt_text(q, ":code", wrong ? w->why.code : NULL);
	stmt_text(q, ":why", wrong ? w->why.why : NULL);
	return stmt_run_one(q);
}

static void
slot_submit(struct slot *s, int (*run)(struct store *db, struct commit_job *job))
{
	s->busy = true;
	s->job.run = run;
	committer_submit(s->park->parks->net->committer, &s->job);
}

static void
slot_write(struct slot *s)
{
	if (s->busy || s->ending || !s->changed || s->park->parks->ending)
		return;
	s->writing = s->now;
	s->now.taken = s->now.refused = 0;
	s->changed = false;
	slot_submit(s, state_run);
}

static void
slot_set(struct slot *s, enum state state)
{
	s->now.state = state;
	s->changed = true;
	slot_write(s);
}

/*
 * One connection.
 */

static void
slot_close(struct slot *s)
{
	struct loop *loop = s->park->parks->net->env->loop;

	loop_cancel(loop, s->timer);
	s->timer = 0;
	upgrade_drop(s->upgrade);
	s->upgrade = NULL;
	if (s->plain != -1) {
		loop_del(loop, s->plain);
		close(s->plain);
	}
	if (s->told != -1) {
		loop_del(loop, s->told);
		close(s->told);
	}
	s->plain = s->told = -1;
}

/* It is of no use now: it waits, once its row says so, and then is dialled again. */
static void
slot_wait(struct slot *s, const struct refusal *why)
{
	struct store *db = s->park->parks->net->env->db;
	int64_t retry = store_setting(db, "parked.retry_ms");

	if (s->now.state == DIALLING)
		s->now.wait = retry + backoff_jitter(retry / 3);
	else
		s->now.wait = store_setting(db, "parked.refused_ms");
	s->now.why = *why;
	slot_close(s);
	slot_set(s, WAITING);
}

static void
on_waited(void *ctx)
{
	struct slot *s = ctx;

	s->timer = 0;
	slot_set(s, DIALLING);
}

/* Both the lane and the way to the Host are done with it. */
static void
slot_over(struct slot *s)
{
	struct refusal why;

	if (s->told != -1 || s->upgrade != NULL)
		return;
	if (s->reached) {
		s->now.taken++;
		s->now.why = (struct refusal){.code = ""};
		slot_set(s, DIALLING);
		return;
	}
	s->now.refused++;
	refusal_set(
	    &why, "egress.denied", "what the Host asked for last was refused, or not reached");
	slot_wait(s, &why);
}

static void
on_told(void *ctx, uint32_t events)
{
	struct slot *s = ctx;
	char word = 0;
	ssize_t n = recv(s->told, &word, 1, MSG_DONTWAIT);

	(void)events;
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	s->reached = n == 1 && word == PROXY_TAKEN[0];
	loop_del(s->park->parks->net->env->loop, s->told);
	close(s->told);
	s->told = -1;
	slot_over(s);
}

/* The Host says something, or has gone. */
static void
on_parked(void *ctx, uint32_t events)
{
	struct slot *s = ctx;
	struct actor_env *env = s->park->parks->net->env;
	struct refusal why;
	char first;
	ssize_t n = recv(s->plain, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	(void)events;
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	refusal_set(&why, "http.unreachable", "the Host closed it");
	if (n <= 0 || (s->told = handed_give(env->home, s->plain, s->park->pairing, &why)) == -1) {
		slot_wait(s, &why);
		return;
	}
	loop_del(env->loop, s->plain);
	close(s->plain);
	s->plain = -1;
	s->reached = false;
	if (loop_add(env->loop, s->told, EPOLLIN, on_told, s) == -1) {
		refusal_set(&why, "http.memory", "no memory for a connection");
		slot_wait(s, &why);
		return;
	}
	slot_set(s, SERVING);
}

static int
on_taken(void *ctx, int plain, struct tls_peer *peer, struct refusal *r)
{
	struct slot *s = ctx;

	/* Who is at the other end the handshake has shown: the authority that was pinned. */
	tls_peer_free(peer);
	if (loop_add(s->park->parks->net->env->loop, plain, EPOLLIN | EPOLLRDHUP, on_parked, s) ==
	    -1) {
		close(plain);
		return refusal_set(r, "http.memory", "no memory for a connection");
	}
	s->plain = plain;
	s->now.why = (struct refusal){.code = ""};
	slot_set(s, PARKED);
	return 0;
}

static void
on_gone(void *ctx, const struct refusal *why)
{
	struct slot *s = ctx;
	struct refusal closed;

	s->upgrade = NULL;
	if (s->now.state == SERVING) {
		slot_over(s);
		return;
	}
	if (s->now.state == DIALLING)
		s->park->at = (s->park->at + 1) % s->park->nendpoints;
	refusal_set(&closed, "http.unreachable", "the connection was closed");
	slot_wait(s, why != NULL ? why : &closed);
}

static void
slot_dial(struct slot *s)
{
	struct park *park = s->park;
	struct parks *parks = park->parks;
	struct store *db = parks->net->env->db;
	const struct upgrade_config config = {.client = parks->client,
	    .pump = parks->pump,
	    .tls = park->end,
	    .address = park->endpoints[park->at],
	    .name = TLS_HOST_NAME,
	    .path = PARK_PATH,
	    .protocol = PARK_PROTOCOL,
	    .connect_ms = store_setting(db, "parked.dial_ms"),
	    .answer_ms = store_setting(db, "parked.handshake_ms"),
	    .taken = on_taken,
	    .gone = on_gone,
	    .ctx = s};
	struct refusal why;

	snprintf(s->now.endpoint, sizeof(s->now.endpoint), "%s", config.address);
	if ((s->upgrade = upgrade_start(parks->net->env->loop, &config, &why)) == NULL)
		slot_wait(s, &why);
}

/*
 * Pairings.
 */

static void
park_free(struct park *park)
{
	struct park **p;
	unsigned i;

	for (p = &park->parks->first; *p != park; p = &(*p)->next)
		continue;
	*p = park->next;
	for (i = 0; i < park->nslots; i++)
		slot_close(&park->slots[i]);
	for (i = 0; i < park->nendpoints; i++)
		free(park->endpoints[i]);
	tls_end_free(park->end);
	free(park->facts);
	free(park);
}

static void
on_anew(void *ctx)
{
	struct slot *s = ctx;

	s->timer = 0;
	slot_submit(s, begin_run);
}

/* What its row was to say was refused: something changed, and the next look says what.  One that is
 * served all the same begins anew. */
static void
slot_refused(struct slot *s)
{
	struct net *net = s->park->parks->net;

	slot_close(s);
	s->now = (struct standing){.state = DIALLING};
	s->changed = false;
	s->timer =
	    loop_after(net->env->loop, store_setting(net->env->db, "parked.retry_ms"), on_anew, s);
}

/* The row says so: what it authorises begins. */
static void
slot_stands(struct slot *s)
{
	if (s->job.run == begin_run || (s->writing.state == DIALLING && s->now.state == DIALLING))
		slot_dial(s);
	else if (s->writing.state == WAITING)
		s->timer =
		    loop_after(s->park->parks->net->env->loop, s->writing.wait, on_waited, s);
}

static void
slot_done(struct commit_job *job)
{
	struct slot *s = (struct slot *)job;
	struct park *park = s->park;

	s->busy = false;
	if (park->parks->ending)
		return;
	if (s->ending) {
		if (job->run != end_run)
			slot_submit(s, end_run);
		else if (--park->left == 0)
			park_free(park);
		return;
	}
	if (job->result == 0)
		slot_stands(s);
	else
		slot_refused(s);
	slot_write(s);
}

/* All of it ends now; its rows go as soon as the committer is done with them. */
static void
park_end(struct park *park)
{
	unsigned i;

	if (park->left > 0)
		return;
	park->left = park->nslots;
	for (i = 0; i < park->nslots; i++) {
		slot_close(&park->slots[i]);
		park->slots[i].ending = true;
		if (!park->slots[i].busy)
			slot_submit(&park->slots[i], end_run);
	}
}

static int
endpoints_read(struct park *park)
{
	struct stmt *q;
	int more;

	if ((q = store_sql(park->parks->net->env->db, ENDPOINTS)) == NULL)
		return -1;
	stmt_int(q, ":pairing", park->pairing);
	stmt_int(q, ":n", ENDPOINTS_MAX);
	while ((more = stmt_step(q)) == 1)
		if ((park->endpoints[park->nendpoints] = strdup(stmt_get_text(q, 0))) != NULL)
			park->nendpoints++;
	return more == 0 && park->nendpoints > 0 ? 0 : -1;
}

static void
park_new(struct parks *parks, int64_t pairing, const char *facts)
{
	struct net *net = parks->net;
	struct refusal r = {.code = "http.memory", .why = "out of memory"};
	struct park *park;
	unsigned i;

	if ((park = calloc(1, sizeof(*park))) == NULL)
		return;
	park->parks = parks;
	park->pairing = pairing;
	park->found = true;
	park->next = parks->first;
	parks->first = park;
	if ((park->facts = strdup(facts)) == NULL || endpoints_read(park) != 0 ||
	    (park->end = ends_of_pairing(net->env->db, net->env->wire, pairing, &r)) == NULL) {
		fprintf(stderr, "bastion: net: nothing is parked for pairing %" PRId64 ": %s: %s\n",
		    pairing, r.code, r.why);
		park_free(park);
		return;
	}
	park->nslots = (unsigned)store_setting(net->env->db, "parked.slots");
	if (park->nslots > PARK_SLOTS)
		park->nslots = PARK_SLOTS;
	for (i = 0; i < park->nslots; i++) {
		park->slots[i] = (struct slot){.job = {.done = slot_done},
		    .park = park,
		    .number = (int)i,
		    .plain = -1,
		    .told = -1};
		slot_submit(&park->slots[i], begin_run);
	}
}

/* Hold what the row ${q} says against what is parked. */
static void
park_look(struct parks *parks, struct stmt *q)
{
	struct park *park;

	for (park = parks->first; park != NULL; park = park->next)
		if (park->pairing == stmt_get_int(q, 0))
			break;
	if (park == NULL)
		park_new(parks, stmt_get_int(q, 0), stmt_get_text(q, 1));
	else
		/* Else it begins anew once the old rows are gone. */
		park->found = strcmp(park->facts, stmt_get_text(q, 1)) == 0;
}

void
parks_wake(struct net *net)
{
	struct parks *parks = net->parks;
	struct park *park, *next;
	struct stmt *q;
	int more;

	if (parks == NULL || parks->ending || (q = store_sql(net->env->db, PARKS)) == NULL)
		return;
	for (park = parks->first; park != NULL; park = park->next)
		park->found = false;
	while ((more = stmt_step(q)) == 1)
		park_look(parks, q);
	for (park = parks->first; park != NULL && more == 0; park = next) {
		next = park->next;
		if (!park->found)
			park_end(park);
	}
}

int
parks_start(struct net *net, struct refusal *r)
{
	struct tls_limits limits;
	struct parks *parks;

	if (store_run_soft(net->env->db, NONE, r) != 0)
		return -1;
	if ((parks = net->parks = calloc(1, sizeof(*parks))) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	parks->net = net;
	ends_limits(net->env->db, &limits);
	limits.handshake_ms = store_setting(net->env->db, "parked.handshake_ms");
	if ((parks->client = http_client_new(net->env->loop, r)) == NULL ||
	    (parks->pump = tls_pump_new(net->env->loop, &limits, r)) == NULL)
		return -1;
	return 0;
}

void
parks_end(struct net *net)
{
	struct park *park;
	unsigned i;

	if (net->parks == NULL)
		return;
	net->parks->ending = true;
	for (park = net->parks->first; park != NULL; park = park->next)
		for (i = 0; i < park->nslots; i++)
			slot_close(&park->slots[i]);
}

void
parks_free(struct net *net)
{
	struct refusal r;

	if (net->parks == NULL)
		return;
	store_run_soft(net->env->db, NONE, &r);
	while (net->parks->first != NULL)
		park_free(net->parks->first);
	http_client_free(net->parks->client);
	tls_pump_free(net->parks->pump);
	free(net->parks);
	net->parks = NULL;
}
