/* listen.c: the rows of listen and host_address. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/listen.h"

static const char CLEAR[] = "DELETE FROM listen";

static const char LISTEN[] = "INSERT INTO listen (what, address, port, set_at)"
			     " VALUES (:what, :address, :port, now_ms())";

static const char FORGET[] = "DELETE FROM host_address";

static const char NAME[] = "INSERT INTO host_address (ord, endpoint)"
			   " VALUES (:ord, coalesce(endpoint_text(:endpoint), :endpoint))";

static const char NAMED[] = "SELECT count(*) FROM host_address";

static const char OTHER[] = "SELECT count(*) FROM listen WHERE port <> :port";

static const char SAME[] = "SELECT count(*) FROM listen WHERE port = :port";

int
listen_parse(const char *text, struct listen_place *place, struct refusal *r)
{
	struct endpoint endpoint;
	char star[16];
	bool any = text[0] == '*' && text[1] == ':' && strlen(text) < sizeof(star);

	/* Every address is written as one, for the sake of the port behind it. */
	snprintf(star, sizeof(star), "127.0.0.1%s", any ? text + 1 : "");
	if (any)
		text = star;
	if (endpoint_parse(text, strlen(text), &endpoint, NULL) != 0 ||
	    endpoint.kind == ENDPOINT_NAME)
		return refusal_set(r, "listen.invalid", "this is no address to listen on");
	snprintf(place->address, sizeof(place->address), any ? "*" : "%.*s",
	    (int)(strrchr(endpoint.text, ':') - endpoint.text), endpoint.text);
	place->port = endpoint.port;
	return 0;
}

static int
place_write(struct store *db, const char *what, const char *address, uint16_t port)
{
	struct stmt *q;

	if (stmt_run(store_sql(db, CLEAR)) != 0 || (q = store_sql(db, LISTEN)) == NULL)
		return -1;
	stmt_text(q, ":what", what);
	stmt_text(q, ":address", address);
	stmt_int(q, ":port", port);
	return stmt_run_one(q);
}

static int
names_write(struct store *db, const char *const addresses[], unsigned n)
{
	struct stmt *q;
	unsigned i;

	if (n > 0 && stmt_run(store_sql(db, FORGET)) != 0)
		return -1;
	for (i = 0; i < n; i++) {
		if ((q = store_sql(db, NAME)) == NULL)
			return -1;
		stmt_int(q, ":ord", i + 1);
		stmt_text(q, ":endpoint", addresses[i]);
		if (stmt_run_one(q) != 0)
			return -1;
	}
	return stmt_value(store_sql(db, NAMED), 0) > 0
		   ? 0
		   : refusal_set(store_refusal(db), "listen.none",
			 "this Host would listen, but name no place where boxes reach it");
}

int
listen_host(
    struct store *db, const struct listen_place *place, const char *const addresses[], unsigned n)
{
	if (store_begin(db) != 0)
		return -1;
	if ((place != NULL && place_write(db, "host", place->address, place->port) != 0) ||
	    names_write(db, addresses, n) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* How many rows ${sql} finds for ${port}; or -1. */
static int64_t
ports(struct store *db, const char *sql, uint16_t port)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return -1;
	stmt_int(q, ":port", port);
	return stmt_value(q, -1);
}

int
listen_box(struct store *db, uint16_t port)
{
	if (ports(db, OTHER, port) != 0)
		return refusal_set(store_refusal(db), "listen.fixed",
		    "this machine listens for its Hosts on another port already");
	if (ports(db, SAME, port) == 1)
		return 0;
	if (store_begin(db) != 0)
		return -1;
	if (place_write(db, "lane", "*", port) != 0)
		return store_rollback(db);
	return store_commit(db) == 0 ? 1 : -1;
}

int
listen_off(struct store *db)
{
	if (store_begin(db) != 0)
		return -1;
	if (stmt_run(store_sql(db, CLEAR)) != 0 || stmt_run(store_sql(db, FORGET)) != 0)
		return store_rollback(db);
	return store_commit(db);
}
