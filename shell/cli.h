/* cli.h: what every verb shares: its home and store, its options, and how it says no. */
#ifndef SHELL_CLI_H
#define SHELL_CLI_H

#include "engine/refusal.h"
#include "engine/store/store.h"

#define CLI_ACTING_MAX 160 /* bytes of who acts, as the audit has it */

/* How rows are shown: --json, --csv, --box; on a terminal a table that fits it is the default. */
enum cli_mode {
	CLI_TABLE,
	CLI_BOX,
	CLI_JSON,
	CLI_CSV,
	/* Those of bastion sql alone: */
	CLI_LINE,
	CLI_MARKDOWN,
	CLI_JSONL,
	CLI_QUOTE
};

/*
 * One run of a verb.  A verb is shell/verb_NAME.c: its help stands in the comment "VERB: name"
 * above int verb_NAME(struct cli *cli, int argc, char **argv), where argv[0] is the verb and what
 * follows is the rest.  "VERB: host invite" is verb_host_invite.  The table of verbs is made from
 * the comments.
 */
struct cli {
	const char *verb;
	enum home_role role; /* HOME_HOST for "host ..." and "on" */
	enum cli_mode mode;
	struct home home;
	struct store *db;
	struct key *key;
	struct refusal refusal;
};

/**
 * cli_open(cli, role):
 * Open the home and the store of ${cli} in ${role}; ROLE_PERSON reads the key as well and acts as
 * the person who runs the verb.  Return 0, or -1 with cli->refusal set.
 */
int cli_open(struct cli *cli, enum store_role role);

/**
 * cli_database(cli):
 * Refuse, with store.missing in cli->refusal, where the home of ${cli}, which is open, has no
 * database.  Return 0 or -1.
 */
int cli_database(struct cli *cli);

/**
 * cli_person(cli, keys, acting):
 * Open the home of ${cli} and its key, into ${keys}, and say in ${acting} who runs the verb: what
 * cli_open does for ROLE_PERSON before it opens the store, for a verb that works without one.
 * Return 0, or -1 with cli->refusal set.
 */
int cli_person(struct cli *cli, struct store_keys *keys, char acting[CLI_ACTING_MAX]);

/**
 * cli_close(cli):
 * Close what cli_open opened and wipe the key.
 */
void cli_close(struct cli *cli);

/**
 * cli_home(void):
 * Return the home of whoever runs this as the machine's list of users has it, so that no variable
 * moves what "~" means in a policy; HOME where the list has none, or NULL.  The text is libc's,
 * until the next look into that list.
 */
const char *cli_home(void);

/**
 * cli_refuse(cli):
 * Say cli->refusal, or that of its store, on standard error: one line with what was refused and
 * why, one with what to do next; with --json one object {"error":{code, why, advice, retry_at}}.
 * Close ${cli}. Return the exit code that the table refusal gives it.
 */
int cli_refuse(struct cli *cli);

/**
 * cli_advice(cli, code, advice):
 * Store what to do about the refusal ${code} in ${advice}, as the database of ${cli} says it, or
 * where it has none the rows that every database is born with; "" for a code that none knows.
 * Return the exit code of ${code}; 1 for such.
 */
int cli_advice(struct cli *cli, const char *code, char advice[REFUSAL_WHY_MAX]);

/**
 * cli_refuse_as(cli, exit_code, advice):
 * As cli_refuse, for a refusal that came with its exit code and advice from a daemon.
 */
int cli_refuse_as(struct cli *cli, int exit_code, const char *advice);

/**
 * cli_say(cli):
 * As cli_refuse, but leave ${cli} open and without a refusal, for verbs that go on.
 */
int cli_say(struct cli *cli);

/**
 * cli_usage(cli, fmt, ...):
 * Say on standard error how the call is wrong and how the verb is used.  Close ${cli}.  Return 2.
 */
int cli_usage(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/**
 * cli_unexpected(cli, word):
 * As cli_usage, for a word that the verb cannot go on from: what comes behind it where it is one of
 * the verb's, else that it is none, and which are near.
 */
int cli_unexpected(struct cli *cli, const char *word);

/**
 * cli_wrong(why):
 * For what reads the value of an option: say why it does not take it, as "there is no such user" or
 * "it takes 30s, 10m, 2h or 3d"; without that, what the verb's usage has there is said.  ${why} is
 * not copied.  Return -1.
 */
int cli_wrong(const char *why);

#define CLI_HOST 0x100 /* the val of an option that makes the verb one of this user's Host */

/**
 * cli_options(cli, argc, argv, longopts, fn, ctx):
 * Take the options of the verb: --json, --csv, --box, --help are handled here, and so is a val
 * CLI_HOST.  Every other of ${longopts} (struct option, ended by zeros; NULL: none) is passed to
 * ${fn}(ctx, val, value), which returns 0, or -1 (cli_wrong) where the option cannot have that
 * value.  A val that is a letter is a short option too: -f FILE.  Names are taken whole, never
 * guessed from their beginnings.  Options and words may mix;
 * "--" ends them.  A value in a word of its own is neither "--" nor an option that the verb has.
 * Return the index of the first word in ${argv}, whose words are moved to its end
 * (${argc} where there are none); -1 after a message (exit 2) and -2 after --help (exit 0).
 */
struct option;
int cli_options(struct cli *cli, int argc, char **argv, const struct option *longopts,
    int (*fn)(void *ctx, int val, const char *arg), void *ctx);

/**
 * cli_show(cli, q):
 * Step ${q} to its end and show its rows in cli->mode on standard output.  Columns named at, or
 * whose name ends in _at, are times: shown as local time for people, as RFC 3339 UTC in JSON and
 * CSV.  Columns named args, body, bounds and paths are JSON and stay JSON.  With no rows a table
 * shows nothing at all, so that the verb can say it in words.  ${q} may be NULL, where preparing it
 * failed.  Return the number of rows, or -1 with the store's refusal set.
 */
int cli_show(struct cli *cli, struct stmt *q);

/**
 * cli_list(cli, q, none):
 * As cli_show; where there are no rows, a table says the sentence ${none} instead.  Return the exit
 * code of a verb that lists: 0, or what cli_refuse returns.
 */
int cli_list(struct cli *cli, struct stmt *q, const char *none);

/**
 * cli_list_of(cli, sql, none):
 * Open the database for reading and list, as cli_list, the rows of ${sql}.
 */
int cli_list_of(struct cli *cli, const char *sql, const char *none);

/**
 * cli_list_all(cli, sql, all, none):
 * Open the database for reading and list, as cli_list, the rows of ${sql}, whose parameter :all
 * says whether what is over is wanted too.
 */
int cli_list_all(struct cli *cli, const char *sql, bool all, const char *none);

/**
 * cli_secret(prompt, out, size):
 * Ask for a line on the terminal without showing it; where standard input is no terminal, read the
 * line from there, and not a byte more.  Return its length without the line's end; or -1, with
 * ${out} wiped, if there was none, it did not fit, it held a NUL or a signal came.
 */
int cli_secret(const char *prompt, char *out, size_t size);

/**
 * cli_duration(text, ms):
 * Read "90s", "15m", "2h", "7d" or plain seconds into ${*ms}, at least 0.  Return 0, or -1 as
 * cli_wrong.
 */
int cli_duration(const char *text, int64_t *ms);

#endif
