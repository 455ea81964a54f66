/* near.h: what was meant by a word that does not exist. */
#ifndef SHELL_NEAR_H
#define SHELL_NEAR_H

#include <stdbool.h>

/**
 * near_to(name, typed):
 * Return whether a slip of the finger makes ${typed} of ${name}: letters left out, put in, changed
 * or swapped, at most two, one in short words; or ${typed} is how ${name} begins.
 */
bool near_to(const char *name, const char *typed);

/**
 * near_add(list, name, typed):
 * Where ${name} is near to ${typed}, add it to ${list}, "; near it: a, b", as long as there is
 * room.
 */
#define NEAR_MAX 200
void near_add(char list[NEAR_MAX], const char *name, const char *typed);

#endif
