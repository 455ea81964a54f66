/* verb_egress.c: who may reach what on the internet, and what was reached. */
#include <getopt.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/egress.h"
#include "net/egress/authority.h"
#include "net/egress/resolve.h"
#include "net/egress/vet.h"
#include "shell/audit_words.h"
#include "shell/cli.h"
#include "shell/input.h"
#include "shell/text.h"

static const char RULES[] = "SELECT id, verdict, what, port, who, made_at FROM egress_may ORDER BY"
			    " verdict DESC, what, port";
static const char LAST[] =
    "SELECT id, asked_at, who, surface, what, state, dialled, up, down, took_ms, code"
    "  FROM (SELECT * FROM egress_log ORDER BY id DESC LIMIT :n) ORDER BY id";
static const char WITHIN[] = "SELECT id, what, port, who, method, path, websocket, token"
			     "  FROM egress_may_ask ORDER BY id, path";
static const char REQUESTS[] =
    "SELECT id, asked_at, who, method, what, state, status, token, code"
    "  FROM (SELECT * FROM egress_requests ORDER BY id DESC LIMIT :n) ORDER BY id";
static const char INSPECT[] =
    "SELECT CASE value WHEN 0 THEN 'none' WHEN 1 THEN 'those whose rule says something of requests'"
    "  ELSE 'all' END AS tunnels, (SELECT ends_at FROM egress_authority) AS trusted_until_at"
    "  FROM setting WHERE name = 'egress.inspect'";
static const char INSPECT_SET[] = "UPDATE setting SET value = :mode WHERE name = 'egress.inspect'";
static const char AUTHORITY[] =
    "SELECT pem FROM egress_authority WHERE ends_at > now_ms()"
    "   AND (SELECT value FROM setting WHERE name = 'egress.inspect') > 0";
static const char LIVE[] = "SELECT id, who, surface, what, state, up, down, took_ms, asked_at"
			   "  FROM live_flows ORDER BY up + down DESC, took_ms DESC LIMIT :n";
static const char PARKED[] =
    "SELECT host, slot, state, taken, refused, endpoint, changed_at, next_at, code"
    "  FROM egress_parks ORDER BY host, slot";
static const char PRESETS[] =
    "SELECT '@' || name AS preset, suffix || ':' || port AS what, doc FROM egress_preset ORDER BY 1, 2";
static const char PREVIOUS[] = "SELECT coalesce(min(id) - 1, 0)"
			       "  FROM (SELECT id FROM egress_flow ORDER BY id DESC LIMIT :n)";
/* What is new, and what was open when it was looked at last. */
static const char SINCE[] =
    "SELECT strftime('%H:%M:%S', l.asked_at / 1000, 'unixepoch', 'localtime'), l.who, l.surface,"
    "  l.what, l.state, coalesce(l.code, l.dialled, ''), f.id, f.ended_at IS NULL,"
    "  json_object('id', f.id, 'asked_at',"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', l.asked_at / 1000.0, 'unixepoch'), 'who', l.who,"
    "    'surface', l.surface, 'what', l.what, 'state', l.state, 'dialled', l.dialled,"
    "    'up', l.up, 'down', l.down, 'took_ms', l.took_ms, 'code', l.code)"
    "  FROM egress_flow AS f JOIN egress_log AS l ON l.id = f.id"
    " WHERE f.id > :id OR f.id IN (SELECT value FROM json_each(:open)) ORDER BY f.id";

#define LIST_DEFAULT 20

struct options {
	bool follow;
	int64_t uid, n;
	const char *host;
	struct egress_within within;
	bool narrow;
};

static int
user_read(const char *text, int64_t *uid)
{
	const struct passwd *found = getpwnam(text);

	if (found != NULL) {
		*uid = found->pw_uid;
		return 0;
	}
	if (strcmp(text, "0") == 0)
		return *uid = 0;
	return input_number(text, uid) == 0 ? 0 : cli_wrong("there is no such user");
}

static int
egress_option(void *ctx, int val, const char *arg)
{
	struct options *o = ctx;

	o->narrow = o->narrow || strchr("mptw", val) != NULL;
	switch (val) {
	case 'm':
		o->within.method = arg;
		return 0;
	case 'p':
		o->within.path = arg;
		return 0;
	case 't':
		o->within.token = arg;
		return 0;
	case 'w':
		o->within.websocket = true;
		return 0;
	case 'f':
		o->follow = true;
		return 0;
	case 'u':
		return user_read(arg, &o->uid);
	case 'H':
		o->host = arg;
		return 0;
	default:
		return input_number(arg, &o->n);
	}
}

/* Show the rows of ${sql}, or say ${none} in words. */
static int
show(struct cli *cli, const char *sql, int64_t n, const char *none)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, sql)) == NULL)
		return cli_refuse(cli);
	if (n > 0)
		stmt_int(q, ":n", n);
	return cli_list(cli, q, none);
}

/* What addresses are held against. */
struct measure {
	struct own own;
	struct classes *classes;
	struct vet vet;
};

/* Close it also where this fails. */
static int
measure_open(struct measure *m, struct store *db, struct refusal *r)
{
	*m = (struct measure){.vet = {.own = &m->own}};
	if (own_read(&m->own, r) != 0 || (m->classes = class_load(db, r)) == NULL)
		return -1;
	m->vet.classes = m->classes;
	return 0;
}

static void
measure_close(struct measure *m)
{
	class_free(m->classes);
	own_free(&m->own);
}

/*
 * Rules.
 */

/* A rule for an address that no rule reaches is made, and explained. */
static void
explain_unreached(struct cli *cli, const struct address *literal)
{
	struct measure m;
	struct refusal r;

	if (measure_open(&m, cli->db, &r) == 0 && vet_addresses(&m.vet, literal, 1, &r) != 0)
		printf("The lane goes there for no rule, though: %s [%s]\n", r.why, r.code);
	measure_close(&m);
}

/* All that a preset names, at once. */
static int
preset(struct cli *cli, const char *verdict, const char *name, const struct options *o)
{
	struct egress_rule asked = {.deny = strcmp(verdict, "deny") == 0,
	    .uid = o->uid,
	    .host = o->host,
	    .by_uid = getuid()};
	int64_t count;

	if (o->narrow)
		return cli_usage(cli, "a preset is of places alone, not of requests");
	if (cli_open(cli, ROLE_PERSON) != 0 ||
	    egress_preset_make(cli->db, name, &asked, &count) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"made\":%" PRId64 ",\"verdict\":\"%s\"}\n", count, verdict);
	else
		printf("%s, in %" PRId64 " rule%s. To take them back: bastion egress forget @%s\n",
		    asked.deny ? "Denied" : "Allowed", count, count == 1 ? "" : "s", name);
	return 0;
}

static int
rule(struct cli *cli, const char *verdict, const char *what, const struct options *o)
{
	struct egress_rule asked = {.deny = strcmp(verdict, "deny") == 0,
	    .uid = o->uid,
	    .host = o->host,
	    .by_uid = getuid(),
	    .within = o->narrow ? &o->within : NULL};
	struct authority a;
	int64_t id;

	/* The store comes first: it knows the advice to a refusal. */
	if (cli_open(cli, ROLE_PERSON) != 0 || authority_pattern(what, &a, &cli->refusal) != 0)
		return cli_refuse(cli);
	asked.suffix = a.host.text;
	asked.port = a.port;
	if (egress_rule_make(cli->db, &asked, &id) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"verdict\":\"%s\"}\n", id, verdict);
	else
		printf("%s. To take it back: bastion egress forget %" PRId64 "\n",
		    asked.deny ? "Denied" : "Allowed", id);
	if (cli->mode != CLI_JSON && !asked.deny && o->host == NULL &&
	    a.host.kind != ENDPOINT_NAME && strcmp(a.host.text, "*") != 0)
		explain_unreached(cli, &a.host.address);
	if (cli->mode != CLI_JSON && o->narrow && store_setting(cli->db, "egress.inspect") == 0)
		printf("The lane looks into no tunnels yet: bastion egress inspect rules\n");
	return 0;
}

static int
forget(struct cli *cli, const char *what)
{
	struct authority a = {.host = {.text = ""}};
	int64_t id = 0, count;

	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	if (*what != '@' && input_number(what, &id) != 0) {
		id = 0;
		if (authority_pattern(what, &a, &cli->refusal) != 0)
			return cli_refuse(cli);
	}
	if ((*what == '@' ? egress_preset_forget(cli->db, what + 1, &count)
			  : egress_rule_forget(cli->db, id, a.host.text, &count)) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"dropped\":%" PRId64 "}\n", count);
	else
		printf("%" PRId64 " rule%s forgotten.\n", count, count == 1 ? "" : "s");
	return 0;
}

/*
 * Looking into tunnels.
 */

static int
inspect_show(struct cli *cli)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, INSPECT)) == NULL)
		return cli_refuse(cli);
	return cli_show(cli, q) >= 0 ? 0 : cli_refuse(cli);
}

/* The certificate, as every program takes it. */
static int
inspect_ca(struct cli *cli)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, AUTHORITY)) == NULL)
		return cli_refuse(cli);
	if (stmt_step(q) != 1) {
		refusal_set(&cli->refusal, "egress.no_authority",
		    "the lane looks into no tunnels, so nobody has to trust it");
		return cli_refuse(cli);
	}
	fputs(stmt_get_text(q, 0), stdout);
	stmt_done(q);
	return 0;
}

static int
inspect_set(struct cli *cli, int64_t mode)
{
	struct stmt *q;

	if (cli_open(cli, ROLE_PERSON) != 0)
		return cli_refuse(cli);
	if ((q = store_sql(cli->db, INSPECT_SET)) != NULL)
		stmt_int(q, ":mode", mode);
	if (stmt_run_alone(q) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_TABLE && mode != 0)
		printf("Programs trust it with the file that this writes:\n"
		       "    bastion egress inspect ca >bastion-ca.pem\n");
	return 0;
}

static int
inspect(struct cli *cli, const char *what)
{
	static const char *const modes[] = {"off", "rules", "all"};
	int64_t i;

	if (what == NULL)
		return inspect_show(cli);
	if (strcmp(what, "ca") == 0)
		return inspect_ca(cli);
	for (i = 0; i < 3; i++)
		if (strcmp(what, modes[i]) == 0)
			return inspect_set(cli, i);
	return cli_usage(cli, "say off, rules, all or ca");
}

/*
 * Connections.
 */

/* What was shown so far: up to which number, and what of it was open then, as a JSON array. */
struct shown {
	int64_t seen;
	char *open;
};

static void
flow_line(const struct cli *cli, struct stmt *q)
{
	const char *text;
	int i;

	if (cli->mode == CLI_JSON) {
		text = stmt_get_text(q, 8);
		isatty(STDOUT_FILENO) ? text_show(stdout, text, strlen(text))
				      : (void)fputs(text, stdout);
		putchar('\n');
		return;
	}
	for (i = 0; i < 6; i++) {
		text = stmt_get_text(q, i);
		text_show(stdout, text, strlen(text));
		fputs(i < 5 ? "  " : "\n", stdout);
	}
}

/* One line for each connection that is new, and one more once it is over. */
static int
flows_new(struct cli *cli, struct shown *s)
{
	int64_t id, before = s->seen;
	char *open = NULL;
	struct stmt *q;
	bool is_open;
	size_t len;
	FILE *out;
	int more;

	if ((q = store_sql(cli->db, SINCE)) == NULL)
		return -1;
	if ((out = open_memstream(&open, &len)) == NULL) {
		stmt_done(q);
		return refusal_set(&cli->refusal, "store.failed", "out of memory");
	}
	putc('[', out);
	stmt_int(q, ":id", s->seen);
	stmt_text(q, ":open", s->open == NULL ? "[]" : s->open);
	while ((more = stmt_step(q)) == 1) {
		id = stmt_get_int(q, 6);
		is_open = stmt_get_int(q, 7) != 0;
		if (is_open)
			fprintf(out, "%s%" PRId64, ftell(out) > 1 ? "," : "", id);
		if (id > before || !is_open)
			flow_line(cli, q);
		if (id > s->seen)
			s->seen = id;
	}
	putc(']', out);
	if (fclose(out) != 0 && more == 0)
		more = refusal_set(&cli->refusal, "store.failed", "out of memory");
	free(s->open);
	s->open = open;
	return more;
}

static int
follow(struct cli *cli, int64_t n)
{
	struct shown s = {.open = NULL};
	struct stmt *q;
	int bell, tick, rc;

	if (cli->mode != CLI_TABLE && cli->mode != CLI_JSON)
		return cli_usage(cli, "--follow writes a line for each, or an object with --json");
	if (cli_open(cli, ROLE_READER) != 0 || (q = store_sql(cli->db, PREVIOUS)) == NULL)
		return cli_refuse(cli);
	stmt_int(q, ":n", n);
	s.seen = stmt_value(q, 0);
	if ((bell = store_bell(cli->db)) == -1) {
		refusal_errno(&cli->refusal, "store.failed", "the bell");
		return cli_refuse(cli);
	}
	tick = (int)store_setting(cli->db, "store.tick_ms");
	while ((rc = flows_new(cli, &s)) == 0 && audit_bell(cli, bell, tick))
		;
	free(s.open);
	return rc == 0 ? 0 : cli_refuse(cli);
}

/*
 * What the lane would say.
 */

struct looked_up {
	struct loop *loop;
	struct address *addresses;
	size_t n;
	struct refusal why;
};

static void
on_looked_up(void *ctx, const struct address *addresses, size_t n, const struct refusal *why)
{
	struct looked_up *l = ctx;

	if (n > 0 && (l->addresses = calloc(n, sizeof(*addresses))) != NULL) {
		memcpy(l->addresses, addresses, n * sizeof(*addresses));
		l->n = n;
	} else if (why != NULL) {
		l->why = *why;
	}
	loop_stop(l->loop);
}

static int
look_up(struct store *db, const char *name, struct looked_up *l, struct refusal *r)
{
	const struct resolver_config config = {.lookups = 1,
	    .addresses = (size_t)store_setting(db, "egress.addresses"),
	    .wait_ms = store_setting(db, "egress.resolve_ms")};
	struct resolver *resolver;
	int rc = -1;

	if ((l->loop = loop_new()) == NULL)
		return refusal_errno(r, "egress.resolve", "cannot make a loop");
	if ((resolver = resolver_new(l->loop, &config, r)) != NULL &&
	    resolver_ask(resolver, 0, name, on_looked_up, l, r) != NULL)
		rc = loop_run(l->loop);
	if (rc == 0 && l->n == 0) {
		*r = l->why;
		rc = -1;
	}
	resolver_free(resolver);
	loop_free(l->loop);
	return rc;
}

static void
address_line(const struct cli *cli, const struct vet *vet, const struct address *a, bool first)
{
	struct class_found found = class_of(vet->classes, a);
	char text[ADDRESS_TEXT_MAX + 1];
	bool own = own_has(vet->own, a);

	address_text(a, text);
	if (cli->mode == CLI_JSON)
		printf("%s{\"address\":\"%s\",\"class\":\"%s\",\"why\":\"%s\",\"own\":%s}",
		    first ? "" : ",", text, class_name(found.class), found.why,
		    own ? "true" : "false");
	else
		printf("    %-39s  %s (%s)%s\n", text, class_name(found.class), found.why,
		    own ? ", and it is this machine" : "");
}

static int
list_json(const struct looked_up *l, char **list)
{
	char text[ADDRESS_TEXT_MAX + 1];
	size_t i, len;
	FILE *f;

	if ((f = open_memstream(list, &len)) == NULL)
		return -1;
	for (i = 0; i < l->n; i++) {
		address_text(&l->addresses[i], text);
		fprintf(f, "%s\"%s\"", i == 0 ? "[" : ",", text);
	}
	fputc(']', f);
	return fclose(f);
}

/* The decision itself, made by the rules of the database and undone. */
static int
decision(struct cli *cli, const struct authority *a, const struct looked_up *l,
    const struct own *own, int64_t uid)
{
	struct egress_wish wish = {.uid = uid, .host = a->host.text, .port = a->port};
	char *list = NULL;
	int rc = -1;

	if (l->n > 0 && list_json(l, &list) != 0)
		return refusal_set(&cli->refusal, "store.failed", "out of memory");
	wish.addresses = list;
	if (store_begin(cli->db) == 0) {
		if (own_store(cli->db, own) == 0)
			rc = egress_try(cli->db, &wish);
		if (rc != 0)
			cli->refusal = *store_refusal(cli->db);
		store_rollback(cli->db);
	}
	free(list);
	return rc;
}

static int
judge(struct cli *cli, const struct authority *a, struct looked_up *l, const struct vet *vet,
    int64_t uid)
{
	size_t i;
	int rc;

	if (vet_host(&a->host, &cli->refusal) != 0 ||
	    (a->host.kind == ENDPOINT_NAME && decision(cli, a, l, vet->own, uid) != 0) ||
	    (a->host.kind == ENDPOINT_NAME &&
		look_up(cli->db, a->host.text, l, &cli->refusal) != 0))
		return -1;
	if (cli->mode == CLI_JSON)
		printf("{\"host\":\"%s\",\"port\":%u,\"addresses\":[", a->host.text, a->port);
	else
		printf("%s, port %u:\n", a->host.text, a->port);
	for (i = 0; i < l->n; i++)
		address_line(cli, vet, &l->addresses[i], i == 0);
	if ((rc = vet_addresses(vet, l->addresses, l->n, &cli->refusal)) == 0)
		rc = decision(cli, a, l, vet->own, uid);
	if (cli->mode == CLI_JSON)
		printf("],\"reached\":%s}\n", rc == 0 ? "true" : "false");
	else if (rc == 0)
		printf("It would be reached.\n");
	return rc;
}

static int
check(struct cli *cli, const char *what, const struct options *o)
{
	struct looked_up l = {.n = 0};
	struct measure m;
	struct authority a;
	struct address literal;
	int rc = -1;

	if (cli_open(cli, ROLE_EGRESS) != 0 ||
	    authority_parse(what, strlen(what), 443, &a, &cli->refusal) != 0)
		return cli_refuse(cli);
	if (a.host.kind != ENDPOINT_NAME) {
		literal = a.host.address;
		l.addresses = &literal;
		l.n = 1;
	}
	if (measure_open(&m, cli->db, &cli->refusal) == 0)
		rc = judge(cli, &a, &l, &m.vet, o->uid == -1 ? (int64_t)getuid() : o->uid);
	measure_close(&m);
	if (l.addresses != &literal)
		free(l.addresses);
	return rc == 0 ? 0 : cli_refuse(cli);
}

/*
 * VERB: egress
 *
 * usage: bastion egress [ls] [--json]
 *        bastion egress allow | deny WHAT[:PORT] [--user USER | --host HOST] [--json]
 *        bastion egress allow WHAT[:PORT] [--method METHOD] [--path PATH]
 *                             [--token NAME] [--websocket] …
 *        bastion egress presets | within | requests [-n N] [--json]
 *        bastion egress inspect [off | rules | all | ca]
 *        bastion egress forget ID | WHAT [--json]
 *        bastion egress check HOST[:PORT] [--user USER] [--json]
 *        bastion egress tail [-n N] [--follow] [--json]
 *        bastion egress top [-n N] [--json]
 *        bastion egress parked [--json]
 *
 * Who may reach what through the internet lane. WHAT is a name with all names below it, an address,
 * * for everything public, or a preset, which is what a common tool needs: @npm, say; presets lists
 * them. A deny wins over every allow, and what no rule allows is refused. A rule is for every user
 * of this machine, or for the one of --user. What is this machine, its networks and the metadata
 * services of clouds is reached by no rule: check says for a destination what each of its addresses
 * is and what the lane would do. (A rule that allows a Host an address of a network lets the verbs
 * of that Host reach it: container:pull, git:fetch.)
 *
 * A rule with --method, --path, --token or --websocket allows requests within TLS alone, and of
 * them those with that method and path (* stands for any characters); more of the same make more. A
 * token goes along with what its rule allows; see bastion token. For that the lane looks into the
 * tunnels of such rules once inspect is set to rules, into every tunnel with all: programs must
 * then trust the certificate that inspect ca writes. within lists what rules say of requests,
 * requests the last ones that were seen.
 *
 * The lane is the socket egress.sock (HTTP, CONNECT, SOCKS5), and where the settings
 * egress.http_port and egress.socks_port name ports, those of the loopback address. tail lists the
 * last connections, top those that are open, by how much they have carried. tail --follow begins
 * with the last N and goes on: a line (with --json an object) for each that is new, and another
 * once it is over.
 *
 * A Host uses it over connections that this machine dials and parks with it, where a rule names the
 * Host or a person granted egress:reach; each connection of the Host's is one use. parked lists
 * them: what each is at, how many connections it took and how many came to nothing.
 */
int
verb_egress(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {{"follow", no_argument, NULL, 'f'},
	    {"user", required_argument, NULL, 'u'}, {"host", required_argument, NULL, 'H'},
	    {"lines", required_argument, NULL, 'n'}, {"method", required_argument, NULL, 'm'},
	    {"path", required_argument, NULL, 'p'}, {"token", required_argument, NULL, 't'},
	    {"websocket", no_argument, NULL, 'w'}, {NULL, 0, NULL, 0}};
	struct options o = {.uid = -1, .n = LIST_DEFAULT};
	int first, words;
	const char *what;

	if ((first = cli_options(cli, argc, argv, longopts, egress_option, &o)) < 0)
		return first == -2 ? 0 : 2;
	words = argc - first;
	what = words > 0 ? argv[first] : "ls";
	if (words <= 1 && strcmp(what, "ls") == 0)
		return show(cli, RULES, 0, "Nothing is allowed: bastion egress allow github.com");
	if (words == 1 && strcmp(what, "presets") == 0)
		return show(cli, PRESETS, 0, "There is no preset.");
	if (words == 1 && strcmp(what, "within") == 0)
		return show(cli, WITHIN, 0, "No rule says anything of requests.");
	if (words == 1 && strcmp(what, "requests") == 0)
		return show(cli, REQUESTS, o.n, "No request was seen within TLS yet.");
	if (words == 1 && strcmp(what, "tail") == 0)
		return o.follow ? follow(cli, o.n)
				: show(cli, LAST, o.n, "Nothing was asked for yet.");
	if (words == 1 && strcmp(what, "top") == 0)
		return show(cli, LIVE, o.n, "Nothing is connected.");
	if (words == 1 && strcmp(what, "parked") == 0)
		return show(cli, PARKED, 0, "No connection is parked with a Host.");
	if (words == 2 && (strcmp(what, "allow") == 0 || strcmp(what, "deny") == 0))
		return argv[first + 1][0] == '@' ? preset(cli, what, argv[first + 1] + 1, &o)
						 : rule(cli, what, argv[first + 1], &o);
	if (words <= 2 && strcmp(what, "inspect") == 0)
		return inspect(cli, words == 2 ? argv[first + 1] : NULL);
	if (words == 2 && strcmp(what, "forget") == 0)
		return forget(cli, argv[first + 1]);
	if (words == 2 && strcmp(what, "check") == 0)
		return check(cli, argv[first + 1], &o);
	return cli_unexpected(cli, argv[first]);
}
