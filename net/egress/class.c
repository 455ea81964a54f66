/* class.c: overlapping prefixes in an order become ranges side by side. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "net/egress/class.h"

static const char ROWS[] = "SELECT first, last, class, embed, why FROM address_class ORDER BY prio";

static const char *const names[] = {
    "public", "this_machine", "link", "network", "unreadable", "obsolete"};

#define NAMES    (sizeof(names) / sizeof(names[0]))
#define WHY_SIZE 96

struct row {
	struct address first, last;
	enum class class;
	int embed; /* 0: nothing */
	char why[WHY_SIZE];
};

struct range {
	struct address first;
	const struct row *row;
};

struct classes {
	struct row *rows;
	size_t nrows;
	struct range *ranges; /* sorted; each goes to the next */
	size_t nranges;
};

const char *class_name(enum class class)
{
	return names[class];
}

static int
name_class(const char *name, enum class *class)
{
	size_t i;

	for (i = 0; i < NAMES; i++)
		if (strcmp(names[i], name) == 0) {
			*class = (enum class)i;
			return 0;
		}
	return -1;
}

static int
row_take(struct stmt *q, struct row *row)
{
	const void *first = stmt_get_blob(q, 0, 16), *last = stmt_get_blob(q, 1, 16);

	memset(row, 0, sizeof(*row));
	if (first == NULL || last == NULL)
		return -1;
	memcpy(row->first.b, first, 16);
	memcpy(row->last.b, last, 16);
	row->embed = (int)stmt_get_int(q, 3);
	if (stmt_is_null(q, 2) ? row->embed == 0
			       : name_class(stmt_get_text(q, 2), &row->class) != 0)
		return -1;
	strncpy(row->why, stmt_get_text(q, 4), sizeof(row->why) - 1);
	return 0;
}

static int
rows_read(struct classes *c, struct store *db)
{
	struct row *grown;
	struct stmt *q;
	int more;

	if ((q = store_sql(db, ROWS)) == NULL)
		return -1;
	while ((more = stmt_step(q)) == 1) {
		if ((grown = reallocarray(c->rows, c->nrows + 1, sizeof(*grown))) == NULL ||
		    row_take(q, &(c->rows = grown)[c->nrows]) != 0) {
			stmt_done(q);
			return refusal_set(
			    store_refusal(db), "store.corrupt", "a row of address_class is bad");
		}
		c->nrows++;
	}
	return more;
}

/* The address behind ${a}.  Return -1 where there is none. */
static int
after(struct address *a)
{
	int i;

	for (i = 15; i >= 0; i--)
		if (++a->b[i] != 0)
			return 0;
	return -1;
}

static int
by_first(const void *one, const void *two)
{
	return memcmp(one, two, sizeof(struct address));
}

/* The row that decides about ${a}: the first that has it. */
static const struct row *
row_of(const struct classes *c, const struct address *a)
{
	size_t i;

	for (i = 0; i < c->nrows; i++)
		if (memcmp(a, &c->rows[i].first, 16) >= 0 && memcmp(a, &c->rows[i].last, 16) <= 0)
			return &c->rows[i];
	return NULL;
}

/* A range begins where a row begins, and behind each row. */
static int
compile(struct classes *c)
{
	size_t i, n = 0, kept = 0;

	if ((c->ranges = calloc(c->nrows * 2 + 1, sizeof(*c->ranges))) == NULL)
		return -1;
	n++; /* of the lowest address, all zeros */
	for (i = 0; i < c->nrows; i++) {
		c->ranges[n++].first = c->rows[i].first;
		c->ranges[n].first = c->rows[i].last;
		n += after(&c->ranges[n].first) == 0;
	}
	qsort(c->ranges, n, sizeof(*c->ranges), by_first);
	for (i = 0; i < n; i++) {
		const struct row *row = row_of(c, &c->ranges[i].first);

		if (kept > 0 && (c->ranges[kept - 1].row == row ||
				    by_first(&c->ranges[kept - 1], &c->ranges[i]) == 0))
			continue;
		c->ranges[kept].first = c->ranges[i].first;
		c->ranges[kept++].row = row;
	}
	c->nranges = kept;
	return 0;
}

struct classes *
class_load(struct store *db, struct refusal *r)
{
	struct classes *c;

	if ((c = calloc(1, sizeof(*c))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	if (rows_read(c, db) != 0)
		*r = *store_refusal(db);
	else if (compile(c) != 0)
		refusal_set(r, "store.failed", "out of memory");
	else
		return c;
	class_free(c);
	return NULL;
}

void
class_free(struct classes *c)
{
	if (c == NULL)
		return;
	free(c->rows);
	free(c->ranges);
	free(c);
}

static const struct row *
range_find(const struct classes *c, const struct address *a)
{
	size_t low = 0, high = c->nranges;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(a, &c->ranges[middle].first, 16) >= 0)
			low = middle;
		else
			high = middle;
	}
	return c->ranges[low].row;
}

struct class_found
class_of(const struct classes *c, const struct address *a)
{
	struct class_found none = {CLASS_UNREADABLE, "in no row of address_class"};
	struct address inner = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}};
	const struct row *row = range_find(c, a);

	if (row != NULL && row->embed != 0) {
		memcpy(inner.b + 12, a->b + row->embed, 4);
		row = range_find(c, &inner);
	}
	if (row == NULL || row->embed != 0)
		return none;
	return (struct class_found){row->class, row->why};
}
