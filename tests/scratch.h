/* scratch.h: a directory of its own for each test, and a bastion's state in it. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "engine/store/store.h"

struct scratch {
	char dir[64];
	struct home home;
	struct store_keys keys;
	struct key *key;
	char error[256];  /* SQLite's words where scratch_sql failed */
	struct store *db; /* the connection of the test itself, in the role it asked for */
};

/**
 * scratch_database(home):
 * Put a new database of this build's version into ${home}.  Its steps take most of a second, so a
 * process takes them once and copies what they made.
 */
void scratch_database(const struct home *home);

/**
 * scratch_make(s, home_role):
 * Make a directory below /tmp with state/ and run/ in it, a key, a database of this build's version
 * and the row of the box ("box-a", or "host-a" for a Host).  Fails the test where that does not
 * work.
 */
void scratch_make(struct scratch *s, enum home_role home_role);

/**
 * scratch_open(s, role):
 * Open (again) s->db in ${role}, with the keys, acting as "test:scratch".  Return it.
 */
struct store *scratch_open(struct scratch *s, enum store_role role);

/**
 * scratch_sql(s, sql):
 * Run ${sql} on a connection without a role, in a transaction of its own.  Return 0, or -1 with
 * s->error.
 */
int scratch_sql(struct scratch *s, const char *sql);

/**
 * scratch_refused(s, code, sql):
 * Assert that ${sql} is refused with ${code} and that nothing changed.
 */
void scratch_refused(struct scratch *s, const char *code, const char *sql);

/**
 * scratch_value(s, sql), scratch_text(s, sql, out, size):
 * The first column of the first row of ${sql}; -1 and "" without one.
 */
int64_t scratch_value(struct scratch *s, const char *sql);
const char *scratch_text(struct scratch *s, const char *sql, char *out, size_t size);

/**
 * scratch_pair(s), scratch_grant(s, op, args, uses, ttl_ms):
 * Rows of a first day: a Host "laptop" with an active pairing (id 1) and a TOTP factor (id 1); a
 * grant on its word.  Return the id.
 */
int64_t scratch_pair(struct scratch *s);
int64_t scratch_grant(
    struct scratch *s, const char *op, const char *args, int uses, int64_t ttl_ms);

/**
 * scratch_check(s):
 * Run tests/invariants.sql over the database as it is, on s->db opened anew without a role; fail
 * the test on any row of it.
 */
void scratch_check(struct scratch *s);

/**
 * scratch_drop(s):
 * Run tests/invariants.sql over the database that the test leaves, fail on any row of it, and
 * remove the directory.
 */
void scratch_drop(struct scratch *s);

/**
 * scratch_endpoint(s, pairing_id, ord, text, len):
 * Store ${text} as an endpoint of the pairing, whatever it is, as a version that took anything did.
 */
void scratch_endpoint(struct scratch *s, int64_t pairing_id, int ord, const char *text, size_t len);

#endif
