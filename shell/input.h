/* input.h: what a person types or hands over, read with its bounds. */
#ifndef SHELL_INPUT_H
#define SHELL_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/refusal.h"

/**
 * input_number(text, number):
 * Read ${text} as a number of a row, 1 or more, in digits alone.  Return 0, or -1 as
 * cli_wrong.
 */
int input_number(const char *text, int64_t *number);

/**
 * input_file(path, out, size, r):
 * Read the text of the file ${path}, or of standard input for "-", into ${out}, with a NUL behind
 * it.  Return 0, or -1 with ${r} file.missing where it cannot be read, usage.wrong where it does
 * not fit or holds a NUL.
 */
int input_file(const char *path, char *out, size_t size, struct refusal *r);

/**
 * input_show_terms(out, terms):
 * Write the ${terms} of a question to ${out} for a person to read, line by line, indented, and with
 * everything escaped that could drive the terminal.
 */
void input_show_terms(FILE *out, const char *terms);

/**
 * input_show_signed(out, what, id, terms):
 * As input_show_terms, below a line that says which ${what} it is: terms begin with the name and
 * the number of their form, and that number is not ${id}.
 */
void input_show_signed(FILE *out, const char *what, int64_t id, const char *terms);

#endif
