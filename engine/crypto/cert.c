/* cert.c: X.509 by OpenSSL, behind a check of the encoding and bounds of our own. */
#include <openssl/core_names.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/crypto/base64.h"
#include "engine/crypto/cert.h"
#include "engine/crypto/cert_internal.h"

#define DER_DEPTH      16
#define EXTENSIONS_MAX 16
#define NAMES_MAX      64 /* of all kinds in one certificate */
#define RSA_BITS_MIN   2048
#define RSA_BITS_MAX   8192
#define PEM_MAX        (2 * CERT_MAX)
#define PEM_LINE       64
#define PEM_BEGIN      "-----BEGIN CERTIFICATE-----"
#define PEM_END        "-----END CERTIFICATE-----"

void
cert_blob_free(struct cert_blob *blob)
{
	if (blob->data != NULL)
		sodium_memzero(blob->data, blob->len);
	free(blob->data);
	*blob = (struct cert_blob){.data = NULL};
}

void
cert_fingerprint(const void *der, size_t len, uint8_t fp[CERT_FP_SIZE])
{
	crypto_hash_sha256(fp, der, len);
}

/* DER: one spelling for each value (X.690 §10). */

enum {
	DER_BOOLEAN = 0x01,
	DER_INTEGER = 0x02,
	DER_SEQUENCE = 0x10,
	DER_SET = 0x11,
	DER_CONSTRUCTED = 0x20,
	DER_NUMBER = 0x1f,
	DER_CLASS = 0xc0
};

/* Read the length at ${*at}, in at most three bytes and no more than it takes. */
static int
der_length(const uint8_t *p, size_t len, size_t *at, size_t *value)
{
	size_t n, i;

	if (*at == len)
		return -1;
	*value = p[(*at)++];
	if (*value < 0x80)
		return 0;
	n = *value & 0x7f;
	if (n == 0 || n > 2 || n > len - *at)
		return -1;
	for (*value = 0, i = 0; i < n; i++)
		*value = *value << 8 | p[(*at)++];
	return *value < (n == 1 ? 0x80 : 0x100) ? -1 : 0;
}

static bool
der_primitive_is_well(uint8_t tag, const uint8_t *p, size_t len)
{
	if (tag == DER_BOOLEAN)
		return len == 1 && (p[0] == 0 || p[0] == 0xff);
	if (tag == DER_INTEGER)
		return len > 0 &&
		       (len == 1 || (p[0] != 0 && p[0] != 0xff) || (p[0] ^ p[1]) >= 0x80);
	return true;
}

/* Return how many values stand in ${p}[0..${len}), or -1. */
static int
der_walk(const uint8_t *p, size_t len, unsigned depth)
{
	size_t at = 0, size;
	uint8_t tag;
	bool nests;
	int n;

	for (n = 0; at < len; n++) {
		tag = p[at++];
		if ((tag & DER_NUMBER) == DER_NUMBER || der_length(p, len, &at, &size) == -1 ||
		    size > len - at)
			return -1;
		nests = (tag & DER_CONSTRUCTED) != 0;
		if ((tag & DER_CLASS) == 0 &&
		    nests != ((tag & DER_NUMBER) == DER_SEQUENCE || (tag & DER_NUMBER) == DER_SET))
			return -1;
		if (nests && (depth == 0 || der_walk(p + at, size, depth - 1) == -1))
			return -1;
		if (!nests && !der_primitive_is_well(tag, p + at, size))
			return -1;
		at += size;
	}
	return n;
}

static int
der_check(const void *der, size_t len, struct refusal *r)
{
	if (len == 0 || len > CERT_MAX)
		return refusal_set(
		    r, "cert.form", "a certificate has 1 to %d bytes, this has %zu", CERT_MAX, len);
	if (der_walk(der, len, DER_DEPTH) != 1)
		return refusal_set(r, "cert.form", "this is not one value in DER");
	return 0;
}

/* Names. */

static bool
is_device(const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (strchr("-._~:+/=", s[i]) == NULL && !(s[i] >= '0' && s[i] <= '9') &&
		    !(s[i] >= 'A' && s[i] <= 'Z') && !(s[i] >= 'a' && s[i] <= 'z'))
			return false;
	return len > 0 && len <= CERT_DEVICE_MAX;
}

int
cert_device_uri(const char *device, char uri[CERT_URI_MAX + 1])
{
	if (!is_device(device, strlen(device)))
		return -1;
	stpcpy(stpcpy(uri, CERT_DEVICE_PREFIX), device);
	return 0;
}

static int
add_device(struct cert_uris *uris, const char *device, struct refusal *r)
{
	if (!is_device(device, strlen(device)))
		return refusal_set(r, "cert.device", "the certificate names an impossible device");
	if (uris->device[0] != '\0' && strcmp(uris->device, device) != 0)
		return refusal_set(r, "cert.device", "the certificate names two devices");
	strcpy(uris->device, device);
	return 0;
}

static int
add_uri(struct cert_uris *uris, const unsigned char *text, size_t len, struct refusal *r)
{
	const size_t prefix = sizeof(CERT_DEVICE_PREFIX) - 1;
	char *uri;
	size_t i;

	if (uris->n == CERT_URIS_MAX || len == 0 || len > CERT_URI_MAX)
		return refusal_set(r, "cert.uris", "at most %d URIs of 1 to %d characters are read",
		    CERT_URIS_MAX, CERT_URI_MAX);
	for (i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return refusal_set(r, "cert.uris", "a URI has a character that is none");
	uri = uris->uri[uris->n++];
	memcpy(uri, text, len);
	uri[len] = '\0';
	return strncasecmp(uri, CERT_DEVICE_PREFIX, prefix) == 0 ? add_device(uris, uri + prefix, r)
								 : 0;
}

/* Take the URIs out of ${names}, which may be NULL. */
static int
read_names(const struct openssl_crypto *c, const GENERAL_NAMES *names, struct cert_uris *uris,
    struct refusal *r)
{
	const GENERAL_NAME *name;
	int i, n;

	*uris = (struct cert_uris){.n = 0};
	n = names != NULL ? c->OPENSSL_sk_num((const OPENSSL_STACK *)names) : 0;
	if (n > NAMES_MAX)
		return refusal_set(r, "cert.uris", "the certificate has over %d names", NAMES_MAX);
	for (i = 0; i < n; i++) {
		name = c->OPENSSL_sk_value((const OPENSSL_STACK *)names, i);
		if (name->type != GEN_URI)
			continue;
		if (add_uri(uris, c->ASN1_STRING_get0_data(name->d.uniformResourceIdentifier),
			(size_t)c->ASN1_STRING_length(name->d.uniformResourceIdentifier), r) == -1)
			return -1;
	}
	return 0;
}

/* Keys. */

static bool
is_known_curve(const struct openssl_crypto *c, const EVP_PKEY *key)
{
	static const char *const CURVES[] = {"prime256v1", "secp384r1", "secp521r1"};
	char name[32];
	size_t i, len;
	int spelled_out = 0;

	/* Parameters in place of the name could be those of a curve of the attacker's. */
	c->EVP_PKEY_get_int_param(
	    key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &spelled_out);
	if (spelled_out != 0 || c->EVP_PKEY_get_group_name(key, name, sizeof(name), &len) != 1)
		return false;
	for (i = 0; i < sizeof(CURVES) / sizeof(CURVES[0]); i++)
		if (strcmp(name, CURVES[i]) == 0)
			return true;
	return false;
}

int
cert_key_check(const struct openssl_crypto *c, const EVP_PKEY *key, struct refusal *r)
{
	int kind = key != NULL ? c->EVP_PKEY_get_base_id(key) : EVP_PKEY_NONE;
	int bits = key != NULL ? c->EVP_PKEY_get_bits(key) : 0;

	if (kind == EVP_PKEY_ED25519 || (kind == EVP_PKEY_EC && is_known_curve(c, key)) ||
	    (kind == EVP_PKEY_RSA && bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX))
		return 0;
	return refusal_set(r, "cert.key",
	    "keys are EC (P-256, P-384, P-521), RSA (%d to %d bits) or Ed25519", RSA_BITS_MIN,
	    RSA_BITS_MAX);
}

EVP_PKEY *
cert_key_read(const struct openssl_crypto *c, const struct cert_blob *key, struct refusal *r)
{
	const unsigned char *p = key->data;
	EVP_PKEY *pkey = NULL;

	if (key->len > 0 && key->len <= CERT_MAX)
		pkey = c->d2i_AutoPrivateKey(NULL, &p, (long)key->len);
	if (pkey == NULL || p != key->data + key->len) {
		c->EVP_PKEY_free(pkey);
		c->ERR_clear_error();
		refusal_set(r, "cert.key", "this is no private key in DER");
		return NULL;
	}
	if (cert_key_check(c, pkey, r) == -1) {
		c->EVP_PKEY_free(pkey);
		return NULL;
	}
	return pkey;
}

int
cert_take(const struct openssl_crypto *c, unsigned char *der, int len, struct cert_blob *out,
    struct refusal *r)
{
	*out = (struct cert_blob){.data = NULL};
	if (len > 0 && (out->data = malloc((size_t)len)) != NULL) {
		memcpy(out->data, der, (size_t)len);
		out->len = (size_t)len;
	}
	if (len > 0)
		c->CRYPTO_clear_free(der, (size_t)len, __FILE__, __LINE__);
	return out->data != NULL ? 0 : refusal_set(r, "cert.make", "no memory for a certificate");
}

static int
encode_key(
    const struct openssl_crypto *c, const EVP_PKEY *pkey, struct cert_blob *key, struct refusal *r)
{
	PKCS8_PRIV_KEY_INFO *info;
	unsigned char *der = NULL;
	int len, rc;

	if ((info = c->EVP_PKEY2PKCS8(pkey)) == NULL)
		return refusal_set(r, "cert.make", "no memory for a key");
	len = c->i2d_PKCS8_PRIV_KEY_INFO(info, &der);
	rc = cert_take(c, der, len, key, r);
	c->PKCS8_PRIV_KEY_INFO_free(info);
	return rc;
}

int
cert_key_make(struct cert_blob *key, struct cert_blob *public_key, struct refusal *r)
{
	const struct openssl_crypto *c;
	unsigned char *der = NULL;
	EVP_PKEY *pkey;
	int len, rc = -1;

	*key = *public_key = (struct cert_blob){.data = NULL};
	if ((c = openssl_crypto(r)) == NULL)
		return -1;
	if ((pkey = c->EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256")) == NULL)
		return refusal_set(r, "cert.make", "OpenSSL does not make a key");
	if (encode_key(c, pkey, key, r) == 0) {
		len = c->i2d_PUBKEY(pkey, &der);
		rc = cert_take(c, der, len, public_key, r);
	}
	if (rc == -1)
		cert_blob_free(key);
	c->EVP_PKEY_free(pkey);
	return rc;
}

/* Certificates. */

static int64_t
time_ms(const struct openssl_crypto *c, const ASN1_TIME *at)
{
	struct tm tm;

	return c->ASN1_TIME_to_tm(at, &tm) == 1 ? (int64_t)timegm(&tm) * 1000 : -1;
}

/* What is wrong with the form of ${x}, or NULL. */
static const char *
form_fault(const struct openssl_crypto *c, X509 *x)
{
	uint32_t flags;

	c->X509_check_purpose(x, -1, 0); /* has the flags worked out */
	flags = c->X509_get_extension_flags(x);
	if (c->X509_get_version(x) != X509_VERSION_3)
		return "the certificate is not of version 3";
	if (c->X509_get_ext_count(x) > EXTENSIONS_MAX)
		return "the certificate has too many extensions";
	if ((flags & EXFLAG_INVALID) != 0)
		return "an extension of the certificate is damaged or doubled";
	if ((flags & EXFLAG_CRITICAL) != 0)
		return "a critical extension of the certificate is not known";
	if (time_ms(c, c->X509_get0_notBefore(x)) < 0 || time_ms(c, c->X509_get0_notAfter(x)) < 0)
		return "the certificate has no valid dates";
	return NULL;
}

static int
read_x509(const struct openssl_crypto *c, X509 *x, struct cert *cert, struct refusal *r)
{
	GENERAL_NAMES *names;
	const char *fault;
	int state, rc;

	if ((fault = form_fault(c, x)) != NULL)
		return refusal_set(r, "cert.form", "%s", fault);
	if (cert_key_check(c, c->X509_get0_pubkey(x), r) == -1)
		return -1;
	cert->not_before = time_ms(c, c->X509_get0_notBefore(x));
	cert->not_after = time_ms(c, c->X509_get0_notAfter(x));
	cert->ca = (c->X509_get_extension_flags(x) & EXFLAG_CA) != 0;
	names = c->X509_get_ext_d2i(x, NID_subject_alt_name, &state, NULL);
	if (names == NULL && state != -1)
		return refusal_set(r, "cert.form", "the names of the certificate are damaged");
	rc = read_names(c, names, &cert->uris, r);
	c->GENERAL_NAMES_free(names);
	return rc;
}

int
cert_read(const void *der, size_t len, struct cert *cert, struct refusal *r)
{
	const struct openssl_crypto *c;
	const unsigned char *p = der;
	X509 *x;
	int rc;

	*cert = (struct cert){.ca = false};
	if ((c = openssl_crypto(r)) == NULL || der_check(der, len, r) == -1)
		return -1;
	if ((x = c->d2i_X509(NULL, &p, (long)len)) == NULL) {
		c->ERR_clear_error();
		return refusal_set(r, "cert.form", "this is no X.509 certificate");
	}
	rc = read_x509(c, x, cert, r);
	cert_fingerprint(der, len, cert->fp);
	c->X509_free(x);
	c->ERR_clear_error();
	return rc;
}

/* Requests. */

int
cert_name_add(const struct openssl_crypto *c, GENERAL_NAMES *names, int kind, const void *value,
    size_t len, struct refusal *r)
{
	GENERAL_NAME *name = c->GENERAL_NAME_new();
	ASN1_STRING *text =
	    c->ASN1_STRING_type_new(kind == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

	if (name == NULL || text == NULL || c->ASN1_STRING_set(text, value, (int)len) != 1) {
		c->GENERAL_NAME_free(name);
		c->ASN1_STRING_free(text);
		return refusal_set(r, "cert.make", "no memory for a name");
	}
	c->GENERAL_NAME_set0_value(name, kind, text);
	if (c->OPENSSL_sk_push((OPENSSL_STACK *)names, name) > 0)
		return 0;
	c->GENERAL_NAME_free(name);
	return refusal_set(r, "cert.make", "no memory for a name");
}

int
cert_uris_add(const struct openssl_crypto *c, GENERAL_NAMES *names, const char *const uris[],
    struct refusal *r)
{
	struct cert_uris all = {.n = 0};

	for (; uris != NULL && *uris != NULL; uris++)
		if (add_uri(&all, (const unsigned char *)*uris, strlen(*uris), r) == -1 ||
		    cert_name_add(c, names, GEN_URI, *uris, strlen(*uris), r) == -1)
			return -1;
	return 0;
}

static void
extension_free(void *extension)
{
	const struct openssl_crypto *c = openssl_crypto(NULL);

	c->X509_EXTENSION_free(extension);
}

static void
extensions_free(const struct openssl_crypto *c, STACK_OF(X509_EXTENSION) * extensions)
{
	c->OPENSSL_sk_pop_free((OPENSSL_STACK *)extensions, extension_free);
}

/* Put ${uris} into the request ${q}, as the extension that it asks for. */
static int
ask_names(const struct openssl_crypto *c, X509_REQ *q, const char *const uris[], struct refusal *r)
{
	GENERAL_NAMES *names = c->GENERAL_NAMES_new();
	STACK_OF(X509_EXTENSION) *extensions = NULL;
	int rc = -1;

	if (names == NULL)
		refusal_set(r, "cert.make", "no memory for a request");
	else if (cert_uris_add(c, names, uris, r) == 0) {
		if (c->X509V3_add1_i2d(&extensions, NID_subject_alt_name, names, 0, 0) == 1 &&
		    c->X509_REQ_add_extensions(q, extensions) == 1)
			rc = 0;
		else
			refusal_set(r, "cert.make", "no memory for a request");
	}
	extensions_free(c, extensions);
	c->GENERAL_NAMES_free(names);
	return rc;
}

int
cert_request_make(const struct cert_blob *key, const char *const uris[], struct cert_blob *request,
    struct refusal *r)
{
	const struct openssl_crypto *c;
	unsigned char *der = NULL;
	X509_REQ *q = NULL;
	EVP_PKEY *pkey;
	int len, rc = -1;

	*request = (struct cert_blob){.data = NULL};
	if ((c = openssl_crypto(r)) == NULL || (pkey = cert_key_read(c, key, r)) == NULL)
		return -1;
	if ((q = c->X509_REQ_new()) == NULL || c->X509_REQ_set_version(q, 0) != 1 ||
	    c->X509_REQ_set_pubkey(q, pkey) != 1)
		refusal_set(r, "cert.make", "no memory for a request");
	else if (uris == NULL || uris[0] == NULL || ask_names(c, q, uris, r) == 0) {
		len = c->X509_REQ_sign(q, pkey, c->EVP_sha256()) > 0 ? c->i2d_X509_REQ(q, &der) : 0;
		rc = cert_take(c, der, len, request, r);
	}
	c->X509_REQ_free(q);
	c->EVP_PKEY_free(pkey);
	return rc;
}

/* Take the URIs that ${q} asks for.  Asked twice, or for something else: refused. */
static int
read_asked(const struct openssl_crypto *c, X509_REQ *q, struct cert_uris *uris, struct refusal *r)
{
	STACK_OF(X509_EXTENSION) *extensions = c->X509_REQ_get_extensions(q);
	int n = c->OPENSSL_sk_num((OPENSSL_STACK *)extensions);
	GENERAL_NAMES *names = NULL;
	int rc;

	if (n == 1)
		names = c->X509V3_get_d2i(extensions, NID_subject_alt_name, NULL, NULL);
	if (n > 0 && names == NULL)
		rc = refusal_set(r, "cert.form", "a request asks for names and for nothing else");
	else
		rc = read_names(c, names, uris, r);
	c->GENERAL_NAMES_free(names);
	extensions_free(c, extensions);
	return rc;
}

static int
read_request(
    const struct openssl_crypto *c, X509_REQ *q, struct cert_request *request, struct refusal *r)
{
	EVP_PKEY *pkey = c->X509_REQ_get0_pubkey(q);
	unsigned char *der = NULL;
	int len;

	if (cert_key_check(c, pkey, r) == -1)
		return -1;
	if (c->X509_REQ_verify(q, pkey) != 1)
		return refusal_set(
		    r, "cert.request", "the request was not signed with the key that it names");
	if (read_asked(c, q, &request->uris, r) == -1)
		return -1;
	len = c->i2d_PUBKEY(pkey, &der);
	return cert_take(c, der, len, &request->public_key, r);
}

int
cert_request_read(const void *der, size_t len, struct cert_request *request, struct refusal *r)
{
	const struct openssl_crypto *c;
	const unsigned char *p = der;
	X509_REQ *q;
	int rc;

	*request = (struct cert_request){.uris = {.n = 0}};
	if ((c = openssl_crypto(r)) == NULL || der_check(der, len, r) == -1)
		return -1;
	if ((q = c->d2i_X509_REQ(NULL, &p, (long)len)) == NULL) {
		c->ERR_clear_error();
		return refusal_set(r, "cert.form", "this is no certificate request");
	}
	rc = read_request(c, q, request, r);
	c->X509_REQ_free(q);
	c->ERR_clear_error();
	return rc;
}

/* Other encodings. */

int
cert_from_hex(const char *hex, struct cert_blob *der)
{
	size_t len = strlen(hex);

	*der = (struct cert_blob){.data = NULL};
	if (len == 0 || len % 2 != 0 || len > 2 * CERT_MAX || (der->data = malloc(len / 2)) == NULL)
		return -1;
	if (sodium_hex2bin(der->data, len / 2, hex, len, NULL, &der->len, NULL) == 0 &&
	    der->len == len / 2)
		return 0;
	cert_blob_free(der);
	return -1;
}

/* Leave out white space at both ends of ${*text}. */
static void
trim(const char **text, size_t *len)
{
	while (*len > 0 && strchr(" \t\r\n", **text) != NULL && **text != '\0') {
		++*text;
		--*len;
	}
	while (
	    *len > 0 && (*text)[*len - 1] != '\0' && strchr(" \t\r\n", (*text)[*len - 1]) != NULL)
		--*len;
}

int
cert_from_pem(const char *text, size_t len, struct cert_blob *der, struct refusal *r)
{
	const size_t begin = sizeof(PEM_BEGIN) - 1, end = sizeof(PEM_END) - 1;
	ssize_t n;

	*der = (struct cert_blob){.data = NULL};
	trim(&text, &len);
	if (len > PEM_MAX || len < begin + end || memcmp(text, PEM_BEGIN, begin) != 0 ||
	    memcmp(text + len - end, PEM_END, end) != 0)
		return refusal_set(
		    r, "cert.form", "this is not one certificate between its BEGIN and END lines");
	text += begin;
	len -= begin + end;

	if ((der->data = malloc(len)) == NULL)
		return refusal_set(r, "cert.make", "no memory for a certificate");
	if ((n = base64_read(text, len, "\r\n", der->data, len)) > 0) {
		der->len = (size_t)n;
		return 0;
	}
	cert_blob_free(der);
	return refusal_set(r, "cert.form", "the certificate is not base64");
}

int
cert_to_pem(const void *der, size_t len, struct cert_blob *pem, struct refusal *r)
{
	char base64[2 * CERT_MAX], *p;
	size_t n, left, line;

	*pem = (struct cert_blob){.data = NULL};
	n = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
	if (len > CERT_MAX || (pem->data = malloc(n + n / PEM_LINE + 80)) == NULL)
		return refusal_set(r, "cert.make", "no memory for a certificate");
	sodium_bin2base64(base64, sizeof(base64), der, len, sodium_base64_VARIANT_ORIGINAL);
	p = stpcpy((char *)pem->data, PEM_BEGIN "\n");
	for (left = n - 1; left > 0; left -= line) {
		line = left < PEM_LINE ? left : PEM_LINE;
		p = mempcpy(p, base64 + (n - 1 - left), line);
		*p++ = '\n';
	}
	p = stpcpy(p, PEM_END "\n");
	pem->len = (size_t)(p - (char *)pem->data);
	return 0;
}
