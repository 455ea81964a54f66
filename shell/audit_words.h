/* audit_words.h: what the words of bastion audit share. */
#ifndef SHELL_AUDIT_WORDS_H
#define SHELL_AUDIT_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "shell/cli.h"

/* What was asked for. */
struct audit_options {
	int64_t rows;
	bool follow, mark;
	const char *entity, *id;
	const char *key;           /* a verifier key, or hexadecimal; NULL: this machine's own */
	const char *since, *until; /* a row's number, a time, or how long ago; NULL: all */
	const char *format, *checkpoint;
};

/**
 * audit_key_load(cli, o, pk):
 * Store the machine's public key in ${pk}: from the option, or from the key file, never from the
 * database.  Return 0, or -1 with cli->refusal set.
 */
int audit_key_load(struct cli *cli, const struct audit_options *o, unsigned char pk[32]);

/**
 * audit_range(cli, o, since, until):
 * Find the first and the last row of --since and --until in the open store of ${cli}: 1 and 0
 * where they were not given, a last row of -1 where none is that old.  Return 0, or -1 with
 * cli->refusal set.
 */
int audit_range(struct cli *cli, const struct audit_options *o, int64_t *since, int64_t *until);

/**
 * audit_bell(cli, bell, tick):
 * Wait for the bell of the store, ${tick} ms at most.  Return false when nobody reads standard
 * output any more.
 */
bool audit_bell(struct cli *cli, int bell, int tick);

/* The words, each given what stands behind it.  They return the exit code. */
int audit_verify_word(struct cli *cli, struct audit_options *o, int argc, char **argv);
int audit_export_word(struct cli *cli, struct audit_options *o, int argc, char **argv);
int audit_key_word(struct cli *cli, struct audit_options *o, int argc, char **argv);
int audit_checkpoint_word(struct cli *cli, struct audit_options *o, int argc, char **argv);
int audit_prove_word(struct cli *cli, struct audit_options *o, int argc, char **argv);
int audit_consistency_word(struct cli *cli, struct audit_options *o, int argc, char **argv);

#endif
