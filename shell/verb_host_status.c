/* verb_host_status.c: status, of this user's Host. */
#include "shell/cli.h"

/*
 * VERB: host status
 *
 * usage: bastion host status [--json]
 *
 * Say whether the Host's daemon runs, and which boxes it has. The exit code is 0 while it runs, 1
 * if it does not, and 3 where there is no Host yet.
 */
int
verb_host_status(struct cli *cli, int argc, char **argv)
{
	return verb_status(cli, argc, argv);
}
