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

/* A port of 127.0.0.1 that leads to one inside. */
struct run_port {
	uint16_t port, inside;
};

/* What a run is begun with. */
struct run_ask {
	struct sandbox_ask sandbox;
	const struct run_rule *rules;
	size_t rule_count;
	const struct run_port *ports;
	size_t port_count;
};

/**
 * run_begin(db, ask, nonce, id):
 * As sandbox_run_begin, with its rules, which go when it ends, and its ports, in a durable
 * transaction that is open then: nothing starts before store_commit said 0.  Return 0, or -1 with
 * the refusal of ${db} and no transaction: run.preset, run.port, egress.suffix, egress.many as
 * well.
 */
int run_begin(
    struct store *db, const struct run_ask *ask, char nonce[SANDBOX_NONCE_SIZE], int64_t *id);

/**
 * run_insert_as(db, ask, process, nonce, id):
 * As run_begin, for the process of the row ${process}, which chose ${nonce} itself, as a step of
 * the caller's transaction.
 */
int run_insert_as(
    struct store *db, const struct run_ask *ask, int64_t process, const char *nonce, int64_t *id);

/**
 * run_of(db, id, process):
 * Return 0 if ${id} is a run that the process of the row ${process} began, or -1 with the refusal
 * of ${db}: run.over.
 */
int run_of(struct store *db, int64_t id, int64_t process);

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
