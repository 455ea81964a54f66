/* agents.c: processes, and which of them are agents. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/agents.h"
#include "engine/policy/secret.h"

#define WORDS_MAX (1u << 17) /* bytes of a command line that are looked at */

/* By the name of the program or of the script, or by a package in whose directory that lies. */
static const struct {
	const char *signature, *name, *package;
} signatures[] = {
    {"aider", "aider", NULL},
    {"amp", "amp", "@sourcegraph/amp"},
    {"claude-code", "claude", "@anthropic-ai/claude-code"},
    {"cline", "cline", NULL},
    {"codex", "codex", "@openai/codex"},
    {"copilot", "copilot", "@github/copilot"},
    {"crush", "crush", "@charmland/crush"},
    {"cursor", "cursor-agent", NULL},
    {"gemini", "gemini", "@google/gemini-cli"},
    {"goose", "goose", NULL},
    {"opencode", "opencode", "opencode-ai"},
    {"openhands", "openhands", NULL},
    {"qwen", "qwen", "@qwen-code/qwen-code"},
};

static const char *const interpreters[] = {
    "node", "nodejs", "bun", "deno", "python", "python3", "npx", "uv", "uvx", "pipx", "sh", "bash"};

static const char *
base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* The word behind ${word} of the process, or NULL. */
static const char *
next(const struct seen_process *p, const char *word)
{
	const char *after = word == NULL ? p->words : word + strlen(word) + 1;

	return p->words != NULL && after < p->words + p->len ? after : NULL;
}

static bool
interprets(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(interpreters) / sizeof(interpreters[0]); i++)
		if (strcmp(name, interpreters[i]) == 0 ||
		    (strncmp(name, "python3.", 8) == 0 && i == 0))
			return true;
	return false;
}

/* "cli.js" of the package, or "claude.mjs": what a script is called without its ending. */
static bool
named(const char *path, const char *name)
{
	const char *b = base(path);
	size_t n = strlen(name);

	return strncmp(b, name, n) == 0 &&
	       (b[n] == '\0' || strcmp(b + n, ".js") == 0 || strcmp(b + n, ".mjs") == 0 ||
		   strcmp(b + n, ".cjs") == 0 || strcmp(b + n, ".py") == 0);
}

/* Whether ${word} leads through the directory of ${package}, or is it, with a version or not. */
static bool
packaged(const char *word, const char *package)
{
	const char *at = package == NULL ? NULL : strstr(word, package);
	size_t n = package == NULL ? 0 : strlen(package);

	return at != NULL && (at == word || at[-1] == '/') &&
	       (at[n] == '\0' || at[n] == '/' || at[n] == '@');
}

/* Which agent the process is; NULL for none. */
static const char *
signature_of(const struct seen_process *p, const char **evidence)
{
	const char *word = next(p, NULL), *script = NULL;
	size_t i;

	if (word == NULL)
		return NULL;
	if (interprets(base(word)))
		for (script = next(p, word); script != NULL && script[0] == '-';)
			script = next(p, script);
	for (i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
		*evidence = "program";
		if (strcmp(base(word), signatures[i].name) == 0)
			return signatures[i].signature;
		*evidence = "package";
		if (packaged(script == NULL ? word : script, signatures[i].package))
			return signatures[i].signature;
		*evidence = "script";
		if (script != NULL && named(script, signatures[i].name))
			return signatures[i].signature;
	}
	return NULL;
}

/* The command line as it may be shown. */
static void
command_show(const struct seen_process *p, size_t most, char out[AGENT_COMMAND])
{
	const char *word, *is, *show;
	bool hide = false;
	size_t n = 0, len;

	out[0] = '\0';
	most = most < AGENT_COMMAND - 1 ? most : AGENT_COMMAND - 1;
	for (word = next(p, NULL); word != NULL && n < most; word = next(p, word)) {
		is = strchr(word, '=');
		show = hide || secret_word(word, strlen(word)) ? "***" : word;
		len = strlen(show);
		/* --api-key=x and API_KEY=x show their name. */
		if (!hide && is != NULL && (show != word || secret_name(word, (size_t)(is - word))))
			n += (size_t)snprintf(out + n, most + 1 - n, "%s%.*s=***", n > 0 ? " " : "",
			    (int)(secret_word(word, (size_t)(is - word)) ? 0 : is - word), word);
		else
			n += (size_t)snprintf(
			    out + n, most + 1 - n, "%s%.*s", n > 0 ? " " : "", (int)len, show);
		hide = word[0] == '-' && is == NULL && secret_name(word, strlen(word));
	}
}

static void
unit_of(int root, pid_t pid, char out[AGENT_TEXT])
{
	char path[64], *text, *at, *end;
	size_t len;

	out[0] = '\0';
	snprintf(path, sizeof(path), "proc/%d/cgroup", (int)pid);
	if ((text = owner_read(root, path, 65536, &len)) == NULL)
		return;
	for (at = text; (at = strchr(at, '/')) != NULL; at = end) {
		at++;
		end = at + strcspn(at, "/\n");
		if ((end - at > 8 && strncmp(end - 8, ".service", 8) == 0) ||
		    (end - at > 6 && strncmp(end - 6, ".scope", 6) == 0))
			snprintf(out, AGENT_TEXT, "%.*s", (int)(end - at), at);
	}
	free(text);
}

static pid_t
parent_of(int root, pid_t pid)
{
	char path[64], *text, *at;
	int parent = 0;
	char state;
	size_t len;

	snprintf(path, sizeof(path), "proc/%d/stat", (int)pid);
	if ((text = owner_read(root, path, 65536, &len)) == NULL)
		return 0;
	/* The name in parentheses may hold anything, also ") R 1". */
	if ((at = strrchr(text, ')')) == NULL || sscanf(at + 1, " %c %d", &state, &parent) != 2)
		parent = 0;
	free(text);
	return parent;
}

static void
process_read(int root, struct seen_process *p)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/cmdline", (int)p->pid);
	p->words = owner_read(root, path, WORDS_MAX, &p->len);
	p->parent = parent_of(root, p->pid);
}

int
processes_read(
    int root, const struct agents_limits *limits, struct seen_process **list, size_t *count)
{
	struct seen_process *more;
	struct dirent *entry;
	size_t cap = 0;
	DIR *dir = NULL;
	char *end;
	long pid;
	int fd;

	*list = NULL;
	*count = 0;
	if ((fd = openat(root, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return -1;
	if ((dir = fdopendir(fd)) == NULL) {
		close(fd);
		return -1;
	}
	for (errno = 0; (entry = readdir(dir)) != NULL; errno = 0) {
		pid = strtol(entry->d_name, &end, 10);
		if (*end != '\0' || pid <= 0 || pid == getpid())
			continue;
		if (*count == limits->processes) {
			errno = E2BIG;
			break;
		}
		if (*count == cap) {
			cap = cap == 0 ? 256 : cap * 2;
			if ((more = reallocarray(*list, cap, sizeof(*more))) == NULL)
				break;
			*list = more;
		}
		(*list)[*count] = (struct seen_process){(pid_t)pid, 0, NULL, 0};
		process_read(root, &(*list)[(*count)++]);
	}
	closedir(dir);
	if (entry == NULL && errno == 0)
		return 0;
	processes_free(*list, *count);
	*list = NULL;
	*count = 0;
	return -1;
}

void
processes_free(struct seen_process *list, size_t count)
{
	while (count > 0)
		free(list[--count].words);
	free(list);
}

static const struct seen_process *
find(const struct seen_process *list, size_t count, pid_t pid)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (list[i].pid == pid)
			return &list[i];
	return NULL;
}

/* Whether the process is one of ${own}, or was started by one. */
static bool
is_own(const struct seen_process *list, size_t count, const struct seen_process *p,
    const pid_t *own, size_t own_count)
{
	unsigned steps;
	size_t i;

	for (steps = 0; p != NULL && steps < 64; steps++, p = find(list, count, p->parent))
		for (i = 0; i < own_count; i++)
			if (p->pid == own[i])
				return true;
	return false;
}

int
agents_each(int root, const struct agents_limits *limits, const pid_t *own, size_t own_count,
    void (*fn)(void *ctx, const struct agent *agent), void *ctx, struct refusal *r)
{
	struct owner_tables *tables = owner_open(root);
	struct seen_process *list = NULL;
	struct owner_status status;
	struct agent agent;
	size_t i, count = 0;

	if (tables == NULL || processes_read(root, limits, &list, &count) != 0) {
		owner_close(tables);
		return refusal_errno(r, "agents.failed", "the processes could not all be read");
	}
	for (i = 0; i < count; i++) {
		memset(&agent, 0, sizeof(agent));
		if ((agent.signature = signature_of(&list[i], &agent.evidence)) == NULL ||
		    is_own(list, count, &list[i], own, own_count))
			continue;
		agent.pid = list[i].pid;
		if (owner_process(tables, agent.pid, &status, &agent.owner))
			snprintf(agent.user, sizeof(agent.user), "%s",
			    owner_account(tables, status.uid));
		command_show(&list[i], limits->command, agent.command);
		unit_of(root, agent.pid, agent.unit);
		fn(ctx, &agent);
	}
	processes_free(list, count);
	owner_close(tables);
	return 0;
}
