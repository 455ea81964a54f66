/* verb_contain.c: which Host may have processes stopped here, and which are spared. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/crypto/sshsig.h"
#include "engine/state/pairing.h"
#include "engine/state/sparing.h"
#include "engine/worker/contain.h"
#include "shell/cli.h"
#include "shell/input.h"

#define CODE_SIZE 64

static const char SPARED[] =
    "SELECT id, label, uid, exe AS program, iif(argv_sha256 IS NULL, 'any', 'these') AS arguments,"
    "    listed_at FROM contain_spare WHERE state = 'active' ORDER BY id";

static const char ALL[] =
    "SELECT id, label, state, uid, exe AS program, lower(hex(argv_sha256)) AS argv_sha256, listed_at,"
    "    dropped_at, by_uid FROM contain_spare ORDER BY id";

static const char HOSTS[] =
    "SELECT host, iif(agents, 'yes', 'no') AS listed_too, factor, created_at,"
    "    expires_at FROM live_contain_rights ORDER BY host";

static const char ORDERS[] =
    "SELECT d.id, p.host_name AS host, d.kind, d.terms ->> '$.pid' AS pid, d.state, d.result, d.taken_at,"
    "    d.ended_at FROM directive AS d JOIN pairing AS p ON p.id = d.pairing_id ORDER BY d.id";

static const char EDITED[] =
    "SELECT NOT EXISTS (SELECT 1 FROM contain_account AS a JOIN contain_account_text AS t"
    "                    WHERE seal_ok('contain', t.text, a.seal) = 1)"
    "   AND (EXISTS (SELECT 1 FROM contain_account) OR EXISTS (SELECT 1 FROM contain_spare))";

struct options {
	bool all, any, agents, bytes;
	const char *label, *signature;
	int64_t ttl_ms;
};

static int
contain_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'a':
		o->all = true;
		return 0;
	case 'y':
		o->any = true;
		return 0;
	case 'g':
		o->agents = true;
		return 0;
	case 'b':
		o->bytes = true;
		return 0;
	case 'l':
		o->label = arg;
		return 0;
	case 's':
		o->signature = arg;
		return 0;
	default:
		return cli_duration(arg, &o->ttl_ms) == 0 && o->ttl_ms >= 1000 ? 0 : -1;
	}
}

static int
list(struct cli *cli, enum store_role role, const char *sql, const char *none)
{
	return cli_open(cli, role) != 0 ? cli_refuse(cli)
					: cli_list(cli, store_sql(cli->db, sql), none);
}

/* A reader checks seals with the machine's public keys, which come with the key of a person. */
static int
list_spared(struct cli *cli, bool all)
{
	int rc = list(cli, ROLE_PERSON, all ? ALL : SPARED,
	    "No process is listed: an order spares what bastion started, and init.");

	if (rc != 0)
		return rc;
	if (stmt_value(store_sql(cli->db, EDITED), 0) == 1)
		fprintf(stderr,
		    "The list was changed by another tool: nothing is stopped until it is sealed"
		    " anew, by bastion contain trust.\n");
	return 0;
}

static int
allow(struct cli *cli, int64_t pid, const struct options *o)
{
	static struct contain_print print; /* large */
	struct identity who;
	struct sparing_process process = {.label = o->label, .exe = print.exe, .by_uid = getuid()};
	int64_t id;

	if (cli_open(cli, ROLE_PERSON) != 0 || contain_print_of(pid, &print, &cli->refusal) != 0)
		return cli_refuse(cli);
	if (o->label == NULL && identity_of(pid, &who) == 0)
		process.label = who.program;
	process.uid = print.uid;
	process.argv = o->any ? NULL : print.argv;
	if (sparing_add(cli->db, &process, &id) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"state\":\"active\"}\n", id);
	else
		printf("Spared from now on, with everything beneath it (entry %" PRId64 ").\n", id);
	return 0;
}

static int
prove(struct cli *cli, const struct sparing_terms *terms, const struct options *o,
    struct sparing_proof *proof, char *code, char *armored)
{
	char text[SPARING_TERMS_MAX];

	proof->key = cli->key;
	if (sparing_text(cli->db, terms, text) != 0)
		return -1;
	if (o->signature != NULL) {
		proof->signature = armored;
		return input_file(o->signature, armored, SSHSIG_ARMOR_MAX + 2, &cli->refusal);
	}
	if (cli->mode != CLI_JSON)
		input_show_terms(stderr, text);
	if (cli_secret("Code: ", code, CODE_SIZE) == -1)
		return refusal_set(&cli->refusal, "factor.code", "no code was given");
	proof->code = code;
	return 0;
}

/* The exact bytes that an SSH key signs, and nothing else. */
static int
show_bytes(struct cli *cli, const struct sparing_terms *terms)
{
	char text[SPARING_TERMS_MAX];

	if (sparing_text(cli->db, terms, text) != 0)
		return cli_refuse(cli);
	fputs(text, stdout);
	return 0;
}

static int
decide(struct cli *cli, const struct sparing_terms *terms, const struct options *o)
{
	char code[CODE_SIZE], armored[SSHSIG_ARMOR_MAX + 2];
	struct sparing_proof proof = {.by_uid = getuid()};
	int rc = -1;

	if (o->bytes)
		return show_bytes(cli, terms);
	if (prove(cli, terms, o, &proof, code, armored) == 0)
		rc = sparing_decide(cli->db, terms, &proof);
	sodium_memzero(code, sizeof(code));
	if (rc != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"state\":\"%s\"}\n", terms->pairing_id != 0 ? "active" : "dropped");
	else
		printf("%s\n", terms->pairing_id != 0
				   ? "It may order processes to be stopped here. To take that back:"
				     " bastion contain untrust HOST"
				   : "No longer spared.");
	return 0;
}

static int
trust(struct cli *cli, const char *host, const struct options *o)
{
	struct sparing_terms terms = {.agents = o->agents, .ttl_ms = o->ttl_ms};
	struct pairing pairing;

	if (cli_open(cli, ROLE_PERSON) != 0 || pairing_pick(cli->db, host, &pairing) != 0)
		return cli_refuse(cli);
	terms.pairing_id = pairing.id;
	return decide(cli, &terms, o);
}

static int
untrust(struct cli *cli, const char *host)
{
	struct pairing pairing;
	bool ended;

	if (cli_open(cli, ROLE_PERSON) != 0 || pairing_pick(cli->db, host, &pairing) != 0 ||
	    sparing_end(cli->db, pairing.id, &ended) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"ended\":%s}\n", ended ? "true" : "false");
	else
		printf(ended ? "It may have nothing stopped here any more.\n"
			     : "It might have nothing stopped here before.\n");
	return 0;
}

static int
with_word(struct cli *cli, const char *what, const char *word, const struct options *o)
{
	struct sparing_terms terms = {.pairing_id = 0};
	int64_t id;

	if (strcmp(what, "trust") == 0)
		return trust(cli, word, o);
	if (strcmp(what, "untrust") == 0)
		return untrust(cli, word);
	if (strcmp(what, "allow") != 0 && strcmp(what, "drop") != 0)
		return cli_unexpected(cli, what);
	if (input_number(word, &id) != 0)
		return cli_usage(cli, "processes and entries have numbers");
	if (strcmp(what, "allow") == 0)
		return allow(cli, id, o);
	terms.entry = id;
	return cli_open(cli, ROLE_PERSON) == 0 ? decide(cli, &terms, o) : cli_refuse(cli);
}

/*
 * VERB: contain
 *
 * usage: bastion contain [ls] [--all] [--json]
 *        bastion contain allow PID [--any] [--label TEXT] [--json]
 *        bastion contain drop ID [--signature FILE | --bytes] [--json]
 *        bastion contain trust HOST [--agents] [--for TIME] [--signature FILE | --bytes] [--json]
 *        bastion contain untrust HOST [--json]
 *        bastion contain hosts | orders [--json]
 *
 * A Host that you trust with it may order that a process of this machine is stopped, with
 * everything beneath it. What bastion started, init, and what you list is spared, with everything
 * beneath that: allow lists the process PID by its user, program and arguments, or with --any
 * whatever its arguments. With --agents the Host may also name a listed process itself. Trusting a
 * Host and taking an entry from the list are proven by a code, or an SSH signature over what
 * --bytes prints. Once another tool changed the list, nothing is stopped until trust seals it anew.
 */
int
verb_contain(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"all", no_argument, NULL, 'a'},
	    {"any", no_argument, NULL, 'y'}, {"agents", no_argument, NULL, 'g'},
	    {"bytes", no_argument, NULL, 'b'}, {"label", required_argument, NULL, 'l'},
	    {"signature", required_argument, NULL, 's'}, {"for", required_argument, NULL, 'f'},
	    {NULL, 0, NULL, 0}};
	struct options o = {.ttl_ms = 0};
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, contain_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 0 || (words == 1 && strcmp(argv[first], "ls") == 0))
		return list_spared(cli, o.all);
	/* Whether a right is sealed is checked with the machine's keys, as the list is. */
	if (words == 1 && strcmp(argv[first], "hosts") == 0)
		return list(cli, ROLE_PERSON, HOSTS, "No Host may have processes stopped here.");
	if (words == 1 && strcmp(argv[first], "orders") == 0)
		return list(cli, ROLE_READER, ORDERS, "No Host ever ordered anything here.");
	if (words == 2)
		return with_word(cli, argv[first], argv[first + 1], &o);
	return cli_unexpected(cli, argv[first]);
}
