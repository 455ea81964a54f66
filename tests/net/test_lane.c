/* test_lane.c: a Host that lies, repeats itself, stammers or floods, at the box's own socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/base32.h"
#include "engine/crypto/totp.h"
#include "engine/state/approval.h"
#include "engine/state/factor.h"
#include "engine/state/pairing.h"
#include "net/host/sign.h"
#include "tests/driver.h"
#include "tests/wire.h"

#define CROWD   20
#define FOLDERS 900 /* enough that an answer fills a socket */
#define ANY     -1

static struct driver d;
static struct key *host_key, *box_key;
static struct store_keys box_keys;
static struct factor_totp phone;
static struct wire_answer answer;
static char lane[512], small[128], large[128];

/* One ask; what is NULL or 0 is made right. */
struct ask {
	const char *method, *key, *time, *nonce, *signature, *body;
	size_t len;
	const char *signed_body; /* what the signature is for */
	int64_t shift;           /* of the clock, ms */
	const struct key *by;
};

struct counts {
	int64_t runs, approvals, refused, grants;
};

/*
 * Setting up.
 */

static struct store *
box_open(void)
{
	return driver_open(&d, DRIVER_BOX, ROLE_PERSON, &box_keys);
}

static struct key *
key_at(const char *path)
{
	struct refusal r = {0};
	struct key *key = key_load(path, &r);

	if (key == NULL)
		fail_msg("%s: %s", r.code, r.why);
	return key;
}

static struct key *
key_new(const char *name)
{
	struct refusal r = {0};
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", d.dir, name);
	if (key_create(path, &r) != 0)
		fail_msg("%s: %s", r.code, r.why);
	return key_at(path);
}

static void
pair(const char *name, const struct key *key, int64_t uid)
{
	unsigned char pk[32];
	struct store *db = box_open();
	struct pairing_offer offer = {.host = name, .host_key = pk, .peer_uid = uid};
	struct pairing_made made;

	key_public(key, KEY_IDENTITY, pk);
	if (pairing_add(db, &offer, &made) != 0)
		fail_msg("%s", store_refusal(db)->why);
	store_close(db);
}

static void
unpair(const char *name)
{
	struct pairing_end end;
	struct pairing pairing;
	struct store *db = box_open();

	if (pairing_pick(db, name, &pairing) != 0 || pairing_revoke(db, pairing.id, &end) != 0)
		fail_msg("%s", store_refusal(db)->why);
	store_close(db);
}

static void
tree_make(void)
{
	char path[512];
	int i;

	snprintf(small, sizeof(small), "%s/small", d.dir);
	snprintf(large, sizeof(large), "%s/large", d.dir);
	assert_int_equal(mkdir(small, 0700), 0);
	assert_int_equal(mkdir(large, 0700), 0);
	for (i = 0; i < FOLDERS; i++) {
		snprintf(path, sizeof(path), "%s/%03d-%0230d", large, i, 0);
		assert_int_equal(mkdir(path, 0700), 0);
	}
}

static int
serve(void **state)
{
	static struct said said;
	struct store *db;
	char path[128];

	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	snprintf(lane, sizeof(lane), "%s/lane.sock", d.run[DRIVER_BOX]);
	snprintf(path, sizeof(path), "%s/bastion.key", d.state[DRIVER_BOX]);
	box_key = key_at(path);
	key_public(box_key, KEY_IDENTITY, box_keys.identity);
	key_public(box_key, KEY_GRANT, box_keys.grant);
	box_keys.secret = box_key;
	box_keys.present = true;
	host_key = key_new("host.key");
	db = box_open();
	if (factor_add_totp(db, box_key, "phone", &phone) != 0)
		fail_msg("%s", store_refusal(db)->why);
	store_close(db);
	snprintf(d.totp, sizeof(d.totp), "%s", phone.secret);
	pair("tester", host_key, geteuid());
	tree_make();
	driver_does(&said, NULL, "settings", "set", "factor.steps", "10", NULL);
	driver_does(&said, NULL, "settings", "set", "folders.max", "1000", NULL);
	/* More than one Host gets wrong in ten minutes is wrong here. */
	driver_does(&said, NULL, "settings", "set", "quarantine.strikes", "1000000", NULL);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	key_free(host_key);
	key_free(box_key);
	driver_drop(&d);
	return 0;
}

/*
 * Asking.
 */

static void
ask_headers(const struct ask *ask, const char *body, size_t len, char *out, size_t size)
{
	char key[65], nonce[33], time[24], signature[SIGN_BASE64];
	const struct key *by = ask->by != NULL ? ask->by : host_key;
	unsigned char pk[32];
	struct sign_request request = {.method = ask->method != NULL ? ask->method : "POST",
	    .path = "/v1/ops",
	    .time = clock_now() + ask->shift,
	    .nonce = ask->nonce != NULL ? ask->nonce : nonce,
	    .body = body,
	    .len = len};

	key_public(by, KEY_IDENTITY, pk);
	sodium_bin2hex(key, sizeof(key), pk, sizeof(pk));
	random_hex(nonce);
	snprintf(time, sizeof(time), "%" PRId64, request.time);
	assert_int_equal(sign_make(by, &request, signature), 0);
	snprintf(out, size,
	    "Bastion-Key: %s\r\nBastion-Time: %s\r\nBastion-Nonce: %s\r\nBastion-Signature: %s\r\n",
	    ask->key != NULL ? ask->key : key, ask->time != NULL ? ask->time : time, request.nonce,
	    ask->signature != NULL ? ask->signature : signature);
}

/* Send it; the answer is still to be read from the socket. */
static int
ask_send(const struct ask *ask)
{
	const char *body =
	    ask->body != NULL ? ask->body : "{\"op\":\"observe:logins\",\"args\":[]}";
	size_t len = ask->len != 0 ? ask->len : strlen(body);
	char headers[4096];
	int fd = wire_dial(lane);

	ask_headers(ask, ask->signed_body != NULL ? ask->signed_body : body,
	    ask->signed_body != NULL ? strlen(ask->signed_body) : len, headers, sizeof(headers));
	wire_request(fd, ask->method != NULL ? ask->method : "POST", "/v1/ops", headers, body, len);
	return fd;
}

static int
ask_make(const struct ask *ask)
{
	int fd = ask_send(ask);

	wire_take(fd, &answer);
	close(fd);
	return answer.status;
}

static const char *
body_of(char *out, size_t size, const char *path, const char *more)
{
	snprintf(out, size, "{\"op\":\"observe:folders\",\"args\":[\"%s\",\"1\"]%s}", path, more);
	return out;
}

static void
approve_last(void)
{
	struct approval_answer yes = {
	    .id = driver_question(&d), .uid = 0, .name = "root", .key = box_key};
	unsigned char digest[APPROVAL_DIGEST];
	struct store *db;
	struct stmt *q;
	char code[8];
	int64_t grant;

	driver_code(&d, code);
	code[6] = '\0';
	db = box_open();
	assert_non_null(q = store_sql(db, "SELECT digest FROM approval WHERE id = :id"));
	stmt_int(q, ":id", yes.id);
	assert_int_equal(stmt_step(q), 1);
	memcpy(digest, stmt_get_blob(q, 0, sizeof(digest)), sizeof(digest));
	stmt_done(q);
	yes.digest = digest;
	yes.code = code;
	if (approval_approve(db, &yes, &grant) != 0)
		fail_msg("%s: %s", store_refusal(db)->code, store_refusal(db)->why);
	store_close(db);
}

/* A grant for the folders below ${path}. */
static void
grant_folders(const char *path, int uses)
{
	char body[512], more[64];

	snprintf(more, sizeof(more), ",\"uses\":%d,\"anew\":true", uses);
	ask_make(&(struct ask){.body = body_of(body, sizeof(body), path, more)});
	assert_string_equal(answer.refused, "approval.needed");
	approve_last();
}

static void
count(struct counts *c)
{
	c->runs = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run");
	c->approvals = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM approval");
	c->refused = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM refused");
	c->grants = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use");
}

/* What is held back changes nothing, and leaves as many rows of refused as ${rows} says. */
static void
refused(const struct ask *ask, int status, const char *code, int rows)
{
	struct counts before, after;
	char text[96];

	count(&before);
	ask_make(ask);
	if (strcmp(answer.refused, code) != 0 || (status != ANY && answer.status != status))
		fail_msg("%s: %d %s instead of %d %s: %s", ask->body != NULL ? ask->body : "",
		    answer.status, answer.refused, status, code, answer.body);
	snprintf(text, sizeof(text), "{\"error\":{\"code\":\"%s\"", code);
	assert_true(strncmp(answer.body, text, strlen(text)) == 0);
	count(&after);
	assert_int_equal(after.runs, before.runs);
	assert_int_equal(after.approvals, before.approvals);
	assert_int_equal(after.grants, before.grants);
	if (after.refused - before.refused != rows)
		fail_msg("%s left %d rows instead of %d", code,
		    (int)(after.refused - before.refused), rows);
	if (rows > 0) {
		driver_text(&d, DRIVER_BOX, text, sizeof(text),
		    "SELECT code FROM refused ORDER BY id DESC LIMIT 1");
		assert_string_equal(text, code);
	}
}

/*
 * Who asks.
 */

/* LN-1: a request that lacks a part of the signature, or has it in another form, is nobody's. */
static void
unsigned_requests_are_refused(void **state)
{
	static const char *const lines[] = {
	    "Bastion-Key", "Bastion-Time", "Bastion-Nonce", "Bastion-Signature"};
	char headers[4096], *at;
	size_t i;

	(void)state;
	assert_int_equal(wire_ask(lane, "POST", "/v1/ops", "", "{}", 2, &answer), 403);
	assert_string_equal(answer.refused, "lane.signature");
	for (i = 0; i < 4; i++) {
		ask_headers(&(struct ask){0}, "{}", 2, headers, sizeof(headers));
		at = strstr(headers, lines[i]);
		memmove(at, strchr(at, '\n') + 1, strlen(strchr(at, '\n') + 1) + 1);
		assert_int_equal(wire_ask(lane, "POST", "/v1/ops", headers, "{}", 2, &answer), 403);
		assert_string_equal(answer.refused, "lane.signature");
	}
	refused(&(struct ask){.key = "00"}, 403, "lane.signature", 0);
	refused(
	    &(struct ask){.nonce = "0123456789ABCDEF0123456789ABCDEF"}, 403, "lane.signature", 0);
}

/* LN-2: a key that is not paired here asks in vain, however well it signs. */
static void
unknown_key_is_refused(void **state)
{
	struct key *other = key_new("other.key");

	(void)state;
	refused(&(struct ask){.by = other}, 403, "lane.host", 0);
	key_free(other);
}

/* LN-3: the key of a paired Host over another's signature, another body, time, nonce or method. */
static void
bad_signatures_are_refused(void **state)
{
	struct key *other = key_new("forger.key");
	char key[65];
	unsigned char pk[32];

	(void)state;
	key_public(host_key, KEY_IDENTITY, pk);
	sodium_bin2hex(key, sizeof(key), pk, sizeof(pk));
	refused(&(struct ask){.by = other, .key = key}, 403, "lane.signature", 1);
	refused(&(struct ask){.signed_body = "{\"op\":\"observe:logins\",\"args\":[\"1\"]}"}, 403,
	    "lane.signature", 1);
	refused(&(struct ask){.time = "1"}, 403, "lane.signature", 1);
	refused(&(struct ask){.signature = ""}, 403, "lane.signature", 1);
	key_free(other);
}

/* Ways to write a signature that is not the one way: NULL behind the last. */
static const char *
misspelt(int i, const char *good, char odd[256])
{
	size_t at = strcspn(good, "/+");

	snprintf(odd, 256, "%s", good);
	switch (i) {
	case 0: /* the last digit has bits that count for nothing */
		odd[85]++;
		return odd;
	case 1: /* a byte that an old libsodium takes for '/' */
		odd[at < 88 ? at : 0] = '\xff';
		return odd;
	case 2: /* base64url */
		odd[at < 88 ? at : 0] = '_';
		return odd;
	case 3:
		odd[87] = '\0';
		return odd;
	case 4:
		odd[86] = '\0';
		return odd;
	case 5:
		return strcat(odd, "=");
	case 6:
		return strcat(odd, "AAAA");
	case 7:
		snprintf(odd, 256, "%.44s\t%s", good, good + 44);
		return odd;
	default:
		return NULL;
	}
}

/* LN-4: a signature has one spelling: base64 in other clothes is refused, as is one that is cut or
 * goes on. */
static void
signatures_have_one_spelling(void **state)
{
	static const char body[] = "{\"op\":\"observe:logins\",\"args\":[]}";
	char nonce[33], time[24], good[SIGN_BASE64], odd[256];
	struct sign_request request = {
	    .method = "POST", .path = "/v1/ops", .nonce = nonce, .body = body, .len = strlen(body)};
	int i = -1;

	(void)state;
	do {
		i++;
		random_hex(nonce);
		request.time = clock_now();
		snprintf(time, sizeof(time), "%" PRId64, request.time);
		assert_int_equal(sign_make(host_key, &request, good), 0);
		if (misspelt(i, good, odd) != NULL)
			refused(
			    &(struct ask){
				.time = time, .nonce = nonce, .signature = odd, .body = body},
			    403, "lane.signature", 1);
	} while (misspelt(i, good, odd) != NULL);
	assert_int_equal(i, 8);
}

/* LN-5: a request that was signed long ago, or is signed for later, is refused. */
static void
other_times_are_refused(void **state)
{
	(void)state;
	refused(&(struct ask){.shift = -61000}, 403, "lane.time", 1);
	refused(&(struct ask){.shift = 61000}, 403, "lane.time", 1);
	refused(&(struct ask){.shift = INT64_C(-1800000000000)}, 403, "lane.time", 1);
	refused(&(struct ask){.shift = INT64_C(4000000000000000)}, 403, "lane.time", 1);
}

/* LN-6: what was asked once is not asked again with the same nonce, whether it ran or not. */
static void
replayed_nonce_is_refused(void **state)
{
	char body[512], nonce[33];

	(void)state;
	grant_folders(small, 2);
	random_hex(nonce);
	body_of(body, sizeof(body), small, "");
	assert_int_equal(ask_make(&(struct ask){.body = body, .nonce = nonce}), 200);
	assert_non_null(strstr(answer.body, "{\"x\":0}"));
	refused(&(struct ask){.body = body, .nonce = nonce}, 409, "op.replayed", 1);
	assert_int_equal(ask_make(&(struct ask){.body = body}), 200);
	refused(&(struct ask){.body = body, .nonce = nonce}, 409, "op.replayed", 1);
}

/* In a process of another user: dial the lane; the exit code says what came back. */
static int
as_nobody(void)
{
	static const char get[] = "GET /v1/openapi.json HTTP/1.1\r\nHost: b\r\n\r\n";
	pid_t pid = fork();
	int status, fd;
	char byte;

	if (pid == 0) {
		if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
			_exit(3);
		fd = wire_dial(lane);
		wire_send(fd, get, sizeof(get) - 1);
		_exit(recv(fd, &byte, 1, 0) == 1 ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

/* LN-7: another user of the machine gets no word out of the lane, though the way to it were open.
 */
static void
other_users_are_not_heard(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("only root can become another user\n");
		skip();
	}
	assert_int_equal(chmod(d.dir, 0755), 0);
	assert_int_equal(chmod(d.run[DRIVER_BOX], 0755), 0);
	assert_int_equal(chmod(lane, 0666), 0);
	assert_int_equal(as_nobody(), 0);
	assert_int_equal(chmod(lane, 0600), 0);
	assert_int_equal(chmod(d.run[DRIVER_BOX], 0700), 0);
	assert_int_equal(chmod(d.dir, 0700), 0);
}

/* LN-8: a Host that paired as another user than the one who asks now is refused. */
static void
other_peer_than_paired_is_refused(void **state)
{
	(void)state;
	unpair("tester");
	pair("tester", host_key, (int64_t)geteuid() + 1);
	refused(&(struct ask){0}, 403, "lane.peer", 1);
	unpair("tester");
	pair("tester", host_key, geteuid());
	ask_make(&(struct ask){0});
	assert_string_equal(answer.refused, "approval.needed");
}

static void
lenient(sqlite3_context *c, int n, sqlite3_value **v)
{
	(void)n;
	sqlite3_result_value(c, v[0]);
}

/* Give the pairing of "tester" an endpoint that no version takes any more. */
static void
endpoint_spoil(void)
{
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_MIGRATE, &box_keys);

	assert_int_equal(
	    sqlite3_create_function(store_handle(db), "endpoint_text", 1,
		SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, NULL, lenient, NULL, NULL),
	    SQLITE_OK);
	assert_int_equal(store_begin(db), 0);
	assert_int_equal(
	    store_exec(db, "INSERT INTO pairing_endpoint SELECT id, 1, '0.0.0.0:51820' FROM pairing"
			   " WHERE host_name = 'tester'"),
	    0);
	assert_int_equal(store_commit(db), 0);
	store_close(db);
}

/* EP-33, EP-34, EP-36, EP-49 to EP-51: a pairing with a bad endpoint is not served, and the Host
 * hears no place of this machine; the person reads why, takes it back, and pairs anew. */
static void
invalid_pairing_is_shown_and_not_served(void **state)
{
	static struct said said;
	struct ask catalog = {.method = "GET", .body = ""};

	(void)state;
	endpoint_spoil();
	refused(&(struct ask){0}, 403, "pairing.invalid", 1);
	assert_non_null(strstr(answer.body, "not served"));
	assert_null(strstr(answer.body, d.state[DRIVER_BOX]));
	refused(&catalog, 403, "pairing.invalid", 0);
	driver_does(&said, NULL, "status", NULL);
	assert_non_null(strstr(said.out, "tester  [invalid]: its endpoint 1"));
	assert_non_null(strstr(said.out, d.state[DRIVER_BOX]));
	unpair("tester");
	driver_does(&said, NULL, "status", NULL);
	assert_null(strstr(said.out, "[invalid]"));
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing_endpoint"), 0);
	pair("tester", host_key, geteuid());
	ask_make(&(struct ask){0});
	assert_string_equal(answer.refused, "approval.needed");
}

/*
 * What is asked.
 */

/* LN-9: a body that is not the JSON of an ask is refused by name and never repeated. */
static void
bodies_that_are_no_ask_are_refused(void **state)
{
	static const struct {
		const char *body, *code;
		int status;
	} cases[] = {
	    {"", "json.invalid", 400},
	    {"secretword", "json.invalid", 400},
	    {"{\"op\":\"secretword\"", "json.invalid", 400},
	    {"{\"op\":\"observe:logins\",\"args\":[]} secretword", "json.invalid", 400},
	    {"{\"op\":\"observe:logins\",\"args\":[\"\\u0000secretword\"]}", "json.invalid", 400},
	    {"{\"op\":\"observe:logins\",\"args\":[\"\\ud800\"]}", "json.invalid", 400},
	    {"{\"op\":\"observe:logins\",\"args\":[\"\xff\"]}", "json.invalid", 400},
	    {"{\"op\":\"observe:logins\",\"op\":\"observe:cert\",\"args\":[]}", "json.duplicate",
		400},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"\\u0061rgs\":[]}", "json.duplicate", 400},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"dr\\u0079\":true}", "json.invalid", 400},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"bound\\u0073\":{\"a\":{\"max\":1}}}",
		"json.invalid", 400},
	    {"[]", "op.args", 422},
	    {"7", "op.args", 422},
	    {"null", "op.args", 422},
	    {"{}", "op.args", 422},
	    {"{\"op\":\"observe:logins\"}", "op.args", 422},
	    {"{\"args\":[]}", "op.args", 422},
	    {"{\"op\":7,\"args\":[]}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":{}}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":\"secretword\"}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[24]}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[null]}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[[]]}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"secretword\":1}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"uses\":\"1\"}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"uses\":1.5}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"ttl_ms\":true}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"anew\":1}", "op.args", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"anew\":\"true\"}", "op.args", 422},
	    {"{\"op\":\"observe:secretword\",\"args\":[]}", "op.unknown", 404},
	    {"{\"op\":\"\",\"args\":[]}", "op.unknown", 404},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"uses\":-1}", "approval.uses", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"uses\":1001}", "approval.uses", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"uses\":9223372036854775807}",
		"approval.uses", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"ttl_ms\":999}", "approval.ttl", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"ttl_ms\":1500}", "approval.ttl", 422},
	    {"{\"op\":\"observe:logins\",\"args\":[],\"ttl_ms\":2592000001}", "approval.ttl", 422},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		refused(&(struct ask){.body = cases[i].body}, cases[i].status, cases[i].code, 1);
		assert_null(strstr(answer.body, "secretword"));
	}
}

/* LN-10: a body that is nested too deep, has a NUL in it, or is too large. */
static void
bodies_out_of_bounds_are_refused(void **state)
{
	static char text[70001];
	char deep[256] = "{\"op\":\"observe:logins\",\"args\":";
	int i;

	(void)state;
	for (i = 0; i < 40; i++)
		strcat(deep, "[");
	for (i = 0; i < 40; i++)
		strcat(deep, "]");
	strcat(deep, "}");
	refused(&(struct ask){.body = deep}, 400, "json.depth", 1);
	refused(&(struct ask){.body = "{\"op\":\"observe:logins\",\"args\":[]}\0 ", .len = 36}, 400,
	    "json.invalid", 1);
	memset(text, ' ', 70000);
	memcpy(text, "{\"op\":\"observe:logins\",\"args\":[]}", 33);
	/* That is refused before it is read, so nobody is known yet. */
	refused(&(struct ask){.body = text}, 413, "http.too_large", 0);
}

/* LN-11: arguments meet their walls before they meet a person; the refusal never says the value. */
static void
arguments_outside_their_walls_are_refused(void **state)
{
	static const struct {
		const char *op, *args, *code;
	} cases[] = {
	    {"observe:folders", "[]", "observe.args"},
	    {"observe:folders", "[\"/secretword\",\"1\",\"2\"]", "observe.args"},
	    {"observe:folders", "[\"secretword\"]", "observe.path"},
	    {"observe:folders", "[\"/secretword/../etc\"]", "observe.path"},
	    {"observe:folders", "[\"/proc/secretword\"]", "observe.path"},
	    {"observe:folders", "[\"//./proc\"]", "observe.path"},
	    {"observe:folders", "[\"/secretword\\n\"]", "observe.path"},
	    {"observe:folders", "[\"/usr\",\"secretword\"]", "observe.depth"},
	    {"observe:folders", "[\"/usr\",\"0\"]", "observe.depth"},
	    {"observe:folders", "[\"/usr\",\"4\"]", "observe.depth"},
	    {"observe:folders", "[\"/usr\",\"18446744073709551617\"]", "observe.depth"},
	    {"observe:journal", "[]", "observe.args"},
	    {"observe:journal", "[\"--secretword\"]", "observe.unit"},
	    {"observe:journal", "[\"secretword; id\"]", "observe.unit"},
	    {"observe:journal", "[\"ssh\",\"secretword\"]", "observe.minutes"},
	    {"observe:logins", "[\"secretword\"]", "observe.hours"},
	    {"observe:logins", "[\"169\"]", "observe.hours"},
	    {"observe:cert", "[\"secretword\"]", "observe.port"},
	    {"observe:cert", "[\"0\"]", "observe.port"},
	    {"observe:cert", "[\"65536\"]", "observe.port"},
	    {"observe:cert", "[\"443\",\"secretword word\"]", "observe.name"},
	};
	char body[512];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(
		    body, sizeof(body), "{\"op\":\"%s\",\"args\":%s}", cases[i].op, cases[i].args);
		refused(&(struct ask){.body = body}, 422, cases[i].code, 1);
		assert_null(strstr(answer.body, "secretword"));
	}
}

/* LN-12: one ask has one form: what is spelt in another way is the same question, and uses the same
 * grant. */
static void
spellings_of_an_ask_are_one(void **state)
{
	char body[512], other[512];

	(void)state;
	grant_folders(small, 3);
	snprintf(other, sizeof(other),
	    "{ \"args\" : [\"/.//%s/./\", \"1\"], \"op\":\"observe:\\u0066olders\" }", small);
	assert_int_equal(ask_make(&(struct ask){.body = other}), 200);
	assert_int_equal(
	    ask_make(&(struct ask){.body = body_of(body, sizeof(body), small, "")}), 200);
	/* LN-13: while it is held, other arguments are outside of it. */
	refused(
	    &(struct ask){.body = body_of(body, sizeof(body), "/usr", "")}, 403, "grant.args", 1);
	assert_int_equal(
	    ask_make(&(struct ask){.body = body_of(body, sizeof(body), small, "")}), 200);
}

/*
 * Answers.
 */

/* The answer is whole, ends with exit 0, and is what the database keeps of the newest run but
 * ${back}. */
static void
answer_is_kept(int back)
{
	static char kept[WIRE_BODY_MAX];

	assert_int_equal(answer.status, 200);
	assert_true(answer.whole);
	driver_text(&d, DRIVER_BOX, kept, sizeof(kept),
	    "SELECT group_concat(frame, char(10)) || char(10) || '{\"x\":0}' || char(10)"
	    " FROM (SELECT frame FROM op_output"
	    "   WHERE op_run_id = (SELECT max(id) - %d FROM op_run) ORDER BY seq)",
	    back);
	assert_string_equal(answer.body, kept);
}

/* Read so many bytes and no more. */
static void
sip(int fd, size_t len)
{
	char byte;

	for (; len > 0; len--)
		assert_int_equal(recv(fd, &byte, 1, 0), 1);
}

/* ST-1: who reads slowly gets everything, and nobody waits for them. */
static void
slow_reader_gets_everything(void **state)
{
	char body[512];
	int fd;

	(void)state;
	grant_folders(large, 4);
	body_of(body, sizeof(body), large, "");
	fd = ask_send(&(struct ask){.body = body});
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_runs");
	assert_int_equal(ask_make(&(struct ask){.body = body}), 200);
	answer_is_kept(0);
	wire_take(fd, &answer);
	close(fd);
	assert_true(answer.len > 250000);
	answer_is_kept(1);
}

/* ST-2: who goes away in the middle of an answer takes nothing with them: the run is done. */
static void
vanished_reader_does_not_stop_the_run(void **state)
{
	char body[512];
	int fd;

	(void)state;
	body_of(body, sizeof(body), large, "");
	fd = ask_send(&(struct ask){.body = body});
	sip(fd, 2000);
	close(fd);
	driver_until(
	    &d, DRIVER_BOX, 1, "SELECT state = 'done' FROM op_run ORDER BY id DESC LIMIT 1");
	/* Or before the first byte of it. */
	fd = ask_send(&(struct ask){.body = body});
	close(fd);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_runs");
	assert_int_equal(wire_ask(lane, "GET", "/v1/openapi.json", "", "", 0, &answer), 200);
}

/* ST-3: two who read at once, in turns, get what belongs to them. */
static void
two_readers_do_not_mix(void **state)
{
	char body[512];
	int one, two;

	(void)state;
	grant_folders(large, 2);
	body_of(body, sizeof(body), large, "");
	one = ask_send(&(struct ask){.body = body});
	grant_folders(small, 1);
	two = ask_send(&(struct ask){.body = body_of(body, sizeof(body), small, "")});
	wire_take(two, &answer);
	close(two);
	assert_int_equal(answer.status, 200);
	assert_non_null(strstr(answer.body, small));
	assert_null(strstr(answer.body, large));
	wire_take(one, &answer);
	close(one);
	assert_int_equal(answer.status, 200);
	assert_non_null(strstr(answer.body, large));
	assert_null(strstr(answer.body, small));
}

/* ST-4: twenty at once under a grant of twelve: twelve are answered, eight are told no, none is run
 * twice. */
static void
crowd_is_served_within_the_grant(void **state)
{
	int fd[CROWD], i, served = 0, held = 0;
	char body[512];

	(void)state;
	grant_folders(small, 12);
	body_of(body, sizeof(body), small, "");
	for (i = 0; i < CROWD; i++)
		fd[i] = ask_send(&(struct ask){.body = body});
	for (i = 0; i < CROWD; i++) {
		wire_take(fd[i], &answer);
		close(fd[i]);
		assert_true(answer.whole);
		served += answer.status == 200 && strstr(answer.body, "{\"x\":0}\n") != NULL;
		held += answer.status == 403;
	}
	assert_int_equal(served, 12);
	assert_int_equal(held, CROWD - 12);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM grant_use"
			     " WHERE grant_id = (SELECT max(id) FROM grant)"),
	    12);
}

/* LN-14: the same nonce many times at once runs once. */
static void
nonce_races_with_itself_in_vain(void **state)
{
	int fd[CROWD], i, served = 0;
	char body[512], nonce[33];

	(void)state;
	grant_folders(small, CROWD);
	body_of(body, sizeof(body), small, "");
	random_hex(nonce);
	for (i = 0; i < CROWD; i++)
		fd[i] = ask_send(&(struct ask){.body = body, .nonce = nonce});
	for (i = 0; i < CROWD; i++) {
		wire_take(fd[i], &answer);
		close(fd[i]);
		served += answer.status == 200;
		assert_true(answer.status == 200 || strcmp(answer.refused, "op.replayed") == 0);
	}
	assert_int_equal(served, 1);
}

/* LN-15: a pairing that was taken back: its key is nobody's, and what was granted is gone. */
static void
revoked_pairing_asks_in_vain(void **state)
{
	char body[512];

	(void)state;
	grant_folders(small, 5);
	unpair("tester");
	refused(&(struct ask){.body = body_of(body, sizeof(body), small, "")}, 403, "lane.host", 0);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM live_grants"), 0);
	pair("tester", host_key, geteuid());
	refused(&(struct ask){.body = body, .signature = "AAAA"}, 403, "lane.signature", 1);
	ask_make(&(struct ask){.body = body});
	assert_string_equal(answer.refused, "approval.needed");
}

/*
 * Waiting for a person.
 */

/* Read on from ${fd} until ${text} has come; all that came is in ${seen}. */
static void
until(int fd, char *seen, size_t size, const char *text)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t len = strlen(seen);
	ssize_t n;

	while (strstr(seen, text) == NULL) {
		assert_int_equal(poll(&p, 1, DRIVER_WAIT_MS), 1);
		n = recv(fd, seen + len, size - 1 - len, 0);
		if (n <= 0)
			fail_msg("ended without %s: %s", text, seen);
		seen[len += (size_t)n] = '\0';
	}
}

/* LN-W1: an ask that waits says for what, and runs once that is approved; its nonce is used once,
 * also by two that wait at the same time. */
static void
an_ask_that_waits_runs_once(void **state)
{
	static char seen[2][65536];
	char body[512];
	struct ask ask = {.nonce = "00112233445566778899aabbccddeeff",
	    .body =
		body_of(body, sizeof(body), small, ",\"uses\":3,\"anew\":true,\"wait_ms\":60000")};
	int64_t runs = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run");
	int fd[2], i, replayed = 0;

	(void)state;
	for (i = 0; i < 2; i++) {
		seen[i][0] = '\0';
		fd[i] = ask_send(&ask);
		until(fd[i], seen[i], sizeof(seen[i]), "{\"q\":");
	}
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), runs);
	approve_last();
	for (i = 0; i < 2; i++) {
		until(fd[i], seen[i], sizeof(seen[i]), "{\"x\":");
		replayed += strstr(seen[i], "op.replayed") != NULL;
		close(fd[i]);
	}
	assert_int_equal(replayed, 1);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), runs + 1);
}

/* LN-W2: how long it may wait is a number, and never longer than the box allows; a Host that has
 * gone waits for nothing. */
static void
waits_are_numbers_and_bounded(void **state)
{
	static char seen[65536];
	char body[512];
	int64_t runs;
	int fd;

	(void)state;
	refused(&(struct ask){.body = body_of(body, sizeof(body), "/usr", ",\"wait_ms\":\"1\"")},
	    422, "op.args", 1);
	refused(&(struct ask){.body = body_of(body, sizeof(body), "/usr", ",\"wait_ms\":1.5")}, 422,
	    "op.args", 1);
	driver_run(NULL, NULL, "settings", "set", "lane.wait_ms", "200", NULL);
	seen[0] = '\0';
	fd = ask_send(&(struct ask){.body = body_of(body, sizeof(body), "/usr/bin",
					",\"anew\":true,\"wait_ms\":9223372036854775807")});
	until(fd, seen, sizeof(seen), "{\"x\":77}");
	assert_non_null(strstr(seen, "\"code\":\"approval.needed\""));
	close(fd);
	driver_run(NULL, NULL, "settings", "set", "lane.wait_ms", "3600000", NULL);
	ask_make(&(struct ask){
	    .body = body_of(body, sizeof(body), "/usr/bin", ",\"anew\":true,\"wait_ms\":-5")});
	assert_string_equal(answer.refused, "approval.needed");
	seen[0] = '\0';
	fd = ask_send(&(struct ask){
	    .body = body_of(body, sizeof(body), "/usr/lib", ",\"anew\":true,\"wait_ms\":60000")});
	until(fd, seen, sizeof(seen), "{\"q\":");
	close(fd);
	runs = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run");
	approve_last();
	ask_make(&(struct ask){.body = body_of(body, sizeof(body), "/usr/bin", ",\"anew\":true")});
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), runs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unsigned_requests_are_refused),
	    cmocka_unit_test(unknown_key_is_refused),
	    cmocka_unit_test(bad_signatures_are_refused),
	    cmocka_unit_test(signatures_have_one_spelling),
	    cmocka_unit_test(other_times_are_refused),
	    cmocka_unit_test(replayed_nonce_is_refused),
	    cmocka_unit_test(other_users_are_not_heard),
	    cmocka_unit_test(other_peer_than_paired_is_refused),
	    cmocka_unit_test(invalid_pairing_is_shown_and_not_served),
	    cmocka_unit_test(bodies_that_are_no_ask_are_refused),
	    cmocka_unit_test(bodies_out_of_bounds_are_refused),
	    cmocka_unit_test(arguments_outside_their_walls_are_refused),
	    cmocka_unit_test(spellings_of_an_ask_are_one),
	    cmocka_unit_test(slow_reader_gets_everything),
	    cmocka_unit_test(vanished_reader_does_not_stop_the_run),
	    cmocka_unit_test(two_readers_do_not_mix),
	    cmocka_unit_test(crowd_is_served_within_the_grant),
	    cmocka_unit_test(nonce_races_with_itself_in_vain),
	    cmocka_unit_test(revoked_pairing_asks_in_vain),
	    cmocka_unit_test(an_ask_that_waits_runs_once),
	    cmocka_unit_test(waits_are_numbers_and_bounded),
	};

	return cmocka_run_group_tests(tests, serve, stop);
}
