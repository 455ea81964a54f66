/* sql_watch.c: a query that is shown anew whenever the database changes. */
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "shell/sql_clock.h"
#include "shell/sql_dot.h"
#include "shell/text.h"

#define REST_MS 100 /* between two looks: faster than an eye follows */

/* The cells of a result, row by row. */
struct result {
	char **cells;
	size_t count, size;
	int columns;
};

struct watch {
	struct sql *s;
	const char *sql;
	struct result before, now;
	bool first;  /* there is nothing to compare with */
	bool fresh;  /* this row was not there before */
	size_t same; /* else where it was */
};

static void
result_free(struct result *r)
{
	while (r->count > 0)
		free(r->cells[--r->count]);
	free(r->cells);
	*r = (struct result){0};
}

static void
result_add(struct result *r, const char *s, size_t len)
{
	size_t size = r->size == 0 ? 256 : r->size * 2;
	char **more;

	if (r->count == r->size) {
		if ((more = reallocarray(r->cells, size, sizeof(*more))) == NULL)
			return;
		r->cells = more;
		r->size = size;
	}
	r->cells[r->count++] = strndup(s, len);
}

static bool
equals(const char *cell, const char *s, size_t len)
{
	return cell != NULL && strlen(cell) == len && memcmp(cell, s, len) == 0;
}

/* A row is known again by its first cell. */
static void
find_row(struct watch *w, const char *s, size_t len)
{
	size_t columns = (size_t)w->before.columns, i;

	w->fresh = true;
	for (i = 0; columns > 0 && i + columns <= w->before.count; i += columns) {
		if (!equals(w->before.cells[i], s, len))
			continue;
		w->fresh = false;
		w->same = i;
		return;
	}
}

/* For the table: whether a cell is another than before. */
static bool
is_changed(void *ctx, int column, const char *s, size_t len)
{
	struct watch *w = ctx;

	result_add(&w->now, s, len);
	if (column + 1 > w->now.columns)
		w->now.columns = column + 1;
	if (w->first)
		return false;
	if (column == 0)
		find_row(w, s, len);
	return w->fresh || column >= w->before.columns ||
	       !equals(w->before.cells[w->same + (size_t)column], s, len);
}

/* As many rows as the terminal has room for, on ${out}. */
static int
write_rows(struct watch *w, FILE *out, int height)
{
	struct table_style style;
	sqlite3_stmt *stmt;
	struct table *t;
	int rc = SQLITE_NOMEM, rows = 0;

	if (sql_prepare(w->s, w->sql, NULL, &stmt) == -1)
		return -1;
	sql_style(w->s, &style);
	style.mode = style.mode == CLI_BOX ? CLI_BOX : CLI_TABLE;
	style.mark = is_changed;
	style.mark_ctx = w;
	if ((t = table_begin(out, stmt, &style)) != NULL) {
		while ((rc = sql_step(w->s, stmt)) == SQLITE_ROW && rows++ < height)
			if (table_row(t) == -1)
				break;
		table_end(t);
	}
	if (rc == SQLITE_ROW)
		fputs("… there is more\n", out);
	else if (rows == 0)
		fputs("no rows\n", out);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		sql_failed(w->s, rc, w->sql);
	sqlite3_finalize(stmt);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

/* Each line replaces one that stands there, so that nothing flickers. */
static void
repaint(const char *text, int width)
{
	const char *p = text, *end;
	size_t n = strcspn(text, "\n");

	fputs("\033[H\033[1m", stdout);
	text_clip(stdout, p, n, width);
	fputs("\033[0m\033[K\r\n", stdout);
	for (p += n + (p[n] == '\n'); *p != '\0'; p = end + (*end == '\n')) {
		end = strchrnul(p, '\n');
		printf("%.*s\033[K\r\n", (int)(end - p), p);
	}
	fputs("\033[J", stdout);
	fflush(stdout);
}

/* The head, on one line: the statement may have several. */
static void
write_title(struct watch *w, FILE *out)
{
	char when[TEXT_TIME_MAX];

	text_time(store_now(w->s->db), w->s->times == TIMES_UTC, when);
	fprintf(out, "%s  q leaves  ", when);
	text_show(out, w->sql, strlen(w->sql));
	putc('\n', out);
}

static int
look(struct watch *w)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};
	char *text = NULL;
	size_t len;
	FILE *out;
	int rc;

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	if ((out = open_memstream(&text, &len)) == NULL)
		return refusal_set(w->s->refusal, "store.failed", "out of memory");
	write_title(w, out);
	w->s->spent_us = 0;
	rc = write_rows(w, out, size.ws_row > 8 ? size.ws_row - 7 : 1);
	if (fclose(out) == 0 && rc == 0)
		repaint(text, size.ws_col);
	free(text);
	result_free(&w->before);
	w->before = w->now;
	w->now = (struct result){0};
	w->first = false;
	return rc;
}

static int64_t
steady_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool
leaves(struct watch *w, const struct pollfd *terminal)
{
	char key = 'q';

	if (w->s->interrupted)
		return true;
	if (terminal->revents == 0)
		return false;
	return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 4;
}

/* Wait for a key, a commit, or the time ${until}.  Return 1 to leave, 0 to look again. */
static int
wait_for_change(struct watch *w, int64_t until)
{
	struct pollfd ready[2] = {
	    {.fd = STDIN_FILENO, .events = POLLIN}, {.fd = store_bell(w->s->db), .events = POLLIN}};
	int64_t rest;

	while ((rest = until - steady_ms()) > 0) {
		ready[0].revents = ready[1].revents = 0;
		(void)poll(ready, 2, (int)rest); /* a signal, too, is a reason to look round */
		if (leaves(w, &ready[0]))
			return 1;
		if (ready[1].revents == 0)
			continue;
		store_bell_quiet(w->s->db);
		return 0;
	}
	return 0;
}

static struct termios as_it_was; /* the terminal, while someone watches */

static const int ends[] = {SIGHUP, SIGQUIT, SIGTERM};

#define ENDS (sizeof(ends) / sizeof(ends[0]))

/* For handlers of signals as well. */
static void
terminal_give(void)
{
	static const char leave[] = "\033[?25h\033[?1049l";

	(void)!write(STDOUT_FILENO, leave, sizeof(leave) - 1);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &as_it_was);
}

static void
end_watching(int sig)
{
	terminal_give();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void
terminal_take(void)
{
	struct termios raw;

	fflush(stdout);
	tcgetattr(STDIN_FILENO, &as_it_was);
	raw = as_it_was;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
	fputs("\033[?1049h\033[?25l", stdout); /* another screen, without a cursor */
}

/* Time alone changes some answers: what ran out is gone without a commit.  So a tick looks too. */
static int
watch(struct watch *w)
{
	int64_t tick = store_setting(w->s->db, "store.tick_ms");
	int rc;

	while ((rc = look(w)) == 0) {
		(void)poll(NULL, 0, REST_MS);
		if (wait_for_change(w, steady_ms() + tick) == 1)
			return 0;
	}
	return w->s->interrupted ? 0 : rc;
}

/* One query, and one that shows something. */
static int
can_watch(struct sql *s, const char *sql)
{
	sqlite3_stmt *stmt;
	const char *tail;
	bool shows;

	if (sql_prepare(s, sql, &tail, &stmt) == -1)
		return -1;
	shows = stmt != NULL && sqlite3_column_count(stmt) > 0 && *sql_start(tail) == '\0';
	sqlite3_finalize(stmt);
	return shows ? 0 : refusal_set(s->refusal, "sql.error", "one query can be watched");
}

/* The terminal is ours meanwhile, and is given back whatever ends it. */
static int
watch_terminal(struct watch *w)
{
	struct sigaction interrupt;
	void (*before[ENDS])(int);
	size_t i;
	int rc;

	terminal_take();
	for (i = 0; i < ENDS; i++)
		before[i] = signal(ends[i], end_watching);
	w->s->leaving = terminal_give;
	sql_catch(w->s, &interrupt);
	rc = watch(w);
	sql_release(&interrupt);
	w->s->leaving = NULL;
	for (i = 0; i < ENDS; i++)
		signal(ends[i], before[i]);
	fflush(stdout);
	terminal_give();
	w->s->interrupted = 0;
	return rc;
}

int
dot_watch(struct sql *s, const struct dot_line *line)
{
	struct watch w = {.s = s, .first = true};
	char *sql;
	int rc;

	if ((w.sql = dot_statement(s, line)) == NULL || can_watch(s, w.sql) == -1)
		return -1;
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return refusal_set(s->refusal, "sql.error", "a person watches, on a terminal");
	if (store_bell(s->db) == -1)
		return refusal_errno(s->refusal, "store.failed", "bastion.bell");
	if ((w.sql = sql = strdup(sql_start(w.sql))) == NULL)
		return refusal_set(s->refusal, "store.failed", "out of memory");
	rc = watch_terminal(&w);
	result_free(&w.before);
	result_free(&w.now);
	free(sql);
	return rc;
}
