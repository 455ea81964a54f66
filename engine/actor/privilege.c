/* privilege.c: ids, capabilities and what the kernel offers against getting them back. */
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/privilege.h"

#define SERVICE_USER "bastion"
#define FAILED       "actor.start"

static void
privilege_of(const struct passwd *pw, struct privilege *who)
{
	gid_t groups[PRIVILEGE_GROUPS_MAX];
	int i, n = PRIVILEGE_GROUPS_MAX;

	memset(who, 0, sizeof(*who));
	who->uid = pw->pw_uid;
	who->gid = pw->pw_gid;
	/* More than fit: the call fails and stores as many as do. */
	if (getgrouplist(pw->pw_name, pw->pw_gid, groups, &n) == -1)
		n = PRIVILEGE_GROUPS_MAX;
	for (i = 0; i < n; i++)
		who->groups[i] = groups[i];
	who->group_count = (uint32_t)n;
}

int
privilege_find(const char *user, struct privilege *who, struct refusal *r)
{
	const struct passwd *pw;

	memset(who, 0, sizeof(*who));
	who->uid = geteuid();
	who->gid = getegid();
	if (user == NULL && who->uid != 0)
		return 0;
	if ((pw = getpwnam(user != NULL ? user : SERVICE_USER)) == NULL) {
		if (user == NULL)
			return 0;
		return refusal_set(r, "usage.wrong", "there is no such user on this machine");
	}
	if (who->uid != 0 && who->uid != pw->pw_uid)
		return refusal_set(r, "usage.wrong", "only root can serve as another user");
	privilege_of(pw, who);
	return 0;
}

static int
set_groups(const struct privilege *who)
{
	gid_t groups[PRIVILEGE_GROUPS_MAX];
	uint32_t i;

	if (who->group_count > PRIVILEGE_GROUPS_MAX) {
		errno = EINVAL;
		return -1;
	}
	for (i = 0; i < who->group_count; i++)
		groups[i] = who->groups[i];
	return setgroups(who->group_count, groups);
}

int
privilege_lend(const struct privilege *who, struct refusal *r)
{
	if (geteuid() != 0 || who->uid == 0)
		return 0;
	if (set_groups(who) == -1 || setresgid((gid_t)-1, who->gid, 0) == -1 ||
	    setresuid((uid_t)-1, who->uid, 0) == -1)
		return refusal_errno(r, FAILED, "cannot change the user");
	return 0;
}

int
privilege_regain(void)
{
	uid_t real, effective, saved;

	if (getresuid(&real, &effective, &saved) == -1)
		return -1;
	if (effective == 0 || saved != 0)
		return 0;
	/* Not the library's calls: those talk to other threads, which a forked child lacks. */
	if (syscall(SYS_setresuid, 0, 0, 0) == -1)
		return -1;
	return syscall(SYS_setresgid, 0, 0, 0) == -1 ? -1 : 0;
}

/* Return whether all ids are those of ${who} and none of them opens a way to others. */
static bool
dropped(const struct privilege *who)
{
	uid_t uid[3];
	gid_t gid[3];
	int i;

	if (getresuid(&uid[0], &uid[1], &uid[2]) == -1 ||
	    getresgid(&gid[0], &gid[1], &gid[2]) == -1)
		return false;
	for (i = 0; i < 3; i++)
		if (uid[i] != who->uid || gid[i] != who->gid)
			return false;
	if (who->uid == 0)
		return true;
	return setresuid(0, 0, 0) == -1 && seteuid(0) == -1 && (who->gid == 0 || setegid(0) == -1);
}

int
privilege_drop(const struct privilege *who, bool groups, struct refusal *r)
{
	/* Nothing to give away: whoever is not root got its ids from the one who started it. */
	if (geteuid() == 0 && who->uid != 0) {
		if ((groups ? set_groups(who) : setgroups(0, NULL)) == -1 ||
		    setresgid(who->gid, who->gid, who->gid) == -1 ||
		    setresuid(who->uid, who->uid, who->uid) == -1)
			return refusal_errno(r, FAILED, "cannot change the user");
	}
	if (!dropped(who))
		return refusal_set(r, FAILED, "the user could not be changed for good");
	return 0;
}

static int
drop_bounding(void)
{
	int cap;

	for (cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == -1 && errno != EPERM)
			return -1;
	return 0;
}

int
privilege_no_capabilities(struct refusal *r)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED;

	/* Where we lack CAP_SETPCAP already, there is nothing in the sets that we could add to. */
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) == -1 && errno != EPERM)
		return refusal_errno(r, FAILED, "cannot lock the capabilities");
	if (drop_bounding() == -1 || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1)
		return refusal_errno(r, FAILED, "cannot bound the capabilities");
	if (syscall(SYS_capset, &header, none) == -1)
		return refusal_errno(r, FAILED, "cannot drop the capabilities");
	return 0;
}

int
privilege_seal(int64_t parent, struct refusal *r)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		return refusal_errno(r, FAILED, "cannot harden the process");
	/* It may have died before the kernel knew that we die with it. */
	if (getppid() != parent)
		return refusal_set(r, FAILED, "the supervisor is gone");
	return 0;
}
