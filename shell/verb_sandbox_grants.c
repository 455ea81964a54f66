/* verb_sandbox_grants.c: what tools may always do, or never. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/tool_grant.h"
#include "shell/cli.h"

static const char LIST[] =
    "SELECT id, tool, iif(scope = '', '*', scope) AS scope, scope_kind AS kind, decision,"
    "    max_autonomy AS up_to, approved_at, reason"
    "  FROM live_tool_grants ORDER BY tool, live_tool_grants.scope, scope_kind";

static const char ONE[] =
    "SELECT id, tool, iif(scope = '', '*', scope) AS scope, scope_kind AS kind, decision,"
    "    max_autonomy AS up_to, approved_at, reason FROM live_tool_grants WHERE id = :id";

struct options {
	const char *path, *autonomy, *reason;
	bool confirm;
};

static int
option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'p':
		o->path = arg;
		return 0;
	case 'a':
		o->autonomy = arg;
		return 0;
	case 'r':
		o->reason = arg;
		return 0;
	default:
		o->confirm = true;
		return 0;
	}
}

/* Relative paths are of the directory in which the person stands. */
static int
here(struct cli *cli, char out[PLACE_MAX])
{
	if (getcwd(out, PLACE_MAX) != NULL)
		return 0;
	return refusal_set(&cli->refusal, "tool_grant.path",
	    "the directory that the path would be of cannot be found: %s", strerror(errno));
}

static int
list(struct cli *cli)
{
	return cli_list_of(cli, LIST, "No tool is always allowed or always denied anything.");
}

static int
give(struct cli *cli, const char *decision, const char *tool, const struct options *o)
{
	struct tool_grant_terms terms = {tool, o->path, NULL, decision, o->autonomy, o->reason};
	char base[PLACE_MAX];
	struct stmt *q;
	int64_t id;

	if (here(cli, base) != 0 || cli_open(cli, ROLE_PERSON) != 0 ||
	    tool_grant_give(cli->db, &terms, base, &id) != 0 ||
	    (q = store_sql(cli->db, ONE)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	return cli_show(cli, q) == -1 ? cli_refuse(cli) : 0;
}

static int
take_back(struct cli *cli, const char *tool, const struct options *o)
{
	char base[PLACE_MAX];
	int64_t count;

	if (here(cli, base) != 0 || cli_open(cli, ROLE_PERSON) != 0 ||
	    tool_grant_revoke(cli->db, tool, o->path, base, &count) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"%s\":%" PRId64 "}\n", tool == NULL ? "cleared" : "revoked", count);
	else if (count == 0)
		printf("Nothing to revoke: no such grant is held.\n");
	else
		printf("%" PRId64 " tool grant%s revoked.\n", count, count == 1 ? "" : "s");
	return 0;
}

/*
 * VERB: sandbox grants
 *
 * usage: bastion sandbox grants [ls] [--json]
 *        bastion sandbox grants allow|deny TOOL [--path PATH] [--auto low|medium|high]
 *            [--reason TEXT] [--json]
 *        bastion sandbox grants revoke TOOL [--path PATH] [--json]
 *        bastion sandbox grants clear --confirm [--json]
 *
 * List what tools may always do, or never; add to that, or take it back. With --path, it is for
 * that file alone, or for that directory and all below it. An allow counts up to the autonomy that
 * --auto names, low where it does not; a deny counts always, and before any allow. Granting the
 * same again takes the place of what was granted. Revoking a tool takes back everything that it was
 * granted.
 */
int
verb_sandbox_grants(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"path", required_argument, NULL, 'p'},
	    {"auto", required_argument, NULL, 'a'}, {"reason", required_argument, NULL, 'r'},
	    {"confirm", no_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
	struct options o = {NULL, NULL, NULL, false};
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 0 || (words == 1 && strcmp(argv[first], "ls") == 0))
		return list(cli);
	if (words == 2 && (strcmp(argv[first], "allow") == 0 || strcmp(argv[first], "deny") == 0))
		return give(cli, argv[first], argv[first + 1], &o);
	if (words == 2 && strcmp(argv[first], "revoke") == 0)
		return take_back(cli, argv[first + 1], &o);
	if (words == 1 && strcmp(argv[first], "clear") == 0 && !o.confirm)
		return cli_usage(cli, "clear takes back all of them: say so with --confirm");
	if (words == 1 && strcmp(argv[first], "clear") == 0)
		return take_back(cli, NULL, &o);
	return cli_unexpected(cli, argv[first]);
}
