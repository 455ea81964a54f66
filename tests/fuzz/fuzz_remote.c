/* fuzz_remote.c: any bytes as the secret of another machine, as an address, and as a login's file.
 */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/remote.h"
#include "engine/store/migrate.h"
#include "shell/remote.h"

#define TEXT_MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct key *key;

/* A database of its own, opened as the net actor opens it. */
static struct store *
database(void)
{
	static struct home home;
	char dir[] = "/tmp/fuzz-remote-XXXXXX", state[64], run[64], path[96];
	struct refusal r;
	struct store *db;

	if (sodium_init() < 0 || mkdtemp(dir) == NULL)
		abort();
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(run, sizeof(run), "%s/run", dir);
	snprintf(path, sizeof(path), "%s/key", dir);
	if (home_at(&home, state, run, HOME_BOX, true, &r) != 0 || migrate_up(&home, &r) < 0 ||
	    (db = store_open(&home, ROLE_NET, NULL, &r)) == NULL || key_create(path, &r) != 0 ||
	    (key = key_load_wire(path, &r)) == NULL)
		abort();
	return db;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct store *db;
	char text[TEXT_MAX + 1], origin[REMOTE_ORIGIN_MAX + 1];
	struct remote_login login;
	int64_t id;

	if (db == NULL)
		db = database();
	if (size > TEXT_MAX)
		size = TEXT_MAX;
	memcpy(text, data, size);
	text[size] = '\0';
	/* There is no credential: no text is right, and none names one. */
	if (remote_right(db, key, text, &id) || id != 0)
		abort();
	remote_origin(text, origin);
	if (strlen(origin) > REMOTE_ORIGIN_MAX)
		abort();
	if (remote_login_read(text, &login) == 0 &&
	    (strlen(login.token) != REMOTE_TOKEN_LEN || login.address[0] == '\0'))
		abort();
	return 0;
}
