/* function.h: the SQL functions that our triggers stand on; no other tool has them. */
#ifndef ENGINE_STORE_FUNCTION_H
#define ENGINE_STORE_FUNCTION_H

#include "engine/store/store.h"

#define FUNCTION_ACTING_MAX 160
#define FUNCTION_SEALS \
	256 /* seals known to be good, so that a busy grant is not verified anew each time */

struct function_context {
	char acting[FUNCTION_ACTING_MAX + 1];
	int64_t now; /* of the transaction; 0 outside one */
	struct store_keys keys;
	unsigned char good[FUNCTION_SEALS][32]; /* digests of (kind, text, seal) */
};

/**
 * function_register(handle, ctx):
 * Register on ${handle}: now_ms(), acting(), sha256(x), chain_hash(prev, line), process_alive(boot,
 * pid, ticks), endpoint_text(text), seal_ok(kind, text, seal), signed_by(domain, key, text,
 * signature), checkpoint_ok(size, root, signature), and, for statements that we write ourselves,
 * seal_sign(kind, text) and checkpoint_sign(size, root); and what bounds_register has.  ${ctx} must
 * outlive ${handle}. Return 0 or -1.
 */
int function_register(struct sqlite3 *handle, struct function_context *ctx);

/**
 * function_now(ctx):
 * Return what now_ms() returns.
 */
int64_t function_now(const struct function_context *ctx);

#endif
