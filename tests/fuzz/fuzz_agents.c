/* fuzz_agents.c: any bytes as the files that tell whose a process is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy/secret.h"
#include "engine/policy/sudoers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
account(void *ctx, uint32_t id, const char *name)
{
	(void)ctx;
	(void)id;
	if (name[0] == '\0' || strlen(name) >= OWNER_NAME)
		abort();
}

static void
user(void *ctx, const char *name)
{
	(void)ctx;
	if (strlen(name) > 32)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct owner_status status;
	struct sudoers sudo;
	char *text;

	if ((text = malloc(size + 1)) == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (owner_status(text, &status) == 0 && status.group_count > OWNER_GROUPS)
		abort();
	owner_names(text, account, NULL);
	owner_system_max(text);
	owner_directory(text);
	owner_session(text);
	owner_utmp(data, size, user, NULL);
	memset(&sudo, 0, sizeof(sudo));
	sudoers_text(&sudo, text);
	sudoers_user(&sudo, "pat", 1001);
	sudoers_group(&sudo, "wheel", 10);
	sudoers_free(&sudo);
	secret_word(text, size);
	secret_name(text, size);
	free(text);
	return 0;
}
