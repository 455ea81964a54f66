/* verb_host_init.c: set this user up as a Host. */
#include <stdio.h>

#include "engine/state/birth.h"
#include "shell/cli.h"

/*
 * VERB: host init
 *
 * usage: bastion host init [NAME]
 *
 * Set up a Host, which drives other machines. It gets a key, a database and its NAME, by default
 * that of the system; machines see the name when they pair. Neither key nor name of a Host that
 * exists is ever replaced. The directory is $BASTION_HOST_STATE, else /var/lib/bastion-host for
 * root and $XDG_STATE_HOME/bastion-host for others.
 */
int
verb_host_init(struct cli *cli, int argc, char **argv)
{
	int first, born;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first > 1)
		return cli_unexpected(cli, argv[first + 1]);
	if (home_open(&cli->home, cli->role, true, &cli->refusal) == -1)
		return cli_refuse(cli);
	born = birth_create(&cli->home, first < argc ? argv[first] : NULL, &cli->refusal);
	if (born == 0)
		refusal_set(
		    &cli->refusal, "box.exists", "there is a Host in %s already", cli->home.state);
	if (born != 1)
		return cli_refuse(cli);
	if (cli->mode != CLI_JSON)
		printf("A Host is set up in %s.\nNext: bastion host serve\n", cli->home.state);
	return 0;
}
