/* vet.c: the order of judgement, and its words. */
#include <stdio.h>
#include <string.h>

#include "net/egress/vet.h"

int
vet_host(const struct host *host, struct refusal *r)
{
	static const char local[] = "localhost";
	size_t len = strlen(host->text), tail = sizeof(local) - 1;

	if (host->kind == ENDPOINT_NAME && len >= tail &&
	    strcmp(host->text + len - tail, local) == 0 &&
	    (len == tail || host->text[len - tail - 1] == '.'))
		return refusal_set(r, "egress.this_machine", "that name is this machine");
	return 0;
}

static int
refuse_class(struct class_found found, const char *where, struct refusal *r)
{
	char code[REFUSAL_CODE_MAX];

	snprintf(code, sizeof(code), "egress.%s", class_name(found.class));
	return refusal_set(r, code, "that is no public address but %s: %s", found.why, where);
}

/* What is no address of anybody's network: refused before anything is asked about this machine. */
static bool is_near(enum class class)
{
	return class != CLASS_PUBLIC && class != CLASS_NETWORK;
}

static int
vet_class(const struct vet *vet, const struct address *a, bool near, struct refusal *r)
{
	struct class_found found = class_of(vet->classes, a);

	if (found.class == CLASS_PUBLIC || is_near(found.class) != near)
		return 0;
	if (vet->anchored)
		return refuse_class(found,
		    "nothing but the internet is reached by a Host, and that only on an anchored machine",
		    r);
	return refuse_class(
	    found, near ? "it is never reached" : "networks are reached by approved lanes", r);
}

int
vet_addresses(const struct vet *vet, const struct address *addresses, size_t n, struct refusal *r)
{
	size_t i;

	if (n == 0)
		return refusal_set(r, "egress.resolve", "could not resolve that name");
	for (i = 0; i < n; i++)
		if (vet_class(vet, &addresses[i], true, r) != 0 ||
		    (vet->anchored && vet_class(vet, &addresses[i], false, r) != 0))
			return -1;
	if (!vet->own->known)
		return refusal_set(r, "egress.own_unknown",
		    "cannot tell whether that is itself: the kernel does not say what this machine's"
		    " addresses are");
	for (i = 0; i < n; i++)
		if (own_has(vet->own, &addresses[i]))
			return refusal_set(r, "egress.own", "that is this machine");
	for (i = 0; i < n; i++)
		if (vet_class(vet, &addresses[i], false, r) != 0)
			return -1;
	return 0;
}
