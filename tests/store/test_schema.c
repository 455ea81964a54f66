/* test_schema.c: migrations give what schema/ says, and the rules there are whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <regex.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/store/embed.h"
#include "engine/store/function.h"
#include "engine/store/migrate.h"
#include "engine/worker/observe.h"
#include "tests/scratch.h"

#define STATES 16

static struct function_context context = {.acting = "test:schema"};

/* A database in memory of all that ${parts} say. */
static sqlite3 *
database(const struct embedded *parts)
{
	sqlite3 *db;

	assert_true(sodium_init() >= 0);
	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	assert_int_equal(function_register(db, &context), 0);
	for (; parts->name != NULL; parts++)
		if (sqlite3_exec(db, parts->text, NULL, NULL, NULL) != SQLITE_OK)
			fail_msg("%s: %s", parts->name, sqlite3_errmsg(db));
	return db;
}

static sqlite3_stmt *
ask(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *q;

	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	return q;
}

static const char *
column(sqlite3_stmt *q, int i)
{
	const unsigned char *text = sqlite3_column_text(q, i);

	return text == NULL ? "" : (const char *)text;
}

static int64_t
number(sqlite3 *db, const char *sql, const char *one, const char *two, const char *three)
{
	sqlite3_stmt *q = ask(db, sql);
	const char *bound[] = {one, two, three};
	int64_t n;
	int i;

	for (i = 0; i < sqlite3_bind_parameter_count(q); i++)
		sqlite3_bind_text(q, i + 1, bound[i], -1, SQLITE_STATIC);
	n = sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : -1;
	sqlite3_finalize(q);
	return n;
}

static void
must(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

/* Without comments, each run of white space as one blank, none before a comma or the end of a list:
 * ALTER TABLE lays text out its own way. */
static void
plain(const char *sql, char *out, size_t size)
{
	size_t n = 0;
	char quote = '\0';

	for (; *sql != '\0' && n + 2 < size; sql++) {
		if (quote == '\0' && sql[0] == '-' && sql[1] == '-') {
			sql += strcspn(sql, "\n") - 1;
			continue;
		}
		if (*sql == '\'' || *sql == '"')
			quote = quote == '\0' ? *sql : quote == *sql ? '\0' : quote;
		if (quote == '\0' && (*sql == ',' || *sql == ')') && n > 0 && out[n - 1] == ' ')
			n--;
		if (quote != '\0' || strchr(" \t\n", *sql) == NULL)
			out[n++] = *sql;
		else if (n > 0 && out[n - 1] != ' ')
			out[n++] = ' ';
	}
	out[n] = '\0';
}

/* DESIGN §4: what the migrations leave is what people read in schema/, object by object. */
static void
migrations_give_the_schema(void **state)
{
	static const char objects[] =
	    "SELECT type || ' ' || name || ' on ' || tbl_name, sql FROM sqlite_schema"
	    " WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name";
	static char left[65536], right[65536];
	sqlite3 *a = database(embedded_migration), *b = database(embedded_schema);
	sqlite3_stmt *qa = ask(a, objects), *qb = ask(b, objects);
	int more, n = 0;

	(void)state;
	while ((more = sqlite3_step(qa)) == SQLITE_ROW) {
		if (sqlite3_step(qb) != SQLITE_ROW)
			fail_msg("only in migrations: %s", column(qa, 0));
		assert_string_equal(column(qa, 0), column(qb, 0));
		plain(column(qa, 1), left, sizeof(left));
		plain(column(qb, 1), right, sizeof(right));
		assert_string_equal(left, right);
		n++;
	}
	assert_int_equal(more, SQLITE_DONE);
	if (sqlite3_step(qb) != SQLITE_DONE)
		fail_msg("only in schema/: %s", column(qb, 0));
	assert_true(n > 100);
	sqlite3_finalize(qa);
	sqlite3_finalize(qb);
	sqlite3_close(a);
	sqlite3_close(b);
}

/* Every row of ${table} of ${a} is one of ${b} and the other way round, value by value. */
static int
rows_equal(sqlite3 *a, sqlite3 *b, const char *table)
{
	char sql[128];
	sqlite3_stmt *qa, *qb;
	int i, n = 0;

	/* The order of a key, or of birth where the key is a number: both are part of the truth. */
	snprintf(sql, sizeof(sql), "SELECT * FROM \"%s\"", table);
	qa = ask(a, sql);
	qb = ask(b, sql);
	assert_int_equal(sqlite3_column_count(qa), sqlite3_column_count(qb));
	while (sqlite3_step(qa) == SQLITE_ROW) {
		if (sqlite3_step(qb) != SQLITE_ROW)
			fail_msg("%s: '%s' is only in migrations", table, column(qa, 0));
		for (i = 0; i < sqlite3_column_count(qa); i++) {
			assert_int_equal(sqlite3_column_type(qa, i), sqlite3_column_type(qb, i));
			assert_string_equal(column(qa, i), column(qb, i));
		}
		n++;
	}
	if (sqlite3_step(qb) != SQLITE_DONE)
		fail_msg("%s: '%s' is only in schema/", table, column(qb, 0));
	sqlite3_finalize(qa);
	sqlite3_finalize(qb);
	return n;
}

/* DESIGN §4: and row by row: settings, refusals, moves, ops. */
static void
migrations_give_the_rows(void **state)
{
	sqlite3 *a = database(embedded_migration), *b = database(embedded_schema);
	sqlite3_stmt *q = ask(a, "SELECT name FROM sqlite_schema WHERE type = 'table'"
				 " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'");
	int filled = 0;

	(void)state;
	while (sqlite3_step(q) == SQLITE_ROW)
		filled += rows_equal(a, b, column(q, 0)) > 0;
	sqlite3_finalize(q);
	assert_true(filled >= 4);
	sqlite3_close(a);
	sqlite3_close(b);
}

/* A new database takes all migrations as one: its objects are the same to the byte, the triggers in
 * the same order, and so are its rows. */
static void
the_beginning_is_all_migrations(void **state)
{
	static const char triggers[] = "SELECT group_concat(name) FROM (SELECT name"
				       " FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid)";
	const struct embedded beginning[] = {embedded_beginning, {NULL, NULL, NULL}};
	sqlite3 *a = database(embedded_migration), *b = database(beginning);
	unsigned char left[32], right[32];
	sqlite3_stmt *qa = ask(a, triggers), *qb = ask(b, triggers);

	(void)state;
	assert_int_equal(migrate_digest(a, left), 0);
	assert_int_equal(migrate_digest(b, right), 0);
	assert_memory_equal(left, right, sizeof(left));
	assert_int_equal(sqlite3_step(qa), SQLITE_ROW);
	assert_int_equal(sqlite3_step(qb), SQLITE_ROW);
	assert_string_equal(column(qa, 0), column(qb, 0));
	sqlite3_finalize(qb);
	sqlite3_finalize(qa);
	qa = ask(a, "SELECT name FROM sqlite_schema WHERE type = 'table'");
	while (sqlite3_step(qa) == SQLITE_ROW)
		rows_equal(a, b, column(qa, 0));
	sqlite3_finalize(qa);
	sqlite3_close(a);
	sqlite3_close(b);
}

/* Every 'code|' behind RAISE in ${text} must be a row. */
static int
raises_known(sqlite3 *db, const char *name, const char *text)
{
	static const char raise[] = "RAISE(ABORT, '";
	char code[REFUSAL_CODE_MAX];
	const char *at;
	size_t len;
	int n = 0;

	for (at = text; (at = strstr(at, "RAISE(")) != NULL; at += len, n++) {
		/* What is over a bound is counted and not kept; nobody is told. */
		if (strncmp(at, "RAISE(IGNORE)", len = 13) == 0)
			continue;
		if (strncmp(at, raise, sizeof(raise) - 1) != 0)
			fail_msg("%s: not an ABORT with a text: %.60s", name, at);
		at += sizeof(raise) - 1;
		len = strcspn(at, "|'");
		if (at[len] != '|' || len >= sizeof(code) || at[len + 1] == '\'')
			fail_msg("%s: not 'code|why': %.60s", name, at);
		snprintf(code, sizeof(code), "%.*s", (int)len, at);
		if (number(db, "SELECT 1 FROM refusal WHERE code = ?", code, NULL, NULL) != 1)
			fail_msg("%s: %s is no row of refusal", name, code);
	}
	return n;
}

static void
every_raise_has_a_row(void **state)
{
	sqlite3 *db = database(embedded_schema);
	const struct embedded *part;
	int n = 0;

	(void)state;
	for (part = embedded_schema; part->name != NULL; part++)
		n += raises_known(db, part->name, part->text);
	assert_true(n > 50);
	sqlite3_close(db);
}

static sqlite3 *codes;
static regex_t given;
static int strays;

/* Codes that C gives, where they stand as a literal beside the call. */
static int
source_known(const char *path, const struct stat *st, int type, struct FTW *where)
{
	static char text[1 << 20];
	const char *at = text;
	char code[REFUSAL_CODE_MAX];
	regmatch_t m[2];
	FILE *f;

	(void)st;
	(void)where;
	if (type != FTW_F || strlen(path) < 2 || strcmp(path + strlen(path) - 2, ".c") != 0)
		return 0;
	assert_non_null(f = fopen(path, "re"));
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	for (; regexec(&given, at, 2, m, 0) == 0; at += m[0].rm_eo) {
		snprintf(
		    code, sizeof(code), "%.*s", (int)(m[1].rm_eo - m[1].rm_so), at + m[1].rm_so);
		if (number(codes, "SELECT 1 FROM refusal WHERE code = ?", code, NULL, NULL) == 1)
			continue;
		print_error("%s gives %s, which is no row of refusal\n", path, code);
		strays++;
	}
	return 0;
}

/* The same for what C refuses: a code without a row has no exit code, no status and no advice. */
static void
every_code_in_c_has_a_row(void **state)
{
	static const char *const rooms[] = {"engine", "net", "shell"};
	size_t i;

	(void)state;
	codes = database(embedded_schema);
	assert_int_equal(
	    regcomp(&given, "refusal_[a-z]*\\([^;\"]*\"([a-z]+[.][a-z_]+)\"", REG_EXTENDED), 0);
	for (i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
		nftw(rooms[i], source_known, 16, FTW_PHYS);
	regfree(&given);
	sqlite3_close(codes);
	assert_int_equal(strays, 0);
}

/* A caller is told what to do, in one line, with an exit code that means something. */
static void
refusals_are_well_formed(void **state)
{
	static const char bad[] =
	    "SELECT code FROM refusal WHERE code NOT GLOB '[a-z]*.[a-z]*'"
	    " OR code GLOB '*[^a-z_.]*' OR code GLOB '*.*.*' OR length(code) > 48"
	    " OR exit_code NOT IN (1, 2, 3, 75, 77, 126)"
	    " OR http_status NOT IN (400, 401, 403, 404, 405, 406, 408, 409, 410, 411, 413, 414, 415, 417,"
	    "                        421, 422, 426, 429, 431, 500, 501, 502, 503, 504, 507)"
	    " OR length(advice) NOT BETWEEN 5 AND 120 OR advice GLOB '*.' OR advice <> trim(advice)"
	    " OR instr(advice, char(10)) OR advice GLOB '[A-Z]*'"
	    " OR (exit_code = 75 AND http_status NOT IN (408, 409, 429, 503, 504))"
	    " OR (exit_code = 126 AND http_status NOT BETWEEN 400 AND 499)"
	    " OR (exit_code = 2 AND http_status NOT BETWEEN 400 AND 499)";
	sqlite3 *db = database(embedded_schema);
	sqlite3_stmt *q = ask(db, bad);

	(void)state;
	while (sqlite3_step(q) == SQLITE_ROW)
		fail_msg("not well-formed: %s", column(q, 0));
	sqlite3_finalize(q);
	sqlite3_close(db);
}

/* Settings: a default inside its bounds (a CHECK holds that), named family.what, with a use. */
static void
settings_are_well_formed(void **state)
{
	sqlite3 *db = database(embedded_schema);
	sqlite3_stmt *q =
	    ask(db, "SELECT name FROM setting WHERE name NOT GLOB '[a-z]*.[a-z]*'"
		    " OR name GLOB '*[^a-z_.]*' OR doc = '' OR doc GLOB '*.' OR low > high"
		    " OR (name GLOB '*_ms') <> (unit = 'ms')");

	(void)state;
	while (sqlite3_step(q) == SQLITE_ROW)
		fail_msg("not well-formed: %s", column(q, 0));
	sqlite3_finalize(q);
	sqlite3_close(db);
}

/* The states that the CHECK of ${entity} lists, in one list or in several. */
static int
states_of(sqlite3 *db, const char *entity, char out[STATES][32])
{
	static const char list[] = "state IN (", more[] = ") OR state IN (";
	sqlite3_stmt *q =
	    ask(db, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?");
	const char *at;
	int n = 0;

	sqlite3_bind_text(q, 1, entity, -1, SQLITE_STATIC);
	if (sqlite3_step(q) != SQLITE_ROW || (at = strstr(column(q, 0), list)) == NULL)
		fail_msg("%s has no CHECK of its states", entity);
	for (at += sizeof(list) - 1; *at != ')'; at += strcspn(at, "',)")) {
		if (*at != '\'') {
			at += strspn(at, ", \n");
			continue;
		}
		assert_true(n < STATES);
		snprintf(out[n++], 32, "%.*s", (int)strcspn(at + 1, "'"), at + 1);
		at += strcspn(at + 1, "'") + 2;
		if (strncmp(at, more, sizeof(more) - 1) == 0)
			at += sizeof(more) - 1;
	}
	sqlite3_finalize(q);
	return n;
}

static bool
among(char states[STATES][32], int n, const char *one)
{
	while (n-- > 0)
		if (strcmp(states[n], one) == 0)
			return true;
	return false;
}

/* A move names states that exist, every state can be reached, every entity can be born. */
static void
moves_name_states(void **state)
{
	sqlite3 *db = database(embedded_schema);
	sqlite3_stmt *q =
	    ask(db, "SELECT entity, from_state, to_state FROM state_rule ORDER BY entity");
	sqlite3_stmt *e = ask(db, "SELECT DISTINCT entity FROM state_rule");
	char states[STATES][32];
	int i, n;

	(void)state;
	while (sqlite3_step(q) == SQLITE_ROW) {
		n = states_of(db, column(q, 0), states);
		if (column(q, 1)[0] != '\0' && !among(states, n, column(q, 1)))
			fail_msg("%s is no state of %s", column(q, 1), column(q, 0));
		if (!among(states, n, column(q, 2)))
			fail_msg("%s is no state of %s", column(q, 2), column(q, 0));
	}
	while (sqlite3_step(e) == SQLITE_ROW) {
		n = states_of(db, column(e, 0), states);
		for (i = 0; i < n; i++)
			if (number(db, "SELECT 1 FROM state_rule WHERE entity = ? AND to_state = ?",
				column(e, 0), states[i], NULL) != 1)
				fail_msg("%s never becomes %s", column(e, 0), states[i]);
		assert_int_equal(number(db,
				     "SELECT 1 FROM state_rule WHERE entity = ? AND"
				     " from_state = ''",
				     column(e, 0), NULL, NULL),
		    1);
	}
	sqlite3_finalize(e);
	sqlite3_finalize(q);
	sqlite3_close(db);
}

/* Every table with a column state has moves, but the box itself. */
static void
every_state_has_moves(void **state)
{
	sqlite3 *db = database(embedded_schema);
	sqlite3_stmt *q = ask(db, "SELECT t.name FROM pragma_table_list AS t"
				  " JOIN pragma_table_xinfo(t.name) AS c ON c.name = 'state'"
				  " WHERE t.type = 'table' AND t.name NOT IN"
				  " (SELECT entity FROM state_rule)");

	(void)state;
	while (sqlite3_step(q) == SQLITE_ROW)
		fail_msg("%s has states and no moves", column(q, 0));
	sqlite3_finalize(q);
	sqlite3_close(db);
}

/* Take the triggers of ${entity} away and keep how to bring them back. */
static char *
triggers_take(sqlite3 *db, const char *entity)
{
	sqlite3_stmt *q = ask(db, "SELECT group_concat(sql, ';'), group_concat('DROP TRIGGER ' ||"
				  " name, ';') FROM sqlite_schema WHERE type = 'trigger' AND"
				  " tbl_name = ?");
	char *back, *drop;

	sqlite3_bind_text(q, 1, entity, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(q), SQLITE_ROW);
	back = strdup(column(q, 0));
	drop = strdup(column(q, 1));
	sqlite3_finalize(q);
	must(db, drop);
	free(drop);
	return back;
}

/* A row of ${entity} in ${in}, past all its rules: only the moves are looked at here. */
static void
row_in(sqlite3 *db, const char *entity, const char *in)
{
	sqlite3_stmt *q = ask(db, "SELECT name, type FROM pragma_table_xinfo(?)"
				  " WHERE hidden = 0 AND pk = 0 AND name <> 'state'");
	char names[2048] = "state", values[2048], sql[8192], *back;
	size_t n = 5, v;

	v = (size_t)snprintf(values, sizeof(values), "'%s'", in);
	sqlite3_bind_text(q, 1, entity, -1, SQLITE_STATIC);
	while (sqlite3_step(q) == SQLITE_ROW) {
		n += (size_t)snprintf(names + n, sizeof(names) - n, ", %s", column(q, 0));
		v += (size_t)snprintf(values + v, sizeof(values) - v, ", %s",
		    strcmp(column(q, 1), "INTEGER") == 0 ? "1"
		    : strcmp(column(q, 1), "TEXT") == 0  ? "'[]'"
							 : "zeroblob(32)");
	}
	sqlite3_finalize(q);
	back = triggers_take(db, entity);
	snprintf(sql, sizeof(sql), "DELETE FROM %s; INSERT INTO %s (%s) VALUES (%s)", entity,
	    entity, names, values);
	must(db, sql);
	must(db, back);
	free(back);
}

/* What moving the one row of ${entity} to ${to} is refused with; "" where it is not refused. */
static const char *
moved(sqlite3 *db, const char *entity, const char *to)
{
	static char why[256];
	char sql[256];

	must(db, "SAVEPOINT move");
	snprintf(sql, sizeof(sql), "UPDATE %s SET state = '%s'", entity, to);
	why[0] = '\0';
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		snprintf(why, sizeof(why), "%s", sqlite3_errmsg(db));
	must(db, "ROLLBACK TO move; RELEASE move");
	return why;
}

static void
entity_moves(sqlite3 *db, const char *entity)
{
	char states[STATES][32], code[64] = "", why[256];
	int n = states_of(db, entity, states), from, to, pass;

	/* First what is not a move, to learn what refuses it; then that no move is refused so. */
	for (pass = 0; pass < 2; pass++)
		for (from = 0; from < n; from++)
			for (to = 0; to < n; to++) {
				if (from == to ||
				    (number(db,
					 "SELECT 1 FROM state_rule WHERE entity = ?"
					 " AND from_state = ? AND to_state = ?",
					 entity, states[from], states[to]) == 1) != (pass == 1))
					continue;
				row_in(db, entity, states[from]);
				snprintf(why, sizeof(why), "%s", moved(db, entity, states[to]));
				if (pass == 0 && strchr(why, '|') == NULL)
					fail_msg("%s goes from %s to %s, which is no move (%s)",
					    entity, states[from], states[to], why);
				if (pass == 0)
					snprintf(code, sizeof(code), "%.*s", (int)strcspn(why, "|"),
					    why);
				else if (code[0] != '\0' && strncmp(why, code, strlen(code)) == 0)
					fail_msg("%s cannot go from %s to %s: %s", entity,
					    states[from], states[to], why);
			}
}

/* DESIGN §1.3: over all pairs of states, a move is possible exactly where there is a row for it. */
static void
only_listed_moves(void **state)
{
	sqlite3 *db = database(embedded_schema);
	sqlite3_stmt *q = ask(db, "SELECT DISTINCT entity FROM state_rule");

	(void)state;
	must(db, "PRAGMA ignore_check_constraints = ON");
	while (sqlite3_step(q) == SQLITE_ROW)
		entity_moves(db, column(q, 0));
	sqlite3_finalize(q);
	sqlite3_close(db);
}

static int
final_row(sqlite3 *db, const char *entity, const char *state)
{
	int changed = 0;
	sqlite3_stmt *q = ask(db, "SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden = 0");
	char sql[512];

	row_in(db, entity, state);
	sqlite3_bind_text(q, 1, entity, -1, SQLITE_STATIC);
	while (sqlite3_step(q) == SQLITE_ROW) {
		must(db, "SAVEPOINT touch");
		snprintf(sql, sizeof(sql), "UPDATE %s SET %s = %s", entity, column(q, 0),
		    strcmp(column(q, 1), "INTEGER") == 0 ? "77"
		    : strcmp(column(q, 1), "TEXT") == 0  ? "'other'"
							 : "x'0707'");
		if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK) {
			print_error("a %s that is %s still changes: %s\n", entity, state, sql);
			changed++;
		}
		must(db, "ROLLBACK TO touch; RELEASE touch");
	}
	sqlite3_finalize(q);
	return changed;
}

/* DESIGN §1.3: nothing about a row in a final state changes any more, column by column. */
static void
final_rows_never_change(void **state)
{
	sqlite3 *db = database(embedded_schema);
	sqlite3_stmt *q = ask(db, "SELECT DISTINCT entity, to_state FROM state_rule AS r WHERE NOT"
				  " EXISTS (SELECT 1 FROM state_rule WHERE entity = r.entity"
				  " AND from_state = r.to_state)");
	int n = 0, changed = 0;

	(void)state;
	must(db, "PRAGMA ignore_check_constraints = ON");
	for (; sqlite3_step(q) == SQLITE_ROW; n++)
		changed += final_row(db, column(q, 0), column(q, 1));
	assert_true(n >= 15);
	assert_int_equal(changed, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
}

/* OBS-14: what can be asked for is what there is a handler for, in the same words. */
static void
op_catalog_is_the_handlers(void **state)
{
	sqlite3 *db = database(embedded_schema);
	sqlite3_stmt *q = ask(db, "SELECT name, usage, summary FROM op"
				  " WHERE class <> 'root' ORDER BY name");
	const struct observe_op *op;
	size_t n = 0;

	(void)state;
	for (; sqlite3_step(q) == SQLITE_ROW; n++) {
		assert_non_null(op = observe_find(column(q, 0)));
		assert_string_equal(op->usage, column(q, 1));
		assert_string_equal(op->summary, column(q, 2));
	}
	assert_non_null(observe_at(n - 1));
	assert_null(observe_at(n));
	sqlite3_finalize(q);
	sqlite3_close(db);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(migrations_give_the_schema),
	    cmocka_unit_test(migrations_give_the_rows),
	    cmocka_unit_test(the_beginning_is_all_migrations),
	    cmocka_unit_test(op_catalog_is_the_handlers),
	    cmocka_unit_test(every_raise_has_a_row),
	    cmocka_unit_test(every_code_in_c_has_a_row),
	    cmocka_unit_test(refusals_are_well_formed),
	    cmocka_unit_test(settings_are_well_formed),
	    cmocka_unit_test(moves_name_states),
	    cmocka_unit_test(every_state_has_moves),
	    cmocka_unit_test(only_listed_moves),
	    cmocka_unit_test(final_rows_never_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
