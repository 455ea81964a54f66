/* tls.c: contexts of OpenSSL, and the one place where a chain of certificates is judged. */
#include <arpa/inet.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crypto/openssl.h"
#include "net/http/tls.h"

/* What Debian's OpenSSL offers for TLS 1.2 beyond these has no forward secrecy or no AEAD. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
/* Finite fields, which are on by default, cost a server ten times as much. */
#define GROUPS "X25519:P-256"
#define LEVEL  2
/* Chains of the web: longer, and of more bytes. */
#define WEB_DEPTH 10
#define WEB_CHAIN 131072

struct tls_end {
	const struct openssl_crypto *c;
	const struct openssl_ssl *s;
	SSL_CTX *ctx;
	OPENSSL_STACK *cas; /* of X509 */
	bool server, pinned, has_own, web;
	uint8_t pin[CERT_FP_SIZE];
	struct cert_blob cert, key; /* for tls_end_apply; empty without */
};

static const unsigned char ALPN[] = "\x08http/1.1";

/* Judging. */

static int
fingerprint_of(const struct openssl_crypto *c, const X509 *x, uint8_t fp[CERT_FP_SIZE])
{
	unsigned char *der = NULL;
	int len;

	if ((len = c->i2d_X509(x, &der)) <= 0)
		return -1;
	cert_fingerprint(der, (size_t)len, fp);
	c->CRYPTO_clear_free(der, (size_t)len, __FILE__, __LINE__);
	return 0;
}

/* Return a list of the one certificate among those that were sent that ${end} pins; else empty. */
static OPENSSL_STACK *
pinned_among(const struct tls_end *end, const STACK_OF(X509) * sent)
{
	OPENSSL_STACK *found = end->c->OPENSSL_sk_new_null();
	uint8_t fp[CERT_FP_SIZE];
	void *x;
	int i;

	for (i = 0; i < end->c->OPENSSL_sk_num((const OPENSSL_STACK *)sent); i++) {
		x = end->c->OPENSSL_sk_value((const OPENSSL_STACK *)sent, i);
		if (fingerprint_of(end->c, x, fp) == 0 &&
		    sodium_memcmp(fp, end->pin, sizeof(fp)) == 0) {
			end->c->OPENSSL_sk_push(found, x);
			break;
		}
	}
	return found;
}

static int
read_x509(const struct openssl_crypto *c, const X509 *x, struct cert *cert, struct refusal *r)
{
	unsigned char *der = NULL;
	int len, rc;

	if ((len = c->i2d_X509(x, &der)) <= 0)
		return refusal_set(r, "http.memory", "no memory for a certificate");
	rc = cert_read(der, (size_t)len, cert, r);
	c->CRYPTO_clear_free(der, (size_t)len, __FILE__, __LINE__);
	return rc;
}

/*
 * Instead of OpenSSL's own verification: the same, but only our authorities are trusted, the time
 * is clock_now's, and what is not read strictly is not believed.
 */
static int
judge(X509_STORE_CTX *store, void *ctx)
{
	const struct tls_end *end = ctx;
	const struct openssl_crypto *c = end->c;
	OPENSSL_STACK *found = NULL;
	struct cert facts;
	int ok;

	if (end->pinned)
		found = pinned_among(end, c->X509_STORE_CTX_get0_untrusted(store));
	c->X509_STORE_CTX_set0_trusted_stack(
	    store, (STACK_OF(X509) *)(end->pinned ? found : end->cas));
	c->X509_VERIFY_PARAM_set_time(c->X509_STORE_CTX_get0_param(store), clock_now() / 1000);
	ok = c->X509_verify_cert(store);
	if (ok == 1 && read_x509(c, c->X509_STORE_CTX_get0_cert(store), &facts, NULL) == -1) {
		c->X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
		ok = 0;
	}
	c->OPENSSL_sk_free(found);
	return ok == 1;
}

/* A client that offers protocols, but not ours, is told so. */
static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
    unsigned int inlen, void *ctx)
{
	unsigned int at;

	(void)ssl;
	(void)ctx;
	for (at = 0; at < inlen; at += 1U + in[at])
		if (inlen - at >= sizeof(ALPN) - 1 &&
		    memcmp(in + at, ALPN, sizeof(ALPN) - 1) == 0) {
			*out = in + at + 1;
			*outlen = in[at];
			return SSL_TLSEXT_ERR_OK;
		}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Making an end. */

static X509 *
parse(const struct openssl_crypto *c, const struct cert_blob *blob, struct refusal *r)
{
	const unsigned char *p = blob->data;
	struct cert facts;

	if (cert_read(blob->data, blob->len, &facts, r) == -1)
		return NULL;
	return c->d2i_X509(NULL, &p, (long)blob->len);
}

static int
take_cas(struct tls_end *end, const struct tls_config *config, struct refusal *r)
{
	unsigned i;
	X509 *x;

	if (config->ncas > TLS_CAS_MAX)
		return refusal_set(
		    r, "tls.config", "at most %d authorities are trusted", TLS_CAS_MAX);
	if ((end->cas = end->c->OPENSSL_sk_new_null()) == NULL)
		return refusal_set(r, "http.memory", "no memory for TLS");
	for (i = 0; i < config->ncas; i++) {
		if ((x = parse(end->c, &config->cas[i], r)) == NULL)
			return -1;
		if (end->c->OPENSSL_sk_push(end->cas, x) <= 0) {
			end->c->X509_free(x);
			return refusal_set(r, "http.memory", "no memory for TLS");
		}
	}
	if ((end->pinned = config->pin != NULL))
		memcpy(end->pin, config->pin, sizeof(end->pin));
	return 0;
}

static int
copy_blob(struct cert_blob *to, const struct cert_blob *from, struct refusal *r)
{
	if ((to->data = malloc(from->len + 1)) == NULL)
		return refusal_set(r, "http.memory", "no memory for TLS");
	memcpy(to->data, from->data, from->len);
	to->len = from->len;
	return 0;
}

/* Show the certificate and key of ${end} on ${ctx}. */
static int
set_own(const struct tls_end *end, SSL_CTX *ctx, struct refusal *r)
{
	const unsigned char *p = end->key.data;
	X509 *x;
	EVP_PKEY *key;
	int ok;

	if (!end->has_own)
		return 0;
	if ((x = parse(end->c, &end->cert, r)) == NULL)
		return -1;
	key = end->c->d2i_AutoPrivateKey(NULL, &p, (long)end->key.len);
	ok = key != NULL && end->s->SSL_CTX_use_certificate(ctx, x) == 1 &&
	     end->s->SSL_CTX_use_PrivateKey(ctx, key) == 1 &&
	     end->s->SSL_CTX_check_private_key(ctx) == 1;
	end->c->X509_free(x);
	end->c->EVP_PKEY_free(key);
	end->c->ERR_clear_error();
	return ok ? 0
		  : refusal_set(
			r, "tls.config", "our certificate and our key do not belong together");
}

/* What both sides have in common. */
static int
set_common(struct tls_end *end, SSL_CTX *ctx)
{
	const struct openssl_ssl *s = end->s;
	const struct openssl_crypto *c = end->c;
	X509_VERIFY_PARAM *param = s->SSL_CTX_get0_param(ctx);
	union {
		const char *in;
		void *out;
	} groups = {.in = GROUPS};

	s->SSL_CTX_set_security_level(ctx, LEVEL);
	s->SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
					SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	s->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	s->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MAX_CERT_LIST, 2 * CERT_MAX, NULL);
	s->SSL_CTX_ctrl(ctx, SSL_CTRL_MODE,
	    SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
		SSL_MODE_RELEASE_BUFFERS,
	    NULL);
	c->X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
	c->X509_VERIFY_PARAM_set_hostflags(
	    param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS);
	s->SSL_CTX_set_verify_depth(ctx, 0); /* authorities issue to leaves alone */
	s->SSL_CTX_set_cert_verify_callback(ctx, judge, end);
	return s->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) == 1 &&
		       s->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_GROUPS_LIST, 0, groups.out) == 1 &&
		       s->SSL_CTX_set_cipher_list(ctx, CIPHERS) == 1
		   ? 0
		   : -1;
}

/* The same trust and checks as every program of this machine has. */
static int
set_web(struct tls_end *end, const char *roots)
{
	const struct openssl_ssl *s = end->s;
	X509_VERIFY_PARAM *param = s->SSL_CTX_get0_param(end->ctx);

	end->web = true;
	s->SSL_CTX_ctrl(end->ctx, SSL_CTRL_SET_MAX_CERT_LIST, WEB_CHAIN, NULL);
	s->SSL_CTX_set_verify_depth(end->ctx, WEB_DEPTH);
	s->SSL_CTX_set_cert_verify_callback(end->ctx, NULL, NULL);
	end->c->X509_VERIFY_PARAM_clear_flags(param, X509_V_FLAG_X509_STRICT);
	end->c->X509_VERIFY_PARAM_set_hostflags(
	    param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return (roots != NULL ? s->SSL_CTX_load_verify_locations(end->ctx, roots, NULL)
			      : s->SSL_CTX_set_default_verify_paths(end->ctx)) == 1
		   ? 0
		   : -1;
}

static struct tls_end *
end_new(const struct tls_config *config, bool server, struct refusal *r)
{
	struct tls_end *end;

	if ((end = calloc(1, sizeof(*end))) == NULL) {
		refusal_set(r, "http.memory", "no memory for TLS");
		return NULL;
	}
	end->server = server;
	if ((end->c = openssl_crypto(r)) == NULL || (end->s = openssl_ssl(r)) == NULL)
		goto fail;
	end->has_own = config->cert != NULL;
	if (end->has_own && (copy_blob(&end->cert, config->cert, r) == -1 ||
				copy_blob(&end->key, config->key, r) == -1))
		goto fail;
	end->ctx =
	    end->s->SSL_CTX_new(server ? end->s->TLS_server_method() : end->s->TLS_client_method());
	if (end->ctx == NULL || set_common(end, end->ctx) == -1) {
		refusal_set(r, "http.memory", "OpenSSL does not start");
		goto fail;
	}
	if (take_cas(end, config, r) == 0 && set_own(end, end->ctx, r) == 0)
		return end;
fail:
	tls_end_free(end);
	return NULL;
}

/* Send the authority along, and name to clients under whom they are to be. */
static int
set_chain(struct tls_end *end, const struct tls_config *config, struct refusal *r)
{
	X509 *issuer;
	int i;

	for (i = 0; i < end->c->OPENSSL_sk_num(end->cas); i++)
		end->s->SSL_CTX_add_client_CA(end->ctx, end->c->OPENSSL_sk_value(end->cas, i));
	if (config->issuer == NULL)
		return 0;
	if ((issuer = parse(end->c, config->issuer, r)) == NULL)
		return -1;
	if (end->s->SSL_CTX_ctrl(end->ctx, SSL_CTRL_EXTRA_CHAIN_CERT, 0, issuer) == 1)
		return 0;
	end->c->X509_free(issuer);
	return refusal_set(r, "http.memory", "no memory for TLS");
}

struct tls_end *
tls_server_end(const struct tls_config *config, struct refusal *r)
{
	static const int MODES[] = {
	    [TLS_ASK_NOTHING] = SSL_VERIFY_NONE,
	    [TLS_ASK_OPTIONAL] = SSL_VERIFY_PEER,
	    [TLS_ASK_REQUIRED] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
	};
	struct tls_end *end;

	if (config->cert == NULL || (config->ask != TLS_ASK_NOTHING && config->ncas == 0)) {
		refusal_set(r, "tls.config",
		    "a server has a certificate, and trusts somebody if it asks for one");
		return NULL;
	}
	if ((end = end_new(config, true, r)) == NULL)
		return NULL;
	if (set_chain(end, config, r) == -1) {
		tls_end_free(end);
		return NULL;
	}
	end->s->SSL_CTX_set_num_tickets(end->ctx, 0);
	end->s->SSL_CTX_set_alpn_select_cb(end->ctx, choose_protocol, NULL);
	end->s->SSL_CTX_set_verify(end->ctx, MODES[config->ask], NULL);
	return end;
}

struct tls_end *
tls_client_end(const struct tls_config *config, struct refusal *r)
{
	struct tls_end *end;

	if (config->ncas == 0 && config->pin == NULL && !config->web) {
		refusal_set(r, "tls.config", "a client trusts somebody");
		return NULL;
	}
	if ((end = end_new(config, false, r)) == NULL)
		return NULL;
	if (config->web && set_web(end, config->roots) == -1) {
		refusal_set(r, "tls.config", "the authorities of this machine cannot be read");
		tls_end_free(end);
		return NULL;
	}
	end->s->SSL_CTX_set_verify(end->ctx, SSL_VERIFY_PEER, NULL);
	end->s->SSL_CTX_set_alpn_protos(end->ctx, ALPN, sizeof(ALPN) - 1);
	return end;
}

static void
x509_free(void *x)
{
	const struct openssl_crypto *c = openssl_crypto(NULL);

	c->X509_free(x);
}

void
tls_end_free(struct tls_end *end)
{
	if (end == NULL)
		return;
	if (end->s != NULL)
		end->s->SSL_CTX_free(end->ctx);
	if (end->c != NULL)
		end->c->OPENSSL_sk_pop_free(end->cas, x509_free);
	cert_blob_free(&end->cert);
	cert_blob_free(&end->key);
	free(end);
}

bool
tls_end_is_web(const struct tls_end *end)
{
	return end->web;
}

int
tls_end_apply(struct tls_end *end, SSL_CTX *ctx, struct refusal *r)
{
	if (set_common(end, ctx) == -1)
		return refusal_set(r, "http.memory", "OpenSSL does not start");
	end->s->SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	return set_own(end, ctx, r);
}

/* One connection. */

static int
set_server_name(const struct tls_end *end, SSL *ssl, const char *name)
{
	X509_VERIFY_PARAM *param = end->s->SSL_get0_param(ssl);
	unsigned char address[16];
	union {
		const char *in;
		void *out;
	} u = {.in = name};

	if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
		return end->c->X509_VERIFY_PARAM_set1_ip_asc(param, name);
	if (end->c->X509_VERIFY_PARAM_set1_host(param, name, 0) != 1)
		return 0;
	return (int)end->s->SSL_ctrl(
	    ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, u.out);
}

SSL *
tls_end_new_ssl(struct tls_end *end, const char *name)
{
	SSL *ssl;

	if ((ssl = end->s->SSL_new(end->ctx)) == NULL)
		return NULL;
	if (end->server) {
		end->s->SSL_set_accept_state(ssl);
		return ssl;
	}
	end->s->SSL_set_connect_state(ssl);
	if (set_server_name(end, ssl, name) == 1)
		return ssl;
	end->s->SSL_free(ssl);
	return NULL;
}

int
tls_explain(const SSL *ssl, struct refusal *r)
{
	const struct openssl_crypto *c = openssl_crypto(NULL);
	const struct openssl_ssl *s = openssl_ssl(NULL);
	const char *reason = c->ERR_reason_error_string(c->ERR_peek_last_error());
	long verdict = s->SSL_get_verify_result(ssl);

	c->ERR_clear_error();
	if (verdict != X509_V_OK)
		return refusal_set(r, "tls.untrusted", "the certificate of the other side: %s",
		    c->X509_verify_cert_error_string(verdict));
	if (reason == NULL)
		return refusal_set(r, "tls.handshake", "the other side ended the handshake");
	return refusal_set(r, "tls.handshake", "TLS: %s", reason);
}

static int
take_issuer(const struct openssl_crypto *c, const X509 *x, struct tls_peer *peer, struct refusal *r)
{
	unsigned char *der = NULL;
	int len;

	if ((len = c->i2d_X509(x, &der)) <= 0 || (peer->issuer.data = malloc((size_t)len)) == NULL)
		return refusal_set(r, "http.memory", "no memory for a certificate");
	memcpy(peer->issuer.data, der, (size_t)len);
	peer->issuer.len = (size_t)len;
	cert_fingerprint(der, (size_t)len, peer->issuer_fp);
	c->CRYPTO_clear_free(der, (size_t)len, __FILE__, __LINE__);
	return 0;
}

struct tls_peer *
tls_peer_of(const SSL *ssl, struct refusal *r)
{
	const struct openssl_crypto *c = openssl_crypto(NULL);
	const STACK_OF(X509) *chain = openssl_ssl(NULL)->SSL_get0_verified_chain(ssl);
	int n = c->OPENSSL_sk_num((const OPENSSL_STACK *)chain);
	struct tls_peer *peer;

	/* The leaf first, the authority last.  No chain: nothing was shown. */
	if (n < 1)
		return NULL;
	if ((peer = calloc(1, sizeof(*peer))) == NULL) {
		refusal_set(r, "http.memory", "no memory for a certificate");
		return NULL;
	}
	if (read_x509(c, c->OPENSSL_sk_value((const OPENSSL_STACK *)chain, 0), &peer->cert, r) ==
		0 &&
	    take_issuer(c, c->OPENSSL_sk_value((const OPENSSL_STACK *)chain, n - 1), peer, r) == 0)
		return peer;
	tls_peer_free(peer);
	return NULL;
}

void
tls_peer_free(struct tls_peer *peer)
{
	if (peer == NULL)
		return;
	cert_blob_free(&peer->issuer);
	free(peer);
}
