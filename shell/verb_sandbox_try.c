/* verb_sandbox_try.c: run a command in a sandbox and look at what it would have changed. */
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/sandbox_run.h"
#include "engine/worker/runner.h"
#include "engine/worker/sandbox_backend.h"
#include "engine/worker/sandbox_effect.h"
#include "engine/worker/sandbox_system.h"
#include "engine/worker/tool.h"
#include "shell/cli.h"
#include "shell/text.h"

#define ENV_MAX   8
#define SHOWN_MAX 200 /* changes that people are shown */
#define LATE      124

/* The names that may pass into the program's environment. */
static const char *const env_names[] = {"LANG", "TERM", "TZ"};

struct attempt {
	struct cli *cli;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
	size_t path_count;
	bool gathers; /* a folder was named */
	bool wrong;   /* and is none */
	enum sandbox_net net;
	const char *user, *keep, *backend;
	bool apply;
	int64_t time_ms;

	struct sandbox_system system;
	struct sandbox_plan plan;
	char cwd[PATH_MAX];
	char env_text[ENV_MAX][PATH_MAX];
	char *env[ENV_MAX + 1];
	char nonce[SANDBOX_NONCE_SIZE];

	struct sandbox_record record;
	char bwrap[BACKEND_PATH_MAX];
	struct runner runner;
	uint64_t process;
	int out[2]; /* what the program says: read from [0] */
	int signals;
	struct sandbox_report report;
	int layers[SANDBOX_EFFECTS];
	struct effect effects[SANDBOX_EFFECTS];
	const char *folders[SANDBOX_EFFECTS];
	int opened[SANDBOX_EFFECTS]; /* they, as they were before it started */
	size_t layer_count, effect_count, folder_count;
	bool started, ended, late, stopped;
	int code;
	size_t changes, left_out, applied;
	unsigned char digest[EFFECT_DIGEST];
};

/*
 * The plan.
 */

/* Add the real path of ${path}.  What is to be guarded and does not exist needs no guard. */
static int
add_path(struct attempt *a, enum sandbox_kind kind, const char *path)
{
	char *real = realpath(path, NULL);

	if (real == NULL && kind > SANDBOX_LINK && errno == ENOENT)
		return 0;
	if (real == NULL)
		return refusal_errno(&a->cli->refusal, "file.missing", path);
	if (a->path_count == SANDBOX_PATHS_MAX) {
		free(real);
		return refusal_set(&a->cli->refusal, "sandbox.plan", "there are too many paths");
	}
	a->paths[a->path_count++] =
	    (struct sandbox_path){kind, kind <= SANDBOX_LINK ? real : NULL, real};
	a->gathers = a->gathers || kind == SANDBOX_EFFECT || kind == SANDBOX_WRITE;
	return 0;
}

static int
option(void *ctx, int val, const char *arg)
{
	static const struct {
		int val;
		enum sandbox_kind kind;
	} kinds[] = {{'r', SANDBOX_READ}, {'w', SANDBOX_WRITE}, {'e', SANDBOX_EFFECT},
	    {'D', SANDBOX_HIDE}, {'A', SANDBOX_SHOW}, {'W', SANDBOX_KEEP}};
	struct attempt *a = ctx;
	size_t i;

	/* A path that is none is refused in the words of the sandbox, below. */
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].val == val) {
			a->wrong = add_path(a, kinds[i].kind, arg) == -1 || a->wrong;
			return 0;
		}
	switch (val) {
	case 'n':
		a->net = strcmp(arg, "host") == 0 ? SANDBOX_NET_HOST : SANDBOX_NET_NONE;
		return strcmp(arg, "host") == 0 || strcmp(arg, "none") == 0 ? 0 : -1;
	case 't':
		return cli_duration(arg, &a->time_ms);
	case 'u':
		a->user = arg;
		return 0;
	case 'b':
		a->backend = arg;
		return 0;
	case 'k':
		a->keep = arg;
		return 0;
	default:
		a->apply = true;
		return 0;
	}
}

static void
add_env(struct attempt *a, size_t *n, const char *name, const char *value)
{
	if (value == NULL || *n == ENV_MAX ||
	    snprintf(a->env_text[*n], sizeof(a->env_text[0]), "%s=%s", name, value) >=
		(int)sizeof(a->env_text[0]))
		return;
	a->env[*n] = a->env_text[*n];
	++*n;
}

static void
make_env(struct attempt *a)
{
	size_t i, n = 0;

	add_env(a, &n, "PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
	add_env(a, &n, "HOME", "/tmp");
	if (a->plan.backend != BACKEND_NONE) {
		add_env(a, &n, "BASTION_SANDBOXED", "1");
		add_env(a, &n, "BASTION_SANDBOX_BACKEND", a->record.name);
		add_env(a, &n, "BASTION_SANDBOX_RUN", a->nonce);
	}
	for (i = 0; i < sizeof(env_names) / sizeof(env_names[0]); i++)
		add_env(a, &n, env_names[i], getenv(env_names[i]));
	a->plan.env = a->env;
}

static int
find_user(struct attempt *a)
{
	const struct passwd *pw;

	a->plan.uid = geteuid();
	a->plan.gid = getegid();
	if (a->user == NULL)
		return 0;
	if ((pw = getpwnam(a->user)) == NULL)
		return refusal_set(&a->cli->refusal, "sandbox.plan", "there is no such user");
	a->plan.uid = pw->pw_uid;
	a->plan.gid = pw->pw_gid;
	return 0;
}

/* The command begins in this folder if it is there inside, else in the first that was named. */
static void
find_cwd(struct attempt *a)
{
	size_t i, n;

	for (i = 0; i < a->path_count; i++) {
		n = strlen(a->paths[i].target);
		if (a->paths[i].kind <= SANDBOX_EFFECT &&
		    strncmp(a->cwd, a->paths[i].target, n) == 0 &&
		    (a->cwd[n] == '/' || a->cwd[n] == '\0'))
			return;
	}
	for (i = 0; i < a->path_count; i++)
		if (a->paths[i].kind == SANDBOX_EFFECT || a->paths[i].kind == SANDBOX_WRITE) {
			snprintf(a->cwd, sizeof(a->cwd), "%s", a->paths[i].target);
			return;
		}
}

/* The folders whose changes are gathered, in the order of the paths, which is that of the layers.
 */
static int
open_folders(struct attempt *a)
{
	size_t i, n;

	for (i = 0; i < a->path_count; i++) {
		n = a->folder_count;
		/* One too many is refused in the words of the sandbox. */
		if (a->paths[i].kind != SANDBOX_EFFECT || n == SANDBOX_EFFECTS)
			continue;
		a->folders[n] = a->paths[i].source;
		if ((a->opened[n] = effect_open(a->folders[n], &a->cli->refusal)) == -1)
			return -1;
		a->folder_count++;
	}
	return 0;
}

static int
make_plan(struct attempt *a, char **argv)
{
	if (getcwd(a->cwd, sizeof(a->cwd)) == NULL)
		return refusal_errno(&a->cli->refusal, "sandbox.plan", "the working directory");
	/* Only our own sandbox gathers changes: with bubblewrap the folder is read. */
	if (!a->gathers && a->plan.backend != BACKEND_NONE &&
	    add_path(
		a, a->plan.backend == BACKEND_NATIVE ? SANDBOX_EFFECT : SANDBOX_READ, a->cwd) == -1)
		return -1;
	if (open_folders(a) == -1 || find_user(a) == -1)
		return -1;
	a->plan.path_count = a->path_count;
	if (sandbox_system(&a->system, &a->plan, a->paths, &a->cli->home, NULL, &a->cli->refusal) ==
	    -1)
		return -1;
	a->path_count = a->plan.path_count;
	find_cwd(a);
	a->plan.argv = argv;
	a->plan.cwd = a->cwd;
	a->plan.net = a->net;
	sandbox_run_limits(a->cli->db, &a->plan.limits);
	if (a->time_ms == 0)
		a->time_ms = store_setting(a->cli->db, "sandbox.time_ms");
	return 0;
}

/*
 * Running it.
 */

static int
open_ends(struct attempt *a)
{
	sigset_t mask;
	int null;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	if ((null = open("/dev/null", O_RDONLY | O_CLOEXEC)) == -1 ||
	    pipe2(a->out, O_CLOEXEC) == -1 || sigprocmask(SIG_BLOCK, &mask, NULL) == -1 ||
	    (a->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK)) == -1)
		return refusal_errno(&a->cli->refusal, "sandbox.start", "there is no pipe");
	a->plan.stdio[0] = null;
	a->plan.stdio[1] = a->plan.stdio[2] = a->out[1];
	return 0;
}

/* Show what the program says: as it is, or as one frame a piece. */
static void
show_output(struct attempt *a)
{
	char buf[16384];
	ssize_t n = read(a->out[0], buf, sizeof(buf));

	if (n <= 0) {
		close(a->out[0]);
		a->out[0] = -1;
		return;
	}
	if (a->cli->mode != CLI_JSON) {
		fwrite(buf, 1, (size_t)n, stdout);
	} else {
		fputs("{\"o\":", stdout);
		text_json(stdout, buf, (size_t)n);
		fputs("}\n", stdout);
	}
	fflush(stdout);
}

static int
start_told(struct attempt *a, int64_t id, const struct runner_event *e)
{
	size_t i;

	a->started = true;
	a->report = e->report;
	for (i = 0; i < e->effect_count; i++)
		a->layers[i] = e->effect_fd[i];
	a->layer_count = e->effect_count;
	return sandbox_run_started(a->cli->db, id, &e->report);
}

/* Take what the runner has to say.  Return 0 or -1. */
static int
runner_told(struct attempt *a, int64_t id)
{
	struct runner_event e;
	int n;

	while ((n = runner_event(&a->runner, &e)) == 1) {
		if (e.id != a->process)
			continue;
		if (e.kind == RUNNER_STARTED && start_told(a, id, &e) == -1)
			return -1;
		if (e.kind == RUNNER_REFUSED) {
			a->cli->refusal = e.refusal;
			return -1;
		}
		if (e.kind != RUNNER_EXITED)
			continue;
		a->ended = true;
		a->code = WIFEXITED(e.status) ? WEXITSTATUS(e.status) : 128 + WTERMSIG(e.status);
	}
	return n == 0 ? 0
		      : refusal_set(&a->cli->refusal, "runner.gone",
			    "the process that starts runs is gone");
}

static void
stop(struct attempt *a)
{
	struct signalfd_siginfo info;

	while (read(a->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		a->stopped = true;
	runner_kill(&a->runner, a->process);
}

static int
watch(struct attempt *a, int64_t id)
{
	int64_t deadline = tool_now_ms() + a->time_ms, left;
	struct pollfd p[3];
	int n;

	while (!a->ended || a->out[0] != -1) {
		p[0] = (struct pollfd){.fd = runner_fd(&a->runner), .events = POLLIN};
		p[1] = (struct pollfd){.fd = a->out[0], .events = POLLIN};
		p[2] = (struct pollfd){.fd = a->signals, .events = POLLIN};
		left = a->late ? -1 : deadline - tool_now_ms();
		n = poll(p, 3, left < 0 && !a->late ? 0 : left > INT_MAX ? INT_MAX : (int)left);
		if (n == 0) {
			a->late = true;
			stop(a);
		}
		if (n <= 0)
			continue;
		if (p[2].revents != 0)
			stop(a);
		if (p[1].revents != 0)
			show_output(a);
		if (p[0].revents != 0 && runner_told(a, id) == -1)
			return -1;
	}
	return 0;
}

static int
run(struct attempt *a, int64_t id)
{
	int rc;

	if (open_ends(a) == -1 ||
	    runner_start(&a->runner, "/proc/self/exe", &a->cli->refusal) == -1)
		return -1;
	rc = runner_sandbox(&a->runner, &a->plan, store_setting(a->cli->db, "op.kill_ms"),
	    &a->process, &a->cli->refusal);
	close(a->out[1]);
	if (rc == 0)
		rc = watch(a, id);
	runner_stop(&a->runner);
	return rc;
}

/*
 * What it changed.
 */

static int
read_effects(struct attempt *a)
{
	crypto_hash_sha256_state h;
	struct effect *e;
	size_t i;

	if (a->folder_count != a->layer_count)
		return refusal_set(
		    &a->cli->refusal, "sandbox.effect", "a layer of changes is missing");
	crypto_hash_sha256_init(&h);
	for (i = 0; i < a->folder_count; i++) {
		e = &a->effects[a->effect_count++];
		if (effect_read(e, a->opened[i], &a->report.overlaid[i], a->layers[i],
			(size_t)a->plan.limits.effect_files, &a->cli->refusal) == -1)
			return -1;
		a->changes += e->count;
		a->left_out += e->left_out;
		crypto_hash_sha256_update(&h, e->digest, sizeof(e->digest));
	}
	crypto_hash_sha256_final(&h, a->digest);
	return 0;
}

static int
apply_effects(struct attempt *a)
{
	size_t i, n;
	int rc = 0;

	for (i = 0; rc == 0 && i < a->effect_count; i++) {
		rc = effect_apply(&a->effects[i], &n, &a->cli->refusal);
		a->applied += n;
	}
	return rc;
}

static int
keep_effects(struct attempt *a)
{
	size_t kept;

	if (a->effect_count != 1)
		return refusal_set(&a->cli->refusal, "sandbox.effect",
		    "changes of exactly one folder can be kept aside");
	return effect_keep(&a->effects[0], a->keep, &kept, &a->cli->refusal);
}

/*
 * Saying it.
 */

static void
show_entry(const char *folder, const struct effect_entry *n)
{
	printf("  %-8s ", effect_change_name(n->change));
	text_show(stdout, folder, strlen(folder));
	putchar('/');
	text_show(stdout, n->path, strlen(n->path));
	if (n->type == 'd')
		putchar('/');
	if (n->change == EFFECT_LEFT_OUT)
		printf("  (%s)", n->why);
	else if (n->change == EFFECT_DELETED && n->count > 1)
		printf("  (%" PRId64 " entries)", n->count);
	else if (n->change == EFFECT_MODE)
		printf("  (%04o to %04o)", (unsigned)n->was.st_mode & 0777, (unsigned)n->mode);
	else if (n->type == 'f' && n->change != EFFECT_DELETED)
		printf("  (%" PRId64 " bytes)", n->bytes);
	putchar('\n');
}

static void
show_people(const struct attempt *a)
{
	size_t i, j, shown = 0;

	for (i = 0; i < a->report.note_count; i++)
		fprintf(stderr, "Note: %s.\n", a->report.notes[i]);
	if (a->plan.backend != BACKEND_NATIVE) {
		puts("What it changed was not gathered.");
		return;
	}
	if (a->changes == 0) {
		puts("It changed nothing.");
		return;
	}
	puts(a->apply ? "It changed:" : "It would have changed:");
	for (i = 0; i < a->effect_count; i++)
		for (j = 0; j < a->effects[i].count && shown < SHOWN_MAX; j++, shown++)
			show_entry(a->folders[i], &a->effects[i].entries[j]);
	if (shown < a->changes)
		printf("  and %zu more: see --json\n", a->changes - shown);
	if (!a->apply)
		puts(a->keep != NULL ? "The folder is as it was; new files lie where you said."
				     : "Nothing was changed; to make it so: --apply");
}

static void
json_entry(const char *folder, const struct effect_entry *n, bool first)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, n->path);
	printf("%s{\"change\":\"%s\",\"type\":\"%s\",\"path\":", first ? "" : ",",
	    effect_change_name(n->change), effect_type_name(n->type));
	text_json(stdout, path, strlen(path));
	printf(",\"mode\":\"%04o\",\"bytes\":%" PRId64 ",\"entries\":%" PRId64, (unsigned)n->mode,
	    n->bytes, n->count);
	if (n->why != NULL)
		printf(",\"why\":\"%s\"", n->why);
	putchar('}');
}

static void
show_json(const struct attempt *a, int64_t id)
{
	char digest[2 * EFFECT_DIGEST + 1];
	size_t i, j;
	bool first = true;

	sodium_bin2hex(digest, sizeof(digest), a->digest, sizeof(a->digest));
	printf("{\"r\":{\"run\":%" PRId64
	       ",\"exit\":%d,\"tasks_capped\":%s,\"landlock\":%d,\"notes\":[",
	    id, a->code, a->report.tasks_capped ? "true" : "false", a->report.landlock);
	for (i = 0; i < a->report.note_count; i++) {
		fputs(i > 0 ? "," : "", stdout);
		text_json(stdout, a->report.notes[i], strlen(a->report.notes[i]));
	}
	fputs("],\"changes\":[", stdout);
	for (i = 0; i < a->effect_count; i++)
		for (j = 0; j < a->effects[i].count; j++) {
			json_entry(a->folders[i], &a->effects[i].entries[j], first);
			first = false;
		}
	printf("],\"digest\":\"%s\",\"left_out\":%zu,\"applied\":%zu}}\n", digest, a->left_out,
	    a->applied);
}

static int
finish(struct attempt *a, int64_t id)
{
	struct sandbox_outcome outcome = {.exit_code = a->late ? LATE : a->code, .applied = -1};
	int rc = a->plan.backend == BACKEND_NATIVE ? read_effects(a) : 0;

	/* What did not end by itself is half done. */
	if (rc == 0 && a->apply && !a->late && !a->stopped) {
		rc = apply_effects(a);
		outcome.applied = (int64_t)a->applied;
	}
	if (rc == 0 && a->keep != NULL)
		rc = keep_effects(a);
	outcome.changes = (int64_t)a->changes;
	outcome.digest = a->effect_count > 0 ? a->digest : NULL;
	if (sandbox_run_ended(a->cli->db, id, &outcome) == -1)
		return -1;
	a->code = outcome.exit_code;
	if (rc == -1)
		return -1;
	if (a->cli->mode == CLI_JSON)
		show_json(a, id);
	else
		show_people(a);
	if (a->late)
		return refusal_set(&a->cli->refusal, "sandbox.time",
		    "the program ran longer than it may; nothing was applied");
	return 0;
}

static void
forget(struct attempt *a)
{
	size_t i;

	for (i = 0; i < a->effect_count; i++)
		effect_free(&a->effects[i]);
	for (i = 0; i < a->layer_count; i++)
		close(a->layers[i]);
	for (i = 0; i < a->folder_count; i++)
		close(a->opened[i]);
	sandbox_system_free(&a->system);
}

static int
try(struct attempt *a, int argc, char **argv)
{
	static const char *const names[] = {"native", "bubblewrap", "none"};
	struct sandbox_ask ask = {.program = argv[0], .words = argc};
	struct sandbox_facts facts;
	int64_t id;

	sandbox_facts(&facts, getenv("PATH"), a->bwrap);
	if (sandbox_backend_choose(a->backend, &facts, &a->record, &a->cli->refusal) == -1)
		return -1;
	a->plan.backend = a->record.backend;
	ask.backend = names[a->plan.backend];
	if (make_plan(a, argv) == -1)
		return -1;
	ask.uid = a->plan.uid;
	ask.net = a->plan.net;
	if (sandbox_run_begin(a->cli->db, &ask, a->nonce, &id) == -1)
		return -1;
	make_env(a);
	if (run(a, id) == -1) {
		/* One that started and was lost sight of reads as lost, once we are gone. */
		if (!a->started)
			sandbox_run_failed(a->cli->db, id);
		return -1;
	}
	return finish(a, id);
}

/*
 * VERB: sandbox try
 *
 * usage: bastion sandbox try [--effect DIR] [--read PATH] [--write PATH] [--deny-read PATH]
 *                            [--allow-read PATH] [--deny-write PATH] [--net none | host]
 *                            [--user NAME] [--time 10m] [--apply | --keep DIR] [--json]
 *                            -- CMD [ARG ...]
 *
 * Run a command in a sandbox and show what it would have changed. It sees the machine's programs,
 * read-only, an empty /tmp, and this folder (or each --effect DIR), which looks writable: what
 * changes there is listed when the command has ended, and then thrown away; or made so with
 * --apply; or copied into the new folder DIR with --keep. It has no network but with --net host, no
 * rights, and nothing of bastion.
 *
 * --read and --write show further paths; what is written below --write is written at once.
 * --deny-read hides a path, --allow-read shows a part of it again, --deny-write keeps one as it is.
 * Keys and tokens in the usual places of a home are hidden. As root, --user runs it as somebody
 * else. --backend bubblewrap has bwrap hold it, which gathers no changes; none holds it by nothing,
 * and only where the setting sandbox.unconfined is 1. The exit code is that of the command; 75
 * where it took longer than --time.
 */
int
verb_sandbox_try(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"effect", required_argument, NULL, 'e'},
	    {"read", required_argument, NULL, 'r'}, {"write", required_argument, NULL, 'w'},
	    {"deny-read", required_argument, NULL, 'D'},
	    {"allow-read", required_argument, NULL, 'A'},
	    {"deny-write", required_argument, NULL, 'W'}, {"net", required_argument, NULL, 'n'},
	    {"user", required_argument, NULL, 'u'}, {"backend", required_argument, NULL, 'b'},
	    {"time", required_argument, NULL, 't'}, {"apply", no_argument, NULL, 'a'},
	    {"keep", required_argument, NULL, 'k'}, {NULL, 0, NULL, 0}};
	static struct attempt a;
	int first, rc;

	a.cli = cli;
	if ((first = cli_options(cli, argc, argv, options, option, &a)) < 0)
		return first == -2 ? 0 : 2;
	if (a.wrong)
		return cli_refuse(cli);
	if (first == argc)
		return cli_usage(cli, "name a command, behind --");
	if (a.apply && a.keep != NULL)
		return cli_usage(cli, "take one of --apply and --keep");
	if (sandbox_inside(getenv("BASTION_SANDBOXED"), getenv("BASTION_SANDBOX_BACKEND"))) {
		refusal_set(&cli->refusal, "run.within",
		    "this is a sandbox already, in which no other can be made");
		return cli_refuse(cli);
	}
	if (cli_open(cli, ROLE_PERSON) == -1)
		return cli_refuse(cli);
	rc = try(&a, argc - first, argv + first);
	forget(&a);
	if (rc == -1)
		return cli_refuse(cli);
	cli_close(cli);
	return a.code;
}
