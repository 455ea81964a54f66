/* keep.c: try, and try again by a timer. */
#include <stdio.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "engine/worker/keep.h"

bool
keep_passes(const struct refusal *r)
{
	static const char *const codes[] = {
	    "store.full", "store.busy", "store.readonly", "store.failed"};
	size_t i;

	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (strcmp(r->code, codes[i]) == 0)
			return true;
	return false;
}

static void
again(void *ctx)
{
	struct keep *keep = ctx;

	keep->timer = 0;
	keep_now(keep);
}

/* Say it once.  Return whether it is tried again. */
static bool
refused(struct keep *keep)
{
	struct store *db = keep->env->db;
	bool later = keep_passes(store_refusal(db));

	if (!keep->told || !later)
		fprintf(stderr, "bastion: worker: %s could not be kept%s: %s\n", keep->what,
		    later ? " yet" : "", store_refusal(db)->why);
	keep->told = true;
	if (later)
		keep->timer =
		    loop_after(keep->env->loop, store_setting(db, "store.tick_ms"), again, keep);
	return keep->timer != 0;
}

void
keep_now(struct keep *keep)
{
	keep_drop(keep);
	if (keep->write(keep->ctx) == 0 || !refused(keep))
		keep->written(keep->ctx);
}

bool
keep_waits(const struct keep *keep)
{
	return keep->timer != 0;
}

void
keep_drop(struct keep *keep)
{
	if (keep->timer != 0)
		loop_cancel(keep->env->loop, keep->timer);
	keep->timer = 0;
}
