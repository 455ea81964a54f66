/* verb_host_withdraw.c: take an invitation back. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/state/invitation.h"
#include "shell/cli.h"

/*
 * VERB: host withdraw
 *
 * usage: bastion host withdraw NAME [--json]
 *
 * Take the open invitation for the machine NAME back: its code does nothing from then on.
 * Withdrawing what is not open is no failure.
 */
int
verb_host_withdraw(struct cli *cli, int argc, char **argv)
{
	int64_t count;
	int first;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one machine");
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    invitation_withdraw(cli->db, argv[first], &count) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"withdrawn\":%" PRId64 "}\n", count);
	else
		printf(count > 0 ? "Withdrawn.\n" : "No invitation of this name was open.\n");
	return 0;
}
