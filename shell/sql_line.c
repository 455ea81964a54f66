/* sql_line.c: the conversation: a line editor, a history, statements over several lines. */
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/ioctl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "engine/library.h"
#include "shell/sql_clock.h"
#include "shell/sql_complete.h"

#define REMEMBERED 1000 /* lines of the history */

/* The line editor, which only a conversation needs. */
struct editor {
	typeof(&el_init) el_init;
	typeof(&el_end) el_end;
	typeof(&el_get) el_get;
	typeof(&el_set) el_set;
	typeof(&el_wset) el_wset;
	typeof(&el_gets) el_gets;
	typeof(&el_line) el_line;
	typeof(&el_insertstr) el_insertstr;
	typeof(&el_resize) el_resize;
	typeof(&history) history;
	typeof(&history_init) history_init;
	typeof(&history_end) history_end;
};

static const struct library_symbol editor_symbols[] = {
    {"el_init", offsetof(struct editor, el_init)},
    {"el_end", offsetof(struct editor, el_end)},
    {"el_get", offsetof(struct editor, el_get)},
    {"el_set", offsetof(struct editor, el_set)},
    {"el_wset", offsetof(struct editor, el_wset)},
    {"el_gets", offsetof(struct editor, el_gets)},
    {"el_line", offsetof(struct editor, el_line)},
    {"el_insertstr", offsetof(struct editor, el_insertstr)},
    {"el_resize", offsetof(struct editor, el_resize)},
    {"history", offsetof(struct editor, history)},
    {"history_init", offsetof(struct editor, history_init)},
    {"history_end", offsetof(struct editor, history_end)},
    {NULL, 0},
};

static struct editor edit;

struct talk {
	EditLine *el;
	History *history;
	char file[PATH_MAX]; /* of the history; "" without a place for one */
	char *statement;     /* what was typed so far of it */
	size_t len;
	bool cancelled; /* Ctrl-C at the prompt */
	struct sql *sql;
};

static char *
prompt(EditLine *el)
{
	static char first[] = "bastion> ", inside[] = "bastion*> ", more[] = "    ...> ";
	struct talk *t;

	edit.el_get(el, EL_CLIENTDATA, &t);
	if (t->len > 0)
		return more;
	/* An open transaction sees the past and holds the log: the star says so. */
	return sqlite3_get_autocommit(store_handle(t->sql->db)) ? first : inside;
}

static unsigned char
cancel_line(EditLine *el, int c)
{
	struct talk *t;

	(void)c;
	edit.el_get(el, EL_CLIENTDATA, &t);
	t->cancelled = true;
	return CC_NEWLINE;
}

static bool
is_blank(const char *line, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strchr(" \t\r\n", line[i]) == NULL)
			return false;
	}
	return true;
}

static int
terminal_width(void)
{
	struct winsize w = {0};

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

/* Put in what all words have in common, or else list them. */
static unsigned char
use_completion(EditLine *el, const struct completion *c)
{
	size_t common = completion_common(c), n = strlen(c->word[0]);
	char rest[256];
	bool only = c->count == 1;

	if (!only && common <= c->typed) {
		putchar('\n');
		completion_list(stdout, c, terminal_width());
		fflush(stdout);
		return CC_REDISPLAY;
	}
	snprintf(rest, sizeof(rest), "%.*s%s", (int)(common - c->typed), c->word[0] + c->typed,
	    only && c->word[0][n - 1] != '(' ? " " : "");
	return edit.el_insertstr(el, rest) == 0 ? CC_REFRESH : CC_ERROR;
}

static unsigned char
complete(EditLine *el, int key)
{
	const LineInfo *line = edit.el_line(el);
	struct completion c;
	unsigned char done = CC_ERROR;
	struct talk *t;
	char *text;

	(void)key;
	edit.el_get(el, EL_CLIENTDATA, &t);
	/* Text that is pasted is indented with tabs. */
	if (t->len > 0 && is_blank(line->buffer, (size_t)(line->cursor - line->buffer)))
		return edit.el_insertstr(el, "    ") == 0 ? CC_REFRESH : CC_ERROR;
	if (asprintf(&text, "%s%.*s", t->len > 0 ? t->statement : "",
		(int)(line->cursor - line->buffer), line->buffer) == -1)
		return CC_ERROR;
	sql_complete(t->sql, text, &c);
	if (c.count > 0)
		done = use_completion(el, &c);
	completion_free(&c);
	free(text);
	return done;
}

static void
find_history(struct talk *t)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n = -1;

	if (state != NULL && *state == '/')
		n = snprintf(t->file, sizeof(t->file), "%s/bastion_sql_history", state);
	else if (home != NULL && *home == '/')
		n = snprintf(t->file, sizeof(t->file), "%s/.bastion_sql_history", home);
	if (n < 0 || (size_t)n >= sizeof(t->file))
		t->file[0] = '\0';
}

static int
begin_talk(struct talk *t)
{
	HistEvent event;

	if ((t->el = edit.el_init("bastion", stdin, stdout, stderr)) == NULL)
		return -1;
	if ((t->history = edit.history_init()) == NULL)
		return -1;
	find_history(t);
	edit.history(t->history, &event, H_SETSIZE, REMEMBERED);
	edit.history(t->history, &event, H_SETUNIQUE, 1);
	if (t->file[0] != '\0')
		edit.history(t->history, &event, H_LOAD, t->file);
	edit.el_set(t->el, EL_CLIENTDATA, t);
	edit.el_set(t->el, EL_PROMPT, prompt);
	edit.el_set(t->el, EL_EDITOR, "emacs");
	edit.el_set(t->el, EL_HIST, edit.history, t->history);
	/* At the prompt Ctrl-C is a key like any other; while a query runs it is a signal. */
	edit.el_set(t->el, EL_SETTY, "-d", "-isig", NULL);
	/* Wide, since of narrow names libedit makes copies that it never frees. */
	edit.el_wset(t->el, EL_ADDFN, L"cancel-line", L"Empty the line", cancel_line);
	edit.el_wset(t->el, EL_ADDFN, L"complete", L"Complete the word", complete);
	edit.el_set(t->el, EL_BIND, "^C", "cancel-line", NULL);
	edit.el_set(t->el, EL_BIND, "^I", "complete", NULL);
	edit.el_set(t->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
	return 0;
}

static void
end_talk(struct talk *t)
{
	HistEvent event;

	if (t->history != NULL && t->file[0] != '\0')
		edit.history(t->history, &event, H_SAVE, t->file);
	if (t->history != NULL)
		edit.history_end(t->history);
	if (t->el != NULL)
		edit.el_end(t->el);
	free(t->statement);
}

static void
forget_statement(struct talk *t)
{
	free(t->statement);
	t->statement = NULL;
	t->len = 0;
}

static int
add_line(struct talk *t, const char *line, size_t n)
{
	char *longer;

	if ((longer = realloc(t->statement, t->len + n + 1)) == NULL)
		return -1;
	memcpy(longer + t->len, line, n);
	longer[t->len += n] = '\0';
	t->statement = longer;
	return 0;
}

/* What psql, sqlite3 and every shell take for a farewell or a cry for help. */
static const char *
plain_word(const char *statement)
{
	static const struct {
		const char *word, *dot;
	} plain[] = {{"exit", ".quit"}, {"quit", ".quit"}, {"help", ".help"}};
	size_t i, n = strcspn(statement, " \t\r\n;");

	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (n == strlen(plain[i].word) && strncmp(statement, plain[i].word, n) == 0 &&
		    statement[n + strspn(statement + n, " \t\r\n;")] == '\0')
			return plain[i].dot;
	}
	return NULL;
}

static bool
is_ready(const struct talk *t)
{
	const char *first = sql_start(t->statement);

	if (*first != '\0' && strchr(".\\@", *first) != NULL)
		return true;
	if (*first == '\0' || plain_word(first) != NULL)
		return true;
	return sqlite3_complete(t->statement);
}

/* Run what is complete.  Return 1 after .quit. */
static int
run_statement(struct cli *cli, struct sql *s, struct talk *t)
{
	const char *plain = plain_word(sql_start(t->statement));
	struct sigaction before;
	int rc;

	sql_catch(s, &before);
	rc = sql_run(s, plain == NULL ? t->statement : plain);
	fflush(stdout);
	sql_release(&before);
	if (rc == -1 && s->interrupted)
		putc('\n', stderr); /* behind the terminal's ^C */
	if (rc == -1)
		cli_say(cli);
	forget_statement(t);
	return rc == 1;
}

/* Take one line.  Return 1 when the conversation is over, -1 without memory. */
static int
take_line(struct cli *cli, struct sql *s, struct talk *t, const char *line, size_t n)
{
	HistEvent event;

	if (t->cancelled) {
		t->cancelled = false;
		forget_statement(t);
		puts("^C");
		return 0;
	}
	if (t->len == 0 && is_blank(line, n))
		return 0;
	edit.history(t->history, &event, H_ENTER, line);
	if (add_line(t, line, n) == -1)
		return -1;
	return is_ready(t) ? run_statement(cli, s, t) : 0;
}

/* The terminal is the editor's before the prompt is shown, not a moment later: what follows the
 * prompt is a key. */
static const char *
next_line(struct talk *t, int *n)
{
	edit.el_resize(t->el);
	edit.el_set(t->el, EL_PREP_TERM, 1);
	return edit.el_gets(t->el, n);
}

int
sql_converse(struct cli *cli, struct sql *s)
{
	struct talk t;
	const char *line;
	int n, over = 0;

	memset(&t, 0, sizeof(t));
	t.sql = s;
	if (library_load("libedit.so.2", "libedit2", editor_symbols, &edit, &cli->refusal) == -1)
		return cli_refuse(cli);
	setlocale(LC_CTYPE, "C.UTF-8"); /* for the editor */
	if (begin_talk(&t) == -1) {
		end_talk(&t);
		refusal_set(&cli->refusal, "store.failed", "the terminal cannot be used");
		return cli_refuse(cli);
	}
	/* Between two prompts Ctrl-C has nothing to end; while a query runs, run_statement takes
	 * it. */
	signal(SIGINT, SIG_IGN);
	puts(".help has the commands, .tables the tables; Tab completes, Ctrl-D leaves.");
	while (over == 0 && (line = next_line(&t, &n)) != NULL && (n > 0 || t.cancelled))
		over = take_line(cli, s, &t, line, (size_t)n);
	if (over == 0)
		putchar('\n');
	end_talk(&t);
	if (over != -1)
		return 0;
	refusal_set(&cli->refusal, "store.failed", "out of memory");
	return cli_refuse(cli);
}
