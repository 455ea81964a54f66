/* verb_remote_login.c: keep the secret of another machine, to run sessions there. */
#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/remote.h"
#include "shell/text.h"

struct options {
	const char *pin;
};

static int
take_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	(void)val;
	o->pin = arg;
	return 0;
}

static void
show(void *ctx, const struct remote_login *login)
{
	const struct cli *cli = ctx;

	if (cli->mode == CLI_JSON) {
		printf("{\"name\":\"%s\",\"address\":\"%s\"}\n", login->name, login->address);
		return;
	}
	printf("%s  %s\n", login->name, login->address);
}

static int
list(struct cli *cli)
{
	return remote_login_each(show, cli, &cli->refusal) == 0 ? 0 : cli_refuse(cli);
}

/* See that the machine is there, is the one that was meant, and knows the secret. */
static int
try(struct cli *cli, const struct remote_login *login)
{
	const struct remote_request request = {.method = "GET", .path = "/v1/sessions"};
	struct http_answer answer;
	int rc = 0;

	if (remote_ask(login, &request, &answer, &cli->refusal) != 0)
		return cli_refuse(cli);
	if (answer.status != 200)
		rc = remote_refuse(cli, answer.body);
	free(answer.body);
	return rc;
}

static int
login(struct cli *cli, const char *name, const char *where, const char *pin)
{
	struct remote_login login = {.name = ""};
	struct endpoint at;
	int rc;

	if (strlen(name) > REMOTE_NAME_MAX) {
		refusal_set(&cli->refusal, "remote.name", "a name has at most 64 letters");
		return cli_refuse(cli);
	}
	strcpy(login.name, name);
	if (pin == NULL || strlen(pin) != 64 ||
	    sodium_hex2bin(login.pin, sizeof(login.pin), pin, 64, NULL, NULL, NULL) != 0)
		return cli_usage(
		    cli, "give --ca-pin as bastion remote listen shows it there: 64 hex digits");
	if (endpoint_parse(where, strlen(where), &at, &cli->refusal) != 0)
		return cli_refuse(cli);
	strcpy(login.address, at.text);
	if (cli_secret("Secret: ", login.token, sizeof(login.token)) != REMOTE_TOKEN_LEN) {
		refusal_set(
		    &cli->refusal, "remote.secret", "this is no secret of bastion remote add");
		rc = cli_refuse(cli);
	} else if ((rc = try(cli, &login)) == 0 && remote_login_save(&login, &cli->refusal) != 0) {
		rc = cli_refuse(cli);
	}
	sodium_memzero(&login, sizeof(login));
	return rc;
}

/*
 * VERB: remote login
 *
 * usage: bastion remote login [ls] [--json]
 *        bastion remote login NAME HOST:PORT --ca-pin PIN
 *        bastion remote login rm NAME
 *
 * Keep the secret that bastion remote add showed on another machine, so that bastion session
 * --remote NAME works there. The secret is asked for, or read from standard input, and tried once;
 * it is kept in a file of your own that nobody else may read, never in an argument or a variable.
 * PIN names the authority of that machine, as bastion remote listen shows it there: nobody else is
 * told the secret, whatever address answers.
 */
int
verb_remote_login(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"ca-pin", required_argument, NULL, 'p'}, {NULL, 0, NULL, 0}};
	struct options o = {.pin = NULL};
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, take_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	argv += first;
	if (words == 0 || (words == 1 && strcmp(argv[0], "ls") == 0))
		return list(cli);
	if (words == 2 && strcmp(argv[0], "rm") == 0)
		return remote_login_drop(argv[1], &cli->refusal) == 0 ? 0 : cli_refuse(cli);
	if (words == 2)
		return login(cli, argv[0], argv[1], o.pin);
	return cli_usage(cli, "give a name, HOST:PORT and --ca-pin; or ls, or rm NAME");
}
