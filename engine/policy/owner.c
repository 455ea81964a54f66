/* owner.c: accounts, groups, sudo rules and sessions of a Linux machine. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utmp.h>

#include "engine/policy/owner.h"
#include "engine/policy/sudoers.h"

#define TABLE_MAX (1u << 20) /* bytes of a file of /etc that are read */
#define NOBODY    65534

static const char *const facts[] = {"unknown", "no", "yes"};

struct account {
	uint32_t id;
	char name[OWNER_NAME];
	char home[256];
};

struct names {
	struct account *at;
	size_t count, cap;
	bool read, failed;
};

struct owner_tables {
	int root;
	bool loaded;
	struct names users, groups, logged;
	uint32_t system_max;
	bool directory;
	struct sudoers sudo;
	bool sudo_read;
	bool systemd; /* /run/systemd/users is there */
};

static const char *
classify(const struct owner_seen *seen)
{
	if (!seen->uid_read)
		return "unknown";
	if (seen->uid == 0)
		return "system";
	if (seen->uid == NOBODY || seen->uid <= seen->system_max)
		return "service";
	if (strpbrk(seen->name, "@\\") != NULL)
		return "domain_user";
	if (seen->in_passwd == FACT_YES)
		return "local_user";
	return seen->in_passwd == FACT_NO && seen->directory ? "domain_user" : "unknown";
}

static enum owner_fact
admin(const struct owner_seen *seen)
{
	if (seen->root_now || (seen->uid_read && seen->uid == 0) ||
	    seen->in_admin_group == FACT_YES || seen->in_sudo == FACT_YES)
		return FACT_YES;
	return seen->in_admin_group == FACT_NO && seen->in_sudo == FACT_NO ? FACT_NO : FACT_UNKNOWN;
}

void
owner_classify(const struct owner_seen *seen, struct owner *owner)
{
	owner->class = classify(seen);
	owner->admin = facts[admin(seen)];
	owner->interactive = facts[seen->name[0] != '\0' ? seen->logged_in : FACT_UNKNOWN];
}

/* The line of ${text} that begins with ${key}, behind it; NULL for none. */
static const char *
line_of(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (; text != NULL && *text != '\0'; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (strncmp(text, key, n) == 0)
			return text + n;
	}
	return NULL;
}

/* The number at ${*at}, on its line; false for none. */
static bool
number_next(const char **at, uint32_t *value)
{
	unsigned long long v;
	char *end;

	*at += strspn(*at, " \t");
	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	v = strtoull(*at, &end, 10);
	*at = end;
	*value = (uint32_t)v;
	return errno == 0 && v <= UINT32_MAX;
}

int
owner_status(const char *text, struct owner_status *status)
{
	const char *at;

	memset(status, 0, sizeof(*status));
	if ((at = line_of(text, "Uid:")) == NULL || !number_next(&at, &status->uid) ||
	    !number_next(&at, &status->euid))
		return -1;
	if ((at = line_of(text, "Gid:")) != NULL)
		status->gid_read = number_next(&at, &status->gid);
	if ((at = line_of(text, "Groups:")) == NULL)
		return 0;
	while (status->group_count < OWNER_GROUPS &&
	       number_next(&at, &status->groups[status->group_count]))
		status->group_count++;
	at += strspn(at, " \t");
	status->groups_read = *at == '\n' || *at == '\0';
	return 0;
}

uint32_t
owner_system_max(const char *text)
{
	const char *at;
	uint32_t value;

	if ((at = line_of(text, "SYS_UID_MAX")) != NULL && number_next(&at, &value))
		return value;
	if ((at = line_of(text, "UID_MIN")) != NULL && number_next(&at, &value) && value > 0)
		return value - 1;
	return 999;
}

bool
owner_directory(const char *text)
{
	static const char *const sources[] = {"sss", "ldap", "winbind", "nis", "nisplus"};
	const char *at = line_of(text, "passwd:");
	size_t i, n;

	while (at != NULL && *at != '\0' && *at != '\n' && *at != '#') {
		at += strspn(at, " \t");
		n = strcspn(at, " \t\n#");
		for (i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
			if (strlen(sources[i]) == n && memcmp(at, sources[i], n) == 0)
				return true;
		at += n;
	}
	return false;
}

enum owner_fact
owner_session(const char *text)
{
	const char *at = line_of(text, "STATE=");
	char state[16];

	if (at == NULL)
		return FACT_UNKNOWN;
	snprintf(state, sizeof(state), "%.*s", (int)strcspn(at, "\n"), at);
	if (strcmp(state, "active") == 0 || strcmp(state, "online") == 0)
		return FACT_YES;
	if (strcmp(state, "lingering") == 0 || strcmp(state, "closing") == 0 ||
	    strcmp(state, "offline") == 0)
		return FACT_NO;
	return FACT_UNKNOWN;
}

/* Field ${n} of the line from ${at} to ${end}, from 0; false where it is not there or does not fit.
 */
static bool
field(const char *at, const char *end, unsigned n, char *out, size_t size)
{
	const char *colon;

	for (; n > 0; n--) {
		if ((colon = memchr(at, ':', (size_t)(end - at))) == NULL)
			return false;
		at = colon + 1;
	}
	colon = memchr(at, ':', (size_t)(end - at));
	end = colon == NULL ? end : colon;
	if ((size_t)(end - at) >= size)
		return false;
	memcpy(out, at, (size_t)(end - at));
	out[end - at] = '\0';
	return true;
}

static void
each_account(const char *text,
    void (*fn)(void *ctx, uint32_t id, const char *name, const char *home), void *ctx)
{
	char name[OWNER_NAME], digits[16], home[256];
	const char *end, *at;
	uint32_t id;

	for (; *text != '\0'; text = *end == '\0' ? end : end + 1) {
		end = text + strcspn(text, "\n");
		at = digits;
		if (*text == '#' || !field(text, end, 0, name, sizeof(name)) || name[0] == '\0' ||
		    !field(text, end, 2, digits, sizeof(digits)) || !number_next(&at, &id) ||
		    *at != '\0')
			continue;
		if (!field(text, end, 5, home, sizeof(home)))
			home[0] = '\0';
		fn(ctx, id, name, home);
	}
}

struct names_call {
	void (*fn)(void *ctx, uint32_t id, const char *name);
	void *ctx;
};

static void
names_call(void *ctx, uint32_t id, const char *name, const char *home)
{
	const struct names_call *call = ctx;

	(void)home;
	call->fn(call->ctx, id, name);
}

void
owner_names(const char *text, void (*fn)(void *ctx, uint32_t id, const char *name), void *ctx)
{
	struct names_call call = {fn, ctx};

	each_account(text, names_call, &call);
}

void
owner_utmp(const void *bytes, size_t len, void (*fn)(void *ctx, const char *name), void *ctx)
{
	struct utmp entry;
	char name[sizeof(entry.ut_user) + 1];
	size_t at;

	for (at = 0; len - at >= sizeof(entry); at += sizeof(entry)) {
		memcpy(&entry, (const char *)bytes + at, sizeof(entry));
		if (entry.ut_type != USER_PROCESS)
			continue;
		memcpy(name, entry.ut_user, sizeof(entry.ut_user));
		name[sizeof(entry.ut_user)] = '\0';
		fn(ctx, name);
	}
}

/*
 * Open ${path} below ${root} where a filter leaves no openat2 (engine/worker/seal.h): name by name,
 * and through no link at all.
 */
static int
open_plain(int root, const char *path, int flags)
{
	char names[PATH_MAX], *name, *rest;
	int at = root, fd;

	if (snprintf(names, sizeof(names), "%s", path) >= (int)sizeof(names)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	for (name = strtok_r(names, "/", &rest); name != NULL; at = fd) {
		path = name;
		name = strtok_r(NULL, "/", &rest);
		errno = EXDEV;
		fd = strcmp(path, "..") == 0
			 ? -1
			 : openat(at, path,
			       O_NOFOLLOW |
				   (name == NULL ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC));
		if (at != root)
			close(at);
		if (fd == -1)
			return -1;
	}
	return at == root ? -1 : at;
}

static char *
read_whole(int root, const char *path, uint64_t resolve, size_t most, size_t *len)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	    .resolve = resolve | RESOLVE_NO_MAGICLINKS};
	struct stat st;
	size_t n = 0;
	ssize_t got = 1;
	char *out = NULL;
	int fd;

	if ((fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how))) == -1 &&
	    (errno != ENOSYS || (fd = open_plain(root, path, (int)how.flags)) == -1))
		return NULL;
	/* Files of /proc say that they have no bytes. */
	errno = 0;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > most ||
	    (out = malloc(most + 1)) == NULL) {
		errno = errno == 0 ? EFBIG : errno;
		close(fd);
		return NULL;
	}
	while (n < most && (got = read(fd, out + n, most - n)) > 0)
		n += (size_t)got;
	close(fd);
	if (got == -1) {
		free(out);
		return NULL;
	}
	out[n] = '\0';
	*len = n;
	return out;
}

char *
owner_read(int root, const char *path, size_t most, size_t *len)
{
	return read_whole(root, path, RESOLVE_IN_ROOT, most, len);
}

char *
owner_read_beneath(int directory, const char *path, size_t most, size_t *len)
{
	return read_whole(directory, path, RESOLVE_BENEATH, most, len);
}

static void
names_add(void *ctx, uint32_t id, const char *name, const char *home)
{
	struct names *names = ctx;
	size_t cap = names->cap == 0 ? 64 : names->cap * 2;
	struct account *more;

	if (names->count == names->cap) {
		if ((more = reallocarray(names->at, cap, sizeof(*more))) == NULL) {
			names->failed = true;
			return;
		}
		names->at = more;
		names->cap = cap;
	}
	names->at[names->count].id = id;
	snprintf(names->at[names->count].name, OWNER_NAME, "%s", name);
	snprintf(names->at[names->count].home, sizeof(names->at[0].home), "%s", home);
	names->count++;
}

static void
logged_add(void *ctx, const char *name)
{
	names_add(ctx, 0, name, "");
}

/* Read ${path} into ${names}. */
static void
names_read(struct owner_tables *t, struct names *names, const char *path)
{
	size_t len;
	char *text = owner_read(t->root, path, TABLE_MAX, &len);

	if (text == NULL)
		return;
	each_account(text, names_add, names);
	names->read = !names->failed;
	free(text);
}

static void
sessions_read(struct owner_tables *t)
{
	size_t len;
	char *bytes;

	t->systemd = faccessat(t->root, "run/systemd/users", F_OK, 0) == 0;
	if (t->systemd || (bytes = owner_read(t->root, "var/run/utmp", TABLE_MAX, &len)) == NULL)
		return;
	owner_utmp(bytes, len, logged_add, &t->logged);
	t->logged.read = !t->logged.failed;
	free(bytes);
}

static void
tables_load(struct owner_tables *t)
{
	size_t len;
	char *text;

	if (t->loaded)
		return;
	t->loaded = true;
	names_read(t, &t->users, "etc/passwd");
	names_read(t, &t->groups, "etc/group");
	text = owner_read(t->root, "etc/login.defs", TABLE_MAX, &len);
	t->system_max = owner_system_max(text == NULL ? "" : text);
	free(text);
	text = owner_read(t->root, "etc/nsswitch.conf", TABLE_MAX, &len);
	t->directory = text != NULL && owner_directory(text);
	free(text);
	t->sudo_read = sudoers_read(t->root, &t->sudo) == 0;
	sessions_read(t);
}

struct owner_tables *
owner_open(int root)
{
	struct owner_tables *t = calloc(1, sizeof(*t));

	if (t != NULL)
		t->root = root;
	return t;
}

void
owner_close(struct owner_tables *t)
{
	if (t == NULL)
		return;
	free(t->users.at);
	free(t->groups.at);
	free(t->logged.at);
	sudoers_free(&t->sudo);
	free(t);
}

static const struct account *
names_find(const struct names *names, uint32_t id)
{
	size_t i;

	for (i = 0; i < names->count; i++)
		if (names->at[i].id == id)
			return &names->at[i];
	return NULL;
}

const char *
owner_account(struct owner_tables *t, uint32_t uid)
{
	const struct account *a;

	tables_load(t);
	return (a = names_find(&t->users, uid)) == NULL ? "" : a->name;
}

void
owner_homes(struct owner_tables *t,
    void (*fn)(void *ctx, uint32_t uid, const char *name, const char *home), void *ctx)
{
	const struct account *a;
	size_t i;

	tables_load(t);
	for (i = 0; i < t->users.count; i++) {
		a = &t->users.at[i];
		if ((a->id == 0 || (a->id > t->system_max && a->id != NOBODY)) &&
		    a->home[0] == '/' && a->home[1] != '\0')
			fn(ctx, a->id, a->name, a->home);
	}
}

/* Whether one of the process's groups is one of administrators, and whether sudo names it. */
static void
see_groups(const struct owner_tables *t, const struct owner_status *status, struct owner_seen *seen)
{
	static const char *const admins[] = {"sudo", "wheel", "admin"};
	bool whole = t->groups.read && status->groups_read && status->gid_read;
	enum owner_fact named = sudoers_user(&t->sudo, seen->name, status->uid);
	const struct account *group;
	size_t i, j;
	uint32_t gid;

	for (i = 0; i <= status->group_count; i++) {
		gid = i < status->group_count ? status->groups[i] : status->gid;
		if (i == status->group_count && !status->gid_read)
			break;
		/* A group without a name may be any. */
		if ((group = names_find(&t->groups, gid)) == NULL) {
			whole = false;
			continue;
		}
		for (j = 0; j < 3; j++)
			if (strcmp(group->name, admins[j]) == 0)
				seen->in_admin_group = FACT_YES;
		if (sudoers_group(&t->sudo, group->name, gid))
			named = FACT_YES;
	}
	if (seen->in_admin_group != FACT_YES)
		seen->in_admin_group = whole ? FACT_NO : FACT_UNKNOWN;
	/* Rules that were read in part name nobody for certain: another may take it back. */
	seen->in_sudo = !t->sudo_read ? FACT_UNKNOWN : named;
}

static enum owner_fact
see_session(const struct owner_tables *t, uint32_t uid, const char *name)
{
	enum owner_fact there = FACT_NO;
	char path[64], *text;
	size_t i, len;

	if (!t->systemd) {
		for (i = 0; i < t->logged.count; i++)
			if (strcmp(t->logged.at[i].name, name) == 0)
				return FACT_YES;
		return t->logged.read ? FACT_NO : FACT_UNKNOWN;
	}
	snprintf(path, sizeof(path), "run/systemd/users/%u", uid);
	errno = 0;
	if ((text = owner_read(t->root, path, 65536, &len)) != NULL)
		there = owner_session(text);
	else if (errno != ENOENT)
		there = FACT_UNKNOWN;
	free(text);
	return there;
}

bool
owner_process(struct owner_tables *t, pid_t pid, struct owner_status *status, struct owner *owner)
{
	struct owner_seen seen = {.name = ""};
	char path[64], *text;
	size_t len;

	tables_load(t);
	memset(status, 0, sizeof(*status));
	snprintf(path, sizeof(path), "proc/%d/status", (int)pid);
	text = owner_read(t->root, path, 65536, &len);
	seen.uid_read = text != NULL && owner_status(text, status) == 0;
	free(text);
	if (seen.uid_read) {
		seen.uid = status->uid;
		seen.root_now = status->euid == 0;
		seen.name = owner_account(t, status->uid);
		seen.system_max = t->system_max;
		seen.in_passwd = !t->users.read         ? FACT_UNKNOWN
				 : seen.name[0] != '\0' ? FACT_YES
							: FACT_NO;
		seen.directory = t->directory;
		see_groups(t, status, &seen);
		seen.logged_in = see_session(t, status->uid, seen.name);
	}
	owner_classify(&seen, owner);
	return seen.uid_read;
}
