/* verb_sandbox_explain.c: what would become of an ask of a tool, gate by gate. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/policy.h"
#include "engine/worker/sandbox_backend.h"
#include "shell/cli.h"
#include "shell/input.h"
#include "shell/text.h"

static const char GATES[] =
    "SELECT gate, coalesce(action, 'goes on') AS says, why FROM decision_gate"
    " WHERE decision_id = :id ORDER BY ord";

/* For programs: the decision with its gates in one row. */
static const char WHOLE[] =
    "SELECT m.action, m.gate, m.code, m.why, m.path, m.risk_level AS risk,"
    "    m.auto_allowed, m.recoverable, m.grant_id, :opens AS waits_for, :instead AS instead,"
    "    :backend AS held_by, :scoped AS holds_domains,"
    "    json_object('categories', json(m.categories), 'gates',"
    "      (SELECT json_group_array(json_object('gate', gate, 'says', action, 'why', why))"
    "         FROM (SELECT * FROM decision_gate WHERE decision_id = m.id ORDER BY ord))) AS body"
    "  FROM decision_made AS m WHERE m.id = :id";

/* Of an ask in options instead of JSON. */
struct options {
	const char *command, *reads, *writes, *mode, *autonomy, *workspace, *tool;
};

static int
option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	switch (val) {
	case 'c':
		o->command = arg;
		return 0;
	case 'r':
		o->reads = arg;
		return 0;
	case 'w':
		o->writes = arg;
		return 0;
	case 'm':
		o->mode = arg;
		return 0;
	case 'a':
		o->autonomy = arg;
		return 0;
	case 't':
		o->tool = arg;
		return 0;
	default:
		o->workspace = arg;
		return 0;
	}
}

static void
field(FILE *f, const char *name, const char *value)
{
	if (value == NULL)
		return;
	fprintf(f, ",\"%s\":", name);
	text_json(f, value, strlen(value));
}

/* The ask that the options mean; NULL without memory. */
static char *
ask_of(const struct options *o)
{
	const char *effect = o->command != NULL ? "shell" : o->writes != NULL ? "write" : "read";
	const char *arg = o->command != NULL  ? o->command
			  : o->writes != NULL ? o->writes
					      : o->reads;
	char here[PLACE_MAX], *ask = NULL;
	size_t len;
	FILE *f = open_memstream(&ask, &len);

	if (f == NULL)
		return NULL;
	fprintf(f, "{\"side_effect\":\"%s\"", effect);
	field(f, "tool", o->tool != NULL ? o->tool : effect);
	field(f, "mode", o->mode);
	field(f, "autonomy", o->autonomy);
	field(f, "workspace", o->workspace != NULL ? o->workspace : getcwd(here, sizeof(here)));
	fprintf(f, ",\"args\":{\"%s\":", o->command != NULL ? "command" : "path");
	text_json(f, arg, strlen(arg));
	fputs("}}", f);
	return fclose(f) == 0 ? ask : NULL;
}

/* What a program would be held by on this machine; the gates have judged what is asked. */
static void
held_by(struct sandbox_record *record)
{
	static char room[BACKEND_PATH_MAX];
	struct sandbox_facts facts;

	sandbox_facts(&facts, getenv("PATH"), room);
	sandbox_backend_best(&facts, record);
}

static void
say(const struct policy_answer *a, const struct sandbox_record *record)
{
	size_t i;

	printf("\nrisk      %s %s\n", a->risk, a->categories);
	for (i = 0; i < a->command.program_count; i++)
		printf("%s%s", i == 0 ? "programs  " : ", ", a->command.programs[i]);
	if (a->command.program_count > 0)
		putchar('\n');
	if (a->command.interactive)
		printf(
		    "waits     %s: %s; %s\n", a->command.opens, a->command.why, a->command.instead);
	printf("held by   %s%s\n", record->isolation ? record->name : record->message,
	    record->isolation && !record->scoped_egress
		? ", which holds nothing to domains: no network is all that it can do"
		: "");
	printf("so        %s%s%s: %s\n", a->action, a->code[0] != '\0' ? " " : "", a->code, a->why);
}

/* Judge, show, and undo: an explanation decides nothing. */
static int
explain(struct cli *cli, const char *ask)
{
	struct sandbox_record record;
	struct policy_answer a;
	struct stmt *q;
	int rc = -1;

	held_by(&record);

	if (cli_open(cli, ROLE_PERSON) != 0 || store_begin(cli->db) != 0)
		return cli_refuse(cli);
	if (policy_judge(cli->db, cli_home(), ask, strlen(ask), &a) == 0 &&
	    (q = store_sql(cli->db, cli->mode == CLI_TABLE ? GATES : WHOLE)) != NULL) {
		stmt_int(q, ":id", a.decision);
		if (cli->mode != CLI_TABLE) {
			stmt_text(q, ":opens", a.command.interactive ? a.command.opens : NULL);
			stmt_text(q, ":instead", a.command.instead);
			stmt_text(q, ":backend", record.name);
			stmt_int(q, ":scoped", record.scoped_egress);
		}
		rc = cli_show(cli, q) == -1 ? -1 : 0;
	}
	if (rc == 0 && cli->mode == CLI_TABLE)
		say(&a, &record);
	store_rollback(cli->db);
	return rc == 0 ? 0 : cli_refuse(cli);
}

/*
 * VERB: sandbox explain
 *
 * usage: bastion sandbox explain --command TEXT | --read PATH | --write PATH [--tool NAME]
 *            [--mode auto|ask|unsafe] [--autonomy low|medium|high] [--workspace DIR] [--json]
 *        bastion sandbox explain FILE [--json]
 *
 * Say what would become of an ask of a tool: what each gate says, in order, up to the one that
 * decides. By what a program is held on this machine is said beside it. Nothing is run or kept.
 * FILE holds the ask as JSON, - is standard input:
 * {"tool": "bash", "side_effect": "shell", "permission": "prompt", "granted": false,
 * "mode": "auto", "autonomy": "low", "workspace": "/src", "args": {"command": "make"}}.
 */
int
verb_sandbox_explain(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"command", required_argument, NULL, 'c'},
	    {"read", required_argument, NULL, 'r'}, {"write", required_argument, NULL, 'w'},
	    {"tool", required_argument, NULL, 't'}, {"mode", required_argument, NULL, 'm'},
	    {"autonomy", required_argument, NULL, 'a'}, {"workspace", required_argument, NULL, 'd'},
	    {NULL, 0, NULL, 0}};
	static char text[1 << 21];
	struct options o = {0};
	char *ask;
	int first, rc;

	if ((first = cli_options(cli, argc, argv, longopts, option, &o)) < 0)
		return first == -2 ? 0 : 2;
	if ((o.command != NULL) + (o.reads != NULL) + (o.writes != NULL) + (argc > first) != 1 ||
	    argc - first > 1)
		return cli_usage(cli, "what is asked: --command, --read, --write, or a file");
	if (argc > first) {
		if (input_file(argv[first], text, sizeof(text), &cli->refusal) != 0)
			return cli_refuse(cli);
		return explain(cli, text);
	}
	if ((ask = ask_of(&o)) == NULL)
		return cli_usage(cli, "out of memory");
	rc = explain(cli, ask);
	free(ask);
	return rc;
}
