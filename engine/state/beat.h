/* beat.h: what a box says of itself to its Host, what the Host orders in answer. Who carries it
 * does not matter. */
#ifndef ENGINE_STATE_BEAT_H
#define ENGINE_STATE_BEAT_H

#include <stddef.h>
#include <stdint.h>

#include "engine/store/store.h"

/*
 * box  -> Host: a beat, {"name","version","platform","state","caps","enforcing",
 *     "endpoint_save_pending","orders":[{"order","kind","state","result"}…]}
 * Host -> box: its answer, {"at":ms UTC,"heard":[order…],"directives":[{"terms":text,"signature":
 *     hex}…]}
 *
 * Each text passes the JSON gate (net/http/json.h) before it comes here.  A directive is the exact
 * text that the Host signed (ORDER_DOMAIN, schema/order.sql), so it may come by any way, late or
 * twice: the box does it once.
 */
#define ORDER_DOMAIN "bastion-order-1" /* of key_sign, by the Host's KEY_IDENTITY */

/**
 * beat_make(db, pairing_id, body):
 * On a box, in any role: store the text of its beat for the Host of ${pairing_id} in ${*body},
 * which the caller frees.  It tells of no other pairing.  Return 0, or -1 with the refusal of
 * ${db}: pairing.inactive, pairing.invalid.
 */
int beat_make(struct store *db, int64_t pairing_id, char **body);

/**
 * beat_take(db, box_id, beat, len, answer):
 * On a Host, in ROLE_NET or ROLE_LINK, a step of the caller's transaction: check the beat of the
 * box
 * ${box_id} and keep it in place of its last one, take the results of orders, and store the answer
 * in
 * ${*answer}, which the caller frees.  The orders in it count as sent; those that the box does not
 * answer are sent again with each beat until they run out.  Return 0, or -1 with the refusal of
 * ${db}: beat.form, beat.size, box.gone, box.unknown.
 */
int beat_take(struct store *db, int64_t box_id, const char *beat, size_t len, char **answer);

/* What an answer brought. */
struct directive_taken {
	int taken;   /* directives that are new here */
	int again;   /* those that were taken before: nothing is done */
	int refused; /* those that hold nothing; each has its row in refused */
	int results; /* that the Host is still to hear of, where some are new: then beat again at
			once */
};

/**
 * directive_take(db, pairing_id, answer, len, taken):
 * On a box, in ROLE_LINK, as a transaction of its own: take what the Host of ${pairing_id} answered
 * to a beat.  A directive that is refused holds up no other.  Return 0 with ${taken} filled, or -1
 * with the refusal of ${db} and nothing changed: directive.form, directive.size, pairing.inactive,
 * pairing.invalid.
 */
int directive_take(struct store *db, int64_t pairing_id, const char *answer, size_t len,
    struct directive_taken *taken);

/**
 * endpoint_reached(db, pairing_id, endpoint):
 * On a box, in ROLE_LINK or ROLE_NET, as a transaction of its own, and only where there is
 * something to write: a connection to ${endpoint} (as the view pairing_dial spells it) stands, with
 * the Host of
 * ${pairing_id} proven at its other end.  Where it is of the set that the Host ordered last, that
 * set takes the place of the old one.  Return 1 where it did, 0 where nothing changed, -1 on
 * failure.
 */
int endpoint_reached(struct store *db, int64_t pairing_id, const char *endpoint);

/*
 * Views for whoever dials (schema/order.sql):
 *   pairing_dial (pairing_id, ord, endpoint, fresh)   in the order to try; fresh: ordered, not yet
 *                                                     reached; the old ones come behind them
 * A result puts a row into beat_request, as a change of a pairing does.
 */

#endif
