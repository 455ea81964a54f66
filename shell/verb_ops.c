/* verb_ops.c: what Hosts can ask this machine for. */
#include <stdio.h>
#include <string.h>

#include "shell/cli.h"
#include "shell/verb.h"

static const char OPS[] = "SELECT name, usage, class, summary FROM op ORDER BY name";

/*
 * VERB: ops
 *
 * usage: bastion ops [--json]
 *        bastion ops drop GRANT | --all [HOST] [--json]
 *
 * List what a Host can ask this machine for: each op, its arguments, and what it answers. Or take
 * back what a Host was allowed, as bastion grants drop does.
 */
int
verb_ops(struct cli *cli, int argc, char **argv)
{
	int first;

	if (argc > 1 && strcmp(argv[1], "drop") == 0)
		return verb_grants(cli, argc, argv);
	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_usage(cli, "unexpected word: %s", argv[first]);
	if (cli_open(cli, ROLE_READER) != 0 || cli_show(cli, store_sql(cli->db, OPS)) < 0)
		return cli_refuse(cli);
	cli_close(cli);
	return 0;
}
