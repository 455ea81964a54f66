/* verb_stop.c: end the daemon. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "shell/cli.h"
#include "shell/daemon.h"

/*
 * VERB: stop
 *
 * usage: bastion stop [--host] [--json]
 *
 * End the daemon, and come back when it has ended. Its sessions were asked to end by then, its last
 * rows are sealed, and another may start at once. Where none serves there is nothing to do. With
 * --host, the daemon of this user's Host.
 */
int
verb_stop(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
	    {"host", no_argument, NULL, CLI_HOST}, {NULL, 0, NULL, 0}};
	int64_t pid;
	int first;

	if ((first = cli_options(cli, argc, argv, options, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	if (daemon_stop(cli, &pid) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"pid\":%" PRId64 "}\n", pid);
	else
		puts(pid == 0 ? "It is not running." : "It has ended.");
	return 0;
}
