/* test_enroll_tls.c: a box pairs over a network with the Host that its code pins, and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/ca.h"
#include "engine/crypto/seal.h"
#include "engine/state/invitation.h"
#include "engine/state/pairing.h"
#include "engine/state/tls_identity.h"
#include "net/host/ends.h"
#include "net/host/enroll_client.h"
#include "net/http/server.h"
#include "net/http/tls_pump.h"
#include "tests/person.h"
#include "tests/slower.h"

#define DAY 86400000

/* How the Host of a test behaves. */
enum manner {
	HONEST,
	/* Its certificate. */
	OTHER_AUTHORITY,
	OTHER_NAME,
	EXPIRED,
	BOXS_CERTIFICATE, /* under the right authority, for the right name, but a client's */
	/* Its answer. */
	SILENT,  /* takes the connection and says nothing */
	ASLEEP,  /* takes the request as well */
	GARBAGE, /* no JSON */
	ENDLESS, /* too much of it */
	DOUBLED, /* one member twice */
	REFUSES,
	OTHER_KEY,
	OTHER_HOST,
	STALE,                /* signed for another token */
	UNSIGNED_CERTIFICATE, /* another certificate than was signed for */
	FOREIGN_KEY,          /* signed, for another key than ours */
	FOREIGN_DEVICE,       /* signed, for another device */
	FOREIGN_AUTHORITY,    /* signed, under another authority */
};

struct host {
	struct scratch s;
	int fd;
	uint16_t port;
	pid_t pid;
	enum manner manner;
	struct pairing_code facts;
};

static struct host host;
static struct scratch s;
static char code[CODE_MAX + 1];

/* A listening socket on the loopback address. */
static int
tcp_listen(uint16_t *port)
{
	struct sockaddr_in name = {
	    .sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	*port = ntohs(name.sin_port);
	return fd;
}

/* The Host, in a process of its own. */

static void
must(bool well, const char *what)
{
	if (well)
		return;
	fprintf(stderr, "host: %s\n", what);
	_exit(9);
}

/* The value of the member ${name} of the request, which the box wrote without escapes. */
static char *
member(const char *body, const char *name)
{
	char key[32];
	const char *at;

	snprintf(key, sizeof(key), "\"%s\":\"", name);
	must((at = strstr(body, key)) != NULL, name);
	at += strlen(key);
	return strndup(at, strcspn(at, "\""));
}

/* A certificate of the authority ${ca} for ${key}, as ${uri}. */
static void
certify(
    const struct ca *ca, const char *uri, const uint8_t *key, size_t len, struct cert_blob *cert)
{
	const char *const uris[] = {uri, NULL};
	struct ca_order order = {.use = CA_CLIENT,
	    .subject = "box-a",
	    .uris = uris,
	    .public_key = key,
	    .public_key_len = len,
	    .valid_ms = DAY};
	struct refusal r;

	must(ca_issue(ca, &order, cert, &r) == 0, "certify");
}

static struct ca *
other_authority(void)
{
	struct cert_blob cert, key;
	struct refusal r;
	struct ca *ca;

	must(ca_make("other", DAY, 0, &cert, &key, &r) == 0, "authority");
	must((ca = ca_load(&cert, &key, &r)) != NULL, "authority");
	return ca;
}

/* The Host's own authority, opened as link opens it; its certificate in ${cert} too. */
static struct ca *
own_authority(struct host *h, struct cert_blob *cert)
{
	struct seal_place place = {.table = "tls_authority", .column = "key", .row = "1"};
	struct store *db = scratch_open(&h->s, ROLE_LINK);
	struct stmt *q = store_sql(db, "SELECT key, length(key) FROM tls_authority");
	struct cert_blob plain;
	struct refusal r;
	struct ca *ca;
	size_t len;

	must(q != NULL && stmt_step(q) == 1, "no authority");
	len = (size_t)stmt_get_int(q, 1);
	plain.len = seal_plain_size(len);
	plain.data = malloc(plain.len);
	must(seal_open(
		 h->s.key, &place, stmt_get_blob(q, 0, len), len, plain.data, plain.len, &r) == 0,
	    r.why);
	stmt_done(q);
	must(tls_authority_own(db, cert) == 0, "no authority");
	must((ca = ca_load(cert, &plain, &r)) != NULL, r.why);
	return ca;
}

/* What an honest Host holds of the box by now. */
static void
certificate_of(struct store *db, struct cert_blob *cert, struct cert_blob *public_key)
{
	struct stmt *q = store_sql(db, "SELECT cert, length(cert), public_key, length(public_key)"
				       " FROM box_certificate ORDER BY id DESC LIMIT 1");

	must(q != NULL && stmt_step(q) == 1, "no certificate");
	cert->len = (size_t)stmt_get_int(q, 1);
	cert->data = malloc(cert->len);
	memcpy(cert->data, stmt_get_blob(q, 0, cert->len), cert->len);
	public_key->len = (size_t)stmt_get_int(q, 3);
	public_key->data = malloc(public_key->len);
	memcpy(public_key->data, stmt_get_blob(q, 2, public_key->len), public_key->len);
	stmt_done(q);
}

/* Put a certificate that is not the box's in the place of ${cert}, as the manner is. */
static void
certificate_bend(
    struct host *h, const char *device, const struct cert_blob *public_key, struct cert_blob *cert)
{
	char uri[CERT_URI_MAX + 1];
	struct cert_blob key, fresh, own;
	struct refusal r;
	struct ca *ca;

	if (h->manner < FOREIGN_KEY)
		return;
	ca = h->manner == FOREIGN_AUTHORITY ? other_authority() : own_authority(h, &own);
	must(cert_key_make(&key, &fresh, &r) == 0, "key");
	if (h->manner == FOREIGN_KEY)
		public_key = &fresh;
	cert_device_uri(h->manner == FOREIGN_DEVICE ? "another" : device, uri);
	certify(ca, uri, public_key->data, public_key->len, cert);
}

/* What is no answer of a Host at all; whether that was it. */
static bool
nonsense(struct host *h, struct http_exchange *x)
{
	static const char no[] = "{\"error\":{\"code\":\"invitation.used\",\"why\":\"used up\"}}";
	static char much[1 << 20];

	memset(much, 'x', sizeof(much));
	if (h->manner == ASLEEP)
		pause();
	if (h->manner == REFUSES)
		http_reply(x, 403, "application/json", NULL, no, sizeof(no) - 1);
	else if (h->manner == GARBAGE)
		http_reply(x, 200, "application/json", NULL, much, 100);
	else if (h->manner == ENDLESS)
		http_reply(x, 200, "application/json", NULL, much, sizeof(much));
	else
		return false;
	return true;
}

/* Sign for the box as the manner is, and answer. */
static void
welcome(struct host *h, struct http_exchange *x, const struct enrollment *e, struct cert_blob *cert)
{
	static char out[4 * CERT_MAX], hex[2 * CERT_MAX + 1];
	unsigned char other[32], digest[32];
	char signature[ENROLL_BASE64], host_key[65];
	struct enroll_claim claim = {.token_digest = h->manner == STALE ? other : digest,
	    .box = e->box_name,
	    .host = h->facts.host,
	    .box_key = e->box_key,
	    .host_key = h->facts.host_key,
	    .transport = e->transport};
	int len;

	memset(other, 1, sizeof(other));
	crypto_hash_sha256(digest, e->token, sizeof(e->token));
	memcpy(claim.authority, h->facts.authority, CERT_FP_SIZE);
	cert_fingerprint(cert->data, cert->len, claim.certificate);
	if (h->manner == UNSIGNED_CERTIFICATE)
		claim.certificate[0] ^= 1;
	must(enroll_sign(h->s.key, &claim, signature) == 0, "sign");
	sodium_bin2hex(
	    host_key, sizeof(host_key), h->manner == OTHER_KEY ? other : h->facts.host_key, 32);
	sodium_bin2hex(hex, sizeof(hex), cert->data, cert->len);
	len = snprintf(out, sizeof(out),
	    "{\"host\":\"%s\",\"host_key\":\"%s\",\"signature\":\"%s\",\"certificate\":\"%s\"%s}",
	    h->manner == OTHER_HOST ? "evil" : claim.host, host_key, signature, hex,
	    h->manner == DOUBLED ? ",\"host\":\"host-a\"" : "");
	http_reply(x, 200, "application/json", NULL, out, (size_t)len);
}

/* What a Host does with a redeem; it lives for one, so nothing is freed. */
static int
redeem(struct http_exchange *x, void *ctx)
{
	struct host *h = ctx;
	struct enrollment e = {.peer_uid = -1};
	struct cert_blob cert, public_key;
	const char *body = http_body(x, NULL);
	char *box_key;
	int64_t id;

	if (nonsense(h, x))
		return 0;
	box_key = member(body, "box_key");
	e.box_name = member(body, "box");
	e.transport = member(body, "transport");
	sodium_hex2bin(e.token, 32, member(body, "token"), 64, NULL, NULL, NULL);
	sodium_hex2bin(e.box_key, 32, box_key, 64, NULL, NULL, NULL);
	must(cert_from_hex(member(body, "request"), &e.request) == 0, "request");
	must(invitation_redeem(scratch_open(&h->s, ROLE_NET), &e, &id) == 0,
	    store_refusal(h->s.db)->why);
	must(tls_issue(scratch_open(&h->s, ROLE_LINK), h->s.key) == 1, "issue");
	certificate_of(h->s.db, &cert, &public_key);
	certificate_bend(h, box_key, &public_key, &cert);
	welcome(h, x, &e, &cert);
	return 0;
}

static int
anybody(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	(void)peer;
	return 0;
}

/* The end under which this Host serves: its own, or what it makes up. */
static void
host_end(struct host *h, struct tls_identity *identity)
{
	const char *names[] = {
	    h->manner == OTHER_NAME ? "mail.bastion.internal" : TLS_HOST_NAME, NULL};
	struct ca_order order = {.use = CA_SERVER, .subject = "x", .names = names, .valid_ms = DAY};
	struct cert_blob public_key;
	struct refusal r;
	struct ca *ca;

	must(tls_server(scratch_open(&h->s, ROLE_LINK), h->s.key, identity) == 0, "server");
	if (h->manner < OTHER_AUTHORITY || h->manner > BOXS_CERTIFICATE)
		return;
	ca = own_authority(h, &identity->issuer);
	if (h->manner == OTHER_AUTHORITY) {
		must(ca_make("host-a", DAY, 0, &identity->issuer, &public_key, &r) == 0, r.why);
		must((ca = ca_load(&identity->issuer, &public_key, &r)) != NULL, r.why);
	}
	must(cert_key_make(&identity->key, &public_key, &r) == 0, r.why);
	order.public_key = public_key.data;
	order.public_key_len = public_key.len;
	if (h->manner == BOXS_CERTIFICATE) {
		order.use = CA_CLIENT;
		order.names = NULL;
	}
	if (h->manner == EXPIRED) {
		order.valid_ms = order.early_ms = 1000;
		clock_fix(clock_now() - 60000);
	}
	must(ca_issue(ca, &order, &identity->cert, &r) == 0, r.why);
	clock_fix(0);
}

static void
host_serve(struct host *h)
{
	static const struct http_route routes[] = {
	    {"POST", "/v1/enroll", 1, ENROLL_BODY_MAX, redeem, "redeem"},
	    {NULL, NULL, 0, 0, NULL, NULL}};
	struct http_server_config config = {.routes = routes, .authorise = anybody, .ctx = h};
	struct tls_identity identity;
	struct tls_config tls = {.cert = &identity.cert,
	    .key = &identity.key,
	    .issuer = &identity.issuer,
	    .cas = identity.authorities,
	    .ask = TLS_ASK_OPTIONAL};
	struct tls_limits limits;
	struct http_server *server;
	struct loop *loop = loop_new();
	struct refusal r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (h->manner == SILENT)
		for (;;)
			pause();
	host_end(h, &identity);
	tls.ncas = identity.nauthorities;
	ends_limits(h->s.db, &limits);
	config.limits = (struct http_limits){.connections = 16,
	    .uid_connections = 16,
	    .body = ENROLL_BODY_MAX,
	    .header_bytes = 8192,
	    .headers = 64,
	    .idle_ms = 60000,
	    .request_ms = 60000,
	    .json_depth = 32,
	    .stream_bytes = 65536};
	must((server = http_server_new(loop, &config, &r)) != NULL, "server");
	must(http_listen_tls(server, h->fd, 1, &tls, &limits, &r) == 0, r.why);
	loop_run(loop);
}

/* A Host with an invitation for box-a whose code leads to its port. */
static void
host_make(struct host *h, enum manner manner)
{
	struct pairing_code where = {.nendpoints = 1};

	*h = (struct host){.manner = manner};
	scratch_make(&h->s, HOME_HOST);
	h->fd = tcp_listen(&h->port);
	snprintf(where.endpoint[0], sizeof(where.endpoint[0]), "127.0.0.1:%u", h->port);
	assert_int_equal(scratch_sql(&h->s, "INSERT INTO listen (what, address, port, set_at)"
					    " VALUES ('host', '*', 7443, now_ms())"),
	    0);
	scratch_open(&h->s, ROLE_PERSON);
	if (tls_upkeep(h->s.db, h->s.key) != 0 ||
	    tls_authority(h->s.db, h->s.key, where.authority) != 0 ||
	    invitation_make(h->s.db, "box-a", 0, &where, code) != 0 ||
	    code_read(h->s.db, code, strlen(code), &h->facts) != 0)
		fail_msg("%s", store_refusal(h->s.db)->why);
	store_close(h->s.db);
	h->s.db = NULL;
	if ((h->pid = fork()) == 0) {
		host_serve(h);
		_exit(0);
	}
	close(h->fd);
}

static void
host_drop(struct host *h)
{
	kill(h->pid, SIGKILL);
	assert_int_equal(waitpid(h->pid, NULL, 0), h->pid);
	scratch_drop(&h->s);
}

static int
asks(struct enroll_made *made)
{
	const struct enroll_dial dial = {.code = &host.facts, .key = s.key};

	return enroll_ask_tls(scratch_open(&s, ROLE_PERSON), &dial, made);
}

/* Keep what came of it, as bastion pair does. */
static int
keeps(const struct enroll_made *made, bool replace, struct pairing_made *out)
{
	uint8_t fp[CERT_FP_SIZE];
	const struct pairing_offer offer = {.host = made->host,
	    .host_key = made->host_key,
	    .by_uid = 1000,
	    .replace = replace,
	    .transport = "reverse",
	    .authority_fp = fp,
	    .endpoint = host.facts.endpoint,
	    .nendpoints = host.facts.nendpoints,
	    .authority = made->authority,
	    .cert = made->cert,
	    .key = made->key,
	    .wire = s.key};

	cert_fingerprint(made->authority.data, made->authority.len, fp);
	return pairing_add(s.db, &offer, out);
}

/* PAIR-1, FP-1: the authority is kept as pinned, the certificate names this machine once, its key
 * is sealed, and the end that is made of them is believed by the Host as this very box. */
static void
a_box_pairs_over_a_network(void **state)
{
	struct tls_identity identity;
	struct enroll_made made;
	struct pairing_made out;
	struct pairing pairing;
	struct cert cert;
	struct refusal r;
	char sql[256], hex[65], uri[CERT_URI_MAX + 1];
	int64_t box, found;

	(void)state;
	host_make(&host, HONEST);
	scratch_make(&s, HOME_BOX);
	if (asks(&made) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_string_equal(made.host, "host-a");
	assert_int_equal(keeps(&made, false, &out), 0);
	assert_int_equal(cert_read(made.cert.data, made.cert.len, &cert, &r), 0);
	assert_int_equal(cert.uris.n, 1);
	tls_device(s.keys.identity, uri);
	assert_string_equal(cert.uris.uri[0], uri);
	assert_int_equal(pairing_find(s.db, made.host_key, &pairing), 1);
	assert_string_equal(pairing.state, "active");
	assert_string_equal(pairing.transport, "reverse");
	assert_int_equal(pairing.peer_uid, -1);
	sodium_bin2hex(hex, sizeof(hex), host.facts.authority, 32);
	snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM pairing_tls WHERE fp = x'%s' AND sha256(authority) = fp", hex);
	assert_int_equal(scratch_value(&s, sql), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT instr(key, x'3041020100') FROM tls_identity"), 0);
	assert_int_equal(tls_client_of(scratch_open(&s, ROLE_NET), s.key, out.id, &identity), 0);
	assert_int_equal(identity.nauthorities, 1);
	assert_int_equal(identity.key.len, made.key.len);
	assert_memory_equal(identity.key.data, made.key.data, made.key.len);
	tls_identity_free(&identity);
	/* On the Host the certificate is that box's, and nobody else's. */
	scratch_open(&host.s, ROLE_NET);
	assert_int_equal(tls_box_of(host.s.db, cert.fp, &box), 1);
	found = scratch_value(&host.s, "SELECT id FROM host_box WHERE name = 'box-a'");
	assert_int_equal(box, found);
	cert.fp[0] ^= 1;
	assert_int_equal(tls_box_of(scratch_open(&host.s, ROLE_NET), cert.fp, &box), 0);
	enroll_made_free(&made);
	scratch_drop(&s);
	host_drop(&host);
}

/* PAIR-1, PAIR-2: another authority, name, time or use; an answer that the Host of the code did not
 * sign, or that certifies another: nothing is saved. */
static void
only_the_pinned_host_is_believed(void **state)
{
	static const struct {
		enum manner manner;
		const char *code;
	} cases[] = {
	    {OTHER_AUTHORITY, "tls.untrusted"},
	    {OTHER_NAME, "tls.untrusted"},
	    {EXPIRED, "tls.untrusted"},
	    {BOXS_CERTIFICATE, "tls.untrusted"},
	    {GARBAGE, "pairing.refused"},
	    {ENDLESS, "pairing.port"},
	    {DOUBLED, "pairing.refused"},
	    {REFUSES, "pairing.refused"},
	    {OTHER_KEY, "pairing.refused"},
	    {OTHER_HOST, "pairing.refused"},
	    {STALE, "pairing.refused"},
	    {UNSIGNED_CERTIFICATE, "pairing.refused"},
	    {FOREIGN_KEY, "pairing.refused"},
	    {FOREIGN_DEVICE, "pairing.refused"},
	    {FOREIGN_AUTHORITY, "pairing.refused"},
	};
	unsigned char before[32], after[32];
	struct enroll_made made;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		person_digest(&s, before);
		host_make(&host, cases[i].manner);
		if (asks(&made) != -1 || strcmp(store_refusal(s.db)->code, cases[i].code) != 0)
			fail_msg("manner %d: %s: %s", cases[i].manner, store_refusal(s.db)->code,
			    store_refusal(s.db)->why);
		assert_null(made.key.data);
		host_drop(&host);
		person_digest(&s, after);
		assert_memory_equal(before, after, 32);
	}
	/* A code that names another authority, or another key, than the honest Host has. */
	host_make(&host, HONEST);
	host.facts.authority[5] ^= 1;
	assert_int_equal(asks(&made), -1);
	person_says(&s, "tls.untrusted");
	assert_int_equal(
	    scratch_value(&host.s, "SELECT count(*) FROM invitation WHERE state = 'open'"), 1);
	host.facts.authority[5] ^= 1;
	host.facts.host_key[3] ^= 1;
	assert_int_equal(asks(&made), -1);
	person_says(&s, "pairing.refused");
	host_drop(&host);
	person_digest(&s, after);
	assert_memory_equal(before, after, 32);
	scratch_drop(&s);
}

/* PAIR-8: a port that takes connections and says nothing, before or after the handshake, and one
 * that nobody has. */
static void
a_silent_port_is_given_up_in_time(void **state)
{
	static const enum manner manners[] = {SILENT, ASLEEP};
	struct enroll_made made;
	int64_t began;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(
	    scratch_value(&s, "SELECT value <= 10000 FROM setting WHERE name = 'pairing.wait_ms'"),
	    1);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 400 WHERE name = 'pairing.wait_ms'"), 0);
	for (i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
		host_make(&host, manners[i]);
		began = loop_now();
		assert_int_equal(asks(&made), -1);
		person_says(&s, "pairing.port");
		assert_non_null(strstr(store_refusal(s.db)->why, "127.0.0.1:"));
		assert_in_range(loop_now() - began, 300, 4000 * SLOWER);
		host_drop(&host);
	}
	assert_int_equal(asks(&made), -1);
	person_says(&s, "pairing.port");
	scratch_drop(&s);
}

/* The places of a code are tried in turn, and share the time. */
static void
the_next_place_is_tried(void **state)
{
	struct enroll_made made;
	uint16_t dead, silent;
	int fd, mute;

	(void)state;
	host_make(&host, HONEST);
	scratch_make(&s, HOME_BOX);
	fd = tcp_listen(&dead);
	close(fd);
	mute = tcp_listen(&silent);
	memcpy(host.facts.endpoint[2], host.facts.endpoint[0], sizeof(host.facts.endpoint[0]));
	snprintf(host.facts.endpoint[0], sizeof(host.facts.endpoint[0]), "127.0.0.1:%u", dead);
	snprintf(host.facts.endpoint[1], sizeof(host.facts.endpoint[1]), "127.0.0.1:%u", silent);
	host.facts.nendpoints = 3;
	if (asks(&made) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	enroll_made_free(&made);
	close(mute);
	scratch_drop(&s);
	host_drop(&host);
}

/* PAIR-5: the name of a Host that is paired, with another authority, before and after the redeem;
 * that is no exit 3, and nothing changes. PAIR-4: the same Host again is. */
static void
another_authority_is_another_host(void **state)
{
	unsigned char before[32], after[32];
	uint8_t fp[CERT_FP_SIZE];
	struct pairing_offer offer;
	struct enroll_made made, second;
	struct pairing_made out;
	char name[65];

	(void)state;
	host_make(&host, HONEST);
	scratch_make(&s, HOME_BOX);
	assert_int_equal(asks(&made), 0);
	assert_int_equal(keeps(&made, false, &out), 0);
	person_digest(&s, before);
	memcpy(fp, host.facts.authority, sizeof(fp));
	offer = (struct pairing_offer){.host = made.host,
	    .host_key = made.host_key,
	    .transport = "reverse",
	    .authority_fp = fp};
	assert_int_equal(pairing_check(scratch_open(&s, ROLE_PERSON), &offer), -1);
	person_says(&s, "pairing.exists");
	assert_int_equal(pairing_pinned(s.db, fp, "elsewhere:1", name), -1);
	person_says(&s, "pairing.exists");
	assert_string_equal(name, "host-a");
	fp[0] ^= 1;
	assert_int_equal(pairing_check(s.db, &offer), -1);
	person_says(&s, "pairing.authority");
	offer.replace = true;
	assert_int_equal(pairing_check(s.db, &offer), -1);
	person_says(&s, "pairing.authority");
	assert_int_equal(pairing_pinned(s.db, fp, host.facts.endpoint[0], name), -1);
	person_says(&s, "pairing.authority");
	assert_int_equal(pairing_pinned(s.db, fp, "elsewhere:1", name), 0);
	/* The same key and name, and what another authority issued: after the redeem. */
	second = made;
	assert_int_equal(tls_authority(s.db, s.key, fp), 0);
	assert_int_equal(tls_authority_own(s.db, &second.authority), 0);
	person_digest(&s, before);
	assert_int_equal(keeps(&second, false, &out), -1);
	person_says(&s, "pairing.authority");
	assert_int_equal(keeps(&second, true, &out), -1);
	person_says(&s, "pairing.authority");
	cert_blob_free(&second.authority);
	assert_int_equal(scratch_value(&s, "SELECT exit_code NOT IN (0, 3) FROM refusal"
					   " WHERE code = 'pairing.authority'"),
	    1);
	person_digest(&s, after);
	assert_memory_equal(before, after, 32);
	enroll_made_free(&made);
	scratch_drop(&s);
	host_drop(&host);
}

/* With the pairing end its certificate, whose key is gone, and what it pinned. */
static void
a_pairing_ends_with_its_certificate(void **state)
{
	struct tls_identity identity;
	struct pairing_made out;
	struct pairing_end end;
	struct enroll_made made;

	(void)state;
	host_make(&host, HONEST);
	scratch_make(&s, HOME_BOX);
	assert_int_equal(asks(&made), 0);
	assert_int_equal(keeps(&made, false, &out), 0);
	assert_int_equal(pairing_revoke(scratch_open(&s, ROLE_PERSON), out.id, &end), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_tls"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_endpoint"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_identity WHERE key IS NULL"
					   " AND state = 'past'"),
	    1);
	assert_int_equal(tls_client_of(scratch_open(&s, ROLE_NET), s.key, out.id, &identity), -1);
	person_says(&s, "tls.missing");
	enroll_made_free(&made);
	scratch_drop(&s);
	host_drop(&host);
}

/* Rows of certificates are made, end, and are history. */
static void
certificates_are_history(void **state)
{
	struct pairing_made out;
	struct enroll_made made;

	(void)state;
	host_make(&host, HONEST);
	scratch_make(&s, HOME_BOX);
	assert_int_equal(asks(&made), 0);
	assert_int_equal(keeps(&made, false, &out), 0);
	person_refused(&s, "tls.identity", "UPDATE tls_identity SET cert = x'00'");
	person_refused(&s, "tls.identity", "DELETE FROM tls_identity");
	person_refused(&s, "pairing.authority", "UPDATE pairing_tls SET fp = zeroblob(32)");
	person_refused(&s, "pairing.authority", "DELETE FROM pairing_tls");
	person_refused(&s, "pairing.fixed", "UPDATE pairing SET transport = 'tls'");
	person_refused(&host.s, "tls.identity", "UPDATE box_certificate SET cert = x'00'");
	person_refused(&host.s, "tls.identity", "DELETE FROM box_certificate");
	person_refused(&host.s, "tls.authority", "UPDATE tls_authority SET made_at = 1");
	person_refused(&host.s, "tls.authority", "DELETE FROM tls_authority");
	enroll_made_free(&made);
	scratch_drop(&s);
	host_drop(&host);
}

/* A certificate of a short life begins before it is made, as others do, and is not renewed at once.
 */
static void
short_lives_are_lived(void **state)
{
	struct enroll_made made;
	struct pairing_made out;
	int64_t now = clock_now();

	(void)state;
	clock_fix(now); /* of the Host too: a minute is not long where all is slow */
	host_make(&host, HONEST);
	assert_int_equal(
	    scratch_sql(&host.s, "UPDATE setting SET value = 60000 WHERE name = 'tls.leaf_ms'"), 0);
	scratch_make(&s, HOME_BOX);
	assert_int_equal(asks(&made), 0);
	assert_int_equal(keeps(&made, false, &out), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT not_before < made_at - 60000 FROM tls_identity"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_due"), 0);
	clock_fix(now + 50000);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_due"), 1);
	clock_fix(now);
	enroll_made_free(&made);
	scratch_drop(&s);
	host_drop(&host);
}

/* Before its end a certificate is renewed with the same key; the one before is still known, one
 * before that is not; and a box cannot ask without end. */
static void
a_certificate_is_renewed(void **state)
{
	struct cert_blob request, cert, public_key;
	int64_t now = clock_now(), order, box = 0;
	struct enroll_made made;
	struct pairing_made out;
	uint8_t fp[4][CERT_FP_SIZE];
	struct cert facts;
	struct refusal r;
	int i;

	(void)state;
	host_make(&host, HONEST);
	scratch_make(&s, HOME_BOX);
	assert_int_equal(asks(&made), 0);
	assert_int_equal(keeps(&made, false, &out), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_due"), 0);
	cert_fingerprint(made.cert.data, made.cert.len, fp[0]);
	for (i = 1; i < 4; i++) {
		clock_fix(now + i * INT64_C(70) * DAY);
		assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_due"), 1);
		assert_int_equal(
		    tls_request(scratch_open(&s, ROLE_NET), s.key, out.id, &request), 0);
		scratch_open(&host.s, ROLE_NET);
		assert_int_equal(tls_box_of(host.s.db, fp[i - 1], &box), 1);
		assert_int_equal(store_begin(host.s.db), 0);
		assert_int_equal(tls_order(host.s.db, box, request.data, request.len, &order), 0);
		assert_int_equal(store_commit(host.s.db), 0);
		assert_int_equal(tls_issue(scratch_open(&host.s, ROLE_LINK), host.s.key), 1);
		assert_int_equal(tls_issue(host.s.db, host.s.key), 0);
		certificate_of(host.s.db, &cert, &public_key);
		cert_fingerprint(cert.data, cert.len, fp[i]);
		assert_int_equal(
		    tls_renew(scratch_open(&s, ROLE_NET), s.key, out.id, cert.data, cert.len), 0);
		assert_int_equal(cert_read(cert.data, cert.len, &facts, &r), 0);
		assert_true(facts.not_after > clock_now() + INT64_C(80) * DAY);
		cert_blob_free(&request);
		cert_blob_free(&cert);
		cert_blob_free(&public_key);
	}
	scratch_open(&host.s, ROLE_NET);
	assert_int_equal(tls_box_of(host.s.db, fp[3], &box), 1);
	assert_int_equal(tls_box_of(host.s.db, fp[2], &box), 1);
	assert_int_equal(tls_box_of(host.s.db, fp[1], &box), 0);
	/* What is not the Host's, or not for us, is not taken. */
	scratch_open(&s, ROLE_NET);
	assert_int_equal(
	    tls_renew(s.db, s.key, out.id, made.authority.data, made.authority.len), -1);
	assert_int_equal(tls_renew(s.db, s.key, out.id, "x", 1), -1);
	person_says(&s, "cert.form");
	assert_int_equal(tls_renew(s.db, s.key, out.id, made.cert.data, made.cert.len), -1);
	person_says(&s, "tls.untrusted"); /* its time is over */
	assert_int_equal(
	    scratch_sql(&host.s, "UPDATE setting SET value = 2 WHERE name = 'tls.per_day'"), 0);
	assert_int_equal(tls_request(scratch_open(&s, ROLE_NET), s.key, out.id, &request), 0);
	scratch_open(&host.s, ROLE_NET);
	for (i = 0; i < 2; i++) {
		assert_int_equal(store_begin(host.s.db), 0);
		assert_int_equal(
		    tls_order(host.s.db, box, request.data, request.len, &order), i == 0 ? 0 : -1);
		if (i == 0)
			assert_int_equal(store_commit(host.s.db), 0);
	}
	person_says(&host.s, "tls.busy");
	store_rollback(host.s.db);
	assert_int_equal(tls_issue(scratch_open(&host.s, ROLE_LINK), host.s.key), 1);
	scratch_open(&host.s, ROLE_NET);
	assert_int_equal(store_begin(host.s.db), 0);
	assert_int_equal(tls_order(host.s.db, box, request.data, request.len, &order), -1);
	person_says(&host.s, "tls.often");
	store_rollback(host.s.db);
	clock_fix(0);
	cert_blob_free(&request);
	enroll_made_free(&made);
	scratch_drop(&s);
	host_drop(&host);
}

/* A Host's own certificates are made where they are wanted, once, and renewed before their end. */
static void
a_host_keeps_itself_certified(void **state)
{
	struct tls_identity identity;
	int64_t now = clock_now();

	(void)state;
	scratch_make(&s, HOME_HOST);
	assert_int_equal(tls_upkeep(scratch_open(&s, ROLE_LINK), s.key), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_authority"), 0);
	assert_int_equal(scratch_sql(&s, "INSERT INTO listen (what, address, port, set_at)"
					 " VALUES ('host', '*', 7443, 1)"),
	    0);
	scratch_open(&s, ROLE_LINK);
	assert_int_equal(tls_upkeep(s.db, s.key), 0);
	assert_int_equal(tls_upkeep(s.db, s.key), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_identity"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_authority"), 1);
	clock_fix(now + INT64_C(61) * DAY);
	assert_int_equal(tls_upkeep(scratch_open(&s, ROLE_LINK), s.key), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM tls_identity"), 2);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM tls_identity WHERE state = 'current'"), 1);
	assert_int_equal(tls_server(scratch_open(&s, ROLE_NET), s.key, &identity), 0);
	tls_identity_free(&identity);
	/* Whoever serves the network reads no key of the authority. */
	assert_int_equal(stmt_value(store_sql(scratch_open(&s, ROLE_LINK),
					"SELECT key IS NOT NULL FROM tls_authority"),
			     -1),
	    1);
	assert_int_equal(
	    stmt_value(
		store_sql(scratch_open(&s, ROLE_NET), "SELECT key IS NULL FROM tls_authority"), -1),
	    1);
	clock_fix(0);
	person_refused(&s, "listen.role",
	    "INSERT INTO listen (what, address, port, set_at)"
	    " VALUES ('lane', '*', 1, 1)");
	person_refused(&s, "listen.fixed", "UPDATE listen SET port = 1");
	person_refused(
	    &s, "endpoint.invalid", "INSERT INTO host_address (ord, endpoint) VALUES (1, 'a b:1')");
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_box_pairs_over_a_network),
	    cmocka_unit_test(only_the_pinned_host_is_believed),
	    cmocka_unit_test(a_silent_port_is_given_up_in_time),
	    cmocka_unit_test(the_next_place_is_tried),
	    cmocka_unit_test(another_authority_is_another_host),
	    cmocka_unit_test(a_pairing_ends_with_its_certificate),
	    cmocka_unit_test(certificates_are_history),
	    cmocka_unit_test(short_lives_are_lived),
	    cmocka_unit_test(a_certificate_is_renewed),
	    cmocka_unit_test(a_host_keeps_itself_certified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
