/* audit_verify.c: prove that nobody changed the audit, and check such proofs. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/audit.h"
#include "engine/state/audit_export.h"
#include "engine/state/audit_proof.h"
#include "shell/input.h"
#include "shell/progress.h"
#include "shell/text.h"
#include "shell/audit_words.h"

/* What is checked, and against what. */
struct checking {
	unsigned char pk[32];
	const struct checkpoint *kept; /* NULL: none */
	struct checkpoint checkpoint;
	struct audit_report report;
	struct audit_proof proof; /* size 0: it was no proof */
};

static void
show_progress(void *progress, int64_t done, int64_t total)
{
	progress_tell(progress, "checking the audit", done, total);
}

/*
 * Saying what was found.
 */

static void
say_count(int64_t n, const char *what)
{
	printf("%" PRId64 " %s%s", n, what, n == 1 ? "" : "s");
}

static void
say_report(const struct audit_report *p)
{
	char from[TEXT_TIME_MAX], to[TEXT_TIME_MAX], sealed[TEXT_TIME_MAX], head[65], root[45];

	text_time(p->first_at, false, from);
	text_time(p->last_at, false, to);
	text_time(p->sealed_at, false, sealed);
	sodium_bin2hex(head, sizeof(head), p->head, sizeof(p->head));
	sodium_bin2base64(
	    root, sizeof(root), p->root, sizeof(p->root), sodium_base64_VARIANT_ORIGINAL);
	if (p->bad != 0)
		printf("bad: %s\n", p->what);
	printf("%s: ", p->bad != 0 ? "good before it" : "good");
	say_count(p->rows, "row");
	fputs(", ", stdout);
	say_count(p->seals, "seal");
	fputs(", ", stdout);
	say_count(p->checkpoints, "checkpoint");
	if (p->rows > 0)
		printf(", from %s to %s", from, to);
	putchar('\n');
	if (p->base != 0) {
		text_time(p->base_at, false, from);
		printf("the audit begins at row %" PRId64
		       ": what came before was exported, and removed from %s on\n",
		    p->base, from);
	} else if (p->first > 1)
		printf("the file begins at row %" PRId64 ": what came before is not in it\n",
		    p->first);
	if (p->sealed == 0)
		printf("no seal vouches for them\n");
	else
		printf("sealed up to row %" PRId64 " at %s, head %s\n", p->sealed, sealed, head);
	if (p->size != 0)
		printf("checkpoint of %" PRId64 " rows, root %s\n", p->size, root);
	if (p->sealed != 0 && p->behind > 0)
		printf("%" PRId64 " row%s behind that seal %s chained, not signed yet\n", p->behind,
		    p->behind == 1 ? "" : "s", p->behind == 1 ? "is" : "are");
}

static void
say_time(const char *name, int64_t ms)
{
	char when[TEXT_TIME_MAX];

	text_time(ms, true, when);
	if (ms == 0)
		printf(",\"%s\":null", name);
	else
		printf(",\"%s\":\"%s\"", name, when);
}

static void
say_report_json(const struct audit_report *p)
{
	char head[65], root[45];

	sodium_bin2hex(head, sizeof(head), p->head, sizeof(p->head));
	sodium_bin2base64(
	    root, sizeof(root), p->root, sizeof(p->root), sodium_base64_VARIANT_ORIGINAL);
	printf("{\"good\":%s,\"rows\":%" PRId64 ",\"seals\":%" PRId64 ",\"first\":%" PRId64
	       ",\"last\":%" PRId64,
	    p->bad == 0 ? "true" : "false", p->rows, p->seals, p->first, p->last);
	say_time("first_at", p->first_at);
	say_time("last_at", p->last_at);
	printf(",\"sealed\":%" PRId64, p->sealed);
	say_time("sealed_at", p->sealed_at);
	printf(",\"base\":%" PRId64, p->base);
	say_time("base_at", p->base_at);
	printf(",\"head\":\"%s\",\"checkpoints\":%" PRId64 ",\"size\":%" PRId64 ",\"root\":\"%s\"",
	    head, p->checkpoints, p->size, root);
	printf(",\"behind\":%" PRId64 ",\"bad\":", p->behind);
	if (p->bad == 0) {
		fputs("null,\"what\":null}\n", stdout);
		return;
	}
	printf("%" PRId64 ",\"what\":", p->bad);
	text_json(stdout, p->what, strlen(p->what));
	fputs("}\n", stdout);
}

static void
say_proof(const struct audit_proof *p, bool json)
{
	if (p->kind == PROOF_INCLUSION)
		printf(json ? "{\"good\":true,\"row\":%" PRId64 ",\"size\":%" PRId64 "}\n"
			    : "good: row %" PRId64 " is in the audit of %" PRId64
			      " rows that the machine signed\n",
		    p->seq, p->size);
	else
		printf(json ? "{\"good\":true,\"old\":%" PRId64 ",\"size\":%" PRId64 "}\n"
			    : "good: the audit of %" PRId64
			      " rows goes on, unchanged, to the one of %" PRId64 " rows\n",
		    p->old, p->size);
}

/*
 * Checking.
 */

/* The text of a file of at most ${max} bytes, to be freed; NULL with cli->refusal. */
static char *
read_whole(struct cli *cli, FILE *f, const char *path, size_t max, size_t *len)
{
	char *text;

	if ((text = malloc(max + 1)) == NULL) {
		refusal_errno(&cli->refusal, "store.failed", path);
		return NULL;
	}
	*len = fread(text, 1, max + 1, f);
	if (!ferror(f) && *len <= max)
		return text;
	if (ferror(f))
		refusal_errno(&cli->refusal, "file.missing", path);
	else
		refusal_set(&cli->refusal, "usage.wrong", "%s is longer than it can be", path);
	free(text);
	return NULL;
}

static int
load_kept(struct cli *cli, const char *path, struct checking *c)
{
	size_t len;
	char *text;
	FILE *f;
	int rc;

	if ((f = fopen(path, "re")) == NULL)
		return refusal_errno(&cli->refusal, "file.missing", path);
	if ((text = read_whole(cli, f, path, CHECKPOINT_MAX, &len)) == NULL) {
		fclose(f);
		return -1;
	}
	rc = checkpoint_read(c->pk, text, len, &c->checkpoint, &cli->refusal);
	free(text);
	fclose(f);
	c->kept = &c->checkpoint;
	return rc;
}

static int
check_proof(struct cli *cli, FILE *f, const char *path, struct checking *c)
{
	size_t len;
	char *text;
	int rc;

	if ((text = read_whole(cli, f, path, AUDIT_PROOF_MAX, &len)) == NULL)
		return -1;
	rc = audit_proof_check(text, len, c->pk, c->kept, &c->proof, &cli->refusal);
	free(text);
	return rc;
}

/* A database and a proof begin with words of their own; anything else is taken for an export. */
static int
check_file(
    struct cli *cli, const char *path, const struct audit_progress *progress, struct checking *c)
{
	static const char database[16] = "SQLite format 3", inclusion[] = "c2sp.org/tlog-pr",
			  consistency[] = "old ";
	char begin[16] = "";
	FILE *f;
	int rc;

	if ((f = fopen(path, "re")) == NULL)
		return refusal_errno(&cli->refusal, "file.missing", path);
	if (fread(begin, 1, sizeof(begin), f) == sizeof(begin) &&
	    memcmp(begin, database, sizeof(database)) == 0) {
		fclose(f);
		if ((cli->db = store_open_file(path, ROLE_READER, NULL, &cli->refusal)) == NULL)
			return -1;
		return audit_verify_kept(cli->db, c->pk, c->kept, progress, &c->report);
	}
	rewind(f);
	if (memcmp(begin, inclusion, sizeof(inclusion) - 1) == 0 ||
	    memcmp(begin, consistency, sizeof(consistency) - 1) == 0)
		rc = check_proof(cli, f, path, c);
	else
		rc = audit_export_verify(f, c->pk, c->kept, progress, &c->report, &cli->refusal);
	fclose(f);
	return rc;
}

int
audit_verify_word(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	struct progress progress;
	const struct audit_progress shown = {show_progress, &progress};
	struct checking c = {.kept = NULL};
	int rc;

	if (argc > 1)
		return cli_unexpected(cli, argv[1]);
	progress_begin(&progress, cli);
	if ((argc == 0 && cli_open(cli, ROLE_READER) != 0) || audit_key_load(cli, o, c.pk) == -1 ||
	    (o->checkpoint != NULL && load_kept(cli, o->checkpoint, &c) == -1))
		return cli_refuse(cli);
	if (argc == 0)
		rc = audit_verify_kept(cli->db, c.pk, c.kept, &shown, &c.report);
	else
		rc = check_file(cli, argv[0], &shown, &c);
	progress_end(&progress);
	if (rc == -1)
		return cli_refuse(cli);
	if (c.proof.size != 0)
		say_proof(&c.proof, cli->mode == CLI_JSON);
	else if (cli->mode == CLI_JSON)
		say_report_json(&c.report);
	else
		say_report(&c.report);
	return rc == AUDIT_BAD ? 1 : 0;
}

/*
 * Proving.
 */

int
audit_key_word(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	char key[CHECKPOINT_KEY], hex[65];
	unsigned char pk[32];

	if (argc > 0)
		return cli_unexpected(cli, argv[0]);
	o->key = NULL;
	if (audit_key_load(cli, o, pk) == -1)
		return cli_refuse(cli);
	checkpoint_key_write(pk, key);
	sodium_bin2hex(hex, sizeof(hex), pk, sizeof(pk));
	if (cli->mode == CLI_JSON)
		printf("{\"key\":\"%s\",\"hex\":\"%s\"}\n", key, hex);
	else
		printf("%s\n", key);
	return 0;
}

int
audit_checkpoint_word(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	char note[CHECKPOINT_TEXT];
	unsigned char pk[32];
	int64_t size = 0;

	if (argc > 1)
		return cli_unexpected(cli, argv[1]);
	if (argc == 1 && input_number(argv[0], &size) == -1)
		return cli_usage(cli, "not a number of rows: %s", argv[0]);
	if (cli_open(cli, ROLE_READER) != 0 || audit_key_load(cli, o, pk) == -1)
		return cli_refuse(cli);
	if ((size = audit_checkpoint(cli->db, pk, size, note)) == -1)
		return cli_refuse(cli);
	if (size == 0) {
		refusal_set(&cli->refusal, argc == 1 ? "checkpoint.size" : "checkpoint.none",
		    argc == 1 ? "no checkpoint of so many rows was signed"
			      : "no checkpoint of this audit was signed yet");
		return cli_refuse(cli);
	}
	if (cli->mode != CLI_JSON) {
		fputs(note, stdout);
		return 0;
	}
	printf("{\"size\":%" PRId64 ",\"note\":", size);
	text_json(stdout, note, strlen(note));
	fputs("}\n", stdout);
	return 0;
}

int
audit_prove_word(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	unsigned char pk[32];
	int64_t seq;

	if (argc != 1 || input_number(argv[0], &seq) == -1)
		return cli_usage(cli, "name one row by its number");
	if (cli_open(cli, ROLE_READER) != 0 || audit_key_load(cli, o, pk) == -1 ||
	    audit_prove(cli->db, pk, seq, stdout) == -1)
		return cli_refuse(cli);
	return 0;
}

int
audit_consistency_word(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	unsigned char pk[32];
	int64_t old, size = 0;

	if (argc < 1 || argc > 2 || input_number(argv[0], &old) == -1 ||
	    (argc == 2 && input_number(argv[1], &size) == -1))
		return cli_usage(cli, "give the rows of the older tree, and of the newer");
	if (cli_open(cli, ROLE_READER) != 0 || audit_key_load(cli, o, pk) == -1 ||
	    audit_follow(cli->db, pk, old, size, stdout) == -1)
		return cli_refuse(cli);
	return 0;
}
