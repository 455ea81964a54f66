/* bench_shell.c: how fast scripts are read, and the longest that any 1 MiB may take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/policy/command.h"

#define SIZE   (1u << 20)
#define ROUNDS 9
#define SPEED  20.0  /* MB/s, at least */
#define WORST  100.0 /* ms, at most */

/* As the settings policy.shell_* are, but for a script that is nothing but commands. */
static const struct shell_limits limits = {SIZE, 100, 20000}, wide = {SIZE, 100, 100000};

/* An ordinary script, as people write them. */
static const char ORDINARY[] =
    "#!/bin/sh\n"
    "# build everything, then say where it is\n"
    "set -eu\n"
    "root=$(cd \"$(dirname \"$0\")/..\" && pwd)\n"
    "for target in linux-amd64 linux-arm64; do\n"
    "\tcase $target in\n"
    "\t*-amd64) arch=x86_64 ;;\n"
    "\t*) arch=aarch64 ;;\n"
    "\tesac\n"
    "\tif [ -d \"$root/build/$target\" ]; then\n"
    "\t\tmake -C \"$root\" ARCH=\"$arch\" clean >/dev/null 2>&1 || exit 1\n"
    "\tfi\n"
    "\tfind \"$root/src\" -name '*.c' -print0 | xargs -0 -n 1 echo | sort -u > \"list.$arch\"\n"
    "done\n"
    "cat <<EOF\n"
    "The build is in $root/build, made $(date +%F).\n"
    "EOF\n";

/* What is said again and again until the mebibyte is full. */
static const char *const HOSTILE[] = {"(", "$(", "${a:-", "$((", "((", "`", "\\`", "\"$(", "'",
    "\"", "{", "a;", "a\n", "a ", "a|", "if a;then ", "<<a\n", "cat <<a <<b <<c\n", "$((a) ",
    "$(( $(( a) ", "a=b ", "a[", "{a,b}", "{a,}{b,}{c,}{d,} ", "rm -rf ", "bash -c ",
    "bash -c 'a' ", "sudo ", "find -exec ", "eval ", "a=\"b c\";$a;", "case a in ",
    "case a in a) ;; esac;", "f(){ f|f& };", "[[ a =~ (", "x() ", "<(", "\\\n", "#", "echo a|sh;",
    "a|a|a|sh|", "((a);(a)) ", "$'\\x41' ", "a&&", "!", "time ", "curl a|", "x=(", "$[", "${a['",
    "a\\", "<<'a'\n", "trap 'a' b;"};

/* Of this process alone: whoever else runs on the machine does not count. */
static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void
fill(char *text, const char *with)
{
	size_t i, n = strlen(with);

	for (i = 0; i < SIZE; i++)
		text[i] = with[i % n];
}

static int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Whole repetitions of ${with}, so that the text is a script. */
static size_t
whole(const char *with)
{
	return SIZE / strlen(with) * strlen(with);
}

static double
parse_speed(char *text)
{
	size_t i, len = whole(ORDINARY);
	double took[ROUNDS], begun;
	struct shell *script;

	fill(text, ORDINARY);
	for (i = 0; i < ROUNDS; i++) {
		begun = now();
		script = shell_parse(text, len, SHELL_BASH, &wide);
		took[i] = now() - begun;
		if (script == NULL || script->state != SHELL_GOOD)
			exit(2);
		shell_free(script);
	}
	qsort(took, ROUNDS, sizeof(took[0]), by_size);
	return (double)len / 1e3 / took[ROUNDS / 2];
}

/* The longest of all hostile texts; of three tries each the shortest, since others may interrupt.
 */
static double
longest(char *text, const char **which)
{
	struct command_report report;
	double begun, took, best, worst = 0;
	size_t i, n;

	for (i = 0; i < sizeof(HOSTILE) / sizeof(HOSTILE[0]); i++) {
		fill(text, HOSTILE[i]);
		best = 1e9;
		for (n = 0; n < 3; n++) {
			begun = now();
			if (command_look(text, SIZE, &limits, &report) != 0)
				exit(2);
			took = now() - begun;
			best = took < best ? took : best;
		}
		if (best > worst) {
			worst = best;
			*which = HOSTILE[i];
		}
		if (getenv("BENCH_ALL") != NULL)
			fprintf(stderr, "%8.1f ms  %s\n", best, HOSTILE[i]);
	}
	return worst;
}

int
main(void)
{
	char *text = malloc(SIZE);
	const char *which = "";
	double speed, worst;

	if (text == NULL)
		return 2;
	speed = parse_speed(text);
	worst = longest(text, &which);
	printf(
	    "shell: a script read, against what we promise | %.0f MB/s | %.0f MB/s | %.2f | 1.00\n",
	    speed, SPEED, SPEED / speed);
	printf("shell: the worst of %zu hostile mebibytes | %.0f ms | %.0f ms | %.2f | 1.00\n",
	    sizeof(HOSTILE) / sizeof(HOSTILE[0]), worst, WORST, worst / WORST);
	free(text);
	return speed >= SPEED && worst <= WORST ? 0 : 1;
}
