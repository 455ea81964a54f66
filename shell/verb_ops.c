/* verb_ops.c: what Hosts can ask this machine for. */
#include <stdio.h>
#include <string.h>

#include "shell/cli.h"
#include "shell/verb.h"

static const char OPS[] = "SELECT name, usage, class, summary FROM op ORDER BY name";

static const char VERBS[] =
    "SELECT name, op, coalesce(tool, '') AS needs,"
    "    CASE works WHEN 1 THEN 'yes' WHEN 0 THEN 'no' ELSE 'not looked yet' END AS works, why"
    "  FROM verb_report ORDER BY name";

static const char DIALS[] =
    "SELECT id, at, host, op, run, what, addresses, state FROM verb_dials ORDER BY id";

static const char FLOWS[] =
    "SELECT id, asked_at, host, op, run, what, state, dialled, up, down, code FROM program_flows"
    " ORDER BY id";

/* What can be looked at beside the ops themselves. */
static const struct {
	const char *word, *sql, *none;
} lists[] = {
    {"verbs", VERBS, "No op acts by a verb."},
    {"dials", DIALS, "No op has reached out yet."},
    {"flows", FLOWS, "No program of an op that was added here has reached out yet."},
};

/*
 * VERB: ops
 *
 * usage: bastion ops [--json]
 *        bastion ops verbs [--json]
 *        bastion ops dials [--json]
 *        bastion ops flows [--json]
 *        bastion ops drop GRANT | --all [HOST] [--json]
 *
 * List what a Host can ask this machine for: each op, its arguments, and what it answers. With
 * verbs: what the ops that act need, and whether this machine has it. With dials: where they
 * reached out to, the newest last; with flows: where the programs of added ops did, or wanted to.
 * Or take back what a Host was allowed, as bastion grants drop does.
 */
int
verb_ops(struct cli *cli, int argc, char **argv)
{
	const char *sql = OPS, *none = "There is no op.";
	size_t i;
	int first;

	if (argc > 1 && strcmp(argv[1], "drop") == 0)
		return verb_grants(cli, argc, argv);
	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	for (i = 0; first < argc && i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strcmp(argv[first], lists[i].word) == 0) {
			sql = lists[i].sql;
			none = lists[i].none;
		}
	first += sql != OPS;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	return cli_list_of(cli, sql, none);
}
