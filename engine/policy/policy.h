/* policy.h: whether a tool of an agent may do what it asks for. */
#ifndef ENGINE_POLICY_POLICY_H
#define ENGINE_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/policy/risk.h"
#include "engine/store/store.h"

struct policy_answer {
	int64_t decision;
	char action[8]; /* "allow", "deny", "prompt" */
	char gate[16];  /* which gate said so */
	char code[32];  /* of a deny: a code of "violation" */
	char why[256];
	char risk[12];
	char categories[RISK_NAMES_MAX];
	bool auto_allowed, recoverable;
	int64_t grant_id; /* 0: by no tool grant */
	/* Of a command that would wait for a person at a terminal: what to do instead. */
	struct command_report command;
};

/**
 * policy_judge(db, home, ask, len, a):
 * Judge the ask ${ask}, a JSON object of ${len} bytes:
 *
 *   {"tool": name, "side_effect": read|write|shell|network|out_of_workspace|none,
 *    "permission": allow|prompt|deny, "granted": bool, "mode": auto|ask|unsafe,
 *    "autonomy": low|medium|high, "workspace": directory, "root": the workspace of this ask alone,
 *    "add_dirs": [directory, ...], "session": text, "cancelled": bool,
 *    "confined": bool, "scoped": bool, "args": {...}}
 *
 * All but args is the word of whoever runs the tool; args is the agent's.  ${home} is what "~"
 * means. The decision and what each gate said are rows, in the transaction that the caller began
 * and ends: rolled back, it was an explanation.  Return 0 with ${a}, or -1 with the store's refusal
 * (policy.request; policy.snapshot, where the policy changed meanwhile).
 */
int policy_judge(
    struct store *db, const char *home, const char *ask, size_t len, struct policy_answer *a);

/**
 * policy_lists(db, base, home, lists):
 * Fill ${lists} with the policy's entries that lead somewhere now.  Return 0 or -1.
 */
int policy_lists(struct store *db, const char *base, const char *home, struct pathlists *lists);

/**
 * policy_roots(db, workspace, home, roots, error, size):
 * Fill ${roots} with what a sandbox may let be written: ${workspace}, the policy's write_root and
 * allow_write.  An entry of write_root that leads nowhere is named in ${error}, "" for none; one of
 * allow_write sleeps.  Return 0, or -1: policy.request, where there is no such workspace.
 */
int policy_roots(struct store *db, const char *workspace, const char *home, struct scope *roots,
    char *error, size_t size);

/**
 * policy_exclusions(db, workspace, home, lists):
 * As policy_lists, for a search below ${workspace}: nothing where the policy is disabled.
 */
int policy_exclusions(
    struct store *db, const char *workspace, const char *home, struct pathlists *lists);

/**
 * policy_host(db, host, scoped, allowed, mode):
 * Whether a network tool may reach ${host} (a port behind it is ignored); ${scoped}: what holds
 * tools to domains is there.  Store "allow", "scoped" or "deny" in ${mode}.  Return 0 or -1.
 */
int policy_host(struct store *db, const char *host, bool scoped, bool *allowed, char mode[8]);

/**
 * policy_set(db, name, config, value), policy_unset(db, name, config):
 * Put the person's word for the field ${name}, or with ${config} that of a configuration: it may
 * say anything, and only hardens.  Or take it back.  Return 0, or -1: policy.field, policy.value.
 */
int policy_set(struct store *db, const char *name, bool config, const char *value);
int policy_unset(struct store *db, const char *name, bool config);

/**
 * policy_entry(db, list, entry, add, changed):
 * Add ${entry} to the list ${list} (allow_read, deny_read, allow_write, deny_write, write_root,
 * allow_domain, deny_domain), or remove it.  Return 0 with whether that changed anything, or -1.
 */
int policy_entry(struct store *db, const char *list, const char *entry, bool add, bool *changed);

/**
 * policy_limits(db, limits):
 * The settings of the reader of scripts.
 */
void policy_limits(struct store *db, struct shell_limits *limits);

#endif
