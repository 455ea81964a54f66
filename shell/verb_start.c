/* verb_start.c: begin the daemon apart from this terminal. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "shell/cli.h"
#include "shell/daemon.h"

/*
 * VERB: start
 *
 * usage: bastion start [--user NAME] [--migrate] [--host] [--json]
 *
 * Serve this machine in the background, and come back once it serves. What the daemon says goes
 * into a file beside the directory of its sockets (/run/bastion.log as root). Where one serves
 * already there is nothing to do; one that does not get that far is ended again. Where systemd runs
 * the machine, let it have the daemon: systemctl start bastion. With --host it is the daemon of
 * this user's Host, as bastion host serve.
 */
int
verb_start(struct cli *cli, int argc, char **argv)
{
	char *words[DAEMON_WORDS_MAX + 1];
	int64_t pid;
	int rc;

	if ((rc = daemon_words(cli, argc, argv, words)) != 0)
		return rc == -2 ? 0 : 2;
	if ((rc = daemon_start(cli, words, &pid)) == -1)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"pid\":%" PRId64 ",\"started\":%s}\n", pid, rc == 0 ? "true" : "false");
	else
		printf(rc == 0 ? "It serves (pid %" PRId64 ").\n"
			       : "It is already running (pid %" PRId64 ").\n",
		    pid);
	return 0;
}
