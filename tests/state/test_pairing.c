/* test_pairing.c: a box pairs with the Host of its code and no other, and takes it back whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/state/grant.h"
#include "engine/state/invitation.h"
#include "engine/state/pairing.h"
#include "net/host/enroll_client.h"
#include "tests/person.h"

/* How the Host of a test behaves, and what it is told to answer. */
struct host {
	struct scratch s;
	char path[104];
	int fd;
	pid_t pid;
	struct pairing_code facts;
};

enum manner { HONEST, SILENT, OTHER_KEY, OTHER_HOST, STALE, BAD_JSON, REFUSES };

/* The value of the member ${name} of the request, which the box wrote without escapes. */
static void
member(const char *body, const char *name, char *out, size_t size)
{
	char key[32];
	const char *at;

	snprintf(key, sizeof(key), "\"%s\":\"", name);
	out[0] = '\0';
	if ((at = strstr(body, key)) == NULL)
		return;
	at += strlen(key);
	snprintf(out, size, "%.*s", (int)strcspn(at, "\""), at);
}

static void
answer(int fd, int status, const char *body)
{
	char head[256];

	snprintf(head, sizeof(head),
	    "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
	    "Connection: close\r\n\r\n",
	    status, strlen(body));
	if (write(fd, head, strlen(head)) < 0 || write(fd, body, strlen(body)) < 0)
		_exit(8);
}

/* What a Host does with a redeem: the invitation, the row of the box, the signature. */
static void
redeem(struct host *h, enum manner manner, const char *body, int fd)
{
	char token[80], box[80], box_key[80], lane[128], key[65], signature[ENROLL_BASE64],
	    out[512];
	unsigned char other[32], digest[32];
	struct enrollment e = {.box_name = box, .lane = lane, .peer_uid = getuid()};
	struct enroll_claim claim = {.box = box, .lane = lane, .host = h->facts.host};
	int64_t id;

	member(body, "token", token, sizeof(token));
	member(body, "box", box, sizeof(box));
	member(body, "box_key", box_key, sizeof(box_key));
	member(body, "lane", lane, sizeof(lane));
	sodium_hex2bin(e.token, 32, token, strlen(token), NULL, NULL, NULL);
	sodium_hex2bin(e.box_key, 32, box_key, strlen(box_key), NULL, NULL, NULL);
	if (manner == REFUSES || invitation_redeem(scratch_open(&h->s, ROLE_NET), &e, &id) != 0) {
		answer(fd, 403, "{\"error\":{\"code\":\"invitation.used\",\"why\":\"used up\"}}");
		return;
	}
	memset(other, 1, sizeof(other));
	crypto_hash_sha256(digest, e.token, sizeof(e.token));
	claim.token_digest = manner == STALE ? other : digest;
	claim.box_key = e.box_key;
	claim.host_key = h->facts.host_key;
	if (enroll_sign(h->s.key, &claim, signature) != 0)
		_exit(7);
	sodium_bin2hex(key, sizeof(key), manner == OTHER_KEY ? other : claim.host_key, 32);
	snprintf(out, sizeof(out), "{\"host\":\"%s\",\"host_key\":\"%s\",\"signature\":\"%s\"%s",
	    manner == OTHER_HOST ? "evil" : claim.host, key, signature,
	    manner == BAD_JSON ? ",\"host\":\"host-a\"}" : "}");
	answer(fd, 200, out);
}

static void
serve_one(struct host *h, enum manner manner)
{
	char request[8192] = "";
	const char *body = NULL;
	size_t have = 0;
	ssize_t n;
	int fd;

	if ((fd = accept(h->fd, NULL, NULL)) == -1)
		_exit(9);
	while ((n = read(fd, request + have, sizeof(request) - 1 - have)) > 0) {
		have += (size_t)n;
		request[have] = '\0';
		if ((body = strstr(request, "\r\n\r\n")) != NULL && strchr(body, '}') != NULL)
			break;
	}
	if (manner == SILENT)
		pause();
	if (body != NULL)
		redeem(h, manner, body + 4, fd);
	close(fd);
}

/* A Host with an invitation for box-a, in a process of its own, that serves one redeem. */
static void
host_make(struct host *h, enum manner manner)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct pairing_code where = {.host = ""};
	char code[CODE_MAX + 1];

	scratch_make(&h->s, HOME_HOST);
	snprintf(h->path, sizeof(h->path), "%s/run/enroll.sock", h->s.dir);
	snprintf(where.path, sizeof(where.path), "%s", h->path);
	if (invitation_make(scratch_open(&h->s, ROLE_PERSON), "box-a", 0, &where, code) != 0 ||
	    code_read(h->s.db, code, strlen(code), &h->facts) != 0)
		fail_msg("%s", store_refusal(h->s.db)->why);
	store_close(h->s.db);
	h->s.db = NULL;
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", h->path);
	assert_true((h->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
	assert_int_equal(bind(h->fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(h->fd, 4), 0);
	if ((h->pid = fork()) == 0) {
		serve_one(h, manner);
		_exit(0);
	}
	close(h->fd);
}

static void
host_drop(struct host *h)
{
	kill(h->pid, SIGKILL);
	assert_int_equal(waitpid(h->pid, NULL, 0), h->pid);
	scratch_drop(&h->s);
}

/* Pair ${host} as uid ${by}; what pairing_add returns. */
static int
takes(struct scratch *s, const char *host, const unsigned char key[32], int64_t by,
    const char *answer, struct pairing_made *made)
{
	struct pairing_offer offer = {
	    .host = host, .host_key = key, .peer_uid = 5, .by_uid = by, .answer = answer};

	return pairing_add(scratch_open(s, ROLE_PERSON), &offer, made);
}

/* The same with --replace, served by ${uid}. */
static int
replaces(struct scratch *s, const char *host, const unsigned char key[32], int64_t uid,
    struct pairing_made *made)
{
	struct pairing_offer offer = {
	    .host = host, .host_key = key, .peer_uid = uid, .by_uid = 1000, .replace = true};

	return pairing_add(scratch_open(s, ROLE_PERSON), &offer, made);
}

/* The key that person_host gives the Host ${name}. */
static const unsigned char *
key_of(const char *name)
{
	static unsigned char key[32];

	crypto_hash_sha256(key, (const unsigned char *)name, strlen(name));
	return key;
}

static int
ends(struct scratch *s, const char *host, struct pairing_end *end)
{
	struct pairing pairing;

	scratch_open(s, ROLE_PERSON);
	return pairing_pick(s->db, host, &pairing) == 0 ? pairing_revoke(s->db, pairing.id, end)
							: -1;
}

static int64_t
monotonic_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The whole way of "bastion pair", to an honest Host. */
static void
a_box_pairs(void **state)
{
	struct pairing pairing;
	struct pairing_made made;
	struct pairing_offer offer;
	int64_t uid = -1;
	struct scratch s;
	struct host h;

	(void)state;
	host_make(&h, HONEST);
	scratch_make(&s, HOME_BOX);
	if (enroll_ask(scratch_open(&s, ROLE_PERSON), &h.facts, "/run/lane.sock", &uid) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_int_equal(uid, getuid());
	offer = (struct pairing_offer){.host = h.facts.host,
	    .host_key = h.facts.host_key,
	    .peer_uid = uid,
	    .by_uid = getuid()};
	assert_int_equal(pairing_add(s.db, &offer, &made), 0);
	assert_false(made.anchor);
	assert_int_equal(pairing_find(s.db, h.facts.host_key, &pairing), 1);
	assert_int_equal(pairing.id, made.id);
	assert_string_equal(pairing.host, "host-a");
	assert_string_equal(pairing.state, "active");
	assert_int_equal(pairing.peer_uid, getuid());
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM host_box WHERE name = 'box-a'"
					     " AND lane = '/run/lane.sock' AND state = 'active'"),
	    1);
	/* The Host knows the box by the key that the box has. */
	scratch_open(&h.s, ROLE_MIGRATE);
	{
		char sql[160], hex[65];

		sodium_bin2hex(hex, sizeof(hex), s.keys.identity, 32);
		snprintf(sql, sizeof(sql), "SELECT box_key = x'%s' FROM host_box", hex);
		assert_int_equal(scratch_value(&h.s, sql), 1);
	}
	scratch_drop(&s);
	host_drop(&h);
}

/* PAIR-1, PAIR-2: an answer that the Host of the code did not sign, for this token, saves nothing.
 */
static void
only_the_host_of_the_code_is_believed(void **state)
{
	static const enum manner manners[] = {OTHER_KEY, OTHER_HOST, STALE, BAD_JSON, REFUSES};
	unsigned char before[32], after[32];
	struct scratch s;
	struct host h;
	int64_t uid;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
		person_digest(&s, before);
		host_make(&h, manners[i]);
		assert_int_equal(
		    enroll_ask(scratch_open(&s, ROLE_PERSON), &h.facts, "/l", &uid), -1);
		person_says(&s, "pairing.refused");
		if (manners[i] == REFUSES)
			assert_non_null(strstr(store_refusal(s.db)->why, "used up"));
		host_drop(&h);
		person_digest(&s, after);
		assert_memory_equal(before, after, 32);
	}
	/* A code with another key than the Host's. */
	host_make(&h, HONEST);
	h.facts.host_key[3] ^= 1;
	assert_int_equal(enroll_ask(scratch_open(&s, ROLE_PERSON), &h.facts, "/l", &uid), -1);
	person_says(&s, "pairing.refused");
	host_drop(&h);
	scratch_drop(&s);
}

/* PAIR-8: nobody there is said at once; a Host that says nothing, when the setting says so. */
static void
an_absent_host_is_not_waited_for(void **state)
{
	struct scratch s;
	struct host h;
	int64_t uid, began;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(
	    scratch_value(&s, "SELECT value <= 10000 FROM setting WHERE name = 'pairing.wait_ms'"),
	    1);
	if (scratch_sql(&s, "UPDATE setting SET value = 300 WHERE name = 'pairing.wait_ms'") != 0)
		fail_msg("%s", s.error);
	host_make(&h, SILENT);
	began = monotonic_ms();
	assert_int_equal(enroll_ask(scratch_open(&s, ROLE_PERSON), &h.facts, "/l", &uid), -1);
	person_says(&s, "pairing.unreachable");
	assert_in_range(monotonic_ms() - began, 200, 3000);
	unlink(h.path);
	assert_int_equal(enroll_ask(s.db, &h.facts, "/l", &uid), -1);
	person_says(&s, "pairing.unreachable");
	host_drop(&h);
	scratch_drop(&s);
}

/* PAIR-4, PAIR-5, CFG-3: the same Host again, its name with another key; both typed, one exit 3. */
static void
a_pairing_is_made_once(void **state)
{
	unsigned char key[32], other[32], before[32], after[32];
	struct pairing_offer offer = {.host = "laptop", .host_key = key};
	struct pairing_made made;
	struct scratch s;

	(void)state;
	memset(key, 1, 32);
	memset(other, 2, 32);
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(pairing_check(s.db, &offer), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing"), 0);
	assert_int_equal(takes(&s, "laptop", key, 0, NULL, &made), 0);
	person_digest(&s, before);
	assert_int_equal(takes(&s, "laptop", key, 0, NULL, &made), -1);
	person_says(&s, "pairing.exists");
	assert_int_equal(pairing_check(s.db, &offer), -1);
	person_says(&s, "pairing.exists");
	assert_int_equal(takes(&s, "laptop", other, 0, "yes", &made), -1);
	person_says(&s, "pairing.key");
	assert_int_equal(takes(&s, "desk", key, 0, "yes", &made), -1);
	person_says(&s, "pairing.key");
	assert_int_equal(
	    scratch_value(&s, "SELECT exit_code FROM refusal WHERE code = 'pairing.exists'"), 3);
	assert_int_equal(
	    scratch_value(
		&s, "SELECT exit_code NOT IN (0, 3) FROM refusal WHERE code = 'pairing.key'"),
	    1);
	person_digest(&s, after);
	assert_memory_equal(before, after, 32);
	scratch_drop(&s);
}

/* PAIR-6, PAIR-7: a second Host of a local machine comes in on a plain yes, and that serves once.
 */
static void
a_second_host_needs_a_yes(void **state)
{
	static const char *const no[] = {
	    NULL, "", "n", "no", "yep", "yes please", " y", "y ", "ye", "j", "1"};
	static const char *const yes[] = {"y", "yes", "Y", "YES"};
	unsigned char before[32], after[32];
	struct pairing_made made;
	struct pairing_end end;
	struct scratch s;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	person_host(&s, "laptop");
	person_digest(&s, before);
	for (i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		assert_int_equal(takes(&s, "desk", key_of("desk"), 0, no[i], &made), -1);
		person_says(&s, "pairing.second");
	}
	person_digest(&s, after);
	assert_memory_equal(before, after, 32);
	for (i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		assert_int_equal(takes(&s, "desk", key_of("desk"), 0, yes[i], &made), 0);
		assert_string_equal(made.state, "active");
		assert_int_equal(
		    scratch_value(&s, "SELECT state = 'active' FROM pairing WHERE id = 1"), 1);
		assert_int_equal(ends(&s, "desk", &end), 0);
		/* The yes was for that time: coming back is asked about anew. */
		assert_int_equal(takes(&s, "desk", key_of("desk"), 0, NULL, &made), -1);
		person_says(&s, "pairing.second");
	}
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM pairing_consent WHERE used = 0"), 0);
	/* Written by hand it is for another Host, another key or another moment. */
	person_refused(&s, "pairing.second",
	    "INSERT INTO pairing_consent (host_name, host_key, answer, by_uid, at)"
	    " VALUES ('desk', randomblob(32), 'yes', 0, now_ms());"
	    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
	    " VALUES ('mill', 'unix', randomblob(32), 0, 'active', now_ms())");
	person_refused(&s, "pairing.second",
	    "INSERT INTO pairing_consent (host_name, host_key, answer, by_uid, at)"
	    " VALUES ('desk', randomblob(32), 'yes', 0, now_ms() - 1)");
	person_refused(&s, "pairing.consent", "UPDATE pairing_consent SET used = 0");
	person_refused(&s, "pairing.consent", "DELETE FROM pairing_consent");
	scratch_drop(&s);
}

/* CFG-3, CFG-4, EP-50: paired anew, a Host keeps age, state and grants; only that very Host can be.
 */
static void
a_pairing_is_renewed(void **state)
{
	unsigned char other[32] = {7};
	struct pairing_made made;
	struct pairing_end end;
	int64_t grant_id, since;
	struct person p;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(&s, &p, "phone");
	assert_int_equal(replaces(&s, "laptop", key_of("laptop"), 7, &made), -1);
	person_says(&s, "pairing.unknown");
	person_host(&s, "laptop");
	grant_id = person_granted(&s, &p, 1, "[1]");
	since = scratch_value(&s, "SELECT since FROM pairing");
	clock_fix(clock_now() + 86400000);
	assert_int_equal(replaces(&s, "laptop", other, 7, &made), -1);
	person_says(&s, "pairing.key");
	assert_int_equal(replaces(&s, "desk", key_of("laptop"), 7, &made), -1);
	person_says(&s, "pairing.unknown");
	assert_int_equal(replaces(&s, "laptop", key_of("laptop"), 7, &made), 0);
	assert_string_equal(made.state, "active");
	assert_int_equal(scratch_value(&s, "SELECT since FROM pairing"), since);
	assert_int_equal(scratch_value(&s, "SELECT peer_uid FROM pairing"), 7);
	assert_int_equal(
	    scratch_value(&s, "SELECT state = 'active' FROM grant WHERE id = 1"), grant_id);
	/* What was taken back is paired, not replaced. */
	assert_int_equal(ends(&s, "laptop", &end), 0);
	assert_int_equal(end.grants, 1);
	assert_int_equal(replaces(&s, "laptop", key_of("laptop"), 7, &made), -1);
	person_says(&s, "pairing.unknown");
	scratch_drop(&s);
}

/* CFG-1, CFG-2, EP-32, EP-36, EP-44, EP-49, EP-50, EP-51: a record that cannot be served is listed
 * as it is, is mended or taken back, and does not touch the one beside it. */
static void
an_invalid_record_stands_alone(void **state)
{
	struct pairing pairing;
	struct pairing_made made;
	struct pairing_end end;
	int64_t good, bad;
	struct person p;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(&s, &p, "phone");
	person_host(&s, "laptop");
	person_host(&s, "desk");
	good = person_granted(&s, &p, 1, "[1]");
	bad = person_granted(&s, &p, 2, "[1]");
	assert_int_equal(replaces(&s, "desk", key_of("desk"), 4294967295, &made), 0);
	assert_int_equal(pairing_pick(s.db, "desk", &pairing), 0);
	assert_string_equal(pairing.state, "invalid");
	assert_non_null(strstr(pairing.reason, "no process"));
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_status"), 2);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_status WHERE active"), 1);
	assert_int_equal(scratch_value(&s, "SELECT state = 'active' FROM pairing WHERE id = 2"), 1);
	assert_int_equal(person_run(&s, good, 1), 0);
	assert_int_equal(person_run(&s, bad, 2), -1);
	person_says(&s, "pairing.invalid");
	scratch_open(&s, ROLE_NET);
	assert_int_equal(approval_ask(s.db, 2, "observe:folders", "[3]", 1, 1000, &bad), -1);
	person_says(&s, "pairing.invalid");
	assert_int_equal(replaces(&s, "desk", key_of("desk"), 7, &made), 0);
	assert_int_equal(pairing_pick(s.db, "desk", &pairing), 0);
	assert_string_equal(pairing.state, "active");
	assert_int_equal(replaces(&s, "desk", key_of("desk"), 4294967295, &made), 0);
	assert_int_equal(ends(&s, "desk", &end), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM pairing_status WHERE state = 'invalid'"), 0);
	scratch_drop(&s);
}

/* One Host that asks without end fills its own share; the rest of the places is for others. */
static void
one_host_leaves_room_for_another(void **state)
{
	int64_t mine, more, theirs;
	struct person p;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(&s, &p, "phone");
	person_host(&s, "laptop");
	person_host(&s, "desk");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 2 WHERE name = 'op.live_per_host';"
			    "UPDATE setting SET value = 3 WHERE name = 'op.live'"),
	    0);
	mine = person_granted(&s, &p, 1, "[1]");
	assert_int_equal(person_run(&s, mine, 1), 0);
	assert_int_equal(person_run(&s, mine, 2), 0);
	more = person_granted(&s, &p, 1, "[2]");
	assert_int_equal(person_run(&s, more, 3), -1);
	person_says(&s, "op.share");
	theirs = person_granted(&s, &p, 2, "[1]");
	assert_int_equal(person_run(&s, theirs, 4), 0);
	assert_int_equal(person_run(&s, theirs, 5), -1);
	person_says(&s, "op.busy");
	/* What was held cost no use, and goes when a place is free. */
	assert_int_equal(
	    scratch_sql(&s, "UPDATE op_run SET state = 'cancelled', finished_at = now_ms()"
			    " WHERE id = 1"),
	    0);
	assert_int_equal(person_run(&s, more, 6), 0);
	assert_int_equal(scratch_value(&s, "SELECT max(n) FROM grant_use WHERE grant_id = 2"), 1);
	scratch_drop(&s);
}

/* No function picks one of several; a handle serves where one Host alone has it. */
static void
none_is_picked_of_several(void **state)
{
	struct pairing pairing;
	struct pairing_end end;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(pairing_pick(s.db, NULL, &pairing), -1);
	person_says(&s, "pairing.unknown");
	person_host(&s, "mill.example.org");
	assert_int_equal(pairing_pick(s.db, NULL, &pairing), 0);
	assert_int_equal(pairing_pick(s.db, "mill", &pairing), 0);
	assert_string_equal(pairing.host, "mill.example.org");
	assert_int_equal(pairing_pick(s.db, "", &pairing), -1);
	assert_int_equal(pairing_pick(s.db, "mil", &pairing), -1);
	person_host(&s, "mill.example.net");
	assert_int_equal(pairing_pick(s.db, NULL, &pairing), -1);
	person_says(&s, "pairing.several");
	assert_int_equal(pairing_pick(s.db, "mill", &pairing), -1);
	person_says(&s, "pairing.several");
	assert_non_null(strstr(store_refusal(s.db)->why, "mill.example.net, mill.example.org"));
	assert_int_equal(ends(&s, "mill.example.net", &end), 0);
	assert_int_equal(pairing_pick(s.db, "mill", &pairing), 0);
	assert_string_equal(pairing.host, "mill.example.org");
	assert_int_equal(pairing_pick(s.db, "mill.example.net", &pairing), 0);
	assert_string_equal(pairing.state, "revoked");
	/* A whole name goes before a handle. */
	person_host(&s, "mill");
	assert_int_equal(pairing_pick(s.db, "mill", &pairing), 0);
	assert_string_equal(pairing.host, "mill");
	scratch_drop(&s);
}

/* Two Hosts of one machine: what one holds, asked and was answered serves the other nothing. */
static void
two_hosts_are_kept_apart(void **state)
{
	int64_t one, two, mine, question;
	struct pairing_end end;
	struct person p;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(&s, &p, "phone");
	one = person_host(&s, "laptop");
	two = person_host(&s, "desk");
	mine = person_granted(&s, &p, one, "[1]");
	assert_int_equal(person_run(&s, mine, 1), 0);
	person_refused(&s, "grant.other",
	    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
	    " SELECT 2, op, args, printf('%032x', 9), id, now_ms() FROM grant WHERE id = 1");
	person_refused(&s, "approval.needed",
	    "INSERT INTO op_run (pairing_id, op, args, nonce, queued_at)"
	    " VALUES (2, 'observe:folders', '[1]', printf('%032x', 9), now_ms())");
	/* The same words of two Hosts are two questions, and an answer is for one. */
	question = person_asked(&s, one, "[2]");
	assert_int_not_equal(person_asked(&s, two, "[2]"), question);
	person_refused(&s, "approval.decided",
	    "UPDATE approval SET pairing_id = 2 WHERE state = 'pending' AND pairing_id = 1");
	person_refused(&s, "op.fixed", "UPDATE op_run SET pairing_id = 2");
	person_refused(&s, "grant.final", "UPDATE grant SET pairing_id = 2 WHERE id = 1");
	/* One's numbers are no replay for the other, and one's end is its own. */
	mine = person_granted(&s, &p, two, "[1]");
	assert_int_equal(person_run(&s, mine, 1), 0);
	assert_int_equal(ends(&s, "laptop", &end), 0);
	assert_int_equal(end.questions, 1);
	assert_int_equal(person_run(&s, mine, 2), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM approval WHERE pairing_id = 2"
					   " AND state = 'pending'"),
	    1);
	/* What a Host is told of is itself. */
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM told_pairings WHERE asks_id = 2"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT pairing_id FROM told_pairings WHERE asks_id = 2"), 2);
	scratch_drop(&s);
}

/* Unpairing takes back what was allowed, for good; pairing anew begins with nothing. */
static void
unpairing_takes_everything_back(void **state)
{
	unsigned char key[32];
	int64_t pairing, grant_id, count;
	struct pairing_made made;
	struct pairing_end end;
	struct pairing found;
	struct person p;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(&s, &p, "phone");
	pairing = person_host(&s, "laptop");
	crypto_hash_sha256(key, (const unsigned char *)"laptop", 6);
	grant_id = person_granted(&s, &p, pairing, "[1]");
	person_asked(&s, pairing, "[2]");
	assert_int_equal(person_run(&s, grant_id, 1), 0);
	assert_int_equal(ends(&s, "nobody", &end), -1);
	person_says(&s, "pairing.unknown");
	assert_int_equal(ends(&s, "laptop", &end), 0);
	assert_false(end.anchor);
	assert_int_equal(end.grants, 1);
	assert_int_equal(end.questions, 1);
	assert_int_equal(end.runs, 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM op_run WHERE state = 'cancelled'"), 1);
	assert_int_equal(pairing_find(s.db, key, &found), 0);
	assert_int_equal(ends(&s, "laptop", &end), -1);
	person_says(&s, "pairing.unknown");
	assert_int_equal(person_run(&s, grant_id, 2), -1);
	person_says(&s, "pairing.inactive");
	/* The same row again, another key; the old grants stay dropped. */
	memset(key, 9, 32);
	assert_int_equal(takes(&s, "laptop", key, 0, NULL, &made), 0);
	assert_int_equal(made.id, pairing);
	assert_int_equal(pairing_find(s.db, key, &found), 1);
	assert_int_equal(found.peer_uid, 5);
	assert_int_equal(person_run(&s, grant_id, 3), -1);
	person_says(&s, "grant.gone");
	assert_int_equal(grant_drop_all(scratch_open(&s, ROLE_PERSON), "laptop", &count), 0);
	assert_int_equal(count, 0);
	scratch_drop(&s);
}

/* What the tables of the machine and its pairings refuse, whoever asks. */
static void
the_tables_hold(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	person_host(&s, "laptop");
#define PAIR(name, key, how)                                                                     \
	"INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since, ended_at)" \
	" VALUES ('" name "', 'unix', " key ", 0, " how ")"
	person_refused(&s, "box.identity", "UPDATE box SET identity_key = zeroblob(32)");
	person_refused(&s, "box.identity", "UPDATE box SET role = 'host'");
	person_refused(&s, "box.identity", "DELETE FROM box");
	person_refused(&s, "pairing.second", PAIR("desk", "zeroblob(32)", "'active', 1, NULL"));
	person_refused(&s, "pairing.key", PAIR("laptop", "zeroblob(32)", "'active', 1, NULL"));
	person_refused(&s, "pairing.fixed", "UPDATE pairing SET host_name = 'desk'");
	person_refused(&s, "pairing.fixed", "UPDATE pairing SET host_key = zeroblob(32)");
	person_refused(&s, "pairing.fixed", "UPDATE pairing SET peer_uid = 7");
	person_refused(&s, "pairing.fixed", "UPDATE pairing SET since = 7");
	person_refused(&s, "anchor.approval", "UPDATE pairing SET state = 'pending'");
	person_refused(&s, "pairing.kept", "DELETE FROM pairing");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE pairing SET state = 'revoked', ended_at = now_ms()"), 0);
	person_refused(&s, "pairing.exists", PAIR("laptop", "zeroblob(32)", "'active', 1, NULL"));
	person_refused(
	    &s, "pairing.transition", "UPDATE pairing SET state = 'active', ended_at = NULL");
	person_refused(&s, "pairing.transition", PAIR("desk", "zeroblob(32)", "'revoked', 1, 2"));
	/* What was unpaired does not come back beside the one that took its place. */
	person_host(&s, "desk");
	person_refused(&s, "pairing.second",
	    "UPDATE pairing SET state = 'pending', ended_at = NULL WHERE id = 1");
	person_refused(&s, "pairing.fixed", "UPDATE pairing SET peer_uid = 7, renewed_at = 8");
	person_refused(&s, "pairing.fixed", "UPDATE pairing SET terms_id = 1 WHERE id = 2");
	person_refused(&s, "anchor.approval", "UPDATE pairing SET state = 'pending' WHERE id = 2");
	assert_int_equal(scratch_sql(&s, "UPDATE box SET mode = 'networked'"), 0);
	person_refused(&s, "pairing.key",
	    "UPDATE pairing SET state = 'pending', ended_at = NULL, host_key ="
	    " (SELECT host_key FROM pairing WHERE id = 2) WHERE id = 1");
	person_refused(&s, "pairing.key",
	    "INSERT INTO pairing (host_name, transport, host_key,"
	    " peer_uid, state, since) SELECT 'third', 'unix', host_key,"
	    " 0, 'active', 1 FROM pairing WHERE id = 2");
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_box_pairs),
	    cmocka_unit_test(only_the_host_of_the_code_is_believed),
	    cmocka_unit_test(an_absent_host_is_not_waited_for),
	    cmocka_unit_test(a_pairing_is_made_once),
	    cmocka_unit_test(a_second_host_needs_a_yes),
	    cmocka_unit_test(a_pairing_is_renewed),
	    cmocka_unit_test(an_invalid_record_stands_alone),
	    cmocka_unit_test(one_host_leaves_room_for_another),
	    cmocka_unit_test(none_is_picked_of_several),
	    cmocka_unit_test(two_hosts_are_kept_apart),
	    cmocka_unit_test(unpairing_takes_everything_back),
	    cmocka_unit_test(the_tables_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
