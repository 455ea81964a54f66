/* seal.c: "a question changes nothing", enforced by the kernel. */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/seccomp.h"
#include "engine/worker/seal.h"

/* Numbers that are the same on every machine, newer than libseccomp 2.5. */
#define CALL_FCHMODAT2     452
#define CALL_SETXATTRAT    463
#define CALL_REMOVEXATTRAT 466
#define CALL_FILE_SETATTR  469

/* What changes the machine. */
static const int writers[] = {
    SCMP_SYS(creat),
    SCMP_SYS(mknod),
    SCMP_SYS(mknodat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(rmdir),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(link),
    SCMP_SYS(linkat),
    SCMP_SYS(symlink),
    SCMP_SYS(symlinkat),
    SCMP_SYS(truncate),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),
    SCMP_SYS(chmod),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(chown),
    SCMP_SYS(fchown),
    SCMP_SYS(lchown),
    SCMP_SYS(fchownat),
    SCMP_SYS(utime),
    SCMP_SYS(utimes),
    SCMP_SYS(futimesat),
    SCMP_SYS(utimensat),
    SCMP_SYS(setxattr),
    SCMP_SYS(lsetxattr),
    SCMP_SYS(fsetxattr),
    SCMP_SYS(removexattr),
    SCMP_SYS(lremovexattr),
    SCMP_SYS(fremovexattr),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(reboot),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(acct),
    SCMP_SYS(quotactl),
    SCMP_SYS(add_key),
    SCMP_SYS(keyctl),
    SCMP_SYS(shmget),
    SCMP_SYS(msgget),
    SCMP_SYS(semget),
    SCMP_SYS(mq_open),
    SCMP_SYS(mq_unlink),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    CALL_FCHMODAT2,
    CALL_SETXATTRAT,
    CALL_REMOVEXATTRAT,
    CALL_FILE_SETATTR,
};

/* What hides its flags from a filter, or works behind one; callers know how to do without. */
static const int hiders[] = {
    SCMP_SYS(openat2),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsmount),
    SCMP_SYS(fspick),
    SCMP_SYS(move_mount),
    SCMP_SYS(open_tree),
    SCMP_SYS(mount_setattr),
};

static int
add_list(
    const struct seccomp_library *lib, scmp_filter_ctx ctx, const int *calls, size_t n, int error)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (lib->rule_add(ctx, SCMP_ACT_ERRNO((uint16_t)error), calls[i], 0) != 0)
			return -1;
	}
	return 0;
}

/* Refuse every way to open for writing; the flags are argument ${arg} of ${call}. */
static int
add_open(const struct seccomp_library *lib, scmp_filter_ctx ctx, int call, unsigned arg)
{
	static const struct {
		uint64_t mask;
		uint64_t value;
	} flags[] = {
	    {O_ACCMODE, O_WRONLY},
	    {O_ACCMODE, O_RDWR},
	    {O_ACCMODE, O_ACCMODE},
	    {O_CREAT, O_CREAT},
	    {O_TRUNC, O_TRUNC},
	};
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (lib->rule_add(ctx, SCMP_ACT_ERRNO(EROFS), call, 1,
			SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, flags[i].mask, flags[i].value)) != 0)
			return -1;
	}
	return 0;
}

/* Read the compiled rules back from the file that libseccomp wrote them to. */
static int
read_rules(int fd, struct sock_fprog *prog)
{
	struct stat st;
	size_t len;

	if (fstat(fd, &st) == -1 || st.st_size <= 0)
		return -1;
	len = (size_t)st.st_size;
	if (len % sizeof(struct sock_filter) != 0 ||
	    len / sizeof(struct sock_filter) > BPF_MAXINSNS)
		return -1;
	if ((prog->filter = malloc(len)) == NULL)
		return -1;
	if (pread(fd, prog->filter, len, 0) != (ssize_t)len) {
		free(prog->filter);
		return -1;
	}
	prog->len = (unsigned short)(len / sizeof(struct sock_filter));
	return 0;
}

int
seal_export(void *ctx, struct sock_fprog *prog)
{
	const struct seccomp_library *lib = seccomp_library(NULL);
	int fd, rc = -1;

	if (lib == NULL || (fd = memfd_create("seal", MFD_CLOEXEC)) == -1)
		return -1;
	if (lib->export_bpf(ctx, fd) == 0)
		rc = read_rules(fd, prog);
	close(fd);
	return rc;
}

int
seal_build(struct sock_fprog *prog)
{
	const struct seccomp_library *lib = seccomp_library(NULL);
	scmp_filter_ctx ctx;
	int rc = -1;

	if (lib == NULL || (ctx = lib->init(SCMP_ACT_ALLOW)) == NULL)
		return -1;
	/* A tree instead of a list: every call of a walk passes here. */
	lib->attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (add_list(lib, ctx, writers, sizeof(writers) / sizeof(writers[0]), EROFS) == 0 &&
	    add_list(lib, ctx, hiders, sizeof(hiders) / sizeof(hiders[0]), ENOSYS) == 0 &&
	    add_open(lib, ctx, SCMP_SYS(open), 1) == 0 &&
	    add_open(lib, ctx, SCMP_SYS(openat), 2) == 0)
		rc = seal_export(ctx, prog);
	lib->release(ctx);
	return rc;
}

int
seal_apply(const struct sock_fprog *prog)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, prog);
}
