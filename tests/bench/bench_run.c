/*
 * bench_run.c: bastion run -- true, where the daemon serves and where none does, against true
 * alone, against bwrap, and against srt, the npm package @anthropic-ai/sandbox-runtime, as make
 * peers installs it, with what it does where it was told nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/program.h"

#define ROUNDS     41
#define SRT_ROUNDS 9
#define TARGET     15.0 /* ms more than the program alone */
#define TENTH      10.0
#define NODE       "build/peers/node_modules/.bin/node"
#define SRT        "build/peers/node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js"

extern char **environ;

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The median of ${rounds} runs, or -1 where one does not end well. */
static double
measure(const char *program, const char *const *words, int rounds)
{
	double times[ROUNDS] = {0}, began;
	posix_spawn_file_actions_t quiet;
	int i, status;
	pid_t pid;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
	for (i = 0; i < rounds; i++) {
		began = now();
		if (posix_spawnp(&pid, program, &quiet, NULL, (char *const *)(uintptr_t)words,
			environ) != 0 ||
		    waitpid(pid, &status, 0) != pid || status != 0)
			return -1;
		times[i] = now() - began;
	}
	posix_spawn_file_actions_destroy(&quiet);
	qsort(times, (size_t)rounds, sizeof(*times), by_size);
	return times[rounds / 2];
}

/* Return the median of srt, or -1 where it is not there or what it runs is not in its sandbox. */
static double
measure_srt(const struct scratch *s)
{
	static const char *const inside[] = {NODE, SRT, "-c", "test -n \"$SANDBOX_RUNTIME\"", NULL},
				 *const srt[] = {NODE, SRT, "true", NULL};

	/* Its settings are in HOME, where nobody wrote any. */
	setenv("HOME", s->dir, 1);
	return measure(NODE, inside, 1) < 0 ? -1 : measure(NODE, srt, SRT_ROUNDS);
}

/* Have the daemon do ${verb}.  Return whether it did. */
static bool
daemon_does(struct scratch *s, const char *verb)
{
	struct program p;
	bool done;

	program_run(&p, s, NULL, (const char *const[]){verb, NULL});
	done = p.code == 0;
	program_free(&p);
	return done;
}

int
main(void)
{
	static const char *const alone[] = {"true", NULL},
				 *const ours[] = {"bastion", "run", "--", "true", NULL},
				 *const bwrap[] = {"bwrap", "--unshare-all", "--ro-bind", "/", "/",
				     "--proc", "/proc", "--dev", "/dev", "true", NULL};
	struct scratch s;
	double bare, run = -1, lone, bubble, peer;
	char text[64] = "no answer";

	scratch_make(&s, HOME_BOX);
	setenv("BASTION_STATE", s.home.state, 1);
	setenv("BASTION_RUN", s.home.run, 1);
	setenv("XDG_CACHE_HOME", s.dir, 1);
	bare = measure("true", alone, ROUNDS);
	lone = measure(program_path(), ours, ROUNDS);
	if (daemon_does(&s, "start")) {
		run = measure(program_path(), ours, ROUNDS);
		daemon_does(&s, "stop");
	}
	bubble = measure("bwrap", bwrap, ROUNDS);
	peer = measure_srt(&s);
	if (peer > 0)
		snprintf(text, sizeof(text), "%.1f ms", peer);
	printf("run -- true, more than true alone | %.1f ms | %.1f ms | - | < %.0f ms\n",
	    run - bare, bare, TARGET);
	printf("run -- true, without a daemon | %.1f ms | %.1f ms | - | told\n", lone, bare);
	printf("run -- true, against bwrap | %.1f ms | %.1f ms | %.2f | told\n", run, bubble,
	    bubble > 0 ? run / bubble : 0);
	printf("run -- true, against srt | %.1f ms | %s | %.2f | < a tenth\n", run, text,
	    peer > 0 ? run / peer : 0);
	scratch_drop(&s);
	return run < 0 || lone < 0 || run - bare > TARGET || (peer > 0 && run * TENTH > peer);
}
