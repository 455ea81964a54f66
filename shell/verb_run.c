/* verb_run.c: run a program where it reaches its folder, and the internet only through the lane. */
#include <sys/epoll.h>
#include <sys/wait.h>

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/clock.h"
#include "engine/state/birth.h"
#include "engine/state/run.h"
#include "engine/worker/sandbox_backend.h"
#include "net/egress/inside.h"
#include "shell/cli.h"
#include "shell/run_daemon.h"
#include "shell/run_plan.h"
#include "shell/run_publish.h"
#include "shell/run_screen.h"
#include "shell/run_within.h"
#include "shell/text.h"

#define RULES_MAX 256
#define TOLD_MAX  64  /* refusals that a person is told of, each once */
#define DRAIN_MS  200 /* for connections to see that the program is gone */

/* A destination that a person is asked about. */
struct asking {
	struct authority to;
	struct asking *next;
};

struct run {
	struct cli *cli;
	struct run_rule rules[RULES_MAX];
	struct authority rule_names[RULES_MAX];
	size_t rule_count;
	bool ask, no_net, quiet, wrong;
	const char *backend;  /* as it was asked for, or NULL */
	const char *narrower; /* an option that holds the program closer than without it */
	enum proxy_inspect inspect;

	struct run_plan plan;
	struct publish publish;
	char nonce[SANDBOX_NONCE_SIZE];
	int64_t id;
	struct sandbox box;
	int end_fd; /* readable when the program is over */
	struct screen screen;
	struct sandbox_terminal terminal;
	struct loop *loop;

	struct run_daemon daemon; /* which writes our rows */
	bool joined;
	int64_t start_ms, published; /* settings */

	struct store_keys keys; /* the lane's */
	struct store *lane_db;
	struct proxy *proxy;
	struct inside *inside;
	struct asking *asking; /* the first is on the screen */
	uint64_t ask_timer, drain_timer;
	uint64_t told[TOLD_MAX];
	size_t told_count;
	int code;
	bool ended, ended_in_row;

	pthread_t committer; /* of the row, while the sandbox is made */
	bool committing, committed;
};

/*
 * Options.
 */

static int
option_rule(struct run *r, bool deny, const char *arg)
{
	struct run_rule *rule = &r->rules[r->rule_count];
	struct authority *a = &r->rule_names[r->rule_count];

	if (r->rule_count == RULES_MAX) {
		r->wrong = true;
		return refusal_set(&r->cli->refusal, "egress.many", "at most %d rules", RULES_MAX);
	}
	*rule = (struct run_rule){.deny = deny};
	if (arg[0] == '@' && !deny) {
		rule->preset = arg + 1;
	} else if (authority_pattern(arg, a, &r->cli->refusal) == 0) {
		rule->suffix = a->host.text;
		rule->port = a->port;
	} else {
		r->wrong = true;
		return -1;
	}
	r->rule_count++;
	return 0;
}

static int
option(void *ctx, int val, const char *arg)
{
	struct run *r = ctx;
	int rc = 0;

	switch (val) {
	case 'a':
	case 'd':
		if (val == 'd')
			r->narrower = "--deny";
		rc = option_rule(r, val == 'd', arg);
		break;
	case 'r':
	case 'w':
		if (val == 'r')
			r->narrower = "--ro";
		rc = run_plan_path(
		    &r->plan, val == 'r' ? SANDBOX_READ : SANDBOX_WRITE, arg, &r->cli->refusal);
		break;
	case 'e':
		rc = run_plan_env(&r->plan, arg, &r->cli->refusal);
		break;
	case 'g':
		rc = run_plan_agent(&r->plan, arg, &r->cli->refusal);
		break;
	case 'p':
		rc = publish_add(&r->publish, arg, &r->cli->refusal);
		break;
	case 'b':
		r->backend = arg;
		break;
	case 'k':
		r->ask = true;
		break;
	case 'n':
		r->narrower = "--no-net";
		r->no_net = true;
		break;
	case 'i':
		r->narrower = "--inspect";
		r->inspect = arg == NULL ? PROXY_INSPECT_RULES : PROXY_INSPECT_ALL;
		if (arg != NULL && strcmp(arg, "all") != 0)
			rc = refusal_set(&r->cli->refusal, "run.inspect",
			    "there are --inspect and --inspect=all, and no \"%.32s\"", arg);
		break;
	default:
		r->quiet = true;
	}
	/* What is wrong with it is said in its own words, below. */
	r->wrong = r->wrong || rc != 0;
	return 0;
}

/*
 * By what it is held.
 */

/* Our own sandbox; or bwrap by name, which has no way for the lane. */
static int
choose_backend(struct run *r)
{
	static char room[BACKEND_PATH_MAX];
	struct sandbox_record record = {.backend = BACKEND_NATIVE};
	struct sandbox_facts facts;

	if (r->backend == NULL)
		return 0;
	sandbox_facts(&facts, getenv("PATH"), room);
	if (strcmp(r->backend, "native") != 0 && strcmp(r->backend, "bubblewrap") != 0)
		return refusal_set(&r->cli->refusal, "usage.wrong",
		    "a backend is native or bubblewrap: nothing runs without a sandbox");
	if (sandbox_backend_choose(r->backend, &facts, &record, &r->cli->refusal) != 0)
		return -1;
	if (record.backend == BACKEND_BUBBLEWRAP && r->inspect != PROXY_INSPECT_NONE)
		return refusal_set(&r->cli->refusal, "run.inspect",
		    "bubblewrap has no tunnels that could be looked into");
	r->plan.plan.backend = record.backend;
	r->no_net = r->no_net || !record.scoped_egress;
	return 0;
}

static const char *
backend_name(const struct run *r)
{
	return r->plan.plan.backend == BACKEND_BUBBLEWRAP ? "bubblewrap" : "native";
}

/* Where our own sandbox cannot be made, say whether bwrap makes one: it is not taken unasked. */
static void
offer_bubblewrap(struct refusal *refusal)
{
	static char room[BACKEND_PATH_MAX];
	const struct refusal was = *refusal;
	struct sandbox_facts facts;

	if (strcmp(was.code, "sandbox.userns") != 0)
		return;
	sandbox_facts(&facts, getenv("PATH"), room);
	if (facts.bubblewrap != NULL && !facts.bubblewrap_fails)
		refusal_set(refusal, was.code,
		    "%.300s; bwrap makes a sandbox here, without a network: --backend bubblewrap",
		    was.why);
}

/*
 * What was refused, and what a person says to it.
 */

static void
on_refused(void *ctx, const struct authority *to, const struct refusal *why, const char *advice)
{
	struct run *r = ctx;
	char what[AUTHORITY_TEXT_MAX + 1], line[2048];
	uint64_t h = 5381;
	const char *at;
	size_t i;

	authority_text(to, 0, what, sizeof(what));
	snprintf(line, sizeof(line), "bastion: run: %s: %s [%s]%s%s", what, why->why, why->code,
	    strcmp(why->code, "egress.unknown") == 0 ? "; to allow it: bastion egress allow "
	    : advice[0] != '\0'                      ? "; "
						     : "",
	    strcmp(why->code, "egress.unknown") == 0 ? what : advice);
	for (at = line; *at != '\0'; at++)
		h = h * 33 + (unsigned char)*at;
	for (i = 0; i < r->told_count; i++)
		if (r->told[i] == h)
			return;
	if (r->quiet || r->told_count == TOLD_MAX)
		return;
	r->told[r->told_count++] = h;
	screen_say(&r->screen, line);
}

static void ask_next(struct run *r);

/* Write what was decided about the first, and let its connections go on. */
static void
decide(struct run *r, bool deny, bool always)
{
	struct asking *a = r->asking;
	struct egress_rule rule = {.deny = deny,
	    .uid = getuid(),
	    .suffix = a->to.host.text,
	    .port = a->to.port,
	    .by_uid = getuid()};
	const struct run_rule once = {.deny = deny, .suffix = a->to.host.text, .port = a->to.port};
	int64_t id;
	int rc;

	rc = always ? egress_rule_make(r->cli->db, &rule, &id)
		    : run_rule_add(r->cli->db, r->id, &once);
	if (rc != 0)
		screen_say(&r->screen, store_refusal(r->cli->db)->why);
	loop_cancel(r->loop, r->ask_timer);
	r->ask_timer = 0;
	r->asking = a->next;
	proxy_answered(r->proxy, &a->to);
	free(a);
	ask_next(r);
}

static void
on_key(void *ctx, char key)
{
	struct run *r = ctx;

	switch (key) {
	case 'y':
	case 'Y':
		decide(r, false, false);
		return;
	case 'a':
	case 'A':
		decide(r, false, true);
		return;
	case 'v':
	case 'V':
		decide(r, true, true);
		return;
	default:
		decide(r, true, false);
	}
}

static void
on_ask_late(void *ctx)
{
	struct run *r = ctx;

	r->ask_timer = 0;
	screen_asked(&r->screen);
	decide(r, true, false);
}

static void
ask_next(struct run *r)
{
	char what[AUTHORITY_TEXT_MAX + 1], question[AUTHORITY_TEXT_MAX + 128];

	if (r->asking == NULL || r->ended)
		return;
	authority_text(&r->asking->to, 0, what, sizeof(what));
	snprintf(question, sizeof(question),
	    "bastion: may it reach %s? [y]es, [a]lways, [N]o, ne[v]er:", what);
	r->ask_timer = loop_after(r->loop, store_setting(r->cli->db, "run.ask_ms"), on_ask_late, r);
	screen_ask(&r->screen, question, on_key, r);
}

/* One question for each destination, however many connections wait for it. */
static void
on_unknown(void *ctx, const struct authority *to)
{
	struct run *r = ctx;
	struct asking **at, *a;

	for (at = &r->asking; *at != NULL; at = &(*at)->next)
		if ((*at)->to.port == to->port && strcmp((*at)->to.host.text, to->host.text) == 0)
			return;
	if ((a = calloc(1, sizeof(*a))) == NULL) {
		proxy_answered(r->proxy, to);
		return;
	}
	a->to = *to;
	*at = a;
	if (r->asking == a)
		ask_next(r);
}

/*
 * The lane.
 */

static void
on_bell(void *ctx, uint32_t events)
{
	struct run *r = ctx;

	(void)events;
	store_bell_quiet(r->lane_db);
	proxy_wake(r->proxy);
}

static int
lane_open(struct run *r)
{
	struct refusal *no = &r->cli->refusal;
	struct proxy_config config = {.home = &r->cli->home,
	    .loop = r->loop,
	    .unknown = r->ask ? on_unknown : NULL,
	    .refused = on_refused,
	    .ctx = r,
	    .keys = &r->keys,
	    .inspect = r->inspect,
	    .tokens = r->cli->key};
	int bell;

	if ((r->lane_db = store_open(&r->cli->home, ROLE_EGRESS, &r->keys, no)) == NULL)
		return -1;
	config.db = r->lane_db;
	if ((r->proxy = proxy_new(&config, no)) == NULL)
		return -1;
	if ((bell = store_bell(r->lane_db)) == -1 ||
	    loop_add(r->loop, bell, EPOLLIN, on_bell, r) != 0)
		return refusal_errno(no, "socket.bind", "cannot watch the rules");
	return 0;
}

/* Take the sockets that listen inside: they are the lane's from now on. */
static int
lane_join(struct run *r)
{
	const struct proxy_who who = {.id = (int64_t)getuid(), .run = r->id};
	int *fd = r->box.listener_fd;
	const struct inside_config config = {.proxy = r->proxy,
	    .loop = r->loop,
	    .who = who,
	    .names = (size_t)store_setting(r->lane_db, "run.names"),
	    .dns = fd[2],
	    .caught = fd[3]};
	int taken[SANDBOX_LISTENERS];

	memcpy(taken, fd, sizeof(taken));
	memset(fd, 0xff, sizeof(r->box.listener_fd));
	if (proxy_listen_fd(r->proxy, taken[0], PROXY_HTTP, &who, &r->cli->refusal) != 0 ||
	    proxy_listen_fd(r->proxy, taken[1], PROXY_SOCKS, &who, &r->cli->refusal) != 0)
		return -1;
	r->inside = inside_new(&config, &r->cli->refusal);
	return r->inside != NULL ? 0 : -1;
}

/* A lane that looks into tunnels is there before the program, which has to trust it. */
static int
lane_trusted(struct run *r)
{
	struct refusal *no = &r->cli->refusal;
	const char *pem;

	if (r->inspect == PROXY_INSPECT_NONE)
		return 0;
	if (lane_open(r) != 0 || (pem = proxy_authority(r->proxy, no)) == NULL)
		return -1;
	return run_plan_trust(&r->plan, r->nonce, pem, no);
}

/* Most programs want nothing of the internet: the lane is made for the first that does. */
static void
on_wanted(void *ctx, uint32_t events)
{
	struct run *r = ctx;
	int *fd = r->box.listener_fd, i;

	(void)events;
	for (i = 0; i < SANDBOX_LISTENERS; i++)
		if (fd[i] != -1)
			loop_del(r->loop, fd[i]);
	if (lane_open(r) == 0 && lane_join(r) == 0)
		return;
	screen_say(&r->screen, r->cli->refusal.why);
	/* Whoever waits hears that nobody listens. */
	for (i = 0; i < SANDBOX_LISTENERS; i++)
		if (fd[i] != -1) {
			close(fd[i]);
			fd[i] = -1;
		}
}

static int
lane_wait(struct run *r)
{
	size_t i;

	if (r->proxy != NULL)
		return lane_join(r);
	for (i = 0; !r->no_net && i < SANDBOX_LISTENERS; i++)
		if (r->box.listener_fd[i] != -1 &&
		    loop_add(r->loop, r->box.listener_fd[i], EPOLLIN, on_wanted, r) != 0)
			return refusal_errno(
			    &r->cli->refusal, "sandbox.start", "the lane cannot be waited for");
	return 0;
}

static void
on_drained(void *ctx)
{
	loop_stop(((struct run *)ctx)->loop);
}

static void
on_drain(void *ctx)
{
	struct run *r = ctx;

	r->drain_timer = 0;
	proxy_drain(r->proxy, on_drained, r);
}

/* The program is over, and a person does not want to wait for what is left of it. */
static void
lane_hurry(struct run *r)
{
	if (r->drain_timer == 0)
		return;
	loop_cancel(r->loop, r->drain_timer);
	on_drain(r);
}

static void
lane_close(struct run *r)
{
	struct asking *a;

	if (r->proxy != NULL) {
		inside_free(r->inside);
		if (proxy_connections(r->proxy) > 0)
			r->drain_timer = loop_after(r->loop, DRAIN_MS, on_drain, r);
		if (r->drain_timer == 0)
			on_drain(r);
		loop_run(r->loop);
		proxy_free(r->proxy);
	}
	if (r->lane_db != NULL)
		loop_del(r->loop, store_bell(r->lane_db));
	store_close(r->lane_db);
	while ((a = r->asking) != NULL) {
		r->asking = a->next;
		free(a);
	}
}

/*
 * The program.
 */

static void
on_signal(void *ctx, int signo)
{
	struct run *r = ctx;

	if (signo == SIGWINCH)
		screen_resized(&r->screen);
	else if (sandbox_signal(&r->box, signo) != 0)
		lane_hurry(r);
}

static void
on_ended(void *ctx, uint32_t events)
{
	struct run *r = ctx;

	(void)events;
	r->ended = true;
	loop_stop(r->loop);
}

static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

/* All is over: a signal that comes too late does not take the place of the program's exit code. */
static void
ignore_signals(void)
{
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_IGN);
}

static int
listen_to_signals(struct run *r)
{
	size_t i;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTOU, SIG_IGN); /* what we say is said, in the background too */
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (loop_signal(r->loop, signals[i], on_signal, r) != 0)
			return refusal_errno(
			    &r->cli->refusal, "sandbox.start", "signals cannot be taken");
	return 0;
}

/* Say what another backend than ours cannot do. */
static void
tell_notes(const struct run *r)
{
	char line[256];
	size_t i;

	if (r->quiet || r->plan.plan.backend == BACKEND_NATIVE)
		return;
	for (i = 0; i < r->box.report.note_count; i++) {
		snprintf(line, sizeof(line), "bastion: run: %s", r->box.report.notes[i]);
		screen_say(&r->screen, line);
	}
}

/* Each standard descriptor that is a terminal becomes the program's own one. */
static void
choose_stdio(struct run *r)
{
	int i;

	for (i = 0; i < 3; i++) {
		r->plan.plan.stdio[i] = i;
		if (r->plan.plan.backend == BACKEND_NATIVE && r->screen.tty != -1 && isatty(i) &&
		    screen_begins(&r->screen, &r->terminal) == 0) {
			r->plan.plan.stdio[i] = -1;
			r->plan.plan.terminal = &r->terminal;
		}
	}
}

static int
publish(struct run *r)
{
	const struct run_port *port = r->publish.ports;
	char line[128];
	size_t i;

	if (publish_begin(&r->publish, r->loop, r->box.listener_fd[0], (size_t)r->published,
		&r->cli->refusal) != 0)
		return -1;
	for (i = 0; i < r->publish.count && !r->quiet; i++) {
		snprintf(line, sizeof(line),
		    "bastion: run: 127.0.0.1:%u leads to port %u inside, for you alone",
		    port[i].port, port[i].inside);
		screen_say(&r->screen, line);
	}
	return 0;
}

/*
 * Its row: of our own making, or by the daemon, in which case this process opens no database before
 * the program wants something of the internet.
 */

/* The state of this user, made where there is none: no daemon is needed. */
static int
open_state(struct cli *cli)
{
	if (cli_open(cli, ROLE_PERSON) == 0)
		return 0;
	if (strcmp(cli->refusal.code, "store.missing") != 0)
		return -1;
	cli_close(cli);
	if (home_open(&cli->home, cli->role, true, &cli->refusal) != 0 ||
	    birth_create(&cli->home, NULL, &cli->refusal) < 0)
		return -1;
	home_close(&cli->home);
	return cli_open(cli, ROLE_PERSON);
}

static void *
commit(void *ctx)
{
	struct run *r = ctx;

	r->committed = store_commit(r->cli->db) == 0;
	return NULL;
}

/* Have the row written while the sandbox is made; nobody else uses the store until row_stands. */
static void
row_commit(struct run *r)
{
	sigset_t all, was;

	/* Signals are the loop's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	r->committing = pthread_create(&r->committer, NULL, commit, r) == 0;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (!r->committing)
		commit(r);
}

/* The program starts once the disk has its row. */
static int
row_stands(void *ctx, struct refusal *refusal)
{
	struct run *r = ctx;

	if (r->committing)
		pthread_join(r->committer, NULL);
	r->committing = false;
	if (r->committed)
		return 0;
	*refusal = *store_refusal(r->cli->db);
	return -1;
}

/* The daemon does not, or not any more. */
static int
row_take(struct run *r)
{
	run_daemon_leave(&r->daemon);
	r->daemon.home = NULL;
	r->joined = false;
	home_close(&r->cli->home);
	return open_state(r->cli);
}

static int
row_begin(struct run *r, const struct run_ask *ask)
{
	run_limits(r->cli->db, &r->plan.plan.limits);
	r->start_ms = store_setting(r->cli->db, "sandbox.start_ms");
	r->published = store_setting(r->cli->db, "run.published");
	if (run_begin(r->cli->db, ask, r->nonce, &r->id) != 0)
		return -1;
	row_commit(r);
	return 0;
}

/* Hear what the daemon made of it. */
static int
row_hear(struct run *r, const struct run_ask *ask)
{
	struct run_daemon *d = &r->daemon;
	int rc = run_daemon_hear(d);

	if (rc == 1)
		return row_take(r) == 0 ? row_begin(r, ask) : -1;
	if (rc == -1) {
		r->cli->refusal = d->refused.refusal;
		return -1;
	}
	r->committed = true;
	r->id = d->id;
	r->plan.plan.limits = d->limits;
	r->start_ms = d->start_ms;
	r->published = d->published;
	return 0;
}

static int
row_started(struct run *r)
{
	if (r->joined && run_daemon_started(&r->daemon, &r->box.report) == 0)
		return 0;
	if (r->joined && row_take(r) != 0)
		return -1;
	return sandbox_run_started(r->cli->db, r->id, &r->box.report);
}

static int
row_ended(struct run *r)
{
	struct sandbox_outcome outcome = {.exit_code = r->code, .applied = -1};
	int rc;

	if (!r->joined)
		return sandbox_run_ended(r->cli->db, r->id, &outcome);
	if (run_daemon_ended(&r->daemon, r->code) == 0)
		return 0;
	if (row_take(r) != 0)
		return -1;
	/* It may have written this or that before it fell silent. */
	if (sandbox_run_started(r->cli->db, r->id, &r->box.report) == 0)
		rc = sandbox_run_ended(r->cli->db, r->id, &outcome);
	else
		rc = strcmp(store_refusal(r->cli->db)->code, "sandbox.final") == 0 ? 0 : -1;
	return rc;
}

static void
row_failed(struct run *r)
{
	if (!r->joined || (run_daemon_failed(&r->daemon) != 0 && row_take(r) == 0))
		sandbox_run_failed(r->cli->db, r->id);
}

/* The daemon was asked, and then nothing could be made of it. */
static void
row_drop(struct run *r)
{
	if (r->joined && r->id == 0 && run_daemon_hear(&r->daemon) == 0)
		run_daemon_failed(&r->daemon);
}

static int
start(struct run *r)
{
	struct refusal *no = &r->cli->refusal;

	choose_stdio(r);
	r->plan.plan.may = row_stands;
	r->plan.plan.may_ctx = r;
	if (sandbox_start(&r->plan.plan, &r->box, no) != 0)
		return -1;
	if (!r->joined)
		sandbox_run_warm(r->cli->db, false);
	if (sandbox_ready(&r->box, (int)r->start_ms, no) != 0)
		return -1;
	run_plan_placed(&r->plan);
	tell_notes(r);
	if (publish(r) != 0 || lane_wait(r) != 0)
		return -1;
	if (r->box.terminal_fd != -1 &&
	    screen_join(&r->screen, r->box.terminal_fd, isatty(STDIN_FILENO)) != 0)
		return refusal_errno(no, "sandbox.start", "its terminal cannot be joined");
	r->end_fd = r->box.over_fd != -1 ? r->box.over_fd : r->box.pidfd;
	if (loop_add(r->loop, r->end_fd, EPOLLIN, on_ended, r) != 0)
		return refusal_errno(no, "sandbox.start", "its end cannot be seen");
	return 0;
}

/* Where the lane has nothing to add, the end is written while the kernel takes all apart. */
static int
wait_over(struct run *r)
{
	if (loop_run(r->loop) != 0)
		return refusal_errno(
		    &r->cli->refusal, "sandbox.start", "the kernel refused to wait");
	if (!sandbox_over(&r->box) || r->proxy != NULL)
		return 0;
	r->ended_in_row = true;
	r->code = r->box.code;
	return row_ended(r);
}

static int
go(struct run *r)
{
	bool trusted = lane_trusted(r) == 0;
	struct refusal late;
	int status = 0, rc;

	rc = trusted ? start(r) : -1;
	if (rc != 0)
		offer_bubblewrap(&r->cli->refusal);
	if (r->committing)
		row_stands(r, &late);
	if (rc == 0 && (rc = row_started(r)) == 0) {
		if (!r->joined)
			sandbox_run_warm(r->cli->db, true);
		rc = wait_over(r);
	}
	if (r->box.pid > 0) {
		sandbox_end(&r->box, &status);
		loop_del(r->loop, r->end_fd);
	}
	screen_close(&r->screen);
	lane_close(r);
	if (trusted)
		sandbox_free(&r->box);
	if (r->ended_in_row)
		return rc;
	if (rc != 0) {
		row_failed(r);
		return -1;
	}
	r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return row_ended(r);
}

/* All that is made while the row is. */
static int
make(struct run *r, char **argv)
{
	struct refusal *no = &r->cli->refusal;

	/* What the lane will need is there, or nothing starts. */
	if ((!r->no_net && birth_key(&r->cli->home, &r->keys, no) != 0) ||
	    run_plan_make(&r->plan, &r->cli->home, argv, !r->no_net, no) != 0)
		return -1;
	if (r->no_net && r->publish.count > 0)
		run_plan_handle(&r->plan);
	return 0;
}

static int
begin(struct run *r, const struct run_ask *ask, char **argv)
{
	struct refusal *no = &r->cli->refusal;

	if (make(r, argv) != 0 || (!r->joined && row_begin(r, ask) != 0))
		return -1;
	if (run_plan_environment(&r->plan, r->nonce, !r->no_net, no) != 0)
		return -1;
	if ((r->loop = loop_new()) == NULL)
		return refusal_errno(no, "sandbox.start", "there is no loop");
	if (listen_to_signals(r) != 0 || screen_open(&r->screen, r->loop, r->ask, no) != 0 ||
	    (r->joined && row_hear(r, ask) != 0))
		return -1;
	return go(r);
}

/* Rules, a person's answers, and what bwrap made, are written by a person's own process. */
static bool
joins(struct run *r, const struct run_ask *ask)
{
	struct refusal ignored;

	if (r->wrong || r->ask || r->backend != NULL || r->inspect != PROXY_INSPECT_NONE ||
	    r->rule_count > 0 || home_open(&r->cli->home, r->cli->role, false, &ignored) != 0)
		return false;
	random_hex(r->nonce);
	if (run_daemon_ask(&r->daemon, &r->cli->home, ask, r->nonce) == 0)
		return true;
	home_close(&r->cli->home);
	return false;
}

/*
 * VERB: run
 *
 * usage: bastion run [--allow HOST[:PORT] | --allow @PRESET] [--deny HOST[:PORT]] [--ask]
 *                    [--ro PATH] [--rw PATH] [--env NAME[=VALUE]] [--publish [OUTSIDE:]PORT]
 *                    [--agent ssh | gpg] [--inspect[=all] | --no-net] [--quiet]
 *                    [--backend native | bubblewrap]
 *                    -- CMD [ARG ...]
 *
 * Run a command where it reaches its folder, and of the internet what it may. It sees this folder,
 * which it may change, the programs of the machine, and a home of its own that is kept for this
 * folder. Out it comes only through the lane: to what "bastion egress allow" or --allow names, and
 * to nothing of this machine or its networks. A preset is what a common tool needs: @npm, @pypi,
 * @crates, @go, @debian, @git. With --ask a person is asked for each other destination: yes is for
 * this run, always makes a rule.
 *
 * The proxies of the lane are in its environment; a program that does not use them is caught and
 * carried as well, by the name that it looked up. --ro and --rw show further paths, --env passes
 * further variables, --no-net leaves it alone with itself. --publish has a port of 127.0.0.1 lead
 * to the same port inside, or port OUTSIDE (0: any that is free) to PORT: a page that is worked on
 * is seen in your browser, and by no other user. --agent has it use your keys by the agent that
 * holds them, wherever it gets to; it does not see them.
 *
 * --inspect has the lane look into tunnels, for rules of "bastion egress allow" that say something
 * of requests (--method, --path, --token); --inspect=all into all. The program then trusts an
 * authority that lives as long as the run, by SSL_CERT_FILE and the like, and may use a token that
 * it never sees. What was refused is said on standard error, without --quiet. No daemon is needed.
 * The exit code is that of the command.
 *
 * Where the machine lets bastion make no sandbox, --backend bubblewrap has bwrap make it: without
 * the lane, so without any network, and without a terminal of its own. Nothing else takes its
 * place.
 *
 * Within such a run, "bastion run" runs the command in the sandbox that is there, and says so: what
 * it reaches was said outside. What would hold it closer (--deny, --ro, --no-net, --inspect) is
 * refused there.
 */
int
verb_run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"allow", required_argument, NULL, 'a'},
	    {"deny", required_argument, NULL, 'd'}, {"ask", no_argument, NULL, 'k'},
	    {"ro", required_argument, NULL, 'r'}, {"rw", required_argument, NULL, 'w'},
	    {"publish", required_argument, NULL, 'p'}, {"agent", required_argument, NULL, 'g'},
	    {"backend", required_argument, NULL, 'b'}, {"env", required_argument, NULL, 'e'},
	    {"no-net", no_argument, NULL, 'n'}, {"inspect", optional_argument, NULL, 'i'},
	    {"quiet", no_argument, NULL, 'q'}, {NULL, 0, NULL, 0}};
	static struct run r;
	struct run_ask ask = {0};
	struct refusal wrong;
	int first, rc;

	r.cli = cli;
	r.box.pid = r.end_fd = -1;
	r.inspect = PROXY_INSPECT_NONE;
	if ((first = cli_options(cli, argc, argv, options, option, &r)) < 0)
		return first == -2 ? 0 : 2;
	if (!r.wrong && first == argc)
		return cli_usage(cli, "name a command, behind --");
	if (!r.wrong && r.no_net && r.inspect != PROXY_INSPECT_NONE) {
		r.wrong = true;
		refusal_set(&cli->refusal, "run.inspect",
		    "--no-net has no tunnels that could be looked into");
	}
	if (!r.wrong &&
	    run_within(argv + first, r.plan.env, r.narrower, r.quiet, &cli->refusal) != 0)
		return cli_refuse(cli);
	r.wrong = r.wrong || choose_backend(&r) != 0;
	wrong = cli->refusal;
	ask.sandbox.backend = backend_name(&r);
	ask.sandbox.program = argv[first];
	ask.sandbox.words = argc - first;
	ask.sandbox.uid = geteuid();
	ask.sandbox.net = r.no_net ? SANDBOX_NET_NONE : SANDBOX_NET_CAUGHT;
	ask.rules = r.rules;
	ask.rule_count = r.rule_count;
	ask.ports = r.publish.ports;
	ask.port_count = r.publish.count;
	r.joined = joins(&r, &ask);
	if (!r.joined && open_state(cli) == -1)
		return cli_refuse(cli);
	cli->refusal = wrong;
	rc = r.wrong ? -1 : begin(&r, &ask, argv + first);
	if (r.committing)
		row_stands(&r, &wrong);
	row_drop(&r);
	publish_end(&r.publish);
	ignore_signals();
	loop_free(r.loop);
	run_plan_free(&r.plan);
	run_daemon_leave(&r.daemon);
	if (rc != 0)
		return cli_refuse(cli);
	store_leave(cli->db);
	cli->db = NULL;
	cli_close(cli);
	return r.code;
}
