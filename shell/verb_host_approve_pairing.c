/* verb_host_approve_pairing.c: this Host, an anchor, lets another Host ask a box. */
#include <getopt.h>

#include "shell/terms.h"

/*
 * VERB: host approve-pairing
 *
 * usage: bastion host approve-pairing BOX HOST [--caps KIND,...] [--ttl TIME] [--key KEY]
 *                                     [--no-wait] [--json]
 *
 * As the anchor of the networked machine BOX, let another HOST that is paired with it ask. It may
 * ask for ops of each KIND (default: observe) for TIME (default: 30d). HOST is its name, or that up
 * to the first dot. BOX says which key that Host has; the key and the exact bytes are shown, and
 * signed once you say yes on the terminal. With --key you say yourself which key you mean, HOST is
 * the whole name, and nothing is asked.
 *
 * The verb waits for the answer of BOX, and says why where it refuses. With --no-wait, or where BOX
 * is not reached, what was signed is carried as soon as it is: see bastion host terms.
 */
int
verb_host_approve_pairing(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"caps", required_argument, NULL, 'c'},
	    {"ttl", required_argument, NULL, 't'}, {"key", required_argument, NULL, 'k'},
	    {"no-wait", no_argument, NULL, 'n'}, {NULL, 0, NULL, 0}};
	struct terms_wish wish = {.kind = "pairing_grant",
	    .caps = "observe",
	    .asking = "Is this the key of the Host that you want to let in?"};
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, terms_option, &wish)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 2)
		return cli_usage(cli, "name a box, and the Host that may ask it");
	wish.box = argv[first];
	wish.host = argv[first + 1];
	return terms_verb(cli, &wish);
}
