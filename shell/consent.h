/* consent.h: a question that only a person at the terminal answers. */
#ifndef SHELL_CONSENT_H
#define SHELL_CONSENT_H

#include <stddef.h>
#include <stdio.h>

#define CONSENT_ANSWER 16

/**
 * consent_question(out, present, host):
 * Write to ${out} the question whether ${host} may ask this machine beside the Hosts ${present},
 * with the name in quotes and everything escaped that could pose as something else.
 */
void consent_question(FILE *out, const char *present, const char *host);

/**
 * consent_ask(present, host, answer):
 * Put that question on the terminal of this process, /dev/tty, whatever standard input is; what was
 * typed before it was shown is no answer.  Store the line that is typed in ${answer}, without its
 * end; "" where there is none or it does not fit.  Return 0, or -1 without a terminal.
 */
int consent_ask(const char *present, const char *host, char answer[CONSENT_ANSWER]);

/**
 * consent_yes(question):
 * Put ${question}, a text of ours, on the terminal in the same way.  Return 1 where y or yes is
 * typed, 0 for anything else, -1 without a terminal.
 */
int consent_yes(const char *question);

#endif
