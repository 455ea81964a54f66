/* main.c: from the words of a command line to a verb, and from its end to an exit code. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/actor/actor.h"
#include "engine/worker/runner.h"
#include "engine/worker/unpack.h"
#include "shell/cli.h"
#include "shell/table.h"
#include "shell/verb.h"

/*
 * A standard descriptor that is closed would be given to the next file opened, and messages would
 * be written into it.  Each is taken by one on which reading or writing fails.
 */
static void
hold_standard(void)
{
	int fd;

	for (fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
			(void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
	}
}

/* What was written must have arrived: on a full disk or a closed pipe it has not. */
static int
finish(int code)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout) && fclose(stdout) == 0)
		return code;
	fprintf(stderr, "bastion: standard output: %s\n",
	    errno != 0 ? strerror(errno) : "not everything could be written");
	return code == 0 ? 1 : code;
}

static int
run_verb(const struct verb *v, int words, int argc, char **argv)
{
	struct cli cli = {.verb = v->name, .mode = CLI_TABLE, .home.fd = -1};
	const char *first = argv[words];
	int code;

	if (first != NULL && (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)) {
		fputs(v->help, stdout);
		return 0;
	}
	if (strncmp(v->name, "host ", 5) == 0 || strcmp(v->name, "on") == 0)
		cli.role = HOME_HOST;
	code = v->run(&cli, argc - words + 1, argv + words - 1);
	/* To free what was read takes a sixth of the time of a short question. */
	if (cli.db != NULL && store_reads(cli.db)) {
		store_leave(cli.db);
		cli.db = NULL;
	}
	cli_close(&cli);
	return code;
}

static int
list_verbs(const char *first)
{
	struct table_style style;

	table_style(CLI_TABLE, &style);
	return verb_list(stdout, style.width, first);
}

static int
dispatch(int argc, char **argv)
{
	static char version[] = "version", *as_verb[] = {version, NULL};
	const struct verb *v;
	int words;
	bool help;

	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return list_verbs(NULL) > 0 ? 0 : 1;
	if (strcmp(argv[1], "--version") == 0)
		return run_verb(verb_named(version), 1, 1, as_verb);
	if ((v = verb_find(argc - 1, argv + 1, &words)) != NULL)
		return run_verb(v, words, argc - 1, argv + 1);
	help = argc == 3 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
	if (help && list_verbs(argv[1]) > 0)
		return 0;
	return verb_unknown(argc - 1, argv + 1);
}

int
main(int argc, char **argv)
{
	hold_standard();
	umask(077);
	/* A line is one write: what several verbs say at once stays apart. */
	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	if (sodium_init() == -1) {
		fputs("bastion: libsodium cannot be used\n", stderr);
		return 1;
	}
	if (argc > 1 && strcmp(argv[1], "actor") == 0)
		return actor_main(argc, argv);
	if (argc > 1 && strcmp(argv[1], "runner") == 0)
		return runner_main(argc, argv);
	if (argc > 1 && strcmp(argv[1], "unpack") == 0)
		return unpack_main(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	return finish(dispatch(argc, argv));
}
