/* sshsig.c: read SSH public keys and signatures, strictly, and verify them. */
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "engine/crypto/base64.h"
#include "engine/crypto/sshsig.h"

#define HASH_MAX crypto_hash_sha512_BYTES

_Static_assert(SSHSIG_POINT_SIZE == crypto_sign_PUBLICKEYBYTES, "Ed25519");

static const char PREAMBLE[] = "SSHSIG";
static const char ARMOR_BEGIN[] = "-----BEGIN SSH SIGNATURE-----";
static const char ARMOR_END[] = "-----END SSH SIGNATURE-----";

static const char *const TYPE_NAME[] = {
    [SSHSIG_ED25519] = "ssh-ed25519",
    [SSHSIG_SK_ED25519] = "sk-ssh-ed25519@openssh.com",
};

/* Bytes inside a buffer that outlives them. */
struct bytes {
	const uint8_t *at;
	size_t len;
};

/* The fields of a signature, PROTOCOL.sshsig §2. */
struct parts {
	struct bytes key;
	struct bytes namespace;
	struct bytes reserved;
	struct bytes hash;
	struct bytes signature;
};

/* What is signed: large enough for §3's data as well as for a token's. */
struct signed_data {
	uint8_t bytes[128 + HASH_MAX];
	size_t len;
};

const char *
sshsig_type_name(enum sshsig_type type)
{
	return TYPE_NAME[type];
}

static int
take(struct bytes *in, size_t len, struct bytes *out)
{
	if (len > in->len)
		return -1;
	out->at = in->at;
	out->len = len;
	in->at += len;
	in->len -= len;
	return 0;
}

static int
take_u32(struct bytes *in, uint32_t *v)
{
	struct bytes b;

	if (take(in, 4, &b) == -1)
		return -1;
	*v = (uint32_t)b.at[0] << 24 | (uint32_t)b.at[1] << 16 | (uint32_t)b.at[2] << 8 | b.at[3];
	return 0;
}

/* RFC 4251 §5: a length and as many bytes. */
static int
take_string(struct bytes *in, struct bytes *out)
{
	uint32_t len;

	if (take_u32(in, &len) == -1)
		return -1;
	return take(in, len, out);
}

static int
is_text(const struct bytes *b, const char *text)
{
	return b->len == strlen(text) && memcmp(b->at, text, b->len) == 0;
}

static int
find_type(const struct bytes *name, enum sshsig_type *type)
{
	size_t i;

	for (i = 0; i < sizeof(TYPE_NAME) / sizeof(TYPE_NAME[0]); i++) {
		if (is_text(name, TYPE_NAME[i])) {
			*type = (enum sshsig_type)i;
			return 0;
		}
	}
	return -1;
}

static int
copy_application(const struct bytes *b, char out[SSHSIG_APPLICATION_MAX + 1])
{
	size_t i;

	if (b->len == 0 || b->len > SSHSIG_APPLICATION_MAX)
		return -1;
	for (i = 0; i < b->len; i++) {
		if (b->at[i] < 0x20 || b->at[i] > 0x7e)
			return -1;
	}
	memcpy(out, b->at, b->len);
	out[b->len] = '\0';
	return 0;
}

/* Read a public key out of ${blob}, all of it, into the fields that say which key it is. */
static int
parse_key_blob(struct bytes blob, struct sshsig_key *key)
{
	struct bytes type, point, application;

	if (take_string(&blob, &type) == -1 || find_type(&type, &key->type) == -1)
		return -1;
	if (take_string(&blob, &point) == -1 || point.len != SSHSIG_POINT_SIZE)
		return -1;
	memcpy(key->point, point.at, SSHSIG_POINT_SIZE);
	key->application[0] = '\0';
	if (key->type == SSHSIG_SK_ED25519 &&
	    (take_string(&blob, &application) == -1 ||
		copy_application(&application, key->application) == -1))
		return -1;
	return blob.len == 0 ? 0 : -1;
}

static int
same_key(const struct sshsig_key *a, const struct sshsig_key *b)
{
	return a->type == b->type && memcmp(a->point, b->point, SSHSIG_POINT_SIZE) == 0 &&
	       strcmp(a->application, b->application) == 0;
}

static void
fingerprint(const struct bytes *blob, char out[SSHSIG_FINGERPRINT_SIZE])
{
	static const char PREFIX[] = "SHA256:";
	const size_t head = sizeof(PREFIX) - 1;
	uint8_t hash[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(hash, blob->at, blob->len);
	memcpy(out, PREFIX, head);
	sodium_bin2base64(out + head, SSHSIG_FINGERPRINT_SIZE - head, hash, sizeof(hash),
	    sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

/*
 * Return the length of the character at ${s}, which has ${left} bytes: UTF-8 (RFC 3629) without
 * control characters, which could say other things on a terminal than in the log; or 0.
 */
static size_t
character(const uint8_t *s, size_t left)
{
	static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t i, len;
	uint32_t c;

	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || len > left)
		return 0;
	c = s[0] & (0x7fu >> len);
	for (i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < LEAST[len] || c < 0xa0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	return len;
}

static int
copy_comment(struct bytes b, char out[SSHSIG_COMMENT_MAX + 1])
{
	size_t i, n;

	while (b.len > 0 && b.at[b.len - 1] == ' ')
		b.len--;
	if (b.len > SSHSIG_COMMENT_MAX)
		return -1;
	for (i = 0; i < b.len; i += n) {
		if ((n = character(b.at + i, b.len - i)) == 0)
			return -1;
	}
	if (b.len > 0)
		memcpy(out, b.at, b.len);
	out[b.len] = '\0';
	return 0;
}

/* Take what stands before the next space off ${in}, and the space; or the rest. */
static void
take_word(struct bytes *in, struct bytes *word)
{
	const uint8_t *space = memchr(in->at, ' ', in->len);

	*word = *in;
	if (space != NULL)
		word->len = (size_t)(space - in->at);
	in->at += word->len;
	in->len -= word->len;
	if (space != NULL) {
		in->at++;
		in->len--;
	}
}

/* Take a line off ${in}, and its end: LF, CRLF or the end of the text. */
static void
take_line(struct bytes *in, struct bytes *line)
{
	const uint8_t *lf = memchr(in->at, '\n', in->len);

	*line = *in;
	if (lf != NULL)
		line->len = (size_t)(lf - in->at);
	in->at += line->len;
	in->len -= line->len;
	if (lf == NULL)
		return;
	in->at++;
	in->len--;
	if (line->len > 0 && line->at[line->len - 1] == '\r')
		line->len--;
}

/* Decode canonical base64 (RFC 4648 §3.5) into ${out}, which has room for ${size}. */
static int
decode(const struct bytes *text, uint8_t *out, size_t size, struct bytes *blob)
{
	ssize_t n = base64_read((const char *)text->at, text->len, NULL, out, size);

	blob->at = out;
	blob->len = n == -1 ? 0 : (size_t)n;
	return n == -1 ? -1 : 0;
}

/* Bound a text from outside; a longer one is left with a length over ${max}. */
static struct bytes
text_bytes(const char *text, size_t max)
{
	struct bytes b;

	b.at = (const uint8_t *)text;
	b.len = strnlen(text, max + 1);
	return b;
}

int
sshsig_key_parse(const char *line, struct sshsig_key *key, struct refusal *r)
{
	struct bytes text, rest, type, base64, blob;
	uint8_t buf[SSHSIG_LINE_MAX];
	enum sshsig_type named;

	text = text_bytes(line, SSHSIG_LINE_MAX);
	if (text.len > SSHSIG_LINE_MAX)
		return refusal_set(r, "sshkey.form", "the public key is too long");
	take_line(&text, &rest);
	if (text.len != 0)
		return refusal_set(r, "sshkey.form", "the public key is more than one line");
	take_word(&rest, &type);
	take_word(&rest, &base64);
	if (find_type(&type, &named) == -1)
		return refusal_set(r, "sshkey.type", "the key is not of a type that can approve");
	if (decode(&base64, buf, sizeof(buf), &blob) == -1 || parse_key_blob(blob, key) == -1 ||
	    key->type != named)
		return refusal_set(r, "sshkey.form", "the public key is damaged");
	/* Points of small order would let anybody sign. */
	if (!crypto_core_ed25519_is_valid_point(key->point))
		return refusal_set(r, "sshkey.form", "the public key is not a point of Ed25519");
	if (copy_comment(rest, key->comment) == -1)
		return refusal_set(r, "sshkey.form", "the comment of the key is not plain text");
	fingerprint(&blob, key->fingerprint);
	return 0;
}

/* Decode the armor (PROTOCOL.sshsig §1) into ${out}. */
static int
dearmor(const char *armored, uint8_t out[SSHSIG_BLOB_MAX], struct bytes *blob)
{
	struct bytes text, line, base64;
	char joined[SSHSIG_ARMOR_MAX];

	text = text_bytes(armored, SSHSIG_ARMOR_MAX);
	if (text.len > SSHSIG_ARMOR_MAX)
		return -1;
	take_line(&text, &line);
	if (!is_text(&line, ARMOR_BEGIN))
		return -1;
	base64.at = (const uint8_t *)joined;
	base64.len = 0;
	for (;;) {
		take_line(&text, &line);
		if (is_text(&line, ARMOR_END))
			break;
		/* The end of the text is an empty line. */
		if (line.len == 0)
			return -1;
		memcpy(joined + base64.len, line.at, line.len);
		base64.len += line.len;
	}
	if (text.len != 0)
		return -1;
	return decode(&base64, out, SSHSIG_BLOB_MAX, blob);
}

/* Take a signature blob apart, all of it. */
static int
split(struct bytes blob, struct parts *p)
{
	struct bytes preamble;
	uint32_t version;

	if (take(&blob, strlen(PREAMBLE), &preamble) == -1 || !is_text(&preamble, PREAMBLE))
		return -1;
	if (take_u32(&blob, &version) == -1 || version != 1)
		return -1;
	if (take_string(&blob, &p->key) == -1 || take_string(&blob, &p->namespace) == -1 ||
	    take_string(&blob, &p->reserved) == -1 || take_string(&blob, &p->hash) == -1 ||
	    take_string(&blob, &p->signature) == -1)
		return -1;
	/* ssh-keygen writes and accepts none either. */
	return blob.len == 0 && p->reserved.len == 0 ? 0 : -1;
}

/* The callers' constants fit by far: the longest data is 6 + 4 + 7 + 4 + 4 + 6 + 4 + 64 bytes. */
static void
put(struct signed_data *d, const void *bytes, size_t len)
{
	memcpy(d->bytes + d->len, bytes, len);
	d->len += len;
}

static void
put_string(struct signed_data *d, const void *bytes, size_t len)
{
	uint8_t size[4] = {0, 0, 0, (uint8_t)len};

	put(d, size, sizeof(size));
	if (len > 0)
		put(d, bytes, len);
}

/* Build what the key signs (PROTOCOL.sshsig §3), or return -1 for a hash that is not ours. */
static int
signed_data(struct signed_data *d, const struct bytes *hash, const void *msg, size_t len)
{
	uint8_t digest[HASH_MAX];
	size_t size;

	if (is_text(hash, "sha512")) {
		crypto_hash_sha512(digest, msg, len);
		size = crypto_hash_sha512_BYTES;
	} else if (is_text(hash, "sha256")) {
		crypto_hash_sha256(digest, msg, len);
		size = crypto_hash_sha256_BYTES;
	} else {
		return -1;
	}
	d->len = 0;
	put(d, PREAMBLE, strlen(PREAMBLE));
	put_string(d, SSHSIG_NAMESPACE, strlen(SSHSIG_NAMESPACE));
	put_string(d, "", 0);
	put_string(d, hash->at, hash->len);
	put_string(d, digest, size);
	return 0;
}

/* Replace ${d} with what a token signs for it: PROTOCOL.u2f, "SSH U2F signatures". */
static void
token_data(struct signed_data *d, const char *application, const struct bytes *said)
{
	uint8_t app[crypto_hash_sha256_BYTES], digest[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(app, (const uint8_t *)application, strlen(application));
	crypto_hash_sha256(digest, d->bytes, d->len);
	d->len = 0;
	put(d, app, sizeof(app));
	put(d, said->at, said->len);
	put(d, digest, sizeof(digest));
}

/* Take the signature field apart: the 64 bytes, and what a token ${said} (flags and counter). */
static int
split_signature(struct bytes in, enum sshsig_type type, struct bytes *sig, struct bytes *said)
{
	struct bytes name;

	if (take_string(&in, &name) == -1 || !is_text(&name, TYPE_NAME[type]))
		return -1;
	if (take_string(&in, sig) == -1 || sig->len != crypto_sign_BYTES)
		return -1;
	if (take(&in, type == SSHSIG_SK_ED25519 ? 5 : 0, said) == -1)
		return -1;
	return in.len == 0 ? 0 : -1;
}

static void
read_proof(struct bytes said, struct sshsig_proof *proof)
{
	struct bytes flags;

	proof->flags = 0;
	proof->counter = 0;
	if (take(&said, 1, &flags) == -1)
		return;
	proof->flags = flags.at[0];
	take_u32(&said, &proof->counter);
}

/* Refuse a signature of another key, another purpose or another form. */
static int
check_parts(const struct sshsig_key *key, const struct parts *p, struct refusal *r)
{
	struct sshsig_key signer;

	if (parse_key_blob(p->key, &signer) == -1 || !same_key(key, &signer))
		return refusal_set(r, "sshsig.key", "the signature is of another key");
	if (!is_text(&p->namespace, SSHSIG_NAMESPACE))
		return refusal_set(r, "sshsig.namespace",
		    "the signature was made for another use than \"" SSHSIG_NAMESPACE "\"");
	return 0;
}

int
sshsig_verify(const struct sshsig_key *key, const void *msg, size_t len, const char *armored,
    struct sshsig_proof *proof, struct refusal *r)
{
	uint8_t buf[SSHSIG_BLOB_MAX];
	struct bytes blob, sig, said;
	struct signed_data data;
	struct sshsig_proof told;
	struct parts p;

	if (dearmor(armored, buf, &blob) == -1 || split(blob, &p) == -1)
		return refusal_set(r, "sshsig.form", "this is not an SSH signature");
	if (check_parts(key, &p, r) == -1)
		return -1;
	if (split_signature(p.signature, key->type, &sig, &said) == -1)
		return refusal_set(r, "sshsig.form", "the signature is not one of its key's type");
	if (signed_data(&data, &p.hash, msg, len) == -1)
		return refusal_set(r, "sshsig.hash", "the signature is not over sha256 or sha512");
	read_proof(said, &told);
	if (key->type == SSHSIG_SK_ED25519)
		token_data(&data, key->application, &said);
	if (crypto_sign_verify_detached(sig.at, data.bytes, data.len, key->point) != 0)
		return refusal_set(r, "sshsig.wrong", "the signature is not of these bytes");
	/* Last, so that only what the token really said is believed. */
	if (key->type == SSHSIG_SK_ED25519 && (told.flags & SSHSIG_FLAG_PRESENT) == 0)
		return refusal_set(r, "sshsig.presence", "nobody touched the security key");
	*proof = told;
	return 0;
}
