/* order.h: a person at a Host orders something of a box: signed, kept, sent with its beats. */
#ifndef ENGINE_STATE_ORDER_H
#define ENGINE_STATE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/store/store.h"

/* A process of the box that is to be stopped, with everything beneath it that the box spares not.
 */
struct order_process {
	int64_t pid;
	const char
	    *exe;   /* the program that it has to be, as the kernel names it there; NULL: any */
	bool agent; /* stop it also where a person at the box listed it */
};

/**
 * order_rotate(db, box, endpoints, n, ttl_ms, id):
 * Order the box named ${box} to reach this Host at the ${n} ${endpoints} from now on, in
 * ROLE_PERSON; store the number of the order in ${*id}.  It waits for ${ttl_ms} (0: the setting
 * order.ttl_ms). Return 0, or -1 with the refusal of ${db} and nothing written: box.gone,
 * order.endpoint, endpoint.many, order.busy, order.ttl.
 */
int order_rotate(struct store *db, const char *box, const char *const *endpoints, size_t n,
    int64_t ttl_ms, int64_t *id);

/**
 * order_contain(db, box, process, ttl_ms, id):
 * As order_rotate: order ${box} to stop ${process}.  Also order.process.
 */
int order_contain(struct store *db, const char *box, const struct order_process *process,
    int64_t ttl_ms, int64_t *id);

/**
 * order_withdraw(db, id):
 * Send the order ${id} no more.  One that was sent may be done all the same.  Return 0, or -1 with
 * the refusal of ${db}: order.unknown, order.decided.
 */
int order_withdraw(struct store *db, int64_t id);

#endif
