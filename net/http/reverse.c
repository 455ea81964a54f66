/* reverse.c: the box's end: dial, upgrade, serve, and again. */
#include <sys/queue.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/backoff.h"
#include "net/http/reverse.h"
#include "net/http/upgrade.h"

/* One connection, from its dialling on. */
struct line {
	struct reverse *reverse;
	struct upgrade *upgrade;
	unsigned at;   /* of the addresses */
	bool served;   /* the server has the socket */
	int64_t since; /* when it was: loop_now */
	TAILQ_ENTRY(line) entry;
};

struct reverse {
	struct loop *loop;
	struct reverse_config config;
	char **addresses, *name, *path;
	unsigned naddresses, at,
	    tried; /* the one to dial; how many failed since the last success */
	struct http_client *client;
	struct tls_pump *pump;
	struct reverse_plan plan;
	uint64_t timer;
	TAILQ_HEAD(lines, line) lines;
};

/* The plan. */

int64_t
reverse_plan_next(const struct reverse_plan *plan, int64_t now)
{
	if (plan->dialling + plan->up >= plan->wanted || (plan->failures > 0 && plan->dialling > 0))
		return -1;
	return plan->not_before > now ? plan->not_before - now : 0;
}

void
reverse_plan_dial(struct reverse_plan *plan)
{
	plan->dialling++;
}

void
reverse_plan_aside(struct reverse_plan *plan)
{
	plan->dialling--;
}

void
reverse_plan_up(struct reverse_plan *plan)
{
	plan->dialling--;
	plan->up++;
}

void
reverse_plan_down(struct reverse_plan *plan, int64_t now, int64_t lived_ms)
{
	if (lived_ms < 0)
		plan->dialling--;
	else
		plan->up--;
	if (lived_ms >= plan->steady_ms)
		plan->failures = 0;
	else if (now >= plan->not_before && plan->failures < INT32_MAX)
		plan->failures++; /* what is lost together is one failure */
	if (now < plan->not_before)
		return;
	plan->not_before =
	    now + backoff_jitter(backoff_base(plan->failures - 1, plan->first_ms, plan->cap_ms));
}

/* Lines. */

static void dial_due(struct reverse *reverse);

static void
line_free(struct line *l)
{
	TAILQ_REMOVE(&l->reverse->lines, l, entry);
	upgrade_drop(l->upgrade);
	free(l);
}

/*
 * A dial of the address ${at} has failed.  Return whether there is another one to try before that
 * counts: once all have failed, they are tried again ever more slowly.
 */
static bool
another(struct reverse *reverse, unsigned at)
{
	if (at != reverse->at)
		return true;
	reverse->at = (at + 1) % reverse->naddresses;
	reverse->tried = (reverse->tried + 1) % reverse->naddresses;
	return reverse->tried != 0;
}

/* A line has failed or is lost. */
static void
on_gone(void *ctx, const struct refusal *why)
{
	struct line *l = ctx;
	struct reverse *reverse = l->reverse;
	int64_t lived = l->served ? loop_now() - l->since : -1;
	unsigned at = l->at;
	struct refusal closed;

	l->upgrade = NULL;
	line_free(l);
	if (lived < 0 && another(reverse, at))
		reverse_plan_aside(&reverse->plan);
	else
		reverse_plan_down(&reverse->plan, loop_now(), lived);
	if (why == NULL) {
		refusal_set(&closed, "http.unreachable", "the connection was closed");
		why = &closed;
	}
	if (reverse->config.changed != NULL)
		reverse->config.changed(reverse->config.ctx, reverse->plan.up, why);
	dial_due(reverse);
}

/* The upgrade. */

static int
on_taken(void *ctx, int plain, struct tls_peer *tls, struct refusal *r)
{
	struct line *l = ctx;
	struct reverse *reverse = l->reverse;
	struct http_peer peer = reverse->config.peer;

	peer.pid = 0;
	peer.uid = HTTP_NOBODY;
	peer.gid = (gid_t)-1;
	peer.tls = tls;
	snprintf(peer.address, sizeof(peer.address), "%s", reverse->addresses[l->at]);
	if (http_serve_fd(reverse->config.server, plain, &peer) == -1)
		return refusal_set(r, "http.busy", "our server takes no more connections");
	l->served = true;
	l->since = loop_now();
	reverse->at = l->at;
	reverse->tried = 0;
	reverse_plan_up(&reverse->plan);
	if (reverse->config.changed != NULL)
		reverse->config.changed(reverse->config.ctx, reverse->plan.up, NULL);
	dial_due(reverse);
	return 0;
}

static int
on_head(void *ctx, char *head, size_t size, struct refusal *r)
{
	const struct line *l = ctx;
	struct reverse *reverse = l->reverse;
	char proof[REVERSE_PROOF_MAX + 1];
	int n;

	proof[0] = '\0';
	if (reverse->config.prove != NULL &&
	    reverse->config.prove(reverse->config.ctx, proof, r) == -1)
		return -1;
	n = snprintf(head, size, "%s: %" PRId64 "\r\n%s%s%s", REVERSE_IDLE,
	    http_server_idle_ms(reverse->config.server), proof[0] != '\0' ? REVERSE_PROOF ": " : "",
	    proof, proof[0] != '\0' ? "\r\n" : "");
	return n < (int)size ? n : -1;
}

/* Dialling. */

static int
dial(struct reverse *reverse, struct refusal *r)
{
	struct upgrade_config config = {.client = reverse->client,
	    .pump = reverse->pump,
	    .tls = reverse->config.tls,
	    .address = reverse->addresses[reverse->at],
	    .name = reverse->name,
	    .path = reverse->path,
	    .protocol = REVERSE_PROTOCOL,
	    .connect_ms = reverse->config.connect_ms,
	    .answer_ms = reverse->config.answer_ms,
	    .head = on_head,
	    .taken = on_taken,
	    .gone = on_gone};
	struct line *l;

	if ((l = calloc(1, sizeof(*l))) == NULL)
		return refusal_set(r, "http.memory", "no memory for a connection");
	l->reverse = reverse;
	l->at = reverse->at;
	config.ctx = l;
	TAILQ_INSERT_TAIL(&reverse->lines, l, entry);
	if ((l->upgrade = upgrade_start(reverse->loop, &config, r)) != NULL)
		return 0;
	line_free(l);
	return -1;
}

static void
on_due(void *ctx)
{
	struct reverse *reverse = ctx;
	struct refusal r;

	reverse->timer = 0;
	while (reverse_plan_next(&reverse->plan, loop_now()) == 0) {
		reverse_plan_dial(&reverse->plan);
		if (dial(reverse, &r) == -1)
			reverse_plan_down(&reverse->plan, loop_now(), -1);
	}
	dial_due(reverse);
}

/* Set the timer for the next dial. */
static void
dial_due(struct reverse *reverse)
{
	int64_t ms = reverse_plan_next(&reverse->plan, loop_now());

	loop_cancel(reverse->loop, reverse->timer);
	reverse->timer = ms >= 0 ? loop_after(reverse->loop, ms, on_due, reverse) : 0;
}

static int
copy_addresses(struct reverse *reverse, const char *const *addresses)
{
	unsigned n = 0;

	while (n < REVERSE_ADDRESSES_MAX && addresses[n] != NULL)
		n++;
	if (n == 0 || (reverse->addresses = calloc(n, sizeof(*reverse->addresses))) == NULL)
		return -1;
	for (; reverse->naddresses < n; reverse->naddresses++)
		if ((reverse->addresses[reverse->naddresses] =
			    strdup(addresses[reverse->naddresses])) == NULL)
			return -1;
	return 0;
}

static int
copy_config(struct reverse *reverse, const struct reverse_config *config)
{
	reverse->config = *config;
	reverse->plan = (struct reverse_plan){.wanted = config->connections,
	    .first_ms = config->first_ms,
	    .cap_ms = config->cap_ms,
	    .steady_ms = config->steady_ms};
	return copy_addresses(reverse, config->addresses) == 0 &&
		       (reverse->name = strdup(config->name)) != NULL &&
		       (reverse->path = strdup(config->path)) != NULL
		   ? 0
		   : -1;
}

struct reverse *
reverse_start(struct loop *loop, const struct reverse_config *config, struct refusal *r)
{
	struct reverse *reverse;

	if ((reverse = calloc(1, sizeof(*reverse))) == NULL) {
		refusal_set(r, "http.memory", "no memory for connections");
		return NULL;
	}
	reverse->loop = loop;
	TAILQ_INIT(&reverse->lines);
	if (copy_config(reverse, config) == -1)
		refusal_set(r, "http.memory", "no memory for connections");
	else if ((reverse->client = http_client_new(loop, r)) != NULL &&
		 (reverse->pump = tls_pump_new(loop, config->limits, r)) != NULL) {
		dial_due(reverse);
		return reverse;
	}
	reverse_stop(reverse);
	return NULL;
}

void
reverse_look(struct reverse *reverse)
{
	if (reverse->timer == 0)
		dial_due(reverse);
}

void
reverse_drain(struct reverse *reverse)
{
	reverse->plan.wanted = 0;
	loop_cancel(reverse->loop, reverse->timer);
	reverse->timer = 0;
}

const char *
reverse_where(const struct reverse *reverse)
{
	return reverse->addresses[reverse->at];
}

void
reverse_stop(struct reverse *reverse)
{
	if (reverse == NULL)
		return;
	loop_cancel(reverse->loop, reverse->timer);
	while (!TAILQ_EMPTY(&reverse->lines))
		line_free(TAILQ_FIRST(&reverse->lines));
	http_client_free(reverse->client);
	tls_pump_free(reverse->pump);
	while (reverse->naddresses > 0)
		free(reverse->addresses[--reverse->naddresses]);
	free(reverse->addresses);
	free(reverse->name);
	free(reverse->path);
	free(reverse);
}
