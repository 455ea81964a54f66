/* address.c: what is looked up and dialled is read here, in one way. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "engine/address.h"
#include "engine/ascii.h"

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

int
address_parse(const char *text, struct address *a)
{
	memcpy(a->b, mapped, sizeof(mapped));
	if (inet_pton(AF_INET, text, a->b + sizeof(mapped)) == 1)
		return 0;
	return inet_pton(AF_INET6, text, a->b) == 1 ? 0 : -1;
}

int
address_is_ipv4(const struct address *a)
{
	return memcmp(a->b, mapped, sizeof(mapped)) == 0;
}

void
address_text(const struct address *a, char out[ADDRESS_TEXT_MAX + 1])
{
	if (address_is_ipv4(a))
		inet_ntop(AF_INET, a->b + sizeof(mapped), out, ADDRESS_TEXT_MAX + 1);
	else
		inet_ntop(AF_INET6, a->b, out, ADDRESS_TEXT_MAX + 1);
}

socklen_t
address_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memset(out, 0, sizeof(*out));
	if (address_is_ipv4(a)) {
		memcpy(&four.sin_addr, a->b + sizeof(mapped), 4);
		memcpy(out, &four, sizeof(four));
		return sizeof(four);
	}
	memcpy(&six.sin6_addr, a->b, 16);
	memcpy(out, &six, sizeof(six));
	return sizeof(six);
}

static int
refuse(struct refusal *r, const char *why)
{
	return refusal_set(r, "egress.authority", "the host cannot be read: %s", why);
}

static int
labels_fit(const char *name)
{
	size_t len;

	for (;; name += len + 1) {
		if ((len = strcspn(name, ".")) == 0 || len > ENDPOINT_LABEL_MAX)
			return 0;
		if (name[len] == '\0')
			return 1;
	}
}

/* Copy with ASCII letters in lower case; others would let U+212A pass for a k. */
static int
copy_lower(const char *text, size_t len, char *out, const char *also)
{
	size_t i;

	for (i = 0; i < len; i++) {
		char c = text[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (!ascii_is_letter(c) && !ascii_is_digit(c) &&
		    (c == '\0' || strchr(also, c) == NULL))
			return -1;
		out[i] = c;
	}
	out[len] = '\0';
	return 0;
}

static int
literal_read(struct host *h, int family, struct refusal *r)
{
	char text[ADDRESS_TEXT_MAX + 1];

	if (address_parse(h->text, &h->address) != 0)
		return refuse(r, family == AF_INET ? "what ends in a number is four decimal numbers"
						   : "it is no IPv6 address");
	h->kind = address_is_ipv4(&h->address) ? ENDPOINT_IPV4 : ENDPOINT_IPV6;
	address_text(&h->address, text);
	memcpy(h->text, text, sizeof(text));
	return 0;
}

int
host_read(const char *text, size_t len, struct host *h, struct refusal *r)
{
	if (len == 0)
		return refuse(r, "it is empty");
	if (memchr(text, ':', len) != NULL) {
		if (len > ADDRESS_TEXT_MAX || copy_lower(text, len, h->text, ":.") != 0)
			return refuse(r, "it is no IPv6 address");
		return literal_read(h, AF_INET6, r);
	}
	if (text[len - 1] == '.')
		len--;
	if (len > ENDPOINT_HOST_MAX)
		return refuse(r, "it is longer than any");
	if (copy_lower(text, len, h->text, "-._") != 0)
		return refuse(r, "a name has letters, digits, dots, - and _");
	if (!labels_fit(h->text))
		return refuse(r, "each label of a name has 1 to 63 characters");
	if (endpoint_host_is_number(h->text))
		return literal_read(h, AF_INET, r);
	h->kind = ENDPOINT_NAME;
	return 0;
}
