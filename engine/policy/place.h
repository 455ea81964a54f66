/* place.h: where a path leads, with its symbolic links, beneath handles that are held. */
#ifndef ENGINE_POLICY_PLACE_H
#define ENGINE_POLICY_PLACE_H

#include <stdbool.h>

#define PLACE_MAX   4096 /* bytes of a path with its NUL, as the kernel has it */
#define PLACE_LINKS 40   /* links on the way of one path, as the kernel has it */

enum place_end {
	PLACE_FOUND,   /* it is there */
	PLACE_MISSING, /* it is not, its name stands behind the directory that is */
	PLACE_BROKEN,  /* a link on the way leads to nothing */
	PLACE_FAILED   /* too long, a loop, not allowed, not a directory: errno */
};

/**
 * place_resolve(path, stop, out):
 * Follow the absolute ${path} from the root on, component by component, each opened beneath the
 * handle of the one before (O_PATH, O_NOFOLLOW), and store where it leads in ${out}.  Where ${stop}
 * is not NULL, the rest of the path is taken as it is once the way is at or inside ${stop}.  What
 * is missing is taken as it is as well, but a ".." behind it fails.
 */
enum place_end place_resolve(const char *path, const char *stop, char out[PLACE_MAX]);

/**
 * place_clean(path, out):
 * Store the absolute ${path} without doubled slashes, "." and ".." in ${out}, by its text alone.
 * Return 0, or -1 where it is not absolute or does not fit.
 */
int place_clean(const char *path, char out[PLACE_MAX]);

/**
 * place_join(base, path, out):
 * Store ${path}, or ${base}/${path} where it is relative, in ${out} as it is.  Return 0 or -1.
 */
int place_join(const char *base, const char *path, char out[PLACE_MAX]);

/**
 * place_inside(path, root):
 * Return whether the clean ${path} is ${root} or below it.
 */
bool place_inside(const char *path, const char *root);

/**
 * place_directory(path, out):
 * Resolve ${path} into ${out} and return whether it is a directory that is there.
 */
bool place_directory(const char *path, char out[PLACE_MAX]);

#endif
