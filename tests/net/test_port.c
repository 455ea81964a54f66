/* test_port.c: real daemons over TLS: pairing by code and by token, who is heard on the port. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/crypto/ca.h"
#include "engine/state/tls_identity.h"
#include "net/host/ends.h"
#include "net/host/enroll_client.h"
#include "net/host/net.h"
#include "net/http/client.h"
#include "net/http/tls.h"
#include "tests/driver.h"
#include "tests/slower.h"

#define FLOOD 10000

static struct driver d;
static struct said said;
static struct pairing_code facts; /* of the code that was made last */
static char place[32], code[CODE_MAX + 2];
static uint16_t port;

/* A port that is free, for a daemon to take. */
static uint16_t
port_free(void)
{
	struct sockaddr_in6 name = {.sin6_family = AF_INET6};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	close(fd);
	return ntohs(name.sin6_port);
}

/* A connected socket from 127.0.0.1 + ${from}; -1 where that was refused. */
static int
dial(unsigned from)
{
	struct sockaddr_in name = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001 + from)};
	struct sockaddr_in to = {
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x7f000001)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd != -1 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0 &&
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	if (fd != -1)
		close(fd);
	return -1;
}

static int
serve(void **state)
{
	char all[16];
	int fd;

	(void)state;
	driver_make(&d);
	port = port_free();
	snprintf(place, sizeof(place), "127.0.0.1:%u", port);
	snprintf(all, sizeof(all), "*:%u", port);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	driver_refused(&said, 3, "listen.none", NULL, "host", "listen", all, NULL);
	driver_serve_begin(&d, DRIVER_HOST);
	driver_serve_begin(&d, DRIVER_BOX);
	driver_serve_wait(&d, DRIVER_HOST);
	driver_serve_wait(&d, DRIVER_BOX);
	/* A Host that serves listens at once. */
	driver_does(&said, NULL, "host", "listen", all, "--address", place, NULL);
	while ((fd = dial(0)) == -1)
		driver_pause();
	close(fd);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

/* Invite ${name}; the code is in ${code}, with a line's end, and apart in ${facts}. */
static void
invite(const char *name)
{
	struct store *db;

	driver_does(&said, NULL, "host", "invite", name, NULL);
	snprintf(code, sizeof(code), "%.*s", (int)strcspn(said.out, "\n") + 1, said.out);
	db = driver_open(&d, DRIVER_HOST, ROLE_READER, NULL);
	assert_int_equal(code_read(db, code, strcspn(code, "\n"), &facts), 0);
	store_close(db);
}

/* Ask the port with ${identity} (NULL: as a guest) under the authority that ${pin} names. */
static int
ask(const char *method, const char *path, const struct tls_identity *identity, const char *body,
    struct http_answer *answer, struct refusal *r)
{
	static const struct http_field headers[] = {
	    {"Content-Type", "application/json"}, {NULL, NULL}};
	const struct tls_config config = {.cert = identity == NULL ? NULL : &identity->cert,
	    .key = identity == NULL ? NULL : &identity->key,
	    .pin = facts.authority};
	char url[256];
	struct http_request request = {.dial = place,
	    .method = method,
	    .url = url,
	    .headers = headers,
	    .body = body,
	    .body_len = body == NULL ? 0 : strlen(body),
	    .connect_ms = 20000 * SLOWER,
	    .total_ms = 20000 * SLOWER,
	    .reply_max = 1 << 20};
	int rc;

	memset(answer, 0, sizeof(*answer));
	snprintf(url, sizeof(url), "https://%s%s", TLS_HOST_NAME, path);
	assert_non_null(request.tls = tls_client_end(&config, r));
	rc = http_ask(&request, answer, r);
	tls_end_free(request.tls);
	return rc;
}

static void
refused(const char *body, int status, const char *why)
{
	int64_t boxes = driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM host_box");
	struct http_answer answer;
	struct refusal r;

	if (ask("POST", "/v1/enroll", NULL, body, &answer, &r) != 0)
		fail_msg("%s", r.why);
	if (answer.status != status || strstr(answer.body, why) == NULL)
		fail_msg("%d %s instead of %d %s", answer.status, answer.body, status, why);
	free(answer.body);
	assert_int_equal(driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM host_box"), boxes);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM box_certificate WHERE cert IS NULL"),
	    0);
}

/* PAIR-4: by a code on standard input; the box dials from then on. The token is in no file of
 * either. */
static void
a_box_pairs_by_code(void **state)
{
	char sql[160], token[65];

	(void)state;
	invite(d.box);
	driver_does(&said, code, "pair", "-", NULL);
	assert_non_null(
	    strstr(said.out, "conductor may ask this machine now; it is reached at 127.0"));
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM pairing JOIN pairing_tls ON pairing_id = id"
		" WHERE transport = 'reverse' AND state = 'active' AND peer_uid IS NULL"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM pairing_endpoint"
			     " WHERE ord = 1 AND endpoint = '%s'",
			     place),
	    1);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST,
		"SELECT count(*) FROM host_box JOIN box_certificate ON box_id = host_box.id"
		" WHERE transport = 'reverse' AND name = '%s' AND lane IS NULL",
		d.box),
	    1);
	driver_refused(&said, 3, "pairing.exists", code, "pair", "-", NULL);
	sodium_bin2hex(token, sizeof(token), facts.token, sizeof(facts.token));
	snprintf(sql, sizeof(sql), "grep -rqs %s %s", token, d.dir);
	assert_int_not_equal(system(sql), 0);
}

/* The key that the net actor of ${side} holds, and its database. */
static struct key *
wire_open(enum driver_side side, struct store **db)
{
	static struct store_keys keys = {.present = false};
	struct refusal r;
	struct key *key;
	char path[128];

	snprintf(path, sizeof(path), "%s/bastion.key", d.state[side]);
	assert_non_null(key = key_load_wire(path, &r));
	*db = driver_open(&d, side, ROLE_NET, &keys);
	return key;
}

/* GET what is for peers at the box's listener as ${end}; what comes of it, or 0. */
static int
box_ask(struct tls_end *end, uint16_t listen)
{
	char at[32];
	struct http_request request = {.dial = at,
	    .method = "GET",
	    .url = "https://" TLS_BOX_NAME "/v1/openapi.json",
	    .tls = end,
	    .connect_ms = 20000 * SLOWER,
	    .total_ms = 20000 * SLOWER,
	    .reply_max = 1 << 20};
	struct http_answer answer = {0};
	struct refusal r;
	int rc;

	snprintf(at, sizeof(at), "127.0.0.1:%u", listen);
	rc = http_ask(&request, &answer, &r);
	free(answer.body);
	return rc == 0 ? answer.status : 0;
}

/* A box that listens hears its Host, and neither a guest nor another box that the Host certified.
 */
static void
the_box_listens_for_its_host_alone(uint16_t listen)
{
	struct tls_identity other;
	struct tls_config guest = {.ncas = 1}, stranger = {.ncas = 1};
	struct cert_blob authority;
	struct tls_end *host, *end;
	struct store *db;
	struct refusal r;
	struct key *key;
	int64_t box;

	key = wire_open(DRIVER_HOST, &db);
	box = driver_value(&d, DRIVER_HOST,
	    "SELECT id FROM host_box WHERE state = 'active' AND transport = 'tls'");
	if ((host = ends_of_box(db, key, box, &r)) == NULL)
		fail_msg("%s", r.why);
	assert_int_equal(tls_box_authority(db, box, &authority), 0);
	store_close(db);
	key_free(key);
	while (box_ask(host, listen) == 0)
		driver_pause();
	assert_int_equal(box_ask(host, listen), 200);
	guest.cas = &authority;
	assert_non_null(end = tls_client_end(&guest, &r));
	assert_int_equal(box_ask(end, listen), 0);
	tls_end_free(end);
	/* Its own certificate is, for a box, that of another device than its Host's. */
	key = wire_open(DRIVER_BOX, &db);
	assert_int_equal(
	    tls_client_of(db, key,
		driver_value(&d, DRIVER_BOX, "SELECT id FROM pairing WHERE state = 'active'"),
		&other),
	    0);
	store_close(db);
	key_free(key);
	stranger.cas = &authority;
	stranger.cert = &other.cert;
	stranger.key = &other.key;
	assert_non_null(end = tls_client_end(&stranger, &r));
	assert_int_equal(box_ask(end, listen), 0);
	tls_end_free(end);
	assert_int_equal(box_ask(host, listen), 200);
	tls_end_free(host);
	tls_identity_free(&other);
	cert_blob_free(&authority);
}

/* Paired anew: the old certificate ends, age and grants stay. Another transport comes that way. */
static void
a_box_pairs_anew(void **state)
{
	char where[32];
	uint16_t listen = port_free();

	(void)state;
	snprintf(where, sizeof(where), "localhost:%u", listen);
	/* A pairing that comes to nothing leaves nothing that listens. */
	driver_refused(
	    &said, 126, "pairing.refused", code, "pair", "-", "--replace", "--listen", where, NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM listen"), 0);
	invite(d.box);
	driver_does(&said, code, "pair", "-", "--replace", NULL);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM tls_identity WHERE use = 'client' AND state = 'current'"),
	    1);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM tls_identity WHERE state = 'past' AND key IS NULL"),
	    1);
	invite(d.box);
	driver_does(&said, code, "pair", "-", "--replace", "--listen", where, NULL);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST,
		"SELECT count(*) FROM host_box WHERE state = 'active' AND endpoint = '%s'"
		" AND transport = 'tls' AND authority IS NOT NULL",
		where),
	    1);
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM tls_identity WHERE use = 'client'"
	    " AND state = 'current'");
	the_box_listens_for_its_host_alone(listen);
	driver_does(&said, NULL, "unpair", "conductor", NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing_tls"), 0);
}

/* PAIR-5: with a token and the Host's authority in a file; the file of another is refused. */
static void
a_box_pairs_by_token(void **state)
{
	char url[48], token[80], file[96], other[96];
	unsigned char pem[2 * CERT_MAX];
	struct cert_blob cert, key, text;
	struct store *db;
	struct refusal r;
	int status;
	pid_t pid;
	FILE *f;

	(void)state;
	snprintf(url, sizeof(url), "https://%s", place);
	snprintf(file, sizeof(file), "%s/ca.pem", d.dir);
	snprintf(other, sizeof(other), "%s/other.pem", d.dir);
	db = driver_open(&d, DRIVER_HOST, ROLE_READER, NULL);
	assert_int_equal(tls_authority_pem(db, &text), 0);
	store_close(db);
	assert_non_null(f = fopen(file, "w"));
	assert_int_equal(fwrite(text.data, 1, text.len, f), text.len);
	fclose(f);
	assert_true(text.len < sizeof(pem));
	cert_blob_free(&text);
	assert_int_equal(ca_make("conductor", 86400000, 0, &cert, &key, &r), 0);
	assert_int_equal(cert_to_pem(cert.data, cert.len, &text, &r), 0);
	assert_non_null(f = fopen(other, "w"));
	assert_int_equal(fwrite(text.data, 1, text.len, f), text.len);
	fclose(f);
	cert_blob_free(&text);
	cert_blob_free(&cert);
	cert_blob_free(&key);

	invite(d.box);
	sodium_bin2hex(token, sizeof(token), facts.token, sizeof(facts.token));
	strcat(token, "\n");
	driver_refused(&said, 126, "tls.untrusted", token, "pair", "--redeem-url", url, "--host-ca",
	    other, NULL);
	driver_refused(&said, 2, "endpoint.invalid", token, "pair", "--redeem-url", "http://x:1",
	    "--host-ca", file, NULL);
	driver_refused(&said, 2, "code.invalid", "short\n", "pair", "--redeem-url", url,
	    "--host-ca", file, NULL);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing WHERE state <> 'revoked'"),
	    0);
	driver_does(&said, token, "pair", "--redeem-url", url, "--host-ca", file, NULL);
	assert_non_null(strstr(said.out, "conductor"));
	driver_refused(&said, 3, "pairing.exists", token, "pair", "--redeem-url", url, "--host-ca",
	    file, NULL);
	driver_refused(&said, 126, "pairing.authority", token, "pair", "--redeem-url", url,
	    "--host-ca", other, NULL);
	/* PAIR-6: one more Host is asked about at the terminal, and there is none. */
	if ((pid = fork()) == 0) {
		setsid();
		snprintf(url, sizeof(url), "https://127.0.0.2:%u", port);
		_exit(driver_run(&said, token, "pair", "--redeem-url", url, "--host-ca", other,
			  NULL) == 126 &&
			      strstr(said.err, "[pairing.second]") != NULL
			  ? 0
			  : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing WHERE state = 'active'"), 1);
}

/* Without a certificate there is one thing to ask for; with one of nobody here, nothing. */
static void
guests_find_one_door(void **state)
{
	const struct http_route *route;
	struct tls_identity identity;
	struct http_answer answer;
	struct store *db;
	struct refusal r;
	struct key *key;

	(void)state;
	for (route = net_routes; route->method != NULL; route++) {
		if (strcmp(route->path, "/v1/enroll") == 0)
			continue;
		if (ask(route->method, route->path, NULL,
			strcmp(route->method, "POST") == 0 ? "{}" : NULL, &answer, &r) != 0)
			fail_msg("%s: %s", route->path, r.why);
		if (answer.status != 404)
			fail_msg("%s %s: %d", route->method, route->path, answer.status);
		free(answer.body);
	}
	/* A box that is paired has a certificate, and finds what is for boxes. */
	key = wire_open(DRIVER_BOX, &db);
	assert_int_equal(
	    tls_client_of(db, key,
		driver_value(&d, DRIVER_BOX, "SELECT id FROM pairing WHERE state = 'active'"),
		&identity),
	    0);
	store_close(db);
	key_free(key);
	assert_int_equal(ask("GET", "/v1/openapi.json", &identity, NULL, &answer, &r), 0);
	assert_int_equal(answer.status, 200);
	free(answer.body);
	/* And not the guests' door. */
	assert_int_equal(ask("POST", "/v1/enroll", &identity, "{}", &answer, &r), 0);
	assert_int_equal(answer.status, 404);
	free(answer.body);
	/* Once it is gone here, its certificate is nobody's. */
	invite(d.box);
	driver_does(&said, code, "pair", "-", "--replace", NULL);
	assert_int_equal(ask("GET", "/v1/openapi.json", &identity, NULL, &answer, &r), -1);
	tls_identity_free(&identity);
}

/* Make the body of a box of the key ${box} that redeems ${facts}, whose request names ${device}. */
static void
body_make(const char *name, const char *device, bool lie, char *out, size_t size)
{
	static char request_hex[2 * CERT_MAX + 1];
	unsigned char pk[KEY_PUBLIC_SIZE], digest[32];
	char uri[CERT_URI_MAX + 1], own[65], token[65], signature[ENROLL_BASE64], path[128];
	const char *const uris[] = {uri, NULL};
	static const struct cert_blob none = {.data = NULL};
	struct cert_blob key, public_key, request;
	struct enroll_proof proof = {.token_digest = digest,
	    .box = name,
	    .box_key = pk,
	    .transport = "reverse",
	    .request = &request,
	    .authority = &none};
	struct refusal r;
	struct key *box;

	snprintf(path, sizeof(path), "%s/bastion.key", d.state[DRIVER_BOX]);
	assert_non_null(box = key_load(path, &r));
	key_public(box, KEY_IDENTITY, pk);
	sodium_bin2hex(own, sizeof(own), pk, sizeof(pk));
	assert_int_equal(cert_device_uri(device == NULL ? own : device, uri), 0);
	assert_int_equal(cert_key_make(&key, &public_key, &r), 0);
	assert_int_equal(cert_request_make(&key, uris, &request, &r), 0);
	crypto_hash_sha256(digest, facts.token, sizeof(facts.token));
	assert_int_equal(enroll_prove(box, &proof, signature), 0);
	if (lie)
		own[0] = own[0] == 'a' ? 'b' : 'a';
	sodium_bin2hex(token, sizeof(token), facts.token, sizeof(facts.token));
	sodium_bin2hex(request_hex, sizeof(request_hex), request.data, request.len);
	snprintf(out, size,
	    "{\"token\":\"%s\",\"box\":\"%s\",\"box_key\":\"%s\",\"transport\":\"reverse\","
	    "\"request\":\"%s\",\"proof\":\"%s\"}",
	    token, name, own, request_hex, signature);
	cert_blob_free(&key);
	cert_blob_free(&public_key);
	cert_blob_free(&request);
	key_free(box);
}

/* A request in another's name, a key that the box does not hold, a form that is none, a token that
 * was used: nothing changes, and an honest box is not held up. */
static void
lies_change_nothing(void **state)
{
	static char body[32768];
	struct http_answer answer;
	struct refusal r;

	(void)state;
	invite("box-z");
	refused("", 400, "json.invalid");
	refused("[]", 422, "code.invalid");
	refused("{\"token\":1,\"token\":2}", 400, "json.duplicate");
	snprintf(body, sizeof(body),
	    "{\"token\":\"%064d\",\"box\":\"box-z\",\"box_key\":\"%064d\",\"lane\":\"/x\"}", 1, 1);
	refused(body, 422, "code.invalid"); /* the form of the socket */
	body_make("box-z", "another", false, body, sizeof(body));
	refused(body, 403, "cert.device");
	body_make("box-z", NULL, true, body, sizeof(body));
	refused(body, 403, "box.proof");
	body_make("box-y", NULL, false, body, sizeof(body));
	refused(body, 403, "invitation.name");
	body_make("box-z", NULL, false, body, sizeof(body));
	memcpy(strstr(body, "\"request\":\"30") + 11, "31", 2);
	refused(body, 403, "box.proof");
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM invitation"
			     " WHERE box_name = 'box-z' AND state = 'open'"),
	    1);
	/* Whole, it is let in; once. */
	body_make("box-z", NULL, false, body, sizeof(body));
	assert_int_equal(ask("POST", "/v1/enroll", NULL, body, &answer, &r), 0);
	if (answer.status != 200)
		fail_msg("%s", answer.body);
	free(answer.body);
	refused(body, 409, "invitation.used");
	body_make("box-z", NULL, false, body, sizeof(body));
	refused(body, 409, "invitation.used");
}

/* Others' programs find the port as it is said to be. */
static void
others_speak_with_the_port(void **state)
{
	char command[512], file[96];

	(void)state;
	snprintf(file, sizeof(file), "%s/ca.pem", d.dir);
	if (system("command -v openssl >/dev/null && command -v curl >/dev/null") != 0)
		skip();
	snprintf(command, sizeof(command),
	    "openssl s_client -connect %s -servername %s -verify_hostname %s -CAfile %s"
	    " -verify_return_error </dev/null 2>/dev/null | grep -q 'Verification: OK'",
	    place, TLS_HOST_NAME, TLS_HOST_NAME, file);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command),
	    "openssl s_client -connect %s -tls1_1 -CAfile %s </dev/null 2>/dev/null"
	    " | grep -q 'Cipher is (NONE)'",
	    place, file);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command),
	    "test $(curl -s -o /dev/null -w '%%{http_code}' --cacert %s --connect-to ::%s"
	    " https://%s/v1/status) = 404",
	    file, place, TLS_HOST_NAME);
	assert_int_equal(system(command), 0);
}

/* In a process of its own, since its descriptors are many: connections from many addresses that say
 * nothing, half a greeting, or all of TLS and then nothing. It writes a byte when all were tried.
 */
static pid_t
flood(int *ready)
{
	struct rlimit files;
	pid_t pid;
	int fds[2], i, fd;

	assert_int_equal(pipe(fds), 0);
	if ((pid = fork()) != 0) {
		close(fds[1]);
		*ready = fds[0];
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (i = 0; i < FLOOD; i++) {
		fd = dial(0x010000 + (unsigned)i);
		if (fd != -1 && i % 2 == 1)
			(void)!send(fd, "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL);
	}
	(void)!write(fds[1], "x", 1);
	pause();
	_exit(0);
}

/* Guests that finish their handshake and say nothing, more than there is room for. */
static pid_t
idlers(void)
{
	char command[256];
	pid_t pid;

	snprintf(command, sizeof(command),
	    "for i in $(seq 96); do sleep 60 | openssl s_client -quiet -connect %s"
	    " -bind 127.0.$i.1:0 >/dev/null 2>&1 & done; wait",
	    place);
	if ((pid = fork()) == 0) {
		setpgid(0, 0);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* Ten thousand slow connections, and guests who sit there: an honest box pairs meanwhile. */
static void
a_flood_keeps_no_box_out(void **state)
{
	pid_t pid, sitting;
	int ready, times = 0;
	char byte;

	(void)state;
	sitting = idlers();
	pid = flood(&ready);
	assert_int_equal(fcntl(ready, F_SETFL, O_NONBLOCK), 0);
	do {
		invite(d.box);
		driver_does(&said, code, "pair", "-", "--replace", NULL);
		times++;
	} while (read(ready, &byte, 1) != 1);
	print_message("%d pairings under %d slow connections\n", times, FLOOD);
	close(ready);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	kill(-sitting, SIGKILL);
	waitpid(sitting, NULL, 0);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM actor_run"
			     " WHERE state IN ('failed', 'lost')"),
	    0);
}

/* Codes name one-off places; --unix leads to the socket; what cannot be is said. */
static void
codes_lead_where_they_say(void **state)
{
	(void)state;
	driver_does(&said, NULL, "host", "invite", "box-q", "--unix", NULL);
	assert_null(strstr(said.err, "Nothing listens"));
	driver_does(&said, NULL, "host", "withdraw", "box-q", NULL);
	driver_does(&said, NULL, "host", "invite", "box-q", "--address", "Host.Example:7443",
	    "--address", "[::1]:7443", NULL);
	{
		struct store *db = driver_open(&d, DRIVER_HOST, ROLE_READER, NULL);

		assert_int_equal(code_read(db, said.out, strcspn(said.out, "\n"), &facts), 0);
		store_close(db);
	}
	assert_int_equal(facts.nendpoints, 2);
	assert_string_equal(facts.endpoint[0], "host.example:7443");
	assert_string_equal(facts.endpoint[1], "[::1]:7443");
	driver_does(&said, NULL, "host", "withdraw", "box-q", NULL);
	assert_int_equal(
	    driver_run(&said, NULL, "host", "invite", "box-q", "--address", "no port", NULL), 2);
	assert_int_equal(
	    driver_run(&said, NULL, "host", "invite", "box-q", "--unix", "--address", "a:1", NULL),
	    2);
	driver_refused(&said, 2, "listen.invalid", NULL, "host", "listen", "name:1", NULL);
	driver_does(&said, NULL, "host", "listen", "--json", NULL);
	assert_non_null(strstr(said.out, place));
	/* Off: nobody is heard any more. */
	driver_does(&said, NULL, "host", "listen", "--off", NULL);
	while (true) {
		int fd = dial(0);

		if (fd == -1)
			break;
		close(fd);
		driver_pause();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_box_pairs_by_code),
	    cmocka_unit_test(a_box_pairs_anew),
	    cmocka_unit_test(a_box_pairs_by_token),
	    cmocka_unit_test(guests_find_one_door),
	    cmocka_unit_test(lies_change_nothing),
	    cmocka_unit_test(others_speak_with_the_port),
	    cmocka_unit_test(a_flood_keeps_no_box_out),
	    cmocka_unit_test(codes_lead_where_they_say),
	};

	return cmocka_run_group_tests(tests, serve, stop);
}
