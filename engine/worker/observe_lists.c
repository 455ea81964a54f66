/* observe_lists.c: what other programs list: services, timers, sockets, packages, the firewall. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/worker/answer.h"
#include "engine/worker/observe.h"
#include "engine/worker/tool.h"

#define PREFIX_MAX 64
#define FIELDS     7
#define FIELD_MAX  256
#define JSON_MAX   4194304 /* bytes of one tool's JSON */

static const char SERVICE_TABLE[] = "CREATE TABLE service (name, loaded, active, sub, about)";
static const char SERVICE_ADD[] = "INSERT INTO service VALUES (?1, ?2, ?3, ?4, ?5)";
static const char SERVICES[] =
    "SELECT json_object('state', ?1, 'count', count(*), 'failed', count(*) FILTER (WHERE active = 'failed'),"
    "  'services', (SELECT json_group_array(json_object('unit', name, 'active', active, 'sub', sub,"
    "      'loaded', loaded, 'about', about)) FROM (SELECT * FROM service"
    "      WHERE ?1 = 'all' OR active = ?1 OR sub = ?1 ORDER BY active <> 'failed', name LIMIT ?2)),"
    "  'more', max(0, count(*) FILTER (WHERE ?1 = 'all' OR active = ?1 OR sub = ?1) - ?2))"
    " FROM service";

/* systemd counts in microseconds; 0 or null: never. */
static const char TIMERS[] =
    "SELECT json_object('count', json_array_length(?1), 'timers', (SELECT json_group_array(json_object("
    "    'unit', value ->> '$.unit', 'activates', value ->> '$.activates',"
    "    'next', strftime('%Y-%m-%dT%H:%M:%SZ', nullif(value ->> '$.next', 0) / 1000000, 'unixepoch'),"
    "    'last', strftime('%Y-%m-%dT%H:%M:%SZ', nullif(value ->> '$.last', 0) / 1000000, 'unixepoch')))"
    "  FROM (SELECT value FROM json_each(?1) LIMIT ?2)), 'more', max(0, json_array_length(?1) - ?2))"
    " WHERE json_valid(?1) AND json_type(?1) = 'array'";

static const char SOCKET_TABLE[] = "CREATE TABLE socket (proto, address, port, process, pid)";
static const char SOCKET_ADD[] =
    "INSERT INTO socket VALUES (?1, ?2, CAST(?3 AS INTEGER), ?4, nullif(?5, 0))";
static const char SOCKETS[] =
    "SELECT json_object('count', count(*), 'listeners', (SELECT json_group_array(json_object("
    "    'proto', proto, 'address', address, 'port', port, 'process', process, 'pid', pid))"
    "  FROM (SELECT * FROM socket ORDER BY port, proto, address LIMIT ?2)),"
    "  'more', max(0, count(*) - ?2)) FROM socket";

static const char PACKAGE_TABLE[] = "CREATE TABLE package (name, version, status)";
static const char PACKAGE_ADD[] = "INSERT INTO package VALUES (?1, ?2, ?3)";
static const char PACKAGES[] =
    "SELECT json_object('prefix', ?1, 'count', count(*), 'packages', (SELECT json_group_array(json_object("
    "    'name', name, 'version', version, 'status', status))"
    "  FROM (SELECT * FROM package ORDER BY name LIMIT ?2)), 'more', max(0, count(*) - ?2))"
    " FROM package";

static const char FIREWALL[] =
    "WITH item AS (SELECT value AS v FROM json_each(?1, '$.nftables')),"
    " chain AS (SELECT v -> '$.chain' AS c FROM item WHERE json_type(v, '$.chain') = 'object'),"
    " rule AS (SELECT v -> '$.rule' AS r FROM item WHERE json_type(v, '$.rule') = 'object')"
    "SELECT json_object('tables', (SELECT count(*) FROM item WHERE json_type(v, '$.table') = 'object'),"
    "  'rules', (SELECT count(*) FROM rule), 'chains', (SELECT json_group_array(json_object("
    "    'family', c ->> '$.family', 'table', c ->> '$.table', 'name', c ->> '$.name',"
    "    'hook', c ->> '$.hook', 'policy', c ->> '$.policy', 'rules', (SELECT count(*) FROM rule"
    "      WHERE r ->> '$.family' = c ->> '$.family' AND r ->> '$.table' = c ->> '$.table'"
    "        AND r ->> '$.chain' = c ->> '$.name'))) FROM (SELECT c FROM chain LIMIT ?2)),"
    "  'more', max(0, (SELECT count(*) FROM chain) - ?2))"
    " WHERE json_valid(?1) AND json_type(?1, '$.nftables') = 'array'";

/* Lines on their way into a table. */
struct list {
	struct answer *out;
	const char *prefix;
	int failed;
};

/* One line as fields; the last one holds the rest. */
struct fields {
	int n;
	char v[FIELDS][FIELD_MAX];
};

static void
split(const char *line, size_t len, int most, const char *between, struct fields *f)
{
	size_t n;

	f->n = 0;
	memset(f->v, 0, sizeof(f->v));
	while (len > 0 && f->n < most) {
		for (; len > 0 && strchr(between, *line) != NULL && *line != '\0'; line++)
			len--;
		for (n = 0; n < len && line[n] != '\0' &&
			    (f->n == most - 1 || strchr(between, line[n]) == NULL);)
			n++;
		if (n == 0)
			return;
		snprintf(f->v[f->n++], FIELD_MAX, "%.*s", (int)n, line);
		line += n;
		len -= n;
	}
}

/* Answer with what ${sql} makes of ${word} (?1), the bound of the list (?2), and the lines that
 * ${which} prints, which ${take} puts into ${table}. */
static int
answer_lines(struct list *list, const char *table, enum tool which,
    int (*take)(void *, const char *, size_t), const char *sql, const char *word,
    const struct observe_limits *limits, const struct observe_env *env)
{
	const struct tool_fill nothing = {.unit = NULL};
	struct tool_lines lines = {.line = take, .ctx = list};
	char why[REFUSAL_WHY_MAX];

	if (answer_rows(list->out, table, "") == -1 || answer_rows(list->out, "BEGIN", "") == -1)
		return OBSERVE_FAILED;
	if (tool_run(which, env, &nothing, limits->tool_ms, tool_lines_sink, &lines, why,
		sizeof(why)) == -1)
		return answer_unreadable(list->out, why, OBSERVE_MISSING);
	tool_lines_end(&lines);
	if (list->failed || answer_result(list->out, sql, "ti", word, limits->rows_max) == -1)
		return OBSERVE_FAILED;
	return OBSERVE_DONE;
}

/* A whole JSON text. */
struct json {
	char *text;
	size_t len;
	int over;
};

static int
take_json(void *ctx, const char *data, size_t len)
{
	struct json *j = ctx;

	j->over = j->over || len > JSON_MAX - j->len;
	if (!j->over) {
		memcpy(j->text + j->len, data, len);
		j->len += len;
	}
	return j->over;
}

/* Answer with what ${sql} makes of the JSON that ${which} prints. */
static int
answer_json(enum tool which, const char *sql, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	const struct tool_fill nothing = {.unit = NULL};
	struct json j = {.text = malloc(JSON_MAX + 1)};
	char why[REFUSAL_WHY_MAX];
	int rc;

	if (j.text == NULL)
		return OBSERVE_FAILED;
	if (tool_run(which, env, &nothing, limits->tool_ms, take_json, &j, why, sizeof(why)) ==
	    -1) {
		free(j.text);
		return answer_unreadable(out, why, OBSERVE_MISSING);
	}
	j.text[j.len] = '\0';
	if (j.over)
		rc = answer_unreadable(
		    out, "the list is longer than this machine reads", OBSERVE_FAILED);
	else if (answer_result(out, sql, "ti", j.text, limits->rows_max) == -1)
		rc = answer_unreadable(out,
		    "what the tool said is not the JSON that it was asked for", OBSERVE_FAILED);
	else
		rc = OBSERVE_DONE;
	free(j.text);
	return rc;
}

/*
 * Services and timers.
 */

static int
check_state(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	const char *state = nargs == 1 ? args[0] : "all";

	if (strcmp(state, "all") != 0 && strcmp(state, "failed") != 0 &&
	    strcmp(state, "running") != 0)
		return refusal_set(
		    refusal, "observe.state", "services are asked for with all, failed or running");
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s", state);
	canon->n = 1;
	return 0;
}

static int
take_service(void *ctx, const char *line, size_t len)
{
	struct list *list = ctx;
	struct fields f;

	split(line, len, 5, " ", &f);
	if (f.n >= 4 && answer_rows(list->out, SERVICE_ADD, "ttttt", f.v[0], f.v[1], f.v[2], f.v[3],
			    f.v[4]) == -1)
		list->failed = 1;
	return list->failed;
}

static int
run_services(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct list list = {.out = out};

	return answer_lines(
	    &list, SERVICE_TABLE, TOOL_SERVICES, take_service, SERVICES, args->v[0], limits, env);
}

static int
run_timers(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	(void)args;
	return answer_json(TOOL_TIMERS, TIMERS, limits, env, out);
}

/*
 * Sockets.
 */

/* users:(("sshd",pid=411,fd=3),…): the first of them. */
static void
who_listens(const char *text, char *name, size_t size, int64_t *pid)
{
	const char *from = strstr(text, "((\""), *end;

	name[0] = '\0';
	*pid = 0;
	if (from == NULL || (end = strstr(from + 3, "\",pid=")) == NULL)
		return;
	snprintf(name, size, "%.*s", (int)(end - from - 3), from + 3);
	*pid = strtoll(end + 6, NULL, 10);
}

static int
take_socket(void *ctx, const char *line, size_t len)
{
	struct list *list = ctx;
	char name[FIELD_MAX], *colon;
	struct fields f;
	int64_t pid;

	split(line, len, 7, " ", &f);
	if (f.n < 6 || (colon = strrchr(f.v[4], ':')) == NULL)
		return 0;
	*colon = '\0';
	who_listens(f.v[6], name, sizeof(name), &pid);
	if (answer_rows(list->out, SOCKET_ADD, "tttti", f.v[0], f.v[4], colon + 1,
		name[0] != '\0' ? name : NULL, pid) == -1)
		list->failed = 1;
	return list->failed;
}

static int
run_listeners(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct list list = {.out = out};

	(void)args;
	return answer_lines(
	    &list, SOCKET_TABLE, TOOL_SOCKETS, take_socket, SOCKETS, NULL, limits, env);
}

/*
 * Packages.
 */

static int
check_prefix(
    int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	const char *prefix = nargs == 1 ? args[0] : "*";
	size_t i, len = strlen(prefix);

	for (i = 0; i < len; i++)
		if (!islower((unsigned char)prefix[i]) && !isdigit((unsigned char)prefix[i]) &&
		    (i == 0 || strchr("+-.", prefix[i]) == NULL) && strcmp(prefix, "*") != 0)
			break;
	if (i < len || len > PREFIX_MAX)
		return refusal_set(refusal, "observe.package",
		    "packages are asked for by the beginning of their name: at most %d small letters, "
		    "digits and + - . of which the first is a letter or digit; or *",
		    PREFIX_MAX);
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s", prefix);
	canon->n = 1;
	return 0;
}

static int
take_package(void *ctx, const char *line, size_t len)
{
	struct list *list = ctx;
	struct fields f;

	split(line, len, 3, "\t", &f);
	if (f.n == 3 &&
	    (list->prefix[0] == '*' || strncmp(f.v[0], list->prefix, strlen(list->prefix)) == 0) &&
	    answer_rows(list->out, PACKAGE_ADD, "ttt", f.v[0], f.v[1], f.v[2]) == -1)
		list->failed = 1;
	return list->failed;
}

static int
run_packages(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct list list = {.out = out, .prefix = args->v[0]};

	return answer_lines(
	    &list, PACKAGE_TABLE, TOOL_PACKAGES, take_package, PACKAGES, args->v[0], limits, env);
}

static int
run_firewall(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	(void)args;
	return answer_json(TOOL_RULES, FIREWALL, limits, env, out);
}

const struct observe_op observe_services = {
    .name = "observe:services",
    .usage = "[all | failed | running]",
    .summary = "the services that systemd has loaded, and how they are",
    .args_max = 1,
    .check = check_state,
    .run = run_services,
};

const struct observe_op observe_timers = {
    .name = "observe:timers",
    .usage = "",
    .summary = "the timers of systemd: when they ran and when they run next",
    .check = observe_no_args,
    .run = run_timers,
};

const struct observe_op observe_listeners = {
    .name = "observe:listeners",
    .usage = "",
    .summary = "the TCP and UDP sockets that wait for others, and whose they are",
    .check = observe_no_args,
    .run = run_listeners,
};

const struct observe_op observe_packages = {
    .name = "observe:packages",
    .usage = "[PREFIX | *]",
    .summary = "the Debian packages that are installed, with their versions",
    .args_max = 1,
    .check = check_prefix,
    .run = run_packages,
};

const struct observe_op observe_firewall = {
    .name = "observe:firewall",
    .usage = "",
    .summary = "the chains of the packet filter: their hooks, policies and numbers of rules",
    .check = observe_no_args,
    .run = run_firewall,
};
