/* ends.c: from certificates in rows to ends of TLS. */
#include "net/host/ends.h"
#include "net/http/tls_pump.h"

struct tls_end *
ends_client(const struct tls_identity *identity, struct refusal *r)
{
	const struct tls_config config = {
	    .cert = identity->cert.data == NULL ? NULL : &identity->cert,
	    .key = &identity->key,
	    .cas = identity->authorities,
	    .ncas = identity->nauthorities};

	return tls_client_end(&config, r);
}

/* Make the end of what was read with ${rc}, which is freed. */
static struct tls_end *
end_of(struct store *db, int rc, struct tls_identity *identity, struct refusal *r)
{
	struct tls_end *end;

	if (rc != 0) {
		*r = *store_refusal(db);
		return NULL;
	}
	end = ends_client(identity, r);
	tls_identity_free(identity);
	return end;
}

struct tls_end *
ends_of_pairing(struct store *db, const struct key *wire, int64_t pairing, struct refusal *r)
{
	struct tls_identity identity;
	int rc = tls_client_of(db, wire, pairing, &identity);

	return end_of(db, rc, &identity, r);
}

struct tls_end *
ends_of_box(struct store *db, const struct key *wire, int64_t box_id, struct refusal *r)
{
	struct tls_identity identity;
	int rc = tls_client(db, wire, &identity);

	if (rc == 0 && (rc = tls_box_authority(db, box_id, &identity.authorities[0])) == 0)
		identity.nauthorities = 1;
	if (rc != 0)
		tls_identity_free(&identity);
	return end_of(db, rc, &identity, r);
}

void
ends_limits(struct store *db, struct tls_limits *limits)
{
	*limits = (struct tls_limits){
	    .connections = (unsigned)store_setting(db, "port.connections"),
	    .handshakes = (unsigned)store_setting(db, "port.handshakes"),
	    .per_address = (unsigned)store_setting(db, "port.per_address"),
	    .handshake_ms = store_setting(db, "port.handshake_ms"),
	    .flush_ms = store_setting(db, "port.flush_ms"),
	    .dead_ms = store_setting(db, "port.dead_ms"),
	};
}
