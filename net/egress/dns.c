/* dns.c: questions for names and their answers. */
#include <string.h>

#include "net/egress/dns.h"

#define HEADER        12
#define LABEL_MAX     63
#define WIRE_NAME_MAX 255 /* of a name on the wire */
#define TTL           1

enum { RESPONSE = 0x80, OPCODE = 0x78, TRUNCATED = 0x02, DESIRED = 0x01, AVAILABLE = 0x80 };

static uint16_t
u16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void
put_u16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* Copy the name at ${at} as text.  Return its length on the wire, or 0 where it is none. */
static size_t
name_read(const uint8_t *at, size_t left, char text[WIRE_NAME_MAX + 1])
{
	size_t n = 0, label;

	for (;;) {
		if (n >= left || n >= WIRE_NAME_MAX || at[n] > LABEL_MAX)
			return 0;
		label = at[n];
		if (label == 0)
			break;
		if (n + 1 + label >= left || n + 1 + label >= WIRE_NAME_MAX ||
		    memchr(at + n + 1, '\0', label) != NULL ||
		    memchr(at + n + 1, '.', label) != NULL)
			return 0;
		memcpy(text + n, at + n + 1, label);
		text[n + label] = '.';
		n += label + 1;
	}
	text[n > 0 ? n - 1 : 0] = '\0';
	return n + 1;
}

int
dns_read(const uint8_t *message, size_t len, struct dns_question *q)
{
	char text[WIRE_NAME_MAX + 1];
	size_t n;

	if (len < HEADER || len > DNS_MESSAGE_MAX || (message[2] & (RESPONSE | OPCODE)) != 0 ||
	    (message[2] & TRUNCATED) != 0 || u16(message + 4) != 1 || u16(message + 6) != 0)
		return -1;
	if ((n = name_read(message + HEADER, len - HEADER, text)) == 0 || HEADER + n + 4 > len)
		return -1;
	q->type = u16(message + HEADER + n);
	q->class = u16(message + HEADER + n + 2);
	q->len = HEADER + n + 4;
	if (host_read(text, strlen(text), &q->host, NULL) != 0 || q->host.kind != ENDPOINT_NAME)
		q->host.text[0] = '\0';
	return 0;
}

size_t
dns_answer(const uint8_t *message, const struct dns_question *q, enum dns_code code,
    const struct address *address, uint8_t out[DNS_MESSAGE_MAX])
{
	static const uint8_t record[] = {
	    0xc0, HEADER, 0, DNS_A, 0, 1, 0, 0, 0, TTL, 0, 4}; /* the name of the question */
	size_t len = q->len;

	memcpy(out, message, len);
	out[2] = (uint8_t)(RESPONSE | (message[2] & DESIRED));
	out[3] = (uint8_t)(AVAILABLE | code);
	put_u16(out + 6, address != NULL);
	memset(out + 8, 0, 4);
	if (address == NULL || len + sizeof(record) + 4 > DNS_MESSAGE_MAX)
		return len;
	memcpy(out + len, record, sizeof(record));
	memcpy(out + len + sizeof(record), address->b + 12, 4);
	return len + sizeof(record) + 4;
}
