/* terms.h: for verbs of a Host: look at a box's pairings, and sign for it as its anchor. */
#ifndef SHELL_TERMS_H
#define SHELL_TERMS_H

#include <stdbool.h>
#include <stdint.h>

#include "shell/cli.h"

/* What a person wants signed. */
struct terms_wish {
	const char *kind; /* "pairing_grant", "pairing_revoke", "anchor_consent" */
	const char *box, *host;
	const char *key;  /* of ${host}, as the person says it; NULL: as the box tells it */
	const char *caps; /* "observe,…"; NULL: none */
	int64_t ttl_ms;   /* 0: the setting terms.ttl_ms */
	const char
	    *asking; /* before it is signed, where the key is the box's word; NULL: nothing */
	bool no_wait;
};

/**
 * terms_look(cli, box, look):
 * Have the Host ask ${box} for its pairings, and wait for the answer, which the view box_pairings
 * shows as that of ${*look}.  ${cli} is open as ROLE_PERSON.  Return 0, or -1 with a refusal.
 */
int terms_look(struct cli *cli, const char *box, int64_t *look);

/**
 * terms_verb(cli, wish):
 * Open ${cli}, find out the key of the Host that is meant, show the exact bytes, sign them with
 * this Host's key, have them carried, and say what the box made of them.  Return the exit code of
 * the verb.
 */
int terms_verb(struct cli *cli, const struct terms_wish *wish);

/**
 * terms_option(wish, val, arg):
 * Note one option of a verb in ${*wish}, a struct terms_wish: 'c' --caps, 't' --ttl (at least a
 * second), 'k' --key, 'n' --no-wait.  A verb takes those that its own options list.  For
 * cli_options: return 0, or -1 if ${arg} will not do.
 */
int terms_option(void *wish, int val, const char *arg);

#endif
