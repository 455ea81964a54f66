/* fuzz_enroll.c: any bytes as a pairing code, and as the body of a box that comes in over a
 * network. */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/invitation.h"
#include "engine/store/migrate.h"
#include "net/host/enroll_form.h"
#include "net/http/json.h"

#define DEPTH 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char HOST[] = "INSERT INTO box (id, name, role, identity_key, created_at)"
			   " VALUES (1, 'host-a', 'host', zeroblob(32), 1);";

/* A database of its own in memory-backed /tmp, opened as the net actor opens it. */
static struct store *
database(void)
{
	static struct home home;
	struct refusal r;
	struct store *db;
	char dir[] = "/tmp/fuzz-enroll-XXXXXX", state[64], run[64];

	if (sodium_init() < 0 || mkdtemp(dir) == NULL)
		abort();
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(run, sizeof(run), "%s/run", dir);
	if (home_at(&home, state, run, HOME_HOST, true, &r) != 0 || migrate_up(&home, &r) < 0 ||
	    (db = store_open(&home, ROLE_MIGRATE, NULL, &r)) == NULL || store_begin(db) != 0 ||
	    store_exec(db, HOST) != 0 || store_commit(db) != 0)
		abort();
	store_close(db);
	if ((db = store_open(&home, ROLE_NET, NULL, &r)) == NULL)
		abort();
	return db;
}

/* What is taken for a code is the code of what it says. */
static void
code(struct store *db, const char *text, size_t len)
{
	char again[CODE_MAX + 1];
	struct pairing_code facts;

	if (code_read(db, text, len, &facts) != 0) {
		if (strcmp(store_refusal(db)->code, "code.invalid") != 0)
			abort();
		return;
	}
	if ((facts.nendpoints == 0) == (facts.path[0] == '\0') ||
	    code_make(db, &facts, again) != 0 || strlen(again) != len ||
	    memcmp(again, text, len) != 0)
		abort();
}

/* The first byte says which; so does a code's text in base64 whose JSON is given plainly. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct store *db;
	static char text[4 * CODE_MAX];
	struct enroll_form form;
	struct refusal r = {.code = ""};

	if (db == NULL)
		db = database();
	if (size == 0)
		return 0;
	if (data[0] == 'c') {
		code(db, (const char *)data + 1, size - 1);
		if (size - 1 < CODE_MAX) {
			memcpy(text, "bst_", 4);
			sodium_bin2base64(text + 4, sizeof(text) - 4, data + 1, size - 1,
			    sodium_base64_VARIANT_URLSAFE_NO_PADDING);
			code(db, text, strlen(text));
		}
		return 0;
	}
	if (http_json_check((const char *)data + 1, size - 1, DEPTH, &r) != 0)
		return 0;
	if (enroll_form_read(db, (const char *)data + 1, size - 1, data[0] == 'n', &form, &r) ==
	    0) {
		if ((form.proof != NULL) != (data[0] == 'n') || form.e.box_name == NULL ||
		    (form.proof == NULL) != (form.e.lane != NULL))
			abort();
	} else if (strcmp(r.code, "code.invalid") != 0 && strcmp(r.code, "box.proof") != 0) {
		abort();
	}
	enroll_form_free(&form);
	return 0;
}
