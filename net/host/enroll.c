/* enroll.c: a box redeems an invitation of this Host. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/invitation.h"
#include "net/host/net.h"

static const char FORM[] =
    "SELECT json_type(:body) = 'object' AND json_type(:body, '$.token') = 'text'"
    "  AND json_type(:body, '$.box') = 'text' AND json_type(:body, '$.box_key') = 'text'"
    "  AND json_type(:body, '$.lane') = 'text' AND (SELECT count(*) FROM json_each(:body)) = 4,"
    " :body ->> '$.token', :body ->> '$.box_key', :body ->> '$.box', :body ->> '$.lane'";

static const char WELCOME[] =
    "SELECT json_object('host', box.name, 'host_key', lower(hex(box.identity_key)),"
    " 'signature', b.welcome) FROM host_box AS b, box"
    " WHERE b.id = :id AND b.welcome IS NOT NULL";

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

/* A form is read to its end before anything is written: a reader that is still open would have an
 * older view than the transaction needs. */
static int
form_read(struct store *db, const char *body, size_t len, struct enrollment *e, char **box,
    char **lane, struct refusal *r)
{
	struct stmt *q;
	int rc = 0;

	if ((q = store_sql(db, FORM)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	if (stmt_step(q) != 1)
		return -1;
	if (stmt_get_int(q, 0) != 1 || hex_read(stmt_get_text(q, 1), e->token) != 0 ||
	    hex_read(stmt_get_text(q, 2), e->box_key) != 0)
		rc = refusal_set(r, "code.invalid",
		    "an enrollment is {\"token\":hex,\"box\":name,\"box_key\":hex,\"lane\":path}");
	else if ((*box = strdup(stmt_get_text(q, 3))) == NULL ||
		 (*lane = strdup(stmt_get_text(q, 4))) == NULL)
		rc = refusal_set(r, "store.failed", "out of memory");
	stmt_done(q);
	return rc;
}

/* Take the body apart and let the box in. */
static int
guest_enter(struct net *net, struct http_exchange *x, const char *body, size_t len, int64_t *box,
    struct refusal *r)
{
	struct store *db = net->env->db;
	struct enrollment e = {.peer_uid = (int64_t)http_peer(x)->uid};
	char *name = NULL, *lane = NULL;
	int rc;

	if ((rc = form_read(db, body, len, &e, &name, &lane, r)) == 0) {
		e.box_name = name;
		e.lane = lane;
		if ((rc = invitation_redeem(db, &e, box)) != 0) {
			*r = *store_refusal(db);
			refused_keep(db, r);
		}
	}
	free(name);
	free(lane);
	sodium_memzero(e.token, sizeof(e.token));
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
