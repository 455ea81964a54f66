/* outbox.h: the copy of the audit in the system log, where nobody who writes the database can edit.
 */
#ifndef ENGINE_STATE_OUTBOX_H
#define ENGINE_STATE_OUTBOX_H

#include <stdbool.h>

#include "engine/store/store.h"

#define OUTBOX_LOG      "/dev/log"
#define OUTBOX_FLUSH_MS 2000 /* what a stopping daemon grants the system log */

enum outbox_result {
	OUTBOX_EMPTY,   /* nothing waits, or the setting audit.syslog is 0 */
	OUTBOX_MORE,    /* a batch went out and more may wait: call again */
	OUTBOX_FULL,    /* the log does not keep up: call again when outbox->fd can be written */
	OUTBOX_REFUSED, /* there is no log, or it turned us away: call again later */
	OUTBOX_FAILED   /* the database failed; its refusal is set */
};

/* The way to a system log.  ${fd} is -1 while there is no connection. */
struct outbox {
	char path[108];
	int fd;
};

/**
 * outbox_init(outbox, path):
 * Ship to the datagram socket ${path} from now on.  Nothing is opened yet.
 */
void outbox_init(struct outbox *outbox, const char *path);

/**
 * outbox_ship(outbox, db):
 * Send one batch of waiting lines (view audit_log_line), oldest first, without ever blocking, and
 * note how far the log accepted them (audit_sink).  A line is one datagram as syslog(3) writes it
 * (RFC 3164): facility auth, severity info, tag "bastion-audit".  The connection is opened here
 * when there is none, and dropped after a failed write.  A line too long for a datagram goes
 * without its body, with its length as "body_bytes".  A crash between the two sends a line twice:
 * tell them apart by "seq".
 */
enum outbox_result outbox_ship(struct outbox *outbox, struct store *db);

/**
 * outbox_flush(outbox, db, ms):
 * Ship until nothing waits, the log is refused, or ${ms} milliseconds have passed.  Return the last
 * result.
 */
enum outbox_result outbox_flush(struct outbox *outbox, struct store *db, int ms);

/**
 * outbox_waiting(db):
 * Return whether a line waits that the setting audit.syslog wants shipped.
 */
bool outbox_waiting(struct store *db);

/**
 * outbox_close(outbox):
 * Drop the connection, if there is one.
 */
void outbox_close(struct outbox *outbox);

#endif
