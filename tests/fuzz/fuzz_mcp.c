/* fuzz_mcp.c: any message of an agent, before and in a session: an answer is JSON on one line, an
 * ask is one that the Host takes apart, and every call that is begun ends. */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/store/migrate.h"
#include "engine/store/store.h"
#include "net/host/mcp.h"
#include "net/http/json.h"

#define HELLO                                                                                      \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":" \
	"\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{}}}"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A Host with one box. */
static const char BORN[] =
    "INSERT INTO box (id, name, role, identity_key, created_at)"
    " VALUES (1, 'h', 'host', randomblob(32), 1);"
    "INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
    " VALUES ('vm', randomblob(32), now_ms(), now_ms() + 100000);"
    "UPDATE invitation SET state = 'redeemed', ended_at = now_ms();"
    "INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)"
    " VALUES ('vm', randomblob(32), '/l', 0, 1, now_ms());";

static struct store *db;
static struct mcp *mcp;
static int open_calls;

static void
must_be_json(const char *text, size_t len)
{
	if (http_json_check(text, len, JSON_DEPTH_MAX, NULL) != 0 ||
	    memchr(text, '\n', len) != NULL)
		abort();
}

static void
on_ask(void *ctx, struct mcp_call *call, const char *body, size_t len)
{
	static const struct refusal no = {.code = "call.offline", .why = "nobody is there"};

	(void)ctx;
	must_be_json(body, len);
	open_calls++;
	mcp_asked(call, 0, &no);
}

static void
on_forget(void *ctx, struct mcp_call *call)
{
	(void)ctx;
	(void)call;
}

static void
on_cancel(void *ctx, struct mcp_session *session, int64_t id)
{
	(void)ctx;
	(void)session;
	(void)id;
	abort(); /* no ask has a row here */
}

static void
on_send(void *ctx, struct mcp_session *session, struct mcp_call *call, const char *text, size_t len,
    bool last)
{
	(void)ctx;
	(void)session;
	(void)call;
	if (text != NULL)
		must_be_json(text, len);
	if (last)
		open_calls--;
}

static const struct mcp_hooks hooks = {on_ask, on_forget, on_cancel, on_send};

static void
start(void)
{
	char dir[] = "/tmp/bastion-fuzz-XXXXXX", state[64], run[64];
	struct refusal r = {.code = ""};
	struct home home;
	struct loop *loop;

	if (sodium_init() < 0 || mkdtemp(dir) == NULL)
		abort();
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(run, sizeof(run), "%s/run", dir);
	if (home_at(&home, state, run, HOME_HOST, true, &r) != 0 || migrate_up(&home, &r) < 0 ||
	    (db = store_open(&home, ROLE_MIGRATE, NULL, &r)) == NULL) {
		fprintf(stderr, "%s: %s\n", r.code, r.why);
		abort();
	}
	store_acting(db, "test:fuzz");
	if (store_begin(db) != 0 || store_exec(db, BORN) != 0 || store_commit(db) != 0 ||
	    (loop = loop_new()) == NULL || (mcp = mcp_new(db, loop, &hooks, NULL)) == NULL) {
		fprintf(stderr, "%s\n", store_refusal(db)->why);
		abort();
	}
}

static void
take(struct mcp_session *session, const char *text, size_t len)
{
	struct mcp_call *call;
	char *answer;

	if (mcp_take(session, text, len, &answer, &call) == MCP_CALL)
		mcp_begin(call);
	if (answer != NULL)
		must_be_json(answer, strlen(answer));
	free(answer);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *line, *end;
	struct mcp_session *session;

	if (mcp == NULL)
		start();
	if ((session = mcp_session_new(mcp, NULL)) == NULL)
		return 0;
	if (size > 0 && data[0] != '!')
		take(session, HELLO, strlen(HELLO));
	for (line = text; line < text + size; line = end + 1) {
		if ((end = memchr(line, '\n', (size_t)(text + size - line))) == NULL)
			end = text + size;
		take(session, line, (size_t)(end - line));
	}
	if (open_calls != 0 || mcp_session_calls(session) != 0)
		abort();
	mcp_session_free(session);
	return 0;
}
