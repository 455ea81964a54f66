/* verb_host_consent.c: this Host, an anchor, lets another Host take its place. */
#include <getopt.h>

#include "shell/terms.h"

/*
 * VERB: host consent
 *
 * usage: bastion host consent BOX HOST [--ttl TIME] [--key KEY] [--no-wait] [--json]
 *
 * As the anchor of the networked machine BOX, let another HOST take the anchor over, within TIME
 * (default: 30d). Root at BOX does that: bastion claim-anchor --rotate --host HOST. From then on
 * that Host approves every other one, this one included. What is shown, asked and carried is as for
 * bastion host approve-pairing.
 */
int
verb_host_consent(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"ttl", required_argument, NULL, 't'},
	    {"key", required_argument, NULL, 'k'}, {"no-wait", no_argument, NULL, 'n'},
	    {NULL, 0, NULL, 0}};
	struct terms_wish wish = {
	    .kind = "anchor_consent", .asking = "Give the anchor to the Host that has this key?"};
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, terms_option, &wish)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 2)
		return cli_usage(cli, "name a box, and the Host that may take the anchor over");
	wish.box = argv[first];
	wish.host = argv[first + 1];
	return terms_verb(cli, &wish);
}
