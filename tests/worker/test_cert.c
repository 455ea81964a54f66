/* test_cert.c: certificates of real TLS listeners on this machine's own addresses. */
#include "tests/worker/ask.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "engine/worker/listener.h"
#include "engine/worker/tool.h"

static struct observe_limits limits;
static struct observe_env env;
static struct ask a;
static char root[64];
static int own_net;
static X509 *ca;
static EVP_PKEY *ca_key;

/* A certificate to be made. */
struct wish {
	const char *name;
	const char *names; /* subjectAltName */
	long from;         /* seconds from now */
	long until;
	int bits;
	int is_ca;
};

/* A listener in a thread. */
struct server {
	pthread_t thread;
	int fd;
	int port;
	SSL_CTX *ctx;
	int plain; /* talks no TLS */
	int mute;  /* accepts and says nothing */
	int accepted;
};

static void
extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *e;
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	assert_non_null(e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value));
	assert_int_equal(X509_add_ext(cert, e, -1), 1);
	X509_EXTENSION_free(e);
}

static X509 *
make_cert(const struct wish *w, EVP_PKEY **key, X509 *issuer, EVP_PKEY *issuer_key)
{
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);

	*key = w->bits != 0 ? EVP_RSA_gen((unsigned)w->bits) : EVP_EC_gen("P-256");
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), w->is_ca ? 1 : 2);
	X509_gmtime_adj(X509_getm_notBefore(cert), w->from);
	X509_gmtime_adj(X509_getm_notAfter(cert), w->until);
	X509_set_pubkey(cert, *key);
	X509_NAME_add_entry_by_txt(
	    name, "CN", MBSTRING_UTF8, (const unsigned char *)w->name, -1, -1, 0);
	X509_set_issuer_name(cert, issuer != NULL ? X509_get_subject_name(issuer) : name);
	extension(cert, issuer != NULL ? issuer : cert, NID_basic_constraints,
	    w->is_ca ? "critical,CA:TRUE" : "CA:FALSE");
	if (w->names != NULL)
		extension(cert, issuer != NULL ? issuer : cert, NID_subject_alt_name, w->names);
	assert_true(X509_sign(cert, issuer_key != NULL ? issuer_key : *key, EVP_sha256()) > 0);
	return cert;
}

static void *
serve(void *arg)
{
	struct server *s = arg;
	char byte;
	SSL *ssl;
	int fd;

	while ((fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC)) != -1) {
		s->accepted++;
		if (s->mute) {
			while (read(fd, &byte, 1) > 0)
				continue;
		} else if (s->plain) {
			assert_true(write(fd, "220 hello\r\n", 11) == 11);
		} else {
			ssl = SSL_new(s->ctx);
			SSL_set_fd(ssl, fd);
			if (SSL_accept(ssl) == 1)
				SSL_shutdown(ssl);
			SSL_free(ssl);
		}
		close(fd);
	}
	return NULL;
}

/* Listen on ${address} and a free port; present ${cert} unless it is NULL. */
static void
start(struct server *s, const char *address, X509 *cert, EVP_PKEY *key)
{
	struct listener_dial d;
	socklen_t len = sizeof(d.to);
	int v6 = strchr(address, ':') != NULL;

	memset(&d, 0, sizeof(d));
	d.to.any.sa_family = v6 ? AF_INET6 : AF_INET;
	assert_int_equal(v6 ? inet_pton(AF_INET6, address, &d.to.v6.sin6_addr)
			    : inet_pton(AF_INET, address, &d.to.v4.sin_addr),
	    1);
	s->fd = socket(d.to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, &d.to.any, v6 ? sizeof(d.to.v6) : sizeof(d.to.v4)), 0);
	assert_int_equal(listen(s->fd, 4), 0);
	assert_int_equal(getsockname(s->fd, &d.to.any, &len), 0);
	s->port = ntohs(v6 ? d.to.v6.sin6_port : d.to.v4.sin_port);
	if (cert != NULL) {
		s->ctx = SSL_CTX_new(TLS_server_method());
		SSL_CTX_set_security_level(s->ctx, 0);
		assert_int_equal(SSL_CTX_use_certificate(s->ctx, cert), 1);
		assert_int_equal(SSL_CTX_use_PrivateKey(s->ctx, key), 1);
	}
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void
stop(struct server *s)
{
	shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->fd);
	SSL_CTX_free(s->ctx);
}

static void
ask_cert(int port, const char *name)
{
	char text[16];
	const char *const words[] = {text, name, NULL};

	snprintf(text, sizeof(text), "%d", port);
	free(a.frames);
	ask_run(&a, "observe:cert", words, &limits, &env);
}

/* Serve a certificate as wished on ${address}, ask for it under ${name}. */
static void
ask_wish(const struct wish *w, int self_signed, const char *address, const char *name)
{
	struct server s = {.plain = 0};
	EVP_PKEY *key;
	X509 *cert;

	cert = make_cert(w, &key, self_signed ? NULL : ca, self_signed ? NULL : ca_key);
	start(&s, address, cert, key);
	ask_cert(s.port, name);
	stop(&s);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static void
verdict(int ok, const char *reason)
{
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_int_equal(ask_int(a.result, "$.verify.ok"), ok);
	ask_is(a.result, "SELECT json_extract(?1, '$.verify.reason')", reason);
}

static int
set_up(void **state)
{
	FILE *f;

	(void)state;
	observe_defaults(&limits, &env);
	strcpy(root, "/tmp/bastion-cert-XXXXXX");
	if (mkdtemp(root) == NULL)
		return -1;
	snprintf(env.trust, sizeof(env.trust), "%s/ca.pem", root);
	f = fopen(env.trust, "w");
	PEM_write_X509(f, ca);
	return fclose(f);
}

static int
tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", root);
	return system(command);
}

static void
need_ss(void)
{
	if (access(env.ss, X_OK) != 0) {
		print_message("needs ss\n");
		skip();
	}
}

static const struct wish good = {"box-a.example", "DNS:box-a.example,DNS:*.b.example,IP:192.0.2.10",
    -3600, 10 * 86400 + 3600, 0, 0};

/* core 1.1.1: subject, names, issuer, dates, days and the verdict. */
static void
a_good_certificate(void **state)
{
	(void)state;
	need_ss();
	ask_wish(&good, 0, "127.0.0.1", "box-a.example");
	verdict(1, "ok");
	ask_is(a.result, "SELECT json_extract(?1, '$.subject')", "CN=box-a.example");
	ask_is(a.result, "SELECT json_extract(?1, '$.issuer')", "CN=Test authority");
	ask_is(a.result, "SELECT json_extract(?1, '$.names')",
	    "[{\"kind\":\"dns\",\"name\":\"box-a.example\"},{\"kind\":\"dns\",\"name\":\"*.b.example\"},"
	    "{\"kind\":\"ip\",\"name\":\"192.0.2.10\"}]");
	ask_is(a.result, "SELECT json_extract(?1, '$.address')", "127.0.0.1");
	assert_int_equal(ask_int(a.result, "$.days_left"), 10);
	ask_is(a.result,
	    "SELECT round(julianday(?1 ->> 'not_after') - julianday(?1 ->> 'not_before'), 3)",
	    "10.083");
	ask_wish(&good, 0, "127.0.0.1", "www.b.example");
	verdict(1, "ok");
	ask_wish(&good, 0, "127.0.0.1", "192.0.2.10");
	verdict(1, "ok");
	ask_wish(&good, 0, "127.0.0.1", NULL);
	verdict(1, "ok");
	assert_int_equal(ask_int(a.result, "$.verify.name_checked"), 0);
}

/* What is wrong with a certificate is the answer, not a failure. */
static void
bad_certificates(void **state)
{
	struct wish w = good;

	(void)state;
	need_ss();
	ask_wish(&good, 0, "127.0.0.1", "other.example");
	verdict(0, "hostname mismatch");
	ask_wish(&good, 0, "127.0.0.1", "192.0.2.11");
	verdict(0, "IP address mismatch");
	ask_wish(&good, 1, "127.0.0.1", "box-a.example");
	verdict(0, "self-signed certificate");
	w.until = -1800;
	ask_wish(&w, 0, "127.0.0.1", "box-a.example");
	verdict(0, "certificate has expired");
	assert_int_equal(ask_int(a.result, "$.days_left"), -1);
	w = good;
	w.from = 7200;
	ask_wish(&w, 0, "127.0.0.1", "box-a.example");
	verdict(0, "certificate is not yet valid");
	w = good;
	w.bits = 1024;
	ask_wish(&w, 0, "127.0.0.1", "box-a.example");
	verdict(0, "EE certificate key too weak");
}

/* The system's store does not know our authority. */
static void
system_store(void **state)
{
	(void)state;
	need_ss();
	env.trust[0] = '\0';
	ask_wish(&good, 0, "127.0.0.1", "box-a.example");
	verdict(0, "unable to get local issuer certificate");
}

/* Every address, IPv6 loopback and another loopback address are dialled on loopback. */
static void
loopback_first(void **state)
{
	(void)state;
	need_ss();
	ask_wish(&good, 0, "0.0.0.0", NULL);
	ask_is(a.result, "SELECT json_extract(?1, '$.address')", "127.0.0.1");
	ask_wish(&good, 0, "127.0.0.53", NULL);
	ask_is(a.result, "SELECT json_extract(?1, '$.address')", "127.0.0.53");
	if (!own_net)
		return;
	ask_wish(&good, 0, "::1", NULL);
	ask_is(a.result, "SELECT json_extract(?1, '$.address')", "::1");
	ask_wish(&good, 0, "::", NULL);
	verdict(1, "ok");
}

/* Else an own address that the listener is bound to. */
static void
own_address(void **state)
{
	(void)state;
	need_ss();
	if (!own_net) {
		print_message("needs a network namespace\n");
		skip();
	}
	ask_wish(&good, 0, "192.0.2.10", "192.0.2.10");
	verdict(1, "ok");
	ask_is(a.result, "SELECT json_extract(?1, '$.address')", "192.0.2.10");
}

/* A stand-in for ss that prints ${lines}. */
static void
listing(const char *lines)
{
	char text[1024];

	snprintf(env.ss, sizeof(env.ss), "%s/ss", root);
	snprintf(text, sizeof(text),
	    "#!/bin/sh\n# a stand-in for ss, made by a test\ncat <<'END'\n%sEND\n", lines);
	ask_write(env.ss, text, 0755);
}

/* OBS-12: a closed port is refused before anything is dialled. */
static void
closed_port(void **state)
{
	struct server s = {.mute = 1};

	(void)state;
	/* Something would answer, but ss does not list it: if it is dialled, it notices. */
	listing("LISTEN 0 128 0.0.0.0:22 0.0.0.0:*\n");
	start(&s, "127.0.0.1", NULL, NULL);
	ask_cert(s.port, NULL);
	stop(&s);
	assert_int_equal(a.code, OBSERVE_WRONG);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.port_closed");
	assert_int_equal(s.accepted, 0);
}

/* core 1.1.1: never an address that another machine could hold. */
static void
anothers_address(void **state)
{
	(void)state;
	listing("LISTEN 0 128 198.51.100.77:443 0.0.0.0:*\n"
		"LISTEN 0 128 [2001:db8::77]:443 [::]:*\n");
	ask_cert(443, NULL);
	assert_int_equal(a.code, OBSERVE_WRONG);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.port_closed");
	assert_non_null(strstr(a.result, "does not hold"));
}

/* The lines of ss, taken apart. */
static void
lines_of_ss(void **state)
{
	static const char *const lines[] = {
	    "LISTEN 0      128          0.0.0.0:443        0.0.0.0:*   ",
	    "LISTEN 0 128 127.0.0.53%lo:443 0.0.0.0:*",
	    "LISTEN 0 128 [::]:443 [::]:*",
	    "LISTEN 0 128 *:443 *:*",
	    "LISTEN 0 128 [::ffff:127.0.0.1]:443 *:*",
	    "LISTEN 0 128 0.0.0.0:4433 0.0.0.0:*",
	    "LISTEN 0 128 0.0.0.0:443x 0.0.0.0:*",
	    "ESTAB 0 128 0.0.0.0:443 0.0.0.0:*",
	    "LISTEN 0 128",
	    "LISTEN",
	    "",
	    "LISTEN 0 128 junk:443 x",
	};
	struct listener l = {.port = 443};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		listener_line(&l, lines[i], strlen(lines[i]));
	assert_int_equal(l.found, 6);
	assert_int_equal(l.ndials, 3);
	listener_sort(&l);
	for (i = 0; i < 3; i++)
		assert_true(l.dials[i].loopback);
}

/* No TLS there, or nothing said at all: in time, and in words. */
static void
no_handshake(void **state)
{
	struct server plain = {.plain = 1}, mute = {.mute = 1};
	int64_t began;

	(void)state;
	need_ss();
	limits.cert_ms = 300;
	start(&plain, "127.0.0.1", NULL, NULL);
	ask_cert(plain.port, NULL);
	stop(&plain);
	assert_int_equal(a.code, OBSERVE_FAILED);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.handshake");
	start(&mute, "127.0.0.1", NULL, NULL);
	began = tool_now_ms();
	ask_cert(mute.port, NULL);
	assert_true(tool_now_ms() - began < 2000);
	stop(&mute);
	assert_int_equal(a.code, OBSERVE_FAILED);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.handshake");
}

/* Without ss nobody knows what listens. */
static void
no_ss(void **state)
{
	(void)state;
	strcpy(env.ss, "/nonexistent");
	ask_cert(443, NULL);
	assert_int_equal(a.code, OBSERVE_MISSING);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.tool");
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.why')", "this machine has no ss");
}

static int
make_authority(void **state)
{
	static const struct wish w = {"Test authority", NULL, -86400, 86400 * 30, 0, 1};

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	ca = make_cert(&w, &ca_key, NULL, NULL);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_good_certificate, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(bad_certificates, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(system_store, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(loopback_first, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(own_address, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(closed_port, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(anothers_address, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(lines_of_ss, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(no_handshake, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(no_ss, set_up, tear_down),
	};
	int rc;

	own_net = unshare(CLONE_NEWNET) == 0 && system("ip link set lo up") == 0 &&
		  system("ip address add 192.0.2.10/32 dev lo") == 0;
	rc = cmocka_run_group_tests(tests, make_authority, NULL);
	free(a.frames);
	X509_free(ca);
	EVP_PKEY_free(ca_key);
	return rc;
}
