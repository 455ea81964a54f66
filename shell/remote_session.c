/* remote_session.c: sessions of another machine: begun, followed, fed and ended from here. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net/http/json.h"
#include "shell/remote_bundle.h"
#include "shell/remote_follow.h"
#include "shell/remote_session.h"
#include "shell/text.h"

#define BODY_MAX 65536 /* as the other machine takes it */

static const char MEMBER[] =
    "SELECT :f ->> '$.name', coalesce(:f ->> '$.lines', 0), coalesce(:f ->> '$.last_seq', 0)";
static const char EACH[] =
    "SELECT value ->> '$.name', value ->> '$.worker', value ->> '$.state',"
    "  value ->> '$.attempts', value ->> '$.lines', value ->> '$.exit', value ->> '$.reason'"
    "  FROM json_each(:f)";

/* Ask, and take the answer for free() in ${text}.  Return 0, or the exit code of a refusal. */
static int
ask(struct far *far, const char *method, const char *path, const char *type, const void *body,
    size_t len, char **text)
{
	const struct remote_request request = {
	    .method = method, .path = path, .body = body, .len = len, .type = type};
	struct http_answer answer;
	int rc = 0;

	*text = NULL;
	if (remote_ask(&far->login, &request, &answer, &far->cli->refusal) != 0)
		return cli_refuse(far->cli);
	if (answer.status < 200 || answer.status > 299)
		rc = remote_refuse(far->cli, answer.body);
	if (rc == 0)
		*text = answer.body;
	else
		free(answer.body);
	return rc;
}

/* The ask for a new session, for free(); NULL without memory. */
static char *
ask_text(const struct remote_session *s, const char *cwd)
{
	int i, first = s->command ? 0 : 1;
	char *text = NULL;
	size_t len;
	FILE *f;

	if ((f = open_memstream(&text, &len)) == NULL)
		return NULL;
	fputs("{\"cwd\":", f);
	text_json(f, cwd, strlen(cwd));
	if (s->name != NULL) {
		fputs(",\"name\":", f);
		text_json(f, s->name, strlen(s->name));
	}
	if (!s->command) {
		fputs(",\"worker\":", f);
		text_json(f, s->words[0], strlen(s->words[0]));
	}
	fputs(",\"argv\":[", f);
	for (i = first; i < s->n; i++) {
		if (i > first)
			fputc(',', f);
		text_json(f, s->words[i], strlen(s->words[i]));
	}
	fprintf(f, "],\"terminal\":%s,\"input\":%s", s->terminal ? "true" : "false",
	    s->input ? "true" : "false");
	if (s->attempts > 0)
		fprintf(f, ",\"attempts\":%" PRId64, s->attempts);
	fputc('}', f);
	return fclose(f) == 0 ? text : (free(text), NULL);
}

/* A row is text. */
static bool
is_text(const char *word)
{
	const char *end = word + strlen(word);
	size_t n = 1;

	for (; word < end && n > 0; word += n)
		n = http_utf8_len(word, end);
	return n > 0;
}

static int
run(struct far *far, const struct remote_session *s)
{
	char *body, *text, cwd[PATH_MAX];
	sqlite3_stmt *q;
	int i, rc;

	for (i = 0; i < s->n; i++)
		if (!is_text(s->words[i]))
			return cli_usage(far->cli, "word %d of the command is not UTF-8", i + 1);
	if (s->cwd == NULL || s->cwd[0] != '/')
		return cli_usage(far->cli, "say where it works there: --cwd /DIR");
	if (strlen(s->cwd) >= sizeof(cwd))
		return cli_usage(far->cli, "--cwd is too long");
	strcpy(cwd, s->cwd);
	if (s->repo != NULL &&
	    (rc = remote_bundle(far->cli, &far->login, s->repo, s->cwd, cwd)) != 0)
		return rc;
	if ((body = ask_text(s, cwd)) == NULL) {
		refusal_set(&far->cli->refusal, "http.memory", "out of memory");
		return cli_refuse(far->cli);
	}
	rc = ask(far, "POST", "/v1/sessions", "application/json", body, strlen(body), &text);
	free(body);
	if (rc != 0)
		return rc;
	if ((q = far_query(far, MEMBER, text, strlen(text))) != NULL)
		snprintf(far->name, sizeof(far->name), "%s", far_column(q, 0));
	sqlite3_finalize(q);
	free(text);
	if (far->name[0] == '\0' || strchr(far->name, '/') != NULL) {
		refusal_set(&far->cli->refusal, "http.protocol", "the answer names no session");
		return cli_refuse(far->cli);
	}
	if (!s->detach)
		return far_follow(far, -1, s->terminal || s->input);
	printf(far->cli->mode == CLI_JSON ? "{\"name\":\"%s\"}\n" : "%s\n", far->name);
	return 0;
}

/* One session as it is, or the list: as JSON, or as a table. */
static int
list(struct far *far)
{
	sqlite3_stmt *q = NULL;
	char *text;
	int rc;

	if ((rc = ask(far, "GET", "/v1/sessions", NULL, NULL, 0, &text)) != 0)
		return rc;
	if (far->cli->mode == CLI_JSON)
		printf("%s\n", text);
	else if ((q = far_query(far, EACH, text, strlen(text))) != NULL)
		do {
			int i;

			for (i = 0; i < 7; i++) {
				text_show(stdout, far_column(q, i), strlen(far_column(q, i)));
				fputs(i < 6 ? "\t" : "\n", stdout);
			}
		} while (sqlite3_step(q) == SQLITE_ROW);
	sqlite3_finalize(q);
	free(text);
	return 0;
}

static int
show(struct far *far)
{
	char path[FAR_NAME + 32], *text;
	int rc;

	snprintf(path, sizeof(path), "/v1/sessions/%s", far->name);
	if ((rc = ask(far, "GET", path, NULL, NULL, 0, &text)) != 0)
		return rc;
	printf("%s\n", text);
	free(text);
	return 0;
}

/* From which line, as it was said or so many before the end; and up to which row. */
static int
look(struct far *far, const struct remote_session *s)
{
	bool attach = s->what[0] == 'a', to_the_end = attach || s->follow;
	char path[FAR_NAME + 32], *text;
	int64_t until = -1;
	sqlite3_stmt *q;
	int rc;

	far->view.from = s->from;
	if (s->tail > 0 || !to_the_end) {
		snprintf(path, sizeof(path), "/v1/sessions/%s", far->name);
		if ((rc = ask(far, "GET", path, NULL, NULL, 0, &text)) != 0)
			return rc;
		if ((q = far_query(far, MEMBER, text, strlen(text))) != NULL) {
			if (s->tail > 0)
				far->view.from = sqlite3_column_int64(q, 1) - s->tail + 1;
			if (!to_the_end)
				until = sqlite3_column_int64(q, 2);
		}
		sqlite3_finalize(q);
		free(text);
	}
	return far->view.seq == until ? 0 : far_follow(far, until, attach);
}

static int
cancel(struct far *far)
{
	char path[FAR_NAME + 32], *text;
	int rc;

	snprintf(path, sizeof(path), "/v1/sessions/%s", far->name);
	rc = ask(far, "DELETE", path, NULL, NULL, 0, &text);
	free(text);
	return rc;
}

static int
send_piece(struct far *far, const char *data, size_t len, bool end)
{
	char path[FAR_NAME + 40], *text;
	int rc;

	snprintf(path, sizeof(path), "/v1/sessions/%s/input%s", far->name, end ? "?end=1" : "");
	rc = ask(far, "POST", path, "application/octet-stream", data, len, &text);
	free(text);
	return rc;
}

/* A line of words, or what comes on standard input: a secret is nobody's argument. */
static int
send_words(struct far *far, char **words, int n, bool end)
{
	static char data[BODY_MAX];
	size_t len = 0, got;
	int i, rc = 0;

	for (i = 0; i < n && len < sizeof(data); i++)
		len += (size_t)snprintf(
		    data + len, sizeof(data) - len, "%s%s", words[i], i == n - 1 ? "\n" : " ");
	if (len >= sizeof(data))
		return cli_usage(far->cli, "more than 65536 bytes: send them on standard input");
	if (n > 0)
		rc = send_piece(far, data, len, false);
	while (rc == 0 && n == 0 && !end && (got = fread(data, 1, sizeof(data), stdin)) > 0)
		rc = send_piece(far, data, got, false);
	explicit_bzero(data, sizeof(data));
	return rc == 0 && end ? send_piece(far, "", 0, true) : rc;
}

static int
act(struct far *far, const struct remote_session *s)
{
	if (strcmp(s->what, "run") == 0)
		return s->n >= 1
			   ? run(far, s)
			   : cli_usage(far->cli, "name a worker, or give a command behind --");
	if (strcmp(s->what, "ls") == 0 && s->n == 0)
		return list(far);
	if (s->n == 0 || strlen(s->words[0]) > FAR_NAME ||
	    s->words[0][strspn(s->words[0], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					    "0123456789._-")] != '\0')
		return cli_usage(far->cli, "%s takes the name of a session", s->what);
	strcpy(far->name, s->words[0]);
	if (strcmp(s->what, "send") == 0)
		return send_words(far, s->words + 1, s->n - 1, s->end);
	if (s->n == 1 && (strcmp(s->what, "attach") == 0 || strcmp(s->what, "logs") == 0))
		return look(far, s);
	if (s->n == 1 && strcmp(s->what, "show") == 0)
		return show(far);
	if (s->n == 1 && strcmp(s->what, "cancel") == 0)
		return cancel(far);
	return cli_usage(
	    far->cli, "on another machine: ls, run, attach, logs, show, send and cancel");
}

int
remote_session(struct cli *cli, const struct remote_session *s)
{
	struct far *far;
	int rc;

	if ((far = calloc(1, sizeof(*far))) == NULL) {
		refusal_set(&cli->refusal, "http.memory", "out of memory");
		return cli_refuse(cli);
	}
	far->cli = cli;
	far->view = (struct session_view){.name = far->name, .machine = far->login.name};
	rc = remote_login_load(s->remote, &far->login, &cli->refusal) == 0 ? act(far, s)
									   : cli_refuse(cli);
	session_frame_drop(&far->frames);
	sodium_memzero(far, sizeof(*far));
	free(far);
	return rc;
}
