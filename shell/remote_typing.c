/* remote_typing.c: keys in numbered pieces, one on its way at a time. */
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "engine/clock.h"
#include "shell/remote_typing.h"

#define LEAVE      0x1d /* Ctrl-] */
#define TYPED_MAX  4096
#define ANSWER_MAX 8192
#define AGAIN_MS   200
#define AGAIN_CAP  2000
#define LEAVE_MS   2000 /* how long whoever leaves waits for the other machine */

static const char TAKEN[] =
    "SELECT :f ->> '$.terminal', :f ->> '$.ms', :f ->> '$.error.code', :f ->> '$.error.why'";

enum piece { NOTHING, KEEP, DATA, SIZE, GOODBYE };

struct typing {
	struct loop *loop;
	struct http_client *client;
	struct tls_end *end;
	struct far *far;
	void (*left)(void *ctx);
	void *ctx;

	char typist[33];
	int64_t n;        /* of the last piece that was taken */
	enum piece piece; /* on its way, or to be sent again as it was */
	struct http_call *call;
	uint64_t again, keep, patience; /* timers */
	int64_t wait;
	char typed[TYPED_MAX];
	size_t len, going; /* bytes that wait; of these in the piece */
	char size[16];     /* of the terminal, in the piece */
	bool resized, keep_due;

	bool ours, terminal, lost, leaving, ended, listens, raw;
	struct termios before;
	char answer[ANSWER_MAX];
	size_t answer_len;
};

static void go(struct typing *t);
static void on_keys(void *ctx, uint32_t events);

static void
listen_to_keys(struct typing *t, bool on)
{
	if (on == t->listens)
		return;
	if (!on)
		loop_del(t->loop, STDIN_FILENO);
	else if (loop_add(t->loop, STDIN_FILENO, EPOLLIN, on_keys, t) != 0)
		return;
	t->listens = on;
}

static void
cook(struct typing *t)
{
	if (t->raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
	t->raw = t->far->view.raw = false;
}

/* From here on we look on. */
static void
lose(struct typing *t)
{
	t->lost = true;
	t->piece = NOTHING;
	t->len = 0;
	listen_to_keys(t, false);
	cook(t);
}

static void
on_late(void *ctx)
{
	struct typing *t = ctx;

	t->patience = 0;
	t->left(t->ctx);
}

void
typing_leave(struct typing *t)
{
	if (t->leaving)
		return;
	t->leaving = true;
	listen_to_keys(t, false);
	/* Where the way is cut there is nobody to wait for; the keyboard is free again in time. */
	if (t->lost || !t->ours || t->again != 0 ||
	    (t->patience = loop_after(t->loop, LEAVE_MS, on_late, t)) == 0)
		t->left(t->ctx);
	else
		go(t);
}

void
typing_resized(struct typing *t)
{
	t->resized = t->terminal;
	go(t);
}

static void
on_keys(void *ctx, uint32_t events)
{
	struct typing *t = ctx;
	char *at = t->typed + t->len, *leave;
	ssize_t n;

	(void)events;
	if (t->len == sizeof(t->typed)) {
		listen_to_keys(t, false); /* until there is room */
		return;
	}
	if ((n = read(STDIN_FILENO, at, sizeof(t->typed) - t->len)) <= 0) {
		t->ended = true;
		listen_to_keys(t, false);
		return;
	}
	if ((leave = memchr(at, LEAVE, (size_t)n)) != NULL)
		n = leave - at;
	t->len += (size_t)n;
	if (leave != NULL)
		typing_leave(t);
	else
		go(t);
}

static void
on_again(void *ctx)
{
	struct typing *t = ctx;

	t->again = 0;
	go(t);
}

/* The same piece once more, later. */
static void
again(struct typing *t)
{
	if (t->leaving) {
		t->left(t->ctx);
		return;
	}
	t->again = loop_after(t->loop, t->wait, on_again, t);
	t->wait = t->wait * 2 < AGAIN_CAP ? t->wait * 2 : AGAIN_CAP;
}

static void
on_keep(void *ctx)
{
	struct typing *t = ctx;

	t->keep = 0;
	t->keep_due = true;
	go(t);
}

/* The keyboard is ours: now it matters what kind of terminal this is. */
static void
sit_down(struct typing *t, bool terminal)
{
	struct termios raw;

	t->ours = true;
	t->terminal = terminal;
	if (terminal && tcgetattr(STDIN_FILENO, &t->before) == 0) {
		raw = t->before;
		cfmakeraw(&raw);
		t->raw = t->far->view.raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	}
	t->resized = terminal; /* and of what size it is here */
}

static void
taken(struct typing *t, bool terminal, int64_t ms)
{
	t->wait = AGAIN_MS;
	if (!t->ours)
		sit_down(t, terminal);
	if (t->piece == DATA || t->piece == SIZE)
		t->n++;
	if (t->piece == DATA) {
		t->len -= t->going;
		memmove(t->typed, t->typed + t->going, t->len);
		explicit_bzero(t->typed + t->len, sizeof(t->typed) - t->len);
	}
	t->piece = NOTHING;
	t->keep_due = false;
	loop_cancel(t->loop, t->keep);
	t->keep = loop_after(t->loop, ms < 300 ? 100 : ms / 3, on_keep, t);
	listen_to_keys(t, !t->leaving && !t->ended);
	go(t);
}

static void
refused(struct typing *t, const char *code, const char *why)
{
	/* What these mean is seen, or said, by whoever follows. */
	static const char *const quiet[] = {
	    "session.over", "session.deaf", "session.unknown", "remote.token", ""};
	char text[512];
	size_t i;
	int n;

	lose(t);
	for (i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++)
		if (strcmp(code, quiet[i]) == 0)
			return;
	n = snprintf(text, sizeof(text), "%s: you look on [%s]", why, code);
	session_view_remark(
	    &t->far->view, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static int
on_answer(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct typing *t = ctx;

	(void)call;
	if (len > sizeof(t->answer) - t->answer_len)
		return -1;
	memcpy(t->answer + t->answer_len, data, len);
	t->answer_len += len;
	return 0;
}

static void
on_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct typing *t = ctx;
	int status = http_call_status(call);
	sqlite3_stmt *q;

	t->call = NULL;
	if (refusal == NULL && status == 202) {
		t->left(t->ctx);
		return;
	}
	/* Too much at once, a daemon that ends, a way that is cut: later, the same again. */
	if (refusal != NULL ? remote_is_cut(refusal) : status == 429 || status == 503) {
		again(t);
		return;
	}
	q = refusal != NULL ? NULL : far_query(t->far, TAKEN, t->answer, t->answer_len);
	if (q == NULL)
		refused(t, "", "");
	else if (status == 200)
		taken(t, sqlite3_column_int(q, 0) == 1, sqlite3_column_int64(q, 1));
	else
		refused(t, far_column(q, 2), far_column(q, 3));
	sqlite3_finalize(q);
	if (t->lost && t->leaving)
		t->left(t->ctx);
}

static enum piece
next(struct typing *t)
{
	struct winsize size;

	if (!t->ours)
		return KEEP;
	if (t->len > 0) {
		t->going = t->len;
		return DATA;
	}
	if (t->resized) {
		t->resized = false;
		if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 &&
		    size.ws_row < 1000 && size.ws_col > 0 && size.ws_col < 1000) {
			snprintf(t->size, sizeof(t->size), "%ux%u", size.ws_col, size.ws_row);
			return SIZE;
		}
	}
	if (t->leaving)
		return GOODBYE;
	return t->keep_due ? KEEP : NOTHING;
}

static void
send_piece(struct typing *t)
{
	char path[FAR_NAME + 128];
	const struct remote_request request = {.method = "POST",
	    .path = path,
	    .body = t->piece == DATA ? t->typed : "",
	    .len = t->piece == DATA ? t->going : 0,
	    .type = "application/octet-stream",
	    .keep = true,
	    .chunk = on_answer,
	    .done = on_done,
	    .ctx = t};

	snprintf(path, sizeof(path), "/v1/sessions/%s/keys?typist=%s&n=%" PRId64 "%s%s%s",
	    t->far->name, t->typist, t->n + (t->piece == DATA || t->piece == SIZE),
	    t->piece == SIZE ? "&size=" : "", t->piece == SIZE ? t->size : "",
	    t->piece == GOODBYE ? "&leave=1" : "");
	t->answer_len = 0;
	t->call = remote_start(t->client, t->end, &t->far->login, &request, NULL);
	if (t->call == NULL)
		again(t);
}

static void
go(struct typing *t)
{
	if (t->call != NULL || t->again != 0 || t->lost)
		return;
	if (t->piece == NOTHING)
		t->piece = next(t);
	if (t->piece != NOTHING)
		send_piece(t);
}

struct typing *
typing_new(struct loop *loop, struct http_client *client, struct tls_end *end, struct far *far,
    void (*left)(void *ctx), void *ctx)
{
	struct typing *t;

	if ((t = calloc(1, sizeof(*t))) == NULL)
		return NULL;
	*t = (struct typing){.loop = loop,
	    .client = client,
	    .end = end,
	    .far = far,
	    .left = left,
	    .ctx = ctx,
	    .wait = AGAIN_MS};
	random_hex(t->typist);
	go(t);
	return t;
}

void
typing_free(struct typing *t)
{
	if (t == NULL)
		return;
	if (t->call != NULL)
		http_abort(t->call);
	loop_cancel(t->loop, t->again);
	loop_cancel(t->loop, t->keep);
	loop_cancel(t->loop, t->patience);
	listen_to_keys(t, false);
	cook(t);
	explicit_bzero(t, sizeof(*t));
	free(t);
}
