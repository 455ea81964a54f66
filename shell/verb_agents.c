/* verb_agents.c: which agents run here, as whom, and which tool servers they declare. */
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/agents.h"
#include "shell/cli.h"
#include "shell/text.h"

static const char OWN[] =
    "SELECT p.pid FROM process AS p JOIN actor_run AS a ON a.process_id = p.id"
    " WHERE a.state IN ('starting', 'running')";

static const char AGENTS[] =
    "SELECT value ->> '$.pid' AS pid, value ->> '$.user' AS user, value ->> '$.agent' AS agent,"
    "    value ->> '$.evidence' AS evidence, value ->> '$.class' AS owner_class,"
    "    value ->> '$.admin' AS owner_admin, value ->> '$.interactive' AS owner_interactive,"
    "    value ->> '$.unit' AS unit, value ->> '$.command' AS command FROM json_each(:rows)";

static const char SERVERS[] =
    "SELECT value ->> '$.user' AS user, value ->> '$.client' AS client, value ->> '$.name' AS name,"
    "    value ->> '$.transport' AS transport, value ->> '$.what' AS what,"
    "    value ->> '$.env' AS variables, value ->> '$.secrets' AS secrets,"
    "    value ->> '$.state' AS state, value ->> '$.pid' AS pid FROM json_each(:rows)";

/* Rows as JSON, which SQL takes apart again for the table. */
struct rows {
	FILE *f;
	size_t count;
};

static void
field(FILE *f, const char *name, const char *value)
{
	fprintf(f, ",\"%s\":", name);
	text_json(f, value, strlen(value));
}

static void
agent_add(void *ctx, const struct agent *a)
{
	struct rows *rows = ctx;

	fprintf(rows->f, "%s{\"pid\":%d", rows->count++ > 0 ? "," : "", (int)a->pid);
	field(rows->f, "user", a->user);
	field(rows->f, "agent", a->signature);
	field(rows->f, "evidence", a->evidence);
	field(rows->f, "class", a->owner.class);
	field(rows->f, "admin", a->owner.admin);
	field(rows->f, "interactive", a->owner.interactive);
	field(rows->f, "unit", a->unit);
	field(rows->f, "command", a->command);
	fputc('}', rows->f);
}

static void
server_add(void *ctx, const struct tool_server *s)
{
	static const char *const states[] = {
	    "running", "declared_not_running", "running_not_declared", "unknown"};
	struct rows *rows = ctx;

	fprintf(rows->f, "%s{\"pid\":", rows->count++ > 0 ? "," : "");
	if (s->pid > 0)
		fprintf(rows->f, "%d", (int)s->pid);
	else
		fputs("null", rows->f);
	field(rows->f, "user", s->user);
	field(rows->f, "client", s->client);
	field(rows->f, "name", s->name);
	field(rows->f, "transport", s->transport);
	field(rows->f, "what", s->what);
	field(rows->f, "env", s->env);
	field(rows->f, "secrets", s->secrets ? "yes" : "no");
	field(rows->f, "state", states[s->state]);
	fputc('}', rows->f);
}

static void
limits_read(struct store *db, struct agents_limits *limits)
{
	limits->processes = (size_t)store_setting(db, "agents.processes");
	limits->files = (size_t)store_setting(db, "agents.files");
	limits->file = (size_t)store_setting(db, "agents.file");
	limits->servers = (size_t)store_setting(db, "agents.servers");
	limits->command = (size_t)store_setting(db, "agents.command");
	limits->wait_ms = store_setting(db, "agents.wait_ms");
}

/* The processes of this bastion: what they start is theirs. */
static size_t
own_read(struct store *db, pid_t *own, size_t most)
{
	struct stmt *q = store_sql(db, OWN);
	size_t n = 0;

	while (q != NULL && stmt_step(q) == 1)
		if (n < most)
			own[n++] = (pid_t)stmt_get_int(q, 0);
	return n;
}

static int
show(struct cli *cli, const char *sql, const char *json, const char *none)
{
	struct stmt *q;
	int rows;

	if ((q = store_sql(cli->db, sql)) == NULL)
		return -1;
	stmt_text(q, ":rows", json);
	if ((rows = cli_show(cli, q)) == 0 && cli->mode == CLI_TABLE)
		printf("%s\n", none);
	return rows;
}

/* Scan, and show what was found; ${servers}: what is declared instead of what runs. */
static int
scan(struct cli *cli, int root, bool servers)
{
	struct agents_limits limits;
	struct agents_scan said = {0};
	struct rows rows = {NULL, 0};
	pid_t own[256];
	char *json = NULL;
	size_t len;
	int rc;

	limits_read(cli->db, &limits);
	if ((rows.f = open_memstream(&json, &len)) == NULL)
		return refusal_set(&cli->refusal, "agents.failed", "out of memory");
	fputc('[', rows.f);
	rc = servers ? agents_servers(root, &limits, server_add, &rows, &said, &cli->refusal)
		     : agents_each(root, &limits, own, own_read(cli->db, own, 256), agent_add,
			   &rows, &cli->refusal);
	fputc(']', rows.f);
	if (fclose(rows.f) != 0)
		rc = refusal_set(&cli->refusal, "agents.failed", "out of memory");
	if (rc == 0)
		rc = show(cli, servers ? SERVERS : AGENTS, json,
		    servers ? "No client here declares a tool server."
			    : "No agent runs here that is known by its name.");
	free(json);
	if (rc >= 0 && (said.timed_out || said.truncated || said.unread > 0))
		fprintf(stderr,
		    "bastion: agents: not all was read (%zu files unread%s%s), so nothing is called "
		    "undeclared\n",
		    said.unread, said.timed_out ? ", out of time" : "",
		    said.truncated ? ", more than agents.servers" : "");
	return rc == -1 ? -1 : 0;
}

static int
agents_option(void *ctx, int val, const char *arg)
{
	bool *servers = ctx;

	(void)val;
	(void)arg;
	*servers = true;
	return 0;
}

/*
 * VERB: agents
 *
 * usage: bastion agents [--servers] [--json]
 *
 * List the AI agents that run on this machine, and as whom. Each stands with its account: a person,
 * a service or the system; an administrator or not; logged in or not. What cannot be found out is
 * unknown, never no. What this bastion started itself is left out. With --servers, the tool servers
 * (MCP) that the clients of all accounts declare in their files, whether they run, and those that
 * run undeclared. Of variables and headers the names are shown, values never; nothing is started or
 * dialled. Root sees all accounts, others what they may read.
 */
int
verb_agents(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"servers", no_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
	bool servers = false;
	int first, root, rc = -1;

	if ((first = cli_options(cli, argc, argv, longopts, agents_option, &servers)) < 0)
		return first == -2 ? 0 : 2;
	if (argc > first)
		return cli_unexpected(cli, argv[first]);
	if (cli_open(cli, ROLE_READER) != 0)
		return cli_refuse(cli);
	if ((root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) == -1)
		refusal_errno(&cli->refusal, "agents.failed", "/");
	else
		rc = scan(cli, root, servers);
	if (root != -1)
		close(root);
	return rc == 0 ? 0 : cli_refuse(cli);
}
