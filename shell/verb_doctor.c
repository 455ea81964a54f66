/* verb_doctor.c: what is wrong here, and what to do about it. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/doctor.h"
#include "shell/rows.h"
#include "shell/text.h"

static const char FINDINGS[] =
    "SELECT value ->> 'check' AS \"check\", value ->> 'level' AS level, value ->> 'what' AS what,"
    "  value ->> 'advice' AS advice FROM json_each(?1)";

struct options {
	struct cli *cli;
	FILE *out; /* where programs read JSON, or tables are made of it; NULL: lines for people */
	bool deep;
	int told, worst;
};

static int
take_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	(void)arg;
	if (val == 'H')
		o->cli->role = HOME_HOST;
	else
		o->deep = true;
	return 0;
}

static void
member(FILE *out, const char *name, const char *value)
{
	fprintf(out, "\"%s\":", name);
	text_json(out, value, strlen(value));
}

static void
tell_json(FILE *out, const struct doctor_finding *f, const char *level, bool first)
{
	fputs(first ? "[\n{" : ",\n{", out);
	member(out, "check", f->check);
	putc(',', out);
	member(out, "level", level);
	putc(',', out);
	member(out, "what", f->what);
	putc(',', out);
	member(out, "advice", f->advice);
	putc('}', out);
}

static void
tell(void *ctx, const struct doctor_finding *f)
{
	static const char *const levels[] = {"ok", "warn", "bad"};
	struct options *o = ctx;

	if ((int)f->level > o->worst)
		o->worst = (int)f->level;
	if (o->out != NULL) {
		tell_json(o->out, f, levels[f->level], o->told++ == 0);
		return;
	}
	printf("%-5s %-12s ", levels[f->level], f->check);
	text_show(stdout, f->what, strlen(f->what));
	putchar('\n');
	if (f->advice[0] != '\0') {
		printf("%19s", "");
		text_show(stdout, f->advice, strlen(f->advice));
		putchar('\n');
	}
	fflush(stdout); /* the next one may take its time */
}

/* As a table or CSV, once all of it was looked at. */
static int
look_whole(struct options *o)
{
	char *json = NULL;
	size_t len;
	int rc;

	if ((o->out = open_memstream(&json, &len)) != NULL) {
		doctor_look(o->cli, o->deep, tell, o);
		fputs("]", o->out);
	}
	if (o->out == NULL || fclose(o->out) != 0) {
		refusal_set(&o->cli->refusal, "store.failed", "out of memory");
		rc = cli_refuse(o->cli);
	} else {
		rc = rows_list(o->cli, FINDINGS, json, "");
	}
	free(json);
	return rc;
}

/*
 * VERB: doctor
 *
 * usage: bastion doctor [--host] [--deep] [--json | --csv | --box]
 *
 * Look at everything that has to be right, and say what to do where it is not. That is libraries,
 * state, disk, database, key, daemon, pairings and lines, certificates, workers, schedules,
 * sockets, ports, limits, clock, kernel, sandbox, and the tool servers (MCP) that your own clients
 * of agents declare: those are read, never started or asked. Each line says what was seen, and the
 * line below it what to do. --deep reads every page of the database as well. --host looks at this
 * user's Host. The exit code is 0 where nothing is bad, else 1; a warning is not bad.
 */
int
verb_doctor(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
	    {"host", no_argument, NULL, 'H'}, {"deep", no_argument, NULL, 'd'}, {NULL, 0, NULL, 0}};
	struct options o = {.cli = cli};
	int first;

	if ((first = cli_options(cli, argc, argv, options, take_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	if (cli->mode == CLI_CSV || cli->mode == CLI_BOX) {
		if ((first = look_whole(&o)) != 0)
			return first;
	} else {
		o.out = cli->mode == CLI_JSON ? stdout : NULL;
		doctor_look(cli, o.deep, tell, &o);
		if (cli->mode == CLI_JSON)
			puts("\n]");
	}
	return o.worst == (int)DOCTOR_BAD ? 1 : 0;
}
