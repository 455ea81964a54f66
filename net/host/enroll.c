/* enroll.c: a box redeems an invitation of this Host. */
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/invitation.h"
#include "net/host/enroll_form.h"
#include "net/host/net.h"

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

/* Take the body apart and let the box in. */
static int
guest_enter(struct net *net, struct http_exchange *x, const char *body, size_t len, int64_t *box,
    struct refusal *r)
{
	struct store *db = net->env->db;
	struct enroll_form f;
	int rc;

	rc = enroll_form_read(db, body, len, http_surface(x) == SURFACE_GUEST, &f, r);
	f.e.peer_uid = (int64_t)http_peer(x)->uid;
	if (rc == 0 && (rc = invitation_redeem(db, &f.e, box)) != 0) {
		*r = *store_refusal(db);
		refused_keep(db, r);
	}
	enroll_form_free(&f);
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
