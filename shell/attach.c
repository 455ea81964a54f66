/* attach.c: follow a session's rows, and hand on what is typed. */
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "engine/state/lease.h"
#include "engine/state/session.h"
#include "shell/attach.h"
#include "shell/text.h"

#define LEAVE     0x1d /* Ctrl-] */
#define LEASE_MS  60000
#define WAIT_MS   1000 /* a bell that did not ring costs that much at most */
#define TYPED_MAX 4096
#define ROWS_MAX  64 /* that are read before they are shown */

static const char ROWS[] =
    "SELECT seq, kind, line, lines, data FROM session_output WHERE session_id = :id AND seq > :seq"
    " ORDER BY seq LIMIT :most";
/* By the index on lines, or the table is read from its end, with all that was ever said. */
static const char BEGIN[] =
    "SELECT coalesce((SELECT min(seq) FROM session_output INDEXED BY session_output_by_line"
    "   WHERE session_id = :id AND line = (SELECT max(line) FROM session_output"
    "     INDEXED BY session_output_by_line WHERE session_id = :id AND line <= :from)), 0) - 1,"
    " first_seq - 1 FROM session WHERE id = :id";
static const char OVER[] = "SELECT finished_at IS NOT NULL FROM session WHERE id = :id";

/* The next rows, ${most} at most, and what they say, for the caller to free.  Return how many, or
 * -1. */
static int
rows_read(struct attach *a, struct session_row rows[ROWS_MAX], char *data[ROWS_MAX], int most)
{
	struct stmt *q;
	int n = 0, rc;

	if ((q = store_sql(a->cli->db, ROWS)) == NULL)
		return -1;
	stmt_int(q, ":id", a->id);
	stmt_int(q, ":seq", a->view.seq);
	stmt_int(q, ":most", most);
	while ((rc = stmt_step(q)) == 1) {
		rows[n] = (struct session_row){.seq = stmt_get_int(q, 0),
		    .line = stmt_get_int(q, 2),
		    .lines = stmt_get_int(q, 3),
		    .len = (size_t)sqlite3_column_bytes(stmt_handle(q), 4)};
		snprintf(rows[n].kind, sizeof(rows[n].kind), "%s", stmt_get_text(q, 1));
		if ((data[n] = malloc(rows[n].len + 1)) == NULL) {
			stmt_done(q);
			break;
		}
		if (rows[n].len > 0)
			memcpy(data[n], sqlite3_column_blob(stmt_handle(q), 4), rows[n].len);
		rows[n].data = data[n];
		n++;
	}
	if (rc == 0 || n > 0)
		return n;
	if (rc == 1)
		refusal_set(store_refusal(a->cli->db), "store.failed", "out of memory");
	return -1;
}

/*
 * The rows that are there, ${most} at most.  They are read to the end before a byte is written:
 * while whoever reads us stalls, no statement is open that would keep the database from taking back
 * its log.  Return how many, or -1.
 */
static int
rows_show(struct attach *a, int most)
{
	struct session_row rows[ROWS_MAX];
	char *data[ROWS_MAX];
	int n = rows_read(a, rows, data, most), i, rc = 0;

	for (i = 0; i < n; i++) {
		if (rc == 0 && session_view_row(&a->view, &rows[i]) != 0)
			rc = refusal_errno(
			    store_refusal(a->cli->db), "session.watch", "standard output");
		free(data[i]);
	}
	return rc == 0 ? n : -1;
}

static int
type(struct attach *a, const char *kind, const char *data, size_t len)
{
	struct store *db = a->cli->db;

	if (store_begin_soft(db) != 0)
		return -1;
	return session_send(db, a->id, kind, data, len) == 0 ? store_commit(db)
							     : store_rollback(db);
}

static int
type_size(struct attach *a)
{
	struct winsize size;
	char text[24];
	int n;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
		return 0;
	n = snprintf(text, sizeof(text), "%ux%u", size.ws_col, size.ws_row);
	return type(a, "size", text, (size_t)n);
}

/* What was typed, up to the key that leaves. */
static int
typed(struct attach *a)
{
	char data[TYPED_MAX], *leave;
	ssize_t n = read(STDIN_FILENO, data, sizeof(data));
	int rc;

	if (n <= 0) {
		a->typing = false;
		return 0;
	}
	if ((leave = memchr(data, LEAVE, (size_t)n)) != NULL) {
		a->left = true;
		n = leave - data;
	}
	rc = n == 0 ? 0 : type(a, "data", data, (size_t)n);
	explicit_bzero(data, sizeof(data));
	return rc;
}

/*
 * Ctrl-Z, taken where no statement is open: whoever is stopped in the middle of a look keeps the
 * database from taking back its log for as long as he is.  The system decides whether we stop: who
 * has no shell to continue him does not.
 */
static void
stop_here(void)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
}

static int
signalled(struct attach *a, int fd)
{
	struct signalfd_siginfo si;

	if (read(fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return 0;
	switch (si.ssi_signo) {
	case SIGWINCH:
		return a->typing ? type_size(a) : 0;
	case SIGTSTP:
		stop_here();
		return 0;
	default:
		a->left = true;
		return 0;
	}
}

/* Until something may have happened. */
static int
wait_for(struct attach *a, int signals)
{
	struct pollfd fds[3] = {
	    {.fd = store_bell(a->cli->db), .events = POLLIN},
	    {.fd = signals, .events = POLLIN},
	    {.fd = a->typing ? STDIN_FILENO : -1, .events = POLLIN},
	};

	if (poll(fds, 3, WAIT_MS) == -1 && errno != EINTR)
		return refusal_errno(store_refusal(a->cli->db), "session.watch", "waiting");
	if ((fds[0].revents & POLLIN) != 0)
		store_bell_quiet(a->cli->db);
	if ((fds[1].revents & POLLIN) != 0 && signalled(a, signals) != 0)
		return -1;
	if (fds[2].revents != 0 && typed(a) != 0)
		return -1;
	return 0;
}

static int
follow(struct attach *a, int signals)
{
	struct stmt *q;
	int n, most = 1;
	bool over;

	for (;;) {
		/* Looked at before the rows: then none can come behind them unseen. */
		if ((q = store_sql(a->cli->db, OVER)) == NULL)
			return -1;
		stmt_int(q, ":id", a->id);
		over = stmt_value(q, 1) == 1;
		while ((n = rows_show(a, most)) > 0) /* the first one is waited for */
			most = most < ROWS_MAX ? most * 2 : most;
		if (n == -1)
			return -1;
		if (over || !a->follow || a->left)
			return 0;
		if (wait_for(a, signals) != 0)
			return -1;
	}
}

/* Where the first line is; 0 and before are its beginning. */
static int
find_beginning(struct attach *a)
{
	struct stmt *q;
	int64_t gone;

	if ((q = store_sql(a->cli->db, BEGIN)) == NULL)
		return -1;
	stmt_int(q, ":id", a->id);
	stmt_int(q, ":from", a->view.from);
	if (stmt_step(q) != 1)
		return -1;
	a->view.seq = a->view.from <= 1 ? 0 : stmt_get_int(q, 0);
	gone = stmt_get_int(q, 1);
	stmt_done(q);
	if (a->view.seq < 0 || (a->view.from > 1 && a->view.seq < gone))
		a->view.seq = gone;
	return 0;
}

/* One at a time types.  Return whether it is us. */
static bool
take_keys(struct attach *a, char lease[160], int64_t *fence)
{
	snprintf(lease, 160, "session/%s", a->view.name);
	if (lease_take(a->cli->db, lease, LEASE_MS * 60 * 24, 0, fence) == 0)
		return true;
	session_view_remark(&a->view, "somebody else types to it: you look on", 38);
	return false;
}

int
attach_run(struct attach *a)
{
	struct termios before, raw;
	char lease[160];
	int64_t fence = 0;
	bool keys = false, is_raw = false;
	sigset_t set, old;
	int signals, rc;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, &old);
	if ((signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) == -1)
		return refusal_errno(store_refusal(a->cli->db), "session.watch", "signals");
	a->typing = a->typing && isatty(STDIN_FILENO) && (keys = take_keys(a, lease, &fence));
	if (a->typing && tcgetattr(STDIN_FILENO, &before) == 0) {
		raw = before;
		cfmakeraw(&raw);
		is_raw = a->view.raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
		type_size(a);
	}
	/* Where a daemon has shown its beginning, behind that. */
	rc = a->view.seq == 0 && find_beginning(a) != 0 ? -1 : follow(a, signals);
	if (is_raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	if (keys)
		lease_release(a->cli->db, lease, fence);
	close(signals);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return rc;
}
