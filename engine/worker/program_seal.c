/* program_seal.c: a file as bytes that stay what they are. */
#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include "engine/worker/program.h"
#include "engine/write.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

/* Copy and hash.  Return how many bytes it were, or -1. */
static int64_t
copy(int from, int to, int64_t most, crypto_hash_sha256_state *h)
{
	unsigned char buf[65536];
	int64_t total = 0;
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) != 0) {
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 || write(to, buf, (size_t)n) != n)
			return -1;
		crypto_hash_sha256_update(h, buf, (unsigned long long)n);
		if ((total += n) > most) {
			errno = EFBIG;
			return -1;
		}
	}
	return total;
}

/* Nobody changes ${to} any more, where ${rc} says that all is in it.  Return it, or -1 with errno.
 */
static int
seal(int to, int64_t rc, crypto_hash_sha256_state *h, char sha256[PROGRAM_HEX])
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	int error;

	if (rc == -1 || fchmod(to, 0555) == -1 || fcntl(to, F_ADD_SEALS, SEALS) == -1) {
		error = errno;
		close(to);
		errno = error;
		return -1;
	}
	crypto_hash_sha256_final(h, digest);
	sodium_bin2hex(sha256, PROGRAM_HEX, digest, sizeof(digest));
	return to;
}

static int
copy_sealed(int from, int64_t most, char sha256[PROGRAM_HEX])
{
	crypto_hash_sha256_state h;
	int to;

	if ((to = memfd_create("op", MFD_CLOEXEC | MFD_ALLOW_SEALING)) == -1)
		return -1;
	crypto_hash_sha256_init(&h);
	return seal(to, copy(from, to, most, &h), &h, sha256);
}

int
program_seal_bytes(const void *bytes, size_t len, char sha256[PROGRAM_HEX], struct refusal *r)
{
	crypto_hash_sha256_state h;
	int to;

	if ((to = memfd_create("op", MFD_CLOEXEC | MFD_ALLOW_SEALING)) == -1)
		return refusal_errno(r, "manifest.file", "there is no memory for the program");
	crypto_hash_sha256_init(&h);
	crypto_hash_sha256_update(&h, bytes, (unsigned long long)len);
	if ((to = seal(to, write_all(to, bytes, len), &h, sha256)) == -1)
		refusal_errno(r, "manifest.file", "there is no memory for the program");
	return to;
}

int
program_seal(const char *path, int64_t most, char sha256[PROGRAM_HEX], struct refusal *r)
{
	struct stat st;
	int from, to;

	/* A pipe or a device is not waited for. */
	if ((from = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) == -1)
		return refusal_errno(r, "manifest.file", path);
	if (fstat(from, &st) == -1 || !S_ISREG(st.st_mode)) {
		close(from);
		return refusal_set(r, "manifest.file", "%s is no file", path);
	}
	if ((to = copy_sealed(from, most, sha256)) == -1)
		refusal_errno(r, "manifest.file", path);
	close(from);
	return to;
}

bool
program_is_script(int fd)
{
	char head[2];

	return pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) && head[0] == '#' &&
	       head[1] == '!';
}
