/* declared.c: tool servers that the clients of agents declare in their files. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/policy/agents.h"
#include "engine/policy/secret.h"

/* Where, below a home, which client keeps them. */
static const struct {
	const char *client, *path;
} files[] = {
    {"claude-code", ".claude.json"},
    {"claude-code", ".claude/settings.json"},
    {"claude-desktop", ".config/Claude/claude_desktop_config.json"},
    {"cursor", ".cursor/mcp.json"},
    {"gemini", ".gemini/settings.json"},
    {"opencode", ".config/opencode/opencode.json"},
    {"vscode", ".config/Code/User/mcp.json"},
    {"vscode", ".vscode/mcp.json"},
    {"windsurf", ".codeium/windsurf/mcp_config.json"},
    {"amazon-q", ".aws/amazonq/mcp.json"},
    {"zed", ".config/zed/settings.json"},
};

/*
 * The fields that leave a file, and no other.  Whether a value looks like a secret is said here, so
 * that the value itself stays in SQLite.
 */
static const char SERVERS[] =
    "WITH doc AS (SELECT :text AS j), servers (name, s) AS ("
    "    SELECT key, value FROM doc, json_each(j, '$.mcpServers') WHERE type = 'object'"
    "    UNION ALL SELECT key, value FROM doc, json_each(j, '$.servers') WHERE type = 'object'"
    "    UNION ALL SELECT key, value FROM doc, json_each(j, '$.mcp') WHERE type = 'object'"
    "    UNION ALL SELECT key, value FROM doc, json_each(j, '$.context_servers')"
    "        WHERE type = 'object'"
    "    UNION ALL SELECT m.key, m.value FROM doc, json_each(j, '$.projects') AS p,"
    "        json_each(p.value, '$.mcpServers') AS m"
    "        WHERE p.type = 'object' AND m.type = 'object'),"
    " words (name, s, command, first) AS ("
    "    SELECT name, s, CASE json_type(s, '$.command') WHEN 'text' THEN s ->> '$.command'"
    "            WHEN 'array' THEN s ->> '$.command[0]' WHEN 'object' THEN s ->> '$.command.path'"
    "            ELSE '' END,"
    "        (SELECT value FROM json_each(s, CASE json_type(s, '$.command')"
    "                WHEN 'array' THEN '$.command' WHEN 'object' THEN '$.command.args'"
    "                ELSE '$.args' END)"
    "          WHERE type = 'text' AND value NOT LIKE '-%'"
    "            AND (json_type(s, '$.command') <> 'array' OR key > 0) ORDER BY key LIMIT 1)"
    "      FROM servers)"
    " SELECT name, coalesce(command, ''), coalesce(first, ''),"
    "    coalesce(s ->> '$.url', s ->> '$.serverUrl', s ->> '$.httpUrl', ''),"
    "    coalesce((SELECT group_concat(key, ',') FROM (SELECT key FROM json_each(s, '$.env')"
    "        UNION SELECT key FROM json_each(s, '$.environment')"
    "        UNION SELECT key FROM json_each(s, '$.headers') ORDER BY 1)), ''),"
    "    EXISTS (SELECT 1 FROM (SELECT key, value FROM json_each(s, '$.env')"
    "        UNION ALL SELECT key, value FROM json_each(s, '$.environment')"
    "        UNION ALL SELECT key, value FROM json_each(s, '$.headers'))"
    "      WHERE length(value) >= 16 OR lower(key) GLOB '*key*' OR lower(key) GLOB '*token*'"
    "         OR lower(key) GLOB '*secret*' OR lower(key) GLOB '*pass*'"
    "         OR lower(key) GLOB '*auth*'),"
    "    coalesce(json_type(s, '$.disabled') = 'true', 0)"
    "      OR coalesce(json_type(s, '$.enabled') = 'false', 0)"
    "  FROM words ORDER BY name";

struct reading {
	int root;
	const struct agents_limits *limits;
	struct agents_scan *scan;
	struct sqlite3 *sqlite;
	struct tool_server *list;
	size_t count, cap, files;
	int64_t deadline;
	const char *user;
	bool one, all; /* of one account, ${uid}; also what cannot be started or dialled */
	uint32_t uid;
};

static int64_t
clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static const char *
base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* A word of a file, unless it looks like a secret. */
static void
put(char *out, size_t size, const char *word)
{
	snprintf(out, size, "%s", secret_word(word, strlen(word)) ? "***" : word);
}

/* Of an address the scheme and the host: no account, no path, no query. */
static void
put_host(char out[AGENT_TEXT], const char *url)
{
	const char *host = strstr(url, "://"), *end, *account;
	char plain[AGENT_TEXT];

	if (host == NULL || host - url > 16)
		return;
	host += 3;
	end = host + strcspn(host, "/?#");
	account = memrchr(host, '@', (size_t)(end - host));
	if (snprintf(plain, sizeof(plain), "%.*s%.*s", (int)(host - url), url,
		(int)(end - (account == NULL ? host : account + 1)),
		account == NULL ? host : account + 1) < (int)sizeof(plain))
		put(out, AGENT_TEXT, plain);
	else
		snprintf(out, AGENT_TEXT, "***");
}

/* What a server runs: the package or script that an interpreter is given, else the program. */
static void
put_what(char out[AGENT_TEXT], const char *command, const char *first)
{
	static const char *const launchers[] = {"npx", "node", "bun", "bunx", "deno", "uvx", "uv",
	    "python", "python3", "pipx", "docker", "sh", "bash", "env"};
	size_t i;

	for (i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (strcmp(base(command), launchers[i]) == 0 && first[0] != '\0') {
			put(out, AGENT_TEXT, first);
			return;
		}
	put(out, AGENT_TEXT, command);
}

static const char *
column(struct sqlite3_stmt *q, int i)
{
	const char *text = (const char *)sqlite3_column_text(q, i);

	return text == NULL ? "" : text;
}

static void
take(struct reading *r, const char *client, struct sqlite3_stmt *q)
{
	size_t cap = r->cap == 0 ? 16 : r->cap * 2;
	struct tool_server *server, *more;

	if (r->count == r->limits->servers) {
		r->scan->truncated = true;
		return;
	}
	if (r->count == r->cap) {
		if ((more = reallocarray(r->list, cap, sizeof(*more))) == NULL) {
			r->scan->truncated = true;
			return;
		}
		r->list = more;
		r->cap = cap;
	}
	server = &r->list[r->count];
	memset(server, 0, sizeof(*server));
	snprintf(server->user, sizeof(server->user), "%s", r->user);
	server->client = client;
	put(server->name, sizeof(server->name), column(q, 0));
	server->transport = column(q, 1)[0] == '\0' ? "http" : "stdio";
	if (column(q, 1)[0] == '\0')
		put_host(server->what, column(q, 3));
	else
		put_what(server->what, column(q, 1), column(q, 2));
	put(server->env, sizeof(server->env), column(q, 4));
	server->secrets = sqlite3_column_int(q, 5) != 0;
	server->off = sqlite3_column_int(q, 6) != 0;
	server->state = SERVER_UNKNOWN;
	r->count += r->all || server->what[0] != '\0';
}

/* Take what the text of one file declares; false where it is no JSON that we read. */
static bool
parse(struct reading *r, const char *client, const char *text, size_t len)
{
	struct sqlite3_stmt *q;
	int rc;

	if (sqlite3_prepare_v2(r->sqlite, SERVERS, -1, &q, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_text(q, 1, text, (int)len, SQLITE_STATIC);
	while ((rc = sqlite3_step(q)) == SQLITE_ROW)
		take(r, client, q);
	sqlite3_finalize(q);
	return rc == SQLITE_DONE;
}

/* One file of a home; false where there is no time for more. */
static bool
read_file(struct reading *r, int home, size_t i)
{
	size_t len;
	char *text;

	if (r->files >= r->limits->files || clock_ms() > r->deadline) {
		r->scan->timed_out = true;
		return false;
	}
	r->files++;
	errno = 0;
	if ((text = owner_read_beneath(home, files[i].path, r->limits->file, &len)) == NULL) {
		r->scan->unread += errno != ENOENT && errno != ENOTDIR;
		return true;
	}
	if (len > 0 && !parse(r, files[i].client, text, len))
		r->scan->unread++;
	/* What the file held is nobody's to find in freed memory. */
	explicit_bzero(text, len);
	free(text);
	return true;
}

static void
read_home(void *ctx, uint32_t uid, const char *name, const char *home)
{
	struct reading *r = ctx;
	size_t i;
	int fd;

	if (r->one && r->uid != uid)
		return;
	r->user = name;
	if ((fd = openat(r->root, home + 1, O_PATH | O_DIRECTORY | O_CLOEXEC)) == -1) {
		r->scan->unread += errno != ENOENT && errno != ENOTDIR;
		return;
	}
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!read_file(r, fd, i))
			break;
	close(fd);
}

/* Whether a word of the process is ${what}, by its whole or by its last part. */
static bool
runs(const struct seen_process *p, const char *what)
{
	const char *word;
	size_t n = strlen(base(what));

	for (word = p->words; word != NULL && word < p->words + p->len; word += strlen(word) + 1)
		if (strcmp(word, what) == 0 || (strncmp(base(word), base(what), n) == 0 &&
						   (base(word)[n] == '\0' || base(word)[n] == '@')))
			return n > 0;
	return false;
}

/* What looks like a tool server by its words; NULL for what does not. */
static const char *
looks_like_server(const struct seen_process *p)
{
	const char *word, *b;

	for (word = p->words; word != NULL && word < p->words + p->len; word += strlen(word) + 1) {
		b = base(word);
		if (word[0] != '-' &&
		    (strncmp(word, "@modelcontextprotocol/", 22) == 0 ||
			strncmp(b, "mcp-server", 10) == 0 || strncmp(b, "mcp_server", 10) == 0 ||
			(strlen(b) > 4 && strcmp(b + strlen(b) - 4, "-mcp") == 0)))
			return word;
	}
	return NULL;
}

static void
match(struct reading *r, const struct seen_process *list, size_t count, bool *declared)
{
	size_t i, j;

	for (i = 0; i < r->count; i++) {
		if (strcmp(r->list[i].transport, "stdio") != 0 ||
		    strcmp(r->list[i].what, "***") == 0)
			continue;
		r->list[i].state = SERVER_STOPPED;
		for (j = 0; j < count; j++) {
			if (!runs(&list[j], r->list[i].what))
				continue;
			declared[j] = true;
			r->list[i].state = SERVER_RUNNING;
			if (r->list[i].pid == 0)
				r->list[i].pid = list[j].pid;
		}
	}
}

/* Servers that run, and that no file declares. */
static void
undeclared(struct reading *r, struct owner_tables *tables, const struct seen_process *list,
    size_t count, const bool *declared, void (*fn)(void *ctx, const struct tool_server *server),
    void *ctx)
{
	struct owner_status status;
	struct tool_server server;
	struct owner owner;
	const char *what;
	size_t i, n = r->count;

	for (i = 0; i < count; i++) {
		if (declared[i] || (what = looks_like_server(&list[i])) == NULL)
			continue;
		if (n++ >= r->limits->servers) {
			r->scan->truncated = true;
			return;
		}
		memset(&server, 0, sizeof(server));
		server.client = "";
		server.transport = "stdio";
		server.state = SERVER_UNDECLARED;
		server.pid = list[i].pid;
		put(server.what, sizeof(server.what), what);
		if (owner_process(tables, list[i].pid, &status, &owner))
			snprintf(server.user, sizeof(server.user), "%s",
			    owner_account(tables, status.uid));
		fn(ctx, &server);
	}
}

static int
read_homes(struct reading *reading, struct refusal *r)
{
	struct owner_tables *tables = owner_open(reading->root);
	int rc = -1;

	memset(reading->scan, 0, sizeof(*reading->scan));
	reading->deadline = clock_ms() + reading->limits->wait_ms;
	if (tables != NULL && sqlite3_open(":memory:", &reading->sqlite) == SQLITE_OK) {
		owner_homes(tables, read_home, reading);
		rc = 0;
	} else {
		refusal_set(r, "agents.failed", "out of memory");
	}
	sqlite3_close(reading->sqlite);
	owner_close(tables);
	return rc;
}

int
agents_declared(int root, const struct agents_limits *limits, struct tool_server **list,
    size_t *count, struct agents_scan *scan, struct refusal *r)
{
	struct reading reading = {.root = root, .limits = limits, .scan = scan};
	int rc = read_homes(&reading, r);

	*list = reading.list;
	*count = reading.count;
	return rc;
}

int
agents_check(int root, const struct agents_limits *limits, uint32_t uid,
    void (*fn)(void *ctx, const struct tool_server *server), void *ctx, struct agents_scan *scan,
    struct refusal *r)
{
	struct reading reading = {
	    .root = root, .limits = limits, .scan = scan, .one = true, .all = true, .uid = uid};
	int rc = read_homes(&reading, r);
	size_t i;

	for (i = 0; rc == 0 && i < reading.count; i++)
		fn(ctx, &reading.list[i]);
	free(reading.list);
	return rc;
}

int
agents_compare(int root, const struct agents_limits *limits, struct tool_server *list, size_t count,
    void (*fn)(void *ctx, const struct tool_server *server), void *ctx, struct agents_scan *scan,
    struct refusal *r)
{
	struct reading reading = {
	    .root = root, .limits = limits, .scan = scan, .list = list, .count = count};
	struct owner_tables *tables = owner_open(root);
	struct seen_process *seen = NULL;
	bool *declared = NULL;
	size_t i, n = 0;
	int rc = -1;

	if (tables == NULL)
		goto out;
	scan->processes = processes_read(root, limits, &seen, &n) == 0;
	if (scan->processes && (declared = calloc(n + 1, sizeof(*declared))) == NULL)
		goto out;
	/* Where a part of one side is not known, nothing is said about how they fit. */
	if (scan->processes)
		match(&reading, seen, n, declared);
	for (i = 0; i < count; i++)
		fn(ctx, &list[i]);
	if (scan->processes && !scan->timed_out && !scan->truncated && scan->unread == 0)
		undeclared(&reading, tables, seen, n, declared, fn, ctx);
	rc = 0;
out:
	if (rc != 0)
		refusal_set(r, "agents.failed", "out of memory");
	processes_free(seen, n);
	owner_close(tables);
	free(declared);
	return rc;
}

int
agents_servers(int root, const struct agents_limits *limits,
    void (*fn)(void *ctx, const struct tool_server *server), void *ctx, struct agents_scan *scan,
    struct refusal *r)
{
	struct tool_server *list;
	size_t count;
	int rc;

	rc = agents_declared(root, limits, &list, &count, scan, r);
	if (rc == 0)
		rc = agents_compare(root, limits, list, count, fn, ctx, scan, r);
	free(list);
	return rc;
}
