/* verb_restore.c: a backup becomes the database again. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/store/restore.h"
#include "shell/cli.h"
#include "shell/progress.h"
#include "shell/text.h"

static int
option(void *ctx, int val, const char *arg)
{
	struct restore_options *o = ctx;

	(void)arg;
	if (val == 'g')
		o->keep_grants = true;
	else
		o->keep_factors = true;
	return 0;
}

static void
say_json(const struct restore_report *p)
{
	printf("{\"audit_seq\":%" PRId64 ",\"kept\":", p->copy.seq);
	if (p->kept[0] != '\0')
		text_json(stdout, p->kept, strlen(p->kept));
	else
		fputs("null", stdout);
	printf(",\"followed\":%s,\"grants\":%" PRId64 ",\"questions\":%" PRId64
	       ",\"invitations\":%" PRId64 ",\"factors\":%" PRId64 ",\"pairings\":%" PRId64
	       ",\"boxes\":%" PRId64 "}\n",
	    p->descends ? "true" : "false", p->grants, p->questions, p->invitations, p->factors,
	    p->pairings, p->boxes);
}

static void
say_count(int64_t n, const char *what)
{
	if (n != 0)
		printf("  %" PRId64 " %s%s\n", n, what, n == 1 ? "" : "s");
}

static void
say(const struct restore_report *p, const struct restore_options *o)
{
	printf("Restored, as of audit row %" PRId64 ".\n", p->copy.seq);
	if (p->kept[0] != '\0')
		printf("What was there is kept beside it: %s\n", p->kept);
	if (p->grants + p->questions + p->invitations + p->factors + p->pairings + p->boxes > 0)
		puts("So that nothing comes alive twice, these of the backup were ended:");
	say_count(p->grants, "grant");
	say_count(p->questions, "open question");
	say_count(p->invitations, "open invitation");
	say_count(p->factors, "factor");
	say_count(p->pairings, "pairing");
	say_count(p->boxes, "box lane");
	if (!p->descends && o->keep_factors)
		puts("Drop the factors that were lost since the backup: bastion factor");
	else if (!p->descends && p->factors > 0)
		puts(
		    "Nothing here tells which factors were lost since: enrol again, bastion factor add");
	if (!p->descends && p->pairings == 0)
		puts("Unpair the Hosts that were taken back since the backup: bastion status");
}

/*
 * VERB: restore
 *
 * usage: bastion restore FILE [--keep-grants] [--keep-factors] [--host] [--json]
 *
 * Make a backup the database again, with the daemon stopped. FILE must be of this machine: its
 * bastion.key is in the state directory. It is checked as bastion backup checks it, and brought up
 * to date, before anything is touched; then one step swaps it in. What was there stays beside it
 * as bastion.db.before-restore-TIME.
 *
 * What ended since the backup must not come alive with it, or an approval would pay twice: its
 * grants are dropped, its open questions and invitations end, codes that were used stay used.
 * Tokens, credentials of other machines, and sessions that wait end too: make them anew.
 * Where the replaced database went on from this backup, what it had dropped or unpaired is dropped
 * here too; where it cannot say, all factors are dropped, since one of them may have been lost.
 * --keep-grants and --keep-factors keep what the replaced database does not speak against: uses
 * that were spent since come back with a grant that is kept. With --host, restore this user's Host.
 */
int
verb_restore(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"keep-grants", no_argument, NULL, 'g'},
	    {"keep-factors", no_argument, NULL, 'f'}, {"host", no_argument, NULL, CLI_HOST},
	    {NULL, 0, NULL, 0}};
	struct restore_options kept = {.acting = NULL};
	struct store_keys keys = {.secret = NULL};
	struct restore_report report;
	struct backup_watch watch;
	struct progress progress;
	char acting[CLI_ACTING_MAX];
	int first, rc;

	if ((first = cli_options(cli, argc, argv, options, option, &kept)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one file");
	/* Without a database: there may be none, or a broken one. */
	if (cli_person(cli, &keys, acting) == -1)
		return cli_refuse(cli);
	kept.acting = acting;
	progress_begin(&progress, cli);
	watch = (struct backup_watch){progress_tell, &progress};
	rc = restore_run(&cli->home, argv[first], &keys, &kept, &watch, &report, &cli->refusal);
	progress_end(&progress);
	if (rc == -1)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		say_json(&report);
	else
		say(&report, &kept);
	return 0;
}
