/* observe.h: the read-only questions about this machine, their argument walls and their handlers.
 */
#ifndef ENGINE_WORKER_OBSERVE_H
#define ENGINE_WORKER_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"

#define OBSERVE_ARGS_MAX 2
#define OBSERVE_ARG_MAX  4096
#define OBSERVE_PATH_MAX 256
#define OBSERVE_PIN_MAX  600 /* HOST:PORT:ADDRESS,… with its NUL */
#define OBSERVE_KEEP     2   /* folders that bastion keeps for itself */

/* How a run ends; the reason is in its result. */
#define OBSERVE_DONE    0 /* answered */
#define OBSERVE_FAILED  1 /* the machine failed */
#define OBSERVE_WRONG   2 /* the question does not fit this machine: no such unit, port, folder */
#define OBSERVE_MISSING 3 /* this machine lacks the tool, the journal or the right to read it */

struct answer;

/* One word of a question as it came: ${len} bytes that may hold anything, NUL too. */
struct observe_word {
	const char *text;
	size_t len;
};

/* A question that passed the walls: cleaned, defaults filled in, the same for every spelling. */
struct observe_args {
	int n;
	int dry;                   /* of a verb: look, and change nothing */
	char pin[OBSERVE_PIN_MAX]; /* of one that reaches out: where to; "": find out (dial.h) */
	char v[OBSERVE_ARGS_MAX][OBSERVE_ARG_MAX];
};

/* Bounds of the handlers; the caller reads them from the table setting. */
struct observe_limits {
	int64_t folders_max;       /* folders named, and places named as not counted */
	int64_t folders_budget_ms; /* time for a walk */
	int64_t journal_lines;     /* newest lines kept */
	int64_t journal_bytes;     /* newest bytes kept */
	int64_t logins_lines;      /* lines read */
	int64_t logins_ranked;     /* sources, users and accepted logins named */
	int64_t rows_max;          /* things named in a list */
	int64_t cert_ms;           /* time for connections and handshakes */
	int64_t image_bytes;       /* of an image of containers, as it comes in */
	int64_t tool_ms;           /* time for one program that a handler starts */
	int64_t frame_max;         /* longest frame, bytes */
	int64_t memory_max;        /* address space of a run, bytes; 0: no limit */
	int64_t kill_ms;           /* between asking a run to end and ending it */
};

/* Where things are; tests put recordings here. */
struct observe_env {
	char journalctl[OBSERVE_PATH_MAX];
	char systemctl[OBSERVE_PATH_MAX];
	char ss[OBSERVE_PATH_MAX];
	char nft[OBSERVE_PATH_MAX];
	char dpkg_query[OBSERVE_PATH_MAX];
	char git[OBSERVE_PATH_MAX];
	char apt_get[OBSERVE_PATH_MAX];
	char usermod[OBSERVE_PATH_MAX];
	char kubectl[OBSERVE_PATH_MAX];
	char kubeconfig[OBSERVE_PATH_MAX]; /* which cluster, and as whom */
	char skopeo[OBSERVE_PATH_MAX];
	char registries[OBSERVE_PATH_MAX];        /* as whom images are asked for; may be missing */
	char keep[OBSERVE_KEEP][OBSERVE_ARG_MAX]; /* where verbs do not reach; "": none */
	char root[OBSERVE_PATH_MAX];    /* before /proc and /etc; "": this machine's own */
	char journal[OBSERVE_PATH_MAX]; /* directories of journal files, separated by ':' */
	char readers[OBSERVE_PATH_MAX]; /* the group whose members may read the journal */
	char trust[OBSERVE_PATH_MAX];   /* file of trusted certificates; "": the system's store */
};

/* A question: a row of the table op has the same name, usage and summary. */
struct observe_op {
	const char *name;
	const char *usage;
	const char *summary;
	int args_min;
	int args_max;
	bool acts;  /* it may change something, so it runs outside the seal: act.h */
	bool dials; /* it reaches out, so it runs twice: dial.h */
	int (*check)(int nargs, const char *const *args, struct observe_args *canon,
	    struct refusal *refusal);
	/* NULL, or what can be done before anybody asks: return 0 or -1. */
	int (*ready)(struct answer *out);
	/* NULL: the database answers, as the row of the run is made. */
	int (*run)(const struct observe_args *args, const struct observe_limits *limits,
	    const struct observe_env *env, struct answer *out);
};

extern const struct observe_op observe_folders;
extern const struct observe_op observe_journal;
extern const struct observe_op observe_logins;
extern const struct observe_op observe_cert;
extern const struct observe_op observe_services;
extern const struct observe_op observe_timers;
extern const struct observe_op observe_listeners;
extern const struct observe_op observe_packages;
extern const struct observe_op observe_firewall;
extern const struct observe_op observe_load;
extern const struct observe_op observe_disks;
extern const struct observe_op observe_users;
extern const struct observe_op observe_processes;
extern const struct observe_op observe_kernel;
extern const struct observe_op observe_grants;
extern const struct observe_op observe_grant_drop;
extern const struct observe_op observe_reach;
extern const struct observe_op observe_op_list;

/**
 * observe_at(i):
 * Return the op number ${i} from 0 on, or NULL behind the last.
 */
const struct observe_op *observe_at(size_t i);

/**
 * observe_find(name):
 * Return the op ${name}, or NULL.
 */
const struct observe_op *observe_find(const char *name);

/**
 * observe_check(name, nargs, args, canon, refusal):
 * Decide whether the op ${name} may be asked with the ${nargs} words ${args}.  This looks at the
 * words only, never at the machine.  Store the canonical question in ${canon}: path cleaned,
 * ".service" appended, server name in lower case, numbers in plain digits, defaults filled in.
 * Return 0, or -1 with ${refusal} naming the broken rule (op.unknown, observe.args or the
 * argument's own: observe.path …) and never the offending value.
 */
int observe_check(const char *name, int nargs, const struct observe_word *args,
    struct observe_args *canon, struct refusal *refusal);

/**
 * observe_no_args(nargs, args, canon, refusal):
 * The check of an op that takes no words.  Return 0.
 */
int observe_no_args(
    int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal);

/**
 * observe_number(text, low, high, code, what, value, refusal):
 * Read ${text} as plain decimal digits within ${low}..${high} into ${*value}.  Return 0, or -1 with
 * ${refusal} set to ${code} and a sentence about ${what}.
 */
int observe_number(const char *text, int64_t low, int64_t high, const char *code, const char *what,
    int64_t *value, struct refusal *refusal);

/**
 * observe_defaults(limits, env):
 * Fill ${limits} and ${env} with what the specification says and where Debian keeps things.  The
 * caller then lays the rows of setting over it.
 */
void observe_defaults(struct observe_limits *limits, struct observe_env *env);

/**
 * observe_journal_reader(env, why, whylen):
 * Return 1 if this process can read the system journal: it is root or in the group systemd-journal,
 * the tool is there, and there are journal files.  Else store the reason in ${why} and return 0.
 */
int observe_journal_reader(const struct observe_env *env, char *why, size_t whylen);

#endif
