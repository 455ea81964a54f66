/* scan_op.c: the looks themselves, in a process that cannot write. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/agents.h"
#include "engine/worker/answer.h"
#include "engine/worker/scan.h"

#define OWN_MAX 64

static const char SERVER_TABLE[] =
    "CREATE TABLE server (user, client, name, transport, what, env, secrets)";
static const char SERVER_ADD[] = "INSERT INTO server VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
static const char DECLARED[] =
    "SELECT json_object('servers', (SELECT json_group_array(json_object('user', user,"
    "    'client', client, 'name', name, 'transport', transport, 'what', what, 'env', env,"
    "    'secrets', json(iif(secrets, 'true', 'false')))) FROM (SELECT * FROM server ORDER BY rowid)),"
    "  'timed_out', json(iif(?1, 'true', 'false')), 'truncated', json(iif(?2, 'true', 'false')),"
    "  'unread', ?3)";

static const char AGENT_TABLE[] =
    "CREATE TABLE agent (pid, user, agent, evidence, class, admin, interactive, unit, command)";
static const char AGENT_ADD[] = "INSERT INTO agent VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
static const char RUNNING_TABLE[] = "CREATE TABLE running (ord, pid)";
static const char RUNNING_ADD[] = "INSERT INTO running VALUES (?1, ?2)";
static const char UNDECLARED_TABLE[] = "CREATE TABLE undeclared (user, what, pid)";
static const char UNDECLARED_ADD[] = "INSERT INTO undeclared VALUES (?1, ?2, ?3)";
static const char SEEN[] =
    "SELECT json_object('agents', (SELECT json_group_array(json_object('pid', pid, 'user', user,"
    "    'agent', agent, 'evidence', evidence, 'owner_class', class, 'owner_admin', admin,"
    "    'owner_interactive', interactive, 'unit', unit, 'command', command)) FROM agent),"
    "  'running', (SELECT json_group_array(json_array(ord, pid)) FROM running),"
    "  'undeclared', (SELECT json_group_array(json_object('user', user, 'client', '', 'name', '',"
    "    'transport', 'stdio', 'what', what, 'env', '', 'secrets', json('false'), 'pid', pid))"
    "    FROM undeclared))";

/* What a look is made with. */
struct look {
	int root;
	struct agents_limits limits;
	pid_t own[OWN_MAX]; /* processes of this bastion */
	size_t own_count;
	struct answer *out;
	size_t count, at; /* declared servers, and which comes next */
	bool failed;
};

/* The words are of our own worker: numbers of settings, and processes. */
static int
look_open(struct look *l, const struct observe_args *args, const struct observe_env *env,
    struct answer *out)
{
	const char *at;
	char *end;
	long pid;

	memset(l, 0, sizeof(*l));
	l->out = out;
	if (sscanf(args->v[0], "%zu %zu %zu %zu %zu %ld", &l->limits.processes, &l->limits.files,
		&l->limits.file, &l->limits.servers, &l->limits.command, &l->limits.wait_ms) != 6)
		return -1;
	for (at = args->v[1]; l->own_count < OWN_MAX && (pid = strtol(at, &end, 10)) > 0; at = end)
		l->own[l->own_count++] = (pid_t)pid;
	l->root = open(env->root[0] == '\0' ? "/" : env->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return l->root == -1 ? -1 : 0;
}

static void
server_add(struct look *l, const struct tool_server *s)
{
	if (answer_rows(l->out, SERVER_ADD, "tttttti", s->user, s->client, s->name, s->transport,
		s->what, s->env, (int64_t)s->secrets) != 0)
		l->failed = true;
}

static int
declared_run(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct tool_server *list = NULL;
	struct agents_scan scan;
	struct refusal r;
	size_t i, count;
	struct look l;

	(void)limits;
	if (look_open(&l, args, env, out) != 0 || answer_rows(out, SERVER_TABLE, "") != 0 ||
	    agents_declared(l.root, &l.limits, &list, &count, &scan, &r) != 0) {
		free(list);
		return OBSERVE_FAILED;
	}
	for (i = 0; i < count; i++)
		server_add(&l, &list[i]);
	free(list);
	if (l.failed || answer_result(out, DECLARED, "iii", (int64_t)scan.timed_out,
			    (int64_t)scan.truncated, (int64_t)scan.unread) != 0)
		return OBSERVE_FAILED;
	return OBSERVE_DONE;
}

static void
agent_add(void *ctx, const struct agent *a)
{
	struct look *l = ctx;

	if (answer_rows(l->out, AGENT_ADD, "itttttttt", (int64_t)a->pid, a->user, a->signature,
		a->evidence, a->owner.class, a->owner.admin, a->owner.interactive, a->unit,
		a->command) != 0)
		l->failed = true;
}

static void
compared(void *ctx, const struct tool_server *s)
{
	struct look *l = ctx;
	size_t at = l->at++;
	int rc = 0;

	if (at >= l->count)
		rc = answer_rows(l->out, UNDECLARED_ADD, "tti", s->user, s->what, (int64_t)s->pid);
	else if (s->state == SERVER_RUNNING)
		rc = answer_rows(l->out, RUNNING_ADD, "ii", (int64_t)at, (int64_t)s->pid);
	l->failed = l->failed || rc != 0;
}

/* One line for each declared server: what it runs, or nothing where that cannot be seen.  The
 * caller frees the list; NULL without memory. */
static struct tool_server *
lines_read(char *text, size_t *count)
{
	struct tool_server *list;
	char *line, *end;
	size_t n = 0;

	for (line = text; (line = strchr(line, '\n')) != NULL; line++)
		n++;
	list = calloc(n + 1, sizeof(*list));
	for (line = text, *count = 0; list != NULL && *count < n; line = end + 1, (*count)++) {
		end = strchr(line, '\n');
		*end = '\0';
		list[*count].state = SERVER_UNKNOWN;
		list[*count].transport = line[0] == '\0' ? "http" : "stdio";
		snprintf(list[*count].what, sizeof(list->what), "%.127s", line);
	}
	return list;
}

static int
processes_run(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	static char text[SCAN_TEXT];
	struct agents_scan scan = {0};
	struct tool_server *list;
	struct refusal r;
	struct look l;
	int rc;

	(void)limits;
	if (look_open(&l, args, env, out) != 0 || answer_asked(out, text, sizeof(text)) == -1 ||
	    answer_rows(out, AGENT_TABLE, "") != 0 || answer_rows(out, RUNNING_TABLE, "") != 0 ||
	    answer_rows(out, UNDECLARED_TABLE, "") != 0 ||
	    (list = lines_read(text, &l.count)) == NULL)
		return OBSERVE_FAILED;
	rc = agents_each(l.root, &l.limits, l.own, l.own_count, agent_add, &l, &r);
	if (rc == 0)
		rc = agents_compare(l.root, &l.limits, list, l.count, compared, &l, &scan, &r);
	free(list);
	if (rc != 0 || !scan.processes || l.failed || answer_result(out, SEEN, "") != 0)
		return OBSERVE_FAILED;
	return OBSERVE_DONE;
}

static const struct observe_op looks[] = {
    {.name = "scan:declared", .check = observe_no_args, .run = declared_run},
    {.name = "scan:processes", .check = observe_no_args, .run = processes_run},
};

const struct observe_op *
scan_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
		if (strcmp(looks[i].name, name) == 0)
			return &looks[i];
	return NULL;
}
