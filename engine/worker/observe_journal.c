/* observe_journal.c: what a systemd unit, or the kernel, logged lately. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/worker/answer.h"
#include "engine/worker/lines.h"
#include "engine/worker/observe.h"
#include "engine/worker/tool.h"

#define UNIT_MAX        255
#define MINUTES_MAX     60
#define MINUTES_DEFAULT 15
#define KERNEL_MAX      1440
#define NEAR_MAX        5

static const char *const UNIT_TABLE =
    "CREATE TABLE unit (name TEXT PRIMARY KEY, distance INTEGER) WITHOUT ROWID";
static const char *const UNIT_ADD = "INSERT OR IGNORE INTO unit VALUES (?1, ?2)";
static const char *const UNIT_UNKNOWN =
    "SELECT json_object('refused', json_object('code', 'observe.unit_unknown',"
    " 'why', 'no unit of this name is loaded or installed here'), 'near',"
    " (SELECT json_group_array(name) FROM (SELECT name FROM unit WHERE distance <= ?1"
    "  ORDER BY distance, name LIMIT ?2)))";
static const char *const UNREADABLE =
    "SELECT json_object('unit', ?1, 'minutes', ?2, 'lines', -1, 'bytes', -1, 'unreadable', ?3)";
static const char *const RESULT =
    "SELECT json_object('unit', ?1, 'minutes', ?2, 'lines', ?3, 'bytes', ?4,"
    " 'cut', json(iif(?5, 'true', 'false')))";

static const char *const suffixes[] = {
    ".service",
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".slice",
    ".scope",
};

/* The newest output: at most ${keep} bytes of it are wanted. */
struct tail {
	char *buf;
	size_t used;
	size_t keep;
	int cut;
};

/* Units as a tool lists them, while looking for one. */
struct lookup {
	struct answer *out;
	const char *wanted;
	char stem[UNIT_MAX + 1]; /* without its type */
	const char *template;    /* foo@.service for foo@bar.service, or "" */
	int found;
	int failed;
};

static int
has_suffix(const char *name)
{
	size_t i, len = strlen(name), slen;

	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		slen = strlen(suffixes[i]);
		if (len > slen && strcmp(name + len - slen, suffixes[i]) == 0)
			return 1;
	}
	return 0;
}

/* systemd.unit(5): letters, digits and ":-_.\" and one "@" between a template and its instance. */
static int
is_unit(const char *name)
{
	const char *at = strchr(name, '@');
	size_t i;

	if (strlen(name) > UNIT_MAX || name[0] == '-' || name[0] == '.' || name[0] == '@')
		return 0;
	for (i = 0; name[i] != '\0'; i++) {
		if (!isascii((unsigned char)name[i]) ||
		    (!isalnum((unsigned char)name[i]) && strchr(":-_.\\@", name[i]) == NULL))
			return 0;
	}
	/* A template alone has no log: there must be an instance. */
	return at == NULL || (strchr(at + 1, '@') == NULL && at[1] != '.');
}

static int
check(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	int64_t minutes = MINUTES_DEFAULT;

	if (strlen(args[0]) > UNIT_MAX)
		return refusal_set(
		    refusal, "observe.unit", "a unit's name has at most %d characters", UNIT_MAX);
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s%s", args[0],
	    has_suffix(args[0]) ? "" : ".service");
	if (!is_unit(canon->v[0]))
		return refusal_set(refusal, "observe.unit",
		    "a unit's name is at most %d letters, digits and :-_.\\ with at most one @ before "
		    "an instance, and begins with none of - . @",
		    UNIT_MAX);
	if (nargs == 2 && observe_number(args[1], 1, MINUTES_MAX, "observe.minutes", "the time",
			      &minutes, refusal) == -1)
		return -1;
	snprintf(canon->v[1], sizeof(canon->v[1]), "%lld", (long long)minutes);
	canon->n = 2;
	return 0;
}

/* Edits that turn ${a} into ${b} (Levenshtein); both are at most UNIT_MAX long. */
static int
distance(const char *a, const char *b)
{
	int row[UNIT_MAX + 1], diagonal, above, i, j, lb = (int)strlen(b);

	for (j = 0; j <= lb; j++)
		row[j] = j;
	for (i = 1; a[i - 1] != '\0'; i++) {
		diagonal = row[0];
		row[0] = i;
		for (j = 1; j <= lb; j++) {
			above = row[j];
			row[j] = diagonal + (a[i - 1] != b[j - 1]);
			if (above + 1 < row[j])
				row[j] = above + 1;
			if (row[j - 1] + 1 < row[j])
				row[j] = row[j - 1] + 1;
			diagonal = above;
		}
	}
	return row[lb];
}

/* One line of systemctl: the unit is its first word. */
static int
take_unit(void *ctx, const char *line, size_t len)
{
	struct lookup *l = ctx;
	char name[UNIT_MAX + 1];
	size_t n = 0;

	while (n < len && line[n] != ' ' && line[n] != '\0')
		n++;
	if (n == 0 || n > UNIT_MAX)
		return 0;
	memcpy(name, line, n);
	name[n] = '\0';
	if (!has_suffix(name))
		return 0;
	if (strcmp(name, l->wanted) == 0 || strcmp(name, l->template) == 0)
		l->found = 1;
	/* A part of the right name is as near as one slip. */
	if (answer_rows(l->out, UNIT_ADD, "ti", name,
		(int64_t)(strstr(name, l->stem) != NULL ? 1 : distance(l->wanted, name))) == -1)
		l->failed = 1;
	return l->found;
}

/* Return 1 if the unit is loaded or installed, 0 if not, -1 with ${why} if nobody can say. */
static int
known(struct lookup *l, const struct observe_limits *limits, const struct observe_env *env,
    char *why, size_t whylen)
{
	static const enum tool tools[] = {TOOL_UNITS, TOOL_UNIT_FILES};
	const struct tool_fill nothing = {.unit = NULL};
	struct tool_lines lines = {.line = take_unit, .ctx = l};
	int i, answered = 0;

	for (i = 0; i < 2 && !l->found; i++) {
		lines.used = 0;
		if (tool_run(tools[i], env, &nothing, limits->tool_ms, tool_lines_sink, &lines, why,
			whylen) == -1)
			continue;
		tool_lines_end(&lines);
		answered = 1;
	}
	return l->found ? 1 : answered && !l->failed ? 0 : -1;
}

/* Keep the newest: when twice as much has come as is wanted, forget the first half. */
static int
take_log(void *ctx, const char *data, size_t len)
{
	struct tail *t = ctx;
	size_t n;

	while (len > 0) {
		if (t->used == 2 * t->keep) {
			memmove(t->buf, t->buf + t->keep, t->keep);
			t->used = t->keep;
			t->cut = 1;
		}
		n = len < 2 * t->keep - t->used ? len : 2 * t->keep - t->used;
		memcpy(t->buf + t->used, data, n);
		t->used += n;
		data += n;
		len -= n;
	}
	return 0;
}

/* Cut to what is wanted, at the start of a line where there is one. */
static const char *
newest(struct tail *t, size_t *len)
{
	const char *from = t->buf, *line;

	*len = t->used;
	if (t->used <= t->keep && !t->cut)
		return from;
	if (t->used > t->keep) {
		from += t->used - t->keep;
		*len = t->keep;
	}
	t->cut = 1;
	if ((line = memchr(from, '\n', *len)) != NULL && line + 1 < from + *len) {
		*len -= (size_t)(line + 1 - from);
		from = line + 1;
	}
	return from;
}

static int
send_log(enum tool which, const char *unit, const struct observe_limits *limits,
    const struct observe_env *env, int64_t minutes, struct answer *out)
{
	struct tail tail = {.keep = (size_t)limits->journal_bytes};
	const struct tool_fill fill = {
	    .unit = unit,
	    .since_min = minutes,
	    .lines = limits->journal_lines,
	};
	int64_t lines;
	char why[REFUSAL_WHY_MAX];
	const char *text;
	size_t len;
	int rc = OBSERVE_DONE;

	if ((tail.buf = malloc(2 * tail.keep)) == NULL)
		return OBSERVE_FAILED;
	if (tool_run(which, env, &fill, limits->tool_ms, take_log, &tail, why, sizeof(why)) == -1) {
		answer_result(out, UNREADABLE, "tit", unit, minutes, why);
		free(tail.buf);
		return OBSERVE_FAILED;
	}
	text = newest(&tail, &len);
	lines = lines_count(text, len);
	if (answer_text(out, text, len) == -1 ||
	    answer_result(out, RESULT, "tiiii", unit, minutes, lines, (int64_t)len,
		(int64_t)(tail.cut || lines >= limits->journal_lines)) == -1)
		rc = OBSERVE_FAILED;
	free(tail.buf);
	return rc;
}

static int
run(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct lookup lookup = {.out = out, .wanted = args->v[0]};
	int64_t minutes = strtoll(args->v[1], NULL, 10);
	char why[REFUSAL_WHY_MAX], template[UNIT_MAX + 1] = "";
	const char *at = strchr(args->v[0], '@');
	int is_known;

	if (!observe_journal_reader(env, why, sizeof(why))) {
		answer_result(out, UNREADABLE, "tit", args->v[0], minutes, why);
		return OBSERVE_MISSING;
	}
	if (at != NULL)
		snprintf(template, sizeof(template), "%.*s%s", (int)(at + 1 - args->v[0]),
		    args->v[0], strrchr(at, '.'));
	lookup.template = template;
	snprintf(lookup.stem, sizeof(lookup.stem), "%.*s",
	    (int)(strrchr(args->v[0], '.') - args->v[0]), args->v[0]);
	if (answer_rows(out, UNIT_TABLE, "") == -1)
		return OBSERVE_FAILED;
	if ((is_known = known(&lookup, limits, env, why, sizeof(why))) == -1) {
		answer_result(out, UNREADABLE, "tit", args->v[0], minutes, why);
		return OBSERVE_MISSING;
	}
	if (!is_known) {
		answer_result(out, UNIT_UNKNOWN, "ii", (int64_t)(2 + strlen(args->v[0]) / 5),
		    (int64_t)NEAR_MAX);
		return OBSERVE_WRONG;
	}
	return send_log(TOOL_UNIT_LOG, args->v[0], limits, env, minutes, out);
}

static int
check_kernel(
    int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	int64_t minutes = MINUTES_DEFAULT;

	if (nargs == 1 && observe_number(args[0], 1, KERNEL_MAX, "observe.minutes", "the time",
			      &minutes, refusal) == -1)
		return -1;
	snprintf(canon->v[0], sizeof(canon->v[0]), "%lld", (long long)minutes);
	canon->n = 1;
	return 0;
}

static int
run_kernel(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	int64_t minutes = strtoll(args->v[0], NULL, 10);
	char why[REFUSAL_WHY_MAX];

	if (!observe_journal_reader(env, why, sizeof(why))) {
		answer_result(out, UNREADABLE, "tit", "kernel", minutes, why);
		return OBSERVE_MISSING;
	}
	return send_log(TOOL_KERNEL_LOG, "kernel", limits, env, minutes, out);
}

const struct observe_op observe_kernel = {
    .name = "observe:kernel",
    .usage = "[MINUTES 1..1440]",
    .summary = "what the kernel logged lately",
    .args_min = 0,
    .args_max = 1,
    .check = check_kernel,
    .run = run_kernel,
};

const struct observe_op observe_journal = {
    .name = "observe:journal",
    .usage = "UNIT [MINUTES 1..60]",
    .summary = "what a systemd unit logged lately",
    .args_min = 1,
    .args_max = 2,
    .check = check,
    .run = run,
};
