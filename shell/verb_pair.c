/* verb_pair.c: let the Host of a code ask this machine. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/pairing.h"
#include "net/host/enroll_client.h"
#include "shell/cli.h"
#include "shell/text.h"

static const char FACTORS[] = "SELECT count(*) FROM factor WHERE state = 'active'";

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

static void
paired(struct cli *cli, const char *host, int64_t id, int64_t uid)
{
	if (cli->mode == CLI_JSON) {
		printf("{\"id\":%" PRId64 ",\"host\":", id);
		text_json(stdout, host, strlen(host));
		printf(",\"peer_uid\":%" PRId64 "}\n", uid);
		return;
	}
	printf("The Host %s may ask this machine now; user %" PRId64 " serves it.\n"
	       "What it asks waits for a person: bastion approvals\n",
	    host, uid);
	if (stmt_value(store_sql(cli->db, FACTORS), 0) == 0)
		printf("Nobody can approve yet: bastion factor add totp\n");
}

static int
pair(struct cli *cli, const char *text, struct pairing_code *code)
{
	char lane[sizeof(cli->home.run) + sizeof(PAIRING_LANE) + 1];
	int64_t uid, id;

	if (cli_open(cli, ROLE_PERSON) != 0 || code_read(cli->db, text, strlen(text), code) != 0)
		return -1;
	/* A code is spent by its use, so what would be refused here is refused before. */
	if (pairing_check(cli->db, code->host, code->host_key, getuid()) != 0)
		return -1;
	snprintf(lane, sizeof(lane), "%s/%s", cli->home.run, PAIRING_LANE);
	if (enroll_ask(cli->db, code, lane, &uid) != 0 ||
	    pairing_add(cli->db, code->host, code->host_key, uid, &id) != 0)
		return -1;
	paired(cli, code->host, id, uid);
	return 0;
}

/*
 * VERB: pair
 *
 * usage: bastion pair CODE | - [--json]
 *
 * Pair this machine with the Host that made CODE (bastion host invite). With -, the code is read
 * from standard input, so that it never stands on a command line. The Host may ask from then on; a
 * person approves. Exit 3 means that this Host is paired here already and nothing was changed.
 */
int
verb_pair(struct cli *cli, int argc, char **argv)
{
	struct pairing_code code = {.host = ""};
	char text[CODE_MAX + 2];
	int first, rc = -1;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "give one code, or - to read it from standard input");
	if (code_take(cli, argv[first], text, sizeof(text)) == 0)
		rc = pair(cli, text, &code);
	sodium_memzero(text, sizeof(text));
	sodium_memzero(&code, sizeof(code));
	return rc == 0 ? 0 : cli_refuse(cli);
}
