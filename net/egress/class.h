/* class.h: what an address is: the rows of address_class, compiled to ranges. */
#ifndef NET_EGRESS_CLASS_H
#define NET_EGRESS_CLASS_H

#include "engine/address.h"
#include "engine/store/store.h"

enum class {
	CLASS_PUBLIC,
	CLASS_THIS_MACHINE,
	CLASS_LINK,
	CLASS_NETWORK,
	CLASS_UNREADABLE,
	CLASS_OBSOLETE
};

struct classes;

/* What was found about an address. */
struct class_found {
	enum class class;
	const char *why; /* of the row that decided; lives as long as the classes */
};

/**
 * class_load(db, r):
 * Read the rows and compile them.  Return the classes, or NULL with ${r}.
 */
struct classes *class_load(struct store *db, struct refusal *r);

/**
 * class_free(classes):
 * Free them; NULL is none.
 */
void class_free(struct classes *classes);

/**
 * class_of(classes, address):
 * Return the class of ${address}, of the IPv4 address in it where the rows say so.
 */
struct class_found class_of(const struct classes *classes, const struct address *address);

/**
 * class_name(class):
 * Return its name, as it stands in the rows.
 */
const char *class_name(enum class class);

#endif
