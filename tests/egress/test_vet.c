/* test_vet.c: what an address is, in rows and compiled; and what is dialled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "engine/state/process.h"
#include "net/egress/authority.h"
#include "net/egress/vet.h"
#include "tests/scratch.h"

static struct scratch s;
static struct classes *classes;
static struct own own;

static const char SQL_CLASS[] =
    "SELECT CASE WHEN c.embed IS NULL THEN c.class ELSE"
    "  (SELECT e.class FROM address_class AS e WHERE"
    "    CAST(x'00000000000000000000ffff' || substr(:ip, c.embed + 1, 4) AS BLOB)"
    "    BETWEEN e.first AND e.last ORDER BY e.prio LIMIT 1) END"
    "  FROM address_class AS c WHERE :ip BETWEEN c.first AND c.last ORDER BY c.prio LIMIT 1";

static int
set_up(void **state)
{
	struct refusal r;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_EGRESS);
	classes = class_load(s.db, &r);
	return classes != NULL ? 0 : -1;
}

static int
tear_down(void **state)
{
	(void)state;
	class_free(classes);
	own_free(&own);
	scratch_drop(&s);
	return 0;
}

/* The test's own addresses: loopback, a network card, and a range that a route delivers here. */
static void
own_is(bool known)
{
	static const char *const ranges[][2] = {{"127.0.0.0", "127.255.255.255"}, {"::1", "::1"},
	    {"192.168.50.7", "192.168.50.7"}, {"203.0.113.0", "203.0.113.255"}};
	size_t i;

	own_free(&own);
	own.known = known;
	own.n = sizeof(ranges) / sizeof(ranges[0]);
	assert_non_null(own.ranges = calloc(own.n, sizeof(*own.ranges)));
	for (i = 0; i < own.n; i++) {
		assert_int_equal(address_parse(ranges[i][0], &own.ranges[i].first), 0);
		assert_int_equal(address_parse(ranges[i][1], &own.ranges[i].last), 0);
	}
	/* own_has wants them sorted. */
	for (i = 1; i < own.n; i++)
		if (memcmp(&own.ranges[i - 1], &own.ranges[i], 16) > 0) {
			struct own_range swap = own.ranges[i];

			own.ranges[i] = own.ranges[i - 1];
			own.ranges[i - 1] = swap;
			i = 0;
		}
}

static enum class class_named(const char *text) {
	struct address a;

	assert_int_equal(address_parse(text, &a), 0);
	return class_of(classes, &a).class;
}

/* What the rows say, by the SQL that the triggers use. */
static void
sql_agrees(const struct address *a)
{
	const char *name = class_name(class_of(classes, a).class);
	char text[ADDRESS_TEXT_MAX + 1];
	struct stmt *q;

	assert_non_null(q = store_sql(s.db, SQL_CLASS));
	stmt_blob(q, ":ip", a->b, 16);
	assert_int_equal(stmt_step(q), 1);
	if (strcmp(stmt_get_text(q, 0), name) != 0) {
		address_text(a, text);
		fail_msg("%s: %s in rows, %s compiled", text, stmt_get_text(q, 0), name);
	}
	stmt_done(q);
}

/* EG-49: EG-50: EG-51: EG-52: EG-53: EG-54: EG-55: EG-56: EG-57: EG-58: EG-59: EG-60: IPv4 borders.
 * EG-61: EG-62: EG-63: EG-64: EG-65: EG-66: EG-67: IPv6 borders.
 * EG-68: EG-69: EG-70: EG-71: EG-72: addresses that carry another. */
static void
classes_have_their_borders(void **state)
{
	static const struct {
		const char *text;
		enum class class;
	} all[] = {{"100.63.255.255", CLASS_PUBLIC}, {"100.64.0.0", CLASS_NETWORK},
	    {"100.127.255.255", CLASS_NETWORK}, {"100.128.0.0", CLASS_PUBLIC},
	    {"198.17.255.255", CLASS_PUBLIC}, {"198.18.0.0", CLASS_NETWORK},
	    {"198.19.255.255", CLASS_NETWORK}, {"198.20.0.0", CLASS_PUBLIC},
	    {"172.15.255.255", CLASS_PUBLIC}, {"172.31.255.255", CLASS_NETWORK},
	    {"172.32.0.1", CLASS_PUBLIC}, {"255.255.255.255", CLASS_NETWORK},
	    {"febf::1", CLASS_LINK}, {"fec0::", CLASS_OBSOLETE}, {"feff:1::9", CLASS_OBSOLETE},
	    {"fe00::1", CLASS_PUBLIC}, {"ff02::1", CLASS_LINK}, {"ff12::1", CLASS_LINK},
	    {"ff05::1", CLASS_NETWORK}, {"2002:c633:6408::1", CLASS_PUBLIC},
	    {"64:ff9b::c633:6408", CLASS_PUBLIC}, {"64:ff9b:0:0:0:1::1", CLASS_UNREADABLE},
	    {"::2", CLASS_OBSOLETE}, {"2001:db8::8", CLASS_PUBLIC}, {"169.254.169.254", CLASS_LINK},
	    {"0.0.0.0", CLASS_THIS_MACHINE}, {"0.1.2.3", CLASS_THIS_MACHINE},
	    {"::", CLASS_THIS_MACHINE}, {"::1", CLASS_THIS_MACHINE}, {"224.0.0.251", CLASS_LINK},
	    {"239.1.1.1", CLASS_NETWORK}, {"64:ff9b::7f00:1", CLASS_THIS_MACHINE},
	    {"2002:a00:1::", CLASS_NETWORK}, {"::ffff:10.0.0.1", CLASS_NETWORK},
	    {"fd00:ec2::254", CLASS_NETWORK}};
	struct address a;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (class_named(all[i].text) != all[i].class)
			fail_msg("%s is %s", all[i].text, class_name(class_named(all[i].text)));
		address_parse(all[i].text, &a);
		sql_agrees(&a);
	}
}

/* The text of a prefix and its bytes say the same. */
static void
rows_say_what_they_show(void **state)
{
	struct stmt *q;
	int n = 0;

	(void)state;
	assert_non_null(q = store_sql(s.db, "SELECT prefix, first, last FROM address_class"));
	for (; stmt_step(q) == 1; n++) {
		char text[64];
		struct address first, last;
		int length, i;
		char *slash;

		snprintf(text, sizeof(text), "%s", stmt_get_text(q, 0));
		assert_non_null(slash = strchr(text, '/'));
		*slash = '\0';
		assert_int_equal(address_parse(text, &first), 0);
		length = atoi(slash + 1) + (strchr(text, ':') == NULL ? 96 : 0);
		last = first;
		for (i = length; i < 128; i++) {
			assert_int_equal(first.b[i / 8] & (0x80 >> (i % 8)), 0);
			last.b[i / 8] |= (uint8_t)(0x80 >> (i % 8));
		}
		assert_memory_equal(stmt_get_blob(q, 1, 16), first.b, 16);
		assert_memory_equal(stmt_get_blob(q, 2, 16), last.b, 16);
	}
	assert_true(n > 30);
}

/* The compiled form is the rows: at each border, beside it, and anywhere. */
static void
compiled_classes_are_the_rows(void **state)
{
	static struct address borders[256];
	struct address a;
	struct stmt *q;
	size_t n = 0, i;
	int step, at;

	(void)state;
	assert_non_null(q = store_sql(s.db, "SELECT first, last FROM address_class"));
	while (stmt_step(q) == 1 && n + 2 <= 256) {
		memcpy(borders[n++].b, stmt_get_blob(q, 0, 16), 16);
		memcpy(borders[n++].b, stmt_get_blob(q, 1, 16), 16);
	}
	for (i = 0; i < n; i++)
		for (step = -1; step <= 1; step++) {
			a = borders[i];
			for (at = 15; step != 0 && at >= 0; at--) {
				a.b[at] = (uint8_t)(a.b[at] + step);
				if (a.b[at] != (step == 1 ? 0 : 255))
					break;
			}
			sql_agrees(&a);
		}
	for (i = 0; i < 20000; i++) {
		randombytes_buf(a.b, 16);
		/* Half of them near a border, a third of those mapped. */
		if (i % 2 == 0)
			memcpy(a.b, borders[i % n].b, 2 + i % 13);
		if (i % 6 == 0)
			memcpy(a.b, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
		sql_agrees(&a);
	}
}

/* Vet what a resolver said, in one text: "198.51.100.8 127.0.0.1". */
static int
vet_texts(const char *texts, bool anchored, struct refusal *r)
{
	const struct vet vet = {.classes = classes, .own = &own, .anchored = anchored};
	struct address all[8];
	char copy[256], *word, *rest = copy;
	size_t n = 0;

	snprintf(copy, sizeof(copy), "%s", texts);
	while ((word = strsep(&rest, " ")) != NULL)
		if (*word != '\0')
			assert_int_equal(address_parse(word, &all[n++]), 0);
	return vet_addresses(&vet, all, n, r);
}

/* Vet a destination as a request names it, which needs no resolver. */
static int
vet_literal(const char *text, bool anchored, struct refusal *r)
{
	const struct vet vet = {.classes = classes, .own = &own, .anchored = anchored};
	struct authority a;

	assert_int_equal(authority_parse(text, strlen(text), 80, &a, NULL), 0);
	if (vet_host(&a.host, r) != 0)
		return -1;
	assert_int_not_equal(a.host.kind, ENDPOINT_NAME);
	return vet_addresses(&vet, &a.host.address, 1, r);
}

/* EG-1: EG-2: EG-3: EG-4: EG-5: EG-6: EG-7: EG-8: this machine, however it is written.
 * EG-9: EG-10: EG-11: EG-12: as an address within another. EG-13: EG-14: what is on the link.
 * EG-15: EG-16: addresses that are only known to be here by asking. */
static void
this_machine_is_refused(void **state)
{
	static const char *const all[] = {"127.0.0.1:11434", "127.9.9.9:80", "localhost:11434",
	    "ollama.localhost:80", "[::1]:11434", "0.0.0.0:11434", "0.1.2.3:80", "[::]:80",
	    "[::ffff:127.0.0.1]:11434", "[64:ff9b::7f00:1]:11434", "[2002:7f00:1::]:80",
	    "[64:ff9b:1::5]:80", "169.254.169.254:80", "[fe80::1]:80", "192.168.50.7:11434",
	    "203.0.113.5:80"};
	struct refusal r;
	size_t i;

	(void)state;
	own_is(true);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (vet_literal(all[i], false, &r) == 0)
			fail_msg("%s passes", all[i]);
	vet_literal("192.168.50.7:1", false, &r);
	assert_string_equal(r.code, "egress.own");
	vet_literal("203.0.113.5:80", false, &r);
	assert_string_equal(r.code, "egress.own");
}

/* EG-17: EG-18: EG-19: EG-20: names that answer with this machine, also beside another address. */
static void
names_of_this_machine_are_refused(void **state)
{
	struct refusal r;

	(void)state;
	own_is(true);
	assert_int_equal(vet_texts("127.0.0.1", false, &r), -1);
	assert_int_equal(vet_texts("198.51.100.8 127.0.0.1", false, &r), -1);
	assert_int_equal(vet_texts("192.168.50.7", false, &r), -1);
	assert_string_equal(r.code, "egress.own");
	assert_int_equal(vet_texts("", false, &r), -1);
	assert_string_equal(r.code, "egress.resolve");
	assert_non_null(strstr(r.why, "could not resolve"));
}

/* EG-21: EG-22: EG-23: EG-24: EG-25: EG-26: networks. EG-27: EG-28: EG-29: EG-30: EG-31: EG-32:
 * as names and within other addresses; all are told of approved lanes. */
static void
networks_are_for_approved_lanes(void **state)
{
	static const char *const literals[] = {"192.168.50.20:8080", "10.1.2.3:443",
	    "172.16.4.4:22", "[fd12:3456::9]:80", "100.64.0.9:80", "198.18.0.1:80",
	    "[64:ff9b::a01:203]:443"};
	static const char *const names[] = {
	    "192.168.50.30", "198.51.100.8 10.1.2.3", "fd12:3456::9", "64:ff9b::a01:203"};
	struct refusal r;
	size_t i;

	(void)state;
	own_is(true);
	for (i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
		assert_int_equal(vet_literal(literals[i], false, &r), -1);
		assert_non_null(strstr(r.why, "approved lanes"));
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(vet_texts(names[i], false, &r), -1);
		assert_non_null(strstr(r.why, "approved lanes"));
	}
	assert_int_equal(vet_texts("198.51.100.8", false, &r), 0);
}

/* EG-36: EG-37: EG-38: EG-39: on an anchored machine the same is refused in other words.
 * EG-33: a public address passes. EG-40: a local machine refuses its own and its network, too.
 * HO-3, HO-4: the same, of a name for this machine and of the addresses. */
static void
anchored_machines_say_it_otherwise(void **state)
{
	static const char *const all[] = {"192.168.50.20:8080", "10.1.2.3:443", "127.0.0.1:11434"};
	struct refusal r;
	size_t i;

	(void)state;
	own_is(true);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_int_equal(vet_literal(all[i], true, &r), -1);
		assert_non_null(strstr(r.why, "only on an anchored machine"));
	}
	assert_int_equal(vet_literal("localhost:80", true, &r), -1);
	assert_int_equal(vet_literal("198.51.100.8:443", true, &r), 0);
	assert_int_equal(vet_literal("198.51.100.8:443", false, &r), 0);
	assert_int_equal(vet_literal("127.0.0.1:11434", false, &r), -1);
	assert_int_equal(vet_literal("192.168.1.1:80", false, &r), -1);
}

/* EG-41: EG-42: EG-43: EG-44: EG-45: EG-46: EG-47: obsolete forms, on every lane.
 * EG-48: and beside a good address. CE-4: one classifier for all lanes. */
static void
obsolete_forms_are_refused(void **state)
{
	static const char *const all[] = {"[::c633:6408]:443", "[::7f00:1]:11434",
	    "[::c0a8:3214]:80", "[::ffff:0:c633:6408]:443", "[::ffff:0:7f00:1]:80", "[fec0::5]:80",
	    "[feff:1::9]:443"};
	struct refusal r;
	size_t i;
	int anchored;

	(void)state;
	own_is(true);
	for (anchored = 0; anchored < 2; anchored++) {
		for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			assert_int_equal(vet_literal(all[i], anchored != 0, &r), -1);
			assert_string_equal(r.code, "egress.obsolete");
		}
		assert_int_equal(vet_texts("198.51.100.8 fec0::5", anchored != 0, &r), -1);
		assert_int_equal(vet_texts("fec0::5", anchored != 0, &r), -1);
		assert_int_equal(vet_texts("198.51.100.8", anchored != 0, &r), 0);
		assert_int_equal(vet_texts("198.51.100.8 2001:db8::8", anchored != 0, &r), 0);
	}
}

/* Without the kernel's word on what this machine is, nothing is reached. */
static void
unknown_own_refuses_all(void **state)
{
	struct refusal r;

	(void)state;
	own_is(false);
	assert_int_equal(vet_texts("198.51.100.8", false, &r), -1);
	assert_string_equal(r.code, "egress.own_unknown");
	assert_non_null(strstr(r.why, "cannot tell whether that is itself"));
}

#define OWN                                                           \
	"INSERT INTO own_address VALUES (address_bytes('127.0.0.0')," \
	" address_bytes('127.255.255.255'), 'nic', 'lo'),"            \
	" (address_bytes('203.0.113.0'), address_bytes('203.0.113.255'), 'local_route', 'lo');"
#define RULE(verdict, suffix)                                                               \
	"INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid) VALUES ('" verdict \
	"', '" suffix "', now_ms(), 0);"
#define ASK(host)                                                      \
	"INSERT INTO egress_flow (uid, surface, host, port, asked_at)" \
	" VALUES (1000, 'connect', '" host "', 443, now_ms());"
#define OPEN(addresses)                                                                             \
	"INSERT INTO egress_flow (uid, surface, host, port, state, asked_at, opened_at, addresses)" \
	" VALUES (1000, 'connect', 'a.example', 443, 'open', now_ms(), now_ms(), '" addresses       \
	"');"

/* The rules of the database hold by themselves: no program can open what they refuse. */
static void
rows_refuse_what_is_not_public(void **state)
{
	(void)state;
	assert_int_equal(scratch_sql(&s, RULE("allow", "example")), 0);
	scratch_refused(&s, "egress.own_unknown", OPEN("[\"198.51.100.8\"]"));
	assert_int_equal(scratch_sql(&s, OWN), 0);
	scratch_refused(&s, "egress.own", OPEN("[\"203.0.113.5\"]"));
	scratch_refused(&s, "egress.own", OPEN("[\"198.51.100.8\",\"127.0.0.1\"]"));
	scratch_refused(&s, "egress.internal", OPEN("[\"198.51.100.8\",\"10.0.0.1\"]"));
	scratch_refused(&s, "egress.internal", OPEN("[\"169.254.169.254\"]"));
	scratch_refused(&s, "egress.internal", OPEN("[\"64:ff9b::a01:203\"]"));
	scratch_refused(&s, "egress.internal", OPEN("[\"::ffff:0:7f00:1\"]"));
	scratch_refused(&s, "egress.address", OPEN("[\"0x7f.1\"]"));
	scratch_refused(&s, "egress.resolve", OPEN("[]"));
	assert_int_equal(scratch_sql(&s, OPEN("[\"198.51.100.8\",\"2001:db8::8\"]")), 0);
	assert_int_equal(scratch_sql(&s, ASK("b.example")), 0);
	scratch_refused(&s, "egress.internal",
	    "UPDATE egress_flow SET state = 'open', opened_at = now_ms(), addresses = '[\"10.0.0.1\"]'"
	    " WHERE host = 'b.example'");
	scratch_refused(&s, "egress.transition",
	    "UPDATE egress_flow SET state = 'done', ended_at = now_ms() WHERE host = 'b.example'");
}

/* SEG-01: suffixes at the borders of labels, a deny over every allow, nothing without a rule. */
static void
rules_match_by_labels(void **state)
{
	(void)state;
	assert_int_equal(
	    scratch_sql(&s, OWN RULE("allow", "github.com") RULE("allow", "npmjs.org")), 0);
	assert_int_equal(scratch_sql(&s, ASK("github.com")), 0);
	assert_int_equal(scratch_sql(&s, ASK("api.github.com")), 0);
	assert_int_equal(scratch_sql(&s, ASK("a.b.github.com")), 0);
	assert_int_equal(scratch_sql(&s, ASK("registry.npmjs.org")), 0);
	scratch_refused(&s, "egress.unknown", ASK("notgithub.com"));
	scratch_refused(&s, "egress.unknown", ASK("evilgithub.com"));
	scratch_refused(&s, "egress.unknown", ASK("github.com.evil.com"));
	scratch_refused(&s, "egress.unknown", ASK("example.org"));
	scratch_refused(&s, "egress.host", ASK(""));
	assert_int_equal(scratch_sql(&s, RULE("deny", "secret.github.com")), 0);
	scratch_refused(&s, "egress.denied", ASK("secret.github.com"));
	scratch_refused(&s, "egress.denied", ASK("more.secret.github.com"));
	assert_int_equal(scratch_sql(&s, ASK("api.github.com")), 0);
	assert_int_equal(scratch_sql(&s, RULE("deny", "github.com")), 0);
	scratch_refused(&s, "egress.denied", ASK("github.com"));
	scratch_refused(&s, "egress.denied", ASK("api.github.com"));
	assert_int_equal(scratch_sql(&s, RULE("allow", "*")), 0);
	assert_int_equal(scratch_sql(&s, ASK("example.org")), 0);
	scratch_refused(&s, "egress.denied", ASK("github.com"));
}

/* A rule is for its user and its port, and never for a Host that it does not name. */
static void
rules_are_for_whom_they_name(void **state)
{
	(void)state;
	scratch_pair(&s);
	assert_int_equal(scratch_sql(&s, OWN
			     "INSERT INTO egress_rule (verdict, uid, suffix, port, made_at,"
			     " made_by_uid) VALUES ('allow', 1000, 'example', 443, now_ms(), 0)"),
	    0);
	assert_int_equal(scratch_sql(&s, ASK("a.example")), 0);
	scratch_refused(&s, "egress.unknown",
	    "INSERT INTO egress_flow (uid, surface, host, port, asked_at)"
	    " VALUES (1001, 'connect', 'a.example', 443, now_ms())");
	scratch_refused(&s, "egress.unknown",
	    "INSERT INTO egress_flow (uid, surface, host, port, asked_at)"
	    " VALUES (1000, 'connect', 'a.example', 80, now_ms())");
	/* EG-123: a Host without the capability is refused before anything else is asked. */
	scratch_refused(&s, "egress.capability",
	    "INSERT INTO egress_flow (pairing_id, surface, host, port, asked_at)"
	    " VALUES (1, 'connect', 'a.example', 443, now_ms())");
	scratch_refused(&s, "egress.suffix", RULE("allow", "Example.com"));
	scratch_refused(&s, "egress.suffix", RULE("allow", "127.1"));
	scratch_refused(&s, "egress.exists", RULE("allow", "x") RULE("allow", "x"));
}

#define WAYS "SELECT count(*) FROM egress_way"
#define REACH(host, addresses)                                                                      \
	"INSERT INTO egress_flow (uid, surface, host, port, asked_at, state, addresses, opened_at)" \
	" VALUES (1000, 'connect', '" host "', 443, now_ms(), 'open', '" addresses "', now_ms())"
#define THERE REACH("a.example", "[\"198.51.100.8\"]")

static void
way_is_judged_again(const char *change, const char *code)
{
	assert_int_equal(scratch_sql(&s, THERE), 0);
	assert_int_equal(scratch_value(&s, WAYS), 1);
	if (scratch_sql(&s, change) != 0)
		fail_msg("%s: %s", change, s.error);
	assert_int_equal(scratch_value(&s, WAYS), 0);
	if (code != NULL)
		scratch_refused(&s, code, THERE);
	else
		assert_int_equal(scratch_sql(&s, THERE), 0);
}

/* A way that was judged holds for the next connection, until anything that it was judged by
 * changes. */
static void
judged_ways_hold_until_something_changes(void **state)
{
	(void)state;
	assert_int_equal(scratch_sql(&s, OWN RULE("allow", "*") THERE ";" THERE), 0);
	assert_int_equal(scratch_value(&s, WAYS), 1);
	/* Other addresses, another user, another port are other ways. */
	scratch_refused(&s, "egress.internal", REACH("a.example", "[\"10.0.0.1\"]"));
	assert_int_equal(scratch_value(&s, WAYS), 1);
	way_is_judged_again(RULE("allow", "b.example"), NULL);
	way_is_judged_again("INSERT INTO own_address (first, last, source, ifname)"
			    " VALUES (address_bytes('198.51.100.8'), address_bytes('198.51.100.8'),"
			    " 'nic', 'x')",
	    "egress.own");
	assert_int_equal(
	    scratch_sql(&s, "DELETE FROM own_address WHERE first = address_bytes('198.51.100.8')"),
	    0);
	way_is_judged_again(
	    "INSERT INTO own_address (first, last, source, ifname)"
	    " VALUES (address_bytes('198.51.100.9'), address_bytes('198.51.100.9'), 'nic', 'x')",
	    NULL);
	way_is_judged_again("UPDATE own_address SET first = address_bytes('198.51.100.8')"
			    " WHERE first = address_bytes('198.51.100.9')",
	    "egress.own");
	assert_int_equal(
	    scratch_sql(&s, "DELETE FROM own_address WHERE first = address_bytes('198.51.100.8')"),
	    0);
	way_is_judged_again("DELETE FROM own_address", "egress.own_unknown");
	assert_int_equal(scratch_sql(&s, OWN), 0);
	way_is_judged_again("UPDATE address_class SET class = 'network' WHERE prefix = '0.0.0.0/0'",
	    "egress.internal");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE address_class SET class = 'public' WHERE prefix = '0.0.0.0/0'"),
	    0);
	way_is_judged_again("DELETE FROM address_class WHERE prefix = '0.0.0.0/0'", NULL);
	way_is_judged_again("INSERT INTO address_class (prio, prefix, first, last, class, why)"
			    " SELECT 13, '0.0.0.0/0', first, last, 'network', 'x'"
			    "   FROM (SELECT address_bytes('0.0.0.0') AS first,"
			    "                address_bytes('255.255.255.255') AS last)",
	    "egress.internal");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE address_class SET class = 'public' WHERE prefix = '0.0.0.0/0'"),
	    0);
	way_is_judged_again(
	    "UPDATE setting SET value = value + 1 WHERE name = 'egress.addresses'", NULL);
	way_is_judged_again(RULE("deny", "a.example"), "egress.denied");
	assert_int_equal(scratch_sql(&s, "UPDATE egress_rule SET state = 'dropped',"
					 " dropped_at = now_ms() WHERE verdict = 'deny'"),
	    0);
	way_is_judged_again("UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"
			    " WHERE state = 'active'",
	    "egress.unknown");
}

/* A way is for whom it was judged, and a deny that came while the name was looked up is heard. */
static void
ways_are_of_one_user(void **state)
{
	(void)state;
	assert_int_equal(
	    scratch_sql(&s,
		OWN "INSERT INTO egress_rule (verdict, uid, suffix, port, made_at,"
		    " made_by_uid) VALUES ('allow', 1000, 'a.example', 443, now_ms(), 0);" THERE),
	    0);
	scratch_refused(&s, "egress.unknown",
	    "INSERT INTO egress_flow (uid, surface, host, port, asked_at, state, addresses, opened_at)"
	    " VALUES (1001, 'connect', 'a.example', 443, now_ms(), 'open', '[\"198.51.100.8\"]',"
	    " now_ms())");
	scratch_refused(&s, "egress.unknown",
	    "INSERT INTO egress_flow (uid, surface, host, port, asked_at)"
	    " VALUES (1000, 'connect', 'a.example', 80, now_ms())");
	assert_int_equal(scratch_sql(&s, ASK("a.example")), 0);
	assert_int_equal(scratch_sql(&s, RULE("deny", "example")), 0);
	scratch_refused(&s, "egress.denied",
	    "UPDATE egress_flow SET state = 'open', opened_at = now_ms(),"
	    " addresses = '[\"198.51.100.8\"]' WHERE state = 'asked'");
}

#define RUN(nonce)                                                                                   \
	"INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words, net, started_at)" \
	" SELECT '" nonce nonce "', 'native', id, 1000, '/bin/x', 1, 'sockets', now_ms()"            \
	"   FROM process;"
#define RULE_OF_RUN(verdict, run)                                                 \
	"INSERT INTO egress_rule (verdict, run_id, suffix, made_at, made_by_uid)" \
	" VALUES ('" verdict "', " run ", 'a.example', now_ms(), 0);"
#define REACH_FROM(run)                                                                             \
	"INSERT INTO egress_flow (uid, surface, host, port, asked_at, state, addresses, opened_at," \
	" run_id) VALUES (1000, 'connect', 'a.example', 443, now_ms(), 'open',"                     \
	" '[\"198.51.100.8\"]', now_ms(), " run ")"

/* A way is for the run that it was judged for: no other run of its user goes it, nor the user. */
static void
ways_are_of_one_run(void **state)
{
	(void)state;
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(s.db), 0);
	assert_true(process_self(s.db) > 0);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(scratch_sql(&s, OWN RUN("0123456789abcdef") RUN("fedcba9876543210")), 0);
	assert_int_equal(scratch_sql(&s, RULE_OF_RUN("allow", "1") REACH_FROM("1")), 0);
	assert_int_equal(scratch_value(&s, WAYS " WHERE run_id = 1"), 1);
	scratch_refused(&s, "egress.unknown", REACH_FROM("2"));
	scratch_refused(&s, "egress.unknown", REACH_FROM("NULL"));
	assert_int_equal(scratch_sql(&s, RULE("allow", "*") RULE_OF_RUN("deny", "2")), 0);
	assert_int_equal(scratch_sql(&s, REACH_FROM("NULL") ";" REACH_FROM("1")), 0);
	assert_int_equal(scratch_value(&s, WAYS), 2);
	scratch_refused(&s, "egress.denied", REACH_FROM("2"));
}

/* The oldest ways make room, and without room there are none. */
static void
ways_are_bounded(void **state)
{
	(void)state;
	assert_int_equal(
	    scratch_sql(&s,
		OWN RULE("allow",
		    "*") "UPDATE setting SET value = 2 WHERE name = 'egress.ways';" REACH("a.example",
		    "[\"198.51.100.1\"]") ";" REACH("b.example",
		    "[\"198.51.100.2\"]") ";" REACH("c.example", "[\"198.51.100.3\"]")),
	    0);
	assert_int_equal(scratch_value(&s, WAYS), 2);
	assert_int_equal(scratch_value(&s, WAYS " WHERE host = 'a.example'"), 0);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 0 WHERE name = 'egress.ways';" THERE), 0);
	assert_int_equal(scratch_value(&s, WAYS), 0);
}

#define END_OF(uid)                                                                           \
	"UPDATE egress_flow SET state = 'failed', code = 'x', ended_at = now_ms() WHERE id =" \
	" (SELECT max(id) FROM egress_flow WHERE ended_at IS NULL AND uid = " uid ")"
#define ASK_AS(uid)                                                    \
	"INSERT INTO egress_flow (uid, surface, host, port, asked_at)" \
	" VALUES (" uid ", 'connect', 'a.example', 443, now_ms());"

/* Caps are of what is under way, to the row: of one user, and of all; whatever ended makes room. */
static void
caps_are_exact(void **state)
{
	int i;

	(void)state;
	assert_int_equal(
	    scratch_sql(&s,
		OWN RULE(
		    "allow", "*") "UPDATE setting SET value = 5 WHERE name = 'egress.live';"
				  "UPDATE setting SET value = 3 WHERE name = 'egress.live_each'"),
	    0);
	for (i = 0; i < 3; i++)
		assert_int_equal(scratch_sql(&s, ASK_AS("1000")), 0);
	/* Many that came and went change nothing. */
	for (i = 0; i < 20; i++) {
		scratch_refused(&s, "egress.busy", ASK_AS("1000"));
		assert_int_equal(scratch_sql(&s, ASK_AS("1001") END_OF("1001")), 0);
	}
	assert_int_equal(scratch_sql(&s, END_OF("1000")), 0);
	assert_int_equal(scratch_sql(&s, ASK_AS("1000")), 0);
	scratch_refused(&s, "egress.busy", ASK_AS("1000"));
	assert_int_equal(scratch_sql(&s, ASK_AS("1001") ASK_AS("1001")), 0);
	scratch_refused(&s, "egress.busy", ASK_AS("1001"));
	assert_int_equal(scratch_sql(&s, END_OF("1000")), 0);
	assert_int_equal(scratch_sql(&s, ASK_AS("1001")), 0);
	scratch_refused(&s, "egress.busy", ASK_AS("1002"));
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 6 WHERE name = 'egress.live'"), 0);
	assert_int_equal(scratch_sql(&s, ASK_AS("1002")), 0);
	scratch_refused(&s, "egress.busy", ASK_AS("1002"));
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE ended_at IS NULL"), 6);
}

#define CAPS(n) \
	"UPDATE setting SET value = " n " WHERE name IN ('egress.live', 'egress.live_each');"

/* A cap that is lowered holds at once; and numbers of rows that retention took are given again, but
 * are no room. */
static void
room_is_counted_anew(void **state)
{
	int i;

	(void)state;
	assert_int_equal(
	    scratch_sql(&s, OWN RULE("allow", "*") CAPS("100") ASK_AS("1000") ASK_AS("1000")), 0);
	assert_int_equal(scratch_sql(&s, CAPS("2")), 0);
	scratch_refused(&s, "egress.busy", ASK_AS("1001"));
	assert_int_equal(scratch_sql(&s, CAPS("100")), 0);
	for (i = 0; i < 20; i++)
		assert_int_equal(scratch_sql(&s, ASK_AS("1000")), 0);
	assert_int_equal(scratch_sql(&s, CAPS("5") "UPDATE egress_flow SET state = 'failed',"
						   "  code = 'x', ended_at = 1;" ASK_AS("1000")),
	    0);
	assert_int_equal(scratch_sql(&s, END_OF("1000")), 0);
	assert_int_equal(scratch_value(&s, "SELECT until FROM egress_room"), 27);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 0 WHERE name = 'egress.keep_days';"
			    "DELETE FROM egress_flow"),
	    0);
	for (i = 0; i < 5; i++)
		assert_int_equal(scratch_sql(&s, ASK_AS("1000")), 0);
	scratch_refused(&s, "egress.busy", ASK_AS("1000"));
}

/* An actor that dies leaves nothing open: what was under way reads as lost. */
static void
a_dead_actor_leaves_nothing_open(void **state)
{
	(void)state;
	assert_int_equal(
	    scratch_sql(&s, OWN RULE("allow", "*") ASK("a.example") OPEN("[\"198.51.100.8\"]")), 0);
	assert_int_equal(
	    scratch_sql(&s,
		"INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
		" VALUES ('00000000-0000-0000-0000-000000000000', 1, 1, 0, 'x', 1);"
		"INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
		" SELECT 1, 'box', id, 'x', '/run', 1 FROM process;"
		"INSERT INTO actor_run (instance_id, actor, attempt, process_id, started_at)"
		" SELECT i.id, 'egress', 1, i.process_id, 1 FROM instance AS i;"
		"UPDATE actor_run SET state = 'running';"
		"UPDATE actor_run SET state = 'failed', ended_at = now_ms();"
		"UPDATE instance SET state = 'ended', ended_at = now_ms(), end_reason = 'x'"),
	    0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state = 'lost'"), 2);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_flows"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(classes_have_their_borders, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rows_say_what_they_show, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(compiled_classes_are_the_rows, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(this_machine_is_refused, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(names_of_this_machine_are_refused, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(networks_are_for_approved_lanes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(anchored_machines_say_it_otherwise, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(obsolete_forms_are_refused, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(unknown_own_refuses_all, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rows_refuse_what_is_not_public, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rules_match_by_labels, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rules_are_for_whom_they_name, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		judged_ways_hold_until_something_changes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(ways_are_of_one_user, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(ways_are_of_one_run, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(ways_are_bounded, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(caps_are_exact, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(room_is_counted_anew, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_dead_actor_leaves_nothing_open, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
