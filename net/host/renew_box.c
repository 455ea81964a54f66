/* renew_box.c: the box's end of renewing: what is due is asked for, and checked before it is shown.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "engine/crypto/base64.h"
#include "engine/state/tls_identity.h"
#include "net/host/hostway.h"
#include "net/host/renew.h"
#include "net/http/json.h"

#define ANSWER_MAX 16384

/* (A pairing that is served; the first of them that is due.) */
static const char DUE[] = "SELECT d.pairing_id FROM tls_due AS d"
			  "  JOIN pairing_reached AS p ON p.pairing_id = d.pairing_id"
			  " ORDER BY d.not_after LIMIT 1";

/* After one that went well: a certificate of a short life is due again soon, but never at once. */
static const char PAUSE[] =
    "SELECT max(1000, min((SELECT value FROM setting WHERE name = 'tls.retry_ms'),"
    "  (not_after - now_ms()) / 10)) FROM tls_identity"
    " WHERE pairing_id = :pairing AND state = 'current'";

static const char BODY[] = "SELECT json_object('request', :request)";

static const char ANSWER[] =
    "SELECT :answer ->> '$.certificate' WHERE json_type(:answer, '$.certificate') = 'text'";

struct renewals {
	struct hostway way; /* first; of the one that is under way */
	struct actor_env *env;
	struct http_client *client;
	struct http_call *call; /* NULL: none is */
	uint64_t timer;         /* not before */
	unsigned tried;
	size_t len;
	char text[ANSWER_MAX + 1]; /* of the answer */
};

static void
on_due(void *ctx)
{
	struct renewals *w = ctx;

	w->timer = 0;
	renewals_wake(w);
}

static void
pause_after(struct renewals *w)
{
	struct stmt *q;

	if ((q = store_sql(w->env->db, PAUSE)) == NULL)
		return;
	stmt_int(q, ":pairing", w->way.pairing);
	w->timer = loop_after(w->env->loop, stmt_value(q, 1000), on_due, w);
}

static void
later(struct renewals *w, const struct refusal *why)
{
	fprintf(stderr, "bastion: link: a certificate is not renewed yet: %s [%s]\n", why->why,
	    why->code);
	w->timer = loop_after(w->env->loop, store_setting(w->env->db, "tls.retry_ms"), on_due, w);
}

static int
answer_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct renewals *w = ctx;

	(void)call;
	if (len > ANSWER_MAX - w->len)
		return -1;
	memcpy(w->text + w->len, data, len);
	w->len += len;
	w->text[w->len] = '\0';
	return 0;
}

/* Put what the Host issued in its place.  Return 0 or -1. */
static int
answer_take(struct renewals *w, struct refusal *r)
{
	struct store *db = w->env->db;
	unsigned char cert[CERT_MAX];
	struct stmt *q;
	ssize_t len = -1;
	int good;

	if (http_json_check(w->text, w->len, (unsigned)store_setting(db, "http.depth"), r) != 0)
		return -1;
	if ((q = store_sql(db, ANSWER)) == NULL)
		return -1;
	stmt_text_n(q, ":answer", w->text, w->len);
	good = stmt_step(q);
	if (good == 1) {
		len = base64_read(
		    stmt_get_text(q, 0), strlen(stmt_get_text(q, 0)), NULL, cert, sizeof(cert));
		good = len >= 0;
		stmt_done(q);
	}
	if (good != 1)
		return refusal_set(r, "cert.form", "the Host answers with no certificate");
	if (tls_renew(db, w->env->wire, w->way.pairing, cert, (size_t)len) == 0)
		return 0;
	*r = *store_refusal(db);
	return -1;
}

static int send_request(struct renewals *w, struct refusal *r);

static void
answer_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct renewals *w = ctx;
	struct refusal r;

	w->call = NULL;
	if (refusal != NULL && ++w->tried < w->way.nendpoints) {
		hostway_next(&w->way);
		if (send_request(w, &r) == 0)
			return;
		refusal = &r;
	}
	if (refusal == NULL && http_call_status(call) != 200) {
		refusal_set(
		    &r, "beat.unheard", "the Host answers with status %d", http_call_status(call));
		refusal = &r;
	}
	if (refusal == NULL && answer_take(w, &r) != 0)
		refusal = &r;
	hostway_close(&w->way);
	if (refusal != NULL)
		later(w, refusal);
	else
		pause_after(w);
}

static char *
body_make(struct renewals *w)
{
	char text[sodium_base64_ENCODED_LEN(CERT_MAX, sodium_base64_VARIANT_ORIGINAL)];
	struct cert_blob request;
	char *body = NULL;
	struct stmt *q;

	if (tls_request(w->env->db, w->env->wire, w->way.pairing, &request) != 0)
		return NULL;
	if (request.len <= CERT_MAX) {
		sodium_bin2base64(
		    text, sizeof(text), request.data, request.len, sodium_base64_VARIANT_ORIGINAL);
		if ((q = store_sql(w->env->db, BODY)) != NULL) {
			stmt_text(q, ":request", text);
			if (stmt_step(q) == 1) {
				body = strdup(stmt_get_text(q, 0));
				stmt_done(q);
			}
		}
	}
	cert_blob_free(&request);
	return body;
}

static int
send_request(struct renewals *w, struct refusal *r)
{
	struct hostway_request request = {.path = "/v1/certificates",
	    .total_ms = store_setting(w->env->db, "beat.time_ms"),
	    .reply_max = ANSWER_MAX,
	    .chunk = answer_chunk,
	    .done = answer_done};
	char *body;

	w->len = 0;
	if ((body = body_make(w)) == NULL) {
		*r = *store_refusal(w->env->db);
		return -1;
	}
	request.body = body;
	w->call = hostway_send(&w->way, &request, r);
	free(body);
	return w->call != NULL ? 0 : -1;
}

void
renewals_wake(struct renewals *w)
{
	struct refusal r;
	struct stmt *q;
	int64_t pairing;

	if (w->call != NULL || w->timer != 0 || (q = store_sql(w->env->db, DUE)) == NULL ||
	    (pairing = stmt_value(q, 0)) <= 0)
		return;
	w->tried = 0;
	if (hostway_open(w->env, w->client, pairing, &w->way, &r) != 0) {
		later(w, &r);
		return;
	}
	if (send_request(w, &r) != 0) {
		hostway_close(&w->way);
		later(w, &r);
	}
}

struct renewals *
renewals_new(struct actor_env *env, struct http_client *client, struct refusal *r)
{
	struct renewals *w;

	if ((w = calloc(1, sizeof(*w))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	w->env = env;
	w->client = client;
	return w;
}

void
renewals_free(struct renewals *w)
{
	if (w == NULL)
		return;
	loop_cancel(w->env->loop, w->timer);
	if (w->call != NULL)
		http_abort(w->call);
	hostway_close(&w->way);
	free(w);
}
