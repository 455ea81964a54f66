/* verb_ops.c: what Hosts can ask this machine for. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shell/cli.h"
#include "shell/verb.h"

static const char OPS[] = "SELECT name, usage, class, summary FROM op ORDER BY name";

static const char VERBS[] =
    "SELECT name, op, coalesce(tool, '') AS needs,"
    "    CASE works WHEN 1 THEN 'yes' WHEN 0 THEN 'no' ELSE 'not looked yet' END AS works, why"
    "  FROM verb_report ORDER BY name";

/*
 * VERB: ops
 *
 * usage: bastion ops [--json]
 *        bastion ops verbs [--json]
 *        bastion ops drop GRANT | --all [HOST] [--json]
 *
 * List what a Host can ask this machine for: each op, its arguments, and what it answers. With
 * verbs: what the ops that act need, and whether this machine has it. Or take back what a Host was
 * allowed, as bastion grants drop does.
 */
int
verb_ops(struct cli *cli, int argc, char **argv)
{
	bool of_verbs;
	int first;

	if (argc > 1 && strcmp(argv[1], "drop") == 0)
		return verb_grants(cli, argc, argv);
	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	of_verbs = first < argc && strcmp(argv[first], "verbs") == 0;
	if (first + of_verbs < argc)
		return cli_usage(cli, "unexpected word: %s", argv[first + of_verbs]);
	if (cli_open(cli, ROLE_READER) != 0 ||
	    cli_show(cli, store_sql(cli->db, of_verbs ? VERBS : OPS)) < 0)
		return cli_refuse(cli);
	cli_close(cli);
	return 0;
}
