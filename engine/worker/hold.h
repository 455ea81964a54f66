/* hold.h: a program held to the places that were judged: a network of its own with one way out. */
#ifndef ENGINE_WORKER_HOLD_H
#define ENGINE_WORKER_HOLD_H

#include <stdint.h>

#include "engine/address.h"
#include "engine/endpoint.h"
#include "engine/refusal.h"

#define HOLD_PROXY     "http://127.0.0.1:3128" /* in that network; it takes CONNECT alone */
#define HOLD_ADDRESSES 6

/* What was carried; nothing of it is trusted but to be shown. */
struct hold {
	struct hold_told *told;
};

/* One place of a pin. */
struct hold_place {
	uint16_t port;
	int count;
	struct address address[HOLD_ADDRESSES];
};

/**
 * hold_find(pin, target, len, place):
 * Look for the place HOST:PORT that the ${len} bytes ${target} name in ${pin}, which is one
 * HOST:PORT:ADDRESS,… or many with a space between them, and store where it is in ${*place}.
 * Return 0, or -1 where they name none, or none of these.
 */
int hold_find(const char *pin, const char *target, size_t len, struct hold_place *place);

/**
 * hold_target(head, len, target, targetlen):
 * Find what the ${len} bytes of ${head}, up to its empty line, ask to be connected with (RFC 9110
 * §9.3.6).  Return 0, or -1 where they are no such request.
 */
int hold_target(const char *head, size_t len, const char **target, size_t *targetlen);

/**
 * hold_enter(hold, pin, bytes_max, refusal):
 * Enter a network that has nothing but a proxy, at HOLD_PROXY, to the places of ${pin}, by the
 * addresses of it; at most ${bytes_max} bytes come in.  This holds for the process and all that it
 * starts from now on, and the proxy ends with it.  Call with one thread alone, with the right to
 * make networks.  Return 0, or -1 with act.tool.
 */
int hold_enter(struct hold *hold, const char *pin, int64_t bytes_max, struct refusal *refusal);

/**
 * hold_strayed(hold, target):
 * Whether something was asked for that is none of the places; the first of it in ${target}.
 */
int hold_strayed(const struct hold *hold, char target[ENDPOINT_TEXT_MAX + 1]);

/**
 * hold_over(hold):
 * Whether more wanted to come in than may.
 */
int hold_over(const struct hold *hold);

#endif
