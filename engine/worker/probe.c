/* probe.c: look for the programs that ops start. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/probe.h"

static const char WRITE[] =
    "INSERT INTO op_probe (op, works, why, probed_at) VALUES (:op, :why = '', :why, now_ms())"
    "  ON CONFLICT DO UPDATE SET works = excluded.works, why = excluded.why,"
    "    probed_at = excluded.probed_at WHERE op_probe.why <> excluded.why";

#define NEED(op, tool, field)                                 \
	{                                                     \
		op, tool, offsetof(struct observe_env, field) \
	}

static const struct probe_need needs[] = {
    NEED("observe:journal", "systemctl", systemctl),
    NEED("observe:journal", "journalctl", journalctl),
    NEED("observe:logins", "journalctl", journalctl),
    NEED("observe:cert", "ss", ss),
    NEED("service:restart", "systemctl", systemctl),
    NEED("tree:checkout", "git", git),
    NEED("git:fetch", "git", git),
    NEED("k8s:set_image", "kubectl", kubectl),
    NEED("container:pull", "skopeo", skopeo),
    NEED("package:install", "apt-get", apt_get),
    NEED("user:lock", "usermod", usermod),
};

const struct probe_need *
probe_need_at(size_t i)
{
	return i < sizeof(needs) / sizeof(needs[0]) ? &needs[i] : NULL;
}

const char *
probe_lacks(const char *op, const struct observe_env *env)
{
	size_t i;

	for (i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (strcmp(needs[i].op, op) == 0 &&
		    access((const char *)env + needs[i].path, X_OK) != 0)
			return needs[i].tool;
	return NULL;
}

static int
write_one(struct store *db, const char *op, const char *lack)
{
	char why[256] = "";
	struct stmt *q;

	if (lack != NULL)
		snprintf(why, sizeof(why), "this machine has no %s", lack);
	if ((q = store_sql(db, WRITE)) == NULL)
		return -1;
	stmt_text(q, ":op", op);
	stmt_text(q, ":why", why);
	return stmt_run(q);
}

int
probe_write(struct store *db, const struct observe_env *env)
{
	const struct observe_op *op;
	size_t i;

	if (store_begin_soft(db) != 0)
		return -1;
	for (i = 0; (op = observe_at(i)) != NULL; i++)
		if (write_one(db, op->name, probe_lacks(op->name, env)) != 0)
			return store_rollback(db);
	return store_commit(db);
}
