/*
 * sandbox_filter.c: the system calls of a sandbox; prints their filters as C, when bastion is
 * built: compiling them takes milliseconds, which whoever starts one sandbox would wait for.
 *
 * What is listed is allowed, what is named as refused fails with EPERM, and all else, today's and
 * tomorrow's, fails with ENOSYS: a program then does without, as on an older kernel.  Each refusal
 * says why.
 */
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/worker/sandbox_job.h"
#include "engine/worker/seal.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* What ordinary programs, compilers, interpreters and their tests call. */
static const char *const allowed[] = {
    /* files */
    "access", "chdir", "chmod", "chown", "creat", "fchmod", "fchmodat", "mkdir", "mkdirat", "open",
    "openat", "close", "close_range", "copy_file_range", "dup", "dup2", "dup3", "faccessat",
    "faccessat2", "fadvise64", "fallocate", "fchdir", "fchown", "fchownat", "fcntl", "fdatasync",
    "fgetxattr", "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync",
    "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "lchown", "lgetxattr",
    "link", "linkat", "listxattr", "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat",
    "newfstatat", "pipe", "pipe2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev",
    "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "removexattr", "rename",
    "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "splice", "stat", "statfs", "statx",
    "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "tee", "truncate", "umask",
    "unlink", "unlinkat", "utime", "utimensat", "utimes", "write", "writev",
    /* watching files */
    "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
    /* memory */
    "brk", "madvise", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mlockall",
    "mmap", "mprotect", "mremap", "msync", "munlock", "munlockall", "munmap", "pkey_alloc",
    "pkey_free", "pkey_mprotect", "shmat", "shmctl", "shmdt", "shmget",
    /* processes and threads; some flags of clone, unshare and the modes are refused below */
    "arch_prctl", "capget", "clone", "execve", "execveat", "exit", "exit_group", "fork", "futex",
    "futex_waitv", "get_robust_list", "get_thread_area", "getcpu", "getegid", "geteuid", "getgid",
    "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid", "getresuid",
    "getrlimit", "getrusage", "getsid", "gettid", "getuid", "kill", "pidfd_open",
    "pidfd_send_signal", "prctl", "prlimit64", "rseq", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
    "sched_setparam", "sched_setscheduler", "sched_yield", "set_robust_list", "set_thread_area",
    "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups", "setpgid", "setpriority",
    "setregid", "setresgid", "setresuid", "setreuid", "setrlimit", "setsid", "setuid", "sysinfo",
    "tgkill", "times", "tkill", "uname", "unshare", "vfork", "wait4", "waitid", "waitpid",
    /* signals */
    "pause", "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
    "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "sigaltstack", "signalfd", "signalfd4",
    /* time, timers and waiting */
    "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "epoll_create", "epoll_create1",
    "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "getitimer",
    "gettimeofday", "nanosleep", "poll", "ppoll", "pselect6", "select", "setitimer", "time",
    "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
    "timerfd_create", "timerfd_gettime", "timerfd_settime",
    /* sockets, within a network of their own; making one is narrowed below */
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    /* between processes of one sandbox */
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
    "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop",
    /* the rest */
    "getrandom", "ioctl", "ioprio_get", "ioprio_set", "io_cancel", "io_destroy", "io_getevents",
    "io_pgetevents", "io_setup", "io_submit", "landlock_add_rule", "landlock_create_ruleset",
    "landlock_restrict_self", "seccomp"};

/* What a program may try and must not get; EPERM, so that the reason is plain to see. */
static const char *const refused[] = {
    /* looking into other processes, and taking their descriptors: also of our first process */
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease",
    "kcmp", "pidfd_getfd",
    /* the shape of what it sees */
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "setns", "swapon", "swapoff",
    /* files by number instead of by name lead past every mount */
    "open_by_handle_at", "name_to_handle_at",
    /* keys belong to a user, and users are not all within one namespace */
    "add_key", "keyctl", "request_key",
    /* the kernel's own programs and counters: large, and a way to its memory */
    "bpf", "perf_event_open", "userfaultfd", "lookup_dcookie", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "create_module",
    /* the machine */
    "reboot", "syslog", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "stime", "sethostname", "setdomainname", "iopl", "ioperm",
    "vhangup", "nfsservctl", "uselib", "_sysctl", "sysfs", "ustat", "personality", "modify_ldt",
    "vm86", "vm86old",
    /* other machines' memory, other programs' pages */
    "mbind", "migrate_pages", "move_pages", "set_mempolicy", "vmsplice", "remap_file_pages",
    /* a listener for everything that happens to files, on the machine's file systems */
    "fanotify_init", "fanotify_mark"};

/*
 * Not listed on purpose: clone3 and openat2, which hide their arguments where no filter can look,
 * and io_uring, which works past one.  The library falls back to clone and openat.
 */
#define SPACES                                                                         \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	    CLONE_NEWPID | CLONE_NEWNET | 0x80 /* CLONE_NEWTIME */)
#define SETID (S_ISUID | S_ISGID)

/* Where one of these bits is set in an argument, the call fails with EPERM. */
static const struct bits {
	const char *name;
	unsigned arg;
	uint64_t bits;
} bits[] = {
    /* no namespaces within: they are the way to most faults of kernels */
    {"clone", 0, SPACES}, {"unshare", 0, SPACES},
    /* files that give others the rights of their owner outlive the sandbox */
    {"chmod", 1, SETID}, {"fchmod", 1, SETID}, {"fchmodat", 2, SETID}, {"creat", 1, SETID},
    {"open", 2, SETID}, {"openat", 3, SETID}, {"mknod", 1, SETID}, {"mknodat", 2, SETID}};

/* Requests of ioctl that type into a terminal, or change how it is read. */
static const uint64_t typing[] = {TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS};

/* Calls that are allowed where an argument, under a mask, has a value. */
static const struct narrow {
	const char *name;
	unsigned arg;
	uint64_t mask, value;
} narrow[] = {
    /* the families that a network of its own holds in: not those to a hypervisor, a card, a radio
     */
    {"socket", 0, 0xffffffff, AF_UNIX}, {"socket", 0, 0xffffffff, AF_INET},
    {"socket", 0, 0xffffffff, AF_INET6}, {"socketpair", 0, 0xffffffff, AF_UNIX},
    /* files that are no devices */
    {"mknod", 1, S_IFMT, S_IFREG}, {"mknod", 1, S_IFMT, S_IFIFO}, {"mknod", 1, S_IFMT, S_IFSOCK},
    {"mknod", 1, S_IFMT, 0}, {"mknodat", 2, S_IFMT, S_IFREG}, {"mknodat", 2, S_IFMT, S_IFIFO},
    {"mknodat", 2, S_IFMT, S_IFSOCK}, {"mknodat", 2, S_IFMT, 0}};

struct maker {
	scmp_filter_ctx ctx;
	int rc;
};

/* Return the number of a call, or -1 where this architecture has no such call. */
static int
number_of(const char *name)
{
	int number = seccomp_syscall_resolve_name(name);

	return number < 0 ? -1 : number;
}

static void
add(struct maker *m, uint32_t action, const char *name, unsigned n, const struct scmp_arg_cmp *cmp)
{
	int number = number_of(name);

	if (m->rc == 0 && number != -1)
		m->rc = seccomp_rule_add_array(m->ctx, action, number, n, cmp);
}

static void
add_names(struct maker *m, uint32_t action, const char *const *names, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		add(m, action, names[i], 0, NULL);
}

static void
add_narrow(struct maker *m)
{
	struct scmp_arg_cmp cmp;
	size_t i;

	for (i = 0; i < LENGTH(narrow); i++) {
		cmp = (struct scmp_arg_cmp){.arg = narrow[i].arg,
		    .op = SCMP_CMP_MASKED_EQ,
		    .datum_a = narrow[i].mask,
		    .datum_b = narrow[i].value};
		add(m, SCMP_ACT_ALLOW, narrow[i].name, 1, &cmp);
	}
}

/* Which addresses there are: getaddrinfo asks. */
static void
add_route(struct maker *m)
{
	const struct scmp_arg_cmp route[] = {
	    {.arg = 0, .op = SCMP_CMP_MASKED_EQ, .datum_a = 0xffffffff, .datum_b = AF_NETLINK},
	    {.arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = 0xffffffff, .datum_b = NETLINK_ROUTE}};

	add(m, SCMP_ACT_ALLOW, "socket", 2, route);
}

/* The list. */
static void
fill_list(struct maker *m)
{
	add_names(m, SCMP_ACT_ALLOW, allowed, LENGTH(allowed));
	add_names(m, SCMP_ACT_ERRNO(EPERM), refused, LENGTH(refused));
	add_narrow(m);
	add_route(m);
}

/* What is bad about calls that are on the list.  The kernel looks at 32 bits of each. */
static void
fill_bits(struct maker *m)
{
	struct scmp_arg_cmp cmp = {.op = SCMP_CMP_MASKED_EQ};
	uint64_t bit;
	size_t i;

	for (i = 0; i < LENGTH(bits); i++)
		for (bit = 1; bit <= bits[i].bits; bit <<= 1) {
			if ((bits[i].bits & bit) == 0)
				continue;
			cmp.arg = bits[i].arg;
			cmp.datum_a = cmp.datum_b = bit;
			add(m, SCMP_ACT_ERRNO(EPERM), bits[i].name, 1, &cmp);
		}
	cmp.arg = 1;
	cmp.datum_a = 0xffffffff;
	for (i = 0; i < LENGTH(typing); i++) {
		cmp.datum_b = typing[i];
		add(m, SCMP_ACT_ERRNO(EPERM), "ioctl", 1, &cmp);
	}
}

static int
make(struct sock_fprog *prog, uint32_t otherwise, void (*fill)(struct maker *))
{
	struct maker m = {.ctx = seccomp_init(otherwise)};

	if (m.ctx == NULL)
		return -1;
	m.rc = seccomp_attr_set(m.ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	seccomp_attr_set(m.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	fill(&m);
	if (m.rc == 0)
		m.rc = seal_export(m.ctx, prog);
	seccomp_release(m.ctx);
	return m.rc == 0 ? 0 : -1;
}

/* Print the filter ${number}.  Return 0 or -1. */
static int
print(int number, uint32_t otherwise, void (*fill)(struct maker *))
{
	struct sock_fprog prog;
	size_t i;

	if (make(&prog, otherwise, fill) != 0)
		return -1;
	printf("static struct sock_filter filter%d[] = {\n", number);
	for (i = 0; i < prog.len; i++)
		printf("    {0x%04x, %u, %u, 0x%08x},\n", prog.filter[i].code, prog.filter[i].jt,
		    prog.filter[i].jf, prog.filter[i].k);
	printf("};\n\n");
	free(prog.filter);
	return 0;
}

int
main(void)
{
	printf("/* Made by engine/worker/gen/sandbox_filter.c. */\n"
	       "#include \"engine/worker/sandbox_job.h\"\n\n");
	if (print(0, SCMP_ACT_ERRNO(ENOSYS), fill_list) != 0 ||
	    print(1, SCMP_ACT_ALLOW, fill_bits) != 0) {
		fputs("the filter of system calls cannot be made\n", stderr);
		return 1;
	}
	printf("const struct sock_fprog sandbox_filter[SANDBOX_FILTERS] = {\n"
	       "    {sizeof(filter0) / sizeof(filter0[0]), filter0},\n"
	       "    {sizeof(filter1) / sizeof(filter1[0]), filter1},\n"
	       "};\n");
	return fflush(stdout) == 0 ? 0 : 1;
}
