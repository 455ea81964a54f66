/*
 * fuzz_cert.c: no bytes from outside may crash the readers of certificates, requests and PEM, and
 * what is read holds its promises.
 *
 * The first byte chooses: 0 a certificate, 1 a request, 2 PEM.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/cert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_uris(const struct cert_uris *uris)
{
	unsigned i;
	size_t j;

	if (uris->n > CERT_URIS_MAX || strlen(uris->device) > CERT_DEVICE_MAX)
		abort();
	for (i = 0; i < uris->n; i++) {
		if (uris->uri[i][0] == '\0' || strlen(uris->uri[i]) > CERT_URI_MAX)
			abort();
		for (j = 0; uris->uri[i][j] != '\0'; j++)
			if (uris->uri[i][j] <= ' ' || uris->uri[i][j] > '~')
				abort();
	}
}

static void
check_refusal(const struct refusal *r)
{
	if (strncmp(r->code, "cert.", 5) != 0 || r->why[0] == '\0')
		abort();
}

static void
try_cert(const uint8_t *der, size_t len)
{
	struct refusal r = {.code = ""};
	struct cert_blob pem, again;
	struct cert cert;

	if (cert_read(der, len, &cert, &r) == -1) {
		check_refusal(&r);
		return;
	}
	check_uris(&cert.uris);
	if (cert_to_pem(der, len, &pem, &r) == -1 ||
	    cert_from_pem((const char *)pem.data, pem.len, &again, &r) == -1 || again.len != len ||
	    memcmp(again.data, der, len) != 0)
		abort();
	cert_blob_free(&pem);
	cert_blob_free(&again);
}

static void
try_request(const uint8_t *der, size_t len)
{
	struct refusal r = {.code = ""};
	struct cert_request request;

	if (cert_request_read(der, len, &request, &r) == -1) {
		check_refusal(&r);
		if (request.public_key.data != NULL)
			abort();
		return;
	}
	check_uris(&request.uris);
	if (request.public_key.len == 0)
		abort();
	cert_blob_free(&request.public_key);
}

static void
try_pem(const uint8_t *text, size_t len)
{
	struct refusal r = {.code = ""};
	struct cert_blob der;

	if (cert_from_pem((const char *)text, len, &der, &r) == -1) {
		check_refusal(&r);
		return;
	}
	try_cert(der.data, der.len);
	cert_blob_free(&der);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 3 == 0)
		try_cert(data + 1, size - 1);
	else if (data[0] % 3 == 1)
		try_request(data + 1, size - 1);
	else
		try_pem(data + 1, size - 1);
	return 0;
}
