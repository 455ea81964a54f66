/* daemon.h: the daemon of this state, the machine's or the Host's, from outside: begin it, end it.
 */
#ifndef SHELL_DAEMON_H
#define SHELL_DAEMON_H

#include <stdint.h>

#include "shell/cli.h"

#define DAEMON_WORDS_MAX 4
#define DAEMON_READY_MS  60000 /* that a start may take: the first one makes keys */

/**
 * daemon_words(cli, argc, argv, words):
 * Read the options that start and restart have, as words for daemon_start; --host makes it the
 * daemon of this user's Host, as ${cli}'s role says from then on.  Return 0; or -1 or -2
 * as cli_options.
 */
int daemon_words(struct cli *cli, int argc, char **argv, char *words[DAEMON_WORDS_MAX + 1]);

/**
 * daemon_start(cli, words, pid):
 * Run "bastion serve" (a Host's: "bastion host serve") with ${words}, up to a NULL, apart from this
 * terminal, and return once it serves.  What it says goes into the file beside the directory of its
 * sockets.  One that does not get that far is ended with all that it started before this returns.
 * Store its pid in ${*pid}. Return 0; 1 where another serves already, with that one's pid; or -1
 * with the refusal of ${cli}: instance.start.
 */
int daemon_start(struct cli *cli, char *const *words, int64_t *pid);

/**
 * daemon_stop(cli, pid):
 * Ask the daemon to end and return once it has, and its lock is free.  Store its pid in ${*pid}; 0
 * where none served.  The state may be older than this bastion.  Return 0, or -1 with the refusal
 * of ${cli}: instance.slow, instance.stop.
 */
int daemon_stop(struct cli *cli, int64_t *pid);

#endif
