/* person.c: one look-up at a time, on a thread that nobody has to wait for. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/state/person.h"

/* The one slot: a look-up that hangs keeps it until the directory answers. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool busy;
	uid_t uid;
	char name[PERSON_NAME_MAX + 1]; /* of ${uid}, once no longer busy */
} slot = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

static int (*lookup)(uid_t, struct passwd *, char *, size_t, struct passwd **) = getpwuid_r;

void
person_lookup_fix(int (*fn)(uid_t, struct passwd *, char *, size_t, struct passwd **))
{
	lookup = fn != NULL ? fn : getpwuid_r;
}

static void *
person_ask(void *ctx)
{
	struct passwd entry, *found = NULL;
	char buf[16384];
	const char *name = "";
	uid_t uid = slot.uid; /* ours while busy */

	(void)ctx;
	if (lookup(uid, &entry, buf, sizeof(buf), &found) == 0 && found != NULL &&
	    strlen(found->pw_name) <= PERSON_NAME_MAX)
		name = found->pw_name;
	pthread_mutex_lock(&slot.lock);
	snprintf(slot.name, sizeof(slot.name), "%s", name);
	slot.busy = false;
	pthread_cond_broadcast(&slot.answered);
	pthread_mutex_unlock(&slot.lock);
	return NULL;
}

static int
person_start(uid_t uid)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	slot.uid = uid;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, person_ask, NULL);
	pthread_attr_destroy(&attr);
	slot.busy = rc == 0;
	return rc;
}

/* With the lock held: whether ${uid} was looked up in time. */
static bool
person_wait(uid_t uid)
{
	struct timespec until;

	if (slot.busy || person_start(uid) != 0)
		return false;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PERSON_WAIT_MS / 1000;
	while (slot.busy)
		if (pthread_cond_timedwait(&slot.answered, &slot.lock, &until) == ETIMEDOUT)
			return !slot.busy;
	return true;
}

int
person_name(uid_t uid, char name[PERSON_NAME_MAX + 1], struct refusal *r)
{
	bool answered;

	snprintf(name, PERSON_NAME_MAX + 1, "uid %lu", (unsigned long)uid);
	pthread_mutex_lock(&slot.lock);
	if ((answered = person_wait(uid)) && slot.name[0] != '\0')
		memcpy(name, slot.name, sizeof(slot.name));
	pthread_mutex_unlock(&slot.lock);
	return answered ? 0
			: refusal_set(r, "approval.person",
			      "the user directory did not say in time who you are");
}
