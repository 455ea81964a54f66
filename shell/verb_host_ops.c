/* verb_host_ops.c: what each machine of this Host can be asked. */
#include <stdio.h>

#include "shell/cli.h"

static const char OPS[] =
    "SELECT box, op, usage, iif(of = 0, '', 'added there') AS origin, summary FROM box_ops"
    " WHERE (:box IS NULL OR box = :box) ORDER BY box, of, op";

static const char RAW[] = "SELECT box, op, usage, class, of <> 0 AS added, summary FROM box_ops"
			  " WHERE (:box IS NULL OR box = :box) ORDER BY box, of, op";

/* Why less is shown than there is. */
static const char LACKS[] =
    "SELECT b.name || ': ' || coalesce('its list of added ops was not taken: ' || k.why,"
    "    k.left_out || ' added ops are left out: their names, texts or params are not in the form')"
    "  FROM box_catalog AS k JOIN host_box AS b ON b.id = k.box_id"
    " WHERE b.state = 'active' AND (:box IS NULL OR b.name = :box)"
    "   AND (k.why IS NOT NULL OR k.left_out > 0) ORDER BY b.name";

static const char KNOWN[] = "SELECT count(*) FROM host_box WHERE state = 'active' AND name = :box";

static struct stmt *
of_box(struct cli *cli, const char *sql, const char *box)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, sql)) != NULL && box != NULL)
		stmt_text(q, ":box", box);
	return q;
}

/*
 * VERB: host ops
 *
 * usage: bastion host ops [BOX] [--json]
 *
 * List what each machine of this Host can be asked, or BOX: with bastion on, or by agents over MCP.
 * Ops that a person added at a machine are listed in its own words, as it told them last; what was
 * not taken of that is said on standard error.
 */
int
verb_host_ops(struct cli *cli, int argc, char **argv)
{
	const char *box;
	struct stmt *q;
	int first, rc;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first > 1)
		return cli_unexpected(cli, argv[first + 1]);
	box = argc > first ? argv[first] : NULL;
	if (cli_open(cli, ROLE_READER) != 0)
		return cli_refuse(cli);
	if (box != NULL && stmt_value(of_box(cli, KNOWN, box), 0) == 0) {
		refusal_set(
		    &cli->refusal, "box.gone", "no box of this name is paired with this Host");
		return cli_refuse(cli);
	}
	rc = cli_list(cli, of_box(cli, cli->mode == CLI_JSON ? RAW : OPS, box),
	    "No machine has said yet what it can be asked.");
	if (rc != 0)
		return rc;
	if ((q = of_box(cli, LACKS, box)) == NULL)
		return cli_refuse(cli);
	while (stmt_step(q) == 1)
		fprintf(stderr, "bastion: %s\n", stmt_get_text(q, 0));
	return 0;
}
