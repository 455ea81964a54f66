/* orders.h: for tests: what a Host orders of a box, as any program with its key could sign it. */
#ifndef TESTS_ORDERS_H
#define TESTS_ORDERS_H

#include "engine/crypto/key.h"
#include "tests/scratch.h"

/* Terms of the Host "host-a" as SQL makes them of :n, a number for the order, and :box, the box's
 * key. */
#define ORDERS_TERMS(kind, more)                                                                                             \
	"SELECT json_object('kind', '" kind "', 'host', 'host-a', 'box_key', :box, 'order',"                                 \
	" substr('00000000000000000000000000000000' || :n, -32), 'issued_at', now_ms(), 'expires_at', now_ms() + 60000" more \
	")"

/**
 * orders_answer(box, key, sql, n):
 * The answer to a beat of ${box} with one directive: what ${sql} makes of ${n}, signed with ${key}.
 * box->db is open as ROLE_LINK afterwards.  The caller frees it.
 */
char *orders_answer(struct scratch *box, const struct key *key, const char *sql, int n);

/**
 * orders_pair(box, key):
 * Pair the Host "host-a" whose key is ${key}; return the pairing's id.
 */
int64_t orders_pair(struct scratch *box, const struct key *key);

#endif
