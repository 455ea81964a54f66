/* verb_host_orders.c: what this Host ordered of its boxes, and what became of it. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/order.h"
#include "shell/cli.h"
#include "shell/input.h"

static const char ORDERS[] =
    "SELECT id, box, kind, what, state, outcome, result, created_at, ended_at, expires_at FROM orders"
    " WHERE :box IS NULL OR box = :box ORDER BY id";

static int
list(struct cli *cli, const char *box)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, ORDERS)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":box", box);
	return cli_list(cli, q, "Nothing was ordered: bastion host contain, bastion host rotate");
}

static int
withdraw(struct cli *cli, const char *word)
{
	int64_t id;

	if (input_number(word, &id) != 0)
		return cli_usage(cli, "an order has a number");
	if (cli_open(cli, ROLE_PERSON) != 0 || order_withdraw(cli->db, id) != 0)
		return cli_refuse(cli);
	printf(cli->mode == CLI_JSON ? "{\"state\":\"withdrawn\"}\n"
				     : "Withdrawn. If it was sent, it may be done all the same.\n");
	return 0;
}

/*
 * VERB: host orders
 *
 * usage: bastion host orders [BOX] [--json]
 *        bastion host orders withdraw ID [--json]
 *
 * List what this Host ordered of its boxes, or of BOX, and what became of it; or send the order ID
 * no more. A box hears of an order with its next beat, and answers with the one after it.
 */
int
verb_host_orders(struct cli *cli, int argc, char **argv)
{
	int first, words;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 2 && strcmp(argv[first], "withdraw") == 0)
		return withdraw(cli, argv[first + 1]);
	if (words > 1)
		return cli_unexpected(cli, argv[first + 1]);
	return list(cli, words == 1 ? argv[first] : NULL);
}
