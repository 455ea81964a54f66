/* program.h: runs of ops that a person added: a sealed program in a sandbox, or verbs one by one.
 */
#ifndef ENGINE_WORKER_PROGRAM_H
#define ENGINE_WORKER_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/actor/actor.h"
#include "engine/worker/runner.h"

#define PROGRAM_HEX 65 /* of a digest, with its end */

/**
 * program_seal(path, most, sha256, r):
 * Copy the file ${path}, of at most ${most} bytes, into memory that nobody can change any more, and
 * store the SHA-256 of these very bytes in ${sha256}, in hexadecimal.  Return a descriptor that can
 * be executed, or -1 with ${r} manifest.file.
 */
int program_seal(const char *path, int64_t most, char sha256[PROGRAM_HEX], struct refusal *r);

/**
 * program_seal_bytes(bytes, len, sha256, r):
 * As program_seal, for the ${len} bytes of ${bytes}.
 */
int program_seal_bytes(const void *bytes, size_t len, char sha256[PROGRAM_HEX], struct refusal *r);

/**
 * program_is_script(fd):
 * Whether the kernel would have another program run what ${fd} holds ("#!").
 */
bool program_is_script(int fd);

/* The programs that run. */
struct programs;

/**
 * programs_new(env, runner, idle, ctx):
 * Return a set without programs, which starts them by ${runner}; ${idle}(${ctx}) is called when one
 * has ended.  NULL without memory.
 */
struct programs *programs_new(
    struct actor_env *env, struct runner *runner, void (*idle)(void *ctx), void *ctx);

/**
 * programs_free(p):
 * Forget the programs, which end with the runner.  ${p} may be NULL.
 */
void programs_free(struct programs *p);

/**
 * programs_live(p):
 * Return how many there are.
 */
int programs_live(const struct programs *p);

/**
 * programs_take(p, id):
 * Begin the run ${id}, which is marked as running.  One that cannot start ends with the reason.
 * Return 0, or -1 where not even that could be kept.
 */
int programs_take(struct programs *p, int64_t id);

/**
 * programs_event(p, event):
 * Take what the runner says.  Return whether it was of a program here.
 */
bool programs_event(struct programs *p, struct runner_event *event);

/**
 * programs_cancel(p, id):
 * End the run ${id} where it is here: nothing of it is applied.
 */
void programs_cancel(struct programs *p, int64_t id);

/**
 * programs_drain(p):
 * End all of them.
 */
void programs_drain(struct programs *p);

#endif
