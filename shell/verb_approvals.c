/* verb_approvals.c: what waits for a person, and what was decided. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shell/cli.h"
#include "shell/dry_added.h"
#include "shell/input.h"

static const char WAITING[] =
    "SELECT id, host, op, args,"
    "    iif(:short, (SELECT group_concat(key, ' ') FROM json_each(bounds)), bounds) AS bounds,"
    "    uses, ttl_ms / 1000 AS seconds, asked_at, expires_at FROM open_approvals ORDER BY id";

static const char ALL[] =
    "SELECT a.id, a.host_name AS host, a.op, a.args,"
    "    iif(:short, (SELECT group_concat(key, ' ') FROM json_each(a.bounds)), a.bounds) AS bounds,"
    "    a.uses, a.ttl_ms / 1000 AS seconds,"
    "    CASE WHEN a.state = 'pending' AND a.expires_at <= now_ms() THEN 'expired'"
    "         ELSE a.state END AS state,"
    "    a.asked_at, a.decided_at, a.decided_by, f.label AS factor, g.id AS grant_id"
    "  FROM approval AS a LEFT JOIN factor AS f ON f.id = a.factor_id"
    "  LEFT JOIN grant AS g ON g.approval_id = a.id"
    " WHERE :id IS NULL OR a.id = :id ORDER BY a.id";

static const char ONE[] =
    "SELECT a.id, a.host_name AS host, a.op, a.args, a.bounds, a.uses, a.ttl_ms,"
    "    CASE WHEN a.state = 'pending' AND a.expires_at <= now_ms() THEN 'expired'"
    "         ELSE a.state END AS state,"
    "    a.terms, lower(hex(a.digest)) AS digest, a.asked_at, a.expires_at, a.decided_at,"
    "    a.decided_by, a.decided_by_uid, f.label AS factor, g.id AS grant_id,"
    "    (SELECT says FROM approval_reach WHERE id = a.id) AS reach"
    "  FROM approval AS a LEFT JOIN factor AS f ON f.id = a.factor_id"
    "  LEFT JOIN grant AS g ON g.approval_id = a.id WHERE a.id = :id";

static const char LOOK[] =
    "SELECT op, coalesce(args ->> 0, ''), coalesce(args ->> 1, ''), json_array_length(args)"
    "  FROM approval WHERE id = :id";

static const char TERMS[] =
    "SELECT terms, lower(hex(digest)), (SELECT says FROM approval_reach WHERE id = :id)"
    "  FROM approval WHERE id = :id";

struct options {
	bool all, bytes;
};

static int
approvals_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	(void)arg;
	if (val == 'a')
		o->all = true;
	else
		o->bytes = true;
	return 0;
}

static int
list(struct cli *cli, bool all)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_READER) != 0 ||
	    (q = store_sql(cli->db, all ? ALL : WAITING)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":short", cli->mode == CLI_TABLE);
	return cli_list(cli, q, all ? "Nothing was ever asked." : "Nothing waits for a person.");
}

enum how { EXACTLY, READABLY, NOT_AT_ALL };

/* Show the terms of the question ${id}, which must be there. */
static int
terms(struct cli *cli, int64_t id, enum how how)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, TERMS)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if ((n = stmt_step(q)) != 1)
		return n == -1 ? -1
			       : refusal_set(store_refusal(cli->db), "approval.unknown",
				     "there is no question of this number");
	if (how == EXACTLY)
		fputs(stmt_get_text(q, 0), stdout);
	if (how == READABLY) {
		input_show_signed(stdout, "Question", id, stmt_get_text(q, 0));
		printf("    (SHA-256 %s)\n\n", stmt_get_text(q, 1));
		if (!stmt_is_null(q, 2))
			printf("%s\n\n", stmt_get_text(q, 2));
	}
	stmt_done(q);
	return 0;
}

static int
show(struct cli *cli, const char *word, bool bytes)
{
	struct stmt *q;
	int64_t id;

	if (input_number(word, &id) != 0)
		return cli_usage(cli, "a question has a number: see bastion approvals");
	if (cli_open(cli, ROLE_READER) != 0 || terms(cli, id,
						   bytes                    ? EXACTLY
						   : cli->mode == CLI_TABLE ? READABLY
									    : NOT_AT_ALL) != 0)
		return cli_refuse(cli);
	if (bytes)
		return 0;
	if ((q = store_sql(cli->db, cli->mode == CLI_TABLE ? ALL : ONE)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	if (cli->mode == CLI_TABLE)
		stmt_int(q, ":short", 1);
	return cli_show(cli, q) == -1 ? cli_refuse(cli) : 0;
}

/* What the question ${word} would change, as its op sees it now. */
static int
dry(struct cli *cli, const char *word)
{
	const char *words[2];
	struct stmt *q;
	int64_t id;
	int rc;

	if (input_number(word, &id) != 0)
		return cli_usage(cli, "a question has a number: see bastion approvals");
	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, LOOK)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	if (stmt_step(q) != 1) {
		refusal_set(
		    &cli->refusal, "approval.unknown", "there is no question of this number");
		return cli_refuse(cli);
	}
	if (strncmp(stmt_get_text(q, 0), "run:", 4) == 0) {
		stmt_done(q);
		return dry_added(cli, id, verb_sandbox_try);
	}
	words[0] = stmt_get_text(q, 1);
	words[1] = stmt_get_text(q, 2);
	rc = dry_verb(cli, stmt_get_text(q, 0), words, (int)stmt_get_int(q, 3));
	stmt_done(q);
	return rc == -1 ? cli_refuse(cli) : rc;
}

/*
 * VERB: approvals
 *
 * usage: bastion approvals [ls] [--all] [--json]
 *        bastion approvals show ID [--bytes] [--json]
 *        bastion approvals dry ID
 *
 * List the questions of Hosts that wait for a person; with --all, the decided ones too. Show one as
 * the person is to read it; with --bytes, exactly the bytes that an approval covers, to be signed
 * with ssh-keygen -Y sign -n bastion -f KEY. With dry, look what the op would change if it ran now,
 * and change nothing. The program of an added op runs for that as you, in a sandbox of its own:
 * what you may not read it does not find.
 */
int
verb_approvals(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"all", no_argument, NULL, 'a'}, {"bytes", no_argument, NULL, 'b'}, {NULL, 0, NULL, 0}};
	struct options o = {false, false};
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, approvals_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 2 && strcmp(argv[first], "show") == 0)
		return show(cli, argv[first + 1], o.bytes);
	if (words == 2 && strcmp(argv[first], "dry") == 0)
		return dry(cli, argv[first + 1]);
	if (words == 0 || (words == 1 && strcmp(argv[first], "ls") == 0))
		return list(cli, o.all);
	return cli_unexpected(cli, argv[first]);
}
