/* change.c: from a request to the transaction that does it, and back. */
#include <stdlib.h>
#include <string.h>

#include "net/host/change.h"
#include "net/host/remote_port.h"

int
change_refuse(struct net *net, struct http_exchange *x, const char *code, const char *why)
{
	struct refusal r;

	refusal_set(&r, code, "%s", why);
	net_refuse(net, x, &r, NULL);
	return 0;
}

static void
change_gone(void *ctx)
{
	struct change *c = ctx;

	c->x = NULL;
}

static void
change_done(struct commit_job *job)
{
	struct change *c = (struct change *)job;

	if (c->x != NULL && job->result != 0)
		net_refuse(c->net, c->x, &job->refusal, NULL);
	else if (c->x != NULL && c->answer != NULL)
		c->answer(c);
	else if (c->x != NULL)
		http_reply(c->x, 202, NULL, NULL, NULL, 0);
	explicit_bzero(c->body, c->len);
	free(c);
}

struct change *
change_new(struct net *net, struct http_exchange *x, const char *body, size_t len)
{
	struct calls_who who;
	struct change *c;

	if (remote_asks(net, x, &who) != 0)
		return NULL;
	if ((c = malloc(sizeof(*c) + len)) == NULL) {
		change_refuse(net, x, "store.failed", "out of memory");
		return NULL;
	}
	*c = (struct change){.net = net, .x = x, .who = who, .len = len};
	if (len > 0)
		memcpy(c->body, body, len);
	return c;
}

int
change_submit(struct change *c, int (*run)(struct store *db, struct commit_job *job))
{
	c->job.run = run;
	c->job.done = change_done;
	http_on_close(c->x, change_gone, c);
	committer_submit(c->net->committer, &c->job);
	return 0;
}
