/* verb_mcp_token.c: who may speak MCP on the loopback port. */
#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "shell/cli.h"

#define TOKEN_PREFIX "bsm_"
#define TOKEN_BYTES  32
#define TOKEN_MAX    (sizeof(TOKEN_PREFIX) + 2 * TOKEN_BYTES)

static const char LIST[] = "SELECT id, label, state, created_at, dropped_at FROM mcp_token"
			   " WHERE state = 'active' OR :all ORDER BY id";
static const char ADD[] = "INSERT INTO mcp_token (label, digest, created_at)"
			  " VALUES (:label, :digest, now_ms())";
static const char DROP[] = "UPDATE mcp_token SET state = 'dropped', dropped_at = now_ms()"
			   " WHERE label = :label AND state = 'active'";
static const char LIVE[] =
    "SELECT count(*) FROM mcp_token WHERE label = :label AND state = 'active'";
static const char PORT[] = "SELECT value FROM setting WHERE name = 'mcp.port'";

struct options {
	struct cli *cli;
	bool all;
};

static int
on_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	(void)arg;
	if (val == 'm')
		o->cli->role = HOME_BOX;
	else
		o->all = true;
	return 0;
}

static int
add(struct cli *cli, const char *label)
{
	unsigned char secret[TOKEN_BYTES], digest[crypto_hash_sha256_BYTES];
	char token[TOKEN_MAX] = TOKEN_PREFIX;
	struct stmt *q;
	int rc = -1;

	random_fill(secret, sizeof(secret));
	sodium_bin2hex(token + strlen(TOKEN_PREFIX), 2 * TOKEN_BYTES + 1, secret, sizeof(secret));
	crypto_hash_sha256(digest, (const unsigned char *)token, strlen(token));
	if ((q = store_sql(cli->db, ADD)) != NULL) {
		stmt_text(q, ":label", label);
		stmt_blob(q, ":digest", digest, sizeof(digest));
		rc = stmt_run_alone(q);
	}
	if (rc != 0) {
		rc = cli_refuse(cli);
	} else if (cli->mode == CLI_JSON) {
		printf("{\"token\":\"%s\"}\n", token);
	} else {
		printf("%s\n", token);
	}
	sodium_memzero(token, sizeof(token));
	sodium_memzero(secret, sizeof(secret));
	return rc;
}

/* To people, beside the token. */
static void
advise(struct cli *cli)
{
	int64_t port = stmt_value(store_sql(cli->db, PORT), 0);

	fprintf(stderr, "The token is shown once; only a digest of it is kept.\n");
	if (port != 0)
		fprintf(stderr,
		    "Agents send it to http://127.0.0.1:%d/mcp as Authorization: Bearer.\n",
		    (int)port);
	else
		fprintf(stderr,
		    "No port is open for it yet: bastion settings set%s mcp.port 7621, then start "
		    "the daemon again.\n",
		    cli->role == HOME_HOST ? " --host" : "");
}

static int
drop(struct cli *cli, const char *label)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, LIVE)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":label", label);
	if (stmt_value(q, 0) != 1) {
		refusal_set(&cli->refusal, "mcp.unknown", "no live token has this label");
		return cli_refuse(cli);
	}
	if ((q = store_sql(cli->db, DROP)) != NULL)
		stmt_text(q, ":label", label);
	return stmt_run_alone(q) == 0 ? 0 : cli_refuse(cli);
}

/*
 * VERB: mcp token
 *
 * usage: bastion mcp token [ls] [--all] [--machine] [--json]
 *        bastion mcp token add LABEL [--machine]
 *        bastion mcp token drop LABEL [--machine]
 *
 * Say who may speak MCP over HTTP on the loopback port of this Host (setting mcp.port; --machine:
 * of this machine). add writes a new token to standard output, once; the agent sends it as
 * Authorization: Bearer, and what it asks stands in the audit as agent:LABEL. drop takes it back at
 * once, with what it still waits for.
 */
int
verb_mcp_token(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"all", no_argument, NULL, 'a'},
	    {"machine", no_argument, NULL, 'm'}, {NULL, 0, NULL, 0}};
	struct options o = {.cli = cli};
	const char *what;
	int first, rc;

	cli->role = HOME_HOST;
	if ((first = cli_options(cli, argc, argv, longopts, on_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	what = first < argc ? argv[first] : "ls";
	if (strcmp(what, "ls") == 0 && argc - first <= 1)
		return cli_list_all(cli, LIST, o.all,
		    "No agent has a token. Make one: bastion mcp token add LABEL");
	if ((strcmp(what, "add") != 0 && strcmp(what, "drop") != 0) || argc - first != 2)
		return cli_usage(cli, "say ls, add LABEL or drop LABEL");
	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	if (strcmp(what, "drop") == 0)
		return drop(cli, argv[first + 1]);
	if ((rc = add(cli, argv[first + 1])) == 0 && cli->mode == CLI_TABLE)
		advise(cli);
	return rc;
}
