/* leaf.h: a lane's own authority, and the certificates of hosts that it shows to programs. */
#ifndef NET_EGRESS_LEAF_H
#define NET_EGRESS_LEAF_H

#include <stddef.h>
#include <stdint.h>

#include "net/http/tls.h"

/* An authority whose key never leaves this memory, and what it issued. */
struct leaves;
struct leaf;

/**
 * leaves_new(valid_ms, most, r):
 * Make an authority (ECDSA on P-256, path length 0) that is valid for ${valid_ms} from now, and an
 * hour before; it keeps ${most} certificates.  Return it, or NULL with ${r} as ca_make.
 */
struct leaves *leaves_new(int64_t valid_ms, size_t most, struct refusal *r);

/**
 * leaves_free(leaves):
 * Wipe and free; leaves that are held live until they are put back.  NULL is none.
 */
void leaves_free(struct leaves *leaves);

/**
 * leaves_pem(leaves), leaves_ends(leaves):
 * The certificate of the authority, for programs to trust (lives as long as ${leaves}), and when it
 * ends, ms UTC.
 */
const char *leaves_pem(const struct leaves *leaves);
int64_t leaves_ends(const struct leaves *leaves);

/**
 * leaves_count(leaves):
 * How many certificates are kept.
 */
size_t leaves_count(const struct leaves *leaves);

/**
 * leaf_take(leaves, name, r):
 * Return the end of TLS for the host ${name}, a DNS name or an address as host_text() spells it:
 * the one that was made before, or a new one, in place of the one that was not asked for longest.
 * Each has a key of its own and is valid for a day.  Put it back with leaf_put, once.  Return NULL
 * with ${r} as ca_issue.
 */
struct leaf *leaf_take(struct leaves *leaves, const char *name, struct refusal *r);
struct tls_end *leaf_end(const struct leaf *leaf);
void leaf_put(struct leaf *leaf);

#endif
