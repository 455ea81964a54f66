/* chunk.h: a chunked body (RFC 9112 §7.1), read as it comes and written anew. */
#ifndef NET_EGRESS_CHUNK_H
#define NET_EGRESS_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#define CHUNK_LINE_MAX    4096 /* bytes of a size line or a trailer line */
#define CHUNK_TRAILER_MAX 8192 /* bytes of the whole trailer section */
#define CHUNK_GROWTH      64   /* chunk_feed writes at most this much more than it reads */

enum chunk_state {
	CHUNK_SIZE,
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_TRAILER,
	CHUNK_TRAILER_LF,
	CHUNK_DONE
};

/* Zeroed at the beginning. */
struct chunk {
	enum chunk_state state;
	uint64_t left;  /* of the chunk's data */
	size_t digits;  /* of the size */
	size_t line;    /* bytes of the line so far */
	size_t trailer; /* bytes of the trailer so far */
};

/**
 * chunk_feed(chunk, in, len, out, out_len):
 * Read up to ${len} bytes and write what they stand for in ${out}, which has room for ${len} and
 * CHUNK_GROWTH bytes: plain sizes, no extensions, no trailer.  Store its length in ${*out_len}.
 * Return how many bytes were read, fewer than ${len} only where the body ended (state CHUNK_DONE);
 * or -1 where this is no chunked body.
 */
long chunk_feed(struct chunk *chunk, const char *in, size_t len, char *out, size_t *out_len);

/**
 * chunk_data(chunk, in, len, out, out_len):
 * As chunk_feed, but write the data alone; ${out} has room for ${len}.
 */
long chunk_data(struct chunk *chunk, const char *in, size_t len, char *out, size_t *out_len);

#endif
