/* audit_take.c: take the audit away, whole or as it is written. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/audit_export.h"
#include "shell/audit_words.h"

/* A file that a program could take for the whole export exists only once it is one. */
static int64_t
export_to(struct cli *cli, struct audit_export *export, const char *path)
{
	int64_t rows;
	FILE *f;
	int fd;

	if ((fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) == -1)
		return refusal_errno(&cli->refusal, "store.failed", path);
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
	int64_t rows;

	if (argc > 1)
		return cli_usage(cli, "unexpected word: %s", argv[1]);
	if (o->format != NULL && audit_format_read(o->format, &export.format) == -1)
		return cli_usage(cli, "a format is jsonl, csv, cef or ecs");
	if (o->follow && path != NULL)
		return cli_usage(cli, "--follow writes to standard output");
	if (cli_open(cli, ROLE_READER) != 0 ||
	    audit_range(cli, o, &export.since, &export.until) == -1)
		return cli_refuse(cli);
	if (o->follow)
		return export_follow(cli, &export) == -1 ? cli_refuse(cli) : 0;
	if (path == NULL)
		return audit_export(cli->db, &export, stdout) == -1 ? cli_refuse(cli) : 0;
	if ((rows = export_to(cli, &export, path)) == -1)
		return cli_refuse(cli);
	printf(cli->mode == CLI_JSON ? "{\"rows\":%" PRId64 "}\n" : "%" PRId64 " rows\n", rows);
	return 0;
}
