/* profile.c: from paths of rows to the plan of a sandbox. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/worker/profile.h"

void
profile_begin(struct profile *p)
{
	memset(p, 0, sizeof(*p));
}

static bool
is_named(const struct profile *p, const char *path)
{
	size_t i;

	for (i = 0; i < p->plan.path_count; i++)
		if (strcmp(p->paths[i].target, path) == 0)
			return true;
	return false;
}

static int
add(struct profile *p, const struct sandbox_path *path, struct refusal *refusal)
{
	if (is_named(p, path->target))
		return 0;
	if (p->plan.path_count == SANDBOX_PATHS_MAX)
		return refusal_set(refusal, "sandbox.plan", "there are too many paths");
	p->paths[p->plan.path_count++] = *path;
	return 0;
}

/* A copy of ${text} that lives as long as ${p}; NULL: there are too many. */
static char *
keep(struct profile *p, const char *text)
{
	char *copy;

	if (p->text_count == PROFILE_TEXTS || (copy = strdup(text)) == NULL)
		return NULL;
	p->texts[p->text_count++] = copy;
	return copy;
}

int
profile_add(struct profile *p, enum sandbox_kind kind, const char *path, struct refusal *refusal)
{
	struct sandbox_path at = {.kind = kind, .target = keep(p, path)};

	if (at.target == NULL)
		return refusal_set(refusal, "sandbox.plan", "there are too many paths");
	at.source = kind <= SANDBOX_LINK ? at.target : NULL;
	return add(p, &at, refusal);
}

int
profile_show(struct profile *p, const char *source, const char *target, struct refusal *refusal)
{
	struct sandbox_path at = {
	    .kind = SANDBOX_READ, .source = keep(p, source), .target = keep(p, target)};

	if (at.source == NULL || at.target == NULL)
		return refusal_set(refusal, "sandbox.plan", "there are too many paths");
	return add(p, &at, refusal);
}

int
profile_close(struct profile *p, const struct home *home, uid_t uid, struct refusal *refusal)
{
	const struct passwd *pw = getpwuid(uid);

	p->plan.uid = uid;
	p->plan.gid = pw == NULL ? (gid_t)uid : pw->pw_gid;
	p->plan.backend = BACKEND_NATIVE;
	return sandbox_system(&p->system, &p->plan, p->paths, home, NULL, refusal);
}

bool
profile_shows(const struct profile *p, const char *path)
{
	size_t i, n;

	for (i = 0; i < p->plan.path_count; i++) {
		n = strlen(p->paths[i].target);
		if (p->paths[i].kind <= SANDBOX_EFFECT &&
		    strncmp(path, p->paths[i].target, n) == 0 &&
		    (path[n] == '/' || path[n] == '\0'))
			return true;
	}
	return false;
}

void
profile_free(struct profile *p)
{
	sandbox_system_free(&p->system);
	while (p->text_count > 0)
		free(p->texts[--p->text_count]);
}
