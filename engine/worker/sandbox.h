/* sandbox.h: run a program where it reaches what its plan says, and nothing else. */
#ifndef ENGINE_WORKER_SANDBOX_H
#define ENGINE_WORKER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <termios.h>

#include "engine/refusal.h"
#include "engine/worker/cgroup.h"

#define SANDBOX_PATHS_MAX 256  /* paths of one plan */
#define SANDBOX_STEPS_MAX 1024 /* what they come to, with the folders that are pinned */
#define SANDBOX_EFFECTS   8    /* folders whose changes are gathered */
#define SANDBOX_FDS_MAX   16   /* descriptors that are passed in behind the standard three */
#define SANDBOX_WORDS_MAX 4096 /* words of a command, variables of an environment */
#define SANDBOX_NOTES_MAX 8
#define SANDBOX_LISTENERS 4 /* sockets that listen inside, for whoever made the plan */

enum sandbox_kind {
	SANDBOX_READ,   /* the folder or file ${source} is seen at ${target}, and never written */
	SANDBOX_WRITE,  /* the same, and what is written there is written for good */
	SANDBOX_EFFECT, /* a folder that looks writable: what changes is gathered beside it */
	SANDBOX_LINK,   /* a symbolic link at ${target} with the text ${source} */
	SANDBOX_HIDE,   /* nothing is seen at ${target} (a DenyRead) */
	SANDBOX_SHOW,   /* but this, beneath what is hidden (an AllowRead) */
	SANDBOX_KEEP,   /* nothing is written at ${target} (a DenyWrite) */
	SANDBOX_SOCKET, /* the Unix socket ${source} at ${target}: its owner outside is spoken to */
};

/* Both are absolute, without links, "." or ".."; what hides, shows or keeps has no source. */
struct sandbox_path {
	enum sandbox_kind kind;
	const char *source;
	const char *target;
};

enum sandbox_backend {
	BACKEND_NATIVE,     /* ours */
	BACKEND_BUBBLEWRAP, /* bwrap, where it is installed and asked for */
	BACKEND_NONE,       /* nothing confines it: only where that is asked for by name */
};

enum sandbox_net {
	SANDBOX_NET_NONE,    /* a loopback of its own */
	SANDBOX_NET_SOCKETS, /* that, and the sockets that are passed in */
	SANDBOX_NET_HOST,    /* the machine's */
	SANDBOX_NET_CAUGHT,  /* as SOCKETS, and every IPv4 address is the loopback's */
};

struct sandbox_limits {
	struct cgroup_limits group; /* tasks, memory and CPU of everything together */
	int64_t scratch_bytes;      /* what /tmp may hold */
	int64_t effect_bytes;       /* what may be changed, in bytes */
	int64_t effect_files;       /* and in files; also those of /tmp */
	int64_t file_bytes;         /* longest file; 0: as long as there is room */
	int64_t open_files;         /* descriptors of one process */
};

/* A socket in the network of the sandbox that is there before its program, and is the caller's. */
struct sandbox_listener {
	uint16_t port;
	bool datagram;
	bool any;   /* at every address, not only at 127.0.0.1 */
	bool catch; /* gets all TCP connections to what is not loopback (SANDBOX_NET_CAUGHT) */
};

/* How a terminal begins. */
struct sandbox_terminal {
	struct termios settings;
	struct winsize size;
};

/* What may run, decided by somebody else.  All pointers are the caller's. */
struct sandbox_plan {
	enum sandbox_backend backend;
	char *const *argv; /* argv[0] without a slash is looked for in PATH of ${env} */
	char *const *env;  /* all of it */
	const char *cwd;   /* inside */
	const struct sandbox_path *paths;
	size_t path_count;
	/* What no path may show, wherever it lies: the state, the key, the sockets.  Real paths. */
	const char *const *forbidden;
	size_t forbidden_count;
	enum sandbox_net net;
	uid_t uid; /* who it runs as: the caller's own, or any if the caller is root */
	gid_t gid;
	int stdio[3];
	const int *fds; /* become 3, 4, …; never a folder */
	size_t fd_count;
	/* A terminal only with sandbox_start, in the process that calls it. */
	const struct sandbox_listener *listeners;
	size_t listener_count;
	/* A terminal of its own, the program's controlling one, for each stdio that is -1; or NULL.
	 */
	const struct sandbox_terminal *terminal;
	/*
	 * May it start?  Asked when all is made that is made outside, and nothing of the program
	 * runs yet: 0, or -1 with ${refusal}.  NULL: it may.  Only with sandbox_start, as well.
	 */
	int (*may)(void *ctx, struct refusal *refusal);
	void *may_ctx;
	struct sandbox_limits limits;
};

/* A folder, whatever it is called by now. */
struct sandbox_folder {
	uint64_t dev, ino;
};

/* What holds a run, as the kernel said and not as was asked. */
struct sandbox_report {
	int landlock;             /* its version; 0: this kernel has none */
	bool tasks_capped;        /* proven from inside before the program started */
	uint64_t user_ns, pid_ns; /* identities of its namespaces */
	pid_t pid;                /* its first process, as it is seen from outside */
	char notes[SANDBOX_NOTES_MAX][160];
	size_t note_count;
	/* Over what the changes were gathered, in the order of the plan's EFFECTs. */
	struct sandbox_folder overlaid[SANDBOX_EFFECTS];
};

/* A run, from sandbox_start to sandbox_end. */
struct sandbox {
	pid_t
	    pid; /* of the first process inside, whose end is the end of all; the caller reaps it */
	int pidfd;
	int status_fd; /* readable when it started or could not; see sandbox_ready */
	int over_fd;   /* readable when it is over, or -1; see sandbox_over */
	bool over;     /* with ${code}, as sandbox_over heard */
	int code;
	bool placed; /* all is in place, and the program about to start */
	enum sandbox_net net;
	bool plain; /* no first process of ours: ${pid} is the program, and leads a group */
	struct cgroup group;
	struct sandbox_report report;
	int effect_fd[SANDBOX_EFFECTS]; /* what changed, in the order of the plan's EFFECTs */
	size_t effect_count;
	int listener_fd[SANDBOX_LISTENERS]; /* as in the plan; what is -1 could not be had */
	size_t listener_count;
	int terminal_fd; /* the other end of the terminal, or -1 */
};

/**
 * sandbox_limits(limits):
 * Fill ${limits} with the defaults of schema/rows_setting.sql (sandbox.*).
 */
void sandbox_limits(struct sandbox_limits *limits);

/**
 * sandbox_start(plan, box, refusal):
 * Start the program of ${plan} in namespaces, a root, a cgroup and filters of its own.  It runs
 * when sandbox_ready says so.  The calling thread is its parent: it dies with it.  Nothing of the
 * calling process is in reach inside but the descriptors of ${plan}.  Return 0; or -1 with
 * ${refusal} sandbox.plan (it contradicts itself, or would show what is forbidden), sandbox.userns
 * (this machine forbids user namespaces; the sentence names the setting) or sandbox.start.
 */
int sandbox_start(const struct sandbox_plan *plan, struct sandbox *box, struct refusal *refusal);

/**
 * sandbox_spare(box, refusal):
 * Have a sandbox stand ready in ${box}, without a plan: its namespaces and its group are made,
 * which is most of what a start waits for.  Only for callers with one thread.  Return 0 or -1; end
 * it with sandbox_end and sandbox_free, as any other.
 */
int sandbox_spare(struct sandbox *box, struct refusal *refusal);

/**
 * sandbox_start_spare(plan, box, refusal):
 * As sandbox_start, in the sandbox that stands ready in ${box}.  One for which it does not fit (the
 * machine's network, another user), or that died meanwhile, is made anew.
 */
int sandbox_start_spare(
    const struct sandbox_plan *plan, struct sandbox *box, struct refusal *refusal);

/**
 * sandbox_ready(box, ms, refusal):
 * Wait at most ${ms} until the program runs, and complete box->report and box->effect_fd.  Return
 * 0, or -1 with ${refusal} sandbox.start, sandbox.userns, sandbox.program (there is no such program
 * inside) or sandbox.late: then sandbox_end is what is left to do.
 */
int sandbox_ready(struct sandbox *box, int ms, struct refusal *refusal);

/**
 * sandbox_hear(box, refusal):
 * As sandbox_ready, without waiting: return 1 if the program runs, 0 if that is not said yet, or
 * -1.
 */
int sandbox_hear(struct sandbox *box, struct refusal *refusal);

/**
 * sandbox_over(box):
 * Return whether the program that runs in ${box} said that it ended and nothing of it is alive;
 * then its exit code (or 128 and the signal that ended it) is in box->code.  That is sooner than
 * box->pid ends, which is when the kernel has taken all apart; where it was killed it is never
 * said, and sandbox_end knows.  Without waiting.
 */
bool sandbox_over(struct sandbox *box);

/**
 * sandbox_signal(box, signo):
 * Send ${signo} to its first process, which hands it on to the program, by a descriptor: nobody
 * else gets it, whatever has become of the number.  Return 0; or -1 with errno, ESRCH where ${box}
 * was not started, or is over.
 */
int sandbox_signal(const struct sandbox *box, int signo);

/**
 * sandbox_end(box, status):
 * Kill what is left of it, wait for its end, remove its cgroup.  Store the status as from waitpid
 * in
 * ${*status}: the program's exit code, or 128 and the signal that ended it.  The effect's
 * descriptors stay; sandbox_free closes them.  Return 0 or -1.
 */
int sandbox_end(struct sandbox *box, int *status);

/**
 * sandbox_reaped(box):
 * As sandbox_end, where the caller reaped box->pid itself.
 */
void sandbox_reaped(struct sandbox *box);

/**
 * sandbox_free(box):
 * Close what ${box} holds.
 */
void sandbox_free(struct sandbox *box);

/**
 * sandbox_within(path, root):
 * Return whether ${path} is ${root} or lies below it, by their names alone: both absolute and
 * plain.
 */
bool sandbox_within(const char *path, const char *root);

#endif
