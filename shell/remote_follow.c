/* remote_follow.c: the rows of a session of another machine, as long as there are any. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/http/tls.h"
#include "shell/remote_follow.h"
#include "shell/remote_typing.h"

#define FRAME_MAX 1048576 /* of 131072 bytes, each at worst six characters, and its members */
#define ERROR_MAX 8192
#define AGAIN_MS  200
#define AGAIN_CAP 5000

/* Whoever follows. */
struct follow {
	struct far *far;
	int64_t until; /* the last row to show; -1: none is the last */
	struct loop *loop;
	struct http_client *client;
	struct tls_end *end;
	struct http_call *call;
	struct typing *typing; /* NULL: nothing is typed */
	uint64_t again;        /* a timer */
	int64_t wait, reached; /* before the next try; the row where the last one came to */
	bool told;             /* that the way is cut */
	char *frame;           /* FRAME_MAX, and a NUL */
	size_t len;
	char error[ERROR_MAX]; /* the body of a refusal */
	size_t error_len;
	bool failed, left;      /* what came is no session; or nobody waits for it */
	struct refusal refusal; /* why it cannot go on; or, without a code, ${error} says so */
	bool refused;
};

sqlite3_stmt *
far_query(struct far *far, const char *sql, const char *text, size_t len)
{
	return session_frame_query(&far->frames, sql, text, len, &far->cli->refusal);
}

const char *
far_column(sqlite3_stmt *q, int i)
{
	const unsigned char *text = sqlite3_column_text(q, i);

	return text == NULL ? "" : (const char *)text;
}

/* A piece of the stream, or of a refusal. */
static int
on_piece(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct follow *f = ctx;
	size_t i;

	if (http_call_status(call) != 200) {
		if (len > sizeof(f->error) - 1 - f->error_len)
			len = sizeof(f->error) - 1 - f->error_len;
		memcpy(f->error + f->error_len, data, len);
		f->error_len += len;
		f->error[f->error_len] = '\0';
		return 0;
	}
	for (i = 0; i < len; i++) {
		if (data[i] != '\n') {
			if (f->len == FRAME_MAX) {
				refusal_set(&f->refusal, "http.protocol", "a frame is too long");
				return f->failed = true, -1;
			}
			f->frame[f->len++] = data[i];
			continue;
		}
		f->frame[f->len] = '\0';
		if (session_frame_show(
			&f->far->frames, &f->far->view, f->frame, f->len, &f->refusal) != 0)
			return f->failed = true, -1;
		f->len = 0;
		if (f->far->view.seq == f->until)
			return -1;
	}
	return 0;
}

/* It ends here: as ${r} says, or where that is NULL, as the other machine did. */
static void
refuse(struct follow *f, const struct refusal *r)
{
	f->refused = true;
	if (r != NULL)
		f->refusal = *r;
	loop_stop(f->loop);
}

static void stream(struct follow *f);

static void
on_again(void *ctx)
{
	struct follow *f = ctx;

	f->again = 0;
	stream(f);
}

static void
cut(struct follow *f)
{
	static const char text[] = "the way is cut; going on as soon as there is one (%s leaves)";
	char said[sizeof(text) + 8];
	int n;

	if (f->far->view.seq != f->reached) {
		f->wait = AGAIN_MS;
		f->told = false;
	}
	f->reached = f->far->view.seq;
	if (!f->told) {
		n = snprintf(said, sizeof(said), text, f->far->view.raw ? "Ctrl-]" : "Ctrl-C");
		session_view_remark(&f->far->view, said, (size_t)n);
	}
	f->told = true;
	f->again = loop_after(f->loop, f->wait, on_again, f);
	f->wait = f->wait * 2 < AGAIN_CAP ? f->wait * 2 : AGAIN_CAP;
}

/* One look has gone as far as it goes. */
static void
on_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct follow *f = ctx;
	int status = http_call_status(call);

	f->call = NULL;
	if (f->failed) {
		refuse(f, &f->refusal);
	} else if (f->far->view.seq == f->until || f->far->frames.over) {
		loop_stop(f->loop);
	} else if (refusal != NULL ? remote_is_cut(refusal) : status == 200 || status == 503) {
		/* A daemon that ends says so with 503, or ends the answer early. */
		cut(f);
	} else {
		refuse(f, refusal);
	}
}

static void
stream(struct follow *f)
{
	char path[FAR_NAME + 96];
	const struct remote_request request = {.method = "GET",
	    .path = path,
	    .stream = true,
	    .chunk = on_piece,
	    .done = on_done,
	    .ctx = f};
	struct refusal r;

	snprintf(path, sizeof(path), "/v1/sessions/%s/output?after=%" PRId64 "&id=%" PRId64,
	    f->far->name, f->far->view.seq, f->far->frames.id);
	f->len = f->error_len = 0;
	f->error[0] = '\0';
	if ((f->call = remote_start(f->client, f->end, &f->far->login, &request, &r)) == NULL)
		refuse(f, &r);
}

static void
on_left(void *ctx)
{
	struct follow *f = ctx;

	f->left = true;
	loop_stop(f->loop);
}

static void
on_signal(void *ctx, int signo)
{
	struct follow *f = ctx;

	if (signo == SIGWINCH)
		typing_resized(f->typing);
	else
		typing_leave(f->typing);
}

/* Whoever types has a terminal to be mended, so signals are waited for; else they end us. */
static int
begin_typing(struct follow *f)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (loop_signal(f->loop, signals[i], on_signal, f) != 0)
			return -1;
	f->typing = typing_new(f->loop, f->client, f->end, f->far, on_left, f);
	return f->typing != NULL ? 0 : -1;
}

static int
begin(struct follow *f, bool typing, struct refusal *r)
{
	if ((f->end = remote_tls(&f->far->login, r)) == NULL)
		return -1;
	if ((f->frame = malloc(FRAME_MAX + 1)) == NULL || (f->loop = loop_new()) == NULL)
		return refusal_set(r, "http.memory", "out of memory");
	if ((f->client = http_client_new(f->loop, r)) == NULL)
		return -1;
	if (typing && isatty(STDIN_FILENO) && begin_typing(f) != 0)
		return refusal_set(r, "http.memory", "out of memory");
	return 0;
}

static int
ended(struct follow *f)
{
	struct far *far = f->far;

	if (f->refused && f->refusal.code[0] == '\0')
		return remote_refuse(far->cli, f->error);
	if (f->refused) {
		far->cli->refusal = f->refusal;
		return cli_refuse(far->cli);
	}
	if (f->left)
		fprintf(stderr,
		    "bastion: session: %s goes on: bastion session attach %s --remote %s\n",
		    far->name, far->name, far->login.name);
	else if (far->frames.over && strcmp(far->frames.state, "done") != 0)
		fprintf(stderr, "bastion: session: %s on %s is %s%s%s\n", far->name,
		    far->login.name, far->frames.state, far->frames.reason[0] == '\0' ? "" : ": ",
		    far->frames.reason);
	return f->left ? 0 : far->frames.code;
}

int
far_follow(struct far *far, int64_t until, bool typing)
{
	struct follow f = {.far = far, .until = until, .wait = AGAIN_MS, .reached = far->view.seq};
	struct refusal r;
	int code;

	if (begin(&f, typing, &f.refusal) != 0) {
		f.refused = true;
	} else {
		stream(&f);
		if (!f.refused && loop_run(f.loop) != 0) {
			refusal_errno(&r, "session.watch", "waiting");
			refuse(&f, &r);
		}
	}
	typing_free(f.typing); /* before a word more: the terminal is raw until then */
	if (f.call != NULL)
		http_abort(f.call);
	http_client_free(f.client);
	tls_end_free(f.end);
	loop_free(f.loop);
	code = ended(&f);
	free(f.frame);
	return code;
}
