/* amendment.h: a person's own SQL: tried, shown, proved, made. */
#ifndef ENGINE_STATE_AMENDMENT_H
#define ENGINE_STATE_AMENDMENT_H

#include <stddef.h>

#include "engine/state/approval.h"
#include "engine/store/store.h"

#define AMENDMENT_DIGEST APPROVAL_DIGEST
#define AMENDMENT_TABLES 128 /* more would be another schema than ours */
#define AMENDMENT_ROWS   8   /* of each table, that are kept to be shown */
#define AMENDMENT_CELLS  36

struct sqlite3_value;

/* A column of a changed row: SQLite's values, NULL where there was or is no row, or it is secret.
 */
struct amendment_cell {
	const char *column;
	struct sqlite3_value *from, *to;
	bool key, changed;
};

struct amendment_row {
	struct amendment_cell cells[AMENDMENT_CELLS];
	size_t count;
};

/* What happened to one table, by the statements and by the rules that followed them. */
struct amendment_table {
	char name[64];
	int64_t inserted, updated, deleted;
	struct amendment_row rows[AMENDMENT_ROWS]; /* updated ones, in the order of the changes */
	size_t shown;
	struct amendment_column {
		char name[64];
		bool key, secret;
	} columns[AMENDMENT_CELLS];
	size_t count;
};

/*
 * What a text of SQL did.  ${digest} is over every row changed, old and new, but for the audit,
 * whose rows are new each time; a time that was the present counts as such, whenever it was.
 */
struct amendment_change {
	struct amendment_table tables[AMENDMENT_TABLES];
	size_t count;
	int64_t rows; /* all but those of the audit */
	unsigned char digest[AMENDMENT_DIGEST];
};

/**
 * amendment_try(db, statement, change):
 * Run the SQL ${statement}, one or more UPDATEs, as ROLE_AMEND, and undo it.  ${db} is open as
 * ROLE_PERSON; the database is held only meanwhile, at most amendment.time_ms.  Return 0 with
 * ${change} filled, to be freed with amendment_free; or -1 with the refusal of ${db}:
 * amendment.refused for what no amendment may do, amendment.nothing where no row changed,
 * amendment.time, amendment.constraint, sql.error, or that of the trigger that holds it, with the
 * trigger's name in its sentence.
 */
int amendment_try(struct store *db, const char *statement, struct amendment_change *change);

/**
 * amendment_ask(db, reason, statement, id):
 * Put the amendment down as pending, with the terms that have to be shown and proved, and store its
 * number in ${*id}.  Return 0, or -1 with the refusal of ${db}: amendment.reason, amendment.text.
 */
int amendment_ask(struct store *db, const char *reason, const char *statement, int64_t *id);

/**
 * amendment_drop(db, id):
 * Give the pending amendment ${id} up.  Return 0, or -1 with the refusal of ${db}:
 * amendment.decided.
 */
int amendment_drop(struct store *db, int64_t id);

/**
 * amendment_make(db, answer, seen, change):
 * Prove the person of ${answer}, whose digest is that of the terms they were shown, run the
 * statement of the amendment answer->id, and commit proof, changes and audit as one.  What it does
 * must have the digest ${seen}.  Return 0; or -1 with the refusal of ${db} and nothing changed but
 * a wrong try: amendment.changed, with ${change} as it would be now and the code still good; what
 * amendment_try refuses; amendment.unknown, amendment.decided, amendment.expired, amendment.terms,
 * amendment.gives, approval.person; those of factor_prove_totp and factor_prove_ssh.
 */
int amendment_make(struct store *db, const struct approval_answer *answer,
    const unsigned char seen[AMENDMENT_DIGEST], struct amendment_change *change);

/**
 * amendment_free(change):
 * Free the values that ${change} holds, and empty it.
 */
void amendment_free(struct amendment_change *change);

#endif
