/* renew_host.c: the Host's end of renewing: the key of a box goes to link, the certificate back. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/base64.h"
#include "engine/state/tls_identity.h"
#include "net/host/renew.h"
#include "net/http/json.h"

#define REQUEST_MAX 4096 /* bytes of DER */

static const char FORM[] =
    "SELECT json_type(:body) = 'object' AND json_type(:body, '$.request') = 'text'"
    "  AND (SELECT count(*) FROM json_each(:body)) = 1, :body ->> '$.request'";

static const char ISSUED[] =
    "SELECT length(cert), cert FROM box_certificate WHERE id = :id AND cert IS NOT NULL";

/* A box that waits for its next certificate. */
struct renewal {
	struct commit_job job; /* first */
	struct renewal *next, **self;
	struct net *net;
	struct http_exchange *x; /* NULL once the box has gone */
	bool busy;               /* the job is with the committer, and with it what follows */
	int64_t box, order;
	size_t len;
	unsigned char request[REQUEST_MAX];
};

static void
renewal_free(struct renewal *w)
{
	*w->self = w->next;
	if (w->next != NULL)
		w->next->self = w->self;
	free(w);
}

static void
renewal_gone(void *ctx)
{
	struct renewal *w = ctx;

	w->x = NULL;
	if (!w->busy)
		renewal_free(w);
}

/* In the committer's thread. */
static int
renewal_run(struct store *db, struct commit_job *job)
{
	struct renewal *w = (struct renewal *)job;

	return tls_order(db, w->box, w->request, w->len, &w->order);
}

static void
renewal_done(struct commit_job *job)
{
	struct renewal *w = (struct renewal *)job;

	w->busy = false;
	if (w->x != NULL && job->result == 0) {
		renew_wake(w->net); /* link may be quicker */
		return;
	}
	if (w->x != NULL)
		net_refuse(w->net, w->x, &job->refusal, NULL);
	renewal_free(w);
}

/* Return whether the certificate was there, and is sent. */
static bool
renewal_answer(struct renewal *w)
{
	char text[sodium_base64_ENCODED_LEN(CERT_MAX, sodium_base64_VARIANT_ORIGINAL)];
	char body[sizeof(text) + 32];
	const unsigned char *cert;
	struct stmt *q;
	size_t len;

	if ((q = store_sql(w->net->env->db, ISSUED)) == NULL)
		return false;
	stmt_int(q, ":id", w->order);
	if (stmt_step(q) != 1)
		return false;
	len = (size_t)stmt_get_int(q, 0);
	text[0] = '\0';
	if (len <= CERT_MAX && (cert = stmt_get_blob(q, 1, len)) != NULL)
		sodium_bin2base64(text, sizeof(text), cert, len, sodium_base64_VARIANT_ORIGINAL);
	stmt_done(q);
	snprintf(body, sizeof(body), "{\"certificate\":\"%s\"}", text);
	http_reply(w->x, 200, "application/json", NULL, body, strlen(body));
	return true;
}

void
renew_wake(struct net *net)
{
	struct renewal *w, *next;

	for (w = net->renewals; w != NULL; w = next) {
		next = w->next;
		if (!w->busy && renewal_answer(w))
			renewal_free(w);
	}
}

/* Take the request out of the body.  Return 0 or -1. */
static int
form_read(struct net *net, struct renewal *w, const char *body, size_t len, struct refusal *r)
{
	struct stmt *q;
	ssize_t n;
	int good = 0;

	if (http_json_check(body, len, (unsigned)store_setting(net->env->db, "http.depth"), r) != 0)
		return -1;
	if ((q = store_sql(net->env->db, FORM)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	if (stmt_step(q) == 1) {
		n = base64_read(stmt_get_text(q, 1), strlen(stmt_get_text(q, 1)), NULL, w->request,
		    sizeof(w->request));
		good = stmt_get_int(q, 0) == 1 && n >= 0;
		w->len = n >= 0 ? (size_t)n : 0;
		stmt_done(q);
	}
	if (good)
		return 0;
	return refusal_set(r, "cert.request", "a renewal is {\"request\":base64 of a PKCS#10}");
}

int
renew_take(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct renewal *w;
	size_t len;
	const char *body = http_body(x, &len);

	if ((w = calloc(1, sizeof(*w))) == NULL || form_read(net, w, body, len, &r) != 0) {
		free(w);
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	w->job = (struct commit_job){.run = renewal_run, .done = renewal_done};
	w->net = net;
	w->x = x;
	w->busy = true;
	w->box = http_peer(x)->tag;
	w->next = net->renewals;
	w->self = &net->renewals;
	if (w->next != NULL)
		w->next->self = &w->next;
	net->renewals = w;
	http_on_close(x, renewal_gone, w);
	committer_submit(net->committer, &w->job);
	return 0;
}
