/* verb_host_egress.c: reach the internet through a box. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "shell/cli.h"
#include "shell/input.h"

static const char LIST[] = "SELECT box, port, parked, busy, waiting FROM egress_ports ORDER BY box";

static const char SET[] =
    "INSERT INTO egress_port (box_id, port, made_at) VALUES"
    " ((SELECT id FROM host_box WHERE name = :box AND state = 'active'), :port, now_ms())";

/* Whether the box has a port; no row where there is no such box. */
static const char HAS[] =
    "SELECT EXISTS (SELECT 1 FROM egress_port WHERE box_id = b.id) FROM host_box AS b"
    " WHERE b.name = :box AND b.state = 'active'";

static const char OFF[] = "DELETE FROM egress_port WHERE box_id ="
			  " (SELECT id FROM host_box WHERE name = :box AND state = 'active')";

struct wish {
	int64_t port;
	bool off;
};

static int
egress_option(void *ctx, int val, const char *arg)
{
	struct wish *wish = ctx;

	if (val == 'o') {
		wish->off = true;
		return 0;
	}
	return input_number(arg, &wish->port) == 0 && wish->port >= 1 && wish->port <= 65535 ? 0
											     : -1;
}

/* End without a change where there is nothing to close. */
static int
close_port(struct cli *cli, const char *box, bool *was_open)
{
	struct stmt *q;
	int64_t has;

	if ((q = store_sql(cli->db, HAS)) == NULL)
		return -1;
	stmt_text(q, ":box", box);
	if ((has = stmt_value(q, -1)) == -1)
		return refusal_set(
		    &cli->refusal, "box.gone", "no box of this name is paired with this Host");
	*was_open = has == 1;
	if (has == 0)
		return 0;
	if ((q = store_sql(cli->db, OFF)) != NULL)
		stmt_text(q, ":box", box);
	return stmt_run_alone(q);
}

static int
off(struct cli *cli, const char *box)
{
	bool was_open = false;

	if (cli_open(cli, ROLE_PERSON) != 0 || close_port(cli, box, &was_open) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_TABLE)
		puts(was_open ? "Closed." : "Nothing was open.");
	return 0;
}

static int
change(struct cli *cli, const char *box, const struct wish *wish)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	if ((q = store_sql(cli->db, SET)) != NULL) {
		stmt_text(q, ":box", box);
		stmt_int(q, ":port", wish->port);
	}
	if (stmt_run_alone(q) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_TABLE)
		printf(
		    "What uses the proxy 127.0.0.1:%d goes out of %s, as far as it was granted:\n"
		    "    curl -x socks5h://127.0.0.1:%d https://example.org/\n",
		    (int)wish->port, box, (int)wish->port);
	return 0;
}

/*
 * VERB: host egress
 *
 * usage: bastion host egress [--json]
 *        bastion host egress BOX --port PORT | --off
 *
 * Reach the internet through a machine that is paired with this Host over a network. From then on a
 * proxy (HTTP, CONNECT and SOCKS5) is on PORT of 127.0.0.1, for the user of the daemon and root.
 * What comes in there goes out of the box, by its rules and grants: a person there approves
 * bastion on BOX egress:reach HOST PORT (with --uses, --for and bounds, as any op), or lets a rule
 * of bastion egress name this Host. The box parks a few connections here for it, which dial in as
 * its lines do. With --off the port is closed, and what goes through it ends.
 *
 * Without arguments, list the boxes: the port, how many connections are parked, how many are in
 * use, and how many programs wait for one.
 */
int
verb_host_egress(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"port", required_argument, NULL, 'p'},
	    {"off", no_argument, NULL, 'o'}, {NULL, 0, NULL, 0}};
	struct wish wish = {.port = 0};
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, egress_option, &wish)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc || wish.off || wish.port != 0) {
		if (argc - first != 1 || wish.off == (wish.port != 0))
			return cli_usage(cli, "name one box, and give --port PORT or --off");
		return wish.off ? off(cli, argv[first]) : change(cli, argv[first], &wish);
	}
	return cli_list_of(
	    cli, LIST, "No box has a port here. Give it one: bastion host egress BOX --port 3128");
}
