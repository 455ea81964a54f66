/* clear.h: remove what lies in a folder, by descriptors: no link is followed. */
#ifndef ENGINE_WORKER_CLEAR_H
#define ENGINE_WORKER_CLEAR_H

/**
 * clear_folder(fd, depth):
 * Remove what is in the folder ${fd}, which is closed, with at most ${depth} layers of folders
 * below it.  What cannot be removed stays, and the rest goes.  Return 0, or -1 with errno of the
 * first that stayed.
 */
int clear_folder(int fd, int depth);

/**
 * clear_entry(dir, name, depth):
 * Remove ${name} in ${dir}: a folder with what is in it, as by clear_folder, or anything else.
 * Return 0 or -1 with errno.
 */
int clear_entry(int dir, const char *name, int depth);

#endif
