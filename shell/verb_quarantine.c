/* verb_quarantine.c: Hosts that are held, and lifting that. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/pairing.h"
#include "engine/state/quarantine.h"
#include "shell/cli.h"

static const char HELD[] =
    "SELECT host, strikes, from_at, until_at FROM held_pairings ORDER BY until_at, host";

static const char ALL[] =
    "SELECT q.id, p.host_name AS host,"
    "    iif(q.state = 'held' AND q.until_at <= now_ms(), 'lapsed', q.state) AS state, q.strikes,"
    "    q.from_at, q.until_at, q.ended_at, q.by_uid"
    "  FROM quarantine AS q JOIN pairing AS p ON p.id = q.pairing_id ORDER BY q.id";

static int
all_option(void *ctx, int val, const char *arg)
{
	(void)val;
	(void)arg;
	*(bool *)ctx = true;
	return 0;
}

static int
list(struct cli *cli, bool all)
{
	return cli_list_of(
	    cli, all ? ALL : HELD, all ? "No Host was ever held." : "No Host is held.");
}

static int
lift(struct cli *cli, const char *host)
{
	struct pairing pairing;

	if (cli_open(cli, ROLE_PERSON) != 0 || pairing_pick(cli->db, host, &pairing) != 0 ||
	    quarantine_lift(cli->db, pairing.id, getuid()) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"host\":\"%s\",\"state\":\"lifted\"}\n", pairing.host);
	else
		printf("%s may ask again. What it was held for is forgiven.\n", pairing.host);
	return 0;
}

/*
 * VERB: quarantine
 *
 * usage: bastion quarantine [ls] [--all] [--json]
 *        bastion quarantine lift HOST [--json]
 *
 * A Host that keeps asking for what it may not is held for a while. Nothing that it asks then is
 * answered or put before a person. A hold that is sat out makes the next one twice as long; one
 * that you lift is forgiven. With --all, holds that are over are listed as well.
 */
int
verb_quarantine(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	bool all = false;
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, all_option, &all)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 0 || (words == 1 && strcmp(argv[first], "ls") == 0))
		return list(cli, all);
	if (words == 2 && strcmp(argv[first], "lift") == 0)
		return lift(cli, argv[first + 1]);
	return cli_unexpected(cli, argv[first]);
}
