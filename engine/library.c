/* library.c: dlopen into a table of typed function pointers. */
#include <dlfcn.h>
#include <pthread.h>
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

const void *
library_once(struct library *library, struct refusal *r)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool loaded;

	pthread_mutex_lock(&lock);
	if (!library->loaded)
		library->loaded = library_load(library->soname, library->package, library->symbols,
				      library->table, r) == 0 &&
				  (library->begin == NULL || library->begin(r) == 0);
	loaded = library->loaded;
	pthread_mutex_unlock(&lock);
	return loaded ? library->table : NULL;
}
