/* terms.c: what a Host signs as an anchor, from a person's wish to the box's answer. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "engine/crypto/key.h"
#include "engine/state/anchor.h"
#include "shell/consent.h"
#include "shell/progress.h"
#include "shell/terms.h"
#include "shell/text.h"

#define LOOK_MS 1000 /* should a bell be missed */

static const char BOX[] = "SELECT id FROM host_box WHERE name = :box AND state = 'active'";

static const char LOOK[] =
    "INSERT INTO host_terms (box_id, made_at, expires_at) SELECT coalesce((SELECT id FROM host_box"
    "    WHERE name = :box AND state = 'active'), 0), now_ms(),"
    "  now_ms() + (SELECT value FROM setting WHERE name = 'terms.look_ms')";

/* A name is meant whole before it is meant as a handle. */
static const char SUBJECT[] =
    "SELECT host, key FROM box_pairings WHERE look = :look AND state <> 'revoked'"
    "  AND (host = :host OR (handle = :host AND NOT EXISTS (SELECT 1 FROM box_pairings"
    "       WHERE look = :look AND state <> 'revoked' AND host = :host))) LIMIT 2";

static const char CAPS[] = "SELECT json_group_array(value) FROM json_each('[\"' ||"
			   " replace(:caps, ',', '\",\"') || '\"]')";

static const char TERMS[] =
    "SELECT json_object('kind', :kind, 'anchor', me.name, 'server', b.name,"
    "    'server_key', lower(hex(b.box_key)), 'subject', :subject, 'subject_key', :key,"
    "    'caps', json(:caps), 'issued_at', now_ms(), 'expires_at', now_ms() + coalesce("
    "      nullif(:ttl, 0), (SELECT value FROM setting WHERE name = 'terms.ttl_ms')))"
    "  FROM host_box AS b CROSS JOIN box AS me WHERE b.name = :box AND b.state = 'active'";

static const char KEEP[] =
    "INSERT INTO host_terms (box_id, terms, signature, made_at, expires_at)"
    " SELECT id, :terms, :signature, now_ms(),"
    "    now_ms() + (SELECT value FROM setting WHERE name = 'terms.carry_ms')"
    "   FROM host_box WHERE name = :box AND state = 'active'";

static const char ENDED[] =
    "SELECT state, code, why, exit_code, advice, answer ->> '$.state' FROM host_terms"
    " WHERE id = :id AND finished_at IS NOT NULL";

/* What is signed, once it is known. */
struct drawn {
	char subject[65], key[65], caps[1024], terms[ANCHOR_TERMS_MAX + 1];
	unsigned char signature[KEY_SIGN_SIZE];
	int64_t id; /* of its row */
};

/* How it ended. */
struct ended {
	char state[16], pairing[16], advice[REFUSAL_WHY_MAX];
	int exit_code; /* 0: for our own table to say */
};

int
terms_option(void *wish, int val, const char *arg)
{
	struct terms_wish *w = wish;

	switch (val) {
	case 'c':
		w->caps = arg;
		return *arg != '\0' ? 0 : -1;
	case 't':
		return cli_duration(arg, &w->ttl_ms) == 0 && w->ttl_ms >= 1000 ? 0 : -1;
	case 'k':
		w->key = arg;
		return 0;
	default:
		w->no_wait = true;
		return 0;
	}
}

/* Keep a row, and say which it is. */
static int
row_make(struct store *db, struct stmt *q, int64_t *id)
{
	if (stmt_run_alone(q) != 0)
		return -1;
	*id = store_last_id(db);
	return 0;
}

/*
 * Waiting.
 */

/* Return 1 with how the row ended, 0 before, -1. */
static int
ended_read(struct cli *cli, int64_t id, struct ended *e)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, ENDED)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if ((n = stmt_step(q)) != 1)
		return n;
	snprintf(e->state, sizeof(e->state), "%s", stmt_get_text(q, 0));
	if (!stmt_is_null(q, 1))
		refusal_set(&cli->refusal, stmt_get_text(q, 1), "%s", stmt_get_text(q, 2));
	e->exit_code = (int)stmt_get_int(q, 3);
	snprintf(e->advice, sizeof(e->advice), "%s", stmt_get_text(q, 4));
	snprintf(e->pairing, sizeof(e->pairing), "%s", stmt_get_text(q, 5));
	stmt_done(q);
	return 1;
}

/* Wait until the row ${id} has ended, or terms.look_ms are over.  Return as ended_read. */
static int
ended_wait(struct cli *cli, int64_t id, const char *box, struct ended *e)
{
	struct pollfd bell = {.events = POLLIN, .fd = store_bell(cli->db)};
	int64_t end = store_now(cli->db) + store_setting(cli->db, "terms.look_ms");
	struct progress p;
	char what[sizeof(p.what)];
	int n;

	snprintf(what, sizeof(what), "waiting for %.40s", box);
	progress_begin(&p, cli);
	while ((n = ended_read(cli, id, e)) == 0 && store_now(cli->db) < end) {
		progress_tell(&p, what, 0, 0);
		if (poll(&bell, 1, LOOK_MS) > 0)
			store_bell_quiet(cli->db);
	}
	progress_end(&p);
	return n;
}

/*
 * Looking.
 */

int
terms_look(struct cli *cli, const char *box, int64_t *look)
{
	struct ended e = {.exit_code = 0};
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, LOOK)) == NULL)
		return -1;
	stmt_text(q, ":box", box);
	if (row_make(cli->db, q, look) != 0 || (n = ended_wait(cli, *look, box, &e)) == -1)
		return -1;
	if (n == 0)
		return refusal_set(
		    &cli->refusal, "terms.failed", "%s did not say which Hosts it has", box);
	return strcmp(e.state, "taken") == 0 ? 0 : -1;
}

static int
subject_pick(struct cli *cli, const struct terms_wish *wish, int64_t look, struct drawn *d)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, SUBJECT)) == NULL)
		return -1;
	stmt_int(q, ":look", look);
	stmt_text(q, ":host", wish->host);
	if ((n = stmt_step(q)) == -1)
		return -1;
	if (n == 0)
		return refusal_set(&cli->refusal, "terms.subject", "%s has no Host of the name %s",
		    wish->box, wish->host);
	snprintf(d->subject, sizeof(d->subject), "%s", stmt_get_text(q, 0));
	snprintf(d->key, sizeof(d->key), "%s", stmt_get_text(q, 1));
	if ((n = stmt_step(q)) != 1)
		return n;
	stmt_done(q);
	return refusal_set(&cli->refusal, "terms.several",
	    "%s has more than one Host that can be called %s", wish->box, wish->host);
}

/* Whom it is about: as the person names the key, or as the box does. */
static int
subject_find(struct cli *cli, const struct terms_wish *wish, struct drawn *d)
{
	int64_t look;

	if (wish->key == NULL)
		return terms_look(cli, wish->box, &look) != 0 ? -1
							      : subject_pick(cli, wish, look, d);
	snprintf(d->subject, sizeof(d->subject), "%s", wish->host);
	snprintf(d->key, sizeof(d->key), "%s", wish->key);
	return 0;
}

/*
 * Signing.
 */

static int
caps_make(struct cli *cli, const struct terms_wish *wish, struct drawn *d)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, CAPS)) == NULL)
		return -1;
	stmt_text(q, ":caps", wish->caps);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(d->caps, sizeof(d->caps), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

static int
terms_draw(struct cli *cli, const struct terms_wish *wish, struct drawn *d)
{
	struct stmt *q;
	int n;

	if (caps_make(cli, wish, d) != 0 || (q = store_sql(cli->db, TERMS)) == NULL)
		return -1;
	stmt_text(q, ":kind", wish->kind);
	stmt_text(q, ":box", wish->box);
	stmt_text(q, ":subject", d->subject);
	stmt_text(q, ":key", d->key);
	stmt_text(q, ":caps", d->caps);
	stmt_int(q, ":ttl", wish->ttl_ms);
	if ((n = stmt_step(q)) == 1) {
		snprintf(d->terms, sizeof(d->terms), "%s", stmt_get_text(q, 0));
		stmt_done(q);
	}
	return n == 0   ? refusal_set(&cli->refusal, "box.gone",
			      "no box of the name %s is paired with this Host", wish->box)
	       : n == 1 ? 0
			: -1;
}

/* The bytes as they are signed, on standard error: the answer is for standard output. */
static int
terms_show(struct cli *cli, const struct terms_wish *wish, const struct drawn *d)
{
	int yes = 1;

	/* A program that named the key is told in the end, with the rest. */
	if (cli->mode == CLI_JSON && (wish->asking == NULL || wish->key != NULL))
		return 0;
	fprintf(stderr, "To be signed, for %s about ", wish->box);
	text_show(stderr, d->subject, strlen(d->subject));
	fprintf(stderr, ", whose key is\n    %s\n\n    ", d->key);
	text_show(stderr, d->terms, strlen(d->terms));
	fputs("\n\n", stderr);
	fflush(stderr);
	if (wish->asking != NULL && wish->key == NULL)
		yes = consent_yes(wish->asking);
	if (yes == -1)
		return refusal_set(&cli->refusal, "terms.unseen",
		    "there is no terminal to ask at whether this is the key that you mean");
	return yes ? 0 : refusal_set(&cli->refusal, "terms.declined", "it was not signed");
}

static int
terms_sign(struct cli *cli, const struct terms_wish *wish, struct drawn *d)
{
	struct stmt *q;

	if (key_sign(cli->key, KEY_IDENTITY, ANCHOR_DOMAIN, d->terms, strlen(d->terms),
		d->signature) != 0)
		return refusal_set(&cli->refusal, "store.failed", "the terms could not be signed");
	if ((q = store_sql(cli->db, KEEP)) == NULL)
		return -1;
	stmt_text(q, ":box", wish->box);
	stmt_text(q, ":terms", d->terms);
	stmt_blob(q, ":signature", d->signature, sizeof(d->signature));
	return row_make(cli->db, q, &d->id);
}

/*
 * What is said in the end.
 */

static void
taken_say(const struct cli *cli, const struct terms_wish *wish, const struct drawn *d,
    const struct ended *e)
{
	if (cli->mode == CLI_JSON) {
		printf("{\"terms\":%" PRId64 ",\"state\":\"%s\",\"kind\":\"%s\",\"box\":", d->id,
		    e->state, wish->kind);
		text_json(stdout, wish->box, strlen(wish->box));
		printf(",\"host\":");
		text_json(stdout, d->subject, strlen(d->subject));
		printf(",\"key\":\"%s\",\"signed\":", d->key);
		text_json(stdout, d->terms, strlen(d->terms));
		printf(",\"pairing\":");
		printf(e->pairing[0] != '\0' ? "\"%s\"}\n" : "null}\n", e->pairing);
		return;
	}
	if (strcmp(e->state, "waiting") == 0) {
		printf("Signed; it is carried to %s as number %" PRId64
		       ". See what becomes of it: bastion host terms\n",
		    wish->box, d->id);
		return;
	}
	printf("%s took it: ", wish->box);
	text_show(stdout, d->subject, strlen(d->subject));
	if (strcmp(wish->kind, "anchor_consent") == 0)
		printf(" may take over. There, as root: bastion claim-anchor --rotate --host ");
	else
		printf(" is %s there.\n", e->pairing);
	if (strcmp(wish->kind, "anchor_consent") == 0) {
		text_show(stdout, d->subject, strlen(d->subject));
		putchar('\n');
	}
}

static int
terms_end(struct cli *cli, const struct terms_wish *wish, const struct drawn *d)
{
	struct ended e = {.state = "waiting"};
	int n = wish->no_wait ? 1 : ended_wait(cli, d->id, wish->box, &e);

	if (n == 0)
		refusal_set(&cli->refusal, "terms.waiting",
		    "%s has not answered yet; it is carried on as number %" PRId64, wish->box,
		    d->id);
	if (n != 1)
		return cli_refuse(cli);
	if (cli->refusal.code[0] != '\0')
		return e.exit_code != 0 ? cli_refuse_as(cli, e.exit_code, e.advice)
					: cli_refuse(cli);
	taken_say(cli, wish, d, &e);
	return 0;
}

/* Before anybody is asked: names and keys that cannot be. */
static int
wish_check(struct cli *cli, const struct terms_wish *wish)
{
	struct stmt *q;

	if (wish->key != NULL &&
	    (strlen(wish->key) != 64 || strspn(wish->key, "0123456789abcdef") != 64))
		return cli_usage(cli, "a key is 64 hexadecimal digits");
	if (wish->caps != NULL &&
	    strspn(wish->caps, "abcdefghijklmnopqrstuvwxyz-,") != strlen(wish->caps))
		return cli_usage(cli, "kinds of ops are lower-case words with commas between");
	if (cli_open(cli, ROLE_PERSON) != 0 || (q = store_sql(cli->db, BOX)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":box", wish->box);
	if (stmt_value(q, 0) != 0)
		return 0;
	refusal_set(
	    &cli->refusal, "box.gone", "no box of the name %s is paired with this Host", wish->box);
	return cli_refuse(cli);
}

int
terms_verb(struct cli *cli, const struct terms_wish *wish)
{
	struct drawn d = {.id = 0};
	int rc;

	if ((rc = wish_check(cli, wish)) != 0)
		return rc;
	if (subject_find(cli, wish, &d) != 0 || terms_draw(cli, wish, &d) != 0 ||
	    terms_show(cli, wish, &d) != 0 || terms_sign(cli, wish, &d) != 0)
		return cli_refuse(cli);
	return terms_end(cli, wish, &d);
}
