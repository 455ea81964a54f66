/* contain.h: stop a process with everything beneath it, but for what is to be spared. */
#ifndef ENGINE_WORKER_CONTAIN_H
#define ENGINE_WORKER_CONTAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/actor/identity.h"
#include "engine/refusal.h"

#define CONTAIN_EXE_MAX 4096
#define CONTAIN_DIGEST  32
#define CONTAIN_WHY_MAX 128

/* What tells a process from others: who runs which program with which arguments. */
struct contain_print {
	int64_t uid;                        /* real user */
	char exe[CONTAIN_EXE_MAX + 1];      /* as the kernel names it */
	unsigned char argv[CONTAIN_DIGEST]; /* SHA-256 of /proc/PID/cmdline, its first 64 KiB */
};

/* One entry of the list of what is spared. */
struct contain_entry {
	int64_t id;
	struct contain_print print;
	bool any; /* whatever the arguments */
};

/* What this machine is, for an order. */
struct contain_world {
	const struct contain_entry *spared; /* n of them */
	size_t n;
	const struct identity *ours; /* what bastion runs: spared, with everything beneath */
	size_t our_count;
	int64_t processes_max, rounds_max;
};

/* What is to be stopped. */
struct contain_target {
	int64_t pid;
	const char *exe;   /* the program that it has to be; NULL: any */
	bool agent;        /* it itself is stopped although it is listed */
	int64_t issued_at; /* ms UTC: a process that began later is another one; 0: not looked at */
};

enum contain_fate { CONTAIN_STOP, CONTAIN_SPARE, CONTAIN_STOPPED, CONTAIN_GONE };

struct contain_process {
	int64_t pid, start_ticks, uid;
	char program[IDENTITY_PROGRAM_SIZE];
	enum contain_fate fate;
	char why[CONTAIN_WHY_MAX]; /* it is spared; "" where it lies beneath one that is */
};

/* A process and what lies beneath it, the root first.  Zeros are an empty one. */
struct contain_tree {
	struct contain_process *list;
	size_t n, room;
	char boot_id[IDENTITY_BOOT_LEN + 1];
};

/**
 * contain_print_of(pid, print, refusal):
 * Read what tells the process ${pid} from others.  One that shows no arguments, as in the middle of
 * execve(2), is waited for, up to 20 ms.  Return 0, or -1 with ${refusal} contain.process.
 */
int contain_print_of(int64_t pid, struct contain_print *print, struct refusal *refusal);

/**
 * contain_look(world, target, tree, refusal):
 * Find ${target} and what lies beneath it, and say of each whether it is stopped or spared; add
 * what is new to ${tree}, whose list the caller frees with contain_free.  Nothing is signalled.
 * Arguments that do not show are waited for as in contain_print_of, 20 ms for all of them together.
 * Return the number of processes that are new and to be stopped; or -1 with ${refusal}:
 * contain.gone, contain.exe, contain.reused, contain.bastion (it is init, of the kernel, of
 * bastion, or an ancestor of it), contain.many, contain.failed.
 */
int contain_look(const struct contain_world *world, const struct contain_target *target,
    struct contain_tree *tree, struct refusal *refusal);

/**
 * contain_signal(process, number):
 * Send the signal ${number} to ${process} if that very process still runs, by a descriptor that no
 * other process can take the place of.  Return whether it was sent.
 */
bool contain_signal(const struct contain_process *process, int number);

/**
 * contain_stop(world, target, tree, refusal):
 * Look, hold what is to be stopped, look again for what was born meanwhile until there is nothing
 * new, and kill what is held.  ${tree} says what became of each.  Return 0, or -1 as contain_look:
 * then nothing was signalled.
 */
int contain_stop(const struct contain_world *world, const struct contain_target *target,
    struct contain_tree *tree, struct refusal *refusal);

/**
 * contain_free(tree):
 * Free what ${tree} holds.
 */
void contain_free(struct contain_tree *tree);

#endif
