/* library.c: dlopen into a table of typed function pointers. */
#include <dlfcn.h>
#include <string.h>

#include "engine/library.h"

int
library_load(const char *soname, const char *package, const struct library_symbol *symbols,
    void *table, struct refusal *r)
{
	const struct library_symbol *s;
	void *handle, *found;

	if ((handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL)) == NULL)
		return refusal_set(r, "library.missing", "%s is not there: install the package %s",
		    soname, package);
	for (s = symbols; s->name != NULL; s++) {
		if ((found = dlsym(handle, s->name)) == NULL) {
			dlclose(handle);
			return refusal_set(r, "library.missing",
			    "%s has no %s: the package %s is too old", soname, s->name, package);
		}
		memcpy((char *)table + s->at, &found, sizeof(found));
	}
	return 0;
}
