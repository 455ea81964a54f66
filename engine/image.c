/* image.c: REGISTRY/REPOSITORY:TAG or @sha256:DIGEST, strictly. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/ascii.h"
#include "engine/image.h"

static bool
is_small(char c)
{
	return ascii_is_digit(c) || (c >= 'a' && c <= 'z');
}

/* How many bytes of the ${len} separate two words of a repository: one of . _ __ and any number of
 * dashes; 0: none that may. */
static size_t
separator(const char *text, size_t len)
{
	size_t n = 0;

	if (text[0] == '-') {
		while (n < len && text[n] == '-')
			n++;
		return n;
	}
	if (text[0] != '.' && text[0] != '_')
		return 0;
	return text[0] == '_' && len > 1 && text[1] == '_' ? 2 : 1;
}

/* One or more parts with a "/" between them, each of words of small letters and digits. */
static bool
is_repository(const char *text, size_t len)
{
	size_t i = 0, n;

	for (;;) {
		if (i == len || !is_small(text[i]))
			return false;
		while (i < len && is_small(text[i]))
			i++;
		if (i == len)
			return true;
		n = text[i] == '/' ? 1 : separator(text + i, len - i);
		if (n == 0)
			return false;
		i += n;
	}
}

static bool
is_tag(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (!ascii_is_letter(text[i]) && !ascii_is_digit(text[i]) && text[i] != '_' &&
		    (i == 0 || (text[i] != '.' && text[i] != '-')))
			return false;
	return len >= 1 && len <= IMAGE_TAG_MAX;
}

int
image_digest_read(const char *text, size_t len)
{
	static const char algorithm[] = "sha256:";
	size_t i, skip = sizeof(algorithm) - 1;

	if (len != IMAGE_DIGEST_MAX || memcmp(text, algorithm, skip) != 0)
		return 0;
	for (i = skip; i < len; i++)
		if (!ascii_is_digit(text[i]) && (text[i] < 'a' || text[i] > 'f'))
			return 0;
	return 1;
}

/* Labels of letters, digits and dashes within. */
static bool
is_domain(const char *name)
{
	const char *end;

	for (;; name = end + 1) {
		end = name + strcspn(name, ".");
		if (end == name || *name == '-' || end[-1] == '-' ||
		    memchr(name, '_', (size_t)(end - name)) != NULL)
			return false;
		if (*end == '\0')
			return true;
	}
}

/* A registry has a dot or a port: what has neither is a part of a repository elsewhere. */
static int
registry_read(const char *text, size_t len, struct destination *d)
{
	if (destination_read(text, len, d) != 0)
		return -1;
	if (d->host.kind != ENDPOINT_NAME)
		return 0;
	if (strchr(d->host.text, '.') == NULL && memchr(text, ':', len) == NULL)
		return -1;
	return is_domain(d->host.text) ? 0 : -1;
}

static int
name_write(struct image *image, const char *repository, size_t len)
{
	const char *host = image->at.host.text;
	bool six = image->at.host.kind == ENDPOINT_IPV6;
	/* A name of one label is a registry by its port alone. */
	bool one = image->at.host.kind == ENDPOINT_NAME && strchr(host, '.') == NULL;
	char port[8] = "";
	int n;

	if (one || image->at.port != DESTINATION_PORT)
		snprintf(port, sizeof(port), ":%d", image->at.port);
	n = snprintf(image->name, sizeof(image->name), "%s%s%s%s/%.*s", six ? "[" : "", host,
	    six ? "]" : "", port, (int)len, repository);
	return n > 0 && (size_t)n < sizeof(image->name) ? 0 : -1;
}

int
image_read(const char *text, size_t len, struct image *image)
{
	const char *slash, *mark, *end = text + len;
	size_t rest;

	memset(image, 0, sizeof(*image));
	if (len > IMAGE_TEXT_MAX || (slash = memchr(text, '/', len)) == NULL ||
	    registry_read(text, (size_t)(slash - text), &image->at) != 0)
		return -1;
	slash++;
	if ((mark = memchr(slash, '@', (size_t)(end - slash))) == NULL &&
	    (mark = memchr(slash, ':', (size_t)(end - slash))) == NULL)
		return -1;
	rest = (size_t)(end - mark) - 1;
	if (!is_repository(slash, (size_t)(mark - slash)) ||
	    name_write(image, slash, (size_t)(mark - slash)) != 0)
		return -1;
	if (*mark == '@' ? !image_digest_read(mark + 1, rest) : !is_tag(mark + 1, rest))
		return -1;
	memcpy(*mark == '@' ? image->digest : image->tag, mark + 1, rest);
	return 0;
}
