/*
 * test_lease_torture.c: one lock, 32 processes that want it, and somebody who kills them.
 *
 * An independent witness, memory that all of them share, sees each of them inside.  TAKES=100000
 * SEED=7 build/tests/state/test_lease_torture says how long, and repeats who is killed when.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/state/lease.h"
#include "tests/scratch.h"

#define PEERS    32
#define TAKES    600
#define DAY_MS   INT64_C(86400000)
#define STUCK_MS 60000 /* nobody waits that long while others take turns */

struct witness {
	_Atomic pid_t inside;
	_Atomic int64_t fence, turns; /* the newest; how many there were */
	_Atomic int doubles, backwards;
	_Atomic bool over;
};

/* Whether a process is more than a corpse. */
static bool
lives(pid_t pid)
{
	char path[64], stat[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if ((f = fopen(path, "re")) == NULL)
		return false;
	(void)!fgets(stat, sizeof(stat), f);
	fclose(f);
	return stat[0] != '\0' && strstr(stat, ") Z ") == NULL && strstr(stat, ") X ") == NULL;
}

/* Inside: nobody who lives may be here, and no token may be older than the last. */
static void
turn(struct witness *w, int64_t fence)
{
	pid_t other = atomic_exchange(&w->inside, getpid());

	if (other != 0 && lives(other))
		atomic_fetch_add(&w->doubles, 1);
	if (atomic_exchange(&w->fence, fence) >= fence)
		atomic_fetch_add(&w->backwards, 1);
	if (fence % 3 == 0)
		sched_yield();
	atomic_fetch_add(&w->turns, 1);
	atomic_store(&w->inside, 0);
}

static int
peer_main(char **argv)
{
	struct refusal r = {0};
	struct witness *w;
	struct store *db;
	struct home home;
	int64_t fence;
	int fd;

	if ((fd = open(argv[4], O_RDWR | O_CLOEXEC)) == -1 ||
	    (w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ||
	    home_at(&home, argv[2], argv[3], HOME_BOX, false, &r) != 0 ||
	    (db = store_open(&home, ROLE_PERSON, NULL, &r)) == NULL)
		return 1;
	store_acting(db, "test:peer");
	while (!atomic_load(&w->over)) {
		if (lease_take(db, "toy", DAY_MS, STUCK_MS, &fence) != 0)
			return 2;
		turn(w, fence);
		if (lease_release(db, "toy", fence) != 0)
			return 3;
	}
	store_close(db);
	home_close(&home);
	return 0;
}

static pid_t
begin(const struct scratch *s, const char *witness)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/proc/self/exe", "peer", "peer", s->home.state, s->home.run, witness, NULL);
		_exit(99);
	}
	assert_true(pid > 0);
	return pid;
}

/* LU-10, LU-11: no two inside, no token twice, nobody stuck; whoever is killed inside costs
 * nothing. */
static void
killed_holders_cost_nothing(void **state)
{
	const char *takes = getenv("TAKES"), *given = getenv("SEED");
	unsigned seed = given != NULL ? (unsigned)atoi(given) : (unsigned)time(NULL);
	int64_t wanted = takes != NULL ? atoll(takes) : TAKES, began = loop_now();
	int fd, status, kills = 0, i;
	struct witness *w;
	struct scratch s;
	pid_t peer[PEERS];
	char path[96];

	(void)state;
	print_message("SEED=%u TAKES=%lld\n", seed, (long long)wanted);
	scratch_make(&s, HOME_BOX);
	snprintf(path, sizeof(path), "%s/witness", s.dir);
	assert_true((fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) != -1);
	assert_int_equal(ftruncate(fd, sizeof(*w)), 0);
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(w, MAP_FAILED);
	for (i = 0; i < PEERS; i++)
		peer[i] = begin(&s, path);
	while (atomic_load(&w->turns) < wanted) {
		usleep((useconds_t)(rand_r(&seed) % 40000));
		i = rand_r(&seed) % PEERS;
		kill(peer[i], SIGKILL);
		assert_int_equal(waitpid(peer[i], &status, 0), peer[i]);
		assert_true(WIFSIGNALED(status)); /* none ended by itself: none was stuck */
		peer[i] = begin(&s, path);
		kills++;
	}
	atomic_store(&w->over, true);
	for (i = 0; i < PEERS; i++) {
		assert_int_equal(waitpid(peer[i], &status, 0), peer[i]);
		assert_int_equal(status, 0);
	}
	print_message("%lld turns, %d kills, %lld ms\n", (long long)atomic_load(&w->turns), kills,
	    (long long)(loop_now() - began));
	assert_int_equal(atomic_load(&w->doubles), 0);
	assert_int_equal(atomic_load(&w->backwards), 0);
	assert_true(atomic_load(&w->fence) >= atomic_load(&w->turns));
	munmap(w, sizeof(*w));
	close(fd);
	scratch_drop(&s);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(killed_holders_cost_nothing),
	};

	if (argc == 5 && strcmp(argv[1], "peer") == 0)
		return peer_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
