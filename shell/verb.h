/* verb.h: the table of verbs, made at build time from the comments above them (verbs.awk). */
#ifndef SHELL_VERB_H
#define SHELL_VERB_H

#include <stdbool.h>
#include <stdio.h>

#include "shell/near.h"

struct cli;

struct verb {
	const char *name;    /* "grants", "host invite" */
	const char *summary; /* the first sentence of its help */
	const char *help;    /* from "usage:" on */
	int (*run)(struct cli *cli, int argc, char **argv);
};

/* In the order of the alphabet, ended by a NULL name. */
extern const struct verb verbs[];

/**
 * verb_named(name):
 * Return the verb ${name}, or NULL.
 */
const struct verb *verb_named(const char *name);

/**
 * verb_find(argc, argv, words):
 * Return the verb that the words ${argv} begin with and store how many words its name has in
 * ${*words}; two words go before one.  Return NULL where there is none.
 */
const struct verb *verb_find(int argc, char **argv, int *words);

/**
 * verb_usage(verb, out):
 * Write the lines of ${verb}'s help that say how it is called.
 */
void verb_usage(const struct verb *verb, FILE *out);

#define VERB_TAKES_MAX 120

/**
 * verb_takes(verb, word, out):
 * Store in ${out} what the usage of ${verb} has behind ${word}, without what may be left out.
 * Return whether ${word} is one of the words that ${verb} begins with.
 */
bool verb_takes(const struct verb *verb, const char *word, char out[VERB_TAKES_MAX]);

/**
 * verb_near(verb, word, list):
 * Add to ${list} the words that ${verb} begins with and that are near to ${word}, as near_add.
 */
void verb_near(const struct verb *verb, const char *word, char list[NEAR_MAX]);

/**
 * verb_value(verb, option, out):
 * Store in ${out} what the usage of ${verb} has behind ${option}, which is "--name" or "-n";
 * "" where it has nothing.
 */
void verb_value(const struct verb *verb, const char *option, char out[VERB_TAKES_MAX]);

/**
 * verb_list(out, width, first):
 * Write what verbs there are, one a line of at most ${width} columns (0: no limit).  With ${first},
 * only those of two words that begin with it.  Return how many were written.
 */
int verb_list(FILE *out, int width, const char *first);

/**
 * verb_unknown(argc, argv):
 * Say on standard error that no verb begins with the words ${argv}, and which are near.  Return 2.
 */
int verb_unknown(int argc, char **argv);

#endif
