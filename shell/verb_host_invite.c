/* verb_host_invite.c: a code with which a machine pairs with this Host. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>

#include "engine/state/invitation.h"
#include "shell/cli.h"

static const char SERVING[] = "SELECT count(*) FROM live_instance WHERE state = 'ready'";

static const char OPEN[] = "SELECT (expires_at - now_ms() + 59999) / 60000 FROM invitation"
			   " WHERE box_name = :name AND state = 'open'";

static int
invite_option(void *ctx, int val, const char *arg)
{
	int64_t *ttl_ms = ctx;

	(void)val;
	return cli_duration(arg, ttl_ms) == 0 && *ttl_ms >= 1000 ? 0 : -1;
}

/* To people, beside the code. */
static void
advise(struct cli *cli, const char *name)
{
	int64_t minutes = 0;
	struct stmt *q;

	if ((q = store_sql(cli->db, OPEN)) != NULL) {
		stmt_text(q, ":name", name);
		minutes = stmt_value(q, 0);
	}
	fprintf(stderr,
	    "Give this line to bastion pair - on %s, within %" PRId64
	    " min. It works once; whoever has it can take the place of %s.\n",
	    name, minutes, name);
	if (stmt_value(store_sql(cli->db, SERVING), 0) == 0)
		fprintf(
		    stderr, "The Host is not serving, and has to by then: bastion host serve\n");
}

/*
 * VERB: host invite
 *
 * usage: bastion host invite NAME [--for TIME]
 *
 * Invite the machine NAME to pair with this Host. The code alone goes to standard output, once;
 * only a digest of it is kept. It can be used for TIME (90s, 15m, 2h; 15m if not given). A machine
 * of that name that is paired already is replaced when the code is used.
 */
int
verb_host_invite(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"for", required_argument, NULL, 'f'}, {NULL, 0, NULL, 0}};
	char code[CODE_MAX + 1], path[sizeof(cli->home.run) + sizeof(INVITATION_SOCKET) + 1];
	int64_t ttl_ms = 0;
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, invite_option, &ttl_ms)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one machine");
	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	snprintf(path, sizeof(path), "%s/%s", cli->home.run, INVITATION_SOCKET);
	if (invitation_make(cli->db, argv[first], ttl_ms, path, code) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"code\":\"%s\"}\n", code);
	else
		printf("%s\n", code);
	fflush(stdout);
	sodium_memzero(code, sizeof(code));
	if (cli->mode == CLI_TABLE)
		advise(cli, argv[first]);
	return 0;
}
