/* image.h: an image of containers, as it is named in full: registry, repository, and a tag or a
 * digest. */
#ifndef ENGINE_IMAGE_H
#define ENGINE_IMAGE_H

#include "engine/destination.h"

#define IMAGE_NAME_MAX   255 /* bytes of registry and repository */
#define IMAGE_TAG_MAX    128
#define IMAGE_DIGEST_MAX 71 /* "sha256:" and its digits */
#define IMAGE_TEXT_MAX   (IMAGE_NAME_MAX + 1 + IMAGE_TAG_MAX)

struct image {
	struct destination at;             /* the registry */
	char name[IMAGE_NAME_MAX + 1];     /* REGISTRY/REPOSITORY, the port where it is needed */
	char tag[IMAGE_TAG_MAX + 1];       /* "": it has a digest */
	char digest[IMAGE_DIGEST_MAX + 1]; /* sha256:…; "": it has a tag */
};

/**
 * image_read(text, len, image):
 * Read ${len} bytes as REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST, by the grammar
 * of the OCI distribution specification (pulling manifests) and of Docker's references for the
 * registry: a name with a dot or a port, or an address.  Neither a registry nor a tag is made up
 * where none is said, and not both of tag and digest are taken.  Return 0 or -1.
 */
int image_read(const char *text, size_t len, struct image *image);

/**
 * image_digest_read(text, len):
 * Whether ${len} bytes are "sha256:" and 64 small hexadecimal digits.
 */
int image_digest_read(const char *text, size_t len);

#endif
