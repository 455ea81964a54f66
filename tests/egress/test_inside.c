/* test_inside.c: questions for names, and addresses that stand for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/egress/dns.h"
#include "net/egress/inside.h"

/* "a.Example" of type A, class IN, recursion desired. */
static const uint8_t asked[] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 7, 'E', 'x', 'a',
    'm', 'p', 'l', 'e', 0, 0, 1, 0, 1};

static void
question_and_answer(void **state)
{
	static const struct address address = {
	    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 7}};
	uint8_t out[DNS_MESSAGE_MAX];
	struct dns_question q;
	size_t n;

	(void)state;
	assert_int_equal(dns_read(asked, sizeof(asked), &q), 0);
	assert_string_equal(q.host.text, "a.example");
	assert_int_equal(q.type, DNS_A);
	assert_int_equal(q.len, sizeof(asked));
	n = dns_answer(asked, &q, DNS_OK, &address, out);
	assert_int_equal(n, sizeof(asked) + 16);
	assert_memory_equal(out, "\x12\x34\x81\x80\0\1\0\1\0\0\0\0", 12);
	assert_memory_equal(out + 12, asked + 12, sizeof(asked) - 12);
	assert_memory_equal(out + n - 4, "\xc6\x12\0\7", 4);
	n = dns_answer(asked, &q, DNS_NO_NAME, NULL, out);
	assert_int_equal(n, sizeof(asked));
	assert_int_equal(out[3] & 15, DNS_NO_NAME);
	assert_int_equal(out[7], 0);
}

/* What can be read in two ways, or points elsewhere, is no question. */
static void
what_is_none(void **state)
{
	uint8_t bad[sizeof(asked) + 600] = {0};
	struct dns_question q;
	size_t len;

	(void)state;
	for (len = 0; len < sizeof(asked); len++)
		assert_int_equal(dns_read(asked, len, &q), -1);
#define SPOILT(at, value)                                               \
	do {                                                            \
		memcpy(bad, asked, sizeof(asked));                      \
		bad[at] = (value);                                      \
		assert_int_equal(dns_read(bad, sizeof(asked), &q), -1); \
	} while (0)
	SPOILT(2, 0x81);  /* an answer */
	SPOILT(2, 0x29);  /* an update */
	SPOILT(5, 2);     /* two questions */
	SPOILT(7, 1);     /* an answer in it */
	SPOILT(12, 0xc0); /* a pointer */
	SPOILT(12, 64);   /* a label that is too long */
	SPOILT(14, 63);   /* and one past the end */
	SPOILT(15, 0);    /* a NUL in a name */
	SPOILT(15, '.');  /* a dot in a label */
	memcpy(bad, asked, sizeof(asked));
	assert_int_equal(dns_read(bad, sizeof(bad), &q), -1);
	/* A name that no host has is answered with: there is none. */
	bad[15] = ' ';
	assert_int_equal(dns_read(bad, sizeof(asked), &q), 0);
	assert_string_equal(q.host.text, "");
}

static void
names_and_addresses(void **state)
{
	const struct inside_config config = {.names = 100, .dns = -1, .caught = -1};
	struct refusal r;
	struct inside *in = inside_new(&config, &r);
	struct address first, a, b;
	char name[32], text[ADDRESS_TEXT_MAX + 1];
	int i;

	(void)state;
	assert_non_null(in);
	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d.example", i);
		assert_int_equal(inside_address(in, name, &a), 0);
		assert_int_equal(inside_address(in, name, &b), 0);
		assert_memory_equal(&a, &b, sizeof(a));
		assert_string_equal(inside_name(in, &a), name);
		if (i == 0)
			first = a;
	}
	address_text(&first, text);
	assert_string_equal(text, "198.18.0.1");
	assert_int_equal(inside_address(in, "one.more", &a), -1);
	assert_int_equal(inside_address(in, "n0.example", &a), 0);
	assert_string_equal(inside_name(in, &first), "n0.example");
	assert_int_equal(address_parse("198.18.0.0", &a), 0);
	assert_null(inside_name(in, &a));
	assert_int_equal(address_parse("198.18.0.101", &a), 0);
	assert_null(inside_name(in, &a));
	assert_int_equal(address_parse("192.0.2.1", &a), 0);
	assert_null(inside_name(in, &a));
	inside_free(in);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(question_and_answer),
	    cmocka_unit_test(what_is_none),
	    cmocka_unit_test(names_and_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
