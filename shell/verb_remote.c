/* verb_remote.c: who may come from other machines to run sessions here, and where they are heard.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/remote.h"
#include "engine/state/tls_identity.h"
#include "shell/cli.h"
#include "shell/words.h"

#define VERBS_MAX 8
#define ROOTS_MAX 16

static const char LIST[] =
    "SELECT name, state, by_uid, (SELECT group_concat(value, ' ') FROM json_each(verbs)) AS verbs,"
    "  (SELECT group_concat(value, ' ') FROM json_each(roots)) AS roots, sessions, last_at, expires_at"
    "  FROM remote_credentials WHERE state = 'active' OR :all ORDER BY id";
static const char TRIES[] =
    "SELECT t.at, t.origin, t.result, c.name FROM remote_try AS t"
    "  LEFT JOIN remote_credential AS c ON c.id = t.credential_id ORDER BY t.id";
static const char COPIES[] =
    "SELECT name, folder, credential, generation, state, received, size, session, message"
    "  FROM remote_bundles ORDER BY id";
static const char LISTENS[] =
    "SELECT coalesce((SELECT address || ':' || port FROM remote_listen), '') AS listens,"
    "  coalesce((SELECT lower(hex(fp)) FROM tls_authority), '') AS pin";

struct options {
	char *roots[ROOTS_MAX + 1]; /* ended by NULL */
	size_t nroots;
	const char *verbs;
	int64_t ttl_ms;
	bool all;
};

static int
take_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'r':
		if (o->nroots == ROOTS_MAX)
			return cli_wrong("there are too many");
		/* As it is now: a link that is changed later leads nowhere else. */
		if ((o->roots[o->nroots] = realpath(arg, NULL)) == NULL)
			return cli_wrong(strerror(errno));
		o->nroots++;
		return 0;
	case 'v':
		o->verbs = arg;
		return 0;
	case 'e':
		return cli_duration(arg, &o->ttl_ms);
	default:
		o->all = true;
		return 0;
	}
}

static int
tries(struct cli *cli)
{
	return cli_list_of(cli, TRIES, "Nobody has come.");
}

static int
copies(struct cli *cli)
{
	return cli_list_of(cli, COPIES, "No repository was copied here.");
}

static int
listen_at(struct cli *cli, const char *where)
{
	bool off = where != NULL && strcmp(where, "off") == 0;
	struct listen_place place;

	if (where != NULL && !off && listen_parse(where, &place, &cli->refusal) != 0)
		return cli_refuse(cli);
	if (cli_open(cli, where == NULL ? ROLE_READER : ROLE_PERSON) != 0 ||
	    (off && remote_listen_off(cli->db) != 0) ||
	    (where != NULL && !off &&
		(remote_listen(cli->db, &place) != 0 || tls_upkeep(cli->db, cli->key) != 0)) ||
	    cli_show(cli, store_sql(cli->db, LISTENS)) == -1)
		return cli_refuse(cli);
	return 0;
}

/* The authority that vouches for this machine, for programs that want it as a file. */
static int
authority(struct cli *cli)
{
	struct cert_blob pem;

	if (cli_open(cli, ROLE_READER) != 0 || tls_authority_pem(cli->db, &pem) != 0)
		return cli_refuse(cli);
	fwrite(pem.data, 1, pem.len, stdout);
	cert_blob_free(&pem);
	return 0;
}

/* What the other machine needs, once. */
static void
hand_over(struct cli *cli, const char *name, char token[REMOTE_TOKEN_LEN + 1])
{
	struct stmt *q = store_sql(cli->db, LISTENS);
	const char *pin = "", *at = "";

	if (q != NULL && stmt_step(q) == 1) {
		at = stmt_get_text(q, 0);
		pin = stmt_get_text(q, 1);
	}
	if (cli->mode == CLI_JSON)
		printf("{\"token\":\"%s\",\"pin\":\"%s\"}\n", token, pin);
	else
		printf("%s\n", token);
	sodium_memzero(token, REMOTE_TOKEN_LEN + 1);
	if (cli->mode != CLI_TABLE)
		;
	else if (at[0] == '\0')
		fprintf(stderr,
		    "The secret is shown once. Nobody is heard yet: bastion remote listen "
		    "'*:7444'\n");
	else
		fprintf(stderr,
		    "The secret is shown once. On the other machine, with this one's address:\n"
		    "  bastion remote login %s HOST:%s --ca-pin %s\n",
		    name, strrchr(at, ':') + 1, pin);
	if (q != NULL)
		stmt_done(q);
}

/* "run,list" as a JSON array, for words_free; NULL with the refusal of the store. */
static char *
verbs_json(struct store *db, const char *text)
{
	char copy[256], *verbs[VERBS_MAX + 1], *at = copy;
	size_t n = 0;

	if (strlen(text) < sizeof(copy)) {
		strcpy(copy, text);
		while (n < VERBS_MAX && (verbs[n] = strsep(&at, ",")) != NULL)
			n++;
		verbs[n] = NULL;
		if (at == NULL)
			return words_json(db, verbs);
	}
	refusal_set(store_refusal(db), "remote.verbs", "these are more verbs than there are");
	return NULL;
}

static int
add(struct cli *cli, const struct options *o, const char *name)
{
	struct remote_ask ask = {.name = name, .uid = getuid(), .ttl_ms = o->ttl_ms};
	char token[REMOTE_TOKEN_LEN + 1], *verbs = NULL, *roots = NULL;
	uint8_t fp[CERT_FP_SIZE];
	int rc = -1;

	if (cli_open(cli, ROLE_PERSON) == 0 && tls_authority(cli->db, cli->key, fp) == 0 &&
	    (verbs = verbs_json(cli->db, o->verbs)) != NULL &&
	    (roots = words_json(cli->db, o->roots)) != NULL) {
		ask.verbs = verbs;
		ask.roots = roots;
		rc = remote_add(cli->db, cli->key, &ask, token);
	}
	words_free(verbs);
	words_free(roots);
	if (rc != 0)
		return cli_refuse(cli);
	hand_over(cli, name, token);
	return 0;
}

static int
rotate(struct cli *cli, const struct options *o, const char *name)
{
	char token[REMOTE_TOKEN_LEN + 1];

	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    remote_rotate(cli->db, cli->key, name, o->ttl_ms, token) != 0)
		return cli_refuse(cli);
	hand_over(cli, name, token);
	return 0;
}

static int
end(struct cli *cli, const char *name)
{
	if (cli_open(cli, ROLE_PERSON) != 0 || remote_revoke(cli->db, name) != 0)
		return cli_refuse(cli);
	return 0;
}

static int
act(struct cli *cli, const struct options *o, int n, char **words)
{
	const char *what = n == 0 ? "ls" : words[0];

	if (strcmp(what, "ls") == 0 && n <= 1)
		return cli_list_all(cli, LIST, o->all,
		    "No other machine may come. Make a secret for one: bastion remote add NAME");
	if (strcmp(what, "tries") == 0 && n == 1)
		return tries(cli);
	if (strcmp(what, "copies") == 0 && n == 1)
		return copies(cli);
	if (strcmp(what, "listen") == 0 && n <= 2)
		return listen_at(cli, n == 2 ? words[1] : NULL);
	if (strcmp(what, "ca") == 0 && n == 1)
		return authority(cli);
	if (strcmp(what, "add") == 0 && n == 2 && o->nroots > 0)
		return add(cli, o, words[1]);
	if (strcmp(what, "rotate") == 0 && n == 2)
		return rotate(cli, o, words[1]);
	if (strcmp(what, "revoke") == 0 && n == 2)
		return end(cli, words[1]);
	return cli_usage(cli, strcmp(what, "add") == 0
				  ? "name the credential, and with --root where it may work"
				  : "say ls, listen, ca, add, rotate, revoke, tries or copies");
}

/*
 * VERB: remote
 *
 * usage: bastion remote [ls] [--all] [--json]
 *        bastion remote listen [IP:PORT | *:PORT | off] [--json]
 *        bastion remote ca
 *        bastion remote add NAME --root DIR... [--verbs LIST] [--expires 30d] [--json]
 *        bastion remote rotate NAME [--expires 30d] [--json]
 *        bastion remote revoke NAME
 *        bastion remote tries [--json]
 *        bastion remote copies [--json]
 *
 * Say who may run sessions here from another machine. Nobody is heard until listen names a place,
 * under TLS; the certificate is one of this machine's own authority, whose pin the other side
 * keeps; ca writes it as a file for other programs. add writes a secret to standard output, once;
 * only a keyed digest is kept. Sessions run as the user who made the credential, in its folders or
 * beneath. LIST is run,list,attach,send,cancel unless said: run starts workers, with words that are
 * no options; command starts anything; bundle copies repositories here (bastion session run
 * --repo), and copies lists those. revoke and rotate end every open connection of the credential at
 * once. Wrong secrets are told late, and hold their address for ever longer (settings remote.*);
 * tries lists them.
 */
int
verb_remote(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"root", required_argument, NULL, 'r'},
	    {"verbs", required_argument, NULL, 'v'}, {"expires", required_argument, NULL, 'e'},
	    {"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	struct options o = {.verbs = "run,list,attach,send,cancel"};
	int first, rc;
	size_t i;

	if ((first = cli_options(cli, argc, argv, longopts, take_option, &o)) < 0)
		rc = first == -2 ? 0 : 2;
	else
		rc = act(cli, &o, argc - first, argv + first);
	for (i = 0; i < o.nroots; i++)
		free(o.roots[i]);
	return rc;
}
