/* tool.h: the only programs that a handler may start, each with a fixed argument vector. */
#ifndef ENGINE_WORKER_TOOL_H
#define ENGINE_WORKER_TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "engine/worker/observe.h"

#define TOOL_ARGV_MAX 40
#define TOOL_ARG_MAX  640
#define TOOL_LINE_MAX 8192
#define TOOL_ABSENT   1

enum tool {
	TOOL_UNITS,      /* units that systemd has loaded */
	TOOL_UNIT_FILES, /* units that are installed */
	TOOL_UNIT_LOG,   /* what one unit logged */
	TOOL_SSHD_LOG,   /* what sshd logged as root */
	TOOL_LISTENERS,  /* listening TCP sockets */
	TOOL_SERVICES,   /* services that systemd has loaded */
	TOOL_TIMERS,     /* its timers, as JSON */
	TOOL_KERNEL_LOG, /* what the kernel logged */
	TOOL_SOCKETS,    /* listening TCP and UDP sockets, and whose they are */
	TOOL_RULES,      /* the packet filter, as JSON */
	TOOL_PACKAGES,   /* installed packages, by tabs */
	/* Those of verbs; the last word of each name says what it does. */
	TOOL_UNIT_LOADED,
	TOOL_UNIT_SHOW,
	TOOL_UNIT_RESTART,
	TOOL_TREE_CONFIG,
	TOOL_TREE_COMMIT,
	TOOL_TREE_DIFF,
	TOOL_TREE_CHECKOUT,
	TOOL_TREE_ORIGIN,
	TOOL_TREE_REFS,
	TOOL_TREE_LOOK,
	TOOL_TREE_FETCH,
	TOOL_GIT_VERSION,
	TOOL_CLUSTER_IMAGE,
	TOOL_CLUSTER_SET,
	TOOL_PACKAGE_PLAN,
	TOOL_PACKAGE_INSTALL,
	TOOL_USER_LOCK,
	TOOL_IMAGE_LOOK,
	TOOL_IMAGE_HERE,
	TOOL_IMAGE_PULL,
	TOOL_COUNT
};

/* What goes into the gaps of an argument vector. */
struct tool_fill {
	const char *unit;  /* canonical name, or NULL */
	int64_t since_min; /* minutes to look back */
	int64_t lines;     /* newest lines wanted */
	const char *name;  /* of a unit, ref, package or account, or NULL */
	const char *path;  /* of a git tree, or NULL */
	const char *url;   /* where it is from, or NULL */
	const char *pin;   /* HOST:PORT:ADDRESS,…: where that is, and nowhere else */
	const char *image; /* of a container, or NULL */
	/* Of a cluster: where it is run, and its container, or NULL. */
	const char *space, *deployment, *container;
	/* Of an image: where it is from, what it is called here, and what says as whom; "": nobody.
	 */
	const char *source, *stored, *creds;
	const char *trust; /* file of trusted certificates; "": the system's */
};

/* The argument vector of one start, ready for exec. */
struct tool_call {
	char text[TOOL_ARGV_MAX][TOOL_ARG_MAX];
	char *argv[TOOL_ARGV_MAX + 1];
};

/* Splits a tool's output into lines; the part of a line behind TOOL_LINE_MAX is left out. */
struct tool_lines {
	int (*line)(void *ctx, const char *line, size_t len);
	void *ctx;
	size_t used;
	char buf[TOOL_LINE_MAX];
};

/**
 * tool_call(which, env, fill, call):
 * Build in ${call} how ${which} is started with ${fill}.  Return 0, or -1 if a value does not fit.
 */
int tool_call(enum tool which, const struct observe_env *env, const struct tool_fill *fill,
    struct tool_call *call);

/**
 * tool_run(which, env, fill, time_ms, sink, ctx, why, whylen):
 * Start ${which} without a shell, with nothing on its input and an environment of its own, and give
 * its output piece by piece to ${sink}, which returns nonzero to end early.  After ${time_ms} it is
 * killed.  Return 0 if it ended well; TOOL_ABSENT if it said, as it is documented to, that what it
 * was asked about is not there; or -1 with a sentence in ${why}.
 */
int tool_run(enum tool which, const struct observe_env *env, const struct tool_fill *fill,
    int64_t time_ms, int (*sink)(void *ctx, const char *data, size_t len), void *ctx, char *why,
    size_t whylen);

/**
 * tool_lines_sink(lines, data, len):
 * A sink for tool_run: hand complete lines to ${lines}->line.
 */
int tool_lines_sink(void *lines, const char *data, size_t len);

/**
 * tool_lines_end(lines):
 * Hand out a last line that has no newline.
 */
void tool_lines_end(struct tool_lines *lines);

/**
 * tool_now_ms():
 * Return milliseconds of the monotonic clock, for deadlines.
 */
int64_t tool_now_ms(void);

#endif
