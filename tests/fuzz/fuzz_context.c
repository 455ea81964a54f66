/* fuzz_context.c: any body as a user's ask; what becomes a row must be safe to show and to open. */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/store/migrate.h"
#include "net/host/context.h"
#include "net/http/json.h"

#define DEPTH 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char HOST[] =
    "INSERT INTO box (id, name, role, identity_key, created_at)"
    " VALUES (1, 'box-a', 'box', zeroblob(32), 1);"
    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
    " VALUES ('laptop', 'unix', zeroblob(32), 0, 'active', 1);";

static const char WRONG[] =
    "SELECT count(*) FROM context_ask WHERE uid <> 7 OR root NOT GLOB '/?*'"
    " OR instr(root || '/', '/../') OR instr(root || '/', '/./') OR instr(root, '//')"
    " OR terms IS NULL OR length(terms) - length(replace(terms, char(10), '')) <> 7"
    " OR instr(name || root, char(10)) OR instr(name || root, char(27))"
    " OR root = '/proc' OR root GLOB '/proc/*' OR length(name) NOT BETWEEN 1 AND 64";

/* A database of its own in memory-backed /tmp, opened as the net actor opens it. */
static struct store *
database(void)
{
	static struct home home;
	struct refusal r;
	struct store *db;
	char dir[] = "/tmp/fuzz-context-XXXXXX", state[64], run[64];

	if (sodium_init() < 0 || mkdtemp(dir) == NULL)
		abort();
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(run, sizeof(run), "%s/run", dir);
	if (home_at(&home, state, run, HOME_BOX, true, &r) != 0 || migrate_up(&home, &r) < 0 ||
	    (db = store_open(&home, ROLE_MIGRATE, NULL, &r)) == NULL || store_begin(db) != 0 ||
	    store_exec(db, HOST) != 0 || store_commit(db) != 0)
		abort();
	store_close(db);
	if ((db = store_open(&home, ROLE_NET, NULL, &r)) == NULL)
		abort();
	return db;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct context_request request;
	static struct store *db;
	struct refusal r = {.code = ""};
	int64_t id;

	if (db == NULL)
		db = database();
	request.uid = 7;
	if (http_json_check((const char *)data, size, DEPTH, &r) != 0)
		return 0;
	if (context_read(db, (const char *)data, size, &request, &r) != 0) {
		if (strncmp(r.code, "context.", 8) != 0)
			abort();
		return 0;
	}
	if (store_begin(db) != 0)
		abort();
	if (context_ask(db, &request, &id) != 0) {
		if (strncmp(store_refusal(db)->code, "context.", 8) != 0)
			abort();
	} else if (stmt_value(store_sql(db, WRONG), -1) != 0) {
		abort();
	}
	store_rollback(db);
	return 0;
}
