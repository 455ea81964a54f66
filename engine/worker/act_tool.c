/* act_tool.c: verbs that are other programs' work: each looks first, then has it done. */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/act.h"
#include "engine/worker/work.h"

#define UNIT_LEN 112

static const char RESTARTED[] =
    "SELECT json_object('unit', ?1, 'dry', json(iif(?2, 'true', 'false')), 'before', ?3, 'after', ?4)";

static const char INSTALLED[] =
    "SELECT json_object('package', ?1, 'dry', json(iif(?2, 'true', 'false')),"
    "  'installs', (SELECT json_group_array(name) FROM (SELECT name FROM item WHERE change = 'Inst'"
    "    ORDER BY name LIMIT ?3)),"
    "  'removes', (SELECT json_group_array(name) FROM (SELECT name FROM item WHERE change = 'Remv'"
    "    ORDER BY name LIMIT ?3)))";

static const char LOCKED[] =
    "SELECT json_object('user', ?1, 'uid', ?2, 'dry', json(iif(?3, 'true', 'false')))";

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
	if (!work_word(args[0], ":-_.\\@", UNIT_LEN))
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
unit_state(struct work *w, const struct tool_fill *fill, char state[WORK_NAME])
{
	if (work_run(w, TOOL_UNIT_SHOW, fill, work_first) != 0)
		return -1;
	snprintf(state, WORK_NAME, "%.*s", WORK_NAME - 1, w->first);
	return 0;
}

static int
restart(struct work *w)
{
	const struct tool_fill fill = {.name = w->args->v[0]};
	char before[WORK_NAME], after[WORK_NAME] = "", loaded[WORK_NAME];

	if (work_lacks(w, "service:restart"))
		return -1;
	if (work_run(w, TOOL_UNIT_LOADED, &fill, work_first) != 0)
		return -1;
	snprintf(loaded, sizeof(loaded), "%.*s", WORK_NAME - 1, w->first);
	if (strcmp(loaded, "loaded") != 0)
		return refusal_set(&w->refusal, "act.unit", "there is no such service here");
	if (unit_state(w, &fill, before) != 0)
		return -1;
	if (!w->args->dry && (work_run(w, TOOL_UNIT_RESTART, &fill, work_first) != 0 ||
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

	return work_ends(&w, restart(&w));
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
	if (!work_word(args[0], "+-.", 64) || strchr("+-", args[0][strlen(args[0]) - 1]) != NULL)
		return refusal_set(refusal, "act.package",
		    "a package has a name of at most 64 letters, digits and + - . within");
	return canon_one(args, canon);
}

/* "Inst NAME …" and "Remv NAME …" of a simulation. */
static int
take_plan(void *ctx, const char *line, size_t len)
{
	struct work *w = ctx;
	char change[5] = "", name[WORK_NAME] = "";

	if (len < 6 || (memcmp(line, "Inst ", 5) != 0 && memcmp(line, "Remv ", 5) != 0))
		return 0;
	memcpy(change, line, 4);
	snprintf(name, sizeof(name), "%.*s", (int)(len - 5), line + 5);
	name[strcspn(name, " ")] = '\0';
	return work_item(w, change, name);
}

static int
install(struct work *w)
{
	const struct tool_fill fill = {.name = w->args->v[0]};
	int rc;

	if (work_lacks(w, "package:install") || work_items(w) == -1)
		return -1;
	if ((rc = work_run(w, TOOL_PACKAGE_PLAN, &fill, take_plan)) == TOOL_ABSENT)
		return refusal_set(
		    &w->refusal, "act.package", "apt-get knows no way to install this package");
	if (rc != 0)
		return -1;
	if (!w->args->dry && work_run(w, TOOL_PACKAGE_INSTALL, &fill, work_first) != 0)
		return -1;
	return answer_result(
	    w->out, INSTALLED, "tii", w->args->v[0], (int64_t)w->args->dry, w->limits->rows_max);
}

static int
run_install(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return work_ends(&w, install(&w));
}

/*
 * Users.
 */

static int
check_lock(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	(void)nargs;
	if (!work_word(args[0], "._-", 32))
		return refusal_set(refusal, "act.user",
		    "an account has a name of at most 32 letters, digits and . _ -");
	return canon_one(args, canon);
}

static int
lock(struct work *w)
{
	const struct tool_fill fill = {.name = w->args->v[0]};
	const struct passwd *who;

	if (work_lacks(w, "user:lock"))
		return -1;
	if ((who = getpwnam(w->args->v[0])) == NULL)
		return refusal_set(&w->refusal, "act.user", "there is no such account here");
	if (who->pw_uid == 0 || who->pw_uid == geteuid())
		return refusal_set(&w->refusal, "act.user",
		    "neither root nor the account that bastion runs as is locked");
	if (!w->args->dry && work_run(w, TOOL_USER_LOCK, &fill, work_first) != 0)
		return -1;
	return answer_result(
	    w->out, LOCKED, "tii", w->args->v[0], (int64_t)who->pw_uid, (int64_t)w->args->dry);
}

static int
run_lock(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return work_ends(&w, lock(&w));
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
