/* library.h: libraries that few runs need are loaded by those, not at the start of every verb. */
#ifndef ENGINE_LIBRARY_H
#define ENGINE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/refusal.h"

/*
 * What a library is linked for costs each start of the program (measured on a virtual machine,
 * where loading and relocating OpenSSL, libedit and what they need took 4 ms of 10). A table of
 * typed pointers takes its place: its struct has one member a function, and these rows say which is
 * where.
 */
struct library_symbol {
	const char *name;
	size_t at; /* offset of its pointer in the table */
};

/**
 * library_load(soname, package, symbols, table, r):
 * Load ${soname} for good and store the address of each of ${symbols} (ended by a NULL name) in
 * ${table}. Return 0, or -1 with ${r} library.missing, which names the Debian ${package} to
 * install.
 */
int library_load(const char *soname, const char *package, const struct library_symbol *symbols,
    void *table, struct refusal *r);

/* One that is loaded when somebody first asks for it. */
struct library {
	const char *soname, *package;
	const struct library_symbol *symbols;
	void *table;
	int (*begin)(struct refusal *r); /* once it is there: return 0, or -1 with ${r}; or NULL */
	bool loaded;
};

/**
 * library_once(library, r):
 * Load ${library} the first time.  Return its table, or NULL with ${r} as library_load or
 * ${library}->begin say; then the next to ask tries again.  Any thread may ask.
 */
const void *library_once(struct library *library, struct refusal *r);

#endif
