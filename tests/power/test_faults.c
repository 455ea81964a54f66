/* test_faults.c: the disk fails, fills up or loses power at every step of a first day. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/store/embed.h"
#include "engine/store/migrate.h"
#include "tests/day.h"
#include "tests/fault.h"
#include "tests/scratch.h"

#define STEPS 16
#define FILES 16
#define EVERY                                                                                 \
	(FAULT_READ | FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_OPEN | FAULT_DELETE | \
	    FAULT_LOCK | FAULT_SHM)

/* What the child under faults has to say. */
struct report {
	int count, hits;
	bool done[STEPS];
	int refused;
	struct refusal refusal; /* the first */
	int steps;
};

/* A state directory as it was, to begin from again and again. */
struct copy {
	int n;
	struct {
		char name[NAME_MAX + 1];
		char *bytes;
		size_t size;
	} file[FILES];
};

struct bench {
	struct scratch s;
	struct copy born; /* a machine with its box and nothing else */
	struct report *report;
};

static void
copy_take(struct copy *c, const struct home *home)
{
	struct dirent *e;
	struct stat st;
	DIR *dir = opendir(home->state);
	int fd;

	assert_non_null(dir);
	while ((e = readdir(dir)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		assert_true(c->n < FILES);
		assert_true((fd = openat(home->fd, e->d_name, O_RDONLY | O_CLOEXEC)) >= 0);
		assert_int_equal(fstat(fd, &st), 0);
		snprintf(c->file[c->n].name, sizeof(c->file[c->n].name), "%s", e->d_name);
		c->file[c->n].size = (size_t)st.st_size;
		assert_non_null(c->file[c->n].bytes = malloc((size_t)st.st_size + 1));
		assert_int_equal(read(fd, c->file[c->n].bytes, (size_t)st.st_size), st.st_size);
		close(fd);
		c->n++;
	}
	closedir(dir);
}

/* Make ${home} what ${c} is; NULL: empty. */
static void
copy_put(const struct copy *c, const struct home *home)
{
	static const char *const ours[] = {
	    "bastion.db", "bastion.db-wal", "bastion.db-shm", "bastion.db-journal"};
	size_t i;
	int fd, k;

	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		unlinkat(home->fd, ours[i], 0);
	for (k = 0; c != NULL && k < c->n; k++) {
		fd = openat(
		    home->fd, c->file[k].name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, c->file[k].bytes, c->file[k].size), c->file[k].size);
		close(fd);
	}
}

static void
start(struct bench *b)
{
	static const struct fault_plan none;

	memset(b, 0, sizeof(*b));
	/* What looks afterwards needs no syncs either. */
	fault_install(&none);
	scratch_make(&b->s, HOME_BOX);
	store_close(b->s.db);
	b->s.db = NULL;
	copy_take(&b->born, &b->s.home);
	b->report = mmap(
	    NULL, sizeof(*b->report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(b->report, MAP_FAILED);
}

static void
finish(struct bench *b)
{
	copy_put(&b->born, &b->s.home);
	while (b->born.n > 0)
		free(b->born.file[--b->born.n].bytes);
	munmap(b->report, sizeof(*b->report));
	scratch_drop(&b->s);
}

static int
refuse(struct report *report, const struct refusal *r)
{
	if (report->refused++ == 0)
		report->refusal = *r;
	return -1;
}

static int
step_once(struct bench *b, const struct day_step *step)
{
	struct refusal r = {0};
	struct store *db;

	if ((db = store_open(&b->s.home, step->role, &b->s.keys, &r)) == NULL)
		return refuse(b->report, &r);
	if (day_take(db, step) != 0) {
		refuse(b->report, store_refusal(db));
		store_close(db);
		return -1;
	}
	store_close(db);
	return 0;
}

/* The day, each step in a connection of its own; with ${watch}, beside a reader that stays. */
static void
day(struct bench *b, bool watch)
{
	const struct day_step *step;
	struct refusal r = {0};
	struct store *reader = NULL;

	if (watch && (reader = store_open(&b->s.home, ROLE_READER, NULL, &r)) == NULL)
		refuse(b->report, &r);
	for (step = day_steps; step->name != NULL; step++) {
		/* What failed once may be asked again: then it works, or the disk still fails. */
		if (step_once(b, step) != 0 && step_once(b, step) != 0)
			break;
		b->report->done[step - day_steps] = true;
		b->report->steps++;
	}
	store_close(reader);
}

static void
migrate(struct bench *b, bool watch)
{
	struct refusal r = {0};

	(void)watch;
	if (migrate_up(&b->s.home, &r) < 0)
		refuse(b->report, &r);
	else
		b->report->done[0] = true;
}

/* Run ${body} in a process of its own, on a disk of ${plan}. */
static void
under(
    struct bench *b, const struct fault_plan *plan, void (*body)(struct bench *, bool), bool watch)
{
	int status;
	pid_t pid;

	store_close(b->s.db);
	b->s.db = NULL;
	memset(b->report, 0, sizeof(*b->report));
	if ((pid = fork()) == 0) {
		fault_install(plan);
		body(b, watch);
		b->report->count = fault_count();
		b->report->hits = fault_hits();
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) ||
	    (WEXITSTATUS(status) != 0 && !(plan->power && WEXITSTATUS(status) == FAULT_EXIT)))
		fail_msg("ops %u, operation %d: the process ended with %d", plan->ops, plan->nth,
		    status);
}

static void
words(const struct fault_plan *plan, const struct refusal *r)
{
	static const char *const known[] = {
	    "store.full", "store.failed", "store.readonly", "store.corrupt", "store.busy"};
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(r->code, known[i]) == 0 && r->why[0] != '\0')
			break;
	if (i == sizeof(known) / sizeof(known[0]))
		fail_msg("ops %u, operation %d: refused with %s|%s", plan->ops, plan->nth, r->code,
		    r->why);
	if (plan->full && strcmp(r->code, "store.full") != 0)
		fail_msg("ops %u, operation %d: a full disk is %s|%s", plan->ops, plan->nth,
		    r->code, r->why);
}

/* What was said to be durable is there, and nothing is there by half. */
static void
day_is_whole(struct bench *b, const struct fault_plan *plan)
{
	const struct report *report = b->report;
	bool behind = false; /* a durable step was committed behind this one */
	int64_t there;
	int i, n;

	for (n = 0; day_steps[n].name != NULL; n++)
		;
	scratch_check(&b->s);
	for (i = n - 1; i >= 0; i--) {
		there = scratch_value(&b->s, day_steps[i].whole);
		if (there != 0 && there != 1)
			fail_msg("ops %u, operation %d, seed %u: half of '%s' is there (%lld)",
			    plan->ops, plan->nth, plan->seed, day_steps[i].name, (long long)there);
		if (there == 0 && report->done[i] && (behind || !day_steps[i].soft || !plan->power))
			fail_msg("ops %u, operation %d, seed %u: '%s' was committed and is gone",
			    plan->ops, plan->nth, plan->seed, day_steps[i].name);
		behind = behind || (report->done[i] && !day_steps[i].soft);
	}
}

static void
day_under(struct bench *b, const struct fault_plan *plan, bool watch)
{
	copy_put(&b->born, &b->s.home);
	under(b, plan, day, watch);
	if (b->report->refused > 0)
		words(plan, &b->report->refusal);
	/* One failure that passed costs at most one step's first try. */
	if (!plan->power && !plan->sticky && b->report->steps != 11)
		fail_msg("ops %u, operation %d: after %d steps the day ended: %s|%s", plan->ops,
		    plan->nth, b->report->steps, b->report->refusal.code, b->report->refusal.why);
	day_is_whole(b, plan);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST 3 /* a sanitizer makes each of these processes ten times as slow */
#else
#define MOST 12
#endif

/* Every operation with BASTION_FAULTS=all, which takes many minutes; else about MOST of ${total}.
 */
static int
stride(int total)
{
	return getenv("BASTION_FAULTS") != NULL || total < MOST ? 1 : (total / MOST) | 1;
}

/* Each operation of the plan in turn is the one that fails. */
static int
day_at_every(struct bench *b, struct fault_plan plan, bool watch)
{
	int hit = 0, total;

	plan.nth = 0;
	day_under(b, &plan, watch);
	assert_int_equal(b->report->steps, 11);
	total = b->report->count;
	for (plan.nth = 1; plan.nth <= total; plan.nth += stride(total)) {
		plan.seed = plan.power ? (unsigned)plan.nth % 7 : 0;
		day_under(b, &plan, watch);
		hit++;
	}
	return hit;
}

static const unsigned kinds[] = {FAULT_READ, FAULT_WRITE, FAULT_SYNC, FAULT_TRUNCATE, FAULT_OPEN,
    FAULT_DELETE, FAULT_LOCK, FAULT_SHM};

/* DESIGN §1.2: after one failure at any operation, all that was said is true, and the day goes on.
 */
static void
one_failure_anywhere(void **state)
{
	struct fault_plan plan = {0};
	struct bench b;
	size_t i;
	int n = 0;

	(void)state;
	start(&b);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		plan.ops = kinds[i];
		n += day_at_every(&b, plan, i % 2 == 0);
	}
	print_message("%d days with one failure\n", n);
	finish(&b);
}

/* The disk is full from some write on: store.full, and what was committed before is there. */
static void
full_from_anywhere(void **state)
{
	struct fault_plan plan = {.ops = FAULT_WRITE, .sticky = true, .full = true};
	struct bench b;

	(void)state;
	start(&b);
	print_message("%d full days beside a reader\n", day_at_every(&b, plan, true));
	print_message("%d full days\n", day_at_every(&b, plan, false));
	finish(&b);
}

/* The disk is broken from some operation on. */
static void
broken_from_anywhere(void **state)
{
	struct fault_plan plan = {
	    .ops = FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_DELETE, .sticky = true};
	struct bench b;

	(void)state;
	start(&b);
	print_message("%d broken days\n", day_at_every(&b, plan, true));
	finish(&b);
}

/* DESIGN §1.2, RF-74: the power goes before any write, sync, truncation or deletion, and takes with
 * it any part of what was not synced, in sectors; an event and what follows from it are there, or
 * neither. */
static void
power_lost_anywhere(void **state)
{
	struct fault_plan plan = {
	    .ops = FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_DELETE, .power = true};
	struct bench b;

	(void)state;
	start(&b);
	print_message("%d days cut short beside a reader\n", day_at_every(&b, plan, true));
	print_message("%d days cut short\n", day_at_every(&b, plan, false));
	finish(&b);
}

/* A migration that fails anywhere left nothing or all of a step, and the next one completes. */
static void
migrations_fail_whole(void **state)
{
	static const struct fault_plan plans[] = {
	    {.ops = EVERY},
	    {.ops = FAULT_WRITE | FAULT_SYNC, .sticky = true, .full = true},
	    {.ops = FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_DELETE, .power = true},
	};
	struct refusal r = {0};
	struct fault_plan plan;
	struct bench b;
	size_t i;
	int version, total, n = 0;

	(void)state;
	start(&b);
	for (i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		plan = plans[i];
		copy_put(NULL, &b.s.home);
		under(&b, &plan, migrate, false);
		assert_true(b.report->done[0]);
		total = b.report->count;
		for (plan.nth = 1; plan.nth <= total; plan.nth += stride(total), n++) {
			plan.seed = (unsigned)plan.nth % 7;
			copy_put(NULL, &b.s.home);
			under(&b, &plan, migrate, false);
			if (b.report->refused > 0)
				words(&plan, &b.report->refusal);
			if (migrate_version(&b.s.home, &version, &r) != 0)
				fail_msg("operation %d: %s: %s", plan.nth, r.code, r.why);
			assert_in_range(
			    version, b.report->done[0] ? embedded_versions : 0, embedded_versions);
			if (migrate_up(&b.s.home, &r) != embedded_versions - version)
				fail_msg("operation %d: %s: %s", plan.nth, r.code, r.why);
			scratch_open(&b.s, ROLE_NET);
		}
	}
	print_message("%d migrations\n", n);
	finish(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_failure_anywhere),
	    cmocka_unit_test(full_from_anywhere),
	    cmocka_unit_test(broken_from_anywhere),
	    cmocka_unit_test(power_lost_anywhere),
	    cmocka_unit_test(migrations_fail_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
