/* verb_on.c: a Host asks a box, and shows what it answers. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/http/json.h"
#include "net/http/unixclient.h"
#include "shell/answer.h"
#include "shell/cli.h"
#include "shell/near.h"
#include "shell/verb.h"
#include "shell/waiting.h"

#define WAIT_MS     120000
#define PERSON_MS   3600000 /* for a person at the box, who was not given a time */
#define PERSON_MAX  86400000
#define WAIT_MAX    (INT64_MAX / 2)
#define EXIT_NEEDED 77    /* approval.needed, as every surface has it */
#define TAKEN_MS    10000 /* for the daemon to take the ask, however short the wait for its answer */
#define LOOK_MS     1000  /* should a bell be missed */
#define ARGS_MAX    16384 /* bytes of JSON, as call.args has it */
#define DEPTH       8     /* of --bounds; what they may be is for the box to say */

static const char SERVING[] = "SELECT count(*) FROM live_instance WHERE state = 'ready'";
static const char OPS[] = "SELECT op FROM box_ops WHERE box = :box ORDER BY op";
static const char LOST[] = "SELECT count(*) FROM call WHERE id = :id AND state = 'lost'";

/*
 * An ask. The Host's daemon makes its row and sends its frames: to open the database here as well
 * would take longer than all the rest. It is opened only where nobody listens, to say why.
 */
struct on {
	const char *box, *op;
	int64_t uses, ttl_ms, wait_ms;
	int64_t person_ms; /* to wait for a person at the box; 0: not at all */
	bool anew, dry;
	const char *bounds;     /* a JSON object; NULL: none */
	struct waiting waiting; /* while it does */
	int64_t question;       /* of the box, that was waited for */
	char *body;
	size_t len;
	int64_t end; /* of the wait, on unixclient_now's clock */
	bool asked;  /* it may have been taken */
	int64_t id;  /* its number; 0: not known yet */
	int64_t seq; /* frames that were shown */
	int code;    /* exit */
	struct unixclient conn;
	struct answer_view view;
	struct answer_end refused; /* where it did not end with an exit of the op */
};

static int
on_option(void *ctx, int val, const char *arg)
{
	struct on *on = ctx;
	char *end;

	switch (val) {
	case 'u':
		on->uses = strtoll(arg, &end, 10);
		return *end == '\0' && on->uses >= 1 ? 0 : -1;
	case 'f':
		return cli_duration(arg, &on->ttl_ms);
	case 't':
		return cli_duration(arg, &on->wait_ms);
	case 'w':
		on->person_ms = PERSON_MS;
		return arg == NULL || (cli_duration(arg, &on->person_ms) == 0 &&
					  on->person_ms >= 1000 && on->person_ms <= PERSON_MAX)
			   ? 0
			   : -1;
	case 'b':
		on->bounds = arg;
		return 0;
	case 'd':
		on->dry = true;
		return 0;
	default:
		on->anew = true;
		return 0;
	}
}

/*
 * What is asked.
 */

/* Whether ${text} is one JSON object: it becomes a part of the ask, whose bytes nobody typed. */
static int
is_object(const char *text, struct refusal *r)
{
	if (text[strspn(text, " \t\r\n")] != '{')
		return refusal_set(r, "json.invalid", "a { is missing at byte 0");
	return http_json_check(text, strlen(text), DEPTH, r);
}

/* ${text} as a JSON string, byte for byte: what is no UTF-8 is for the daemon to refuse. */
static void
put_string(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < 0x20)
			fprintf(out, "\\u%04x", (unsigned)*text);
		else if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			putc(*text, out);
	putc('"', out);
}

static long
put_args(FILE *out, int n, char **words)
{
	long from = ftell(out);
	int i;

	putc('[', out);
	for (i = 0; i < n; i++) {
		if (i > 0)
			putc(',', out);
		put_string(out, words[i]);
	}
	putc(']', out);
	return ftell(out) - from;
}

static int
on_body(struct cli *cli, struct on *on, int n, char **words)
{
	FILE *out = open_memstream(&on->body, &on->len);
	long args;

	if (out == NULL)
		return refusal_set(&cli->refusal, "store.failed", "out of memory");
	fputs("{\"box\":", out);
	put_string(out, words[0]);
	fputs(",\"op\":", out);
	put_string(out, words[1]);
	fputs(",\"args\":", out);
	args = put_args(out, n - 2, words + 2);
	if (on->bounds != NULL)
		fprintf(out, ",\"bounds\":%s", on->bounds);
	if (on->uses > 0)
		fprintf(out, ",\"uses\":%" PRId64, on->uses);
	if (on->ttl_ms > 0)
		fprintf(out, ",\"ttl_ms\":%" PRId64, on->ttl_ms);
	if (on->person_ms > 0)
		fprintf(out, ",\"wait_ms\":%" PRId64, on->person_ms);
	fprintf(
	    out, ",\"anew\":%s%s}", on->anew ? "true" : "false", on->dry ? ",\"dry\":true" : "");
	if (fclose(out) != 0)
		return refusal_set(&cli->refusal, "store.failed", "out of memory");
	if (args > ARGS_MAX)
		return refusal_set(&cli->refusal, "op.args", "the arguments are too long");
	return 0;
}

/*
 * Where it is asked.
 */

/* Whether there is nobody to wait for: no daemon to take an ask, or it stopped over ours. */
static int
on_over(struct cli *cli, const struct on *on)
{
	struct stmt *q;

	if (on->id == 0 && stmt_value(store_sql(cli->db, SERVING), 0) == 0)
		return refusal_set(&cli->refusal, "call.offline",
		    "the Host is not serving, so nobody would carry this ask");
	if (on->id != 0 && (q = store_sql(cli->db, LOST)) != NULL) {
		stmt_int(q, ":id", on->id);
		if (stmt_value(q, 0) == 1)
			return refusal_set(
			    &cli->refusal, "call.lost", "the ask was open when the Host stopped");
	}
	return 0;
}

/* Nobody listens, or not to the end.  Return 0 after a while in which that may have changed. */
static int
on_nobody(struct cli *cli, struct on *on)
{
	struct pollfd bell = {.events = POLLIN};

	if (cli->db == NULL) {
		home_close(&cli->home);
		if (cli_open(cli, ROLE_READER) != 0)
			return -1;
		store_bell(cli->db);
	}
	if (on_over(cli, on) != 0)
		return -1;
	bell.fd = store_bell(cli->db);
	if (waiting_for(&on->waiting, bell.fd, LOOK_MS) != 0)
		return refusal_set(&cli->refusal, "call.waiting",
		    "the Host does not answer, so the ask could not be taken back");
	if (poll(&bell, 1, on->waiting.on ? 0 : LOOK_MS) > 0)
		store_bell_quiet(cli->db);
	return 0;
}

static int
on_dial(struct cli *cli, struct on *on)
{
	char path[sizeof(cli->home.run) + sizeof("/control.sock")];
	int64_t taken = unixclient_now() + TAKEN_MS;

	snprintf(path, sizeof(path), "%s/control.sock", cli->home.run);
	while (unixclient_dial(&on->conn, path, cli->home.owner,
		   on->id == 0 && on->end < taken ? taken : on->end, &cli->refusal) != 0)
		if (strcmp(cli->refusal.code, "http.unreachable") != 0 ||
		    (errno != ENOENT && errno != ECONNREFUSED) || on_nobody(cli, on) != 0)
			return -1;
	return 0;
}

/* Return the status of the daemon's answer, or -1. */
static int
on_ask(struct cli *cli, struct on *on)
{
	char target[80];

	if (on->id == 0) {
		on->asked = true;
		if (unixclient_send(
			&on->conn, "POST", "/v1/calls", on->body, on->len, &cli->refusal) != 0)
			return -1;
		/* While the Host writes it down: later, another process waits for our processor. */
		if (cli->mode != CLI_JSON)
			answer_begin(&on->view);
		return unixclient_status(&on->conn, &cli->refusal);
	}
	snprintf(target, sizeof(target), "/v1/calls/%" PRId64 "?after=%" PRId64, on->id, on->seq);
	return unixclient_ask(&on->conn, "GET", target, NULL, 0, &cli->refusal);
}

/*
 * What is answered.
 */

/* The last line: {"x":exit}, with "e" where it is a refusal. */
static int
on_end(struct cli *cli, struct on *on, const char *line)
{
	char *rest;

	on->code = (int)strtol(line + 5, &rest, 10);
	if (rest > line + 5 && strcmp(rest, "}") == 0)
		return 1;
	if (answer_refusal(&on->view, line, &on->refused) == 0)
		return 1;
	return refusal_set(&cli->refusal, "http.protocol", "the daemon's answer has no end");
}

/* Return 1 at the end of the answer, 0 before, -1 with a refusal. */
static int
on_line(struct cli *cli, struct on *on, const char *line)
{
	if (on->id == 0) {
		if (sscanf(line, "{\"c\":%" SCNd64 "}", &on->id) != 1 || on->id < 1)
			return refusal_set(&cli->refusal, "http.protocol",
			    "the daemon's answer does not begin with the number of the ask");
		on->conn.deadline = on->end;
		return 0;
	}
	if (strncmp(line, "{\"x\":", 5) == 0)
		return on_end(cli, on, line);
	on->seq++;
	waiting_frame(&on->waiting, line);
	if (on->waiting.question != 0)
		on->question = on->waiting.question;
	if (cli->mode != CLI_JSON)
		return on->dry ? answer_dry(&on->view, line, on->box, &cli->refusal)
			       : answer_show(&on->view, line, &cli->refusal);
	puts(line);
	return 0;
}

/* Whoever asked takes it back: what waits at the box is over with that.  Return -1. */
static int
on_back(struct cli *cli, struct on *on)
{
	char target[80], open[96] = "";
	bool gone = on->id == 0;

	waiting_end(&on->waiting);
	unixclient_close(&on->conn);
	snprintf(target, sizeof(target), "/v1/calls/%" PRId64, on->id);
	if (!gone && on_dial(cli, on) == 0)
		gone = unixclient_ask(&on->conn, "DELETE", target, NULL, 0, &cli->refusal) == 202;
	if (!gone)
		return -1;
	if (on->question != 0)
		snprintf(open, sizeof(open), "; question %" PRId64 " stays open at %.40s",
		    on->question, on->box);
	return refusal_set(&cli->refusal, "call.cancelled", "the ask was taken back, and %s%s",
	    on->waiting.quiet ? "what ran is ended" : "nothing runs", open);
}

/* Return 1 at the end of the answer, 0 where the connection broke before, -1 with a refusal. */
static int
on_lines(struct cli *cli, struct on *on)
{
	char *line;
	int n;

	for (;;) {
		if (unixclient_waits(&on->conn) && waiting_for(&on->waiting, on->conn.fd,
						       on->conn.deadline - unixclient_now()) != 0)
			return on_back(cli, on);
		if ((n = unixclient_line(&on->conn, &line, &cli->refusal)) != 1 ||
		    (n = on_line(cli, on, line)) != 0)
			break;
		if (unixclient_waits(&on->conn))
			fflush(stdout);
	}
	return n;
}

/* What is not an answer is a refusal in the one form. */
static int
on_refused(struct cli *cli, struct on *on, int status)
{
	char *line;

	if (unixclient_line(&on->conn, &line, &cli->refusal) == 1 &&
	    answer_refusal(&on->view, line, &on->refused) == 0)
		return 1;
	return refusal_set(
	    &cli->refusal, "http.protocol", "the daemon answered with status %d", status);
}

/* One connection.  Return as on_lines. */
static int
on_connection(struct cli *cli, struct on *on)
{
	int64_t before = on->seq;
	int n;

	if (on_dial(cli, on) != 0)
		return -1;
	if ((n = on_ask(cli, on)) == 200)
		n = on_lines(cli, on);
	else if (n != -1)
		n = on_refused(cli, on, n);
	else if (strcmp(cli->refusal.code, "http.aborted") == 0)
		n = 0;
	unixclient_close(&on->conn);
	if (n == 0 && on->id == 0)
		return refusal_set(&cli->refusal, "call.lost",
		    "the Host stopped before it said whether it took the ask");
	if (n == 0 && on->seq == before)
		n = on_nobody(cli, on);
	return n;
}

/* A connection may break, and the answer goes on: where the daemon's actor is started again, or did
 * not wait for whoever reads us. */
static int
on_answer(struct cli *cli, struct on *on)
{
	int n;

	while ((n = on_connection(cli, on)) == 0)
		;
	if (n == -1 && on->asked && strcmp(cli->refusal.code, "http.timeout") == 0) {
		if (on->id != 0)
			refusal_set(&cli->refusal, "call.waiting",
			    "no answer yet; the ask goes on as number %" PRId64, on->id);
		else
			refusal_set(&cli->refusal, "call.waiting",
			    "the Host did not say yet whether it took the ask");
	}
	return n;
}

/* An op that is not there: which of those of the box may have been meant, with or without its
 * class.
 */
static void
on_near(struct cli *cli, const char *box, const char *op)
{
	struct refusal kept = cli->refusal;
	char near[NEAR_MAX] = "";
	const char *name, *tail;
	struct stmt *q;

	if (cli->db == NULL)
		home_close(&cli->home);
	if (cli->db != NULL || cli_open(cli, ROLE_READER) == 0) {
		if ((q = store_sql(cli->db, OPS)) != NULL)
			stmt_text(q, ":box", box);
		while (q != NULL && stmt_step(q) == 1) {
			name = stmt_get_text(q, 0);
			tail = strchr(name, ':');
			if (tail != NULL && strchr(op, ':') == NULL && near_to(tail + 1, op))
				near_add(near, name, name);
			else
				near_add(near, name, op);
		}
	}
	refusal_set(&cli->refusal, kept.code, "%s%s", kept.why, near);
}

/* Say how it ended.  Return the exit code. */
static int
on_finish(struct cli *cli, struct on *on, int n)
{
	waiting_end(&on->waiting);
	free(on->body);
	answer_drop(&on->view);
	if (n == -1)
		return cli_refuse(cli);
	if (on->question != 0 && on->code == EXIT_NEEDED && cli->mode != CLI_JSON)
		fprintf(stderr,
		    "         question %" PRId64
		    " stays open at %s; ask again once it is approved\n",
		    on->question, on->box);
	if (on->refused.refusal.code[0] != '\0') {
		cli->refusal = on->refused.refusal;
		if (strcmp(cli->refusal.code, "op.unknown") == 0)
			on_near(cli, on->box, on->op);
		return on->refused.exit_code == 0
			   ? cli_refuse(cli)
			   : cli_refuse_as(cli, on->refused.exit_code, on->refused.advice);
	}
	if (cli->mode == CLI_JSON)
		printf("{\"x\":%d}\n", on->code);
	cli_close(cli);
	return on->code;
}

/*
 * VERB: on
 *
 * usage: bastion on BOX OP [ARG...] [--uses N] [--for TIME] [--bounds JSON] [--anew]
 *                   [--wait[=TIME]] [--timeout TIME] [--dry-run] [--json]
 *
 * Ask a box for an op, as the Host on this machine, and show the answer as it comes. What no grant
 * covers becomes a question to a person at the box, and the ask ends with exit 77; ask again once
 * it is approved. --uses and --for say how often and how long the grant should serve (the box's
 * default: once, within an hour); --anew puts the question even where a grant for the op is held.
 *
 * --bounds says within what: an object with a member for each parameter that may have other values
 * than now (in: a list of them; min, max; prefix; like: a pattern; beneath: a path), with _window
 * (days: a list of mon to sun; from and to: HH:MM; zone: a name) and with _rate (max and per_ms;
 * apart_ms). A parameter that is named may have any value that keeps to it.
 *
 * With --wait the ask stays until a person has answered, at most TIME (default 1h; the box may let
 * it wait for less), and goes on then; a terminal shows what is waited for. Ctrl-C takes the ask
 * back; what runs is ended then. --timeout is how long to wait for the answer itself (default 2m);
 * the ask goes on after it.
 *
 * With --dry-run nothing is done: an op that acts looks, and says what it would change, which is no
 * use of the grant; of any other the box says what would happen. The exit code is 0 where the op
 * would run (on which grant, with how many uses left), 77 where a person would be asked, and 126
 * where it would be refused (by which rule).
 *
 * --json shows the frames of the answer, one a line: {"o":output}, {"r":result}, {"q":question that
 * is waited for}, {"x":exit code}. The exit code is that of the op, or of the refusal.
 */
int
verb_on(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"uses", required_argument, NULL, 'u'},
	    {"for", required_argument, NULL, 'f'}, {"wait", optional_argument, NULL, 'w'},
	    {"timeout", required_argument, NULL, 't'}, {"dry-run", no_argument, NULL, 'd'},
	    {"bounds", required_argument, NULL, 'b'}, {"anew", no_argument, NULL, 'a'},
	    {NULL, 0, NULL, 0}};
	struct on on = {.wait_ms = WAIT_MS, .conn.fd = -1};
	struct refusal why;
	int first, n;

	cli->role = HOME_HOST;
	if ((first = cli_options(cli, argc, argv, options, on_option, &on)) < 0)
		return first == -1 ? 2 : 0;
	if (argc - first < 2)
		return cli_usage(cli, "name a box and an op");
	if (on.dry && on.person_ms > 0)
		return cli_usage(cli, "a dry run asks no person, so there is none to wait for");
	on.box = argv[first];
	on.op = argv[first + 1];
	if (on.bounds != NULL && is_object(on.bounds, &why) != 0)
		return cli_usage(cli, "--bounds is no JSON object: %s", why.why);
	if (on.wait_ms < WAIT_MAX)
		on.end = unixclient_now() + on.wait_ms + on.person_ms;
	else
		on.end = WAIT_MAX;
	on.view.mode = cli->mode;
	if ((n = home_open(&cli->home, cli->role, false, &cli->refusal)) == 0 &&
	    (n = on_body(cli, &on, argc - first, argv + first)) == 0) {
		if (on.person_ms > 0)
			waiting_begin(&on.waiting, cli, on.box, on.person_ms);
		n = on_answer(cli, &on);
	}
	return on_finish(cli, &on, n);
}
