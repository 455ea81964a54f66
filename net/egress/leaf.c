/* leaf.c: make an authority once, and a certificate where one is asked for. */
#include <sys/queue.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crypto/ca.h"
#include "engine/endpoint.h"
#include "net/egress/leaf.h"

#define NAME    "bastion inspection"
#define HOUR_MS INT64_C(3600000)
#define LEAF_MS (24 * HOUR_MS)

struct leaf {
	char name[ENDPOINT_TEXT_MAX + 1];
	struct tls_end *end;
	int64_t ends; /* ms UTC */
	size_t held;
	bool kept;
	TAILQ_ENTRY(leaf) entry;
};

TAILQ_HEAD(leaf_list, leaf);

struct leaves {
	struct ca *ca;
	struct cert_blob cert, pem;
	int64_t ends;
	size_t n, most;
	struct leaf_list list; /* whoever was asked for last stands first */
};

static void
leaf_free(struct leaf *leaf)
{
	tls_end_free(leaf->end);
	free(leaf);
}

/* Whoever holds it goes on with it. */
static void
leaf_forget(struct leaves *leaves, struct leaf *leaf)
{
	TAILQ_REMOVE(&leaves->list, leaf, entry);
	leaves->n--;
	leaf->kept = false;
	if (leaf->held == 0)
		leaf_free(leaf);
}

struct leaves *
leaves_new(int64_t valid_ms, size_t most, struct refusal *r)
{
	struct leaves *leaves = calloc(1, sizeof(*leaves));
	struct cert_blob key = {.data = NULL};

	if (leaves == NULL) {
		refusal_set(r, "http.memory", "there is no memory for an authority");
		return NULL;
	}
	TAILQ_INIT(&leaves->list);
	leaves->most = most;
	if (ca_make(NAME, valid_ms, HOUR_MS, &leaves->cert, &key, r) == 0 &&
	    (leaves->ca = ca_load(&leaves->cert, &key, r)) != NULL &&
	    cert_to_pem(leaves->cert.data, leaves->cert.len, &leaves->pem, r) == 0) {
		leaves->ends = ca_cert(leaves->ca)->not_after;
		cert_blob_free(&key);
		return leaves;
	}
	cert_blob_free(&key);
	leaves_free(leaves);
	return NULL;
}

void
leaves_free(struct leaves *leaves)
{
	if (leaves == NULL)
		return;
	while (!TAILQ_EMPTY(&leaves->list))
		leaf_forget(leaves, TAILQ_FIRST(&leaves->list));
	ca_free(leaves->ca);
	cert_blob_free(&leaves->cert);
	cert_blob_free(&leaves->pem);
	free(leaves);
}

const char *
leaves_pem(const struct leaves *leaves)
{
	return (const char *)leaves->pem.data;
}

int64_t
leaves_ends(const struct leaves *leaves)
{
	return leaves->ends;
}

size_t
leaves_count(const struct leaves *leaves)
{
	return leaves->n;
}

static int
leaf_issue(struct leaves *leaves, struct leaf *leaf, struct refusal *r)
{
	const char *const names[] = {leaf->name, NULL};
	struct cert_blob key, public, cert = {.data = NULL};
	struct tls_config config = {.cert = &cert, .key = &key, .issuer = &leaves->cert};
	struct ca_order order = {.use = CA_SERVER,
	    .subject = strlen(leaf->name) <= CA_NAME_MAX ? leaf->name : NAME,
	    .names = names,
	    .valid_ms = LEAF_MS,
	    .early_ms = HOUR_MS};

	if (cert_key_make(&key, &public, r) != 0)
		return -1;
	order.public_key = public.data;
	order.public_key_len = public.len;
	if (ca_issue(leaves->ca, &order, &cert, r) == 0)
		leaf->end = tls_server_end(&config, r);
	leaf->ends = clock_now() + LEAF_MS;
	cert_blob_free(&key);
	cert_blob_free(&public);
	cert_blob_free(&cert);
	return leaf->end != NULL ? 0 : -1;
}

static struct leaf *
leaf_make(struct leaves *leaves, const char *name, struct refusal *r)
{
	struct leaf *leaf = calloc(1, sizeof(*leaf));

	if (leaf == NULL) {
		refusal_set(r, "http.memory", "there is no memory for a certificate");
		return NULL;
	}
	strncpy(leaf->name, name, sizeof(leaf->name) - 1);
	if (leaf_issue(leaves, leaf, r) != 0) {
		leaf_free(leaf);
		return NULL;
	}
	if (leaves->n >= leaves->most)
		leaf_forget(leaves, TAILQ_LAST(&leaves->list, leaf_list));
	TAILQ_INSERT_HEAD(&leaves->list, leaf, entry);
	leaf->kept = true;
	leaves->n++;
	return leaf;
}

static struct leaf *
leaf_find(struct leaves *leaves, const char *name)
{
	struct leaf *leaf;

	TAILQ_FOREACH(leaf, &leaves->list, entry)
	if (strcmp(leaf->name, name) == 0)
		return leaf;
	return NULL;
}

struct leaf *
leaf_take(struct leaves *leaves, const char *name, struct refusal *r)
{
	struct leaf *leaf = leaf_find(leaves, name);

	/* An hour before its end it is none any more for a connection that begins. */
	if (leaf != NULL && leaf->ends - clock_now() < HOUR_MS) {
		leaf_forget(leaves, leaf);
		leaf = NULL;
	}
	if (leaf == NULL && (leaf = leaf_make(leaves, name, r)) == NULL)
		return NULL;
	TAILQ_REMOVE(&leaves->list, leaf, entry);
	TAILQ_INSERT_HEAD(&leaves->list, leaf, entry);
	leaf->held++;
	return leaf;
}

struct tls_end *
leaf_end(const struct leaf *leaf)
{
	return leaf->end;
}

void
leaf_put(struct leaf *leaf)
{
	if (--leaf->held == 0 && !leaf->kept)
		leaf_free(leaf);
}
