/* verb_unpair.c: take a pairing back. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/state/pairing.h"
#include "shell/cli.h"

static void
unpaired(const struct cli *cli, const char *host, const struct pairing_end *end)
{
	if (cli->mode == CLI_JSON) {
		printf("{\"grants\":%" PRId64 ",\"questions\":%" PRId64 ",\"runs\":%" PRId64
		       ",\"anchor\":%s}\n",
		    end->grants, end->questions, end->runs, end->anchor ? "true" : "false");
		return;
	}
	printf("%s may not ask any more. With the pairing went %" PRId64 " grants, %" PRId64
	       " open questions and %" PRId64 " waiting runs.\n",
	    host, end->grants, end->questions, end->runs);
	if (end->anchor)
		printf("It is the anchor of this machine, which answers nobody now. Another takes "
		       "its place with its\nconsent or after its silence: bastion claim-anchor "
		       "--rotate\n");
}

/*
 * VERB: unpair
 *
 * usage: bastion unpair HOST [--json]
 *
 * Take the pairing with HOST back, and with it every grant, open question and waiting run of it, at
 * once. HOST is its name, or that up to the first dot where one alone has it. What it did stays in
 * the history. Pairing anew begins with nothing granted.
 */
int
verb_unpair(struct cli *cli, int argc, char **argv)
{
	struct pairing pairing;
	struct pairing_end end;
	int first;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one Host");
	if (cli_open(cli, ROLE_PERSON) != 0 || pairing_pick(cli->db, argv[first], &pairing) != 0 ||
	    pairing_revoke(cli->db, pairing.id, &end) != 0)
		return cli_refuse(cli);
	unpaired(cli, pairing.host, &end);
	return 0;
}
