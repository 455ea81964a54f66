/* policy.c: what is found out about an ask; the gates stand in schema/policy.sql. */
#include <stdio.h>
#include <string.h>

#include "engine/policy/policy.h"

/* An ask, and its arguments, name each thing once: a reader that takes the last of two would see
 * another ask than one that takes the first.  A name that a path does not find, since it is spelt
 * with an escape, would be one that other readers see and we do not. */
static const char IS_ASK[] =
    "SELECT json_valid(:ask) AND json_type(:ask) = 'object'"
    "   AND json_type(:ask, '$.tool') = 'text'"
    "   AND coalesce(json_type(:ask, '$.args'), 'object') = 'object'"
    "   AND (SELECT count(*) = count(DISTINCT key) FROM json_each(:ask))"
    "   AND NOT EXISTS (SELECT 1 FROM json_each(:ask) WHERE key NOT GLOB '*[^a-z_]*'"
    "     AND key <> '' AND json_type(:ask, '$.' || key) IS NULL)"
    "   AND (SELECT count(*) = count(DISTINCT key) FROM json_each(:ask, '$.args'))";

static const char HEAD[] =
    "SELECT trim(coalesce(:ask ->> '$.side_effect', '')),"
    "    coalesce(:ask ->> '$.workspace', ''), coalesce(:ask ->> '$.root', ''),"
    "    (SELECT value FROM policy_now WHERE name = 'enforce_workspace') = '1'";

static const char DIRS[] = "SELECT value, 1 FROM json_each(:ask, '$.add_dirs') WHERE type = 'text'"
			   " UNION ALL SELECT path, 0 FROM policy_path WHERE kind = 'write_root'";

/* Each command: a scalar as it is, a list of words as one command. */
static const char COMMANDS[] =
    "SELECT CASE type WHEN 'array' THEN"
    "           (SELECT group_concat('''' || replace(w.value, '''', '''\\''''') || '''', ' ')"
    "              FROM json_each(e.value) AS w WHERE w.atom IS NOT NULL)"
    "       ELSE trim(value, char(32, 9, 10, 13)) END"
    "  FROM json_each(:ask, '$.args') AS e"
    " WHERE key IN ('command', 'cmd', 'script', 'shell') AND type NOT IN ('null', 'object')";

/* Paths, in the order in which a grant would take its scope from them. */
static const char PATHS[] =
    "SELECT trim(value, char(32, 9, 10, 13)) FROM json_each(:ask, '$.args')"
    " WHERE key IN ('path', 'file', 'file_path', 'filepath', 'filename', 'directory', 'dir', 'cwd')"
    "   AND type = 'text' AND trim(value, char(32, 9, 10, 13)) <> ''"
    " ORDER BY CASE key WHEN 'path' THEN 1 WHEN 'file' THEN 2 WHEN 'file_path' THEN 3"
    "   WHEN 'filepath' THEN 4 WHEN 'filename' THEN 5 WHEN 'directory' THEN 6 WHEN 'dir' THEN 7"
    "   ELSE 8 END";

static const char DECIDE[] =
    "INSERT INTO decision (at, session, workspace, tool, side_effect, permission, granted, mode,"
    "    autonomy, args_sha256, path, real_path, risk_level, categories, violation_code,"
    "    violation_path, violation_why, cancelled, confined, scoped, policy)"
    " SELECT now_ms(), substr(coalesce(:ask ->> '$.session', ''), 1, 128), :workspace,"
    "    trim(:ask ->> '$.tool'), :side_effect,"
    "    iif(:ask ->> '$.permission' IN ('allow', 'deny'), :ask ->> '$.permission', 'prompt'),"
    "    coalesce(json_type(:ask, '$.granted') = 'true', 0),"
    "    iif(:ask ->> '$.mode' IN ('ask', 'unsafe'), :ask ->> '$.mode', 'auto'),"
    "    substr(coalesce(:ask ->> '$.autonomy', ''), 1, 64),"
    "    sha256(coalesce(:ask -> '$.args', '{}')), :path, :real_path, :level, :categories, :code,"
    "    :broken, :why, coalesce(json_type(:ask, '$.cancelled') = 'true', 0),"
    "    coalesce(json_type(:ask, '$.confined') = 'true', 0),"
    "    coalesce(json_type(:ask, '$.scoped') = 'true', 0), policy"
    "  FROM policy_json";

static const char MADE[] =
    "SELECT action, gate, coalesce(code, ''), why, auto_allowed, recoverable,"
    "    coalesce(grant_id, 0) FROM decision_made WHERE id = :id";

static const char LISTS[] = "SELECT kind, path FROM policy_path WHERE kind <> 'write_root'";

static const char ROOTS[] = "SELECT path, kind = 'write_root' FROM policy_path"
			    " WHERE kind IN ('write_root', 'allow_write') ORDER BY kind DESC, path";

static const char ENFORCED[] = "SELECT value = 'enforce' FROM policy_now WHERE name = 'mode'";

static const char HOST[] =
    "SELECT iif(mode = 'disabled' OR free, 'allow', network),"
    "    mode = 'disabled' OR free OR network = 'allow' OR (network = 'scoped'"
    "        AND EXISTS (SELECT 1 FROM policy_domain WHERE kind = 'allow' AND"
    "            (:host = domain OR substr(:host, -length(domain) - 1) = '.' || domain))"
    "        AND NOT EXISTS (SELECT 1 FROM policy_domain WHERE kind = 'deny' AND"
    "            (:host = domain OR substr(:host, -length(domain) - 1) = '.' || domain)))"
    "  FROM (SELECT (SELECT value FROM policy_now WHERE name = 'mode') AS mode,"
    "    (SELECT value = '0' FROM policy_now WHERE name = 'enforce_tool_network') AS free,"
    "    (SELECT value FROM policy_network WHERE scoped = :scoped) AS network)";

static const char IS_VALUE[] =
    "SELECT CASE kind WHEN 'mode' THEN :value IN ('enforce', 'disabled')"
    "    WHEN 'network' THEN :value IN ('deny', 'allow', 'scoped')"
    "    WHEN 'autonomy' THEN :value IN ('low', 'medium', 'high')"
    "    WHEN 'answer' THEN :value IN ('deny', 'prompt') ELSE :value IN ('0', '1') END"
    "  FROM policy_field WHERE name = :name";

static const char SET[] =
    "INSERT INTO policy_value (name, layer, value) VALUES (:name, iif(:config, 'config', 'person'), :value)"
    " ON CONFLICT (name, layer) DO UPDATE SET value = excluded.value";

static const char UNSET[] = "DELETE FROM policy_value WHERE name = :name"
			    "   AND layer = iif(:config, 'config', 'person')";

static const char PATH_ADD[] =
    "INSERT INTO policy_path (kind, path) VALUES (:kind, :entry) ON CONFLICT DO NOTHING"
    " RETURNING 1";
static const char PATH_REMOVE[] =
    "DELETE FROM policy_path WHERE kind = :kind AND path = :entry RETURNING 1";
static const char DOMAIN_ADD[] =
    "INSERT INTO policy_domain (kind, domain) VALUES (:kind, :entry) ON CONFLICT DO NOTHING"
    " RETURNING 1";
static const char DOMAIN_REMOVE[] =
    "DELETE FROM policy_domain WHERE kind = :kind AND domain = :entry RETURNING 1";

static const char *const effects[] = {
    "read", "write", "shell", "network", "out_of_workspace", "none"};

/* What is found out about one ask. */
struct finding {
	const char *ask;
	size_t len;
	const char *home;
	enum side_effect effect;
	bool enforce;
	struct scope scope;
	struct pathlists lists;
	unsigned categories;
	struct violation violation;
	char workspace[PLACE_MAX], path[PLACE_MAX], real[PLACE_MAX];
};

void
policy_limits(struct store *db, struct shell_limits *limits)
{
	limits->text = (size_t)store_setting(db, "policy.shell_text");
	limits->depth = (unsigned)store_setting(db, "policy.shell_depth");
	limits->commands = (size_t)store_setting(db, "policy.shell_commands");
}

static struct stmt *
ask_sql(struct store *db, const char *sql, const struct finding *f)
{
	struct stmt *q = store_sql(db, sql);

	if (q != NULL)
		stmt_text_n(q, ":ask", f->ask, f->len);
	return q;
}

static int
ask_invalid(struct store *db, const char *why)
{
	return refusal_set(store_refusal(db), "policy.request", "%s", why);
}

static enum side_effect
effect_named(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(effects) / sizeof(effects[0]); i++)
		if (strcmp(name, effects[i]) == 0)
			return (enum side_effect)i;
	return SIDE_OUT_OF_WORKSPACE;
}

static int
ask_check(struct store *db, const struct finding *f)
{
	struct stmt *q;

	if (f->len > (size_t)store_setting(db, "policy.args"))
		return ask_invalid(db, "the ask is longer than the setting policy.args");
	if (memchr(f->ask, '\0', f->len) != NULL || (q = ask_sql(db, IS_ASK, f)) == NULL ||
	    stmt_value(q, 0) != 1)
		return ask_invalid(db,
		    "an ask is a JSON object with a tool, and args as an object; each name once");
	return 0;
}

/* The workspace, and what was added to it; none of that where the ask brings its own root. */
static int
ask_scope(struct store *db, struct finding *f, const char *workspace, const char *root)
{
	char why[192];
	struct stmt *q;
	bool own = root[0] != '\0' && strcmp(root, workspace) != 0;
	int rc;

	if (root[0] != '\0')
		workspace = root;
	if (workspace[0] != '\0' && scope_add(&f->scope, workspace, f->home, why, sizeof(why)) != 0)
		return ask_invalid(db, why);
	if (own)
		return 0;
	if ((q = ask_sql(db, DIRS, f)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1)
		/* An entry of the policy that leads nowhere sleeps; a directory of the session has
		 * to be there. */
		if (scope_add(&f->scope, stmt_get_text(q, 0), f->home, why, sizeof(why)) != 0 &&
		    stmt_get_int(q, 1) == 1) {
			stmt_done(q);
			return ask_invalid(db, why);
		}
	return rc;
}

static int
ask_head(struct store *db, struct finding *f)
{
	char workspace[PLACE_MAX], root[PLACE_MAX];
	struct stmt *q;

	if ((q = ask_sql(db, HEAD, f)) == NULL || stmt_step(q) != 1)
		return -1;
	f->effect = effect_named(stmt_get_text(q, 0));
	snprintf(workspace, sizeof(workspace), "%s", stmt_get_text(q, 1));
	snprintf(root, sizeof(root), "%s", stmt_get_text(q, 2));
	f->enforce = stmt_get_int(q, 3) == 1;
	stmt_done(q);
	if (ask_scope(db, f, workspace, root) != 0)
		return -1;
	if (f->scope.count > 0)
		snprintf(f->workspace, sizeof(f->workspace), "%s", f->scope.roots[0]);
	return policy_lists(db, f->scope.count > 0 ? f->scope.roots[0] : NULL, f->home, &f->lists);
}

static int
ask_commands(struct store *db, struct finding *f, struct command_report *first)
{
	struct command_report report;
	struct shell_limits limits;
	struct stmt *q;
	const char *text;
	int rc;

	policy_limits(db, &limits);
	if ((q = ask_sql(db, COMMANDS, f)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1) {
		text = stmt_get_text(q, 0);
		if (command_look(text, strlen(text), &limits, &report) != 0) {
			stmt_done(q);
			return refusal_set(store_refusal(db), "store.failed", "out of memory");
		}
		f->categories |= report.categories;
		if (first->program_count == 0 || (report.interactive && !first->interactive))
			*first = report;
	}
	return rc;
}

/* What a grant would name: the first path, unless it is the workspace itself by ".". */
static void
ask_grant_path(struct finding *f, const char *path)
{
	char at[PLACE_MAX];

	if (path[0] != '/' && f->scope.count == 0)
		return;
	if (place_join(f->scope.count > 0 ? f->scope.roots[0] : "", path, at) != 0 ||
	    place_clean(at, f->path) != 0) {
		f->path[0] = '\0';
		return;
	}
	if (path[0] != '/' && strcmp(f->path, f->scope.roots[0]) == 0)
		f->path[0] = '\0';
	else if (place_resolve(at, NULL, f->real) > PLACE_MISSING)
		f->real[0] = '\0';
}

static int
ask_paths(struct store *db, struct finding *f)
{
	bool first = true;
	struct violation v;
	struct stmt *q;
	int rc;

	if ((q = ask_sql(db, PATHS, f)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1) {
		if (first)
			ask_grant_path(f, stmt_get_text(q, 0));
		first = false;
		f->categories |= risk_path(&f->scope, stmt_get_text(q, 0));
		pathlists_check(
		    &f->lists, &f->scope, f->enforce, f->effect, stmt_get_text(q, 0), &v);
		if (f->violation.code == NULL && v.code != NULL)
			f->violation = v;
	}
	return rc;
}

static int
decide(struct store *db, const struct finding *f, struct policy_answer *a)
{
	struct stmt *q;

	snprintf(a->risk, sizeof(a->risk), "%s", risk_level(f->categories));
	risk_names(f->categories, a->categories);
	if ((q = ask_sql(db, DECIDE, f)) == NULL)
		return -1;
	stmt_text(q, ":workspace", f->workspace);
	stmt_text(q, ":side_effect", effects[f->effect]);
	stmt_text(q, ":path", f->path);
	stmt_text(q, ":real_path", f->real);
	stmt_text(q, ":level", a->risk);
	stmt_text(q, ":categories", a->categories);
	stmt_text(q, ":code", f->violation.code);
	stmt_text(q, ":broken", f->violation.code == NULL ? NULL : f->violation.path);
	stmt_text(q, ":why", f->violation.code == NULL ? NULL : f->violation.why);
	if (stmt_run_one(q) != 0)
		return -1;
	a->decision = store_last_id(db);
	return 0;
}

static int
answer(struct store *db, struct policy_answer *a)
{
	struct stmt *q;

	if ((q = store_sql(db, MADE)) == NULL)
		return -1;
	stmt_int(q, ":id", a->decision);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(a->action, sizeof(a->action), "%s", stmt_get_text(q, 0));
	snprintf(a->gate, sizeof(a->gate), "%s", stmt_get_text(q, 1));
	snprintf(a->code, sizeof(a->code), "%s", stmt_get_text(q, 2));
	snprintf(a->why, sizeof(a->why), "%s", stmt_get_text(q, 3));
	a->auto_allowed = stmt_get_int(q, 4) == 1;
	a->recoverable = stmt_get_int(q, 5) == 1;
	a->grant_id = stmt_get_int(q, 6);
	stmt_done(q);
	return 0;
}

int
policy_judge(
    struct store *db, const char *home, const char *ask, size_t len, struct policy_answer *a)
{
	struct finding f = {.ask = ask, .len = len, .home = home};
	int rc;

	memset(a, 0, sizeof(*a));
	rc = ask_check(db, &f) != 0 || ask_head(db, &f) != 0 ? -1 : 0;
	f.categories |= risk_effect(f.effect);
	if (rc != 0 || ask_commands(db, &f, &a->command) != 0 || ask_paths(db, &f) != 0 ||
	    decide(db, &f, a) != 0 || answer(db, a) != 0)
		rc = -1;
	scope_free(&f.scope);
	pathlists_free(&f.lists);
	return rc;
}

int
policy_lists(struct store *db, const char *base, const char *home, struct pathlists *lists)
{
	static const char *const kinds[] = {"allow_read", "deny_read", "allow_write", "deny_write"};
	struct stmt *q;
	int rc, kind;

	if ((q = store_sql(db, LISTS)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1) {
		for (kind = 0; strcmp(kinds[kind], stmt_get_text(q, 0)) != 0; kind++)
			;
		if (pathlists_add(
			lists, (enum pathlist_kind)kind, stmt_get_text(q, 1), base, home) != 0) {
			stmt_done(q);
			return refusal_set(store_refusal(db), "store.failed", "out of memory");
		}
	}
	return rc;
}

int
policy_roots(struct store *db, const char *workspace, const char *home, struct scope *roots,
    char *error, size_t size)
{
	char why[192];
	struct stmt *q;
	size_t n = 0;
	int rc;

	error[0] = '\0';
	if (scope_add(roots, workspace, home, why, sizeof(why)) != 0)
		return refusal_set(store_refusal(db), "policy.request", "%s", why);
	if ((q = store_sql(db, ROOTS)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1)
		if (scope_add(roots, stmt_get_text(q, 0), home, why, sizeof(why)) != 0 &&
		    stmt_get_int(q, 1) == 1 && n < size)
			n += (size_t)snprintf(error + n, size - n, "%s%s", n > 0 ? "; " : "", why);
	return rc;
}

int
policy_exclusions(
    struct store *db, const char *workspace, const char *home, struct pathlists *lists)
{
	struct stmt *q;

	if ((q = store_sql(db, ENFORCED)) == NULL)
		return -1;
	return stmt_value(q, 1) == 0 ? 0 : policy_lists(db, workspace, home, lists);
}

/* The host as domains are written: lower case, no port, no dot at its end. */
static int
host_plain(const char *host, char out[256])
{
	const char *colon = strchr(host, ':');
	size_t i, n = strlen(host);

	if (host[0] == '[') {
		host++;
		n = strcspn(host, "]");
	} else if (colon != NULL && strchr(colon + 1, ':') == NULL) {
		n = (size_t)(colon - host);
	}
	if (n > 0 && host[n - 1] == '.')
		n--;
	if (n == 0 || n >= 256)
		return -1;
	for (i = 0; i < n; i++)
		out[i] = host[i] >= 'A' && host[i] <= 'Z' ? (char)(host[i] | 0x20) : host[i];
	out[n] = '\0';
	return 0;
}

int
policy_host(struct store *db, const char *host, bool scoped, bool *allowed, char mode[8])
{
	char plain[256] = "";
	struct stmt *q;

	if ((q = store_sql(db, HOST)) == NULL)
		return -1;
	if (host_plain(host, plain) != 0)
		plain[0] = '\0';
	stmt_text(q, ":host", plain);
	stmt_int(q, ":scoped", scoped);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(mode, 8, "%s", stmt_get_text(q, 0));
	*allowed = stmt_get_int(q, 1) == 1;
	stmt_done(q);
	return 0;
}

int
policy_set(struct store *db, const char *name, bool config, const char *value)
{
	struct stmt *q;
	int64_t known;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, IS_VALUE)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", name);
	stmt_text(q, ":value", value);
	known = stmt_value(q, -1);
	if (known == -1 || (known == 0 && !config)) {
		if (known == -1)
			refusal_set(store_refusal(db), "policy.field",
			    "the policy has no field of this name");
		else
			refusal_set(
			    store_refusal(db), "policy.value", "this field cannot have that value");
		return store_rollback(db);
	}
	if ((q = store_sql(db, SET)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", name);
	stmt_int(q, ":config", config);
	stmt_text(q, ":value", value);
	return stmt_run(q) == 0 ? store_commit(db) : store_rollback(db);
}

int
policy_unset(struct store *db, const char *name, bool config)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, UNSET)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", name);
	stmt_int(q, ":config", config);
	return stmt_run(q) == 0 ? store_commit(db) : store_rollback(db);
}

int
policy_entry(struct store *db, const char *list, const char *entry, bool add, bool *changed)
{
	bool domain = strstr(list, "_domain") != NULL;
	char kind[16], plain[256];
	struct stmt *q;
	int rc;

	snprintf(kind, sizeof(kind), "%s", list);
	if (domain) {
		kind[strcspn(kind, "_")] = '\0';
		if (host_plain(entry, plain) != 0)
			return refusal_set(store_refusal(db), "policy.domain", "this is no domain");
		entry = plain;
	} else if (add && entry[0] != '/' && strncmp(entry, "~/", 2) != 0) {
		return refusal_set(store_refusal(db), "policy.path", "the path is not absolute");
	}
	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, domain ? (add ? DOMAIN_ADD : DOMAIN_REMOVE)
				      : (add ? PATH_ADD : PATH_REMOVE))) == NULL)
		return store_rollback(db);
	stmt_text(q, ":kind", kind);
	stmt_text(q, ":entry", entry);
	*changed = false;
	while ((rc = stmt_step(q)) == 1)
		*changed = true;
	if (rc != 0)
		refusal_set(store_refusal(db), domain ? "policy.domain" : "policy.path",
		    "no list of the policy takes this entry");
	return rc == 0 ? store_commit(db) : store_rollback(db);
}
