/* authority.c: certificates for tests. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/clock.h"
#include "tests/authority.h"

void
authority_make(struct authority *a, const char *name)
{
	struct refusal r;

	assert_int_equal(
	    ca_make(name, 365 * AUTHORITY_DAY, 100 * AUTHORITY_DAY, &a->cert, &a->key, &r), 0);
	assert_non_null(a->ca = ca_load(&a->cert, &a->key, &r));
}

void
authority_drop(struct authority *a)
{
	ca_free(a->ca);
	cert_blob_free(&a->cert);
	cert_blob_free(&a->key);
	a->ca = NULL;
}

/* Let ${order} be of a new key, valid as asked: for what is over, the clock is turned back. */
static void
issue(const struct authority *a, struct identity *id, struct ca_order *order, int64_t from_ms,
    int64_t until_ms)
{
	int64_t now = clock_now();
	struct cert_blob public_key;
	struct refusal r;

	assert_int_equal(cert_key_make(&id->key, &public_key, &r), 0);
	order->public_key = public_key.data;
	order->public_key_len = public_key.len;
	order->valid_ms = until_ms - from_ms;
	clock_fix(now + from_ms);
	assert_int_equal(ca_issue(a->ca, order, &id->cert, &r), 0);
	clock_fix(-1);
	cert_blob_free(&public_key);
}

void
authority_server(const struct authority *a, struct identity *id, const char *host, int64_t from_ms,
    int64_t until_ms)
{
	const char *const names[] = {host, "127.0.0.1", NULL};
	struct ca_order order = {.use = CA_SERVER, .subject = "a server", .names = names};

	issue(a, id, &order, from_ms, until_ms);
}

void
authority_client(const struct authority *a, struct identity *id, const char *device,
    int64_t from_ms, int64_t until_ms)
{
	struct ca_order order = {.use = CA_CLIENT, .subject = "a client"};
	char uri[CERT_URI_MAX + 1];
	const char *const uris[] = {uri, NULL};

	assert_int_equal(cert_device_uri(device, uri), 0);
	order.uris = uris;
	issue(a, id, &order, from_ms, until_ms);
}

void
identity_drop(struct identity *id)
{
	cert_blob_free(&id->cert);
	cert_blob_free(&id->key);
}

static void
save(const char *dir, const char *name, const char *suffix, const struct cert_blob *blob)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.%s", dir, name, suffix);
	assert_non_null(f = fopen(path, "we"));
	assert_int_equal(fwrite(blob->data, 1, blob->len, f), blob->len);
	assert_int_equal(fclose(f), 0);
}

static void
save_cert(const char *dir, const char *name, const struct cert_blob *der)
{
	struct cert_blob pem;
	struct refusal r;

	assert_int_equal(cert_to_pem(der->data, der->len, &pem, &r), 0);
	save(dir, name, "crt", &pem);
	cert_blob_free(&pem);
}

void
identity_save(const struct identity *id, const char *dir, const char *name)
{
	save_cert(dir, name, &id->cert);
	save(dir, name, "key", &id->key);
}

void
authority_save(const struct authority *a, const char *dir, const char *name)
{
	save_cert(dir, name, &a->cert);
}

int
tcp_listen(int *port)
{
	struct sockaddr_in sin = {
	    .sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, SOMAXCONN), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	*port = ntohs(sin.sin_port);
	return fd;
}

int
tcp_dial(int port, unsigned from)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
	    .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
	    .sin_port = htons((uint16_t)port)};
	struct sockaddr_in ours = {
	    .sin_family = AF_INET, .sin_addr = {.s_addr = htonl(0x7f000000U | from)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1 || (from != 0 && bind(fd, (struct sockaddr *)&ours, sizeof(ours)) == -1) ||
	    connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == -1) {
		close(fd);
		return -1;
	}
	return fd;
}
