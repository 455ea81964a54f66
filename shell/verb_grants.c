/* verb_grants.c: what Hosts may do here, and taking it back. */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/grant.h"
#include "shell/cli.h"
#include "shell/input.h"

static const char LIVE[] =
    "SELECT id, host, op, args,"
    "    iif(:short, (SELECT group_concat(key, ' ') FROM json_each(bounds)), bounds) AS bounds,"
    "    uses, used, created_at, expires_at, iif(next_at > now_ms(), next_at, NULL) AS next_at,"
    "    approver"
    "  FROM live_grants WHERE :host IS NULL OR host = :host ORDER BY id";

static const char HOST[] = "SELECT count(*) FROM pairing WHERE host_name = :host";

static const char WORDS[] = "SELECT bounds_words(bounds) FROM grant WHERE id = :id";

static const char ALL[] =
    "SELECT g.id, p.host_name AS host, g.op, g.args,"
    "    iif(:short, (SELECT group_concat(key, ' ') FROM json_each(g.bounds)), g.bounds) AS bounds,"
    "    g.uses, (SELECT coalesce(max(u.n), 0) FROM grant_use AS u WHERE u.grant_id = g.id) AS used,"
    "    CASE WHEN g.state = 'active' AND g.expires_at <= now_ms() THEN 'expired'"
    "         ELSE g.state END AS state,"
    "    g.created_at, g.expires_at, g.ended_at, g.end_reason, f.label AS approver"
    "  FROM grant AS g JOIN pairing AS p ON p.id = g.pairing_id"
    "  JOIN factor AS f ON f.id = g.factor_id"
    " WHERE (:host IS NULL OR p.host_name = :host) AND (:id IS NULL OR g.id = :id) ORDER BY g.id";

static const char KNOWN[] = "SELECT count(*) FROM grant WHERE id = :id";

static const char USES[] =
    "SELECT u.op_run_id AS run, u.at, r.state, r.exit_code, r.finished_at"
    "  FROM grant_use AS u JOIN op_run AS r ON r.id = u.op_run_id WHERE u.grant_id = :id"
    " ORDER BY u.op_run_id";

/* For programs: the grant with its uses in one row. */
static const char WHOLE[] =
    "SELECT g.id, p.host_name AS host, g.op, g.args, g.bounds, g.uses, g.state, g.created_at,"
    "    g.expires_at, g.ended_at, g.end_reason, f.label AS approver, a.decided_by, g.approval_id,"
    "    (SELECT json_group_array(json_object('run', u.op_run_id, 'at_ms', u.at, 'state', r.state,"
    "                                         'exit_code', r.exit_code))"
    "       FROM grant_use AS u JOIN op_run AS r ON r.id = u.op_run_id"
    "      WHERE u.grant_id = g.id) AS body"
    "  FROM grant AS g JOIN pairing AS p ON p.id = g.pairing_id"
    "  JOIN factor AS f ON f.id = g.factor_id JOIN approval AS a ON a.id = g.approval_id"
    " WHERE g.id = :id";

static int
grants_option(void *ctx, int val, const char *arg)
{
	bool *all = ctx;

	(void)val;
	(void)arg;
	*all = true;
	return 0;
}

static int
host_known(struct cli *cli, const char *host)
{
	struct stmt *q = store_sql(cli->db, HOST);

	if (q == NULL)
		return -1;
	stmt_text(q, ":host", host);
	if (stmt_value(q, 0) > 0)
		return 0;
	return refusal_set(&cli->refusal, "pairing.unknown",
	    "no Host of this name was ever paired here (a grant is shown by its number:"
	    " bastion grants show ID)");
}

static int
list(struct cli *cli, const char *host, bool all)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_READER) != 0 || (host != NULL && host_known(cli, host) != 0) ||
	    (q = store_sql(cli->db, all ? ALL : LIVE)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":host", host);
	stmt_int(q, ":short", cli->mode == CLI_TABLE);
	return cli_list(cli, q, all ? "Nothing was ever granted." : "No Host holds a grant.");
}

/* Show the rows that ${sql} selects for the grant ${id}. */
static int
rows(struct cli *cli, const char *sql, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, sql)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if (sql == ALL)
		stmt_int(q, ":short", cli->mode == CLI_TABLE);
	return cli_show(cli, q);
}

/* The bounds of the grant ${id} as the person who approved it read them. */
static int
within(struct cli *cli, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, WORDS)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if (stmt_step(q) == 1 && !stmt_is_null(q, 0)) {
		printf("\nOnly within:\n");
		input_show_terms(stdout, stmt_get_text(q, 0));
	}
	stmt_done(q);
	return 0;
}

static int
show(struct cli *cli, const char *word)
{
	struct stmt *q;
	int64_t id;
	int n;

	if (input_number(word, &id) != 0)
		return cli_usage(cli, "a grant has a number: see bastion grants");
	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, KNOWN)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	if (stmt_value(q, -1) == 0)
		refusal_set(&cli->refusal, "grant.unknown", "there is no grant of this number");
	if (cli->refusal.code[0] != '\0' ||
	    rows(cli, cli->mode == CLI_TABLE ? ALL : WHOLE, id) == -1)
		return cli_refuse(cli);
	if (cli->mode != CLI_TABLE)
		return 0;
	if (within(cli, id) != 0)
		return cli_refuse(cli);
	putchar('\n');
	if ((n = rows(cli, USES, id)) == -1)
		return cli_refuse(cli);
	if (n == 0)
		printf("It was not used yet.\n");
	return 0;
}

static int
dropped(struct cli *cli, int rc, int64_t count)
{
	if (rc != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"dropped\":%" PRId64 "}\n", count);
	else if (count == 0)
		printf("Nothing to drop: no such grant is held.\n");
	else
		printf("%" PRId64 " grant%s dropped.\n", count, count == 1 ? "" : "s");
	return 0;
}

static int
drop(struct cli *cli, int words, char **word, bool all)
{
	int64_t id, count = 0;

	if (all ? words > 1 : words != 1 || input_number(word[0], &id) != 0)
		return cli_usage(cli, "drop which: the number of a grant, or --all of a Host?");
	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	if (all)
		return dropped(
		    cli, grant_drop_all(cli->db, words == 1 ? word[0] : NULL, &count), count);
	return dropped(cli, grant_drop(cli->db, id, &count), count);
}

/*
 * VERB: grants
 *
 * usage: bastion grants [ls] [HOST] [--all] [--json]
 *        bastion grants show ID [--json]
 *        bastion grants drop ID | --all [HOST] [--json]
 *
 * List what Hosts may do on this machine, show one grant with its bounds and uses, or take grants
 * back. Bounds say which other arguments a Host may use, at which hours of the week, and how often;
 * a grant that they hold back now says until when, and nothing of it is spent.
 * With --all, the list has those that ended as well. Dropping is immediate and final, and needs no
 * code; dropping what is not held is no failure.
 */
int
verb_grants(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	int first, words;
	bool all = false;

	if ((first = cli_options(cli, argc, argv, longopts, grants_option, &all)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words > 0 && strcmp(argv[first], "drop") == 0)
		return drop(cli, words - 1, argv + first + 1, all);
	if (words == 2 && strcmp(argv[first], "show") == 0)
		return show(cli, argv[first + 1]);
	if (words > 0 && strcmp(argv[first], "ls") == 0) {
		first++;
		words--;
	}
	if (words > 1)
		return cli_unexpected(cli, argv[first + 1]);
	return list(cli, words == 1 ? argv[first] : NULL, all);
}
