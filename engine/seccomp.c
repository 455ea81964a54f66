/* seccomp.c: the table of libseccomp's functions. */
#include <stddef.h>

#include "engine/library.h"
#include "engine/seccomp.h"

static const struct library_symbol symbols[] = {
    {"seccomp_attr_set", offsetof(struct seccomp_library, attr_set)},
    {"seccomp_export_bpf", offsetof(struct seccomp_library, export_bpf)},
    {"seccomp_init", offsetof(struct seccomp_library, init)},
    {"seccomp_load", offsetof(struct seccomp_library, load)},
    {"seccomp_release", offsetof(struct seccomp_library, release)},
    {"seccomp_rule_add", offsetof(struct seccomp_library, rule_add)},
    {"seccomp_rule_add_array", offsetof(struct seccomp_library, rule_add_array)},
    {"seccomp_syscall_resolve_name", offsetof(struct seccomp_library, syscall_resolve_name)},
    {NULL, 0},
};

const struct seccomp_library *
seccomp_library(struct refusal *r)
{
	static struct seccomp_library table;
	static struct library library = {
	    "libseccomp.so.2", "libseccomp2", symbols, &table, NULL, false};

	return library_once(&library, r);
}
