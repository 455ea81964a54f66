/* test_ca.c: a Host's authority, what it issues, and certificates that are not to be believed. */
#include <sys/wait.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/x509v3.h>
#include <sodium.h>

#include "engine/clock.h"
#include "engine/crypto/ca.h"

#define DAY  86400000LL
#define YEAR (365 * DAY)
#define NOW  1790000000000LL /* 2026-09-21 */

static char dir[32];
static struct cert_blob ca_der, ca_key;
static struct ca *ca;
static struct refusal r;

static int
setup(void **state)
{
	(void)state;
	clock_fix(NOW);
	strcpy(dir, "/tmp/bst-ca-XXXXXX");
	if (mkdtemp(dir) == NULL || ca_make("Host one", 10 * YEAR, DAY, &ca_der, &ca_key, &r) == -1)
		return -1;
	ca = ca_load(&ca_der, &ca_key, &r);
	return ca == NULL;
}

static int
teardown(void **state)
{
	char line[64];

	(void)state;
	ca_free(ca);
	cert_blob_free(&ca_der);
	cert_blob_free(&ca_key);
	clock_fix(-1);
	random_fix(NULL);
	snprintf(line, sizeof(line), "rm -rf %s", dir);
	return system(line);
}

/* Write ${blob} to a file of ${name}. */
static void
save(const char *name, const struct cert_blob *blob)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_non_null(f = fopen(path, "we"));
	assert_int_equal(fwrite(blob->data, 1, blob->len, f), blob->len);
	assert_int_equal(fclose(f), 0);
}

static void
save_pem(const char *name, const struct cert_blob *der)
{
	struct cert_blob pem;

	assert_int_equal(cert_to_pem(der->data, der->len, &pem, &r), 0);
	save(name, &pem);
	cert_blob_free(&pem);
}

/* Run ${command} in the directory; its output is in ${out}. */
static int
shell(const char *command, char *out, size_t size)
{
	char line[1024];
	size_t n;
	FILE *p;

	snprintf(line, sizeof(line), "cd %s && { %s; } 2>&1", dir, command);
	assert_non_null(p = popen(line, "re"));
	n = fread(out, 1, size - 1, p);
	out[n] = '\0';
	return WEXITSTATUS(pclose(p));
}

static const char *const HOSTS[] = {"host.bastion.internal", "192.0.2.7", "2001:db8::7", NULL};
static const char *const DEVICE[] = {CERT_DEVICE_PREFIX "ab12", NULL};

/* Issue to a new key; ${key} may be NULL. */
static int
issue(const struct ca_order *order, struct cert_blob *cert, struct cert_blob *key)
{
	struct ca_order o = *order;
	struct cert_blob own, public_key;
	int rc;

	assert_int_equal(cert_key_make(&own, &public_key, &r), 0);
	o.public_key = public_key.data;
	o.public_key_len = public_key.len;
	rc = ca_issue(ca, &o, cert, &r);
	cert_blob_free(&public_key);
	if (key != NULL)
		*key = own;
	else
		cert_blob_free(&own);
	return rc;
}

static const struct ca_order server = {
    .use = CA_SERVER, .subject = "host one", .names = HOSTS, .valid_ms = 90 * DAY, .early_ms = DAY};
static const struct ca_order client = {
    .use = CA_CLIENT, .subject = "box one", .uris = DEVICE, .valid_ms = 90 * DAY, .early_ms = DAY};

/* PAIR-1: what a pairing code pins is the SHA-256 that everybody else computes. */
static void
fingerprint_is_that_of_openssl(void **state)
{
	char out[4096], hex[65];

	(void)state;
	save("ca.der", &ca_der);
	assert_int_equal(shell("sha256sum ca.der", out, sizeof(out)), 0);
	sodium_bin2hex(hex, sizeof(hex), ca_cert(ca)->fp, CERT_FP_SIZE);
	assert_memory_equal(out, hex, 64);
	assert_true(ca_cert(ca)->ca);
	assert_int_equal(ca_cert(ca)->not_before, NOW - DAY);
	assert_int_equal(ca_cert(ca)->not_after, NOW + 10 * YEAR);
}

static void
authority_is_for_leaves_alone(void **state)
{
	char out[8192];

	(void)state;
	save("ca.der", &ca_der);
	assert_int_equal(
	    shell("openssl x509 -inform DER -in ca.der -noout -text", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "CA:TRUE, pathlen:0"));
	assert_non_null(strstr(out, "Certificate Sign, CRL Sign"));
	assert_non_null(strstr(out, "ecdsa-with-SHA256"));
	assert_non_null(strstr(out, "prime256v1"));
	assert_non_null(strstr(out, "O = bastion, CN = Host one"));
}

/* Everything holds for OpenSSL at its strictest, for the purpose asked and for no other. */
static void
leaves_verify_for_their_purpose_alone(void **state)
{
	struct cert_blob s, c;
	char out[4096];

	(void)state;
	assert_int_equal(issue(&server, &s, NULL), 0);
	assert_int_equal(issue(&client, &c, NULL), 0);
	save_pem("ca.pem", &ca_der);
	save_pem("s.pem", &s);
	save_pem("c.pem", &c);
#define VERIFY \
	"openssl verify -x509_strict -attime 1790000000 -no-CAfile -no-CApath -trusted ca.pem "
	assert_int_equal(
	    shell(VERIFY "-purpose sslserver -verify_hostname host.bastion.internal s.pem", out,
		sizeof(out)),
	    0);
	assert_int_equal(
	    shell(VERIFY "-purpose sslserver -verify_ip 192.0.2.7 s.pem", out, sizeof(out)), 0);
	assert_int_equal(
	    shell(VERIFY "-purpose sslserver -verify_ip 2001:db8::7 s.pem", out, sizeof(out)), 0);
	assert_int_not_equal(
	    shell(VERIFY "-purpose sslserver -verify_hostname bastion.internal s.pem", out,
		sizeof(out)),
	    0);
	assert_int_equal(shell(VERIFY "-purpose sslclient c.pem", out, sizeof(out)), 0);
	assert_int_not_equal(shell(VERIFY "-purpose sslserver c.pem", out, sizeof(out)), 0);
	assert_int_not_equal(shell(VERIFY "-purpose sslclient s.pem", out, sizeof(out)), 0);
	cert_blob_free(&s);
	cert_blob_free(&c);
}

/* FP-1: a device has one name in a certificate. */
static void
client_carries_its_device(void **state)
{
	struct cert_blob c;
	struct cert cert;

	(void)state;
	assert_int_equal(issue(&client, &c, NULL), 0);
	assert_int_equal(cert_read(c.data, c.len, &cert, &r), 0);
	assert_string_equal(cert.uris.device, "ab12");
	assert_int_equal(cert.uris.n, 1);
	assert_string_equal(cert.uris.uri[0], CERT_DEVICE_PREFIX "ab12");
	assert_false(cert.ca);
	assert_int_equal(cert.not_after, NOW + 90 * DAY);
	cert_blob_free(&c);
}

/* FP-3, DEV-5: one device under several names is one; two devices are refused. */
static void
two_devices_are_refused(void **state)
{
	static const char *const same[] = {
	    CERT_DEVICE_PREFIX "ab12", "urn:other:ab12", "URN:BASTION:DEVICE:ab12", NULL};
	static const char *const two[] = {
	    CERT_DEVICE_PREFIX "ab12", CERT_DEVICE_PREFIX "ab13", NULL};
	static const char *const odd[] = {CERT_DEVICE_PREFIX "ab%12", NULL};
	static const char *const none[] = {CERT_DEVICE_PREFIX, NULL};
	struct ca_order order = client;
	struct cert_blob c;
	struct cert cert;

	(void)state;
	order.uris = same;
	assert_int_equal(issue(&order, &c, NULL), 0);
	assert_int_equal(cert_read(c.data, c.len, &cert, &r), 0);
	assert_string_equal(cert.uris.device, "ab12");
	assert_int_equal(cert.uris.n, 3);
	cert_blob_free(&c);
	order.uris = two;
	assert_int_equal(issue(&order, &c, NULL), -1);
	assert_string_equal(r.code, "cert.device");
	order.uris = odd;
	assert_int_equal(issue(&order, &c, NULL), -1);
	assert_string_equal(r.code, "cert.device");
	order.uris = none;
	assert_int_equal(issue(&order, &c, NULL), -1);
	assert_string_equal(r.code, "cert.device");
}

static void
impossible_orders_are_refused(void **state)
{
	static const struct {
		const char *name;
	} bad[] = {{"a b"}, {"*.example.org"}, {"-a"}, {"a-"}, {"a..b"}, {".a"}, {"a."}, {""},
	    {"a_b"}, {"a\nb"}, {"a,DNS:b"}, {"192.0.2.1/24"}, {"fe80::1%lo"}, {"\xc3\xa9"}};
	const char *names[] = {NULL, NULL};
	char long_label[80], long_name[300];
	struct ca_order order = server;
	struct cert_blob c;
	size_t i;

	(void)state;
	order.names = names;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		names[0] = bad[i].name;
		assert_int_equal(issue(&order, &c, NULL), -1);
		assert_string_equal(r.code, "ca.order");
		assert_null(c.data);
	}
	memset(long_label, 'a', 64);
	strcpy(long_label + 64, ".b");
	memset(long_name, 'a', sizeof(long_name));
	for (i = 1; i < sizeof(long_name); i += 2)
		long_name[i] = '.';
	long_name[255] = '\0';
	names[0] = long_label;
	assert_int_equal(issue(&order, &c, NULL), -1);
	names[0] = long_name;
	assert_int_equal(issue(&order, &c, NULL), -1);

	order = server;
	order.names = NULL;
	assert_int_equal(issue(&order, &c, NULL), -1);
	order = client;
	order.names = HOSTS;
	assert_int_equal(issue(&order, &c, NULL), -1);
	order = client;
	order.subject = "a\nb";
	assert_int_equal(issue(&order, &c, NULL), -1);
	order.subject = "";
	assert_int_equal(issue(&order, &c, NULL), -1);
	order = client;
	order.valid_ms = 0;
	assert_int_equal(issue(&order, &c, NULL), -1);
	order.valid_ms = INT64_MAX;
	assert_int_equal(issue(&order, &c, NULL), -1);
	order = client;
	order.public_key = (const uint8_t *)"junk";
	order.public_key_len = 4;
	assert_int_equal(ca_issue(ca, &order, &c, &r), -1);
	assert_string_equal(r.code, "cert.key");
	assert_int_equal(ca_make("", YEAR, 0, &c, &c, &r), -1);
	assert_int_equal(ca_make("x", 0, 0, &c, &c, &r), -1);
}

static void
leaves_do_not_outlive_their_authority(void **state)
{
	struct ca_order order = client;
	struct cert_blob c;
	struct cert cert;

	(void)state;
	order.valid_ms = 50 * YEAR;
	order.early_ms = YEAR;
	assert_int_equal(issue(&order, &c, NULL), 0);
	assert_int_equal(cert_read(c.data, c.len, &cert, &r), 0);
	assert_int_equal(cert.not_after, NOW + 10 * YEAR);
	assert_int_equal(cert.not_before, NOW - DAY);
	cert_blob_free(&c);
	clock_fix(NOW + 11 * YEAR);
	assert_int_equal(issue(&order, &c, NULL), -1);
	assert_string_equal(r.code, "ca.expired");
}

static void
ones(void *buf, size_t len)
{
	memset(buf, 0xff, len);
}

static void
zeros(void *buf, size_t len)
{
	memset(buf, 0, len);
}

/* RFC 5280 §4.1.2.2: serial numbers are positive, not over 20 bytes, and do not repeat. */
static void
serials_are_positive_and_random(void **state)
{
	void (*const sources[])(void *, size_t) = {ones, zeros, NULL, NULL};
	char last[128] = "", out[128];
	struct cert_blob c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		random_fix(sources[i]);
		assert_int_equal(issue(&client, &c, NULL), 0);
		save("c.der", &c);
		cert_blob_free(&c);
		assert_int_equal(
		    shell("openssl x509 -inform DER -in c.der -noout -serial", out, sizeof(out)),
		    0);
		assert_int_equal(strlen(out), strlen("serial=\n") + 32);
		assert_true(out[7] >= '4' && out[7] <= '7');
		assert_string_not_equal(out, last);
		strcpy(last, out);
	}
}

static void
only_an_authority_loads_with_its_key(void **state)
{
	struct cert_blob c, key, other, other_key;

	(void)state;
	assert_int_equal(issue(&client, &c, &key), 0);
	assert_null(ca_load(&c, &key, &r));
	assert_string_equal(r.code, "ca.order");
	assert_int_equal(ca_make("Host two", YEAR, 0, &other, &other_key, &r), 0);
	assert_null(ca_load(&ca_der, &other_key, &r));
	assert_string_equal(r.code, "ca.order");
	assert_null(ca_load(&ca_der, &c, &r));
	assert_string_equal(r.code, "cert.key");
	assert_null(ca_load(&ca_key, &ca_key, &r));
	assert_string_equal(r.code, "cert.form");
	cert_blob_free(&c);
	cert_blob_free(&key);
	cert_blob_free(&other);
	cert_blob_free(&other_key);
}

/* A key can be used by everybody who reads PKCS#8. */
static void
keys_are_pkcs8(void **state)
{
	struct cert_blob key, public_key;
	char out[4096];

	(void)state;
	assert_int_equal(cert_key_make(&key, &public_key, &r), 0);
	save("k.der", &key);
	save("p.der", &public_key);
	assert_int_equal(
	    shell("openssl pkey -inform DER -in k.der -pubout -outform DER | cmp - p.der"
		  " && openssl asn1parse -inform DER -in k.der",
		out, sizeof(out)),
	    0);
	assert_non_null(strstr(out, "prim: INTEGER           :00"));
	assert_non_null(strstr(out, "id-ecPublicKey"));
	cert_blob_free(&public_key);
	cert_blob_free(&key);
}

/* Requests. */

static void
request_says_who_asks(void **state)
{
	struct cert_blob key, public_key, der;
	struct cert_request q;
	struct ca_order order = client;
	struct cert_blob c;
	char out[4096];

	(void)state;
	assert_int_equal(cert_key_make(&key, &public_key, &r), 0);
	assert_int_equal(cert_request_make(&key, DEVICE, &der, &r), 0);
	save("q.der", &der);
	assert_int_equal(
	    shell("openssl req -inform DER -in q.der -noout -verify -text", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "URI:" CERT_DEVICE_PREFIX "ab12"));
	assert_int_equal(cert_request_read(der.data, der.len, &q, &r), 0);
	assert_string_equal(q.uris.device, "ab12");
	assert_int_equal(q.public_key.len, public_key.len);
	assert_memory_equal(q.public_key.data, public_key.data, public_key.len);
	order.public_key = q.public_key.data;
	order.public_key_len = q.public_key.len;
	assert_int_equal(ca_issue(ca, &order, &c, &r), 0);
	cert_blob_free(&c);
	cert_blob_free(&q.public_key);
	cert_blob_free(&der);

	assert_int_equal(cert_request_make(&key, NULL, &der, &r), 0);
	assert_int_equal(cert_request_read(der.data, der.len, &q, &r), 0);
	assert_int_equal(q.uris.n, 0);
	cert_blob_free(&q.public_key);
	cert_blob_free(&der);
	cert_blob_free(&key);
	cert_blob_free(&public_key);
}

/* Nobody asks for another's key: each bit counts. */
static void
altered_request_is_refused(void **state)
{
	struct cert_blob key, public_key, der;
	struct cert_request q;
	size_t i, bit;

	(void)state;
	assert_int_equal(cert_key_make(&key, &public_key, &r), 0);
	assert_int_equal(cert_request_make(&key, DEVICE, &der, &r), 0);
	for (i = 0; i < der.len; i++) {
		bit = 1U << (i % 8);
		der.data[i] ^= (uint8_t)bit;
		assert_int_equal(cert_request_read(der.data, der.len, &q, &r), -1);
		assert_null(q.public_key.data);
		der.data[i] ^= (uint8_t)bit;
	}
	cert_blob_free(&der);
	cert_blob_free(&key);
	cert_blob_free(&public_key);
}

static void
foreign_requests_are_bounded(void **state)
{
	static const struct {
		const char *command, *code;
	} asks[] = {
	    {"openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout k"
	     " -outform DER -out q",
		NULL},
	    {"openssl req -new -newkey rsa:1024 -nodes -subj /CN=x -keyout k -outform DER -out q",
		"cert.key"},
	    {"openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:secp256k1 -nodes -subj /CN=x"
	     " -keyout k -outform DER -out q",
		"cert.key"},
	    {"openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout k"
	     " -addext basicConstraints=CA:TRUE -outform DER -out q",
		"cert.form"},
	    {"openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout k"
	     " -addext subjectAltName=URI:" CERT_DEVICE_PREFIX "a,URI:" CERT_DEVICE_PREFIX
	     "b -outform DER -out q",
		"cert.device"},
	    {"openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout k"
	     " -addext subjectAltName=URI:a:1,URI:a:2,URI:a:3,URI:a:4,URI:a:5 -outform DER -out q",
		"cert.uris"},
	};
	unsigned char der[CERT_MAX];
	char out[4096], path[64];
	struct cert_request q;
	size_t i, len;
	FILE *f;
	int rc;

	(void)state;
	for (i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		assert_int_equal(shell(asks[i].command, out, sizeof(out)), 0);
		snprintf(path, sizeof(path), "%s/q", dir);
		assert_non_null(f = fopen(path, "re"));
		len = fread(der, 1, sizeof(der), f);
		fclose(f);
		rc = cert_request_read(der, len, &q, &r);
		assert_int_equal(rc, asks[i].code == NULL ? 0 : -1);
		if (rc == -1)
			assert_string_equal(r.code, asks[i].code);
		cert_blob_free(&q.public_key);
	}
}

/* Reading. */

static void
nothing_but_one_certificate_is_read(void **state)
{
	struct cert_blob c;
	uint8_t big[CERT_MAX + 1] = {0x30, 0x82, 0x1f, 0xfd};
	struct cert cert;
	size_t i;

	(void)state;
	assert_int_equal(issue(&client, &c, NULL), 0);
	c.data = realloc(c.data, c.len + 1);
	c.data[c.len] = 0;
	assert_int_equal(cert_read(c.data, c.len + 1, &cert, &r), -1);
	assert_string_equal(r.code, "cert.form");
	for (i = 0; i < c.len; i++)
		assert_int_equal(cert_read(c.data, i, &cert, &r), -1);
	assert_int_equal(cert_read(big, sizeof(big), &cert, &r), -1);
	assert_int_equal(cert_read(big, CERT_MAX, &cert, &r), -1);
	assert_int_equal(cert_read("", 0, &cert, &r), -1);
	cert_blob_free(&c);
}

/* BER has many spellings of one value, DER has one: others would have other fingerprints. */
static void
looser_encodings_are_refused(void **state)
{
	static const struct {
		uint8_t bytes[12];
		size_t len;
	} bad[] = {
	    {{0x30, 0x80, 0x00, 0x00}, 4},             /* indefinite length */
	    {{0x30, 0x81, 0x01, 0x05}, 4},             /* length too long */
	    {{0x30, 0x82, 0x00, 0x02, 0x05, 0x00}, 6}, /* again */
	    {{0x30, 0x03, 0x01, 0x01, 0x01}, 5},       /* TRUE is 0xff */
	    {{0x30, 0x04, 0x02, 0x02, 0x00, 0x01}, 6}, /* integer too long */
	    {{0x30, 0x04, 0x02, 0x02, 0xff, 0x81}, 6},
	    {{0x30, 0x02, 0x02, 0x00}, 4},             /* empty integer */
	    {{0x30, 0x03, 0x1f, 0x81, 0x00}, 5},       /* high tag */
	    {{0x10, 0x00}, 2},                         /* primitive sequence */
	    {{0x30, 0x04, 0x24, 0x02, 0x04, 0x00}, 6}, /* string in parts */
	    {{0x30, 0x05, 0x02, 0x01, 0x01}, 5},       /* beyond the end */
	};
	struct cert cert;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(cert_read(bad[i].bytes, bad[i].len, &cert, &r), -1);
		assert_string_equal(r.code, "cert.form");
		assert_string_equal(r.why, "this is not one value in DER");
	}
}

/* Certificates of other makers: ${options} go to openssl req -x509. */
static void
foreign_certificates_are_bounded(void **state)
{
	static const struct {
		const char *options, *code;
	} makes[] = {
	    {"-newkey ec -pkeyopt ec_paramgen_curve:P-256", NULL},
	    {"-newkey ec -pkeyopt ec_paramgen_curve:P-384", NULL},
	    {"-newkey rsa:2048", NULL},
	    {"-newkey ed25519", NULL},
	    {"-newkey rsa:1024", "cert.key"},
	    {"-newkey ed448", "cert.key"},
	    {"-newkey ec -pkeyopt ec_paramgen_curve:secp256k1", "cert.key"},
	    {"-newkey ec -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit",
		"cert.key"},
	    {"-newkey ed25519 -addext 1.2.3.4=critical,DER:0500", "cert.form"},
	    {"-newkey ed25519 -addext 1.2.3.4=DER:0500", NULL},
	    {"-newkey ed25519 -addext subjectAltName=DER:0500", "cert.form"},
	    {"-newkey ed25519 -addext keyUsage=DER:04020101", "cert.form"},
	    {"-newkey ed25519 -addext subjectAltName=DER:3009860775726e3a61006263", "cert.uris"},
	    {"-newkey ed25519 -addext subjectAltName=DER:3009860775726e3a61206263", "cert.uris"},
	    {"-newkey ed25519 -addext subjectAltName=DER:3009860775726e3a610a6263", "cert.uris"},
	    {"-newkey ed25519 -addext subjectAltName=DER:30028600", "cert.uris"},
	    {"-newkey ed25519 -addext subjectAltName=email:a@b,DNS:c,IP:192.0.2.1,URI:d:e", NULL},
	};
	char command[512], out[4096], path[64];
	uint8_t der[CERT_MAX];
	struct cert cert;
	size_t i, len;
	FILE *f;
	int rc;

	(void)state;
	snprintf(path, sizeof(path), "%s/x", dir);
	for (i = 0; i < sizeof(makes) / sizeof(makes[0]); i++) {
		snprintf(command, sizeof(command),
		    "openssl req -x509 -nodes -subj /CN=x -keyout k -outform DER -out x %s",
		    makes[i].options);
		if (shell(command, out, sizeof(out)) != 0)
			fail_msg("%s: %s", makes[i].options, out);
		assert_non_null(f = fopen(path, "re"));
		len = fread(der, 1, sizeof(der), f);
		fclose(f);
		rc = cert_read(der, len, &cert, &r);
		if (rc == -1 && makes[i].code != NULL)
			assert_string_equal(r.code, makes[i].code);
		if (rc != (makes[i].code == NULL ? 0 : -1))
			fail_msg("%s: %d %s", makes[i].options, rc, rc ? r.why : "");
	}
}

static void
pem_is_one_certificate(void **state)
{
	struct cert_blob pem, der;
	char text[4 * CERT_MAX];
	size_t n;

	(void)state;
	assert_int_equal(cert_to_pem(ca_der.data, ca_der.len, &pem, &r), 0);
	assert_int_equal(cert_from_pem((char *)pem.data, pem.len, &der, &r), 0);
	assert_int_equal(der.len, ca_der.len);
	assert_memory_equal(der.data, ca_der.data, der.len);
	cert_blob_free(&der);

	/* Line ends of another system, and space around it. */
	n = (size_t)snprintf(text, sizeof(text), " \r\n%s\t\n", (char *)pem.data);
	assert_int_equal(cert_from_pem(text, n, &der, &r), 0);
	cert_blob_free(&der);

	n = (size_t)snprintf(text, sizeof(text), "%s%s", (char *)pem.data, (char *)pem.data);
	assert_int_equal(cert_from_pem(text, n, &der, &r), -1);
	n = (size_t)snprintf(text, sizeof(text), "x%s", (char *)pem.data);
	assert_int_equal(cert_from_pem(text, n, &der, &r), -1);
	n = (size_t)snprintf(text, sizeof(text), "%s", (char *)pem.data);
	assert_int_equal(cert_from_pem(text, n - 3, &der, &r), -1);
	text[40] = (char)0xaf;
	assert_int_equal(cert_from_pem(text, n, &der, &r), -1);
	text[40] = '\0';
	assert_int_equal(cert_from_pem(text, n, &der, &r), -1);
	text[40] = '*';
	assert_int_equal(cert_from_pem(text, n, &der, &r), -1);
	assert_string_equal(r.code, "cert.form");
	n = (size_t)snprintf(
	    text, sizeof(text), "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
	assert_int_equal(cert_from_pem(text, n, &der, &r), -1);
	assert_null(der.data);
	cert_blob_free(&pem);
}

/* Every flipped bit makes another certificate; none is a fault of memory. */
static void
flipped_bits_never_keep_the_fingerprint(void **state)
{
	struct cert cert;
	size_t i;

	(void)state;
	for (i = 0; i < ca_der.len * 8; i++) {
		ca_der.data[i / 8] ^= (uint8_t)(1U << (i % 8));
		if (cert_read(ca_der.data, ca_der.len, &cert, &r) == 0)
			assert_memory_not_equal(cert.fp, ca_cert(ca)->fp, CERT_FP_SIZE);
		ca_der.data[i / 8] ^= (uint8_t)(1U << (i % 8));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(fingerprint_is_that_of_openssl, setup, teardown),
	    cmocka_unit_test_setup_teardown(authority_is_for_leaves_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(leaves_verify_for_their_purpose_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(client_carries_its_device, setup, teardown),
	    cmocka_unit_test_setup_teardown(two_devices_are_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(impossible_orders_are_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(leaves_do_not_outlive_their_authority, setup, teardown),
	    cmocka_unit_test_setup_teardown(serials_are_positive_and_random, setup, teardown),
	    cmocka_unit_test_setup_teardown(only_an_authority_loads_with_its_key, setup, teardown),
	    cmocka_unit_test_setup_teardown(keys_are_pkcs8, setup, teardown),
	    cmocka_unit_test_setup_teardown(request_says_who_asks, setup, teardown),
	    cmocka_unit_test_setup_teardown(altered_request_is_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(foreign_requests_are_bounded, setup, teardown),
	    cmocka_unit_test_setup_teardown(nothing_but_one_certificate_is_read, setup, teardown),
	    cmocka_unit_test_setup_teardown(looser_encodings_are_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(foreign_certificates_are_bounded, setup, teardown),
	    cmocka_unit_test_setup_teardown(pem_is_one_certificate, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		flipped_bits_never_keep_the_fingerprint, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
