/* work.c: programs run for a verb, line by line, and what became of it. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/worker/probe.h"
#include "engine/worker/work.h"

static const char ITEM_TABLE[] = "CREATE TABLE item (change, name)";
static const char ITEM_ADD[] = "INSERT INTO item VALUES (?1, ?2)";

struct work
work_of(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	return (struct work){.args = args,
	    .limits = limits,
	    .env = env,
	    .out = out,
	    .refusal = {.code = "act.failed", .why = "the answer could not be made"}};
}

int
work_first(void *ctx, const char *line, size_t len)
{
	struct work *w = ctx;

	if (w->first[0] == '\0')
		snprintf(w->first, sizeof(w->first), "%.*s", (int)len, line);
	return 0;
}

int
work_run(struct work *w, enum tool which, const struct tool_fill *fill,
    int (*take)(void *, const char *, size_t))
{
	struct tool_lines lines = {.line = take, .ctx = w};
	char why[REFUSAL_WHY_MAX];
	int rc;

	w->first[0] = '\0';
	if ((rc = tool_run(which, w->env, fill, w->limits->tool_ms, tool_lines_sink, &lines, why,
		 sizeof(why))) == -1)
		return refusal_set(&w->refusal, "act.failed", "%s", why);
	tool_lines_end(&lines);
	return w->failed ? refusal_set(&w->refusal, "act.failed", "the answer could not be made")
			 : rc;
}

bool
work_lacks(struct work *w, const char *op)
{
	const char *lack = probe_lacks(op, w->env);

	if (lack == NULL)
		return false;
	refusal_set(&w->refusal, "act.tool", "this machine has no %s", lack);
	return true;
}

int
work_items(struct work *w)
{
	return answer_rows(w->out, ITEM_TABLE, "");
}

int
work_item(struct work *w, const char *change, const char *name)
{
	w->failed = w->failed || answer_rows(w->out, ITEM_ADD, "tt", change, name) == -1;
	return w->failed;
}

int
work_ends(struct work *w, int rc)
{
	if (rc == 0)
		return OBSERVE_DONE;
	return answer_refused(w->out, &w->refusal,
	    strcmp(w->refusal.code, "act.tool") == 0     ? OBSERVE_MISSING
	    : strcmp(w->refusal.code, "act.failed") == 0 ? OBSERVE_FAILED
							 : OBSERVE_WRONG);
}

bool
work_word(const char *text, const char *more, size_t most)
{
	size_t i;

	for (i = 0; text[i] != '\0'; i++)
		if (!isascii((unsigned char)text[i]) ||
		    (!isalnum((unsigned char)text[i]) && (i == 0 || strchr(more, text[i]) == NULL)))
			return false;
	return i >= 1 && i <= most;
}
