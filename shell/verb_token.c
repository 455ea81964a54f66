/* verb_token.c: secrets that programs use and never see. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/address.h"
#include "engine/state/token.h"
#include "shell/cli.h"

#define HOSTS_MAX 64

static const char LIST[] = "SELECT name, hosts, header, scheme, placeholder, state, made_at,"
			   " rotated_at, used_at FROM tokens WHERE state = 'active' OR :all"
			   " ORDER BY id";
static const char PLACEHOLDER[] = "SELECT placeholder FROM token WHERE id = :id";

struct options {
	const char *hosts[HOSTS_MAX];
	size_t nhosts;
	const char *header, *scheme;
	bool all;
};

static int
token_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 1:
		if (o->nhosts == HOSTS_MAX)
			return -1;
		o->hosts[o->nhosts++] = arg;
		return 0;
	case 2:
		o->header = arg;
		return 0;
	case 3:
		o->scheme = strcmp(arg, "none") == 0 ? "" : arg;
		return 0;
	default:
		o->all = true;
		return 0;
	}
}

/* From standard input, into ${secret}, TOKEN_SECRET_MAX + 2 bytes. */
static int
secret_read(struct cli *cli, char *secret)
{
	if (cli_secret("Secret: ", secret, TOKEN_SECRET_MAX + 2) > 0)
		return 0;
	return refusal_set(&cli->refusal, "token.secret", "there is no secret on standard input");
}

/* What the program that asks for it is to hold. */
static void
say_added(struct cli *cli, const char *name, int64_t id)
{
	struct stmt *q = store_sql(cli->db, PLACEHOLDER);

	if (q == NULL)
		return;
	stmt_int(q, ":id", id);
	if (stmt_step(q) != 1)
		return;
	if (cli->mode == CLI_JSON)
		printf("{\"name\":\"%s\",\"placeholder\":\"%s\"}\n", name, stmt_get_text(q, 0));
	else
		printf("%s\n", stmt_get_text(q, 0));
	if (cli->mode == CLI_TABLE)
		fprintf(stderr,
		    "Programs may hold that instead of the secret, which is not shown again.\n"
		    "To have it sent: bastion egress allow HOST --token %s\n",
		    name);
	stmt_done(q);
}

/* Hosts in their one spelling; ${names} keeps them. */
static int
hosts_read(struct cli *cli, struct options *o, struct host *names)
{
	size_t i;

	for (i = 0; i < o->nhosts; i++) {
		const char *text = o->hosts[i];

		if (strncmp(text, "*.", 2) == 0)
			text += 2;
		if (host_read(text, strlen(text), &names[i], &cli->refusal) != 0)
			return -1;
		o->hosts[i] = names[i].text;
	}
	return 0;
}

static int
add(struct cli *cli, const char *name, struct options *o)
{
	struct token_wish wish = {.name = name,
	    .hosts = o->hosts,
	    .header = o->header,
	    .scheme = o->scheme,
	    .by_uid = getuid()};
	struct host names[HOSTS_MAX];
	char secret[TOKEN_SECRET_MAX + 2];
	int64_t id;
	int rc = -1;

	if (o->nhosts == 0)
		return cli_usage(cli, "say which hosts it is for: --host HOST");
	wish.nhosts = o->nhosts;
	if (cli_open(cli, ROLE_PERSON) == 0 && hosts_read(cli, o, names) == 0 &&
	    secret_read(cli, secret) == 0)
		rc = token_add(cli->db, cli->key, &wish, secret, &id);
	sodium_memzero(secret, sizeof(secret));
	if (rc != 0)
		return cli_refuse(cli);
	say_added(cli, name, id);
	return 0;
}

static int
rotate(struct cli *cli, const char *name)
{
	char secret[TOKEN_SECRET_MAX + 2];
	int rc = -1;

	if (cli_open(cli, ROLE_PERSON) == 0 && secret_read(cli, secret) == 0)
		rc = token_rotate(cli->db, cli->key, name, secret);
	sodium_memzero(secret, sizeof(secret));
	if (rc != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"rotated\":1}\n");
	else
		printf("The next request goes with the new secret.\n");
	return 0;
}

static int
drop(struct cli *cli, const char *name)
{
	if (cli_open(cli, ROLE_PERSON) != 0 || token_drop(cli->db, name) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"dropped\":1}\n");
	else
		printf("The secret is wiped. Rules that name it allow nothing any more.\n");
	return 0;
}

/*
 * VERB: token
 *
 * usage: bastion token [ls] [--all] [--json]
 *        bastion token add NAME --host HOST… [--header HEADER] [--scheme SCHEME | none] [--json]
 *        bastion token rotate NAME [--json]
 *        bastion token rm NAME [--json]
 *
 * Keep secrets that programs use and never see. The internet lane adds one to a request within TLS
 * where the rule that allows it says so (bastion egress allow HOST --token NAME), and only on the
 * hosts that it is for, each with those below it. The secret is read from standard input, one line
 * of 8 to 4096 characters, kept sealed, and never shown. It goes as Authorization: Bearer, or as
 * --header and --scheme say; for the scheme Basic it is user:password. add says a placeholder,
 * which a program may hold where it wants some secret. rotate gives a token another secret; rm
 * wipes it.
 */
int
verb_token(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"host", required_argument, NULL, 1},
	    {"header", required_argument, NULL, 2}, {"scheme", required_argument, NULL, 3},
	    {"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	struct options o = {.nhosts = 0};
	const char *what;
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, token_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	what = words > 0 ? argv[first] : "ls";
	if (words <= 1 && strcmp(what, "ls") == 0)
		return cli_list_all(cli, LIST, o.all,
		    "There is no token. Add one: bastion token add NAME --host HOST <FILE");
	if (words == 2 && strcmp(what, "add") == 0)
		return add(cli, argv[first + 1], &o);
	if (words == 2 && strcmp(what, "rotate") == 0)
		return rotate(cli, argv[first + 1]);
	if (words == 2 && strcmp(what, "rm") == 0)
		return drop(cli, argv[first + 1]);
	return cli_usage(cli, "say ls, add NAME, rotate NAME or rm NAME");
}
