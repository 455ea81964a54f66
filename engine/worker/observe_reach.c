/* observe_reach.c: what a Host may reach through this machine.  Its connections are decided by
 * schema/egress_parked.sql, as asks of this op; one that is asked by hand says what it is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/address.h"
#include "engine/worker/answer.h"
#include "engine/worker/observe.h"

static const char RESULT[] = "SELECT json_object('host', ?1, 'port', ?2)";

static int
check(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	struct host host;
	size_t len = strlen(args[1]);

	(void)nargs;
	if (host_read(args[0], strlen(args[0]), &host, refusal) != 0)
		return -1;
	if (len == 0 || len > 5 || args[1][strspn(args[1], "0123456789")] != '\0' ||
	    args[1][0] == '0' || atoi(args[1]) > 65535)
		return refusal_set(
		    refusal, "egress.authority", "a port is a number from 1 to 65535");
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s", host.text);
	snprintf(canon->v[1], sizeof(canon->v[1]), "%s", args[1]);
	canon->n = 2;
	return 0;
}

static int
run(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	(void)limits;
	(void)env;
	return answer_result(out, RESULT, "ti", args->v[0], (int64_t)atoi(args->v[1])) == 0
		   ? OBSERVE_DONE
		   : OBSERVE_FAILED;
}

const struct observe_op observe_reach = {
    .name = "egress:reach",
    .usage = "HOST PORT",
    .summary = "reach that place on the internet through this machine, one connection a use",
    .args_min = 2,
    .args_max = 2,
    .check = check,
    .run = run,
};
