/* anchor.h: what the anchor sends, and what a Host is told of the pairings here. */
#ifndef NET_HOST_ANCHOR_H
#define NET_HOST_ANCHOR_H

#include "engine/state/anchor.h"

struct http_exchange;

/*
 * Terms travel as {"terms": text, "signature": base64 of 64 bytes}: in a request of the lane, or in
 * a file that a person carries.  The text is what was signed; nothing writes it anew.
 */
#define ANCHOR_BODY_MAX 10240

/**
 * anchor_body(db, body, len, terms, given):
 * Take the ${len} bytes at ${body} apart into ${terms} and ${given}, which then refers to ${terms}.
 * ${db} is asked for nothing but JSON.  Return 0, or -1 with its refusal: json.*, anchor.terms.
 */
int anchor_body(struct store *db, const char *body, size_t len, char terms[ANCHOR_TERMS_MAX + 1],
    struct anchor_signed *given);

/**
 * anchor_list(x, net):
 * GET /v1/pairings: tell the Host that signed the request of the pairings here: the anchor of all,
 * another of its own.  Invalid ones are never told of.
 */
int anchor_list(struct http_exchange *x, void *net);

/**
 * anchor_sync(x, net):
 * POST /v1/pairings: take terms that the anchor signed; {"kind", "host", "state"} says what became
 * of the pairing that they are about.  Who carries them is a Host that is paired here.
 */
int anchor_sync(struct http_exchange *x, void *net);

#endif
