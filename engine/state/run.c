/* run.c: runs with an internet lane of their own. */
#include <unistd.h>

#include "engine/state/egress.h"
#include "engine/state/run.h"

#define NOT_YET                                                                                    \
	" NOT EXISTS (SELECT 1 FROM egress_rule AS r WHERE r.state = 'active' AND r.run_id = :run" \
	"   AND r.verdict = w.verdict AND r.suffix = w.suffix AND r.port = w.port)"

static const char RULE[] =
    "INSERT INTO egress_rule (verdict, suffix, port, made_at, made_by_uid, run_id)"
    " SELECT verdict, suffix, port, now_ms(), :by, :run"
    "   FROM (SELECT :verdict AS verdict, :suffix AS suffix, :port AS port) AS w WHERE" NOT_YET;
static const char PRESET[] =
    "INSERT INTO egress_rule (verdict, suffix, port, made_at, made_by_uid, run_id)"
    " SELECT verdict, suffix, port, now_ms(), :by, :run"
    "   FROM (SELECT 'allow' AS verdict, suffix, port FROM egress_preset WHERE name = :name) AS w"
    "  WHERE" NOT_YET;

static const char OF[] =
    "SELECT count(*) FROM sandbox_run WHERE id = :id AND process_id = :process";

static const char PORT[] =
    "INSERT INTO run_port (run_id, port, inside) VALUES (:run, :port, :inside)";

static int
rule_insert(struct store *db, int64_t id, const struct run_rule *rule)
{
	struct stmt *q;

	if ((rule->suffix == NULL && egress_preset_known(db, rule->preset) != 0) ||
	    (q = store_sql(db, rule->suffix == NULL ? PRESET : RULE)) == NULL)
		return -1;
	stmt_int(q, ":run", id);
	stmt_int(q, ":by", getuid());
	if (rule->suffix == NULL) {
		stmt_text(q, ":name", rule->preset);
		return stmt_run(q);
	}
	stmt_text(q, ":verdict", rule->deny ? "deny" : "allow");
	stmt_text(q, ":suffix", rule->suffix);
	stmt_int(q, ":port", rule->port);
	return stmt_run(q);
}

static int
port_insert(struct store *db, int64_t id, const struct run_port *port)
{
	struct stmt *q = store_sql(db, PORT);

	if (q == NULL)
		return -1;
	stmt_int(q, ":run", id);
	stmt_int(q, ":port", port->port);
	stmt_int(q, ":inside", port->inside);
	return stmt_run_one(q);
}

/* What stands beside the row of a run. */
static int
beside(struct store *db, const struct run_ask *ask, int64_t id)
{
	size_t i;

	for (i = 0; i < ask->rule_count; i++)
		if (rule_insert(db, id, &ask->rules[i]) != 0)
			return -1;
	for (i = 0; i < ask->port_count; i++)
		if (port_insert(db, id, &ask->ports[i]) != 0)
			return -1;
	return 0;
}

int
run_begin(struct store *db, const struct run_ask *ask, char nonce[SANDBOX_NONCE_SIZE], int64_t *id)
{
	if (store_begin(db) != 0)
		return -1;
	if (sandbox_run_insert(db, &ask->sandbox, nonce, id) != 0 || beside(db, ask, *id) != 0)
		return store_rollback(db);
	return 0;
}

int
run_insert_as(
    struct store *db, const struct run_ask *ask, int64_t process, const char *nonce, int64_t *id)
{
	if (sandbox_run_insert_as(db, &ask->sandbox, process, nonce, id) != 0)
		return -1;
	return beside(db, ask, *id);
}

int
run_of(struct store *db, int64_t id, int64_t process)
{
	struct stmt *q = store_sql(db, OF);

	if (q == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":process", process);
	if (stmt_value(q, 0) > 0)
		return 0;
	return refusal_set(store_refusal(db), "run.over", "there is no such run of this process");
}

int
run_rule_add(struct store *db, int64_t id, const struct run_rule *rule)
{
	if (store_begin(db) != 0)
		return -1;
	return rule_insert(db, id, rule) == 0 ? store_commit(db) : store_rollback(db);
}

void
run_limits(struct store *db, struct sandbox_limits *l)
{
	*l = (struct sandbox_limits){
	    .group = {.tasks = store_setting(db, "run.tasks"),
		.memory = store_setting(db, "run.memory")},
	    .scratch_bytes = store_setting(db, "run.scratch"),
	    .effect_bytes = store_setting(db, "sandbox.effect"),
	    .effect_files = store_setting(db, "run.files"),
	    .open_files = store_setting(db, "run.open_files"),
	};
}
