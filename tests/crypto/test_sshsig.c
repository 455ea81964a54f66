/*
 * test_sshsig.c: signatures of the real ssh-keygen.  There is no token here: signatures of the sk
 * type are put together below, with libsodium and the formats of PROTOCOL.u2f, as a stand-in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sodium.h>

#include "engine/crypto/sshsig.h"

/* Compiled in, so that it cannot rot between two runs of the fuzzer; see fuzz_target_holds. */
#include "tests/fuzz/fuzz_sshsig.c"

#define TEXT_MAX   4096
#define ARMOR_HEAD "-----BEGIN SSH SIGNATURE-----\n"
#define ARMOR_TAIL "-----END SSH SIGNATURE-----\n"

static const char MESSAGE[] = "bastion approval\nop disk.free on build-7\n";
static const char ZERO_COUNT[4];

static char dir[64];
static int have_ssh;

/* Run ${command} in the scratch directory; return its exit status. */
static int
run(const char *command)
{
	char line[512];
	int status;

	snprintf(line, sizeof(line), "cd %s && %s >out 2>err </dev/null", dir, command);
	status = system(line);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
path_of(const char *name, char path[128])
{
	snprintf(path, 128, "%s/%s", dir, name);
}

static void
put_file(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	path_of(name, path);
	assert_non_null(f = fopen(path, "we"));
	assert_int_not_equal(fputs(text, f), EOF);
	assert_int_equal(fclose(f), 0);
}

static void
get_file(const char *name, char text[TEXT_MAX])
{
	char path[128];
	size_t n;
	FILE *f;

	path_of(name, path);
	assert_non_null(f = fopen(path, "re"));
	n = fread(text, 1, TEXT_MAX - 1, f);
	text[n] = '\0';
	fclose(f);
}

/* Sign MESSAGE with the key file ${name} by ssh-keygen with further ${options}. */
static void
sign(const char *name, const char *options, char armored[TEXT_MAX])
{
	char command[256];

	put_file("message", MESSAGE);
	snprintf(command, sizeof(command),
	    "rm -f message.sig && ssh-keygen -Y sign -f %s %s message", name, options);
	assert_int_equal(run(command), 0);
	get_file("message.sig", armored);
}

static void
load_key(const char *name, struct sshsig_key *key)
{
	char file[64], line[TEXT_MAX];
	struct refusal r = {0};

	snprintf(file, sizeof(file), "%s.pub", name);
	get_file(file, line);
	assert_int_equal(sshsig_key_parse(line, key, &r), 0);
	assert_string_equal(r.code, "");
}

static int
setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/bastion-sshsig-XXXXXX");
	if (sodium_init() == -1 || mkdtemp(dir) == NULL)
		return -1;
	have_ssh = run("command -v ssh-keygen") == 0;
	if (!have_ssh)
		return 0;
	return run("ssh-keygen -q -t ed25519 -N '' -C 'J\xc3\xb6rg on build 7' -f good") |
	       run("ssh-keygen -q -t ed25519 -N '' -C '' -f other") |
	       run("ssh-keygen -q -t ecdsa -N '' -f ecdsa") |
	       run("ssh-keygen -q -t rsa -N '' -f rsa");
}

static int
teardown(void **state)
{
	struct dirent *e;
	DIR *d = opendir(dir);

	(void)state;
	while (d != NULL && (e = readdir(d)) != NULL)
		unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	return rmdir(dir);
}

static void
need_ssh(void)
{
	if (have_ssh)
		return;
	print_message("ssh-keygen is not installed\n");
	skip();
}

static int
verify(const struct sshsig_key *key, const char *armored)
{
	struct sshsig_proof proof;

	return sshsig_verify(key, MESSAGE, strlen(MESSAGE), armored, &proof, NULL);
}

static void
refuses(const struct sshsig_key *key, const char *armored, const char *code)
{
	struct sshsig_proof proof = {0xee, 0xeeeeeeee};
	struct refusal r = {0};

	assert_int_equal(sshsig_verify(key, MESSAGE, strlen(MESSAGE), armored, &proof, &r), -1);
	assert_string_equal(r.code, code);
	assert_int_equal(proof.flags, 0xee);
}

/* The blob of ${armored}, whose lines are of ssh-keygen's form. */
static size_t
unarmor(const char *armored, uint8_t blob[TEXT_MAX])
{
	size_t n;
	const char *end;

	assert_int_equal(strncmp(armored, ARMOR_HEAD, strlen(ARMOR_HEAD)), 0);
	armored += strlen(ARMOR_HEAD);
	assert_int_equal(sodium_base642bin(blob, TEXT_MAX, armored, strlen(armored), "\n", &n, &end,
			     sodium_base64_VARIANT_ORIGINAL),
	    0);
	assert_string_equal(end, ARMOR_TAIL);
	return n;
}

static void
armor(const uint8_t *blob, size_t len, char armored[TEXT_MAX])
{
	char base64[TEXT_MAX];

	sodium_bin2base64(base64, sizeof(base64), blob, len, sodium_base64_VARIANT_ORIGINAL);
	assert_true(strlen(base64) < TEXT_MAX - 64);
	strcpy(armored, ARMOR_HEAD);
	strcat(armored, base64);
	strcat(armored, "\n" ARMOR_TAIL);
}

/* What ssh-keygen signs verifies, under both hashes, and ssh-keygen agrees that it should. */
static void
real_signature_verifies(void **state)
{
	struct sshsig_proof proof = {0xee, 0xeeeeeeee};
	char armored[TEXT_MAX];
	struct sshsig_key key;

	(void)state;
	need_ssh();
	load_key("good", &key);
	sign("good", "-n bastion", armored);
	assert_int_equal(sshsig_verify(&key, MESSAGE, strlen(MESSAGE), armored, &proof, NULL), 0);
	assert_int_equal(proof.flags, 0);
	assert_int_equal(proof.counter, 0);
	assert_int_equal(
	    run("sh -c 'ssh-keygen -Y check-novalidate -n bastion -s message.sig <message'"), 0);
	sign("good", "-n bastion -O hashalg=sha256", armored);
	assert_int_equal(verify(&key, armored), 0);
	sign("good", "-n bastion -O hashalg=sha512", armored);
	assert_int_equal(verify(&key, armored), 0);
}

static void
other_key_is_refused(void **state)
{
	char armored[TEXT_MAX];
	struct sshsig_key key;

	(void)state;
	need_ssh();
	load_key("good", &key);
	sign("other", "-n bastion", armored);
	refuses(&key, armored, "sshsig.key");
	sign("ecdsa", "-n bastion", armored);
	refuses(&key, armored, "sshsig.key");
	sign("rsa", "-n bastion -O hashalg=sha512", armored);
	refuses(&key, armored, "sshsig.key");
}

/* The other key's signature under our key's name is not ours either. */
static void
borrowed_name_is_refused(void **state)
{
	char armored[TEXT_MAX];
	uint8_t blob[TEXT_MAX];
	struct sshsig_key key;
	size_t len;

	(void)state;
	need_ssh();
	load_key("good", &key);
	sign("other", "-n bastion", armored);
	len = unarmor(armored, blob);
	/* 6 preamble, 4 version, 4 + 4 + 11 + 4 up to the point. */
	memcpy(blob + 33, key.point, sizeof(key.point));
	armor(blob, len, armored);
	refuses(&key, armored, "sshsig.wrong");
}

static void
other_namespace_is_refused(void **state)
{
	static const char *const OTHER[] = {
	    "-n file", "-n git", "-n Bastion", "-n bastion2", "-n bastio", "-n 'bastion '"};
	char armored[TEXT_MAX];
	struct sshsig_key key;
	size_t i;

	(void)state;
	need_ssh();
	load_key("good", &key);
	for (i = 0; i < sizeof(OTHER) / sizeof(OTHER[0]); i++) {
		sign("good", OTHER[i], armored);
		refuses(&key, armored, "sshsig.namespace");
	}
}

static void
changed_message_is_refused(void **state)
{
	char armored[TEXT_MAX], message[sizeof(MESSAGE)];
	struct sshsig_proof proof;
	struct sshsig_key key;
	struct refusal r;
	size_t i, len = strlen(MESSAGE);

	(void)state;
	need_ssh();
	load_key("good", &key);
	sign("good", "-n bastion", armored);
	memcpy(message, MESSAGE, sizeof(message));
	for (i = 0; i < 8 * len; i++) {
		message[i / 8] ^= (char)(1 << i % 8);
		assert_int_equal(sshsig_verify(&key, message, len, armored, &proof, &r), -1);
		assert_string_equal(r.code, "sshsig.wrong");
		message[i / 8] ^= (char)(1 << i % 8);
	}
	for (i = 0; i < len; i++)
		assert_int_equal(sshsig_verify(&key, message, i, armored, &proof, NULL), -1);
	assert_int_equal(sshsig_verify(&key, message, len + 1, armored, &proof, NULL), -1);
}

/* Cut anywhere, the text is no signature; only its last line feed may be missing. */
static void
cut_armor_is_refused(const struct sshsig_key *key, const char *armored)
{
	char text[TEXT_MAX];
	size_t i, len = strlen(armored);

	for (i = 0; i < len; i++) {
		memcpy(text, armored, i);
		text[i] = '\0';
		if (i == len - 1)
			assert_int_equal(verify(key, text), 0);
		else
			refuses(key, text, "sshsig.form");
	}
}

/* Every bit of the text matters, line ends and all; so does every whole byte. */
static void
flipped_armor_is_refused(const struct sshsig_key *key, const char *armored)
{
	char text[TEXT_MAX];
	size_t i, bit, len = strlen(armored);

	strcpy(text, armored);
	for (i = 0; i < len; i++) {
		for (bit = 0; bit < 9; bit++) {
			text[i] ^= (char)(bit == 8 ? 0xff : 1 << bit);
			assert_int_equal(verify(key, text), -1);
			text[i] = armored[i];
		}
	}
}

/* The same inside the armor, where lengths and fields are; and one byte too many. */
static void
mangled_blob_is_refused(const struct sshsig_key *key, const char *armored)
{
	uint8_t blob[TEXT_MAX];
	char text[TEXT_MAX];
	size_t i, bit, len;

	len = unarmor(armored, blob);
	armor(blob, len, text);
	assert_int_equal(verify(key, text), 0);
	for (i = 0; i < len; i++) {
		armor(blob, i, text);
		refuses(key, text, "sshsig.form");
		for (bit = 0; bit < 9; bit++) {
			blob[i] ^= (uint8_t)(bit == 8 ? 0xff : 1 << bit);
			armor(blob, len, text);
			assert_int_equal(verify(key, text), -1);
			blob[i] ^= (uint8_t)(bit == 8 ? 0xff : 1 << bit);
		}
	}
	blob[len] = 0;
	armor(blob, len + 1, text);
	refuses(key, text, "sshsig.form");
}

static void
mangled_signature_is_refused(void **state)
{
	char armored[TEXT_MAX];
	struct sshsig_key key;

	(void)state;
	need_ssh();
	load_key("good", &key);
	sign("good", "-n bastion", armored);
	cut_armor_is_refused(&key, armored);
	flipped_armor_is_refused(&key, armored);
	mangled_blob_is_refused(&key, armored);
}

/* A signature plus the order of the group is another text for the same one; it does not pass. */
static void
second_form_is_refused(void **state)
{
	static const uint8_t ORDER[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6,
	    0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
	char armored[TEXT_MAX];
	uint8_t blob[TEXT_MAX];
	struct sshsig_key key;
	size_t len;

	(void)state;
	need_ssh();
	load_key("good", &key);
	sign("good", "-n bastion", armored);
	len = unarmor(armored, blob);
	sodium_add(blob + len - 32, ORDER, sizeof(ORDER));
	armor(blob, len, armored);
	refuses(&key, armored, "sshsig.wrong");
}

/* A form in a browser sends CRLF: the same signature.  Nothing else may stand around it. */
static void
line_ends_and_surroundings(void **state)
{
	static const struct {
		const char *before, *after;
	} AROUND[] = {{" ", ""}, {"\n", ""}, {"x\n", ""}, {"", "\n"}, {"", " "}, {"", "x"},
	    {"", "\r"}, {"", ARMOR_HEAD}};
	char armored[TEXT_MAX], text[2 * TEXT_MAX];
	struct sshsig_key key;
	size_t i, n = 0;

	(void)state;
	need_ssh();
	load_key("good", &key);
	sign("good", "-n bastion", armored);
	for (i = 0; armored[i] != '\0'; i++) {
		if (armored[i] == '\n')
			text[n++] = '\r';
		text[n++] = armored[i];
	}
	text[n] = '\0';
	assert_int_equal(verify(&key, text), 0);
	for (i = 0; i < sizeof(AROUND) / sizeof(AROUND[0]); i++) {
		snprintf(text, sizeof(text), "%s%s%s", AROUND[i].before, armored, AROUND[i].after);
		refuses(&key, text, "sshsig.form");
	}
	snprintf(text, sizeof(text), "%s%s", armored, armored);
	refuses(&key, text, "sshsig.form");
	memset(text, 'A', SSHSIG_ARMOR_MAX + 1);
	text[SSHSIG_ARMOR_MAX + 1] = '\0';
	refuses(&key, text, "sshsig.form");
}

/* Type, comment and fingerprint are those that ssh-keygen -l prints. */
static void
key_reads_as_ssh_keygen_does(void **state)
{
	char out[TEXT_MAX], want[TEXT_MAX];
	struct sshsig_key key;

	(void)state;
	need_ssh();
	load_key("good", &key);
	assert_string_equal(key.comment, "J\xc3\xb6rg on build 7");
	assert_string_equal(sshsig_type_name(key.type), "ssh-ed25519");
	assert_string_equal(key.application, "");
	assert_int_equal(run("ssh-keygen -lf good.pub"), 0);
	get_file("out", out);
	snprintf(want, sizeof(want), "256 %s ", key.fingerprint);
	assert_int_equal(strncmp(out, want, strlen(want)), 0);

	load_key("other", &key);
	assert_string_equal(key.comment, "");
}

static void
key_refuses(const char *line, const char *code)
{
	struct sshsig_key key;
	struct refusal r = {0};

	assert_int_equal(sshsig_key_parse(line, &key, &r), -1);
	assert_string_equal(r.code, code);
}

static void
other_types_are_refused(void **state)
{
	char line[TEXT_MAX], text[TEXT_MAX + 64];

	(void)state;
	need_ssh();
	get_file("ecdsa.pub", line);
	key_refuses(line, "sshkey.type");
	get_file("rsa.pub", line);
	key_refuses(line, "sshkey.type");
	get_file("good", line); /* the secret key, pasted by mistake */
	key_refuses(line, "sshkey.form");
	get_file("good.pub", line);
	snprintf(text, sizeof(text), "no-pty %s", line);
	key_refuses(text, "sshkey.type");
	snprintf(text, sizeof(text), " %s", line);
	key_refuses(text, "sshkey.type");
	snprintf(text, sizeof(text), "sk-ssh-ed25519@openssh.com%s", strchr(line, ' '));
	key_refuses(text, "sshkey.form");
}

/* A token that the test plays: what it is, and what it says with each signature. */
struct token {
	uint8_t pk[crypto_sign_PUBLICKEYBYTES];
	uint8_t sk[crypto_sign_SECRETKEYBYTES];
	const char *application;
	uint8_t said[5]; /* flags and counter */
};

struct buffer {
	uint8_t bytes[TEXT_MAX];
	size_t len;
};

static void
add(struct buffer *b, const void *bytes, size_t len)
{
	memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
}

static void
add_string(struct buffer *b, const void *bytes, size_t len)
{
	const uint8_t size[4] = {0, 0, (uint8_t)(len >> 8), (uint8_t)len};

	add(b, size, 4);
	add(b, bytes, len);
}

static void
add_text(struct buffer *b, const char *text)
{
	add_string(b, text, strlen(text));
}

/* The public key blob of ${t} as ${type}; the application only if there is one. */
static void
key_blob(struct buffer *b, const char *type, const struct token *t)
{
	b->len = 0;
	add_text(b, type);
	add_string(b, t->pk, sizeof(t->pk));
	if (t->application != NULL)
		add_text(b, t->application);
}

static void
key_line(const char *type, const struct buffer *blob, const char *rest, char line[TEXT_MAX])
{
	char base64[TEXT_MAX / 2];

	sodium_bin2base64(
	    base64, sizeof(base64), blob->bytes, blob->len, sodium_base64_VARIANT_ORIGINAL);
	snprintf(line, TEXT_MAX, "%s %s%s", type, base64, rest);
}

static const char SK[] = "sk-ssh-ed25519@openssh.com";

static void
token_make(struct token *t, const char *application)
{
	crypto_sign_keypair(t->pk, t->sk);
	t->application = application;
	memset(t->said, 0, sizeof(t->said));
}

static void
token_key(const struct token *t, struct sshsig_key *key)
{
	struct buffer blob;
	char line[TEXT_MAX];

	key_blob(&blob, SK, t);
	key_line(SK, &blob, " desk token", line);
	assert_int_equal(sshsig_key_parse(line, key, NULL), 0);
}

/* The token's own data: hash of the application, flags, counter, hash of what is signed. */
static void
token_sign(const struct token *t, const struct buffer *data, uint8_t sig[crypto_sign_BYTES])
{
	uint8_t hash[crypto_hash_sha256_BYTES];
	struct buffer all = {.len = 0};

	crypto_hash_sha256(hash, (const uint8_t *)t->application, strlen(t->application));
	add(&all, hash, sizeof(hash));
	add(&all, t->said, sizeof(t->said));
	crypto_hash_sha256(hash, data->bytes, data->len);
	add(&all, hash, sizeof(hash));
	crypto_sign_detached(sig, NULL, all.bytes, all.len, t->sk);
}

/* Sign MESSAGE as ssh-keygen does with a token, with ${reserved} and ${hash} as told. */
static void
token_armored(const struct token *t, const char *reserved, const char *hash, char text[TEXT_MAX])
{
	struct buffer data = {.len = 0}, blob = {.len = 0}, field;
	uint8_t digest[crypto_hash_sha512_BYTES], sig[crypto_sign_BYTES];

	crypto_hash_sha512(digest, (const uint8_t *)MESSAGE, strlen(MESSAGE));
	add(&data, "SSHSIG", 6);
	add_text(&data, "bastion");
	add_text(&data, reserved);
	add_text(&data, hash);
	add_string(&data, digest, sizeof(digest));
	token_sign(t, &data, sig);

	add(&blob, "SSHSIG\0\0\0\1", 10);
	key_blob(&field, SK, t);
	add_string(&blob, field.bytes, field.len);
	add_text(&blob, "bastion");
	add_text(&blob, reserved);
	add_text(&blob, hash);
	field.len = 0;
	add_text(&field, SK);
	add_string(&field, sig, sizeof(sig));
	add(&field, t->said, sizeof(t->said));
	add_string(&blob, field.bytes, field.len);
	armor(blob.bytes, blob.len, text);
}

/* Stand-in token: touched, it approves, and its flags and counter are told. */
static void
token_signature_verifies(void **state)
{
	struct sshsig_proof proof;
	struct sshsig_key key;
	char armored[TEXT_MAX];
	struct token t;

	(void)state;
	token_make(&t, "ssh:");
	memcpy(t.said, "\1\0\1\2\3", 5);
	token_key(&t, &key);
	assert_string_equal(key.application, "ssh:");
	assert_string_equal(key.comment, "desk token");
	assert_string_equal(sshsig_type_name(key.type), SK);
	token_armored(&t, "", "sha512", armored);
	assert_int_equal(sshsig_verify(&key, MESSAGE, strlen(MESSAGE), armored, &proof, NULL), 0);
	assert_int_equal(proof.flags, SSHSIG_FLAG_PRESENT);
	assert_int_equal(proof.counter, 0x010203);
	t.said[0] = 5;
	token_armored(&t, "", "sha512", armored);
	assert_int_equal(sshsig_verify(&key, MESSAGE, strlen(MESSAGE), armored, &proof, NULL), 0);
	assert_int_equal(proof.flags, SSHSIG_FLAG_PRESENT | SSHSIG_FLAG_VERIFIED);
}

/*
 * The stand-in's signature has the form that the real ssh-keygen knows: it verifies there too, and
 * the fingerprint is the same.
 */
static void
token_form_is_the_real_one(void **state)
{
	struct buffer blob;
	struct sshsig_key key;
	char text[TEXT_MAX], want[TEXT_MAX];
	struct token t;

	(void)state;
	need_ssh();
	token_make(&t, "ssh:desk");
	memcpy(t.said, "\1\0\0\0\7", 5);
	token_key(&t, &key);
	key_blob(&blob, SK, &t);
	key_line(SK, &blob, " desk token\n", text);
	put_file("token.pub", text);
	assert_int_equal(run("ssh-keygen -lf token.pub"), 0);
	get_file("out", text);
	snprintf(want, sizeof(want), "256 %s desk token ", key.fingerprint);
	assert_int_equal(strncmp(text, want, strlen(want)), 0);

	put_file("message", MESSAGE);
	token_armored(&t, "", "sha512", text);
	put_file("message.sig", text);
	assert_int_equal(
	    run("sh -c 'ssh-keygen -Y check-novalidate -n bastion -s message.sig <message'"), 0);
}

/* Stand-in token: an untouched token approves nothing, whatever else it says. */
static void
presence_is_required(void **state)
{
	struct sshsig_key key;
	char armored[TEXT_MAX];
	struct token t;
	int flags;

	(void)state;
	token_make(&t, "ssh:");
	token_key(&t, &key);
	for (flags = 0; flags < 256; flags++) {
		t.said[0] = (uint8_t)flags;
		token_armored(&t, "", "sha512", armored);
		if ((flags & 1) != 0)
			assert_int_equal(verify(&key, armored), 0);
		else
			refuses(&key, armored, "sshsig.presence");
	}
}

/* Stand-in token: flags and counter are signed, so setting the flag afterwards does not help. */
static void
token_words_are_signed(void **state)
{
	struct sshsig_key key;
	char armored[TEXT_MAX];
	uint8_t blob[TEXT_MAX];
	struct token t;
	size_t len;

	(void)state;
	token_make(&t, "ssh:");
	token_key(&t, &key);
	token_armored(&t, "", "sha512", armored);
	refuses(&key, armored, "sshsig.presence");
	len = unarmor(armored, blob);
	assert_memory_equal(blob + len - 4, ZERO_COUNT, 4);
	blob[len - 5] = 1;
	armor(blob, len, armored);
	refuses(&key, armored, "sshsig.wrong");

	t.said[0] = 1;
	token_armored(&t, "", "sha512", armored);
	cut_armor_is_refused(&key, armored);
	flipped_armor_is_refused(&key, armored);
	mangled_blob_is_refused(&key, armored);
}

/* Stand-in token: the same point for another application, or without a token, is another key. */
static void
application_is_part_of_the_key(void **state)
{
	struct sshsig_key key, plain;
	char armored[TEXT_MAX];
	struct token t;

	(void)state;
	token_make(&t, "ssh:");
	t.said[0] = 1;
	token_key(&t, &key);
	t.application = "ssh:other";
	token_armored(&t, "", "sha512", armored);
	refuses(&key, armored, "sshsig.key");
	t.application = "ssh:";
	token_armored(&t, "", "sha512", armored);
	assert_int_equal(verify(&key, armored), 0);
	plain = key;
	plain.type = SSHSIG_ED25519;
	plain.application[0] = '\0';
	refuses(&plain, armored, "sshsig.key");
}

/* A reserved field or an unknown hash is refused even where the signature covers it. */
static void
reserved_and_hash_are_strict(void **state)
{
	struct sshsig_key key;
	char armored[TEXT_MAX];
	struct token t;

	(void)state;
	token_make(&t, "ssh:");
	t.said[0] = 1;
	token_key(&t, &key);
	token_armored(&t, "x", "sha512", armored);
	refuses(&key, armored, "sshsig.form");
	token_armored(&t, "", "sha1", armored);
	refuses(&key, armored, "sshsig.hash");
	token_armored(&t, "", "", armored);
	refuses(&key, armored, "sshsig.hash");
	token_armored(&t, "", "sha256", armored); /* named so, but made with sha512 */
	refuses(&key, armored, "sshsig.wrong");
}

/* ${text} as the rest of a good key line. */
static void
line_with(const struct buffer *blob, const char *text, const char *code)
{
	struct sshsig_key key;
	char line[TEXT_MAX];

	key_line("ssh-ed25519", blob, text, line);
	if (code != NULL)
		key_refuses(line, code);
	else
		assert_int_equal(sshsig_key_parse(line, &key, NULL), 0);
}

static void
key_lines_are_strict(void **state)
{
	static const char *const GOOD[] = {"", "\n", "\r\n", " ", "  \n", " a b", " caf\xc3\xa9\n",
	    " \xe2\x82\xac", " \xf0\x9f\x94\x91"};
	static const char *const BAD[] = {"\n\n", "\nx", "\r", "=", " a\tb", " \033[2J", " a\x7f",
	    " \xc3", " \xc3(", " \xc0\xaf", " \xe0\x80\xaf", " \xed\xa0\x80", " \xf4\x90\x80\x80",
	    " \xc2\x9b", " \xff", " \x80", " \xf0\x80\x80\x80", "\t", "\tx"};
	char comment[SSHSIG_COMMENT_MAX + 3];
	struct buffer blob;
	struct token t;
	size_t i;

	(void)state;
	token_make(&t, NULL);
	key_blob(&blob, "ssh-ed25519", &t);
	for (i = 0; i < sizeof(GOOD) / sizeof(GOOD[0]); i++)
		line_with(&blob, GOOD[i], NULL);
	for (i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		line_with(&blob, BAD[i], "sshkey.form");
	memset(comment, 'c', sizeof(comment));
	comment[0] = ' ';
	comment[SSHSIG_COMMENT_MAX + 2] = '\0';
	line_with(&blob, comment, "sshkey.form");
	comment[SSHSIG_COMMENT_MAX + 1] = '\0';
	line_with(&blob, comment, NULL);
	key_refuses("", "sshkey.type");
	key_refuses("ssh-ed25519", "sshkey.form");
	key_refuses("ssh-ed25519 ", "sshkey.form");
	key_refuses("ssh-ed25519 AAAA", "sshkey.form");
	key_refuses("ssh-dss AAAA", "sshkey.type");
}

/* No byte but the 64 of the alphabet stands for six bits of a key, also not one over 0x7f. */
static void
key_base64_is_strict(void **state)
{
	static const char ALPHABET[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	struct sshsig_key key;
	struct buffer blob;
	char line[TEXT_MAX];
	struct token t;
	int c;

	(void)state;
	token_make(&t, NULL);
	key_blob(&blob, "ssh-ed25519", &t);
	key_line("ssh-ed25519", &blob, "", line);
	for (c = 1; c < 256; c++) {
		line[40] = (char)c;
		if (strchr(ALPHABET, c) == NULL)
			assert_int_equal(sshsig_key_parse(line, &key, NULL), -1);
	}
}

/* Every cut of the key's bytes, one too many, and points that are no key. */
static void
key_blobs_are_strict(void **state)
{
	struct buffer blob;
	struct token t;
	size_t i, len;

	(void)state;
	token_make(&t, NULL);
	key_blob(&blob, "ssh-ed25519", &t);
	len = blob.len;
	for (i = 0; i < len; i++) {
		blob.len = i;
		line_with(&blob, "", "sshkey.form");
	}
	blob.len = len;
	add(&blob, "", 1);
	line_with(&blob, "", "sshkey.form");

	memset(t.pk, 0, sizeof(t.pk)); /* of order 4 */
	key_blob(&blob, "ssh-ed25519", &t);
	line_with(&blob, "", "sshkey.form");
	t.pk[0] = 1; /* the neutral element */
	key_blob(&blob, "ssh-ed25519", &t);
	line_with(&blob, "", "sshkey.form");
	memset(t.pk, 0xff, sizeof(t.pk)); /* not reduced */
	key_blob(&blob, "ssh-ed25519", &t);
	line_with(&blob, "", "sshkey.form");
}

static void
applications_are_bounded(void **state)
{
	char name[SSHSIG_APPLICATION_MAX + 2], line[TEXT_MAX], armored[TEXT_MAX];
	struct sshsig_key key;
	struct buffer blob;
	struct token t;
	size_t i;
	static const char *const BAD[] = {"", "ssh:\n", "ssh:\xc3\xa9"};

	(void)state;
	memset(name, 'a', sizeof(name));
	name[SSHSIG_APPLICATION_MAX + 1] = '\0';
	token_make(&t, name);
	key_blob(&blob, SK, &t);
	key_line(SK, &blob, "", line);
	key_refuses(line, "sshkey.form");
	for (i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		t.application = BAD[i];
		key_blob(&blob, SK, &t);
		key_line(SK, &blob, "", line);
		key_refuses(line, "sshkey.form");
	}
	key_blob(&blob, SK, &t);
	blob.len = 0;
	add_text(&blob, SK);
	add_string(&blob, t.pk, sizeof(t.pk));
	add_string(&blob, "ssh:\0x", 6);
	key_line(SK, &blob, "", line);
	key_refuses(line, "sshkey.form");

	/* The longest fits all bounds, of the key and of its signature. */
	name[SSHSIG_APPLICATION_MAX] = '\0';
	t.application = name;
	t.said[0] = 1;
	token_key(&t, &key);
	token_armored(&t, "", "sha512", armored);
	assert_int_equal(verify(&key, armored), 0);
}

/* The fuzzer's target runs, and its promises hold on some thousand mangled inputs. */
static void
fuzz_target_holds(void **state)
{
	uint8_t input[600];
	struct sshsig_key key;
	struct token t;
	char text[TEXT_MAX];
	uint32_t i, n, size;

	(void)state;
	token_make(&t, "ssh:");
	t.said[0] = 1;
	token_key(&t, &key);
	token_armored(&t, "", "sha512", text);
	size = (uint32_t)strlen(text) + 1;
	assert_true(size <= sizeof(input));
	for (i = 0; i < 20000; i++) {
		input[0] = (uint8_t)i;
		memcpy(input + 1, text, size - 1);
		for (n = randombytes_uniform(4); n > 0; n--)
			input[1 + randombytes_uniform(size - 1)] = (uint8_t)randombytes_random();
		assert_int_equal(LLVMFuzzerTestOneInput(input, randombytes_uniform(size + 1)), 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(real_signature_verifies),
	    cmocka_unit_test(other_key_is_refused),
	    cmocka_unit_test(borrowed_name_is_refused),
	    cmocka_unit_test(other_namespace_is_refused),
	    cmocka_unit_test(changed_message_is_refused),
	    cmocka_unit_test(mangled_signature_is_refused),
	    cmocka_unit_test(second_form_is_refused),
	    cmocka_unit_test(line_ends_and_surroundings),
	    cmocka_unit_test(key_reads_as_ssh_keygen_does),
	    cmocka_unit_test(other_types_are_refused),
	    cmocka_unit_test(token_signature_verifies),
	    cmocka_unit_test(token_form_is_the_real_one),
	    cmocka_unit_test(presence_is_required),
	    cmocka_unit_test(token_words_are_signed),
	    cmocka_unit_test(application_is_part_of_the_key),
	    cmocka_unit_test(reserved_and_hash_are_strict),
	    cmocka_unit_test(key_lines_are_strict),
	    cmocka_unit_test(key_base64_is_strict),
	    cmocka_unit_test(key_blobs_are_strict),
	    cmocka_unit_test(applications_are_bounded),
	    cmocka_unit_test(fuzz_target_holds),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
