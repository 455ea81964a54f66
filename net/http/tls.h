/* tls.h: who an end of TLS is and whom it trusts: certificates under private authorities. */
#ifndef NET_HTTP_TLS_H
#define NET_HTTP_TLS_H

#include "engine/crypto/cert.h"
#include "engine/refusal.h"

#define TLS_CAS_MAX 16

/* Who an end is and whom it trusts: one for many connections. */
struct tls_end;

struct ssl_ctx_st; /* OpenSSL's SSL_CTX and SSL */
struct ssl_st;

enum tls_ask {
	TLS_ASK_NOTHING,  /* of clients: no certificate is looked at */
	TLS_ASK_OPTIONAL, /* one that is sent must be good */
	TLS_ASK_REQUIRED,
};

struct tls_config {
	const struct cert_blob *cert, *key; /* our own, DER; NULL: a client without */
	const struct cert_blob
	    *issuer;                 /* sent behind ours, so that who pins it finds it; or NULL */
	const struct cert_blob *cas; /* authorities under which the other end may be */
	unsigned ncas;               /* at most TLS_CAS_MAX */

	/* Of a client: trust the authority with this SHA-256, wherever it comes from; or NULL. */
	const uint8_t *pin;
	enum tls_ask ask; /* of a server */

	/*
	 * Of a client, instead of cas and pin: trust what this machine trusts, or the authorities
	 * in the PEM file ${roots}; chains of any shape, wildcards among them, as the web has them.
	 */
	bool web;
	const char *roots;
};

/* Who is at the other end, by certificate. */
struct tls_peer {
	struct cert cert;
	uint8_t issuer_fp[CERT_FP_SIZE]; /* of the authority that it was verified under */
	struct cert_blob issuer;         /* that authority's certificate */
};

/**
 * tls_server_end(config, r), tls_client_end(config, r):
 * Return an end, for tls_end_free; ${config} is copied.  TLS 1.3 or 1.2, ephemeral keys, AEAD
 * ciphers; no renegotiation, compression, tickets, resumption or early data; ALPN http/1.1 (RFC
 * 7301), which a client may leave out.  Return NULL with ${r} tls.config (certificate and key do
 * not fit, or nobody is trusted), cert.form, cert.key, http.memory or library.missing.
 */
struct tls_end *tls_server_end(const struct tls_config *config, struct refusal *r);
struct tls_end *tls_client_end(const struct tls_config *config, struct refusal *r);

/**
 * tls_end_free(end):
 * Free ${end} once the last connection that uses it is gone.  May be NULL.
 */
void tls_end_free(struct tls_end *end);

/**
 * tls_end_is_web(end):
 * Whether ${end} is a client of the web, which does not read certificates as strictly as ours.
 */
bool tls_end_is_web(const struct tls_end *end);

/**
 * tls_end_apply(end, ctx, r):
 * Make the SSL_CTX ${ctx} of somebody else, such as libcurl, one of the client ${end}, which must
 * outlive it.  Return 0, or -1 with ${r}.
 */
int tls_end_apply(struct tls_end *end, struct ssl_ctx_st *ctx, struct refusal *r);

/**
 * tls_end_new_ssl(end, name):
 * Return a new SSL of ${end}, ready for its handshake: a server's, or that of a client who insists
 * on ${name} (a DNS name or an address).  NULL if memory ran out.
 */
struct ssl_st *tls_end_new_ssl(struct tls_end *end, const char *name);

/**
 * tls_explain(ssl, r):
 * Store in ${r} why ${ssl} failed just now, by OpenSSL's error queue, which is emptied:
 * tls.untrusted with what is wrong with the other certificate, or tls.handshake.  Return -1.
 */
int tls_explain(const struct ssl_st *ssl, struct refusal *r);

/**
 * tls_peer_of(ssl, r):
 * Return who is at the other end of ${ssl}, for tls_peer_free; or NULL, with ${r} http.memory or as
 * cert_read, or without change of ${r} where it showed no certificate.
 */
struct tls_peer *tls_peer_of(const struct ssl_st *ssl, struct refusal *r);
void tls_peer_free(struct tls_peer *peer);

#endif
