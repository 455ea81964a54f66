/* answer.h: a frame of an op's answer, for people. */
#ifndef SHELL_ANSWER_H
#define SHELL_ANSWER_H

#include "shell/cli.h"

/**
 * answer_show(cli, frame):
 * Show the frame ${frame}: output as it is (control characters escaped), a result as "name: value"
 * lines and a table for each list, an error as one line.  Return 0, or -1 with the store's refusal
 * set.
 */
int answer_show(struct cli *cli, const char *frame);

#endif
