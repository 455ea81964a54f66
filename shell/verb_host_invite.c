/* verb_host_invite.c: a code with which a machine pairs with this Host. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/invitation.h"
#include "engine/state/tls_identity.h"
#include "shell/cli.h"
#include "shell/text.h"

static const char SERVING[] = "SELECT count(*) FROM live_instance WHERE state = 'ready'";

static const char OPEN[] = "SELECT (expires_at - created_at) / 1000 FROM invitation"
			   " WHERE box_name = :name AND state = 'open'";

static const char LISTENS[] = "SELECT count(*) FROM listen";

static const char ADDRESSES[] = "SELECT endpoint FROM host_address ORDER BY ord";

/* What was wished for on the command line. */
struct wish {
	int64_t ttl_ms;
	bool unixsocket;
	struct pairing_code where;
};

static int
address_add(struct pairing_code *where, const char *text)
{
	struct endpoint endpoint;

	if (where->nendpoints == CODE_ENDPOINTS ||
	    endpoint_parse(text, strlen(text), &endpoint, NULL) != 0)
		return -1;
	memcpy(where->endpoint[where->nendpoints++], endpoint.text, sizeof(endpoint.text));
	return 0;
}

static int
invite_option(void *ctx, int val, const char *arg)
{
	struct wish *wish = ctx;

	if (val == 'u')
		wish->unixsocket = true;
	else if (val == 'a')
		return address_add(&wish->where, arg);
	else
		return cli_duration(arg, &wish->ttl_ms) == 0 && wish->ttl_ms >= 1000
			   ? 0
			   : cli_wrong("it takes a second or more, as 90s, 15m or 2h");
	return 0;
}

/* The places that this Host always names, where none was given. */
static int
addresses_read(struct cli *cli, struct pairing_code *where)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(cli->db, ADDRESSES)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1)
		if (address_add(where, stmt_get_text(q, 0)) != 0) {
			stmt_done(q);
			return refusal_set(&cli->refusal, "endpoint.invalid",
			    "a place that this Host names is none");
		}
	return rc;
}

/* Where the code leads: over a network where this Host is reached on one, else to its socket. */
static int
where_to(struct cli *cli, struct wish *wish)
{
	struct pairing_code *where = &wish->where;

	if (!wish->unixsocket && where->nendpoints == 0 && addresses_read(cli, where) != 0)
		return -1;
	if (where->nendpoints > 0)
		return tls_authority(cli->db, cli->key, where->authority);
	if ((size_t)snprintf(where->path, sizeof(where->path), "%s/%s", cli->home.run,
		INVITATION_SOCKET) < sizeof(where->path))
		return 0;
	return refusal_set(
	    &cli->refusal, "code.invalid", "the path of the enroll socket is too long for a code");
}

/* To people, beside the code. */
static void
advise(struct cli *cli, const char *name, bool network)
{
	int64_t seconds = 0;
	struct stmt *q;

	if ((q = store_sql(cli->db, OPEN)) != NULL) {
		stmt_text(q, ":name", name);
		seconds = stmt_value(q, 0);
	}
	fprintf(stderr,
	    "Give this line to bastion pair - on %s, within %" PRId64
	    " %s. It works once; whoever has it can take the place of %s.\n",
	    name, seconds < 60 ? seconds : seconds / 60, seconds < 60 ? "s" : "min", name);
	if (stmt_value(store_sql(cli->db, SERVING), 0) == 0)
		fprintf(
		    stderr, "The Host is not serving, and has to by then: bastion host serve\n");
	if (network && stmt_value(store_sql(cli->db, LISTENS), 0) == 0)
		fprintf(stderr,
		    "Nothing listens there yet: bastion host listen *:PORT --address HOST:PORT\n");
}

/* With --json also the parts, for bastion pair --redeem-url. */
static int
show_json(struct cli *cli, const char *code)
{
	struct pairing_code facts;
	struct cert_blob pem;
	char token[2 * CODE_TOKEN + 1];

	printf("{\"code\":\"%s\"", code);
	if (code_read(cli->db, code, strlen(code), &facts) == 0 && facts.nendpoints > 0) {
		if (tls_authority_pem(cli->db, &pem) != 0)
			return -1;
		sodium_bin2hex(token, sizeof(token), facts.token, CODE_TOKEN);
		printf(",\"token\":\"%s\",\"url\":\"https://%s\",\"host_ca\":", token,
		    facts.endpoint[0]);
		text_json(stdout, (const char *)pem.data, pem.len);
		cert_blob_free(&pem);
	}
	printf("}\n");
	sodium_memzero(token, sizeof(token));
	sodium_memzero(&facts, sizeof(facts));
	return 0;
}

/*
 * VERB: host invite
 *
 * usage: bastion host invite NAME [--for TIME] [--unix | --address HOST:PORT...] [--json]
 *
 * Invite the machine NAME to pair with this Host. The code alone goes to standard output, once;
 * only a digest of it is kept. It can be used for TIME (90s, 15m, 2h; 15m if not given). A machine
 * of that name that is paired already is replaced when the code is used.
 *
 * The code leads over a network where this Host is reached on one (bastion host listen): it names
 * the places to try, and the authority that the Host proves itself under. --address names other
 * places. With --unix, or without a network, it leads to the Host's socket on this machine.
 */
int
verb_host_invite(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"for", required_argument, NULL, 'f'},
	    {"unix", no_argument, NULL, 'u'}, {"address", required_argument, NULL, 'a'},
	    {NULL, 0, NULL, 0}};
	struct wish wish = {.ttl_ms = 0};
	char code[CODE_MAX + 1];
	bool network;
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, invite_option, &wish)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one machine");
	if (wish.unixsocket && wish.where.nendpoints > 0)
		return cli_usage(cli, "a code leads to the socket or to an address");
	if (cli_open(cli, ROLE_PERSON) != 0 || where_to(cli, &wish) != 0 ||
	    invitation_make(cli->db, argv[first], wish.ttl_ms, &wish.where, code) != 0)
		return cli_refuse(cli);
	network = wish.where.nendpoints > 0;
	if (cli->mode == CLI_JSON) {
		if (show_json(cli, code) != 0)
			return cli_refuse(cli);
	} else {
		printf("%s\n", code);
	}
	fflush(stdout);
	sodium_memzero(code, sizeof(code));
	if (cli->mode == CLI_TABLE)
		advise(cli, argv[first], network);
	return 0;
}
