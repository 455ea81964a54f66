/* verb_host_pairings.c: which Hosts a box has, as it tells this one. */
#include <stdio.h>
#include <string.h>

#include "shell/terms.h"
#include "shell/text.h"

static const char PAIRINGS[] =
    "SELECT state || iif(unapproved, ', for long', ''), host, since, key"
    "  FROM box_pairings WHERE look = :look ORDER BY state = 'pending' DESC, host";

static const char RAW[] =
    "SELECT box, host, handle, state, since AS since_at, unapproved, key, told_at"
    "  FROM box_pairings WHERE look = :look ORDER BY state = 'pending' DESC, host";

/* For people: a key is read whole or not at all, so it has a line of its own. */
static int
pairings_say(struct stmt *q)
{
	char since[TEXT_TIME_MAX];
	int n;

	while ((n = stmt_step(q)) == 1) {
		text_show(stdout, stmt_get_text(q, 1), strlen(stmt_get_text(q, 1)));
		text_time(stmt_get_int(q, 2), false, since);
		printf(": %s, since %s\n    %s\n", stmt_get_text(q, 0), since, stmt_get_text(q, 3));
	}
	return n;
}

/*
 * VERB: host pairings
 *
 * usage: bastion host pairings BOX [--json]
 *
 * Ask the machine BOX which Hosts are paired with it. It tells its anchor of all, with the keys
 * that an approval names, first those that wait for one; any other Host of itself alone. To let one
 * in: bastion host approve-pairing BOX HOST.
 */
int
verb_host_pairings(struct cli *cli, int argc, char **argv)
{
	struct stmt *q;
	int64_t look;
	int first;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one box");
	if (cli_open(cli, ROLE_PERSON) != 0 || terms_look(cli, argv[first], &look) != 0 ||
	    (q = store_sql(cli->db, cli->mode == CLI_TABLE ? PAIRINGS : RAW)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":look", look);
	return (cli->mode == CLI_TABLE ? pairings_say(q) : cli_show(cli, q)) == -1 ? cli_refuse(cli)
										   : 0;
}
