/* act.h: what changes this machine: verbs, each with a dry run and an apply. */
#ifndef ENGINE_WORKER_ACT_H
#define ENGINE_WORKER_ACT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "engine/worker/observe.h"

/*
 * The handlers have the form of the questions' (observe.h), with acts set: they run outside the
 * seal, and where args->dry is set they look, say what they would change, and change nothing.
 * Applied is what was decided: the row of the run is durable before the handler starts.
 */
extern const struct observe_op act_file_put;
extern const struct observe_op act_file_move;
extern const struct observe_op act_service_restart;
extern const struct observe_op act_tree_checkout;
extern const struct observe_op act_git_fetch;
extern const struct observe_op act_k8s_set_image;
extern const struct observe_op act_container_pull;
extern const struct observe_op act_package_install;
extern const struct observe_op act_user_lock;

/**
 * act_path_check(path, refusal):
 * Hold ${path} to the form of a path that verbs take: absolute, of at most 4095 bytes, no part
 * empty,
 * "." or "..", no control characters, not "/" itself, not below /proc, /sys or /dev.  Return 0, or
 * -1 with act.path.
 */
int act_path_check(const char *path, struct refusal *refusal);

/**
 * act_parent(env, path, name, refusal):
 * Open the folder that ${path} lies in, from the root on without following any link, and store
 * where its last part begins in ${*name}.  What lies within a folder of ${env}->keep, where bastion
 * keeps its own, is refused, by whatever way it is reached.  Return a descriptor, or -1 with
 * act.path, act.own or act.missing.
 */
int act_parent(
    const struct observe_env *env, const char *path, const char **name, struct refusal *refusal);

/**
 * act_holds_own(env, st):
 * Is ${st} one of the folders of ${env}->keep, or does one lie in it?
 */
bool act_holds_own(const struct observe_env *env, const struct stat *st);

#endif
