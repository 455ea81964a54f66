/* outbox.c: from the view audit_outbox to the system log's socket. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/clock.h"
#include "engine/state/outbox.h"

static const char OUTBOX_LINES[] = "SELECT seq, line FROM audit_log_line ORDER BY seq LIMIT :rows";

/* The same line for one row, without its body. */
static const char OUTBOX_SHORT[] =
    "SELECT json_object('audit', a.stream, 'pairing', a.pairing, 'seq', a.seq, 'at', a.at,"
    "                   'who', a.who, 'entity', a.entity, 'id', a.entity_id, 'action', a.action,"
    "                   'body_bytes', length(CAST(a.body AS BLOB)),"
    "                   'system_log_dropped', o.dropped_before)"
    "  FROM audit AS a JOIN audit_outbox AS o ON o.seq = a.seq WHERE a.seq = :seq";

static const char OUTBOX_SHIPPED[] = "UPDATE audit_sink SET sent = :seq WHERE name = 'system-log'";

static const char OUTBOX_WAITS[] = "SELECT EXISTS (SELECT 1 FROM audit_outbox)"
				   "   AND (SELECT value FROM setting WHERE name = 'audit.syslog')";

enum {
	OUTBOX_PRIORITY = 38, /* facility auth (4), severity info (6) */
	OUTBOX_BATCH = 256    /* rows between two looks at the rest of the world */
};

void
outbox_init(struct outbox *outbox, const char *path)
{
	memset(outbox, 0, sizeof(*outbox));
	snprintf(outbox->path, sizeof(outbox->path), "%s", path);
	outbox->fd = -1;
}

void
outbox_close(struct outbox *outbox)
{
	if (outbox->fd != -1)
		close(outbox->fd);
	outbox->fd = -1;
}

bool
outbox_waiting(struct store *db)
{
	return stmt_value(store_sql(db, OUTBOX_WAITS), 0) == 1;
}

static int
outbox_connect(struct outbox *outbox)
{
	struct sockaddr_un to;

	if (outbox->fd != -1)
		return 0;
	memset(&to, 0, sizeof(to));
	to.sun_family = AF_UNIX;
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", outbox->path);
	outbox->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (outbox->fd == -1)
		return -1;
	if (connect(outbox->fd, (const struct sockaddr *)&to, sizeof(to)) == -1) {
		outbox_close(outbox);
		return -1;
	}
	return 0;
}

/* "<38>Nov  9 07:05:03 bastion-audit: ", in local time and English whatever the locale is. */
static size_t
outbox_head(char *head, size_t size)
{
	static const char months[12][4] = {
	    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	struct tm tm;
	time_t now;

	now = (time_t)(clock_now() / 1000);
	if (localtime_r(&now, &tm) == NULL)
		memset(&tm, 0, sizeof(tm));
	return (size_t)snprintf(head, size,
	    "<%d>%s %2d %02d:%02d:%02d bastion-audit: ", OUTBOX_PRIORITY, months[tm.tm_mon],
	    tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* Return OUTBOX_MORE for an accepted line; EMSGSIZE is left to the caller, in errno. */
static enum outbox_result
outbox_send(struct outbox *outbox, const char *line)
{
	char head[64], *datagram;
	size_t len;
	ssize_t sent;

	len = outbox_head(head, sizeof(head)) + strlen(line);
	if (asprintf(&datagram, "%s%s", head, line) == -1) {
		errno = ENOMEM;
		return OUTBOX_REFUSED;
	}
	do
		sent = send(outbox->fd, datagram, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent == -1 && errno == EINTR);
	free(datagram);
	if (sent != -1)
		return OUTBOX_MORE;
	return errno == EAGAIN || errno == EWOULDBLOCK ? OUTBOX_FULL : OUTBOX_REFUSED;
}

static enum outbox_result
outbox_send_short(struct outbox *outbox, struct store *db, int64_t seq)
{
	enum outbox_result result;
	struct stmt *q;

	if ((q = store_sql(db, OUTBOX_SHORT)) == NULL)
		return OUTBOX_FAILED;
	stmt_int(q, ":seq", seq);
	if (stmt_step(q) != 1)
		return OUTBOX_FAILED;
	result = outbox_send(outbox, stmt_get_text(q, 0));
	stmt_done(q);
	return result;
}

/* Send what ${q} gives; ${*last} becomes the number of the last row that was accepted. */
static enum outbox_result
outbox_send_all(struct outbox *outbox, struct store *db, struct stmt *q, int64_t *last)
{
	enum outbox_result result;
	int64_t seq;
	int rows, rc;

	for (rows = 0; (rc = stmt_step(q)) == 1; rows++) {
		seq = stmt_get_int(q, 0);
		result = outbox_send(outbox, stmt_get_text(q, 1));
		if (result == OUTBOX_REFUSED && errno == EMSGSIZE)
			result = outbox_send_short(outbox, db, seq);
		if (result != OUTBOX_MORE) {
			stmt_done(q);
			return result;
		}
		*last = seq;
	}
	if (rc == -1)
		return OUTBOX_FAILED;
	return rows == OUTBOX_BATCH ? OUTBOX_MORE : OUTBOX_EMPTY;
}

static int
outbox_shipped(struct store *db, int64_t last)
{
	struct stmt *q;

	if (store_begin_soft(db) == -1)
		return -1;
	if ((q = store_sql(db, OUTBOX_SHIPPED)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":seq", last);
	if (stmt_run(q) == -1)
		return store_rollback(db);
	return store_commit(db);
}

enum outbox_result
outbox_ship(struct outbox *outbox, struct store *db)
{
	enum outbox_result result;
	struct stmt *q;
	int64_t last;

	if (!outbox_waiting(db))
		return OUTBOX_EMPTY;
	if (outbox_connect(outbox) == -1)
		return OUTBOX_REFUSED;
	if ((q = store_sql(db, OUTBOX_LINES)) == NULL)
		return OUTBOX_FAILED;
	stmt_int(q, ":rows", OUTBOX_BATCH);
	last = 0;
	result = outbox_send_all(outbox, db, q, &last);
	if (result == OUTBOX_REFUSED)
		outbox_close(outbox);
	if (last > 0 && outbox_shipped(db, last) == -1)
		return OUTBOX_FAILED;
	return result;
}

enum outbox_result
outbox_flush(struct outbox *outbox, struct store *db, int ms)
{
	enum outbox_result result;
	struct pollfd log;
	int64_t end, left;

	end = loop_now() + ms;
	for (;;) {
		result = outbox_ship(outbox, db);
		left = end - loop_now();
		if ((result != OUTBOX_MORE && result != OUTBOX_FULL) || left <= 0)
			return result;
		log.fd = outbox->fd;
		log.events = POLLOUT;
		if (result == OUTBOX_FULL && poll(&log, 1, (int)left) == 0)
			return result;
	}
}
