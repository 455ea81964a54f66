/* dry_added.h: what an added op would change, looked at by the person who is asked about it. */
#ifndef SHELL_DRY_ADDED_H
#define SHELL_DRY_ADDED_H

#include <stdint.h>

#include "shell/cli.h"

/**
 * dry_verb(cli, op, words, n):
 * Have the verb ${op} look, with the ${n} texts at ${words}, of which there are at most 2: print
 * the frames of its answer.  Return its exit code, or -1 with cli->refusal: op.dry, op.args or as
 * observe_check.
 */
int dry_verb(struct cli *cli, const char *op, const char *const *words, int n);

/**
 * dry_added(cli, id, attempt):
 * Look at the added op of the question ${id}: each of its verbs, up to the first that fails; or its
 * program, as this person in a sandbox that sees what it will see, whose changes are listed and
 * thrown away: ${attempt} is the verb sandbox try.  ${cli} is closed.  Return the exit code, after
 * saying what was wrong.
 */
int dry_added(struct cli *cli, int64_t id, int (*attempt)(struct cli *cli, int argc, char **argv));

#endif
