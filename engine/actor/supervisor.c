/* supervisor.c: the parent of the actors. */
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/actor.h"
#include "engine/actor/backoff.h"
#include "engine/actor/loop.h"
#include "engine/actor/notify.h"
#include "engine/actor/spawn.h"
#include "engine/actor/supervisor.h"
#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/state/audit.h"
#include "engine/state/birth.h"
#include "engine/state/instance.h"
#include "engine/store/restore.h"

#define REASON_MAX 128

/* How long a service manager that does not read may hold us up. */
#define NOTICE_MS 1000

struct supervisor;

/* One actor, and the process that is it now. */
struct child {
	struct supervisor *sup;
	const struct actor *actor;
	struct spawned process; /* pid 0: none */
	int64_t run;            /* the row of actor_run */
	int64_t since;          /* on loop_now's clock */
	uint64_t timer;         /* of the next start */
	int crashes;            /* in a row */
	bool ready;             /* this process is */
	bool proven;            /* one of its processes was */
	bool refused;
	struct refusal refusal;
};

struct supervisor {
	struct home home;
	struct privilege who;
	struct store_keys keys;
	struct loop *loop;
	struct store *db;
	struct child *child;
	size_t children;
	int lock;
	int64_t instance_id;
	bool ready, draining, killed;
	struct refusal *refusal; /* why it could not go on */
	bool failed;
	char reason[REASON_MAX];
};

static void child_start(void *ctx);

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Tell whoever reads our messages about a problem. */
static void
say(const char *fmt, ...)
{
	char line[REFUSAL_WHY_MAX + 256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, "bastion: %s\n", line);
}

/* A row that could not be written is said, and no reason to let the actors go. */
static void
note(struct supervisor *sup, int rc)
{
	struct refusal *r = store_refusal(sup->db);

	if (rc == -1)
		say("the database: %s (%s)", r->why, r->code);
}

static bool
anyone_alive(const struct supervisor *sup)
{
	size_t i;

	for (i = 0; i < sup->children; i++)
		if (sup->child[i].process.pid != 0)
			return true;
	return false;
}

static void
signal_all(struct supervisor *sup, int signo)
{
	size_t i;

	for (i = 0; i < sup->children; i++)
		if (sup->child[i].process.pid != 0)
			spawn_signal(&sup->child[i].process, signo);
}

/* Even a killed process may stay, in the kernel's hands: then the next instance reads it as lost.
 */
static void
on_last_grace(void *ctx)
{
	struct supervisor *sup = ctx;

	say("an actor does not end, though it was killed");
	loop_stop(sup->loop);
}

static void
on_grace(void *ctx)
{
	struct supervisor *sup = ctx;

	if (sup->killed)
		return;
	sup->killed = true;
	signal_all(sup, SIGKILL);
	loop_after(sup->loop, store_setting(sup->db, "actor.drain_ms"), on_last_grace, sup);
}

/* Begin the end: all actors at once, with one grace for all of them (spec daemon RF-26). */
static void
supervisor_drain(struct supervisor *sup, const char *reason)
{
	size_t i;

	if (sup->draining)
		return;
	sup->draining = true;
	snprintf(sup->reason, sizeof(sup->reason), "%s", reason);
	notify_send("STOPPING=1", NOTICE_MS);
	note(sup, instance_draining(sup->db, sup->instance_id));
	for (i = 0; i < sup->children; i++)
		loop_cancel(sup->loop, sup->child[i].timer);
	signal_all(sup, SIGTERM);
	loop_after(sup->loop, store_setting(sup->db, "actor.drain_ms"), on_grace, sup);
	if (!anyone_alive(sup))
		loop_stop(sup->loop);
}

/* What stops the start of one actor stops the daemon, in the words of the rule. */
static void
supervisor_fail(struct supervisor *sup, const struct refusal *r)
{
	char reason[REASON_MAX];

	if (!sup->failed && !sup->draining) {
		sup->failed = true;
		*sup->refusal = *r;
	}
	snprintf(reason, sizeof(reason), "refused: %s", r->code);
	supervisor_drain(sup, reason);
}

static void
on_signal(void *ctx, int signo)
{
	struct supervisor *sup = ctx;
	char reason[REASON_MAX];

	if (sup->draining) {
		on_grace(sup);
		return;
	}
	snprintf(reason, sizeof(reason), "signal %s", sigabbrev_np(signo));
	supervisor_drain(sup, reason);
}

/* Start the actors that somebody waits for, or those that work unasked. */
static void
start_those(struct supervisor *sup, bool serving)
{
	size_t i;

	for (i = 0; i < sup->children; i++)
		if (sup->child[i].actor->serves == serving)
			child_start(&sup->child[i]);
}

/*
 * Ready is who can answer.  What works unasked begins after it, and takes no processor time from
 * what a person waits for; that it cannot begin ends the daemon all the same.
 */
static void
supervisor_ready(struct supervisor *sup)
{
	size_t i;

	if (sup->ready || sup->draining)
		return;
	for (i = 0; i < sup->children; i++)
		if (sup->child[i].actor->serves && !sup->child[i].ready)
			return;
	if (instance_ready(sup->db, sup->instance_id) == -1) {
		supervisor_fail(sup, store_refusal(sup->db));
		return;
	}
	sup->ready = true;
	printf("bastion: serving (pid %ld, state %s, sockets %s)\n", (long)getpid(),
	    sup->home.state, sup->home.run);
	fflush(stdout);
	notify_send("READY=1", NOTICE_MS);
	start_those(sup, false);
}

/* Read what the actor has reported; false once its end is closed. */
static void
child_listen(struct child *child)
{
	struct control_report report;

	while (control_take_report(child->process.control, &report) == 0) {
		if (report.kind == CONTROL_REFUSED) {
			child->refused = true;
			child->refusal = report.refusal;
			continue;
		}
		child->ready = child->proven = true;
		note(child->sup, instance_run_ready(child->sup->db, child->run));
	}
}

static void
on_control(void *ctx, uint32_t events)
{
	struct child *child = ctx;

	child_listen(child);
	if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		loop_del(child->sup->loop, child->process.control);
	supervisor_ready(child->sup);
}

/* Say in ${r} how an actor ended that should not have. */
static void
child_epitaph(const struct child *child, const struct instance_exit *how, struct refusal *r)
{
	const char *name = child->actor->name;

	if (child->refused)
		*r = child->refusal;
	else if (how->signal != 0)
		refusal_set(r, "actor.start", "the actor %s ended by signal %d", name, how->signal);
	else if (how->code != -1)
		refusal_set(r, "actor.start", "the actor %s ended with code %d", name, how->code);
}

/* The wait before the next start: a long steady run makes earlier crashes forgotten. */
static int64_t
child_delay(struct child *child)
{
	struct store *db = child->sup->db;
	int64_t ran = loop_now() - child->since, base;

	if (child->ready && ran >= store_setting(db, "actor.steady_ms"))
		child->crashes = 0;
	base = backoff_base(child->crashes, store_setting(db, "actor.backoff_ms"),
	    store_setting(db, "actor.backoff_cap_ms"));
	child->crashes++;
	return backoff_jitter(base);
}

/* The actor is gone, or could not be made: close its row, and have it again unless we drain. */
static void
child_ended(struct child *child, struct instance_exit *how, struct refusal *r)
{
	struct supervisor *sup = child->sup;
	int64_t delay = 0;

	child_epitaph(child, how, r);
	if (!sup->draining && child->proven) {
		delay = child_delay(child);
		how->not_before = clock_now() + delay;
	}
	child->ready = child->refused = false;
	if (child->run != 0)
		note(sup, instance_run_end(sup->db, child->run, how));
	child->run = 0;
	if (sup->draining) {
		if (!anyone_alive(sup))
			loop_stop(sup->loop);
		return;
	}
	if (!child->proven) {
		supervisor_fail(sup, r);
		return;
	}
	say("%s; it starts again in %" PRId64 " ms", r->why, delay);
	if ((child->timer = loop_after(sup->loop, delay, child_start, child)) == 0) {
		refusal_errno(r, "actor.start", "cannot set a timer");
		supervisor_fail(sup, r);
	}
}

static void
on_exit_of_child(void *ctx, uint32_t events)
{
	struct child *child = ctx;
	struct loop *loop = child->sup->loop;
	struct spawned gone = child->process;
	struct instance_exit how = {.code = -1};
	struct refusal r = {0};
	int status;

	(void)events;
	/* Its last words may still lie in the socket. */
	child_listen(child);
	loop_del(loop, gone.pidfd);
	loop_del(loop, gone.control);
	if (spawn_reap(&child->process, &status) == -1)
		return;
	if (WIFSIGNALED(status))
		how.signal = WTERMSIG(status);
	else
		how.code = WEXITSTATUS(status);
	child_ended(child, &how, &r);
}

static void
child_order(const struct supervisor *sup, struct control_order *order)
{
	memset(order, 0, sizeof(*order));
	order->role = sup->home.role;
	order->supervisor = getpid();
	memcpy(order->identity, sup->keys.identity, sizeof(order->identity));
	memcpy(order->grant, sup->keys.grant, sizeof(order->grant));
	order->who = sup->who;
	snprintf(order->state, sizeof(order->state), "%s", sup->home.state);
	snprintf(order->run, sizeof(order->run), "%s", sup->home.run);
}

/* Have its process, where it is not there yet. */
static int
child_spawn(struct child *child, struct refusal *r)
{
	struct control_order order;

	if (child->process.pid != 0)
		return 0;
	child_order(child->sup, &order);
	if (spawn_actor(child->actor->name, &order, &child->process, r) == -1)
		return -1;
	child->since = loop_now();
	return 0;
}

/* Of a process that was never told to begin: there is no row of it. */
static void
child_kill(struct child *child)
{
	if (child->process.pid != 0)
		spawn_kill(&child->process);
}

/* A process that is there, and has its row, may begin. */
static int
child_go(struct child *child, struct refusal *r)
{
	struct supervisor *sup = child->sup;
	struct control_word word = {
	    .instance_id = sup->instance_id, .schema = store_schema(sup->db)};
	struct identity who;

	if (identity_of(child->process.pid, &who) == 0)
		note(sup, instance_run_process(sup->db, child->run, &who, sup->who.uid));
	if (loop_add(sup->loop, child->process.pidfd, EPOLLIN, on_exit_of_child, child) == 0 &&
	    loop_add(sup->loop, child->process.control, EPOLLIN, on_control, child) == 0) {
		/* One that has ended already is told nothing; the loop hears of its end. */
		(void)control_go(child->process.control, &word);
		return 0;
	}
	refusal_errno(r, "actor.start", "cannot watch an actor");
	loop_del(sup->loop, child->process.pidfd);
	spawn_kill(&child->process);
	return -1;
}

/*
 * First the row that authorises it, then the word to begin.  The process may be there before: until
 * the word it only gets itself ready.
 */
static void
child_start(void *ctx)
{
	struct child *child = ctx;
	struct supervisor *sup = child->sup;
	struct instance_exit how = {.code = -1};
	struct refusal r = {0};
	int attempt;

	child->timer = 0;
	if (sup->draining) {
		child_kill(child);
		if (!anyone_alive(sup))
			loop_stop(sup->loop);
		return;
	}
	if (instance_run_begin(
		sup->db, sup->instance_id, child->actor->name, &child->run, &attempt) == -1) {
		child->run = 0;
		r = *store_refusal(sup->db);
		child_kill(child);
		child_ended(child, &how, &r);
	} else if (child_spawn(child, &r) == -1 || child_go(child, &r) == -1)
		child_ended(child, &how, &r);
}

static void
on_watchdog(void *ctx)
{
	struct supervisor *sup = ctx;

	notify_send("WATCHDOG=1", 0);
	loop_after(sup->loop, notify_watchdog_ms(), on_watchdog, sup);
}

static bool
is_empty(int dirfd)
{
	struct dirent *entry;
	bool empty = true;
	DIR *dir;
	int fd;

	if ((fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return false;
	if ((dir = fdopendir(fd)) == NULL) {
		close(fd);
		return false;
	}
	while (empty && (entry = readdir(dir)) != NULL)
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	closedir(dir);
	return empty;
}

/* The state must be of the user that the actors run as; root gives an empty directory away. */
static int
own_state(struct supervisor *sup, struct refusal *r)
{
	struct home *home = &sup->home;

	if (home->owner != sup->who.uid && home->owner == geteuid() && is_empty(home->fd)) {
		if (fchown(home->fd, sup->who.uid, sup->who.gid) == -1)
			return refusal_errno(r, "store.directory", home->state);
		home->owner = sup->who.uid;
		home->group = sup->who.gid;
	}
	if (home->owner == sup->who.uid)
		return 0;
	return refusal_set(r, "store.directory",
	    "%s belongs to user %u, but the actors run as user %u", home->state,
	    (unsigned)home->owner, (unsigned)sup->who.uid);
}

/* A directory for sockets that is made here is that user's as well. */
static int
own_run(const struct supervisor *sup, struct refusal *r)
{
	struct stat st;

	if (geteuid() == sup->who.uid || lstat(sup->home.run, &st) == 0)
		return 0;
	if (home_run(&sup->home, r) == -1)
		return -1;
	if (lchown(sup->home.run, sup->who.uid, sup->who.gid) == -1)
		return refusal_errno(r, "store.directory", sup->home.run);
	return 0;
}

/* So is the one for the socket of all users; without it they cannot ask, which the actor says. */
static void
own_ask(const struct supervisor *sup)
{
	char path[HOME_ASK_MAX + 1];
	struct refusal r;
	struct stat st;

	snprintf(path, sizeof(path), "%s-ask", sup->home.run);
	if (geteuid() != sup->who.uid && lstat(path, &st) != 0 &&
	    home_ask(&sup->home, path, &r) == 0 && lchown(path, sup->who.uid, sup->who.gid) == -1)
		rmdir(path);
}

/*
 * Where root serves as another user, everything on disk is done as that user, but for the key: its
 * file stays root's, so that no actor that has given root away can read it.
 */
static int
take_keys(struct supervisor *sup, struct refusal *r)
{
	int rc;

	if (privilege_regain() == -1)
		return refusal_errno(r, "actor.start", "cannot be root again");
	rc = birth_key(&sup->home, &sup->keys, r);
	return privilege_lend(&sup->who, r) == -1 ? -1 : rc;
}

/* From here on the place is ours: who serves, where, under the lock, and with which key. */
static int
supervisor_prepare(
    struct supervisor *sup, const struct supervisor_options *options, struct refusal *r)
{
	/* A reader of our messages that went away is no reason to die. */
	signal(SIGPIPE, SIG_IGN);
	/* Whoever started us may have ignored it; then the kernel would reap for us. */
	signal(SIGCHLD, SIG_DFL);
	if (privilege_find(options->user, &sup->who, r) == -1)
		return -1;
	if (sup->who.uid == 0)
		say("the actors run as root: make a user bastion, or name one with --user");
	if (own_state(sup, r) == -1 || own_run(sup, r) == -1)
		return -1;
	if (sup->home.role == HOME_BOX)
		own_ask(sup);
	if (privilege_lend(&sup->who, r) == -1 || home_run(&sup->home, r) == -1)
		return -1;
	if ((sup->lock = instance_lock(&sup->home, r)) == -1)
		return -1;
	restore_tidy(&sup->home);
	return take_keys(sup, r);
}

static int
make_children(struct supervisor *sup, struct refusal *r)
{
	const struct actor *const *at;
	size_t count = 0;

	for (at = actors; *at != NULL; at++)
		count++;
	if ((sup->child = calloc(count + 1, sizeof(*sup->child))) == NULL)
		return refusal_errno(r, "actor.start", "actors");
	for (at = actors; *at != NULL; at++)
		if (sup->home.role == HOME_HOST ? (*at)->host : (*at)->box)
			sup->child[sup->children++] = (struct child){
			    .sup = sup, .actor = *at, .process = {.pidfd = -1, .control = -1}};
	return 0;
}

/*
 * A database that is there is mostly the right one.  Then the actors' processes are made at once,
 * and get ready beside us; else they would meet one that is being made or migrated.
 */
static int
spawn_early(struct supervisor *sup, bool migrate, struct refusal *r)
{
	size_t i;

	if (migrate || !birth_began(&sup->home))
		return 0;
	for (i = 0; i < sup->children; i++)
		if (sup->child[i].actor->serves && child_spawn(&sup->child[i], r) == -1)
			return -1;
	return 0;
}

static void
kill_early(struct supervisor *sup)
{
	size_t i;

	for (i = 0; i < sup->children; i++)
		child_kill(&sup->child[i]);
}

static int
open_database(struct supervisor *sup, bool migrate, struct refusal *r)
{
	if ((sup->db = birth_open(&sup->home, ROLE_SUPERVISOR, &sup->keys, migrate, r)) == NULL)
		return -1;
	store_acting(sup->db, "actor:supervisor");
	return 0;
}

static int
make_loop(struct supervisor *sup, struct refusal *r)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
	size_t i;

	if ((sup->loop = loop_new()) == NULL)
		return refusal_errno(r, "actor.start", "cannot make a loop");
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (loop_signal(sup->loop, signals[i], on_signal, sup) == -1)
			return refusal_errno(r, "actor.start", "cannot take signals");
	if (notify_watchdog_ms() > 0 &&
	    loop_after(sup->loop, notify_watchdog_ms(), on_watchdog, sup) == 0)
		return refusal_errno(r, "actor.start", "cannot set a timer");
	return 0;
}

/*
 * The last rows of an instance are sealed too. The key is read for that alone: while actors run,
 * the supervisor holds none.
 */
static void
seal_last(struct supervisor *sup)
{
	struct store_keys keys = sup->keys;
	struct refusal r = {0};
	char path[PATH_MAX];
	struct store *db;
	struct key *key;

	home_path(&sup->home, "bastion.key", path);
	key = privilege_regain() == 0 ? key_load(path, &r) : NULL;
	if (privilege_lend(&sup->who, &r) == -1 || key == NULL) {
		say("the last rows are not sealed: %s", r.why);
		key_free(key);
		return;
	}
	keys.secret = key;
	if ((db = store_open(&sup->home, ROLE_KEEPER, &keys, &r)) != NULL) {
		store_acting(db, "actor:supervisor");
		if (audit_seal(db, "shutdown") == -1)
			say("the last rows are not sealed: %s", store_refusal(db)->why);
		store_close(db);
	}
	key_free(key);
}

/* From the row of the instance to its end. */
static int
supervisor_live(struct supervisor *sup, struct refusal *r)
{
	if (instance_begin(sup->db, sup->home.role, sup->home.run, &sup->instance_id) == -1) {
		*r = *store_refusal(sup->db);
		kill_early(sup);
		return -1;
	}
	start_those(sup, true);
	supervisor_ready(sup);
	if (loop_run(sup->loop) == -1) {
		sup->failed = true;
		refusal_errno(r, "actor.start", "the loop ended");
		signal_all(sup, SIGKILL);
	}
	note(sup, instance_end(sup->db, sup->instance_id, sup->reason));
	seal_last(sup);
	return sup->failed ? -1 : 0;
}

int
supervisor_run(const struct home *home, const struct supervisor_options *options, struct refusal *r)
{
	struct supervisor sup = {.home = *home, .lock = -1, .refusal = r};
	int rc = -1;

	if (supervisor_prepare(&sup, options, r) == 0 && make_children(&sup, r) == 0 &&
	    spawn_early(&sup, options->migrate, r) == 0 &&
	    open_database(&sup, options->migrate, r) == 0 && make_loop(&sup, r) == 0)
		rc = supervisor_live(&sup, r);
	else
		kill_early(&sup);
	loop_free(sup.loop);
	store_close(sup.db);
	free(sup.child);
	/* Its end is the lock's: the file stays, and another daemon may have it from here on. */
	if (sup.lock >= 0)
		close(sup.lock);
	return rc;
}
