/* remote_bundle.h: a repository of this machine, copied to another. */
#ifndef SHELL_REMOTE_BUNDLE_H
#define SHELL_REMOTE_BUNDLE_H

#include <limits.h>

#include "shell/remote.h"

/**
 * remote_bundle(cli, login, dir, folder, path):
 * Copy all branches and tags of the git work tree ${dir} to the machine of ${login}, into the
 * folder there ${folder}, under the name of ${dir}'s last component; store where it is then in
 * ${path}.  What is not committed is not copied.  Where the way is cut, go on behind what arrived.
 * Nobody is dialled before there is a bundle.  Return 0, or the exit code after a refusal.
 */
int remote_bundle(struct cli *cli, const struct remote_login *login, const char *dir,
    const char *folder, char path[PATH_MAX]);

#endif
