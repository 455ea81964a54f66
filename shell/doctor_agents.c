/* doctor_agents.c: tool servers as this user's clients of agents declare them, by their files
 * alone. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/policy/agents.h"
#include "shell/doctor_part.h"

struct declared {
	struct doctor *d;
	size_t good;
};

static void
look_server(void *ctx, const struct tool_server *s)
{
	struct declared *declared = ctx;
	char advice[512];

	if (s->what[0] == '\0') {
		snprintf(advice, sizeof(advice),
		    "give %s a command or an address in the settings of %s, or take it out",
		    s->name, s->client);
		doctor_note(declared->d, "tools", DOCTOR_BAD, advice,
		    "%s declares the tool server %s with neither a program nor an address",
		    s->client, s->name);
	} else if (s->off) {
		snprintf(advice, sizeof(advice),
		    "switch it on in the settings of %s, or take it out", s->client);
		doctor_note(declared->d, "tools", DOCTOR_WARN, advice,
		    "%s declares the tool server %s, switched off", s->client, s->name);
	} else {
		declared->good++;
	}
}

void
doctor_agents(struct doctor *d)
{
	struct store *db = d->cli->db;
	const struct agents_limits limits = {
	    .processes = (size_t)store_setting(db, "agents.processes"),
	    .files = (size_t)store_setting(db, "agents.files"),
	    .file = (size_t)store_setting(db, "agents.file"),
	    .servers = (size_t)store_setting(db, "agents.servers"),
	    .command = (size_t)store_setting(db, "agents.command"),
	    .wait_ms = store_setting(db, "agents.wait_ms"),
	};
	struct declared declared = {.d = d};
	struct agents_scan scan = {0};
	struct refusal r = {0};
	int root;

	if ((root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) == -1)
		return;
	if (agents_check(root, &limits, getuid(), look_server, &declared, &scan, &r) != 0)
		doctor_note_refusal(d, "tools", DOCTOR_WARN, &r);
	close(root);
	if (scan.unread > 0)
		doctor_note(d, "tools", DOCTOR_WARN, "see that they are JSON, and no links",
		    "%zu files in which clients declare tool servers could not be read",
		    scan.unread);
	if (scan.timed_out || scan.truncated)
		doctor_note(d, "tools", DOCTOR_WARN, "raise the settings agents.*",
		    "there are more declared tool servers than were looked at");
	if (declared.good > 0)
		doctor_note(d, "tools", DOCTOR_OK, "",
		    "%zu declared tool servers can be used as they are", declared.good);
	else
		doctor_note(d, "tools", DOCTOR_OK, "", "no tool server in use is declared");
}
