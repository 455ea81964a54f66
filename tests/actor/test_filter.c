/* test_filter.c: which system calls are left behind the filter, each really made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/bpf.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/filter.h"
#include "engine/actor/identity.h"
#include "engine/store/store.h"
#include "tests/scratch.h"

/* Return the wait status of ${fn}(${arg}) in a child behind the filter. */
static int
behind(int (*fn)(const void *arg), const void *arg)
{
	struct refusal r = {0};
	int status;
	pid_t pid;

	if ((pid = fork()) == 0) {
		if (filter_install(&r) == -1) {
			fprintf(stderr, "%s: %s\n", r.code, r.why);
			_exit(99);
		}
		_exit(fn(arg));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* A call with up to five arguments. */
struct call {
	const char *name;
	long number, arg[5];
};

/* Return 0 where the call fails as the filter makes it fail. */
static int
is_refused(const void *arg)
{
	const struct call *c = arg;

	errno = 0;
	if (syscall(c->number, c->arg[0], c->arg[1], c->arg[2], c->arg[3], c->arg[4]) != -1)
		return 1;
	return errno == EPERM ? 0 : 2;
}

static int
is_made(const void *arg)
{
	const struct call *c = arg;

	return syscall(c->number, c->arg[0], c->arg[1], c->arg[2], c->arg[3], c->arg[4]) == -1 ? 1
											       : 0;
}

/* What only an attacker calls ends the process. */
static void
deadly_calls(void **state)
{
	static const struct call calls[] = {
	    {"ptrace", SYS_ptrace, {PTRACE_TRACEME}},
	    {"execve", SYS_execve, {0}},
	    {"execveat", SYS_execveat, {-1}},
	    {"mount", SYS_mount, {0}},
	    {"umount2", SYS_umount2, {0}},
	    {"pivot_root", SYS_pivot_root, {0}},
	    {"chroot", SYS_chroot, {0}},
	    {"process_vm_readv", SYS_process_vm_readv, {1}},
	    {"process_vm_writev", SYS_process_vm_writev, {1}},
	    {"init_module", SYS_init_module, {0}},
	    {"kexec_load", SYS_kexec_load, {0}},
	    {"open_by_handle_at", SYS_open_by_handle_at, {-1}},
	};
	size_t i;
	int status;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		status = behind(is_made, &calls[i]);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("%s does not kill: status %x", calls[i].name, (unsigned)status);
	}
}

/* What is not on the list fails with EPERM, although without the filter it would be answered. */
static void
refused_calls(void **state)
{
	static const struct call calls[] = {
	    {"keyctl", SYS_keyctl, {0}},
	    {"add_key", SYS_add_key, {0}},
	    {"request_key", SYS_request_key, {0}},
	    {"bpf", SYS_bpf, {BPF_PROG_LOAD}},
	    {"io_uring_setup", SYS_io_uring_setup, {1}},
	    {"unshare", SYS_unshare, {CLONE_NEWUSER}},
	    {"setns", SYS_setns, {-1}},
	    {"setuid", SYS_setuid, {0}},
	    {"setresuid", SYS_setresuid, {-1, -1, -1}},
	    {"setresgid", SYS_setresgid, {-1, -1, -1}},
	    {"setgroups", SYS_setgroups, {0}},
	    {"capset", SYS_capset, {0}},
	    {"personality", SYS_personality, {0xffffffff}},
	    {"userfaultfd", SYS_userfaultfd, {0}},
	    {"perf_event_open", SYS_perf_event_open, {0}},
	    {"fanotify_init", SYS_fanotify_init, {0}},
	    {"seccomp", SYS_seccomp, {0}},
	    {"setsid", SYS_setsid, {0}},
	    {"setpriority: a process", SYS_setpriority, {PRIO_PROCESS, 1, 5}},
	    {"setpriority: a user", SYS_setpriority, {PRIO_USER, 0, 5}},
	    {"acct", SYS_acct, {0}},
	    {"sethostname", SYS_sethostname, {0}},
	    {"mknodat", SYS_mknodat, {-1}},
	    {"symlinkat", SYS_symlinkat, {0}},
	    {"pidfd_getfd", SYS_pidfd_getfd, {-1}},
	    {"pidfd_send_signal", SYS_pidfd_send_signal, {-1}},
	    {"name_to_handle_at", SYS_name_to_handle_at, {-1}},
	    {"clone: a process", SYS_clone, {SIGCHLD}},
	    {"clone: a namespace", SYS_clone, {CLONE_THREAD | CLONE_NEWUSER}},
	    {"kill: a signal", SYS_kill, {1, SIGTERM}},
	    {"tgkill: another", SYS_tgkill, {1, 1, SIGTERM}},
	    {"prctl: dumpable", SYS_prctl, {PR_SET_DUMPABLE, 1}},
	    {"prctl: death signal", SYS_prctl, {PR_SET_PDEATHSIG, 0}},
	    {"ioctl: type for the user", SYS_ioctl, {0, TIOCSTI}},
	    {"socket: packet", SYS_socket, {AF_PACKET, SOCK_RAW}},
	    {"socket: vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM}},
	    {"socket: alg", SYS_socket, {AF_ALG, SOCK_SEQPACKET}},
	    {"prlimit64: set", SYS_prlimit64, {0, RLIMIT_CORE, 1}},
	};
	size_t i;
	int status;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if ((status = behind(is_refused, &calls[i])) != 0)
			fail_msg("%s is not refused: status %x", calls[i].name, (unsigned)status);
}

static void *
thread_main(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

/* Return 0, or which step could not be done. */
static int
daily_work(const void *arg)
{
	struct sockaddr_storage addr = {.ss_family = AF_INET};
	socklen_t len = sizeof(addr);
	struct identity me;
	struct rlimit limit;
	pthread_t thread;
	unsigned char *guarded;
	int fd, ran = 0;

	(void)arg;
	if (pthread_create(&thread, NULL, thread_main, &ran) != 0 ||
	    pthread_join(thread, NULL) != 0 || ran != 1)
		return 1;
	if ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) == -1 ||
	    bind(fd, (const struct sockaddr *)(const void *)&addr, sizeof(struct sockaddr)) != 0 ||
	    listen(fd, 1) != 0 || getsockname(fd, (struct sockaddr *)(void *)&addr, &len) != 0 ||
	    close(fd) != 0)
		return 2;
	if (epoll_create1(EPOLL_CLOEXEC) == -1 || inotify_init1(IN_CLOEXEC) == -1 ||
	    timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC) == -1)
		return 3;
	if ((guarded = sodium_malloc(32)) == NULL || sodium_mprotect_readonly(guarded) != 0)
		return 4;
	sodium_free(guarded);
	if (identity_of(getpid(), &me) == -1 ||
	    !identity_alive(me.boot_id, me.pid, me.start_ticks) || kill(getppid(), 0) != 0)
		return 5;
	if (prctl(PR_SET_NAME, "toy", 0, 0, 0) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
	    setpriority(PRIO_PROCESS, 0, 1) != 0)
		return 6;
	return 0;
}

/* Threads, sockets, guarded memory, waiting: what actors do all day works. */
static void
work_goes_on(void **state)
{
	(void)state;
	assert_true(sodium_init() >= 0);
	assert_int_equal(behind(daily_work, NULL), 0);
}

/* abort() still ends with a core-worthy signal, not in an endless loop. */
static int
gives_up(const void *arg)
{
	(void)arg;
	abort();
}

static void
abort_works(void **state)
{
	int status;

	(void)state;
	status = behind(gives_up, NULL);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* The store from its opening on: gate, log, bell, a transaction, a checkpoint. */
static int
uses_the_store(const void *arg)
{
	const struct scratch *s = arg;
	struct refusal r = {0};
	struct store *db;
	struct home home;

	if (home_at(&home, s->home.state, s->home.run, HOME_BOX, false, &r) == -1 ||
	    (db = store_open(&home, ROLE_PERSON, NULL, &r)) == NULL) {
		fprintf(stderr, "%s: %s\n", r.code, r.why);
		return 1;
	}
	store_acting(db, "test:filter");
	if (store_bell(db) == -1 || store_begin(db) == -1 ||
	    stmt_run(store_sql(db, "UPDATE setting SET value = 11 WHERE name = 'op.live'")) == -1 ||
	    store_commit(db) == -1) {
		fprintf(stderr, "%s: %s\n", store_refusal(db)->code, store_refusal(db)->why);
		return 2;
	}
	store_close(db);
	home_close(&home);
	return 0;
}

static void
store_works(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	/* Closed, so that no connection is carried over the fork. */
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(behind(uses_the_store, &s), 0);
	assert_int_equal(scratch_value(&s, "SELECT value FROM setting WHERE name = 'op.live'"), 11);
	scratch_drop(&s);
}

/* Names are looked up as ever: /etc/hosts, the resolver's sockets, netlink. */
static int
resolves(const void *arg)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;

	(void)arg;
	if (getaddrinfo("localhost", "80", &hints, &found) != 0)
		return 1;
	freeaddrinfo(found);
	return 0;
}

static void
names_resolve(void **state)
{
	(void)state;
	assert_int_equal(behind(resolves, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(deadly_calls),
	    cmocka_unit_test(refused_calls),
	    cmocka_unit_test(work_goes_on),
	    cmocka_unit_test(abort_works),
	    cmocka_unit_test(store_works),
	    cmocka_unit_test(names_resolve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
