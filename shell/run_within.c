/* run_within.c: bastion run, called in a sandbox that bastion made. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/sandbox_backend.h"
#include "shell/run_within.h"

int
run_within(char **argv, char **env, const char *narrower, bool quiet, struct refusal *refusal)
{
	size_t i;

	if (!sandbox_inside(getenv("BASTION_SANDBOXED"), getenv("BASTION_SANDBOX_BACKEND")))
		return 0;
	if (narrower != NULL)
		return refusal_set(refusal, "run.within",
		    "this is a sandbox already, which cannot be made narrower from within: %.32s",
		    narrower);
	for (i = 0; env != NULL && env[i] != NULL; i++)
		if (putenv(env[i]) != 0)
			return refusal_set(refusal, "sandbox.plan", "out of memory");
	if (!quiet)
		fputs(
		    "bastion: run: this is a sandbox already: it holds that command too, and what it"
		    " reaches is what was said outside\n",
		    stderr);
	execvp(argv[0], argv);
	return refusal_set(refusal, "sandbox.program", "%.200s: %s", argv[0], strerror(errno));
}
