/* verb_host_serve.c: be a Host's daemon. */
#include "shell/cli.h"

/*
 * VERB: host serve
 *
 * usage: bastion host serve [--user NAME] [--migrate]
 *
 * Serve as a Host: hold invitations and pairings, carry asks to boxes and their answers back.  It
 * has a state and sockets of its own, so a Host and a box may run on one machine.  The options are
 * those of bastion serve.
 */
int
verb_host_serve(struct cli *cli, int argc, char **argv)
{
	/* The same daemon: what differs is the role, which the name of the verb has set already. */
	return verb_serve(cli, argc, argv);
}
