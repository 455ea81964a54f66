/* test_day.c: the first day of a box and a Host, as people live it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/base32.h"
#include "engine/crypto/key.h"
#include "net/host/sign.h"
#include "tests/driver.h"
#include "tests/wire.h"

static struct driver d;
static struct said said, other;
static struct wire_answer answer;
static char tree[128], port[8];
static char last_code[8], invitation[1024];
static int held = -1; /* a listener that takes connections and says nothing */

static int
first_day(void **state)
{
	(void)state;
	driver_first_day(&d);
	driver_does(&said, NULL, "settings", "set", "factor.steps", "10", NULL);
	driver_does(&said, NULL, "settings", "set", "cert.wait_ms", "60000", NULL);
	snprintf(tree, sizeof(tree), "%s/tree", d.dir);
	assert_int_equal(mkdir(tree, 0700), 0);
	return 0;
}

static int
evening(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

static const char *
number(int64_t n)
{
	static char text[4][24];
	static unsigned turn;

	snprintf(text[++turn % 4], sizeof(text[0]), "%" PRId64, n);
	return text[turn % 4];
}

static int64_t
box_value(const char *sql)
{
	return driver_value(&d, DRIVER_BOX, "%s", sql);
}

/* A listener that answers nobody: an observe:cert of it lasts until it is let go. */
static void
hold(void)
{
	struct sockaddr_in name = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);

	held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(held != -1);
	assert_int_equal(bind(held, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(held, 16), 0);
	assert_int_equal(getsockname(held, (struct sockaddr *)&name, &len), 0);
	snprintf(port, sizeof(port), "%d", ntohs(name.sin_port));
}

static void
let_go(void)
{
	close(held);
	held = -1;
}

/* An ask that runs until it is let go, under a grant of its own. */
static void
long_run(struct job *job)
{
	const char *const words[] = {"on", d.box, "observe:cert", port, NULL};

	hold();
	driver_grant(&d, "observe:cert", port, NULL, "1", "1h");
	driver_start(job, NULL, words);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM live_runs WHERE state = 'running'");
}

/*
 * Asking and approving.
 */

/* AP-1: what nobody allowed is a question, and exit 77; asked again it is the same question. */
static void
ask_becomes_a_question(void **state)
{
	(void)state;
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree,
	    "1", "--uses", "2", NULL);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree,
	    "1", "--uses", "2", NULL);
	assert_int_equal(box_value("SELECT count(*) FROM open_approvals"), 1);
	assert_int_equal(box_value("SELECT count(*) FROM op_run"), 0);
	driver_does(&said, NULL, "approvals", NULL);
	assert_non_null(strstr(said.out, tree));
}

/* AP-2: a code approves it once, and is spent; the answer comes, as often as was asked for. */
static void
code_approves_once(void **state)
{
	int64_t id = driver_question(&d);

	(void)state;
	driver_code(&d, last_code);
	driver_does(&said, last_code, "approve", number(id), NULL);
	driver_refused(&said, 126, "approval.decided", last_code, "approve", number(id), NULL);
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "1", "--json", NULL);
	assert_non_null(strstr(said.out, "{\"r\":{\"path\":"));
	assert_non_null(strstr(said.out, "{\"x\":0}\n"));
	driver_refused(
	    &said, 126, "grant.args", NULL, "on", d.box, "observe:folders", "/etc", NULL);
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	assert_int_equal(box_value("SELECT count(*) FROM op_run WHERE state = 'done'"), 2);
	assert_int_equal(
	    box_value("SELECT state = 'spent' FROM grant ORDER BY id DESC LIMIT 1"), 1);
	/* Spent: it is a question again, and the code that was used does not answer it. */
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	driver_refused(
	    &said, 126, "factor.used", last_code, "approve", number(driver_question(&d)), NULL);
	assert_int_equal(box_value("SELECT count(*) FROM live_grants"), 0);
}

/* AP-3: a denied question stays denied; the Host may ask again. */
static void
denied_stays_denied(void **state)
{
	char code[8];
	int64_t id = driver_question(&d);

	(void)state;
	driver_does(&said, NULL, "deny", number(id), NULL);
	driver_refused(
	    &said, 126, "approval.decided", driver_code(&d, code), "approve", number(id), NULL);
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	assert_true(driver_question(&d) > id);
}

/* GR-1: a grant for a second is gone after it, and the row says so without anybody asking. */
static void
grant_runs_out(void **state)
{
	(void)state;
	driver_grant(&d, "observe:folders", tree, "2", "5", "1s");
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_grants");
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree, "2", NULL);
	driver_until(
	    &d, DRIVER_BOX, 1, "SELECT state = 'expired' FROM grant ORDER BY id DESC LIMIT 1");
}

/* What a shell makes of the command ${format}. */
static void
shell(const char *format, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

/* AP-4: ssh-keygen's signature over the bytes that are shown approves exactly these. */
static void
signature_approves(void **state)
{
	char path[128], file[128];
	int64_t id;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/me.pub", d.dir);
	snprintf(file, sizeof(file), "%s/terms.sig", d.dir);
	shell("ssh-keygen -q -t ed25519 -N '' -C me -f %s/me", d.dir);
	driver_does(&said, NULL, "factor", "add", "ssh", path, NULL);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree,
	    "3", "--uses", "3", NULL);
	id = driver_question(&d);
	driver_does(&said, NULL, "approvals", "show", number(id), "--bytes", NULL);
	snprintf(path, sizeof(path), "%s/terms", d.dir);
	assert_non_null(f = fopen(path, "we"));
	assert_true(fputs(said.out, f) >= 0 && fclose(f) == 0);
	/* In another namespace it is another statement. */
	shell("cd %s && ssh-keygen -q -Y sign -n file -f me terms 2>/dev/null", d.dir);
	driver_refused(
	    &said, 126, "factor.signature", NULL, "approve", number(id), "--signature", file, NULL);
	shell("cd %s && rm terms.sig && ssh-keygen -q -Y sign -n bastion -f me terms 2>/dev/null",
	    d.dir);
	driver_does(&said, NULL, "approve", number(id), "--signature", file, NULL);
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "3", NULL);
}

/* FA-1: five wrong codes close the door, for the right one as well, until the while is over. */
static void
wrong_codes_close_the_door(void **state)
{
	char code[8], wrong[8];
	int i;

	(void)state;
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", d.box, "observe:logins", "1", NULL);
	driver_code(&d, code);
	snprintf(wrong, sizeof(wrong), "%s", code);
	for (i = 0; i < 5; i++) {
		wrong[i] = wrong[i] == '9' ? '0' : (char)(wrong[i] + 1);
		driver_refused(
		    &said, 126, "factor.code", wrong, "approve", number(driver_question(&d)), NULL);
	}
	driver_refused(
	    &said, 75, "factor.throttled", code, "approve", number(driver_question(&d)), NULL);
	driver_does(&said, NULL, "settings", "set", "factor.throttle_ms", "1000", NULL);
	driver_until(&d, DRIVER_BOX, 0, "SELECT wrong FROM factor_throttle");
	driver_does(&said, code, "approve", number(driver_question(&d)), NULL);
}

/*
 * One refusal, three surfaces.
 */

static void
sign_as_host(const char *body, char *headers, size_t size)
{
	char key[65], nonce[33], signature[SIGN_BASE64], path[128];
	unsigned char pk[32];
	struct refusal r = {0};
	struct key *host;
	struct sign_request request = {.method = "POST",
	    .path = "/v1/ops",
	    .time = clock_now(),
	    .nonce = nonce,
	    .body = body,
	    .len = strlen(body)};

	snprintf(path, sizeof(path), "%s/bastion.key", d.state[DRIVER_HOST]);
	assert_non_null(host = key_load(path, &r));
	key_public(host, KEY_IDENTITY, pk);
	sodium_bin2hex(key, sizeof(key), pk, sizeof(pk));
	random_hex(nonce);
	assert_int_equal(sign_make(host, &request, signature), 0);
	key_free(host);
	snprintf(headers, size,
	    "Bastion-Key: %s\r\nBastion-Time: %" PRId64 "\r\nBastion-Nonce: %s\r\n"
	    "Bastion-Signature: %s\r\n",
	    key, request.time, nonce, signature);
}

static void
same_everywhere(const char *op, const char *a, const char *code)
{
	char body[512], headers[1024], mark[96], lane[512];
	int64_t exit_code =
	    driver_value(&d, DRIVER_BOX, "SELECT exit_code FROM refusal WHERE code = '%s'", code);

	driver_refused(&said, (int)exit_code, code, NULL, "on", d.box, op, a, NULL);
	assert_int_equal(driver_run(&said, NULL, "on", d.box, op, a, "--json", NULL), exit_code);
	snprintf(mark, sizeof(mark), "{\"error\":{\"code\":\"%s\",", code);
	assert_non_null(strstr(said.err, mark));
	snprintf(body, sizeof(body), "{\"op\":\"%s\",\"args\":[\"%s\"]}", op, a);
	sign_as_host(body, headers, sizeof(headers));
	snprintf(lane, sizeof(lane), "%s/lane.sock", d.run[DRIVER_BOX]);
	wire_ask(lane, "POST", "/v1/ops", headers, body, strlen(body), &answer);
	assert_string_equal(answer.refused, code);
	assert_non_null(strstr(answer.body, mark));
	assert_int_equal(
	    answer.status, driver_value(&d, DRIVER_BOX,
			       "SELECT http_status FROM refusal WHERE code = '%s'", code));
}

/* RF-1: a rule has one name: at the command line, in JSON, as HTTP status and header. */
static void
refusals_are_the_same_everywhere(void **state)
{
	(void)state;
	same_everywhere("observe:folders", "/var", "grant.args");
	same_everywhere("observe:journal", "ssh", "approval.needed");
	same_everywhere("observe:nothing", "x", "op.unknown");
	same_everywhere("observe:folders", "relative", "observe.path");
	same_everywhere("observe:cert", "0", "observe.port");
}

/*
 * Daemons.
 */

/* SV-1: a second daemon on the same state says who has it, and changes nothing. */
static void
second_daemon_says_who_serves(void **state)
{
	char pid[32];

	(void)state;
	snprintf(pid, sizeof(pid), "%d", d.serving[DRIVER_BOX]);
	driver_refused(&said, 1, "instance.running", NULL, "serve", NULL);
	assert_non_null(strstr(said.err, pid));
	driver_refused(&said, 1, "instance.running", NULL, "host", "serve", NULL);
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "3", NULL);
}

/* The run that was under way is over, one way or the other, and what the Host was told agrees. */
static void
run_is_over(struct job *job)
{
	char is[16];

	let_go();
	driver_finish(job, &said);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_runs");
	driver_text(
	    &d, DRIVER_BOX, is, sizeof(is), "SELECT state FROM op_run ORDER BY id DESC LIMIT 1");
	assert_true(strcmp(is, "queued") != 0 && strcmp(is, "running") != 0);
	assert_int_not_equal(said.code, 0); /* it had no certificate to show */
	driver_until(&d, DRIVER_HOST, 0, "SELECT count(*) FROM call WHERE finished_at IS NULL");
}

/* SV-2: SIGTERM ends what runs, in its row as well, and the daemon starts again. */
static void
sigterm_leaves_nothing_open(void **state)
{
	struct job job;
	int status;

	(void)state;
	long_run(&job);
	status = driver_end(&d, DRIVER_BOX, SIGTERM);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	run_is_over(&job);
	assert_int_equal(
	    box_value("SELECT state = 'ended' FROM instance ORDER BY id DESC LIMIT 1"), 1);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "3", NULL);
}

/* Kill the process, wait for what takes its place. */
static void
kill_actor(enum driver_side side, const char *actor)
{
	pid_t pid =
	    strcmp(actor, "runner") == 0 ? driver_runner(&d) : driver_actor(&d, side, actor);
	int64_t limit = driver_now() + DRIVER_WAIT_MS;

	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	if (strcmp(actor, "runner") == 0)
		actor = "worker";
	while (kill(pid, 0) == 0 || driver_actor(&d, side, actor) == 0) {
		assert_true(driver_now() < limit);
		driver_pause();
	}
}

/* KL-1: each actor may die while an op runs: the run reads as done, failed or lost, never as half,
 * and the next ask is answered. */
static void
killed_actors_lose_nothing(void **state)
{
	static const struct {
		enum driver_side side;
		const char *actor;
	} actors[] = {{DRIVER_BOX, "net"}, {DRIVER_BOX, "worker"}, {DRIVER_BOX, "keeper"},
	    {DRIVER_BOX, "runner"}, {DRIVER_HOST, "net"}, {DRIVER_HOST, "link"},
	    {DRIVER_HOST, "keeper"}};
	struct job job;
	size_t i;

	(void)state;
	driver_grant(&d, "observe:folders", tree, "1", "50", "1h");
	for (i = 0; i < sizeof(actors) / sizeof(actors[0]); i++) {
		long_run(&job);
		kill_actor(actors[i].side, actors[i].actor);
		run_is_over(&job);
		driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	}
}

/* KL-2: the supervisor may die: its actors go with it, the run is lost, and the next daemon says
 * so. */
static void
killed_supervisor_loses_its_runs(void **state)
{
	struct job job;

	(void)state;
	long_run(&job);
	driver_end(&d, DRIVER_BOX, SIGKILL);
	driver_serve(&d, DRIVER_BOX);
	run_is_over(&job);
	assert_int_equal(
	    box_value("SELECT state = 'lost' FROM op_run ORDER BY id DESC LIMIT 1"), 1);
	long_run(&job);
	driver_end(&d, DRIVER_HOST, SIGKILL);
	let_go();
	driver_serve(&d, DRIVER_HOST);
	driver_finish(&job, &said);
	assert_int_not_equal(said.code, 0);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_runs");
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
}

/*
 * What is left.
 */

/* AU-1: the chain of both is whole; one changed word in a copy is found. */
static void
audit_is_whole(void **state)
{
	(void)state;
	driver_does(&said, NULL, "audit", "verify", NULL);
	driver_does(&said, NULL, "audit", "verify", "--host", NULL);
	shell(
	    "cd %s && rm -f copy.db && sqlite3 %s/bastion.db \".backup copy.db\" &&"
	    " sqlite3 copy.db \"SELECT sql || ';' FROM sqlite_schema WHERE name = 'audit_no_update'\" > t.sql"
	    " && sqlite3 copy.db \"DROP TRIGGER audit_no_update; UPDATE audit SET action = 'denied'"
	    " WHERE seq = 7\" && sqlite3 copy.db < t.sql",
	    d.dir, d.state[DRIVER_BOX]);
	snprintf(said.out, sizeof(said.out), "%s/copy.db", d.dir);
	assert_int_equal(driver_run(&other, NULL, "audit", "verify", said.out, NULL), 1);
	assert_non_null(strstr(other.out, "7"));
}

/* FS-1: state and sockets are their owner's alone. */
static void
files_are_private(void **state)
{
	static const char *const files[] = {"bastion.db", "bastion.db-wal", "bastion.db-shm",
	    "bastion.key", "bastion.lock", "bastion.gate"};
	static const char *const socks[2][2] = {
	    {"control.sock", "lane.sock"}, {"control.sock", "enroll.sock"}};
	struct stat st;
	char path[128];
	size_t i;
	int side;

	(void)state;
	for (side = 0; side < 2; side++) {
		assert_int_equal(stat(d.state[side], &st), 0);
		assert_int_equal(st.st_mode & 07777, 0700);
		assert_int_equal(stat(d.run[side], &st), 0);
		assert_int_equal(st.st_mode & 07777, 0700);
		for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
			snprintf(path, sizeof(path), "%s/%s", d.state[side], files[i]);
			if (stat(path, &st) == 0 && (st.st_mode & 07777) != 0600)
				fail_msg("%s: %o", path, st.st_mode & 07777);
		}
		for (i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "%s/%s", d.run[side], socks[side][i]);
			assert_int_equal(stat(path, &st), 0);
			assert_true(S_ISSOCK(st.st_mode));
			assert_int_equal(st.st_mode & 07777, 0600);
		}
	}
}

struct needle {
	const char *what;
	unsigned char bytes[1024];
	size_t len;
};

static int
file_holds(const char *path, const struct needle *n)
{
	static unsigned char hay[67108864];
	FILE *f = fopen(path, "re");
	size_t len;

	if (f == NULL)
		return 0;
	len = fread(hay, 1, sizeof(hay), f);
	fclose(f);
	return memmem(hay, len, n->bytes, n->len) != NULL;
}

/* In how many files of the two states and logs, and of our processes in /proc, it stands. */
static int
found(const struct needle *n, const char *first)
{
	char path[512];
	struct dirent *e;
	int side, count = 0;
	DIR *dir;

	for (side = 0; side < 2; side++) {
		assert_non_null(dir = opendir(d.state[side]));
		while ((e = readdir(dir)) != NULL) {
			snprintf(path, sizeof(path), "%s/%s", d.state[side], e->d_name);
			if (strcmp(e->d_name, "bastion.key") != 0)
				count += file_holds(path, n);
		}
		closedir(dir);
		count += file_holds(d.log[side], n);
	}
	assert_non_null(dir = opendir("/proc"));
	while ((e = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%.16s/environ", e->d_name);
		if (file_holds(path, &(struct needle){.bytes = "BASTION_STATE", .len = 13})) {
			count += file_holds(path, n);
			snprintf(path, sizeof(path), "/proc/%.16s/cmdline", e->d_name);
			count += file_holds(path, n);
		}
	}
	closedir(dir);
	if (count > 0 && first != NULL)
		print_message("%s stands in %d files\n", n->what, count);
	return count;
}

static void
needle_hex(struct needle *hex, const struct needle *raw)
{
	hex->what = raw->what;
	sodium_bin2hex((char *)hex->bytes, sizeof(hex->bytes), raw->bytes, raw->len);
	hex->len = 2 * raw->len;
}

static void
nowhere(const struct needle *raw)
{
	struct needle hex;

	assert_int_equal(found(raw, raw->what), 0);
	needle_hex(&hex, raw);
	assert_int_equal(found(&hex, raw->what), 0);
}

/* SE-1: no secret stands in a database, its log, our messages, a command line or an environment. */
static void
secrets_are_nowhere(void **state)
{
	struct needle n = {.what = "the authenticator's secret"};
	char path[128];
	int side;
	FILE *f;

	(void)state;
	assert_int_equal(base32_decode(d.totp, n.bytes, sizeof(n.bytes), &n.len), 0);
	nowhere(&n);
	n.len = strlen(d.totp);
	memcpy(n.bytes, d.totp, n.len);
	nowhere(&n);
	n.what = "a pairing code";
	n.len = strcspn(invitation, "\n") - 24;
	memcpy(n.bytes, invitation + 12, n.len);
	nowhere(&n);
	n.what = "the token of a pairing code";
	assert_non_null(strstr(other.out, "\"t\":\""));
	n.len = 64;
	memcpy(n.bytes, strstr(other.out, "\"t\":\"") + 5, 64);
	nowhere(&n);
	n.len = 32;
	sodium_hex2bin(n.bytes, 32, strstr(other.out, "\"t\":\"") + 5, 64, NULL, NULL, NULL);
	nowhere(&n);
	n.what = "an agent's token";
	driver_does(&said, NULL, "mcp", "token", "add", "agent", NULL);
	n.len = strcspn(said.out, "\n") - 4;
	assert_int_equal(n.len, 64);
	memcpy(n.bytes, said.out + 4, n.len);
	nowhere(&n);
	for (side = 0; side < 2; side++) {
		n.what = "a machine's key";
		snprintf(path, sizeof(path), "%s/bastion.key", d.state[side]);
		assert_non_null(f = fopen(path, "re"));
		n.len = fread(n.bytes, 1, sizeof(n.bytes), f);
		fclose(f);
		assert_int_equal(n.len, 32);
		nowhere(&n);
	}
	/* The search does find what is there. */
	n.len = strlen(tree);
	memcpy(n.bytes, tree, n.len);
	assert_true(found(&n, NULL) > 0);
}

/* PA-1: unpaired, the Host is nobody; a new code pairs it anew, with nothing granted. */
static void
unpaired_host_is_nobody(void **state)
{
	unsigned char text[1024];
	size_t len;

	(void)state;
	driver_does(&said, NULL, "grants", NULL);
	assert_true(box_value("SELECT count(*) FROM live_grants") > 0);
	driver_does(&said, NULL, "unpair", "conductor", NULL);
	assert_int_equal(box_value("SELECT count(*) FROM live_grants"), 0);
	driver_refused(
	    &said, 126, "lane.host", NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	driver_does(&said, NULL, "host", "invite", d.box, NULL);
	snprintf(invitation, sizeof(invitation), "%.1000s", said.out);
	driver_does(&said, invitation, "pair", "-", NULL);
	driver_run(&said, invitation, "pair", "-", NULL);
	assert_int_equal(said.code, 3);
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	/* For the search of secrets. */
	assert_int_equal(
	    sodium_base642bin(text, sizeof(text) - 1, invitation + 4, strcspn(invitation, "\n") - 4,
		NULL, &len, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING),
	    0);
	memcpy(other.out, text, len);
	other.out[len] = '\0';
}

/* GR-2: a grant that is taken back is gone at once, and so is all that a dropped factor allowed. */
static void
dropped_is_dropped(void **state)
{
	int64_t grant;

	(void)state;
	driver_grant(&d, "observe:folders", tree, "1", "5", "1h");
	grant = box_value("SELECT max(id) FROM live_grants");
	driver_does(&said, NULL, "grants", "drop", number(grant), NULL);
	driver_does(&said, NULL, "grants", "drop", number(grant), NULL);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree,
	    "1", "--uses", "4", NULL);
	driver_approve(&d, driver_question(&d));
	driver_does(&said, NULL, "factor", "drop",
	    number(box_value("SELECT id FROM factor WHERE kind = 'totp'")), NULL);
	assert_int_equal(box_value("SELECT count(*) FROM live_grants"), 0);
	assert_int_equal(box_value("SELECT count(*) FROM factor WHERE secret IS NOT NULL"), 0);
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", tree, "1", NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ask_becomes_a_question),
	    cmocka_unit_test(code_approves_once),
	    cmocka_unit_test(denied_stays_denied),
	    cmocka_unit_test(grant_runs_out),
	    cmocka_unit_test(signature_approves),
	    cmocka_unit_test(wrong_codes_close_the_door),
	    cmocka_unit_test(refusals_are_the_same_everywhere),
	    cmocka_unit_test(second_daemon_says_who_serves),
	    cmocka_unit_test(sigterm_leaves_nothing_open),
	    cmocka_unit_test(killed_actors_lose_nothing),
	    cmocka_unit_test(killed_supervisor_loses_its_runs),
	    cmocka_unit_test(files_are_private),
	    cmocka_unit_test(unpaired_host_is_nobody),
	    cmocka_unit_test(secrets_are_nowhere),
	    cmocka_unit_test(audit_is_whole),
	    cmocka_unit_test(dropped_is_dropped),
	};

	return cmocka_run_group_tests(tests, first_day, evening);
}
