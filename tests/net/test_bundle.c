/* test_bundle.c: repositories of another machine, over its connection: piece by piece, within
 * bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/state/remote.h"
#include "engine/state/tls_identity.h"
#include "net/http/client.h"
#include "net/http/tls.h"
#include "tests/driver.h"
#include "tests/program.h"
#include "tests/slower.h"

#define PIECE 65536

static struct driver d;
static struct said said;
static uint8_t pin[32];
static char place[32], work[128], token[REMOTE_TOKEN_LEN + 1], digest[65];
static char *bundle; /* of src, ${size} bytes */
static size_t size;
static struct {
	int status;
	char code[64], *body;
} answer;

static int
shell(const char *script)
{
	char command[2048];
	FILE *f;

	snprintf(command, sizeof(command), "set -e; cd %s; %s", d.dir, script);
	assert_non_null(f = popen(command, "we"));
	return pclose(f);
}

static void
add(const char *name, const char *verbs, char out[REMOTE_TOKEN_LEN + 1])
{
	driver_does(&said, NULL, "remote", "add", name, "--root", work, "--verbs", verbs, NULL);
	memcpy(out, said.out, REMOTE_TOKEN_LEN);
	out[REMOTE_TOKEN_LEN] = '\0';
}

static int
ask(const char *secret, const char *method, const char *path, const void *body, size_t len)
{
	char bearer[256], url[256];
	const struct http_field headers[] = {
	    {"Authorization", bearer}, {"Content-Type", "application/json"}, {NULL, NULL}};
	const struct tls_config config = {.pin = pin};
	struct http_request request = {.dial = place,
	    .method = method,
	    .url = url,
	    .headers = headers,
	    .body = body,
	    .body_len = len,
	    .connect_ms = 20000 * SLOWER,
	    .total_ms = 30000 * SLOWER,
	    .reply_max = 1 << 20};
	struct http_answer got = {.status = 0};
	struct refusal r = {.code = ""};

	free(answer.body);
	snprintf(bearer, sizeof(bearer), "Bearer %s", secret);
	snprintf(url, sizeof(url), "https://%s%s", TLS_BOX_NAME, path);
	assert_non_null(request.tls = tls_client_end(&config, &r));
	(void)http_ask(&request, &got, &r);
	tls_end_free(request.tls);
	answer.status = got.status;
	answer.body = got.body;
	snprintf(answer.code, sizeof(answer.code), "%s", r.code);
	return answer.status;
}

static void
is_refused(int status, const char *code)
{
	char member[96];

	snprintf(member, sizeof(member), "\"code\":\"%s\"", code);
	if (answer.status != status || answer.body == NULL || strstr(answer.body, member) == NULL)
		fail_msg("%d %s %s instead of %d %s", answer.status, answer.code, answer.body,
		    status, code);
}

/* Ask to copy; return the number of the copy, or 0. */
static int64_t
begin(const char *secret, const char *name, const char *folder, size_t bytes, const char *sha256)
{
	char body[1024];

	snprintf(body, sizeof(body),
	    "{\"name\":\"%s\",\"cwd\":\"%s\",\"size\":%zu,\"sha256\":\"%s\"}", name, folder, bytes,
	    sha256);
	return ask(secret, "POST", "/v1/bundles", body, strlen(body)) == 200
		   ? strtoll(strstr(answer.body, "\"id\":") + 5, NULL, 10)
		   : 0;
}

static int
give(const char *secret, int64_t id, size_t at, const char *data, size_t len)
{
	char path[96];

	snprintf(path, sizeof(path), "/v1/bundles/%" PRId64 "/data?at=%zu", id, at);
	return ask(secret, "POST", path, data, len);
}

static void
give_all(const char *secret, int64_t id, size_t from)
{
	size_t len;

	for (; from < size; from += len) {
		len = size - from < PIECE ? size - from : PIECE;
		while (give(secret, id, from, bundle + from, len) == 429)
			driver_pause();
		if (answer.status != 200)
			fail_msg("%d %s", answer.status, answer.body);
	}
}

/* What it is once it is no longer under way. */
static const char *
ends_as(const char *secret, int64_t id)
{
	static char state[16];
	int64_t end = driver_now() + DRIVER_WAIT_MS;
	char path[64];

	snprintf(path, sizeof(path), "/v1/bundles/%" PRId64, id);
	do {
		assert_int_equal(ask(secret, "GET", path, NULL, 0), 200);
		assert_int_equal(
		    sscanf(strstr(answer.body, "\"state\":\""), "\"state\":\"%15[a-z]", state), 1);
		driver_pause();
	} while (strcmp(state, "open") == 0 && driver_now() < end);
	return state;
}

static int
make(void **state)
{
	char path[128];
	uint8_t hash[32];
	struct stat st;
	FILE *f;
	int i;

	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	snprintf(place, sizeof(place), "127.0.0.1:%d", driver_port());
	snprintf(work, sizeof(work), "%s/work", d.dir);
	assert_int_equal(mkdir(work, 0755), 0);
	driver_does(&said, NULL, "remote", "listen", place, "--json", NULL);
	assert_int_equal(sodium_hex2bin(pin, sizeof(pin), strstr(said.out, "\"pin\":\"") + 7, 64,
			     NULL, NULL, NULL),
	    0);
	add("laptop", "bundle,command,list,attach", token);
	for (i = 0; i < 600 && ask(token, "GET", "/v1/sessions", NULL, 0) != 200; i++)
		driver_pause();
	assert_int_equal(answer.status, 200);
	assert_int_equal(
	    shell(
		"git init -q -b main src; cd src; git config user.email a@b; git config user.name n;"
		" echo one >f; head -c 200000 /dev/urandom >noise; git add .; git commit -qm one;"
		" git bundle create -q ../b --all"),
	    0);
	snprintf(path, sizeof(path), "%s/b", d.dir);
	assert_non_null(f = fopen(path, "re"));
	assert_int_equal(fstat(fileno(f), &st), 0);
	size = (size_t)st.st_size;
	assert_true(size > 3 * PIECE);
	assert_non_null(bundle = malloc(size));
	assert_int_equal(fread(bundle, 1, size, f), size);
	fclose(f);
	crypto_hash_sha256(hash, (const uint8_t *)bundle, size);
	sodium_bin2hex(digest, sizeof(digest), hash, sizeof(hash));
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	free(answer.body);
	answer.body = NULL;
	free(bundle);
	driver_drop(&d);
	return 0;
}

/* BU-08, RF-59: in pieces, over TLS, to its place; a second one replaces it, and the rows say which
 * is there. */
static void
a_repository_arrives(void **state)
{
	int64_t id, second;

	(void)state;
	assert_true((id = begin(token, "proj", work, size, digest)) > 0);
	give_all(token, id, 0);
	assert_string_equal(ends_as(token, id), "live");
	assert_non_null(strstr(answer.body, "/work/proj\""));
	assert_int_equal(shell("cmp src/noise work/proj/noise; test \"$(ls -A work)\" = proj"), 0);
	assert_int_equal(shell("rm work/proj/f"), 0);
	assert_true((second = begin(token, "proj", work, size, digest)) > id);
	give_all(token, second, 0);
	assert_string_equal(ends_as(token, second), "live");
	assert_non_null(strstr(answer.body, "\"generation\":2"));
	assert_string_equal(ends_as(token, id), "replaced");
	assert_int_equal(shell("test -f work/proj/f; test \"$(ls -A work)\" = proj"), 0);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM audit WHERE entity = 'remote_bundle'"
			     " AND action = 'asked' AND who GLOB 'remote:laptop(*)'"),
	    2);
	driver_does(&said, NULL, "remote", "copies", "--json", NULL);
	assert_non_null(strstr(said.out, "\"state\":\"replaced\""));
	assert_non_null(strstr(said.out, "\"state\":\"live\""));
	/* What is there outlives the session that brought it. */
	driver_does(&said, NULL, "session", "rm", "bundle-2", NULL);
	driver_does(&said, NULL, "session", "rm", "bundle-1", NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) * 10 + sum(state = 'live') FROM remote_bundles"),
	    11);
}

/* It goes on behind what is there; other bytes are another copy, and wait until this one is over.
 */
static void
goes_on(void **state)
{
	char other[65];
	int64_t id;

	(void)state;
	assert_true((id = begin(token, "cut", work, size, digest)) > 0);
	assert_int_equal(give(token, id, 0, bundle, PIECE), 200);
	assert_int_equal(begin(token, "cut", work, size, digest), id);
	assert_non_null(strstr(answer.body, "\"received\":65536,"));
	memset(other, '0', 64);
	other[64] = '\0';
	assert_int_equal(begin(token, "cut", work, size, other), 0);
	is_refused(409, "bundle.busy");
	assert_int_equal(begin(token, "cut", work, size - 1, digest), 0);
	is_refused(409, "bundle.busy");
	/* The same piece again, and one too far. */
	give(token, id, 0, bundle, PIECE);
	is_refused(409, "bundle.offset");
	give(token, id, PIECE + 1, bundle, PIECE);
	is_refused(409, "bundle.offset");
	give_all(token, id, PIECE);
	assert_string_equal(ends_as(token, id), "live");
	give(token, id, size, bundle, 1);
	is_refused(413, "bundle.size");
}

/* BU-11, BU-12: more than was said is not taken, other bytes are not unpacked. */
static void
other_bytes(void **state)
{
	int64_t id;

	(void)state;
	assert_true((id = begin(token, "few", work, 100, digest)) > 0);
	give(token, id, 0, bundle, 101);
	is_refused(413, "bundle.size");
	assert_int_equal(give(token, id, 0, bundle, 100), 200);
	assert_string_equal(ends_as(token, id), "failed");
	assert_non_null(strstr(answer.body, "bundle.digest"));
	assert_int_equal(shell("test ! -e work/few"), 0);
	give(token, id, 100, bundle, 1);
	assert_int_not_equal(answer.status, 200);
}

/* RF-58: what says nothing more holds no place. */
static void
who_says_nothing(void **state)
{
	int64_t id;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "remote.bundle_stall_ms", "300", NULL);
	assert_true((id = begin(token, "still", work, size, digest)) > 0);
	driver_does(&said, NULL, "settings", "set", "remote.bundle_stall_ms", "30000", NULL);
	assert_string_equal(ends_as(token, id), "failed");
	assert_non_null(strstr(answer.body, "nothing came"));
	give(token, id, 0, bundle, 1000);
	is_refused(409, "bundle.over");
	assert_int_equal(shell("test -z \"$(ls -A work | grep still)\""), 0);
}

/* BU-03, BU-04, BU-13: names that are paths, folders that are not the credential's. */
static void
names_and_folders(void **state)
{
	static const char *const good[] = {"proj-1", "a_b.c", "ABC123"};
	static const char *const bad[] = {
	    "", " ", ".", "..", "a/b", "a\\\\b", "a b", "a$b", "-x", ".staging-x", ".git"};
	char parent[160], long_name[201];
	int64_t id;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (begin(token, bad[i], work, size, digest) != 0 || answer.status != 422)
			fail_msg("%s: %d %s", bad[i], answer.status, answer.body);
	memset(long_name, 'a', 200);
	long_name[200] = '\0';
	assert_int_equal(begin(token, long_name, work, size, digest), 0);
	is_refused(422, "bundle.name");
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true((id = begin(token, good[i], work, 1, digest)) > 0);
		assert_int_equal(give(token, id, 0, "x", 1), 200);
		assert_string_equal(ends_as(token, id), "failed");
	}
	assert_int_equal(begin(token, "x", d.dir, size, digest), 0);
	is_refused(403, "remote.root");
	assert_int_equal(begin(token, "x", "/etc", size, digest), 0);
	is_refused(403, "remote.root");
	snprintf(parent, sizeof(parent), "%s/..", work);
	assert_int_equal(begin(token, "x", parent, size, digest), 0);
	is_refused(403, "remote.root");
	/* A link in the folder that leads out of it. */
	assert_int_equal(shell("mkdir out; ln -s ../out work/way"), 0);
	snprintf(parent, sizeof(parent), "%s/way", work);
	assert_true((id = begin(token, "x", parent, size, digest)) > 0);
	give(token, id, 0, bundle, PIECE);
	assert_string_equal(ends_as(token, id), "failed");
	assert_int_equal(shell("test -z \"$(ls -A out)\"; rm work/way"), 0);
}

/* BU-09, BU-10: without the verb, without a right secret, for another's copy: nothing. */
static void
who_may_not_copy(void **state)
{
	char other[REMOTE_TOKEN_LEN + 1], body[512];
	int64_t id;

	(void)state;
	assert_int_equal(begin("brs_0123456789abcdef_0", "x", work, size, digest), 0);
	is_refused(401, "remote.token");
	add("runs", "run,command,list,attach,send,cancel", other);
	assert_int_equal(begin(other, "x", work, size, digest), 0);
	is_refused(403, "remote.verb");
	assert_true((id = begin(token, "mine", work, size, digest)) > 0);
	give(other, id, 0, bundle, 10);
	is_refused(404, "bundle.unknown");
	driver_does(&said, NULL, "remote", "revoke", "runs", NULL);
	/* One that copies alone begins nothing else. */
	add("copies", "bundle", other);
	snprintf(body, sizeof(body), "{\"cwd\":\"%s\",\"argv\":[\"true\"]}", work);
	ask(other, "POST", "/v1/sessions", body, strlen(body));
	is_refused(403, "remote.verb");
	snprintf(body, sizeof(body),
	    "{\"name\":\"bundle-2\",\"cwd\":\"%s\",\"argv\":[\"true\"],\"input\":true}", work);
	ask(other, "POST", "/v1/sessions", body, strlen(body));
	is_refused(403, "remote.verb");
	/* Its end comes while it copies: nothing more is heard, and nothing is put in place. */
	assert_int_equal(give(token, id, 0, bundle, PIECE), 200);
	assert_true((id = begin(other, "late", work, size, digest)) > 0);
	assert_int_equal(give(other, id, 0, bundle, PIECE), 200);
	driver_does(&said, NULL, "remote", "revoke", "copies", NULL);
	give(other, id, PIECE, bundle + PIECE, PIECE);
	is_refused(401, "remote.token");
	driver_until(&d, DRIVER_BOX, 2,
	    "SELECT count(*) FROM remote_bundles WHERE name IN ('mine', 'late') AND state = 'open'");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT received FROM remote_bundle WHERE name = 'late'"),
	    PIECE);
	driver_does(&said, NULL, "session", "cancel", "bundle-1", NULL);
	driver_does(&said, NULL, "session", "cancel", "bundle-2", NULL);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM remote_bundles WHERE state = 'open'");
	assert_int_equal(shell("test -z \"$(ls -A work)\""), 0);
}

/* Sizes and counts are bounded. */
static void
bounds(void **state)
{
	int64_t a, b;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "remote.bundle_bytes", "1000000", NULL);
	assert_int_equal(begin(token, "x", work, 1000001, digest), 0);
	is_refused(413, "bundle.size");
	assert_int_equal(begin(token, "x", work, 0, digest), 0);
	is_refused(413, "bundle.size");
	assert_int_equal(begin(token, "x", work, size, "ABC"), 0);
	is_refused(422, "bundle.digest");
	assert_true((a = begin(token, "a", work, 10, digest)) > 0);
	assert_true((b = begin(token, "b", work, 10, digest)) > 0);
	assert_int_equal(begin(token, "c", work, 10, digest), 0);
	is_refused(429, "bundle.many");
	assert_int_equal(give(token, a, 0, bundle, 10), 200);
	assert_string_equal(ends_as(token, a), "failed");
	assert_int_equal(give(token, b, 0, bundle, 10), 200);
	assert_string_equal(ends_as(token, b), "failed");
	assert_true((a = begin(token, "a", work, size, digest)) > 0);
	give_all(token, a, 0);
	assert_string_equal(ends_as(token, a), "live");
	driver_does(&said, NULL, "settings", "set", "remote.bundle_total", "300000", NULL);
	assert_int_equal(begin(token, "b", work, size, digest), 0);
	is_refused(413, "bundle.quota");
	/* In the place of the first there is room. */
	assert_true(begin(token, "a", work, size, digest) > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_repository_arrives, make, drop),
	    cmocka_unit_test_setup_teardown(goes_on, make, drop),
	    cmocka_unit_test_setup_teardown(other_bytes, make, drop),
	    cmocka_unit_test_setup_teardown(who_says_nothing, make, drop),
	    cmocka_unit_test_setup_teardown(names_and_folders, make, drop),
	    cmocka_unit_test_setup_teardown(who_may_not_copy, make, drop),
	    cmocka_unit_test_setup_teardown(bounds, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
