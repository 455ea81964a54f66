/* fuzz_destination.c: any bytes as where a verb reaches out to; what is taken has one host and one
 * port. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/destination.h"
#include "engine/worker/observe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(int holds)
{
	if (!holds)
		abort();
}

/* The words of verbs that reach out: what passes names a destination. */
static void
ask(const char *op, const char *first, const char *text, size_t size)
{
	const struct observe_word words[] = {{first, strlen(first)}, {text, size}};
	static struct observe_args canon;
	struct destination d;
	struct refusal r;

	if (observe_check(op, 2, words, &canon, &r) != 0)
		return;
	must(canon.n == 2 && canon.pin[0] == '\0' && strlen(canon.v[1]) == size);
	must(destination_read(canon.v[1], size, &d) == 0);
	must(canon.v[1][strspn(canon.v[1], " \t\n@?#\\")] != '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct destination d;
	struct host again;
	char *text;

	/* A copy without a NUL behind it, so that a read past its end is seen. */
	if ((text = malloc(size > 0 ? size : 1)) == NULL)
		return 0;
	memcpy(text, data, size);
	if (destination_read(text, size, &d) == 0) {
		must(d.port > 0 && d.host.text[0] != '\0');
		must(strlen(d.host.text) <= ENDPOINT_HOST_MAX);
		must(strspn(d.host.text, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") ==
		     strlen(d.host.text));
		must(host_read(d.host.text, strlen(d.host.text), &again, NULL) == 0);
		must(strcmp(d.host.text, again.text) == 0 && d.host.kind == again.kind);
	}
	ask("git:fetch", "/srv/tree", text, size);
	ask("k8s:set_image", "a/b/c", text, size);
	free(text);
	return 0;
}
