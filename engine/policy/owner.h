/* owner.h: whose a process is: a person, a service, an administrator, somebody who is there. */
#ifndef ENGINE_POLICY_OWNER_H
#define ENGINE_POLICY_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define OWNER_NAME   64
#define OWNER_GROUPS 256

/* Unknown is never no. */
enum owner_fact { FACT_UNKNOWN, FACT_NO, FACT_YES };

/* What was found out about an account. */
struct owner_seen {
	bool uid_read;
	uint32_t uid;
	bool root_now;       /* the process has root's effective uid */
	const char *name;    /* "" for none */
	uint32_t system_max; /* the highest uid of a service */
	enum owner_fact in_passwd;
	bool directory; /* this machine asks a directory for accounts */
	enum owner_fact in_admin_group;
	enum owner_fact in_sudo; /* FACT_UNKNOWN: the rules could not all be read */
	enum owner_fact logged_in;
};

struct owner {
	const char *class; /* "domain_user", "local_user", "service", "system", "unknown" */
	const char *admin, *interactive; /* "yes", "no", "unknown" */
};

/**
 * owner_classify(seen, owner):
 * What ${seen} comes to.
 */
void owner_classify(const struct owner_seen *seen, struct owner *owner);

/* The Uid:, Gid: and Groups: of /proc/PID/status. */
struct owner_status {
	uint32_t uid, euid;
	bool gid_read;
	uint32_t gid;
	bool groups_read; /* the line is there, and all of it fitted */
	uint32_t groups[OWNER_GROUPS];
	size_t group_count;
};

/**
 * owner_status(text, status):
 * Read the text of a status file.  Return 0; or -1 without a real and an effective uid, which must
 * not pass for root's.
 */
int owner_status(const char *text, struct owner_status *status);

/**
 * owner_system_max(text):
 * The highest uid of a service by the text of login.defs: SYS_UID_MAX, or below UID_MIN, or 999.
 */
uint32_t owner_system_max(const char *text);

/**
 * owner_directory(text):
 * Whether the text of nsswitch.conf asks a directory for accounts: sss, ldap, winbind, nis,
 * nisplus.
 */
bool owner_directory(const char *text);

/**
 * owner_session(text):
 * Whether the text of a file of /run/systemd/users says that its user is there.
 */
enum owner_fact owner_session(const char *text);

/**
 * owner_names(text, fn, ctx):
 * Call ${fn} with each id and name of the text of a passwd or group file; lines that are none of
 * these are left out.
 */
void owner_names(const char *text, void (*fn)(void *ctx, uint32_t id, const char *name), void *ctx);

/**
 * owner_utmp(bytes, len, fn, ctx):
 * Call ${fn} with each user of the ${len} bytes of a utmp file who is logged in.
 */
void owner_utmp(const void *bytes, size_t len, void (*fn)(void *ctx, const char *name), void *ctx);

/* The tables of a machine, read when they are first needed. */
struct owner_tables;

/**
 * owner_open(root), owner_close(t):
 * The tables below the directory handle ${root}, borrowed: that of "/", or of a test.  NULL without
 * memory.
 */
struct owner_tables *owner_open(int root);
void owner_close(struct owner_tables *t);

/**
 * owner_account(t, uid):
 * Return the name of the account ${uid}, "" for none; it lives as long as ${t}.
 */
const char *owner_account(struct owner_tables *t, uint32_t uid);

/**
 * owner_homes(t, fn, ctx):
 * Call ${fn} with each account of a person or of root, and its home.
 */
void owner_homes(struct owner_tables *t,
    void (*fn)(void *ctx, uint32_t uid, const char *name, const char *home), void *ctx);

/**
 * owner_process(t, pid, status, owner):
 * Read whose the process ${pid} is.  Return whether it could be read; ${owner} is filled either
 * way, with "unknown" where it could not.
 */
bool owner_process(
    struct owner_tables *t, pid_t pid, struct owner_status *status, struct owner *owner);

/**
 * owner_read(root, path, most, len), owner_read_beneath(directory, path, most, len):
 * Return the bytes of the regular file ${path} with a NUL behind them, to be freed; NULL with errno
 * where it cannot be read or has more than ${most}.  Links are followed as if ${root} were "/"; or
 * not out of ${directory}, which somebody else writes: EXDEV.
 */
char *owner_read(int root, const char *path, size_t most, size_t *len);
char *owner_read_beneath(int directory, const char *path, size_t most, size_t *len);

#endif
