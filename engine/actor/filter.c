/* filter.c: the list of system calls. */
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/filter.h"
#include "engine/seccomp.h"

#define FAILED "actor.start"

/*
 * Names, not numbers: a name that this architecture does not have (open, poll and friends on arm64)
 * is left out.  With arguments to check: see narrow below.
 */
static const char *const allowed[] = {
    /* files: SQLite, locks, the doorbell, certificates */
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
    "pwritev2", "lseek", "open", "openat", "close", "close_range", "stat", "fstat", "lstat",
    "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2", "readlink",
    "readlinkat", "getdents64", "getcwd", "mkdir", "mkdirat", "unlink", "unlinkat", "rename",
    "renameat", "renameat2", "link", "linkat", "chmod", "fchmod", "fchmodat", "fchown", "umask",
    "utimensat", "fsync", "fdatasync", "ftruncate", "fallocate", "fadvise64", "flock", "fcntl",
    "dup", "dup2", "dup3", "memfd_create", "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
    /* memory; mlock for keys */
    "mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "mincore", "mlock", "mlock2",
    "munlock", "membarrier",
    /* threads, time, waiting */
    "futex", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "sched_yield",
    "sched_getaffinity", "sched_getparam", "sched_getscheduler", "getcpu", "gettid", "getpid",
    "getppid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups",
    "getpgrp", "getpgid", "getsid", "gettimeofday", "time", "times", "clock_gettime",
    "clock_getres", "clock_nanosleep", "nanosleep", "timerfd_create", "timerfd_settime",
    "timerfd_gettime", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
    "eventfd2", "signalfd4", "poll", "ppoll", "select", "pselect6", "pidfd_open", "getrusage",
    "getrlimit", "sysinfo", "uname", "getrandom", "capget",
    /* signals of our own */
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
    "rt_sigsuspend", "sigaltstack", "restart_syscall", "exit", "exit_group",
    /* sockets; making one is narrowed to the families that we speak */
    "connect", "bind", "listen", "accept", "accept4", "getsockname", "getpeername", "getsockopt",
    "setsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "shutdown",
    "sendfile", "pipe2", "splice"};

/* No mistake of ours makes these: who does is not us any more. */
static const char *const deadly[] = {"ptrace", "process_vm_readv", "process_vm_writev", "execve",
    "execveat", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsmount", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
    "reboot", "swapon", "open_by_handle_at"};

/* Calls that are allowed with some arguments only. */
static const struct narrow {
	const char *name;
	unsigned int arg;
	uint64_t mask, value;
} narrow[] = {{"socket", 0, ~0ULL, AF_UNIX}, {"socket", 0, ~0ULL, AF_INET},
    {"socket", 0, ~0ULL, AF_INET6},
    {"socket", 0, ~0ULL, AF_NETLINK}, /* getaddrinfo asks which addresses there are */
    {"socketpair", 0, ~0ULL, AF_UNIX}, {"ioctl", 1, 0xffffffff, FIONBIO},
    {"ioctl", 1, 0xffffffff, FIONREAD}, {"ioctl", 1, 0xffffffff, TCGETS},
    {"ioctl", 1, 0xffffffff, TIOCGWINSZ}, {"kill", 1, 0xffffffff, 0}, /* is that process alive */
    {"prctl", 0, 0xffffffff, PR_SET_NAME}, {"prctl", 0, 0xffffffff, PR_GET_NAME},
    {"prctl", 0, 0xffffffff, PR_GET_DUMPABLE}, {"prctl", 0, 0xffffffff, PR_SET_VMA},
    {"prlimit64", 2, ~0ULL, 0}, /* read, not set */
    /* a thread of this process, in no namespace of its own */
    {"clone", 0,
	CLONE_THREAD | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
	    CLONE_NEWPID | CLONE_NEWNET,
	CLONE_THREAD}};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* What is being filled. */
struct filter {
	const struct seccomp_library *lib;
	scmp_filter_ctx ctx;
};

/* Return the number of a call, or -1 where this architecture has no such call. */
static int
call_number(const struct filter *f, const char *name)
{
	int number = f->lib->syscall_resolve_name(name);

	return number < 0 ? -1 : number;
}

static int
add_names(const struct filter *f, uint32_t action, const char *const *names, size_t count)
{
	size_t i;
	int number, rc;

	for (i = 0; i < count; i++) {
		if ((number = call_number(f, names[i])) == -1)
			continue;
		if ((rc = f->lib->rule_add(f->ctx, action, number, 0)) != 0)
			return rc;
	}
	return 0;
}

static int
add_narrow(const struct filter *f)
{
	struct scmp_arg_cmp cmp;
	size_t i;
	int number, rc;

	for (i = 0; i < LENGTH(narrow); i++) {
		if ((number = call_number(f, narrow[i].name)) == -1)
			continue;
		cmp.arg = narrow[i].arg;
		cmp.op = SCMP_CMP_MASKED_EQ;
		cmp.datum_a = narrow[i].mask;
		cmp.datum_b = narrow[i].value;
		if ((rc = f->lib->rule_add_array(f->ctx, SCMP_ACT_ALLOW, number, 1, &cmp)) != 0)
			return rc;
	}
	return 0;
}

/* What depends on who we are: signals to ourselves (abort), a thread that gives way to others, and
 * threads the old way. */
static int
add_own(const struct filter *f)
{
	struct scmp_arg_cmp self = {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = (scmp_datum_t)getpid()};
	const struct scmp_arg_cmp thread[] = {
	    {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = PRIO_PROCESS},
	    {.arg = 1, .op = SCMP_CMP_EQ, .datum_a = 0}};
	int rc;

	if ((rc = f->lib->rule_add_array(f->ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, &self)) !=
		0 ||
	    (rc = f->lib->rule_add_array(
		 f->ctx, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), 2, thread)) != 0)
		return rc;
	/* Its flags lie in memory, where a filter cannot look: the library falls back to clone. */
	return f->lib->rule_add(f->ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int
filter_fill(const struct filter *f)
{
	int rc;

	if ((rc = f->lib->attr_set(f->ctx, SCMP_FLTATR_CTL_TSYNC, 1)) != 0)
		return rc;
	if ((rc = add_names(f, SCMP_ACT_ALLOW, allowed, LENGTH(allowed))) != 0)
		return rc;
	if ((rc = add_names(f, SCMP_ACT_KILL_PROCESS, deadly, LENGTH(deadly))) != 0)
		return rc;
	if ((rc = add_narrow(f)) != 0 || (rc = add_own(f)) != 0)
		return rc;
	return f->lib->load(f->ctx);
}

int
filter_install(struct refusal *r)
{
	struct filter f;
	int rc;

	if ((f.lib = seccomp_library(r)) == NULL)
		return -1;
	if ((f.ctx = f.lib->init(SCMP_ACT_ERRNO(EPERM))) == NULL)
		return refusal_set(r, FAILED, "cannot make the filter of system calls");
	rc = filter_fill(&f);
	f.lib->release(f.ctx);
	if (rc == 0)
		return 0;
	return refusal_set(r, FAILED, "cannot filter system calls: %s", strerror(-rc));
}
