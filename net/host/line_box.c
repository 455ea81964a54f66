/* line_box.c: the box's end of lines: Hosts that are dialled, and served on what was dialled. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/host/ends.h"
#include "net/host/line.h"
#include "net/http/reverse.h"
#include "net/http/tls_pump.h"

#define PATH "/v1/line"

static const char DIALLED[] = "SELECT pairing_id, coalesce(endpoints || ' ' || identity, '')"
			      " FROM pairing_dialled";

static const char ENDPOINTS[] = "SELECT value FROM json_each((SELECT endpoints"
				" FROM pairing_dialled WHERE pairing_id = :pairing))";

/* The row that lets us dial. */
static const char BEGIN[] =
    "INSERT INTO pairing_line (pairing_id, changed_at) VALUES (:pairing, now_ms())"
    " ON CONFLICT (pairing_id) DO UPDATE SET up = 0, changed_at = excluded.changed_at";

static const char STATE[] =
    "UPDATE pairing_line SET up = :up, endpoint = :endpoint, code = :code, why = :why,"
    "  changed_at = now_ms() WHERE pairing_id = :pairing";

static const char END[] = "DELETE FROM pairing_line WHERE pairing_id = :pairing";

static const char NONE[] = "DELETE FROM pairing_line";

/* How a dialled pairing stands, as its row has it. */
struct standing {
	unsigned up;
	char endpoint[300];
	struct refusal why; /* empty code: nothing is wrong */
};

enum stage {
	STAGE_ASKED,  /* its row is with the committer */
	STAGE_SERVED, /* it is dialled, or would be, but for ${why} */
	STAGE_ENDING, /* the row is to go */
};

/* A pairing whose Host is dialled. */
struct dial {
	struct commit_job job; /* first */
	struct dial *next;
	struct dials *dials;
	int64_t pairing;
	char *facts; /* endpoints and certificates that it is dialled with */
	enum stage stage;
	bool busy, found; /* the job is with the committer; seen in this look */
	struct tls_end *end;
	struct reverse *reverse;
	struct standing now, writing, written;
};

struct dials {
	struct net *net;
	struct dial *first;
	bool draining; /* no further lines */
	bool ending;   /* and no rows */
};

/*
 * Rows.
 */

static int
begin_run(struct store *db, struct commit_job *job)
{
	struct stmt *q;

	if ((q = store_sql(db, BEGIN)) == NULL)
		return -1;
	stmt_int(q, ":pairing", ((const struct dial *)job)->pairing);
	return stmt_run(q);
}

static int
end_run(struct store *db, struct commit_job *job)
{
	struct stmt *q;

	if ((q = store_sql(db, END)) == NULL)
		return -1;
	stmt_int(q, ":pairing", ((const struct dial *)job)->pairing);
	return stmt_run(q);
}

static int
state_run(struct store *db, struct commit_job *job)
{
	const struct dial *d = (const struct dial *)job;
	const struct standing *s = &d->writing;
	bool wrong = s->why.code[0] != '\0';
	struct stmt *q;

	if ((q = store_sql(db, STATE)) == NULL)
		return -1;
	stmt_int(q, ":pairing", d->pairing);
	stmt_int(q, ":up", s->up);
	stmt_text(q, ":endpoint", s->endpoint[0] != '\0' ? s->endpoint : NULL);
	stmt_text(q, ":code", wrong ? s->why.code : NULL);
	stmt_text(q, ":why", wrong ? s->why.why : NULL);
	return stmt_run(q);
}

static void
dial_submit(struct dial *d, int (*run)(struct store *db, struct commit_job *job))
{
	d->busy = true;
	d->job.run = run;
	committer_submit(d->dials->net->committer, &d->job);
}

static bool
same(const struct standing *a, const struct standing *b)
{
	return a->up == b->up && strcmp(a->endpoint, b->endpoint) == 0 &&
	       strcmp(a->why.code, b->why.code) == 0 && strcmp(a->why.why, b->why.why) == 0;
}

static void
dial_write(struct dial *d)
{
	if (d->busy || d->dials->ending || same(&d->now, &d->written))
		return;
	d->writing = d->now;
	dial_submit(d, state_run);
}

/*
 * Lines.
 */

static void
on_changed(void *ctx, unsigned up, const struct refusal *why)
{
	struct dial *d = ctx;

	d->now.up = up;
	d->now.why = (struct refusal){.code = ""};
	if (why != NULL && up == 0)
		d->now.why = *why;
	if (d->reverse != NULL)
		snprintf(d->now.endpoint, sizeof(d->now.endpoint), "%s", reverse_where(d->reverse));
	dial_write(d);
}

/* Return the endpoints of ${d} in the order to try, ended by NULL; free the text of each. */
static int
endpoints_read(struct dial *d, char **endpoints, size_t size)
{
	struct store *db = d->dials->net->env->db;
	struct stmt *q;
	size_t n = 0;
	int more;

	if ((q = store_sql(db, ENDPOINTS)) == NULL)
		return -1;
	stmt_int(q, ":pairing", d->pairing);
	while ((more = stmt_step(q)) == 1 && n < size - 1)
		if ((endpoints[n] = strdup(stmt_get_text(q, 0))) != NULL)
			n++;
	if (more == 1)
		stmt_done(q);
	endpoints[n] = NULL;
	return n > 0 ? 0 : -1;
}

static int
dial_start(struct dial *d, struct refusal *r)
{
	struct net *net = d->dials->net;
	struct store *db = net->env->db;
	char *endpoints[REVERSE_ADDRESSES_MAX + 1];
	struct tls_limits limits;
	struct reverse_config config = {.addresses = (const char *const *)endpoints,
	    .name = TLS_HOST_NAME,
	    .path = PATH,
	    .limits = &limits,
	    .server = net->server,
	    .peer = {.surface = SURFACE_LANE, .tag = d->pairing},
	    .changed = on_changed,
	    .ctx = d,
	    .connections = (unsigned)store_setting(db, "line.connections"),
	    .connect_ms = store_setting(db, "line.connect_ms"),
	    .answer_ms = store_setting(db, "line.answer_ms"),
	    .first_ms = store_setting(db, "line.first_ms"),
	    .cap_ms = store_setting(db, "line.cap_ms"),
	    .steady_ms = store_setting(db, "line.steady_ms")};
	size_t i;

	ends_limits(db, &limits);
	if ((d->end = ends_of_pairing(db, net->env->wire, d->pairing, r)) == NULL)
		return -1;
	if (endpoints_read(d, endpoints, REVERSE_ADDRESSES_MAX + 1) != 0)
		return refusal_set(
		    r, "pairing.unserved", "the Host of this pairing has no endpoint");
	config.tls = d->end;
	d->reverse = reverse_start(net->env->loop, &config, r);
	for (i = 0; endpoints[i] != NULL; i++)
		free(endpoints[i]);
	return d->reverse != NULL ? 0 : -1;
}

static void
dial_stop(struct dial *d)
{
	reverse_stop(d->reverse);
	tls_end_free(d->end);
	d->reverse = NULL;
	d->end = NULL;
}

static void
dial_free(struct dial *d)
{
	struct dial **p;

	dial_stop(d);
	for (p = &d->dials->first; *p != d; p = &(*p)->next)
		continue;
	*p = d->next;
	free(d->facts);
	free(d);
}

/* What is not dialled for a reason of ours is tried again when its row changes, or at the next
 * tick. */
static void
dial_serve(struct dial *d)
{
	struct refusal r = {.code = "store.failed", .why = "out of memory"};

	d->stage = STAGE_SERVED;
	if (d->dials->draining || dial_start(d, &r) == 0)
		return;
	dial_stop(d);
	d->now.why = r;
	dial_write(d);
}

static void
dial_done(struct commit_job *job)
{
	struct dial *d = (struct dial *)job;

	d->busy = false;
	if (d->dials->ending)
		return;
	if (d->stage == STAGE_ENDING) {
		if (job->run == end_run)
			dial_free(d);
		else
			dial_submit(d, end_run);
		return;
	}
	/* Refused: it changed meanwhile, and the next look says how. */
	if (d->stage == STAGE_ASKED && job->result != 0) {
		dial_free(d);
		return;
	}
	if (d->stage == STAGE_ASKED)
		dial_serve(d);
	else
		d->written = d->writing;
	dial_write(d);
}

/*
 * Which pairings.
 */

static void
dial_new(struct dials *dials, int64_t pairing, const char *facts)
{
	struct dial *d;

	if ((d = calloc(1, sizeof(*d))) == NULL || (d->facts = strdup(facts)) == NULL) {
		free(d);
		return;
	}
	d->job.done = dial_done;
	d->dials = dials;
	d->pairing = pairing;
	d->found = true;
	d->next = dials->first;
	dials->first = d;
	dial_submit(d, begin_run);
}

static struct dial *
dial_of(struct dials *dials, int64_t pairing)
{
	struct dial *d;

	for (d = dials->first; d != NULL; d = d->next)
		if (d->pairing == pairing)
			return d;
	return NULL;
}

/* Its lines close now; the row goes as soon as the committer is done with it. */
static void
dial_end(struct dial *d)
{
	if (d->stage == STAGE_ENDING)
		return;
	dial_stop(d);
	d->stage = STAGE_ENDING;
	if (!d->busy)
		dial_submit(d, end_run);
}

/* Hold what the row ${q} says against what is dialled. */
static void
dial_look(struct dials *dials, struct stmt *q)
{
	struct dial *d = dial_of(dials, stmt_get_int(q, 0));
	const char *facts = stmt_get_text(q, 1);

	if (d == NULL) {
		dial_new(dials, stmt_get_int(q, 0), facts);
		return;
	}
	/* Other endpoints or another certificate: it begins anew once the old row is gone. */
	d->found = strcmp(d->facts, facts) == 0;
	if (d->found && d->stage == STAGE_SERVED && d->reverse == NULL)
		dial_serve(d);
	else if (d->reverse != NULL)
		reverse_look(d->reverse);
}

void
dials_wake(struct net *net)
{
	struct dials *dials = net->dials;
	struct dial *d, *next;
	struct stmt *q;
	int more;

	if (dials == NULL || dials->draining || dials->ending ||
	    (q = store_sql(net->env->db, DIALLED)) == NULL)
		return;
	for (d = dials->first; d != NULL; d = d->next)
		d->found = false;
	while ((more = stmt_step(q)) == 1)
		dial_look(dials, q);
	for (d = dials->first; d != NULL && more == 0; d = next) {
		next = d->next;
		if (!d->found)
			dial_end(d);
	}
}

int
dials_start(struct net *net, struct refusal *r)
{
	if (store_run_soft(net->env->db, NONE, r) != 0)
		return -1;
	if ((net->dials = calloc(1, sizeof(*net->dials))) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	net->dials->net = net;
	return 0;
}

void
dials_drain(struct net *net)
{
	struct dial *d;

	if (net->dials == NULL)
		return;
	net->dials->draining = true;
	for (d = net->dials->first; d != NULL; d = d->next)
		if (d->reverse != NULL)
			reverse_drain(d->reverse);
}

void
dials_end(struct net *net)
{
	struct dial *d;

	if (net->dials == NULL)
		return;
	net->dials->ending = true;
	for (d = net->dials->first; d != NULL; d = d->next)
		dial_stop(d);
}

void
dials_free(struct net *net)
{
	struct refusal r;

	if (net->dials == NULL)
		return;
	store_run_soft(net->env->db, NONE, &r);
	while (net->dials->first != NULL)
		dial_free(net->dials->first);
	free(net->dials);
	net->dials = NULL;
}
