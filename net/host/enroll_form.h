/* enroll_form.h: what a box sends that redeems an invitation; nothing of it is believed yet. */
#ifndef NET_HOST_ENROLL_FORM_H
#define NET_HOST_ENROLL_FORM_H

#include <stdbool.h>

#include "engine/state/invitation.h"

/* A form as it came: ${e} points into the rest. */
struct enroll_form {
	struct enrollment e;
	char *box, *lane, *endpoint, *proof;
};

/**
 * enroll_form_read(db, body, len, network, form, r):
 * Take ${body}, which passed http_json_check, apart into ${form}, for enroll_form_free in any case:
 * the form of a socket, or with ${network} one of those of enroll_client.h, whose proof is checked.
 * Return 0, or -1 with ${r} code.invalid or box.proof.
 */
int enroll_form_read(struct store *db, const char *body, size_t len, bool network,
    struct enroll_form *form, struct refusal *r);

/**
 * enroll_form_free(form):
 * Free ${form} and wipe its token.
 */
void enroll_form_free(struct enroll_form *form);

#endif
