/* verb_pair.c: let the Host of a code ask this machine. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/pairing.h"
#include "net/host/enroll_client.h"
#include "shell/cli.h"
#include "shell/consent.h"
#include "shell/text.h"

static const char FACTORS[] = "SELECT count(*) FROM factor WHERE state = 'active'";

static const char PRESENT[] = "SELECT group_concat(host, ', ') FROM (SELECT host"
			      " FROM pairing_status WHERE state <> 'revoked' ORDER BY host)";

/* Who the machine answers to; no row for a local one. */
static const char ANCHOR[] =
    "SELECT coalesce((SELECT host FROM live_anchor), '') FROM box WHERE mode = 'networked'";

/* Take the code off the command line, where every user of the machine can read it, or ask for it.
 */
static int
code_take(struct cli *cli, char *word, char *code, size_t size)
{
	size_t len = strlen(word);

	if (strcmp(word, "-") == 0)
		return cli_secret("Pairing code: ", code, size) == -1
			   ? refusal_set(&cli->refusal, "code.invalid", "no pairing code was given")
			   : 0;
	if (len < size)
		memcpy(code, word, len + 1);
	sodium_memzero(word, len);
	return len < size
		   ? 0
		   : refusal_set(&cli->refusal, "code.invalid", "this is no whole pairing code");
}

/* What the machine does for the Host from now on. */
static void
paired_means(struct cli *cli, const char *host, const struct pairing_made *made)
{
	char anchor[65] = "";
	struct stmt *q;
	int networked = 0;

	if ((q = store_sql(cli->db, ANCHOR)) != NULL && (networked = stmt_step(q)) == 1) {
		snprintf(anchor, sizeof(anchor), "%s", stmt_get_text(q, 0));
		stmt_done(q);
	}
	if (made->anchor)
		printf("%s is the anchor of this machine: it approves the Hosts that come after "
		       "it.\n",
		    host);
	else if (strcmp(made->state, "pending") == 0)
		printf("Before it is answered, the anchor of this machine has to approve it: "
		       "bastion pairings\n");
	else if (networked == 1 && anchor[0] == '\0')
		printf("This machine is on a network and has no anchor, so nobody is answered yet: "
		       "bastion claim-anchor\n");
}

static void
paired(struct cli *cli, const struct pairing_offer *offer, const struct pairing_made *made)
{
	if (cli->mode == CLI_JSON) {
		printf("{\"id\":%" PRId64 ",\"host\":", made->id);
		text_json(stdout, offer->host, strlen(offer->host));
		printf(",\"peer_uid\":%" PRId64 ",\"state\":\"%s\",\"anchor\":%s}\n",
		    offer->peer_uid, made->state, made->anchor ? "true" : "false");
		return;
	}
	if (offer->replace)
		printf("The Host %s is paired anew; user %" PRId64
		       " serves it. What it was granted stays.\n",
		    offer->host, offer->peer_uid);
	else if (strcmp(made->state, "active") == 0)
		printf("The Host %s may ask this machine now; user %" PRId64 " serves it.\n"
		       "What it asks waits for a person: bastion approvals\n",
		    offer->host, offer->peer_uid);
	else
		printf("The Host %s is paired; user %" PRId64 " serves it.\n", offer->host,
		    offer->peer_uid);
	paired_means(cli, offer->host, made);
	if (stmt_value(store_sql(cli->db, FACTORS), 0) == 0)
		printf("Nobody can approve yet: bastion factor add totp\n");
}

/* A local machine has a Host already: a person at the terminal may say that one more is welcome. */
static int
second_asked(struct cli *cli, struct pairing_offer *offer, char answer[CONSENT_ANSWER])
{
	char present[400] = "";
	struct stmt *q;

	if ((q = store_sql(cli->db, PRESENT)) == NULL)
		return -1;
	if (stmt_step(q) == 1) {
		snprintf(present, sizeof(present), "%s", stmt_get_text(q, 0));
		stmt_done(q);
	}
	if (consent_ask(present, offer->host, answer) != 0)
		return refusal_set(&cli->refusal, "pairing.second",
		    "this machine has a Host already, and there is no terminal to ask at");
	offer->answer = answer;
	return pairing_check(cli->db, offer);
}

static int
pair(struct cli *cli, const char *text, struct pairing_code *code, bool replace)
{
	char lane[sizeof(cli->home.run) + sizeof(PAIRING_LANE) + 1], answer[CONSENT_ANSWER];
	struct pairing_offer offer = {.host = code->host,
	    .host_key = code->host_key,
	    .peer_uid = getuid(),
	    .by_uid = geteuid(),
	    .replace = replace};
	struct pairing_made made;

	if (cli_open(cli, ROLE_PERSON) != 0 || code_read(cli->db, text, strlen(text), code) != 0)
		return -1;
	/* A code is spent by its use, so what would be refused here is refused before. */
	if (pairing_check(cli->db, &offer) != 0 &&
	    (strcmp(store_refusal(cli->db)->code, "pairing.second") != 0 ||
		second_asked(cli, &offer, answer) != 0))
		return -1;
	snprintf(lane, sizeof(lane), "%s/%s", cli->home.run, PAIRING_LANE);
	if (enroll_ask(cli->db, code, lane, &offer.peer_uid) != 0 ||
	    pairing_add(cli->db, &offer, &made) != 0)
		return -1;
	paired(cli, &offer, &made);
	return 0;
}

static int
pair_option(void *ctx, int val, const char *arg)
{
	bool *replace = ctx;

	(void)val;
	(void)arg;
	*replace = true;
	return 0;
}

/*
 * VERB: pair
 *
 * usage: bastion pair CODE | - [--replace] [--json]
 *
 * Pair this machine with the Host that made CODE (bastion host invite). With -, the code is read
 * from standard input, so that it never stands on a command line. The Host may ask from then on; a
 * person approves. Exit 3 means that this Host is paired here already and nothing was changed.
 *
 * On a local machine that has a Host, a second one is asked about on the terminal, and only y or
 * yes lets it in. On a networked machine the first Host that root pairs becomes its anchor, and
 * later ones wait for the anchor's approval.
 *
 * With --replace, a Host that is paired here is paired anew: it keeps its age and what it was
 * granted.
 */
int
verb_pair(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"replace", no_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};
	struct pairing_code code = {.host = ""};
	char text[CODE_MAX + 2];
	bool replace = false;
	int first, rc = -1;

	if ((first = cli_options(cli, argc, argv, longopts, pair_option, &replace)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "give one code, or - to read it from standard input");
	if (code_take(cli, argv[first], text, sizeof(text)) == 0)
		rc = pair(cli, text, &code, replace);
	sodium_memzero(text, sizeof(text));
	sodium_memzero(&code, sizeof(code));
	return rc == 0 ? 0 : cli_refuse(cli);
}
