/* conn.h: one connection to the lane, from its first byte to the row of its end. */
#ifndef NET_EGRESS_CONN_H
#define NET_EGRESS_CONN_H

#include "engine/store/committer.h"
#include "net/egress/say.h"
#include "net/egress/dial.h"
#include "net/egress/head.h"
#include "net/egress/proxy.h"
#include "net/egress/relay.h"
#include "net/egress/resolve.h"
#include "net/egress/vet.h"

#define CONN_BROKEN_BODY "the chunked body of the request is none"

/* Whose turn it is to end for being slow; each has one bound, so whoever came first is due first.
 */
enum patience { FOR_HEAD, FOR_DIAL, FOR_BYTES, FOR_LINGER, FOR_PERSON, PATIENCES };

enum phase {
	READING, /* a head, or what SOCKS says */
	ASKING,  /* for a row */
	HOLDING, /* until a person answers */
	LOOKING, /* a name up */
	OPENING, /* the row, with addresses */
	DIALLING,
	RELAYING, /* a tunnel, or the exchange of one request */
	LINGERING /* it was refused, and may read why */
};

/* What the row of a connection says; the committer's thread writes it. */
enum flow_state { FLOW_NONE, FLOW_ASKED, FLOW_OPEN, FLOW_OVER };

enum flow_job { JOB_ASK, JOB_OPEN, JOB_REFUSE, JOB_END };

struct conn;

struct conn_list {
	struct conn *first, *last;
};

struct conn_link {
	struct conn *prev, *next;
};

/* A user or Host, while it has connections. */
struct proxy_user {
	struct proxy_who who;
	size_t n;
	struct proxy_user *next;
};

/* What all tunnels share of what inspect_read reads; the committer's thread's. */
struct inspect_rules {
	bool known, within; /* some rule says something of requests */
	int setting;        /* egress.inspect */
};

struct proxy {
	struct proxy_config config;
	struct committer *committer;
	struct classes *classes;
	struct own own;
	struct resolver *resolver;
	struct inspect_rules rules_inside;
	struct inspector *inspector; /* NULL until something is looked into */
	struct refusal no_names;     /* why, where there is no resolver */
	struct relay_pool *pool;
	struct listener *listeners;
	struct proxy_user *users;
	int diag, watch;
	size_t n, most, each, accepts, head, answer_head, fields;
	int64_t patience[PATIENCES], total_ms, stagger_ms;
	struct conn_list waiting[PATIENCES], all;
	uint64_t timer, calm, gathering, ringing;
	struct conn *ends, *last_end; /* whose rows are to be ended, the oldest first */
	int64_t gather_ms;
	char rules[192];             /* what was applied last to what is under way */
	int64_t now;                 /* of the events at hand, on loop_now's clock */
	int64_t report_ms, reported; /* on proxy->now's clock */
	uint64_t answers;            /* that a person gave */
	bool own_pending, own_again, pruning, reporting, ending, woken;
	void (*drained)(void *ctx);
	void *drained_ctx;
};

struct conn {
	struct commit_job job; /* first: the committer gives it back */
	struct proxy *proxy;
	struct proxy_user *user;
	int client, server;
	int told; /* where whoever handed it over hears of its end; -1: nobody */
	enum phase phase;
	enum patience patience;
	enum proxy_speaks speaks;
	struct conn_link in_waiting, in_all;
	struct conn *next_end;
	uint64_t reported;      /* bytes, in its row */
	int64_t since, touched; /* on loop_now's clock */
	bool client_in;         /* there may be something to read */
	bool client_last;       /* the edge of the end was seen */
	bool socks, greeted, closing, busy, half_head;
	bool caught;      /* it wanted to go by itself: nothing but its own bytes is said */
	bool held;        /* no rule says anything, and somebody may */
	bool asked;       /* and was asked */
	uint64_t answers; /* there were so many when it was put to the rules */
	int64_t until;    /* it is held, on loop_now's clock, where ${waits} */
	uint64_t again;   /* a half had its turn */

	char *in; /* what was read of a head, or of an answer's */
	size_t in_len, in_looked;
	size_t informed; /* bytes of heads before the answer's (1xx) */

	struct head head;
	struct head_answer answer;
	const char *surface;
	struct authority to;
	struct address *addresses;
	size_t naddresses;
	struct lookup *lookup;
	struct dial *dial;
	struct half up, down;
	struct chunk *chunk;
	struct inspect *inspect; /* NULL: nobody looks into it */

	/* For the committer's thread, while ${busy}. */
	enum flow_job what;
	enum flow_state flow, flow_after;
	int64_t flow_id;
	char *list; /* of addresses, JSON */
	char dialled[ADDRESS_TEXT_MAX + 1];
	struct refusal *why;  /* of a refusal or failure, malloc'ed */
	struct refusal *left; /* the loop's, while ${busy}; then it is ${why} where that is NULL */
	/* Why it was refused by its row, which a person may read and allow it, malloc'ed; or NULL.
	 */
	struct refusal *waits;
	bool rules_read; /* for what stands below, of its tunnel */
	bool narrowed;   /* some rule that allows it says something of requests */
	bool whole;      /* but its run may reach that whole */
	int setting;     /* egress.inspect */
};

/**
 * conn_new(proxy, fd, speaks, user):
 * Serve ${fd}.  Without memory it is closed.
 */
void conn_new(struct proxy *proxy, int fd, enum proxy_speaks speaks, struct proxy_user *user);

/**
 * conn_catch(conn, to):
 * It goes to ${to} without saying so.
 */
void conn_catch(struct conn *conn, const struct authority *to);

/**
 * conn_ask_again(conn):
 * It was held, and the rules may say something now.
 */
void conn_ask_again(struct conn *conn);

/**
 * conn_refuse(conn, refusal):
 * Say why, on the surface's wire, and end.
 */
void conn_refuse(struct conn *conn, const struct refusal *refusal);

/**
 * conn_answer(conn, refusal, out):
 * Write what is said to a client over HTTP.  Return its length.
 */
#define CONN_ANSWER_MAX SAY_HTTP_MAX
size_t conn_answer(
    const struct conn *conn, const struct refusal *refusal, char out[CONN_ANSWER_MAX]);

/**
 * conn_established(conn):
 * Tell the client that its tunnel stands.
 */
void conn_established(const struct conn *conn);

/**
 * conn_informed(conn, len, refusal):
 * The server sent a head of ${len} bytes that only tells of an answer to come (1xx, RFC 9110
 * §15.2).  Return 0, or -1 with ${refusal} egress.answer where all of them are longer than the
 * setting egress.answer_head.
 */
int conn_informed(struct conn *conn, size_t len, struct refusal *refusal);

/**
 * conn_touch(conn):
 * Something moved: its patience begins anew.
 */
void conn_touch(struct conn *conn);

/**
 * conn_vet(conn, refusal):
 * May its addresses be dialled, as this machine is now?  Return 0, or -1 as vet_addresses.
 */
int conn_vet(struct conn *conn, struct refusal *refusal);

/**
 * conn_dial(conn):
 * Dial the addresses of its row.
 */
void conn_dial(struct conn *conn);

/**
 * conn_expire(conn):
 * Its patience is over, or its time.
 */
void conn_expire(struct conn *conn);

/**
 * conn_end(conn, refusal):
 * Close both sides; the row says how it ended: ${refusal} NULL: well.
 */
void conn_end(struct conn *conn, const struct refusal *refusal);

/**
 * conn_wait(conn, patience):
 * From now on it is given that patience.
 */
void conn_wait(struct conn *conn, enum patience patience);

/**
 * flow_submit(conn, what):
 * Have the row written by the committer; ${conn}->busy until conn_decided is called.
 */
void flow_submit(struct conn *conn, enum flow_job what);

/**
 * conn_decided(conn):
 * The committer is done with it: the row stands, or ${conn}->job says why not.
 */
void conn_decided(struct conn *conn);

/**
 * proxy_look(proxy):
 * Know of every change of this machine's addresses that the kernel has told of.
 */
void proxy_look(struct proxy *proxy);

/**
 * proxy_gather(conn):
 * Keep the job of ${conn} for a while and submit it with others.  Return false where it is to be
 * submitted now.
 */
bool proxy_gather(struct conn *conn);

/**
 * proxy_ends(proxy, most):
 * Submit the ${most} jobs that were kept longest, or all there are.
 */
void proxy_ends(struct proxy *proxy, size_t most);

/**
 * proxy_tell(proxy):
 * Something was committed: other actors hear of it within a tenth of a second.
 */
void proxy_tell(struct proxy *proxy);

/**
 * proxy_gone(conn):
 * The lane forgets ${conn}, which is about to be freed.
 */
void proxy_gone(struct conn *conn);

#endif
