/* op_build.h: have the builder of an added op make its program. */
#ifndef SHELL_OP_BUILD_H
#define SHELL_OP_BUILD_H

#include "engine/worker/program.h"
#include "shell/cli.h"

struct op_built {
	char source_sha256[PROGRAM_HEX], builder_sha256[PROGRAM_HEX], sha256[PROGRAM_HEX];
	const void *bytes; /* of what was made; they stay mapped, and nobody changes them */
	size_t len;
};

/**
 * op_build(cli, source, words, n, built):
 * Run the ${n} ${words}, a program and what it is told, in a sandbox without a network, where $in
 * is a copy of the file ${source} under its name and $out is a file to be made; what it says goes
 * to standard error.  It has the time of the setting act.time_ms.  Store what it made in ${built}.
 * Return 0, or -1 with the refusal of ${cli}: manifest.file, manifest.build, sandbox.*, op.place.
 */
int op_build(
    struct cli *cli, const char *source, char *const *words, size_t n, struct op_built *built);

#endif
