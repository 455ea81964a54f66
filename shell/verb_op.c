/* verb_op.c: ops that a person adds: signed, listed, shown, taken back. */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/sshsig.h"
#include "engine/state/manifest.h"
#include "engine/worker/program.h"
#include "net/http/json.h"
#include "shell/cli.h"
#include "shell/input.h"
#include "shell/op_build.h"

#define CODE_SIZE 64

static const char LIST[] =
    "SELECT name AS op, summary, coalesce(program, 'its verbs') AS runs, holds, signed_with,"
    "    created_at FROM added_ops ORDER BY name";

static const char ALL[] =
    "SELECT m.name AS op, m.id, m.state, m.end_reason AS reason, f.label AS signed_with, m.created_at,"
    "    m.ended_at FROM op_manifest AS m JOIN factor AS f ON f.id = m.factor_id ORDER BY m.id";

static const char ONE[] =
    "SELECT name AS op, summary, holds, program, program_sha256, interpreter_sha256, signed_with,"
    "    by_uid, created_at, manifest AS body FROM added_ops WHERE name = :name";

struct options {
	bool all, bytes;
	const char *signature;
};

/* An op on its way to its row. */
struct draft {
	struct manifest_draft of;
	char text[MANIFEST_MAX + 2], terms[MANIFEST_TERMS_MAX];
	char program[PATH_MAX], interpreter[PATH_MAX];
	char builder[MANIFEST_WORDS_MAX][MANIFEST_WORD_MAX];
	char code[CODE_SIZE], armored[SSHSIG_ARMOR_MAX + 2];
};

static int
op_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'a':
		o->all = true;
		return 0;
	case 'b':
		o->bytes = true;
		return 0;
	default:
		o->signature = arg;
		return 0;
	}
}

/* The digest of what would run: of the bytes as they are now. */
static int
digest(struct cli *cli, const char *path, bool alone, char sha256[MANIFEST_HEX])
{
	int fd, rc = 0;

	if (path[0] == '\0')
		return 0;
	if ((fd = program_seal(
		 path, store_setting(cli->db, "manifest.file"), sha256, &cli->refusal)) == -1)
		return -1;
	if (alone && program_is_script(fd))
		rc = refusal_set(&cli->refusal, "manifest.script",
		    "%s is a script, and no interpreter is named", path);
	close(fd);
	return rc;
}

/* Have the program made by its builder, if it has one.  Return 1 if it was, 0 if not, or -1. */
static int
build(struct cli *cli, struct draft *d)
{
	struct manifest_draft *of = &d->of;
	char *words[MANIFEST_WORDS_MAX];
	struct op_built built;
	int i, n;

	if ((n = manifest_builder(cli->db, d->text, d->builder)) <= 0)
		return n;
	if (d->program[0] != '/')
		return refusal_set(&cli->refusal, "manifest.program",
		    "a builder makes a program of a file: name that as the program");
	for (i = 0; i < n; i++)
		words[i] = d->builder[i];
	if (op_build(cli, d->program, words, (size_t)n, &built) != 0)
		return -1;
	snprintf(of->source_sha256, sizeof(of->source_sha256), "%s", built.source_sha256);
	snprintf(of->builder_sha256, sizeof(of->builder_sha256), "%s", built.builder_sha256);
	snprintf(of->program_sha256, sizeof(of->program_sha256), "%s", built.sha256);
	of->built = built.bytes;
	of->built_len = built.len;
	if (d->interpreter[0] != '\0' || built.len < 2 || memcmp(built.bytes, "#!", 2) != 0)
		return 1;
	return refusal_set(&cli->refusal, "manifest.script",
	    "what was built is a script, and no interpreter is named");
}

/* A code is typed, so its file may come from standard input alone where there is a terminal. */
static int
draft_read(struct cli *cli, const char *file, struct draft *d)
{
	struct manifest_draft *of = &d->of;
	int built;

	if (input_file(file, d->text, sizeof(d->text), &cli->refusal) != 0 ||
	    http_json_check(d->text, strlen(d->text), MANIFEST_DEPTH, &cli->refusal) != 0)
		return -1;
	of->text = d->text;
	if (manifest_files(cli->db, d->text, d->program, d->interpreter, PATH_MAX) != 0)
		return -1;
	if ((built = build(cli, d)) == -1)
		return -1;
	return (built ||
		   digest(cli, d->program, d->interpreter[0] == '\0', of->program_sha256) == 0) &&
		       digest(cli, d->interpreter, false, of->interpreter_sha256) == 0
		   ? manifest_terms(cli->db, of, d->terms)
		   : -1;
}

static int
prove(struct cli *cli, const struct options *o, struct draft *d, struct manifest_proof *proof)
{
	if (o->signature != NULL) {
		proof->signature = d->armored;
		return input_file(o->signature, d->armored, sizeof(d->armored), &cli->refusal);
	}
	if (cli->mode != CLI_JSON)
		input_show_terms(stderr, d->terms);
	if (cli_secret("Code: ", d->code, sizeof(d->code)) == -1)
		return refusal_set(&cli->refusal, "factor.code", "no code was given");
	proof->code = d->code;
	return 0;
}

static int
add_draft(struct cli *cli, const char *file, const struct options *o, struct draft *d)
{
	struct manifest_proof proof = {.by_uid = getuid(), .key = cli->key};
	int64_t id;

	if (draft_read(cli, file, d) != 0)
		return -1;
	if (o->bytes)
		return fputs(d->terms, stdout) >= 0 ? 0 : -1;
	if (prove(cli, o, d, &proof) != 0 || manifest_add(cli->db, &d->of, &proof, &id) != 0)
		return -1;
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"state\":\"active\"}\n", id);
	else
		puts("Added. A Host may ask for it now; a person approves that, as anything else.");
	return 0;
}

static int
add(struct cli *cli, const char *file, const struct options *o)
{
	struct draft *d;
	int rc;

	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	if ((d = calloc(1, sizeof(*d))) == NULL) {
		refusal_set(&cli->refusal, "store.failed", "out of memory");
		return cli_refuse(cli);
	}
	rc = add_draft(cli, file, o, d);
	sodium_memzero(d->code, sizeof(d->code));
	free(d);
	return rc == 0 ? 0 : cli_refuse(cli);
}

static int
show(struct cli *cli, const char *name)
{
	struct stmt *q;
	int rows;

	if (cli_open(cli, ROLE_PERSON) != 0 || (q = store_sql(cli->db, ONE)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":name", name);
	if ((rows = cli_show(cli, q)) == 0)
		refusal_set(&cli->refusal, "manifest.unknown", "no op of this name was added here");
	return rows == 1 ? 0 : cli_refuse(cli);
}

static int
drop(struct cli *cli, const char *name)
{
	if (cli_open(cli, ROLE_PERSON) != 0 || manifest_drop(cli->db, name) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		puts("{\"state\":\"dropped\"}");
	else
		puts("Dropped, and what Hosts were granted of it.");
	return 0;
}

/*
 * VERB: op
 *
 * usage: bastion op [ls] [--all] [--json]
 *        bastion op show run:NAME [--json]
 *        bastion op add FILE [--signature FILE | --bytes] [--json]
 *        bastion op rm run:NAME [--json]
 *
 * Add an op of your own, which Hosts may then ask for like any other. FILE, or - for standard input
 * with --bytes or --signature, is a manifest:
 *
 *     {"name": "run:site_build", "summary": "build the web site",
 *      "interpreter": "/usr/bin/python3", "program": "/srv/ops/site_build.py",
 *      "params": [{"name": "branch", "type": "string", "max": 64, "like": "*", "doc": "what to
 * build"}], "reads": ["/srv/site"], "writes": ["/var/www/site"], "time_ms": 60000,
 *      "destinations": ["api.example.org:443"], "credential": "release"}
 *
 * The program runs in a sandbox: it sees the machine's programs and the reads; keys and tokens in a
 * home, and what of /etc only root may read, only where the reads name them; of all networks it
 * reaches the destinations, by exactly these names and ports, and nothing without any; the file
 * that BASTION_CREDENTIAL names has the token of that name, for as long as it runs, and the token
 * has to be for all destinations. A dry run has neither. What it changes in the writes is listed,
 * and made so only where the run is no dry run and the program ends with 0. Its words come behind
 * its name, one for each param, which may name its choices: "in": ["main", "next"]. What runs is
 * what was signed: the bytes of program and interpreter are sealed by digest, and with other bytes
 * it does not run. With "builder": ["/usr/bin/cc", "-O2", "-o", "$out", "$in"] what runs is made of
 * the program as the op is added, by that command, in a sandbox without a network; what it made is
 * what is signed, and is kept. With "interpreter": "none" the op has no program and is its verbs,
 * one by one: "verbs": [["service:restart", "$service"]].
 *
 * You prove it with a code, or an SSH signature over what --bytes prints. Adding an op again, or
 * dropping it, ends what Hosts were granted of it. The column holds says whether it would run.
 */
int
verb_op(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"all", no_argument, NULL, 'a'},
	    {"bytes", no_argument, NULL, 'b'}, {"signature", required_argument, NULL, 's'},
	    {NULL, 0, NULL, 0}};
	struct options o = {.all = false};
	int first, words;

	if ((first = cli_options(cli, argc, argv, longopts, op_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	if (words == 0 || (words == 1 && strcmp(argv[first], "ls") == 0)) {
		/* Whether an op holds is checked with the machine's public keys. */
		if (cli_open(cli, ROLE_PERSON) != 0)
			return cli_refuse(cli);
		return cli_list(cli, store_sql(cli->db, o.all ? ALL : LIST),
		    "No op was added here: see bastion help op.");
	}
	if (words == 2 && strcmp(argv[first], "show") == 0)
		return show(cli, argv[first + 1]);
	if (words == 2 && strcmp(argv[first], "add") == 0)
		return add(cli, argv[first + 1], &o);
	if (words == 2 && strcmp(argv[first], "rm") == 0)
		return drop(cli, argv[first + 1]);
	return cli_unexpected(cli, argv[first]);
}
