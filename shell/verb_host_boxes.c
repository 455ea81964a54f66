/* verb_host_boxes.c: the machines that this Host may ask. */
#include <getopt.h>
#include <stdbool.h>

#include "shell/cli.h"

static const char BOXES[] =
    "SELECT id, name, status, heard, paired_at, asks, audit, serves, lane FROM boxes"
    " WHERE state = 'active' OR :all ORDER BY name, id";

static const char RAW[] =
    "SELECT id, name, state, status, paired_at, heard_at, asks, audit, serves, lane FROM boxes"
    " WHERE state = 'active' OR :all ORDER BY name, id";

static int
boxes_option(void *ctx, int val, const char *arg)
{
	bool *all = ctx;

	(void)val;
	(void)arg;
	*all = true;
	return 0;
}

/*
 * VERB: host boxes
 *
 * usage: bastion host boxes [--all] [--json]
 *
 * List the machines that are paired with this Host; with --all, those that are gone as well. The
 * status is heard, silent (it has not answered for the setting box.silent_ms), not heard yet,
 * rolled back, forked or gone; heard says how long ago it answered last. Each
 * shows with every answer that its audit goes on from what it has shown before; audit says whether
 * it does. serves names what the machine says that it does for this Host: ops, and egress while it
 * has connections parked here (bastion host egress). One that was rolled back or forked has another
 * database than it had: find out why.
 */
int
verb_host_boxes(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	bool all = false;
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, boxes_option, &all)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	return cli_list_all(cli, cli->mode == CLI_JSON ? RAW : BOXES, all,
	    "No machine is paired with this Host. Invite one: bastion host invite NAME");
}
