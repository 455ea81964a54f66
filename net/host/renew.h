/* renew.h: a certificate is renewed before its end, over the way that the present one opens. */
#ifndef NET_HOST_RENEW_H
#define NET_HOST_RENEW_H

#include "net/host/net.h"

/**
 * renew_take(x, net), renew_wake(net):
 * On a Host, POST /v1/certificates, {"request":base64 of a PKCS#10}: a box that is paired, by the
 * certificate that it has, asks for the next one of the same name.  Answered with
 * {"certificate":base64 of its DER} once link has issued it.
 */
int renew_take(struct http_exchange *x, void *net);
void renew_wake(struct net *net);

struct http_client;
struct renewals; /* of a box */

/**
 * renewals_new(env, client, r), renewals_free(renewals):
 * Begin to renew certificates of this box when they are due (view tls_due).  Both arguments outlive
 * it.  NULL with ${r} store.failed.
 */
struct renewals *renewals_new(struct actor_env *env, struct http_client *client, struct refusal *r);
void renewals_free(struct renewals *renewals);

/**
 * renewals_wake(renewals):
 * Ask for what is due, one at a time.  What fails is tried again after the setting tls.retry_ms.
 */
void renewals_wake(struct renewals *renewals);

#endif
