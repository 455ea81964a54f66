/* test_table.c: rows as tables that fit, and as JSON and CSV that read back as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shell/table.h"
#include "shell/text.h"

static sqlite3 *db;
static char *made;
static size_t made_len;

static const char HARD[] =
    "SELECT 1 AS id, 'plain' AS t, NULL AS n, 1.5 AS r, x'00ff' AS b, 1800000000123 AS made_at,"
    " '[1, {\"a\": null}]' AS args"
    " UNION ALL SELECT -9223372036854775808, 'say \"hi\", ' || char(13, 10, 9) || 'café', NULL,"
    " -0.1, x'', 0, '[]'"
    " UNION ALL SELECT 9223372036854775807, '', NULL, 1e300, x'22', NULL, 'not json'";

/* Show the rows of ${sql}; return how many there were. */
static int64_t
show(const char *sql, const struct table_style *style)
{
	sqlite3_stmt *q;
	struct table *t;
	int64_t rows;
	FILE *f;

	free(made);
	made = NULL;
	assert_non_null(f = open_memstream(&made, &made_len));
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
	assert_non_null(t = table_begin(f, q, style));
	while (sqlite3_step(q) == SQLITE_ROW)
		assert_int_equal(table_row(t), 0);
	sqlite3_finalize(q); /* the statement may go before the table does */
	rows = table_end(t);
	assert_int_equal(fclose(f), 0);
	return rows;
}

static void
shows(const char *sql, const struct table_style *style, const char *as)
{
	show(sql, style);
	assert_string_equal(made, as);
}

static const struct table_style PLAIN = {.mode = CLI_TABLE, .null = ""};
static const struct table_style JSON = {.mode = CLI_JSON, .null = ""};
static const struct table_style CSV = {.mode = CLI_CSV, .null = ""};

static void
tables_align(void **state)
{
	(void)state;
	shows("SELECT 'a' AS name, 5 AS n UNION ALL SELECT 'longer', 1234", &PLAIN,
	    "name       n\na          5\nlonger  1234\n");
	shows("SELECT 1800000000123 AS at, NULL AS gone_at, 'x' AS t", &PLAIN,
	    "at                   gone_at  t\n2027-01-15 08:00:00           x\n");
	shows("SELECT char(27) || '[2J' AS t, '漢字' AS w, 'e' AS e", &PLAIN,
	    "t        w     e\n\\x1b[2J  漢字  e\n");
}

static void
boxes_have_lines(void **state)
{
	const struct table_style box = {.mode = CLI_BOX, .null = "NULL"};

	(void)state;
	shows("SELECT 'a' AS name, NULL AS n", &box,
	    "┌──────┬──────┐\n│ name │ n    │\n├──────┼──────┤\n│ a    │ NULL │\n"
	    "└──────┴──────┘\n");
}

static void
lines_fit(int width)
{
	char *line, *end;

	for (line = made; *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		assert_in_range(text_width(line, (size_t)(end - line)), 0, width);
	}
}

/* On every width there is, in both kinds of table, no line is ever wrapped. */
static void
tables_fit_every_width(void **state)
{
	static const char sql[] =
	    "SELECT 12345 AS id, 'a text that is rather long, as texts are' AS one, 'short' AS two,"
	    " 1800000000123 AS made_at, 'another one that has to give way' AS three";
	struct table_style style = {.null = ""};
	int width;

	(void)state;
	for (width = 5; width < 140; width++) {
		style.width = width;
		style.mode = CLI_TABLE;
		show(sql, &style);
		lines_fit(width);
		style.mode = CLI_BOX;
		show(sql, &style);
		lines_fit(width);
	}
}

/* Columns are not left out in silence. */
static void
a_loss_is_said(void **state)
{
	struct table_style style = {.mode = CLI_TABLE, .width = 11, .null = "", .hint = "see line"};

	(void)state;
	shows("SELECT 'aaaaaa' AS a, 'bbbbbb' AS b, 'cccccc' AS c, 'dddddd' AS d, 'eeeeee' AS e",
	    &style, "a  b  c  d\n…  …  …  …\n… columns …\nsee line\n");
	style.width = 40;
	shows("SELECT 'aaaaaa' AS a, 'bbbbbb' AS b", &style, "a       b\naaaaaa  bbbbbb\n");
}

static const char GRANTS[] =
    "SELECT 1 AS id, 'laptop' AS host, 'conduct:restart' AS op, '[\"nginx.service\"]' AS args, NULL AS bounds,"
    " '' AS note, 2 AS uses, 1800000000123 AS made_at, NULL AS ended_at UNION ALL"
    " SELECT 2, 'laptop', 'observe:folders', '[\"/usr/share/doc\",\"2\"]', NULL, '', 1, 1800000001123, NULL";

/* What a verb lists: empty columns go first, then sentences and JSON are cut; names are not, and
 * what has no room is read downwards, whole.  Without a terminal nothing is left out. */
static void
lists_can_be_read(void **state)
{
	struct table_style style;

	(void)state;
	table_list(CLI_TABLE, &style);
	style.colour = false;
	style.width = 73;
	shows(GRANTS, &style,
	    "id  host    op               args               uses  made_at\n"
	    " 1  laptop  conduct:restart  [\"nginx.service\"]     2  2027-01-15 08:00:00\n"
	    " 2  laptop  observe:folders  [\"/usr/share/doc…     1  2027-01-15 08:00:01\n"
	    "all of it: --json, or a wider terminal\n");
	style.width = 40;
	shows(GRANTS, &style,
	    "     id = 1\n   host = laptop\n     op = conduct:restart\n"
	    "   args = [\"nginx.service\"]\n   uses = 2\nmade_at = 2027-01-15 08:00:00\n\n"
	    "     id = 2\n   host = laptop\n     op = observe:folders\n"
	    "   args = [\"/usr/share/doc\",\"2\"]\n   uses = 1\nmade_at = 2027-01-15 08:00:01\n"
	    "all of it: --json, or a wider terminal\n");
	style.width = 150;
	show(GRANTS, &style);
	assert_non_null(strstr(made, "bounds"));
	assert_null(strstr(made, "all of it"));
	style.width = 0;
	show(GRANTS, &style);
	assert_non_null(strstr(made, "  note  "));
	/* A box was asked for: it stays one. */
	style.width = 40;
	style.mode = CLI_BOX;
	show(GRANTS, &style);
	lines_fit(40);
	assert_non_null(strstr(made, "└"));
	assert_non_null(strstr(made, "all of it"));
	assert_null(strstr(made, "note"));
}

/* Of rows that come in blocks nobody knows yet which columns stay empty. */
static void
a_late_value_is_shown(void **state)
{
	static const char sql[] =
	    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 6000)"
	    " SELECT x, 'a text that is rather long, as texts are' AS t, iif(x = 6000, 'late', '') AS why"
	    "  FROM c";
	struct table_style style;

	(void)state;
	table_list(CLI_TABLE, &style);
	style.width = 40;
	assert_int_equal(show(sql, &style), 6000);
	assert_non_null(strstr(made, "la…"));
	lines_fit(40);
}

/* Numbers and times stay whole as long as there are texts that can give way. */
static void
numbers_are_not_cut(void **state)
{
	struct table_style style = {.mode = CLI_TABLE, .width = 50, .null = ""};

	(void)state;
	shows("SELECT 1234567890123 AS n, 1800000000123 AS made_at,"
	      " 'a text that is rather long' AS t",
	    &style,
	    "            n  made_at              t\n"
	    "1234567890123  2027-01-15 08:00:00  a text that i…\n");
}

static void
no_rows(void **state)
{
	struct table_style style = PLAIN;

	(void)state;
	shows("SELECT 1 AS a WHERE 0", &style, "a\n");
	style.quiet = true;
	shows("SELECT 1 AS a WHERE 0", &style, "");
	shows("SELECT 1 AS a WHERE 0", &JSON, "[]\n");
	shows("SELECT 1 AS a WHERE 0", &CSV, "a\r\n");
}

/* Many rows are shown in blocks, so that memory does not grow with them; none is lost. */
static void
many_rows_are_all_shown(void **state)
{
	static const char sql[] = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c"
				  " WHERE x < 12345) SELECT x, 'row ' || x AS t FROM c";
	char *at;
	int i, n;

	(void)state;
	assert_int_equal(show(sql, &PLAIN), 12345);
	at = strchr(made, '\n') + 1;
	for (i = 1; i <= 12345; i++) {
		assert_int_equal(strtol(at, &at, 10), i);
		assert_int_equal(sscanf(at, " row %d\n", &n), 1);
		assert_int_equal(n, i);
		at = strchr(at, '\n') + 1;
	}
	assert_string_equal(at, "");
}

static void
same_in_json(const char *path, const char *expression)
{
	sqlite3_stmt *q;
	char sql[512];

	snprintf(sql, sizeof(sql), "SELECT (?1 ->> '%s') IS (%s)", path, expression);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
	sqlite3_bind_text(q, 1, made, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(q), SQLITE_ROW);
	if (sqlite3_column_int(q, 0) != 1)
		fail_msg("%s is not %s in %s", path, expression, made);
	sqlite3_finalize(q);
}

/* Read back by SQLite's own JSON: integers to the last digit, NULL, line ends, JSON inside. */
static void
json_reads_back(void **state)
{
	(void)state;
	assert_int_equal(show(HARD, &JSON), 3);
	same_in_json("$[0].id", "1");
	same_in_json("$[1].id", "-9223372036854775808");
	same_in_json("$[2].id", "9223372036854775807");
	same_in_json("$[1].t", "'say \"hi\", ' || char(13, 10, 9) || 'café'");
	same_in_json("$[2].t", "''");
	same_in_json("$[0].n", "NULL");
	same_in_json("$[0].r", "1.5");
	same_in_json("$[0].b", "'00ff'");
	same_in_json("$[0].made_at", "'2027-01-15T08:00:00.123Z'");
	same_in_json("$[2].made_at", "NULL");
	same_in_json("$[0].args[1]", "'{\"a\":null}'");
	same_in_json("$[2].args", "'not json'");
}

/* bastion sql keeps what is stored. */
static void
raw_times_stay_numbers(void **state)
{
	struct table_style style = JSON;

	(void)state;
	style.raw = true;
	shows("SELECT 1800000000123 AS made_at", &style, "[{\"made_at\":1800000000123}]\n");
}

/* A query that failed half-way leaves JSON that no parser takes for the whole. */
static void
dropped_json_is_no_json(void **state)
{
	sqlite3_stmt *q;
	struct table *t;
	FILE *f;

	(void)state;
	free(made);
	assert_non_null(f = open_memstream(&made, &made_len));
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT 1 AS a", -1, &q, NULL), SQLITE_OK);
	assert_non_null(t = table_begin(f, q, &JSON));
	assert_int_equal(sqlite3_step(q), SQLITE_ROW);
	assert_int_equal(table_row(t), 0);
	table_drop(t);
	sqlite3_finalize(q);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(made, "[{\"a\":1}");
}

static const char READS_CSV[] =
    "import csv, sys\n"
    "rows = list(csv.reader(open(sys.argv[1], newline='', encoding='utf-8')))\n"
    "assert rows[0] == ['id', 't', 'n', 'r', 'b', 'made_at', 'args'], rows[0]\n"
    "assert rows[1] == ['1', 'plain', '', '1.5', '00ff', '2027-01-15T08:00:00.123Z',\n"
    "                   '[1, {\"a\": null}]'], rows[1]\n"
    "assert rows[2][1] == 'say \"hi\", \\r\\n\\tcaf\\u00e9', rows[2]\n"
    "assert rows[3][0] == '9223372036854775807' and rows[3][1] == '', rows[3]\n"
    "assert len(rows) == 4\n";

/* RFC 4180, read back by a parser that is not ours. */
static void
csv_reads_back(void **state)
{
	char dir[] = "/tmp/bastion-test-XXXXXX", command[256];
	FILE *f;

	(void)state;
	if (system("python3 -c 'import csv' >/dev/null 2>&1") != 0) {
		print_message("skipped: there is no python3 to read CSV with\n");
		skip();
	}
	assert_non_null(mkdtemp(dir));
	assert_int_equal(show(HARD, &CSV), 3);
	snprintf(command, sizeof(command), "%s/rows.csv", dir);
	assert_non_null(f = fopen(command, "we"));
	assert_int_equal(fwrite(made, 1, made_len, f), made_len);
	assert_int_equal(fclose(f), 0);
	snprintf(command, sizeof(command), "%s/read.py", dir);
	assert_non_null(f = fopen(command, "we"));
	fputs(READS_CSV, f);
	assert_int_equal(fclose(f), 0);
	snprintf(command, sizeof(command), "python3 %s/read.py %s/rows.csv", dir, dir);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

/* CSV keeps bytes for programs, but not for a terminal. */
static void
csv_on_a_terminal_is_safe(void **state)
{
	struct table_style style = CSV;

	(void)state;
	shows("SELECT char(27) AS t", &style, "t\r\n\033\r\n");
	style.shown = true;
	shows("SELECT char(27) AS t", &style, "t\r\n\\x1b\r\n");
}

/* Each new mode, on rows that are hard. */
static void
other_modes_show_all(void **state)
{
	struct table_style style = {.mode = CLI_LINE, .null = "NULL"};

	(void)state;
	shows(
	    "SELECT 1 AS id, 'a' || char(10) || 'b' AS text, NULL AS n UNION ALL SELECT 2, '漢', 3.5",
	    &style, "  id = 1\ntext = a\\nb\n   n = NULL\n\n  id = 2\ntext = 漢\n   n = 3.5\n");
	style.mode = CLI_MARKDOWN;
	style.width = 10; /* what is to be pasted is not cut */
	shows("SELECT 1 AS id, 'a|b' || char(10) AS text UNION ALL SELECT 22, 'a long text, whole'",
	    &style,
	    "| id | text               |\n|---:|--------------------|\n"
	    "|  1 | a\\|b\\n             |\n| 22 | a long text, whole |\n");
	style.mode = CLI_JSONL;
	shows("SELECT 1 AS a, x'ff' AS b UNION ALL SELECT NULL, 1e999", &style,
	    "{\"a\":1,\"b\":\"ff\"}\n{\"a\":null,\"b\":9e999}\n");
}

/* SQL literals give the same bytes again, and drive no terminal. */
static void
quoted_rows_read_back(void **state)
{
	static const struct table_style style = {.mode = CLI_QUOTE, .raw = true, .null = ""};
	static const char *const values[] = {"NULL", "-9223372036854775808", "0.1", "9e999",
	    "x'00ff'", "'it''s'", "char(27) || '[2J' || char(8238)", "char(0) || 'x' || char(10)",
	    "'漢字é'", "CAST(x'ff41' AS TEXT)", "''", "'a''||char(7)||''b'"};
	char sql[512], *row;
	sqlite3_stmt *q;
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		snprintf(sql, sizeof(sql), "SELECT %s AS v", values[i]);
		show(sql, &style);
		row = strchr(made, '\n') + 1;
		for (j = 0; row[j] != '\n'; j++)
			assert_false((unsigned char)row[j] < 0x20);
		row[j] = '\0';
		snprintf(sql, sizeof(sql),
		    "SELECT typeof(a) = typeof(b) AND (a IS b) AND hex(a) = hex(b)"
		    " FROM (SELECT (%s) AS a, (%s) AS b)",
		    row, values[i]);
		if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
			fail_msg("%s: %s", sql, sqlite3_errmsg(db));
		assert_int_equal(sqlite3_step(q), SQLITE_ROW);
		if (sqlite3_column_int(q, 0) != 1)
			fail_msg("%s", sql);
		sqlite3_finalize(q);
	}
}

static void
times_as_asked_for(void **state)
{
	struct table_style style = {.mode = CLI_TABLE, .null = ""};
	static const char sql[] = "SELECT 1800000000123 AS at";

	(void)state;
	shows(sql, &style, "at\n2027-01-15 08:00:00\n");
	style.times = TIMES_UTC;
	shows(sql, &style, "at\n2027-01-15T08:00:00.123Z\n");
	style.times = TIMES_RAW;
	shows(sql, &style, "at\n1800000000123\n");
}

/* A NULL is another thing than a text that says so. */
static void
null_is_seen(void **state)
{
	struct table_style style = {.mode = CLI_TABLE, .null = "NULL", .colour = true};

	(void)state;
	shows("SELECT NULL AS a, 'NULL' AS b", &style,
	    "\033[1ma\033[0m     \033[1mb\033[0m\n\033[2mNULL\033[0m  NULL\n");
}

static bool
is_seven(void *ctx, int column, const char *s, size_t len)
{
	return column == *(int *)ctx && len == 1 && *s == '7';
}

static void
marked_cells_are_reversed(void **state)
{
	int column = 1;
	struct table_style style = {
	    .mode = CLI_BOX, .null = "", .mark = is_seven, .mark_ctx = &column};

	(void)state;
	shows("SELECT 7 AS a, 7 AS b", &style,
	    "┌───┬───┐\n│ a │ b │\n├───┼───┤\n│ 7 │ \033[7m7\033[0m │\n└───┴───┘\n");
}

/* Combining marks, wide characters and emoji do not move the lines of a box. */
static void
boxes_stay_straight(void **state)
{
	struct table_style style = {.mode = CLI_BOX, .null = ""};
	char *line, *end;
	int width;

	(void)state;
	show(
	    "SELECT 'cafe' || char(0x301) AS t UNION ALL SELECT '漢字' UNION ALL SELECT '😀😀'"
	    " UNION ALL SELECT '❤' || char(0xfe0f) UNION ALL SELECT 'नमस्ते' UNION ALL SELECT 'plain'",
	    &style);
	width = text_width(made, strcspn(made, "\n"));
	for (line = made; *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		assert_int_equal(text_width(line, (size_t)(end - line)), width);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tables_align),
	    cmocka_unit_test(boxes_have_lines),
	    cmocka_unit_test(tables_fit_every_width),
	    cmocka_unit_test(a_loss_is_said),
	    cmocka_unit_test(lists_can_be_read),
	    cmocka_unit_test(a_late_value_is_shown),
	    cmocka_unit_test(numbers_are_not_cut),
	    cmocka_unit_test(no_rows),
	    cmocka_unit_test(many_rows_are_all_shown),
	    cmocka_unit_test(json_reads_back),
	    cmocka_unit_test(raw_times_stay_numbers),
	    cmocka_unit_test(dropped_json_is_no_json),
	    cmocka_unit_test(csv_reads_back),
	    cmocka_unit_test(csv_on_a_terminal_is_safe),
	    cmocka_unit_test(other_modes_show_all),
	    cmocka_unit_test(quoted_rows_read_back),
	    cmocka_unit_test(times_as_asked_for),
	    cmocka_unit_test(null_is_seen),
	    cmocka_unit_test(marked_cells_are_reversed),
	    cmocka_unit_test(boxes_stay_straight),
	};
	int failed;

	setenv("TZ", "UTC", 1);
	tzset();
	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	sqlite3_close(db);
	free(made);
	return failed;
}
