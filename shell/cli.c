/* cli.c: open, close, options, refusals: what every verb does the same way. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <termios.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/store/embed.h"
#include "shell/cli.h"
#include "shell/table.h"
#include "shell/text.h"
#include "shell/verb.h"

static const char REFUSAL[] = "SELECT exit_code, advice FROM refusal WHERE code = ?1";

static void
act_as_person(struct cli *cli)
{
	struct passwd pw, *found = NULL;
	char text[4096];
	uid_t uid = getuid();

	if (getpwuid_r(uid, &pw, text, sizeof(text), &found) == 0 && found != NULL)
		store_acting(cli->db, "person:%.64s(%u)", pw.pw_name, (unsigned)uid);
	else
		store_acting(cli->db, "person:(%u)", (unsigned)uid);
}

static int
open_key(struct cli *cli, struct store_keys *keys)
{
	if ((cli->key = key_open(&cli->home, &cli->refusal)) == NULL)
		return -1;
	key_public(cli->key, keys);
	return 0;
}

int
cli_open(struct cli *cli, enum store_role role)
{
	struct store_keys keys = {.secret = NULL};
	bool person = role == ROLE_PERSON;

	if (home_open(&cli->home, cli->role, false, &cli->refusal) == -1)
		return -1;
	if (person && open_key(cli, &keys) == -1)
		return -1;
	cli->db = store_open(&cli->home, role, person ? &keys : NULL, &cli->refusal);
	if (cli->db == NULL)
		return -1;
	if (person)
		act_as_person(cli);
	return 0;
}

void
cli_close(struct cli *cli)
{
	store_close(cli->db);
	cli->db = NULL;
	key_close(cli->key);
	cli->key = NULL;
	home_close(&cli->home);
	cli->home.fd = -1;
}

/* Take exit code and advice from the connection's table of refusals. */
static bool
look_up(sqlite3 *handle, const char *code, int *exit_code, char advice[REFUSAL_WHY_MAX])
{
	sqlite3_stmt *q;
	bool found;

	if (sqlite3_prepare_v2(handle, REFUSAL, -1, &q, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_text(q, 1, code, -1, SQLITE_STATIC);
	if ((found = sqlite3_step(q) == SQLITE_ROW)) {
		*exit_code = sqlite3_column_int(q, 0);
		snprintf(advice, REFUSAL_WHY_MAX, "%s", (const char *)sqlite3_column_text(q, 1));
	}
	sqlite3_finalize(q);
	return found;
}

/* Without a store: the rows that every database is born with. */
static bool
look_up_embedded(const char *code, int *exit_code, char advice[REFUSAL_WHY_MAX])
{
	const struct embedded *e;
	sqlite3 *handle = NULL;
	bool found = false;

	if (sqlite3_open(":memory:", &handle) != SQLITE_OK)
		goto done;
	for (e = embedded_schema; e->name != NULL; e++) {
		if ((strcmp(e->name, "base") == 0 || strcmp(e->name, "rows_refusal") == 0) &&
		    sqlite3_exec(handle, e->text, NULL, NULL, NULL) != SQLITE_OK)
			goto done;
	}
	found = look_up(handle, code, exit_code, advice);

done:
	sqlite3_close(handle);
	return found;
}

static void
refuse_json(const struct refusal *r, const char *advice)
{
	char when[TEXT_TIME_MAX];

	fputs("{\"error\":{\"code\":", stderr);
	text_json(stderr, r->code, strlen(r->code));
	fputs(",\"why\":", stderr);
	text_json(stderr, r->why, strlen(r->why));
	fputs(",\"advice\":", stderr);
	text_json(stderr, advice, strlen(advice));
	fputs(",\"retry_at\":", stderr);
	text_time(r->retry_at, true, when);
	if (r->retry_at > 0)
		text_json(stderr, when, strlen(when));
	else
		fputs("null", stderr);
	fputs("}}\n", stderr);
}

static void
refuse_person(const char *verb, const struct refusal *r, const char *advice)
{
	char when[TEXT_TIME_MAX];

	fprintf(stderr, "bastion: %s: ", verb);
	text_show(stderr, r->why, strlen(r->why));
	text_time(r->retry_at, false, when);
	if (r->retry_at > 0)
		fprintf(stderr, " (again at %s)", when);
	fputs(" [", stderr);
	text_show(stderr, r->code, strlen(r->code));
	fputs("]\n", stderr);
	if (*advice == '\0')
		return;
	fputs("         ", stderr);
	text_show(stderr, advice, strlen(advice));
	putc('\n', stderr);
}

int
cli_refuse(struct cli *cli)
{
	struct refusal *r = &cli->refusal;
	char advice[REFUSAL_WHY_MAX] = "";
	int exit_code = 1;

	if (r->code[0] == '\0' && cli->db != NULL)
		*r = *store_refusal(cli->db);
	if (r->code[0] == '\0')
		refusal_set(r, "store.failed", "it failed without a reason");
	if (cli->db == NULL || !look_up(store_handle(cli->db), r->code, &exit_code, advice))
		look_up_embedded(r->code, &exit_code, advice);
	fflush(stdout);
	if (cli->mode == CLI_JSON)
		refuse_json(r, advice);
	else
		refuse_person(cli->verb, r, advice);
	cli_close(cli);
	return exit_code;
}

int
cli_usage(struct cli *cli, const char *fmt, ...)
{
	const struct verb *v = verb_named(cli->verb);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cli->refusal.why, sizeof(cli->refusal.why), fmt, ap);
	va_end(ap);
	refusal_set(&cli->refusal, "usage.wrong", "%s", cli->refusal.why);
	fflush(stdout);
	if (cli->mode == CLI_JSON) {
		refuse_json(&cli->refusal, "see bastion help VERB");
	} else {
		refuse_person(cli->verb, &cli->refusal, "");
		if (v != NULL)
			verb_usage(v, stderr);
	}
	cli_close(cli);
	return 2;
}
