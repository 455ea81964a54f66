/* verb_host_contain.c: a process of a box is to be stopped. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "engine/state/order.h"
#include "shell/cli.h"
#include "shell/input.h"

struct options {
	struct order_process process;
	int64_t ttl_ms;
};

static int
contain_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'a':
		o->process.agent = true;
		return 0;
	case 'p':
		o->process.exe = arg;
		return arg[0] == '/' ? 0 : -1;
	default:
		return cli_duration(arg, &o->ttl_ms) == 0 && o->ttl_ms >= 1000 ? 0 : -1;
	}
}

/*
 * VERB: host contain
 *
 * usage: bastion host contain BOX PID [--program PATH] [--agent] [--for TIME] [--json]
 *
 * Order BOX to stop its process PID with everything beneath it, but for what the box spares. With
 * --program the process has to run PATH, as the kernel there names it; a process that began after
 * the order is never stopped. With --agent also where a person at the box listed the process
 * itself. The box has to trust this Host with it (bastion contain trust). The order is signed and
 * waits for TIME.
 */
int
verb_host_contain(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"agent", no_argument, NULL, 'a'},
	    {"program", required_argument, NULL, 'p'}, {"for", required_argument, NULL, 'f'},
	    {NULL, 0, NULL, 0}};
	struct options o = {.ttl_ms = 0};
	int64_t id;
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, contain_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 2 || input_number(argv[first + 1], &o.process.pid) != 0)
		return cli_usage(cli, "name a box, and the number of a process there");
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    order_contain(cli->db, argv[first], &o.process, o.ttl_ms, &id) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"state\":\"waiting\"}\n", id);
	else
		printf("Ordered (%" PRId64 "). See what becomes of it: bastion host orders %s\n",
		    id, argv[first]);
	return 0;
}
