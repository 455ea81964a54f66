/* verb_context.c: folders that users of this machine ask to share with a Host, and the answers. */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/sshsig.h"
#include "engine/state/context.h"
#include "engine/state/person.h"
#include "net/host/context_client.h"
#include "shell/cli.h"
#include "shell/input.h"
#include "shell/table.h"
#include "shell/text.h"

#define CODE_SIZE 64

static const char WAITING[] = "SELECT id, host, uid, root AS folder, name, asked_at, expires_at"
			      "  FROM open_context_asks ORDER BY id";

static const char ALL[] =
    "SELECT c.id, c.host_name AS host, c.uid, c.root AS folder, c.name,"
    "    iif(c.state = 'pending' AND c.expires_at <= now_ms(), 'expired', c.state) AS state,"
    "    c.asked_at, c.decided_by, f.label AS factor, c.decided_at, c.ended_at"
    "  FROM context_ask AS c LEFT JOIN factor AS f ON f.id = c.factor_id"
    " WHERE :id IS NULL OR c.id = :id ORDER BY c.id";

/* What stands in the way is said before anybody looks for their authenticator. */
static const char QUESTION[] =
    "SELECT terms, digest, uid, root,"
    "    (SELECT count(*) FROM factor WHERE kind = :kind AND state = 'active')"
    "  FROM context_ask WHERE id = :id";

static const char MINE[] =
    "SELECT value ->> '$.id' AS id, value ->> '$.host' AS host, value ->> '$.root' AS folder,"
    "    value ->> '$.name' AS name, value ->> '$.state' AS state,"
    "    value ->> '$.asked_at' AS asked_at, value ->> '$.expires_at' AS expires_at"
    "  FROM json_each(?1, '$.asks')";

static const char ASKED[] = "SELECT ?1 ->> '$.id', ?1 ->> '$.host', ?1 ->> '$.root'";

struct options {
	bool all, bytes;
	const char *name, *host, *signature;
};

static int
context_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'a':
		o->all = true;
		return 0;
	case 'b':
		o->bytes = true;
		return 0;
	case 'n':
		o->name = arg;
		return 0;
	case 'H':
		o->host = arg;
		return 0;
	case 's':
		o->signature = arg;
		return 0;
	default:
		/* A code on the command line would be there for every user to read. */
		return strcmp(arg, "-") == 0 || strcmp(arg, "prompt") == 0 ? 0 : -1;
	}
}

/*
 * A user: what is asked of the socket.  Their own words are all they have here, so SQLite works in
 * memory alone.
 */

/* Run ${sql} over the JSON text ${body}; the statement stands on its first row, or is NULL. */
static sqlite3_stmt *
over_json(sqlite3 **memory, const char *sql, const char *body)
{
	sqlite3_stmt *q = NULL;

	if (sqlite3_open(":memory:", memory) != SQLITE_OK ||
	    sqlite3_prepare_v2(*memory, sql, -1, &q, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(q, 1, body, -1, SQLITE_STATIC) != SQLITE_OK) {
		sqlite3_finalize(q);
		return NULL;
	}
	return q;
}

static char *
ask_body(const char *root, const struct options *o)
{
	char *body = NULL;
	size_t len;
	FILE *f;

	if ((f = open_memstream(&body, &len)) == NULL)
		return NULL;
	fputs("{\"root\":", f);
	text_json(f, root, strlen(root));
	if (o->name != NULL) {
		fputs(",\"name\":", f);
		text_json(f, o->name, strlen(o->name));
	}
	if (o->host != NULL) {
		fputs(",\"host\":", f);
		text_json(f, o->host, strlen(o->host));
	}
	fputc('}', f);
	return fclose(f) == 0 ? body : NULL;
}

static void
asked(const char *body)
{
	sqlite3 *memory;
	sqlite3_stmt *q = over_json(&memory, ASKED, body);

	if (q != NULL && sqlite3_step(q) == SQLITE_ROW) {
		const char *root = (const char *)sqlite3_column_text(q, 2);

		printf("Asked: may the Host %s have ", (const char *)sqlite3_column_text(q, 1));
		text_show(stdout, root, strlen(root));
		printf("? A person at this machine decides (ask %lld).\n"
		       "See what became of it: bastion context mine\n",
		    sqlite3_column_int64(q, 0));
	}
	sqlite3_finalize(q);
	sqlite3_close(memory);
}

/* The path without links: the bastion follows none, and the person is to read where it leads. */
static int
ask(struct cli *cli, const char *folder, const struct options *o)
{
	struct context_folder found;
	struct http_answer answer;
	char root[PATH_MAX], *body;
	int rc;

	if (realpath(folder, root) == NULL) {
		refusal_errno(&cli->refusal, "context.folder", "the folder");
		return cli_refuse(cli);
	}
	if (context_look(root, getuid(), &found, &cli->refusal) != 0)
		return cli_refuse(cli);
	if ((body = ask_body(root, o)) == NULL) {
		refusal_set(&cli->refusal, "store.failed", "out of memory");
		return cli_refuse(cli);
	}
	rc = context_call("POST", "/v1/folders", body, &answer, &cli->refusal);
	free(body);
	if (rc != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("%s\n", answer.body);
	else
		asked(answer.body);
	free(answer.body);
	return 0;
}

static int
mine(struct cli *cli)
{
	struct http_answer answer;
	struct table_style style;
	struct table *t;
	sqlite3 *memory;
	sqlite3_stmt *q;

	if (context_call("GET", "/v1/folders", NULL, &answer, &cli->refusal) != 0)
		return cli_refuse(cli);
	table_list(cli->mode, &style);
	q = over_json(&memory, MINE, answer.body);
	if (q != NULL && (t = table_begin(stdout, q, &style)) != NULL) {
		while (sqlite3_step(q) == SQLITE_ROW)
			table_row(t);
		if (table_end(t) == 0 && cli->mode == CLI_TABLE)
			printf("You asked for nothing yet: bastion context ask FOLDER\n");
	}
	sqlite3_finalize(q);
	sqlite3_close(memory);
	free(answer.body);
	return 0;
}

static int
withdraw(struct cli *cli, int64_t id)
{
	struct http_answer answer;
	char path[64];

	snprintf(path, sizeof(path), "/v1/folders/%" PRId64, id);
	if (context_call("DELETE", path, NULL, &answer, &cli->refusal) != 0)
		return cli_refuse(cli);
	printf(cli->mode == CLI_JSON ? "%s\n" : "Withdrawn.\n", answer.body);
	free(answer.body);
	return 0;
}

/*
 * A person who decides.
 */

static int
list(struct cli *cli, bool all)
{
	return cli_list_of(cli, all ? ALL : WAITING,
	    all ? "Nobody ever asked to share a folder." : "No folder waits for a person.");
}

/*
 * Show the ask ${id}, keep the digest of what was shown, and say what would hold it: ${kind} is the
 * factor that is to prove the person.
 */
static int
question_show(struct cli *cli, int64_t id, const char *kind, unsigned char digest[APPROVAL_DIGEST])
{
	char name[PERSON_NAME_MAX + 1];
	struct context_folder folder;
	struct refusal hangs;
	const void *found;
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, QUESTION)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":kind", kind);
	if ((n = stmt_step(q)) != 1)
		return n == -1 ? -1
			       : refusal_set(&cli->refusal, "context.unknown",
				     "there is no ask of this number");
	/* A program that asks for JSON shows the terms itself: context show --json. */
	if (cli->mode != CLI_JSON)
		input_show_signed(stderr, "Ask", id, stmt_get_text(q, 0));
	if (cli->mode != CLI_JSON && person_name((uid_t)stmt_get_int(q, 2), name, &hangs) == 0)
		fprintf(stderr, "    (uid %" PRId64 " is %s)\n\n", stmt_get_int(q, 2), name);
	if ((found = stmt_get_blob(q, 1, APPROVAL_DIGEST)) != NULL)
		memcpy(digest, found, APPROVAL_DIGEST);
	n = context_look(stmt_get_text(q, 3), stmt_get_int(q, 2), &folder, &cli->refusal);
	if (n == 0 && stmt_get_int(q, 4) == 0)
		n = refusal_set(&cli->refusal, "factor.none", "no %s is enrolled here",
		    strcmp(kind, "ssh") == 0 ? "SSH key" : "authenticator");
	stmt_done(q);
	return n;
}

static int
proof_take(struct cli *cli, const char *signature, char code[CODE_SIZE],
    char armored[SSHSIG_ARMOR_MAX + 2], struct approval_answer *answer)
{
	answer->key = cli->key;
	answer->signature = armored;
	if (signature != NULL)
		return input_file(signature, armored, SSHSIG_ARMOR_MAX + 2, &cli->refusal);
	if (cli_secret("Code: ", code, CODE_SIZE) == -1)
		return refusal_set(&cli->refusal, "factor.code", "no code was given");
	answer->code = code;
	return 0;
}

static int
allow(struct cli *cli, int64_t id, const char *signature)
{
	unsigned char digest[APPROVAL_DIGEST] = {0};
	char code[CODE_SIZE], armored[SSHSIG_ARMOR_MAX + 2], name[PERSON_NAME_MAX + 1];
	struct approval_answer answer = {.id = id, .digest = digest, .uid = getuid(), .name = name};
	int rc = -1;

	if (cli_open(cli, ROLE_PERSON) == 0 && person_name(getuid(), name, &cli->refusal) == 0 &&
	    question_show(cli, id, signature == NULL ? "totp" : "ssh", digest) == 0 &&
	    proof_take(cli, signature, code, armored, &answer) == 0)
		rc = context_allow(cli->db, &answer);
	sodium_memzero(code, sizeof(code));
	if (rc != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"state\":\"allowed\"}\n", id);
	else
		printf("Allowed. To take it back: bastion context drop %" PRId64 "\n", id);
	return 0;
}

static int
deny(struct cli *cli, int64_t id)
{
	struct approval_answer answer = {.id = id, .uid = getuid()};
	char name[PERSON_NAME_MAX + 1];
	struct refusal hangs;

	/* A directory that hangs holds no denial. */
	if (person_name(getuid(), name, &hangs) == 0)
		answer.name = name;
	if (cli_open(cli, ROLE_PERSON) != 0 || context_deny(cli->db, &answer) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"state\":\"denied\"}\n", id);
	else
		printf("Denied.\n");
	return 0;
}

static int
drop(struct cli *cli, int64_t id)
{
	if (cli_open(cli, ROLE_PERSON) != 0 || context_drop(cli->db, id) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"state\":\"dropped\"}\n", id);
	else
		printf("Taken back.\n");
	return 0;
}

static int
show(struct cli *cli, int64_t id, bool bytes)
{
	struct stmt *q;
	int rc;

	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, QUESTION)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	if ((rc = stmt_step(q)) != 1) {
		if (rc == 0)
			refusal_set(
			    &cli->refusal, "context.unknown", "there is no ask of this number");
		return cli_refuse(cli);
	}
	if (bytes)
		fputs(stmt_get_text(q, 0), stdout);
	else if (cli->mode == CLI_TABLE)
		input_show_signed(stdout, "Ask", id, stmt_get_text(q, 0));
	stmt_done(q);
	if (bytes)
		return 0;
	if ((q = store_sql(cli->db, ALL)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":id", id);
	return cli_show(cli, q) == -1 ? cli_refuse(cli) : 0;
}

static int
with_number(struct cli *cli, const char *what, const char *word, const struct options *o)
{
	int64_t id;

	if (input_number(word, &id) != 0)
		return cli_usage(cli, "an ask has a number: see bastion context");
	if (strcmp(what, "show") == 0)
		return show(cli, id, o->bytes);
	if (strcmp(what, "allow") == 0)
		return allow(cli, id, o->signature);
	if (strcmp(what, "deny") == 0)
		return deny(cli, id);
	if (strcmp(what, "drop") == 0)
		return drop(cli, id);
	if (strcmp(what, "withdraw") == 0)
		return withdraw(cli, id);
	return cli_unexpected(cli, what);
}

/*
 * VERB: context
 *
 * usage: bastion context ask FOLDER [--name NAME] [--host HOST] [--json]
 *        bastion context mine [--json]
 *        bastion context withdraw ID [--json]
 *        bastion context [ls] [--all] [--json]
 *        bastion context show ID [--bytes] [--json]
 *        bastion context allow ID [--code - | --code prompt | --signature FILE] [--json]
 *        bastion context deny ID | drop ID [--json]
 *
 * Any user of this machine may ask to share a folder of their own with its Host, see what they
 * asked, and take it back. Whoever runs the daemon decides: allowing takes a code or a signature as
 * with bastion approve, over what is shown; denying, and taking back what was allowed, takes none.
 * The folder must be owned by the user who asked, and no part of its path a link.
 */
int
verb_context(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"all", no_argument, NULL, 'a'},
	    {"bytes", no_argument, NULL, 'b'}, {"name", required_argument, NULL, 'n'},
	    {"host", required_argument, NULL, 'H'}, {"signature", required_argument, NULL, 's'},
	    {"code", required_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
	struct options o = {.all = false};
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, context_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 0 || (words == 1 && strcmp(argv[first], "ls") == 0))
		return list(cli, o.all);
	if (words == 1 && strcmp(argv[first], "mine") == 0)
		return mine(cli);
	if (words == 2 && strcmp(argv[first], "ask") == 0)
		return ask(cli, argv[first + 1], &o);
	if (words == 2)
		return with_number(cli, argv[first], argv[first + 1], &o);
	return cli_unexpected(cli, argv[first]);
}
