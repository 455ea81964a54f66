/* test_lines.c: a stream cut into rows loses no byte and no number, however it comes in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/worker/lines.h"

#define STREAM 400000

/* What was handed out. */
struct seen {
	unsigned char data[STREAM];
	size_t len;
	int64_t rows, lines, last, open; /* open: the line that goes on; 0: none */
	int fails;                       /* refuse that many rows first */
};

static int
row(void *ctx, int64_t line, int64_t lines, bool more, const unsigned char *data, size_t len)
{
	struct seen *s = ctx;
	const unsigned char *nl = len == 0 ? NULL : memchr(data, '\n', len);

	if (s->fails > 0) {
		s->fails--;
		return -1;
	}
	assert_true(len <= LINES_ROW);
	assert_int_equal(line, s->open != 0 ? s->open : s->last + 1);
	if (more) /* a piece is of one line alone */
		assert_null(nl);
	if (s->open != 0 && nl != NULL)
		assert_ptr_equal(nl, data + len - 1);
	assert_int_equal(lines == 0, more);
	memcpy(s->data + s->len, data, len);
	s->len += len;
	s->lines += lines;
	s->last = more ? line : line + lines - 1;
	s->open = more ? line : 0;
	s->rows++;
	return 0;
}

/* LA-03, LA-04, LA-05, LA-10, RF-14: any bytes, in any portions, shown early or not. */
static void
nothing_is_lost(void **state)
{
	static unsigned char stream[STREAM];
	static struct seen s;
	unsigned seed;
	size_t i, at, n;
	int64_t ends;

	(void)state;
	for (seed = 1; seed <= 60; seed++) {
		struct lines l = {.buf = NULL};
		struct lines_mark mark;
		unsigned r = seed, often = seed % 5 == 0 ? 100000 : seed % 7 * 40 + 2;
		int64_t next = 1;

		for (i = 0, ends = 0; i < STREAM; i++) {
			stream[i] = rand_r(&r) % often == 0 ? '\n' : (unsigned char)rand_r(&r);
			ends += stream[i] == '\n';
		}
		memset(&s, 0, sizeof(s));
		for (at = 0; at < STREAM; at += n) {
			n = (size_t)rand_r(&r) % 70000 + 1;
			n = n < STREAM - at ? n : STREAM - at;
			memcpy(lines_room(&l, n), stream + at, n);
			lines_add(&l, n);
			s.fails = rand_r(&r) % 4 == 0;
			if (lines_take(&l, next, rand_r(&r) % 2 == 0, false, &mark, row, &s) == 0) {
				lines_done(&l, &mark);
				next = mark.next;
			}
			assert_int_equal(s.fails, 0);
		}
		assert_int_equal(lines_take(&l, next, false, true, &mark, row, &s), 0);
		lines_done(&l, &mark);
		assert_int_equal(l.used, 0);
		assert_int_equal(s.len, STREAM);
		assert_memory_equal(s.data, stream, STREAM);
		assert_int_equal(s.open, 0);
		assert_int_equal(s.lines, ends + (stream[STREAM - 1] != '\n'));
		assert_int_equal(s.last, s.lines);
		lines_free(&l);
	}
}

/* A prompt is shown before its line has an end, and its line stays one line. */
static void
a_prompt_is_shown(void **state)
{
	struct lines l = {.buf = NULL};
	static struct seen s;
	struct lines_mark mark;

	(void)state;
	memset(&s, 0, sizeof(s));
	memcpy(lines_room(&l, 8), "one\nname", 8);
	lines_add(&l, 8);
	assert_int_equal(lines_take(&l, 1, false, false, &mark, row, &s), 0);
	lines_done(&l, &mark);
	assert_int_equal(s.len, 4);
	assert_int_equal(lines_take(&l, mark.next, true, false, &mark, row, &s), 0);
	lines_done(&l, &mark);
	assert_int_equal(s.len, 8);
	assert_int_equal(s.open, 2);
	memcpy(lines_room(&l, 9), "? \nthree\n", 9);
	lines_add(&l, 9);
	assert_int_equal(lines_take(&l, mark.next, false, false, &mark, row, &s), 0);
	lines_done(&l, &mark);
	assert_int_equal(s.lines, 3);
	assert_int_equal(s.rows, 4);
	/* All of the last line was shown: it ends with an empty row. */
	memcpy(lines_room(&l, 3), "end", 3);
	lines_add(&l, 3);
	assert_int_equal(lines_take(&l, mark.next, true, false, &mark, row, &s), 0);
	lines_done(&l, &mark);
	assert_int_equal(lines_take(&l, mark.next, false, true, &mark, row, &s), 0);
	assert_int_equal(s.lines, 4);
	lines_free(&l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_lost),
	    cmocka_unit_test(a_prompt_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
