/* runs.c: rows of runs, begun and told of over control.sock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/process.h"
#include "engine/state/run.h"
#include "net/host/change.h"
#include "net/host/runs.h"

#define PORTS_MAX 16

static const char NEW_FORM[] =
    "SELECT json_type(:body) = 'object' AND json_type(:body, '$.state') IS 'text'"
    " AND json_type(:body, '$.nonce') IS 'text' AND json_type(:body, '$.program') IS 'text'"
    " AND json_type(:body, '$.words') IS 'integer' AND json_type(:body, '$.lane') IN ('true', 'false')"
    " AND coalesce(json_type(:body, '$.ports'), 'array') = 'array'"
    " AND json_array_length(coalesce(:body -> '$.ports', '[]')) <= :ports"
    " AND NOT EXISTS (SELECT 1 FROM json_each(:body)"
    "  WHERE key NOT IN ('state', 'nonce', 'program', 'words', 'lane', 'ports'))"
    " AND NOT EXISTS (SELECT 1 FROM json_each(:body, '$.ports') WHERE type <> 'object'"
    "  OR json_type(value, '$.port') IS NOT 'integer' OR json_type(value, '$.inside') IS NOT 'integer'"
    "  OR value ->> '$.port' NOT BETWEEN 1 AND 65535"
    "  OR value ->> '$.inside' NOT BETWEEN 1 AND 65535)";

static const char TOLD_FORM[] =
    "SELECT json_type(:body) = 'object' AND CASE :body ->> '$.state'"
    "  WHEN 'running' THEN json_type(:body, '$.user_ns') IS 'integer'"
    "   AND json_type(:body, '$.pid_ns') IS 'integer'"
    "   AND json_type(:body, '$.capped') IN ('true', 'false')"
    "   AND json_type(:body, '$.notes') IS 'array' AND json_array_length(:body, '$.notes') <= :notes"
    "   AND NOT EXISTS (SELECT 1 FROM json_each(:body, '$.notes') WHERE type <> 'text')"
    "  WHEN 'ended' THEN json_type(:body, '$.exit') IS 'integer'"
    "   AND :body ->> '$.exit' BETWEEN 0 AND 255"
    "  WHEN 'failed' THEN 1 ELSE 0 END"
    " AND NOT EXISTS (SELECT 1 FROM json_each(:body)"
    "  WHERE key NOT IN ('state', 'user_ns', 'pid_ns', 'capped', 'notes', 'exit'))";

static const char ASKED[] =
    "SELECT :body ->> '$.nonce', :body ->> '$.program', :body ->> '$.words',"
    " :body ->> '$.lane'";
static const char STATE[] = "SELECT :body ->> '$.state' = :state";
static const char PORTS[] =
    "SELECT value ->> '$.port', value ->> '$.inside' FROM json_each(:body, '$.ports')";
static const char REPORT[] =
    "SELECT :body ->> '$.state', coalesce(:body ->> '$.user_ns', 0), coalesce(:body ->> '$.pid_ns', 0),"
    " coalesce(:body ->> '$.capped', 0), coalesce(:body ->> '$.exit', 0)";
static const char NOTES[] = "SELECT value FROM json_each(:body, '$.notes')";

/* A line, for clients that read those. */
static const char BEGUN[] =
    "SELECT json_object('id', :id, 'settings', (SELECT json_group_object(name, value) FROM setting"
    " WHERE name IN ('run.tasks', 'run.memory', 'run.scratch', 'run.files', 'run.open_files',"
    "  'run.published', 'sandbox.effect', 'sandbox.start_ms'))) || char(10)";

static struct stmt *
of_body(struct store *db, const char *sql, const char *body, size_t len)
{
	struct stmt *q = store_sql(db, sql);

	if (q != NULL)
		stmt_text_n(q, ":body", body, len);
	return q;
}

/* The body of ${x}, where ${form} says that it is one; or NULL, with ${x} answered. */
static const char *
body_of(struct net *net, struct http_exchange *x, const char *form, const char *bound, int64_t most,
    const char *is, size_t *len)
{
	const char *body = http_body_json(x, len);
	struct stmt *q;

	if (body == NULL)
		return NULL;
	if ((q = of_body(net->env->db, form, body, *len)) == NULL) {
		net_refuse(net, x, store_refusal(net->env->db), NULL);
		return NULL;
	}
	stmt_int(q, bound, most);
	if (stmt_value(q, 0) == 1)
		return body;
	change_refuse(net, x, "op.args", is);
	return NULL;
}

static int
run_submit(struct net *net, struct http_exchange *x, int64_t id, const char *body, size_t len,
    int (*run)(struct store *db, struct commit_job *job), void (*answer)(struct change *c))
{
	struct identity process;
	struct change *c;

	/* The kernel says who it is, and as long as it waits for the answer nobody else is. */
	if (identity_of(http_peer(x)->pid, &process) != 0)
		return change_refuse(net, x, "lane.peer", "who asks cannot be seen from here");
	if ((c = change_new(net, x, body, len)) == NULL)
		return 0;
	c->id = id;
	c->process = process;
	c->answer = answer;
	return change_submit(c, run);
}

/*
 * In the committer's thread.
 */

static int
ports_read(struct store *db, const struct change *c, struct run_port *ports, size_t *count)
{
	struct stmt *q = of_body(db, PORTS, c->body, c->len);
	int n;

	if (q == NULL)
		return -1;
	while ((n = stmt_step(q)) == 1) {
		ports[*count].port = (uint16_t)stmt_get_int(q, 0);
		ports[(*count)++].inside = (uint16_t)stmt_get_int(q, 1);
	}
	return n;
}

static int
new_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;
	struct run_port ports[PORTS_MAX];
	struct run_ask ask = {.sandbox = {.backend = "native", .uid = c->who.uid}, .ports = ports};
	char *nonce = NULL, *program = NULL;
	int64_t process;
	struct stmt *q;
	int rc = -1;

	calls_act_as(db, c->net, &c->who);
	if ((process = process_id(db, &c->process, c->who.uid)) == -1 ||
	    ports_read(db, c, ports, &ask.port_count) != 0 ||
	    (q = of_body(db, ASKED, c->body, c->len)) == NULL || stmt_step(q) != 1)
		return -1;
	nonce = strdup(stmt_get_text(q, 0));
	program = strdup(stmt_get_text(q, 1));
	ask.sandbox.program = program;
	ask.sandbox.words = stmt_get_int(q, 2);
	ask.sandbox.net = stmt_get_int(q, 3) == 1 ? SANDBOX_NET_CAUGHT : SANDBOX_NET_NONE;
	stmt_done(q);
	if (nonce == NULL || program == NULL)
		refusal_set(store_refusal(db), "store.failed", "out of memory");
	else
		rc = run_insert_as(db, &ask, process, nonce, &c->id);
	free(nonce);
	free(program);
	return rc;
}

static int
notes_read(struct store *db, const struct change *c, struct sandbox_report *report)
{
	struct stmt *q = of_body(db, NOTES, c->body, c->len);
	int n;

	if (q == NULL)
		return -1;
	while ((n = stmt_step(q)) == 1)
		snprintf(report->notes[report->note_count++], sizeof(report->notes[0]), "%s",
		    stmt_get_text(q, 0));
	return n;
}

static int
told_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;
	struct sandbox_outcome outcome = {.applied = -1};
	struct sandbox_report report = {0};
	char state[16];
	int64_t process;
	struct stmt *q;

	calls_act_as(db, c->net, &c->who);
	if ((process = process_id(db, &c->process, c->who.uid)) == -1 ||
	    run_of(db, c->id, process) != 0 || (q = of_body(db, REPORT, c->body, c->len)) == NULL ||
	    stmt_step(q) != 1)
		return -1;
	snprintf(state, sizeof(state), "%s", stmt_get_text(q, 0));
	report.user_ns = (uint64_t)stmt_get_int(q, 1);
	report.pid_ns = (uint64_t)stmt_get_int(q, 2);
	report.tasks_capped = stmt_get_int(q, 3) == 1;
	outcome.exit_code = (int)stmt_get_int(q, 4);
	stmt_done(q);
	if (strcmp(state, "running") != 0)
		return sandbox_run_end(db, c->id, strcmp(state, "ended") == 0 ? &outcome : NULL);
	return notes_read(db, c, &report) == 0 ? sandbox_run_placed(db, c->id, &report) : -1;
}

/*
 * And back in the loop's.
 */

static void
new_answer(struct change *c)
{
	struct stmt *q;

	if ((q = store_sql(c->net->env->db, BEGUN)) != NULL)
		stmt_int(q, ":id", c->id);
	net_answer(c->net, c->x, q);
}

/* Is ${body} of who has this daemon's state? */
static bool
is_ours(struct net *net, const char *body, size_t len)
{
	struct stmt *q = of_body(net->env->db, STATE, body, len);
	char state[HOME_TOKEN_SIZE];

	if (q == NULL || home_token(net->env->home, state) != 0)
		return false;
	stmt_text(q, ":state", state);
	return stmt_value(q, 0) == 1;
}

int
runs_new(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	const char *body;
	size_t len;

	body = body_of(net, x, NEW_FORM, ":ports", PORTS_MAX,
	    "a run is {\"state\":text,\"nonce\":text,\"program\":text,\"words\":n,\"lane\":bool,"
	    "\"ports\":[{\"port\":n,\"inside\":n}…]}",
	    &len);
	if (body == NULL)
		return 0;
	if (net->env->home->role == HOME_HOST || !is_ours(net, body, len)) {
		http_reply(x, 421, NULL, NULL, NULL, 0);
		return 0;
	}
	return run_submit(net, x, 0, body, len, new_run, new_answer);
}

int
runs_told(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	const char *body;
	int64_t id = http_digits(http_param(x, "id"));
	size_t len;

	if (id < 1)
		return change_refuse(net, x, "run.over", "there is no such run of this process");
	body = body_of(net, x, TOLD_FORM, ":notes", SANDBOX_NOTES_MAX,
	    "{\"state\":\"running\",\"user_ns\":n,\"pid_ns\":n,\"capped\":bool,\"notes\":[text…]}, "
	    "{\"state\":\"ended\",\"exit\":n} or {\"state\":\"failed\"}",
	    &len);
	return body == NULL ? 0 : run_submit(net, x, id, body, len, told_run, NULL);
}
