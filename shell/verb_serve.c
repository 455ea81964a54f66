/* verb_serve.c: be the daemon. */
#include <getopt.h>

#include "engine/actor/supervisor.h"
#include "shell/cli.h"

static int
serve_option(void *ctx, int val, const char *arg)
{
	struct supervisor_options *options = ctx;

	if (val == 'u')
		options->user = arg;
	if (val == 'm')
		options->migrate = true;
	return 0;
}

/*
 * VERB: serve
 *
 * usage: bastion serve [--user NAME] [--migrate]
 *
 * Serve this machine to its Hosts until told to stop.  The first start makes the state: a database,
 * a key, and the machine's name.  Every later one says what the last one left open.
 *
 * As root the actors run as the user bastion, where there is one, or as --user NAME; the state
 * directory must be that user's.  --migrate brings an older database up to date first.  SIGTERM
 * lets actors finish; a second one does not.  Under systemd use Type=notify.
 */
int
verb_serve(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"user", required_argument, NULL, 'u'},
	    {"migrate", no_argument, NULL, 'm'}, {NULL, 0, NULL, 0}};
	struct supervisor_options options = {.user = NULL};
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, serve_option, &options)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	if (home_open(&cli->home, cli->role, true, &cli->refusal) == -1 ||
	    supervisor_run(&cli->home, &options, &cli->refusal) == -1)
		return cli_refuse(cli);
	return 0;
}
