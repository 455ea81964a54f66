/* verb_host_rotate.c: a box is to reach this Host somewhere else. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "engine/state/order.h"
#include "shell/cli.h"

static int
rotate_option(void *ctx, int val, const char *arg)
{
	int64_t *ttl_ms = ctx;

	(void)val;
	return cli_duration(arg, ttl_ms) == 0 && *ttl_ms >= 1000 ? 0 : -1;
}

/*
 * VERB: host rotate
 *
 * usage: bastion host rotate BOX HOST:PORT... [--for TIME] [--json]
 *
 * Order BOX to reach this Host at HOST:PORT from now on, in the order given. The box tries these
 * places beside the ones that it has, and gives those up once it reached this Host at a new one.
 * The order is signed and waits for TIME (90s, 15m, 2h, 7d).
 */
int
verb_host_rotate(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"for", required_argument, NULL, 'f'}, {NULL, 0, NULL, 0}};
	int64_t ttl_ms = 0, id;
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, rotate_option, &ttl_ms)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first < 2)
		return cli_usage(cli, "name a box, and where it is to reach this Host");
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    order_rotate(cli->db, argv[first], (const char *const *)&argv[first + 1],
		(size_t)(argc - first - 1), ttl_ms, &id) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"state\":\"waiting\"}\n", id);
	else
		printf("Ordered (%" PRId64 "). See what becomes of it: bastion host orders %s\n",
		    id, argv[first]);
	return 0;
}
