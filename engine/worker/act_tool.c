/* act_tool.c: verbs that are other programs' work: each looks first, then has it done. */
#include <ctype.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/worker/act.h"
#include "engine/worker/answer.h"
#include "engine/worker/probe.h"
#include "engine/worker/tool.h"

#define NAME_LEN 128
#define PATH_LEN 255
#define UNIT_LEN 112

static const char ITEM_TABLE[] = "CREATE TABLE item (change, name)";
static const char ITEM_ADD[] = "INSERT INTO item VALUES (?1, ?2)";

static const char RESTARTED[] =
    "SELECT json_object('unit', ?1, 'dry', json(iif(?2, 'true', 'false')), 'before', ?3, 'after', ?4)";

static const char CHECKED_OUT[] =
    "SELECT json_object('tree', ?1, 'ref', ?2, 'dry', json(iif(?3, 'true', 'false')), 'head', ?4,"
    "  'commit', ?5, 'files', (SELECT json_group_array(json_object('change', change, 'path', name))"
    "    FROM (SELECT * FROM item ORDER BY name LIMIT ?6)),"
    "  'more', max(0, (SELECT count(*) FROM item) - ?6))";

static const char INSTALLED[] =
    "SELECT json_object('package', ?1, 'dry', json(iif(?2, 'true', 'false')),"
    "  'installs', (SELECT json_group_array(name) FROM (SELECT name FROM item WHERE change = 'Inst'"
    "    ORDER BY name LIMIT ?3)),"
    "  'removes', (SELECT json_group_array(name) FROM (SELECT name FROM item WHERE change = 'Remv'"
    "    ORDER BY name LIMIT ?3)))";

static const char LOCKED[] =
    "SELECT json_object('user', ?1, 'uid', ?2, 'dry', json(iif(?3, 'true', 'false')))";

/* What a run holds while it works. */
struct work {
	const struct observe_args *args;
	const struct observe_limits *limits;
	const struct observe_env *env;
	struct answer *out;
	struct refusal refusal;
	int failed;
	char first[NAME_LEN]; /* the first line of a short answer */
};

static int
take_first(void *ctx, const char *line, size_t len)
{
	struct work *w = ctx;

	if (w->first[0] == '\0')
		snprintf(w->first, sizeof(w->first), "%.*s", (int)len, line);
	return 0;
}

/* Run ${which} on ${fill}, line by line.  Return 0, or -1 with why in w->refusal. */
static int
work_run(struct work *w, enum tool which, const struct tool_fill *fill,
    int (*take)(void *, const char *, size_t))
{
	struct tool_lines lines = {.line = take, .ctx = w};
	char why[REFUSAL_WHY_MAX];

	w->first[0] = '\0';
	if (tool_run(which, w->env, fill, w->limits->tool_ms, tool_lines_sink, &lines, why,
		sizeof(why)) == -1)
		return refusal_set(&w->refusal, "act.failed", "%s", why);
	tool_lines_end(&lines);
	return w->failed ? refusal_set(&w->refusal, "act.failed", "the answer could not be made")
			 : 0;
}

/* Say that this machine cannot do it, which is nobody's fault. */
static bool
missing(struct work *w, const char *op)
{
	const char *lack = probe_lacks(op, w->env);

	if (lack == NULL)
		return false;
	refusal_set(&w->refusal, "act.tool", "this machine has no %s", lack);
	return true;
}

static int
ends(struct work *w, int rc)
{
	if (rc == 0)
		return OBSERVE_DONE;
	return answer_refused(w->out, &w->refusal,
	    strcmp(w->refusal.code, "act.tool") == 0     ? OBSERVE_MISSING
	    : strcmp(w->refusal.code, "act.failed") == 0 ? OBSERVE_FAILED
							 : OBSERVE_WRONG);
}

static struct work
work_of(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	return (struct work){.args = args,
	    .limits = limits,
	    .env = env,
	    .out = out,
	    .refusal = {.code = "act.failed", .why = "the answer could not be made"}};
}

/* Letters and digits of ASCII and ${more}, the first of them no punctuation. */
static bool
is_word(const char *text, const char *more, size_t most)
{
	size_t i;

	for (i = 0; text[i] != '\0'; i++)
		if (!isascii((unsigned char)text[i]) ||
		    (!isalnum((unsigned char)text[i]) && (i == 0 || strchr(more, text[i]) == NULL)))
			return false;
	return i >= 1 && i <= most;
}

static int
canon_one(const char *const *args, struct observe_args *canon)
{
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s", args[0]);
	canon->n = 1;
	return 0;
}

/*
 * Services.
 */

static int
check_restart(
    int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	char unit[UNIT_LEN + 16];

	(void)nargs;
	if (!is_word(args[0], ":-_.\\@", UNIT_LEN))
		return refusal_set(
		    refusal, "act.unit", "a service has a name of letters, digits and :-_.\\@");
	snprintf(unit, sizeof(unit), "%s%s", args[0],
	    strlen(args[0]) > 8 && strcmp(args[0] + strlen(args[0]) - 8, ".service") == 0
		? ""
		: ".service");
	if (strlen(unit) > UNIT_LEN)
		return refusal_set(
		    refusal, "act.unit", "a service has a name of at most %d bytes", UNIT_LEN);
	if (strncmp(unit, "bastion", 7) == 0)
		return refusal_set(refusal, "act.own", "bastion does not restart itself");
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s", unit);
	canon->n = 1;
	return 0;
}

/* "active running" and the like, in ${state}. */
static int
unit_state(struct work *w, const struct tool_fill *fill, char state[NAME_LEN])
{
	if (work_run(w, TOOL_UNIT_SHOW, fill, take_first) != 0)
		return -1;
	snprintf(state, NAME_LEN, "%s", w->first);
	return 0;
}

static int
restart(struct work *w)
{
	const struct tool_fill fill = {.name = w->args->v[0]};
	char before[NAME_LEN], after[NAME_LEN] = "", loaded[NAME_LEN];

	if (missing(w, "service:restart"))
		return -1;
	if (work_run(w, TOOL_UNIT_LOADED, &fill, take_first) != 0)
		return -1;
	snprintf(loaded, sizeof(loaded), "%s", w->first);
	if (strcmp(loaded, "loaded") != 0)
		return refusal_set(&w->refusal, "act.unit", "there is no such service here");
	if (unit_state(w, &fill, before) != 0)
		return -1;
	if (!w->args->dry && (work_run(w, TOOL_UNIT_RESTART, &fill, take_first) != 0 ||
				 unit_state(w, &fill, after) != 0))
		return -1;
	return answer_result(w->out, RESTARTED, "titt", w->args->v[0], (int64_t)w->args->dry,
	    before, w->args->dry ? NULL : after);
}

static int
run_restart(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return ends(&w, restart(&w));
}

/*
 * Trees.
 */

static int
check_checkout(
    int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	(void)nargs;
	if (act_path_check(args[0], refusal) != 0)
		return -1;
	if (strlen(args[0]) > PATH_LEN)
		return refusal_set(
		    refusal, "act.path", "the path of a tree has at most %d bytes", PATH_LEN);
	if (!is_word(args[1], "-_./", NAME_LEN) || strstr(args[1], "..") != NULL)
		return refusal_set(refusal, "act.ref",
		    "a ref is at most %d letters, digits and - _ . / without ..", NAME_LEN);
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s", args[0]);
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
	static const char *const below[] = {"remote.", "branch.", "user.", "color."};
	struct work *w = ctx;
	char name[NAME_LEN];
	size_t i;

	snprintf(name, sizeof(name), "%.*s", (int)len, line);
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
	w->failed = w->failed || answer_rows(w->out, ITEM_ADD, "tt", change, name) == -1;
	return w->failed;
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

static int
tree_look(struct work *w, const struct tool_fill *fill, char head[NAME_LEN], char commit[NAME_LEN])
{
	const struct tool_fill now = {.path = fill->path, .name = "HEAD"};

	if (work_run(w, TOOL_TREE_CONFIG, fill, take_config) != 0)
		return -1;
	if (w->first[0] != '\0')
		return refusal_set(&w->refusal, "act.tree",
		    "the configuration of this tree says more than where it is from; it could start programs");
	if (work_run(w, TOOL_TREE_COMMIT, &now, take_first) != 0)
		return -1;
	snprintf(head, NAME_LEN, "%s", w->first);
	if (work_run(w, TOOL_TREE_COMMIT, fill, take_first) != 0)
		return refusal_set(&w->refusal, "act.ref", "this tree has no such ref");
	snprintf(commit, NAME_LEN, "%s", w->first);
	if (answer_rows(w->out, ITEM_TABLE, "") == -1)
		return -1;
	return work_run(w, TOOL_TREE_DIFF, fill, take_change);
}

static int
checkout(struct work *w)
{
	const struct tool_fill fill = {.path = w->args->v[0], .name = w->args->v[1]};
	char head[NAME_LEN], commit[NAME_LEN];

	if (missing(w, "tree:checkout") || tree_is_ours(w) != 0 ||
	    tree_look(w, &fill, head, commit) != 0)
		return -1;
	/* The commit that was looked at, not what the ref has become since. */
	if (!w->args->dry &&
	    work_run(w, TOOL_TREE_CHECKOUT, &(struct tool_fill){.path = fill.path, .name = commit},
		take_first) != 0)
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

	return ends(&w, checkout(&w));
}

/*
 * Packages.
 */

static int
check_install(
    int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	(void)nargs;
	/* A "+" or "-" at the end would be a wish of its own to apt-get. */
	if (!is_word(args[0], "+-.", 64) || strchr("+-", args[0][strlen(args[0]) - 1]) != NULL)
		return refusal_set(refusal, "act.package",
		    "a package has a name of at most 64 letters, digits and + - . within");
	return canon_one(args, canon);
}

/* "Inst NAME …" and "Remv NAME …" of a simulation. */
static int
take_plan(void *ctx, const char *line, size_t len)
{
	struct work *w = ctx;
	char change[5] = "", name[NAME_LEN] = "";

	if (len < 6 || (memcmp(line, "Inst ", 5) != 0 && memcmp(line, "Remv ", 5) != 0))
		return 0;
	memcpy(change, line, 4);
	snprintf(name, sizeof(name), "%.*s", (int)(len - 5), line + 5);
	name[strcspn(name, " ")] = '\0';
	w->failed = w->failed || answer_rows(w->out, ITEM_ADD, "tt", change, name) == -1;
	return w->failed;
}

static int
install(struct work *w)
{
	const struct tool_fill fill = {.name = w->args->v[0]};

	if (missing(w, "package:install") || answer_rows(w->out, ITEM_TABLE, "") == -1)
		return -1;
	if (work_run(w, TOOL_PACKAGE_PLAN, &fill, take_plan) != 0)
		return refusal_set(
		    &w->refusal, "act.package", "apt-get knows no way to install this package");
	if (!w->args->dry && work_run(w, TOOL_PACKAGE_INSTALL, &fill, take_first) != 0)
		return -1;
	return answer_result(
	    w->out, INSTALLED, "tii", w->args->v[0], (int64_t)w->args->dry, w->limits->rows_max);
}

static int
run_install(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return ends(&w, install(&w));
}

/*
 * Users.
 */

static int
check_lock(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	(void)nargs;
	if (!is_word(args[0], "._-", 32))
		return refusal_set(refusal, "act.user",
		    "an account has a name of at most 32 letters, digits and . _ -");
	return canon_one(args, canon);
}

static int
lock(struct work *w)
{
	const struct tool_fill fill = {.name = w->args->v[0]};
	const struct passwd *who;

	if (missing(w, "user:lock"))
		return -1;
	if ((who = getpwnam(w->args->v[0])) == NULL)
		return refusal_set(&w->refusal, "act.user", "there is no such account here");
	if (who->pw_uid == 0 || who->pw_uid == geteuid())
		return refusal_set(&w->refusal, "act.user",
		    "neither root nor the account that bastion runs as is locked");
	if (!w->args->dry && work_run(w, TOOL_USER_LOCK, &fill, take_first) != 0)
		return -1;
	return answer_result(
	    w->out, LOCKED, "tii", w->args->v[0], (int64_t)who->pw_uid, (int64_t)w->args->dry);
}

static int
run_lock(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return ends(&w, lock(&w));
}

const struct observe_op act_service_restart = {
    .name = "service:restart",
    .usage = "SERVICE",
    .summary = "restart a service of systemd",
    .args_min = 1,
    .args_max = 1,
    .acts = true,
    .check = check_restart,
    .run = run_restart,
};

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

const struct observe_op act_package_install = {
    .name = "package:install",
    .usage = "PACKAGE",
    .summary = "install a Debian package with what it needs",
    .args_min = 1,
    .args_max = 1,
    .acts = true,
    .check = check_install,
    .run = run_install,
};

const struct observe_op act_user_lock = {
    .name = "user:lock",
    .usage = "ACCOUNT",
    .summary = "lock the password of an account",
    .args_min = 1,
    .args_max = 1,
    .acts = true,
    .check = check_lock,
    .run = run_lock,
};
