/* authority.h: for tests: an authority, and certificates that it issues, good ones and bad ones. */
#ifndef TESTS_AUTHORITY_H
#define TESTS_AUTHORITY_H

#include "engine/crypto/ca.h"

#define AUTHORITY_HOST "host.bastion.internal"
#define AUTHORITY_DAY  86400000LL

struct authority {
	struct cert_blob cert, key;
	struct ca *ca;
};

struct identity {
	struct cert_blob cert, key;
};

/**
 * authority_make(a, name), authority_drop(a):
 * Make an authority that is valid for a year, and free it.  Failures fail the test.
 */
void authority_make(struct authority *a, const char *name);
void authority_drop(struct authority *a);

/**
 * authority_server(a, id, host, from_ms, until_ms), authority_client(a, id, device, from_ms,
 * until_ms):
 * Issue a certificate, valid from and until so many milliseconds from now, for the server ${host}
 * and 127.0.0.1, or for the client on ${device}.
 */
void authority_server(const struct authority *a, struct identity *id, const char *host,
    int64_t from_ms, int64_t until_ms);
void authority_client(const struct authority *a, struct identity *id, const char *device,
    int64_t from_ms, int64_t until_ms);
void identity_drop(struct identity *id);

/**
 * identity_save(id, dir, name), authority_save(a, dir, name):
 * Write ${dir}/${name}.crt and ${dir}/${name}.key for other programs: PEM, and DER.
 */
void identity_save(const struct identity *id, const char *dir, const char *name);
void authority_save(const struct authority *a, const char *dir, const char *name);

/**
 * tcp_listen(port), tcp_dial(port, from):
 * Listen on 127.0.0.1 at a port of the kernel's choice, or connect to it from 127.${from}, where
 * ${from} is three bytes (0: any), blocking.
 */
int tcp_listen(int *port);
int tcp_dial(int port, unsigned from);

#endif
