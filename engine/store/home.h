/* home.h: where a bastion keeps its state and its sockets, and whether those places can be trusted.
 */
#ifndef ENGINE_STORE_HOME_H
#define ENGINE_STORE_HOME_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "engine/refusal.h"

enum home_role { HOME_BOX, HOME_HOST };

#define HOME_RUN_MAX 90 /* a socket's name must still fit in sun_path behind it */
#define HOME_ASK_MAX (HOME_RUN_MAX + 4)

/*
 * A home: the state directory, held open by a handle, with bastion.db, bastion.key, bastion.lock,
 * bastion.gate and bastion.bell in it; and the directory for sockets.
 */
struct home {
	enum home_role role;
	char state[PATH_MAX - 32];
	char run[HOME_RUN_MAX + 1];
	int fd;      /* of the state directory */
	uid_t owner; /* whose it is: new files become theirs */
	gid_t group;
};

/**
 * home_variable(variable, path, r):
 * Store in ${*path} the place that ${variable}, one of ours (BASTION_STATE, say), names in the
 * environment, byte for byte; NULL where it is not set or empty.  One that does not begin with "/"
 * would be another place in each directory, or silently the default: it is refused.  Return 0, or
 * -1 with ${r}: store.place.
 */
int home_variable(const char *variable, const char **path, struct refusal *r);

/**
 * home_open(home, role, create, r):
 * Find the directories of ${role} from the environment (BASTION_STATE and BASTION_RUN;
 * BASTION_HOST_STATE and BASTION_HOST_RUN for a Host; else the defaults of the system or of the
 * user) and open the state directory.  It must be a real directory of ours, or of anybody's when we
 * are root, on a local file system; if it is wider than 0700 it is tightened.  With ${create}, make
 * what is missing.  Return 0, or -1 with ${r}: store.place, store.directory, store.network,
 * store.missing.
 */
int home_open(struct home *home, enum home_role role, bool create, struct refusal *r);

/**
 * home_at(home, state, run, role, create, r):
 * As home_open, for the given directories.
 */
int home_at(struct home *home, const char *state, const char *run, enum home_role role, bool create,
    struct refusal *r);

/**
 * home_run(home, r):
 * Make sure that the directory for sockets exists, is ours and is 0700.  Return 0, or -1 with ${r}.
 */
int home_run(const struct home *home, struct refusal *r);

/**
 * home_ask(home, path, r):
 * Make sure that the directory "RUN-ask" beside the one for sockets exists, is ours and is 0755:
 * any user may reach the socket in it, nobody but us may write there.  Store its name in ${path}.
 * Return 0, or -1 with ${r} store.directory.
 */
int home_ask(const struct home *home, char path[HOME_ASK_MAX + 1], struct refusal *r);

/**
 * home_networked(type):
 * Return the name of the network file system that statfs(2) calls ${type}, or NULL for any other.
 */
const char *home_networked(unsigned long type);

/**
 * home_dial(home, name):
 * Connect to the stream socket ${name} in the directory for sockets, without waiting: who listens
 * there takes it now, or has no room.  Return the descriptor, which does not block, or -1 with
 * errno.
 */
int home_dial(const struct home *home, const char *name);

/**
 * home_path(home, name, out):
 * Store the path of the file ${name} of the state directory in ${out}, PATH_MAX bytes.
 */
void home_path(const struct home *home, const char *name, char out[PATH_MAX]);

#define HOME_TOKEN_SIZE 34

/**
 * home_token(home, token):
 * Store in ${token} by what the state directory is known to every process of this machine, whatever
 * path each of them calls it: DEVICE-INODE, in hexadecimal.  A verb sends it along when it asks a
 * daemon, which may be of another state.  Return 0 or -1.
 */
int home_token(const struct home *home, char token[HOME_TOKEN_SIZE]);

/**
 * home_file(home, name, r):
 * Open the permanent file ${name} of the state directory for reading and writing, made 0600 and the
 * owner's where it is missing; no link is followed.  Return the descriptor, or -1 with ${r}:
 * store.readonly, store.full, store.failed.
 */
int home_file(const struct home *home, const char *name, struct refusal *r);

/**
 * home_tighten(home, name, r):
 * Make the file ${name}, where it exists, 0600 and a plain file of the owner.  It is not opened:
 * closing a descriptor of a database would drop SQLite's locks (fcntl(2)).  Return 0, or -1 with
 * ${r}.
 */
int home_tighten(const struct home *home, const char *name, struct refusal *r);

/**
 * home_close(home):
 * Close the handle.
 */
void home_close(struct home *home);

#endif
