/* enroll_form.c: the body of an enrollment, taken apart. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "net/host/enroll_client.h"
#include "net/host/enroll_form.h"

/* Which form it is: 1 on a socket, 2 from a box that dials, 3 from one that listens; 0: none. */
static const char FORM[] =
    "SELECT CASE"
    " WHEN json_type(:body) <> 'object' OR json_type(:body, '$.token') IS NOT 'text'"
    "   OR json_type(:body, '$.box') IS NOT 'text' OR json_type(:body, '$.box_key') IS NOT 'text'"
    "  THEN 0"
    " WHEN json_type(:body, '$.lane') = 'text' THEN (SELECT count(*) FROM json_each(:body)) = 4"
    " WHEN json_type(:body, '$.request') IS NOT 'text' OR json_type(:body, '$.proof') IS NOT 'text'"
    "  THEN 0"
    " WHEN :body ->> '$.transport' IS 'reverse'"
    "  THEN 2 * ((SELECT count(*) FROM json_each(:body)) = 6)"
    " WHEN :body ->> '$.transport' IS 'tls' AND json_type(:body, '$.endpoint') = 'text'"
    "  AND json_type(:body, '$.authority') = 'text'"
    "  THEN 3 * ((SELECT count(*) FROM json_each(:body)) = 8)"
    " ELSE 0 END,"
    " :body ->> '$.token', :body ->> '$.box_key', :body ->> '$.box', :body ->> '$.lane',"
    " :body ->> '$.endpoint', :body ->> '$.request', :body ->> '$.authority', :body ->> '$.proof'";

enum { FORM_NONE, FORM_SOCKET, FORM_REVERSE, FORM_TLS };

void
enroll_form_free(struct enroll_form *f)
{
	free(f->box);
	free(f->lane);
	free(f->endpoint);
	free(f->proof);
	cert_blob_free(&f->e.request);
	cert_blob_free(&f->e.authority);
	sodium_memzero(f->e.token, sizeof(f->e.token));
}

static int
hex_read(const char *hex, unsigned char out[32])
{
	size_t n;

	return strlen(hex) == 64 && sodium_hex2bin(out, 32, hex, 64, NULL, &n, NULL) == 0 && n == 32
		   ? 0
		   : -1;
}

static int
form_bad(struct refusal *r)
{
	return refusal_set(r, "code.invalid",
	    "an enrollment is {\"token\":hex,\"box\":name,\"box_key\":hex,\"lane\":path}, or over a"
	    " network with transport, request and proof in place of lane");
}

/* Take the parts out of the row ${q} for the form ${kind}. */
static int
form_take(struct stmt *q, int64_t kind, struct enroll_form *f)
{
	if (hex_read(stmt_get_text(q, 1), f->e.token) != 0 ||
	    hex_read(stmt_get_text(q, 2), f->e.box_key) != 0 ||
	    (f->e.box_name = f->box = strdup(stmt_get_text(q, 3))) == NULL)
		return -1;
	f->e.transport = kind == FORM_SOCKET ? "unix" : kind == FORM_TLS ? "tls" : "reverse";
	if (kind == FORM_SOCKET)
		return (f->e.lane = f->lane = strdup(stmt_get_text(q, 4))) == NULL ? -1 : 0;
	if (kind == FORM_TLS &&
	    ((f->e.endpoint = f->endpoint = strdup(stmt_get_text(q, 5))) == NULL ||
		cert_from_hex(stmt_get_text(q, 7), &f->e.authority) != 0))
		return -1;
	return cert_from_hex(stmt_get_text(q, 6), &f->e.request) == 0 &&
		       (f->proof = strdup(stmt_get_text(q, 8))) != NULL
		   ? 0
		   : -1;
}

/* Whoever asks over a network holds the key of the box that it says it is. */
static int
form_proved(const struct enroll_form *f, struct refusal *r)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	const struct enroll_proof proof = {.token_digest = digest,
	    .box = f->box,
	    .box_key = f->e.box_key,
	    .transport = f->e.transport,
	    .endpoint = f->endpoint,
	    .request = &f->e.request,
	    .authority = &f->e.authority};

	if (f->proof == NULL)
		return 0;
	crypto_hash_sha256(digest, f->e.token, CODE_TOKEN);
	return enroll_proved(&proof, f->proof) == 0
		   ? 0
		   : refusal_set(
			 r, "box.proof", "the box does not prove that it holds the key it names");
}

/* A form is read to its end before anything is written: a reader that is still open would have an
 * older view than the transaction needs. */
int
enroll_form_read(struct store *db, const char *body, size_t len, bool network,
    struct enroll_form *f, struct refusal *r)
{
	struct stmt *q;
	int64_t kind;
	int rc;

	*f = (struct enroll_form){.box = NULL};
	if ((q = store_sql(db, FORM)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	if (stmt_step(q) != 1)
		return -1;
	kind = stmt_get_int(q, 0);
	/* A socket's box is known by its process, a network's by its proof. */
	rc = kind != FORM_NONE && (kind != FORM_SOCKET) == network ? form_take(q, kind, f) : -1;
	stmt_done(q);
	return rc == 0 ? form_proved(f, r) : form_bad(r);
}
