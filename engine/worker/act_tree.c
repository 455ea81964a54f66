/* act_tree.c: trees of git: a commit that is there is checked out; branches are fetched from where
 * the tree is from. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/worker/act.h"
#include "engine/worker/dial.h"
#include "engine/worker/work.h"

#define PATH_LEN 255

static const char CHECKED_OUT[] =
    "SELECT json_object('tree', ?1, 'ref', ?2, 'dry', json(iif(?3, 'true', 'false')), 'head', ?4,"
    "  'commit', ?5, 'files', (SELECT json_group_array(json_object('change', change, 'path', name))"
    "    FROM (SELECT * FROM item ORDER BY name LIMIT ?6)),"
    "  'more', max(0, (SELECT count(*) FROM item) - ?6))";

static const char REF_TABLE[] = "CREATE TABLE ref (side, name, id)";
static const char REF_ADD[] = "INSERT INTO ref VALUES (?1, ?2, ?3)";

static const char FETCHED[] =
    "WITH moved AS (SELECT t.name, h.id AS before, t.id AS after FROM ref AS t"
    "    LEFT JOIN ref AS h ON h.side = 'here' AND h.name = t.name"
    "   WHERE t.side = 'there' AND h.id IS NOT t.id)"
    "SELECT json_object('tree', ?1, 'from', ?2, 'dry', json(iif(?3, 'true', 'false')), 'refs',"
    "  (SELECT json_group_array(json_object('ref', name, 'before', before, 'after', after))"
    "    FROM (SELECT * FROM moved ORDER BY name LIMIT ?4)),"
    "  'more', max(0, (SELECT count(*) FROM moved) - ?4))";

static int
check_tree(const char *path, struct observe_args *canon, struct refusal *refusal)
{
	if (act_path_check(path, refusal) != 0)
		return -1;
	if (strlen(path) > PATH_LEN)
		return refusal_set(
		    refusal, "act.path", "the path of a tree has at most %d bytes", PATH_LEN);
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s", path);
	return 0;
}

static int
check_checkout(
    int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	(void)nargs;
	if (check_tree(args[0], canon, refusal) != 0)
		return -1;
	if (!work_word(args[1], "-_./", WORK_NAME) || strstr(args[1], "..") != NULL)
		return refusal_set(refusal, "act.ref",
		    "a ref is at most %d letters, digits and - _ . / without ..", WORK_NAME);
	snprintf(canon->v[1], sizeof(canon->v[1]), "%s", args[1]);
	canon->n = 2;
	return 0;
}

/* What a tree's own configuration may say: nothing that starts a program or leads elsewhere. */
static int
take_config(void *ctx, const char *line, size_t len)
{
	static const char *const fine[] = {"core.repositoryformatversion", "core.filemode",
	    "core.bare", "core.logallrefupdates", "core.ignorecase", "core.precomposeunicode",
	    "core.autocrlf", "core.eol", "extensions.objectformat", "gc.auto", "pull.rebase",
	    "init.defaultbranch"};
	static const char *const below[] = {"branch.", "user.", "color."};
	/* Others name programs, or a way around the one that is looked at. */
	static const char *const remote[] = {".url", ".pushurl", ".fetch", ".tagopt", ".prune"};
	struct work *w = ctx;
	char name[TOOL_ARG_MAX];
	const char *dot;
	size_t i;

	/* (What is cut could end like one of them.) */
	snprintf(name, sizeof(name), "%.*s", len < sizeof(name) ? (int)len : 1,
	    len < sizeof(name) ? line : "?");
	dot = strrchr(name, '.');
	for (i = 0; i < sizeof(remote) / sizeof(remote[0]); i++)
		if (strncmp(name, "remote.", 7) == 0 && strcmp(dot, remote[i]) == 0)
			return 0;
	for (i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		if (strcmp(name, fine[i]) == 0)
			return 0;
	for (i = 0; i < sizeof(below) / sizeof(below[0]); i++)
		if (strncmp(name, below[i], strlen(below[i])) == 0)
			return 0;
	snprintf(w->first, sizeof(w->first), "%s", name);
	return 0;
}

static int
take_change(void *ctx, const char *line, size_t len)
{
	struct work *w = ctx;
	char change[2] = "", name[TOOL_LINE_MAX];
	const char *tab = memchr(line, '\t', len);

	if (tab == NULL)
		return 0;
	change[0] = line[0];
	snprintf(name, sizeof(name), "%.*s", (int)(len - (size_t)(tab + 1 - line)), tab + 1);
	return work_item(w, change, name);
}

/* git runs nothing for a tree of another user; neither do we. */
static int
tree_is_ours(struct work *w)
{
	char inside[OBSERVE_ARG_MAX + 8];
	const char *name;
	struct stat st, git;
	int dir, rc = 0;

	snprintf(inside, sizeof(inside), "%s/.git", w->args->v[0]);
	if ((dir = act_parent(w->env, inside, &name, &w->refusal)) == -1)
		return -1;
	if (fstat(dir, &st) == -1 || fstatat(dir, ".git", &git, AT_SYMLINK_NOFOLLOW) == -1 ||
	    !S_ISDIR(git.st_mode))
		rc = refusal_set(&w->refusal, "act.tree", "there is no git tree in this folder");
	else if (st.st_uid != geteuid() || git.st_uid != geteuid() ||
		 ((st.st_mode | git.st_mode) & (S_IWGRP | S_IWOTH)) != 0)
		rc = refusal_set(&w->refusal, "act.tree",
		    "the tree belongs to another user than bastion runs as, or others can write to it");
	close(dir);
	return rc;
}

/* Whether git may be let at the tree. */
static int
tree_is_plain(struct work *w, const char *op, const struct tool_fill *fill)
{
	if (work_lacks(w, op) || tree_is_ours(w) != 0 ||
	    work_run(w, TOOL_TREE_CONFIG, fill, take_config) != 0)
		return -1;
	if (w->first[0] != '\0')
		return refusal_set(&w->refusal, "act.tree",
		    "the configuration of this tree says more than where it is from; it could start programs");
	return 0;
}

static int
tree_look(
    struct work *w, const struct tool_fill *fill, char head[WORK_NAME], char commit[WORK_NAME])
{
	const struct tool_fill now = {.path = fill->path, .name = "HEAD"};
	int rc;

	if ((rc = work_run(w, TOOL_TREE_COMMIT, &now, work_first)) == TOOL_ABSENT)
		return refusal_set(
		    &w->refusal, "act.tree", "nothing was ever committed in this tree");
	if (rc != 0)
		return -1;
	snprintf(head, WORK_NAME, "%.*s", WORK_NAME - 1, w->first);
	if ((rc = work_run(w, TOOL_TREE_COMMIT, fill, work_first)) == TOOL_ABSENT)
		return refusal_set(&w->refusal, "act.ref", "this tree has no such ref");
	if (rc != 0)
		return -1;
	snprintf(commit, WORK_NAME, "%.*s", WORK_NAME - 1, w->first);
	if (work_items(w) == -1)
		return -1;
	return work_run(w, TOOL_TREE_DIFF, fill, take_change);
}

static int
checkout(struct work *w)
{
	const struct tool_fill fill = {.path = w->args->v[0], .name = w->args->v[1]};
	char head[WORK_NAME], commit[WORK_NAME];

	if (tree_is_plain(w, "tree:checkout", &fill) != 0 || tree_look(w, &fill, head, commit) != 0)
		return -1;
	/* The commit that was looked at, not what the ref has become since. */
	if (!w->args->dry &&
	    work_run(w, TOOL_TREE_CHECKOUT, &(struct tool_fill){.path = fill.path, .name = commit},
		work_first) != 0)
		return refusal_set(&w->refusal, "act.failed",
		    "git would not check it out: changes in the tree stand in the way");
	return answer_result(w->out, CHECKED_OUT, "ttitti", w->args->v[0], w->args->v[1],
	    (int64_t)w->args->dry, head, commit, w->limits->rows_max);
}

static int
run_checkout(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return work_ends(&w, checkout(&w));
}

/*
 * Fetching.
 */

static int
check_fetch(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	struct destination d;

	if (check_tree(args[0], canon, refusal) != 0)
		return -1;
	canon->n = nargs;
	if (nargs < 2)
		return 0;
	if (strchr(args[1], '/') != NULL || destination_read(args[1], strlen(args[1]), &d) != 0)
		return refusal_set(
		    refusal, "act.remote", "where the tree has to be from is HOST or HOST:PORT");
	snprintf(canon->v[1], sizeof(canon->v[1]), "%s", args[1]);
	return 0;
}

/* A ref's ID, a tab and its name, here or there. */
static int
take_ref(struct work *w, const char *side, const char *prefix, const char *line, size_t len)
{
	const char *tab = memchr(line, '\t', len);
	char id[WORK_NAME], name[TOOL_LINE_MAX];
	size_t skip = strlen(prefix);

	if (tab == NULL || (size_t)(tab - line) >= sizeof(id))
		return 0;
	snprintf(id, sizeof(id), "%.*s", (int)(tab - line), line);
	snprintf(name, sizeof(name), "%.*s", (int)(len - (size_t)(tab + 1 - line)), tab + 1);
	if (strncmp(name, prefix, skip) != 0 || strcmp(name + skip, "HEAD") == 0)
		return 0;
	w->failed = w->failed || answer_rows(w->out, REF_ADD, "ttt", side, name + skip, id) == -1;
	return w->failed;
}

static int
take_here(void *w, const char *line, size_t len)
{
	return take_ref(w, "here", "refs/remotes/origin/", line, len);
}

static int
take_fetched(void *w, const char *line, size_t len)
{
	return take_ref(w, "there", "refs/remotes/origin/", line, len);
}

static int
take_there(void *w, const char *line, size_t len)
{
	return take_ref(w, "there", "refs/heads/", line, len);
}

/* Names are judged and pinned, so nothing but one name in a URL without an account is taken. */
static int
origin_read(
    struct work *w, const struct tool_fill *fill, char url[WORK_LINE], struct destination *d)
{
	static const char https[] = "https://";
	const char *at;
	size_t len;
	int rc;

	if ((rc = work_run(w, TOOL_TREE_ORIGIN, fill, work_first)) == TOOL_ABSENT)
		return refusal_set(&w->refusal, "act.remote", "this tree has no origin");
	if (rc != 0)
		return -1;
	snprintf(url, WORK_LINE, "%s", w->first);
	for (at = url, len = 0; *at > 0x20 && *at < 0x7f && strchr("@?#\\", *at) == NULL; at++)
		len++;
	if (url[len] != '\0' || len >= WORK_LINE - 1 ||
	    strncmp(url, https, sizeof(https) - 1) != 0 ||
	    destination_read(url + sizeof(https) - 1, len - sizeof(https) + 1, d) != 0)
		return refusal_set(&w->refusal, "act.remote",
		    "what this tree is from is not https://HOST/PATH, without a name or password in it");
	return 0;
}

/* Older ones cannot be held to an address (http.curloptResolve). */
static int
git_pins(struct work *w)
{
	int major, minor;

	if (work_run(w, TOOL_GIT_VERSION, &(struct tool_fill){0}, work_first) != 0)
		return -1;
	if (sscanf(w->first, "git version %d.%d", &major, &minor) != 2 || major < 2 ||
	    (major == 2 && minor < 37))
		return refusal_set(&w->refusal, "act.tool",
		    "this machine's git cannot be held to an address that was judged: that takes git 2.37");
	return 0;
}

static int
fetch_pinned(struct work *w, const struct tool_fill *fill, const struct destination *d)
{
	char from[ENDPOINT_TEXT_MAX + 1];

	snprintf(from, sizeof(from), d->host.kind == ENDPOINT_IPV6 ? "[%s]:%d" : "%s:%d",
	    d->host.text, d->port);
	if (dial_holds(w, d) != 0 || answer_rows(w->out, REF_TABLE, "") == -1 ||
	    work_run(w, TOOL_TREE_REFS, fill, take_here) != 0)
		return -1;
	if (work_run(w, w->args->dry ? TOOL_TREE_LOOK : TOOL_TREE_FETCH, fill,
		w->args->dry ? take_there : work_first) != 0)
		return refusal_set(&w->refusal, "act.failed",
		    "git could not fetch from there: it does not answer, asks for a password, leads elsewhere or"
		    " has no certificate that holds");
	if (!w->args->dry && work_run(w, TOOL_TREE_REFS, fill, take_fetched) != 0)
		return -1;
	return answer_result(w->out, FETCHED, "ttii", w->args->v[0], from, (int64_t)w->args->dry,
	    w->limits->rows_max);
}

static int
fetch(struct work *w)
{
	struct destination d, asked;
	char url[WORK_LINE];
	const struct tool_fill fill = {
	    .path = w->args->v[0], .url = url, .pin = w->args->pin, .trust = w->env->trust};

	if (tree_is_plain(w, "git:fetch", &fill) != 0 || git_pins(w) != 0 ||
	    origin_read(w, &fill, url, &d) != 0)
		return -1;
	if (w->args->n > 1 &&
	    (destination_read(w->args->v[1], strlen(w->args->v[1]), &asked) != 0 ||
		strcmp(asked.host.text, d.host.text) != 0 || asked.port != d.port))
		return refusal_set(&w->refusal, "act.remote",
		    "this tree is from another place than was asked for");
	return w->args->pin[0] == '\0' ? dial_look(w, &d) : fetch_pinned(w, &fill, &d);
}

static int
run_fetch(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return work_ends(&w, fetch(&w));
}

const struct observe_op act_tree_checkout = {
    .name = "tree:checkout",
    .usage = "TREE REF",
    .summary = "check out a commit that a git tree of bastion's user has already",
    .args_min = 2,
    .args_max = 2,
    .acts = true,
    .check = check_checkout,
    .run = run_checkout,
};

const struct observe_op act_git_fetch = {
    .name = "git:fetch",
    .usage = "TREE [HOST[:PORT]]",
    .summary = "fetch the branches of a git tree of bastion's user from where it is from",
    .args_min = 1,
    .args_max = 2,
    .acts = true,
    .dials = true,
    .check = check_fetch,
    .run = run_fetch,
};
