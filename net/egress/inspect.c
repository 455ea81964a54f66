/*
 * inspect.c: tunnels that are looked into.  TLS is the pump's (net/http/tls_pump.h): at either end
 * there is a plain socket here, and between them one request after the other is read strictly, gets
 * its row, and goes on as it was understood.
 */
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/clock.h"
#include "net/egress/inject.h"
#include "net/egress/inspect.h"
#include "net/egress/leaf.h"
#include "engine/redact.h"
#include "net/egress/request.h"
#include "net/http/tls_pump.h"

#define READ_SIZE 16384
#define HTTPS     443
#define OUT_MOST  65536 /* what waits for one side; then nothing more is read */
#define VALUE_MAX (TOKEN_SECRET_MAX * 4)
#define ROUNDS    32 /* then others have their turn */
#define HOUR_MS   INT64_C(3600000)

static const char WANTED[] = "SELECT (SELECT value FROM setting WHERE name = 'egress.inspect'),"
			     " EXISTS (SELECT 1 FROM egress_within)";
static const char NARROWED[] = "SELECT narrowed, whole FROM egress_narrowed WHERE id = :id";

/* Bytes that wait.  They may be secret: what is freed is wiped. */
struct text {
	char *at;
	size_t off, len, size;
};

/* The plain end of one side. */
struct stream {
	int fd;
	bool readable, writable;
	bool eof, gone; /* nothing more comes; nothing more is taken */
	struct text in, out;
	size_t looked; /* of in, for the end of a head */
};

enum state {
	SHAKING,  /* with the client */
	WAITING,  /* for a request */
	JUDGING,  /* it */
	REACHING, /* the server, and shaking hands with it */
	EXCHANGING,
	TUNNEL, /* it went over to another protocol */
	CLOSING /* what is to be said is said, and then it ends */
};

/* One end of TLS, as the pump knows it; it may outlive the tunnel. */
struct side {
	struct inspector *inspector;
	struct inspect *inspect; /* NULL: the tunnel is over */
	struct tls_conn *tls;
	struct leaf *leaf; /* of a client's side */
	bool open;         /* the plain socket was given */
	LIST_ENTRY(side) entry;
};

LIST_HEAD(side_list, side);

struct inspector {
	struct proxy *proxy;
	struct tls_pump *pump;
	struct tls_end *web;
	struct leaves *leaves;
	int64_t valid_ms;
	struct side_list sides;
};

struct inspect {
	struct conn *conn; /* NULL: it is over, and goes when it is not in use any more */
	struct inspector *inspector;
	struct side *client_side, *server_side;
	struct stream client, server;
	enum state state;
	bool running, began; /* to read a head */
	bool kept;           /* the server's side has answered a request already */
	uint64_t again;

	struct request *request; /* that is judged */
	char *raw;               /* the head of the request as it came */
	size_t raw_len;
	int64_t id; /* of its row, while it is open; else 0 */
	struct head head;
	struct token *token;
	struct redact *redact; /* NULL: no secret went through this tunnel */

	uint64_t up_left, down_left;
	bool up_done, answered;
	struct chunk up_chunk, down_chunk;
	struct head_answer answer;
	struct refusal why; /* of CLOSING; code "": none */
};

static void run(struct inspect *i);

/*
 * Text.
 */

static void
text_free(struct text *t)
{
	if (t->at != NULL)
		sodium_memzero(t->at, t->size);
	free(t->at);
	*t = (struct text){.at = NULL};
}

/* Return where ${n} more bytes go, or NULL without memory. */
static char *
text_room(struct text *t, size_t n)
{
	size_t size = t->size;
	char *grown;

	if (t->off > 0 && t->off + t->len + n > t->size) {
		memmove(t->at, t->at + t->off, t->len);
		t->off = 0;
	}
	if (t->len + n <= t->size)
		return t->at + t->off + t->len;
	while (size < t->len + n)
		size = size == 0 ? READ_SIZE : 2 * size;
	if ((grown = malloc(size)) == NULL)
		return NULL;
	if (t->len > 0)
		memcpy(grown, t->at + t->off, t->len);
	if (t->at != NULL)
		sodium_memzero(t->at, t->size);
	free(t->at);
	t->at = grown;
	t->size = size;
	t->off = 0;
	return grown + t->len;
}

static int
text_add(struct text *t, const char *bytes, size_t n)
{
	char *to = text_room(t, n);

	if (to == NULL)
		return -1;
	memcpy(to, bytes, n);
	t->len += n;
	return 0;
}

static void
text_drop(struct text *t, size_t n)
{
	t->off += n;
	t->len -= n;
	if (t->len == 0)
		text_free(t);
}

static const char *
text_bytes(const struct text *t)
{
	return t->len > 0 ? t->at + t->off : "";
}

/*
 * Ends.
 */

static void
side_free(struct side *side)
{
	LIST_REMOVE(side, entry);
	if (side->leaf != NULL)
		leaf_put(side->leaf);
	free(side);
}

/* What shakes hands still is dropped; what is open sends what it was given, and closes. */
static void
side_leave(struct side *side)
{
	if (side == NULL)
		return;
	side->inspect = NULL;
	if (side->open || side->tls == NULL)
		return;
	tls_drop(side->tls);
	side_free(side);
}

static void
stream_close(struct inspect *i, struct stream *s)
{
	text_free(&s->in);
	text_free(&s->out);
	if (s->fd == -1)
		return;
	loop_del(i->inspector->proxy->config.loop, s->fd);
	close(s->fd);
	s->fd = -1;
}

static void
request_clear(struct inspect *i)
{
	if (i->raw != NULL)
		sodium_memzero(i->raw, i->raw_len);
	free(i->raw);
	i->raw = NULL;
	head_free(&i->head);
	head_answer_free(&i->answer);
	token_free(i->token);
	i->token = NULL;
}

static void
inspect_free(struct inspect *i)
{
	request_clear(i);
	redact_free(i->redact);
	free(i);
}

/* What was asked is answered by us, or not at all. */
static void
request_over(struct inspect *i, const struct refusal *why)
{
	if (i->id != 0)
		request_failed(i->inspector->proxy, i->id, why);
	i->id = 0;
}

void
inspect_end(struct inspect *i)
{
	if (i == NULL || i->conn == NULL)
		return;
	i->conn->inspect = NULL;
	i->conn = NULL;
	request_forget(i->request);
	loop_cancel(i->inspector->proxy->config.loop, i->again);
	stream_close(i, &i->client);
	stream_close(i, &i->server);
	side_leave(i->client_side);
	side_leave(i->server_side);
	if (!i->running)
		inspect_free(i);
}

/* What was cut off is not to look whole. */
static void
cut(struct inspect *i, const struct refusal *why)
{
	struct side *side = i->client_side;

	request_over(i, why);
	if (side != NULL && side->tls != NULL) {
		i->client_side = NULL;
		tls_drop(side->tls);
		side_free(side);
	}
	conn_end(i->conn, why);
}

static bool
refuse_memory(struct inspect *i)
{
	struct refusal why;

	refusal_set(&why, "http.memory", "there is no memory for the request");
	inspect_refuse(i, &why);
	return false;
}

void
inspect_refuse(struct inspect *i, const struct refusal *refusal)
{
	char answer[CONN_ANSWER_MAX];

	if (i->state == SHAKING) {
		conn_end(i->conn, refusal);
		return;
	}
	if (i->state == CLOSING)
		return;
	request_over(i, refusal);
	/* An answer that began is not followed by another. */
	if (i->answered || i->state == TUNNEL ||
	    text_add(&i->client.out, answer, conn_answer(i->conn, refusal, answer)) != 0) {
		cut(i, refusal);
		return;
	}
	i->why = *refusal;
	i->state = CLOSING;
	i->conn->phase = RELAYING;
	conn_wait(i->conn, FOR_BYTES);
	stream_close(i, &i->server);
	if (!i->running)
		run(i);
}

/*
 * Bytes.
 */

static bool
take(struct inspect *i, struct stream *s)
{
	const struct proxy *proxy = i->inspector->proxy;
	size_t most = proxy->head > proxy->answer_head ? proxy->head : proxy->answer_head;
	char buffer[READ_SIZE];
	bool some = false;
	ssize_t n;

	while (s->fd != -1 && s->readable && s->in.len <= most) {
		n = recv(s->fd, buffer, sizeof(buffer), 0);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0) {
			s->readable = false;
			if (n == 0 || errno != EAGAIN)
				s->eof = some = true;
			return some;
		}
		if (text_add(&s->in, buffer, (size_t)n) != 0)
			return refuse_memory(i);
		some = true;
	}
	return some;
}

static bool
give(struct stream *s, uint64_t *moved)
{
	bool some = false;
	ssize_t n;

	while (s->fd != -1 && s->writable && s->out.len > 0) {
		n = send(s->fd, text_bytes(&s->out), s->out.len, MSG_NOSIGNAL);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN) {
			s->writable = false;
			return some;
		}
		if (n <= 0) {
			s->gone = true;
			text_free(&s->out);
			return true;
		}
		text_drop(&s->out, (size_t)n);
		*moved += (uint64_t)n;
		some = true;
	}
	return some;
}

/*
 * The server, between two requests.
 */

/* Another may be dialled in its place. */
static void
server_leave(struct inspect *i)
{
	stream_close(i, &i->server);
	side_leave(i->server_side);
	i->server_side = NULL;
	i->server = (struct stream){.fd = -1};
	i->kept = false;
}

/* The row was judged a while ago, and what is this machine may be more by now. */
static void
server_dial(struct inspect *i)
{
	struct refusal why;

	if (conn_vet(i->conn, &why) != 0)
		inspect_refuse(i, &why);
	else
		conn_dial(i->conn);
}

/*
 * It has nothing to say: what it says would answer the next request.  One that has gone is left.
 * Return false where the tunnel is over.
 */
static bool
server_idle(struct inspect *i)
{
	struct refusal why;

	if (i->server.in.len > 0) {
		refusal_set(&why, "egress.answer", "the server answers what nobody asked");
		cut(i, &why);
		return false;
	}
	if (i->server.eof || i->server.gone)
		server_leave(i);
	return true;
}

/*
 * A request.
 */

static void
on_judged(void *ctx, int64_t id, struct token *token, const struct refusal *why)
{
	struct inspect *i = ctx;

	i->request = NULL;
	i->conn->proxy->now = loop_now();
	if (why != NULL) {
		inspect_refuse(i, why);
		return;
	}
	i->id = id;
	i->token = token;
	if (i->state != JUDGING)
		return;
	i->state = REACHING;
	if (i->server.fd == -1) {
		server_dial(i);
		return;
	}
	i->server.readable = true; /* what it said meanwhile is looked at before it is asked */
	run(i);
}

static bool
read_request(struct inspect *i, size_t end)
{
	const struct proxy *proxy = i->inspector->proxy;
	struct refusal why;

	if (head_within_read(
		text_bytes(&i->client.in), end, proxy->fields, &i->conn->to, &i->head, &why) != 0) {
		inspect_refuse(i, &why);
		return false;
	}
	if ((i->raw = malloc(end)) == NULL)
		return refuse_memory(i);
	memcpy(i->raw, text_bytes(&i->client.in), end);
	i->raw_len = end;
	text_drop(&i->client.in, end);
	i->client.looked = 0;
	i->state = JUDGING;
	i->began = false;
	conn_wait(i->conn, FOR_DIAL);
	i->request = request_ask(i->inspector->proxy, i->conn->flow_id, &i->head, on_judged, i);
	return i->request != NULL ? true : refuse_memory(i);
}

static bool
step_waiting(struct inspect *i)
{
	struct stream *s = &i->client;
	struct refusal why;
	size_t end;

	if (i->server.fd != -1 && !server_idle(i))
		return false;
	if (s->in.len > 0 && !i->began) {
		i->began = true;
		conn_wait(i->conn, FOR_HEAD);
	}
	if ((end = head_end(text_bytes(&s->in), s->in.len, s->looked)) != 0 &&
	    end <= i->inspector->proxy->head)
		return read_request(i, end);
	s->looked = s->in.len;
	if (s->in.len > i->inspector->proxy->head) {
		refusal_set(&why, "egress.request", "the head of the request is too long");
		inspect_refuse(i, &why);
	} else if (s->eof) {
		i->state = CLOSING;
		return true;
	}
	return false;
}

/* The secret is in no buffer but the one that is sent. */
static int
add_token(struct inspect *i, struct refusal *why)
{
	const struct token *t = i->token;
	const char *given = NULL;
	char *value = sodium_malloc(VALUE_MAX), name[TOKEN_HEADER_MAX + 3];
	long len, n = -1;
	int rc = -1;

	len = head_field(i->raw, i->raw_len, i->inspector->proxy->fields, t->header, &given);
	if (value != NULL)
		n = inject_value(t, given, len > 0 ? (size_t)len : 0, value, VALUE_MAX);
	if (n >= 0 && (i->redact != NULL || (i->redact = redact_new()) != NULL) &&
	    redact_add(i->redact, t->secret) == 0) {
		snprintf(name, sizeof(name), "%s: ", t->header);
		rc = text_add(&i->server.out, name, strlen(name)) == 0 &&
			     text_add(&i->server.out, value, (size_t)n) == 0
			 ? text_add(&i->server.out, "\r\n", 2)
			 : -1;
	}
	sodium_free(value);
	return rc == 0
		   ? 0
		   : refusal_set(why, "egress.request", "the token does not fit into its header");
}

/* The request goes on, as it was read. */
static int
write_request(struct inspect *i, struct refusal *why)
{
	/* A tunnel that a secret went through asks for nothing that would hide it. */
	const char *header = i->token != NULL ? i->token->header : i->redact != NULL ? "" : NULL;

	if (head_within_write(
		i->raw, i->raw_len, i->inspector->proxy->fields, &i->head, header, why) != 0)
		return -1;
	if (text_add(&i->server.out, i->head.out, i->head.out_len) != 0 ||
	    (i->token != NULL && add_token(i, why) != 0))
		return -1;
	return text_add(&i->server.out, "\r\n", 2);
}

static bool
step_begin(struct inspect *i)
{
	struct refusal why;

	refusal_set(&why, "http.memory", "there is no memory for the request");
	if (write_request(i, &why) != 0) {
		inspect_refuse(i, &why);
		return false;
	}
	token_free(i->token);
	i->token = NULL;
	i->up_chunk = i->down_chunk = (struct chunk){.state = CHUNK_SIZE};
	i->up_left = i->head.body == HEAD_LENGTH ? i->head.length : 0;
	i->up_done =
	    i->head.body == HEAD_NO_BODY || (i->head.body == HEAD_LENGTH && i->up_left == 0);
	i->answered = false;
	i->conn->informed = 0;
	i->state = EXCHANGING;
	conn_wait(i->conn, FOR_BYTES);
	return true;
}

static bool
step_reaching(struct inspect *i)
{
	if (i->server.fd == -1)
		return false;
	/* One that has just been reached and goes gives no answer: it is not tried for ever. */
	if ((i->kept || i->server.in.len > 0) && !server_idle(i))
		return false;
	if (i->server.fd != -1)
		return step_begin(i);
	server_dial(i);
	return false;
}

/*
 * Its body.
 */

/* Carry some of the request's body.  Return whether something moved; the tunnel may be over. */
static bool
carry_up(struct inspect *i)
{
	struct stream *from = &i->client;
	struct text *out = &i->server.out;
	struct refusal why;
	size_t n = from->in.len < READ_SIZE ? from->in.len : READ_SIZE, len;
	char *to;
	long took;

	if (i->up_done || n == 0 || out->len >= OUT_MOST)
		return false;
	if ((to = text_room(out, n + CHUNK_GROWTH)) == NULL)
		return refuse_memory(i);
	if (i->head.body == HEAD_LENGTH) {
		took = (long)(n < i->up_left ? n : i->up_left);
		memcpy(to, text_bytes(&from->in), (size_t)took);
		len = (size_t)took;
		i->up_done = (i->up_left -= len) == 0;
	} else {
		took = chunk_feed(&i->up_chunk, text_bytes(&from->in), n, to, &len);
		i->up_done = i->up_chunk.state == CHUNK_DONE;
	}
	if (took == -1) {
		refusal_set(&why, "egress.request", "%s", CONN_BROKEN_BODY);
		inspect_refuse(i, &why);
		return false;
	}
	out->len += len;
	text_drop(&from->in, (size_t)took);
	return true;
}

static bool
step_up(struct inspect *i)
{
	struct refusal why;
	bool some = carry_up(i);

	/* Who takes no more of the request may have answered it all the same. */
	if (i->conn != NULL && i->server.gone && !i->up_done) {
		i->up_done = true;
		i->head.keep = false;
	}
	if (i->conn != NULL && i->state == EXCHANGING && !i->up_done && i->client.eof &&
	    i->client.in.len == 0) {
		refusal_set(&why, "http.aborted", "whoever asked has gone");
		cut(i, &why);
		return false;
	}
	return some;
}

/*
 * The answer.
 */

static int
say(struct inspect *i, const char *bytes, size_t len)
{
	char *to;

	if (len == 0)
		return 0;
	if (i->redact == NULL)
		return text_add(&i->client.out, bytes, len);
	if ((to = text_room(&i->client.out, len + redact_held(i->redact))) == NULL)
		return -1;
	i->client.out.len += redact_feed(i->redact, bytes, len, to);
	return 0;
}

/* Nothing more of this comes: what was held is said. */
static int
say_rest(struct inspect *i)
{
	size_t held = i->redact != NULL ? redact_held(i->redact) : 0;
	char *to;

	if (held == 0)
		return 0;
	if ((to = text_room(&i->client.out, held)) == NULL)
		return -1;
	i->client.out.len += redact_end(i->redact, to);
	return 0;
}

/* As say and say_rest, in a chunk of its own. */
static int
say_chunk(struct inspect *i, const char *bytes, size_t len, bool last)
{
	size_t n = len + (i->redact != NULL ? redact_held(i->redact) : 0);
	char size[24], *clean = malloc(n + 1);
	int rc = 0;

	if (clean == NULL)
		return -1;
	if (i->redact == NULL) {
		memcpy(clean, bytes, len);
	} else {
		n = redact_feed(i->redact, bytes, len, clean);
		if (last)
			n += redact_end(i->redact, clean + n);
	}
	if (n > 0) {
		snprintf(size, sizeof(size), "%zx\r\n", n);
		rc = text_add(&i->client.out, size, strlen(size)) == 0 &&
			     text_add(&i->client.out, clean, n) == 0
			 ? text_add(&i->client.out, "\r\n", 2)
			 : -1;
	}
	free(clean);
	return rc == 0 && last ? text_add(&i->client.out, "0\r\n\r\n", 5) : rc;
}

/* Take the head of an answer off what came.  Return 0, or -1 with ${why}. */
static int
answer_take(struct inspect *i, size_t end, struct refusal *why)
{
	struct stream *s = &i->server;
	struct head_answer *a = &i->answer;

	head_answer_free(a);
	if (head_within_answer(
		text_bytes(&s->in), end, i->inspector->proxy->fields, &i->head, a, why) != 0)
		return -1;
	text_drop(&s->in, end);
	s->looked = 0;
	if (i->redact != NULL && a->coded && a->body != HEAD_NO_BODY)
		return refusal_set(why, "egress.encoded",
		    "the answer to a request with a token has a content coding, "
		    "so nobody can see whether the token is in it");
	i->answered = a->status >= 200 || a->over;
	if (!i->answered && conn_informed(i->conn, end, why) != 0)
		return -1;
	if (say(i, a->out, a->out_len) != 0 || say_rest(i) != 0)
		return refusal_set(why, "http.memory", "there is no memory for the answer");
	i->down_left = a->body == HEAD_LENGTH && a->sized ? a->length : 0;
	return 0;
}

static bool
step_head(struct inspect *i)
{
	struct stream *s = &i->server;
	struct refusal why;
	size_t end = head_end(text_bytes(&s->in), s->in.len, s->looked);

	if (end != 0 && answer_take(i, end, &why) == 0)
		return true;
	if (end == 0) {
		s->looked = s->in.len;
		if (s->in.len > i->inspector->proxy->answer_head)
			refusal_set(
			    &why, "egress.answer", "the head of the server's answer is too long");
		else if (s->eof)
			refusal_set(&why, "egress.answer",
			    "the server closed the connection without an answer");
		else
			return false;
	}
	inspect_refuse(i, &why);
	return false;
}

/* Carry some of the answer's body.  Return how much of ${n} bytes, or -1; ${*done}: that was all.
 */
static long
carry_down(struct inspect *i, const char *bytes, size_t n, bool *done)
{
	const struct head_answer *a = &i->answer;
	char plain[READ_SIZE];
	size_t len;
	long took;

	*done = a->body == HEAD_NO_BODY;
	if (*done)
		return 0;
	if (a->body == HEAD_CHUNKED) {
		if ((took = chunk_data(&i->down_chunk, bytes, n, plain, &len)) == -1)
			return -1;
		*done = i->down_chunk.state == CHUNK_DONE;
		return say_chunk(i, plain, len, *done) == 0 ? took : -1;
	}
	if (a->sized && n > i->down_left)
		n = (size_t)i->down_left;
	if (say(i, bytes, n) != 0)
		return -1;
	i->down_left -= a->sized ? n : 0;
	*done = a->sized && i->down_left == 0;
	return *done && say_rest(i) != 0 ? -1 : (long)n;
}

static void
exchange_over(struct inspect *i)
{
	bool again = i->up_done && i->head.keep && i->answer.keep && !i->client.eof;

	request_done(i->inspector->proxy, i->id, i->answer.status);
	i->id = 0;
	i->answered = i->answered && i->answer.over;
	i->kept = true;
	if (i->answer.over) {
		i->state = TUNNEL;
		return;
	}
	i->state = again ? WAITING : CLOSING;
	request_clear(i);
	if (again)
		conn_wait(i->conn, FOR_BYTES);
}

static bool
step_down(struct inspect *i)
{
	struct stream *s = &i->server;
	struct refusal why;
	size_t n = s->in.len < READ_SIZE ? s->in.len : READ_SIZE;
	bool done = false;
	long took;

	if (i->client.out.len >= OUT_MOST)
		return false;
	if (!i->answered)
		return step_head(i);
	took = i->answer.over ? 0 : carry_down(i, text_bytes(&s->in), n, &done);
	if (took > 0)
		text_drop(&s->in, (size_t)took);
	/* A body without a length ends with the connection. */
	if (took >= 0 && s->eof && s->in.len == 0 && i->answer.body == HEAD_LENGTH &&
	    !i->answer.sized)
		done = say_rest(i) == 0;
	if (i->answer.over || (took >= 0 && done)) {
		exchange_over(i);
		return true;
	}
	if (took == -1 || (s->eof && s->in.len == 0)) {
		refusal_set(&why, "egress.answer", "the server's answer breaks off");
		cut(i, &why);
		return false;
	}
	return took > 0;
}

/*
 * What it went over to.
 */

static bool
step_tunnel(struct inspect *i)
{
	struct stream *c = &i->client, *s = &i->server;
	bool some = c->in.len > 0 || s->in.len > 0;

	if (c->in.len > 0 && s->out.len < OUT_MOST) {
		if (text_add(&s->out, text_bytes(&c->in), c->in.len) != 0)
			return refuse_memory(i);
		text_drop(&c->in, c->in.len);
	}
	if (s->in.len > 0 && c->out.len < OUT_MOST) {
		if (say(i, text_bytes(&s->in), s->in.len) != 0)
			return refuse_memory(i);
		text_drop(&s->in, s->in.len);
	}
	if ((s->eof && s->in.len == 0) || (c->eof && c->in.len == 0 && s->out.len == 0)) {
		if (say_rest(i) != 0)
			return refuse_memory(i);
		i->state = CLOSING;
		return true;
	}
	return some && c->out.len < OUT_MOST && s->out.len < OUT_MOST;
}

/* Do what can be done now.  Return whether something was; the tunnel may be over. */
static bool
step(struct inspect *i)
{
	bool up;

	switch (i->state) {
	case WAITING:
		return step_waiting(i);
	case REACHING:
		return step_reaching(i);
	case EXCHANGING:
		up = step_up(i);
		return i->conn != NULL && i->state == EXCHANGING ? step_down(i) || up : up;
	case TUNNEL:
		return step_tunnel(i);
	case CLOSING:
		if (i->client.out.len == 0)
			conn_end(i->conn, i->why.code[0] != '\0' ? &i->why : NULL);
		return false;
	default:
		return false;
	}
}

static void
on_again(void *ctx)
{
	struct inspect *i = ctx;

	i->again = 0;
	i->conn->proxy->now = loop_now();
	run(i);
}

static bool
round_once(struct inspect *i)
{
	struct conn *c = i->conn;
	bool some;

	some = take(i, &i->client);
	if (i->conn != NULL)
		some = take(i, &i->server) || some;
	if (i->conn != NULL)
		some = step(i) || some;
	if (i->conn != NULL)
		some = give(&i->server, &c->up.moved) || some;
	if (i->conn != NULL)
		some = give(&i->client, &c->down.moved) || some;
	return some;
}

static void
run(struct inspect *i)
{
	struct conn *c = i->conn;
	uint64_t moved = c->up.moved + c->down.moved;
	bool some = true;
	int n;

	i->running = true;
	for (n = 0; n < ROUNDS && some && i->conn != NULL; n++)
		some = round_once(i);
	i->running = false;
	if (i->conn == NULL) {
		inspect_free(i);
		return;
	}
	if ((i->state == EXCHANGING || i->state == TUNNEL) && c->up.moved + c->down.moved != moved)
		conn_touch(c);
	if (some && i->again == 0)
		i->again = loop_after(c->proxy->config.loop, 0, on_again, i);
}

/*
 * Sockets.
 */

static void
stream_event(struct stream *s, uint32_t events)
{
	if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
		s->readable = true;
	if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
		s->writable = true;
	/* It was closed, not only shut: nothing is taken any more. */
	if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		s->gone = true;
}

static void
on_client(void *ctx, uint32_t events)
{
	struct inspect *i = ctx;
	struct refusal why;

	i->conn->proxy->now = loop_now();
	stream_event(&i->client, events);
	if (i->client.gone) {
		refusal_set(&why, "http.aborted", "whoever asked has gone");
		conn_end(i->conn, i->state == WAITING || i->state == TUNNEL       ? NULL
				  : i->state == CLOSING && i->why.code[0] != '\0' ? &i->why
				  : i->state == CLOSING                           ? NULL
										  : &why);
		return;
	}
	run(i);
}

static void
on_server(void *ctx, uint32_t events)
{
	struct inspect *i = ctx;

	i->conn->proxy->now = loop_now();
	stream_event(&i->server, events);
	run(i);
}

/* The handshake is done: from now on there is a plain socket for it. */
static int
on_ready(void *ctx, struct tls_conn *tls, int fd, struct tls_peer *peer)
{
	const uint32_t edges = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	struct side *side = ctx;
	struct inspect *i = side->inspect;
	bool server = side->leaf == NULL;

	(void)tls;
	tls_peer_free(peer);
	if (i == NULL || loop_add(side->inspector->proxy->config.loop, fd, edges,
			     server ? on_server : on_client, i) != 0) {
		close(fd);
		return -1;
	}
	side->open = true;
	(server ? &i->server : &i->client)->fd = fd;
	if (!server) {
		i->state = WAITING;
		i->conn->proxy->now = loop_now();
		conn_wait(i->conn, FOR_HEAD);
	}
	return 0;
}

/* The pump has let go of it. */
static void
on_gone(void *ctx, const struct refusal *why)
{
	struct side *side = ctx;
	struct inspect *i = side->inspect;
	bool server = side->leaf == NULL, open = side->open;
	struct refusal no;

	side->tls = NULL;
	if (i != NULL && server)
		i->server_side = NULL;
	if (i != NULL && !server)
		i->client_side = NULL;
	side_free(side);
	if (i == NULL || open)
		return;
	i->conn->proxy->now = loop_now();
	refusal_set(&no, server ? "egress.untrusted" : "egress.tls", "%s: %s",
	    server ? "the server is not trusted" : "the program does not trust the lane",
	    why != NULL ? why->why : "the connection was closed");
	inspect_refuse(i, &no);
}

static struct side *
side_new(struct inspect *i, struct leaf *leaf)
{
	struct side *side = calloc(1, sizeof(*side));

	if (side == NULL)
		return NULL;
	side->inspector = i->inspector;
	side->inspect = i;
	side->leaf = leaf;
	LIST_INSERT_HEAD(&i->inspector->sides, side, entry);
	return side;
}

void
inspect_dialled(struct inspect *i, int fd)
{
	struct tls_hooks hooks = {.ready = on_ready, .gone = on_gone};
	struct refusal why;

	loop_del(i->inspector->proxy->config.loop, fd);
	i->conn->phase = RELAYING;
	if (i->state != REACHING) {
		close(fd);
		return;
	}
	if ((i->server_side = side_new(i, NULL)) == NULL) {
		close(fd);
		refuse_memory(i);
		return;
	}
	hooks.ctx = i->server_side;
	conn_wait(i->conn, FOR_DIAL);
	i->server_side->tls = tls_connect(
	    i->inspector->pump, i->inspector->web, fd, i->conn->to.host.text, &hooks, &why);
	if (i->server_side->tls != NULL)
		return;
	side_free(i->server_side);
	i->server_side = NULL;
	inspect_refuse(i, &why);
}

/*
 * The beginning.
 */

static enum proxy_inspect
mode_of(const struct proxy *proxy)
{
	if (proxy->config.inspect != PROXY_INSPECT_SETTING)
		return proxy->config.inspect;
	return (enum proxy_inspect)(
	    PROXY_INSPECT_NONE + store_setting(proxy->config.db, "egress.inspect"));
}

static struct inspector *
inspector_new(struct proxy *proxy, struct refusal *r)
{
	const struct tls_config config = {.web = true, .roots = proxy->config.roots};
	struct store *db = proxy->config.db;
	unsigned tunnels = (unsigned)store_setting(db, "egress.tunnels");
	const struct tls_limits limits = {.connections = 2 * tunnels,
	    .handshakes = 2 * tunnels,
	    .per_address = 2 * tunnels,
	    .handshake_ms = store_setting(db, "egress.shake_ms"),
	    .flush_ms = proxy->patience[FOR_LINGER],
	    .dead_ms = proxy->patience[FOR_BYTES]};
	struct inspector *inspector = calloc(1, sizeof(*inspector));

	if (inspector == NULL) {
		refusal_set(r, "http.memory", "there is no memory to look into tunnels");
		return NULL;
	}
	inspector->proxy = proxy;
	LIST_INIT(&inspector->sides);
	if ((inspector->pump = tls_pump_new(proxy->config.loop, &limits, r)) != NULL &&
	    (inspector->web = tls_client_end(&config, r)) != NULL)
		return inspector;
	inspector_free(inspector);
	return NULL;
}

void
inspector_free(struct inspector *inspector)
{
	if (inspector == NULL)
		return;
	tls_pump_free(inspector->pump);
	while (!LIST_EMPTY(&inspector->sides))
		side_free(LIST_FIRST(&inspector->sides));
	tls_end_free(inspector->web);
	leaves_free(inspector->leaves);
	free(inspector);
}

static bool
authority_lasts(const struct inspector *inspector)
{
	int64_t margin = inspector->valid_ms / 2 < HOUR_MS ? inspector->valid_ms / 2 : HOUR_MS;

	return inspector->leaves != NULL && leaves_ends(inspector->leaves) - clock_now() > margin;
}

/* Have an authority that lasts. */
static int
authority_take(struct proxy *proxy, struct refusal *r)
{
	struct store *db = proxy->config.db;
	struct inspector *inspector;
	struct leaves *leaves;

	if (proxy->inspector == NULL && (proxy->inspector = inspector_new(proxy, r)) == NULL)
		return -1;
	inspector = proxy->inspector;
	if (authority_lasts(inspector))
		return 0;
	inspector->valid_ms = store_setting(db, "egress.authority_hours") * HOUR_MS;
	leaves = leaves_new(inspector->valid_ms, (size_t)store_setting(db, "egress.leaves"), r);
	if (leaves == NULL)
		return -1;
	leaves_free(inspector->leaves);
	inspector->leaves = leaves;
	if (proxy->config.inspect == PROXY_INSPECT_SETTING)
		request_authority(proxy, leaves_pem(leaves), leaves_ends(leaves));
	return 0;
}

void
inspector_look(struct proxy *proxy)
{
	struct refusal why;

	if (mode_of(proxy) != PROXY_INSPECT_NONE && authority_take(proxy, &why) != 0)
		fprintf(stderr, "egress: cannot look into tunnels: %s: %s\n", why.code, why.why);
}

const char *
proxy_authority(struct proxy *proxy, struct refusal *r)
{
	if (mode_of(proxy) == PROXY_INSPECT_NONE) {
		refusal_set(r, "egress.no_authority", "this lane looks into nothing");
		return NULL;
	}
	return authority_take(proxy, r) == 0 ? leaves_pem(proxy->inspector->leaves) : NULL;
}

/* What holds for all of them until somebody else has written. */
static int
rules_look(struct store *db, struct inspect_rules *rules)
{
	struct stmt *q;

	if (!store_changed(db) && rules->known)
		return 0;
	rules->known = false;
	if ((q = store_sql(db, WANTED)) == NULL || stmt_step(q) != 1)
		return -1;
	rules->setting = (int)stmt_get_int(q, 0);
	rules->within = stmt_get_int(q, 1) != 0;
	stmt_done(q);
	rules->known = true;
	return 0;
}

void
inspect_read(struct store *db, struct conn *c)
{
	struct inspect_rules *rules = &c->proxy->rules_inside;
	struct stmt *q;

	c->rules_read = c->narrowed = c->whole = false;
	if (rules_look(db, rules) != 0)
		return;
	if (rules->within) {
		if ((q = store_sql(db, NARROWED)) == NULL)
			return;
		stmt_int(q, ":id", c->flow_id);
		if (stmt_step(q) != 1)
			return;
		c->narrowed = stmt_get_int(q, 0) != 0;
		c->whole = stmt_get_int(q, 1) != 0;
		stmt_done(q);
	}
	c->setting = rules->setting;
	c->rules_read = true;
}

int
inspect_wanted(struct conn *c, struct refusal *r)
{
	enum proxy_inspect mode = c->proxy->config.inspect;

	if (!c->rules_read)
		return refusal_set(r, "store.failed", "the rules cannot be read");
	/* Programs of runs that were handed over trust no authority of ours. */
	if (mode == PROXY_INSPECT_SETTING)
		mode = (enum proxy_inspect)(
		    PROXY_INSPECT_NONE + (c->user->who.run == 0 ? c->setting : 0));
	if (mode != PROXY_INSPECT_NONE)
		return c->narrowed ||
		       (mode == PROXY_INSPECT_ALL && (!c->caught || c->to.port == HTTPS));
	if (!c->narrowed || c->whole)
		return 0;
	return refusal_set(r, "egress.uninspected",
	    "what allows this says something of requests, and the lane does not look into tunnels");
}

static struct inspect *
inspect_new(struct conn *c)
{
	struct inspect *i = calloc(1, sizeof(*i));

	if (i == NULL)
		return NULL;
	i->conn = c;
	i->inspector = c->proxy->inspector;
	i->client.fd = i->server.fd = -1;
	return i;
}

/* The client's socket is the pump's from now on. */
static int
client_shake(struct inspect *i, struct leaf *leaf, struct refusal *r)
{
	const struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
	struct tls_hooks hooks = {.ready = on_ready, .gone = on_gone};
	struct conn *c = i->conn;
	int fd = c->client;

	if ((i->client_side = side_new(i, leaf)) == NULL) {
		leaf_put(leaf);
		return refusal_set(r, "http.memory", "there is no memory for the tunnel");
	}
	hooks.ctx = i->client_side;
	conn_established(c);
	loop_del(c->proxy->config.loop, fd);
	c->client = -1;
	i->client_side->tls = tls_accept(i->inspector->pump, leaf_end(leaf), fd, &from, &hooks, r);
	if (i->client_side->tls != NULL)
		return 0;
	side_free(i->client_side);
	i->client_side = NULL;
	return -1;
}

int
inspect_begin(struct conn *c, struct refusal *r)
{
	struct leaf *leaf;
	struct refusal why;

	if (c->in_len > 0)
		return refusal_set(
		    r, "egress.early", "the program did not wait until its tunnel stood");
	if (authority_take(c->proxy, r) != 0 ||
	    (leaf = leaf_take(c->proxy->inspector->leaves, c->to.host.text, r)) == NULL)
		return -1;
	if ((c->inspect = inspect_new(c)) == NULL) {
		leaf_put(leaf);
		return refusal_set(r, "http.memory", "there is no memory for the tunnel");
	}
	c->phase = RELAYING;
	conn_wait(c, FOR_HEAD);
	if (client_shake(c->inspect, leaf, &why) != 0)
		conn_end(c, &why);
	return 0;
}
