/* resolve.h: names to addresses, off the loop (c-ares), remembered no longer than they say. */
#ifndef NET_EGRESS_RESOLVE_H
#define NET_EGRESS_RESOLVE_H

#include "engine/actor/loop.h"
#include "engine/address.h"
#include "engine/refusal.h"

struct resolver;
struct lookup;

struct resolver_config {
	size_t lookups;      /* at once; a quarter of them, and one at least, for each who asks */
	size_t addresses;    /* of one name */
	size_t cache;        /* names remembered */
	int64_t cache_ms;    /* longest that one is, whatever its TTL */
	int64_t wait_ms;     /* for an answer, of all servers together */
	const char *servers; /* "ADDRESS:PORT,…"; NULL: those of resolv.conf(5), and hosts(5) */
};

/**
 * resolver_new(loop, config, r):
 * Return a resolver, or NULL with ${r} library.missing or egress.resolve.  libc-ares is loaded now:
 * getaddrinfo would need a thread for each name, and tells no TTL.
 */
struct resolver *resolver_new(
    struct loop *loop, const struct resolver_config *config, struct refusal *r);
void resolver_free(struct resolver *resolver);

/**
 * resolver_recall(resolver, name, addresses):
 * Return how many addresses are remembered of ${name}, and where: valid until the loop goes on.
 */
size_t resolver_recall(
    struct resolver *resolver, const char *name, const struct address **addresses);

/**
 * resolver_ask(resolver, asker, name, done, ctx, refusal):
 * Look ${name} up as it is, without search domains, on behalf of ${asker}, a number that is its
 * alone.  Whoever asks for a name that is looked up already waits for the same answer.  ${done} is
 * called once, from the loop and never from here: with ${n} addresses in the resolver's order, or
 * with none and ${why}.  Return the lookup, or NULL with ${refusal}: egress.names where too many
 * are looked up, for anybody or for that one, egress.resolve or http.memory.
 */
struct lookup *resolver_ask(struct resolver *resolver, int64_t asker, const char *name,
    void (*done)(void *ctx, const struct address *addresses, size_t n, const struct refusal *why),
    void *ctx, struct refusal *refusal);

/**
 * lookup_cancel(lookup):
 * Its done is not called.  The name is still one of those that are looked up, until its answer
 * comes or the time for it is over.  NULL is none.
 */
void lookup_cancel(struct lookup *lookup);

#endif
