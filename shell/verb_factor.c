/* verb_factor.c: what proves that a person decides: enrol, list, drop. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/crypto/sshsig.h"
#include "engine/state/factor.h"
#include "shell/cli.h"
#include "shell/input.h"
#include "shell/text.h"

static const char LIST[] =
    "SELECT f.id, f.kind, f.label, f.fingerprint, f.state, f.enrolled_at, f.dropped_at,"
    "    (SELECT count(*) FROM grant WHERE factor_id = f.id AND state = 'active') AS grants"
    "  FROM factor AS f WHERE f.state = 'active' OR :all ORDER BY f.id";

struct options {
	const char *label;
	bool all;
};

static int
factor_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	if (val == 'l')
		o->label = arg;
	else
		o->all = true;
	return 0;
}

/* The one time that the secret is shown. */
static void
show_totp(const struct cli *cli, const struct factor_totp *totp, const char *label)
{
	if (cli->mode == CLI_JSON) {
		printf("{\"id\":%" PRId64 ",\"label\":", totp->id);
		text_json(stdout, label, strlen(label));
		printf(",\"secret\":\"%s\",\"uri\":", totp->secret);
		text_json(stdout, totp->uri, strlen(totp->uri));
		printf("}\n");
		return;
	}
	printf("Factor %" PRId64 ". Put this into the authenticator now; it is not shown again:\n\n"
	       "    %s\n    %s\n\n"
	       "(as a QR code: qrencode -t ansiutf8, which reads the second line)\n",
	    totp->id, totp->secret, totp->uri);
}

static int
add_totp(struct cli *cli, const char *label)
{
	struct factor_totp totp;

	if (label == NULL)
		label = "authenticator";
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    factor_add_totp(cli->db, cli->key, label, &totp) != 0)
		return cli_refuse(cli);
	show_totp(cli, &totp, label);
	fflush(stdout);
	sodium_memzero(&totp, sizeof(totp));
	return 0;
}

static int
add_ssh(struct cli *cli, const char *path, const char *label)
{
	char line[SSHSIG_LINE_MAX + 2];
	int64_t id;

	if (input_file(path, line, sizeof(line), &cli->refusal) != 0 ||
	    cli_open(cli, ROLE_PERSON) != 0 || factor_add_ssh(cli->db, line, label, &id) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 "}\n", id);
	else
		printf("Factor %" PRId64 ". To approve with it:\n"
		       "    bastion approvals show ID --bytes | ssh-keygen -Y sign -n %s -f KEY |\n"
		       "        bastion approve ID --signature -\n",
		    id, FACTOR_NAMESPACE);
	return 0;
}

static int
drop(struct cli *cli, const char *word)
{
	int64_t id, grants;

	if (input_number(word, &id) != 0)
		return cli_usage(cli, "a factor has a number: see bastion factor");
	if (cli_open(cli, ROLE_PERSON) != 0 || factor_drop(cli->db, id, &grants) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"grants\":%" PRId64 "}\n", id, grants);
	else if (grants > 0)
		printf("Factor %" PRId64 " is dropped, and with it %" PRId64 " grant%s for good.\n",
		    id, grants, grants == 1 ? "" : "s");
	else
		printf("Factor %" PRId64 " is dropped.\n", id);
	return 0;
}

static int
add(struct cli *cli, int words, char **word, const char *label)
{
	if (words == 1 && strcmp(word[0], "totp") == 0)
		return add_totp(cli, label);
	if (words == 2 && strcmp(word[0], "ssh") == 0)
		return add_ssh(cli, word[1], label);
	return cli_usage(cli, "add what: totp, or ssh and the file of a public key?");
}

/*
 * VERB: factor
 *
 * usage: bastion factor [ls] [--all] [--json]
 *        bastion factor add totp [--label LABEL] [--json]
 *        bastion factor add ssh FILE.pub [--label LABEL] [--json]
 *        bastion factor drop ID [--json]
 *
 * Enrol what proves that a person decides: an authenticator app or an SSH key. List them, or drop
 * one. The authenticator's secret is shown once, as text and as an otpauth:// address. SSH keys are
 * Ed25519, on a FIDO token or not; FILE.pub may be - for standard input. Dropping a factor drops
 * every grant that was approved with it, at once and for good: enrolling the same key again does
 * not bring them back.
 */
int
verb_factor(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"label", required_argument, NULL, 'l'},
	    {"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	struct options o = {NULL, false};
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, factor_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 0 || (words == 1 && strcmp(argv[first], "ls") == 0))
		return cli_list_all(cli, LIST, o.all,
		    "No factor is enrolled. Without one nobody can approve: bastion factor add totp");
	if (strcmp(argv[first], "add") == 0)
		return add(cli, words - 1, argv + first + 1, o.label);
	if (strcmp(argv[first], "drop") == 0 && words == 2)
		return drop(cli, argv[first + 1]);
	return cli_unexpected(cli, argv[first]);
}
