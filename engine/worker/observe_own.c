/* observe_own.c: what a Host asks about its own grants, and about added ops: the words;
 * schema/op.sql answers. */
#include <stdio.h>
#include <string.h>

#include "engine/worker/observe.h"

#define DIGITS_MAX 18

static int
check_grant(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	size_t len = strlen(args[0]);

	(void)nargs;
	if (strcmp(args[0], "all") != 0 &&
	    (len > DIGITS_MAX || args[0][0] == '0' || strspn(args[0], "0123456789") != len))
		return refusal_set(refusal, "grant.unknown", "a grant is a number, or all");
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s", args[0]);
	canon->n = 1;
	return 0;
}

const struct observe_op observe_grants = {
    .name = "grant:list",
    .usage = "",
    .summary = "what this Host may do here, within which bounds, and when next",
    .args_min = 0,
    .args_max = 0,
    .check = observe_no_args,
};

const struct observe_op observe_grant_drop = {
    .name = "grant:drop",
    .usage = "GRANT | all",
    .summary = "give back a grant of this Host, or all of them",
    .args_min = 1,
    .args_max = 1,
    .check = check_grant,
};

const struct observe_op observe_op_list = {
    .name = "op:list",
    .usage = "",
    .summary = "the ops that were added here, with what they take",
    .args_min = 0,
    .args_max = 0,
    .check = observe_no_args,
};
