/* role.c: the authorizer: which tables a role writes, which secret columns it reads. */
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#include "engine/store/role.h"

enum { INS = 1, UPD = 2, DEL = 4 };

#define BIT(role) (1u << (role))

/* Who may write what.  A table that is not here is written by triggers or migrations alone. */
static const struct {
	const char *table;
	unsigned ops, roles;
} writes[] = {
    {"setting", UPD, BIT(ROLE_PERSON)},
    {"factor", INS | UPD, BIT(ROLE_PERSON)},
    {"factor_try", INS, BIT(ROLE_PERSON)},
    {"approval", INS, BIT(ROLE_NET)},
    {"approval", UPD, BIT(ROLE_PERSON) | BIT(ROLE_KEEPER)},
    {"grant", INS, BIT(ROLE_PERSON)},
    {"grant", UPD, BIT(ROLE_PERSON) | BIT(ROLE_KEEPER)},
    {"pairing", INS | UPD, BIT(ROLE_PERSON)},
    {"invitation", INS, BIT(ROLE_PERSON)},
    {"invitation", UPD, BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_KEEPER)},
    {"host_box", INS, BIT(ROLE_NET)},
    {"host_box", UPD, BIT(ROLE_PERSON) | BIT(ROLE_NET) | BIT(ROLE_LINK)},
    {"call", INS, BIT(ROLE_NET)},
    {"call", UPD, BIT(ROLE_NET) | BIT(ROLE_LINK) | BIT(ROLE_KEEPER)},
    {"call_output", INS, BIT(ROLE_LINK)},
    {"op_run", INS, BIT(ROLE_NET)},
    {"op_run", UPD, BIT(ROLE_NET) | BIT(ROLE_WORKER)},
    {"op_output", INS, BIT(ROLE_WORKER)},
    {"folder_walk", INS | UPD, BIT(ROLE_WORKER)},
    {"mcp_token", INS | UPD, BIT(ROLE_PERSON)},
    {"refused", INS, BIT(ROLE_NET) | BIT(ROLE_PERSON)},
    {"audit_seal", INS, BIT(ROLE_KEEPER) | BIT(ROLE_PERSON)},
    {"audit_sink", UPD, BIT(ROLE_KEEPER)},
    {"process", INS, ~0u & ~BIT(ROLE_READER)},
    {"lease", INS | UPD, ~0u & ~BIT(ROLE_READER)},
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
};

/* PRAGMAs that only look; some take the name of a table, for the others an argument would be a
 * write. */
static const struct {
	const char *name;
	bool argument;
} looks[] = {
    {"application_id", false},
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

static bool
role_reads(enum store_role role, const char *table, const char *column)
{
	size_t i;

	for (i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		if (sqlite3_stricmp(secrets[i].table, table) == 0 &&
		    sqlite3_stricmp(secrets[i].column, column) == 0)
			return (secrets[i].roles & BIT(role)) != 0;
	return true;
}

/* A role of ours may also choose how durable its next transaction is: FULL or NORMAL, never OFF. */
static bool
pragma_allowed(enum store_role role, const char *name, const char *argument)
{
	size_t i;

	for (i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
		if (sqlite3_stricmp(looks[i].name, name) == 0)
			return argument == NULL || looks[i].argument;
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
role_decide(
    void *ctx, int action, const char *a, const char *b, const char *database, const char *inner)
{
	enum store_role role = *(const enum store_role *)ctx;

	(void)database;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_RECURSIVE:
	case SQLITE_TRANSACTION:
	case SQLITE_SAVEPOINT:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		/* Both take the address of code. */
		return sqlite3_stricmp(b, "load_extension") == 0 ||
			       sqlite3_stricmp(b, "fts3_tokenizer") == 0
			   ? SQLITE_DENY
			   : SQLITE_OK;
	case SQLITE_READ:
		return role_reads(role, a, b) ? SQLITE_OK : SQLITE_IGNORE;
	case SQLITE_PRAGMA:
		return pragma_allowed(role, a, b) ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_INSERT:
	case SQLITE_UPDATE:
	case SQLITE_DELETE:
		if ((inner != NULL && role != ROLE_READER) || declares_virtual(action, a))
			return SQLITE_OK;
		return role_writes(role,
			   action == SQLITE_INSERT   ? INS
			   : action == SQLITE_UPDATE ? UPD
						     : DEL,
			   a)
			   ? SQLITE_OK
			   : SQLITE_DENY;
	default:
		return SQLITE_DENY;
	}
}

int
role_install(struct sqlite3 *handle, enum store_role role)
{
	static enum store_role of[] = {ROLE_READER, ROLE_PERSON, ROLE_NET, ROLE_LINK, ROLE_WORKER,
	    ROLE_KEEPER, ROLE_SUPERVISOR, ROLE_MIGRATE};

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
