/* bundles.c: from requests to rows of copies, and from their rows to answers. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/bundle.h"
#include "net/host/bundles.h"
#include "net/host/change.h"
#include "net/host/remote_port.h"
#include "net/http/json.h"

/* Whether the body is an ask. */
static const char FORM[] =
    "SELECT json_type(:body) = 'object' AND json_type(:body, '$.name') IS 'text'"
    " AND json_type(:body, '$.cwd') IS 'text' AND (:body ->> '$.cwd') GLOB '/*'"
    " AND length(CAST(:body ->> '$.cwd' AS BLOB)) <= 4095"
    " AND json_type(:body, '$.size') IS 'integer' AND json_type(:body, '$.sha256') IS 'text'"
    " AND NOT EXISTS (SELECT 1 FROM json_each(:body)"
    "  WHERE key NOT IN ('name', 'cwd', 'size', 'sha256'))";
static const char ASKED[] = "SELECT :body ->> '$.name', :body ->> '$.cwd', :body ->> '$.sha256',"
			    "  :body ->> '$.size'";
static const char SHOW[] =
    "SELECT json_object('id', id, 'state', state, 'received', received, 'size', size,"
    " 'path', iif(folder = '/', '', folder) || '/' || name, 'generation', generation,"
    " 'session', session, 'message', message)"
    " FROM remote_bundles WHERE id = :id AND credential_id = :credential";

static int
show(struct net *net, struct http_exchange *x, int64_t credential, int64_t id)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(net->env->db, SHOW)) != NULL) {
		stmt_int(q, ":id", id);
		stmt_int(q, ":credential", credential);
		if ((n = stmt_step(q)) == 1) {
			http_reply(x, 200, "application/json", NULL, stmt_get_text(q, 0),
			    strlen(stmt_get_text(q, 0)));
			stmt_done(q);
			return 0;
		}
		if (n == 0)
			return change_refuse(net, x, "bundle.unknown",
			    "this credential copies nothing of this number");
	}
	net_refuse(net, x, store_refusal(net->env->db), NULL);
	return 0;
}

static void
answer(struct change *c)
{
	show(c->net, c->x, c->who.remote, c->id);
}

/* Where this program is: what a copy runs is the same. */
static int
own_path(char path[PATH_MAX], struct refusal *r)
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	if (n <= 0)
		return refusal_errno(r, "bundle.failed", "/proc/self/exe");
	path[n] = '\0';
	return 0;
}

/* In the committer's thread. */
static int
new_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;
	struct bundle_ask ask = {.credential = c->who.remote};
	char *texts[3] = {NULL}, program[PATH_MAX];
	struct stmt *q;
	int i;

	calls_act_as(db, c->net, &c->who);
	if (own_path(program, store_refusal(db)) != 0 || (q = store_sql(db, ASKED)) == NULL)
		return -1;
	stmt_text_n(q, ":body", c->body, c->len);
	if (stmt_step(q) != 1)
		return -1;
	for (i = 0; i < 3; i++)
		texts[i] = strdup(stmt_get_text(q, i));
	ask.size = stmt_get_int(q, 3);
	stmt_done(q);
	ask.name = texts[0];
	ask.folder = texts[1];
	ask.sha256 = texts[2];
	ask.program = program;
	if (texts[0] == NULL || texts[1] == NULL || texts[2] == NULL)
		c->id = refusal_set(store_refusal(db), "store.failed", "out of memory");
	else
		c->id = bundle_ask(db, &ask);
	for (i = 0; i < 3; i++)
		free(texts[i]);
	return c->id == -1 ? -1 : 0;
}

static int
take_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;

	calls_act_as(db, c->net, &c->who);
	return bundle_take(db, c->who.remote, c->id, c->at, c->body, c->len);
}

int
bundles_new(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct change *c;
	struct stmt *q;
	size_t len;
	const char *body = http_body_json(x, &len);

	if (body == NULL)
		return 0;
	if ((q = store_sql(net->env->db, FORM)) == NULL) {
		net_refuse(net, x, store_refusal(net->env->db), NULL);
		return 0;
	}
	stmt_text_n(q, ":body", body, len);
	if (stmt_value(q, 0) != 1)
		return change_refuse(net, x, "op.args",
		    "an ask is {\"name\":text,\"cwd\":\"/…\",\"size\":n,\"sha256\":hex}");
	if ((c = change_new(net, x, body, len)) == NULL)
		return 0;
	c->answer = answer;
	return change_submit(c, new_run);
}

int
bundles_show(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct calls_who who;

	if (remote_asks(net, x, &who) != 0)
		return 0;
	return show(net, x, who.remote, http_digits(http_param(x, "id")));
}

int
bundles_take(struct http_exchange *x, void *ctx)
{
	int64_t id = http_digits(http_param(x, "id")), at = http_digits(http_query(x, "at"));
	struct net *net = ctx;
	struct change *c;
	size_t len;
	const char *body = http_body(x, &len);

	if (at < 0 || len == 0)
		return change_refuse(net, x, "usage.wrong", "?at=N, and the bytes from N on");
	if ((c = change_new(net, x, body, len)) == NULL)
		return 0;
	c->answer = answer;
	c->id = id;
	c->at = at;
	return change_submit(c, take_run);
}
