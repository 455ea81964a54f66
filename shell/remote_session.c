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
#include "shell/remote.h"
#include "shell/remote_bundle.h"
#include "shell/remote_session.h"
#include "shell/session_frame.h"
#include "shell/text.h"

#define NAME_BYTES 128
#define BODY_MAX   65536   /* as the other machine takes it */
#define FRAME_MAX  1048576 /* of 131072 bytes, each at worst six characters, and its members */
#define ERROR_MAX  8192
#define AGAIN_MS   200
#define AGAIN_CAP  5000

static const char MEMBER[] =
    "SELECT :f ->> '$.name', coalesce(:f ->> '$.lines', 0), coalesce(:f ->> '$.last_seq', 0)";
static const char EACH[] =
    "SELECT value ->> '$.name', value ->> '$.worker', value ->> '$.state',"
    "  value ->> '$.attempts', value ->> '$.lines', value ->> '$.exit', value ->> '$.reason'"
    "  FROM json_each(:f)";

/* Whoever follows. */
struct far {
	struct cli *cli;
	const struct remote_session *s;
	struct remote_login login;
	struct session_frames frames;
	char name[NAME_BYTES + 1];
	struct session_view view;
	int64_t until; /* the last row to show; -1: none is the last */
	char *frame;   /* FRAME_MAX, and a NUL */
	size_t len;
	char error[ERROR_MAX]; /* the body of a refusal */
	size_t error_len;
	bool failed;
	int code; /* of a refusal */
};

/* ${sql} over the JSON ${text}, which passed the check; NULL where it cannot be. */
static sqlite3_stmt *
query(struct far *far, const char *sql, const char *text, size_t len)
{
	return session_frame_query(&far->frames, sql, text, len, &far->cli->refusal);
}

static const char *
column(sqlite3_stmt *q, int i)
{
	const unsigned char *text = sqlite3_column_text(q, i);

	return text == NULL ? "" : (const char *)text;
}

/* A piece of the stream, or of a refusal. */
static int
on_piece(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct far *far = ctx;
	size_t i;

	if (http_call_status(call) != 200) {
		if (len > sizeof(far->error) - 1 - far->error_len)
			len = sizeof(far->error) - 1 - far->error_len;
		memcpy(far->error + far->error_len, data, len);
		far->error_len += len;
		far->error[far->error_len] = '\0';
		return 0;
	}
	for (i = 0; i < len; i++) {
		if (data[i] != '\n') {
			if (far->len == FRAME_MAX)
				return far->failed = true, -1;
			far->frame[far->len++] = data[i];
			continue;
		}
		far->frame[far->len] = '\0';
		if (session_frame_show(
			&far->frames, &far->view, far->frame, far->len, &far->cli->refusal) != 0)
			return far->failed = true, -1;
		far->len = 0;
		if (far->view.seq == far->until)
			return -1;
	}
	return 0;
}

/* One look, as far as it goes.  Return 0; 1 where the way was cut; or -1 after a refusal. */
static int
stream(struct far *far)
{
	char path[NAME_BYTES + 96];
	const struct remote_request request = {
	    .method = "GET", .path = path, .chunk = on_piece, .ctx = far};
	struct http_answer answer;
	int rc;

	snprintf(path, sizeof(path), "/v1/sessions/%s/output?after=%" PRId64 "&id=%" PRId64,
	    far->name, far->view.seq, far->frames.id);
	far->len = far->error_len = 0;
	far->error[0] = '\0';
	rc = remote_ask(&far->login, &request, &answer, &far->cli->refusal);
	free(answer.body);
	if (far->failed) {
		refusal_set(&far->cli->refusal, "http.protocol",
		    "what was answered is no session, or cannot be shown");
		return far->code = cli_refuse(far->cli), -1;
	}
	if (far->view.seq == far->until)
		return 0;
	if (rc != 0) {
		if (remote_is_cut(&far->cli->refusal))
			return 1;
		return far->code = cli_refuse(far->cli), -1;
	}
	/* A daemon that ends says so with 503, or ends the answer early. */
	if (answer.status == 200)
		return far->frames.over ? 0 : 1;
	if (answer.status == 503)
		return 1;
	return far->code = remote_refuse(far->cli, far->error), -1;
}

static void
pause_ms(int64_t ms)
{
	const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* To the end, however often the way is cut.  Return the exit code. */
static int
follow(struct far *far)
{
	int64_t wait = AGAIN_MS, seq = far->view.seq;
	bool told = false;
	int rc;

	while ((rc = stream(far)) == 1) {
		if (far->view.seq != seq) {
			wait = AGAIN_MS;
			told = false;
		}
		seq = far->view.seq;
		if (!told)
			session_view_remark(&far->view,
			    "the way is cut; going on as soon as there is one (Ctrl-C leaves)", 65);
		told = true;
		pause_ms(wait);
		wait = wait * 2 < AGAIN_CAP ? wait * 2 : AGAIN_CAP;
	}
	if (rc == -1 || far->view.seq == far->until)
		return far->code;
	if (strcmp(far->frames.state, "done") != 0)
		fprintf(stderr, "bastion: session: %s on %s is %s%s%s\n", far->name,
		    far->login.name, far->frames.state, far->frames.reason[0] == '\0' ? "" : ": ",
		    far->frames.reason);
	return far->frames.code;
}

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
run(struct far *far)
{
	const struct remote_session *s = far->s;
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
	if ((q = query(far, MEMBER, text, strlen(text))) != NULL)
		snprintf(far->name, sizeof(far->name), "%s", column(q, 0));
	sqlite3_finalize(q);
	free(text);
	if (far->name[0] == '\0' || strchr(far->name, '/') != NULL) {
		refusal_set(&far->cli->refusal, "http.protocol", "the answer names no session");
		return cli_refuse(far->cli);
	}
	if (!s->detach)
		return follow(far);
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
	else if ((q = query(far, EACH, text, strlen(text))) != NULL)
		do {
			int i;

			for (i = 0; i < 7; i++) {
				text_show(stdout, column(q, i), strlen(column(q, i)));
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
	char path[NAME_BYTES + 32], *text;
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
look(struct far *far, bool to_the_end)
{
	char path[NAME_BYTES + 32], *text;
	sqlite3_stmt *q;
	int rc;

	far->view.from = far->s->from;
	if (far->s->tail > 0 || !to_the_end) {
		snprintf(path, sizeof(path), "/v1/sessions/%s", far->name);
		if ((rc = ask(far, "GET", path, NULL, NULL, 0, &text)) != 0)
			return rc;
		if ((q = query(far, MEMBER, text, strlen(text))) != NULL) {
			if (far->s->tail > 0)
				far->view.from = sqlite3_column_int64(q, 1) - far->s->tail + 1;
			if (!to_the_end)
				far->until = sqlite3_column_int64(q, 2);
		}
		sqlite3_finalize(q);
		free(text);
	}
	return far->view.seq == far->until ? 0 : follow(far);
}

static int
cancel(struct far *far)
{
	char path[NAME_BYTES + 32], *text;
	int rc;

	snprintf(path, sizeof(path), "/v1/sessions/%s", far->name);
	rc = ask(far, "DELETE", path, NULL, NULL, 0, &text);
	free(text);
	return rc;
}

static int
send_piece(struct far *far, const char *data, size_t len, bool end)
{
	char path[NAME_BYTES + 40], *text;
	int rc;

	snprintf(path, sizeof(path), "/v1/sessions/%s/input%s", far->name, end ? "?end=1" : "");
	rc = ask(far, "POST", path, "application/octet-stream", data, len, &text);
	free(text);
	return rc;
}

/* A line of words, or what comes on standard input: a secret is nobody's argument. */
static int
send_words(struct far *far, char **words, int n)
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
	while (rc == 0 && n == 0 && !far->s->end && (got = fread(data, 1, sizeof(data), stdin)) > 0)
		rc = send_piece(far, data, got, false);
	explicit_bzero(data, sizeof(data));
	return rc == 0 && far->s->end ? send_piece(far, "", 0, true) : rc;
}

static int
act(struct far *far)
{
	const struct remote_session *s = far->s;

	if (strcmp(s->what, "run") == 0)
		return s->n >= 1
			   ? run(far)
			   : cli_usage(far->cli, "name a worker, or give a command behind --");
	if (strcmp(s->what, "ls") == 0 && s->n == 0)
		return list(far);
	if (s->n == 0 || strlen(s->words[0]) > NAME_BYTES ||
	    s->words[0][strspn(s->words[0], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					    "0123456789._-")] != '\0')
		return cli_usage(far->cli, "%s takes the name of a session", s->what);
	strcpy(far->name, s->words[0]);
	if (strcmp(s->what, "send") == 0)
		return send_words(far, s->words + 1, s->n - 1);
	if (s->n == 1 && (strcmp(s->what, "attach") == 0 || strcmp(s->what, "logs") == 0))
		return look(far, s->what[0] == 'a' || s->follow);
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

	if ((far = calloc(1, sizeof(*far))) == NULL ||
	    (far->frame = malloc(FRAME_MAX + 1)) == NULL) {
		free(far);
		refusal_set(&cli->refusal, "http.memory", "out of memory");
		return cli_refuse(cli);
	}
	far->cli = cli;
	far->s = s;
	far->until = -1;
	far->view = (struct session_view){.name = far->name, .machine = far->login.name};
	rc = remote_login_load(s->remote, &far->login, &cli->refusal) == 0 ? act(far)
									   : cli_refuse(cli);
	session_frame_drop(&far->frames);
	free(far->frame);
	sodium_memzero(far, sizeof(*far));
	free(far);
	return rc;
}
