/* test_tour.c: the tour of shell/README.md, typed on a terminal, shows what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/day.h"
#include "tests/program.h"

#define README  "shell/README.md"
#define TITLE   "## A tour of bastion sql\n"
#define PROMPT  "bastion> "
#define MORE    "    ...> "
#define WAIT_MS 20000

/* Who does what on the day that the tour looks back on. */
static const char *
actor_of(enum store_role role)
{
	switch (role) {
	case ROLE_PERSON:
		return "person:root(0)";
	case ROLE_NET:
		return "host:laptop";
	case ROLE_WORKER:
		return "actor:worker";
	case ROLE_KEEPER:
		return "actor:keeper";
	default:
		return "actor:supervisor";
	}
}

static int
setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));
	const struct day_step *step;
	int i;

	assert_non_null(s);
	scratch_make(s, HOME_BOX);
	for (step = day_steps; step->name != NULL; step++) {
		scratch_open(s, step->role);
		store_acting(s->db, "%s", actor_of(step->role));
		assert_int_equal(store_begin(s->db), 0);
		for (i = 0; step->sql[i] != NULL; i++)
			assert_int_equal(stmt_run(store_sql(s->db, step->sql[i])), 0);
		assert_int_equal(store_commit(s->db), 0);
	}
	*state = s;
	return 0;
}

static int
teardown(void **state)
{
	scratch_drop(*state);
	free(*state);
	return 0;
}

/* The next line of the tour that is part of the transcript: those are indented. */
static bool
transcript_line(FILE *f, char *line, size_t size)
{
	while (fgets(line, (int)size, f) != NULL && strncmp(line, "## ", 3) != 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "    ", 4) != 0)
			continue;
		memmove(line, line + 4, strlen(line + 4) + 1);
		return true;
	}
	return false;
}

/* What differs from day to day: numbers, and so how wide columns are; and how a terminal paints. */
static void
simplify(char *text)
{
	char *from = text, *to = text;

	while (*from != '\0') {
		if (*from == '\033') {
			from += strcspn(from, "mKGhlJ");
			from += *from != '\0';
		} else if (isdigit((unsigned char)*from)) {
			from += strspn(from, "0123456789.");
			*to++ = '#';
			from += strncmp(from, " ms ", 4) == 0  ? 3
				: strncmp(from, " s ", 3) == 0 ? 2
							       : 0;
		} else if (*from == ' ') {
			*to++ = ' ';
			from += strspn(from, " ");
		} else if (*from == '\r') {
			from++;
		} else {
			*to++ = *from++;
		}
	}
	while (to > text && to[-1] == ' ')
		to--;
	*to = '\0';
}

/* Wait until the shell asks again. */
static void
until_asked(struct program_talk *t)
{
	struct pollfd ready = {.fd = t->fd, .events = POLLIN};
	ssize_t n;

	while (t->len < strlen(PROMPT) || (strcmp(t->seen + t->len - strlen(PROMPT), PROMPT) != 0 &&
					      strcmp(t->seen + t->len - strlen(MORE), MORE) != 0)) {
		if (poll(&ready, 1, WAIT_MS) != 1)
			fail_msg("no prompt behind: %s", t->seen);
		n = read(t->fd, t->seen + t->len, sizeof(t->seen) - t->len - 1);
		if (n <= 0)
			fail_msg("the shell ended behind: %s", t->seen);
		t->len += (size_t)n;
		t->seen[t->len] = '\0';
	}
}

/* A line of the transcript is in what was shown; what is before it, and it, are taken off. */
static void
find_line(struct program_talk *t, char *line)
{
	char *found, *cut = strstr(line, "…");

	/* Where exactly a text is cut depends on the widths of numbers. */
	if (cut != NULL && cut - line > 8 && strstr(line, "──→") == NULL)
		cut[-8] = '\0';
	simplify(t->seen);
	simplify(line);
	if ((found = strstr(t->seen, line)) == NULL)
		fail_msg("the tour says: %s\nbut there was: %s", line, t->seen);
	found += strlen(line);
	memmove(t->seen, found, strlen(found) + 1);
}

static void
type_line(struct program_talk *t, const char *line)
{
	t->len = 0;
	t->seen[0] = '\0';
	program_type(t, line);
	program_type(t, "\n");
}

static void
tour(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;
	char line[512];
	int typed = 0;
	FILE *f;

	if ((f = fopen(README, "re")) == NULL)
		fail_msg("the suites run from the top of the repository");
	while (fgets(line, sizeof(line), f) != NULL && strcmp(line, TITLE) != 0)
		;
	while (fgets(line, sizeof(line), f) != NULL && strcmp(line, "    $ bastion sql\n") != 0)
		;
	setenv("PAGER", "", 1);
	program_talk(&t, s, (const char *const[]){"sql", NULL});
	unsetenv("PAGER");
	t.seen[0] = '\0';
	until_asked(&t);
	while (transcript_line(f, line, sizeof(line))) {
		if (strcmp(line, PROMPT ".quit") == 0)
			break;
		if (strncmp(line, PROMPT, strlen(PROMPT)) == 0 ||
		    strncmp(line, MORE, strlen(MORE)) == 0) {
			type_line(&t, line + strlen(PROMPT));
			until_asked(&t);
			typed++;
		} else {
			find_line(&t, line);
		}
	}
	fclose(f);
	assert_in_range(typed, 15, 100);
	program_type(&t, ".quit\n");
	program_ends(&t, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(tour, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
