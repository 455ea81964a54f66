/* send.c: sign, see who answers, and start; a way knows where. */
#include <string.h>

#include "engine/clock.h"
#include "net/host/send.h"
#include "net/host/sign.h"

static int
peer_is(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	const struct send_to *to = ctx;

	if (to->end != NULL || (int64_t)peer->uid == to->uid)
		return 0;
	return refusal_set(
	    refusal, to->code, "another user serves %s socket than when it paired", to->whose);
}

struct http_call *
send_signed(struct actor_env *env, struct http_client *client, struct send_to *to,
    const struct send_request *asked, struct refusal *r)
{
	const char *body = asked->body != NULL ? asked->body : "";
	struct sign_headers headers;
	const struct sign_request sign = {.method = asked->method,
	    .path = asked->path,
	    .time = clock_now(),
	    .nonce = asked->nonce,
	    .body = body,
	    .len = strlen(body)};
	const struct http_request request = {.socket_path = to->end == NULL ? to->socket : NULL,
	    .dial = to->end != NULL ? asked->dial : NULL,
	    .tls = to->end,
	    .method = asked->method,
	    .url = asked->url,
	    .headers = headers.fields,
	    .body = asked->body,
	    .body_len = sign.len,
	    .connect_ms = asked->connect_ms,
	    .total_ms = asked->total_ms,
	    .reply_max = asked->reply_max,
	    .verify = peer_is,
	    .chunk = asked->chunk,
	    .done = asked->done,
	    .ctx = to};

	if (sign_headers(env->keys.secret, env->keys.identity, &sign, &headers) != 0) {
		refusal_set(r, "store.failed", "the request could not be signed");
		return NULL;
	}
	return http_start(client, &request, r);
}
