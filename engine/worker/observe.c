/* observe.c: the table of read-only questions, and the wall that every one of them stands behind.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/act.h"
#include "engine/worker/observe.h"

static const struct observe_op *const ops[] = {
    &observe_folders,
    &observe_journal,
    &observe_logins,
    &observe_cert,
    &observe_services,
    &observe_timers,
    &observe_listeners,
    &observe_packages,
    &observe_firewall,
    &observe_load,
    &observe_disks,
    &observe_users,
    &observe_processes,
    &observe_kernel,
    &observe_grants,
    &observe_grant_drop,
    &observe_reach,
    &observe_op_list,
    &act_file_put,
    &act_file_move,
    &act_service_restart,
    &act_tree_checkout,
    &act_git_fetch,
    &act_k8s_set_image,
    &act_container_pull,
    &act_package_install,
    &act_user_lock,
};

const struct observe_op *
observe_at(size_t i)
{
	return i < sizeof(ops) / sizeof(ops[0]) ? ops[i] : NULL;
}

const struct observe_op *
observe_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i]->name, name) == 0)
			return ops[i];
	}
	return NULL;
}

int
observe_check(const char *name, int nargs, const struct observe_word *args,
    struct observe_args *canon, struct refusal *refusal)
{
	const struct observe_op *op = observe_find(name);
	char words[OBSERVE_ARGS_MAX][OBSERVE_ARG_MAX];
	const char *list[OBSERVE_ARGS_MAX];
	int i;

	memset(canon, 0, sizeof(*canon));
	if (op == NULL)
		return refusal_set(refusal, "op.unknown", "there is no op of this name");
	if (nargs < op->args_min || nargs > op->args_max)
		return refusal_set(refusal, "observe.args", "%s is asked with: %s", op->name,
		    op->args_max == 0 ? "nothing else" : op->usage);
	for (i = 0; i < nargs; i++) {
		if (args[i].len == 0 || args[i].len >= OBSERVE_ARG_MAX)
			return refusal_set(refusal, "observe.args",
			    "argument %d is empty or longer than %d bytes", i + 1,
			    OBSERVE_ARG_MAX - 1);
		if (memchr(args[i].text, '\0', args[i].len) != NULL)
			return refusal_set(
			    refusal, "observe.args", "argument %d holds a NUL character", i + 1);
		memcpy(words[i], args[i].text, args[i].len);
		words[i][args[i].len] = '\0';
		list[i] = words[i];
	}
	return op->check(nargs, list, canon, refusal);
}

int
observe_no_args(
    int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	(void)nargs;
	(void)args;
	(void)refusal;
	canon->n = 0;
	return 0;
}

int
observe_number(const char *text, int64_t low, int64_t high, const char *code, const char *what,
    int64_t *value, struct refusal *refusal)
{
	size_t len = strlen(text);

	if (len >= 1 && len <= 9 && strspn(text, "0123456789") == len) {
		*value = strtoll(text, NULL, 10);
		if (*value >= low && *value <= high)
			return 0;
	}
	return refusal_set(refusal, code, "%s is a whole number from %lld to %lld", what,
	    (long long)low, (long long)high);
}

void
observe_defaults(struct observe_limits *limits, struct observe_env *env)
{
	*limits = (struct observe_limits){
	    .folders_max = 25,
	    .folders_budget_ms = 20000,
	    .journal_lines = 5000,
	    .journal_bytes = 200000,
	    .logins_lines = 50000,
	    .logins_ranked = 20,
	    .rows_max = 500,
	    .cert_ms = 5000,
	    .image_bytes = INT64_C(10) << 30,
	    .tool_ms = 30000,
	    .frame_max = 1048576,
	    .memory_max = INT64_C(4) << 30,
	    .kill_ms = 3000,
	};
	*env = (struct observe_env){
	    .journalctl = "/usr/bin/journalctl",
	    .systemctl = "/usr/bin/systemctl",
	    .ss = "/usr/bin/ss",
	    .nft = "/usr/sbin/nft",
	    .dpkg_query = "/usr/bin/dpkg-query",
	    .git = "/usr/bin/git",
	    .apt_get = "/usr/bin/apt-get",
	    .usermod = "/usr/sbin/usermod",
	    .kubectl = "/usr/bin/kubectl",
	    .kubeconfig = "/etc/bastion/kubeconfig",
	    .skopeo = "/usr/bin/skopeo",
	    .registries = "/etc/bastion/registries.json",
	    .root = "",
	    .journal = "/var/log/journal:/run/log/journal",
	    .trust = "",
	};
}

/* Root reads every journal; others do as members of the group that owns it. */
static int
may_read(const struct observe_env *env)
{
	struct group *journal;
	gid_t groups[256];
	int i, n;

	if (geteuid() == 0)
		return 1;
	if ((journal = getgrnam(env->readers)) == NULL)
		return 0;
	if (getegid() == journal->gr_gid)
		return 1;
	n = getgroups(sizeof(groups) / sizeof(groups[0]), groups);
	for (i = 0; i < n; i++) {
		if (groups[i] == journal->gr_gid)
			return 1;
	}
	return 0;
}

/* Does ${fd}, a directory, which this closes, hold a file of the journal? */
static int
holds_journal(int fd)
{
	struct dirent *e;
	size_t len;
	DIR *d;
	int found = 0;

	if ((d = fdopendir(fd)) == NULL) {
		close(fd);
		return 0;
	}
	while (!found && (e = readdir(d)) != NULL) {
		len = strlen(e->d_name);
		found = len > 8 && strcmp(e->d_name + len - 8, ".journal") == 0;
	}
	closedir(d);
	return found;
}

/* journald keeps its files in a folder of the machine's id below ${path}. */
static int
journal_below(const char *path)
{
	struct dirent *e;
	DIR *d;
	int fd, found = 0;

	if ((d = opendir(path)) == NULL)
		return 0;
	while (!found && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		found = fd != -1 && holds_journal(fd);
	}
	closedir(d);
	return found;
}

int
observe_journal_reader(const struct observe_env *env, char *why, size_t whylen)
{
	char dirs[OBSERVE_PATH_MAX], *dir, *rest;

	if (access(env->journalctl, X_OK) != 0) {
		snprintf(why, whylen, "this machine has no journalctl");
		return 0;
	}
	if (!may_read(env)) {
		snprintf(why, whylen,
		    "bastion may not read the system journal: it is neither root nor in the group "
		    "systemd-journal");
		return 0;
	}

	/* journalctl itself says nothing, with success, where there is no journal at all. */
	snprintf(dirs, sizeof(dirs), "%s", env->journal);
	for (dir = strtok_r(dirs, ":", &rest); dir != NULL; dir = strtok_r(NULL, ":", &rest)) {
		if (journal_below(dir))
			return 1;
	}
	snprintf(why, whylen, "this machine keeps no system journal");
	return 0;
}
