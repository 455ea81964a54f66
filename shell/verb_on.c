/* verb_on.c: a Host asks a box, and shows what it answers. */
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/clock.h"
#include "shell/answer.h"
#include "shell/cli.h"
#include "shell/verb.h"

#define WAIT_MS 120000
#define LOOK_MS 1000 /* should a bell be missed */

static const char CALL[] =
    "INSERT INTO call (box_id, op, args, uses, ttl_ms, anew, nonce, asked_at)"
    " VALUES (coalesce((SELECT id FROM host_box WHERE name = :box AND state = 'active'), 0), :op, :args,"
    "   nullif(:uses, 0), nullif(:ttl, 0), :anew, :nonce, now_ms())";

static const char ARG[] = "SELECT json_insert(:args, '$[#]', :arg)";

static const char FRAMES[] = "SELECT seq, frame FROM call_output WHERE call_id = :id AND seq > :seq"
			     " ORDER BY seq";

static const char ENDED[] =
    "SELECT state, exit_code, code, why, advice, retry_at, last_seq, approval FROM call"
    " WHERE id = :id AND finished_at IS NOT NULL";

struct on {
	int64_t uses, ttl_ms, wait_ms;
	bool anew;
	char args[16384];
	int64_t id, seq;
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
	case 'w':
		return cli_duration(arg, &on->wait_ms);
	default:
		on->anew = true;
		return 0;
	}
}

/* The words become a JSON array, one by one. */
static int
on_args(struct cli *cli, struct on *on, int n, char **words)
{
	struct stmt *q;
	int i;

	strcpy(on->args, "[]");
	for (i = 0; i < n; i++) {
		if ((q = store_sql(cli->db, ARG)) == NULL)
			return -1;
		stmt_text(q, ":args", on->args);
		stmt_text(q, ":arg", words[i]);
		if (stmt_step(q) != 1)
			return -1;
		if (strlen(stmt_get_text(q, 0)) >= sizeof(on->args)) {
			stmt_done(q);
			return refusal_set(
			    store_refusal(cli->db), "op.args", "the arguments are too long");
		}
		strcpy(on->args, stmt_get_text(q, 0));
		stmt_done(q);
	}
	return 0;
}

static int
on_ask(struct cli *cli, struct on *on, const char *box, const char *op)
{
	char nonce[33];
	struct stmt *q;

	random_hex(nonce);
	if (store_begin(cli->db) != 0)
		return -1;
	if ((q = store_sql(cli->db, CALL)) == NULL)
		return store_rollback(cli->db);
	stmt_text(q, ":box", box);
	stmt_text(q, ":op", op);
	stmt_text(q, ":args", on->args);
	stmt_int(q, ":uses", on->uses);
	stmt_int(q, ":ttl", on->ttl_ms);
	stmt_int(q, ":anew", on->anew);
	stmt_text(q, ":nonce", nonce);
	if (stmt_run_one(q) != 0)
		return store_rollback(cli->db);
	on->id = store_last_id(cli->db);
	return store_commit(cli->db);
}

static int
on_show(struct cli *cli, struct on *on)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, FRAMES)) == NULL)
		return -1;
	stmt_int(q, ":id", on->id);
	stmt_int(q, ":seq", on->seq);
	while ((n = stmt_step(q)) == 1) {
		on->seq = stmt_get_int(q, 0);
		if (cli->mode == CLI_JSON)
			printf("%s\n", stmt_get_text(q, 1));
		else if (answer_show(cli, stmt_get_text(q, 1)) != 0)
			n = -1;
		if (n == -1) {
			stmt_done(q);
			break;
		}
	}
	fflush(stdout);
	return n;
}

/* Return 1 with the exit code in ${*code} when the ask has ended, 0 while it has not, -1 on
 * failure. */
static int
on_ended(struct cli *cli, struct on *on, int *code)
{
	struct stmt *q;
	int64_t last;
	int n;

	if ((q = store_sql(cli->db, ENDED)) == NULL)
		return -1;
	stmt_int(q, ":id", on->id);
	if ((n = stmt_step(q)) != 1)
		return n;
	last = stmt_get_int(q, 6);
	*code = (int)stmt_get_int(q, 1);
	cli->refusal.code[0] = '\0';
	if (strcmp(stmt_get_text(q, 0), "done") != 0)
		refusal_set(&cli->refusal,
		    strcmp(stmt_get_text(q, 0), "lost") == 0 ? "call.lost" : stmt_get_text(q, 2),
		    "%s",
		    strcmp(stmt_get_text(q, 0), "lost") == 0
			? "the ask was open when the Host stopped"
			: stmt_get_text(q, 3));
	cli->refusal.retry_at = stmt_get_int(q, 5);
	stmt_done(q);
	return on->seq < last ? on_show(cli, on) == 0 : 1;
}

static void
on_pause(struct cli *cli)
{
	struct pollfd p = {.fd = store_bell(cli->db), .events = POLLIN};

	if (p.fd == -1 || poll(&p, 1, LOOK_MS) <= 0)
		return;
	store_bell_quiet(cli->db);
}

static int
on_wait(struct cli *cli, struct on *on)
{
	int64_t end = clock_now() + on->wait_ms;
	int code = 1, n;

	while ((n = on_show(cli, on)) == 0 && (n = on_ended(cli, on, &code)) == 0) {
		if (clock_now() >= end) {
			refusal_set(&cli->refusal, "call.waiting",
			    "no answer yet; the ask goes on as number %" PRId64, on->id);
			return cli_refuse(cli);
		}
		on_pause(cli);
	}
	if (n == -1) {
		cli->refusal = *store_refusal(cli->db);
		return cli_refuse(cli);
	}
	if (cli->refusal.code[0] != '\0')
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"x\":%d}\n", code);
	cli_close(cli);
	return code;
}

/*
 * VERB: on
 *
 * usage: bastion on BOX OP [ARG...] [--uses N] [--for TIME] [--anew] [--wait TIME] [--json]
 *
 * Ask a box for an op, as the Host on this machine, and show the answer as it comes. What no grant
 * covers becomes a question to a person at the box, and the ask ends with exit 77; ask again once
 * it is approved. --uses and --for say how often and how long the grant should serve (the box's
 * default: once, within an hour); --anew puts the question even where a grant for the op is held.
 * --wait is how long to wait for the answer (default 2m). --json shows the frames of the answer,
 * one a line: {"o":output}, {"r":result}, {"x":exit code}. The exit code is that of the op, or of
 * the refusal.
 */
int
verb_on(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"uses", required_argument, NULL, 'u'},
	    {"for", required_argument, NULL, 'f'}, {"wait", required_argument, NULL, 'w'},
	    {"anew", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	static struct on on = {.wait_ms = WAIT_MS};
	int first;

	cli->role = HOME_HOST;
	if ((first = cli_options(cli, argc, argv, options, on_option, &on)) < 0)
		return first == -1 ? 2 : 0;
	if (argc - first < 2)
		return cli_usage(cli, "name a box and an op");
	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	store_bell(cli->db);
	if (on_args(cli, &on, argc - first - 2, argv + first + 2) != 0 ||
	    on_ask(cli, &on, argv[first], argv[first + 1]) != 0) {
		cli->refusal = *store_refusal(cli->db);
		return cli_refuse(cli);
	}
	return on_wait(cli, &on);
}
