/* verb_host_terms.c: what this Host signed as an anchor, and what became of it. */
#include "shell/cli.h"

static const char TERMS[] =
    "SELECT id, box, kind, host, state, made_at, finished_at, why FROM signed_terms"
    " WHERE :box IS NULL OR box = :box ORDER BY id";

static const char RAW[] =
    "SELECT id, box, kind, host, state, made_at, tries, finished_at, code, why FROM signed_terms"
    " WHERE :box IS NULL OR box = :box ORDER BY id";

/*
 * VERB: host terms
 *
 * usage: bastion host terms [BOX] [--json]
 *
 * List what this Host signed as the anchor of BOX, or of all its boxes. The state says what became
 * of it: waiting to be carried, sent, taken, refused, failed (the box may have heard it), or
 * expired (the box was not reached for as long as the setting terms.carry_ms says).
 */
int
verb_host_terms(struct cli *cli, int argc, char **argv)
{
	struct stmt *q;
	int first;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first > 1)
		return cli_usage(cli, "name one box, or none");
	if (cli_open(cli, ROLE_READER) != 0 ||
	    (q = store_sql(cli->db, cli->mode == CLI_JSON ? RAW : TERMS)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":box", first < argc ? argv[first] : NULL);
	return cli_list(cli, q, "This Host has signed nothing as an anchor.");
}
