/* verb_lock.c: named locks for scripts and people: held by a process, freed by its end. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "engine/actor/loop.h"
#include "engine/state/lease.h"
#include "shell/cli.h"
#include "shell/lock.h"

#define PREFIX "lock/" /* of the leases that people name; the others are bastion's own */

/*
 * Whoever shares a lock has a place of it, the lease "lock/NAME/N".  Both kinds take "lock/NAME"
 * first: who shares it for as long as it takes to find a place, who wants it alone until he is
 * done, and waits, with it in hand, until no place is taken.  So nobody overtakes one who waits to
 * be alone.
 */
#define LEASE_SIZE 128
#define ENTER_MS   1000 /* that somebody may need to find a place */

static const char LIST[] =
    "SELECT substr(l.name, 6) AS name, CASE WHEN p.id IS NULL THEN iif(EXISTS (SELECT 1 FROM lease"
    "   AS s WHERE s.name GLOB l.name || '/*' AND s.process_id IS NOT NULL), 'shared', 'free')"
    "  WHEN NOT process_alive(p.boot_id, p.pid, p.start_ticks) THEN 'holder is dead'"
    "  WHEN l.expires_at > now_ms() THEN 'held' ELSE 'ran out' END AS state,"
    "  p.pid, p.uid, l.fence, l.expires_at"
    "  FROM lease AS l LEFT JOIN process AS p ON p.id = l.process_id"
    " WHERE l.name GLOB 'lock/*' AND (p.id IS NOT NULL OR l.name NOT GLOB 'lock/*/*')"
    " ORDER BY l.name";
static const char PLACE[] =
    "SELECT name FROM lease WHERE name GLOB :lease || '/*' AND process_id IS NOT NULL LIMIT 1";

static const char FENCE[] = "SELECT fence FROM lease WHERE name = :name AND process_id IS NOT NULL";

struct options {
	int64_t wait_ms, ttl_ms; /* -1: as the settings say */
	bool shared;
};

static int
take_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'n':
		o->wait_ms = 0;
		return 0;
	case 's':
		o->shared = true;
		return 0;
	default:
		return cli_duration(arg, val == 'w' ? &o->wait_ms : &o->ttl_ms);
	}
}

static int
lease_name(struct cli *cli, const char *name, char lease[LEASE_SIZE])
{
	size_t len = strlen(name);

	if (len == 0 || len > 100 ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
		len)
		return refusal_set(&cli->refusal, "lock.name",
		    "a lock's name is letters, digits, dots, dashes and underscores, at most 100");
	snprintf(lease, LEASE_SIZE, PREFIX "%s", name);
	return 0;
}

static void
say_waiting(struct cli *cli)
{
	if (cli->mode != CLI_JSON)
		fprintf(stderr, "bastion: lock: waiting: %s\n", store_refusal(cli->db)->why);
}

/* The lease was there already when the program began: what it says is said first. */
static int
take(struct cli *cli, struct lock *lock, int64_t wait_ms)
{
	int rc = lease_take(cli->db, lock->lease, lock->ttl_ms, 0, &lock->fence);

	if (rc != LEASE_BUSY || wait_ms == 0)
		return rc;
	say_waiting(cli);
	return lease_take(cli->db, lock->lease, lock->ttl_ms, wait_ms, &lock->fence);
}

/* Store in ${place} one that is taken of ${lease}.  Return 1, 0 where none is, or -1. */
static int
place_taken(struct cli *cli, const char *lease, char place[LEASE_SIZE])
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, PLACE)) == NULL)
		return -1;
	stmt_text(q, ":lease", lease);
	if ((n = stmt_step(q)) != 1)
		return n;
	snprintf(place, LEASE_SIZE, "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 1;
}

/* Wait until ${end} for everybody who shares ${lock}, which is ours and stays so. */
static int
wait_places(struct cli *cli, struct lock *lock, int64_t end)
{
	int64_t left, step, fence;
	char place[LEASE_SIZE];
	bool said = false;
	int rc;

	while ((rc = place_taken(cli, lock->lease, place)) == 1) {
		left = end - loop_now();
		step = left < lock->ttl_ms / 3 ? left : lock->ttl_ms / 3;
		rc = lease_take(cli->db, place, lock->ttl_ms, said && step > 0 ? step : 0, &fence);
		if (rc == 0) {
			rc = lease_release(cli->db, place, fence);
		} else if (rc == LEASE_BUSY && left > 0) {
			if (!said)
				say_waiting(cli);
			said = true;
			rc = lease_renew(cli->db, lock->lease, lock->ttl_ms, lock->fence);
		}
		if (rc != 0)
			return rc;
	}
	return rc;
}

/* Let ${lease} go, with ${rc} and its refusal as they are. */
static int
let_go(struct cli *cli, const char *lease, int64_t fence, int rc)
{
	struct refusal why = *store_refusal(cli->db);

	if (lease_release(cli->db, lease, fence) != 0 && rc == 0)
		return -1;
	if (rc != 0)
		*store_refusal(cli->db) = why;
	return rc;
}

static int
take_alone(struct cli *cli, struct lock *lock, int64_t wait_ms)
{
	int64_t end = loop_now() + wait_ms;
	int rc;

	if ((rc = take(cli, lock, wait_ms)) != 0 || (rc = wait_places(cli, lock, end)) == 0)
		return rc;
	return let_go(cli, lock->lease, lock->fence, rc);
}

/* Take a place of ${lock}, which it then is. */
static int
take_shared(struct cli *cli, struct lock *lock, int64_t wait_ms, char place[LEASE_SIZE])
{
	int64_t i, most = store_setting(cli->db, "lock.shared"), fence = 0;
	int rc;

	if ((rc = take(cli, lock, wait_ms > ENTER_MS ? wait_ms : ENTER_MS)) != 0)
		return rc;
	for (i = 1, rc = LEASE_BUSY; rc == LEASE_BUSY && i <= most; i++) {
		snprintf(place, LEASE_SIZE, "%.105s/%" PRId64, lock->lease, i);
		rc = lease_take(cli->db, place, lock->ttl_ms, 0, &fence);
	}
	rc = let_go(cli, lock->lease, lock->fence, rc);
	lock->lease = place;
	lock->fence = fence;
	return rc;
}

static int
run(struct cli *cli, const struct options *o, const char *name, char **argv)
{
	struct lock lock = {.name = name, .shared = o->shared};
	char lease[LEASE_SIZE], place[LEASE_SIZE];
	int64_t wait_ms;
	int status = 0, rc;

	if (lease_name(cli, name, lease) != 0 || cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	lock.db = cli->db;
	lock.lease = lease;
	lock.ttl_ms = o->ttl_ms != -1 ? o->ttl_ms : store_setting(cli->db, "lock.ttl_ms");
	wait_ms = o->wait_ms != -1 ? o->wait_ms : store_setting(cli->db, "lock.wait_ms");
	if (lock.ttl_ms < 1000)
		return cli_usage(cli, "a lock is held for at least a second at a time");
	if ((o->shared ? take_shared(cli, &lock, wait_ms, place)
		       : take_alone(cli, &lock, wait_ms)) != 0 ||
	    lock_run(&lock, argv, &status) != 0)
		return cli_refuse(cli);
	rc = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return lease_release(cli->db, lock.lease, lock.fence) == 0 ? rc : cli_refuse(cli);
}

static int
breaks(struct cli *cli, const char *name)
{
	char lease[LEASE_SIZE], place[LEASE_SIZE];
	int rc;

	if (lease_name(cli, name, lease) != 0 || cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	rc = lease_break(cli->db, lease);
	while (rc == 0 && (rc = place_taken(cli, lease, place)) == 1)
		rc = lease_break(cli->db, place);
	if (rc != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"free\":true}\n");
	else
		printf("%s is free.\n", name);
	return 0;
}

/* For a script that writes under a lock, before it writes. */
static int
check(struct cli *cli, const char *name, const char *text)
{
	char lease[LEASE_SIZE], *rest;
	int64_t fence = strtoimax(text, &rest, 10);
	struct stmt *q;

	if (fence < 1 || *rest != '\0')
		return cli_usage(cli, "a fencing token is a number, as in BASTION_FENCE");
	if (lease_name(cli, name, lease) != 0 || cli_open(cli, ROLE_READER) != 0 ||
	    (q = store_sql(cli->db, FENCE)) == NULL)
		return cli_refuse(cli);
	stmt_text(q, ":name", lease);
	if (stmt_value(q, 0) == fence)
		return 0;
	refusal_set(&cli->refusal, "lease.fence",
	    "%s is not held with the token %" PRId64 " any more", name, fence);
	return cli_refuse(cli);
}

/*
 * VERB: lock
 *
 * usage: bastion lock [ls] [--json]
 *        bastion lock run NAME [--shared] [--wait TIME | --now] [--ttl TIME] -- COMMAND...
 *        bastion lock check NAME FENCE
 *        bastion lock break NAME
 *
 * Run COMMAND while holding the lock NAME, as flock(1) does. A lock is a row: it is free as soon as
 * its holder has ended, however that ended, and nobody has to clean up. --wait bounds the waiting
 * (setting lock.wait_ms), --now does not wait: a lock that stays held ends with 75. COMMAND finds
 * its fencing token in BASTION_FENCE: it grows with each holder, so a place that remembers the
 * highest token it was shown can refuse a former holder that was asleep; check says whether a token
 * is still the holder's. With --shared it is held together with others who share it (setting
 * lock.shared) and nobody else, without a token; who waits to be alone comes before whoever wants
 * to share it after that. A holder that was stopped for longer than --ttl (setting lock.ttl_ms)
 * loses the lock and its COMMAND is ended. What COMMAND leaves running holds no lock. break frees a
 * lock whose holder is dead or whose time ran out, never a live one.
 */
int
verb_lock(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"wait", required_argument, NULL, 'w'},
	    {"now", no_argument, NULL, 'n'}, {"ttl", required_argument, NULL, 't'},
	    {"shared", no_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
	struct options o = {.wait_ms = -1, .ttl_ms = -1};
	int first, words;
	const char *what;

	if ((first = cli_options(cli, argc, argv, options, take_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	what = words == 0 ? "ls" : argv[first];
	if (strcmp(what, "run") == 0)
		return words >= 3 ? run(cli, &o, argv[first + 1], argv + first + 2)
				  : cli_usage(cli, "run takes a name and, behind --, a command");
	if (strcmp(what, "break") == 0 && words == 2)
		return breaks(cli, argv[first + 1]);
	if (strcmp(what, "check") == 0 && words == 3)
		return check(cli, argv[first + 1], argv[first + 2]);
	if (strcmp(what, "ls") != 0 || words > 1)
		return cli_unexpected(cli, what);
	return cli_list_of(cli, LIST, "Nobody ever held a lock: bastion lock run NAME -- COMMAND");
}
