/* unpack.h: the program of a session that takes a git bundle and puts its repository in place. */
#ifndef ENGINE_WORKER_UNPACK_H
#define ENGINE_WORKER_UNPACK_H

#include "engine/refusal.h"

/* What is copied where, and how far it may go. */
struct unpack {
	const char *folder; /* whole path, which the working directory is */
	const char *name;   /* of the folder in it: no path */
	int64_t size;       /* bytes of the bundle */
	const char *sha256; /* of them, hex */
	int64_t stall_ms;   /* longest wait for the next byte */
	int64_t git_ms;     /* longest time of each step of git's */
	int64_t unpacked;   /* bytes of the files in its head, at most */
	const char *git;    /* the program */
};

/**
 * unpack_run(u, in, r):
 * Take the bundle from ${in}, check it, have git unpack it beside its place, and change places
 * with what was there, which another bundle brought or nothing: there is no moment in which neither
 * is.  Git starts no program of the repository's or the user's, dials nothing, and keeps nothing of
 * another configuration; where the kernel has Landlock, it writes beside the place alone, and in
 * /tmp and /dev.  Whatever else happens, what was there stays, and nothing is left beside
 * it but by SIGKILL; the next copy to this place removes that.  Return 0, or -1 with ${r}
 * bundle.size, bundle.digest, bundle.failed.
 */
int unpack_run(const struct unpack *u, int in, struct refusal *r);

/**
 * unpack_main(argc, argv):
 * Be that program: "bastion unpack FOLDER NAME SIZE SHA256 STALL_MS GIT_MS UNPACKED", with the
 * bundle on standard input.  Return the exit code.
 */
int unpack_main(int argc, char **argv);

#endif
