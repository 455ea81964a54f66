/* verb_host_listen.c: let boxes reach this Host over a network. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/listen.h"
#include "engine/state/tls_identity.h"
#include "shell/cli.h"

#define ADDRESSES_MAX 16

static const char SHOW[] =
    "SELECT coalesce((SELECT address || ':' || port FROM listen), '') AS listens,"
    " coalesce((SELECT group_concat(endpoint, ', ') FROM (SELECT endpoint FROM host_address"
    "  ORDER BY ord)), '') AS reached_at,"
    " coalesce((SELECT lower(hex(fp)) FROM tls_authority), '') AS authority,"
    " (SELECT not_after FROM tls_identity WHERE use = 'server' AND state = 'current')"
    "  AS certificate_ends_at";

struct wish {
	const char *addresses[ADDRESSES_MAX];
	unsigned n;
	bool off;
};

static int
listen_option(void *ctx, int val, const char *arg)
{
	struct wish *wish = ctx;

	if (val == 'o') {
		wish->off = true;
		return 0;
	}
	if (wish->n == ADDRESSES_MAX)
		return -1;
	wish->addresses[wish->n++] = arg;
	return 0;
}

static int
change(struct cli *cli, const char *text, const struct wish *wish)
{
	struct listen_place place;

	if (text != NULL && listen_parse(text, &place, &cli->refusal) != 0)
		return -1;
	if (cli_open(cli, ROLE_PERSON) != 0)
		return -1;
	if (wish->off)
		return listen_off(cli->db);
	if (listen_host(cli->db, text == NULL ? NULL : &place, wish->addresses, wish->n) != 0)
		return -1;
	/* So that an invitation can be made before the daemon has looked. */
	return tls_upkeep(cli->db, cli->key);
}

/*
 * VERB: host listen
 *
 * usage: bastion host listen [IP:PORT | *:PORT] [--address HOST:PORT]... | --off [--json]
 *
 * Let machines pair with this Host, and stay in touch with it, over a network. It listens under TLS
 * on one address, or with * on all of them. Codes name the places of --address, in the order in
 * which machines are to try them; a place is a name or an address, and a port, as the machines
 * reach it. The Host's own authority, made once, vouches for it; codes pin that one. A Host that
 * serves listens at once. With --off it listens no more; machines that are paired keep their
 * pairing. Without arguments, say how it is.
 */
int
verb_host_listen(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"address", required_argument, NULL, 'a'},
	    {"off", no_argument, NULL, 'o'}, {NULL, 0, NULL, 0}};
	struct wish wish = {.n = 0};
	bool look;
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, listen_option, &wish)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first > 1 || (wish.off && (argc > first || wish.n > 0)))
		return cli_usage(
		    cli, "give one IP:PORT and the places where it is reached, or --off");
	look = first == argc && wish.n == 0 && !wish.off;
	if (!look && change(cli, first < argc ? argv[first] : NULL, &wish) != 0)
		return cli_refuse(cli);
	if (look && cli_open(cli, ROLE_READER) != 0)
		return cli_refuse(cli);
	return cli_list(cli, store_sql(cli->db, SHOW),
	    "It listens nowhere: bastion host listen IP:PORT --address HOST:PORT");
}
