/* verb_backup.c: take a copy of the database away. */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/crypto/key.h"
#include "engine/store/backup.h"
#include "shell/cli.h"
#include "shell/progress.h"
#include "shell/text.h"

static const char MADE[] = "INSERT INTO backup (made_at, seq, head, bytes)"
			   " VALUES (now_ms(), :seq, :head, :bytes)";

static int
option(void *ctx, int val, const char *arg)
{
	bool *force = ctx;

	(void)val;
	(void)arg;
	*force = true;
	return 0;
}

/* Whoever holds a copy holds what is in it: the audit says who took it. */
static int
record(struct cli *cli, const struct backup_copy *copy)
{
	struct stmt *q;

	if ((q = store_sql(cli->db, MADE)) == NULL)
		return -1;
	stmt_int(q, ":seq", copy->seq);
	stmt_blob(q, ":head", copy->head, sizeof(copy->head));
	stmt_int(q, ":bytes", copy->bytes);
	return stmt_run_alone(q);
}

static void
say(const struct cli *cli, const char *path, const struct backup_copy *copy)
{
	char head[65];

	sodium_bin2hex(head, sizeof(head), copy->head, sizeof(copy->head));
	if (cli->mode == CLI_JSON) {
		fputs("{\"file\":", stdout);
		text_json(stdout, path, strlen(path));
		printf(",\"bytes\":%" PRId64 ",\"schema\":%d,\"audit_seq\":%" PRId64
		       ",\"audit_head\":\"%s\"}\n",
		    copy->bytes, copy->version, copy->seq, head);
		return;
	}
	text_show(stdout, path, strlen(path));
	printf(": %" PRId64 " kB, checked; the audit in it goes to row %" PRId64 ".\n"
	       "It holds no key, and is of no use without it: keep a copy of ",
	    copy->bytes / 1024, copy->seq);
	text_show(stdout, cli->home.state, strlen(cli->home.state));
	puts("/bastion.key\nin another place, once.");
}

/*
 * VERB: backup
 *
 * usage: bastion backup FILE [--force] [--host] [--json]
 *
 * Copy the database to FILE, while everything goes on. The copy is of one moment. It gets its name
 * only when it is on the disk and was checked: its pages, its references, and every hash and seal
 * of its audit. So FILE is a whole backup or is not there. With --force it replaces an older one.
 * Only its owner may read it, and the audit says that it was taken, and by whom.
 *
 * The key is not in it: keep a copy of bastion.key apart. With --host, copy the database of this
 * user's Host. See bastion restore for the way back.
 */
int
verb_backup(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {{"force", no_argument, NULL, 'f'},
	    {"host", no_argument, NULL, CLI_HOST}, {NULL, 0, NULL, 0}};
	struct backup_watch watch;
	struct backup_copy copy;
	struct progress progress;
	unsigned char pk[32];
	bool force = false;
	int first, rc;

	if ((first = cli_options(cli, argc, argv, options, option, &force)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1)
		return cli_usage(cli, "name one file");
	if (cli_open(cli, ROLE_PERSON) == -1)
		return cli_refuse(cli);
	key_public(cli->key, KEY_IDENTITY, pk);
	progress_begin(&progress, cli);
	watch = (struct backup_watch){progress_tell, &progress};
	rc = backup_write(cli->db, argv[first], pk, force, &watch, &copy);
	progress_end(&progress);
	if (rc == -1)
		return cli_refuse(cli);
	say(cli, argv[first], &copy);
	return record(cli, &copy) == -1 ? cli_refuse(cli) : 0;
}
