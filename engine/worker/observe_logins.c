/* observe_logins.c: failed and accepted SSH logins. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/worker/answer.h"
#include "engine/worker/observe.h"
#include "engine/worker/sshd.h"
#include "engine/worker/tool.h"

#define HOURS_MAX     168
#define HOURS_DEFAULT 24

static const char *const TABLES[] = {
    "CREATE TABLE attempt (id INTEGER PRIMARY KEY, source TEXT, user TEXT, "
    "connection TEXT, certain INTEGER)",
    "CREATE TABLE accepted (id INTEGER PRIMARY KEY, at TEXT, user TEXT, source TEXT, "
    "method TEXT)",
    /* sshd tells of one attempt in several lines: what it named "Failed" counts each time, a
     * connection without any of these once. */
    "CREATE VIEW failed AS"
    " SELECT source, user FROM attempt WHERE certain"
    " UNION ALL"
    " SELECT source, user FROM attempt WHERE id IN (SELECT min(id) FROM attempt"
    "  WHERE connection NOT IN (SELECT connection FROM attempt WHERE certain)"
    "  GROUP BY connection)",
};
static const char *const ATTEMPT_ADD =
    "INSERT INTO attempt (source, user, connection, certain) VALUES (?1, ?2, ?3, ?4)";
static const char *const ACCEPTED_ADD =
    "INSERT INTO accepted (at, user, source, method) VALUES (?1, ?2, ?3, ?4)";
static const char *const RESULT =
    "WITH by_source AS (SELECT source AS k, count(*) AS n FROM failed GROUP BY source),"
    " by_user AS (SELECT user AS k, count(*) AS n FROM failed GROUP BY user)"
    " SELECT json_object('hours', ?1,"
    " 'failed', (SELECT count(*) FROM failed),"
    " 'sources', (SELECT json_group_array(json_object('source', k, 'count', n))"
    "   FROM (SELECT k, n FROM by_source ORDER BY n DESC, k LIMIT ?2)),"
    " 'sources_others', (SELECT coalesce(sum(n), 0)"
    "   FROM (SELECT n FROM by_source ORDER BY n DESC, k LIMIT -1 OFFSET ?2)),"
    " 'users', (SELECT json_group_array(json_object('user', k, 'count', n))"
    "   FROM (SELECT k, n FROM by_user ORDER BY n DESC, k LIMIT ?2)),"
    " 'users_others', (SELECT coalesce(sum(n), 0)"
    "   FROM (SELECT n FROM by_user ORDER BY n DESC, k LIMIT -1 OFFSET ?2)),"
    " 'accepted', (SELECT count(*) FROM accepted),"
    " 'logins', (SELECT json_group_array(json_object('time', at, 'user', user, 'source', source,"
    "   'method', method)) FROM (SELECT * FROM accepted ORDER BY id DESC LIMIT ?2)),"
    " 'unclear', ?3, 'cut', json(iif(?4, 'true', 'false')))";
static const char *const UNREADABLE =
    "SELECT json_object('hours', ?1, 'failed', -1, 'sources', NULL, 'users', NULL,"
    " 'accepted', -1, 'logins', NULL, 'unreadable', ?2)";

struct reading {
	struct answer *out;
	int64_t lines;
	int64_t unclear;
	int failed;
};

static int
check(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	int64_t hours = HOURS_DEFAULT;

	if (nargs == 1 && observe_number(args[0], 1, HOURS_MAX, "observe.hours", "the time", &hours,
			      refusal) == -1)
		return -1;
	snprintf(canon->v[0], sizeof(canon->v[0]), "%lld", (long long)hours);
	canon->n = 1;
	return 0;
}

static int
take_line(void *ctx, const char *text, size_t len)
{
	struct reading *r = ctx;
	struct sshd_line l;
	int rc = 0;

	r->lines++;
	switch (sshd_parse(text, len, &l)) {
	case SSHD_FAILED:
	case SSHD_CONNECTED:
		rc = answer_rows(r->out, ATTEMPT_ADD, "ttti", l.source, l.user, l.connection,
		    (int64_t)(l.kind == SSHD_FAILED));
		break;
	case SSHD_ACCEPTED:
		rc = answer_rows(r->out, ACCEPTED_ADD, "tttt", l.time, l.user, l.source, l.method);
		break;
	case SSHD_UNCLEAR:
		r->unclear++;
		break;
	case SSHD_NOTHING:
		break;
	}
	if (rc == -1)
		r->failed = 1;
	return rc;
}

static int
make_tables(struct answer *out)
{
	size_t i;

	for (i = 0; i < sizeof(TABLES) / sizeof(TABLES[0]); i++) {
		if (answer_rows(out, TABLES[i], "") == -1)
			return -1;
	}
	return answer_rows(out, "BEGIN", "");
}

static int
run(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct reading reading = {.out = out};
	struct tool_lines lines = {.line = take_line, .ctx = &reading};
	int64_t hours = strtoll(args->v[0], NULL, 10);
	const struct tool_fill fill = {.since_min = hours * 60, .lines = limits->logins_lines};
	char why[REFUSAL_WHY_MAX];

	if (!observe_journal_reader(env, why, sizeof(why))) {
		answer_result(out, UNREADABLE, "it", hours, why);
		return OBSERVE_MISSING;
	}
	if (make_tables(out) == -1)
		return OBSERVE_FAILED;
	if (tool_run(TOOL_SSHD_LOG, env, &fill, limits->tool_ms, tool_lines_sink, &lines, why,
		sizeof(why)) == -1) {
		answer_result(out, UNREADABLE, "it", hours, why);
		return OBSERVE_FAILED;
	}
	tool_lines_end(&lines);
	if (reading.failed ||
	    answer_result(out, RESULT, "iiii", hours, limits->logins_ranked, reading.unclear,
		(int64_t)(reading.lines >= limits->logins_lines)) == -1)
		return OBSERVE_FAILED;
	return OBSERVE_DONE;
}

const struct observe_op observe_logins = {
    .name = "observe:logins",
    .usage = "[HOURS 1..168]",
    .summary = "failed and accepted SSH logins",
    .args_min = 0,
    .args_max = 1,
    .check = check,
    .run = run,
};
