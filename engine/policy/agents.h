/* agents.h: which AI agents run on this machine, as whom, and which tool servers they declare. */
#ifndef ENGINE_POLICY_AGENTS_H
#define ENGINE_POLICY_AGENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/policy/owner.h"
#include "engine/refusal.h"

#define AGENT_COMMAND 4097
#define AGENT_TEXT    128

/* Numbers of the settings agents.*. */
struct agents_limits {
	size_t processes, files, file, servers, command;
	int64_t wait_ms;
};

/* One process of an agent. */
struct agent {
	pid_t pid;
	char user[OWNER_NAME];
	const char *signature;       /* "claude-code" */
	const char *evidence;        /* "program", "script", "package": what gave it away */
	char command[AGENT_COMMAND]; /* cut to limits.command; what looks secret stands as *** */
	char unit[AGENT_TEXT];       /* of systemd, "" for none */
	struct owner owner;
};

/* How a declared server and the processes fit together. */
enum server_state { SERVER_RUNNING, SERVER_STOPPED, SERVER_UNDECLARED, SERVER_UNKNOWN };

/*
 * One tool server that a client declares, or that runs without.  Nothing else of a configuration
 * leaves the reader: no value of a variable or header, no argument but the one word that names what
 * is run, and none of these where it looks like a secret.
 */
struct tool_server {
	char user[OWNER_NAME];    /* whose configuration, or whose process */
	const char *client;       /* "claude-code", "cursor"; "" for what runs undeclared */
	char name[AGENT_TEXT];    /* as the client calls it */
	const char *transport;    /* "stdio", "http" */
	char what[AGENT_TEXT];    /* the program, package or host */
	char env[2 * AGENT_TEXT]; /* names of variables and headers, with commas between */
	bool secrets;             /* one of them looks like it holds a secret */
	bool off;                 /* its file switches it off */
	enum server_state state;
	pid_t pid; /* 0: none */
};

/* What a scan came to, beside its rows. */
struct agents_scan {
	bool processes; /* the processes were all looked at */
	bool timed_out; /* files were left out: nothing may be called undeclared */
	bool truncated; /* there are more servers than limits.servers */
	size_t unread;  /* files that are there and could not be read or understood */
};

/**
 * agents_each(root, limits, own, own_count, fn, ctx, r):
 * Look at all processes below the handle ${root} of "/", or of a test's tree, and call ${fn} with
 * each that is an agent's.  Processes ${own} and what they started are left out, and this one.
 * Return 0; or -1 with ${r} agents.failed where the walk did not happen or not to its end: then
 * nothing may be said about what runs.
 */
int agents_each(int root, const struct agents_limits *limits, const pid_t *own, size_t own_count,
    void (*fn)(void *ctx, const struct agent *agent), void *ctx, struct refusal *r);

/**
 * agents_servers(root, limits, fn, ctx, scan, r):
 * Read the files in which clients of all accounts declare tool servers, look which of them run, and
 * call ${fn} with each, and with those that run undeclared.  Nothing is started and nothing
 * dialled. Return 0 with ${scan}, or -1 with ${r}.
 */
int agents_servers(int root, const struct agents_limits *limits,
    void (*fn)(void *ctx, const struct tool_server *server), void *ctx, struct agents_scan *scan,
    struct refusal *r);

/**
 * agents_declared(root, limits, list, count, scan, r):
 * The first half of agents_servers: store what the files declare in ${*list}, which the caller
 * frees, whether this fails or not; nothing is known of their running.  Return 0 or -1.
 */
int agents_declared(int root, const struct agents_limits *limits, struct tool_server **list,
    size_t *count, struct agents_scan *scan, struct refusal *r);

/**
 * agents_check(root, limits, uid, fn, ctx, scan, r):
 * As agents_declared, but of the account ${uid} alone: call ${fn} with each server as its files
 * have it, also with those that name neither a program nor an address, whose what is "".  Nothing
 * is started, nothing dialled, and no process looked at.  Return 0 or -1.
 */
int agents_check(int root, const struct agents_limits *limits, uint32_t uid,
    void (*fn)(void *ctx, const struct tool_server *server), void *ctx, struct agents_scan *scan,
    struct refusal *r);

/**
 * agents_compare(root, limits, list, count, fn, ctx, scan, r):
 * The second half: compare the ${count} servers of ${list}, whose transport and what are looked at
 * alone, with the processes, and call ${fn} with each in this order, then with those that run
 * undeclared, unless ${scan} says that something is not known.  Return 0 or -1.
 */
int agents_compare(int root, const struct agents_limits *limits, struct tool_server *list,
    size_t count, void (*fn)(void *ctx, const struct tool_server *server), void *ctx,
    struct agents_scan *scan, struct refusal *r);

/* One process as a scan sees it; the words stand one behind the other, each with a NUL. */
struct seen_process {
	pid_t pid, parent;
	char *words;
	size_t len;
};

/**
 * processes_read(root, limits, list, count), processes_free(list, count):
 * Read all processes but this one below ${root}, a handle of /proc, within ${limits}, into
 * ${*list},
 * ${*count} of them; a process that ends meanwhile has no words.  Free what was read with
 * processes_free.  Return 0, or -1 with errno.
 */
int processes_read(
    int root, const struct agents_limits *limits, struct seen_process **list, size_t *count);
void processes_free(struct seen_process *list, size_t count);

#endif
