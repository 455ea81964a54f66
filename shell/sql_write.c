/* sql_write.c: show an amendment and what it would do, ask, prove, make. */
#include <inttypes.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/sshsig.h"
#include "engine/state/amendment.h"
#include "engine/state/person.h"
#include "shell/input.h"
#include "shell/sql_write.h"
#include "shell/text.h"

#define CODE_SIZE      64
#define STATEMENT_SIZE (4 * 65536 + 2) /* bytes of what the setting amendment.text may allow */
#define VALUE_WIDTH    40              /* columns of one value in a preview */
#define LOOKS          3               /* previews, where others keep writing in between */

static const char ENROLLED[] =
    "SELECT count(*) FROM factor WHERE kind = :kind AND state = 'active'";

static const char WAITING[] = "SELECT terms, sha256(terms), statement FROM amendment"
			      " WHERE id = :id AND state = 'pending' AND expires_at > now_ms()";

static const char MADE[] =
    "SELECT id, state, reason, ended_at, changes FROM amendment WHERE id = :id";

/* An amendment as it goes from words to rows. */
struct draft {
	struct cli *cli;
	const struct sql_write *w;
	int64_t id;
	unsigned char digest[AMENDMENT_DIGEST]; /* of the terms that were shown */
	char *statement;
	struct amendment_change change; /* what was shown of it */
	char code[CODE_SIZE], armored[SSHSIG_ARMOR_MAX + 2];
};

/* Whether ${text} is shown as what it is.  (A tab is shown as \t, which must then mean nothing
 * else.) */
static int
statement_plain(const char *text, struct refusal *r)
{
	char *shown = NULL;
	size_t len = 0, n;
	FILE *f = open_memstream(&shown, &len);
	const char *p;
	bool plain;

	if (f == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	for (p = text; *p != '\0'; p += n + (p[n] != '\0')) {
		n = strcspn(p, "\n\t");
		text_show(f, p, n);
		if (p[n] != '\0')
			putc(p[n], f);
	}
	plain = fclose(f) == 0 && strcmp(shown, text) == 0 &&
		(strchr(text, '\t') == NULL || strstr(text, "\\t") == NULL);
	free(shown);
	return plain ? 0
		     : refusal_set(r, "amendment.text",
			   "the statement holds characters that cannot be shown as they are");
}

static int
factor_ready(struct cli *cli, bool ssh)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, ENROLLED)) == NULL)
		return -1;
	stmt_text(q, ":kind", ssh ? "ssh" : "totp");
	if (stmt_value(q, 0) > 0)
		return 0;
	return refusal_set(&cli->refusal, "factor.none",
	    ssh ? "no SSH key is enrolled here" : "no authenticator is enrolled here");
}

/* Read the terms as they stand in the database: those are shown, and of those the digest is. */
static int
terms_show(struct draft *d)
{
	struct cli *cli = d->cli;
	const void *digest;
	struct stmt *q;

	if ((q = store_sql(cli->db, WAITING)) == NULL)
		return -1;
	stmt_int(q, ":id", d->id);
	if (stmt_step(q) != 1)
		return refusal_set(&cli->refusal, "amendment.unknown",
		    "no amendment of this number waits for its approval");
	if (d->w->bytes)
		fputs(stmt_get_text(q, 0), stdout);
	else if (cli->mode != CLI_JSON)
		input_show_signed(stderr, "Amendment", d->id, stmt_get_text(q, 0));
	if ((digest = stmt_get_blob(q, 1, AMENDMENT_DIGEST)) != NULL)
		memcpy(d->digest, digest, AMENDMENT_DIGEST);
	if (d->statement == NULL && (d->statement = strdup(stmt_get_text(q, 2))) == NULL) {
		stmt_done(q);
		return refusal_set(&cli->refusal, "store.failed", "out of memory");
	}
	stmt_done(q);
	return 0;
}

static bool
is_time(const char *column)
{
	size_t n = strlen(column);

	return strcmp(column, "at") == 0 || (n > 3 && strcmp(column + n - 3, "_at") == 0);
}

static void
value_write(FILE *out, const char *column, sqlite3_value *v)
{
	char when[TEXT_TIME_MAX];

	switch (v == NULL ? SQLITE_NULL : sqlite3_value_type(v)) {
	case SQLITE_NULL:
		fputs("NULL", out);
		return;
	case SQLITE_INTEGER:
		if (is_time(column) && text_time(sqlite3_value_int64(v), false, when)) {
			fputs(when, out);
			return;
		}
		fprintf(out, "%lld", (long long)sqlite3_value_int64(v));
		return;
	case SQLITE_BLOB:
		fprintf(out, "(%d bytes)", sqlite3_value_bytes(v));
		return;
	default:
		putc('\'', out);
		text_show(out, (const char *)sqlite3_value_text(v), (size_t)sqlite3_value_bytes(v));
		putc('\'', out);
	}
}

static void
value_show(const char *column, sqlite3_value *v)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		return;
	value_write(f, column, v);
	if (fclose(f) == 0)
		text_clip(stderr, text, len, VALUE_WIDTH);
	free(text);
}

/* "id 3: state 'active' -> 'dropped', ended_at NULL -> 2026-..." */
static void
row_show(const struct amendment_row *row)
{
	const struct amendment_cell *c, *end = row->cells + row->count;
	int n = 0;

	fputs("      ", stderr);
	for (c = row->cells; c < end; c++)
		if (c->key) {
			fprintf(stderr, "%s%s ", n++ == 0 ? "" : ", ", c->column);
			value_show(c->column, c->from);
		}
	for (n = 0, c = row->cells; c < end; c++)
		if (c->changed) {
			fprintf(stderr, "%s%s ", n++ == 0 ? ": " : ", ", c->column);
			value_show(c->column, c->from);
			fputs(" -> ", stderr);
			value_show(c->column, c->to);
		}
	fputs(n == 0 ? ": as before\n" : "\n", stderr);
}

static void
count_show(int64_t n, const char *what, int *shown)
{
	if (n > 0)
		fprintf(stderr, "%s%" PRId64 " %s", (*shown)++ == 0 ? "" : ", ", n, what);
}

static void
change_show(const struct amendment_change *change)
{
	const struct amendment_table *t;
	size_t i;
	int n;

	fprintf(stderr, "It would change:\n");
	for (t = change->tables; t < change->tables + change->count; t++) {
		if (t->inserted + t->updated + t->deleted == 0)
			continue;
		n = 0;
		fprintf(stderr, "    %s: ", t->name);
		count_show(t->inserted, "inserted", &n);
		count_show(t->updated, "updated", &n);
		count_show(t->deleted, "deleted", &n);
		putc('\n', stderr);
		for (i = 0; i < t->shown; i++)
			row_show(&t->rows[i]);
		if (t->updated > (int64_t)t->shown)
			fprintf(
			    stderr, "      and %" PRId64 " more\n", t->updated - (int64_t)t->shown);
	}
}

static int
question(struct draft *d)
{
	char line[16];

	if (d->w->yes)
		return 0;
	fputs("Make this change? [y/N] ", stderr);
	fflush(stderr);
	if (fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y'))
		return 0;
	return refusal_set(&d->cli->refusal, "amendment.declined", "the change was not made");
}

/* Take the code or the signature that proves who decides. */
static int
proof_take(struct draft *d, struct approval_answer *answer)
{
	struct refusal *r = &d->cli->refusal;

	if (d->w->signature != NULL) {
		answer->signature = d->armored;
		/* Standard input is read once, and the signature stays the same. */
		return d->armored[0] != '\0'
			   ? 0
			   : input_file(d->w->signature, d->armored, sizeof(d->armored), r);
	}
	answer->code = d->code;
	if (cli_secret("Code: ", d->code, sizeof(d->code)) == -1)
		return refusal_set(r, "factor.code", "no code was given");
	return 0;
}

/* Ask, prove and make, and show it again where it has become another change meanwhile. */
static int
decide(struct draft *d)
{
	struct cli *cli = d->cli;
	char name[PERSON_NAME_MAX + 1];
	struct approval_answer answer = {
	    .id = d->id, .digest = d->digest, .uid = getuid(), .name = name, .key = cli->key};
	unsigned char seen[AMENDMENT_DIGEST];
	int look;

	if (person_name(getuid(), name, &cli->refusal) != 0)
		return -1;
	for (look = 1;; look++) {
		if (cli->mode != CLI_JSON)
			change_show(&d->change);
		memcpy(seen, d->change.digest, sizeof(seen));
		if (question(d) != 0 || proof_take(d, &answer) != 0)
			return -1;
		amendment_free(&d->change);
		if (amendment_make(cli->db, &answer, seen, &d->change) == 0)
			return 0;
		if (strcmp(store_refusal(cli->db)->code, "amendment.changed") != 0 || d->w->yes ||
		    look == LOOKS)
			return -1;
		fputs("Somebody else wrote meanwhile. Nothing was changed yet.\n", stderr);
	}
}

static int
made(struct draft *d)
{
	struct stmt *q;

	if (d->cli->mode == CLI_TABLE) {
		printf("Amendment %" PRId64 " is made: %" PRId64 " %s changed.\n", d->id,
		    d->change.rows, d->change.rows == 1 ? "row" : "rows");
		return 0;
	}
	if ((q = store_sql(d->cli->db, MADE)) == NULL)
		return -1;
	stmt_int(q, ":id", d->id);
	return cli_show(d->cli, q) == -1 ? -1 : 0;
}

/* Only put it down; the person signs what standard output took. */
static int
put_down(const struct draft *d)
{
	fprintf(stderr,
	    "These bytes are to be signed: ssh-keygen -Y sign -n bastion -f KEY FILE\n"
	    "then: bastion sql -w --amendment %" PRId64 " --signature FILE.sig\n",
	    d->id);
	return 0;
}

/* Where the statement comes from: the word, the file, or what was put down before. */
static int
statement_take(struct draft *d, const char *word, const char *file)
{
	struct refusal *r = &d->cli->refusal;

	if (d->w->id > 0)
		return terms_show(d);
	if ((d->statement = malloc(STATEMENT_SIZE)) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	if (word == NULL)
		return input_file(file, d->statement, STATEMENT_SIZE, r);
	if (strlen(word) >= STATEMENT_SIZE)
		return refusal_set(r, "amendment.text", "the statement is too long");
	strcpy(d->statement, word);
	return 0;
}

/* What nobody will decide any more is given up; the reason why is kept. */
static int
give_up(struct draft *d)
{
	struct cli *cli = d->cli;

	if (cli->refusal.code[0] == '\0')
		cli->refusal = *store_refusal(cli->db);
	if (d->w->id == 0)
		amendment_drop(cli->db, d->id);
	return -1;
}

/* A statement that would be refused is not asked about. */
static int
amend(struct draft *d, const char *word, const char *file)
{
	struct cli *cli = d->cli;
	const struct sql_write *w = d->w;

	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    factor_ready(cli, w->bytes || w->signature != NULL) != 0 ||
	    statement_take(d, word, file) != 0 || statement_plain(d->statement, &cli->refusal) != 0)
		return -1;
	if (amendment_try(cli->db, d->statement, &d->change) != 0)
		return -1;
	if (w->id == 0 &&
	    (amendment_ask(cli->db, w->reason, d->statement, &d->id) != 0 || terms_show(d) != 0))
		return -1;
	if (w->bytes)
		return put_down(d);
	return decide(d) == 0 ? made(d) : give_up(d);
}

static const char *
call_wrong(const struct sql_write *w, const char *word, const char *file)
{
	if (w->id > 0 && w->signature == NULL)
		return "an amendment that was put down needs --signature FILE";
	if (w->id > 0 && (word != NULL || file != NULL || w->reason != NULL || w->bytes))
		return "an amendment that was put down has its SQL and reason";
	if (w->id > 0)
		return NULL;
	if (w->signature != NULL)
		return "first put it down with --bytes, then sign it and name it: --amendment ID";
	if (w->reason == NULL)
		return "say why: -m REASON";
	if (word == NULL && (file == NULL || strcmp(file, "-") == 0))
		return "with -w, SQL comes as a word or from a file";
	return NULL;
}

int
sql_write(struct cli *cli, const struct sql_write *w, const char *word, const char *file)
{
	const char *wrong = call_wrong(w, word, file);
	struct draft *d;
	int rc;

	if (wrong == NULL && !w->yes && !w->bytes && !isatty(STDIN_FILENO))
		wrong = "without a terminal nobody can be asked: --yes answers before";
	if (wrong != NULL)
		return cli_usage(cli, "%s", wrong);
	if ((d = calloc(1, sizeof(*d))) == NULL) {
		refusal_set(&cli->refusal, "store.failed", "out of memory");
		return cli_refuse(cli);
	}
	d->cli = cli;
	d->w = w;
	d->id = w->id;
	rc = amend(d, word, file);
	amendment_free(&d->change);
	free(d->statement);
	sodium_memzero(d->code, sizeof(d->code));
	free(d);
	return rc == 0 ? 0 : cli_refuse(cli);
}
