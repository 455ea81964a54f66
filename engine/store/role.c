/* role.c: the authorizer: which tables a role writes, which secret columns it reads. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/store/role.h"

/* What was denied last: SQLite's own message does not name the table. */
static _Thread_local char denied[96];

enum { INS = 1, UPD = 2, DEL = 4 };

#define BIT(role) (1u << (role))
#define OURS      (~(BIT(ROLE_READER) | BIT(ROLE_AMEND))) /* who runs no statement of a person */

/* Who may write what.  A table that is not here is written by triggers or migrations alone. */
static const struct {
	const char *table;
	unsigned ops, roles;
} writes[] = {
    {"setting", UPD, BIT(ROLE_PERSON) | BIT(ROLE_AMEND)},
    {"factor", INS | UPD, BIT(ROLE_PERSON)},
    {"factor_try", INS, BIT(ROLE_PERSON)},
    {"approval", INS, BIT(ROLE_NET)},
    {"approval", UPD, BIT(ROLE_PERSON) | BIT(ROLE_KEEPER)},
    {"grant", INS, BIT(ROLE_PERSON)},
    {"grant", UPD, BIT(ROLE_PERSON) | BIT(ROLE_KEEPER) | BIT(ROLE_AMEND)},
    {"mode_change", INS, BIT(ROLE_PERSON)},
    {"pairing", INS, BIT(ROLE_PERSON)},
    {"pairing", UPD, BIT(ROLE_PERSON) | BIT(ROLE_KEEPER) | BIT(ROLE_AMEND)},
    {"pairing_consent", INS, BIT(ROLE_PERSON)},
    {"anchor", INS | UPD, BIT(ROLE_PERSON)},
    {"anchor_terms", INS, BIT(ROLE_PERSON) | BIT(ROLE_NET)},
    {"invitation", INS, BIT(ROLE_PERSON)},
    {"invitation", UPD, BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_KEEPER)},
    {"host_box", INS, BIT(ROLE_NET)},
    {"host_box", UPD, BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_LINK)},
    {"box_certificate", INS, BIT(ROLE_NET)},
    {"box_certificate", UPD, BIT(ROLE_LINK)},
    {"tls_authority", INS, BIT(ROLE_PERSON) | BIT(ROLE_LINK)},
    {"tls_identity", INS, BIT(ROLE_PERSON) | BIT(ROLE_LINK) | BIT(ROLE_NET)},
    {"pairing_tls", INS, BIT(ROLE_PERSON)},
    {"pairing_endpoint", INS | DEL, BIT(ROLE_PERSON)},
    {"listen", INS | DEL, BIT(ROLE_PERSON)},
    {"host_address", INS | DEL, BIT(ROLE_PERSON)},
    {"box_line", INS | UPD, BIT(ROLE_NET)},
    {"pairing_line", INS | UPD | DEL, BIT(ROLE_NET)},
    {"egress_parked", INS | UPD | DEL, BIT(ROLE_NET)},
    {"egress_port", INS | DEL, BIT(ROLE_PERSON)},
    {"box_parked", INS | UPD | DEL, BIT(ROLE_NET)},
    {"pairing_socket", INS | UPD, BIT(ROLE_PERSON)},
    {"beat_request", DEL, BIT(ROLE_LINK)},
    {"call", INS, BIT(ROLE_NET)},
    {"call", UPD, BIT(ROLE_NET) | BIT(ROLE_LINK) | BIT(ROLE_KEEPER)},
    {"call_output", INS, BIT(ROLE_LINK)},
    {"call_output", DEL, BIT(ROLE_KEEPER)},
    {"op_run", INS, BIT(ROLE_NET)},
    {"op_run", UPD, BIT(ROLE_NET) | BIT(ROLE_WORKER)},
    {"op_output", INS, BIT(ROLE_WORKER)},
    {"op_output", DEL, BIT(ROLE_KEEPER)},
    {"folder_walk", INS | UPD, BIT(ROLE_WORKER)},
    {"verb_dial", INS, BIT(ROLE_WORKER)},
    {"op_probe", INS | UPD, BIT(ROLE_WORKER)},
    {"agent_scan", INS | UPD, BIT(ROLE_WORKER)},
    {"worker", INS | DEL, BIT(ROLE_PERSON)},
    {"session", INS, BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_WORKER)},
    {"session", DEL, BIT(ROLE_PERSON)},
    {"session", UPD, BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_WORKER)},
    {"session_input", INS, BIT(ROLE_PERSON) | BIT(ROLE_NET)},
    {"session_typist", INS | UPD | DEL, BIT(ROLE_NET)},
    {"session_output", INS | DEL, BIT(ROLE_WORKER)},
    {"attempt", INS | UPD, BIT(ROLE_WORKER)},
    {"schedule", INS | DEL, BIT(ROLE_PERSON)},
    {"schedule", UPD, BIT(ROLE_PERSON) | BIT(ROLE_WORKER)},
    {"firing", INS, BIT(ROLE_PERSON) | BIT(ROLE_WORKER)},
    {"mcp_token", INS | UPD, BIT(ROLE_PERSON)},
    {"remote_listen", INS | DEL, BIT(ROLE_PERSON)},
    {"remote_credential", INS, BIT(ROLE_PERSON)},
    {"remote_credential", UPD, BIT(ROLE_PERSON) | BIT(ROLE_KEEPER)},
    {"remote_try", INS, BIT(ROLE_NET)},
    {"remote_bundle", INS | UPD, BIT(ROLE_NET)},
    {"sandbox_run", INS | UPD, BIT(ROLE_PERSON) | BIT(ROLE_WORKER) | BIT(ROLE_NET)},
    {"op_manifest", INS | UPD, BIT(ROLE_PERSON)},
    {"op_built", INS, BIT(ROLE_PERSON)},
    {"program_run", INS | UPD, BIT(ROLE_WORKER)},
    {"op_cancel", INS, BIT(ROLE_NET)},
    {"run_port", INS, BIT(ROLE_PERSON) | BIT(ROLE_NET)},
    {"policy_value", INS | UPD | DEL, BIT(ROLE_PERSON)},
    {"policy_domain", INS | DEL, BIT(ROLE_PERSON)},
    {"policy_path", INS | DEL, BIT(ROLE_PERSON)},
    {"tool_grant", INS | UPD, BIT(ROLE_PERSON)},
    {"decision", INS, BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_WORKER)},
    {"context_ask", INS, BIT(ROLE_NET)},
    {"context_ask", UPD, BIT(ROLE_NET) | BIT(ROLE_PERSON) | BIT(ROLE_KEEPER)},
    {"refused", INS, BIT(ROLE_NET) | BIT(ROLE_PERSON) | BIT(ROLE_LINK)},
    {"audit_seal", INS, BIT(ROLE_KEEPER) | BIT(ROLE_PERSON)},
    {"audit_sink", UPD, BIT(ROLE_KEEPER) | BIT(ROLE_PERSON)},
    {"audit_base", INS, BIT(ROLE_KEEPER)},
    {"retention", UPD, BIT(ROLE_KEEPER)},
    {"decision_due", DEL, BIT(ROLE_KEEPER)},
    {"over_due", DEL, BIT(ROLE_KEEPER)},
    {"backup", INS, BIT(ROLE_PERSON)},
    {"audit_tile", INS, BIT(ROLE_KEEPER) | BIT(ROLE_PERSON)},
    {"audit_checkpoint", INS, BIT(ROLE_KEEPER) | BIT(ROLE_PERSON)},
    {"audit_word", INS, BIT(ROLE_KEEPER)},
    /* Below audit_word, by FTS5's own statements; those of others are refused (defensive). */
    {"audit_word_data", INS | DEL, BIT(ROLE_KEEPER)},
    {"audit_word_idx", INS | DEL, BIT(ROLE_KEEPER)},
    {"audit_word_docsize", INS | DEL, BIT(ROLE_KEEPER)},
    {"audit_word_config", INS | DEL, BIT(ROLE_KEEPER)},
    {"host_terms", INS, BIT(ROLE_PERSON)},
    {"host_terms", UPD, BIT(ROLE_LINK)},
    {"box_witness", INS, BIT(ROLE_LINK)},
    {"box_witness", UPD, BIT(ROLE_LINK) | BIT(ROLE_PERSON)},
    {"host_beat", INS, BIT(ROLE_NET) | BIT(ROLE_LINK)},
    {"host_order", INS, BIT(ROLE_PERSON)},
    {"host_order", UPD, BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_LINK) | BIT(ROLE_KEEPER)},
    {"directive", INS, BIT(ROLE_LINK)},
    {"directive", UPD, BIT(ROLE_LINK) | BIT(ROLE_NET) | BIT(ROLE_WORKER) | BIT(ROLE_KEEPER)},
    {"directive_untold", DEL, BIT(ROLE_LINK)},
    {"rotation_endpoint", INS, BIT(ROLE_LINK)},
    {"contain_spare", INS | UPD, BIT(ROLE_PERSON)},
    {"contain_account", INS | UPD, BIT(ROLE_PERSON)},
    {"contain_right", INS | UPD, BIT(ROLE_PERSON)},
    {"contain_right", UPD, BIT(ROLE_KEEPER)},
    {"contain_process", INS, BIT(ROLE_WORKER)},
    {"quarantine", UPD, BIT(ROLE_PERSON) | BIT(ROLE_KEEPER)},
    {"egress_rule", INS | UPD, BIT(ROLE_PERSON)},
    {"egress_within", INS, BIT(ROLE_PERSON)},
    {"egress_request", INS | UPD | DEL, BIT(ROLE_EGRESS)},
    {"egress_authority", INS | UPD, BIT(ROLE_EGRESS)},
    {"token", INS | UPD, BIT(ROLE_PERSON)},
    {"token_host", INS, BIT(ROLE_PERSON)},
    {"egress_flow", INS | UPD | DEL, BIT(ROLE_EGRESS)},
    {"egress_use", DEL, BIT(ROLE_EGRESS)}, /* with its connection */
    {"own_address", INS | DEL, BIT(ROLE_EGRESS)},
    {"process", INS, OURS},
    {"lease", INS, OURS},
    {"lease", UPD, OURS | BIT(ROLE_AMEND)},
    {"amendment", INS | UPD, BIT(ROLE_PERSON)},
    {"instance", INS | UPD, BIT(ROLE_SUPERVISOR)},
    {"actor_run", INS | UPD, BIT(ROLE_SUPERVISOR)},
};

/* Columns that read as NULL but for the roles that use them. */
static const struct {
	const char *table, *column;
	unsigned roles;
} secrets[] = {
    {"factor", "secret", BIT(ROLE_PERSON)},
    {"invitation", "token_digest", BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_LINK)},
    {"mcp_token", "digest", BIT(ROLE_PERSON) | BIT(ROLE_NET)},
    {"remote_credential", "digest", BIT(ROLE_PERSON) | BIT(ROLE_NET)},
    {"tls_authority", "key", BIT(ROLE_PERSON) | BIT(ROLE_LINK)},
    {"tls_identity", "key", BIT(ROLE_PERSON) | BIT(ROLE_LINK) | BIT(ROLE_NET)},
    {"token", "secret", BIT(ROLE_PERSON) | BIT(ROLE_EGRESS) | BIT(ROLE_WORKER)},
};

/* PRAGMAs that only look; some take the name of a table, for the others an argument would be a
 * write. */
static const struct {
	const char *name;
	bool argument;
} looks[] = {
    {"application_id", false},
    {"auto_vacuum", false},
    {"collation_list", false},
    {"compile_options", false},
    {"data_version", false},
    {"database_list", false},
    {"foreign_key_check", true},
    {"foreign_key_list", true},
    {"freelist_count", false},
    {"function_list", false},
    {"index_info", true},
    {"index_list", true},
    {"index_xinfo", true},
    {"integrity_check", true},
    {"page_count", false},
    {"page_size", false},
    {"quick_check", true},
    {"table_info", true},
    {"table_list", true},
    {"table_xinfo", true},
    {"user_version", false},
};

static bool
role_writes(enum store_role role, unsigned op, const char *table)
{
	size_t i;

	for (i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		if ((writes[i].ops & op) != 0 && (writes[i].roles & BIT(role)) != 0 &&
		    strcmp(writes[i].table, table) == 0)
			return true;
	return false;
}

bool
role_reads(enum store_role role, const char *table, const char *column)
{
	size_t i;

	for (i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		if (sqlite3_stricmp(secrets[i].table, table) == 0 &&
		    sqlite3_stricmp(secrets[i].column, column) == 0)
			return (secrets[i].roles & BIT(role)) != 0;
	return true;
}

/*
 * What a statement may call.  An amendment decides nothing and a reader writes nothing, so neither
 * has the machine's key sign anything.
 */
static bool
function_allowed(enum store_role role, const char *name)
{
	/* Both take the address of code. */
	if (sqlite3_stricmp(name, "load_extension") == 0 ||
	    sqlite3_stricmp(name, "fts3_tokenizer") == 0)
		return false;
	return (BIT(role) & OURS) != 0 || (sqlite3_stricmp(name, "seal_sign") != 0 &&
					      sqlite3_stricmp(name, "checkpoint_sign") != 0);
}

/*
 * A role of ours may also choose how durable its next transaction is: FULL or NORMAL, never OFF.
 * The keeper gives free pages back to the disk.
 */
static bool
pragma_allowed(enum store_role role, const char *name, const char *argument)
{
	size_t i;

	/* FTS5 asks for the version of the data when a statement names its table. */
	if (role == ROLE_AMEND)
		return argument == NULL && sqlite3_stricmp("data_version", name) == 0;
	for (i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
		if (sqlite3_stricmp(looks[i].name, name) == 0)
			return argument == NULL || looks[i].argument;
	if (role == ROLE_KEEPER && sqlite3_stricmp("incremental_vacuum", name) == 0)
		return true;
	return role != ROLE_READER && sqlite3_stricmp("synchronous", name) == 0 &&
	       argument != NULL &&
	       (strcmp(argument, "FULL") == 0 || strcmp(argument, "NORMAL") == 0);
}

/*
 * SQLite 3.40 asks for this while it declares json_each and the like; a real write to its schema
 * table is refused before the authorizer is asked, since writable_schema is off and the connection
 * defensive.
 */
static bool
declares_virtual(int action, const char *table)
{
	return action == SQLITE_UPDATE && strcmp(table, "sqlite_master") == 0;
}

static int
write_decide(enum store_role role, int action, const char *table)
{
	unsigned op = action == SQLITE_INSERT ? INS : action == SQLITE_UPDATE ? UPD : DEL;

	if (role_writes(role, op, table))
		return SQLITE_OK;
	snprintf(denied, sizeof(denied), "%s %s",
	    op == INS   ? "INSERT INTO"
	    : op == UPD ? "UPDATE"
			: "DELETE FROM",
	    table);
	return SQLITE_DENY;
}

static int
role_decide(
    void *ctx, int action, const char *a, const char *b, const char *database, const char *inner)
{
	enum store_role role = *(const enum store_role *)ctx;

	(void)database;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_TRANSACTION:
	case SQLITE_SAVEPOINT:
		/* The transaction of an amendment is ours to end. */
		return role != ROLE_AMEND ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_FUNCTION:
		return function_allowed(role, b) ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_READ:
		return role_reads(role, a, b) ? SQLITE_OK : SQLITE_IGNORE;
	case SQLITE_PRAGMA:
		return pragma_allowed(role, a, b) ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_INSERT:
	case SQLITE_UPDATE:
	case SQLITE_DELETE:
		if ((inner != NULL && role != ROLE_READER) || declares_virtual(action, a))
			return SQLITE_OK;
		return write_decide(role, action, a);
	default:
		return SQLITE_DENY;
	}
}

int
role_install(struct sqlite3 *handle, enum store_role role)
{
	static enum store_role of[] = {ROLE_READER, ROLE_PERSON, ROLE_AMEND, ROLE_NET, ROLE_LINK,
	    ROLE_WORKER, ROLE_EGRESS, ROLE_KEEPER, ROLE_SUPERVISOR, ROLE_MIGRATE};

	denied[0] = '\0';
	if (role == ROLE_MIGRATE)
		return 0;
	return sqlite3_set_authorizer(handle, role_decide, &of[role]) == SQLITE_OK ? 0 : -1;
}

/* One word of SQL; what stands in quotes is one too, and comments are none. */
struct word {
	char text[64]; /* cut: no name of ours is longer */
	bool quoted;
};

static const char *
comment_end(const char *at)
{
	const char *end;

	if (at[0] == '-' && at[1] == '-')
		return at + strcspn(at, "\n");
	if (at[0] != '/' || at[1] != '*')
		return at;
	return (end = strstr(at + 2, "*/")) == NULL ? at + strlen(at) : end + 2;
}

static bool
word_letter(char c)
{
	return (c & 0x80) != 0 || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* Store the first word from ${at} on in ${word}.  Return what is behind it, or NULL at the end. */
static const char *
word_next(const char *at, struct word *word)
{
	static const char quotes[] = "'\"`[";
	const char *past;
	size_t n = 0;
	char end;

	for (; *at != '\0' && strchr(quotes, *at) == NULL && !word_letter(*at); at = past)
		if ((past = comment_end(at)) == at)
			past++;
	if (*at == '\0')
		return NULL;
	word->quoted = strchr(quotes, *at) != NULL;
	end = *at == '[' ? ']' : *at;
	for (at += word->quoted; *at != '\0'; at++) {
		if (word->quoted ? *at == end : !word_letter(*at))
			break;
		if (n + 1 < sizeof(word->text))
			word->text[n++] = *at;
	}
	word->text[n] = '\0';
	return word->quoted && *at == end ? at + 1 : at;
}

bool
role_shows(enum store_role role, const char *sql)
{
	struct word word;
	bool using = false, natural = false, column = false, table = false;
	size_t i;

	if (role == ROLE_MIGRATE)
		return true;
	while ((sql = word_next(sql, &word)) != NULL) {
		using = using || (!word.quoted && sqlite3_stricmp(word.text, "using") == 0);
		natural = natural || (!word.quoted && sqlite3_stricmp(word.text, "natural") == 0);
		for (i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
			if ((secrets[i].roles & BIT(role)) != 0)
				continue;
			column = column || sqlite3_stricmp(word.text, secrets[i].column) == 0;
			table = table || sqlite3_stricmp(word.text, secrets[i].table) == 0;
		}
	}
	return !(using && column) && !(natural && table);
}

void
role_amends(char *out, size_t size)
{
	size_t i, n = 0;

	for (i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		if ((writes[i].roles & BIT(ROLE_AMEND)) != 0 && n < size)
			n += (size_t)snprintf(
			    out + n, size - n, "%s%s", n == 0 ? "" : ", ", writes[i].table);
}

bool
role_forces(const char *sql)
{
	struct word word;
	bool update = false;

	while ((sql = word_next(sql, &word)) != NULL) {
		if (update && !word.quoted && sqlite3_stricmp(word.text, "or") == 0)
			return true;
		update = !word.quoted && sqlite3_stricmp(word.text, "update") == 0;
	}
	return false;
}

const char *
role_denied(void)
{
	return denied;
}
