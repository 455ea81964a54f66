/* program.c: begin runs of added ops, bring what they say into rows, end them. */
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/policy/policy.h"
#include "engine/redact.h"
#include "engine/state/op_run.h"
#include "engine/state/sandbox_run.h"
#include "engine/state/token.h"
#include "engine/worker/keep.h"
#include "engine/worker/program.h"
#include "engine/worker/program_effect.h"
#include "engine/worker/program_lane.h"
#include "engine/worker/program_lent.h"
#include "engine/worker/pump.h"
#include "engine/worker/sandbox_system.h"
#include "engine/worker/worker.h"

#define PATHS_MAX 24 /* of a manifest */
#define WORDS_MAX 16
#define ENV_MAX   9
#define ENV_TEXT  128
#define LATE      124
#define REFUSED   126
#define TOKEN_MAX 65 /* of a token, with its end */

/* Where a program finds its credential: a folder that it alone reads. */
#define LENT_AT "/run/credential"

/* Only what holds, under its seal and on a trusted word, is found. */
static const char WHAT[] =
    "SELECT a.id, r.op, r.args, r.dry, coalesce(a.program, ''), coalesce(a.program_sha256, ''),"
    "  iif(a.interpreter_sha256 IS NULL, '', a.manifest ->> '$.interpreter'),"
    "  coalesce(a.interpreter_sha256, ''),"
    "  coalesce(a.manifest ->> '$.time_ms', (SELECT value FROM setting WHERE name = 'act.time_ms')),"
    "  coalesce(json_array_length(a.manifest, '$.verbs'), 0),"
    "  NOT r.dry AND coalesce(json_array_length(a.manifest, '$.destinations'), 0) > 0,"
    "  iif(r.dry, '', coalesce(a.manifest ->> '$.credential', '')),"
    "  json_type(a.manifest, '$.builder') IS NOT NULL"
    "  FROM op_run AS r JOIN added_ops AS a ON a.name = r.op"
    " WHERE r.id = :id AND a.holds = 'yes'";

static const char LENT[] = "SELECT token_id FROM program_lend WHERE op_run_id = :id";

static const char BUILT[] =
    "SELECT program, length(program) FROM op_built WHERE manifest_id = :manifest";

static const char BEGUN[] =
    "INSERT INTO program_run (op_run_id, manifest_id) VALUES (:id, nullif(:manifest, 0))";

/* A command as root has no manifest: its grant says it all. */
static const char COMMAND[] =
    "SELECT op, args, (SELECT value FROM setting WHERE name = 'act.time_ms')"
    "  FROM op_run WHERE id = :id AND op = 'root:exec'";

static const char CAN[] =
    "INSERT INTO op_probe (op, works, why, probed_at) VALUES ('root:exec', :works, :why, now_ms())"
    " ON CONFLICT DO UPDATE SET works = excluded.works, why = excluded.why,"
    "   probed_at = excluded.probed_at";

static const char BOXED[] =
    "UPDATE program_run SET sandbox_run_id = :sandbox WHERE op_run_id = :id";

/* The paths of the manifest, first what is read, then what may change. */
static const char PATHS[] =
    "SELECT 0, p.value FROM op_manifest AS m, json_each(m.manifest, '$.reads') AS p"
    " WHERE m.id = :manifest"
    " UNION ALL"
    " SELECT 1, p.value FROM op_manifest AS m, json_each(m.manifest, '$.writes') AS p"
    " WHERE m.id = :manifest";

static const char WORDS[] = "SELECT value FROM json_each(:args)";

/* The words of the verb number ${k}; a word that was not given ends them. */
static const char VERB[] =
    "SELECT iif(w.value GLOB '$*', :args ->> (SELECT p.key FROM json_each(m.manifest, '$.params') AS p"
    "         WHERE p.value ->> '$.name' = substr(w.value, 2)), w.value)"
    "  FROM op_manifest AS m, json_each(m.manifest, '$.verbs[' || :k || ']') AS w"
    " WHERE m.id = :manifest ORDER BY w.key";

/* What the policy is asked about a path: a person said yes to this op, in its exact terms. */
static const char JUDGED[] =
    "SELECT json_object('tool', replace(:op, ':', '.'), 'side_effect', iif(:writes, 'write', 'read'),"
    "  'permission', 'prompt', 'granted', json('true'), 'mode', 'ask',"
    "  'session', 'run ' || :id, 'confined', json('true'), 'args', json_object('path', :path))";

static const char JUDGED_COMMAND[] =
    "SELECT json_object('tool', 'root.exec', 'side_effect', 'shell', 'permission', 'prompt',"
    "  'granted', json('true'), 'mode', 'ask', 'session', 'run ' || :id, 'confined', json('false'),"
    "  'args', json_object('command', :args ->> 0))";

struct programs {
	struct actor_env *env;
	struct runner *runner;
	struct program *list;
	struct lent lent;
	int live;
	void (*idle)(void *ctx);
	void *ctx;
};

/* One run. */
struct program {
	struct program *next, **self;
	struct programs *of;
	int64_t id, manifest, sandbox;
	char op[65], nonce[SANDBOX_NONCE_SIZE];
	char program[PATH_MAX], interpreter[PATH_MAX];
	char sha256[PROGRAM_HEX], interpreter_sha256[PROGRAM_HEX];
	char *args;
	int64_t time_ms, until_ms; /* all of it; on the loop's clock */
	int verb, verbs;           /* the verb that runs, and how many there are; 0: a program */
	bool root;                 /* a command as root: outside of any sandbox */
	bool dry, late, started, exited;
	const char *stopped; /* by whom, where it did not end by itself */
	const char *stop_code;
	bool built;                 /* its program is what the builder made */
	bool reaches;               /* destinations */
	int lane;                   /* to the internet lane, which has its sockets; -1: none */
	char credential[TOKEN_MAX]; /* "": it gets none */
	struct redact *redact;      /* what is struck out of all that it says; NULL: nothing */
	uint64_t process;
	int fd; /* of what it says; -1 once that is read to its end */
	struct pump pump;
	uint64_t timer;
	int code;
	struct program_effects effects;
	struct sandbox_report report;
	FILE *results; /* of verbs: their answers, in an array */
	char *results_text;
	size_t results_len;
	bool answered;
	bool placed; /* so says the row of its sandbox */
	/* What is kept of it in the end, as one. */
	struct keep keep;
	struct refusal why;    /* no code: nothing has to be said */
	struct refusal unkept; /* why some of what it said is missing; no code: nothing is */
	char *answer;
	size_t answer_len;
	int exit_code;
	bool threaded;
	pthread_t thread;
};

/* What a plan points to while it is handed over. */
struct layout {
	struct sandbox_plan plan;
	struct sandbox_system system;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
	char text[PATHS_MAX][PATH_MAX];
	char words[WORDS_MAX][OBSERVE_ARG_MAX];
	char *argv[WORDS_MAX + 3], *env[ENV_MAX + 1];
	char command[4 * 4096]; /* 4095 characters */
	char env_text[ENV_MAX][ENV_TEXT];
	char lent[LENT_MAX];
	struct lent_name names[LENT_NAMES];
	int fds[2];
};

struct programs *
programs_new(struct actor_env *env, struct runner *runner, void (*idle)(void *ctx), void *ctx)
{
	struct programs *p;
	struct stmt *q;

	if ((p = calloc(1, sizeof(*p))) == NULL)
		return NULL;
	*p = (struct programs){
	    .env = env, .runner = runner, .lent.fd = -1, .idle = idle, .ctx = ctx};
	lent_sweep();
	if ((q = store_sql(env->db, CAN)) != NULL) {
		stmt_int(q, ":works", geteuid() == 0);
		stmt_text(q, ":why", geteuid() == 0 ? "" : "the daemon does not run as root");
	}
	if (stmt_run_alone(q) != 0)
		fprintf(stderr, "bastion: worker: %s\n", store_refusal(env->db)->why);
	return p;
}

int
programs_live(const struct programs *p)
{
	return p->live;
}

static void
complain(struct program *g, const char *what)
{
	fprintf(stderr, "bastion: worker: run %" PRId64 ": %s: %s\n", g->id, what,
	    store_refusal(g->of->env->db)->why);
}

/* What it was lent. */
static void
give_back(struct program *g)
{
	if (g->credential[0] != '\0')
		lent_take_back(&g->of->lent, g->id);
	g->credential[0] = '\0';
}

static void
program_free(struct program *g)
{
	struct loop *loop = g->of->env->loop;

	if (g->threaded)
		pthread_join(g->thread, NULL);
	*g->self = g->next;
	if (g->next != NULL)
		g->next->self = g->self;
	g->of->live--;
	if (g->fd != -1) {
		loop_del(loop, g->fd);
		close(g->fd);
	}
	if (g->lane != -1) {
		loop_del(loop, g->lane);
		close(g->lane);
	}
	give_back(g);
	loop_cancel(loop, g->timer);
	pump_free(&g->pump);
	redact_free(g->redact);
	program_effects_free(&g->effects);
	if (g->results != NULL)
		fclose(g->results);
	keep_drop(&g->keep);
	free(g->answer);
	free(g->results_text);
	free(g->args);
	free(g);
}

void
programs_free(struct programs *p)
{
	if (p == NULL)
		return;
	while (p->list != NULL)
		program_free(p->list);
	lent_close(&p->lent);
	free(p);
}

static struct program *
program_new(struct programs *p, int64_t id)
{
	struct program *g;

	if ((g = calloc(1, sizeof(*g))) == NULL)
		return NULL;
	g->of = p;
	g->id = id;
	g->fd = g->lane = -1;
	g->effects.applied = -1;
	g->next = p->list;
	g->self = &p->list;
	if (g->next != NULL)
		g->next->self = &g->next;
	p->list = g;
	p->live++;
	return g;
}

/*
 * The end of a run.
 */

static void
output_end(struct program *g)
{
	loop_del(g->of->env->loop, g->fd);
	close(g->fd);
	g->fd = -1;
}

/* The end of its sandbox, into the transaction that is open. */
static int
sandbox_rows(struct program *g)
{
	struct store *db = g->of->env->db;
	struct program_effects *e = &g->effects;
	struct sandbox_outcome outcome = {.exit_code = g->late ? LATE : g->code,
	    .changes = e->changes,
	    .digest = e->layer_count > 0 && e->json != NULL ? e->digest : NULL,
	    .applied = e->applied > e->changes ? e->changes : e->applied};

	if (g->sandbox == 0)
		return 0;
	if (!g->started)
		return sandbox_run_end(db, g->sandbox, NULL);
	if (!g->placed && sandbox_run_placed(db, g->sandbox, &g->report) != 0)
		return -1;
	return sandbox_run_end(db, g->sandbox, &outcome);
}

/* What a rule refuses of it is in nobody's way: it is said. */
static int
sandbox_rows_or_not(struct program *g)
{
	struct store *db = g->of->env->db;

	if (store_savepoint(db) != 0)
		return -1;
	if (sandbox_rows(g) == 0)
		return store_release(db);
	if (keep_passes(store_refusal(db)))
		return -1;
	complain(g, "the end of its sandbox could not be kept");
	store_undo(db);
	return 0;
}

static int
finish_rows(struct program *g, const struct refusal *why, const char *answer, int code)
{
	struct store *db = g->of->env->db;

	if (store_begin(db) != 0)
		return -1;
	if (sandbox_rows_or_not(g) != 0 || (why != NULL && op_run_says(db, g->id, why) != 0) ||
	    (answer != NULL && op_run_frame(db, g->id, answer, g->answer_len) != 0) ||
	    op_run_finish(db, g->id, code) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* Why it ended, where that has to be said, its answer, and its end.  An answer that cannot be kept
 * is left out, and that is said; where there is only no room for it now, all of it is kept later.
 */
static int
finish_write(void *ctx)
{
	struct program *g = ctx;
	struct refusal r;

	if (finish_rows(g, g->why.code[0] != '\0' ? &g->why : NULL, g->answer, g->exit_code) == 0)
		return 0;
	r = *store_refusal(g->of->env->db);
	if (g->answer == NULL || strcmp(r.code, "store.full") == 0 ||
	    strcmp(r.code, "store.busy") == 0)
		return -1;
	if (!g->keep.told)
		complain(g, "its answer could not be kept");
	return finish_rows(g, &r, NULL, g->exit_code != 0 ? g->exit_code : 1);
}

static void
finish_written(void *ctx)
{
	struct program *g = ctx;
	struct programs *p = g->of;

	program_free(g);
	p->idle(p->ctx);
}

/* ${answer} is ours from now on; NULL: there is none. */
static void
finish(struct program *g, const struct refusal *why, char *answer, size_t len, int code)
{
	/* Whatever the runner still says of it, it is over. */
	g->process = 0;
	give_back(g);
	if (g->fd != -1)
		output_end(g);
	loop_cancel(g->of->env->loop, g->timer);
	g->timer = 0;
	if (why != NULL)
		g->why = *why;
	g->answer = answer;
	g->answer_len = len;
	g->exit_code = code;
	g->keep = (struct keep){.env = g->of->env,
	    .what = "the end of a run",
	    .write = finish_write,
	    .written = finish_written,
	    .ctx = g};
	keep_now(&g->keep);
}

/* It could not begin. */
static int
fail(struct program *g, const struct refusal *why, int code)
{
	const struct refusal r = *why;

	finish(g, &r, NULL, 0, code);
	return 0;
}

/* {"r":{"exit":…,"dry":…,…}}, in memory of the caller. */
static char *
answer_make(struct program *g, size_t *len)
{
	char *text = NULL;
	FILE *out;
	size_t i;

	if ((out = open_memstream(&text, len)) == NULL)
		return NULL;
	fprintf(out, "{\"r\":{\"exit\":%d,\"dry\":%s", g->code, g->dry ? "true" : "false");
	if (g->verbs > 0) {
		fflush(g->results);
		fprintf(out, ",\"verbs\":[%s]", g->results_text);
	} else {
		fprintf(out, "%s%s,\"tasks_capped\":%s,\"notes\":[", g->root ? "" : ",",
		    g->effects.json != NULL ? g->effects.json
		    : g->root               ? ""
					    : "\"changes\":[]",
		    g->report.tasks_capped ? "true" : "false");
		for (i = 0; i < g->report.note_count; i++) {
			fputs(i == 0 ? "\"" : ",\"", out);
			pump_string(out, g->report.notes[i], strlen(g->report.notes[i]));
			putc('"', out);
		}
		putc(']', out);
	}
	fputs("}}", out);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Why it did not end by itself, if it did not.  Return the exit code. */
static int
ended_by(struct program *g, struct refusal *r)
{
	r->code[0] = '\0';
	if (g->late)
		refusal_set(r, "op.time",
		    "the run took longer than its time_ms, or the setting act.time_ms, allows");
	else if (g->stopped != NULL)
		refusal_set(r, g->stop_code, "%s", g->stopped);
	return g->late ? LATE : g->stopped != NULL && g->code == 0 ? 1 : g->code;
}

/* Strike the credential out of the answer ${text}, which may name files. */
static char *
struck(struct program *g, char *text, size_t *len)
{
	char *clean;

	if (g->redact == NULL || text == NULL)
		return text;
	if ((clean = malloc(*len + redact_held(g->redact) + 1)) != NULL) {
		redact_end(g->redact, clean); /* of what it said, where that was cut short */
		*len = redact_feed(g->redact, text, *len, clean);
		*len += redact_end(g->redact, clean + *len);
	}
	free(text);
	return clean;
}

static void
conclude(struct program *g)
{
	struct refusal r;
	int code = ended_by(g, &r);
	size_t len = 0;
	char *text;

	if (r.code[0] == '\0' && g->effects.rc == -1) {
		r = g->effects.refusal;
		code = 1;
	}
	if (r.code[0] == '\0')
		r = g->unkept;
	text = struck(g, answer_make(g, &len), &len);
	finish(g, r.code[0] != '\0' ? &r : NULL, text, len, code);
}

/*
 * What it changed, in a thread: that may be much.
 */

static void
effects_done(void *ctx)
{
	struct program *g = ctx;

	pthread_join(g->thread, NULL);
	g->threaded = false;
	conclude(g);
}

static void *
effects_run(void *ctx)
{
	struct program *g = ctx;

	program_effects_take(&g->effects);
	loop_post(g->of->env->loop, effects_done, g);
	return NULL;
}

/* It ended, and said all. */
static void
settle(struct program *g)
{
	struct store *db = g->of->env->db;

	if (g->effects.layer_count == 0 && g->effects.folder_count == 0) {
		conclude(g);
		return;
	}
	g->effects.most = (size_t)store_setting(db, "sandbox.files");
	g->effects.listed = (size_t)store_setting(db, "manifest.changes");
	g->effects.bytes = (size_t)store_setting(db, "op.frame") / 2;
	/* What failed, or did not end by itself, is half done. */
	g->effects.apply = !g->dry && g->code == 0 && !g->late && g->stopped == NULL;
	g->threaded = pthread_create(&g->thread, NULL, effects_run, g) == 0;
	if (!g->threaded) {
		refusal_set(&g->effects.refusal, "op.start", "there is no thread for its changes");
		g->effects.rc = -1;
		conclude(g);
	}
}

static void verb_next(struct program *g);

static void
over(struct program *g)
{
	if (g->fd != -1 || !g->exited)
		return;
	loop_cancel(g->of->env->loop, g->timer);
	g->timer = 0;
	if (g->verbs == 0)
		settle(g);
	else if (g->code != 0 || g->late || g->stopped != NULL || g->verb == g->verbs)
		conclude(g);
	else
		verb_next(g);
}

/*
 * What it says.
 */

static int
frame_keep(void *ctx, const char *text, size_t len)
{
	struct program *g = ctx;

	/* The result of a verb is a part of ours. */
	if (g->verbs > 0 && len > 6 && memcmp(text, "{\"r\":", 5) == 0) {
		if (g->answered)
			putc(',', g->results);
		g->answered = true;
		return fwrite(text + 5, 1, len - 6, g->results) == len - 6 ? 0 : -1;
	}
	return op_run_frame(g->of->env->db, g->id, text, len);
}

/* What comes together is committed together; a watcher sees it then. */
static int
read_more(struct program *g)
{
	struct store *db = g->of->env->db;
	int n;

	if (store_begin_soft(db) != 0)
		return -1;
	n = pump_read(&g->pump);
	if (n == -1) {
		store_rollback(db);
		return -1;
	}
	return store_commit(db) == 0 ? n : -1;
}

static void
on_output(void *ctx, uint32_t events)
{
	struct program *g = ctx;
	int n = read_more(g);

	(void)events;
	if (n == 1)
		return;
	if (n == -1) {
		g->unkept = *store_refusal(g->of->env->db);
		complain(g, "what it says could not be kept");
	}
	output_end(g);
	over(g);
}

static void
on_late(void *ctx)
{
	struct program *g = ctx;

	g->timer = 0;
	g->late = true;
	runner_kill(g->of->runner, g->process);
}

/* Read what it says from now on, within its time: the text of a program, or the frames of a verb.
 */
static int
listen_to(struct program *g, int64_t frame_max, struct refusal *r)
{
	struct loop *loop = g->of->env->loop;
	int64_t left = g->until_ms - loop_now();
	int64_t most = store_setting(g->of->env->db, "op.output");

	pump_free(&g->pump);
	if ((g->verbs > 0 ? pump_init : pump_init_text)(
		&g->pump, g->fd, frame_max, most, frame_keep, g) != 0 ||
	    loop_add(loop, g->fd, EPOLLIN, on_output, g) != 0) {
		refusal_errno(r, "op.start", "what it says could not be read");
		runner_kill(g->of->runner, g->process);
		return -1;
	}
	g->pump.redact = g->redact;
	g->timer = loop_after(loop, left > 1 ? left : 1, on_late, g);
	return 0;
}

/*
 * Beginning.
 */

static int
what_command(struct program *g)
{
	struct stmt *q;

	if ((q = store_sql(g->of->env->db, COMMAND)) == NULL)
		return -1;
	stmt_int(q, ":id", g->id);
	if (stmt_step(q) != 1)
		return 0;
	g->root = true;
	snprintf(g->op, sizeof(g->op), "%s", stmt_get_text(q, 0));
	g->args = strdup(stmt_get_text(q, 1));
	g->time_ms = stmt_get_int(q, 2);
	stmt_done(q);
	g->until_ms = loop_now() + g->time_ms;
	return g->args != NULL ? 1 : -1;
}

static int
what(struct program *g, struct refusal *r)
{
	struct store *db = g->of->env->db;
	struct stmt *q;
	int n;

	if ((n = what_command(g)) != 0)
		return n == 1 ? 0 : -1;
	if ((q = store_sql(db, WHAT)) == NULL)
		return -1;
	stmt_int(q, ":id", g->id);
	if ((n = stmt_step(q)) != 1)
		return n == -1
			   ? -1
			   : refusal_set(r, "manifest.edited",
				 "this op was dropped, or its record was changed by another tool");
	g->manifest = stmt_get_int(q, 0);
	snprintf(g->op, sizeof(g->op), "%s", stmt_get_text(q, 1));
	g->args = strdup(stmt_get_text(q, 2));
	g->dry = stmt_get_int(q, 3) != 0;
	snprintf(g->program, sizeof(g->program), "%s", stmt_get_text(q, 4));
	snprintf(g->sha256, sizeof(g->sha256), "%s", stmt_get_text(q, 5));
	snprintf(g->interpreter, sizeof(g->interpreter), "%s", stmt_get_text(q, 6));
	snprintf(g->interpreter_sha256, sizeof(g->interpreter_sha256), "%s", stmt_get_text(q, 7));
	g->time_ms = stmt_get_int(q, 8);
	g->verbs = (int)stmt_get_int(q, 9);
	g->reaches = stmt_get_int(q, 10) != 0;
	snprintf(g->credential, sizeof(g->credential), "%s", stmt_get_text(q, 11));
	g->built = stmt_get_int(q, 12) != 0;
	stmt_done(q);
	g->until_ms = loop_now() + g->time_ms;
	return g->args != NULL ? 0 : refusal_set(r, "op.start", "out of memory");
}

/* The row that lets it start, durable before it does. */
static int
begun(struct program *g)
{
	struct store *db = g->of->env->db;
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, BEGUN)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", g->id);
	stmt_int(q, ":manifest", g->manifest);
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

static int
boxed(struct program *g)
{
	struct store *db = g->of->env->db;
	struct stmt *q;

	if (store_begin_soft(db) != 0)
		return -1;
	if ((q = store_sql(db, BOXED)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", g->id);
	stmt_int(q, ":sandbox", g->sandbox);
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

/* The file ${path}, if its bytes are those that were signed. */
static int
seal_signed(struct program *g, const char *path, const char *sha256, struct refusal *r)
{
	char now[PROGRAM_HEX];
	int fd;

	if ((fd = program_seal(path, store_setting(g->of->env->db, "manifest.file"), now, r)) == -1)
		return -1;
	if (strcmp(now, sha256) == 0)
		return fd;
	close(fd);
	return refusal_set(r, "manifest.changed", "%s is not what was signed any more", path);
}

/* What was built as the op was added, if its bytes are those that were signed. */
static int
seal_built(struct program *g, struct refusal *r)
{
	struct stmt *q = store_sql(g->of->env->db, BUILT);
	char now[PROGRAM_HEX] = "";
	const void *bytes;
	int fd = -1;
	size_t len;

	if (q == NULL)
		return -1;
	stmt_int(q, ":manifest", g->manifest);
	if (stmt_step(q) != 1)
		return refusal_set(r, "manifest.changed", "what was built of it is gone");
	len = (size_t)stmt_get_int(q, 1);
	if ((bytes = stmt_get_blob(q, 0, len)) != NULL)
		fd = program_seal_bytes(bytes, len, now, r);
	stmt_done(q);
	if (fd == -1 || strcmp(now, g->sha256) == 0)
		return fd;
	close(fd);
	return refusal_set(r, "manifest.changed", "what was built is not what was signed any more");
}

static int
seal_files(struct program *g, struct layout *l, struct refusal *r)
{
	l->fds[0] = g->built ? seal_built(g, r) : seal_signed(g, g->program, g->sha256, r);
	if (l->fds[0] == -1)
		return -1;
	l->plan.fd_count = 1;
	if (g->interpreter[0] == '\0')
		return program_is_script(l->fds[0]) ? refusal_set(r, "manifest.script",
							  "%s needs an interpreter", g->program)
						    : 0;
	if ((l->fds[1] = seal_signed(g, g->interpreter, g->interpreter_sha256, r)) == -1)
		return -1;
	l->plan.fd_count = 2;
	return 0;
}

/* What "~" means: the home of whoever ops run as. */
static const char *
op_home(void)
{
	const struct passwd *pw = getpwuid(geteuid());

	return pw != NULL && pw->pw_dir[0] == '/' ? pw->pw_dir : "/";
}

/* Whether the policy of this machine lets it do what the ask of ${q} says, in a decision that
 * stays. */
static int
judge(struct program *g, struct stmt *q, struct refusal *r)
{
	struct store *db = g->of->env->db;
	struct policy_answer a;
	char *ask = NULL;
	int rc = -1;

	stmt_int(q, ":id", g->id);
	if (stmt_step(q) != 1)
		return -1;
	ask = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	if (ask == NULL || store_begin_soft(db) != 0) {
		free(ask);
		return -1;
	}
	if ((rc = policy_judge(db, op_home(), ask, strlen(ask), &a)) == 0)
		rc = store_commit(db);
	else
		store_rollback(db);
	free(ask);
	if (rc == 0 && strcmp(a.action, "allow") != 0)
		return refusal_set(r, "policy.held",
		    "the policy of this machine holds it, at the gate %s: %s", a.gate, a.why);
	return rc;
}

static int
judge_path(struct program *g, bool writes, const char *path, struct refusal *r)
{
	struct stmt *q;

	if ((q = store_sql(g->of->env->db, JUDGED)) == NULL)
		return -1;
	stmt_text(q, ":op", g->op);
	stmt_int(q, ":writes", writes);
	stmt_text(q, ":path", path);
	return judge(g, q, r);
}

static int
judge_command(struct program *g, struct refusal *r)
{
	struct stmt *q;

	if ((q = store_sql(g->of->env->db, JUDGED_COMMAND)) == NULL)
		return -1;
	stmt_text(q, ":args", g->args);
	return judge(g, q, r);
}

/* Open the token that the rows say is lent, and lend it as a file. */
static int
lend(struct program *g, struct layout *l, struct refusal *r)
{
	struct store *db = g->of->env->db;
	struct stmt *q = store_sql(db, LENT);
	struct token *t = NULL;
	int rc;

	if (q != NULL) {
		stmt_int(q, ":id", g->id);
		t = token_open(db, g->of->env->wire, stmt_value(q, 0));
	}
	if (t == NULL) {
		*r = *store_refusal(db);
		return -1;
	}
	if ((g->redact = redact_new()) == NULL || redact_add(g->redact, t->secret) != 0)
		rc = refusal_set(r, "op.start", "out of memory");
	else
		rc = lent_put(&g->of->lent, g->id, g->credential, t->secret, t->len, l->lent, r);
	token_free(t);
	return rc;
}

/* What the program gets for the length of its run: a credential, a network, and the lane that is
 * the way out of it. */
static int
lay_reach(struct program *g, struct layout *l, struct refusal *r)
{
	if ((g->reaches || g->credential[0] != '\0') && lent_open(&g->of->lent, r) != 0)
		return -1;
	if (g->credential[0] != '\0' && lend(g, l, r) != 0)
		return -1;
	l->plan.net = SANDBOX_NET_NONE;
	if (!g->reaches)
		return 0;
	lane_plan(&l->plan);
	return (g->lane = lane_call(g->of->env->home, r)) != -1 ? 0 : -1;
}

/* Show what was lent as the paths from ${n} on.  Return how many there are then. */
static size_t
lay_lent(struct program *g, struct layout *l, size_t n)
{
	size_t i, shown = g->reaches ? lent_names(&g->of->lent, l->names) : 0;

	if (g->credential[0] != '\0')
		l->paths[n++] = (struct sandbox_path){SANDBOX_READ, l->lent, LENT_AT};
	for (i = 0; i < shown; i++)
		l->paths[n++] =
		    (struct sandbox_path){SANDBOX_READ, l->names[i].source, l->names[i].target};
	return n;
}

static int
lay_paths(struct program *g, struct layout *l, struct refusal *r)
{
	struct sandbox_path *to = l->paths;
	struct stmt *q;
	size_t i, n = 0;
	int rc;

	if ((q = store_sql(g->of->env->db, PATHS)) == NULL)
		return -1;
	stmt_int(q, ":manifest", g->manifest);
	while ((rc = stmt_step(q)) == 1 && n < PATHS_MAX) {
		snprintf(l->text[n], PATH_MAX, "%s", stmt_get_text(q, 1));
		to[n] = (struct sandbox_path){
		    stmt_get_int(q, 0) ? SANDBOX_EFFECT : SANDBOX_READ, l->text[n], l->text[n]};
		n++;
	}
	if (rc == 1)
		stmt_done(q);
	if (rc != 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (judge_path(g, to[i].kind == SANDBOX_EFFECT, to[i].source, r) != 0)
			return -1;
		if (to[i].kind == SANDBOX_EFFECT &&
		    program_effects_add(&g->effects, to[i].source, r) != 0)
			return -1;
	}
	l->plan.cwd = n > 0 && to[n - 1].kind == SANDBOX_EFFECT ? to[n - 1].target : "/tmp";
	n = lay_lent(g, l, n);
	l->plan.path_count = n;
	return sandbox_system(&l->system, &l->plan, to, g->of->env->home, NULL, r);
}

static int
lay_words(struct program *g, struct layout *l)
{
	static char program[] = "/proc/self/fd/3", interpreter[] = "/proc/self/fd/4";
	size_t n = 0, i = 0;
	struct stmt *q;
	int rc;

	if (g->interpreter[0] != '\0')
		l->argv[n++] = interpreter;
	l->argv[n++] = program;
	if ((q = store_sql(g->of->env->db, WORDS)) == NULL)
		return -1;
	stmt_text(q, ":args", g->args);
	while ((rc = stmt_step(q)) == 1 && i < WORDS_MAX) {
		snprintf(l->words[i], sizeof(l->words[i]), "%s", stmt_get_text(q, 0));
		l->argv[n++] = l->words[i++];
	}
	if (rc == 1)
		stmt_done(q);
	l->argv[n] = NULL;
	l->plan.argv = l->argv;
	return rc == 0 ? (int)n : -1;
}

static void
lay_env(struct program *g, struct layout *l)
{
	static const char *const fixed[] = {
	    "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "HOME=/tmp",
	    "LANG=C.UTF-8", "BASTION_SANDBOXED=1", "BASTION_SANDBOX_BACKEND=native"};
	size_t i, n = g->root ? 3 : sizeof(fixed) / sizeof(fixed[0]);

	for (i = 0; i < n; i++)
		snprintf(l->env_text[i], sizeof(l->env_text[i]), "%s",
		    g->root && i == 1 ? "HOME=/root" : fixed[i]);
	if (!g->root)
		snprintf(
		    l->env_text[n++], sizeof(l->env_text[0]), "BASTION_SANDBOX_RUN=%s", g->nonce);
	if (g->dry)
		snprintf(l->env_text[n++], sizeof(l->env_text[0]), "BASTION_DRY_RUN=1");
	if (g->credential[0] != '\0')
		snprintf(l->env_text[n++], sizeof(l->env_text[0]), "BASTION_CREDENTIAL=%s/%s",
		    LENT_AT, g->credential);
	for (i = 0; i < n; i++)
		l->env[i] = l->env_text[i];
	l->plan.env = l->env;
}

static int
hand_over(struct program *g, struct layout *l, struct refusal *r)
{
	struct programs *p = g->of;
	struct store *db = p->env->db;
	int null, out[2], rc;

	if ((null = open("/dev/null", O_RDONLY | O_CLOEXEC)) == -1)
		return refusal_errno(r, "op.start", "/dev/null");
	if (pipe2(out, O_CLOEXEC) == -1) {
		close(null);
		return refusal_errno(r, "op.start", "there is no pipe");
	}
	l->plan.stdio[0] = null;
	l->plan.stdio[1] = l->plan.stdio[2] = out[1];
	rc = runner_sandbox(p->runner, &l->plan, store_setting(db, "op.kill_ms"), &g->process, r);
	close(null);
	close(out[1]);
	if (rc != 0) {
		close(out[0]);
		return -1;
	}
	g->fd = out[0];
	return listen_to(g, store_setting(db, "op.frame"), r);
}

static int
start_program(struct program *g, struct layout *l, struct refusal *r)
{
	struct store *db = g->of->env->db;
	struct sandbox_ask ask = {.backend = "native", .program = g->program};
	int words;

	ask.uid = l->plan.uid = geteuid();
	l->plan.gid = getegid();
	if (seal_files(g, l, r) != 0 || lay_reach(g, l, r) != 0 || lay_paths(g, l, r) != 0 ||
	    (words = lay_words(g, l)) == -1)
		return -1;
	ask.words = words;
	ask.net = l->plan.net;
	l->plan.backend = BACKEND_NATIVE;
	l->plan.fds = l->fds;
	sandbox_run_limits(db, &l->plan.limits);
	if (sandbox_run_begin(db, &ask, g->nonce, &g->sandbox) != 0 || boxed(g) != 0)
		return -1;
	lay_env(g, l);
	return hand_over(g, l, r);
}

/* Nothing confines it but its group, which caps its tasks, and its time. */
static int
start_command(struct program *g, struct layout *l, struct refusal *r)
{
	static char shell[] = "/bin/sh", words[] = "-c", end[] = "--";
	struct store *db = g->of->env->db;
	struct stmt *q;

	if (judge_command(g, r) != 0)
		return -1;
	if ((q = store_sql(db, WORDS)) == NULL)
		return -1;
	stmt_text(q, ":args", g->args);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(l->command, sizeof(l->command), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	l->argv[0] = shell;
	l->argv[1] = words;
	l->argv[2] = end;
	l->argv[3] = l->command;
	l->plan.argv = l->argv;
	l->plan.cwd = "/";
	l->plan.uid = geteuid();
	l->plan.gid = getegid();
	l->plan.backend = BACKEND_NONE;
	l->plan.net = SANDBOX_NET_HOST;
	sandbox_run_limits(db, &l->plan.limits);
	l->plan.limits.group = (struct cgroup_limits){.tasks = store_setting(db, "root.tasks")};
	l->plan.limits.file_bytes = 0;
	lay_env(g, l);
	return hand_over(g, l, r);
}

/* The words of the next verb.  Return their number, the op's name first, or -1. */
static int
verb_words(struct program *g, char words[3][OBSERVE_ARG_MAX])
{
	struct stmt *q;
	int n = 0, rc;

	if ((q = store_sql(g->of->env->db, VERB)) == NULL)
		return -1;
	stmt_text(q, ":args", g->args);
	stmt_int(q, ":k", g->verb);
	stmt_int(q, ":manifest", g->manifest);
	while ((rc = stmt_step(q)) == 1 && n < 3 && !stmt_is_null(q, 0))
		snprintf(words[n++], OBSERVE_ARG_MAX, "%s", stmt_get_text(q, 0));
	if (rc == 1)
		stmt_done(q);
	return rc == -1 ? -1 : n;
}

static int
verb_start(struct program *g, struct refusal *r)
{
	static char words[3][OBSERVE_ARG_MAX];
	static struct observe_args args; /* large */
	struct programs *p = g->of;
	struct store *db = p->env->db;
	struct observe_word given[2];
	struct observe_limits limits;
	struct observe_env env;
	int i, n;

	if ((n = verb_words(g, words)) < 1)
		return -1;
	for (i = 1; i < n; i++)
		given[i - 1] = (struct observe_word){words[i], strlen(words[i])};
	worker_limits(p->env, &limits, &env);
	limits.tool_ms = store_setting(db, "act.tool_ms");
	limits.frame_max /= 20; /* there are up to 16 of them in one answer */
	if (observe_check(words[0], n - 1, given, &args, r) != 0)
		return -1;
	args.dry = g->dry;
	g->exited = false;
	if (runner_spawn(p->runner, observe_find(words[0]), &args, &limits, &env, &g->fd,
		&g->process, r) != 0) {
		g->fd = -1;
		return -1;
	}
	g->verb++;
	return listen_to(g, limits.frame_max, r);
}

static void
verb_next(struct program *g)
{
	struct refusal r = {.code = "op.start", .why = "a verb could not be started"};

	if (verb_start(g, &r) == 0)
		return;
	/* Those before it are done, and their answers count. */
	g->effects.refusal = r;
	g->effects.rc = -1;
	conclude(g);
}

static int
start(struct program *g, struct refusal *r)
{
	struct layout *l;
	size_t i;
	int rc;

	if (what(g, r) != 0 || begun(g) != 0)
		return -1;
	if (g->verbs > 0) {
		g->results = open_memstream(&g->results_text, &g->results_len);
		return g->results != NULL ? verb_start(g, r)
					  : refusal_set(r, "op.start", "out of memory");
	}
	if ((l = calloc(1, sizeof(*l))) == NULL)
		return refusal_set(r, "op.start", "out of memory");
	l->fds[0] = l->fds[1] = -1;
	rc = g->root ? start_command(g, l, r) : start_program(g, l, r);
	for (i = 0; i < l->plan.fd_count; i++)
		close(l->fds[i]);
	sandbox_system_free(&l->system);
	free(l);
	return rc;
}

int
programs_take(struct programs *p, int64_t id)
{
	struct refusal r = {.code = ""};
	struct program *g;

	if ((g = program_new(p, id)) == NULL)
		return -1;
	if (start(g, &r) == 0)
		return 0;
	if (r.code[0] == '\0')
		r = *store_refusal(p->env->db);
	return fail(g, &r, REFUSED);
}

/*
 * What the runner says.
 */

static void
stop(struct program *g, const char *code, const char *why)
{
	/* What is being applied is applied whole. */
	if (g->threaded || g->stopped != NULL || keep_waits(&g->keep))
		return;
	g->stop_code = code;
	g->stopped = why;
	runner_kill(g->of->runner, g->process);
}

/* The lane says nothing: it is gone, or would not have it. */
static void
on_lane(void *ctx, uint32_t events)
{
	struct program *g = ctx;

	(void)events;
	loop_del(g->of->env->loop, g->lane);
	close(g->lane);
	g->lane = -1;
	if (!g->exited)
		stop(g, "op.lane", "the internet lane ended while the run went on");
}

/* Its sockets are the lane's from now on. */
static void
give_to_lane(struct program *g, struct runner_event *event)
{
	const int *fds = event->listener_fd;
	struct refusal r;
	size_t i;

	if (fds[LANE_NAMES] == -1 || fds[LANE_CAUGHT] == -1)
		stop(g, "op.lane", "this kernel catches no connections in a sandbox (nf_tables)");
	else if (lane_hand(g->lane, g->sandbox, fds, &r) != 0 ||
		 loop_add(g->of->env->loop, g->lane, EPOLLIN, on_lane, g) != 0)
		stop(g, "op.lane", "the internet lane did not take the run");
	for (i = 0; i < SANDBOX_LISTENERS; i++)
		if (fds[i] != -1)
			close(fds[i]);
}

static void
told_started(struct program *g, struct runner_event *event)
{
	size_t i;

	g->started = true;
	g->report = event->report;
	for (i = 0; i < event->effect_count; i++)
		g->effects.layers[i] = event->effect_fd[i];
	g->effects.layer_count = event->effect_count;
	memcpy(g->effects.overlaid, g->report.overlaid, sizeof(g->effects.overlaid));
	event->effect_count = 0;
	if (g->lane != -1)
		give_to_lane(g, event);
	g->placed =
	    g->sandbox != 0 && sandbox_run_started(g->of->env->db, g->sandbox, &event->report) == 0;
	if (g->sandbox != 0 && !g->placed)
		complain(g, "that its sandbox stands could not be kept yet");
}

bool
programs_event(struct programs *p, struct runner_event *event)
{
	struct program *g;

	for (g = p->list; g != NULL && (g->process != event->id || g->process == 0); g = g->next)
		;
	if (g == NULL)
		return false;
	switch (event->kind) {
	case RUNNER_STARTED:
		told_started(g, event);
		break;
	case RUNNER_REFUSED:
		if (event->refusal.code[0] == '\0')
			refusal_set(&event->refusal, "op.start", "the process could not be made");
		fail(g, &event->refusal, 1);
		break;
	default:
		/* What hangs in the kernel is not waited for. */
		g->exited = true;
		g->code = event->kind == RUNNER_LEFT ? 1
			  : WIFEXITED(event->status) ? WEXITSTATUS(event->status)
						     : 128 + WTERMSIG(event->status);
		if (event->kind == RUNNER_LEFT && g->fd != -1) {
			read_more(g);
			output_end(g);
		}
		over(g);
	}
	return true;
}

void
programs_cancel(struct programs *p, int64_t id)
{
	struct program *g;

	for (g = p->list; g != NULL && g->id != id; g = g->next)
		;
	if (g != NULL)
		stop(g, "op.cancelled", "the run was taken back");
}

void
programs_drain(struct programs *p)
{
	struct program *g;

	for (g = p->list; g != NULL; g = g->next)
		stop(g, "op.cancelled", "the daemon stopped");
}
