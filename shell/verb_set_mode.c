/* verb_set_mode.c: a person's own machine, or one on a network. */
#include <getopt.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/sshsig.h"
#include "engine/state/mode.h"
#include "shell/cli.h"
#include "shell/input.h"

#define CODE_SIZE 64

static const char NOW[] = "SELECT mode = :mode FROM box";

static const char MEANS[] =
    "SELECT CASE WHEN mode = 'local' THEN 'The machine is local now: paired Hosts may ask, and a"
    " person approves. A second Host is asked about at the terminal.'"
    " WHEN EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked') THEN 'The machine is networked"
    " now. Nobody is answered until a Host is its anchor: bastion claim-anchor'"
    " ELSE 'The machine is networked now. Nobody is answered until a Host is its anchor: the first"
    " one that root pairs is.' END FROM box";

struct options {
	const char *signature;
	bool bytes;
};

static int
mode_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	if (val == 's')
		o->signature = arg;
	else
		o->bytes = true;
	return 0;
}

/* The exact bytes that an SSH key signs, and nothing else. */
static int
show_bytes(struct cli *cli, const char *mode)
{
	char terms[MODE_TERMS_MAX];

	if (cli_open(cli, ROLE_READER) != 0 || mode_terms(cli->db, mode, terms) != 0)
		return cli_refuse(cli);
	fputs(terms, stdout);
	return 0;
}

/* Get what proves who changes it, where a proof is missing. */
static int
prove(
    struct cli *cli, const struct options *o, struct mode_change *change, char *code, char *armored)
{
	char terms[MODE_TERMS_MAX];

	change->key = cli->key;
	if (o->signature != NULL) {
		change->signature = armored;
		return input_file(o->signature, armored, SSHSIG_ARMOR_MAX + 2, &cli->refusal);
	}
	if (mode_check(cli->db, change) == 0)
		return 0;
	if (strcmp(store_refusal(cli->db)->code, "box.factor") != 0 ||
	    mode_terms(cli->db, change->mode, terms) != 0)
		return -1;
	store_refusal(cli->db)->code[0] = '\0';
	if (cli->mode != CLI_JSON)
		input_show_terms(stderr, terms);
	if (cli_secret("Code: ", code, CODE_SIZE) == -1)
		return refusal_set(&cli->refusal, "factor.code", "no code was given");
	change->code = code;
	return 0;
}

static int
changed(struct cli *cli, const char *mode, bool was)
{
	struct stmt *q;

	if (cli->mode == CLI_JSON) {
		printf("{\"mode\":\"%s\",\"changed\":%s}\n", mode, was ? "false" : "true");
		return 0;
	}
	if (was) {
		printf("The machine is %s already; nothing was changed.\n", mode);
		return 0;
	}
	if ((q = store_sql(cli->db, MEANS)) == NULL || stmt_step(q) != 1)
		return -1;
	printf("%s\n", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

static int
set_mode(struct cli *cli, const struct options *o, const char *mode, char *code, char *armored)
{
	struct mode_change change = {.mode = mode, .by_uid = geteuid()};
	struct stmt *q;

	if (cli_open(cli, ROLE_PERSON) != 0 || (q = store_sql(cli->db, NOW)) == NULL)
		return -1;
	stmt_text(q, ":mode", mode);
	if (stmt_value(q, 0) == 1)
		return changed(cli, mode, true);
	if (prove(cli, o, &change, code, armored) != 0 || mode_set(cli->db, &change) != 0)
		return -1;
	return changed(cli, mode, false);
}

/*
 * VERB: set-mode
 *
 * usage: bastion set-mode networked | local [--json]
 *        bastion set-mode networked | local --signature FILE [--json]
 *        bastion set-mode networked | local --bytes
 *
 * Say whether this machine is a person's own, or on a network. On a local machine a paired Host may
 * ask, and a person approves. On a networked one nobody is answered until one Host is its anchor,
 * which then approves all others; once it has an anchor, a machine stays networked. Only root
 * changes the mode, and where a factor is enrolled it proves who does: a code is asked for on the
 * terminal, or read from standard input where that is none; or an SSH signature is read from FILE
 * or from standard input (-), over what --bytes prints.
 */
int
verb_set_mode(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"signature", required_argument, NULL, 's'},
	    {"bytes", no_argument, NULL, 'b'}, {NULL, 0, NULL, 0}};
	char code[CODE_SIZE], armored[SSHSIG_ARMOR_MAX + 2];
	struct options o = {NULL, false};
	int first, rc;

	if ((first = cli_options(cli, argc, argv, longopts, mode_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1 ||
	    (strcmp(argv[first], "networked") != 0 && strcmp(argv[first], "local") != 0))
		return cli_usage(cli, "give one mode: networked, or local");
	if (o.bytes)
		return show_bytes(cli, argv[first]);
	rc = set_mode(cli, &o, argv[first], code, armored);
	sodium_memzero(code, sizeof(code));
	return rc == 0 ? 0 : cli_refuse(cli);
}
