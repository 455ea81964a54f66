/* tls_identity.h: who this machine is under TLS: its authority, its certificates, whom it pinned.
 */
#ifndef ENGINE_STATE_TLS_IDENTITY_H
#define ENGINE_STATE_TLS_IDENTITY_H

#include <stdbool.h>

#include "engine/crypto/cert.h"
#include "engine/crypto/key.h"
#include "engine/store/store.h"

/*
 * The names that servers are certified for and clients insist on, whatever the address that was
 * dialled: .internal is nobody's (ICANN, 29 July 2024), so no public authority vouches for them.
 */
#define TLS_HOST_NAME "host.bastion.internal" /* the port of a Host */
#define TLS_BOX_NAME  "box.bastion.internal"  /* the listener of a box */

#define TLS_AUTHORITIES_MAX 16

/*
 * Every certificate of a machine names it by CERT_DEVICE_PREFIX and the hex of its identity key.
 * Keys of certificates are sealed with KEY_WIRE, so that the actor net opens them; the key of the
 * authority is not.
 */
struct tls_identity {
	struct cert_blob cert, key;                        /* DER; of a client without: empty */
	struct cert_blob issuer;                           /* the authority over cert */
	struct cert_blob authorities[TLS_AUTHORITIES_MAX]; /* under which the other end may be */
	unsigned nauthorities;
};

/**
 * tls_device(identity, uri):
 * Store the URI that names the machine of the key ${identity} (32 bytes) in certificates.
 */
void tls_device(const unsigned char identity[32], char uri[CERT_URI_MAX + 1]);

/**
 * tls_authority(db, key, fp):
 * Store the fingerprint of this machine's authority in ${fp}; make the authority where there is
 * none, sealed with ${key}, which is the machine's secret.  ROLE_PERSON and ROLE_LINK.  Return 0,
 * or -1 with the refusal of ${db}.
 */
int tls_authority(struct store *db, const struct key *key, uint8_t fp[CERT_FP_SIZE]);

/**
 * tls_authority_own(db, cert), tls_authority_pem(db, pem):
 * Store the certificate of this machine's authority in ${cert} (DER), or as text in ${pem}, for
 * cert_blob_free.  Return 0, or -1 with the refusal of ${db}: tls.missing.
 */
int tls_authority_own(struct store *db, struct cert_blob *cert);
int tls_authority_pem(struct store *db, struct cert_blob *pem);

/**
 * tls_upkeep(db, key):
 * Make what this machine needs of its own and has not, or not for long: with a row of listen, the
 * authority, the certificate of its server and, on a Host, that of the client of boxes that listen.
 * For link and persons, who hold the machine's secret ${key}.  Return 0, or -1 with the refusal of
 * ${db}.
 */
int tls_upkeep(struct store *db, const struct key *key);

/**
 * tls_server(db, wire, identity), tls_client(db, wire, identity), tls_client_of(db, wire, pairing,
 * identity):
 * What to serve and dial with: the server of this machine, which knows clients under its own
 * authority (a Host) or those of its Hosts (a box); a Host that dials a box, whose authority
 * tls_box_authority gives; a box that dials the Host of ${pairing}.  ${wire} opens the keys.  Store
 * it in ${identity}, for tls_identity_free.  Return 0, or -1 with the refusal of ${db}:
 * tls.missing, seal.broken.
 */
int tls_server(struct store *db, const struct key *wire, struct tls_identity *identity);
int tls_client(struct store *db, const struct key *wire, struct tls_identity *identity);
int tls_client_of(
    struct store *db, const struct key *wire, int64_t pairing, struct tls_identity *identity);

/**
 * tls_box_authority(db, box_id, authority):
 * Store the authority over the listener of ${box_id} (a host_box of transport 'tls') in
 * ${authority}, for cert_blob_free.  Return 0, or -1 with the refusal of ${db}: box.gone.
 */
int tls_box_authority(struct store *db, int64_t box_id, struct cert_blob *authority);

/**
 * tls_identity_free(identity):
 * Wipe and free what ${identity} holds.
 */
void tls_identity_free(struct tls_identity *identity);

/**
 * tls_box_of(db, fp, box_id):
 * On a Host: find whose client certificate, verified under our authority, has the fingerprint
 * ${fp}.  Return 1 with ${*box_id} an active host_box over a network, 0 for nobody (gone, renewed
 * twice since, or never issued), -1 on failure.
 */
int tls_box_of(struct store *db, const uint8_t fp[CERT_FP_SIZE], int64_t *box_id);

/**
 * tls_pairing_of(db, issuer_fp, device, pairing):
 * On a box: find which pairing's Host shows a certificate of ${device} (struct cert_uris) that was
 * verified under the authority ${issuer_fp}: that of the pairing, and its Host's own name.  Another
 * box of that Host is nobody here.  Return 1 with ${*pairing}, not revoked and over a network; 0;
 * -1.
 */
int tls_pairing_of(
    struct store *db, const uint8_t issuer_fp[CERT_FP_SIZE], const char *device, int64_t *pairing);

/**
 * tls_identity_keep(db, wire, use, pairing, cert, key):
 * Make ${cert} with its ${key} (DER, plain; sealed here) what this machine shows as ${use}
 * ("server", "client") for ${pairing} (0: under its own authority), in the place of what it showed
 * before.  Within the caller's transaction.  Return 0, or -1 with the refusal of ${db}.
 */
int tls_identity_keep(struct store *db, const struct key *wire, const char *use, int64_t pairing,
    const struct cert_blob *cert, const struct cert_blob *key);

/**
 * tls_request_of(db, key, request):
 * Store a request (PKCS#10, DER) that names this machine, signed with ${key} (PKCS#8), in
 * ${request}, for cert_blob_free.  Return 0, or -1 with the refusal of ${db}.
 */
int tls_request_of(struct store *db, const struct cert_blob *key, struct cert_blob *request);

/**
 * tls_certified(db, authority, cert, key):
 * Check what a Host issued: ${authority} certifies this machine and ${key}, as a client, now.
 * Return 0, or -1 with the refusal of ${db}: cert.*, tls.untrusted.
 */
int tls_certified(struct store *db, const struct cert_blob *authority, const struct cert_blob *cert,
    const struct cert_blob *key);

/**
 * tls_request(db, wire, pairing, request):
 * On a box: store a request (PKCS#10, DER) for the renewal of the certificate of ${pairing} in
 * ${request}: the same key, which is new with each pairing.  Which are due says the view tls_due.
 * Return 0, or -1 with the refusal of ${db}.
 */
int tls_request(
    struct store *db, const struct key *wire, int64_t pairing, struct cert_blob *request);

/**
 * tls_renew(db, wire, pairing, cert, len):
 * On a box: put the ${len} bytes of ${cert}, which the Host of ${pairing} issued for tls_request,
 * in the place of the present certificate, within a transaction of its own.  Return 0, or -1 with
 * the refusal of ${db}, nothing changed: cert.*, tls.untrusted (not under the pinned authority, not
 * for this machine, not of this key, or over).
 */
int tls_renew(
    struct store *db, const struct key *wire, int64_t pairing, const void *cert, size_t len);

/**
 * tls_order(db, box_id, request, len, order_id):
 * On a Host: read the request of ${box_id} and have its key certified; the actor link issues
 * (tls_issue).  The request must name the box by its own key and nothing else.  Within the
 * caller's transaction.  Return 0 with the row of box_certificate in ${*order_id}; or -1 with the
 * refusal of ${db}: cert.*, box.gone, tls.often, tls.busy.
 */
int tls_order(struct store *db, int64_t box_id, const void *request, size_t len, int64_t *order_id);

/**
 * tls_issue(db, key):
 * On a Host: issue the oldest certificate that was ordered, with the machine's secret ${key}.
 * Return 1, 0 where none waits, -1.
 */
int tls_issue(struct store *db, const struct key *key);

#endif
