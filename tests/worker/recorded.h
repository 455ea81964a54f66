/* recorded.h: a machine whose journal is in fixtures/journal. */
#ifndef TESTS_WORKER_RECORDED_H
#define TESTS_WORKER_RECORDED_H

#include "tests/worker/ask.h"

#include <grp.h>

#define NOBODY 65534

static struct observe_limits limits;
static struct observe_env env;
static char root[64];

static inline int
recorded_set_up(void **state)
{
	struct group *group = getgrgid(getegid());
	char here[128], path[256];

	(void)state;
	observe_defaults(&limits, &env);
	/* Whoever runs the suite may read the recording. */
	if (group != NULL && geteuid() != 0)
		snprintf(env.readers, sizeof(env.readers), "%s", group->gr_name);
	if (getcwd(here, sizeof(here)) == NULL)
		return -1;
	snprintf(env.journalctl, sizeof(env.journalctl), "%s/fixtures/journal/journalctl", here);
	snprintf(env.systemctl, sizeof(env.systemctl), "%s/fixtures/journal/systemctl", here);
	strcpy(root, "/tmp/bastion-journal-XXXXXX");
	if (mkdtemp(root) == NULL || chmod(root, 0755) == -1)
		return -1;
	snprintf(path, sizeof(path), "%s/0123", root);
	if (mkdir(path, 0755) == -1)
		return -1;
	snprintf(path, sizeof(path), "%s/0123/system.journal", root);
	ask_write(path, "", 0644);
	snprintf(env.journal, sizeof(env.journal), "/nonexistent:%s", root);
	return 0;
}

static inline int
recorded_tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", root);
	return system(command);
}

/* Put a stand-in in place of ${tool}. */
static inline void
recorded_stand_in(char *tool, const char *body)
{
	char text[1024];

	snprintf(tool, OBSERVE_PATH_MAX, "%s/stand-in", root);
	snprintf(text, sizeof(text), "#!/bin/sh\n# a stand-in, made by a test\n%s\n", body);
	ask_write(tool, text, 0755);
}

#endif
