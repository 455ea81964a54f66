/* verb_claim_anchor.c: which Host this machine answers to. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/host/anchor.h"
#include "shell/cli.h"
#include "shell/input.h"
#include "shell/text.h"

struct options {
	struct anchor_claim claim;
	const char *consent;
};

static int
claim_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'r':
		o->claim.rotate = true;
		return 0;
	case 'c':
		o->consent = arg;
		return 0;
	case 'o':
		o->claim.owner = arg;
		return *arg != '\0' && strlen(arg) <= ANCHOR_OWNER_MAX ? 0 : -1;
	default:
		o->claim.host = arg;
		return *arg != '\0' ? 0 : -1;
	}
}

static void
claimed(const struct cli *cli, const struct anchor_made *made)
{
	if (cli->mode == CLI_JSON) {
		printf("{\"host\":");
		text_json(stdout, made->host, strlen(made->host));
		printf(",\"owner\":");
		text_json(stdout, made->owner, strlen(made->owner));
		printf(",\"reason\":\"%s\",\"changed\":%s}\n", made->reason,
		    made->changed ? "true" : "false");
		return;
	}
	printf("%s is %s anchor of this machine", made->host, made->changed ? "now the" : "the");
	if (made->owner[0] != '\0') {
		printf(", owned by ");
		text_show(stdout, made->owner, strlen(made->owner));
	}
	printf(made->changed ? ".\nIt approves every other Host: bastion pairings\n"
			     : " already; nothing was changed.\n");
}

static int
claim(struct cli *cli, struct options *o)
{
	char body[ANCHOR_BODY_MAX], terms[ANCHOR_TERMS_MAX + 1];
	struct anchor_signed consent;
	struct anchor_made made;

	if (cli_open(cli, ROLE_PERSON) != 0)
		return -1;
	/* Whether root claims is looked for first, consent or not. */
	if (o->consent != NULL && o->claim.by_uid == 0) {
		if (input_file(o->consent, body, sizeof(body), &cli->refusal) != 0 ||
		    anchor_body(cli->db, body, strlen(body), terms, &consent) != 0)
			return -1;
		o->claim.consent = &consent;
	}
	if (anchor_claim(cli->db, &o->claim, &made) != 0)
		return -1;
	claimed(cli, &made);
	return 0;
}

/*
 * VERB: claim-anchor
 *
 * usage: bastion claim-anchor [--host HOST] [--owner NAME] [--json]
 *        bastion claim-anchor --rotate [--consent FILE] [--host HOST] [--owner NAME] [--json]
 *
 * Make a paired Host the anchor of this networked machine: the one that approves every other.
 * HOST is its name, or that up to the first dot; it can be left out where one Host alone is paired.
 * NAME says whose machine it is. Only root claims, and claiming again what is so already changes
 * nothing and succeeds.
 *
 * With --rotate another Host takes the anchor's place: with the consent that the present one
 * signed, which it sent or which FILE holds (- for standard input), or once it was silent for as
 * long as the setting anchor.silent_ms says.
 */
int
verb_claim_anchor(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"rotate", no_argument, NULL, 'r'},
	    {"consent", required_argument, NULL, 'c'}, {"owner", required_argument, NULL, 'o'},
	    {"host", required_argument, NULL, 'H'}, {NULL, 0, NULL, 0}};
	struct options o = {.claim = {.by_uid = geteuid()}};
	int first;

	if ((first = cli_options(cli, argc, argv, longopts, claim_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	if (o.consent != NULL && !o.claim.rotate)
		return cli_usage(cli, "a consent is for --rotate");
	return claim(cli, &o) == 0 ? 0 : cli_refuse(cli);
}
