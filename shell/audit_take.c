/* audit_take.c: take the audit away, whole or as it is written. */
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/audit_export.h"
#include "shell/audit_words.h"

/* Rows have no gap: before the first of them nothing may be missing. */
static const char AUDIT_EXPORTED[] = "UPDATE audit_sink SET sent = max(sent, :last)"
				     " WHERE name = 'export' AND :since <= sent + 1";

/* A file that a program could take for the whole export exists only once it is one. */
static int64_t
export_to(struct cli *cli, struct audit_export *export, const char *path)
{
	int64_t rows;
	FILE *f;
	int fd;

	if ((fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) == -1)
		return refusal_errno(&cli->refusal, "file.write", path);
	if ((f = fdopen(fd, "w")) == NULL) {
		refusal_errno(&cli->refusal, "store.failed", path);
		close(fd);
		unlink(path);
		return -1;
	}
	rows = audit_export(cli->db, export, f);
	if (rows != -1 && fsync(fd) == -1)
		rows = refusal_errno(&cli->refusal, "store.failed", path);
	if (fclose(f) != 0 && rows != -1)
		rows = refusal_errno(&cli->refusal, "store.failed", path);
	if (rows == -1)
		unlink(path);
	return rows;
}

/* The name of the file is on the disk as well: only then may its rows be removed one day. */
static int
export_sync(struct cli *cli, const char *path)
{
	char dir[PATH_MAX];
	int fd, rc;

	snprintf(dir, sizeof(dir), "%s", path);
	if ((fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return refusal_errno(&cli->refusal, "store.failed", path);
	if ((rc = fsync(fd)) == -1)
		refusal_errno(&cli->refusal, "store.failed", path);
	close(fd);
	return rc;
}

/* Say that rows ${since} to ${last} are kept elsewhere. */
static int
export_mark(struct cli *cli, int64_t since, int64_t last)
{
	struct stmt *q;

	if (store_begin(cli->db) == -1)
		return -1;
	if ((q = store_sql(cli->db, AUDIT_EXPORTED)) == NULL)
		return store_rollback(cli->db);
	stmt_int(q, ":last", last);
	stmt_int(q, ":since", since);
	if (stmt_run_one(q) == -1) {
		refusal_set(store_refusal(cli->db), "audit.base",
		    "rows before %" PRId64 " were not exported and marked yet", since);
		return store_rollback(cli->db);
	}
	return store_commit(cli->db);
}

/* Go on until the last row asked for was written, or nobody reads any more. */
static int
export_follow(struct cli *cli, struct audit_export *export)
{
	int bell, tick;

	if ((bell = store_bell(cli->db)) == -1)
		return refusal_errno(&cli->refusal, "store.failed", "the bell");
	tick = (int)store_setting(cli->db, "store.tick_ms");
	export->sealed = export->format == AUDIT_JSONL;
	do {
		if (audit_export(cli->db, export, stdout) == -1)
			return -1;
		if (export->until != 0 && export->since > export->until)
			return 0;
	} while (audit_bell(cli, bell, tick));
	return 0;
}

int
audit_export_word(struct cli *cli, struct audit_options *o, int argc, char **argv)
{
	struct audit_export export = {.format = AUDIT_JSONL};
	const char *path = argc == 0 || strcmp(argv[0], "-") == 0 ? NULL : argv[0];
	int64_t rows, since;

	if (argc > 1)
		return cli_unexpected(cli, argv[1]);
	if (o->format != NULL && audit_format_read(o->format, &export.format) == -1)
		return cli_usage(cli, "a format is jsonl, csv, cef or ecs");
	if (o->follow && path != NULL)
		return cli_usage(cli, "--follow writes to standard output");
	if (o->mark && path == NULL)
		return cli_usage(cli, "--mark needs a file, which can be made sure of");
	if (o->mark && export.format != AUDIT_JSONL)
		return cli_usage(
		    cli, "--mark needs jsonl, which alone keeps seals and checkpoints");
	if (cli_open(cli, o->mark ? ROLE_PERSON : ROLE_READER) != 0 ||
	    audit_range(cli, o, &export.since, &export.until) == -1)
		return cli_refuse(cli);
	if (o->follow)
		return export_follow(cli, &export) == -1 ? cli_refuse(cli) : 0;
	if (path == NULL)
		return audit_export(cli->db, &export, stdout) == -1 ? cli_refuse(cli) : 0;
	since = export.since;
	if ((rows = export_to(cli, &export, path)) == -1 ||
	    (o->mark && export_sync(cli, path) == -1) ||
	    (o->mark && rows > 0 && export_mark(cli, since, export.since - 1) == -1))
		return cli_refuse(cli);
	printf(cli->mode == CLI_JSON ? "{\"rows\":%" PRId64 "}\n" : "%" PRId64 " rows\n", rows);
	return 0;
}
