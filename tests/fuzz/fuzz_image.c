/* fuzz_image.c: any bytes as the name of an image, and as what a held program asks its proxy for.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/image.h"
#include "engine/worker/hold.h"
#include "engine/worker/observe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(int holds)
{
	if (!holds)
		abort();
}

/* What is taken has one form, which is taken as itself. */
static void
ask(const char *text, size_t size)
{
	const struct observe_word word = {text, size};
	static struct observe_args canon, again;
	struct observe_word same;
	struct refusal r;

	if (observe_check("container:pull", 1, &word, &canon, &r) != 0)
		return;
	must(canon.n == 1 && canon.v[0][0] != '-');
	must(canon.v[0][strspn(canon.v[0], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					   "0123456789._-/:@[]")] == '\0');
	same = (struct observe_word){canon.v[0], strlen(canon.v[0])};
	must(observe_check("container:pull", 1, &same, &again, &r) == 0);
	must(strcmp(canon.v[0], again.v[0]) == 0);
}

/* A request to the proxy, held to the places of a pin; and any bytes as that pin. */
static void
connect_to(const char *text, size_t size)
{
	static const char pin[] = "r.example:443:198.51.100.8 2001:db8::9:5000:[2001:db8::9]";
	struct hold_place place;
	const char *target;
	char own[600];
	size_t len;

	if (hold_target(text, size, &target, &len) == 0) {
		must(target >= text && target + len <= text + size);
		if (hold_find(pin, target, len, &place) == 0)
			must(place.count == 1 && (place.port == 443 || place.port == 5000));
	}
	if (size >= sizeof(own))
		return;
	memcpy(own, text, size);
	own[size] = '\0';
	if (hold_find(own, "r.example:443", 13, &place) == 0)
		must(place.count >= 1 && place.count <= HOLD_ADDRESSES && place.port == 443);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image image;
	char *text;

	/* A copy without a NUL behind it, so that a read past its end is seen. */
	if ((text = malloc(size > 0 ? size : 1)) == NULL)
		return 0;
	memcpy(text, data, size);
	if (image_read(text, size, &image) == 0) {
		must(image.at.port > 0 && image.name[0] != '\0');
		must((image.tag[0] == '\0') != (image.digest[0] == '\0'));
	}
	ask(text, size);
	connect_to(text, size);
	free(text);
	return 0;
}
