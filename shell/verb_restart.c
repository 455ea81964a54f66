/* verb_restart.c: end the daemon and begin it again. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "shell/cli.h"
#include "shell/daemon.h"

/*
 * VERB: restart
 *
 * usage: bastion restart [--user NAME] [--migrate] [--host] [--json]
 *
 * End the daemon, as stop does, and begin it again, as start does. Sessions that run are ended;
 * what waits begins with the new one. With --host, the daemon of this user's Host.
 */
int
verb_restart(struct cli *cli, int argc, char **argv)
{
	char *words[DAEMON_WORDS_MAX + 1];
	int64_t pid;
	int rc;

	if ((rc = daemon_words(cli, argc, argv, words)) != 0)
		return rc == -2 ? 0 : 2;
	if (daemon_stop(cli, &pid) != 0 || daemon_start(cli, words, &pid) == -1)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"pid\":%" PRId64 "}\n", pid);
	else
		printf("It serves (pid %" PRId64 ").\n", pid);
	return 0;
}
