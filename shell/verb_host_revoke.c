/* verb_host_revoke.c: this Host, an anchor, takes another Host's pairing with a box back. */
#include <getopt.h>

#include "shell/terms.h"

/*
 * VERB: host revoke
 *
 * usage: bastion host revoke BOX HOST [--key KEY] [--no-wait] [--json]
 *
 * As the anchor of the networked machine BOX, end its pairing with another HOST, at once. What that
 * Host was granted goes with it. The exact bytes are shown and signed. HOST is its name, or that up
 * to the first dot; with --key, the whole name of the Host with that key, and BOX is not asked for
 * it first. --no-wait is as for bastion host approve-pairing. A Host that was revoked comes back by
 * pairing anew and being approved anew.
 */
int
verb_host_revoke(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"key", required_argument, NULL, 'k'},
	    {"no-wait", no_argument, NULL, 'n'}, {NULL, 0, NULL, 0}};
	struct terms_wish wish = {.kind = "pairing_revoke"};
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, terms_option, &wish)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 2)
		return cli_usage(cli, "name a box, and the Host that may no longer ask it");
	wish.box = argv[first];
	wish.host = argv[first + 1];
	return terms_verb(cli, &wish);
}
