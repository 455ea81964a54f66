/* seal.h: a system call filter under which nothing on the machine can be changed. */
#ifndef ENGINE_WORKER_SEAL_H
#define ENGINE_WORKER_SEAL_H

#include <linux/filter.h>

/**
 * seal_export(ctx, prog):
 * Compile libseccomp's ${ctx} into ${prog}, whose rules belong to the caller (free
 * ${prog}->filter). Return 0 or -1.
 */
int seal_export(void *ctx, struct sock_fprog *prog);

/**
 * seal_build(prog):
 * Compile the filter into ${prog}, whose rules belong to the caller (free ${prog}->filter).  Return
 * 0 or -1.
 */
int seal_build(struct sock_fprog *prog);

/**
 * seal_apply(prog):
 * From now on this process, and whatever it starts, can open nothing for writing, and can neither
 * make, remove, rename, link, mount nor alter anything: such calls fail with EROFS, those that
 * could hide one with ENOSYS.  Descriptors that are open already can be written.  There is no way
 * back. Return 0 or -1.
 */
int seal_apply(const struct sock_fprog *prog);

#endif
