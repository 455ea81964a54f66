/* remote_session.h: bastion session, on another machine. */
#ifndef SHELL_REMOTE_SESSION_H
#define SHELL_REMOTE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "shell/cli.h"

/* What was said on the command line. */
struct remote_session {
	const char *remote; /* of bastion remote login */
	const char *what;   /* "run", "attach" … */
	int n;              /* words behind that */
	char **words;       /* ended by NULL */
	bool command;       /* the words are a command, not a worker and its words */
	const char *name, *cwd;
	const char *repo; /* of this machine: copied to a folder in ${cwd}, where it runs */
	int64_t attempts, from, tail; /* 0: not said */
	bool terminal, input, detach, follow, end;
};

/**
 * remote_session(cli, s):
 * Do it there.  Where the way is cut while a session is followed, go on with the row behind the
 * last one that was shown, as soon as the machine is reached again.  Return the exit code.
 */
int remote_session(struct cli *cli, const struct remote_session *s);

#endif
