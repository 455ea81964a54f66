/* cli.c: open, close, options, refusals: what every verb does the same way. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <termios.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/state/birth.h"
#include "engine/state/person.h"
#include "engine/store/embed.h"
#include "shell/cli.h"
#include "shell/table.h"
#include "shell/text.h"
#include "shell/verb.h"

static const char DURATION[] = "it takes 30s, 10m, 2h or 3d";
static const char REFUSAL[] = "SELECT exit_code, advice FROM refusal WHERE code = ?1";

int
cli_person(struct cli *cli, struct store_keys *keys, char acting[CLI_ACTING_MAX])
{
	char path[PATH_MAX], name[PERSON_NAME_MAX + 1];
	struct refusal ignored;

	if (home_open(&cli->home, cli->role, false, &cli->refusal) == -1)
		return -1;
	home_path(&cli->home, "bastion.key", path);
	if ((cli->key = key_load(path, &cli->refusal)) == NULL)
		return -1;
	key_public(cli->key, KEY_IDENTITY, keys->identity);
	key_public(cli->key, KEY_GRANT, keys->grant);
	keys->secret = cli->key;
	keys->present = true;
	/* A directory that hangs costs the name, not the verb. */
	person_name(getuid(), name, &ignored);
	snprintf(acting, CLI_ACTING_MAX, "person:%s(%u)", name, (unsigned)getuid());
	return 0;
}

int
cli_database(struct cli *cli)
{
	if (birth_began(&cli->home))
		return 0;
	return refusal_set(
	    &cli->refusal, "store.missing", "there is no database in %s", cli->home.state);
}

/* A key is only missed where there is a database. */
static int
no_person(struct cli *cli)
{
	if (strcmp(cli->refusal.code, "key.missing") == 0)
		(void)cli_database(cli);
	return -1;
}

int
cli_open(struct cli *cli, enum store_role role)
{
	struct store_keys keys = {.secret = NULL};
	bool person = role == ROLE_PERSON;
	char acting[CLI_ACTING_MAX];

	if (person && cli_person(cli, &keys, acting) == -1)
		return no_person(cli);
	if (!person && home_open(&cli->home, cli->role, false, &cli->refusal) == -1)
		return -1;
	cli->db = store_open(&cli->home, role, person ? &keys : NULL, &cli->refusal);
	if (cli->db == NULL)
		return -1;
	if (person)
		store_acting(cli->db, "%s", acting);
	return 0;
}

void
cli_close(struct cli *cli)
{
	store_close(cli->db);
	cli->db = NULL;
	key_free(cli->key);
	cli->key = NULL;
	home_close(&cli->home);
	cli->home.fd = -1;
}

/* Take exit code and advice from the connection's table of refusals. */
static bool
look_up(sqlite3 *handle, const char *code, int *exit_code, char advice[REFUSAL_WHY_MAX])
{
	sqlite3_stmt *q;
	bool found;

	if (sqlite3_prepare_v2(handle, REFUSAL, -1, &q, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_text(q, 1, code, -1, SQLITE_STATIC);
	if ((found = sqlite3_step(q) == SQLITE_ROW)) {
		*exit_code = sqlite3_column_int(q, 0);
		snprintf(advice, REFUSAL_WHY_MAX, "%s", (const char *)sqlite3_column_text(q, 1));
	}
	sqlite3_finalize(q);
	return found;
}

/* Without a store: the rows that every database is born with. */
static bool
look_up_embedded(const char *code, int *exit_code, char advice[REFUSAL_WHY_MAX])
{
	const struct embedded *e;
	sqlite3 *handle = NULL;
	bool found = false;

	if (sqlite3_open(":memory:", &handle) != SQLITE_OK)
		goto done;
	for (e = embedded_schema; e->name != NULL; e++) {
		if ((strcmp(e->name, "base") == 0 || strcmp(e->name, "rows_refusal") == 0) &&
		    sqlite3_exec(handle, e->text, NULL, NULL, NULL) != SQLITE_OK)
			goto done;
	}
	found = look_up(handle, code, exit_code, advice);

done:
	sqlite3_close(handle);
	return found;
}

static void
refuse_json(const struct refusal *r, const char *advice)
{
	char when[TEXT_TIME_MAX];

	fputs("{\"error\":{\"code\":", stderr);
	text_json(stderr, r->code, strlen(r->code));
	fputs(",\"why\":", stderr);
	text_json(stderr, r->why, strlen(r->why));
	fputs(",\"advice\":", stderr);
	text_json(stderr, advice, strlen(advice));
	fputs(",\"retry_at\":", stderr);
	text_time(r->retry_at, true, when);
	if (r->retry_at > 0)
		text_json(stderr, when, strlen(when));
	else
		fputs("null", stderr);
	fputs("}}\n", stderr);
}

static void
refuse_person(const char *verb, const struct refusal *r, const char *advice)
{
	char when[TEXT_TIME_MAX];

	fprintf(stderr, "bastion: %s: ", verb);
	text_show(stderr, r->why, strlen(r->why));
	text_time(r->retry_at, false, when);
	if (r->retry_at > 0)
		fprintf(stderr, " (again at %s)", when);
	fputs(" [", stderr);
	text_show(stderr, r->code, strlen(r->code));
	fputs("]\n", stderr);
	if (*advice == '\0')
		return;
	fputs("         ", stderr);
	text_show(stderr, advice, strlen(advice));
	putc('\n', stderr);
}

static void
say(struct cli *cli, const char *advice)
{
	fflush(stdout);
	if (cli->mode == CLI_JSON || cli->mode == CLI_JSONL)
		refuse_json(&cli->refusal, advice);
	else
		refuse_person(cli->verb, &cli->refusal, advice);
	cli->refusal.code[0] = '\0';
}

int
cli_advice(struct cli *cli, const char *code, char advice[REFUSAL_WHY_MAX])
{
	int exit_code = 1;

	advice[0] = '\0';
	if (cli->db == NULL || !look_up(store_handle(cli->db), code, &exit_code, advice))
		look_up_embedded(code, &exit_code, advice);
	return exit_code;
}

int
cli_say(struct cli *cli)
{
	struct refusal *r = &cli->refusal;
	char advice[REFUSAL_WHY_MAX];
	int exit_code;

	if (r->code[0] == '\0' && cli->db != NULL)
		*r = *store_refusal(cli->db);
	if (r->code[0] == '\0')
		refusal_set(r, "store.failed", "it failed without a reason");
	exit_code = cli_advice(cli, r->code, advice);
	if (strcmp(r->code, "usage.wrong") == 0)
		snprintf(advice, sizeof(advice), "see bastion help %s", cli->verb);
	say(cli, advice);
	return exit_code;
}

const char *
cli_home(void)
{
	const struct passwd *pw = getpwuid(geteuid());

	return pw != NULL && pw->pw_dir[0] == '/' ? pw->pw_dir : getenv("HOME");
}

int
cli_refuse_as(struct cli *cli, int exit_code, const char *advice)
{
	say(cli, advice);
	cli_close(cli);
	return exit_code;
}

int
cli_refuse(struct cli *cli)
{
	int exit_code = cli_say(cli);

	cli_close(cli);
	return exit_code;
}

int
cli_usage(struct cli *cli, const char *fmt, ...)
{
	const struct verb *v = verb_named(cli->verb);
	char why[REFUSAL_WHY_MAX], advice[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	refusal_set(&cli->refusal, "usage.wrong", "%s", why);
	fflush(stdout);
	if (cli->mode == CLI_JSON || cli->mode == CLI_JSONL) {
		snprintf(advice, sizeof(advice), "see bastion help %s", v != NULL ? v->name : "");
		refuse_json(&cli->refusal, advice);
	} else {
		refuse_person(cli->verb, &cli->refusal, "");
		if (v != NULL)
			verb_usage(v, stderr);
	}
	cli_close(cli);
	return 2;
}

int
cli_unexpected(struct cli *cli, const char *word)
{
	const struct verb *v = verb_named(cli->verb);
	char takes[VERB_TAKES_MAX], near[NEAR_MAX] = "";

	if (v != NULL && verb_takes(v, word, takes))
		return cli_usage(
		    cli, "%s takes %s", word, *takes == '\0' ? "no further word" : takes);
	if (v != NULL)
		verb_near(v, word, near);
	return cli_usage(cli, "unexpected word: %s%s", word, near);
}

static const char *wrong; /* why the option that was read last does not take its value */

int
cli_wrong(const char *why)
{
	wrong = why;
	return -1;
}

/* The options that every verb has.  Return whether this was one. */
static bool
common_option(struct cli *cli, const char *name)
{
	if (strcmp(name, "json") == 0)
		cli->mode = CLI_JSON;
	else if (strcmp(name, "csv") == 0)
		cli->mode = CLI_CSV;
	else if (strcmp(name, "box") == 0)
		cli->mode = CLI_BOX;
	else
		return false;
	return true;
}

static const struct option *
long_option(const struct option *all, const char *name, size_t len)
{
	for (; all != NULL && all->name != NULL; all++) {
		if (strlen(all->name) == len && strncmp(all->name, name, len) == 0)
			return all;
	}
	return NULL;
}

static const struct option *
short_option(const struct option *all, char c)
{
	for (; all != NULL && all->name != NULL; all++) {
		if (all->val == c)
			return all;
	}
	return NULL;
}

static bool
asks_for_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* What is an option of the verb, or ends them, is no value: one was forgotten before it. */
static bool
is_option(const struct option *all, const char *word)
{
	struct cli ignored = {.mode = CLI_TABLE};

	if (word[0] != '-' || word[1] == '\0')
		return false;
	if (word[1] != '-')
		return asks_for_help(word) ||
		       (word[2] == '\0' && short_option(all, word[1]) != NULL);
	return word[2] == '\0' || asks_for_help(word) || common_option(&ignored, word + 2) ||
	       long_option(all, word + 2, strcspn(word + 2, "=")) != NULL;
}

/* Say that ${option}, as it was typed, does not take ${value}, and what it does take. */
static int
refuse_value(struct cli *cli, const struct option *o, const char *option, const char *value)
{
	const struct verb *v = verb_named(cli->verb);
	char takes[VERB_TAKES_MAX] = "", name[64];

	snprintf(name, sizeof(name), "--%s", o->name);
	if (wrong == NULL && v != NULL)
		verb_value(v, name, takes);
	snprintf(name, sizeof(name), "-%c", o->val < 0x80 ? o->val : '-');
	if (wrong == NULL && v != NULL && *takes == '\0')
		verb_value(v, name, takes);
	if (wrong != NULL)
		cli_usage(cli, "%s does not take \"%s\": %s", option, value, wrong);
	else if (*takes != '\0')
		cli_usage(cli, "%s does not take \"%s\": it takes %s", option, value, takes);
	else
		cli_usage(cli, "%s does not take \"%s\"", option, value);
	return -1;
}

/*
 * Take the option at argv[i], with its value from the same word or the next one, and blank what it
 * took.  Names are never guessed from their beginnings: "--a" for "--all" could mean harm.  Return
 * 0, or -1 after a message.
 */
static int
take_option(struct cli *cli, int argc, char **argv, int i, const struct option *all,
    int (*fn)(void *ctx, int val, const char *arg), void *ctx)
{
	const char *word = argv[i], *value = NULL;
	const struct option *o;
	bool is_long = word[1] == '-';
	char typed[64];

	argv[i] = NULL;
	if (is_long) {
		value = strchr(word, '=');
		if (value == NULL && common_option(cli, word + 2))
			return 0;
		o = long_option(
		    all, word + 2, value == NULL ? strlen(word + 2) : (size_t)(value - word - 2));
		value = value == NULL ? NULL : value + 1;
	} else {
		o = short_option(all, word[1]);
		value = word[2] == '\0' ? NULL : word + 2;
	}
	if (o == NULL)
		return cli_usage(cli, "there is no option %s", word), -1;
	snprintf(typed, sizeof(typed), "%.*s", is_long ? (int)strcspn(word, "=") : 2, word);
	if (o->has_arg == no_argument && value != NULL)
		return cli_usage(cli, "%s takes no value", typed), -1;
	if (o->has_arg == required_argument && value == NULL) {
		if (i + 1 >= argc || is_option(all, argv[i + 1]))
			return cli_usage(cli, "%s needs a value", typed), -1;
		value = argv[i + 1];
		argv[i + 1] = NULL;
	}
	wrong = NULL;
	if (o->val == CLI_HOST)
		cli->role = HOME_HOST;
	else if (fn(ctx, o->val, value) != 0)
		return refuse_value(cli, o, typed, value == NULL ? "" : value);
	return 0;
}

static int
give_help(const struct cli *cli)
{
	const struct verb *v = verb_named(cli->verb);

	if (v != NULL)
		fputs(v->help, stdout);
	return -2;
}

int
cli_options(struct cli *cli, int argc, char **argv, const struct option *longopts,
    int (*fn)(void *ctx, int val, const char *arg), void *ctx)
{
	int i, first = argc;

	for (i = 1; i < argc; i++) {
		if (argv[i] == NULL || argv[i][0] != '-' || argv[i][1] == '\0')
			continue;
		if (asks_for_help(argv[i]))
			return give_help(cli);
		if (strcmp(argv[i], "--") == 0) {
			argv[i] = NULL;
			break;
		}
		if (take_option(cli, argc, argv, i, longopts, fn, ctx) == -1)
			return -1;
	}
	for (i = argc - 1; i > 0; i--) {
		if (argv[i] != NULL)
			argv[--first] = argv[i];
	}
	return first;
}

int
cli_show(struct cli *cli, struct stmt *q)
{
	struct table_style style;
	struct table *t;
	int64_t rows;
	int n;

	if (q == NULL)
		return -1;
	table_list(cli->mode, &style);
	if ((t = table_begin(stdout, stmt_handle(q), &style)) == NULL) {
		stmt_done(q);
		return refusal_set(store_refusal(cli->db), "store.failed", "out of memory");
	}
	while ((n = stmt_step(q)) == 1) {
		if (table_row(t) == 0)
			continue;
		stmt_done(q);
		n = refusal_set(store_refusal(cli->db), "store.failed", "out of memory");
		break;
	}
	if (n == -1) {
		table_drop(t);
		return -1;
	}
	rows = table_end(t);
	return rows > INT_MAX ? INT_MAX : (int)rows;
}

int
cli_list(struct cli *cli, struct stmt *q, const char *none)
{
	int rows;

	if ((rows = cli_show(cli, q)) == -1)
		return cli_refuse(cli);
	if (rows == 0 && cli->mode == CLI_TABLE)
		puts(none);
	return 0;
}

int
cli_list_of(struct cli *cli, const char *sql, const char *none)
{
	return cli_open(cli, ROLE_READER) != 0 ? cli_refuse(cli)
					       : cli_list(cli, store_sql(cli->db, sql), none);
}

int
cli_list_all(struct cli *cli, const char *sql, bool all, const char *none)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, sql)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":all", all);
	return cli_list(cli, q, none);
}

/* A line, byte by byte: what follows it is for whoever reads standard input next. */
static ssize_t
read_line(int fd, char *out, size_t size)
{
	size_t len = 0;
	ssize_t n;
	char c;

	while ((n = read(fd, &c, 1)) == 1 && c != '\n') {
		if (len + 1 >= size || c == '\0')
			return -1;
		out[len++] = c;
	}
	if (n == -1 || (n == 0 && len == 0))
		return -1;
	if (len > 0 && out[len - 1] == '\r')
		len--;
	out[len] = '\0';
	return (ssize_t)len;
}

static volatile sig_atomic_t caught;

static void
catch_signal(int sig)
{
	caught = sig;
}

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

#define ENDS (sizeof(ends) / sizeof(ends[0]))

/* Read without echo; the terminal is given back as it was, whatever ends the reading. */
static ssize_t
read_hidden(int tty, const char *prompt, char *out, size_t size)
{
	struct sigaction catching = {.sa_handler = catch_signal}, before[ENDS];
	struct termios shown, hidden;
	ssize_t len;
	size_t i;

	if (tcgetattr(tty, &shown) == -1)
		return -1;
	caught = 0;
	sigemptyset(&catching.sa_mask);
	for (i = 0; i < ENDS; i++)
		sigaction(ends[i], &catching, &before[i]);
	hidden = shown;
	hidden.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
	tcsetattr(tty, TCSAFLUSH, &hidden);
	dprintf(tty, "%s", prompt);
	len = read_line(tty, out, size);
	dprintf(tty, "\n");
	tcsetattr(tty, TCSAFLUSH, &shown);
	for (i = 0; i < ENDS; i++)
		sigaction(ends[i], &before[i], NULL);
	if (caught != 0)
		raise(caught);
	return caught != 0 ? -1 : len;
}

int
cli_secret(const char *prompt, char *out, size_t size)
{
	ssize_t len;
	int tty;

	if (size == 0 || size > INT_MAX)
		return -1;
	if (!isatty(STDIN_FILENO)) {
		len = read_line(STDIN_FILENO, out, size);
	} else if ((tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) != -1) {
		fflush(stdout);
		len = read_hidden(tty, prompt, out, size);
		close(tty);
	} else {
		len = -1;
	}
	if (len == -1)
		sodium_memzero(out, size);
	return (int)len;
}

int
cli_duration(const char *text, int64_t *ms)
{
	int64_t unit = 1000, value;
	const char *p = text;

	for (value = 0; *p >= '0' && *p <= '9'; p++) {
		if (value > INT64_MAX / 10 - 1)
			return cli_wrong(DURATION);
		value = value * 10 + (*p - '0');
	}
	if (p == text)
		return cli_wrong(DURATION);
	switch (*p) {
	case 'd':
		unit *= 24;
		/* FALLTHROUGH */
	case 'h':
		unit *= 60;
		/* FALLTHROUGH */
	case 'm':
		unit *= 60;
		/* FALLTHROUGH */
	case 's':
		p++;
		break;
	default:
		break;
	}
	if (*p != '\0' || value > INT64_MAX / unit)
		return cli_wrong(DURATION);
	*ms = value * unit;
	return 0;
}
