/* typing.c: keys of one typist, in order, into rows. */
#include <stdio.h>
#include <string.h>

#include "engine/state/session.h"
#include "net/host/change.h"
#include "net/host/sessions.h"
#include "net/host/typing.h"

#define PIECES_MAX 999999999999999 /* exact wherever JSON is read */

static const char SITS[] =
    "SELECT json_object('terminal', json(iif(s.terminal, 'true', 'false')), 'n', t.n,"
    "  'ms', (SELECT value FROM setting WHERE name = 'session.typist_ms'))"
    "  FROM session AS s JOIN session_typist AS t ON t.session_id = s.id WHERE s.id = :id";

/* In the committer's thread, as both below. */
static int
type_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;

	calls_act_as(db, c->net, &c->who);
	return session_type(db, c->id, c->word, c->at, c->kind, c->body, c->len);
}

static int
leave_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;

	calls_act_as(db, c->net, &c->who);
	return session_leave(db, c->id, c->word);
}

static void
answer(struct change *c)
{
	struct stmt *q;

	if ((q = store_sql(c->net->env->db, SITS)) != NULL)
		stmt_int(q, ":id", c->id);
	/* It may be over by now. */
	if (q != NULL && stmt_step(q) == 1) {
		http_reply(c->x, 200, "application/json", NULL, stmt_get_text(q, 0),
		    strlen(stmt_get_text(q, 0)));
		stmt_done(q);
		return;
	}
	change_refuse(c->net, c->x, "session.over", "this session is over");
}

/* As a terminal may be: 80x24. */
static bool
is_size(const char *text)
{
	size_t cols = strspn(text, "0123456789"), rows;

	if (cols < 1 || cols > 4 || text[0] == '0' || text[cols] != 'x' || text[cols + 1] == '0')
		return false;
	rows = strspn(text + cols + 1, "0123456789");
	return rows >= 1 && rows <= 4 && text[cols + 1 + rows] == '\0';
}

int
typing_keys(struct http_exchange *x, void *ctx)
{
	const char *typist = http_query(x, "typist"), *size = http_query(x, "size");
	const char *leave = http_query(x, "leave");
	int64_t n = http_digits(http_query(x, "n")), id;
	struct net *net = ctx;
	struct change *c;
	size_t len;
	const char *body = http_body(x, &len);

	if (typist == NULL || strlen(typist) != 32 || n < 0 || n > PIECES_MAX)
		return change_refuse(net, x, "session.typist",
		    "a typist is 32 hex digits, and its pieces are numbered");
	if ((size != NULL && (len > 0 || !is_size(size))) ||
	    (leave != NULL && (len > 0 || size != NULL || strcmp(leave, "1") != 0)))
		return change_refuse(net, x, "usage.wrong",
		    "the body is what is typed; or &size=80x24 and no body; or &leave=1");
	if ((id = sessions_named(net, x, "send")) == 0)
		return 0;
	if ((c = size != NULL ? change_new(net, x, size, strlen(size))
			      : change_new(net, x, body, len)) == NULL)
		return 0;
	c->id = id;
	c->at = n;
	c->kind = size != NULL ? "size" : len > 0 ? "data" : NULL;
	snprintf(c->word, sizeof(c->word), "%s", typist);
	if (leave != NULL)
		return change_submit(c, leave_run);
	c->answer = answer;
	return change_submit(c, type_run);
}
