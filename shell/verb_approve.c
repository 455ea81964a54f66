/* verb_approve.c: a person says yes, to exactly what they were shown. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/sshsig.h"
#include "engine/state/approval.h"
#include "engine/state/person.h"
#include "shell/cli.h"
#include "shell/input.h"

#define CODE_SIZE 64

/* What stands in the way is said before anybody looks for their authenticator. */
static const char QUESTION[] =
    "SELECT terms, digest, state = 'pending', expires_at > now_ms(),"
    "    (SELECT count(*) FROM factor WHERE kind = :kind AND state = 'active'),"
    "    (SELECT says FROM approval_reach WHERE id = :id)"
    "  FROM approval WHERE id = :id";

static const char GRANTED[] = "SELECT id, host, op, args, uses, expires_at FROM live_grants"
			      " WHERE id = :id";

static int
approve_option(void *ctx, int val, const char *arg)
{
	const char **signature = ctx;

	if (val == 's') {
		*signature = arg;
		return 0;
	}
	/* A code on the command line would be there for every user to read. */
	return strcmp(arg, "-") == 0 || strcmp(arg, "prompt") == 0 ? 0 : -1;
}

static int
question_refused(struct refusal *r, struct stmt *q, const char *kind)
{
	if (stmt_get_int(q, 2) == 0)
		return refusal_set(r, "approval.decided", "this question is decided already");
	if (stmt_get_int(q, 3) == 0)
		return refusal_set(
		    r, "approval.expired", "this question ran out before it was answered");
	if (stmt_get_int(q, 4) == 0)
		return refusal_set(r, "factor.none", "no %s is enrolled here",
		    strcmp(kind, "ssh") == 0 ? "SSH key" : "authenticator");
	return 0;
}

/* Show the question, and keep the digest of what was shown. */
static int
question_show(struct cli *cli, int64_t id, const char *kind, unsigned char digest[APPROVAL_DIGEST])
{
	const void *found;
	struct stmt *q;
	int rc;

	if ((q = store_sql(cli->db, QUESTION)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":kind", kind);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(&cli->refusal, "approval.unknown",
				      "there is no question of this number");
	if ((rc = question_refused(&cli->refusal, q, kind)) == 0) {
		/* A program that asks for JSON shows the terms itself: approvals show --json. */
		if (cli->mode != CLI_JSON) {
			input_show_signed(stderr, "Question", id, stmt_get_text(q, 0));
			if (!stmt_is_null(q, 5))
				fprintf(stderr, "%s\n", stmt_get_text(q, 5));
		}
		if ((found = stmt_get_blob(q, 1, APPROVAL_DIGEST)) != NULL)
			memcpy(digest, found, APPROVAL_DIGEST);
	}
	stmt_done(q);
	return rc;
}

static int
granted(struct cli *cli, int64_t grant_id)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, GRANTED)) == NULL)
		return -1;
	stmt_int(q, ":id", grant_id);
	if (cli->mode == CLI_TABLE)
		printf("Approved. The Host holds this grant now:\n");
	return cli_show(cli, q);
}

static int
approve(struct cli *cli, int64_t id, const char *signature, char *code, char *armored)
{
	unsigned char digest[APPROVAL_DIGEST] = {0};
	char name[PERSON_NAME_MAX + 1];
	struct approval_answer answer = {
	    .id = id, .digest = digest, .uid = getuid(), .name = name, .signature = armored};
	int64_t grant_id;

	if (cli_open(cli, ROLE_PERSON) != 0 || person_name(getuid(), name, &cli->refusal) != 0 ||
	    question_show(cli, id, signature == NULL ? "totp" : "ssh", digest) != 0)
		return -1;
	answer.key = cli->key;
	if (signature != NULL) {
		if (input_file(signature, armored, SSHSIG_ARMOR_MAX + 2, &cli->refusal) != 0)
			return -1;
	} else if (cli_secret("Code: ", code, CODE_SIZE) == -1) {
		return refusal_set(&cli->refusal, "factor.code", "no code was given");
	} else {
		answer.code = code;
	}
	if (approval_approve(cli->db, &answer, &grant_id) != 0)
		return -1;
	return granted(cli, grant_id) == -1 ? -1 : 0;
}

/*
 * VERB: approve
 *
 * usage: bastion approve ID [--code - | --code prompt] [--json]
 *        bastion approve ID --signature FILE [--json]
 *
 * Approve the question ID of a Host, as it is shown. A code of an enrolled authenticator proves who
 * decides: it is asked for on the terminal, or read from standard input where that is none, and
 * never taken from the command line. Or an SSH signature does, from FILE or from standard input
 * (-), over what bastion approvals show ID --bytes prints. The Host then holds a grant, which is
 * shown.
 */
int
verb_approve(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"code", required_argument, NULL, 'c'},
	    {"signature", required_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
	char code[CODE_SIZE], armored[SSHSIG_ARMOR_MAX + 2];
	const char *signature = NULL;
	int first, rc;
	int64_t id;

	if ((first = cli_options(cli, argc, argv, longopts, approve_option, &signature)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1 || input_number(argv[first], &id) != 0)
		return cli_usage(cli, "name one question by its number: see bastion approvals");
	rc = approve(cli, id, signature, code, armored);
	sodium_memzero(code, sizeof(code));
	return rc == 0 ? 0 : cli_refuse(cli);
}
