/* verb_help.c: what verbs there are, and how each is used. */
#include <string.h>

#include "shell/cli.h"
#include "shell/table.h"
#include "shell/text.h"
#include "shell/verb.h"

static int
list_json(void)
{
	const struct verb *v;

	for (v = verbs; v->name != NULL; v++) {
		fputs(v == verbs ? "[{\"name\":" : ",\n{\"name\":", stdout);
		text_json(stdout, v->name, strlen(v->name));
		fputs(",\"summary\":", stdout);
		text_json(stdout, v->summary, strlen(v->summary));
		fputs(",\"help\":", stdout);
		text_json(stdout, v->help, strlen(v->help));
		putchar('}');
	}
	fputs("]\n", stdout);
	return 0;
}

/*
 * VERB: help
 *
 * usage: bastion help [VERB] [--json]
 *
 * List the verbs, or say how one is used. "bastion VERB --help" says the same.
 */
int
verb_help(struct cli *cli, int argc, char **argv)
{
	struct table_style style;
	const struct verb *v;
	int first, words;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (first == argc && cli->mode == CLI_JSON)
		return list_json();
	table_style(CLI_TABLE, &style);
	if (first == argc)
		return verb_list(stdout, style.width, NULL) > 0 ? 0 : 1;
	v = verb_find(argc - first, argv + first, &words);
	if (v == NULL && argc - first == 1 && verb_list(stdout, style.width, argv[first]) > 0)
		return 0;
	if (v == NULL)
		return verb_unknown(argc - first, argv + first);
	if (argc - first > words)
		return cli_usage(cli, "one verb at a time");
	fputs(v->help, stdout);
	return 0;
}
