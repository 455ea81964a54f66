/* test_witness.c: a Host holds its boxes to what they have shown of their audit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/state/audit_proof.h"
#include "tests/driver.h"
#include "tests/wire.h"

static struct driver d;
static struct said said;
static struct wire_answer answer;
static char tree[128];

static int
first_day(void **state)
{
	(void)state;
	driver_first_day(&d);
	driver_does(&said, NULL, "settings", "set", "factor.steps", "10", NULL);
	driver_does(&said, NULL, "settings", "set", "audit.seal_ms", "100", NULL);
	driver_does(&said, NULL, "settings", "set", "audit.seal_ms", "100", "--host", NULL);
	snprintf(tree, sizeof(tree), "%s/tree", d.dir);
	assert_int_equal(mkdir(tree, 0700), 0);
	driver_grant(&d, "observe:folders", tree, "1", "1000", "1h");
	return 0;
}

static int
evening(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

static void
ask(void)
{
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
}

static void
ask_refused(int code, const char *refusal)
{
	driver_refused(&said, code, refusal, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
}

static int64_t
held(void)
{
	return driver_value(&d, DRIVER_HOST, "SELECT max(size) FROM box_witness");
}

static void
holds(const char *state)
{
	char is[16];

	driver_text(&d, DRIVER_HOST, is, sizeof(is), "SELECT state FROM box_witness");
	assert_string_equal(is, state);
}

/* Ask until the Host holds a checkpoint of more rows than ${rows}. */
static void
work_past(int64_t rows)
{
	int64_t limit = driver_now() + DRIVER_WAIT_MS;

	do {
		assert_true(driver_now() < limit);
		ask();
	} while (held() <= rows);
}

/* A database that nobody has open, with what its log still holds. */
static void
copy(const char *from, const char *to)
{
	char command[512];

	snprintf(command, sizeof(command),
	    "cd %s && rm -f %s-wal %s-shm && cp %s %s && if [ -e %s-wal ]; then cp %s-wal %s-wal; fi",
	    d.state[DRIVER_BOX], to, to, from, to, from, from, to);
	assert_int_equal(system(command), 0);
}

static void
stop(void)
{
	driver_end(&d, DRIVER_BOX, SIGTERM);
}

static void
start(void)
{
	driver_serve(&d, DRIVER_BOX);
}

/* Keep the box's database as old.db, and go on until the Host has seen what that will not have:
 * more rows than a start adds. */
static int64_t
work_past_old(void)
{
	stop();
	copy("bastion.db", "old.db");
	start();
	work_past(driver_value(&d, DRIVER_BOX, "SELECT max(seq) + 60 FROM audit"));
	return held();
}

/* Stop the box, keep what it has as ${kept}, put ${instead} in its place, start it. */
static void
exchange(const char *kept, const char *instead)
{
	stop();
	copy("bastion.db", kept);
	copy(instead, "bastion.db");
	start();
}

/* The first answer brings a checkpoint; those that follow grow, and what is held is one of the
 * box's own. */
static void
a_box_is_followed(void **state)
{
	(void)state;
	work_past(0);
	holds("followed");
	work_past(held());
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM audit_checkpoint WHERE size = %" PRId64, held()),
	    1);
	driver_does(&said, NULL, "host", "boxes", NULL);
	assert_non_null(strstr(said.out, "fits, "));
	/* Most answers show what is held already, and cost the Host no row. */
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM audit WHERE entity = 'box_witness'"),
	    1);
}

/* An answer that waits for a person shows the audit first, and the question behind it: a Host that
 * holds a checkpoint takes it, and shows nothing of the proof to who asked.  While it waits the
 * Host is shown more, and holds that. */
static void
an_ask_that_waits_shows_the_audit_first(void **state)
{
	char control[256], body[512], end[16];
	int64_t before = held(), call;
	int fd;

	(void)state;
	assert_true(before > 0);
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_HOST]);
	snprintf(body, sizeof(body),
	    "{\"box\":\"%s\",\"op\":\"observe:folders\",\"args\":[\"%s\",\"1\"],"
	    "\"anew\":true,\"wait_ms\":60000}",
	    d.box, tree);
	fd = wire_dial(control);
	assert_int_equal(wire_request(fd, "POST", "/v1/calls", "", body, strlen(body)), 0);
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT count(*) FROM call_output WHERE json_type(frame, '$.q') = 'integer'");
	call = driver_value(&d, DRIVER_HOST, "SELECT max(id) FROM call");
	work_past(driver_value(&d, DRIVER_BOX, "SELECT max(size) FROM audit_checkpoint"));
	before = held();
	driver_approve(&d, driver_question(&d));
	wire_take(fd, &answer);
	close(fd);
	assert_true(answer.whole);
	assert_non_null(strstr(answer.body, "{\"x\":0}"));
	assert_null(strstr(answer.body, "\"w\""));
	driver_text(
	    &d, DRIVER_HOST, end, sizeof(end), "SELECT state FROM call WHERE id = %" PRId64, call);
	assert_string_equal(end, "done");
	holds("followed");
	assert_true(held() >= before);
}

/* An older database in the box's place runs nothing, is told apart in words, and heals. */
static void
a_rolled_back_box_is_refused(void **state)
{
	int64_t rows, runs;

	(void)state;
	rows = work_past_old();
	exchange("new.db", "old.db");
	runs = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run");
	ask_refused(126, "witness.behind");
	assert_non_null(strstr(said.err, "its database is an older one"));
	assert_non_null(strstr(said.err, "bastion host accept"));
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_run"), runs);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM refused WHERE code = 'witness.behind'"),
	    1);
	holds("behind");
	assert_int_equal(held(), rows);
	driver_does(&said, NULL, "host", "boxes", NULL);
	assert_non_null(strstr(said.out, "ROLLED BACK"));
	driver_does(&said, NULL, "host", "status", NULL);
	assert_non_null(strstr(said.out, "the audit of 1 went back or was written anew"));
	ask_refused(126, "witness.behind");

	exchange("old.db", "new.db");
	ask();
	holds("followed");
	assert_true(held() >= rows);
}

/* The older database works on until it has more rows than the Host was shown: they are others. */
static void
a_forked_box_is_refused(void **state)
{
	int64_t rows;

	(void)state;
	rows = work_past_old();
	exchange("new.db", "old.db");
	while (driver_value(&d, DRIVER_BOX, "SELECT max(size) FROM audit_checkpoint") <= rows) {
		driver_does(&said, NULL, "settings", "set", "cert.wait_ms", "4001", NULL);
		driver_does(&said, NULL, "settings", "set", "cert.wait_ms", "4000", NULL);
	}
	ask_refused(126, "witness.forked");
	holds("forked");
	driver_refused(
	    &said, 126, "witness.forked", NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	driver_does(&said, NULL, "host", "boxes", NULL);
	assert_non_null(strstr(said.out, "FORKED"));
}

/* A person at the Host takes it as it is, on the record; from then on it is followed again. */
static void
a_person_accepts_a_restore(void **state)
{
	(void)state;
	driver_refused(&said, 2, "witness.unknown", NULL, "host", "accept", "nobody", NULL);
	driver_does(&said, NULL, "host", "accept", d.box, NULL);
	holds("accepted");
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM audit WHERE entity = 'box_witness'"
			     " AND action = 'accepted' AND who GLOB 'person:*'"
			     " AND body ->> 'why' IS NOT NULL"),
	    1);
	driver_refused(&said, 2, "witness.unknown", NULL, "host", "accept", d.box, NULL);
	ask();
	holds("followed");
	work_past(held());
}

/*
 * A box that lies: its program is another, with its own key's signatures from before.
 */

static int
listen_as_box(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int listener;

	snprintf(name.sun_path, sizeof(name.sun_path), "%s/lane.sock", d.run[DRIVER_BOX]);
	unlink(name.sun_path);
	assert_true((listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) != -1);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(listener, 2), 0);
	return listener;
}

static int
hear(int listener)
{
	char request[16384];
	int fd = accept(listener, NULL, NULL);

	if (fd == -1 || read(fd, request, sizeof(request)) < 1)
		_exit(1);
	return fd;
}

static void
tell(int fd, const char *frames)
{
	char request[16384];

	dprintf(fd,
	    "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: %zu\r\n\r\n%s",
	    strlen(frames), frames);
	shutdown(fd, SHUT_WR);
	while (read(fd, request, sizeof(request)) > 0)
		;
	close(fd);
}

/* Answer one ask with ${frames}, as the box's daemon would. */
static pid_t
lie(const char *frames)
{
	int listener = listen_as_box();
	pid_t pid;

	if ((pid = fork()) != 0) {
		close(listener);
		return pid;
	}
	tell(hear(listener), frames);
	_exit(0);
}

/* Hold one ask open, answer the next with ${second}, and the first with ${first} once ${go} can be
 * read. */
static pid_t
lie_late(const char *first, const char *second, int go)
{
	int listener = listen_as_box(), open;
	char byte;
	pid_t pid;

	if ((pid = fork()) != 0) {
		close(listener);
		return pid;
	}
	open = hear(listener);
	tell(hear(listener), second);
	if (read(go, &byte, 1) != 1)
		_exit(1);
	tell(open, first);
	_exit(0);
}

static void
lie_refused(const char *frames, int code, const char *refusal)
{
	pid_t pid = lie(frames);
	int status;

	ask_refused(code, refusal);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* {"w":text} of a checkpoint as bastion audit prints it. */
static void
frame_of(const char *head, const char *note, char *out, size_t size)
{
	size_t n = (size_t)snprintf(out, size, "{\"w\":\"");

	for (; *head != '\0' && n + 8 < size; head++)
		n += (size_t)snprintf(out + n, size - n, *head == '\n' ? "\\n" : "%c", *head);
	for (; *note != '\0' && n + 8 < size; note++)
		n += (size_t)snprintf(out + n, size - n, *note == '\n' ? "\\n" : "%c", *note);
	snprintf(out + n, size - n, "\"}\n{\"x\":0}\n");
}

static void
a_lying_box_is_caught(void **state)
{
	static char frames[8192], note[2048];
	char head[128];

	(void)state;
	driver_does(&said, NULL, "audit", "checkpoint", NULL);
	snprintf(note, sizeof(note), "%.2000s", said.out);
	work_past(driver_value(&d, DRIVER_BOX, "SELECT max(size) FROM audit_checkpoint"));
	stop();

	/* It shows nothing any more. */
	lie_refused("{\"x\":0}\n", 126, "witness.missing");
	holds("followed");
	/* What is no proof, and what another key has signed. */
	lie_refused("{\"w\":\"nonsense\"}\n{\"x\":0}\n", 2, "proof.form");
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) > 0 FROM audit_checkpoint");
	driver_does(&said, NULL, "audit", "checkpoint", "--host", NULL);
	snprintf(head, sizeof(head), "old %" PRId64 "\n\n", held());
	frame_of(head, said.out, frames, sizeof(frames));
	lie_refused(frames, 126, "checkpoint.other");
	holds("followed");
	/* An older checkpoint, truly signed. */
	frame_of(head, note, frames, sizeof(frames));
	lie_refused(frames, 126, "witness.behind");
	holds("behind");
	/* The newest, with a proof that does not fit it. */
	driver_does(&said, NULL, "audit", "checkpoint", NULL);
	snprintf(head, sizeof(head),
	    "old %" PRId64 "\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n", held());
	frame_of(head, said.out, frames, sizeof(frames));
	lie_refused(frames, 126, "witness.forked");
	holds("forked");
	start();
	ask();
	holds("followed");
}

/* The frames of an answer that shows how the box's audit goes on from the ${old} rows that are
 * held; as the box has it now, and with more than ${rows} rows. */
static int64_t
shown_from(int64_t old, int64_t rows, char *out, size_t size)
{
	unsigned char pk[32];
	struct store_keys keys;
	struct store *db;
	struct stmt *q;
	char *text;
	size_t len;
	FILE *f;

	start();
	while (driver_value(&d, DRIVER_BOX, "SELECT max(size) FROM audit_checkpoint") <= rows) {
		driver_does(&said, NULL, "settings", "set", "cert.wait_ms", "4001", NULL);
		driver_does(&said, NULL, "settings", "set", "cert.wait_ms", "4000", NULL);
	}
	stop();
	db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, &keys);
	assert_non_null(q = store_sql(db, "SELECT identity_key FROM box"));
	assert_int_equal(stmt_step(q), 1);
	memcpy(pk, stmt_get_blob(q, 0, sizeof(pk)), sizeof(pk));
	stmt_done(q);
	assert_non_null(f = open_memstream(&text, &len));
	assert_int_equal(audit_follow(db, pk, old, 0, f), 0);
	assert_int_equal(fclose(f), 0);
	store_close(db);
	frame_of("", text, out, size);
	free(text);
	return driver_value(&d, DRIVER_BOX, "SELECT max(size) FROM audit_checkpoint");
}

/* Two histories, each of which goes on from what was held when both asks were sent: the one that
 * came first is held, and the answer that was held back moves nothing. */
static void
a_held_back_answer_forks_nothing(void **state)
{
	static char one[16384], two[16384];
	const char *words[] = {"on", d.box, "observe:folders", tree, "1", NULL};
	int64_t before, first, second;
	int go[2], status;
	struct job job;
	pid_t pid;

	(void)state;
	work_past(held());
	before = held();
	stop();
	copy("bastion.db", "fork.db");
	first = shown_from(before, before, one, sizeof(one));
	copy("bastion.db", "one.db");
	copy("fork.db", "bastion.db");
	second = shown_from(before, first, two, sizeof(two));
	assert_true(first > before && second > first);

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = lie_late(two, one, go[0]);
	driver_start(&job, NULL, words);
	driver_until(&d, DRIVER_HOST, 1, "SELECT count(*) FROM call WHERE state = 'sent'");
	ask();
	assert_int_equal(held(), first);
	assert_int_equal(write(go[1], "", 1), 1);
	driver_finish(&job, &said);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(held(), first);
	holds("followed");
	close(go[0]);
	close(go[1]);

	/* The next ask proves from what is held: the other history is found out. */
	start();
	ask_refused(126, "witness.forked");
	exchange("two.db", "one.db");
	ask();
	holds("followed");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_box_is_followed),
	    cmocka_unit_test(an_ask_that_waits_shows_the_audit_first),
	    cmocka_unit_test(a_rolled_back_box_is_refused),
	    cmocka_unit_test(a_forked_box_is_refused),
	    cmocka_unit_test(a_person_accepts_a_restore),
	    cmocka_unit_test(a_lying_box_is_caught),
	    cmocka_unit_test(a_held_back_answer_forks_nothing),
	};

	return cmocka_run_group_tests(tests, first_day, evening);
}
