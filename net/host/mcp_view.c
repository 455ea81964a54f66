/* mcp_view.c: the resources of MCP: views of the database as JSON. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "net/host/mcp_view.h"

static const char IS_HOST[] = "SELECT role = 'host' FROM box";

static const char ADDED[] =
    "SELECT json_insert(:list, '$[#]', json_object('uri', :uri, 'name', :name, 'title', :title,"
    "  'description', :doc, 'mimeType', 'application/json'))";

static const char LIST[] = "SELECT json_object('resources', json(:list))";

/* What may be read.  Each is one JSON text; none shows a secret column, whoever reads. */
static const struct view {
	const char *uri, *name, *title, *doc;
	bool box, host;
	const char *sql;
} views[] = {
    {"bastion://status", "status", "Status",
	"this machine, its daemon, what waits and what is held", true, true,
	"SELECT json_object('name', (SELECT name FROM box), 'role', (SELECT role FROM box),"
	" 'state', (SELECT state FROM live_instance), 'version', (SELECT version FROM live_instance),"
	" 'open_approvals', (SELECT count(*) FROM open_approvals),"
	" 'live_grants', (SELECT count(*) FROM live_grants),"
	" 'live_runs', (SELECT count(*) FROM live_runs),"
	" 'open_calls', (SELECT count(*) FROM call WHERE state IN ('asked', 'sent')))"},
    {"bastion://ops", "ops", "Operations", "the op catalog, with the arguments of each", true, true,
	"SELECT json_group_array(json_object('name', o.name, 'class', o.class, 'usage', o.usage,"
	" 'summary', o.summary, 'input', json(i.schema))) FROM op AS o JOIN op_input AS i"
	" ON i.op = o.name AND i.of = 0 WHERE o.name NOT GLOB 'run:*'"
	" OR o.name IN (SELECT name FROM op_manifest WHERE state = 'active')"},
    {"bastion://added", "added", "Added operations", "what persons added at each machine", false,
	true,
	"SELECT json_group_array(json_object('box', b.box, 'name', b.op, 'usage', b.usage,"
	" 'summary', b.summary, 'input', json(i.schema))) FROM box_ops AS b JOIN op_input AS i"
	" ON i.op = b.op AND i.of = b.of WHERE b.of <> 0"},
    {"bastion://grants", "grants", "Grants", "what Hosts may do on this machine now", true, false,
	"SELECT json_group_array(json_object('id', id, 'host', host, 'op', op, 'args', json(args),"
	" 'uses', uses, 'used', used, 'created_at', created_at, 'expires_at', expires_at,"
	" 'approver', approver)) FROM live_grants"},
    {"bastion://approvals", "approvals", "Open questions", "what waits for a person", true, false,
	"SELECT json_group_array(json_object('id', id, 'host', host, 'op', op, 'args', json(args),"
	" 'uses', uses, 'ttl_ms', ttl_ms, 'asked_at', asked_at, 'expires_at', expires_at))"
	" FROM open_approvals"},
    {"bastion://runs", "runs", "Runs", "the newest 100 runs, and on whose word", true, false,
	"SELECT json_group_array(json_object('id', id, 'host', host, 'op', op, 'args', json(args),"
	" 'state', state, 'exit_code', exit_code, 'queued_at', queued_at, 'finished_at', finished_at,"
	" 'approved_by', approved_by)) FROM (SELECT * FROM run_history ORDER BY id DESC LIMIT 100)"},
    {"bastion://boxes", "boxes", "Machines", "the machines that this Host may ask", false, true,
	"SELECT json_group_array(json_object('name', name, 'state', state, 'paired_at', paired_at,"
	" 'heard_at', heard_at, 'asks', asks)) FROM boxes WHERE state = 'active'"},
    {"bastion://calls", "calls", "Asks", "the newest 100 asks of machines, and how they ended",
	false, true,
	"SELECT json_group_array(json_object('id', id, 'box', box, 'op', op, 'args', json(args),"
	" 'state', state, 'exit_code', exit_code, 'code', code, 'why', why, 'asked_at', asked_at,"
	" 'finished_at', finished_at)) FROM (SELECT c.*, b.name AS box FROM call AS c"
	" JOIN host_box AS b ON b.id = c.box_id ORDER BY c.id DESC LIMIT 100)"},
    {"bastion://audit/tail", "audit-tail", "Audit", "the newest 100 rows of the audit", true, true,
	"SELECT json_group_array(json_object('seq', seq, 'at', at, 'stream', stream, 'who', who,"
	" 'entity', entity, 'id', entity_id, 'action', action, 'pairing', pairing,"
	" 'body', json(body))) FROM (SELECT * FROM audit ORDER BY seq DESC LIMIT 100)"},
};

#define VIEWS (sizeof(views) / sizeof(views[0]))

/* One ask with its answer, by number. */
#define CALL_URI "bastion://calls/"

static const char TEMPLATES[] =
    "SELECT json_object('resourceTemplates', iif((SELECT role FROM box) = 'host', json_array("
    "  json_object('uriTemplate', '" CALL_URI "{id}', 'name', 'call', 'title', 'One ask',"
    "    'description', 'one ask by its number, with the frames of its answer',"
    "    'mimeType', 'application/json')), json_array()))";

static const char ONE_CALL[] =
    "SELECT json_object('id', c.id, 'box', b.name, 'op', c.op, 'args', json(c.args), 'state', c.state,"
    "  'exit_code', c.exit_code, 'code', c.code, 'why', c.why, 'frames',"
    "  (SELECT json_group_array(json(frame)) FROM (SELECT frame FROM call_output"
    "     WHERE call_id = c.id ORDER BY seq)))"
    " FROM call AS c JOIN host_box AS b ON b.id = c.box_id"
    " WHERE c.id = CAST(substr(:uri, length('" CALL_URI "') + 1) AS INTEGER)"
    "   AND :uri = '" CALL_URI "' || c.id";

char *
mcp_text(struct stmt *q)
{
	char *text;

	if (q == NULL || stmt_step(q) != 1)
		return NULL;
	text = stmt_is_null(q, 0) ? NULL : strdup(stmt_get_text(q, 0));
	stmt_done(q);
	return text;
}

static bool
is_host(struct store *db)
{
	return stmt_value(store_sql(db, IS_HOST), 0) == 1;
}

char *
mcp_view_list(struct store *db)
{
	bool host = is_host(db);
	char *list = strdup("[]"), *more;
	struct stmt *q;
	size_t i;

	for (i = 0; i < VIEWS && list != NULL; i++) {
		if (!(host ? views[i].host : views[i].box))
			continue;
		if ((q = store_sql(db, ADDED)) != NULL) {
			stmt_text(q, ":list", list);
			stmt_text(q, ":uri", views[i].uri);
			stmt_text(q, ":name", views[i].name);
			stmt_text(q, ":title", views[i].title);
			stmt_text(q, ":doc", views[i].doc);
		}
		more = mcp_text(q);
		free(list);
		list = more;
	}
	if ((q = list == NULL ? NULL : store_sql(db, LIST)) != NULL)
		stmt_text(q, ":list", list);
	more = mcp_text(q);
	free(list);
	return more;
}

char *
mcp_view_templates(struct store *db)
{
	return mcp_text(store_sql(db, TEMPLATES));
}

char *
mcp_view_read(struct store *db, const char *uri)
{
	bool host = is_host(db);
	struct stmt *q;
	size_t i;

	for (i = 0; i < VIEWS; i++)
		if (strcmp(views[i].uri, uri) == 0 && (host ? views[i].host : views[i].box))
			return mcp_text(store_sql(db, views[i].sql));
	if (!host || (q = store_sql(db, ONE_CALL)) == NULL)
		return NULL;
	stmt_text(q, ":uri", uri);
	return mcp_text(q);
}
