/* test_inspect.c: tunnels that are looked into, and tokens that go through them. */
#include <sys/socket.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "engine/crypto/ca.h"
#include "engine/crypto/openssl.h"
#include "engine/state/egress.h"
#include "engine/state/process.h"
#include "engine/state/token.h"
#include "net/egress/inject.h"
#include "net/egress/leaf.h"
#include "engine/redact.h"
#include "net/http/tls.h"
#include "tests/netns.h"
#include "tests/rig.h"

#define NAME   "site.example"
#define SECRET "s3cr3t/0123456789+abcdef"
#define YEAR   INT64_C(31536000000)

static struct scratch s;
static bool isolated;
static int site; /* a server that listens out there */
static uint16_t port;
static char out[RIG_TEXT_MAX], request[RIG_TEXT_MAX];
static struct tls_end *site_end, *stray_end; /* its certificate; and one that nobody trusts */
static const struct openssl_ssl *tls;

/* One end of TLS, spoken to by hand. */
struct end {
	int fd;
	SSL *ssl;
};

/*
 * The site.
 */

/* An authority, in the PEM file ${path} where that is not NULL, and an end that it has certified.
 */
static struct tls_end *
certified(const char *path)
{
	const char *const names[] = {NAME, "www." NAME, "other.example", NETNS_SITE, NULL};
	struct cert_blob ca_cert, ca_key, key, public, cert, pem;
	struct tls_config config = {.cert = &cert, .key = &key, .issuer = &ca_cert};
	struct ca_order order = {
	    .use = CA_SERVER, .subject = NAME, .names = names, .valid_ms = YEAR, .early_ms = YEAR};
	struct tls_end *end;
	struct refusal r;
	struct ca *ca;
	FILE *f;

	assert_int_equal(ca_make("somebody", YEAR, YEAR, &ca_cert, &ca_key, &r), 0);
	assert_non_null(ca = ca_load(&ca_cert, &ca_key, &r));
	assert_int_equal(cert_key_make(&key, &public, &r), 0);
	order.public_key = public.data;
	order.public_key_len = public.len;
	assert_int_equal(ca_issue(ca, &order, &cert, &r), 0);
	assert_non_null(end = tls_server_end(&config, &r));
	assert_int_equal(cert_to_pem(ca_cert.data, ca_cert.len, &pem, &r), 0);
	if (path != NULL) {
		assert_non_null(f = fopen(path, "w"));
		fwrite(pem.data, 1, pem.len, f);
		fclose(f);
	}
	ca_free(ca);
	cert_blob_free(&ca_cert);
	cert_blob_free(&ca_key);
	cert_blob_free(&key);
	cert_blob_free(&public);
	cert_blob_free(&cert);
	cert_blob_free(&pem);
	return end;
}

static int
set_up(void **state)
{
	(void)state;
	if (!isolated)
		return 0;
	scratch_make(&s, HOME_BOX);
	snprintf(rig_roots, sizeof(rig_roots), "%s/roots.pem", s.dir);
	rig_inspect = PROXY_INSPECT_ALL;
	site_end = certified(rig_roots);
	stray_end = certified(NULL);
	port = 0;
	site = netns_listen(NETNS_SITE, &port);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	if (!isolated)
		return 0;
	close(site);
	tls_end_free(site_end);
	tls_end_free(stray_end);
	scratch_drop(&s);
	return 0;
}

static void
need_networks(void)
{
	if (isolated)
		return;
	print_message("no network namespaces can be made here\n");
	skip();
}

static void
begin(void)
{
	need_networks();
	rig_start(&s);
	rig_name(NAME, NETNS_SITE, 60, 0);
	rig_name("www." NAME, NETNS_SITE, 60, 0);
	rig_name("other.example", NETNS_SITE, 60, 0);
}

/* Rules and a token, before begin. */
static void
allow(const char *suffix, const struct egress_within *within)
{
	struct egress_rule rule = {.uid = -1, .suffix = suffix, .within = within};
	int64_t id;

	need_networks();
	scratch_open(&s, ROLE_PERSON);
	if (egress_rule_make(s.db, &rule, &id) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
}

static void
token_make(const char *secret, const char *header, const char *scheme)
{
	const char *const hosts[] = {NAME};
	struct token_wish wish = {
	    .name = "t", .hosts = hosts, .nhosts = 1, .header = header, .scheme = scheme};
	int64_t id;

	need_networks();
	scratch_open(&s, ROLE_PERSON);
	if (token_add(s.db, s.key, &wish, secret, &id) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
}

/*
 * TLS by hand.
 */

static void
end_close(struct end *e)
{
	if (e->ssl != NULL) {
		tls->SSL_shutdown(e->ssl);
		tls->SSL_free(e->ssl);
	}
	close(e->fd);
	e->ssl = NULL;
}

static void
fill(const char *text)
{
	size_t n = 0;

	for (; *text != '\0' && n + 8 < sizeof(request); text++)
		if (text[0] == '%' && text[1] == 'u') {
			n += (size_t)snprintf(request + n, sizeof(request) - n, "%u", port);
			text++;
		} else {
			request[n++] = *text;
		}
	request[n] = '\0';
}

static void
say(struct end *e, const char *text)
{
	fill(text);
	assert_int_equal(
	    tls->SSL_write(e->ssl, request, (int)strlen(request)), (int)strlen(request));
}

/* Read until ${until} has come, or to the end (NULL). */
static const char *
hear(struct end *e, const char *until)
{
	size_t n = 0;
	int k;

	out[0] = '\0';
	while (n + 1 < sizeof(out) && (until == NULL || strstr(out, until) == NULL)) {
		if ((k = tls->SSL_read(e->ssl, out + n, until == NULL ? 4096 : 1)) <= 0) {
			if (until != NULL)
				fail_msg("no %s in: %s (ssl %d)", until, out, e->ssl != NULL);
			break;
		}
		n += (size_t)k;
		out[n] = '\0';
	}
	return out;
}

/* Trust ${pem} and shake hands on ${fd} with ${name}, naming ${sni} in it where that is not NULL.
 */
static int
shake(struct end *e, int fd, const char *pem, const char *name, const char *sni)
{
	struct cert_blob ca = {.data = NULL};
	struct tls_config config = {.cas = &ca, .ncas = 1};
	struct tls_end *end;
	struct refusal r;
	union {
		const char *in;
		void *out;
	} u = {.in = sni};

	assert_int_equal(cert_from_pem(pem, strlen(pem), &ca, &r), 0);
	assert_non_null(end = tls_client_end(&config, &r));
	e->fd = fd;
	assert_non_null(e->ssl = tls_end_new_ssl(end, name));
	if (sni != NULL)
		tls->SSL_ctrl(
		    e->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, u.out);
	tls->SSL_set_fd(e->ssl, fd);
	if (tls->SSL_do_handshake(e->ssl) != 1) {
		tls->SSL_free(e->ssl);
		e->ssl = NULL;
	}
	tls_end_free(end);
	cert_blob_free(&ca);
	return e->ssl != NULL ? 0 : -1;
}

static int
tunnel_to(const char *name)
{
	char text[256];
	int fd = rig_dial(rig_http);

	snprintf(text, sizeof(text), "CONNECT %s:%u HTTP/1.1\r\n\r\n", name, port);
	rig_say(fd, text);
	assert_int_equal(rig_hear_until(fd, "\r\n\r\n", out, sizeof(out)), 0);
	/* MI-03: and nothing more. */
	assert_string_equal(out, "HTTP/1.1 200 Connection established\r\n\r\n");
	return fd;
}

static struct end
client_to(const char *name)
{
	struct end e;

	assert_int_equal(shake(&e, tunnel_to(name), rig_pem, name, NULL), 0);
	return e;
}

static struct end
server_of(struct tls_end *certificate)
{
	struct end e = {.fd = rig_accept(site)};

	assert_non_null(e.ssl = tls_end_new_ssl(certificate, NULL));
	tls->SSL_set_fd(e.ssl, e.fd);
	if (tls->SSL_do_handshake(e.ssl) != 1) {
		tls->SSL_free(e.ssl);
		e.ssl = NULL;
	}
	return e;
}

static void
answers(struct end *server, const char *body)
{
	char text[4096];

	snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
	    strlen(body), body);
	say(server, text);
}

/* One request over a tunnel of its own that reaches nobody: it is answered with ${status}. */
static void
refused(const char *name, const char *text, int status, const char *code)
{
	char start[32];
	struct end client = client_to(name);

	say(&client, text);
	hear(&client, NULL);
	snprintf(start, sizeof(start), "HTTP/1.1 %d ", status);
	if (strncmp(out, start, strlen(start)) != 0 || strstr(out, code) == NULL)
		fail_msg("not %d %s but: %s", status, code, out);
	end_close(&client);
	assert_false(rig_contacted(site));
}

/*
 * Looking into tunnels.
 */

/* MI-03: a client that trusts the lane alone gets what the server says. MI-02: its certificate is
 * for that name. */
static void
a_tunnel_is_looked_into(void **state)
{
	struct end client, server;

	(void)state;
	begin();
	client = client_to(NAME);
	say(&client, "GET /p?q=1 HTTP/1.1\r\nHost: " NAME ":%u\r\nX-Keep: 2\r\nTE: x\r\n\r\n");
	server = server_of(site_end);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_request"
					   " WHERE state = 'open' AND path = '/p'"),
	    1);
	hear(&server, "\r\n\r\n");
	fill("GET /p?q=1 HTTP/1.1\r\nHost: " NAME ":%u\r\nX-Keep: 2\r\n"
	     "Connection: keep-alive\r\n\r\n");
	assert_string_equal(out, request);
	answers(&server, "upstream-ok");
	hear(&client, "upstream-ok");
	assert_string_equal(out, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n"
				 "Connection: keep-alive\r\n\r\nupstream-ok");
	end_close(&client);
	end_close(&server);
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_request WHERE state = 'done' AND status = 200"
	    "  AND method = 'GET' AND host = '" NAME "'");
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE state = 'done' AND up > 0");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit"
					   " WHERE entity = 'egress_request' AND action = 'open'"
					   "   AND body ->> '$.path' = '/p'"),
	    1);
	rig_stop(&s);
}

/* MI-04: another Host is refused within TLS, and nobody is dialled. MI-08: so it is for the second
 * request of a tunnel. */
static void
every_request_is_judged(void **state)
{
	struct end client, server;

	(void)state;
	allow(NAME, NULL);
	begin();
	refused(NAME, "GET / HTTP/1.1\r\nHost: blocked.example:%u\r\n\r\n", 403, "egress.unknown");
	refused(NAME, "GET / HTTP/1.1\r\nHost: www." NAME ":%u\r\n\r\n", 403, "egress.fronted");
	refused(NAME, "GET / HTTP/1.1\r\nHost: " NAME "\r\n\r\n", 403, "egress.fronted");
	client = client_to(NAME);
	say(&client, "GET /1 HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	answers(&server, "one");
	hear(&client, "one");
	say(&client, "GET /2 HTTP/1.1\r\nHost: blocked.example\r\n\r\n");
	hear(&client, NULL);
	assert_memory_equal(out, "HTTP/1.1 403 ", 13);
	assert_non_null(strstr(out, "X-Bastion-Refused: "));
	assert_string_equal(hear(&server, NULL), "");
	end_close(&client);
	end_close(&server);
	rig_until(&s, 4, "SELECT count(*) FROM egress_request WHERE state = 'refused'");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit"
					   " WHERE entity = 'egress_request'"
					   "   AND action = 'refused'"),
	    4);
	rig_stop(&s);
}

/* MI-05: a server that nobody vouches for gets no byte of the request. */
static void
an_untrusted_server_is_refused(void **state)
{
	struct end client, server;

	(void)state;
	begin();
	client = client_to(NAME);
	say(&client, "GET /secret HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	server = server_of(stray_end);
	assert_null(server.ssl);
	close(server.fd);
	hear(&client, NULL);
	assert_memory_equal(out, "HTTP/1.1 502 ", 13);
	assert_non_null(strstr(out, "egress.untrusted"));
	end_close(&client);
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_request WHERE state = 'failed'"
	    "  AND code = 'egress.untrusted'");
	/* And one that is somebody else. */
	rig_name("nobody.example", NETNS_SITE, 60, 0);
	client = client_to("nobody.example");
	say(&client, "GET /secret HTTP/1.1\r\nHost: nobody.example:%u\r\n\r\n");
	server = server_of(site_end);
	if (server.ssl != NULL)
		assert_string_equal(hear(&server, NULL), "");
	end_close(&server);
	hear(&client, NULL);
	assert_memory_equal(out, "HTTP/1.1 502 ", 13);
	end_close(&client);
	/* Nobody listens. */
	client.fd = rig_dial(rig_http);
	rig_say(client.fd, "CONNECT " NAME ":9 HTTP/1.1\r\n\r\n");
	assert_int_equal(rig_hear_until(client.fd, "\r\n\r\n", out, sizeof(out)), 0);
	assert_int_equal(shake(&client, client.fd, rig_pem, NAME, NULL), 0);
	say(&client, "GET / HTTP/1.1\r\nHost: " NAME ":9\r\n\r\n");
	assert_non_null(strstr(hear(&client, NULL), "egress.dial"));
	end_close(&client);
	rig_stop(&s);
}

/* MI-06: the certificate is for the host that the tunnel was asked for, whatever the handshake
 * says. MI-09: of an address it names the address. MI-10: a request without Host is for the
 * tunnel's. */
static void
the_tunnel_says_who_it_is(void **state)
{
	struct end client, server;

	(void)state;
	begin();
	assert_int_equal(shake(&client, tunnel_to(NAME), rig_pem, NAME, "evil.test"), 0);
	say(&client, "GET / HTTP/1.0\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	fill("GET / HTTP/1.0\r\nHost: " NAME ":%u\r\nConnection: close\r\n\r\n");
	assert_string_equal(out, request);
	say(&server, "HTTP/1.0 200 OK\r\n\r\nto the end");
	end_close(&server);
	assert_non_null(strstr(hear(&client, NULL), "\r\nConnection: close\r\n\r\nto the end"));
	end_close(&client);
	assert_int_equal(shake(&client, tunnel_to(NAME), rig_pem, "evil.test", NULL), -1);
	close(client.fd);
	client = client_to(NETNS_SITE);
	say(&client, "GET / HTTP/1.1\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	answers(&server, "by address");
	hear(&client, "by address");
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

/* MI-07: 600 hosts: no more than 512 certificates are kept. MI-02: the second ask gives the first.
 */
static void
few_certificates_are_kept(void **state)
{
	struct leaf *first, *again, *leaf;
	struct leaves *leaves;
	struct refusal r;
	char name[64];
	int n;

	(void)state;
	assert_non_null(leaves = leaves_new(YEAR, 512, &r));
	assert_non_null(first = leaf_take(leaves, "api.example.com", &r));
	assert_ptr_equal(again = leaf_take(leaves, "api.example.com", &r), first);
	leaf_put(again);
	for (n = 0; n < 600; n++) {
		snprintf(name, sizeof(name), "h%d.example", n);
		assert_non_null(leaf = leaf_take(leaves, name, &r));
		leaf_put(leaf);
		assert_true(leaves_count(leaves) <= 512);
	}
	assert_int_equal(leaves_count(leaves), 512);
	/* It went out of the list in use, and is another now. */
	assert_non_null(leaf_end(first));
	assert_ptr_not_equal(again = leaf_take(leaves, "api.example.com", &r), first);
	leaf_put(again);
	leaves_free(leaves);
	leaf_put(first);
}

/* MI-01: where nothing is looked into there is no authority, and bytes pass as they are. */
static void
off_is_off(void **state)
{
	struct end client, server;
	int fd;

	(void)state;
	rig_inspect = PROXY_INSPECT_SETTING;
	begin();
	assert_string_equal(rig_pem, "");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_authority"), 0);
	fd = tunnel_to(NAME);
	server.fd = rig_accept(site);
	rig_say(fd, "plain bytes");
	assert_int_equal(rig_hear_until(server.fd, "bytes", out, sizeof(out)), 0);
	close(fd);
	close(server.fd);
	rig_stop(&s);
	/* A rule that says something of requests has no tunnel here. */
	allow("other.example", &(struct egress_within){.method = "GET"});
	begin();
	fill("CONNECT other.example:%u HTTP/1.1\r\n\r\n");
	rig_ask(rig_http, request, out, sizeof(out));
	assert_memory_equal(out, "HTTP/1.1 403 ", 13);
	assert_non_null(strstr(out, "egress.uninspected"));
	rig_stop(&s);
	/* By the setting there is one, and its certificate is a row. */
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 1 WHERE name = 'egress.inspect'"), 0);
	begin();
	rig_until(&s, 1, "SELECT count(*) FROM egress_authority WHERE ends_at > now_ms()");
	scratch_text(&s, "SELECT pem FROM egress_authority", out, sizeof(out));
	assert_string_equal(out, rig_pem);
	/* The others are not looked into. */
	fd = tunnel_to(NAME);
	server.fd = rig_accept(site);
	rig_say(fd, "plain bytes");
	assert_int_equal(rig_hear_until(server.fd, "bytes", out, sizeof(out)), 0);
	close(fd);
	close(server.fd);
	client = client_to("other.example");
	say(&client, "GET / HTTP/1.1\r\nHost: other.example:%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	answers(&server, "seen");
	hear(&client, "seen");
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

/* Two runs of a user, of which neither is an added op's: as sessions and bastion run make them. */
static void
runs_make(void)
{
	need_networks();
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(s.db), 0);
	assert_true(process_self(s.db) > 0);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(
	    scratch_sql(&s,
		"INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words, net,"
		"  started_at)"
		" SELECT lower(hex(randomblob(16))), 'native', p.id, 1000, 'agent', 1, 'sockets',"
		"  now_ms() FROM process AS p, (VALUES (1), (2))"),
	    0);
}

static void
run_allow(const char *run, const char *suffix)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
	    "INSERT INTO egress_rule (verdict, run_id, suffix, made_at, made_by_uid)"
	    " VALUES ('allow', %s, '%s', now_ms(), 0)",
	    run, suffix);
	assert_int_equal(scratch_sql(&s, sql), 0);
}

static const struct proxy_who first_run = {.id = 1000, .run = 1};
static const struct proxy_who other_run = {.id = 1000, .run = 2};

/* What ${who} wants by itself is refused, with ${code} in its row, and reaches nobody. */
static void
caught_is_refused(struct proxy_who who, const char *host, uint16_t to, const char *code)
{
	char sql[160];
	int fd = rig_catch(who, host, to);

	rig_hear(fd, out, sizeof(out));
	close(fd);
	snprintf(sql, sizeof(sql),
	    "SELECT count(*) > 0 FROM egress_flow WHERE surface = 'caught' AND host = '%s'"
	    "  AND port = %u AND run_id = %d AND code = '%s'",
	    host, to, (int)who.run, code);
	rig_until(&s, 1, sql);
	assert_false(rig_contacted(site));
}

static void
caught_passes(struct proxy_who who, const char *host)
{
	int fd = rig_catch(who, host, port), there;

	there = rig_accept(site);
	rig_say(fd, "plain bytes");
	assert_int_equal(rig_hear_until(there, "bytes", out, sizeof(out)), 0);
	close(fd);
	close(there);
}

/* A session, whose programs do not trust the lane, gets nothing whole that a rule only allows in
 * part, whatever the setting is and on whatever port; what its own rules allow whole it does get.
 */
static void
sessions_get_no_part_whole(void **state)
{
	int fd, mode;
	char sql[96];

	(void)state;
	rig_inspect = PROXY_INSPECT_SETTING;
	runs_make();
	allow(NAME, &(struct egress_within){.method = "GET", .path = "/repos/*"});
	allow("other.example", NULL);
	run_allow("1", "www." NAME);
	for (mode = 0; mode <= 2; mode++) {
		snprintf(sql, sizeof(sql),
		    "UPDATE setting SET value = %d WHERE name = 'egress.inspect'", mode);
		assert_int_equal(scratch_sql(&s, sql), 0);
		begin();
		caught_is_refused(first_run, NAME, port, "egress.uninspected");
		caught_is_refused(first_run, NAME, 80, "egress.uninspected");
		fd = rig_take(first_run);
		fill("CONNECT " NAME ":%u HTTP/1.1\r\n\r\n");
		rig_say(fd, request);
		rig_hear(fd, out, sizeof(out));
		assert_non_null(strstr(out, "egress.uninspected"));
		close(fd);
		fd = rig_take(first_run);
		rig_say(fd, "GET http://" NAME "/repos/a HTTP/1.1\r\n\r\n");
		rig_hear(fd, out, sizeof(out));
		assert_non_null(strstr(out, "egress.plain"));
		close(fd);
		caught_passes(first_run, "other.example");
		caught_passes(first_run, "www." NAME);
		/* What one run may reach whole, another may not. */
		caught_is_refused(other_run, "www." NAME, port, "egress.uninspected");
		rig_stop(&s);
	}
}

/* What was said for a run says nothing of what others ask for. */
static void
rules_of_a_run_are_for_its_requests(void **state)
{
	struct end client, server;

	(void)state;
	rig_inspect = PROXY_INSPECT_RULES;
	runs_make();
	allow(NAME, &(struct egress_within){.method = "GET", .path = "/repos/*"});
	allow("other.example", NULL);
	run_allow("1", NAME);
	assert_int_equal(
	    scratch_sql(&s,
		"INSERT INTO egress_rule (verdict, run_id, suffix, made_at, made_by_uid)"
		" VALUES ('deny', 1, 'www." NAME "', now_ms(), 0)"),
	    0);
	begin();
	refused(NAME, "GET /user HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n", 403, "egress.within");
	client = client_to("www." NAME);
	say(&client, "GET /repos/a HTTP/1.1\r\nHost: www." NAME ":%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	answers(&server, "seen");
	hear(&client, "seen");
	end_close(&client);
	end_close(&server);
	/* To the run itself they speak. */
	fill("CONNECT www." NAME ":%u HTTP/1.1\r\n\r\n");
	client.fd = rig_take(first_run);
	rig_say(client.fd, request);
	rig_hear(client.fd, out, sizeof(out));
	assert_non_null(strstr(out, "egress.denied"));
	close(client.fd);
	fill("CONNECT " NAME ":%u HTTP/1.1\r\n\r\n");
	client.fd = rig_take(first_run);
	rig_say(client.fd, request);
	assert_int_equal(rig_hear_until(client.fd, "\r\n\r\n", out, sizeof(out)), 0);
	assert_int_equal(shake(&client, client.fd, rig_pem, NAME, NULL), 0);
	say(&client, "GET /user HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	answers(&server, "whole");
	hear(&client, "whole");
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

/* A rule that is made or forgotten leaves those of runs as they are. */
static void
rules_of_a_run_stay(void **state)
{
	struct egress_rule rule = {.deny = true, .uid = -1, .suffix = NAME};
	int64_t count;

	(void)state;
	runs_make();
	run_allow("1", NAME);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(egress_rule_make(s.db, &rule, &count), 0);
	assert_int_equal(egress_rule_forget(s.db, 0, NAME, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(egress_rule_forget(s.db, 0, NAME, &count), -1);
	assert_string_equal(store_refusal(s.db)->code, "egress.unknown_rule");
	assert_int_equal(
	    scratch_value(&s, "SELECT run_id FROM egress_rule WHERE state = 'active'"), 1);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(egress_rule_forget(s.db, 1, "", &count), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_rule WHERE state = 'active'"), 0);
}

/* A tunnel to the site by SOCKS, with the lane's own handshake in it. */
static struct end
socks_to_site(void)
{
	unsigned char ask[] = {5, 1, 0, 5, 1, 0, 1, 198, 51, 100, 8, 0, 0}, reply[12];
	struct end e;
	int fd = rig_dial(rig_socks);

	ask[11] = (unsigned char)(port >> 8);
	ask[12] = (unsigned char)port;
	rig_send(fd, ask, sizeof(ask));
	assert_int_equal(recv(fd, reply, sizeof(reply), MSG_WAITALL), 12);
	assert_int_equal(reply[3], 0);
	assert_int_equal(shake(&e, fd, rig_pem, NETNS_SITE, NULL), 0);
	return e;
}

/* MI-11: SOCKS is looked into as well, and another Host in its tunnel is refused. Who does not wait
 * for the tunnel is told. */
static void
socks_is_looked_into(void **state)
{
	struct end client, server;
	int fd;

	(void)state;
	begin();
	client = socks_to_site();
	say(&client, "GET / HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	assert_memory_equal(hear(&client, NULL), "HTTP/1.1 403 ", 13);
	assert_non_null(strstr(out, "egress.fronted"));
	end_close(&client);
	assert_false(rig_contacted(site));
	client = socks_to_site();
	say(&client, "GET / HTTP/1.1\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	answers(&server, "by socks");
	hear(&client, "by socks");
	end_close(&client);
	end_close(&server);
	fill("CONNECT " NAME ":%u HTTP/1.1\r\n\r\nearly");
	rig_ask(rig_http, request, out, sizeof(out));
	assert_non_null(strstr(out, "egress.early"));
	/* What is no TLS ends, and nobody is dialled. */
	fd = tunnel_to(NAME);
	rig_say(fd, "SSH-2.0-x\r\n");
	rig_hear(fd, out, sizeof(out));
	close(fd);
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE code = 'egress.tls'");
	assert_false(rig_contacted(site));
	rig_stop(&s);
}

/* Bodies of every framing, both ways, and requests one after another. */
static void
bodies_go_through(void **state)
{
	struct end client, server;

	(void)state;
	begin();
	client = client_to(NAME);
	/* Two at once: the second waits for its turn. */
	say(&client,
	    "POST /1 HTTP/1.1\r\nHost: " NAME ":%u\r\nContent-Length: 5\r\n\r\nhello"
	    "POST /2 HTTP/1.1\r\nHost: " NAME
	    ":%u\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX: y\r\n\r\n");
	server = server_of(site_end);
	assert_null(strstr(hear(&server, "hello"), "/2"));
	say(&server, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
		     "Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n");
	hear(&client, "0\r\n\r\n");
	assert_non_null(strstr(out, "100 Continue"));
	assert_non_null(strstr(out, "\r\n\r\n3\r\none\r\n0\r\n\r\n"));
	assert_non_null(strstr(hear(&server, "0\r\n\r\n"), "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
	say(&server, "HTTP/1.1 204 No Content\r\n\r\n");
	hear(&client, "\r\n\r\n");
	say(&client, "HEAD /3 HTTP/1.1\r\nHost: " NAME ":%u\r\nConnection: close\r\n\r\n");
	hear(&server, "\r\n\r\n");
	say(&server, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
	assert_non_null(strstr(hear(&client, NULL), "Content-Length: 1000"));
	end_close(&client);
	end_close(&server);
	rig_until(&s, 3, "SELECT count(*) FROM egress_request WHERE state = 'done'");
	rig_stop(&s);
}

/* What could be read in two ways is refused here as it is outside of tunnels. */
static void
nothing_is_smuggled(void **state)
{
	static const char *const bad[] = {
	    "POST / HTTP/1.1\r\nHost: " NAME
	    ":%u\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	    "POST / HTTP/1.1\r\nHost: " NAME
	    ":%u\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	    "POST / HTTP/1.1\r\nHost: " NAME ":%u\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	    "POST / HTTP/1.1\r\nHost: " NAME ":%u\r\nContent-Length: +4\r\n\r\nabcd",
	    "GET / HTTP/1.1\r\nHost: " NAME ":%u\r\nX: a\r\n b\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: " NAME ":%u\r\nHost: evil.example\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: " NAME ":%u\r\nX: a\rEvil: b\r\n\r\n",
	    "GET https://" NAME "/ HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n",
	    "CONNECT evil.example:443 HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n",
	    "GET /a/../b HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n",
	    "GET /a/%2e%2E/b HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n",
	    "GET /a/..%2fb HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n",
	    "GET /a/..;x/b HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n",
	    "GET /a\\..\\b HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n", "GET /\r\n\r\n"};
	struct end client, server;
	size_t i;

	(void)state;
	begin();
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(NAME, bad[i], 400, "egress.request");
	/* An answer that nobody asked for would be the answer to the next request. */
	client = client_to(NAME);
	say(&client, "GET / HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	say(&server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		     "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
	assert_null(strstr(hear(&client, NULL), "evil"));
	end_close(&client);
	end_close(&server);
	/* A broken chunked body is not told to be whole. */
	client = client_to(NAME);
	say(&client, "POST / HTTP/1.1\r\nHost: " NAME
		     ":%u\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n");
	server = server_of(site_end);
	hear(&server, NULL);
	assert_null(strstr(out, "0\r\n\r\n"));
	hear(&client, NULL);
	assert_memory_equal(out, "HTTP/1.1 400 ", 13);
	end_close(&client);
	end_close(&server);
	/* Nor are answers. */
	client = client_to(NAME);
	say(&client, "GET / HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	say(&server, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: x\r\n\r\nok");
	hear(&client, NULL);
	assert_memory_equal(out, "HTTP/1.1 502 ", 13);
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

/* A rule that says something of requests allows those and no others. */
static void
rules_see_method_and_path(void **state)
{
	struct end client, server;

	(void)state;
	rig_inspect = PROXY_INSPECT_RULES;
	allow(NAME, &(struct egress_within){.method = "GET", .path = "/repos/*"});
	allow(NAME, &(struct egress_within){.method = "POST", .path = "/issues"});
	begin();
	refused(NAME, "GET /user HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n", 403, "egress.within");
	refused(NAME, "POST /repos/a HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n", 403, "egress.within");
	refused(NAME, "POST /issues/1 HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n", 403, "egress.within");
	refused(NAME,
	    "GET /repos/a HTTP/1.1\r\nHost: " NAME
	    ":%u\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	    403, "egress.websocket");
	client = client_to(NAME);
	say(&client, "GET /repos/a?x=/user HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	answers(&server, "ok");
	hear(&client, "ok");
	end_close(&client);
	end_close(&server);
	/* Out of TLS such a rule allows nothing. */
	fill("GET http://" NAME ":%u/repos/a HTTP/1.1\r\n\r\n");
	rig_ask(rig_http, request, out, sizeof(out));
	assert_memory_equal(out, "HTTP/1.1 403 ", 13);
	assert_non_null(strstr(out, "egress.plain"));
	assert_false(rig_contacted(site));
	rig_stop(&s);
}

/* A rule may let requests go over to another protocol; then bytes pass. */
static void
websockets_go_by_rule(void **state)
{
	struct end client, server;

	(void)state;
	allow(NAME, &(struct egress_within){.websocket = true, .path = "/live"});
	begin();
	client = client_to(NAME);
	say(&client,
	    "GET /live HTTP/1.1\r\nHost: " NAME
	    ":%u\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	assert_non_null(strstr(out, "Sec-WebSocket-Key: x\r\n"));
	assert_non_null(strstr(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
	say(&server, "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n"
		     "Connection: Upgrade\r\n\r\nfirst");
	hear(&client, "first");
	say(&client, "frames up");
	hear(&server, "frames up");
	say(&server, "frames down");
	hear(&client, "frames down");
	end_close(&client);
	assert_string_equal(hear(&server, NULL), "");
	end_close(&server);
	/* Who did not ask is not taken over. */
	client = client_to(NAME);
	say(&client, "GET /live HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	say(&server, "HTTP/1.1 101 Switching\r\n\r\nfirst");
	hear(&client, NULL);
	assert_memory_equal(out, "HTTP/1.1 502 ", 13);
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

/* What was let through whole under a wider rule ends when that is narrowed; what is looked into
 * goes on. */
static void
narrowing_ends_what_is_whole(void **state)
{
	struct end client, server;
	int whole, there, plain, plainly, own, home;
	int64_t count;

	(void)state;
	rig_inspect = PROXY_INSPECT_RULES;
	runs_make();
	allow(NAME, NULL);
	allow("other.example", &(struct egress_within){.method = "GET"});
	run_allow("1", NAME);
	begin();
	whole = tunnel_to(NAME);
	there = rig_accept(site);
	plain = rig_dial(rig_http);
	fill("GET http://" NAME ":%u/ HTTP/1.1\r\n\r\n");
	rig_say(plain, request);
	plainly = rig_accept(site);
	own = rig_catch(first_run, NAME, port);
	home = rig_accept(site);
	client = client_to("other.example");
	say(&client, "GET /1 HTTP/1.1\r\nHost: other.example:%u\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(egress_rule_forget(s.db, 0, NAME, &count), 0);
	allow(NAME, &(struct egress_within){.method = "GET", .path = "/repos/*"});
	allow("other.example", &(struct egress_within){.method = "POST"});
	rig_awaken();
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE code = 'egress.denied'");
	assert_int_equal(rig_hear(whole, out, sizeof(out)), 0);
	assert_int_equal(rig_hear(there, out, sizeof(out)), 0);
	answers(&server, "seen");
	hear(&client, "seen");
	rig_say(plainly, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	rig_hear(plain, out, sizeof(out));
	assert_non_null(strstr(out, "\r\n\r\nok"));
	rig_say(own, "bytes");
	assert_int_equal(rig_hear_until(home, "bytes", out, sizeof(out)), 0);
	close(whole);
	close(there);
	close(plain);
	close(plainly);
	close(own);
	close(home);
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

/* One that went over to another protocol. */
static void
websocket_begin(struct end *client, struct end *server)
{
	begin();
	*client = client_to(NAME);
	say(client, "GET /live HTTP/1.1\r\nHost: " NAME
		    ":%u\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	*server = server_of(site_end);
	hear(server, "\r\n\r\n");
	say(server, "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n"
		    "Connection: Upgrade\r\n\r\nfirst");
	hear(client, "first");
	rig_until(&s, 1, "SELECT count(*) FROM egress_request WHERE status = 101");
}

static void
websocket_ends(struct end *client, struct end *server)
{
	rig_awaken();
	hear(client, NULL);
	rig_until(&s, 1, "SELECT count(*) FROM egress_flow WHERE code = 'egress.denied'");
	end_close(client);
	end_close(server);
	rig_stop(&s);
}

/* It lasts no longer than the rule that let it, even where the host stays allowed. */
static void
websockets_end_with_their_rule(void **state)
{
	struct end client, server;

	(void)state;
	rig_inspect = PROXY_INSPECT_RULES;
	allow(NAME, &(struct egress_within){.websocket = true, .path = "/live"});
	allow("example", &(struct egress_within){.method = "GET"});
	websocket_begin(&client, &server);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"
			    " WHERE suffix = '" NAME "'"),
	    0);
	websocket_ends(&client, &server);
}

/*
 * Tokens.
 */

/* Ask once over ${client}, and return what the server got; then answer with ${answer}. */
static const char *
exchange(struct end *client, struct end *server, const char *text, const char *answer)
{
	static char seen[8192];

	say(client, text);
	if (server->ssl == NULL)
		*server = server_of(site_end);
	snprintf(seen, sizeof(seen), "%s", hear(server, "\r\n\r\n"));
	say(server, answer);
	return seen;
}

#define GET  "GET / HTTP/1.1\r\nHost: " NAME ":%u\r\n"
#define DONE "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

/* A token is put in, instead of whatever the program says there, and asks for nothing that hides
 * it.
 */
static void
a_token_goes_along(void **state)
{
	struct end client, server = {.ssl = NULL};
	const char *seen;

	(void)state;
	token_make(SECRET, NULL, NULL);
	allow(NAME, &(struct egress_within){.token = "t"});
	begin();
	client = client_to(NAME);
	seen = exchange(&client, &server,
	    GET "authorization: Bearer mine\r\nAuthorization: x\r\nAccept-Encoding: gzip, br\r\n"
		"Range: bytes=0-4\r\n\r\n",
	    DONE);
	assert_non_null(strstr(seen, "\r\nAuthorization: Bearer " SECRET "\r\n"));
	assert_null(strstr(seen, "mine"));
	assert_null(strstr(seen, "gzip"));
	assert_null(strstr(seen, "Range"));
	assert_non_null(strstr(seen, "Accept-Encoding: identity\r\n"));
	hear(&client, "ok");
	/* The next one has it as well. */
	seen = exchange(&client, &server, GET "\r\n", DONE);
	assert_non_null(strstr(seen, "\r\nAuthorization: Bearer " SECRET "\r\n"));
	hear(&client, "ok");
	/* TRACE would have it told back. */
	say(&client, "TRACE / HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n");
	assert_non_null(strstr(hear(&client, NULL), "token.trace"));
	end_close(&client);
	end_close(&server);
	rig_until(
	    &s, 2, "SELECT count(*) FROM egress_request WHERE token_id = 1 AND state = 'done'");
	rig_stop(&s);
}

/* A placeholder is swapped where it stands, within Basic too, and nowhere but in the token's
 * header.
 */
static void
placeholders_are_swapped(void **state)
{
	char placeholder[64], text[512], basic[128], wanted[256];
	struct end client, server = {.ssl = NULL};
	const char *seen;

	(void)state;
	token_make(SECRET, NULL, NULL);
	allow(NAME, &(struct egress_within){.token = "t"});
	scratch_text(&s, "SELECT placeholder FROM token", placeholder, sizeof(placeholder));
	begin();
	client = client_to(NAME);
	snprintf(text, sizeof(text),
	    "GET /%s HTTP/1.1\r\nAuthorization: token %s\r\nX-Other: %s\r\n\r\n", placeholder,
	    placeholder, placeholder);
	seen = exchange(&client, &server, text, DONE);
	assert_non_null(strstr(seen, "\r\nAuthorization: token " SECRET "\r\n"));
	snprintf(wanted, sizeof(wanted), "GET /%s HTTP", placeholder);
	assert_non_null(strstr(seen, wanted));
	snprintf(wanted, sizeof(wanted), "\r\nX-Other: %s\r\n", placeholder);
	assert_non_null(strstr(seen, wanted));
	hear(&client, "ok");
	snprintf(wanted, sizeof(wanted), "x-access-token:%s", placeholder);
	sodium_bin2base64(basic, sizeof(basic), (unsigned char *)wanted, strlen(wanted),
	    sodium_base64_VARIANT_ORIGINAL);
	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nAuthorization: Basic %s\r\n\r\n", basic);
	seen = exchange(&client, &server, text, DONE);
	sodium_bin2base64(basic, sizeof(basic), (const unsigned char *)"x-access-token:" SECRET,
	    strlen("x-access-token:" SECRET), sodium_base64_VARIANT_ORIGINAL);
	snprintf(wanted, sizeof(wanted), "\r\nAuthorization: Basic %s\r\n", basic);
	assert_non_null(strstr(seen, wanted));
	hear(&client, "ok");
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

/* What comes back has stars instead, in heads and bodies, wherever it is cut. */
static void
echoes_are_struck_out(void **state)
{
	const size_t len = strlen(SECRET);
	struct end client, server = {.ssl = NULL};
	char text[2048], chunk[8];
	size_t i, n;

	(void)state;
	token_make(SECRET, NULL, NULL);
	allow(NAME, &(struct egress_within){.token = "t"});
	begin();
	client = client_to(NAME);
	exchange(&client, &server, GET "\r\n",
	    "HTTP/1.1 200 " SECRET "\r\nX-Echo: Bearer " SECRET
	    "\r\nLocation: https://other.example/?t="
	    "s3cr3t%2F0123456789%2Babcdef\r\nContent-Length: 29\r\n\r\n<<" SECRET ">>!");
	hear(&client, ">>!");
	assert_null(strstr(out, SECRET));
	assert_null(strstr(out, "0123456789"));
	assert_non_null(strstr(out, "X-Echo: Bearer ************************\r\n"));
	assert_non_null(strstr(out, "\r\n\r\n<<************************>>!"));
	/* A byte a chunk, and a flush between each. */
	exchange(&client, &server, GET "\r\n",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n<<\r\n");
	for (i = 0; i < len; i++) {
		snprintf(chunk, sizeof(chunk), "1\r\n%c\r\n", SECRET[i]);
		say(&server, chunk);
	}
	say(&server, "5\r\n>>s3c\r\n0\r\n\r\n");
	hear(&client, "\r\n0\r\n\r\n");
	for (n = 0, i = 0; out[i] != '\0'; i++)
		n += out[i] == '*';
	assert_int_equal(n, len);
	assert_null(strstr(out, "0123456789"));
	/* What only looks like its beginning is told. */
	assert_non_null(strstr(out, "s3c\r\n0\r\n"));
	/* In other forms. */
	snprintf(text, sizeof(text),
	    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"a\":\"s3cr3t\\/0123456789+abcdef\","
	    "\"b\":\"czNjcjN0LzAxMjM0NTY3ODkrYWJjZGVm\",\"c\":\"7333637233742f303132333435363738392b6162"
	    "63646566\",\"d\":\"QmVhcmVyIHMzY3IzdC8wMTIzNDU2Nzg5K2FiY2RlZg==\"}");
	exchange(&client, &server, GET "\r\n", text);
	end_close(&server);
	hear(&client, NULL);
	assert_null(strstr(out, "0123456789"));
	assert_null(strstr(out, "czNjcjN0LzAx"));
	assert_null(strstr(out, "7333637233742f"));
	assert_null(strstr(out, "zY3IzdC8wMTIz"));
	assert_non_null(strstr(out, "{\"a\":\"****"));
	end_close(&client);
	rig_stop(&s);
}

/* A body in a coding cannot be looked through, so it is not passed on. */
static void
coded_answers_are_held(void **state)
{
	struct end client, server = {.ssl = NULL};

	(void)state;
	token_make(SECRET, NULL, NULL);
	allow(NAME, &(struct egress_within){.token = "t"});
	begin();
	client = client_to(NAME);
	exchange(&client, &server, GET "\r\n",
	    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd");
	hear(&client, NULL);
	assert_memory_equal(out, "HTTP/1.1 502 ", 13);
	assert_non_null(strstr(out, "egress.encoded"));
	assert_null(strstr(out, "abcd"));
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

/* It goes to its hosts alone: who is sent elsewhere asks there without it. */
static void
a_token_goes_nowhere_else(void **state)
{
	struct end client, server = {.ssl = NULL}, other = {.ssl = NULL};
	const char *seen;

	(void)state;
	token_make(SECRET, NULL, NULL);
	allow(NAME, &(struct egress_within){.token = "t"});
	allow("other.example", NULL);
	begin();
	client = client_to(NAME);
	exchange(&client, &server, GET "\r\n",
	    "HTTP/1.1 302 Found\r\nLocation: https://other.example/\r\nContent-Length: 0\r\n\r\n");
	hear(&client, "\r\n\r\n");
	end_close(&client);
	end_close(&server);
	client = client_to("other.example");
	seen = exchange(&client, &other, "GET / HTTP/1.1\r\nHost: other.example:%u\r\n\r\n", DONE);
	assert_null(strstr(seen, "Authorization"));
	assert_null(strstr(seen, SECRET));
	hear(&client, "ok");
	end_close(&client);
	end_close(&other);
	/* Nor by a tunnel to one and a Host of the other, where that may be. */
	rig_stop(&s);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 0 WHERE name = 'egress.inspect_host'"), 0);
	begin();
	refused("other.example", GET "\r\n", 403, "token.host");
	refused(NAME, "GET / HTTP/1.1\r\nHost: evil.example:%u\r\n\r\n", 403, "egress.unknown");
	rig_stop(&s);
}

/* A token that was renewed is renewed for the next request; one that was dropped holds it. */
static void
renewed_and_dropped_tokens(void **state)
{
	struct end client, server = {.ssl = NULL};
	const char *seen;
	struct store *db;
	struct refusal r;

	(void)state;
	token_make(SECRET, "X-Api-Key", "");
	allow(NAME, &(struct egress_within){.token = "t"});
	begin();
	assert_non_null(db = store_open(&s.home, ROLE_PERSON, &s.keys, &r));
	client = client_to(NAME);
	seen = exchange(&client, &server, GET "Authorization: Bearer mine\r\n\r\n", DONE);
	assert_non_null(strstr(seen, "\r\nX-Api-Key: " SECRET "\r\n"));
	assert_non_null(strstr(seen, "\r\nAuthorization: Bearer mine\r\n"));
	hear(&client, "ok");
	assert_int_equal(token_rotate(db, s.key, "t", "another-0123456789"), 0);
	seen = exchange(&client, &server, GET "\r\n",
	    "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n" SECRET "another-0123456789");
	assert_non_null(strstr(seen, "\r\nX-Api-Key: another-0123456789\r\n"));
	hear(&client, "\r\n\r\n******************************************");
	assert_int_equal(token_drop(db, "t"), 0);
	say(&client, GET "\r\n");
	assert_non_null(strstr(hear(&client, NULL), "token.dropped"));
	end_close(&client);
	end_close(&server);
	store_close(db);
	rig_stop(&s);
}

/* One that was dropped does not go on in what it opened either; one that was renewed does. */
static void
websockets_end_with_their_token(void **state)
{
	struct end client, server;
	struct store *db;
	struct refusal r;

	(void)state;
	token_make(SECRET, NULL, NULL);
	allow(NAME, &(struct egress_within){.websocket = true, .path = "/live", .token = "t"});
	websocket_begin(&client, &server);
	assert_non_null(db = store_open(&s.home, ROLE_PERSON, &s.keys, &r));
	assert_int_equal(token_rotate(db, s.key, "t", "another-0123456789"), 0);
	rig_awaken();
	say(&server, "second");
	hear(&client, "second");
	assert_int_equal(token_drop(db, "t"), 0);
	store_close(db);
	websocket_ends(&client, &server);
}

/* Whether a file of the state has ${text}. */
static bool
file_has(const char *name, const char *text)
{
	char path[PATH_MAX], *bytes;
	off_t len;
	bool found;
	int fd;

	home_path(&s.home, name, path);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return false;
	len = lseek(fd, 0, SEEK_END);
	assert_non_null(bytes = malloc((size_t)len + 1));
	assert_int_equal(pread(fd, bytes, (size_t)len, 0), len);
	found = memmem(bytes, (size_t)len, text, strlen(text)) != NULL;
	free(bytes);
	close(fd);
	return found;
}

/* No row, log or error has the secret, however the request goes wrong. */
static void
the_secret_is_in_no_row(void **state)
{
	struct end client, server = {.ssl = NULL};
	char much[5000];

	(void)state;
	token_make(SECRET, NULL, NULL);
	allow(NAME, &(struct egress_within){.token = "t"});
	begin();
	client = client_to(NAME);
	exchange(
	    &client, &server, GET "\r\n", "HTTP/1.1 200 " SECRET "\r\nBroken " SECRET "\r\n\r\n");
	hear(&client, NULL);
	assert_memory_equal(out, "HTTP/1.1 502 ", 13);
	assert_null(strstr(out, SECRET));
	end_close(&client);
	end_close(&server);
	/* An answer that breaks off within the secret. */
	server.ssl = NULL;
	client = client_to(NAME);
	exchange(&client, &server, GET "\r\n",
	    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc s3cr3t/0123456789+abcde");
	end_close(&server);
	hear(&client, NULL);
	assert_null(strstr(out, "0123456789"));
	close(client.fd);
	tls->SSL_free(client.ssl);
	/* A path that is too long for a row. */
	memset(much, 'a', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	snprintf(request, sizeof(request), "GET /%s HTTP/1.1\r\n\r\n", much);
	client = client_to(NAME);
	tls->SSL_write(client.ssl, request, (int)strlen(request));
	assert_non_null(strstr(hear(&client, NULL), "egress.request"));
	end_close(&client);
	rig_until(&s, 0, "SELECT count(*) FROM live_flows");
	assert_false(file_has("bastion.db", SECRET));
	assert_false(file_has("bastion.db-wal", SECRET));
	rig_stop(&s);
	assert_false(file_has("bastion.db", SECRET));
}

/*
 * Parts.
 */

/* However a text is cut, what comes out is the same, and as long. */
static void
cuts_change_nothing(void **state)
{
	static const char text[] =
	    "x" SECRET "y s3cr3t/0123 " SECRET SECRET " s3cr3t/0123456789+abcde";
	static const char clean[] = "x************************y s3cr3t/0123 "
				    "************************************************"
				    " s3cr3t/0123456789+abcde";
	const size_t len = sizeof(text) - 1;
	size_t a, b, n;
	struct redact *r;
	char got[256];

	(void)state;
	assert_non_null(r = redact_new());
	assert_int_equal(redact_add(r, SECRET), 0);
	for (a = 0; a <= len; a++)
		for (b = a; b <= len; b++) {
			n = redact_feed(r, text, a, got);
			n += redact_feed(r, text + a, b - a, got + n);
			n += redact_feed(r, text + b, len - b, got + n);
			n += redact_end(r, got + n);
			assert_int_equal(n, len);
			assert_memory_equal(got, clean, len);
		}
	redact_free(r);
}

/* However ${text} is cut in two, ${clean} comes out. */
static void
comes_out_as(const char *text, const char *clean)
{
	const size_t len = strlen(text);
	struct redact *r;
	char got[256];
	size_t a, n;

	assert_non_null(r = redact_new());
	assert_int_equal(redact_add(r, SECRET), 0);
	for (a = 0; a <= len; a++) {
		n = redact_feed(r, text, a, got);
		n += redact_feed(r, text + a, len - a, got + n);
		n += redact_end(r, got + n);
		assert_int_equal(n, len);
		got[n] = '\0';
		assert_string_equal(got, clean);
	}
	redact_free(r);
}

/* Of base64 the last bits go as well, which stand in a character with bits of what follows. */
static void
base64_goes_to_the_last_bit(void **state)
{
	char plain[64], text[128], clean[128];
	size_t before, first, over;

	(void)state;
	for (before = 0; before < 3; before++) {
		snprintf(plain, sizeof(plain), "%.*s" SECRET "and more", (int)before, "xy");
		sodium_bin2base64(text, sizeof(text), (const unsigned char *)plain, strlen(plain),
		    sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
		first = before == 0 ? 0 : before + 1;
		over = ((before + strlen(SECRET)) * 8 + 5) / 6;
		strcpy(clean, text);
		memset(clean + first, '*', over - first);
		comes_out_as(text, clean);
		/* What is no base64 stays; and a secret may stand there itself. */
		text[over] = clean[over] = '\0';
		strcat(text, "= " SECRET);
		strcat(clean, "= ************************");
		comes_out_as(text, clean);
		strcpy(text + over, SECRET "!");
		memset(clean + over, '*', strlen(SECRET));
		strcpy(clean + over + strlen(SECRET), "!");
		comes_out_as(text, clean);
	}
}

/* Two requests of a tunnel, over two connections of a server that goes after the first. */
static void
server_goes(bool pipelined, bool judging)
{
	struct end client = client_to(NAME), server;

	say(&client, pipelined ? "GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n"
			       : "GET /1 HTTP/1.1\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	if (judging) {
		answers(&server, "one");
		hear(&client, "one");
		/* Nothing is committed meanwhile. */
		scratch_open(&s, ROLE_PERSON);
		assert_int_equal(store_begin(s.db), 0);
		say(&client, "GET /2 HTTP/1.1\r\n\r\n");
		usleep(200000);
	} else {
		answers(&server, "one");
	}
	end_close(&server);
	if (judging) {
		usleep(200000);
		store_rollback(s.db);
		store_close(s.db);
		s.db = NULL;
	} else {
		hear(&client, "one");
	}
	if (!pipelined && !judging)
		say(&client, "GET /2 HTTP/1.1\r\n\r\n");
	server = server_of(site_end);
	assert_non_null(strstr(hear(&server, "\r\n\r\n"), "GET /2 "));
	answers(&server, "two");
	assert_memory_equal(hear(&client, "two"), "HTTP/1.1 200 ", 13);
	end_close(&client);
	end_close(&server);
}

/* A server may close a connection that is kept at any time: the next request goes over a new one.
 */
static void
a_server_that_goes_is_dialled_anew(void **state)
{
	(void)state;
	begin();
	server_goes(false, false);
	server_goes(true, false);
	server_goes(false, true);
	rig_until(&s, 6, "SELECT count(*) FROM egress_request WHERE state = 'done'");
	rig_until(&s, 3, "SELECT count(*) FROM egress_flow WHERE state = 'done'");
	rig_stop(&s);
}

/* What a server says while the next request is judged does not answer it; nor is it asked. */
static void
what_nobody_asked_answers_nothing(void **state)
{
	struct end client, server;

	(void)state;
	begin();
	client = client_to(NAME);
	say(&client, "GET /1 HTTP/1.1\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	answers(&server, "one");
	hear(&client, "one");
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(s.db), 0);
	say(&client, "GET /2 HTTP/1.1\r\n\r\n");
	usleep(200000);
	say(&server, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
	usleep(200000);
	store_rollback(s.db);
	store_close(s.db);
	s.db = NULL;
	assert_string_equal(hear(&client, NULL), "");
	assert_string_equal(hear(&server, NULL), "");
	end_close(&client);
	end_close(&server);
	rig_until(&s, 1,
	    "SELECT count(*) FROM egress_request WHERE state = 'failed' AND path = '/2'"
	    " AND code = 'egress.answer'");
	rig_stop(&s);
}

/* Heads that only tell of an answer to come are bounded here as well. */
static void
an_answer_is_not_announced_for_ever(void **state)
{
	struct end client, server;
	int i;

	(void)state;
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 2700 WHERE name = 'egress.answer_head'"),
	    0);
	begin();
	client = client_to(NAME);
	say(&client, "GET /1 HTTP/1.1\r\n\r\n");
	server = server_of(site_end);
	hear(&server, "\r\n\r\n");
	for (i = 0; i < 100; i++)
		say(&server, "HTTP/1.1 102 Processing\r\n\r\n");
	answers(&server, "one");
	hear(&client, "one");
	say(&client, "GET /2 HTTP/1.1\r\n\r\n");
	hear(&server, "\r\n\r\n");
	for (i = 0; i < 101; i++)
		say(&server, "HTTP/1.1 102 Processing\r\n\r\n");
	hear(&client, NULL);
	assert_non_null(strstr(out, "HTTP/1.1 502 "));
	assert_non_null(strstr(out, "egress.answer"));
	end_close(&client);
	end_close(&server);
	rig_stop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_tunnel_is_looked_into, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(every_request_is_judged, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(an_untrusted_server_is_refused, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_tunnel_says_who_it_is, set_up, tear_down),
	    cmocka_unit_test(few_certificates_are_kept),
	    cmocka_unit_test_setup_teardown(off_is_off, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(sessions_get_no_part_whole, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rules_of_a_run_are_for_its_requests, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rules_of_a_run_stay, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(socks_is_looked_into, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(bodies_go_through, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(nothing_is_smuggled, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rules_see_method_and_path, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(websockets_go_by_rule, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(narrowing_ends_what_is_whole, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(websockets_end_with_their_rule, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_token_goes_along, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(websockets_end_with_their_token, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(placeholders_are_swapped, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(echoes_are_struck_out, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(coded_answers_are_held, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_token_goes_nowhere_else, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(renewed_and_dropped_tokens, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_secret_is_in_no_row, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_server_that_goes_is_dialled_anew, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(what_nobody_asked_answers_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(an_answer_is_not_announced_for_ever, set_up, tear_down),
	    cmocka_unit_test(cuts_change_nothing),
	    cmocka_unit_test(base64_goes_to_the_last_bit),
	};

	signal(SIGPIPE, SIG_IGN);
	isolated = netns_enter();
	tls = openssl_ssl(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
