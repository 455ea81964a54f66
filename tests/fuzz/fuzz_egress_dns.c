/* fuzz_egress_dns.c: any bytes as a question for a name; its answer is one to that question. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/egress/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct address address = {
	    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1}};
	uint8_t out[DNS_MESSAGE_MAX], *copy;
	struct dns_question q;
	size_t n;

	/* A copy without anything behind it, so that a read past its end is seen. */
	if (size == 0 || (copy = malloc(size)) == NULL)
		return 0;
	memcpy(copy, data, size);
	if (dns_read(copy, size, &q) == 0) {
		if (q.len > size || strlen(q.host.text) > ENDPOINT_HOST_MAX)
			abort();
		n = dns_answer(copy, &q, DNS_OK, &address, out);
		if (n < q.len || n > DNS_MESSAGE_MAX || memcmp(out, copy, 2) != 0 ||
		    memcmp(out + 12, copy + 12, q.len - 12) != 0 || dns_read(out, n, &q) == 0)
			abort();
	}
	free(copy);
	return 0;
}
