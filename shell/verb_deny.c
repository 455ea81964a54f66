/* verb_deny.c: a person says no. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/state/approval.h"
#include "engine/state/person.h"
#include "shell/cli.h"
#include "shell/input.h"

/*
 * VERB: deny
 *
 * usage: bastion deny ID [--json]
 *
 * Deny the question ID of a Host. That needs no code. The Host may ask again.
 */
int
verb_deny(struct cli *cli, int argc, char **argv)
{
	struct approval_answer answer = {.uid = getuid()};
	char name[PERSON_NAME_MAX + 1];
	struct refusal hangs;
	int first;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (argc - first != 1 || input_number(argv[first], &answer.id) != 0)
		return cli_usage(cli, "name one question by its number: see bastion approvals");
	/* A directory that hangs holds no denial. */
	if (person_name(getuid(), name, &hangs) == 0)
		answer.name = name;
	if (cli_open(cli, ROLE_PERSON) != 0 || approval_deny(cli->db, &answer) != 0)
		return cli_refuse(cli);
	if (cli->mode == CLI_JSON)
		printf("{\"id\":%" PRId64 ",\"state\":\"denied\"}\n", answer.id);
	else
		printf("Denied.\n");
	return 0;
}
