/* run_daemon.c: the rows of a run, by way of control.sock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/run_daemon.h"
#include "shell/text.h"

#define WAIT_MS 5000 /* a daemon that says nothing for so long is none */

#define SETTING(name) ":frame ->> '$.settings.\"" name "\"'"

static const char BEGUN[] =
    "SELECT :frame ->> '$.id', " SETTING("run.tasks") ", " SETTING("run.memory") ", " SETTING("run.scratch") ", " SETTING(
	"sandbox.effect") ", " SETTING("run.files") ", " SETTING("run.open_files") ", " SETTING("sandbox.start_ms") ", " SETTING("run.published");

#define NUMBERS 9

/* Dial, and send ${body}.  Return 0 or -1. */
static int
ask(struct run_daemon *d, struct unixclient *c, const char *target, const char *body, size_t len)
{
	char path[sizeof(d->home->run) + sizeof("/control.sock")];
	struct refusal ignored;

	snprintf(path, sizeof(path), "%s/control.sock", d->home->run);
	if (unixclient_dial(c, path, d->home->owner, unixclient_now() + WAIT_MS, &ignored) != 0)
		return -1;
	if (unixclient_send(c, "POST", target, body, len, &ignored) == 0)
		return 0;
	unixclient_close(c);
	return -1;
}

/* Close ${f}, which open_memstream made for ${body}.  Return 0; or -1, and there is no body. */
static int
body_end(FILE *f, char **body)
{
	bool whole = ferror(f) == 0;

	if (fclose(f) == 0 && whole)
		return 0;
	free(*body);
	*body = NULL;
	return -1;
}

static char *
body_begin(const struct run_ask *a, const char *nonce, const struct home *home, size_t *len)
{
	char *body = NULL, state[HOME_TOKEN_SIZE];
	FILE *f;
	size_t i;

	if (home_token(home, state) != 0 || (f = open_memstream(&body, len)) == NULL)
		return NULL;
	fprintf(f, "{\"state\":\"%s\",\"nonce\":\"%s\",\"words\":%" PRId64 ",\"lane\":%s", state,
	    nonce, a->sandbox.words, a->sandbox.net == SANDBOX_NET_NONE ? "false" : "true");
	fputs(",\"program\":", f);
	text_json(f, a->sandbox.program, strlen(a->sandbox.program));
	fputs(",\"ports\":[", f);
	for (i = 0; i < a->port_count; i++)
		fprintf(f, "%s{\"port\":%u,\"inside\":%u}", i > 0 ? "," : "", a->ports[i].port,
		    a->ports[i].inside);
	fputs("]}", f);
	return body_end(f, &body) == 0 ? body : NULL;
}

int
run_daemon_ask(struct run_daemon *d, const struct home *home, const struct run_ask *a,
    const char nonce[SANDBOX_NONCE_SIZE])
{
	char *body;
	size_t len;
	int rc;

	*d = (struct run_daemon){.home = home, .asked = {.fd = -1}, .told = {.fd = -1}};
	if ((body = body_begin(a, nonce, home, &len)) == NULL)
		return -1;
	rc = ask(d, &d->asked, "/v1/runs", body, len);
	free(body);
	return rc;
}

static int
begun(struct run_daemon *d, const char *line)
{
	int64_t n[NUMBERS];

	if (answer_numbers(&d->view, BEGUN, line, n, NUMBERS) != 0 || n[0] < 1)
		return -1;
	d->id = n[0];
	d->limits = (struct sandbox_limits){.group = {.tasks = n[1], .memory = n[2]},
	    .scratch_bytes = n[3],
	    .effect_bytes = n[4],
	    .effect_files = n[5],
	    .open_files = n[6]};
	d->start_ms = n[7];
	d->published = n[8];
	return 0;
}

/* Is it a rule that refuses?  All else is a daemon that is busy, ends, or is of another build. */
static bool
rule_says(const char *code)
{
	static const char *const of[] = {"sandbox.", "run.", "store."};
	size_t i;

	for (i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (strncmp(code, of[i], strlen(of[i])) == 0)
			return true;
	return false;
}

int
run_daemon_hear(struct run_daemon *d)
{
	struct refusal ignored;
	char *line;
	int status, rc = 1;

	status = unixclient_status(&d->asked, &ignored);
	if (status == 200 && unixclient_line(&d->asked, &line, &ignored) == 1)
		rc = begun(d, line) == 0 ? 0 : 1;
	else if (status > 200 && unixclient_line(&d->asked, &line, &ignored) == 1 &&
		 answer_refusal(&d->view, line, &d->refused) == 0 &&
		 rule_says(d->refused.refusal.code))
		rc = -1;
	unixclient_close(&d->asked);
	return rc;
}

/* Hear whether what was told is in its row. */
static int
told_heard(struct run_daemon *d)
{
	struct refusal ignored;
	int status;

	if (!d->telling)
		return 0;
	d->telling = false;
	status = unixclient_status(&d->told, &ignored);
	unixclient_close(&d->told);
	return status == 202 ? 0 : -1;
}

static int
tell(struct run_daemon *d, const char *body, size_t len)
{
	char target[64];

	/* What was told before is there first. */
	if (told_heard(d) != 0)
		return -1;
	snprintf(target, sizeof(target), "/v1/runs/%" PRId64, d->id);
	d->telling = ask(d, &d->told, target, body, len) == 0;
	return d->telling ? 0 : -1;
}

int
run_daemon_started(struct run_daemon *d, const struct sandbox_report *report)
{
	char *body = NULL;
	size_t len, i;
	FILE *f;
	int rc = -1;

	if ((f = open_memstream(&body, &len)) == NULL)
		return -1;
	fprintf(f,
	    "{\"state\":\"running\",\"user_ns\":%" PRIu64 ",\"pid_ns\":%" PRIu64
	    ",\"capped\":%s,\"notes\":[",
	    report->user_ns, report->pid_ns, report->tasks_capped ? "true" : "false");
	for (i = 0; i < report->note_count; i++) {
		fputs(i > 0 ? "," : "", f);
		text_json(f, report->notes[i], strlen(report->notes[i]));
	}
	fputs("]}", f);
	if (body_end(f, &body) == 0)
		rc = tell(d, body, len);
	free(body);
	return rc;
}

int
run_daemon_ended(struct run_daemon *d, int exit_code)
{
	char body[64];
	int n = snprintf(body, sizeof(body), "{\"state\":\"ended\",\"exit\":%d}", exit_code);

	return tell(d, body, (size_t)n) == 0 ? told_heard(d) : -1;
}

int
run_daemon_failed(struct run_daemon *d)
{
	static const char body[] = "{\"state\":\"failed\"}";

	return tell(d, body, sizeof(body) - 1) == 0 ? told_heard(d) : -1;
}

void
run_daemon_leave(struct run_daemon *d)
{
	if (d->home == NULL)
		return;
	unixclient_close(&d->asked);
	unixclient_close(&d->told);
	answer_drop(&d->view);
}
