/* paper.h: for tests: Hosts with keys of their own, and what an anchor signs. */
#ifndef TESTS_PAPER_H
#define TESTS_PAPER_H

#include "engine/state/anchor.h"

#define PAPER_BODY_MAX 10240

/* A Host that signs. */
struct paper_host {
	char name[65];
	unsigned char pk[32], sk[64];
	int64_t id; /* of its pairing, for whoever pairs it */
};

/* What the anchor signs, member by member, so that a test can have one wrong. */
struct paper {
	const char *kind, *anchor, *server, *caps;
	const char *more; /* members at the end, each behind a comma */
	const struct paper_host *subject;
	char key[65]; /* of the machine, in hex */
	char subject_key[65];
	int64_t issued_at, expires_at;
	char text[ANCHOR_TERMS_MAX + 1];
	struct anchor_signed given; /* of text */
};

/**
 * paper_host(h, name):
 * Make a Host with a key that follows from its name.
 */
void paper_host(struct paper_host *h, const char *name);

/**
 * paper_make(p, kind, anchor, machine, key, subject):
 * Fill ${p} with what is right: terms of ${anchor} for ${machine}, whose public key is ${key},
 * about ${subject}, for observe, issued now, for half a year.
 */
void paper_make(struct paper *p, const char *kind, const struct paper_host *anchor,
    const char *machine, const unsigned char key[32], const struct paper_host *subject);

/**
 * paper_sign(p, signer, domain), paper_write(p, signer):
 * Sign p->text as it is; write it from the members first, and sign it as an anchor does.
 */
void paper_sign(struct paper *p, const struct paper_host *signer, const char *domain);
void paper_write(struct paper *p, const struct paper_host *signer);

/**
 * paper_body(p, body):
 * The form in which it travels, in ${body}, PAPER_BODY_MAX bytes.
 */
const char *paper_body(const struct paper *p, char body[PAPER_BODY_MAX]);

/**
 * paper_headers(h, method, path, body, headers, size):
 * The headers of a request on a lane that ${h} signs now.
 */
void paper_headers(const struct paper_host *h, const char *method, const char *path,
    const char *body, char *headers, size_t size);

#endif
