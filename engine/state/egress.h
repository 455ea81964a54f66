/* egress.h: who may reach what on the internet. */
#ifndef ENGINE_STATE_EGRESS_H
#define ENGINE_STATE_EGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/address.h"
#include "engine/store/store.h"

/* What an allow says of requests within TLS. */
struct egress_within {
	const char *method, *path; /* NULL: any */
	bool websocket;            /* they may go over to another protocol */
	const char *token;         /* the name of one that goes along, or NULL */
};

/* A rule as it is asked for. */
struct egress_rule {
	bool deny;
	int64_t uid;      /* whom it is for; -1: every user of this machine */
	const char *host; /* or the Host of a pairing; NULL: none */
	const char *suffix;
	int64_t port; /* 0: any */
	int64_t by_uid;
	const struct egress_within *within; /* or NULL: everything */
};

/**
 * egress_rule_make(db, rule, id):
 * Make a rule, in place of the opposite of it where there is one, and store its id in ${*id}.  With
 * within, a rule that is narrowed already allows that as well.  One durable transaction.  Return 0,
 * or -1 with the refusal of ${db}: egress.suffix, egress.exists, egress.many, egress.narrow,
 * token.unknown, token.host, pairing.unknown, pairing.inactive.
 */
int egress_rule_make(struct store *db, const struct egress_rule *rule, int64_t *id);

/**
 * egress_preset_known(db, preset):
 * Return 0 where there is a preset of this name, or -1 with the refusal of ${db}: run.preset.
 */
int egress_preset_known(struct store *db, const char *preset);

/**
 * egress_preset_make(db, preset, rule, count):
 * Make a rule, as egress_rule_make, of each place of the preset ${preset} ("npm") for which there
 * is none yet; ${rule} says for whom, by whom and whether to deny.  Store in ${*count} how many
 * were made.  One durable transaction.  Return 0, or -1 with the refusal of ${db}: run.preset,
 * egress.exists where there are all, egress.many, pairing.unknown, pairing.inactive.
 */
int egress_preset_make(
    struct store *db, const char *preset, const struct egress_rule *rule, int64_t *count);

/**
 * egress_preset_forget(db, preset, count):
 * Drop the rules for the places of a preset, whoever made them and for whom; store in ${*count} how
 * many there were.  Return 0, or -1 with the refusal of ${db}: run.preset, egress.unknown_rule.
 */
int egress_preset_forget(struct store *db, const char *preset, int64_t *count);

/**
 * egress_rule_forget(db, id, suffix, count):
 * Drop the rule ${id}, or with ${id} 0 all rules for ${suffix}; store in ${*count} how many there
 * were.  Return 0, or -1 with the refusal of ${db}: egress.unknown_rule where there was none.
 */
int egress_rule_forget(struct store *db, int64_t id, const char *suffix, int64_t *count);

/* What somebody wants to reach. */
struct egress_wish {
	int64_t uid;
	const char *host;
	int64_t port;
	const char *addresses; /* JSON, or NULL: not known */
};

/**
 * egress_try(db, wish):
 * Whether the lane would connect, tried in the caller's transaction, which is to be undone.  ${db}
 * is of ROLE_EGRESS.  Return 0, or -1 with the refusal of ${db} as the lane's.
 */
int egress_try(struct store *db, const struct egress_wish *wish);

#endif
