/* verb_unpair.c: take a pairing back. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/state/pairing.h"
#include "shell/cli.h"

/*
 * VERB: unpair
 *
 * usage: bastion unpair HOST [--json]
 *
 * Take the pairing with HOST back, and with it every grant, open question and waiting run of it, at
 * once. What it did stays in the history. Pairing anew begins with nothing granted.
 */
int
verb_unpair(struct cli *cli, int argc, char **argv)
{
	struct pairing_end end;
	int first;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one Host");
	if (cli_open(cli, ROLE_PERSON) != 0 || pairing_revoke(cli->db, argv[first], &end) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"grants\":%" PRId64 ",\"questions\":%" PRId64 ",\"runs\":%" PRId64 "}\n",
		    end.grants, end.questions, end.runs);
	else
		printf("%s may not ask any more. With the pairing went %" PRId64 " grants, %" PRId64
		       " open questions and %" PRId64 " waiting runs.\n",
		    argv[first], end.grants, end.questions, end.runs);
	return 0;
}
