/* verb_pair.c: let the Host of a code ask this machine. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/cert.h"
#include "engine/state/listen.h"
#include "engine/state/pairing.h"
#include "engine/state/tls_identity.h"
#include "net/host/enroll_client.h"
#include "shell/cli.h"
#include "shell/consent.h"
#include "shell/input.h"
#include "shell/text.h"

static const char FACTORS[] = "SELECT count(*) FROM factor WHERE state = 'active'";

static const char PRESENT[] = "SELECT group_concat(host, ', ') FROM (SELECT host"
			      " FROM pairing_status WHERE state <> 'revoked' ORDER BY host)";

/* Whether one more Host is welcome without a word. */
static const char ALONE[] = "SELECT (SELECT mode FROM box) <> 'local'"
			    " OR NOT EXISTS (SELECT 1 FROM pairing WHERE state <> 'revoked')";

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
paired_json(const struct pairing_offer *offer, const struct pairing_made *made)
{
	printf("{\"id\":%" PRId64 ",\"host\":", made->id);
	text_json(stdout, offer->host, strlen(offer->host));
	if (offer->transport == NULL)
		printf(",\"transport\":\"unix\",\"peer_uid\":%" PRId64, offer->peer_uid);
	else
		printf(",\"transport\":\"%s\",\"peer_uid\":null", offer->transport);
	printf(",\"state\":\"%s\",\"anchor\":%s}\n", made->state, made->anchor ? "true" : "false");
}

/* Who is at the other end, as a part of a sentence. */
static void
served_by(const struct pairing_offer *offer, char out[ENDPOINT_TEXT_MAX + 32])
{
	if (offer->transport == NULL)
		snprintf(
		    out, ENDPOINT_TEXT_MAX + 32, "user %" PRId64 " serves it", offer->peer_uid);
	else
		snprintf(out, ENDPOINT_TEXT_MAX + 32, "it is reached at %s", offer->endpoint[0]);
}

static void
paired(struct cli *cli, const struct pairing_offer *offer, const struct pairing_made *made)
{
	char who[ENDPOINT_TEXT_MAX + 32];

	if (cli->mode == CLI_JSON) {
		paired_json(offer, made);
		return;
	}
	served_by(offer, who);
	if (offer->replace)
		printf("The Host %s is paired anew; %s. What it was granted stays.\n", offer->host,
		    who);
	else if (strcmp(made->state, "active") == 0)
		printf("The Host %s may ask this machine now; %s.\n"
		       "What it asks waits for a person: bastion approvals\n",
		    offer->host, who);
	else
		printf("The Host %s is paired; %s.\n", offer->host, who);
	paired_means(cli, offer->host, made);
	if (stmt_value(store_sql(cli->db, FACTORS), 0) == 0)
		printf("Nobody can approve yet: bastion factor add totp\n");
}

/* What was asked for on the command line. */
struct wish {
	bool replace;
	const char *url, *ca, *listen;
};

/* A local machine has a Host already: a person at the terminal may say that one more is welcome. */
static int
second_asked(struct cli *cli, const char *name, char answer[CONSENT_ANSWER])
{
	char present[400] = "";
	struct stmt *q;

	if ((q = store_sql(cli->db, PRESENT)) == NULL)
		return -1;
	if (stmt_step(q) == 1) {
		snprintf(present, sizeof(present), "%s", stmt_get_text(q, 0));
		stmt_done(q);
	}
	return consent_ask(present, name, answer) == 0
		   ? 0
		   : refusal_set(&cli->refusal, "pairing.second",
			 "this machine has a Host already, and there is no terminal to ask at");
}

/* A code is spent by its use, so what would be refused afterwards is refused before. */
static int
offer_try(struct cli *cli, struct pairing_offer *offer, char answer[CONSENT_ANSWER])
{
	if (pairing_check(cli->db, offer) == 0)
		return 0;
	if (strcmp(store_refusal(cli->db)->code, "pairing.second") != 0 ||
	    second_asked(cli, offer->host, answer) != 0)
		return -1;
	offer->answer = answer;
	return pairing_check(cli->db, offer);
}

static int
pair_unix(struct cli *cli, const struct pairing_code *code, struct pairing_offer *offer)
{
	char lane[sizeof(cli->home.run) + sizeof(PAIRING_LANE) + 1], answer[CONSENT_ANSWER];
	struct pairing_made made;

	if (offer_try(cli, offer, answer) != 0)
		return -1;
	snprintf(lane, sizeof(lane), "%s/%s", cli->home.run, PAIRING_LANE);
	offer->socket = code->path;
	if (enroll_ask(cli->db, code, lane, &offer->peer_uid) != 0 ||
	    pairing_add(cli->db, offer, &made) != 0)
		return -1;
	paired(cli, offer, &made);
	return 0;
}

/* Be where the Host will dial: the port of ${endpoint}, under an authority of our own.  Return 1
 * where this machine listens from now on, 0 where it did before, -1. */
static int
listen_begin(struct cli *cli, const struct endpoint *endpoint, struct cert_blob *own)
{
	uint8_t fp[CERT_FP_SIZE];
	int fresh;

	if (tls_authority(cli->db, cli->key, fp) != 0 || tls_authority_own(cli->db, own) != 0 ||
	    (fresh = listen_box(cli->db, endpoint->port)) == -1 ||
	    tls_upkeep(cli->db, cli->key) != 0)
		return -1;
	return fresh;
}

/* Nobody will dial: what was refused is still what is said. */
static void
listen_undo(struct cli *cli)
{
	struct refusal why = *store_refusal(cli->db);

	listen_off(cli->db);
	*store_refusal(cli->db) = why;
}

/* Redeem, and keep what came of it. */
static int
redeem(struct cli *cli, const struct enroll_dial *dial, struct pairing_offer *offer)
{
	struct enroll_made got;
	struct pairing_made made;
	uint8_t fp[CERT_FP_SIZE];
	int rc;

	if (enroll_ask_tls(cli->db, dial, &got) != 0)
		return -1;
	cert_fingerprint(got.authority.data, got.authority.len, fp);
	offer->host = got.host;
	offer->host_key = got.host_key;
	offer->authority_fp = fp;
	offer->authority = got.authority;
	offer->cert = got.cert;
	offer->key = got.key;
	if ((rc = pairing_add(cli->db, offer, &made)) == 0)
		paired(cli, offer, &made);
	enroll_made_free(&got);
	return rc;
}

/* Pair with the Host of ${code} over a network; ${ca} is NULL where the code pins its authority. */
static int
pair_tls(struct cli *cli, const struct pairing_code *code, const struct cert_blob *ca,
    struct pairing_offer *offer, const char *listen)
{
	struct cert_blob own = {.data = NULL};
	struct endpoint endpoint;
	struct enroll_dial dial = {.code = code, .authority = ca, .key = cli->key};
	int rc = -1, fresh = 0;

	offer->transport = listen == NULL ? "reverse" : "tls";
	offer->endpoint = code->endpoint;
	offer->nendpoints = code->nendpoints;
	offer->wire = cli->key;
	if (listen != NULL) {
		if (endpoint_parse(listen, strlen(listen), &endpoint, &cli->refusal) != 0)
			return -1;
		dial.endpoint = endpoint.text;
		dial.own = &own;
	}
	if (listen == NULL || (fresh = listen_begin(cli, &endpoint, &own)) != -1)
		rc = redeem(cli, &dial, offer);
	if (rc != 0 && fresh == 1)
		listen_undo(cli);
	cert_blob_free(&own);
	return rc;
}

/* By a code, which says of the Host what there is to know. */
static int
pair_code(struct cli *cli, char *word, struct pairing_code *code, const struct wish *wish)
{
	char text[CODE_MAX + 2], answer[CONSENT_ANSWER];
	struct pairing_offer offer = {.host = code->host,
	    .host_key = code->host_key,
	    .peer_uid = getuid(),
	    .by_uid = geteuid(),
	    .replace = wish->replace,
	    .authority_fp = code->authority};
	int rc = -1;

	if (code_take(cli, word, text, sizeof(text)) == 0 && cli_open(cli, ROLE_PERSON) == 0)
		rc = code_read(cli->db, text, strlen(text), code);
	sodium_memzero(text, sizeof(text));
	if (rc != 0)
		return -1;
	if (code->nendpoints == 0)
		return wish->listen == NULL
			   ? pair_unix(cli, code, &offer)
			   : refusal_set(&cli->refusal, "pairing.transport",
				 "this code leads to a socket of this machine, where nobody listens");
	offer.transport = wish->listen == NULL ? "reverse" : "tls";
	return offer_try(cli, &offer, answer) == 0 ? pair_tls(cli, code, NULL, &offer, wish->listen)
						   : -1;
}

/* Read the Host's authority from the file ${path}. */
static int
ca_read(struct cli *cli, const char *path, struct cert_blob *ca, uint8_t fp[CERT_FP_SIZE])
{
	char text[2 * CERT_MAX + 2];
	struct cert cert;

	if (input_file(path, text, sizeof(text), &cli->refusal) != 0 ||
	    cert_from_pem(text, strlen(text), ca, &cli->refusal) != 0 ||
	    cert_read(ca->data, ca->len, &cert, &cli->refusal) != 0)
		return -1;
	if (!cert.ca)
		return refusal_set(
		    &cli->refusal, "cert.form", "this is no authority's certificate");
	memcpy(fp, cert.fp, CERT_FP_SIZE);
	return 0;
}

/* "https://HOST:PORT", and no more. */
static int
url_read(struct cli *cli, const char *url, struct pairing_code *code)
{
	static const char scheme[] = "https://";
	struct endpoint endpoint;
	size_t len = strlen(url);

	if (len > 0 && url[len - 1] == '/')
		len--;
	if (len <= strlen(scheme) || strncmp(url, scheme, strlen(scheme)) != 0 ||
	    endpoint_parse(url + strlen(scheme), len - strlen(scheme), &endpoint, NULL) != 0)
		return refusal_set(
		    &cli->refusal, "endpoint.invalid", "this is no https://HOST:PORT of a Host");
	memcpy(code->endpoint[0], endpoint.text, sizeof(endpoint.text));
	code->nendpoints = 1;
	return 0;
}

static int
token_read(struct cli *cli, unsigned char token[CODE_TOKEN])
{
	char text[2 * CODE_TOKEN + 2];
	size_t n = 0;
	int rc;

	rc = cli_secret("Token: ", text, sizeof(text)) == 2 * CODE_TOKEN &&
		     sodium_hex2bin(token, CODE_TOKEN, text, 2 * CODE_TOKEN, NULL, &n, NULL) == 0 &&
		     n == CODE_TOKEN
		 ? 0
		 : refusal_set(&cli->refusal, "code.invalid", "this is no token of a Host");
	sodium_memzero(text, sizeof(text));
	return rc;
}

/* Whether there is a place for one more Host, whose name nobody knows yet; the place stands for it.
 */
static int
place_try(
    struct cli *cli, const char *place, struct pairing_offer *offer, char answer[CONSENT_ANSWER])
{
	if (offer->replace || stmt_value(store_sql(cli->db, ALONE), 1) == 1)
		return 0;
	if (second_asked(cli, place, answer) != 0)
		return -1;
	offer->answer = answer;
	return 0;
}

/* By a token and the Host's authority in a file: who it is, is known once it answered. */
static int
pair_url(struct cli *cli, struct pairing_code *code, const struct wish *wish)
{
	struct cert_blob ca = {.data = NULL};
	struct pairing_offer offer = {.by_uid = geteuid(), .replace = wish->replace};
	char answer[CONSENT_ANSWER], host[65];
	int rc = -1;

	if (url_read(cli, wish->url, code) == 0 &&
	    ca_read(cli, wish->ca, &ca, code->authority) == 0 &&
	    token_read(cli, code->token) == 0 && cli_open(cli, ROLE_PERSON) == 0) {
		rc = pairing_pinned(cli->db, code->authority, code->endpoint[0], host);
		if (rc == -1 && wish->replace &&
		    strcmp(store_refusal(cli->db)->code, "pairing.exists") == 0)
			rc = 0;
		if (rc == 0 && (rc = place_try(cli, code->endpoint[0], &offer, answer)) == 0)
			rc = pair_tls(cli, code, &ca, &offer, wish->listen);
	}
	cert_blob_free(&ca);
	return rc;
}

static int
pair_option(void *ctx, int val, const char *arg)
{
	struct wish *wish = ctx;

	if (val == 'r')
		wish->replace = true;
	else if (val == 'u')
		wish->url = arg;
	else if (val == 'c')
		wish->ca = arg;
	else
		wish->listen = arg;
	return 0;
}

/*
 * VERB: pair
 *
 * usage: bastion pair CODE | - [--listen HOST:PORT] [--replace] [--json]
 *        bastion pair --redeem-url https://HOST:PORT --host-ca FILE
 *                     [--listen HOST:PORT] [--replace]
 *
 * Pair this machine with the Host that made CODE (bastion host invite). With -, the code is read
 * from standard input, so that it never stands on a command line. The Host may ask from then on; a
 * person approves. Exit 3 means that this Host is paired here already and nothing was changed.
 *
 * A code leads to the Host's socket on this machine, or over a network. There the Host has to prove
 * itself under the authority that the code pins, which this machine keeps; the Host certifies this
 * machine. From then on this machine dials the Host. With --listen it is the Host that dials:
 * this machine listens on PORT, and tells the Host that it is reached at HOST:PORT.
 *
 * With --redeem-url and --host-ca the same is done without a code: the token that the Host gave
 * out is read from standard input, and FILE has its authority in PEM.
 *
 * On a local machine that has a Host, a second one is asked about on the terminal, and only y or
 * yes lets it in. On a networked machine the first Host that root pairs becomes its anchor, and
 * later ones wait for the anchor's approval.
 *
 * With --replace, a Host that is paired here is paired anew: it keeps its age, its authority and
 * what it was granted.
 */
int
verb_pair(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"replace", no_argument, NULL, 'r'},
	    {"redeem-url", required_argument, NULL, 'u'}, {"host-ca", required_argument, NULL, 'c'},
	    {"listen", required_argument, NULL, 'l'}, {NULL, 0, NULL, 0}};
	struct pairing_code code = {.host = ""};
	struct wish wish = {.url = NULL};
	int first, rc;

	if ((first = cli_options(cli, argc, argv, longopts, pair_option, &wish)) < 0)
		return first == -2 ? 0 : 2;
	if ((wish.url == NULL) != (wish.ca == NULL))
		return cli_usage(cli, "--redeem-url and --host-ca belong together");
	if (argc - first != (wish.url == NULL))
		return cli_usage(cli, "give one code, or - to read it from standard input");
	rc = wish.url == NULL ? pair_code(cli, argv[first], &code, &wish)
			      : pair_url(cli, &code, &wish);
	sodium_memzero(&code, sizeof(code));
	return rc == 0 ? 0 : cli_refuse(cli);
}
