/* verb_sandbox_policy.c: the policy of tools: what is in force, and changing it. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/policy.h"
#include "engine/worker/sandbox_backend.h"
#include "shell/cli.h"

static const char LIST[] = "SELECT name, value, source, doc FROM policy_now ORDER BY name";

static const char ENTRIES[] =
    "SELECT kind AS list, path AS entry FROM policy_path"
    " UNION ALL SELECT kind || '_domain', domain FROM policy_domain ORDER BY 1, 2";

/* The fields in the order in which they are read, and what they come to on this machine. */
static const char EFFECTIVE[] =
    "WITH said (name, value) AS (SELECT name, value FROM policy_now),"
    " judged (yes) AS (SELECT value <> 'disabled' FROM said WHERE name = 'mode'),"
    " net (asked, value) AS (SELECT asked, value FROM policy_network WHERE scoped = :scoped)"
    "SELECT name, value FROM (SELECT 1 AS n, 'mode' AS name,"
    "        (SELECT value FROM policy_now WHERE name = 'mode') AS value"
    "    UNION ALL SELECT 2, 'network', value FROM net"
    "    UNION ALL SELECT 3, 'enforce_workspace',"
    "        (SELECT value FROM policy_now WHERE name = 'enforce_workspace')"
    "    UNION ALL SELECT 4, 'write_roots', :roots"
    "    UNION ALL SELECT 5, 'write_roots_error', :error WHERE :error <> ''"
    "    UNION ALL SELECT 6, 'deny_destructive_shell',"
    "        (SELECT value FROM policy_now WHERE name = 'deny_destructive_shell')"
    "    UNION ALL SELECT 7, name, value FROM policy_now WHERE name IN ('ask_unclear',"
    "        'auto_allow_shell', 'enforce_tool_network', 'on_destructive', 'on_network')"
    "    UNION ALL SELECT 8, 'max_autonomy',"
    "        (SELECT value FROM policy_now WHERE name = 'max_autonomy')"
    "    UNION ALL SELECT 9, 'interactive_command_guard', 'enabled'"
    "    UNION ALL SELECT 10, 'policy_evaluation', iif(yes, 'enabled', 'disabled') FROM judged"
    "    UNION ALL SELECT 11, 'destructive_shell_guard', iif(yes AND (SELECT value FROM said"
    "        WHERE name = 'deny_destructive_shell') = '1', 'enabled', 'disabled') FROM judged"
    "    UNION ALL SELECT 12, 'network_guard', iif(yes AND (SELECT value FROM net) = 'deny',"
    "        'enabled', 'disabled') FROM judged"
    "    UNION ALL SELECT 13, 'workspace_guard', iif(yes AND (SELECT value FROM said"
    "        WHERE name = 'enforce_workspace') = '1', 'enabled', 'disabled') FROM judged"
    "    UNION ALL SELECT 14, 'tool_grants', (SELECT count(*) FROM live_tool_grants) || ''"
    "    UNION ALL SELECT 15, 'backend', :backend"
    "    UNION ALL SELECT 16, 'backend_fallback', iif(:isolation, '0', '1')"
    "    UNION ALL SELECT 17, 'support_level', iif(:isolation, 'native', 'policy-only')"
    "    UNION ALL SELECT 18, 'process_isolation', iif(:isolation, 'native', 'unavailable')"
    "    UNION ALL SELECT 19, 'scoped_egress', iif(:scoped, 'native', 'unavailable')"
    "    UNION ALL SELECT 20, 'restriction', 'tools change nothing outside the write roots'"
    "        FROM judged, said WHERE yes AND said.name = 'enforce_workspace' AND said.value = '1'"
    "    UNION ALL SELECT 21, 'restriction', 'what uses the network is refused'"
    "        FROM judged, net WHERE yes AND value = 'deny'"
    "    UNION ALL SELECT 22, 'restriction', 'commands that destroy are refused'"
    "        FROM judged, said WHERE yes AND said.name = 'deny_destructive_shell' AND said.value = '1'"
    "    UNION ALL SELECT 23, 'restriction', iif(:isolation, 'programs run in a sandbox: '"
    "        || :backend, 'tools are judged by what they ask, and nothing confines a program')"
    "    UNION ALL SELECT 24, 'warning', :message WHERE NOT :isolation"
    "    UNION ALL SELECT 25, 'warning', 'nothing runs here but by --backend none, which the"
    " setting sandbox.unconfined ' || iif(value, 'allows', 'forbids')"
    "        FROM setting WHERE name = 'sandbox.unconfined' AND NOT :isolation"
    "    UNION ALL SELECT 26, 'warning', 'nothing here holds a program to domains: the network"
    " \"scoped\" is denied' FROM net WHERE asked = 'scoped' AND NOT :scoped)"
    " ORDER BY n, name";

struct options {
	const char *workspace;
	bool effective, config;
};

static int
option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	if (val == 'w')
		o->workspace = arg;
	else if (val == 'e')
		o->effective = true;
	else
		o->config = true;
	return 0;
}

static int
list(struct cli *cli)
{
	struct stmt *q;
	int rows;

	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, LIST)) == NULL ||
	    cli_show(cli, q) == -1)
		return cli_refuse(cli);
	if (cli->mode != CLI_TABLE)
		return 0;
	putchar('\n');
	if ((q = store_sql(cli->db, ENTRIES)) == NULL || (rows = cli_show(cli, q)) == -1)
		return cli_refuse(cli);
	if (rows == 0)
		printf("No path and no domain is listed.\n");
	return 0;
}

/* DIR as it is called from here. */
static int
absolute(struct cli *cli, const char *workspace, char out[PLACE_MAX])
{
	char here[PLACE_MAX];

	if (getcwd(here, sizeof(here)) == NULL || place_join(here, workspace, out) != 0)
		return refusal_set(
		    &cli->refusal, "policy.request", "this directory cannot be found");
	return 0;
}

static int
effective(struct cli *cli, const char *workspace)
{
	char at[PLACE_MAX], error[1024], room[BACKEND_PATH_MAX], *found = NULL;
	struct sandbox_record record;
	struct sandbox_facts facts;
	struct scope roots = {.count = 0};
	struct stmt *q = NULL;
	size_t i, len;
	int rc = -1;
	FILE *f;

	if (absolute(cli, workspace, at) != 0 || cli_open(cli, ROLE_READER) != 0 ||
	    policy_roots(cli->db, at, cli_home(), &roots, error, sizeof(error)) != 0)
		goto out;
	if ((f = open_memstream(&found, &len)) == NULL)
		goto out;
	for (i = 0; i < roots.count; i++)
		fprintf(f, "%s%s", i > 0 ? ", " : "", roots.roots[i]);
	if (fclose(f) != 0 || (q = store_sql(cli->db, EFFECTIVE)) == NULL)
		goto out;
	stmt_text(q, ":roots", found);
	stmt_text(q, ":error", error);
	sandbox_facts(&facts, getenv("PATH"), room);
	sandbox_backend_best(&facts, &record);
	stmt_text(q, ":backend", record.name);
	stmt_int(q, ":isolation", record.isolation);
	stmt_int(q, ":scoped", record.scoped_egress);
	stmt_text(q, ":message", record.message);
	rc = cli_show(cli, q) == -1 ? -1 : 0;
out:
	scope_free(&roots);
	free(found);
	return rc == 0 ? 0 : cli_refuse(cli);
}

static bool
is_list(const char *word)
{
	static const char *const lists[] = {"allow_read", "deny_read", "allow_write", "deny_write",
	    "write_root", "allow_domain", "deny_domain"};
	size_t i;

	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strcmp(word, lists[i]) == 0)
			return true;
	return false;
}

static int
entry(struct cli *cli, const char *which, const char *text, bool add)
{
	bool changed;

	if (!is_list(which))
		return cli_usage(cli,
		    "the lists are allow_read, deny_read, allow_write, deny_write, "
		    "write_root, allow_domain and deny_domain");
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    policy_entry(cli->db, which, text, add, &changed) != 0)
		return cli_refuse(cli);
	if (!changed)
		printf("Nothing changed: it %s there.\n", add ? "was" : "was not");
	return 0;
}

static int
change(struct cli *cli, const char *name, const char *value, bool config)
{
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    (value != NULL ? policy_set(cli->db, name, config, value)
			   : policy_unset(cli->db, name, config)) != 0)
		return cli_refuse(cli);
	return 0;
}

/*
 * VERB: sandbox policy
 *
 * usage: bastion sandbox policy [--json]
 *        bastion sandbox policy --effective [--workspace DIR] [--json]
 *        bastion sandbox policy set NAME VALUE [--config]
 *        bastion sandbox policy unset NAME [--config]
 *        bastion sandbox policy add|remove LIST ENTRY
 *
 * Show the policy by which tools of agents are held, with its paths and domains, or change it. Each
 * field says who set it. With --effective, what it comes to in the directory DIR, by default this
 * one and on this machine: a network that nothing could hold is denied, a directory that is gone is
 * no root; by what programs are confined here, what that restricts, and what it does not. With
 * --config it is the word of a configuration, which may only harden what a person said; of two
 * words the person's counts otherwise.
 */
int
verb_sandbox_policy(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"effective", no_argument, NULL, 'e'},
	    {"workspace", required_argument, NULL, 'w'}, {"config", no_argument, NULL, 'c'},
	    {NULL, 0, NULL, 0}};
	struct options o = {".", false, false};
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 0)
		return o.effective ? effective(cli, o.workspace) : list(cli);
	if (words == 3 && strcmp(argv[first], "set") == 0)
		return change(cli, argv[first + 1], argv[first + 2], o.config);
	if (words == 2 && strcmp(argv[first], "unset") == 0)
		return change(cli, argv[first + 1], NULL, o.config);
	if (words == 3 && strcmp(argv[first], "add") == 0)
		return entry(cli, argv[first + 1], argv[first + 2], true);
	if (words == 3 && strcmp(argv[first], "remove") == 0)
		return entry(cli, argv[first + 1], argv[first + 2], false);
	return cli_unexpected(cli, argv[first]);
}
