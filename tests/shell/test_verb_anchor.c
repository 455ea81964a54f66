/* test_verb_anchor.c: set-mode, pair at a terminal, claim-anchor, pairings, status, as typed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/state/code.h"
#include "engine/state/pairing.h"
#include "shell/consent.h"
#include "tests/driver.h"
#include "tests/paper.h"
#include "tests/person.h"
#include "tests/program.h"

#define NOBODY 65534

#define SAYS(s, exit, part, ...) says(s, exit, part, (const char *const[]){__VA_ARGS__, NULL})

/* Run, and hold the exit code and a part of what was said. */
static void
says(struct scratch *s, int exit, const char *part, const char *const words[])
{
	struct program p;

	program_run(&p, s, NULL, words);
	if (p.code != exit || (strstr(p.out, part) == NULL && strstr(p.err, part) == NULL))
		fail_msg("exit %d: %s%s, without: %s", p.code, p.out, p.err, part);
	program_free(&p);
}

static struct paper_host hosts[3];

static void
host_pair(struct scratch *s, int i, const char *name, int64_t by)
{
	struct pairing_offer offer = {
	    .host = name, .host_key = hosts[i].pk, .peer_uid = 1000, .by_uid = by, .answer = "yes"};
	struct pairing_made made;

	paper_host(&hosts[i], name);
	if (pairing_add(scratch_open(s, ROLE_PERSON), &offer, &made) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
	hosts[i].id = made.id;
	store_close(s->db);
	s->db = NULL;
}

/* PAIR-9: a name stands in quotes, and nothing in it drives the terminal or poses as text of ours.
 */
static void
a_name_is_quoted_and_escaped(void **state)
{
	static const char evil[] = "evil\nhost\" (trusted) \\ \x1b[2J\xe2\x80\xae";
	char text[512] = "";
	FILE *f;

	(void)state;
	assert_non_null(f = fmemopen(text, sizeof(text) - 1, "w"));
	consent_question(f, "laptop", evil);
	fclose(f);
	assert_string_equal(text,
	    "This machine is asked by laptop already.\n"
	    "Let the Host \"evil\\nhost\\\" (trusted) \\\\ \\x1b[2J\\u202e\" ask"
	    " it as well? [y/N] ");
}

/* What the daemons' box is for program_run and program_talk. */
static void
scratch_of(struct driver *d, struct scratch *s)
{
	memset(s, 0, sizeof(*s));
	snprintf(s->dir, sizeof(s->dir), "%s", d->dir);
	snprintf(s->home.state, sizeof(s->home.state), "%s", d->state[DRIVER_BOX]);
	snprintf(s->home.run, sizeof(s->home.run), "%s", d->run[DRIVER_BOX]);
}

/* A box with the Host "first", whose key nobody has, and a code of another Host. */
static void
second_make(struct driver *d, char code[1024])
{
	static struct said said;
	struct store_keys keys = {.present = false};
	struct pairing_made made;
	struct pairing_offer offer = {.host = "first", .peer_uid = 1000};
	struct store *db;

	driver_make(d);
	driver_serve(d, DRIVER_BOX);
	driver_does(&said, NULL, "host", "init", "second", NULL);
	driver_serve(d, DRIVER_HOST);
	paper_host(&hosts[0], "first");
	offer.host_key = hosts[0].pk;
	db = driver_open(d, DRIVER_BOX, ROLE_PERSON, &keys);
	if (pairing_add(db, &offer, &made) != 0)
		fail_msg("%s", store_refusal(db)->why);
	store_close(db);
	driver_does(&said, NULL, "host", "invite", d->box, NULL);
	snprintf(code, 1024, "%.*s", (int)strcspn(said.out, "\n"), said.out);
}

/* The program with ${input}, in a session without a terminal.  Its exit code. */
static int
without_terminal(struct scratch *s, const char *input, const char *const words[])
{
	struct program p;
	int status;
	pid_t pid;

	if ((pid = fork()) == 0) {
		setsid();
		program_run(&p, s, input, words);
		_exit(strstr(p.err, "[pairing.second]") != NULL ? p.code : 99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* PAIR-6, PAIR-7: only the terminal is asked, only y or yes is a yes, and a no spends no code. */
static void
a_second_host_is_asked_about(void **state)
{
	static const char *const no[] = {
	    "\n", "n\n", "yep\n", "yes please, by all means\n", "\x04", "y\x04\x04"};
	struct program_talk talk;
	char code[1024], input[1100];
	struct driver d;
	struct scratch s;
	int64_t before;
	size_t i;

	(void)state;
	second_make(&d, code);
	scratch_of(&d, &s);
	driver_settle(&d, DRIVER_BOX);
	before = driver_value(&d, DRIVER_BOX, "SELECT max(seq) FROM audit");
	assert_int_equal(
	    without_terminal(&s, "y\n", (const char *const[]){"pair", code, NULL}), 126);
	snprintf(input, sizeof(input), "%s\ny\nyes\n", code);
	assert_int_equal(
	    without_terminal(&s, input, (const char *const[]){"pair", "-", NULL}), 126);
	for (i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		program_talk(&talk, &s, (const char *const[]){"pair", code, NULL});
		program_expect(&talk, "asked by first already.");
		program_expect(&talk, "Let the Host \"second\" ask it as well? [y/N] ");
		program_type(&talk, no[i]);
		program_expect(&talk, "[pairing.second]");
		program_ends(&talk, 126);
	}
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing"), 1);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT max(seq) FROM audit"), before);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(*) FROM invitation WHERE state = 'open'"),
	    1);
	program_talk(&talk, &s, (const char *const[]){"pair", code, NULL});
	program_expect(&talk, "[y/N] ");
	program_type(&talk, "yes\n");
	program_expect(&talk, "The Host second may ask this machine now");
	program_ends(&talk, 0);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing WHERE state = 'active'"), 2);
	/* PAIR-4: again is exit 3; CFG-4: nothing to replace is an error, and not that one. */
	SAYS(&s, 3, "[pairing.exists]", "pair", code);
	driver_drop(&d);
}

/* A Host that takes calls and never answers, and a code that leads to it. */
static int
deaf_host(struct driver *d, char code[CODE_MAX + 1])
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct pairing_code facts = {.host = "deaf"};
	struct store *db;
	int fd;

	paper_host(&hosts[0], "deaf");
	memcpy(facts.host_key, hosts[0].pk, 32);
	randombytes_buf(facts.token, sizeof(facts.token));
	snprintf(facts.path, sizeof(facts.path), "%s/deaf.sock", d->dir);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", facts.path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	db = driver_open(d, DRIVER_BOX, ROLE_READER, NULL);
	assert_int_equal(code_make(db, &facts, code), 0);
	store_close(db);
	return fd;
}

/* In how many command lines and environments of all processes the ${len} bytes at ${text} stand. */
static int
stands_in_proc(const char *text, size_t len)
{
	static const char *const files[] = {"cmdline", "environ"};
	static char bytes[1048576];
	char path[64];
	struct dirent *e;
	int count = 0;
	DIR *dir;
	size_t i;
	FILE *f;

	assert_non_null(dir = opendir("/proc"));
	while ((e = readdir(dir)) != NULL)
		for (i = 0; i < 2 && e->d_name[0] >= '1' && e->d_name[0] <= '9'; i++) {
			snprintf(path, sizeof(path), "/proc/%.16s/%s", e->d_name, files[i]);
			if ((f = fopen(path, "re")) == NULL)
				continue;
			count +=
			    memmem(bytes, fread(bytes, 1, sizeof(bytes), f), text, len) != NULL;
			fclose(f);
		}
	closedir(dir);
	return count;
}

/* PAIR-10: while a Host is asked, its code stands in no process's arguments, those of the one that
 * was told it included, and in no environment, the daemon's children's included. */
static void
the_code_is_in_no_process(void **state)
{
	static struct said said;
	char code[CODE_MAX + 1], input[CODE_MAX + 2];
	struct driver d;
	struct pollfd p;
	struct job job;
	int caller, i;

	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	p = (struct pollfd){.fd = deaf_host(&d, code), .events = POLLIN};
	snprintf(input, sizeof(input), "%s\n", code);
	driver_does(&said, NULL, "settings", "set", "pairing.wait_ms", "1000", NULL);
	for (i = 0; i < 2; i++) {
		driver_start(&job, i == 0 ? NULL : input,
		    (const char *const[]){"pair", i == 0 ? code : "-", NULL});
		assert_int_equal(poll(&p, 1, DRIVER_WAIT_MS), 1);
		assert_true((caller = accept4(p.fd, NULL, NULL, SOCK_CLOEXEC)) >= 0);
		assert_false(driver_finished(&job));
		assert_int_equal(stands_in_proc(code, strlen(code)), 0);
		/* Nor does any piece of it, but for the beginning that all codes share. */
		assert_int_equal(stands_in_proc(code + 20, 40), 0);
		assert_int_equal(stands_in_proc(code + strlen(code) - 40, 40), 0);
		/* The search does find what is there, in the verb and in the daemon. */
		assert_true(stands_in_proc(d.state[DRIVER_BOX], strlen(d.state[DRIVER_BOX])) >= 2);
		assert_int_equal(driver_finish(&job, &said), 1);
		assert_non_null(strstr(said.err, "[pairing.unreachable]"));
		assert_null(strstr(said.err, code + 20));
		close(caller);
	}
	close(p.fd);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM pairing"), 0);
	driver_drop(&d);
}

/* The mode, a claim, and what is shown of both, from the first day on. */
static void
a_machine_goes_on_the_network(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	SAYS(&s, 1, "mode        local", "status");
	SAYS(&s, 2, "give one mode", "set-mode");
	SAYS(&s, 2, "give one mode", "set-mode", "lab");
	SAYS(&s, 126, "[anchor.mode]", "claim-anchor");
	SAYS(&s, 126, "set-mode networked", "claim-anchor");
	SAYS(&s, 0, "local already", "set-mode", "local");
	SAYS(&s, 0, "{\"mode\":\"networked\",\"changed\":true}", "set-mode", "networked", "--json");
	SAYS(
	    &s, 0, "{\"mode\":\"networked\",\"changed\":false}", "set-mode", "networked", "--json");
	SAYS(&s, 1, "nothing is answered: bastion pair CODE", "status");
	SAYS(&s, 2, "pair one first", "claim-anchor");
	host_pair(&s, 0, "main.example.org", 1000);
	SAYS(&s, 1, "nothing is answered: bastion claim-anchor", "status");
	SAYS(&s, 0, "main.example.org is now the anchor of this machine, owned by Acme.",
	    "claim-anchor", "--owner", "Acme");
	SAYS(&s, 0, "already; nothing was changed", "claim-anchor", "--host", "main");
	SAYS(&s, 0, "\"changed\":false", "claim-anchor", "--json");
	SAYS(&s, 1, "networked, anchored to main.example.org for Acme", "status");
	SAYS(&s, 1, "\"anchor\":{\"host\":\"main.example.org\",\"owner\":\"Acme\",\"live\":true",
	    "status", "--json");
	SAYS(&s, 126, "[box.anchored]", "set-mode", "local");
	host_pair(&s, 1, "other.example.org", 0);
	SAYS(&s, 126, "[anchor.held]", "claim-anchor", "--host", "other");
	SAYS(&s, 2, "[pairing.several]", "claim-anchor", "--rotate");
	SAYS(&s, 126, "[anchor.silence]", "claim-anchor", "--rotate", "--host", "other");
	SAYS(&s, 0, "other.example.org  pending", "pairings");
	SAYS(&s, 0, "active, the anchor of this machine", "pairings", "show", "main");
	SAYS(&s, 0, "It is the anchor of this machine, which answers nobody now", "unpair", "main");
	SAYS(&s, 1, "its anchor main.example.org does not stand", "status");
	SAYS(&s, 0, "revoked", "pairings", "--all");
	SAYS(&s, 2, "[pairing.unknown]", "unpair", "main");
	scratch_drop(&s);
}

/* A consent that a person carries in a file moves the anchor; one that is none does not. */
static void
a_consent_is_carried_in_a_file(void **state)
{
	char path[PATH_MAX], body[PAPER_BODY_MAX];
	struct paper paper;
	struct scratch s;
	FILE *f;

	(void)state;
	scratch_make(&s, HOME_BOX);
	SAYS(&s, 0, "networked now", "set-mode", "networked");
	host_pair(&s, 0, "main", 0);
	host_pair(&s, 1, "other", 0);
	snprintf(path, sizeof(path), "%s/consent", s.dir);
	SAYS(&s, 2, "[file.missing]", "claim-anchor", "--rotate", "--host", "other", "--consent",
	    path);
	assert_non_null(f = fopen(path, "we"));
	fputs("{}", f);
	fclose(f);
	SAYS(&s, 126, "[anchor.terms]", "claim-anchor", "--rotate", "--host", "other", "--consent",
	    path);
	paper_make(&paper, "anchor_consent", &hosts[0], "box-a", s.keys.identity, &hosts[1]);
	paper_write(&paper, &hosts[0]);
	assert_non_null(f = fopen(path, "we"));
	fputs(paper_body(&paper, body), f);
	fclose(f);
	SAYS(&s, 2, "a consent is for --rotate", "claim-anchor", "--consent", path);
	SAYS(&s, 0, "other is now the anchor of this machine.", "claim-anchor", "--rotate",
	    "--host", "other", "--consent", path);
	SAYS(&s, 126, "[anchor.silence]", "claim-anchor", "--rotate", "--host", "main");
	scratch_drop(&s);
}

/* A person with an authenticator is asked for a code, on standard input where that is no terminal.
 */
static void
a_code_changes_the_mode(void **state)
{
	char code[8], input[16];
	struct program prog;
	struct person p;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	person_enrol(&s, &p, "phone");
	SAYS(&s, 126, "[factor.code]", "set-mode", "networked");
	snprintf(input, sizeof(input), "%s\n", person_code(&p, store_now(s.db), code));
	program_run(&prog, &s, input, (const char *const[]){"set-mode", "networked", NULL});
	if (prog.code != 0)
		fail_msg("%s", prog.err);
	assert_non_null(strstr(prog.err, "    mode: networked\n    change: 1\n"));
	program_free(&prog);
	program_run(&prog, &s, input, (const char *const[]){"set-mode", "local", NULL});
	assert_int_equal(prog.code, 126);
	assert_non_null(strstr(prog.err, "[factor.used]"));
	program_free(&prog);
	scratch_drop(&s);
}

/* ANC-1: who is not root has no machine authority, even over a state of their own. */
static void
another_than_root_is_refused(void **state)
{
	static const char *const verbs[][3] = {{"set-mode", "networked", NULL},
	    {"claim-anchor", NULL}, {"claim-anchor", "--rotate", NULL}};
	char command[128];
	struct program prog;
	struct scratch s;
	int status;
	size_t i;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root becomes another\n");
		skip();
	}
	scratch_make(&s, HOME_BOX);
	host_pair(&s, 0, "main", 1000);
	snprintf(command, sizeof(command), "chown -R %d:%d %s", NOBODY, NOBODY, s.dir);
	assert_int_equal(system(command), 0);
	for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if ((pid = fork()) == 0) {
			if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
				_exit(98);
			program_run(&prog, &s, NULL, verbs[i]);
			_exit(strstr(prog.err, "machine authority") != NULL ? prog.code : 99);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(WEXITSTATUS(status), 126);
	}
	snprintf(command, sizeof(command), "chown -R 0:0 %s", s.dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(scratch_value(&s, "SELECT mode = 'local' FROM box"), 1);
	scratch_drop(&s);
}

/* EP-33, EP-49, CFG-1: an invalid pairing is listed with reason, place and both ways out. */
static void
an_invalid_pairing_is_shown(void **state)
{
	char place[PATH_MAX + 64];
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	host_pair(&s, 0, "bad", 1000);
	host_pair(&s, 1, "good", 1000);
	if (scratch_sql(&s, "UPDATE pairing SET peer_uid = 4294967295, renewed_at = now_ms()"
			    " WHERE id = 1") != 0)
		fail_msg("%s", s.error);
	snprintf(place, sizeof(place), "(pairing bad in %s/bastion.db)", s.home.state);
	SAYS(&s, 0, "bad  [invalid]\n    no process of this machine", "pairings");
	SAYS(&s, 0, place, "pairings");
	SAYS(&s, 0, "bastion pair --replace CODE; or end it: bastion unpair bad", "pairings");
	SAYS(&s, 0, "good  active", "pairings");
	SAYS(&s, 0, "\"state\":\"invalid\"", "pairings", "--json");
	SAYS(&s, 0, "invalid    no process", "pairings", "show", "bad");
	SAYS(&s, 1, "bad (invalid), good (active)", "status");
	SAYS(&s, 1, "bad  [invalid]: no process", "status");
	SAYS(&s, 0, "bad may not ask any more", "unpair", "bad");
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_name_is_quoted_and_escaped),
	    cmocka_unit_test(a_second_host_is_asked_about),
	    cmocka_unit_test(the_code_is_in_no_process),
	    cmocka_unit_test(a_machine_goes_on_the_network),
	    cmocka_unit_test(a_consent_is_carried_in_a_file),
	    cmocka_unit_test(a_code_changes_the_mode),
	    cmocka_unit_test(another_than_root_is_refused),
	    cmocka_unit_test(an_invalid_pairing_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
