/* ask.h: ask an op within the test's own process, and look into what it answered. */
#ifndef TESTS_WORKER_ASK_H
#define TESTS_WORKER_ASK_H

#include <sys/mman.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "engine/worker/answer.h"
#include "engine/worker/observe.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASK_MEMORY 0 /* the sanitizer reserves more than any limit */
#else
#define ASK_MEMORY (INT64_C(4) << 30)
#endif

/* What an op wrote, and how it ended. */
struct ask {
	int code;
	char *frames;
	char result[1 << 20];
};

/* Check the words up to NULL. */
static inline int
ask_check(
    const char *op, const char *const *words, struct observe_args *canon, struct refusal *refusal)
{
	struct observe_word list[8];
	int n = 0;

	for (; words[n] != NULL; n++) {
		list[n].text = words[n];
		list[n].len = strlen(words[n]);
	}
	return observe_check(op, n, list, canon, refusal);
}

/* Keep the object behind "r" in the last frame. */
static inline void
ask_result(struct ask *a)
{
	char *r = strstr(a->frames, "{\"r\":");
	size_t len;

	a->result[0] = '\0';
	if (r == NULL)
		return;
	len = strlen(r);
	assert_true(len > 7 && len < sizeof(a->result));
	assert_string_equal(r + len - 2, "}\n");
	memcpy(a->result, r + 5, len - 7);
	a->result[len - 7] = '\0';
}

static inline void
ask_run(struct ask *a, const char *op, const char *const *words,
    const struct observe_limits *limits, const struct observe_env *env)
{
	int fd = memfd_create("answer", MFD_CLOEXEC);
	struct observe_args canon;
	struct refusal refusal;
	struct answer *out;
	struct stat st;

	assert_int_equal(ask_check(op, words, &canon, &refusal), 0);
	assert_non_null(out = answer_new(fd, limits->frame_max));
	a->code = observe_find(op)->run(&canon, limits, env, out);
	answer_free(out);
	assert_int_equal(fstat(fd, &st), 0);
	assert_non_null(a->frames = calloc(1, (size_t)st.st_size + 1));
	assert_int_equal(pread(fd, a->frames, (size_t)st.st_size, 0), st.st_size);
	close(fd);
	ask_result(a);
}

/* Select ${sql} with the result as ?1; the text is the caller's to free. */
static inline char *
ask_sql(const char *json, const char *sql)
{
	sqlite3_stmt *q;
	sqlite3 *db;
	char *text = NULL;

	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
	sqlite3_bind_text(q, 1, json, -1, SQLITE_STATIC);
	if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_text(q, 0) != NULL)
		text = strdup((const char *)sqlite3_column_text(q, 0));
	assert_int_equal(sqlite3_finalize(q), SQLITE_OK);
	sqlite3_close(db);
	return text;
}

static inline void
ask_is(const char *json, const char *sql, const char *want)
{
	char *text = ask_sql(json, sql);

	if (text == NULL || strcmp(text, want) != 0)
		print_error("%s\n gives %s, not %s\n of %s\n", sql, text, want, json);
	assert_non_null(text);
	assert_string_equal(text, want);
	free(text);
}

static inline int64_t
ask_int(const char *json, const char *path)
{
	char sql[256], *text;
	int64_t n;

	snprintf(sql, sizeof(sql), "SELECT json_extract(?1, '%s')", path);
	assert_non_null(text = ask_sql(json, sql));
	n = strtoll(text, NULL, 10);
	free(text);
	return n;
}

/* Write ${text} to a new file ${path}. */
static inline void
ask_write(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, mode), 0);
}

#endif
