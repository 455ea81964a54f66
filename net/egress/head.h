/* head.h: the head of a request to the lane, read strictly and written anew; and of its answer. */
#ifndef NET_EGRESS_HEAD_H
#define NET_EGRESS_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/egress/authority.h"

#define HEAD_METHOD_MAX 32

enum head_body { HEAD_NO_BODY, HEAD_LENGTH, HEAD_CHUNKED };

/* A request. */
struct head {
	bool connect;
	char method[HEAD_METHOD_MAX + 1];
	struct authority to;
	enum head_body body;
	uint64_t length; /* of the body, where ${body} is HEAD_LENGTH */
	char *out;       /* the head for the destination, malloc'ed; NULL for CONNECT */
	size_t out_len;

	/* Of a request within a tunnel. */
	char *path;     /* without the query, malloc'ed */
	bool keep;      /* another may follow on the connection */
	bool websocket; /* it asks to go over to that */
};

/* An answer to a plain request. */
struct head_answer {
	int status;
	enum head_body body; /* HEAD_CHUNKED: its end is that of the connection */
	bool sized;          /* whether ${length} is known */
	uint64_t length;
	char *out; /* malloc'ed */
	size_t out_len;

	/* Within a tunnel. */
	bool keep, over; /* another may follow; it goes over to another protocol (101) */
	bool coded;      /* its body has a content coding */
};

/**
 * head_end(bytes, len, from):
 * Return the length of the head that ${bytes} begin with, its empty line included, or 0 where it is
 * not complete.  A line ends with LF.  ${from} bytes were looked at before.
 */
size_t head_end(const char *bytes, size_t len, size_t from);

/**
 * head_is_one(bytes, len):
 * Whether the first line has two fields or more: what has fewer is no request.
 */
bool head_is_one(const char *bytes, size_t len);

/**
 * head_read(bytes, len, fields, head, refusal):
 * Read a whole head (RFC 9112 §2–6) of at most ${fields} fields.  What can be read in two ways is
 * refused: folded lines, white space before a colon, two Hosts, a CR or NUL within a line, lengths
 * that are no plain numbers, differ or meet a transfer coding, any coding but chunked alone.
 * ${head}->out has the request for the destination: its Host from the target, no field that is
 * meant for one hop, one framing, Connection: close.  Return 0, or -1 with ${refusal}
 * egress.request or egress.authority.  Free with head_free.
 */
int head_read(
    const char *bytes, size_t len, size_t fields, struct head *head, struct refusal *refusal);
void head_free(struct head *head);

/**
 * head_answer_read(bytes, len, fields, to_head, answer, refusal):
 * Read the head of an answer, to a HEAD request where ${to_head}, and write it anew without fields
 * that are meant for one hop.  Return 0, or -1 with ${refusal} egress.answer.  Free with
 * head_answer_free.
 */
int head_answer_read(const char *bytes, size_t len, size_t fields, bool to_head,
    struct head_answer *answer, struct refusal *refusal);
void head_answer_free(struct head_answer *answer);

/*
 * Within a tunnel that is looked into (inspect.h) requests follow one another, so they are read as
 * strictly and framed anew.
 */

#define HEAD_PATH_MAX 4096

/**
 * head_within_read(bytes, len, fields, tunnel, head, refusal):
 * As head_read, for a request within the tunnel to ${tunnel}, which it is for where it has no Host:
 * its target is a path, which does not climb ("..", also where percent encoding hides it) since a
 * server could read another path than a rule does.  ${head}->out stays NULL.
 */
int head_within_read(const char *bytes, size_t len, size_t fields, const struct authority *tunnel,
    struct head *head, struct refusal *refusal);

/**
 * head_within_write(bytes, len, fields, head, header, refusal):
 * Write the request that head_within_read has read into ${head}->out, but for the empty line at its
 * end.  Where ${header} is not NULL, no field of that name goes along, since the caller adds it,
 * nor does what would have a secret come back in a form that cannot be recognised: content codings,
 * ranges and extensions are not asked for.
 */
int head_within_write(const char *bytes, size_t len, size_t fields, struct head *head,
    const char *header, struct refusal *refusal);

/**
 * head_field(bytes, len, fields, name, value):
 * Return the length of the first field ${name} of a head, and where it is in ${*value}; or -1.
 */
long head_field(const char *bytes, size_t len, size_t fields, const char *name, const char **value);

/**
 * head_within_answer(bytes, len, fields, head, answer, refusal):
 * Read the head of the answer to ${head} and write it anew, with one framing.  101 is taken where
 * it was asked for.
 */
int head_within_answer(const char *bytes, size_t len, size_t fields, const struct head *head,
    struct head_answer *answer, struct refusal *refusal);

#endif
