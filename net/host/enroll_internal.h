/* enroll_internal.h: what the box's two ways of redeeming say alike. */
#ifndef NET_HOST_ENROLL_INTERNAL_H
#define NET_HOST_ENROLL_INTERNAL_H

#include "net/host/enroll_client.h"
#include "net/http/client.h"

/**
 * enroll_refused(db, answer):
 * The Host said no: pairing.refused in its words, cut to ours.  ${answer} passed the check of JSON.
 * Return -1.
 */
int enroll_refused(struct store *db, const struct http_answer *answer);

/**
 * enroll_unsigned(db):
 * The answer is not of the Host that was asked: pairing.refused.  Return -1.
 */
int enroll_unsigned(struct store *db);

#endif
