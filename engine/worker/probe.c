/* probe.c: look for the programs that ops start. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/probe.h"

static const char WRITE[] =
    "INSERT INTO verb_probe (verb, can, why, at) VALUES (:verb, :can, :why, now_ms())"
    "  ON CONFLICT DO UPDATE SET can = excluded.can, why = excluded.why, at = excluded.at";

/* An op that starts no program is not here. */
static const struct {
	const char *op;
	bool systemctl, journalctl, ss;
} needs[] = {
    {"observe:journal", true, true, false},
    {"observe:logins", false, true, false},
    {"observe:cert", false, false, true},
};

static const char *
lacking(bool needed, const char *path)
{
	return needed && access(path, X_OK) != 0 ? path : NULL;
}

const char *
probe_lacks(const char *op, const struct observe_env *env)
{
	const char *lack = NULL;
	size_t i;

	for (i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		if (strcmp(needs[i].op, op) != 0)
			continue;
		if ((lack = lacking(needs[i].systemctl, env->systemctl)) == NULL &&
		    (lack = lacking(needs[i].journalctl, env->journalctl)) == NULL)
			lack = lacking(needs[i].ss, env->ss);
	}
	return lack;
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
	stmt_text(q, ":verb", op);
	stmt_int(q, ":can", lack == NULL);
	stmt_text(q, ":why", why);
	return stmt_run_one(q);
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
