/* ca.c: certificates are filled in by a table of extensions, signed, and read back before use. */
#include <arpa/inet.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crypto/ca.h"
#include "engine/crypto/cert_internal.h"

#define DNS_MAX     253
#define LABEL_MAX   63
#define SERIAL_SIZE 16
#define TIME_MAX_MS (100LL * 366 * 86400000)

struct ca {
	const struct openssl_crypto *c;
	X509 *x;
	EVP_PKEY *key;
	struct cert cert;
};

struct extension {
	int nid;
	const char *value;
};

static const struct extension AUTHORITY[] = {
    {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
    {NID_key_usage, "critical,keyCertSign,cRLSign"},
    {NID_subject_key_identifier, "hash"},
    {NID_authority_key_identifier, "keyid:always"},
    {NID_undef, NULL},
};
static const struct extension SERVER[] = {
    {NID_basic_constraints, "critical,CA:FALSE"},
    {NID_key_usage, "critical,digitalSignature"},
    {NID_ext_key_usage, "serverAuth"},
    {NID_subject_key_identifier, "hash"},
    {NID_authority_key_identifier, "keyid:always"},
    {NID_undef, NULL},
};
static const struct extension CLIENT[] = {
    {NID_basic_constraints, "critical,CA:FALSE"},
    {NID_key_usage, "critical,digitalSignature"},
    {NID_ext_key_usage, "clientAuth"},
    {NID_subject_key_identifier, "hash"},
    {NID_authority_key_identifier, "keyid:always"},
    {NID_undef, NULL},
};

/* Filling in. */

static int
set_serial(const struct openssl_crypto *c, X509 *x)
{
	unsigned char raw[SERIAL_SIZE];
	ASN1_INTEGER *serial;
	BIGNUM *n;
	int ok;

	/* Positive, and of the same length always (RFC 5280 §4.1.2.2). */
	random_fill(raw, sizeof(raw));
	raw[0] = (raw[0] & 0x7f) | 0x40;
	if ((n = c->BN_bin2bn(raw, sizeof(raw), NULL)) == NULL)
		return -1;
	serial = c->BN_to_ASN1_INTEGER(n, NULL);
	ok = serial != NULL && c->X509_set_serialNumber(x, serial) == 1;
	c->ASN1_INTEGER_free(serial);
	c->BN_free(n);
	return ok ? 0 : -1;
}

static int
set_time(const struct openssl_crypto *c, X509 *x, int64_t from_ms, int64_t until_ms)
{
	ASN1_TIME *from = c->ASN1_TIME_set(NULL, from_ms / 1000);
	ASN1_TIME *until = c->ASN1_TIME_set(NULL, until_ms / 1000);
	int ok = from != NULL && until != NULL && c->X509_set1_notBefore(x, from) == 1 &&
		 c->X509_set1_notAfter(x, until) == 1;

	c->ASN1_TIME_free(from);
	c->ASN1_TIME_free(until);
	return ok ? 0 : -1;
}

static int
set_name(const struct openssl_crypto *c, X509 *x, const char *name)
{
	X509_NAME *subject = c->X509_get_subject_name(x);
	union {
		const char *text;
		const unsigned char *bytes;
	} u = {.text = name};

	return c->X509_NAME_add_entry_by_txt(
		   subject, "O", MBSTRING_ASC, (const unsigned char *)"bastion", -1, -1, 0) == 1 &&
		       c->X509_NAME_add_entry_by_txt(
			   subject, "CN", MBSTRING_ASC, u.bytes, -1, -1, 0) == 1
		   ? 0
		   : -1;
}

static int
add_extensions(const struct openssl_crypto *c, X509 *x, X509 *issuer, const struct extension *e)
{
	X509_EXTENSION *made;
	X509V3_CTX ctx = {.db = NULL};
	int ok;

	c->X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	for (; e->value != NULL; e++) {
		if ((made = c->X509V3_EXT_conf_nid(NULL, &ctx, e->nid, e->value)) == NULL)
			return -1;
		ok = c->X509_add_ext(x, made, -1);
		c->X509_EXTENSION_free(made);
		if (ok != 1)
			return -1;
	}
	return 0;
}

static bool
is_time(int64_t valid_ms, int64_t early_ms)
{
	return valid_ms > 0 && valid_ms <= TIME_MAX_MS && early_ms >= 0 && early_ms <= TIME_MAX_MS;
}

/* Names. */

static bool
is_printable(const char *s, size_t max)
{
	size_t i;

	for (i = 0; s[i] != '\0'; i++)
		if (s[i] < ' ' || s[i] > '~' || i == max)
			return false;
	return i > 0;
}

/* RFC 1123 §2.1, and no wildcard: a certificate is for one machine. */
static bool
is_dns_name(const char *s)
{
	size_t i, label = 0;

	for (i = 0; s[i] != '\0'; i++) {
		if (s[i] == '.') {
			if (label == 0 || s[i - 1] == '-')
				return false;
			label = 0;
			continue;
		}
		if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= 'A' && s[i] <= 'Z') &&
		    !(s[i] >= '0' && s[i] <= '9') && (s[i] != '-' || label == 0))
			return false;
		if (++label > LABEL_MAX || i >= DNS_MAX)
			return false;
	}
	return label > 0 && s[i - 1] != '-';
}

static int
add_host(const struct openssl_crypto *c, GENERAL_NAMES *names, const char *host, struct refusal *r)
{
	unsigned char address[16];

	if (inet_pton(AF_INET, host, address) == 1)
		return cert_name_add(c, names, GEN_IPADD, address, 4, r);
	if (inet_pton(AF_INET6, host, address) == 1)
		return cert_name_add(c, names, GEN_IPADD, address, 16, r);
	if (!is_dns_name(host))
		return refusal_set(r, "ca.order", "a server is named by DNS names and addresses");
	return cert_name_add(c, names, GEN_DNS, host, strlen(host), r);
}

static int
add_names(const struct openssl_crypto *c, X509 *x, const struct ca_order *order, struct refusal *r)
{
	GENERAL_NAMES *names = c->GENERAL_NAMES_new();
	const char *const *name = order->names;
	int n = 0, rc = -1;

	if (names == NULL)
		return refusal_set(r, "cert.make", "no memory for names");
	for (; name != NULL && *name != NULL; name++)
		if (++n > CA_NAMES_MAX || add_host(c, names, *name, r) == -1)
			break;
	if (n > CA_NAMES_MAX)
		refusal_set(r, "ca.order", "a certificate has at most %d names", CA_NAMES_MAX);
	else if ((name == NULL || *name == NULL) && cert_uris_add(c, names, order->uris, r) == 0)
		rc = 0;
	if (rc == 0 && c->OPENSSL_sk_num((OPENSSL_STACK *)names) > 0 &&
	    c->X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) != 1)
		rc = refusal_set(r, "cert.make", "no memory for names");
	c->GENERAL_NAMES_free(names);
	return rc;
}

/* Signing. */

/* Sign ${x} and store it in ${cert}, unless it is not as we would take it from others. */
static int
finish(const struct openssl_crypto *c, X509 *x, EVP_PKEY *key, struct cert_blob *cert,
    struct refusal *r)
{
	unsigned char *der = NULL;
	struct cert facts;
	int len;

	len = c->X509_sign(x, key, c->EVP_sha256()) > 0 ? c->i2d_X509(x, &der) : 0;
	if (cert_take(c, der, len, cert, r) == -1)
		return -1;
	if (cert_read(cert->data, cert->len, &facts, r) == 0)
		return 0;
	cert_blob_free(cert);
	return -1;
}

static int
make_authority(const struct openssl_crypto *c, EVP_PKEY *key, const char *name, int64_t valid_ms,
    int64_t early_ms, struct cert_blob *cert, struct refusal *r)
{
	X509 *x = c->X509_new();
	int rc = -1;

	if (x == NULL || c->X509_set_version(x, X509_VERSION_3) != 1 || set_serial(c, x) == -1 ||
	    set_time(c, x, clock_now() - early_ms, clock_now() + valid_ms) == -1 ||
	    set_name(c, x, name) == -1 ||
	    c->X509_set_issuer_name(x, c->X509_get_subject_name(x)) != 1 ||
	    c->X509_set_pubkey(x, key) != 1 || add_extensions(c, x, x, AUTHORITY) == -1)
		refusal_set(r, "cert.make", "OpenSSL does not make a certificate");
	else
		rc = finish(c, x, key, cert, r);
	c->X509_free(x);
	return rc;
}

int
ca_make(const char *name, int64_t valid_ms, int64_t early_ms, struct cert_blob *cert,
    struct cert_blob *key, struct refusal *r)
{
	const struct openssl_crypto *c;
	struct cert_blob public_key;
	EVP_PKEY *pkey;
	int rc = -1;

	*cert = *key = (struct cert_blob){.data = NULL};
	if (!is_printable(name, CA_NAME_MAX) || !is_time(valid_ms, early_ms))
		return refusal_set(r, "ca.order",
		    "an authority has a name of 1 to %d printable characters and at most a century to live",
		    CA_NAME_MAX);
	if ((c = openssl_crypto(r)) == NULL || cert_key_make(key, &public_key, r) == -1)
		return -1;
	cert_blob_free(&public_key);
	if ((pkey = cert_key_read(c, key, r)) != NULL)
		rc = make_authority(c, pkey, name, valid_ms, early_ms, cert, r);
	c->EVP_PKEY_free(pkey);
	c->ERR_clear_error();
	if (rc == -1)
		cert_blob_free(key);
	return rc;
}

struct ca *
ca_load(const struct cert_blob *cert, const struct cert_blob *key, struct refusal *r)
{
	const unsigned char *p = cert->data;
	struct ca *ca;

	if ((ca = calloc(1, sizeof(*ca))) == NULL) {
		refusal_set(r, "cert.make", "no memory for an authority");
		return NULL;
	}
	if ((ca->c = openssl_crypto(r)) == NULL ||
	    cert_read(cert->data, cert->len, &ca->cert, r) == -1 ||
	    (ca->key = cert_key_read(ca->c, key, r)) == NULL)
		goto fail;
	if (!ca->cert.ca) {
		refusal_set(r, "ca.order", "the certificate is not an authority's");
		goto fail;
	}
	ca->x = ca->c->d2i_X509(NULL, &p, (long)cert->len);
	if (ca->x == NULL || ca->c->EVP_PKEY_eq(ca->c->X509_get0_pubkey(ca->x), ca->key) != 1) {
		refusal_set(r, "ca.order", "the key is not that of the certificate");
		goto fail;
	}
	return ca;
fail:
	ca_free(ca);
	return NULL;
}

void
ca_free(struct ca *ca)
{
	if (ca == NULL)
		return;
	if (ca->c != NULL) {
		ca->c->X509_free(ca->x);
		ca->c->EVP_PKEY_free(ca->key); /* OpenSSL wipes it */
		ca->c->ERR_clear_error();
	}
	free(ca);
}

const struct cert *
ca_cert(const struct ca *ca)
{
	return &ca->cert;
}

static int
check_order(const struct ca *ca, const struct ca_order *order, struct refusal *r)
{
	bool named = order->names != NULL && order->names[0] != NULL;

	if (!is_printable(order->subject, CA_NAME_MAX))
		return refusal_set(
		    r, "ca.order", "a subject has 1 to %d printable ASCII characters", CA_NAME_MAX);
	if (named != (order->use == CA_SERVER))
		return refusal_set(r, "ca.order", "a server has names, and a client has none");
	if (!is_time(order->valid_ms, order->early_ms))
		return refusal_set(
		    r, "ca.order", "a certificate is valid for some time, at most a century");
	if (ca->cert.not_after <= clock_now())
		return refusal_set(r, "ca.expired", "the authority itself has expired");
	return 0;
}

static EVP_PKEY *
read_public(const struct openssl_crypto *c, const struct ca_order *order, struct refusal *r)
{
	const unsigned char *p = order->public_key;
	EVP_PKEY *key = NULL;

	if (order->public_key_len <= CERT_MAX)
		key = c->d2i_PUBKEY(NULL, &p, (long)order->public_key_len);
	if (cert_key_check(c, key, r) == 0 && p == order->public_key + order->public_key_len)
		return key;
	c->EVP_PKEY_free(key);
	refusal_set(r, "cert.key", "this is no public key that is certified");
	return NULL;
}

static int
fill(const struct ca *ca, X509 *x, EVP_PKEY *key, const struct ca_order *order, struct refusal *r)
{
	const struct openssl_crypto *c = ca->c;
	int64_t from = clock_now() - order->early_ms, until = clock_now() + order->valid_ms;

	if (from < ca->cert.not_before)
		from = ca->cert.not_before;
	if (until > ca->cert.not_after)
		until = ca->cert.not_after;
	if (c->X509_set_version(x, X509_VERSION_3) != 1 || set_serial(c, x) == -1 ||
	    set_time(c, x, from, until) == -1 || set_name(c, x, order->subject) == -1 ||
	    c->X509_set_issuer_name(x, c->X509_get_subject_name(ca->x)) != 1 ||
	    c->X509_set_pubkey(x, key) != 1 ||
	    add_extensions(c, x, ca->x, order->use == CA_SERVER ? SERVER : CLIENT) == -1)
		return refusal_set(r, "cert.make", "OpenSSL does not make a certificate");
	return add_names(c, x, order, r);
}

int
ca_issue(
    const struct ca *ca, const struct ca_order *order, struct cert_blob *cert, struct refusal *r)
{
	const struct openssl_crypto *c = ca->c;
	EVP_PKEY *key;
	X509 *x;
	int rc = -1;

	*cert = (struct cert_blob){.data = NULL};
	if (check_order(ca, order, r) == -1 || (key = read_public(c, order, r)) == NULL)
		return -1;
	if ((x = c->X509_new()) == NULL)
		refusal_set(r, "cert.make", "no memory for a certificate");
	else if (fill(ca, x, key, order, r) == 0)
		rc = finish(c, x, ca->key, cert, r);
	c->X509_free(x);
	c->EVP_PKEY_free(key);
	c->ERR_clear_error();
	return rc;
}

/* What is wrong with a certificate of others, or NULL. */
static const char *
fault_of(const struct openssl_crypto *c, X509 *authority, enum ca_use use, X509 *x, EVP_PKEY *key)
{
	if (c->X509_check_issued(authority, x) != X509_V_OK ||
	    c->X509_verify(x, c->X509_get0_pubkey(authority)) != 1)
		return "the pinned authority did not issue the certificate";
	if (c->X509_check_purpose(
		x, use == CA_SERVER ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT, 0) != 1)
		return "the certificate is for another use";
	if (c->EVP_PKEY_eq(c->X509_get0_pubkey(x), key) != 1)
		return "the certificate is for another key";
	return NULL;
}

int
ca_issued(const struct cert_blob *authority, enum ca_use use, const struct cert_blob *cert,
    const struct cert_blob *key, struct refusal *r)
{
	const struct openssl_crypto *c;
	const unsigned char *pa = authority->data, *px = cert->data;
	const char *fault = "the certificate is not valid now";
	struct cert above, facts;
	EVP_PKEY *pkey;
	X509 *a, *x;

	if ((c = openssl_crypto(r)) == NULL ||
	    cert_read(authority->data, authority->len, &above, r) == -1 ||
	    cert_read(cert->data, cert->len, &facts, r) == -1 ||
	    (pkey = cert_key_read(c, key, r)) == NULL)
		return -1;
	a = c->d2i_X509(NULL, &pa, (long)authority->len);
	x = c->d2i_X509(NULL, &px, (long)cert->len);
	if (!above.ca)
		fault = "the pinned certificate is not an authority's";
	else if (a == NULL || x == NULL)
		fault = "no memory for a certificate";
	else if (facts.not_before <= clock_now() && clock_now() < facts.not_after)
		fault = fault_of(c, a, use, x, pkey);
	c->X509_free(x);
	c->X509_free(a);
	c->EVP_PKEY_free(pkey);
	c->ERR_clear_error();
	return fault == NULL ? 0 : refusal_set(r, "tls.untrusted", "%s", fault);
}
