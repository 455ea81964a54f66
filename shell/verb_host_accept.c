/* verb_host_accept.c: a person takes a box whose database was put back as it is now. */
#include <inttypes.h>
#include <stdio.h>

#include "shell/cli.h"
#include "shell/text.h"

static const char HELD[] =
    "SELECT w.size, w.seen_at, w.box_id FROM box_witness AS w JOIN host_box AS b ON b.id = w.box_id"
    " WHERE b.name = :box AND b.state = 'active' AND w.state IN ('behind', 'forked')";

static const char ACCEPT[] =
    "UPDATE box_witness SET state = 'accepted', why = NULL WHERE box_id = :id";

/* Return 1 with what was held, 0 where nothing is wrong with such a box, -1. */
static int
accept_box(struct cli *cli, const char *name, int64_t *size, int64_t *seen)
{
	struct stmt *q;
	int64_t id;
	int n;

	if (store_begin(cli->db) != 0)
		return -1;
	if ((q = store_sql(cli->db, HELD)) == NULL)
		return store_rollback(cli->db);
	stmt_text(q, ":box", name);
	if ((n = stmt_step(q)) != 1) {
		store_rollback(cli->db);
		return n;
	}
	*size = stmt_get_int(q, 0);
	*seen = stmt_get_int(q, 1);
	id = stmt_get_int(q, 2);
	stmt_done(q);
	if ((q = store_sql(cli->db, ACCEPT)) == NULL)
		return store_rollback(cli->db);
	stmt_int(q, ":id", id);
	if (stmt_run_one(q) != 0)
		return store_rollback(cli->db);
	return store_commit(cli->db) == 0 ? 1 : -1;
}

/*
 * VERB: host accept
 *
 * usage: bastion host accept BOX [--json]
 *
 * Take the machine BOX as it is, although its audit does not go on from what it has shown to this
 * Host. That is right after a backup was restored on it, by somebody you know; otherwise find out
 * first who put an older database in place, or wrote it anew. What this Host held is given up, and
 * the next checkpoint that the machine shows is the one to go on from.
 */
int
verb_host_accept(struct cli *cli, int argc, char **argv)
{
	char when[TEXT_TIME_MAX];
	int64_t size = 0, seen = 0;
	int first, n;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one machine");
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    (n = accept_box(cli, argv[first], &size, &seen)) == -1)
		return cli_refuse(cli);
	if (n == 0) {
		refusal_set(&cli->refusal, "witness.unknown",
		    "no machine of this name has shown an audit that does not fit");
		return cli_refuse(cli);
	}
	text_time(seen, cli->mode == CLI_JSON, when);
	printf(cli->mode == CLI_JSON
		   ? "{\"accepted\":true,\"size\":%" PRId64 ",\"seen_at\":\"%s\"}\n"
		   : "Accepted. The checkpoint of %" PRId64
		     " rows that it showed at %s is given up; the next one it shows begins anew.\n",
	    size, when);
	return 0;
}
