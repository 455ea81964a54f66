/* verb_host_pairings.c: which Hosts a box has, as it tells this one. */
#include <stdio.h>

#include "shell/terms.h"

static const char PAIRINGS[] =
    "SELECT host, CASE WHEN state = 'pending' AND unapproved THEN 'pending, for long'"
    "    ELSE state END AS state, since AS since_at, key"
    "  FROM box_pairings WHERE look = :look ORDER BY state = 'pending' DESC, host";

static const char RAW[] =
    "SELECT box, host, handle, state, since AS since_at, unapproved, key, told_at"
    "  FROM box_pairings WHERE look = :look ORDER BY state = 'pending' DESC, host";

/*
 * VERB: host pairings
 *
 * usage: bastion host pairings BOX [--json]
 *
 * Ask the machine BOX which Hosts are paired with it. It tells its anchor of all, with the keys
 * that an approval names, first those that wait for one; any other Host of itself alone. To let one
 * in: bastion host approve-pairing BOX HOST.
 */
int
verb_host_pairings(struct cli *cli, int argc, char **argv)
{
	struct stmt *q;
	int64_t look;
	int first;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one box");
	if (cli_open(cli, ROLE_PERSON) != 0 || terms_look(cli, argv[first], &look) != 0 ||
	    (q = store_sql(cli->db, cli->mode == CLI_JSON ? RAW : PAIRINGS)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":look", look);
	return cli_show(cli, q) == -1 ? cli_refuse(cli) : 0;
}
