/* dns.h: questions for names, read strictly, and their answers (RFC 1035 §4). */
#ifndef NET_EGRESS_DNS_H
#define NET_EGRESS_DNS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/address.h"

#define DNS_MESSAGE_MAX 512 /* RFC 1035 §2.3.4; of a question over UDP, and of our answers */

enum dns_type { DNS_A = 1 };
enum dns_code { DNS_OK = 0, DNS_FAILED = 2, DNS_NO_NAME = 3 };

struct dns_question {
	struct host host; /* a name; "" where the question is for none that a host can have */
	uint16_t type, class;
	size_t len; /* of header and question in the message */
};

/**
 * dns_read(message, len, question):
 * Read a message with one question, and nothing that is pointed to.  Return 0; or -1 where it is
 * none, and there is nothing to say.
 */
int dns_read(const uint8_t *message, size_t len, struct dns_question *question);

/**
 * dns_answer(message, question, code, address, out):
 * Write the answer to ${message}, which dns_read took: with the IPv4 ${address} for one second, or
 * with nothing where it is NULL.  Return its length.
 */
size_t dns_answer(const uint8_t *message, const struct dns_question *question, enum dns_code code,
    const struct address *address, uint8_t out[DNS_MESSAGE_MAX]);

#endif
