/* seccomp.h: what we use of libseccomp, loaded at first use. */
#ifndef ENGINE_SECCOMP_H
#define ENGINE_SECCOMP_H

#include <seccomp.h>

#include "engine/refusal.h"

/* Members bear the names of the functions, less "seccomp_". */
struct seccomp_library {
	typeof(&seccomp_attr_set) attr_set;
	typeof(&seccomp_export_bpf) export_bpf;
	typeof(&seccomp_init) init;
	typeof(&seccomp_load) load;
	typeof(&seccomp_release) release;
	typeof(&seccomp_rule_add) rule_add;
	typeof(&seccomp_rule_add_array) rule_add_array;
	typeof(&seccomp_syscall_resolve_name) syscall_resolve_name;
};

/**
 * seccomp_library(r):
 * Return the library's functions, loading it the first time; or NULL with ${r} library.missing. Any
 * thread may ask.
 */
const struct seccomp_library *seccomp_library(struct refusal *r);

#endif
