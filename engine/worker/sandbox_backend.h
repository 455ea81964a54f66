/* sandbox_backend.h: by what a program is confined on this machine, and the truth about it. */
#ifndef ENGINE_WORKER_SANDBOX_BACKEND_H
#define ENGINE_WORKER_SANDBOX_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"
#include "engine/worker/sandbox.h"

#define BACKEND_KERNEL_MAX 256
#define BACKEND_PATH_MAX   4096
#define BACKEND_ARGV_MAX   1024
#define BACKEND_PROBE_MS   2000

/* What /proc/version says about Windows Subsystem for Linux. */
struct sandbox_wsl {
	bool wsl;
	bool wsl2;
	char kernel[BACKEND_KERNEL_MAX]; /* the text, trimmed; "" where it is none */
};

/* What is known about the machine. */
struct sandbox_facts {
	bool namespaces;        /* user namespaces can be made: sandbox_can */
	const char *bubblewrap; /* where bwrap is; NULL: nowhere */
	bool bubblewrap_fails;  /* and it was seen to make no sandbox either */
	struct sandbox_wsl wsl;
};

/* What a backend does, as it is told to people and programs. */
struct sandbox_record {
	enum sandbox_backend backend;
	const char *name;   /* "native", "bubblewrap", "none"; "wsl" where that is why it is none */
	bool available;     /* it confines */
	bool fallback;      /* it is what is left */
	bool isolation;     /* by the kernel */
	bool proxy_egress;  /* its traffic can be led through our proxy by environment alone */
	bool scoped_egress; /* and cannot get past it */
	const char *executable; /* NULL: none */
	char message[256];      /* why, where it is a fallback */
};

/**
 * sandbox_wsl_parse(text, wsl):
 * Tell from ${text}, what /proc/version holds (NULL: it cannot be read), whether this is WSL: it
 * names Microsoft or WSL, in any case; and WSL 2: it names Microsoft and not wsl1.
 */
void sandbox_wsl_parse(const char *text, struct sandbox_wsl *wsl);

/**
 * sandbox_facts(facts, path, room):
 * Look at this machine: whether user namespaces can be made, where bwrap is on ${path} (as the
 * variable PATH), what kernel it is.  Where no namespaces can be made, bwrap is run to see whether
 * it can: it may have rights of its own; that takes at most BACKEND_PROBE_MS.  ${room} holds
 * BACKEND_PATH_MAX bytes for the answer.
 */
void sandbox_facts(struct sandbox_facts *facts, const char *path, char *room);

/**
 * sandbox_backend_choose(want, facts, record, refusal):
 * Choose by ${facts} what ${want} names: "native" (or NULL), "bubblewrap" or "none".  Nothing is
 * taken that was not asked for, and none is never the answer to another name.  Return 0 with
 * ${record}, or -1 with ${refusal} sandbox.userns (native cannot be; WSL 1 is named),
 * sandbox.backend (bwrap is not here, or makes no sandbox) or usage.wrong.
 */
int sandbox_backend_choose(const char *want, const struct sandbox_facts *facts,
    struct sandbox_record *record, struct refusal *refusal);

/**
 * sandbox_backend_best(facts, record):
 * What this machine can do at best, for a report: native, else bubblewrap, else nothing, told apart
 * where it is WSL.
 */
void sandbox_backend_best(const struct sandbox_facts *facts, struct sandbox_record *record);

/**
 * sandbox_bubblewrap(plan, executable, argv, room, size, refusal):
 * Fill ${argv}, BACKEND_ARGV_MAX pointers, with the command by which bwrap at ${executable} runs
 * ${plan}; texts that are not the plan's own lie in ${room}, ${size} bytes.  A new session, user
 * and cgroup namespaces, and no capability, beyond what the plan says; what is hidden or kept is
 * mounted over, after what it lies in.  Return the number of words; or -1 with ${refusal}
 * sandbox.backend: it cannot gather changes, show a part of what is hidden, or a socket; hide or
 * keep what has another name inside; or the plan is too long.
 */
int sandbox_bubblewrap(const struct sandbox_plan *plan, const char *executable, const char **argv,
    char *room, size_t size, struct refusal *refusal);

/**
 * sandbox_marked(sandboxed, backend):
 * Return whether the variables BASTION_SANDBOXED and BASTION_SANDBOX_BACKEND say that this process
 * is in a sandbox: exactly "1", and anything but blanks.
 */
bool sandbox_marked(const char *sandboxed, const char *backend);

/**
 * sandbox_inside(sandboxed, backend):
 * Return whether this process is in a sandbox: the variables say so, and so does the kernel, which
 * nobody can tell to: another user namespace than the machine's, a filter, no new privileges and no
 * capability.  A variable alone switches nothing off.
 */
bool sandbox_inside(const char *sandboxed, const char *backend);

/**
 * sandbox_unmark(env):
 * Take the two markers and the run's name out of the NULL-ended ${env}, and leave all else.
 */
void sandbox_unmark(char **env);

/**
 * sandbox_namespaces(pid, user_ns, pid_ns):
 * Store the identities of the namespaces that the process ${pid} (0: this one) and its children are
 * in.  Return 0, or -1 where they may not be seen.
 */
int sandbox_namespaces(pid_t pid, uint64_t *user_ns, uint64_t *pid_ns);

#endif
