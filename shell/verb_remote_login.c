/* verb_remote_login.c: keep the secret of another machine, to run sessions there. */
#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/cert.h"
#include "shell/input.h"
#include "shell/remote.h"
#include "shell/rows.h"

#define SECRET_FILE 1024 /* bytes, the space around the secret included */

static const char LOGINS[] = "SELECT value ->> 'name' AS name, value ->> 'address' AS address"
			     "  FROM json_each(?1) ORDER BY name";

struct options {
	const char *pin;    /* hex */
	const char *ca;     /* a file with the authority itself */
	const char *secret; /* a file with the secret; NULL: standard input, or asked for */
};

static int
take_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'p':
		o->pin = arg;
		return 0;
	case 'c':
		o->ca = arg;
		return 0;
	default:
		o->secret = arg;
		return 0;
	}
}

/* Names and addresses are of plain characters, as they were read. */
static void
add(void *ctx, const struct remote_login *login)
{
	FILE *out = ctx;

	fprintf(out, "%s{\"name\":\"%s\",\"address\":\"%s\"}", ftell(out) > 1 ? "," : "",
	    login->name, login->address);
}

static int
list(struct cli *cli)
{
	char *json = NULL;
	size_t len;
	FILE *out;
	int rc;

	if ((out = open_memstream(&json, &len)) == NULL) {
		refusal_set(&cli->refusal, "store.failed", "out of memory");
		return cli_refuse(cli);
	}
	putc('[', out);
	rc = remote_login_each(add, out, &cli->refusal);
	putc(']', out);
	if (fclose(out) != 0)
		rc = refusal_set(&cli->refusal, "store.failed", "out of memory");
	rc = rc != 0 ? cli_refuse(cli)
		     : rows_list(cli, LOGINS, json,
			   "No secret of another machine is kept here: bastion remote login NAME "
			   "HOST:PORT --ca-pin PIN");
	free(json);
	return rc;
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

/* Whom to believe: by the pin, or by the one certificate in a file. */
static int
read_authority(struct cli *cli, const struct options *o, uint8_t pin[CERT_FP_SIZE])
{
	char text[CERT_MAX * 2];
	struct cert_blob der;
	struct cert cert;
	int rc;

	if ((o->pin == NULL) == (o->ca == NULL))
		return cli_usage(cli, "give --ca-pin, as bastion remote listen shows it there, or "
				      "--ca with what bastion remote ca writes there");
	if (o->pin != NULL)
		return strlen(o->pin) == 64 &&
			       sodium_hex2bin(pin, CERT_FP_SIZE, o->pin, 64, NULL, NULL, NULL) == 0
			   ? 0
			   : cli_usage(cli, "--ca-pin is 64 hex digits");
	if (input_file(o->ca, text, sizeof(text), &cli->refusal) != 0 ||
	    cert_from_pem(text, strlen(text), &der, &cli->refusal) != 0)
		return cli_refuse(cli);
	rc = cert_read(der.data, der.len, &cert, &cli->refusal);
	cert_blob_free(&der);
	if (rc == 0 && !cert.ca)
		rc = refusal_set(
		    &cli->refusal, "cert.form", "this certificate is not one of an authority");
	if (rc != 0)
		return cli_refuse(cli);
	memcpy(pin, cert.fp, CERT_FP_SIZE);
	return 0;
}

/* The secret in the file ${path}, without the space around it.  Return its length, or -1. */
static int
secret_in(struct cli *cli, const char *path, char token[REMOTE_TOKEN_LEN + 1])
{
	static const char space[] = " \t\r\n";
	char text[SECRET_FILE], *at;
	int len = -1;

	if (input_file(path, text, sizeof(text), &cli->refusal) == 0) {
		at = text + strspn(text, space);
		len = (int)strcspn(at, space);
		if (at[len + strspn(at + len, space)] != '\0' || len > REMOTE_TOKEN_LEN)
			len = 0; /* more than one word, or too long: no secret */
		memcpy(token, at, (size_t)len);
		token[len] = '\0';
	}
	sodium_memzero(text, sizeof(text));
	return len;
}

static int
read_secret(struct cli *cli, const struct options *o, char token[REMOTE_TOKEN_LEN + 1])
{
	int len = o->secret != NULL ? secret_in(cli, o->secret, token)
				    : cli_secret("Secret: ", token, REMOTE_TOKEN_LEN + 1);

	if (len == REMOTE_TOKEN_LEN)
		return 0;
	if (o->secret == NULL || len != -1)
		refusal_set(
		    &cli->refusal, "remote.secret", "this is no secret of bastion remote add");
	return cli_refuse(cli);
}

static int
login(struct cli *cli, const char *name, const char *where, const struct options *o)
{
	struct remote_login login = {.name = ""};
	struct endpoint at;
	int rc;

	if (strlen(name) > REMOTE_NAME_MAX) {
		refusal_set(&cli->refusal, "remote.name", "a name has at most 64 letters");
		return cli_refuse(cli);
	}
	strcpy(login.name, name);
	if (endpoint_parse(where, strlen(where), &at, &cli->refusal) != 0)
		return cli_refuse(cli);
	strcpy(login.address, at.text);
	if ((rc = read_authority(cli, o, login.pin)) == 0 &&
	    (rc = read_secret(cli, o, login.token)) == 0 && (rc = try(cli, &login)) == 0 &&
	    remote_login_save(&login, &cli->refusal) != 0)
		rc = cli_refuse(cli);
	sodium_memzero(&login, sizeof(login));
	return rc;
}

/*
 * VERB: remote login
 *
 * usage: bastion remote login [ls] [--json]
 *        bastion remote login NAME HOST:PORT --ca-pin PIN [--secret-file FILE]
 *        bastion remote login NAME HOST:PORT --ca FILE [--secret-file FILE]
 *        bastion remote login rm NAME
 *
 * Keep the secret that bastion remote add showed on another machine, so that bastion session
 * --remote NAME works there. The secret is asked for, or read from standard input or FILE, once,
 * and tried; it is kept in a file of your own that nobody else may read, never in an argument or a
 * variable. PIN names the authority of that machine, as bastion remote listen shows it there, and
 * bastion remote ca writes the authority itself: nobody else is told the secret, whatever address
 * answers.
 */
int
verb_remote_login(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"ca-pin", required_argument, NULL, 'p'},
	    {"ca", required_argument, NULL, 'c'}, {"secret-file", required_argument, NULL, 's'},
	    {NULL, 0, NULL, 0}};
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
		return login(cli, argv[0], argv[1], &o);
	return cli_usage(cli, "give a name, HOST:PORT and --ca-pin or --ca; or ls, or rm NAME");
}
