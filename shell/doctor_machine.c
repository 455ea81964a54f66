/* doctor_machine.c: what the machine has to have: limits, a clock, a kernel, a way to confine. */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/sandbox_backend.h"
#include "shell/doctor_part.h"

#define SPARE_FILES 128 /* descriptors that a daemon needs beside its connections */

/* What the process that may need the most needs for connections, and the setting that says so.
 * (What is carried to the internet has two ends.) */
static const char WANTS[] =
    "SELECT name, n FROM (SELECT name, value AS n FROM setting WHERE name = 'http.connections'"
    " UNION ALL SELECT 'egress.connections', sum(value) FROM setting"
    "  WHERE name IN ('egress.connections', 'egress.live') AND (SELECT role FROM box) = 'box')"
    " ORDER BY n DESC LIMIT 1";

static void
look_files(struct doctor *d)
{
	char advice[128] = "raise LimitNOFILE of the unit";
	struct rlimit limit;
	int64_t wanted = SPARE_FILES;
	struct stmt *q;

	if (d->cli->db != NULL && (q = store_sql(d->cli->db, WANTS)) != NULL) {
		if (stmt_step(q) == 1) {
			wanted += stmt_get_int(q, 1);
			snprintf(advice, sizeof(advice),
			    "raise LimitNOFILE of the unit, or lower the setting %s",
			    stmt_get_text(q, 0));
		}
		stmt_done(q);
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_max == RLIM_INFINITY || (int64_t)limit.rlim_max >= wanted)
		doctor_note(d, "descriptors", DOCTOR_OK, "", "a process may have %" PRIu64,
		    (uint64_t)limit.rlim_max);
	else
		doctor_note(d, "descriptors", DOCTOR_WARN, advice,
		    "a process may have %" PRIu64 ", and the connections allowed want %" PRId64,
		    (uint64_t)limit.rlim_max, wanted);
}

static void
look_clock(struct doctor *d)
{
	struct timex tx = {.modes = 0};

	if (adjtimex(&tx) == -1 || (tx.status & STA_UNSYNC) != 0)
		doctor_note(d, "clock", DOCTOR_WARN, "let NTP set it: timedatectl set-ntp true",
		    "nothing keeps it right, and codes and signed asks go by it");
	else
		doctor_note(d, "clock", DOCTOR_OK, "", "kept right by the system");
}

/* By what programs are confined here. Namespaces are made to see, in a process of its own. */
static void
look_sandbox(struct doctor *d)
{
	static char room[BACKEND_PATH_MAX];
	struct sandbox_record record;
	struct sandbox_facts facts;

	sandbox_facts(&facts, getenv("PATH"), room);
	sandbox_backend_best(&facts, &record);
	if (facts.namespaces)
		doctor_note(d, "namespaces", DOCTOR_OK, "",
		    "user, mount, pid and network namespaces can be made");
	else
		doctor_note(d, "namespaces", DOCTOR_WARN,
		    "look at user.max_user_namespaces, kernel.unprivileged_userns_clone and"
		    " kernel.apparmor_restrict_unprivileged_userns (sysctl)",
		    "this system lets this user make none");
	if (record.available)
		doctor_note(d, "sandbox", DOCTOR_OK, "", "programs are confined by the backend %s",
		    record.name);
	else
		doctor_note(d, "sandbox", DOCTOR_WARN,
		    "mend what namespaces says, or install bubblewrap",
		    "nothing can be put in a sandbox: %s",
		    record.message[0] != '\0' ? record.message : "no backend works");
}

static void
look_kernel(struct doctor *d)
{
	long landlock = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, 1U);
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0U);

	if (landlock >= 1)
		doctor_note(d, "landlock", DOCTOR_OK, "", "version %ld", landlock);
	else
		doctor_note(d, "landlock", DOCTOR_WARN,
		    "boot a kernel of 5.13 or later with landlock in lsm=",
		    "this kernel has none: sandboxes do with one layer less");
	if (prctl(PR_GET_SECCOMP, 0UL, 0UL, 0UL, 0UL) == -1)
		doctor_note(d, "seccomp", DOCTOR_BAD, "boot a kernel with CONFIG_SECCOMP_FILTER",
		    "this kernel filters no system calls, and actors begin behind such a filter");
	if (pidfd == -1)
		doctor_note(d, "pidfd", DOCTOR_BAD, "boot a kernel of 5.3 or later",
		    "this kernel cannot name a process for good");
	else
		close(pidfd);
}

static void
look_cgroups(struct doctor *d)
{
	char text[512] = "";
	FILE *f;

	if ((f = fopen("/sys/fs/cgroup/cgroup.controllers", "re")) != NULL) {
		if (fgets(text, sizeof(text), f) == NULL)
			text[0] = '\0';
		fclose(f);
	}
	if (strstr(text, "pids") != NULL)
		doctor_note(d, "cgroups", DOCTOR_OK, "", "version 2, with pids");
	else if (access("/sys/fs/cgroup/pids/tasks", F_OK) == 0)
		doctor_note(d, "cgroups", DOCTOR_OK, "", "version 1, with pids");
	else
		doctor_note(d, "cgroups", DOCTOR_WARN,
		    "boot with systemd, or mount a cgroup hierarchy with pids",
		    "no hierarchy counts tasks here, so what runs is capped by rlimits alone");
}

void
doctor_machine(struct doctor *d)
{
	look_files(d);
	look_clock(d);
	look_kernel(d);
	look_sandbox(d);
	look_cgroups(d);
}
