/* dry_added.c: verbs that look, one by one, or a program in a sandbox of the person's own. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/answer.h"
#include "engine/worker/observe.h"
#include "engine/worker/program.h"
#include "shell/dry_added.h"

#define WORDS_MAX 96 /* of 24 paths, 8 params, program and interpreter */

/* Only a question that waits is about the op as it is now. */
static const char WHAT[] =
    "SELECT coalesce(a.program, ''), coalesce(a.program_sha256, ''),"
    "  iif(a.interpreter_sha256 IS NULL, '', a.manifest ->> '$.interpreter'),"
    "  coalesce(a.interpreter_sha256, ''), coalesce(json_array_length(a.manifest, '$.verbs'), 0),"
    "  coalesce(json_array_length(a.manifest, '$.writes'), 0),"
    "  (coalesce(a.manifest ->> '$.time_ms', (SELECT value FROM setting WHERE name = 'act.time_ms'))"
    "    + 999) / 1000 || 's'"
    "  FROM open_approvals AS q JOIN added_ops AS a ON a.name = q.op"
    " WHERE q.id = :id AND a.holds = 'yes'";

static const char VERB[] =
    "SELECT iif(w.value GLOB '$*', q.args ->> (SELECT p.key FROM json_each(a.manifest, '$.params')"
    "         AS p WHERE p.value ->> '$.name' = substr(w.value, 2)), w.value)"
    "  FROM open_approvals AS q JOIN added_ops AS a ON a.name = q.op,"
    "       json_each(a.manifest, '$.verbs[' || :k || ']') AS w"
    " WHERE q.id = :id ORDER BY w.key";

/* The options of bastion sandbox try. */
static const char PATHS[] =
    "SELECT word FROM (SELECT 2 * p.key AS n, 0 AS part, '--effect' AS word FROM added_ops AS a,"
    "    json_each(a.manifest, '$.writes') AS p WHERE a.name = :op"
    "  UNION ALL SELECT 2 * p.key + 1, 0, p.value FROM added_ops AS a,"
    "    json_each(a.manifest, '$.writes') AS p WHERE a.name = :op"
    "  UNION ALL SELECT 2 * p.key, 1, '--read' FROM added_ops AS a,"
    "    json_each(a.manifest, '$.reads') AS p WHERE a.name = :op"
    "  UNION ALL SELECT 2 * p.key + 1, 1, p.value FROM added_ops AS a,"
    "    json_each(a.manifest, '$.reads') AS p WHERE a.name = :op) ORDER BY part, n";

static const char OP[] = "SELECT op FROM approval WHERE id = :id";
static const char ARGS[] = "SELECT w.value FROM approval AS q, json_each(q.args) AS w"
			   " WHERE q.id = :id ORDER BY w.key";

/* What is asked for. */
struct look {
	struct cli *cli;
	int64_t id;
	char op[65], program[PATH_MAX], interpreter[PATH_MAX], time[32];
	char sha256[PROGRAM_HEX], interpreter_sha256[PROGRAM_HEX];
	int verbs, writes;
	char *words[WORDS_MAX + 1]; /* of bastion sandbox try, ours to free */
	int n;
};

int
dry_verb(struct cli *cli, const char *op, const char *const *words, int n)
{
	static struct observe_args args; /* large */
	static struct observe_env env;
	struct observe_word given[2] = {{"", 0}, {"", 0}};
	struct observe_limits limits;
	struct answer *answer;
	int i, rc;

	if (observe_find(op) == NULL || !observe_find(op)->acts)
		return refusal_set(&cli->refusal, "op.dry", "this op changes nothing to look at");
	observe_defaults(&limits, &env);
	snprintf(env.keep[0], sizeof(env.keep[0]), "%s", cli->home.state);
	snprintf(env.keep[1], sizeof(env.keep[1]), "%s", cli->home.run);
	for (i = 0; i < n && i < 2; i++)
		given[i] = (struct observe_word){words[i], strlen(words[i])};
	if (observe_check(op, n, given, &args, &cli->refusal) != 0)
		return -1;
	args.dry = 1;
	if ((answer = answer_new(STDOUT_FILENO, 0)) == NULL)
		return refusal_set(&cli->refusal, "store.failed", "out of memory");
	answer_limit(answer, limits.frame_max);
	rc = observe_find(op)->run(&args, &limits, &env, answer);
	answer_free(answer);
	return rc;
}

static struct stmt *
of_question(struct look *l, const char *sql)
{
	struct stmt *q;

	if ((q = store_sql(l->cli->db, sql)) != NULL)
		stmt_int(q, ":id", l->id);
	return q;
}

static int
what(struct look *l)
{
	struct store *db = l->cli->db;
	struct stmt *q;
	int n;

	if ((q = of_question(l, OP)) == NULL || (n = stmt_step(q)) == -1)
		return -1;
	if (n == 1) {
		snprintf(l->op, sizeof(l->op), "%s", stmt_get_text(q, 0));
		stmt_done(q);
	}
	if ((q = of_question(l, WHAT)) == NULL || (n = stmt_step(q)) == -1)
		return -1;
	if (n == 0)
		return refusal_set(store_refusal(db), "op.dry",
		    "an added op is looked at while its question waits, and as long as its record holds");
	snprintf(l->program, sizeof(l->program), "%s", stmt_get_text(q, 0));
	snprintf(l->sha256, sizeof(l->sha256), "%s", stmt_get_text(q, 1));
	snprintf(l->interpreter, sizeof(l->interpreter), "%s", stmt_get_text(q, 2));
	snprintf(l->interpreter_sha256, sizeof(l->interpreter_sha256), "%s", stmt_get_text(q, 3));
	l->verbs = (int)stmt_get_int(q, 4);
	l->writes = (int)stmt_get_int(q, 5);
	snprintf(l->time, sizeof(l->time), "%s", stmt_get_text(q, 6));
	stmt_done(q);
	return 0;
}

/*
 * Verbs.
 */

static int
verb_look(struct look *l, int k)
{
	static char words[3][OBSERVE_ARG_MAX];
	const char *given[2] = {words[1], words[2]};
	struct stmt *q;
	int n = 0, rc;

	if ((q = of_question(l, VERB)) == NULL)
		return -1;
	stmt_int(q, ":k", k);
	while ((rc = stmt_step(q)) == 1 && n < 3 && !stmt_is_null(q, 0))
		snprintf(words[n++], OBSERVE_ARG_MAX, "%s", stmt_get_text(q, 0));
	if (rc == 1)
		stmt_done(q);
	if (rc == -1 || n == 0)
		return -1;
	return dry_verb(l->cli, words[0], given, n - 1);
}

static int
verbs_look(struct look *l)
{
	int k, rc = 0;

	for (k = 0; k < l->verbs && rc == 0; k++)
		rc = verb_look(l, k);
	return rc == -1 ? cli_refuse(l->cli) : rc;
}

/*
 * A program.
 */

/* What is looked at is what was signed, as far as a look can tell: a run has the sealed bytes. */
static int
is_signed(struct look *l, char *path, const char *sha256)
{
	struct refusal *r = store_refusal(l->cli->db);
	char now[PROGRAM_HEX], real[PATH_MAX];
	int fd;

	if ((fd = program_seal(path, store_setting(l->cli->db, "manifest.file"), now, r)) == -1)
		return -1;
	close(fd);
	if (strcmp(now, sha256) != 0)
		return refusal_set(
		    r, "manifest.changed", "%s is not what was signed any more", path);
	if (realpath(path, real) == NULL)
		return refusal_errno(r, "manifest.file", path);
	snprintf(path, PATH_MAX, "%s", real);
	return 0;
}

static int
word_add(struct look *l, const char *word)
{
	if (l->n == WORDS_MAX || (l->words[l->n] = strdup(word)) == NULL)
		return refusal_set(store_refusal(l->cli->db), "store.failed", "out of memory");
	l->n++;
	return 0;
}

static int
words_add(struct look *l, struct stmt *q)
{
	int rc;

	if (q == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1)
		if (word_add(l, stmt_get_text(q, 0)) != 0) {
			stmt_done(q);
			return -1;
		}
	return rc;
}

static int
words_make(struct look *l)
{
	bool has = l->interpreter[0] != '\0';
	struct stmt *q;

	if ((q = store_sql(l->cli->db, PATHS)) != NULL)
		stmt_text(q, ":op", l->op);
	if (word_add(l, "sandbox try") != 0 || words_add(l, q) != 0 || word_add(l, "--read") != 0 ||
	    word_add(l, l->program) != 0)
		return -1;
	if (has && (word_add(l, "--read") != 0 || word_add(l, l->interpreter) != 0))
		return -1;
	if (word_add(l, "--time") != 0 || word_add(l, l->time) != 0 || word_add(l, "--") != 0 ||
	    (has && word_add(l, l->interpreter) != 0) || word_add(l, l->program) != 0)
		return -1;
	return words_add(l, of_question(l, ARGS));
}

static int
program_look(struct look *l, int (*attempt)(struct cli *cli, int argc, char **argv))
{
	struct cli *cli = l->cli;
	char *argv[WORDS_MAX + 1]; /* which the verb changes */

	if (l->writes == 0)
		refusal_set(&cli->refusal, "op.dry", "this op changes nothing to look at");
	else if (is_signed(l, l->program, l->sha256) != 0 ||
		 (l->interpreter[0] != '\0' &&
		     is_signed(l, l->interpreter, l->interpreter_sha256) != 0) ||
		 words_make(l) != 0)
		cli->refusal = *store_refusal(cli->db);
	else {
		cli_close(cli);
		fprintf(stderr, "bastion: %s is run as you, in a sandbox; nothing of it is kept\n",
		    l->program);
		memcpy(argv, l->words, sizeof(argv));
		return attempt(cli, l->n, argv);
	}
	return cli_refuse(cli);
}

int
dry_added(struct cli *cli, int64_t id, int (*attempt)(struct cli *cli, int argc, char **argv))
{
	static struct look l; /* large */
	int i, rc;

	l = (struct look){.cli = cli, .id = id};
	/* The seal of what was added is looked at with the key. */
	cli_close(cli);
	if (cli_open(cli, ROLE_PERSON) != 0 || what(&l) != 0)
		return cli_refuse(cli);
	rc = l.verbs > 0 ? verbs_look(&l) : program_look(&l, attempt);
	for (i = 0; i < WORDS_MAX; i++)
		free(l.words[i]);
	return rc;
}
