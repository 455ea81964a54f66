/* observe_folders.c: the largest folders below a path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/answer.h"
#include "engine/worker/observe.h"
#include "engine/worker/tool.h"
#include "engine/worker/walk.h"

#define DEPTH_MAX     3
#define DEPTH_DEFAULT 2

static const char *const TABLES[] = {
    "CREATE TABLE IF NOT EXISTS folder (path TEXT, bytes INTEGER)",
    "CREATE TABLE IF NOT EXISTS skipped (path TEXT, reason TEXT, n INTEGER)",
};
static const char *const FOLDER_ADD = "INSERT INTO folder VALUES (?1, ?2)";
static const char *const SKIPPED_ADD = "INSERT INTO skipped VALUES (?1, ?2, ?3)";
static const char *const RESULT =
    "SELECT json_object('path', ?1, 'resolved', ?2, 'depth', ?3, 'total_bytes', ?4,"
    " 'files', ?5, 'folders_read', ?6,"
    " 'folders', (SELECT json_group_array(json_object('path', path, 'bytes', bytes))"
    "   FROM (SELECT path, bytes FROM folder ORDER BY bytes DESC, path LIMIT ?7)),"
    " 'not_counted', (SELECT json_group_array(json_object('path', path, 'reason', reason,"
    "   'count', n)) FROM (SELECT path, reason, n FROM skipped ORDER BY n DESC, path LIMIT ?7)),"
    " 'not_counted_more', ?8 + (SELECT coalesce(sum(n), 0) FROM (SELECT n FROM skipped"
    "   ORDER BY n DESC, path LIMIT -1 OFFSET ?7)),"
    " 'lower_bounds', json(iif(?9, 'true', 'false')), 'stuck', json(iif(?10, 'true', 'false')),"
    " 'ms', ?11)";

/* The walls' own roots; what a link leads to is looked at when the folder is open. */
static int
is_refused_root(const char *path)
{
	static const char *const roots[] = {"/proc", "/sys", "/dev"};
	size_t i, len;

	for (i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		len = strlen(roots[i]);
		if (strncmp(path, roots[i], len) == 0 && (path[len] == '\0' || path[len] == '/'))
			return 1;
	}
	return 0;
}

/* Copy ${path} without doubled slashes, "." and a slash at the end. */
static void
clean_path(const char *path, char *out)
{
	size_t o = 0, n;

	while (*path != '\0') {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n > 0 && !(n == 1 && path[0] == '.')) {
			out[o++] = '/';
			memcpy(out + o, path, n);
			o += n;
		}
		path += n;
	}
	if (o == 0)
		out[o++] = '/';
	out[o] = '\0';
}

static int
check(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	int64_t depth = DEPTH_DEFAULT;
	const char *p;

	if (args[0][0] != '/')
		return refusal_set(refusal, "observe.path", "a folder is named by its whole path");
	if (strstr(args[0], "..") != NULL)
		return refusal_set(refusal, "observe.path", "the path may not hold \"..\"");
	for (p = args[0]; *p != '\0'; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return refusal_set(
			    refusal, "observe.path", "the path may not hold control characters");
	}
	if (!answer_is_text(args[0]))
		return refusal_set(refusal, "observe.path", "the path is not UTF-8 text");
	clean_path(args[0], canon->v[0]);
	if (is_refused_root(canon->v[0]))
		return refusal_set(
		    refusal, "observe.path", "folders in /proc, /sys and /dev are not measured");
	if (nargs == 2 && observe_number(args[1], 1, DEPTH_MAX, "observe.depth", "the depth",
			      &depth, refusal) == -1)
		return -1;
	snprintf(canon->v[1], sizeof(canon->v[1]), "%lld", (long long)depth);
	canon->n = 2;
	return 0;
}

static void
add_folder(void *ctx, const char *path, int64_t bytes)
{
	answer_rows(ctx, FOLDER_ADD, "ti", path, bytes);
}

static void
add_skipped(void *ctx, const char *path, const char *reason, int64_t count)
{
	answer_rows(ctx, SKIPPED_ADD, "tti", path, reason, count);
}

/* Nothing was measured: say why. */
static int
refused(struct answer *out, int error)
{
	struct refusal why;

	if (error == WALK_REFUSED)
		refusal_set(&why, "observe.path",
		    "the path leads into /proc, /sys or /dev, which are not measured");
	else if (error == WALK_CHANGED)
		refusal_set(&why, "observe.folder", "the folder was changed for another meanwhile");
	else
		refusal_set(
		    &why, "observe.folder", "the folder cannot be opened: %s", strerror(error));
	return answer_refused(out, &why, OBSERVE_WRONG);
}

static int
tables(struct answer *out)
{
	return answer_rows(out, TABLES[0], "") == 0 && answer_rows(out, TABLES[1], "") == 0 ? 0
											    : -1;
}

static int
ready(struct answer *out)
{
	return tables(out) == 0 ? answer_ready(out, RESULT) : -1;
}

static int
run(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	const struct walk_sink sink = {add_folder, add_skipped, out};
	int64_t began = tool_now_ms(), depth = strtoll(args->v[1], NULL, 10);
	struct walk_total total;
	enum walk_end end;
	struct walk *w;
	int rc;

	(void)env;
	if (tables(out) == -1 || (w = walk_start(args->v[0], (int)depth)) == NULL)
		return OBSERVE_FAILED;
	end = walk_wait(w, limits->folders_budget_ms);
	answer_rows(out, "BEGIN", "");
	walk_report(w, (size_t)limits->folders_max, &total, &sink);
	answer_rows(out, "COMMIT", "");
	walk_free(w);
	if (total.error != 0)
		return refused(out, total.error);
	rc = answer_result(out, RESULT, "ttiiiiiiiii", args->v[0],
	    total.opened ? total.resolved : NULL, depth, total.bytes, total.files, total.folders,
	    limits->folders_max, total.unnamed, (int64_t)(end != WALK_DONE),
	    (int64_t)(end == WALK_STUCK), tool_now_ms() - began);
	return rc == 0 ? OBSERVE_DONE : OBSERVE_FAILED;
}

const struct observe_op observe_folders = {
    .name = "observe:folders",
    .usage = "PATH [DEPTH 1..3]",
    .summary = "the largest folders below a path, as du -x counts",
    .args_min = 1,
    .args_max = 2,
    .check = check,
    .ready = ready,
    .run = run,
};
