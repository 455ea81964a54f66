/* enroll.c: a box redeems an invitation of this Host. */
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/invitation.h"
#include "net/host/enroll_client.h"
#include "net/host/net.h"

/* Which form it is: 1 on a socket, 2 from a box that dials, 3 from one that listens; 0: none. */
static const char FORM[] =
    "SELECT CASE"
    " WHEN json_type(:body) <> 'object' OR json_type(:body, '$.token') IS NOT 'text'"
    "   OR json_type(:body, '$.box') IS NOT 'text' OR json_type(:body, '$.box_key') IS NOT 'text'"
    "  THEN 0"
    " WHEN json_type(:body, '$.lane') = 'text' THEN (SELECT count(*) FROM json_each(:body)) = 4"
    " WHEN json_type(:body, '$.request') IS NOT 'text' OR json_type(:body, '$.proof') IS NOT 'text'"
    "  THEN 0"
    " WHEN :body ->> '$.transport' IS 'reverse'"
    "  THEN 2 * ((SELECT count(*) FROM json_each(:body)) = 6)"
    " WHEN :body ->> '$.transport' IS 'tls' AND json_type(:body, '$.endpoint') = 'text'"
    "  AND json_type(:body, '$.authority') = 'text'"
    "  THEN 3 * ((SELECT count(*) FROM json_each(:body)) = 8)"
    " ELSE 0 END,"
    " :body ->> '$.token', :body ->> '$.box_key', :body ->> '$.box', :body ->> '$.lane',"
    " :body ->> '$.endpoint', :body ->> '$.request', :body ->> '$.authority', :body ->> '$.proof'";

static const char WELCOME[] =
    "SELECT iif(b.transport = 'unix',"
    "  json_object('host', box.name, 'host_key', lower(hex(box.identity_key)),"
    "              'signature', b.welcome),"
    "  json_object('host', box.name, 'host_key', lower(hex(box.identity_key)),"
    "              'signature', b.welcome, 'certificate', (SELECT lower(hex(cert))"
    "                FROM box_certificate WHERE box_id = b.id ORDER BY id LIMIT 1)))"
    "  FROM host_box AS b, box WHERE b.id = :id AND b.welcome IS NOT NULL";

static const char REFUSED[] = "INSERT INTO refused (at, surface, asked, code, why)"
			      " SELECT now_ms(), 'enroll', 'enroll', code, :why FROM refusal"
			      " WHERE code = :code";

/* A box that is in, and waits for the Host's signature, which the actor link makes: this one has no
 * key. */
struct guest {
	struct guest *next, **self;
	struct http_exchange *x;
	int64_t box;
};

static void
guest_free(void *ctx)
{
	struct guest *g = ctx;

	*g->self = g->next;
	if (g->next != NULL)
		g->next->self = g->self;
	free(g);
}

enum { FORM_NONE, FORM_SOCKET, FORM_REVERSE, FORM_TLS };

/* A form as it came; e points into the rest. */
struct form {
	struct enrollment e;
	char *box, *lane, *endpoint, *proof;
};

static void
form_free(struct form *f)
{
	free(f->box);
	free(f->lane);
	free(f->endpoint);
	free(f->proof);
	cert_blob_free(&f->e.request);
	cert_blob_free(&f->e.authority);
	sodium_memzero(f->e.token, sizeof(f->e.token));
}

static int
hex_read(const char *hex, unsigned char out[32])
{
	size_t n;

	return strlen(hex) == 64 && sodium_hex2bin(out, 32, hex, 64, NULL, &n, NULL) == 0 && n == 32
		   ? 0
		   : -1;
}

/* What was refused is kept; the token is not part of it. */
static void
refused_keep(struct store *db, const struct refusal *r)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return;
	if ((q = store_sql(db, REFUSED)) != NULL) {
		stmt_text(q, ":code", r->code);
		stmt_text(q, ":why", r->why);
	}
	if (stmt_run(q) != 0)
		store_rollback(db);
	else
		store_commit(db);
}

static int
form_bad(struct refusal *r)
{
	return refusal_set(r, "code.invalid",
	    "an enrollment is {\"token\":hex,\"box\":name,\"box_key\":hex,\"lane\":path}, or over a"
	    " network with transport, request and proof in place of lane");
}

/* Take the parts out of the row ${q} for the form ${kind}. */
static int
form_take(struct stmt *q, int64_t kind, struct form *f)
{
	if (hex_read(stmt_get_text(q, 1), f->e.token) != 0 ||
	    hex_read(stmt_get_text(q, 2), f->e.box_key) != 0 ||
	    (f->e.box_name = f->box = strdup(stmt_get_text(q, 3))) == NULL)
		return -1;
	f->e.transport = kind == FORM_SOCKET ? "unix" : kind == FORM_TLS ? "tls" : "reverse";
	if (kind == FORM_SOCKET)
		return (f->e.lane = f->lane = strdup(stmt_get_text(q, 4))) == NULL ? -1 : 0;
	if (kind == FORM_TLS &&
	    ((f->e.endpoint = f->endpoint = strdup(stmt_get_text(q, 5))) == NULL ||
		cert_from_hex(stmt_get_text(q, 7), &f->e.authority) != 0))
		return -1;
	return cert_from_hex(stmt_get_text(q, 6), &f->e.request) == 0 &&
		       (f->proof = strdup(stmt_get_text(q, 8))) != NULL
		   ? 0
		   : -1;
}

/* Whoever asks over a network holds the key of the box that it says it is. */
static int
form_proved(const struct form *f, struct refusal *r)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	const struct enroll_proof proof = {.token_digest = digest,
	    .box = f->box,
	    .box_key = f->e.box_key,
	    .transport = f->e.transport,
	    .endpoint = f->endpoint,
	    .request = &f->e.request,
	    .authority = &f->e.authority};

	if (f->proof == NULL)
		return 0;
	crypto_hash_sha256(digest, f->e.token, CODE_TOKEN);
	return enroll_proved(&proof, f->proof) == 0
		   ? 0
		   : refusal_set(
			 r, "box.proof", "the box does not prove that it holds the key it names");
}

/* A form is read to its end before anything is written: a reader that is still open would have an
 * older view than the transaction needs. */
static int
form_read(struct net *net, struct http_exchange *x, const char *body, size_t len, struct form *f,
    struct refusal *r)
{
	bool network = http_surface(x) == SURFACE_GUEST;
	struct stmt *q;
	int64_t kind;
	int rc;

	if ((q = store_sql(net->env->db, FORM)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	if (stmt_step(q) != 1)
		return -1;
	kind = stmt_get_int(q, 0);
	/* A socket's box is known by its process, a network's by its proof. */
	rc = kind != FORM_NONE && (kind != FORM_SOCKET) == network ? form_take(q, kind, f) : -1;
	stmt_done(q);
	if (rc != 0)
		return form_bad(r);
	f->e.peer_uid = (int64_t)http_peer(x)->uid;
	return form_proved(f, r);
}

/* Take the body apart and let the box in. */
static int
guest_enter(struct net *net, struct http_exchange *x, const char *body, size_t len, int64_t *box,
    struct refusal *r)
{
	struct store *db = net->env->db;
	struct form f = {.box = NULL};
	int rc;

	if ((rc = form_read(net, x, body, len, &f, r)) == 0 &&
	    (rc = invitation_redeem(db, &f.e, box)) != 0) {
		*r = *store_refusal(db);
		refused_keep(db, r);
	}
	form_free(&f);
	return rc;
}

void
enroll_wake(struct net *net)
{
	struct guest *g, *next;
	struct stmt *q;

	for (g = net->guests; g != NULL; g = next) {
		next = g->next;
		if ((q = store_sql(net->env->db, WELCOME)) == NULL)
			return;
		stmt_int(q, ":id", g->box);
		if (stmt_step(q) != 1)
			continue;
		http_reply(g->x, 200, "application/json", NULL, stmt_get_text(q, 0),
		    strlen(stmt_get_text(q, 0)));
		stmt_done(q);
		guest_free(g);
	}
}

int
enroll_redeem(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct guest *g;
	const char *body;
	int64_t box;
	size_t len;
	int rc;

	if ((body = http_body_json(x, &len)) == NULL)
		return 0;
	if ((g = calloc(1, sizeof(*g))) == NULL) {
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	if (http_surface(x) == SURFACE_GUEST)
		store_acting(net->env->db, "box:at %s", http_peer(x)->address);
	else
		store_acting(net->env->db, "box:uid %lld", (long long)http_peer(x)->uid);
	rc = guest_enter(net, x, body, len, &box, &r);
	store_acting(net->env->db, "actor:net");
	if (rc != 0) {
		free(g);
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	*g = (struct guest){.next = net->guests, .self = &net->guests, .x = x, .box = box};
	if (g->next != NULL)
		g->next->self = &g->next;
	net->guests = g;
	http_on_close(x, guest_free, g);
	return 0;
}
