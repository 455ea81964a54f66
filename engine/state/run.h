/* run.h: a program with an internet lane of its own: its row and its rules. */
#ifndef ENGINE_STATE_RUN_H
#define ENGINE_STATE_RUN_H

#include "engine/state/egress.h"
#include "engine/state/sandbox_run.h"

/* What a run may reach, as it is asked for: a rule, or the name of a preset, which allows. */
struct run_rule {
	bool deny;
	const char *suffix; /* NULL: ${preset} */
	int64_t port;       /* 0: any */
	const char *preset;
};

/**
 * run_begin(db, ask, rules, n, nonce, id):
 * As sandbox_run_begin, with its rules, which go when it ends.  One durable transaction.  Return 0,
 * or -1 with the refusal of ${db}: run.preset, egress.suffix, egress.many as well.
 */
int run_begin(struct store *db, const struct sandbox_ask *ask, const struct run_rule *rules,
    size_t n, char nonce[SANDBOX_NONCE_SIZE], int64_t *id);

/**
 * run_rule_add(db, id, rule):
 * Add a rule to the live run ${id}; one that is there already stays.  One durable transaction.
 * Return 0, or -1 with the refusal of ${db}: run.over as well.
 */
int run_rule_add(struct store *db, int64_t id, const struct run_rule *rule);

/**
 * run_limits(db, limits):
 * Read the settings run.* into ${limits}.
 */
void run_limits(struct store *db, struct sandbox_limits *limits);

#endif
