/* orders.c: orders of a Host, for tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/beat.h"
#include "engine/state/pairing.h"
#include "tests/orders.h"

static const char ANSWER[] = "SELECT json_object('at', 1, 'heard', json_array(), 'directives',"
			     " json_array(json_object('terms', :terms, 'signature', :signature)))";

/* The first column of ${q}. The caller frees it. */
static char *
copy(struct stmt *q)
{
	char *text;

	assert_int_equal(stmt_step(q), 1);
	assert_non_null(text = strdup(stmt_get_text(q, 0)));
	stmt_done(q);
	return text;
}

char *
orders_answer(struct scratch *box, const struct key *key, const char *sql, int n)
{
	unsigned char signature[64];
	char hex[129], box_key[65], *terms, *answer;
	struct stmt *q;

	scratch_open(box, ROLE_LINK);
	sodium_bin2hex(box_key, sizeof(box_key), box->keys.identity, 32);
	assert_non_null(q = store_sql(box->db, sql));
	stmt_int(q, ":n", n);
	stmt_text(q, ":box", box_key);
	terms = copy(q);
	assert_int_equal(
	    key_sign(key, KEY_IDENTITY, ORDER_DOMAIN, terms, strlen(terms), signature), 0);
	sodium_bin2hex(hex, sizeof(hex), signature, sizeof(signature));
	assert_non_null(q = store_sql(box->db, ANSWER));
	stmt_text(q, ":terms", terms);
	stmt_text(q, ":signature", hex);
	answer = copy(q);
	free(terms);
	return answer;
}

int64_t
orders_pair(struct scratch *box, const struct key *key)
{
	unsigned char public[32];
	struct pairing_offer offer = {
	    .host = "host-a", .host_key = public, .peer_uid = 0, .by_uid = 0, .answer = "yes"};
	struct pairing_made made;

	key_public(key, KEY_IDENTITY, public);
	if (pairing_add(scratch_open(box, ROLE_PERSON), &offer, &made) != 0)
		fail_msg("%s", store_refusal(box->db)->why);
	return made.id;
}
