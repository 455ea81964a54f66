/* verb_pairings.c: which Hosts are paired here, and how each stands. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/pairing.h"
#include "shell/cli.h"
#include "shell/text.h"

static const char LIST[] =
    "SELECT host, state, iif(anchor, 'yes', '') AS anchor, since AS since_at,"
    "    expires_at AS approved_until_at, ended_at, reason"
    "  FROM pairing_status WHERE :all OR state <> 'revoked' ORDER BY host";

/* For people: what there is to say, without what never happened. */
static const char SHOW[] = "SELECT host, state, iif(anchor, 'yes', '') AS anchor, since AS since_at"
			   "  FROM pairing_status WHERE :all OR state <> 'revoked' ORDER BY host";

static const char WHOLE[] =
    "SELECT s.id, s.host, s.handle, s.state, s.anchor, s.reason, s.transport,"
    "    lower(hex(p.host_key)) AS key, s.peer_uid, s.since AS since_at,"
    "    coalesce((SELECT group_concat(endpoint, ' ') FROM (SELECT endpoint FROM pairing_endpoint"
    "      WHERE pairing_id = s.id ORDER BY ord)), '') AS endpoints,"
    "    (SELECT lower(hex(fp)) FROM pairing_tls WHERE pairing_id = s.id) AS authority,"
    "    (SELECT not_after FROM tls_identity WHERE pairing_id = s.id AND state = 'current')"
    "      AS certificate_ends_at,"
    "    s.renewed_at, s.ended_at, s.expires_at AS approved_until_at,"
    "    coalesce((SELECT group_concat(value, ' ') FROM json_each(s.caps)), '') AS approved_for,"
    "    (SELECT count(*) FROM live_grants WHERE host = s.host) AS grants,"
    "    (SELECT count(*) FROM open_approvals WHERE host = s.host) AS questions,"
    "    (SELECT count(*) FROM live_runs WHERE host = s.host) AS runs"
    "  FROM pairing_status AS s JOIN pairing AS p ON p.id = s.id WHERE s.id = :id";

/* The same for people, a fact a line. */
#define DATE(column) "datetime(" column " / 1000, 'unixepoch', 'localtime')"
static const char FACTS[] =
    "SELECT 'Host', host FROM pairing_status WHERE id = :id"
    " UNION ALL SELECT 'state', state || iif(anchor, ', the anchor of this machine', '')"
    "   FROM pairing_status WHERE id = :id"
    " UNION ALL SELECT 'invalid', reason FROM pairing_status WHERE id = :id AND reason IS NOT NULL"
    " UNION ALL SELECT 'key', lower(hex(host_key)) FROM pairing WHERE id = :id"
    " UNION ALL SELECT 'served by', 'user ' || peer_uid FROM pairing_status"
    "   WHERE id = :id AND peer_uid IS NOT NULL"
    " UNION ALL SELECT 'reached', iif(p.transport = 'tls', 'it dials this machine; it is at ',"
    "    'this machine dials ') || (SELECT group_concat(endpoint, ', ') FROM (SELECT endpoint"
    "      FROM pairing_endpoint WHERE pairing_id = p.id ORDER BY ord))"
    "   FROM pairing AS p WHERE id = :id AND transport <> 'unix' AND state <> 'revoked'"
    " UNION ALL SELECT 'authority', lower(hex(fp)) FROM pairing_tls WHERE pairing_id = :id"
    " UNION ALL SELECT 'certificate', 'until ' || " DATE(
	"not_after") " FROM tls_identity"
		     "   WHERE pairing_id = :id AND state = 'current'"
		     " UNION ALL SELECT 'since', " DATE(
			 "since") " FROM pairing_status WHERE id = :id"
				  " UNION ALL SELECT 'renewed', " DATE(
				      "renewed_at") " FROM pairing_status"
						    "   WHERE id = :id AND renewed_at IS NOT NULL"
						    " UNION ALL SELECT 'ended', " DATE(
							"ended_at") " FROM pairing_status"
								    "   WHERE id = :id AND ended_at IS NOT NULL"
								    " UNION ALL SELECT 'approved', coalesce((SELECT group_concat(value, ' ')"
								    "   FROM json_each(caps)), '') || ' until ' || " DATE(
									"expires_at") " FROM pairing_status"
										      "   WHERE id = :id AND expires_at IS NOT NULL"
										      " UNION ALL SELECT 'holds', printf('%d grants, %d open questions, %d runs',"
										      "   (SELECT count(*) FROM live_grants WHERE host = s.host),"
										      "   (SELECT count(*) FROM open_approvals WHERE host = s.host),"
										      "   (SELECT count(*) FROM live_runs WHERE host = s.host))"
										      "   FROM pairing_status AS s WHERE id = :id";

static const char INVALID[] =
    "SELECT host, reason FROM pairing_status WHERE state = 'invalid' ORDER BY host";

static int
pairings_option(void *ctx, int val, const char *arg)
{
	bool *all = ctx;

	(void)val;
	(void)arg;
	*all = true;
	return 0;
}

/* What cannot be served, where it stands, and both ways out. */
static int
invalid_say(struct cli *cli)
{
	char path[PATH_MAX];
	struct stmt *q;
	int n;

	home_path(&cli->home, "bastion.db", path);
	if ((q = store_sql(cli->db, INVALID)) == NULL)
		return -1;
	while ((n = stmt_step(q)) == 1)
		printf("\n%s  [invalid]\n    %s (pairing %s in %s)\n"
		       "    mend it: bastion pair --replace CODE; or end it: bastion unpair %s\n",
		    stmt_get_text(q, 0), stmt_get_text(q, 1), stmt_get_text(q, 0), path,
		    stmt_get_text(q, 0));
	return n;
}

static int
list(struct cli *cli, bool all)
{
	struct stmt *q;
	int rows;

	if (cli_open(cli, ROLE_READER) != 0 ||
	    (q = store_sql(cli->db, cli->mode == CLI_TABLE ? SHOW : LIST)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":all", all);
	if ((rows = cli_show(cli, q)) == -1 || (cli->mode == CLI_TABLE && invalid_say(cli) == -1))
		return cli_refuse(cli);
	if (rows == 0 && cli->mode == CLI_TABLE)
		printf("No Host is paired here: bastion pair CODE\n");
	return 0;
}

static int
facts(struct cli *cli, int64_t id)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, FACTS)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	while ((n = stmt_step(q)) == 1) {
		printf("%-10s ", stmt_get_text(q, 0));
		text_show(stdout, stmt_get_text(q, 1), strlen(stmt_get_text(q, 1)));
		putchar('\n');
	}
	return n;
}

static int
show(struct cli *cli, const char *name)
{
	struct pairing pairing;
	struct stmt *q;

	if (cli_open(cli, ROLE_READER) != 0 || pairing_pick(cli->db, name, &pairing) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_TABLE)
		return facts(cli, pairing.id) == -1 ? cli_refuse(cli) : 0;
	if ((q = store_sql(cli->db, WHOLE)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", pairing.id);
	return cli_show(cli, q) == -1 ? cli_refuse(cli) : 0;
}

/*
 * VERB: pairings
 *
 * usage: bastion pairings [ls] [--all] [--json]
 *        bastion pairings show HOST [--json]
 *
 * List the Hosts that are paired with this machine, or show how one stands. A pairing is active,
 * pending (the anchor has to approve it), or invalid: a record that this bastion will not serve.
 * With --all, the list has those that were taken back as well. Approving and revoking is the
 * anchor's; bastion unpair takes any pairing back at once.
 */
int
verb_pairings(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	bool all = false;
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, pairings_option, &all)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 0 || (words == 1 && strcmp(argv[first], "ls") == 0))
		return list(cli, all);
	if (words == 2 && strcmp(argv[first], "show") == 0)
		return show(cli, argv[first + 1]);
	return cli_usage(cli, "list the pairings, or show one by the name of its Host");
}
