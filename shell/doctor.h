/* doctor.h: everything that has to be right for bastion to do its work, looked at one by one. */
#ifndef SHELL_DOCTOR_H
#define SHELL_DOCTOR_H

#include <stdbool.h>

#include "shell/cli.h"

enum doctor_level {
	DOCTOR_OK,
	DOCTOR_WARN, /* it works, and something does not, or will not for long */
	DOCTOR_BAD,  /* something that has to work does not */
};

struct doctor_finding {
	const char *check; /* what was looked at */
	enum doctor_level level;
	const char *what, *advice; /* advice is "" where nothing is to be done */
};

/**
 * doctor_look(cli, deep, tell, ctx):
 * Look at everything of cli->role and call ${tell}(${ctx}, finding) for each, in an order that puts
 * causes before what follows from them.  With ${deep} every page of the database is read.  Nothing
 * is changed but that a state directory that is too wide is tightened, as always.  Opens
 * what it needs in ${cli}, for the caller to cli_close.
 */
void doctor_look(struct cli *cli, bool deep,
    void (*tell)(void *ctx, const struct doctor_finding *finding), void *ctx);

#endif
